//! Exchanges with the neighbours of a virtual topology (MPI-4.1 §8.6).

use super::args::{Blocks, Data};
use super::machine;
use super::schedule::{Schedule, Slice};
use super::signature::{Call, Signature};
use crate::fail;
use crate::mpi::comm::Comm;
use crate::mpi::error::Result;
use crate::mpi::topo::Topology;
use crate::mpi::world::Hold;
use std::rc::Rc;

/// What a process sends to its neighbours.
pub enum Outgoing {
    /// The same to all (`MPI_Neighbor_allgather`, `MPI_Neighbor_allgatherv`).
    Same(Data),
    /// A block to each (`MPI_Neighbor_alltoall`, `MPI_Neighbor_alltoallv`, `MPI_Neighbor_alltoallw`).
    Blocks(Blocks),
}

/// With whom a process exchanges which blocks: all sends and receives start at once, and what it has for itself is
/// copied after them. Cost: one message for each neighbour.
#[derive(Debug)]
pub struct Neighbors {
    /// Blocks of the receive buffer.
    pub sources: u32,
    /// Blocks of the send buffer go to these; negative numbers stand beyond the edge of a grid.
    pub destinations: Vec<i32>,
    /// To a rank goes this block, in this order.
    sends: Vec<(u32, u32)>,
    /// From a rank comes this block, in this order.
    receives: Vec<(u32, u32)>,
    /// This block goes to that one.
    own: Vec<(u32, u32)>,
}

impl Neighbors {
    /// Those of process `me`, which receives from `sources` and sends to `destinations`, in the order of the buffers'
    /// blocks. In a grid, what goes to the lower neighbour of a dimension arrives there as from the higher one, which
    /// matters when both are the same process (MPI-4.1 §8.6).
    pub fn new(me: u32, sources: &[i32], destinations: Vec<i32>, is_grid: bool) -> Neighbors {
        let ranked = |index: usize, rank: i32| u32::try_from(rank).ok().map(|rank| (rank, index as u32));
        let arriving = (0..sources.len()).map(|position| if is_grid { position ^ 1 } else { position });
        let (to_me, sends): (Vec<_>, Vec<_>) = destinations
            .iter()
            .enumerate()
            .filter_map(|(index, &rank)| ranked(index, rank))
            .partition(|&(rank, _)| rank == me);
        let (from_me, receives): (Vec<_>, Vec<_>) = arriving
            .filter_map(|index| ranked(index, sources[index]))
            .partition(|&(rank, _)| rank == me);
        let own = to_me.iter().zip(&from_me).map(|(&(_, from), &(_, to))| (from, to));
        Neighbors {
            sources: sources.len() as u32,
            own: own.collect(),
            destinations,
            sends,
            receives,
        }
    }

    /// Those in `comm`'s topology.
    ///
    /// # Errors
    /// `Topology`: it has none.
    pub fn of(comm: &Comm) -> Result<Rc<Neighbors>> {
        let Some(topology) = comm.topology.as_deref() else {
            fail!(Topology, "the communicator has no topology, so nobody is a neighbour");
        };
        let first = || {
            let (sources, destinations) = topology.neighbors(comm.rank);
            let is_grid = matches!(topology, Topology::Cart(_));
            Rc::new(Neighbors::new(comm.rank, &sources, destinations, is_grid))
        };
        Ok(comm.neighbors.get_or_init(first).clone())
    }
}

/// Adds the exchange as a round: block k of what is sent is `from(k)`, of what is received `to(k)`.
pub fn exchange(
    schedule: &mut Schedule,
    neighbors: &Neighbors,
    from: impl Fn(u32) -> Slice,
    to: impl Fn(u32) -> Slice,
) {
    let round = schedule.round();
    for &(rank, block) in &neighbors.sends {
        round.send(rank, from(block));
    }
    for &(rank, block) in &neighbors.receives {
        round.recv(rank, to(block));
    }
    for &(sent, received) in &neighbors.own {
        round.copy(from(sent), to(received));
    }
}

/// Does the exchange and waits for its end, without a schedule: making one takes longer than a short exchange.
///
/// # Errors
/// As [`machine::run`].
pub fn perform(hold: &mut Hold, comm: &Rc<Comm>, neighbors: &Neighbors, send: &Outgoing, recv: &Blocks) -> Result<()> {
    let from = |block| match send {
        Outgoing::Same(data) => data.buffer(),
        Outgoing::Blocks(blocks) => blocks.buffer(block),
    };
    let sends = neighbors.sends.iter().map(|&(rank, block)| (rank, from(block)));
    let receives = neighbors
        .receives
        .iter()
        .map(|&(rank, block)| (rank, recv.buffer(block)));
    let own = neighbors
        .own
        .iter()
        .map(|&(sent, received)| (from(sent), recv.buffer(received)));
    machine::exchange(hold, comm, Signature::of(Call::Neighbor), sends, receives, own)
}

#[cfg(test)]
mod tests {
    use super::super::simulate::{ELEMENT, Memory, recvs, run, sends};
    use super::*;

    /// A ring of `size` processes as a periodic grid of one dimension, each sending 10 r to the lower
    /// neighbour and 10 r + 1 to the higher.
    #[test]
    fn a_ring_exchanges_with_both_sides_at_any_size() {
        for size in 1..=6u32 {
            let block = |area: super::super::schedule::Area| move |index: u32| area.slice(index as usize, 1);
            let mut schedules = Vec::new();
            let mut memories = Vec::new();
            for me in 0..size {
                let around = vec![((me + size - 1) % size) as i32, ((me + 1) % size) as i32];
                let neighbors = Neighbors::new(me, &around, around.clone(), true);
                let mut schedule = Schedule::default();
                exchange(&mut schedule, &neighbors, block(sends(ELEMENT)), block(recvs(ELEMENT)));
                schedules.push(schedule);
                let mut memory = Memory::new(ELEMENT);
                let values = [(10 * me as u16, 0), (10 * me as u16 + 1, 0)];
                memory.set_maps(sends(ELEMENT).slice(0, 2), &values);
                memories.push(memory);
            }
            run(&schedules, &mut memories);
            for me in 0..size {
                let (lower, higher) = ((me + size - 1) % size, (me + 1) % size);
                let got = memories[me as usize].maps(recvs(ELEMENT).slice(0, 2));
                assert_eq!(
                    got,
                    [(10 * lower as u16 + 1, 0), (10 * higher as u16, 0)],
                    "{me} of {size}"
                );
            }
        }
    }
}
