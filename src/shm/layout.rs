//! Where everything lies in a job's segment, computed from the number of ranks alone, and in an annex of it.
//!
//! ```text
//! | JobHeader 4K | contexts 776K | RankBlock 4K x P
//! | for each receiver: credits, slots, byte rings, larger ones, shuttles, one of each per sender (first touched by the receiver)
//! | for each sender:   marks 4K, cells 1M                             (first touched by the sender)
//! | for each sender:   offers 2M
//! | fates 128K | for each rank: votes 1M
//! | for each rank:     a board 2176 bytes for each of 8192 contexts, another for the first 256 and for 256 persistent operations,
//! |                    scratch 1544K, rooms 24M, trays 84K, what two ranks swap 8M (first touched by the rank)
//! | for each rank:     what it counts when it is profiled (profile.rs)
//! | published names 3M
//! | for each rank:     zone: memory it shares on demand (zone.rs)
//! ```
//! Every partition is whole pages, so that each lies on its owner's NUMA node (Ekman 2005 §3): mpirun asks the
//! kernel for that before the ranks start ([`Layout::partitions`]), so it holds whoever touches a page first. The
//! file is sparse: what nobody writes costs nothing.
//!
//! Processes that are started later (`MPI_Comm_spawn`) have the next ranks, and an *annex* at the end of the file:
//!
//! ```text
//! | AnnexHeader 4K | RankBlock 4K x new
//! | for each new receiver: credits, slots, byte rings, one of each per sender | for each old receiver: the same per new sender
//! | for each new rank: marks and cells; offers; votes; boards and what lies behind them; zone
//! ```
//! All rings of a job are as large as those it began with; annexes have no larger ones and no shuttles.

use super::board::{Board, REACH, STARTED};
use super::context::Context;
use super::fate::{Fate, VOTES, Vote};
use super::names::{NAMES, Name};
use super::offer::{OFFERS, Offer};
use super::pool::{CELL, CELLS};
use super::profile;
use super::ring::{Credit, Slot};
use crate::sys::pages::HUGE;
use std::mem::size_of;
use std::ops::Range;

/// Size of a partition's unit.
pub const PAGE: usize = 4096;
/// Communicator contexts of a job.
pub const CONTEXTS: usize = 1 << 15;
/// Behind them, contexts of persistent collective operations, which send no messages.
pub const KEPT: usize = STARTED;
/// Those of all [`CONTEXTS`], from the first on, that have boards: more communicators at a time are seldom, and boards make the mapping
/// long.
pub const BOARDED: usize = 1 << 13;
/// Most ranks of a job: an envelope has 16 bits for a rank.
pub const MAX_RANKS: u32 = 1 << 15;

/// Bytes of rings that one receiver has for all its senders together, at most, in jobs of up to [`SMALL`] ranks, of up to
/// [`LARGE`], and of more.
const RINGS_PER_RECEIVER: (usize, usize, usize) = (576 << 10, 2 << 20, 256 << 10);
/// Most ranks of a job in which the first of these bounds what a receiver has.
const SMALL: usize = 8;
/// Most ranks of a job whose pairs have room for messages of some KiB, and shuttles.
const LARGE: usize = 64;
/// Largest and smallest ring of one pair: half of it slots, half bytes, but no more slots than [`SLOTS`]. The largest, that of two
/// ranks, has 256 KiB of bytes: windows of 512 KiB to 2 MiB take 0.92 to 0.98 of the time that they take with 128.
const RING: (usize, usize) = (288 << 10, 1 << 10);
/// Most bytes of slots of one pair.
const SLOTS: usize = 32 << 10;
/// Most bytes of the larger byte ring of each direction of a job of two ranks, which its writer need not use all of; others have none.
const LARGER: usize = 4 << 20;
/// Bytes of shuttles that one rank begins with, for all others together, in jobs of up to [`SMALL`] ranks, and of up to
/// [`LARGE`]; larger ones have none.
const SHUTTLES_PER_RANK: (usize, usize) = (8 << 20, 4 << 20);

/// Offsets and sizes, in bytes, for a job of `ranks`, or of an annex for those from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The first rank that has its parts here.
    pub first: u32,
    /// The number behind the last one.
    pub ranks: u32,
    /// Slots in the ring of a pair.
    pub slots: usize,
    /// Bytes in the byte ring of a pair.
    pub bytes: usize,
    /// Room for the larger byte ring of a pair; 0 where there is none.
    pub larger: usize,
    /// Bytes in a shuttle of a pair.
    pub shuttle: usize,
    contexts: usize,
    blocks: usize,
    rings: usize,
    ring_block: usize,
    inward: usize,
    inward_block: usize,
    pools: usize,
    offers: usize,
    fates: usize,
    votes: usize,
    boards: usize,
    profiles: usize,
    names: usize,
    /// Size of what every rank maps; the zones follow.
    pub len: usize,
}

const POOL: usize = PAGE + CELLS * CELL;
const VOTE_TABLE: usize = CONTEXTS * VOTES * size_of::<Vote>();
const OFFER_TABLE: usize = OFFERS * size_of::<Offer>();
const BOARDS: usize = (BOARDED + STARTED + KEPT) * size_of::<Board>();
/// Entries of the table of contexts.
pub const ENTRIES: usize = CONTEXTS + KEPT;
const SHOWN: usize = BOARDS + REACH;

/// The number of the second board of `context`, and of its room, if it has one.
pub fn second(context: usize) -> Option<usize> {
    match context {
        ..STARTED => Some(context),
        CONTEXTS..ENTRIES => Some(context - CONTEXTS + STARTED),
        _ => None,
    }
}

impl Layout {
    /// The layout for `ranks` (1 to [`MAX_RANKS`]) ranks.
    pub fn new(ranks: u32) -> Layout {
        let p = ranks as usize;
        let (rings, shuttles) = if p <= SMALL {
            (RINGS_PER_RECEIVER.0, SHUTTLES_PER_RANK.0)
        } else if p <= LARGE {
            (RINGS_PER_RECEIVER.1, SHUTTLES_PER_RANK.1)
        } else {
            (RINGS_PER_RECEIVER.2, 0)
        };
        let ring = (rings / p.next_power_of_two()).clamp(RING.1, RING.0);
        let slots = (ring / 2).min(SLOTS);
        let bytes = 1 << (ring - slots).ilog2();
        let (slots, ring) = (slots / size_of::<Slot>(), slots + bytes);
        let contexts = PAGE;
        let blocks = contexts + (ENTRIES * size_of::<Context>()).next_multiple_of(PAGE);
        // With two ranks all long parts of a block begin where a huge page may.
        let align = if p == 2 { HUGE } else { PAGE };
        let rings = (blocks + p * PAGE).next_multiple_of(align);
        let shuttle = if p > 1 { shuttles / p.next_power_of_two() } else { 0 };
        let larger = if p == 2 { LARGER } else { 0 };
        let ring_block = (p * (size_of::<Credit>() + ring)).next_multiple_of(align) + p * (larger + shuttle);
        let pools = rings + p * ring_block;
        let offers = pools + p * POOL;
        let fates = offers + p * OFFER_TABLE;
        let votes = fates + CONTEXTS * size_of::<Fate>();
        let boards = votes + p * VOTE_TABLE;
        let profiles = boards + p * SHOWN;
        let names = profiles + p * profile::len(ranks);
        let len = names + (NAMES * size_of::<Name>()).next_multiple_of(PAGE);
        Layout {
            first: 0,
            ranks,
            slots,
            bytes,
            larger,
            shuttle,
            contexts,
            blocks,
            rings,
            ring_block,
            inward: pools,
            inward_block: 0,
            pools,
            offers,
            fates,
            votes,
            boards,
            profiles,
            names,
            len,
        }
    }

    /// The layout of an annex of this one, a job's, for ranks `first` to `ranks` - 1. There is nothing in it that a job has
    /// once, and no profile.
    pub fn annex(&self, first: u32, ranks: u32) -> Layout {
        let (old, all) = (first as usize, ranks as usize);
        let new = all - old;
        let ring = size_of::<Credit>() + self.slots * size_of::<Slot>() + self.bytes;
        let (ring_block, inward_block) = [all, new].map(|senders| (senders * ring).next_multiple_of(PAGE)).into();
        let blocks = PAGE;
        let rings = blocks + new * PAGE;
        let inward = rings + new * ring_block;
        let pools = inward + old * inward_block;
        let offers = pools + new * POOL;
        let votes = offers + new * OFFER_TABLE;
        let boards = votes + new * VOTE_TABLE;
        let len = boards + new * SHOWN;
        Layout {
            first,
            ranks,
            larger: 0,
            shuttle: 0,
            blocks,
            rings,
            ring_block,
            inward,
            inward_block,
            pools,
            offers,
            votes,
            boards,
            len,
            ..*self
        }
    }

    /// How many parts lie before `rank`'s.
    fn index(&self, rank: u32) -> usize {
        (rank - self.first) as usize
    }

    /// Where the rings to `receiver` lie, from whom the first of them comes, and how many they are.
    fn senders(&self, receiver: u32) -> (usize, u32, usize) {
        match receiver.checked_sub(self.first) {
            Some(index) => (self.rings + index as usize * self.ring_block, 0, self.ranks as usize),
            None => (
                self.inward + receiver as usize * self.inward_block,
                self.first,
                self.index(self.ranks),
            ),
        }
    }

    /// The table of contexts.
    pub fn contexts(&self) -> usize {
        self.contexts
    }

    /// Rank `rank`'s block.
    pub fn block(&self, rank: u32) -> usize {
        self.blocks + self.index(rank) * PAGE
    }

    /// Credit line of the ring from `sender` to `receiver`.
    pub fn credit(&self, receiver: u32, sender: u32) -> usize {
        let (start, from, _) = self.senders(receiver);
        start + (sender - from) as usize * size_of::<Credit>()
    }

    /// Slots of the ring from `sender` to `receiver`.
    pub fn slots(&self, receiver: u32, sender: u32) -> usize {
        let (start, from, senders) = self.senders(receiver);
        start + senders * size_of::<Credit>() + (sender - from) as usize * self.slots * size_of::<Slot>()
    }

    /// Byte ring from `sender` to `receiver`.
    pub fn bytes(&self, receiver: u32, sender: u32) -> usize {
        let (_, from, senders) = self.senders(receiver);
        self.slots(receiver, from) + senders * self.slots * size_of::<Slot>() + (sender - from) as usize * self.bytes
    }

    /// The larger byte ring from `sender` to `receiver`.
    pub fn larger(&self, receiver: u32, sender: u32) -> usize {
        self.shuttle(receiver, 0) - (self.ranks - sender) as usize * self.larger
    }

    /// The shuttle that `owner` begins with, of those that it has with `peer`.
    pub fn shuttle(&self, owner: u32, peer: u32) -> usize {
        let end = self.rings + (owner as usize + 1) * self.ring_block;
        end - (self.ranks - peer) as usize * self.shuttle
    }

    /// Marks of `owner`'s pool; its cells lie a page behind.
    pub fn pool(&self, owner: u32) -> usize {
        self.pools + self.index(owner) * POOL
    }

    /// What has become of each context.
    pub fn fates(&self) -> usize {
        self.fates
    }

    /// `owner`'s votes.
    pub fn votes(&self, owner: u32) -> usize {
        self.votes + self.index(owner) * VOTE_TABLE
    }

    /// The parts that belong to `owner`: their names and offsets, whole pages each.
    pub fn partitions(&self, owner: u32) -> [(&'static str, Range<usize>); 6] {
        let part = |name, start: usize, len: usize| (name, start..start + len);
        [
            part("state", self.block(owner), PAGE),
            part("rings", self.credit(owner, 0), self.ring_block),
            part("pool", self.pool(owner), POOL),
            part("offers", self.offers(owner), OFFER_TABLE),
            part("votes", self.votes(owner), VOTE_TABLE),
            part("boards", self.boards(owner), SHOWN),
        ]
    }

    /// `owner`'s offers.
    pub fn offers(&self, owner: u32) -> usize {
        self.offers + self.index(owner) * OFFER_TABLE
    }

    /// `owner`'s board for `context`, the one for nonblocking and persistent operations if `started`, if there is one.
    pub fn board(&self, owner: u32, context: usize, started: bool) -> Option<usize> {
        let index = match started {
            true => BOARDED + second(context)?,
            false => Some(context).filter(|&context| context < BOARDED)?,
        };
        Some(self.boards(owner) + index * size_of::<Board>())
    }

    /// `owner`'s boards, one for each of [`BOARDED`] contexts and then the second ones; its scratch memory
    /// with the rooms of the latter and its trays lies behind.
    pub fn boards(&self, owner: u32) -> usize {
        self.boards + self.index(owner) * SHOWN
    }

    /// `owner`'s scratch memory, its rooms and its trays.
    pub fn scratch(&self, owner: u32) -> usize {
        self.boards(owner) + BOARDS
    }

    /// Published names.
    pub fn names(&self) -> usize {
        self.names
    }

    /// What `rank` counts.
    pub fn profile(&self, rank: u32) -> usize {
        self.profiles + rank as usize * profile::len(self.ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shm::pool::cells_of;

    #[test]
    fn partitions_are_whole_pages_and_follow_each_other() {
        for ranks in [1, 2, 3, 7, 16, 33, 64, 100, 256, 1000] {
            let layout = Layout::new(ranks);
            let last = ranks - 1;
            assert!(
                layout.bytes(last, last) + layout.bytes <= layout.pool(0),
                "{ranks} ranks"
            );
            for receiver in 0..ranks {
                assert_eq!(layout.credit(receiver, 0) % PAGE, 0);
                assert!(layout.credit(receiver, last) + size_of::<Credit>() <= layout.slots(receiver, 0));
                assert!(layout.slots(receiver, last) + layout.slots * size_of::<Slot>() <= layout.bytes(receiver, 0));
                let (larger, shuttles) = (layout.larger(receiver, 0), layout.shuttle(receiver, 0));
                assert!(larger.is_multiple_of(PAGE) && layout.bytes(receiver, last) + layout.bytes <= larger);
                assert!(shuttles.is_multiple_of(PAGE));
                assert_eq!(layout.larger(receiver, last) + layout.larger, shuttles);
                assert_eq!(
                    layout.shuttle(receiver, last) + layout.shuttle,
                    layout.credit(receiver + 1, 0)
                );
            }
            assert!(layout.pool(last) + POOL <= layout.offers(0));
            assert_eq!(layout.offers(last) + OFFER_TABLE, layout.fates());
            assert_eq!(layout.fates() + CONTEXTS * size_of::<Fate>(), layout.votes(0));
            assert_eq!(layout.votes(last) + VOTE_TABLE, layout.boards(0));
            assert_eq!(layout.scratch(last) + REACH, layout.profile(0));
            assert_eq!((layout.boards(last) % PAGE, layout.scratch(0) % PAGE), (0, 0));
            assert_eq!(layout.profile(0) % PAGE, 0);
            assert_eq!(layout.profile(last) + profile::len(ranks), layout.names());
            assert!(layout.slots.is_power_of_two() && layout.bytes.is_power_of_two());
        }
    }

    #[test]
    fn rings_of_an_annex_lie_apart_and_are_as_large_as_the_others() {
        for (began, first, ranks) in [(1, 1, 3), (2, 5, 6), (4, 4, 9)] {
            let layout = Layout::new(began).annex(first, ranks);
            let ring = |receiver, sender| {
                let slots = layout.slots(receiver, sender);
                let bytes = layout.bytes(receiver, sender);
                let credit = layout.credit(receiver, sender);
                [
                    credit..credit + size_of::<Credit>(),
                    slots..slots + layout.slots * size_of::<Slot>(),
                    bytes..bytes + layout.bytes,
                ]
            };
            let pairs = (0..ranks).flat_map(|receiver| (0..ranks).map(move |sender| (receiver, sender)));
            let pairs = pairs.filter(|&(receiver, sender)| receiver.max(sender) >= first);
            let mut parts: Vec<_> = pairs.flat_map(|(receiver, sender)| ring(receiver, sender)).collect();
            parts.extend((first..ranks).map(|rank| layout.block(rank)..layout.block(rank) + PAGE));
            parts.push(layout.pool(first)..layout.len);
            parts.sort_by_key(|range| range.start);
            assert!(parts[0].start >= PAGE && parts.windows(2).all(|pair| pair[0].end <= pair[1].start));
            assert_eq!(
                (layout.slots, layout.bytes),
                (Layout::new(began).slots, Layout::new(began).bytes)
            );
            assert_eq!(layout.scratch(ranks - 1) + REACH, layout.len);
        }
    }

    #[test]
    fn what_ranks_own_is_whole_pages_apart_from_each_other() {
        let job = Layout::new(3);
        for layout in [1, 5, 64]
            .map(Layout::new)
            .into_iter()
            .chain([job.annex(3, 8), job.annex(8, 9)])
        {
            let mut parts: Vec<_> = (layout.first..layout.ranks)
                .flat_map(|rank| layout.partitions(rank))
                .map(|(_, range)| range)
                .collect();
            parts.sort_by_key(|range| range.start);
            assert!(
                parts
                    .iter()
                    .all(|range| range.start % PAGE == 0 && range.end % PAGE == 0 && !range.is_empty())
            );
            assert!(parts.windows(2).all(|pair| pair[0].end <= pair[1].start));
            assert!(parts.iter().all(|range| range.end <= layout.len));
        }
    }

    #[test]
    fn rings_of_many_ranks_stay_small() {
        let shuttles = |ranks: u32| ranks as usize * Layout::new(ranks).shuttle;
        let larger = |ranks: u32| ranks as usize * Layout::new(ranks).larger;
        let committed = |ranks: u32| {
            let layout = Layout::new(ranks);
            layout.bytes(0, ranks - 1) + layout.bytes - layout.credit(0, 0)
        };
        assert_eq!([1, 2, 3].map(larger), [0, 2 * LARGER, 0]);
        let two = Layout::new(2);
        assert!(
            [(0, 1), (1, 0)]
                .iter()
                .all(|pair| two.larger(pair.0, pair.1).is_multiple_of(HUGE))
        );
        assert!((2..=64).all(|ranks| (2 << 20..=8 << 20).contains(&shuttles(ranks))) && shuttles(65) == 0);
        assert!(committed(256) <= 300 << 10);
        assert!(
            committed(2) <= 580 << 10,
            "what two ranks may fill; they touch what they use"
        );
        assert!(committed(8) <= 516 << 10);
        assert!((9..=64).all(|ranks| committed(ranks) <= 2056 << 10));
        let all = |ranks: u32| committed(ranks) + cells_of(ranks) * CELL;
        assert!(all(256) <= 384 << 10, "a rank that has sent to all others");
    }
}
