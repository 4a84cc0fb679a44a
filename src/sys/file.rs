//! # Safety
//! Reads into and writes from memory that its callers vouch for: pread(2), pwrite(2) and mmap(2).
//!
//! Files of the program: reading and writing at a place, their length, locks on ranges.
#![allow(unsafe_code)]

use super::memory::{self, Mapping};
use super::pages::HUGE;
use std::fs;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a file is opened.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// It is read.
    pub read: bool,
    /// It is written.
    pub write: bool,
    /// It is made with these permissions if it is not there.
    pub create: Option<u32>,
    /// It must not be there yet.
    pub exclusive: bool,
}

/// An open file.
#[derive(Debug)]
pub struct File {
    file: fs::File,
    /// Whether the kernel lets it be mapped for writing, as far as that depends on how it was opened.
    mappable: bool,
    /// What was mapped last, while nobody uses it.
    kept: Mutex<Option<Mapped>>,
}

/// Part of a file as memory.
#[derive(Debug)]
struct Mapped {
    mapping: Mapping,
    /// Offset in the file of its first byte.
    start: u64,
}

impl Mapped {
    fn has(&self, range: &Range<u64>) -> bool {
        self.start <= range.start && range.end <= self.start + self.mapping.len() as u64
    }
}

/// Part of a file as memory, for writing. It stays mapped after this is dropped, since the next one is often near.
#[derive(Debug)]
pub struct Window<'a> {
    file: &'a File,
    /// Only `drop` takes it.
    mapped: Option<Mapped>,
}

impl Window<'_> {
    /// Where byte 0 of the file would lie: add an offset within the window.
    pub fn origin(&self) -> *mut u8 {
        let base = |mapped: &Mapped| mapped.mapping.base().wrapping_sub(mapped.start as usize);
        self.mapped.as_ref().map_or(std::ptr::null_mut(), base)
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *self.file.kept(), self.mapped.take());
        // Another thread's, by now.
        drop(before);
    }
}

/// A range of a file that is locked until this is dropped.
#[derive(Debug)]
pub struct Locked<'a> {
    file: &'a File,
    range: Range<u64>,
}

impl File {
    /// Opens a file. One that is only written is opened for reading as well where that is allowed: only then can it be mapped.
    pub fn open(path: &Path, how: How) -> io::Result<File> {
        let open = |read| {
            fs::OpenOptions::new()
                .read(read)
                .write(how.write)
                .create(how.create.is_some() && !how.exclusive)
                .create_new(how.create.is_some() && how.exclusive)
                .mode(how.create.unwrap_or(0))
                .open(path)
        };
        let (file, mappable) = match open(true) {
            Ok(file) => (file, how.write),
            Err(error) if !how.read && error.kind() == ErrorKind::PermissionDenied => (open(false)?, false),
            Err(error) => return Err(error),
        };
        Ok(File {
            file,
            mappable,
            kept: Mutex::default(),
        })
    }

    /// Reads `len` bytes from `offset` on; fewer only at the end of the file.
    ///
    /// # Safety
    /// There is room for them at `to`.
    pub unsafe fn read_at(&self, to: *mut u8, len: usize, offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < len {
            let at = place(offset, done)?;
            // SAFETY: the caller's promise.
            let got = unsafe { libc::pread(self.file.as_raw_fd(), to.add(done).cast(), len - done, at) };
            match checked(got)? {
                Some(0) => break,
                Some(got) => done += got,
                None => {}
            }
        }
        Ok(done)
    }

    /// Writes `len` bytes to `offset` and what follows.
    ///
    /// # Safety
    /// They can be read at `from`.
    pub unsafe fn write_at(&self, from: *const u8, len: usize, offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < len {
            let at = place(offset, done)?;
            // SAFETY: the caller's promise.
            let put = unsafe { libc::pwrite(self.file.as_raw_fd(), from.add(done).cast(), len - done, at) };
            match checked(put)? {
                Some(0) => return Err(ErrorKind::WriteZero.into()),
                Some(put) => done += put,
                None => {}
            }
        }
        Ok(())
    }

    /// Length in bytes.
    pub fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Cuts the file short or lengthens it with zeros.
    pub fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    /// Takes room for the first `len` bytes; a shorter file has that length then.
    pub fn allocate(&self, len: u64) -> io::Result<()> {
        memory::reserve(self.file.as_fd(), usize::try_from(len).unwrap_or(usize::MAX))
    }

    /// Returns once everything written is on the device.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// `range`, which must lie within the file, as memory; `None` where the kernel does not map it, or has no room for what
    /// would be written there.
    pub fn window(&self, range: Range<u64>) -> Option<Window<'_>> {
        if !self.mappable {
            return None;
        }
        let kept = self.kept().take().filter(|kept| kept.has(&range));
        let mapped = kept.or_else(|| self.map(&range))?;
        let at = mapped
            .mapping
            .base()
            .wrapping_add((range.start - mapped.start) as usize);
        // Touching a page that the file has no room for would be a signal; making the pages is an error then.
        memory::make(at, (range.end - range.start) as usize).then_some(Window {
            file: self,
            mapped: Some(mapped),
        })
    }

    /// Maps `range` and what lies around it, whole huge pages: whoever writes there next finds it mapped, and where the kernel
    /// has such pages of the file, each is made at once.
    fn map(&self, range: &Range<u64>) -> Option<Mapped> {
        let start = usize::try_from(range.start).ok()? / HUGE * HUGE;
        let end = usize::try_from(range.end).ok()?.checked_next_multiple_of(HUGE)?;
        let mapping = Mapping::part(self.file.as_fd(), start, end - start).ok()?;
        let start = start as u64;
        Some(Mapped { mapping, start })
    }

    fn kept(&self) -> MutexGuard<'_, Option<Mapped>> {
        // A thread that panicked left it whole: it only moves it in and out.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no other process has a lock that stands against this one.
    pub fn lock(&self, range: Range<u64>, exclusive: bool) -> io::Result<Locked<'_>> {
        let kind = if exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
        self.set_lock(&range, kind)?;
        Ok(Locked { file: self, range })
    }

    fn set_lock(&self, range: &Range<u64>, kind: libc::c_int) -> io::Result<()> {
        let lock = libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: place(range.start, 0)?,
            l_len: place(range.end - range.start, 0)?,
            l_pid: 0,
        };
        loop {
            // SAFETY: the kernel reads the structure.
            let failed = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLKW, &lock) } != 0;
            match io::Error::last_os_error() {
                _ if !failed => return Ok(()),
                error if error.kind() == ErrorKind::Interrupted => {}
                error => return Err(error),
            }
        }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Nothing is left to do where a lock that is held cannot be given back: closing the file does it.
        let _ = self.file.set_lock(&self.range, libc::F_UNLCK);
    }
}

/// Removes a file.
pub fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)
}

/// What tells a directory from any other of this machine, if `path` is one.
pub fn directory(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok().filter(fs::Metadata::is_dir)?;
    Some((found.dev(), found.ino()))
}

/// The kernel's number for a place in a file.
fn place(offset: u64, further: usize) -> io::Result<libc::off_t> {
    let at = offset
        .checked_add(further as u64)
        .and_then(|at| libc::off_t::try_from(at).ok());
    at.ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))
}

/// What a call that moves bytes returned; `None`: a signal came, and it is to be made again.
fn checked(moved: isize) -> io::Result<Option<usize>> {
    match usize::try_from(moved) {
        Ok(moved) => Ok(Some(moved)),
        Err(_) => match io::Error::last_os_error() {
            error if error.kind() == ErrorKind::Interrupted => Ok(None),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> (std::path::PathBuf, File) {
        let path = std::env::temp_dir().join(format!("nearmpi-{name}-{}", std::process::id()));
        let how = How {
            read: false,
            write: true,
            create: Some(0o600),
            exclusive: true,
        };
        let file = File::open(&path, how).unwrap();
        (path, file)
    }

    #[test]
    fn what_is_written_by_call_and_in_a_window_is_read() {
        let (path, file) = scratch("file");
        let exists = File::open(
            &path,
            How {
                read: true,
                write: true,
                create: Some(0o600),
                exclusive: true,
            },
        );
        assert_eq!(exists.unwrap_err().kind(), ErrorKind::AlreadyExists);
        let mut got = [0u8; 8];
        // SAFETY: the bytes are ours.
        unsafe {
            file.write_at(b"abcdef".as_ptr(), 6, 5000).unwrap();
            assert_eq!(file.size().unwrap(), 5006);
            if let Some(window) = file.window(4990..5006) {
                window.origin().wrapping_add(5001).write(b'X');
            } else {
                file.write_at(b"X".as_ptr(), 1, 5001).unwrap();
            }
            assert_eq!(file.read_at(got.as_mut_ptr(), 8, 5000).unwrap(), 6);
        }
        assert_eq!(&got[..6], b"aXcdef");
        file.set_size(5002).unwrap();
        file.allocate(100).unwrap();
        assert_eq!(file.size().unwrap(), 5002);
        assert!(file.set_size(u64::MAX).is_err());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_was_mapped_last_stays_mapped_and_is_seen_by_all() {
        let (path, file) = scratch("kept");
        let mut got = [0u8; 3];
        // SAFETY: the bytes are ours, and the windows have those that are written.
        unsafe {
            file.write_at([0; 9].as_ptr(), 9, 3 * HUGE as u64).unwrap();
            let Some(window) = file.window(100..3 * HUGE as u64) else {
                return;
            };
            let first = window.origin();
            first.wrapping_add(100).write(b'a');
            drop(window);
            let window = file.window(5000..6000).unwrap();
            assert_eq!(window.origin(), first);
            // Two at a time do not share one.
            let other = file.window(101..102).unwrap();
            other.origin().wrapping_add(101).write(b'b');
            window.origin().wrapping_add(102).write(b'c');
            drop((window, other));
            // Of a file that has become shorter nothing can be written, though it is mapped.
            assert_eq!(file.read_at(got.as_mut_ptr(), 3, 100).unwrap(), 3);
            file.set_size(50).unwrap();
            assert!(file.window(5000..6000).is_none());
            file.set_size(6000).unwrap();
            let window = file.window(5000..6000).unwrap();
            assert_eq!(window.origin().wrapping_add(5999).read(), 0);
        }
        assert_eq!(&got, b"abc");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_lock_keeps_others_out_of_its_range_only() {
        let (path, one) = scratch("lock");
        let how = How {
            read: true,
            write: true,
            create: None,
            exclusive: false,
        };
        let other = File::open(&path, how).unwrap();
        let held = one.lock(10..20, true).unwrap();
        drop(other.lock(20..30, true).unwrap());
        std::thread::scope(|threads| {
            let (told, tell) = std::sync::mpsc::channel();
            let other = &other;
            threads.spawn(move || {
                let _lock = other.lock(15..16, false).unwrap();
                told.send(()).unwrap();
            });
            let soon = std::time::Duration::from_millis(50);
            assert!(tell.recv_timeout(soon).is_err());
            drop(held);
            tell.recv().unwrap();
        });
        std::fs::remove_file(path).unwrap();
    }
}
