//! Statuses: 32 bytes in the standard's ABI, 20 in MPICH's, which counts bytes in two words that are kept in the standard's reserve.

use crate::values::*;
use std::ffi::c_int;
use std::ptr::{null_mut, without_provenance_mut};

/// `MPI_Status` of the standard's ABI.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Status {
    pub source: c_int,
    pub tag: c_int,
    pub error: c_int,
    pub reserved: [c_int; 5],
}

/// MPICH's.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MpichStatus {
    pub counts: [c_int; 2],
    pub source: c_int,
    pub tag: c_int,
    pub error: c_int,
}

/// What the library has not set: functions of one status leave its error alone.
const UNSET: c_int = c_int::MIN;

/// `MPI_STATUS_IGNORE` and `MPI_STATUSES_IGNORE` of MPICH's ABI; the standard's are null pointers.
pub const IGNORE: usize = 1;

impl Status {
    /// The same for MPICH.
    pub fn mpich(&self) -> MpichStatus {
        MpichStatus {
            counts: [self.reserved[0], self.reserved[1]],
            source: mpich_rank(self.source),
            tag: mpich_tag(self.tag),
            error: mpich_code(self.error),
        }
    }

    /// Takes over what the library has set of [`MpichStatus::EMPTY`]: nothing if a test or a probe has found nothing.
    #[inline]
    pub fn take_set(&mut self, status: &MpichStatus) {
        let own = self.error;
        if status.source != UNSET {
            self.take(status);
            self.error = own;
        }
        if status.error != UNSET {
            self.error = standard_code(status.error);
        }
    }

    /// Takes over all.
    #[inline]
    pub fn take(&mut self, status: &MpichStatus) {
        self.source = standard_rank(status.source);
        self.tag = standard_tag(status.tag);
        self.error = standard_code(status.error);
        self.reserved[..2].copy_from_slice(&status.counts);
    }
}

impl MpichStatus {
    /// One for the library to fill.
    pub const EMPTY: MpichStatus = MpichStatus {
        counts: [0; 2],
        source: UNSET,
        tag: 0,
        error: UNSET,
    };
}

/// The program's status, and MPICH's one in its place during a call.
pub struct StatusSlot {
    at: *mut Status,
    value: MpichStatus,
    /// Whether it had the program's values before.
    is_full: bool,
}

impl StatusSlot {
    /// For a status that the function fills.
    #[inline]
    pub fn empty(at: *mut Status) -> StatusSlot {
        StatusSlot {
            at,
            value: MpichStatus::EMPTY,
            is_full: false,
        }
    }

    /// For one that it reads.
    ///
    /// # Safety
    /// `at` is a null pointer, or leads to a status.
    pub unsafe fn full(at: *mut Status) -> StatusSlot {
        // SAFETY: as above.
        let value = unsafe { at.as_ref() }.map_or(MpichStatus::EMPTY, Status::mpich);
        StatusSlot {
            at,
            value,
            is_full: true,
        }
    }

    /// What a function that fills it is given.
    #[inline]
    pub fn pointer(&mut self) -> *mut MpichStatus {
        if self.at.is_null() {
            without_provenance_mut(IGNORE)
        } else {
            &raw mut self.value
        }
    }

    /// What a function that must have it is given.
    pub fn required(&mut self) -> *mut MpichStatus {
        if self.at.is_null() {
            null_mut()
        } else {
            &raw mut self.value
        }
    }

    /// Gives the program what the function has filled in.
    ///
    /// # Safety
    /// As for [`StatusSlot::full`].
    #[inline]
    pub unsafe fn give(&self) {
        // SAFETY: as above.
        match unsafe { self.at.as_mut() } {
            Some(status) if self.is_full => status.take(&self.value),
            Some(status) => status.take_set(&self.value),
            None => {}
        }
    }
}
