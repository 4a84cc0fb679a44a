//! Messages that have come before their receive: what is kept of them, and how a receive gets it.

use super::matching::Envelope;
use super::types::Which;
use crate::channel::packet::{Asked, Offered};
use crate::mpi::error::Result;
use crate::mpi::request::RequestKey;
use crate::mpi::world::State;
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

impl State {
    /// Gives a kept message to the receive `key`, whose posting has been taken: at once, or when it has come.
    /// False when its sender has withdrawn it.
    ///
    /// # Errors
    /// A peer that left the protocol.
    pub fn give(&mut self, key: RequestKey, envelope: Envelope, stored: Stored) -> Result<bool> {
        let is_here = self.claim(&stored);
        match is_here {
            true => self.give_claimed(key, envelope, stored)?,
            false => self.drop_note(envelope, Which::First),
        }
        Ok(is_here)
    }

    /// As [`State::give`], a message that has been claimed.
    ///
    /// # Errors
    /// As [`State::give`].
    pub(super) fn give_claimed(&mut self, key: RequestKey, envelope: Envelope, stored: Stored) -> Result<()> {
        self.take_note(key, envelope);
        match stored {
            Stored::Few(len, bytes) => self.fill(key, envelope, bytes.as_ptr(), usize::from(len)),
            Stored::Whole(bytes) => self.fill(key, envelope, bytes.as_ptr(), bytes.len()),
            Stored::Arriving(arriving) => {
                let mut message = arriving.borrow_mut();
                if message.is_lost {
                    self.lose(key, envelope.source());
                } else if message.bytes.len() < message.total {
                    message.claimed = Some(key);
                } else {
                    self.fill(key, envelope, message.bytes.as_ptr(), message.total);
                }
            }
            Stored::Offer(offered) if self.is_dead(offered.from) => {
                self.lose(key, envelope.source());
            }
            Stored::Offer(offered) => self.bring(key, envelope, &offered)?,
            Stored::Asked(kept) => {
                self.fill(key, envelope, kept.1.as_ptr(), kept.1.len());
                self.answer(&kept.0)?;
            }
        }
        Ok(())
    }

    /// Claims a kept message, which its sender cannot withdraw from now on. False when it has done so before.
    pub(super) fn claim(&self, stored: &Stored) -> bool {
        match stored {
            Stored::Offer(offered) => self.engine.channel.claim(offered),
            Stored::Asked(kept) => self.engine.channel.claim_asked(&kept.0),
            _ => true,
        }
    }

    /// Whether a kept message can still be received.
    pub fn stands(&self, stored: &Stored) -> bool {
        match stored {
            Stored::Offer(offered) => self.engine.channel.stands(offered),
            Stored::Asked(kept) => self.engine.channel.asked_stands(&kept.0),
            _ => true,
        }
    }
}
