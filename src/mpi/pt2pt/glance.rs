//! # Safety
//! Copies messages out of the rings into the buffers that its callers promise.
//!
//! The short ways of blocking receives, waits and probes: a look at the kept messages and at the rings, without the queues.
#![allow(unsafe_code)]

use super::engine::{Engine, STEP};
use super::matching::{Envelope, Pattern, Place};
use super::unexpected::Stored;
use crate::channel::Glance;
use crate::mpi::coll::board::started;
use crate::mpi::comm::Comm;
use crate::mpi::error::Result;
use crate::mpi::request::{Kind, Receive, Request, RequestKey, Stage};
use crate::mpi::status::Status;
use crate::mpi::world::{Hold, State};
use crate::sys::{copy, cpu};
use std::rc::Rc;

impl Engine {
    /// Whether a message with `envelope` is for a posted receive, and not for one that this thread begins now. Blocking
    /// receives that other threads wait in do not come first: receives of two threads that do not know of each other's are
    /// concurrent (MPI-4.1 §3.5), and a thread that runs takes a message in far less time than waking one that waits.
    #[inline(always)]
    pub fn is_for_posted(&mut self, envelope: Envelope) -> bool {
        self.posted.wants(envelope) && (self.blocked.is_empty() || self.is_for_unblocked(envelope))
    }

    #[inline(never)]
    fn is_for_unblocked(&mut self, envelope: Envelope) -> bool {
        let (me, blocked) = (cpu::thread(), &self.blocked);
        let of_another = |key| blocked.iter().any(|&(wanted, thread)| wanted == key && thread != me);
        self.posted.wants_but(envelope, of_another)
    }
}

/// The short way of a message that has come, or is the next in the ring from rank `from` of the job: it goes straight into
/// the buffer if it is the one that is waited for, from `source` as the program says. `None` when it is not, or does not
/// come at once.
///
/// # Safety
/// `address` has room for `room` bytes.
#[inline(always)]
pub unsafe fn recv_glancing(
    state: &mut State,
    (from, pattern): (u32, Pattern),
    (address, room): (*mut u8, usize),
    source: i32,
) -> Option<Status> {
    // The loop of looks shall have the registers: nothing comes back to it from here.
    match state.engine.unexpected.is_empty() {
        // SAFETY: the caller's promise.
        true => unsafe { recv_next(state, (from, pattern), (address, room), source, None) },
        // SAFETY: the caller's promise.
        false => unsafe { recv_behind(state, (from, pattern), (address, room), source) },
    }
}

/// As [`recv_glancing`], where messages are kept.
///
/// # Safety
/// As [`recv_glancing`].
#[inline(never)]
unsafe fn recv_behind(
    state: &mut State,
    (from, pattern): (u32, Pattern),
    (address, room): (*mut u8, usize),
    source: i32,
) -> Option<Status> {
    match state.engine.unexpected.find(pattern) {
        // SAFETY: the caller's promise.
        Some(place) => unsafe { recv_kept(state, place, (address, room)) },
        // SAFETY: the caller's promise.
        None => unsafe { recv_next(state, (from, pattern), (address, room), source, None) },
    }
}

/// What the ring from `from` shows as soon as something is there, with the looks that were left; `None` after the last.
#[inline(always)]
fn look_out(engine: &mut Engine, from: u32, room: usize) -> Option<(Glance, u32)> {
    // Who has something to send on goes back to the queues sooner.
    let room = if engine.channel.is_flushed() { room } else { 0 };
    let looks = engine.glances.granted(room, || engine.channel.needs_this_cpu(from));
    let seen = engine.channel.look_out(from, looks);
    if seen.is_none() {
        engine.glances.lost();
    }
    seen
}

/// As [`recv_glancing`], where no such message is kept. What is in the ring has been waited for with `left` looks left, or
/// not waited for.
///
/// # Safety
/// As [`recv_glancing`].
#[inline(always)]
unsafe fn recv_next(
    state: &mut State,
    (from, pattern): (u32, Pattern),
    (address, room): (*mut u8, usize),
    source: i32,
    mut left: Option<u32>,
) -> Option<Status> {
    let engine = &mut state.engine;
    let mut glance = engine.channel.glance(from);
    if let Glance::Nothing = glance {
        let (found, looks) = look_out(engine, from, room)?;
        (glance, left) = (found, Some(looks));
    }
    let (envelope, data, len, outside) = match glance {
        Glance::Whole {
            envelope,
            data,
            len,
            outside,
        } => (envelope, data, len, outside),
        Glance::Part => {
            if let Some(left) = left {
                engine.glances.paid(left);
            }
            // SAFETY: the caller's promise.
            let (envelope, len) = unsafe { state.gather(from, pattern, (address, room), left.is_some()) }?;
            return Some(Status::received(source, envelope.tag(), len));
        }
        // SAFETY: the caller's promise.
        Glance::Other => return unsafe { recv_awaited(state, (from, pattern), (address, room), (source, left)) },
        Glance::Nothing => return None,
    };
    if left.is_some() {
        engine.channel.expect_answer(from, outside);
    }
    let envelope = Envelope(envelope);
    if !pattern.matches(envelope) || len > room || engine.is_for_posted(envelope) {
        return None;
    }
    // One copy for either place: a processor that foresees which it is begins while the slot is still on its way.
    match outside {
        // SAFETY: the slot holds `len` bytes until it is left; the caller's promise.
        0 => unsafe { copy::few(data, address, len) },
        // SAFETY: the ring holds them until they are left; the caller's promise.
        _ => unsafe { copy::bytes(data, address, len) },
    }
    engine.channel.leave(from, outside);
    if let Some(left) = left {
        engine.glances.paid(left);
    }
    Some(Status::received(source, envelope.tag(), len))
}

/// The short way of a wait or test for `key`, if that is a receive from one rank, started from a persistent request or not, or waits for
/// one as a part or for a collective operation: a look at the ring of that rank, or at what a collective operation waits for on others'
/// boards, and whether anything has come. The request may be over then or not.
///
/// # Errors
/// What makes progress impossible.
#[inline(always)]
pub fn look_for_awaited(hold: &mut Hold, key: RequestKey, looks: Looks) -> Result<bool> {
    let (engine, channel) = (&hold.engine, &hold.engine.channel);
    let usual = engine.detours == 0 && engine.events == 0 && !engine.polling;
    // What waits to be sent, or is copied by both sides, goes on only in the queues.
    if !(usual && channel.is_flushed() && !channel.shares() && channel.meter().is_none()) {
        return Ok(false);
    }
    let has_come = match posted(hold, key, looks) {
        Some((key, place, looks)) => look_for(hold, key, place, looks),
        None if hold.desk.started.is_empty() => false,
        None => started::look_out(hold, hold.active(key), looks != Looks::Once),
    };
    if has_come {
        hold.moved()?;
    }
    Ok(has_come)
}

/// The receive that `key` is, has started or waits for, the rank of the job whose ring has its message or the rest of it, and its room.
#[inline(always)]
fn posted(state: &State, key: RequestKey, looks: Looks) -> Option<(RequestKey, (u32, usize), Looks)> {
    let (mut key, mut looks, mut request) = (key, looks, state.requests.get(key)?);
    if let Kind::Persistent(persistent) = &request.kind {
        key = persistent.active?;
        request = state.requests.get(key)?;
    }
    let message = match &request.kind {
        Kind::Parts(parts) => match parts.under_way(state) {
            None => return state.partitioning.source(key).map(|source| (key, source, looks)),
            part => part,
        },
        // Where ranks share CPUs, the others of the operation may need this one.
        Kind::Collective if !state.engine.channel.segment().lacks_cpus() => Some(state.schedules.awaited(state, key)?),
        _ => None,
    };
    if let Some(message) = message {
        key = message;
        request = state.requests.get(key)?;
        looks = match looks {
            Looks::Once => looks,
            Looks::Out | Looks::OutForAll => Looks::OutForAll,
        };
    }
    let Kind::Recv(Receive { buffer, stage }) = &request.kind else {
        return None;
    };
    let from = match stage {
        Stage::Posted(token) => {
            let source = state.engine.posted.wanted(*token)?.source()?;
            request.comm.as_ref()?.peers().world(source)
        }
        Stage::Coming(coming) if state.engine.streams_to(coming.from, key) => coming.from,
        _ => return None,
    };
    Some((key, (from, buffer.len()), looks))
}

/// What is next in the ring from `from`; if the program `waits`, what has come into an empty one, with the looks that were left.
#[inline(always)]
fn next(engine: &mut Engine, from: u32, room: usize, waits: bool) -> Option<(Glance, Option<u32>)> {
    match engine.channel.glance(from) {
        Glance::Nothing if waits => look_out(engine, from, room).map(|(found, looks)| (found, Some(looks))),
        Glance::Nothing => None,
        glance => Some((glance, None)),
    }
}

/// What looks for a receive's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// A test: takes what lies there.
    Once,
    /// A wait: looks out for it.
    Out,
    /// A wait for several: looks out for it, and takes what lies behind it as long as others are posted.
    OutForAll,
}

/// Looks at the ring from rank `from` of the job alone until the posted receive `key` of up to `room` bytes has its message, as
/// long as messages or parts of them come; whether any has.
#[inline(never)]
fn look_for(state: &mut State, key: RequestKey, (from, room): (u32, usize), looks: Looks) -> bool {
    let (mut count, mut waits) = (0, looks != Looks::Once);
    while count < STEP {
        let is_over = match state.requests.get(key) {
            Some(request) if request.done.is_none() => {
                matches!(&request.kind, Kind::Parts(parts) if parts.are_over(state))
            }
            _ => true,
        };
        if is_over {
            if looks != Looks::OutForAll || state.engine.posted.is_empty() {
                break;
            }
            waits = false;
        }
        let Some((glance, left)) = next(&mut state.engine, from, room, waits) else {
            break;
        };
        if !take_next(state, from, glance, left) {
            break;
        }
        count += 1;
    }
    if count > 0 && looks == Looks::Once {
        // Who tests again and again gives way now and then, by what its tests have found and whom it has heard of.
        state.engine.vain.found();
        state.engine.channel.noticed(from);
    }
    count > 0
}

/// As [`recv_glancing`], from any member of `comm`'s peers, which are looked at in turn: the first is the one behind the last
/// that had something.
///
/// # Safety
/// As [`recv_glancing`].
#[inline(never)]
pub unsafe fn recv_glancing_any(
    state: &mut State,
    comm: &Comm,
    pattern: Pattern,
    (address, room): (*mut u8, usize),
) -> Option<Status> {
    if !state.engine.unexpected.is_empty()
        && let Some(place) = state.engine.unexpected.find(pattern)
    {
        // SAFETY: the caller's promise.
        return unsafe { recv_kept(state, place, (address, room)) };
    }
    let (at, left) = next_of_any(state, comm, true)?;
    let from = comm.peers().members[at];
    // SAFETY: the caller's promise.
    unsafe { recv_next(state, (from, pattern), (address, room), at as i32, left) }
}

/// Which of `comm`'s peers has something in its ring: the first behind the last that had. If the program `waits`, until one has, for
/// as many looks as it is granted; with those that are left then.
#[inline(always)]
fn next_of_any(state: &mut State, comm: &Comm, waits: bool) -> Option<(usize, Option<u32>)> {
    let engine = &mut state.engine;
    let members = &comm.peers().members;
    let (mut at, mut left) = (engine.turn, None);
    loop {
        for _ in members {
            at = if at + 1 < members.len() { at + 1 } else { 0 };
            if engine.channel.has_next(members[at]) {
                engine.turn = at;
                return Some((at, left));
            }
        }
        if !waits {
            return None;
        }
        let before = left.unwrap_or_else(|| engine.glances.granted(0, || false));
        left = before.checked_sub(members.len() as u32);
        if left.is_none() {
            engine.glances.lost();
            return None;
        }
        std::hint::spin_loop();
    }
}

/// The short way of a probe on `comm` that finds nothing among the kept messages: the status of the message that is next in the ring
/// from the source, where it is left; from any source it is kept, for a receive from any is to get this one. `None` when that is none of
/// `pattern`'s, or none is there; if the program `waits`, none that comes soon.
#[inline(never)]
pub fn probe_next(hold: &mut Hold, comm: &Comm, pattern: Pattern, waits: bool) -> Option<Status> {
    let Some(source) = pattern.source() else {
        return keep_next(hold, comm, pattern, waits).then(|| hold.look(pattern))?;
    };
    let from = comm.peers().world(source);
    let engine = &mut hold.engine;
    let (glance, left) = next(engine, from, 0, waits)?;
    let (envelope, len) = match glance {
        Glance::Whole { envelope, len, .. } => (envelope, len),
        _ => match engine.channel.part(from)? {
            (envelope, part) if part.offset == 0 => (envelope, part.total as usize),
            _ => return None,
        },
    };
    let envelope = Envelope(envelope);
    if !pattern.matches(envelope) || engine.is_for_posted(envelope) {
        return None;
    }
    if let Some(left) = left {
        engine.glances.paid(left);
    }
    engine.channel.noticed(from);
    Some(Status::received(source as i32, envelope.tag(), len))
}

/// Takes the next message in the ring from the source that `pattern` wants, or of the first that has one; if the program `waits`, that
/// comes soon. It may be another's than the probe's, which is taken further by it. False, and nothing done, if there is none, or neither
/// it nor a part of it is there.
#[inline(always)]
fn keep_next(hold: &mut Hold, comm: &Comm, pattern: Pattern, waits: bool) -> bool {
    let known = pattern.source().map(|source| comm.peers().world(source));
    let found = match known {
        Some(from) => next(&mut hold.engine, from, 0, waits).map(|(_, left)| (from, left)),
        None => next_of_any(hold, comm, waits).map(|(at, left)| (comm.peers().members[at], left)),
    };
    let Some((from, left)) = found else { return false };
    hold.engine.channel.noticed(from);
    let glance = hold.engine.channel.glance(from);
    let is_taken = take_next(hold, from, glance, left);
    if is_taken && let Err(error) = hold.moved() {
        // The next step says so.
        hold.trouble = Some(error);
    }
    is_taken
}

/// Takes the message in the ring from `from` that `glance` shows, or a part of it, to where it is wanted or kept; it has been waited for
/// with `left` looks left, or not waited for. False, and nothing done, if it lies elsewhere.
#[inline(always)]
fn take_next(state: &mut State, from: u32, glance: Glance, left: Option<u32>) -> bool {
    match glance {
        Glance::Whole {
            envelope,
            data,
            len,
            outside,
        } => {
            if left.is_some() {
                state.engine.channel.expect_answer(from, outside);
            }
            state.message(Envelope(envelope), data, len);
            state.engine.channel.leave(from, outside);
        }
        // What is wrong with the ring to the sender, if anything, the next step finds as well.
        Glance::Part if matches!(state.part(from, left.is_some()), Ok(true)) => {}
        _ => return false,
    }
    if let Some(left) = left {
        state.engine.glances.paid(left);
    }
    true
}

/// The short way of a probe that takes what it finds out of matching: the first message that `pattern` wants, of the kept ones and the
/// one that [`keep_next`] takes. `None` for anything else.
#[inline(never)]
pub fn mprobe_glancing(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    pattern: Pattern,
    waits: bool,
) -> Option<(RequestKey, Status)> {
    if hold.engine.unexpected.is_empty() || hold.engine.unexpected.find(pattern).is_none() {
        keep_next(hold, comm, pattern, waits).then_some(())?;
    }
    match_kept(hold, comm, pattern)
}

/// Takes the first kept message that `pattern` wants out of matching, if it is here whole: then there is nothing to claim and no note,
/// which [`super::probe::take_kept`] sees to.
#[inline(always)]
fn match_kept(state: &mut State, comm: &Rc<Comm>, pattern: Pattern) -> Option<(RequestKey, Status)> {
    let unexpected = &mut state.engine.unexpected;
    let place = unexpected.find(pattern)?;
    let (envelope, stored) = unexpected.at(&place)?;
    let len = stored.whole()?.len();
    let key = state.requests.insert_with(|| {
        let kind = match unexpected.remove(place) {
            Some((envelope, stored)) => Kind::Matched(envelope, stored),
            None => Kind::Over,
        };
        Request::new(kind, Some(comm.clone()))
    })?;
    Some((key, Status::received(envelope.source() as i32, envelope.tag(), len)))
}

/// The short way of a receive of the matched message `key`: `None`, and nothing done, when it is too long, or not here whole.
///
/// # Safety
/// As [`recv_glancing`].
#[inline(never)]
pub unsafe fn mrecv_glancing(state: &mut State, key: RequestKey, (address, room): (*mut u8, usize)) -> Option<Status> {
    state.requests.drop_if(key, |request| {
        let Kind::Matched(envelope, stored) = &request.kind else {
            return None;
        };
        let bytes = stored.whole().filter(|bytes| bytes.len() <= room)?;
        // SAFETY: the caller's promise.
        unsafe { copy::bytes(bytes.as_ptr(), address, bytes.len()) };
        Some(Status::received(envelope.source() as i32, envelope.tag(), bytes.len()))
    })
}

/// As [`recv_glancing`], for the message that is kept at `place`; `None` when it is too long, or not here whole.
///
/// # Safety
/// As [`recv_glancing`].
#[inline(never)]
unsafe fn recv_kept(state: &mut State, place: Place, (address, room): (*mut u8, usize)) -> Option<Status> {
    let engine = &mut state.engine;
    // The note with its types is for the long way.
    if engine.notes.is_some() {
        return None;
    }
    let (envelope, stored) = engine.unexpected.at(&place)?;
    let bytes = stored.whole().filter(|bytes| bytes.len() <= room)?;
    let len = bytes.len();
    match stored {
        // SAFETY: the caller's promise; a few bytes are fewer than `few` takes.
        Stored::Few(..) => unsafe { copy::few(bytes.as_ptr(), address, len) },
        // SAFETY: the caller's promise.
        _ => unsafe { copy::bytes(bytes.as_ptr(), address, len) },
    }
    engine.unexpected.discard(place);
    Some(Status::received(envelope.source() as i32, envelope.tag(), len))
}

/// As [`recv_glancing`], for a message that its sender waits for and that is next in the ring from `from`: one that is offered, or
/// a synchronous one by value; its sender is told.
///
/// # Safety
/// As [`recv_glancing`].
#[inline(never)]
unsafe fn recv_awaited(
    state: &mut State,
    (from, pattern): (u32, Pattern),
    (address, room): (*mut u8, usize),
    (source, left): (i32, Option<u32>),
) -> Option<Status> {
    let engine = &mut state.engine;
    if let Some((envelope, offered)) = engine.channel.offered(from) {
        let envelope = Envelope(envelope);
        // A profile takes the time of each long message.
        let usual = engine.notes.is_none() && engine.channel.meter().is_none();
        if !usual || offered.len > room as u64 || !pattern.matches(envelope) || engine.is_for_posted(envelope) {
            return None;
        }
        // SAFETY: the caller's promise.
        if !unsafe { engine.channel.take_offered(&offered, address, left.is_some()) } {
            return None;
        }
        if let Some(left) = left {
            engine.glances.paid(left);
        }
        let queue = engine.unexpected.len();
        // What is wrong with the ring to the sender, if anything, the next message there finds as well.
        let _ = engine.channel.note_arrival(from, true, queue);
        return Some(Status::received(source, envelope.tag(), offered.len as usize));
    }
    let (envelope, asked, data, len) = engine.channel.asked(from)?;
    let envelope = Envelope(envelope);
    let usual = engine.notes.is_none() && len <= room && pattern.matches(envelope);
    if !usual || engine.is_for_posted(envelope) || !engine.channel.claim_asked(&asked) {
        return None;
    }
    // SAFETY: the ring holds `len` bytes until they are consumed; the caller's promise.
    unsafe { copy::bytes(data, address, len) };
    // What is wrong with the ring to the sender, if anything, the next message there finds as well.
    let _ = engine.channel.finish_offer(from, asked.id);
    engine.channel.consume(from);
    Some(Status::received(source, envelope.tag(), len))
}
