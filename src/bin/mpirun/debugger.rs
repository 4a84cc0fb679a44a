//! # Safety
//! Nothing here is executed through a pointer: the names are unmangled because debuggers look them up in this program, and
//! debuggers alone write to them.
//!
//! What parallel debuggers read in a launcher, by the names of "The MPIR Process Acquisition Interface", version 1.0 (MPI Forum,
//! 2010). Who starts mpirun sets [`MPIR_being_debugged`] before it runs and stops it at [`MPIR_Breakpoint`]. There the table has all
//! ranks, which wait in MPI_Init; whichever of them are taken, all go on when mpirun does. Who comes later finds the same table.
#![allow(unsafe_code, non_upper_case_globals, non_snake_case)]

use crate::start::Rank;
use std::ffi::{CString, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

/// A process, in the layout of `MPIR_PROCDESC`.
#[repr(C)]
struct Process {
    host: *mut c_char,
    executable: *mut c_char,
    pid: c_int,
}

/// MPIR_DEBUG_SPAWNED: the table is complete.
const SPAWNED: i32 = 1;
/// MPIR_DEBUG_ABORTING: the job is about to be ended.
const ABORTING: i32 = 2;

/// Set by a debugger that has started this program, or attached to it.
#[unsafe(no_mangle)]
static MPIR_being_debugged: AtomicI32 = AtomicI32::new(0);
/// Why [`MPIR_Breakpoint`] is called.
#[unsafe(no_mangle)]
static MPIR_debug_state: AtomicI32 = AtomicI32::new(0);
/// The reason, in a sentence, while that is [`ABORTING`].
#[unsafe(no_mangle)]
static MPIR_debug_abort_string: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());
/// The ranks, in order, and how many they are.
#[unsafe(no_mangle)]
static MPIR_proctable: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());
#[unsafe(no_mangle)]
static MPIR_proctable_size: AtomicI32 = AtomicI32::new(0);
/// That they are there says: this program is no rank itself, and ranks that no debugger takes go on all the same.
#[used]
#[unsafe(no_mangle)]
static MPIR_i_am_starter: AtomicI32 = AtomicI32::new(1);
#[used]
#[unsafe(no_mangle)]
static MPIR_partial_attach_ok: AtomicI32 = AtomicI32::new(1);

/// Where a debugger stops this program.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn MPIR_Breakpoint() {
    std::hint::black_box(&MPIR_debug_state);
}

/// Whether there is a debugger. If it has started this program, ranks are to wait in MPI_Init until [`show`] has returned.
pub fn is_there() -> bool {
    MPIR_being_debugged.load(Ordering::Relaxed) != 0
}

/// For as long as this program runs.
fn text(bytes: &[u8]) -> *mut c_char {
    CString::new(bytes).unwrap_or_default().into_raw()
}

/// Stops for a debugger if there is one.
fn stop(state: i32) {
    MPIR_debug_state.store(state, Ordering::Release);
    if is_there() {
        MPIR_Breakpoint();
    }
}

/// Lets a debugger look at ranks that are about to be ended with `code`.
pub fn show_end(code: i32) {
    let reason = format!("the job is about to end with code {code}");
    MPIR_debug_abort_string.store(text(reason.as_bytes()), Ordering::Relaxed);
    stop(ABORTING);
}

/// Fills the table, for as long as this program runs, and lets a debugger look at that.
pub fn show(ranks: &[Rank]) {
    let host = text(mpi::sys::host::name().as_bytes());
    let executable = |rank: &Rank| {
        let link = std::fs::read_link(format!("/proc/{}/exe", rank.pid));
        text(
            link.unwrap_or_else(|_| PathBuf::from(&rank.program))
                .as_os_str()
                .as_bytes(),
        )
    };
    let table = ranks.iter().map(|rank| Process {
        host,
        executable: executable(rank),
        pid: rank.pid,
    });
    let table = table.collect::<Vec<_>>().leak();
    MPIR_proctable_size.store(table.len() as i32, Ordering::Relaxed);
    MPIR_proctable.store(table.as_mut_ptr(), Ordering::Release);
    stop(SPAWNED);
}
