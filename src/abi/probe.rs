//! # Safety
//! Hands the application's buffers on: relies on its pointers, counts and datatypes.
//!
//! Probes, and receives of the messages they match (MPI-4.1 §3.8).
#![allow(unsafe_code)]

use super::completion::{failed, on_requests, plain};
use super::constants::*;
use super::edge::*;
use super::pt2pt::*;
use super::recv::received;
use super::request::REQUEST_NOBODY;
use super::status::store_status;
use super::timing;
use super::types::*;
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::pt2pt::engine::CAREFUL;
use crate::mpi::pt2pt::{self, Pattern, probe};
use crate::mpi::request::RequestKey;
use crate::mpi::status::Status;
use crate::mpi::world::State;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// The short way of a probe: what `look` finds of messages that match. `None`, and nothing done, when it cannot go that way or when
/// anything is wrong: the long way says what.
#[inline(always)]
fn short<R>(
    comm: MPI_Comm,
    source: c_int,
    tag: c_int,
    look: impl FnOnce(&mut Hold, &Rc<Comm>, Pattern) -> Option<R>,
) -> Option<R> {
    let mut hold = current_world()?.hold();
    if hold.engine.detours & CAREFUL != 0 || tag < MPI_ANY_TAG {
        return None;
    }
    let comm = comm_of(&hold, comm)?;
    if source != MPI_ANY_SOURCE && source as u32 >= comm.peers().size() {
        return None;
    }
    let comm = comm.clone();
    let pattern = Pattern::new(comm.context_on(Plane::PointToPoint), source, tag);
    let found = look(&mut hold, &comm, pattern)?;
    hold.engine.vain.found();
    timing::count(&mut hold, None);
    Some(found)
}

/// Stores what a probe has found; the pointers are not NULL.
#[inline(always)]
fn tell(found: &Status, status: *mut MPI_Status) -> c_int {
    if status != MPI_STATUS_IGNORE {
        // SAFETY: not NULL, and not the ignore value: the application's status.
        unsafe { (*status).fill(found) };
    }
    MPI_SUCCESS
}

/// Waits for a message without receiving it. MPI-4.1 §3.8.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Probe(source: c_int, tag: c_int, comm: MPI_Comm, status: *mut MPI_Status) -> c_int {
    if !status.is_null()
        && let Some(found) = short(comm, source, tag, |hold, comm, pattern| {
            probe::probe_glancing(hold, comm, pattern, true)
        })
    {
        return tell(&found, status);
    }
    on_comm("MPI_Probe", comm, |hold, comm| {
        let (from, tag) = (self::source(comm, source)?, recv_tag(tag)?);
        let Some(from) = from else {
            return store_status(status, &Status::PROC_NULL);
        };
        let found = probe::probe(hold, comm, from, tag)?;
        store_status(status, &found)
    })
}

/// Looks for a message without receiving it. MPI-4.1 §3.8.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Iprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    if !status.is_null()
        && !flag.is_null()
        && let Some(found) = short(comm, source, tag, |hold, comm, pattern| {
            probe::probe_glancing(hold, comm, pattern, false)
        })
    {
        // SAFETY: not NULL: the application's.
        unsafe { flag.write(1) };
        return tell(&found, status);
    }
    on_comm("MPI_Iprobe", comm, |hold, comm| {
        load(flag, "flag")?;
        let (from, tag) = (self::source(comm, source)?, recv_tag(tag)?);
        let found = match from {
            Some(from) => probe::iprobe(hold, comm, from, tag)?,
            None => Some(Status::PROC_NULL),
        };
        store(flag, "flag", found.is_some() as c_int)?;
        found.map_or(Ok(()), |found| store_status(status, &found))
    })
}

/// Waits for a message and takes it out of matching. MPI-4.1 §3.8.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Mprobe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    if !status.is_null()
        && !message.is_null()
        && let Some((key, found)) = short(comm, source, tag, |hold, comm, pattern| {
            pt2pt::mprobe_glancing(hold, comm, pattern, true)
        })
    {
        // SAFETY: not NULL: the application's.
        unsafe { message.write(Object::Request.handle(key)) };
        return tell(&found, status);
    }
    on_comm("MPI_Mprobe", comm, |hold, comm| {
        load(message, "message")?;
        let (handle, found) = match self::source(comm, source)? {
            Some(from) => {
                let (key, found) = probe::mprobe(hold, comm, from, recv_tag(tag)?)?;
                (Object::Request.handle(key), found)
            }
            None => (MPI_MESSAGE_NO_PROC, Status::PROC_NULL),
        };
        store(message, "message", handle)?;
        store_status(status, &found)
    })
}

/// Looks for a message and takes it out of matching. MPI-4.1 §3.8.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Improbe(
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    flag: *mut c_int,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    if !status.is_null()
        && !flag.is_null()
        && !message.is_null()
        && let Some((key, found)) = short(comm, source, tag, |hold, comm, pattern| {
            pt2pt::mprobe_glancing(hold, comm, pattern, false)
        })
    {
        // SAFETY: not NULL: the application's.
        unsafe {
            flag.write(1);
            message.write(Object::Request.handle(key));
        }
        return tell(&found, status);
    }
    on_comm("MPI_Improbe", comm, |hold, comm| {
        load(message, "message")?;
        load(flag, "flag")?;
        let found = match self::source(comm, source)? {
            Some(from) => {
                let found = probe::improbe(hold, comm, from, recv_tag(tag)?)?;
                found.map(|(key, found)| (Object::Request.handle(key), found))
            }
            None => Some((MPI_MESSAGE_NO_PROC, Status::PROC_NULL)),
        };
        store(flag, "flag", found.is_some() as c_int)?;
        store(message, "message", found.map_or(MPI_MESSAGE_NULL, |(handle, _)| handle))?;
        found.map_or(Ok(()), |(_, found)| store_status(status, &found))
    })
}

/// Starts the receive of a matched message; `None` for MPI_MESSAGE_NO_PROC.
fn matched(hold: &mut Hold, message: MPI_Message, room: Buffer) -> Result<Option<RequestKey>> {
    if message == MPI_MESSAGE_NO_PROC {
        return Ok(None);
    }
    if message == MPI_MESSAGE_NULL {
        fail!(Request, "the message is the null handle");
    }
    let key = Object::Request.key(message)?;
    Object::Request.alive(message, hold.requests.get(key))?;
    pt2pt::imrecv(hold, key, room).map(Some)
}

/// The short way of a receive of a matched message that has come. False, and nothing done, when it cannot go that way or when
/// anything is wrong: the long way says what.
#[inline(always)]
fn receive_short(
    buf: *mut c_void,
    count: i64,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> bool {
    let Some(world) = current_world() else { return false };
    let mut hold = world.hold();
    let state: &mut State = &mut hold;
    if state.engine.detours & CAREFUL != 0 || count < 0 || buf.is_null() || message.is_null() || status.is_null() {
        return false;
    }
    // SAFETY: not NULL: the application's.
    let Some(key) = Object::Request.key_of(unsafe { message.read() }) else {
        return false;
    };
    let Some((address, room)) = row(state, buf, count as usize, datatype) else {
        return false;
    };
    // SAFETY: the program owns the memory that it describes.
    let Some(received) = (unsafe { pt2pt::mrecv_glancing(state, key, (address.cast_mut(), room)) }) else {
        return false;
    };
    timing::count(state, None);
    // SAFETY: as above.
    unsafe { message.write(MPI_MESSAGE_NULL) };
    tell(&received, status);
    true
}

/// Receives a matched message. MPI-4.1 §3.8.3.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Mrecv(
    buf: *mut c_void,
    count: Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    status: *mut MPI_Status,
) -> c_int {
    if receive_short(buf, count.into(), datatype, message, status) {
        return MPI_SUCCESS;
    }
    on_requests("MPI_Mrecv", |hold| {
        let handle = load(message, "message").map_err(plain)?;
        let key = Object::Request.key_of(handle);
        let comm = key.and_then(|key| hold.requests.get(key)?.comm.clone());
        let mut receive = || {
            let count = self::count(count, "count")?;
            let room = message_buffer(hold, buf, count, datatype)?;
            let started = matched(hold, handle, room)?;
            store(message, "message", MPI_MESSAGE_NULL)?;
            let Some(request) = started else {
                return store_status(status, &Status::PROC_NULL);
            };
            hold.wait_over(None, request)?;
            received(hold, request, status)
        };
        receive().map_err(|error| failed(error, comm))
    })
}

/// Starts the receive of a matched message. MPI-4.1 §3.8.3.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Imrecv(
    buf: *mut c_void,
    count: Count,
    datatype: MPI_Datatype,
    message: *mut MPI_Message,
    request: *mut MPI_Request,
) -> c_int {
    on_world("MPI_Imrecv", |hold| {
        let count = self::count(count, "count")?;
        load(request, "request")?;
        let room = message_buffer(hold, buf, count, datatype)?;
        let started = matched(hold, load(message, "message")?, room)?;
        store(message, "message", MPI_MESSAGE_NULL)?;
        match started {
            Some(key) => store_request(request, key),
            None => store(request, "request", REQUEST_NOBODY),
        }
    })
}
