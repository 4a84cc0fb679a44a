//! Partitioned communication (MPI-4.1 §4): a message in parts that become ready one by one.
//!
//! ```text
//! Psend_init   hello: number of partitions, bytes of each, number of the first  ->   Precv_init
//! Pready(i)    partitions i, i+1 .., under the tag of the first one's number    ->   Parrived
//! ```
//! Hellos travel under the program's tag and so match in the order in which both sides were made, once and for all. Partitions
//! travel in runs, whatever partitions the receiver asks about: those in a row that are ready when a message leaves are one message,
//! whose length says how many they are. No receive is posted for them: a message that has a partition's tag and no posted receive is
//! looked for among the started receives.

mod recv;
mod send;
#[cfg(test)]
mod tests;

pub use recv::{Incoming, arrived, ended, recv_init, start_recv};
pub use send::{Outgoing, hold_another, ready, send_init, start_send};

use super::matching::Envelope;
use super::persistent::{Operation, Persistent};
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::TAGS;
use crate::mpi::comm::Plane;
use crate::mpi::datatype::Datatype;
use crate::mpi::error::Result;
use crate::mpi::request::{self, Kind, RequestKey};
use crate::mpi::world::{Hold, State};
use std::rc::Rc;

/// What a rank knows of its partitioned operations.
#[derive(Default)]
pub struct Partitioning {
    /// Number of the next partition made for sending.
    next: u32,
    /// Started receives whose sender has not said hello yet.
    waiting: Vec<RequestKey>,
    /// Started receives of which partitions have not come.
    expected: Vec<recv::Expected>,
    /// Started sends of which ready partitions have not left.
    holding: Vec<(RequestKey, Rc<Outgoing>)>,
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

    fn check(&self, partition: usize) -> Result<()> {
        if partition >= self.number {
            let number = self.number;
            fail!(Arg, "there is no partition {partition}: the request has {number}");
        }
        Ok(())
    }
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

/// Whether a message is of partitions.
#[inline]
pub fn are_partitions(envelope: Envelope) -> bool {
    envelope.context() & 1 != 0 && (PARTITIONS..PARTITIONS + NUMBERS as i32).contains(&envelope.tag())
}

/// The operation of a persistent request, and its started form.
#[inline]
fn operation(state: &State, key: RequestKey) -> Result<(&Operation, Option<RequestKey>)> {
    match state.requests.get(key).map(|request| &request.kind) {
        Some(Kind::Persistent(persistent)) => {
            let Persistent { operation, active } = &**persistent;
            Ok((operation, *active))
        }
        _ => fail!(Request, "the request is not a partitioned one"),
    }
}

/// Messages have come: sees to the receives that waited for a hello.
///
/// # Errors
/// Too many requests.
#[inline]
pub fn advance(hold: &mut Hold) -> Result<()> {
    match hold.partitioning.waiting.is_empty() {
        true => Ok(()),
        false => recv::greet(hold),
    }
}

/// This rank looks for messages: sends what is held of any send.
///
/// # Errors
/// Too many requests.
#[inline]
pub fn send_held(hold: &mut Hold) -> Result<()> {
    match hold.partitioning.holding.is_empty() {
        true => Ok(()),
        false => send::leave_all(hold),
    }
}

/// A persistent request is being freed: partitions that are ready leave, and a hello that has not come will be of no use.
///
/// # Errors
/// As [`request::free`].
pub fn freed(hold: &mut Hold, operation: &Operation) -> Result<()> {
    match operation {
        Operation::PartitionedSend(send) => send::let_go(hold, send),
        Operation::PartitionedRecv(recv) => match recv.awaited_hello() {
            Some(key) => request::free(hold, key),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}
