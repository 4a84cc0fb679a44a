//! # Safety
//! Relies on the segment to outlive the ends made of it, and on each end being the only one of its
//! kind for its pair of ranks.
//!
//! The receive buffer of one ordered pair of ranks (Chai 2006 §3.2): a ring of one-line slots and a
//! ring of bytes, each with one writer and one reader.
//!
//! ```text
//!            63    48 47  40 39  32 31        0
//! Slot  w0  | number | kind | aux  | len       |   stored last (Release): the slot is there
//!       w1  | envelope                         |
//!       w2..w7  48 bytes of payload, or what the kind says
//! Credit w0 | bytes consumed | slots consumed  |   written by the reader only
//! ```
//!
//! A slot is full when it has the number that the reader waits for. They count from 1 and start over at 0
//! after 65535; there are fewer slots, so neither zero bytes nor what a slot held before are ever taken for
//! the next. Messages too long for a slot and short enough for the byte ring lie there in one
//! piece at the position both ends compute alike: each message starts on a cache line, and one that
//! would cross the ring's end starts at its beginning.
//!
//! A pair that has sent much through a byte ring that was full may go over to a larger one, once. Its writer says so in a slot,
//! of kind [`LARGER`] and with the larger one's size as `len`: the bytes of all later slots lie there. Positions go on as they
//! were, so each end changes nothing but where they are, and what is unread in the first ring stays until its reader has come past.
//! Then nobody needs that ring, and its reader gives its pages back.
//!
//! Ordering: `Producer::push` stores w0 with Release, `Consumer::peek` loads it with Acquire;
//! `Consumer::return_credit` stores with Release, `Producer::refresh` loads with Acquire.
#![allow(unsafe_code)]

use super::sync::{AtomicU64, Ordering};
use crate::sys::{copy, cpu, memory};
use std::ptr::NonNull;

/// Bytes of payload in a slot.
pub const INLINE: usize = 48;
/// 64-bit words of payload in a slot.
pub const INLINE_WORDS: usize = INLINE / 8;
/// Bytes of a cache line; messages in the byte ring start on multiples of this.
const LINE: u32 = 64;
/// Bytes of each half whose pages are made as they are touched; the pages of the rest are made at once when these are full.
const FIRST: u32 = 2048;

/// The kind of a slot that says that the bytes of all later ones lie in the larger byte ring; the channel's kinds are others.
pub const LARGER: u8 = 255;

/// One slot.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Slot {
    head: AtomicU64,
    envelope: AtomicU64,
    payload: [AtomicU64; INLINE_WORDS],
}

/// What the reader has consumed.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Credit {
    consumed: AtomicU64,
}

/// Where a ring lies. `slots` and `bytes` are powers of two; `bytes` may be 0.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The slots.
    pub slots: NonNull<Slot>,
    /// How many slots.
    pub slot_count: u32,
    /// The byte ring.
    pub bytes: NonNull<u8>,
    /// Its size.
    pub byte_count: u32,
    /// The credit line.
    pub credit: NonNull<Credit>,
}

// SAFETY: addresses of shared memory made for concurrent use by the rules above.
unsafe impl Send for Place {}

/// Bytes from which a byte ring is a long one: what lies in it has left its writer's second-level cache, and comes quicker than one copy
/// (Zen 4).
pub const LONG: u32 = 2 << 20;

/// A larger byte ring, for a pair through whose first one much goes.
#[derive(Clone, Copy, Debug)]
pub struct Larger {
    /// Its bytes.
    pub bytes: NonNull<u8>,
    /// Its size, a power of two.
    pub byte_count: u32,
}

// SAFETY: as above.
unsafe impl Send for Larger {}

/// The first word of a slot, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the slot holds; the channel's numbers.
    pub kind: u8,
    /// A small number that goes with the kind.
    pub aux: u8,
    /// Bytes of the message.
    pub len: u32,
}

/// The peer wrote something that no healthy peer writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Junk;

/// The writing end.
#[derive(Debug)]
pub struct Producer {
    place: Place,
    head: u32,
    /// What `head` is when no slot is free, as far as is known.
    limit: u32,
    byte_head: u32,
    bytes_seen: u32,
    /// Slots and bytes that are used: few until somebody needs more.
    slot_room: u32,
    byte_room: u32,
    growth: Option<Box<Growth>>,
}

/// When a writer goes over to the larger byte ring.
#[derive(Debug)]
struct Growth {
    larger: Larger,
    /// Bytes that are still to go through the first one while it is full.
    left: u64,
    /// `byte_head` when it was full last.
    marked: u32,
}

/// The reading end.
#[derive(Debug)]
pub struct Consumer {
    place: Place,
    tail: u32,
    byte_tail: u32,
    slots_returned: u32,
    bytes_returned: u32,
    fraction: u32,
    larger: Option<Box<Larger>>,
}

/// The number in the slot that is filled after `head` others.
#[inline(always)]
fn number(head: u32) -> u64 {
    u64::from(head.wrapping_add(1) as u16)
}

impl Place {
    #[inline(always)]
    fn slot(&self, index: u32) -> &Slot {
        // SAFETY: the mask keeps the index in range; slots are shared atomics.
        unsafe { self.slots.add((index & (self.slot_count - 1)) as usize).as_ref() }
    }

    fn enlarge(&mut self, larger: &Larger) {
        (self.bytes, self.byte_count) = (larger.bytes, larger.byte_count);
    }

    fn credit(&self) -> &Credit {
        // SAFETY: the place was made of a living segment.
        unsafe { self.credit.as_ref() }
    }

    /// Bytes from position `at` that a message of `len` bytes takes, the gap before it included,
    /// and the offset it starts at.
    #[inline]
    fn span(&self, at: u32, len: u32) -> (u32, u32) {
        let padded = len.next_multiple_of(LINE);
        let offset = at & (self.byte_count - 1);
        if offset + padded <= self.byte_count {
            (padded, offset)
        } else {
            (self.byte_count - offset + padded, 0)
        }
    }
}

impl Producer {
    /// The writing end of the ring at `place`.
    ///
    /// # Safety
    /// `place` describes zeroed shared memory that outlives the producer, which is its only one.
    pub unsafe fn new(place: Place) -> Producer {
        let slot_room = place.slot_count.min(FIRST / size_of::<Slot>() as u32);
        Producer {
            place,
            head: 0,
            limit: slot_room,
            byte_head: 0,
            bytes_seen: 0,
            slot_room,
            byte_room: place.byte_count.min(FIRST),
            growth: None,
        }
    }

    /// It goes over to the `larger` byte ring when `after` bytes, if not 0, have gone through the first one while that was full.
    ///
    /// # Safety
    /// As for [`Producer::new`]; the consumer has room for the larger ring at the same place.
    pub unsafe fn growing(mut self, larger: Option<Larger>, after: u64) -> Producer {
        let larger = larger.filter(|larger| after > 0 && larger.byte_count > self.place.byte_count);
        self.growth = larger.map(|larger| {
            Box::new(Growth {
                larger,
                left: after,
                marked: self.byte_head,
            })
        });
        self
    }

    /// Whether a slot is free; looks at the reader's credit only when it seems not.
    #[inline]
    pub fn has_slot(&mut self) -> Result<bool, Junk> {
        self.has_slots(1)
    }

    /// As [`Producer::has_slot`], for `count` of them.
    #[inline]
    pub fn has_slots(&mut self, count: u32) -> Result<bool, Junk> {
        if self.limit.wrapping_sub(self.head) < count {
            self.more_slots()?;
        }
        Ok(self.limit.wrapping_sub(self.head) >= count)
    }

    /// Whether a slot is known to be free.
    #[inline(always)]
    pub fn knows_slot(&self) -> bool {
        self.head != self.limit
    }

    /// Fills the next slot with `payload` and makes it visible. The caller has seen `has_slot`.
    #[inline]
    pub fn push(&mut self, header: Header, envelope: u64, payload: &[u64]) {
        let head = self.head;
        let slot = self.place.slot(head);
        for (word, value) in slot.payload.iter().zip(payload) {
            word.store(*value, Ordering::Relaxed);
        }
        Self::publish(slot, head, header, envelope);
        self.head = head.wrapping_add(1);
    }

    /// As [`Producer::push`], with the `header.len` bytes at `data` as the payload.
    ///
    /// # Safety
    /// `header.len` is at most [`INLINE`], and `data` is readable for that many bytes.
    #[inline(always)]
    pub unsafe fn push_bytes(&mut self, header: Header, envelope: u64, data: *const u8) {
        // The compiler must see that nothing that is stored here changes where the slot lies.
        let head = self.head;
        let slot = self.place.slot(head);
        // SAFETY: the caller's promise; until the header word is stored the slot is the writer's alone.
        unsafe { copy::few(data, slot.payload.as_ptr().cast_mut().cast(), header.len as usize) };
        Self::publish(slot, head, header, envelope);
        self.head = head.wrapping_add(1);
    }

    #[inline(always)]
    fn publish(slot: &Slot, head: u32, header: Header, envelope: u64) {
        slot.envelope.store(envelope, Ordering::Relaxed);
        let word = u64::from(header.kind) << 40 | u64::from(header.aux) << 32 | u64::from(header.len);
        slot.head.store(number(head) << 48 | word, Ordering::Release);
    }

    /// Fetches the lines of the next `len` bytes of the byte ring and of the next slot for writing, and waits for nothing.
    #[inline(always)]
    pub fn expect(&self, len: u32) {
        if len > 0 {
            let offset = self.place.span(self.byte_head, len).1;
            for line in (offset..offset + len).step_by(LINE as usize) {
                cpu::own_soon(self.place.bytes.as_ptr().wrapping_add(line as usize));
            }
        }
        // Last, for it is written last: the reader looks at it all the time, and takes it away again before.
        cpu::own_soon(self.place.slot(self.head));
    }

    /// Slots pushed so far, and bytes of the byte ring, modulo 2^32.
    #[inline]
    pub fn pushed(&self) -> (u32, u32) {
        (self.head, self.byte_head)
    }

    /// Room for `len` bytes in a row in the byte ring, or `None` while it is full. The bytes belong to
    /// the next slot pushed, which says `len`.
    #[inline]
    pub fn reserve(&mut self, len: u32) -> Result<Option<NonNull<u8>>, Junk> {
        let (mut span, mut offset) = self.place.span(self.byte_head, len);
        let fits = |producer: &Producer, span| {
            producer.byte_head.wrapping_sub(producer.bytes_seen) + span <= producer.byte_room
        };
        if !fits(self, span) {
            self.more_bytes()?;
            if !fits(self, span) {
                if !self.enlarge()? {
                    return Ok(None);
                }
                (span, offset) = self.place.span(self.byte_head, len);
                if !fits(self, span) {
                    return Ok(None);
                }
            }
        }
        self.byte_head = self.byte_head.wrapping_add(span);
        // SAFETY: `span` keeps offset + len within the byte ring.
        Ok(Some(unsafe { self.place.bytes.add(offset as usize) }))
    }

    /// The part of `len` bytes that leaves no gap before the ring's end: all of them, or as many as still have room there.
    #[inline]
    pub fn stretch(&self, len: u32) -> u32 {
        let count = self.place.byte_count;
        len.min(count - (self.byte_head & (count - 1)))
    }

    /// Whether `len` bytes in parts of up to `part` bytes, each a [`Producer::stretch`] in a slot of its own, have room now.
    #[inline]
    pub fn has_room(&mut self, len: u32, part: u32) -> Result<bool, Junk> {
        let fits = |producer: &Producer| {
            let used = producer.byte_head.wrapping_sub(producer.bytes_seen);
            used.saturating_add(len.saturating_add(LINE - 1)) / LINE <= producer.place.byte_count / LINE
        };
        if !fits(self) {
            self.refresh()?;
            if !fits(self) {
                self.enlarge()?;
            }
        }
        // One part may be cut in two where the ring ends.
        Ok(fits(self) && self.has_slots(len.div_ceil(part) + 1)?)
    }

    /// Bytes of the byte ring.
    #[inline]
    pub fn size(&self) -> u32 {
        self.place.byte_count
    }

    /// Bytes that the byte ring has after it has become larger, if it still may.
    pub fn may_have(&self) -> Option<u32> {
        self.growth.as_ref().map(|growth| growth.larger.byte_count)
    }

    /// Whether a message of `len` bytes would find the byte ring's pages made.
    #[inline]
    pub fn has_pages(&self, len: usize) -> bool {
        len <= self.byte_room as usize
    }

    /// Bytes in the byte ring that nobody has read, as far as the reader has said.
    #[inline]
    pub fn unread(&mut self) -> Result<u32, Junk> {
        self.refresh()?;
        Ok(self.byte_head.wrapping_sub(self.bytes_seen))
    }

    /// Looks for slots that the reader has left. The first time makes the pages of all of them: where ranks share CPUs, a page
    /// that is made amid an exchange takes longer than its receiver looks for the message, and once that has given way the two
    /// take long to meet again.
    #[cold]
    #[inline(never)]
    fn more_slots(&mut self) -> Result<(), Junk> {
        if self.slot_room < self.place.slot_count {
            self.slot_room = self.place.slot_count;
            let bytes = self.slot_room as usize * size_of::<Slot>();
            memory::make(self.place.slots.as_ptr().cast(), bytes);
        }
        self.refresh()
    }

    /// As [`Producer::more_slots`], in the byte ring.
    #[cold]
    #[inline(never)]
    fn more_bytes(&mut self) -> Result<(), Junk> {
        if self.byte_room < self.place.byte_count {
            self.byte_room = self.place.byte_count;
            memory::make(self.place.bytes.as_ptr(), self.byte_room as usize);
        }
        self.refresh()
    }

    /// The byte ring is full: goes over to the larger one if enough has gone through this one and a slot is free beside the one
    /// that the caller may have seen; whether that is done. Its pages are made at once, as in [`Producer::more_slots`].
    #[cold]
    #[inline(never)]
    fn enlarge(&mut self) -> Result<bool, Junk> {
        let Some(growth) = &mut self.growth else {
            return Ok(false);
        };
        // What came and went long before it was full does not count.
        let moved = self.byte_head.wrapping_sub(growth.marked).min(self.place.byte_count);
        growth.marked = self.byte_head;
        growth.left = growth.left.saturating_sub(moved.into());
        let larger = growth.larger;
        if growth.left > 0 || !self.has_slots(2)? {
            return Ok(false);
        }
        self.growth = None;
        memory::make_huge(larger.bytes.as_ptr(), larger.byte_count as usize);
        let header = Header {
            kind: LARGER,
            aux: 0,
            len: larger.byte_count,
        };
        self.push(header, 0, &[]);
        self.place.enlarge(&larger);
        self.byte_room = larger.byte_count;
        Ok(true)
    }

    fn refresh(&mut self) -> Result<(), Junk> {
        let consumed = self.place.credit().consumed.load(Ordering::Acquire);
        let (slots, bytes) = (consumed as u32, (consumed >> 32) as u32);
        let sane = self.head.wrapping_sub(slots) <= self.place.slot_count
            && self.byte_head.wrapping_sub(bytes) <= self.place.byte_count;
        if !sane {
            return Err(Junk);
        }
        (self.limit, self.bytes_seen) = (slots.wrapping_add(self.slot_room), bytes);
        Ok(())
    }
}

impl Consumer {
    /// The reading end of the ring at `place`; it returns credits once `1/fraction` of the ring is consumed.
    ///
    /// # Safety
    /// As for [`Producer::new`].
    pub unsafe fn new(place: Place, fraction: u32) -> Consumer {
        Consumer {
            place,
            tail: 0,
            byte_tail: 0,
            slots_returned: 0,
            bytes_returned: 0,
            fraction,
            larger: None,
        }
    }

    /// The writer may go over to a `larger` byte ring, of up to so many bytes.
    ///
    /// # Safety
    /// As for [`Producer::new`].
    pub unsafe fn growing(mut self, larger: Option<Larger>) -> Consumer {
        self.larger = larger.map(Box::new);
        self
    }

    /// The slot that `peek` saw, of kind [`LARGER`], says that the bytes of all later ones lie in the larger byte ring, the first `len`
    /// bytes of its room.
    ///
    /// # Errors
    /// `Junk` where there is no such room, or no longer, or that is not larger.
    #[cold]
    #[inline(never)]
    pub fn enlarge(&mut self, len: u32) -> Result<(), Junk> {
        let fits =
            |larger: &mut Box<Larger>| len.is_power_of_two() && self.place.byte_count < len && len <= larger.byte_count;
        let mut larger = self.larger.take_if(fits).ok_or(Junk)?;
        larger.byte_count = len;
        memory::make_huge(larger.bytes.as_ptr(), len as usize);
        // SAFETY: the writer has left the first ring, and whatever lay there has been read.
        unsafe { memory::give_back(self.place.bytes.as_ptr(), self.place.byte_count as usize) };
        self.place.enlarge(&larger);
        Ok(())
    }

    /// The next slot's header, if it is there.
    #[inline]
    pub fn peek(&self) -> Option<Header> {
        let head = self.place.slot(self.tail).head.load(Ordering::Acquire);
        if head >> 48 != number(self.tail) {
            return None;
        }
        Some(Header {
            kind: (head >> 40) as u8,
            aux: (head >> 32) as u8,
            len: head as u32,
        })
    }

    /// The envelope of the slot that `peek` saw.
    #[inline]
    pub fn envelope(&self) -> u64 {
        self.place.slot(self.tail).envelope.load(Ordering::Relaxed)
    }

    /// Where the payload of the slot that `peek` saw lies; valid for [`INLINE`] bytes until `advance`.
    #[inline]
    pub fn payload(&self) -> *const u8 {
        self.place.slot(self.tail).payload.as_ptr().cast()
    }

    /// Word `index` of the payload of the slot that `peek` saw.
    #[inline]
    pub fn word(&self, index: usize) -> u64 {
        self.place.slot(self.tail).payload[index].load(Ordering::Relaxed)
    }

    /// Where the `len` bytes lie that belong to the slot that `peek` saw.
    #[inline]
    pub fn bytes(&self, len: u32) -> Result<NonNull<u8>, Junk> {
        if len > self.place.byte_count {
            return Err(Junk);
        }
        let (_, offset) = self.place.span(self.byte_tail, len);
        // SAFETY: `span` keeps offset + len within the byte ring.
        Ok(unsafe { self.place.bytes.add(offset as usize) })
    }

    /// Fetches the lines of the next `len` bytes of the byte ring, and waits for nothing.
    #[inline(always)]
    pub fn fetch(&self, len: u32) {
        // Where they begin if the ring does not end before: that does not depend on `len`, which may still be on its way.
        let offset = self.byte_tail & (self.place.byte_count - 1);
        for line in (offset..offset + len).step_by(LINE as usize) {
            cpu::read_soon(self.place.bytes.as_ptr().wrapping_add(line as usize));
        }
    }

    /// Leaves the slot that `peek` saw, and the `bytes` that went with it, to the writer; it learns
    /// of that when enough has gathered. Whether it has learnt of something now.
    #[inline]
    pub fn advance(&mut self, bytes: u32) -> bool {
        self.tail = self.tail.wrapping_add(1);
        if bytes > 0 {
            self.byte_tail = self.byte_tail.wrapping_add(self.place.span(self.byte_tail, bytes).0);
        }
        let slots_due = self.tail.wrapping_sub(self.slots_returned) * self.fraction >= self.place.slot_count;
        let bytes_due = self.byte_tail.wrapping_sub(self.bytes_returned) * self.fraction >= self.place.byte_count;
        (slots_due || (bytes_due && bytes > 0)) && self.return_credit()
    }

    /// Slots consumed so far, and bytes of the byte ring, modulo 2^32.
    #[inline]
    pub fn consumed(&self) -> (u32, u32) {
        (self.tail, self.byte_tail)
    }

    /// Whether no record has come, and the writer knows of all that was consumed.
    #[inline(always)]
    pub fn is_quiet(&self) -> bool {
        !self.owes() && self.peek().is_none()
    }

    /// Whether something was consumed that the writer does not know of.
    #[inline(always)]
    fn owes(&self) -> bool {
        (self.slots_returned, self.bytes_returned) != (self.tail, self.byte_tail)
    }

    /// Tells the writer now what has been consumed; whether there was anything to tell.
    #[inline]
    pub fn return_credit(&mut self) -> bool {
        if !self.owes() {
            return false;
        }
        let consumed = u64::from(self.byte_tail) << 32 | u64::from(self.tail);
        self.place.credit().consumed.store(consumed, Ordering::Release);
        (self.slots_returned, self.bytes_returned) = (self.tail, self.byte_tail);
        true
    }
}

#[cfg(test)]
mod tests;

#[cfg(loom)]
// SAFETY: see `Place`; in models the ends move to loom's threads.
unsafe impl Send for Producer {}
