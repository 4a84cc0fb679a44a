//! # Safety
//! Hands out the partition that a rank counts in: relies on the layout to keep it apart from all others.
//!
//! What a segment says about its job, and what of it belongs to the job's profile.
#![allow(unsafe_code)]

use super::{Layout, Segment};
use crate::shm::profile::Block;
use crate::sys::clock::nanoseconds;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Segment {
    /// Gives the job its number.
    pub(super) fn give_number(&self) {
        let number = nanoseconds() << 20 ^ u64::from(std::process::id());
        self.header().number.store(number, Ordering::Relaxed);
    }

    /// Whether there are more ranks than CPUs.
    pub fn oversubscribed(&self) -> bool {
        self.ranks() > self.header().cpus.load(Ordering::Relaxed)
    }

    /// The CPUs that its ranks share, if there are more ranks than CPUs.
    pub fn crowd(&self) -> Option<u32> {
        self.oversubscribed().then(|| self.cpus())
    }

    /// The layout of what the job began with.
    pub fn layout(&self) -> &Layout {
        &self.part.layout
    }

    /// One more thread waits beside others of its rank than ever did.
    pub fn add_thread(&self) {
        self.header().beside.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether there are more ranks, or threads that wait in MPI at the same time, than CPUs.
    pub fn lacks_cpus(&self) -> bool {
        let beside = self.header().beside.load(Ordering::Relaxed);
        self.ranks().saturating_add(beside) > self.cpus()
    }

    /// A number that no other job of this machine has had since it was started.
    pub fn number(&self) -> u64 {
        self.header().number.load(Ordering::Relaxed)
    }

    /// The job counts on `cpus` CPUs, whatever was counted when its memory was made. All ranks say the same, each before it does
    /// anything that depends on it.
    pub fn count_on(&self, cpus: u32) {
        self.header().cpus.store(cpus, Ordering::Relaxed);
    }

    /// CPUs that the job counts on.
    pub fn cpus(&self) -> u32 {
        self.header().cpus.load(Ordering::Relaxed)
    }

    /// Asks ranks that join from now on to count for a profile.
    pub fn ask_for_profile(&self) {
        self.header().profiled.store(1, Ordering::Relaxed);
    }

    /// Whether ranks count for a profile that the launcher reads.
    pub fn is_profiled(&self) -> bool {
        self.header().profiled.load(Ordering::Relaxed) == 1
    }

    /// What `rank` counts.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn profile(self: &Arc<Segment>, rank: u32) -> Block {
        assert!(rank < self.ranks());
        let place = self.at(self.part.layout.profile(rank));
        // SAFETY: the partition lies within the mapping, which the clone keeps, and is used for nothing else.
        unsafe { Block::new(place, self.ranks(), Box::new(self.clone())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_wait_beside_others_need_cpus_too() {
        let segment = Segment::private(2, 3).unwrap();
        assert!(!segment.lacks_cpus());
        segment.add_thread();
        assert!(!segment.lacks_cpus());
        segment.add_thread();
        assert!(segment.lacks_cpus() && !segment.oversubscribed() && !segment.is_damaged());
        let crowded = Segment::private(2, 1).unwrap();
        assert!(crowded.lacks_cpus() && crowded.oversubscribed());
        crowded.count_on(2);
        assert!(!crowded.lacks_cpus() && !crowded.oversubscribed());
    }
}
