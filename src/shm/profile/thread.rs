//! What a meter counts where several threads call at the same time. It has no stamp then: each thread knows its own call.

use super::Meter;
use std::sync::atomic::Ordering;

/// The outermost call of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Outermost {
    /// The function's number.
    pub call: u32,
    /// When it began, in ticks.
    pub began: u64,
}

impl Meter {
    /// A call that began at `began`; `outermost`: outside of every other call of its thread.
    pub fn called(&self, call: usize, began: u64, outermost: bool) {
        let counts = &self.block().fixed().calls[call];
        counts.ahead.fetch_add(1, Ordering::Relaxed);
        if outermost {
            let now = self.now();
            let spent = now.saturating_sub(began);
            self.prolong(now);
            counts.timed.fetch_add(1, Ordering::Relaxed);
            counts.ticks.fetch_add(spent, Ordering::Relaxed);
            counts.longest.fetch_max(spent, Ordering::Relaxed);
        }
    }

    /// This thread has waited since `began` while another one polled for it.
    pub fn napped(&self, began: u64) {
        self.waited(self.under_way().0, self.now().saturating_sub(began));
    }
}
