//! Parts of arrays: subarrays and pieces of arrays distributed over a grid of processes (MPI-4.1 §5.1.3, §5.1.4).
//!
//! Both are built dimension by dimension, the fastest first: what a dimension takes of the array
//! repeats the layout of the dimensions below it.

use super::Datatype;
use super::construct::{Outline, natural_of};
use super::layout::Layout;
use crate::fail;
use crate::mpi::error::Result;
use std::rc::Rc;

/// How an array lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The last dimension is the fastest.
    C,
    /// The first dimension is the fastest.
    Fortran,
}

impl Order {
    /// Numbers of `count` dimensions, the fastest first.
    fn dimensions(self, count: usize) -> Vec<usize> {
        match self {
            Order::C => (0..count).rev().collect(),
            Order::Fortran => (0..count).collect(),
        }
    }
}

/// One dimension of an array and the part of it that is taken.
#[derive(Clone, Copy, Debug)]
pub struct Slice {
    /// Elements of the array along this dimension.
    pub size: i64,
    /// Elements taken.
    pub subsize: i64,
    /// The first one taken.
    pub start: i64,
}

/// How a dimension is dealt out to the processes along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Not at all: there is one process along it.
    None,
    /// A block for each process: of this length, or as long as it takes.
    Block(Option<i64>),
    /// Blocks of this length dealt round and round.
    Cyclic(i64),
}

/// One dimension of a distributed array.
#[derive(Clone, Copy, Debug)]
pub struct Dealt {
    /// Elements of the whole array along this dimension.
    pub size: i64,
    /// Processes along this dimension.
    pub processes: i64,
    /// How they share it.
    pub distribution: Distribution,
}

/// What one process takes along a dimension: `full` blocks of `block` elements, `step` apart, then `rest` elements.
#[derive(Clone, Copy, Debug)]
struct Taken {
    start: i128,
    block: i128,
    full: i128,
    step: i128,
    rest: i128,
}

impl Taken {
    fn count(&self) -> i128 {
        self.block * self.full + self.rest
    }

    /// Index of the last element taken; there is one.
    fn last(&self) -> i128 {
        let blocks = if self.rest > 0 { self.full } else { self.full - 1 };
        self.start + blocks * self.step + if self.rest > 0 { self.rest } else { self.block } - 1
    }

    fn layout(&self, below: Layout, stride: isize) -> Layout {
        let block = below.clone().repeat(self.block as usize, stride);
        let full = block.repeat(self.full as usize, (self.step as isize).wrapping_mul(stride));
        if self.rest == 0 {
            return full.shift(self.start as isize * stride);
        }
        let rest = below
            .repeat(self.rest as usize, stride)
            .shift((self.full * self.step) as isize * stride);
        Layout::sequence([full, rest]).shift(self.start as isize * stride)
    }
}

impl Datatype {
    /// The part of an array that `slices` describe; its extent is the whole array's. MPI-4.1 §5.1.3.
    ///
    /// # Errors
    /// `Count`: a negative number; `Arg`: no dimension, or a part that sticks out; `ValueTooLarge`.
    pub fn subarray(slices: &[Slice], order: Order, of: &Rc<Datatype>) -> Result<Datatype> {
        for (index, slice) in slices.iter().enumerate() {
            natural_of(index, slice.size, "the array's size")?;
            natural_of(index, slice.subsize, "the subarray's size")?;
            natural_of(index, slice.start, "the subarray's start")?;
            if slice.start.saturating_add(slice.subsize) > slice.size {
                let Slice { size, subsize, start } = slice;
                fail!(
                    Arg,
                    "dimension {index}: {subsize} elements from {start} stick out of an array of {size}"
                );
            }
        }
        let taken = |slice: &Slice| Taken {
            start: slice.start as i128,
            block: slice.subsize as i128,
            full: 1,
            step: 0,
            rest: 0,
        };
        let list: Vec<_> = slices.iter().map(|slice| (slice.size, taken(slice))).collect();
        array(&list, order, of)
    }

    /// The elements of a distributed array that process `rank` of the grid has; the extent is the whole array's.
    /// Ranks count through the grid with its last dimension the fastest. MPI-4.1 §5.1.4.
    ///
    /// # Errors
    /// `Arg`: a grid that does not have `processes` processes, a rank outside it, or a distribution that does not
    /// cover its dimension; `Count`: a negative size; `ValueTooLarge`.
    pub fn darray(processes: i64, rank: i64, dims: &[Dealt], order: Order, of: &Rc<Datatype>) -> Result<Datatype> {
        let mut grid = 1i64;
        for (index, dim) in dims.iter().enumerate() {
            natural_of(index, dim.size, "the array's size")?;
            if dim.processes < 1 {
                fail!(
                    Arg,
                    "the process grid has {} processes along a dimension",
                    dim.processes
                );
            }
            grid = grid.saturating_mul(dim.processes);
        }
        if grid != processes {
            fail!(Arg, "the process grid has {grid} processes, not {processes}");
        }
        if !(0..processes).contains(&rank) {
            fail!(Rank, "rank {rank} is not in the process grid of {processes}");
        }
        let mut list = Vec::with_capacity(dims.len());
        let mut left = rank;
        for dim in dims.iter().rev() {
            list.push((dim.size, dealt(dim, left % dim.processes)?));
            left /= dim.processes;
        }
        list.reverse();
        array(&list, order, of)
    }
}

/// What the process at `place` gets of a dimension.
fn dealt(dim: &Dealt, place: i64) -> Result<Taken> {
    let (size, processes, place) = (dim.size as i128, dim.processes as i128, place as i128);
    let length = match dim.distribution {
        Distribution::None if processes != 1 => {
            fail!(
                Arg,
                "a dimension that is not distributed has {processes} processes along it"
            )
        }
        Distribution::None => size,
        Distribution::Block(None) => (size + processes - 1) / processes,
        Distribution::Block(Some(length)) | Distribution::Cyclic(length) => length as i128,
    };
    if length < 1 && size > 0 {
        fail!(Arg, "the distribution argument is {length} but must be positive");
    }
    if matches!(dim.distribution, Distribution::Block(_)) && length * processes < size {
        fail!(
            Arg,
            "{processes} blocks of {length} elements do not cover a dimension of {size}"
        );
    }
    let (start, step) = (place * length, processes * length);
    if start >= size {
        let (full, rest) = (0, 0);
        return Ok(Taken {
            start,
            block: 0,
            full,
            step,
            rest,
        });
    }
    // Rounds in which this process gets a whole block, and what is left for it in the last one.
    let full = (size - start - length).div_euclid(step) + 1;
    let rest = (size - start - full * step).clamp(0, length);
    let rest = if full * step + start + rest > size { 0 } else { rest };
    Ok(Taken {
        start,
        block: length,
        full,
        step,
        rest,
    })
}

/// The elements that `dims` (size of the array, part taken) describe, within the bounds of the whole array.
fn array(dims: &[(i64, Taken)], order: Order, of: &Rc<Datatype>) -> Result<Datatype> {
    if dims.is_empty() {
        fail!(Arg, "an array must have at least one dimension");
    }
    let fastest_first = order.dimensions(dims.len());
    let mut shape = Outline::default();
    let (mut copies, mut first, mut last) = (1i128, 0i128, 0i128);
    let mut stride = of.extent as i128;
    for &index in &fastest_first {
        let (size, taken) = &dims[index];
        let count = taken.count();
        if count > 0 {
            let (low, high) = (taken.start.checked_mul(stride), taken.last().checked_mul(stride));
            let (Some(low), Some(high)) = (low, high) else {
                return too_large();
            };
            first = first.saturating_add(low.min(high));
            last = last.saturating_add(low.max(high));
        }
        let (Some(more), Some(wider)) = (copies.checked_mul(count), stride.checked_mul(*size as i128)) else {
            return too_large();
        };
        (copies, stride) = (more, wider);
    }
    if copies > 0 {
        shape.take(of, copies, first, last);
    }
    shape.mark(Some(0), Some(stride));
    let layout = || {
        let mut layout = of.layout.clone();
        let mut stride = of.extent;
        for &index in &fastest_first {
            let (size, taken) = &dims[index];
            layout = taken.layout(layout, stride);
            stride = stride.wrapping_mul(*size as isize);
        }
        layout
    };
    shape.finish(layout, &[(copies, of)])
}

#[cold]
fn too_large<T>() -> Result<T> {
    fail!(ValueTooLarge, "the array has a size or bounds that do not fit 64 bits")
}

#[cfg(test)]
mod tests {
    use super::super::basic;
    use super::*;

    fn int() -> Rc<Datatype> {
        Datatype::basic_at(basic::index(0x4c00_0405).unwrap())
    }

    fn indices(datatype: &Datatype) -> Vec<isize> {
        let mut list = Vec::new();
        datatype.segments(1, 0, datatype.size(), &mut |offset, len| {
            list.extend((0..len as isize / 4).map(|i| offset / 4 + i));
        });
        list
    }

    #[test]
    fn a_subarray_takes_its_rows() {
        let slices = [(4, 2, 1), (5, 3, 2)].map(|(size, subsize, start)| Slice { size, subsize, start });
        let c = Datatype::subarray(&slices, Order::C, &int()).unwrap();
        assert_eq!(indices(&c), [7, 8, 9, 12, 13, 14]);
        let fortran = Datatype::subarray(&slices, Order::Fortran, &int()).unwrap();
        assert_eq!(indices(&fortran), [9, 10, 13, 14, 17, 18]);
        assert_eq!((c.lb(), c.extent(), c.true_lb(), c.true_extent()), (0, 80, 28, 32));
        let whole = [(4, 4, 0), (5, 5, 0)].map(|(size, subsize, start)| Slice { size, subsize, start });
        assert!(Datatype::subarray(&whole, Order::C, &int()).unwrap().is_contiguous());
        let out = [Slice {
            size: 4,
            subsize: 3,
            start: 2,
        }];
        assert!(Datatype::subarray(&out, Order::C, &int()).is_err());
    }

    #[test]
    fn a_darray_deals_every_element_once_in_array_order() {
        let ways = [
            Distribution::Block(None),
            Distribution::Block(Some(9)),
            Distribution::Cyclic(1),
            Distribution::Cyclic(3),
        ];
        for (n, distribution) in ways.into_iter().enumerate() {
            for size in 1..=17 {
                let other = ways[(n + size as usize) % 4];
                let dims = [
                    Dealt {
                        size,
                        processes: 2,
                        distribution,
                    },
                    Dealt {
                        size: 7,
                        processes: 3,
                        distribution: other,
                    },
                    Dealt {
                        size: 2,
                        processes: 1,
                        distribution: Distribution::None,
                    },
                ];
                let mut seen = vec![0; size as usize * 14];
                for rank in 0..6 {
                    let part = Datatype::darray(6, rank, &dims, Order::C, &int()).unwrap();
                    assert_eq!(part.extent(), size as isize * 14 * 4);
                    let mine = indices(&part);
                    assert!(mine.is_sorted(), "{dims:?} {rank}");
                    mine.iter().for_each(|&index| seen[index as usize] += 1);
                    let owner = mine.iter().all(|&index| {
                        place(&dims[0], index as i64 / 14) == rank / 3
                            && place(&dims[1], index as i64 / 2 % 7) == rank % 3
                    });
                    assert!(owner, "{dims:?} {rank} {mine:?}");
                }
                assert!(seen.iter().all(|&times| times == 1), "{dims:?} {seen:?}");
            }
        }
    }

    /// Which process has element `index`, by the standard's definition.
    fn place(dim: &Dealt, index: i64) -> i64 {
        match dim.distribution {
            Distribution::None => 0,
            Distribution::Block(None) => index / ((dim.size + dim.processes - 1) / dim.processes),
            Distribution::Block(Some(length)) => index / length,
            Distribution::Cyclic(length) => index / length % dim.processes,
        }
    }
}
