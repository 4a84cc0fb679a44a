//! # Safety
//! Reads and writes arrays of requests and statuses: relies on the application's pointers.
//!
//! Completing requests: every form of Wait and Test (MPI-4.1 §3.7.3-3.7.6), starting persistent ones
//! (§3.9), cancelling (§3.8.4) and generalized requests (§13.2).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::errhandler::{Source, errors, raise};
use super::status::store_status;
use super::types::*;
use crate::fail;
use crate::mpi::comm::Comm;
use crate::mpi::pt2pt::persistent;
use crate::mpi::request::{self, Generalized, Kind, Outcome, Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::State;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// The handle of every send that was over when it was started: nothing is left to keep of it.
pub const REQUEST_SENT: MPI_Request = 0x6c000001;

/// What a request argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Named {
    Null,
    Sent,
    Key(RequestKey),
}

/// Looks a handle up.
fn named(state: &State, handle: MPI_Request) -> Result<Named> {
    match handle {
        MPI_REQUEST_NULL => Ok(Named::Null),
        REQUEST_SENT => Ok(Named::Sent),
        _ => {
            let key = Object::Request.key(handle)?;
            match Object::Request.alive(handle, state.requests.get(key))? {
                Request {
                    kind: Kind::Matched(..),
                    ..
                } => {
                    fail!(Request, "handle {handle:#x} names a matched message, not a request")
                }
                Request { detached: true, .. } => Err(Object::Request.stale(handle)),
                _ => Ok(Named::Key(key)),
            }
        }
    }
}

/// The live request under `handle`.
///
/// # Errors
/// `Request`: null, freed or another kind of handle.
pub fn key_of(state: &State, handle: MPI_Request) -> Result<RequestKey> {
    match named(state, handle)? {
        Named::Key(key) => Ok(key),
        Named::Sent => fail!(Request, "the request is complete"),
        Named::Null => fail!(Request, "the request is the null handle"),
    }
}

impl Named {
    fn is_over(self, state: &State) -> bool {
        match self {
            Named::Key(key) => state.is_over(key),
            _ => true,
        }
    }

    /// Null and inactive requests, which Waitany and Testsome pass over.
    fn is_active(self, state: &State) -> bool {
        match self {
            Named::Null => false,
            Named::Sent => true,
            Named::Key(key) => !state.is_inactive(key),
        }
    }

    /// Takes the outcome; `handle` becomes null unless the request is persistent.
    fn finish(self, hold: &mut Hold, handle: &mut MPI_Request) -> Ended {
        let Named::Key(key) = self else {
            *handle = MPI_REQUEST_NULL;
            return Ended {
                status: Status::EMPTY,
                error: None,
                comm: None,
            };
        };
        let comm = hold.requests.get(key).and_then(|request| request.comm.clone());
        let Outcome { status, error, kept } = request::finish(hold, key);
        if !kept {
            *handle = MPI_REQUEST_NULL;
        }
        Ended { status, error, comm }
    }
}

/// How a request ended, and on which communicator.
struct Ended {
    status: Status,
    error: Option<Error>,
    comm: Option<Rc<Comm>>,
}

/// The handle that names `comm`, or `MPI_COMM_NULL` once it has been freed.
fn handle_of(state: &State, comm: &Rc<Comm>) -> MPI_Comm {
    if Rc::ptr_eq(comm, &state.world) {
        return MPI_COMM_WORLD;
    }
    if Rc::ptr_eq(comm, &state.own) {
        return MPI_COMM_SELF;
    }
    let found = state.comms.iter().find(|(_, other)| Rc::ptr_eq(comm, other));
    found.map_or(MPI_COMM_NULL, |(key, _)| Object::Comm.handle(key))
}

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
fn all_named(hold: &Hold, handles: &[MPI_Request]) -> Result<Vec<Named>> {
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
fn store_nth(statuses: *mut MPI_Status, index: usize, status: &Status, code: Option<c_int>) -> Result<()> {
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
fn poll(hold: &mut Hold, over: impl Fn(&Hold) -> bool) -> Result<bool> {
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
            return store_status(status, &Status::EMPTY).map_err(plain);
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

fn first_over(hold: &Hold, named: &[Named]) -> Option<usize> {
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
            return store_status(status, &Status::EMPTY).map_err(plain);
        }
        poll(hold, |hold| first_over(hold, &named).is_some()).map_err(plain)?;
        let found = first_over(hold, &named);
        store(flag, "flag", found.is_some() as c_int).map_err(plain)?;
        finish_any(hold, handles, &named, found, index, status)
    })
}

fn all_over(hold: &Hold, named: &[Named]) -> Vec<(usize, Named)> {
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

/// How an operation ended, without completing it. MPI-4.1 §3.7.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_get_status(
    request: MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    on_world("MPI_Request_get_status", |hold| {
        let named = named(hold, request)?;
        let over = poll(hold, |hold| named.is_over(hold))?;
        store(flag, "flag", over as c_int)?;
        if !over {
            return Ok(());
        }
        let (seen, asked) = look(hold, named);
        store_status(status, &seen)?;
        asked
    })
}

fn look(hold: &mut Hold, named: Named) -> (Status, Result<()>) {
    match named {
        Named::Key(key) => request::inspect(hold, key),
        _ => (Status::EMPTY, Ok(())),
    }
}

/// How all operations ended, if all are over. MPI-4.1 §3.7.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_get_status_all(
    count: c_int,
    array_of_requests: *const MPI_Request,
    flag: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    on_world("MPI_Request_get_status_all", |hold| {
        let handles = slice(array_of_requests, self::count(count, "count")?, "array_of_requests")?;
        let named = all_named(hold, handles)?;
        let over = poll(hold, |hold| named.iter().all(|one| one.is_over(hold)))?;
        store(flag, "flag", over as c_int)?;
        for (index, one) in named.into_iter().enumerate().filter(|_| over) {
            let (seen, asked) = look(hold, one);
            store_nth(array_of_statuses, index, &seen, None)?;
            asked?;
        }
        Ok(())
    })
}

/// How one of several operations ended. MPI-4.1 §3.7.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_get_status_any(
    count: c_int,
    array_of_requests: *const MPI_Request,
    index: *mut c_int,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    on_world("MPI_Request_get_status_any", |hold| {
        let handles = slice(array_of_requests, self::count(count, "count")?, "array_of_requests")?;
        let named = all_named(hold, handles)?;
        if !named.iter().any(|one| one.is_active(hold)) {
            store(flag, "flag", 1)?;
            store(index, "index", MPI_UNDEFINED)?;
            return store_status(status, &Status::EMPTY);
        }
        poll(hold, |hold| first_over(hold, &named).is_some())?;
        let found = first_over(hold, &named);
        store(flag, "flag", found.is_some() as c_int)?;
        store(index, "index", found.map_or(MPI_UNDEFINED, |at| at as c_int))?;
        let Some(at) = found else { return Ok(()) };
        let (seen, asked) = look(hold, named[at]);
        store_status(status, &seen)?;
        asked
    })
}

/// How those of several operations ended that are over. MPI-4.1 §3.7.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_get_status_some(
    incount: c_int,
    array_of_requests: *const MPI_Request,
    outcount: *mut c_int,
    array_of_indices: *mut c_int,
    array_of_statuses: *mut MPI_Status,
) -> c_int {
    on_world("MPI_Request_get_status_some", |hold| {
        let handles = slice(array_of_requests, self::count(incount, "incount")?, "array_of_requests")?;
        let named = all_named(hold, handles)?;
        if !named.iter().any(|one| one.is_active(hold)) {
            return store(outcount, "outcount", MPI_UNDEFINED);
        }
        poll(hold, |hold| first_over(hold, &named).is_some())?;
        let over = all_over(hold, &named);
        store(outcount, "outcount", over.len() as c_int)?;
        let places = slice_mut(array_of_indices, over.len(), "array_of_indices")?;
        for (at, (index, one)) in over.into_iter().enumerate() {
            places[at] = index as c_int;
            let (seen, asked) = look(hold, one);
            store_nth(array_of_statuses, at, &seen, None)?;
            asked?;
        }
        Ok(())
    })
}

/// Frees a request; its operation goes on. MPI-4.1 §3.7.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_free(request: *mut MPI_Request) -> c_int {
    on_world("MPI_Request_free", |hold| {
        let handle = &mut slice_mut(request, 1, "request")?[0];
        match named(hold, *handle)? {
            Named::Null => fail!(Request, "the request is the null handle"),
            Named::Sent => {}
            Named::Key(key) => request::free(hold, key)?,
        }
        *handle = MPI_REQUEST_NULL;
        Ok(())
    })
}

/// Asks for an operation to be cancelled. MPI-4.1 §3.8.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Cancel(request: *mut MPI_Request) -> c_int {
    on_world("MPI_Cancel", |hold| match named(hold, load(request, "request")?)? {
        Named::Null => fail!(Request, "the request is the null handle"),
        Named::Sent => Ok(()),
        Named::Key(key) => request::cancel(hold, key),
    })
}

/// Starts a persistent operation. MPI-4.1 §3.9.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Start(request: *mut MPI_Request) -> c_int {
    on_world("MPI_Start", |hold| {
        let key = key_of(hold, load(request, "request")?)?;
        persistent::start(hold, key)
    })
}

/// Starts several persistent operations. MPI-4.1 §3.9.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Startall(count: c_int, array_of_requests: *mut MPI_Request) -> c_int {
    on_world("MPI_Startall", |hold| {
        for &handle in slice(array_of_requests, self::count(count, "count")?, "array_of_requests")? {
            let key = key_of(hold, handle)?;
            persistent::start(hold, key)?;
        }
        Ok(())
    })
}

/// The call-backs of a generalized request, as the program gave them.
struct Grequest {
    query: MPI_Grequest_query_function,
    free: MPI_Grequest_free_function,
    cancel: MPI_Grequest_cancel_function,
    extra_state: *mut c_void,
}

/// What a call-back returned.
fn returned(name: &str, code: c_int) -> Result<()> {
    match code {
        MPI_SUCCESS => Ok(()),
        _ => Err(Error::returned(
            code,
            format!("the {name} function of a generalized request failed"),
        )),
    }
}

impl Generalized for Grequest {
    fn query(&mut self) -> (Status, Result<()>) {
        let mut status = MPI_Status {
            MPI_SOURCE: MPI_UNDEFINED,
            MPI_TAG: MPI_UNDEFINED,
            ..MPI_Status::default()
        };
        // SAFETY: the program's function, with its own state.
        let code = self
            .query
            .map_or(MPI_SUCCESS, |query| unsafe { query(self.extra_state, &mut status) });
        (status.to_status(), returned("query", code))
    }

    fn free(&mut self) -> Result<()> {
        // SAFETY: as above.
        returned(
            "free",
            self.free.map_or(MPI_SUCCESS, |free| unsafe { free(self.extra_state) }),
        )
    }

    fn cancel(&mut self, complete: bool) -> Result<()> {
        let complete = complete as c_int;
        // SAFETY: as above.
        returned(
            "cancel",
            self.cancel
                .map_or(MPI_SUCCESS, |cancel| unsafe { cancel(self.extra_state, complete) }),
        )
    }
}

/// Starts a generalized request. MPI-4.1 §13.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Grequest_start(
    query_fn: MPI_Grequest_query_function,
    free_fn: MPI_Grequest_free_function,
    cancel_fn: MPI_Grequest_cancel_function,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> c_int {
    on_world("MPI_Grequest_start", |hold| {
        let generalized = Grequest {
            query: query_fn,
            free: free_fn,
            cancel: cancel_fn,
            extra_state,
        };
        let key = hold.add_request(Request::new(Kind::Generalized(Box::new(generalized)), None))?;
        store(request, "request", Object::Request.handle(key))
    })
}

/// Says that a generalized request is over. MPI-4.1 §13.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Grequest_complete(request: MPI_Request) -> c_int {
    on_world("MPI_Grequest_complete", |hold| {
        let key = key_of(hold, request)?;
        match hold.requests.get(key).map(|request| &request.kind) {
            Some(Kind::Generalized(_)) => hold.complete(key, Status::EMPTY, None),
            _ => fail!(Request, "the request is not a generalized request"),
        }
        hold.wake_threads();
        Ok(())
    })
}
