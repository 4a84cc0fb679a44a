//! # Safety
//! Hands the application's buffers on: relies on its pointers, counts and datatypes.
//!
//! Receives: blocking, nonblocking and persistent (MPI-4.1 §3.2.4, §3.7.2, §3.9).
#![allow(unsafe_code)]

use super::edge::*;
use super::pt2pt::*;
use super::status::store_status;
use super::types::*;
use crate::mpi::buffer::Buffer;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::pt2pt::persistent::{self, Operation};
use crate::mpi::pt2pt::{self};
use crate::mpi::request::{Request, RequestKey};
use crate::mpi::status::Status;
use std::ffi::{c_int, c_void};

/// Blocking receive. MPI-4.1 §3.2.4.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Recv(
    buf: *mut c_void,
    count: Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    on_comm("MPI_Recv", comm, |hold, comm| {
        let count = self::count(count, "count")?;
        if let (Some(from), Some(room)) = row(hold, comm, (buf, count, datatype, source, tag))?
            // SAFETY: the program owns the memory that it describes.
            && let Some(received) = unsafe { pt2pt::recv_glancing(hold, comm, Plane::PointToPoint, room, from, tag) }
        {
            return store_status(status, &received);
        }
        let (buffer, from) = incoming(hold, comm, buf, count, datatype, source, tag)?;
        let Some(from) = from else {
            return store_status(status, &Status::PROC_NULL);
        };
        let request = pt2pt::recv_waiting(hold, comm, Plane::PointToPoint, buffer, from, tag)?;
        received(hold, request, status)
    })
}

/// Source and room of a receive whose buffer lies in a row; both `None` when it does not.
///
/// # Errors
/// As [`incoming`].
#[inline(always)]
#[allow(clippy::type_complexity)]
fn row(
    hold: &Hold,
    comm: &Comm,
    (buf, count, datatype, source, tag): (*mut c_void, usize, MPI_Datatype, c_int, c_int),
) -> Result<(Option<i32>, Option<(*mut u8, usize)>)> {
    let from = self::source(comm, source)?;
    recv_tag(tag)?;
    // What is wrong with the datatype or a null buffer is for `incoming` to say, and what NEARMPI_CHECK looks at.
    let datatype = hold.datatypes.committed(datatype).ok();
    let row = datatype.and_then(|datatype| Buffer::row(buf.cast(), count, datatype));
    let simple = |(address, len): &(*mut u8, usize)| !checked(hold) && (!address.is_null() || *len == 0);
    Ok((from, row.filter(simple)))
}

/// Ends a blocking receive: the status is stored even if the message was too long.
///
/// # Errors
/// What the receive ended with.
pub fn received(hold: &mut Hold, request: RequestKey, status: *mut MPI_Status) -> Result<()> {
    let outcome = crate::mpi::request::finish(hold, request);
    store_status(status, &outcome.status)?;
    outcome.error.map_or(Ok(()), Err)
}

/// Nonblocking receive. MPI-4.1 §3.7.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Irecv(
    buf: *mut c_void,
    count: Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    on_comm("MPI_Irecv", comm, |hold, comm| {
        let count = self::count(count, "count")?;
        load(request, "request")?;
        if let (Some(from), Some((address, len))) = row(hold, comm, (buf, count, datatype, source, tag))? {
            let buffer = Buffer::bytes(address, len);
            let key = pt2pt::irecv(hold, comm, Plane::PointToPoint, buffer, from, tag)?;
            return store_request(request, key);
        }
        let (buffer, from) = incoming(hold, comm, buf, count, datatype, source, tag)?;
        let key = match from {
            Some(from) => pt2pt::irecv(hold, comm, Plane::PointToPoint, buffer, from, tag)?,
            None => hold.add_request(Request::over(Status::PROC_NULL))?,
        };
        store_request(request, key)
    })
}

/// Makes a persistent request for a receive. MPI-4.1 §3.9.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Recv_init(
    buf: *mut c_void,
    count: Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    on_comm("MPI_Recv_init", comm, |hold, comm| {
        let count = self::count(count, "count")?;
        let (buffer, _) = incoming(hold, comm, buf, count, datatype, source, tag)?;
        let operation = Operation::Recv {
            comm: comm.clone(),
            buffer,
            source,
            tag,
        };
        store_request(request, persistent::create(hold, operation)?)
    })
}
