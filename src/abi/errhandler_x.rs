//! # Safety
//! Keeps the program's error handling functions with a pointer of its own: relies on their types.
//!
//! MPICH's extension of MPI-4.1 §9.3: error handlers that are given a pointer of the program, which is
//! told when the last object has let the handler go. And the names that MPICH 4.0 had for MPI-4.1 §9.5.
#![allow(unsafe_code)]

use super::edge::*;
use super::errhandler::{FileStateFunction, StateFunction, errors, give_handler};
use super::types::*;
use crate::fail;
use crate::mpi::errhandler::{Function, Target};
use std::ffi::{c_int, c_void};
use std::mem::transmute;

fn create(
    target: Target,
    function: Option<StateFunction>,
    destructor: MPIX_Destructor_function,
    extra_state: *mut c_void,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    let Some(function) = function else {
        fail!(Arg, "the error handling function is a null pointer");
    };
    let state = extra_state.expose_provenance();
    let gone = destructor.map(|destructor| -> Box<dyn FnMut() + Send + Sync> {
        // SAFETY: the program's function, with its own pointer, once.
        Box::new(move || unsafe { destructor(std::ptr::with_exposed_provenance_mut(state)) })
    });
    give_handler(target, Function::State(function, state), gone, errhandler)
}

/// Creates an error handler for communicators; `destructor_fn` must not call MPI. MPICH's extension.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Comm_create_errhandler_x(
    comm_errhandler_fn_x: MPIX_Comm_errhandler_function_x,
    destructor_fn: MPIX_Destructor_function,
    extra_state: *mut c_void,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    on_any("MPIX_Comm_create_errhandler_x", || {
        create(
            Target::Comm,
            comm_errhandler_fn_x,
            destructor_fn,
            extra_state,
            errhandler,
        )
    })
}

/// Creates an error handler for windows; `destructor_fn` must not call MPI. MPICH's extension.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Win_create_errhandler_x(
    comm_errhandler_fn_x: MPIX_Win_errhandler_function_x,
    destructor_fn: MPIX_Destructor_function,
    extra_state: *mut c_void,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    on_any("MPIX_Win_create_errhandler_x", || {
        create(
            Target::Win,
            comm_errhandler_fn_x,
            destructor_fn,
            extra_state,
            errhandler,
        )
    })
}

/// Creates an error handler for files; `destructor_fn` must not call MPI. MPICH's extension.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_File_create_errhandler_x(
    comm_errhandler_fn_x: MPIX_File_errhandler_function_x,
    destructor_fn: MPIX_Destructor_function,
    extra_state: *mut c_void,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    on_any("MPIX_File_create_errhandler_x", || {
        // SAFETY: differs in the type of the first argument only; the function is called with a file.
        let function =
            comm_errhandler_fn_x.map(|function| unsafe { transmute::<FileStateFunction, StateFunction>(function) });
        create(Target::File, function, destructor_fn, extra_state, errhandler)
    })
}

/// Creates an error handler for sessions; `destructor_fn` must not call MPI. MPICH's extension.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Session_create_errhandler_x(
    comm_errhandler_fn_x: MPIX_Session_errhandler_function_x,
    destructor_fn: MPIX_Destructor_function,
    extra_state: *mut c_void,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    on_any("MPIX_Session_create_errhandler_x", || {
        create(
            Target::Session,
            comm_errhandler_fn_x,
            destructor_fn,
            extra_state,
            errhandler,
        )
    })
}

/// What MPICH 4.0 calls [`MPI_Remove_error_class`].
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Delete_error_class(errorclass: c_int) -> c_int {
    on_any("MPIX_Delete_error_class", || errors().remove_class(errorclass))
}

/// What MPICH 4.0 calls [`MPI_Remove_error_code`].
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Delete_error_code(errorcode: c_int) -> c_int {
    on_any("MPIX_Delete_error_code", || errors().remove_code(errorcode))
}

/// What MPICH 4.0 calls [`MPI_Remove_error_string`].
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Delete_error_string(errorcode: c_int) -> c_int {
    on_any("MPIX_Delete_error_string", || errors().remove_string(errorcode))
}
