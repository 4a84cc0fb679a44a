//! # Safety
//! Copies that trust their caller's lengths.
//!
//! What the channel knows of a message's memory.
#![allow(unsafe_code)]

/// Bytes on their way from gaps to gaps.
const PIECE: usize = 4096;

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

    /// Copies the first `len` bytes to the first of `to`.
    ///
    /// # Safety
    /// Both have as many, which do not overlap.
    unsafe fn give(&self, to: &Self, len: usize) {
        match (self.in_a_row(), to.in_a_row()) {
            // SAFETY: the caller's promise.
            (Some(from), _) => unsafe { to.put(0, from, len) },
            // SAFETY: as above.
            (None, Some(to)) => unsafe { self.take(0, to, len) },
            (None, None) => {
                let mut piece = [0u8; PIECE];
                for position in (0..len).step_by(PIECE) {
                    let step = PIECE.min(len - position);
                    // SAFETY: as above; the piece has room for `step` bytes, and holds them then.
                    unsafe {
                        self.take(position, piece.as_mut_ptr(), step);
                        to.put(position, piece.as_ptr(), step);
                    }
                }
            }
        }
    }

    /// A copy in memory of the library's, in a row.
    fn kept(&self) -> Self;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
