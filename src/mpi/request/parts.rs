//! Requests that consist of others: both halves of `MPI_Isendrecv`, the partitions of a message, what a duplicate waits for.

use super::{Outcome, Request, RequestKey, finish, finish_plain, free};
use crate::mpi::comm::Comm;
use crate::mpi::comm::create::known;
use crate::mpi::error::{Error, Result};
use crate::mpi::status::Status;
use crate::mpi::world::{Hold, State};
use std::cell::Cell;
use std::rc::Rc;

/// What a request consists of.
pub struct Parts {
    list: Vec<Part>,
    /// How many of the first parts are known to be over.
    over: Cell<usize>,
    /// How its status is made.
    status: Told,
}

/// One of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It cannot be started yet.
    Later,
    /// It has this request.
    Started(RequestKey),
    /// It was over at once.
    Over,
}

impl Part {
    /// Whether it is over.
    #[inline]
    pub fn is_over(self, state: &State) -> bool {
        match self {
            Part::Later => false,
            Part::Started(key) => state.is_over(key),
            Part::Over => true,
        }
    }

    fn key(self) -> Option<RequestKey> {
        match self {
            Part::Started(key) => Some(key),
            Part::Later | Part::Over => None,
        }
    }
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
    pub fn new(list: Vec<Part>, status: Told) -> Parts {
        Parts {
            list,
            over: Cell::new(0),
            status,
        }
    }

    /// The parts.
    pub fn list(&self) -> &[Part] {
        &self.list
    }

    /// Starts part `index`, which had not been started.
    pub fn set(&mut self, index: usize, part: Part) {
        self.list[index] = part;
    }

    /// Whether every part is over.
    pub fn are_over(&self, state: &State) -> bool {
        let first = self.over.get();
        let more = self.list[first..].iter().take_while(|part| part.is_over(state)).count();
        self.over.set(first + more);
        first + more == self.list.len()
    }

    /// The first part that is under way.
    pub fn under_way(&self, state: &State) -> Option<RequestKey> {
        match self.are_over(state) {
            true => None,
            false => self.list[self.over.get()].key(),
        }
    }

    /// Their status so far.
    pub(super) fn seen(&self, state: &State) -> Status {
        let first = || self.list.first().and_then(|part| part.key());
        match self.status {
            Told::Is(status) => status,
            Told::Made(_) => Status::EMPTY,
            Told::First => first()
                .and_then(|key| state.requests.get(key)?.done)
                .unwrap_or(Status::EMPTY),
        }
    }

    /// The first error of a part that is over.
    pub(super) fn failure(&self, state: &State) -> Option<Error> {
        let mut keys = self.list.iter().filter_map(|part| part.key());
        keys.find_map(|key| state.requests.get(key)?.error.clone())
    }

    /// Ends the parts, all of them over: the first error is the whole's.
    pub(super) fn finish(self, hold: &mut Hold) -> Outcome {
        let mut whole = Outcome {
            status: self.seen(hold),
            error: None,
            kept: false,
        };
        let keys = self.list.into_iter().filter_map(Part::key);
        let mut errors = keys.map(|key| match finish_plain(hold, key, |_| ()) {
            Some(()) => None,
            None => finish(hold, key).error,
        });
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
        self.list
            .into_iter()
            .filter_map(Part::key)
            .try_for_each(|key| free(hold, key))
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
