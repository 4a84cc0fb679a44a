//! The short ways of operations, and blocking ones by them, for bytes that lie in rows and, but for reductions, take one turn of the boards: no task is made.
//! [`started_short`](super::board::started_short) has nonblocking ones.
//! `None` where an operation is not for them; then nothing is done, and the long way ([`call`](super::call)) is to do it. What others see is the same, so
//! each rank may go either way.

use super::args::{Reduction, reduction_signature};
use super::board::reductions::Elements;
use super::board::rows::{self, Rows};
use super::board::{Boards, Where, moves};
use super::call::{self, bcast_signature};
use super::signature::{Call, Signature};
use crate::mpi::comm::Comm;
use crate::mpi::error::Result;
use crate::mpi::pt2pt::engine::CAREFUL;
use crate::mpi::world::Hold;
use std::cell::OnceCell;
use std::rc::Rc;

/// Who takes part.
pub enum Members<'a> {
    /// This rank alone.
    One,
    /// Those who have boards.
    Boards(&'a Rc<Boards>),
}

/// The members of `comm`, if its `boards`, of one kind of operations, are open, or there is one, and nothing needs a longer look: no dead rank,
/// no check, no profile.
#[inline(always)]
pub fn members<'a>(hold: &Hold, comm: &Comm, boards: &'a OnceCell<Option<Rc<Boards>>>) -> Option<Members<'a>> {
    let engine = &hold.engine;
    if engine.detours & CAREFUL != 0 || engine.events != 0 || engine.channel.meter().is_some() {
        return None;
    }
    match boards.get() {
        Some(boards) => boards.as_ref().map(Members::Boards),
        None => (comm.size() == 1 && !comm.is_inter()).then_some(Members::One),
    }
}

/// `outcome` of an operation by boards.
#[inline(always)]
fn over(hold: &mut Hold, comm: &Comm, boards: &Boards, outcome: Result<()>) -> Option<Result<()>> {
    let outcome = outcome.and_then(|()| boards.take_back(hold, comm));
    Some(outcome.inspect_err(|_| boards.give_up(hold, comm)))
}

/// Operations as they are called: done when they return, or begun.
pub trait Way {
    /// What there is when they return.
    type Outcome;

    /// `MPI_Barrier`.
    fn barrier(hold: &mut Hold, comm: &Rc<Comm>) -> Option<Result<Self::Outcome>>;

    /// `MPI_Bcast` of the bytes of a row, of which there are some.
    fn bcast(hold: &mut Hold, comm: &Rc<Comm>, root: u32, row: (*mut u8, usize)) -> Option<Result<Self::Outcome>>;

    /// `MPI_Gather` of blocks of `len` bytes, more than 0; only the root has a row to receive them in.
    fn gather(hold: &mut Hold, comm: &Rc<Comm>, root: u32, rows: Rows, len: usize) -> Option<Result<Self::Outcome>>;

    /// `MPI_Scatter` of blocks of `len` bytes, more than 0; only the root has a row of them to send.
    fn scatter(hold: &mut Hold, comm: &Rc<Comm>, root: u32, rows: Rows, len: usize) -> Option<Result<Self::Outcome>>;

    /// `MPI_Allgather` of blocks of `len` bytes, more than 0.
    fn allgather(hold: &mut Hold, comm: &Rc<Comm>, rows: Rows, len: usize) -> Option<Result<Self::Outcome>>;

    /// `MPI_Alltoall` of blocks of `len` bytes, more than 0.
    fn alltoall(hold: &mut Hold, comm: &Rc<Comm>, rows: Rows, len: usize) -> Option<Result<Self::Outcome>>;

    /// `MPI_Allreduce` by an operation of MPI, of some elements.
    fn allreduce(hold: &mut Hold, comm: &Rc<Comm>, reduction: &Reduction) -> Option<Result<Self::Outcome>>;

    /// `MPI_Reduce`, as [`Way::allreduce`].
    fn reduce(hold: &mut Hold, comm: &Rc<Comm>, root: u32, reduction: &Reduction) -> Option<Result<Self::Outcome>>;

    /// `MPI_Scan`, as [`Way::allreduce`].
    fn scan(hold: &mut Hold, comm: &Rc<Comm>, reduction: &Reduction) -> Option<Result<Self::Outcome>>;
}

/// Blocking operations.
pub struct Blocking;

impl Way for Blocking {
    type Outcome = ();

    #[inline]
    fn barrier(hold: &mut Hold, comm: &Rc<Comm>) -> Option<Result<()>> {
        let Members::Boards(boards) = members(hold, comm, &comm.boards)? else {
            return Some(Ok(()));
        };
        let at = Where::new(comm, boards, Signature::of(Call::Barrier), boards.table.near);
        Some(moves::barrier(hold, at).inspect_err(|_| boards.give_up(hold, comm)))
    }

    #[inline]
    fn bcast(hold: &mut Hold, comm: &Rc<Comm>, root: u32, row: (*mut u8, usize)) -> Option<Result<()>> {
        let Members::Boards(boards) = members(hold, comm, &comm.boards)? else {
            return Some(Ok(()));
        };
        let near = boards.table.least;
        if row.1 > near.min(boards.table.bcast.shown) {
            return None;
        }
        if comm.rank == root && boards.may_lend(hold, row.0, row.1) {
            return None;
        }
        let at = Where::new(comm, boards, bcast_signature(root, row.1), near);
        let outcome = rows::bcast(hold, at, root, row);
        over(hold, comm, boards, outcome)
    }

    #[inline]
    fn gather(hold: &mut Hold, comm: &Rc<Comm>, root: u32, rows: Rows, len: usize) -> Option<Result<()>> {
        moved(hold, comm, (rows, len), |hold, boards| {
            let table = &boards.table;
            if len > table.least.min(table.gather.shown) || table.gather.sends(len) {
                return None;
            }
            let at = Where::new(comm, boards, rooted(Call::Gather, root), table.least);
            Some(rows::gather(hold, at, root, rows, len))
        })
    }

    #[inline]
    fn scatter(hold: &mut Hold, comm: &Rc<Comm>, root: u32, rows: Rows, len: usize) -> Option<Result<()>> {
        moved(hold, comm, (rows, len), |hold, boards| {
            let (table, all) = (&boards.table, len.checked_mul(comm.size() as usize)?);
            if all > table.near || all - len > table.scatter.shown {
                return None;
            }
            if comm.rank == root && boards.may_lend(hold, rows.0, all) {
                return None;
            }
            let at = Where::new(comm, boards, rooted(Call::Scatter, root), table.near);
            Some(rows::scatter(hold, at, root, rows, len))
        })
    }

    #[inline]
    fn allgather(hold: &mut Hold, comm: &Rc<Comm>, rows: Rows, len: usize) -> Option<Result<()>> {
        moved(hold, comm, (rows, len), |hold, boards| {
            let table = &boards.table;
            if len > table.wide.min(table.allgather.shown) || boards.may_lend(hold, rows.0, len) {
                return None;
            }
            let at = Where::new(comm, boards, Signature::of(Call::Allgather), table.wide);
            Some(rows::allgather(hold, at, rows, len))
        })
    }

    #[inline]
    fn alltoall(hold: &mut Hold, comm: &Rc<Comm>, rows: Rows, len: usize) -> Option<Result<()>> {
        moved(hold, comm, (rows, len), |hold, boards| {
            let (table, all) = (&boards.table, len.checked_mul(comm.size() as usize)?);
            if all > table.wide || all - len > table.alltoall.shown || boards.may_lend(hold, rows.0, all) {
                return None;
            }
            let at = Where::new(comm, boards, Signature::of(Call::Alltoall), table.wide);
            Some(rows::alltoall(hold, at, rows, len))
        })
    }

    #[inline]
    fn allreduce(hold: &mut Hold, comm: &Rc<Comm>, reduction: &Reduction) -> Option<Result<()>> {
        let signature = reduction_signature(Call::Allreduce, reduction);
        reduced(hold, comm, signature, reduction, call::allreduce)
    }

    #[inline]
    fn reduce(hold: &mut Hold, comm: &Rc<Comm>, root: u32, reduction: &Reduction) -> Option<Result<()>> {
        let signature = reduction_signature(Call::Reduce, reduction).with(root.into());
        reduced(hold, comm, signature, reduction, |hold, at, elements| {
            call::reduce(hold, at, root, elements)
        })
    }

    #[inline]
    fn scan(hold: &mut Hold, comm: &Rc<Comm>, reduction: &Reduction) -> Option<Result<()>> {
        let signature = reduction_signature(Call::Scan, reduction);
        reduced(hold, comm, signature, reduction, |hold, at, elements| {
            call::scan(hold, at, elements, false)
        })
    }
}

/// What the only member copies: its operand to the result, unless it is there.
#[inline(always)]
pub fn own(reduction: &Reduction, elements: &Elements) -> (Rows, usize) {
    let send = reduction.send.unwrap_or(reduction.recv).cast_const();
    let len = if reduction.send.is_some() { elements.size() } else { 0 };
    ((send, reduction.recv), len)
}

/// A reduction by boards as `by_boards` does it.
#[inline(always)]
fn reduced(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    signature: Signature,
    reduction: &Reduction,
    by_boards: impl FnOnce(&mut Hold, Where, &Elements) -> Option<Result<()>>,
) -> Option<Result<()>> {
    let elements = Elements::of(reduction)?;
    moved(hold, comm, own(reduction, &elements), |hold, boards| {
        let at = Where::new(comm, boards, signature, boards.table.near);
        by_boards(hold, at, &elements)
    })
}

/// What an operation with a root says of itself.
#[inline]
pub fn rooted(call: Call, root: u32) -> Signature {
    Signature::of(call).with(root.into())
}

/// Does an operation as `by_boards` does it; the only member copies its `len` bytes for itself.
#[inline(always)]
fn moved(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    (rows, len): (Rows, usize),
    by_boards: impl FnOnce(&mut Hold, &Rc<Boards>) -> Option<Result<()>>,
) -> Option<Result<()>> {
    let Members::Boards(boards) = members(hold, comm, &comm.boards)? else {
        rows::alone(rows, len);
        return Some(Ok(()));
    };
    let outcome = by_boards(hold, boards)?;
    over(hold, comm, boards, outcome)
}

#[cfg(test)]
mod tests {
    use super::super::args::Root;
    use super::super::call::{Task, perform};
    use super::super::support::{data, job, reduction, regular};
    use super::*;

    /// One block of `ints` integers for each of `ranks`, as rank `from` has them.
    fn mine(from: u32, ranks: u32, ints: usize) -> Vec<i32> {
        (0..ranks as usize * ints)
            .map(|at| from as i32 * 10_000 + at as i32)
            .collect()
    }

    /// Rank `rank` of `ranks` takes part in all operations that have short ways, by them or by the long ones.
    fn take_part(hold: &mut Hold, comm: &Rc<Comm>, ints: usize, root: u32, is_short: bool) {
        let (rank, ranks, len) = (comm.rank, comm.size(), 4 * ints);
        let (is_root, at) = (rank == root, Root::Rank(root));
        let blocks = |from: u32| mine(from, ranks, ints);
        let block = |from: u32, to: u32| blocks(from)[to as usize * ints..][..ints].to_vec();
        let sum = hold.ops.builtin(3).unwrap().clone();
        let mut one = block(rank, 0);
        let mut all = blocks(rank);
        let mut go = |task: Task, short: &mut dyn FnMut(&mut Hold) -> Option<Result<()>>| {
            if let Some(outcome) = is_short.then(|| short(hold)).flatten() {
                return outcome.unwrap();
            }
            assert!(!is_short || ranks > 2, "of two ranks all are short");
            perform(hold, comm, task).unwrap();
        };

        let mut row = if is_root { one.clone() } else { vec![0; ints] };
        let task = Task::Bcast(at, data(&mut row));
        let to = row.as_mut_ptr().cast();
        go(task, &mut |hold| Blocking::bcast(hold, comm, root, (to, len)));
        assert_eq!(row, block(root, 0));

        let mut got = vec![0; ranks as usize * ints];
        let task = Task::Gather(
            at,
            Some(data(&mut one)),
            is_root.then(|| regular(&mut got, ranks)),
            true,
        );
        let both = (one.as_ptr().cast(), got.as_mut_ptr().cast());
        go(task, &mut |hold| Blocking::gather(hold, comm, root, both, len));
        let gathered: Vec<i32> = (0..ranks).flat_map(|from| block(from, 0)).collect();
        assert!(!is_root || got == gathered);

        let task = Task::Scatter(
            at,
            is_root.then(|| regular(&mut all, ranks)),
            Some(data(&mut row)),
            true,
        );
        let both = (all.as_ptr().cast(), row.as_mut_ptr().cast());
        go(task, &mut |hold| Blocking::scatter(hold, comm, root, both, len));
        assert_eq!(row, block(root, rank));

        got.fill(0);
        let task = Task::Allgather(Some(data(&mut one)), regular(&mut got, ranks));
        let both = (one.as_ptr().cast(), got.as_mut_ptr().cast());
        go(task, &mut |hold| Blocking::allgather(hold, comm, both, len));
        assert_eq!(got, gathered);

        let task = Task::Alltoall(Some(regular(&mut all, ranks)), regular(&mut got, ranks));
        let both = (all.as_ptr().cast(), got.as_mut_ptr().cast());
        go(task, &mut |hold| Blocking::alltoall(hold, comm, both, len));
        assert_eq!(got, (0..ranks).flat_map(|from| block(from, rank)).collect::<Vec<_>>());

        let summed = |above: u32| -> Vec<i32> {
            (0..ints)
                .map(|at| (0..above).map(|from| block(from, 0)[at]).sum())
                .collect()
        };
        let made = |one: &mut [i32], row: &mut [i32]| reduction(Some(one), row, ints, sum.clone());
        let again = made(&mut one, &mut row);
        let task = Task::Allreduce(made(&mut one, &mut row));
        go(task, &mut |hold| Blocking::allreduce(hold, comm, &again));
        assert_eq!(row, summed(ranks));

        row.fill(0);
        let task = Task::Reduce(at, made(&mut one, &mut row));
        go(task, &mut |hold| Blocking::reduce(hold, comm, root, &again));
        assert!(!is_root || row == summed(ranks));

        let task = Task::Scan(made(&mut one, &mut row), false);
        go(task, &mut |hold| Blocking::scan(hold, comm, &again));
        assert_eq!(row, summed(rank + 1));
    }

    #[test]
    fn each_rank_goes_the_short_way_or_the_long_one_and_all_get_the_same() {
        for (ranks, cpus) in [(1, 1), (2, 2), (3, 4), (4, 2)] {
            job(ranks, cpus, &[], false, |rank, world| {
                let mut hold = world.hold();
                let comm = hold.world.clone();
                perform(&mut hold, &comm, Task::Barrier(Call::Barrier)).unwrap();
                for who in 0..1u32 << ranks {
                    for ints in [1, 12, 40, 700] {
                        take_part(&mut hold, &comm, ints, who % ranks, who >> rank & 1 == 1);
                    }
                }
                Blocking::barrier(&mut hold, &comm).expect("it is short").unwrap();
            });
        }
    }

    #[test]
    fn what_is_long_or_looked_at_closely_is_left_to_the_long_way() {
        job(2, 2, &[], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let mut room = vec![0u8; 4 << 20];
            let (at, to) = (room.as_ptr(), room.as_mut_ptr().wrapping_add(2 << 20));
            assert!(Blocking::barrier(&mut hold, &comm).is_none(), "its boards are not open");
            perform(&mut hold, &comm, Task::Barrier(Call::Barrier)).unwrap();
            for len in [1 << 20, usize::MAX] {
                assert!(Blocking::bcast(&mut hold, &comm, 0, (to, len)).is_none());
                assert!(Blocking::gather(&mut hold, &comm, 0, (at, to), len).is_none());
                assert!(Blocking::scatter(&mut hold, &comm, 0, (at, to), len).is_none());
                assert!(Blocking::allgather(&mut hold, &comm, (at, to), len).is_none());
                assert!(Blocking::alltoall(&mut hold, &comm, (at, to), len).is_none());
            }
            hold.engine.detours |= CAREFUL;
            assert!(Blocking::barrier(&mut hold, &comm).is_none(), "rank {rank} is checked");
            hold.engine.detours &= !CAREFUL;
        });
    }
}
