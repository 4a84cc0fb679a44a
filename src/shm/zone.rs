//! # Safety
//! Hands out addresses of mapped memory; who may touch which byte when is its user's matter.
//!
//! Zones: behind the fixed structures the segment's file goes on with a range for each rank. A rank
//! deals out its own zone ([`Zone`]) and tells others where something lies; whoever wants to see it
//! maps that part ([`super::segment::Segment::view`]). The file is sparse, so an untouched zone costs nothing.
#![allow(unsafe_code)]

use super::layout::{Layout, PAGE};
use crate::sys::memory::{self, Mapping};
use std::collections::BTreeMap;
use std::ops::Range;
use std::ptr::NonNull;

/// Largest zone: more than a machine has memory, so that memory is the limit.
const LARGEST: usize = 1 << 42;
/// Zone of a rank that is a thread.
pub const PRIVATE: usize = 4 << 20;

/// Bytes that each rank's zone can have, as large as files may be.
pub fn len_for(layout: &Layout) -> usize {
    let room = memory::largest_file().saturating_sub(layout.len) / layout.ranks as usize;
    room.min(LARGEST) / PAGE * PAGE
}

/// Part of a zone as this process sees it.
#[derive(Debug)]
pub struct View {
    base: NonNull<u8>,
    _mapping: Option<Mapping>,
}

impl View {
    pub(super) fn mapped(mapping: Mapping) -> View {
        let base = NonNull::new(mapping.base()).expect("a mapping is never at address 0");
        View {
            base,
            _mapping: Some(mapping),
        }
    }

    pub(super) fn of(base: NonNull<u8>) -> View {
        View { base, _mapping: None }
    }

    /// What is mapped as `range` anyway, from `offset` on.
    ///
    /// # Panics
    /// When that is not within the range.
    pub fn inside(range: Range<usize>, offset: usize) -> View {
        assert!(offset < range.len());
        View::of(NonNull::new((range.start + offset) as *mut u8).expect("no mapping begins at address 0"))
    }

    /// Its first byte; on a page.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

/// Which parts of a rank's own zone are free, by offset.
#[derive(Debug)]
pub struct Zone {
    free: BTreeMap<usize, usize>,
}

impl Zone {
    /// A zone of `len` free bytes.
    pub fn new(len: usize) -> Zone {
        let free = (len > 0).then_some((0, len));
        Zone {
            free: free.into_iter().collect(),
        }
    }

    /// Offset of `len` bytes, whole pages, that are now taken; `None` when there are not so many in a row.
    pub fn take(&mut self, len: usize) -> Option<usize> {
        let len = pages(len)?;
        let (offset, room) = self
            .free
            .iter()
            .map(|(&at, &room)| (at, room))
            .find(|&(_, room)| room >= len)?;
        self.free.remove(&offset);
        if room > len {
            self.free.insert(offset + len, room - len);
        }
        Some(offset)
    }

    /// Gives back what [`Zone::take`] gave for `len` bytes.
    pub fn give_back(&mut self, mut offset: usize, len: usize) {
        let mut len = pages(len).unwrap_or(0);
        if let Some(next) = self.free.remove(&(offset + len)) {
            len += next;
        }
        if let Some((&before, &room)) = self.free.range(..offset).next_back()
            && before + room == offset
        {
            (offset, len) = (before, len + room);
        }
        self.free.insert(offset, len);
    }
}

/// `len` rounded up to whole pages, at least one.
pub fn pages(len: usize) -> Option<usize> {
    len.max(1).checked_next_multiple_of(PAGE)
}

#[cfg(test)]
mod tests {
    use super::super::segment::{Segment, create};
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn what_is_given_back_is_whole_again() {
        let mut zone = Zone::new(8 * PAGE);
        let taken: Vec<usize> = (0..4).map(|_| zone.take(PAGE + 1).unwrap()).collect();
        assert_eq!(taken, [0, 2 * PAGE, 4 * PAGE, 6 * PAGE]);
        assert_eq!(zone.take(1), None);
        for offset in [4 * PAGE, 0, 6 * PAGE, 2 * PAGE] {
            zone.give_back(offset, PAGE + 1);
        }
        assert_eq!(zone.take(8 * PAGE), Some(0));
        assert_eq!(Zone::new(0).take(1), None);
        assert_eq!(Zone::new(PAGE).take(usize::MAX), None);
    }

    #[test]
    fn two_views_show_the_same_memory_until_it_is_discarded() {
        let fd = create(2, 2).unwrap();
        let (one, other) = (
            Segment::attach(fd.as_fd()).unwrap(),
            Segment::attach(fd.as_fd()).unwrap(),
        );
        let threads = Segment::private(2, 2).unwrap();
        for (one, other) in [(&one, &other), (&threads, &threads)] {
            let mine = one.view(1, PAGE, 3 * PAGE).unwrap();
            // SAFETY: three pages were mapped.
            unsafe { mine.base().add(5000).write(7) };
            let seen = other.view(1, PAGE, 3 * PAGE).unwrap();
            // SAFETY: as above.
            assert_eq!(unsafe { seen.base().add(5000).read() }, 7);
            one.discard(1, PAGE, 3 * PAGE).unwrap();
            // SAFETY: as above.
            assert_eq!(unsafe { seen.base().add(5000).read() }, 0);
            assert!(one.view(2, 0, PAGE).is_err() && one.view(0, 1, PAGE).is_err());
            assert!(one.view(0, one.zone_len(), PAGE).is_err());
        }
    }
}
