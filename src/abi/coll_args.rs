//! # Safety
//! Reads the program's arrays through the helpers of [`super::edge`] only.
//!
//! The buffer arguments of collective operations, checked.
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::pt2pt::length;
use super::types::*;
use crate::fail;
use crate::mpi::coll::machine::Element;
use crate::mpi::coll::plan::{Blocks, Data, Places};
use crate::mpi::world::State;
use std::ffi::c_void;

/// A buffer, count and datatype argument.
pub type Triple = (*const c_void, i64, MPI_Datatype);

/// Whether the argument is `MPI_IN_PLACE`.
pub fn is_in_place(buffer: *const c_void) -> bool {
    buffer == MPI_IN_PLACE.cast_const()
}

/// A datatype argument fit for communication.
pub fn element(state: &State, handle: MPI_Datatype) -> Result<Element> {
    let datatype = state.datatypes.committed(handle)?.clone();
    Ok(Element { datatype, handle })
}

/// The datatype of `count` elements: nothing is of no type, as in MPICH.
fn element_of(state: &State, handle: MPI_Datatype, count: usize) -> Result<Element> {
    match handle {
        MPI_DATATYPE_NULL if count == 0 => Ok(nothing().element),
        _ => element(state, handle),
    }
}

/// A checked buffer argument with a count and a type of its own.
pub fn data(state: &State, (address, count, datatype): Triple, name: &str) -> Result<Data> {
    let of = |error| argument(name, error);
    let count = self::count(count, "count").map_err(of)?;
    let element = element_of(state, datatype, count).map_err(of)?;
    placed(address, count, element, name)
}

/// A checked buffer argument whose count and type are those of another one too.
pub fn shared_data(state: &State, (address, count, datatype): Triple, name: &str) -> Result<Data> {
    let count = self::count(count, "count")?;
    let element = element_of(state, datatype, count)?;
    placed(address, count, element, name)
}

/// `error`, of the arguments that belong to `name`.
#[cold]
pub fn argument(name: &str, error: Error) -> Error {
    Error::new(error.class(), format!("{name}: {}", error.text()))
}

fn placed(address: *const c_void, count: usize, element: Element, name: &str) -> Result<Data> {
    let len = length(count, &element.datatype)?;
    check_address(address, len, element.datatype.true_lb(), name)?;
    Ok(Data {
        address: address.cast_mut().cast(),
        count,
        element,
    })
}

/// No data.
pub fn nothing() -> Data {
    Data {
        address: std::ptr::null_mut(),
        count: 0,
        element: Element {
            datatype: crate::mpi::datatype::Datatype::basic_at(crate::mpi::datatype::basic::LB),
            handle: MPI_LB,
        },
    }
}

fn check_address(address: *const c_void, len: usize, true_lb: isize, name: &str) -> Result<()> {
    if is_in_place(address) {
        fail!(Buffer, "{name} cannot be MPI_IN_PLACE here");
    }
    if address.is_null() && len > 0 && true_lb == 0 {
        fail!(
            Buffer,
            "{name} is a null pointer, but {len} bytes are to be transferred"
        );
    }
    Ok(())
}

/// What errors call the arguments of one side.
pub struct Side {
    buffer: &'static str,
    counts: &'static str,
    displs: &'static str,
    types: &'static str,
}

/// The side that sends.
pub const SEND: Side = Side {
    buffer: "sendbuf",
    counts: "sendcounts",
    displs: "send displs",
    types: "sendtypes",
};

/// The side that receives.
pub const RECV: Side = Side {
    buffer: "recvbuf",
    counts: "recvcounts",
    displs: "recv displs",
    types: "recvtypes",
};

/// A buffer with blocks of equal size.
pub fn blocks(state: &State, (address, count, datatype): Triple, side: Side) -> Result<Blocks> {
    let Data {
        address,
        count,
        element,
    } = data(state, (address, count, datatype), side.buffer)?;
    Ok(Blocks {
        address,
        places: Places::Regular { count, element },
    })
}

/// A buffer with blocks at displacements in elements.
pub fn varying<C: Copy + Into<i64>, D: Copy + Into<i64>>(
    state: &State,
    ranks: u32,
    address: *const c_void,
    counts: *const C,
    displs: *const D,
    datatype: MPI_Datatype,
    side: Side,
) -> Result<Blocks> {
    let counts = self::counts(counts, ranks as usize, side.counts)?;
    let displs = self::displs(displs, ranks as usize, side.displs)?;
    let element = element(state, datatype)?;
    let total = counts.iter().fold(0usize, |sum, &count| sum.saturating_add(count));
    let len = length(total, &element.datatype)?;
    check_address(address, len, element.datatype.true_lb(), side.buffer)?;
    Ok(Blocks {
        address: address.cast_mut().cast(),
        places: Places::Varying {
            counts,
            displs,
            element,
        },
    })
}

/// A buffer with blocks of different types at displacements in bytes.
pub fn each<C: Copy + Into<i64>, D: Copy + Into<i64>>(
    state: &State,
    ranks: u32,
    address: *const c_void,
    counts: *const C,
    displs: *const D,
    datatypes: *const MPI_Datatype,
    side: Side,
) -> Result<Blocks> {
    let counts = self::counts(counts, ranks as usize, side.counts)?;
    let displs = self::displs(displs, ranks as usize, side.displs)?;
    let handles = slice(datatypes, ranks as usize, side.types)?;
    let elements: Vec<Element> = handles
        .iter()
        .zip(&counts)
        .map(|(&handle, &count)| element_of(state, handle, count))
        .collect::<Result<_>>()?;
    // The displacements may be addresses, so a null address is MPI_BOTTOM here, where no block begins.
    check_address(address, 0, 0, side.buffer)?;
    for (rank, element) in elements.iter().enumerate() {
        let first = displs[rank].wrapping_add(element.datatype.true_lb());
        check_address(address, length(counts[rank], &element.datatype)?, first, side.buffer)?;
    }
    Ok(Blocks {
        address: address.cast_mut().cast(),
        places: Places::Each {
            counts,
            displs,
            elements,
        },
    })
}

/// Whether two buffers begin at one address. Two at MPI_BOTTOM do not: their datatypes hold the addresses.
pub fn same_memory(send: *mut u8, recv: *mut u8) -> bool {
    send == recv && !send.is_null()
}

/// Whether a rank's block to send and the one to receive from it, both with data, begin at one address.
pub fn same_blocks(send: &Blocks, recv: &Blocks, ranks: u32) -> bool {
    let begins = |blocks: &Blocks, rank| {
        let (shift, (count, element)) = blocks.block_of(rank);
        (count * element.datatype.size() > 0).then(|| blocks.address.wrapping_offset(shift))
    };
    send.address == recv.address
        && (0..ranks).any(|rank| {
            begins(send, rank).is_some_and(|address| !address.is_null() && begins(recv, rank) == Some(address))
        })
}

/// The error for one buffer that is given twice.
///
/// # Errors
/// Always `Buffer`.
pub fn aliased<T>() -> Result<T> {
    fail!(
        Buffer,
        "the send and the receive buffer are the same memory; use MPI_IN_PLACE if that is meant"
    )
}

impl Blocks {
    /// Refuses `other`, which is to be copied to or from this rank's block, if it is that block.
    pub fn refuse_overlap(&self, other: *mut u8, rank: u32, empty: bool) -> Result<()> {
        let (shift, _) = self.block_of(rank);
        if !empty && same_memory(self.address.wrapping_offset(shift), other) {
            return aliased();
        }
        Ok(())
    }
}
