//! Point-to-point communication (MPI-4.1 §3).

pub mod matching;

use super::buffer::Buffer;
use super::comm::{Comm, Plane};
use super::error::Result;
use super::request::RequestKey;
use super::status::Status;
use super::world::Hold;
use std::rc::Rc;

/// Communication modes of MPI-4.1 §3.4 (buffered sends copy first and then are standard sends).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// May complete before a matching receive is posted.
    Standard,
    /// Completes only once a matching receive has started.
    Synchronous,
    /// The receive is posted already, says the program.
    Ready,
}

/// Starts a send to rank `dest` of `comm.peers()` (never PROC_NULL) and returns its request.
pub fn isend(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    plane: Plane,
    buffer: Buffer,
    dest: u32,
    tag: i32,
    mode: Mode,
) -> Result<RequestKey> {
    let _ = (hold, comm, plane, buffer, dest, tag, mode);
    unreachable!()
}

/// Starts a receive from `source` (a rank of `comm.peers()` or ANY_SOURCE) with `tag` (or ANY_TAG).
pub fn irecv(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    plane: Plane,
    buffer: Buffer,
    source: i32,
    tag: i32,
) -> Result<RequestKey> {
    let _ = (hold, comm, plane, buffer, source, tag);
    unreachable!()
}

/// Whether the operation is over; makes no progress.
pub fn is_done(hold: &Hold, request: RequestKey) -> bool {
    let _ = (hold, request);
    unreachable!()
}

/// Frees a request that is over and tells how it ended.
pub fn finish(hold: &mut Hold, request: RequestKey) -> Result<Status> {
    let _ = (hold, request);
    unreachable!()
}

/// Waits for the operation, frees the request and tells how it ended.
pub fn wait(hold: &mut Hold, request: RequestKey) -> Result<Status> {
    let _ = (hold, request);
    unreachable!()
}

/// Blocking send.
pub fn send(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    plane: Plane,
    buffer: Buffer,
    dest: u32,
    tag: i32,
    mode: Mode,
) -> Result<()> {
    let request = isend(hold, comm, plane, buffer, dest, tag, mode)?;
    wait(hold, request).map(drop)
}

/// Blocking receive.
pub fn recv(hold: &mut Hold, comm: &Rc<Comm>, plane: Plane, buffer: Buffer, source: i32, tag: i32) -> Result<Status> {
    let request = irecv(hold, comm, plane, buffer, source, tag)?;
    wait(hold, request)
}
