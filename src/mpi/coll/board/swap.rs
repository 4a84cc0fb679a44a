//! Two ranks that show each other something in the same turn do so in memory that they swap: each writes where it has just read
//! what the other one showed. So half as many lines are in use, and none has to be taken from a peer that read it long ago.
//!
//! Nobody waits before it writes: what lies there was for this rank alone, and it is through with it. The first time each
//! writes into its own. Both count the turns in which they swap; after calls that do not match they may count differently, which a
//! reader finds out: the other one wrote where it has written itself.

use super::{Turn, Where};
use crate::mpi::comm::Comm;
use crate::mpi::world::Hold;
use crate::shm::board::{Place, Swap, mark, place_of};
use std::cell::Cell;

/// The members of `comm`, if those are two on CPUs of their own, with `NEARMPI_BOARD_SWAP`.
pub(super) fn swappers(hold: &Hold, comm: &Comm) -> Option<[u32; 2]> {
    let channel = &hold.engine.channel;
    let apart = !channel.segment().oversubscribed() && channel.settings().board_swap != 0;
    comm.group.members[..].try_into().ok().filter(|_| apart)
}

/// What the two members of a communicator swap.
#[derive(Debug)]
pub struct Swaps {
    /// What each brought along.
    at: [Place<Swap>; 2],
    context: u16,
    /// Turns in which they were swapped.
    count: Cell<usize>,
}

impl Swaps {
    /// Those of `comm`, if it has them and is not too late for them.
    pub(super) fn open(hold: &Hold, comm: &Comm) -> Option<Swaps> {
        let [first, second] = swappers(hold, comm)?;
        let (segment, context) = (hold.engine.channel.segment(), comm.context.number());
        let swap = |world| segment.scratch(world).swap(context);
        Some(Swaps {
            at: [swap(first)?, swap(second)?],
            context,
            count: Cell::new(0),
        })
    }
}

impl<'a> Where<'a> {
    /// The next turn, in which every rank shows something and takes what the others show.
    #[inline]
    pub fn exchange(&self) -> Turn<'a> {
        let mut turn = self.turn();
        if let Some(swaps) = &self.boards.swaps {
            let count = swaps.count.get();
            swaps.count.set(count.wrapping_add(1));
            turn.swap = Some((self.boards.me + count) % 2);
        }
        turn
    }
}

impl<'a> Turn<'a> {
    /// Where `rank` shows what is too long for a slot, and its mark, if that is swapped in this turn.
    #[inline]
    pub(super) fn swapped(&self, rank: usize) -> Option<(&'a Swap, u64)> {
        let (swaps, mine) = (self.boards.swaps.as_ref()?, self.swap?);
        let which = if rank == self.boards.me { mine } else { 1 - mine };
        Some((&swaps.at[which], mark(swaps.context, self.number)))
    }

    /// Where this rank shows what it swaps, as its slot says it.
    #[inline]
    pub(super) fn swapped_place(&self) -> Option<u64> {
        let (swaps, mine) = (self.boards.swaps.as_ref()?, self.swap?);
        let scratch = self.boards.members[mine].scratch.address().addr();
        Some(place_of(mine, (swaps.at[mine].payload().addr() - scratch) as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ANY, SUM, Step, What, reduction, take};
    use crate::mpi::coll::args::Reduction;
    use crate::mpi::coll::call::{Task, perform};
    use crate::mpi::coll::{board, support};
    use crate::mpi::error::Class;

    /// Whose memory rank 0 wrote into in each of some exchanges, with other calls between them.
    fn written(ranks: u32, cpus: u32, set: &[(&str, u64)]) -> Vec<Option<usize>> {
        let all = std::sync::Mutex::new(Vec::new());
        support::job(ranks, cpus, set, false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let exchanges = [What::Allreduce, What::Alltoall, What::Allgather, What::ReduceScatter];
            for (seed, what) in exchanges.into_iter().cycle().take(12).enumerate() {
                for (what, count) in [
                    (What::Bcast, 3000),
                    (What::Barrier, 0),
                    (what, [100, 4000, 600][seed % 3]),
                ] {
                    let step = Step {
                        what,
                        count,
                        seed: seed as u32,
                        in_place: seed % 2 == 1,
                        ..ANY
                    };
                    take(&mut hold, &comm, step);
                }
                if rank == 0 {
                    let boards = board::of(&hold, &comm).unwrap();
                    let turn = boards.before + comm.context.next_turn();
                    all.lock().unwrap().push(boards.members[0].board.slot(turn).place().1);
                }
            }
        });
        all.into_inner().unwrap()
    }

    #[test]
    fn each_of_two_ranks_writes_where_it_has_read_last() {
        let expected: Vec<_> = (0..12).map(|count| Some(count % 2)).collect();
        assert_eq!(written(2, 2, &[]), expected);
    }

    #[test]
    fn others_keep_to_their_own_memory() {
        assert_eq!(written(2, 2, &[("NEARMPI_BOARD_SWAP", 0)]), [None; 12]);
        assert_eq!(written(2, 1, &[]), [None; 12]);
        assert_eq!(written(3, 3, &[]), [None; 12]);
    }

    #[test]
    fn ranks_that_have_counted_differently_are_told() {
        support::job(2, 2, &[], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            board::of(&hold, &comm)
                .unwrap()
                .swaps
                .as_ref()
                .unwrap()
                .count
                .set(rank as usize);
            let (mut mine, mut sum) = (vec![rank as i32; 1000], vec![0; 1000]);
            let task: Reduction = reduction(&hold, SUM, Some(&mut mine), &mut sum, 1000);
            let error = perform(&mut hold, &comm, Task::Allreduce(task)).unwrap_err();
            assert_eq!(error.class(), Class::Other);
            assert!(error.to_string().contains("same collective operations"), "{error}");
        });
    }
}
