//! # Safety
//! Reads and writes the program's memory as the standard says for each function: handles, statuses and numbers of the standard's
//! ABI where pointers lead to them. What is a null pointer is handed on as one.
//!
//! nearmpi under the standard ABI of MPI-5.0 (chapter 20), `libmpi_abi.so.1`: every function translates its arguments, calls
//! the function of the same name in `libmpi.so.12`, which lies beside it, and translates what comes back.
//!
//! ```text
//! program        MPI_Send(buf, 1, MPI_INT = 0x209, dest, tag, MPI_COMM_WORLD = 0x101)
//! libmpi_abi     [this crate]
//! libmpi.so.12   MPI_Send(buf, 1, 0x4c000405, dest, tag, 0x44000000)
//! ```
//!
//! Objects of the program's own keep their number, which is above all predefined ones in both ABIs; what differs is in
//! [`values`]. `build.rs` writes most functions from the tables of `src/abi`; those that it cannot are in [`arrays`],
//! [`callbacks`], [`types`] and [`special`].
#![allow(unsafe_code)]
#![allow(non_snake_case, clippy::missing_safety_doc, clippy::macro_metavars_in_unsafe)]

mod arrays;
mod callbacks;
mod library;
mod special;
mod status;
mod types;
mod values;

use arrays::{Handles, blocks};
use macro_rules_attribute::apply;
use status::{MpichStatus, Status, StatusSlot};
use std::ffi::{c_int, c_void};
use values::*;

/// Any pointer that is handed on, or a handle that is one in both ABIs.
type Pointer = *mut c_void;

/// `call!(MPI_Example: fn(c_int) -> c_int)`: the function of that name in libmpi.so.12.
#[macro_export]
macro_rules! call {
    ($name:ident: fn($($given:ty),*) -> $returns:ty) => {{
        static FUNCTION: $crate::library::Function = $crate::library::Function::named(concat!(stringify!($name), "\0"));
        // SAFETY: the function has this type there.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($given),*) -> $returns>(FUNCTION.address()) }
    }};
}

/// Exports a function, and its profiling name.
#[macro_export]
macro_rules! translation {
    (
        $(#[doc = $doc:literal])*
        pub unsafe extern "C" fn $name:ident($($parameter:ident: $taken:ty),* $(,)?) -> $returns:ty $body:block
    ) => {
        $(#[doc = $doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($parameter: $taken),*) -> $returns {
            #[allow(unused_unsafe)]
            // SAFETY: what the caller of an MPI function has to see to.
            unsafe { $body }
        }
        pastey::paste! {
            #[doc = concat!("The profiling name of [`", stringify!($name), "`].")]
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn [<P $name>]($($parameter: $taken),*) -> $returns {
                core::arch::naked_asm!("jmp {}", sym $name)
            }
        }
    };
}

#[allow(clippy::let_and_return)]
mod functions {
    use super::*;
    include!(concat!(env!("OUT_DIR"), "/functions.rs"));
}
