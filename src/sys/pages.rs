//! # Safety
//! Relies on mbind(2) and move_pages(2) to read the arrays and to write the one they are given; neither
//! changes what memory holds.
//!
//! NUMA: on which nodes pages lie, and on which they shall.
#![allow(unsafe_code)]

use super::cpuset::CpuSet;
use std::fs;
use std::io;
use std::ops::Range;
use std::ptr;

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Bytes of a huge page.
pub const HUGE: usize = 2 << 20;
/// Pages asked for by one system call.
const BATCH: usize = 16384;
/// mbind(2): take the node, or another one if it is full.
const MPOL_PREFERRED: libc::c_int = 1;
/// These nodes only.
const MPOL_BIND: libc::c_int = 2;
/// A page of each in turn.
const MPOL_INTERLEAVE: libc::c_int = 3;

/// Pages of a range that nobody has touched will come from `node`, whoever touches them first; of shared memory
/// for everybody who maps it. False where the kernel knows no nodes.
pub fn prefer(range: Range<usize>, node: u32) -> bool {
    let mut mask = vec![0u64; node as usize / 64 + 1];
    mask[node as usize / 64] |= 1 << (node % 64);
    let bits = mask.len() * 64 + 1;
    // SAFETY: the kernel reads the mask; the range's pages keep what they hold.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            range.start,
            range.len(),
            MPOL_PREFERRED,
            mask.as_ptr(),
            bits,
            0,
        )
    };
    answer == 0
}

/// From which nodes a process's own memory comes: its memory policy, inherited by what it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    mode: libc::c_int,
    mask: Vec<u64>,
}

impl Policy {
    /// `bind:NODES` (these and no others), `interleave:NODES` (in turn), `preferred:NODES` (these first); `None` for
    /// `none` and `firsttouch`, which are what the kernel does by itself. `there`: the nodes of the machine.
    ///
    /// # Errors
    /// A sentence with the value.
    pub fn parse(text: &str, there: &CpuSet) -> Result<Option<Policy>, String> {
        let (name, nodes) = text.split_once(':').unwrap_or((text, ""));
        let mode = match name {
            "none" | "firsttouch" if nodes.is_empty() => return Ok(None),
            "preferred" => MPOL_PREFERRED,
            "bind" => MPOL_BIND,
            "interleave" => MPOL_INTERLEAVE,
            _ => return Err("not none, firsttouch, bind:NODES, interleave:NODES or preferred:NODES".into()),
        };
        let nodes = CpuSet::parse(nodes)?;
        if nodes.is_empty() {
            return Err("no nodes are named".into());
        }
        if let Some(missing) = nodes.iter().find(|&node| !there.has(node)) {
            return Err(format!("there is no NUMA node {missing}; there are {there}"));
        }
        let mut mask = vec![0; nodes.iter().max().unwrap_or(0) / 64 + 1];
        nodes.iter().for_each(|node| mask[node / 64] |= 1 << (node % 64));
        Ok(Some(Policy { mode, mask }))
    }

    /// Makes it this process's. A system call and nothing else, so that it may stand between fork and exec.
    ///
    /// # Errors
    /// What set_mempolicy(2) says.
    pub fn apply(&self) -> io::Result<()> {
        let bits = self.mask.len() * 64 + 1;
        // SAFETY: the kernel reads the mask.
        let answer = unsafe { libc::syscall(libc::SYS_set_mempolicy, self.mode, self.mask.as_ptr(), bits) };
        match answer {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The node of each of this process's pages in `range` that are in memory.
pub fn nodes(range: Range<usize>) -> Vec<(usize, u32)> {
    let mut found = Vec::new();
    let addresses: Vec<usize> = range.step_by(PAGE).collect();
    for batch in addresses.chunks(BATCH) {
        let mut status = vec![-1i32; batch.len()];
        let (pages, none) = (batch.as_ptr(), ptr::null::<i32>());
        // SAFETY: both arrays have as many entries as is said; without nodes the call only looks.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_move_pages,
                0,
                batch.len(),
                pages,
                none,
                status.as_mut_ptr(),
                0,
            )
        };
        if answer != 0 {
            continue;
        }
        let known = batch.iter().zip(&status).filter(|(_, node)| **node >= 0);
        found.extend(known.map(|(address, node)| (*address, *node as u32)));
    }
    found
}

/// A mapping of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// Its addresses.
    pub range: Range<usize>,
    /// Whether it may be written.
    pub writable: bool,
    /// Whether writes stay in this process.
    pub private: bool,
    /// The file, or a name like `[heap]`; empty for anonymous memory.
    pub name: String,
    /// Whether anything of it is in memory.
    pub resident: bool,
}

/// The mappings of this process, by address.
pub fn areas() -> Vec<Area> {
    parse(&fs::read_to_string("/proc/self/smaps").unwrap_or_default())
}

fn parse(smaps: &str) -> Vec<Area> {
    let mut areas: Vec<Area> = Vec::new();
    for line in smaps.lines() {
        if let Some(area) = area(line) {
            areas.push(area);
        } else if let Some(size) = line.strip_prefix("Rss:") {
            let resident = size.trim() != "0 kB";
            areas
                .iter_mut()
                .last()
                .into_iter()
                .for_each(|area| area.resident = resident);
        }
    }
    areas
}

/// The line that begins a mapping: `start-end rwxp offset device inode name`.
fn area(line: &str) -> Option<Area> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let (start, end) = (
        usize::from_str_radix(start, 16).ok()?,
        usize::from_str_radix(end, 16).ok()?,
    );
    let rights = words.next()?;
    let name = words.skip(3).collect::<Vec<_>>().join(" ");
    let (writable, private) = (rights.contains('w'), rights.ends_with('p'));
    Some(Area {
        range: start..end,
        writable,
        private,
        name,
        resident: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_read() {
        let smaps = "55d0-65d0 rw-p 00000000 00:00 0          [heap]\nSize: 4 kB\nRss:                 0 kB\n\
                     7000-9000 r-xs 00001000 08:01 12 /lib/with space.so (deleted)\nRss:       8 kB\nVmFlags: rd\n";
        let areas = parse(smaps);
        let expected = [
            (0x55d0..0x65d0, true, true, "[heap]", false),
            (0x7000..0x9000, false, false, "/lib/with space.so (deleted)", true),
        ];
        for (area, (range, writable, private, name, resident)) in areas.iter().zip(expected.clone()) {
            let read = (
                area.range.clone(),
                area.writable,
                area.private,
                area.name.as_str(),
                area.resident,
            );
            assert_eq!(read, (range, writable, private, name, resident));
        }
        assert_eq!(areas.len(), expected.len());
    }

    #[test]
    fn a_touched_page_has_a_node_and_an_untouched_one_has_none() {
        let mapping = crate::sys::memory::Mapping::anonymous(2 * PAGE).unwrap();
        let start = mapping.base() as usize;
        // SAFETY: inside the mapping, which nobody else uses.
        unsafe { mapping.base().write_volatile(1) };
        let pages = nodes(start..start + 2 * PAGE);
        // A kernel without NUMA has no move_pages.
        assert!(pages.is_empty() || pages == [(start, pages[0].1)], "{pages:?}");
        prefer(start + PAGE..start + 2 * PAGE, 0);
    }
}
