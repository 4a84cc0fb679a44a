//! # Safety
//! Exports functions that look at nothing they are given but a handle.
//!
//! The thread that makes progress while the program computes: `NEARMPI_ASYNC_PROGRESS`, and what MPICH has for a program
//! that wants it for a while.
#![allow(unsafe_code)]

use super::constants::MPIX_STREAM_NULL;
use super::edge::*;
use super::errhandler::report;
use super::types::*;
use crate::fail;
use crate::mpi::world::World;
use crate::sys::{futex, thread};
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The thread, while there is one.
static HELPER: Mutex<Option<Helper>> = Mutex::new(None);

struct Helper {
    /// Not 0: it is to end.
    stop: Arc<AtomicU32>,
    thread: JoinHandle<()>,
}

fn helper() -> MutexGuard<'static, Option<Helper>> {
    HELPER.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Helper {
    fn is_caller(&self) -> bool {
        self.thread.thread().id() == std::thread::current().id()
    }

    fn is_ending(&self) -> bool {
        self.stop.load(Ordering::Acquire) != 0 || self.thread.is_finished()
    }

    fn stop(&self) {
        self.stop.store(1, Ordering::Release);
        futex::wake_all(&self.stop);
    }
}

/// Starts the thread, unless it runs.
///
/// # Errors
/// [`Class::Other`]: only one thread may be in MPI at a time, or the system has no thread left.
pub fn begin(world: &'static World) -> Result<()> {
    if !world.admits_helper() {
        fail!(
            Other,
            "a progress thread needs MPI_THREAD_MULTIPLE: ask for it in MPI_Init_thread, or set NEARMPI_ASYNC_PROGRESS=1"
        );
    }
    let ending = helper().take_if(|helper| helper.is_ending() && !helper.is_caller());
    if let Some(Helper { thread, .. }) = ending {
        let _ = thread.join();
    }
    let mut helper = helper();
    if let Some(running) = &*helper {
        // A function that it calls may have told it to end.
        running.stop.store(0, Ordering::Release);
        return Ok(());
    }
    let stop = Arc::new(AtomicU32::new(0));
    let told = stop.clone();
    match thread::start(thread::PROGRESS, move || world.look_after(&told)) {
        Ok(thread) => *helper = Some(Helper { stop, thread }),
        Err(error) => fail!(Other, "cannot start a progress thread: {error}"),
    }
    Ok(())
}

/// Ends the thread, if it runs, and waits until it is gone; if that is the caller it ends when it has returned. The caller holds no gate.
pub fn end() {
    let mut slot = helper();
    let Some(running) = slot.take_if(|helper| {
        helper.stop();
        !helper.is_caller()
    }) else {
        return;
    };
    drop(slot);
    let _ = running.thread.join();
}

/// Starts the thread if `NEARMPI_ASYNC_PROGRESS` says so; the program goes on without it where that fails.
pub fn begin_if_asked(world: &'static World) {
    let asked = world.hold().engine.channel.settings().async_progress != 0;
    if asked && let Err(error) = begin(world) {
        report(&format!("nearmpi: {}", error.text()));
    }
}

/// Fails unless `stream` stands for all that is under way: nobody can make another.
///
/// # Errors
/// [`Class::Arg`].
pub fn check(stream: MPIX_Stream) -> Result<()> {
    match stream {
        MPIX_STREAM_NULL => Ok(()),
        _ => fail!(Arg, "{stream:#x} is not the handle of a stream"),
    }
}

/// Starts a thread that makes progress while the program computes; there is one at most. Of MPICH.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Start_progress_thread(stream: MPIX_Stream) -> c_int {
    let world = world("MPIX_Start_progress_thread");
    on_any("MPIX_Start_progress_thread", || {
        check(stream).and_then(|()| begin(world))
    })
}

/// Ends the thread, if there is one. Of MPICH.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Stop_progress_thread(stream: MPIX_Stream) -> c_int {
    world("MPIX_Stop_progress_thread");
    on_any("MPIX_Stop_progress_thread", || check(stream).map(|()| end()))
}

/// Makes progress, once. Of MPICH.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Stream_progress(stream: MPIX_Stream) -> c_int {
    on_world("MPIX_Stream_progress", |hold| {
        check(stream)?;
        hold.look_around(None).map(|_| ())
    })
}
