//! Persistent requests: an operation described once and started many times (MPI-4.1 §3.9).

use super::partitioned::{self, Incoming, Outgoing};
use super::{Mode, ibsend, irecv, isend};
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::machine::{self, Operation as Collective};
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::error::Result;
use crate::mpi::request::{Kind, Request, RequestKey};
use crate::mpi::status::{PROC_NULL, Status};
use crate::mpi::traffic::Gift;
use crate::mpi::world::Hold;
use std::rc::Rc;

/// A persistent operation.
pub struct Persistent {
    /// What a start does.
    pub operation: Operation,
    /// The started operation, until it is waited for.
    pub active: Option<RequestKey>,
}

/// What a start does.
#[derive(Clone)]
pub enum Operation {
    /// Sends; `mode` `None` means buffered.
    Send {
        /// Communicator.
        comm: Rc<Comm>,
        /// Data.
        buffer: Buffer,
        /// Receiver, or PROC_NULL.
        dest: i32,
        /// Tag.
        tag: i32,
        /// Mode.
        mode: Option<Mode>,
    },
    /// Receives.
    Recv {
        /// Communicator.
        comm: Rc<Comm>,
        /// Room.
        buffer: Buffer,
        /// Sender, ANY_SOURCE or PROC_NULL.
        source: i32,
        /// Tag or ANY_TAG.
        tag: i32,
    },
    /// Runs a collective operation with the tag it was given when it was made.
    Collective {
        /// What is done.
        operation: Rc<Collective>,
        /// Tag.
        tag: i32,
        /// What a start gives to the others, if that is counted.
        gift: Gift,
    },
    /// Sends partitions as they become ready.
    PartitionedSend(Rc<Outgoing>),
    /// Receives partitions.
    PartitionedRecv(Rc<Incoming>),
}

/// Makes an inactive persistent request.
///
/// # Errors
/// `NoMem` when there are too many requests.
pub fn create(hold: &mut Hold, operation: Operation) -> Result<RequestKey> {
    let comm = match &operation {
        Operation::Send { comm, .. } | Operation::Recv { comm, .. } => comm.clone(),
        Operation::Collective { operation, .. } => operation.comm.clone(),
        Operation::PartitionedSend(send) => send.comm().clone(),
        Operation::PartitionedRecv(recv) => recv.comm().clone(),
    };
    let kind = Kind::Persistent(Box::new(Persistent {
        operation,
        active: None,
    }));
    hold.add_request(Request::new(kind, Some(comm)))
}

/// Starts a persistent request (MPI_Start).
///
/// # Errors
/// `Request` when it is not persistent or active already; whatever the operation says.
pub fn start(hold: &mut Hold, key: RequestKey) -> Result<()> {
    let operation = match hold.requests.get(key).map(|request| &request.kind) {
        Some(Kind::Persistent(persistent)) if persistent.active.is_some() => {
            fail!(Request, "the persistent request is active already")
        }
        Some(Kind::Persistent(persistent)) => persistent.operation.clone(),
        _ => fail!(Request, "the request is not persistent"),
    };
    let null = |hold: &mut Hold, status| hold.add_request(Request::over(status));
    let active = match operation {
        Operation::Send { dest: PROC_NULL, .. } => null(hold, Status::EMPTY)?,
        Operation::Recv { source: PROC_NULL, .. } => null(hold, Status::PROC_NULL)?,
        Operation::Send {
            comm,
            buffer,
            dest,
            tag,
            mode: Some(mode),
        } => isend(hold, &comm, Plane::PointToPoint, buffer, dest as u32, tag, mode)?,
        Operation::Send {
            comm,
            buffer,
            dest,
            tag,
            mode: None,
        } => ibsend(hold, &comm, buffer, dest as u32, tag)?,
        Operation::Recv {
            comm,
            buffer,
            source,
            tag,
        } => irecv(hold, &comm, Plane::PointToPoint, buffer, source, tag)?,
        Operation::Collective { operation, tag, gift } => {
            hold.hand_out(&operation.comm, &gift);
            machine::start(hold, operation, tag)?
        }
        Operation::PartitionedSend(send) => partitioned::start_send(hold, &send)?,
        Operation::PartitionedRecv(recv) => partitioned::start_recv(hold, key, &recv)?,
    };
    if let Some(Request {
        kind: Kind::Persistent(persistent),
        ..
    }) = hold.requests.get_mut(key)
    {
        persistent.active = Some(active);
    }
    Ok(())
}
