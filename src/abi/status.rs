//! # Safety
//! Writes statuses of the application: relies on its pointers.
//!
//! `MPI_Status` and what can be asked of it (MPI-4.1 §3.2.5).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::types::*;
use crate::mpi::status::Status;
use std::ffi::c_int;

impl MPI_Status {
    /// Number of bytes received.
    pub fn bytes(&self) -> u64 {
        let high = (self.count_hi_and_cancelled as u32 >> 1) as u64;
        high << 32 | self.count_lo as u32 as u64
    }

    /// Sets the number of bytes received.
    pub fn set_bytes(&mut self, bytes: u64) {
        let cancelled = self.count_hi_and_cancelled & 1;
        self.count_lo = bytes as u32 as c_int;
        self.count_hi_and_cancelled = (((bytes >> 32) as u32) << 1) as c_int | cancelled;
    }

    /// Whether the operation was cancelled.
    pub fn cancelled(&self) -> bool {
        self.count_hi_and_cancelled & 1 != 0
    }

    /// The status in the library's own form.
    pub fn to_status(&self) -> Status {
        Status {
            source: self.MPI_SOURCE,
            tag: self.MPI_TAG,
            error: self.MPI_ERROR,
            bytes: self.bytes(),
            cancelled: self.cancelled(),
        }
    }

    /// Takes over everything but `MPI_ERROR`, which only calls that return several statuses set.
    pub fn fill(&mut self, status: &Status) {
        self.count_hi_and_cancelled = status.cancelled as c_int;
        self.set_bytes(status.bytes);
        self.MPI_SOURCE = status.source;
        self.MPI_TAG = status.tag;
    }
}

/// Fills `*out` unless it is `MPI_STATUS_IGNORE`; leaves `MPI_ERROR` alone.
///
/// # Errors
/// [`Class::Arg`]: the pointer is NULL.
#[inline]
pub fn store_status(out: *mut MPI_Status, status: &Status) -> Result<()> {
    if out == MPI_STATUS_IGNORE {
        return Ok(());
    }
    load(out.cast::<u8>(), "status")?;
    // SAFETY: neither NULL nor the ignore value, hence the application's status.
    unsafe { (*out).fill(status) };
    Ok(())
}
