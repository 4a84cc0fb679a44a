//! Functions whose parameters do not say alone how they are translated.

use crate::arrays::Handles;
use crate::status::{MpichStatus, Status, StatusSlot};
use crate::values::*;
use crate::{Pointer, apply, call, translation};
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

// What this library is.

/// Makes the functions that tell a version: `libmpi.so.12` says whether they may, and has another.
macro_rules! versions {
    ($($name:ident = $version:expr;)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $name(major: *mut c_int, minor: *mut c_int) -> c_int {
            let code = call!($name: fn(*mut c_int, *mut c_int) -> c_int)(major, minor);
            if code == 0 {
                (*major, *minor) = $version;
            }
            standard_code(code)
        }
    )*};
}
versions! {
    MPI_Get_version = (number::MPI_VERSION, number::MPI_SUBVERSION);
    MPI_Abi_get_version = (number::MPI_ABI_VERSION, number::MPI_ABI_SUBVERSION);
}

// The parameters behind the level are for tools, which put themselves before this function.
#[apply(translation!)]
pub unsafe extern "C" fn MPI_Pcontrol(level: c_int) -> c_int {
    standard_code(call!(MPI_Pcontrol: fn(c_int) -> c_int)(level))
}

// Handles as integers.

/// Makes both directions for a kind of handle: the numbers are small, or those of MPICH's ABI, which are 32 bits.
macro_rules! integers {
    ($($to:ident $from:ident)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $to(handle: Handle) -> c_int {
            handle.0.addr() as u32 as c_int
        }
        #[apply(translation!)]
        pub unsafe extern "C" fn $from(number: c_int) -> Handle {
            Handle(std::ptr::without_provenance_mut(number as u32 as usize))
        }
    )*};
}
integers! {
    MPI_Comm_toint MPI_Comm_fromint
    MPI_Errhandler_toint MPI_Errhandler_fromint
    MPI_File_toint MPI_File_fromint
    MPI_Group_toint MPI_Group_fromint
    MPI_Info_toint MPI_Info_fromint
    MPI_Message_toint MPI_Message_fromint
    MPI_Op_toint MPI_Op_fromint
    MPI_Request_toint MPI_Request_fromint
    MPI_Session_toint MPI_Session_fromint
    MPI_Type_toint MPI_Type_fromint
    MPI_Win_toint MPI_Win_fromint
}

// Files.

#[apply(translation!)]
pub unsafe extern "C" fn MPI_File_open(
    comm: Handle,
    filename: *const c_char,
    amode: c_int,
    info: Handle,
    fh: *mut Pointer,
) -> c_int {
    let open = call!(MPI_File_open: fn(c_int, *const c_char, c_int, c_int, *mut Pointer) -> c_int);
    let mut own = null_mut();
    let place = if fh.is_null() { fh } else { &raw mut own };
    let code = open(mpich(comm), filename, mpich_modes(amode), mpich(info), place);
    if !fh.is_null() {
        *fh = standard_file(own);
    }
    standard_code(code)
}

#[apply(translation!)]
pub unsafe extern "C" fn MPI_File_close(fh: *mut Pointer) -> c_int {
    let mut own = if fh.is_null() { null_mut() } else { mpich_file(*fh) };
    let before = own;
    let code = call!(MPI_File_close: fn(*mut Pointer) -> c_int)(if fh.is_null() { fh } else { &raw mut own });
    if own != before {
        *fh = standard_file(own);
    }
    standard_code(code)
}

// Statuses that the program fills in.

/// Makes the functions that set a part of a status.
macro_rules! fill {
    ($($name:ident($($parameter:ident: $taken:ty => $given:ty = $argument:expr),*);)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $name(status: *mut Status, $($parameter: $taken),*) -> c_int {
            let mut status = StatusSlot::full(status);
            let fill = call!($name: fn(*mut MpichStatus, $($given),*) -> c_int);
            let code = fill(status.required(), $($argument),*);
            status.give();
            standard_code(code)
        }
    )*};
}
fill! {
    MPI_Status_set_cancelled(flag: c_int => c_int = flag);
    MPI_Status_set_elements(datatype: Handle => c_int = mpich(datatype), count: c_int => c_int = count);
    MPI_Status_set_elements_c(datatype: Handle => c_int = mpich(datatype), count: i64 => i64 = count);
    MPI_Status_set_elements_x(datatype: Handle => c_int = mpich(datatype), count: i64 => i64 = count);
    MPI_Status_set_source(source: c_int => c_int = mpich_rank(source));
    MPI_Status_set_tag(tag: c_int => c_int = mpich_tag(tag));
    MPI_Status_set_error(error: c_int => c_int = mpich_code(error));
}

// Attributes that are there from the start, some of which are numbers that mean something.

/// Makes the functions that read an attribute: `$pairs` are the numbers of each such key.
macro_rules! attributes {
    ($($name:ident: $($key:ident => $pairs:expr),*;)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $name(
            object: Handle, keyval: c_int, attribute_val: *mut *const c_int, flag: *mut c_int,
        ) -> c_int {
            let get = call!($name: fn(c_int, c_int, *mut *const c_int, *mut c_int) -> c_int);
            let code = get(mpich(object), KEYVALS.mpich(keyval), attribute_val, flag);
            if code == 0 && *flag != 0 {
                let pairs: Pairs = match keyval {
                    $(number::$key => $pairs,)*
                    _ => &[],
                };
                if let Some(pair) = pairs.iter().find(|pair| pair.1 == **attribute_val) {
                    *attribute_val = &raw const pair.0;
                }
            }
            standard_code(code)
        }
    )*};
}
/// `MPI_ANY_SOURCE` and `MPI_PROC_NULL`.
static RANKS: Pairs = &[(number::MPI_ANY_SOURCE, -2), (number::MPI_PROC_NULL, -1)];
attributes! {
    MPI_Comm_get_attr: MPI_IO => RANKS, MPI_HOST => RANKS;
    MPI_Attr_get: MPI_IO => RANKS, MPI_HOST => RANKS;
    MPI_Win_get_attr: MPI_WIN_CREATE_FLAVOR => FLAVORS, MPI_WIN_MODEL => MODELS;
}

// What is started.

/// Translates the errors of `counts` processes that could not be started, of which the root alone is told.
///
/// # Safety
/// `errcodes` is a null pointer, or leads to as many numbers.
unsafe fn translate_errors(errcodes: *mut c_int, counts: impl Iterator<Item = c_int>) {
    if !errcodes.is_null() {
        let counts = counts.map(|count| usize::try_from(count).unwrap_or(0));
        // SAFETY: as above.
        (0..counts.sum()).for_each(|index| unsafe { set(errcodes.add(index), standard_code) });
    }
}

/// Whether the caller is `root` of `comm`, MPICH's handle: the others' arrays need not be there.
fn is_root(comm: c_int, root: c_int) -> bool {
    let ask = call!(nearmpi_rank: fn(c_int) -> c_int);
    // SAFETY: it takes any number.
    unsafe { ask(comm) == root }
}

#[apply(translation!)]
pub unsafe extern "C" fn MPI_Comm_spawn(
    command: *const c_char,
    argv: Pointer,
    maxprocs: c_int,
    info: Handle,
    root: c_int,
    comm: Handle,
    intercomm: *mut Handle,
    array_of_errcodes: *mut c_int,
) -> c_int {
    let (mut intercomm, comm) = (Slot::empty(intercomm), mpich(comm));
    let spawn =
        call!(MPI_Comm_spawn: fn(*const c_char, Pointer, c_int, c_int, c_int, c_int, *mut c_int, *mut c_int) -> c_int);
    let (info, place) = (mpich(info), intercomm.pointer());
    let code = spawn(command, argv, maxprocs, info, root, comm, place, array_of_errcodes);
    intercomm.give(standard);
    if code != 0 && is_root(comm, root) {
        translate_errors(array_of_errcodes, std::iter::once(maxprocs));
    }
    standard_code(code)
}

#[apply(translation!)]
pub unsafe extern "C" fn MPI_Comm_spawn_multiple(
    count: c_int,
    array_of_commands: Pointer,
    array_of_argv: Pointer,
    array_of_maxprocs: *const c_int,
    array_of_info: *mut Handle,
    root: c_int,
    comm: Handle,
    intercomm: *mut Handle,
    array_of_errcodes: *mut c_int,
) -> c_int {
    let (mut intercomm, comm) = (Slot::empty(intercomm), mpich(comm));
    let own_count = if is_root(comm, root) {
        usize::try_from(count).unwrap_or(0)
    } else {
        0
    };
    let mut infos = Handles::read(array_of_info, own_count);
    let spawn = call!(MPI_Comm_spawn_multiple: fn(
        c_int, Pointer, Pointer, *const c_int, *mut c_int, c_int, c_int, *mut c_int, *mut c_int
    ) -> c_int);
    let code = spawn(
        count,
        array_of_commands,
        array_of_argv,
        array_of_maxprocs,
        infos.pointer(),
        root,
        comm,
        intercomm.pointer(),
        array_of_errcodes,
    );
    intercomm.give(standard);
    if code != 0 && !array_of_maxprocs.is_null() {
        translate_errors(
            array_of_errcodes,
            (0..own_count).map(|index| *array_of_maxprocs.add(index)),
        );
    }
    standard_code(code)
}

// What a rank in another group is, and buffers.

#[apply(translation!)]
pub unsafe extern "C" fn MPI_Group_translate_ranks(
    group1: Handle,
    n: c_int,
    ranks1: *const c_int,
    group2: Handle,
    ranks2: *mut c_int,
) -> c_int {
    let translate = call!(MPI_Group_translate_ranks: fn(c_int, c_int, *const c_int, c_int, *mut c_int) -> c_int);
    let count = if ranks1.is_null() {
        0
    } else {
        usize::try_from(n).unwrap_or(0)
    };
    let own: Vec<c_int> = (0..count).map(|index| mpich_rank(*ranks1.add(index))).collect();
    let ranks1 = if ranks1.is_null() { ranks1 } else { own.as_ptr() };
    let code = translate(mpich(group1), n, ranks1, mpich(group2), ranks2);
    if code == 0 {
        (0..count).for_each(|index| set(ranks2.add(index), standard_rank));
    }
    standard_code(code)
}

/// Makes the functions that give a buffer back; `$object` is what it was attached to.
macro_rules! detach {
    ($($name:ident($($object:ident)?), $size:ty;)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $name($($object: Handle,)? buffer_addr: *mut Pointer, size: *mut $size) -> c_int {
            let detach = call!($name: fn($(detach!(@ $object),)? *mut Pointer, *mut $size) -> c_int);
            let code = detach($(mpich($object),)? buffer_addr, size);
            if code == 0 && (*buffer_addr).addr() == usize::MAX - 1 {
                *buffer_addr = std::ptr::without_provenance_mut(number::MPI_BUFFER_AUTOMATIC);
            }
            standard_code(code)
        }
    )*};
    (@ $object:ident) => { c_int };
}
detach! {
    MPI_Buffer_detach(), c_int;
    MPI_Buffer_detach_c(), i64;
    MPI_Comm_detach_buffer(comm), c_int;
    MPI_Comm_detach_buffer_c(comm), i64;
    MPI_Session_detach_buffer(session), c_int;
    MPI_Session_detach_buffer_c(session), i64;
}
