//! Every algorithm on 1 to 64 ranks against the plain definition of its operation.

use super::reduce::Vector;
use super::schedule::{Area, Member, Schedule, Shape};
use super::simulate::{ELEMENT, FALLING, Map, Memory, compose, recvs, run, run_between, sends};
use super::{allgather, allreduce, alltoall, barrier, bcast, gather, inter, reduce, reduce_scatter, scan, scatter};

const SIZES: std::ops::RangeInclusive<u32> = 1..=64;
const COUNTS: [usize; 4] = [0, 1, 5, 37];

fn schedules(size: u32, build: impl Fn(&mut Schedule, Member)) -> Vec<Schedule> {
    (0..size)
        .map(|rank| {
            let mut schedule = Schedule::default();
            build(&mut schedule, Member { rank, size });
            schedule
        })
        .collect()
}

/// Element `index` of rank `rank`'s operand.
fn operand(rank: u32, index: usize) -> Map {
    let seed = (rank * 131 + index as u32 * 31 + 7).wrapping_mul(0x9e37_79b1);
    ((seed >> 16) as u16 | 1, seed as u16)
}

fn operands(rank: u32, count: usize) -> Vec<Map> {
    (0..count).map(|index| operand(rank, index)).collect()
}

/// What ranks `ranks` give when reduced in order.
fn reduced(ranks: std::ops::Range<u32>, count: usize) -> Vec<Map> {
    (0..count)
        .map(|index| ranks.clone().map(|rank| operand(rank, index)).reduce(compose).unwrap())
        .collect()
}

fn roots(size: u32) -> impl Iterator<Item = u32> {
    [0, 1, size / 2, size - 1].into_iter().filter(move |&root| root < size)
}

/// Memory of every rank with its operand in the send buffer, or in the receive buffer.
fn with_operands(size: u32, shape: Shape, count: usize, in_place: impl Fn(u32) -> bool) -> Vec<Memory> {
    (0..size)
        .map(|rank| {
            let mut memory = Memory::new(shape);
            let area = if in_place(rank) { recvs(shape) } else { sends(shape) };
            memory.set_maps(area.slice(0, count), &operands(rank, count));
            memory
        })
        .collect()
}

fn vector(shape: Shape, count: usize, in_place: bool) -> Vector {
    Vector {
        send: if in_place { recvs(shape) } else { sends(shape) },
        recv: recvs(shape),
        count,
    }
}

#[test]
fn barriers_let_nobody_out_early() {
    // Who has heard of whom, forwarded by each message, must be everybody at the end.
    for (size, flat) in SIZES.flat_map(|size| [(size, false), (size, true)]) {
        let build = if flat { barrier::flat } else { barrier::dissemination };
        let all = schedules(size, build);
        run(&all, &mut vec![Memory::new(ELEMENT); size as usize]);
        let rounds = all.iter().map(|schedule| schedule.rounds.len()).max().unwrap();
        let mut heard: Vec<u64> = (0..size).map(|rank| 1 << rank).collect();
        for round in 0..rounds {
            let before = heard.clone();
            for (rank, schedule) in all.iter().enumerate() {
                for message in schedule.rounds.get(round).iter().flat_map(|round| &round.messages) {
                    if let super::schedule::Message::Recv { from, .. } = message {
                        heard[rank] |= before[*from as usize];
                    }
                }
            }
        }
        assert!(heard.iter().all(|&set| set.count_ones() == size));
    }
}

fn check_bcast(sizes: impl Iterator<Item = u32>, build: impl Fn(&mut Schedule, Member, u32, usize)) {
    for size in sizes {
        for root in roots(size) {
            for count in COUNTS {
                let all = schedules(size, |schedule, me| build(schedule, me, root, count));
                let mut memories = vec![Memory::new(ELEMENT); size as usize];
                memories[root as usize].set_maps(recvs(ELEMENT).slice(0, count), &operands(root, count));
                run(&all, &mut memories);
                for memory in memories {
                    assert_eq!(memory.maps(recvs(ELEMENT).slice(0, count)), operands(root, count));
                }
            }
        }
    }
}

#[test]
fn bcast_binomial() {
    check_bcast(SIZES, |schedule, me, root, count| {
        bcast::binomial(schedule, me, root, recvs(ELEMENT).slice(0, count));
    });
}

#[test]
fn bcast_scatter_ring() {
    check_bcast(SIZES, |schedule, me, root, count| {
        bcast::scatter_ring(schedule, me, root, recvs(ELEMENT), count);
    });
}

/// Block `rank` of `area` when each has `count` elements.
fn block(area: Area, count: usize) -> impl Fn(u32) -> super::schedule::Slice {
    move |rank| area.slice(rank as usize * count, count)
}

#[test]
fn gathers() {
    for size in SIZES {
        for (root, count) in roots(size).flat_map(|root| [0, 1, 3].map(|count| (root, count))) {
            for (binomial, in_place) in [(false, false), (true, false), (true, true), (false, true)] {
                let all = schedules(size, |schedule, me| {
                    let mine = (!in_place || me.rank != root).then(|| sends(ELEMENT).slice(0, count));
                    let place = block(recvs(ELEMENT), count);
                    if binomial {
                        gather::binomial(schedule, me, root, 4 * count, mine, place);
                    } else {
                        gather::linear(schedule, me, root, mine, place);
                    }
                });
                let mut memories = with_operands(size, ELEMENT, count, |_| false);
                if in_place {
                    let slice = block(recvs(ELEMENT), count)(root);
                    memories[root as usize].set_maps(slice, &operands(root, count));
                }
                run(&all, &mut memories);
                for rank in 0..size {
                    let got = memories[root as usize].maps(block(recvs(ELEMENT), count)(rank));
                    assert_eq!(got, operands(rank, count), "{rank} of {size} at {root}");
                }
            }
        }
    }
}

#[test]
fn scatters() {
    for size in SIZES {
        for (root, count) in roots(size).flat_map(|root| [0, 1, 3].map(|count| (root, count))) {
            for (binomial, in_place) in [(false, false), (true, false), (true, true), (false, true)] {
                let all = schedules(size, |schedule, me| {
                    let mine = (!in_place || me.rank != root).then(|| recvs(ELEMENT).slice(0, count));
                    let place = block(sends(ELEMENT), count);
                    if binomial {
                        scatter::binomial(schedule, me, root, 4 * count, mine, place);
                    } else {
                        scatter::linear(schedule, me, root, mine, place);
                    }
                });
                let mut memories = vec![Memory::new(ELEMENT); size as usize];
                for rank in 0..size {
                    memories[root as usize].set_maps(block(sends(ELEMENT), count)(rank), &operands(rank, count));
                }
                run(&all, &mut memories);
                for rank in (0..size).filter(|&rank| !in_place || rank != root) {
                    let got = memories[rank as usize].maps(recvs(ELEMENT).slice(0, count));
                    assert_eq!(got, operands(rank, count), "{rank} of {size} from {root}");
                }
            }
        }
    }
}

#[test]
fn allgathers() {
    for size in SIZES {
        for count in [0, 1, 3] {
            for algorithm in 0..3 {
                let all = schedules(size, |schedule, me| {
                    let mine = sends(ELEMENT).slice(0, count);
                    let place = block(recvs(ELEMENT), count);
                    if algorithm == 0 {
                        return allgather::bruck(schedule, me, 4 * count, mine, place);
                    }
                    schedule.round().copy(mine, place(me.rank));
                    if algorithm == 1 {
                        allgather::ring(schedule, me, mine, place);
                    } else {
                        allgather::spread(schedule, me, mine, place);
                    }
                });
                let mut memories = with_operands(size, ELEMENT, count, |_| false);
                run(&all, &mut memories);
                for memory in &memories {
                    for rank in 0..size {
                        assert_eq!(memory.maps(block(recvs(ELEMENT), count)(rank)), operands(rank, count));
                    }
                }
            }
        }
    }
}

#[test]
fn alltoalls() {
    for size in SIZES {
        for count in [0, 1, 2] {
            for bruck in [false, true] {
                let all = schedules(size, |schedule, me| {
                    let from = block(sends(ELEMENT), count);
                    let to = block(recvs(ELEMENT), count);
                    if bruck {
                        alltoall::bruck(schedule, me, 4 * count, from, to);
                    } else {
                        alltoall::windowed(schedule, me, from, to);
                    }
                });
                let mut memories = vec![Memory::new(ELEMENT); size as usize];
                for from in 0..size {
                    for to in 0..size {
                        let data = operands(from * 64 + to, count);
                        memories[from as usize].set_maps(block(sends(ELEMENT), count)(to), &data);
                    }
                }
                run(&all, &mut memories);
                for to in 0..size {
                    for from in 0..size {
                        let got = memories[to as usize].maps(block(recvs(ELEMENT), count)(from));
                        assert_eq!(
                            got,
                            operands(from * 64 + to, count),
                            "bruck {bruck}: {from} to {to} of {size}"
                        );
                    }
                }
            }
        }
    }
}

fn check_reduce(commutes: bool, build: impl Fn(&mut Schedule, Member, u32, &Vector)) {
    for size in SIZES {
        for (root, count) in roots(size).flat_map(|root| COUNTS.map(|count| (root, count))) {
            for (in_place, shape) in [(false, ELEMENT), (true, FALLING)] {
                let is_in_place = |rank| in_place && rank == root;
                let all = schedules(size, |schedule, me| {
                    build(schedule, me, root, &vector(shape, count, is_in_place(me.rank)));
                });
                let mut memories = with_operands(size, shape, count, is_in_place);
                run(&all, &mut memories);
                let got = memories[root as usize].maps(recvs(shape).slice(0, count));
                // Around the ring from the root, when the operation is said to commute.
                let expected = if commutes {
                    (0..count)
                        .map(|index| {
                            let order = (0..size).map(|step| operand((root + step) % size, index));
                            order.reduce(compose).unwrap()
                        })
                        .collect()
                } else {
                    reduced(0..size, count)
                };
                assert_eq!(got, expected, "{count} elements of {size} ranks at {root}");
                for (rank, memory) in memories.iter().enumerate().filter(|(rank, _)| *rank as u32 != root) {
                    assert!(
                        memory.recv.iter().all(|&byte| byte == 0xee),
                        "rank {rank} has no receive buffer"
                    );
                }
            }
        }
    }
}

#[test]
fn reduce_binomial_in_rank_order() {
    check_reduce(false, |schedule, me, root, vector| {
        reduce::binomial(schedule, me, root, false, vector)
    });
}

#[test]
fn reduce_binomial_from_the_root() {
    check_reduce(true, |schedule, me, root, vector| {
        reduce::binomial(schedule, me, root, true, vector)
    });
}

#[test]
fn reduce_flat() {
    check_reduce(false, reduce::flat);
}

#[test]
fn reduce_halving() {
    check_reduce(false, reduce::halving);
}

fn check_allreduce(build: impl Fn(&mut Schedule, Member, &Vector)) {
    for size in SIZES {
        for count in COUNTS {
            for (in_place, shape) in [(false, FALLING), (true, ELEMENT)] {
                let all = schedules(size, |schedule, me| {
                    build(schedule, me, &vector(shape, count, in_place))
                });
                let mut memories = with_operands(size, shape, count, |_| in_place);
                run(&all, &mut memories);
                for memory in memories {
                    assert_eq!(memory.maps(recvs(shape).slice(0, count)), reduced(0..size, count));
                }
            }
        }
    }
}

#[test]
fn allreduce_recursive_doubling() {
    check_allreduce(allreduce::recursive_doubling);
}

#[test]
fn allreduce_flat() {
    check_allreduce(allreduce::flat);
}

#[test]
fn allreduce_halving() {
    check_allreduce(allreduce::halving);
}

#[test]
fn reduce_scatter_exchange() {
    for size in SIZES {
        for in_place in [false, true] {
            // Blocks of 0, 1, 2, 0, ... elements.
            let place = |rank: u32| ((0..rank).map(|r| r as usize % 3).sum::<usize>(), rank as usize % 3);
            let count = place(size).0;
            let all = schedules(size, |schedule, me| {
                reduce_scatter::exchange(schedule, me, &vector(ELEMENT, count, in_place), place);
            });
            let mut memories = with_operands(size, ELEMENT, count, |_| in_place);
            run(&all, &mut memories);
            let expected = reduced(0..size, count);
            for rank in 0..size {
                let (first, len) = place(rank);
                let got = memories[rank as usize].maps(recvs(ELEMENT).slice(0, len));
                assert_eq!(got, expected[first..first + len]);
            }
        }
    }
}

#[test]
fn scans() {
    for size in SIZES {
        for count in COUNTS {
            for (in_place, exclusive) in [(false, false), (true, false), (false, true), (true, true)] {
                let all = schedules(size, |schedule, me| {
                    let vector = vector(ELEMENT, count, in_place);
                    if exclusive {
                        scan::exclusive(schedule, me, &vector);
                    } else {
                        scan::inclusive(schedule, me, &vector);
                    }
                });
                let mut memories = with_operands(size, ELEMENT, count, |_| in_place);
                let untouched = memories[0].recv.clone();
                run(&all, &mut memories);
                for rank in 0..size {
                    let memory = &memories[rank as usize];
                    if exclusive && rank == 0 {
                        assert!(memory.recv == untouched);
                        continue;
                    }
                    let expected = reduced(0..rank + !exclusive as u32, count);
                    assert_eq!(
                        memory.maps(recvs(ELEMENT).slice(0, count)),
                        expected,
                        "{rank} of {size}"
                    );
                }
            }
        }
    }
}

/// Builds the schedules of two groups and runs them against each other; group A has ranks `0 .. a`.
fn run_groups(a: u32, b: u32, memories: &mut [Memory], build: impl Fn(&mut Schedule, inter::Sides, bool)) {
    let side = |size: u32, remote: u32, first: bool| {
        schedules(size, |schedule, me| build(schedule, inter::Sides { me, remote }, first))
    };
    let mut all = side(a, b, true);
    all.extend(side(b, a, false));
    let across = |me: usize, rank: u32| {
        if me < a as usize {
            (a + rank) as usize
        } else {
            rank as usize
        }
    };
    run_between(&all, memories, &across);
}

#[test]
fn intercommunicators() {
    for (a, b) in [(1, 1), (1, 5), (4, 3), (7, 7), (2, 40), (37, 33)] {
        let all = a + b;
        run_groups(
            a,
            b,
            &mut vec![Memory::new(ELEMENT); all as usize],
            |schedule, sides, _| {
                inter::barrier(schedule, sides);
            },
        );
        for count in [0, 1, 4] {
            let mut memories = with_operands(all, ELEMENT, count, |_| false);
            run_groups(a, b, &mut memories, |schedule, sides, _| {
                let mine = sends(ELEMENT).slice(0, count);
                inter::exchange(schedule, sides, |_| mine, block(recvs(ELEMENT), count));
            });
            for me in 0..all {
                let (remote, first) = if me < a { (b, a) } else { (a, 0) };
                for rank in 0..remote {
                    let got = memories[me as usize].maps(block(recvs(ELEMENT), count)(rank));
                    assert_eq!(got, operands(first + rank, count));
                }
            }

            let mut memories = with_operands(all, ELEMENT, count, |_| false);
            run_groups(a, b, &mut memories, |schedule, sides, first| {
                if !first {
                    schedule.round().send(a - 1, sends(ELEMENT).slice(0, count));
                } else if sides.me.rank == a - 1 {
                    inter::reduce(schedule, sides, &vector(ELEMENT, count, false));
                }
            });
            let got = memories[a as usize - 1].maps(recvs(ELEMENT).slice(0, count));
            assert_eq!(got, reduced(a..all, count));
        }
    }
}

#[test]
fn intercommunicator_allreduce() {
    for (a, b) in [(1, 1), (1, 6), (4, 2), (12, 36)] {
        let mut memories = with_operands(a + b, ELEMENT, 5, |_| false);
        run_groups(a, b, &mut memories, |schedule, sides, _| {
            inter::allreduce(schedule, sides, &vector(ELEMENT, 5, false));
        });
        for me in 0..a + b {
            let others = if me < a { a..a + b } else { 0..a };
            let got = memories[me as usize].maps(recvs(ELEMENT).slice(0, 5));
            assert_eq!(got, reduced(others, 5), "{me} of {a} + {b}");
        }
    }
}
