//! Functions whose parameters do not say alone how they are translated.

use crate::arrays::Handles;
use crate::status::{MpichStatus, Status, StatusSlot};
use crate::values::*;
use crate::{Pointer, apply, call, translation};
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

// What this library is.

#[apply(translation!)]
pub unsafe extern "C" fn MPI_Get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    let result = call!(MPI_Get_version: fn(*mut c_int, *mut c_int) -> c_int)(version, subversion);
    if result == 0 {
        (*version, *subversion) = (5, 0);
    }
    standard_code(result)
}

#[apply(translation!)]
pub unsafe extern "C" fn MPI_Abi_get_version(abi_major: *mut c_int, abi_minor: *mut c_int) -> c_int {
    let result = call!(MPI_Abi_get_version: fn(*mut c_int, *mut c_int) -> c_int)(abi_major, abi_minor);
    if result == 0 {
        (*abi_major, *abi_minor) = (1, 0);
    }
    standard_code(result)
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
    let result = open(mpich(comm), filename, mpich_modes(amode), mpich(info), fh);
    if result == 0 {
        *fh = standard_file(*fh);
    }
    standard_code(result)
}

#[apply(translation!)]
pub unsafe extern "C" fn MPI_File_close(fh: *mut Pointer) -> c_int {
    let mut own = if fh.is_null() { null_mut() } else { mpich_file(*fh) };
    let result = call!(MPI_File_close: fn(*mut Pointer) -> c_int)(if fh.is_null() { fh } else { &raw mut own });
    if !fh.is_null() {
        *fh = standard_file(own);
    }
    standard_code(result)
}

// Statuses that the program fills in.

/// Makes the functions that set what a status says of the bytes.
macro_rules! fill {
    ($($name:ident($($parameter:ident: $taken:ty => $given:ty = $argument:expr),*);)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $name(status: *mut Status, $($parameter: $taken),*) -> c_int {
            let mut status = StatusSlot::full(status);
            let fill = call!($name: fn(*mut MpichStatus, $($given),*) -> c_int);
            let result = fill(status.required(), $($argument),*);
            status.give();
            standard_code(result)
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
}

#[apply(translation!)]
pub unsafe extern "C" fn MPI_Status_set_error(status: *mut Status, error: c_int) -> c_int {
    let mut own = StatusSlot::full(status);
    let result = call!(MPI_Status_set_error: fn(*mut MpichStatus, c_int) -> c_int)(own.required(), mpich_code(error));
    if result == 0 {
        (*status).error = error;
    }
    standard_code(result)
}

// Attributes that are there from the start, some of which are numbers that mean something.

/// Makes the functions that read an attribute: `$pairs` are the numbers of each such key.
macro_rules! attributes {
    ($($name:ident: $($key:literal => $pairs:expr),*;)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $name(object: Handle, keyval: c_int, attribute_val: *mut *const c_int, flag: *mut c_int) -> c_int {
            let get = call!($name: fn(c_int, c_int, *mut *const c_int, *mut c_int) -> c_int);
            let result = get(mpich(object), KEYVALS.mpich(keyval), attribute_val, flag);
            if result == 0 && *flag != 0 {
                let pairs: Pairs = match keyval {
                    $($key => $pairs,)*
                    _ => &[],
                };
                if let Some(pair) = pairs.iter().find(|pair| pair.1 == **attribute_val) {
                    *attribute_val = &raw const pair.0;
                }
            }
            standard_code(result)
        }
    )*};
}

/// `MPI_ANY_SOURCE` and `MPI_PROC_NULL`.
static RANKS: Pairs = &[(-1, -2), (-3, -1)];
attributes! {
    MPI_Comm_get_attr: 502 => RANKS, 503 => RANKS;
    MPI_Attr_get: 502 => RANKS, 503 => RANKS;
    MPI_Win_get_attr: 604 => FLAVORS, 605 => MODELS;
}

// What datatypes are made of.

/// Both widths: large counts stand apart from the other integers, if there are any.
macro_rules! darrays {
    ($($name:ident)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $name(
            size: c_int, rank: c_int, ndims: c_int, array_of_gsizes: Pointer, array_of_distribs: *const c_int,
            array_of_dargs: *const c_int, array_of_psizes: Pointer, order: c_int, oldtype: Handle, newtype: *mut Handle,
        ) -> c_int {
            let distributions = |at: *const c_int| -> Vec<c_int> {
                let count = if at.is_null() { 0 } else { usize::try_from(ndims).unwrap_or(0) };
                (0..count).map(|index| DISTRIBUTIONS.mpich(*at.add(index))).collect()
            };
            let (distribs, dargs) = (distributions(array_of_distribs), distributions(array_of_dargs));
            let pointer = |own: &[c_int], at: *const c_int| if at.is_null() { at } else { own.as_ptr() };
            let mut newtype = Slot::empty(newtype, standard);
            let create = call!($name: fn(
                c_int, c_int, c_int, Pointer, *const c_int, *const c_int, Pointer, c_int, c_int, *mut c_int
            ) -> c_int);
            let (distribs, dargs) = (pointer(&distribs, array_of_distribs), pointer(&dargs, array_of_dargs));
            let (order, oldtype) = (ORDERS.mpich(order), mpich(oldtype));
            let result = create(
                size, rank, ndims, array_of_gsizes, distribs, dargs, array_of_psizes, order, oldtype, newtype.pointer(),
            );
            newtype.give();
            standard_code(result)
        }
    )*};
}
darrays! { MPI_Type_create_darray MPI_Type_create_darray_c }

/// Translates what a datatype was made with.
///
/// # Safety
/// `integers` are those of a datatype of that combiner.
unsafe fn contents(combiner: c_int, integers: &mut [c_int], has_large_counts: bool) {
    const SUBARRAY: c_int = 111;
    const DARRAY: c_int = 112;
    match COMBINERS.standard(combiner) {
        SUBARRAY | DARRAY => {
            if COMBINERS.standard(combiner) == DARRAY && integers.len() > 3 {
                // The size, the rank, the number of dimensions, their sizes if they are not large counts; distributions and their arguments.
                let dimensions = usize::try_from(integers[2]).unwrap_or(0);
                let first = 3 + if has_large_counts { 0 } else { dimensions };
                for value in integers.iter_mut().skip(first).take(2 * dimensions) {
                    *value = DISTRIBUTIONS.standard(*value);
                }
            }
            if let Some(order) = integers.last_mut() {
                *order = ORDERS.standard(*order);
            }
        }
        _ => {}
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
    let get = call!(MPI_Type_get_contents: fn(c_int, c_int, c_int, c_int, *mut c_int, Pointer, *mut c_int) -> c_int);
    let (mut ni, mut na, mut nd, mut combiner) = (0, 0, 0, 0);
    let ask = call!(MPI_Type_get_envelope: fn(c_int, *mut c_int, *mut c_int, *mut c_int, *mut c_int) -> c_int);
    let datatype = mpich(datatype);
    let mut own = vec![0; usize::try_from(max_datatypes).unwrap_or(0)];
    let place = if array_of_datatypes.is_null() {
        null_mut()
    } else {
        own.as_mut_ptr()
    };
    let result = get(
        datatype,
        max_integers,
        max_addresses,
        max_datatypes,
        array_of_integers,
        array_of_addresses,
        place,
    );
    if result == 0 && ask(datatype, &raw mut ni, &raw mut na, &raw mut nd, &raw mut combiner) == 0 {
        if ni > 0 {
            contents(
                combiner,
                std::slice::from_raw_parts_mut(array_of_integers, ni as usize),
                false,
            );
        }
        (0..nd as usize).for_each(|index| *array_of_datatypes.add(index) = standard(own[index]));
    }
    standard_code(result)
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
    let get = call!(MPI_Type_get_contents_c: fn(c_int, i64, i64, i64, i64, *mut c_int, Pointer, Pointer, *mut c_int) -> c_int);
    let (mut ni, mut na, mut nl, mut nd, mut combiner) = (0i64, 0i64, 0i64, 0i64, 0);
    let ask = call!(MPI_Type_get_envelope_c: fn(c_int, *mut i64, *mut i64, *mut i64, *mut i64, *mut c_int) -> c_int);
    let datatype = mpich(datatype);
    let mut own = vec![0; usize::try_from(max_datatypes).unwrap_or(0)];
    let place = if array_of_datatypes.is_null() {
        null_mut()
    } else {
        own.as_mut_ptr()
    };
    let result = get(
        datatype,
        max_integers,
        max_addresses,
        max_large_counts,
        max_datatypes,
        array_of_integers,
        array_of_addresses,
        array_of_large_counts,
        place,
    );
    if result == 0
        && ask(
            datatype,
            &raw mut ni,
            &raw mut na,
            &raw mut nl,
            &raw mut nd,
            &raw mut combiner,
        ) == 0
    {
        if ni > 0 {
            contents(
                combiner,
                std::slice::from_raw_parts_mut(array_of_integers, ni as usize),
                nl > 0,
            );
        }
        (0..nd as usize).for_each(|index| *array_of_datatypes.add(index) = standard(own[index]));
    }
    standard_code(result)
}

// What is started.

/// Translates the errors of processes that could not be started, of which the root alone is told.
///
/// # Safety
/// `errcodes` is a null pointer, or leads to as many numbers at the root.
unsafe fn errors(
    result: c_int,
    (comm, root): (c_int, c_int),
    errcodes: *mut c_int,
    count: impl Iterator<Item = c_int>,
) {
    let mut rank = 0;
    let ask = call!(MPI_Comm_rank: fn(c_int, *mut c_int) -> c_int);
    // SAFETY: as above.
    unsafe {
        if result != 0 && !errcodes.is_null() && ask(comm, &raw mut rank) == 0 && rank == root {
            for index in 0..count.map(|count| usize::try_from(count).unwrap_or(0)).sum() {
                set(errcodes.add(index), standard_code);
            }
        }
    }
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
    let (mut intercomm, comm) = (Slot::empty(intercomm, standard), mpich(comm));
    let spawn =
        call!(MPI_Comm_spawn: fn(*const c_char, Pointer, c_int, c_int, c_int, c_int, *mut c_int, *mut c_int) -> c_int);
    let result = spawn(
        command,
        argv,
        maxprocs,
        mpich(info),
        root,
        comm,
        intercomm.pointer(),
        array_of_errcodes,
    );
    intercomm.give();
    errors(result, (comm, root), array_of_errcodes, std::iter::once(maxprocs));
    standard_code(result)
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
    let (mut intercomm, comm) = (Slot::empty(intercomm, standard), mpich(comm));
    let mut rank = 0;
    call!(MPI_Comm_rank: fn(c_int, *mut c_int) -> c_int)(comm, &raw mut rank);
    // The others' arrays need not be there.
    let mut infos = Handles::read(array_of_info, if rank == root { count } else { 0 });
    let spawn = call!(MPI_Comm_spawn_multiple: fn(
        c_int, Pointer, Pointer, *const c_int, *mut c_int, c_int, c_int, *mut c_int, *mut c_int
    ) -> c_int);
    let result = spawn(
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
    intercomm.give();
    let count = if rank == root && !array_of_maxprocs.is_null() {
        usize::try_from(count).unwrap_or(0)
    } else {
        0
    };
    errors(
        result,
        (comm, root),
        array_of_errcodes,
        (0..count).map(|index| *array_of_maxprocs.add(index)),
    );
    standard_code(result)
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
    let result = translate(mpich(group1), n, ranks1, mpich(group2), ranks2);
    if result == 0 {
        (0..count).for_each(|index| set(ranks2.add(index), standard_rank));
    }
    standard_code(result)
}

/// Makes the functions that give a buffer back; `$object` is what it was attached to.
macro_rules! detach {
    ($($name:ident($($object:ident)?), $size:ty;)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $name($($object: Handle,)? buffer_addr: *mut Pointer, size: *mut $size) -> c_int {
            let detach = call!($name: fn($(detach!(@ $object),)? *mut Pointer, *mut $size) -> c_int);
            let result = detach($(mpich($object),)? buffer_addr, size);
            if result == 0 && (*buffer_addr).addr() == usize::MAX - 1 {
                *buffer_addr = std::ptr::without_provenance_mut(BUFFER_AUTOMATIC);
            }
            standard_code(result)
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

// Variables of tools, which may belong to an object.

/// The object of a variable that is bound to `bind`, MPICH's, in `own`'s place.
///
/// # Safety
/// `object` leads to a handle if there is such an object.
unsafe fn bound(bind: c_int, object: *mut Handle, own: &mut c_int) -> Pointer {
    const NO_OBJECT: c_int = 1;
    const FILE: c_int = 5;
    match TOOL_BINDS.standard(bind) {
        NO_OBJECT | FILE => object.cast(),
        _ if object.is_null() => null_mut(),
        _ => {
            // SAFETY: as above.
            *own = mpich(unsafe { *object });
            (&raw mut *own).cast()
        }
    }
}

#[apply(translation!)]
pub unsafe extern "C" fn MPI_T_pvar_handle_alloc(
    session: Pointer,
    pvar_index: c_int,
    obj_handle: *mut Handle,
    handle: Pointer,
    count: *mut c_int,
) -> c_int {
    let (mut bind, mut own) = (0, 0);
    let info = call!(MPI_T_pvar_get_info: fn(
        c_int, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, *mut c_int, Pointer, Pointer, Pointer
    ) -> c_int);
    let no = null_mut();
    info(pvar_index, no, no, no, no, no, no, no, no, &raw mut bind, no, no, no);
    let object = bound(bind, obj_handle, &mut own);
    let alloc = call!(MPI_T_pvar_handle_alloc: fn(Pointer, c_int, Pointer, Pointer, *mut c_int) -> c_int);
    standard_code(alloc(session, pvar_index, object, handle, count))
}

#[apply(translation!)]
pub unsafe extern "C" fn MPI_T_cvar_handle_alloc(
    cvar_index: c_int,
    obj_handle: *mut Handle,
    handle: Pointer,
    count: *mut c_int,
) -> c_int {
    let (mut bind, mut own) = (0, 0);
    let info = call!(MPI_T_cvar_get_info: fn(
        c_int, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, Pointer, *mut c_int, Pointer
    ) -> c_int);
    let no = null_mut();
    info(cvar_index, no, no, no, no, no, no, no, &raw mut bind, no);
    let object = bound(bind, obj_handle, &mut own);
    let alloc = call!(MPI_T_cvar_handle_alloc: fn(c_int, Pointer, Pointer, *mut c_int) -> c_int);
    standard_code(alloc(cvar_index, object, handle, count))
}
