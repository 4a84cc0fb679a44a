//! Tests and probes that find nothing: when a program that polls gives way to others.

use crate::mpi::world::Hold;

/// Tests in vain, in a row, after which one gives way where ranks or threads share CPUs: they take as long as giving way does.
const FEW: u32 = 16;
/// ... and after so many, beside one for each rank that is looked at, a look whether any shares this one's CPU unexpectedly.
const FEW_ALONE: u32 = 64;

/// What a rank knows of its tests. One that only waits gets what it tests for by giving way; one that computes between its tests
/// loses the CPU in vain, and gives way less often each time: it shares the CPU as the kernel divides it.
#[derive(Debug)]
pub struct Vain {
    /// Tests in vain, in a row, since it gave way.
    row: u32,
    /// ... after which it gives way again.
    most: u32,
    /// ... at most, if giving way does not help.
    limit: u32,
    /// Nothing has come since it gave way.
    hopes: bool,
}

impl Vain {
    /// Tests may be in vain up to `limit` times in a row.
    pub fn new(limit: u32) -> Vain {
        Vain {
            row: 0,
            most: FEW.min(limit),
            limit,
            hopes: false,
        }
    }

    /// Something has come: at once behind giving way, by that.
    #[inline]
    pub fn found(&mut self) {
        if self.hopes && self.row == 0 {
            self.most = (self.most / 2).max(FEW.min(self.limit));
        }
        self.hopes = false;
        self.row = 0;
    }

    /// It gives way: once more if the last time has not helped.
    fn gives_way(&mut self) {
        if self.hopes {
            self.most = (self.most + self.most.div_ceil(8)).min(self.limit);
        }
        self.hopes = true;
    }
}

impl Hold<'_> {
    /// Counts tests and probes that found nothing; where ranks or threads share CPUs, gives way after some, so
    /// that a program that polls does not starve the rank it waits for. Where they should not, or nobody else wanted this CPU of late, it
    /// looks now and then.
    pub fn in_vain(&mut self, found: bool) {
        if found {
            self.engine.vain.found();
            return;
        }
        self.engine.vain.row += 1;
        let segment = self.engine.channel.segment();
        let (crowded, ranks) = (segment.lacks_cpus(), segment.ranks());
        let most = match crowded && !self.is_alone() {
            true => self.engine.vain.most,
            false => FEW_ALONE + ranks,
        };
        if self.engine.vain.row < most {
            return;
        }
        if crowded || self.engine.channel.shares_cpu() {
            self.engine.vain.gives_way();
            self.engine.channel.spread(None);
            self.give_way();
        }
        self.engine.vain.row = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::buffer::Buffer;
    use crate::mpi::comm::Plane;
    use crate::mpi::pt2pt::{Looks, Mode, irecv, isend, look_for_awaited};
    use crate::mpi::world::{State, World};
    use crate::shm::segment::Segment;
    use crate::sys::cvar::Settings;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    /// Its segment has two CPUs, which three threads share, and nobody is taken to be alone.
    fn crowded(limit: &'static str) -> World {
        let (segment, world) = world(limit);
        segment.add_thread();
        segment.add_thread();
        world
    }

    /// The same with one thread.
    fn world(limit: &'static str) -> (Arc<Segment>, World) {
        let segment = Arc::new(Segment::private(1, 2).unwrap());
        let value = |name: &str| match name {
            "NEARMPI_ALONE_MAX" => Some("0".into()),
            "NEARMPI_VAIN_MAX" => Some(limit.into()),
            _ => None,
        };
        let settings = Settings::read(value).unwrap();
        let world = World::new(State::join(segment.clone(), 0, settings), true);
        (segment, world)
    }

    /// How many tests in vain there are until `hold` gives way.
    fn tests(hold: &mut Hold) -> u32 {
        (1..1000)
            .find(|_| {
                hold.in_vain(false);
                hold.engine.vain.row == 0
            })
            .unwrap()
    }

    #[test]
    fn tests_in_vain_give_way_sooner_where_threads_share_cpus() {
        let (segment, world) = world("256");
        let mut hold = world.hold();
        // That it did not help then says nothing of what comes later.
        assert!((0..9).all(|_| tests(&mut hold) == FEW_ALONE + 1));
        segment.add_thread();
        segment.add_thread();
        assert_eq!(tests(&mut hold), FEW);
    }

    #[test]
    fn who_gives_way_where_ranks_share_cpus_is_seen_to_be_away() {
        for ranks in [1, 3] {
            let segment = Arc::new(Segment::private(ranks, 2).unwrap());
            let settings = Settings::read(|_| None).unwrap();
            let world = World::new(State::join(segment.clone(), 0, settings), true);
            let (over, bell) = (AtomicBool::new(false), &segment.rank(0).bell);
            let seen = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut hold = world.hold();
                    while !over.load(Ordering::Relaxed) {
                        hold.give_way();
                    }
                });
                let (begin, most) = (Instant::now(), Duration::from_secs(if ranks > 2 { 20 } else { 0 }));
                let looks = || (0..100_000).any(|_| bell.is_away());
                let mut seen = looks();
                while !seen && begin.elapsed() < most {
                    seen = looks();
                }
                over.store(true, Ordering::Relaxed);
                seen
            });
            assert_eq!((seen, bell.is_away()), (ranks > 2, false));
        }
    }

    #[test]
    fn who_gives_way_in_vain_does_so_less_often_until_it_helps() {
        let world = crowded("100");
        let mut hold = world.hold();
        assert_eq!([16, 16, 18, 21, 24].map(|_| tests(&mut hold)), [16, 16, 18, 21, 24]);
        let last = (0..20).map(|_| tests(&mut hold)).last();
        assert_eq!(last, Some(100));
        // What comes later has not come by that.
        hold.in_vain(false);
        hold.in_vain(true);
        assert_eq!(tests(&mut hold), 100);
        for most in [50, 25, 16, 16] {
            hold.in_vain(true);
            assert_eq!(tests(&mut hold), most);
        }
    }

    #[test]
    fn a_test_that_finds_its_message_in_the_ring_is_not_in_vain() {
        let world = crowded("100");
        let mut hold = world.hold();
        let (comm, mut word) = (hold.world.clone(), 0u64);
        let word = Buffer::bytes((&raw mut word).cast(), 8);
        let receive = irecv(&mut hold, &comm, Plane::PointToPoint, word.clone(), 0, 1).unwrap();
        (1..FEW).for_each(|_| hold.in_vain(false));
        isend(&mut hold, &comm, Plane::PointToPoint, word, 0, 1, Mode::Standard).unwrap();
        assert!(look_for_awaited(&mut hold, receive, Looks::Once).unwrap());
        assert_eq!(tests(&mut hold), FEW);
        assert_eq!(hold.engine.channel.heard(), Some(0));
    }

    #[test]
    fn the_limit_may_be_below_what_is_usual() {
        let world = crowded("3");
        let mut hold = world.hold();
        assert!((0..9).all(|_| tests(&mut hold) == 3));
        hold.in_vain(true);
        assert_eq!(tests(&mut hold), 3);
    }
}
