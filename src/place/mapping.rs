//! Binding as mpirun's options ask for it: which CPUs each rank gets.
//!
//! Ranks are *mapped* to objects of the machine (`-map-by`), may change their order (`-rank-by`), and are *bound* to
//! the object around their place (`-bind-to`). Spellings of Hydra and Open MPI are both taken; what neither says is
//! equal shares for as long as ranks fit.

use super::machine::{Kind, Machine};
use super::map;
use crate::sys::cpuset::CpuSet;

/// How ranks go over the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MapBy {
    /// One to each object of the kind in turn, `cores` cores for each rank.
    Objects {
        /// Round what.
        kind: Kind,
        /// Cores for each rank (`PE=`).
        cores: usize,
    },
    /// So many on each object (`ppr:`).
    Each {
        /// Ranks an object.
        ranks: usize,
        /// On what.
        kind: Kind,
        /// Cores for each rank.
        cores: usize,
    },
    /// As a file says.
    File(String),
}

/// What a rank is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindTo {
    /// Nothing.
    None,
    /// So many objects of the kind, beginning with the one around the rank's place.
    Objects {
        /// Of what.
        kind: Kind,
        /// How many.
        count: usize,
    },
    /// One CPU after the other, in the order of their numbers.
    RoundRobin,
    /// These, one set for each rank, and from the start again (`user:`).
    Sets(Vec<CpuSet>),
}

/// All that the options say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// `-map-by`.
    pub map: Option<MapBy>,
    /// `-bind-to`.
    pub bind: Option<BindTo>,
    /// `-rank-by`: round the objects of this kind; `Kind::Core` in the order of the machine.
    pub rank: Option<Kind>,
    /// `-cpu-set`: use these CPUs only.
    pub cpus: Option<CpuSet>,
}

fn kind(option: &str, text: &str, word: &str) -> Result<Kind, String> {
    let wrong = || {
        let known = "hwthread, core, l1cache to l5cache, numa, die, socket (package), machine (node)";
        format!("{option} {text}: {word:?} is none of {known}")
    };
    Kind::named(word).ok_or_else(wrong)
}

fn number(option: &str, text: &str, word: &str) -> Result<usize, String> {
    let number = word.parse().ok().filter(|number| (1..=1 << 16).contains(number));
    number.ok_or_else(|| format!("{option} {text}: {word:?} is not a number above 0"))
}

impl MapBy {
    /// Takes the value of `-map-by` apart: `socket`, `core:PE=2`, `:PE=2` (of slots), `ppr:2:socket:PE=3`, `file:PATH`, with Open MPI's
    /// other modifiers, which change nothing on one machine.
    ///
    /// # Errors
    /// A sentence with the value.
    pub fn parse(text: &str) -> Result<MapBy, String> {
        const OPTION: &str = "-map-by";
        if let Some(path) = text.strip_prefix("file:").or(text.strip_prefix("rankfile:file=")) {
            return Ok(MapBy::File(path.to_string()));
        }
        let mut words = text.split([':', ',']);
        let first = match words.next() {
            Some("") if text.starts_with(':') => "slot",
            word => word.unwrap_or_default(),
        };
        let pair = if first.eq_ignore_ascii_case("ppr") {
            (words.next(), words.next())
        } else {
            (None, None)
        };
        let mut cores = 1;
        for word in words {
            let upper = word.to_ascii_uppercase();
            match upper.split_once('=') {
                Some(("PE", count)) => cores = number(OPTION, text, count)?,
                None if [
                    "SPAN",
                    "OVERSUBSCRIBE",
                    "NOOVERSUBSCRIBE",
                    "NOLOCAL",
                    "HWTCPUS",
                    "CORECPUS",
                    "INHERIT",
                ]
                .contains(&upper.as_str()) => {}
                // Hydra: a number of objects.
                None if upper.parse::<usize>().is_ok() => {}
                _ => {
                    return Err(format!(
                        "{OPTION} {text}: {word:?} is not known; PE=N gives a rank N cores"
                    ));
                }
            }
        }
        match pair {
            (None, _) => Ok(MapBy::Objects {
                kind: kind(OPTION, text, first)?,
                cores,
            }),
            (Some(ranks), Some(object)) => Ok(MapBy::Each {
                ranks: number(OPTION, text, ranks)?,
                kind: kind(OPTION, text, object)?,
                cores,
            }),
            (Some(_), None) => Err(format!(
                "{OPTION} {text}: ppr takes a number and an object, as in ppr:2:socket"
            )),
        }
    }
}

impl BindTo {
    /// Takes the value of `-bind-to` apart: `none`, `rr`, `core`, `core:2`, `socket`, `user:0+2,1+3`, with Open MPI's
    /// modifiers, which change nothing here.
    ///
    /// # Errors
    /// A sentence with the value.
    pub fn parse(text: &str) -> Result<BindTo, String> {
        const OPTION: &str = "-bind-to";
        let (first, rest) = text.split_once(':').map_or((text, ""), |(first, rest)| (first, rest));
        match first {
            "none" => return Ok(BindTo::None),
            "rr" => return Ok(BindTo::RoundRobin),
            "user" => {
                let set = |part: &str| {
                    let set = CpuSet::parse(&part.replace('+', ","));
                    match set.map_err(|why| format!("{OPTION} {text}: {why}"))? {
                        empty if empty.is_empty() => Err(format!("{OPTION} {text}: a rank without CPU")),
                        set => Ok(set),
                    }
                };
                return Ok(BindTo::Sets(rest.split(',').map(set).collect::<Result<_, _>>()?));
            }
            _ => {}
        }
        let mut count = 1;
        for word in rest.split([':', ',']).filter(|word| !word.is_empty()) {
            match word {
                "overload-allowed" | "no-overload" | "if-supported" | "report" | "REPORT" => {}
                word => count = number(OPTION, text, word)?,
            }
        }
        let first = if first == "board" { "machine" } else { first };
        let kind = kind(OPTION, text, first).map_err(|why| why.replace("is none of", "is none of none, rr, user,"))?;
        Ok(BindTo::Objects { kind, count })
    }
}

/// The kind that `-rank-by` goes round.
///
/// # Errors
/// A sentence with the value.
pub fn rank_by(text: &str) -> Result<Kind, String> {
    let first = text.split(':').next().unwrap_or_default();
    match first {
        "slot" | "fill" | "span" | "node" => Ok(Kind::Core),
        word => kind("-rank-by", text, word),
    }
}

/// A rank's place before it is bound.
struct Seat {
    cpus: CpuSet,
}

/// The CPUs of each of `ranks` ranks on `machine`, which is what may be used; none for a rank that is not bound.
/// `fits`: whether there is a CPU for each rank. `read` reads a file.
///
/// # Errors
/// A sentence about what the machine has not got.
pub fn assign(
    wish: &Wish,
    machine: &Machine,
    ranks: usize,
    fits: bool,
    read: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Vec<CpuSet>, String> {
    let restricted = match &wish.cpus {
        Some(cpus) if !cpus.within(&machine.cpus()) => {
            let outside: CpuSet = cpus.iter().filter(|cpu| !machine.cpus().has(*cpu)).collect();
            return Err(format!(
                "-cpu-set {cpus}: CPUs {outside} are not there or not ours to use"
            ));
        }
        Some(cpus) => Some(machine.restricted(cpus)?),
        None => None,
    };
    let machine = restricted.as_ref().unwrap_or(machine);
    let all = if restricted.is_some() {
        machine.cpus()
    } else {
        CpuSet::default()
    };
    if let Some(MapBy::File(path)) = &wish.map {
        let sets = map::read(&read(path)?).map_err(|why| format!("-map-by file:{path}: {why}"))?;
        if sets.len() != ranks {
            return Err(format!(
                "-map-by file:{path}: the map is for {} ranks, the job has {ranks}",
                sets.len()
            ));
        }
        return usable(sets, machine, &format!("-map-by file:{path}"));
    }
    let numbered = || {
        machine
            .cpus()
            .iter()
            .map(|cpu| [cpu].into_iter().collect())
            .collect::<Vec<CpuSet>>()
    };
    match &wish.bind {
        Some(BindTo::None) => Ok(vec![all; ranks]),
        Some(BindTo::RoundRobin) => Ok(numbered().into_iter().cycle().take(ranks).collect()),
        Some(BindTo::Sets(sets)) => {
            let sets: Vec<CpuSet> = sets.iter().cycle().take(ranks).cloned().collect();
            usable(sets, machine, "-bind-to user")
        }
        None if wish.map.is_none() && wish.rank.is_none() => match fits {
            true => Ok(shares(machine, ranks)
                .into_iter()
                .map(|set| if set.is_empty() { all.clone() } else { set })
                .collect()),
            false => Ok(vec![all; ranks]),
        },
        bind => {
            let seats = ranked(wish.rank, seats(wish, machine, ranks)?, machine);
            let bound = |seat: Seat| match bind {
                Some(BindTo::Objects { kind, count }) => around(machine, *kind, *count, seat.cpus),
                _ => seat.cpus,
            };
            // Mapping alone binds as well, unless ranks have to share.
            let free = bind.is_none() && ranks > machine.places(true).len();
            Ok(seats
                .into_iter()
                .map(|seat| if free { all.clone() } else { bound(seat) })
                .collect())
        }
    }
}

/// `sets`, if all their CPUs may be used.
fn usable(sets: Vec<CpuSet>, machine: &Machine, option: &str) -> Result<Vec<CpuSet>, String> {
    let allowed = machine.cpus();
    for (rank, set) in sets.iter().enumerate() {
        if let Some(cpu) = set.iter().find(|cpu| !allowed.has(*cpu)) {
            return Err(format!(
                "{option}: CPU {cpu} of rank {rank} is not there or not ours to use ({allowed} are)"
            ));
        }
    }
    Ok(sets)
}

/// Equal shares of the cores in the order of the machine, of its hardware threads if there are fewer cores than ranks.
fn shares(machine: &Machine, ranks: usize) -> Vec<CpuSet> {
    let cores = machine.places(false);
    let places = if cores.len() >= ranks {
        cores
    } else {
        machine.places(true)
    };
    if ranks == 1 || places.len() < ranks {
        return vec![CpuSet::default(); ranks];
    }
    let cut = |rank: usize| rank * places.len() / ranks;
    (0..ranks)
        .map(|rank| places[cut(rank)..cut(rank + 1)].iter().flat_map(CpuSet::iter).collect())
        .collect()
}

/// Where each rank sits, in the order of the mapping.
fn seats(wish: &Wish, machine: &Machine, ranks: usize) -> Result<Vec<Seat>, String> {
    let (kind, cores, each) = match (&wish.map, &wish.bind) {
        (Some(MapBy::Objects { kind, cores }), _) => (*kind, *cores, None),
        (Some(MapBy::Each { ranks, kind, cores }), _) => (*kind, *cores, Some(*ranks)),
        // Hydra maps by what it binds to, and steps over as many objects.
        (_, Some(BindTo::Objects { kind, count })) if *kind >= Kind::Core => (Kind::Core, *count, None),
        (_, Some(BindTo::Objects { kind, .. })) => (*kind, 1, None),
        _ => (Kind::Core, 1, None),
    };
    let threads = kind == Kind::Pu || matches!(wish.bind, Some(BindTo::Objects { kind: Kind::Pu, .. }));
    let places = machine.places(threads);
    // One rank after the other, wherever in the machine.
    let anywhere = kind == Kind::Machine || (each.is_none() && matches!(kind, Kind::Core | Kind::Pu));
    let objects: Vec<CpuSet> = match anywhere {
        true => vec![machine.cpus()],
        false => machine.all(kind).iter().map(|object| object.cpus.clone()).collect(),
    };
    if objects.is_empty() {
        return Err(format!("this machine has no {} (see nearmpi-topo)", kind.name()));
    }
    let inside = |object: &CpuSet| {
        places
            .iter()
            .filter(|place| place.within(object))
            .cloned()
            .collect::<Vec<_>>()
    };
    let rooms: Vec<Vec<CpuSet>> = objects.iter().map(inside).filter(|room| !room.is_empty()).collect();
    if let Some(room) = rooms.iter().find(|room| room.len() < cores) {
        let of = match anywhere {
            true => "this machine".to_string(),
            false => format!("a {} of this machine", kind.name()),
        };
        return Err(format!("{cores} cores for a rank: {of} has {}", room.len()));
    }
    if let Some(each) = each
        && ranks > each * rooms.len()
    {
        return Err(format!(
            "-map-by ppr:{each}:{}: {} of them take {} ranks, the job has {ranks}",
            kind.name(),
            rooms.len(),
            each * rooms.len()
        ));
    }
    let seat = |rank: usize| {
        let (room, turn) = match each {
            Some(each) => (&rooms[rank / each], rank % each),
            None => (&rooms[rank % rooms.len()], rank / rooms.len()),
        };
        let turns = room.len() / cores;
        let first = turn % turns * cores;
        Seat {
            cpus: room[first..first + cores].iter().flat_map(CpuSet::iter).collect(),
        }
    };
    Ok((0..ranks).map(seat).collect())
}

/// The seats in the order of ranks: round the objects of `kind`, or as they lie in the machine.
fn ranked(kind: Option<Kind>, mut seats: Vec<Seat>, machine: &Machine) -> Vec<Seat> {
    let Some(kind) = kind else { return seats };
    let at = |seat: &Seat| machine.order().iter().position(|cpu| seat.cpus.has(*cpu));
    seats.sort_by_key(at);
    if kind >= Kind::Core || kind == Kind::Machine {
        return seats;
    }
    let objects = machine.all(kind);
    let object = |seat: &Seat| {
        objects
            .iter()
            .position(|object| seat.cpus.first().is_some_and(|cpu| object.cpus.has(cpu)))
    };
    let mut turns = vec![0; objects.len() + 1];
    let mut keyed: Vec<(usize, usize, Seat)> = seats
        .into_iter()
        .map(|seat| {
            let object = object(&seat).unwrap_or(objects.len());
            turns[object] += 1;
            (turns[object], object, seat)
        })
        .collect();
    keyed.sort_by_key(|(turn, object, _)| (*turn, *object));
    keyed.into_iter().map(|(_, _, seat)| seat).collect()
}

/// `count` objects of `kind`, beginning with the one around the first of `cpus`; `cpus` where there is no such object.
fn around(machine: &Machine, kind: Kind, count: usize, cpus: CpuSet) -> CpuSet {
    let objects = machine.all(kind);
    let Some(at) = objects
        .iter()
        .position(|object| cpus.first().is_some_and(|cpu| object.cpus.has(cpu)))
    else {
        return cpus;
    };
    let wanted = objects.iter().cycle().skip(at).take(count.min(objects.len()));
    let mut set: CpuSet = wanted.flat_map(|object| object.cpus.iter()).collect();
    set.join(&cpus);
    set
}

/// How many ranks can have a CPU of their own at the same time; unbound ranks use any of `machine`.
pub fn own_cpus(sets: &[CpuSet], machine: &CpuSet) -> usize {
    let mut owner: Vec<Option<usize>> = vec![None; machine.iter().last().map_or(0, |last| last + 1)];
    let choices = |rank: usize| if sets[rank].is_empty() { machine } else { &sets[rank] };
    fn seat(
        rank: usize,
        choices: &dyn Fn(usize) -> Vec<usize>,
        owner: &mut [Option<usize>],
        seen: &mut [bool],
    ) -> bool {
        let cpus = choices(rank);
        // A free one first: chains are only followed when all are taken.
        if let Some(&free) = cpus.iter().find(|cpu| owner[**cpu].is_none()) {
            owner[free] = Some(rank);
            return true;
        }
        for cpu in cpus {
            if !std::mem::replace(&mut seen[cpu], true)
                && let Some(other) = owner[cpu]
                && seat(other, choices, owner, seen)
            {
                owner[cpu] = Some(rank);
                return true;
            }
        }
        false
    }
    let list = |rank: usize| choices(rank).iter().filter(|cpu| machine.has(*cpu)).collect::<Vec<_>>();
    (0..sets.len())
        .filter(|&rank| {
            let mut seen = vec![false; owner.len()];
            seat(rank, &list, &mut owner, &mut seen)
        })
        .count()
}

#[cfg(test)]
#[path = "mapping_tests.rs"]
mod tests;
