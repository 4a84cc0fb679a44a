//! Collective operations as a program calls them, by ranks that are threads: random programs against
//! their definition, late and early ranks, several communicators and threads, wrong calls.

use crate::mpi::coll::args::{Reduction, Root};
use crate::mpi::coll::call::{Task, begin, perform};
use crate::mpi::coll::signature::Call;
use crate::mpi::coll::support::{self, PERIOD, data, regular, repeating, room, starts, varying};
use crate::mpi::comm::{Comm, create};
use crate::mpi::pt2pt;
use crate::mpi::world::{Hold, World};
use crate::sys::cvar::Settings;
use crate::sys::selection::{Operation, Way};
use proptest::prelude::*;
use std::rc::Rc;

pub(super) const SUM: u32 = 3;
const MAX: u32 = 1;
const BXOR: u32 = 10;

/// Runs `program` as each rank of a job on `cpus` CPUs, with control variables besides the defaults.
pub(super) fn job(ranks: u32, cpus: u32, set: &[(&str, u64)], multiple: bool, program: impl Fn(u32, &World) + Sync) {
    // What tests do not say themselves.
    let set = [set, &[("NEARMPI_BOARD_ONE_COPY", 2)]].concat();
    support::job(ranks, cpus, &set, multiple, program);
}

pub(super) fn value(seed: u32, rank: u32, index: usize) -> i32 {
    (rank as i32 * 1009 + seed as i32 * 31 + 17).wrapping_mul((index % PERIOD) as i32 * 7 + 3)
}

pub(super) fn values(seed: u32, rank: u32, count: usize) -> Vec<i32> {
    repeating(count, |index| value(seed, rank, index))
}

pub(super) fn combined(op: u32, seed: u32, ranks: u32, count: usize) -> Vec<i32> {
    let combine = |a: i32, b: i32| match op {
        SUM => a.wrapping_add(b),
        MAX => a.max(b),
        _ => a ^ b,
    };
    let all = |index| (0..ranks).map(|rank| value(seed, rank, index)).reduce(combine).unwrap();
    repeating(count, all)
}

/// One step of a program; roots are taken modulo the number of ranks.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Barrier,
    Bcast,
    Reduce,
    Allreduce,
    Gather,
    Gatherv,
    Scatter,
    Scatterv,
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    ReduceScatter,
    Scan,
    Exscan,
    Started,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) what: What,
    pub(super) root: u32,
    pub(super) count: usize,
    pub(super) op: u32,
    pub(super) in_place: bool,
    pub(super) seed: u32,
}

const WHATS: [What; 16] = [
    What::Barrier,
    What::Bcast,
    What::Reduce,
    What::Allreduce,
    What::Gather,
    What::Gatherv,
    What::Scatter,
    What::Scatterv,
    What::Allgather,
    What::Allgatherv,
    What::Alltoall,
    What::Alltoallv,
    What::ReduceScatter,
    What::Scan,
    What::Exscan,
    What::Started,
];

fn steps(longest: usize) -> impl Strategy<Value = Vec<Step>> {
    let count = prop_oneof![0..4usize, 20..40usize, Just(1000usize), 0..longest];
    let op = prop_oneof![Just(SUM), Just(MAX), Just(BXOR)];
    let step = (0..WHATS.len(), 0..16u32, count, op, any::<bool>(), 0..1000u32);
    let step = step.prop_map(|(what, root, count, op, in_place, seed)| Step {
        what: WHATS[what],
        root,
        count,
        op,
        in_place,
        seed,
    });
    prop::collection::vec(step, 1..40)
}

pub(super) fn reduction(hold: &Hold, op: u32, send: Option<&mut [i32]>, recv: &mut [i32], count: usize) -> Reduction {
    support::reduction(send, recv, count, hold.ops.builtin(op).unwrap().clone())
}

/// Does `step` and compares with its definition.
pub(super) fn take(hold: &mut Hold, comm: &Rc<Comm>, step: Step) {
    let Step {
        what,
        count,
        op,
        in_place,
        seed,
        ..
    } = step;
    let (rank, ranks) = (comm.rank, comm.size());
    let root = step.root % ranks;
    let mut mine = values(seed, rank, count);
    let mut got = vec![-1; count];
    let result = combined(op, seed, ranks, count);
    // Rank r has a block of so many elements where blocks differ.
    let counts: Vec<usize> = (0..ranks as usize).map(|r| (count / 2 + r * 5) % (count + 1)).collect();
    let total: usize = counts.iter().sum();
    let both = count * ranks as usize;
    match what {
        What::Barrier => perform(hold, comm, Task::Barrier(Call::Barrier)).unwrap(),
        What::Bcast => {
            let mut ints = if rank == root { mine } else { got };
            perform(hold, comm, Task::Bcast(Root::Rank(root), data(&mut ints))).unwrap();
            assert!(ints == values(seed, root, count), "{step:?}");
        }
        What::Reduce => {
            let mut kept = mine.clone();
            let task = match in_place && rank == root {
                true => {
                    got.clone_from(&mine);
                    reduction(hold, op, None, &mut got, count)
                }
                false => reduction(hold, op, Some(&mut kept), &mut got, count),
            };
            perform(hold, comm, Task::Reduce(Root::Rank(root), task)).unwrap();
            assert!(got == if rank == root { result } else { vec![-1; count] }, "{step:?}");
            assert!(kept == mine, "{step:?}");
        }
        What::Allreduce | What::Scan | What::Exscan => {
            if in_place {
                got.clone_from(&mine);
            }
            let task = reduction(hold, op, (!in_place).then_some(&mut mine[..]), &mut got, count);
            let (task, result) = match what {
                What::Allreduce => (Task::Allreduce(task), result),
                What::Scan => (Task::Scan(task, false), combined(op, seed, rank + 1, count)),
                _ if rank == 0 => (Task::Scan(task, true), got.clone()),
                _ => (Task::Scan(task, true), combined(op, seed, rank, count)),
            };
            perform(hold, comm, task).unwrap();
            assert!(got == result, "{step:?}");
        }
        What::Gather => {
            let mut all = vec![-1; both];
            all[rank as usize * count..][..count].copy_from_slice(&mine);
            let send = (!(in_place && rank == root)).then(|| data(&mut mine));
            let recv = (rank == root).then(|| regular(&mut all, ranks));
            perform(hold, comm, Task::Gather(Root::Rank(root), send, recv, true)).unwrap();
            let expected: Vec<i32> = (0..ranks).flat_map(|from| values(seed, from, count)).collect();
            assert!(rank != root || all == expected, "{step:?}");
        }
        What::Gatherv => {
            let mut all = vec![-1; room(&counts)];
            let at = starts(&counts);
            mine.truncate(counts[rank as usize]);
            all[at[rank as usize]..][..mine.len()].copy_from_slice(&mine);
            let send = (!(in_place && rank == root)).then(|| data(&mut mine));
            let recv = (rank == root).then(|| varying(&mut all, &counts));
            perform(hold, comm, Task::Gather(Root::Rank(root), send, recv, false)).unwrap();
            for from in (0..ranks).filter(|_| rank == root) {
                let (at, len) = (at[from as usize], counts[from as usize]);
                assert!(all[at..at + len] == values(seed, from, len), "{step:?} from {from}");
                assert_eq!(all[at + len], -1, "the gap");
            }
        }
        What::Scatter => {
            let mut all: Vec<i32> = (0..ranks).flat_map(|to| values(seed, to, count)).collect();
            let send = (rank == root).then(|| regular(&mut all, ranks));
            let keeps = in_place && rank == root;
            let recv = (!keeps).then(|| data(&mut got));
            perform(hold, comm, Task::Scatter(Root::Rank(root), send, recv, true)).unwrap();
            assert!(keeps || got == mine, "{step:?}");
        }
        What::Scatterv => {
            let mut all = vec![-1; room(&counts)];
            for to in 0..ranks as usize {
                all[starts(&counts)[to]..][..counts[to]].copy_from_slice(&values(seed, to as u32, counts[to]));
            }
            got.truncate(counts[rank as usize]);
            let send = (rank == root).then(|| varying(&mut all, &counts));
            let keeps = in_place && rank == root;
            let recv = (!keeps).then(|| data(&mut got));
            perform(hold, comm, Task::Scatter(Root::Rank(root), send, recv, false)).unwrap();
            assert!(keeps || got == mine[..got.len()], "{step:?}");
        }
        What::Allgather => {
            let mut all = vec![-1; both];
            all[rank as usize * count..][..count].copy_from_slice(&mine);
            let send = (!in_place).then(|| data(&mut mine));
            perform(hold, comm, Task::Allgather(send, regular(&mut all, ranks))).unwrap();
            let expected: Vec<i32> = (0..ranks).flat_map(|from| values(seed, from, count)).collect();
            assert!(all == expected, "{step:?}");
        }
        What::Allgatherv => {
            let mut all = vec![-1; room(&counts)];
            let at = starts(&counts);
            mine.truncate(counts[rank as usize]);
            all[at[rank as usize]..][..mine.len()].copy_from_slice(&mine);
            let send = (!in_place).then(|| data(&mut mine));
            perform(hold, comm, Task::Allgather(send, varying(&mut all, &counts))).unwrap();
            for from in 0..ranks {
                let (at, len) = (at[from as usize], counts[from as usize]);
                assert!(all[at..at + len] == values(seed, from, len), "{step:?} from {from}");
                assert_eq!(all[at + len], -1, "the gap");
            }
        }
        What::Alltoall => {
            let mut out: Vec<i32> = (0..ranks).flat_map(|to| values(seed + to, rank, count)).collect();
            let expected: Vec<i32> = (0..ranks).flat_map(|from| values(seed + rank, from, count)).collect();
            let mut all = if in_place { out.clone() } else { vec![-1; both] };
            let send = (!in_place).then(|| regular(&mut out, ranks));
            perform(hold, comm, Task::Alltoall(send, regular(&mut all, ranks))).unwrap();
            assert!(all == expected, "{step:?}");
        }
        What::Alltoallv => {
            // From rank a to rank b go as many elements as the other way.
            let between = |a: u32, b: u32| (count / 2 + (a * b) as usize * 3) % (count + 1);
            let counts: Vec<usize> = (0..ranks).map(|peer| between(rank, peer)).collect();
            let at = starts(&counts);
            let mut out = vec![-1; room(&counts)];
            for to in 0..ranks {
                let block = values(seed + to, rank, counts[to as usize]);
                out[at[to as usize]..][..block.len()].copy_from_slice(&block);
            }
            let mut all = if in_place { out.clone() } else { vec![-1; out.len()] };
            let send = (!in_place).then(|| varying(&mut out, &counts));
            perform(hold, comm, Task::Alltoall(send, varying(&mut all, &counts))).unwrap();
            for from in 0..ranks {
                let (at, len) = (at[from as usize], counts[from as usize]);
                assert!(
                    all[at..at + len] == values(seed + rank, from, len),
                    "{step:?} from {from}"
                );
            }
        }
        What::ReduceScatter => {
            let first: usize = counts[..rank as usize].iter().sum();
            let mut mine = values(seed, rank, total);
            let mut got = if in_place { mine.clone() } else { vec![-1; total] };
            let send = (!in_place).then_some(&mut mine[..]);
            let task = reduction(hold, op, send, &mut got, total);
            perform(hold, comm, Task::ReduceScatter(task, counts.clone())).unwrap();
            let result = combined(op, seed, ranks, total);
            let len = counts[rank as usize];
            assert!(got[..len] == result[first..first + len], "{step:?}");
        }
        What::Started => {
            // Two nonblocking ones on their way while a blocking one is done.
            let mut others = got.clone();
            let first = reduction(hold, op, Some(&mut mine), &mut got, count);
            let mut ints = values(seed, root, if rank == root { count } else { 0 });
            ints.resize(count, -1);
            let tasks = [Task::Allreduce(first), Task::Bcast(Root::Rank(root), data(&mut ints))];
            let requests = tasks.map(|task| begin(hold, comm, task).unwrap());
            let mut again = mine.clone();
            let second = reduction(hold, op, Some(&mut again), &mut others, count);
            perform(hold, comm, Task::Allreduce(second)).unwrap();
            for request in requests {
                pt2pt::wait(hold, request).unwrap();
            }
            assert!(got == result && others == result && ints == values(seed, root, count));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_do_what_the_standard_says(
        ranks in 1..6u32,
        crowded in any::<bool>(),
        most in prop_oneof![Just(0u64), Just(1), Just(100), Just(1024), Just(16384), Just(65536)],
        share in prop_oneof![Just(64u64), Just(8192)],
        one_copy in prop_oneof![3 => Just(1u64), 1 => Just(0)],
        board_one_copy in 0..=2u64,
        pieces in prop_oneof![Just(0u64), Just(10_000), Just(1 << 20)],
        direct in prop_oneof![Just(0u64), Just(500), Just(16384)],
        trays in 0..=1u64,
        doubling in 0..=2u64,
        program in steps(12_000),
    ) {
        let set = [
            ("NEARMPI_BOARD_MAX", most),
            ("NEARMPI_SHARE_MIN", share),
            ("NEARMPI_ONE_COPY", one_copy),
            ("NEARMPI_BOARD_ONE_COPY", board_one_copy),
            ("NEARMPI_BOARD_PIECES", pieces),
            ("NEARMPI_BOARD_DIRECT", direct),
            ("NEARMPI_BOARD_TRAYS", trays),
            ("NEARMPI_BOARD_DOUBLING", doubling),
        ];
        job(ranks, if crowded { 1 } else { 8 }, &set, false, |_, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            for &step in &program {
                take(&mut hold, &comm, step);
            }
        });
    }
}

/// Rules for some operations, each with some of its ways up to some bounds.
fn rules() -> impl Strategy<Value = String> {
    let bound = prop_oneof![Just(""), Just("<=0"), Just("<=100"), Just("<=2K"), Just("<=40K")];
    let rule = (
        0..Operation::ALL.len(),
        prop::collection::vec(prop::option::of(bound), 7),
        any::<bool>(),
    );
    let rule = rule.prop_map(|(operation, bounds, early)| {
        let operation = Operation::ALL[operation];
        let ways = operation.ways().iter().zip(bounds);
        let ways = ways.filter_map(|(&way, bound)| Some((way, format!("{}{}", way.word(), bound?))));
        let mut ways: Vec<_> = ways.collect();
        // Messages before all ways by boards but the first.
        if early {
            ways.sort_by_key(|(way, _)| (*way != Way::Shown, !way.is_by_messages()));
        }
        let ways: Vec<_> = ways.into_iter().map(|(_, text)| text).collect();
        (operation.word(), ways.join(" "))
    });
    let rule = rule.prop_filter_map("a rule has ways", |(operation, ways)| {
        (!ways.is_empty()).then(|| format!("{operation}: {ways}"))
    });
    prop::collection::vec(rule, 0..20).prop_map(|rules| rules.join("; "))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whatever_rules_say_programs_do_what_the_standard_says(
        ranks in 1..10u32,
        crowded in any::<bool>(),
        boards in prop_oneof![Just(64u32), Just(0)],
        rules in rules(),
        program in steps(12_000),
    ) {
        let given = |name: &str| match name {
            "NEARMPI_BOARD_RANKS" => Some(boards.to_string()),
            "NEARMPI_COLLECTIVES" => Some(rules.clone()),
            _ => None,
        };
        let settings = Settings::read(given).unwrap();
        support::job_with(ranks, if crowded { 1 } else { 16 }, &settings, false, |_, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            for &step in &program {
                take(&mut hold, &comm, step);
            }
        });
    }
}

#[test]
fn an_exclusive_scan_of_two_stays_exclusive_where_broadcasts_are_shown() {
    let given = |name: &str| (name == "NEARMPI_COLLECTIVES").then(|| "bcast: shown".to_string());
    support::job_with(2, 16, &Settings::read(given).unwrap(), false, |_, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        for (what, count) in [(What::Exscan, 4097), (What::Scan, 4097), (What::Exscan, 4096)] {
            take(&mut hold, &comm, Step { what, count, ..ANY });
        }
    });
}

#[test]
fn ranks_that_cannot_read_others_get_messages() {
    // These believe that nothing can be copied once: the decision is the same for all, the means are not.
    for refused in [&[1][..], &[0, 2], &[0, 1, 2]] {
        job(3, 8, &[("NEARMPI_BOARD_MAX", 1000)], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            for other in (0..3).filter(|_| refused.contains(&rank)) {
                hold.engine.channel.never_read(other);
            }
            for (seed, what) in WHATS.into_iter().enumerate() {
                for in_place in [false, true] {
                    let seed = seed as u32;
                    let step = Step {
                        what,
                        count: 9000,
                        seed,
                        root: seed,
                        in_place,
                        ..ANY
                    };
                    take(&mut hold, &comm, step);
                }
            }
        });
    }
}

pub(super) const ANY: Step = Step {
    what: What::Barrier,
    root: 0,
    count: 0,
    op: SUM,
    in_place: false,
    seed: 5,
};

#[test]
fn what_is_shown_waits_for_late_readers() {
    // The root runs ahead of the others until its slots or its scratch memory are full.
    for count in [1, 28, 29, 4000, 16384] {
        job(3, 1, &[("NEARMPI_BOARD_MAX", 65536)], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            for seed in 0..40 {
                if rank == 2 && seed % 16 == 7 {
                    std::thread::sleep(std::time::Duration::from_millis(2));
                }
                let what = if seed % 3 == 0 { What::Reduce } else { What::Bcast };
                take(
                    &mut hold,
                    &comm,
                    Step {
                        what,
                        count,
                        seed,
                        ..ANY
                    },
                );
            }
        });
    }
}

#[test]
fn scratch_memory_serves_many_communicators_and_their_next_lives() {
    job(2, 2, &[("NEARMPI_BOARD_MAX", 65536)], false, |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        for _ in 0..4 {
            let comms: Vec<_> = (0..20)
                .map(|_| Rc::new(create::dup(&mut hold, &comm).unwrap()))
                .collect();
            for (seed, comm) in comms.iter().enumerate() {
                let step = Step {
                    what: What::Bcast,
                    count: 16_000,
                    root: seed as u32,
                    seed: seed as u32,
                    ..ANY
                };
                take(&mut hold, comm, step);
                if rank == 0 {
                    std::thread::yield_now();
                }
            }
        }
    });
}

#[test]
fn a_context_in_its_next_life_shows_nothing_old() {
    job(2, 2, &[], false, |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        if rank == 0 {
            // All contexts but a few.
            assert!((0..32_750).all(|_| hold.claim_context(1).is_ok()));
        }
        for life in 0..500 {
            let dup = Rc::new(create::dup(&mut hold, &comm).unwrap());
            let step = Step {
                what: What::Allreduce,
                count: 1,
                seed: life,
                ..ANY
            };
            take(&mut hold, &dup, step);
            take(
                &mut hold,
                &dup,
                Step {
                    what: What::Started,
                    ..step
                },
            );
        }
    });
}

#[test]
fn threads_use_communicators_of_their_own() {
    for cpus in [1, 8] {
        job(2, cpus, &[], true, |_, world| {
            let comms: Vec<_> = {
                let mut hold = world.hold();
                let comm = hold.world.clone();
                (0..4)
                    .map(|_| {
                        let dup = Rc::new(create::dup(&mut hold, &comm).unwrap());
                        hold.comms.insert(dup).unwrap()
                    })
                    .collect()
            };
            std::thread::scope(|scope| {
                for (number, &key) in comms.iter().enumerate() {
                    scope.spawn(move || {
                        for seed in 0..400 {
                            let mut hold = world.hold();
                            let comm = hold.comms.get(key).unwrap().clone();
                            let what = [
                                What::Barrier,
                                What::Allreduce,
                                What::Bcast,
                                What::Alltoall,
                                What::Started,
                            ][(seed as usize + number) % 5];
                            let count = [3, 300][seed as usize % 2];
                            take(
                                &mut hold,
                                &comm,
                                Step {
                                    what,
                                    count,
                                    seed,
                                    root: seed,
                                    ..ANY
                                },
                            );
                            drop(comm);
                        }
                    });
                }
            });
        });
    }
}

#[test]
fn different_calls_are_named() {
    job(2, 2, &[], false, |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        let mut ints = vec![0; 4];
        let task = match rank {
            0 => Task::Barrier(Call::Barrier),
            _ => Task::Bcast(Root::Rank(1), data(&mut ints)),
        };
        let outcome = perform(&mut hold, &comm, task);
        if rank == 0 {
            let text = outcome.unwrap_err().text().to_string();
            let expected = "this rank is in MPI_Barrier, but rank 1 of the communicator is in MPI_Bcast";
            assert_eq!(text, expected);
        }
    });
}
