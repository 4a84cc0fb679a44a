//! # Safety
//! Reads and writes through the application's pointers by the helpers of [`super::edge`] only.
//!
//! Datatypes: commit and free, size and bounds, names, addresses, Fortran's kinds (MPI-4.1 §5.1, §19.1.5).
//! Constructors are in [`super::datatype_make`], packing is in [`super::packing`].
#![allow(unsafe_code)]

use super::attr::delete_all;
use super::constants::*;
use super::edge::*;
use super::status::{read, store_elements};
use super::types::*;
use crate::fail;
use crate::mpi::datatype::Combiner;
use crate::mpi::datatype::basic;
use crate::mpi::world::State;
use std::ffi::{c_char, c_int, c_void};

/// Makes a datatype usable in communication. MPI-4.1 §5.1.9.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_commit(datatype: *mut MPI_Datatype) -> c_int {
    on_world("MPI_Type_commit", |hold| {
        hold.datatypes.get(load(datatype, "datatype")?)?.commit();
        Ok(())
    })
}

/// Frees a datatype; communication that uses it goes on. MPI-4.1 §5.1.9.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_free(datatype: *mut MPI_Datatype) -> c_int {
    on_world("MPI_Type_free", |hold| {
        let handle = load(datatype, "datatype")?;
        let freed = hold.datatypes.derived(handle)?.clone();
        if freed.handles() == 1 {
            delete_all(hold, handle, freed.attributes())?;
        }
        hold.datatypes.remove(handle)?;
        store(datatype, "datatype", MPI_DATATYPE_NULL)
    })
}

/// Bytes of data in an element. MPI-4.1 §5.1.5.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_size(datatype: MPI_Datatype, size: *mut Count) -> c_int {
    on_world("MPI_Type_size", |hold| {
        store_count(size, "size", hold.datatypes.get(datatype)?.size() as i64)
    })
}

/// [`MPI_Type_size`] as MPI-3 widened it.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_size_x(datatype: MPI_Datatype, size: *mut MPI_Count) -> c_int {
    on_world("MPI_Type_size_x", |hold| {
        store(size, "size", hold.datatypes.get(datatype)?.size() as MPI_Count)
    })
}

/// Lower bound and extent. MPI-4.1 §5.1.7.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_get_extent(
    datatype: MPI_Datatype,
    lb: *mut TypeDispl,
    extent: *mut TypeDispl,
) -> c_int {
    on_world("MPI_Type_get_extent", |hold| {
        let datatype = hold.datatypes.get(datatype)?;
        bounds(lb, datatype.lb(), extent, datatype.extent())
    })
}

/// [`MPI_Type_get_extent`] as MPI-3 widened it.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_get_extent_x(
    datatype: MPI_Datatype,
    lb: *mut MPI_Count,
    extent: *mut MPI_Count,
) -> c_int {
    on_world("MPI_Type_get_extent_x", |hold| {
        let datatype = hold.datatypes.get(datatype)?;
        bounds(lb, datatype.lb(), extent, datatype.extent())
    })
}

/// Lower bound and extent of the bytes that an element touches. MPI-4.1 §5.1.8.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_get_true_extent(
    datatype: MPI_Datatype,
    true_lb: *mut TypeDispl,
    true_extent: *mut TypeDispl,
) -> c_int {
    on_world("MPI_Type_get_true_extent", |hold| {
        let datatype = hold.datatypes.get(datatype)?;
        bounds(true_lb, datatype.true_lb(), true_extent, datatype.true_extent())
    })
}

/// [`MPI_Type_get_true_extent`] as MPI-3 widened it.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_get_true_extent_x(
    datatype: MPI_Datatype,
    true_lb: *mut MPI_Count,
    true_extent: *mut MPI_Count,
) -> c_int {
    on_world("MPI_Type_get_true_extent_x", |hold| {
        let datatype = hold.datatypes.get(datatype)?;
        bounds(true_lb, datatype.true_lb(), true_extent, datatype.true_extent())
    })
}

fn bounds<T: From<i64>>(lb: *mut T, low: isize, extent: *mut T, wide: isize) -> Result<()> {
    if extent.is_null() {
        fail!(Arg, "extent is a null pointer");
    }
    store(lb, "lb", T::from(low as i64))?;
    store(extent, "extent", T::from(wide as i64))
}

/// Extent, as MPI-1 asked for it.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_extent(datatype: MPI_Datatype, extent: *mut MPI_Aint) -> c_int {
    on_world("MPI_Type_extent", |hold| {
        store(extent, "extent", hold.datatypes.get(datatype)?.extent() as MPI_Aint)
    })
}

/// Lower bound, as MPI-1 asked for it.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_lb(datatype: MPI_Datatype, displacement: *mut MPI_Aint) -> c_int {
    on_world("MPI_Type_lb", |hold| {
        store(
            displacement,
            "displacement",
            hold.datatypes.get(datatype)?.lb() as MPI_Aint,
        )
    })
}

/// Upper bound, as MPI-1 asked for it.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_ub(datatype: MPI_Datatype, displacement: *mut MPI_Aint) -> c_int {
    on_world("MPI_Type_ub", |hold| {
        store(
            displacement,
            "displacement",
            hold.datatypes.get(datatype)?.ub() as MPI_Aint,
        )
    })
}

/// How many predefined values were received. MPI-4.1 §5.1.11.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Get_elements(
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: *mut Count,
) -> c_int {
    on_world("MPI_Get_elements", |hold| {
        let bytes = read(status)?.bytes();
        store_elements(count, hold.datatypes.get(datatype)?.elements_in(bytes))
    })
}

/// [`MPI_Get_elements`] as MPI-3 widened it.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Get_elements_x(
    status: *const MPI_Status,
    datatype: MPI_Datatype,
    count: *mut MPI_Count,
) -> c_int {
    on_world("MPI_Get_elements_x", |hold| {
        let bytes = read(status)?.bytes();
        store_elements(count, hold.datatypes.get(datatype)?.elements_in(bytes))
    })
}

/// The name of a datatype. MPI-4.1 §7.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_get_name(
    datatype: MPI_Datatype,
    type_name: *mut c_char,
    resultlen: *mut c_int,
) -> c_int {
    on_world("MPI_Type_get_name", |hold| {
        let name = match datatype {
            MPI_DATATYPE_NULL => "MPI_DATATYPE_NULL".to_owned(),
            _ => hold.datatypes.get(datatype)?.name(),
        };
        store_string(type_name, "type_name", MPI_MAX_OBJECT_NAME, &name, resultlen)
    })
}

/// Names a datatype. MPI-4.1 §7.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_set_name(datatype: MPI_Datatype, type_name: *const c_char) -> c_int {
    on_world("MPI_Type_set_name", |hold| {
        let datatype = hold.datatypes.get(datatype)?;
        datatype.set_name(&string(type_name, "type_name")?);
        Ok(())
    })
}

/// The address of a variable, for displacements from `MPI_BOTTOM`. MPI-4.1 §5.1.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Get_address(location: *const c_void, address: *mut MPI_Aint) -> c_int {
    on_world("MPI_Get_address", |_| {
        store(address, "address", location.addr() as MPI_Aint)
    })
}

/// [`MPI_Get_address`], as MPI-1 named it.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Address(location: *mut c_void, address: *mut MPI_Aint) -> c_int {
    on_world("MPI_Address", |_| {
        store(address, "address", location.addr() as MPI_Aint)
    })
}

/// Address and displacement added. MPI-4.1 §5.1.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Aint_add(base: MPI_Aint, disp: MPI_Aint) -> MPI_Aint {
    base.wrapping_add(disp)
}

/// The displacement between two addresses. MPI-4.1 §5.1.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Aint_diff(addr1: MPI_Aint, addr2: MPI_Aint) -> MPI_Aint {
    addr1.wrapping_sub(addr2)
}

/// The predefined datatype of a class and size. MPI-4.1 §19.1.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_match_size(typeclass: c_int, size: c_int, datatype: *mut MPI_Datatype) -> c_int {
    on_world("MPI_Type_match_size", |_| {
        let choice: &[(c_int, MPI_Datatype)] = match typeclass {
            MPI_TYPECLASS_REAL => &[(2, MPI_REAL2), (4, MPI_REAL4), (8, MPI_REAL8), (16, MPI_REAL16)],
            MPI_TYPECLASS_INTEGER => &[
                (1, MPI_INTEGER1),
                (2, MPI_INTEGER2),
                (4, MPI_INTEGER4),
                (8, MPI_INTEGER8),
                (16, MPI_INTEGER16),
            ],
            MPI_TYPECLASS_COMPLEX => &[
                (4, MPI_COMPLEX4),
                (8, MPI_COMPLEX8),
                (16, MPI_COMPLEX16),
                (32, MPI_COMPLEX32),
            ],
            _ => fail!(
                Arg,
                "{typeclass} is not one of MPI_TYPECLASS_REAL, _INTEGER and _COMPLEX"
            ),
        };
        match choice.iter().find(|(bytes, _)| *bytes == size) {
            Some((_, found)) => store(datatype, "datatype", *found),
            None => fail!(Arg, "no predefined datatype of this class has {size} bytes"),
        }
    })
}

/// The predefined pair of a value and an index. MPI-4.1 §6.9.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_get_value_index(
    value_type: MPI_Datatype,
    index_type: MPI_Datatype,
    pair_type: *mut MPI_Datatype,
) -> c_int {
    on_world("MPI_Type_get_value_index", |hold| {
        for handle in [value_type, index_type] {
            if hold.datatypes.get(handle)?.basic().is_none() {
                fail!(Type, "value and index must be predefined datatypes");
            }
        }
        let pair = match (value_type, index_type) {
            (MPI_FLOAT, MPI_INT) => MPI_FLOAT_INT,
            (MPI_DOUBLE, MPI_INT) => MPI_DOUBLE_INT,
            (MPI_LONG, MPI_INT) => MPI_LONG_INT,
            (MPI_SHORT, MPI_INT) => MPI_SHORT_INT,
            (MPI_LONG_DOUBLE, MPI_INT) => MPI_LONG_DOUBLE_INT,
            (MPI_INT, MPI_INT) => MPI_2INT,
            (MPI_INTEGER, MPI_INTEGER) => MPI_2INTEGER,
            (MPI_REAL, MPI_REAL) => MPI_2REAL,
            (MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION) => MPI_2DOUBLE_PRECISION,
            _ => MPI_DATATYPE_NULL,
        };
        store(pair_type, "pair_type", pair)
    })
}

/// Precision, decimal exponent range, and the datatypes of Fortran's real and complex kind.
const REALS: [(c_int, c_int, MPI_Datatype, MPI_Datatype); 4] = [
    (6, 37, MPI_REAL, MPI_COMPLEX),
    (15, 307, MPI_DOUBLE_PRECISION, MPI_DOUBLE_COMPLEX),
    (18, 4931, MPI_LONG_DOUBLE, MPI_C_LONG_DOUBLE_COMPLEX),
    (33, 4931, MPI_REAL16, MPI_COMPLEX32),
];

/// Decimal range and datatype of Fortran's integer kinds.
const INTEGERS: [(c_int, MPI_Datatype); 5] = [
    (2, MPI_INTEGER1),
    (4, MPI_INTEGER2),
    (9, MPI_INTEGER),
    (18, MPI_INTEGER8),
    (38, MPI_INTEGER16),
];

fn real_kind(p: c_int, r: c_int) -> Result<(MPI_Datatype, MPI_Datatype)> {
    let holds = |wanted: c_int, has: c_int| wanted == MPI_UNDEFINED || wanted <= has;
    if p == MPI_UNDEFINED && r == MPI_UNDEFINED {
        fail!(Other, "precision and range are both MPI_UNDEFINED");
    }
    match REALS.iter().find(|kind| holds(p, kind.0) && holds(r, kind.1)) {
        Some(&(_, _, real, complex)) => Ok((real, complex)),
        None => fail!(
            Other,
            "no Fortran kind has a precision of {p} digits and a range of {r}"
        ),
    }
}

/// The datatype of `SELECTED_REAL_KIND(p, r)`. MPI-4.1 §19.1.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_create_f90_real(p: c_int, r: c_int, newtype: *mut MPI_Datatype) -> c_int {
    on_world("MPI_Type_create_f90_real", |hold| {
        let (real, _) = real_kind(p, r)?;
        store(newtype, "newtype", kind(hold, Combiner::F90Real, &[p, r], real)?)
    })
}

/// The complex datatype of `SELECTED_REAL_KIND(p, r)`. MPI-4.1 §19.1.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_create_f90_complex(p: c_int, r: c_int, newtype: *mut MPI_Datatype) -> c_int {
    on_world("MPI_Type_create_f90_complex", |hold| {
        let (_, complex) = real_kind(p, r)?;
        store(newtype, "newtype", kind(hold, Combiner::F90Complex, &[p, r], complex)?)
    })
}

/// The datatype of `SELECTED_INT_KIND(r)`. MPI-4.1 §19.1.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_create_f90_integer(r: c_int, newtype: *mut MPI_Datatype) -> c_int {
    on_world("MPI_Type_create_f90_integer", |hold| {
        let Some((_, integer)) = INTEGERS.iter().find(|(range, _)| r <= *range) else {
            fail!(Other, "no Fortran kind has a range of {r} decimal digits");
        };
        store(newtype, "newtype", kind(hold, Combiner::F90Integer, &[r], *integer)?)
    })
}

/// The handle of a parameterized predefined datatype: always the same one for the same arguments.
fn kind(state: &mut State, combiner: Combiner, arguments: &[c_int], of: MPI_Datatype) -> Result<MPI_Datatype> {
    let of = state.datatypes.get(of)?.clone();
    state.datatypes.parameterized(combiner, arguments, &of)
}

/// Memory blocks of one element, from the `iov_offset`th on; MPICH's extension.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Type_iov(
    datatype: MPI_Datatype,
    iov_offset: MPI_Count,
    iov: *mut MPIX_Iov,
    max_iov_len: MPI_Count,
    actual_iov_len: *mut MPI_Count,
) -> c_int {
    on_world("MPIX_Type_iov", |hold| {
        let datatype = hold.datatypes.get(datatype)?;
        let skip = count(iov_offset, "iov_offset")?;
        let slots = slice_mut(iov, count(max_iov_len, "max_iov_len")?, "iov")?;
        let mut seen = 0usize;
        datatype.segments(1, 0, datatype.size(), &mut |offset, len| {
            if let Some(slot) = seen.checked_sub(skip).and_then(|index: usize| slots.get_mut(index)) {
                *slot = MPIX_Iov {
                    iov_base: std::ptr::without_provenance_mut(offset as usize),
                    iov_len: len as MPI_Aint,
                };
            }
            seen += 1;
        });
        let actual = seen.saturating_sub(skip).min(slots.len());
        store(actual_iov_len, "actual_iov_len", actual as MPI_Count)
    })
}

/// How many whole memory blocks of one element fit `max_iov_bytes` bytes, and their bytes; MPICH's extension.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Type_iov_len(
    datatype: MPI_Datatype,
    max_iov_bytes: MPI_Count,
    iov_len: *mut MPI_Count,
    actual_iov_bytes: *mut MPI_Count,
) -> c_int {
    on_world("MPIX_Type_iov_len", |hold| {
        let datatype = hold.datatypes.get(datatype)?;
        let limit = usize::try_from(max_iov_bytes).unwrap_or(usize::MAX);
        let (mut blocks, mut bytes, mut full) = (0, 0, false);
        datatype.segments(1, 0, datatype.size(), &mut |_, len| {
            full = full || len > limit - bytes;
            if !full {
                (blocks, bytes) = (blocks + 1, bytes + len);
            }
        });
        store(iov_len, "iov_len", blocks as MPI_Count)?;
        store(actual_iov_bytes, "actual_iov_bytes", bytes as MPI_Count)
    })
}

const _: () = assert!(basic::NULL == MPI_DATATYPE_NULL);
