//! What readers say on their boards of data that they copied out of other ranks' memory.

/// What a reader says of the bytes that it copied out of other ranks' memory in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its low bits ([`Verdict::TURN`]).
    pub turn: u64,
    /// Picoseconds that a byte took, up to [`Verdict::SLOWEST`].
    pub pace: u64,
    /// The bytes were not in its cache.
    pub fresh: bool,
    /// It read some of them twice, to compare: who waited for it waited longer for that.
    pub twice: bool,
}

impl Verdict {
    /// The bits of a turn that count.
    pub const TURN: u64 = (1 << 32) - 1;
    /// Who is slower says this.
    pub const SLOWEST: u64 = (1 << 29) - 1;

    /// As it lies on a board.
    pub(super) fn word(self) -> u64 {
        let pace = self.pace.min(Verdict::SLOWEST);
        (self.turn & Verdict::TURN) << 32 | pace << 3 | u64::from(self.twice) << 2 | u64::from(self.fresh) << 1 | 1
    }

    /// What a word says, if it is one.
    pub(super) fn of(word: u64) -> Option<Verdict> {
        (word & 1 != 0).then_some(Verdict {
            turn: word >> 32,
            pace: word >> 3 & Verdict::SLOWEST,
            fresh: word & 2 != 0,
            twice: word & 4 != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_comes_as_it_was_said_unless_it_is_too_slow() {
        let verdict = Verdict {
            turn: 5,
            pace: 70,
            fresh: true,
            twice: false,
        };
        let said = |verdict: Verdict| Verdict::of(verdict.word());
        let other = Verdict {
            fresh: false,
            twice: true,
            ..verdict
        };
        assert_eq!((said(verdict), said(other)), (Some(verdict), Some(other)));
        let at = |pace| Verdict { pace, ..verdict };
        assert_eq!(said(at(u64::MAX)), Some(at(Verdict::SLOWEST)));
        assert_eq!(Verdict::of(0), None);
    }
}
