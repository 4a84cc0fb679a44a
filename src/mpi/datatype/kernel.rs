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

/// A copy between typed memory and packed bytes. `PACK` says the direction.
#[derive(Clone, Copy)]
pub struct Transfer<const PACK: bool> {
    /// Address of the typed elements.
    pub memory: *mut u8,
    /// The packed bytes.
    pub row: *mut u8,
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
        by_length!(@ $len, $fixed, $body, $other; 1 2 3 4 6 8 12 16 24 32 48 64)
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
                for i in 0..s.count {
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
                row.copy_from_nonoverlapping(memory, len)
            } else {
                memory.copy_from_nonoverlapping(row, len)
            }
        }
    }
}
