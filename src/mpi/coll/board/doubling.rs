//! Barriers and short allreduces of many ranks, each with a CPU, in turns of the boards: in turn k each looks at one rank, 2^k away.
//! The lines that a rank waits for are as many as the logarithm of the ranks, not as the ranks, and nobody reads a line at the
//! same time as somebody else.
//!
//! Whoever has come to the last turn knows that all have come to the first, so all are through with the turns before that.

use super::reductions::Elements;
use super::{Turn, Where};
use crate::mpi::buffer::Buffer;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::shm::board::TRAY;
use std::iter::once;
use std::ptr::null_mut;

/// Most bytes of an allreduce that goes so: of longer trays there are too few for the turns of two calls.
pub const DOUBLED: usize = TRAY;

impl Turn<'_> {
    /// As [`Turn::show`], for `to` alone.
    #[inline]
    fn show_to(&self, hold: &mut Hold, buffer: &Buffer, to: u32) -> Result<()> {
        self.put_buffer(hold, buffer)?;
        let to = self.boards.members[to as usize].world;
        hold.engine.channel.ring_bells(once(to));
        Ok(())
    }

    /// As [`Turn::finish`]; who sleeps until then is woken by a later turn's, which this rank comes to without them.
    #[inline]
    pub(super) fn pass(&self) {
        let board = &self.boards.members[self.boards.me].board;
        board.finish(self.number);
        board.expect(self.number + 1);
    }

    /// Ends the turn number `done` of an operation that has so many.
    #[inline]
    fn end_of(&self, hold: &Hold, done: u32, turns: u32) {
        if done < turns {
            return self.pass();
        }
        self.seen_all_but(u64::from(turns) - 1);
        self.finish(hold);
    }
}

/// In turn k everybody tells the rank 2^k ahead that all it heard of are here. Cost: ceil(log2 p) turns, a line to show and one to
/// look at in each. Source: Hensgen, Finkel, Manber 1988.
///
/// # Errors
/// `Other`: a member is in another call.
pub fn barrier(hold: &mut Hold, at: Where) -> Result<()> {
    let (me, size) = (at.comm.rank, at.comm.size());
    let turns = size.next_power_of_two().ilog2();
    for done in 0..turns {
        let (turn, step) = (at.turn(), 1 << done);
        turn.show_to(hold, &Buffer::bytes(null_mut(), 0), (me + step) % size)?;
        turn.see(hold, (me + size - step) % size, Some(0))?;
        turn.end_of(hold, done + 1, turns);
    }
    Ok(())
}

/// In each turn two ranks exchange what they have so far, of up to [`DOUBLED`] bytes, at distances 1, 2, 4 ..., and both reduce it in
/// the order of ranks: all get the same bits. Of the ranks beyond a power of two each leaves its operand to the rank before
/// it and gets the result in the end. Cost: log2 p turns, with such ranks two more, n bytes to show, read and reduce in each.
///
/// # Errors
/// `Other`: a member is in another call.
pub fn allreduce(hold: &mut Hold, at: Where, elements: &Elements) -> Result<()> {
    let (me, size) = (at.comm.rank, at.comm.size());
    // The first so many pairs of ranks stand for one each: the even one takes part.
    let pairs = size - (1 << size.ilog2());
    let paired = me < 2 * pairs;
    let place = if paired { me / 2 } else { me - pairs };
    let rank_at = |place: u32| if place < pairs { 2 * place } else { place + pairs };
    let (takes_part, mate) = (!paired || me.is_multiple_of(2), me ^ 1);
    // Turns before the first at distance 1.
    let before = u32::from(pairs > 0);
    let turns = size.ilog2() + 2 * before;
    let result = elements.result(0, elements.count);
    let exchange = |hold: &mut Hold, turn: &Turn, with: u32, first: bool| {
        let mine = if first { &elements.operand() } else { &result };
        turn.show_to(hold, mine, with)?;
        turn.count(hold, with, mine.len());
        elements.reduce_two(hold, turn, (me.min(with), me.max(with)))
    };
    for done in 0..turns {
        let turn = at.turn();
        let (leaves, gets) = (done < before, before > 0 && done + 1 == turns);
        match takes_part {
            _ if (leaves || gets) && !paired => {}
            true if leaves => exchange(hold, &turn, mate, true)?,
            false if leaves => turn.show_to(hold, &elements.operand(), mate)?,
            true if gets => turn.show_to(hold, &result, mate)?,
            false if gets => {
                turn.see(hold, mate, Some(result.len()))?.copy(hold, 0, &result)?;
                turn.count(hold, mate, result.len());
            }
            true => {
                let with = rank_at(place ^ 1 << (done - before));
                exchange(hold, &turn, with, done == before && !paired)?;
            }
            false => {}
        }
        turn.end_of(hold, done + 1, turns);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ANY, Step, What, job, take};
    use super::DOUBLED;
    use crate::mpi::coll::args::Reduction;
    use crate::mpi::coll::board;
    use crate::mpi::coll::call::{Task, perform};
    use crate::mpi::coll::machine::Element;
    use crate::mpi::datatype::Datatype;
    use crate::mpi::datatype::basic::index;
    use std::sync::Mutex;

    const DOUBLE: i32 = 0x4c00_080b;
    const MAX: u32 = 1;

    #[test]
    fn any_number_of_ranks_gets_what_all_have() {
        for ranks in 1..=9 {
            job(ranks, 16, &[("NEARMPI_BOARD_DOUBLING", 1)], false, |rank, world| {
                let mut hold = world.hold();
                let comm = hold.world.clone();
                let from = board::of(&hold, &comm).unwrap().table.doubling;
                assert_eq!(from == 0, ranks > 2);
                for seed in 0..60 {
                    if seed % 20 == rank {
                        std::thread::sleep(std::time::Duration::from_millis(1));
                    }
                    let what = match seed % 5 {
                        0 => What::Barrier,
                        1 => What::Bcast,
                        _ => What::Allreduce,
                    };
                    let count = [1, 12, 29, DOUBLED / 4, DOUBLED / 4 + 1][seed as usize / 3 % 5];
                    let step = Step {
                        what,
                        count,
                        seed,
                        root: seed,
                        in_place: seed % 2 == 0,
                        ..ANY
                    };
                    let before = comm.context.next_turn();
                    take(&mut hold, &comm, step);
                    let turns = comm.context.next_turn() - before;
                    let log = u64::from(ranks.ilog2());
                    match what {
                        What::Barrier if ranks > 2 => {
                            assert_eq!(turns, u64::from(ranks.next_power_of_two().ilog2()));
                        }
                        What::Allreduce if ranks > 2 && 4 * count <= DOUBLED => {
                            assert_eq!(turns, log + if ranks.is_power_of_two() { 0 } else { 2 });
                        }
                        _ => {}
                    }
                }
            });
        }
    }

    #[test]
    fn all_ranks_get_the_same_bits() {
        for ranks in [4, 7, 8] {
            let results = Mutex::new(Vec::new());
            job(ranks, 16, &[("NEARMPI_BOARD_DOUBLING", 1)], false, |rank, world| {
                let mut hold = world.hold();
                let comm = hold.world.clone();
                // The greater of these depends on which comes first.
                let mut mine: Vec<f64> = (0..40)
                    .map(|at| if (rank >> (at % 3)) & 1 == 0 { 0.0 } else { -0.0 })
                    .collect();
                let reduction = Reduction {
                    send: None,
                    recv: mine.as_mut_ptr().cast(),
                    count: mine.len(),
                    element: Element {
                        datatype: Datatype::basic_at(index(DOUBLE).unwrap()),
                        handle: DOUBLE,
                    },
                    op: hold.ops.builtin(MAX).unwrap().clone(),
                };
                perform(&mut hold, &comm, Task::Allreduce(reduction)).unwrap();
                let bits: Vec<u64> = mine.iter().map(|value| value.to_bits()).collect();
                results.lock().unwrap().push(bits);
            });
            let results = results.into_inner().unwrap();
            assert_eq!(results.len(), ranks as usize);
            assert!(results.iter().all(|bits| *bits == results[0]), "{ranks} ranks");
        }
    }
}
