//! What a channel counts: messages and bytes for a profile, and for watchers how much it does.
//!
//! The shortest way of a message does the same whether or not somebody reads the counts: it adds one to the number of
//! messages of this length to this rank, and takes one from the calls of this function until one is to be timed. Only
//! where those words lie depends on the profile.

use super::{Bytes, Channel};
use crate::shm::doing::{Doing, SHORT};
use crate::shm::profile::{Countdown, Few, Kind, Meter, Part, Path};
use crate::shm::segment::Block;
use std::sync::Arc;

/// Messages and events by path, since the start.
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Counters {
    pub inline: u64,
    pub ring: u64,
    pub cells: u64,
    pub asks: u64,
    pub offers: u64,
    pub one_copies: u64,
    pub streams: u64,
    pub written: u64,
    pub levels: u64,
    pub left: u64,
    pub queued: u64,
    pub sleeps: u64,
    pub sweeps: u64,
    pub refused: u64,
}

impl Counters {
    /// Names and values.
    pub fn list(&self) -> [(&'static str, u64); 14] {
        [
            ("inline", self.inline),
            ("ring", self.ring),
            ("cells", self.cells),
            ("asks", self.asks),
            ("offers", self.offers),
            ("one_copies", self.one_copies),
            ("streams", self.streams),
            ("written", self.written),
            ("levels", self.levels),
            ("left", self.left),
            ("queued", self.queued),
            ("sleeps", self.sleeps),
            ("sweeps", self.sweeps),
            ("refused", self.refused),
        ]
    }
}

/// Where a profiled rank counts, and how it tells from an envelope whose bytes they are.
pub struct Metering {
    /// Where it counts.
    pub meter: Arc<Meter>,
    /// Tells whose bytes they are.
    pub kind: fn(u64) -> Kind,
}

/// Where short messages and short calls are counted.
pub(super) struct Short {
    /// Messages that no profile wants to know of.
    pub(super) few: Part<Few>,
    /// By the number of a function with a short way.
    calls: [Part<Countdown>; SHORT],
}

impl Short {
    /// For a rank that is not profiled.
    pub(super) fn new(block: &Block) -> Short {
        let block = Arc::new(block.clone());
        Short {
            few: Part::new(Arc::new(Few::default()), |few| few),
            calls: std::array::from_fn(|at| Part::new(block.clone(), |block| &block.doing.short[at])),
        }
    }
}

impl<B: Bytes> Channel<B> {
    /// Counts messages for a profile from now on, but for those to ranks that were started later, which may be there first.
    pub fn profile(&mut self, metering: Metering) {
        let ranks = metering.meter.block().ranks();
        for (to, out) in (0..ranks).zip(&mut self.out) {
            out.few = Part::new(metering.meter.clone(), |meter| &meter.block().peer(to).few);
        }
        self.meter = Some(metering);
    }

    /// Counts short calls for the profile from now on: those of the functions with these numbers there.
    pub fn profile_calls(&mut self, calls: [usize; SHORT]) {
        if let Some(Metering { meter, .. }) = &self.meter {
            let left = |call: usize| Part::new(meter.clone(), |meter| &meter.block().fixed().calls[call].left);
            self.short.calls = calls.map(left);
        }
    }

    /// Where a profiled rank counts.
    #[inline]
    pub fn meter(&self) -> Option<&Meter> {
        self.meter.as_ref().map(|metering| &*metering.meter)
    }

    /// A call of the `short`-th function with a short way has gone it; whether the next one is to be timed.
    #[inline(always)]
    pub fn called(&self, short: usize) -> bool {
        self.short.calls[short].step()
    }

    /// What watchers see of this rank.
    #[inline]
    pub fn doing(&self) -> &Doing {
        &self.block.doing
    }

    /// Messages and events by path, since the start.
    pub fn counters(&self) -> Counters {
        let profiled = self.meter().map_or(0, |meter| {
            let peers = (0..meter.block().ranks()).map(|peer| meter.block().peer(peer));
            peers.map(|peer| peer.few.sum().messages).sum()
        });
        Counters {
            inline: self.counters.inline + self.short.few.sum().messages + profiled,
            ..self.counters
        }
    }

    /// Writes the counters down for the profile.
    pub fn tell_counters(&self) {
        if let Some(meter) = self.meter() {
            meter.counters(&self.counters().list().map(|(_, value)| value));
        }
    }

    /// A whole message has gone to `to`.
    #[inline]
    pub(super) fn count_sent(&self, path: Path, to: u32, envelope: u64, bytes: usize) {
        if let Some(Metering { meter, kind }) = &self.meter {
            meter.sent(kind(envelope), path, to, bytes);
        }
    }

    /// A whole message has been brought from `from`, or will be.
    pub fn count_brought(&self, from: u32, envelope: u64, bytes: usize) {
        if let Some(Metering { meter, kind }) = &self.meter {
            meter.read(kind(envelope), self.path, from, bytes);
        }
    }

    /// Bytes of a collective operation have been read from `from`, out of its memory or where it shows them.
    #[inline]
    pub fn count_seen(&self, path: Path, from: u32, bytes: usize) {
        if let Some(meter) = self.meter()
            && bytes > 0
        {
            meter.read(Kind::Inside, path, from, bytes);
        }
    }

    /// A one-sided operation has moved bytes of the program: `there` to rank `peer`, `back` from it.
    #[inline]
    pub fn count_one_sided(&self, path: Path, peer: u32, there: usize, back: usize) {
        if let Some(meter) = self.meter() {
            if there > 0 {
                meter.sent(Kind::Message, path, peer, there);
            }
            if back > 0 {
                meter.read(Kind::Message, path, peer, back);
            }
        }
    }
}
