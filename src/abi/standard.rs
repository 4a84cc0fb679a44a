//! # Safety
//! Writes numbers through pointers that `libmpi_abi.so.1` brings.
//!
//! What `libmpi_abi.so.1` (`standard-abi/`) asks and programs do not: answers that raise no error and stand in no profile.
#![allow(unsafe_code)]

use super::edge::{comm, current_world};
use super::types::MPI_Comm;
use crate::mpi::coll::neighbor::Neighbors;
use crate::mpi::comm::Comm;
use std::ffi::c_int;
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
