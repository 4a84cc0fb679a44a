//! # Safety
//! As [`super`]: everything lies within the part of the segment that the layout is of.
//!
//! Where in the segment lies what ranks own: rings, pools, offers, boards.
#![allow(unsafe_code)]

use super::{PAGE, Segment};
use crate::shm::board::{Board, Place};
use crate::shm::names::{NAMES, Name};
use crate::shm::offer::{OFFERS, Offer};
use crate::shm::{pool, ring, shuttle};

impl Segment {
    /// The ring from `sender` to `receiver`.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn ring(&self, receiver: u32, sender: u32) -> ring::Place {
        let part = self.part(receiver.max(sender));
        let layout = &part.layout;
        ring::Place {
            slots: part.at(layout.slots(receiver, sender)),
            slot_count: layout.slots as u32,
            bytes: part.at(layout.bytes(receiver, sender)),
            byte_count: layout.bytes as u32,
            credit: part.at(layout.credit(receiver, sender)),
        }
    }

    /// The larger byte ring from `sender` to `receiver`, if they have one; a rank and itself have none.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn larger_ring(&self, receiver: u32, sender: u32) -> Option<ring::Larger> {
        let part = self.part(receiver.max(sender));
        let count = part.layout.larger;
        (count > 0 && receiver != sender).then(|| ring::Larger {
            bytes: part.at(part.layout.larger(receiver, sender)),
            byte_count: count as u32,
        })
    }

    /// The shuttles of two ranks; none where jobs are too large for them, or for a rank and itself.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn shuttles(&self, one: u32, other: u32) -> shuttle::Place {
        let (low, high) = (one.min(other), one.max(other));
        let part = self.part(high);
        let bytes = if low == high { 0 } else { part.layout.shuttle };
        // What has no bytes may lie anywhere.
        let place = |owner, peer| part.at(if bytes > 0 { part.layout.shuttle(owner, peer) } else { 0 });
        let at = [place(low, high), place(high, low)];
        shuttle::Place { at, bytes }
    }

    /// The pool of `owner`.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn pool(&self, owner: u32) -> pool::Place {
        let part = self.part(owner);
        let at = part.layout.pool(owner);
        pool::Place {
            marks: part.at(at),
            cells: part.at(at + PAGE),
        }
    }

    /// Descriptor `index` of `owner`; `None` when there is no such descriptor.
    pub fn offer(&self, owner: u32, index: u32) -> Option<&Offer> {
        if owner >= self.known() || index as usize >= OFFERS {
            return None;
        }
        let part = self.part(owner);
        let at = part.layout.offers(owner) + index as usize * size_of::<Offer>();
        // SAFETY: the table lies within the mapping; an offer is atomics.
        Some(unsafe { part.at::<Offer>(at).as_ref() })
    }

    /// The board of `owner` for `context`, the one for nonblocking operations if `started`, if there is one. The caller
    /// keeps the segment for as long as it uses it.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn board(&self, owner: u32, context: u16, started: bool) -> Option<Place<Board>> {
        let part = self.part(owner);
        let at = part.layout.board(owner, context.into(), started)?;
        // SAFETY: the board lies within the mapping, whose keeping is the caller's promise.
        Some(unsafe { Place::new(part.at(at)) })
    }

    /// The scratch memory of `owner`. The caller keeps the segment for as long as it uses it.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn scratch(&self, owner: u32) -> Place<u8> {
        let part = self.part(owner);
        // SAFETY: as in `board`.
        unsafe { Place::new(part.at(part.layout.scratch(owner))) }
    }

    /// Published names.
    pub fn names(&self) -> &[Name] {
        // SAFETY: the table of NAMES entries, all atomics, lies within the mapping.
        unsafe { std::slice::from_raw_parts(self.at::<Name>(self.part.layout.names()).as_ptr(), NAMES) }
    }
}
