//! # Safety
//! Relies on the contract of an allocator: who gives a block back names the layout that it asked for. A block that is kept belongs to
//! nobody else; its first bytes hold the address of the next one.
//!
//! The library's own memory, out of malloc: freed blocks of 4 KiB to 4 MiB are kept for its next need (`NEARMPI_SPARE_MAX`).
//!
//! malloc gives the end of its heap back to the kernel as soon as 128 KiB are free there, so that each page of a message which came
//! before its receive, and is kept until then, would be a new one: making and clearing it takes several times as long as filling it.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::Mutex;

/// Sizes of which freed blocks are kept, in bytes.
const LEAST: usize = 4 << 10;
const MOST: usize = 4 << 20;
/// Four sizes of blocks between a power of two and the next.
const SIZES: usize = 44;
/// What malloc aligns blocks to.
const ALIGN: usize = 16;

/// An allocator that keeps freed blocks.
pub struct Spare(Mutex<Blocks>);

/// This library's; nothing is kept before MPI is initialized and after it is finalized. Sanitizers see each block come and go.
#[cfg_attr(not(any(loom, sanitized)), global_allocator)]
pub static SPARE: Spare = Spare::new(0);

/// The blocks that are kept.
struct Blocks {
    /// The first of each size; each holds the address of the next one.
    first: [*mut u8; SIZES],
    bytes: usize,
    /// ... and may be at most.
    most: usize,
    /// The size of which a block goes next if there are too many.
    next: usize,
}

// SAFETY: whoever has the blocks has them alone.
unsafe impl Send for Blocks {}

/// A size of blocks by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Size(usize);

impl Size {
    /// That of the blocks for `layout`; `None` if they are malloc's.
    #[inline]
    fn of(layout: Layout) -> Option<Size> {
        let len = layout.size();
        if !(LEAST..=MOST).contains(&len) || layout.align() > ALIGN {
            return None;
        }
        let power = (len - 1).ilog2() as usize;
        Some(Size(
            (power + 1 - LEAST.ilog2() as usize) * 4 + ((len - 1) >> (power - 2)) % 4,
        ))
    }

    fn bytes(self) -> usize {
        (self.0 % 4 + 5) << (self.0 / 4 + LEAST.ilog2() as usize - 3)
    }

    fn layout(self) -> Layout {
        Layout::from_size_align(self.bytes(), ALIGN).expect("a few megabytes")
    }
}

impl Blocks {
    fn take(&mut self, size: Size) -> Option<*mut u8> {
        let block = self.first[size.0];
        if block.is_null() {
            return None;
        }
        // SAFETY: the block was kept, so it holds the next one's address.
        self.first[size.0] = unsafe { block.cast::<*mut u8>().read() };
        self.bytes -= size.bytes();
        Some(block)
    }

    /// Keeps a block; false if there is no room for it, though those of other sizes make room.
    fn keep(&mut self, block: *mut u8, size: Size) -> bool {
        let Some(room) = self.most.checked_sub(size.bytes()) else {
            return false;
        };
        self.shrink(room, Some(size));
        if self.bytes > room {
            return false;
        }
        // SAFETY: the block is nobody else's, and large enough.
        unsafe { block.cast::<*mut u8>().write(self.first[size.0]) };
        self.first[size.0] = block;
        self.bytes += size.bytes();
        true
    }

    /// Gives blocks of other sizes than `but` to malloc until no more than `most` bytes are kept, as far as there are any.
    fn shrink(&mut self, most: usize, but: Option<Size>) {
        let mut in_vain = 0;
        while self.bytes > most && in_vain < SIZES {
            let size = Size(self.next);
            let block = if but == Some(size) { None } else { self.take(size) };
            if let Some(block) = block {
                // SAFETY: malloc has given it, for this layout.
                unsafe { System.dealloc(block, size.layout()) };
                in_vain = 0;
            } else {
                self.next = (self.next + 1) % SIZES;
                in_vain += 1;
            }
        }
    }
}

impl Spare {
    /// Has nothing yet, and later so many bytes at most.
    pub const fn new(most: usize) -> Spare {
        Spare(Mutex::new(Blocks {
            first: [null_mut(); SIZES],
            bytes: 0,
            most,
            next: 0,
        }))
    }

    /// Keeps so many bytes at most from now on.
    pub fn keep_at_most(&self, most: usize) {
        if let Ok(mut blocks) = self.0.lock() {
            blocks.most = most;
            blocks.shrink(most, None);
        }
    }

    /// A block that was kept. Nobody waits for another thread here, nor for one that was there when the process forked.
    fn kept(&self, size: Size) -> Option<*mut u8> {
        self.0.try_lock().ok()?.take(size)
    }

    /// Keeps a block; false if there is no room for it, or another thread is here.
    fn keep(&self, block: *mut u8, size: Size) -> bool {
        self.0.try_lock().is_ok_and(|mut blocks| blocks.keep(block, size))
    }
}

// SAFETY: what it gives is malloc's, for the layout of its size, and was given back if it was given before.
unsafe impl GlobalAlloc for Spare {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(size) = Size::of(layout) else {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc(layout) };
        };
        // SAFETY: the layout is not empty.
        self.kept(size)
            .unwrap_or_else(|| unsafe { System.alloc(size.layout()) })
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(size) = Size::of(layout) else {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc_zeroed(layout) };
        };
        match self.kept(size) {
            Some(block) => {
                // SAFETY: it has at least so many bytes.
                unsafe { block.write_bytes(0, layout.size()) };
                block
            }
            // SAFETY: the layout is not empty.
            None => unsafe { System.alloc_zeroed(size.layout()) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match Size::of(layout) {
            Some(size) if self.keep(block, size) => {}
            // SAFETY: malloc has given it for this layout.
            Some(size) => unsafe { System.dealloc(block, size.layout()) },
            // SAFETY: the caller's promise.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        // SAFETY: the caller promises that `len` goes with the alignment.
        let new = unsafe { Layout::from_size_align_unchecked(len, layout.align()) };
        // malloc may have room behind the block.
        let [before, after] = [layout, new].map(|layout| Size::of(layout).map_or(layout, Size::layout));
        // SAFETY: malloc has given it for that layout, whose alignment it keeps.
        unsafe { System.realloc(block, before, after.size()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const K: usize = 1024;

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, 8).unwrap()
    }

    /// A block of `len` bytes, given back at once.
    fn passing(spare: &Spare, len: usize) -> usize {
        // SAFETY: the layout is not empty, and goes back as it was asked for.
        unsafe {
            let block = spare.alloc(layout(len));
            block.write_bytes(0xee, len);
            spare.dealloc(block, layout(len));
            block.addr()
        }
    }

    fn kept(spare: &Spare) -> usize {
        spare.0.lock().unwrap().bytes
    }

    #[test]
    fn blocks_have_room_and_waste_at_most_a_quarter() {
        let mut last = None;
        for len in (LEAST..=MOST).step_by(64).chain([LEAST + 1, MOST - 1]) {
            let size = Size::of(layout(len)).unwrap();
            assert!(
                size.0 < SIZES && (len..=len + len / 4).contains(&size.bytes()),
                "{len}: {size:?}"
            );
            last = last.max(Some(size.0));
        }
        assert_eq!(last, Some(SIZES - 1));
        assert!(
            [1, LEAST - 1, MOST + 1]
                .iter()
                .all(|&len| Size::of(layout(len)).is_none())
        );
        assert_eq!(Size::of(Layout::from_size_align(LEAST, 64).unwrap()), None);
    }

    #[test]
    fn what_is_freed_comes_again_for_the_next_of_its_size() {
        let spare = Spare::new(1 << 20);
        let first = passing(&spare, 65_536);
        assert_eq!((passing(&spare, 60_000), kept(&spare)), (first, 65_536));
        assert_ne!(passing(&spare, 40_000), first);
        // SAFETY: as in `passing`.
        unsafe {
            let zeroed = spare.alloc_zeroed(layout(65_000));
            assert_eq!(zeroed.addr(), first);
            assert!(std::slice::from_raw_parts(zeroed, 65_000).iter().all(|&byte| byte == 0));
            spare.dealloc(zeroed, layout(65_000));
        }
        spare.keep_at_most(0);
        passing(&spare, 65_536);
        assert_eq!(kept(&spare), 0);
    }

    #[test]
    fn too_many_bytes_are_not_kept_and_blocks_of_other_sizes_make_room() {
        let spare = Spare::new(100_000);
        let old = [5_000; 10];
        // SAFETY: as in `passing`.
        unsafe {
            let blocks = old.map(|len| spare.alloc(layout(len)));
            blocks.into_iter().for_each(|block| spare.dealloc(block, layout(5_000)));
        }
        assert_eq!(kept(&spare), 50 * K);
        passing(&spare, 80 * K);
        assert_eq!(kept(&spare), 95 * K, "seven have gone");
        passing(&spare, 128 * K);
        assert_eq!(kept(&spare), 95 * K, "longer than all that may be kept");
        passing(&spare, 80 * K);
        // SAFETY: as in `passing`.
        unsafe {
            let two = [0; 2].map(|_| spare.alloc(layout(80 * K)));
            two.into_iter().for_each(|block| spare.dealloc(block, layout(80 * K)));
        }
        assert_eq!(kept(&spare), 80 * K, "no room for another of the same size");
        spare.keep_at_most(0);
    }

    #[test]
    fn what_grows_and_shrinks_keeps_its_bytes() {
        let spare = Spare::new(1 << 20);
        let lens = [
            100,
            4_000,
            4_096,
            5_000,
            5_100,
            100_000,
            MOST,
            MOST + 1,
            3 * MOST,
            MOST,
            70_000,
            4_095,
            100,
        ];
        // SAFETY: as in `passing`.
        unsafe {
            let mut block = spare.alloc(layout(lens[0]));
            for at in 0..100 {
                block.add(at).write(at as u8);
            }
            for pair in lens.windows(2) {
                block = spare.realloc(block, layout(pair[0]), pair[1]);
                assert!((0..100).all(|at| block.add(at).read() == at as u8), "{pair:?}");
                block.add(pair[1] - 1).write(if pair[1] == 100 { 99 } else { 7 });
            }
            spare.dealloc(block, layout(100));
        }
        spare.keep_at_most(0);
    }
}
