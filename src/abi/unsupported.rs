//! # Safety
//! Exports functions that look at nothing they are given.
//!
//! Functions that are exported and not written yet: each says so through the error handler.
//!
//! Which ones is worked out by the build script: those of functions.tsv that are not items of this
//! directory. Writing `pub unsafe extern "C" fn MPI_X` in any file of it takes `MPI_X` out of here.
#![allow(unsafe_code)]

use super::constants::{MPI_T_ERR_CANNOT_INIT, MPI_T_ERR_NOT_INITIALIZED};
use super::edge::*;
use super::errhandler::raise;
use super::source::Source;
use super::types::*;
use std::ffi::{c_int, c_void};

/// Makes the functions of the list; the first word says whose error handler is asked.
macro_rules! unsupported {
    ($($on:ident $(($object:ident))? fn $name:ident($($arg:ident: $type:ty),*);)*) => {
        $(
            $crate::mpi_function! {
                /// Not supported yet.
                #[unsafe(no_mangle)]
                pub unsafe extern "C" fn $name($($arg: $type),*) -> c_int {
                    $(let _ = $arg;)*
                    refuse::$on(stringify!($name) $(, $object)?)
                }
            }
        )*

        /// The MPI functions that are exported and not written yet.
        pub fn unsupported_names() -> &'static [&'static str] {
            &[$(stringify!($name)),*]
        }
    };
}
include!(concat!(env!("OUT_DIR"), "/unsupported_functions.rs"));

/// How a function refuses.
#[allow(dead_code)]
mod refuse {
    use super::*;

    fn refusal(name: &str) -> Error {
        Error::new(
            Class::UnsupportedOperation,
            format!("{name} is not supported by this version of nearmpi"),
        )
    }

    /// Refuses a function that works on a communicator.
    #[cold]
    pub fn comm(name: &'static str, comm: MPI_Comm) -> c_int {
        on_comm(name, comm, |_, _| Err(refusal(name)))
    }

    /// Refuses a function that works on no communicator.
    #[cold]
    pub fn world(name: &'static str) -> c_int {
        on_world(name, |_| Err(refusal(name)))
    }

    /// Refuses a function that works on files.
    #[cold]
    pub fn file(name: &'static str) -> c_int {
        raise(name, Source::files(), refusal(name))
    }

    /// Refuses a function that may be called before initialization.
    #[cold]
    pub fn any(name: &'static str) -> c_int {
        on_any(name, || Err(refusal(name)))
    }

    /// Refuses a function of the tool interface, which never calls error handlers (MPI-4.1 §15.3.10).
    #[cold]
    pub fn tool(name: &'static str) -> c_int {
        match name {
            "MPI_T_init_thread" => MPI_T_ERR_CANNOT_INIT,
            _ => MPI_T_ERR_NOT_INITIALIZED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables;
    use super::*;

    #[test]
    fn every_function_is_written_or_refused() {
        let written = tables::written();
        let refusable = |f: &tables::Function| ["int", "void"].contains(&f.returns());
        for function in tables::functions().into_iter().filter(refusable) {
            let refused = unsupported_names().contains(&function.name);
            assert!(refused != written.contains_key(function.name), "{}", function.name);
        }
    }
}
