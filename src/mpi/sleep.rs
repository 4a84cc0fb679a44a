//! Falling asleep and waking: what a rank tells the launcher about it, and what it looks after.

use super::request::Kind;
use super::world::{Hold, State};
use crate::shm::waiting::{DESCRIBED, Item};

/// Requests that are looked through for one that something outside may end.
const LOOKED_THROUGH: usize = 1024;
/// In place of a context number: not known.
const NO_CONTEXT: u16 = u16::MAX;

impl Hold<'_> {
    /// Says what this rank waits for, unless that has been said.
    pub(super) fn tell_sleep(&mut self) {
        if self.engine.told {
            return self.waiting().settle();
        }
        self.engine.told = true;
        let threads = self.has_threads() || self.may_be_ended_from_outside();
        let state: &State = self;
        let sends = state.engine.channel.open_sends();
        let sends = sends.map(|to| Item {
            is_send: true,
            peer: Some(to),
            tag: None,
            context: NO_CONTEXT,
        });
        let receives = state.engine.posted.iter().map(|(pattern, key)| Item {
            is_send: false,
            peer: pattern.source().and_then(|source| {
                let comm = state.requests.get(key)?.comm.as_ref()?;
                comm.peers().members.get(source as usize).copied()
            }),
            tag: pattern.tag(),
            context: pattern.context(),
        });
        let items: Vec<Item> = receives.chain(sends).take(DESCRIBED).collect();
        let count = state.engine.posted.len() + state.engine.channel.open_sends().count();
        self.waiting().fall_asleep(threads, count as u32, &items);
    }

    fn may_be_ended_from_outside(&self) -> bool {
        let requests = &self.requests;
        requests.len() > LOOKED_THROUGH
            || requests
                .iter()
                .any(|(_, request)| matches!(request.kind, Kind::Generalized(_)))
    }
}

impl State {
    /// Says that this rank is awake, if it has said otherwise. Comes before work that may take long.
    #[inline]
    pub fn tell_awake(&mut self) {
        if self.engine.told {
            self.engine.told = false;
            self.waiting().wake();
        }
    }

    /// Says that this rank looks around between two naps.
    pub(super) fn tell_stir(&self) {
        self.waiting().stir();
    }

    fn waiting(&self) -> &crate::shm::waiting::Waiting {
        let channel = &self.engine.channel;
        &channel.segment().rank(channel.me()).waiting
    }
}
