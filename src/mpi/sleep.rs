//! Falling asleep and waking: what a rank tells the launcher about it, and what it looks after, for all its threads.

use super::coll::board::waits::Wait;
use super::comm::Comm;
use super::error::Result;
use super::pt2pt::matching::{Envelope, Pattern};
use super::request::{Kind, RequestKey};
use super::world::{Hold, State};
use crate::channel::outgoing::OpenSend;
use crate::channel::wait::Bed;
use crate::shm::waiting::{Account, DESCRIBED, Item, NAME, NEAR, Near};
use crate::sys::clock;
use std::time::Duration;

/// Requests that are looked through for one that something outside may end.
const LOOKED_THROUGH: usize = 1024;
/// Unexpected messages that are looked through for some that nearly match.
const COMPARED: usize = 1024;

/// What a call waits for, for those who watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Awaited {
    /// Several things, or something else.
    #[default]
    Several,
    /// This request.
    Request(RequestKey),
    /// This request, which a process may end that is not of the job yet (MPI_Comm_accept).
    Stranger(RequestKey),
    /// This request, which time may end (MPI_Comm_connect).
    Late(RequestKey),
    /// A message that matches, from this rank of the job if it is known.
    Probe(Pattern, Option<u32>),
}

/// How the polling thread sees for another one that what that waits for has come, which no message tells.
pub enum Sign {
    /// By a board.
    Board(Wait),
    /// By something else in shared memory.
    Seen(Box<dyn Fn() -> bool>),
}

/// What a rank's threads wait for that no message tells.
#[derive(Default)]
pub struct Watch {
    list: Vec<Watched>,
    next: u64,
}

/// What a thread waits for.
struct Watched {
    key: u64,
    sign: Sign,
    item: Item,
    /// The thread has been told that it came.
    told: bool,
}

impl Watch {
    /// Whether something has come that a thread waits for and has not been told of yet: now it is to be.
    fn has_news(&mut self) -> bool {
        let mut news = false;
        for watched in self.list.iter_mut().filter(|watched| !watched.told) {
            watched.told = match &watched.sign {
                Sign::Board(wait) => wait.is_over(),
                Sign::Seen(is_seen) => is_seen(),
            };
            news |= watched.told;
        }
        news
    }
}

impl Hold<'_> {
    /// As [`Hold::wait_until`], for what another thread of this rank, if one polls, notices by `sign` and the launcher hears of as `item`.
    ///
    /// # Errors
    /// As [`Hold::wait_until`].
    pub fn wait_for_sign(
        &mut self,
        (sign, item): (Sign, Item),
        mut done: impl FnMut(&mut Hold) -> Result<bool>,
    ) -> Result<()> {
        let watch = &mut self.engine.watch;
        watch.next += 1;
        let (key, told) = (watch.next, false);
        watch.list.push(Watched { key, sign, item, told });
        let outcome = self.wait_until(None, |hold| {
            let over = done(hold)?;
            // What came may be gone, as a lock that somebody else has taken.
            let own = |watched: &&mut Watched| !over && watched.key == key;
            if let Some(own) = hold.engine.watch.list.iter_mut().find(own) {
                own.told = false;
            }
            Ok(over)
        });
        self.engine.watch.list.retain(|watched| watched.key != key);
        outcome
    }

    /// Sleeps until something may have come; whether somebody has woken this rank, who may be about to ask it for something.
    pub(super) fn sleep(&mut self, done: &mut impl FnMut(&mut Hold) -> Result<bool>) -> Result<bool> {
        let Some(most) = self.engine.channel.leave_late() else {
            return Ok(false);
        };
        let bed = self.engine.channel.announce_sleep();
        self.engine.asleep = true;
        let outcome = self.lie_down(&bed, most, done);
        self.engine.asleep = false;
        self.engine.channel.awake();
        outcome
    }

    /// In a bed that others know of: sleeps, unless something has come.
    fn lie_down(
        &mut self,
        bed: &Bed,
        most: Duration,
        done: &mut impl FnMut(&mut Hold) -> Result<bool>,
    ) -> Result<bool> {
        if self.progress(None)? || done(self)? || self.tell_news() {
            return Ok(false);
        }
        self.tell_sleep();
        let vigil = self.vigil;
        let rung = self.released(|| {
            bed.sleep(most) || {
                vigil();
                false
            }
        });
        self.engine.channel.seen();
        match rung {
            true => self.tell_awake(),
            false => self.tell_stir(),
        }
        Ok(rung)
    }

    /// Wakes threads that wait for something that has come and that no message tells; whether there was any.
    #[inline]
    pub(super) fn tell_news(&mut self) -> bool {
        let news = self.engine.napping > 0 && self.engine.watch.has_news();
        if news {
            self.wake_threads();
        }
        news
    }

    /// Says what this rank waits for, unless that has been said.
    fn tell_sleep(&mut self) {
        if self.engine.told {
            return self.block().waiting.settle();
        }
        self.engine.told = true;
        let outside = self.may_be_ended_from_outside();
        let mut account = self.sleep_account();
        (account.threads, account.outside) = (self.has_threads(), outside);
        account.is_certain &= !outside;
        self.tell_queues();
        self.block().waiting.fall_asleep(&account);
    }

    fn may_be_ended_from_outside(&self) -> bool {
        let requests = &self.requests;
        matches!(self.engine.awaited, Awaited::Stranger(_) | Awaited::Late(_))
            || self.helped
            || requests.len() > LOOKED_THROUGH
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
            self.block().waiting.wake();
        }
    }

    /// Says that this rank looks around between two naps.
    fn tell_stir(&self) {
        self.block().waiting.stir();
    }

    /// Says how long the queues are.
    #[inline]
    pub fn tell_queues(&self) {
        let engine = &self.engine;
        self.block().doing.queues(engine.posted.len(), engine.unexpected.len());
    }

    fn block(&self) -> &crate::shm::segment::RankBlock {
        self.engine.channel.block()
    }

    /// What is under way, what the call waits for first.
    fn sleep_account(&self) -> Account {
        let awaited = match self.engine.awaited {
            Awaited::Request(key) | Awaited::Stranger(key) | Awaited::Late(key) => Some(self.active(key)),
            _ => None,
        };
        let mut wanted = None;
        let mut items = Vec::new();
        let mut first = |is_first: bool, item: Item| match is_first {
            true => items.insert(0, item),
            false if items.len() < DESCRIBED => items.push(item),
            false => {}
        };
        let posted = self.engine.posted.iter();
        let posted = posted.map(|(pattern, key)| (pattern, key, self.receive_item(pattern, key)));
        let expected = self.expected_partitions();
        let expected = expected.map(|(pattern, from, len, key)| (pattern, key, item(pattern, Some(from), len as u64)));
        for (pattern, key, shown) in posted.chain(expected) {
            let is_first = awaited == Some(key);
            if is_first || wanted.is_none() {
                wanted = Some(pattern);
            }
            first(is_first, shown);
        }
        for send in self.engine.channel.open_sends() {
            first(awaited == Some(send.ticket), self.send_item(&send));
        }
        let received = self.engine.posted.len() + self.expected_partitions().count();
        let mut count = received + self.engine.channel.open_sends().count();
        let mut is_certain = awaited.is_some_and(|key| self.is_under_way(key));
        for (key, shown) in self.desk.started.iter().map(|started| started.item()) {
            let is_first = key.is_some() && awaited == key;
            first(is_first, shown);
            (count, is_certain) = (count + 1, is_certain || is_first);
        }
        if let Awaited::Probe(pattern, peer) = self.engine.awaited {
            items.insert(0, item(pattern, peer, 0));
            (wanted, count, is_certain) = (Some(pattern), count + 1, true);
        }
        for (index, watched) in self.engine.watch.list.iter().enumerate() {
            items.insert(index, watched.item);
            (count, is_certain, wanted) = (count + 1, index == 0, None);
        }
        items.truncate(DESCRIBED);
        Account {
            count: count as u32,
            is_certain,
            since: clock::nanoseconds(),
            name: items.first().map(|item| self.name_of(item.context)).unwrap_or_default(),
            near: wanted.map(|pattern| self.near(pattern)).unwrap_or_default(),
            items,
            ..Account::default()
        }
    }

    /// Whether the request stands among the items: it is a receive without a message, a partitioned one too, or an open send.
    fn is_under_way(&self, key: RequestKey) -> bool {
        self.engine.posted.iter().any(|(_, posted)| posted == key)
            || self.partitioning.source(key).is_some()
            || self.engine.channel.open_sends().any(|send| send.ticket == key)
    }

    fn receive_item(&self, pattern: Pattern, key: RequestKey) -> Item {
        let request = self.requests.get(key);
        let comm = request.and_then(|request| request.comm.as_ref());
        let peer = pattern
            .source()
            .and_then(|source| comm?.peers().members.get(source as usize).copied());
        let room = match request.map(|request| &request.kind) {
            Some(Kind::Recv(receive)) => receive.buffer.len(),
            _ => 0,
        };
        item(pattern, peer, room as u64)
    }

    fn send_item(&self, send: &OpenSend) -> Item {
        let envelope = Envelope(send.envelope);
        let members = |comm: &Comm| comm.peers().members.iter().position(|&member| member == send.to);
        let request = self.requests.get(send.ticket);
        Item {
            is_send: true,
            peer: Some(send.to),
            place: request
                .and_then(|request| members(request.comm.as_ref()?))
                .map(|place| place as u32),
            tag: Some(envelope.tag()),
            context: envelope.context(),
            len: send.len as u64,
            ..Item::default()
        }
    }

    /// Messages that have come and differ from `pattern` in one of source, tag and communicator.
    fn near(&self, pattern: Pattern) -> Vec<Near> {
        let resembles = |envelope: Envelope| {
            let differs = [
                envelope.context() != pattern.context(),
                pattern.source().is_some_and(|source| source != envelope.source()),
                pattern.tag().is_some_and(|tag| tag != envelope.tag()),
            ];
            // Messages of collective operations resemble each other only.
            let alike = (envelope.context() ^ pattern.context()) & 1 == 0;
            alike && differs.into_iter().filter(|&differs| differs).count() == 1
        };
        let kept = self.engine.unexpected.iter().take(COMPARED);
        kept.filter(|(envelope, _)| resembles(*envelope))
            .take(NEAR)
            .map(|(envelope, stored)| Near {
                envelope: envelope.0,
                len: stored.len() as u64,
            })
            .collect()
    }

    /// The name that the program gave the communicator of that context; empty if it gave none.
    fn name_of(&self, context: u16) -> String {
        let comms = self.comms.iter().map(|(_, comm)| comm);
        let comms = [&self.world, &self.own].into_iter().chain(comms);
        let its = |comm: &&std::rc::Rc<Comm>| comm.context.number() == context >> 1;
        let name = comms.take(LOOKED_THROUGH).find(its);
        let mut name = name.and_then(|comm| comm.name.borrow().clone()).unwrap_or_default();
        while name.len() > NAME {
            name.pop();
        }
        name
    }
}

/// What a receive or probe for `pattern` waits for.
fn item(pattern: Pattern, peer: Option<u32>, len: u64) -> Item {
    Item {
        peer,
        place: pattern.source(),
        tag: pattern.tag(),
        context: pattern.context(),
        len,
        ..Item::default()
    }
}
