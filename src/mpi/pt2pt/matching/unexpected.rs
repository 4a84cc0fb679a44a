//! The queue of messages that arrived unmatched.

use super::links::*;
use super::*;
use std::collections::VecDeque;

/// Messages that arrived before a receive wanted them, in order of arrival.
/// Cost: with `M` of 32 bytes at most 100 bytes a message, wildcards and distinct tags included.
pub struct Unexpected<M> {
    /// All of them have their message.
    short: VecDeque<(Envelope, Option<M>)>,
    pub(super) is_long: bool,
    pub(super) long: LongUnexpected<M>,
}

pub(super) struct LongUnexpected<M> {
    pub(super) nodes: Vec<(Envelope, Option<M>)>,
    pub(super) free: Vec<u32>,
    /// By kind of pattern. Exact lists always live, the others once they are asked for. The nodes stand in the order of
    /// arrival, and none is used again, until there are in-context lists.
    pub(super) lists: [Option<Lists>; 4],
    pub(super) len: usize,
}

#[derive(Default)]
pub(super) struct Lists {
    pub(super) heads: Heads,
    pub(super) links: Links,
}

/// Where a message is, until the queue changes.
#[derive(Debug)]
pub struct Place(Position);

#[derive(Debug)]
enum Position {
    /// So many are before it in the row.
    Row(usize),
    /// This node, at the head of the list in that slot of the lists of that kind.
    Node { node: u32, kind: usize, slot: usize },
}

impl<M> Default for Unexpected<M> {
    fn default() -> Self {
        Unexpected {
            short: VecDeque::with_capacity(SHORT),
            is_long: false,
            long: LongUnexpected::default(),
        }
    }
}

impl<M> Default for LongUnexpected<M> {
    fn default() -> Self {
        LongUnexpected {
            nodes: Vec::new(),
            free: Vec::new(),
            lists: Default::default(),
            len: 0,
        }
    }
}

impl<M> Unexpected<M> {
    /// Stores an arrived message. Cost: O(1), amortized.
    #[inline]
    pub fn push(&mut self, envelope: Envelope, message: M) {
        if self.is_long {
            self.long.push(envelope, message);
        } else {
            self.short.push_back((envelope, Some(message)));
        }
    }

    /// Takes out the earliest arrived message that `pattern` wants. Cost: O(1), amortized.
    #[inline]
    pub fn take(&mut self, pattern: Pattern) -> Option<(Envelope, M)> {
        let place = self.find(pattern)?;
        self.remove(place)
    }

    /// The message that [`Unexpected::take`] would take. Cost: O(1), amortized.
    #[inline]
    pub fn peek(&mut self, pattern: Pattern) -> Option<(Envelope, &M)> {
        let place = self.find(pattern)?;
        self.at(&place)
    }

    /// Where the message is that [`Unexpected::take`] would take. Cost: O(1), amortized.
    #[inline]
    pub fn find(&mut self, pattern: Pattern) -> Option<Place> {
        let place = match self.scan(pattern) {
            Scan::Found(at) => Position::Row(at),
            Scan::None => return None,
            Scan::Long => self.long.earliest(pattern)?,
        };
        Some(Place(place))
    }

    /// Whether messages are kept in a row: a long queue is not.
    #[inline(always)]
    pub fn is_row(&self) -> bool {
        !self.short.is_empty()
    }

    /// The first of a row, if it is what `pattern` wants: messages are mostly received in the order in which they come.
    #[inline(always)]
    pub fn first(&self, pattern: Pattern) -> Option<(Envelope, &M)> {
        let (envelope, message) = self.short.front()?;
        step();
        let message = message.as_ref().filter(|_| pattern.matches(*envelope))?;
        Some((*envelope, message))
    }

    /// Takes out the first of a row. Cost: O(1).
    #[inline(always)]
    pub fn remove_first(&mut self) -> Option<(Envelope, M)> {
        let (envelope, message) = self.short.pop_front()?;
        if self.short.is_empty() && self.short.capacity() > KEPT {
            self.give_back();
        }
        Some((envelope, message?))
    }

    #[cold]
    fn give_back(&mut self) {
        self.short = VecDeque::with_capacity(SHORT);
    }

    /// The message at `place`.
    #[inline]
    pub fn at(&self, place: &Place) -> Option<(Envelope, &M)> {
        let (envelope, message) = match place.0 {
            Position::Row(at) => self.short.get(at)?,
            Position::Node { node, .. } => self.long.nodes.get(node as usize)?,
        };
        Some((*envelope, message.as_ref()?))
    }

    /// Takes out the message at `place`, where it has been found since the queue changed last. Cost: O(1), amortized.
    #[inline]
    pub fn remove(&mut self, place: Place) -> Option<(Envelope, M)> {
        match place.0 {
            Position::Row(0) => self.remove_first(),
            Position::Row(at) => {
                let (envelope, message) = self.short.remove(at)?;
                Some((envelope, message?))
            }
            Position::Node { node, kind, slot } => {
                let taken = self.long.remove(node, Some((kind, slot)));
                if self.long.len <= FEW {
                    self.shorten();
                }
                taken
            }
        }
    }

    /// How many messages wait.
    #[inline]
    pub fn len(&self) -> usize {
        if self.is_long { self.long.len } else { self.short.len() }
    }

    /// Whether no message waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every waiting message, in no useful order: for reports.
    pub fn iter(&self) -> impl Iterator<Item = (Envelope, &M)> {
        let all = self.short.iter().chain(&self.long.nodes);
        all.filter_map(|(envelope, message)| Some((*envelope, message.as_ref()?)))
    }

    /// Looks through the first messages of the row; one that has more becomes long.
    #[inline]
    fn scan(&mut self, pattern: Pattern) -> Scan {
        if self.is_long {
            return Scan::Long;
        }
        let wanted = |(envelope, _): &(Envelope, Option<M>)| {
            step();
            pattern.matches(*envelope)
        };
        if let Some(at) = self.short.iter().take(SHORT).position(wanted) {
            return Scan::Found(at);
        }
        if self.short.len() <= SHORT {
            return Scan::None;
        }
        self.lengthen();
        Scan::Long
    }

    /// The row's memory becomes the nodes': a flood is not held twice.
    #[cold]
    fn lengthen(&mut self) {
        self.is_long = true;
        self.long.list(Vec::from(std::mem::take(&mut self.short)));
    }

    fn shorten(&mut self) {
        self.is_long = false;
        for node in self.long.in_order() {
            let message = self.long.remove(node, None);
            self.short
                .extend(message.map(|(envelope, message)| (envelope, Some(message))));
        }
        self.long.lists[EXACT + 1..].fill_with(|| None);
        if self.long.nodes.len() > KEPT {
            self.long = LongUnexpected::default();
        }
    }
}

impl<M> LongUnexpected<M> {
    /// Takes over `nodes`, in the order of their arrival, when there are no others.
    fn list(&mut self, nodes: Vec<(Envelope, Option<M>)>) {
        self.nodes = nodes;
        self.free.clear();
        self.len = self.nodes.len();
        let Lists { heads, links } = self.lists[EXACT].get_or_insert_default();
        heads.expect(self.len);
        for node in 0..self.len as u32 {
            heads.push(links, node, key_under(&self.nodes, MASKS[EXACT]));
        }
    }

    fn push(&mut self, envelope: Envelope, message: M) {
        if self.lists[IN_CONTEXT].is_none() && self.free.len() > self.len.max(KEPT) {
            self.lists[IN_CONTEXT] = Some(self.sorted(MASKS[IN_CONTEXT]));
        }
        let mut none = Vec::new();
        let free = if self.lists[IN_CONTEXT].is_some() {
            &mut self.free
        } else {
            &mut none
        };
        let node = place(&mut self.nodes, free, (envelope, Some(message)));
        for (lists, mask) in self.lists.iter_mut().zip(MASKS) {
            if let Some(Lists { heads, links }) = lists {
                heads.push(links, node, key_under(&self.nodes, mask));
            }
        }
        self.len += 1;
    }

    /// All messages, those of a context in the order of their arrival. Cost: O(messages that came since the queue became
    /// long).
    fn in_order(&self) -> Vec<u32> {
        let Some(Lists { heads, links }) = &self.lists[IN_CONTEXT] else {
            let nodes = (0..).zip(&self.nodes);
            return nodes
                .filter_map(|(node, (_, message))| message.as_ref().map(|_| node))
                .collect();
        };
        let mut nodes = Vec::with_capacity(self.len);
        for first in heads.iter() {
            let mut node = first;
            loop {
                nodes.push(node);
                node = links.next(node);
                if node == first {
                    break;
                }
            }
        }
        nodes
    }

    fn earliest(&mut self, pattern: Pattern) -> Option<Position> {
        let kind = pattern.kind();
        if self.lists[kind].is_none() {
            self.lists[kind] = Some(self.sorted(MASKS[kind]));
        }
        let heads = &self.lists[kind].as_ref()?.heads;
        let (slot, node) = heads.find(pattern.key(), key_under(&self.nodes, pattern.mask))?;
        Some(Position::Node { node, kind, slot })
    }

    /// The lists of another kind. Cost: as [`LongUnexpected::in_order`], once until the queue is short again.
    fn sorted(&self, mask: u64) -> Lists {
        let mut lists = Lists::default();
        for node in self.in_order() {
            lists.heads.push(&mut lists.links, node, key_under(&self.nodes, mask));
        }
        lists
    }

    /// `known`: the kind of lists in which it has been found, and the slot there.
    fn remove(&mut self, node: u32, known: Option<(usize, usize)>) -> Option<(Envelope, M)> {
        for (kind, lists) in self.lists.iter_mut().enumerate() {
            let Some(Lists { heads, links }) = lists else { continue };
            let key_of = key_under(&self.nodes, MASKS[kind]);
            match known {
                Some((found, slot)) if found == kind => heads.remove_at(slot, links, node, key_of),
                _ => heads.remove(links, node, key_of),
            }
        }
        let (envelope, message) = &mut self.nodes[node as usize];
        self.free.push(node);
        self.len -= 1;
        Some((*envelope, message.take()?))
    }
}

fn key_under<M>(nodes: &[(Envelope, M)], mask: u64) -> impl Fn(u32) -> u64 + Copy {
    move |node| nodes[node as usize].0.counting() & mask
}
