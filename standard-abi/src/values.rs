//! Numbers of both ABIs: `mpich_...` goes there, `standard_...` comes back.
//!
//! A number that means nothing in the standard's ABI must mean nothing in MPICH's either: where it would, it becomes
//! one that does not.

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

/// What no function takes for anything.
const NOTHING: c_int = c_int::MIN;

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
        match self.iter().find(|pair| pair.0 == value) {
            Some(pair) => pair.1,
            None if self.iter().any(|pair| pair.1 == value) => NOTHING,
            None => value,
        }
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

/// Any handle but a file's. Those of objects that the program has made are the same number.
#[inline]
pub fn mpich(handle: Handle) -> c_int {
    let value = handle.0.addr();
    match PREDEFINED.get(value) {
        Some(&predefined) => predefined,
        None if value & !(MADE - 1) == MADE || value == SENT => value as u32 as c_int,
        None => 0,
    }
}

/// See [`mpich`].
#[inline]
pub fn standard(handle: c_int) -> Handle {
    const REQUEST_NULL: c_int = 0x2c00_0000;
    let value = handle as u32 as usize;
    // MPICH's datatypes for pairs look made.
    let is_made = value >= MADE && value >> 26 != 0x23;
    match handle {
        _ if is_made || value == SENT => Handle(without_provenance_mut(value)),
        REQUEST_NULL => Handle(without_provenance_mut(0x180)),
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
    const NULL: usize = 0x128;
    match handle as u32 {
        0x2c00_0000 => Handle(without_provenance_mut(NULL)),
        _ => standard(handle),
    }
}

/// `MPI_FILE_NULL`.
const FILE_NULL: usize = 0x118;

/// A file's handle, which is a pointer in both ABIs; MPICH's null handle is a null pointer, which means nothing here.
pub fn mpich_file(file: Pointer) -> Pointer {
    match file.addr() {
        FILE_NULL => null_mut(),
        0 => without_provenance_mut(1),
        _ => file,
    }
}

/// See [`mpich_file`].
pub fn standard_file(file: Pointer) -> Pointer {
    if file.is_null() {
        without_provenance_mut(FILE_NULL)
    } else {
        file
    }
}

/// A rank that is sent to or received from, or a root. The numbers are those of the standard's ABI.
#[inline]
pub fn mpich_rank(rank: c_int) -> c_int {
    match rank {
        0.. => rank,
        -1 => -2, // MPI_ANY_SOURCE
        -3 => -1, // MPI_PROC_NULL
        -4 => -3, // MPI_ROOT
        _ => NOTHING,
    }
}

/// See [`mpich_rank`].
#[inline]
pub fn standard_rank(rank: c_int) -> c_int {
    match rank {
        -2 => -1,
        -1 => -3,
        -3 => -4,
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

/// Each bit by itself; one that means nothing makes all of it mean nothing.
fn bits(modes: c_int, pair: impl Fn(&(c_int, c_int)) -> (c_int, c_int)) -> c_int {
    let (mut left, mut found) = (modes, 0);
    for (from, to) in MODES.iter().map(pair) {
        if left & from != 0 {
            left &= !from;
            found |= to;
        }
    }
    if left == 0 { found } else { NOTHING }
}

/// A file's displacement; `MPI_DISPLACEMENT_CURRENT` is -1 in the standard's ABI.
pub fn mpich_displacement(disp: i64) -> i64 {
    if disp == -1 { -54_278_278 } else { disp }
}

/// `MPI_IN_PLACE`.
pub const IN_PLACE: usize = 1;

/// `MPI_BUFFER_AUTOMATIC`.
pub const BUFFER_AUTOMATIC: usize = 2;

/// A buffer, which may be `MPI_IN_PLACE` or `MPI_BUFFER_AUTOMATIC`.
#[inline]
pub fn mpich_address(buffer: Pointer) -> Pointer {
    match buffer.addr() {
        IN_PLACE => without_provenance_mut(usize::MAX),
        BUFFER_AUTOMATIC => without_provenance_mut(usize::MAX - 1),
        _ => buffer,
    }
}

/// Weights of edges, which may be `MPI_UNWEIGHTED` or `MPI_WEIGHTS_EMPTY`.
pub fn mpich_weights(weights: Pointer) -> Pointer {
    static UNWEIGHTED: Variable = Variable::named("MPI_UNWEIGHTED\0");
    static EMPTY: Variable = Variable::named("MPI_WEIGHTS_EMPTY\0");
    match weights.addr() {
        10 => UNWEIGHTED.value(),
        11 => EMPTY.value(),
        _ => weights,
    }
}

/// A handle of a performance variable, or `MPI_T_PVAR_ALL_HANDLES`.
pub fn mpich_tool_handle(handle: Pointer) -> Pointer {
    static ALL: Variable = Variable::named("MPI_T_PVAR_ALL_HANDLES\0");
    if handle.addr() == 1 { ALL.value() } else { handle }
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
    back: fn(c_int) -> Handle,
}

impl Slot {
    /// For a handle that the function makes.
    pub fn empty(at: *mut Handle, back: fn(c_int) -> Handle) -> Slot {
        Slot {
            at,
            before: 0,
            value: 0,
            back,
        }
    }

    /// For one that it uses.
    ///
    /// # Safety
    /// `at` is a null pointer, or leads to a handle.
    pub unsafe fn changing(at: *mut Handle, back: fn(c_int) -> Handle) -> Slot {
        // SAFETY: as above.
        let value = if at.is_null() { 0 } else { mpich(unsafe { *at }) };
        Slot {
            at,
            before: value,
            value,
            back,
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

    /// Gives the program what the function has changed.
    ///
    /// # Safety
    /// As for [`Slot::changing`].
    #[inline]
    pub unsafe fn give(&self) {
        if self.value != self.before {
            // SAFETY: the function had no place for it if this were a null pointer.
            unsafe { *self.at = (self.back)(self.value) }
        }
    }
}
