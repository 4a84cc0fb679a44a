//! What the commands say. A reader that is gone changes neither what a command does nor its exit code; the macros of the
//! standard library would end it by a panic.

use mpi::sys::descriptor::write_all;
use std::io::{ErrorKind, stderr, stdout};
use std::os::fd::AsFd;

/// Prints `text` on standard output. False if the reader has seen enough (`| head`), which is no failure.
///
/// # Errors
/// A sentence: the disk is full, or the like.
pub fn out(text: &str) -> Result<bool, String> {
    match write_all(stdout().as_fd(), text.as_bytes()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot print: {error}")),
    }
}

/// Writes `text`, which gets an end of line if it has none, to standard error, if anybody reads that. In one piece, so that
/// nobody writes between its words.
pub fn aside(text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = write_all(stderr().as_fd(), format!("{text}{end}").as_bytes());
}
