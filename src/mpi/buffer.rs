//! # Safety
//! Reads and writes the application's buffers: relies on the caller of MPI to own `count` elements
//! of `datatype` at the address it passed.
//!
//! Memory that a message is read from or written to.
#![allow(unsafe_code)]

use super::datatype::Datatype;
use crate::sys::copy::{self, Ahead};
use std::rc::Rc;

/// Longest buffer with gaps into which parts are unpacked that were fetched first: longer messages, which are offered, lose by that (indexed,
/// 128 KiB 32 us without and 18 with, 256 KiB 28 and 33).
const FETCHED: usize = 128 << 10;

/// Application memory as one message: an address and how its bytes lie there.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Where the first byte of a [`Layout::Bytes`] lies, or the typed buffer's base address.
    pub address: *mut u8,
    /// How the bytes lie.
    pub layout: Layout,
}

/// How a buffer's bytes lie in memory.
#[derive(Clone, Debug)]
pub enum Layout {
    /// This many bytes in a row.
    Bytes(usize),
    /// A copy of ours, in a row at the address.
    Kept(Rc<[u8]>),
    /// `count` elements of a datatype: one with gaps or another order, or any if its type is to be known.
    Typed {
        /// Number of elements.
        count: usize,
        /// Element type.
        datatype: Rc<Datatype>,
    },
}

impl Buffer {
    /// `len` bytes in a row at `address`.
    #[inline]
    pub fn bytes(address: *mut u8, len: usize) -> Buffer {
        Buffer {
            address,
            layout: Layout::Bytes(len),
        }
    }

    /// `count` elements of `datatype` at `address`; gap-free types become plain bytes.
    #[inline(always)]
    pub fn typed(address: *mut u8, count: usize, datatype: &Rc<Datatype>) -> Buffer {
        if let Some((first, len)) = Buffer::row(address, count, datatype) {
            return Buffer::bytes(first, len);
        }
        Buffer::of_type(address, count, datatype)
    }

    /// As [`Buffer::typed`], but the type is kept even if it has no gaps.
    pub fn of_type(address: *mut u8, count: usize, datatype: &Rc<Datatype>) -> Buffer {
        Buffer {
            address,
            layout: Layout::Typed {
                count,
                datatype: datatype.clone(),
            },
        }
    }

    /// Where `count` elements of `datatype` at `address` lie in a row, and how many bytes they are, if they do and memory can have so many.
    #[inline(always)]
    pub fn row(address: *mut u8, count: usize, datatype: &Datatype) -> Option<(*mut u8, usize)> {
        let first = address.wrapping_offset(datatype.true_lb());
        let len = count.checked_mul(datatype.size())?;
        (datatype.is_contiguous() || count == 0).then_some((first, len))
    }

    /// Where its bytes lie, if they lie in a row.
    #[inline]
    pub fn in_a_row(&self) -> Option<*mut u8> {
        match &self.layout {
            Layout::Bytes(_) | Layout::Kept(_) => Some(self.address),
            Layout::Typed { count, datatype } => Buffer::row(self.address, *count, datatype).map(|(first, _)| first),
        }
    }

    /// A copy of `buffer`'s bytes in memory of ours.
    pub fn kept(buffer: &Buffer) -> Buffer {
        let mut bytes = Rc::new_uninit_slice(buffer.len());
        let room = Rc::get_mut(&mut bytes).expect("nobody else knows it");
        // SAFETY: the program owns the buffer's memory; `room` has the message's length, and is full then.
        let bytes: Rc<[u8]> = unsafe {
            buffer.pack(0, room.as_mut_ptr().cast(), room.len());
            bytes.assume_init()
        };
        Buffer {
            address: bytes.as_ptr().cast_mut(),
            layout: Layout::Kept(bytes),
        }
    }

    /// Whether the bytes lie in a row at the address, whatever their type.
    #[inline]
    pub fn is_in_a_row(&self) -> bool {
        !matches!(self.layout, Layout::Typed { .. })
    }

    /// Bytes of data in the message.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.layout {
            Layout::Bytes(len) => *len,
            Layout::Kept(bytes) => bytes.len(),
            Layout::Typed { count, datatype } => count * datatype.size(),
        }
    }

    /// Whether the message holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes `position .. position + len` of the message to `out`.
    ///
    /// # Safety
    /// The buffer's memory is readable, `out` has room for `len` bytes, and
    /// `position + len <= self.len()`.
    #[inline]
    pub unsafe fn pack(&self, position: usize, out: *mut u8, len: usize) {
        match &self.layout {
            // SAFETY: the caller's promise.
            Layout::Bytes(_) | Layout::Kept(_) => unsafe { copy::bytes(self.address.add(position), out, len) },
            // SAFETY: the caller's promise.
            Layout::Typed { count, datatype } => unsafe { datatype.pack(self.address, *count, position, out, len) },
        }
    }

    /// Writes `len` bytes from `from` to bytes `position .. position + len` of the message.
    ///
    /// # Safety
    /// The buffer's memory is writable, `from` has `len` bytes, and `position + len <= self.len()`.
    #[inline]
    pub unsafe fn unpack(&self, position: usize, from: *const u8, len: usize) {
        match &self.layout {
            // SAFETY: the caller's promise.
            Layout::Bytes(_) | Layout::Kept(_) => unsafe { copy::bytes(from, self.address.add(position), len) },
            // SAFETY: the caller's promise.
            Layout::Typed { count, datatype } => unsafe { datatype.unpack(self.address, *count, position, from, len) },
        }
    }

    /// As [`Buffer::unpack`], of bytes that another rank has written.
    ///
    /// # Safety
    /// As [`Buffer::unpack`].
    #[inline]
    pub unsafe fn unpack_from_peer(&self, ahead: Ahead, position: usize, from: *const u8, len: usize) {
        match self.in_a_row() {
            // SAFETY: the caller's promise.
            Some(row) => unsafe { ahead.from_peer(from, row.add(position), len) },
            None => {
                if self.len() <= FETCHED {
                    ahead.fetch(from, len);
                }
                // SAFETY: the caller's promise.
                unsafe { self.unpack(position, from, len) }
            }
        }
    }
}
