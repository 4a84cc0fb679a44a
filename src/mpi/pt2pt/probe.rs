//! Probing: what has come, without receiving it (MPI-4.1 §3.8).

use super::glance;
use super::matching::{Envelope, Pattern};
use super::types::Which;
use super::unexpected::Stored;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::error::Result;
use crate::mpi::request::{Kind, Request, RequestKey};
use crate::mpi::sleep::Awaited;
use crate::mpi::status::{ANY_SOURCE, Status};
use crate::mpi::world::{Hold, State};
use std::rc::Rc;

/// The first message that a receive would get now.
///
/// # Errors
/// A peer that left the protocol; `ProcFailed`, `Revoked`: there is none, and none can come any more.
pub fn iprobe(hold: &mut Hold, comm: &Comm, source: i32, tag: i32) -> Result<Option<Status>> {
    let pattern = pattern(comm, source, tag);
    if let Some(status) = hold.look(pattern) {
        return Ok(Some(status));
    }
    let moved = hold.look_around(first(comm, source))?;
    let found = hold.look(pattern);
    if found.is_none() {
        check_source(hold, comm, source)?;
    }
    hold.in_vain(moved || found.is_some());
    Ok(found)
}

/// The short way of [`iprobe`], and of [`probe`] if the program `waits`: a look at the kept messages, and at the source's ring.
#[inline(always)]
pub fn probe_glancing(hold: &mut Hold, comm: &Comm, pattern: Pattern, waits: bool) -> Option<Status> {
    let kept = match hold.engine.unexpected.is_empty() {
        true => None,
        false => hold.look(pattern),
    };
    kept.or_else(|| glance::probe_next(hold, comm, pattern, waits))
}

/// Waits for a message.
///
/// # Errors
/// A peer that left the protocol.
pub fn probe(hold: &mut Hold, comm: &Comm, source: i32, tag: i32) -> Result<Status> {
    let pattern = pattern(comm, source, tag);
    let mut found = None;
    let from = first(comm, source);
    hold.wait_for(Awaited::Probe(pattern, from), from, |hold| {
        found = hold.look(pattern);
        if found.is_none() {
            check_source(hold, comm, source)?;
        }
        Ok(found.is_some())
    })?;
    Ok(found.unwrap_or(Status::EMPTY))
}

/// Refuses to look for what cannot come any more.
fn check_source(hold: &Hold, comm: &Comm, source: i32) -> Result<()> {
    let source = (source != ANY_SOURCE).then_some(source as u32);
    hold.check_peer(comm, Plane::PointToPoint, source)
}

/// Takes the first message that a receive would get now out of matching, for
/// [`super::imrecv`] (MPI_Improbe).
///
/// # Errors
/// As [`iprobe`].
pub fn improbe(hold: &mut Hold, comm: &Rc<Comm>, source: i32, tag: i32) -> Result<Option<(RequestKey, Status)>> {
    if iprobe(hold, comm, source, tag)?.is_none() {
        return Ok(None);
    }
    take_kept(hold, comm, source, tag)
}

/// Waits for a message and takes it out of matching (MPI_Mprobe).
///
/// # Errors
/// A peer that left the protocol.
pub fn mprobe(hold: &mut Hold, comm: &Rc<Comm>, source: i32, tag: i32) -> Result<(RequestKey, Status)> {
    loop {
        let status = probe(hold, comm, source, tag)?;
        if let Some(key) = extract(hold, comm, source, tag)? {
            return Ok((key, status));
        }
    }
}

/// As [`improbe`], among what has come; makes no progress.
///
/// # Errors
/// Too many requests.
pub fn take_kept(hold: &mut Hold, comm: &Rc<Comm>, source: i32, tag: i32) -> Result<Option<(RequestKey, Status)>> {
    while let Some(status) = hold.look(pattern(comm, source, tag)) {
        if let Some(key) = extract(hold, comm, source, tag)? {
            return Ok(Some((key, status)));
        }
    }
    Ok(None)
}

/// Takes the first message that a receive would get now out of matching, and out of its sender's hands: who has matched it shall
/// get it. `None` if there is none, or its sender was quicker and has withdrawn it.
fn extract(hold: &mut Hold, comm: &Rc<Comm>, source: i32, tag: i32) -> Result<Option<RequestKey>> {
    let Some((envelope, stored)) = hold.engine.unexpected.take(pattern(comm, source, tag)) else {
        return Ok(None);
    };
    if !hold.claim(&stored) {
        hold.drop_note(envelope, Which::First);
        return Ok(None);
    }
    let request = Request::new(Kind::Matched(envelope, stored), Some(comm.clone()));
    let key = hold.add_request(request)?;
    hold.take_note(key, envelope);
    Ok(Some(key))
}

fn pattern(comm: &Comm, source: i32, tag: i32) -> Pattern {
    Pattern::new(comm.context_on(Plane::PointToPoint), source, tag)
}

/// Whose ring to look at first: the source's, if it is known.
pub(super) fn first(comm: &Comm, source: i32) -> Option<u32> {
    (source != ANY_SOURCE).then(|| comm.peers().world(source as u32))
}

impl State {
    /// The first kept message that matches; offers withdrawn since are dropped.
    pub(super) fn look(&mut self, pattern: Pattern) -> Option<Status> {
        loop {
            let (envelope, stored) = self.engine.unexpected.peek(pattern)?;
            let len = stored.len();
            let withdrawn = match stored {
                Stored::Offer(offered) => !self.engine.channel.stands(offered),
                Stored::Asked(kept) => !self.engine.channel.asked_stands(&kept.0),
                _ => false,
            };
            if withdrawn {
                self.drop_note(envelope, Which::First);
                self.engine.unexpected.take(pattern);
                continue;
            }
            return Some(status(envelope, len));
        }
    }
}

fn status(envelope: Envelope, len: usize) -> Status {
    Status::received(envelope.source() as i32, envelope.tag(), len)
}
