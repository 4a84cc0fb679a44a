//! Operations planned from datatypes and run by ranks as threads, against their definition.

use super::choice::Case;
use super::machine::{run, start};
use super::next_started_tag;
use super::plan::{self, Root};
use super::support::{self, data, reduction, regular};
use crate::mpi::pt2pt;
use crate::mpi::world::Hold;
use crate::sys::cvar::Settings;
use std::rc::Rc;

fn job(ranks: u32, program: impl Fn(u32, &mut Hold) + Sync) {
    support::job(ranks, 2, &[], false, |rank, world| program(rank, &mut world.hold()));
}

fn settings() -> Settings {
    Settings::read(|_| None).unwrap()
}

fn value(rank: u32, index: usize) -> i32 {
    (rank as i32 * 1000 + 17).wrapping_mul(index as i32 + 3)
}

fn values(rank: u32, count: usize) -> Vec<i32> {
    (0..count).map(|index| value(rank, index)).collect()
}

fn sums(ranks: u32, count: usize) -> Vec<i32> {
    (0..count)
        .map(|index| (0..ranks).map(|rank| value(rank, index)).sum())
        .collect()
}

/// Short and long enough for each algorithm.
const COUNTS: [usize; 4] = [0, 3, 700, 40_000];

#[test]
fn data_moves_as_it_should() {
    for ranks in [1, 2, 3, 6, 8] {
        job(ranks, |rank, hold| {
            let comm = hold.world.clone();
            let settings = settings();
            let case = Case::new(&settings, None, comm.size() as usize);
            let last = ranks - 1;
            for count in COUNTS {
                let mut ints = if rank == last { values(7, count) } else { vec![0; count] };
                run(hold, plan::bcast(case, &comm, Root::Rank(last), &data(&mut ints))).unwrap();
                assert!(ints == values(7, count));

                let mut mine = values(rank, count);
                let all: Vec<i32> = (0..ranks).flat_map(|rank| values(rank, count)).collect();
                let mut got = vec![0; count * ranks as usize];
                run(
                    hold,
                    plan::allgather(case, &comm, Some(&data(&mut mine)), regular(&mut got, ranks)),
                )
                .unwrap();
                assert!(got == all);

                let mut got = vec![0; count * ranks as usize];
                let at_root = (rank == last).then(|| regular(&mut got, ranks));
                let gather = plan::gather_regular(case, &comm, Root::Rank(last), Some(&data(&mut mine)), at_root);
                run(hold, gather).unwrap();
                assert!(rank != last || got == all);

                let at_root = (rank == last).then(|| regular(&mut got, ranks));
                let mut got_back = vec![0; count];
                let scatter = plan::scatter_regular(case, &comm, Root::Rank(last), at_root, Some(&data(&mut got_back)));
                run(hold, scatter).unwrap();
                assert!(got_back == mine);

                let mut out: Vec<i32> = (0..ranks).flat_map(|to| values(rank * 16 + to, count)).collect();
                let expected: Vec<i32> = (0..ranks).flat_map(|from| values(from * 16 + rank, count)).collect();
                let mut got = vec![0; out.len()];
                run(
                    hold,
                    plan::alltoall(case, &comm, Some(regular(&mut out, ranks)), regular(&mut got, ranks)),
                )
                .unwrap();
                assert!(got == expected);
                run(hold, plan::alltoall(case, &comm, None, regular(&mut out, ranks))).unwrap();
                assert!(out == expected);
            }
        });
    }
}

#[test]
fn reductions_add_up() {
    for (ranks, crowded) in [(1, false), (2, false), (3, false), (3, true), (6, false), (8, true)] {
        job(ranks, |rank, hold| {
            let comm = hold.world.clone();
            let settings = settings();
            let case = Case::new(&settings, crowded.then_some(2), comm.size() as usize);
            let sum = hold.ops.builtin(3).unwrap().clone();
            for count in COUNTS {
                let mut mine = values(rank, count);
                let mut got = vec![0; count];
                let all = reduction(Some(&mut mine), &mut got, count, sum.clone());
                run(hold, plan::allreduce(case, &comm, &all)).unwrap();
                assert!(got == sums(ranks, count));

                let mut in_place = mine.clone();
                let all = reduction(None, &mut in_place, count, sum.clone());
                run(hold, plan::allreduce(case, &comm, &all)).unwrap();
                assert!(in_place == sums(ranks, count));

                got.fill(0);
                let all = reduction(Some(&mut mine), &mut got, count, sum.clone());
                run(hold, plan::reduce(case, &comm, Root::Rank(ranks / 2), &all)).unwrap();
                assert!(
                    got == if rank == ranks / 2 {
                        sums(ranks, count)
                    } else {
                        vec![0; count]
                    }
                );

                let all = reduction(Some(&mut mine), &mut got, count, sum.clone());
                run(hold, plan::scan(&comm, &all, false)).unwrap();
                assert!(got == sums(rank + 1, count));

                let counts: Vec<usize> = (0..ranks as usize).map(|r| count / ranks as usize + r).collect();
                let total = counts.iter().sum();
                let first: usize = counts[..rank as usize].iter().sum();
                let mut mine = values(rank, total);
                let mut got = vec![0; counts[rank as usize]];
                let all = reduction(Some(&mut mine), &mut got, total, sum.clone());
                run(hold, plan::reduce_scatter(&comm, &all, &counts)).unwrap();
                assert!(got == sums(ranks, total)[first..first + got.len()]);
            }
        });
    }
}

#[test]
fn nonblocking_operations_pass_each_other() {
    job(4, |rank, hold| {
        let comm = hold.world.clone();
        let settings = settings();
        let case = Case::new(&settings, None, comm.size() as usize);
        let sum = hold.ops.builtin(3).unwrap().clone();
        let mut mine: Vec<Vec<i32>> = (0..20).map(|turn| values(rank, turn * 300)).collect();
        let mut got: Vec<Vec<i32>> = mine.iter().map(|ints| vec![0; ints.len()]).collect();
        let mut requests = Vec::new();
        for (mine, got) in mine.iter_mut().zip(&mut got) {
            let count = got.len();
            let operation = plan::allreduce(case, &comm, &reduction(Some(mine), got, count, sum.clone()));
            requests.push(start(hold, Rc::new(operation), next_started_tag(&comm)).unwrap());
        }
        // Every rank waits in an order of its own.
        requests.rotate_left(rank as usize * 5);
        for request in requests {
            pt2pt::wait(hold, request).unwrap();
        }
        for got in got {
            assert!(got == sums(4, got.len()));
        }
        assert_eq!(hold.requests.len(), 0);
    });
}

#[test]
fn unequal_counts_are_an_error_not_junk() {
    job(2, |rank, hold| {
        let comm = hold.world.clone();
        let settings = settings();
        let case = Case::new(&settings, None, comm.size() as usize);
        let mut ints = vec![rank as i32; 4 + 4 * rank as usize];
        let result = run(hold, plan::bcast(case, &comm, Root::Rank(0), &data(&mut ints)));
        if rank == 1 {
            assert!(
                result
                    .unwrap_err()
                    .text()
                    .contains("it sent 16 bytes where 32 were expected")
            );
        } else {
            result.unwrap();
        }
    });
}

#[test]
fn different_calls_are_named_to_whoever_hears_of_the_other() {
    job(2, |rank, hold| {
        let comm = hold.world.clone();
        let settings = settings();
        let case = Case::new(&settings, None, comm.size() as usize);
        let mut ints = vec![0; 4];
        // Rank 0 sends and returns; rank 1 is told.
        let operation = match rank {
            0 => plan::bcast(case, &comm, Root::Rank(0), &data(&mut ints)),
            _ => plan::scatter(&comm, Root::Rank(0), None, Some(&data(&mut ints))),
        };
        let result = run(hold, operation);
        if rank == 1 {
            let text = result.unwrap_err().text().to_string();
            assert!(
                text.contains("this rank is in MPI_Scatter")
                    && text.contains("rank 0 of the communicator is in MPI_Bcast"),
                "{text}"
            );
        }
    });
}
