//! # Safety
//! Relies on the segment to outlive the pool ends made of it, and on one owner per pool.
//!
//! A sender's pool of cells (Chai 2006 §3.2): the owner fills cells and names them to receivers in
//! control messages; a receiver marks a cell free when it has copied it out; the owner sweeps the
//! marks when it has run out of cells.
//!
//! Each cell has one `busy` byte. The owner stores 1 before it names the cell to anybody; the one
//! receiver it is named to stores 0 (Release) when done; the owner's sweep loads it (Acquire).
#![allow(unsafe_code)]

use super::ring::Junk;
use super::sync::{AtomicU8, Ordering};
use std::ptr::NonNull;

/// Bytes in a cell.
pub const CELL: usize = 8192;
/// Cells in a pool.
pub const CELLS: usize = 128;

/// Where a pool lies.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// `CELLS` busy bytes.
    pub busy: NonNull<AtomicU8>,
    /// `CELLS` cells of `CELL` bytes.
    pub cells: NonNull<u8>,
}

// SAFETY: addresses of shared memory made for concurrent use by the rules above.
unsafe impl Send for Place {}

/// The owner's end: hands out cells, latest freed first so that they stay in its cache.
#[derive(Debug)]
pub struct Pool {
    place: Place,
    free: Vec<u16>,
    used: Vec<u16>,
    /// Sweeps made so far.
    pub sweeps: u64,
}

impl Place {
    #[inline]
    fn busy(&self, cell: u16) -> &AtomicU8 {
        // SAFETY: every caller checked `cell < CELLS`.
        unsafe { self.busy.add(usize::from(cell)).as_ref() }
    }

    #[inline]
    fn cell(&self, cell: u16) -> NonNull<u8> {
        // SAFETY: every caller checked `cell < CELLS`.
        unsafe { self.cells.add(usize::from(cell) * CELL) }
    }

    /// A receiver's view of a cell that a control message named.
    #[inline]
    pub fn named(&self, cell: u16) -> Result<NonNull<u8>, Junk> {
        if usize::from(cell) < CELLS {
            Ok(self.cell(cell))
        } else {
            Err(Junk)
        }
    }

    /// Marks a cell free, after its bytes have been copied out. The caller has seen `named`.
    #[inline]
    pub fn release(&self, cell: u16) {
        self.busy(cell).store(0, Ordering::Release);
    }
}

impl Pool {
    /// The owner's end of the pool at `place`.
    ///
    /// # Safety
    /// `place` describes zeroed shared memory that outlives the pool; the caller is its only owner.
    pub unsafe fn new(place: Place) -> Pool {
        Pool {
            place,
            free: (0..CELLS as u16).rev().collect(),
            used: Vec::with_capacity(CELLS),
            sweeps: 0,
        }
    }

    /// A free cell to fill, marked busy; `None` while receivers hold all of them.
    #[inline]
    pub fn take(&mut self) -> Option<(u16, NonNull<u8>)> {
        if self.free.is_empty() {
            self.sweep();
        }
        let cell = self.free.pop()?;
        self.used.push(cell);
        self.place.busy(cell).store(1, Ordering::Relaxed);
        Some((cell, self.place.cell(cell)))
    }

    /// Gathers the cells that receivers have marked free.
    fn sweep(&mut self) {
        self.sweeps += 1;
        let (place, free) = (&self.place, &mut self.free);
        self.used.retain(|&cell| {
            let busy = place.busy(cell).load(Ordering::Acquire) != 0;
            if !busy {
                free.push(cell);
            }
            busy
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Heap {
        busy: Box<[AtomicU8]>,
        cells: Box<[u8]>,
    }

    fn heap() -> (Heap, Place) {
        let heap = Heap {
            busy: (0..CELLS).map(|_| AtomicU8::new(0)).collect(),
            cells: vec![0; CELLS * CELL].into(),
        };
        let place = Place {
            busy: NonNull::from(&heap.busy[0]),
            cells: NonNull::from(&heap.cells[0]),
        };
        (heap, place)
    }

    #[cfg(not(loom))]
    #[test]
    fn a_swept_cell_is_one_that_its_receiver_released() {
        let (_heap, place) = heap();
        // SAFETY: `_heap` outlives the pool, its only one.
        let mut pool = unsafe { Pool::new(place) };
        let taken: Vec<u16> = (0..CELLS).map(|_| pool.take().unwrap().0).collect();
        assert!(pool.take().is_none());
        place.release(taken[7]);
        place.release(taken[99]);
        let mut again = [pool.take().unwrap().0, pool.take().unwrap().0];
        again.sort();
        let mut released = [taken[7], taken[99]];
        released.sort();
        assert_eq!(again, released);
        assert!(pool.take().is_none());
    }

    #[cfg(not(loom))]
    #[test]
    fn a_cell_number_beyond_the_pool_is_junk() {
        let (_heap, place) = heap();
        assert!(place.named(CELLS as u16 - 1).is_ok());
        assert_eq!(place.named(CELLS as u16), Err(Junk));
    }

    #[cfg(loom)]
    #[test]
    fn loom_a_cell_is_not_filled_again_before_it_was_copied_out() {
        loom::model(|| {
            let (heap, place) = heap();
            // The receiver's reading of the cell, as loom sees it.
            let content = loom::sync::Arc::new(loom::cell::UnsafeCell::new(1u8));
            // SAFETY: `heap` lives to the end of the model.
            let mut pool = unsafe { Pool::new(place) };
            let (cell, _) = pool.take().unwrap();
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
