//! Requests: what has been started and is not yet waited for (MPI-4.1 §3.7).

pub mod parts;

use super::buffer::Buffer;
use super::comm::Comm;
use super::error::{Class, Error, Result};
use super::failure::{self, Agreement};
use super::pt2pt::buffered::{Account, Charge};
use super::pt2pt::matching::{Envelope, Pattern, Token};
use super::pt2pt::partitioned;
use super::pt2pt::persistent::Persistent;
use super::pt2pt::unexpected::Stored;
use super::status::Status;
use super::world::{Hold, State};
use crate::channel::packet::OfferId;
use crate::fail;
use parts::Parts;
use std::rc::Rc;

/// Key of a request in [`super::world::State::requests`].
pub type RequestKey = u32;

/// A started operation.
pub struct Request {
    /// What it is.
    pub kind: Kind,
    /// Its communicator, whose error handler gets its errors.
    pub comm: Option<Rc<Comm>>,
    /// Set when the operation is over: how it ended.
    pub done: Option<Status>,
    /// What went wrong, if something did.
    pub error: Option<Error>,
    /// Freed by the program while under way: goes when it is over.
    pub detached: bool,
}

/// Kinds of operation.
pub enum Kind {
    /// Nothing is left to do.
    Over,
    /// A send; the offer it stands in, if it was offered.
    Send(Option<OfferId>),
    /// A send from an attached buffer, in which it holds this room.
    Buffered(Charge),
    /// Over once the messages of an attached buffer have left that were sent up to the end of an epoch.
    Flush(Account, u64),
    /// A receive.
    Recv(Receive),
    /// A message matched by a probe, not yet received (`MPI_Message`).
    Matched(Envelope, Stored),
    /// A nonblocking collective; its schedule is in [`State::schedules`].
    Collective,
    /// A persistent operation.
    Persistent(Box<Persistent>),
    /// Several operations under one handle.
    Parts(Parts),
    /// A vote of the members of a communicator (MPIX_Comm_iagree).
    Agreement(Box<Agreement>),
    /// A generalized request; what it calls back is the C edge's business.
    Generalized(Rc<dyn Generalized>),
}

/// A receive under way.
pub struct Receive {
    /// Where the message goes.
    pub buffer: Buffer,
    /// What it waits for.
    pub stage: Stage,
}

/// What a receive waits for.
#[derive(Clone, Copy, Debug)]
pub enum Stage {
    /// It has just begun.
    New,
    /// A message; this is its place in the queue of posted receives.
    Posted(Token),
    /// The same, but it takes any source, and one that it might have waited for is dead: waits end, the
    /// receive stands.
    Pending(Token),
    /// The rest of the message it took, whose bytes come in pieces.
    Coming(Coming),
}

/// A message that comes in pieces for a receive.
#[derive(Clone, Copy, Debug)]
pub struct Coming {
    /// Rank in the job of the sender.
    pub from: u32,
    /// Envelope.
    pub envelope: Envelope,
    /// Bytes in the message.
    pub len: usize,
    /// Bytes that have been asked for.
    pub wanted: usize,
}

/// Call-backs of a generalized request (MPI-4.1 §13.2); while one runs other threads may run others.
pub trait Generalized {
    /// Fills in the status of the completed operation. Runs outside the gate.
    fn query(&self) -> (Status, Result<()>);
    /// Frees what the program attached. Runs outside the gate.
    fn free(&self) -> Result<()>;
    /// The program wants the operation cancelled. Runs outside the gate.
    fn cancel(&self, complete: bool) -> Result<()>;
    /// The call-backs have Fortran's form.
    fn speak_fortran(&self);
    /// What waits for the end in the program's own way, if it has one. Runs outside the gate.
    fn waiter(&self) -> Option<Box<dyn FnOnce() -> Result<()>>>;
}

/// How an operation ended.
pub struct Outcome {
    /// Its status.
    pub status: Status,
    /// Its error.
    pub error: Option<Error>,
    /// Whether the handle still names a (persistent) request.
    pub kept: bool,
}

impl Receive {
    /// A receive into `buffer` that has just begun.
    #[inline(always)]
    pub fn new(buffer: Buffer) -> Receive {
        Receive {
            buffer,
            stage: Stage::New,
        }
    }

    /// The message it took, while its bytes come in pieces.
    pub fn coming(&self) -> Option<Coming> {
        match self.stage {
            Stage::Coming(coming) => Some(coming),
            _ => None,
        }
    }
}

impl Request {
    /// A request under way.
    #[inline(always)]
    pub fn new(kind: Kind, comm: Option<Rc<Comm>>) -> Request {
        Request {
            kind,
            comm,
            done: None,
            error: None,
            detached: false,
        }
    }

    /// Whether it is a receive that waits do not wait for, since a source of it is dead.
    pub fn is_pending(&self) -> bool {
        self.done.is_none()
            && matches!(
                &self.kind,
                Kind::Recv(Receive {
                    stage: Stage::Pending(_),
                    ..
                })
            )
    }

    /// A request that has failed.
    pub fn failed(error: Error) -> Request {
        Request {
            error: Some(error),
            ..Request::over(Status::EMPTY)
        }
    }

    /// A request that is over.
    pub fn over(status: Status) -> Request {
        Request {
            kind: Kind::Over,
            comm: None,
            done: Some(status),
            error: None,
            detached: false,
        }
    }
}

impl State {
    /// Stores a request.
    ///
    /// # Errors
    /// `NoMem` when there are 2^22 already.
    pub fn add_request(&mut self, request: Request) -> Result<RequestKey> {
        self.make_request(|| request)
    }

    /// Stores the request that `make` makes.
    ///
    /// # Errors
    /// As [`State::add_request`].
    #[inline(always)]
    pub fn make_request(&mut self, make: impl FnOnce() -> Request) -> Result<RequestKey> {
        match self.requests.insert_with(make) {
            Some(key) => Ok(key),
            None => too_many(),
        }
    }

    /// Stores and posts a receive.
    ///
    /// # Errors
    /// As [`State::add_request`].
    #[inline(always)]
    pub fn add_posted(&mut self, comm: Rc<Comm>, buffer: Buffer, pattern: Pattern) -> Result<RequestKey> {
        let key = self.make_request(|| Request::new(Kind::Recv(Receive::new(buffer)), Some(comm)))?;
        self.post(key, pattern);
        Ok(key)
    }

    /// Puts the receive `key` at the end of the queue of posted ones.
    #[inline(always)]
    pub fn post(&mut self, key: RequestKey, pattern: Pattern) {
        let token = self.engine.posted.post(pattern, key);
        if let Some(Kind::Recv(receive)) = self.requests.get_mut(key).map(|request| &mut request.kind) {
            receive.stage = Stage::Posted(token);
        }
    }

    /// Ends an operation; a request that the program has let go of is removed.
    pub fn complete(&mut self, key: RequestKey, status: Status, error: Option<Error>) {
        let Some(request) = self.requests.get_mut(key) else {
            return;
        };
        if let Kind::Buffered(charge) = &request.kind {
            charge.give_back();
        }
        let error_class = error.as_ref().map_or(0, |error| error.class() as i32);
        request.done = Some(Status {
            error: error_class,
            ..status
        });
        request.error = error;
        if request.detached {
            self.requests.remove(key);
        }
    }

    /// The program lets go of a request, which goes when it is over.
    pub fn detach(&mut self, key: RequestKey) {
        if let Some(request) = self.requests.get_mut(key) {
            request.detached = true;
            if request.done.is_some() {
                self.requests.remove(key);
            }
        }
    }

    /// Whether a wait for the request would return at once. An inactive persistent request counts.
    #[inline(always)]
    pub fn is_over(&self, key: RequestKey) -> bool {
        match self.requests.get(key) {
            Some(Request {
                kind: Kind::Recv(receive),
                done,
                ..
            }) => done.is_some() || matches!(receive.stage, Stage::Pending(_)),
            Some(Request {
                kind: Kind::Send(_),
                done,
                ..
            }) => done.is_some(),
            _ => self.is_other_over(key),
        }
    }

    #[inline(never)]
    fn is_other_over(&self, key: RequestKey) -> bool {
        match self.requests.get(key) {
            Some(Request {
                kind: Kind::Persistent(persistent),
                ..
            }) => persistent.active.is_none_or(|active| self.is_over(active)),
            Some(Request {
                kind: Kind::Parts(parts),
                ..
            }) => parts.are_over(self),
            Some(Request {
                kind: Kind::Flush(account, epoch),
                ..
            }) => account.borrow().has_left(*epoch),
            Some(Request {
                kind: Kind::Agreement(agreement),
                ..
            }) => agreement.is_decided(self),
            Some(request) => request.done.is_some() || request.is_pending(),
            None => true,
        }
    }

    /// What a persistent request has started, if anything, or the request itself.
    pub fn active(&self, key: RequestKey) -> RequestKey {
        match self.requests.get(key).map(|request| &request.kind) {
            Some(Kind::Persistent(persistent)) => persistent.active.unwrap_or(key),
            _ => key,
        }
    }

    /// Whether the request is persistent and not started.
    pub fn is_inactive(&self, key: RequestKey) -> bool {
        matches!(self.requests.get(key),
            Some(Request { kind: Kind::Persistent(persistent), .. }) if persistent.active.is_none())
    }
}

#[cold]
fn too_many() -> Result<RequestKey> {
    fail!(NoMem, "there are 4194304 requests already; complete or free some")
}

/// How a request that is over ended, and its error; it stays as it is (`MPI_Request_get_status`).
pub fn inspect(hold: &mut Hold, key: RequestKey) -> (Status, Result<()>) {
    let mut key = key;
    if let Some(Request {
        kind: Kind::Persistent(persistent),
        ..
    }) = hold.requests.get(key)
    {
        match persistent.active {
            Some(active) => key = active,
            None => return (Status::EMPTY, Ok(())),
        }
    }
    if let Some(answer) = with_generalized(hold, key, |generalized| generalized.query()) {
        return answer;
    }
    match hold.requests.get(key) {
        Some(Request {
            kind: Kind::Parts(parts),
            ..
        }) => (parts.seen(hold), parts.failure(hold).map_or(Ok(()), Err)),
        Some(request) => {
            let error = request.error.clone();
            (request.done.unwrap_or(Status::EMPTY), error.map_or(Ok(()), Err))
        }
        None => (Status::EMPTY, Ok(())),
    }
}

/// Shows the status of a plain send, receive or collective operation that is over without an error to `look`, and frees it; `None` for any
/// other request, which stays as it is.
#[inline(always)]
pub fn finish_plain<R>(state: &mut State, key: RequestKey, look: impl FnOnce(&Status) -> R) -> Option<R> {
    state.requests.drop_if(key, |request| match request {
        Request {
            kind: Kind::Send(_) | Kind::Recv(_) | Kind::Collective | Kind::Over,
            done: Some(status),
            error: None,
            ..
        } => Some(look(status)),
        _ => None,
    })
}

/// As [`finish_plain`], for a persistent one, or what was over when it was started, which becomes inactive.
#[inline]
pub fn finish_started<R>(state: &mut State, key: RequestKey, look: impl FnOnce(&Status) -> R) -> Option<R> {
    let Some(Kind::Persistent(persistent)) = state.requests.get(key).map(|request| &request.kind) else {
        return None;
    };
    let active = persistent.active?;
    let seen = match state.requests.get(active) {
        None => look(&Status::EMPTY),
        Some(Request {
            kind: Kind::Parts(parts),
            ..
        }) => {
            let status = parts.plain(state)?;
            partitioned::ended(&persistent.operation);
            let seen = look(&status);
            state.drop_parts(active);
            seen
        }
        Some(_) => finish_plain(state, active, look)?,
    };
    if let Some(Kind::Persistent(persistent)) = state.requests.get_mut(key).map(|request| &mut request.kind) {
        persistent.active = None;
    }
    Some(seen)
}

/// Takes the outcome of a request that is over. A persistent one becomes inactive, any other is freed.
pub fn finish(hold: &mut Hold, key: RequestKey) -> Outcome {
    if let Some(Request {
        kind: Kind::Persistent(persistent),
        ..
    }) = hold.requests.get_mut(key)
    {
        partitioned::ended(&persistent.operation);
        let Some(active) = persistent.active.take() else {
            return Outcome {
                status: Status::EMPTY,
                error: None,
                kept: true,
            };
        };
        return Outcome {
            kept: true,
            ..finish(hold, active)
        };
    }
    if let Some((status, asked)) = with_generalized(hold, key, |generalized| generalized.query()) {
        let freed = free_generalized(hold, key);
        return Outcome {
            status,
            error: asked.and(freed).err(),
            kept: false,
        };
    }
    match hold.requests.remove(key) {
        Some(Request {
            kind: Kind::Parts(parts),
            ..
        }) => parts.finish(hold),
        Some(Request {
            kind: Kind::Agreement(agreement),
            ..
        }) => Outcome {
            status: Status::EMPTY,
            error: agreement.deliver(hold).err(),
            kept: false,
        },
        Some(request) if request.is_pending() => {
            if let Kind::Recv(Receive {
                stage: Stage::Pending(token),
                ..
            }) = request.kind
            {
                hold.engine.posted.cancel(token);
            }
            Outcome {
                status: Status::EMPTY,
                error: Some(failure::any_source(Class::ProcFailed)),
                kept: false,
            }
        }
        Some(request) => {
            let status = request.done.unwrap_or(Status::EMPTY);
            Outcome {
                status,
                error: request.error,
                kept: false,
            }
        }
        None => Outcome {
            status: Status::EMPTY,
            error: None,
            kept: false,
        },
    }
}

/// Frees a request; one under way goes on and frees itself at its end (MPI-4.1 §3.7.3).
///
/// # Errors
/// What the call-back of a generalized request returns.
pub fn free(hold: &mut Hold, key: RequestKey) -> Result<()> {
    let active = match hold.requests.get(key) {
        Some(Request {
            kind: Kind::Persistent(persistent),
            ..
        }) => persistent.active,
        _ => None,
    };
    if let Some(active) = active {
        free(hold, active)?;
    }
    let are_expected = hold.partitioning.source(key).is_some();
    let Some(request) = hold.requests.get_mut(key) else {
        return Ok(());
    };
    let over = request.done.is_some();
    match &request.kind {
        Kind::Generalized(_) if over => free_generalized(hold, key),
        Kind::Persistent(persistent) => {
            let operation = persistent.operation.clone();
            hold.requests.remove(key);
            partitioned::freed(hold, &operation)
        }
        Kind::Parts(_) if !are_expected => {
            hold.drop_parts(key);
            Ok(())
        }
        Kind::Flush(..) => {
            hold.requests.remove(key);
            Ok(())
        }
        _ => {
            hold.detach(key);
            Ok(())
        }
    }
}

/// Ends a generalized request, as [`State::complete`] ends others.
///
/// # Errors
/// `Request`: it is no generalized request; what its call-back returns if the program has let go of it.
pub fn complete_generalized(hold: &mut Hold, key: RequestKey) -> Result<()> {
    let request = hold.requests.get_mut(key);
    let Some(request) = request.filter(|request| matches!(request.kind, Kind::Generalized(_))) else {
        fail!(Request, "the request is not a generalized request");
    };
    request.done = Some(Status::EMPTY);
    let freed = match request.detached {
        true => free_generalized(hold, key),
        false => Ok(()),
    };
    hold.wake_threads();
    freed
}

/// Frees a generalized request that is over.
fn free_generalized(hold: &mut Hold, key: RequestKey) -> Result<()> {
    let request = hold.requests.remove(key);
    match request.map(|request| request.kind) {
        Some(Kind::Generalized(generalized)) => hold.released(|| generalized.free()),
        _ => Ok(()),
    }
}

/// Tries to cancel an operation; it then still has to be waited for (MPI-4.1 §3.8.4). Receives that
/// have matched, and sends whose message has left, go on as if nothing had been asked.
///
/// # Errors
/// What the call-back of a generalized request returns; `Request`: a nonblocking collective operation (MPI-4.1 §6.12).
pub fn cancel(hold: &mut Hold, key: RequestKey) -> Result<()> {
    let cancelled = Status {
        cancelled: true,
        ..Status::EMPTY
    };
    let state: &mut State = hold;
    let Some(request) = state.requests.get(key) else {
        return Ok(());
    };
    let back = match &request.kind {
        Kind::Recv(Receive {
            stage: Stage::Posted(token) | Stage::Pending(token),
            ..
        }) => state.engine.posted.cancel(*token),
        Kind::Send(Some(id)) if request.done.is_none() => state.engine.channel.withdraw(*id),
        Kind::Persistent(persistent) => {
            let active = persistent.active;
            return active.map_or(Ok(()), |active| cancel(hold, active));
        }
        Kind::Generalized(_) => {
            let complete = request.done.is_some();
            return with_generalized(hold, key, |generalized| generalized.cancel(complete)).unwrap_or(Ok(()));
        }
        Kind::Collective => fail!(
            Request,
            "the request is a collective operation's, which cannot be cancelled"
        ),
        _ => false,
    };
    if back {
        state.complete(key, cancelled, None);
        hold.wake_threads();
    }
    Ok(())
}

/// Runs a call-back of a generalized request with the gate open.
fn with_generalized<R>(hold: &mut Hold, key: RequestKey, call: impl FnOnce(&dyn Generalized) -> R) -> Option<R> {
    let Kind::Generalized(generalized) = &hold.requests.get(key)?.kind else {
        return None;
    };
    let generalized = generalized.clone();
    Some(hold.released(|| call(&*generalized)))
}
