//! # Safety
//! Gives memory away that nobody else deals out.
//!
//! Memory for the program (MPI-4.1 §9.2): it lies in the rank's home, where other ranks reach it without the kernel, in
//! messages and, however short it is, through windows.
#![allow(unsafe_code)]

use super::error::Result;
use super::world::State;
use crate::fail;
use crate::shm::layout::PAGE;
use crate::shm::zone::pages;
use crate::sys::heap;
use std::collections::BTreeMap;

/// Bytes below which a block is short: much of its last page may be for nothing, and to give its pages back to the kernel, and
/// to get others, takes longer (9 us) than to wipe them.
const SHORT: usize = 4 * PAGE;
/// Blocks that the program may have before short ones come from elsewhere.
const BLOCKS: usize = 4096;

/// Bytes of longer blocks that keep their pages when the program has freed them, as those of malloc do: 1 MiB that is
/// allocated, written and freed again and again takes 0.09 ms so, 1.08 with new pages each time.
const KEPT: usize = 16 << 20;

/// Blocks of the home: offset in the zone and bytes.
#[derive(Debug, Default)]
pub struct Lent {
    /// Those that the program has.
    blocks: BTreeMap<usize, usize>,
    /// Those that it had, with their pages and what it left there: no more than [`KEPT`], the latest last.
    kept: Vec<(usize, usize)>,
}

impl State {
    /// Half of this rank's home becomes what malloc serves long blocks from, if `libnearmpi-heap.so` is there.
    pub fn share_heap(&mut self) {
        let least = self.engine.channel.settings().heap_min as usize;
        let segment = self.engine.channel.segment().clone();
        let Some((file, at)) = segment
            .zone_file(self.engine.channel.me())
            .filter(|_| least > 0 && heap::is_there())
        else {
            return;
        };
        let half = segment.home_len() / 2 / PAGE * PAGE;
        let (Some(home), Some(offset)) = (self.engine.channel.home(), self.zone.take(half)) else {
            return;
        };
        // SAFETY: the home stays mapped, and the zone does not deal out again what it has.
        let begun = unsafe { heap::begin((home.start + offset) as *mut u8, half, least, file, at + offset) };
        if !begun {
            self.zone.give_back(offset, half);
        }
    }

    /// `len` bytes of this rank's home; `None` where the block is too short for that (`NEARMPI_DIRECT_MIN`), there is no room,
    /// or it is short and the program has many.
    pub fn lend(&mut self, len: usize) -> Option<*mut u8> {
        let is_one_of_many = len < SHORT && self.lent.blocks.len() >= BLOCKS;
        if (len as u64) < self.engine.channel.settings().direct_min || is_one_of_many {
            return None;
        }
        let home = self.engine.channel.home()?;
        let whole = pages(len)?;
        if let Some(found) = self.lent.kept.iter().rposition(|&(_, kept)| kept == whole) {
            let (offset, _) = self.lent.kept.remove(found);
            let memory = (home.start + offset) as *mut u8;
            // SAFETY: the block is nobody's; its pages are mapped here.
            unsafe { memory.write_bytes(0, whole) };
            self.lent.blocks.insert(offset, len);
            return Some(memory);
        }
        let offset = self.zone.take(len).or_else(|| {
            self.give_kept_back(0);
            self.zone.take(len)
        })?;
        if offset + len > home.len() {
            self.zone.give_back(offset, len);
            return None;
        }
        self.lent.blocks.insert(offset, len);
        Some((home.start + offset) as *mut u8)
    }

    /// Empties blocks that the program had, the earliest first, until they have at most so many bytes.
    fn give_kept_back(&mut self, most: usize) {
        let mut bytes: usize = self.lent.kept.iter().map(|&(_, whole)| whole).sum();
        while bytes > most {
            let (offset, whole) = self.lent.kept.remove(0);
            self.give_back(offset, whole);
            bytes -= whole;
        }
    }

    /// Takes back what [`State::lend`] gave; false for other memory.
    ///
    /// # Errors
    /// `Base`: the address lies within such memory, but not where it begins.
    pub fn take_back(&mut self, memory: *mut u8) -> Result<bool> {
        if self.lent.blocks.is_empty() && self.lent.kept.is_empty() {
            return Ok(false);
        }
        let Some(home) = self
            .engine
            .channel
            .home()
            .filter(|home| home.contains(&(memory as usize)))
        else {
            return Ok(false);
        };
        let offset = memory as usize - home.start;
        let Some(len) = self.lent.blocks.remove(&offset) else {
            fail!(Base, "no memory from MPI_Alloc_mem begins at {memory:p}");
        };
        match pages(len) {
            // SAFETY: the block was the program's, which has given it back; its pages are mapped here.
            Some(whole) if whole <= SHORT => unsafe {
                ((home.start + offset) as *mut u8).write_bytes(0, whole);
                self.zone.give_back(offset, len);
            },
            Some(whole) if whole <= KEPT => {
                self.lent.kept.push((offset, whole));
                self.give_kept_back(KEPT);
            }
            _ => self.give_back(offset, len),
        }
        Ok(true)
    }

    /// Empties `len` bytes of this rank's zone, which it has taken, and makes them free again.
    pub fn give_back(&mut self, offset: usize, len: usize) {
        let channel = &self.engine.channel;
        // What cannot be emptied would be found with old contents in it: it stays taken.
        if let Some(whole) = pages(len)
            && channel.segment().discard(channel.me(), offset, whole).is_ok()
        {
            self.zone.give_back(offset, len);
        }
    }
}
