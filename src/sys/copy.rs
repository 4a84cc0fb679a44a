//! # Safety
//! Copies between regions that the callers own.
//!
//! Copies of a few bytes without a call, of many past what string instructions stumble over, copies that fetch ahead the lines that lie in another CPU's caches, and copies that leave
//! the caches alone.
#![allow(unsafe_code)]

use super::cpu;
use super::pages::PAGE;
use std::ptr::{read_unaligned, write_unaligned};

/// Largest length that [`few`] takes.
pub const FEW: usize = 64;

/// Copies `len <= 64` bytes with loads and stores of up to 16 bytes that may overlap each other.
///
/// # Safety
/// Both sides are valid for `len` bytes and do not overlap.
#[inline(always)]
pub unsafe fn few(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(len <= FEW);
    // SAFETY: every access below lies within the first `len` bytes of its side.
    unsafe {
        if len >= 16 {
            let mut at = 0;
            while at + 16 < len {
                put::<u128>(from, to, at);
                at += 16;
            }
            put::<u128>(from, to, len - 16);
        } else if len >= 8 {
            put::<u64>(from, to, 0);
            put::<u64>(from, to, len - 8);
        } else if len >= 4 {
            put::<u32>(from, to, 0);
            put::<u32>(from, to, len - 4);
        } else if len > 0 {
            put::<u8>(from, to, 0);
            put::<u8>(from, to, len / 2);
            put::<u8>(from, to, len - 1);
        }
    }
}

/// Copies `len` bytes: few by [`few`], more by [`many`].
///
/// # Safety
/// As for [`few`], for any `len`.
#[inline(always)]
pub unsafe fn bytes(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if len <= FEW {
            few(from, to, len);
        } else {
            many(from, to, len);
        }
    }
}

/// Copies `len` bytes: by memcpy, but for long copies to places [`just_behind`] those they come from, which go backwards.
///
/// # Safety
/// As for [`few`], for any `len`.
#[inline(always)]
pub unsafe fn many(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match len >= STRINGS && just_behind(from.addr(), to.addr()) {
            true => backwards(from, to, len),
            false => std::ptr::copy_nonoverlapping(from, to, len),
        }
    }
}

/// Appends `bytes` to `to`, as [`many`].
pub fn append(to: &mut Vec<u8>, bytes: &[u8]) {
    to.reserve(bytes.len());
    let end = to.len();
    // SAFETY: there is room for so many bytes behind the last one; they are written before they count.
    unsafe {
        many(bytes.as_ptr(), to.as_mut_ptr().add(end), bytes.len());
        to.set_len(end + bytes.len());
    }
}

/// Bytes from which memcpy and the kernel copy with the processor's string instructions.
const STRINGS: usize = 2 << 10;

/// Whether `to` lies in its page less than a line behind where `from` lies in its own. String instructions take such bytes for ones that
/// they have yet to store: on Zen 3 they copy 2 GB/s instead of 40. (What malloc maps lies 16 bytes behind where most shared memory does.)
pub fn just_behind(from: usize, to: usize) -> bool {
    (1..LINE).contains(&(to.wrapping_sub(from) % PAGE))
}

/// Copies the last line first: then none is loaded after one has been stored that lies in its page as it does.
///
/// # Safety
/// As for [`few`], for any `len`.
#[inline(never)]
unsafe fn backwards(from: *const u8, to: *mut u8, len: usize) {
    let mut left = len;
    // SAFETY: the caller's promise; every access lies within the first `left` bytes.
    unsafe {
        while left >= LINE {
            left -= LINE;
            *to.wrapping_add(left).cast::<[u8; LINE]>() = *from.wrapping_add(left).cast();
        }
        few(from, to, left);
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes copied at a time by copies that fetch ahead.
const STEP: usize = 1 << 10;
/// Shorter copies do not: a processor overlaps those by itself.
const LONG: usize = 4 * STEP;
/// Bytes up to which one of several rows is fetched at once.
const PIECE: usize = 256;
/// What goes to places with gaps is fetched at once, as much as comes in a part.
const PART: usize = 16 << 10;

/// Fetches the lines of `len` bytes with `fetch`, which does not wait for them.
#[inline]
fn fetch_lines(from: *const u8, len: usize, fetch: impl Fn(*const u8)) {
    (0..len).step_by(LINE).for_each(|at| fetch(from.wrapping_add(at)));
}

/// Copies of memory that another CPU has written or read last: long ones fetch lines so many bytes before they need them (`NEARMPI_FETCH_AHEAD`;
/// 0: they do not). A line out of another CPU's caches is long in coming, and a processor that reads a row looks for fewer of them by itself
/// than can be on their way at a time.
#[derive(Clone, Copy, Debug)]
pub struct Ahead(pub usize);

impl Ahead {
    #[inline(always)]
    fn fetches(self, len: usize) -> bool {
        len >= LONG && self.0 > 0
    }

    /// As [`bytes`], of what another CPU has written.
    ///
    /// # Safety
    /// As for [`bytes`].
    #[inline(always)]
    pub unsafe fn from_peer(self, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.fetches(len) {
                true => self.in_steps(from, to, len, from, cpu::read_later),
                false => bytes(from, to, len),
            }
        }
    }

    /// As [`bytes`], to lines that another CPU hands back one message at a time. (A window of messages to lines that their reader has only
    /// read gets half of the bandwidth so: whole lines that are stored need not be fetched at all.)
    ///
    /// # Safety
    /// As for [`bytes`].
    #[inline(always)]
    pub unsafe fn to_peer(self, from: *const u8, to: *mut u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self.fetches(len) {
                true => self.in_steps(from, to, len, to, cpu::own_soon),
                false => bytes(from, to, len),
            }
        }
    }

    /// Fetches `len` bytes that another CPU has written, up to [`PIECE`], of several such rows that are read one after the other: each is
    /// too short for a processor to run ahead in it by itself. Longer ones took up to 1.5 times as long so.
    #[inline]
    pub fn fetch_piece(self, from: *const u8, len: usize) {
        if self.0 > 0 && len <= PIECE {
            fetch_lines(from, len, cpu::read_later);
        }
    }

    /// Fetches `len` bytes that another CPU has written into the first-level cache, without waiting for them.
    #[inline]
    pub fn fetch_row(self, from: *const u8, len: usize) {
        if self.0 > 0 {
            fetch_lines(from, len, cpu::read_soon);
        }
    }

    /// Fetches the first [`PART`] of `len` bytes that another CPU has written and this one is about to unpack.
    pub fn fetch(self, from: *const u8, len: usize) {
        if self.fetches(len) {
            fetch_lines(from, len.min(PART), cpu::read_later);
        }
    }

    /// Calls `fetch` for each line of `row`, one of both sides, before it is needed, and for none behind its end: what lies there may be
    /// under way in another copy.
    ///
    /// # Safety
    /// As for [`bytes`].
    #[inline(never)]
    unsafe fn in_steps(self, from: *const u8, to: *mut u8, len: usize, row: *const u8, fetch: impl Fn(*const u8)) {
        let mut fetched = 0;
        for at in (0..len).step_by(STEP) {
            let until = len.min(at + STEP + self.0);
            while fetched < until {
                fetch(row.wrapping_add(fetched));
                fetched += LINE;
            }
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(from.add(at), to.add(at), STEP.min(len - at)) };
        }
    }
}

/// Copies `len` bytes; whole lines of `to` are written past the caches (non-temporal stores), so that none has to be fetched from
/// where it was read last. They are there before anything that is stored afterwards.
///
/// # Safety
/// Both sides are valid for `len` bytes and do not overlap.
#[inline(never)]
pub unsafe fn streaming(from: *const u8, to: *mut u8, len: usize) {
    let head = (to.addr().wrapping_neg() % LINE).min(len);
    let lines = (len - head) / LINE;
    let done = head + lines * LINE;
    // SAFETY: the caller's promise; lines of `to` begin at `head`.
    unsafe {
        bytes(from, to, head);
        match std::arch::is_x86_feature_detected!("avx512f") {
            true => stream_lines(from.add(head), to.add(head), lines),
            false => stream_quarters(from.add(head), to.add(head), lines),
        }
        bytes(from.add(done), to.add(done), len - done);
        std::arch::x86_64::_mm_sfence();
    }
}

/// A store for each line: it is never part of one that leaves.
///
/// # Safety
/// Both sides have so many lines; `to` is the beginning of one. The processor has AVX-512.
#[target_feature(enable = "avx512f")]
unsafe fn stream_lines(from: *const u8, to: *mut u8, lines: usize) {
    use std::arch::x86_64::{_mm512_loadu_si512, _mm512_stream_si512};
    for at in (0..lines * LINE).step_by(LINE) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_stream_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast())) };
    }
}

/// Four stores for each line, which every x86-64 processor has.
///
/// # Safety
/// Both sides have so many lines; `to` is the beginning of one.
unsafe fn stream_quarters(from: *const u8, to: *mut u8, lines: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    for at in (0..lines * LINE).step_by(LINE) {
        // SAFETY: the caller's promise.
        unsafe {
            let (source, target) = (from.add(at).cast::<__m128i>(), to.add(at).cast::<__m128i>());
            let (first, second) = (_mm_loadu_si128(source), _mm_loadu_si128(source.add(1)));
            let (third, fourth) = (_mm_loadu_si128(source.add(2)), _mm_loadu_si128(source.add(3)));
            _mm_stream_si128(target, first);
            _mm_stream_si128(target.add(1), second);
            _mm_stream_si128(target.add(2), third);
            _mm_stream_si128(target.add(3), fourth);
        }
    }
}

#[inline(always)]
unsafe fn put<T>(from: *const u8, to: *mut u8, at: usize) {
    // SAFETY: the caller checked that `at + size_of::<T>()` lies within both sides.
    unsafe { write_unaligned(to.add(at).cast::<T>(), read_unaligned(from.add(at).cast::<T>())) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_and_nothing_beyond() {
        let source: Vec<u8> = (1..=80).collect();
        for len in 0..=80 {
            let mut target = vec![0u8; 96];
            // SAFETY: both vectors are longer than `len`.
            unsafe { bytes(source.as_ptr(), target.as_mut_ptr().add(3), len) };
            assert_eq!(&target[3..3 + len], &source[..len]);
            assert!(
                target[..3].iter().chain(&target[3 + len..]).all(|&byte| byte == 0),
                "length {len}"
            );
        }
    }

    #[test]
    fn copies_to_places_just_behind_are_whole_and_nothing_beyond() {
        assert!(just_behind(PAGE, 7 * PAGE + 1) && just_behind(4096 - 30, 33) && !just_behind(PAGE, 3 * PAGE));
        assert!(!just_behind(16, PAGE) && !just_behind(0, LINE));
        let source: Vec<u8> = (0..12_000u32).map(|at| (at * 7 % 251) as u8 + 1).collect();
        for (len, behind) in [STRINGS, STRINGS + 1, 4095, 10_000]
            .into_iter()
            .flat_map(|len| [1, 16, 63].map(|behind| (len, behind)))
        {
            let mut target = vec![0u8; 3 * PAGE + 12_000];
            let from = source.as_ptr().wrapping_add(behind);
            let first = PAGE + from.addr().wrapping_add(behind).wrapping_sub(target.as_ptr().addr()) % PAGE;
            let to = target.as_mut_ptr().wrapping_add(first);
            assert!(just_behind(from.addr(), to.addr()));
            for copy in [many, backwards] {
                target.fill(0);
                // SAFETY: `source` has `behind` bytes and `len`, `target` two pages and `len`.
                unsafe { copy(from, to, len) };
                assert_eq!(target[first..first + len], source[behind..behind + len]);
                let mut beyond = target[..first].iter().chain(&target[first + len..]);
                assert!(beyond.all(|&byte| byte == 0), "{len} bytes {behind} behind");
            }
        }
    }

    /// Where string instructions stumble, memcpy takes 20 times as long.
    #[test]
    fn copies_to_places_just_behind_take_about_as_long_as_others() {
        let (source, mut target) = (vec![1u8; 8 * PAGE], vec![0u8; 10 * PAGE]);
        let start = source.as_ptr().addr().wrapping_sub(target.as_ptr().addr()) % PAGE;
        let mut least = |behind: usize| {
            let sample = |_| {
                let begin = std::time::Instant::now();
                // SAFETY: `target` has two pages more than `source`.
                unsafe { many(source.as_ptr(), target.as_mut_ptr().add(start + behind), source.len()) };
                begin.elapsed()
            };
            (0..50).map(sample).min().unwrap()
        };
        let (usual, behind) = (least(LINE), least(16));
        assert!(behind < 5 * usual, "{behind:?}, elsewhere {usual:?}");
    }

    #[test]
    fn long_copies_are_whole_and_fetch_every_line_once_before_it_is_copied_and_none_beyond() {
        let source: Vec<u8> = (0..20_000u32).map(|at| (at * 7 % 251) as u8 + 1).collect();
        for (len, ahead) in [(4096, 4096), (4097, 64), (10_000, 100), (16_384, 1 << 20)] {
            let mut target = vec![0u8; len + 8];
            let to = target.as_mut_ptr();
            let fetched = std::cell::RefCell::new(Vec::new());
            let fetch = |line: *const u8| {
                let at = line.addr() - source.as_ptr().addr();
                // SAFETY: both have so many bytes; this thread alone writes there.
                let copied = unsafe { to.add(at).read() } != 0;
                assert!(!copied && at < len, "line at {at} of {len}");
                fetched.borrow_mut().push(at);
            };
            // SAFETY: both vectors are longer than `len`.
            unsafe { Ahead(ahead).in_steps(source.as_ptr(), to, len, source.as_ptr(), fetch) };
            assert_eq!(target[..len], source[..len]);
            assert!(target[len..].iter().all(|&byte| byte == 0));
            let lines: Vec<usize> = (0..len).step_by(LINE).collect();
            assert_eq!(fetched.into_inner(), lines, "{len} bytes, {ahead} ahead");
            for copy in [Ahead::from_peer, Ahead::to_peer] {
                for ahead in [ahead, 0] {
                    target.fill(0);
                    // SAFETY: as above.
                    unsafe { copy(Ahead(ahead), source.as_ptr(), target.as_mut_ptr(), len) };
                    assert_eq!(target[..len], source[..len]);
                    assert!(target[len..].iter().all(|&byte| byte == 0));
                }
            }
        }
    }

    #[test]
    fn streaming_copies_every_length_to_every_place_and_nothing_beyond() {
        let source: Vec<u8> = (0..400u32).map(|at| (at * 7 % 251) as u8 + 1).collect();
        for (len, shift) in (0..=300).flat_map(|len| [0, 1, 17, 63].map(|shift| (len, shift))) {
            let mut target = vec![0u8; 512];
            // SAFETY: both vectors are longer than the lengths and the shift together.
            unsafe { streaming(source.as_ptr().add(shift / 2), target.as_mut_ptr().add(shift), len) };
            assert_eq!(&target[shift..shift + len], &source[shift / 2..shift / 2 + len]);
            let mut beyond = target[..shift].iter().chain(&target[shift + len..]);
            assert!(beyond.all(|&byte| byte == 0), "length {len}, from {shift} on");
        }
    }
}
