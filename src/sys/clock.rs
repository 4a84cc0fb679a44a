//! # Safety
//! Relies on clock_gettime(2) filling in the structure it is given.
//!
//! Time.
#![allow(unsafe_code)]

/// Seconds since an arbitrary time in the past, the same for all processes of the machine
/// (CLOCK_MONOTONIC, so `MPI_WTIME_IS_GLOBAL` holds).
pub fn seconds() -> f64 {
    let time = read(libc::clock_gettime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Nanoseconds of the same time.
pub fn nanoseconds() -> u64 {
    let time = read(libc::clock_gettime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Resolution of [`seconds`], in seconds.
pub fn resolution() -> f64 {
    let time = read(libc::clock_getres);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

fn read(call: unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to.
    unsafe { call(libc::CLOCK_MONOTONIC, &mut time) };
    time
}
