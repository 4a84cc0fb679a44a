//! # Safety
//! Runs reduction kernels and the application's reduction functions on buffers: relies on the caller
//! to own the elements it names, and on user functions having the type the standard gives them.
//!
//! Reduction operations (MPI-4.1 §6.9).
//!
//! | module | owns |
//! |---|---|
//! | [`kernel`] | which predefined operation takes which datatypes, and the loops |
//!
//! Everything is computed as `right = left op right`, like a user function's `inoutvec = invec op inoutvec`.
#![allow(unsafe_code)]

pub mod kernel;

use super::datatype::Datatype;
use super::error::Result;
use super::table::Table;
use super::world::Hold;
use crate::fail;
use crate::sys::copy;
use kernel::{BUILTINS, Builtin, Kernel};
use std::ffi::{c_int, c_longlong, c_void};
use std::rc::Rc;

/// `MPI_User_function`: operands, result and operand, count, datatype.
pub type UserFunction = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut c_int);
/// `MPI_User_function_c`.
pub type WideUserFunction = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_longlong, *mut c_int);
/// `MPIX_User_function_x`, which is also given the pointer it was registered with.
pub type StateUserFunction = unsafe extern "C" fn(*mut c_void, *mut c_void, c_longlong, c_int, *mut c_void);
/// Calls a user function of another language: operands, count, datatype, the function.
pub type Proxy = unsafe extern "C" fn(*mut c_void, *mut c_void, c_int, c_int, UserFunction);

/// An operand that has to be copied first is, in pieces of so many bytes, which stay in the first cache.
const PIECE: usize = 8 << 10;

/// What an operation computes.
#[derive(Clone, Copy, Debug)]
pub enum Function {
    /// A predefined operation.
    Builtin(Builtin),
    /// A function of the program.
    User(UserFunction),
    /// One with a 64-bit count.
    Wide(WideUserFunction),
    /// One with a 64-bit count and a pointer of the program.
    State(StateUserFunction, *mut c_void),
    /// A function of another language, called through a function of its binding.
    Foreign(UserFunction, Proxy),
}

/// A reduction operation. Shared by `Rc`: pending operations keep it after `MPI_Op_free`.
#[derive(Debug)]
pub struct Op {
    /// What it computes.
    pub function: Function,
    /// Whether the program says that operands may change places.
    pub commutes: bool,
    /// Called with the program's pointer when the operation is gone.
    pub destructor: Option<unsafe extern "C" fn(*mut c_void)>,
}

impl Drop for Op {
    fn drop(&mut self) {
        if let (Function::State(_, state), Some(destructor)) = (self.function, self.destructor) {
            // SAFETY: the program's function, with the pointer it was registered with.
            unsafe { destructor(state) };
        }
    }
}

/// Every operation of a rank.
pub struct Ops {
    builtins: Vec<Rc<Op>>,
    user: Table<Rc<Op>>,
}

impl Default for Ops {
    fn default() -> Self {
        let builtin = |&builtin: &Builtin| {
            Rc::new(Op {
                function: Function::Builtin(builtin),
                commutes: !matches!(builtin, Builtin::Replace | Builtin::NoOp),
                destructor: None,
            })
        };
        Ops {
            builtins: BUILTINS.iter().map(builtin).collect(),
            user: Table::default(),
        }
    }
}

impl Ops {
    /// How many operations of the program's there are.
    pub fn made(&self) -> usize {
        self.user.len()
    }

    /// Predefined operation number `number`, counted from 1 as in its handle.
    pub fn builtin(&self, number: u32) -> Option<&Rc<Op>> {
        self.builtins.get((number as usize).checked_sub(1)?)
    }

    /// The program's operations by handle key.
    pub fn user(&self) -> &Table<Rc<Op>> {
        &self.user
    }

    /// The program's operations by handle key.
    pub fn user_mut(&mut self) -> &mut Table<Rc<Op>> {
        &mut self.user
    }
}

impl Op {
    /// Whether the operation reduces elements of `datatype`.
    ///
    /// # Errors
    /// `Op`: it is predefined and not defined for that datatype (MPI-4.1 §6.9.2), or for accumulates only (§12.3.4).
    pub fn check(&self, datatype: &Datatype) -> Result<()> {
        match self.function {
            Function::Builtin(builtin @ (Builtin::Replace | Builtin::NoOp)) => {
                fail!(Op, "{} is for accumulates only", builtin.name())
            }
            Function::Builtin(builtin) => kernel_for(builtin, datatype).map(drop),
            _ => Ok(()),
        }
    }

    /// `right = left op right` for `count` elements of `datatype`, whose handle is `handle`.
    /// User functions run with the state released, because they may call MPI. The program may have freed the datatype since: then
    /// it has another handle as long as they run. If it frees it meanwhile, in another thread, the handle holds until they are over.
    ///
    /// # Errors
    /// As [`Op::check`]. `NoMem`: there is no handle left.
    ///
    /// # Safety
    /// `left` is readable and `right` writable for that many elements, and they do not overlap.
    pub unsafe fn reduce(
        &self,
        hold: &mut Hold,
        datatype: &Rc<Datatype>,
        handle: i32,
        left: *const u8,
        right: *mut u8,
        count: usize,
    ) -> Result<()> {
        if let Function::Builtin(builtin) = self.function {
            let kernel = kernel_for(builtin, datatype)?;
            // SAFETY: the caller's promise, and the kernel is the one for this datatype.
            unsafe { kernel(left, right, count) };
            return Ok(());
        }
        let has_it = |found: &Rc<Datatype>| Rc::ptr_eq(found, datatype);
        let is_derived = datatype.contents().is_some();
        let lives = !is_derived || hold.datatypes.get(handle).is_ok_and(has_it);
        let handle = match lives {
            true => handle,
            false => hold.datatypes.insert(datatype.clone())?,
        };
        let is_theirs = is_derived && lives;
        if is_theirs {
            hold.datatypes.pin(handle);
        }
        // SAFETY: as above; the function is the program's.
        hold.released(|| unsafe { self.call_user(datatype.extent(), handle, left, right, count) });
        if is_theirs {
            hold.datatypes.unpin(handle);
        }
        match lives {
            true => Ok(()),
            false => hold.datatypes.remove(handle).map(drop),
        }
    }

    /// `to = left op right`, as [`Op::reduce`] with both operands kept.
    ///
    /// # Errors
    /// As [`Op::check`].
    ///
    /// # Safety
    /// `operands`, left and right, are readable and `to` writable for that many elements of a predefined datatype, and `to`
    /// overlaps neither.
    pub unsafe fn reduce_apart(
        &self,
        hold: &mut Hold,
        datatype: &Rc<Datatype>,
        handle: i32,
        operands: (*const u8, *const u8),
        to: *mut u8,
        count: usize,
    ) -> Result<()> {
        let (left, right) = operands;
        if let (Function::Builtin(builtin), Some(basic)) = (self.function, datatype.basic())
            && let Some(kernel) = kernel::find_apart(builtin, basic)
        {
            // SAFETY: the caller's promise, and the kernel is the one for this datatype.
            unsafe { kernel(left, right, to, count) };
            return Ok(());
        }
        let extent = datatype.extent() as usize;
        let each = (PIECE / extent.max(1)).max(1);
        for first in (0..count).step_by(each) {
            let (shift, count) = (first * extent, each.min(count - first));
            let to = to.wrapping_add(shift);
            // SAFETY: as above.
            unsafe {
                copy::many(right.wrapping_add(shift), to, count * extent);
                self.reduce(hold, datatype, handle, left.wrapping_add(shift), to, count)?;
            }
        }
        Ok(())
    }

    /// # Safety
    /// As [`Op::reduce`].
    unsafe fn call_user(&self, extent: isize, handle: i32, left: *const u8, right: *mut u8, count: usize) {
        let most = match self.function {
            Function::User(_) | Function::Foreign(..) => 1 << 30,
            _ => usize::MAX,
        };
        let mut done = 0;
        while done < count {
            let len = most.min(count - done);
            let shift = done as isize * extent;
            let left = left.wrapping_offset(shift).cast_mut().cast();
            let right = right.wrapping_offset(shift).cast();
            let mut narrow = len as c_int;
            let mut wide = len as c_longlong;
            let mut handle = handle;
            // SAFETY: the caller's promise about the elements; the functions have the types of the standard.
            unsafe {
                match self.function {
                    Function::User(function) => function(left, right, &mut narrow, &mut handle),
                    Function::Wide(function) => function(left, right, &mut wide, &mut handle),
                    Function::State(function, state) => function(left, right, wide, handle, state),
                    Function::Foreign(function, proxy) => proxy(left, right, narrow, handle, function),
                    Function::Builtin(_) => {}
                }
            }
            done += len;
        }
    }
}

fn kernel_for(builtin: Builtin, datatype: &Datatype) -> Result<Kernel> {
    let name = builtin.name();
    let Some(basic) = datatype.basic() else {
        fail!(Op, "{name} is not defined for derived datatypes");
    };
    match kernel::find(builtin, basic) {
        Some(kernel) => Ok(kernel),
        None => fail!(Op, "{name} is not defined for {}", basic.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::datatype::basic;
    use crate::mpi::world::{State, World};
    use crate::shm::segment::Segment;
    use crate::sys::cvar::Settings;
    use std::sync::Arc;

    const INT: i32 = 0x4c00_0405;

    /// right = 2 left - right
    unsafe extern "C" fn mirror(left: *mut c_void, right: *mut c_void, count: *mut c_int, handle: *mut c_int) {
        // SAFETY: the test passes rows of integers.
        unsafe {
            assert_eq!(*handle, INT);
            for index in 0..*count as usize {
                let right = right.cast::<c_int>().add(index);
                *right = 2 * *left.cast::<c_int>().add(index) - *right;
            }
        }
    }

    #[test]
    fn user_functions_get_left_and_right() {
        let segment = Arc::new(Segment::private(1, 1).unwrap());
        let state = State::join(segment, 0, Settings::read(|_| None).unwrap());
        let world = World::new(state, true);
        let mut hold = world.hold();
        let op = Op {
            function: Function::User(mirror),
            commutes: false,
            destructor: None,
        };
        let int = Datatype::basic_at(basic::index(INT).unwrap());
        let (left, mut right) = ([5, 6], [1, 20]);
        op.check(&int).unwrap();
        // SAFETY: both arrays hold two integers.
        unsafe {
            op.reduce(&mut hold, &int, INT, left.as_ptr().cast(), right.as_mut_ptr().cast(), 2)
                .unwrap();
        }
        assert_eq!(right, [9, -8]);
    }

    #[test]
    fn an_undefined_pair_is_named() {
        let ops = Ops::default();
        let double = Datatype::basic_at(basic::index(0x4c00_080b).unwrap());
        let error = ops.builtin(6).unwrap().check(&double).unwrap_err();
        assert_eq!(error.text(), "MPI_BAND is not defined for MPI_DOUBLE");
        assert!(ops.builtin(3).unwrap().check(&double).is_ok());
        assert!(ops.builtin(0).is_none() && ops.builtin(15).is_none());
    }
}
