//! # Safety
//! Stores results through pointers of the application.
//!
//! What MPICH's extensions for fault tolerance answer where the end of one rank is the end of the
//! job: whoever gets to ask is among survivors of nothing. Revoking is refused, as not supported.
#![allow(unsafe_code)]

use super::coll::MPI_Allreduce;
use super::comm::give_if_any;
use super::constants::*;
use super::edge::*;
use super::request::named;
use super::types::*;
use crate::mpi::comm::create::{self, Choice};
use std::ffi::{c_int, c_void};

/// The bits that all processes of a communicator have set in `*flag`.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_agree(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    let (mut mine, mut inter) = (0, false);
    let code = on_comm("MPIX_Comm_agree", comm, |_, comm| {
        mine = load(flag, "flag")?;
        inter = comm.is_inter();
        Ok(())
    });
    if code != MPI_SUCCESS {
        return code;
    }
    let all = |from: c_int, to: &mut c_int| {
        let (from, to): (*const c_int, *mut c_int) = (&from, to);
        // SAFETY: one variable of this function each.
        unsafe { MPI_Allreduce(from.cast::<c_void>(), to.cast::<c_void>(), 1, MPI_INT, MPI_BAND, comm) }
    };
    let (mut theirs, mut ours) = (0, -1);
    let mut code = all(mine, &mut theirs);
    // Between two groups the first round brings the other group's bits, the second one ours.
    if code == MPI_SUCCESS && inter {
        code = all(theirs, &mut ours);
    }
    if code != MPI_SUCCESS {
        return code;
    }
    on_comm("MPIX_Comm_agree", comm, |_, _| store(flag, "flag", theirs & ours))
}

/// Acknowledges the failed processes of a communicator: there are none.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_failure_ack(comm: MPI_Comm) -> c_int {
    on_comm("MPIX_Comm_failure_ack", comm, |_, _| Ok(()))
}

/// The acknowledged failed processes of a communicator: none.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_failure_get_acked(comm: MPI_Comm, failedgrp: *mut MPI_Group) -> c_int {
    on_comm("MPIX_Comm_failure_get_acked", comm, |_, _| {
        store(failedgrp, "failedgrp", MPI_GROUP_EMPTY)
    })
}

/// The failed processes of a communicator: none.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_get_failed(comm: MPI_Comm, failedgrp: *mut MPI_Group) -> c_int {
    on_comm("MPIX_Comm_get_failed", comm, |_, _| {
        store(failedgrp, "failedgrp", MPI_GROUP_EMPTY)
    })
}

/// A communicator of the processes that have not failed: all of them.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_shrink(comm: MPI_Comm, newcomm: *mut MPI_Comm) -> c_int {
    on_comm("MPIX_Comm_shrink", comm, |hold, comm| {
        load(newcomm, "newcomm")?;
        let choice = Choice {
            color: 0,
            key: comm.rank as c_int,
        };
        let new = create::split(hold, comm, choice)?;
        let handle = give_if_any(hold, new)?;
        store(newcomm, "newcomm", handle)
    })
}

/// Whether a communicator's ranks are threads: no.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_test_threadcomm(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    on_comm("MPIX_Comm_test_threadcomm", comm, |_, _| store(flag, "flag", 0))
}

/// Whether an operation is known to be over; makes no progress. 1 for a null or wrong handle.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Request_is_complete(request: MPI_Request) -> c_int {
    let hold = world("MPIX_Request_is_complete").hold();
    named(&hold, request).map_or(1, |request| c_int::from(request.is_over(&hold)))
}
