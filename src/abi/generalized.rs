//! # Safety
//! Calls the program's functions for generalized requests and asynchronous tasks: relies on their types.
//!
//! Operations of the program that look like MPI's: generalized requests (MPI-4.1 §13.2), with MPICH's
//! extension by which MPI calls the program back until they are over, and MPICH's asynchronous tasks.
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::progress;
use super::request::key_of;
use super::types::*;
use crate::fail;
use crate::mpi::hooks::Hook;
use crate::mpi::request::{Generalized, Kind, Request, complete_generalized};
use crate::mpi::status::Status;
use crate::mpi::table::Table;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The call-backs of a generalized request, as the program gave them.
#[derive(Clone, Copy)]
struct Functions {
    query: MPI_Grequest_query_function,
    free: MPI_Grequest_free_function,
    cancel: MPI_Grequest_cancel_function,
    poll: MPIX_Grequest_poll_function,
    wait: MPIX_Grequest_wait_function,
}

/// A generalized request.
struct Grequest {
    functions: Functions,
    extra_state: *mut c_void,
    /// Whether the functions are Fortran's: they return nothing and store their error code.
    fortran: Cell<bool>,
}

/// What Fortran sees as the type of a call-back without and with an argument before the error code.
type FortranFree = unsafe extern "C" fn(*mut c_void, *mut MPI_Fint);
type FortranQuery = unsafe extern "C" fn(*mut c_void, *mut MPI_Status, *mut MPI_Fint);
type FortranCancel = unsafe extern "C" fn(*mut c_void, *mut MPI_Fint, *mut MPI_Fint);

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

/// A status in which a call-back fills in what it knows.
fn blank() -> MPI_Status {
    MPI_Status {
        MPI_SOURCE: MPI_UNDEFINED,
        MPI_TAG: MPI_UNDEFINED,
        ..MPI_Status::default()
    }
}

impl Generalized for Grequest {
    fn query(&self) -> (Status, Result<()>) {
        let (mut status, mut code) = (blank(), MPI_SUCCESS);
        if let Some(query) = self.functions.query {
            // SAFETY: the program's function, with its own state; a Fortran library says that it is Fortran's.
            unsafe {
                match self.fortran.get() {
                    true => {
                        let query = std::mem::transmute::<*const (), FortranQuery>(query as *const ());
                        query(self.extra_state, &mut status, &mut code);
                    }
                    false => code = query(self.extra_state, &mut status),
                }
            }
        }
        (status.to_status(), returned("query", code))
    }

    fn free(&self) -> Result<()> {
        let mut code = MPI_SUCCESS;
        if let Some(free) = self.functions.free {
            // SAFETY: as above.
            unsafe {
                match self.fortran.get() {
                    true => {
                        let free = std::mem::transmute::<*const (), FortranFree>(free as *const ());
                        free(self.extra_state, &mut code);
                    }
                    false => code = free(self.extra_state),
                }
            }
        }
        returned("free", code)
    }

    fn cancel(&self, complete: bool) -> Result<()> {
        let (mut complete, mut code) = (complete as c_int, MPI_SUCCESS);
        if let Some(cancel) = self.functions.cancel {
            // SAFETY: as above; Fortran's logical is an integer.
            unsafe {
                match self.fortran.get() {
                    true => {
                        let cancel = std::mem::transmute::<*const (), FortranCancel>(cancel as *const ());
                        cancel(self.extra_state, &mut complete, &mut code);
                    }
                    false => code = cancel(self.extra_state, complete),
                }
            }
        }
        returned("cancel", code)
    }

    fn speak_fortran(&self) {
        self.fortran.set(true);
    }

    fn waiter(&self) -> Option<Box<dyn FnOnce() -> Result<()>>> {
        let (wait, mut state) = (self.functions.wait?, self.extra_state);
        Some(Box::new(move || {
            // SAFETY: as above; one state, no limit of time.
            returned("wait", unsafe { wait(1, &mut state, 0.0, &mut blank()) })
        }))
    }
}

/// Makes the request; MPI calls its poll function, if it has one, until it is over.
fn start(hold: &mut Hold, functions: Functions, extra_state: *mut c_void, request: *mut MPI_Request) -> Result<()> {
    load(request, "request")?;
    let generalized = Grequest {
        functions,
        extra_state,
        fortran: Cell::new(false),
    };
    let key = hold.add_request(Request::new(Kind::Generalized(Rc::new(generalized)), None))?;
    hold.own_ways |= functions.wait.is_some();
    if let Some(poll) = functions.poll {
        // SAFETY: the program's function, with its own state.
        let poll = move || returned("poll", unsafe { poll(extra_state, &mut blank()) });
        hold.hooks.push(Hook::request(key, Box::new(poll)));
    }
    store(request, "request", Object::Request.handle(key))
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
        let functions = Functions {
            query: query_fn,
            free: free_fn,
            cancel: cancel_fn,
            poll: None,
            wait: None,
        };
        start(hold, functions, extra_state, request)
    })
}

/// Says that a generalized request is over. MPI-4.1 §13.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Grequest_complete(request: MPI_Request) -> c_int {
    on_world("MPI_Grequest_complete", |hold| {
        // The program may have let go of it.
        let key = Object::Request.key(request)?;
        Object::Request.alive(request, hold.requests.get(key))?;
        complete_generalized(hold, key)
    })
}

/// The same as MPI_Grequest_start; `poll_fn` is called whenever MPI makes progress, `wait_fn` when the
/// program waits for the request. Either ends it by MPI_Grequest_complete. MPICH's extension.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Grequest_start(
    query_fn: MPI_Grequest_query_function,
    free_fn: MPI_Grequest_free_function,
    cancel_fn: MPI_Grequest_cancel_function,
    poll_fn: MPIX_Grequest_poll_function,
    wait_fn: MPIX_Grequest_wait_function,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> c_int {
    on_world("MPIX_Grequest_start", |hold| {
        let functions = Functions {
            query: query_fn,
            free: free_fn,
            cancel: cancel_fn,
            poll: poll_fn,
            wait: wait_fn,
        };
        start(hold, functions, extra_state, request)
    })
}

/// Classes of generalized requests; nothing frees one.
static CLASSES: Mutex<Table<Functions>> = Mutex::new(Table::new());

fn classes() -> MutexGuard<'static, Table<Functions>> {
    CLASSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Names a set of call-backs, from which requests are made. MPICH's extension.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Grequest_class_create(
    query_fn: MPI_Grequest_query_function,
    free_fn: MPI_Grequest_free_function,
    cancel_fn: MPI_Grequest_cancel_function,
    poll_fn: MPIX_Grequest_poll_function,
    wait_fn: MPIX_Grequest_wait_function,
    greq_class: *mut MPIX_Grequest_class,
) -> c_int {
    on_world("MPIX_Grequest_class_create", |_| {
        load(greq_class, "greq_class")?;
        let key = classes().insert(Functions {
            query: query_fn,
            free: free_fn,
            cancel: cancel_fn,
            poll: poll_fn,
            wait: wait_fn,
        });
        store(greq_class, "greq_class", Object::Grequest.made(key)?)
    })
}

/// Starts a generalized request of a class. MPICH's extension.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Grequest_class_allocate(
    greq_class: MPIX_Grequest_class,
    extra_state: *mut c_void,
    request: *mut MPI_Request,
) -> c_int {
    on_world("MPIX_Grequest_class_allocate", |hold| {
        let key = Object::Grequest.key(greq_class)?;
        let functions = Object::Grequest.alive(greq_class, classes().get(key).copied())?;
        start(hold, functions, extra_state, request)
    })
}

/// For Fortran libraries: the call-backs of a generalized request are Fortran's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPII_Grequest_set_lang_f77(request: MPI_Request) {
    let Some(world) = current_world() else { return };
    let hold = world.hold();
    if let Ok(key) = key_of(&hold, request)
        && let Some(Kind::Generalized(generalized)) = hold.requests.get(key).map(|request| &request.kind)
    {
        generalized.speak_fortran();
    }
}

/// What a task is given: its own pointer, and a place for tasks that it spawns.
struct Task {
    extra_state: *mut c_void,
    spawned: Vec<Hook>,
}

/// A task of the program that progress calls until it says MPIX_ASYNC_DONE.
fn task(poll_fn: MPIX_Async_poll_function, extra_state: *mut c_void) -> Result<Hook> {
    let Some(poll) = poll_fn else {
        fail!(Arg, "poll_fn is a null pointer");
    };
    Ok(Hook::task(Box::new(move || {
        let mut task = Task {
            extra_state,
            spawned: Vec::new(),
        };
        // SAFETY: the program's function; it hands the pointer to the functions below, as long as it runs.
        let code = unsafe { poll((&raw mut task).cast()) };
        (code == MPIX_ASYNC_DONE, task.spawned)
    })))
}

/// Has `poll_fn` called whenever MPI makes progress, until it returns MPIX_ASYNC_DONE. MPICH's extension.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Async_start(
    poll_fn: MPIX_Async_poll_function,
    extra_state: *mut c_void,
    stream: MPIX_Stream,
) -> c_int {
    on_world("MPIX_Async_start", |hold| {
        progress::check(stream)?;
        hold.hooks.push(task(poll_fn, extra_state)?);
        Ok(())
    })
}

/// The same, from within a task. MPICH's extension.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Async_spawn(
    async_thing: MPIX_Async_thing,
    poll_fn: MPIX_Async_poll_function,
    extra_state: *mut c_void,
    stream: MPIX_Stream,
) -> c_int {
    on_world("MPIX_Async_spawn", |_| {
        progress::check(stream)?;
        if async_thing.is_null() {
            fail!(Arg, "async_thing is a null pointer");
        }
        let task = task(poll_fn, extra_state)?;
        // SAFETY: the pointer that `task` handed to the program's function, which is running.
        unsafe { (*async_thing.cast::<Task>()).spawned.push(task) };
        Ok(())
    })
}

/// The pointer a task was started with. MPICH's extension.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Async_get_state(async_thing: MPIX_Async_thing) -> *mut c_void {
    if async_thing.is_null() {
        return null_mut();
    }
    // SAFETY: as in MPIX_Async_spawn.
    unsafe { (*async_thing.cast::<Task>()).extra_state }
}
