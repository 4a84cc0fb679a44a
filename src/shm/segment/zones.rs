//! # Safety
//! As [`super`]: every range is checked against the zone's.
//!
//! Where the ranks' zones lie in the segment's file ([`crate::shm::zone`] says what they are for).
#![allow(unsafe_code)]

use super::{PAGE, Segment};
use crate::shm::zone::View;
use crate::sys::memory::{self, Mapping};
use std::io;
use std::os::fd::BorrowedFd;

impl Segment {
    /// Bytes in the zone of each rank.
    pub fn zone_len(&self) -> usize {
        self.zone
    }

    /// Bytes of a rank's zone that it may map in one piece: twice its share of the machine's memory, so that a rank that maps
    /// everybody's stays within what addresses there are. Costs a system call.
    pub fn home_len(&self) -> usize {
        let share = 2 * memory::installed() / self.ranks() as usize;
        self.zone.min(share / PAGE * PAGE)
    }

    /// `len` bytes of `owner`'s zone from `offset` on, a multiple of the page size.
    ///
    /// # Errors
    /// What the kernel says; `InvalidInput` when the zone has no such bytes.
    pub fn view(&self, owner: u32, offset: usize, len: usize) -> io::Result<View> {
        let at = self.zone_at(owner, offset, len)?;
        match &self.file {
            Some(_) => Ok(View::mapped(Mapping::part(self.file()?, at, len)?)),
            None => Ok(View::of(self.at(at))),
        }
    }

    /// The first `len` bytes of `owner`'s zone, of which none can be accessed before [`memory::open`] is called.
    ///
    /// # Errors
    /// As [`Segment::view`].
    pub fn closed_view(&self, owner: u32, len: usize) -> io::Result<View> {
        let at = self.zone_at(owner, 0, len)?;
        match &self.file {
            Some(_) => Ok(View::mapped(Mapping::closed(self.file()?, at, len)?)),
            None => Ok(View::of(self.at(at))),
        }
    }

    /// The file, and where in it `owner`'s zone begins; `None` where ranks are threads, or the program has closed it.
    pub fn zone_file(&self, owner: u32) -> Option<(BorrowedFd<'_>, usize)> {
        let at = self.zone_at(owner, 0, 0).ok()?;
        Some((self.file().ok()?, at))
    }

    /// Empties `len` bytes of `owner`'s zone from `offset` on, which nobody uses any more.
    ///
    /// # Errors
    /// As [`Segment::view`].
    pub fn discard(&self, owner: u32, offset: usize, len: usize) -> io::Result<()> {
        let at = self.zone_at(owner, offset, len)?;
        match &self.file {
            Some(_) => memory::discard(self.file()?, at, len),
            None => {
                // SAFETY: the range lies within the mapping, and nobody uses it, says the caller.
                unsafe { self.at::<u8>(at).write_bytes(0, len) };
                Ok(())
            }
        }
    }

    fn zone_at(&self, owner: u32, offset: usize, len: usize) -> io::Result<usize> {
        let end = offset.checked_add(len);
        if owner >= self.known() || !offset.is_multiple_of(PAGE) || end.is_none_or(|end| end > self.zone) {
            let text = format!("{len} bytes at {offset} of rank {owner}'s zone");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let part = self.part(owner);
        let index = (owner - part.layout.first) as usize;
        Ok(part.start + part.layout.len + index * self.zone + offset)
    }
}
