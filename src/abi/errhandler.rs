//! # Safety
//! Calls error handling functions of the application: relies on them having the type that the
//! standard gives them.
//!
//! Error handlers, error codes and the end of a job (MPI-4.1 §9.3 to §9.5).
#![allow(unsafe_code)]

use super::edge::*;
use super::types::*;
use crate::mpi::comm::Comm;
use crate::mpi::errhandler::{CLASS_MASK, Errhandler, Errors, Function, UserHandler, describe};
use crate::mpi::world::State;
use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Process-wide: error codes and handlers may be used before initialization (MPI-4.1 §11.4.1).
static ERRORS: Mutex<Errors> = Mutex::new(Errors::new());

/// The error handlers, codes and classes of this process.
pub fn errors() -> MutexGuard<'static, Errors> {
    ERRORS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where an error happened: which handler takes it, and what it and the reader get to know.
#[derive(Clone, Debug, Default)]
pub struct Source {
    handler: Errhandler,
    handle: c_int,
    rank: u32,
    context: u16,
}

impl Source {
    /// An error on the communicator `comm`, known to the program as `handle`.
    #[cold]
    pub fn comm(handle: MPI_Comm, comm: &Comm) -> Source {
        Source {
            handler: comm.errhandler.borrow().clone(),
            handle,
            rank: comm.rank,
            context: comm.context,
        }
    }

    /// An error that belongs to no valid object. The program may have put its handler on
    /// `MPI_COMM_WORLD`, as before MPI-4, or on `MPI_COMM_SELF`, as since.
    #[cold]
    pub fn anywhere(state: &State) -> Source {
        let world = Source::comm(super::constants::MPI_COMM_WORLD, &state.world);
        match world.handler {
            Errhandler::Fatal => Source {
                handler: state.own.errhandler.borrow().clone(),
                ..world
            },
            _ => world,
        }
    }
}

/// Hands `error`, found by function `name`, to the error handler of `source`; returns the error
/// code if the handler returns.
#[cold]
pub fn raise(name: &str, source: Source, error: Error) -> c_int {
    let code = errors().remember(&error);
    let code_class = error.class() as c_int;
    handle(name, source, code, code_class, error.text())
}

fn handle(name: &str, mut source: Source, code: c_int, class: c_int, text: &str) -> c_int {
    match &source.handler {
        Errhandler::Return => code,
        Errhandler::Fatal | Errhandler::Abort => {
            let Source { rank, context, .. } = source;
            let meaning = describe(class & CLASS_MASK).unwrap_or("Unknown error class");
            report(&format!(
                "Abort({code}) on node {rank} (rank {rank} in comm {context}): Fatal error in {name}: \
                 {meaning}, error stack:\n{name}: {text}"
            ));
            end_job(class & CLASS_MASK)
        }
        Errhandler::User(handler) => {
            let handler = handler.clone();
            call(&handler, &mut source.handle, code)
        }
    }
}

fn call(handler: &UserHandler, handle: &mut c_int, mut code: c_int) -> c_int {
    match handler.function {
        // SAFETY: the program's function, called with what the standard says it gets. MPICH's third
        // argument is a null pointer.
        Function::Plain(f) | Function::Cxx(f) => unsafe { f(handle, &mut code, std::ptr::null_mut::<c_int>()) },
    }
    code
}

/// Writes a message of the library to standard error, in one piece.
pub fn report(text: &str) {
    let line = format!("{text}\n");
    // SAFETY: writes the bytes of `line`. The standard library's stderr would panic when closed.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}
