//! Intracommunicators made from a communicator: one member claims the context, the others are told.

use super::{Comm, Plane, inter};
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::{self, allgather_bytes, bcast_bytes};
use crate::mpi::context::NONE;
use crate::mpi::error::Result;
use crate::mpi::group::Group;
use crate::mpi::pt2pt::{self, Mode};
use crate::mpi::status::UNDEFINED;
use crate::mpi::world::Hold;
use std::rc::Rc;

/// Tags of [`create_group`], from `coll::TAGS` up.
const GROUP_TAGS: i32 = 1 << 29;

/// What a process asked of [`split`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Which part; `UNDEFINED` for none.
    pub color: i32,
    /// Place in the part; equal keys keep the order of ranks.
    pub key: i32,
}

impl Choice {
    fn to_bytes(self) -> [u8; 8] {
        let [color, key] = [self.color.to_ne_bytes(), self.key.to_ne_bytes()];
        [color[0], color[1], color[2], color[3], key[0], key[1], key[2], key[3]]
    }

    fn from_bytes(bytes: &[u8; 8]) -> Choice {
        let [a, b, c, d, e, f, g, h] = *bytes;
        Choice {
            color: i32::from_ne_bytes([a, b, c, d]),
            key: i32::from_ne_bytes([e, f, g, h]),
        }
    }
}

/// A duplicate: same groups and topology, new context; attributes are the caller's matter. Collective.
///
/// # Errors
/// `Other`: no context is left.
pub fn dup(hold: &mut Hold, comm: &Rc<Comm>) -> Result<Comm> {
    let mut new = if comm.is_inter() {
        inter::dup(hold, comm)?
    } else {
        let number = agree(hold, comm, comm.size())?;
        comm.child(hold.adopt_context(number), comm.rank, comm.group.clone())
    };
    new.topology.clone_from(&comm.topology);
    Ok(new)
}

/// The part of `comm` that asked for the same colour, ordered by key; `None` for `UNDEFINED`, and for
/// an intercommunicator's part that is empty on one side. Collective. MPI-4.1 §7.4.2.
///
/// # Errors
/// `Other`: no context is left.
pub fn split(hold: &mut Hold, comm: &Rc<Comm>, choice: Choice) -> Result<Option<Comm>> {
    if comm.is_inter() {
        return inter::split(hold, comm, choice);
    }
    let choices = choices(hold, comm, choice)?;
    let part = part(&choices, choice.color);
    let number = claim_in_part(hold, comm, &part, part.len() as u32)?;
    let context = match part.first().map(|&first| number[first as usize]) {
        None | Some(NONE) => None,
        Some(number) => Some(hold.adopt_context(number)),
    };
    // Where one part gets no context, no part does, and everybody learns that: all are still in step.
    for first in firsts(&choices) {
        known(number[first as usize])?;
    }
    let rank = part.iter().position(|&member| member == comm.rank);
    Ok(rank.zip(context).map(|(rank, context)| {
        let group = Group::new(part.iter().map(|&member| comm.group.world(member)).collect());
        comm.child(context, rank as u32, Rc::new(group))
    }))
}

/// A communicator of `group`, which is part of `comm`'s (local) group; `None` to those outside. Several
/// groups that do not overlap may be made at once. Collective. MPI-4.1 §7.4.2.
///
/// # Errors
/// `Group`: a member is not in `comm`; `Other`: no context is left.
pub fn create(hold: &mut Hold, comm: &Rc<Comm>, group: &Group) -> Result<Option<Comm>> {
    let ranks = comm.group.ranks();
    check_within(comm, group)?;
    let leader = group.members.first().and_then(|&first| ranks.of(first));
    let choice = match (group.rank_of(hold.me()), leader) {
        (Some(rank), Some(leader)) => Choice {
            color: if comm.is_inter() { 0 } else { leader as i32 },
            key: rank as i32,
        },
        _ => Choice {
            color: UNDEFINED,
            key: 0,
        },
    };
    split(hold, comm, choice)
}

/// As [`create`], but only the members of `group` call it. MPI-4.1 §7.4.2.
///
/// # Errors
/// As [`create`].
pub fn create_group(hold: &mut Hold, comm: &Rc<Comm>, group: &Rc<Group>, tag: i32) -> Result<Option<Comm>> {
    check_within(comm, group)?;
    let Some(rank) = group.rank_of(hold.me()) else {
        return Ok(None);
    };
    let tag = coll::TAGS as i32 + tag % GROUP_TAGS;
    let ranks = comm.group.ranks();
    let mut peers = group.members.iter().filter_map(|&member| ranks.of(member));
    let number = if rank == 0 {
        let number = hold.claim_context(group.size()).unwrap_or(NONE);
        for peer in peers.skip(1) {
            send_bytes(hold, comm, peer, tag, &number.to_ne_bytes())?;
        }
        number
    } else {
        let mut number = [0; 2];
        let leader = peers.next().unwrap_or_default();
        recv_bytes(hold, comm, leader, tag, &mut number)?;
        u16::from_ne_bytes(number)
    };
    let context = hold.adopt_context(known(number)?);
    Ok(Some(comm.child(context, rank, group.clone())))
}

fn check_within(comm: &Comm, group: &Group) -> Result<()> {
    let ranks = comm.group.ranks();
    if let Some(stranger) = group.members.iter().find(|&&member| !ranks.has(member)) {
        fail!(
            Group,
            "the group has a process (rank {stranger} of the job) that is not in the communicator"
        );
    }
    Ok(())
}

/// Everybody's choice.
pub(super) fn choices(hold: &mut Hold, comm: &Rc<Comm>, mine: Choice) -> Result<Vec<Choice>> {
    Ok(parse(&allgather_bytes(hold, comm, &mine.to_bytes())?))
}

/// Choices out of a message.
pub(super) fn parse(bytes: &[u8]) -> Vec<Choice> {
    bytes.as_chunks().0.iter().map(Choice::from_bytes).collect()
}

/// Choices as a message.
pub(super) fn unparse(choices: &[Choice]) -> Vec<u8> {
    choices.iter().flat_map(|choice| choice.to_bytes()).collect()
}

/// The ranks of a colour in the order of their keys.
pub(super) fn part(choices: &[Choice], color: i32) -> Vec<u32> {
    if color == UNDEFINED {
        return Vec::new();
    }
    let ranks = 0..choices.len() as u32;
    let mut part: Vec<u32> = ranks.filter(|&rank| choices[rank as usize].color == color).collect();
    part.sort_by_key(|&rank| choices[rank as usize].key);
    part
}

/// The first rank of each part.
fn firsts(choices: &[Choice]) -> impl Iterator<Item = u32> {
    let mut ranks: Vec<u32> = (0..choices.len() as u32)
        .filter(|&rank| choices[rank as usize].color != UNDEFINED)
        .collect();
    ranks.sort_by_key(|&rank| (choices[rank as usize].color, choices[rank as usize].key));
    ranks.dedup_by_key(|&mut rank| choices[rank as usize].color);
    ranks.into_iter()
}

/// The first of each `part` claims a context for `holders`; everybody learns what each rank claimed.
pub(super) fn claim_in_part(hold: &mut Hold, comm: &Rc<Comm>, part: &[u32], holders: u32) -> Result<Vec<u16>> {
    let mine = match part.first() {
        Some(&first) if first == comm.rank => hold.claim_context(holders).unwrap_or(NONE),
        _ => NONE,
    };
    Ok(numbers(&allgather_bytes(hold, comm, &mine.to_ne_bytes())?))
}

/// Context numbers out of a message.
pub(super) fn numbers(bytes: &[u8]) -> Vec<u16> {
    let numbers = bytes.as_chunks().0.iter();
    numbers.map(|&number| u16::from_ne_bytes(number)).collect()
}

/// A context number that all of intracommunicator `comm` know, claimed by rank 0 for `holders`.
pub(super) fn agree(hold: &mut Hold, comm: &Rc<Comm>, holders: u32) -> Result<u16> {
    let mut number = NONE;
    if comm.rank == 0 {
        number = hold.claim_context(holders).unwrap_or(NONE);
    }
    let mut bytes = number.to_ne_bytes();
    bcast_bytes(hold, comm, 0, &mut bytes)?;
    known(u16::from_ne_bytes(bytes))
}

/// `number`, unless whoever should have claimed it found none.
pub(in crate::mpi) fn known(number: u16) -> Result<u16> {
    if number == NONE {
        fail!(
            Other,
            "all communicator contexts of the job are in use; free some communicators"
        );
    }
    Ok(number)
}

/// Sends `bytes` to rank `peer` beside the program's messages.
pub(super) fn send_bytes(hold: &mut Hold, comm: &Rc<Comm>, peer: u32, tag: i32, bytes: &[u8]) -> Result<()> {
    let buffer = Buffer::bytes(bytes.as_ptr().cast_mut(), bytes.len());
    pt2pt::send(hold, comm, Plane::Collective, buffer, peer, tag, Mode::Standard)
}

/// Receives what [`send_bytes`] sent.
pub(super) fn recv_bytes(hold: &mut Hold, comm: &Rc<Comm>, peer: u32, tag: i32, bytes: &mut [u8]) -> Result<()> {
    let buffer = Buffer::bytes(bytes.as_mut_ptr(), bytes.len());
    pt2pt::recv(hold, comm, Plane::Collective, buffer, peer as i32, tag).map(drop)
}
