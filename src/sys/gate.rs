//! A lock that threads pass in the order of their coming (a ticket lock that sleeps).
//!
//! Cost uncontended: one read-modify-write to enter, one to leave.

use super::{cpu, futex};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Polls, then yields, before a thread in the queue sleeps.
const POLLS: u32 = 100;
const YIELDS: u32 = 20;

/// The lock.
#[derive(Debug, Default)]
pub struct Gate {
    next: AtomicU32,
    serving: AtomicU32,
    sleepers: AtomicU32,
}

impl Gate {
    /// Waits for this thread's turn.
    #[inline]
    pub fn enter(&self) {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        if self.serving.load(Ordering::Acquire) != ticket {
            self.queue(ticket);
        }
    }

    /// Lets the next thread in.
    #[inline]
    pub fn leave(&self) {
        // A full barrier between the change and the look at the sleepers; its partner is in `queue`.
        self.serving.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) != 0 {
            futex::wake_all(&self.serving);
        }
    }

    /// Whether the thread inside is keeping others waiting.
    #[inline]
    pub fn is_contended(&self) -> bool {
        self.next
            .load(Ordering::Relaxed)
            .wrapping_sub(self.serving.load(Ordering::Relaxed))
            > 1
    }

    #[cold]
    fn queue(&self, ticket: u32) {
        for turn in 0..POLLS + YIELDS {
            if self.serving.load(Ordering::Acquire) == ticket {
                return;
            }
            if turn < POLLS {
                std::hint::spin_loop();
            } else {
                cpu::give_way();
            }
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        loop {
            let serving = self.serving.load(Ordering::SeqCst);
            if serving == ticket {
                break;
            }
            futex::wait(&self.serving, serving, Duration::from_secs(1));
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn one_thread_at_a_time_is_inside() {
        let (gate, count) = (Gate::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        gate.enter();
                        let seen = count.load(Ordering::Relaxed);
                        std::hint::black_box(seen);
                        count.store(seen + 1, Ordering::Relaxed);
                        gate.leave();
                    }
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 16000);
        assert!(!gate.is_contended());
    }
}
