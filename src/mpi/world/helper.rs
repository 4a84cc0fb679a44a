//! Progress while the program computes: a thread of the library that looks after what is under way (`NEARMPI_ASYNC_PROGRESS`).
//!
//! It is a guest in its rank. It passes the gate only when nobody is inside, and does nothing while a thread of the program
//! waits in MPI, for that one moves everything, nor where nothing is under way: then who sends more than there is room for waits for
//! the program, as ever. It never sleeps on the rank's bell, so nobody who sends has to wake it: between
//! looks in vain it gives way for a while, then naps, and longer where nothing is under way.

use super::{Hold, World};
use crate::mpi::error::Error;
use crate::sys::futex;
use crate::sys::hog::Hog;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Longest nap, in shortest ones. What the program begins after a long time without anything is looked after so late at most.
const LONGEST: u32 = 10;

/// What a look has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Look {
    /// Something has moved.
    Moved,
    /// Something is under way, and a thread of the program may be waiting for it.
    Waiting,
    /// Nothing is, or a thread of the program is inside.
    Idle,
}

/// How the helper rests between its looks.
#[derive(Debug)]
struct Rest {
    yields: u64,
    shortest: Duration,
    yields_left: u64,
    nap: Duration,
}

impl Rest {
    fn new(yields: u64, shortest: Duration) -> Rest {
        Rest {
            yields,
            shortest,
            yields_left: 0,
            nap: shortest,
        }
    }

    /// How long it naps after such a look; not at all while it gives way.
    fn after(&mut self, look: Look) -> Option<Duration> {
        match look {
            Look::Moved => (self.yields_left, self.nap) = (self.yields, self.shortest),
            _ if self.yields_left > 0 => self.yields_left -= 1,
            Look::Waiting => {
                self.nap = self.shortest;
                return Some(self.nap);
            }
            Look::Idle => {
                let nap = self.nap;
                self.nap = (2 * nap).min(LONGEST * self.shortest);
                return Some(nap);
            }
        }
        None
    }
}

impl World {
    /// Whether a helper can come in beside the program's threads.
    pub fn admits_helper(&self) -> bool {
        self.gate.is_some()
    }

    /// Looks after what is under way until `stop` is not 0; who changes that wakes whoever sleeps on it. What makes progress
    /// impossible ends it and fails the next call of the program that makes progress.
    pub fn look_after(&self, stop: &AtomicU32) {
        let (mut rest, hog) = {
            let hold = self.hold();
            let settings = hold.engine.channel.settings();
            let nap = Duration::from_micros(settings.async_nap);
            // Whoever computes on the program's CPU need not be on this thread's.
            (Rest::new(settings.yields, nap), Hog::new(settings.away_max, 0))
        };
        while stop.load(Ordering::Acquire) == 0 {
            let look = match self.look() {
                Ok(look) => look,
                Err(error) => {
                    let mut hold = self.hold();
                    hold.trouble = Some(error);
                    return hold.wake_threads();
                }
            };
            match rest.after(look) {
                Some(nap) => futex::wait(stop, 0, nap),
                None if hog.gives_way() => {}
                None => rest.yields_left = 0,
            }
        }
    }

    fn look(&self) -> Result<Look, Error> {
        let Some(mut hold) = self.try_hold() else {
            return Ok(Look::Idle);
        };
        if !hold.has_work() {
            return Ok(Look::Idle);
        }
        if hold.engine.polling {
            return Ok(Look::Waiting);
        }
        hold.helped = true;
        let moved = hold.look_by(None, true);
        hold.helped = false;
        // Who fell asleep meanwhile has told that a function of the program may end what it waits for.
        hold.tell_awake();
        Ok(if moved? { Look::Moved } else { Look::Waiting })
    }

    /// Enters if nobody is in.
    fn try_hold(&self) -> Option<Hold<'_>> {
        let gate = self.gate.as_ref()?;
        gate.enters_at_once().then(|| Hold { world: self })
    }
}

impl Hold<'_> {
    /// Whether anything is under way that progress could move, or others may ask for something.
    fn has_work(&self) -> bool {
        let nothing = self.requests.is_empty() && self.schedules.is_empty() && self.desk.started.is_empty();
        // What a send has left behind when it ended still waits for its receiver.
        let flushed = self.engine.channel.is_flushed();
        !nothing || !flushed || !self.served.is_empty() || !self.hooks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::super::State;
    use super::*;
    use crate::mpi::buffer::Buffer;
    use crate::mpi::comm::{Comm, Plane};
    use crate::mpi::error::Class;
    use crate::mpi::hooks::Hook;
    use crate::mpi::pt2pt::{self, Mode};
    use crate::shm::segment::Segment;
    use crate::sys::cvar::Settings;
    use std::cell::Cell;
    use std::rc::Rc;
    use std::sync::Arc;
    use std::time::Instant;

    const NAP: Duration = Duration::from_micros(50);

    fn worlds(asked: bool, multiple: bool) -> [World; 2] {
        let segment = Arc::new(Segment::private(2, 2).unwrap());
        let given = |name: &str| (asked && name == "NEARMPI_ASYNC_PROGRESS").then(|| "1".into());
        let settings = Settings::read(given).unwrap();
        [0, 1].map(|rank| World::new(State::join(segment.clone(), rank, settings.clone()), multiple))
    }

    /// Runs `body` while helpers look after `worlds`; they end with it.
    fn with_helpers(worlds: &[World; 2], body: impl FnOnce()) {
        let stop = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for world in worlds {
                scope.spawn(|| world.look_after(&stop));
            }
            let _stopped_whatever_happens = Stop(&stop);
            body();
        });
    }

    struct Stop<'a>(&'a AtomicU32);

    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(1, Ordering::Release);
            futex::wake_all(self.0);
        }
    }

    fn all(state: &State) -> Rc<Comm> {
        state.world.clone()
    }

    fn over_in_time(world: &World, key: u32) -> bool {
        let end = Instant::now() + Duration::from_secs(20);
        while !world.hold().is_over(key) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        world.hold().is_over(key)
    }

    #[test]
    fn messages_of_every_length_move_though_the_program_makes_no_progress() {
        let worlds = worlds(true, false);
        with_helpers(&worlds, || {
            for len in [8, 5000, 300_000, 3 << 20] {
                let (mut out, mut room) = (vec![len as u8; len], vec![0; len]);
                let keys = {
                    let (mut sender, mut receiver) = (worlds[0].hold(), worlds[1].hold());
                    let (out, room) = (
                        Buffer::bytes(out.as_mut_ptr(), len),
                        Buffer::bytes(room.as_mut_ptr(), len),
                    );
                    let plane = Plane::PointToPoint;
                    let comms = (all(&sender), all(&receiver));
                    let sent = pt2pt::isend(&mut sender, &comms.0, plane, out, 1, 3, Mode::Standard).unwrap();
                    let received = pt2pt::irecv(&mut receiver, &comms.1, plane, room, 0, 3).unwrap();
                    [sent, received]
                };
                for (world, key) in worlds.iter().zip(keys) {
                    assert!(over_in_time(world, key), "{len} bytes");
                    pt2pt::wait(&mut world.hold(), key).unwrap();
                }
                assert_eq!(room, out);
            }
        });
    }

    #[test]
    fn it_stays_out_while_a_thread_of_the_program_is_in_or_waits() {
        let worlds = worlds(true, false);
        // The gate had an owner, and has none from now on.
        std::thread::scope(|scope| drop(scope.spawn(|| drop(worlds[0].hold()))));
        assert!(worlds[0].try_hold().is_some());
        let mut hold = worlds[0].hold();
        assert!(worlds[0].try_hold().is_none());
        let mut byte = [0];
        let (comm, room) = (all(&hold), Buffer::bytes(byte.as_mut_ptr(), 1));
        pt2pt::irecv(&mut hold, &comm, Plane::PointToPoint, room, 1, 3).unwrap();
        hold.engine.polling = true;
        drop(hold);
        {
            let mut sender = worlds[1].hold();
            let (comm, out) = (all(&sender), Buffer::bytes(byte.as_mut_ptr(), 1));
            pt2pt::isend(&mut sender, &comm, Plane::PointToPoint, out, 0, 3, Mode::Standard).unwrap();
        }
        assert!(matches!(worlds[0].look(), Ok(Look::Waiting)));
        worlds[0].hold().engine.polling = false;
        assert!(matches!(worlds[0].look(), Ok(Look::Moved)));
    }

    #[test]
    fn it_calls_tasks_of_the_program_and_leaves_requests_to_who_waits_for_them() {
        let worlds = worlds(true, false);
        let mut hold = worlds[0].hold();
        assert!(!hold.has_work());
        let mut byte = [0];
        let (comm, room) = (all(&hold), Buffer::bytes(byte.as_mut_ptr(), 1));
        let request = pt2pt::irecv(&mut hold, &comm, Plane::PointToPoint, room, 1, 3).unwrap();
        let calls = Rc::new(Cell::new((0, 0)));
        let (polls, tasks) = (calls.clone(), calls.clone());
        hold.hooks.push(Hook::request(
            request,
            Box::new(move || {
                polls.set((polls.get().0 + 1, polls.get().1));
                Ok(())
            }),
        ));
        hold.hooks.push(Hook::task(Box::new(move || {
            tasks.set((tasks.get().0, tasks.get().1 + 1));
            (false, Vec::new())
        })));
        assert!(hold.has_work() && !hold.look_by(None, true).unwrap());
        assert_eq!((calls.get(), hold.hooks.len(), hold.hooks_called), ((0, 1), 2, 0));
        assert!(!hold.look_around(None).unwrap());
        assert_eq!((calls.get(), hold.hooks.len(), hold.hooks_called), ((1, 2), 2, 0));
    }

    #[test]
    fn threads_of_the_program_and_the_helper_are_told_apart() {
        for (asked, multiple) in [(false, false), (false, true), (true, false), (true, true)] {
            let worlds = worlds(asked, multiple);
            assert_eq!(worlds[0].admits_helper(), asked || multiple);
            assert_eq!(
                (worlds[0].is_multiple(), worlds[0].hold().has_threads()),
                (multiple, multiple)
            );
        }
    }

    #[test]
    fn what_ends_it_fails_the_next_call_that_makes_progress() {
        let worlds = worlds(true, false);
        worlds[0].hold().trouble = Some(Error::new(Class::Intern, "junk"));
        worlds[0]
            .hold()
            .hooks
            .push(Hook::task(Box::new(|| (false, Vec::new()))));
        std::thread::scope(|scope| drop(scope.spawn(|| worlds[0].look_after(&AtomicU32::new(0)))));
        let error = worlds[0].hold().look_around(None).unwrap_err();
        assert_eq!((error.class(), error.text()), (Class::Intern, "junk"));
        assert!(!worlds[0].hold().look_around(None).unwrap(), "it is told once");
        // A wait that ends so says that the rank is awake.
        let mut hold = worlds[0].hold();
        (hold.trouble, hold.engine.told) = (Some(error), true);
        assert!(hold.wait_until(None, |_| Ok(false)).is_err() && !hold.engine.told && !hold.engine.polling);
    }

    #[test]
    fn it_gives_way_after_what_has_moved_and_naps_longer_where_nothing_is_under_way() {
        let mut rest = Rest::new(2, NAP);
        assert_eq!(
            [rest.after(Look::Idle), rest.after(Look::Idle)],
            [Some(NAP), Some(2 * NAP)]
        );
        assert_eq!(rest.after(Look::Waiting), Some(NAP));
        let looks = [Look::Moved, Look::Waiting, Look::Idle, Look::Waiting];
        assert_eq!(looks.map(|look| rest.after(look)), [None, None, None, Some(NAP)]);
        let longest = (0..20).filter_map(|_| rest.after(Look::Idle)).last();
        assert_eq!(longest, Some(LONGEST * NAP));
    }
}
