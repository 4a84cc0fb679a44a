//! Collectives on plain bytes for the library's own use (communicator creation, start and end).
//! All but [`barrier`] work on the local group of an intracommunicator.

use super::board::{self, Boards, Where};
use super::call::{self, Task};
use super::machine::{Operation, run};
use super::schedule::{Area, Base, Member, Schedule};
use super::signature::{Call, Signature};
use super::{allgather, bcast};
use crate::mpi::buffer::Buffer;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use std::rc::Rc;

/// Returns once every member of `comm` has called it. MPI-4.1 §6.3.
///
/// # Errors
/// A peer that left the protocol.
pub fn barrier(hold: &mut Hold, comm: &Rc<Comm>) -> Result<()> {
    barrier_of(hold, comm, Call::Internal)
}

/// As [`barrier`], for another call's sake.
///
/// # Errors
/// As [`barrier`]; `Other`: a member is in another call.
pub fn barrier_of(hold: &mut Hold, comm: &Rc<Comm>, call: Call) -> Result<()> {
    call::perform(hold, comm, Task::Barrier(call))
}

/// Makes `bytes` of every member those of `root`; all members pass the same length. MPI-4.1 §6.4.
///
/// # Errors
/// A member passed another length.
pub fn bcast_bytes(hold: &mut Hold, comm: &Rc<Comm>, root: u32, bytes: &mut [u8]) -> Result<()> {
    if let Some(boards) = boards_for(hold, comm, bytes.len()) {
        let data = Buffer::bytes(bytes.as_mut_ptr(), bytes.len());
        return by_boards(hold, comm, boards, |hold, at| {
            board::moves::bcast(hold, at, root, &data)
        });
    }
    let data = Area::bytes(Base::Recv, 0).slice(0, bytes.len());
    run_on_bytes(hold, comm, &[], bytes, |schedule, me| {
        bcast::binomial(schedule, me, root, data);
    })
}

/// Everybody's `mine` in rank order; all members pass the same length. MPI-4.1 §6.7.
///
/// # Errors
/// A member passed another length.
pub fn allgather_bytes(hold: &mut Hold, comm: &Rc<Comm>, mine: &[u8]) -> Result<Vec<u8>> {
    let len = mine.len();
    let mut all = vec![0; len * comm.size() as usize];
    if let Some(boards) = boards_for(hold, comm, len) {
        let mine = Buffer::bytes(mine.as_ptr().cast_mut(), len);
        let first = all.as_mut_ptr();
        let room = |rank: u32| Buffer::bytes(first.wrapping_add(rank as usize * len), len);
        by_boards(hold, comm, boards, |hold, at| {
            board::moves::allgather(hold, at, Some(&mine), room, len)
        })?;
        return Ok(all);
    }
    run_on_bytes(hold, comm, mine, &mut all, |schedule, me| {
        let block = |rank: u32| Area::bytes(Base::Recv, 0).slice(rank as usize * len, len);
        let mine = Area::bytes(Base::Send, 0).slice(0, len);
        allgather::bruck(schedule, me, len, mine, block);
    })?;
    Ok(all)
}

/// Everybody's `mine` in rank order. MPI-4.1 §6.7.
///
/// # Errors
/// A peer that left the protocol.
pub fn allgather_u64(hold: &mut Hold, comm: &Rc<Comm>, mine: u64) -> Result<Vec<u64>> {
    let all = allgather_bytes(hold, comm, &mine.to_ne_bytes())?;
    Ok(all.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

/// Combines `values` of all members element by element in rank order; everybody gets the result.
/// MPI-4.1 §6.9.6.
///
/// # Errors
/// A member passed another number of values.
pub fn allreduce_u64(hold: &mut Hold, comm: &Rc<Comm>, values: &mut [u64], op: fn(u64, u64) -> u64) -> Result<()> {
    let mine: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let all = allgather_bytes(hold, comm, &mine)?;
    for (index, value) in values.iter_mut().enumerate() {
        *value = (0..comm.size() as usize)
            .map(|rank| &all[rank * mine.len() + index * 8..][..8])
            .map(|bytes| bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
            .reduce(op)
            .unwrap_or(*value);
    }
    Ok(())
}

/// The boards of `comm`, if it has some and `len` bytes can be shown on them.
fn boards_for<'a>(hold: &Hold, comm: &'a Comm, len: usize) -> Option<&'a Rc<Boards>> {
    board::of(hold, comm).filter(|_| len <= board::MOST)
}

fn by_boards<'a>(
    hold: &mut Hold,
    comm: &'a Rc<Comm>,
    boards: &'a Rc<Boards>,
    operation: impl FnOnce(&mut Hold, Where<'a>) -> Result<()>,
) -> Result<()> {
    hold.check_peer(comm, Plane::Collective, None)?;
    let at = Where::new(comm, boards, Signature::of(Call::Internal), board::MOST);
    operation(hold, at)
        .and_then(|()| boards.take_back(hold, comm))
        .inspect_err(|_| boards.give_up(hold, comm))
}

fn run_on_bytes(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    send: &[u8],
    recv: &mut [u8],
    build: impl FnOnce(&mut Schedule, Member),
) -> Result<()> {
    let mut schedule = Schedule::default();
    let (rank, size) = (comm.rank, comm.size());
    build(&mut schedule, Member { rank, size });
    let operation = Operation {
        comm: comm.clone(),
        schedule,
        send: send.as_ptr().cast_mut(),
        recv: recv.as_mut_ptr(),
        types: Vec::new(),
        op: None,
        signature: Signature::of(Call::Internal),
    };
    run(hold, operation)
}
