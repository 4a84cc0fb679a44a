//! # Safety
//! Maps a file as a block: relies on nobody making it shorter while it is mapped.
//!
//! A block in a file of its own, for jobs whose launcher keeps none.
#![allow(unsafe_code)]

use super::{Block, Fixed, len};
use crate::shm::layout::MAX_RANKS;
use crate::sys::memory::{self, Mapping};
use std::fs::{File, read_dir};
use std::io;
use std::mem::offset_of;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

/// How the files are called that [`create`] makes.
const PREFIX: &str = "rank-";
const SUFFIX: &str = ".counts";

/// Makes the file of rank `rank` in `folder`, which is made too if it is not there, in place of an older one.
///
/// # Errors
/// What the kernel says; the file has all the room it needs.
pub fn create(folder: &Path, rank: u32, ranks: u32) -> io::Result<Block> {
    std::fs::create_dir_all(folder)?;
    let path = folder.join(format!("{PREFIX}{rank}{SUFFIX}"));
    // The old one may be mapped still: it is not written to.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    memory::reserve(file.as_fd(), len(ranks))?;
    map(&file, ranks)
}

/// The files in `folder` that [`create`] made, with their ranks.
///
/// # Errors
/// What the kernel says.
pub fn list(folder: &Path) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut found = Vec::new();
    for entry in read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        let rank = name.strip_prefix(PREFIX).and_then(|name| name.strip_suffix(SUFFIX));
        if let Some(rank) = rank.and_then(|rank| rank.parse().ok()) {
            found.push((rank, path));
        }
    }
    found.sort();
    Ok(found)
}

/// Opens the file of one rank.
///
/// # Errors
/// What the kernel says; `InvalidData` for a file that does not have the length that its number of ranks asks
/// for, or in which no rank of this version has begun to count.
pub fn open(path: &Path) -> io::Result<Block> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what);
    let file = File::options().read(true).write(true).open(path)?;
    let mut word = [0; size_of::<u32>()];
    file.read_exact_at(&mut word, offset_of!(Fixed, head.ranks) as u64)?;
    let ranks = u32::from_le_bytes(word);
    if ranks > MAX_RANKS || memory::len(file.as_fd())? != len(ranks) {
        return Err(wrong("not the counts of a rank: its length is another"));
    }
    let block = map(&file, ranks)?;
    match block.is_begun() {
        true => Ok(block),
        false => Err(wrong("not the counts of a rank, or another version's")),
    }
}

fn map(file: &File, ranks: u32) -> io::Result<Block> {
    let mapping = Mapping::shared(file.as_fd(), len(ranks))?;
    let place = NonNull::new(mapping.base()).expect("a mapping is never at address 0");
    // SAFETY: the file is as long as a block, and the mapping is kept.
    Ok(unsafe { Block::new(place, ranks, Box::new(mapping)) })
}

#[cfg(test)]
mod tests {
    use super::super::Start;
    use super::*;

    #[test]
    fn what_is_counted_in_a_file_is_read_from_it() {
        let folder = std::env::temp_dir().join(format!("nearmpi-counts-{}", std::process::id()));
        let block = create(&folder, 3, 5).unwrap();
        let start = Start {
            began: [0; 3],
            job: 9,
            rank: 3,
            cpus: 2,
            settings: &[],
            name: b"x",
        };
        block.begin(&start);
        let found = list(&folder).unwrap();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, 3);
        assert_eq!(open(&found[0].1).unwrap().ranks(), 5);
        create(&folder, 3, 5).unwrap();
        assert_eq!(open(&found[0].1).err().unwrap().kind(), io::ErrorKind::InvalidData);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
