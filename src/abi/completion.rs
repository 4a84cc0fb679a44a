//! # Safety
//! Reads and writes arrays of requests and statuses: relies on the application's pointers.
//!
//! Completing requests: every form of Wait and Test (MPI-4.1 §3.7.3-3.7.5).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::errhandler::{errors, raise};
use super::request::*;
use super::source::Source;
use super::status::store_status;
use super::timing;
use super::types::*;
use crate::mpi::comm::Comm;
use crate::mpi::pt2pt::engine::CAREFUL;
use crate::mpi::pt2pt::{self, Looks};
use crate::mpi::request::{self, Kind};
use crate::mpi::status::Status;
use std::ffi::c_int;
use std::rc::Rc;

/// What a call on requests fails with.
pub(super) struct Failed {
    pub(super) error: Error,
    /// The communicator that it happened on.
    pub(super) comm: Option<Rc<Comm>>,
    /// It is one request's of several: the handler gets its code, and the call returns MPI_ERR_IN_STATUS (MPI-4.1 §9.3.1).
    in_status: bool,
}

/// Runs `body`; its error goes to the handler of the communicator that comes with it.
pub(super) fn on_requests(
    name: &'static str,
    body: impl FnOnce(&mut Hold) -> std::result::Result<(), Failed>,
) -> c_int {
    let world = world(name);
    let _call = world.calling(name);
    let mut hold = world.hold();
    let Err(Failed { error, comm, in_status }) = body(&mut hold) else {
        return MPI_SUCCESS;
    };
    let source = match &comm {
        Some(comm) => Source::comm(&hold, handle_of(&hold, comm), comm),
        None => Source::anywhere(&hold),
    };
    // Other threads count its owners too.
    drop(comm);
    drop(hold);
    if !in_status {
        return raise(name, source, error);
    }
    let text = format!("an operation failed; its status says which: {}", error.text());
    let returned = errors().remember_in(name, &Error::new(Class::InStatus, text));
    raise(name, source, error);
    returned
}

/// An error without a communicator.
pub(super) fn plain(error: Error) -> Failed {
    failed(error, None)
}

/// An error on a communicator.
pub(super) fn failed(error: Error, comm: Option<Rc<Comm>>) -> Failed {
    Failed {
        error,
        comm,
        in_status: false,
    }
}

/// What a call on several requests fails with when one of them has failed so.
pub(super) fn in_status(failed: Failed) -> Failed {
    Failed {
        in_status: true,
        ..failed
    }
}

/// What the request at `index` of an array names.
#[inline(always)]
fn named_at(hold: &Hold, index: usize, handle: MPI_Request) -> Result<Named> {
    named(hold, handle).map_err(|error| at_index(index, error))
}

#[cold]
fn at_index(index: usize, error: Error) -> Error {
    Error::new(error.class(), format!("request {index}: {}", error.text()))
}

/// The first active request of an array call that is over, if one is; `None` if none is active. Checks every handle, so that
/// nothing is done when one is wrong.
fn survey(hold: &Hold, handles: &[MPI_Request]) -> Result<Option<Option<usize>>> {
    let mut found = None;
    for (index, &handle) in handles.iter().enumerate() {
        let named = named_at(hold, index, handle)?;
        if !matches!(found, Some(Some(_))) && named.is_active(hold) {
            found = Some(named.is_over(hold).then_some(index));
        }
    }
    Ok(found)
}

/// As [`survey`], after one step if that finds none.
pub(super) fn poll_any(hold: &mut Hold, handles: &[MPI_Request]) -> Result<Option<Option<usize>>> {
    match survey(hold, handles)? {
        Some(None) => poll_again(hold, |hold| first_over(hold, handles)).map(Some),
        found => Ok(found),
    }
}

/// As [`survey`], and waits for one.
fn wait_any(hold: &mut Hold, handles: &[MPI_Request]) -> Result<Option<usize>> {
    let Some(mut found) = survey(hold, handles)? else {
        return Ok(None);
    };
    hold.wait_until(None, |hold| {
        found = found.or_else(|| first_over(hold, handles));
        Ok(found.is_some())
    })?;
    Ok(found)
}

/// The first active request that is over, of handles that have been checked.
fn first_over(hold: &Hold, handles: &[MPI_Request]) -> Option<usize> {
    handles.iter().position(|&handle| is_ready(hold, handle))
}

/// Whether an active request is over.
fn is_ready(hold: &Hold, handle: MPI_Request) -> bool {
    let named = Named::of(handle);
    named.is_active(hold) && named.is_over(hold)
}

/// Whether all requests of an array call are over, now or after one step. Checks every handle first.
pub(super) fn poll_all(hold: &mut Hold, handles: &[MPI_Request]) -> Result<bool> {
    for (index, &handle) in handles.iter().enumerate() {
        named_at(hold, index, handle)?;
    }
    poll(hold, |hold| {
        handles.iter().all(|&handle| Named::of(handle).is_over(hold))
    })
}

/// The requests of an array call, and its outputs.
fn handles<'a>(count: c_int, requests: *mut MPI_Request) -> Result<&'a mut [MPI_Request]> {
    slice_mut(requests, self::count(count, "count")?, "array_of_requests")
}

/// Stores one status of several, and the code of its error. It counts only if the call returns MPI_ERR_IN_STATUS, but programs read it after
/// other calls too, as MPICH sets it.
pub(super) fn store_nth(statuses: *mut MPI_Status, index: usize, status: &Status, code: c_int) -> Result<()> {
    if statuses == MPI_STATUSES_IGNORE {
        return Ok(());
    }
    let out = statuses.wrapping_add(index);
    store_status(out, status)?;
    // SAFETY: `store_status` has just written there.
    unsafe { (*out).MPI_ERROR = code };
    Ok(())
}

/// Finishes a request that is over without an error and of which nothing but its status is wanted; `None`, and nothing done,
/// for any other.
#[inline(always)]
fn finish_simple(
    hold: &mut Hold,
    handle: &mut MPI_Request,
    store: impl Fn(&Status) -> Result<()>,
) -> Option<Result<()>> {
    let named = Named::of(*handle);
    let Named::Key(key) = named else {
        *handle = MPI_REQUEST_NULL;
        return Some(store(named.outcome()));
    };
    if let Some(stored) = request::finish_plain(hold, key, &store) {
        *handle = MPI_REQUEST_NULL;
        return Some(stored);
    }
    request::finish_started(hold, key, store)
}

/// Finishes requests, all of them over, and stores their statuses in a row; `which` tells the index of the one whose
/// status comes to each of `places`.
#[inline(always)]
fn finish_all(
    hold: &mut Hold,
    handles: &mut [MPI_Request],
    places: std::ops::Range<usize>,
    which: impl Fn(usize) -> usize,
    statuses: *mut MPI_Status,
) -> std::result::Result<(), Failed> {
    let mut first = None;
    for place in places {
        let handle = &mut handles[which(place)];
        if first.is_none()
            && let Some(stored) = finish_simple(hold, handle, |status| store_nth(statuses, place, status, MPI_SUCCESS))
        {
            stored.map_err(plain)?;
            continue;
        }
        let ended = Named::of(*handle).finish(hold, handle);
        if let (Some(error), None) = (&ended.error, &first) {
            first = Some(in_status(failed(error.clone(), ended.comm.clone())));
        }
        let code = ended
            .error
            .as_ref()
            .map_or(MPI_SUCCESS, |error| errors().remember(error));
        store_nth(statuses, place, &ended.status, code).map_err(plain)?;
    }
    first.map_or(Ok(()), Err)
}

/// Lets a generalized request wait in the program's own way, if it has one.
#[cold]
#[inline(never)]
fn call_waiter(hold: &mut Hold, named: Named) -> Result<()> {
    while !named.is_over(hold) {
        let Named::Key(key) = named else { return Ok(()) };
        let Some(Kind::Generalized(generalized)) = hold.requests.get(key).map(|request| &request.kind) else {
            return Ok(());
        };
        let Some(wait) = generalized.waiter() else {
            return Ok(());
        };
        hold.released(wait)?;
    }
    Ok(())
}

/// The short way of MPI_Wait and MPI_Test: of an operation that is over, or becomes so by a look at the ring of the one rank
/// that a receive is from. False when it is not over, or when anything is unusual or wrong: the long way says what.
#[inline(always)]
fn short(request: *mut MPI_Request, status: *mut MPI_Status, looks: Looks) -> bool {
    let Some(world) = current_world() else { return false };
    let mut hold = world.hold();
    if hold.engine.detours & CAREFUL != 0 || request.is_null() || status.is_null() {
        return false;
    }
    // SAFETY: not NULL: the application's handle.
    let handle = unsafe { &mut *request };
    let named = Named::of(*handle);
    if matches!(named, Named::Key(_)) && Object::Request.key_of(*handle).is_none() {
        return false;
    }
    let store = |ended: &Status| store_status(status, ended);
    let mut finished = finish_simple(&mut hold, handle, store);
    if let (None, Named::Key(key)) = (&finished, named) {
        match pt2pt::look_for_awaited(&mut hold, key, looks) {
            Ok(true) => finished = finish_simple(&mut hold, handle, store),
            Ok(false) => {}
            // The next step says so.
            Err(error) => hold.trouble = Some(error),
        }
    }
    let is_over = matches!(finished, Some(Ok(())));
    if is_over {
        timing::count(&mut hold, None);
    }
    is_over
}

/// Waits for one operation. MPI-4.1 §3.7.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Wait(request: *mut MPI_Request, status: *mut MPI_Status) -> c_int {
    if short(request, status, Looks::Out) {
        return MPI_SUCCESS;
    }
    on_requests("MPI_Wait", |hold| {
        let handle = &mut slice_mut(request, 1, "request").map_err(plain)?[0];
        let named = named(hold, *handle).map_err(plain)?;
        if hold.own_ways {
            call_waiter(hold, named).map_err(plain)?;
        }
        named.wait(hold).map_err(plain)?;
        finish_one(hold, handle, status)
    })
}

fn finish_one(hold: &mut Hold, handle: &mut MPI_Request, status: *mut MPI_Status) -> std::result::Result<(), Failed> {
    if let Some(stored) = finish_simple(hold, handle, |ended| store_status(status, ended)) {
        return stored.map_err(plain);
    }
    let ended = Named::of(*handle).finish(hold, handle);
    store_status(status, &ended.status).map_err(plain)?;
    ended.error.map_or(Ok(()), |error| Err(failed(error, ended.comm)))
}

/// Completes one operation if it is over. MPI-4.1 §3.7.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Test(request: *mut MPI_Request, flag: *mut c_int, status: *mut MPI_Status) -> c_int {
    if !flag.is_null() && short(request, status, Looks::Once) {
        // SAFETY: not NULL: the application's.
        unsafe { flag.write(1) };
        return MPI_SUCCESS;
    }
    on_requests("MPI_Test", |hold| {
        let handle = &mut slice_mut(request, 1, "request").map_err(plain)?[0];
        let named = named(hold, *handle).map_err(plain)?;
        let over = poll(hold, |hold| named.is_over(hold)).map_err(plain)?;
        store(flag, "flag", over as c_int).map_err(plain)?;
        if over { finish_one(hold, handle, status) } else { Ok(()) }
    })
}

/// Whether `over` holds now, or after one step.
pub(super) fn poll(hold: &mut Hold, over: impl Fn(&Hold) -> bool) -> Result<bool> {
    Ok(over(hold) || poll_again(hold, |hold| over(hold).then_some(()))?.is_some())
}

/// What `look`, which has found nothing, finds after one step.
fn poll_again<T>(hold: &mut Hold, look: impl Fn(&Hold) -> Option<T>) -> Result<Option<T>> {
    let moved = hold.look_around(None)?;
    let found = if moved { look(hold) } else { None };
    hold.in_vain(moved);
    Ok(found)
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
        for (index, &handle) in handles.iter().enumerate() {
            named_at(hold, index, handle).map_err(plain)?;
        }
        let own_ways = hold.own_ways;
        for &handle in handles.iter().filter(|_| own_ways) {
            call_waiter(hold, Named::of(handle)).map_err(plain)?;
        }
        // Simple ones are finished as they end; behind the first other one it is only counted what is over.
        let (mut finished, mut over) = (0, 0);
        // Where ranks share CPUs, whoever is to send may need this one.
        let mut has_looked = hold.engine.channel.segment().lacks_cpus();
        for handle in handles.iter_mut() {
            let store = |status: &Status| store_nth(array_of_statuses, finished, status, MPI_SUCCESS);
            let mut stored = finish_simple(hold, handle, store);
            if let (None, Named::Key(key), false) = (&stored, Named::of(*handle), has_looked) {
                // Once: of a window of messages more come meanwhile if this rank does not look out for each.
                has_looked = true;
                if pt2pt::look_for_awaited(hold, key, Looks::OutForAll).map_err(plain)? {
                    stored = finish_simple(hold, handle, store);
                }
            }
            let Some(stored) = stored else { break };
            stored.map_err(plain)?;
            (finished, over) = (finished + 1, over + 1);
        }
        hold.wait_until(None, |hold| {
            while over == finished && over < handles.len() {
                let store = |status: &Status| store_nth(array_of_statuses, finished, status, MPI_SUCCESS);
                let Some(stored) = finish_simple(hold, &mut handles[finished], store) else {
                    break;
                };
                stored?;
                (finished, over) = (finished + 1, over + 1);
            }
            while over < handles.len() && Named::of(handles[over]).is_over(hold) {
                over += 1;
            }
            Ok(over == handles.len())
        })
        .map_err(plain)?;
        finish_all(hold, handles, finished..handles.len(), |index| index, array_of_statuses)
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
        let over = poll_all(hold, handles).map_err(plain)?;
        store(flag, "flag", over as c_int).map_err(plain)?;
        if !over {
            return Ok(());
        }
        finish_all(hold, handles, 0..handles.len(), |index| index, array_of_statuses)
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
        let found = wait_any(hold, handles).map_err(plain)?;
        if found.is_none() {
            store_status(status, &Status::EMPTY).map_err(plain)?;
        }
        finish_any(hold, handles, found, index, status)
    })
}

fn finish_any(
    hold: &mut Hold,
    handles: &mut [MPI_Request],
    found: Option<usize>,
    index: *mut c_int,
    status: *mut MPI_Status,
) -> std::result::Result<(), Failed> {
    let Some(at) = found else {
        return store(index, "index", MPI_UNDEFINED).map_err(plain);
    };
    store(index, "index", at as c_int).map_err(plain)?;
    let handle = &mut handles[at];
    finish_one(hold, handle, status)
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
        let Some(found) = poll_any(hold, handles).map_err(plain)? else {
            store(index, "index", MPI_UNDEFINED).map_err(plain)?;
            store(flag, "flag", 1).map_err(plain)?;
            return store_status(status, &Status::EMPTY).map_err(plain);
        };
        store(flag, "flag", found.is_some() as c_int).map_err(plain)?;
        finish_any(hold, handles, found, index, status)
    })
}

/// Stores how many active requests are over and which; the latter again. `first` is the first of them, `None` that no
/// request is active, as [`survey`] says.
pub(super) fn store_over<'a>(
    hold: &Hold,
    handles: &[MPI_Request],
    first: Option<Option<usize>>,
    outcount: *mut c_int,
    indices: *mut c_int,
) -> Result<&'a [c_int]> {
    let Some(first) = first else {
        store(outcount, "outcount", MPI_UNDEFINED)?;
        return Ok(&[]);
    };
    let from = first.unwrap_or(handles.len());
    let over = || (from..handles.len()).filter(|&index| is_ready(hold, handles[index]));
    let count = over().count();
    store(outcount, "outcount", count as c_int)?;
    let places = slice_mut(indices, count, "array_of_indices")?;
    for (place, index) in places.iter_mut().zip(over()) {
        *place = index as c_int;
    }
    Ok(places)
}

/// As [`store_over`], and finishes them.
fn finish_some(
    hold: &mut Hold,
    handles: &mut [MPI_Request],
    first: Option<Option<usize>>,
    outcount: *mut c_int,
    indices: *mut c_int,
    statuses: *mut MPI_Status,
) -> std::result::Result<(), Failed> {
    let over = store_over(hold, handles, first, outcount, indices).map_err(plain)?;
    finish_all(hold, handles, 0..over.len(), |place| over[place] as usize, statuses)
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
        let first = wait_any(hold, handles).map_err(plain)?.map(Some);
        finish_some(hold, handles, first, outcount, array_of_indices, array_of_statuses)
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
        let first = poll_any(hold, handles).map_err(plain)?;
        finish_some(hold, handles, first, outcount, array_of_indices, array_of_statuses)
    })
}
