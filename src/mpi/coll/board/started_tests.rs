//! Nonblocking operations by boards: many under way at once, on two communicators, with blocking ones in between.

use super::tests::{ANY, SUM, Step, What, combined, job, reduction, take, values};
use crate::mpi::coll::args::Root;
use crate::mpi::coll::call::{Task, begin};
use crate::mpi::coll::signature::Call;
use crate::mpi::coll::support::{data, regular};
use crate::mpi::comm::{Comm, create};
use crate::mpi::pt2pt;
use crate::mpi::request::RequestKey;
use crate::mpi::world::Hold;
use std::rc::Rc;

/// A nonblocking operation under way: its buffers, and what must come out.
struct Open {
    mine: Vec<i32>,
    got: Vec<i32>,
    expected: Vec<i32>,
    request: RequestKey,
}

/// Starts operation number `index` of a burst; every kind and length comes.
fn open(hold: &mut Hold, comm: &Rc<Comm>, index: usize) -> Open {
    let (rank, ranks) = (comm.rank, comm.size());
    let (seed, root) = (index as u32, index as u32 % ranks);
    let count = [1, 3, 7, 28, 60, 0, 120, 300][index % 8];
    let all: Vec<i32> = (0..ranks).flat_map(|from| values(seed, from, count)).collect();
    let (sum, room) = (combined(SUM, seed, ranks, count), count * ranks as usize);
    let mut mine = values(seed, rank, count);
    let mut got = vec![-1; count];
    let in_place = index.is_multiple_of(3);
    if in_place {
        got.clone_from(&mine);
    }
    let (task, expected) = match index % 11 {
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
        _ => {
            let expected = if rank == 0 {
                got.clone()
            } else {
                combined(SUM, seed, rank, count)
            };
            let task = reduction(hold, SUM, (!in_place).then_some(&mut mine[..]), &mut got, count);
            (Task::Scan(task, true), expected)
        }
    };
    let request = begin(hold, comm, task).unwrap();
    Open {
        mine,
        got,
        expected,
        request,
    }
}

#[test]
fn nonblocking_operations_end_in_any_order() {
    for (ranks, cpus, started) in [(1, 1, 1), (2, 8, 1), (3, 1, 1), (5, 8, 1), (3, 8, 0)] {
        job(
            ranks,
            cpus,
            &[("NEARMPI_BOARD_STARTED", started)],
            false,
            |rank, world| {
                let mut hold = world.hold();
                let first = hold.world.clone();
                let second = Rc::new(create::dup(&mut hold, &first).unwrap());
                for round in 0..6 {
                    let mut under_way = Vec::new();
                    for index in 0..70 {
                        // Two communicators take turns in another order on every other rank.
                        let mut pair = [&first, &second];
                        pair.rotate_left(rank as usize % 2);
                        for comm in pair {
                            under_way.push(open(&mut hold, comm, index * 7 + round));
                        }
                        // A blocking one in between, where each rank likes.
                        if index == 20 + 9 * rank as usize {
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
                        pt2pt::wait(&mut hold, under_way[which].request).unwrap();
                        let Open {
                            got, expected, mine, ..
                        } = &under_way[which];
                        let index = which / 2 * 7 + round;
                        if index % 11 != 8 {
                            assert_eq!(
                                got,
                                expected,
                                "operation {index}, kind {}, of {}",
                                index % 11,
                                mine.len()
                            );
                        } else {
                            // The rest of the receive buffer is nobody's business.
                            let count = [1, 3, 7, 28, 60, 0, 120, 300][index % 8];
                            assert_eq!(got[..count], expected[..count], "operation {index}");
                        }
                    }
                }
            },
        );
    }
}
