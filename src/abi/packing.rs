//! # Safety
//! Reads and writes the application's buffers: relies on its pointers, counts, sizes and datatypes.
//!
//! Explicit packing, native and in the portable format "external32" (MPI-4.1 §5.2, §5.3).
#![allow(unsafe_code)]

use super::edge::*;
use super::pt2pt::buffer;
use super::types::*;
use crate::fail;
use crate::mpi::world::State;
use crate::sys::copy;
use std::ffi::{c_char, c_int, c_void};

/// The free part of a pack buffer: where it starts and how many bytes it must have.
fn stretch<T: Copy + Into<i64>>(
    start: *const c_void,
    size: impl Into<i64>,
    position: *const T,
    len: usize,
    name: &str,
) -> Result<(*mut u8, i64)> {
    let (size, from) = (size.into(), load(position, "position")?.into());
    if size < 0 {
        fail!(Arg, "the size of {name} is {size} but must not be negative");
    }
    if from < 0 || from > size {
        fail!(Arg, "position is {from}, which is not in {name} of {size} bytes");
    }
    if len as u64 > (size - from) as u64 {
        fail!(
            Arg,
            "{len} bytes do not fit {name} of {size} bytes from position {from} on"
        );
    }
    if start.is_null() && len > 0 {
        fail!(Buffer, "{name} is a null pointer");
    }
    Ok((
        start.cast_mut().cast::<u8>().wrapping_add(from as usize),
        from + len as i64,
    ))
}

/// Stores the new position; `end` is at most a size of the position's type.
fn advance<T: TryFrom<i64>>(position: *mut T, end: i64) -> Result<()> {
    match T::try_from(end) {
        Ok(end) => store(position, "position", end),
        Err(_) => fail!(ValueTooLarge, "the new position {end} does not fit"),
    }
}

/// Packs elements behind the ones already packed. MPI-4.1 §5.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Pack(
    inbuf: *const c_void,
    incount: Count,
    datatype: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: Count,
    position: *mut Count,
    comm: MPI_Comm,
) -> c_int {
    on_comm("MPI_Pack", comm, |hold, _| {
        let elements = buffer(hold, inbuf, count(incount, "incount")?, datatype)?;
        let (out, end) = stretch(outbuf, outsize, position, elements.len(), "outbuf")?;
        // SAFETY: the application's elements; its pack buffer has room for them.
        unsafe { elements.pack(0, out, elements.len()) };
        advance(position, end)
    })
}

/// Unpacks the next elements. MPI-4.1 §5.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Unpack(
    inbuf: *const c_void,
    insize: Count,
    position: *mut Count,
    outbuf: *mut c_void,
    outcount: Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
) -> c_int {
    on_comm("MPI_Unpack", comm, |hold, _| {
        let elements = buffer(hold, outbuf, count(outcount, "outcount")?, datatype)?;
        let (from, end) = stretch(inbuf, insize, position, elements.len(), "inbuf")?;
        // SAFETY: the application's elements; its pack buffer holds them.
        unsafe { elements.unpack(0, from, elements.len()) };
        advance(position, end)
    })
}

/// How many bytes packing needs at most. MPI-4.1 §5.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Pack_size(
    incount: Count,
    datatype: MPI_Datatype,
    comm: MPI_Comm,
    size: *mut Count,
) -> c_int {
    on_comm("MPI_Pack_size", comm, |hold, _| {
        let one = hold.datatypes.committed(datatype)?.size();
        store_count(size, "size", packed(count(incount, "incount")?, one)? as i64)
    })
}

fn packed(count: usize, size: usize) -> Result<usize> {
    match product(count, size) {
        Some(bytes) => Ok(bytes),
        None => fail!(
            ValueTooLarge,
            "{count} elements of {size} bytes do not fit the address space"
        ),
    }
}

/// Refuses every data representation but the one that MPI defines.
fn external32(datarep: *const c_char) -> Result<()> {
    let name = string(datarep, "datarep")?;
    if name != "external32" {
        fail!(
            Arg,
            "the data representation {name:?} is unknown; \"external32\" is the portable one"
        );
    }
    Ok(())
}

/// Packs elements in the portable format. MPI-4.1 §5.3.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Pack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    incount: Count,
    datatype: MPI_Datatype,
    outbuf: *mut c_void,
    outsize: TypeDispl,
    position: *mut TypeDispl,
) -> c_int {
    on_world("MPI_Pack_external", |hold| {
        external32(datarep)?;
        let count = count(incount, "incount")?;
        let elements = buffer(hold, inbuf, count, datatype)?;
        let len = external_len(hold, count, datatype)?;
        let (out, end) = stretch(outbuf, outsize, position, len, "outbuf")?;
        let mut packed = vec![0; elements.len()];
        // SAFETY: the application's elements; the vector has room for them.
        unsafe { elements.pack(0, packed.as_mut_ptr(), packed.len()) };
        let external = hold.datatypes.get(datatype)?.to_external(&packed);
        // SAFETY: the application's pack buffer has room for `len` bytes, which is what the format needs.
        unsafe { copy::many(external.as_ptr(), out, external.len()) };
        advance(position, end)
    })
}

/// Unpacks elements in the portable format. MPI-4.1 §5.3.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Unpack_external(
    datarep: *const c_char,
    inbuf: *const c_void,
    insize: TypeDispl,
    position: *mut TypeDispl,
    outbuf: *mut c_void,
    outcount: Count,
    datatype: MPI_Datatype,
) -> c_int {
    on_world("MPI_Unpack_external", |hold| {
        external32(datarep)?;
        let count = count(outcount, "outcount")?;
        let elements = buffer(hold, outbuf, count, datatype)?;
        let len = external_len(hold, count, datatype)?;
        let (from, end) = stretch(inbuf, insize, position, len, "inbuf")?;
        let packed = hold.datatypes.get(datatype)?.from_external(slice(from, len, "inbuf")?);
        // SAFETY: the application's elements; converting `len` bytes gave as many as they have.
        unsafe { elements.unpack(0, packed.as_ptr(), elements.len()) };
        advance(position, end)
    })
}

/// How many bytes packing in the portable format needs. MPI-4.1 §5.3.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Pack_external_size(
    datarep: *const c_char,
    incount: Count,
    datatype: MPI_Datatype,
    size: *mut TypeDispl,
) -> c_int {
    on_world("MPI_Pack_external_size", |hold| {
        external32(datarep)?;
        let len = external_len(hold, count(incount, "incount")?, datatype)?;
        store(size, "size", len as TypeDispl)
    })
}

fn external_len(state: &State, count: usize, datatype: MPI_Datatype) -> Result<usize> {
    packed(count, state.datatypes.get(datatype)?.external_size())
}
