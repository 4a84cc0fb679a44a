//! # Safety
//! Relies on mmap(2) to return memory that nobody else uses.
//!
//! Shared memory without a name: memfd_create(2) and mmap(2).
#![allow(unsafe_code)]

use super::pages::{HUGE, PAGE};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// What a mapping allows.
const ACCESS: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;

/// A mapping that is undone on drop.
#[derive(Debug)]
pub struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: a mapping is an address range; who may touch which byte when is its user's matter.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

/// Makes a nameless, sealed file of `len` zero bytes that takes memory only where it is written.
/// It is closed on exec; a launcher lifts that for the ranks' sake.
pub fn create(len: usize) -> io::Result<OwnedFd> {
    may_be_long(len)?;
    let name = c"nearmpi";
    // SAFETY: `name` is a C string.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let file = File::from(fd);
    file.set_len(len as u64)?;
    // It may grow: what there is stays where it is.
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_SEAL;
    // SAFETY: a plain fcntl on our descriptor. A kernel that refuses seals leaves them off.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    Ok(file.into())
}

/// A file that is longer than allowed is no error but a signal, which kills.
fn may_be_long(len: usize) -> io::Result<()> {
    match limit(libc::RLIMIT_FSIZE).filter(|&longest| len as u64 > longest) {
        Some(longest) => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!(
                "{len} bytes, few of which are used, are more than the {longest} that a file may have here (ulimit -f)"
            ),
        )),
        None => Ok(()),
    }
}

/// What this process may have of `resource`, if that is limited.
fn limit(resource: libc::__rlimit_resource_t) -> Option<u64> {
    // SAFETY: rlimit is plain data, and the kernel writes one of them.
    let (known, limit) = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        (libc::getrlimit(resource, &mut limit) == 0, limit.rlim_cur)
    };
    Some(limit).filter(|&limit| known && limit != libc::RLIM_INFINITY)
}

/// Makes the file behind `fd` `len` bytes long, which it is not yet; they read as zero.
///
/// # Errors
/// What the kernel says; `FileTooLarge` when the process may not have files of that length.
pub fn extend(fd: BorrowedFd<'_>, len: usize) -> io::Result<()> {
    may_be_long(len)?;
    File::from(fd.try_clone_to_owned()?).set_len(len as u64)
}

/// Whether the kernel makes all pages of what this process maps at once (mlockall(2) with `MCL_FUTURE`).
pub fn is_made_at_once() -> bool {
    let Ok(page) = Mapping::anonymous(PAGE) else {
        return false;
    };
    let mut made = 0u8;
    // SAFETY: one page is asked about, which takes one byte.
    unsafe { libc::mincore(page.base().cast(), PAGE, &mut made) == 0 && made & 1 == 1 }
}

/// Length of the file behind `fd`, in bytes.
pub fn len(fd: BorrowedFd<'_>) -> io::Result<usize> {
    let file = File::from(fd.try_clone_to_owned()?);
    Ok(file.metadata()?.len() as usize)
}

/// Bytes of memory that this machine has.
pub fn installed() -> usize {
    // SAFETY: plain numbers.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    usize::try_from(pages).unwrap_or(0) * usize::try_from(page).unwrap_or(0)
}

/// Largest file that this process may make, in bytes.
pub fn largest_file() -> usize {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: fills in a variable of ours.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } != 0;
    let known = if failed { libc::RLIM_INFINITY } else { limit.rlim_cur };
    usize::try_from(known).map_or(isize::MAX as usize, |limit| limit.min(isize::MAX as usize))
}

/// Gives the memory of `len` bytes of `fd` from `offset` on back to the kernel: they read as zero again.
pub fn discard(fd: BorrowedFd<'_>, offset: usize, len: usize) -> io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: plain integers.
    let failed = unsafe { libc::fallocate(fd.as_raw_fd(), mode, offset as libc::off_t, len as libc::off_t) } != 0;
    if failed {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Takes room for the first `len` bytes of the file behind `fd`, which has that length then if it was shorter: writing to its
/// mapping does not fail later for want of it.
pub fn reserve(fd: BorrowedFd<'_>, len: usize) -> io::Result<()> {
    // SAFETY: plain integers.
    match unsafe { libc::posix_fallocate(fd.as_raw_fd(), 0, len as libc::off_t) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

/// `len` bytes at a multiple of `alignment`, a power of two, and of a cache line, from malloc; `None` when there are not so many.
pub fn allocate(len: usize, alignment: usize) -> Option<*mut u8> {
    let mut memory = ptr::null_mut();
    // SAFETY: `memory` is written on success only.
    let failed = unsafe { libc::posix_memalign(&mut memory, alignment.max(64), len.max(1)) } != 0;
    (!failed).then_some(memory.cast())
}

/// Gives memory from [`allocate`] back.
///
/// # Safety
/// `memory` is null or came from [`allocate`], and nobody uses it any more.
pub unsafe fn free(memory: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { libc::free(memory.cast()) };
}

/// Makes the pages of `len` bytes at `at`, as if each was written to, where the kernel can (Linux 5.14, madvise(2)); they keep
/// what they hold. Otherwise (false) they are made when they are touched, which may be a signal in a file without room for them.
pub fn make(at: *mut u8, len: usize) -> bool {
    let start = at as usize / PAGE * PAGE;
    let end = (at as usize + len).next_multiple_of(PAGE);
    // SAFETY: pages are made present, and nothing in them is changed.
    unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_POPULATE_WRITE) == 0 }
}

/// As [`make`], by huge pages as far as there are whole ones in that range and the kernel can (Linux 6.1, `MADV_COLLAPSE`), which takes a tenth of
/// the time: for shared memory in which all of them will be used.
pub fn make_huge(at: *mut u8, len: usize) -> bool {
    let (start, end) = ((at as usize).next_multiple_of(HUGE), (at as usize + len) / HUGE * HUGE);
    // There has to be one page in each that can become larger.
    for huge in (start..end).step_by(HUGE) {
        make(huge as *mut u8, 1);
    }
    if start < end {
        // One call, for each first has the other CPUs put away the pages that they have just made.
        // SAFETY: pages are made present and put together, and nothing in them is changed.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_COLLAPSE) };
    }
    // What has become no huge page, and what lies around them.
    make(at, len)
}

/// Gives the whole pages of `len` bytes at `at` back to the kernel, from everybody who maps them, where they are shared memory that it
/// takes (madvise(2)); they read as zero then.
///
/// # Safety
/// Nobody uses what is there.
pub unsafe fn give_back(at: *mut u8, len: usize) {
    let start = (at as usize).next_multiple_of(PAGE);
    let end = (at as usize + len) / PAGE * PAGE;
    if start < end {
        // SAFETY: the caller's promise; other pages are not touched.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_REMOVE) };
    }
}

/// Lets this process access `len` bytes at `at`, which are of a [`Mapping::closed`] or can be accessed anyway; core dumps have
/// them then, if they are to.
///
/// # Errors
/// What mprotect(2) reports.
///
/// # Safety
/// They are a mapping's, whole pages, and what they hold is nobody else's business.
pub unsafe fn open(at: *mut u8, len: usize, is_dumped: bool) -> io::Result<()> {
    // SAFETY: the caller's promise.
    unsafe {
        if libc::mprotect(at.cast(), len, ACCESS) < 0 {
            return Err(io::Error::last_os_error());
        }
        if is_dumped {
            libc::madvise(at.cast(), len, libc::MADV_DODUMP);
        }
    }
    Ok(())
}

impl Mapping {
    /// Maps the first `len` bytes of `fd`, shared with everybody who maps it; left out of core dumps. Huge pages of the file are
    /// huge pages here too.
    pub fn shared(fd: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        // A range that holds one which begins where a huge page may; who cannot access it needs no memory for it.
        let nowhere = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let mut range = Self::map_at(ptr::null_mut(), len + HUGE, libc::PROT_NONE, nowhere, -1, 0)?;
        let base = (range.base as usize).next_multiple_of(HUGE);
        let (before, end) = (base - range.base as usize, base + len.next_multiple_of(PAGE));
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let mapping = Self::map_at(base as *mut u8, len, ACCESS, flags, fd.as_raw_fd(), 0)?;
        // What lies around that goes back.
        let behind = (range.base as usize + range.len).next_multiple_of(PAGE) - end;
        let rest = Mapping {
            base: end as *mut u8,
            len: behind,
        };
        range.len = before;
        drop((range, rest));
        // SAFETY: the range was just mapped.
        unsafe { libc::madvise(mapping.base.cast(), len, libc::MADV_DONTDUMP) };
        Ok(mapping)
    }

    /// Maps `len` bytes of `fd` from `offset` on, a multiple of the page size, shared with everybody who maps them.
    pub fn part(fd: BorrowedFd<'_>, offset: usize, len: usize) -> io::Result<Mapping> {
        Self::map(len, libc::MAP_SHARED | libc::MAP_NORESERVE, fd.as_raw_fd(), offset)
    }

    /// As [`Mapping::part`], of what nobody may access and no core dump has until [`open`] is called: a tool that looks at all memory
    /// (valgrind), or a dump, would make every page of it.
    pub fn closed(fd: BorrowedFd<'_>, offset: usize, len: usize) -> io::Result<Mapping> {
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        let mapping = Self::map_at(ptr::null_mut(), len, libc::PROT_NONE, flags, fd.as_raw_fd(), offset)?;
        // SAFETY: the range was just mapped.
        unsafe { libc::madvise(mapping.base.cast(), len, libc::MADV_DONTDUMP) };
        Ok(mapping)
    }

    /// Maps `len` zero bytes that belong to this process (and to its threads: tests run ranks so).
    pub fn anonymous(len: usize) -> io::Result<Mapping> {
        Self::map(
            len,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    }

    /// First byte; page aligned.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Bytes mapped.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is mapped.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn map(len: usize, flags: libc::c_int, fd: libc::c_int, offset: usize) -> io::Result<Mapping> {
        Self::map_at(ptr::null_mut(), len, ACCESS, flags, fd, offset)
    }

    fn map_at(
        at: *mut u8,
        len: usize,
        access: libc::c_int,
        flags: libc::c_int,
        fd: libc::c_int,
        offset: usize,
    ) -> io::Result<Mapping> {
        // SAFETY: the kernel chooses a free range, or `at` is one of ours that nobody uses.
        let base = unsafe { libc::mmap(at.cast(), len, access, flags, fd, offset as libc::off_t) };
        if base == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            return Err(match limit(libc::RLIMIT_AS) {
                Some(most) if error.kind() == io::ErrorKind::OutOfMemory => io::Error::new(
                    error.kind(),
                    format!(
                        "{len} bytes more than the address space may have here (ulimit -v {})",
                        most >> 10
                    ),
                ),
                _ => error,
            });
        }
        Ok(Mapping { base: base.cast(), len })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.is_empty() {
            return;
        }
        // SAFETY: the range is ours, and whoever drops the mapping has no use for it any more.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::linux::fs::MetadataExt;

    #[test]
    fn huge_pages_and_what_lies_around_them_are_made_and_keep_what_they_hold() {
        let file = File::from(create(5 * HUGE).unwrap());
        let mapping = Mapping::shared(file.as_fd(), 5 * HUGE).unwrap();
        assert_eq!(mapping.base() as usize % HUGE, 0);
        let (begin, len) = (HUGE - 3 * PAGE, 2 * HUGE + 5 * PAGE);
        let bytes = |at: usize| begin + at * (HUGE / 7);
        for at in (0..).map(bytes).take_while(|at| *at < begin + len) {
            // SAFETY: memory of this test alone.
            unsafe { mapping.base().add(at).write(at as u8 | 1) };
        }
        assert!(make_huge(mapping.base().wrapping_add(begin), len));
        assert_eq!(file.metadata().unwrap().st_blocks() as usize * 512, len);
        for at in (0..).map(bytes).take_while(|at| *at < begin + len) {
            // SAFETY: as above.
            assert_eq!(unsafe { mapping.base().add(at).read() }, at as u8 | 1);
        }
    }
}
