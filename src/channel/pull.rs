//! # Safety
//! Reads another process's memory into buffers of the application, through the kernel's checks.
//!
//! The one copy (LiMIC 2005): the receiver reads a message out of the sender's memory. Each peer is
//! tried once with a number that only the right process holds at the right place; whatever the kernel
//! refuses, then or later, goes through cells instead.
#![allow(unsafe_code)]

use super::direct::There;
use super::packet::{Offered, Way};
use super::{Bytes, Channel, Fault};
use crate::shm::profile::{Path, What};
use crate::sys::cma;
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

    fn pull(&mut self, offered: &Offered, into: &B, wanted: usize) -> bool {
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
