//! A list that only grows, and whose elements stay where they are: readers need no lock.
//!
//! Pieces of 1, 2, 4, 8 ... elements, each made when its first element comes.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Pieces: 2^24 - 1 elements.
const PIECES: usize = 24;

/// A list that only grows.
#[derive(Debug)]
pub struct Growing<T> {
    pieces: [OnceLock<Box<[OnceLock<T>]>>; PIECES],
    len: AtomicUsize,
}

impl<T> Default for Growing<T> {
    fn default() -> Growing<T> {
        Growing {
            pieces: [const { OnceLock::new() }; PIECES],
            len: AtomicUsize::new(0),
        }
    }
}

impl<T> Growing<T> {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at `index`, if there is one.
    pub fn get(&self, index: usize) -> Option<&T> {
        let (piece, at) = place(index);
        self.pieces.get(piece)?.get()?.get(at)?.get()
    }

    /// The elements, in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len()).map_while(|index| self.get(index))
    }

    /// Appends `value` as element `index`, unless that has come meanwhile; the element.
    ///
    /// # Panics
    /// When that is not the next one, or beyond the last that there can be.
    pub fn append(&self, index: usize, value: T) -> &T {
        assert!(index <= self.len());
        let (piece, at) = place(index);
        let piece = self.pieces[piece].get_or_init(|| (0..1 << piece).map(|_| OnceLock::new()).collect());
        let element = piece[at].get_or_init(|| value);
        self.len.fetch_max(index + 1, Ordering::AcqRel);
        element
    }

    /// The first element for which `is_behind` is true, which must be true for all that follow; in logarithmic time.
    pub fn first(&self, is_behind: impl Fn(&T) -> bool) -> Option<&T> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = (low + high) / 2;
            match self.get(middle).is_some_and(&is_behind) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        self.get(low)
    }
}

/// The piece that element `index` lies in, and where in it.
fn place(index: usize) -> (usize, usize) {
    let piece = (index + 1).ilog2() as usize;
    (piece, index + 1 - (1 << piece))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_stay_where_they_are() {
        let list = Growing::default();
        assert!(list.is_empty() && list.get(0).is_none());
        let first: *const usize = list.append(0, 0);
        for index in 1..1000 {
            assert_eq!(list.append(index, index * 3), &(index * 3));
            assert!(list.get(index + 1).is_none());
        }
        assert_eq!((list.append(7, 1), list.len()), (&21, 1000));
        assert!(std::ptr::eq(first, list.get(0).unwrap()));
        assert!(list.iter().copied().eq((0..1000).map(|index| index * 3)));
    }

    #[test]
    fn the_first_one_behind_is_found() {
        let list = Growing::default();
        (0..100).for_each(|index| drop(list.append(index, index * 10).to_string()));
        for wanted in 0..=990 {
            assert_eq!(
                list.first(|&value| value >= wanted).copied(),
                Some(wanted.next_multiple_of(10))
            );
        }
        assert_eq!(list.first(|&value| value > 990), None);
    }

    #[test]
    fn one_of_many_appends_each() {
        let list = Growing::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let list = &list;
                scope.spawn(move || {
                    (0..500).for_each(|index| assert!(*list.append(index, (index, thread)) >= (index, 0)))
                });
            }
        });
        assert!(list.len() == 500 && list.iter().enumerate().all(|(at, &(index, _))| at == index));
    }
}
