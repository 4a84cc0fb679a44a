//! Which way collective operations go, as `NEARMPI_COLLECTIVES` and `nearmpi-tune` say it: the words and their grammar.
//! What the ways are, and which one is taken where nobody says, is in `mpi/coll/choice.rs`.
//!
//! ```text
//!  allreduce@2: shown<=256K offered; bcast@3-8 crowded: shown<=64K tree<=1M parts; alltoall: pairs
//!  operation[@ranks] [roomy|crowded]: way[<=bytes] ... ; ...
//! ```
//! A rule counts for communicators of so many ranks (`8`, `3-8`, `3-`; without: any), in jobs whose ranks have a CPU each
//! (`roomy`) or share CPUs (`crowded`). Its ways are tried in turn: the first whose bound is not exceeded and that is able
//! is taken; what none of them takes goes the usual way by messages. Ways by messages may stand anywhere behind `shown`.
//! Of two rules for the same case the later one counts.

use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$each])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// The word for it.
            pub fn word(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }
    };
}

words! {
    /// What is chosen for; operations with `v` or `w` go with those without, `MPI_Exscan` with `MPI_Scan`.
    Operation {
        /// `MPI_Barrier`.
        Barrier "barrier",
        /// `MPI_Bcast`.
        Bcast "bcast",
        /// `MPI_Reduce`.
        Reduce "reduce",
        /// `MPI_Allreduce`.
        Allreduce "allreduce",
        /// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`.
        ReduceScatter "reduce_scatter",
        /// `MPI_Scan` and `MPI_Exscan`.
        Scan "scan",
        /// `MPI_Gather` and `MPI_Gatherv`.
        Gather "gather",
        /// `MPI_Scatter` and `MPI_Scatterv`.
        Scatter "scatter",
        /// `MPI_Allgather` and `MPI_Allgatherv`.
        Allgather "allgather",
        /// `MPI_Alltoall` and its kin.
        Alltoall "alltoall",
    }
}

words! {
    /// How it goes. All but the first four are by messages.
    Way {
        /// Through boards in shared memory.
        Shown "shown",
        /// One of shown and offered: the one that proves quicker while the program runs.
        Learnt "learnt",
        /// Through boards, from rank to rank: each reduces what it gets with what it has, and hands that on.
        Handed "handed",
        /// Copied once by whoever needs it.
        Offered "offered",
        /// All to one rank, which answers.
        Flat "flat",
        /// Along a binomial tree.
        Tree "tree",
        /// In parts that are scattered, then gathered around a ring.
        Parts "parts",
        /// Exchanged at doubling distances.
        Doubling "doubling",
        /// Each rank reduces a part, by halves.
        Halves "halves",
        /// Straight between the root and each rank.
        Linear "linear",
        /// Blocks of equal size, forwarded at doubling distances.
        Bruck "bruck",
        /// Straight to each rank at once.
        Spread "spread",
        /// Around a ring.
        Ring "ring",
        /// Between the ranks in pairs.
        Pairs "pairs",
    }
}

impl Way {
    /// Whether it is a schedule of messages.
    pub fn is_by_messages(self) -> bool {
        !matches!(self, Way::Shown | Way::Learnt | Way::Handed | Way::Offered)
    }
}

impl Operation {
    /// What `bytes` are in its rules.
    pub fn measure(self) -> &'static str {
        match self {
            Operation::Barrier => "none",
            Operation::Bcast => "bytes of the message",
            Operation::Reduce | Operation::Allreduce | Operation::Scan => "bytes of the vector",
            Operation::ReduceScatter => "bytes of all blocks",
            Operation::Gather => "bytes of a block",
            Operation::Allgather => "bytes of the largest block",
            Operation::Scatter | Operation::Alltoall => "bytes of all blocks for others",
        }
    }

    /// The ways it can go, in the order that a rule names them in.
    pub fn ways(self) -> &'static [Way] {
        use Way::*;
        match self {
            Operation::Barrier => &[Flat, Doubling],
            Operation::Bcast => &[Shown, Learnt, Offered, Tree, Parts],
            Operation::Reduce => &[Shown, Learnt, Handed, Offered, Flat, Tree, Halves],
            Operation::Allreduce => &[Shown, Handed, Offered, Flat, Doubling, Halves],
            Operation::ReduceScatter => &[Shown, Offered, Pairs],
            Operation::Scan => &[Shown, Offered, Doubling],
            Operation::Gather => &[Shown, Learnt, Offered, Tree, Linear],
            Operation::Scatter => &[Shown, Learnt, Offered, Tree, Linear],
            Operation::Allgather => &[Shown, Learnt, Offered, Bruck, Spread, Ring],
            Operation::Alltoall => &[Shown, Learnt, Offered, Bruck, Pairs],
        }
    }
}

/// A way, and up to how many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The way.
    pub way: Way,
    /// Most bytes; `usize::MAX`: any number.
    pub most: usize,
}

/// What to do in which case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Of which operation it speaks.
    pub operation: Operation,
    /// Of communicators of so many ranks: least and most.
    pub ranks: (usize, usize),
    /// Of jobs whose ranks share CPUs (`true`) or not; `None`: of both.
    pub crowded: Option<bool>,
    /// The ways, in order.
    pub steps: Vec<Step>,
}

/// Rules as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Their text.
    pub text: String,
    /// The rules in it.
    pub rules: Vec<Rule>,
}

/// Bytes that a text of rules may have: each rank keeps it where the others can read it.
pub const ROOM: usize = 1536;

impl Rules {
    /// Reads rules.
    ///
    /// # Errors
    /// A sentence that names the rule and what is wrong with it.
    pub fn read(text: &str) -> Result<Rules, String> {
        let text = text.trim();
        if text.len() > ROOM {
            return Err(format!("{} bytes of rules: at most {ROOM}", text.len()));
        }
        let written = text.split(';').map(str::trim).filter(|rule| !rule.is_empty());
        let rules = written.map(|rule| Rule::read(rule).map_err(|wrong| format!("\"{rule}\": {wrong}")));
        Ok(Rules {
            text: text.into(),
            rules: rules.collect::<Result<_, _>>()?,
        })
    }

    /// The last rule for `operation` among `ranks` ranks.
    pub fn find(&self, operation: Operation, ranks: usize, crowded: bool) -> Option<&Rule> {
        self.rules.iter().rev().find(|rule| {
            rule.operation == operation
                && (rule.ranks.0..=rule.ranks.1).contains(&ranks)
                && rule.crowded.is_none_or(|only| only == crowded)
        })
    }
}

impl Rule {
    fn read(text: &str) -> Result<Rule, String> {
        let (case, ways) = text.split_once(':').ok_or("no colon behind the operation")?;
        let mut words = case.split_whitespace();
        let first = words.next().ok_or("no operation")?;
        let (name, ranks) = first
            .split_once('@')
            .map_or((first, None), |(name, ranks)| (name, Some(ranks)));
        let mut operations = Operation::ALL.iter().copied();
        let operation = operations.find(|one| one.word() == name).ok_or_else(|| {
            let all = list(Operation::ALL.iter().map(|one| one.word()));
            format!("{name} is none of {all}")
        })?;
        let crowded = match words.next() {
            None => None,
            Some("crowded") => Some(true),
            Some("roomy") => Some(false),
            Some(word) => return Err(format!("{word} is neither roomy nor crowded")),
        };
        if let Some(word) = words.next() {
            return Err(format!("{word} before the colon"));
        }
        let steps: Vec<Step> = ways
            .split_whitespace()
            .map(|word| Step::read(word, operation))
            .collect::<Result<_, _>>()?;
        let order = |step: &Step| operation.ways().iter().position(|&way| way == step.way);
        let sorted = |messages: bool| {
            let ways = steps.iter().filter(|step| step.way.is_by_messages() == messages);
            ways.is_sorted_by(|one, next| order(one) < order(next))
        };
        let shown_first = steps.iter().skip(1).all(|step| step.way != Way::Shown);
        match sorted(true) && sorted(false) && shown_first {
            _ if steps.is_empty() => Err("no way behind the colon".into()),
            false => Err(format!(
                "the ways of {name} go in this order, each once: {}; those by messages may come anywhere behind shown",
                list(operation.ways().iter().map(|way| way.word()))
            )),
            true => Ok(Rule {
                operation,
                ranks: ranks.map_or(Ok((1, usize::MAX)), |ranks| {
                    read_ranks(ranks).ok_or_else(|| format!("@{ranks} is not like @8, @3-8 or @3-"))
                })?,
                crowded,
                steps,
            }),
        }
    }
}

fn read_ranks(text: &str) -> Option<(usize, usize)> {
    let number = |text: &str| text.parse().ok().filter(|&ranks: &usize| ranks > 0);
    let (least, most) = match text.split_once('-') {
        None => (number(text)?, number(text)?),
        Some((least, "")) => (number(least)?, usize::MAX),
        Some((least, most)) => (number(least)?, number(most)?),
    };
    (least <= most).then_some((least, most))
}

impl Step {
    fn read(text: &str, operation: Operation) -> Result<Step, String> {
        let (word, most) = text
            .split_once("<=")
            .map_or((text, None), |(word, most)| (word, Some(most)));
        let way = operation.ways().iter().copied().find(|way| way.word() == word);
        let way = way.ok_or_else(|| {
            let ways = list(operation.ways().iter().map(|way| way.word()));
            format!("{word} is no way of {}, which are {ways}", operation.word())
        })?;
        let bytes = |text: &str| {
            let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
            let shift = match &text[end..] {
                "" => 0,
                "K" | "k" => 10,
                "M" | "m" => 20,
                "G" | "g" => 30,
                _ => return None,
            };
            text[..end].parse::<usize>().ok()?.checked_mul(1 << shift)
        };
        match most {
            None => Ok(Step { way, most: usize::MAX }),
            Some(most) => match bytes(most) {
                Some(most) => Ok(Step { way, most }),
                None => Err(format!("{most} is no number of bytes such as 4096, 64K or 1M")),
            },
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.operation.word())?;
        match self.ranks {
            (1, usize::MAX) => Ok(()),
            (least, usize::MAX) => write!(to, "@{least}-"),
            (least, most) if least == most => write!(to, "@{least}"),
            (least, most) => write!(to, "@{least}-{most}"),
        }?;
        to.write_str(match self.crowded {
            None => ":",
            Some(true) => " crowded:",
            Some(false) => " roomy:",
        })?;
        self.steps.iter().try_for_each(|step| write!(to, " {step}"))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.way.word())?;
        match self.most {
            usize::MAX => Ok(()),
            most if most > 0 && most.is_multiple_of(1 << 20) => write!(to, "<={}M", most >> 20),
            most if most > 0 && most.is_multiple_of(1 << 10) => write!(to, "<={}K", most >> 10),
            most => write!(to, "<={most}"),
        }
    }
}

fn list(words: impl Iterator<Item = &'static str>) -> String {
    words.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        let rules = Rules::read(" allreduce@2: shown<=256K offered; bcast@3-8 crowded: shown<=1000 parts ;").unwrap();
        let [reduce, bcast] = rules.rules.as_slice() else {
            panic!("{rules:?}")
        };
        assert_eq!(
            (reduce.operation, reduce.ranks, reduce.crowded),
            (Operation::Allreduce, (2, 2), None)
        );
        let shown = |most| Step { way: Way::Shown, most };
        let rest = |way| Step { way, most: usize::MAX };
        assert_eq!(reduce.steps, [shown(256 << 10), rest(Way::Offered)]);
        assert_eq!((bcast.ranks, bcast.crowded), ((3, 8), Some(true)));
        assert_eq!(bcast.steps, [shown(1000), rest(Way::Parts)]);
        assert_eq!(Rules::read("").unwrap().rules, []);
    }

    #[test]
    fn the_last_rule_for_a_case_counts() {
        let rules = Rules::read("scan: doubling; scan@4-: shown; scan@9 crowded: offered").unwrap();
        let way = |ranks, crowded| rules.find(Operation::Scan, ranks, crowded).unwrap().steps[0].way;
        assert_eq!(
            [way(3, false), way(4, true), way(9, false)],
            [Way::Doubling, Way::Shown, Way::Shown]
        );
        assert_eq!(way(9, true), Way::Offered);
        assert_eq!(rules.find(Operation::Bcast, 4, false), None);
    }

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in [
            "bcast: shown<=64K tree<=3M parts",
            "bcast@8: shown<=1000",
            "scan@2-4 crowded: shown<=0",
            "barrier@5- roomy: flat",
        ] {
            assert_eq!(Rule::read(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, sentence) in [
            ("bcast shown", "\"bcast shown\": no colon behind the operation"),
            ("cast: shown", "cast is none of barrier, bcast, reduce"),
            ("bcast@0: shown", "@0 is not like"),
            ("bcast@5-4: shown", "@5-4 is not like"),
            ("bcast full: shown", "full is neither roomy nor crowded"),
            ("bcast crowded 8: shown", "8 before the colon"),
            ("bcast:", "no way behind the colon"),
            (
                "bcast: ring",
                "ring is no way of bcast, which are shown, learnt, offered, tree, parts",
            ),
            (
                "bcast: tree<=64k shown",
                "go in this order, each once: shown, learnt, offered",
            ),
            ("bcast: tree tree", "each once"),
            ("bcast: shown<=64KB", "64KB is no number of bytes"),
            ("bcast: shown<=99999999999G", "is no number of bytes"),
        ] {
            let error = Rules::read(text).unwrap_err();
            assert!(error.contains(sentence), "{error}");
        }
        assert!(
            Rules::read(&"scan: shown;".repeat(200))
                .unwrap_err()
                .contains("at most 1536")
        );
    }
}
