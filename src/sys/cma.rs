//! # Safety
//! Relies on the kernel to check both processes' addresses; the caller owns the local side.
//!
//! Cross-memory attach: one copy between two address spaces (process_vm_readv(2), process_vm_writev(2)).
#![allow(unsafe_code)]

use std::io;

/// Most bytes one call is asked for; the kernel itself stops at 0x7ffff000.
const CALL_LIMIT: usize = 1 << 30;

/// Copies `len` bytes at `remote` in process `pid` to `local`.
///
/// # Errors
/// What the kernel says (EPERM, ESRCH, EFAULT, ENOSYS ...), or `UnexpectedEof` when part of the
/// source is not mapped. What was copied before an error is left in place.
///
/// # Safety
/// `local` is writable for `len` bytes.
pub unsafe fn read(pid: i32, remote: u64, local: *mut u8, len: usize) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe { transfer(libc::process_vm_readv, pid, remote, local, len) }
}

/// Copies `len` bytes at `local` to `remote` in process `pid`.
///
/// # Errors
/// As [`read`].
///
/// # Safety
/// `local` is readable for `len` bytes.
pub unsafe fn write(pid: i32, remote: u64, local: *const u8, len: usize) -> io::Result<()> {
    // SAFETY: the caller's promise; this call only reads the local side.
    unsafe { transfer(libc::process_vm_writev, pid, remote, local.cast_mut(), len) }
}

type Call = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> libc::ssize_t;

unsafe fn transfer(call: Call, pid: i32, remote: u64, local: *mut u8, len: usize) -> io::Result<()> {
    let mut done = 0;
    while done < len {
        let chunk = (len - done).min(CALL_LIMIT);
        let here = libc::iovec {
            iov_base: local.wrapping_add(done).cast(),
            iov_len: chunk,
        };
        let there = libc::iovec {
            iov_base: (remote as usize).wrapping_add(done) as *mut _,
            iov_len: chunk,
        };
        // SAFETY: `here` lies within the caller's buffer; the kernel checks `there`.
        let got = unsafe { call(pid, &here, 1, &there, 1, 0) };
        match got {
            1.. => done += got as usize,
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

/// Lets `tracer` and its descendants (our launcher and so all ranks) read this process where the
/// Yama security module would forbid it (prctl(2), PR_SET_PTRACER). Without Yama nothing changes.
pub fn allow_reads_by(tracer: i32) {
    // SAFETY: plain integers.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, tracer as libc::c_ulong, 0, 0, 0) };
}
