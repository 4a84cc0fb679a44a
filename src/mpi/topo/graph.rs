//! Graphs of processes (MPI-4.1 §8.5.3, §8.5.4).

use crate::fail;
use crate::mpi::error::Result;

/// A graph of which every process knows all edges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    /// `index[r]`: how many entries of `edges` belong to nodes `0 ..= r`.
    pub index: Vec<i32>,
    /// The neighbours of node 0, then those of node 1 and so on.
    pub edges: Vec<i32>,
}

impl Graph {
    /// A graph for a communicator of `size` processes.
    ///
    /// # Errors
    /// `Arg`: more nodes than processes, `index` decreases, or an edge leads to no node.
    pub fn new(index: &[i32], edges: &[i32], size: u32) -> Result<Graph> {
        let nodes = index.len();
        if nodes > size as usize {
            fail!(
                Arg,
                "the communicator has {size} processes, the graph has {nodes} nodes"
            );
        }
        check_index(index)?;
        for &edge in edges {
            if edge < 0 || edge as usize >= nodes {
                fail!(Arg, "an edge leads to node {edge} of a graph of {nodes} nodes");
            }
        }
        Ok(Graph {
            index: index.to_vec(),
            edges: edges.to_vec(),
        })
    }

    /// The neighbours of node `rank`.
    pub fn neighbors(&self, rank: u32) -> &[i32] {
        let rank = rank as usize;
        let first = if rank == 0 { 0 } else { self.index[rank - 1] };
        &self.edges[first as usize..self.index[rank] as usize]
    }
}

/// Checks the `index` argument of a graph before its edges are read: it says how many there are.
///
/// # Errors
/// `Arg`: it decreases.
pub fn check_index(index: &[i32]) -> Result<usize> {
    let mut before = 0;
    for (node, &edges) in index.iter().enumerate() {
        if edges < before {
            fail!(Arg, "index[{node}] is {edges}, less than the {before} edges before it");
        }
        before = edges;
    }
    Ok(before as usize)
}

/// One process's edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DistGraph {
    /// Ranks with an edge to this process.
    pub sources: Vec<i32>,
    /// Ranks this process has an edge to.
    pub destinations: Vec<i32>,
    /// The edges' weights, unless the graph has none: of the sources', of the destinations'.
    pub weights: Option<(Vec<i32>, Vec<i32>)>,
}

/// An edge that some process declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Where it starts.
    pub source: i32,
    /// Where it leads.
    pub destination: i32,
    /// Its weight.
    pub weight: i32,
}

impl Edge {
    /// Bytes of an edge in a message.
    pub const LEN: usize = 12;

    /// As bytes of a message.
    pub fn to_bytes(self) -> [u8; Edge::LEN] {
        let mut bytes = [0; Edge::LEN];
        bytes[..4].copy_from_slice(&self.source.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.destination.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.weight.to_ne_bytes());
        bytes
    }

    /// From the bytes of a message.
    pub fn from_bytes(bytes: [u8; Edge::LEN]) -> Edge {
        let [s0, s1, s2, s3, d0, d1, d2, d3, w0, w1, w2, w3] = bytes;
        Edge {
            source: i32::from_ne_bytes([s0, s1, s2, s3]),
            destination: i32::from_ne_bytes([d0, d1, d2, d3]),
            weight: i32::from_ne_bytes([w0, w1, w2, w3]),
        }
    }
}

impl DistGraph {
    /// The edges at `rank` among all that were declared, in the order they were.
    pub fn at(rank: u32, edges: impl Iterator<Item = Edge>, weighted: bool) -> DistGraph {
        let rank = rank as i32;
        let mut graph = DistGraph::default();
        let mut weights = (Vec::new(), Vec::new());
        for edge in edges {
            if edge.destination == rank {
                graph.sources.push(edge.source);
                weights.0.push(edge.weight);
            }
            if edge.source == rank {
                graph.destinations.push(edge.destination);
                weights.1.push(edge.weight);
            }
        }
        graph.weights = weighted.then_some(weights);
        graph
    }

    /// As bytes of a message.
    pub fn to_bytes(&self) -> Vec<u8> {
        let (ins, outs) = (self.sources.len() as i32, self.destinations.len() as i32);
        let (of_ins, of_outs) = self.weights.clone().unwrap_or_default();
        let header = [ins, outs, self.weights.is_some().into()];
        let parts = [&header[..], &self.sources, &self.destinations, &of_ins, &of_outs];
        parts.concat().iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    /// From the bytes of a message that [`DistGraph::to_bytes`] made.
    pub fn from_bytes(bytes: &[u8]) -> DistGraph {
        let mut numbers = bytes.as_chunks().0.iter().map(|&number| i32::from_ne_bytes(number));
        let mut next = |len: i32| -> Vec<i32> { numbers.by_ref().take(len.max(0) as usize).collect() };
        let [ins, outs, weighted] = next(3).try_into().unwrap_or_default();
        let (sources, destinations) = (next(ins), next(outs));
        let weights = (weighted != 0).then(|| (next(ins), next(outs)));
        DistGraph {
            sources,
            destinations,
            weights,
        }
    }

    /// The edges from this process, which is `rank`.
    pub fn outgoing(&self, rank: u32) -> Vec<(u32, u32, u64)> {
        let weight = |at: usize| match &self.weights {
            Some((_, weights)) => weights[at].max(0) as u64,
            None => 1,
        };
        let ends = self.destinations.iter().enumerate();
        ends.map(|(at, &end)| (rank, end as u32, weight(at))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::error::Class;

    #[test]
    fn neighbours_are_found_by_index() {
        // The example of MPI-4.1 §8.5.3.
        let graph = Graph::new(&[2, 3, 4, 6], &[1, 3, 0, 3, 0, 2], 4).unwrap();
        let neighbors: Vec<_> = (0..4).map(|rank| graph.neighbors(rank)).collect();
        assert_eq!(neighbors, [&[1, 3][..], &[0], &[3], &[0, 2]]);
        let class = |index: &[i32], edges: &[i32]| Graph::new(index, edges, 3).unwrap_err().class();
        assert_eq!(class(&[1, 1, 1, 1], &[0]), Class::Arg);
        assert_eq!(class(&[2, 1], &[0, 1]), Class::Arg);
        assert_eq!(class(&[1, 2], &[0, 2]), Class::Arg);
        assert_eq!(class(&[1, 2], &[0, -1]), Class::Arg);
    }

    #[test]
    fn each_process_finds_its_edges() {
        let edges = [(0, 1, 5), (1, 0, 6), (1, 1, 7)].map(|(source, destination, weight)| Edge {
            source,
            destination,
            weight,
        });
        let sent = edges.iter().map(|edge| Edge::from_bytes(edge.to_bytes()));
        let graph = DistGraph::at(1, sent, true);
        assert_eq!((graph.sources, graph.destinations), (vec![0, 1], vec![0, 1]));
        assert_eq!(graph.weights, Some((vec![5, 7], vec![6, 7])));
    }

    #[test]
    fn a_process_s_edges_travel() {
        let graph = DistGraph {
            sources: vec![4, 0],
            destinations: vec![3],
            weights: Some((vec![1, 2], vec![9])),
        };
        assert_eq!(DistGraph::from_bytes(&graph.to_bytes()), graph);
        assert_eq!(graph.outgoing(7), [(7, 3, 9)]);
        let plain = DistGraph { weights: None, ..graph };
        assert_eq!(DistGraph::from_bytes(&plain.to_bytes()), plain);
    }
}
