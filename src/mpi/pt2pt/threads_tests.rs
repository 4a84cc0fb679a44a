//! Several threads in each of several ranks, all of them in MPI at once; run under ThreadSanitizer too.

use super::partitioned::Partitions;
use super::*;
use crate::mpi::coll;
use crate::mpi::comm::create;
use crate::mpi::datatype::{Datatype, basic};
use crate::mpi::errhandler::Errhandler;
use crate::mpi::session::{self, Session};
use crate::mpi::world::World;
use crate::shm::segment::Segment;
use crate::sys::cvar::Settings;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MPI_BYTE: i32 = 0x4c00010d;
const RANKS: u32 = 3;
const THREADS: u32 = 4;
const ROUNDS: u32 = if cfg!(debug_assertions) { 300 } else { 3000 };

/// What a thread has: its rank's world, its number, and the communicator that threads of its number share.
struct Me<'w> {
    world: &'w World,
    rank: u32,
    number: u32,
    comm: u32,
}

impl Me<'_> {
    fn comm(&self, hold: &Hold) -> Rc<Comm> {
        hold.comms.get(self.comm).unwrap().clone()
    }

    /// A message to the next rank and one from the one before; every path, with and without a probe.
    fn ring(&self, round: u32) {
        let len = [8, 300, 6000, 40_000][round as usize / 5 % 4];
        let (next, before) = ((self.rank + 1) % RANKS, (self.rank + RANKS - 1) % RANKS);
        let mut out: Vec<u8> = (0..len)
            .map(|at| (at as u32 ^ round ^ self.rank << 4 ^ self.number) as u8)
            .collect();
        let mut room = vec![0; len];
        let tag = (self.number * 100 + round) as i32;
        let (sent, received) = {
            let mut hold = self.world.hold();
            // Even threads share the world, odd ones have their own communicator.
            let comm = if self.number.is_multiple_of(2) {
                hold.world.clone()
            } else {
                self.comm(&hold)
            };
            let (out, room) = (
                Buffer::bytes(out.as_mut_ptr(), len),
                Buffer::bytes(room.as_mut_ptr(), len),
            );
            let sent = isend(&mut hold, &comm, Plane::PointToPoint, out, next, tag, Mode::Standard).unwrap();
            let received = match round % 2 {
                0 => irecv(&mut hold, &comm, Plane::PointToPoint, room, before as i32, tag).unwrap(),
                _ => {
                    let (matched, status) = probe::mprobe(&mut hold, &comm, before as i32, tag).unwrap();
                    assert_eq!(status.bytes as usize, len);
                    imrecv(&mut hold, matched, room).unwrap()
                }
            };
            (sent, received)
        };
        let mut hold = self.world.hold();
        wait(&mut hold, received).unwrap();
        wait(&mut hold, sent).unwrap();
        drop(hold);
        let right = |(at, &byte): (usize, &u8)| byte == (at as u32 ^ round ^ before << 4 ^ self.number) as u8;
        assert!(room.iter().enumerate().all(right));
    }

    fn cancelled(&self) {
        let mut byte = [0];
        let mut hold = self.world.hold();
        let comm = self.comm(&hold);
        let room = Buffer::bytes(byte.as_mut_ptr(), 1);
        let key = irecv(&mut hold, &comm, Plane::PointToPoint, room, 0, 99_999).unwrap();
        request::cancel(&mut hold, key).unwrap();
        assert!(wait(&mut hold, key).unwrap().cancelled);
    }

    fn together(&self, round: u32) {
        let mut hold = self.world.hold();
        let comm = self.comm(&hold);
        let all = coll::allgather_bytes(&mut hold, &comm, &[self.rank as u8, round as u8]).unwrap();
        assert_eq!(
            all,
            (0..RANKS as u8)
                .flat_map(|rank| [rank, round as u8])
                .collect::<Vec<_>>()
        );
        let dup = Rc::new(create::dup(&mut hold, &comm).unwrap());
        coll::barrier(&mut hold, &dup).unwrap();
    }

    /// A message in partitions to the next rank, one half of them marked as ready by a second thread.
    fn in_partitions(&self, round: u32) {
        const SIZE: usize = 3000;
        let number = 2 + 2 * (round as usize % 4);
        let (next, before) = ((self.rank + 1) % RANKS, (self.rank + RANKS - 1) % RANKS);
        let mut out: Vec<u8> = (0..number * SIZE)
            .map(|at| (at as u32 ^ round ^ self.rank << 4 ^ self.number) as u8)
            .collect();
        let mut room = vec![0; out.len()];
        let (send, receive) = {
            let mut hold = self.world.hold();
            let comm = self.comm(&hold);
            let datatype = Datatype::basic_at(basic::index(MPI_BYTE).unwrap());
            let parts = |address, number, count| Partitions {
                address,
                number,
                count,
                datatype: datatype.clone(),
            };
            let out = parts(out.as_mut_ptr(), number, SIZE);
            // The receiver sees two partitions, whatever the sender has.
            let room = parts(room.as_mut_ptr(), 2, number / 2 * SIZE);
            let send = partitioned::send_init(&mut hold, &comm, out, Some(next), 5).unwrap();
            let receive = partitioned::recv_init(&mut hold, &comm, room, Some(before), 5).unwrap();
            let mut key = |operation| persistent::create(&mut hold, operation).unwrap();
            (key(send), key(receive))
        };
        for key in [receive, send] {
            persistent::start(&mut self.world.hold(), key).unwrap();
        }
        let ready = |which: std::ops::Range<usize>| {
            for partition in which.rev() {
                partitioned::ready(&mut self.world.hold(), send, [partition].into_iter()).unwrap();
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| ready(number / 2..number));
            ready(0..number / 2);
        });
        let mut hold = self.world.hold();
        hold.wait_until(None, |hold| partitioned::arrived(hold, receive, 1))
            .unwrap();
        for key in [receive, send] {
            wait(&mut hold, key).unwrap();
            request::free(&mut hold, key).unwrap();
        }
        drop(hold);
        let right = |(at, &byte): (usize, &u8)| byte == (at as u32 ^ round ^ before << 4 ^ self.number) as u8;
        assert!(room.iter().enumerate().all(right));
    }

    /// A session of this thread's own, and a communicator of everybody made from it.
    fn in_a_session(&self) {
        let mut hold = self.world.hold();
        let new = Rc::new(Session::new(Errhandler::Return, 3));
        let handle = hold.sessions.insert(new).unwrap();
        let session = hold.sessions.get(handle).unwrap().clone();
        let group = Rc::new(session::group(&hold, &session, "mpi://world").unwrap());
        drop(session);
        let world = hold.world.clone();
        let comm = create::create_group(&mut hold, &world, &group, self.number as i32).unwrap();
        coll::barrier(&mut hold, &Rc::new(comm.unwrap())).unwrap();
        hold.sessions.remove(handle);
    }

    fn work(&self) {
        for round in 0..ROUNDS {
            match round % 7 {
                0..3 => self.ring(round),
                3 => self.cancelled(),
                4 => self.in_partitions(round),
                5 => self.in_a_session(),
                _ => self.together(round),
            }
        }
    }
}

#[test]
fn threads_of_several_ranks_work_at_once() {
    let segment = Arc::new(Segment::private(RANKS, 2).unwrap());
    std::thread::scope(|scope| {
        for rank in 0..RANKS {
            let segment = segment.clone();
            scope.spawn(move || {
                let settings = Settings::read(|_| None).unwrap();
                let world = World::new(State::join(segment, rank, settings), true);
                let comms: Vec<u32> = (0..THREADS)
                    .map(|_| {
                        let mut hold = world.hold();
                        let parent = hold.world.clone();
                        let comm = Rc::new(create::dup(&mut hold, &parent).unwrap());
                        hold.comms.insert(comm).unwrap()
                    })
                    .collect();
                std::thread::scope(|threads| {
                    for (number, comm) in (0..THREADS).zip(comms) {
                        let world = &world;
                        threads.spawn(move || {
                            Me {
                                world,
                                rank,
                                number,
                                comm,
                            }
                            .work()
                        });
                    }
                });
                // Nobody leaves while another may still read its memory.
                let mut hold = world.hold();
                let all = hold.world.clone();
                coll::barrier(&mut hold, &all).unwrap();
            });
        }
    });
}

/// While it holds the gate no other thread takes the message.
#[test]
fn a_thread_takes_a_message_past_a_receive_that_another_waits_in_but_past_no_started_one() {
    let segment = Arc::new(Segment::private(2, 2).unwrap());
    let world = |rank| {
        let settings = Settings::read(|_| None).unwrap();
        World::new(State::join(segment.clone(), rank, settings), true)
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let sender = world(1);
            let mut hold = sender.hold();
            let comm = hold.world.clone();
            for (tag, mut byte) in [(5, 1), (6, 2), (5, 3)] {
                let (nothing, message) = (Buffer::bytes(&raw mut byte, 0), Buffer::bytes(&raw mut byte, 1));
                recv(&mut hold, &comm, Plane::PointToPoint, nothing, 0, 9).unwrap();
                send(&mut hold, &comm, Plane::PointToPoint, message, 0, tag, Mode::Standard).unwrap();
            }
        });
        let receiver = world(0);
        std::thread::scope(|threads| {
            let mut hold = receiver.hold();
            let comm = hold.world.clone();
            let ask = |hold: &mut Hold| {
                let nothing = Buffer::bytes(std::ptr::NonNull::dangling().as_ptr(), 0);
                send(hold, &comm, Plane::PointToPoint, nothing, 1, 9, Mode::Standard).unwrap();
            };
            threads.spawn(|| {
                let (mut hold, mut byte) = (receiver.hold(), 0);
                let (comm, room) = (hold.world.clone(), Buffer::bytes(&raw mut byte, 1));
                recv(&mut hold, &comm, Plane::PointToPoint, room, 1, 5).unwrap();
                drop(hold);
                assert_eq!(byte, 3);
            });
            while hold.engine.blocked.is_empty() {
                hold.released(std::thread::yield_now);
            }
            let mut byte = 0u8;
            let glance = |hold: &mut Hold, tag, byte: &mut u8| {
                let pattern = Pattern::new(comm.context_on(Plane::PointToPoint), 1, tag);
                // SAFETY: there is room for a byte.
                unsafe { recv_glancing(hold, (1, pattern), (byte, 1), 1) }
            };
            ask(&mut hold);
            let until = Instant::now() + Duration::from_secs(20);
            while glance(&mut hold, 5, &mut byte).is_none() && Instant::now() < until {
                std::thread::yield_now();
            }
            let first = byte;
            let mut other = 0;
            let started = Buffer::bytes(&raw mut other, 1);
            let started = irecv(&mut hold, &comm, Plane::PointToPoint, started, 1, 6).unwrap();
            ask(&mut hold);
            while !hold.engine.channel.has_next(1) {
                std::thread::yield_now();
            }
            assert!(glance(&mut hold, 6, &mut byte).is_none());
            wait(&mut hold, started).unwrap();
            ask(&mut hold);
            assert_eq!((first, other), (1, 2));
        });
    });
}
