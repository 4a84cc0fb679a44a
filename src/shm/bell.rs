//! Waking a rank that sleeps: one word it sets before it sleeps, one word it sleeps on.
//!
//! 1. Only the owner stores 1 into `sleeping`; it does so before it looks for work a last time.
//! 2. Whoever has published something looks at `sleeping`; whoever swaps the 1 for a 0 must
//!    change `word` and wake.
//! 3. Between (1) the store and the last look, and between (2) publishing and the load, stands a
//!    full barrier. On the sender's side it costs nothing in [`Barriers::Remote`] mode: the owner
//!    then makes every CPU pass one (membarrier(2)) before it looks.

use super::sync::{AtomicU32, Ordering, fence};
use std::sync::atomic::compiler_fence;

/// A rank's bell. `shown` and `word` lie in lines of their own, so that wake-ups do not take
/// from senders the line they look at for each message.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Bell {
    shown: Seldom,
    word: Line,
}

/// What peers look at often and the owner changes seldom.
#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Seldom {
    sleeping: AtomicU32,
    /// One more than the number of the CPU that the owner was last seen on; a hint.
    cpu: AtomicU32,
}

/// What the owner changes each time that it waits for long.
#[repr(C, align(64))]
#[derive(Debug, Default)]
struct Line {
    /// What it sleeps on.
    slept_on: AtomicU32,
    /// 1 while it gives way to others on its CPU; a hint.
    away: AtomicU32,
}

/// Who pays for the barrier of rule 3; the same for all ranks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barriers {
    /// Both sides execute a fence: cheap sleeping, for ranks that share CPUs.
    Local,
    /// The sleeper executes a membarrier(2), senders nothing.
    Remote,
}

impl Barriers {
    /// The barrier between publishing and ringing.
    #[inline]
    pub fn before_ringing(self) {
        match self {
            Barriers::Local => fence(Ordering::SeqCst),
            // The sleeper's barrier stands in for the CPU's; the compiler has to keep the order, too.
            Barriers::Remote => compiler_fence(Ordering::SeqCst),
        }
    }
}

impl Bell {
    /// Tells the owner that something was published for it. Returns whether it must be woken with
    /// a wake-up of everyone on [`Bell::word`].
    #[inline]
    pub fn ring(&self, barriers: Barriers) -> bool {
        barriers.before_ringing();
        self.ring_on()
    }

    /// As [`Bell::ring`], after [`Barriers::before_ringing`]: one barrier does for many bells.
    #[inline]
    pub fn ring_on(&self) -> bool {
        self.shown.sleeping.load(Ordering::Relaxed) != 0 && self.claim()
    }

    #[cold]
    fn claim(&self) -> bool {
        let mine = self.shown.sleeping.swap(0, Ordering::AcqRel) != 0;
        if mine {
            self.word.slept_on.fetch_add(1, Ordering::Release);
        }
        mine
    }

    /// Announces sleep; the owner then passes `barrier`, looks for work a last time, and sleeps
    /// while the word holds the ticket returned.
    pub fn announce(&self, barrier: impl FnOnce()) -> u32 {
        let ticket = self.word.slept_on.load(Ordering::Acquire);
        self.shown.sleeping.store(1, Ordering::Relaxed);
        barrier();
        ticket
    }

    /// Takes the announcement back, awake again.
    pub fn awake(&self) {
        self.shown.sleeping.store(0, Ordering::Relaxed);
    }

    /// Whether the owner sleeps and nobody has rung since.
    pub fn is_set(&self) -> bool {
        self.shown.sleeping.load(Ordering::Acquire) != 0
    }

    /// The owner runs on this CPU now.
    #[inline]
    pub fn seen_on(&self, cpu: u32) {
        let word = &self.shown.cpu;
        if word.load(Ordering::Relaxed) != cpu.wrapping_add(1) {
            word.store(cpu.wrapping_add(1), Ordering::Relaxed);
        }
    }

    /// The CPU that the owner was last seen on.
    #[inline]
    pub fn cpu(&self) -> Option<u32> {
        self.shown.cpu.load(Ordering::Relaxed).checked_sub(1)
    }

    /// The owner gives way to others on its CPU, or runs again.
    #[inline]
    pub fn gives_way(&self, away: bool) {
        self.word.away.store(away.into(), Ordering::Relaxed);
    }

    /// Whether the owner does not run, as far as it has said so: it sleeps or gives way to others.
    #[inline]
    pub fn is_away(&self) -> bool {
        self.word.away.load(Ordering::Relaxed) != 0 || self.is_set()
    }

    /// Wakes the owner's own sleeping threads: changes the word; the caller wakes everyone on it.
    pub fn shake(&self) {
        self.word.slept_on.fetch_add(1, Ordering::Release);
    }

    /// The word to sleep on.
    pub fn word(&self) -> &AtomicU32 {
        &self.word.slept_on
    }
}

/// The barrier of a sleeper in [`Barriers::Local`] mode.
pub fn local_barrier() {
    fence(Ordering::SeqCst);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_woken_once() {
        let bell = Bell::default();
        assert!(!bell.ring(Barriers::Local));
        let ticket = bell.announce(local_barrier);
        assert!(bell.ring(Barriers::Local));
        assert!(!bell.ring(Barriers::Local));
        assert_ne!(bell.word().load(Ordering::Relaxed), ticket);
    }

    #[test]
    fn who_sleeps_or_gives_way_is_away() {
        let bell = Bell::default();
        let mut away = vec![bell.is_away()];
        for gives_way in [true, false] {
            bell.gives_way(gives_way);
            away.push(bell.is_away());
        }
        bell.announce(local_barrier);
        away.push(bell.is_away());
        bell.awake();
        away.push(bell.is_away());
        assert_eq!(away, [false, true, false, true, false]);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;

    #[test]
    fn loom_no_wake_up_is_lost() {
        loom::model(|| {
            let shared = Arc::new((Bell::default(), AtomicU32::new(0)));
            let sender = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    shared.1.store(1, Ordering::Release);
                    shared.0.ring(Barriers::Local);
                })
            };
            let (bell, message) = &*shared;
            let ticket = bell.announce(local_barrier);
            if message.load(Ordering::Acquire) == 0 {
                // As futex(2): sleeps while the word holds the ticket. A lost wake-up would never end.
                while bell.word().load(Ordering::Acquire) == ticket {
                    loom::thread::yield_now();
                }
            }
            bell.awake();
            sender.join().unwrap();
            assert_eq!(message.load(Ordering::Acquire), 1);
        });
    }
}
