//! # Safety
//! A view is made by [`Turn::see`](super::Turn::see), which checks what the slot says: its bytes are there until the turn
//! is finished.
//!
//! What another rank shows, as its reader sees it.
#![allow(unsafe_code)]

use super::{DIFFER, ENTRY};
use crate::mpi::buffer::Buffer;
use crate::mpi::error::{Class, Error, Result};
use crate::mpi::world::Hold;

/// What another rank shows; valid until the turn is finished.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// First byte.
    pub data: *const u8,
    /// How many bytes.
    pub len: usize,
    /// Where they lie in the other's own memory, if not at `data`.
    pub far: Option<u64>,
    /// If they lie in the other's own memory all the same, where both have mapped it: how far one rank's block lies behind another's, 0 for
    /// one row.
    pub(super) lent: Option<usize>,
    pub(super) from: u32,
}

impl View {
    /// Checks that there are at least `len` bytes.
    ///
    /// # Errors
    /// `Other`: there are not.
    pub fn has(&self, len: usize) -> Result<()> {
        match len > self.len {
            true => Err(self.differs(len)),
            false => Ok(()),
        }
    }

    /// The error that there are not `len` bytes: `Truncate` if there are more.
    #[cold]
    pub(super) fn differs(&self, len: usize) -> Error {
        let (from, has) = (self.from, self.len);
        let text = format!("rank {from} has {has} bytes where {len} were expected: {DIFFER}");
        Error::new(if has > len { Class::Truncate } else { Class::Other }, text)
    }

    /// Only the block that the table at its beginning names for `rank`.
    pub(super) fn block(mut self, rank: usize) -> Option<View> {
        let entry = rank * ENTRY;
        if self.far.is_some() {
            return Some(self);
        }
        if self.len < entry + ENTRY {
            return None;
        }
        let (place, len) = (self.word(entry) as usize, self.word(entry + 8) as usize);
        if place > self.len || len > self.len - place {
            return None;
        }
        (self.data, self.len) = (self.data.wrapping_add(place), len);
        Some(self)
    }

    /// The 64-bit word at `first`, which has been checked to be there.
    pub(super) fn word(&self, first: usize) -> u64 {
        // SAFETY: the caller has looked.
        unsafe { self.data.wrapping_add(first).cast::<u64>().read_unaligned() }
    }

    /// Copies bytes `first ..` of the view to `to`, as many as go there.
    ///
    /// # Errors
    /// `Other`: there are not as many.
    pub fn copy(&self, hold: &Hold, first: usize, to: &Buffer) -> Result<()> {
        let len = to.len();
        self.has(first + len)?;
        // SAFETY: the view has the bytes; the program owns the buffer.
        unsafe { self.unpack(hold, first, to, (0, len)) };
        Ok(())
    }

    /// Copies bytes `first ..` of the view to bytes `(at, len)` of `to`. A program's memory comes in long rows, which a processor copies
    /// best by itself.
    ///
    /// # Safety
    /// The view has as many bytes, and so has the buffer.
    #[inline]
    pub(super) unsafe fn unpack(&self, hold: &Hold, first: usize, to: &Buffer, (at, len): (usize, usize)) {
        let from = self.data.wrapping_add(first);
        // SAFETY: the caller's promise.
        unsafe {
            match self.lent.is_some() {
                true => to.unpack(at, from, len),
                false => to.unpack_from_peer(hold.engine.channel.ahead, at, from, len),
            }
        }
    }
}
