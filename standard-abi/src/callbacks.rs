//! Functions of the program that the library calls: they are given handles and numbers of the standard's ABI.
//!
//! What the library hands on to a call-back leads to the program's function.

use crate::status::{MpichStatus, Status};
use crate::values::*;
use crate::{Pointer, apply, call, translation};
use std::ffi::{c_char, c_int};
use std::mem::transmute;
use std::ptr::null_mut;

// Operations.

type Operation = unsafe extern "C" fn(Pointer, Pointer, *mut c_int, *mut Handle);
type LargeOperation = unsafe extern "C" fn(Pointer, Pointer, *mut i64, *mut Handle);
type MpichOperation = unsafe extern "C" fn(Pointer, Pointer, i64, c_int, Pointer);

/// Calls the operation of `MPI_Op_create`, in pieces that an `int` can count.
unsafe extern "C" fn operate(invec: Pointer, inoutvec: Pointer, count: i64, datatype: c_int, function: Pointer) {
    // SAFETY: the program's function, which `MPI_Op_create` has handed on.
    let function = unsafe { transmute::<Pointer, Operation>(function) };
    let (mut lb, mut extent, mut done) = (0, 0, 0);
    if count > i64::from(c_int::MAX) {
        let ask = call!(MPI_Type_get_extent: fn(c_int, *mut isize, *mut isize) -> c_int);
        // SAFETY: it sets two numbers.
        unsafe { ask(datatype, &raw mut lb, &raw mut extent) };
    }
    while done < count {
        let mut piece = c_int::try_from(count - done).unwrap_or(c_int::MAX);
        let (offset, mut datatype) = (done as isize * extent, standard(datatype));
        done += i64::from(piece);
        // SAFETY: as the library calls us: so many elements lie there.
        unsafe {
            function(
                invec.byte_offset(offset),
                inoutvec.byte_offset(offset),
                &raw mut piece,
                &raw mut datatype,
            )
        };
    }
}

/// Calls the operation of `MPI_Op_create_c`.
unsafe extern "C" fn operate_large(invec: Pointer, inoutvec: Pointer, count: i64, datatype: c_int, function: Pointer) {
    let (mut count, mut datatype) = (count, standard(datatype));
    // SAFETY: the program's function, which `MPI_Op_create_c` has handed on, called as the library calls us.
    unsafe { transmute::<Pointer, LargeOperation>(function)(invec, inoutvec, &raw mut count, &raw mut datatype) }
}

/// Makes an operation.
unsafe fn create(call: MpichOperation, function: Pointer, commute: c_int, op: *mut Handle) -> c_int {
    let mut op = Slot::empty(op);
    let call = Some(call).filter(|_| !function.is_null());
    let create = call!(MPIX_Op_create_x: fn(Option<MpichOperation>, Pointer, c_int, Pointer, *mut c_int) -> c_int);
    // SAFETY: the caller's.
    unsafe {
        let code = create(call, null_mut(), commute, function, op.pointer());
        op.give(standard);
        standard_code(code)
    }
}

#[apply(translation!)]
pub unsafe extern "C" fn MPI_Op_create(user_fn: Pointer, commute: c_int, op: *mut Handle) -> c_int {
    create(operate, user_fn, commute, op)
}

#[apply(translation!)]
pub unsafe extern "C" fn MPI_Op_create_c(user_fn: Pointer, commute: c_int, op: *mut Handle) -> c_int {
    create(operate_large, user_fn, commute, op)
}

// Error handlers.

type Handler = unsafe extern "C" fn(Pointer, *mut c_int, ...);

/// Calls an error handler of the program, which may put another code in place of the error's.
unsafe extern "C" fn handle(object: *mut c_int, code: *mut c_int, function: Pointer) {
    // SAFETY: the library gives places of both.
    let (mut handle, mut own) = unsafe { (standard(*object), standard_code(*code)) };
    // SAFETY: the program's function, which was handed on when the handler was made.
    unsafe {
        transmute::<Pointer, Handler>(function)((&raw mut handle).cast(), &raw mut own);
        *code = mpich_code(own);
    }
}

/// Calls one for files, the handles of which are longer.
unsafe extern "C" fn handle_file(file: *mut c_int, code: *mut c_int, function: Pointer) {
    // SAFETY: as above.
    let (mut handle, mut own) = unsafe { (standard_file(*file.cast::<Pointer>()), standard_code(*code)) };
    // SAFETY: as above.
    unsafe {
        transmute::<Pointer, Handler>(function)((&raw mut handle).cast(), &raw mut own);
        *code = mpich_code(own);
    }
}

/// Makes the functions that make error handlers, for the kinds of objects that the library gives these numbers.
macro_rules! error_handlers {
    ($($name:ident: $kind:literal, $handle:ident;)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $name(errhandler_fn: Pointer, errhandler: *mut Handle) -> c_int {
            type Call = unsafe extern "C" fn(*mut c_int, *mut c_int, Pointer);
            let mut errhandler = Slot::empty(errhandler);
            let create = call!(nearmpi_create_errhandler: fn(c_int, Call, Pointer, *mut c_int) -> c_int);
            let code = create($kind, $handle, errhandler_fn, errhandler.pointer());
            errhandler.give(standard);
            standard_code(code)
        }
    )*};
}
error_handlers! {
    MPI_Comm_create_errhandler: 0, handle;
    MPI_Win_create_errhandler: 1, handle;
    MPI_File_create_errhandler: 2, handle_file;
    MPI_Session_create_errhandler: 3, handle;
}

// Attributes. The library hands the program's function on to a proxy, which MPICH has for other languages.

type Copy = unsafe extern "C" fn(Handle, c_int, Pointer, Pointer, *mut Pointer, *mut c_int) -> c_int;
type Delete = unsafe extern "C" fn(Handle, c_int, Pointer, Pointer) -> c_int;
type CopyProxy =
    unsafe extern "C" fn(Pointer, c_int, c_int, Pointer, c_int, Pointer, *mut Pointer, *mut c_int) -> c_int;
type DeleteProxy = unsafe extern "C" fn(Pointer, c_int, c_int, c_int, Pointer, Pointer) -> c_int;

/// `MPI_COMM_DUP_FN` and the like.
const DUP_FN: usize = 1;

/// Calls the program's copy function. How the value was given does not matter: it is C's.
unsafe extern "C" fn copy(
    function: Pointer,
    object: c_int,
    keyval: c_int,
    extra_state: Pointer,
    _form: c_int,
    value: Pointer,
    new: *mut Pointer,
    flag: *mut c_int,
) -> c_int {
    // SAFETY: the program's function; the library gives places for a value and a number.
    unsafe {
        if function.addr() == DUP_FN {
            (*new, *flag) = (value, 1);
            return 0;
        }
        let copy = transmute::<Pointer, Copy>(function);
        let keyval = KEYVALS.standard(keyval);
        mpich_code(copy(standard(object), keyval, extra_state, value, new, flag))
    }
}

/// Calls the program's delete function.
unsafe extern "C" fn delete(
    function: Pointer,
    object: c_int,
    keyval: c_int,
    _form: c_int,
    value: Pointer,
    extra_state: Pointer,
) -> c_int {
    // SAFETY: the program's function.
    let delete = unsafe { transmute::<Pointer, Delete>(function) };
    let keyval = KEYVALS.standard(keyval);
    // SAFETY: as the library calls us.
    mpich_code(unsafe { delete(standard(object), keyval, value, extra_state) })
}

/// Makes the functions that make attribute keys, and those that free them.
macro_rules! keys {
    ($($create:ident $free:ident)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $create(
            copy_fn: Pointer, delete_fn: Pointer, keyval: *mut c_int, extra_state: Pointer,
        ) -> c_int {
            let create = call!($create: fn(Pointer, Pointer, *mut c_int, Pointer) -> c_int);
            let code = create(copy_fn, delete_fn, keyval, extra_state);
            if code == 0 {
                call!(MPII_Keyval_set_proxy: fn(c_int, CopyProxy, DeleteProxy) -> ())(*keyval, copy, delete);
            }
            standard_code(code)
        }
        #[apply(translation!)]
        pub unsafe extern "C" fn $free(keyval: *mut c_int) -> c_int {
            let free = call!($free: fn(*mut c_int) -> c_int);
            if keyval.is_null() {
                return standard_code(free(keyval));
            }
            let mut own = KEYVALS.mpich(*keyval);
            let code = free(&raw mut own);
            *keyval = KEYVALS.standard(own);
            standard_code(code)
        }
    )*};
}
keys! {
    MPI_Comm_create_keyval MPI_Comm_free_keyval
    MPI_Type_create_keyval MPI_Type_free_keyval
    MPI_Win_create_keyval MPI_Win_free_keyval
    MPI_Keyval_create MPI_Keyval_free
}

// Generalized requests.

type Query = unsafe extern "C" fn(Pointer, *mut Status) -> c_int;
type Free = unsafe extern "C" fn(Pointer) -> c_int;
type Cancel = unsafe extern "C" fn(Pointer, c_int) -> c_int;
type MpichQuery = unsafe extern "C" fn(Pointer, *mut MpichStatus) -> c_int;

/// What a generalized request's call-backs need: the program's functions that there are, and its pointer.
struct Generalized {
    query: Option<Query>,
    free: Option<Free>,
    cancel: Option<Cancel>,
    extra_state: Pointer,
}

/// Calls the program's query function, which fills a status of the standard's ABI.
unsafe extern "C" fn query(request: Pointer, status: *mut MpichStatus) -> c_int {
    // SAFETY: `MPI_Grequest_start` has handed this on; the library gives a status.
    unsafe {
        let request = &*request.cast::<Generalized>();
        let mut own = Status::default();
        own.take(&*status);
        let code = request
            .query
            .map_or(0, |query| query(request.extra_state, &raw mut own));
        let error = (*status).error;
        *status = MpichStatus { error, ..own.mpich() };
        mpich_code(code)
    }
}

/// Calls the program's free function. The library calls this last.
unsafe extern "C" fn free(request: Pointer) -> c_int {
    // SAFETY: as above.
    unsafe {
        let request = Box::from_raw(request.cast::<Generalized>());
        mpich_code(request.free.map_or(0, |free| free(request.extra_state)))
    }
}

/// Calls the program's cancel function.
unsafe extern "C" fn cancel(request: Pointer, complete: c_int) -> c_int {
    // SAFETY: as above.
    unsafe {
        let request = &*request.cast::<Generalized>();
        mpich_code(request.cancel.map_or(0, |cancel| cancel(request.extra_state, complete)))
    }
}

#[apply(translation!)]
pub unsafe extern "C" fn MPI_Grequest_start(
    query_fn: Option<Query>,
    free_fn: Option<Free>,
    cancel_fn: Option<Cancel>,
    extra_state: Pointer,
    request: *mut Handle,
) -> c_int {
    let own = Box::into_raw(Box::new(Generalized {
        query: query_fn,
        free: free_fn,
        cancel: cancel_fn,
        extra_state,
    }));
    let mut request = Slot::empty(request);
    let start =
        call!(MPI_Grequest_start: fn(Option<MpichQuery>, Option<Free>, Option<Cancel>, Pointer, *mut c_int) -> c_int);
    let (query, cancel): (Option<MpichQuery>, Option<Cancel>) =
        (query_fn.map(|_| query as _), cancel_fn.map(|_| cancel as _));
    let code = start(query, Some(free), cancel, own.cast(), request.pointer());
    if code != 0 {
        drop(Box::from_raw(own));
    }
    request.give(standard);
    standard_code(code)
}

// Data representations of files.

type Extent = unsafe extern "C" fn(Handle, *mut isize, Pointer) -> c_int;
type MpichExtent = unsafe extern "C" fn(c_int, *mut isize, Pointer) -> c_int;

/// What a data representation's call-backs need, as long as the process lives.
struct Representation {
    read: Pointer,
    write: Pointer,
    extent: Pointer,
    extra_state: Pointer,
}

unsafe extern "C" fn extent(datatype: c_int, extent: *mut isize, representation: Pointer) -> c_int {
    // SAFETY: `MPI_Register_datarep` has handed this on.
    unsafe {
        let representation = &*representation.cast::<Representation>();
        let function = transmute::<Pointer, Extent>(representation.extent);
        mpich_code(function(standard(datatype), extent, representation.extra_state))
    }
}

/// Makes the functions that register a data representation, and what calls its conversions.
macro_rules! representations {
    ($($name:ident, $count:ty, $read:ident, $write:ident;)*) => {$(
        unsafe extern "C" fn $read(user: Pointer, datatype: c_int, count: $count, file: Pointer, at: i64, state: Pointer) -> c_int {
            // SAFETY: as above.
            unsafe {
                let state = &*state.cast::<Representation>();
                type Convert = unsafe extern "C" fn(Pointer, Handle, $count, Pointer, i64, Pointer) -> c_int;
                let read = transmute::<Pointer, Convert>(state.read);
                mpich_code(read(user, standard(datatype), count, file, at, state.extra_state))
            }
        }
        unsafe extern "C" fn $write(user: Pointer, datatype: c_int, count: $count, file: Pointer, at: i64, state: Pointer) -> c_int {
            // SAFETY: as above.
            unsafe {
                let state = &*state.cast::<Representation>();
                type Convert = unsafe extern "C" fn(Pointer, Handle, $count, Pointer, i64, Pointer) -> c_int;
                let write = transmute::<Pointer, Convert>(state.write);
                mpich_code(write(user, standard(datatype), count, file, at, state.extra_state))
            }
        }
        #[apply(translation!)]
        pub unsafe extern "C" fn $name(
            datarep: *const c_char, read_conversion_fn: Pointer, write_conversion_fn: Pointer, dtype_file_extent_fn: Pointer,
            extra_state: Pointer,
        ) -> c_int {
            type Convert = unsafe extern "C" fn(Pointer, c_int, $count, Pointer, i64, Pointer) -> c_int;
            let (read, write, extent_fn) = (read_conversion_fn, write_conversion_fn, dtype_file_extent_fn);
            let state = Box::new(Representation { read, write, extent: extent_fn, extra_state });
            let register = call!($name: fn(*const c_char, Option<Convert>, Option<Convert>, Option<MpichExtent>, Pointer) -> c_int);
            let read: Option<Convert> = if read.is_null() { None } else { Some($read) };
            let write: Option<Convert> = if write.is_null() { None } else { Some($write) };
            let extent: Option<MpichExtent> = if extent_fn.is_null() { None } else { Some(extent) };
            standard_code(register(datarep, read, write, extent, Box::into_raw(state).cast()))
        }
    )*};
}
representations! {
    MPI_Register_datarep, c_int, read, write;
    MPI_Register_datarep_c, i64, read_large, write_large;
}
