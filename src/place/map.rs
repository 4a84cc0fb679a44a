//! The file that carries a mapping from `nearmpi-place` to `mpirun -map-by file:PATH`.
//!
//! ```text
//! # comments
//! 0 3        rank 0 runs on CPU 3
//! 1 4-5      rank 1 runs on CPUs 4 and 5
//! ```

use crate::sys::cpuset::CpuSet;

/// The text of a map, headed by `comment`.
pub fn write(comment: &str, sets: &[CpuSet]) -> String {
    let comment: String = comment.lines().map(|line| format!("# {line}\n")).collect();
    let lines: String = sets
        .iter()
        .enumerate()
        .map(|(rank, cpus)| format!("{rank} {cpus}\n"))
        .collect();
    comment + &lines
}

/// The CPUs of each rank.
///
/// # Errors
/// A sentence that names the line.
pub fn read(text: &str) -> Result<Vec<CpuSet>, String> {
    let mut sets: Vec<Option<CpuSet>> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        let wrong = |why: &str| format!("line {}: {line:?}: {why}", number + 1);
        let [rank, cpus] = words[..] else {
            return Err(wrong("not a rank and its CPUs"));
        };
        let most = crate::shm::layout::MAX_RANKS as usize;
        let rank: usize = rank
            .parse()
            .ok()
            .filter(|rank| *rank < most)
            .ok_or_else(|| wrong("not a rank"))?;
        let cpus = CpuSet::parse(cpus).map_err(|why| wrong(&why))?;
        if cpus.is_empty() {
            return Err(wrong("no CPU"));
        }
        sets.resize(sets.len().max(rank + 1), None);
        if sets[rank].replace(cpus).is_some() {
            return Err(wrong("this rank was there before"));
        }
    }
    if sets.is_empty() {
        return Err("no rank in it".into());
    }
    let missing = sets.iter().position(Option::is_none);
    match missing {
        Some(rank) => Err(format!("rank {rank} is missing")),
        None => Ok(sets.into_iter().flatten().collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let sets: Vec<CpuSet> = ["3", "4-5", "0,9"]
            .iter()
            .map(|list| CpuSet::parse(list).unwrap())
            .collect();
        assert_eq!(read(&write("made for\na test", &sets)).unwrap(), sets);
        assert_eq!(read("1 2 # late\n\n0 1\n").unwrap().len(), 2);
    }

    #[test]
    fn mistakes_are_named() {
        for (text, reason) in [
            ("", "no rank"),
            ("0", "line 1"),
            ("0 1\nx 2", "line 2"),
            ("0 1\n0 2", "before"),
            ("1 1", "rank 0 is missing"),
            ("0 a", "CPU number"),
            ("0 ,", "no CPU"),
            ("99999999 1", "not a rank"),
        ] {
            assert!(read(text).unwrap_err().contains(reason), "{text}");
        }
    }
}
