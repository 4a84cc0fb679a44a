//! # Safety
//! Relies on the kernel: system calls get buffers that live as long as the call, and descriptors
//! that the kernel has just handed out; and on the launcher, whose descriptors [`inherited`] takes over.
//!
//! Descriptors that come from outside: inherited by number, or passed by a peer over a socket.
//! Source: fcntl(2), unix(7), cmsg(3).
#![allow(unsafe_code)]

use std::io::{self, Error, ErrorKind};
use std::mem::{ManuallyDrop, size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Takes over the descriptor whose number the launcher left in environment variable `variable`, and marks
/// it to be closed by `exec`. To be called once per variable.
///
/// # Errors
/// When the variable is no number, nothing is open under it, or it is one of the three standard streams.
pub fn inherited(variable: &str) -> io::Result<OwnedFd> {
    let text = std::env::var(variable).map_err(|e| Error::new(ErrorKind::InvalidInput, e))?;
    let number: RawFd = text.parse().map_err(|e| Error::new(ErrorKind::InvalidInput, e))?;
    if number <= libc::STDERR_FILENO {
        return Err(Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: fcntl touches no memory of ours.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    // SAFETY: it is open, and the launcher opened it for us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// True if the descriptor is a memory file (memfd_create(2)), which no other kind of file can pretend to be
/// short of living on a tmpfs.
pub fn is_memory_file(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: fcntl touches no memory of ours.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) >= 0 }
}

/// Sends all of `bytes`; a peer that is gone is an error (`EPIPE`), never a signal.
///
/// # Errors
/// What send(2) reports.
pub fn send_all(socket: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        // SAFETY: the pointer and length are those of a live slice.
        let sent = unsafe {
            libc::send(
                socket.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                libc::MSG_NOSIGNAL,
            )
        };
        match check_len(sent) {
            Ok(count) => bytes = &bytes[count..],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Reads what is there into `room`, waiting for the first byte; 0 is the end.
///
/// # Errors
/// What read(2) reports.
pub fn read_some(fd: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<usize> {
    loop {
        // SAFETY: the pointer and length are those of a live slice.
        let got = unsafe { libc::read(fd.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) };
        match check_len(got) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Writes what `fd` takes of `bytes`; of a pipe or a terminal that is full and not to be waited for, the error is `WouldBlock`.
///
/// # Errors
/// What write(2) reports.
pub fn write_some(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    loop {
        // SAFETY: the pointer and length are those of a live slice.
        let put = unsafe { libc::write(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
        match check_len(put) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Writes all of `bytes`, waiting for the reader also where whoever shares the descriptor has made it one that does not wait.
///
/// # Errors
/// What write(2) reports.
pub fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match write_some(fd, bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(e) if e.kind() == ErrorKind::WouldBlock => wait(fd, libc::POLLOUT, Duration::from_secs(60)),
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// True once the other end of a socket is closed and everything it sent has been read. Never waits.
pub fn is_closed(socket: BorrowedFd<'_>) -> bool {
    let mut byte = [0u8];
    let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: the pointer and length are those of a live array.
    check_len(unsafe { libc::recv(socket.as_raw_fd(), byte.as_mut_ptr().cast(), 1, flags) })
        .map_or_else(|e| e.kind() == ErrorKind::ConnectionReset, |count| count == 0)
}

/// Waits until something can be read from `fd`, or the time is over.
pub fn wait_readable(fd: BorrowedFd<'_>, time: Duration) {
    wait(fd, libc::POLLIN, time);
}

fn wait(fd: BorrowedFd<'_>, events: libc::c_short, time: Duration) {
    let mut one = libc::pollfd {
        fd: fd.as_raw_fd(),
        events,
        revents: 0,
    };
    // SAFETY: one live pollfd; any outcome is fine, the caller looks for itself.
    unsafe { libc::poll(&mut one, 1, time.as_millis().min(60_000) as libc::c_int) };
}

/// Who was at the other end of a unix socket when it was connected: (pid, effective uid).
/// The pid is 0 if the peer is in a pid namespace that we cannot see.
///
/// # Errors
/// What getsockopt(2) reports.
pub fn peer(socket: BorrowedFd<'_>) -> io::Result<(i32, u32)> {
    // SAFETY: ucred is plain integers.
    let mut who: libc::ucred = unsafe { zeroed() };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes into `who`.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut who).cast(),
            &mut len,
        )
    })?;
    Ok((who.pid, who.uid))
}

/// The effective user of this process.
pub fn effective_user() -> u32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() }
}

/// The parent of this process: the launcher, or what it put between itself and us.
pub fn parent() -> i32 {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::getppid() }
}

/// A descriptor in a process whose program may close it unasked, and open something of its own under the number.
#[derive(Debug)]
pub struct Lasting {
    fd: ManuallyDrop<OwnedFd>,
    /// Device and number of what is open there.
    identity: (u64, u64),
}

impl Lasting {
    /// Keeps `fd`.
    ///
    /// # Errors
    /// What fstat(2) says.
    pub fn new(fd: OwnedFd) -> io::Result<Lasting> {
        Ok(Lasting {
            identity: identity(fd.as_fd())?,
            fd: ManuallyDrop::new(fd),
        })
    }

    /// The descriptor, if it is what it was. Cost: one system call.
    pub fn get(&self) -> Option<BorrowedFd<'_>> {
        let is_same = identity(self.fd.as_fd()).is_ok_and(|found| found == self.identity);
        is_same.then(|| self.fd.as_fd())
    }

    /// Its number.
    pub fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        if self.get().is_some() {
            // SAFETY: dropped once, here, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.fd) };
        }
    }
}

fn identity(fd: BorrowedFd<'_>) -> io::Result<(u64, u64)> {
    // SAFETY: plain data that the call fills in.
    let mut about: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    match unsafe { libc::fstat(fd.as_raw_fd(), &mut about) } {
        0 => Ok((about.st_dev, about.st_ino)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Room for one descriptor in a control message, aligned as its header.
#[repr(C, align(8))]
struct Control([u8; 64]);

/// Passes `fd` to the other end of a unix socket, with one byte of data to carry it.
///
/// # Errors
/// What sendmsg(2) reports.
pub fn send_descriptor(socket: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut byte = [b'f'];
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut control = Control([0; 64]);
    let size = size_of::<RawFd>() as libc::c_uint;
    // SAFETY: msghdr is plain data; all zero is "nothing".
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: CMSG_* only compute; the first header lies inside `control`, which is large and aligned enough.
    unsafe {
        message.msg_controllen = libc::CMSG_SPACE(size) as usize;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size) as usize;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(fd.as_raw_fd());
    }
    // SAFETY: everything `message` points at lives until the call returns.
    check_len(unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) })?;
    Ok(())
}

/// Receives the descriptor that [`send_descriptor`] passed; it is closed by `exec`.
///
/// # Errors
/// What recvmsg(2) reports; `InvalidData` if the message carries no descriptor.
pub fn receive_descriptor(socket: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let mut byte = [0u8];
    let mut part = libc::iovec {
        iov_base: byte.as_mut_ptr().cast(),
        iov_len: 1,
    };
    let mut control = Control([0; 64]);
    // SAFETY: msghdr is plain data; all zero is "nothing".
    let mut message: libc::msghdr = unsafe { zeroed() };
    message.msg_iov = &mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // SAFETY: CMSG_SPACE only computes.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(size_of::<RawFd>() as libc::c_uint) } as usize;
    // SAFETY: everything `message` points at lives until the call returns.
    let got = check_len(unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) })?;
    // SAFETY: the kernel filled `control` up to msg_controllen, which CMSG_FIRSTHDR checks; a header of
    // SCM_RIGHTS of this length holds one descriptor, new and ours.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        let whole = libc::CMSG_LEN(size_of::<RawFd>() as libc::c_uint) as usize;
        if got == 0 || header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS || (*header).cmsg_len < whole {
            return Err(Error::new(
                ErrorKind::InvalidData,
                "no descriptor came with the message",
            ));
        }
        Ok(OwnedFd::from_raw_fd(
            libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned(),
        ))
    }
}

/// 128 bits nobody can guess.
///
/// # Errors
/// What getrandom(2) reports.
pub fn random() -> io::Result<u128> {
    let mut bytes = [0u8; 16];
    // SAFETY: the pointer and length are those of a live array.
    let got = check_len(unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) })?;
    if got != bytes.len() {
        return Err(Error::new(ErrorKind::UnexpectedEof, "the kernel has no random bytes"));
    }
    Ok(u128::from_ne_bytes(bytes))
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(Error::last_os_error())
    } else {
        Ok(result)
    }
}

fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_descriptor_travels() {
        let (left, right) = UnixStream::pair().unwrap();
        let (mut inner, far) = UnixStream::pair().unwrap();
        send_descriptor(left.as_fd(), far.as_fd()).unwrap();
        drop(far);
        let mut got = UnixStream::from(receive_descriptor(right.as_fd()).unwrap());
        got.write_all(b"hello").unwrap();
        drop(got);
        let mut text = String::new();
        inner.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }

    #[test]
    fn plain_data_is_no_descriptor() {
        let (mut left, right) = UnixStream::pair().unwrap();
        left.write_all(b"f").unwrap();
        assert_eq!(
            receive_descriptor(right.as_fd()).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
        drop(left);
        assert_eq!(
            receive_descriptor(right.as_fd()).unwrap_err().kind(),
            ErrorKind::InvalidData
        );
    }

    #[test]
    fn a_closed_end_is_noticed() {
        let (left, mut right) = UnixStream::pair().unwrap();
        assert!(!is_closed(left.as_fd()), "open and silent");
        right.write_all(b"x").unwrap();
        drop(right);
        assert!(!is_closed(left.as_fd()), "there is something to read");
        read_some(left.as_fd(), &mut [0; 4]).unwrap();
        assert!(is_closed(left.as_fd()));
    }

    #[test]
    fn a_gone_peer_is_an_error_not_a_signal() {
        let (left, right) = UnixStream::pair().unwrap();
        drop(right);
        assert_eq!(send_all(left.as_fd(), b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_reader_that_is_slow_gets_all_of_a_socket_that_does_not_wait() {
        let (left, mut right) = UnixStream::pair().unwrap();
        left.set_nonblocking(true).unwrap();
        let sent: Vec<u8> = (0..3 << 20).map(|i| (i % 251) as u8).collect();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write_all(left.as_fd(), &sent));
            let mut got = vec![0; sent.len()];
            right.read_exact(&mut got).unwrap();
            assert!(got == sent && writer.join().unwrap().is_ok());
        });
        // More than it holds, and nobody reads.
        while write_some(left.as_fd(), &sent).is_ok() {}
        assert_eq!(
            write_some(left.as_fd(), b"x").unwrap_err().kind(),
            ErrorKind::WouldBlock
        );
    }

    #[test]
    fn the_peer_of_our_own_socket_is_us() {
        let (left, _right) = UnixStream::pair().unwrap();
        assert_eq!(
            peer(left.as_fd()).unwrap(),
            (std::process::id() as i32, effective_user())
        );
        assert!(!is_memory_file(left.as_fd()));
    }

    #[test]
    fn only_what_the_environment_names_is_taken() {
        assert!(inherited("NEARMPI_NO_SUCH_VARIABLE").is_err());
        assert!(inherited("PATH").is_err(), "not a number");
    }
}
