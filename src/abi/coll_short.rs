//! Collective operations on elements of predefined types that lie in rows: what is needed of their arguments for the
//! [short ways](crate::mpi::coll::short). `None` for all others, in place for most, and where anything is wrong or unusual: the long way says what.

use super::coll_args::{Triple, is_in_place};
use super::edge::*;
use super::op::op as find_op;
use super::types::*;
use crate::mpi::coll::args::Reduction;
use crate::mpi::coll::machine::Element;
use crate::mpi::coll::short::Way;
use crate::mpi::comm::Comm;
use crate::mpi::datatype::basic::row_size;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::rc::Rc;

/// What has become of a call that was short.
type Outcome<W> = Option<Result<<W as Way>::Outcome>>;

/// Where the bytes of a buffer lie, and how many; there are some.
#[inline]
fn row((address, count, datatype): Triple) -> Option<(*mut u8, usize)> {
    let len = row_size(datatype)?.checked_mul(usize::try_from(count).ok()?)?;
    (len > 0 && !address.is_null() && !is_in_place(address)).then_some((address.cast_mut().cast(), len))
}

/// The row of blocks of a buffer, of `len` bytes each, if the one of `rank` is not the memory at `other`.
#[inline]
fn blocks(buffer: Triple, len: usize, rank: u32, other: *mut u8) -> Option<*mut u8> {
    let (first, each) = row(buffer)?;
    (each == len && first.wrapping_add((rank as usize).wrapping_mul(len)) != other).then_some(first)
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
    W::bcast(hold, comm, member(comm, root)?, row(buffer)?)
}

/// `MPI_Gather`.
#[inline]
pub fn gather<W: Way>(hold: &mut Hold, comm: &Rc<Comm>, send: Triple, recv: Triple, root: c_int) -> Outcome<W> {
    let (root, (from, len)) = (member(comm, root)?, row(send)?);
    let to = match comm.rank == root {
        true => blocks(recv, len, root, from)?,
        false => null_mut(),
    };
    W::gather(hold, comm, root, (from, to), len)
}

/// `MPI_Scatter`.
#[inline]
pub fn scatter<W: Way>(hold: &mut Hold, comm: &Rc<Comm>, send: Triple, recv: Triple, root: c_int) -> Outcome<W> {
    let (root, (to, len)) = (member(comm, root)?, row(recv)?);
    let from = match comm.rank == root {
        true => blocks(send, len, root, to)?,
        false => null_mut(),
    };
    W::scatter(hold, comm, root, (from, to), len)
}

/// `MPI_Allgather`.
#[inline]
pub fn allgather<W: Way>(hold: &mut Hold, comm: &Rc<Comm>, send: Triple, recv: Triple) -> Outcome<W> {
    let (from, len) = row(send)?;
    let to = blocks(recv, len, comm.rank, from)?;
    W::allgather(hold, comm, (from, to), len)
}

/// `MPI_Alltoall`.
#[inline]
pub fn alltoall<W: Way>(hold: &mut Hold, comm: &Rc<Comm>, send: Triple, recv: Triple) -> Outcome<W> {
    let (from, len) = row(send)?;
    let to = blocks(recv, len, 0, from)?;
    W::alltoall(hold, comm, (from, to), len)
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
    W::allreduce(hold, comm, &reduction)
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
    W::reduce(hold, comm, root, &reduction)
}

/// `MPI_Scan`.
#[inline]
pub fn scan<W: Way>(hold: &mut Hold, comm: &Rc<Comm>, send: Triple, recvbuf: *mut c_void, op: MPI_Op) -> Outcome<W> {
    let reduction = reduction(hold, send, Some(recvbuf), op)?;
    W::scan(hold, comm, &reduction)
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
