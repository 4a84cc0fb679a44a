//! # Safety
//! A handler of signals that calls what glibc allows there, or has made ready before; it runs on a stack of
//! its own, so that an overflow of the stack is told as well.
//!
//! Where a program was when it crashed, on standard error, if that was asked for.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::io::Write;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// What the report begins with.
static HEAD: OnceLock<Vec<u8>> = OnceLock::new();

const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];
const STACK: usize = 64 << 10;
const FRAMES: usize = 64;

/// From now on a crash prints `head`, the signal and the calls under way; then the process ends as it would
/// have. Signals that the program handles itself are left to it.
pub fn report(head: &str) {
    if HEAD.set(head.as_bytes().to_vec()).is_err() {
        return;
    }
    let mut frames = [null_mut::<c_void>(); 1];
    // SAFETY: plain data, filled in before the calls; the stack is leaked, so it stays. The first call of
    // backtrace(3) loads what later ones need.
    unsafe {
        libc::backtrace(frames.as_mut_ptr(), 1);
        let stack = libc::stack_t {
            ss_sp: Box::leak(vec![0u8; STACK].into_boxed_slice()).as_mut_ptr().cast(),
            ss_flags: 0,
            ss_size: STACK,
        };
        libc::sigaltstack(&stack, null_mut());
        for signal in SIGNALS {
            let mut old: libc::sigaction = zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut old);
            if old.sa_sigaction != libc::SIG_DFL {
                continue;
            }
            let mut new: libc::sigaction = zeroed();
            new.sa_sigaction = tell as *const () as usize;
            new.sa_flags = libc::SA_ONSTACK | libc::SA_RESETHAND | libc::SA_NODEFER;
            libc::sigaction(signal, &new, null_mut());
        }
    }
}

/// The handler.
extern "C" fn tell(signal: c_int) {
    let mut line = [0u8; 200];
    let mut room = &mut line[..];
    let head = HEAD.get().map_or(&[][..], Vec::as_slice);
    let _ = room.write_all(&head[..head.len().min(150)]);
    let _ = writeln!(room, " crashes with signal {signal} in:");
    let left = room.len();
    let mut frames = [null_mut::<c_void>(); FRAMES];
    // SAFETY: the buffers are as long as the calls are told; the last one ends the process as if there were no
    // handler, which SA_RESETHAND has taken away.
    unsafe {
        libc::write(2, line.as_ptr().cast(), line.len() - left);
        let count = libc::backtrace(frames.as_mut_ptr(), FRAMES as c_int);
        backtrace_symbols_fd(frames.as_ptr(), count, 2);
        libc::raise(signal);
    }
}

unsafe extern "C" {
    /// backtrace_symbols_fd(3).
    fn backtrace_symbols_fd(frames: *const *mut c_void, count: c_int, fd: c_int);
}
