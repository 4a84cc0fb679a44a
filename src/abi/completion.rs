//! # Safety
//! Reads and writes arrays of requests and statuses: relies on the application's pointers.
//!
//! Completing requests: every form of Wait and Test (MPI-4.1 §3.7.3-3.7.5).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::errhandler::{Source, errors, raise};
use super::request::*;
use super::status::{store_empty, store_status};
use super::types::*;
use crate::mpi::comm::Comm;
use crate::mpi::status::Status;
use std::ffi::c_int;
use std::rc::Rc;

/// Runs `body`; its error goes to the handler of the communicator that comes with it.
fn on_requests(
    name: &'static str,
    body: impl FnOnce(&mut Hold) -> std::result::Result<(), (Error, Option<Rc<Comm>>)>,
) -> c_int {
    let mut hold = world(name).hold();
    let Err((error, comm)) = body(&mut hold) else {
        return MPI_SUCCESS;
    };
    let source = match &comm {
        Some(comm) => Source::comm(handle_of(&hold, comm), comm),
        None => Source::anywhere(&hold),
    };
    drop(hold);
    raise(name, source, error)
}

/// An error without a communicator.
fn plain(error: Error) -> (Error, Option<Rc<Comm>>) {
    (error, None)
}

/// Checks the array before anything is done with it.
pub(super) fn all_named(hold: &Hold, handles: &[MPI_Request]) -> Result<Vec<Named>> {
    let named_at = |(index, &handle): (usize, &MPI_Request)| {
        named(hold, handle).map_err(|error| Error::new(error.class(), format!("request {index}: {}", error.text())))
    };
    handles.iter().enumerate().map(named_at).collect()
}

/// The requests of an array call, and its outputs.
fn handles<'a>(count: c_int, requests: *mut MPI_Request) -> Result<&'a mut [MPI_Request]> {
    slice_mut(requests, self::count(count, "count")?, "array_of_requests")
}

/// Stores one status of several; `MPI_ERROR` is set only if the call returns MPI_ERR_IN_STATUS.
pub(super) fn store_nth(statuses: *mut MPI_Status, index: usize, status: &Status, code: Option<c_int>) -> Result<()> {
    if statuses == MPI_STATUSES_IGNORE {
        return Ok(());
    }
    let out = statuses.wrapping_add(index);
    store_status(out, status)?;
    if let Some(code) = code {
        // SAFETY: `store_status` has just written there.
        unsafe { (*out).MPI_ERROR = code };
    }
    Ok(())
}

/// Finishes the requests at `which` (all of them over) and stores their statuses in a row.
fn finish_all(
    hold: &mut Hold,
    handles: &mut [MPI_Request],
    which: impl Iterator<Item = (usize, Named)>,
    statuses: *mut MPI_Status,
) -> std::result::Result<(), (Error, Option<Rc<Comm>>)> {
    let ended: Vec<Ended> = which
        .map(|(index, named)| named.finish(hold, &mut handles[index]))
        .collect();
    let failed = ended.iter().find(|ended| ended.error.is_some());
    for (index, one) in ended.iter().enumerate() {
        let code = failed.map(|_| one.error.as_ref().map_or(MPI_SUCCESS, |error| errors().remember(error)));
        store_nth(statuses, index, &one.status, code).map_err(plain)?;
    }
    match failed {
        Some(Ended {
            error: Some(error),
            comm,
            ..
        }) => {
            let text = format!("an operation failed; its status says which: {}", error.text());
            Err((Error::new(Class::InStatus, text), comm.clone()))
        }
        _ => Ok(()),
    }
}

fn wait_all_over(hold: &mut Hold, named: &[Named]) -> Result<()> {
    let mut over = 0;
    hold.wait_until(None, |hold| {
        while over < named.len() && named[over].is_over(hold) {
            over += 1;
        }
        Ok(over == named.len())
    })
}

/// Waits for one operation. MPI-4.1 §3.7.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) -> c_int {
    on_requests("MPI_Wait", |hold| {
        let handle = &mut slice_mut(request, 1, "request").map_err(plain)?[0];
        let named = named(hold, *handle).map_err(plain)?;
        hold.wait_until(None, |hold| Ok(named.is_over(hold))).map_err(plain)?;
        finish_one(hold, named, handle, status)
    })
}

fn finish_one(
    hold: &mut Hold,
    named: Named,
    handle: &mut MPI_Request,
    status: *mut MPI_Status,
) -> std::result::Result<(), (Error, Option<Rc<Comm>>)> {
    let ended = named.finish(hold, handle);
    store_status(status, &ended.status).map_err(plain)?;
    ended.error.map_or(Ok(()), |error| Err((error, ended.comm)))
}

/// Completes one operation if it is over. MPI-4.1 §3.7.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status) -> c_int {
    on_requests("MPI_Test", |hold| {
        let handle = &mut slice_mut(request, 1, "request").map_err(plain)?[0];
        let named = named(hold, *handle).map_err(plain)?;
        let over = poll(hold, |hold| named.is_over(hold)).map_err(plain)?;
        store(flag, "flag", over as c_int).map_err(plain)?;
        if over {
            finish_one(hold, named, handle, status)
        } else {
            Ok(())
        }
    })
}

/// Whether `over` holds now, or after one step.
pub(super) fn poll(hold: &mut Hold, over: impl Fn(&Hold) -> bool) -> Result<bool> {
    if over(hold) {
        return Ok(true);
    }
    let moved = hold.progress(None)?;
    let over = over(hold);
    hold.in_vain(moved || over);
    Ok(over)
}

/// Waits for all operations. MPI-4.1 §3.7.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Waitall(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    on_requests("MPI_Waitall", |hold| {
        let handles = handles(count, array_of_requests).map_err(plain)?;
        let named = all_named(hold, handles).map_err(plain)?;
        wait_all_over(hold, &named).map_err(plain)?;
        finish_all(hold, handles, named.iter().copied().enumerate(), array_of_statuses)
    })
}

/// Completes all operations if all are over. MPI-4.1 §3.7.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Testall(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    flag: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    on_requests("MPI_Testall", |hold| {
        let handles = handles(count, array_of_requests).map_err(plain)?;
        let named = all_named(hold, handles).map_err(plain)?;
        let over = poll(hold, |hold| named.iter().all(|one| one.is_over(hold))).map_err(plain)?;
        store(flag, "flag", over as c_int).map_err(plain)?;
        if !over {
            return Ok(());
        }
        finish_all(hold, handles, named.iter().copied().enumerate(), array_of_statuses)
    })
}

/// Waits for one of several operations. MPI-4.1 §3.7.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Waitany(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    index: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    on_requests("MPI_Waitany", |hold| {
        let handles = handles(count, array_of_requests).map_err(plain)?;
        let named = all_named(hold, handles).map_err(plain)?;
        if !named.iter().any(|one| one.is_active(hold)) {
            store(index, "index", MPI_UNDEFINED).map_err(plain)?;
            return store_empty(status).map_err(plain);
        }
        let mut found = None;
        hold.wait_until(None, |hold| {
            found = first_over(hold, &named);
            Ok(found.is_some())
        })
        .map_err(plain)?;
        finish_any(hold, handles, &named, found, index, status)
    })
}

pub(super) fn first_over(hold: &Hold, named: &[Named]) -> Option<usize> {
    named.iter().position(|one| one.is_active(hold) && one.is_over(hold))
}

fn finish_any(
    hold: &mut Hold,
    handles: &mut [MPI_Request],
    named: &[Named],
    found: Option<usize>,
    index: *mut c_int,
    status: *mut MPI_Status,
) -> std::result::Result<(), (Error, Option<Rc<Comm>>)> {
    let Some(at) = found else {
        return store(index, "index", MPI_UNDEFINED).map_err(plain);
    };
    store(index, "index", at as c_int).map_err(plain)?;
    finish_one(hold, named[at], &mut handles[at], status)
}

/// Completes one of several operations if one is over. MPI-4.1 §3.7.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Testany(
    count: c_int,
    array_of_requests: *mut MPI_Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    on_requests("MPI_Testany", |hold| {
        let handles = handles(count, array_of_requests).map_err(plain)?;
        let named = all_named(hold, handles).map_err(plain)?;
        if !named.iter().any(|one| one.is_active(hold)) {
            store(index, "index", MPI_UNDEFINED).map_err(plain)?;
            store(flag, "flag", 1).map_err(plain)?;
            return store_empty(status).map_err(plain);
        }
        poll(hold, |hold| first_over(hold, &named).is_some()).map_err(plain)?;
        let found = first_over(hold, &named);
        store(flag, "flag", found.is_some() as c_int).map_err(plain)?;
        finish_any(hold, handles, &named, found, index, status)
    })
}

pub(super) fn all_over(hold: &Hold, named: &[Named]) -> Vec<(usize, Named)> {
    let over = |&(_, one): &(usize, Named)| one.is_active(hold) && one.is_over(hold);
    named.iter().copied().enumerate().filter(over).collect()
}

/// Stores how many requests are over and which, and finishes them.
fn finish_some(
    hold: &mut Hold,
    handles: &mut [MPI_Request],
    over: &[(usize, Named)],
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> std::result::Result<(), (Error, Option<Rc<Comm>>)> {
    store(outcount, "outcount", over.len() as c_int).map_err(plain)?;
    let places = slice_mut(indices, over.len(), "array_of_indices").map_err(plain)?;
    for (place, (index, _)) in places.iter_mut().zip(over) {
        *place = *index as c_int;
    }
    finish_all(hold, handles, over.iter().copied(), statuses)
}

/// Waits for at least one of several operations. MPI-4.1 §3.7.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Waitsome(
    incount: c_int,
    array_of_requests: *mut MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    on_requests("MPI_Waitsome", |hold| {
        let handles = handles(incount, array_of_requests).map_err(plain)?;
        let named = all_named(hold, handles).map_err(plain)?;
        if !named.iter().any(|one| one.is_active(hold)) {
            return store(outcount, "outcount", MPI_UNDEFINED).map_err(plain);
        }
        hold.wait_until(None, |hold| Ok(first_over(hold, &named).is_some()))
            .map_err(plain)?;
        let over = all_over(hold, &named);
        finish_some(hold, handles, &over, outcount, array_of_indices, array_of_statuses)
    })
}

/// Completes those of several operations that are over. MPI-4.1 §3.7.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Testsome(
    incount: c_int,
    array_of_requests: *mut MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    on_requests("MPI_Testsome", |hold| {
        let handles = handles(incount, array_of_requests).map_err(plain)?;
        let named = all_named(hold, handles).map_err(plain)?;
        if !named.iter().any(|one| one.is_active(hold)) {
            return store(outcount, "outcount", MPI_UNDEFINED).map_err(plain);
        }
        poll(hold, |hold| first_over(hold, &named).is_some()).map_err(plain)?;
        let over = all_over(hold, &named);
        finish_some(hold, handles, &over, outcount, array_of_indices, array_of_statuses)
    })
}
