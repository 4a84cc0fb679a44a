//! Ranks as threads over a segment of this process.

use super::*;
use crate::mpi::coll::support::repeating;
use crate::mpi::status::{ANY_SOURCE, ANY_TAG};
use crate::mpi::world::World;
use crate::shm::segment::Segment;
use crate::sys::cvar::Settings;
use std::sync::Arc;

/// Runs `program(rank, world)` as each of `ranks` ranks, with control variables from `set`.
pub(super) fn job(ranks: u32, set: &[(&str, &str)], program: impl Fn(u32, &World) + Sync) {
    job_on(2, ranks, set, program);
}

/// As [`job`], on so many CPUs.
fn job_on(cpus: u32, ranks: u32, set: &[(&str, &str)], program: impl Fn(u32, &World) + Sync) {
    let segment = Arc::new(Segment::private(ranks, cpus).unwrap());
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            let (segment, program) = (segment.clone(), &program);
            scope.spawn(move || {
                let lookup = |name: &str| {
                    set.iter()
                        .find(|(key, _)| *key == name)
                        .map(|(_, value)| value.to_string())
                };
                let settings = Settings::read(lookup).unwrap();
                let world = World::new(State::join(segment, rank, settings), false);
                program(rank, &world);
                // Nobody leaves while another may still read its memory.
                crate::mpi::coll::barrier(&mut world.hold(), &world.hold().world.clone()).unwrap();
            });
        }
    });
}

/// A buffer of `len` bytes of which every second byte pair belongs to the message: 0, 1, 4, 5 and so on.
pub(super) fn striped(bytes: &mut [u8], pairs: i64) -> Buffer {
    use crate::mpi::datatype::Datatype;
    let pair = Datatype::basic_at(crate::mpi::datatype::basic::index(0x4c000203).unwrap());
    let stripes = Rc::new(Datatype::vector(pairs, 1, 2, &pair).unwrap());
    stripes.commit();
    Buffer::typed(bytes.as_mut_ptr(), 1, &stripes)
}

#[test]
fn a_message_with_gaps_arrives_whole_by_every_path() {
    for set in [
        &[][..],
        &[("NEARMPI_ONE_COPY", "0")],
        &[("NEARMPI_ONE_COPY_MIN", "1"), ("NEARMPI_OFFER_MIN", "1")],
    ] {
        job(2, set, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            for pairs in [3usize, 100, 5000, 9001, 400_000] {
                let mut bytes = if rank == 0 {
                    pattern(4 * pairs, 0)
                } else {
                    vec![0xee; 4 * pairs]
                };
                let message = striped(&mut bytes, pairs as i64);
                if rank == 0 {
                    send(&mut hold, &comm, Plane::PointToPoint, message, 1, 0, Mode::Standard).unwrap();
                    continue;
                }
                let status = recv(&mut hold, &comm, Plane::PointToPoint, message, 0, 0).unwrap();
                assert_eq!(status.bytes as usize, 2 * pairs);
                let sent = pattern(4 * pairs, 0);
                let right = |(at, &byte): (usize, &u8)| byte == if at % 4 < 2 { sent[at] } else { 0xee };
                assert!(bytes.iter().enumerate().all(right), "{pairs} pairs");
            }
        });
    }
}

pub(super) fn pattern(len: usize, seed: usize) -> Vec<u8> {
    repeating(len, |index| ((index * 31) ^ (index >> 8) ^ seed) as u8)
}

pub(super) fn buffer(bytes: &mut [u8]) -> Buffer {
    Buffer::bytes(bytes.as_mut_ptr(), bytes.len())
}

const SIZES: [usize; 16] = [
    0, 1, 8, 47, 48, 49, 200, 4096, 8192, 8193, 16384, 32768, 32769, 65537, 300_000, 2_000_001,
];

#[test]
fn a_look_for_a_started_receive_lets_all_that_comes_before_go_where_it_belongs() {
    use crate::mpi::coll::call::{Task, begin};
    use crate::mpi::coll::signature::Call;
    use crate::mpi::pt2pt::persistent::{self, Operation};
    job(2, &[("NEARMPI_BOARD_STARTED", "0")], |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        let mut data = vec![0; 8];
        let operation = Operation::Recv {
            comm: comm.clone(),
            buffer: buffer(&mut data),
            source: 0,
            tag: 1,
        };
        let started = persistent::create(&mut hold, operation).unwrap();
        for turn in 0..200 {
            let barrier = begin(&mut hold, &comm, Task::Barrier(Call::Barrier)).unwrap();
            if rank == 0 {
                for tag in [9, 1] {
                    let mut data = pattern(8, turn + tag as usize);
                    let message = buffer(&mut data);
                    send(&mut hold, &comm, Plane::PointToPoint, message, 1, tag, Mode::Standard).unwrap();
                }
            } else {
                persistent::start(&mut hold, started).unwrap();
                while !hold.is_over(started) {
                    look_for_awaited(&mut hold, started, Looks::Out).unwrap();
                }
                assert!(
                    hold.is_over(barrier),
                    "its message has been taken, and it has been told"
                );
                assert_eq!(wait(&mut hold, started).unwrap().tag, 1);
                assert!(data == pattern(8, turn + 1));
                let mut other = vec![0; 8];
                recv(&mut hold, &comm, Plane::PointToPoint, buffer(&mut other), 0, 9).unwrap();
                assert!(other == pattern(8, turn + 9));
            }
            wait(&mut hold, barrier).unwrap();
        }
        crate::mpi::request::free(&mut hold, started).unwrap();
    });
}

fn every_size_arrives_whole(set: &[(&str, &str)]) {
    for cpus in [2, 3] {
        every_size_arrives_whole_of(cpus, 3, set);
    }
}

/// ... in a job of so many ranks on so many CPUs.
fn every_size_arrives_whole_of(cpus: u32, ranks: u32, set: &[(&str, &str)]) {
    job_on(cpus, ranks, set, |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        for (turn, len) in SIZES.into_iter().enumerate() {
            let tag = turn as i32;
            if rank < 2 {
                let mut data = pattern(len, turn + rank as usize);
                send(
                    &mut hold,
                    &comm,
                    Plane::PointToPoint,
                    buffer(&mut data),
                    2,
                    tag,
                    Mode::Standard,
                )
                .unwrap();
            } else if rank == 2 {
                for source in [1, 0] {
                    let mut data = vec![0; len];
                    let status = recv(&mut hold, &comm, Plane::PointToPoint, buffer(&mut data), source, tag).unwrap();
                    assert_eq!((status.source, status.tag, status.bytes), (source, tag, len as u64));
                    assert!(
                        data == pattern(len, turn + source as usize),
                        "{len} bytes from {source}"
                    );
                }
            }
        }
    });
}

#[test]
fn every_size_arrives_whole_by_every_path() {
    every_size_arrives_whole(&[]);
    every_size_arrives_whole(&[("NEARMPI_ONE_COPY", "0")]);
    every_size_arrives_whole(&[("NEARMPI_ONE_COPY_MIN", "1"), ("NEARMPI_OFFER_MIN", "1")]);
    every_size_arrives_whole(&[("NEARMPI_WAY", "1")]);
    every_size_arrives_whole(&[("NEARMPI_WAY", "1"), ("NEARMPI_SHUTTLE_MIN", "1")]);
    every_size_arrives_whole(&[("NEARMPI_WAY", "1"), ("NEARMPI_SHUTTLE_MAX", "0")]);
    every_size_arrives_whole(&[("NEARMPI_WAY", "2")]);
    every_size_arrives_whole(&[("NEARMPI_WAY", "3"), ("NEARMPI_JOIN_CHUNK", "4096")]);
    every_size_arrives_whole(&[("NEARMPI_RING_MAX", "0"), ("NEARMPI_OFFER_MIN", "1000000000")]);
    // In parts, with receivers that wait for the next one in `gather`, and with those that set the message aside.
    let parts = [("NEARMPI_WAY", "1"), ("NEARMPI_OFFER_MIN", "1000000000")];
    for glances in ["1", "100000"] {
        every_size_arrives_whole(&[parts[0], parts[1], ("NEARMPI_GLANCES", glances)]);
    }
    every_size_arrives_whole(&[parts[0], parts[1], ("NEARMPI_RING_PART", "1000")]);
    every_size_arrives_whole(&[parts[0], parts[1], ("NEARMPI_RING_GROW", "1")]);
    every_size_arrives_whole(&[parts[0], parts[1], ("NEARMPI_RING_GROW", "0")]);
    every_size_arrives_whole(&[parts[0], parts[1], ("NEARMPI_RING_PART", "0")]);
    // Rings have less room there, and those of more than 64 ranks no parts.
    for ranks in [16, 64, 65] {
        every_size_arrives_whole_of(ranks, ranks, &[]);
        every_size_arrives_whole_of(ranks, ranks, &parts);
    }
}

/// `MPI_Sendrecv` counts on that.
#[test]
fn a_message_that_is_waited_for_leaves_before_its_receiver_comes_or_says_how_it_is_to_go() {
    job(2, &[("NEARMPI_WAY", "1")], |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        let plane = Plane::PointToPoint;
        for (len, whole) in [(100_000, true), (8 << 20, false)] {
            let mut data = if rank == 0 { pattern(len, 1) } else { vec![0; len] };
            let data_of = buffer(&mut data);
            if rank == 1 {
                if whole {
                    crate::mpi::coll::barrier(&mut hold, &comm).unwrap();
                }
                recv(&mut hold, &comm, plane, data_of, 0, 7).unwrap();
                assert!(data == pattern(len, 1));
                continue;
            }
            match send_whole(&mut hold, &comm, plane, &data_of, (1, 7), true).unwrap() {
                Ok(()) => {
                    assert!(whole);
                    crate::mpi::coll::barrier(&mut hold, &comm).unwrap();
                }
                Err(plan) => {
                    assert!(!whole && plan.is_some_and(|way| way.is_some()));
                    let request = isend_planned(&mut hold, &comm, plane, (data_of, 1, 7), plan).unwrap();
                    wait(&mut hold, request).unwrap();
                }
            }
        }
    });
}

#[test]
fn kept_messages_are_received_without_a_request() {
    const LENS: [usize; 6] = [0, 8, 22, 23, 600, 200_000];
    const LAST: i32 = 1000;
    job(2, &[], |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        let plane = Plane::PointToPoint;
        // With 6 in a row and, four times as many, in lists; each tag comes twice.
        for many in [1, 4] {
            // What belongs to the next round comes after this one.
            crate::mpi::coll::barrier(&mut hold, &comm).unwrap();
            let tags = many * LENS.len();
            let len = |tag: usize| LENS[tag % LENS.len()];
            if rank == 0 {
                let mut data: Vec<_> = (0..2 * tags).map(|n| pattern(len(n % tags), n)).collect();
                let out = data.iter_mut().enumerate().map(|(n, data)| {
                    let (tag, mode) = ((n % tags) as i32, Mode::Standard);
                    isend(&mut hold, &comm, plane, buffer(data), 1, tag, mode).unwrap()
                });
                let out: Vec<_> = out.collect();
                send(&mut hold, &comm, plane, buffer(&mut []), 1, LAST, Mode::Standard).unwrap();
                for key in out {
                    wait(&mut hold, key).unwrap();
                }
                continue;
            }
            recv(&mut hold, &comm, plane, buffer(&mut []), 0, LAST).unwrap();
            assert_eq!(hold.engine.unexpected.len(), 2 * tags);
            for n in (0..tags).rev().chain((tags..2 * tags).rev()) {
                let (tag, len) = (n % tags, len(n % tags));
                let mut data = vec![0; len + 1];
                let started = recv_started(&mut hold, &comm, plane, buffer(&mut data), 0, tag as i32).unwrap();
                assert_eq!(started.is_ok(), len < 1000, "{len} bytes");
                let status = started.unwrap_or_else(|key| finish(&mut hold, key).unwrap());
                assert_eq!((status.source, status.tag, status.bytes), (0, tag as i32, len as u64));
                assert_eq!(data[..len], pattern(len, n));
            }
            assert!(hold.engine.unexpected.is_empty());
        }
    });
}

#[test]
fn few_bytes_with_gaps_go_and_come_without_a_request() {
    const MOST: usize = GATHERED / 2;
    job(2, &[], |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        let plane = Plane::PointToPoint;
        for pairs in [2, 7, 300, MOST, MOST + 1] {
            let mut whole = pattern(4 * pairs, 0);
            if rank == 0 {
                let message = striped(&mut whole, pairs as i64);
                send(&mut hold, &comm, plane, message, 1, 5, Mode::Standard).unwrap();
                continue;
            }
            while !hold.engine.channel.has_next(0) {}
            let mut bytes = vec![0xee; 4 * pairs + 8];
            let mut receive = |pairs: usize, tag| {
                let room = striped(&mut bytes, pairs as i64);
                recv_scattered(&mut hold, &comm, plane, &room, 0, tag)
                    .transpose()
                    .unwrap()
            };
            assert!(
                receive(pairs, 4).is_none() && receive(pairs - 1, 5).is_none(),
                "another; too long"
            );
            let came = receive(pairs.max(MOST.min(pairs + 1)), 5);
            assert_eq!(came.is_some(), pairs <= MOST, "{pairs} pairs");
            match came {
                Some(status) => assert_eq!((status.source, status.tag, status.bytes), (0, 5, 2 * pairs as u64)),
                None => {
                    let room = striped(&mut bytes, pairs as i64);
                    recv(&mut hold, &comm, plane, room, 0, 5).unwrap();
                }
            }
            let kept = |at: usize| at % 4 > 1 || at >= 4 * pairs;
            let right = |(at, &byte): (usize, &u8)| byte == if kept(at) { 0xee } else { whole[at] };
            assert!(bytes.iter().enumerate().all(right), "{pairs} pairs");
        }
    });
}

#[test]
fn a_kept_message_that_is_too_long_is_cut_and_gone() {
    job(2, &[], |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        let plane = Plane::PointToPoint;
        if rank == 0 {
            for tag in [1, 1, 0] {
                send(&mut hold, &comm, plane, buffer(&mut [7; 8]), 1, tag, Mode::Standard).unwrap();
            }
            return;
        }
        let mut data = [0; 8];
        recv(&mut hold, &comm, plane, buffer(&mut data), 0, 0).unwrap();
        let error = recv(&mut hold, &comm, plane, buffer(&mut data[..4]), 0, 1).unwrap_err();
        assert_eq!(error.class(), Class::Truncate);
        assert_eq!(hold.engine.unexpected.len(), 1);
        assert_eq!(recv(&mut hold, &comm, plane, buffer(&mut data), 0, 1).unwrap().bytes, 8);
        assert!(hold.engine.unexpected.is_empty());
    });
}

#[test]
fn both_sides_may_send_first() {
    job(2, &[], |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        let peer = 1 - rank;
        for len in SIZES {
            let mut requests = Vec::new();
            let mut out: Vec<Vec<u8>> = (0..40).map(|n| pattern(len, n + rank as usize)).collect();
            for data in &mut out {
                let mode = Mode::Standard;
                requests.push(isend(&mut hold, &comm, Plane::PointToPoint, buffer(data), peer, 7, mode).unwrap());
            }
            for n in 0..40 {
                let mut data = vec![0; len];
                recv(
                    &mut hold,
                    &comm,
                    Plane::PointToPoint,
                    buffer(&mut data),
                    ANY_SOURCE,
                    ANY_TAG,
                )
                .unwrap();
                assert!(data == pattern(len, n + peer as usize), "message {n} of {len} bytes");
            }
            for request in requests {
                wait(&mut hold, request).unwrap();
            }
        }
    });
}

#[test]
fn a_long_message_is_cut_and_the_next_one_is_whole() {
    for set in [&[][..], &[("NEARMPI_ONE_COPY", "0")]] {
        job(2, set, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            for len in [10, 1000, 30_000, 400_000] {
                if rank == 0 {
                    for _ in 0..2 {
                        let mut data = pattern(len, 1);
                        send(
                            &mut hold,
                            &comm,
                            Plane::PointToPoint,
                            buffer(&mut data),
                            1,
                            0,
                            Mode::Standard,
                        )
                        .unwrap();
                    }
                } else {
                    let mut data = vec![0xee; len];
                    let short = buffer(&mut data[..len / 2]);
                    let error = recv(&mut hold, &comm, Plane::PointToPoint, short, 0, 0).unwrap_err();
                    assert_eq!(error.class(), Class::Truncate);
                    assert!(data[len / 2..].iter().all(|&byte| byte == 0xee), "{len} bytes");
                    recv(&mut hold, &comm, Plane::PointToPoint, buffer(&mut data), 0, 0).unwrap();
                    assert!(data == pattern(len, 1), "{len} bytes");
                }
            }
        });
    }
}

#[test]
fn a_synchronous_send_waits_for_its_receive_and_can_be_cancelled_before() {
    job(2, &[], |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        let mut data = [rank as u8; 4];
        // Often, for the receiver may look at the message at the moment at which it is cancelled.
        const TIMES: i32 = 2000;
        if rank == 0 {
            let mode = Mode::Synchronous;
            for time in 0..TIMES {
                let first = isend(&mut hold, &comm, Plane::PointToPoint, buffer(&mut data), 1, 1, mode).unwrap();
                request::cancel(&mut hold, first).unwrap();
                assert!(wait(&mut hold, first).unwrap().cancelled);
                let none = buffer(&mut []);
                send(&mut hold, &comm, Plane::PointToPoint, none, 1, 2 + time, Mode::Standard).unwrap();
            }
            let mut other = [5u8; 4];
            send(&mut hold, &comm, Plane::PointToPoint, buffer(&mut other), 1, 1, mode).unwrap();
        } else {
            for time in 0..TIMES {
                recv(&mut hold, &comm, Plane::PointToPoint, buffer(&mut []), 0, 2 + time).unwrap();
            }
            let status = recv(&mut hold, &comm, Plane::PointToPoint, buffer(&mut data), 0, 1).unwrap();
            assert_eq!((data, status.cancelled), ([5; 4], false));
        }
    });
}

#[test]
fn a_rank_can_send_to_itself() {
    job(1, &[], |_, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        for len in SIZES {
            let (mut out, mut back) = (pattern(len, 3), vec![0; len]);
            let request = irecv(&mut hold, &comm, Plane::PointToPoint, buffer(&mut back), 0, 0).unwrap();
            send(
                &mut hold,
                &comm,
                Plane::PointToPoint,
                buffer(&mut out),
                0,
                0,
                Mode::Standard,
            )
            .unwrap();
            wait(&mut hold, request).unwrap();
            assert!(out == back, "{len} bytes");
        }
    });
}

#[test]
fn a_flood_goes_through_full_rings_and_an_empty_pool() {
    job(2, &[("NEARMPI_OFFER_MIN", "1000000000")], |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        const COUNT: usize = 400;
        if rank == 0 {
            let mut data: Vec<Vec<u8>> = (0..COUNT).map(|n| pattern(n * 97 % 40_000, n)).collect();
            let mode = Mode::Standard;
            let requests: Vec<_> = data
                .iter_mut()
                .map(|data| isend(&mut hold, &comm, Plane::PointToPoint, buffer(data), 1, 0, mode).unwrap())
                .collect();
            for request in requests {
                wait(&mut hold, request).unwrap();
            }
        } else {
            for n in 0..COUNT {
                let status = probe::probe(&mut hold, &comm, 0, ANY_TAG).unwrap();
                let mut data = vec![0; status.bytes as usize];
                recv(&mut hold, &comm, Plane::PointToPoint, buffer(&mut data), 0, 0).unwrap();
                assert!(data == pattern(n * 97 % 40_000, n), "message {n}");
            }
        }
    });
}

#[test]
fn more_ranks_than_cpus_pass_a_token_round() {
    job(16, &[("NEARMPI_YIELDS", "3")], |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        let mut token = [0u8; 8];
        for turn in 0..200u64 {
            let (next, before) = ((rank + 1) % 16, (rank + 15) % 16);
            if rank == 0 {
                token = turn.to_le_bytes();
                send(
                    &mut hold,
                    &comm,
                    Plane::PointToPoint,
                    buffer(&mut token),
                    next,
                    0,
                    Mode::Standard,
                )
                .unwrap();
            }
            recv(
                &mut hold,
                &comm,
                Plane::PointToPoint,
                buffer(&mut token),
                before as i32,
                0,
            )
            .unwrap();
            assert_eq!(u64::from_le_bytes(token), turn);
            if rank != 0 {
                send(
                    &mut hold,
                    &comm,
                    Plane::PointToPoint,
                    buffer(&mut token),
                    next,
                    0,
                    Mode::Standard,
                )
                .unwrap();
            }
        }
    });
}

#[test]
fn a_receive_from_any_source_takes_turns() {
    let sent = std::sync::Barrier::new(3);
    job(3, &[], |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        for value in 0..4u8 {
            if rank != 0 {
                let mut bytes = [value];
                let message = buffer(&mut bytes);
                send(&mut hold, &comm, Plane::PointToPoint, message, 0, 5, Mode::Standard).unwrap();
            }
        }
        sent.wait();
        if rank == 0 {
            let pattern = Pattern::new(comm.context_on(Plane::PointToPoint), ANY_SOURCE, 5);
            let mut got = [0u8; 8];
            let mut take = |at: usize| {
                let room = (&raw mut got[at], 1);
                // SAFETY: one byte of `got`.
                let status = unsafe { recv_glancing_any(&mut hold, &comm, pattern, room) }.unwrap();
                assert_eq!((status.tag, status.bytes), (5, 1));
                status.source
            };
            let sources: Vec<i32> = (0..8).map(&mut take).collect();
            assert_eq!(sources, [1, 2, 1, 2, 1, 2, 1, 2]);
            assert_eq!(got, [0, 0, 1, 1, 2, 2, 3, 3]);
            let none = Pattern::new(comm.context_on(Plane::PointToPoint), ANY_SOURCE, 6);
            // SAFETY: as above.
            assert!(unsafe { recv_glancing_any(&mut hold, &comm, none, (&raw mut got[0], 1)) }.is_none());
        }
    });
}
