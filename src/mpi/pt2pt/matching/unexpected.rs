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
    /// By kind of pattern. Exact and in-context lists always live, the others once they are asked for.
    pub(super) lists: [Option<Lists>; 4],
    pub(super) len: usize,
}

#[derive(Default)]
pub(super) struct Lists {
    pub(super) heads: Heads,
    pub(super) links: Links,
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
        match self.scan(pattern) {
            Scan::Found(at) => {
                let (envelope, message) = self.short.remove(at)?;
                if self.short.is_empty() && self.short.capacity() > KEPT {
                    self.short = VecDeque::with_capacity(SHORT);
                }
                Some((envelope, message?))
            }
            Scan::None => None,
            Scan::Long => self.take_long(pattern),
        }
    }

    /// The message that [`Unexpected::take`] would take. Cost: O(1), amortized.
    #[inline]
    pub fn peek(&mut self, pattern: Pattern) -> Option<(Envelope, &M)> {
        let (envelope, message) = match self.scan(pattern) {
            Scan::Found(at) => self.short.get(at)?,
            Scan::None => return None,
            Scan::Long => {
                let node = self.long.earliest(pattern)?;
                &self.long.nodes[node as usize]
            }
        };
        Some((*envelope, message.as_ref()?))
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

    #[inline(never)]
    fn take_long(&mut self, pattern: Pattern) -> Option<(Envelope, M)> {
        let node = self.long.earliest(pattern)?;
        let taken = self.long.remove(node);
        if self.long.len <= FEW {
            self.shorten();
        }
        taken
    }

    fn shorten(&mut self) {
        self.is_long = false;
        while let Some(node) = self.long.any() {
            let message = self.long.remove(node);
            self.short
                .extend(message.map(|(envelope, message)| (envelope, Some(message))));
        }
        self.long.lists[1] = None;
        self.long.lists[2] = None;
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
        for kind in [EXACT, IN_CONTEXT] {
            let Lists { heads, links } = self.lists[kind].get_or_insert_default();
            for node in 0..self.len as u32 {
                heads.push(links, node, key_under(&self.nodes, MASKS[kind]));
            }
        }
    }

    fn push(&mut self, envelope: Envelope, message: M) {
        let node = place(&mut self.nodes, &mut self.free, (envelope, Some(message)));
        for (lists, mask) in self.lists.iter_mut().zip(MASKS) {
            if let Some(Lists { heads, links }) = lists {
                heads.push(links, node, key_under(&self.nodes, mask));
            }
        }
        self.len += 1;
    }

    /// A message that is the earliest in its context.
    fn any(&self) -> Option<u32> {
        self.lists[IN_CONTEXT].as_ref()?.heads.any()
    }

    fn earliest(&mut self, pattern: Pattern) -> Option<u32> {
        let kind = pattern.kind();
        if self.lists[kind].is_none() {
            self.lists[kind] = Some(self.sorted(MASKS[kind])?);
        }
        let lists = self.lists[kind].as_ref()?;
        lists.heads.first(pattern.key(), key_under(&self.nodes, pattern.mask))
    }

    /// The lists of another kind, made from those of the contexts. Cost: O(messages), once until
    /// the queue is short again.
    fn sorted(&self, mask: u64) -> Option<Lists> {
        let contexts = self.lists[IN_CONTEXT].as_ref()?;
        let mut lists = Lists::default();
        for first in contexts.heads.iter() {
            let mut node = first;
            loop {
                lists.heads.push(&mut lists.links, node, key_under(&self.nodes, mask));
                node = contexts.links.next(node);
                if node == first {
                    break;
                }
            }
        }
        Some(lists)
    }

    fn remove(&mut self, node: u32) -> Option<(Envelope, M)> {
        for (lists, mask) in self.lists.iter_mut().zip(MASKS) {
            if let Some(Lists { heads, links }) = lists {
                heads.remove(links, node, key_under(&self.nodes, mask));
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
