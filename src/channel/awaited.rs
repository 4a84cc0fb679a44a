//! Whether a long message waits for a shuttle that its receiver is about to bring.
//!
//! Of two ranks that send each other many messages at the same time each gets a shuttle with every message that comes. A message that
//! went by the ring instead, because it was started a moment before, would bring twice as much memory into use. Who only sends
//! waits in vain, though: that is given up after the time of a slow copy, and tried again more and more rarely.

/// A message waits for one nanosecond each so many bytes at most.
const SLOW: u64 = 8;
/// Messages after one that waited in vain that do not wait: at most.
const MOST_SKIPPED: u32 = 1024;

/// What a rank expects of one receiver.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// Since when the first message waits, in nanoseconds.
    since: Option<u64>,
    /// It has waited long enough.
    over: bool,
    /// Messages that do not wait; how many after the next in vain.
    skip: u32,
    next: u32,
}

impl Awaited {
    /// Where a message waits that came at the time `since`.
    #[cfg(test)]
    pub fn waiting(since: u64) -> Awaited {
        Awaited {
            since: Some(since),
            ..Awaited::default()
        }
    }

    /// Whether the message of `len` bytes that goes next waits at the time `now`; asked again and again until it goes.
    pub fn waits(&mut self, len: usize, now: impl FnOnce() -> u64) -> bool {
        if self.over || self.skip > 0 {
            return false;
        }
        let now = now();
        let since = *self.since.get_or_insert(now);
        self.over = now.saturating_sub(since) > len as u64 / SLOW;
        !self.over
    }

    /// It has begun to go, by shuttle or not.
    pub fn went(&mut self, by_shuttle: bool) {
        if self.over {
            self.next = (2 * self.next).clamp(1, MOST_SKIPPED);
            self.skip = self.next;
        } else if by_shuttle && self.since.is_some() {
            self.next = 0;
        } else if !by_shuttle {
            self.skip = self.skip.saturating_sub(1);
        }
        (self.since, self.over) = (None, false);
    }

    /// This rank is about to sleep: nothing waits any longer.
    pub fn give_up(&mut self) {
        self.over |= self.since.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 80_000;

    #[test]
    fn who_only_sends_waits_more_and_more_rarely() {
        let (mut awaited, mut waited) = (Awaited::default(), Vec::new());
        for message in 0..100_000u32 {
            if awaited.waits(LEN, || 5) {
                waited.push(message);
                assert!(awaited.waits(LEN, || 10_005));
                assert!(
                    !awaited.waits(LEN, || 10_006) && !awaited.waits(LEN, || 5),
                    "it was long enough"
                );
            }
            awaited.went(false);
        }
        assert_eq!(waited[..5], [0, 2, 5, 10, 19]);
        assert!(waited.len() < 120);
        // A shuttle that comes in time starts it anew.
        while !awaited.waits(LEN, || 0) {
            awaited.went(false);
        }
        awaited.went(true);
        assert!(awaited.waits(LEN, || 0));
    }

    #[test]
    fn nothing_waits_while_its_rank_sleeps() {
        let mut awaited = Awaited::default();
        awaited.give_up();
        assert!(awaited.waits(LEN, || 0));
        awaited.give_up();
        assert!(!awaited.waits(LEN, || 0));
    }
}
