//! Intercommunicators (MPI-4.1 §7.6): two groups that do not overlap, one context for both
//! directions, and on each side a hidden intracommunicator of the local group.
//!
//! Whatever the two sides must agree on goes between their first ranks and from these to the others.
//! The *low* side is the one with the process of lowest rank in the job; it claims the context.

use super::create::{self, Choice, known, recv_bytes};
use super::{Comm, Plane, dynamic};
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::{self, allgather_bytes, bcast_bytes};
use crate::mpi::context::NONE;
use crate::mpi::error::{Class, Error, Result};
use crate::mpi::group::Group;
use crate::mpi::pt2pt::{self, Mode};
use crate::mpi::status::UNDEFINED;
use crate::mpi::world::Hold;
use std::rc::Rc;

/// Tags of [`create`], above those of `MPI_Comm_create_group`.
const LEADER_TAGS: i32 = 1 << 30;

/// What a leader may get that makes all of its group fail alike.
const LEADERS: [Class; 6] = [
    Class::Comm,
    Class::Rank,
    Class::Port,
    Class::NoMem,
    Class::ProcFailed,
    Class::Revoked,
];

/// An intercommunicator of `local` and the group whose leader is rank `remote_leader` of `peer`. Of the
/// local group, only rank `leader` looks at `peer`, `remote_leader` and `tag`; all are leader's word
/// for it. Collective over both groups. MPI-4.1 §7.6.2.
///
/// # Errors
/// `Comm`: the groups overlap; `Rank`: a leader does not exist; `Other`: no context is left. All of the local group get the class of
/// what their leader gets, if it is one of [`LEADERS`], or else `Other`.
pub fn create(hold: &mut Hold, local: &Rc<Comm>, leader: u32, peer: Result<(Rc<Comm>, u32)>, tag: i32) -> Result<Comm> {
    let bridge = peer.as_ref().ok().filter(|_| local.rank == leader).cloned();
    let met = match local.rank == leader {
        true => Some(peer.and_then(|(peer, remote_leader)| meet(hold, local, &peer, remote_leader, tag))),
        false => None,
    };
    let segment = hold.engine.channel.segment().clone();
    let is_late = |group: &Group| group.members.iter().any(|&rank| rank >= segment.ranks());
    let mut remote = met.as_ref().and_then(|met| Some(met.as_ref().ok()?.1.clone()));
    let made = hear(hold, local, leader, met).and_then(|(number, group)| {
        remote = Some(group.clone());
        make(hold, local, number, group)
    });
    match remote.is_some_and(|remote| is_late(&local.group) || is_late(&remote)) {
        true => conclude(hold, local, leader, bridge, tag, made),
        false => made,
    }
}

/// The leader tells its group whom it has `met`, and on which context.
fn hear(hold: &mut Hold, local: &Rc<Comm>, leader: u32, met: Option<Result<(u16, Group)>>) -> Result<(u16, Group)> {
    // Whether it has met the other, then the context and the size of the other group, or a class.
    let mut header = [0; 8];
    match &met {
        Some(Ok((number, remote))) => {
            header[..2].copy_from_slice(&number.to_ne_bytes());
            header[2] = 1;
            header[4..].copy_from_slice(&remote.size().to_ne_bytes());
        }
        Some(Err(error)) => header[4..].copy_from_slice(&(error.class() as i32).to_ne_bytes()),
        None => {}
    }
    bcast_bytes(hold, local, leader, &mut header)?;
    let [n0, n1, met_flag, _, s0, s1, s2, s3] = header;
    let mut members = match met {
        Some(met) => ranks_to_bytes(&met?.1.members),
        None if met_flag == 0 => {
            let text = format!("rank {leader}, the local leader, could not reach the remote one, and has the reason");
            return Err(Error::new(class_of(i32::from_ne_bytes([s0, s1, s2, s3])), text));
        }
        None => vec![0; 4 * u32::from_ne_bytes([s0, s1, s2, s3]) as usize],
    };
    bcast_bytes(hold, local, leader, &mut members)?;
    Ok((u16::from_ne_bytes([n0, n1]), Group::new(ranks_from_bytes(&members))))
}

/// The communicator, with context `number`.
fn make(hold: &mut Hold, local: &Rc<Comm>, number: u16, remote: Group) -> Result<Comm> {
    // Some of them may have come a moment ago.
    let all_met = hold.meet_all();
    dynamic::link(hold, remote.members.iter().copied());
    let is_known = |&rank: &u32| rank < hold.engine.channel.segment().known();
    let knows_them = remote.members.iter().all(is_known);
    let new = finish(hold, local, number, remote)?;
    match knows_them {
        true => Ok(new),
        false => {
            dynamic::leave(hold, &Rc::new(new));
            all_met.and_then(|()| fail!(Intern, "the other group has ranks that the job has not"))
        }
    }
}

/// Ends [`create`] where processes that came later take part. Nobody may go before all on the other side count on its memory, and
/// where one has no room for that of another nobody has the communicator.
fn conclude(
    hold: &mut Hold,
    local: &Rc<Comm>,
    leader: u32,
    bridge: Option<(Rc<Comm>, u32)>,
    tag: i32,
    made: Result<Comm>,
) -> Result<Comm> {
    // 0, or the class of an error; the leader tells the other side whatever has become of its own.
    let code = |error: &Error| (error.class() as u8).max(1);
    let mine = made.as_ref().map_or_else(code, |_| 0);
    let all = allgather_bytes(hold, local, &[mine]);
    let ours = all.map_or_else(|error| code(&error), |codes| codes.into_iter().fold(0, u8::max));
    let mut verdict = [ours];
    if let Some((peer, remote_leader)) = bridge {
        let tag = LEADER_TAGS + tag % LEADER_TAGS;
        let mut theirs = [0];
        let told = swap(hold, &peer, remote_leader, tag, &[ours], &mut theirs);
        verdict[0] = told.map_or_else(|error| code(&error), |()| theirs[0]).max(ours);
    }
    let told = bcast_bytes(hold, local, leader, &mut verdict);
    let new = made?;
    if told.is_ok() && verdict == [0] {
        return Ok(new);
    }
    dynamic::leave(hold, &Rc::new(new));
    told?;
    let text = "another process could not join the groups, and has the reason";
    Err(Error::new(class_of(verdict[0].into()), text))
}

/// The class that a leader has told as `number`.
fn class_of(number: i32) -> Class {
    let class = LEADERS.into_iter().find(|&class| class as i32 == number);
    class.unwrap_or(Class::Other)
}

/// The leaders tell each other their groups and agree on a context.
fn meet(hold: &mut Hold, local: &Comm, peer: &Rc<Comm>, remote_leader: u32, tag: i32) -> Result<(u16, Group)> {
    let tag = LEADER_TAGS + tag % LEADER_TAGS;
    let mut size = [0; 4];
    swap(hold, peer, remote_leader, tag, &local.size().to_ne_bytes(), &mut size)?;
    let mut members = vec![0; 4 * u32::from_ne_bytes(size) as usize];
    let mine = ranks_to_bytes(&local.group.members);
    swap(hold, peer, remote_leader, tag, &mine, &mut members)?;
    let remote = Group::new(ranks_from_bytes(&members));
    if let Some(both) = local.group.intersection(&remote).members.first() {
        fail!(
            Comm,
            "rank {both} of the job is in both groups of the intercommunicator"
        );
    }
    let low = is_low(&local.group, &remote);
    let claimed = match low {
        true => hold.claim_context(local.size() + remote.size()).unwrap_or(NONE),
        false => NONE,
    };
    let mut theirs = [0; 2];
    swap(hold, peer, remote_leader, tag, &claimed.to_ne_bytes(), &mut theirs)?;
    let number = if low { claimed } else { u16::from_ne_bytes(theirs) };
    Ok((known(number)?, remote))
}

/// The intercommunicator itself, with its hidden local one. Collective over `local`.
fn finish(hold: &mut Hold, local: &Rc<Comm>, number: u16, remote: Group) -> Result<Comm> {
    let context = hold.adopt_context(number);
    let hidden = create::agree(hold, local, local.size())?;
    let hidden = local.child(hold.adopt_context(hidden), local.rank, local.group.clone());
    let mut new = local.child(context, local.rank, local.group.clone());
    new.join(Rc::new(remote), hidden);
    Ok(new)
}

/// A duplicate of an intercommunicator. Collective.
pub(super) fn dup(hold: &mut Hold, comm: &Rc<Comm>) -> Result<Comm> {
    let remote = comm.remote_group()?;
    let number = agree(hold, comm, comm.size() + remote.size())?;
    let mut new = finish(hold, comm.local_comm()?, number, Group::clone(remote))?;
    new.errhandler = comm.errhandler.clone();
    Ok(new)
}

/// The part of an intercommunicator of one colour, `None` where it is empty on one side. Collective.
pub(super) fn split(hold: &mut Hold, comm: &Rc<Comm>, choice: Choice) -> Result<Option<Comm>> {
    let (local, remote) = (comm.local_comm()?, comm.remote_group()?);
    let here = create::choices(hold, local, choice)?;
    let bytes = exchange(hold, comm, &create::unparse(&here), 8 * remote.size() as usize)?;
    let there = create::part(&create::parse(&bytes), choice.color);
    let here = create::part(&here, choice.color);
    let complete = !here.is_empty() && !there.is_empty();
    let low = is_low(&comm.group, remote);
    let claimant = if low && complete { here.as_slice() } else { &[] };
    let claimed = create::claim_in_part(hold, local, claimant, (here.len() + there.len()) as u32)?;
    let bytes: Vec<u8> = claimed.iter().flat_map(|number| number.to_ne_bytes()).collect();
    let theirs = exchange(hold, comm, &bytes, 2 * remote.size() as usize)?;
    let color = if complete { choice.color } else { UNDEFINED };
    let Some(hidden) = create::split(hold, local, Choice { color, ..choice })? else {
        return Ok(None);
    };
    let number = match low {
        true => claimed[here[0] as usize],
        false => create::numbers(&theirs)[there[0] as usize],
    };
    let context = hold.adopt_context(known(number)?);
    let mut new = comm.child(context, hidden.rank, hidden.group.clone());
    let members = there.iter().map(|&rank| remote.world(rank)).collect();
    new.join(Rc::new(Group::new(members)), hidden);
    Ok(Some(new))
}

/// An intracommunicator of both groups, the one that did not say `high` first. Collective.
/// MPI-4.1 §7.6.3.
///
/// # Errors
/// `Comm`: no intercommunicator; `Arg`: the processes of a group disagree; `Other`: no context is left.
pub fn merge(hold: &mut Hold, comm: &Rc<Comm>, high: bool) -> Result<Comm> {
    let (local, remote) = (comm.local_comm()?, comm.remote_group()?);
    let said = allgather_bytes(hold, local, &[high.into()])?;
    let disagree = said.iter().any(|&said| said != u8::from(high));
    let theirs = exchange(hold, comm, &[u8::from(high) | u8::from(disagree) << 1], 1)?[0];
    if disagree || theirs > 1 {
        fail!(Arg, "the processes of a group gave different values of high");
    }
    let first = match theirs == u8::from(high) {
        true => is_low(&comm.group, remote),
        false => !high,
    };
    let group = match first {
        true => comm.group.union(remote),
        false => remote.union(&comm.group),
    };
    let rank = comm.rank + if first { 0 } else { remote.size() };
    let number = agree(hold, comm, group.size())?;
    Ok(comm.child(hold.adopt_context(number), rank, Rc::new(group)))
}

/// Whether group `mine` is the low side.
pub fn is_low(mine: &Group, other: &Group) -> bool {
    mine.members.iter().min() < other.members.iter().min()
}

/// A context number that both sides know, claimed by the low one for `holders`.
fn agree(hold: &mut Hold, comm: &Rc<Comm>, holders: u32) -> Result<u16> {
    let local = comm.local_comm()?;
    let low = is_low(&comm.group, comm.remote_group()?);
    let mut number = NONE.to_ne_bytes();
    if low {
        if local.rank == 0 {
            number = hold.claim_context(holders).unwrap_or(NONE).to_ne_bytes();
        }
        bcast_bytes(hold, local, 0, &mut number)?;
    }
    let theirs = exchange(hold, comm, &number, 2)?;
    match low {
        true => known(u16::from_ne_bytes(number)),
        false => known(create::numbers(&theirs)[0]),
    }
}

/// Gives `mine` (of the first rank) to the remote side and returns the `len` bytes that came from there.
fn exchange(hold: &mut Hold, comm: &Rc<Comm>, mine: &[u8], len: usize) -> Result<Vec<u8>> {
    let local = comm.local_comm()?;
    let tag = coll::next_tag(comm);
    let mut theirs = vec![0; len];
    if comm.rank == 0 {
        swap(hold, comm, 0, tag, mine, &mut theirs)?;
    }
    bcast_bytes(hold, local, 0, &mut theirs)?;
    Ok(theirs)
}

/// Sends `mine` to rank `peer` while receiving `theirs` from it.
fn swap(hold: &mut Hold, comm: &Rc<Comm>, peer: u32, tag: i32, mine: &[u8], theirs: &mut [u8]) -> Result<()> {
    let buffer = Buffer::bytes(mine.as_ptr().cast_mut(), mine.len());
    let buffer = Buffer::kept(&buffer);
    let sent = pt2pt::isend(hold, comm, Plane::Collective, buffer, peer, tag, Mode::Standard)?;
    recv_bytes(hold, comm, peer, tag, theirs)?;
    pt2pt::wait(hold, sent).map(drop)
}

fn ranks_to_bytes(ranks: &[u32]) -> Vec<u8> {
    ranks.iter().flat_map(|rank| rank.to_ne_bytes()).collect()
}

fn ranks_from_bytes(bytes: &[u8]) -> Vec<u32> {
    let ranks = bytes.as_chunks().0.iter();
    ranks.map(|&rank| u32::from_ne_bytes(rank)).collect()
}
