//! Communicators with a topology (MPI-4.1 §8.5). Ranks are never reordered: on one machine the order
//! of the job is as good as another.

use super::graph::Edge;
use super::{Cart, DistGraph, Graph, Topology};
use crate::fail;
use crate::mpi::coll::allgather_bytes;
use crate::mpi::comm::Comm;
use crate::mpi::comm::create::{Choice, dup, split};
use crate::mpi::error::Result;
use crate::mpi::status::UNDEFINED;
use crate::mpi::world::Hold;
use std::rc::Rc;

/// A communicator of the first processes of `comm`, as many as the grid has; `None` to the others.
/// Collective.
///
/// # Errors
/// As [`split`].
pub fn cart(hold: &mut Hold, comm: &Rc<Comm>, cart: Cart) -> Result<Option<Comm>> {
    let size = cart.size();
    first(hold, comm, size, Topology::Cart(cart))
}

/// The same for a graph. Collective.
///
/// # Errors
/// As [`split`].
pub fn graph(hold: &mut Hold, comm: &Rc<Comm>, graph: Graph) -> Result<Option<Comm>> {
    let size = graph.index.len() as u32;
    first(hold, comm, size, Topology::Graph(graph))
}

fn first(hold: &mut Hold, comm: &Rc<Comm>, size: u32, topology: Topology) -> Result<Option<Comm>> {
    let color = if comm.rank < size { 0 } else { UNDEFINED };
    let new = split(hold, comm, Choice { color, key: 0 })?;
    Ok(new.map(|new| with(new, topology)))
}

fn with(mut comm: Comm, topology: Topology) -> Comm {
    comm.topology = Some(Rc::new(topology));
    comm
}

/// The grid of the kept dimensions that the caller is in. Collective over the whole grid.
///
/// # Errors
/// `Topology`: `comm` has no grid; as [`split`].
pub fn sub(hold: &mut Hold, comm: &Rc<Comm>, kept: &[bool]) -> Result<Comm> {
    let cart = super::cart(comm.topology.as_deref())?;
    let (slice, which, place) = cart.slice(comm.rank, kept);
    let choice = Choice {
        color: which as i32,
        key: place as i32,
    };
    match split(hold, comm, choice)? {
        Some(new) => Ok(with(new, Topology::Cart(slice))),
        None => fail!(Intern, "a part of a grid came out empty"),
    }
}

/// A duplicate of `comm` with this process's edges, which all have given for themselves. Collective.
///
/// # Errors
/// As [`dup`].
pub fn adjacent(hold: &mut Hold, comm: &Rc<Comm>, graph: DistGraph) -> Result<Comm> {
    Ok(with(dup(hold, comm)?, Topology::DistGraph(graph)))
}

/// A duplicate of `comm` with the edges at this process of those that all processes declared together.
/// Collective.
///
/// # Errors
/// As [`dup`].
pub fn distributed(hold: &mut Hold, comm: &Rc<Comm>, declared: &[Edge], weighted: bool) -> Result<Comm> {
    let mut header = [0; 9];
    header[..8].copy_from_slice(&(declared.len() as u64).to_ne_bytes());
    header[8] = weighted.into();
    let headers = allgather_bytes(hold, comm, &header)?;
    let headers = headers.as_chunks::<9>().0.iter();
    let (counts, flags): (Vec<usize>, Vec<bool>) = headers
        .map(|&[a, b, c, d, e, f, g, h, flag]| (u64::from_ne_bytes([a, b, c, d, e, f, g, h]) as usize, flag != 0))
        .unzip();
    // Who declared nothing may have passed either.
    let mut telling = counts
        .iter()
        .zip(&flags)
        .filter(|(count, _)| **count > 0)
        .map(|(_, flag)| *flag);
    let weighted = telling.next().unwrap_or(flags.contains(&true));
    if telling.any(|flag| flag != weighted) {
        fail!(Arg, "some processes gave weights and some MPI_UNWEIGHTED");
    }
    let most = counts.iter().copied().max().unwrap_or(0);
    let mut padded: Vec<u8> = declared.iter().flat_map(|edge| edge.to_bytes()).collect();
    padded.resize(most * Edge::LEN, 0);
    let all = allgather_bytes(hold, comm, &padded)?;
    let of_rank = |rank: usize| all[rank * padded.len()..][..counts[rank] * Edge::LEN].as_chunks().0;
    let edges = (0..counts.len()).flat_map(|rank| of_rank(rank).iter().map(|&bytes| Edge::from_bytes(bytes)));
    let graph = DistGraph::at(comm.rank, edges, weighted);
    adjacent(hold, comm, graph)
}
