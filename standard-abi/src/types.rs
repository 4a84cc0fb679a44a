//! Datatypes: how distributed arrays are made, and what tells what a datatype was made with.

use crate::values::*;
use crate::{Pointer, apply, call, translation};
use std::ffi::c_int;
use std::ptr::null;

/// Makes both widths of the function: the sizes are of either, and handed on.
macro_rules! darrays {
    ($($name:ident)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $name(
            size: c_int, rank: c_int, ndims: c_int, array_of_gsizes: Pointer, array_of_distribs: *const c_int,
            array_of_dargs: *const c_int, array_of_psizes: Pointer, order: c_int, oldtype: Handle, newtype: *mut Handle,
        ) -> c_int {
            let read = |at: *const c_int, translate: fn(c_int) -> c_int| -> Option<Vec<c_int>> {
                let count = usize::try_from(ndims).unwrap_or(0);
                (!at.is_null()).then(|| (0..count).map(|index| translate(*at.add(index))).collect())
            };
            let distribs = read(array_of_distribs, |value| DISTRIBUTIONS.mpich(value));
            let dargs = read(array_of_dargs, mpich_darg);
            let pointer = |own: &Option<Vec<c_int>>| own.as_ref().map_or(null(), |own| own.as_ptr());
            let mut newtype = Slot::empty(newtype);
            let create = call!($name: fn(
                c_int, c_int, c_int, Pointer, *const c_int, *const c_int, Pointer, c_int, c_int, *mut c_int
            ) -> c_int);
            let (order, oldtype) = (ORDERS.mpich(order), mpich(oldtype));
            let code = create(
                size, rank, ndims, array_of_gsizes, pointer(&distribs), pointer(&dargs), array_of_psizes, order,
                oldtype, newtype.pointer(),
            );
            newtype.give(standard);
            standard_code(code)
        }
    )*};
}
darrays! { MPI_Type_create_darray MPI_Type_create_darray_c }

/// Translates in their places what the library has said of `datatype`: its integers, and MPICH's handles of its datatypes, which
/// take half of the standard's room.
///
/// # Safety
/// The arrays hold what that datatype was made with.
unsafe fn translate_contents(datatype: c_int, integers: *mut c_int, datatypes: *mut Handle) {
    let ask = call!(MPI_Type_get_envelope_c: fn(c_int, *mut i64, *mut i64, *mut i64, *mut i64, *mut c_int) -> c_int);
    let (mut ni, mut na, mut nl, mut nd, mut combiner) = (0i64, 0i64, 0i64, 0i64, 0);
    // SAFETY: it sets five numbers, and the arrays have as many elements as those say.
    unsafe {
        ask(
            datatype,
            &raw mut ni,
            &raw mut na,
            &raw mut nl,
            &raw mut nd,
            &raw mut combiner,
        );
        for index in (0..nd as usize).rev() {
            *datatypes.add(index) = standard(*datatypes.cast::<c_int>().add(index));
        }
        let combiner = COMBINERS.standard(combiner);
        if combiner == number::MPI_COMBINER_DARRAY {
            // The size, the rank, the number of dimensions, their sizes if these are no large counts; distributions, their arguments.
            let dimensions = *integers.add(2) as usize;
            let first = 3 + if nl > 0 { 0 } else { dimensions };
            for index in first..first + dimensions {
                set(integers.add(index), |value| DISTRIBUTIONS.standard(value));
                set(integers.add(index + dimensions), mpich_darg);
            }
        }
        if [number::MPI_COMBINER_DARRAY, number::MPI_COMBINER_SUBARRAY].contains(&combiner) {
            set(integers.add(ni as usize - 1), |value| ORDERS.standard(value));
        }
    }
}

#[apply(translation!)]
pub unsafe extern "C" fn MPI_Type_get_contents(
    datatype: Handle,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    array_of_integers: *mut c_int,
    array_of_addresses: Pointer,
    array_of_datatypes: *mut Handle,
) -> c_int {
    let get = call!(MPI_Type_get_contents: fn(c_int, c_int, c_int, c_int, *mut c_int, Pointer, *mut Handle) -> c_int);
    let code = get(
        mpich(datatype),
        max_integers,
        max_addresses,
        max_datatypes,
        array_of_integers,
        array_of_addresses,
        array_of_datatypes,
    );
    if code == 0 {
        translate_contents(mpich(datatype), array_of_integers, array_of_datatypes);
    }
    standard_code(code)
}

#[apply(translation!)]
pub unsafe extern "C" fn MPI_Type_get_contents_c(
    datatype: Handle,
    max_integers: i64,
    max_addresses: i64,
    max_large_counts: i64,
    max_datatypes: i64,
    array_of_integers: *mut c_int,
    array_of_addresses: Pointer,
    array_of_large_counts: Pointer,
    array_of_datatypes: *mut Handle,
) -> c_int {
    let get = call!(MPI_Type_get_contents_c: fn(c_int, i64, i64, i64, i64, *mut c_int, Pointer, Pointer, *mut Handle) -> c_int);
    let code = get(
        mpich(datatype),
        max_integers,
        max_addresses,
        max_large_counts,
        max_datatypes,
        array_of_integers,
        array_of_addresses,
        array_of_large_counts,
        array_of_datatypes,
    );
    if code == 0 {
        translate_contents(mpich(datatype), array_of_integers, array_of_datatypes);
    }
    standard_code(code)
}
