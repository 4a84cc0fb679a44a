//! C types of the MPICH ABI, under the standard's names.
//!
//! Handles are 32-bit integers; files and tool handles are pointers. The aliases [`Count`],
//! [`Displ`] and [`TypeDispl`] mark the parameters that are wider in a function's `_c` form.
#![allow(missing_docs)]

use std::ffi::{c_int, c_long, c_longlong, c_void};

pub type MPI_Comm = c_int;
pub type MPI_Group = c_int;
pub type MPI_Datatype = c_int;
pub type MPI_Op = c_int;
pub type MPI_Win = c_int;
pub type MPI_Info = c_int;
pub type MPI_Request = c_int;
pub type MPI_Message = c_int;
pub type MPI_Errhandler = c_int;
pub type MPI_Session = c_int;
pub type MPIX_Stream = c_int;
pub type MPIX_Grequest_class = c_int;
pub type MPI_Fint = c_int;
pub type MPI_Aint = c_long;
pub type MPI_Count = c_longlong;
pub type MPI_Offset = c_longlong;

/// A count that is `MPI_Count` in the function's `_c` form.
pub type Count = c_int;
/// A displacement in elements that is `MPI_Aint` in the function's `_c` form.
pub type Displ = c_int;
/// A displacement in bytes that is `MPI_Count` in the function's `_c` form.
pub type TypeDispl = MPI_Aint;

macro_rules! opaque {
    ($($name:ident = $object:ident;)*) => {$(
        /// What the handle points to; nobody outside looks inside.
        #[repr(C)]
        pub struct $object {
            opaque: [u8; 0],
        }
        pub type $name = *mut $object;
    )*};
}
opaque! {
    MPI_File = ADIOI_FileD;
    MPI_T_enum = MPIR_T_enum_s;
    MPI_T_cvar_handle = MPIR_T_cvar_handle_s;
    MPI_T_pvar_handle = MPIR_T_pvar_handle_s;
    MPI_T_pvar_session = MPIR_T_pvar_session_s;
    MPI_T_event_registration = MPIR_T_event_registration_s;
    MPI_T_event_instance = MPIR_T_event_instance_s;
    MPIX_Async_thing = MPIR_Async_thing;
}
pub type MPI_T_cb_safety = c_int;
pub type MPI_T_source_order = c_int;

/// The status of the MPICH ABI: the byte count has 63 bits, the lowest bit of the second word says
/// "cancelled".
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MPI_Status {
    pub count_lo: c_int,
    pub count_hi_and_cancelled: c_int,
    pub MPI_SOURCE: c_int,
    pub MPI_TAG: c_int,
    pub MPI_ERROR: c_int,
}

/// The status of Fortran's `mpi_f08`; laid out like [`MPI_Status`].
pub type MPI_F08_status = MPI_Status;

/// One piece of memory of a datatype (`struct iovec`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MPIX_Iov {
    pub iov_base: *mut c_void,
    pub iov_len: MPI_Aint,
}

const _: () = {
    assert!(size_of::<MPI_Status>() == 20 && align_of::<MPI_Status>() == 4);
    assert!(std::mem::offset_of!(MPI_Status, MPI_SOURCE) == 8);
    assert!(size_of::<MPI_Aint>() == 8 && size_of::<MPI_Count>() == 8 && size_of::<MPI_File>() == 8);
};

// Call-backs: each alias is the nullable pointer to the function type that C knows by this name.
pub type MPI_Comm_errhandler_function = Option<unsafe extern "C" fn(*mut MPI_Comm, *mut c_int, ...)>;
pub type MPI_Win_errhandler_function = Option<unsafe extern "C" fn(*mut MPI_Win, *mut c_int, ...)>;
pub type MPI_File_errhandler_function = Option<unsafe extern "C" fn(*mut MPI_File, *mut c_int, ...)>;
pub type MPI_Session_errhandler_function = Option<unsafe extern "C" fn(*mut MPI_Session, *mut c_int, ...)>;
pub type MPIX_Comm_errhandler_function_x = Option<unsafe extern "C" fn(MPI_Comm, c_int, *mut c_void)>;
pub type MPIX_Win_errhandler_function_x = Option<unsafe extern "C" fn(MPI_Win, c_int, *mut c_void)>;
pub type MPIX_File_errhandler_function_x = Option<unsafe extern "C" fn(MPI_File, c_int, *mut c_void)>;
pub type MPIX_Session_errhandler_function_x = Option<unsafe extern "C" fn(MPI_Session, c_int, *mut c_void)>;
pub type MPIX_Destructor_function = Option<unsafe extern "C" fn(*mut c_void)>;

macro_rules! attribute_functions {
    ($($copy:ident, $delete:ident: $handle:ident;)*) => {$(
        pub type $copy =
            Option<unsafe extern "C" fn($handle, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int>;
        pub type $delete = Option<unsafe extern "C" fn($handle, c_int, *mut c_void, *mut c_void) -> c_int>;
    )*};
}
attribute_functions! {
    MPI_Copy_function, MPI_Delete_function: MPI_Comm;
    MPI_Comm_copy_attr_function, MPI_Comm_delete_attr_function: MPI_Comm;
    MPI_Type_copy_attr_function, MPI_Type_delete_attr_function: MPI_Datatype;
    MPI_Win_copy_attr_function, MPI_Win_delete_attr_function: MPI_Win;
}

pub type MPI_User_function = Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut MPI_Datatype)>;
pub type MPI_User_function_c =
    Option<unsafe extern "C" fn(*mut c_void, *mut c_void, *mut MPI_Count, *mut MPI_Datatype)>;
pub type MPIX_User_function_x =
    Option<unsafe extern "C" fn(*mut c_void, *mut c_void, MPI_Count, MPI_Datatype, *mut c_void)>;
pub type MPI_Grequest_query_function = Option<unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int>;
pub type MPI_Grequest_free_function = Option<unsafe extern "C" fn(*mut c_void) -> c_int>;
pub type MPI_Grequest_cancel_function = Option<unsafe extern "C" fn(*mut c_void, c_int) -> c_int>;
pub type MPIX_Grequest_poll_function = Option<unsafe extern "C" fn(*mut c_void, *mut MPI_Status) -> c_int>;
pub type MPIX_Grequest_wait_function =
    Option<unsafe extern "C" fn(c_int, *mut *mut c_void, f64, *mut MPI_Status) -> c_int>;
pub type MPIX_Async_poll_function = Option<unsafe extern "C" fn(MPIX_Async_thing) -> c_int>;
pub type MPI_Datarep_extent_function = Option<unsafe extern "C" fn(MPI_Datatype, *mut MPI_Aint, *mut c_void) -> c_int>;
pub type MPI_Datarep_conversion_function =
    Option<unsafe extern "C" fn(*mut c_void, MPI_Datatype, c_int, *mut c_void, MPI_Offset, *mut c_void) -> c_int>;
pub type MPI_Datarep_conversion_function_c =
    Option<unsafe extern "C" fn(*mut c_void, MPI_Datatype, MPI_Count, *mut c_void, MPI_Offset, *mut c_void) -> c_int>;
pub type MPI_T_event_cb_function =
    Option<unsafe extern "C" fn(MPI_T_event_instance, MPI_T_event_registration, MPI_T_cb_safety, *mut c_void)>;
pub type MPI_T_event_free_cb_function =
    Option<unsafe extern "C" fn(MPI_T_event_registration, MPI_T_cb_safety, *mut c_void)>;
pub type MPI_T_event_dropped_cb_function =
    Option<unsafe extern "C" fn(MPI_Count, MPI_T_event_registration, c_int, MPI_T_cb_safety, *mut c_void)>;
