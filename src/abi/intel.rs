//! # Safety
//! Exports variables and an allocator to Intel's Fortran library: relies on it using them as C does.
//!
//! What Intel's libmpifort takes from libmpi beyond the MPICH ABI: the addresses of Fortran's special
//! objects. They lie in the common blocks of Intel's mpif.h, which the executable replaces by its own
//! when it has them; `mpirinitf_` notes where they are.
#![allow(unsafe_code)]

use super::fortran::{MPI_F_STATUS_IGNORE, MPI_F_STATUSES_IGNORE};
use super::types::*;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// `.TRUE.` as Intel's Fortran library compares it.
#[unsafe(no_mangle)]
pub static MPII_F_TRUE: MPI_Fint = 1;
/// `.FALSE.` as Intel's Fortran library compares it.
#[unsafe(no_mangle)]
pub static MPII_F_FALSE: MPI_Fint = 0;
/// Whether [`mpirinitf_`] is still to be called; the Fortran library sets it to 0 afterwards.
#[unsafe(no_mangle)]
pub static mut MPIR_F_NeedInit: c_int = 1;
/// Bytes of Fortran's default integer.
#[unsafe(no_mangle)]
pub static mut MPIR_F_ISIZE: c_int = size_of::<MPI_Fint>() as c_int;

macro_rules! commons {
    ($($name:ident: $type:ty, $holds:literal;)*) => {$(
        #[doc = concat!("Common block that holds ", $holds, ".")]
        #[unsafe(no_mangle)]
        pub static mut $name: $type = [0; _];
    )*};
}
commons! {
    mpipriv1_: [MPI_Fint; 7], "MPI_BOTTOM, MPI_IN_PLACE and MPI_STATUS_IGNORE";
    mpipriv2_: [MPI_Fint; 6], "MPI_STATUSES_IGNORE and MPI_ERRCODES_IGNORE";
    mpiprivc_: [u8; 2], "MPI_ARGVS_NULL and MPI_ARGV_NULL";
    mpifcmb5_: [MPI_Fint; 1], "MPI_UNWEIGHTED";
    mpifcmb9_: [MPI_Fint; 1], "MPI_WEIGHTS_EMPTY";
    mpifcmba_: [MPI_Fint; 1], "MPI_BUFFER_AUTOMATIC";
}

macro_rules! addresses {
    ($($name:ident)*) => {$(
        /// Where Fortran's object of this name lies, for the Fortran library to compare arguments with.
        #[unsafe(no_mangle)]
        pub static mut $name: *mut c_void = null_mut();
    )*};
}
addresses! {
    MPIR_F_MPI_BOTTOM
    MPIR_F_MPI_IN_PLACE
    MPIR_F_MPI_BUFFER_AUTOMATIC
    MPIR_F_MPI_UNWEIGHTED
    MPIR_F_MPI_WEIGHTS_EMPTY
    MPI_F_ARGV_NULL
    MPI_F_ARGVS_NULL
    MPI_F_ERRCODES_IGNORE
}

/// Notes where Fortran's special objects are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mpirinitf_() {
    // SAFETY: addresses inside the common blocks above, whoever defines them; the Fortran library
    // calls this once before it reads the pointers.
    unsafe {
        let first = (&raw mut mpipriv1_).cast::<MPI_Fint>();
        let second = (&raw mut mpipriv2_).cast::<MPI_Fint>();
        MPIR_F_MPI_BOTTOM = first.cast();
        MPIR_F_MPI_IN_PLACE = first.add(1).cast();
        MPI_F_STATUS_IGNORE = first.add(2);
        MPI_F_STATUSES_IGNORE = second;
        MPI_F_ERRCODES_IGNORE = second.add(5).cast();
        MPI_F_ARGVS_NULL = (&raw mut mpiprivc_).cast();
        MPI_F_ARGV_NULL = (&raw mut mpiprivc_).cast::<u8>().add(1).cast();
        MPIR_F_MPI_UNWEIGHTED = (&raw mut mpifcmb5_).cast();
        MPIR_F_MPI_WEIGHTS_EMPTY = (&raw mut mpifcmb9_).cast();
        MPIR_F_MPI_BUFFER_AUTOMATIC = (&raw mut mpifcmba_).cast();
    }
}

/// `malloc` under Intel's name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn impi_malloc(size: usize) -> *mut c_void {
    // SAFETY: the caller uses the memory as malloc's.
    unsafe { libc::malloc(size) }
}

/// `realloc` under Intel's name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn impi_realloc(memory: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the memory came from `impi_malloc`.
    unsafe { libc::realloc(memory, size) }
}

/// `free` under Intel's name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn impi_free(memory: *mut c_void) {
    // SAFETY: the memory came from `impi_malloc`.
    unsafe { libc::free(memory) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_special_objects_have_addresses_of_their_own() {
        // SAFETY: no other test reads these variables.
        let mut addresses = unsafe {
            mpirinitf_();
            [
                MPIR_F_MPI_BOTTOM as usize,
                MPIR_F_MPI_IN_PLACE as usize,
                MPI_F_STATUS_IGNORE as usize,
                MPI_F_STATUSES_IGNORE as usize,
                MPI_F_ERRCODES_IGNORE as usize,
                MPI_F_ARGVS_NULL as usize,
                MPIR_F_MPI_UNWEIGHTED as usize,
                MPIR_F_MPI_WEIGHTS_EMPTY as usize,
                MPIR_F_MPI_BUFFER_AUTOMATIC as usize,
            ]
        };
        addresses.sort_unstable();
        assert!(addresses[0] != 0 && addresses.windows(2).all(|pair| pair[0] != pair[1]));
    }
}
