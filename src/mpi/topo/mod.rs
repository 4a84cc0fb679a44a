//! Virtual topologies: who is a process's neighbour (MPI-4.1 §8).
//!
//! | module | owns |
//! |---|---|
//! | [`arrange`] | who takes which place, if the program leaves it open |
//! | [`cart`] | grids |
//! | [`create`] | communicators with a topology |
//! | [`graph`] | graphs, whole and distributed |

pub mod arrange;
pub mod cart;
pub mod create;
pub mod graph;

pub use cart::{Cart, balance};
pub use graph::{DistGraph, Graph};

use super::error::Result;
use super::status::PROC_NULL;
use crate::fail;

/// The topology of a communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// A grid.
    Cart(Cart),
    /// A graph of which every process knows all.
    Graph(Graph),
    /// A graph of which every process knows its own edges.
    DistGraph(DistGraph),
}

impl Topology {
    /// The neighbours of `rank`, which is the caller: those it receives from and those it sends to, in
    /// the order of the neighbourhood collectives' buffers (MPI-4.1 §8.6); `PROC_NULL` beyond the
    /// edge of a grid.
    pub fn neighbors(&self, rank: u32) -> (Vec<i32>, Vec<i32>) {
        match self {
            Topology::Cart(cart) => {
                let around = |dimension| {
                    let (before, after) = cart.shift(rank, dimension, 1);
                    [before, after].map(|rank| rank.map_or(PROC_NULL, |rank| rank as i32))
                };
                let all: Vec<i32> = (0..cart.dims.len()).flat_map(around).collect();
                (all.clone(), all)
            }
            Topology::Graph(graph) => (graph.neighbors(rank).to_vec(), graph.neighbors(rank).to_vec()),
            Topology::DistGraph(graph) => (graph.sources.clone(), graph.destinations.clone()),
        }
    }
}

/// The grid in `topology`.
///
/// # Errors
/// `Topology`: it is none.
pub fn cart(topology: Option<&Topology>) -> Result<&Cart> {
    match topology {
        Some(Topology::Cart(cart)) => Ok(cart),
        _ => fail!(Topology, "the communicator has no Cartesian topology"),
    }
}

/// The graph in `topology`.
///
/// # Errors
/// `Topology`: it is none.
pub fn graph(topology: Option<&Topology>) -> Result<&Graph> {
    match topology {
        Some(Topology::Graph(graph)) => Ok(graph),
        _ => fail!(Topology, "the communicator has no graph topology"),
    }
}

/// The distributed graph in `topology`.
///
/// # Errors
/// `Topology`: it is none.
pub fn dist_graph(topology: Option<&Topology>) -> Result<&DistGraph> {
    match topology {
        Some(Topology::DistGraph(graph)) => Ok(graph),
        _ => fail!(Topology, "the communicator has no distributed graph topology"),
    }
}
