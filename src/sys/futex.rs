//! # Safety
//! Relies on the kernel to read one word that the reference keeps mapped.
//!
//! Sleeping on a word of shared memory: futex(2) without FUTEX_PRIVATE_FLAG, so that other
//! processes can wake the sleeper.
#![allow(unsafe_code)]

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` holds `expected`; returns on a wake-up, a signal, another value or `timeout`.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
    let time = libc::timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: timeout.subsec_nanos() as i64,
    };
    // SAFETY: `word` is mapped, `time` outlives the call.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &time, 0, 0) };
}

/// Wakes everyone who sleeps on `word`.
pub fn wake_all(word: &AtomicU32) {
    // SAFETY: `word` is mapped.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX, 0, 0, 0) };
}
