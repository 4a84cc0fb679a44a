//! Where the ranks' output and our own messages go. What a reader does not take at once waits here, so that mpirun never waits for
//! one: it sees to signals, deaths and the time limit all the while.
//!
//! Whether a write waits is a property that we share with everybody who has the same pipe or terminal open. So we open it once
//! more, by way of /proc, and only our own opening of it does not wait. Where that is not allowed, we write to a pipe that says it
//! is writable no more than it is then sure to take (poll(2), pipe(7)).

use crate::os;
use mpi::sys::descriptor::write_some;
use std::collections::{HashMap, VecDeque};
use std::fs::{self, File, Metadata};
use std::io::{self, Error, ErrorKind, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// When so many bytes wait for a reader, ranks wait as well: their output is read no further.
const FULL: usize = 1 << 18;

/// How much can be written without waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// All that it takes.
    Free,
    /// The same, if each call says so.
    Socket,
    /// What a pipe has room for.
    Pieces,
}

/// One file, pipe or terminal.
struct Outlet {
    name: String,
    file: File,
    way: Way,
    waiting: VecDeque<u8>,
    /// Some of what waits is the ranks', not ours.
    is_owed: bool,
    /// Why nothing can be written any more.
    broken: Option<String>,
}

/// All that is written to. An outlet's number stays its own.
pub struct Outlets {
    all: Vec<Outlet>,
    /// The number of standard error; that of standard output is 0.
    errors: usize,
    /// Files by name; ranks may share one.
    files: HashMap<String, usize>,
}

impl Outlet {
    fn new(name: &str, fd: BorrowedFd<'_>) -> io::Result<Outlet> {
        let own = File::from(fd.try_clone_to_owned()?);
        let kind = own.metadata()?.file_type();
        let again = || {
            let mut options = File::options();
            options.write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
            options.open(format!("/proc/self/fd/{}", own.as_raw_fd()))
        };
        let (file, way) = match kind.is_fifo() || own.is_terminal() {
            true => match again() {
                Ok(file) => (file, Way::Free),
                Err(_) => (own, Way::Pieces),
            },
            false if kind.is_socket() => (own, Way::Socket),
            false => (own, Way::Free),
        };
        Ok(Outlet {
            name: name.to_string(),
            file,
            way,
            waiting: VecDeque::new(),
            is_owed: false,
            broken: None,
        })
    }

    /// Writes of `bytes` what is taken now.
    fn put(&self, bytes: &[u8]) -> io::Result<usize> {
        let fd = self.file.as_fd();
        let put = match self.way {
            Way::Free => write_some(fd, bytes),
            Way::Socket => os::send_some(fd, bytes),
            Way::Pieces => match os::room(fd) {
                0 => Err(ErrorKind::WouldBlock.into()),
                room => write_some(fd, &bytes[..bytes.len().min(room)]),
            },
        };
        match put {
            Ok(0) => Err(ErrorKind::WriteZero.into()),
            other => other,
        }
    }

    /// Writes `bytes`, now or when they are taken.
    ///
    /// # Errors
    /// Output of ranks is lost; the sentence says why. What we have to say ourselves may be lost.
    fn write(&mut self, mut bytes: &[u8], is_ranks: bool) -> Result<(), String> {
        if let Some(why) = &self.broken {
            return if is_ranks { Err(why.clone()) } else { Ok(()) };
        }
        self.is_owed |= is_ranks;
        while self.waiting.is_empty() && !bytes.is_empty() {
            match self.put(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) => return self.fail(&e),
            }
        }
        self.waiting.extend(bytes);
        self.is_owed &= self.is_behind();
        Ok(())
    }

    /// Writes of what waits as much as is taken now.
    fn flush(&mut self) -> Result<(), String> {
        while self.is_behind() {
            match self.put(self.waiting.as_slices().0) {
                Ok(count) => drop(self.waiting.drain(..count)),
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(e) => return self.fail(&e),
            }
        }
        self.is_owed = false;
        Ok(())
    }

    fn fail(&mut self, error: &Error) -> Result<(), String> {
        let why = match error.kind() {
            ErrorKind::BrokenPipe => format!("the reader of {} is gone", self.name),
            _ => format!("cannot write to {}: {error}", self.name),
        };
        self.broken = Some(why.clone());
        self.waiting = VecDeque::new();
        if self.is_owed { Err(why) } else { Ok(()) }
    }

    fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }
}

impl Outlets {
    /// Standard output and standard error. Where these are the same, what is written to both keeps its order.
    ///
    /// # Errors
    /// What the kernel says of them.
    pub fn new() -> io::Result<Outlets> {
        let (out, err) = (io::stdout(), io::stderr());
        let identity = |data: Metadata| (data.dev(), data.ino());
        let first = Outlet::new("standard output", out.as_fd())?;
        let second = Outlet::new("standard error", err.as_fd())?;
        let is_one = identity(first.file.metadata()?) == identity(second.file.metadata()?);
        let mut all = vec![first];
        if !is_one {
            all.push(second);
        }
        Ok(Outlets {
            errors: all.len() - 1,
            all,
            files: HashMap::new(),
        })
    }

    /// The file of this name, made when it is first asked for.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn open(&mut self, name: &str) -> io::Result<usize> {
        if let Some(&number) = self.files.get(name) {
            return Ok(number);
        }
        if let Some(folder) = Path::new(name).parent() {
            fs::create_dir_all(folder)?;
        }
        let file = File::create(name).map_err(|e| Error::new(e.kind(), format!("{name}: {e}")))?;
        self.all.push(Outlet::new(name, file.as_fd())?);
        self.files.insert(name.to_string(), self.all.len() - 1);
        Ok(self.all.len() - 1)
    }

    /// The number of standard output or standard error.
    pub fn standard(&self, is_error: bool) -> usize {
        if is_error { self.errors } else { 0 }
    }

    /// Whether standard output and standard error are the same.
    pub fn are_one(&self) -> bool {
        self.errors == 0
    }

    /// Writes what ranks have to say.
    ///
    /// # Errors
    /// It is lost; the sentence says why.
    pub fn write(&mut self, number: usize, bytes: &[u8]) -> Result<(), String> {
        self.all[number].write(bytes, true)
    }

    /// Writes what mpirun has to say to standard error, if anybody reads that.
    pub fn say(&mut self, text: &str) {
        // That it is lost has no consequence.
        let _ = self.all[self.errors].write(text.as_bytes(), false);
    }

    /// Those with something that their readers have not taken yet.
    pub fn behind(&self) -> Vec<usize> {
        (0..self.all.len()).filter(|&number| self.is_behind(number)).collect()
    }

    /// Whether no more is to be written to this one for now.
    pub fn is_full(&self, number: usize) -> bool {
        self.all[number].waiting.len() >= FULL
    }

    /// Whether something waits in this one.
    pub fn is_behind(&self, number: usize) -> bool {
        self.all[number].is_behind()
    }

    /// What to wait for, until it can be written to.
    pub fn descriptor(&self, number: usize) -> BorrowedFd<'_> {
        self.all[number].file.as_fd()
    }

    /// Writes of what waits in this one as much as its reader takes now.
    ///
    /// # Errors
    /// As [`Outlets::write`].
    pub fn flush(&mut self, number: usize) -> Result<(), String> {
        self.all[number].flush()
    }

    /// Waits for no reader any more.
    pub fn give_up(&mut self) {
        for number in self.behind() {
            let outlet = &mut self.all[number];
            let lost = std::mem::take(&mut outlet.waiting).len();
            let text = format!("mpirun: {lost} bytes are lost: {} is not being read\n", outlet.name);
            self.say(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{PipeReader, Read};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    /// An outlet into a pipe, and the pipe's other end.
    fn piped(way: Option<Way>) -> (Outlet, PipeReader) {
        let (reader, writer) = io::pipe().unwrap();
        let mut outlet = Outlet::new("the pipe", writer.as_fd()).unwrap();
        if let Some(way) = way {
            (outlet.file, outlet.way) = (File::from(std::os::fd::OwnedFd::from(writer)), way);
        }
        (outlet, reader)
    }

    /// What comes out when `outlet` gets `sent`, whose reader is asleep until all that does not fit waits.
    fn passed_on(mut outlet: Outlet, mut reader: impl Read + Send, sent: &[u8]) -> Vec<u8> {
        outlet.write(sent, true).unwrap();
        assert!(outlet.is_behind(), "nobody has read");
        outlet.flush().unwrap();
        std::thread::scope(|scope| {
            let all = scope.spawn(move || {
                let mut all = Vec::new();
                reader.read_to_end(&mut all).map(|_| all)
            });
            while outlet.is_behind() {
                os::poll(&[], &[outlet.file.as_fd()], Some(Duration::from_secs(10)));
                outlet.flush().unwrap();
            }
            drop(outlet);
            all.join().unwrap().unwrap()
        })
    }

    #[test]
    fn what_is_not_taken_at_once_waits() {
        let sent: Vec<u8> = (0..1_000_000).map(|i| (i % 251) as u8).collect();
        for way in [None, Some(Way::Pieces)] {
            let (outlet, reader) = piped(way);
            assert!(passed_on(outlet, reader, &sent) == sent, "{way:?}");
        }
        let (ours, theirs) = UnixStream::pair().unwrap();
        let outlet = Outlet::new("the socket", ours.as_fd()).unwrap();
        drop(ours);
        assert_eq!(outlet.way, Way::Socket);
        assert!(passed_on(outlet, theirs, &sent) == sent);
    }

    #[test]
    fn whoever_shares_a_pipe_goes_on_waiting_for_its_reader() {
        let (_reader, writer) = io::pipe().unwrap();
        let _outlet = Outlet::new("the pipe", writer.as_fd()).unwrap();
        let flags = fs::read_to_string(format!("/proc/self/fdinfo/{}", writer.as_raw_fd())).unwrap();
        let flags = flags.lines().find_map(|line| line.strip_prefix("flags:")).unwrap();
        let flags = i32::from_str_radix(flags.trim(), 8).unwrap();
        assert_eq!(flags & libc::O_NONBLOCK, 0);
    }

    #[test]
    fn the_ranks_words_are_missed_and_ours_are_not() {
        for way in [None, Some(Way::Pieces)] {
            let (mut outlet, reader) = piped(way);
            drop(reader);
            assert_eq!(outlet.write(b"ours\n", false), Ok(()));
            let why = outlet.write(b"theirs\n", true).unwrap_err();
            assert_eq!(why, "the reader of the pipe is gone");
            // They wait, and the reader goes.
            let (mut outlet, reader) = piped(way);
            outlet.write(&vec![b'x'; 1 << 20], true).unwrap();
            drop(reader);
            assert!(outlet.flush().is_err() && !outlet.is_behind());
        }
    }

    #[test]
    fn files_take_everything() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut outlet = Outlet::new("/dev/full", full.as_fd()).unwrap();
        let why = outlet.write(b"x", true).unwrap_err();
        assert!(why.starts_with("cannot write to /dev/full: No space left"), "{why}");
        let null = File::options().write(true).open("/dev/null").unwrap();
        let mut outlet = Outlet::new("/dev/null", null.as_fd()).unwrap();
        outlet.write(&vec![b'x'; 1 << 20], true).unwrap();
        assert!(!outlet.is_behind());
    }
}
