//! # Safety
//! Gives memory away that nobody else deals out.
//!
//! Blocks of this rank's zone, for windows and files and for the program (MPI-4.1 §9.2): what the program gets lies in the rank's home, where
//! other ranks reach it without the kernel, in messages and, however short it is, through windows.
#![allow(unsafe_code)]

use super::error::Result;
use super::world::State;
use crate::fail;
use crate::shm::layout::PAGE;
use crate::shm::zone::pages;
use crate::sys::heap;
use std::collections::BTreeMap;

/// Bytes below which a block is short: much of its last page may be for nothing.
const SHORT: usize = 4 * PAGE;
/// Blocks that the program may have before short ones come from elsewhere.
const BLOCKS: usize = 4096;

/// Bytes of blocks that keep their pages when they are free, as those of malloc do: 1 MiB that is allocated, written and
/// freed again and again takes 0.09 ms so, 1.08 with new pages each time; a page given back and asked for 9 us, 50 on a virtual machine.
const KEPT: usize = 16 << 20;

/// Blocks of this rank's zone: offset and bytes.
#[derive(Debug, Default)]
pub struct Lent {
    /// Where blocks begin: behind what malloc serves.
    front: usize,
    /// Those that the program has from MPI_Alloc_mem.
    blocks: BTreeMap<usize, usize>,
    /// Offsets of free ones, by their bytes: with their pages and what was left there, no more than [`KEPT`].
    kept: BTreeMap<usize, Vec<usize>>,
    /// Bytes of those.
    kept_bytes: usize,
}

impl Lent {
    /// A free block of just `whole` bytes, with what was left there.
    fn take_kept(&mut self, whole: usize) -> Option<usize> {
        let offset = self.kept.get_mut(&whole)?.pop()?;
        self.kept_bytes -= whole;
        Some(offset)
    }
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
        let home = self.engine.channel.home();
        let Some((home, offset)) = home.and_then(|home| Some((home, self.zone.take(half)?))) else {
            return;
        };
        // All of it at once, so dumps are spared it.
        if !self.engine.channel.open_home(offset + half, false) {
            return self.zone.give_back(offset, half);
        }
        // SAFETY: the home stays mapped, and the zone does not deal out again what it has.
        let begun = unsafe { heap::begin((home.start + offset) as *mut u8, half, least, file, at + offset) };
        match begun {
            true => self.lent.front = offset + half,
            false => self.zone.give_back(offset, half),
        }
    }

    /// `len` bytes of this rank's home, with anything in them; `None` where the block is too short for that (`NEARMPI_DIRECT_MIN`),
    /// there is no room, or it is short and the program has many.
    pub fn lend(&mut self, len: usize) -> Option<*mut u8> {
        let is_one_of_many = len < SHORT && self.lent.blocks.len() >= BLOCKS;
        if (len as u64) < self.engine.channel.settings().direct_min || is_one_of_many {
            return None;
        }
        let home = self.engine.channel.home()?;
        let kept = self.lent.take_kept(pages(len)?);
        let offset = kept.or_else(|| self.take_new(len))?;
        if offset + len > home.len() {
            self.zone.give_back(offset, len);
            return None;
        }
        self.lent.blocks.insert(offset, len);
        Some((home.start + offset) as *mut u8)
    }

    /// Offset of `len` zero bytes of this rank's zone, which are taken now; `None` where there is no room. [`State::give_block_back`] ends that.
    pub fn take_block(&mut self, len: usize) -> Option<usize> {
        let whole = pages(len)?;
        if let Some(home) = self.engine.channel.home()
            && let Some(offset) = self.lent.take_kept(whole)
        {
            // SAFETY: the block is nobody's; its pages are mapped here.
            unsafe { ((home.start + offset) as *mut u8).write_bytes(0, whole) };
            return Some(offset);
        }
        self.take_new(len)
    }

    /// As [`State::take_block`], none of those that were kept.
    fn take_new(&mut self, len: usize) -> Option<usize> {
        let offset = self.zone.take(len).or_else(|| {
            self.give_kept_back(0);
            self.zone.take(len)
        })?;
        let end = offset + pages(len)?;
        let channel = &mut self.engine.channel;
        let in_home = channel.home().is_some_and(|home| end <= home.len());
        if in_home && !channel.open_home(end, true) {
            self.zone.give_back(offset, len);
            return None;
        }
        Some(offset)
    }

    /// Empties free blocks, the longest first, until they have at most so many bytes.
    fn give_kept_back(&mut self, most: usize) {
        while self.lent.kept_bytes > most
            && let Some(mut longest) = self.lent.kept.last_entry()
        {
            let whole = *longest.key();
            match longest.get_mut().pop() {
                Some(offset) => {
                    self.lent.kept_bytes -= whole;
                    self.empty(offset, whole);
                }
                None => _ = longest.remove(),
            }
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
        if offset < self.lent.front {
            return Ok(false); // malloc serves that
        }
        let Some(len) = self.lent.blocks.remove(&offset) else {
            fail!(Base, "no memory from MPI_Alloc_mem begins at {memory:p}");
        };
        self.give_block_back(offset, len);
        Ok(true)
    }

    /// Makes `len` bytes of this rank's zone, which [`State::take_block`] gave, free again.
    pub fn give_block_back(&mut self, offset: usize, len: usize) {
        let Some(whole) = pages(len) else { return };
        let end = offset + whole;
        match self.engine.channel.home() {
            Some(home) if end <= home.len() && whole <= KEPT => {
                self.lent.kept.entry(whole).or_default().push(offset);
                self.lent.kept_bytes += whole;
                self.give_kept_back(KEPT);
            }
            _ => self.empty(offset, whole),
        }
    }

    /// Gives the pages of a block back to the kernel, and makes it free.
    fn empty(&mut self, offset: usize, whole: usize) {
        let channel = &self.engine.channel;
        // What cannot be emptied would be found with old contents in it: it stays taken.
        if channel.segment().discard(channel.me(), offset, whole).is_ok() {
            self.zone.give_back(offset, whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::coll::support::job;
    use super::*;

    #[test]
    fn what_is_given_back_is_found_again_empty_by_windows_with_its_pages_or_without() {
        // Without homes nothing keeps its pages.
        for least in [1, 0] {
            job(1, 1, &[("NEARMPI_DIRECT_MIN", least)], false, |me, world| {
                let mut hold = world.hold();
                let segment = hold.engine.channel.segment().clone();
                for len in [200, SHORT, SHORT + 1, 1 << 20] {
                    let offset = hold.take_block(len).unwrap();
                    let view = segment.view(me, offset, len).unwrap();
                    let is_empty = || {
                        // SAFETY: so many bytes were mapped, which nobody writes to meanwhile.
                        let bytes = unsafe { std::slice::from_raw_parts(view.base(), len) };
                        bytes.iter().all(|&byte| byte == 0)
                    };
                    assert!(is_empty(), "{len}");
                    // SAFETY: as above.
                    unsafe { view.base().write_bytes(7, len) };
                    hold.give_block_back(offset, len);
                    assert_eq!(hold.lent.kept_bytes, if least > 0 { pages(len).unwrap() } else { 0 });
                    assert_eq!(hold.take_block(len), Some(offset), "{len}");
                    assert!(is_empty(), "{len}");
                    hold.give_block_back(offset, len);
                    assert_eq!(hold.take_block(segment.zone_len()), Some(0), "what is kept makes room");
                    hold.zone.give_back(0, segment.zone_len());
                }
            });
        }
    }
}
