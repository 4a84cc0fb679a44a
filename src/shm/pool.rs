//! # Safety
//! Relies on the segment to outlive the pool ends made of it, and on one owner per pool.
//!
//! A sender's pool of cells (Chai 2006 §3.2): the owner fills cells and names them to receivers in
//! control messages; a receiver marks a cell when it has copied it out; the owner sweeps the marks when
//! it has run out of cells.
//!
//! Each cell has a generation, counted by the owner, and a mark. The owner names a cell to one receiver
//! as (generation, number); when the receiver has copied it out it stores that generation into the mark
//! (Release); the owner's sweep loads the mark (Acquire): equal generations mean free. So a mark has one
//! writer at a time and the owner touches it only when it sweeps. For a receiver that has died the owner stores it.
//!
//! The owner opens cells only as it needs them, and fills the one freed last first: few cells are in use
//! at a time, and they stay in its cache.
#![allow(unsafe_code)]

use super::sync::{AtomicU16, Ordering};
use std::ptr::NonNull;

/// Bytes in a cell.
pub const CELL: usize = 8192;
/// Cells in a pool.
pub const CELLS: usize = 1 << NUMBER_BITS;
/// Cells that all ranks of a job use together, unless that leaves fewer than [`LEAST`] for each.
const OF_JOB: usize = 3584;
/// Cells that each rank may use in a job of any size.
const LEAST: usize = 8;
const NUMBER_BITS: u32 = 7;

/// A cell's name in a control message: generation above, number below.
pub type Name = u16;

/// Cells that a rank uses in a job of `ranks`. A rank that has sent to all others keeps all of them filled, so in large jobs they
/// would be most of the memory.
pub fn cells_of(ranks: u32) -> usize {
    (OF_JOB / ranks as usize).clamp(LEAST, CELLS)
}

fn number(name: Name) -> usize {
    usize::from(name) % CELLS
}

fn generation(name: Name) -> u16 {
    name >> NUMBER_BITS
}

/// Where a pool lies.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// `CELLS` marks.
    pub marks: NonNull<AtomicU16>,
    /// `CELLS` cells of `CELL` bytes.
    pub cells: NonNull<u8>,
}

// SAFETY: addresses of shared memory made for concurrent use by the rules above.
unsafe impl Send for Place {}

/// The owner's end.
#[derive(Debug)]
pub struct Pool {
    place: Place,
    most: usize,
    /// The latest name of each cell opened so far.
    names: Vec<Name>,
    free: Vec<u16>,
    used: Vec<Used>,
    /// Sweeps made so far.
    pub sweeps: u64,
}

/// A cell that has been named to a receiver.
#[derive(Clone, Copy, Debug)]
struct Used {
    cell: u16,
    receiver: u32,
}

impl Place {
    #[inline]
    fn mark(&self, name: Name) -> &AtomicU16 {
        // SAFETY: a number is below CELLS.
        unsafe { self.marks.add(number(name)).as_ref() }
    }

    /// The cell that a control message names; any name is one of the pool's cells.
    #[inline]
    pub fn cell(&self, name: Name) -> NonNull<u8> {
        // SAFETY: a number is below CELLS.
        unsafe { self.cells.add(number(name) * CELL) }
    }

    /// Receiver: gives the cell back, after its bytes have been copied out.
    #[inline]
    pub fn release(&self, name: Name) {
        self.mark(name).store(generation(name), Ordering::Release);
    }
}

impl Pool {
    /// The owner's end of the pool at `place`, which uses up to `most` of its [`CELLS`].
    ///
    /// # Safety
    /// `place` describes zeroed shared memory that outlives the pool; the caller is its only owner.
    pub unsafe fn new(place: Place, most: usize) -> Pool {
        Pool {
            place,
            most: most.min(CELLS),
            names: Vec::new(),
            free: Vec::new(),
            used: Vec::new(),
            sweeps: 0,
        }
    }

    /// A free cell to fill, under a new name, for the rank `receiver`; `None` while receivers hold all of them.
    #[inline]
    pub fn take(&mut self, receiver: u32) -> Option<(Name, NonNull<u8>)> {
        let cell = self.free.pop().or_else(|| self.find())?;
        let name = &mut self.names[usize::from(cell)];
        // Generation 0 is that of a mark nobody has written.
        let next = generation(*name) % (u16::MAX >> NUMBER_BITS) + 1;
        *name = next << NUMBER_BITS | cell;
        self.used.push(Used { cell, receiver });
        Some((*name, self.place.cell(*name)))
    }

    /// The rank `dead` is gone: gives back what it held, in its place.
    pub fn bury(&mut self, dead: u32) {
        let held = self.used.iter().filter(|used| used.receiver == dead);
        held.for_each(|used| self.place.release(self.names[usize::from(used.cell)]));
    }

    /// Whether the cell that was named so has been given back.
    pub fn is_back(&self, name: Name) -> bool {
        let latest = self.names.get(number(name));
        latest != Some(&name) || self.place.mark(name).load(Ordering::Acquire) == generation(name)
    }

    /// Whether there are `count` cells, and receivers have given all back.
    pub fn is_whole(&mut self, count: usize) -> bool {
        if !self.used.is_empty() {
            self.sweep();
        }
        self.used.is_empty() && count <= self.most
    }

    /// A cell that a receiver has given back, or one that was never used.
    fn find(&mut self) -> Option<u16> {
        self.sweep();
        self.free.pop().or_else(|| {
            let cell = self.names.len();
            (cell < self.most).then(|| {
                self.names.push(cell as u16);
                cell as u16
            })
        })
    }

    /// Gathers the cells that receivers have given back.
    fn sweep(&mut self) {
        self.sweeps += 1;
        let (place, free, names) = (&self.place, &mut self.free, &self.names);
        self.used.retain(|&Used { cell, .. }| {
            let name = names[usize::from(cell)];
            let back = place.mark(name).load(Ordering::Acquire) == generation(name);
            if back {
                free.push(cell);
            }
            !back
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Heap {
        marks: Box<[AtomicU16]>,
        cells: Box<[u8]>,
    }

    fn heap() -> (Heap, Place) {
        let heap = Heap {
            marks: (0..CELLS).map(|_| AtomicU16::new(0)).collect(),
            cells: vec![0; CELLS * CELL].into(),
        };
        let place = Place {
            marks: NonNull::from(&heap.marks[0]),
            cells: NonNull::from(&heap.cells[0]),
        };
        (heap, place)
    }

    #[cfg(not(loom))]
    #[test]
    fn a_pool_is_whole_while_receivers_hold_none_of_its_cells() {
        let (_heap, place) = heap();
        // SAFETY: the heap outlives the pool, its only owner.
        let mut pool = unsafe { Pool::new(place, 4) };
        assert!(pool.is_whole(4) && !pool.is_whole(5));
        let (name, _) = pool.take(1).unwrap();
        assert!(!pool.is_whole(1));
        place.release(name);
        assert!(pool.is_whole(4));
    }

    #[cfg(not(loom))]
    #[test]
    fn a_swept_cell_is_one_that_its_receiver_released() {
        let (_heap, place) = heap();
        // SAFETY: `_heap` outlives the pool, its only one.
        let mut pool = unsafe { Pool::new(place, CELLS) };
        let taken: Vec<u16> = (0..CELLS).map(|_| pool.take(1).unwrap().0).collect();
        assert!(pool.take(1).is_none());
        assert!(!pool.is_back(taken[7]));
        place.release(taken[7]);
        assert!(pool.is_back(taken[7]) && !pool.is_back(taken[8]));
        place.release(taken[99]);
        let mut again = [pool.take(1).unwrap().0, pool.take(1).unwrap().0].map(number);
        again.sort();
        let mut released = [taken[7], taken[99]].map(number);
        released.sort();
        assert_eq!(again, released);
        assert!(pool.is_back(taken[7]), "its cell has a new name");
        assert!(pool.take(1).is_none());
    }

    #[cfg(not(loom))]
    #[test]
    fn what_the_dead_held_is_back_and_nothing_else() {
        let (_heap, place) = heap();
        // SAFETY: as above.
        let mut pool = unsafe { Pool::new(place, 4) };
        let taken = [5, 6, 5, 7].map(|receiver| pool.take(receiver).unwrap().0);
        place.release(taken[0]);
        pool.bury(5);
        assert_eq!(taken.map(|name| pool.is_back(name)), [true, false, true, false]);
        let again = [pool.take(8), pool.take(8)].map(|taken| taken.unwrap().0);
        assert!(pool.take(8).is_none());
        pool.bury(5);
        assert!(again.iter().all(|&name| !pool.is_back(name)), "another holds them now");
    }

    #[cfg(not(loom))]
    #[test]
    fn no_more_cells_are_opened_than_the_job_lets_a_rank_have() {
        let (_heap, place) = heap();
        // SAFETY: as above.
        let mut pool = unsafe { Pool::new(place, 2) };
        let (first, second) = (pool.take(1).unwrap().0, pool.take(1).unwrap().0);
        assert_ne!(number(first), number(second));
        assert!(pool.take(1).is_none());
        place.release(first);
        assert_eq!(pool.take(1).map(|(name, _)| number(name)), Some(number(first)));
        assert_eq!([1, 28, 256, 1 << 15].map(cells_of), [CELLS, CELLS, 14, LEAST]);
    }

    #[cfg(not(loom))]
    #[test]
    fn a_lone_receiver_gets_the_same_cell_again_and_again() {
        let (_heap, place) = heap();
        // SAFETY: as above.
        let mut pool = unsafe { Pool::new(place, CELLS) };
        for _ in 0..2000 {
            let (name, _) = pool.take(1).unwrap();
            assert_eq!(number(name), 0);
            place.release(name);
        }
    }

    #[cfg(loom)]
    #[test]
    fn loom_a_cell_is_not_filled_again_before_it_was_copied_out() {
        loom::model(|| {
            let (heap, place) = heap();
            // The receiver's reading of the cell, as loom sees it.
            let content = loom::sync::Arc::new(loom::cell::UnsafeCell::new(1u8));
            // SAFETY: `heap` lives to the end of the model.
            let mut pool = unsafe { Pool::new(place, CELLS) };
            let (cell, _) = pool.take(1).unwrap();
            let read = content.clone();
            let receiver = loom::thread::spawn(move || {
                let place = place;
                // SAFETY: loom checks that nobody writes at the same time.
                read.with(|byte| assert_eq!(unsafe { *byte }, 1));
                place.release(cell);
            });
            pool.sweep();
            if pool.used.is_empty() {
                // SAFETY: loom checks that nobody reads at the same time.
                content.with_mut(|byte| unsafe { *byte = 2 });
            }
            receiver.join().unwrap();
            drop(heap);
        });
    }
}
