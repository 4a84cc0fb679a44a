//! # Safety
//! Copies messages out of the callers' memory into room that it has reserved in a ring.
//!
//! Messages that go through the pair's ring in parts, a record each, so that the receiver copies one part while the
//! sender copies the next.
//!
//! Data with gaps are gathered in memory of this rank's own first. Between two cores it is the stores to lines which the
//! peer has read that cost: `memcpy` of whole lines (`rep movsb`) need not fetch them, stores of eight bytes each must.
#![allow(unsafe_code)]

use super::outgoing::Outgoing;
use super::packet::{Record, kind};
use super::{Bytes, Channel, Fault};
use crate::shm::ring::Junk;
use crate::sys::futex;

/// Bytes of a part, in least parts (`NEARMPI_RING_PART`): of a message of up to [`LONG`] of them half of it but two at most, of
/// a longer one a quarter but four at most.
const SHORT_MOST: usize = 2;
const LONG_MOST: usize = 4;
/// ... of a message with gaps a quarter, but so many at most: packing takes longer than copying.
const GAPS_MOST: usize = 2;
/// Data with gaps that are gathered at a time; the first-level cache holds them twice.
const STAGE: usize = 16 << 10;
/// Parts are whole lines.
const LINE: usize = 64;
/// Less than this goes into shared memory directly.
const STAGED: usize = 512;

/// Copies `len` bytes of `buffer` from `position` to `room` in shared memory, by way of `stage` if they have gaps.
///
/// # Safety
/// As [`Bytes::take`].
#[inline]
pub(super) unsafe fn take<B: Bytes>(stage: &mut Vec<u8>, buffer: &B, position: usize, room: *mut u8, len: usize) {
    if len < STAGED || buffer.in_a_row().is_some() {
        // SAFETY: the caller's promise.
        return unsafe { buffer.take(position, room, len) };
    }
    stage.resize(STAGE, 0);
    let mut at = 0;
    while at < len {
        let short = STAGE.min(len - at);
        // SAFETY: the stage has room for `short` bytes; the rest is the caller's promise.
        unsafe {
            buffer.take(position + at, stage.as_mut_ptr(), short);
            room.add(at).copy_from_nonoverlapping(stage.as_ptr(), short);
        }
        at += short;
    }
}

impl<B: Bytes> Channel<B> {
    /// Bytes of a part of a message of `len` bytes: so many that starting a copy does not count, so few that both copies
    /// overlap.
    pub(super) fn part_of(&self, len: usize, in_a_row: bool) -> usize {
        let parts = (len / self.part).max(1);
        let parts = match in_a_row {
            true => (parts / 4).min(LONG_MOST).max((parts / 2).min(SHORT_MOST)),
            false => (parts / 4).min(GAPS_MOST),
        };
        let most = (self.segment.layout().bytes / 4).max(self.part);
        (parts.max(1) * self.part).min(most).next_multiple_of(LINE)
    }

    /// Whether a message of `len` bytes that somebody waits for rather goes by [`Channel::push_parts`].
    #[inline(always)]
    pub fn overlaps(&self, len: usize) -> bool {
        self.part > 0 && len > self.part
    }

    /// Whether a message short enough to go whole has gaps, so that its packing is worth an overlap.
    pub(super) fn overlaps_packing(&self, message: &Outgoing<B>) -> bool {
        self.overlaps(message.end) && message.buffer.in_a_row().is_none()
    }

    /// As [`Channel::push_row`], in parts that the receiver copies one after the other while they come: less time for one
    /// message, more for a window of them.
    ///
    /// # Safety
    /// As [`Channel::push_row`].
    #[inline(never)]
    pub unsafe fn push_parts(&mut self, to: u32, envelope: u64, data: *const u8, len: usize) -> Result<bool, Fault> {
        match len > self.row_max {
            true => Ok(false),
            // SAFETY: the caller's promise.
            false => unsafe { self.push_long(to, envelope, data, len) },
        }
    }

    /// As [`Channel::push_parts`], a message of any length for which [`Channel::plan`] has no other way.
    ///
    /// # Safety
    /// As [`Channel::push_row`].
    pub unsafe fn push_long(&mut self, to: u32, envelope: u64, data: *const u8, len: usize) -> Result<bool, Fault> {
        let fault = |Junk| Fault { from: to };
        if !self.overlaps(len) || u32::try_from(len).is_err() {
            return Ok(false);
        }
        let part = self.part_of(len, true);
        let out = &mut self.out[to as usize];
        if !out.messages.is_empty() || !out.producer.has_room(len as u32, part as u32).map_err(fault)? {
            return Ok(false);
        }
        let mut position = 0;
        while position < len {
            let short = out.producer.stretch((len - position).min(part) as u32);
            let room = out.producer.reserve(short).map_err(fault)?;
            let room = room.ok_or(Fault { from: to })?;
            // SAFETY: the caller's promise; the room was reserved for the part.
            unsafe {
                room.copy_from_nonoverlapping(
                    std::ptr::NonNull::new_unchecked(data.add(position).cast_mut()),
                    short as usize,
                )
            };
            let record = Record::part(kind::PART, envelope, len as u64, position as u64, short);
            out.producer.push(record.header, record.envelope, &record.words[..2]);
            if out.peer.bell.ring(self.barriers) {
                futex::wake_all(out.peer.bell.word());
            }
            position += short as usize;
        }
        self.counters.ring += 1;
        self.block.doing.sent(len);
        Ok(true)
    }

    /// Copies parts into the byte ring and announces each, so that the receiver copies one while this rank copies the
    /// next; true when the message is sent.
    pub(super) fn advance_parts(
        &mut self,
        to: u32,
        kind: u8,
        envelope: u64,
        message: &mut Outgoing<B>,
    ) -> Result<bool, Fault> {
        let fault = |Junk| Fault { from: to };
        let part = self.part_of(message.end, message.buffer.in_a_row().is_some());
        while message.position < message.end {
            let out = &mut self.out[to as usize];
            let len = out.producer.stretch((message.end - message.position).min(part) as u32);
            if !out.producer.has_slot().map_err(fault)? {
                return Ok(false);
            }
            let Some(room) = out.producer.reserve(len).map_err(fault)? else {
                return Ok(false);
            };
            let (position, len) = (message.position, len as usize);
            // SAFETY: the room was reserved for `len` bytes, and the message has them.
            unsafe { take(&mut self.stage, &message.buffer, position, room.as_ptr(), len) };
            let record = Record::part(kind, envelope, message.end as u64, position as u64, len as u32);
            out.producer.push(record.header, record.envelope, &record.words[..2]);
            message.position += len;
            self.ring_bell(to);
        }
        self.counters.ring += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::joint::tests::{Plain, channels};
    use super::super::{Arrival, Glance};
    use super::*;

    #[test]
    fn a_message_comes_in_parts_that_can_be_read_before_the_last_is_sent() {
        let (mut sender, mut receiver) = channels();
        let message: Vec<u8> = (0..30_000).map(|at| ((at * 7) >> 4) as u8).collect();
        // SAFETY: the message has so many bytes.
        let sent = unsafe { sender.push_parts(1, 5, message.as_ptr(), message.len()) };
        assert_eq!(sent, Ok(true));
        let mut read = Vec::new();
        for turn in 0..4 {
            assert!(matches!(receiver.glance(0), Glance::Part));
            let (envelope, part) = receiver.part(0).unwrap();
            assert_eq!((envelope, part.total, part.offset), (5, 30_000, read.len() as u64));
            // The queues see the same in the last two.
            if turn > 1 {
                let Ok(Some(Arrival::Portion { portion, .. })) = receiver.poll(None) else {
                    panic!("no portion");
                };
                receiver.empty_cells(0, &portion, |position, data, len| {
                    assert_eq!(position, read.len());
                    // SAFETY: the ring holds so many bytes.
                    read.extend_from_slice(unsafe { std::slice::from_raw_parts(data, len) });
                });
                receiver.consume(0);
            } else {
                // SAFETY: as above.
                read.extend_from_slice(unsafe { std::slice::from_raw_parts(part.at.as_ptr(), part.len as usize) });
                receiver.leave(0, part.len);
            }
        }
        assert!(read == message && receiver.part(0).is_none());
    }

    #[test]
    fn only_the_first_of_several_messages_goes_at_once() {
        let (mut sender, mut receiver) = channels();
        sender.settings.offer_min = 16_384;
        let mut bytes = vec![1u8; 30_000];
        let message = Plain(bytes.as_mut_ptr(), bytes.len());
        while sender.plan(1, &message).is_none() {
            // SAFETY: the message has so many bytes.
            assert_eq!(unsafe { sender.push_parts(1, 5, message.0, message.1) }, Ok(true));
        }
        let (ring, fraction) = (sender.segment.layout().bytes, sender.settings.credit_fraction as usize);
        let parts = |receiver: &Channel<Plain>| receiver.part(0).map(|(_, part)| part.len);
        let mut unread = 0;
        while let Some(len) = parts(&receiver) {
            unread += len as usize;
            receiver.leave(0, len);
        }
        assert!(unread <= ring / fraction + 30_000, "{unread} of {ring}");
        assert!(sender.plan(1, &message).is_none(), "all have been read");
    }

    #[test]
    fn a_message_that_finds_too_little_room_is_not_begun() {
        let (mut sender, receiver) = channels();
        let message = vec![1u8; 30_000];
        // SAFETY: the message has so many bytes.
        let mut push = || unsafe { sender.push_parts(1, 5, message.as_ptr(), message.len()) };
        let sent = (0..10).filter(|_| push() == Ok(true)).count();
        let ring = receiver.segment.layout().bytes;
        assert!(sent > 0 && sent * message.len() <= ring && (sent + 2) * message.len() > ring);
    }

    #[test]
    fn parts_that_do_not_fit_their_message_are_faults() {
        for (len, total, offset) in [
            (0, 10, 0),
            (10, 5, 0),
            (10, 20, 15),
            (1 << 30, 1 << 31, 0),
            (10, u64::MAX, 0),
            (10, 20, u64::MAX),
        ] {
            let (mut sender, mut receiver) = channels();
            sender
                .control(1, Record::part(kind::PART, 5, total, offset, len))
                .unwrap();
            assert!(receiver.part(0).is_none(), "{len} {total} {offset}");
            let fault = receiver.poll(None);
            assert!(
                matches!(fault, Err(Fault { from: 0 })),
                "{len} {total} {offset}: {fault:?}"
            );
        }
    }
}
