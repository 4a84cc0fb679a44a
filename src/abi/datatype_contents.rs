//! # Safety
//! Fills arrays of the application: relies on its pointers and lengths.
//!
//! How a datatype was made: envelope and contents (MPI-4.1 §5.1.13).
#![allow(unsafe_code)]

use super::edge::*;
use super::types::*;
use crate::fail;
use crate::mpi::datatype::{Combiner, Contents, Datatype};
use crate::mpi::world::State;
use std::ffi::c_int;
use std::rc::Rc;

/// How a datatype was made: lengths of its constructor's arguments. MPI-4.1 §5.1.13.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_get_envelope(
    datatype: MPI_Datatype,
    num_integers: *mut c_int,
    num_addresses: *mut c_int,
    num_datatypes: *mut c_int,
    combiner: *mut c_int,
) -> c_int {
    on_world("MPI_Type_get_envelope", |hold| {
        let lengths = envelope(hold.datatypes.get(datatype)?);
        if lengths.counts > 0 {
            fail!(Type, "the datatype has large counts: ask MPI_Type_get_envelope_c");
        }
        store_count(num_integers, "num_integers", lengths.integers)?;
        store_count(num_addresses, "num_addresses", lengths.addresses)?;
        store_count(num_datatypes, "num_datatypes", lengths.datatypes)?;
        store(combiner, "combiner", lengths.combiner)
    })
}

/// [`MPI_Type_get_envelope`] with large counts. MPI-4.1 §5.1.13.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_get_envelope_c(
    datatype: MPI_Datatype,
    num_integers: *mut MPI_Count,
    num_addresses: *mut MPI_Count,
    num_large_counts: *mut MPI_Count,
    num_datatypes: *mut MPI_Count,
    combiner: *mut c_int,
) -> c_int {
    on_world("MPI_Type_get_envelope_c", |hold| {
        let lengths = envelope(hold.datatypes.get(datatype)?);
        store(num_integers, "num_integers", lengths.integers)?;
        store(num_addresses, "num_addresses", lengths.addresses)?;
        store(num_large_counts, "num_large_counts", lengths.counts)?;
        store(num_datatypes, "num_datatypes", lengths.datatypes)?;
        store(combiner, "combiner", lengths.combiner)
    })
}

struct Envelope {
    integers: i64,
    addresses: i64,
    counts: i64,
    datatypes: i64,
    combiner: c_int,
}

fn envelope(datatype: &Datatype) -> Envelope {
    let len = |of: fn(&Contents) -> usize| datatype.contents().map_or(0, of) as i64;
    Envelope {
        integers: len(|contents| contents.integers.len()),
        addresses: len(|contents| contents.addresses.len()),
        counts: len(|contents| contents.counts.len()),
        datatypes: len(|contents| contents.datatypes.len()),
        combiner: datatype
            .contents()
            .map_or(Combiner::Named, |contents| contents.combiner) as c_int,
    }
}

/// The arguments a datatype was made with. MPI-4.1 §5.1.13.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_get_contents(
    datatype: MPI_Datatype,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_datatypes: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_get_contents", |hold| {
        let (datatype, contents) = contents(hold, datatype)?;
        if !contents.counts.is_empty() {
            fail!(Type, "the datatype has large counts: ask MPI_Type_get_contents_c");
        }
        room(max_integers.into(), contents.integers.len(), "max_integers")?;
        room(max_addresses.into(), contents.addresses.len(), "max_addresses")?;
        room(max_datatypes.into(), contents.datatypes.len(), "max_datatypes")?;
        copy_out(
            array_of_integers,
            contents.integers.iter().copied(),
            "array_of_integers",
        )?;
        let addresses = contents.addresses.iter().map(|&address| address as MPI_Aint);
        copy_out(array_of_addresses, addresses, "array_of_addresses")?;
        members(hold, &datatype, array_of_datatypes)
    })
}

/// [`MPI_Type_get_contents`] with large counts. MPI-4.1 §5.1.13.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_get_contents_c(
    datatype: MPI_Datatype,
    max_integers: MPI_Count,
    max_addresses: MPI_Count,
    max_large_counts: MPI_Count,
    max_datatypes: MPI_Count,
    array_of_integers: *mut c_int,
    array_of_addresses: *mut MPI_Aint,
    array_of_large_counts: *mut MPI_Count,
    array_of_datatypes: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_get_contents_c", |hold| {
        let (datatype, contents) = contents(hold, datatype)?;
        room(max_integers, contents.integers.len(), "max_integers")?;
        room(max_addresses, contents.addresses.len(), "max_addresses")?;
        room(max_large_counts, contents.counts.len(), "max_large_counts")?;
        room(max_datatypes, contents.datatypes.len(), "max_datatypes")?;
        copy_out(
            array_of_integers,
            contents.integers.iter().copied(),
            "array_of_integers",
        )?;
        let addresses = contents.addresses.iter().map(|&address| address as MPI_Aint);
        copy_out(array_of_addresses, addresses, "array_of_addresses")?;
        copy_out(
            array_of_large_counts,
            contents.counts.iter().copied(),
            "array_of_large_counts",
        )?;
        members(hold, &datatype, array_of_datatypes)
    })
}

fn contents(state: &State, handle: MPI_Datatype) -> Result<(Rc<Datatype>, Contents)> {
    let datatype = state.datatypes.get(handle)?.clone();
    match datatype.contents().cloned() {
        Some(contents) => Ok((datatype, contents)),
        None => fail!(Type, "{} is predefined and has no contents", datatype.name()),
    }
}

fn room(max: i64, len: usize, name: &str) -> Result<()> {
    if max < len as i64 {
        fail!(Other, "{name} is {max} but the datatype has {len}");
    }
    Ok(())
}

fn copy_out<T>(out: *mut T, values: impl ExactSizeIterator<Item = T>, name: &str) -> Result<()> {
    let slots = slice_mut(out, values.len(), name)?;
    slots.iter_mut().zip(values).for_each(|(slot, value)| *slot = value);
    Ok(())
}

/// Writes handles of the datatypes that `datatype` was made of: new ones for derived datatypes, to be freed.
fn members(state: &mut State, datatype: &Datatype, out: *mut MPI_Datatype) -> Result<()> {
    let members = datatype.contents().map_or(&[][..], |contents| &contents.datatypes);
    let slots = slice_mut(out, members.len(), "array_of_datatypes")?;
    for (slot, member) in slots.iter_mut().zip(members) {
        *slot = state.datatypes.insert(member.clone())?;
    }
    Ok(())
}
