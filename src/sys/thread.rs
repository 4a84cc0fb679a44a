//! # Safety
//! Relies on pthread_sigmask(3), getrlimit(2) and prctl(2), with structures that live as long as the calls.
//!
//! Threads of the library's own.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::thread::{Builder, JoinHandle};

/// Name of the thread that makes progress while the program computes: 15 letters at most.
pub const PROGRESS: &str = "mpi-progress";

/// Bytes of its stack at least and at most, for it runs functions of the program: between them as many as its main thread may have.
const STACK: (u64, u64) = (8 << 20, 64 << 20);

/// Signals of what a thread does itself: if they were kept from it, no handler would say what went wrong.
const OWN: [i32; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGSYS,
];

/// Nanoseconds that the thread's sleeps may take longer than asked.
const SLACK: libc::c_ulong = 1000;

/// Starts a thread `name` that runs `body`. It takes no signals but those of faults, and its sleeps end when they should.
///
/// # Errors
/// The system has no thread left.
pub fn start(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    let mut all = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    let mut stack = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: all are structures to be filled in; a thread begins with the mask of the one that starts it.
    unsafe {
        libc::getrlimit(libc::RLIMIT_STACK, &mut stack);
        libc::sigfillset(all.as_mut_ptr());
        for signal in OWN {
            libc::sigdelset(all.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
    }
    let room = stack.rlim_cur.clamp(STACK.0, STACK.1) as usize;
    let started = Builder::new().name(name.into()).stack_size(room).spawn(|| {
        // SAFETY: plain integers; changes this thread alone.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK) };
        body();
    });
    // SAFETY: the set that pthread_sigmask has filled in above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut()) };
    started
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Signals that the calling thread blocks, as a mask.
    fn blocked() -> u64 {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(line.trim(), 16).unwrap()
    }

    #[test]
    fn the_thread_takes_no_signals_and_the_caller_still_does() {
        let before = blocked();
        let (seen, name) = (std::sync::Arc::new(AtomicU64::new(0)), "nearmpi-test");
        let told = seen.clone();
        let thread = start(name, move || {
            assert_eq!(std::thread::current().name(), Some(name));
            told.store(blocked(), Ordering::Relaxed);
        });
        thread.unwrap().join().unwrap();
        let bit = |signal: i32| 1u64 << (signal - 1);
        let terminate = bit(libc::SIGTERM) | bit(libc::SIGINT) | bit(libc::SIGCHLD);
        assert_eq!(seen.load(Ordering::Relaxed) & terminate, terminate);
        assert_eq!(seen.load(Ordering::Relaxed) & bit(libc::SIGSEGV), 0);
        assert_eq!(blocked(), before);
    }
}
