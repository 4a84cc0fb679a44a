//! Messages that have come before their receive: what is kept of them.

use crate::channel::packet::{Asked, Offered};
use crate::mpi::request::RequestKey;
use std::cell::RefCell;
use std::rc::Rc;

/// Bytes of a message that are kept without an allocation.
const FEW: usize = 22;

/// A message without a receive. Small ones take no memory but this.
#[derive(Debug)]
pub enum Stored {
    /// A few bytes.
    Few(u8, [u8; FEW]),
    /// The whole message.
    Whole(Box<[u8]>),
    /// A message of which portions are still to come.
    Arriving(Rc<RefCell<Arriving>>),
    /// A message that waits in its sender's memory.
    Offer(Box<Offered>),
    /// The whole message, whose sender waits until it is received.
    Asked(Box<(Asked, Box<[u8]>)>),
}

const _: () = assert!(size_of::<Stored>() <= 24);

/// A message that comes in portions.
#[derive(Debug)]
pub struct Arriving {
    /// Bytes in the message.
    pub total: usize,
    /// The bytes that have come.
    pub bytes: Vec<u8>,
    /// Its sender is dead: the rest will not come.
    pub is_lost: bool,
    /// The receive that waits for the rest.
    pub claimed: Option<RequestKey>,
}

impl Stored {
    /// Keeps a copy of `bytes`.
    pub fn copy(bytes: &[u8]) -> Stored {
        if bytes.len() <= FEW {
            let mut few = [0; FEW];
            few[..bytes.len()].copy_from_slice(bytes);
            return Stored::Few(bytes.len() as u8, few);
        }
        Stored::Whole(bytes.into())
    }

    /// The message, if it has come and is kept here whole.
    #[inline]
    pub fn whole(&self) -> Option<&[u8]> {
        match self {
            Stored::Few(len, bytes) => bytes.get(..usize::from(*len)),
            Stored::Whole(bytes) => Some(bytes),
            Stored::Arriving(_) | Stored::Offer(_) | Stored::Asked(_) => None,
        }
    }

    /// Bytes in the message.
    pub fn len(&self) -> usize {
        match self {
            Stored::Few(len, _) => usize::from(*len),
            Stored::Whole(bytes) => bytes.len(),
            Stored::Arriving(arriving) => arriving.borrow().total,
            Stored::Offer(offered) => offered.len as usize,
            Stored::Asked(kept) => kept.1.len(),
        }
    }

    /// Whether the message holds no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
