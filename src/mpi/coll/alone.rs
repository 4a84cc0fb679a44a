//! Collective operations of a communicator with one member: what it has for itself moves once, and nobody is waited for.

use super::args::Reduction;
use super::call::Task;
use super::machine::copy_own;
use crate::mpi::buffer::Buffer;
use crate::mpi::error::Result;

/// Does `task` for the only member of its communicator; `None` for one that goes as a schedule there too.
///
/// # Errors
/// `Truncate`: the block for itself is longer than the room for it.
pub fn perform(task: &Task) -> Option<Result<()>> {
    let moved = match task {
        Task::Reduce(_, reduction)
        | Task::Allreduce(reduction)
        | Task::ReduceScatter(reduction, _)
        | Task::Scan(reduction, false) => operand(reduction),
        Task::Gather(_, send, Some(recv), _) | Task::Allgather(send, recv) => {
            send.as_ref().map(|send| (send.buffer(), recv.buffer(0)))
        }
        Task::Scatter(_, Some(send), recv, _) => recv.as_ref().map(|recv| (send.buffer(0), recv.buffer())),
        Task::Alltoall(send, recv) => send.as_ref().map(|send| (send.buffer(0), recv.buffer(0))),
        Task::Neighbor(..) => return None,
        _ => None,
    };
    Some(moved.map_or(Ok(()), |(from, to)| copy_own(&from, &to)))
}

/// The operand, and where it becomes the result; `None` in place.
fn operand(reduction: &Reduction) -> Option<(Buffer, Buffer)> {
    let at = |address| Buffer::typed(address, reduction.count, &reduction.element.datatype);
    reduction.send.map(|send| (at(send), at(reduction.recv)))
}

#[cfg(test)]
mod tests {
    use super::super::args::Root;
    use super::super::call::{Task, begin};
    use super::super::support::{data, job, reduction, regular};
    use crate::mpi::pt2pt;

    #[test]
    fn what_the_only_member_starts_is_over_at_once() {
        job(1, 1, &[], false, |_, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let sum = hold.ops.builtin(3).unwrap().clone();
            let (mut mine, mut got) = (vec![3, 1, 4], vec![[0; 3]; 5]);
            let [sums, below, gathered, scattered, exchanged] = &mut got[..] else {
                unreachable!()
            };
            let mut send = || Some(data(&mut mine));
            let gather = Task::Gather(Root::Rank(0), send(), Some(regular(gathered, 1)), true);
            let mut block = mine.clone();
            let tasks = [
                gather,
                Task::Allreduce(reduction(Some(&mut block), sums, 3, sum.clone())),
                Task::Scan(reduction(Some(&mut block), below, 3, sum), true),
                Task::Scatter(Root::Rank(0), Some(regular(&mut block, 1)), Some(data(scattered)), true),
                Task::Alltoall(Some(regular(&mut block, 1)), regular(exchanged, 1)),
            ];
            for task in tasks {
                let key = begin(&mut hold, &comm, task).unwrap();
                assert!(hold.is_over(key));
                pt2pt::wait(&mut hold, key).unwrap();
            }
            assert_eq!(got, [[3, 1, 4], [0; 3], [3, 1, 4], [3, 1, 4], [3, 1, 4]]);
        });
    }
}
