//! Matching: which posted receive takes an arriving message, and which stored message a receive
//! finds (MPI-4.1 §3.5 "Order").
//!
//! Both queues start as a short array scanned from its oldest entry: no hashing, nothing
//! allocated. Beyond [`SHORT`] entries they move into lists found by hash, one family of lists for
//! each of the four kinds of pattern (see [`Pattern::kind`]), so a match costs O(1) at any length;
//! they move back when [`FEW`] entries are left.

use super::super::status::{ANY_SOURCE, ANY_TAG};

/// Most entries of the scanned array.
const SHORT: usize = 16;
/// Entries at which a long queue becomes short again.
const FEW: usize = 4;
/// Nodes whose memory a queue keeps when it becomes short again.
const KEPT: usize = 4096;
/// No node.
const NONE: u32 = u32::MAX;

const TAG_BITS: u64 = 0x7fff_ffff;
const SOURCE_BITS: u64 = 0xffff << 48;
/// Bits of a negative tag that say which collective call the message belongs to and do not count.
pub const SIGNATURE_BITS: u64 = 0x3ff << 21;
/// What counts for each kind of pattern. A negative tag is nobody's "any tag": its sign stays.
const MASKS: [u64; 4] = [!0, !SOURCE_BITS, !TAG_BITS, !(SOURCE_BITS | TAG_BITS)];
const EXACT: usize = 0;
const IN_CONTEXT: usize = 3;

/// The bits of an envelope with tag `tag` that do not count.
#[inline]
const fn unmatched(tag: i32) -> u64 {
    SIGNATURE_BITS & (tag >> 31) as i64 as u64
}

/// What a message is matched by, in one word.
///
/// ```text
///  63        48 47        32 31                    0
/// +------------+------------+-----------------------+
/// |   source   |  context   |          tag          |
/// +------------+------------+-----------------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Envelope(pub u64);

impl Envelope {
    /// The envelope of a message from rank `source` of the communicator that owns `context`.
    #[inline]
    pub fn new(context: u16, source: u32, tag: i32) -> Envelope {
        debug_assert!(source <= u16::MAX.into());
        Envelope(u64::from(source) << 48 | u64::from(context) << 32 | u64::from(tag as u32))
    }

    /// Context number.
    #[inline]
    pub fn context(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Sender's rank in the communicator.
    #[inline]
    pub fn source(self) -> u32 {
        (self.0 >> 48) as u32
    }

    /// The bits that messages are told apart by.
    #[inline]
    fn counting(self) -> u64 {
        self.0 & !unmatched(self.tag())
    }

    /// Tag.
    #[inline]
    pub fn tag(self) -> i32 {
        self.0 as u32 as i32
    }
}

impl std::fmt::Debug for Envelope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (context, source, tag) = (self.context(), self.source(), self.tag());
        write!(f, "context {context} source {source} tag {tag}")
    }
}

/// Which envelopes a receive or probe takes: those that equal `value` under `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The wanted bits; the others say nothing.
    pub value: u64,
    /// The bits that count.
    pub mask: u64,
}

impl Pattern {
    /// Messages on `context` from `source` (or `ANY_SOURCE`) with `tag` (or `ANY_TAG`: every tag >= 0).
    #[inline]
    pub fn new(context: u16, source: i32, tag: i32) -> Pattern {
        let kind = usize::from(source == ANY_SOURCE) | usize::from(tag == ANY_TAG) << 1;
        let mask = MASKS[kind] & !unmatched(tag);
        let tag = if tag == ANY_TAG { 0 } else { tag };
        let value = u64::from(source as u16) << 48 | u64::from(context) << 32 | u64::from(tag as u32);
        Pattern { value, mask }
    }

    /// The pattern that only `envelope` matches.
    #[inline]
    pub fn exact(envelope: Envelope) -> Pattern {
        Pattern {
            value: envelope.0,
            mask: !unmatched(envelope.tag()),
        }
    }

    /// The wanted bits alone.
    fn key(self) -> u64 {
        self.value & self.mask
    }

    /// The context it wants.
    pub fn context(self) -> u16 {
        Envelope(self.value).context()
    }

    /// The source it wants, unless it takes any.
    pub fn source(self) -> Option<u32> {
        (self.mask & SOURCE_BITS != 0).then(|| Envelope(self.value).source())
    }

    /// The tag it wants, signature included, unless it takes any.
    pub fn tag(self) -> Option<i32> {
        (self.mask & TAG_BITS != 0).then(|| Envelope(self.value).tag())
    }

    /// Whether a message with `envelope` is wanted.
    #[inline]
    pub fn matches(self, envelope: Envelope) -> bool {
        (envelope.0 ^ self.value) & self.mask == 0
    }

    /// Which wildcards it has: 1 for any source, plus 2 for any tag.
    fn kind(self) -> usize {
        usize::from(self.mask & SOURCE_BITS == 0) | usize::from(self.mask & TAG_BITS == 0) << 1
    }
}

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
    is_long: bool,
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

/// Messages that arrived before a receive wanted them, in order of arrival.
/// Cost: with `M` of 32 bytes at most 100 bytes a message, wildcards and distinct tags included.
pub struct Unexpected<M> {
    short: Vec<(Envelope, M)>,
    is_long: bool,
    long: LongUnexpected<M>,
}

struct LongUnexpected<M> {
    nodes: Vec<(Envelope, Option<M>)>,
    free: Vec<u32>,
    /// By kind of pattern. Exact and in-context lists always live, the others once they are asked for.
    lists: [Option<Lists>; 4],
    len: usize,
}

#[derive(Default)]
struct Lists {
    heads: Heads,
    links: Links,
}

impl<M> Default for Unexpected<M> {
    fn default() -> Self {
        Unexpected {
            short: Vec::with_capacity(SHORT),
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
        if !self.is_long && self.short.len() < SHORT {
            self.short.push((envelope, message));
        } else {
            self.push_long(envelope, message);
        }
    }

    /// Takes out the earliest arrived message that `pattern` wants. Cost: O(1), amortized.
    #[inline]
    pub fn take(&mut self, pattern: Pattern) -> Option<(Envelope, M)> {
        if self.is_long {
            return self.take_long(pattern);
        }
        let at = self.short.iter().position(|(envelope, _)| pattern.matches(*envelope))?;
        Some(remove(&mut self.short, at))
    }

    /// The message that [`Unexpected::take`] would take. Cost: O(1), amortized.
    #[inline]
    pub fn peek(&mut self, pattern: Pattern) -> Option<(Envelope, &M)> {
        if self.is_long {
            let node = self.long.earliest(pattern)?;
            let (envelope, message) = &self.long.nodes[node as usize];
            return Some((*envelope, message.as_ref()?));
        }
        let (envelope, message) = self.short.iter().find(|(envelope, _)| pattern.matches(*envelope))?;
        Some((*envelope, message))
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
        let short = self.short.iter().map(|(envelope, message)| (*envelope, message));
        let nodes = self.long.nodes.iter();
        short.chain(nodes.filter_map(|(envelope, message)| Some((*envelope, message.as_ref()?))))
    }

    #[cold]
    fn push_long(&mut self, envelope: Envelope, message: M) {
        if !self.is_long {
            self.is_long = true;
            self.long.lists[EXACT].get_or_insert_default();
            self.long.lists[IN_CONTEXT].get_or_insert_default();
            for (envelope, message) in self.short.drain(..) {
                self.long.push(envelope, message);
            }
        }
        self.long.push(envelope, message);
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
            self.short.extend(self.long.remove(node));
        }
        self.long.lists[1] = None;
        self.long.lists[2] = None;
        if self.long.nodes.len() > KEPT {
            self.long = LongUnexpected::default();
        }
    }
}

impl<M> LongUnexpected<M> {
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

/// Stores `value` in a free node or a new one.
fn place<V>(nodes: &mut Vec<V>, free: &mut Vec<u32>, value: V) -> u32 {
    match free.pop() {
        Some(node) => {
            nodes[node as usize] = value;
            node
        }
        None => {
            nodes.push(value);
            nodes.len() as u32 - 1
        }
    }
}

/// `Vec::remove` that moves nothing for the last element.
#[inline]
fn remove<V>(entries: &mut Vec<V>, at: usize) -> V {
    if at + 1 == entries.len()
        && let Some(last) = entries.pop()
    {
        return last;
    }
    entries.remove(at)
}

/// Neighbours of each node in circular lists.
#[derive(Default)]
struct Links(Vec<[u32; 2]>);

impl Links {
    fn next(&self, node: u32) -> u32 {
        self.0[node as usize][1]
    }

    /// Makes `node` a list of its own.
    fn alone(&mut self, node: u32) {
        if self.0.len() <= node as usize {
            self.0.resize(node as usize + 1, [NONE; 2]);
        }
        self.0[node as usize] = [node; 2];
    }

    /// Puts `node` at the end of the list that begins with `head`.
    fn append(&mut self, head: u32, node: u32) {
        self.alone(node);
        let [last, _] = self.0[head as usize];
        self.0[node as usize] = [last, head];
        self.0[head as usize][0] = node;
        self.0[last as usize][1] = node;
    }

    /// Takes `node` out and tells which came after it, `NONE` if it was alone.
    fn unlink(&mut self, node: u32) -> u32 {
        let [before, after] = self.0[node as usize];
        self.0[before as usize][1] = after;
        self.0[after as usize][0] = before;
        if after == node { NONE } else { after }
    }
}

/// Finds the first node of each list by its key: open addressing, 4 bytes a slot, the keys stay in
/// the nodes (`key_of`). Removal shifts back, so nothing is left behind by keys that are gone.
#[derive(Default)]
struct Heads {
    slots: Vec<u32>,
    used: usize,
}

impl Heads {
    /// Appends `node` to the list of its key.
    fn push(&mut self, links: &mut Links, node: u32, key_of: impl Fn(u32) -> u64 + Copy) {
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            self.grow(key_of);
        }
        let slot = self.slot(key_of(node), key_of);
        match self.slots[slot] {
            NONE => {
                self.slots[slot] = node;
                self.used += 1;
                links.alone(node);
            }
            head => links.append(head, node),
        }
    }

    fn first(&self, key: u64, key_of: impl Fn(u32) -> u64 + Copy) -> Option<u32> {
        if self.used == 0 {
            return None;
        }
        let head = self.slots[self.slot(key, key_of)];
        (head != NONE).then_some(head)
    }

    fn any(&self) -> Option<u32> {
        if self.used == 0 { None } else { self.iter().next() }
    }

    fn iter(&self) -> impl Iterator<Item = u32> {
        self.slots.iter().copied().filter(|&head| head != NONE)
    }

    fn remove(&mut self, links: &mut Links, node: u32, key_of: impl Fn(u32) -> u64 + Copy) {
        let slot = self.slot(key_of(node), key_of);
        let after = links.unlink(node);
        if self.slots[slot] == node {
            match after {
                NONE => self.vacate(slot, key_of),
                next => self.slots[slot] = next,
            }
        }
    }

    /// The slot of `key`, or the empty one where it belongs.
    fn slot(&self, key: u64, key_of: impl Fn(u32) -> u64) -> usize {
        let mut slot = self.home(key);
        loop {
            #[cfg(test)]
            tests::STEPS.with(|steps| steps.set(steps.get() + 1));
            let head = self.slots[slot];
            if head == NONE || key_of(head) == key {
                return slot;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    fn home(&self, key: u64) -> usize {
        let product = u128::from(key ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        ((product >> 64) as u64 ^ product as u64) as usize & (self.slots.len() - 1)
    }

    fn vacate(&mut self, mut hole: usize, key_of: impl Fn(u32) -> u64) {
        let wrap = self.slots.len() - 1;
        let mut slot = hole;
        loop {
            slot = (slot + 1) & wrap;
            let head = self.slots[slot];
            if head == NONE {
                break;
            }
            let home = self.home(key_of(head));
            if slot.wrapping_sub(home) & wrap >= slot.wrapping_sub(hole) & wrap {
                self.slots[hole] = head;
                hole = slot;
            }
        }
        self.slots[hole] = NONE;
        self.used -= 1;
    }

    fn grow(&mut self, key_of: impl Fn(u32) -> u64 + Copy) {
        let size = (self.slots.len() * 2).max(64);
        let old = std::mem::replace(&mut self.slots, vec![NONE; size]);
        for head in old.into_iter().filter(|&head| head != NONE) {
            let slot = self.slot(key_of(head), key_of);
            self.slots[slot] = head;
        }
    }
}

#[cfg(test)]
#[path = "matching_tests.rs"]
mod tests;
