//! # Safety
//! Relies on the loaded library to be Scotch 6 or 7, whose functions below have these signatures for the
//! size of numbers that SCOTCH_numSizeof tells (scotch.h); arrays outlive the graphs made of them.
//!
//! Asks Scotch, if it is installed, for a static mapping.
#![allow(unsafe_code)]

use super::hwloc::{find, load};
use super::matrix::Matrix;
use libloading::{Library, Symbol};
use std::ffi::{c_int, c_void};
use std::ptr;

/// Names under which distributions have it.
const NAMES: [&str; 4] = [
    "libscotch-7.0.so",
    "libscotch.so",
    "libscotch-6.1.so",
    "libscotch-6.0.so",
];

/// Sum of all edge weights that is safe in 32 bits.
const HEAVIEST: u128 = 1 << 28;

type Object = *mut c_void;

/// A place for each rank of `matrix`, no two the same; `cost` is that of a byte between two places. `library`: the file to load in place of the usual ones;
/// "none" loads nothing.
///
/// # Errors
/// A sentence: not installed, or what failed.
pub fn map(library: Option<&str>, matrix: &Matrix, cost: &[Vec<u64>]) -> Result<Vec<usize>, String> {
    let scotch = Scotch(load(library, &NAMES)?);
    // SAFETY: takes and returns plain integers.
    let size = unsafe { find::<unsafe extern "C" fn() -> c_int>(&scotch.0, b"SCOTCH_numSizeof\0")?() };
    let parts = match size {
        4 => scotch.map::<i32>(matrix, cost)?,
        8 => scotch.map::<i64>(matrix, cost)?,
        other => return Err(format!("Scotch counts in numbers of {other} bytes")),
    };
    Ok(apart(parts, matrix, cost))
}

/// Scotch balances, it does not promise one rank a place: who comes second to one moves to the cheapest free place.
fn apart(parts: Vec<usize>, matrix: &Matrix, cost: &[Vec<u64>]) -> Vec<usize> {
    let mut owner = vec![None; cost.len()];
    let mut homeless = Vec::new();
    for (rank, &place) in parts.iter().enumerate().take(matrix.ranks()) {
        match owner.get(place) {
            Some(None) => owner[place] = Some(rank),
            _ => homeless.push(rank),
        }
    }
    for rank in homeless {
        let price = |place: &usize| -> u128 {
            let others = owner.iter().enumerate().filter_map(|(at, other)| Some((at, (*other)?)));
            others
                .map(|(at, other)| u128::from(matrix.between(rank, other)) * u128::from(cost[*place][at]))
                .sum()
        };
        let free = (0..owner.len()).filter(|&place| owner[place].is_none());
        if let Some(place) = free.min_by_key(price) {
            owner[place] = Some(rank);
        }
    }
    let mut places = vec![0; matrix.ranks()];
    owner
        .iter()
        .enumerate()
        .for_each(|(place, rank)| rank.iter().for_each(|&rank| places[rank] = place));
    places
}

/// A number of Scotch's.
trait Num: Copy + TryFrom<i64> + TryInto<usize> {}
impl Num for i32 {}
impl Num for i64 {}

/// A graph in the arrays that Scotch reads.
struct Arrays<N> {
    starts: Vec<N>,
    ends: Vec<N>,
    weights: Vec<N>,
}

impl<N: Num> Arrays<N> {
    fn new(vertices: usize, weight: impl Fn(usize, usize) -> i64) -> Arrays<N> {
        let number = |value: i64| N::try_from(value).ok();
        let mut arrays = Arrays {
            starts: vec![],
            ends: vec![],
            weights: vec![],
        };
        for a in 0..vertices {
            arrays.starts.extend(number(arrays.ends.len() as i64));
            for b in (0..vertices).filter(|&b| b != a) {
                let heavy = weight(a, b);
                if heavy > 0 {
                    arrays.ends.extend(number(b as i64));
                    arrays.weights.extend(number(heavy));
                }
            }
        }
        arrays.starts.extend(number(arrays.ends.len() as i64));
        arrays
    }
}

struct Scotch(Library);

impl Scotch {
    fn map<N: Num>(&self, matrix: &Matrix, cost: &[Vec<u64>]) -> Result<Vec<usize>, String> {
        let places = cost.len();
        let ranks = matrix.ranks();
        let pairs = (0..ranks).flat_map(|a| (0..ranks).map(move |b| (a, b)));
        let total: u128 = pairs.map(|(a, b)| u128::from(matrix.between(a, b))).sum();
        let scale = total.div_ceil(HEAVIEST).max(1);
        // Silent ranks fill the places up, so that a balanced mapping is one rank each.
        let traffic = Arrays::<N>::new(places, |a, b| match a < ranks && b < ranks {
            true => u128::from(matrix.between(a, b)).div_ceil(scale) as i64,
            false => 0,
        });
        let machine = Arrays::<N>::new(places, |a, b| cost[a][b].min(1 << 20) as i64);
        let zero = N::try_from(0).map_err(|_| "0")?;
        let mut parts = vec![zero; places];
        // SAFETY: the functions' signatures are Scotch's, see above. Objects come from its own allocators, are
        // initialised before use and left in the reverse order; the arrays live to the end of this function.
        let failed = unsafe {
            let target = self.object(b"SCOTCH_graphAlloc\0", b"SCOTCH_graphInit\0")?;
            let source = self.object(b"SCOTCH_graphAlloc\0", b"SCOTCH_graphInit\0")?;
            let strategy = self.object(b"SCOTCH_stratAlloc\0", b"SCOTCH_stratInit\0")?;
            let cut = self.object(b"SCOTCH_stratAlloc\0", b"SCOTCH_stratInit\0")?;
            let arch = self.object(b"SCOTCH_archAlloc\0", b"SCOTCH_archInit\0")?;
            let build: Symbol<unsafe extern "C" fn(Object, Object, N, *const N, Object) -> c_int> =
                find(&self.0, b"SCOTCH_archBuild\0")?;
            let map: Symbol<unsafe extern "C" fn(Object, Object, Object, *mut N) -> c_int> =
                find(&self.0, b"SCOTCH_graphMap\0")?;
            let reset: Symbol<unsafe extern "C" fn()> = find(&self.0, b"SCOTCH_randomReset\0")?;
            reset();
            let failed = self.build(target, &machine)? != 0
                || self.build(source, &traffic)? != 0
                || build(arch, target, zero, ptr::null(), cut) != 0
                || map(source, arch, strategy, parts.as_mut_ptr()) != 0;
            self.leave(b"SCOTCH_archExit\0", arch)?;
            self.leave(b"SCOTCH_stratExit\0", cut)?;
            self.leave(b"SCOTCH_stratExit\0", strategy)?;
            self.leave(b"SCOTCH_graphExit\0", source)?;
            self.leave(b"SCOTCH_graphExit\0", target)?;
            failed
        };
        if failed {
            return Err("Scotch cannot map this".into());
        }
        Ok(parts
            .into_iter()
            .map(|part| part.try_into().unwrap_or(usize::MAX))
            .collect())
    }

    /// A new object of Scotch's.
    ///
    /// # Safety
    /// The names are those of an allocator and of the initialiser of the same type.
    unsafe fn object(&self, allocate: &[u8], initialise: &[u8]) -> Result<Object, String> {
        // SAFETY: the caller's promise.
        unsafe {
            let allocate: Symbol<unsafe extern "C" fn() -> Object> = find(&self.0, allocate)?;
            let initialise: Symbol<unsafe extern "C" fn(Object) -> c_int> = find(&self.0, initialise)?;
            let object = allocate();
            match !object.is_null() && initialise(object) == 0 {
                true => Ok(object),
                false => Err("Scotch cannot make its objects".into()),
            }
        }
    }

    /// # Safety
    /// The name is that of the object's end, and it is not used again.
    unsafe fn leave(&self, name: &[u8], object: Object) -> Result<(), String> {
        // SAFETY: the caller's promise; what an allocator of Scotch's gave, free takes.
        unsafe {
            find::<unsafe extern "C" fn(Object)>(&self.0, name)?(object);
            libc::free(object);
        }
        Ok(())
    }

    /// # Safety
    /// `graph` is initialised, and `arrays` outlive its use.
    unsafe fn build<N: Num>(&self, graph: Object, arrays: &Arrays<N>) -> Result<c_int, String> {
        type Build<N> =
            unsafe extern "C" fn(Object, N, N, *const N, *const N, *const N, *const N, N, *const N, *const N) -> c_int;
        let number = |value: usize| N::try_from(value as i64).map_err(|_| "too large for Scotch".to_string());
        let (starts, none) = (arrays.starts.as_ptr(), ptr::null());
        let (vertices, edges) = (number(arrays.starts.len() - 1)?, number(arrays.ends.len())?);
        let (ends, weights) = (arrays.ends.as_ptr(), arrays.weights.as_ptr());
        // SAFETY: the caller's promise; base 0, compact arrays, no vertex weights and labels.
        unsafe {
            let build = find::<Build<N>>(&self.0, b"SCOTCH_graphBuild\0")?;
            Ok(build(
                graph,
                number(0)?,
                vertices,
                starts,
                none,
                none,
                none,
                edges,
                ends,
                weights,
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_a_place_moves_to_the_nearest_free_one() {
        let cost: Vec<Vec<u64>> = (0..4)
            .map(|a| (0..4).map(|b| if a / 2 == b / 2 { 1 } else { 10 }).collect())
            .collect();
        let mut matrix = Matrix::silent(3);
        matrix.send(0, 2, 5);
        assert_eq!(apart(vec![2, 0, 2, 1], &matrix, &cost), [2, 0, 3]);
        assert_eq!(apart(vec![9, 9, 9], &matrix, &cost).len(), 3);
    }

    #[test]
    fn what_is_not_wanted_is_not_loaded() {
        let cost = vec![vec![1]];
        let error = map(Some("none"), &Matrix::silent(1), &cost).unwrap_err();
        assert_eq!(error, "switched off");
    }
}
