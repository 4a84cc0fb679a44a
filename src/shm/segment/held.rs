//! Ranks that wait in MPI_Init until a debugger has looked at them.

use super::Segment;
use crate::shm::sync::Ordering;
use crate::sys::futex;
use std::time::Duration;

/// How often who waits looks whether anybody is left that could let it go.
const LOOK: Duration = Duration::from_secs(1);

impl Segment {
    /// Has ranks wait where they call [`Segment::wait_while_held`], until [`Segment::let_go`].
    pub fn hold_ranks(&self) {
        self.header().held.store(1, Ordering::Release);
    }

    /// Lets all go on that wait, and those that come later.
    pub fn let_go(&self) {
        self.header().held.store(0, Ordering::Release);
        futex::wake_all(&self.header().held);
    }

    /// Waits until ranks are no longer held, or `is_alone`: who holds them is gone.
    pub fn wait_while_held(&self, is_alone: impl Fn() -> bool) {
        while self.header().held.load(Ordering::Acquire) == 1 && !is_alone() {
            futex::wait(&self.header().held, 1, LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_held_waits_until_all_are_let_go_or_nobody_is_left() {
        let segment = Segment::private(2, 2).unwrap();
        segment.wait_while_held(|| panic!("nobody holds it"));
        segment.hold_ranks();
        segment.wait_while_held(|| true);
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| segment.wait_while_held(|| false));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiter.is_finished());
            segment.let_go();
        });
    }
}
