//! Whether somebody computes on this CPU.
//!
//! Who waits for others of its CPU gives way to them (sched_yield(2)), and has the CPU back as soon as they wait in turn. To who computes the
//! kernel leaves it for some milliseconds, each time that somebody gives way; but it soon lets in who was asleep. So where
//! giving way took long, twice, waiting threads of this process sleep instead, and try again after some waits.

use super::{clock, cpu};
use std::sync::atomic::{AtomicU32, Ordering};

/// Times that nobody gives way once somebody is known to compute.
const SPARED: u32 = 16;
/// Giving way takes long once because of an interrupt or of a virtual machine's host; twice in so many times, because somebody computes.
const APART: u32 = 8;
/// While nothing is suspected each so many times are timed: the clock costs a tenth of giving way.
const TIMED: u32 = 8;

/// Times in a row that giving way was quick until nobody else is taken to want this CPU.
const ALONE: u32 = 2;

/// What the threads of a rank have found on the CPUs that they run on. Threads that count at the same time may lose a count.
#[derive(Debug)]
pub struct Hog {
    /// Nanoseconds from which giving way took long.
    long: u64,
    /// ... and below which there was nobody to give way to: 260 to 450 it takes then, 1500 and more to another rank and back (EMR).
    quick: u64,
    /// Times that are not timed.
    untimed: AtomicU32,
    /// Times for which the last one that took long is remembered.
    doubt: AtomicU32,
    /// Times not to give way.
    spare: AtomicU32,
    /// Times in a row that there was nobody, up to [`ALONE`].
    alone: AtomicU32,
}

/// One less of `count`; false if there was none.
fn spend(count: &AtomicU32) -> bool {
    let left = count.load(Ordering::Relaxed);
    if left > 0 {
        count.store(left - 1, Ordering::Relaxed);
    }
    left > 0
}

impl Default for Hog {
    fn default() -> Hog {
        Hog::new(0, 0)
    }
}

impl Hog {
    /// Giving way takes long if it takes more than `long` microseconds; 0: it never does. It is to nobody if it takes less than `quick` nanoseconds.
    pub fn new(long: u64, quick: u64) -> Hog {
        Hog {
            long: match long {
                0 => u64::MAX,
                some => some * 1000,
            },
            quick,
            untimed: AtomicU32::new(0),
            doubt: AtomicU32::new(0),
            spare: AtomicU32::new(0),
            alone: AtomicU32::new(0),
        }
    }

    /// Whether nobody else wanted this CPU of late: giving way less often is no loss to others.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed) == ALONE
    }

    /// Gives way; false where that takes long, by what it took now or lately, and sleeping is better.
    pub fn gives_way(&self) -> bool {
        if spend(&self.spare) {
            return false;
        }
        let doubts = spend(&self.doubt);
        let alone = self.alone.load(Ordering::Relaxed) > 0;
        if !doubts && !alone && spend(&self.untimed) {
            cpu::give_way();
            return true;
        }
        self.untimed.store(TIMED - 1, Ordering::Relaxed);
        let from = clock::nanoseconds();
        cpu::give_way();
        self.took(clock::nanoseconds() - from, doubts)
    }

    /// Giving way has taken so many nanoseconds, and may have taken long before that: whether to go on with it.
    fn took(&self, nanoseconds: u64, doubts: bool) -> bool {
        let alone = self.alone.load(Ordering::Relaxed);
        let alone = if nanoseconds < self.quick {
            (alone + 1).min(ALONE)
        } else {
            0
        };
        self.alone.store(alone, Ordering::Relaxed);
        if nanoseconds < self.long {
            return true;
        }
        self.doubt.store(APART, Ordering::Relaxed);
        if doubts {
            self.spare.store(SPARED, Ordering::Relaxed);
        }
        !doubts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn who_gives_way_to_nobody_twice_is_alone_until_somebody_comes() {
        let hog = Hog::new(1000, 700);
        for (nanoseconds, alone) in [
            (300, false),
            (1500, false),
            (300, false),
            (699, true),
            (300, true),
            (700, false),
        ] {
            assert!(hog.took(nanoseconds, false));
            assert_eq!(hog.is_alone(), alone, "after {nanoseconds}");
        }
        let never = Hog::new(1000, 0);
        assert!((0..3).all(|_| never.took(1, false) && !never.is_alone()));
    }

    #[test]
    fn who_loses_the_cpu_to_a_thread_that_computes_gives_way_no_more_for_some_waits() {
        let one = cpu::mask(0).iter().take(1).collect();
        let (over, computes) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert!(cpu::bind(&one));
                computes.store(true, Ordering::Relaxed);
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            assert!(cpu::bind(&one));
            while !computes.load(Ordering::Relaxed) {
                cpu::give_way();
            }
            let unasked = Hog::default();
            let unasked = (0..3).all(|_| unasked.gives_way());
            let hog = Hog::new(100, 0);
            let found = (0..100).any(|_| !hog.gives_way());
            let spared = (0..SPARED).all(|_| !hog.gives_way());
            over.store(true, Ordering::Relaxed);
            assert!(unasked, "nothing is long unless somebody says so");
            assert!(found && spared, "{hog:?}");
            assert_eq!(hog.spare.load(Ordering::Relaxed), 0, "then it tries again");
        });
    }
}
