//! # Safety
//! Hands the application's buffers on: relies on its pointers, counts and datatypes.
//!
//! Sending and receiving in one call (MPI-4.1 §3.10).
#![allow(unsafe_code)]

use super::coll_args::argument;
use super::constants::{MPI_PROC_NULL, MPI_SUCCESS};
use super::edge::*;
use super::pt2pt::*;
use super::recv::{self, received};
use super::send;
use super::status::store_status;
use super::types::*;
use crate::mpi::buffer::Buffer;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::pt2pt::engine::CAREFUL;
use crate::mpi::pt2pt::{self, Envelope, Plan};
use crate::mpi::request::parts::{Parts, Told};
use crate::mpi::request::{Kind, Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::State;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// `error`, of the message that an exchange sends.
fn sending(error: Error) -> Error {
    argument("sending", error)
}

/// ... or receives.
fn receiving(error: Error) -> Error {
    argument("receiving", error)
}

/// Starts the send and the receive of an exchange; MPI_PROC_NULL on a side leaves that side out.
fn exchange(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    out: (Buffer, Option<u32>, i32),
    room: (Buffer, Option<i32>, i32),
    plan: Plan,
) -> Result<(RequestKey, Option<RequestKey>)> {
    let plane = Plane::PointToPoint;
    let recv = match room.1 {
        Some(from) => pt2pt::irecv(hold, comm, plane, room.0, from, room.2)?,
        None => hold.add_request(Request::over(Status::PROC_NULL))?,
    };
    let send = match out.1 {
        Some(to) => Some(pt2pt::isend_planned(hold, comm, plane, (out.0, to, out.2), plan)?),
        None => None,
    };
    Ok((recv, send))
}

/// A copy of a buffer that is received into as well. With `NEARMPI_CHECK`, its receiver `to` is told the types, which
/// the copy does not know.
fn kept(hold: &mut Hold, comm: &Comm, out: &Buffer, to: Option<u32>, tag: i32) -> Result<Buffer> {
    if checked(hold)
        && let Some(to) = to
    {
        let (to, envelope) = pt2pt::address(comm, Plane::PointToPoint, to, tag);
        pt2pt::types::announce(hold, to, envelope, out)?;
    }
    Ok(Buffer::kept(out))
}

/// The short way of an exchange of rows of bytes with a rank on each side, or MPI_PROC_NULL: whether the message to receive has come, too,
/// when the other has left. `None`, and nothing done, when it cannot go that way or when anything is wrong: the long way says what.
#[inline(always)]
fn short(
    (sendbuf, sendcount, sendtype, dest, sendtag): send::Arguments,
    room: recv::Arguments,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Option<bool> {
    let mut hold = current_world()?.hold();
    let state: &mut State = &mut hold;
    if state.engine.detours & CAREFUL != 0 || sendtag < 0 || sendcount < 0 || sendbuf.is_null() {
        return None;
    }
    let comm = comm_of(state, comm)?;
    let member = |rank: c_int| match rank {
        MPI_PROC_NULL => Some(None),
        _ => comm.peers().members.get(rank as u32 as usize).copied().map(Some),
    };
    let source = room.3;
    let (to, from) = (member(dest)?, member(source)?);
    let (pattern, room) = recv::wanted(state, comm, room, status)?;
    let (address, len) = row(state, sendbuf, sendcount as usize, sendtype)?;
    let envelope = Envelope::program(comm, sendtag);
    if let Some(to) = to {
        // SAFETY: the program owns the bytes that it describes.
        let sent = len <= LEAVES_MAX && unsafe { pt2pt::send_row(state, (to, envelope), (address, len)) }.ok()?;
        sent.then_some(())?;
    }
    let received = match from {
        // SAFETY: the program owns the memory that it describes.
        Some(from) => unsafe { pt2pt::recv_glancing(state, (from, pattern), room, source) },
        None => Some(Status::PROC_NULL),
    };
    if let Some(received) = &received {
        recv::taken(state, None, received, status);
    }
    Some(received.is_some())
}

/// As [`short`], and then the rest of what that has begun, through the queues; `None` as there.
#[inline(always)]
fn done_short(
    name: &'static str,
    out: send::Arguments,
    room: recv::Arguments,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> Option<c_int> {
    match short(out, room, comm, status)? {
        true => Some(MPI_SUCCESS),
        false => Some(receive_rest(name, room, comm, status)),
    }
}

#[inline(never)]
fn receive_rest(
    name: &'static str,
    (buf, count, datatype, source, tag): recv::Arguments,
    comm: MPI_Comm,
    status: *mut MPI_Status,
) -> c_int {
    on_comm(name, comm, |hold, comm| {
        let count = self::count(count, "recvcount")?;
        let (room, from) = incoming(hold, comm, buf, count, datatype, source, tag).map_err(receiving)?;
        match from {
            Some(from) => {
                let request = pt2pt::recv_waiting(hold, comm, Plane::PointToPoint, room, from, tag)?;
                received(hold, request, status)
            }
            None => store_status(status, &Status::PROC_NULL),
        }
    })
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
    let out = (sendbuf, sendcount.into(), sendtype, dest, sendtag);
    let room = (recvbuf, recvcount.into(), recvtype, source, recvtag);
    if let Some(done) = done_short("MPI_Sendrecv", out, room, comm, status) {
        return done;
    }
    on_comm("MPI_Sendrecv", comm, |hold, comm| {
        let (sendcount, recvcount) = (
            self::count(sendcount, "sendcount")?,
            self::count(recvcount, "recvcount")?,
        );
        let (out, to) = outgoing(hold, comm, sendbuf, sendcount, sendtype, dest, sendtag).map_err(sending)?;
        let (room, from) = incoming(hold, comm, recvbuf, recvcount, recvtype, source, recvtag).map_err(receiving)?;
        match leave(hold, comm, &out, (to, from), sendtag)? {
            Ok(from) => receive(hold, comm, (room, from, recvtag), status),
            Err(plan) => sendrecv(hold, comm, (out, to, sendtag), (room, from, recvtag), plan, status),
        }
    })
}

/// Bytes up to which the message of an exchange leaves before its receive is posted: two ranks copy theirs in, and then out while they are
/// still in their caches.
const LEAVES_MAX: usize = 1 << 20;

/// Sends the message of an exchange with a rank on each side, here and now, if that needs no waiting: whom to receive from, or how
/// the message is to go.
fn leave(
    hold: &mut Hold,
    comm: &Comm,
    out: &Buffer,
    (to, from): (Option<u32>, Option<i32>),
    tag: i32,
) -> Result<std::result::Result<i32, Plan>> {
    let (Some(to), Some(from), ..=LEAVES_MAX) = (to, from, out.len()) else {
        return Ok(Err(None));
    };
    let sent = pt2pt::send_whole(hold, comm, Plane::PointToPoint, out, (to, tag), false)?;
    Ok(sent.map(|()| from))
}

fn sendrecv(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    out: (Buffer, Option<u32>, i32),
    room: (Buffer, Option<i32>, i32),
    plan: Plan,
    status: *mut MPI_Status,
) -> Result<()> {
    let (recv, send) = exchange(hold, comm, out, room, plan)?;
    hold.wait_until(None, |hold| {
        Ok(hold.is_over(recv) && send.is_none_or(|send| hold.is_over(send)))
    })?;
    if let Some(send) = send {
        pt2pt::finish(hold, send)?;
    }
    received(hold, recv, status)
}

/// The second half of an exchange whose message has left.
fn receive(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    (room, from, tag): (Buffer, i32, i32),
    status: *mut MPI_Status,
) -> Result<()> {
    match pt2pt::recv_started(hold, comm, Plane::PointToPoint, room, from, tag)? {
        Ok(received) => store_status(status, &received),
        Err(request) => received(hold, request, status),
    }
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
    // What leaves at once needs no copy.
    let out = (buf.cast_const(), count.into(), datatype, dest, sendtag);
    let room = (buf, count.into(), datatype, source, recvtag);
    if let Some(done) = done_short("MPI_Sendrecv_replace", out, room, comm, status) {
        return done;
    }
    on_comm("MPI_Sendrecv_replace", comm, |hold, comm| {
        let count = self::count(count, "count")?;
        let (out, to) = outgoing(hold, comm, buf, count, datatype, dest, sendtag).map_err(sending)?;
        let (room, from) = incoming(hold, comm, buf, count, datatype, source, recvtag).map_err(receiving)?;
        match leave(hold, comm, &out, (to, from), sendtag)? {
            Ok(from) => receive(hold, comm, (room, from, recvtag), status),
            Err(plan) => {
                let out = (kept(hold, comm, &out, to, sendtag)?, to, sendtag);
                sendrecv(hold, comm, out, (room, from, recvtag), plan, status)
            }
        }
    })
}

/// The request of an exchange; its status is the receive's.
fn isendrecv(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    out: (Buffer, Option<u32>, i32),
    room: (Buffer, Option<i32>, i32),
    request: *mut MPI_Request,
) -> Result<()> {
    load(request, "request")?;
    let (recv, send) = exchange(hold, comm, out, room, None)?;
    let halves = std::iter::once(recv).chain(send).collect();
    let parts = Parts::new(halves, Told::First);
    let key = hold.add_request(Request::new(Kind::Parts(parts), Some(comm.clone())))?;
    store_request(request, key)
}

/// Starts sending and receiving at the same time. MPI-4.1 §3.10.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Isendrecv(
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
    request: *mut MPI_Request,
) -> c_int {
    on_comm("MPI_Isendrecv", comm, |hold, comm| {
        let (sendcount, recvcount) = (
            self::count(sendcount, "sendcount")?,
            self::count(recvcount, "recvcount")?,
        );
        let (out, to) = outgoing(hold, comm, sendbuf, sendcount, sendtype, dest, sendtag).map_err(sending)?;
        let (room, from) = incoming(hold, comm, recvbuf, recvcount, recvtype, source, recvtag).map_err(receiving)?;
        isendrecv(hold, comm, (out, to, sendtag), (room, from, recvtag), request)
    })
}

/// Starts sending a buffer and receiving into it. MPI-4.1 §3.10.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Isendrecv_replace(
    buf: *mut c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    sendtag: c_int,
    source: c_int,
    recvtag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    on_comm("MPI_Isendrecv_replace", comm, |hold, comm| {
        let count = self::count(count, "count")?;
        let (out, to) = outgoing(hold, comm, buf, count, datatype, dest, sendtag).map_err(sending)?;
        let (room, from) = incoming(hold, comm, buf, count, datatype, source, recvtag).map_err(receiving)?;
        let out = (kept(hold, comm, &out, to, sendtag)?, to, sendtag);
        isendrecv(hold, comm, out, (room, from, recvtag), request)
    })
}
