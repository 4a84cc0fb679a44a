//! # Safety
//! Stores results through pointers of the application.
//!
//! Answers about the library itself: profiling control, ABI version, GPU support (MPI-4.1 §15.2).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::info::give_info;
use super::types::*;
use crate::mpi::info::Info;
use std::ffi::c_int;

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

/// An info object with these entries.
fn answer(entries: &[(&str, &str)], info: *mut MPI_Info) -> Result<()> {
    load(info, "info")?;
    let mut answer = Info::default();
    for (key, value) in entries {
        answer.set(key.as_bytes(), value.as_bytes())?;
    }
    store(info, "info", give_info(answer)?)
}

/// Sizes of the types of the ABI (MPI-5.0 §20.3).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Abi_get_info(info: *mut MPI_Info) -> c_int {
    on_any("MPI_Abi_get_info", || {
        let entries = ["mpi_aint_size", "mpi_count_size", "mpi_offset_size"].map(|key| (key, "8"));
        answer(&entries, info)
    })
}

/// Sizes of Fortran's types: MPI_INFO_NULL, for a library that knows no Fortran compiler (MPI-5.0 §20.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Abi_get_fortran_info(info: *mut MPI_Info) -> c_int {
    on_any("MPI_Abi_get_fortran_info", || store(info, "info", MPI_INFO_NULL))
}

/// The kinds of hardware by which MPI_Comm_split_type splits, and whether this process is confined to
/// one piece of each (MPI-4.1 §9.1.2).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Get_hw_resource_info(hw_info: *mut MPI_Info) -> c_int {
    on_any("MPI_Get_hw_resource_info", || {
        answer(&[("mpi_shared_memory", "true")], hw_info)
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
