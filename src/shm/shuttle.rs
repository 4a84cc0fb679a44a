//! # Safety
//! Relies on the segment to outlive the ends made of it, and on one end for each rank of a pair.
//!
//! Memory that goes back and forth between two ranks with their messages. A pair has two shuttles, and each rank begins with
//! one. Who has a shuttle may fill it with a message, and gives it away with that; whoever has copied the message out has the
//! shuttle, and takes the one that came last for what it sends next. So an answer goes into lines that its sender has just
//! read: fewer lines are in use than in a ring for each direction, and none has to be taken from a peer that has read it.
//!
//! Nothing is stored about who has what: both know from the records that announce the parts of messages. Two ranks that
//! exchange messages at the same time exchange both shuttles; of a rank that only sends, the other soon has both, and the rest
//! goes another way.
#![allow(unsafe_code)]

use super::ring::Junk;
use std::ptr::NonNull;

/// Shuttles of a pair of ranks.
pub const SHUTTLES: usize = 2;

/// Which of a pair's shuttles: 0 is the one that the lower rank begins with.
pub type Number = u8;

/// Records that a rank sends for one message or two; more, before anything has come back, are a window's.
const FEW: u32 = 12;
/// Times that so few have gone between what came from there, after which its messages are no window's any more.
const TURNS: u8 = 4;

/// Where a pair's shuttles lie.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// By number.
    pub at: [NonNull<u8>; SHUTTLES],
    /// Bytes in each; 0 where there are none.
    pub bytes: usize,
}

// SAFETY: addresses of shared memory made for concurrent use by the rules above.
unsafe impl Send for Place {}

/// One rank's end.
#[derive(Debug)]
pub struct Shuttles {
    place: Place,
    /// Those that are here, `count` of them; the one that came last is the last.
    here: [Number; SHUTTLES],
    count: u8,
    /// Bytes sent away so far, modulo 2^32.
    gone: u32,
    /// Records that had come and gone when the last of them came, as far as [`Shuttles::amid_window`] was told.
    turn: (u32, u32),
    /// Turns of few records, one after the other, up to [`TURNS`].
    short: u8,
}

impl Shuttles {
    /// The end of the rank that begins with shuttle `own`.
    ///
    /// # Safety
    /// `place` describes shared memory that outlives the end; the caller has the only end of its rank, and the other rank's
    /// begins with the other shuttle.
    pub unsafe fn new(place: Place, own: Number) -> Shuttles {
        Shuttles {
            place,
            here: [own; SHUTTLES],
            count: (place.bytes > 0).into(),
            gone: 0,
            turn: (0, 0),
            short: TURNS,
        }
    }

    /// Whether this rank sends many messages at a time, or did so a few turns ago, now that so many records have come from the other
    /// one and gone there. Such messages had better go by the ring: windows of 16 KiB both ways, the first message of which
    /// took a shuttle, made less than half of the bandwidth on Zen 3 (docs/measured.md, "Shuttles").
    #[inline]
    pub fn amid_window(&mut self, came: u32, gone: u32) -> bool {
        let turns = came != self.turn.0;
        if gone.wrapping_sub(self.turn.1) > FEW {
            self.short = 0;
        } else if turns {
            self.short = TURNS.min(self.short + 1);
        }
        if turns {
            self.turn = (came, gone);
        }
        self.short < TURNS
    }

    /// Bytes in each; 0 where there are none.
    pub fn capacity(&self) -> usize {
        self.place.bytes
    }

    /// Whether a message of `len` bytes can go by a shuttle now.
    #[inline]
    pub fn takes(&self, len: usize) -> bool {
        self.count > 0 && len <= self.place.bytes
    }

    /// The shuttle that came last, for a message of `len` bytes; the caller sends it away.
    #[inline]
    pub fn take(&mut self, len: usize) -> Option<(Number, NonNull<u8>)> {
        if !self.takes(len) {
            return None;
        }
        self.count -= 1;
        self.gone = self.gone.wrapping_add(len as u32);
        let number = self.here[usize::from(self.count)];
        Some((number, self.place.at[usize::from(number)]))
    }

    /// Bytes sent away so far, modulo 2^32.
    pub fn gone(&self) -> u32 {
        self.gone
    }

    /// Where `len` bytes lie that have come by shuttle, from `offset` of it.
    ///
    /// # Errors
    /// `Junk` when the other rank does not have that shuttle, or it has fewer bytes.
    #[inline]
    pub fn bytes(&self, number: u8, offset: u64, len: u32) -> Result<NonNull<u8>, Junk> {
        let at = self.place.at.get(usize::from(number)).ok_or(Junk)?;
        let inside = offset
            .checked_add(u64::from(len))
            .is_some_and(|end| end <= self.place.bytes as u64);
        if !inside || self.here[..usize::from(self.count)].contains(&number) {
            return Err(Junk);
        }
        // SAFETY: the shuttle has so many bytes.
        Ok(unsafe { at.add(offset as usize) })
    }

    /// The message that came by shuttle `number`, of which [`Shuttles::bytes`] has told, has been copied out. Nothing happens where
    /// that cannot be.
    #[inline]
    pub fn came(&mut self, number: Number) {
        let known = usize::from(number) < SHUTTLES && !self.here[..usize::from(self.count)].contains(&number);
        if let Some(free) = self.here.get_mut(usize::from(self.count)).filter(|_| known) {
            *free = number;
            self.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 4096;

    /// The ends of a lower and a higher rank.
    fn ends(memory: &[Vec<u8>; SHUTTLES]) -> [Shuttles; 2] {
        let at = [0, 1].map(|number: usize| NonNull::from(&memory[number][0]));
        let place = Place {
            at,
            bytes: memory[0].len(),
        };
        // SAFETY: the memory outlives the ends in every test.
        [0, 1].map(|own| unsafe { Shuttles::new(place, own) })
    }

    fn memory() -> [Vec<u8>; SHUTTLES] {
        [vec![0; BYTES], vec![0; BYTES]]
    }

    #[test]
    fn who_sends_many_messages_before_anything_comes_sends_windows_until_a_few_turns_later() {
        let memory = memory();
        let [mut low, _] = ends(&memory);
        let (mut came, mut gone) = (u32::MAX - 2, u32::MAX - 20);
        let mut turn = |few: u32| {
            came = came.wrapping_add(1);
            let asked = (0..few).map(|_| {
                let amid = low.amid_window(came, gone);
                gone = gone.wrapping_add(1);
                amid
            });
            asked.filter(|&amid| amid).count() as u32
        };
        turn(1);
        assert_eq!((0..9).map(|_| turn(2)).skip(4).sum::<u32>(), 0, "turns about");
        assert_eq!(turn(40), 40 - FEW - 1, "a window");
        // The window's length is seen in the first of these.
        assert_eq!(
            [turn(2), turn(2), turn(1), turn(1), turn(1), turn(1)],
            [2, 2, 1, 1, 0, 0]
        );
        assert_eq!(turn(FEW), 0);
        assert!(turn(FEW + 2) > 0 && turn(1) == 1);
    }

    #[test]
    fn an_answer_goes_by_the_shuttle_that_came_last() {
        let memory = memory();
        let [mut low, mut high] = ends(&memory);
        for _ in 0..3 {
            let (number, at) = low.take(BYTES).unwrap();
            assert_eq!((number, at.as_ptr().cast_const()), (0, memory[0].as_ptr()));
            assert!(low.take(1).is_none(), "it has gone");
            assert_eq!(high.bytes(number, 64, 100), Ok(NonNull::from(&memory[0][64])));
            high.came(number);
            let (number, _) = high.take(1).unwrap();
            assert_eq!(number, 0, "not the one that it began with");
            low.came(number);
        }
    }

    #[test]
    fn who_only_receives_has_both_in_the_end() {
        let memory = memory();
        let [mut low, mut high] = ends(&memory);
        let (number, _) = low.take(1).unwrap();
        high.came(number);
        assert!(!low.takes(1));
        assert_eq!([high.take(1), high.take(1)].map(|taken| taken.unwrap().0), [0, 1]);
        assert!(!high.takes(1));
    }

    #[test]
    fn what_a_healthy_peer_does_not_say_is_junk() {
        let memory = memory();
        let [mut low, _] = ends(&memory);
        for (number, offset, len) in [
            (2, 0, 1),
            (1, 0, BYTES as u32 + 1),
            (1, BYTES as u64, 1),
            (1, u64::MAX, 1),
            // It is here.
            (0, 0, 1),
        ] {
            assert_eq!(low.bytes(number, offset, len), Err(Junk), "{number} {offset} {len}");
        }
        assert!(low.bytes(1, 0, BYTES as u32).is_ok() && !low.takes(BYTES + 1));
        [0, 2, 254].into_iter().for_each(|number| low.came(number));
        assert!(low.take(1).is_some() && low.take(1).is_none());
        assert_eq!(low.gone(), 1, "what could not go does not count");
    }

    #[test]
    fn there_may_be_none() {
        let place = Place {
            at: [NonNull::dangling(); SHUTTLES],
            bytes: 0,
        };
        // SAFETY: nothing of it is used.
        let none = unsafe { Shuttles::new(place, 0) };
        assert!(!none.takes(0) && none.bytes(1, 0, 1).is_err());
    }
}
