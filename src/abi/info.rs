//! # Safety
//! Exports functions that reach the application's strings; relies on them being NUL-terminated or as
//! long as the standard says.
//!
//! Info objects (MPI-4.1 §10): usable before initialization and after finalization, by all threads.
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::group::out;
use super::init::thread_level;
use super::session::LEVELS;
use super::types::*;
use crate::fail;
use crate::mpi::info::{Info, MAX_KEY};
use crate::mpi::table::Table;
use crate::sys::host;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

static INFOS: Mutex<Table<Info>> = Mutex::new(Table::new());

fn infos() -> MutexGuard<'static, Table<Info>> {
    INFOS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A copy of the info object `handle` names.
///
/// # Errors
/// `Arg`: the null handle; `Info`: another kind of handle, or a freed object.
pub fn info(handle: MPI_Info) -> Result<Info> {
    with(handle, |info| Ok(info.clone()))
}

/// A copy of the info object `handle` names; an empty one for `MPI_INFO_NULL`.
///
/// # Errors
/// As [`info`], except for the null handle.
pub fn hints(handle: MPI_Info) -> Result<Info> {
    match handle {
        MPI_INFO_NULL => Ok(Info::default()),
        _ => info(handle),
    }
}

/// Makes sure that an info argument of which nothing is asked names an object, or none.
///
/// # Errors
/// As [`hints`].
pub fn check_info(handle: MPI_Info) -> Result<()> {
    match handle {
        MPI_INFO_NULL => Ok(()),
        _ => info(handle).map(drop),
    }
}

/// A handle for a new info object.
///
/// # Errors
/// `NoMem`: 2^22 live already.
pub fn give_info(info: Info) -> Result<MPI_Info> {
    Object::Info.made(infos().insert(info))
}

/// Stores a new info object with these entries at `info`.
///
/// # Errors
/// `Arg`: `info` is null. As [`give_info`] and [`Info::set`].
pub fn answer(entries: &[(&str, &str)], info: *mut MPI_Info) -> Result<()> {
    load(info, "info")?;
    let mut answer = Info::default();
    for (key, value) in entries {
        answer.set(key.as_bytes(), value.as_bytes())?;
    }
    store(info, "info", give_info(answer)?)
}

/// Puts a value into the info object `handle` names.
///
/// # Errors
/// As [`info`].
pub fn set_info(handle: MPI_Info, key: &[u8], value: &[u8]) -> Result<()> {
    change(handle, |info| info.set(key, value))
}

fn with<R>(handle: MPI_Info, look: impl FnOnce(&Info) -> Result<R>) -> Result<R> {
    if handle == MPI_INFO_ENV {
        return look(&environment()?);
    }
    let key = key_of(handle)?;
    look(Object::Info.alive(handle, infos().get(key))?)
}

/// What a process with these arguments knows of itself.
fn process(arguments: impl Iterator<Item = String>) -> Result<Info> {
    let mut info = Info::of_process(arguments);
    info.set(b"host", host::name().as_bytes())?;
    Ok(info)
}

/// What MPI_INFO_ENV holds: what the process knows of itself, and, in a job, how many run its program and which
/// threads may call.
fn environment() -> Result<Info> {
    let mut info = process(arguments())?;
    if current_world().is_some() {
        info.set(b"maxprocs", ranks_of_program().to_string().as_bytes())?;
        info.set(b"thread_level", LEVELS[thread_level() as usize].as_bytes())?;
    }
    Ok(info)
}

fn arguments() -> impl Iterator<Item = String> {
    std::env::args_os().map(|argument| argument.to_string_lossy().into_owned())
}

fn change<R>(handle: MPI_Info, change: impl FnOnce(&mut Info) -> Result<R>) -> Result<R> {
    let key = key_of(handle)?;
    change(Object::Info.alive(handle, infos().get_mut(key))?)
}

/// The slot `handle` names. MPICH has its own class for the null handle here.
fn key_of(handle: MPI_Info) -> Result<u32> {
    if handle == MPI_INFO_NULL {
        fail!(Arg, "the info object is MPI_INFO_NULL");
    }
    Object::Info.key(handle)
}

/// The bytes of a key.
///
/// # Errors
/// `InfoKey`: the pointer is NULL.
fn key<'a>(text: *const c_char) -> Result<&'a [u8]> {
    if text.is_null() {
        fail!(InfoKey, "the key is a null pointer");
    }
    // SAFETY: not NULL, hence a string of the application.
    Ok(unsafe { CStr::from_ptr(text) }.to_bytes())
}

/// Writes `value` and a NUL, as far as `room` bytes go.
fn write(buffer: *mut c_char, room: usize, value: &[u8]) -> Result<()> {
    let len = value.len().min(room.saturating_sub(1));
    let buffer = slice_mut(buffer.cast::<u8>(), room.min(len + 1), "value")?;
    if let Some((end, text)) = buffer.split_last_mut() {
        text.copy_from_slice(&value[..len]);
        *end = 0;
    }
    Ok(())
}

/// A new, empty info object.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_create(info: *mut MPI_Info) -> c_int {
    on_any("MPI_Info_create", || {
        let out = out(info, "info")?;
        *out = give_info(Info::default())?;
        Ok(())
    })
}

/// A new info object with what MPI_INFO_ENV holds of a process called with these arguments: the same before, while
/// and after MPI is initialized. MPI-4.1 §11.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_create_env(argc: c_int, argv: *mut *mut c_char, info: *mut MPI_Info) -> c_int {
    on_any("MPI_Info_create_env", || {
        let out = out(info, "info")?;
        let given = if argv.is_null() { 0 } else { count(argc, "argc")? };
        let given: Result<Vec<_>> = slice(argv, given, "argv")?
            .iter()
            .map(|&argument| string(argument, "argv"))
            .collect();
        *out = give_info(match given?.as_slice() {
            [] => process(arguments())?,
            given => process(given.iter().cloned())?,
        })?;
        Ok(())
    })
}

/// Sets a key's value.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_set(info: MPI_Info, key: *const c_char, value: *const c_char) -> c_int {
    on_any("MPI_Info_set", || {
        change(info, |info| {
            let key = self::key(key)?;
            if value.is_null() {
                fail!(Arg, "the value is a null pointer");
            }
            // SAFETY: not NULL, hence a string of the application.
            info.set(key, unsafe { CStr::from_ptr(value) }.to_bytes())
        })
    })
}

/// Sets a key's value to bytes, written in hexadecimal digits. An extension of MPICH.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Info_set_hex(
    info: MPI_Info,
    key: *const c_char,
    value: *const c_void,
    value_size: c_int,
) -> c_int {
    on_any("MPIX_Info_set_hex", || {
        change(info, |info| {
            let bytes = slice(value.cast::<u8>(), count(value_size, "value_size")?, "value")?;
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            info.set(self::key(key)?, digits.as_bytes())
        })
    })
}

/// Removes a key.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_delete(info: MPI_Info, key: *const c_char) -> c_int {
    on_any("MPI_Info_delete", || change(info, |info| info.delete(self::key(key)?)))
}

/// A key's value, cut to `valuelen` bytes.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_get(
    info: MPI_Info,
    key: *const c_char,
    valuelen: c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    on_any("MPI_Info_get", || {
        with(info, |info| {
            let flag = out(flag, "flag")?;
            let found = info.get(self::key(key)?)?;
            if valuelen < 0 {
                fail!(Arg, "valuelen is {valuelen} but must not be negative");
            }
            if let Some(found) = found {
                write(value, valuelen as usize + 1, found)?;
            }
            *flag = found.is_some().into();
            Ok(())
        })
    })
}

/// A key's value, cut to the buffer's size, and the size it needs.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_get_string(
    info: MPI_Info,
    key: *const c_char,
    buflen: *mut c_int,
    value: *mut c_char,
    flag: *mut c_int,
) -> c_int {
    on_any("MPI_Info_get_string", || {
        with(info, |info| {
            let (flag, buflen) = (out(flag, "flag")?, out(buflen, "buflen")?);
            let found = info.get(self::key(key)?)?;
            if let Some(found) = found {
                if *buflen < 0 {
                    fail!(Arg, "buflen is {buflen} but must not be negative");
                }
                if *buflen > 0 {
                    write(value, *buflen as usize, found)?;
                }
                *buflen = found.len() as c_int + 1;
            }
            *flag = found.is_some().into();
            Ok(())
        })
    })
}

/// The length of a key's value.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_get_valuelen(
    info: MPI_Info,
    key: *const c_char,
    valuelen: *mut c_int,
    flag: *mut c_int,
) -> c_int {
    on_any("MPI_Info_get_valuelen", || {
        with(info, |info| {
            let (flag, valuelen) = (out(flag, "flag")?, out(valuelen, "valuelen")?);
            let found = info.get(self::key(key)?)?;
            if let Some(found) = found {
                *valuelen = found.len() as c_int;
            }
            *flag = found.is_some().into();
            Ok(())
        })
    })
}

/// Number of keys.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_get_nkeys(info: MPI_Info, nkeys: *mut c_int) -> c_int {
    on_any("MPI_Info_get_nkeys", || {
        with(info, |info| store(nkeys, "nkeys", info.len() as c_int))
    })
}

/// The `n`th key.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_get_nthkey(info: MPI_Info, n: c_int, key: *mut c_char) -> c_int {
    on_any("MPI_Info_get_nthkey", || {
        with(info, |info| write(key, MAX_KEY, info.key(n)?))
    })
}

/// A copy.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_dup(info: MPI_Info, newinfo: *mut MPI_Info) -> c_int {
    on_any("MPI_Info_dup", || {
        let out = out(newinfo, "newinfo")?;
        *out = give_info(self::info(info)?)?;
        Ok(())
    })
}

/// Frees an info object.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Info_free(info: *mut MPI_Info) -> c_int {
    on_any("MPI_Info_free", || {
        let handle = out(info, "info")?;
        let removed = infos().remove(key_of(*handle)?);
        Object::Info.alive(*handle, removed)?;
        *handle = MPI_INFO_NULL;
        Ok(())
    })
}
