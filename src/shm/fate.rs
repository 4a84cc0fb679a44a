//! What has become of ranks and communicators, in a job that goes on without some of its ranks.
//!
//! The launcher alone says who has died, after the last of what that rank has written. So a rank that
//! waits for the votes of others sees of each member, in the end, either its vote or that it died without
//! one, and everybody sees the same: that is all the agreement that the survivors need.
//!
//! ```text
//!  63     48 47    33 32 31            0
//! +---------+--------+--+---------------+
//! |  life   | number |1 |     value     |  a vote; 0: none
//! +---------+--------+--+---------------+
//! ```
//! `life` tells the communicators apart that have the same context one after the other; `number` counts the
//! votes on one communicator. Each member has two votes in memory for a context: who casts the next but one
//! knows that everybody has seen the last but one.

use super::sync::{AtomicU32, AtomicU64, Ordering};

/// A vote of one rank on one communicator.
#[repr(C, align(16))]
#[derive(Debug, Default)]
pub struct Vote {
    vote: AtomicU64,
    known: AtomicU32,
}

/// Votes of a rank for each context.
pub const VOTES: usize = 2;

/// Which vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp(u32);

impl Stamp {
    /// The vote `number` in that life of a context.
    pub fn new(life: u32, number: u32) -> Stamp {
        Stamp(life << 16 | (number & 0x7fff) << 1 | 1)
    }
}

impl Vote {
    /// Votes `value`, knowing of that many deaths.
    pub fn cast(&self, stamp: Stamp, value: u32, known: u32) {
        self.known.store(known, Ordering::Relaxed);
        self.vote
            .store(u64::from(stamp.0) << 32 | u64::from(value), Ordering::Release);
    }

    /// The value, and the deaths known, of that vote.
    pub fn read(&self, stamp: Stamp) -> Option<(u32, u32)> {
        let vote = self.vote.load(Ordering::Acquire);
        ((vote >> 32) as u32 == stamp.0).then(|| (vote as u32, self.known.load(Ordering::Relaxed)))
    }
}

/// A context's: how many communicators have had it, and whether the one that has it is revoked.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Fate(AtomicU32);

impl Fate {
    /// A new communicator has the context; called by one process, which alone knows of it yet.
    pub fn begin(&self) {
        let life = self.life();
        self.0.store(life.wrapping_add(1) << 1, Ordering::Release);
    }

    /// Which life this is.
    pub fn life(&self) -> u32 {
        self.0.load(Ordering::Acquire) >> 1
    }

    /// Revokes the communicator; whether it was not revoked before.
    pub fn revoke(&self) -> bool {
        self.0.fetch_or(1, Ordering::AcqRel) & 1 == 0
    }

    /// Whether the communicator is revoked.
    pub fn is_revoked(&self) -> bool {
        self.0.load(Ordering::Acquire) & 1 == 1
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_vote_is_of_one_number_in_one_life() {
        let vote = Vote::default();
        assert_eq!(vote.read(Stamp::new(0, 0)), None);
        vote.cast(Stamp::new(3, 7), !5, 2);
        assert_eq!(vote.read(Stamp::new(3, 7)), Some((!5, 2)));
        assert_eq!(vote.read(Stamp::new(3, 8)), None);
        assert_eq!(vote.read(Stamp::new(4, 7)), None);
    }

    #[test]
    fn a_new_life_is_not_revoked() {
        let fate = Fate::default();
        assert!(fate.revoke() && !fate.revoke() && fate.is_revoked());
        assert_eq!(fate.life(), 0);
        fate.begin();
        assert!(!fate.is_revoked());
        assert_eq!(fate.life(), 1);
    }
}
