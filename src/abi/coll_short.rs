//! Collective operations on elements of predefined types that lie in rows: what is needed of their arguments for the
//! [short ways](crate::mpi::coll::short). `None` for all others, and where anything is wrong or unusual: the long way says what.

use super::coll_args::{Triple, is_in_place};
use super::edge::*;
use super::op::op as find_op;
use super::types::*;
use crate::mpi::coll::args::Reduction;
use crate::mpi::coll::board::rows::{Even, Row, Rows};
use crate::mpi::coll::machine::Element;
use crate::mpi::coll::short::Way;
use crate::mpi::comm::Comm;
use crate::mpi::datatype::basic::row_size;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// What has become of a call that was short.
type Outcome<W> = Option<Result<<W as Way>::Outcome>>;

/// The bytes of a buffer.
#[inline]
fn row((address, count, datatype): Triple) -> Option<Row> {
    let len = row_size(datatype)?.checked_mul(usize::try_from(count).ok()?)?;
    let is_there = len == 0 || !address.is_null();
    (is_there && !is_in_place(address)).then_some((address.cast_mut().cast(), len))
}

/// What a rank has at `buffer` beside its row `at` of a buffer of all, or there, in place: as many bytes.
#[inline]
fn beside(buffer: Triple, at: Row) -> Option<Row> {
    if is_in_place(buffer.0) {
        return Some(at);
    }
    row(buffer).filter(|own| own.1 == at.1 && (own.0 != at.0 || at.1 == 0))
}

/// Blocks of equal size.
#[inline]
pub fn even(buffer: Triple) -> Option<Even> {
    let (first, len) = row(buffer)?;
    Some(Even { first, len })
}

/// Blocks of so many elements at displacements.
#[derive(Clone, Copy)]
pub struct Varying<'a, C, D, T> {
    first: *mut u8,
    counts: &'a [C],
    displs: &'a [D],
    types: T,
}

/// The types of blocks.
pub trait Types: Copy {
    /// Bytes of an element of the block of a rank, if they lie in a row.
    fn size(&self, rank: usize) -> Option<usize>;

    /// Bytes that displacements count in.
    fn unit(&self) -> isize;
}

/// One for all, whose elements have so many bytes.
#[derive(Clone, Copy)]
pub struct One(usize);

impl Types for One {
    #[inline(always)]
    fn size(&self, _rank: usize) -> Option<usize> {
        Some(self.0)
    }

    #[inline(always)]
    fn unit(&self) -> isize {
        self.0 as isize
    }
}

/// One for each.
#[derive(Clone, Copy)]
pub struct Each<'a>(&'a [MPI_Datatype]);

impl Types for Each<'_> {
    #[inline(always)]
    fn size(&self, rank: usize) -> Option<usize> {
        row_size(self.0[rank])
    }

    #[inline(always)]
    fn unit(&self) -> isize {
        1
    }
}

impl<C: Copy + Into<i64>, D: Copy + Into<i64>, T: Types> Rows for Varying<'_, C, D, T> {
    const EVEN: bool = false;

    #[inline(always)]
    fn of(&self, rank: u32) -> Row {
        let rank = rank as usize;
        let (count, displ) = (self.counts[rank].into() as usize, self.displs[rank].into() as isize);
        let shift = displ.wrapping_mul(self.types.unit());
        let len = count.wrapping_mul(self.types.size(rank).unwrap_or(0));
        (self.first.wrapping_offset(shift), len)
    }
}

/// Buffer, counts and displacements.
pub type Places<C, D> = (*const c_void, *const C, *const D);

/// Blocks of one type.
#[inline(always)]
pub fn varying<'a, C: Copy + Into<i64>, D: Copy + Into<i64>>(
    comm: &Comm,
    places: Places<C, D>,
    datatype: MPI_Datatype,
) -> Option<Varying<'a, C, D, One>> {
    placed(comm, places, One(row_size(datatype)?))
}

/// Blocks of a type each.
#[inline(always)]
pub fn each<'a, C: Copy + Into<i64>, D: Copy + Into<i64>>(
    comm: &Comm,
    places: Places<C, D>,
    types: *const MPI_Datatype,
) -> Option<Varying<'a, C, D, Each<'a>>> {
    let ranks = if comm.is_inter() { 0 } else { comm.size() as usize };
    placed(comm, places, Each(slice(types, ranks, "").ok()?))
}

/// Blocks for each rank of an intracommunicator, in memory that is there; so many bytes can be counted.
#[inline(always)]
fn placed<'a, C: Copy + Into<i64>, D: Copy + Into<i64>, T: Types>(
    comm: &Comm,
    (first, counts, displs): Places<C, D>,
    types: T,
) -> Option<Varying<'a, C, D, T>> {
    if comm.is_inter() || first.is_null() || is_in_place(first) {
        return None;
    }
    let ranks = comm.size() as usize;
    let (counts, displs) = (slice(counts, ranks, "").ok()?, slice(displs, ranks, "").ok()?);
    let all = counts.iter().enumerate().try_fold(0usize, |all, (rank, &count)| {
        let len = types.size(rank)?.checked_mul(usize::try_from(count.into()).ok()?)?;
        all.checked_add(len)
    });
    all?;
    Some(Varying {
        first: first.cast_mut().cast(),
        counts,
        displs,
        types,
    })
}

/// The root, in an intracommunicator: others have no short ways.
#[inline]
fn member(comm: &Comm, root: c_int) -> Option<u32> {
    let root = u32::try_from(root).ok()?;
    (root < comm.size() && !comm.is_inter()).then_some(root)
}

/// `MPI_Bcast`.
#[inline]
pub fn bcast<W: Way>(hold: &mut Hold, comm: &Rc<Comm>, buffer: Triple, root: c_int) -> Outcome<W> {
    let (root, row) = (member(comm, root)?, row(buffer)?);
    match row.1 {
        0 => W::idle(hold, comm),
        _ => W::bcast(hold, comm, root, row),
    }
}

/// `MPI_Gather` and `MPI_Gatherv`.
#[inline]
pub fn gather<W: Way, R: Rows>(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    send: Triple,
    recv: impl FnOnce() -> Option<R>,
    root: c_int,
) -> Outcome<W> {
    let root = member(comm, root)?;
    let (own, to) = of_root(comm, root, send, recv)?;
    if R::EVEN && own.1 == 0 {
        return W::idle(hold, comm);
    }
    W::gather(hold, comm, root, own, to)
}

/// `MPI_Scatter` and `MPI_Scatterv`.
#[inline]
pub fn scatter<W: Way, R: Rows>(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    send: impl FnOnce() -> Option<R>,
    recv: Triple,
    root: c_int,
) -> Outcome<W> {
    let root = member(comm, root)?;
    let (own, from) = of_root(comm, root, recv, send)?;
    if R::EVEN && own.1 == 0 {
        return W::idle(hold, comm);
    }
    W::scatter(hold, comm, root, from, own)
}

/// This rank's own row at `buffer`, and the rows of all, which only the root has.
#[inline(always)]
fn of_root<R: Rows>(
    comm: &Comm,
    root: u32,
    buffer: Triple,
    rows: impl FnOnce() -> Option<R>,
) -> Option<(Row, Option<R>)> {
    if comm.rank != root {
        return Some((row(buffer)?, None));
    }
    let rows = rows()?;
    Some((beside(buffer, rows.of(root))?, Some(rows)))
}

/// `MPI_Allgather` and `MPI_Allgatherv`.
#[inline]
pub fn allgather<W: Way>(hold: &mut Hold, comm: &Rc<Comm>, send: Triple, recv: Option<impl Rows>) -> Outcome<W> {
    let to = recv?;
    let own = beside(send, to.of(comm.rank))?;
    if to.longest(comm.size()) == 0 {
        return W::idle(hold, comm);
    }
    W::allgather(hold, comm, own, to)
}

/// `MPI_Alltoall` and its kin, from rows in place or `send`.
#[inline]
pub fn alltoall<W: Way, R: Rows>(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    sendbuf: *const c_void,
    send: impl FnOnce() -> Option<R>,
    recv: impl FnOnce() -> Option<R>,
) -> Outcome<W> {
    let to = recv()?;
    let kept = to.of(comm.rank);
    if is_in_place(sendbuf) {
        return match R::EVEN && kept.1 == 0 {
            true => W::idle(hold, comm),
            false => W::alltoall(hold, comm, None, to),
        };
    }
    let from = send()?;
    let sent = from.of(comm.rank);
    if R::EVEN && (sent.1, kept.1) == (0, 0) {
        return W::idle(hold, comm);
    }
    let ranks = if R::EVEN { 1 } else { comm.size() };
    if sent.1 != kept.1 || (0..ranks).any(|rank| from.of(rank).0 == to.of(rank).0) {
        return None;
    }
    W::alltoall(hold, comm, Some(from), to)
}

/// `MPI_Allreduce`.
#[inline]
pub fn allreduce<W: Way>(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    send: Triple,
    recvbuf: *mut c_void,
    op: MPI_Op,
) -> Outcome<W> {
    let reduction = reduction(hold, send, Some(recvbuf), op)?;
    match reduction.count {
        0 => W::idle(hold, comm),
        _ => W::allreduce(hold, comm, &reduction),
    }
}

/// `MPI_Reduce`.
#[inline]
pub fn reduce<W: Way>(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    send: Triple,
    recvbuf: *mut c_void,
    op: MPI_Op,
    root: c_int,
) -> Outcome<W> {
    let root = member(comm, root)?;
    let reduction = reduction(hold, send, (comm.rank == root).then_some(recvbuf), op)?;
    match reduction.count {
        0 => W::idle(hold, comm),
        _ => W::reduce(hold, comm, root, &reduction),
    }
}

/// `MPI_Reduce_scatter_block`, of `count` elements for each rank.
#[inline]
pub fn reduce_scatter_block<W: Way>(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    (sendbuf, count, datatype): Triple,
    recvbuf: *mut c_void,
    op: MPI_Op,
) -> Outcome<W> {
    let total = count.checked_mul(comm.size().into())?;
    let reduction = reduction(hold, (sendbuf, total, datatype), Some(recvbuf), op)?;
    let count = count as usize;
    match count {
        0 => W::idle(hold, comm),
        _ => W::reduce_scatter(hold, comm, &reduction, |rank| (rank as usize * count, count)),
    }
}

/// `MPI_Reduce_scatter`, of so many elements for each rank.
#[inline]
pub fn reduce_scatter<W: Way, C: Copy + Into<i64>>(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    (sendbuf, counts, datatype): (*const c_void, *const C, MPI_Datatype),
    recvbuf: *mut c_void,
    op: MPI_Op,
) -> Outcome<W> {
    let counts = slice(counts, comm.size() as usize, "").ok()?;
    let all = |counts: &[C]| {
        let mut counts = counts.iter().map(|&count| count.into());
        counts.try_fold(0i64, |sum, count| sum.checked_add(count).filter(|_| count >= 0))
    };
    let reduction = reduction(hold, (sendbuf, all(counts)?, datatype), Some(recvbuf), op)?;
    let block = |rank: u32| {
        let (before, from) = counts.split_at(rank as usize);
        (all(before).unwrap_or(0) as usize, from[0].into() as usize)
    };
    match reduction.count {
        0 => W::idle(hold, comm),
        _ => W::reduce_scatter(hold, comm, &reduction, block),
    }
}

/// `MPI_Scan`, or `MPI_Exscan` if `exclusive`, of which rank 0 gets nothing.
#[inline]
pub fn scan<W: Way>(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    send: Triple,
    recvbuf: *mut c_void,
    op: MPI_Op,
    exclusive: bool,
) -> Outcome<W> {
    let gets = !exclusive || comm.rank > 0 || is_in_place(send.0);
    if !gets && send.0 == recvbuf.cast_const() {
        return None;
    }
    let reduction = reduction(hold, send, gets.then_some(recvbuf), op)?;
    match reduction.count {
        0 => W::idle(hold, comm),
        _ => W::scan(hold, comm, &reduction, exclusive),
    }
}

/// A reduction whose result goes to `recvbuf`, if this rank gets it, in place or not.
#[inline]
fn reduction(hold: &Hold, send: Triple, recvbuf: Option<*mut c_void>, op: MPI_Op) -> Option<Reduction> {
    let (sendbuf, count, handle) = send;
    let in_place = recvbuf.is_some() && is_in_place(sendbuf);
    let from = if in_place { None } else { Some(row(send)?.0) };
    let recv = match recvbuf {
        Some(recvbuf) => row((recvbuf.cast_const(), count, handle))?.0,
        None => from?,
    };
    if recvbuf.is_some() && from == Some(recv) {
        return None;
    }
    let op = find_op(hold, op).ok()?.clone();
    let datatype = hold.datatypes.committed(handle).ok()?.clone();
    op.check(&datatype).ok()?;
    Some(Reduction {
        send: from,
        recv,
        count: usize::try_from(count).ok()?,
        element: Element { datatype, handle },
        op,
    })
}
