//! # Safety
//! Reads arrivals where the channel says they lie until they are consumed.
//!
//! What happens to whatever arrives: it is matched, copied, kept or answered.
#![allow(unsafe_code)]

use super::buffered::Account;
use super::matching::{Envelope, Posted, Unexpected};
use super::partitioned::are_partitions;
use super::portions::Stream;
use super::types::{Notes, is_note};
use super::unexpected::Stored;
use super::vain::Vain;
use crate::channel::wait::Glances;
use crate::channel::{Arrival, Bytes, Channel, Glance};
use crate::mpi::buffer::{Buffer, Layout};
use crate::mpi::error::{Error, Result, fault};
use crate::mpi::request::{Kind, Receive, Request, RequestKey};
use crate::mpi::sleep::{Awaited, Watch};
use crate::mpi::status::Status;
use crate::mpi::world::{Hold, State};
use crate::sys::copy;

/// Arrivals dealt with in one step, so that a flood does not keep a waiting call from returning.
pub(super) const STEP: usize = 32;

/// In [`Engine::detours`]: the job has events that this rank must mind, or somebody looks at each call.
pub const CAREFUL: u8 = 1;

/// Messages on their way, to and from.
pub struct Engine {
    /// How bytes travel.
    pub channel: Channel<Buffer>,
    /// Receives without a message.
    pub posted: Posted<RequestKey>,
    /// Messages without a receive.
    pub unexpected: Unexpected<Stored>,
    /// By sender: the message by value of which portions are still to come.
    pub(super) streams: Vec<Option<Stream>>,
    /// By rank of the job: whether it is dead, as far as this rank has dealt with it.
    dead: Vec<bool>,
    /// The process's buffer for buffered sends.
    pub buffered: Account,
    /// Whether a thread polls for all that wait.
    pub polling: bool,
    /// Whether that thread sleeps until this rank's bell rings.
    pub asleep: bool,
    /// Threads that wait for what that thread does.
    pub napping: usize,
    /// What threads wait for that no message tells.
    pub watch: Watch,
    /// The blocking receives that threads wait in, with the numbers of the threads ([`crate::sys::cpu::thread`]); with
    /// `MPI_THREAD_MULTIPLE` only.
    pub blocked: Vec<(RequestKey, usize)>,
    /// Whether the launcher has been told what this rank sleeps for.
    pub told: bool,
    /// What the call under way waits for, as far as it is one thing.
    pub awaited: Awaited,
    /// The job's deaths and revoked communicators that this rank has dealt with.
    pub events: u32,
    /// Reasons for short calls to take the long way, as bits: [`CAREFUL`], and one for each function that a profile wants
    /// to time the next call of.
    pub detours: u8,
    /// With `NEARMPI_CHECK`: the types of the messages that have come.
    pub notes: Option<Box<Notes>>,
    /// Tests and probes in vain.
    pub vain: Vain,
    /// How long a blocking receive looks at the rings alone.
    pub glances: Glances,
    /// The member behind whom a receive from any source looks first.
    pub turn: usize,
}

impl Engine {
    /// An engine over `channel`, for a job of `ranks`.
    pub fn new(channel: Channel<Buffer>, ranks: u32) -> Engine {
        let glances = channel.glances();
        let vain = Vain::new(channel.settings().vain_max as u32);
        let notes: Option<Box<Notes>> = (channel.settings().check > 0).then(Box::default);
        Engine {
            glances,
            channel,
            posted: Posted::default(),
            unexpected: Unexpected::default(),
            streams: (0..ranks).map(|_| None).collect(),
            dead: vec![false; ranks as usize],
            buffered: Account::default(),
            polling: false,
            asleep: false,
            napping: 0,
            watch: Watch::default(),
            blocked: Vec::new(),
            told: false,
            awaited: Awaited::Several,
            events: 0,
            detours: if notes.is_some() { CAREFUL } else { 0 },
            notes,
            vain,
            turn: 0,
        }
    }

    /// Meets the ranks that were started since: the segment knows them.
    pub fn grow(&mut self) {
        self.channel.grow();
        let ranks = self.channel.segment().known() as usize;
        self.streams.resize_with(ranks, || None);
        self.dead.resize(ranks, false);
    }
}

/// Deals with some of what has come; whether there was anything.
///
/// # Errors
/// A peer that left the protocol.
#[inline]
pub fn step(hold: &mut Hold, first: Option<u32>) -> Result<bool> {
    let state: &mut State = hold;
    let mut count = first.map_or(0, |source| state.drain(source, STEP));
    let mut preferred = first;
    while count < STEP || preferred.is_some() {
        if count > 0 && state.has_awaited() {
            break; // Whoever waits goes on; the rest is looked at in the next step.
        }
        if count >= STEP {
            preferred = None; // The others, and what is queued, have a turn even while that rank floods this one.
        }
        let Some(arrival) = state.engine.channel.poll(preferred).map_err(fault)? else {
            break;
        };
        count += 1;
        match arrival {
            Arrival::Message {
                from,
                envelope,
                data,
                len,
            } => {
                state.message(Envelope(envelope), data, len);
                state.engine.channel.consume(from);
                count += state.drain(from, STEP.saturating_sub(count));
            }
            Arrival::Portion {
                from,
                envelope,
                portion,
            } => state.portion(from, Envelope(envelope), &portion)?,
            Arrival::Data { from, token, portion } => state.data(from, token, &portion)?,
            Arrival::Offer { envelope, offered } => state.offer(Envelope(envelope), offered)?,
            Arrival::Asked {
                envelope,
                asked,
                data,
                len,
            } => state.asked(Envelope(envelope), asked, data, len)?,
            Arrival::Whole { from, token } => state.whole(from, token)?,
            Arrival::Sent(ticket) => {
                state.complete(ticket, Status::EMPTY, None);
                // Whoever waits for this goes on; what the peer sends next may have a receive by then.
                break;
            }
        }
    }
    if count >= STEP {
        state.engine.channel.pass_turn();
    }
    if count > 0 {
        state.tell_queues();
    }
    Ok(count > 0)
}

/// The status of a receive, and what is wrong with the message for the buffer.
pub(super) fn received(envelope: Envelope, len: usize, buffer: &Buffer) -> (Status, Option<Error>) {
    let (source, tag) = (envelope.source() as i32, envelope.tag());
    let status = Status::received(source, tag, len.min(buffer.len()));
    (status, super::misfit((source, tag), len, buffer))
}

impl State {
    /// Rank `dead` of the job is dead. Returns the requests that cannot end any more: those of messages to it
    /// or partly from it.
    pub fn bury(&mut self, dead: u32) -> Vec<RequestKey> {
        let place = dead as usize;
        if std::mem::replace(&mut self.engine.dead[place], true) {
            return vec![];
        }
        let (mut lost, tokens) = self.engine.channel.bury(dead);
        lost.extend(tokens);
        match self.engine.streams[place].take() {
            Some(Stream::Kept(arriving)) => {
                let mut message = arriving.borrow_mut();
                message.is_lost = true;
                lost.extend(message.claimed);
            }
            Some(Stream::Request(key)) => lost.push(key),
            None => {}
        }
        let comes_from_it = |request: &crate::mpi::request::Request| match &request.kind {
            Kind::Recv(receive) => receive.coming().is_some_and(|coming| coming.from == dead),
            _ => false,
        };
        let coming = self.requests.iter().filter(|(_, request)| comes_from_it(request));
        lost.extend(coming.map(|(key, _)| key));
        lost
    }

    /// Whether that rank of the job is dead, as far as this rank has dealt with it.
    pub fn is_dead(&self, rank: u32) -> bool {
        self.engine.dead.get(rank as usize).is_some_and(|&dead| dead)
    }

    pub(super) fn receive(&mut self, key: RequestKey) -> Option<&mut Receive> {
        match &mut self.requests.get_mut(key)?.kind {
            Kind::Recv(receive) => Some(receive),
            _ => None,
        }
    }

    /// Deals with the next whole messages in the ring from `from`, with `most` of them at most; with how many.
    #[inline(always)]
    fn drain(&mut self, from: u32, most: usize) -> usize {
        let mut count = 0;
        while count < most
            && let Glance::Whole {
                envelope,
                data,
                len,
                outside,
            } = self.engine.channel.glance(from)
        {
            self.message(Envelope(envelope), data, len);
            self.engine.channel.leave(from, outside);
            count += 1;
        }
        count
    }

    /// Whether the one request that is waited for is over.
    #[inline]
    fn has_awaited(&self) -> bool {
        matches!(self.engine.awaited, Awaited::Request(key) if self.is_over(key))
    }

    /// Copies a whole message into the receive's buffer and completes it.
    #[inline(always)]
    pub(super) fn fill(&mut self, key: RequestKey, envelope: Envelope, data: *const u8, len: usize) {
        // SAFETY: `fill_by` vouches for both sides.
        self.fill_by(key, envelope, (data, len), |from, to, len| unsafe {
            copy::bytes(from, to, len)
        });
    }

    /// As [`State::fill`], by this `copy` where the bytes are to lie in a row.
    #[inline(always)]
    pub(super) fn fill_by(
        &mut self,
        key: RequestKey,
        envelope: Envelope,
        (data, len): (*const u8, usize),
        copy: impl FnOnce(*const u8, *mut u8, usize),
    ) {
        if let Some(Request {
            kind: Kind::Recv(receive),
            done,
            detached: false,
            ..
        }) = self.requests.get_mut(key)
            && let Layout::Bytes(room) = receive.buffer.layout
            && len <= room
        {
            // `data` holds `len` bytes, the channel's promise or ours; the program owns the buffer.
            copy(data, receive.buffer.address, len);
            *done = Some(Status::received(envelope.source() as i32, envelope.tag(), len));
            return;
        }
        self.fill_other(key, envelope, data, len);
    }

    /// The same for any receive and any length.
    #[inline(never)]
    fn fill_other(&mut self, key: RequestKey, envelope: Envelope, data: *const u8, len: usize) {
        self.take_note(key, envelope);
        let Some(receive) = self.receive(key) else { return };
        let room = receive.buffer.len();
        // SAFETY: `data` holds `len` bytes, the channel's promise or ours.
        unsafe { receive.buffer.put(0, data, len.min(room)) };
        let (status, error) = received(envelope, len, &receive.buffer);
        let error = error.or(self.mismatch(key, envelope));
        self.complete(key, status, error);
    }

    /// A whole message has come: it goes where a receive wants it, or is kept.
    #[inline(always)]
    pub(super) fn message(&mut self, envelope: Envelope, data: *const u8, len: usize) {
        match self.engine.posted.take(envelope) {
            Some(key) => self.fill(key, envelope, data, len),
            None => {
                // SAFETY: the channel keeps the bytes in place until the arrival is consumed.
                let bytes = unsafe { std::slice::from_raw_parts(data, len) };
                if is_note(envelope) {
                    return self.keep_note(bytes);
                }
                if are_partitions(envelope) {
                    match self.partitions(envelope, bytes) {
                        Ok(true) => return,
                        Ok(false) => {}
                        // The next step says so.
                        Err(error) => self.trouble = Some(error),
                    }
                }
                self.engine.unexpected.push(envelope, Stored::copy(bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::comm::Plane;
    use crate::mpi::pt2pt::matching::Pattern;
    use crate::mpi::pt2pt::{Mode, isend};
    use crate::mpi::status::ANY_TAG;
    use crate::mpi::world::World;
    use crate::shm::segment::Segment;
    use crate::sys::cvar::Settings;
    use std::sync::Arc;

    #[test]
    fn a_flood_from_the_rank_that_is_waited_for_keeps_nobody_else_away() {
        let segment = Arc::new(Segment::private(3, 4).unwrap());
        let settings = Settings::read(|_| None).unwrap();
        let worlds = [0, 1, 2].map(|rank| World::new(State::join(segment.clone(), rank, settings.clone()), false));
        let mut holds = worlds.each_ref().map(World::hold);
        let mut word = 0u64;
        let mut post = |hold: &mut Hold, to| {
            let (comm, message) = (hold.world.clone(), Buffer::bytes((&raw mut word).cast(), 8));
            isend(hold, &comm, Plane::PointToPoint, message, to, 1, Mode::Standard).unwrap();
        };
        while holds[0].engine.channel.is_flushed() {
            post(&mut holds[0], 2);
        }
        while step(&mut holds[2], None).unwrap() {}
        (0..8 * STEP).for_each(|_| post(&mut holds[1], 0));
        post(&mut holds[2], 0);
        let from_other = Pattern::new(holds[0].world.context_on(Plane::PointToPoint), 2, ANY_TAG);
        for _ in 0..6 {
            assert!(step(&mut holds[0], Some(1)).unwrap());
        }
        assert!(holds[0].engine.channel.has_next(1), "the flood goes on");
        assert!(holds[0].engine.unexpected.find(from_other).is_some());
        assert!(holds[0].engine.channel.is_flushed());
    }
}
