//! # Safety
//! Writes statuses of the application: relies on its pointers.
//!
//! `MPI_Status` and what can be asked of it (MPI-4.1 §3.2.5).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::types::*;
use crate::fail;
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
    unsafe {
        (*out).fill(status);
        // Only an empty status has no source.
        if status.source == MPI_ANY_SOURCE {
            (*out).MPI_ERROR = MPI_SUCCESS;
        }
    }
    Ok(())
}

/// A status argument that is read.
pub(super) fn read(status: *const MPI_Status) -> Result<MPI_Status> {
    if status == MPI_STATUS_IGNORE {
        fail!(Arg, "the status is MPI_STATUS_IGNORE");
    }
    load(status, "status")
}

/// A status argument that is changed.
fn change(status: *mut MPI_Status, by: impl FnOnce(&mut MPI_Status)) -> Result<()> {
    let mut copy = read(status)?;
    by(&mut copy);
    store(status, "status", copy)
}

/// Whole elements of `size` bytes in `bytes`; `None` if a part is left.
fn whole(bytes: u64, size: u64) -> Option<u64> {
    match size {
        0 => (bytes == 0).then_some(0),
        _ => bytes.is_multiple_of(size).then_some(bytes / size),
    }
}

/// Stores a number of elements, or `MPI_UNDEFINED`.
pub(super) fn store_elements<T: TryFrom<i64> + From<i16>>(out: *mut T, elements: Option<u64>) -> Result<()> {
    let undefined = MPI_UNDEFINED as i64;
    store_count(out, "count", elements.map_or(undefined, |n| n as i64))
}

/// How many whole elements of `datatype` were received. MPI-4.1 §3.2.5.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Get_count(status: *const MPI_Status, datatype: MPI_Datatype, count: *mut Count) -> c_int {
    on_world("MPI_Get_count", |hold| {
        let bytes = read(status)?.bytes();
        let size = hold.datatypes.get(datatype)?.size() as u64;
        store_elements(count, whole(bytes, size))
    })
}

/// Has `MPI_Get_elements` tell `count` for `datatype`.
fn set_elements(hold: &Hold, status: *mut MPI_Status, datatype: MPI_Datatype, count: i64) -> Result<()> {
    let datatype = hold.datatypes.get(datatype)?;
    let count = self::count(count, "count")?;
    match datatype.bytes_of(count as u64) {
        Some(bytes) => change(status, |status| status.set_bytes(bytes)),
        None if datatype.leaves() == 0 => fail!(Arg, "count is {count}, but the datatype has no elements"),
        None => fail!(Arg, "{count} elements have more bytes than can be counted"),
    }
}

/// Sets the number of elements that the `MPI_Get_*` functions will tell. MPI-4.1 §13.3.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_set_elements(
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: Count,
) -> c_int {
    on_world("MPI_Status_set_elements", |hold| {
        set_elements(hold, status, datatype, count.into())
    })
}

/// [`MPI_Status_set_elements`] as MPI-3 widened it.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_set_elements_x(
    status: *mut MPI_Status,
    datatype: MPI_Datatype,
    count: MPI_Count,
) -> c_int {
    on_world("MPI_Status_set_elements_x", |hold| {
        set_elements(hold, status, datatype, count)
    })
}

/// Whether the operation was cancelled. MPI-4.1 §3.8.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Test_cancelled(status: *const MPI_Status, flag: *mut c_int) -> c_int {
    on_world("MPI_Test_cancelled", |_| {
        store(flag, "flag", read(status)?.cancelled() as c_int)
    })
}

/// Sets whether the operation was cancelled. MPI-4.1 §13.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_set_cancelled(status: *mut MPI_Status, flag: c_int) -> c_int {
    on_world("MPI_Status_set_cancelled", |_| {
        change(status, |status| {
            let rest = status.count_hi_and_cancelled & !1;
            status.count_hi_and_cancelled = rest | (flag != 0) as c_int;
        })
    })
}

/// The rank the message came from. MPI-4.1 §3.2.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_get_source(status: *const MPI_Status, source: *mut c_int) -> c_int {
    on_any("MPI_Status_get_source", || {
        store(source, "source", read(status)?.MPI_SOURCE)
    })
}

/// Sets the rank the message came from. MPI-4.1 §13.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_set_source(status: *mut MPI_Status, source: c_int) -> c_int {
    on_any("MPI_Status_set_source", || {
        change(status, |status| status.MPI_SOURCE = source)
    })
}

/// The message's tag. MPI-4.1 §3.2.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_get_tag(status: *const MPI_Status, tag: *mut c_int) -> c_int {
    on_any("MPI_Status_get_tag", || store(tag, "tag", read(status)?.MPI_TAG))
}

/// Sets the message's tag. MPI-4.1 §13.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_set_tag(status: *mut MPI_Status, tag: c_int) -> c_int {
    on_any("MPI_Status_set_tag", || change(status, |status| status.MPI_TAG = tag))
}

/// The error code of the operation. MPI-4.1 §3.2.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_get_error(status: *const MPI_Status, error: *mut c_int) -> c_int {
    on_any("MPI_Status_get_error", || {
        store(error, "error", read(status)?.MPI_ERROR)
    })
}

/// Sets the error code of the operation. MPI-4.1 §13.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Status_set_error(status: *mut MPI_Status, error: c_int) -> c_int {
    on_any("MPI_Status_set_error", || {
        change(status, |status| status.MPI_ERROR = error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_has_63_bits_beside_the_cancelled_bit() {
        let mut status = MPI_Status {
            count_hi_and_cancelled: 1,
            ..MPI_Status::default()
        };
        for bytes in [0, 1, u32::MAX as u64, 5 << 32, (1 << 63) - 1] {
            status.set_bytes(bytes);
            assert_eq!((status.bytes(), status.cancelled()), (bytes, true));
        }
    }

    #[test]
    fn a_part_of_an_element_is_not_counted() {
        assert_eq!(
            (whole(8, 4), whole(9, 4), whole(0, 0), whole(1, 0)),
            (Some(2), None, Some(0), None)
        );
    }

    #[test]
    fn ignored_and_missing_statuses() {
        let mut flag = 0;
        store_status(MPI_STATUS_IGNORE, &Status::EMPTY).unwrap();
        assert!(store_status(std::ptr::null_mut(), &Status::EMPTY).is_err());
        assert!(read(MPI_STATUS_IGNORE).is_err());
        let mut status = MPI_Status {
            MPI_ERROR: 17,
            ..MPI_Status::default()
        };
        let of = |source| Status {
            source,
            ..Status::EMPTY
        };
        store_status(&mut status, &of(3)).unwrap();
        assert_eq!(
            (status.MPI_SOURCE, status.MPI_ERROR),
            (3, 17),
            "the error is left alone"
        );
        store_status(&mut status, &Status::EMPTY).unwrap();
        assert_eq!((status.MPI_SOURCE, status.MPI_TAG, status.MPI_ERROR), (-2, -1, 0));
        // SAFETY: both pointers are variables'.
        assert_eq!(unsafe { MPI_Status_get_tag(&status, &mut flag) }, 0);
        assert_eq!(flag, -1);
    }
}
