//! # Safety
//! Relies on pthread_atfork(3).
//!
//! What a child process is told before it does anything else.
#![allow(unsafe_code)]

/// Calls `in_child` in every process that fork(2) makes of this one from now on. It may touch atomics
/// only: other threads' locks are held for ever there.
pub fn in_each_child(in_child: extern "C" fn()) {
    // SAFETY: the function lives as long as the process; failure (no memory) leaves it out.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}
