//! # Safety
//! Finds the pointer in a view of shared memory, which is a page at least.
//!
//! What the processes that have opened a file together share: the file pointer of MPI-4.1 §14.4.4.
//!
//! ```text
//!  0          8
//! | position |
//! ```
//! `position` counts bytes of data in the view, in memory of the first of them.

#![allow(unsafe_code)]

use super::sync::{AtomicU64, Ordering};
#[cfg(not(loom))]
use super::zone::View;

/// The shared file pointer.
#[repr(C)]
#[derive(Debug, Default)]
pub struct FilePointer {
    position: AtomicU64,
}

impl FilePointer {
    /// The one that lies at the beginning of `memory`.
    #[cfg(not(loom))]
    pub fn at(memory: &View) -> &FilePointer {
        // SAFETY: a view has a page at least, which is mapped as long as it lives; any bytes are a number.
        unsafe { &*memory.base().cast() }
    }

    /// Where it stands.
    pub fn get(&self) -> u64 {
        self.position.load(Ordering::Acquire)
    }

    /// Puts it somewhere.
    pub fn set(&self, position: u64) {
        self.position.store(position, Ordering::Release);
    }

    /// Moves it on; where it stood before.
    pub fn advance(&self, by: u64) -> u64 {
        self.position.fetch_add(by, Ordering::AcqRel)
    }
}
