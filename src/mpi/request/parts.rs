//! Requests that consist of others: both halves of `MPI_Isendrecv`, the partitions of a message, what a duplicate waits for.

use super::{Outcome, Request, RequestKey, finish, free};
use crate::mpi::comm::Comm;
use crate::mpi::comm::create::known;
use crate::mpi::error::Result;
use crate::mpi::status::Status;
use crate::mpi::world::{Hold, State};
use std::cell::Cell;
use std::rc::Rc;

/// What a request consists of.
pub struct Parts {
    /// Its parts; `None` for one that cannot be started yet.
    list: Vec<Option<RequestKey>>,
    /// How many of the first parts are known to be over.
    over: Cell<usize>,
    /// How its status is made.
    status: Told,
}

/// How the status of the whole is made.
pub enum Told {
    /// It is the first part's.
    First,
    /// It is this one.
    Is(Status),
    /// It is empty; an error if nobody has found a context for this communicator.
    Made(Rc<Comm>),
}

impl Parts {
    /// A request of these parts.
    pub fn new(list: Vec<Option<RequestKey>>, status: Told) -> Parts {
        Parts {
            list,
            over: Cell::new(0),
            status,
        }
    }

    /// The parts.
    pub fn list(&self) -> &[Option<RequestKey>] {
        &self.list
    }

    /// Starts part `index`, which had not been started.
    pub fn set(&mut self, index: usize, key: RequestKey) {
        self.list[index] = Some(key);
    }

    /// Whether every part is over.
    pub fn are_over(&self, state: &State) -> bool {
        let is_over = |part: &Option<RequestKey>| part.is_some_and(|key| state.is_over(key));
        let first = self.over.get();
        let more = self.list[first..].iter().take_while(|part| is_over(part)).count();
        self.over.set(first + more);
        first + more == self.list.len()
    }

    /// Their status so far.
    pub(super) fn seen(&self, state: &State) -> Status {
        let first = || self.list.first().copied().flatten();
        match self.status {
            Told::Is(status) => status,
            Told::Made(_) => Status::EMPTY,
            Told::First => first()
                .and_then(|key| state.requests.get(key)?.done)
                .unwrap_or(Status::EMPTY),
        }
    }

    /// Ends the parts, all of them over: the first error is the whole's.
    pub(super) fn finish(self, hold: &mut Hold) -> Outcome {
        let mut whole = Outcome {
            status: self.seen(hold),
            error: None,
            kept: false,
        };
        let mut errors = self.list.into_iter().flatten().map(|key| finish(hold, key).error);
        whole.error = errors.by_ref().find_map(|error| error);
        errors.for_each(drop);
        if let (Told::Made(comm), None) = (&self.status, &whole.error) {
            whole.error = known(comm.context.number()).err();
        }
        if let Some(error) = &whole.error {
            whole.status.error = error.class() as i32;
        }
        whole
    }

    /// Lets go of the parts; those under way go on.
    pub(super) fn free(self, hold: &mut Hold) -> Result<()> {
        self.list.into_iter().flatten().try_for_each(|key| free(hold, key))
    }
}

impl Request {
    /// The parts of a request that has some.
    pub fn parts(&mut self) -> Option<&mut Parts> {
        match &mut self.kind {
            super::Kind::Parts(parts) => Some(parts),
            _ => None,
        }
    }
}
