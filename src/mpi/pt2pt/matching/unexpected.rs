//! The queue of messages that arrived unmatched.

use super::links::*;
use super::*;

/// Messages that arrived before a receive wanted them, in order of arrival.
/// Cost: with `M` of 32 bytes at most 100 bytes a message, wildcards and distinct tags included.
pub struct Unexpected<M> {
    /// Messages in the order of their arrival, those that have been taken without a message. Only `first..end` are in use;
    /// the memory of what lies behind is used again.
    pub(super) nodes: Vec<(Envelope, Option<M>)>,
    first: usize,
    end: usize,
    /// How many messages wait.
    len: usize,
    pub(super) way: Way,
    /// The message taken last from a queue that is no row, and how far it was from the one before: where programs go
    /// backwards or by strides they want the one as far away again.
    last: usize,
    stride: usize,
    /// Messages of an ascending queue that were somewhere else.
    searches: usize,
    /// By kind of pattern. Exact lists live where [`Way::Lists`] stands, the others once they are asked for.
    pub(super) lists: [Option<Lists>; 4],
}

/// How a message is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the front. None of the nodes in use is without a message.
    Row,
    /// The envelopes ascend, so no two messages are alike.
    Ascending,
    /// By lists of what is alike.
    Lists,
}

/// Messages that are alike in what counts, in the order of their arrival. What is taken stays in its list until a search
/// comes by.
#[derive(Default)]
pub(super) struct Lists {
    /// The last node of each list.
    pub(super) lasts: Heads,
    /// The next node in the list of each; behind the last comes the first.
    pub(super) next: Vec<u32>,
}

/// Where a message is, until the queue changes.
#[derive(Debug)]
pub struct Place(usize);

impl<M> Default for Unexpected<M> {
    fn default() -> Self {
        Unexpected {
            nodes: Vec::with_capacity(SHORT),
            first: 0,
            end: 0,
            len: 0,
            way: Way::Row,
            last: 0,
            stride: 0,
            searches: 0,
            lists: Default::default(),
        }
    }
}

impl<M> Unexpected<M> {
    /// Stores an arrived message. Cost: O(1), amortized.
    #[inline]
    pub fn push(&mut self, envelope: Envelope, message: M) {
        if self.end == self.nodes.capacity() {
            self.make_room();
        }
        match self.nodes.get_mut(self.end) {
            Some(node) => *node = (envelope, Some(message)),
            None => self.nodes.push((envelope, Some(message))),
        }
        self.end += 1;
        self.len += 1;
        if self.way != Way::Row {
            self.enlist();
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
    #[inline(never)]
    pub fn find(&mut self, pattern: Pattern) -> Option<Place> {
        if self.way != Way::Row {
            return self.search(pattern);
        }
        let row = &self.nodes[self.first..self.end];
        let wanted = |(envelope, _): &(Envelope, Option<M>)| {
            step();
            pattern.matches(*envelope)
        };
        // Messages are mostly received in the order in which they come.
        if wanted(row.first()?) {
            return Some(Place(self.first));
        }
        if let Some(at) = row.iter().take(SHORT).skip(1).position(wanted) {
            return Some(Place(self.first + 1 + at));
        }
        if row.len() <= SHORT {
            return None;
        }
        self.lengthen();
        self.search(pattern)
    }

    /// Whether messages are kept in a row: a long queue is not.
    #[cfg(test)]
    pub(super) fn is_row(&self) -> bool {
        self.way == Way::Row
    }

    /// The message at `place`.
    #[inline]
    pub fn at(&self, place: &Place) -> Option<(Envelope, &M)> {
        let (envelope, message) = self.nodes.get(place.0)?;
        Some((*envelope, message.as_ref()?))
    }

    /// Takes out the message at `place`, where it has been found since the queue changed last. Cost: O(1), amortized.
    #[inline]
    pub fn remove(&mut self, place: Place) -> Option<(Envelope, M)> {
        let (envelope, message) = self.nodes.get_mut(place.0)?;
        let taken = (*envelope, message.take()?);
        self.removed(place.0);
        Some(taken)
    }

    /// Drops the message at `place` where it lies, as [`Unexpected::remove`] takes it out.
    #[inline]
    pub fn discard(&mut self, place: Place) {
        if let Some((_, message @ Some(_))) = self.nodes.get_mut(place.0) {
            *message = None;
            self.removed(place.0);
        }
    }

    #[inline(always)]
    fn removed(&mut self, at: usize) {
        self.len -= 1;
        if self.way != Way::Row {
            (self.stride, self.last) = (at.wrapping_sub(self.last), at);
            if self.len <= FEW {
                self.shorten();
            }
        } else {
            if at > self.first {
                self.nodes[self.first..=at].rotate_right(1);
            }
            self.first += 1;
        }
        if self.len == 0 {
            (self.first, self.end) = (0, 0);
            if self.nodes.capacity() > KEPT {
                self.give_back();
            }
        }
    }

    /// How many messages wait.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no message waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Every waiting message, in no useful order: for reports.
    pub fn iter(&self) -> impl Iterator<Item = (Envelope, &M)> {
        let used = &self.nodes[self.first..self.end];
        used.iter()
            .filter_map(|(envelope, message)| Some((*envelope, message.as_ref()?)))
    }

    #[cold]
    fn give_back(&mut self) {
        self.nodes = Vec::with_capacity(SHORT);
    }

    /// Messages wait that nobody looks for from the front.
    #[cold]
    fn lengthen(&mut self) {
        let keys = self.nodes[self.first..self.end]
            .iter()
            .map(|(envelope, _)| envelope.counting());
        (self.last, self.stride, self.searches) = (self.end, usize::MAX, 0);
        match keys.is_sorted_by(|a, b| a < b) {
            true => self.way = Way::Ascending,
            false => self.make_lists(),
        }
    }

    /// So few messages are left that they are a row again.
    fn shorten(&mut self) {
        (self.way, self.lists) = (Way::Row, Default::default());
        self.close_up();
        if self.nodes.capacity() > KEPT {
            self.nodes.truncate(self.end);
            self.nodes.shrink_to(SHORT);
        }
    }

    /// Moves the waiting messages to the front, as they stand. Cost: O(nodes up to the last of them).
    fn close_up(&mut self) {
        let mut to = 0;
        for from in self.first..self.end {
            if to == self.len {
                break;
            }
            if self.nodes[from].1.is_some() {
                self.nodes.swap(to, from);
                to += 1;
            }
        }
        (self.first, self.end) = (0, to);
    }

    /// All nodes are in use: those that have been taken are used again, if they are half of all.
    #[cold]
    fn make_room(&mut self) {
        if self.end - self.len < self.end.div_ceil(2) {
            self.nodes.reserve(1);
            return;
        }
        self.close_up();
        if self.way != Way::Row {
            self.last = self.end;
        }
        if self.way == Way::Lists {
            self.make_lists();
        }
    }

    /// Finds the message that came last a place in the lists.
    #[inline(never)]
    fn enlist(&mut self) {
        let node = self.end - 1;
        if self.way == Way::Lists {
            for (lists, mask) in self.lists.iter_mut().zip(MASKS) {
                if let Some(lists) = lists {
                    lists.append(node, key_under(&self.nodes, mask));
                }
            }
            return;
        }
        let key = key_under(&self.nodes, !0);
        if key(node as u32 - 1) >= key(node as u32) {
            self.make_lists();
        }
    }

    /// From now on messages are found by lists.
    #[cold]
    fn make_lists(&mut self) {
        self.way = Way::Lists;
        self.lists = Default::default();
        self.lists[EXACT] = Some(self.sorted(MASKS[EXACT]));
    }

    /// All messages by what counts under `mask`. Cost: O(nodes), once for each kind of pattern until the queue is short
    /// again, or half of it has been taken.
    fn sorted(&self, mask: u64) -> Lists {
        let mut lists = Lists::default();
        lists.lasts.expect(if mask == MASKS[EXACT] { self.len } else { 0 });
        lists.next.reserve_exact(self.nodes.capacity());
        lists.next.resize(self.first, NONE);
        for node in self.first..self.end {
            match self.nodes[node].1 {
                Some(_) => lists.append(node, key_under(&self.nodes, mask)),
                None => lists.next.push(NONE),
            }
        }
        lists
    }

    /// Where the message is in a queue that is no row.
    fn search(&mut self, pattern: Pattern) -> Option<Place> {
        let (kind, key) = (pattern.kind(), pattern.key());
        let next = self.last.wrapping_add(self.stride);
        if kind == EXACT
            && (self.first..self.end).contains(&next)
            && let Some((envelope, Some(_))) = self.nodes.get(next)
        {
            step();
            if envelope.counting() == key && self.is_foremost(next) {
                return Some(Place(next));
            }
        }
        if self.way == Way::Ascending {
            self.searches += 1;
            if kind == EXACT && self.searches <= SHORT {
                return self.halve(key);
            }
            self.make_lists();
        }
        self.earliest(kind, key)
    }

    /// Whether no message before this one is like it, as far as that is known at once.
    #[inline]
    fn is_foremost(&self, node: usize) -> bool {
        let Some(Lists { next, .. }) = &self.lists[EXACT] else {
            return true;
        };
        next.get(node) == Some(&(node as u32))
    }

    /// The message in a queue that ascends.
    fn halve(&self, key: u64) -> Option<Place> {
        let used = &self.nodes[self.first..self.end];
        let found = used.binary_search_by(|(envelope, _)| {
            step();
            envelope.counting().cmp(&key)
        });
        let at = self.first + found.ok()?;
        self.nodes[at].1.as_ref().map(|_| Place(at))
    }

    /// The first of the list.
    fn earliest(&mut self, kind: usize, key: u64) -> Option<Place> {
        if self.lists[kind].is_none() {
            self.lists[kind] = Some(self.sorted(MASKS[kind]));
        }
        let Lists { lasts, next } = self.lists[kind].as_mut()?;
        let last = lasts.first(key, key_under(&self.nodes, MASKS[kind]))? as usize;
        let mut first = next[last] as usize;
        while self.nodes[first].1.is_none() {
            step();
            if first == last {
                return None;
            }
            first = next[first] as usize;
            next[last] = first as u32;
        }
        Some(Place(first))
    }
}

impl Lists {
    /// Puts `node`, which is behind all others, at the end of the list of its key.
    fn append(&mut self, node: usize, key_of: impl Fn(u32) -> u64 + Copy) {
        let node = node as u32;
        let first = match self.lasts.replace(node, key_of) {
            NONE => node,
            last => std::mem::replace(&mut self.next[last as usize], node),
        };
        self.next.push(first);
    }
}

fn key_under<M>(nodes: &[(Envelope, M)], mask: u64) -> impl Fn(u32) -> u64 + Copy {
    move |node| nodes[node as usize].0.counting() & mask
}
