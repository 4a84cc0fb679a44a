//! Numbers of both ABIs: `mpich_...` goes there, `standard_...` comes back.
//!
//! Both directions are one-to-one: what means nothing in the standard's ABI means nothing in MPICH's either, and comes back as it was.

use crate::Pointer;
use crate::library;
use std::ffi::{c_int, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::OnceLock;

/// A handle of the standard's ABI: a number in the form of a pointer.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Handle(pub *mut c_void);

/// Numbers with one meaning: the standard's, and MPICH's.
pub type Pairs = &'static [(c_int, c_int)];

include!(concat!(env!("OUT_DIR"), "/values.rs"));

/// Looks numbers up in both directions; what is not there stays what it is.
pub trait Translate {
    /// MPICH's number.
    fn mpich(self, value: c_int) -> c_int;
    /// The standard's.
    fn standard(self, value: c_int) -> c_int;
}

impl Translate for Pairs {
    #[inline(never)]
    fn mpich(self, value: c_int) -> c_int {
        self.iter().find(|pair| pair.0 == value).map_or(value, |pair| pair.1)
    }

    #[inline(never)]
    fn standard(self, value: c_int) -> c_int {
        self.iter().find(|pair| pair.1 == value).map_or(value, |pair| pair.0)
    }
}

/// The highest bit of MPICH's handles, which those of objects made at run time have.
const MADE: usize = 1 << 31;

/// The request of a message that has been sent already, which is all such messages'.
const SENT: usize = 0x6c00_0001;

/// Whether this is the handle of an object made at run time, and no number of MPICH's datatypes for pairs, which look so.
#[inline]
fn is_made(value: usize) -> bool {
    value & !(MADE - 1) == MADE && value >> 26 != 0x23 || value == SENT
}

/// Any handle but a file's. Those of objects that the program has made are the same number.
#[inline]
pub fn mpich(handle: Handle) -> c_int {
    let value = handle.0.addr();
    match PREDEFINED.get(value) {
        Some(&predefined) => predefined,
        None if is_made(value) => value as u32 as c_int,
        None => 0,
    }
}

/// See [`mpich`].
#[inline]
pub fn standard(handle: c_int) -> Handle {
    const REQUEST_NULL: c_int = 0x2c00_0000;
    let value = handle as u32 as usize;
    match handle {
        _ if is_made(value) => Handle(without_provenance_mut(value)),
        REQUEST_NULL => Handle(without_provenance_mut(number::MPI_REQUEST_NULL)),
        _ => named(handle),
    }
}

#[cold]
#[inline(never)]
fn named(handle: c_int) -> Handle {
    let value = match NAMED.binary_search_by_key(&handle, |pair| pair.0) {
        Ok(at) => NAMED[at].1,
        Err(_) => handle as u32 as usize,
    };
    Handle(without_provenance_mut(value))
}

/// A message's handle; the null one is MPICH's null request, too.
pub fn standard_message(handle: c_int) -> Handle {
    match handle as u32 {
        0x2c00_0000 => Handle(without_provenance_mut(number::MPI_MESSAGE_NULL)),
        _ => standard(handle),
    }
}

/// A file's handle, which is a pointer in both ABIs; MPICH's null handle is a null pointer, which means nothing here.
pub fn mpich_file(file: Pointer) -> Pointer {
    match file.addr() {
        number::MPI_FILE_NULL => null_mut(),
        0 => without_provenance_mut(1),
        _ => file,
    }
}

/// See [`mpich_file`].
pub fn standard_file(file: Pointer) -> Pointer {
    if file.is_null() {
        without_provenance_mut(number::MPI_FILE_NULL)
    } else {
        file
    }
}

/// A rank that is sent to or received from, or a root.
#[inline]
pub fn mpich_rank(rank: c_int) -> c_int {
    match rank {
        number::MPI_ANY_SOURCE => -2,
        number::MPI_PROC_NULL => -1,
        number::MPI_ROOT => -3,
        -2 => -4,
        _ => rank,
    }
}

/// See [`mpich_rank`].
#[inline]
pub fn standard_rank(rank: c_int) -> c_int {
    match rank {
        -2 => number::MPI_ANY_SOURCE,
        -1 => number::MPI_PROC_NULL,
        -3 => number::MPI_ROOT,
        -4 => -2,
        _ => rank,
    }
}

/// A tag: `MPI_ANY_TAG` is -2 in the standard's ABI and -1 in MPICH's.
#[inline]
pub fn mpich_tag(tag: c_int) -> c_int {
    match tag {
        -2 => -1,
        -1 => -2,
        _ => tag,
    }
}

/// See [`mpich_tag`].
#[inline]
pub fn standard_tag(tag: c_int) -> c_int {
    mpich_tag(tag)
}

/// What a function returns, or any other error class or code. Codes that are no classes say their class in the same bits.
#[inline]
pub fn standard_code(code: c_int) -> c_int {
    if code == 0 { 0 } else { standard_class(code) }
}

#[cold]
#[inline(never)]
fn standard_class(code: c_int) -> c_int {
    CLASSES.standard(code)
}

/// See [`standard_code`].
pub fn mpich_code(code: c_int) -> c_int {
    CLASSES.mpich(code)
}

/// Flags of `MPI_File_open`, or what is asserted of a window.
pub fn mpich_modes(modes: c_int) -> c_int {
    bits(modes, |&(standard, mpich)| (standard, mpich))
}

/// See [`mpich_modes`].
pub fn standard_modes(modes: c_int) -> c_int {
    bits(modes, |&(standard, mpich)| (mpich, standard))
}

/// Each bit by itself; those that mean nothing are the same in both ABIs.
fn bits(modes: c_int, pair: impl Fn(&(c_int, c_int)) -> (c_int, c_int)) -> c_int {
    let (mut left, mut found) = (modes, 0);
    for (from, to) in MODES.iter().map(pair) {
        if left & from != 0 {
            left &= !from;
            found |= to;
        }
    }
    found | left
}

/// A file's displacement; `MPI_DISPLACEMENT_CURRENT` is -1 in the standard's ABI.
pub fn mpich_displacement(disp: i64) -> i64 {
    if disp == -1 { -54_278_278 } else { disp }
}

/// The argument of a distribution, in either direction: `MPI_DISTRIBUTE_DFLT_DARG` is a number of its own, all others are sizes.
pub fn mpich_darg(argument: c_int) -> c_int {
    const DEFAULT: c_int = -49_767;
    match argument {
        number::MPI_DISTRIBUTE_DFLT_DARG => DEFAULT,
        DEFAULT => number::MPI_DISTRIBUTE_DFLT_DARG,
        _ => argument,
    }
}

/// A buffer, which may be `MPI_IN_PLACE` or `MPI_BUFFER_AUTOMATIC`.
#[inline]
pub fn mpich_address(buffer: Pointer) -> Pointer {
    match buffer.addr() {
        number::MPI_IN_PLACE => without_provenance_mut(usize::MAX),
        number::MPI_BUFFER_AUTOMATIC => without_provenance_mut(usize::MAX - 1),
        _ => buffer,
    }
}

/// Weights of edges, which may be `MPI_UNWEIGHTED` or `MPI_WEIGHTS_EMPTY`.
pub fn mpich_weights(weights: Pointer) -> Pointer {
    static UNWEIGHTED: Variable = Variable::named("MPI_UNWEIGHTED\0");
    static EMPTY: Variable = Variable::named("MPI_WEIGHTS_EMPTY\0");
    match weights.addr() {
        number::MPI_UNWEIGHTED => UNWEIGHTED.value(),
        number::MPI_WEIGHTS_EMPTY => EMPTY.value(),
        _ => weights,
    }
}

/// A handle of a performance variable, or `MPI_T_PVAR_ALL_HANDLES`.
pub fn mpich_tool_handle(handle: Pointer) -> Pointer {
    static ALL: Variable = Variable::named("MPI_T_PVAR_ALL_HANDLES\0");
    // The library's numbers of handles begin above 1, which is a session's.
    if handle.addr() == number::MPI_T_PVAR_ALL_HANDLES {
        ALL.value()
    } else {
        handle
    }
}

/// A pointer that is a constant for MPICH's ABI, kept in a variable of the library.
struct Variable(&'static str, OnceLock<usize>);

impl Variable {
    const fn named(name: &'static str) -> Variable {
        Variable(name, OnceLock::new())
    }

    fn value(&self) -> Pointer {
        // SAFETY: the library has a pointer of that name.
        let read = || unsafe { *library::symbol(self.0).cast::<Pointer>() }.addr();
        without_provenance_mut(*self.1.get_or_init(read))
    }
}

/// Replaces a number that a function has set.
///
/// # Safety
/// `at` is a null pointer, or leads to a number.
pub unsafe fn set(at: *mut c_int, convert: impl Fn(c_int) -> c_int) {
    if !at.is_null() {
        // SAFETY: as above.
        unsafe { *at = convert(*at) }
    }
}

/// Where the program keeps a handle, and MPICH's one in its place during a call.
pub struct Slot {
    at: *mut Handle,
    before: c_int,
    value: c_int,
}

impl Slot {
    /// For a handle that the function makes.
    pub fn empty(at: *mut Handle) -> Slot {
        Slot {
            at,
            before: 0,
            value: 0,
        }
    }

    /// For one that it uses.
    ///
    /// # Safety
    /// `at` is a null pointer, or leads to a handle.
    pub unsafe fn changing(at: *mut Handle) -> Slot {
        // SAFETY: as above.
        let value = if at.is_null() { 0 } else { mpich(unsafe { *at }) };
        Slot {
            at,
            before: value,
            value,
        }
    }

    /// What the function is given.
    #[inline]
    pub fn pointer(&mut self) -> *mut c_int {
        if self.at.is_null() {
            null_mut()
        } else {
            &raw mut self.value
        }
    }

    /// Gives the program what the function has changed, translated by `back`.
    ///
    /// # Safety
    /// As for [`Slot::changing`].
    #[inline]
    pub unsafe fn give(&self, back: impl Fn(c_int) -> Handle) {
        if self.value != self.before {
            // SAFETY: the function had no place for it if this were a null pointer.
            unsafe { *self.at = back(self.value) }
        }
    }
}
