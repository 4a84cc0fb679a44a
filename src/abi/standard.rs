//! # Safety
//! Writes numbers through pointers that `libmpi_abi.so.1` brings.
//!
//! What `libmpi_abi.so.1` (`standard-abi/`) asks and programs do not: answers that raise no error and stand in no profile, and
//! error handlers that are called through a function of its own.
#![allow(unsafe_code)]

use super::edge::{comm, current_world, on_any};
use super::errhandler::give_handler;
use super::types::{MPI_Comm, MPI_Errhandler};
use crate::fail;
use crate::mpi::coll::neighbor::Neighbors;
use crate::mpi::comm::Comm;
use crate::mpi::errhandler::{Function, Target};
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// Asks a communicator, if there is one of that handle.
fn ask_comm<T>(handle: MPI_Comm, ask: impl FnOnce(&Rc<Comm>) -> Option<T>) -> Option<T> {
    let hold = current_world()?.hold();
    ask(comm(&hold, handle).ok()?)
}

/// How many blocks an exchange on `handle` sends and receives, with its neighbors or with all; none where it serves for no exchange.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearmpi_blocks(
    handle: MPI_Comm,
    with_neighbors: c_int,
    sends: *mut c_int,
    receives: *mut c_int,
) {
    let counted = ask_comm(handle, |comm| match with_neighbors {
        0 => Some((comm.peers().size(), comm.peers().size())),
        _ => Neighbors::of(comm)
            .ok()
            .map(|around| (around.destinations.len() as u32, around.sources)),
    });
    let (to, from) = counted.unwrap_or((0, 0));
    // SAFETY: both lead to a number.
    unsafe { (*sends, *receives) = (to as c_int, from as c_int) };
}

/// The caller's rank in `handle`, -1 where that is no communicator.
#[unsafe(no_mangle)]
pub extern "C" fn nearmpi_rank(handle: MPI_Comm) -> c_int {
    ask_comm(handle, |comm| Some(comm.rank as c_int)).unwrap_or(-1)
}

/// What `libmpi_abi.so.1` calls an error handler of the program through: places of the object's handle and of the code, the handler.
type Through = unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_void);

/// Creates an error handler `function` that is called through `call`, for communicators, windows, files or sessions: `target` 0, 1,
/// 2 or 3. Errors are those of `MPI_Comm_create_errhandler` and the like.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nearmpi_create_errhandler(
    target: c_int,
    call: Through,
    function: *mut c_void,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    let (name, target) = match target {
        0 => ("MPI_Comm_create_errhandler", Target::Comm),
        1 => ("MPI_Win_create_errhandler", Target::Win),
        2 => ("MPI_File_create_errhandler", Target::File),
        _ => ("MPI_Session_create_errhandler", Target::Session),
    };
    on_any(name, || {
        if function.is_null() {
            fail!(Arg, "the error handling function is a null pointer");
        }
        let function = Function::Through(call, function.expose_provenance());
        give_handler(target, function, None, errhandler)
    })
}
