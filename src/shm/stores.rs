//! # Safety
//! Copies between regions that the callers own.
//!
//! How a rank writes memory that another one reads. A line that the other has read must be fetched, or its copy taken away, before it
//! can be written by way of the caches; past them (non-temporal stores) it need not, but then its reader finds it in no cache. Which is
//! quicker depends on the processor and on how far apart the two CPUs are, which virtual machines do not tell; the time that the
//! writer's own copies take tells it (EPYC of family 25, GB/s by and past the caches: two cores of one cache 17 and 20, two apart 4 and
//! 16 to 25), so now and then one copy of each kind is timed. The reader's loss is not seen by that, so past the caches has to take less
//! than two fifths of the time (half of it was not enough: broadcasts of 4 KiB by either of two close ranks took 1.6 times as long).
#![allow(unsafe_code)]

use crate::sys::clock::Ticks;
use crate::sys::copy;

/// Copies between two trials, at first and at most: twice as many each time that a trial changes nothing.
const FIRST: u32 = 16;
const MOST: u32 = 1024;
/// Trials one after the other that must say the same before anything is changed: an interrupt amid a copy says little.
const VOTES: u8 = 2;
/// Past the caches is worth it from so many percent of the speed on.
const WORTH: u64 = 250;

/// One rank's stores to memory that certain others read.
#[derive(Clone, Debug)]
pub struct Stores {
    /// Bytes from which a copy may go past the caches; shorter ones never do.
    least: usize,
    /// Whether copies go past the caches now.
    streaming: bool,
    /// Copies until the next trial.
    left: u32,
    gap: u32,
    /// Ticks per 4 KiB of a trial's first copy, which goes as copies go now; 0 before it.
    first: u64,
    votes: u8,
    ticks: Ticks,
}

impl Stores {
    /// Copies that never go past the caches.
    pub fn plain() -> Stores {
        Stores::new(0, Ticks::coarse())
    }

    /// Copies of `least` bytes and more may go past the caches; 0: none does.
    pub fn new(least: u64, ticks: Ticks) -> Stores {
        Stores {
            least: if least == 0 { usize::MAX } else { least as usize },
            streaming: false,
            left: FIRST,
            gap: FIRST,
            first: 0,
            votes: 0,
            ticks,
        }
    }

    /// Copies that go past the caches, at first.
    #[cfg(test)]
    pub fn past() -> Stores {
        Stores {
            streaming: true,
            ..Stores::new(1, Ticks::best())
        }
    }

    /// Whether copies go past the caches now.
    pub fn streaming(&self) -> bool {
        self.streaming
    }

    /// Copies until the next trial, to see which copies are made here.
    #[cfg(test)]
    pub fn until_trial(&self) -> u32 {
        self.left
    }

    /// Copies `len` bytes to shared memory; they are there before anything that is stored afterwards.
    ///
    /// # Safety
    /// Both sides are valid for `len` bytes and do not overlap.
    #[inline(always)]
    pub unsafe fn copy(&mut self, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match len >= self.least {
                true => self.copy_long(from, to, len),
                false => copy::bytes(from, to, len),
            }
        }
    }

    /// # Safety
    /// As [`Stores::copy`].
    #[inline(never)]
    unsafe fn copy_long(&mut self, from: *const u8, to: *mut u8, len: usize) {
        if self.left > 0 {
            self.left -= 1;
            // SAFETY: the caller's promise.
            return unsafe { store(self.streaming, from, to, len) };
        }
        let begin = self.ticks.now();
        let second = self.first > 0;
        // SAFETY: the caller's promise.
        unsafe { store(self.streaming != second, from, to, len) };
        let took = self.ticks.now().saturating_sub(begin);
        self.timed((took << 12) / len as u64 + 1);
    }

    /// A copy of a trial took `cost` ticks per 4 KiB: the first, that went as copies go now, or the second, that went the other way.
    fn timed(&mut self, cost: u64) {
        if self.first == 0 {
            self.first = cost;
            return;
        }
        let first = std::mem::take(&mut self.first);
        let (by, past) = if self.streaming { (cost, first) } else { (first, cost) };
        let better = past.saturating_mul(WORTH) < by.saturating_mul(100);
        if better == self.streaming {
            self.votes = 0;
            self.gap = (2 * self.gap).min(MOST);
            self.left = self.gap;
            return;
        }
        self.votes += 1;
        if self.votes == VOTES {
            self.votes = 0;
            self.streaming = better;
            self.gap = FIRST;
            self.left = FIRST;
        }
    }
}

/// # Safety
/// As [`Stores::copy`].
#[inline(always)]
unsafe fn store(streaming: bool, from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match streaming {
            true => copy::streaming(from, to, len),
            false => copy::many(from, to, len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stores() -> Stores {
        Stores::new(2048, Ticks::best())
    }

    /// A trial in which copies by and past the caches cost so much.
    fn trial(stores: &mut Stores, by: u64, past: u64) {
        let costs = if stores.streaming() { [past, by] } else { [by, past] };
        costs.into_iter().for_each(|cost| stores.timed(cost));
    }

    #[test]
    fn two_trials_that_agree_change_the_way_and_one_does_not() {
        let mut stores = stores();
        trial(&mut stores, 1000, 300);
        assert!(!stores.streaming());
        trial(&mut stores, 1000, 900);
        trial(&mut stores, 1000, 300);
        assert!(!stores.streaming(), "the one between them said otherwise");
        trial(&mut stores, 1000, 300);
        assert!(stores.streaming());
        trial(&mut stores, 1000, 300);
        trial(&mut stores, 200, 300);
        assert!(stores.streaming());
        trial(&mut stores, 200, 300);
        assert!(!stores.streaming());
    }

    #[test]
    fn past_the_caches_must_be_worth_the_readers_loss() {
        let mut stores = stores();
        (0..10).for_each(|_| trial(&mut stores, 1000, 400));
        assert!(!stores.streaming());
    }

    #[test]
    fn trials_get_rarer_while_they_change_nothing() {
        let mut stores = stores();
        let source = vec![7u8; 4096];
        let mut target = vec![0u8; 4096];
        let mut trials = Vec::new();
        for turn in 0..6000 {
            // SAFETY: both have so many bytes.
            unsafe { stores.copy(source.as_ptr(), target.as_mut_ptr(), 4096) };
            if stores.first > 0 {
                trials.push(turn);
                stores.timed(stores.first);
            }
        }
        assert_eq!(&trials[..4], &[16, 49, 114, 243]);
        assert!(trials.len() < 12 && target == source, "{trials:?}");
    }

    #[test]
    fn short_copies_are_never_tried_and_none_where_it_is_switched_off() {
        let (mut short, mut off) = (stores(), Stores::plain());
        let source = vec![7u8; 8192];
        let mut target = vec![0u8; 8192];
        for _ in 0..100 {
            // SAFETY: both have so many bytes.
            unsafe {
                short.copy(source.as_ptr(), target.as_mut_ptr(), 2047);
                off.copy(source.as_ptr(), target.as_mut_ptr(), 8192);
            }
        }
        assert_eq!((short.left, off.left), (FIRST, FIRST));
    }
}
