//! # Safety
//! Exports variables that executables and the Fortran libraries read and write: relies on them
//! writing addresses of their own objects only. Converts statuses of the application.
//!
//! What other languages need: data symbols, handle and status conversion (MPI-4.1 §19.3).
//!
//! The Fortran library built for MPICH sets the `MPI_F_*` pointers itself when it starts and
//! translates Fortran's special addresses before it calls us, so nothing here reads them but the
//! conversion of statuses.
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::errhandler::pass_on;
use super::file;
use super::types::*;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{addr_of, addr_of_mut, null, null_mut};

/// A pointer that never changes, shared with C.
#[repr(transparent)]
pub struct Fixed<T>(pub(super) *const T);
// SAFETY: the pointer is never written, what it points to is never read.
unsafe impl<T> Sync for Fixed<T> {}

static UNWEIGHTED: c_int = 0;
static WEIGHTS_EMPTY: c_int = 0;
static ALL_HANDLES: c_int = 0;

/// The value of [`MPI_UNWEIGHTED`] for MPICH's `mpi_f08` module, set by [`begin`].
#[unsafe(no_mangle)]
pub static mut MPIR_C_MPI_UNWEIGHTED: *const c_int = null();
/// The value of [`MPI_WEIGHTS_EMPTY`] for MPICH's `mpi_f08` module, set by [`begin`].
#[unsafe(no_mangle)]
pub static mut MPIR_C_MPI_WEIGHTS_EMPTY: *const c_int = null();

/// Tells MPICH's Fortran library the addresses that only this library knows. It has such variables itself, and the
/// dynamic linker takes the first of a name: they have to be set, as MPICH does.
pub fn begin() {
    // SAFETY: pointers that nothing else writes, set before the program is told that the library has started.
    unsafe {
        MPIR_C_MPI_UNWEIGHTED = MPI_UNWEIGHTED.0;
        MPIR_C_MPI_WEIGHTS_EMPTY = MPI_WEIGHTS_EMPTY.0;
    }
}

/// "No weights" (MPI-4.1 §8.5.4): an address that no array of the program has.
#[unsafe(no_mangle)]
pub static MPI_UNWEIGHTED: Fixed<c_int> = Fixed(&raw const UNWEIGHTED);
/// "No neighbours, hence no weights" (MPI-4.1 §8.5.4).
#[unsafe(no_mangle)]
pub static MPI_WEIGHTS_EMPTY: Fixed<c_int> = Fixed(&raw const WEIGHTS_EMPTY);
/// Every performance variable of a session (MPI-4.1 §15.3.7).
#[unsafe(no_mangle)]
pub static MPI_T_PVAR_ALL_HANDLES: Fixed<c_int> = Fixed(&raw const ALL_HANDLES);

/// Fortran's `MPI_STATUS_IGNORE`, set by the Fortran library.
#[unsafe(no_mangle)]
pub static mut MPI_F_STATUS_IGNORE: *mut MPI_Fint = null_mut();
/// Fortran's `MPI_STATUSES_IGNORE`, set by the Fortran library.
#[unsafe(no_mangle)]
pub static mut MPI_F_STATUSES_IGNORE: *mut MPI_Fint = null_mut();
/// The object whose address is `mpi_f08`'s `MPI_STATUS_IGNORE`.
#[unsafe(no_mangle)]
pub static mut MPIR_F08_MPI_STATUS_IGNORE_OBJ: MPI_F08_status = EMPTY;
/// The object whose address is `mpi_f08`'s `MPI_STATUSES_IGNORE`.
#[unsafe(no_mangle)]
pub static mut MPIR_F08_MPI_STATUSES_IGNORE_OBJ: MPI_F08_status = EMPTY;
/// `MPI_STATUS_IGNORE` of `mpi_f08`.
#[unsafe(no_mangle)]
pub static mut MPI_F08_STATUS_IGNORE: *mut MPI_F08_status = &raw mut MPIR_F08_MPI_STATUS_IGNORE_OBJ;
/// `MPI_STATUSES_IGNORE` of `mpi_f08`.
#[unsafe(no_mangle)]
pub static mut MPI_F08_STATUSES_IGNORE: *mut MPI_F08_status = &raw mut MPIR_F08_MPI_STATUSES_IGNORE_OBJ;

const EMPTY: MPI_F08_status = MPI_Status {
    count_lo: 0,
    count_hi_and_cancelled: 0,
    MPI_SOURCE: 0,
    MPI_TAG: 0,
    MPI_ERROR: 0,
};

/// `.TRUE.` as the Fortran compiler stores it.
#[unsafe(no_mangle)]
pub static mut MPIR_fortran_true: MPI_Fint = 1;
/// `.FALSE.` as the Fortran compiler stores it.
#[unsafe(no_mangle)]
pub static mut MPIR_fortran_false: MPI_Fint = 0;
macro_rules! fortran_objects {
    ($($name:ident)*) => {$(
        /// An object whose address means something to the `mpi_f08` module of MPICH 4.0.
        #[unsafe(no_mangle)]
        pub static mut $name: c_int = 0;
    )*};
}
fortran_objects! {
    MPIR_F08_MPI_BOTTOM
    MPIR_F08_MPI_IN_PLACE
}

/// `MPI_*_DUP_FN`: copies the attribute.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Dup_fn(
    oldcomm: MPI_Comm,
    keyval: c_int,
    extra_state: *mut c_void,
    attribute_val_in: *mut c_void,
    attribute_val_out: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    let _ = (oldcomm, keyval, extra_state);
    // SAFETY: the arguments of an attribute copy function (MPI-4.1 §7.7.2).
    unsafe {
        *flag = 1;
        *attribute_val_out.cast() = attribute_val_in;
    }
    MPI_SUCCESS
}

/// Copies a status, which looks the same in every language; the ignore values are refused.
fn convert(name: &'static str, from: *const MPI_Status, to: *mut MPI_Status) -> c_int {
    on_any(name, || {
        // SAFETY: plain reads of our own variables, which the Fortran library sets once.
        let ignored = unsafe {
            [
                MPI_STATUS_IGNORE,
                addr_of!(MPI_F_STATUS_IGNORE).read().cast(),
                addr_of!(MPI_F_STATUSES_IGNORE).read().cast(),
                addr_of_mut!(MPIR_F08_MPI_STATUS_IGNORE_OBJ),
                addr_of_mut!(MPIR_F08_MPI_STATUSES_IGNORE_OBJ),
            ]
        };
        if !from.is_null() && ignored.contains(&from.cast_mut()) {
            crate::fail!(Arg, "a status to be ignored cannot be converted");
        }
        let status = load(from, "status")?;
        store(to, "status", status)
    })
}

/// The Fortran handle of a file. MPI-4.1 §19.3.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_c2f(file: MPI_File) -> MPI_Fint {
    file::number(file).unwrap_or(0)
}

/// The file of a Fortran handle. MPI-4.1 §19.3.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_f2c(file: MPI_Fint) -> MPI_File {
    file::of_number(file)
}

/// For Fortran libraries: raises `errcode` where no valid object is known.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Err_return_comm(object: *mut c_void, fcname: *const c_char, errcode: c_int) -> c_int {
    pass_on(object, fcname, errcode)
}

/// As [`MPIR_Err_return_comm`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Err_return_comm_create_from_group(
    object: *mut c_void,
    fcname: *const c_char,
    errcode: c_int,
) -> c_int {
    pass_on(object, fcname, errcode)
}

/// As [`MPIR_Err_return_comm`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Err_return_group(object: *mut c_void, fcname: *const c_char, errcode: c_int) -> c_int {
    pass_on(object, fcname, errcode)
}

/// As [`MPIR_Err_return_comm`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Err_return_session(object: *mut c_void, fcname: *const c_char, errcode: c_int) -> c_int {
    pass_on(object, fcname, errcode)
}

/// As [`MPIR_Err_return_comm`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Err_return_session_init(
    object: *mut c_void,
    fcname: *const c_char,
    errcode: c_int,
) -> c_int {
    pass_on(object, fcname, errcode)
}

/// As [`MPIR_Err_return_comm`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Err_return_win(object: *mut c_void, fcname: *const c_char, errcode: c_int) -> c_int {
    pass_on(object, fcname, errcode)
}

/// The Fortran handle of `comm`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_c2f(comm: MPI_Comm) -> MPI_Fint {
    comm
}

/// The C handle of `comm`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_f2c(comm: MPI_Fint) -> MPI_Comm {
    comm
}

/// The Fortran handle of `datatype`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_c2f(datatype: MPI_Datatype) -> MPI_Fint {
    datatype
}

/// The C handle of `datatype`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_f2c(datatype: MPI_Fint) -> MPI_Datatype {
    datatype
}

/// The Fortran handle of `group`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_c2f(group: MPI_Group) -> MPI_Fint {
    group
}

/// The C handle of `group`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_f2c(group: MPI_Fint) -> MPI_Group {
    group
}

/// The Fortran handle of `info`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_c2f(info: MPI_Info) -> MPI_Fint {
    info
}

/// The C handle of `info`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_f2c(info: MPI_Fint) -> MPI_Info {
    info
}

/// The Fortran handle of `request`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_c2f(request: MPI_Request) -> MPI_Fint {
    request
}

/// The C handle of `request`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_f2c(request: MPI_Fint) -> MPI_Request {
    request
}

/// The Fortran handle of `op`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Op_c2f(op: MPI_Op) -> MPI_Fint {
    op
}

/// The C handle of `op`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Op_f2c(op: MPI_Fint) -> MPI_Op {
    op
}

/// The Fortran handle of `errhandler`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Errhandler_c2f(errhandler: MPI_Errhandler) -> MPI_Fint {
    errhandler
}

/// The C handle of `errhandler`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Errhandler_f2c(errhandler: MPI_Fint) -> MPI_Errhandler {
    errhandler
}

/// The Fortran handle of `win`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_c2f(win: MPI_Win) -> MPI_Fint {
    win
}

/// The C handle of `win`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_f2c(win: MPI_Fint) -> MPI_Win {
    win
}

/// The Fortran handle of `message`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Message_c2f(message: MPI_Message) -> MPI_Fint {
    message
}

/// The C handle of `message`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Message_f2c(message: MPI_Fint) -> MPI_Message {
    message
}

/// The Fortran handle of `session`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_c2f(session: MPI_Session) -> MPI_Fint {
    session
}

/// The C handle of `session`: the same number.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_f2c(session: MPI_Fint) -> MPI_Session {
    session
}

/// A C status as Fortran's array. MPI-4.1 §19.3.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_c2f(c_status: *const MPI_Status, f_status: *mut MPI_Fint) -> c_int {
    convert("MPI_Status_c2f", c_status.cast(), f_status.cast())
}

/// Fortran's status array as a C status. MPI-4.1 §19.3.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_f2c(f_status: *const MPI_Fint, c_status: *mut MPI_Status) -> c_int {
    convert("MPI_Status_f2c", f_status.cast(), c_status.cast())
}

/// A C status as one of `mpi_f08`. MPI-4.1 §19.3.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_c2f08(c_status: *const MPI_Status, f08_status: *mut MPI_F08_status) -> c_int {
    convert("MPI_Status_c2f08", c_status.cast(), f08_status.cast())
}

/// A status of `mpi_f08` as a C status. MPI-4.1 §19.3.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_f082c(f08_status: *const MPI_F08_status, c_status: *mut MPI_Status) -> c_int {
    convert("MPI_Status_f082c", f08_status.cast(), c_status.cast())
}

/// Fortran's status array as one of `mpi_f08`. MPI-4.1 §19.3.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_f2f08(f_status: *const MPI_Fint, f08_status: *mut MPI_F08_status) -> c_int {
    convert("MPI_Status_f2f08", f_status.cast(), f08_status.cast())
}

/// A status of `mpi_f08` as Fortran's array. MPI-4.1 §19.3.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_f082f(f08_status: *const MPI_F08_status, f_status: *mut MPI_Fint) -> c_int {
    convert("MPI_Status_f082f", f08_status.cast(), f_status.cast())
}

/// The number of a file's handle (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_toint(file: MPI_File) -> c_int {
    file::number(file).unwrap_or(0)
}

/// The file of a number (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_fromint(file: c_int) -> MPI_File {
    file::of_number(file)
}

/// The number of a handle: the handle itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_toint(comm: MPI_Comm) -> c_int {
    comm
}

/// The handle of a number: the number itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_fromint(comm: c_int) -> MPI_Comm {
    comm
}

/// The number of a handle: the handle itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_toint(datatype: MPI_Datatype) -> c_int {
    datatype
}

/// The handle of a number: the number itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_fromint(datatype: c_int) -> MPI_Datatype {
    datatype
}

/// The number of a handle: the handle itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_toint(group: MPI_Group) -> c_int {
    group
}

/// The handle of a number: the number itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_fromint(group: c_int) -> MPI_Group {
    group
}

/// The number of a handle: the handle itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_toint(info: MPI_Info) -> c_int {
    info
}

/// The handle of a number: the number itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_fromint(info: c_int) -> MPI_Info {
    info
}

/// The number of a handle: the handle itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_toint(request: MPI_Request) -> c_int {
    request
}

/// The handle of a number: the number itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Request_fromint(request: c_int) -> MPI_Request {
    request
}

/// The number of a handle: the handle itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Op_toint(op: MPI_Op) -> c_int {
    op
}

/// The handle of a number: the number itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Op_fromint(op: c_int) -> MPI_Op {
    op
}

/// The number of a handle: the handle itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Errhandler_toint(errhandler: MPI_Errhandler) -> c_int {
    errhandler
}

/// The handle of a number: the number itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Errhandler_fromint(errhandler: c_int) -> MPI_Errhandler {
    errhandler
}

/// The number of a handle: the handle itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_toint(win: MPI_Win) -> c_int {
    win
}

/// The handle of a number: the number itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_fromint(win: c_int) -> MPI_Win {
    win
}

/// The number of a handle: the handle itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Message_toint(message: MPI_Message) -> c_int {
    message
}

/// The handle of a number: the number itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Message_fromint(message: c_int) -> MPI_Message {
    message
}

/// The number of a handle: the handle itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_toint(session: MPI_Session) -> c_int {
    session
}

/// The handle of a number: the number itself (MPI-5.0 §20.3.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_fromint(session: c_int) -> MPI_Session {
    session
}
