//! # Safety
//! Relies on the kernel to check both processes' addresses; the caller owns the local side.
//!
//! Cross-memory attach: one copy between two address spaces (process_vm_readv(2), process_vm_writev(2)).
#![allow(unsafe_code)]

use super::pages::PAGE;
use super::{clock, copy};
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
    unsafe { transfer(pid, Direction::Read, local, &[(remote, len)]) }
}

/// Bytes in a row of another process's, and where they go here.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Address there.
    pub remote: u64,
    /// Address here.
    pub local: *mut u8,
    /// How many.
    pub len: usize,
}

/// Most rows of a call of [`read_rows`].
pub const ROWS: usize = 16;

/// Whether one call may copy `row` together with others as quickly as alone.
pub fn goes_with_others(row: Row) -> bool {
    row.len <= CALL_LIMIT / ROWS && !goes_aside(Direction::Read, row.local.addr(), row.remote as usize, row.len)
}

/// Copies up to [`ROWS`] rows of process `pid` by one call, in order: how many bytes of them, all in all. What is missing is for
/// [`read`], which says why.
///
/// # Safety
/// Each row is writable here.
pub unsafe fn read_rows(pid: i32, rows: &[Row]) -> usize {
    const NOTHING: libc::iovec = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    let (mut here, mut there) = ([NOTHING; ROWS], [NOTHING; ROWS]);
    for (index, row) in rows.iter().enumerate() {
        (here[index].iov_base, here[index].iov_len) = (row.local.cast(), row.len);
        (there[index].iov_base, there[index].iov_len) = (row.remote as usize as *mut _, row.len);
    }
    let count = rows.len() as libc::c_ulong;
    // SAFETY: the caller's promise; the kernel checks the other side.
    let moved = unsafe { libc::process_vm_readv(pid, here.as_ptr(), count, there.as_ptr(), count, 0) };
    usize::try_from(moved).unwrap_or(0)
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
    unsafe { transfer(pid, Direction::Write, local.cast_mut(), &[(remote, len)]) }
}

/// Which way [`transfer`] copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the other process's memory to ours.
    Read,
    /// From our memory to the other process's.
    Write,
}

/// Bytes of a copy whose time is taken, how many of them, how much less a byte of a long one takes the kernel, and how much more one
/// takes at least that another CPU has written (1.4 to 2.2 times as much on Zen 3).
const SAMPLE: usize = 32 << 10;
const SAMPLES: u32 = 5;
const LONGER: f32 = 0.7;
const FARTHER: f32 = 1.3;
/// How much more than a process's own a quick kernel's copy takes at most, of that many bytes 4.5 times: Emerald Rapids 2.8 to 3.6,
/// Zen 3, where it isn't quick, 5.6 to 6.4.
const QUICK: f32 = 4.5 * LONGER / FARTHER;

/// Bytes that go [`aside`] at a time, and from which a stretch does.
const ASIDE: usize = 96 << 10;
const ASIDE_LEAST: usize = 8 << 10;

/// Stretches per call; the kernel takes 1024 (IOV_MAX), but past some dozens the calls no longer count.
const STRETCHES: usize = 64;

/// Copies between `local`, a row of bytes, and the stretches `(address, length)` of process `pid`'s memory, in order.
///
/// # Errors
/// What the kernel says, or `UnexpectedEof` when a stretch is not mapped or, for a write, read-only.
/// What was copied before an error is left in place.
///
/// # Safety
/// `local` is readable and, for [`Direction::Read`], writable for the sum of all lengths.
pub unsafe fn transfer(pid: i32, direction: Direction, local: *mut u8, stretches: &[(u64, usize)]) -> io::Result<()> {
    let (mut begun, mut done, mut position) = (0, 0, 0);
    for (index, &(remote, len)) in stretches.iter().enumerate() {
        let here = local.wrapping_add(position);
        if goes_aside(direction, here.addr(), remote as usize, len) {
            // SAFETY: the caller's promise.
            unsafe {
                straight(pid, direction, local.wrapping_add(done), &stretches[begun..index])?;
                aside(pid, direction, here, remote, len)?;
            }
            (begun, done) = (index + 1, position + len);
        }
        position += len;
    }
    // SAFETY: the caller's promise.
    unsafe { straight(pid, direction, local.wrapping_add(done), &stretches[begun..]) }
}

/// As [`transfer`], by the kernel alone.
///
/// # Safety
/// As [`transfer`].
unsafe fn straight(pid: i32, direction: Direction, local: *mut u8, stretches: &[(u64, usize)]) -> io::Result<()> {
    const NOTHING: libc::iovec = libc::iovec {
        iov_base: std::ptr::null_mut(),
        iov_len: 0,
    };
    let mut there = [NOTHING; STRETCHES];
    let (mut index, mut inside, mut position) = (0, 0, 0);
    while index < stretches.len() {
        let (mut count, mut room, mut skip) = (0, CALL_LIMIT, inside);
        for &(address, len) in &stretches[index..] {
            if count == STRETCHES || room == 0 {
                break;
            }
            let len = (len - skip).min(room);
            there[count] = libc::iovec {
                iov_base: (address as usize).wrapping_add(skip) as *mut _,
                iov_len: len,
            };
            (count, skip, room) = (count + 1, 0, room - len);
        }
        let here = libc::iovec {
            iov_base: local.wrapping_add(position).cast(),
            iov_len: CALL_LIMIT - room,
        };
        let (list, count) = (there.as_ptr(), count as libc::c_ulong);
        // SAFETY: `here` lies within the caller's buffer; the kernel checks the other side.
        let moved = unsafe {
            match direction {
                Direction::Read => libc::process_vm_readv(pid, &here, 1, list, count, 0),
                Direction::Write => libc::process_vm_writev(pid, &here, 1, list, count, 0),
            }
        };
        let mut moved = match moved {
            1.. => moved as usize,
            0 if here.iov_len == 0 => return Ok(()),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => continue,
                error => return Err(error),
            },
        };
        position += moved;
        while index < stretches.len() && moved >= stretches[index].1 - inside {
            moved -= stretches[index].1 - inside;
            (index, inside) = (index + 1, 0);
        }
        inside += moved;
    }
    Ok(())
}

/// Whether the kernel's copies stumble over places [`copy::just_behind`]: on AMD's processors from Zen 3 on, which know SSE4a and
/// VAES (1.6 GB/s instead of 9).
fn stumbles() -> bool {
    std::arch::is_x86_feature_detected!("sse4a") && std::arch::is_x86_feature_detected!("vaes")
}

/// Whether a second copy of our own costs less than the kernel's alone.
fn goes_aside(direction: Direction, local: usize, remote: usize, len: usize) -> bool {
    let behind = match direction {
        Direction::Read => copy::just_behind(remote, local),
        Direction::Write => copy::just_behind(local, remote),
    };
    behind && len >= ASIDE_LEAST && stumbles()
}

/// As [`straight`], through memory of our own that lies in its page as the other side does.
///
/// # Safety
/// As [`transfer`].
unsafe fn aside(pid: i32, direction: Direction, local: *mut u8, remote: u64, len: usize) -> io::Result<()> {
    let mut room = Vec::<u8>::with_capacity(ASIDE + PAGE);
    let room = room.as_mut_ptr();
    for at in (0..len).step_by(ASIDE) {
        let (there, len) = (remote.wrapping_add(at as u64), ASIDE.min(len - at));
        let shift = (there as usize).wrapping_sub(room.addr()) % PAGE;
        // SAFETY: `room` has a page for the shift, and ASIDE bytes; the caller's promise for `local`.
        unsafe {
            let (here, local) = (room.add(shift), local.add(at));
            if direction == Direction::Write {
                copy::bytes(local, here, len);
            }
            straight(pid, direction, here, &[(there, len)])?;
            if direction == Direction::Read {
                copy::bytes(here, local, len);
            }
        }
    }
    Ok(())
}

/// Nanoseconds that copies of a byte, and calls, take at least; 0: not known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pace {
    /// One by the kernel, out of and into near caches; infinite where it copies nothing.
    pub kernel: f32,
    /// What each call of the kernel takes beside, however little it copies.
    pub call: f32,
    /// One by a process itself, of what another CPU has written: the kernel may take several times as long.
    pub own: f32,
}

impl Pace {
    /// Whether the kernel's copy takes so little more than a process's own that one by it may cost less than two, of which one at
    /// least misses the near caches.
    pub fn kernel_is_quick(self) -> bool {
        self.kernel < QUICK * self.own
    }
}

/// This machine's, measured in 0.05 to 0.3 ms.
pub fn pace() -> Pace {
    let mut memory = vec![1u8; 2 * SAMPLE];
    let (from, to) = memory.split_at_mut(SAMPLE);
    let mut least = |copy: fn(&[u8], &mut [u8]) -> io::Result<()>| {
        let sample = |_| {
            let begin = clock::nanoseconds();
            copy(from, to).ok()?;
            Some(clock::nanoseconds() - begin)
        };
        let least = (0..SAMPLES).map_while(sample).min();
        least.map_or(f32::INFINITY, |least| least as f32 / SAMPLE as f32)
    };
    // SAFETY: both sides are the caller's and of one length.
    let by_kernel = |from: &[u8], to: &mut [u8]| unsafe {
        read(
            std::process::id() as i32,
            from.as_ptr() as u64,
            to.as_mut_ptr(),
            to.len(),
        )
    };
    let by_itself = |from: &[u8], to: &mut [u8]| {
        to.copy_from_slice(from);
        std::hint::black_box(to);
        Ok(())
    };
    let kernel = least(by_kernel);
    Pace {
        kernel: kernel * LONGER,
        call: kernel * (1.0 - LONGER) * SAMPLE as f32,
        own: least(by_itself) * FARTHER,
    }
}

/// Lets `tracer` and its descendants (our launcher and so all ranks) read this process where the
/// Yama security module would forbid it (prctl(2), PR_SET_PTRACER). Without Yama nothing changes.
pub fn allow_reads_by(tracer: i32) {
    // SAFETY: plain integers.
    unsafe { libc::prctl(libc::PR_SET_PTRACER, tracer as libc::c_ulong, 0, 0, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_just_behind_goes_aside_where_the_kernel_stumbles() {
        use Direction::{Read, Write};
        let ways = |local, remote| [Read, Write].map(|way| goes_aside(way, local, remote, ASIDE_LEAST));
        assert_eq!(ways(PAGE + 16, 2 * PAGE), [stumbles(), false]);
        assert_eq!(ways(2 * PAGE, PAGE + 16), [false, stumbles()]);
        assert_eq!(ways(PAGE, 2 * PAGE), [false, false]);
        assert!(!goes_aside(Read, PAGE + 16, PAGE, ASIDE_LEAST - 1));
    }

    #[test]
    fn what_goes_aside_arrives_whole_and_nothing_beyond() {
        let here = std::process::id() as i32;
        let there: Vec<u8> = (0..100_000u32).map(|at| (at * 7 % 251) as u8 + 1).collect();
        for len in [1, 4096, ASIDE, ASIDE + 1, 90_000] {
            let (mut local, mut back) = (vec![0u8; 100_000], vec![0u8; 100_000]);
            let (from, to) = (there.as_ptr() as u64 + 5, back.as_mut_ptr() as u64 + 7);
            // SAFETY: all have 64 bytes and `len`; `back` is not looked at meanwhile.
            unsafe {
                let row = local.as_mut_ptr().add(64);
                aside(here, Direction::Read, row, from, len).unwrap();
                aside(here, Direction::Write, row, to, len).unwrap();
            }
            for (place, first) in [(local, 64), (back, 7)] {
                assert_eq!(place[first..first + len], there[5..5 + len]);
                let mut beyond = place[..first].iter().chain(&place[first + len..]);
                assert!(beyond.all(|&byte| byte == 0), "{len} bytes");
            }
        }
        // Between stretches that the kernel copies alone, the first and the last of none.
        let (mut local, at) = (vec![0u8; 4 * ASIDE_LEAST], there.as_ptr() as usize);
        let (start, least) = (local.as_ptr().align_offset(PAGE) + 16, ASIDE_LEAST as u64);
        let first = (at + 8192 - at % PAGE) as u64;
        let stretches = [
            (7, 0),
            (first, ASIDE_LEAST),
            (first + least + 40, 100),
            (first - 200, 150),
            (9, 0),
        ];
        // SAFETY: both are this test's own, and longer than what is copied.
        unsafe { transfer(here, Direction::Read, local.as_mut_ptr().add(start), &stretches).unwrap() };
        let mut end = start;
        for (remote, len) in stretches.map(|(remote, len)| (remote as usize, len)) {
            assert!(len == 0 || local[end..end + len] == there[remote - at..remote - at + len]);
            end += len;
        }
        assert!(local[..start].iter().chain(&local[end..]).all(|&byte| byte == 0));
        // SAFETY: nothing is mapped at the first page.
        let refused = unsafe { aside(here, Direction::Read, vec![0u8; 64].as_mut_ptr(), 8, 64) };
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn rows_are_copied_in_order_as_far_as_they_are_mapped() {
        let here = std::process::id() as i32;
        let (from, mut to) = (vec![7u8; 300], vec![0u8; 300]);
        let mut row = |remote: u64, at: usize| Row {
            remote,
            local: to[at..].as_mut_ptr(),
            len: 100,
        };
        let start = from.as_ptr() as u64;
        let rows = [row(start, 200), row(start + 100, 0), row(8, 100)];
        // SAFETY: each row is this test's own, 100 bytes of `to`.
        assert_eq!(unsafe { read_rows(here, &rows) }, 200);
        assert!(to[..100] == from[..100] && to[100..200] == [0; 100] && to[200..] == from[200..]);
        assert!(goes_with_others(rows[0]));
        let len = usize::MAX;
        assert!(!goes_with_others(Row { len, ..rows[0] }));
    }

    #[test]
    fn the_pace_of_copies_is_a_bound_below_the_times_of_copies() {
        let pace = pace();
        let (from, mut to) = (vec![7u8; 1 << 20], vec![0u8; 1 << 20]);
        let begin = clock::nanoseconds();
        // SAFETY: both are this test's own.
        unsafe {
            read(
                std::process::id() as i32,
                from.as_ptr() as u64,
                to.as_mut_ptr(),
                to.len(),
            )
        }
        .unwrap();
        let took = (clock::nanoseconds() - begin) as f32 / to.len() as f32;
        assert!(
            pace.kernel > 0.001 && pace.kernel < took,
            "{pace:?} and {took} ns a byte"
        );
        assert!(pace.own > 0.001 && pace.own < 1.0, "{pace:?}");
        assert!(from == to);
    }
}
