//! # Safety
//! The gate decides who may touch the state: relies on every reference to [`State`] being made
//! through a [`Hold`], of which one is active at a time.
//!
//! The root of everything a rank knows, and the gate its threads pass one at a time.
#![allow(unsafe_code)]

use super::comm::Comm;
use super::datatype::Datatypes;
use super::request::Request;
use super::table::Table;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::{Condvar, Mutex};

/// One rank's MPI: its state behind the gate of `MPI_THREAD_MULTIPLE`.
pub struct World {
    gate: Option<Gate>,
    state: UnsafeCell<State>,
}

// SAFETY: the state is reached through a `Hold` only, and one thread at a time has an active one:
// by the gate, or because the program promised so (MPI_THREAD_SERIALIZED and below).
unsafe impl Sync for World {}
// SAFETY: as above; nothing in the state is tied to the thread that made it.
unsafe impl Send for World {}

#[derive(Default)]
struct Gate {
    taken: Mutex<bool>,
    free: Condvar,
}

/// What a rank knows, object tables included.
pub struct State {
    /// `MPI_COMM_WORLD`.
    pub world: Rc<Comm>,
    /// `MPI_COMM_SELF`.
    pub own: Rc<Comm>,
    /// Every communicator made since, by handle key.
    pub comms: Table<Rc<Comm>>,
    /// Every datatype.
    pub datatypes: Datatypes,
    /// Started operations.
    pub requests: Table<Request>,
}

/// The right to use the state. While a `Hold` is active no other thread has one; [`Hold::released`]
/// lets the others in for the time of a call-back or a pause.
pub struct Hold<'w> {
    world: &'w World,
}

impl World {
    /// A world of `state`; `multiple` makes it safe for threads that call at the same time.
    pub fn new(state: State, multiple: bool) -> World {
        World {
            gate: multiple.then(Gate::default),
            state: UnsafeCell::new(state),
        }
    }

    /// Enters; waits for other threads under `MPI_THREAD_MULTIPLE`.
    #[inline]
    pub fn hold(&self) -> Hold<'_> {
        if let Some(gate) = &self.gate {
            gate.enter();
        }
        Hold { world: self }
    }
}

impl Hold<'_> {
    /// Runs `outside` with the state released: user call-backs may call MPI again, other threads may enter.
    pub fn released<R>(&mut self, outside: impl FnOnce() -> R) -> R {
        if let Some(gate) = &self.world.gate {
            gate.leave();
        }
        let result = outside();
        if let Some(gate) = &self.world.gate {
            gate.enter();
        }
        result
    }
}

impl Deref for Hold<'_> {
    type Target = State;
    #[inline]
    fn deref(&self) -> &State {
        // SAFETY: an active hold is the only one, and `&mut self` methods end the borrow.
        unsafe { &*self.world.state.get() }
    }
}

impl DerefMut for Hold<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        // SAFETY: as above.
        unsafe { &mut *self.world.state.get() }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        if let Some(gate) = &self.world.gate {
            gate.leave();
        }
    }
}

impl Gate {
    fn enter(&self) {
        let mut taken = self.taken.lock().unwrap();
        while *taken {
            taken = self.free.wait(taken).unwrap();
        }
        *taken = true;
    }

    fn leave(&self) {
        *self.taken.lock().unwrap() = false;
        self.free.notify_one();
    }
}
