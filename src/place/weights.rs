//! How near the places of a machine are to each other: the weight matrix of Mercier 2009, figure 3.
//!
//! Pairs of places fall into classes: by the nearest thing that both share, and beyond a NUMA node by the distance
//! between their nodes. The farthest class weighs 10 and each nearer one ten times as much, as in the figure; a
//! byte between two places costs the greatest weight divided by theirs.

use super::machine::Machine;
use crate::sys::cpuset::CpuSet;
use crate::sys::topology::Level;
use std::collections::BTreeSet;

/// Weight of the farthest class, and how much more the next one weighs.
const BASE: u64 = 10;
/// Classes that get a weight of their own; nearer ones share the last, so that no sum overflows.
const MOST: usize = 9;

/// A class of pairs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// The nearest thing that both places share.
    pub level: Level,
    /// Distance of their NUMA nodes, where they differ and the machine tells.
    pub distance: Option<u64>,
}

impl Class {
    /// What reports call it.
    pub fn name(&self) -> String {
        match self.distance {
            None => self.level.name().to_string(),
            Some(distance) => format!("{}, distance {distance}", self.level.name()),
        }
    }
}

/// The places of a machine, and how near they are.
#[derive(Clone, Debug)]
pub struct Weights {
    /// What a rank may be bound to.
    pub places: Vec<CpuSet>,
    /// The classes that occur, the nearest first.
    pub classes: Vec<Class>,
    /// Index of each pair's class.
    class: Vec<Vec<usize>>,
}

impl Weights {
    /// Of the cores of `machine`, or of its hardware threads.
    pub fn new(machine: &Machine, hwthreads: bool) -> Weights {
        let places = machine.places(hwthreads);
        let pair = |a: &CpuSet, b: &CpuSet| {
            let mut both = a.clone();
            both.join(b);
            let level = machine.level(&both);
            let distance = machine.distance(a, b).filter(|_| level > Level::Node);
            Class { level, distance }
        };
        let all: Vec<Vec<Class>> = places
            .iter()
            .map(|a| places.iter().map(|b| pair(a, b)).collect())
            .collect();
        let apart = |row: usize| move |(column, class): (usize, &'_ Class)| (row != column).then(|| class.clone());
        let classes: BTreeSet<Class> = all
            .iter()
            .enumerate()
            .flat_map(|(row, line)| line.iter().enumerate().filter_map(apart(row)))
            .collect();
        let classes: Vec<Class> = classes.into_iter().collect();
        let index = |class: &Class| classes.binary_search(class).unwrap_or(0);
        let class = all.iter().map(|line| line.iter().map(index).collect()).collect();
        Weights { places, classes, class }
    }

    /// The class of two places.
    pub fn class(&self, a: usize, b: usize) -> usize {
        self.class[a][b]
    }

    /// The weight of a class.
    pub fn weight_of(&self, class: usize) -> u64 {
        BASE.pow((self.classes.len() - class).min(MOST) as u32)
    }

    /// The weight between two places; 0 from a place to itself.
    pub fn weight(&self, a: usize, b: usize) -> u64 {
        if a == b { 0 } else { self.weight_of(self.class[a][b]) }
    }

    /// What a byte costs between two places: 1 in the nearest class.
    pub fn cost(&self, a: usize, b: usize) -> u64 {
        if a == b {
            1
        } else {
            self.weight_of(0) / self.weight_of(self.class[a][b])
        }
    }

    /// The matrix with the places in the order of their lowest CPU, as figure 3 prints it.
    pub fn matrix(&self) -> Vec<Vec<u64>> {
        let mut order: Vec<usize> = (0..self.places.len()).collect();
        order.sort_by_key(|&place| self.places[place].first());
        order
            .iter()
            .map(|&a| order.iter().map(|&b| self.weight(a, b)).collect())
            .collect()
    }
}
