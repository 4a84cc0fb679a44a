//! What a profiled rank tells about its traffic: whose bytes a message carries, and who has data of whom
//! after a collective operation, whatever messages its algorithm sends.

use super::coll::plan::{Blocks, Reduction, Root};
use super::comm::Comm;
use super::pt2pt::matching::Envelope;
use super::pt2pt::partitioned;
use super::world::State;
use crate::shm::profile::Kind;

/// Whose bytes a message carries. Messages of the program are those it sends itself, partitions among them.
pub fn kind(envelope: u64) -> Kind {
    let envelope = Envelope(envelope);
    let (tag, collective) = (envelope.tag(), envelope.context() & 1 != 0);
    match collective {
        true if partitioned::are_partitions(envelope) => Kind::Message,
        false if tag >= 0 => Kind::Message,
        _ => Kind::Inside,
    }
}

/// Which of its data a rank gives to the others in a collective operation, in bytes; ranks count as the
/// communicator's peers do. What it keeps for itself is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Gift {
    /// Nothing.
    #[default]
    Nothing,
    /// So much to this rank.
    One(u32, usize),
    /// So much to every rank.
    All(usize),
    /// So much to every rank above.
    Above(usize),
    /// So much to each of these ranks, which may be named several times.
    Each(Vec<(u32, usize)>),
}

impl Gift {
    /// From a root to all others.
    pub fn from_root(comm: &Comm, root: Root, bytes: usize) -> Gift {
        match root {
            Root::Here => Gift::All(bytes),
            Root::Rank(root) if !comm.is_inter() && root == comm.rank => Gift::All(bytes),
            _ => Gift::Nothing,
        }
    }

    /// From all others to a root.
    pub fn to_root(root: Root, bytes: usize) -> Gift {
        match root {
            Root::Rank(root) => Gift::One(root, bytes),
            _ => Gift::Nothing,
        }
    }

    /// Block k to `ranks[k]`; nothing for negative numbers, which stand for nobody.
    pub fn blocks(blocks: &Blocks, ranks: impl Iterator<Item = i32>) -> Gift {
        let named = (0..)
            .zip(ranks)
            .filter_map(|(index, to)| Some((index, u32::try_from(to).ok()?)));
        Gift::Each(named.map(|(index, to)| (to, blocks.len(index))).collect())
    }
}

impl Reduction {
    /// Bytes of an operand.
    pub fn bytes(&self) -> usize {
        self.count * self.element.datatype.size()
    }
}

impl State {
    /// Notes what the collective call under way gives, for [`State::hand_out`]. Cost: a look when there is no profile.
    #[inline]
    pub fn note(&self, gift: impl FnOnce() -> Gift) {
        if self.engine.channel.meter().is_some() {
            self.gift.set(gift());
        }
    }

    /// What was noted last, once.
    #[inline]
    pub fn noted(&self) -> Gift {
        self.gift.take()
    }

    /// Counts `gift`, that of an operation on `comm` which begins now.
    #[inline]
    pub fn hand_out(&self, comm: &Comm, gift: &Gift) {
        if *gift != Gift::Nothing {
            self.count(comm, gift);
        }
    }

    fn count(&self, comm: &Comm, gift: &Gift) {
        let Some(meter) = self.engine.channel.meter() else {
            return;
        };
        let own = (!comm.is_inter()).then_some(comm.rank);
        let give = |to: u32, bytes: usize| {
            if Some(to) != own && bytes > 0 {
                meter.given(comm.peers().world(to), bytes);
            }
        };
        let ranks = comm.peers().size();
        match gift {
            Gift::Nothing => {}
            Gift::One(to, bytes) => give(*to, *bytes),
            Gift::All(bytes) => (0..ranks).for_each(|to| give(to, *bytes)),
            Gift::Above(bytes) => (comm.rank + 1..ranks).for_each(|to| give(to, *bytes)),
            Gift::Each(list) => list.iter().for_each(|&(to, bytes)| give(to, bytes)),
        }
    }
}
