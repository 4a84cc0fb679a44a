//! Shared-memory structures that know no MPI: where everything lies, and who may write which word.
//!
//! Common rules: one writer per word; memory of zero bytes is a valid start; a word read from the
//! segment is loaded once, checked, then used.

pub mod bell;
pub mod board;
pub mod context;
pub mod doing;
pub mod fate;
pub mod file_pointer;
pub mod layout;
pub mod mailbox;
pub mod names;
pub mod offer;
pub mod pool;
pub mod port;
pub mod profile;
pub mod ring;
#[cfg(not(loom))]
pub mod segment;
pub mod shuttle;
pub mod stores;
pub mod sync;
pub mod waiting;
pub mod window;
#[cfg(not(loom))]
pub mod zone;
