//! # Safety
//! Declares copies that trust their caller's lengths; nothing is done here.
//!
//! What the channel knows of a message's memory.
#![allow(unsafe_code)]

/// A message's bytes as the channel sees them: where they lie, and how to take some of them.
pub trait Bytes: Clone {
    /// Bytes in the message.
    fn len(&self) -> usize;

    /// Where they lie, if in a row.
    fn in_a_row(&self) -> Option<*mut u8>;

    /// Copies `len` bytes from `position` on to `to`.
    ///
    /// # Safety
    /// `to` has room for `len` bytes, and the message has as many from `position` on.
    unsafe fn take(&self, position: usize, to: *mut u8, len: usize);

    /// Puts `len` bytes from `from` to `position`.
    ///
    /// # Safety
    /// `from` holds `len` bytes, and the message has room for them from `position` on.
    unsafe fn put(&self, position: usize, from: *const u8, len: usize);

    /// A copy in memory of the library's, in a row.
    fn kept(&self) -> Self;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
