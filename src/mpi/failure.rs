//! A job that goes on without some of its ranks (`mpirun -keep-going`): what the survivors are told, and how
//! they agree. After the User Level Failure Mitigation proposal of the MPI Forum, as MPICH's `MPIX_` functions
//! have it.
//!
//! The launcher says who has died ([`crate::shm::fate`]). A rank notices when it finds nothing else to do, and
//! then ends whatever waits for the dead, or stands on a revoked communicator, with an error; what is started
//! later ends at once. A collective operation on a communicator with a dead member ends at every survivor,
//! so that nobody waits for one who has given up.

use super::comm::{Comm, Plane, create, inter};
use super::context::NONE;
use super::error::{Class, Error, Result};
use super::group::Group;
use super::pt2pt::engine;
use super::pt2pt::matching::{Envelope, Pattern};
use super::request::{Kind, RequestKey, Stage};
use super::status::Status;
use super::world::{Hold, State};
use crate::fail;
use crate::shm::fate::Stamp;
use crate::shm::segment::Life;
use std::rc::Rc;

/// Deals with what has happened so far.
///
/// # Errors
/// A peer that left the protocol.
pub fn catch_up(hold: &mut Hold) -> Result<()> {
    let events = |hold: &Hold| hold.engine.channel.segment().events();
    while hold.engine.events != events(hold) {
        hold.progress(None)?;
    }
    Ok(())
}

/// Deals with what has happened up to `events`.
///
/// # Errors
/// A peer that left the protocol.
#[cold]
pub fn notice(hold: &mut Hold, events: u32) -> Result<()> {
    // What the dead have sent before they died counts, and of those who are counted now all of it will have come then.
    let deaths = hold.engine.channel.segment().deaths();
    while engine::step(hold, None)? {}
    hold.engine.events = events;
    hold.engine.detours |= engine::CAREFUL;
    let state: &mut State = hold;
    let segment = state.engine.channel.segment();
    let (known, ranks) = (segment.known(), segment.ranks() + segment.later());
    for rank in 0..known {
        let segment = state.engine.channel.segment();
        let Some(number) = segment.death(rank) else { continue };
        if number > ranks || deaths > ranks || segment.life(rank) != Life::Dead {
            fail!(
                Intern,
                "shared memory holds junk: it says that rank {rank} is dead, which nobody has written"
            );
        }
        if number > deaths {
            continue; // It has died since; an event will tell.
        }
        for key in state.bury(rank) {
            state.lose(key, rank);
        }
    }
    state.revoke_hidden();
    let posted: Vec<(Pattern, RequestKey)> = state.engine.posted.iter().collect();
    for (pattern, key) in posted {
        match state.hopeless_receive(key, pattern) {
            Some(error) => {
                state.unpost(key);
                state.complete(key, Status::EMPTY, Some(error));
            }
            None => state.mark_pending(key, pattern),
        }
    }
    state.give_up_partitions()?;
    let sends: Vec<_> = state.engine.channel.open_sends().collect();
    for send in sends {
        let Some(request) = state.requests.get(send.ticket) else {
            continue;
        };
        let (Some(comm), Kind::Send(Some(id))) = (request.comm.clone(), &request.kind) else {
            continue;
        };
        let id = *id;
        let plane = plane_of(Envelope(send.envelope).context());
        if let Some(error) = state.hopeless(&comm, plane, None)
            && (plane == Plane::Collective || state.is_revoked(&comm))
            && (state.engine.channel.withdraw(id) || state.engine.channel.abandon(id))
        {
            state.complete(send.ticket, Status::EMPTY, Some(error));
        }
    }
    Ok(())
}

impl State {
    /// Fails if an operation with member `peer` of `comm` (`None`: any, or all of a collective) cannot end.
    /// Cost: one look while nobody has died.
    ///
    /// # Errors
    /// `ProcFailed`, `ProcFailedPending`, `Revoked`.
    #[inline]
    pub fn check_peer(&self, comm: &Comm, plane: Plane, peer: Option<u32>) -> Result<()> {
        if self.engine.events == 0 {
            return Ok(());
        }
        self.hopeless(comm, plane, peer).map_or(Ok(()), Err)
    }

    #[cold]
    fn hopeless(&self, comm: &Comm, plane: Plane, peer: Option<u32>) -> Option<Error> {
        if self.is_revoked(comm) {
            return Some(Error::new(Class::Revoked, "the communicator is revoked"));
        }
        if let Some(peer) = peer {
            let dead = self.is_dead(comm.peers().world(peer));
            return dead.then(|| Error::new(Class::ProcFailed, format!("rank {peer} of the communicator is dead")));
        }
        let known = match plane {
            _ if comm.is_bridge => return None,
            Plane::PointToPoint => comm.acknowledged.get(),
            Plane::Collective => 0,
        };
        let segment = self.engine.channel.segment();
        let across = comm.across.iter().flat_map(|group| group.members.iter().copied());
        let mut all = members(comm).chain(across);
        let dead = all.find(|&rank| self.is_dead(rank) && segment.death(rank) > Some(known))?;
        Some(match plane {
            Plane::PointToPoint => any_source(Class::ProcFailed),
            Plane::Collective => Error::new(
                Class::ProcFailed,
                format!("a member of the communicator is dead (rank {dead} of the job)"),
            ),
        })
    }

    /// Why the receive `key` for `pattern` cannot end any more.
    pub(super) fn hopeless_receive(&self, key: RequestKey, pattern: Pattern) -> Option<Error> {
        let comm = self.requests.get(key)?.comm.clone()?;
        let plane = plane_of(pattern.context());
        match (plane, pattern.source()) {
            // A receive from any source may still get a message; see `mark_pending`.
            (Plane::PointToPoint, None) if !self.is_revoked(&comm) => None,
            (Plane::PointToPoint, source) => self.hopeless(&comm, plane, source),
            (Plane::Collective, source) if comm.is_bridge => self.hopeless(&comm, plane, source),
            (Plane::Collective, _) => self.hopeless(&comm, plane, None),
        }
    }

    /// Ends the waits for a receive from any source, while it stands, if a source of it is dead.
    pub(super) fn mark_pending(&mut self, key: RequestKey, pattern: Pattern) {
        let Some(comm) = self.requests.get(key).and_then(|request| request.comm.clone()) else {
            return;
        };
        if pattern.source().is_some() || plane_of(pattern.context()) == Plane::Collective {
            return;
        }
        let pending = self.hopeless(&comm, Plane::PointToPoint, None).is_some();
        if let Some(Kind::Recv(receive)) = self.requests.get_mut(key).map(|request| &mut request.kind)
            && let Stage::Posted(token) | Stage::Pending(token) = receive.stage
        {
            receive.stage = match pending {
                true => Stage::Pending(token),
                false => Stage::Posted(token),
            };
        }
    }

    /// Posts a receive, unless it cannot end any more.
    #[cold]
    pub(super) fn post_among_survivors(&mut self, key: RequestKey, pattern: Pattern) {
        if let Some(error) = self.hopeless_receive(key, pattern) {
            return self.complete(key, Status::EMPTY, Some(error));
        }
        self.post(key, pattern);
        self.mark_pending(key, pattern);
    }

    /// The message that `key` receives or sends will not get there whole: its other end, `rank`, is dead.
    pub(super) fn lose(&mut self, key: RequestKey, rank: u32) {
        self.move_note(key, None);
        self.complete(key, Status::EMPTY, Some(lost(rank)));
    }

    fn unpost(&mut self, key: RequestKey) {
        if let Some(Kind::Recv(receive)) = self.requests.get_mut(key).map(|request| &mut request.kind)
            && let Stage::Posted(token) | Stage::Pending(token) = receive.stage
        {
            receive.stage = Stage::New;
            self.engine.posted.cancel(token);
        }
    }

    /// Whether `comm` has been revoked.
    pub fn is_revoked(&self, comm: &Comm) -> bool {
        let (segment, number) = (self.engine.channel.segment(), comm.context.number());
        number != NONE && segment.fate(number).is_revoked()
    }

    /// The members of `comm` that are dead, of the job's first `known` deaths.
    pub fn dead_of(&self, comm: &Comm, known: u32) -> Group {
        let segment = self.engine.channel.segment();
        let is_dead = |rank: &u32| segment.death(*rank).is_some_and(|number| number <= known);
        Group::new(members(comm).filter(is_dead).collect())
    }

    /// Acknowledges the deaths so far: receives from any source wait again.
    pub fn acknowledge(&mut self, comm: &Rc<Comm>) {
        comm.acknowledged.set(self.engine.channel.segment().deaths());
        let posted: Vec<(Pattern, RequestKey)> = self.engine.posted.iter().collect();
        for (pattern, key) in posted {
            self.mark_pending(key, pattern);
        }
    }

    /// Revokes `comm` at all its members.
    pub fn revoke(&mut self, comm: &Comm) {
        self.engine.channel.segment().revoke(comm.context.number());
    }

    /// With an intercommunicator goes what the library uses within its groups: each member sees to that of its own.
    fn revoke_hidden(&self) {
        let revoked = self.comms.iter().filter(|(_, comm)| self.is_revoked(comm));
        for local in revoked.filter_map(|(_, comm)| comm.local.as_ref()) {
            self.engine.channel.segment().revoke(local.context.number());
        }
    }
}

/// All members, as ranks of the job; of both groups of an intercommunicator.
fn members(comm: &Comm) -> impl Iterator<Item = u32> {
    let remote = comm.remote.iter().flat_map(|group| &group.members);
    comm.group.members.iter().chain(remote).copied()
}

fn plane_of(context: u16) -> Plane {
    match context & 1 {
        0 => Plane::PointToPoint,
        _ => Plane::Collective,
    }
}

/// The message will not come whole, or has not gone.
pub fn lost(rank: u32) -> Error {
    Error::new(Class::ProcFailed, format!("rank {rank} is dead"))
}

/// A receive from any source: one of them is dead.
pub fn any_source(class: Class) -> Error {
    Error::new(
        class,
        "a rank that the message could come from is dead (MPIX_Comm_failure_ack lets receives from any source go on)",
    )
}

/// A vote of the members of a communicator that has been cast.
pub struct Agreement {
    comm: Rc<Comm>,
    stamp: Stamp,
    number: u32,
    /// Members that have finalized count as gone.
    at_end: bool,
    /// Takes the outcome, if it was asked for as a request.
    taker: Option<Box<dyn FnMut(u32)>>,
}

/// What the members have agreed on.
pub struct Agreed {
    /// The bits that all have set who voted.
    pub value: u32,
    /// Members that died without a vote, as ranks of the job.
    pub gone: Vec<u32>,
    /// One of those has not been acknowledged by all who voted.
    pub is_news: bool,
}

impl Agreement {
    /// Casts this rank's vote.
    pub fn cast(state: &State, comm: &Rc<Comm>, value: u32) -> Agreement {
        let segment = state.engine.channel.segment();
        let context = comm.context.number();
        let number = comm.votes.get();
        comm.votes.set(number.wrapping_add(1));
        let stamp = Stamp::new(segment.fate(context).life(), number);
        let me = state.me();
        segment
            .vote(me, context, number)
            .cast(stamp, value, comm.acknowledged.get());
        members(comm)
            .filter(|&rank| rank != me)
            .for_each(|rank| segment.wake(rank));
        Agreement {
            comm: comm.clone(),
            stamp,
            number,
            at_end: false,
            taker: None,
        }
    }

    /// As a request, whose end calls `taker` with the value.
    pub fn with_taker(self, taker: impl FnMut(u32) + 'static) -> Agreement {
        Agreement {
            taker: Some(Box::new(taker)),
            ..self
        }
    }

    /// Whether everybody has voted or is dead.
    pub fn is_decided(&self, state: &State) -> bool {
        members(&self.comm).all(|rank| self.vote(state, rank).is_some() || self.is_out(state, rank))
    }

    fn vote(&self, state: &State, rank: u32) -> Option<(u32, u32)> {
        let segment = state.engine.channel.segment();
        segment
            .vote(rank, self.comm.context.number(), self.number)
            .read(self.stamp)
    }

    fn is_out(&self, state: &State, rank: u32) -> bool {
        let segment = state.engine.channel.segment();
        segment.death(rank).is_some() || self.at_end && segment.life(rank) == Life::Finalized
    }

    /// What has been decided.
    pub fn outcome(&self, state: &State) -> Agreed {
        let mut agreed = Agreed {
            value: u32::MAX,
            gone: Vec::new(),
            is_news: false,
        };
        let mut known = u32::MAX;
        for rank in members(&self.comm) {
            match self.vote(state, rank) {
                Some((value, its)) => {
                    agreed.value &= value;
                    known = known.min(its);
                }
                None => agreed.gone.push(rank),
            }
        }
        let segment = state.engine.channel.segment();
        agreed.is_news = agreed.gone.iter().any(|&rank| segment.death(rank) > Some(known));
        agreed
    }

    /// Hands the outcome over.
    ///
    /// # Errors
    /// `ProcFailed`: a member is dead that not everybody has acknowledged.
    pub fn deliver(mut self, state: &State) -> Result<()> {
        let agreed = self.outcome(state);
        if let Some(taker) = &mut self.taker {
            taker(agreed.value);
        }
        agreed.check()
    }
}

impl Agreed {
    /// Fails, everywhere alike, if a member is dead that not everybody has acknowledged.
    ///
    /// # Errors
    /// `ProcFailed`.
    pub fn check(&self) -> Result<()> {
        match self.is_news {
            true => fail!(ProcFailed, "rank {} of the job is dead", self.gone[0]),
            false => Ok(()),
        }
    }
}

/// The bits that all living members of `comm` set in `value`; all return the same, whoever dies meanwhile.
///
/// # Errors
/// A peer that left the protocol.
pub fn agree(hold: &mut Hold, comm: &Rc<Comm>, value: u32) -> Result<Agreed> {
    let agreement = Agreement::cast(hold, comm, value);
    decide(hold, &agreement)
}

fn decide(hold: &mut Hold, agreement: &Agreement) -> Result<Agreed> {
    hold.wait_until(None, |hold| Ok(agreement.is_decided(hold)))?;
    Ok(agreement.outcome(hold))
}

/// Waits at the end of a job that has lost ranks until all others have come to the end.
///
/// # Errors
/// A peer that left the protocol.
pub fn meet_at_end(hold: &mut Hold) -> Result<()> {
    let world = hold.world.clone();
    let mut agreement = Agreement::cast(hold, &world, 0);
    agreement.at_end = true;
    decide(hold, &agreement).map(drop)
}

/// A communicator of the members of `comm` that live, in the same order; `None` if one side of an intercommunicator
/// is dead altogether.
///
/// # Errors
/// `Other`: no context is left.
pub fn shrink(hold: &mut Hold, comm: &Rc<Comm>) -> Result<Option<Comm>> {
    loop {
        let gone = agree(hold, comm, u32::MAX)?.gone;
        let living = |group: &Group| {
            let living = group.members.iter().filter(|rank| !gone.contains(rank));
            Group::new(living.copied().collect())
        };
        let group = living(&comm.group);
        let Some(rank) = group.rank_of(hold.me()) else {
            fail!(Intern, "the members of a communicator disagree about it");
        };
        let Some(remote) = &comm.remote else {
            match agree_on_context(hold, comm, &group, group.size())? {
                Some(number) => return Ok(Some(comm.child(hold.adopt_context(number), rank, Rc::new(group)))),
                None => continue,
            }
        };
        let remote = living(remote);
        if remote.members.is_empty() {
            return Ok(None);
        }
        // A context for both, and one for each side; in all votes all vote.
        let sides = match inter::is_low(&comm.group, comm.remote_group()?) {
            true => [&group, &remote],
            false => [&remote, &group],
        };
        let mine = usize::from(!std::ptr::eq(sides[0], &group));
        let Some(number) = agree_on_context(hold, comm, sides[0], group.size() + remote.size())? else {
            continue;
        };
        let context = hold.adopt_context(number);
        let mut hidden = None;
        let mut whole = true;
        for (index, side) in sides.iter().enumerate() {
            let number = agree_on_context(hold, comm, side, side.size())?;
            whole &= number.is_some();
            if index == mine {
                hidden = number.map(|number| hold.adopt_context(number));
            }
        }
        if let (Some(hidden), true) = (hidden, whole) {
            let group = Rc::new(group);
            let local = comm.local_comm()?.child(hidden, rank, group.clone());
            let mut new = comm.child(context, rank, group);
            new.join(Rc::new(remote), local);
            return Ok(Some(new));
        }
    }
}

/// A context for `holders` members of `comm` that the first of `group` claims. `None` if that one died before it told.
fn agree_on_context(hold: &mut Hold, comm: &Rc<Comm>, group: &Group, holders: u32) -> Result<Option<u16>> {
    let mine = match group.members.first() == Some(&hold.me()) {
        true => u32::from(hold.claim_context(holders).unwrap_or(NONE)),
        false => u32::MAX,
    };
    let number = agree(hold, comm, mine)?.value;
    if number == u32::MAX {
        return Ok(None);
    }
    match u16::try_from(number) {
        Ok(number) => create::known(number).map(Some),
        Err(_) => fail!(Intern, "the members of a communicator disagree about it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::buffer::Buffer;
    use crate::mpi::pt2pt::{Mode, irecv, send, wait};
    use crate::mpi::world::World;
    use crate::shm::segment::Segment;
    use crate::sys::cvar::Settings;
    use std::sync::Arc;

    const RANKS: u32 = 8;
    /// Requests that a rank looks through whenever another has died, which takes it a while.
    const REQUESTS: u32 = 10_000;

    #[test]
    fn what_a_rank_sent_before_it_died_comes_whenever_it_died() {
        for _ in 0..20 {
            let segment = Arc::new(Segment::private(RANKS, RANKS).unwrap());
            let settings = Settings::read(|_| None).unwrap();
            let join = |rank| World::new(State::join(segment.clone(), rank, settings.clone()), false);
            let worlds: Vec<World> = (0..RANKS).map(join).collect();
            let plane = Plane::PointToPoint;
            let buffer = |word: &mut u64| Buffer::bytes((&raw mut *word).cast(), size_of::<u64>());
            let mut hold = worlds[0].hold();
            let comm = hold.world.clone();
            let mut words = [0; RANKS as usize];
            let mut receive = |rank: u32, tag| {
                let room = buffer(&mut words[rank as usize]);
                irecv(&mut hold, &comm, plane, room, rank as i32, tag).unwrap()
            };
            let receives: Vec<_> = (1..RANKS).map(|rank| receive(rank, 7)).collect();
            for _ in 0..REQUESTS {
                receive(RANKS - 1, 8);
            }
            std::thread::scope(|scope| {
                let (worlds, segment) = (&worlds[1..], &segment);
                scope.spawn(move || {
                    for (rank, world) in (1..).zip(worlds) {
                        let mut hold = world.hold();
                        let (comm, mut word) = (hold.world.clone(), u64::from(rank));
                        send(&mut hold, &comm, plane, buffer(&mut word), 0, 7, Mode::Standard).unwrap();
                        segment.bury(rank);
                    }
                });
                for receive in receives {
                    wait(&mut hold, receive).unwrap();
                }
            });
            assert!((1..RANKS).all(|rank| words[rank as usize] == u64::from(rank)));
        }
    }
}
