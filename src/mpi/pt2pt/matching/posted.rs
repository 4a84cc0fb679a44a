//! The queue of posted receives.

use super::links::*;
use super::*;
use std::collections::VecDeque;

/// Names a posted receive, to cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    order: u64,
    /// Its node, when it was posted to a long queue.
    node: u32,
}

/// Posted receives in the order they were posted. `T` names the receive for its owner.
pub struct Posted<T> {
    short: VecDeque<Receive<T>>,
    pub(super) is_long: bool,
    last_order: u64,
    long: LongPosted<T>,
}

#[derive(Clone, Copy)]
struct Receive<T> {
    pattern: Pattern,
    /// Position in the order of posting, from 1; 0 in a free node.
    order: u64,
    item: T,
}

struct LongPosted<T> {
    nodes: Vec<Receive<T>>,
    free: Vec<u32>,
    /// Orders and nodes of what was in the row: their tokens do not know the nodes.
    moved: Vec<(u64, u32)>,
    heads: [Heads; 4],
    /// Joins the receives of equal pattern.
    equal: Links,
    /// Joins all receives as they were posted.
    all: Links,
    first: u32,
    len: usize,
}

impl<T> Default for Posted<T> {
    fn default() -> Self {
        Posted {
            short: VecDeque::with_capacity(SHORT),
            is_long: false,
            last_order: 0,
            long: LongPosted::default(),
        }
    }
}

impl<T> Default for LongPosted<T> {
    fn default() -> Self {
        LongPosted {
            nodes: Vec::new(),
            free: Vec::new(),
            moved: Vec::new(),
            heads: Default::default(),
            equal: Links::default(),
            all: Links::default(),
            first: NONE,
            len: 0,
        }
    }
}

impl<T: Copy> Posted<T> {
    /// Appends a receive. Cost: O(1), amortized.
    #[inline(always)]
    pub fn post(&mut self, pattern: Pattern, item: T) -> Token {
        self.last_order += 1;
        let order = self.last_order;
        if self.is_long {
            return self.post_long(pattern, order, item);
        }
        self.short.push_back(Receive { pattern, order, item });
        Token { order, node: NONE }
    }

    #[inline(never)]
    fn post_long(&mut self, pattern: Pattern, order: u64, item: T) -> Token {
        let node = self.long.push(Receive { pattern, order, item });
        Token { order, node }
    }

    /// Takes out the earliest posted receive that wants `envelope`. Cost: O(1), amortized.
    #[inline]
    pub fn take(&mut self, envelope: Envelope) -> Option<T> {
        if let Some(first) = self.short.front()
            && first.pattern.matches(envelope)
        {
            let item = first.item;
            self.short.pop_front();
            return Some(item);
        }
        self.take_other(envelope)
    }

    /// Whether a posted receive wants `envelope`. Cost: O(1), amortized.
    #[inline]
    pub fn wants(&mut self, envelope: Envelope) -> bool {
        if self.is_empty() {
            return false;
        }
        match self.scan(envelope) {
            Scan::Found(_) => true,
            Scan::None => false,
            Scan::Long => self.long.earliest(envelope).is_some(),
        }
    }

    /// As [`Posted::wants`], leaving out those receives that `passed` says; in a long queue none is left out.
    #[cold]
    pub fn wants_but(&mut self, envelope: Envelope, passed: impl Fn(T) -> bool) -> bool {
        let wanted = |receive: &Receive<T>| receive.pattern.matches(envelope) && !passed(receive.item);
        self.wants(envelope) && (self.is_long || self.short.iter().any(wanted))
    }

    /// What the receive wants; `None` in a long queue, and where it stands no more.
    #[inline]
    pub fn wanted(&self, token: Token) -> Option<Pattern> {
        let first = self.short.front().filter(|_| !self.is_long)?;
        if first.order == token.order {
            return Some(first.pattern);
        }
        let found = self.short.binary_search_by_key(&token.order, |receive| receive.order);
        found.ok().map(|at| self.short[at].pattern)
    }

    /// Takes the receive out; false if it has been taken already. Cost: O(1), amortized.
    pub fn cancel(&mut self, token: Token) -> bool {
        if !self.is_long {
            let found = self.short.binary_search_by_key(&token.order, |receive| receive.order);
            let Ok(at) = found else { return false };
            if at.min(self.short.len() - at) <= SHORT {
                self.short.remove(at);
                return true;
            }
            self.lengthen();
        }
        let moved = &self.long.moved;
        let at = moved.binary_search_by_key(&token.order, |&(order, _)| order);
        let node = at.map_or(token.node, |at| moved[at].1);
        let receive = self.long.nodes.get(node as usize);
        if receive.is_none_or(|receive| receive.order != token.order) {
            return false;
        }
        self.long.remove(node);
        self.shorten();
        true
    }

    /// Every posted receive, in no useful order: for reports.
    pub fn iter(&self) -> impl Iterator<Item = (Pattern, T)> {
        let nodes = self.long.nodes.iter().filter(|receive| receive.order != 0);
        let short = self.short.iter();
        short.chain(nodes).map(|receive| (receive.pattern, receive.item))
    }

    /// How many receives are posted.
    #[inline]
    pub fn len(&self) -> usize {
        if self.is_long { self.long.len } else { self.short.len() }
    }

    /// Whether no receive is posted.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Looks through the first receives of the row; one that has more becomes long.
    fn scan(&mut self, envelope: Envelope) -> Scan {
        if self.is_long {
            return Scan::Long;
        }
        let wanted = |receive: &Receive<T>| {
            step();
            receive.pattern.matches(envelope)
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

    #[inline(never)]
    fn take_other(&mut self, envelope: Envelope) -> Option<T> {
        match self.scan(envelope) {
            Scan::Found(at) => self.short.remove(at).map(|receive| receive.item),
            Scan::None => None,
            Scan::Long => {
                let node = self.long.earliest(envelope)?;
                let item = self.long.remove(node).item;
                self.shorten();
                Some(item)
            }
        }
    }

    #[cold]
    fn lengthen(&mut self) {
        self.is_long = true;
        self.long.moved.clear();
        for receive in self.short.drain(..) {
            let node = self.long.push(receive);
            self.long.moved.push((receive.order, node));
        }
        if self.short.capacity() > KEPT {
            self.short = VecDeque::with_capacity(SHORT);
        }
    }

    fn shorten(&mut self) {
        if self.long.len > FEW {
            return;
        }
        while self.long.first != NONE {
            let receive = self.long.remove(self.long.first);
            self.short.push_back(receive);
        }
        self.is_long = false;
        if self.long.nodes.len() > KEPT {
            self.long = LongPosted::default();
        }
    }
}

impl<T: Copy> LongPosted<T> {
    fn push(&mut self, receive: Receive<T>) -> u32 {
        let node = place(&mut self.nodes, &mut self.free, receive);
        let nodes = &self.nodes;
        let key_of = |node: u32| nodes[node as usize].pattern.key();
        self.heads[receive.pattern.kind()].push(&mut self.equal, node, key_of);
        if self.first == NONE {
            self.first = node;
            self.all.alone(node);
        } else {
            self.all.append(self.first, node);
        }
        self.len += 1;
        node
    }

    fn earliest(&self, envelope: Envelope) -> Option<u32> {
        let key_of = |node: u32| self.nodes[node as usize].pattern.key();
        let candidates = self.heads.iter().zip(MASKS);
        candidates
            .filter_map(|(heads, mask)| heads.first(envelope.counting() & mask, key_of))
            .min_by_key(|&node| self.nodes[node as usize].order)
    }

    fn remove(&mut self, node: u32) -> Receive<T> {
        let receive = self.nodes[node as usize];
        let nodes = &self.nodes;
        let key_of = |node: u32| nodes[node as usize].pattern.key();
        self.heads[receive.pattern.kind()].remove(&mut self.equal, node, key_of);
        let next = self.all.unlink(node);
        if self.first == node {
            self.first = next;
        }
        self.nodes[node as usize].order = 0;
        self.free.push(node);
        self.len -= 1;
        receive
    }
}
