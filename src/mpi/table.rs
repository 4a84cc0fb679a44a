//! Slot tables that turn small integers into objects, with a generation that exposes stale ones.
//!
//! A key is `generation << INDEX_BITS | index`. A slot's generation changes whenever its object is
//! removed, so a key kept too long is not found rather than found wrong.

/// Bits of a key that hold the slot's index: 4 Mi objects of a kind at once.
pub const INDEX_BITS: u32 = 22;
/// Bits of a key in all; what a handle has room for.
pub const KEY_BITS: u32 = 26;
const GENERATIONS: u32 = 1 << (KEY_BITS - INDEX_BITS);

/// Objects under keys. Cost: O(1) for every operation; freed slots are used again, latest first.
pub struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
}

struct Slot<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Table::new()
    }
}

impl<T> Table<T> {
    /// A table without objects.
    pub const fn new() -> Self {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Stores `value`; `None` when 2^22 objects live already.
    pub fn insert(&mut self, value: T) -> Option<u32> {
        self.insert_with(|| value)
    }

    /// Stores what `make` makes, where it stays, without a copy; `None` when 2^22 objects live already.
    #[inline(always)]
    pub fn insert_with(&mut self, make: impl FnOnce() -> T) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow()?,
        };
        let slot = &mut self.slots[index as usize];
        slot.value.get_or_insert_with(make);
        Some(slot.generation << INDEX_BITS | index)
    }

    /// The index of a new slot; `None` when there are as many as there may be.
    #[cold]
    fn grow(&mut self) -> Option<u32> {
        let index = self.slots.len() as u32;
        if index >> INDEX_BITS != 0 {
            return None;
        }
        self.slots.push(Slot {
            generation: 0,
            value: None,
        });
        Some(index)
    }

    /// The object under `key`, if it lives.
    #[inline]
    pub fn get(&self, key: u32) -> Option<&T> {
        let slot = self.slots.get(Self::index(key))?;
        if slot.generation != key >> INDEX_BITS {
            return None;
        }
        slot.value.as_ref()
    }

    /// The object under `key`, if it lives.
    #[inline]
    pub fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        let slot = self.slots.get_mut(Self::index(key))?;
        if slot.generation != key >> INDEX_BITS {
            return None;
        }
        slot.value.as_mut()
    }

    /// Takes the object under `key` out; its key is stale from now on.
    pub fn remove(&mut self, key: u32) -> Option<T> {
        let slot = self.slots.get_mut(Self::index(key))?;
        if slot.generation != key >> INDEX_BITS {
            return None;
        }
        let value = slot.value.take()?;
        slot.generation = (slot.generation + 1) % GENERATIONS;
        self.free.push(key & ((1 << INDEX_BITS) - 1));
        Some(value)
    }

    /// Shows the object under `key`, if it lives, to `look`; if that says something, drops the object where it is, and its
    /// key is stale from now on.
    #[inline(always)]
    pub fn drop_if<R>(&mut self, key: u32, look: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        let slot = self.slots.get_mut(Self::index(key))?;
        if slot.generation != key >> INDEX_BITS {
            return None;
        }
        let seen = look(slot.value.as_ref()?)?;
        slot.value = None;
        slot.generation = (slot.generation + 1) % GENERATIONS;
        self.free.push(Self::index(key) as u32);
        Some(seen)
    }

    /// How many objects live.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no object lives.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every living object with its key.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let value = slot.value.as_ref()?;
            Some((slot.generation << INDEX_BITS | index as u32, value))
        })
    }

    #[inline]
    fn index(key: u32) -> usize {
        (key & ((1 << INDEX_BITS) - 1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_key_finds_nothing() {
        let mut table = Table::default();
        let first = table.insert('a').unwrap();
        assert_eq!(table.remove(first), Some('a'));
        let second = table.insert('b').unwrap();
        assert_eq!(table.get(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.get(second), Some(&'b'));
        assert_eq!(table.len(), 1);
        assert_eq!(table.drop_if(first, |&c| Some(c)), None);
        assert_eq!(table.drop_if(second, |&c| (c != 'b').then_some(c)), None);
        assert_eq!(table.len(), 1);
        assert_eq!(table.drop_if(second, |&c| Some(c)), Some('b'));
        assert_eq!(table.drop_if(second, |&c| Some(c)), None);
        assert_eq!(table.get(second), None);
        assert_eq!(table.len(), 0);
        assert_ne!(table.insert('c').unwrap(), second);
    }

    #[test]
    fn keys_fit_a_handle_after_many_generations() {
        let mut table = Table::default();
        for n in 0..100 {
            let key = table.insert(n).unwrap();
            assert!(key >> KEY_BITS == 0);
            assert_eq!(table.remove(key), Some(n));
        }
        assert!(table.is_empty());
    }
}
