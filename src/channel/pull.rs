//! # Safety
//! Reads another process's memory into buffers of the application, through the kernel's checks.
//!
//! The one copy (LiMIC 2005): the receiver reads a message out of the sender's memory. Each peer is
//! tried once with a number that only the right process holds at the right place; whatever the kernel
//! refuses, then or later, goes through cells instead.
#![allow(unsafe_code)]

use super::direct::There;
use super::packet::{self, Offered, Way, kind};
use super::{Bytes, Channel, Fault};
use crate::shm::profile::{Path, What};
use crate::sys::{cma, cpu};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::Ordering;

/// Whether a peer's memory can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Unknown,
    Process(i32),
    Never,
}

/// Bytes of a message read at a time when they have to be spread out afterwards.
const BOUNCE: usize = 128 << 10;

/// How a claimed offer was met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brought {
    /// All bytes are there; the sender knows.
    Copied,
    /// [`Channel::bring_together`] brings them.
    Soon,
    /// They come as [`super::Arrival::Data`] for the token, or an [`super::Arrival::Whole`] tells of their end.
    Later,
}

/// A number nobody can guess.
pub(super) fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

impl<B: Bytes> Channel<B> {
    /// Whether the offer still stands.
    pub fn stands(&self, offered: &Offered) -> bool {
        self.segment
            .offer(offered.from, offered.id.index)
            .is_some_and(|offer| offer.stands(offered.id.usage))
    }

    /// Claims an offer: from now on its sender cannot withdraw it. False when it has done so before.
    pub fn claim(&self, offered: &Offered) -> bool {
        self.segment
            .offer(offered.from, offered.id.index)
            .is_some_and(|offer| offer.take(offered.id.usage))
    }

    /// Brings the first `wanted` bytes of a claimed offer into `into`, the way its sender wants or, where that
    /// cannot be, another one. What does not come at once comes for `token`. A sender that has a message of this rank's to copy
    /// itself is not asked to help: each copies what it receives. (A way that `NEARMPI_WAY` fixes stays as it is.)
    ///
    /// # Errors
    /// A [`Fault`] when the sender's ring makes no sense.
    pub fn bring(&mut self, offered: &Offered, into: &B, wanted: usize, token: u32) -> Result<Brought, Fault> {
        if offered.way == Way::Join
            && !self.ways[offered.from as usize].under_way(wanted)
            && let Some(brought) = self.share(offered, into, wanted, token)?
        {
            self.path = Path::Joint;
            return Ok(brought);
        }
        self.bring_alone(offered, into, wanted, token)
    }

    /// As [`Channel::bring`], without the sender's help.
    pub(super) fn bring_alone(
        &mut self,
        offered: &Offered,
        into: &B,
        wanted: usize,
        token: u32,
    ) -> Result<Brought, Fault> {
        self.path = Path::OneCopy;
        if wanted == 0 || self.pull(offered, into, wanted) {
            self.counters.one_copies += u64::from(wanted > 0);
            self.finish_offer(offered.from, offered.id)?;
            return Ok(Brought::Copied);
        }
        self.path = Path::Streamed;
        self.clear(offered, token, wanted)?;
        Ok(Brought::Later)
    }

    /// The offer that the ring from `from` stands at, with its envelope. `None` for anything else.
    pub fn offered(&self, from: u32) -> Option<(u64, Offered)> {
        let ring = &self.rings[from as usize];
        let header = ring.peek().filter(|header| header.kind == kind::OFFER)?;
        let offered = packet::read_offer(ring, header, from).ok()?;
        Some((ring.envelope(), offered))
    }

    /// Copies the message of the offer that [`Channel::offered`] has shown to `to`, and leaves the ring's slot; its sender is told. False,
    /// and nothing done but that `to` may have been written, when that cannot be at once and by this rank alone. The descriptor comes from
    /// its sender while the message is copied and is claimed then; one that was not `waited` for may lie elsewhere by now.
    ///
    /// # Safety
    /// `to` has room for the message.
    pub unsafe fn take_offered(&mut self, offered: &Offered, to: *mut u8, waited: bool) -> bool {
        let (from, len, id) = (offered.from, offered.len as usize, offered.id);
        let (Some(address), Some(offer)) = (offered.address, self.segment.offer(from, id.index)) else {
            return false;
        };
        if !offered.is_firm || offered.way != Way::Pull || len == 0 || from == self.me {
            return false;
        }
        let before = if waited { None } else { offer.moved() };
        cpu::own_soon(&raw const *offer);
        let there = self.reach_memory(from, before.unwrap_or(address), len);
        // SAFETY: `len` bytes of the message, and the caller's promise.
        if there.is_none_or(|there| unsafe { there.read(0, to, len) }.is_err()) || !self.claim(offered) {
            return false;
        }
        self.path = there.map_or(Path::OneCopy, There::path);
        let moved = self.segment.offer(from, id.index).and_then(|offer| offer.moved());
        if let Some(address) = moved.filter(|_| moved != before) {
            // It has left meanwhile, and what was copied may not be it any more.
            let there = self.reach_memory(from, address, len);
            // SAFETY: as above.
            if there.is_none_or(|there| unsafe { there.read(0, to, len) }.is_err()) {
                // Its process is gone.
                return false;
            }
        }
        // What is wrong with the ring to the sender, if anything, the next message there finds as well.
        let _ = self.finish_offer(from, id);
        self.counters.one_copies += 1;
        self.leave_offer(offered);
        true
    }

    /// Leaves the slot that `offered` has been read from: who sends there as well learns with it.
    pub(super) fn leave_offer(&mut self, offered: &Offered) {
        self.step(offered.from, 0);
        self.ways[offered.from as usize].came(offered.len as usize, offered.way);
    }

    fn pull(&mut self, offered: &Offered, into: &B, wanted: usize) -> bool {
        if offered.from == self.me && offered.way != Way::Cells {
            return self.pull_own(offered, into, wanted);
        }
        let Some(address) = self.address_of(offered) else {
            return false;
        };
        // A sender that has left may not call MPI for long.
        let left = self
            .segment
            .offer(offered.from, offered.id.index)
            .is_some_and(|offer| offer.moved().is_some());
        if offered.way == Way::Cells && !left {
            return false;
        }
        let Some(there) = self.reach_memory(offered.from, address, wanted) else {
            return false;
        };
        self.path = there.path();
        let outcome = match into.in_a_row() {
            // SAFETY: `wanted` bytes of the message and of the receive buffer, the callers' promises to MPI.
            Some(local) => unsafe { there.read(0, local, wanted) },
            None => spread(there, into, wanted),
        };
        if let Err(error) = &outcome {
            self.say(format_args!("reads rank {} through cells: {error}", offered.from));
        }
        outcome.is_ok()
    }

    /// A message of this rank's to itself: where it lies is known here, and not from what was in the ring.
    fn pull_own(&mut self, offered: &Offered, into: &B, wanted: usize) -> bool {
        let Some(open) = self.offers.find(offered.id, self.me) else {
            return false;
        };
        self.path = Path::Mapped;
        // SAFETY: the sender's and the receiver's promises to MPI: buffers that are theirs and do not overlap.
        unsafe { open.buffer.give(into, wanted.min(open.buffer.len())) };
        true
    }

    /// Number of the process of rank `peer`, if its memory can be reached through the kernel.
    pub fn process_of(&mut self, peer: u32) -> Option<i32> {
        match self.reach_of(peer) {
            Reach::Process(pid) if self.settings.one_copy != 0 => Some(pid),
            _ => None,
        }
    }

    /// Where a claimed offer lies in its sender.
    pub(super) fn address_of(&self, offered: &Offered) -> Option<u64> {
        let offer = self.segment.offer(offered.from, offered.id.index)?;
        offer.moved().or(offered.address)
    }

    /// Copies `len` bytes at `address` of `peer`'s memory to `to`; false where that is not possible.
    ///
    /// # Safety
    /// `to` has room for them.
    pub unsafe fn read_memory(&mut self, peer: u32, address: u64, to: *mut u8, len: usize) -> bool {
        let Some(there) = self.reach_memory(peer, address, len) else {
            return len == 0;
        };
        // SAFETY: the caller's promise.
        let outcome = unsafe { there.read(0, to, len) };
        self.counters.one_copies += u64::from(outcome.is_ok());
        outcome.is_ok()
    }

    /// As if the kernel had refused to let this rank read `peer`'s memory.
    #[cfg(test)]
    pub fn never_read(&mut self, peer: u32) {
        self.reach[peer as usize] = Reach::Never;
    }

    /// Whether large messages of `peer` are read out of its memory; if not, why not. Tries it, the first time.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn explain_reach(&mut self, peer: u32) -> Result<(), String> {
        if self.settings.one_copy == 0 {
            return Err("NEARMPI_ONE_COPY=0".into());
        }
        match self.reach[peer as usize] {
            Reach::Unknown => self.try_reach(peer),
            Reach::Process(_) => Ok(()),
            Reach::Never => Err("the kernel refuses".into()),
        }
    }

    /// Tries to read the peer's canary and remembers whether that goes.
    fn try_reach(&mut self, peer: u32) -> Result<(), String> {
        let block = self.segment.rank(peer);
        let pid = block.pid.load(Ordering::Relaxed) as i32;
        let (address, canary) = (
            block.canary_address.load(Ordering::Relaxed),
            block.canary.load(Ordering::Relaxed),
        );
        let mut seen = 0u64;
        // SAFETY: `seen` has eight bytes.
        let outcome = unsafe { cma::read(pid, address, (&raw mut seen).cast(), size_of::<u64>()) };
        if outcome.is_ok() && seen == canary {
            self.reach[peer as usize] = Reach::Process(pid);
            return Ok(());
        }
        self.reach[peer as usize] = Reach::Never;
        self.counters.refused += 1;
        if let Some(meter) = self.meter() {
            meter.event(What::Refused, peer, 0);
        }
        let why = outcome
            .err()
            .map_or("its process number means another process here".into(), |e| {
                e.to_string()
            });
        Err(why)
    }

    /// Whether the peer's memory can be read; tried the first time.
    pub(super) fn reach_of(&mut self, peer: u32) -> Reach {
        if self.reach[peer as usize] == Reach::Unknown
            && let Err(why) = self.try_reach(peer)
        {
            self.say(format_args!(
                "cannot read rank {peer}'s memory ({why}): two copies instead"
            ));
        }
        self.reach[peer as usize]
    }
}

/// Copies `wanted` bytes from there to where they do not lie in a row.
fn spread<B: Bytes>(there: There, into: &B, wanted: usize) -> std::io::Result<()> {
    if let There::Mapped(at) = there {
        // SAFETY: the bytes are mapped here; the receive has room for them.
        unsafe { into.put(0, at, wanted) };
        return Ok(());
    }
    let mut scratch = vec![0u8; BOUNCE.min(wanted)];
    let mut position = 0;
    while position < wanted {
        let len = (wanted - position).min(BOUNCE);
        // SAFETY: `scratch` has `len` bytes, and there are `wanted`.
        unsafe { there.read(position, scratch.as_mut_ptr(), len)? };
        // SAFETY: `scratch` holds `len` bytes of the `wanted` that the receive has room for.
        unsafe { into.put(position, scratch.as_ptr(), len) };
        position += len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Arrival;
    use super::super::joint::tests::{Plain, channels};
    use super::super::outgoing::Terms;
    use super::super::packet::OfferId;
    use super::*;

    const LEN: usize = 20_000;

    /// Rank 0 has offered `source` on these terms; what rank 1 sees.
    fn offered(terms: Terms, way: Way) -> (Channel<Plain>, Channel<Plain>, Vec<u8>, OfferId, Offered) {
        let (mut sender, receiver) = channels();
        let mut source: Vec<u8> = (0..LEN).map(|at| (at * 7 % 251) as u8).collect();
        let message = Plain(source.as_mut_ptr(), LEN);
        let id = sender.offer(1, 5, &message, 3, way, terms).unwrap().unwrap();
        let (envelope, offered) = receiver.offered(0).unwrap();
        assert_eq!((envelope, offered.is_firm), (5, !terms.may_cancel));
        (sender, receiver, source, id, offered)
    }

    const LEAVES: Terms = Terms {
        may_leave: true,
        may_cancel: false,
    };
    const CANCELS: Terms = Terms {
        may_leave: false,
        may_cancel: true,
    };

    fn take(receiver: &mut Channel<Plain>, offered: &Offered, target: &mut [u8], waited: bool) -> bool {
        // SAFETY: there is room for the message.
        unsafe { receiver.take_offered(offered, target.as_mut_ptr(), waited) }
    }

    #[test]
    fn what_a_rank_sends_itself_is_copied_once_from_where_it_lies_or_is_kept() {
        const OWN: usize = 40_000;
        let (mut low, _high) = channels();
        let mut source: Vec<u8> = (0..OWN).map(|at| (at * 7 % 251) as u8).collect();
        let (sent, mut target) = (source.clone(), vec![0; OWN]);
        let (message, into) = (Plain(source.as_mut_ptr(), OWN), Plain(target.as_mut_ptr(), OWN));
        assert_eq!(low.plan(0, &message), Some(Way::Pull));
        assert_eq!(low.plan(0, &Plain(message.0, 1000)), None, "the ring has room");
        for leaves in [false, true] {
            target.fill(0);
            low.offer(0, 5, &message, 3, Way::Pull, LEAVES).unwrap().unwrap();
            let Ok(Some(Arrival::Offer { offered, .. })) = low.poll(None) else {
                panic!("no offer came");
            };
            // Where it lies is not taken from the ring.
            let offered = Offered {
                address: Some(8),
                ..offered
            };
            low.leave_own(&offered, 4);
            assert!(
                low.poll(None).unwrap().is_none(),
                "the program waits for something else"
            );
            if leaves {
                low.leave_own(&offered, 3);
                assert!(matches!(low.poll(None), Ok(Some(Arrival::Sent(3)))));
                source.fill(0);
            }
            assert!(low.claim(&offered));
            assert_eq!(low.bring(&offered, &into, OWN, 7), Ok(Brought::Copied));
            assert!(target == sent);
            let told = low.poll(None).unwrap();
            assert!(matches!(told, Some(Arrival::Sent(3))) != leaves && low.is_flushed());
        }
        low.settings.way = 1;
        assert_ne!(low.plan(0, &message), Some(Way::Pull));
    }

    #[test]
    fn an_offer_is_taken_from_the_ring_and_its_sender_is_told() {
        for (terms, waited) in [(Terms::default(), true), (LEAVES, true), (LEAVES, false)] {
            let (mut sender, mut receiver, source, id, offered) = offered(terms, Way::Pull);
            let mut target = vec![0; LEN];
            assert!(take(&mut receiver, &offered, &mut target, waited) && target == source);
            assert!(receiver.poll(None).unwrap().is_none() && !sender.withdraw(id));
            assert!(matches!(sender.poll(None), Ok(Some(Arrival::Sent(3)))));
        }
    }

    #[test]
    fn what_has_left_is_taken_from_where_it_is_kept() {
        for waited in [true, false] {
            let (mut sender, mut receiver, mut source, _, offered) = offered(LEAVES, Way::Pull);
            let (mut target, expected) = (vec![0; LEN], source.clone());
            assert_eq!(sender.leave_late(), None);
            source.fill(0xee);
            assert!(take(&mut receiver, &offered, &mut target, waited) && target == expected);
            assert!(matches!(sender.poll(None), Ok(Some(Arrival::Sent(3)))));
        }
    }

    #[test]
    fn what_is_withdrawn_may_be_cancelled_cannot_be_read_or_goes_another_way_stays_for_the_long_way() {
        let mut target = vec![0; LEN];
        for (terms, way) in [(LEAVES, Way::Cells), (CANCELS, Way::Pull)] {
            let (_sender, mut receiver, _source, _, offer) = offered(terms, way);
            assert!(!take(&mut receiver, &offer, &mut target, true) && target == [0; LEN]);
            assert!(receiver.offered(0).is_some() && receiver.claim(&offer));
        }

        let (mut sender, mut receiver, _source, id, offer) = offered(LEAVES, Way::Pull);
        assert!(sender.withdraw(id) && !take(&mut receiver, &offer, &mut target, true));
        assert!(sender.poll(None).unwrap().is_none() && receiver.offered(0).is_some());

        let (mut sender, mut receiver, _source, _, offer) = offered(LEAVES, Way::Pull);
        let nowhere = Offered {
            address: Some(8),
            ..offer
        };
        assert!(!take(&mut receiver, &nowhere, &mut target, true));
        assert!(sender.poll(None).unwrap().is_none() && receiver.offered(0).is_some());
        assert!(receiver.claim(&offer), "it is as before");
    }
}
