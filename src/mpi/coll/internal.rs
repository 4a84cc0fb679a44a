//! Collectives on plain bytes for the library's own use (communicator creation, start and end).
//! All work on the local group of an intracommunicator.

use super::next_tag;
use crate::mpi::buffer::Buffer;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::error::Result;
use crate::mpi::pt2pt::{self, Mode};
use crate::mpi::world::Hold;
use std::rc::Rc;

/// Returns once every member of `comm` has called it. MPI-4.1 §6.3.
pub fn barrier(hold: &mut Hold, comm: &Rc<Comm>) -> Result<()> {
    allgather_bytes(hold, comm, &[]).map(drop)
}

/// Makes `bytes` of every member those of `root`; all members pass the same length. MPI-4.1 §6.4.
pub fn bcast_bytes(hold: &mut Hold, comm: &Rc<Comm>, root: u32, bytes: &mut [u8]) -> Result<()> {
    let tag = next_tag(comm);
    let buffer = Buffer::bytes(bytes.as_mut_ptr(), bytes.len());
    if comm.rank != root {
        return pt2pt::recv(hold, comm, Plane::Collective, buffer, root as i32, tag).map(drop);
    }
    for peer in (0..comm.size()).filter(|&peer| peer != root) {
        pt2pt::send(hold, comm, Plane::Collective, buffer.clone(), peer, tag, Mode::Standard)?;
    }
    Ok(())
}

/// At `root`, everybody's `mine` in rank order; elsewhere nothing. All members pass the same length.
/// MPI-4.1 §6.5.
pub fn gather_bytes(hold: &mut Hold, comm: &Rc<Comm>, root: u32, mine: &[u8]) -> Result<Option<Vec<u8>>> {
    let tag = next_tag(comm);
    if comm.rank != root {
        let buffer = Buffer::bytes(mine.as_ptr().cast_mut(), mine.len());
        pt2pt::send(hold, comm, Plane::Collective, buffer, root, tag, Mode::Standard)?;
        return Ok(None);
    }
    let mut all = mine.repeat(comm.size() as usize);
    for peer in (0..comm.size()).filter(|&peer| peer != root) {
        let block = &mut all[peer as usize * mine.len()..][..mine.len()];
        let buffer = Buffer::bytes(block.as_mut_ptr(), block.len());
        pt2pt::recv(hold, comm, Plane::Collective, buffer, peer as i32, tag)?;
    }
    Ok(Some(all))
}

/// Everybody's `mine` in rank order; all members pass the same length. MPI-4.1 §6.7.
pub fn allgather_bytes(hold: &mut Hold, comm: &Rc<Comm>, mine: &[u8]) -> Result<Vec<u8>> {
    let mut all = match gather_bytes(hold, comm, 0, mine)? {
        Some(all) => all,
        None => vec![0; mine.len() * comm.size() as usize],
    };
    bcast_bytes(hold, comm, 0, &mut all)?;
    Ok(all)
}

/// Combines `values` of all members element by element in rank order; everybody gets the result.
/// MPI-4.1 §6.9.6.
pub fn allreduce_u64(hold: &mut Hold, comm: &Rc<Comm>, values: &mut [u64], op: fn(u64, u64) -> u64) -> Result<()> {
    let mine: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
    let all = allgather_bytes(hold, comm, &mine)?;
    for (index, value) in values.iter_mut().enumerate() {
        *value = (0..comm.size() as usize)
            .map(|rank| &all[rank * mine.len() + index * 8..][..8])
            .map(|bytes| u64::from_ne_bytes(bytes.try_into().unwrap()))
            .reduce(op)
            .unwrap_or(*value);
    }
    Ok(())
}
