//! The short ways of operations, and blocking ones by them, for bytes that lie in rows and, but for reductions, take one turn of the boards: no task is made.
//! [`started_short`](super::board::started_short) has nonblocking ones.
//! `None` where an operation is not for them; then nothing is done, and the long way ([`call`](super::call)) is to do it. What others see is the same, so
//! each rank may go either way.

use super::args::{Reduction, blocks_of, reduction_signature};
use super::board::reductions::{Elements, Part};
use super::board::rows::{self, Row, Rows};
use super::board::{Boards, Where, moves};
use super::call::{self, bcast_signature};
use super::presented;
use super::signature::{Call, Signature};
use crate::mpi::buffer::Buffer;
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

/// Whether nothing needs a longer look: no dead rank, no check, no profile.
#[inline(always)]
pub fn is_usual(hold: &Hold) -> bool {
    let engine = &hold.engine;
    engine.detours & CAREFUL == 0 && engine.events == 0 && engine.channel.meter().is_none()
}

/// The members of `comm`, if its `boards`, of one kind of operations, are open, or there is one, and nothing needs a longer look.
#[inline(always)]
pub fn members<'a>(hold: &Hold, comm: &Comm, boards: &'a OnceCell<Option<Rc<Boards>>>) -> Option<Members<'a>> {
    if !is_usual(hold) {
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

    /// An operation that moves nothing, as all members know: nobody waits for anybody.
    fn idle(hold: &mut Hold, comm: &Rc<Comm>) -> Option<Result<Self::Outcome>>;

    /// `MPI_Barrier`.
    fn barrier(hold: &mut Hold, comm: &Rc<Comm>) -> Option<Result<Self::Outcome>>;

    /// `MPI_Bcast` of the bytes of a row, of which there are some.
    fn bcast(hold: &mut Hold, comm: &Rc<Comm>, root: u32, row: Row) -> Option<Result<Self::Outcome>>;

    /// `MPI_Gather` and `MPI_Gatherv` of each rank's `own` row `to` rows, which only the root has. Even rows have some bytes, here and
    /// below.
    fn gather(
        hold: &mut Hold,
        comm: &Rc<Comm>,
        root: u32,
        own: Row,
        to: Option<impl Rows>,
    ) -> Option<Result<Self::Outcome>>;

    /// `MPI_Scatter` and `MPI_Scatterv` of rows `from` which, of the root alone, each rank gets its `own`.
    fn scatter(
        hold: &mut Hold,
        comm: &Rc<Comm>,
        root: u32,
        from: Option<impl Rows>,
        own: Row,
    ) -> Option<Result<Self::Outcome>>;

    /// `MPI_Allgather` and `MPI_Allgatherv` of each rank's `own` row `to` rows, some of which have bytes.
    fn allgather(hold: &mut Hold, comm: &Rc<Comm>, own: Row, to: impl Rows) -> Option<Result<Self::Outcome>>;

    /// `MPI_Alltoall` and its kin; `from` is `None` in place.
    fn alltoall<R: Rows>(hold: &mut Hold, comm: &Rc<Comm>, from: Option<R>, to: R) -> Option<Result<Self::Outcome>>;

    /// `MPI_Allreduce` by an operation of MPI, of some elements.
    fn allreduce(hold: &mut Hold, comm: &Rc<Comm>, reduction: &Reduction) -> Option<Result<Self::Outcome>>;

    /// `MPI_Reduce`, as [`Way::allreduce`].
    fn reduce(hold: &mut Hold, comm: &Rc<Comm>, root: u32, reduction: &Reduction) -> Option<Result<Self::Outcome>>;

    /// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`, as [`Way::allreduce`], of which each rank gets its `block`.
    fn reduce_scatter(
        hold: &mut Hold,
        comm: &Rc<Comm>,
        reduction: &Reduction,
        block: impl Fn(u32) -> Part,
    ) -> Option<Result<Self::Outcome>>;

    /// `MPI_Scan`, or `MPI_Exscan` if `exclusive`, as [`Way::allreduce`].
    fn scan(hold: &mut Hold, comm: &Rc<Comm>, reduction: &Reduction, exclusive: bool) -> Option<Result<Self::Outcome>>;
}

/// Blocking operations.
pub struct Blocking;

impl Way for Blocking {
    type Outcome = ();

    #[inline]
    fn idle(hold: &mut Hold, comm: &Rc<Comm>) -> Option<Result<()>> {
        members(hold, comm, &comm.boards).map(|_| Ok(()))
    }

    #[inline]
    fn barrier(hold: &mut Hold, comm: &Rc<Comm>) -> Option<Result<()>> {
        let Members::Boards(boards) = members(hold, comm, &comm.boards)? else {
            return Some(Ok(()));
        };
        let at = Where::new(comm, boards, Signature::of(Call::Barrier), boards.table.near);
        Some(moves::barrier(hold, at).inspect_err(|_| boards.give_up(hold, comm)))
    }

    #[inline]
    fn bcast(hold: &mut Hold, comm: &Rc<Comm>, root: u32, row: Row) -> Option<Result<()>> {
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
    fn gather(hold: &mut Hold, comm: &Rc<Comm>, root: u32, own: Row, to: Option<impl Rows>) -> Option<Result<()>> {
        let mine = to.map_or(own.0, |to| to.of(root).0);
        moved(hold, comm, (own, mine), |hold, boards| {
            let (table, signature) = (&boards.table, rooted(Call::Gather, root));
            let Some(len) = agreed(comm, own, to) else {
                let at = Where::new(comm, boards, signature, table.near);
                let own = (comm.rank != root || own.0 != mine).then(|| buffer(own));
                let block = to.map(|to| move |rank| buffer(to.of(rank)));
                return presented::gather(hold, at, root, None, own.as_ref(), blocks_of(&block));
            };
            if len > table.least.min(table.gather.shown) || table.gather.sends(len) {
                return None;
            }
            let at = Where::new(comm, boards, signature, table.least);
            Some(rows::gather(hold, at, root, own, to))
        })
    }

    #[inline]
    fn scatter(hold: &mut Hold, comm: &Rc<Comm>, root: u32, from: Option<impl Rows>, own: Row) -> Option<Result<()>> {
        let mine = from.map_or(own, |from| from.of(root));
        moved(hold, comm, (mine, own.0), |hold, boards| {
            let (table, signature) = (&boards.table, rooted(Call::Scatter, root));
            let Some(len) = agreed(comm, own, from) else {
                let at = Where::new(comm, boards, signature, table.near);
                let own = (comm.rank != root || own.0 != mine.0).then(|| buffer(own));
                let block = from.map(|from| move |rank| buffer(from.of(rank)));
                return presented::scatter(hold, at, root, None, blocks_of(&block), own.as_ref());
            };
            let all = len.checked_mul(comm.size() as usize)?;
            if all > table.near || all - len > table.scatter.shown {
                return None;
            }
            if from.is_some_and(|from| boards.may_lend(hold, from.of(0).0, all)) {
                return None;
            }
            let at = Where::new(comm, boards, signature, table.near);
            Some(rows::scatter(hold, at, root, from, own))
        })
    }

    #[inline]
    fn allgather(hold: &mut Hold, comm: &Rc<Comm>, own: Row, to: impl Rows) -> Option<Result<()>> {
        moved(hold, comm, (own, to.of(comm.rank).0), |hold, boards| {
            let table = &boards.table;
            if to.longest(comm.size()) > table.wide.min(table.allgather.shown) || boards.may_lend(hold, own.0, own.1) {
                return None;
            }
            let at = Where::new(comm, boards, Signature::of(Call::Allgather), table.wide);
            Some(rows::allgather(hold, at, own, to))
        })
    }

    #[inline]
    fn alltoall<R: Rows>(hold: &mut Hold, comm: &Rc<Comm>, send: Option<R>, to: R) -> Option<Result<()>> {
        let (me, from) = (comm.rank, send.unwrap_or(to));
        moved(hold, comm, (from.of(me), to.of(me).0), |hold, boards| {
            let (table, signature) = (&boards.table, Signature::of(Call::Alltoall));
            let Some(len) = exchanged(comm, from, to) else {
                let at = Where::new(comm, boards, signature, table.near);
                let block = send.map(|from| move |rank| buffer(from.of(rank)));
                return presented::alltoall(hold, at, None, blocks_of(&block), &|rank| buffer(to.of(rank)));
            };
            let all = len.checked_mul(comm.size() as usize)?;
            if all > table.wide || all - len > table.alltoall.shown || boards.may_lend(hold, from.of(0).0, all) {
                return None;
            }
            let at = Where::new(comm, boards, signature, table.wide);
            Some(rows::alltoall(hold, at, from, to))
        })
    }

    #[inline]
    fn allreduce(hold: &mut Hold, comm: &Rc<Comm>, reduction: &Reduction) -> Option<Result<()>> {
        let what = named(Call::Allreduce, reduction);
        reduced(hold, comm, what, reduction, call::allreduce)
    }

    #[inline]
    fn reduce(hold: &mut Hold, comm: &Rc<Comm>, root: u32, reduction: &Reduction) -> Option<Result<()>> {
        let (call, signature) = named(Call::Reduce, reduction);
        let what = (call, signature.with(root.into()));
        reduced(hold, comm, what, reduction, |hold, at, elements| {
            call::reduce(hold, at, root, elements)
        })
    }

    #[inline]
    fn reduce_scatter(
        hold: &mut Hold,
        comm: &Rc<Comm>,
        reduction: &Reduction,
        block: impl Fn(u32) -> Part,
    ) -> Option<Result<()>> {
        let what = named(Call::ReduceScatter, reduction);
        reduced(hold, comm, what, reduction, |hold, at, elements| {
            call::reduce_scatter(hold, at, elements, block)
        })
    }

    #[inline]
    fn scan(hold: &mut Hold, comm: &Rc<Comm>, reduction: &Reduction, exclusive: bool) -> Option<Result<()>> {
        let what = named(if exclusive { Call::Exscan } else { Call::Scan }, reduction);
        reduced(hold, comm, what, reduction, |hold, at, elements| {
            call::scan(hold, at, elements, exclusive)
        })
    }
}

/// Bytes of the block of a gather or scatter that goes from or to each rank but the root, which has `rows`: of even ones, and of the only
/// one there is of two ranks, all ranks know it. `None` for all others.
#[inline(always)]
pub fn agreed<R: Rows>(comm: &Comm, own: Row, rows: Option<R>) -> Option<usize> {
    match rows {
        _ if R::EVEN => Some(own.1),
        _ if comm.size() != 2 => None,
        Some(rows) => Some(rows.of(1 - comm.rank).1),
        None => Some(own.1),
    }
}

/// Bytes of the longest block that goes from one rank to another in an alltoall, as far as [`agreed`].
#[inline(always)]
pub fn exchanged<R: Rows>(comm: &Comm, from: R, to: R) -> Option<usize> {
    let len = |rows: R| rows.of(1 - comm.rank).1;
    match R::EVEN {
        true => Some(to.of(0).1),
        false => (comm.size() == 2).then(|| len(from).max(len(to))),
    }
}

/// A row as a message.
#[inline(always)]
fn buffer((first, len): Row) -> Buffer {
    Buffer::bytes(first, len)
}

/// The operand of the only member, and where it goes; it stays where it lies in place, and in an exclusive scan.
#[inline(always)]
pub fn own(call: Call, reduction: &Reduction, elements: &Elements) -> (Row, *mut u8) {
    let send = reduction.send.unwrap_or(reduction.recv);
    let to = if call == Call::Exscan { send } else { reduction.recv };
    ((send, elements.size()), to)
}

/// A reduction, and what it says of itself.
#[inline(always)]
pub fn named(call: Call, reduction: &Reduction) -> (Call, Signature) {
    (call, reduction_signature(call, reduction))
}

/// A reduction by boards as `by_boards` does it.
#[inline(always)]
fn reduced(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    (call, signature): (Call, Signature),
    reduction: &Reduction,
    by_boards: impl FnOnce(&mut Hold, Where, &Elements) -> Option<Result<()>>,
) -> Option<Result<()>> {
    let elements = Elements::of(reduction)?;
    moved(hold, comm, own(call, reduction, &elements), |hold, boards| {
        let at = Where::new(comm, boards, signature, boards.table.near);
        by_boards(hold, at, &elements)
    })
}

/// What an operation with a root says of itself.
#[inline]
pub fn rooted(call: Call, root: u32) -> Signature {
    Signature::of(call).with(root.into())
}

/// Does an operation as `by_boards` does it; the only member copies what it has for itself.
#[inline(always)]
fn moved(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    (own, to): (Row, *mut u8),
    by_boards: impl FnOnce(&mut Hold, &Rc<Boards>) -> Option<Result<()>>,
) -> Option<Result<()>> {
    let Members::Boards(boards) = members(hold, comm, &comm.boards)? else {
        rows::keep(own, to);
        return Some(Ok(()));
    };
    let outcome = by_boards(hold, boards)?;
    over(hold, comm, boards, outcome)
}

#[cfg(test)]
mod tests {
    use super::super::args::Root;
    use super::super::board::rows::Even;
    use super::super::call::{Task, perform};
    use super::super::support::{data, job, reduction, regular, room, short, starts, varying};
    use super::*;

    /// One block of `ints` integers for each of `ranks`, as rank `from` has them.
    fn mine(from: u32, ranks: u32, ints: usize) -> Vec<i32> {
        (0..ranks as usize * ints)
            .map(|at| from as i32 * 10_000 + at as i32)
            .collect()
    }

    /// Does `task` by its short way if `is_short` and it has one; it may have `none`.
    fn go(hold: &mut Hold, comm: &Rc<Comm>, task: Task, is_short: bool, none: bool) {
        let outcome = is_short.then(|| short::<Blocking>(hold, comm, &task)).flatten();
        match outcome {
            Some(outcome) => outcome.unwrap(),
            None => {
                assert!(!is_short || none, "it has a short way");
                perform(hold, comm, task).unwrap();
            }
        }
    }

    /// Rank `rank` of `ranks` takes part in all operations on even blocks that have short ways, by them or by the long ones.
    fn take_part(hold: &mut Hold, comm: &Rc<Comm>, ints: usize, root: u32, is_short: bool) {
        let (rank, ranks) = (comm.rank, comm.size());
        let (is_root, at) = (rank == root, Root::Rank(root));
        let blocks = |from: u32| mine(from, ranks, ints);
        let block = |from: u32, to: u32| blocks(from)[to as usize * ints..][..ints].to_vec();
        let sum = hold.ops.builtin(3).unwrap().clone();
        let mut one = block(rank, 0);
        let mut all = blocks(rank);
        // Some are too long to be shown to more than one.
        let mut go = |task: Task| go(hold, comm, task, is_short, ranks > 2);

        let mut row = if is_root { one.clone() } else { vec![0; ints] };
        go(Task::Bcast(at, data(&mut row)));
        assert_eq!(row, block(root, 0));

        let gathered: Vec<i32> = (0..ranks).flat_map(|from| block(from, 0)).collect();
        for in_place in [false, true] {
            let mut got = vec![0; ranks as usize * ints];
            if in_place {
                got[rank as usize * ints..][..ints].copy_from_slice(&one);
            }
            let mut again = got.clone();
            let send = (!in_place).then(|| data(&mut one));
            go(Task::Allgather(send, regular(&mut got, ranks)));
            assert_eq!(got, gathered);
            let send = (!in_place || !is_root).then(|| data(&mut one));
            let recv = is_root.then(|| regular(&mut again, ranks));
            go(Task::Gather(at, send, recv, true));
            assert!(!is_root || again == gathered);

            row.fill(0);
            let recv = (!in_place || !is_root).then(|| data(&mut row));
            go(Task::Scatter(at, is_root.then(|| regular(&mut all, ranks)), recv, true));
            assert!(row == block(root, rank) || in_place && is_root);

            let mut got = if in_place { all.clone() } else { vec![0; all.len()] };
            let send = (!in_place).then(|| regular(&mut all, ranks));
            go(Task::Alltoall(send, regular(&mut got, ranks)));
            assert_eq!(got, (0..ranks).flat_map(|from| block(from, rank)).collect::<Vec<_>>());
        }

        let summed = |above: u32| -> Vec<i32> {
            (0..ints)
                .map(|at| (0..above).map(|from| block(from, 0)[at]).sum())
                .collect()
        };
        let made = |one: &mut [i32], row: &mut [i32]| reduction(Some(one), row, ints, sum.clone());
        go(Task::Allreduce(made(&mut one, &mut row)));
        assert_eq!(row, summed(ranks));

        row.fill(0);
        go(Task::Reduce(at, made(&mut one, &mut row)));
        assert!(!is_root || row == summed(ranks));

        go(Task::Scan(made(&mut one, &mut row), false));
        assert_eq!(row, summed(rank + 1));

        row.fill(0);
        go(Task::Scan(made(&mut one, &mut row), true));
        assert_eq!(row, summed(rank));
    }

    /// As [`take_part`], in operations on blocks of different lengths; some have none.
    fn take_uneven_part(hold: &mut Hold, comm: &Rc<Comm>, ints: usize, root: u32, is_short: bool) {
        let (rank, ranks) = (comm.rank, comm.size());
        let (is_root, at, me) = (rank == root, Root::Rank(root), rank as usize);
        let sum = hold.ops.builtin(3).unwrap().clone();
        let mut go = |task: Task| go(hold, comm, task, is_short, ints > 700);
        let value = |from: u32, to: u32, at: usize| (from * 100 + to * 10) as i32 + 1000 * at as i32;
        let lens: Vec<usize> = (0..ranks as usize)
            .map(|of| [ints + 1, 0, ints, 2][(of + ints) % 4])
            .collect();
        let places = starts(&lens);
        let row = |from: u32, to: u32, len: usize| (0..len).map(|at| value(from, to, at)).collect::<Vec<_>>();
        // What `of` has, or one for it.
        let check = |all: &[i32], row: &dyn Fn(u32) -> Vec<i32>, what: &str| {
            for of in 0..ranks {
                let (first, expected) = (places[of as usize], row(of));
                assert_eq!(all[first..][..expected.len()], expected, "{what} of {of}");
                assert_eq!(all[first + expected.len()], -1, "{what}: behind {of}");
            }
        };
        let fill = |all: &mut [i32], of: u32, row: &[i32]| all[places[of as usize]..][..row.len()].copy_from_slice(row);

        let mut own = row(rank, 0, lens[me]);
        for in_place in [false, true] {
            let mut all = vec![-1; room(&lens)];
            if in_place {
                fill(&mut all, rank, &own);
            }
            let mut again = all.clone();
            if lens.iter().any(|&len| len > 0) {
                let send = (!in_place).then(|| data(&mut own));
                go(Task::Allgather(send, varying(&mut all, &lens)));
                check(&all, &|from| row(from, 0, lens[from as usize]), "allgatherv");
            }
            let send = (!in_place || !is_root).then(|| data(&mut own));
            let recv = is_root.then(|| varying(&mut again, &lens));
            go(Task::Gather(at, send, recv, false));
            if is_root {
                check(&again, &|from| row(from, 0, lens[from as usize]), "gatherv");
            }
        }

        let mut all = vec![-1; room(&lens)];
        (0..ranks).for_each(|to| fill(&mut all, to, &row(root, to, lens[to as usize])));
        let mut got = vec![-1; lens[me]];
        let send = is_root.then(|| varying(&mut all, &lens));
        go(Task::Scatter(at, send, Some(data(&mut got)), false));
        assert_eq!(got, row(root, rank, lens[me]));

        // Everybody sends as much to a rank as that one has of its own.
        let from_all = vec![lens[me]; ranks as usize];
        let mut sent = vec![-1; room(&lens)];
        (0..ranks).for_each(|to| fill(&mut sent, to, &row(rank, to, lens[to as usize])));
        let mut got = vec![-1; room(&from_all)];
        let task = Task::Alltoall(Some(varying(&mut sent, &lens)), varying(&mut got, &from_all));
        go(task);
        for from in 0..ranks {
            let first = starts(&from_all)[from as usize];
            assert_eq!(
                got[first..][..lens[me]],
                row(from, rank, lens[me]),
                "alltoallv from {from}"
            );
        }

        let total = lens.iter().sum();
        let mut operand = row(rank, 0, total);
        let mut got = vec![0; total];
        if total > 0 {
            let reduction = reduction(Some(&mut operand), &mut got, total, sum);
            go(Task::ReduceScatter(reduction, lens.clone()));
            let first: usize = lens[..me].iter().sum();
            let expected = (first..first + lens[me]).map(|at| (0..ranks).map(|from| value(from, 0, at)).sum());
            assert_eq!(got[..lens[me]], expected.collect::<Vec<i32>>(), "reduce_scatter");
        }
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
                        let (root, is_short) = (who % ranks, who >> rank & 1 == 1);
                        take_part(&mut hold, &comm, ints, root, is_short);
                        take_uneven_part(&mut hold, &comm, ints, root, is_short);
                    }
                    // Some are too long to be shown.
                    take_uneven_part(&mut hold, &comm, 20_000, who % ranks, who >> rank & 1 == 1);
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
            let mut ints = vec![0u8; 4 << 20];
            let (at, to) = (ints.as_mut_ptr(), ints.as_mut_ptr().wrapping_add(2 << 20));
            assert!(Blocking::barrier(&mut hold, &comm).is_none(), "its boards are not open");
            perform(&mut hold, &comm, Task::Barrier(Call::Barrier)).unwrap();
            for len in [1 << 20, usize::MAX] {
                let (own, rows) = ((at, len), Even { first: to, len });
                let at_root = (rank == 0).then_some(rows);
                assert!(Blocking::bcast(&mut hold, &comm, 0, (to, len)).is_none());
                assert!(Blocking::gather(&mut hold, &comm, 0, own, at_root).is_none());
                assert!(Blocking::scatter(&mut hold, &comm, 0, at_root, own).is_none());
                assert!(Blocking::allgather(&mut hold, &comm, own, rows).is_none());
                assert!(Blocking::alltoall(&mut hold, &comm, Some(Even { first: at, len }), rows).is_none());
            }
            hold.engine.detours |= CAREFUL;
            assert!(Blocking::barrier(&mut hold, &comm).is_none(), "rank {rank} is checked");
            hold.engine.detours &= !CAREFUL;
        });
    }
}
