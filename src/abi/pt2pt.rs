//! # Safety
//! Hands the application's buffers on: relies on its pointers, counts and datatypes.
//!
//! Point-to-point communication (MPI-4.1 §3).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::request::REQUEST_SENT;
use super::status::store_status;
use super::types::*;
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::pt2pt::persistent::{self, Operation};
use crate::mpi::pt2pt::probe;
use crate::mpi::pt2pt::{self, Mode};
use crate::mpi::request::{Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::State;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// The communication buffer that the program describes.
///
/// # Errors
/// `Count`, `Type` (null, freed, not committed), `Buffer` for a null address that is not MPI_BOTTOM.
#[inline]
pub fn buffer(state: &State, address: *const c_void, count: usize, datatype: MPI_Datatype) -> Result<Buffer> {
    let datatype = state.datatypes.committed(datatype)?;
    let buffer = Buffer::typed(address.cast_mut().cast(), count, datatype);
    if address.is_null() && datatype.true_lb() == 0 && !buffer.is_empty() {
        fail!(
            Buffer,
            "the buffer is a null pointer, but {count} elements are to be transferred"
        );
    }
    Ok(buffer)
}

/// Checks a rank argument: `Some` rank of the peers, or `None` for MPI_PROC_NULL.
#[inline]
fn dest(comm: &Comm, rank: c_int) -> Result<Option<u32>> {
    if (0..comm.peers().size() as c_int).contains(&rank) {
        return Ok(Some(rank as u32));
    }
    if rank == MPI_PROC_NULL {
        return Ok(None);
    }
    fail!(
        Rank,
        "Invalid rank has value {rank} but must be nonnegative and less than {}",
        comm.peers().size()
    )
}

#[inline]
fn source(comm: &Comm, rank: c_int) -> Result<Option<i32>> {
    if rank == MPI_ANY_SOURCE {
        return Ok(Some(rank));
    }
    Ok(dest(comm, rank)?.map(|rank| rank as i32))
}

#[inline]
fn send_tag(tag: c_int) -> Result<i32> {
    if tag < 0 {
        fail!(Tag, "Invalid tag, value is {tag} but must be nonnegative");
    }
    Ok(tag)
}

#[inline]
fn recv_tag(tag: c_int) -> Result<i32> {
    if tag == MPI_ANY_TAG { Ok(tag) } else { send_tag(tag) }
}

/// Arguments of a send, checked in the order in which MPICH does.
#[inline]
fn outgoing(
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
    Ok((buffer(state, address, count, datatype)?, to))
}

/// Arguments of a receive.
#[inline]
fn incoming(
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
    Ok((buffer(state, address, count, datatype)?, from))
}

fn store_request(request: *mut MPI_Request, key: RequestKey) -> Result<()> {
    store(request, "request", Object::Request.handle(key))
}

/// Starts a send; one that is over at once needs no request of its own.
#[inline]
fn start(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    buffer: Buffer,
    to: Option<u32>,
    tag: i32,
    mode: Option<Mode>,
    request: *mut MPI_Request,
) -> Result<()> {
    load(request, "request")?;
    let Some(to) = to else {
        return store(request, "request", REQUEST_SENT);
    };
    let at_once = match mode {
        Some(Mode::Synchronous) => false,
        Some(_) => pt2pt::send_inline(hold, comm, Plane::PointToPoint, &buffer, to, tag)?,
        None => {
            pt2pt::bsend(hold, comm, buffer.clone(), to, tag)?;
            true
        }
    };
    if at_once {
        return store(request, "request", REQUEST_SENT);
    }
    let mode = mode.unwrap_or(Mode::Standard);
    let key = pt2pt::isend(hold, comm, Plane::PointToPoint, buffer, to, tag, mode)?;
    store_request(request, key)
}

/// What an argument list describes, sent in `mode` (buffered: `None`).
#[inline]
fn send_now(
    name: &'static str,
    (buf, count, datatype): (*const c_void, i64, MPI_Datatype),
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Option<Mode>,
) -> c_int {
    on_comm(name, comm, |hold, comm| {
        let count = self::count(count, "count")?;
        let (buffer, to) = outgoing(hold, comm, buf, count, datatype, dest, tag)?;
        let Some(to) = to else { return Ok(()) };
        match mode {
            Some(mode) => pt2pt::send(hold, comm, Plane::PointToPoint, buffer, to, tag, mode),
            None => pt2pt::bsend(hold, comm, buffer, to, tag),
        }
    })
}

/// The same, started.
#[inline]
fn send_started(
    name: &'static str,
    (buf, count, datatype): (*const c_void, i64, MPI_Datatype),
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Option<Mode>,
    request: *mut MPI_Request,
) -> c_int {
    on_comm(name, comm, |hold, comm| {
        let count = self::count(count, "count")?;
        let (buffer, to) = outgoing(hold, comm, buf, count, datatype, dest, tag)?;
        start(hold, comm, buffer, to, tag, mode, request)
    })
}

/// The same, as a persistent request.
fn send_described(
    name: &'static str,
    (buf, count, datatype): (*const c_void, i64, MPI_Datatype),
    dest: c_int,
    tag: c_int,
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
        (buf, count.into(), datatype),
        dest,
        tag,
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
        (buf, count.into(), datatype),
        dest,
        tag,
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
        (buf, count.into(), datatype),
        dest,
        tag,
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
        (buf, count.into(), datatype),
        dest,
        tag,
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
        (buf, count.into(), datatype),
        dest,
        tag,
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
        (buf, count.into(), datatype),
        dest,
        tag,
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
        (buf, count.into(), datatype),
        dest,
        tag,
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
        (buf, count.into(), datatype),
        dest,
        tag,
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
        (buf, count.into(), datatype),
        dest,
        tag,
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
    send_now("MPI_Bsend", (buf, count.into(), datatype), dest, tag, comm, None)
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
        (buf, count.into(), datatype),
        dest,
        tag,
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
        (buf, count.into(), datatype),
        dest,
        tag,
        comm,
        None,
        request,
    )
}

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
        let (buffer, from) = incoming(hold, comm, buf, count, datatype, source, tag)?;
        let Some(from) = from else {
            return store_status(status, &Status::PROC_NULL);
        };
        let request = match pt2pt::recv_started(hold, comm, Plane::PointToPoint, buffer, from, tag)? {
            Ok(received) => return store_status(status, &received),
            Err(request) => request,
        };
        received(hold, request, status)
    })
}

/// Ends a blocking receive: the status is stored even if the message was too long.
fn received(hold: &mut Hold, request: RequestKey, status: *mut MPI_Status) -> Result<()> {
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
        let (buffer, from) = incoming(hold, comm, buf, count, datatype, source, tag)?;
        load(request, "request")?;
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

/// Starts the send and the receive of an exchange; MPI_PROC_NULL on a side leaves that side out.
fn exchange(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    out: (Buffer, Option<u32>, i32),
    room: (Buffer, Option<i32>, i32),
) -> Result<(RequestKey, Option<RequestKey>)> {
    let plane = Plane::PointToPoint;
    let recv = match room.1 {
        Some(from) => pt2pt::irecv(hold, comm, plane, room.0, from, room.2)?,
        None => hold.add_request(Request::over(Status::PROC_NULL))?,
    };
    let send = match out.1 {
        Some(to) => Some(pt2pt::isend(hold, comm, plane, out.0, to, out.2, Mode::Standard)?),
        None => None,
    };
    Ok((recv, send))
}

/// Sends and receives at the same time. MPI-4.1 §3.10.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Sendrecv(
    sendbuf: *const c_void,
    sendcount: Count,
    sendtype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    recvbuf: *mut c_void,
    recvcount: Count,
    recvtype: MPI_Datatype,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    on_comm("MPI_Sendrecv", comm, |hold, comm| {
        let (sendcount, recvcount) = (
            self::count(sendcount, "sendcount")?,
            self::count(recvcount, "recvcount")?,
        );
        let (out, to) = outgoing(hold, comm, sendbuf, sendcount, sendtype, dest, sendtag)?;
        let (room, from) = incoming(hold, comm, recvbuf, recvcount, recvtype, source, recvtag)?;
        sendrecv(hold, comm, (out, to, sendtag), (room, from, recvtag), status)
    })
}

fn sendrecv(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    out: (Buffer, Option<u32>, i32),
    room: (Buffer, Option<i32>, i32),
    status: *mut MPI_Status,
) -> Result<()> {
    let (recv, send) = exchange(hold, comm, out, room)?;
    hold.wait_until(None, |hold| {
        Ok(hold.is_over(recv) && send.is_none_or(|send| hold.is_over(send)))
    })?;
    if let Some(send) = send {
        pt2pt::finish(hold, send)?;
    }
    received(hold, recv, status)
}

/// Sends a buffer and receives into it. MPI-4.1 §3.10.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Sendrecv_replace(
    buf: *mut c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    on_comm("MPI_Sendrecv_replace", comm, |hold, comm| {
        let count = self::count(count, "count")?;
        let (out, to) = outgoing(hold, comm, buf, count, datatype, dest, sendtag)?;
        let (room, from) = incoming(hold, comm, buf, count, datatype, source, recvtag)?;
        sendrecv(
            hold,
            comm,
            (Buffer::kept(&out), to, sendtag),
            (room, from, recvtag),
            status,
        )
    })
}

/// Waits for a message without receiving it. MPI-4.1 §3.8.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Probe(source: c_int, tag: c_int, comm: MPI_Comm, status: *mut MPI_Status) -> c_int {
    on_comm("MPI_Probe", comm, |hold, comm| {
        let Some(from) = self::source(comm, source)? else {
            return store_status(status, &Status::PROC_NULL);
        };
        let found = probe::probe(hold, comm, from, recv_tag(tag)?)?;
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
    on_comm("MPI_Iprobe", comm, |hold, comm| {
        load(flag, "flag")?;
        let found = match self::source(comm, source)? {
            Some(from) => probe::iprobe(hold, comm, from, recv_tag(tag)?)?,
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
    on_world("MPI_Mrecv", |hold| {
        let count = self::count(count, "count")?;
        let room = buffer(hold, buf, count, datatype)?;
        let started = matched(hold, load(message, "message")?, room)?;
        store(message, "message", MPI_MESSAGE_NULL)?;
        let Some(request) = started else {
            return store_status(status, &Status::PROC_NULL);
        };
        hold.wait_until(None, |hold| Ok(hold.is_over(request)))?;
        received(hold, request, status)
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
        let room = buffer(hold, buf, count, datatype)?;
        let started = matched(hold, load(message, "message")?, room)?;
        store(message, "message", MPI_MESSAGE_NULL)?;
        let key = match started {
            Some(key) => key,
            None => hold.add_request(Request::over(Status::PROC_NULL))?,
        };
        store_request(request, key)
    })
}

/// Attaches a buffer for buffered sends. MPI-4.1 §3.6.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Buffer_attach(buffer: *mut c_void, size: Count) -> c_int {
    on_world("MPI_Buffer_attach", |hold| {
        let size = match i64::from(size) {
            size @ 0.. => size as usize,
            size => fail!(Arg, "size is {size} but must not be negative"),
        };
        if hold.engine.buffered.buffer.is_some() {
            fail!(Buffer, "a buffer is attached already");
        }
        let automatic = buffer == MPI_BUFFER_AUTOMATIC;
        let room = if automatic { usize::MAX } else { size };
        hold.engine.buffered.buffer = Some((buffer as usize, room));
        Ok(())
    })
}

/// Waits until all buffered sends have left. MPI-4.1 §3.6.
fn flush(hold: &mut Hold) -> Result<()> {
    hold.wait_until(None, |hold| Ok(hold.engine.buffered.is_idle()))
}

/// Waits for the buffered sends and takes their buffer back. MPI-4.1 §3.6.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Buffer_detach(buffer_addr: *mut c_void, size: *mut Count) -> c_int {
    on_world("MPI_Buffer_detach", |hold| {
        let Some((address, len)) = hold.engine.buffered.buffer else {
            fail!(Buffer, "no buffer is attached");
        };
        load(buffer_addr.cast::<u8>(), "buffer_addr")?;
        load(size, "size")?;
        flush(hold)?;
        hold.engine.buffered.buffer = None;
        store(buffer_addr.cast::<usize>(), "buffer_addr", address)?;
        store_count(size, "size", i64::try_from(len).unwrap_or(0))
    })
}

/// Waits until all buffered sends have left. MPI-4.1 §3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Buffer_flush() -> c_int {
    on_world("MPI_Buffer_flush", flush)
}
