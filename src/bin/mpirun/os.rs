//! # Safety
//! Relies on the kernel: system calls get buffers that live as long as the call. What runs between
//! fork and exec makes system calls only, on values prepared before.
//!
//! What the launcher asks of the kernel beyond the standard library.
//! Source: prctl(2), signalfd(2), waitpid(2), poll(2).
#![allow(unsafe_code)]

use mpi::sys::cpu;
use mpi::sys::cpuset::CpuSet;
use mpi::sys::pages::Policy;
use std::fs::File;
use std::io::{self, Error, ErrorKind, Read};
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exit(i32),
    Signal(i32),
}

/// What the child does between fork and exec.
pub struct Child {
    /// CPUs to bind to; empty: none in particular.
    pub cpus: CpuSet,
    /// Where its memory comes from.
    pub policy: Option<Policy>,
    /// Descriptors that stay open over exec, under the same numbers.
    pub keep: Vec<RawFd>,
    /// A process group of its own.
    pub own_group: bool,
    /// And a session of its own.
    pub own_session: bool,
    /// The limit of open files to go back to.
    pub files: Files,
    /// The signals to block: those that were blocked when the launcher began.
    pub mask: Mask,
}

/// A set of signals.
#[derive(Clone, Copy)]
pub struct Mask(libc::sigset_t);

/// A limit of open files.
#[derive(Clone, Copy)]
pub struct Files(libc::rlimit);

/// Makes `command`'s child die with the launcher, and gives it what `child` says.
pub fn prepare(command: &mut Command, child: Child) {
    let launcher = std::process::id() as libc::pid_t;
    let before_exec = move || {
        // SAFETY: system calls on values that the closure owns; nothing allocates.
        unsafe {
            let dies_with_us = libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            // The launcher may have died before the call above.
            if dies_with_us < 0 || libc::getppid() != launcher {
                return Err(Error::from_raw_os_error(libc::ESRCH));
            }
            let alone = match (child.own_session, child.own_group) {
                (true, _) => libc::setsid(),
                (false, true) => libc::setpgid(0, 0),
                _ => 0,
            };
            if alone < 0 {
                return Err(Error::last_os_error());
            }
            if !child.cpus.is_empty() {
                // A CPU that went offline meanwhile is no reason not to run.
                cpu::bind(&child.cpus);
            }
            if let Some(policy) = &child.policy {
                policy.apply()?;
            }
            for &fd in &child.keep {
                if libc::fcntl(fd, libc::F_SETFD, 0) < 0 {
                    return Err(Error::last_os_error());
                }
            }
            libc::setrlimit(libc::RLIMIT_NOFILE, &child.files.0);
            libc::sigprocmask(libc::SIG_SETMASK, &child.mask.0, std::ptr::null_mut());
        }
        Ok(())
    };
    // SAFETY: the closure is fit for the time between fork and exec, see there.
    unsafe { command.pre_exec(before_exec) };
}

/// Whether `fd` is a terminal that stops processes of background groups that write to it (`stty tostop`).
pub fn stops_writers(fd: BorrowedFd<'_>) -> bool {
    // SAFETY: termios is plain data, which the call fills in.
    unsafe {
        let mut mode: libc::termios = zeroed();
        libc::tcgetattr(fd.as_raw_fd(), &mut mode) == 0 && mode.c_lflag & libc::TOSTOP != 0
    }
}

/// Orphans among our descendants become our children, so that they can be found and ended.
pub fn adopt_orphans() {
    // SAFETY: plain integers. A kernel without it only leaves orphans to init.
    unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) };
}

/// Goes on in a new process, of which the calling one is no parent any more: that ends with code 0. The new one gets SIGTERM
/// when whoever has adopted it ends.
///
/// # Errors
/// What fork(2) reports.
pub fn detach() -> io::Result<()> {
    // SAFETY: there is one thread, so the child has all that the parent had.
    unsafe {
        let parent = libc::getpid();
        match libc::fork() {
            -1 => return Err(Error::last_os_error()),
            0 => {}
            _ => libc::_exit(0),
        }
        while libc::getppid() == parent {
            libc::sched_yield();
        }
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
    }
    Ok(())
}

/// Raises our limit of open files as far as allowed; returns the former one.
pub fn raise_files() -> Files {
    // SAFETY: rlimit is plain data, and the kernel writes one of them.
    unsafe {
        let mut limit: libc::rlimit = zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let raised = libc::rlimit {
            rlim_cur: limit.rlim_max,
            rlim_max: limit.rlim_max,
        };
        libc::setrlimit(libc::RLIMIT_NOFILE, &raised);
        Files(limit)
    }
}

/// A duplicate of `fd` under a number that programs and shells do not use themselves, closed by exec.
///
/// # Errors
/// What fcntl(2) reports.
pub fn out_of_the_way(fd: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    for lowest in [40, 3] {
        // SAFETY: fcntl touches no memory of ours.
        let number = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, lowest) };
        if number >= 0 {
            // SAFETY: the kernel has just made it.
            return Ok(unsafe { OwnedFd::from_raw_fd(number) });
        }
    }
    Err(Error::last_os_error())
}

/// A memory file that several processes may write to, one after the other's end.
///
/// # Errors
/// What memfd_create(2) reports.
pub fn report_file() -> io::Result<OwnedFd> {
    // SAFETY: the name is a C string.
    let number = unsafe { libc::memfd_create(c"nearmpi-report".as_ptr(), libc::MFD_CLOEXEC) };
    if number < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: the kernel has just made it.
    let file = unsafe { OwnedFd::from_raw_fd(number) };
    // The kernel does not lock a memory file's position: two writers at once would write to the same place.
    // SAFETY: plain integers.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, libc::O_APPEND) } < 0 {
        return Err(Error::last_os_error());
    }
    out_of_the_way(file.as_fd())
}

/// True if standard input is a terminal and we are the ones who may read it.
pub fn reads_terminal() -> bool {
    // SAFETY: plain integers.
    unsafe { libc::isatty(0) == 1 && libc::tcgetpgrp(0) == libc::getpgrp() }
}

/// Signals as something to read.
pub struct Signals {
    file: File,
    /// The signals that were blocked before.
    pub before: Mask,
}

/// A signal that came.
pub struct Signal {
    pub number: i32,
    /// Sent by the terminal to its whole foreground group, not by a process to us.
    pub from_terminal: bool,
}

impl Signals {
    /// Blocks `numbers` and reads them instead, those too that who started us had ignored (of children whose SIGCHLD is ignored
    /// nobody learns how they ended, waitpid(2)) but SIGHUP and SIGQUIT: nohup(1), and a shell that starts us in the background, have them ignored for us to go on.
    ///
    /// # Errors
    /// What signalfd(2) reports.
    pub fn new(numbers: &[i32]) -> io::Result<Signals> {
        // SAFETY: sets are plain data that the calls fill in.
        unsafe {
            let (mut set, mut before): (libc::sigset_t, libc::sigset_t) = (zeroed(), zeroed());
            libc::sigemptyset(&mut set);
            for &number in numbers {
                let mut now: libc::sigaction = zeroed();
                libc::sigaction(number, std::ptr::null(), &mut now);
                let may_be_ignored = matches!(number, libc::SIGHUP | libc::SIGQUIT);
                if !may_be_ignored || now.sa_sigaction != libc::SIG_IGN {
                    libc::sigaddset(&mut set, number);
                }
            }
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::sigprocmask(libc::SIG_BLOCK, &set, &mut before);
            let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(Error::last_os_error());
            }
            Ok(Signals {
                file: File::from_raw_fd(fd),
                before: Mask(before),
            })
        }
    }

    /// The next signal that has come.
    pub fn next(&mut self) -> Option<Signal> {
        let mut room = [0u8; size_of::<libc::signalfd_siginfo>()];
        match self.file.read(&mut room) {
            Ok(count) if count == room.len() => {
                // SAFETY: the kernel wrote one whole siginfo, which is plain integers.
                let info: libc::signalfd_siginfo = unsafe { std::ptr::read_unaligned(room.as_ptr().cast()) };
                Some(Signal {
                    number: info.ssi_signo as i32,
                    from_terminal: info.ssi_code == SI_KERNEL,
                })
            }
            _ => None,
        }
    }
}

const SI_KERNEL: i32 = 0x80;

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Waits until one of `to_read` has something to read, one of `to_write` can be written to (or the other end is gone), or the time
/// is over; says which have and can, in this order.
pub fn poll(to_read: &[BorrowedFd<'_>], to_write: &[BorrowedFd<'_>], time: Option<Duration>) -> Vec<bool> {
    let entry = |fd: &BorrowedFd<'_>, events| libc::pollfd {
        fd: fd.as_raw_fd(),
        events,
        revents: 0,
    };
    let to_read = to_read.iter().map(|fd| entry(fd, libc::POLLIN));
    let to_write = to_write.iter().map(|fd| entry(fd, libc::POLLOUT));
    let mut entries: Vec<_> = to_read.chain(to_write).collect();
    // Rounded up: waking before the time would make the caller spin.
    let time = time.map_or(-1, |t| {
        t.as_micros().div_ceil(1000).min(i32::MAX as u128) as libc::c_int
    });
    // SAFETY: the pointer and length are those of a live vector.
    let ready = unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, time) };
    entries.iter().map(|e| ready > 0 && e.revents != 0).collect()
}

/// How many bytes can be written to a pipe without waiting, as long as nobody else writes to it.
pub fn room(pipe: BorrowedFd<'_>) -> usize {
    if !poll(&[], &[pipe], Some(Duration::ZERO))[0] {
        return 0;
    }
    let mut held: libc::c_int = 0;
    // SAFETY: the kernel writes one integer; the other call touches no memory of ours.
    let (known, size) = unsafe {
        let known = libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &mut held) == 0;
        (known, libc::fcntl(pipe.as_raw_fd(), libc::F_GETPIPE_SZ))
    };
    match usize::try_from(size) {
        // A page may be taken by a few bytes, so only of an empty pipe the room is known.
        Ok(size) if known && held == 0 => size,
        _ => libc::PIPE_BUF,
    }
}

/// The next child of ours that has ended; `Ok(None)` while those that are left live.
///
/// # Errors
/// `ECHILD` when there are no children.
pub fn reap() -> io::Result<Option<(i32, End)>> {
    let mut status = 0;
    // SAFETY: the kernel writes one integer.
    match unsafe { libc::waitpid(-1, &mut status, libc::WNOHANG) } {
        0 => Ok(None),
        pid if pid < 0 => Err(Error::last_os_error()),
        pid if libc::WIFSIGNALED(status) => Ok(Some((pid, End::Signal(libc::WTERMSIG(status))))),
        pid => Ok(Some((pid, End::Exit(libc::WEXITSTATUS(status))))),
    }
}

/// Sends a signal to a process, or to the group that it leads.
pub fn kill(pid: i32, group: bool, signal: i32) {
    if pid > 1 {
        // SAFETY: plain integers. A process that is gone needs no signal.
        unsafe { libc::kill(if group { -pid } else { pid }, signal) };
    }
}

/// Whether a process has a handler for a signal, or ignores it.
pub fn catches(pid: i32, signal: i32) -> bool {
    let has = |line: &str| {
        let mask = line.strip_prefix("SigCgt:").or_else(|| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
    };
    status(pid).lines().any(has)
}

/// Whether a debugger, or another program that traces processes, has a process.
pub fn is_traced(pid: i32) -> bool {
    let tracer = |line: &str| line.strip_prefix("TracerPid:").map(|tracer| tracer.trim() != "0");
    status(pid).lines().find_map(tracer).unwrap_or(false)
}

/// What the kernel says of a process (proc(5)); nothing of one that is gone.
fn status(pid: i32) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

/// The time as date(1) has it in the C locale: `Fri Nov 20 15:45:09 2026`.
pub fn local_time() -> String {
    let mut room = [0u8; 64];
    // SAFETY: the calls fill in plain data of ours, and the format ends in NUL.
    let len = unsafe {
        let now = libc::time(std::ptr::null_mut());
        let mut parts: libc::tm = zeroed();
        libc::localtime_r(&now, &mut parts);
        libc::strftime(
            room.as_mut_ptr().cast(),
            room.len(),
            c"%a %b %e %H:%M:%S %Y".as_ptr(),
            &parts,
        )
    };
    String::from_utf8_lossy(&room[..len]).into_owned()
}

/// Reads what is there without waiting; `None` when nothing is.
///
/// # Errors
/// What recv(2) and read(2) report.
pub fn read_now(socket: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the pointer and length are those of a live slice.
    let got = unsafe {
        libc::recv(
            socket.as_raw_fd(),
            room.as_mut_ptr().cast(),
            room.len(),
            libc::MSG_DONTWAIT,
        )
    };
    result(got)
}

/// Sends without waiting and without a signal; false if it does not go out whole.
pub fn send_now(socket: BorrowedFd<'_>, bytes: &[u8]) -> bool {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the pointer and length are those of a live slice.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    sent == bytes.len() as isize
}

/// Sends what `socket` takes of `bytes` without waiting.
///
/// # Errors
/// What send(2) reports.
pub fn send_some(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the pointer and length are those of a live slice.
    let sent = unsafe { libc::send(socket.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    result(sent)?.ok_or(ErrorKind::WouldBlock.into())
}

/// Reads from a pipe of ours, waiting if it is empty.
///
/// # Errors
/// What read(2) reports.
pub fn read_pipe(pipe: BorrowedFd<'_>, room: &mut [u8]) -> io::Result<Option<usize>> {
    // SAFETY: the pointer and length are those of a live slice.
    result(unsafe { libc::read(pipe.as_raw_fd(), room.as_mut_ptr().cast(), room.len()) })
}

fn result(got: libc::ssize_t) -> io::Result<Option<usize>> {
    match usize::try_from(got) {
        Ok(count) => Ok(Some(count)),
        Err(_) => match Error::last_os_error() {
            e if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            e => Err(e),
        },
    }
}

/// The signal's name.
pub fn signal_name(signal: i32) -> &'static str {
    const NAMES: [(i32, &str); 16] = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    NAMES
        .iter()
        .find(|(number, _)| *number == signal)
        .map_or("an uncommon one", |(_, name)| name)
}
