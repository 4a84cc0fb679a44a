//! What a rank is doing, as the launcher may read it at any time: the call it is in, how much it has sent,
//! how long its queues are.
//!
//! One line of the rank's block, which nobody else writes: a store is as cheap as one to the rank's own
//! memory while nobody looks. Under MPI_THREAD_MULTIPLE several threads write, and the last one is seen.

use super::profile::Countdown;
use super::sync::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Functions that count themselves when they go a short way.
pub const SHORT: usize = 3;

/// A rank's account of its doings.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Doing {
    /// [`number`] of the call's name; 0: outside MPI, or in a call that has not waited yet.
    call: AtomicU32,
    /// Calls so far, but for those in `short`.
    calls: AtomicU32,
    messages: AtomicU64,
    bytes: AtomicU64,
    posted: AtomicU32,
    unexpected: AtomicU32,
    /// Calls of functions that count themselves, from 0 down; a rank that is profiled counts them elsewhere.
    pub short: [Countdown; SHORT],
}

const _: () = assert!(cfg!(loom) || size_of::<Doing>() == 64);

/// What a reader sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// The call it is in: [`number`] of its name.
    pub call: Option<u32>,
    /// Calls so far, modulo 2^32; of a profiled rank without most of the short ones.
    pub calls: u32,
    /// Messages sent, those of collectives included.
    pub messages: u64,
    /// Bytes in them.
    pub bytes: u64,
    /// Receives without a message.
    pub posted: u32,
    /// Messages without a receive.
    pub unexpected: u32,
}

impl Doing {
    /// Enters the call of that number; returns the one it was in, for [`Doing::leave`].
    #[inline]
    pub fn enter(&self, number: u32) -> u32 {
        let former = self.call.load(Relaxed);
        self.call.store(number, Relaxed);
        self.called();
        former
    }

    /// Counts a call that is over so soon that nobody need know which.
    #[inline]
    pub fn called(&self) {
        self.calls.store(self.calls.load(Relaxed).wrapping_add(1), Relaxed);
    }

    /// Leaves a call.
    #[inline]
    pub fn leave(&self, former: u32) {
        self.call.store(former, Relaxed);
    }

    /// A message of `bytes` bytes is sent or on its way.
    #[inline]
    pub fn sent(&self, bytes: usize) {
        self.messages
            .store(self.messages.load(Relaxed).wrapping_add(1), Relaxed);
        self.bytes
            .store(self.bytes.load(Relaxed).wrapping_add(bytes as u64), Relaxed);
    }

    /// The lengths of the queues.
    #[inline]
    pub fn queues(&self, posted: usize, unexpected: usize) {
        self.posted.store(posted as u32, Relaxed);
        self.unexpected.store(unexpected as u32, Relaxed);
    }

    /// What it says now.
    pub fn read(&self) -> Activity {
        let short = self.short.iter().map(|short| short.stepped() as u32);
        let calls = short.fold(0, u32::wrapping_add);
        Activity {
            call: Some(self.call.load(Relaxed)).filter(|&number| number != 0),
            calls: calls.wrapping_add(self.calls.load(Relaxed)),
            messages: self.messages.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            posted: self.posted.load(Relaxed),
            unexpected: self.unexpected.load(Relaxed),
        }
    }
}

/// The number that stands for the name of a call; never 0, and another for each function of MPI (a test of
/// the launcher's holds that). Nothing is left of it at run time where the compiler knows the name.
#[inline(always)]
pub const fn number(name: &str) -> u32 {
    let bytes = name.as_bytes();
    let mut sum = bytes.len() as u64;
    let mut at = 0;
    while at + 8 <= bytes.len() {
        sum = mix(sum, word(bytes, at));
        at += 8;
    }
    if bytes.len() >= 8 && at < bytes.len() {
        sum = mix(sum, word(bytes, bytes.len() - 8));
    }
    while bytes.len() < 8 && at < bytes.len() {
        sum = mix(sum, bytes[at] as u64);
        at += 1;
    }
    (sum >> 32) as u32 | 1
}

#[inline(always)]
const fn mix(sum: u64, word: u64) -> u64 {
    let mixed = (sum ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 29
}

#[inline(always)]
const fn word(bytes: &[u8], at: usize) -> u64 {
    let b = bytes;
    u64::from_le_bytes([
        b[at],
        b[at + 1],
        b[at + 2],
        b[at + 3],
        b[at + 4],
        b[at + 5],
        b[at + 6],
        b[at + 7],
    ])
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_and_nested() {
        let doing = Doing::default();
        assert_eq!(doing.read(), Activity::default());
        let (outer, inner) = (number("MPI_Barrier"), number("MPI_Put"));
        let before = doing.enter(outer);
        let between = doing.enter(inner);
        assert_eq!((doing.read().call, doing.read().calls), (Some(inner), 2));
        doing.leave(between);
        assert_eq!(doing.read().call, Some(outer));
        doing.leave(before);
        assert_eq!((doing.read().call, doing.read().calls), (None, 2));
        assert!(!doing.short[0].step() && !doing.short[2].step());
        assert_eq!(doing.read().calls, 4);
        doing.sent(10);
        doing.sent(0);
        doing.queues(3, 4);
        let seen = doing.read();
        assert_eq!((seen.messages, seen.bytes, seen.posted, seen.unexpected), (2, 10, 3, 4));
    }
}
