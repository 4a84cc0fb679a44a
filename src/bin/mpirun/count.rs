//! How many ranks each program has: as `-n` says, or else the room that other options, the environment and the
//! machine say there is.

use crate::allocation::{self, Allocation, Lookup};
use crate::arguments::{Job, MOST, Reader};

/// The numbers of ranks that `-soft` allows (MPI-4.1 §11.5): all that are in one of these sequences, each from, to and step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Soft(Vec<(i64, i64, i64)>);

impl Soft {
    /// Takes `1,4:8,16:2:-2` apart.
    ///
    /// # Errors
    /// A sentence with the value.
    pub fn parse(text: &str) -> Result<Soft, String> {
        let triplet = |part: &str| {
            let numbers: Result<Vec<i32>, _> = part.split(':').map(|number| number.trim().parse()).collect();
            let (first, last, step) = match numbers.ok()?[..] {
                [only] => (only, only, 1),
                [first, last] => (first, last, 1),
                [first, last, step] if step != 0 => (first, last, step),
                _ => return None,
            };
            Some((i64::from(first), i64::from(last), i64::from(step)))
        };
        let triplets = text.split(',').map(triplet).collect::<Option<Vec<_>>>();
        triplets
            .map(Soft)
            .ok_or_else(|| format!("-soft {text}: not numbers or FIRST:LAST[:STEP], with commas between"))
    }

    fn allows(&self, number: u32) -> bool {
        let number = i64::from(number);
        self.0.iter().any(|&(first, last, step)| {
            let between = (first.min(last)..=first.max(last)).contains(&number);
            between && (last - first) * step >= 0 && (number - first) % step == 0
        })
    }

    /// The largest number up to `most`, or else, if more will do, the smallest above.
    fn choose(&self, most: u32, more: bool) -> Option<u32> {
        let allowed = |number: &u32| self.allows(*number);
        let above = || (most..=MOST).find(allowed).filter(|_| more);
        (1..=most).rev().find(allowed).or_else(above)
    }
}

/// What is said about the number of ranks outside of the command line.
pub struct Outside {
    allocation: Option<Allocation>,
    /// Intel MPI's `I_MPI_PERHOST`.
    per_host: Option<u32>,
}

impl Outside {
    /// Looks into the environment with `variable`, and with `read` into a file.
    pub fn look(variable: Lookup, read: Lookup) -> Outside {
        let number = |text: String| text.parse().ok().filter(|number| (1..=MOST).contains(number));
        Outside {
            allocation: allocation::find(variable, read),
            per_host: variable("I_MPI_PERHOST").and_then(number),
        }
    }
}

/// Gives each program of `job` its number of ranks; `cpus` where nobody says. Returns what to tell somebody who may
/// have counted on other machines.
///
/// # Errors
/// A sentence about options that do not go together.
pub fn settle(job: &mut Job, cpus: u32, outside: &Outside) -> Result<Option<String>, String> {
    let by_objects = match job.apps.iter().all(|app| app.count.is_none()) {
        true => job.binding.default_count()?,
        false => None,
    };
    let given = outside.allocation.as_ref().and_then(|allocation| allocation.ranks);
    let default = by_objects.or(outside.per_host).or(given).unwrap_or(cpus);
    let meant = job.apps.iter().all(|app| app.count.is_some()) || job.apps.iter().any(|app| app.names_hosts);
    // What a program does not say is as the one before it says.
    let (mut per_host, mut slots) = (None, None);
    for app in &mut job.apps {
        (per_host, slots) = (app.per_host.or(per_host), app.slots.or(slots));
        let room = per_host.or(slots);
        let wanted = app.count.or(room).unwrap_or(default);
        let insists = app.count.is_some();
        let count = match &app.soft {
            None => wanted,
            Some(soft) => soft
                .choose(wanted, !insists)
                .ok_or_else(|| format!("-soft allows no number of ranks up to {wanted}"))?,
        };
        if let Some(room) = room.filter(|room| *room < count) {
            let program = app.program.to_string_lossy();
            let note = format!("{program}: room for {room} on a machine, and all {count} ranks start on this one");
            job.notes.push(note);
        }
        app.count = Some(count);
    }
    let total = job.apps.iter().filter_map(|app| app.count).fold(0, u32::saturating_add);
    if let Reader::Rank(rank) = job.reader
        && rank >= total
    {
        return Err(format!("-s {rank}: the job has {total} ranks, from 0"));
    }
    let allocation = outside.allocation.as_ref().filter(|_| !meant);
    Ok(allocation.and_then(|allocation| allocation.warning(total)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::tests::job;

    /// The numbers of ranks on a machine with 8 CPUs, and whether there is a warning.
    fn counts(line: &str, variables: &[(&str, &str)]) -> Result<(Vec<u32>, bool), String> {
        let variable = |name: &str| {
            let entry = variables.iter().find(|(key, _)| *key == name)?;
            Some(entry.1.to_string())
        };
        let mut job = job(line);
        let warning = settle(&mut job, 8, &Outside::look(&variable, &|_| None))?;
        Ok((job.apps.iter().filter_map(|app| app.count).collect(), warning.is_some()))
    }

    #[test]
    fn room_is_the_number_where_nobody_says_one() {
        for (line, expected) in [
            ("a", &[8][..]),
            ("-N 1 a", &[1]),
            ("--pernode a", &[1]),
            ("-ppn 3 a", &[3]),
            ("-npernode 2 a : b", &[2, 2]),
            ("-n 1 a : -perhost 2 b", &[1, 2]),
            ("-ppn 1 a : -ppn 2 b : c", &[1, 2, 2]),
            ("-hosts localhost:3 a", &[3]),
            ("-hosts localhost,box a", &[2]),
            ("-hosts localhost:3 -ppn 2 a", &[2]),
            ("-f hosts a", &[6]),
            ("-host localhost a", &[8]),
            ("-ppn 3 -n 5 a", &[5]),
            ("-host box:2 -n 1 a : b", &[1, 2]),
        ] {
            assert_eq!(counts(line, &[]), Ok((expected.to_vec(), false)), "{line}");
        }
        let mut crowded = job("-ppn 3 -n 5 a");
        settle(&mut crowded, 8, &Outside::look(&|_| None, &|_| None)).unwrap();
        assert!(
            crowded.notes.iter().any(|note| note.contains("room for 3")),
            "{:?}",
            crowded.notes
        );
    }

    #[test]
    fn a_batch_system_says_how_many() {
        let one = [("SLURM_JOB_ID", "1"), ("SLURM_NTASKS", "4"), ("SLURM_NNODES", "1")];
        let two = [one[0], one[1], ("SLURM_NNODES", "2")];
        assert_eq!(counts("a", &one), Ok((vec![4], false)));
        assert_eq!(counts("-n 2 a", &one), Ok((vec![2], false)));
        assert_eq!(counts("-N 2 a", &one), Ok((vec![2], false)));
        assert_eq!(counts("a", &two), Ok((vec![4], true)));
        assert_eq!(counts("-N 2 a", &two), Ok((vec![2], true)), "it might have been 4");
        assert_eq!(counts("-n 2 a : b", &two), Ok((vec![2, 4], true)));
        assert_eq!(counts("-n 2 a", &two), Ok((vec![2], false)));
        assert_eq!(counts("-host localhost a", &two), Ok((vec![4], false)));
        assert_eq!(counts("a", &[("I_MPI_PERHOST", "3")]), Ok((vec![3], false)));
        assert_eq!(counts("a", &[("I_MPI_PERHOST", "allcores")]), Ok((vec![8], false)));
    }

    #[test]
    fn soft_takes_the_largest_number_that_is_allowed() {
        for (line, expected) in [
            ("-soft 2,4,16 a", 4),
            ("-soft 1:16:5 a", 6),
            ("-soft 16:1:-3 a", 7),
            ("-n 5 -soft 2:4 a", 4),
            ("-n 3 -soft 1:8 a", 3),
            ("-soft 12:16:2 a", 12),
            ("-ppn 2 -soft 1:8 a", 2),
        ] {
            assert_eq!(counts(line, &[]), Ok((vec![expected], false)), "{line}");
        }
        assert!(counts("-n 2 -soft 4:8 a", &[]).unwrap_err().contains("up to 2"));
        assert!(counts("-soft 0,-3 a", &[]).is_err());
        for wrong in ["", "x", "1:", "1:2:0", "1:2:3:4"] {
            assert!(Soft::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_reads_must_be_there() {
        assert!(counts("-s 2 -n 3 a", &[]).is_ok());
        assert!(counts("-s 3 -n 3 a", &[]).unwrap_err().contains("3 ranks"));
    }
}
