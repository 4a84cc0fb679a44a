//! # Safety
//! Stores results through pointers of the application.
//!
//! Answers about the library itself: profiling control, ABI version, GPU support (MPI-4.1 §15.2).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::info::answer;
use super::types::*;
use crate::fail;
use crate::mpi::comm::hardware::{Here, Resource};
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

/// Sizes of the types of the ABI (MPI-5.0 §20.3).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Abi_get_info(info: *mut MPI_Info) -> c_int {
    on_any("MPI_Abi_get_info", || {
        let entries = ["mpi_aint_size", "mpi_count_size", "mpi_offset_size"].map(|key| (key, "8"));
        answer(&entries, info)
    })
}

/// Bytes of Fortran's `LOGICAL`, and of other types that have no size in their name: gfortran's, on
/// whose library of MPICH `mpifort` builds.
const FORTRAN_SIZES: [(&str, &str); 4] = [
    ("mpi_logical_size", "4"),
    ("mpi_integer_size", "4"),
    ("mpi_real_size", "4"),
    ("mpi_double_precision_size", "8"),
];
/// Fortran's types with a size in their name, and whether there is a datatype for them.
const FORTRAN_TYPES: [(&str, MPI_Datatype); 19] = [
    ("mpi_logical1_supported", MPI_LOGICAL1),
    ("mpi_logical2_supported", MPI_LOGICAL2),
    ("mpi_logical4_supported", MPI_LOGICAL4),
    ("mpi_logical8_supported", MPI_LOGICAL8),
    ("mpi_logical16_supported", MPI_LOGICAL16),
    ("mpi_integer1_supported", MPI_INTEGER1),
    ("mpi_integer2_supported", MPI_INTEGER2),
    ("mpi_integer4_supported", MPI_INTEGER4),
    ("mpi_integer8_supported", MPI_INTEGER8),
    ("mpi_integer16_supported", MPI_INTEGER16),
    ("mpi_real2_supported", MPI_REAL2),
    ("mpi_real4_supported", MPI_REAL4),
    ("mpi_real8_supported", MPI_REAL8),
    ("mpi_real16_supported", MPI_REAL16),
    ("mpi_complex4_supported", MPI_COMPLEX4),
    ("mpi_complex8_supported", MPI_COMPLEX8),
    ("mpi_complex16_supported", MPI_COMPLEX16),
    ("mpi_complex32_supported", MPI_COMPLEX32),
    ("mpi_double_complex_supported", MPI_DOUBLE_COMPLEX),
];

/// Sizes of Fortran's types and which of them there are (MPI-5.0 §20.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Abi_get_fortran_info(info: *mut MPI_Info) -> c_int {
    on_world("MPI_Abi_get_fortran_info", |hold| {
        let there = |&(key, datatype): &(_, MPI_Datatype)| {
            let size = hold.datatypes.committed(datatype).map_or(0, |datatype| datatype.size());
            (key, if size > 0 { "true" } else { "false" })
        };
        let types = FORTRAN_TYPES.iter().map(there);
        let entries: Vec<_> = FORTRAN_SIZES.into_iter().chain(types).collect();
        answer(&entries, info)
    })
}

/// Fortran's types are part of this ABI and cannot be told anew: always MPI_ERR_ABI (MPI-5.0 §20.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Abi_set_fortran_info(info: MPI_Info) -> c_int {
    on_any("MPI_Abi_set_fortran_info", || {
        super::info::info(info)?;
        fail!(Abi, "the sizes of Fortran's types are part of this ABI")
    })
}

/// The bytes of `.TRUE.` and `.FALSE.`, which are known (MPI-5.0 §20.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Abi_get_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
    is_set: *mut c_int,
) -> c_int {
    on_any("MPI_Abi_get_fortran_booleans", || {
        store(is_set, "is_set", 1)?;
        check_logical(logical_size)?;
        store(logical_true.cast::<MPI_Fint>(), "logical_true", 1)?;
        store(logical_false.cast::<MPI_Fint>(), "logical_false", 0)
    })
}

/// `.TRUE.` and `.FALSE.` are part of this ABI and cannot be told anew: always MPI_ERR_ABI
/// (MPI-5.0 §20.4).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Abi_set_fortran_booleans(
    logical_size: c_int,
    logical_true: *mut c_void,
    logical_false: *mut c_void,
) -> c_int {
    on_any("MPI_Abi_set_fortran_booleans", || {
        let _ = (logical_true, logical_false);
        check_logical(logical_size)?;
        fail!(Abi, "the values of Fortran's logicals are part of this ABI")
    })
}

fn check_logical(size: c_int) -> Result<()> {
    if size != 4 {
        fail!(Abi, "logical_size is {size} but a LOGICAL of this ABI has 4 bytes");
    }
    Ok(())
}

/// The kinds of hardware by which MPI_Comm_split_type splits, and whether this process is confined to
/// one piece of each (MPI-4.1 §9.1.2).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Get_hw_resource_info(hw_info: *mut MPI_Info) -> c_int {
    on_any("MPI_Get_hw_resource_info", || {
        let here = Here::now();
        let confined = |resource: Resource| {
            (
                resource.name(),
                if resource.of(&here).is_some() { "true" } else { "false" },
            )
        };
        let shared = [("mpi_shared_memory", "true")].into_iter();
        let entries: Vec<_> = shared.chain(Resource::ALL.map(confined)).collect();
        answer(&entries, hw_info)
    })
}

/// Whether buffers may lie in memory of a GPU of kind `gpu_type`: no.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_GPU_query_support(gpu_type: c_int, is_supported: *mut c_int) -> c_int {
    on_any("MPIX_GPU_query_support", || {
        let kinds = [MPIX_GPU_SUPPORT_CUDA, MPIX_GPU_SUPPORT_ZE, MPIX_GPU_SUPPORT_HIP];
        if !kinds.contains(&gpu_type) {
            fail!(
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
