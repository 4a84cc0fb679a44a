//! # Safety
//! Copies messages out of the rings into the buffers that its callers promise.
//!
//! The short way of a blocking receive: a look at the kept messages and at the rings, without a request.
#![allow(unsafe_code)]

use super::engine::{Engine, STEP};
use super::matching::{Envelope, Pattern, Place};
use super::unexpected::Stored;
use crate::channel::Glance;
use crate::mpi::comm::Comm;
use crate::mpi::request::RequestKey;
use crate::mpi::status::Status;
use crate::mpi::world::State;
use crate::sys::{copy, cpu};

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
    let looks = engine.glances.granted(|| engine.channel.is_here(from));
    let looks = match engine.channel.is_flushed() {
        true => engine.glances.longer(looks, room),
        false => looks,
    };
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

/// Looks at the ring from rank `from` of the job alone, as a blocking receive does, until the posted receive `key` of up to
/// `room` bytes has its message, for as long as whole ones come; whether any has.
#[inline(never)]
pub fn wait_glancing(state: &mut State, key: RequestKey, from: u32, room: usize) -> bool {
    let mut count = 0;
    let is_over = |state: &State| state.requests.get(key).is_none_or(|request| request.done.is_some());
    while count < STEP && !is_over(state) {
        let engine = &mut state.engine;
        let (mut glance, mut left) = (engine.channel.glance(from), None);
        if let Glance::Nothing = glance {
            let Some((found, looks)) = look_out(engine, from, room) else {
                break;
            };
            (glance, left) = (found, Some(looks));
        }
        let Glance::Whole {
            envelope,
            data,
            len,
            outside,
        } = glance
        else {
            break;
        };
        if let Some(left) = left {
            engine.channel.expect_answer(from, outside);
            engine.glances.paid(left);
        }
        state.message(Envelope(envelope), data, len);
        state.engine.channel.leave(from, outside);
        count += 1;
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
    let members = &comm.peers().members;
    let (mut at, mut left) = (state.engine.turn, None);
    loop {
        for _ in members {
            at = if at + 1 < members.len() { at + 1 } else { 0 };
            if !state.engine.channel.has_next(members[at]) {
                continue;
            }
            state.engine.turn = at;
            // SAFETY: the caller's promise.
            return unsafe { recv_next(state, (members[at], pattern), (address, room), at as i32, left) };
        }
        let before = left.unwrap_or_else(|| state.engine.glances.granted(|| false));
        left = before.checked_sub(members.len() as u32);
        if left.is_none() {
            state.engine.glances.lost();
            return None;
        }
        std::hint::spin_loop();
    }
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
