//! Grids: ranks in row-major order, the last coordinate running fastest (MPI-4.1 §8.2).

use crate::fail;
use crate::mpi::error::Result;

/// A grid of processes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cart {
    /// Processes along each dimension.
    pub dims: Vec<u32>,
    /// Whether the dimension closes to a ring.
    pub periods: Vec<bool>,
}

impl Cart {
    /// A grid for a communicator of `size` processes. A dimension of 0 makes it empty, as in MPICH.
    ///
    /// # Errors
    /// `Dims`: a dimension is negative; `Arg`: the grid needs more than `size` processes.
    pub fn new(dims: &[i32], periods: &[i32], size: u32) -> Result<Cart> {
        let mut needed = 1u64;
        for (at, &dim) in dims.iter().enumerate() {
            if dim < 0 {
                fail!(Dims, "dimension {at} of the grid has {dim} processes");
            }
            needed = needed.saturating_mul(dim as u64);
        }
        if needed > u64::from(size) {
            fail!(
                Arg,
                "the communicator has {size} processes, the grid {dims:?} needs {needed}"
            );
        }
        Ok(Cart {
            dims: dims.iter().map(|&dim| dim as u32).collect(),
            periods: periods.iter().map(|&period| period != 0).collect(),
        })
    }

    /// Number of processes in the grid.
    pub fn size(&self) -> u32 {
        self.dims.iter().product()
    }

    /// Where `rank` stands.
    pub fn coords(&self, rank: u32) -> Vec<i32> {
        let mut rest = rank;
        let mut coords = vec![0; self.dims.len()];
        for (coord, dim) in coords.iter_mut().zip(&self.dims).rev() {
            *coord = (rest % dim) as i32;
            rest /= dim;
        }
        coords
    }

    /// Who stands at `coords`; along a ring they count modulo its length.
    ///
    /// # Errors
    /// `Arg`: a coordinate lies beyond the edge.
    pub fn rank(&self, coords: &[i32]) -> Result<u32> {
        let mut rank = 0;
        for (at, &coord) in coords.iter().enumerate().take(self.dims.len()) {
            let Some(inside) = self.inside(at, i64::from(coord)) else {
                let last = self.dims[at] - 1;
                fail!(Arg, "coordinate {at} is {coord} but must lie in 0 to {last}");
            };
            rank = rank * self.dims[at] + inside;
        }
        Ok(rank)
    }

    /// Who is `displacement` steps before and after `rank` along `dimension`; nobody beyond the edge.
    pub fn shift(&self, rank: u32, dimension: usize, displacement: i32) -> (Option<u32>, Option<u32>) {
        let here = self.coords(rank);
        let at = |steps: i64| {
            let coord = self.inside(dimension, i64::from(here[dimension]) + steps)?;
            let mut coords = here.clone();
            coords[dimension] = coord as i32;
            self.rank(&coords).ok()
        };
        let steps = i64::from(displacement);
        (at(-steps), at(steps))
    }

    /// The grid of the kept dimensions through `rank`, with which of the parallel grids that is and
    /// the rank in it.
    pub fn slice(&self, rank: u32, kept: &[bool]) -> (Cart, u32, u32) {
        let mut slice = Cart {
            dims: Vec::new(),
            periods: Vec::new(),
        };
        let (mut which, mut place) = (0, 0);
        for (at, &coord) in self.coords(rank).iter().enumerate() {
            let (coord, dim) = (coord as u32, self.dims[at]);
            if kept[at] {
                place = place * dim + coord;
                slice.dims.push(dim);
                slice.periods.push(self.periods[at]);
            } else {
                which = which * dim + coord;
            }
        }
        (slice, which, place)
    }

    fn inside(&self, dimension: usize, coord: i64) -> Option<u32> {
        let dim = i64::from(self.dims[dimension]);
        if self.periods[dimension] {
            return Some(coord.rem_euclid(dim) as u32);
        }
        (0..dim).contains(&coord).then_some(coord as u32)
    }
}

/// Fills the zeros of `dims` so that the product is `nodes`, the filled ones as close to each other
/// as can be and not increasing (MPI-4.1 §8.5.2).
///
/// # Errors
/// `Dims`: a negative dimension, or the fixed ones do not divide `nodes`; `Arg`: no nodes.
pub fn balance(nodes: i32, dims: &mut [i32]) -> Result<()> {
    if nodes <= 0 {
        fail!(Arg, "{nodes} processes cannot form a grid");
    }
    let mut rest = i64::from(nodes);
    for (at, &dim) in dims.iter().enumerate() {
        if dim < 0 {
            fail!(Dims, "dimension {at} is {dim}");
        }
        if dim > 0 {
            if rest % i64::from(dim) != 0 {
                fail!(Dims, "{nodes} processes cannot be divided by the dimensions {dims:?}");
            }
            rest /= i64::from(dim);
        }
    }
    let open = dims.iter().filter(|&&dim| dim == 0).count();
    if open == 0 {
        // They need not make all of them: it is enough that they divide them.
        return Ok(());
    }
    let mut search = Search {
        divisors: divisors(rest as u32),
        factors: Vec::new(),
        best: Vec::new(),
    };
    search.split(rest as u32, open, usize::MAX);
    let holes = dims.iter_mut().filter(|dim| **dim == 0);
    for (dim, factor) in holes.zip(search.best) {
        *dim = factor as i32;
    }
    Ok(())
}

/// The divisors of `number`, least first.
fn divisors(number: u32) -> Vec<u32> {
    let low = (1..=number.isqrt()).filter(|&divisor| number.is_multiple_of(divisor));
    let mut all: Vec<u32> = low.collect();
    let high: Vec<u32> = all.iter().rev().map(|divisor| number / divisor).collect();
    all.extend(high);
    all.dedup();
    all
}

/// The largest number whose power `exponent` is at most `number`.
fn root(number: u32, exponent: u32) -> u32 {
    let (mut low, mut high) = (1, number);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        match middle.checked_pow(exponent) {
            Some(power) if power <= number => low = middle,
            _ => high = middle - 1,
        }
    }
    low
}

/// Looks for the factors that are closest to each other: the largest and the least differ as little as can be; among
/// such factors the least is as large as can be, then the one before it, and so on.
struct Search {
    divisors: Vec<u32>,
    /// Tried now, not increasing.
    factors: Vec<u32>,
    /// The best so far; empty before the first.
    best: Vec<u32>,
}

impl Search {
    /// Tries all ways to add `count` factors of `product`, the divisors up to number `last`.
    fn split(&mut self, product: u32, count: usize, last: usize) {
        if count == 0 {
            if self.is_better() {
                self.best.clone_from(&self.factors);
            }
            return;
        }
        for at in 0..self.divisors.len().min(last.saturating_add(1)) {
            let factor = self.divisors[at];
            // The others are not larger; the last one is what is left.
            let enough = f64::from(factor).powi(count as i32) > f64::from(product) - 0.5;
            if !enough || !product.is_multiple_of(factor) || (count == 1 && factor != product) {
                continue;
            }
            let rest = product / factor;
            let largest = *self.factors.first().unwrap_or(&factor);
            let least = match count {
                1 => factor,
                _ => factor.min(root(rest, count as u32 - 1)),
            };
            if !self.may_be_better(largest, least) {
                continue;
            }
            self.factors.push(factor);
            self.split(rest, count - 1, at);
            self.factors.pop();
        }
    }

    /// Whether factors from `largest` to at most `least` can be better than the best.
    fn may_be_better(&self, largest: u32, least: u32) -> bool {
        let (Some(best_largest), Some(best_least)) = (self.best.first(), self.best.last()) else {
            return true;
        };
        let spread = best_largest - best_least;
        let least_spread = largest.saturating_sub(least);
        least_spread < spread || least_spread == spread && least >= *best_least
    }

    /// Whether the factors are better than the best.
    fn is_better(&self) -> bool {
        let spread = |factors: &[u32]| factors.first().zip(factors.last()).map(|(first, last)| first - last);
        let (Some(spread), Some(best)) = (spread(&self.factors), spread(&self.best)) else {
            return true;
        };
        spread < best || spread == best && self.factors.iter().rev().gt(self.best.iter().rev())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::error::Class;

    fn balanced(nodes: i32, dims: &[i32]) -> Vec<i32> {
        let mut dims = dims.to_vec();
        balance(nodes, &mut dims).unwrap();
        dims
    }

    #[test]
    fn dimensions_are_balanced() {
        assert_eq!(balanced(6, &[0, 0]), [3, 2]);
        assert_eq!(balanced(7, &[0, 0]), [7, 1]);
        assert_eq!(balanced(6, &[0, 3, 0]), [2, 3, 1]);
        assert_eq!(balanced(16, &[0, 0, 0]), [4, 2, 2]);
        assert_eq!(balanced(60, &[0, 0, 0]), [5, 4, 3]);
        assert_eq!(balanced(36, &[0, 0, 0]), [4, 3, 3]);
        assert_eq!(balanced(1, &[0, 0]), [1, 1]);
        assert_eq!(balanced(1 << 20, &[0; 20]), [2; 20]);
        assert_eq!(balanced(12, &[4, 3]), [4, 3]);
        assert_eq!(balanced(i32::MAX, &[0, 0]), [i32::MAX, 1]);
        assert_eq!(balanced(30030, &[0, 0, 0]), [35, 33, 26]);
        assert_eq!(balanced(7488, &[0, 0, 0]), [26, 18, 16], "closer than 24, 24, 13");
        assert_eq!(balanced(5040, &[0, 0, 0]), [21, 16, 15], "as close as 20, 18, 14");
        assert_eq!(
            balanced(98784, &[0; 5]),
            [14, 14, 9, 8, 7],
            "as close as 14, 12, 12, 7, 7"
        );
        assert_eq!(balanced(1_102_701_600, &[0; 7]).iter().product::<i32>(), 1_102_701_600);
        let mut wrong = [4, 0];
        assert_eq!(balance(7, &mut wrong).unwrap_err().class(), Class::Dims);
        assert_eq!(balance(7, &mut [-1, 0]).unwrap_err().class(), Class::Dims);
        assert_eq!(balance(7, &mut [2, 3]).unwrap_err().class(), Class::Dims);
        assert_eq!(balance(0, &mut [0]).unwrap_err().class(), Class::Arg);
    }

    #[test]
    fn ranks_and_coordinates_agree() {
        let cart = Cart::new(&[3, 2, 4], &[0, 1, 0], 24).unwrap();
        for rank in 0..24 {
            assert_eq!(cart.rank(&cart.coords(rank)).unwrap(), rank);
        }
        assert_eq!(cart.coords(13), [1, 1, 1]);
        assert_eq!(cart.rank(&[1, -1, 1]).unwrap(), 13);
        assert_eq!(cart.rank(&[3, 0, 0]).unwrap_err().class(), Class::Arg);
        let class = |dims: &[i32]| Cart::new(dims, &[0, 0], 5).unwrap_err().class();
        assert_eq!(class(&[3, 2]), Class::Arg);
        assert_eq!(class(&[3, -1]), Class::Dims);
        assert_eq!(Cart::new(&[3, 0], &[0, 0], 5).unwrap().size(), 0);
    }

    #[test]
    fn shifts_wrap_or_fall_off() {
        let cart = Cart::new(&[3, 4], &[0, 1], 12).unwrap();
        assert_eq!(cart.shift(1, 0, 1), (None, Some(5)));
        assert_eq!(cart.shift(1, 0, -2), (Some(9), None));
        assert_eq!(cart.shift(0, 1, 1), (Some(3), Some(1)));
        assert_eq!(cart.shift(0, 1, 9), (Some(3), Some(1)));
        assert_eq!(cart.shift(0, 0, i32::MIN), (None, None));
    }

    #[test]
    fn slices_partition_the_grid() {
        let cart = Cart::new(&[2, 3, 4], &[1, 0, 0], 24).unwrap();
        let (slice, which, place) = cart.slice(cart.rank(&[1, 2, 3]).unwrap(), &[true, false, true]);
        assert_eq!((slice.dims, slice.periods), (vec![2, 4], vec![true, false]));
        assert_eq!((which, place), (2, 7));
        let (slice, which, place) = cart.slice(5, &[false; 3]);
        assert_eq!((slice.size(), which, place), (1, 5, 0));
    }
}
