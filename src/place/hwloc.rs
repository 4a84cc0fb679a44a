//! # Safety
//! Relies on the loaded library to be hwloc 2 (soname 15), whose five functions below have had these
//! signatures since version 2.0 (hwloc.h, hwloc/export.h).
//!
//! Asks hwloc for the machine. What it knows leaves it as XML, so no structure of its own is read here.
#![allow(unsafe_code)]

use libloading::{Library, Symbol};
use std::error::Error;
use std::ffi::{CStr, c_char, c_int, c_ulong, c_void};
use std::ptr;

/// Names under which distributions have it.
const NAMES: [&str; 2] = ["libhwloc.so.15", "libhwloc.so"];

type Topology = *mut c_void;

/// This machine as hwloc's XML. `library`: the file to load in place of the usual ones; "none" loads nothing.
///
/// # Errors
/// A sentence: not installed, or what failed.
pub fn export(library: Option<&str>) -> Result<String, String> {
    let library = load(library, &NAMES)?;
    // SAFETY: the functions' signatures are hwloc's, see above; the topology is made, loaded, exported and
    // destroyed in the order that hwloc asks for, and the text is copied before it is freed.
    unsafe {
        let init: Symbol<unsafe extern "C" fn(*mut Topology) -> c_int> = find(&library, b"hwloc_topology_init\0")?;
        let load: Symbol<unsafe extern "C" fn(Topology) -> c_int> = find(&library, b"hwloc_topology_load\0")?;
        let export: Symbol<unsafe extern "C" fn(Topology, *mut *mut c_char, *mut c_int, c_ulong) -> c_int> =
            find(&library, b"hwloc_topology_export_xmlbuffer\0")?;
        let free: Symbol<unsafe extern "C" fn(Topology, *mut c_char)> = find(&library, b"hwloc_free_xmlbuffer\0")?;
        let destroy: Symbol<unsafe extern "C" fn(Topology)> = find(&library, b"hwloc_topology_destroy\0")?;
        let mut topology = ptr::null_mut();
        if init(&mut topology) != 0 {
            return Err("hwloc_topology_init fails".into());
        }
        let (mut text, mut len) = (ptr::null_mut(), 0);
        let done = load(topology) == 0 && export(topology, &mut text, &mut len, 0) == 0 && !text.is_null();
        let copy = done.then(|| CStr::from_ptr(text).to_string_lossy().into_owned());
        if done {
            free(topology, text);
        }
        destroy(topology);
        copy.ok_or_else(|| "hwloc cannot read this machine".into())
    }
}

/// Loads the first of `names` that is there, or `library` alone.
///
/// # Errors
/// The loader's words.
pub fn load(library: Option<&str>, names: &[&str]) -> Result<Library, String> {
    if library == Some("none") {
        return Err("switched off".into());
    }
    let names = library.as_ref().map_or(names, std::slice::from_ref);
    let mut reason = String::new();
    for name in names {
        // SAFETY: the library's constructors run; it is one that the user's system or the user chose.
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(library),
            Err(error) if reason.is_empty() => reason = words(&error),
            Err(_) => {}
        }
    }
    Err(reason)
}

/// The function of that name.
///
/// # Errors
/// The loader's words.
///
/// # Safety
/// `T` is the function's type.
pub unsafe fn find<'a, T>(library: &'a Library, name: &[u8]) -> Result<Symbol<'a, T>, String> {
    // SAFETY: the caller's promise.
    unsafe { library.get(name) }.map_err(|error| words(&error))
}

/// What the loader itself says, if it does.
fn words(error: &libloading::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), |source| source.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_or_not_wanted_is_an_error() {
        assert_eq!(export(Some("none")).unwrap_err(), "switched off");
        assert!(export(Some("libnosuch.so.9")).unwrap_err().contains("libnosuch"));
        assert!(export(Some("libm.so.6")).unwrap_err().contains("hwloc_topology_init"));
    }
}
