//! Measures the ways of collective operations, and says as rules where others than the usual ones are quicker.

use super::{BETTER, Cost, SLICE, on_ranks, say};
use mpi::mpi::coll::args::{Blocks, Data, Places, Reduction, Root};
use mpi::mpi::coll::call::{Task, perform};
use mpi::mpi::coll::choice::Case;
use mpi::mpi::coll::machine::Element;
use mpi::mpi::coll::{allreduce_u64, barrier};
use mpi::mpi::datatype::Datatype;
use mpi::mpi::datatype::basic::index;
use mpi::mpi::world::{Hold, World};
use mpi::sys::clock;
use mpi::sys::cvar::Settings;
use mpi::sys::selection::{Operation, Rule, Step, Way};

/// Operations that are measured; the others follow the defaults.
const OPERATIONS: [Operation; 5] = [
    Operation::Bcast,
    Operation::Reduce,
    Operation::Allreduce,
    Operation::Allgather,
    Operation::Alltoall,
];
/// Lengths that are measured, in the measure of the operation.
const LENGTHS: [usize; 5] = [8 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20];
/// Most ranks of a measurement besides those of two.
const MANY: usize = 8;
/// `MPI_INT` and `MPI_SUM`.
const INT: i32 = 0x4c00_0405;
const SUM: u32 = 3;

/// What each way costs at each length.
type Costs = Vec<(Way, Vec<Cost>)>;

/// Rules for this machine, where ranks have one of `cpus` each; empty where the defaults are as good.
///
/// # Errors
/// What is measured cannot be printed.
pub fn measure(cpus: &[usize]) -> Result<String, String> {
    let mut rules = Vec::new();
    let sizes = [2, cpus.len().min(MANY)];
    for &size in sizes.iter().take(if sizes[1] > 2 { 2 } else { 1 }) {
        say::out(&format!(
            "\n{size} ranks, us, each operation and a barrier, data rewritten     (untouched)\n{:>24}{}\n",
            "bytes",
            LENGTHS.map(|len| format!("{len:>16}")).concat()
        ))?;
        for operation in OPERATIONS {
            let costs: Costs = ways(operation, size)
                .into_iter()
                .map(|way| (way, cost(&cpus[..size], operation, way)))
                .collect();
            for (way, costs) in &costs {
                let costs = costs
                    .iter()
                    .map(|[fresh, rest]| format!("{:>16}", format!("{fresh:.1} ({rest:.1})")));
                say::out(&format!(
                    "{:>14}{:>10}{}\n",
                    operation.word(),
                    way.word(),
                    costs.collect::<String>()
                ))?;
            }
            let settings = Settings::read(|_| None).expect("defaults make sense");
            let usual = Case::new(&settings, None, size).rule(operation);
            rules.extend(choose(&costs, &usual).map(|steps| {
                let ranks = if size == 2 { (2, 2) } else { (3, usize::MAX) };
                Rule {
                    ranks,
                    crowded: Some(false),
                    steps,
                    operation,
                }
            }));
        }
    }
    Ok(rules.iter().map(Rule::to_string).collect::<Vec<_>>().join("; "))
}

/// The ways that are compared: those by boards, of long data the usual one, and the usual one by messages at length.
fn ways(operation: Operation, size: usize) -> Vec<Way> {
    let settings = Settings::read(|_| None).expect("defaults make sense");
    let case = Case::new(&settings, None, size);
    let messages = case.by_messages(operation, LENGTHS[LENGTHS.len() - 1], |_| true);
    let hands_on = case.rule(operation).steps.iter().any(|step| step.way == Way::Handed);
    let long = if hands_on { Way::Handed } else { Way::Offered };
    vec![Way::Shown, long, messages]
}

/// The steps that cost least over all lengths, if that is clearly less than the usual ones do.
fn choose(costs: &Costs, usual: &Rule) -> Option<Vec<Step>> {
    let of = |way: Way, index: usize| {
        let (_, all) = costs.iter().find(|(one, _)| *one == way).expect("it was measured");
        all[index]
    };
    let at = |way: Way, index: usize| {
        let cost = match way {
            Way::Learnt => [0, 1].map(|data| of(Way::Shown, index)[data].min(of(Way::Offered, index)[data])),
            way => of(way, index),
        };
        // Programs rewrite some data and not others.
        cost.map(f64::ln).iter().sum::<f64>() / 2.0
    };
    let sum = |way_of: &dyn Fn(usize) -> Way| -> f64 { (0..LENGTHS.len()).map(|index| at(way_of(index), index)).sum() };
    let [shown, long, messages] = [costs[0].0, costs[1].0, costs[2].0];
    let usually = sum(&|index| {
        let step = usual.steps.iter().find(|step| LENGTHS[index] <= step.most);
        step.map(|step| step.way)
            .filter(|way| !way.is_by_messages())
            .unwrap_or(messages)
    });
    let all = LENGTHS.len();
    let orders = [[shown, long, messages], [shown, messages, long]];
    let splits = (0..=all).flat_map(|first| (first..=all).map(move |second| (first, second)));
    let costed = splits.flat_map(|(first, second)| {
        orders.map(|ways| {
            let steps = [(ways[0], 0, first), (ways[1], first, second), (ways[2], second, all)];
            let cost = |&(way, from, to): &(Way, usize, usize)| (from..to).map(|index| at(way, index)).sum::<f64>();
            (steps.iter().map(cost).sum::<f64>(), steps)
        })
    });
    let (least, steps) = costed.min_by(|one, other| one.0.total_cmp(&other.0))?;
    // Between two lengths that were measured, the bound lies in the middle.
    let bound = |count: usize| {
        if count == all {
            usize::MAX
        } else {
            2 * LENGTHS[count - 1]
        }
    };
    let steps = steps.into_iter().filter(|(_, from, to)| from < to);
    let steps = steps.map(|(way, _, to)| Step { way, most: bound(to) });
    (least - usually < BETTER.ln() * all as f64).then(|| steps.collect())
}

/// What `operation` and a barrier cost when it goes that way.
fn cost(cpus: &[usize], operation: Operation, way: Way) -> Vec<Cost> {
    let rule = format!("{}: {}", operation.word(), way.word());
    on_ranks(cpus, &[("NEARMPI_COLLECTIVES", &rule)], |_, world| {
        LENGTHS
            .map(|len| [true, false].map(|fresh| timed(world, operation, len, fresh)))
            .into()
    })
}

/// Microseconds. `fresh`: each rank writes its data before.
fn timed(world: &World, operation: Operation, len: usize, fresh: bool) -> f64 {
    let mut hold = world.hold();
    let comm = hold.world.clone();
    let ranks = comm.size() as usize;
    let (block, room) = match operation {
        Operation::Alltoall => (len / (ranks - 1) / 4, len / (ranks - 1) / 4 * ranks),
        Operation::Allgather => (len / 4, len / 4 * ranks),
        _ => (len / 4, len / 4),
    };
    let (mut out, mut into) = (vec![1i32; room], vec![2i32; room]);
    let mut once = |hold: &mut Hold, turn: usize| {
        if fresh {
            out.fill(turn as i32);
        }
        let element = || Element {
            datatype: Datatype::basic_at(index(INT).expect("there are integers")),
            handle: INT,
        };
        let data = |ints: &mut [i32], count| Data {
            address: ints.as_mut_ptr().cast(),
            count,
            element: element(),
        };
        let blocks = |ints: &mut [i32]| Blocks {
            address: ints.as_mut_ptr().cast(),
            places: Places::Regular {
                count: block,
                element: element(),
            },
        };
        let task = match operation {
            Operation::Bcast => Task::Bcast(Root::Rank(0), data(&mut out, block)),
            Operation::Allgather => Task::Allgather(Some(data(&mut out, block)), blocks(&mut into)),
            Operation::Alltoall => Task::Alltoall(Some(blocks(&mut out)), blocks(&mut into)),
            _ => {
                let reduction = Reduction {
                    send: Some(out.as_mut_ptr().cast()),
                    recv: into.as_mut_ptr().cast(),
                    count: block,
                    element: element(),
                    op: hold.ops.builtin(SUM).expect("sums are built in").clone(),
                };
                match operation {
                    Operation::Reduce => Task::Reduce(Root::Rank(0), reduction),
                    _ => Task::Allreduce(reduction),
                }
            }
        };
        perform(hold, &comm, task).expect("ranks of this process");
        barrier(hold, &comm).expect("ranks of this process");
    };
    once(&mut hold, 0);
    let begin = clock::nanoseconds();
    (1..3).for_each(|turn| once(&mut hold, turn));
    let mut turns = [(SLICE / 2 / ((clock::nanoseconds() - begin) / 2).max(1)).clamp(2, 100)];
    allreduce_u64(&mut hold, &comm, &mut turns, u64::max).expect("ranks of this process");
    let mut best = u64::MAX;
    for turn in 0..turns[0] {
        let begin = clock::nanoseconds();
        once(&mut hold, turn as usize);
        best = best.min(clock::nanoseconds() - begin);
    }
    best as f64 * 1e-3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(shown: [f64; 5], offered: [f64; 5], messages: [f64; 5]) -> Costs {
        let all = [(Way::Shown, shown), (Way::Offered, offered), (Way::Tree, messages)];
        all.map(|(way, costs)| (way, costs.map(|cost| [cost; 2]).into())).into()
    }

    fn usual() -> Rule {
        let settings = Settings::read(|_| None).unwrap();
        Case::new(&settings, None, 2).rule(Operation::Bcast)
    }

    #[test]
    fn bounds_stand_where_the_curves_cross() {
        let costs = costs(
            [1.0, 4.0, 16.0, 64.0, 256.0],
            [2.0, 5.0, 15.0, 30.0, 99.0],
            [9.0, 9.0, 20.0, 40.0, 50.0],
        );
        let steps = choose(&costs, &usual()).unwrap();
        let words: Vec<String> = steps.iter().map(Step::to_string).collect();
        assert_eq!(words, ["shown<=64K", "offered<=1M", "tree"]);
        let [shown, messages] = [costs[0].1.clone(), costs[2].1.clone()];
        let other = vec![
            (Way::Shown, shown),
            (Way::Offered, messages),
            (Way::Tree, costs[1].1.clone()),
        ];
        let steps = choose(&other, &usual()).unwrap();
        let words: Vec<String> = steps.iter().map(Step::to_string).collect();
        assert_eq!(words, ["shown<=64K", "tree<=1M", "offered"]);
    }

    #[test]
    fn what_is_hardly_better_is_left_alone() {
        assert_eq!(usual().to_string(), "bcast@2 roomy: shown<=8K learnt<=64K tree");
        let same = [1.0; 5];
        assert_eq!(choose(&costs(same, same, same), &usual()), None);
        let short = [1.0, 1.0, 1.0, 9.0, 9.0];
        assert_eq!(choose(&costs(short, [0.97; 5], same), &usual()), None);
        let steps = choose(&costs([9.0; 5], [0.5; 5], same), &usual()).unwrap();
        assert_eq!(
            steps,
            [Step {
                way: Way::Offered,
                most: usize::MAX
            }]
        );
    }

    #[test]
    fn two_threads_can_be_measured() {
        let rules = measure(&[0, 1]).unwrap();
        let settings = Settings::read(|name| (name == "NEARMPI_COLLECTIVES").then(|| rules.clone())).unwrap();
        assert!(settings.collectives.rules.iter().all(|rule| rule.ranks == (2, 2)));
    }
}
