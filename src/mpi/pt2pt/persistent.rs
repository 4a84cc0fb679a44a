//! # Safety
//! Hands the application's buffers to the channel, relying on the promise of [`Buffer`].
//!
//! Persistent requests: an operation described once and started many times (MPI-4.1 §3.9).
#![allow(unsafe_code)]

use super::partitioned::{self, Incoming, Outgoing};
use super::{Mode, address, ibsend, irecv, isend, send_row};
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::call::Kept;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::error::Result;
use crate::mpi::request::{Kind, Request, RequestKey};
use crate::mpi::status::{PROC_NULL, Status};
use crate::mpi::traffic::Gift;
use crate::mpi::world::{Hold, State};
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
    /// Starts a collective operation.
    Collective {
        /// What is done.
        kept: Kept,
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
        Operation::Collective { kept, .. } => kept.comm().clone(),
        Operation::PartitionedSend(send) => send.comm().clone(),
        Operation::PartitionedRecv(recv) => recv.comm().clone(),
    };
    let kind = Kind::Persistent(Box::new(Persistent {
        operation,
        active: None,
    }));
    hold.add_request(Request::new(kind, Some(comm)))
}

/// What a request that can be started does.
///
/// # Errors
/// `Request` when it is not persistent or active already.
pub fn inactive(state: &State, key: RequestKey) -> Result<&Operation> {
    match state.requests.get(key).map(|request| &request.kind) {
        Some(Kind::Persistent(persistent)) if persistent.active.is_some() => {
            fail!(Request, "the persistent request is active already")
        }
        Some(Kind::Persistent(persistent)) => Ok(&persistent.operation),
        _ => fail!(Request, "the request is not persistent"),
    }
}

/// Starts a persistent request (MPI_Start).
///
/// # Errors
/// As [`inactive`]; whatever the operation says.
pub fn start(hold: &mut Hold, key: RequestKey) -> Result<()> {
    if send_at_once(hold, key)? {
        return Ok(());
    }
    let null = |hold: &mut Hold, status| hold.add_request(Request::over(status));
    let plane = Plane::PointToPoint;
    // Only what is needed is cloned.
    let active = match inactive(hold, key)? {
        Operation::Send { dest: PROC_NULL, .. } => null(hold, Status::EMPTY)?,
        Operation::Recv { source: PROC_NULL, .. } => null(hold, Status::PROC_NULL)?,
        &Operation::Send {
            ref comm,
            ref buffer,
            dest,
            tag,
            mode,
        } => {
            let (comm, buffer, dest) = (comm.clone(), buffer.clone(), dest as u32);
            match mode {
                Some(mode) => isend(hold, &comm, plane, buffer, dest, tag, mode)?,
                None => ibsend(hold, &comm, buffer, dest, tag)?,
            }
        }
        &Operation::Recv {
            ref comm,
            ref buffer,
            source,
            tag,
        } => {
            let (comm, buffer) = (comm.clone(), buffer.clone());
            irecv(hold, &comm, plane, buffer, source, tag)?
        }
        Operation::Collective { kept, gift } => {
            hold.hand_out(kept.comm(), gift);
            kept.clone().start(hold)?.unwrap_or(OVER)
        }
        Operation::PartitionedSend(send) => {
            let send = send.clone();
            partitioned::start_send(hold, &send)?
        }
        Operation::PartitionedRecv(recv) => {
            let recv = recv.clone();
            partitioned::start_recv(hold, key, &recv)?
        }
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

/// The active operation of one that was over when it was started. It names no request, and what names none is over.
const OVER: RequestKey = RequestKey::MAX;

/// Starts a send whose message leaves at once; false, and nothing done, for anything else.
fn send_at_once(state: &mut State, key: RequestKey) -> Result<bool> {
    let Some(Kind::Persistent(persistent)) = state.requests.get(key).map(|request| &request.kind) else {
        return Ok(false);
    };
    let Operation::Send {
        comm,
        buffer,
        dest,
        tag,
        mode: Some(Mode::Standard | Mode::Ready),
    } = &persistent.operation
    else {
        return Ok(false);
    };
    let usual = persistent.active.is_none() && state.engine.events == 0 && *dest >= 0;
    let Some((data, len)) = buffer.in_a_row().map(|data| (data, buffer.len())).filter(|_| usual) else {
        return Ok(false);
    };
    if state.is_checking() {
        return Ok(false);
    }
    let to = address(comm, Plane::PointToPoint, *dest as u32, *tag);
    // SAFETY: the program owns the buffer that it described.
    let sent = unsafe { send_row(state, to, (data, len)) }?;
    if sent && let Some(Kind::Persistent(persistent)) = state.requests.get_mut(key).map(|request| &mut request.kind) {
        persistent.active = Some(OVER);
    }
    Ok(sent)
}
