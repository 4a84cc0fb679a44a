//! Ranks as threads over a segment of this process.

use super::super::tests::{job, pattern, striped};
use super::*;
use crate::mpi::buffer::Layout;
use crate::mpi::coll;
use crate::mpi::datatype::basic;
use crate::mpi::error::Class;
use crate::mpi::pt2pt::{persistent, wait};
use crate::mpi::world::World;
use crate::shm::segment::Segment;
use crate::sys::cvar::Settings;
use std::sync::Arc;

/// Orders in which partitions become ready.
type Order = fn(usize) -> Vec<usize>;
const ORDERS: [Order; 4] = [
    |number| (0..number).collect(),
    |number| (0..number).rev().collect(),
    |number| (0..number).map(|at| at * 7 % number).collect(),
    |number| (1..number).step_by(2).chain((0..number).step_by(2)).collect(),
];

fn bytes(address: *mut u8, number: usize, count: usize) -> Partitions {
    Partitions {
        address,
        number,
        count,
        datatype: Datatype::basic_at(basic::index(0x4c00010d).unwrap()),
    }
}

/// The same bytes as elements of pairs with gaps between them.
fn with_gaps(address: *mut u8, number: usize, pairs: usize) -> Partitions {
    let mut none = [];
    let Layout::Typed { datatype, .. } = striped(&mut none, pairs as i64).layout else {
        unreachable!("a type with gaps")
    };
    Partitions {
        address,
        number,
        count: 1,
        datatype,
    }
}

/// Rank 0 sends a message in `number` partitions of `size` bytes, again and again, which rank 1 receives in `into` partitions, with gaps or
/// not, before or behind its start.
fn all_arrive(set: &[(&str, &str)], (number, size): (usize, usize), into: usize, gaps: bool) {
    job(2, set, |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        let len = number * size;
        let mut data = vec![0u8; 2 * len + 64];
        let address = data.as_mut_ptr();
        let operation = match rank {
            0 => send_init(&mut hold, &comm, bytes(address, number, size), Some(1), 5),
            _ if gaps => {
                let room = with_gaps(address, into, len / into / 2);
                recv_init(&mut hold, &comm, room, Some(0), 5)
            }
            _ => recv_init(&mut hold, &comm, bytes(address, into, len / into), Some(0), 5),
        };
        let key = persistent::create(&mut hold, operation.unwrap()).unwrap();
        for round in 0..8 {
            if round % 2 == 0 {
                coll::barrier(&mut hold, &comm).unwrap();
            }
            if rank == 0 {
                data[..len].copy_from_slice(&pattern(len, round));
                persistent::start(&mut hold, key).unwrap();
                for partition in ORDERS[round % 4](number) {
                    ready(&mut hold, key, std::iter::once(partition)).unwrap();
                }
            } else {
                data.fill(0xee);
                persistent::start(&mut hold, key).unwrap();
            }
            let status = wait(&mut hold, key).unwrap();
            if rank == 1 {
                assert_eq!((status.source, status.tag, status.bytes as usize), (0, 5, len));
                let sent = pattern(len, round);
                let each = len / into;
                let right = |at: usize| match gaps {
                    // Each element is stripes of two bytes, and the next one begins behind the last.
                    true => data[at / each * (2 * each - 2) + at % each / 2 * 4 + at % 2] == sent[at],
                    false => data[at] == sent[at],
                };
                let wrong = (0..len).find(|&at| !right(at));
                assert_eq!(
                    wrong, None,
                    "round {round}: {number} of {size} bytes into {into}, {set:?}"
                );
            }
        }
        request::free(&mut hold, key).unwrap();
    });
}

#[test]
fn partitions_arrive_in_any_order_held_or_not() {
    for hold in ["0", "100", "32768", "1000000"] {
        let cells = [("NEARMPI_PARTITION_HOLD", hold), ("NEARMPI_ONE_COPY", "0")];
        let offered = [
            ("NEARMPI_PARTITION_HOLD", hold),
            ("NEARMPI_ONE_COPY_MIN", "1"),
            ("NEARMPI_OFFER_MIN", "1"),
        ];
        for set in [&cells[..1], &cells, &offered] {
            for (sent, into) in [
                ((12, 1), 4),
                ((4, 600), 12),
                ((16, 5000), 5),
                ((6, 40_000), 1),
                ((1, 100_000), 4),
            ] {
                all_arrive(set, sent, into, false);
            }
            // What the sender's partitions cut lies aside first.
            all_arrive(set, (12, 6), 2, true);
            all_arrive(set, (9, 4444), 2, true);
            all_arrive(set, (3, 80_016), 4, true);
        }
    }
}

#[test]
fn partitions_without_bytes_arrive_too() {
    job(2, &[], |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        let none = bytes(std::ptr::dangling_mut(), 3, 0);
        let operation = match rank {
            0 => send_init(&mut hold, &comm, none, Some(1), 5),
            _ => recv_init(&mut hold, &comm, none, Some(0), 5),
        };
        let key = persistent::create(&mut hold, operation.unwrap()).unwrap();
        for _ in 0..3 {
            persistent::start(&mut hold, key).unwrap();
            if rank == 0 {
                ready(&mut hold, key, 0..3).unwrap();
            }
            assert_eq!(wait(&mut hold, key).unwrap().bytes, 0);
        }
        request::free(&mut hold, key).unwrap();
    });
}

/// Two ranks of one thread: what each does is seen from outside. A send of `number` partitions of `size` bytes and its receive, both started.
struct Pair {
    worlds: [World; 2],
    keys: [RequestKey; 2],
    data: [Vec<u8>; 2],
    segment: Arc<Segment>,
}

impl Pair {
    fn new(set: &'static [(&str, &str)], number: usize, size: usize) -> Pair {
        Pair::with(set, number, size, |address| bytes(address, number, size))
    }

    /// ... into what `room` makes of memory of twice as many bytes.
    fn with(set: &'static [(&str, &str)], number: usize, size: usize, room: impl Fn(*mut u8) -> Partitions) -> Pair {
        let segment = Arc::new(Segment::private(2, 2).unwrap());
        let lookup = |name: &str| {
            let found = set.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.to_string())
        };
        let settings = Settings::read(lookup).unwrap();
        let worlds = [0, 1].map(|rank| World::new(State::join(segment.clone(), rank, settings.clone()), false));
        let mut data = [pattern(number * size, 1), vec![0; 2 * number * size]];
        let mut keys = [0, 1].map(|rank| {
            let mut hold = worlds[rank].hold();
            let comm = hold.world.clone();
            let address = data[rank].as_mut_ptr();
            let operation = match rank {
                0 => send_init(&mut hold, &comm, bytes(address, number, size), Some(1), 5),
                _ => recv_init(&mut hold, &comm, room(address), Some(0), 5),
            };
            persistent::create(&mut hold, operation.unwrap()).unwrap()
        });
        for (world, key) in worlds.iter().zip(&mut keys) {
            let mut hold = world.hold();
            hold.progress(None).unwrap();
            persistent::start(&mut hold, *key).unwrap();
        }
        Pair {
            worlds,
            keys,
            data,
            segment,
        }
    }

    fn ready(&self, which: std::ops::Range<usize>) {
        ready(&mut self.worlds[0].hold(), self.keys[0], which).unwrap();
    }

    /// Lets the rank look for messages.
    fn look(&self, rank: usize) {
        self.worlds[rank].hold().progress(None).unwrap();
    }

    fn arrived(&self, partition: usize) -> bool {
        arrived(&self.worlds[1].hold(), self.keys[1], partition).unwrap()
    }
}

#[test]
fn what_is_ready_waits_for_more_until_there_is_enough_or_its_rank_looks_for_messages() {
    let pair = Pair::new(&[("NEARMPI_PARTITION_HOLD", "40")], 16, 10);
    let have_come = |pair: &Pair| {
        pair.look(1);
        (0..16).filter(|&partition| pair.arrived(partition)).count()
    };
    pair.ready(0..1);
    assert!(hold_another(&pair.worlds[0].hold(), pair.keys[0], 1));
    assert_eq!(have_come(&pair), 0);
    assert!(
        !hold_another(&pair.worlds[0].hold(), pair.keys[0], 1),
        "it is ready already"
    );
    pair.look(0);
    assert_eq!(have_come(&pair), 2);
    assert!(
        !hold_another(&pair.worlds[0].hold(), pair.keys[0], 2),
        "it is the first one"
    );
    pair.ready(5..8);
    assert!(!hold_another(&pair.worlds[0].hold(), pair.keys[0], 8), "that is enough");
    assert_eq!(have_come(&pair), 2);
    pair.ready(8..9);
    assert_eq!(have_come(&pair), 6);
    pair.ready(2..4);
    pair.ready(9..11);
    assert_eq!(have_come(&pair), 10, "there were two runs");
    pair.ready(4..5);
    pair.ready(11..16);
    assert_eq!(have_come(&pair), 16);
    let mut hold = pair.worlds[1].hold();
    wait(&mut hold, pair.keys[1]).unwrap();
    assert!(pair.data[1][..160] == pattern(160, 1));
}

#[test]
fn the_last_partition_takes_all_along_as_one_message() {
    let pair = Pair::new(&[], 16, 10);
    // The receive is over, and what comes now is for the next start.
    (0..16).rev().for_each(|partition| pair.ready(partition..partition + 1));
    wait(&mut pair.worlds[1].hold(), pair.keys[1]).unwrap();
    for _ in 0..2 {
        let mut hold = pair.worlds[0].hold();
        wait(&mut hold, pair.keys[0]).unwrap();
        persistent::start(&mut hold, pair.keys[0]).unwrap();
        drop(hold);
        (0..16).for_each(|partition| pair.ready(partition..partition + 1));
    }
    pair.look(1);
    assert_eq!(pair.worlds[1].hold().engine.unexpected.len(), 2);
    for left in [1, 0] {
        let mut hold = pair.worlds[1].hold();
        persistent::start(&mut hold, pair.keys[1]).unwrap();
        assert!(hold.is_over(pair.keys[1]));
        wait(&mut hold, pair.keys[1]).unwrap();
        assert_eq!(hold.engine.unexpected.len(), left);
    }
}

#[test]
fn a_receive_that_the_program_lets_go_of_gets_what_is_still_to_come() {
    let pair = Pair::new(&[], 4, 10);
    pair.ready(0..2);
    pair.look(0);
    pair.look(1);
    let before = pair.worlds[1].hold().requests.len();
    request::free(&mut pair.worlds[1].hold(), pair.keys[1]).unwrap();
    pair.ready(2..4);
    pair.look(1);
    assert!(pair.data[1][..40] == pattern(40, 1));
    let hold = pair.worlds[1].hold();
    assert_eq!((hold.requests.len(), hold.engine.unexpected.len()), (before - 2, 0));
}

#[test]
fn a_send_that_the_program_lets_go_of_sends_what_is_ready() {
    let pair = Pair::new(&[], 4, 10);
    pair.ready(0..3);
    request::free(&mut pair.worlds[0].hold(), pair.keys[0]).unwrap();
    pair.look(1);
    assert!(pair.arrived(2) && !pair.arrived(3));
}

#[test]
fn who_waits_for_partitions_of_a_dead_rank_is_told() {
    let pair = Pair::new(&[], 4, 10);
    pair.ready(0..2);
    pair.look(0);
    pair.segment.bury(0);
    let mut hold = pair.worlds[1].hold();
    let died = wait(&mut hold, pair.keys[1]).unwrap_err();
    assert_eq!(died.class(), Class::ProcFailed);
    assert!(pair.data[1][..20] == pattern(40, 1)[..20], "what it sent before counts");
    persistent::start(&mut hold, pair.keys[1]).unwrap();
    assert_eq!(wait(&mut hold, pair.keys[1]).unwrap_err().class(), Class::ProcFailed);
}

#[test]
fn messages_of_a_wrong_length_end_the_receive() {
    use crate::mpi::pt2pt::{Mode, send};
    for len in [9, 11, 50] {
        let pair = Pair::new(&[], 4, 10);
        let mut hold = pair.worlds[0].hold();
        let (comm, mut junk) = (hold.world.clone(), vec![0; len]);
        let message = Buffer::bytes(junk.as_mut_ptr(), len);
        send(
            &mut hold,
            &comm,
            Plane::Collective,
            message,
            1,
            tag_of(0),
            Mode::Standard,
        )
        .unwrap();
        drop(hold);
        pair.look(1);
        pair.segment.bury(0);
        let error = wait(&mut pair.worlds[1].hold(), pair.keys[1]).unwrap_err();
        assert_eq!(error.class(), Class::Truncate, "{len} bytes");
    }
}

#[test]
fn a_hello_that_nobody_can_have_said_ends_the_receive() {
    use crate::mpi::pt2pt::{Mode, send};
    let segment = Arc::new(Segment::private(2, 2).unwrap());
    let settings = Settings::read(|_| None).unwrap();
    let worlds = [0, 1].map(|rank| World::new(State::join(segment.clone(), rank, settings.clone()), false));
    let mut hold = worlds[0].hold();
    let (comm, mut words) = (hold.world.clone(), [1u64 << 40, 0, 0]);
    let hello = Buffer::bytes(words.as_mut_ptr().cast(), size_of_val(&words));
    let (plane, tag) = hello_tag(5);
    send(&mut hold, &comm, plane, hello, 1, tag, Mode::Standard).unwrap();
    let mut hold = worlds[1].hold();
    let (comm, mut room) = (hold.world.clone(), [0; 8]);
    let operation = recv_init(&mut hold, &comm, bytes(room.as_mut_ptr(), 1, 8), Some(0), 5).unwrap();
    let key = persistent::create(&mut hold, operation).unwrap();
    hold.progress(None).unwrap();
    persistent::start(&mut hold, key).unwrap();
    assert_eq!(wait(&mut hold, key).unwrap_err().class(), Class::Intern);
}

#[test]
fn a_partition_that_has_arrived_lies_in_its_place_whatever_came_with_it() {
    let offered = &[
        ("NEARMPI_ONE_COPY_MIN", "1"),
        ("NEARMPI_OFFER_MIN", "1"),
        ("NEARMPI_RING_MAX", "0"),
    ];
    let pair = Pair::with(offered, 4, 60_000, |address| with_gaps(address, 2, 60_000));
    // What the sender's first three partitions have is cut in the second of the receiver's.
    pair.ready(0..3);
    pair.ready(3..4);
    for rank in [1, 0].repeat(20) {
        pair.look(rank);
    }
    assert!(pair.arrived(1));
    // The second element begins behind the last byte of the first.
    let sent = pattern(240_000, 1);
    let right = |at: usize| pair.data[1][239_998 + at / 2 * 4 + at % 2] == sent[120_000 + at];
    assert_eq!((0..120_000).find(|&at| !right(at)), None);
}
