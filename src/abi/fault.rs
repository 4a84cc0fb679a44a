//! # Safety
//! Stores results through pointers of the application.
//!
//! Fault tolerance: what the survivors of a rank may ask and do in a job that goes on without it
//! (`mpirun -keep-going`), as MPICH's extensions and the proposal they follow have it; see [`crate::mpi::failure`].
#![allow(unsafe_code)]

use super::comm::give_if_any;
use super::edge::*;
use super::group::give_group;
use super::request::named;
use super::types::*;
use crate::mpi::failure::{self, Agreement};
use crate::mpi::request::{Kind, Request};
use std::ffi::c_int;
use std::rc::Rc;

/// The bits that all living processes of a communicator have set in `*flag`; the same everywhere, whoever dies
/// meanwhile, and MPIX_ERR_PROC_FAILED everywhere if a dead one was not acknowledged by all.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_agree(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    on_comm("MPIX_Comm_agree", comm, |hold, comm| {
        let mine = load(flag, "flag")?;
        let agreed = failure::agree(hold, comm, mine as u32)?;
        store(flag, "flag", agreed.value as c_int)?;
        agreed.check()
    })
}

/// The nonblocking form of [`MPIX_Comm_agree`]; `*flag` is written when the request is completed.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_iagree(comm: MPI_Comm, flag: *mut c_int, request: *mut MPI_Request) -> c_int {
    on_comm("MPIX_Comm_iagree", comm, |hold, comm| {
        let mine = load(flag, "flag")?;
        load(request, "request")?;
        // SAFETY: `flag` is the program's until the request is over.
        let taker = move |value: u32| unsafe { flag.write(value as c_int) };
        let agreement = Agreement::cast(hold, comm, mine as u32).with_taker(taker);
        let key = hold.add_request(Request::new(Kind::Agreement(Box::new(agreement)), Some(comm.clone())))?;
        store(request, "request", Object::Request.handle(key))
    })
}

/// Makes operations on a communicator end with MPIX_ERR_REVOKED at all its processes, under way or later.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_revoke(comm: MPI_Comm) -> c_int {
    on_comm("MPIX_Comm_revoke", comm, |hold, comm| {
        hold.revoke(comm);
        failure::catch_up(hold)
    })
}

/// Whether a communicator is revoked.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_is_revoked(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    on_comm("MPIX_Comm_is_revoked", comm, |hold, comm| {
        store(flag, "flag", c_int::from(hold.is_revoked(comm)))
    })
}

/// Acknowledges the processes of a communicator that are dead: receives from any source go on without them.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_failure_ack(comm: MPI_Comm) -> c_int {
    on_comm("MPIX_Comm_failure_ack", comm, |hold, comm| {
        failure::catch_up(hold)?;
        hold.acknowledge(comm);
        Ok(())
    })
}

/// The processes of a communicator whose death was acknowledged.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_failure_get_acked(comm: MPI_Comm, failedgrp: *mut MPI_Group) -> c_int {
    on_comm("MPIX_Comm_failure_get_acked", comm, |hold, comm| {
        load(failedgrp, "failedgrp")?;
        let dead = hold.dead_of(comm, comm.acknowledged.get());
        let handle = give_group(hold, Rc::new(dead))?;
        store(failedgrp, "failedgrp", handle)
    })
}

/// The processes of a communicator that are dead.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_get_failed(comm: MPI_Comm, failedgrp: *mut MPI_Group) -> c_int {
    on_comm("MPIX_Comm_get_failed", comm, |hold, comm| {
        load(failedgrp, "failedgrp")?;
        let dead = hold.dead_of(comm, u32::MAX);
        let handle = give_group(hold, Rc::new(dead))?;
        store(failedgrp, "failedgrp", handle)
    })
}

/// A communicator of the living processes of a communicator, in the same order; null for an intercommunicator of which
/// one side is dead.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_shrink(comm: MPI_Comm, newcomm: *mut MPI_Comm) -> c_int {
    on_comm("MPIX_Comm_shrink", comm, |hold, comm| {
        load(newcomm, "newcomm")?;
        let new = failure::shrink(hold, comm)?;
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
