//! Where an error happened, and with that which error handler takes it (MPI-4.1 §9.3).

use super::constants::*;
use super::edge::rank_in_world;
use super::errhandler::files;
use super::handle::Object;
use super::types::*;
use crate::mpi::comm::Comm;
use crate::mpi::errhandler::Errhandler;
use crate::mpi::session::Session;
use crate::mpi::world::State;
use std::cell::RefCell;
use std::ffi::c_int;
use std::rc::Rc;

/// Where an error happened: which handler takes it, and what it and the reader get to know.
#[derive(Clone, Debug, Default)]
pub struct Source {
    /// The one that takes it.
    pub(super) handler: Errhandler,
    /// What a handler of the program gets to name the object.
    pub(super) handle: c_int,
    /// This rank on the communicator, and its context: for the reader.
    pub(super) rank: u32,
    pub(super) context: u16,
}

impl Source {
    /// An error on the communicator `comm`, known to the program as `handle`.
    #[cold]
    pub fn comm(state: &State, handle: MPI_Comm, comm: &Comm) -> Source {
        let handler = match &*comm.errhandler.borrow() {
            Errhandler::Unset => state.world.errhandler.borrow().clone(),
            handler => handler.clone(),
        };
        Source {
            handler,
            handle,
            rank: comm.rank,
            context: comm.context.number(),
        }
    }

    /// Whether no program would get to know of an error there.
    pub fn ends_the_job(&self) -> bool {
        matches!(self.handler, Errhandler::Unset | Errhandler::Fatal | Errhandler::Abort)
    }

    /// An error that `handler` takes, on no object yet.
    #[cold]
    pub fn new(handler: Errhandler) -> Source {
        Source {
            handler,
            rank: rank_in_world(),
            ..Source::default()
        }
    }

    /// An error on an object with this error handler, known to the program as `handle`.
    #[cold]
    pub fn on(handle: c_int, handler: &RefCell<Errhandler>) -> Source {
        Source {
            handle,
            ..Source::new(handler.borrow().clone())
        }
    }

    /// An error on a window with this error handler, known to the program as `handle`. A communicator's handler gets that
    /// communicator.
    #[cold]
    pub fn win(state: &State, handle: MPI_Win, handler: &RefCell<Errhandler>) -> Source {
        match &*handler.borrow() {
            Errhandler::Unset => Source::comm(state, MPI_COMM_WORLD, &state.world),
            _ => Source::on(handle, handler),
        }
    }

    /// An error that belongs to no valid object goes to the handler of `MPI_COMM_SELF` (MPI-4.1 §9.3). Where the program has set none
    /// there, it may have put one on `MPI_COMM_WORLD`, as before MPI-4.
    #[cold]
    pub fn anywhere(state: &State) -> Source {
        match &*state.own.errhandler.borrow() {
            Errhandler::Unset | Errhandler::Fatal => Source::comm(state, MPI_COMM_WORLD, &state.world),
            _ => Source::comm(state, MPI_COMM_SELF, &state.own),
        }
    }

    /// An error on `session`, which the program may have finalized.
    #[cold]
    pub fn session(state: &State, session: &Rc<Session>) -> Source {
        let mut open = state.sessions.iter().filter(|(_, open)| Rc::ptr_eq(open, session));
        let handle = open
            .next()
            .map_or(MPI_SESSION_NULL, |(key, _)| Object::Session.handle(key));
        Source::on(handle, &session.errhandler)
    }

    /// An error on files as such, `MPI_FILE_NULL`.
    #[cold]
    pub fn files() -> Source {
        Source::new(files().clone())
    }
}
