//! # Safety
//! Makes the ends of this rank's rings and pool, one each; copies messages into room that they reserved.
//!
//! The sending half of the channel: how a message takes its path, what waits when a ring or the pool is
//! full.
#![allow(unsafe_code)]

use super::asked::Ask;
use super::offers::Open;
use super::packet::{CELLS_PER_RECORD, OfferId, Portion, Record, Way, kind};
use super::pull::Reach;
use super::{Bytes, Channel, Fault, Ticket, parts};
use crate::shm::pool::CELL;
use crate::shm::profile::{Few, Part, Path};
use crate::shm::ring::{Header, INLINE, INLINE_WORDS, Junk, Producer};
use crate::shm::segment::{Block, Life};
use crate::shm::shuttle::Shuttles;
use crate::shm::stores::Stores;
use std::collections::VecDeque;

/// One destination.
#[repr(align(64))]
pub(super) struct Out<B> {
    pub(super) producer: Producer,
    /// The receiver's block.
    pub(super) peer: Block,
    /// Counts the shortest messages.
    pub(super) few: Part<Few>,
    /// What goes back and forth between the receiver and this rank.
    pub(super) shuttles: Shuttles,
    /// How this rank's copies to the ring and to cells for this receiver are made.
    pub(super) stores: Stores,
    /// Bytes of large messages that were sent there.
    pub(super) large: u64,
    /// The receiver is dead: nothing is sent any more.
    pub(super) closed: bool,
    /// Control records that found the ring full; they are tried before messages that did, too.
    pub(super) controls: VecDeque<Record>,
    /// Messages in the order of their starting; only the first may be under way.
    pub(super) messages: VecDeque<Outgoing<B>>,
}

/// A message that could not be sent at once, or not whole.
pub(super) struct Outgoing<B> {
    /// `None` for one that has left before.
    pub(super) ticket: Option<Ticket>,
    pub(super) what: What,
    pub(super) buffer: B,
    pub(super) position: usize,
    pub(super) end: usize,
}

pub(super) enum What {
    /// A message by value.
    Message { envelope: u64 },
    /// The rest of a taken offer.
    Stream { token: u32, id: OfferId },
    /// An offer whose record waits.
    Offer { record: Record },
    /// A message by value that its sender waits for.
    Ask(Ask),
}

/// A message that has not left, or that nobody has taken.
#[derive(Clone, Copy, Debug)]
pub struct OpenSend {
    /// Its ticket.
    pub ticket: Ticket,
    /// Rank in the job of the receiver.
    pub to: u32,
    /// Its envelope.
    pub envelope: u64,
    /// Its bytes.
    pub len: usize,
    /// Where they lie, if in a row.
    pub at: Option<*mut u8>,
}

/// What may become of an offered message that nobody takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// Its sender goes on without it after a while (see [`Channel::leave_late`]).
    pub may_leave: bool,
    /// Its sender takes it back when the program says so (MPI_Cancel).
    pub may_cancel: bool,
}

/// How a send went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The buffer is the caller's again.
    Done,
    /// The ticket comes back in an [`super::Arrival::Sent`].
    Later,
}

impl<B: Bytes> Channel<B> {
    /// Sends a message by value, through the ring or through cells.
    pub fn send(&mut self, to: u32, envelope: u64, buffer: &B, ticket: Ticket) -> Result<Sent, Fault> {
        let end = buffer.len();
        self.block.doing.sent(end);
        let message = Outgoing {
            ticket: Some(ticket),
            what: What::Message { envelope },
            buffer: buffer.clone(),
            position: 0,
            end,
        };
        self.start(to, message)
    }

    /// Offers a message for one copy; the ticket comes back when the receiver has it, or before that if it may leave.
    ///
    /// # Errors
    /// `Ok(None)` when all descriptors are in use.
    pub fn offer(
        &mut self,
        to: u32,
        envelope: u64,
        buffer: &B,
        ticket: Ticket,
        way: Way,
        terms: Terms,
    ) -> Result<Option<OfferId>, Fault> {
        let len = buffer.len();
        let open = Open {
            ticket: Some(ticket),
            may_leave: terms.may_leave,
            waits_since: None,
            went: false,
            to,
            envelope,
            usage: 0,
            buffer: buffer.clone(),
        };
        let Some(id) = self.open(open, true) else {
            return Ok(None);
        };
        let address = buffer.in_a_row().map(|at| at as u64);
        let record = Record::offer(envelope, len as u64, address, id, (way, !terms.may_cancel));
        self.counters.offers += 1;
        let message = Outgoing {
            ticket: None,
            what: What::Offer { record },
            buffer: buffer.clone(),
            position: 0,
            end: 0,
        };
        self.start(to, message)?;
        Ok(Some(id))
    }

    /// The messages that are offered or queued, in no useful order: for reports.
    pub fn open_sends(&self) -> impl Iterator<Item = OpenSend> {
        let offered = self.offers.open.iter().flatten().filter_map(|open| {
            Some(OpenSend {
                ticket: open.ticket?,
                to: open.to,
                envelope: open.envelope,
                len: open.buffer.len(),
                at: open.buffer.in_a_row(),
            })
        });
        let queued = self.waiting.iter().flat_map(|&to| {
            let messages = self.out[to as usize].messages.iter();
            messages.filter_map(move |message| match message.what {
                What::Message { envelope } => Some(OpenSend {
                    ticket: message.ticket?,
                    to,
                    envelope,
                    len: message.end,
                    at: message.buffer.in_a_row(),
                }),
                _ => None,
            })
        });
        offered.chain(queued)
    }

    /// Rank `dead` is dead: whatever goes there or was to come from there ends. Returns the tickets of
    /// messages to it, and the tokens of receives that it was helping with.
    pub fn bury(&mut self, dead: u32) -> (Vec<Ticket>, Vec<u32>) {
        let out = &mut self.out[dead as usize];
        out.closed = true;
        out.controls.clear();
        let queued = out.messages.drain(..).filter_map(|message| match message.what {
            What::Message { .. } => message.ticket,
            _ => None,
        });
        let mut tickets: Vec<Ticket> = queued.collect();
        self.waiting.retain(|&to| to != dead);
        self.reach[dead as usize] = Reach::Never;
        self.pool.bury(dead);
        for index in 0..self.offers.open.len() as u32 {
            if let Some(open) = &self.offers.open[index as usize]
                && open.to == dead
            {
                tickets.extend(open.ticket);
                self.segment
                    .offer(self.me, index)
                    .expect("open offers are in range")
                    .close(open.usage);
                self.offers.release(index);
            }
        }
        (tickets, self.leave_joints(dead))
    }

    /// Whether everything that was started has left this rank.
    pub fn is_flushed(&self) -> bool {
        self.waiting.is_empty() && self.offers.kept == 0
    }

    /// Drops what waits for ranks that have finalized or died, which read no more: answers to messages that they have long since
    /// forgotten, messages that were withdrawn, and those that have left their senders and were not fetched.
    pub fn drop_unread(&mut self) {
        let (segment, out) = (&self.segment, &mut self.out);
        self.waiting.retain(|&to| {
            let is_gone = matches!(segment.life(to), Life::Finalized | Life::Dead);
            if is_gone {
                let out = &mut out[to as usize];
                out.controls.clear();
                out.messages.clear();
            }
            !is_gone
        });
        let slots = if self.offers.kept > 0 { self.offers.slots() } else { 0 };
        for index in 0..slots {
            if let Some(open) = &self.offers.open[index as usize]
                && open.ticket.is_none()
                && matches!(self.segment.life(open.to), Life::Finalized | Life::Dead)
            {
                let offer = self.segment.offer(self.me, index);
                offer.expect("open offers are in range").close(open.usage);
                self.offers.release(index);
            }
        }
    }

    /// Sends on what is queued, as far as rings and pool allow.
    pub(super) fn flush(&mut self) -> Result<(), Fault> {
        let mut index = 0;
        while index < self.waiting.len() {
            let to = self.waiting[index];
            if self.flush_one(to)? {
                self.waiting.swap_remove(index);
            } else {
                index += 1;
            }
        }
        Ok(())
    }

    pub(super) fn control(&mut self, to: u32, record: Record) -> Result<(), Fault> {
        let out = &mut self.out[to as usize];
        if out.closed {
            return Ok(());
        }
        if out.controls.is_empty() && out.producer.has_slot().map_err(|Junk| Fault { from: to })? {
            out.producer.push(record.header, record.envelope, &record.words);
            self.ring_bell(to);
            return Ok(());
        }
        out.controls.push_back(record);
        self.wait_for(to);
        Ok(())
    }

    /// The receiver asks for the rest of an offer through cells.
    pub(super) fn start_stream(&mut self, from: u32, id: OfferId, token: u32, wanted: u64) -> Result<(), Fault> {
        let open = self.offers.find(id, from).filter(|open| !open.went);
        let open = open.ok_or(Fault { from })?;
        let (ticket, buffer) = (open.ticket, open.buffer.clone());
        let end = usize::try_from(wanted)
            .ok()
            .filter(|&end| end <= buffer.len())
            .ok_or(Fault { from })?;
        let sent = self.start(
            from,
            Outgoing {
                ticket,
                what: What::Stream { token, id },
                buffer,
                position: 0,
                end,
            },
        )?;
        if sent == Sent::Done {
            self.sent.extend(ticket);
        }
        Ok(())
    }

    /// Where the message of an offer to `to` lies, and its bytes, if they lie in a row.
    pub(super) fn offered_memory(&self, id: OfferId, to: u32) -> Option<(*mut u8, usize)> {
        let buffer = &self.offers.find(id, to).filter(|open| !open.went)?.buffer;
        buffer.in_a_row().map(|at| (at, buffer.len()))
    }

    /// The receiver has made the copy.
    pub(super) fn close_offer(&mut self, from: u32, id: OfferId) -> Result<Option<Ticket>, Fault> {
        let ticket = self.offers.find(id, from).ok_or(Fault { from })?.ticket;
        self.segment
            .offer(self.me, id.index)
            .expect("found offers are in range")
            .close(id.usage);
        self.release(id);
        Ok(ticket)
    }

    pub(super) fn release(&mut self, id: OfferId) {
        if let Some(open) = self.offers.release(id.index) {
            self.ways[open.to as usize].closed(open.buffer.len());
        }
    }

    pub(super) fn start(&mut self, to: u32, mut message: Outgoing<B>) -> Result<Sent, Fault> {
        if let Some(meter) = self.meter()
            && message.end > INLINE
        {
            meter.dwell();
        }
        if self.out[to as usize].messages.is_empty() && self.advance(to, &mut message)? {
            self.settle(&message.what);
            return Ok(Sent::Done);
        }
        self.counters.queued += 1;
        self.out[to as usize].messages.push_back(message);
        self.wait_for(to);
        Ok(Sent::Later)
    }

    fn wait_for(&mut self, to: u32) {
        if !self.waiting.contains(&to) {
            self.waiting.push(to);
        }
    }

    /// Sends what waits for `to`; true when nothing is left.
    fn flush_one(&mut self, to: u32) -> Result<bool, Fault> {
        let fault = |Junk| Fault { from: to };
        let mut rang = false;
        while let Some(record) = self.out[to as usize].controls.front().copied() {
            let out = &mut self.out[to as usize];
            if !out.producer.has_slot().map_err(fault)? {
                break;
            }
            out.producer.push(record.header, record.envelope, &record.words);
            out.controls.pop_front();
            rang = true;
        }
        if rang {
            self.ring_bell(to);
        }
        while let Some(mut message) = self.out[to as usize].messages.pop_front() {
            if !self.advance(to, &mut message)? {
                self.out[to as usize].messages.push_front(message);
                return Ok(false);
            }
            self.settle(&message.what);
            self.sent.extend(message.ticket);
        }
        Ok(self.out[to as usize].controls.is_empty())
    }

    /// A stream that has left frees its offer.
    fn settle(&mut self, what: &What) {
        if let What::Stream { id, .. } = what {
            self.segment
                .offer(self.me, id.index)
                .expect("open offers are in range")
                .close(id.usage);
            self.release(*id);
        }
    }

    /// Sends as much of `message` as goes; true when all of it went.
    fn advance(&mut self, to: u32, message: &mut Outgoing<B>) -> Result<bool, Fault> {
        let fault = |Junk| Fault { from: to };
        match message.what {
            What::Offer { record } => {
                let out = &mut self.out[to as usize];
                let room = out.producer.has_slot().map_err(fault)?;
                if room {
                    out.producer.push(record.header, record.envelope, &record.words);
                    self.ring_bell(to);
                }
                Ok(room)
            }
            What::Message { envelope } if message.end <= INLINE => {
                let out = &mut self.out[to as usize];
                if !out.producer.has_slot().map_err(fault)? {
                    return Ok(false);
                }
                let mut words = [0u64; INLINE_WORDS];
                // SAFETY: a message this short fits the words.
                unsafe { message.buffer.take(0, words.as_mut_ptr().cast(), message.end) };
                let header = Header {
                    kind: kind::INLINE,
                    aux: 0,
                    len: message.end as u32,
                };
                out.producer.push(header, envelope, &words[..message.end.div_ceil(8)]);
                self.counters.inline += 1;
                self.ring_bell(to);
                self.count_sent(Path::Slot, to, envelope, message.end);
                Ok(true)
            }
            What::Message { envelope } if self.goes_whole(to, message) => {
                let out = &mut self.out[to as usize];
                let len = message.end as u32;
                if !out.producer.has_slot().map_err(fault)? {
                    return Ok(false);
                }
                let Some(room) = out.producer.reserve(len).map_err(fault)? else {
                    return Ok(false);
                };
                // SAFETY: the room was reserved for the whole message.
                unsafe {
                    parts::take(
                        (&mut self.stage, &mut out.stores),
                        &message.buffer,
                        0,
                        room.as_ptr(),
                        message.end,
                    )
                };
                out.producer.push(
                    Header {
                        kind: kind::BYTES,
                        aux: 0,
                        len,
                    },
                    envelope,
                    &[],
                );
                self.counters.ring += 1;
                self.ring_bell(to);
                self.count_sent(Path::Ring, to, envelope, message.end);
                Ok(true)
            }
            What::Message { envelope } => {
                let (whole, path) = match self.part {
                    0 => (self.advance_cells(to, kind::CELLS, envelope, message)?, Path::Cells),
                    _ => (self.advance_parts(to, kind::PART, envelope, message)?, Path::Ring),
                };
                if whole {
                    self.count_sent(path, to, envelope, message.end);
                }
                Ok(whole)
            }
            What::Ask(ask) => self.advance_ask(to, &ask, message),
            What::Stream { token, .. } if self.part > 0 => self.advance_parts(to, kind::REST, token.into(), message),
            What::Stream { token, .. } => self.advance_cells(to, kind::DATA, token.into(), message),
        }
    }

    /// Fills cells and announces them, a batch at a time (the first cell alone, so that the receiver
    /// can start); true when the message is sent.
    fn advance_cells(&mut self, to: u32, kind: u8, envelope: u64, message: &mut Outgoing<B>) -> Result<bool, Fault> {
        let total = message.end;
        while message.position < total {
            if !self.out[to as usize]
                .producer
                .has_slot()
                .map_err(|Junk| Fault { from: to })?
            {
                return Ok(false);
            }
            let batch = if message.position == 0 {
                1
            } else {
                self.settings.cells_batch as usize
            };
            let batch = batch.min(CELLS_PER_RECORD);
            let mut portion = Portion {
                total: total as u64,
                offset: message.position as u64,
                len: 0,
                cells: [0; CELLS_PER_RECORD],
                count: 0,
                row: None,
            };
            while portion.count < batch && message.position < total {
                let Some((cell, room)) = self.pool.take(to) else { break };
                let len = (total - message.position).min(CELL);
                let stores = &mut self.out[to as usize].stores;
                // SAFETY: a cell has room for `len` bytes, and the message has them.
                unsafe {
                    parts::take(
                        (&mut self.stage, stores),
                        &message.buffer,
                        message.position,
                        room.as_ptr(),
                        len,
                    )
                };
                portion.cells[portion.count] = cell;
                portion.count += 1;
                portion.len += len as u32;
                message.position += len;
            }
            if portion.count == 0 {
                return Ok(false);
            }
            self.ways[to as usize].filled(total, portion.cells[portion.count - 1]);
            let record = Record::portion(kind, envelope, &portion);
            self.out[to as usize]
                .producer
                .push(record.header, record.envelope, &record.words);
            self.ring_bell(to);
        }
        self.counters.cells += 1;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Arrival;
    use super::super::joint::tests::{Plain, channels};
    use super::*;
    use crate::shm::segment::Segment;
    use crate::sys::cvar::Settings;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_waits_for_a_rank_that_has_finalized_is_dropped() {
        let (mut sender, mut receiver) = channels();
        let fin = Record::fin(OfferId { index: 0, usage: 1 });
        while receiver.is_flushed() {
            receiver.control(0, fin).unwrap();
        }
        let waits = |receiver: &mut Channel<Plain>| {
            assert!(matches!(receiver.poll(None), Ok(None)));
            receiver.drop_unread();
            !receiver.is_flushed()
        };
        assert!(waits(&mut receiver), "the sender will read it");
        let life = |life: Life| sender.block.life.store(life as u32, Ordering::Release);
        life(Life::Finalized);
        assert!(!waits(&mut receiver));
        // One that begins again, as with sessions, gets what is sent from then on.
        life(Life::Attached);
        receiver.control(0, fin).unwrap();
        assert!(waits(&mut receiver));
        assert!(
            matches!(sender.poll(None), Err(Fault { from: 1 })),
            "nothing was offered"
        );
    }

    #[test]
    fn cells_that_the_dead_have_not_read_are_for_others() {
        // Ranks that share CPUs send through cells.
        let segment = Arc::new(Segment::private(3, 2).unwrap());
        let settings = Settings::read(|_| None).unwrap();
        let [mut sender, _dead, mut receiver] =
            [0, 1, 2].map(|rank| Channel::<Plain>::join(segment.clone(), rank, settings.clone()));
        let mut bytes: Vec<u8> = (0..20_000).map(|at| (at * 7) as u8).collect();
        let message = Plain(bytes.as_mut_ptr(), bytes.len());
        for death in [false, true] {
            while sender.is_flushed() {
                sender.send(1, 5, &message, 3).unwrap();
            }
            assert_eq!(sender.out[1].messages.len(), 1);
            if death {
                assert_eq!(sender.bury(1).0, [3]);
            } else {
                sender.send(2, 5, &message, 4).unwrap();
                assert_eq!(sender.waiting.len(), 2, "there is no cell left");
                sender.out[2].messages.clear();
                sender.waiting.retain(|&to| to == 1);
            }
        }
        for _ in 0..100 {
            assert_eq!(sender.send(2, 5, &message, 4), Ok(Sent::Done));
            let mut came = Vec::new();
            while let Some(arrival) = receiver.poll(None).unwrap() {
                let Arrival::Portion { from, portion, .. } = arrival else {
                    panic!("{arrival:?}");
                };
                receiver.empty_cells(from, &portion, |_, data, len| {
                    // SAFETY: the cell holds so many bytes.
                    came.extend_from_slice(unsafe { std::slice::from_raw_parts(data, len) });
                });
                receiver.consume(from);
            }
            assert!(came == bytes);
        }
    }
}
