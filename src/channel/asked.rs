//! # Safety
//! Copies messages into room that it has reserved in a ring.
//!
//! Synchronous messages that go by value: one record with the message, and a Fin from the receiver when a receive has it.
#![allow(unsafe_code)]

use super::offers::Open;
use super::outgoing::{Outgoing, What};
use super::packet::{self, ASK_INLINE, Asked, OfferId, Record, Way, kind};
use super::{Bytes, Channel, Fault, Ticket};
use crate::shm::profile::Path;
use crate::shm::ring::{Header, INLINE_WORDS, Junk};

/// A message by value that its sender waits for.
#[derive(Clone, Copy)]
pub(super) struct Ask {
    envelope: u64,
    id: OfferId,
    withdrawable: bool,
}

impl<B: Bytes> Channel<B> {
    /// Whether a synchronous message of `len` bytes that is not to be offered goes by [`Channel::ask`].
    #[inline]
    pub fn asks(&self, len: usize) -> bool {
        len <= self.ask_max
    }

    /// Sends a message by value; the ticket comes back when a receive has it. [`Channel::withdraw`] takes it back until
    /// then if it is `withdrawable`, which costs the receiver an atomic instruction on a line of the sender's.
    ///
    /// # Errors
    /// `Ok(None)` when all descriptors are in use.
    pub fn ask(
        &mut self,
        to: u32,
        envelope: u64,
        buffer: &B,
        ticket: Ticket,
        withdrawable: bool,
    ) -> Result<Option<OfferId>, Fault> {
        let open = Open {
            ticket: Some(ticket),
            may_leave: false,
            waits_since: None,
            went: true,
            to,
            envelope,
            usage: 0,
            buffer: buffer.clone(),
        };
        let Some(id) = self.open(open, withdrawable) else {
            return Ok(None);
        };
        let ask = Ask {
            envelope,
            id,
            withdrawable,
        };
        let message = Outgoing {
            ticket: None,
            what: What::Ask(ask),
            buffer: buffer.clone(),
            position: 0,
            end: buffer.len(),
        };
        self.start(to, message)?;
        Ok(Some(id))
    }

    /// Sends the record and the bytes, if there is room; true when they went.
    pub(super) fn advance_ask(&mut self, to: u32, ask: &Ask, message: &mut Outgoing<B>) -> Result<bool, Fault> {
        let fault = |Junk| Fault { from: to };
        let (id, len) = (ask.id, message.end);
        let open = self.offers.find(id, to);
        let (is_open, is_wanted) = (open.is_some(), open.is_some_and(|open| open.ticket.is_some()));
        let out = &mut self.out[to as usize];
        if !out.producer.has_slot().map_err(fault)? {
            return Ok(false);
        }
        if !is_wanted {
            // The program has its buffer back. The receiver drops this, and what went before it.
            if is_open {
                self.close_offer(to, id)?;
            }
            let nothing = Record::offer(ask.envelope, 0, None, id, (Way::Cells, true));
            let producer = &mut self.out[to as usize].producer;
            producer.push(nothing.header, nothing.envelope, &nothing.words);
            self.ring_bell(to);
            return Ok(true);
        }
        let mut words = [id.word(), 0, 0, 0, 0, 0];
        const { assert!(ASK_INLINE == (INLINE_WORDS - 1) * 8) };
        let (room, used, path) = match len <= ASK_INLINE {
            true => (words[1..].as_mut_ptr().cast(), 1 + len.div_ceil(8), Path::Slot),
            false => match out.producer.reserve(len as u32).map_err(fault)? {
                Some(room) => (room.as_ptr(), 1, Path::Ring),
                None => return Ok(false),
            },
        };
        // SAFETY: the words, or what was reserved, have room for the whole message.
        unsafe { message.buffer.take(0, room, len) };
        let header = Header {
            kind: kind::ASK,
            aux: ask.withdrawable as u8,
            len: len as u32,
        };
        out.producer.push(header, ask.envelope, &words[..used]);
        self.counters.asks += 1;
        self.ring_bell(to);
        self.count_sent(path, to, ask.envelope, len);
        Ok(true)
    }

    /// The synchronous message that the ring from `from` stands at: its envelope, what its sender waits for, its bytes and
    /// how many, until [`Channel::consume`]. `None` for anything else.
    pub fn asked(&self, from: u32) -> Option<(u64, Asked, *const u8, usize)> {
        let ring = &self.rings[from as usize];
        let header = ring.peek().filter(|header| header.kind == kind::ASK)?;
        let (asked, data) = packet::read_asked(ring, header, from).ok()?;
        Some((ring.envelope(), asked, data, header.len as usize))
    }

    /// Whether a synchronous message still stands.
    pub fn asked_stands(&self, asked: &Asked) -> bool {
        let offer = || self.segment.offer(asked.from, asked.id.index);
        !asked.withdrawable || offer().is_some_and(|offer| offer.stands(asked.id.usage))
    }

    /// Claims a synchronous message, which a receive is about to take. False when its sender has withdrawn it.
    pub fn claim_asked(&self, asked: &Asked) -> bool {
        let offer = || self.segment.offer(asked.from, asked.id.index);
        !asked.withdrawable || offer().is_some_and(|offer| offer.take(asked.id.usage))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Arrival;
    use super::super::joint::tests::{Plain, channels};
    use super::*;

    fn next(receiver: &mut Channel<Plain>) -> (Asked, Vec<u8>) {
        match receiver.poll(None) {
            Ok(Some(Arrival::Asked { asked, data, len, .. })) => {
                // SAFETY: the ring holds so many bytes.
                let bytes = unsafe { std::slice::from_raw_parts(data, len) }.to_vec();
                receiver.consume(asked.from);
                (asked, bytes)
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_message_is_sent_when_its_receiver_says_so() {
        for len in [0, 1, ASK_INLINE, ASK_INLINE + 1, 30_000] {
            let (mut sender, mut receiver) = channels();
            let mut bytes: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
            let message = Plain(bytes.as_mut_ptr(), len);
            sender.ask(1, 5, &message, 3, false).unwrap().unwrap();
            assert!(matches!(sender.poll(None), Ok(None)));
            let (asked, came) = next(&mut receiver);
            assert!(came == bytes && receiver.asked_stands(&asked) && receiver.claim_asked(&asked));
            receiver.finish_offer(0, asked.id).unwrap();
            assert!(matches!(sender.poll(None), Ok(Some(Arrival::Sent(3)))));
            assert!(matches!(receiver.poll(None), Ok(None)));
        }
    }

    #[test]
    fn it_is_withdrawn_or_taken() {
        let (mut sender, mut receiver) = channels();
        let mut bytes = [7u8; 8];
        let message = Plain(bytes.as_mut_ptr(), 8);
        for taken in [false, true] {
            let id = sender.ask(1, 5, &message, 3, true).unwrap().unwrap();
            let (asked, _) = next(&mut receiver);
            assert!(receiver.asked_stands(&asked));
            assert_eq!(taken, taken && receiver.claim_asked(&asked));
            assert_eq!(sender.withdraw(id), !taken);
            assert!(!receiver.asked_stands(&asked) && !receiver.claim_asked(&asked));
        }
        let id = sender.ask(1, 5, &message, 3, false).unwrap().unwrap();
        assert!(!sender.withdraw(id) && sender.abandon(id) && !sender.abandon(id));
        let (asked, _) = next(&mut receiver);
        receiver.finish_offer(0, asked.id).unwrap();
        assert!(matches!(sender.poll(None), Ok(None)), "nobody waits for it");
    }

    #[test]
    fn what_is_given_up_while_the_ring_is_full_does_not_go() {
        let (mut sender, mut receiver) = channels();
        let mut bytes = [7u8; 8];
        let message = Plain(bytes.as_mut_ptr(), 8);
        let mut before = 0;
        while sender.is_flushed() {
            sender.send(1, 5, &message, 4).unwrap();
            before += 1;
        }
        let withdrawn = sender.ask(1, 6, &message, 1, true).unwrap().unwrap();
        let abandoned = sender.ask(1, 6, &message, 2, false).unwrap().unwrap();
        sender.ask(1, 6, &message, 3, false).unwrap().unwrap();
        assert!(sender.withdraw(withdrawn) && sender.abandon(abandoned));
        let mut dropped = 0;
        loop {
            let _ = sender.poll(None).unwrap();
            match receiver.poll(None).unwrap() {
                Some(Arrival::Message { .. }) => before -= 1,
                Some(Arrival::Offer { offered, .. }) => {
                    assert!(!receiver.stands(&offered));
                    dropped += 1;
                    continue;
                }
                Some(Arrival::Asked { asked, .. }) => {
                    receiver.consume(0);
                    receiver.finish_offer(0, asked.id).unwrap();
                    break;
                }
                other => panic!("{other:?}"),
            }
            receiver.consume(0);
        }
        assert_eq!((before, dropped), (0, 2));
        assert!(matches!(sender.poll(None), Ok(Some(Arrival::Sent(3)))));
    }

    #[test]
    fn a_stream_of_what_went_already_is_a_fault() {
        let (mut sender, mut receiver) = channels();
        let mut bytes = [7u8; 8];
        let message = Plain(bytes.as_mut_ptr(), 8);
        let id = sender.ask(1, 5, &message, 3, true).unwrap().unwrap();
        receiver.control(0, Record::clear(id, 9, 8)).unwrap();
        assert!(matches!(sender.poll(None), Err(Fault { from: 1 })));
    }

    #[test]
    fn more_bytes_than_the_ring_has_are_a_fault() {
        let (mut sender, mut receiver) = channels();
        let mut record = Record::fin(OfferId { index: 0, usage: 1 });
        (record.header.kind, record.header.len) = (kind::ASK, u32::MAX);
        sender.control(1, record).unwrap();
        assert!(matches!(receiver.poll(None), Err(Fault { from: 0 })));
    }
}
