//! # Safety
//! Reads and writes through the pointers that the application passed: relies on each being NULL or
//! valid for its use, as the MPI standard demands of callers. The helpers here are reachable from
//! the `unsafe extern "C"` functions of this layer only.
//!
//! The edge every MPI function crosses: parse, call, map.
//!
//! ```ignore
//! use super::edge::*;
//! use super::types::*;
//!
//! /// Blocking standard-mode send. MPI-4.1 §3.2.1.
//! #[apply(mpi_function_c!)] // exports MPI_Example, PMPI_Example, MPI_Example_c and PMPI_Example_c
//! #[unsafe(no_mangle)]
//! pub unsafe extern "C" fn MPI_Example(
//!     buf: *const c_void, count: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm,
//! ) -> c_int {
//!     on_comm("MPI_Example", comm, |hold, comm| {
//!         let count = self::count(count, "count")?; // usize, whether Count is 32 or 64 bits wide
//!         ...
//!     })
//! }
//!
//! /// The caller's rank. MPI-4.1 §7.4.1.
//! #[apply(mpi_function!)] // exports MPI_Comm_example and PMPI_Comm_example
//! #[unsafe(no_mangle)]
//! pub unsafe extern "C" fn MPI_Comm_example(comm: MPI_Comm, rank: *mut c_int) -> c_int {
//!     on_comm("MPI_Comm_example", comm, |_, comm| store(rank, "rank", comm.rank as c_int))
//! }
//! ```
//!
//! In the `_c` twin the same body is compiled with [`Count`], [`Displ`] and [`TypeDispl`] as the
//! 64-bit types. Outputs are written on success only. Errors go to the error handler of the
//! communicator, or for want of a valid one to that of `MPI_COMM_WORLD`.
#![allow(unsafe_code)]

pub use super::handle::Object;
pub use super::types::{Count, Displ, TypeDispl};
pub use crate::mpi::error::{Class, Error, Result};
pub use crate::mpi::world::Hold;
pub use crate::{mpi_function, mpi_function_c};
pub use macro_rules_attribute::apply;

use super::constants::*;
use super::errhandler::{raise, report};
use super::source::Source;
use super::types::*;
use crate::fail;
use crate::launch::aborted_with;
use crate::mpi::comm::Comm;
use crate::mpi::world::{State, World};
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// This process's MPI, from initialization to finalization.
static WORLD: AtomicPtr<World> = AtomicPtr::new(null_mut());
/// What [`WORLD`] is or was last.
static LATEST: AtomicPtr<World> = AtomicPtr::new(null_mut());
static RANK: AtomicU32 = AtomicU32::new(0);
static SIZE: AtomicU32 = AtomicU32::new(0);
/// How many of them run the program of this one.
static ALIKE: AtomicU32 = AtomicU32::new(0);
static INITIALIZED: AtomicBool = AtomicBool::new(false);
static FINALIZED: AtomicBool = AtomicBool::new(false);
/// This process is a child that a rank made by fork(2).
static FORKED: AtomicBool = AtomicBool::new(false);
static END_OF_JOB: OnceLock<fn(c_int)> = OnceLock::new();

/// Makes `world` this process's MPI, from now on.
pub fn set_world(world: World) -> &'static World {
    let world: &'static World = Box::leak(Box::new(world));
    {
        let hold = world.hold();
        RANK.store(hold.world.rank, Ordering::Relaxed);
        SIZE.store(hold.world.size(), Ordering::Relaxed);
        let alike = u32::try_from(hold.job.alike).unwrap_or(hold.world.size());
        ALIKE.store(alike, Ordering::Relaxed);
    }
    let place = std::ptr::from_ref(world).cast_mut();
    LATEST.store(place, Ordering::Release);
    WORLD.store(place, Ordering::Release);
    world
}

/// Makes the world that was this process's MPI before so again, for a session opened late.
pub fn reset_world() -> Option<&'static World> {
    WORLD.store(LATEST.load(Ordering::Acquire), Ordering::Release);
    current_world()
}

/// Ends MPI in this process; its world stays in memory, for threads that are late and for sessions.
pub fn unset_world() {
    WORLD.store(null_mut(), Ordering::Release);
}

/// Ends MPI in a child process: it is no rank of the job. MPI_Finalized is true there, so that what
/// would finalize MPI at exit does not.
pub extern "C" fn disown() {
    FORKED.store(true, Ordering::Release);
    LATEST.store(null_mut(), Ordering::Release);
    super::timing::stop();
    set_finalized();
    unset_world();
}

/// Ends the process with a sentence if it is a child that a rank made by fork(2).
pub fn refuse_child(name: &str) {
    if FORKED.load(Ordering::Acquire) {
        outside_lifetime(name);
    }
}

/// MPI_Init has been called.
pub fn set_initialized() {
    INITIALIZED.store(true, Ordering::Release);
}

/// MPI_Finalize has been called.
pub fn set_finalized() {
    FINALIZED.store(true, Ordering::Release);
}

/// This process's rank in `MPI_COMM_WORLD`; 0 before initialization.
pub fn rank_in_world() -> u32 {
    RANK.load(Ordering::Relaxed)
}

/// How many ranks `MPI_COMM_WORLD` has; 0 before initialization. Needs no hold.
pub fn ranks_in_world() -> u32 {
    SIZE.load(Ordering::Relaxed)
}

/// How many of them run the program of this one; all, where the launcher does not tell.
pub fn ranks_of_program() -> u32 {
    ALIKE.load(Ordering::Relaxed)
}

/// Whether MPI has been initialized, finalized since or not.
pub fn initialized() -> bool {
    INITIALIZED.load(Ordering::Acquire)
}

/// Whether MPI has been finalized.
pub fn finalized() -> bool {
    FINALIZED.load(Ordering::Acquire)
}

/// This process's MPI, while there is one.
#[inline]
pub fn current_world() -> Option<&'static World> {
    // SAFETY: the pointer is null or a leaked box.
    unsafe { WORLD.load(Ordering::Acquire).as_ref() }
}

/// The rank in `MPI_COMM_WORLD` or `MPI_COMM_SELF` of the process that made this one by fork(2), and how many that has: what such a
/// child asks to tell its output or its share of the work from the others'. `None` elsewhere.
pub fn forked_place(comm: MPI_Comm) -> Option<(u32, u32)> {
    if !FORKED.load(Ordering::Acquire) {
        return None;
    }
    match comm {
        MPI_COMM_WORLD => Some((rank_in_world(), ranks_in_world())),
        MPI_COMM_SELF => Some((0, 1)),
        _ => None,
    }
}

/// This process's MPI; ends the process with a sentence if `name` is called outside its lifetime.
#[inline]
pub fn world(name: &str) -> &'static World {
    match current_world() {
        Some(world) => world,
        None => outside_lifetime(name),
    }
}

#[cold]
fn outside_lifetime(name: &str) -> ! {
    let when = if FORKED.load(Ordering::Acquire) {
        "in a child process: only the rank that called fork may use MPI"
    } else if finalized() {
        "after finalizing MPI: MPI_Finalize has been called"
    } else {
        "before initializing MPI, or after its last session: call MPI_Init or MPI_Session_init first"
    };
    report(&format!("Attempting to use an MPI routine ({name}) {when}"));
    flush_stdout();
    end_process(1)
}

/// Registers what ends the other processes of the job (called once, by the code that joined it).
pub fn at_end_of_job(hook: fn(c_int)) {
    let _ = END_OF_JOB.set(hook);
}

/// Ends the whole job with exit code `code`, or with 1 if that would pass for success.
pub fn end_job(code: c_int) -> ! {
    let code = aborted_with(code);
    flush_stdout();
    if let Some(hook) = END_OF_JOB.get() {
        hook(code);
    }
    end_process(code)
}

/// Ends this process; what becomes of the others is the launcher's matter.
pub fn end_alone(code: c_int) -> ! {
    flush_stdout();
    end_process(code)
}

/// Writes out what the program printed; skipped if its stream is in use, by a thread or by the code
/// that a signal interrupted.
fn flush_stdout() {
    unsafe extern "C" {
        static stdout: *mut libc::FILE;
        fn ftrylockfile(stream: *mut libc::FILE) -> c_int;
        fn fflush_unlocked(stream: *mut libc::FILE) -> c_int;
    }
    // SAFETY: the C library's own stream, flushed under its lock, which nobody needs afterwards.
    unsafe {
        if ftrylockfile(stdout) == 0 {
            fflush_unlocked(stdout);
        }
    }
}

fn end_process(code: c_int) -> ! {
    // SAFETY: ends the process at once, without running the program's exit handlers, which could
    // wait for ranks that will never answer.
    unsafe { libc::_exit(code) }
}

/// As [`on_world`], for what a child of a rank may ask as well, since no other rank has to do with it.
pub fn on_world_or_child(name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    match FORKED.load(Ordering::Acquire) {
        true => on_any(name, body),
        false => on_world(name, |_| body()),
    }
}

/// Runs `body` on the communicator `handle`; its error, or the handle's, goes to an error handler.
#[inline]
pub fn on_comm(name: &'static str, handle: MPI_Comm, body: impl FnOnce(&mut Hold, &Rc<Comm>) -> Result<()>) -> c_int {
    let world = world(name);
    let _call = world.calling(name);
    let mut hold = world.hold();
    match comm(&hold, handle).cloned() {
        Ok(comm) => match body(&mut hold, &comm) {
            Ok(()) => MPI_SUCCESS,
            Err(error) => failed(name, hold, Some((handle, comm)), error),
        },
        Err(error) => failed(name, hold, None, error),
    }
}

/// Gives `error` to the error handler of the communicator, or to the one for errors of none.
#[cold]
#[inline(never)]
fn failed(name: &'static str, hold: Hold, comm: Option<(MPI_Comm, Rc<Comm>)>, error: Error) -> c_int {
    let source = match &comm {
        Some((handle, comm)) => Source::comm(&hold, *handle, comm),
        None => Source::anywhere(&hold),
    };
    drop(comm);
    drop(hold);
    raise(name, source, error)
}

/// Runs `body`; its error belongs to no object ([`Source::anywhere`]).
#[inline]
pub fn on_world(name: &'static str, body: impl FnOnce(&mut Hold) -> Result<()>) -> c_int {
    on_world_or(name, Source::anywhere, body)
}

/// Runs `body`; its error happened at `source`.
#[inline]
pub fn on_world_or(
    name: &'static str,
    source: impl FnOnce(&State) -> Source,
    body: impl FnOnce(&mut Hold) -> Result<()>,
) -> c_int {
    let world = world(name);
    let _call = world.calling(name);
    let mut hold = world.hold();
    let Err(error) = body(&mut hold) else {
        return MPI_SUCCESS;
    };
    let source = source(&hold);
    drop(hold);
    raise(name, source, error)
}

/// Runs `body` of a function that may be called before initialization and after finalization.
#[inline]
pub fn on_any(name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    let Err(error) = body() else {
        return MPI_SUCCESS;
    };
    let source = current_world().map(|world| Source::anywhere(&world.hold()));
    raise(name, source.unwrap_or_default(), error)
}

/// The communicator `handle` names.
///
/// # Errors
/// [`Class::Comm`]: the null handle, another kind of handle, or a communicator that was freed.
#[inline]
pub fn comm(state: &State, handle: MPI_Comm) -> Result<&Rc<Comm>> {
    match handle {
        MPI_COMM_WORLD => Ok(&state.world),
        MPI_COMM_SELF => Ok(&state.own),
        _ => {
            let key = Object::Comm.key(handle)?;
            Object::Comm.alive(handle, state.comms.get(key))
        }
    }
}

/// The same for those who leave it to others to say what is wrong: makes no call.
#[inline(always)]
pub fn comm_of(state: &State, handle: MPI_Comm) -> Option<&Rc<Comm>> {
    match handle {
        MPI_COMM_WORLD => Some(&state.world),
        MPI_COMM_SELF => Some(&state.own),
        _ => state.comms.get(Object::Comm.key_of(handle)?),
    }
}

/// A count argument, in either width.
///
/// # Errors
/// [`Class::Count`]: it is negative.
#[inline]
pub fn count(value: impl Into<i64>, name: &str) -> Result<usize> {
    let value = value.into();
    if value < 0 {
        fail!(Count, "{name} is {value} but must not be negative");
    }
    Ok(value as usize)
}

/// `count` times `size` bytes; `None`: more than memory can have.
#[inline]
pub fn product(count: usize, size: usize) -> Option<usize> {
    count.checked_mul(size).filter(|&bytes| bytes <= isize::MAX as usize)
}

/// `len` count arguments, in either width.
///
/// # Errors
/// As [`count`]; [`Class::Arg`] for a NULL array.
pub fn counts<T: Copy + Into<i64>>(array: *const T, len: usize, name: &str) -> Result<Vec<usize>> {
    slice(array, len, name)?
        .iter()
        .map(|&value| count(value, name))
        .collect()
}

/// `len` displacements, in either width.
///
/// # Errors
/// [`Class::Arg`]: the array is NULL.
pub fn displs<T: Copy + Into<i64>>(array: *const T, len: usize, name: &str) -> Result<Vec<isize>> {
    Ok(slice(array, len, name)?
        .iter()
        .map(|&value| value.into() as isize)
        .collect())
}

/// Stores a count in either width; `MPI_UNDEFINED` when it does not fit (MPI-4.1 §3.2.5).
///
/// # Errors
/// [`Class::Arg`]: the pointer is NULL.
pub fn store_count<T: TryFrom<i64> + From<i16>>(out: *mut T, name: &str, value: i64) -> Result<()> {
    store(out, name, T::try_from(value).unwrap_or(T::from(MPI_UNDEFINED as i16)))
}

/// `*out = value`.
///
/// # Errors
/// [`Class::Arg`]: the pointer is NULL.
#[inline]
pub fn store<T>(out: *mut T, name: &str, value: T) -> Result<()> {
    if out.is_null() {
        return null(name);
    }
    // SAFETY: not NULL, hence the application's variable.
    unsafe { out.write(value) };
    Ok(())
}

/// `*argument`, for arguments that are read and written (`MPI_Request *`).
///
/// # Errors
/// [`Class::Arg`]: the pointer is NULL.
#[inline]
pub fn load<T: Copy>(argument: *const T, name: &str) -> Result<T> {
    if argument.is_null() {
        return null(name);
    }
    // SAFETY: not NULL, hence the application's variable.
    Ok(unsafe { argument.read() })
}

/// An array argument that is read.
///
/// # Errors
/// [`Class::Arg`]: NULL though `len` is not 0.
#[inline]
pub fn slice<'a, T>(array: *const T, len: usize, name: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if array.is_null() {
        return null(name);
    }
    // SAFETY: not NULL, hence an array of the application with `len` elements.
    Ok(unsafe { std::slice::from_raw_parts(array, len) })
}

/// An array argument that is written.
///
/// # Errors
/// [`Class::Arg`]: NULL though `len` is not 0.
#[inline]
pub fn slice_mut<'a, T>(array: *mut T, len: usize, name: &str) -> Result<&'a mut [T]> {
    if len == 0 {
        return Ok(&mut []);
    }
    if array.is_null() {
        return null(name);
    }
    // SAFETY: not NULL, hence an array of the application with `len` elements.
    Ok(unsafe { std::slice::from_raw_parts_mut(array, len) })
}

/// A string argument; bytes that are not UTF-8 become replacement characters.
///
/// # Errors
/// [`Class::Arg`]: the pointer is NULL.
pub fn string(text: *const c_char, name: &str) -> Result<String> {
    if text.is_null() {
        return null(name);
    }
    // SAFETY: not NULL, hence a string of the application that ends in NUL.
    Ok(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

/// Writes `text` and a final NUL to a buffer of `room` bytes, cut short if it must be.
///
/// # Errors
/// [`Class::Arg`]: the pointer is NULL.
pub fn store_text(out: *mut c_char, name: &str, room: usize, text: &str) -> Result<usize> {
    let mut len = text.len().min(room - 1);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    let buffer = slice_mut(out.cast::<u8>(), len + 1, name)?;
    buffer[..len].copy_from_slice(&text.as_bytes()[..len]);
    buffer[len] = 0;
    Ok(len)
}

/// Writes a string result and its length, as `MPI_Get_processor_name` and its like return them.
///
/// # Errors
/// [`Class::Arg`]: a pointer is NULL.
pub fn store_string(out: *mut c_char, name: &str, room: c_int, text: &str, resultlen: *mut c_int) -> Result<()> {
    if resultlen.is_null() {
        return null("resultlen");
    }
    let len = store_text(out, name, room as usize, text)?;
    store(resultlen, "resultlen", len as c_int)
}

#[cold]
fn null<T>(name: &str) -> Result<T> {
    fail!(Arg, "{name} is a null pointer")
}

/// Gives an MPI function its `PMPI_` twin: a jump, so that both are one function and a tool that
/// replaces `MPI_X` still reaches ours by calling `PMPI_X`.
#[macro_export]
macro_rules! mpi_function {
    (
        $(#[$($attribute:tt)*])*
        pub unsafe extern "C" fn $name:ident ($($arg:ident : $type:ty),* $(,)?) $(-> $result:ty)? $body:block
    ) => {
        $(#[$($attribute)*])*
        pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? {
            /// The number that a profile counts this function under.
            #[allow(dead_code)]
            const CALL: usize = $crate::abi::timing::number(stringify!($name));
            let _timed = $crate::abi::timing::timed(CALL);
            $body
        }

        pastey::paste! {
            #[doc = concat!("The profiling name of [`", stringify!($name), "`].")]
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn [<P $name>]($($arg: $type),*) $(-> $result)? {
                core::arch::naked_asm!("jmp {}", sym $name)
            }
        }
    };
}

/// Like [`mpi_function!`], and compiles the body a second time as `MPI_X_c` (with its own twin), where
/// `Count`, `Displ` and `TypeDispl` are 64 bits wide.
#[macro_export]
macro_rules! mpi_function_c {
    (
        $(#[$($attribute:tt)*])*
        pub unsafe extern "C" fn $name:ident ($($arg:ident : $type:ty),* $(,)?) $(-> $result:ty)? $body:block
    ) => {
        $crate::mpi_function! {
            $(#[$($attribute)*])*
            pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? $body
        }
        pastey::paste! {
            #[doc = concat!("The form of [`", stringify!($name), "`] with 64-bit counts.")]
            #[allow(clippy::useless_conversion)]
            pub mod [<$name _c>] {
                #[allow(unused_imports)]
                use super::*;
                /// 64 bits wide here.
                #[allow(unused)]
                type Count = $crate::abi::types::MPI_Count;
                /// 64 bits wide here.
                #[allow(unused)]
                type Displ = $crate::abi::types::MPI_Aint;
                /// 64 bits wide here.
                #[allow(unused)]
                type TypeDispl = $crate::abi::types::MPI_Count;
                $crate::mpi_function! {
                    $(#[$($attribute)*])*
                    pub unsafe extern "C" fn [<$name _c>]($($arg: $type),*) $(-> $result)? $body
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tells how wide its count is.
    #[apply(mpi_function_c!)]
    #[unsafe(no_mangle)]
    pub unsafe extern "C" fn nearmpi_test_width(value: Count, wide: *mut c_int) -> c_int {
        on_any("nearmpi_test_width", || {
            count(value, "value")?;
            store(wide, "wide", size_of::<Count>() as c_int)
        })
    }

    #[test]
    fn both_forms_and_their_twins_exist() {
        let mut wide = 0;
        // SAFETY: the pointer is a variable's.
        unsafe {
            assert_eq!((nearmpi_test_width(1, &mut wide), wide), (0, 4));
            assert_eq!((Pnearmpi_test_width(1, &mut wide), wide), (0, 4));
            use nearmpi_test_width_c::*;
            assert_eq!((nearmpi_test_width_c(1 << 40, &mut wide), wide), (0, 8));
            assert_eq!((Pnearmpi_test_width_c(1 << 40, &mut wide), wide), (0, 8));
        }
    }

    #[test]
    fn a_count_that_does_not_fit_is_undefined() {
        let (mut narrow, mut wide) = (0 as c_int, 0 as MPI_Count);
        store_count(&mut narrow, "count", 1 << 40).unwrap();
        store_count(&mut wide, "count", 1 << 40).unwrap();
        assert_eq!((narrow, wide), (MPI_UNDEFINED, 1 << 40));
        assert_eq!(
            store_count(null_mut::<c_int>(), "count", 1).unwrap_err().class(),
            Class::Arg
        );
        assert_eq!(count(-3 as c_int, "count").unwrap_err().class(), Class::Count);
    }

    #[test]
    fn text_is_cut_at_a_character() {
        let mut room = [0x7f as c_char; 4];
        assert_eq!(store_text(room.as_mut_ptr(), "name", 4, "aä€").unwrap(), 3);
        assert_eq!(string(room.as_ptr(), "name").unwrap(), "aä");
    }
}
