//! # Safety
//! Relies on dlsym(3) to find the function of `src/heap.c`, whose type stands here once more.
//!
//! The heap that other ranks can reach, if `libnearmpi-heap.so` was put before the program.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd};

type Begin = unsafe extern "C" fn(*mut c_void, usize, usize, c_int, libc::off_t) -> c_int;

/// The function that begins it; `None` where nobody has asked for it.
fn function() -> Option<Begin> {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"nearmpi_heap_begin".as_ptr()) };
    // SAFETY: `src/heap.c` defines a function of that name with this type.
    (!found.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Begin>(found) })
}

/// Whether malloc can be told to take memory from elsewhere.
pub fn is_there() -> bool {
    function().is_some()
}

/// From now on malloc serves blocks of at least `least` bytes out of the `len` bytes at `base`, which are those of `file` from `at`
/// on; false where it does not, or did before.
///
/// # Safety
/// The memory stays mapped until the process ends, and nobody else deals it out.
pub unsafe fn begin(base: *mut u8, len: usize, least: usize, file: BorrowedFd<'_>, at: usize) -> bool {
    // SAFETY: the caller's promise.
    function().is_some_and(|begin| unsafe { begin(base.cast(), len, least, file.as_raw_fd(), at as libc::off_t) == 0 })
}
