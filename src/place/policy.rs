//! The placement policies of Mercier 2009 §3.3, for one machine in place of a cluster: where the paper has
//! nodes, here are the machine's outermost parts (packages, NUMA nodes, caches).

use super::machine::Machine;
use super::matrix::Matrix;
use super::scotch;
use super::solve::Problem;
use super::weights::Weights;

/// How ranks are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Round the parts of the machine, free within each.
    Rr,
    /// The same, each rank bound to a core.
    RrBound,
    /// Those that talk much in one part, free within it.
    Regroup,
    /// Those that talk much near each other, bound.
    Placed,
    /// Those that talk much far from each other: what is to be lost.
    PlacedReverse,
}

impl Policy {
    /// All, in the order of reports.
    pub const ALL: [Policy; 5] = [
        Policy::Rr,
        Policy::RrBound,
        Policy::Regroup,
        Policy::Placed,
        Policy::PlacedReverse,
    ];

    /// Its name in options and reports.
    pub fn name(self) -> &'static str {
        ["rr", "rr-bound", "regroup", "placed", "placed-reverse"][self as usize]
    }
}

/// Who computes a mapping of low cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Both; the cheaper mapping counts.
    Best,
    /// Scotch as it is.
    Scotch,
    /// Our own.
    Builtin,
}

/// The places that each rank may use: one if it is bound.
pub type Sets = Vec<Vec<usize>>;

/// What a mapping does.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Bytes times the cost of a byte, over all pairs; the mean where ranks are free.
    pub cost: f64,
    /// Share of all bytes in each class of the weights.
    pub shares: Vec<f64>,
}

/// A machine and what runs on it.
pub struct Planner<'a> {
    /// How near the places are.
    pub weights: &'a Weights,
    /// Who sends how much to whom.
    pub matrix: &'a Matrix,
    parts: Vec<Vec<usize>>,
    cost: Vec<Vec<u64>>,
}

impl<'a> Planner<'a> {
    /// # Errors
    /// A sentence when there are more ranks than places.
    pub fn new(machine: &Machine, weights: &'a Weights, matrix: &'a Matrix) -> Result<Planner<'a>, String> {
        let (ranks, places) = (matrix.ranks(), weights.places.len());
        if ranks > places {
            return Err(format!("{ranks} ranks do not fit on {places} cores, one each"));
        }
        let inside = |part: &crate::sys::cpuset::CpuSet| {
            (0..places)
                .filter(|&place| weights.places[place].within(part))
                .collect::<Vec<_>>()
        };
        let mut parts: Vec<Vec<usize>> = machine
            .all(machine.outer())
            .iter()
            .map(|part| inside(&part.cpus))
            .collect();
        parts.retain(|part| !part.is_empty());
        let cost = (0..places)
            .map(|a| (0..places).map(|b| weights.cost(a, b)).collect())
            .collect();
        Ok(Planner {
            weights,
            matrix,
            parts,
            cost,
        })
    }

    /// Where `policy` puts the ranks, and who computed it. `placed` is what [`Planner::placed`] found.
    pub fn sets(&self, policy: Policy, placed: &[usize]) -> Sets {
        let dealt = self.dealt();
        let part = |place: usize| {
            self.parts
                .iter()
                .find(|part| part.contains(&place))
                .cloned()
                .unwrap_or_else(|| vec![place])
        };
        match policy {
            Policy::Rr => dealt.into_iter().map(part).collect(),
            Policy::RrBound => dealt.into_iter().map(|place| vec![place]).collect(),
            Policy::Regroup => placed.iter().map(|&place| part(place)).collect(),
            Policy::Placed => placed.iter().map(|&place| vec![place]).collect(),
            Policy::PlacedReverse => self.reversed().into_iter().map(|place| vec![place]).collect(),
        }
    }

    /// One rank to each part in turn, and within a part to one place after the other.
    fn dealt(&self) -> Vec<usize> {
        let longest = self.parts.iter().map(Vec::len).max().unwrap_or(0);
        let rounds = (0..longest).flat_map(|round| self.parts.iter().filter_map(move |part| part.get(round)));
        rounds.copied().take(self.matrix.ranks()).collect()
    }

    /// A mapping of low cost, and how it was found. `library`: Scotch's file, "none" for without.
    ///
    /// # Errors
    /// A sentence when Scotch alone is asked for and cannot help.
    pub fn placed(&self, method: Method, library: Option<&str>) -> Result<(Vec<usize>, String), String> {
        let problem = Problem::new(self.matrix, &self.cost);
        let ranks = self.matrix.ranks();
        let own = |starts: &[Vec<usize>]| {
            let mut places = problem.solve(starts);
            places.truncate(ranks);
            places
        };
        let foreign = || scotch::map(library, self.matrix, &self.cost);
        match method {
            Method::Builtin => Ok((own(&[self.dealt()]), "built-in bipartitioning".into())),
            Method::Scotch => Ok((foreign()?, "Scotch".into())),
            Method::Best => match foreign() {
                Ok(theirs) => Ok((own(&[self.dealt(), theirs]), "Scotch and built-in refinement".into())),
                Err(why) => Ok((
                    own(&[self.dealt()]),
                    format!("built-in bipartitioning; no Scotch: {why}"),
                )),
            },
        }
    }

    /// Those that talk most as far from each other as can be.
    fn reversed(&self) -> Vec<usize> {
        let most = self.cost.iter().flatten().max().copied().unwrap_or(1) + 1;
        let turned = |row: &Vec<u64>| row.iter().map(|cost| most - cost).collect();
        let cost: Vec<Vec<u64>> = self.cost.iter().map(turned).collect();
        let mut places = Problem::new(self.matrix, &cost).solve(&[]);
        places.truncate(self.matrix.ranks());
        places
    }

    /// What it costs to have each rank anywhere in its set, at the mean.
    pub fn report(&self, sets: &[Vec<usize>]) -> Report {
        let mut shares = vec![0.0; self.weights.classes.len()];
        let (mut cost, mut total) = (0.0, 0.0);
        for a in 0..sets.len() {
            for b in a + 1..sets.len() {
                let bytes = self.matrix.between(a, b) as f64;
                if bytes == 0.0 {
                    continue;
                }
                let apart = |a: &usize| {
                    let a = *a;
                    sets[b].iter().filter(move |b| **b != a).map(move |b| (a, *b))
                };
                let pairs: Vec<(usize, usize)> = sets[a].iter().flat_map(apart).collect();
                for &(x, y) in &pairs {
                    let part = bytes / pairs.len() as f64;
                    cost += part * self.weights.cost(x, y) as f64;
                    shares[self.weights.class(x, y)] += part;
                }
                total += bytes;
            }
        }
        shares
            .iter_mut()
            .for_each(|share| *share /= if total > 0.0 { total } else { 1.0 });
        Report { cost, shares }
    }
}
