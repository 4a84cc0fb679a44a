//! # Safety
//! Relies on ioctl(2) filling in the structure it is given.
//!
//! The machine's name, and the size of a terminal.
#![allow(unsafe_code)]

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
