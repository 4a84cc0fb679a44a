//! # Safety
//! Reads and writes the application's buffers: relies on the caller of MPI to own the memory that a
//! datatype describes at the address it passed.
//!
//! Inner loops of packing: blocks at regular or given places, to or from a row of bytes.
//!
//! One loop for each of the usual block lengths, so that the compiler sees the length; others are
//! `memcpy`'s business.
#![allow(unsafe_code)]

use super::layout::Block;
use super::wide;
use crate::sys::copy;

/// A copy between typed memory and packed bytes. `PACK` says the direction.
#[derive(Clone, Copy)]
pub struct Transfer<const PACK: bool> {
    /// Address of the typed elements.
    pub memory: *mut u8,
    /// The packed bytes.
    pub row: *mut u8,
    /// Whether copying a cache line at a time pays.
    pub wide: bool,
}

/// `count` blocks of `len` bytes, `stride` bytes apart in memory from `at`, `pitch` apart in the row from `to`.
#[derive(Clone, Copy, Debug)]
pub struct Strided {
    /// Displacement of the first block in memory.
    pub at: isize,
    /// Bytes between blocks in memory.
    pub stride: isize,
    /// Displacement of the first block in the row.
    pub to: usize,
    /// Bytes between blocks in the row.
    pub pitch: usize,
    /// Number of blocks.
    pub count: usize,
    /// Bytes of a block.
    pub len: usize,
}

macro_rules! by_length {
    ($len:expr, $fixed:ident => $body:expr, $other:expr) => {
        by_length!(@ $len, $fixed, $body, $other; 1 2 3 4 6 8 12 16 20 24 32 40 48 56 64)
    };
    (@ $len:expr, $fixed:ident, $body:expr, $other:expr; $($n:literal)*) => {
        match $len {
            $($n => { type $fixed = [u8; $n]; $body })*
            _ => $other,
        }
    };
}

impl<const PACK: bool> Transfer<PACK> {
    /// Copies the blocks of `s`.
    ///
    /// # Safety
    /// All of them lie in memory that may be read (written, when unpacking), and in the row.
    #[inline]
    pub unsafe fn strided(&self, s: Strided) {
        // SAFETY: the caller's promise.
        unsafe {
            by_length!(s.len, Fixed => self.fixed::<Fixed>(s), for i in 0..s.count {
                self.block(s.at + i as isize * s.stride, s.to + i * s.pitch, s.len);
            })
        }
    }

    /// Copies blocks of `len` bytes from each of `offsets`, in a row from `to`.
    ///
    /// # Safety
    /// As [`Transfer::strided`].
    #[inline]
    pub unsafe fn scattered(&self, at: isize, offsets: &[isize], to: usize, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            by_length!(len, Fixed => for (i, offset) in offsets.iter().enumerate() {
                self.one::<Fixed>(at + offset, to + i * size_of::<Fixed>());
            }, for (i, offset) in offsets.iter().enumerate() {
                self.block(at + offset, to + i * len, len);
            })
        }
    }

    /// Copies blocks of any length; `to` is where a block with `start` 0 goes.
    ///
    /// # Safety
    /// As [`Transfer::strided`].
    #[inline]
    pub unsafe fn listed(&self, at: isize, blocks: &[Block], to: usize) {
        for block in blocks {
            // SAFETY: the caller's promise.
            unsafe { self.block(at + block.offset, to + block.start, block.len) };
        }
    }

    #[inline]
    unsafe fn fixed<T: Copy>(&self, s: Strided) {
        let width = size_of::<T>();
        // SAFETY: the caller's promise. Loops differ in what the compiler knows about the distances.
        unsafe {
            if s.pitch == width && s.stride == 2 * width as isize {
                let (memory, row) = (self.memory.wrapping_offset(s.at), self.row.add(s.to));
                // The first elements, and all where the machine or the addresses do not allow more than one at a time.
                let done = match self.wide {
                    true => wide::every_other::<PACK>(memory, row, s.count, width),
                    false => 0,
                };
                for i in done..s.count {
                    self.one::<T>(s.at + (i * 2 * width) as isize, s.to + i * width);
                }
            } else if s.pitch == width {
                for i in 0..s.count {
                    self.one::<T>(s.at + i as isize * s.stride, s.to + i * width);
                }
            } else {
                for i in 0..s.count {
                    self.one::<T>(s.at + i as isize * s.stride, s.to + i * s.pitch);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn one<T: Copy>(&self, at: isize, to: usize) {
        // SAFETY: the caller's promise; byte arrays have no alignment.
        unsafe {
            let memory = self.memory.wrapping_offset(at).cast::<T>();
            let row = self.row.add(to).cast::<T>();
            if PACK {
                row.write(memory.read())
            } else {
                memory.write(row.read())
            }
        }
    }

    /// Copies one block.
    ///
    /// # Safety
    /// As [`Transfer::strided`].
    #[inline(always)]
    pub unsafe fn block(&self, at: isize, to: usize, len: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            let memory = self.memory.wrapping_offset(at);
            let row = self.row.add(to);
            if PACK {
                copy(memory, row, len)
            } else {
                copy(row, memory, len)
            }
        }
    }
}

/// `memcpy` that is done with short blocks before a call would have begun: loads from both ends that may overlap.
///
/// # Safety
/// As `copy_nonoverlapping`.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise; the branch taken stays within `len`.
    unsafe {
        match len {
            65.. => copy::many(from, to, len),
            33.. => {
                let (second, third) = (piece::<16>(from, 16), piece::<16>(from, len - 32));
                ends::<16>(from, to, len);
                to.add(16).cast::<[u8; 16]>().write(second);
                to.add(len - 32).cast::<[u8; 16]>().write(third);
            }
            16.. => ends::<16>(from, to, len),
            8.. => ends::<8>(from, to, len),
            4.. => ends::<4>(from, to, len),
            2.. => ends::<2>(from, to, len),
            1 => to.write(from.read()),
            0 => {}
        }
    }
}

/// Copies the first and the last `N` of `len` bytes.
///
/// # Safety
/// `len` is at least `N`; both addresses have `len` bytes.
#[inline(always)]
unsafe fn ends<const N: usize>(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        let (first, last) = (piece::<N>(from, 0), piece::<N>(from, len - N));
        to.cast::<[u8; N]>().write(first);
        to.add(len - N).cast::<[u8; N]>().write(last);
    }
}

/// # Safety
/// `N` bytes can be read at `at` bytes from `from`.
#[inline(always)]
unsafe fn piece<const N: usize>(from: *const u8, at: usize) -> [u8; N] {
    // SAFETY: the caller's promise.
    unsafe { from.add(at).cast::<[u8; N]>().read() }
}
