//! The buffer that the program attaches for buffered sends (MPI-4.1 §3.6).
//!
//! The messages themselves are copied to memory of ours; the attached buffer is the account they are
//! held against, so that a program that overdraws it gets the error the standard promises.

use crate::fail;
use crate::mpi::error::Result;

/// Bytes that each message takes besides its data (`MPI_BSEND_OVERHEAD`).
pub const OVERHEAD: usize = 88;

/// The account.
#[derive(Debug, Default)]
pub struct Attached {
    /// Address and size, as the program gave them; `None` while nothing is attached.
    pub buffer: Option<(usize, usize)>,
    used: usize,
}

impl Attached {
    /// Takes room for a message of `len` bytes; returns how much to give back.
    ///
    /// # Errors
    /// `Buffer` when none is attached or it is full.
    pub fn charge(&mut self, len: usize) -> Result<usize> {
        let Some((_, size)) = self.buffer else {
            fail!(Buffer, "no buffer is attached for buffered sends (MPI_Buffer_attach)");
        };
        let need = len + OVERHEAD;
        if need > size - self.used {
            fail!(
                Buffer,
                "a buffered send of {len} bytes needs {need} bytes with its overhead, but only {} of the attached {size} are free",
                size - self.used
            );
        }
        self.used += need;
        Ok(need)
    }

    /// A message is on its way: its room is free again.
    pub fn give_back(&mut self, room: usize) {
        self.used -= room;
    }

    /// Whether no message holds room.
    pub fn is_idle(&self) -> bool {
        self.used == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::error::Class;

    #[test]
    fn the_account_holds_what_was_attached_and_no_more() {
        let mut attached = Attached::default();
        assert_eq!(attached.charge(1).unwrap_err().class(), Class::Buffer);
        attached.buffer = Some((0, 2 * (100 + OVERHEAD)));
        let room = attached.charge(100).unwrap();
        attached.charge(100).unwrap();
        assert_eq!(attached.charge(0).unwrap_err().class(), Class::Buffer);
        attached.give_back(room);
        assert!(attached.charge(100).is_ok() && !attached.is_idle());
    }
}
