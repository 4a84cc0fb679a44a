//! # Safety
//! Hands the application's buffers to the channel, relying on the promise of [`super::buffer`].
//!
//! Point-to-point communication (MPI-4.1 §3): policy; bytes are the channel's matter.
#![allow(unsafe_code)]

mod asked;
pub mod buffered;
pub mod engine;
mod glance;
pub mod matching;
mod offered;
pub mod partitioned;
pub mod persistent;
mod portions;
pub mod probe;
#[cfg(test)]
mod program_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod threads_tests;
pub mod types;
pub mod unexpected;
mod vain;

use super::buffer::{Buffer, Layout};
use super::comm::{Comm, Plane};
use super::error::{Class, Error, Result};
use super::request::{self, Kind, Receive, Request, RequestKey};
use super::status::Status;
use super::world::{Hold, State};
use crate::channel::Bytes;
use crate::channel::outgoing::{Sent, Terms};
use crate::channel::packet::Way;
use crate::channel::parts::GATHERED;
use crate::fail;
use crate::mpi::error::fault;
use crate::sys::cpu;
use buffered::Charge;
pub use glance::{Looks, look_for_awaited, mprobe_glancing, mrecv_glancing, recv_glancing, recv_glancing_any};
pub use matching::{Envelope, Pattern};
use std::rc::Rc;

/// Communication modes of MPI-4.1 §3.4 (buffered sends copy first and then are standard sends).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// May complete before a matching receive is posted.
    Standard,
    /// Completes only once a matching receive has started.
    Synchronous,
    /// The receive is posted already, says the program.
    Ready,
}

impl Bytes for Buffer {
    #[inline]
    fn len(&self) -> usize {
        Buffer::len(self)
    }

    #[inline]
    fn in_a_row(&self) -> Option<*mut u8> {
        Buffer::in_a_row(self)
    }

    fn kept(&self) -> Self {
        Buffer::kept(self)
    }

    #[inline]
    unsafe fn take(&self, position: usize, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise; the program owns the buffer until the operation is over.
        unsafe { self.pack(position, to, len) }
    }

    #[inline]
    unsafe fn put(&self, position: usize, from: *const u8, len: usize) {
        // SAFETY: as above.
        unsafe { self.unpack(position, from, len) }
    }
}

/// Blocking send to rank `dest` of `comm.peers()` (never PROC_NULL).
///
/// # Errors
/// A peer that left the protocol; too many requests.
#[inline]
pub fn send(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    plane: Plane,
    buffer: Buffer,
    dest: u32,
    tag: i32,
    mode: Mode,
) -> Result<()> {
    let mut plan = None;
    if mode != Mode::Synchronous {
        match send_whole(hold, comm, plane, &buffer, (dest, tag), true)? {
            Ok(()) => return Ok(()),
            Err(said) => plan = said,
        }
    }
    let request = begin(hold, comm, plane, buffer, dest, tag, mode, false, plan)?;
    let to = comm.peers().world(dest);
    hold.wait_over(Some(to), request)?;
    finish(hold, request).map(drop)
}

/// What [`crate::channel::Channel::plan`] has said of a message, if it has been asked.
pub type Plan = Option<Option<Way>>;

/// Sends a message that the program waits for, whole, here and now, if that needs no waiting and no other way is better; the plan
/// otherwise. `alone`: the program does nothing else meanwhile.
///
/// # Errors
/// A peer that left the protocol.
#[inline]
pub fn send_whole(
    hold: &mut Hold,
    comm: &Comm,
    plane: Plane,
    buffer: &Buffer,
    (dest, tag): (u32, i32),
    alone: bool,
) -> Result<std::result::Result<(), Plan>> {
    let learns = alone && hold.engine.channel.learns(buffer.len());
    if !learns && send_at_once(hold, comm, plane, buffer, dest, tag)? {
        return Ok(Ok(()));
    }
    if hold.is_checking() || buffer.len() > u32::MAX as usize {
        return Ok(Err(None));
    }
    let (to, envelope) = address(comm, plane, dest, tag);
    let channel = &mut hold.engine.channel;
    if alone && !buffer.is_in_a_row() && channel.push_gathered(to, envelope.0, buffer).map_err(fault)? {
        return Ok(Ok(()));
    }
    let way = match learns {
        true => channel.plan_awaited(to, buffer),
        false => channel.plan(to, buffer),
    };
    if let (None, Layout::Bytes(len)) = (way, &buffer.layout)
        // SAFETY: the program owns `len` bytes at the address, the promise of `Buffer`.
        && unsafe { channel.push_long(to, envelope.0, buffer.address, *len) }.map_err(fault)?
    {
        if channel.meter().is_some() {
            channel.count_row(to, envelope.0, *len);
        }
        return Ok(Ok(()));
    }
    Ok(Err(Some(way)))
}

/// Sends a message in a row through the ring, if that needs no waiting; false when it does or the message is too long.
///
/// # Errors
/// A peer that left the protocol.
#[inline(always)]
pub fn send_at_once(
    state: &mut State,
    comm: &Comm,
    plane: Plane,
    buffer: &Buffer,
    dest: u32,
    tag: i32,
) -> Result<bool> {
    state.check_peer(comm, plane, Some(dest))?;
    match buffer.layout {
        // SAFETY: the program owns `len` bytes at the address, the promise of `Buffer`.
        Layout::Bytes(len) => unsafe { send_row(state, address(comm, plane, dest, tag), (buffer.address, len)) },
        _ => Ok(false),
    }
}

/// Where a message goes: the receiver's rank in the job, and the envelope.
#[inline(always)]
pub fn address(comm: &Comm, plane: Plane, dest: u32, tag: i32) -> (u32, Envelope) {
    let envelope = Envelope::new(comm.context_on(plane), comm.rank, tag);
    (comm.peers().world(dest), envelope)
}

/// As [`send_at_once`], for `len` bytes at `data`. The caller knows that nobody has died.
///
/// # Safety
/// They are readable.
///
/// # Errors
/// As [`send_at_once`].
#[inline(always)]
pub unsafe fn send_row(
    state: &mut State,
    (to, envelope): (u32, Envelope),
    (data, len): (*const u8, usize),
) -> Result<bool> {
    // SAFETY: the caller's promise.
    unsafe { state.engine.channel.send_row(to, envelope.0, data, len) }.map_err(fault)
}

/// Starts a send and returns its request.
///
/// # Errors
/// A peer that left the protocol; too many requests or open offers.
pub fn isend(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    plane: Plane,
    buffer: Buffer,
    dest: u32,
    tag: i32,
    mode: Mode,
) -> Result<RequestKey> {
    begin(hold, comm, plane, buffer, dest, tag, mode, true, None)
}

/// As [`isend`] of a standard message that [`send_whole`] has not sent, but planned.
///
/// # Errors
/// As [`isend`].
pub fn isend_planned(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    plane: Plane,
    (buffer, dest, tag): (Buffer, u32, i32),
    plan: Plan,
) -> Result<RequestKey> {
    begin(hold, comm, plane, buffer, dest, tag, Mode::Standard, false, plan)
}

/// As [`isend`]; the program can cancel it or not.
#[allow(clippy::too_many_arguments)]
fn begin(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    plane: Plane,
    buffer: Buffer,
    dest: u32,
    tag: i32,
    mode: Mode,
    cancellable: bool,
    plan: Plan,
) -> Result<RequestKey> {
    if hold.is_checking() && plane == Plane::PointToPoint {
        hold.check_overlap(&buffer, false)?;
        let (to, envelope) = address(comm, plane, dest, tag);
        types::announce(hold, to, envelope, &buffer)?;
    }
    let key = hold.add_request(Request::new(Kind::Send(None), Some(comm.clone())))?;
    let started = start_send(hold, key, comm, plane, &buffer, dest, tag, mode, cancellable, plan);
    if started.is_err() {
        hold.requests.remove(key);
    }
    started.map(|()| key)
}

#[allow(clippy::too_many_arguments)]
fn start_send(
    state: &mut State,
    key: RequestKey,
    comm: &Rc<Comm>,
    plane: Plane,
    buffer: &Buffer,
    dest: u32,
    tag: i32,
    mode: Mode,
    cancellable: bool,
    plan: Plan,
) -> Result<()> {
    let to = comm.peers().world(dest);
    state.check_peer(comm, plane, Some(dest))?;
    let envelope = Envelope::new(comm.context_on(plane), comm.rank, tag).0;
    let channel = &mut state.engine.channel;
    let plan = plan.unwrap_or_else(|| channel.plan(to, buffer));
    if mode == Mode::Synchronous || plan.is_some() {
        let way = plan.unwrap_or(Way::Cells);
        let synchronous = mode == Mode::Synchronous;
        let offered = match synchronous && plan.is_none() && channel.asks(buffer.len()) {
            true => channel.ask(to, envelope, buffer, key, cancellable),
            false => {
                let terms = Terms {
                    may_leave: !synchronous,
                    may_cancel: cancellable,
                };
                channel.offer(to, envelope, buffer, key, way, terms)
            }
        };
        if let Some(id) = offered.map_err(fault)? {
            if let Some(request) = state.requests.get_mut(key) {
                request.kind = Kind::Send(Some(id));
            }
            return Ok(());
        }
        if synchronous {
            fail!(
                Other,
                "this rank has {} synchronous and one-copy messages under way, which is as many as it may have",
                crate::shm::offer::OFFERS
            );
        }
    }
    if channel.send(to, envelope, buffer, key).map_err(fault)? == Sent::Done {
        state.complete(key, Status::EMPTY, None);
    }
    Ok(())
}

/// Buffered send: the message is copied at once and the request is over (MPI_Ibsend).
///
/// # Errors
/// `Buffer` when the attached buffer has no room; as [`isend`].
pub fn ibsend(hold: &mut Hold, comm: &Rc<Comm>, buffer: Buffer, dest: u32, tag: i32) -> Result<RequestKey> {
    bsend(hold, comm, buffer, dest, tag)?;
    hold.add_request(Request::over(Status::EMPTY))
}

/// Blocking buffered send.
///
/// # Errors
/// As [`ibsend`].
pub fn bsend(hold: &mut Hold, comm: &Rc<Comm>, buffer: Buffer, dest: u32, tag: i32) -> Result<()> {
    hold.check_peer(comm, Plane::PointToPoint, Some(dest))?;
    let charge = Charge::take(hold.account(comm), buffer.len())?;
    let (to, envelope) = address(comm, Plane::PointToPoint, dest, tag);
    if hold.is_checking() {
        types::announce(hold, to, envelope, &buffer)?;
    }
    let kept = Buffer::kept(&buffer);
    let mut request = Request::new(Kind::Buffered(charge), Some(comm.clone()));
    request.detached = true;
    let key = hold.add_request(request)?;
    if hold.engine.channel.send(to, envelope.0, &kept, key).map_err(fault)? == Sent::Done {
        hold.complete(key, Status::EMPTY, None);
    }
    Ok(())
}

/// Blocking receive from `source` (a rank of `comm.peers()` or ANY_SOURCE) with `tag` (or ANY_TAG).
///
/// # Errors
/// `Truncate` when the message is longer than the buffer; a peer that left the protocol.
pub fn recv(hold: &mut Hold, comm: &Rc<Comm>, plane: Plane, buffer: Buffer, source: i32, tag: i32) -> Result<Status> {
    match recv_started(hold, comm, plane, buffer, source, tag)? {
        Ok(status) => Ok(status),
        Err(request) => finish(hold, request),
    }
}

/// A blocking receive: its status, or the request, over, that tells how it ended.
///
/// # Errors
/// A peer that left the protocol.
#[inline]
pub fn recv_started(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    plane: Plane,
    buffer: Buffer,
    source: i32,
    tag: i32,
) -> Result<std::result::Result<Status, RequestKey>> {
    let came = match buffer.layout {
        Layout::Bytes(len) => probe::first(comm, source).and_then(|from| {
            let awaited = (from, Pattern::new(comm.context_on(plane), source, tag));
            // SAFETY: the program owns `len` bytes at the address, the promise of `Buffer`.
            unsafe { recv_glancing(hold, awaited, (buffer.address, len), source) }
        }),
        _ => recv_scattered(hold, comm, plane, &buffer, source, tag).transpose()?,
    };
    match came {
        Some(status) => Ok(Ok(status)),
        None => recv_waiting(hold, comm, plane, buffer, source, tag).map(Err),
    }
}

/// The short way of a receive of few bytes that are not to lie in a row: as [`recv_glancing`], into memory of this rank's own first.
/// `None`, and nothing done, where they do, or when it cannot go that way.
pub fn recv_scattered(
    hold: &mut Hold,
    comm: &Comm,
    plane: Plane,
    buffer: &Buffer,
    source: i32,
    tag: i32,
) -> Option<Result<Status>> {
    let room = buffer.len();
    if buffer.is_in_a_row() || room > GATHERED || hold.engine.detours & engine::CAREFUL != 0 {
        return None;
    }
    let awaited = (
        probe::first(comm, source)?,
        Pattern::new(comm.context_on(plane), source, tag),
    );
    let mut row = std::mem::take(&mut hold.desk.blocks);
    if row.len() < room {
        row.resize(GATHERED, 0);
    }
    // SAFETY: the row has room for so many bytes.
    let came = unsafe { recv_glancing(hold, awaited, (row.as_mut_ptr(), room), source) };
    if let Some(status) = &came {
        // SAFETY: so many bytes have come, for which the buffer has room; the program owns it.
        unsafe { buffer.unpack(0, row.as_ptr(), status.bytes as usize) };
    }
    hold.desk.blocks = row;
    let status = came?;
    let wrong = misfit((status.source, status.tag), status.bytes as usize, buffer);
    Some(wrong.map_or(Ok(status), Err))
}

/// What is wrong with receiving a message of `len` bytes into `buffer`: it is longer (`Truncate`), or ends within a value of a
/// datatype with gaps (`Type`, MPI-4.1 §3.3.1), as other libraries notice too.
fn misfit((source, tag): (i32, i32), len: usize, buffer: &Buffer) -> Option<Error> {
    let room = buffer.len();
    let (class, what) = match &buffer.layout {
        _ if len > room => (
            Class::Truncate,
            format!("is longer than the receive buffer of {room} bytes"),
        ),
        Layout::Typed { datatype, .. } if len < room && datatype.elements_in(len as u64).is_none() => {
            (Class::Type, "ends within a value of the receive's datatype".to_owned())
        }
        _ => return None,
    };
    let text = format!("message of {len} bytes from rank {source} with tag {tag} {what}");
    Some(Error::new(class, text))
}

/// The same through the queues: the request, over.
///
/// # Errors
/// A peer that left the protocol.
#[inline(never)]
pub fn recv_waiting(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    plane: Plane,
    buffer: Buffer,
    source: i32,
    tag: i32,
) -> Result<RequestKey> {
    let request = irecv(hold, comm, plane, buffer, source, tag)?;
    let first = probe::first(comm, source);
    if !hold.has_threads() {
        hold.wait_over(first, request)?;
        return Ok(request);
    }
    hold.engine.blocked.push((request, cpu::thread()));
    let outcome = hold.wait_over(first, request);
    hold.engine.blocked.retain(|&(blocked, _)| blocked != request);
    outcome.map(|()| request)
}

/// Starts a receive and returns its request.
///
/// # Errors
/// A peer that left the protocol; too many requests.
#[inline(always)]
pub fn irecv(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    plane: Plane,
    buffer: Buffer,
    source: i32,
    tag: i32,
) -> Result<RequestKey> {
    if hold.is_checking() && plane == Plane::PointToPoint {
        hold.check_overlap(&buffer, true)?;
    }
    let pattern = Pattern::new(comm.context_on(plane), source, tag);
    match hold.posts_at_once() {
        true => hold.add_posted(comm.clone(), buffer, pattern),
        false => hold.meet(comm.clone(), buffer, pattern),
    }
}

/// Starts the receive of a message that a probe has taken; `matched` is used up.
///
/// # Errors
/// `Request` when `matched` is no such message.
pub fn imrecv(hold: &mut Hold, matched: RequestKey, buffer: Buffer) -> Result<RequestKey> {
    if !matches!(
        hold.requests.get(matched).map(|request| &request.kind),
        Some(Kind::Matched(..))
    ) {
        fail!(Request, "the message handle names no matched message");
    }
    let taken = hold.requests.remove(matched);
    let Some(Request {
        kind: Kind::Matched(envelope, stored),
        comm,
        ..
    }) = taken
    else {
        fail!(Intern, "a message vanished between two looks");
    };
    let receive = Kind::Recv(Receive::new(buffer));
    let key = hold.add_request(Request::new(receive, comm))?;
    hold.move_note(matched, Some(key));
    hold.give_claimed(key, envelope, stored)?;
    Ok(key)
}

/// Whether the operation is over; makes no progress.
#[inline]
pub fn is_done(hold: &Hold, request: RequestKey) -> bool {
    hold.is_over(request)
}

/// Frees a request that is over and tells how it ended.
///
/// # Errors
/// What the operation ended with.
pub fn finish(hold: &mut Hold, request: RequestKey) -> Result<Status> {
    let outcome = request::finish(hold, request);
    outcome.error.map_or(Ok(outcome.status), Err)
}

/// Waits for the operation, frees the request and tells how it ended.
///
/// # Errors
/// What the operation ended with.
pub fn wait(hold: &mut Hold, request: RequestKey) -> Result<Status> {
    hold.wait_over(None, request)?;
    finish(hold, request)
}

impl State {
    /// Whether a receive can be posted without a look at messages that are kept and at ranks that have died.
    #[inline(always)]
    pub fn posts_at_once(&self) -> bool {
        self.engine.unexpected.is_empty() && self.engine.events == 0
    }

    /// Gives a receive the first kept message that matches, or posts it.
    #[inline(never)]
    fn meet(&mut self, comm: Rc<Comm>, buffer: Buffer, pattern: Pattern) -> Result<RequestKey> {
        let key = self.add_request(Request::new(Kind::Recv(Receive::new(buffer)), Some(comm)))?;
        while !self.engine.unexpected.is_empty()
            && let Some((envelope, stored)) = self.engine.unexpected.take(pattern)
        {
            if self.give(key, envelope, stored)? {
                return Ok(key);
            }
        }
        match self.engine.events {
            0 => self.post(key, pattern),
            _ => self.post_among_survivors(key, pattern),
        }
        Ok(key)
    }
}
