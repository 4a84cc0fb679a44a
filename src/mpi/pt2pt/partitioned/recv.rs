//! # Safety
//! Unpacks received bytes into the program's buffer, relying on the promise of [`crate::mpi::buffer`].
//!
//! Partitioned receives: where the partitions go that come, and which of them have.
#![allow(unsafe_code)]

use super::super::matching::{Envelope, Pattern};
use super::super::persistent::Operation;
use super::super::{finish, irecv};
use super::{PARTITIONS, Partitioning, Partitions, are_partitions, hello_tag, operation, tag_of};
use crate::fail;
use crate::mpi::buffer::{Buffer, Layout};
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::error::{Class, Error, Result};
use crate::mpi::request::parts::{Parts, Told};
use crate::mpi::request::{Kind, Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::{Hold, State};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// A partitioned receive.
pub struct Incoming {
    comm: Rc<Comm>,
    source: Option<u32>,
    tag: i32,
    partitions: Partitions,
    hello: Cell<Hello>,
    /// How far each of the sender's partitions has come since the start.
    stages: RefCell<Vec<Stage>>,
    /// Bytes that cannot be received where they belong, because the sender's partitions cut elements, with their places in the message.
    aside: RefCell<Vec<(usize, Buffer)>>,
}

/// What the receiver knows of the sender.
#[derive(Clone, Copy)]
enum Hello {
    /// Nothing: the receive of its hello, and where the words of it go.
    Awaited(RequestKey, *const u64),
    /// Its partitions.
    Said(Sender),
}

/// How far a partition has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No message with it has.
    Missing,
    /// This receive has it, or failed.
    Coming(RequestKey),
    /// It lies where it belongs.
    Here,
}

impl Stage {
    fn is_over(self, state: &State) -> bool {
        match self {
            Stage::Missing => false,
            Stage::Coming(key) => state.is_over(key),
            Stage::Here => true,
        }
    }

    fn key(self) -> Option<RequestKey> {
        match self {
            Stage::Coming(key) => Some(key),
            Stage::Missing | Stage::Here => None,
        }
    }
}

/// A sender's partitions.
#[derive(Clone, Copy)]
struct Sender {
    number: usize,
    size: usize,
    first: u32,
}

/// A started receive of which partitions have not come.
pub struct Expected {
    recv: Rc<Incoming>,
    /// The started request.
    active: RequestKey,
    sender: Sender,
    /// The envelope of the sender's first partition.
    first: Envelope,
}

impl Expected {
    /// The number of the first partition of a message with `envelope`, if that is of this operation.
    fn index(&self, envelope: Envelope) -> Option<usize> {
        let number = (envelope.tag() - PARTITIONS) as u32;
        let index = number.wrapping_sub(self.sender.first) % super::NUMBERS;
        let is_mine = envelope.context() == self.first.context() && envelope.source() == self.first.source();
        (is_mine && (index as usize) < self.sender.number).then_some(index as usize)
    }

    /// The envelope of partition `index`.
    fn envelope(&self, index: usize) -> Envelope {
        let tag = tag_of(self.sender.first.wrapping_add(index as u32));
        Envelope::new(self.first.context(), self.first.source(), tag)
    }

    /// The rank of the job that it is from.
    fn from(&self) -> u32 {
        self.recv.comm.peers().world(self.first.source())
    }

    /// Bytes of the whole message.
    fn len(&self) -> usize {
        self.sender.number * self.sender.size
    }
}

impl Partitioning {
    /// The rank of the job from which partitions of the started receive `active` are still to come, and bytes in all of them.
    pub fn source(&self, active: RequestKey) -> Option<(u32, usize)> {
        let mut expected = self.expected.iter();
        let found = expected.find(|expected| expected.active == active)?;
        Some((found.from(), found.len()))
    }
}

impl Incoming {
    /// The communicator.
    pub fn comm(&self) -> &Rc<Comm> {
        &self.comm
    }

    /// The receive of the sender's hello, if that has not come.
    pub(super) fn awaited_hello(&self) -> Option<RequestKey> {
        match self.hello.get() {
            Hello::Awaited(key, _) => Some(key),
            Hello::Said(_) => None,
        }
    }
}

/// Makes a partitioned receive (MPI_Precv_init).
///
/// # Errors
/// As [`irecv`].
pub fn recv_init(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    partitions: Partitions,
    source: Option<u32>,
    tag: i32,
) -> Result<Operation> {
    let mut words = [0u64; 3];
    let room = Buffer::kept(&Buffer::bytes(words.as_mut_ptr().cast(), size_of_val(&words)));
    let hello = match source {
        None => Hello::Said(Sender {
            number: 0,
            size: 0,
            first: 0,
        }),
        Some(source) => {
            let place = room.address.cast_const().cast();
            let (plane, tag) = hello_tag(tag);
            Hello::Awaited(irecv(hold, comm, plane, room, source as i32, tag)?, place)
        }
    };
    let comm = comm.clone();
    Ok(Operation::PartitionedRecv(Rc::new(Incoming {
        comm,
        source,
        tag,
        partitions,
        hello: Cell::new(hello),
        stages: RefCell::default(),
        aside: RefCell::default(),
    })))
}

/// Starts a partitioned receive, the operation of the persistent request `key`.
///
/// # Errors
/// As [`irecv`].
pub fn start_recv(hold: &mut Hold, key: RequestKey, recv: &Rc<Incoming>) -> Result<RequestKey> {
    recv.aside.borrow_mut().clear();
    let sender = recv.sender(hold)?;
    let parts = match sender {
        Some(sender) => recv.parts(hold, sender)?,
        None => {
            hold.partitioning.waiting.push(key);
            Parts::later(1, Told::Is(Status::EMPTY))
        }
    };
    let active = hold.add_request(Request::new(Kind::Parts(parts), Some(recv.comm.clone())))?;
    if let Some(sender) = sender {
        hold.expect(recv, active, sender)?;
    }
    Ok(active)
}

/// Sees to the started receives whose sender had not said hello, if it has now.
///
/// # Errors
/// Too many requests.
#[cold]
pub(super) fn greet(hold: &mut Hold) -> Result<()> {
    for key in std::mem::take(&mut hold.partitioning.waiting) {
        let Ok((Operation::PartitionedRecv(recv), Some(active))) = operation(hold, key) else {
            continue;
        };
        let recv = recv.clone();
        let (parts, sender) = match recv.sender(hold) {
            Ok(None) => {
                hold.partitioning.waiting.push(key);
                continue;
            }
            Ok(Some(sender)) => (recv.parts(hold, sender)?, Some(sender)),
            Err(error) => (failed(hold, error)?, None),
        };
        if let Some(started) = hold.requests.get_mut(active).and_then(Request::parts) {
            *started = parts;
        }
        if let Some(sender) = sender {
            hold.expect(&recv, active, sender)?;
        }
    }
    Ok(())
}

/// The parts of a started operation that has failed.
fn failed(hold: &mut Hold, error: Error) -> Result<Parts> {
    let key = hold.add_request(Request::failed(error))?;
    Ok(Parts::new(vec![key], Told::First))
}

impl Incoming {
    /// Who sends, if that is known by now.
    fn sender(&self, hold: &mut Hold) -> Result<Option<Sender>> {
        let (key, place) = match self.hello.get() {
            Hello::Said(sender) => return Ok(Some(sender)),
            Hello::Awaited(key, place) => (key, place),
        };
        if !hold.is_over(key) {
            return Ok(None);
        }
        // SAFETY: the request, not finished yet, keeps the memory; three words have been received.
        let words = unsafe { std::slice::from_raw_parts(place.cast::<[u8; 8]>(), 3) };
        let [number, size, first] = [0, 1, 2].map(|index| u64::from_ne_bytes(words[index]));
        finish(hold, key)?;
        let sender = Sender {
            number: number as usize,
            size: size as usize,
            first: first as u32,
        };
        self.hello.set(Hello::Said(sender));
        Ok(Some(sender))
    }

    /// A part for each of the sender's partitions, none of which has come.
    fn parts(&self, hold: &mut Hold, sender: Sender) -> Result<Parts> {
        let Some(source) = self.source else {
            return Ok(Parts::new(Vec::new(), Told::Is(Status::PROC_NULL)));
        };
        let (bytes, room) = (
            sender.number.saturating_mul(sender.size),
            self.partitions.number * self.partitions.size(),
        );
        if bytes > room {
            let text = format!("the partitions sent have {bytes} bytes, those to be received {room}");
            return failed(hold, Error::new(Class::Truncate, text));
        }
        if sender.number > i32::MAX as usize {
            let text = format!(
                "rank {source} says that it sends {} partitions, more than MPI_Psend_init takes",
                sender.number
            );
            return failed(hold, Error::new(Class::Intern, text));
        }
        let status = Status {
            source: source as i32,
            tag: self.tag,
            bytes: bytes as u64,
            ..Status::EMPTY
        };
        let mut stages = self.stages.borrow_mut();
        stages.resize(sender.number, Stage::Missing);
        stages.fill(Stage::Missing);
        Ok(Parts::later(sender.number, Told::Is(status)))
    }

    /// All that is received.
    fn whole(&self) -> Buffer {
        self.partitions
            .elements(0, self.partitions.number * self.partitions.count)
    }

    /// Where bytes `position .. position + len` of the message go.
    fn place(&self, position: usize, len: usize) -> Buffer {
        let element = self.partitions.datatype.size().max(1);
        if position.is_multiple_of(element) && len.is_multiple_of(element) {
            return self.partitions.elements(position / element, len / element);
        }
        if self.partitions.datatype.is_contiguous() {
            let first = self.partitions.elements(0, 1).address;
            return Buffer::bytes(first.wrapping_add(position), len);
        }
        let bytes: Rc<[u8]> = vec![0; len].into();
        let buffer = Buffer {
            address: bytes.as_ptr().cast_mut(),
            layout: Layout::Kept(bytes),
        };
        self.aside.borrow_mut().push((position, buffer.clone()));
        buffer
    }

    /// Puts what was received aside with one of the sender's partitions `which`, all arrived, where it belongs.
    fn settle(&self, which: Range<usize>) {
        let mut aside = self.aside.borrow_mut();
        let Hello::Said(sender) = self.hello.get() else { return };
        if aside.is_empty() {
            return;
        }
        let (whole, first, end) = (self.whole(), which.start * sender.size, which.end * sender.size);
        aside.retain(|(position, kept)| {
            let has_come = *position < end && position + kept.len() > first;
            if has_come {
                // SAFETY: `kept` holds its bytes of the message, and the receive has room for all.
                unsafe { whole.unpack(*position, kept.address, kept.len()) };
            }
            !has_come
        });
    }
}

impl State {
    /// Partitions of the started receive `active` are to come, and some may have.
    fn expect(&mut self, recv: &Rc<Incoming>, active: RequestKey, sender: Sender) -> Result<()> {
        let is_later = |request: &mut Request| request.parts().is_some_and(|parts| !parts.have_begun());
        let (Some(source), Some(true)) = (recv.source, self.requests.get_mut(active).map(is_later)) else {
            return Ok(());
        };
        let context = recv.comm.context_on(Plane::Collective);
        self.partitioning.expected.push(Expected {
            recv: recv.clone(),
            active,
            sender,
            first: Envelope::new(context, source, tag_of(sender.first)),
        });
        if !self.engine.unexpected.is_empty() {
            self.take_kept_partitions(active)?;
        }
        if self.engine.events != 0 {
            self.give_up_partitions()?;
        }
        Ok(())
    }

    /// Takes what has come before the receive `active` was started.
    fn take_kept_partitions(&mut self, active: RequestKey) -> Result<()> {
        let mut index = 0;
        loop {
            let mut expected = self.partitioning.expected.iter();
            let Some(mine) = expected.find(|expected| expected.active == active) else {
                return Ok(());
            };
            if index >= mine.sender.number {
                return Ok(());
            }
            let (envelope, size) = (mine.envelope(index), mine.sender.size.max(1));
            let pattern = Pattern::exact(envelope);
            let Some((_, stored)) = self.engine.unexpected.peek(pattern) else {
                index += 1;
                continue;
            };
            let len = stored.len();
            index += (len / size).max(1);
            if stored.whole().is_none() {
                let Some((at, which)) = self.expecting(envelope, len) else {
                    continue;
                };
                let (comm, buffer) = self.room_for(at, &which);
                let key = self.meet(comm, buffer, pattern)?;
                self.have_come(at, which, Stage::Coming(key));
            } else if let Some((_, stored)) = self.engine.unexpected.take(pattern)
                && let Some(bytes) = stored.whole()
            {
                self.partitions(envelope, bytes)?;
            }
        }
    }

    /// Which of the expected receives a message of `len` bytes with `envelope` is for, and the partitions in it: the first one alone, if
    /// that is not what such a message has.
    fn expecting(&self, envelope: Envelope, len: usize) -> Option<(usize, Range<usize>)> {
        let mut expected = self.partitioning.expected.iter().enumerate();
        let (at, index) = expected.find_map(|(at, expected)| Some((at, expected.index(envelope)?)))?;
        let Expected { recv, sender, .. } = &self.partitioning.expected[at];
        let stages = &recv.stages.borrow()[index..];
        let many = len.checked_div(sender.size).unwrap_or(1).clamp(1, stages.len());
        let are_missing = stages[..many].iter().all(|stage| *stage == Stage::Missing);
        match (are_missing && many * sender.size == len, stages[0]) {
            (true, _) => Some((at, index..index + many)),
            (false, Stage::Missing) => Some((at, index..index + 1)),
            _ => None,
        }
    }

    /// Where partitions `which` of an expected receive go, and its communicator.
    fn room_for(&self, at: usize, which: &Range<usize>) -> (Rc<Comm>, Buffer) {
        let Expected { recv, sender, .. } = &self.partitioning.expected[at];
        let buffer = recv.place(which.start * sender.size, which.len() * sender.size);
        (recv.comm.clone(), buffer)
    }

    /// A message of partitions for which no receive is posted: its bytes go where they belong if they are expected. Whether they were.
    ///
    /// # Errors
    /// Too many requests.
    #[inline(never)]
    pub(in super::super) fn partitions(&mut self, envelope: Envelope, bytes: &[u8]) -> Result<bool> {
        let Some((at, which)) = self.expecting(envelope, bytes.len()) else {
            return Ok(false);
        };
        let Expected { recv, sender, .. } = &self.partitioning.expected[at];
        let stage = if which.len() * sender.size == bytes.len() {
            let (whole, position) = (recv.whole(), which.start * sender.size);
            // SAFETY: the receive has room for all of the sender's partitions, to which these belong.
            unsafe { whole.unpack_from_peer(self.engine.channel.ahead, position, bytes.as_ptr(), bytes.len()) };
            Stage::Here
        } else {
            let (len, size) = (bytes.len(), sender.size);
            let text = format!("a message of {len} bytes has come where partitions of {size} bytes are expected");
            Stage::Coming(self.add_request(Request::failed(Error::new(Class::Truncate, text)))?)
        };
        self.have_come(at, which, stage);
        Ok(true)
    }

    /// Before a message that comes in pieces, or is offered, finds its receive: if it is of partitions that are expected, it gets one.
    ///
    /// # Errors
    /// Too many requests.
    #[inline]
    pub(in super::super) fn post_partitions(&mut self, envelope: Envelope, len: usize) -> Result<()> {
        if are_partitions(envelope)
            && let Some((at, which)) = self.expecting(envelope, len)
        {
            let (comm, buffer) = self.room_for(at, &which);
            let key = self.add_posted(comm, buffer, Pattern::exact(envelope))?;
            self.have_come(at, which, Stage::Coming(key));
        }
        Ok(())
    }

    /// Partitions `which` of an expected receive have come, or come now.
    fn have_come(&mut self, at: usize, which: Range<usize>, stage: Stage) {
        let count = which.len();
        self.partitioning.expected[at].recv.stages.borrow_mut()[which].fill(stage);
        self.have_begun(at, count, stage.key());
    }

    /// So many more partitions of an expected receive have come, or the request `part` has them.
    fn have_begun(&mut self, at: usize, count: usize, part: Option<RequestKey>) {
        let active = self.partitioning.expected[at].active;
        let Some(request) = self.requests.get_mut(active) else {
            return;
        };
        let detached = request.detached;
        if let Some(parts) = request.parts() {
            parts.begun(count, part);
            if parts.have_begun() {
                self.partitioning.expected.swap_remove(at);
                if detached {
                    self.drop_parts(active);
                }
            }
        }
    }

    /// Ends those started receives that cannot get what is still to come: a member of their communicator is dead, or it is revoked.
    ///
    /// # Errors
    /// Too many requests.
    #[cold]
    pub fn give_up_partitions(&mut self) -> Result<()> {
        for at in (0..self.partitioning.expected.len()).rev() {
            let recv = &self.partitioning.expected[at].recv;
            let Err(error) = self.check_peer(&recv.comm, Plane::Collective, None) else {
                continue;
            };
            let recv = recv.clone();
            let key = self.add_request(Request::failed(error))?;
            let mut stages = recv.stages.borrow_mut();
            let missing = stages.iter_mut().filter(|stage| **stage == Stage::Missing);
            let count = missing.map(|stage| *stage = Stage::Coming(key)).count();
            self.have_begun(at, count, Some(key));
        }
        Ok(())
    }

    /// The started receives of which partitions are to come: as what the program knows them, the rank of the job that they are from,
    /// the bytes of the whole message, and the started request.
    pub fn expected_partitions(&self) -> impl Iterator<Item = (Pattern, u32, usize, RequestKey)> {
        self.partitioning.expected.iter().map(|expected| {
            let recv = &expected.recv;
            let (context, source) = (recv.comm.context_on(Plane::PointToPoint), expected.first.source());
            let pattern = Pattern::new(context, source as i32, recv.tag);
            (pattern, expected.from(), expected.len(), expected.active)
        })
    }
}

/// Whether a partition of a receive has arrived (MPI_Parrived); makes no progress. That of an
/// inactive request has.
///
/// # Errors
/// `Request`: no partitioned receive; `Arg`: no such partition.
pub fn arrived(hold: &Hold, key: RequestKey, partition: usize) -> Result<bool> {
    let (Operation::PartitionedRecv(recv), active) = operation(hold, key)? else {
        fail!(Request, "the request is not a partitioned receive");
    };
    recv.partitions.check(partition)?;
    let Some(Request {
        kind: Kind::Parts(parts),
        ..
    }) = active.and_then(|active| hold.requests.get(active))
    else {
        return Ok(true);
    };
    let Hello::Said(sender) = recv.hello.get() else {
        return Ok(false);
    };
    let size = recv.partitions.size();
    let (begin, end) = (partition * size, (partition + 1) * size);
    let stages = recv.stages.borrow();
    if sender.size == 0 || end > sender.number * sender.size || stages.len() < sender.number {
        return Ok(parts.are_over(hold));
    }
    let which = begin / sender.size..end.div_ceil(sender.size);
    let here = stages[which.clone()].iter().all(|stage| stage.is_over(hold));
    if here {
        recv.settle(which);
    }
    Ok(here)
}

/// The started operation of a persistent request has ended: its bytes go where they belong.
pub fn ended(operation: &Operation) {
    if let Operation::PartitionedRecv(recv) = operation
        && let Hello::Said(sender) = recv.hello.get()
    {
        recv.settle(0..sender.number);
    }
}
