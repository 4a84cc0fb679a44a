//! # Safety
//! Relies on ioctl(2) and dladdr(3) filling in the structure they are given.
//!
//! The machine's name, where this code is installed, and the size of a terminal.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Width and height, in letters, of the terminal behind descriptor `fd`; `None` if it is no terminal.
pub fn terminal_size(fd: i32) -> Option<(usize, usize)> {
    // SAFETY: winsize is plain data; zero is valid.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one winsize.
    let done = unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, &mut size) };
    // A terminal that does not know its size gives zeros.
    let or = |letters: u16, usual| if letters == 0 { usual } else { usize::from(letters) };
    (done == 0).then(|| (or(size.ws_col, 80), or(size.ws_row, 24)))
}

/// The name of this machine as uname(2) has it; "localhost" where /proc does not tell.
pub fn name() -> String {
    match std::fs::read_to_string("/proc/sys/kernel/hostname") {
        Ok(name) => name.trim_end().to_owned(),
        Err(_) => "localhost".to_owned(),
    }
}

/// The file that this code was loaded from, whatever name the linker knows it by.
pub fn library() -> Option<PathBuf> {
    // SAFETY: plain data; zero is valid. The call fills it in for an address of ours, and the name stays.
    let name = unsafe {
        let mut found: libc::Dl_info = std::mem::zeroed();
        let known = libc::dladdr(library as *const libc::c_void, &mut found) != 0;
        (known && !found.dli_fname.is_null()).then(|| CStr::from_ptr(found.dli_fname))
    }?;
    Path::new(OsStr::from_bytes(name.to_bytes())).canonicalize().ok()
}
