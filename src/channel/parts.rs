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
use crate::shm::shuttle::Number;
use crate::shm::stores::Stores;
use crate::sys::futex;
use std::ptr::NonNull;

/// Bytes of a part, in least parts (`NEARMPI_RING_PART`): half of a short message but two at most, a quarter of a
/// long one but eight at most.
const SHORT_MOST: usize = 2;
const LONG_MOST: usize = 8;
/// ... of a message with gaps a quarter, but so many at most: packing takes longer than copying.
const GAPS_MOST: usize = 2;
/// Data with gaps that are gathered at a time; the first-level cache holds them twice.
const STAGE: usize = 16 << 10;
/// ... and more bytes than these go in parts, so that gathering and copying overlap.
pub const GATHERED: usize = 8 << 10;
/// Parts are whole lines.
const LINE: usize = 64;
/// Rings that have less room for a part show whole messages only.
pub(super) const PART_LEAST: usize = 2 << 10;
/// Less than this goes into shared memory directly.
const STAGED: usize = 512;

/// Copies `len` bytes of `buffer` from `position` to `room` in shared memory as `stores` are made there, by way of `stage` if they have
/// gaps.
///
/// # Safety
/// As [`Bytes::take`].
#[inline]
pub(super) unsafe fn take<B: Bytes>(
    (stage, stores): (&mut Vec<u8>, &mut Stores),
    buffer: &B,
    position: usize,
    room: *mut u8,
    len: usize,
) {
    if let Some(row) = buffer.in_a_row() {
        // SAFETY: the caller's promise.
        return unsafe { stores.copy(row.add(position), room, len) };
    }
    if len < STAGED {
        // SAFETY: as above.
        return unsafe { buffer.take(position, room, len) };
    }
    stage.resize(STAGE, 0);
    let mut at = 0;
    while at < len {
        let short = STAGE.min(len - at);
        // SAFETY: the stage has room for `short` bytes; the rest is the caller's promise.
        unsafe {
            buffer.take(position + at, stage.as_mut_ptr(), short);
            stores.copy(stage.as_ptr(), room.add(at), short);
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

    /// Whether a message short enough to go whole has gaps, so that its packing is worth an overlap, or goes by shuttle.
    pub(super) fn goes_in_parts(&mut self, to: u32, message: &Outgoing<B>) -> bool {
        let in_a_row = message.buffer.in_a_row().is_some();
        self.overlaps(message.end) && (!in_a_row || message.position > 0 || self.goes_by_shuttle(to, message.end, true))
    }

    /// As [`Channel::push_row`], in parts that the receiver copies one after the other while they come: less time for one
    /// message, more for a window of them.
    ///
    /// # Safety
    /// As [`Channel::push_row`].
    #[inline(never)]
    pub unsafe fn push_parts(&mut self, to: u32, envelope: u64, data: *const u8, len: usize) -> Result<bool, Fault> {
        match len > self.row_max || self.learns(len) && !self.ways[to as usize].goes_on(len) {
            true => Ok(false),
            // SAFETY: the caller's promise.
            false => unsafe { self.push_long(to, envelope, data, len) },
        }
    }

    /// As [`Channel::push_row`], data with gaps that are short enough to be gathered first and to go whole.
    ///
    /// # Errors
    /// As [`Channel::push_row`].
    pub fn push_gathered(&mut self, to: u32, envelope: u64, buffer: &B) -> Result<bool, Fault> {
        let len = buffer.len();
        if len > GATHERED {
            return Ok(false);
        }
        let mut stage = std::mem::take(&mut self.stage);
        stage.resize(STAGE, 0);
        // SAFETY: the stage has room for all of it; the program owns the buffer.
        let sent = unsafe {
            buffer.take(0, stage.as_mut_ptr(), len);
            self.send_row(to, envelope, stage.as_ptr(), len)
        };
        self.stage = stage;
        sent
    }

    /// As [`Channel::push_parts`], a message of any length for which [`Channel::plan`] has no other way.
    ///
    /// # Safety
    /// As [`Channel::push_row`].
    pub unsafe fn push_long(&mut self, to: u32, envelope: u64, data: *const u8, len: usize) -> Result<bool, Fault> {
        let fault = |Junk| Fault { from: to };
        if !self.overlaps(len) || u32::try_from(len).is_err() || !self.out[to as usize].messages.is_empty() {
            return Ok(false);
        }
        let part = self.part_of(len, true);
        let shuttle = self.shuttle_for(to, len, part as u32)?;
        let out = &mut self.out[to as usize];
        if shuttle.is_none() && !out.producer.has_room(len as u32, part as u32).map_err(fault)? {
            return Ok(false);
        }
        let mut position = 0;
        while position < len {
            let mut short = (len - position).min(part) as u32;
            let room = match shuttle {
                // SAFETY: it has room for the message.
                Some((_, at)) => unsafe { at.add(position) },
                None => {
                    let out = &mut self.out[to as usize];
                    short = out.producer.stretch(short);
                    let room = out.producer.reserve(short).map_err(fault)?;
                    room.ok_or(Fault { from: to })?
                }
            };
            let from = data.wrapping_add(position);
            // SAFETY: the caller's promise; the room is for the part.
            unsafe {
                match shuttle {
                    Some(_) => self.ahead.to_peer(from, room.as_ptr(), short as usize),
                    None => self.out[to as usize].stores.copy(from, room.as_ptr(), short as usize),
                }
            }
            let number = shuttle.map(|(number, _)| number);
            let at = (len as u64, position as u64, short);
            self.announce(to, Record::part(kind::PART, envelope, at, number));
            position += short as usize;
        }
        self.counters.ring += 1;
        self.block.doing.sent(len);
        Ok(true)
    }

    /// Tells `to` of a part that lies in the ring or in a shuttle.
    #[inline]
    pub(super) fn announce(&mut self, to: u32, part: Record) {
        let out = &mut self.out[to as usize];
        out.producer.push(part.header, part.envelope, &part.words[..2]);
        if out.peer.bell.ring(self.barriers) {
            futex::wake_all(out.peer.bell.word());
        }
    }

    /// Whether a message of `len` bytes, in a row or not, goes by shuttle if it is sent now.
    pub(super) fn goes_by_shuttle(&mut self, to: u32, len: usize, in_a_row: bool) -> bool {
        self.overlaps(len) && self.out[to as usize].messages.is_empty() && {
            let part = self.part_of(len, in_a_row) as u32;
            self.has_shuttle(to, len, part) == Ok(true)
        }
    }

    /// Whether a message of `len` bytes in parts of `part`, before which none waits, could go by shuttle now, all of it.
    fn has_shuttle(&mut self, to: u32, len: usize, part: u32) -> Result<bool, Fault> {
        let out = &mut self.out[to as usize];
        let may = self.part > 0 && len as u64 <= self.settings.shuttle_max && out.is_worth_pages(len);
        if !may || !out.shuttles.takes(len) {
            return Ok(false);
        }
        if len as u64 <= self.settings.shuttle_alone {
            let (came, gone) = (self.rings[to as usize].consumed().0, out.producer.pushed().0);
            if out.shuttles.amid_window(came, gone) && out.producer.has_pages(len) {
                return Ok(false);
            }
        }
        let slots = (len as u32).div_ceil(part);
        out.producer.has_slots(slots).map_err(|Junk| Fault { from: to })
    }

    /// The shuttle that such a message goes by, if there is one: the caller, who has looked that none waits before it, sends it away.
    pub(super) fn shuttle_for(
        &mut self,
        to: u32,
        len: usize,
        part: u32,
    ) -> Result<Option<(Number, NonNull<u8>)>, Fault> {
        match self.has_shuttle(to, len, part)? {
            true => Ok(self.out[to as usize].shuttles.take(len)),
            false => Ok(None),
        }
    }

    /// Copies parts into the byte ring or a shuttle and announces each, so that the receiver copies one while this rank copies the
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
        // With all the slots that it needs it is sent whole, here and now.
        let shuttle = match message.position {
            0 => self.shuttle_for(to, message.end, part as u32)?,
            _ => None,
        };
        while message.position < message.end {
            let out = &mut self.out[to as usize];
            if !out.producer.has_slot().map_err(fault)? {
                return Ok(false);
            }
            let mut len = (message.end - message.position).min(part) as u32;
            let room = match shuttle {
                // SAFETY: it has room for the message.
                Some((_, at)) => unsafe { at.add(message.position) },
                None => {
                    len = out.producer.stretch(len);
                    let Some(room) = out.producer.reserve(len).map_err(fault)? else {
                        return Ok(false);
                    };
                    room
                }
            };
            let (position, len) = (message.position, len as usize);
            let mut plain = Stores::plain();
            let stores = match shuttle {
                Some(_) => &mut plain,
                None => &mut self.out[to as usize].stores,
            };
            // SAFETY: the room is for `len` bytes, and the message has them.
            unsafe { take((&mut self.stage, stores), &message.buffer, position, room.as_ptr(), len) };
            let number = shuttle.map(|(number, _)| number);
            let at = (message.end as u64, position as u64, len as u32);
            self.announce(to, Record::part(kind, envelope, at, number));
            message.position += len;
        }
        self.counters.ring += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::joint::tests::{Plain, channels};
    use super::super::outgoing::Sent;
    use super::super::{Arrival, Glance};
    use super::*;
    use crate::shm::segment::Segment;
    use crate::sys::clock::Ticks;
    use crate::sys::cvar::Settings;
    use std::sync::Arc;

    #[test]
    fn a_message_comes_in_parts_that_can_be_read_before_the_last_is_sent() {
        let (mut sender, mut receiver) = channels();
        let message: Vec<u8> = (0..30_000).map(|at| ((at * 7) >> 4) as u8).collect();
        // SAFETY: the message has so many bytes.
        let sent = unsafe { sender.push_long(1, 5, message.as_ptr(), message.len()) };
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

    /// Takes the message that stands next in `receiver`'s ring from rank `from`, by parts: its bytes, where the first lies, and
    /// whether it came by shuttle.
    fn taken(receiver: &mut Channel<Plain>, from: u32) -> (Vec<u8>, NonNull<u8>, bool) {
        let (mut read, mut first) = (Vec::new(), None);
        loop {
            let (_, part) = receiver.part(from).expect("a part");
            assert_eq!(part.offset, read.len() as u64);
            // SAFETY: the part has so many bytes until it is left.
            read.extend_from_slice(unsafe { std::slice::from_raw_parts(part.at.as_ptr(), part.len as usize) });
            first = first.or(Some(part.at));
            receiver.leave_part(from, &part);
            if read.len() as u64 == part.total {
                return (read, first.unwrap(), part.shuttle.is_some());
            }
        }
    }

    #[test]
    fn an_answer_goes_into_the_memory_that_the_message_came_in() {
        let (mut low, mut high) = channels();
        for len in [3_000, 20_000, 100_000, 250_000] {
            let messages = [1, 2, 3].map(|seed| (0..len).map(|at| ((at * seed) >> 3) as u8).collect::<Vec<u8>>());
            let push = |channel: &mut Channel<Plain>, to: u32, data: &[u8]| {
                // SAFETY: the message has so many bytes.
                let sent = unsafe {
                    match len > 8192 {
                        true => channel.push_long(to, 5, data.as_ptr(), data.len()),
                        false => channel.push_row(to, 5, data.as_ptr(), data.len()),
                    }
                };
                assert_eq!(sent, Ok(true));
            };
            push(&mut low, 1, &messages[0]);
            let (read, at, shuttle) = taken(&mut high, 0);
            assert!(read == messages[0] && shuttle, "{len} bytes");
            push(&mut high, 0, &messages[1]);
            let (read, back, shuttle) = taken(&mut low, 1);
            assert!(read == messages[1] && shuttle && back == at, "{len} bytes");
        }
    }

    #[test]
    fn two_messages_one_way_go_by_shuttle_and_by_ring_in_order() {
        let (mut sender, mut receiver) = channels();
        sender.out[1].stores = Stores::past();
        let [first, second] = [1, 2].map(|byte| vec![byte; 50_000]);
        for data in [&first, &second] {
            // SAFETY: the message has so many bytes.
            assert_eq!(unsafe { sender.push_long(1, 5, data.as_ptr(), data.len()) }, Ok(true));
        }
        let (read, _, shuttle) = taken(&mut receiver, 0);
        assert!(read == first && shuttle);
        let (read, _, shuttle) = taken(&mut receiver, 0);
        assert!(read == second && !shuttle);
        // The queues bring a shuttle as the short way does: the receiver has had its own, now it has both.
        for turn in 0..3 {
            // SAFETY: as above.
            let sent = unsafe { receiver.push_long(0, 5, first.as_ptr(), first.len()) };
            assert_eq!(sent, Ok(true));
            let mut parts = 0;
            while let Some(Arrival::Portion { portion, .. }) = sender.poll(None).unwrap() {
                let shuttle = receiver.segment.shuttles(0, 1);
                let within = |at: NonNull<u8>| {
                    (0..shuttle.bytes)
                        .contains(&(portion.row.unwrap().as_ptr() as usize).wrapping_sub(at.as_ptr() as usize))
                };
                assert_eq!(shuttle.at.into_iter().any(within), turn < 2);
                sender.empty_cells(1, &portion, |_, _, _| parts += 1);
                sender.consume(1);
            }
            assert!(parts > 1);
        }
        // SAFETY: as above.
        let sent = [(); 2].map(|()| unsafe { sender.push_long(1, 5, first.as_ptr(), first.len()) });
        assert_eq!(sent, [Ok(true); 2]);
        assert_eq!([taken(&mut receiver, 0).2, taken(&mut receiver, 0).2], [true; 2]);
    }

    #[test]
    fn nothing_leaves_the_caches_where_ranks_share_cpus() {
        let demoted = |cpus| {
            let segment = Arc::new(Segment::private(2, cpus).unwrap());
            Channel::<Plain>::join(segment, 0, Settings::read(|_| None).unwrap())
                .settings()
                .demote_max
        };
        assert_eq!((demoted(2), demoted(1)), (512, 0));
    }

    #[test]
    fn rings_and_cells_are_written_by_the_receivers_own_stores_and_shuttles_are_not() {
        let (mut sender, _receiver) = channels();
        sender.settings.shuttle_max = 0;
        let mut bytes = vec![1u8; 40_000];
        let at = bytes.as_mut_ptr();
        let made = |sender: &mut Channel<Plain>, len: usize| {
            sender.out[1].stores = Stores::new(1, Ticks::best());
            let before = sender.out[1].stores.until_trial();
            assert_eq!(sender.send(1, 5, &Plain(at, len), 0), Ok(Sent::Done));
            before - sender.out[1].stores.until_trial()
        };
        assert_eq!(made(&mut sender, 4_000), 1, "whole in the ring");
        let part = sender.part;
        assert!(part > 0 && made(&mut sender, 40_000) > 1, "in parts");
        sender.part = 0;
        assert_eq!(made(&mut sender, 40_000), 5, "cells of 8 KiB");
        (sender.part, sender.settings.shuttle_max) = (part, 1 << 20);
        assert_eq!(made(&mut sender, 40_000), 0, "by shuttle");
    }

    #[test]
    fn a_message_that_had_to_wait_goes_by_the_shuttle_that_came_meanwhile() {
        let (mut low, mut high) = channels();
        let mut bytes = vec![1u8; 60_000];
        let message = Plain(bytes.as_mut_ptr(), bytes.len());
        // By shuttle, as many as the ring has room for, one of which a part does, and one that waits behind them.
        let sent = (0..)
            .find(|&ticket| low.send(1, 5, &message, ticket).unwrap() == Sent::Later)
            .unwrap();
        assert!(sent > 2, "{sent}");
        assert_eq!(low.send(1, 5, &message, sent + 1), Ok(Sent::Later));
        assert_eq!(high.send(0, 5, &message, 0), Ok(Sent::Done));
        assert!(taken(&mut low, 1).2);
        let came: Vec<bool> = (0..=sent + 1)
            .map(|_| {
                let (read, _, shuttle) = taken(&mut high, 0);
                low.flush().unwrap();
                assert!(read == bytes);
                shuttle
            })
            .collect();
        assert_eq!(came.iter().filter(|&&shuttle| shuttle).count(), 2, "{came:?}");
        assert!(came[0] && came[sent as usize + 1]);
    }

    #[test]
    fn a_short_message_by_shuttle_is_a_message_like_any_other() {
        let (mut sender, mut receiver) = channels();
        let data = [7u8; 4000];
        for shuttle in [true, false] {
            // SAFETY: the message has so many bytes.
            assert_eq!(unsafe { sender.push_row(1, 5, data.as_ptr(), data.len()) }, Ok(true));
            assert_eq!(receiver.part(0).is_some(), shuttle);
            let Ok(Some(Arrival::Message { data: at, len, .. })) = receiver.poll(None) else {
                panic!("no message");
            };
            // SAFETY: the message lies there until it is consumed.
            assert_eq!(unsafe { std::slice::from_raw_parts(at, len) }, data);
            receiver.consume(0);
        }
        assert!(receiver.out[0].shuttles.take(1).is_some() && receiver.out[0].shuttles.take(1).is_some());
    }

    #[test]
    fn only_the_first_of_several_messages_goes_at_once() {
        let (mut sender, mut receiver) = channels();
        (sender.settings.offer_min, sender.settings.shuttle_max) = (16_384, 0);
        let mut bytes = vec![1u8; 30_000];
        let message = Plain(bytes.as_mut_ptr(), bytes.len());
        while sender.plan(1, &message).is_none() {
            // SAFETY: the message has so many bytes.
            assert_eq!(unsafe { sender.push_long(1, 5, message.0, message.1) }, Ok(true));
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
        sender.settings.shuttle_max = 0;
        let message = vec![1u8; 30_000];
        // SAFETY: the message has so many bytes.
        let mut push = || unsafe { sender.push_long(1, 5, message.as_ptr(), message.len()) };
        let sent = (0..10).filter(|_| push() == Ok(true)).count();
        let ring = receiver.segment.layout().bytes;
        assert!(sent > 0 && sent * message.len() <= ring && (sent + 2) * message.len() > ring);
    }

    #[test]
    fn windows_that_fill_the_ring_make_it_larger_and_junk_does_not() {
        let segment = Arc::new(Segment::private(2, 2).unwrap());
        let settings = |grow: u64| Settings {
            ring_grow: grow,
            ring_large: 3 << 20,
            ..Settings::read(|_| None).unwrap()
        };
        let [after, never] = [1 << 20, 0].map(settings);
        let (mut low, mut high) = (
            Channel::join(segment.clone(), 0, after),
            Channel::join(segment.clone(), 1, never),
        );
        let layout = segment.layout();
        let mut bytes: Vec<u8> = (0..6_000_000).map(|at: usize| (at >> 3) as u8).collect();
        for window in bytes.chunks_mut(60_000) {
            let message = Plain(window.as_mut_ptr(), window.len());
            low.send(1, 5, &message, 0).unwrap();
            high.send(0, 5, &message, 0).unwrap();
        }
        let mut read = [Vec::new(), Vec::new()];
        while read.iter().any(|read| read.len() < bytes.len()) {
            for (from, channel) in [(1, &mut low), (0, &mut high)] {
                if let Some(Arrival::Portion { portion, .. }) = channel.poll(None).unwrap() {
                    channel.empty_cells(from, &portion, |_, data, len| {
                        // SAFETY: the ring or the shuttle holds so many bytes.
                        read[from as usize].extend_from_slice(unsafe { std::slice::from_raw_parts(data, len) });
                    });
                    channel.consume(from);
                }
            }
        }
        assert!(read.iter().all(|read| *read == bytes));
        assert_eq!(low.out[1].producer.size(), 2 << 20, "the power of two below");
        assert_eq!(high.out[0].producer.size() as usize, layout.bytes);
        // Once more, or of another size.
        for len in [layout.larger, layout.bytes] {
            let (mut sender, mut receiver) = channels();
            for _ in 0..2 {
                let mut record = Record::level(0);
                (record.header.kind, record.header.len) = (kind::LARGER, len as u32);
                sender.control(1, record).unwrap();
            }
            assert!(matches!(receiver.poll(None), Err(Fault { from: 0 })));
        }
    }

    #[test]
    fn parts_that_do_not_fit_their_message_are_faults() {
        // Rank 0 has shuttle 0.
        for (len, total, offset, shuttle) in [
            (0, 10, 0, None),
            (10, 5, 0, None),
            (10, 20, 15, None),
            (1 << 30, 1 << 31, 0, None),
            (10, u64::MAX, 0, None),
            (10, 20, u64::MAX, None),
            (10, 10, 0, Some(1)),
            (10, 10, 0, Some(2)),
            (10, 10, 0, Some(200)),
            (10, 1 << 30, 1 << 29, Some(0)),
        ] {
            let (mut sender, mut receiver) = channels();
            sender
                .control(1, Record::part(kind::PART, 5, (total, offset, len), shuttle))
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
