//! The queue of posted receives.

use super::links::*;
use super::*;

/// Names a posted receive, to cancel it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token {
    order: u64,
    /// Its node, when it was posted to a long queue.
    node: u32,
}

/// Posted receives in the order they were posted. `T` names the receive for its owner.
pub struct Posted<T> {
    short: Vec<Receive<T>>,
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
    /// The nodes of what was in the short array: their tokens do not know them.
    moved: Vec<u32>,
    heads: [Heads; 4],
    /// Joins the receives of equal pattern.
    equal: Links,
    /// Joins all receives as they were posted.
    all: Links,
    first: u32,
    len: usize,
}

impl<T: Copy> Default for Posted<T> {
    fn default() -> Self {
        Posted {
            short: Vec::with_capacity(SHORT),
            is_long: false,
            last_order: 0,
            long: LongPosted {
                nodes: Vec::new(),
                free: Vec::new(),
                moved: Vec::new(),
                heads: Default::default(),
                equal: Links::default(),
                all: Links::default(),
                first: NONE,
                len: 0,
            },
        }
    }
}

impl<T: Copy> Posted<T> {
    /// Appends a receive. Cost: O(1), amortized.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, item: T) -> Token {
        self.last_order += 1;
        let order = self.last_order;
        let receive = Receive { pattern, order, item };
        if !self.is_long && self.short.len() < SHORT {
            self.short.push(receive);
            return Token { order, node: NONE };
        }
        self.post_long(receive)
    }

    /// Takes out the earliest posted receive that wants `envelope`. Cost: O(1), amortized.
    #[inline]
    pub fn take(&mut self, envelope: Envelope) -> Option<T> {
        if self.is_long {
            return self.take_long(envelope);
        }
        let at = self
            .short
            .iter()
            .position(|receive| receive.pattern.matches(envelope))?;
        Some(remove(&mut self.short, at).item)
    }

    /// Takes the receive out; false if it has been taken already. Cost: O(1), amortized.
    pub fn cancel(&mut self, token: Token) -> bool {
        if !self.is_long {
            let at = self.short.iter().position(|receive| receive.order == token.order);
            return at.is_some_and(|at| {
                self.short.remove(at);
                true
            });
        }
        let is_it = |node: u32| {
            let receive = self.long.nodes.get(node as usize);
            receive.is_some_and(|receive| receive.order == token.order)
        };
        let mut places = std::iter::once(&token.node).chain(&self.long.moved);
        let Some(&node) = places.find(|node| is_it(**node)) else {
            return false;
        };
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

    #[cold]
    fn post_long(&mut self, receive: Receive<T>) -> Token {
        if !self.is_long {
            self.is_long = true;
            self.long.moved.clear();
            for receive in self.short.drain(..) {
                let node = self.long.push(receive);
                self.long.moved.push(node);
            }
        }
        let node = self.long.push(receive);
        Token {
            order: receive.order,
            node,
        }
    }

    #[inline(never)]
    fn take_long(&mut self, envelope: Envelope) -> Option<T> {
        let node = self.long.earliest(envelope)?;
        let item = self.long.remove(node).item;
        self.shorten();
        Some(item)
    }

    fn shorten(&mut self) {
        if self.long.len > FEW {
            return;
        }
        while self.long.first != NONE {
            let receive = self.long.remove(self.long.first);
            self.short.push(receive);
        }
        self.is_long = false;
        if self.long.nodes.len() > KEPT {
            self.long = Posted::default().long;
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
