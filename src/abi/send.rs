//! # Safety
//! Hands the application's buffers on: relies on its pointers, counts and datatypes.
//!
//! Sends in all modes, blocking, nonblocking and persistent (MPI-4.1 §3.4, §3.7.2, §3.9).
#![allow(unsafe_code)]

use super::constants::MPI_SUCCESS;
use super::edge::*;
use super::pt2pt::*;
use super::request::REQUEST_SENT;
use super::types::*;
use crate::mpi::buffer::Buffer;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::datatype::basic::row_size;
use crate::mpi::pt2pt::persistent::{self, Operation};
use crate::mpi::pt2pt::{self, Mode};
use crate::mpi::world::State;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// Arguments of a send in the order of the C functions: address, count, datatype, destination, tag.
type Arguments = (*const c_void, i64, MPI_Datatype, c_int, c_int);

/// The short way: sends a message in a row through the ring if that needs no waiting. False, and nothing done, when it
/// cannot go that way or when anything is wrong: the long way says what. Everything stays in registers; the limit on
/// its instructions stands in `scripts/instructions`.
#[inline(always)]
fn short(name: &'static str, (buf, count, datatype, dest, tag): Arguments, comm: MPI_Comm) -> bool {
    let Some(world) = current_world() else { return false };
    let _call = world.calling(name);
    let mut hold = world.hold();
    let state: &mut State = &mut hold;
    if state.engine.careful {
        return false;
    }
    let Ok(comm) = self::comm(state, comm) else {
        return false;
    };
    let peers = comm.peers();
    if dest as u32 >= peers.size() || tag < 0 || count < 0 || buf.is_null() {
        return false;
    }
    let row = match row_size(datatype) {
        Some(size) => (buf.cast(), count as usize * size),
        None => match state.datatypes.committed(datatype) {
            Ok(datatype) => match Buffer::row(buf.cast_mut().cast(), count as usize, datatype) {
                Some((address, len)) => (address.cast_const(), len),
                None => return false,
            },
            Err(_) => return false,
        },
    };
    let to = pt2pt::address(comm, Plane::PointToPoint, dest as u32, tag);
    // SAFETY: the program owns the bytes that it describes.
    matches!(unsafe { pt2pt::send_row(state, to, row) }, Ok(true))
}

/// Starts a send; one that is over at once needs no request of its own.
fn start(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    (buf, count, datatype, dest, tag): Arguments,
    mode: Option<Mode>,
    request: *mut MPI_Request,
) -> Result<()> {
    let count = self::count(count, "count")?;
    let (buffer, to) = outgoing(hold, comm, buf, count, datatype, dest, tag)?;
    load(request, "request")?;
    let Some(to) = to else {
        return store(request, "request", REQUEST_SENT);
    };
    let Some(mode) = mode else {
        pt2pt::bsend(hold, comm, buffer, to, tag)?;
        return store(request, "request", REQUEST_SENT);
    };
    let key = pt2pt::isend(hold, comm, Plane::PointToPoint, buffer, to, tag, mode)?;
    store_request(request, key)
}

/// What an argument list describes, sent in `mode` (buffered: `None`).
#[inline(always)]
fn send_now(name: &'static str, arguments: Arguments, comm: MPI_Comm, mode: Option<Mode>) -> c_int {
    if matches!(mode, Some(Mode::Standard | Mode::Ready)) && short(name, arguments, comm) {
        return MPI_SUCCESS;
    }
    send_long(name, arguments, comm, mode)
}

#[inline(never)]
fn send_long(name: &'static str, arguments: Arguments, comm: MPI_Comm, mode: Option<Mode>) -> c_int {
    on_comm(name, comm, |hold, comm| send_other(hold, comm, arguments, mode))
}

fn send_other(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    (buf, count, datatype, dest, tag): Arguments,
    mode: Option<Mode>,
) -> Result<()> {
    let count = self::count(count, "count")?;
    let (buffer, to) = outgoing(hold, comm, buf, count, datatype, dest, tag)?;
    let Some(to) = to else { return Ok(()) };
    match mode {
        Some(mode) => pt2pt::send(hold, comm, Plane::PointToPoint, buffer, to, tag, mode),
        None => pt2pt::bsend(hold, comm, buffer, to, tag),
    }
}

/// The same, started.
#[inline(always)]
fn send_started(
    name: &'static str,
    arguments: Arguments,
    comm: MPI_Comm,
    mode: Option<Mode>,
    request: *mut MPI_Request,
) -> c_int {
    if matches!(mode, Some(Mode::Standard | Mode::Ready)) && !request.is_null() && short(name, arguments, comm) {
        // SAFETY: not NULL, hence the application's variable.
        unsafe { request.write(REQUEST_SENT) };
        return MPI_SUCCESS;
    }
    start_long(name, arguments, comm, mode, request)
}

#[inline(never)]
fn start_long(
    name: &'static str,
    arguments: Arguments,
    comm: MPI_Comm,
    mode: Option<Mode>,
    request: *mut MPI_Request,
) -> c_int {
    on_comm(name, comm, |hold, comm| start(hold, comm, arguments, mode, request))
}

/// The same, as a persistent request.
fn send_described(
    name: &'static str,
    (buf, count, datatype, dest, tag): Arguments,
    comm: MPI_Comm,
    mode: Option<Mode>,
    request: *mut MPI_Request,
) -> c_int {
    on_comm(name, comm, |hold, comm| {
        let count = self::count(count, "count")?;
        let (buffer, _) = outgoing(hold, comm, buf, count, datatype, dest, tag)?;
        let operation = Operation::Send {
            comm: comm.clone(),
            buffer,
            dest,
            tag,
            mode,
        };
        store_request(request, persistent::create(hold, operation)?)
    })
}

/// Blocking standard-mode send. MPI-4.1 §3.4.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Send(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send_now(
        "MPI_Send",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Standard),
    )
}

/// Nonblocking standard-mode send. MPI-4.1 §3.7.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Isend(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_started(
        "MPI_Isend",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Standard),
        request,
    )
}

/// Makes a persistent request for a standard-mode send. MPI-4.1 §3.9.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Send_init(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_described(
        "MPI_Send_init",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Standard),
        request,
    )
}

/// Blocking synchronous send. MPI-4.1 §3.4.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Ssend(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send_now(
        "MPI_Ssend",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Synchronous),
    )
}

/// Nonblocking synchronous send. MPI-4.1 §3.7.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Issend(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_started(
        "MPI_Issend",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Synchronous),
        request,
    )
}

/// Makes a persistent request for a synchronous send. MPI-4.1 §3.9.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Ssend_init(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_described(
        "MPI_Ssend_init",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Synchronous),
        request,
    )
}

/// Blocking ready send. MPI-4.1 §3.4.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Rsend(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send_now(
        "MPI_Rsend",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Ready),
    )
}

/// Nonblocking ready send. MPI-4.1 §3.7.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Irsend(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_started(
        "MPI_Irsend",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Ready),
        request,
    )
}

/// Makes a persistent request for a ready send. MPI-4.1 §3.9.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Rsend_init(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_described(
        "MPI_Rsend_init",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Ready),
        request,
    )
}

/// Blocking buffered send. MPI-4.1 §3.4.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Bsend(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send_now("MPI_Bsend", (buf, count.into(), datatype, dest, tag), comm, None)
}

/// Nonblocking buffered send. MPI-4.1 §3.7.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Ibsend(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_started(
        "MPI_Ibsend",
        (buf, count.into(), datatype, dest, tag),
        comm,
        None,
        request,
    )
}

/// Makes a persistent request for a buffered send. MPI-4.1 §3.9.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Bsend_init(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_described(
        "MPI_Bsend_init",
        (buf, count.into(), datatype, dest, tag),
        comm,
        None,
        request,
    )
}
