//! Settings that all ranks of a job must have alike, or they would take different ways through one collective operation.
//!
//! Each rank writes down its own, then the first to put its number into the header has settled it: nobody waits for
//! anybody, and a rank that dies on the way leaves nothing half done. What is read is checked by who takes it over.

use super::Segment;
use crate::shm::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::cvar::OF_JOB;

/// What a rank has written down; nothing changes after its number is in the header.
#[repr(C)]
#[derive(Debug)]
pub struct Accord {
    len: AtomicU32,
    numbers: [AtomicU64; OF_JOB.0],
    text: [AtomicU64; OF_JOB.1 / 8],
}

impl Segment {
    /// Proposes `numbers` and `text` for the job in the name of rank `me`. Returns who has settled it, and what.
    ///
    /// # Errors
    /// A sentence: what is in the memory is no accord.
    ///
    /// # Panics
    /// With more than [`OF_JOB`] of either.
    pub fn agree(&self, me: u32, numbers: &[u64], text: &str) -> Result<(u32, Vec<u64>, String), String> {
        let accord = &self.rank(me).accord;
        assert!(text.len() <= OF_JOB.1);
        for (word, &number) in accord.numbers.iter().zip(numbers) {
            word.store(number, Ordering::Relaxed);
        }
        for (word, bytes) in accord.text.iter().zip(text.as_bytes().chunks(8)) {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(eight), Ordering::Relaxed);
        }
        accord.len.store(text.len() as u32, Ordering::Relaxed);
        let settler = &self.header().settler;
        let settled = settler.compare_exchange(0, me + 1, Ordering::AcqRel, Ordering::Acquire);
        let rank = settled.err().map_or(me, |number| number - 1);
        if rank >= self.known() {
            return Err(format!("rank {rank} of {} has settled the settings", self.known()));
        }
        let accord = &self.rank(rank).accord;
        let len = accord.len.load(Ordering::Relaxed) as usize;
        let words = accord
            .text
            .iter()
            .map(|word| word.load(Ordering::Relaxed).to_le_bytes());
        let mut bytes: Vec<u8> = words.take(len.div_ceil(8)).flatten().collect();
        bytes.truncate(len);
        let text = String::from_utf8(bytes).ok().filter(|text| text.len() == len);
        let numbers = accord.numbers.iter().map(|word| word.load(Ordering::Relaxed));
        Ok((
            rank,
            numbers.collect(),
            text.ok_or("the rules for collective operations are no text")?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NUMBERS: [u64; OF_JOB.0] = [7; OF_JOB.0];

    #[test]
    fn the_first_rank_settles_it() {
        let segment = Segment::private(3, 3).unwrap();
        let mine = segment.agree(2, &NUMBERS, "scan: doubling").unwrap();
        assert_eq!(mine, (2, NUMBERS.into(), "scan: doubling".into()));
        assert_eq!(
            segment.agree(0, &[8; OF_JOB.0], "longer than the other one").unwrap(),
            mine
        );
    }

    #[test]
    fn of_many_at_once_one_settles_it() {
        let segment = Segment::private(8, 2).unwrap();
        let texts: Vec<_> = std::thread::scope(|scope| {
            let propose = |rank| {
                let segment = &segment;
                scope.spawn(move || segment.agree(rank, &[rank.into(); OF_JOB.0], &"x".repeat(rank as usize)))
            };
            let ranks: Vec<_> = (0..8).map(propose).collect();
            ranks.into_iter().map(|rank| rank.join().unwrap().unwrap()).collect()
        });
        let (rank, numbers, text) = &texts[0];
        assert!(texts.iter().all(|one| *one == texts[0]));
        assert!(numbers.iter().all(|&number| number == u64::from(*rank)) && text.len() == *rank as usize);
    }

    #[test]
    fn junk_is_refused() {
        let segment = Segment::private(2, 2).unwrap();
        segment.agree(0, &NUMBERS, "scan: doubling").unwrap();
        segment.rank(0).accord.len.store(u32::MAX, Ordering::Relaxed);
        assert!(segment.agree(1, &NUMBERS, "").is_err());
        segment.rank(0).accord.len.store(8, Ordering::Relaxed);
        segment.rank(0).accord.text[0].store(u64::MAX, Ordering::Relaxed);
        assert!(segment.agree(1, &NUMBERS, "").is_err());
        segment.header().settler.store(9, Ordering::Relaxed);
        assert_eq!(
            segment.agree(1, &NUMBERS, "").unwrap_err(),
            "rank 8 of 2 has settled the settings"
        );
    }
}
