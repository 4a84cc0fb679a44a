//! Partitioned sends: which partitions are ready, and when they leave.

use super::super::persistent::Operation;
use super::super::{Mode, isend, send_at_once};
use super::{Partitions, hello_tag, operation, tag_of};
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::error::Result;
use crate::mpi::request::parts::{Parts, Told};
use crate::mpi::request::{self, Kind, Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::{Hold, State};
use std::cell::Cell;
use std::rc::Rc;

/// A partitioned send.
pub struct Outgoing {
    comm: Rc<Comm>,
    dest: Option<u32>,
    partitions: Partitions,
    /// Bytes in each.
    size: usize,
    /// Number of the first partition.
    first: u32,
    /// How far each has come since the start.
    stages: Vec<Cell<Stage>>,
    /// How many are not ready.
    unready: Cell<usize>,
    /// How many are ready and have not left.
    held: Cell<usize>,
}

/// How far a partition has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The program may still write to it.
    Unready,
    /// It may leave.
    Held,
    /// It has left, or does.
    Gone,
}

impl Outgoing {
    /// The communicator.
    pub fn comm(&self) -> &Rc<Comm> {
        &self.comm
    }

    /// Holds a partition, if the program may still write to it.
    #[inline]
    fn hold(&self, partition: usize) -> bool {
        let unready = self.stages.get(partition).filter(|stage| stage.get() == Stage::Unready);
        if let Some(stage) = unready {
            stage.set(Stage::Held);
            self.unready.set(self.unready.get() - 1);
            self.held.set(self.held.get() + 1);
        }
        unready.is_some()
    }

    fn mark(&self, partition: usize) -> Result<()> {
        self.partitions.check(partition)?;
        if self.dest.is_some() && !self.hold(partition) {
            fail!(Arg, "partition {partition} has been marked as ready already");
        }
        Ok(())
    }

    /// Whether so many that are held shall wait for others: not for long, and none without bytes, whose number no length tells.
    #[inline]
    fn waits(&self, held: usize, most: usize) -> bool {
        let bytes = held * self.size;
        held == 0 || self.unready.get() > 0 && bytes > 0 && bytes < most
    }

    /// The next of the partitions from `from` on that leave together, which are no longer held.
    fn next_run(&self, from: usize) -> std::ops::Range<usize> {
        let is_held = |stage: &Cell<Stage>| stage.get() == Stage::Held;
        let first = from + self.stages[from..].iter().take_while(|stage| !is_held(stage)).count();
        let most = if self.size == 0 { 1 } else { usize::MAX };
        let run = self.stages[first..].iter().take_while(|stage| is_held(stage));
        let end = first + run.take(most).inspect(|stage| stage.set(Stage::Gone)).count();
        self.held.set(self.held.get() - (end - first));
        first..end
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
    let (size, mut stages) = (partitions.size(), Vec::new());
    if let Some(dest) = dest {
        let mut words = [partitions.number as u64, size as u64, u64::from(first)];
        let hello = Buffer::kept(&Buffer::bytes(words.as_mut_ptr().cast(), size_of_val(&words)));
        let (plane, tag) = hello_tag(tag);
        let sent = isend(hold, comm, plane, hello, dest, tag, Mode::Standard)?;
        request::free(hold, sent)?;
        stages.resize(partitions.number, Cell::new(Stage::Unready));
    }
    let comm = comm.clone();
    Ok(Operation::PartitionedSend(Rc::new(Outgoing {
        comm,
        dest,
        partitions,
        size,
        first,
        stages,
        unready: Cell::new(0),
        held: Cell::new(0),
    })))
}

/// Starts a partitioned send: none of its partitions is ready yet.
///
/// # Errors
/// Too many requests.
pub fn start_send(hold: &mut Hold, send: &Outgoing) -> Result<RequestKey> {
    let number = send.stages.len();
    send.stages.iter().for_each(|stage| stage.set(Stage::Unready));
    send.unready.set(number);
    send.held.set(0);
    let parts = Parts::later(number, Told::Is(Status::EMPTY));
    hold.add_request(Request::new(Kind::Parts(parts), Some(send.comm.clone())))
}

/// Says that partitions may be sent (MPI_Pready and its forms). They leave when `NEARMPI_PARTITION_HOLD` bytes are ready, or all
/// partitions are, or this rank looks for messages.
///
/// # Errors
/// `Request`: no active partitioned send; `Arg`: no such partition, or one that is ready already.
pub fn ready(hold: &mut Hold, key: RequestKey, mut which: impl Iterator<Item = usize>) -> Result<()> {
    let most = hold.engine.channel.settings().partition_hold as usize;
    let (Operation::PartitionedSend(send), active) = operation(hold, key)? else {
        fail!(Request, "the request is not a partitioned send");
    };
    let Some(active) = active else {
        fail!(Request, "the partitioned send has not been started");
    };
    let held = send.held.get();
    let marked = which.try_for_each(|partition| send.mark(partition));
    if !send.waits(send.held.get(), most) {
        let send = send.clone();
        if held > 0 {
            hold.partitioning.holding.retain(|(holding, _)| *holding != key);
        }
        leave(hold, &send, Some(active))?;
        // Another thread may wait for the send.
        hold.wake_threads();
    } else if held == 0 && send.held.get() > 0 {
        let send = send.clone();
        hold.partitioning.holding.push((key, send));
        if hold.engine.asleep {
            hold.wake_threads(); // the one that sleeps for all looks for messages now
        }
    }
    marked
}

/// The short way of [`ready`]: holds one more partition, if others are held and wait on then. False, and nothing done, for anything else.
#[inline(always)]
pub fn hold_another(state: &State, key: RequestKey, partition: usize) -> bool {
    let most = state.engine.channel.settings().partition_hold as usize;
    let mut holding = state.partitioning.holding.iter();
    holding.find(|(holding, _)| *holding == key).is_some_and(|(_, send)| {
        send.unready.get() > 1 && send.waits(send.held.get() + 1, most) && send.hold(partition)
    })
}

/// Sends what is held of any send.
///
/// # Errors
/// Too many requests.
#[cold]
pub(super) fn leave_all(hold: &mut Hold) -> Result<()> {
    for (key, send) in std::mem::take(&mut hold.partitioning.holding) {
        let (_, active) = operation(hold, key)?;
        leave(hold, &send, active)?;
    }
    Ok(())
}

/// Sends what is held of a send that the program lets go of.
///
/// # Errors
/// Too many requests.
pub(super) fn let_go(hold: &mut Hold, send: &Rc<Outgoing>) -> Result<()> {
    hold.partitioning
        .holding
        .retain(|(_, holding)| !Rc::ptr_eq(holding, send));
    leave(hold, send, None)
}

/// Sends what is held, for the started request `active` if there still is one. What goes wrong there ends that with an error.
fn leave(hold: &mut Hold, send: &Outgoing, active: Option<RequestKey>) -> Result<()> {
    let (comm, plane, count) = (&send.comm, Plane::Collective, send.partitions.count);
    let Some(dest) = send.dest else { return Ok(()) };
    let mut from = 0;
    while send.held.get() > 0 {
        let run = send.next_run(from);
        from = run.end;
        let buffer = send.partitions.elements(run.start * count, run.len() * count);
        let tag = tag_of(send.first.wrapping_add(run.start as u32));
        let sent = send_at_once(hold, comm, plane, &buffer, dest, tag).and_then(|at_once| match at_once {
            true => Ok(None),
            false => isend(hold, comm, plane, buffer, dest, tag, Mode::Standard).map(Some),
        });
        let part = match sent {
            Ok(part) => part,
            Err(error) => Some(hold.add_request(Request::failed(error))?),
        };
        match active.and_then(|active| hold.requests.get_mut(active)?.parts()) {
            Some(parts) => parts.begun(run.len(), part),
            None => part.map_or(Ok(()), |key| request::free(hold, key))?,
        }
    }
    Ok(())
}
