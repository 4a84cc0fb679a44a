//! Messages that their senders offer: which receive takes one, and how it gets there.

use super::engine::received;
use super::matching::Envelope;
use super::types::Which;
use super::unexpected::Stored;
use crate::channel::Fault;
use crate::channel::packet::Offered;
use crate::channel::pull::Brought;
use crate::mpi::error::{Result, fault};
use crate::mpi::request::{Coming, RequestKey, Stage};
use crate::mpi::sleep::Awaited;
use crate::mpi::world::State;

impl State {
    /// Lets the channel see whether this rank is late for a large message.
    pub(super) fn note_arrival(&mut self, from: u32, expected: bool) -> Result<()> {
        let queue = self.engine.unexpected.len() + usize::from(!expected);
        self.engine.channel.note_arrival(from, expected, queue).map_err(fault)
    }

    /// An offer has come, and perhaps others behind it that are copied with it.
    pub(super) fn offer(&mut self, envelope: Envelope, offered: Offered) -> Result<()> {
        let from = offered.from;
        let mut waits = self.offer_one(envelope, offered);
        while let Ok(true) = waits
            && let Some((envelope, next)) = self.engine.channel.next_for_together(from)
        {
            waits = self.offer_one(Envelope(envelope), next);
        }
        let mut outcome = waits.map(drop);
        if self.engine.channel.has_soon() {
            let (whole, brought) = self.engine.channel.bring_together();
            for &token in whole.tokens() {
                outcome = outcome.and(self.whole(from, token));
            }
            outcome = outcome.and(brought.map_err(fault));
        }
        outcome
    }

    /// Claims the offer before it takes a posted receive, so that the receive is not taken in vain; and only if there is
    /// one, so that its sender can withdraw it until then. Who waits for this message alone gets it alone. Whether it waits for others.
    fn offer_one(&mut self, envelope: Envelope, offered: Offered) -> Result<bool> {
        self.post_partitions(envelope, offered.len as usize)?;
        let wanted = self.engine.posted.wants(envelope);
        let channel = &self.engine.channel;
        if !(if wanted {
            channel.claim(&offered)
        } else {
            channel.stands(&offered)
        }) {
            self.drop_note(envelope, Which::Latest);
            return Ok(false);
        }
        self.note_arrival(offered.from, wanted)?;
        match self.engine.posted.take(envelope) {
            Some(key) => {
                let may_wait = !matches!(self.engine.awaited, Awaited::Request(awaited) if awaited == key);
                self.bring_by(key, envelope, &offered, may_wait)
            }
            None => {
                if let Awaited::Request(awaited) = self.engine.awaited {
                    self.engine.channel.leave_own(&offered, awaited);
                }
                self.engine.unexpected.push(envelope, Stored::Offer(Box::new(offered)));
                Ok(false)
            }
        }
    }

    /// Brings a claimed offer into the receive's buffer.
    pub(super) fn bring(&mut self, key: RequestKey, envelope: Envelope, offered: &Offered) -> Result<()> {
        self.bring_by(key, envelope, offered, false).map(drop)
    }

    /// The same, or lets it wait for others: whether it has.
    fn bring_by(&mut self, key: RequestKey, envelope: Envelope, offered: &Offered, may_wait: bool) -> Result<bool> {
        self.tell_awake();
        self.take_note(key, envelope);
        let Some(receive) = self.receive(key) else {
            return Ok(false);
        };
        let (buffer, len) = (receive.buffer.clone(), offered.len as usize);
        let wanted = len.min(buffer.len());
        receive.stage = Stage::Coming(Coming {
            from: offered.from,
            envelope,
            len,
            wanted,
        });
        let channel = &mut self.engine.channel;
        if let Some(meter) = channel.meter() {
            meter.dwell();
        }
        let brought = match may_wait {
            true => channel.bring_soon(offered, &buffer, wanted, key),
            false => channel.bring(offered, &buffer, wanted, key),
        };
        let brought = brought.map_err(fault)?;
        channel.count_brought(offered.from, envelope.0, wanted);
        if brought == Brought::Copied {
            self.whole(offered.from, key)?;
        }
        Ok(brought == Brought::Soon)
    }

    /// The offer that the receive `token` has taken lies in its buffer.
    pub(super) fn whole(&mut self, from: u32, token: u32) -> Result<()> {
        let receive = self.receive(token);
        let taken = receive.and_then(|receive| Some((receive.coming()?, &receive.buffer)));
        let Some((coming, buffer)) = taken.filter(|(coming, _)| coming.from == from) else {
            return Err(fault(Fault { from }));
        };
        let (status, error) = received(coming.envelope, coming.len, buffer);
        let error = error.or(self.mismatch(token, coming.envelope));
        self.complete(token, status, error);
        Ok(())
    }
}
