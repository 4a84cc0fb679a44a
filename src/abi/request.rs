//! # Safety
//! Reads and writes arrays of requests and statuses: relies on the application's pointers.
//!
//! Looking at requests and freeing them (MPI-4.1 §3.7.3, §3.7.6), starting persistent ones
//! (§3.9) and cancelling (§3.8.4).
#![allow(unsafe_code)]

use super::completion::{
    Failed, failed, in_status, on_requests, plain, poll, poll_all, poll_any, store_nth, store_over,
};
use super::constants::*;
use super::edge::*;
use super::errhandler::errors;
use super::handle::KEY_MASK;
use super::status::store_status;
use super::types::*;
use crate::fail;
use crate::mpi::comm::Comm;
use crate::mpi::failure;
use crate::mpi::pt2pt::persistent;
use crate::mpi::request::{self, Kind, Outcome, Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::State;
use std::ffi::c_int;
use std::rc::Rc;

/// The handle of every send that was over when it was started: nothing is left to keep of it.
pub const REQUEST_SENT: MPI_Request = 0x6c000001;
/// The handle of every receive from MPI_PROC_NULL.
pub const REQUEST_NOBODY: MPI_Request = 0x6c000002;

/// What a request argument names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Null,
    /// What was over when it was started, and how it ended.
    Over(&'static Status),
    Key(RequestKey),
}

/// Looks a handle up.
#[inline(always)]
pub(super) fn named(state: &State, handle: MPI_Request) -> Result<Named> {
    match handle {
        MPI_REQUEST_NULL => Ok(Named::Null),
        REQUEST_SENT | REQUEST_NOBODY => Ok(Named::of(handle)),
        _ => {
            let key = Object::Request.key(handle)?;
            match Object::Request.alive(handle, state.requests.get(key))? {
                Request {
                    kind: Kind::Matched(..),
                    ..
                } => Err(matched(handle)),
                Request { detached: true, .. } => Err(Object::Request.stale(handle)),
                _ => Ok(Named::Key(key)),
            }
        }
    }
}

#[cold]
fn matched(handle: MPI_Request) -> Error {
    let text = format!("handle {handle:#x} names a matched message, not a request");
    Error::new(Class::Request, text)
}

/// The live request under `handle`.
///
/// # Errors
/// `Request`: null, freed or another kind of handle.
pub fn key_of(state: &State, handle: MPI_Request) -> Result<RequestKey> {
    match named(state, handle)? {
        Named::Key(key) => Ok(key),
        Named::Over(_) => fail!(Request, "the request is complete"),
        Named::Null => fail!(Request, "the request is the null handle"),
    }
}

impl Named {
    /// What a handle names that [`named`] has found to name something.
    #[inline(always)]
    pub(super) fn of(handle: MPI_Request) -> Named {
        match handle {
            MPI_REQUEST_NULL => Named::Null,
            REQUEST_SENT => Named::Over(&Status::EMPTY),
            REQUEST_NOBODY => Named::Over(&Status::PROC_NULL),
            _ => Named::Key(handle as u32 & KEY_MASK),
        }
    }

    /// How it ended, if no request stands for it.
    #[inline(always)]
    pub(super) fn outcome(self) -> &'static Status {
        match self {
            Named::Over(status) => status,
            _ => &Status::EMPTY,
        }
    }

    /// Waits until it is over.
    pub(super) fn wait(self, hold: &mut Hold) -> Result<()> {
        match self {
            Named::Null | Named::Over(_) => Ok(()),
            Named::Key(key) => hold.wait_over(None, key),
        }
    }

    #[inline(always)]
    pub(super) fn is_over(self, state: &State) -> bool {
        match self {
            Named::Key(key) => state.is_over(key),
            _ => true,
        }
    }

    /// Null and inactive requests, which Waitany and Testsome pass over.
    pub(super) fn is_active(self, state: &State) -> bool {
        match self {
            Named::Null => false,
            Named::Over(_) => true,
            Named::Key(key) => !state.is_inactive(key),
        }
    }

    /// Takes the outcome; `handle` becomes null unless the request is persistent.
    pub(super) fn finish(self, hold: &mut Hold, handle: &mut MPI_Request) -> Ended {
        let Named::Key(key) = self else {
            *handle = MPI_REQUEST_NULL;
            return Ended {
                status: *self.outcome(),
                error: None,
                comm: None,
            };
        };
        let comm = hold.requests.get(key).and_then(|request| request.comm.clone());
        if hold.requests.get(key).is_some_and(|request| request.is_pending()) {
            // Nothing but the program can tell whether a message will come: the request stays.
            return Ended {
                status: Status::EMPTY,
                error: Some(failure::any_source(Class::ProcFailedPending)),
                comm,
            };
        }
        let Outcome { status, error, kept } = request::finish(hold, key);
        if !kept {
            *handle = MPI_REQUEST_NULL;
        }
        Ended { status, error, comm }
    }
}

/// How a request ended, and on which communicator.
pub(super) struct Ended {
    pub(super) status: Status,
    pub(super) error: Option<Error>,
    pub(super) comm: Option<Rc<Comm>>,
}

/// The handle that names `comm`, or `MPI_COMM_NULL` once it has been freed.
pub(super) fn handle_of(state: &State, comm: &Rc<Comm>) -> MPI_Comm {
    if Rc::ptr_eq(comm, &state.world) {
        return MPI_COMM_WORLD;
    }
    if Rc::ptr_eq(comm, &state.own) {
        return MPI_COMM_SELF;
    }
    let found = state.comms.iter().find(|(_, other)| Rc::ptr_eq(comm, other));
    found.map_or(MPI_COMM_NULL, |(key, _)| Object::Comm.handle(key))
}

/// How an operation ended, without completing it. MPI-4.1 §3.7.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_get_status(
    request: MPI_Request,
    flag: *mut c_int,
    status: *mut MPI_Status,
) -> c_int {
    on_requests("MPI_Request_get_status", |hold| {
        let named = named(hold, request).map_err(plain)?;
        let over = poll(hold, |hold| named.is_over(hold)).map_err(plain)?;
        store(flag, "flag", over as c_int).map_err(plain)?;
        match over {
            true => look_at(hold, named, status),
            false => Ok(()),
        }
    })
}

/// Stores how an operation ended that is over.
fn look_at(hold: &mut Hold, named: Named, status: *mut MPI_Status) -> std::result::Result<(), Failed> {
    let (seen, ended) = look(hold, named);
    store_status(status, &seen).map_err(plain)?;
    ended
}

fn look(hold: &mut Hold, named: Named) -> (Status, std::result::Result<(), Failed>) {
    let Named::Key(key) = named else {
        return (*named.outcome(), Ok(()));
    };
    let comm = hold.requests.get(key).and_then(|request| request.comm.clone());
    let (status, ended) = request::inspect(hold, key);
    (status, ended.map_err(|error| failed(error, comm)))
}

/// Stores how operations ended that are over, in a row.
fn look_at_all(
    hold: &mut Hold,
    handles: impl Iterator<Item = MPI_Request>,
    statuses: *mut MPI_Status,
) -> std::result::Result<(), Failed> {
    let mut first = None;
    for (place, handle) in handles.enumerate() {
        let (seen, ended) = look(hold, Named::of(handle));
        let code = match &ended {
            Ok(()) => MPI_SUCCESS,
            Err(ended) => errors().remember(&ended.error),
        };
        store_nth(statuses, place, &seen, code).map_err(plain)?;
        if let Err(ended) = ended {
            first.get_or_insert(in_status(ended));
        }
    }
    first.map_or(Ok(()), Err)
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
    on_requests("MPI_Request_get_status_all", |hold| {
        let handles = handles_of(count, array_of_requests).map_err(plain)?;
        let over = poll_all(hold, handles).map_err(plain)?;
        store(flag, "flag", over as c_int).map_err(plain)?;
        match over {
            true => look_at_all(hold, handles.iter().copied(), array_of_statuses),
            false => Ok(()),
        }
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
    on_requests("MPI_Request_get_status_any", |hold| {
        let handles = handles_of(count, array_of_requests).map_err(plain)?;
        let found = poll_any(hold, handles).map_err(plain)?;
        let (over, at) = match found {
            None => (true, None),
            Some(found) => (found.is_some(), found),
        };
        store(flag, "flag", over as c_int).map_err(plain)?;
        store(index, "index", at.map_or(MPI_UNDEFINED, |at| at as c_int)).map_err(plain)?;
        match at {
            Some(at) => look_at(hold, Named::of(handles[at]), status),
            None if over => store_status(status, &Status::EMPTY).map_err(plain),
            None => Ok(()),
        }
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
    on_requests("MPI_Request_get_status_some", |hold| {
        let handles = handles_of(incount, array_of_requests).map_err(plain)?;
        let first = poll_any(hold, handles).map_err(plain)?;
        let over = store_over(hold, handles, first, outcount, array_of_indices).map_err(plain)?;
        let over = over.iter().map(|&index| handles[index as usize]);
        look_at_all(hold, over, array_of_statuses)
    })
}

fn handles_of<'a>(count: c_int, array_of_requests: *const MPI_Request) -> Result<&'a [MPI_Request]> {
    slice(array_of_requests, self::count(count, "count")?, "array_of_requests")
}

/// Frees a request; its operation goes on. MPI-4.1 §3.7.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_free(request: *mut MPI_Request) -> c_int {
    on_world("MPI_Request_free", |hold| {
        let handle = &mut slice_mut(request, 1, "request")?[0];
        match named(hold, *handle)? {
            Named::Null => fail!(Request, "the request is the null handle"),
            Named::Over(_) => {}
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
        Named::Over(_) => Ok(()),
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
        let handles = slice(array_of_requests, self::count(count, "count")?, "array_of_requests")?;
        // All or none.
        for &handle in handles {
            persistent::inactive(hold, key_of(hold, handle)?)?;
        }
        handles
            .iter()
            .try_for_each(|&handle| persistent::start(hold, key_of(hold, handle)?))
    })
}
