//! Doubly linked lists over node numbers, and the table that finds their heads by key.

use super::*;

/// Slots of the smallest table.
const FEWEST: usize = 64;

/// Stores `value` in a free node or a new one.
pub(super) fn place<V>(nodes: &mut Vec<V>, free: &mut Vec<u32>, value: V) -> u32 {
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

/// Neighbours of each node in circular lists.
#[derive(Default)]
pub(super) struct Links(pub(super) Vec<[u32; 2]>);

impl Links {
    /// Makes `node` a list of its own.
    pub(super) fn alone(&mut self, node: u32) {
        if self.0.len() <= node as usize {
            self.0.resize(node as usize + 1, [NONE; 2]);
        }
        self.0[node as usize] = [node; 2];
    }

    /// Puts `node` at the end of the list that begins with `head`.
    pub(super) fn append(&mut self, head: u32, node: u32) {
        self.alone(node);
        let [last, _] = self.0[head as usize];
        self.0[node as usize] = [last, head];
        self.0[head as usize][0] = node;
        self.0[last as usize][1] = node;
    }

    /// Takes `node` out and tells which came after it, `NONE` if it was alone.
    pub(super) fn unlink(&mut self, node: u32) -> u32 {
        let [before, after] = self.0[node as usize];
        self.0[before as usize][1] = after;
        self.0[after as usize][0] = before;
        if after == node { NONE } else { after }
    }
}

/// Finds the first node of each list (or whichever stands for it) by its key: open addressing, 4 bytes a slot, the keys stay in
/// the nodes (`key_of`). Removal shifts back, so nothing is left behind by keys that are gone.
#[derive(Default)]
pub(super) struct Heads {
    pub(super) slots: Vec<u32>,
    pub(super) used: usize,
}

impl Heads {
    /// Puts `node` into the slot of its key; what stood there.
    #[inline]
    pub(super) fn replace(&mut self, node: u32, key_of: impl Fn(u32) -> u64 + Copy) -> u32 {
        if (self.used + 1) * 4 > self.slots.len() * 3 {
            self.grow(key_of);
        }
        let slot = self.slot(key_of(node), key_of);
        let before = std::mem::replace(&mut self.slots[slot], node);
        self.used += usize::from(before == NONE);
        before
    }

    /// Appends `node` to the list of its key.
    pub(super) fn push(&mut self, links: &mut Links, node: u32, key_of: impl Fn(u32) -> u64 + Copy) {
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

    pub(super) fn first(&self, key: u64, key_of: impl Fn(u32) -> u64 + Copy) -> Option<u32> {
        if self.used == 0 {
            return None;
        }
        let head = self.slots[self.slot(key, key_of)];
        (head != NONE).then_some(head)
    }

    pub(super) fn remove(&mut self, links: &mut Links, node: u32, key_of: impl Fn(u32) -> u64 + Copy) {
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
    pub(super) fn slot(&self, key: u64, key_of: impl Fn(u32) -> u64) -> usize {
        let mut slot = self.home(key);
        loop {
            step();
            let head = self.slots[slot];
            if head == NONE || key_of(head) == key {
                return slot;
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
    }

    pub(super) fn home(&self, key: u64) -> usize {
        let product = u128::from(key ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        ((product >> 64) as u64 ^ product as u64) as usize & (self.slots.len() - 1)
    }

    pub(super) fn vacate(&mut self, mut hole: usize, key_of: impl Fn(u32) -> u64) {
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

    /// Makes room for lists of so many keys at once. There are none yet.
    pub(super) fn expect(&mut self, keys: usize) {
        let size = (keys + 1).saturating_mul(4).div_ceil(3).next_power_of_two();
        if size > self.slots.len() {
            self.slots = vec![NONE; size.max(FEWEST)];
        }
    }

    pub(super) fn grow(&mut self, key_of: impl Fn(u32) -> u64 + Copy) {
        let size = (self.slots.len() * 2).max(FEWEST);
        let old = std::mem::replace(&mut self.slots, vec![NONE; size]);
        for head in old.into_iter().filter(|&head| head != NONE) {
            let slot = self.slot(key_of(head), key_of);
            self.slots[slot] = head;
        }
    }
}
