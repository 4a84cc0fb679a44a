//! # Safety
//! Keeps the program's reduction functions and calls them on its buffers: relies on their types and
//! on the buffers holding the elements that are named.
//!
//! Reduction operations (MPI-4.1 §6.9.5 and §6.9.7).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::types::*;
use crate::fail;
use crate::mpi::op::{Function, Op, Proxy, UserFunction};
use crate::mpi::world::State;
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::rc::Rc;

/// The predefined operations have the handles from `MPI_MAX` on.
const FIRST: c_int = MPI_MAX;
const LAST: c_int = MPI_NO_OP;

/// The operation `handle` names.
///
/// # Errors
/// [`Class::Op`]: the null handle, another kind of handle, or an operation that was freed.
pub fn op(state: &State, handle: MPI_Op) -> Result<&Rc<Op>> {
    if (FIRST..=LAST).contains(&handle) {
        let found = state.ops.builtin((handle - FIRST) as u32 + 1);
        return Object::Op.alive(handle, found);
    }
    let key = Object::Op.key(handle)?;
    Object::Op.alive(handle, state.ops.user().get(key))
}

fn create(
    name: &'static str,
    function: Option<Function>,
    commute: c_int,
    destructor: MPIX_Destructor_function,
    out: *mut MPI_Op,
) -> c_int {
    on_world(name, |hold| {
        let Some(function) = function else {
            fail!(Arg, "user_fn is a null pointer");
        };
        slice_mut(out, 1, "op")?;
        let op = Op {
            function,
            commutes: commute != 0,
            destructor,
        };
        let key = hold.ops.user_mut().insert(Rc::new(op));
        store(out, "op", Object::Op.made(key)?)
    })
}

/// Makes an operation of a user function. MPI-4.1 §6.9.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Op_create(user_fn: MPI_User_function, commute: c_int, op: *mut MPI_Op) -> c_int {
    create("MPI_Op_create", user_fn.map(Function::User), commute, None, op)
}

/// The same, of a user function with a 64-bit count. MPI-4.1 §6.9.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Op_create_c(user_fn: MPI_User_function_c, commute: c_int, op: *mut MPI_Op) -> c_int {
    create("MPI_Op_create_c", user_fn.map(Function::Wide), commute, None, op)
}

/// The same, of a function that is also given `extra_state`; `destructor_fn` is called with it when
/// the operation is gone. MPICH's extension.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIX_Op_create_x(
    user_fn_x: MPIX_User_function_x,
    destructor_fn: MPIX_Destructor_function,
    commute: c_int,
    extra_state: *mut c_void,
    op: *mut MPI_Op,
) -> c_int {
    let function = user_fn_x.map(|function| Function::State(function, extra_state));
    create("MPIX_Op_create_x", function, commute, destructor_fn, op)
}

/// Frees an operation's handle; pending collectives keep the operation. MPI-4.1 §6.9.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Op_free(op: *mut MPI_Op) -> c_int {
    on_world("MPI_Op_free", |hold| {
        let handle = load(op, "op")?;
        let key = Object::Op.key(handle)?;
        let freed = hold.ops.user_mut().remove(key);
        let freed = Object::Op.alive(handle, freed)?;
        hold.released(|| drop(freed));
        store(op, "op", MPI_OP_NULL)
    })
}

/// Whether an operation commutes. MPI-4.1 §6.9.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Op_commutative(op: MPI_Op, commute: *mut c_int) -> c_int {
    on_world("MPI_Op_commutative", |hold| {
        let commutes = self::op(hold, op)?.commutes;
        store(commute, "commute", commutes.into())
    })
}

/// `inoutbuf = inbuf op inoutbuf`, here and now. MPI-4.1 §6.9.7.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Reduce_local(
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: Count,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> c_int {
    reduce_local("MPI_Reduce_local", inbuf, inoutbuf, count.into(), (datatype, op))
}

fn reduce_local(
    name: &'static str,
    inbuf: *const c_void,
    inoutbuf: *mut c_void,
    count: i64,
    (datatype, op): (MPI_Datatype, MPI_Op),
) -> c_int {
    on_world(name, |hold| {
        let count = self::count(count, "count")?;
        let element = hold.datatypes.committed(datatype)?.clone();
        let op = self::op(hold, op)?.clone();
        op.check(&element)?;
        if count == 0 || element.size() == 0 {
            return Ok(());
        }
        for (buffer, argument) in [(inbuf, "inbuf"), (inoutbuf.cast_const(), "inoutbuf")] {
            if buffer == MPI_IN_PLACE.cast_const() {
                fail!(Buffer, "{argument} cannot be MPI_IN_PLACE");
            }
            if buffer.is_null() && element.true_lb() == 0 {
                fail!(
                    Buffer,
                    "{argument} is a null pointer, but {count} elements are to be reduced"
                );
            }
        }
        if inbuf == inoutbuf.cast_const() {
            fail!(Buffer, "inbuf and inoutbuf are the same buffer");
        }
        // SAFETY: the program owns both buffers, which hold `count` elements.
        unsafe { op.reduce(hold, &element, datatype, inbuf.cast(), inoutbuf.cast(), count) }
    })
}

/// For MPICH's C++ library: makes `op` call its function through `call`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPII_Op_set_cxx(op: MPI_Op, call: *mut c_void) {
    // SAFETY: the C++ library passes a function of the type `Proxy`, or null.
    let proxy = unsafe { transmute::<*mut c_void, Option<Proxy>>(call) };
    let (Some(world), Some(proxy)) = (current_world(), proxy) else {
        return;
    };
    let mut hold = world.hold();
    let Ok(old) = self::op(&hold, op).cloned() else {
        return;
    };
    let function: UserFunction = match old.function {
        Function::User(function) | Function::Foreign(function, _) => function,
        _ => return,
    };
    if let Ok(key) = Object::Op.key(op)
        && let Some(slot) = hold.ops.user_mut().get_mut(key)
    {
        *slot = Rc::new(Op {
            function: Function::Foreign(function, proxy),
            commutes: old.commutes,
            destructor: None,
        });
    }
}

/// For MPICH's Fortran 2008 library: `op` calls a function of `mpi_f08`. Nothing changes for it: the datatype
/// it is given is a structure of one handle, which lies in memory as C's handle does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPII_Op_set_f08(op: MPI_Op) {
    let _ = op;
}
