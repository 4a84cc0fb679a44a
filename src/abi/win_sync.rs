//! # Safety
//! Exports functions that reach the application's memory through the helpers of [`super::edge`] only.
//!
//! Synchronization of windows: fences, post-start-complete-wait, locks, flushes (MPI-4.1 §12.5).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::group::{group, out};
use super::types::*;
use super::win::{on_win, window};
use crate::fail;
use crate::mpi::rma::Window;
use crate::mpi::rma::epoch;
use crate::mpi::world::World;
use std::ffi::c_int;

/// Refuses bits that mean nothing in `assert`.
fn check_assert(assert: c_int, known: c_int) -> Result<()> {
    if assert & !known != 0 {
        fail!(Assert, "the assertion {assert:#x} holds bits that mean nothing here");
    }
    Ok(())
}

/// A target rank; `None` for MPI_PROC_NULL.
fn member(window: &Window, rank: c_int) -> Result<Option<u32>> {
    match rank {
        MPI_PROC_NULL => Ok(None),
        _ => window.comm.checked_rank(rank).map(Some),
    }
}

/// Ends all accesses and opens new ones. Collective. MPI-4.1 §12.5.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_fence(assert: c_int, win: MPI_Win) -> c_int {
    on_win("MPI_Win_fence", win, |hold, window| {
        let known = MPI_MODE_NOSTORE | MPI_MODE_NOPUT | MPI_MODE_NOPRECEDE | MPI_MODE_NOSUCCEED;
        check_assert(assert, known)?;
        epoch::fence(hold, window, assert & MPI_MODE_NOSUCCEED != 0)
    })
}

/// Exposes this process's memory to the members in a group. MPI-4.1 §12.5.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_post(group: MPI_Group, assert: c_int, win: MPI_Win) -> c_int {
    on_win("MPI_Win_post", win, |hold, window| {
        check_assert(assert, MPI_MODE_NOCHECK | MPI_MODE_NOSTORE | MPI_MODE_NOPUT)?;
        let group = self::group(hold, group)?;
        epoch::post(hold, window, &group)
    })
}

/// Opens accesses to the members in a group. MPI-4.1 §12.5.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_start(group: MPI_Group, assert: c_int, win: MPI_Win) -> c_int {
    on_win("MPI_Win_start", win, |hold, window| {
        check_assert(assert, MPI_MODE_NOCHECK)?;
        let group = self::group(hold, group)?;
        epoch::start(hold, window, &group)
    })
}

/// Ends the accesses that MPI_Win_start opened. MPI-4.1 §12.5.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_complete(win: MPI_Win) -> c_int {
    on_win("MPI_Win_complete", win, |hold, window| epoch::complete(hold, window))
}

/// Waits until all accesses are over to what MPI_Win_post exposed. MPI-4.1 §12.5.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_wait(win: MPI_Win) -> c_int {
    on_win("MPI_Win_wait", win, |hold, window| {
        epoch::end_exposure(hold, window, true).map(drop)
    })
}

/// As MPI_Win_wait, without waiting. MPI-4.1 §12.5.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_test(win: MPI_Win, flag: *mut c_int) -> c_int {
    on_win("MPI_Win_test", win, |hold, window| {
        let flag = out(flag, "flag")?;
        *flag = epoch::end_exposure(hold, window, false)?.into();
        Ok(())
    })
}

/// Locks a member's memory. MPI-4.1 §12.5.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_lock(lock_type: c_int, rank: c_int, assert: c_int, win: MPI_Win) -> c_int {
    on_win("MPI_Win_lock", win, |hold, window| {
        let exclusive = match lock_type {
            MPI_LOCK_EXCLUSIVE => true,
            MPI_LOCK_SHARED => false,
            other => fail!(Locktype, "{other} is neither MPI_LOCK_SHARED nor MPI_LOCK_EXCLUSIVE"),
        };
        check_assert(assert, MPI_MODE_NOCHECK)?;
        match member(window, rank)? {
            Some(rank) => epoch::lock(hold, window, rank, exclusive),
            None => Ok(()),
        }
    })
}

/// Ends the accesses to a locked member and unlocks it. MPI-4.1 §12.5.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_unlock(rank: c_int, win: MPI_Win) -> c_int {
    on_win("MPI_Win_unlock", win, |hold, window| match member(window, rank)? {
        Some(rank) => epoch::unlock(hold, window, rank),
        None => Ok(()),
    })
}

/// Locks all members' memory, shared. MPI-4.1 §12.5.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_lock_all(assert: c_int, win: MPI_Win) -> c_int {
    on_win("MPI_Win_lock_all", win, |hold, window| {
        check_assert(assert, MPI_MODE_NOCHECK)?;
        epoch::lock_all(hold, window)
    })
}

/// Ends all accesses and unlocks all members. MPI-4.1 §12.5.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_unlock_all(win: MPI_Win) -> c_int {
    on_win("MPI_Win_unlock_all", win, |hold, window| {
        epoch::unlock_all(hold, window)
    })
}

fn flush(name: &'static str, rank: Option<c_int>, win: MPI_Win) -> c_int {
    on_win(name, win, |hold, window| {
        let rank = match rank {
            Some(rank) => match member(window, rank)? {
                Some(rank) => Some(rank),
                None => return Ok(()),
            },
            None => None,
        };
        window.epochs.borrow().check_locked(rank)?;
        epoch::flush(hold, window, rank)
    })
}

/// Whether a flush was all done on the short way: nobody else may call, the member is locked and its memory mapped.
#[inline(always)]
fn flushed(rank: c_int, win: MPI_Win) -> bool {
    let alone = current_world().and_then(World::hold_alone);
    alone.is_some_and(|hold| window(&hold, win).is_ok_and(|window| epoch::flush_near(&hold, window, rank)))
}

/// Ends what was started to a locked member, there too. MPI-4.1 §12.5.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_flush(rank: c_int, win: MPI_Win) -> c_int {
    if flushed(rank, win) {
        return MPI_SUCCESS;
    }
    flush("MPI_Win_flush", Some(rank), win)
}

/// Ends what was started to all locked members, there too. MPI-4.1 §12.5.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_flush_all(win: MPI_Win) -> c_int {
    flush("MPI_Win_flush_all", None, win)
}

/// Ends what was started to a locked member, on this side. MPI-4.1 §12.5.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_flush_local(rank: c_int, win: MPI_Win) -> c_int {
    if flushed(rank, win) {
        return MPI_SUCCESS;
    }
    flush("MPI_Win_flush_local", Some(rank), win)
}

/// Ends what was started to all locked members, on this side. MPI-4.1 §12.5.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_flush_local_all(win: MPI_Win) -> c_int {
    flush("MPI_Win_flush_local_all", None, win)
}

/// Orders this process's loads and stores with the accesses of others. MPI-4.1 §12.5.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_sync(win: MPI_Win) -> c_int {
    on_win("MPI_Win_sync", win, |hold, _| epoch::sync(hold))
}
