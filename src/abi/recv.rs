//! # Safety
//! Hands the application's buffers on: relies on its pointers, counts and datatypes.
//!
//! Receives: blocking, nonblocking and persistent (MPI-4.1 §3.2.4, §3.7.2, §3.9).
#![allow(unsafe_code)]

use super::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_PROC_NULL, MPI_STATUS_IGNORE, MPI_SUCCESS};
use super::edge::*;
use super::pt2pt::*;
use super::request::REQUEST_NOBODY;
use super::status::store_status;
use super::timing;
use super::types::*;
use crate::mpi::buffer::Buffer;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::pt2pt::engine::CAREFUL;
use crate::mpi::pt2pt::persistent::{self, Operation};
use crate::mpi::pt2pt::{self, Pattern};
use crate::mpi::request::RequestKey;
use crate::mpi::status::Status;
use crate::mpi::world::State;
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
    let count = count.into();
    if short(Some(CALL), buf, count, datatype, source, tag, comm, status) {
        return MPI_SUCCESS;
    }
    recv_long(CALL, buf, count, datatype, source, tag, comm, status)
}

/// The short way: takes the next message in the source's ring, if that is the one, or comes at once. False, and nothing
/// done, when it cannot go that way or when anything is wrong: the long way says what. `call` is counted unless it is timed.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn short(
    call: Option<usize>,
    buf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> bool {
    let Some(world) = current_world() else { return false };
    let mut hold = world.hold();
    let state: &mut State = &mut hold;
    let arguments = (buf, count, datatype, source, tag);
    let Some((comm, from)) = on_short_way(state, CAREFUL | call.map_or(0, timing::bit), comm, source) else {
        return match source {
            MPI_ANY_SOURCE => short_any(state, call, comm, arguments, status),
            MPI_PROC_NULL => short_none(state, call, comm, arguments, status),
            _ => false,
        };
    };
    let Some((pattern, room)) = wanted(state, comm, arguments, status) else {
        return false;
    };
    // SAFETY: the program owns the memory that it describes.
    let received = unsafe { pt2pt::recv_glancing(state, (from, pattern), room, source) };
    let Some(received) = received else { return false };
    taken(state, call, &received, status);
    true
}

/// Arguments of a receive in the order of the C functions: address, count, datatype, source, tag.
pub(super) type Arguments = (*mut c_void, i64, MPI_Datatype, c_int, c_int);

/// Which messages a receive takes, and the room for them; `None` when something is wrong or unusual.
#[inline(always)]
pub(super) fn wanted(
    state: &State,
    comm: &Comm,
    (buf, count, datatype, source, tag): Arguments,
    status: *mut MPI_Status,
) -> Option<(Pattern, (*mut u8, usize))> {
    if tag < MPI_ANY_TAG || count < 0 || buf.is_null() || status.is_null() {
        return None;
    }
    let (address, room) = super::pt2pt::row(state, buf, count as usize, datatype)?;
    let pattern = Pattern::new(comm.context_on(Plane::PointToPoint), source, tag);
    Some((pattern, (address.cast_mut(), room)))
}

/// Counts a call that has gone the short way, and says what came.
#[inline(always)]
pub(super) fn taken(state: &mut State, call: Option<usize>, received: &Status, status: *mut MPI_Status) {
    timing::count(state, call);
    if status != MPI_STATUS_IGNORE {
        // SAFETY: `wanted` has seen that it is not NULL, and it is not the ignore value: the application's status.
        unsafe { (*status).fill(received) };
    }
}

/// [`short`] for MPI_ANY_SOURCE.
#[inline(never)]
fn short_any(
    state: &mut State,
    call: Option<usize>,
    comm: MPI_Comm,
    arguments: Arguments,
    status: *mut MPI_Status,
) -> bool {
    if state.engine.detours & (CAREFUL | call.map_or(0, timing::bit)) != 0 {
        return false;
    }
    let Some(comm) = comm_of(state, comm).cloned() else {
        return false;
    };
    let Some((pattern, room)) = wanted(state, &comm, arguments, status) else {
        return false;
    };
    // SAFETY: the program owns the memory that it describes.
    let Some(received) = (unsafe { pt2pt::recv_glancing_any(state, &comm, pattern, room) }) else {
        return false;
    };
    taken(state, call, &received, status);
    true
}

/// [`short`] for MPI_PROC_NULL.
#[inline(never)]
fn short_none(
    state: &mut State,
    call: Option<usize>,
    comm: MPI_Comm,
    arguments: Arguments,
    status: *mut MPI_Status,
) -> bool {
    let careful = state.engine.detours & (CAREFUL | call.map_or(0, timing::bit)) != 0;
    let Some(comm) = comm_of(state, comm).filter(|_| !careful) else {
        return false;
    };
    let is_right = wanted(state, comm, arguments, status).is_some();
    if is_right {
        taken(state, call, &Status::PROC_NULL, status);
    }
    is_right
}

#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn recv_long(
    call: usize,
    buf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    let short = || short(None, buf, count, datatype, source, tag, comm, status).then_some(MPI_SUCCESS);
    let long = || {
        on_comm("MPI_Recv", comm, |hold, comm| {
            let count = self::count(count, "count")?;
            let (buffer, from) = incoming(hold, comm, buf, count, datatype, source, tag)?;
            let Some(from) = from else {
                return store_status(status, &Status::PROC_NULL);
            };
            let plane = Plane::PointToPoint;
            if let Some(came) = pt2pt::recv_scattered(hold, comm, plane, &buffer, from, tag) {
                return store_status(status, &came?);
            }
            let request = pt2pt::recv_waiting(hold, comm, plane, buffer, from, tag)?;
            received(hold, request, status)
        })
    };
    timing::long_way(call, short, long)
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

/// The short way of MPI_Irecv: from one rank, into a row. False, and nothing done, when it cannot go that way or when
/// anything is wrong: the long way says what.
#[inline(always)]
fn start_short(arguments: Arguments, comm: MPI_Comm, request: *mut MPI_Request) -> bool {
    let Some(world) = current_world() else { return false };
    let mut hold = world.hold();
    let state: &mut State = &mut hold;
    let Some((comm, _)) = on_short_way(state, CAREFUL, comm, arguments.3) else {
        return arguments.3 == MPI_PROC_NULL && start_none(state, arguments, comm, request);
    };
    let Some((pattern, (address, room))) = wanted(state, comm, arguments, MPI_STATUS_IGNORE) else {
        return false;
    };
    if request.is_null() || !state.posts_at_once() {
        return false;
    }
    let comm = comm.clone();
    let Ok(key) = state.add_posted(comm, Buffer::bytes(address, room), pattern) else {
        return false;
    };
    // SAFETY: not NULL, hence the application's handle.
    unsafe { *request = Object::Request.handle(key) };
    timing::count(state, None);
    true
}

/// [`start_short`] for MPI_PROC_NULL.
#[inline(never)]
fn start_none(state: &mut State, arguments: Arguments, comm: MPI_Comm, request: *mut MPI_Request) -> bool {
    let is_right = !request.is_null() && short_none(state, None, comm, arguments, MPI_STATUS_IGNORE);
    if is_right {
        // SAFETY: not NULL, hence the application's handle.
        unsafe { *request = REQUEST_NOBODY };
    }
    is_right
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
    if start_short((buf, count.into(), datatype, source, tag), comm, request) {
        return MPI_SUCCESS;
    }
    on_comm("MPI_Irecv", comm, |hold, comm| {
        let count = self::count(count, "count")?;
        load(request, "request")?;
        let (buffer, from) = incoming(hold, comm, buf, count, datatype, source, tag)?;
        let key = match from {
            Some(from) => pt2pt::irecv(hold, comm, Plane::PointToPoint, buffer, from, tag)?,
            None => return store(request, "request", REQUEST_NOBODY),
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
