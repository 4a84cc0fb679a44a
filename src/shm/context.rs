//! A communicator context: how many hold it, and the turns that its collective operations have had.
//!
//! Turns go on from one life of a context to the next, so that boards need no reset. The claimer fixes
//! where this life's turns begin; holders that let go say how far theirs came.

use super::sync::{AtomicU32, AtomicU64, Ordering};

/// Contexts among which a search for a free one begins, in turn.
pub const REUSED: u32 = 256;

/// An entry of the job's table of contexts.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Context {
    holders: AtomicU32,
    /// Turns in all lives before this one; written by whoever claims.
    before: AtomicU64,
    /// The greatest number that a holder reached in any life.
    reached: AtomicU64,
}

impl Context {
    /// Claims the context for `holders` holders, if it is free.
    pub fn claim(&self, holders: u32) -> bool {
        let free = self.holders.load(Ordering::Relaxed) == 0
            && self
                .holders
                .compare_exchange(0, holders, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if free {
            self.before
                .store(self.reached.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        free
    }

    /// Adds holders to a context that the caller knows to be its own.
    pub fn hold(&self, holders: u32) {
        self.holders.fetch_add(holders, Ordering::AcqRel);
    }

    /// Whether anybody holds it.
    pub fn is_held(&self) -> bool {
        self.holders.load(Ordering::Acquire) > 0
    }

    /// The turns before this life; the same for all holders.
    pub fn turns_before(&self) -> u64 {
        self.before.load(Ordering::Relaxed)
    }

    /// A holder lets go, after `turns` turns in this life; true: it was the last one.
    pub fn release(&self, turns: u64) -> bool {
        let reached = self.turns_before().wrapping_add(turns);
        self.reached.fetch_max(reached, Ordering::Relaxed);
        self.holders.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn turns_go_on_from_life_to_life() {
        let context = Context::default();
        for life in 0..3 {
            assert!(context.claim(2) && !context.claim(1));
            assert_eq!(context.turns_before(), 10 * life);
            context.release(10);
            // The others may have come less far, and still see where this life began.
            assert_eq!(context.turns_before(), 10 * life);
            context.release(8);
        }
    }
}
