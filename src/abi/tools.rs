//! # Safety
//! Stores results through pointers of the application.
//!
//! Answers about the library itself: profiling control, ABI version, GPU support (MPI-4.1 §15.2).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::types::*;
use std::ffi::{c_int, c_void};

/// Profiling level: for tools to replace; does nothing (MPI-4.1 §15.2.2). C sees `int level, ...`.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Pcontrol(level: c_int) -> c_int {
    let _ = level;
    MPI_SUCCESS
}

/// The version of the standard ABI: -1, for this library has MPICH's ABI instead (MPI-5.0 §20.1).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Abi_get_version(abi_major: *mut c_int, abi_minor: *mut c_int) -> c_int {
    on_any("MPI_Abi_get_version", || {
        load(abi_minor, "abi_minor")?;
        store(abi_major, "abi_major", -1)?;
        store(abi_minor, "abi_minor", -1)
    })
}

/// Whether buffers may lie in memory of a GPU of kind `gpu_type`: no.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_GPU_query_support(gpu_type: c_int, is_supported: *mut c_int) -> c_int {
    on_any("MPIX_GPU_query_support", || {
        let kinds = [MPIX_GPU_SUPPORT_CUDA, MPIX_GPU_SUPPORT_ZE, MPIX_GPU_SUPPORT_HIP];
        if !kinds.contains(&gpu_type) {
            crate::fail!(
                Arg,
                "gpu_type is {gpu_type} but must be one of MPIX_GPU_SUPPORT_CUDA, _ZE and _HIP"
            );
        }
        store(is_supported, "is_supported", 0)
    })
}

/// Whether buffers may lie in memory of an NVIDIA GPU: no.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Query_cuda_support() -> c_int {
    0
}

/// Whether buffers may lie in memory of an Intel GPU: no.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Query_ze_support() -> c_int {
    0
}

/// Whether buffers may lie in memory of an AMD GPU: no.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Query_hip_support() -> c_int {
    0
}

/// The state of an asynchronous task; there are none.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Async_get_state(async_thing: MPIX_Async_thing) -> *mut c_void {
    let _ = async_thing;
    std::ptr::null_mut()
}

macro_rules! versions {
    ($($name:ident = $text:expr, $what:literal;)*) => {$(
        #[doc = concat!("For `mpichversion` and its like: ", $what, ".")]
        #[unsafe(no_mangle)]
        pub static $name: [u8; $text.len() + 1] = {
            let mut bytes = [0; $text.len() + 1];
            let mut i = 0;
            while i < $text.len() {
                bytes[i] = $text.as_bytes()[i];
                i += 1;
            }
            bytes
        };
    )*};
}
versions! {
    MPII_Version_string = env!("CARGO_PKG_VERSION"), "the version";
    MPII_Version_ABI = "12:0:0", "the interface in libtool's notation";
    MPII_Version_date = "", "the date of the release";
    MPII_Version_configure = "", "options of the build";
    MPII_Version_device = "nearmpi", "what moves the messages";
    MPII_Version_CC = "cc", "the C compiler that mpicc calls";
    MPII_Version_CXX = "c++", "the C++ compiler that mpicxx calls";
    MPII_Version_F77 = "", "the Fortran compiler";
    MPII_Version_FC = "", "the Fortran compiler";
    MPII_Version_custom = "", "a packager's remark";
}
