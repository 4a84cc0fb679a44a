//! # Safety
//! Exports functions that reach the application's memory through the helpers of [`super::edge`] only.
//!
//! Virtual topologies (MPI-4.1 §8).
#![allow(unsafe_code)]

use super::comm::{give_comm, give_if_any, new_comm};
use super::constants::*;
use super::edge::*;
use super::fortran::{MPI_UNWEIGHTED, MPI_WEIGHTS_EMPTY};
use super::group::{length, out};
use super::info::hints;
use super::types::*;
use crate::fail;
use crate::mpi::comm::Comm;
use crate::mpi::status::{PROC_NULL, UNDEFINED};
use crate::mpi::topo::graph::{Edge, check_index};
use crate::mpi::topo::{self, Cart, DistGraph, Graph, Topology, create};
use std::ffi::c_int;
use std::rc::Rc;

fn cart(comm: &Comm) -> Result<&Cart> {
    topo::cart(comm.topology.as_deref())
}

fn graph(comm: &Comm) -> Result<&Graph> {
    topo::graph(comm.topology.as_deref())
}

/// The grid that `ndims`, `dims` and `periods` describe, for `comm`.
fn new_cart(comm: &Comm, ndims: c_int, dims: *const c_int, periods: *const c_int) -> Result<Cart> {
    comm.intra()?;
    let ndims = length(ndims, "ndims")?;
    Cart::new(
        slice(dims, ndims, "dims")?,
        slice(periods, ndims, "periods")?,
        comm.size(),
    )
}

/// The graph that `nnodes`, `indx` and `edges` describe, for `comm`.
fn new_graph(comm: &Comm, nnodes: c_int, indx: *const c_int, edges: *const c_int) -> Result<Graph> {
    comm.intra()?;
    let index = slice(indx, length(nnodes, "nnodes")?, "indx")?;
    let edges = slice(edges, check_index(index)?, "edges")?;
    Graph::new(index, edges, comm.size())
}

/// The first elements of `values` that there is room for; an array without room may be NULL.
fn fill(array: *mut c_int, room: c_int, name: &str, values: &[c_int]) -> Result<()> {
    let len = values.len().min(length(room, name)?);
    slice_mut(array, len, name)?.copy_from_slice(&values[..len]);
    Ok(())
}

/// Refuses arrays with room for fewer than `needed` elements.
fn check_room(room: c_int, needed: usize, name: &str) -> Result<()> {
    if length(room, name)? < needed {
        fail!(Arg, "{name} is {room}, but there are {needed} elements to store");
    }
    Ok(())
}

/// What kind of topology `comm` has. MPI-4.1 §8.5.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Topo_test(comm: MPI_Comm, status: *mut c_int) -> c_int {
    on_comm("MPI_Topo_test", comm, |_, comm| {
        let kind = match comm.topology.as_deref() {
            Some(Topology::Cart(_)) => MPI_CART,
            Some(Topology::Graph(_)) => MPI_GRAPH,
            Some(Topology::DistGraph(_)) => MPI_DIST_GRAPH,
            None => UNDEFINED,
        };
        store(status, "status", kind)
    })
}

/// Fills the zeros of `dims` with a balanced grid. MPI-4.1 §8.5.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Dims_create(nnodes: c_int, ndims: c_int, dims: *mut c_int) -> c_int {
    on_world("MPI_Dims_create", |_| {
        let ndims = length(ndims, "ndims")?;
        if ndims == 0 {
            return Ok(());
        }
        topo::balance(nnodes, slice_mut(dims, ndims, "dims")?)
    })
}

/// A communicator with a grid. MPI-4.1 §8.5.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Cart_create(
    comm_old: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    reorder: c_int,
    comm_cart: *mut MPI_Comm,
) -> c_int {
    on_comm("MPI_Cart_create", comm_old, |hold, comm| {
        let out = new_comm(comm_cart, "comm_cart")?;
        let cart = new_cart(comm, ndims, dims, periods)?;
        let new = create::cart(hold, comm, cart, reorder != 0)?;
        *out = give_if_any(hold, new)?;
        Ok(())
    })
}

/// The rank that [`MPI_Cart_create`] would give the caller without reordering, which takes all processes
/// together. MPI-4.1 §8.5.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Cart_map(
    comm: MPI_Comm,
    ndims: c_int,
    dims: *const c_int,
    periods: *const c_int,
    newrank: *mut c_int,
) -> c_int {
    on_comm("MPI_Cart_map", comm, |_, comm| {
        // MPICH has another class here than in MPI_Cart_create.
        let dims_error = |error: Error| match error.class() {
            Class::Arg => Error::new(Class::Dims, error.text()),
            _ => error,
        };
        let cart = new_cart(comm, ndims, dims, periods).map_err(dims_error)?;
        store(newrank, "newrank", place(comm, cart.size()))
    })
}

fn place(comm: &Comm, size: u32) -> c_int {
    if comm.rank < size {
        comm.rank as c_int
    } else {
        UNDEFINED
    }
}

/// Number of dimensions. MPI-4.1 §8.5.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Cartdim_get(comm: MPI_Comm, ndims: *mut c_int) -> c_int {
    on_comm("MPI_Cartdim_get", comm, |_, comm| {
        store(ndims, "ndims", cart(comm)?.dims.len() as c_int)
    })
}

/// The grid and the caller's place in it. MPI-4.1 §8.5.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Cart_get(
    comm: MPI_Comm,
    maxdims: c_int,
    dims: *mut c_int,
    periods: *mut c_int,
    coords: *mut c_int,
) -> c_int {
    on_comm("MPI_Cart_get", comm, |_, comm| {
        let cart = cart(comm)?;
        check_room(maxdims, cart.dims.len(), "maxdims")?;
        let lengths: Vec<c_int> = cart.dims.iter().map(|&dim| dim as c_int).collect();
        let rings: Vec<c_int> = cart.periods.iter().map(|&period| period.into()).collect();
        fill(dims, maxdims, "dims", &lengths)?;
        fill(periods, maxdims, "periods", &rings)?;
        fill(coords, maxdims, "coords", &cart.coords(comm.rank))
    })
}

/// Who stands at `coords`. MPI-4.1 §8.5.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Cart_rank(comm: MPI_Comm, coords: *const c_int, rank: *mut c_int) -> c_int {
    on_comm("MPI_Cart_rank", comm, |_, comm| {
        let cart = cart(comm)?;
        let coords = slice(coords, cart.dims.len(), "coords")?;
        store(rank, "rank", cart.rank(coords)? as c_int)
    })
}

/// Where `rank` stands. MPI-4.1 §8.5.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Cart_coords(comm: MPI_Comm, rank: c_int, maxdims: c_int, coords: *mut c_int) -> c_int {
    on_comm("MPI_Cart_coords", comm, |_, comm| {
        let cart = cart(comm)?;
        let rank = comm.checked_rank(rank)?;
        check_room(maxdims, cart.dims.len(), "maxdims")?;
        fill(coords, maxdims, "coords", &cart.coords(rank))
    })
}

/// Neighbours along a dimension. MPI-4.1 §8.5.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Cart_shift(
    comm: MPI_Comm,
    direction: c_int,
    disp: c_int,
    rank_source: *mut c_int,
    rank_dest: *mut c_int,
) -> c_int {
    on_comm("MPI_Cart_shift", comm, |_, comm| {
        let cart = cart(comm)?;
        let ndims = cart.dims.len();
        if direction < 0 || direction as usize >= ndims {
            fail!(Arg, "direction is {direction}, but the grid has {ndims} dimensions");
        }
        let (source, dest) = (out(rank_source, "rank_source")?, out(rank_dest, "rank_dest")?);
        let (before, after) = cart.shift(comm.rank, direction as usize, disp);
        let [before, after] = [before, after].map(|rank| rank.map_or(PROC_NULL, |rank| rank as c_int));
        (*source, *dest) = (before, after);
        Ok(())
    })
}

/// The grids of some of the dimensions. MPI-4.1 §8.5.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Cart_sub(comm: MPI_Comm, remain_dims: *const c_int, newcomm: *mut MPI_Comm) -> c_int {
    on_comm("MPI_Cart_sub", comm, |hold, comm| {
        let out = new_comm(newcomm, "newcomm")?;
        let remain = slice(remain_dims, cart(comm)?.dims.len(), "remain_dims")?;
        let kept: Vec<bool> = remain.iter().map(|&remain| remain != 0).collect();
        let new = create::sub(hold, comm, &kept)?;
        *out = give_comm(hold, Rc::new(new))?;
        Ok(())
    })
}

/// A communicator with a graph that all know. MPI-4.1 §8.5.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Graph_create(
    comm_old: MPI_Comm,
    nnodes: c_int,
    indx: *const c_int,
    edges: *const c_int,
    reorder: c_int,
    comm_graph: *mut MPI_Comm,
) -> c_int {
    on_comm("MPI_Graph_create", comm_old, |hold, comm| {
        let out = new_comm(comm_graph, "comm_graph")?;
        let graph = new_graph(comm, nnodes, indx, edges)?;
        let new = create::graph(hold, comm, graph, reorder != 0)?;
        *out = give_if_any(hold, new)?;
        Ok(())
    })
}

/// The rank that [`MPI_Graph_create`] would give the caller without reordering. MPI-4.1 §8.5.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Graph_map(
    comm: MPI_Comm,
    nnodes: c_int,
    indx: *const c_int,
    edges: *const c_int,
    newrank: *mut c_int,
) -> c_int {
    on_comm("MPI_Graph_map", comm, |_, comm| {
        let graph = new_graph(comm, nnodes, indx, edges)?;
        store(newrank, "newrank", place(comm, graph.index.len() as u32))
    })
}

/// Numbers of nodes and edges. MPI-4.1 §8.5.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Graphdims_get(comm: MPI_Comm, nnodes: *mut c_int, nedges: *mut c_int) -> c_int {
    on_comm("MPI_Graphdims_get", comm, |_, comm| {
        let graph = graph(comm)?;
        let (nodes, edges) = (out(nnodes, "nnodes")?, out(nedges, "nedges")?);
        (*nodes, *edges) = (graph.index.len() as c_int, graph.edges.len() as c_int);
        Ok(())
    })
}

/// The graph. MPI-4.1 §8.5.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Graph_get(
    comm: MPI_Comm,
    maxindex: c_int,
    maxedges: c_int,
    indx: *mut c_int,
    edges: *mut c_int,
) -> c_int {
    on_comm("MPI_Graph_get", comm, |_, comm| {
        let graph = graph(comm)?;
        check_room(maxindex, graph.index.len(), "maxindex")?;
        check_room(maxedges, graph.edges.len(), "maxedges")?;
        fill(indx, maxindex, "indx", &graph.index)?;
        fill(edges, maxedges, "edges", &graph.edges)
    })
}

/// Number of a node's neighbours. MPI-4.1 §8.5.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Graph_neighbors_count(comm: MPI_Comm, rank: c_int, nneighbors: *mut c_int) -> c_int {
    on_comm("MPI_Graph_neighbors_count", comm, |_, comm| {
        let neighbors = graph(comm)?.neighbors(comm.checked_rank(rank)?);
        store(nneighbors, "nneighbors", neighbors.len() as c_int)
    })
}

/// A node's neighbours, as many as there is room for. MPI-4.1 §8.5.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Graph_neighbors(
    comm: MPI_Comm,
    rank: c_int,
    maxneighbors: c_int,
    neighbors: *mut c_int,
) -> c_int {
    on_comm("MPI_Graph_neighbors", comm, |_, comm| {
        let found = graph(comm)?.neighbors(comm.checked_rank(rank)?);
        fill(neighbors, maxneighbors, "neighbors", found)
    })
}

/// Whether an array of weights says that there are none.
fn unweighted(weights: *const c_int) -> bool {
    weights == MPI_UNWEIGHTED.0
}

/// `count` weights; those of `MPI_WEIGHTS_EMPTY` and `MPI_UNWEIGHTED` are never read.
fn weights(array: *const c_int, count: usize, name: &str) -> Result<Vec<c_int>> {
    if unweighted(array) {
        return Ok(vec![1; count]);
    }
    if count > 0 && array == MPI_WEIGHTS_EMPTY.0 {
        fail!(Arg, "{name} is MPI_WEIGHTS_EMPTY, but there are {count} edges");
    }
    let weights = slice(array, count, name)?.to_vec();
    if let Some(negative) = weights.iter().find(|&&weight| weight < 0) {
        fail!(Arg, "{name} has the negative weight {negative}");
    }
    Ok(weights)
}

/// `count` ranks of `comm`.
fn ranks(comm: &Comm, array: *const c_int, count: usize, name: &str) -> Result<Vec<c_int>> {
    let ranks = slice(array, count, name)?;
    ranks.iter().try_for_each(|&rank| comm.checked_rank(rank).map(drop))?;
    Ok(ranks.to_vec())
}

/// A communicator with a graph of which each process gives its own edges. MPI-4.1 §8.5.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Dist_graph_create_adjacent(
    comm_old: MPI_Comm,
    indegree: c_int,
    sources: *const c_int,
    sourceweights: *const c_int,
    outdegree: c_int,
    destinations: *const c_int,
    destweights: *const c_int,
    info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> c_int {
    on_comm("MPI_Dist_graph_create_adjacent", comm_old, |hold, comm| {
        let out = new_comm(comm_dist_graph, "comm_dist_graph")?;
        comm.intra()?;
        let (ins, outs) = (length(indegree, "indegree")?, length(outdegree, "outdegree")?);
        if ins > 0 && outs > 0 && unweighted(sourceweights) != unweighted(destweights) {
            fail!(
                Topology,
                "one of sourceweights and destweights is MPI_UNWEIGHTED, the other is not"
            );
        }
        let weighted = !unweighted(sourceweights) && !unweighted(destweights);
        let given = (
            weights(sourceweights, ins, "sourceweights")?,
            weights(destweights, outs, "destweights")?,
        );
        let graph = DistGraph {
            sources: ranks(comm, sources, ins, "sources")?,
            destinations: ranks(comm, destinations, outs, "destinations")?,
            weights: weighted.then_some(given),
        };
        let hints = hints(info)?;
        let new = create::adjacent(hold, comm, graph, reorder != 0)?;
        new.info.replace(hints);
        *out = give_comm(hold, Rc::new(new))?;
        Ok(())
    })
}

/// A communicator with a graph of which each process gives any edges. MPI-4.1 §8.5.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Dist_graph_create(
    comm_old: MPI_Comm,
    n: c_int,
    sources: *const c_int,
    degrees: *const c_int,
    destinations: *const c_int,
    weights: *const c_int,
    info: MPI_Info,
    reorder: c_int,
    comm_dist_graph: *mut MPI_Comm,
) -> c_int {
    on_comm("MPI_Dist_graph_create", comm_old, |hold, comm| {
        let out = new_comm(comm_dist_graph, "comm_dist_graph")?;
        comm.intra()?;
        let n = length(n, "n")?;
        let sources = ranks(comm, sources, n, "sources")?;
        let degrees = slice(degrees, n, "degrees")?;
        let mut total = 0;
        for &degree in degrees {
            total += length(degree, "degrees[]")?;
        }
        let destinations = ranks(comm, destinations, total, "destinations")?;
        let given = self::weights(weights, total, "weights")?;
        let starts = sources.iter().zip(degrees);
        let starts = starts.flat_map(|(&source, &degree)| std::iter::repeat_n(source, degree as usize));
        let ends = destinations.iter().zip(&given);
        let edges: Vec<Edge> = starts
            .zip(ends)
            .map(|(source, (&destination, &weight))| Edge {
                source,
                destination,
                weight,
            })
            .collect();
        let hints = hints(info)?;
        let new = create::distributed(hold, comm, &edges, !unweighted(weights), reorder != 0)?;
        new.info.replace(hints);
        *out = give_comm(hold, Rc::new(new))?;
        Ok(())
    })
}

/// Numbers of the caller's edges. MPI-4.1 §8.5.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Dist_graph_neighbors_count(
    comm: MPI_Comm,
    indegree: *mut c_int,
    outdegree: *mut c_int,
    weighted: *mut c_int,
) -> c_int {
    on_comm("MPI_Dist_graph_neighbors_count", comm, |_, comm| {
        let graph = topo::dist_graph(comm.topology.as_deref())?;
        let (ins, outs) = (out(indegree, "indegree")?, out(outdegree, "outdegree")?);
        let weighted = out(weighted, "weighted")?;
        (*ins, *outs) = (graph.sources.len() as c_int, graph.destinations.len() as c_int);
        *weighted = graph.weights.is_some().into();
        Ok(())
    })
}

/// The caller's edges, as many as there is room for. MPI-4.1 §8.5.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Dist_graph_neighbors(
    comm: MPI_Comm,
    maxindegree: c_int,
    sources: *mut c_int,
    sourceweights: *mut c_int,
    maxoutdegree: c_int,
    destinations: *mut c_int,
    destweights: *mut c_int,
) -> c_int {
    on_comm("MPI_Dist_graph_neighbors", comm, |_, comm| {
        let graph = topo::dist_graph(comm.topology.as_deref())?;
        fill(sources, maxindegree, "sources", &graph.sources)?;
        fill(destinations, maxoutdegree, "destinations", &graph.destinations)?;
        let Some((of_sources, of_destinations)) = &graph.weights else {
            return Ok(());
        };
        if !unweighted(sourceweights) {
            fill(sourceweights, maxindegree, "sourceweights", of_sources)?;
        }
        if !unweighted(destweights) {
            fill(destweights, maxoutdegree, "destweights", of_destinations)?;
        }
        Ok(())
    })
}
