//! # Safety
//! Reads arrivals where the channel says they lie until they are consumed.
//!
//! Synchronous messages that come by value: their sender is told when a receive has them.
#![allow(unsafe_code)]

use super::matching::Envelope;
use super::types::Which;
use super::unexpected::Stored;
use crate::channel::packet::Asked;
use crate::mpi::error::Result;
use crate::mpi::error::fault;
use crate::mpi::world::State;

impl State {
    /// Claims the message before it takes a posted receive, so that the receive is not taken in vain.
    pub(super) fn asked(&mut self, envelope: Envelope, asked: Asked, data: *const u8, len: usize) -> Result<()> {
        let wanted = self.engine.posted.wants(envelope);
        let channel = &mut self.engine.channel;
        let here = match wanted {
            true => channel.claim_asked(&asked),
            false => channel.asked_stands(&asked),
        };
        if !here {
            channel.consume(asked.from);
            self.drop_note(envelope, Which::Latest);
            return Ok(());
        }
        match self.engine.posted.take(envelope) {
            Some(key) => {
                self.fill(key, envelope, data, len);
                self.answer(&asked)?;
            }
            None => {
                // SAFETY: the channel keeps the bytes in place until the arrival is consumed.
                let bytes = unsafe { std::slice::from_raw_parts(data, len) };
                let kept = Stored::Asked(Box::new((asked, bytes.into())));
                self.engine.unexpected.push(envelope, kept);
            }
        }
        self.engine.channel.consume(asked.from);
        Ok(())
    }

    /// Tells the sender that a receive has its message.
    pub(super) fn answer(&mut self, asked: &Asked) -> Result<()> {
        self.engine.channel.finish_offer(asked.from, asked.id).map_err(fault)
    }
}
