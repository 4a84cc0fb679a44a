//! # Safety
//! Reads and writes through the application's pointers by the helpers of [`super::edge`] only.
//!
//! The constructors of datatypes (MPI-4.1 §5.1.2-§5.1.4, §5.1.7, §5.1.10).
//!
//! Each makes the datatype and remembers the call for `MPI_Type_get_contents`: the `_c` forms as large
//! counts, the others as integers and addresses.
#![allow(unsafe_code)]

use super::attr::copy_all;
use super::constants::*;
use super::edge::*;
use super::types::*;
use crate::fail;
use crate::mpi::datatype::array::{Dealt, Distribution, Order, Slice};
use crate::mpi::datatype::construct::Member;
use crate::mpi::datatype::{Combiner, Contents, Datatype};
use crate::mpi::world::State;
use std::ffi::c_int;
use std::rc::Rc;

/// The call of a constructor, in the making.
struct Call {
    contents: Contents,
    wide: bool,
}

impl Call {
    /// `C` is the type of the call's counts.
    fn new<C>(combiner: Combiner) -> Call {
        Call {
            contents: Contents {
                combiner,
                integers: Vec::new(),
                addresses: Vec::new(),
                counts: Vec::new(),
                datatypes: Vec::new(),
            },
            wide: size_of::<C>() > size_of::<c_int>(),
        }
    }

    /// Arguments that are `int` in both forms.
    fn integers(mut self, values: &[c_int]) -> Call {
        self.contents.integers.extend(values);
        self
    }

    /// Arguments that are `int`, or `MPI_Count` in the form with large counts.
    fn counts(mut self, values: impl IntoIterator<Item = i64>) -> Call {
        match self.wide {
            true => self.contents.counts.extend(values),
            false => self
                .contents
                .integers
                .extend(values.into_iter().map(|value| value as i32)),
        }
        self
    }

    /// Arguments that are `MPI_Aint`, or `MPI_Count` in the form with large counts.
    fn addresses(mut self, values: impl IntoIterator<Item = i64>) -> Call {
        match self.wide {
            true => self.contents.counts.extend(values),
            false => self
                .contents
                .addresses
                .extend(values.into_iter().map(|value| value as isize)),
        }
        self
    }

    /// Stores the handle of the finished datatype.
    fn make(
        mut self,
        state: &mut State,
        datatype: Datatype,
        of: impl IntoIterator<Item = Rc<Datatype>>,
        newtype: *mut MPI_Datatype,
    ) -> Result<()> {
        if newtype.is_null() {
            fail!(Arg, "newtype is a null pointer");
        }
        self.contents.datatypes.extend(of);
        let handle = state.datatypes.insert(datatype.made_by(self.contents))?;
        store(newtype, "newtype", handle)
    }
}

fn old(state: &State, handle: MPI_Datatype) -> Result<Rc<Datatype>> {
    state.datatypes.get(handle).cloned()
}

/// An array argument, widened.
fn wide<T: Copy + Into<i64>>(array: *const T, len: usize, name: &str) -> Result<Vec<i64>> {
    Ok(slice(array, len, name)?.iter().map(|&value| value.into()).collect())
}

/// Lengths and displacements of blocks.
fn blocks<C: Copy + Into<i64>, D: Copy + Into<i64>>(
    count: usize,
    lengths: *const C,
    displacements: *const D,
) -> Result<(Vec<i64>, Vec<i64>)> {
    Ok((
        wide(lengths, count, "array_of_blocklengths")?,
        wide(displacements, count, "array_of_displacements")?,
    ))
}

fn order(order: c_int) -> Result<Order> {
    match order {
        MPI_ORDER_C => Ok(Order::C),
        MPI_ORDER_FORTRAN => Ok(Order::Fortran),
        _ => fail!(Arg, "the order is {order}, not MPI_ORDER_C or MPI_ORDER_FORTRAN"),
    }
}

/// Elements in a row. MPI-4.1 §5.1.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_contiguous(count: Count, oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) -> c_int {
    on_world("MPI_Type_contiguous", |hold| {
        let of = old(hold, oldtype)?;
        let datatype = Datatype::contiguous(count.into(), &of)?;
        let call = Call::new::<Count>(Combiner::Contiguous).counts([count.into()]);
        call.make(hold, datatype, [of], newtype)
    })
}

/// Blocks at equal distances in elements. MPI-4.1 §5.1.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_vector(
    count: Count,
    blocklength: Count,
    stride: Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_vector", |hold| {
        let of = old(hold, oldtype)?;
        let datatype = Datatype::vector(count.into(), blocklength.into(), stride.into(), &of)?;
        let call = Call::new::<Count>(Combiner::Vector).counts([count.into(), blocklength.into(), stride.into()]);
        call.make(hold, datatype, [of], newtype)
    })
}

/// Blocks at equal distances in bytes. MPI-4.1 §5.1.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_create_hvector(
    count: Count,
    blocklength: Count,
    stride: TypeDispl,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_create_hvector", |hold| {
        hvector::<Count>(hold, [count.into(), blocklength.into()], stride, oldtype, newtype)
    })
}

/// [`MPI_Type_create_hvector`], as MPI-1 named it.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_hvector(
    count: c_int,
    blocklength: c_int,
    stride: MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_hvector", |hold| {
        hvector::<c_int>(hold, [count.into(), blocklength.into()], stride, oldtype, newtype)
    })
}

fn hvector<C>(
    state: &mut State,
    counts: [i64; 2],
    stride: i64,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let of = old(state, oldtype)?;
    let datatype = Datatype::hvector(counts[0], counts[1], stride.into(), &of)?;
    let call = Call::new::<C>(Combiner::Hvector).counts(counts).addresses([stride]);
    call.make(state, datatype, [of], newtype)
}

/// Blocks of given lengths at displacements in elements. MPI-4.1 §5.1.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_indexed(
    count: Count,
    array_of_blocklengths: *const Count,
    array_of_displacements: *const Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_indexed", |hold| {
        let n = self::count(count, "count")?;
        let of = old(hold, oldtype)?;
        let (lengths, places) = blocks(n, array_of_blocklengths, array_of_displacements)?;
        let datatype = Datatype::indexed(lengths.iter().copied().zip(places.iter().copied()), &of)?;
        let call = Call::new::<Count>(Combiner::Indexed).counts([count.into()]);
        call.counts(lengths).counts(places).make(hold, datatype, [of], newtype)
    })
}

/// Blocks of given lengths at displacements in bytes. MPI-4.1 §5.1.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_create_hindexed(
    count: Count,
    array_of_blocklengths: *const Count,
    array_of_displacements: *const TypeDispl,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_create_hindexed", |hold| {
        let n = self::count(count, "count")?;
        let (lengths, places) = blocks(n, array_of_blocklengths, array_of_displacements)?;
        hindexed::<Count>(hold, lengths, places, oldtype, newtype)
    })
}

/// [`MPI_Type_create_hindexed`], as MPI-1 named it.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_hindexed(
    count: c_int,
    array_of_blocklengths: *mut c_int,
    array_of_displacements: *mut MPI_Aint,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_hindexed", |hold| {
        let n = self::count(count, "count")?;
        let (lengths, places) = blocks(n, array_of_blocklengths, array_of_displacements)?;
        hindexed::<c_int>(hold, lengths, places, oldtype, newtype)
    })
}

fn hindexed<C>(
    state: &mut State,
    lengths: Vec<i64>,
    places: Vec<i64>,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let of = old(state, oldtype)?;
    let pairs = lengths.iter().zip(&places).map(|(&length, &at)| (length, at as i128));
    let datatype = Datatype::hindexed(pairs, &of)?;
    let call = Call::new::<C>(Combiner::Hindexed).counts([lengths.len() as i64]);
    call.counts(lengths)
        .addresses(places)
        .make(state, datatype, [of], newtype)
}

/// Blocks of one length at displacements in elements. MPI-4.1 §5.1.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_create_indexed_block(
    count: Count,
    blocklength: Count,
    array_of_displacements: *const Count,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_create_indexed_block", |hold| {
        let n = self::count(count, "count")?;
        let length = self::count(blocklength, "blocklength")? as i64;
        let of = old(hold, oldtype)?;
        let places = wide(array_of_displacements, n, "array_of_displacements")?;
        let datatype = Datatype::indexed(places.iter().map(|&at| (length, at)), &of)?;
        let call = Call::new::<Count>(Combiner::IndexedBlock).counts([count.into(), length]);
        call.counts(places).make(hold, datatype, [of], newtype)
    })
}

/// Blocks of one length at displacements in bytes. MPI-4.1 §5.1.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_create_hindexed_block(
    count: Count,
    blocklength: Count,
    array_of_displacements: *const TypeDispl,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_create_hindexed_block", |hold| {
        let n = self::count(count, "count")?;
        let length = self::count(blocklength, "blocklength")? as i64;
        let of = old(hold, oldtype)?;
        let places = wide(array_of_displacements, n, "array_of_displacements")?;
        let datatype = Datatype::hindexed(places.iter().map(|&at| (length, at as i128)), &of)?;
        let call = Call::new::<Count>(Combiner::HindexedBlock).counts([count.into(), length]);
        call.addresses(places).make(hold, datatype, [of], newtype)
    })
}

/// Blocks of different datatypes. MPI-4.1 §5.1.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_create_struct(
    count: Count,
    array_of_blocklengths: *const Count,
    array_of_displacements: *const TypeDispl,
    array_of_types: *const MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_create_struct", |hold| {
        let n = self::count(count, "count")?;
        let (lengths, places) = blocks(n, array_of_blocklengths, array_of_displacements)?;
        structure::<Count>(
            hold,
            lengths,
            places,
            slice(array_of_types, n, "array_of_types")?,
            newtype,
        )
    })
}

/// [`MPI_Type_create_struct`], as MPI-1 named it.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_struct(
    count: c_int,
    array_of_blocklengths: *mut c_int,
    array_of_displacements: *mut MPI_Aint,
    array_of_types: *mut MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_struct", |hold| {
        let n = self::count(count, "count")?;
        let (lengths, places) = blocks(n, array_of_blocklengths, array_of_displacements)?;
        structure::<c_int>(
            hold,
            lengths,
            places,
            slice(array_of_types, n, "array_of_types")?,
            newtype,
        )
    })
}

fn structure<C>(
    state: &mut State,
    lengths: Vec<i64>,
    places: Vec<i64>,
    types: &[MPI_Datatype],
    newtype: *mut MPI_Datatype,
) -> Result<()> {
    let of: Vec<_> = types.iter().map(|&handle| old(state, handle)).collect::<Result<_>>()?;
    let members: Vec<_> = lengths
        .iter()
        .zip(&places)
        .zip(&of)
        .map(|((&count, &at), datatype)| Member {
            count,
            at: at as i128,
            datatype,
        })
        .collect();
    let datatype = Datatype::structure(&members)?;
    let call = Call::new::<C>(Combiner::Struct).counts([types.len() as i64]);
    call.counts(lengths)
        .addresses(places)
        .make(state, datatype, of, newtype)
}

/// The same elements between other bounds. MPI-4.1 §5.1.7.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_create_resized(
    oldtype: MPI_Datatype,
    lb: TypeDispl,
    extent: TypeDispl,
    newtype: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_create_resized", |hold| {
        let of = old(hold, oldtype)?;
        let datatype = Datatype::resized(&of, lb, extent)?;
        let call = Call::new::<Count>(Combiner::Resized).addresses([lb, extent]);
        call.make(hold, datatype, [of], newtype)
    })
}

/// The same datatype under another handle. MPI-4.1 §5.1.10.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_dup(oldtype: MPI_Datatype, newtype: *mut MPI_Datatype) -> c_int {
    on_world("MPI_Type_dup", |hold| {
        let of = old(hold, oldtype)?;
        if newtype.is_null() {
            fail!(Arg, "newtype is a null pointer");
        }
        let mut call = Call::new::<c_int>(Combiner::Dup).contents;
        call.datatypes.push(of.clone());
        let copy = Datatype::duplicate(&of).made_by(call);
        let handle = hold.datatypes.insert(copy.clone())?;
        if let Err(error) = copy_all(hold, oldtype, of.attributes(), copy.attributes()) {
            hold.datatypes.remove(handle)?;
            store(newtype, "newtype", MPI_DATATYPE_NULL)?;
            return Err(error);
        }
        store(newtype, "newtype", handle)
    })
}

/// A part of an array. MPI-4.1 §5.1.3.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_create_subarray(
    ndims: c_int,
    array_of_sizes: *const Count,
    array_of_subsizes: *const Count,
    array_of_starts: *const Count,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_create_subarray", |hold| {
        let n = dimensions(ndims)?;
        let sizes = wide(array_of_sizes, n, "array_of_sizes")?;
        let subsizes = wide(array_of_subsizes, n, "array_of_subsizes")?;
        let starts = wide(array_of_starts, n, "array_of_starts")?;
        let slices: Vec<_> = (0..n)
            .map(|dim| Slice {
                size: sizes[dim],
                subsize: subsizes[dim],
                start: starts[dim],
            })
            .collect();
        let of = old(hold, oldtype)?;
        let datatype = Datatype::subarray(&slices, self::order(order)?, &of)?;
        let call = Call::new::<Count>(Combiner::Subarray).integers(&[ndims]);
        let call = call.counts(sizes).counts(subsizes).counts(starts).integers(&[order]);
        call.make(hold, datatype, [of], newtype)
    })
}

/// A process's part of a distributed array. MPI-4.1 §5.1.4.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_create_darray(
    size: c_int,
    rank: c_int,
    ndims: c_int,
    array_of_gsizes: *const Count,
    array_of_distribs: *const c_int,
    array_of_dargs: *const c_int,
    array_of_psizes: *const c_int,
    order: c_int,
    oldtype: MPI_Datatype,
    newtype: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_create_darray", |hold| {
        let n = dimensions(ndims)?;
        let sizes = wide(array_of_gsizes, n, "array_of_gsizes")?;
        let distribs = slice(array_of_distribs, n, "array_of_distribs")?;
        let dargs = slice(array_of_dargs, n, "array_of_dargs")?;
        let psizes = slice(array_of_psizes, n, "array_of_psizes")?;
        let dims = (0..n).map(|dim| {
            Ok(Dealt {
                size: sizes[dim],
                processes: psizes[dim].into(),
                distribution: distribution(distribs[dim], dargs[dim])?,
            })
        });
        let dims: Vec<_> = dims.collect::<Result<_>>()?;
        let of = old(hold, oldtype)?;
        let datatype = Datatype::darray(size.into(), rank.into(), &dims, self::order(order)?, &of)?;
        let call = Call::new::<Count>(Combiner::Darray)
            .integers(&[size, rank, ndims])
            .counts(sizes);
        let call = call
            .integers(distribs)
            .integers(dargs)
            .integers(psizes)
            .integers(&[order]);
        call.make(hold, datatype, [of], newtype)
    })
}

fn dimensions(ndims: c_int) -> Result<usize> {
    if ndims < 1 {
        fail!(Arg, "ndims is {ndims} but must be positive");
    }
    Ok(ndims as usize)
}

fn distribution(kind: c_int, argument: c_int) -> Result<Distribution> {
    let length = (argument != MPI_DISTRIBUTE_DFLT_DARG).then_some(i64::from(argument));
    match kind {
        MPI_DISTRIBUTE_NONE => Ok(Distribution::None),
        MPI_DISTRIBUTE_BLOCK => Ok(Distribution::Block(length)),
        MPI_DISTRIBUTE_CYCLIC => Ok(Distribution::Cyclic(length.unwrap_or(1))),
        _ => fail!(
            Arg,
            "{kind} is not a distribution (MPI_DISTRIBUTE_BLOCK, _CYCLIC or _NONE)"
        ),
    }
}
