//! Families of ranks: those that a job began with, those that came by themselves (mpirun -join), and with each of them whom they have
//! started. One family ends as a whole, and others with it only if they make it so.

use super::{Birth, NOBODY};
use crate::shm::segment::{ABORT, Segment};
use crate::shm::sync::{AtomicU32, Ordering};

impl Segment {
    /// The first rank of the family that `rank` is of: 0, or the first of those who came by themselves.
    pub fn family(&self, mut rank: u32) -> u32 {
        loop {
            match self.birth(rank) {
                None => return 0,
                Some(Birth {
                    first, starter: None, ..
                }) => return first,
                Some(Birth {
                    starter: Some(starter), ..
                }) => rank = starter,
            }
        }
    }

    /// Whether there are, or were, several families.
    pub fn has_joined(&self) -> bool {
        let mut starters = self
            .annexes
            .iter()
            .map(|annex| annex.header().starter.load(Ordering::Relaxed));
        starters.any(|starter| starter == NOBODY)
    }

    /// Ranks `one` and `other` are in one communicator from now on.
    pub fn meet(&self, one: u32, other: u32) {
        if self.family(one) != self.family(other) {
            [one, other]
                .into_iter()
                .for_each(|rank| self.met_word(rank).store(1, Ordering::Release));
        }
    }

    /// Whether what becomes of `one` may depend on `other`: they are of one family, or of two that have met others.
    pub fn concerns(&self, one: u32, other: u32) -> bool {
        let has_met = |rank| self.met_word(rank).load(Ordering::Acquire) != 0;
        self.family(one) == self.family(other) || has_met(one) && has_met(other)
    }

    fn met_word(&self, rank: u32) -> &AtomicU32 {
        match self.annex(self.family(rank)) {
            Some(annex) => &annex.header().met,
            None => &self.header().met,
        }
    }

    /// Where the exit code stands that ends the family of `rank`.
    fn abort_word(&self, rank: u32) -> &AtomicU32 {
        match self.annex(self.family(rank)) {
            Some(annex) => &annex.header().abort,
            None => &self.header().abort,
        }
    }

    /// The exit code that the first caller of MPI_Abort in the family of `rank` gave, if there was one.
    pub fn aborted(&self, rank: u32) -> Option<u8> {
        let word = self.abort_word(rank).load(Ordering::Acquire);
        (word & !0xff == ABORT).then_some(word as u8)
    }

    /// Records an exit code for the family of `rank`, unless another rank of it was first.
    pub fn abort(&self, rank: u32, code: u8) {
        let word = ABORT | u32::from(code);
        let _ = self
            .abort_word(rank)
            .compare_exchange(0, word, Ordering::AcqRel, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::job;

    #[test]
    fn who_came_by_itself_is_a_family_of_its_own() {
        let (one, other) = job(2);
        let child = one.extend(1, Some(1), 2, 3).unwrap().first;
        assert!(!one.has_joined());
        let guest = other.extend(2, None, 0, 3).unwrap();
        let grandchild = other.extend(1, Some(guest.first + 1), 2, 3).unwrap().first;
        one.grow().unwrap();
        assert_eq!((one.birth(guest.first + 1), guest.starter), (Some(guest), None));
        assert_eq!(
            [1, child, guest.first, grandchild].map(|rank| one.family(rank)),
            [0, 0, 3, 3]
        );
        assert!(one.has_joined() && one.is_apart(guest.first));
        one.meet(child, 1);
        let concerned =
            |rank| [1, child, guest.first, grandchild].map(|other| other != rank && one.concerns(rank, other));
        assert_eq!(
            (concerned(1), concerned(grandchild)),
            ([false, true, false, false], [false, false, true, false])
        );
        other.meet(grandchild, child);
        assert_eq!(concerned(1), [false, true, true, true]);
        other.abort(grandchild, 7);
        other.abort(guest.first, 8);
        assert_eq!(
            [0, child, guest.first, grandchild].map(|rank| one.aborted(rank)),
            [None, None, Some(7), Some(7)]
        );
        one.abort(child, 9);
        assert_eq!((other.aborted(0), other.aborted(guest.first)), (Some(9), Some(7)));
    }
}
