//! Which process takes which place of a topology, so that neighbours share caches (MPI-4.1 §8.4,
//! `reorder`). All processes compute the same from the same data.

use crate::sys::topology::Place;

/// Most processes for which pairs are exchanged after the first arrangement.
const POLISHED: usize = 128;

/// An edge: two nodes and how much passes between them.
pub type Edge = (u32, u32, u64);

/// The node of each process: `places[p]` is where process `p` runs, `edges` join nodes, of which there
/// are as many as places. Everyone keeps their own number unless another arrangement is better.
/// Cost: nodes times edges.
pub fn arrange(places: &[Place], edges: &[Edge]) -> Vec<u32> {
    let own: Vec<u32> = (0..places.len() as u32).collect();
    if places.iter().all(|place| *place == places[0]) {
        return own;
    }
    let neighbors = neighbors(places.len(), edges);
    let mut best = grown(places, &neighbors);
    if places.len() <= POLISHED {
        polish(places, &neighbors, &mut best);
    }
    match cost(places, edges, &best) < cost(places, edges, &own) {
        true => best,
        false => own,
    }
}

/// How far apart two places are: 0 for a shared core, more for less.
fn distance(a: &Place, b: &Place) -> u64 {
    a.level(b) as u64
}

/// The sum of what passes along all edges, each times its distance.
fn cost(places: &[Place], edges: &[Edge], node_of: &[u32]) -> u64 {
    let process = inverse(node_of);
    let of_edge = |&(a, b, weight): &Edge| {
        let [a, b] = [a, b].map(|node| &places[process[node as usize] as usize]);
        weight * distance(a, b)
    };
    edges.iter().map(of_edge).sum()
}

fn inverse(node_of: &[u32]) -> Vec<u32> {
    let mut process = vec![0; node_of.len()];
    for (number, &node) in node_of.iter().enumerate() {
        process[node as usize] = number as u32;
    }
    process
}

/// The neighbours of each node, both ways.
fn neighbors(nodes: usize, edges: &[Edge]) -> Vec<Vec<(u32, u64)>> {
    let mut neighbors = vec![Vec::new(); nodes];
    for &(a, b, weight) in edges.iter().filter(|(a, b, _)| a != b) {
        neighbors[a as usize].push((b, weight));
        neighbors[b as usize].push((a, weight));
    }
    neighbors
}

/// Goes through the processes from place to neighbouring place and gives each the node with the most ties
/// to those given out nearby and the fewest others: that keeps the border short.
fn grown(places: &[Place], neighbors: &[Vec<(u32, u64)>]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by_key(|&process| {
        let Place {
            core,
            l2,
            l3,
            node,
            package,
        } = places[process];
        [package, node, l3, l2, core]
    });
    let furthest = crate::sys::topology::Level::Other as u64;
    let mut process_of: Vec<Option<usize>> = vec![None; places.len()];
    let mut node_of = vec![0; places.len()];
    for (turn, &process) in order.iter().enumerate() {
        let near = |there: usize| (furthest - distance(&places[process], &places[there])) as i64;
        // The order keeps close ones together, so the last one is the closest.
        let nearest = order[..turn].last().map_or(1, |&last| near(last).max(1));
        let tie = |node: usize| -> i64 {
            let of = |&(other, weight): &(u32, u64)| {
                weight as i64 * (2 * process_of[other as usize].map_or(0, near) - nearest)
            };
            neighbors[node].iter().map(of).sum()
        };
        let free = (0..places.len()).filter(|&node| process_of[node].is_none());
        // The first of equals: `max_by_key` would take the last.
        let Some(node) = free.rev().max_by_key(|&node| tie(node)) else {
            break;
        };
        process_of[node] = Some(process);
        node_of[process] = node as u32;
    }
    node_of
}

/// Exchanges pairs of nodes as long as that helps.
fn polish(places: &[Place], neighbors: &[Vec<(u32, u64)>], node_of: &mut [u32]) {
    let mut process = inverse(node_of);
    let pull = |process: &[u32], node: u32, at: &Place, except: u32| -> i64 {
        let of = |&(other, weight): &(u32, u64)| {
            let there = &places[process[other as usize] as usize];
            (weight * distance(at, there)) as i64
        };
        neighbors[node as usize]
            .iter()
            .filter(|(other, _)| *other != except)
            .map(of)
            .sum()
    };
    let mut helped = true;
    while helped {
        helped = false;
        for a in 0..node_of.len() as u32 {
            for b in a + 1..node_of.len() as u32 {
                let [at_a, at_b] = [a, b].map(|node| &places[process[node as usize] as usize]);
                let before = pull(&process, a, at_a, b) + pull(&process, b, at_b, a);
                let after = pull(&process, a, at_b, b) + pull(&process, b, at_a, a);
                if after < before {
                    process.swap(a as usize, b as usize);
                    helped = true;
                }
            }
        }
    }
    node_of.copy_from_slice(&inverse(&process));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A process on one of two packages with as many cores as one likes.
    fn on(package: u32, core: u32) -> Place {
        Place {
            core: Some(core),
            package: Some(package),
            ..Place::default()
        }
    }

    fn grid(rows: u32, columns: u32) -> Vec<Edge> {
        let at = |row: u32, column: u32| row * columns + column;
        let right = (0..rows).flat_map(|r| (1..columns).map(move |c| (at(r, c - 1), at(r, c), 1)));
        let down = (1..rows).flat_map(|r| (0..columns).map(move |c| (at(r - 1, c), at(r, c), 1)));
        right.chain(down).collect()
    }

    #[test]
    fn neighbours_come_together_when_ranks_alternate() {
        // A ring on processes that alternate between packages: each package gets half of the ring.
        let places: Vec<Place> = (0..8).map(|rank| on(rank % 2, rank)).collect();
        let ring: Vec<Edge> = (0..8).map(|node| (node, (node + 1) % 8, 1)).collect();
        let node_of = arrange(&places, &ring);
        let crossing = |node_of: &[u32]| {
            let process = inverse(node_of);
            ring.iter()
                .filter(|(a, b, _)| process[*a as usize] % 2 != process[*b as usize] % 2)
                .count()
        };
        assert_eq!((crossing(&[0, 1, 2, 3, 4, 5, 6, 7]), crossing(&node_of)), (8, 2));
    }

    #[test]
    fn a_grid_is_cut_along_its_short_side() {
        // Eight columns of two rows on two packages of eight: rows in a package would cut eight edges.
        let places: Vec<Place> = (0..16).map(|rank| on(rank / 8, rank)).collect();
        let edges = grid(2, 8);
        let process = inverse(&arrange(&places, &edges));
        let cut = edges
            .iter()
            .filter(|(a, b, _)| process[*a as usize] / 8 != process[*b as usize] / 8)
            .count();
        assert_eq!(cut, 2);
    }

    #[test]
    fn nobody_moves_without_a_reason() {
        let own: Vec<u32> = (0..4).collect();
        assert_eq!(arrange(&[Place::default(); 4], &grid(2, 2)), own);
        let good: Vec<Place> = (0..4).map(|rank| on(rank / 2, rank)).collect();
        assert_eq!(arrange(&good, &grid(2, 2)), own);
    }

    proptest! {
        #[test]
        fn an_arrangement_is_a_permutation_that_costs_no_more(
            packages in prop::collection::vec(0u32..3, 1..12),
            edges in prop::collection::vec((0u32..12, 0u32..12, 0u64..5), 0..30),
        ) {
            let places: Vec<Place> = packages.iter().map(|&package| on(package, 0)).collect();
            let nodes = places.len() as u32;
            let edges: Vec<Edge> = edges.into_iter().map(|(a, b, w)| (a % nodes, b % nodes, w)).collect();
            let node_of = arrange(&places, &edges);
            let own: Vec<u32> = (0..nodes).collect();
            let mut sorted = node_of.clone();
            sorted.sort_unstable();
            prop_assert_eq!(&sorted, &own);
            prop_assert!(cost(&places, &edges, &node_of) <= cost(&places, &edges, &own));
        }
    }
}
