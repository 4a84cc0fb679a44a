//! # Safety
//! Copies and reduces in the application's buffers: relies on the caller of a collective operation
//! to own them, as the MPI standard demands, until the operation is over. Scratch memory is owned
//! by the running operation, which outlives its messages.
//!
//! The machine that runs schedules: blocking, nonblocking and persistent operations alike.
//!
//! A blocking operation goes through its rounds waiting for each. A nonblocking one stands in
//! [`Schedules`]; whenever messages have moved, [`advance`] takes it as far as it gets. An error in
//! a message or in a reduction is kept and the remaining rounds are still done, so that the other
//! ranks get their messages; the operation then ends with the first error.
#![allow(unsafe_code)]

use super::args::check_own;
use super::next_tag;
use super::schedule::{BYTES, Base, Local, Message, SCRATCH_ALIGN, Schedule, Slice};
use super::signature::{self, Signature};
use crate::channel::Bytes;
use crate::mpi::buffer::Buffer;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::datatype::Datatype;
use crate::mpi::error::{Class, Error, Result};
use crate::mpi::op::Op;
use crate::mpi::pt2pt::{self, Mode};
use crate::mpi::request::{self, Kind, Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::{Hold, State};
use std::mem::MaybeUninit;
use std::rc::Rc;

/// A datatype, and the handle that user functions get to see.
#[derive(Clone, Debug)]
pub struct Element {
    /// The datatype.
    pub datatype: Rc<Datatype>,
    /// Its handle.
    pub handle: i32,
}

/// One rank's part of a collective operation, ready to be run any number of times.
pub struct Operation {
    /// Whose operation.
    pub comm: Rc<Comm>,
    /// What is done.
    pub schedule: Schedule,
    /// [`Base::Send`].
    pub send: *mut u8,
    /// [`Base::Recv`].
    pub recv: *mut u8,
    /// The types that the schedule's kinds number, from 1 on.
    pub types: Vec<Element>,
    /// What its reductions compute.
    pub op: Option<Rc<Op>>,
    /// What its messages say about the call.
    pub signature: Signature,
}

/// Nonblocking operations under way.
#[derive(Default)]
pub struct Schedules {
    running: Vec<Running>,
    /// Threads that have taken some out, to take them further.
    out: u32,
    /// How often something has moved meanwhile.
    missed: u64,
}

impl Schedules {
    /// Whether no operation is under way, those included whose requests are freed.
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    /// The first message that the operation with the request `key` waits for; `None` where it has no schedule.
    pub fn awaited(&self, state: &State, key: RequestKey) -> Option<RequestKey> {
        let running = self.running.iter().find(|running| running.request == Some(key))?;
        let mut keys = running.messages.pending.iter().map(|&(message, _)| message);
        keys.find(|&message| !state.is_over(message))
    }
}

/// Bytes up to which a blocking operation receives the messages of a round one after the other.
const SHORT: usize = 4 << 10;

/// An operation under way.
struct Running {
    operation: Rc<Operation>,
    scratch: Scratch,
    /// The round that is being done.
    round: usize,
    messages: Messages,
    /// Of a nonblocking operation.
    request: Option<RequestKey>,
}

/// Messages of a round with their memory: to or from these ranks.
pub trait Messaging: Iterator<Item = (u32, Buffer)> + Clone {}
impl<T: Iterator<Item = (u32, Buffer)> + Clone> Messaging for T {}

/// The messages of an operation's rounds, one round after the other.
struct Messages {
    tag: i32,
    /// Those under way, with the bytes that each receive must bring.
    pending: Vec<(RequestKey, Option<usize>)>,
    /// The first error.
    error: Option<Error>,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line(#[allow(dead_code)] [MaybeUninit<u8>; SCRATCH_ALIGN]);
const _: () = assert!(align_of::<Line>() == SCRATCH_ALIGN);

/// Memory that is written before it is read, by the schedule's making.
struct Scratch(Vec<Line>);

impl Scratch {
    fn new(len: usize) -> Scratch {
        Scratch(Vec::with_capacity(len.div_ceil(SCRATCH_ALIGN)))
    }

    fn address(&mut self) -> *mut u8 {
        self.0.as_mut_ptr().cast()
    }
}

/// Whether the job has more ranks than CPUs; all its ranks know it alike.
pub fn is_crowded(state: &State) -> bool {
    state.engine.channel.segment().oversubscribed()
}

/// Runs `operation` and waits for its end. Cost: that of its schedule.
///
/// # Errors
/// `Truncate` or `Other` when a peer sent another number of bytes than expected; what a reduction says.
pub fn run(hold: &mut Hold, operation: Operation) -> Result<()> {
    hold.check_peer(&operation.comm, Plane::Collective, None)?;
    let tag = next_tag(&operation.comm);
    let mut running = Running::new(Rc::new(operation), tag);
    while !running.is_finished() {
        if let Err(error) = running.blocking_round(hold) {
            // The job is broken and messages may still point into the scratch memory: let it be.
            std::mem::forget(running);
            return Err(error);
        }
    }
    running.messages.error.take().map_or(Ok(()), Err)
}

/// Does a round without a schedule, and waits for it: messages, and copies of what this rank has for itself. As in a
/// schedule, what is empty is left out on both sides.
///
/// # Errors
/// As [`run`].
pub fn exchange(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    signature: Signature,
    sends: impl Messaging,
    receives: impl Messaging,
    own: impl Iterator<Item = (Buffer, Buffer)>,
) -> Result<()> {
    hold.check_peer(comm, Plane::Collective, None)?;
    let mut messages = Messages::new(signature.tag(next_tag(comm)));
    let is_full = |(_, data): &(u32, Buffer)| !data.is_empty();
    messages.exchange(hold, comm, sends.filter(is_full), receives.filter(is_full))?;
    messages.end(hold)?;
    for (from, to) in own.filter(|(from, _)| !from.is_empty()) {
        if let Err(error) = copy_own(&from, &to) {
            messages.error.get_or_insert(error);
        }
    }
    messages.error.map_or(Ok(()), Err)
}

/// Starts `operation` under a tag from [`super::next_started_tag`] or [`super::persistent_tag`] and returns its request.
///
/// # Errors
/// A peer that left the protocol; too many requests.
pub fn start(hold: &mut Hold, operation: Rc<Operation>, tag: i32) -> Result<RequestKey> {
    hold.check_peer(&operation.comm, Plane::Collective, None)?;
    let key = hold.add_request(Request::new(Kind::Collective, Some(operation.comm.clone())))?;
    let mut running = Running::new(operation, tag);
    running.request = Some(key);
    let started = running.start_round(hold).and_then(|()| running.proceed(hold));
    match started {
        Ok(true) => return Ok(key),
        Ok(false) => hold.schedules.running.push(running),
        Err(error) => {
            // As in `run`.
            std::mem::forget(running);
            return Err(error);
        }
    }
    Ok(key)
}

/// Takes every nonblocking operation as far as it gets without waiting. Cost: one look when there
/// is none.
///
/// # Errors
/// A peer that left the protocol.
#[inline]
pub fn advance(hold: &mut Hold) -> Result<()> {
    if hold.schedules.out > 0 {
        hold.schedules.missed += 1;
    }
    if hold.schedules.running.is_empty() {
        return Ok(());
    }
    advance_all(hold)
}

fn advance_all(hold: &mut Hold) -> Result<()> {
    // User functions run with the state released; what they or other threads start meanwhile is pushed to the empty list that
    // stands in for this one. They cannot take further what is in this one, so it is looked through again if something has moved.
    loop {
        let seen = hold.schedules.missed;
        let mut list = std::mem::take(&mut hold.schedules.running);
        let mut result = Ok(());
        hold.schedules.out += 1;
        list.retain_mut(|running| match running.proceed(hold) {
            Ok(finished) => !finished,
            Err(error) => {
                result = Err(error);
                true
            }
        });
        hold.schedules.out -= 1;
        list.append(&mut hold.schedules.running);
        hold.schedules.running = list;
        if result.is_err() || hold.schedules.missed == seen {
            return result;
        }
    }
}

impl Operation {
    fn address(&self, scratch: *mut u8, slice: Slice) -> *mut u8 {
        let base = match slice.base {
            Base::Send => self.send,
            Base::Recv => self.recv,
            Base::Scratch => scratch,
        };
        base.wrapping_offset(slice.offset)
    }

    /// What a round sends and what it receives.
    fn messages(&self, round: usize, scratch: *mut u8) -> (impl Messaging, impl Messaging) {
        let messages = self.schedule.rounds[round].messages.iter();
        let sends = messages.clone().filter_map(move |message| match *message {
            Message::Send { to, slice } => Some((to, self.buffer(scratch, slice))),
            Message::Recv { .. } => None,
        });
        let receives = messages.filter_map(move |message| match *message {
            Message::Recv { from, slice } => Some((from, self.buffer(scratch, slice))),
            Message::Send { .. } => None,
        });
        (sends, receives)
    }

    fn buffer(&self, scratch: *mut u8, slice: Slice) -> Buffer {
        let address = self.address(scratch, slice);
        match slice.kind {
            BYTES => Buffer::bytes(address, slice.len),
            kind => Buffer::typed(address, slice.count, &self.types[kind as usize - 1].datatype),
        }
    }
}

impl Messages {
    fn new(tag: i32) -> Messages {
        Messages {
            tag,
            pending: Vec::new(),
            error: None,
        }
    }

    /// Does a round and waits for it. Short messages and a lone one are received in turn, without requests.
    fn exchange(
        &mut self,
        hold: &mut Hold,
        comm: &Rc<Comm>,
        sends: impl Messaging,
        receives: impl Messaging,
    ) -> Result<()> {
        let lens = receives.clone().map(|(_, room)| room.len());
        let (many, longest) = lens.fold((0, 0), |(many, longest), len| (many + 1, len.max(longest)));
        if many > 1 && longest > SHORT {
            self.start(hold, comm, sends, receives)?;
        } else {
            self.send(hold, comm, sends, many == 0)?;
            for (from, room) in receives {
                let expected = room.len();
                let outcome = match pt2pt::recv_started(hold, comm, Plane::Collective, room, from as i32, self.tag)? {
                    Ok(status) => (status, None),
                    Err(key) => outcome(hold, key),
                };
                self.take(outcome, Some(expected))?;
            }
        }
        if !self.pending.is_empty() {
            hold.wait_until(None, |hold| Ok(self.are_over(hold)))?;
        }
        Ok(())
    }

    /// Starts the messages of a round, receives first.
    fn start(
        &mut self,
        hold: &mut Hold,
        comm: &Rc<Comm>,
        sends: impl Messaging,
        receives: impl Messaging,
    ) -> Result<()> {
        let nothing_comes = receives.clone().next().is_none();
        for (from, room) in receives {
            let expected = room.len();
            let key = pt2pt::irecv(hold, comm, Plane::Collective, room, from as i32, self.tag)?;
            self.pending.push((key, Some(expected)));
        }
        self.send(hold, comm, sends, nothing_comes)
    }

    /// Starts sends. A single one in a round in which `nothing_comes` goes as when a program waits for what it sends.
    fn send(&mut self, hold: &mut Hold, comm: &Rc<Comm>, sends: impl Messaging, nothing_comes: bool) -> Result<()> {
        let plane = Plane::Collective;
        let is_lone = nothing_comes && sends.clone().nth(1).is_none();
        for (to, data) in sends {
            let key = if is_lone {
                match pt2pt::send_whole(hold, comm, plane, &data, (to, self.tag), true)? {
                    Ok(()) => continue,
                    Err(plan) => pt2pt::isend_planned(hold, comm, plane, (data, to, self.tag), plan)?,
                }
            } else if pt2pt::send_at_once(hold, comm, plane, &data, to, self.tag)? {
                continue;
            } else {
                pt2pt::isend(hold, comm, plane, data, to, self.tag, Mode::Standard)?
            };
            self.pending.push((key, None));
        }
        Ok(())
    }

    fn are_over(&self, hold: &Hold) -> bool {
        self.pending.iter().all(|&(key, _)| pt2pt::is_done(hold, key))
    }

    /// Frees the messages, which are over.
    ///
    /// # Errors
    /// `Other`: a peer is in another call. `ProcFailed`, `Revoked`: it goes no further.
    fn end(&mut self, hold: &mut Hold) -> Result<()> {
        for (key, expected) in std::mem::take(&mut self.pending) {
            let outcome = outcome(hold, key);
            self.take(outcome, expected)?;
        }
        // Nobody may take a signal of this rank for a word of the dead; all find out about them by themselves.
        let is_over = |error: &mut Error| matches!(error.class(), Class::ProcFailed | Class::Revoked);
        self.error.take_if(is_over).map_or(Ok(()), Err)
    }

    /// Keeps the error of a message, or that a receive brought too little or, where there is room, too much.
    ///
    /// # Errors
    /// `Other`: the message belongs to another call.
    fn take(&mut self, (status, error): (Status, Option<Error>), expected: Option<usize>) -> Result<()> {
        let Status { source, bytes, tag, .. } = status;
        // What ended without a message, since a rank is dead or the communicator revoked, has no signature.
        if expected.is_some() && source >= 0 && signature::differ(self.tag, tag) {
            let mut text = signature::complaint(self.tag, source, tag);
            if let Some(expected) = expected.filter(|&expected| bytes != expected as u64) {
                text += &format!("; it sent {bytes} bytes where {expected} were expected");
            }
            return Err(Error::new(Class::Other, text));
        }
        let error = match (error, expected) {
            (Some(error), _) => error,
            (None, Some(expected)) if bytes != expected as u64 => {
                let text = format!(
                    "rank {source} sent {bytes} bytes where {expected} were expected: \
                     counts or datatypes differ between the ranks of the collective operation"
                );
                let too_long = bytes > expected as u64;
                Error::new(if too_long { Class::Truncate } else { Class::Other }, text)
            }
            _ => return Ok(()),
        };
        self.error.get_or_insert(error);
        Ok(())
    }
}

impl Running {
    fn new(operation: Rc<Operation>, tag: i32) -> Running {
        Running {
            scratch: Scratch::new(operation.schedule.scratch),
            messages: Messages::new(operation.signature.tag(tag)),
            operation,
            round: 0,
            request: None,
        }
    }

    fn is_finished(&self) -> bool {
        self.round == self.operation.schedule.rounds.len()
    }

    /// Does the round and waits for it.
    fn blocking_round(&mut self, hold: &mut Hold) -> Result<()> {
        let operation = self.operation.clone();
        let (sends, receives) = operation.messages(self.round, self.scratch.address());
        self.messages.exchange(hold, &operation.comm, sends, receives)?;
        self.end_round(hold)
    }

    /// Goes on until messages have to be waited for; true when the operation is over.
    fn proceed(&mut self, hold: &mut Hold) -> Result<bool> {
        while !self.is_finished() {
            if !self.messages.are_over(hold) {
                return Ok(false);
            }
            if let Err(error) = self.end_round(hold) {
                // The ranks are in different calls, or one is dead: nothing more will come to this one.
                self.messages.error.get_or_insert(error);
                break;
            }
            self.start_round(hold)?;
        }
        if let Some(key) = self.request.take() {
            hold.complete(key, Status::EMPTY, self.messages.error.take());
            // Before functions of the program run for others.
            hold.wake_threads();
        }
        Ok(true)
    }

    fn start_round(&mut self, hold: &mut Hold) -> Result<()> {
        if self.is_finished() {
            return Ok(());
        }
        let operation = self.operation.clone();
        let (sends, receives) = operation.messages(self.round, self.scratch.address());
        self.messages.start(hold, &operation.comm, sends, receives)
    }

    /// Frees the messages, does the local work, and turns to the next round.
    ///
    /// # Errors
    /// As [`Messages::end`].
    fn end_round(&mut self, hold: &mut Hold) -> Result<()> {
        self.messages.end(hold)?;
        let operation = self.operation.clone();
        for local in &operation.schedule.rounds[self.round].local {
            if let Err(error) = self.work(hold, &operation, local) {
                self.messages.error.get_or_insert(error);
            }
        }
        self.round += 1;
        Ok(())
    }

    fn work(&mut self, hold: &mut Hold, operation: &Operation, local: &Local) -> Result<()> {
        let scratch = self.scratch.address();
        match *local {
            Local::Copy { from, to } => {
                let from = operation.buffer(scratch, from);
                let to = operation.buffer(scratch, to);
                copy_own(&from, &to)
            }
            Local::Reduce { left, right } => {
                let Some(op) = &operation.op else {
                    return Err(Error::new(Class::Intern, "a reduction without an operation"));
                };
                let element = &operation.types[left.kind as usize - 1];
                let (count, handle) = (left.count, element.handle);
                let left = operation.address(scratch, left);
                let right = operation.address(scratch, right);
                // SAFETY: as above; `right` is never the send buffer.
                unsafe { op.reduce(hold, &element.datatype, handle, left, right, count) }
            }
        }
    }
}

/// How a message ended; it is freed.
fn outcome(hold: &mut Hold, key: RequestKey) -> (Status, Option<Error>) {
    let outcome = request::finish(hold, key);
    (outcome.status, outcome.error)
}

/// Copies what a rank has for itself, which in a gather may be less than there is room for.
pub(super) fn copy_own(from: &Buffer, to: &Buffer) -> Result<()> {
    if from.len() > to.len() {
        check_own(from.len(), to.len())?;
    }
    // SAFETY: both buffers are the operation's while it runs, which copies between places that do not overlap.
    unsafe { copy(from, to) };
    Ok(())
}

/// Copies the data of `from` to `to`, as far as both go.
///
/// # Safety
/// `from` is readable, `to` writable, and they do not overlap.
pub unsafe fn copy(from: &Buffer, to: &Buffer) {
    // SAFETY: the caller's promise.
    unsafe { from.give(to, from.len().min(to.len())) };
}
