//! # Safety
//! Copies messages out of the callers' memory into room that it has reserved in a ring.
//!
//! The short way out: messages in a row that go through the pair's ring at once, or not this way.
#![allow(unsafe_code)]

use super::packet::{Record, kind};
use super::{Bytes, Channel, Fault};
use crate::shm::profile::Path;
use crate::shm::ring::{Header, INLINE, Junk};
use crate::sys::{copy, futex};

/// What became of a message that was to go the shortest way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It does not go that way; nothing was done.
    Not,
    /// It is there.
    Done,
    /// It is there, and [`Channel::wake`] must follow.
    Asleep,
}

impl<B: Bytes> Channel<B> {
    /// A message from `to` has just come that was waited for: it will probably be answered, so the line that the answer
    /// goes into is fetched while this rank is busy with the message.
    #[inline(always)]
    pub fn expect_answer(&self, to: u32) {
        self.out[to as usize].producer.expect();
    }

    /// Sends the `len` bytes at `data` if they fit into a slot and one is known to be free; false, and nothing done,
    /// otherwise. Counts it as a message of the program. Makes no call: the receiver may have to be woken.
    ///
    /// # Safety
    /// `data` is readable for `len` bytes.
    #[inline(always)]
    pub unsafe fn push_few(&mut self, to: u32, envelope: u64, data: *const u8, len: usize) -> Pushed {
        let Some(out) = self.out.get_mut(to as usize) else {
            return Pushed::Not;
        };
        if len > INLINE || !out.messages.is_empty() || !out.producer.knows_slot() {
            return Pushed::Not;
        }
        let (kind, short) = (kind::INLINE, len as u32);
        // SAFETY: the caller's promise.
        unsafe {
            out.producer.push_bytes(
                Header {
                    kind,
                    aux: 0,
                    len: short,
                },
                envelope,
                data,
            )
        };
        self.barriers.before_ringing();
        let asleep = out.peer.bell.is_set();
        out.few.add(len);
        self.block.doing.sent(len);
        if asleep { Pushed::Asleep } else { Pushed::Done }
    }

    /// As [`Channel::push_row`], and counts the message for a profile.
    ///
    /// # Safety
    /// As [`Channel::push_row`].
    #[inline(always)]
    pub unsafe fn send_row(&mut self, to: u32, envelope: u64, data: *const u8, len: usize) -> Result<bool, Fault> {
        // SAFETY: the caller's promise.
        let sent = unsafe { self.push_row(to, envelope, data, len) }?;
        if sent && self.meter.is_some() {
            self.count_row(to, envelope, len);
        }
        Ok(sent)
    }

    /// Counts a message that [`Channel::push_row`] has sent.
    #[inline]
    pub fn count_row(&self, to: u32, envelope: u64, len: usize) {
        let path = if len <= INLINE { Path::Slot } else { Path::Ring };
        self.count_sent(path, to, envelope, len);
    }

    /// Sends the `len` bytes at `data` if they go through the ring and that needs no waiting; false otherwise.
    ///
    /// # Safety
    /// `data` is readable for `len` bytes.
    ///
    /// Cost: a cache line to the receiver for up to 48 bytes, then one more for each 64; no system call, lock,
    /// allocation or read-modify-write.
    #[inline(always)]
    pub unsafe fn push_row(&mut self, to: u32, envelope: u64, data: *const u8, len: usize) -> Result<bool, Fault> {
        let fault = |Junk| Fault { from: to };
        let out = &mut self.out[to as usize];
        if !out.messages.is_empty() || !out.producer.has_slot().map_err(fault)? {
            return Ok(false);
        }
        if len <= INLINE {
            let (kind, len) = (kind::INLINE, len as u32);
            // SAFETY: the caller's promise.
            unsafe { out.producer.push_bytes(Header { kind, aux: 0, len }, envelope, data) };
            self.counters.inline += 1;
        } else {
            if len > self.row_max {
                return Ok(false);
            }
            let (kind, len) = (kind::BYTES, len as u32);
            let Some(room) = out.producer.reserve(len).map_err(fault)? else {
                return Ok(false);
            };
            // SAFETY: the caller's promise; the room was reserved for the whole message.
            unsafe { copy::bytes(data, room.as_ptr(), len as usize) };
            out.producer.push(Header { kind, aux: 0, len }, envelope, &[]);
            self.counters.ring += 1;
        }
        if out.peer.bell.ring(self.barriers) {
            futex::wake_all(out.peer.bell.word());
        }
        self.block.doing.sent(len);
        Ok(true)
    }

    /// Whether a message of `len` bytes that somebody waits for rather goes by [`Channel::push_parts`].
    #[inline(always)]
    pub fn overlaps(&self, len: usize) -> bool {
        self.part > 0 && len > self.part
    }

    /// As [`Channel::push_row`], in parts that the receiver copies one after the other while they come: less time for one
    /// message, more for a window of them.
    ///
    /// # Safety
    /// As [`Channel::push_row`].
    #[inline(never)]
    pub unsafe fn push_parts(&mut self, to: u32, envelope: u64, data: *const u8, len: usize) -> Result<bool, Fault> {
        let fault = |Junk| Fault { from: to };
        let part = self.part_of(len);
        let out = &mut self.out[to as usize];
        if len > self.row_max || !out.messages.is_empty() {
            return Ok(false);
        }
        if !out.producer.has_room(len as u32, part as u32).map_err(fault)? {
            return Ok(false);
        }
        let mut position = 0;
        while position < len {
            let short = (len - position).min(part);
            let room = out.producer.reserve(short as u32).map_err(fault)?;
            let room = room.ok_or(Fault { from: to })?;
            // SAFETY: the caller's promise; the room was reserved for the part.
            unsafe { copy::bytes(data.add(position), room.as_ptr(), short) };
            let record = Record::part(kind::PART, envelope, len as u64, position as u64, short as u32);
            out.producer.push(record.header, record.envelope, &record.words[..2]);
            if out.peer.bell.ring(self.barriers) {
                futex::wake_all(out.peer.bell.word());
            }
            position += short;
        }
        self.counters.ring += 1;
        self.block.doing.sent(len);
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
