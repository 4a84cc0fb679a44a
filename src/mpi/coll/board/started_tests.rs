//! Nonblocking operations by boards: many under way at once, on two communicators, with blocking ones in between; and persistent
//! ones, started in any order.

use super::cut::{BOTH_WAYS, ONE_WAY};
use super::started_short::Nonblocking;
use super::tests::{ANY, SUM, Step, What, combined, job, reduction, take, values};
use crate::mpi::coll::args::Root;
use crate::mpi::coll::call::{Kept, Task, begin, keep};
use crate::mpi::coll::choice::Table;
use crate::mpi::coll::internal;
use crate::mpi::coll::signature::Call;
use crate::mpi::coll::support::{self, data, regular, room, starts, varying};
use crate::mpi::comm::{Comm, create};
use crate::mpi::error::{Class, Error};
use crate::mpi::pt2pt::engine::CAREFUL;
use crate::mpi::pt2pt::{self, persistent};
use crate::mpi::request::{self, RequestKey};
use crate::mpi::world::Hold;
use crate::sys::cvar::Settings;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An operation: its buffers, what must come out, and of how many elements.
pub(super) struct Open {
    mine: Vec<i32>,
    got: Vec<i32>,
    expected: Vec<i32>,
    counted: usize,
}

impl Open {
    pub(super) fn check(&self, what: &str, index: usize) {
        let (counted, kind) = (self.counted, index % KINDS);
        let (got, expected) = (&self.got[..counted], &self.expected[..counted]);
        assert_eq!(
            got,
            expected,
            "{what} operation {index}, kind {kind}, of {}",
            self.mine.len()
        );
    }
}

/// Numbers of elements, of operations one after the other.
pub(super) const COUNTS: [usize; 8] = [1, 3, 7, 28, 60, 0, 120, 300];
/// Those that go in pieces: of [`PIECE`] bytes, or of the usual ones.
const LONG: [usize; 8] = [250, 3000, 28, 1025, 700, 4000, 257, 0];
const PIECE: u64 = 1 << 10;
const NONE: (&str, u64) = ("NEARMPI_BOARD_STARTED", 0);
const LONGEST: [usize; 8] = [70_000, 300, 17_000, 140_000, 33_000, 16_384, 0, 100_000];

/// The kinds of operations.
pub(super) const KINDS: usize = 15;

/// The `blocks` of all ranks, as [`varying`] has them.
fn laid(blocks: &[Vec<i32>]) -> (Vec<i32>, Vec<usize>) {
    let counts: Vec<usize> = blocks.iter().map(Vec::len).collect();
    let mut all = vec![-1; room(&counts)];
    for (block, start) in blocks.iter().zip(starts(&counts)) {
        all[start..][..block.len()].copy_from_slice(block);
    }
    (all, counts)
}

/// Operation number `index` of a burst; every kind and length of `counts` comes.
pub(super) fn open(hold: &Hold, comm: &Rc<Comm>, index: usize, counts: [usize; 8]) -> (Task, Open) {
    let (rank, ranks) = (comm.rank, comm.size());
    let (seed, root) = (index as u32, index as u32 % ranks);
    let count = counts[index % 8];
    let all: Vec<i32> = (0..ranks).flat_map(|from| values(seed, from, count)).collect();
    let (sum, room) = (combined(SUM, seed, ranks, count), count * ranks as usize);
    let mut mine = values(seed, rank, count);
    let mut got = vec![-1; count];
    let blocks = |of: &dyn Fn(u32) -> Vec<i32>| (0..ranks).map(of).collect::<Vec<_>>();
    let in_place = (index / KINDS).is_multiple_of(3);
    if in_place {
        got.clone_from(&mine);
    }
    let (task, expected) = match index % KINDS {
        0 => (Task::Barrier(Call::Barrier), got.clone()),
        1 => {
            got = if rank == root { mine.clone() } else { vec![-1; count] };
            (Task::Bcast(Root::Rank(root), data(&mut got)), values(seed, root, count))
        }
        2 => {
            let expected = if rank == root { sum } else { got.clone() };
            let operand = if rank == root {
                (!in_place).then_some(&mut mine[..])
            } else {
                Some(&mut mine[..])
            };
            let task = reduction(hold, SUM, operand, &mut got, count);
            (Task::Reduce(Root::Rank(root), task), expected)
        }
        3 => (
            Task::Allreduce(reduction(
                hold,
                SUM,
                (!in_place).then_some(&mut mine[..]),
                &mut got,
                count,
            )),
            sum,
        ),
        4 => {
            got = vec![-1; room];
            let recv = (rank == root).then(|| regular(&mut got, ranks));
            let expected = if rank == root { all } else { vec![-1; room] };
            (
                Task::Gather(Root::Rank(root), Some(data(&mut mine)), recv, true),
                expected,
            )
        }
        5 => {
            let expected = mine.clone();
            mine = all;
            got = vec![-1; count];
            let send = (rank == root).then(|| regular(&mut mine, ranks));
            (
                Task::Scatter(Root::Rank(root), send, Some(data(&mut got)), true),
                expected,
            )
        }
        6 => {
            got = vec![-1; room];
            (Task::Allgather(Some(data(&mut mine)), regular(&mut got, ranks)), all)
        }
        7 => {
            mine = (0..ranks).flat_map(|to| values(seed + to, rank, count)).collect();
            got = if in_place { mine.clone() } else { vec![-1; room] };
            let send = (!in_place).then(|| regular(&mut mine, ranks));
            let expected = (0..ranks).flat_map(|from| values(seed + rank, from, count)).collect();
            (Task::Alltoall(send, regular(&mut got, ranks)), expected)
        }
        8 => {
            mine = values(seed, rank, room);
            got = if in_place { mine.clone() } else { vec![-1; room] };
            let mut expected = got.clone();
            let sum = combined(SUM, seed, ranks, room);
            expected[..count].copy_from_slice(&sum[rank as usize * count..][..count]);
            let task = reduction(hold, SUM, (!in_place).then_some(&mut mine[..]), &mut got, room);
            (Task::ReduceScatter(task, vec![count; ranks as usize]), expected)
        }
        9 => {
            let task = reduction(hold, SUM, (!in_place).then_some(&mut mine[..]), &mut got, count);
            (Task::Scan(task, false), combined(SUM, seed, rank + 1, count))
        }
        10 => {
            let expected = if rank == 0 {
                got.clone()
            } else {
                combined(SUM, seed, rank, count)
            };
            let task = reduction(hold, SUM, (!in_place).then_some(&mut mine[..]), &mut got, count);
            (Task::Scan(task, true), expected)
        }
        // Blocks of different lengths.
        11 => {
            let (expected, counts) = laid(&blocks(&|from| values(seed, from, count + from as usize)));
            mine = values(seed, rank, count + rank as usize);
            got = if rank == root {
                vec![-1; expected.len()]
            } else {
                Vec::new()
            };
            let stays = in_place && rank == root;
            if stays {
                got[starts(&counts)[rank as usize]..][..mine.len()].copy_from_slice(&mine);
            }
            let send = (!stays).then(|| data(&mut mine));
            let recv = (rank == root).then(|| varying(&mut got, &counts));
            let expected = if rank == root { expected } else { Vec::new() };
            (Task::Gather(Root::Rank(root), send, recv, false), expected)
        }
        12 => {
            let (all, counts) = laid(&blocks(&|to| values(seed, to, count + to as usize)));
            let expected = values(seed, rank, count + rank as usize);
            mine = all;
            got = vec![-1; expected.len()];
            let send = (rank == root).then(|| varying(&mut mine, &counts));
            (
                Task::Scatter(Root::Rank(root), send, Some(data(&mut got)), false),
                expected,
            )
        }
        13 => {
            let (expected, counts) = laid(&blocks(&|from| values(seed, from, count + from as usize)));
            mine = values(seed, rank, count + rank as usize);
            got = vec![-1; expected.len()];
            let first = starts(&counts)[rank as usize];
            if in_place {
                got[first..][..mine.len()].copy_from_slice(&mine);
            }
            let send = (!in_place).then(|| data(&mut mine));
            (Task::Allgather(send, varying(&mut got, &counts)), expected)
        }
        _ => {
            // In place as many go there as come from there.
            let len = |from: u32, to: u32| match in_place {
                true => count + (from + to) as usize,
                false => count * usize::from(from <= to) + from as usize + 2 * to as usize,
            };
            let (all, counts) = laid(&blocks(&|to| values(seed + to, rank, len(rank, to))));
            let (expected, room) = laid(&blocks(&|from| values(seed + rank, from, len(from, rank))));
            mine = all;
            got = if in_place {
                mine.clone()
            } else {
                vec![-1; expected.len()]
            };
            let send = (!in_place).then(|| varying(&mut mine, &counts));
            (Task::Alltoall(send, varying(&mut got, &room)), expected)
        }
    };
    // The rest of a reduce_scatter's receive buffer is nobody's business.
    let counted = if index % KINDS == 8 { count } else { got.len() };
    let open = Open {
        mine,
        got,
        expected,
        counted,
    };
    (task, open)
}

/// Begins `task`, by its short way where there is one if `short`; how many have gone so far.
fn begin_either(hold: &mut Hold, comm: &Rc<Comm>, task: Task, short: Option<&mut usize>) -> RequestKey {
    let begun = short.and_then(|gone| support::short::<Nonblocking>(hold, comm, &task).inspect(|_| *gone += 1));
    let request = match begun {
        Some(begun) => begun.unwrap().request(hold, comm, |_, _| Ok(task)),
        None => begin(hold, comm, task),
    };
    request.unwrap()
}

#[test]
fn nonblocking_operations_end_in_any_order() {
    let usual = [("NEARMPI_BOARD_STARTED", 1 << 20)];
    let pieces = [("NEARMPI_BOARD_MAX", PIECE), ("NEARMPI_SHARE_MIN", PIECE)];
    end_in_any_order(&[(1, 1), (2, 8), (3, 1), (5, 8)], &usual, COUNTS, 70);
    end_in_any_order(&[(3, 8)], &[NONE], COUNTS, 70);
    end_in_any_order(&[(2, 8), (3, 1), (5, 8)], &pieces, LONG, 35);
    end_in_any_order(&[(2, 8), (3, 1)], &usual, LONGEST, 11);
}

/// Jobs of so many ranks on so many CPUs start bursts of operations, and wait for them in other orders.
/// No burst is a multiple of three.
fn end_in_any_order(jobs: &[(u32, u32)], settings: &[(&str, u64)], counts: [usize; 8], burst: usize) {
    for &(ranks, cpus) in jobs {
        job(ranks, cpus, settings, false, |rank, world| {
            let mut hold = world.hold();
            let first = hold.world.clone();
            let second = Rc::new(create::dup(&mut hold, &first).unwrap());
            let mut short = 0;
            // Sanitizers see in the first rounds what they would see in all.
            for round in 0..if cfg!(sanitized) { 2 } else { 6 } {
                let mut under_way = Vec::new();
                for index in 0..burst {
                    // Two communicators take turns in another order on every other rank.
                    let mut pair = [&first, &second];
                    pair.rotate_left(rank as usize % 2);
                    for comm in pair {
                        let (task, open) = open(&hold, comm, index * 7 + round, counts);
                        // The others may go another way.
                        let goes_short = ((index ^ round) as u32 >> 1 ^ rank).is_multiple_of(2);
                        let request = begin_either(&mut hold, comm, task, goes_short.then_some(&mut short));
                        under_way.push((request, open));
                    }
                    // A blocking one in between, where each rank likes.
                    if index == (20 + 9 * rank as usize) % burst {
                        let step = Step {
                            what: What::Allreduce,
                            count: 9,
                            ..ANY
                        };
                        take(&mut hold, &first, step);
                    }
                }
                for turn in 0..under_way.len() {
                    let which = (turn * 9 + rank as usize * 31) % under_way.len();
                    let (request, open) = &under_way[which];
                    pt2pt::wait(&mut hold, *request).unwrap();
                    open.check("nonblocking", which / 2 * 7 + round);
                }
            }
            // Behind a barrier every slot is free.
            internal::barrier(&mut hold, &first).unwrap();
            let before = short;
            let request = begin_either(&mut hold, &first, Task::Barrier(Call::Barrier), Some(&mut short));
            pt2pt::wait(&mut hold, request).unwrap();
            assert_eq!(short > before, settings[0] != NONE, "{ranks} ranks");
        });
    }
}

/// Rank 1 comes once rank 0 has given up.
#[test]
fn who_has_shown_and_cannot_go_on_is_waited_for_no_longer() {
    let given_up = AtomicBool::new(false);
    job(2, 2, &[], false, |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        let task = || Task::Barrier(Call::Barrier);
        turns(&mut hold, &comm, task());
        internal::barrier(&mut hold, &comm).unwrap();
        if rank == 0 {
            let done = comm.started_boards.get().unwrap().as_ref().unwrap().over.get();
            let begun = support::short::<Nonblocking>(&mut hold, &comm, &task())
                .unwrap()
                .unwrap();
            let failed = begun.request(&mut hold, &comm, |_, _| Err(Error::new(Class::Other, "no task")));
            assert_eq!(failed.unwrap_err().class(), Class::Other);
            assert_eq!(
                comm.started_boards.get().unwrap().as_ref().unwrap().over.get(),
                done + 1
            );
            given_up.store(true, Ordering::Release);
        } else {
            while !given_up.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            turns(&mut hold, &comm, task());
        }
    });
}

/// What a rank shows of one communicator's operations leaves room for another's, which the others may wait for first.
#[test]
fn operations_of_a_communicator_find_room_whatever_lies_in_others() {
    const INTS: usize = 25_000;
    job(2, 2, &[], false, |rank, world| {
        let mut hold = world.hold();
        let first = hold.world.clone();
        let second = Rc::new(create::dup(&mut hold, &first).unwrap());
        let mut all: Vec<Vec<i32>> = (0..30).map(|seed| values(seed, rank, INTS)).collect();
        let mut start = |hold: &mut Hold, seed: usize| {
            let comm = if seed == 29 { &second } else { &first };
            let data = data(&mut all[seed]);
            begin(hold, comm, Task::Bcast(Root::Rank(0), data)).unwrap()
        };
        if rank == 1 {
            // Nobody has started the others here.
            let request = start(&mut hold, 29);
            pt2pt::wait(&mut hold, request).unwrap();
        }
        let mut under_way: Vec<RequestKey> = (0..29).map(|seed| start(&mut hold, seed)).collect();
        if rank == 0 {
            under_way.push(start(&mut hold, 29));
        }
        for request in under_way {
            pt2pt::wait(&mut hold, request).unwrap();
        }
        for (seed, got) in all.iter().enumerate() {
            assert!(*got == values(seed as u32, 0, INTS), "broadcast {seed}, rank {rank}");
        }
    });
}

/// Starts `task` and waits for it: the turns it took.
fn turns(hold: &mut Hold, comm: &Rc<Comm>, task: Task) -> u64 {
    let before = comm.context.started_turns();
    let request = begin(hold, comm, task).unwrap();
    pt2pt::wait(hold, request).unwrap();
    comm.context.started_turns() - before
}

/// Bytes decide how many turns an operation takes, and the communicator whether it takes any.
#[test]
fn long_operations_take_a_turn_for_each_piece_and_go_by_messages_where_there_is_no_room() {
    job(2, 2, &[], false, |_, world| {
        let mut hold = world.hold();
        let first = hold.world.clone();
        let comms: Vec<_> = (0..20)
            .map(|_| Rc::new(create::dup(&mut hold, &first).unwrap()))
            .collect();
        let mut turns = |comm: &Rc<Comm>, ints: usize| {
            let mut got = vec![1; ints];
            let task = Task::Allreduce(reduction(&hold, SUM, None, &mut got, ints));
            let turns = turns(&mut hold, comm, task);
            assert_eq!(got, vec![2; ints]);
            turns
        };
        let expected = [
            (1, 1),
            (256, 1),
            (257, 1),
            (16_383, 1),
            (16_384, 1),
            (16_385, 2),
            (65_536, 2),
            (65_537, 4),
        ];
        for (ints, taken) in expected {
            assert_eq!(turns(&first, ints), taken, "{ints} ints");
        }
        let narrow = comms.last().unwrap();
        assert_eq!([turns(narrow, 256), turns(narrow, 257)], [1, 0]);
    });
}

/// As long as blocking ones are shown, if that is more than `NEARMPI_BOARD_STARTED`; the same for persistent ones.
#[test]
fn the_longest_operations_go_by_boards_where_blocking_ones_do() {
    const LONG: usize = (1 << 18) + 1;
    for (cpus, most, allgather) in [(2, 1 << 20, 0), (1, 1 << 20, 17), (2, 1 << 21, 0), (2, 0, 0)] {
        let settings = [("NEARMPI_BOARD_STARTED", most), ("NEARMPI_BOARD_ONE_COPY", 1)];
        job(2, cpus, &settings, false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let reduced = if most == 0 { 0 } else { 10 };
            let (mut mine, mut got) = (values(1, rank, LONG), vec![0; LONG]);
            let task = |hold: &Hold, mine: &mut [i32], got: &mut [i32]| {
                Task::Allreduce(reduction(hold, SUM, Some(mine), got, LONG))
            };
            let sum = task(&hold, &mut mine, &mut got);
            assert_eq!(turns(&mut hold, &comm, sum), reduced);
            assert!(got == combined(SUM, 1, 2, LONG));
            let sum = task(&hold, &mut mine, &mut got);
            let (request, boarded) = init(&mut hold, &comm, sum);
            assert_eq!(boarded, most > 0);
            request::free(&mut hold, request).unwrap();
            let mut all = vec![0; 2 * LONG];
            let gathered = Task::Allgather(Some(data(&mut mine)), regular(&mut all, 2));
            assert_eq!(turns(&mut hold, &comm, gathered), allgather, "{cpus} CPUs, {most}");
            assert!(all == [0, 1].map(|from| values(1, from, LONG)).concat());
        });
    }
}

/// Of two ranks with a CPU each more than [`ONE_WAY`] bytes that go one way do so, and exchanges of more than [`BOTH_WAYS`].
#[test]
fn what_two_ranks_may_copy_once_goes_by_messages() {
    const MOST: [usize; 5] = [ONE_WAY / 4, ONE_WAY / 4, ONE_WAY / 4, BOTH_WAYS / 4, BOTH_WAYS / 4];
    for (cpus, once, beyond) in [(2, 1, false), (2, 0, true), (1, 1, true)] {
        job(2, cpus, &[("NEARMPI_BOARD_ONE_COPY", once)], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            for (kind, most) in MOST.into_iter().enumerate() {
                for count in [most, most + 1] {
                    let (mut mine, mut got) = (values(1, rank, 2 * count), vec![0; 2 * count]);
                    let root = Root::Rank(0);
                    let task = match kind {
                        0 => Task::Bcast(root, data(&mut mine[..count])),
                        1 => Task::Gather(
                            root,
                            Some(data(&mut mine[..count])),
                            (rank == 0).then(|| regular(&mut got, 2)),
                            true,
                        ),
                        2 => Task::Scatter(
                            root,
                            (rank == 0).then(|| regular(&mut mine, 2)),
                            Some(data(&mut got[..count])),
                            true,
                        ),
                        3 => Task::Allgather(Some(data(&mut mine[..count])), regular(&mut got, 2)),
                        _ => Task::Alltoall(Some(regular(&mut mine, 2)), regular(&mut got, 2)),
                    };
                    let boarded = turns(&mut hold, &comm, task) > 0;
                    assert_eq!(boarded, count == most || beyond, "{kind}: {count} on {cpus} CPUs");
                }
            }
        });
    }
}

/// Makes `task` a persistent request; whether it goes by boards.
pub(super) fn init(hold: &mut Hold, comm: &Rc<Comm>, task: Task) -> (RequestKey, bool) {
    let kept = keep(hold, comm, task).unwrap();
    let boarded = matches!(kept, Kept::Boards(_));
    let gift = hold.noted();
    let operation = persistent::Operation::Collective { kept, gift };
    (persistent::create(hold, operation).unwrap(), boarded)
}

/// Each rank starts them in an order of its own and waits for them in another; some ranks start the next round while others are
/// still in this one. The communicator is freed before its requests.
#[test]
fn persistent_operations_start_in_any_order_on_each_rank() {
    for (ranks, cpus, settings, counts) in [
        (1, 1, &[][..], COUNTS),
        (2, 8, &[], LONGEST),
        (3, 1, &[], COUNTS),
        (5, 8, &[], LONG),
        (2, 8, &[NONE], COUNTS),
    ] {
        job(ranks, cpus, settings, false, |rank, world| {
            let mut hold = world.hold();
            let first = hold.world.clone();
            let comm = Rc::new(create::dup(&mut hold, &first).unwrap());
            let mut all: Vec<(RequestKey, Open, Vec<i32>)> = (0..61)
                .map(|index| {
                    let (task, open) = open(&hold, &comm, index, counts);
                    let before = open.got.clone();
                    (init(&mut hold, &comm, task).0, open, before)
                })
                .collect();
            drop(comm);
            for round in 0..if cfg!(sanitized) { 5 } else { 20 } {
                // Each rank has its short ways in some rounds.
                match (round + rank as usize) % 3 {
                    0 => hold.engine.detours |= CAREFUL,
                    _ => hold.engine.detours &= !CAREFUL,
                }
                for turn in 0..all.len() {
                    let which = (turn * 5 + rank as usize * 17 + round) % all.len();
                    let (request, open, before) = &mut all[which];
                    open.got.copy_from_slice(before);
                    persistent::start(&mut hold, *request).unwrap();
                }
                for turn in 0..all.len() {
                    let which = (turn * 7 + rank as usize * 31) % all.len();
                    let (request, open, _) = &all[which];
                    pt2pt::wait(&mut hold, *request).unwrap();
                    open.check("persistent", which);
                }
            }
            for (request, ..) in all {
                request::free(&mut hold, request).unwrap();
            }
        });
    }
}

/// The root of a broadcast waits for nobody: it is active until it is waited for all the same.
#[test]
fn a_persistent_operation_that_is_over_when_it_is_started_is_active_until_it_is_finished() {
    job(2, 2, &[], false, |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        let mut ints = if rank == 0 { values(1, 0, 5) } else { vec![0; 5] };
        let (key, boarded) = init(&mut hold, &comm, Task::Bcast(Root::Rank(0), data(&mut ints)));
        assert!(boarded);
        for _ in 0..3 {
            assert!(hold.is_inactive(key));
            persistent::start(&mut hold, key).unwrap();
            assert!(!hold.is_inactive(key));
            assert_eq!(persistent::start(&mut hold, key).unwrap_err().class(), Class::Request);
            if rank == 0 {
                assert!(hold.is_over(key) && request::inspect(&mut hold, key).1.is_ok());
            }
            pt2pt::wait(&mut hold, key).unwrap();
        }
        persistent::start(&mut hold, key).unwrap();
        request::free(&mut hold, key).unwrap();
        // Freed while it was active it goes on.
        hold.wait_until(None, |hold| Ok(hold.desk.started.is_empty())).unwrap();
        assert_eq!(ints, values(1, 0, 5));
    });
}

/// Short operations leave the wide rooms to long ones; those that find no boards run as schedules; freed boards serve again, also of
/// a request that was freed while it was active.
#[test]
fn persistent_operations_claim_boards_and_give_them_back() {
    job(2, 2, &[], false, |rank, world| {
        let mut hold = world.hold();
        let first = hold.world.clone();
        let mut all: Vec<Vec<i32>> = (0..300).map(|_| vec![0; 300]).collect();
        for round in 0..3 {
            let mut keep = |hold: &mut Hold, ints: usize, many: usize| {
                let mut init = |ints: &mut [i32]| init(hold, &first, Task::Bcast(Root::Rank(0), data(ints)));
                all[..many]
                    .iter_mut()
                    .map(|all| init(&mut all[..ints]))
                    .collect::<Vec<_>>()
            };
            let (long, short) = (keep(&mut hold, 300, 20), keep(&mut hold, 256, 250));
            let boarded = |kept: &[(RequestKey, bool)]| kept.iter().filter(|(_, boarded)| *boarded).count();
            assert_eq!((boarded(&long), boarded(&short)), (16, 240), "round {round}");
            for &(request, _) in long.iter().chain(&short[200..]) {
                persistent::start(&mut hold, request).unwrap();
            }
            let (waited, left) = long.split_at(10 * rank as usize);
            for &(request, _) in waited {
                pt2pt::wait(&mut hold, request).unwrap();
            }
            for (request, _) in waited.iter().chain(left).chain(&short) {
                request::free(&mut hold, *request).unwrap();
            }
            // Those that were freed while they were active go on, by boards or by message, and their memory is used until they are over.
            internal::barrier(&mut hold, &first).unwrap();
            let is_over = |hold: &Hold| hold.desk.started.is_empty() && hold.schedules.is_empty();
            hold.wait_until(None, |hold| Ok(is_over(hold))).unwrap();
            internal::barrier(&mut hold, &first).unwrap();
        }
    });
}

#[test]
fn a_long_broadcast_of_ranks_that_share_cpus_goes_in_pieces_if_it_is_nonblocking() {
    let settings = Settings::read(|_| None).unwrap();
    let table = Table::new(&settings, Some(2), 8);
    let task = Task::Bcast(Root::Rank(0), data(&mut [0]));
    assert!(table.bcast.shown < 1 << 20);
    assert_eq!(super::cut::longest(&settings, &table, &task, 8), usize::MAX);
}
