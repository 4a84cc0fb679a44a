//! Communicators with a topology (MPI-4.1 §8.5). A program that allows new ranks gets them where that
//! brings neighbours together: see [`super::arrange`].

use super::arrange::{self, arrange};
use super::graph::Edge;
use super::{Cart, DistGraph, Graph, Topology};
use crate::fail;
use crate::mpi::coll::allgather_bytes;
use crate::mpi::comm::Comm;
use crate::mpi::comm::create::{Choice, dup, split};
use crate::mpi::comm::hardware;
use crate::mpi::error::Result;
use crate::mpi::status::UNDEFINED;
use crate::mpi::world::Hold;
use crate::sys::topology::Place;
use std::rc::Rc;

/// A communicator of the first processes of `comm`, as many as the grid has; `None` to the others.
/// With `reorder` they may change places. Collective.
///
/// # Errors
/// As [`split`].
pub fn cart(hold: &mut Hold, comm: &Rc<Comm>, cart: Cart, reorder: bool) -> Result<Option<Comm>> {
    let size = cart.size();
    let edges = |rank: u32| {
        let after = (0..cart.dims.len()).filter_map(|dimension| cart.shift(rank, dimension, 1).1);
        after.map(|other| (rank, other, 1)).collect()
    };
    let key = new_rank(hold, comm, size, reorder, edges)?;
    first(hold, comm, size, key, Topology::Cart(cart))
}

/// The same for a graph. Collective.
///
/// # Errors
/// As [`split`].
pub fn graph(hold: &mut Hold, comm: &Rc<Comm>, graph: Graph, reorder: bool) -> Result<Option<Comm>> {
    let size = graph.index.len() as u32;
    let edges = |rank: u32| {
        let neighbors = graph.neighbors(rank).iter();
        neighbors.map(|&other| (rank, other as u32, 1)).collect()
    };
    let key = new_rank(hold, comm, size, reorder, edges)?;
    first(hold, comm, size, key, Topology::Graph(graph))
}

/// The caller's node among the first `size` processes of `comm`; its own rank if nothing is gained.
/// Collective if `reorder`.
fn new_rank(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    size: u32,
    reorder: bool,
    edges: impl Fn(u32) -> Vec<arrange::Edge>,
) -> Result<u32> {
    if !reorder {
        return Ok(comm.rank);
    }
    let places = places(hold, comm)?;
    if comm.rank >= size {
        return Ok(comm.rank);
    }
    let edges: Vec<_> = (0..size).flat_map(edges).collect();
    Ok(arrange(&places[..size as usize], &edges)[comm.rank as usize])
}

fn places(hold: &mut Hold, comm: &Rc<Comm>) -> Result<Vec<Place>> {
    let everybody = hardware::everybody(hold, comm)?;
    Ok(everybody.into_iter().map(|here| here.place).collect())
}

fn first(hold: &mut Hold, comm: &Rc<Comm>, size: u32, key: u32, topology: Topology) -> Result<Option<Comm>> {
    let color = if comm.rank < size { 0 } else { UNDEFINED };
    let new = split(hold, comm, Choice { color, key: key as i32 })?;
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

/// A duplicate of `comm` with this process's edges, which all have given for themselves; with `reorder`
/// processes may change places. Collective.
///
/// # Errors
/// As [`dup`].
pub fn adjacent(hold: &mut Hold, comm: &Rc<Comm>, graph: DistGraph, reorder: bool) -> Result<Comm> {
    if !reorder {
        return Ok(with(dup(hold, comm)?, Topology::DistGraph(graph)));
    }
    let mine = graph.to_bytes();
    let lengths = allgather_bytes(hold, comm, &(mine.len() as u64).to_ne_bytes())?;
    let lengths = lengths.as_chunks().0.iter();
    let lengths: Vec<usize> = lengths.map(|&len| u64::from_ne_bytes(len) as usize).collect();
    let most = lengths.iter().copied().max().unwrap_or(0);
    let mut padded = mine;
    padded.resize(most, 0);
    let all = allgather_bytes(hold, comm, &padded)?;
    let of = |rank: usize| DistGraph::from_bytes(&all[rank * most..][..lengths[rank]]);
    let outgoing = |rank: u32| of(rank as usize).outgoing(rank);
    let node = new_rank(hold, comm, comm.size(), true, outgoing)?;
    moved(hold, comm, node, of(node as usize))
}

/// `comm` with the caller at `node`.
fn moved(hold: &mut Hold, comm: &Rc<Comm>, node: u32, graph: DistGraph) -> Result<Comm> {
    let choice = Choice {
        color: 0,
        key: node as i32,
    };
    match split(hold, comm, choice)? {
        Some(new) => Ok(with(new, Topology::DistGraph(graph))),
        None => fail!(Intern, "a reordered communicator came out empty"),
    }
}

/// A duplicate of `comm` with the edges at this process of those that all processes declared together.
/// With `reorder` processes may change places. Collective.
///
/// # Errors
/// As [`dup`].
pub fn distributed(hold: &mut Hold, comm: &Rc<Comm>, declared: &[Edge], weighted: bool, reorder: bool) -> Result<Comm> {
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
    if !reorder {
        let graph = DistGraph::at(comm.rank, edges, weighted);
        return adjacent(hold, comm, graph, false);
    }
    let edges: Vec<Edge> = edges.collect();
    let weight = |edge: &Edge| if weighted { edge.weight.max(0) as u64 } else { 1 };
    let tied = |edge: &Edge| (edge.source as u32, edge.destination as u32, weight(edge));
    let from = |rank: u32| match rank {
        0 => edges.iter().map(tied).collect(),
        _ => Vec::new(),
    };
    let node = new_rank(hold, comm, comm.size(), true, from)?;
    moved(hold, comm, node, DistGraph::at(node, edges.into_iter(), weighted))
}
