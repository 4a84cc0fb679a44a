//! Requests that consist of others: both halves of `MPI_Isendrecv`, the partitions of a message, what a duplicate waits for.

use super::{Kind, Outcome, Request, RequestKey, finish, finish_plain};
use crate::mpi::comm::Comm;
use crate::mpi::comm::create::known;
use crate::mpi::error::Error;
use crate::mpi::status::Status;
use crate::mpi::world::{Hold, State};
use std::cell::Cell;
use std::rc::Rc;

/// What a request consists of.
pub struct Parts {
    /// Those that have been started and were not over at once.
    list: Vec<RequestKey>,
    /// How many have not been started.
    later: u32,
    /// How many of the first in the list are known to be over.
    over: Cell<u32>,
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
    /// A request of these.
    pub fn new(list: Vec<RequestKey>, status: Told) -> Parts {
        Parts {
            list,
            later: 0,
            over: Cell::new(0),
            status,
        }
    }

    /// A request of so many parts, fewer than 2^32, none of which has been started: [`Parts::begun`] starts them.
    pub fn later(later: usize, status: Told) -> Parts {
        Parts {
            later: later as u32,
            ..Parts::new(Vec::new(), status)
        }
    }

    /// Starts `count` parts as one request, or they were over at once.
    pub fn begun(&mut self, count: usize, request: Option<RequestKey>) {
        self.later -= count as u32;
        self.list.extend(request);
    }

    /// Whether all have been started.
    pub fn have_begun(&self) -> bool {
        self.later == 0
    }

    /// Their status, if all are over without an error and it is the same whatever they were.
    #[inline]
    pub(super) fn plain(&self, state: &State) -> Option<Status> {
        match &self.status {
            Told::Is(status) if self.are_over(state) && self.failure(state).is_none() => Some(*status),
            _ => None,
        }
    }

    /// Whether every part is over.
    #[inline]
    pub fn are_over(&self, state: &State) -> bool {
        let first = self.over.get() as usize;
        let more = self.list[first..].iter().take_while(|&&key| state.is_over(key)).count();
        self.over.set((first + more) as u32);
        self.later == 0 && first + more == self.list.len()
    }

    /// The first part that is under way.
    pub fn under_way(&self, state: &State) -> Option<RequestKey> {
        match self.are_over(state) {
            true => None,
            false => self.list.get(self.over.get() as usize).copied(),
        }
    }

    /// Their status so far.
    pub(super) fn seen(&self, state: &State) -> Status {
        match self.status {
            Told::Is(status) => status,
            Told::Made(_) => Status::EMPTY,
            Told::First => (self.list.first())
                .and_then(|&key| state.requests.get(key)?.done)
                .unwrap_or(Status::EMPTY),
        }
    }

    /// The first error of a part that is over.
    pub(super) fn failure(&self, state: &State) -> Option<Error> {
        let mut keys = self.list.iter();
        keys.find_map(|&key| state.requests.get(key)?.error.clone())
    }

    /// Ends the parts, all of them over: the first error is the whole's.
    pub(super) fn finish(self, hold: &mut Hold) -> Outcome {
        let mut whole = Outcome {
            status: self.seen(hold),
            error: None,
            kept: false,
        };
        let mut errors = self.list.into_iter().map(|key| match finish_plain(hold, key, |_| ()) {
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
}

impl State {
    /// Drops a request of parts, all started, that the program has let go of; those under way go on.
    pub fn drop_parts(&mut self, key: RequestKey) {
        if let Some(Kind::Parts(parts)) = self.requests.remove(key).map(|request| request.kind) {
            parts.list.into_iter().for_each(|key| self.detach(key));
        }
    }
}

impl Request {
    /// The parts of a request that has some.
    pub fn parts(&mut self) -> Option<&mut Parts> {
        match &mut self.kind {
            Kind::Parts(parts) => Some(parts),
            _ => None,
        }
    }
}
