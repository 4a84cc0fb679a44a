//! Buffers that the program attaches for buffered sends (MPI-4.1 §3.6).
//!
//! The messages themselves are copied to memory of ours; an attached buffer is the account they are
//! held against, so that a program that overdraws it gets the error the standard promises. A message
//! takes the account of its communicator, or else of its session, or else of the process.

use crate::fail;
use crate::mpi::comm::Comm;
use crate::mpi::error::Result;
use crate::mpi::world::State;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes that each message takes besides its data (`MPI_BSEND_OVERHEAD`).
pub const OVERHEAD: usize = 88;

/// An account, shared by whatever it is attached to and the messages that hold room in it.
pub type Account = Rc<RefCell<Attached>>;

/// What is attached, and what is held against it.
#[derive(Debug, Default)]
pub struct Attached {
    /// Address and size, as the program gave them; `None` while nothing is attached.
    pub buffer: Option<(usize, usize)>,
    used: usize,
    epoch: u64,
    /// Messages on their way, by the epoch they were charged in.
    open: BTreeMap<u64, usize>,
}

/// The room that a message holds.
#[derive(Debug)]
pub struct Charge {
    account: Account,
    room: usize,
    epoch: u64,
}

impl Attached {
    /// Whether no message holds room.
    pub fn is_idle(&self) -> bool {
        self.open.is_empty()
    }

    /// Begins another epoch and names the last one.
    pub fn next_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch - 1
    }

    /// Whether every message charged up to the end of `epoch` has left.
    pub fn has_left(&self, epoch: u64) -> bool {
        self.open.first_key_value().is_none_or(|(&first, _)| first > epoch)
    }
}

impl Charge {
    /// Takes room for a message of `len` bytes.
    ///
    /// # Errors
    /// `Buffer` when none is attached or it is full.
    pub fn take(account: Account, len: usize) -> Result<Charge> {
        let mut attached = account.borrow_mut();
        let Some((_, size)) = attached.buffer else {
            fail!(Buffer, "no buffer is attached for buffered sends (MPI_Buffer_attach)");
        };
        let room = len + OVERHEAD;
        if room > size - attached.used {
            fail!(
                Buffer,
                "a buffered send of {len} bytes needs {room} bytes with its overhead, but only {} of the attached {size} are free",
                size - attached.used
            );
        }
        attached.used += room;
        let epoch = attached.epoch;
        *attached.open.entry(epoch).or_default() += 1;
        drop(attached);
        Ok(Charge { account, room, epoch })
    }

    /// The message is on its way: its room is free again.
    pub fn give_back(&self) {
        let mut attached = self.account.borrow_mut();
        attached.used -= self.room;
        let open = attached.open.get_mut(&self.epoch).map_or(0, |open| {
            *open -= 1;
            *open
        });
        if open == 0 {
            attached.open.remove(&self.epoch);
        }
    }
}

impl State {
    /// The account that buffered sends on `comm` are held against.
    pub fn account(&self, comm: &Comm) -> Account {
        let own = Some(&comm.buffered);
        let session = comm.session.as_ref().map(|session| &session.buffered);
        let attached = |account: &&Account| account.borrow().buffer.is_some();
        let found = own.into_iter().chain(session).find(attached);
        found.unwrap_or(&self.engine.buffered).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::error::Class;

    #[test]
    fn the_account_holds_what_was_attached_and_no_more() {
        let account = Account::default();
        let charge = |len| Charge::take(account.clone(), len);
        assert_eq!(charge(1).unwrap_err().class(), Class::Buffer);
        account.borrow_mut().buffer = Some((0, 2 * (100 + OVERHEAD)));
        let first = charge(100).unwrap();
        charge(100).unwrap();
        assert_eq!(charge(0).unwrap_err().class(), Class::Buffer);
        first.give_back();
        assert!(charge(100).is_ok() && !account.borrow().is_idle());
    }

    #[test]
    fn a_flush_waits_for_the_messages_before_it_alone() {
        let account = Account::default();
        account.borrow_mut().buffer = Some((0, usize::MAX));
        let (first, second) = (
            Charge::take(account.clone(), 1).unwrap(),
            Charge::take(account.clone(), 1).unwrap(),
        );
        let epoch = account.borrow_mut().next_epoch();
        Charge::take(account.clone(), 1).unwrap();
        second.give_back();
        assert!(!account.borrow().has_left(epoch));
        first.give_back();
        assert!(account.borrow().has_left(epoch) && !account.borrow().is_idle());
    }
}
