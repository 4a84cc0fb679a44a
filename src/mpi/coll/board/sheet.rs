//! # Safety
//! Writes only where its maker, `Turn::put`, has made room, and trusts its callers' lengths.
//!
//! Where a rank writes what it shows. What others have read there last goes past its caches where that is quicker
//! ([`Stores`]); what this rank has read there itself, in memory that two ranks swap or pass to each other, does not.
#![allow(unsafe_code)]

use super::Turn;
use crate::mpi::buffer::Buffer;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::shm::stores::Stores;
use crate::sys::copy;
use std::cell::RefMut;

/// Room for what is shown in a turn.
pub struct Sheet<'a> {
    pub(super) room: *mut u8,
    /// `None`: by way of the caches.
    pub(super) stores: Option<RefMut<'a, Stores>>,
}

impl Sheet<'_> {
    /// Its first byte.
    pub fn room(&self) -> *mut u8 {
        self.room
    }

    /// Copies `len` bytes to its beginning.
    ///
    /// # Safety
    /// The room has so many bytes, and so many can be read at `row`.
    #[inline(always)]
    pub unsafe fn copy(&mut self, row: *const u8, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.copy_to(0, row, len) };
    }

    /// Copies `len` bytes to `place`.
    ///
    /// # Safety
    /// As [`Sheet::copy`], of `place + len` bytes.
    #[inline(always)]
    pub unsafe fn copy_to(&mut self, place: usize, row: *const u8, len: usize) {
        let to = self.room.wrapping_add(place);
        // SAFETY: the caller's promise.
        unsafe {
            match &mut self.stores {
                Some(stores) => stores.copy(row, to, len),
                None => copy::bytes(row, to, len),
            }
        }
    }

    /// Copies `len` bytes of `buffer`, from `first` on, to `place`.
    ///
    /// # Safety
    /// The room has `place + len` bytes, the buffer `first + len`.
    #[inline(always)]
    pub unsafe fn pack(&mut self, place: usize, buffer: &Buffer, first: usize, len: usize) {
        let to = self.room.wrapping_add(place);
        // SAFETY: the caller's promise.
        unsafe {
            match (&mut self.stores, buffer.in_a_row()) {
                (Some(stores), Some(row)) => stores.copy(row.add(first), to, len),
                _ => buffer.pack(first, to, len),
            }
        }
    }
}

impl Turn<'_> {
    /// Shows `buffer`; wakes nobody yet.
    #[inline]
    pub(super) fn put_buffer(&self, hold: &mut Hold, buffer: &Buffer) -> Result<()> {
        self.put(hold, buffer.len(), false, |sheet| {
            // SAFETY: the sheet has as many bytes as the buffer, which the program owns.
            unsafe { sheet.pack(0, buffer, 0, buffer.len()) };
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn a_sheet_holds_what_is_packed_by_way_of_the_caches_and_past_them() {
        let source: Vec<u8> = (0..9000u32).map(|at| (at * 11 % 251) as u8).collect();
        let buffer = Buffer::bytes(source.as_ptr().cast_mut(), source.len());
        let stores = RefCell::new(Stores::past());
        for stores in [None, Some(&stores)] {
            let mut room = vec![0u8; 9100];
            let mut sheet = Sheet {
                room: room.as_mut_ptr(),
                stores: stores.map(RefCell::borrow_mut),
            };
            // SAFETY: both have as many bytes.
            unsafe {
                sheet.copy(source.as_ptr(), 40);
                sheet.pack(50, &buffer, 40, 8000);
            }
            assert_eq!(sheet.room(), room.as_mut_ptr());
            assert!(room[..40] == source[..40] && room[50..8050] == source[40..8040]);
            assert!(room[40..50].iter().chain(&room[8050..]).all(|&byte| byte == 0));
        }
    }
}
