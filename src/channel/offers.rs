//! The messages that this rank has offered, and those that have left but are not fetched yet.

use super::packet::OfferId;
use super::{Bytes, Channel, Ticket};
use crate::shm::offer::OFFERS;
use crate::sys::cpu;

/// Offers that are open, by descriptor.
pub(super) struct Offers<B> {
    pub(super) open: Vec<Option<Open<B>>>,
    free: Vec<u32>,
    /// Bytes of messages that have left and are not fetched yet.
    pub(super) kept: usize,
}

/// An offered message.
pub(super) struct Open<B> {
    /// `None` when the message has left: the program was told that it is sent.
    pub(super) ticket: Option<Ticket>,
    pub(super) may_leave: bool,
    /// When its sender would have slept first since it waits, in nanoseconds.
    pub(super) waits_since: Option<u64>,
    /// Its bytes go with its record: nobody looks at the buffer once that has left.
    pub(super) went: bool,
    pub(super) to: u32,
    pub(super) envelope: u64,
    pub(super) usage: u32,
    pub(super) buffer: B,
}

impl<B: Bytes> Offers<B> {
    /// None.
    pub(super) fn new() -> Offers<B> {
        Offers {
            open: Vec::new(),
            free: Vec::new(),
            kept: 0,
        }
    }

    /// The number of a free descriptor.
    pub(super) fn claim(&mut self) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        let index = self.open.len();
        (index < OFFERS).then(|| {
            self.open.push(None);
            index as u32
        })
    }

    /// The descriptor is free again.
    pub(super) fn release(&mut self, index: u32) -> Option<Open<B>> {
        let open = self.open[index as usize].take();
        self.free.push(index);
        if let Some(Open {
            ticket: None,
            went: false,
            buffer,
            ..
        }) = &open
        {
            self.kept -= buffer.len();
        }
        open
    }

    /// Numbers of descriptors are below this.
    pub(super) fn slots(&self) -> u32 {
        self.open.len() as u32
    }

    /// The message under `index`, if it may leave and has not left.
    pub(super) fn may_leave(&mut self, index: u32) -> Option<&mut Open<B>> {
        let open = self.open[index as usize].as_mut()?;
        (open.may_leave && open.ticket.is_some()).then_some(open)
    }

    /// The message under `index` lies in `kept` from now on, and its send is over.
    pub(super) fn leave(&mut self, index: u32, kept: B) -> Option<Ticket> {
        let open = self.open[index as usize].as_mut()?;
        self.kept += kept.len();
        open.buffer = kept;
        open.ticket.take()
    }

    /// The message to `to` under this name.
    pub(super) fn find(&self, id: OfferId, to: u32) -> Option<&Open<B>> {
        let open = self.open.get(id.index as usize)?.as_ref()?;
        (open.usage == id.usage && open.to == to).then_some(open)
    }
}

impl<B: Bytes> Channel<B> {
    /// Claims a descriptor for a message, which its sender can withdraw or not; `None` when all are in use.
    pub(super) fn open(&mut self, mut open: Open<B>, withdrawable: bool) -> Option<OfferId> {
        let index = self.offers.claim()?;
        let offer = self
            .segment
            .offer(self.me, index)
            .expect("claimed numbers are in range");
        let usage = match withdrawable {
            true => offer.open(),
            false => offer.open_taken(),
        };
        if self.settings.demote_max > 0 {
            // Whoever takes it looks there first.
            cpu::hand_over((&raw const *offer).cast(), size_of_val(offer));
        }
        let len = open.buffer.len();
        self.ways[open.to as usize].opened(len);
        self.block.doing.sent(len);
        open.usage = usage;
        self.offers.open[index as usize] = Some(open);
        Some(OfferId { index, usage })
    }

    /// Takes an offer back; false when the receiver has taken it.
    pub fn withdraw(&mut self, id: OfferId) -> bool {
        let Some(offer) = self.segment.offer(self.me, id.index) else {
            return false;
        };
        let back = offer.withdraw(id.usage);
        if back {
            self.release(id);
        }
        back
    }

    /// Waits no longer for the answer to a message whose bytes went with its record; false if they have not.
    pub fn abandon(&mut self, id: OfferId) -> bool {
        let open = self.offers.open.get_mut(id.index as usize).and_then(Option::as_mut);
        let Some(open) = open.filter(|open| open.usage == id.usage && open.went) else {
            return false;
        };
        open.ticket.take().is_some()
    }
}
