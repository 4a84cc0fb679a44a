//! Finds a mapping of ranks to places of low cost: dual recursive bipartitioning (Pellegrini 1994) for a start, then
//! exchanges of two ranks for as long as one helps, then small disturbances and exchanges again.
//!
//! Cost: bytes between two ranks times the cost of a byte between their places, over all pairs. Everything is
//! deterministic: the same input gives the same mapping.

use super::matrix::Matrix;
use std::collections::VecDeque;

/// Looks at one partner of one rank that the disturbances may take together.
const BUDGET: u64 = 10_000_000;
/// Disturbances at most.
const KICKS: u64 = 20_000;

/// Ranks, and places at least as many; ranks beyond those of the matrix are silent and fill the places up.
pub struct Problem<'a> {
    /// For each rank its partners and the bytes between them.
    partners: Vec<Vec<(usize, i128)>>,
    cost: &'a [Vec<u64>],
}

impl<'a> Problem<'a> {
    /// `cost`: of a byte between two places, symmetric; at least as many places as ranks.
    pub fn new(matrix: &Matrix, cost: &'a [Vec<u64>]) -> Problem<'a> {
        assert!(matrix.ranks() <= cost.len());
        let of = |rank: usize| {
            let with = |other: usize| (other, i128::from(matrix.between(rank, other)));
            (0..matrix.ranks()).map(with).filter(|(_, bytes)| *bytes > 0).collect()
        };
        let mut partners: Vec<Vec<_>> = (0..matrix.ranks()).map(of).collect();
        partners.resize(cost.len(), vec![]);
        Problem { partners, cost }
    }

    /// The cost of a mapping.
    pub fn cost(&self, places: &[usize]) -> i128 {
        let of = |(rank, partners): (usize, &Vec<(usize, i128)>)| -> i128 {
            partners
                .iter()
                .map(|(other, bytes)| bytes * self.between(places[rank], places[*other]))
                .sum()
        };
        self.partners.iter().enumerate().map(of).sum::<i128>() / 2
    }

    fn between(&self, a: usize, b: usize) -> i128 {
        i128::from(self.cost[a][b])
    }

    /// The best mapping found: the place of each rank. `starts` are mappings to try as well.
    pub fn solve(&self, starts: &[Vec<usize>]) -> Vec<usize> {
        let mut best: Option<(i128, Vec<usize>)> = None;
        for start in [self.bipartition()].iter().chain(starts) {
            let mut places = self.filled(start);
            let (everybody, mut no_end) = ((0..places.len()).collect(), u64::MAX);
            self.exchange(&mut places, everybody, &mut no_end);
            let cost = self.cost(&places);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, places));
            }
        }
        let (cost, mut places) = best.unwrap_or_default();
        self.disturb(cost, &mut places);
        places
    }

    /// `start`, with the silent ranks on the places that are left.
    fn filled(&self, start: &[usize]) -> Vec<usize> {
        let mut places = start.to_vec();
        let mut free = vec![true; self.cost.len()];
        places.iter().for_each(|&place| free[place] = false);
        places.extend((0..free.len()).filter(|&place| free[place]));
        places
    }

    /// What swapping the places of two ranks adds to the cost.
    fn gain(&self, places: &[usize], a: usize, b: usize) -> i128 {
        let (at_a, at_b) = (places[a], places[b]);
        let moved = |rank: usize, other: usize, from: usize, to: usize| -> i128 {
            let rest = self.partners[rank].iter().filter(|(partner, _)| *partner != other);
            rest.map(|(partner, bytes)| {
                bytes * (self.between(to, places[*partner]) - self.between(from, places[*partner]))
            })
            .sum()
        };
        moved(a, b, at_a, at_b) + moved(b, a, at_b, at_a)
    }

    /// Swaps pairs as long as that lowers the cost and `budget` lasts; begins with the ranks in `queue`.
    fn exchange(&self, places: &mut [usize], mut queue: VecDeque<usize>, budget: &mut u64) {
        let mut queued = vec![false; places.len()];
        queue.iter().for_each(|&rank| queued[rank] = true);
        while let Some(rank) = queue.pop_front() {
            queued[rank] = false;
            let mut best = (0, rank);
            for other in 0..places.len() {
                *budget = budget.saturating_sub((self.partners[rank].len() + self.partners[other].len()) as u64 + 1);
                best = best.min((self.gain(places, rank, other), other));
            }
            if *budget == 0 {
                return;
            }
            let (gain, other) = best;
            if gain < 0 {
                places.swap(rank, other);
                let near = |rank: usize| self.partners[rank].iter().map(|(partner, _)| *partner);
                for again in [rank, other].into_iter().chain(near(rank)).chain(near(other)) {
                    if !queued[again] {
                        queued[again] = true;
                        queue.push_back(again);
                    }
                }
            }
        }
    }

    /// Moves a few ranks at random, exchanges again, and keeps what is no worse.
    fn disturb(&self, mut cost: i128, places: &mut Vec<usize>) {
        let (mut random, mut budget) = (Random(1), BUDGET);
        if places.len() < 4 {
            return;
        }
        for _ in 0..KICKS {
            let mut trial = places.clone();
            let moved: VecDeque<usize> = (0..3 + random.below(2)).map(|_| random.below(places.len())).collect();
            (1..moved.len()).for_each(|index| trial.swap(moved[index - 1], moved[index]));
            self.exchange(&mut trial, moved, &mut budget);
            if budget == 0 {
                return;
            }
            let now = self.cost(&trial);
            budget = budget.saturating_sub(places.len() as u64);
            if now <= cost {
                (cost, *places) = (now, trial);
            }
        }
    }

    /// Splits ranks and places in two, again and again, the domains of one size in each round.
    fn bipartition(&self) -> Vec<usize> {
        let all: Vec<usize> = (0..self.cost.len()).collect();
        let mut domain = vec![0; all.len()];
        let mut domains = vec![(all.clone(), all.clone())];
        while let Some(at) = domains.iter().position(|(ranks, _)| ranks.len() > 1) {
            let (ranks, places) = domains.swap_remove(at);
            if let Some((moved, _)) = domains.get(at) {
                moved.iter().for_each(|&rank| domain[rank] = at);
            }
            let half = places.len().div_ceil(2);
            // The nearer, the more two places want to stay together.
            let farthest = places.iter().flat_map(|&a| places.iter().map(move |&b| (a, b)));
            let farthest = farthest.map(|(a, b)| self.between(a, b)).max().unwrap_or(1);
            let nearness = |a: usize, b: usize| farthest / self.between(a, b).max(1);
            let near: Vec<Vec<(usize, i128)>> = places
                .iter()
                .map(|&a| {
                    (0..places.len())
                        .filter(|&b| places[b] != a)
                        .map(|b| (b, nearness(a, places[b])))
                        .collect()
                })
                .collect();
            let (first, second) = split(&places, half, &near, &vec![0; places.len()]);
            // A rank leans to the half that is nearer to its partners outside.
            let mean = |half: &[usize], others: &[usize]| -> i128 {
                let pairs = half.iter().flat_map(|&a| others.iter().map(move |&b| (a, b)));
                pairs.map(|(a, b)| self.between(a, b)).sum::<i128>() / (half.len() * others.len()).max(1) as i128
            };
            let lean: Vec<i128> = domains
                .iter()
                .map(|(_, others)| mean(&second, others) - mean(&first, others))
                .collect();
            let index: Vec<Option<usize>> = {
                let mut index = vec![None; domain.len()];
                ranks.iter().enumerate().for_each(|(at, &rank)| index[rank] = Some(at));
                index
            };
            let inside = |rank: &usize| {
                let partners = self.partners[*rank].iter();
                partners
                    .filter_map(|(other, bytes)| Some((index[*other]?, *bytes)))
                    .collect::<Vec<_>>()
            };
            let outside = |rank: &usize| -> i128 {
                let partners = self.partners[*rank].iter().filter(|(other, _)| index[*other].is_none());
                partners
                    .map(|(other, bytes)| bytes * lean.get(domain[*other]).copied().unwrap_or(0))
                    .sum()
            };
            let traffic: Vec<_> = ranks.iter().map(inside).collect();
            let lean: Vec<i128> = ranks.iter().map(outside).collect();
            let (left, right) = split(&ranks, first.len(), &traffic, &lean);
            for (ranks, places) in [(left, first), (right, second)] {
                ranks.iter().for_each(|&rank| domain[rank] = domains.len());
                domains.push((ranks, places));
            }
        }
        let mut mapping = vec![0; self.cost.len()];
        for (ranks, places) in domains {
            ranks
                .iter()
                .zip(places)
                .for_each(|(&rank, place)| mapping[rank] = place);
        }
        mapping
    }
}

/// How many items of each part are looked at for an exchange.
const LIKELY: usize = 8;

/// Splits `items` into two parts, the first of `size`, so that little weight lies between them (Kernighan and Lin).
/// `edges[i]`: the items, by index, that item i is tied to, and how much; `lean[i]`: how much it wants to be in the first.
fn split(items: &[usize], size: usize, edges: &[Vec<(usize, i128)>], lean: &[i128]) -> (Vec<usize>, Vec<usize>) {
    let mut first: Vec<bool> = (0..items.len()).map(|index| index < size).collect();
    // What moving an item to the other part takes off the cut.
    let relief = |first: &[bool], index: usize| -> i128 {
        let cut: i128 = edges[index]
            .iter()
            .map(|(other, w)| if first[*other] == first[index] { -w } else { *w })
            .sum();
        cut + if first[index] { -lean[index] } else { lean[index] }
    };
    let tie = |a: usize, b: usize| {
        edges[a]
            .iter()
            .find(|(other, _)| *other == b)
            .map_or(0, |(_, weight)| *weight)
    };
    loop {
        let before = first.clone();
        let mut reliefs: Vec<i128> = (0..items.len()).map(|index| relief(&first, index)).collect();
        let mut open = vec![true; items.len()];
        let (mut total, mut best, mut swaps) = (0, (0, 0), Vec::new());
        // The pair that helps most is among those that help most alone, but for what ties them.
        let likely = |reliefs: &[i128], open: &[bool], first: &[bool], side: bool| {
            let mut side: Vec<usize> = (0..items.len()).filter(|&i| open[i] && first[i] == side).collect();
            side.sort_by_key(|&i| (-reliefs[i], i));
            side.truncate(LIKELY);
            side
        };
        loop {
            let (left, right) = (
                likely(&reliefs, &open, &first, true),
                likely(&reliefs, &open, &first, false),
            );
            let pairs = left.iter().flat_map(|&a| right.iter().map(move |&b| (a, b)));
            let Some((a, b)) = pairs.max_by_key(|&(a, b)| reliefs[a] + reliefs[b] - 2 * tie(a, b)) else {
                break;
            };
            total += reliefs[a] + reliefs[b] - 2 * tie(a, b);
            (first[a], first[b], open[a], open[b]) = (false, true, false, false);
            swaps.push((a, b));
            if total > best.0 {
                best = (total, swaps.len());
            }
            for moved in [a, b] {
                for (other, weight) in &edges[moved] {
                    let sign = if first[*other] == first[moved] { -2 } else { 2 };
                    reliefs[*other] += sign * weight;
                }
            }
        }
        first = before;
        if best.1 == 0 {
            let part = |which: bool| {
                (0..items.len())
                    .filter(|&i| first[i] == which)
                    .map(|i| items[i])
                    .collect()
            };
            return (part(true), part(false));
        }
        for &(a, b) in &swaps[..best.1] {
            (first[a], first[b]) = (false, true);
        }
    }
}

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places in pairs at cost 1, anything else at cost 10.
    fn pairs(count: usize) -> Vec<Vec<u64>> {
        (0..count)
            .map(|a| (0..count).map(|b| if a / 2 == b / 2 { 1 } else { 10 }).collect())
            .collect()
    }

    #[test]
    fn partners_meet() {
        let cost = pairs(8);
        let mut matrix = Matrix::silent(8);
        for (a, b) in [(0, 5), (1, 7), (2, 3), (4, 6)] {
            matrix.send(a, b, 100);
        }
        let problem = Problem::new(&matrix, &cost);
        let places = problem.solve(&[]);
        assert_eq!(problem.cost(&places), 400);
        let mut sorted = places;
        sorted.sort();
        assert_eq!(sorted, (0..8).collect::<Vec<_>>(), "one rank each");
    }

    #[test]
    fn a_grid_is_cut_into_squares() {
        // 16 ranks in a square that exchange with their neighbours, on four quads of places.
        let cost: Vec<Vec<u64>> = (0..16)
            .map(|a| (0..16).map(|b| if a / 4 == b / 4 { 1 } else { 10 }).collect())
            .collect();
        let mut matrix = Matrix::silent(16);
        for rank in 0..16 {
            for other in [rank + 1, rank + 4] {
                if other < 16 && (other % 4 == rank % 4 || other / 4 == rank / 4) {
                    matrix.send(rank, other, 1);
                }
            }
        }
        let problem = Problem::new(&matrix, &cost);
        // 24 edges, 8 of them between squares.
        assert_eq!(problem.cost(&problem.solve(&[])), 16 + 80);
        assert!(problem.cost(&problem.bipartition()) < problem.cost(&(0..16).collect::<Vec<_>>()));
    }

    #[test]
    fn fewer_ranks_than_places_sit_together() {
        let cost = pairs(6);
        let mut matrix = Matrix::silent(3);
        matrix.send(0, 2, 7);
        let problem = Problem::new(&matrix, &cost);
        assert_eq!(problem.cost(&problem.solve(&[vec![0, 1, 2]])), 7);
        let one = vec![vec![1]];
        assert_eq!(Problem::new(&Matrix::silent(1), &one).solve(&[]), [0]);
    }
}
