//! # Safety
//! Unpacks received bytes into the program's buffer, relying on the promise of [`crate::mpi::buffer`].
//!
//! Partitioned communication (MPI-4.1 §4): a message in parts that become ready one by one.
//!
//! ```text
//! Psend_init   hello: number of partitions, bytes of each, number of the first  ->   Precv_init
//! Pready(i)    partition i, under the tag of its number                         ->   Parrived
//! ```
//! Hellos travel under the program's tag and so match in the order in which both sides were made,
//! once and for all; partitions travel each for itself, whatever partitions the receiver asks about.
#![allow(unsafe_code)]

use super::persistent::{Operation, Persistent};
use super::{Mode, irecv, isend, send_at_once};
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::TAGS;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::datatype::Datatype;
use crate::mpi::error::{Class, Error, Result};
use crate::mpi::request::parts::{Part, Parts, Told};
use crate::mpi::request::{self, Kind, Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::Hold;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// What a rank knows of its partitioned operations.
#[derive(Default)]
pub struct Partitioning {
    /// Number of the next partition made for sending.
    next: u32,
    /// Started receives whose sender has not said hello yet.
    waiting: Vec<RequestKey>,
}

/// A buffer in partitions of equal size.
pub struct Partitions {
    /// Where the first one begins.
    pub address: *mut u8,
    /// How many there are.
    pub number: usize,
    /// Elements in each.
    pub count: usize,
    /// Their type.
    pub datatype: Rc<Datatype>,
}

impl Partitions {
    /// Bytes of data in each.
    fn size(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// `count` elements from number `first` on.
    fn elements(&self, first: usize, count: usize) -> Buffer {
        let address = self.address.wrapping_offset(first as isize * self.datatype.extent());
        Buffer::typed(address, count, &self.datatype)
    }
}

/// A partitioned send.
pub struct Outgoing {
    comm: Rc<Comm>,
    dest: Option<u32>,
    partitions: Partitions,
    /// Number of the first partition.
    first: u32,
}

/// A partitioned receive.
pub struct Incoming {
    comm: Rc<Comm>,
    source: Option<u32>,
    tag: i32,
    partitions: Partitions,
    hello: Cell<Hello>,
    /// Bytes that cannot be received where they belong, because the sender's partitions cut elements.
    aside: RefCell<Vec<Option<Buffer>>>,
}

/// What the receiver knows of the sender.
#[derive(Clone, Copy)]
enum Hello {
    /// Nothing: the receive of its hello, and where the words of it go.
    Awaited(RequestKey, *const u64),
    /// Its partitions.
    Said(Sender),
}

/// A sender's partitions.
#[derive(Clone, Copy)]
struct Sender {
    number: usize,
    size: usize,
    first: u32,
}

/// First of the tags of the collective plane that partitions have; the one before it is the tag of
/// hellos for the greatest tag.
const PARTITIONS: i32 = (1 << 29) + 2 * TAGS as i32;
/// How many tags they have; those of making communicators lie below and above.
const NUMBERS: u32 = 1 << 28;

/// Plane and tag of a hello: the program's plane, on which its own tags are never negative.
fn hello_tag(tag: i32) -> (Plane, i32) {
    match tag {
        i32::MAX => (Plane::Collective, PARTITIONS - 1),
        _ => (Plane::PointToPoint, i32::MIN + tag),
    }
}

/// Tag of a partition, on the collective plane.
fn tag_of(number: u32) -> i32 {
    PARTITIONS + (number % NUMBERS) as i32
}

/// Whether a tag of the collective plane is a partition's.
pub fn is_partition(tag: i32) -> bool {
    (PARTITIONS..PARTITIONS + NUMBERS as i32).contains(&tag)
}

impl Outgoing {
    /// The communicator.
    pub fn comm(&self) -> &Rc<Comm> {
        &self.comm
    }
}

impl Incoming {
    /// The communicator.
    pub fn comm(&self) -> &Rc<Comm> {
        &self.comm
    }
}

/// Makes a partitioned send and tells the receiver (MPI_Psend_init).
///
/// # Errors
/// As [`isend`].
pub fn send_init(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    partitions: Partitions,
    dest: Option<u32>,
    tag: i32,
) -> Result<Operation> {
    let first = hold.partitioning.next;
    hold.partitioning.next = first.wrapping_add(partitions.number as u32);
    if let Some(dest) = dest {
        let mut words = [partitions.number as u64, partitions.size() as u64, u64::from(first)];
        let hello = Buffer::kept(&Buffer::bytes(words.as_mut_ptr().cast(), size_of_val(&words)));
        let (plane, tag) = hello_tag(tag);
        let sent = isend(hold, comm, plane, hello, dest, tag, Mode::Standard)?;
        request::free(hold, sent)?;
    }
    let comm = comm.clone();
    Ok(Operation::PartitionedSend(Rc::new(Outgoing {
        comm,
        dest,
        partitions,
        first,
    })))
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
        aside: RefCell::default(),
    })))
}

/// Starts a partitioned send: none of its partitions is ready yet.
///
/// # Errors
/// Too many requests.
pub fn start_send(hold: &mut Hold, send: &Outgoing) -> Result<RequestKey> {
    let list = match send.dest {
        Some(_) => vec![Part::Later; send.partitions.number],
        None => Vec::new(),
    };
    let parts = Parts::new(list, Told::Is(Status::EMPTY));
    hold.add_request(Request::new(Kind::Parts(parts), Some(send.comm.clone())))
}

/// Starts a partitioned receive, the operation of the persistent request `key`.
///
/// # Errors
/// As [`irecv`].
pub fn start_recv(hold: &mut Hold, key: RequestKey, recv: &Incoming) -> Result<RequestKey> {
    let parts = match recv.sender(hold)? {
        Some(sender) => recv.post(hold, sender)?,
        None => {
            hold.partitioning.waiting.push(key);
            Parts::new(vec![Part::Later], Told::Is(Status::EMPTY))
        }
    };
    hold.add_request(Request::new(Kind::Parts(parts), Some(recv.comm.clone())))
}

/// Posts the receives that waited for a hello, for those that have got it.
///
/// # Errors
/// As [`irecv`].
#[inline]
pub fn advance(hold: &mut Hold) -> Result<()> {
    if hold.partitioning.waiting.is_empty() {
        return Ok(());
    }
    for key in std::mem::take(&mut hold.partitioning.waiting) {
        let Ok((Operation::PartitionedRecv(recv), Some(active))) = operation(hold, key) else {
            continue;
        };
        let Some(sender) = recv.sender(hold)? else {
            hold.partitioning.waiting.push(key);
            continue;
        };
        let posted = recv.post(hold, sender)?;
        if let Some(parts) = hold.requests.get_mut(active).and_then(Request::parts) {
            *parts = posted;
        }
    }
    Ok(())
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
        super::finish(hold, key)?;
        let sender = Sender {
            number: number as usize,
            size: size as usize,
            first: first as u32,
        };
        self.hello.set(Hello::Said(sender));
        Ok(Some(sender))
    }

    /// Posts a receive for each of the sender's partitions.
    fn post(&self, hold: &mut Hold, sender: Sender) -> Result<Parts> {
        let Some(source) = self.source else {
            return Ok(Parts::new(Vec::new(), Told::Is(Status::PROC_NULL)));
        };
        let (bytes, room) = (
            sender.number.saturating_mul(sender.size),
            self.partitions.number * self.partitions.size(),
        );
        if bytes > room {
            let text = format!("the partitions sent have {bytes} bytes, those to be received {room}");
            let mut failed = Request::over(Status::EMPTY);
            failed.error = Some(Error::new(Class::Truncate, text));
            return Ok(Parts::new(vec![Part::Started(hold.add_request(failed)?)], Told::First));
        }
        let mut list = Vec::with_capacity(sender.number);
        self.aside.borrow_mut().clear();
        for index in 0..sender.number {
            let buffer = self.place(index * sender.size, sender.size);
            let tag = tag_of(sender.first.wrapping_add(index as u32));
            let key = irecv(hold, &self.comm, Plane::Collective, buffer, source as i32, tag)?;
            list.push(Part::Started(key));
        }
        let status = Status {
            source: source as i32,
            tag: self.tag,
            bytes: bytes as u64,
            ..Status::EMPTY
        };
        Ok(Parts::new(list, Told::Is(status)))
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
            layout: crate::mpi::buffer::Layout::Kept(bytes),
        };
        self.aside.borrow_mut().push(Some(buffer.clone()));
        buffer
    }

    /// Puts what was received aside where it belongs: the sender's partitions `which`, all arrived.
    pub fn settle(&self, which: std::ops::Range<usize>) {
        let Hello::Said(sender) = self.hello.get() else {
            return;
        };
        let mut aside = self.aside.borrow_mut();
        if aside.is_empty() {
            return;
        }
        let whole = self
            .partitions
            .elements(0, self.partitions.number * self.partitions.count);
        // Either every partition lies aside or none does: they have one size.
        for index in which {
            if let Some(kept) = aside.get_mut(index).and_then(Option::take) {
                // SAFETY: `kept` holds the partition's bytes, and the message has room for all.
                unsafe { whole.unpack(index * sender.size, kept.address, sender.size) };
            }
        }
    }
}

/// The operation of a persistent request, and its started form.
fn operation(hold: &Hold, key: RequestKey) -> Result<(Operation, Option<RequestKey>)> {
    match hold.requests.get(key).map(|request| &request.kind) {
        Some(Kind::Persistent(persistent)) => {
            let Persistent { operation, active } = &**persistent;
            Ok((operation.clone(), *active))
        }
        _ => fail!(Request, "the request is not a partitioned one"),
    }
}

fn check(partition: usize, partitions: &Partitions) -> Result<()> {
    if partition >= partitions.number {
        let number = partitions.number;
        fail!(Arg, "there is no partition {partition}: the request has {number}");
    }
    Ok(())
}

/// Says that partitions may be sent (MPI_Pready and its forms).
///
/// # Errors
/// `Request`: no active partitioned send; `Arg`: no such partition, or one that is ready already.
pub fn ready(hold: &mut Hold, key: RequestKey, which: impl Iterator<Item = usize>) -> Result<()> {
    let (Operation::PartitionedSend(send), active) = operation(hold, key)? else {
        fail!(Request, "the request is not a partitioned send");
    };
    let Some(active) = active else {
        fail!(Request, "the partitioned send has not been started");
    };
    for partition in which {
        check(partition, &send.partitions)?;
        let Some(dest) = send.dest else { continue };
        let parts = hold.requests.get_mut(active).and_then(Request::parts);
        if parts.is_none_or(|parts| parts.list()[partition] != Part::Later) {
            fail!(Arg, "partition {partition} has been marked as ready already");
        }
        let count = send.partitions.count;
        let buffer = send.partitions.elements(partition * count, count);
        let tag = tag_of(send.first.wrapping_add(partition as u32));
        let (comm, plane) = (&send.comm, Plane::Collective);
        let part = match send_at_once(hold, comm, plane, &buffer, dest, tag)? {
            true => Part::Over,
            false => Part::Started(isend(hold, comm, plane, buffer, dest, tag, Mode::Standard)?),
        };
        if let Some(parts) = hold.requests.get_mut(active).and_then(Request::parts) {
            parts.set(partition, part);
        }
    }
    // Another thread may wait for the send.
    hold.wake_threads();
    Ok(())
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
    check(partition, &recv.partitions)?;
    let parts = match active.and_then(|active| hold.requests.get(active)) {
        Some(Request {
            kind: Kind::Parts(parts),
            ..
        }) => parts,
        _ => return Ok(true),
    };
    let Hello::Said(sender) = recv.hello.get() else {
        return Ok(false);
    };
    let size = recv.partitions.size();
    let (begin, end) = (partition * size, (partition + 1) * size);
    if sender.size == 0 || end > sender.number * sender.size || parts.list().len() < sender.number {
        return Ok(parts.are_over(hold));
    }
    let which = begin / sender.size..end.div_ceil(sender.size);
    let here = parts.list()[which.clone()].iter().all(|part| part.is_over(hold));
    if here {
        recv.settle(which);
    }
    Ok(here)
}

/// The started operation of a persistent request has ended: its bytes go where they belong.
pub fn ended(operation: &Operation) {
    if let Operation::PartitionedRecv(recv) = operation {
        let aside = recv.aside.borrow().len();
        recv.settle(0..aside);
    }
}

/// The persistent request is being freed: a hello that has not come will be of no use.
///
/// # Errors
/// None of its own: as [`request::free`].
pub fn freed(hold: &mut Hold, operation: &Operation) -> Result<()> {
    match operation {
        Operation::PartitionedRecv(recv) => match recv.hello.get() {
            Hello::Awaited(key, _) => request::free(hold, key),
            Hello::Said(_) => Ok(()),
        },
        _ => Ok(()),
    }
}
