//! # Safety
//! Hands the application's buffers on: relies on its pointers, counts and datatypes.
//!
//! Arguments of point-to-point communication (MPI-4.1 §3), checked once; the functions stand in
//! `send`, `recv`, `exchange`, `probe` and `buffered`.
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::types::*;
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::comm::Comm;
use crate::mpi::datatype::Datatype;
use crate::mpi::datatype::basic::row_size;
use crate::mpi::request::RequestKey;
use crate::mpi::world::State;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// The communication buffer that the program describes.
///
/// # Errors
/// `Count` (more bytes than there can be, too), `Type` (null, freed, not committed), `Buffer` for a null address that is not MPI_BOTTOM.
#[inline(always)]
pub fn buffer(state: &State, address: *const c_void, count: usize, datatype: MPI_Datatype) -> Result<Buffer> {
    // Nothing is of no type, as in MPICH.
    let datatype = if count == 0 && datatype == MPI_DATATYPE_NULL {
        MPI_BYTE
    } else {
        datatype
    };
    let datatype = state.datatypes.committed(datatype)?;
    length(count, datatype)?;
    let buffer = Buffer::typed(address.cast_mut().cast(), count, datatype);
    if address.is_null() && datatype.true_lb() == 0 && !buffer.is_empty() {
        return Err(no_buffer(count));
    }
    Ok(buffer)
}

/// The communicator and the rank in the job of its member `peer`, for a call that may go a short way; `None` where one of
/// the `detours` is due, and for MPI_ANY_SOURCE and MPI_PROC_NULL, which are no members.
#[inline(always)]
pub fn on_short_way(state: &State, detours: u8, comm: MPI_Comm, peer: c_int) -> Option<(&Rc<Comm>, u32)> {
    if state.engine.detours & detours != 0 {
        return None;
    }
    let comm = comm_of(state, comm)?;
    Some((comm, *comm.peers().members.get(peer as u32 as usize)?))
}

/// Where the bytes of a message lie, and how many they are, if they lie in a row and nothing is wrong with them.
#[inline(always)]
pub fn row(state: &State, address: *const c_void, count: usize, datatype: MPI_Datatype) -> Option<(*const u8, usize)> {
    match row_size(datatype) {
        Some(size) => Some((address.cast(), count.checked_mul(size)?)),
        None => row_of(state, address, count, datatype),
    }
}

/// The same for derived datatypes.
#[inline(never)]
fn row_of(state: &State, address: *const c_void, count: usize, datatype: MPI_Datatype) -> Option<(*const u8, usize)> {
    let datatype = state.datatypes.committed(datatype).ok()?;
    let (first, len) = Buffer::row(address.cast_mut().cast(), count, datatype)?;
    Some((first.cast_const(), len))
}

/// As [`buffer`], of a message: `NEARMPI_CHECK` wants to know its types.
///
/// # Errors
/// As [`buffer`].
#[inline(always)]
pub fn message_buffer(state: &State, address: *const c_void, count: usize, datatype: MPI_Datatype) -> Result<Buffer> {
    let buffer = buffer(state, address, count, datatype)?;
    if checked(state) {
        let datatype = state.datatypes.committed(datatype)?;
        return Ok(Buffer::of_type(address.cast_mut().cast(), count, datatype));
    }
    Ok(buffer)
}

/// Bytes of data in `count` elements.
///
/// # Errors
/// `Count`: more than memory can have.
#[inline]
pub fn length(count: usize, datatype: &Datatype) -> Result<usize> {
    match product(count, datatype.size()) {
        Some(len) => Ok(len),
        None => fail!(
            Count,
            "{count} elements of {} bytes are more than memory can have",
            datatype.size()
        ),
    }
}

#[cold]
fn no_buffer(count: usize) -> Error {
    let text = format!("the buffer is a null pointer, but {count} elements are to be transferred");
    Error::new(Class::Buffer, text)
}

/// Checks a rank argument: `Some` rank of the peers, or `None` for MPI_PROC_NULL.
///
/// # Errors
/// `Rank` for any other value.
#[inline(always)]
pub fn dest(comm: &Comm, rank: c_int) -> Result<Option<u32>> {
    if (0..comm.peers().size() as c_int).contains(&rank) {
        return Ok(Some(rank as u32));
    }
    if rank == MPI_PROC_NULL {
        return Ok(None);
    }
    Err(no_rank(comm, rank))
}

#[cold]
fn no_rank(comm: &Comm, rank: c_int) -> Error {
    let size = comm.peers().size();
    let text = format!("Invalid rank has value {rank} but must be nonnegative and less than {size}");
    Error::new(Class::Rank, text)
}

/// Checks a source argument: `Some` rank of the peers or MPI_ANY_SOURCE, or `None` for MPI_PROC_NULL.
///
/// # Errors
/// `Rank` for any other value.
#[inline(always)]
pub fn source(comm: &Comm, rank: c_int) -> Result<Option<i32>> {
    if rank == MPI_ANY_SOURCE {
        return Ok(Some(rank));
    }
    Ok(dest(comm, rank)?.map(|rank| rank as i32))
}

/// Checks the tag of a send.
///
/// # Errors
/// `Tag` when it is negative.
#[inline(always)]
pub fn send_tag(tag: c_int) -> Result<i32> {
    if tag < 0 { Err(no_tag(tag)) } else { Ok(tag) }
}

#[cold]
fn no_tag(tag: c_int) -> Error {
    Error::new(
        Class::Tag,
        format!("Invalid tag, value is {tag} but must be nonnegative"),
    )
}

/// Checks the tag of a receive, which may be MPI_ANY_TAG.
///
/// # Errors
/// `Tag` for another negative value.
#[inline]
pub fn recv_tag(tag: c_int) -> Result<i32> {
    if tag == MPI_ANY_TAG { Ok(tag) } else { send_tag(tag) }
}

/// Arguments of a send: its buffer and its destination.
///
/// # Errors
/// `Rank`, `Tag`, and those of [`buffer`].
#[inline(always)]
pub fn outgoing(
    state: &State,
    comm: &Comm,
    address: *const c_void,
    count: usize,
    datatype: MPI_Datatype,
    rank: c_int,
    tag: c_int,
) -> Result<(Buffer, Option<u32>)> {
    let to = dest(comm, rank)?;
    send_tag(tag)?;
    Ok((message_buffer(state, address, count, datatype)?, to))
}

/// Arguments of a receive: its buffer and its source.
///
/// # Errors
/// `Rank`, `Tag`, and those of [`buffer`].
#[inline(always)]
pub fn incoming(
    state: &State,
    comm: &Comm,
    address: *mut c_void,
    count: usize,
    datatype: MPI_Datatype,
    rank: c_int,
    tag: c_int,
) -> Result<(Buffer, Option<i32>)> {
    let from = source(comm, rank)?;
    recv_tag(tag)?;
    if tag == MPI_ANY_TAG || rank == MPI_ANY_SOURCE {
        check_promises(state, comm, rank, tag)?;
    }
    Ok((message_buffer(state, address, count, datatype)?, from))
}

/// Whether NEARMPI_CHECK asks for more checks than the standard does.
#[inline(always)]
pub fn checked(state: &State) -> bool {
    state.engine.channel.settings().check != 0
}

/// With NEARMPI_CHECK, holds the program to the hints of [`crate::mpi::info::PROMISES`].
#[cold]
#[inline(never)]
fn check_promises(state: &State, comm: &Comm, rank: c_int, tag: c_int) -> Result<()> {
    if !checked(state) {
        return Ok(());
    }
    let info = comm.info.borrow();
    if tag == MPI_ANY_TAG && info.promises("mpi_assert_no_any_tag") {
        fail!(
            Tag,
            "MPI_ANY_TAG on a communicator that has the hint mpi_assert_no_any_tag"
        );
    }
    if rank == MPI_ANY_SOURCE && info.promises("mpi_assert_no_any_source") {
        fail!(
            Rank,
            "MPI_ANY_SOURCE on a communicator that has the hint mpi_assert_no_any_source"
        );
    }
    Ok(())
}

/// Stores the handle of a new request.
///
/// # Errors
/// `Arg` when the pointer is NULL.
pub fn store_request(request: *mut MPI_Request, key: RequestKey) -> Result<()> {
    store(request, "request", Object::Request.handle(key))
}
