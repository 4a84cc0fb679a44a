//! # Safety
//! Calls copy and delete functions of the application: relies on them having the types that the
//! standard gives them, and on `attribute_val` pointing to a pointer.
//!
//! Attributes and their keys (MPI-4.1 §7.7), with the entry points that MPICH's Fortran and C++
//! libraries call.
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::errhandler::errors;
use super::group::out;
use super::types::*;
use crate::fail;
use crate::mpi::attr::{
    Attribute, Attributes, CopyFunction, CopyProxy, DeleteFunction, DeleteProxy, Form, Keyval, Owner,
};
use crate::mpi::world::State;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::atomic::{AtomicI32, Ordering};

/// Predefined communicator attributes have the keys `FIRST + 2 * row`, and `+ 1` for Fortran's view:
/// TAG_UB, HOST, IO, WTIME_IS_GLOBAL, UNIVERSE_SIZE, LASTUSEDCODE, APPNUM.
const FIRST: c_int = MPI_TAG_UB;
/// Where C reads their values; each is filled in when it is asked for.
static PREDEFINED: [AtomicI32; 7] = [const { AtomicI32::new(0) }; 7];

/// The value of a predefined attribute, if `keyval` is the key of one and there is a value.
fn predefined(state: &State, row: usize) -> Option<c_int> {
    let value = match row {
        0 => Some(c_int::MAX),
        1 => Some(MPI_PROC_NULL),
        2 => Some(MPI_ANY_SOURCE),
        3 => Some(1),
        4 => Some(state.job.universe).filter(|&universe| universe >= 0),
        5 => Some(errors().last_used().unwrap_or(MPI_ERR_LASTCODE)),
        _ => Some(state.job.appnum).filter(|&appnum| appnum >= 0),
    };
    PREDEFINED[row].store(value.unwrap_or_default(), Ordering::Relaxed);
    value
}

/// Copies to `to` what of `from` wants to be copied with the object `handle`. Runs call-backs with the
/// state released.
///
/// # Errors
/// What a call-back returned.
pub fn copy_all(hold: &mut Hold, handle: c_int, from: &Attributes, to: &Attributes) -> Result<()> {
    for attribute in from.to_vec() {
        let keyval = attribute.keyval.clone();
        let Some(copy) = keyval.copy else { continue };
        let (mut value, mut flag) = (null_mut(), 0);
        let (value_out, flag_out) = (&raw mut value, &raw mut flag);
        let (extra, key, proxies) = (keyval.extra_state, keyval.handle, keyval.proxies.get());
        let (form, given) = (attribute.form as c_int, attribute.value.get() as *mut c_void);
        let for_c = attribute.read(Form::Pointer) as *mut c_void;
        // SAFETY: the program's function of this type, called with the arguments the standard says;
        // the state is released, and no reference into it is used.
        let code = hold.released(|| unsafe {
            match proxies {
                Some((proxy, _)) => proxy(Some(copy), handle, key, extra, form, given, value_out, flag_out),
                None => copy(handle, key, extra, for_c, value_out.cast(), flag_out),
            }
        });
        if code != MPI_SUCCESS {
            let text = format!("the copy function of attribute key {key:#x} returned error {code}");
            return Err(Error::returned(code, text));
        }
        if flag != 0 {
            to.set(Attribute::new(keyval, attribute.form, value as usize));
        }
    }
    Ok(())
}

/// Tells the delete call-back about a value of the object `handle`.
fn tell_deleted(hold: &mut Hold, handle: c_int, attribute: &Attribute) -> Result<()> {
    let keyval = &attribute.keyval;
    let Some(delete) = keyval.delete else { return Ok(()) };
    let (extra, key, proxies) = (keyval.extra_state, keyval.handle, keyval.proxies.get());
    let (form, given) = (attribute.form as c_int, attribute.value.get() as *mut c_void);
    let for_c = attribute.read(Form::Pointer) as *mut c_void;
    // SAFETY: as in `copy_all`.
    let code = hold.released(|| unsafe {
        match proxies {
            Some((_, proxy)) => proxy(Some(delete), handle, key, form, given, extra),
            None => delete(handle, key, for_c, extra),
        }
    });
    if code != MPI_SUCCESS {
        let text = format!("the delete function of attribute key {key:#x} returned error {code}");
        return Err(Error::returned(code, text));
    }
    Ok(())
}

/// Deletes every attribute of an object that goes, the last set first. Runs call-backs with the state
/// released.
///
/// # Errors
/// What the first call-back returned that failed. The others are called all the same, and nothing stays, as in MPICH: so what goes can be
/// freed the next time.
pub fn delete_all(hold: &mut Hold, handle: c_int, attributes: &Attributes) -> Result<()> {
    let mut told = Ok(());
    while let Some(attribute) = attributes.last() {
        told = told.and(tell_deleted(hold, handle, &attribute));
        attributes.remove(&attribute.keyval);
        let_go(hold, attribute.keyval);
    }
    told
}

/// Forgets a key that the program has freed and that has no more values.
fn let_go(hold: &mut Hold, keyval: Rc<Keyval>) {
    // The table has it as well.
    if keyval.freed.get() && Rc::strong_count(&keyval) <= 2 {
        let key = Object::Keyval.key(keyval.handle);
        key.ok().and_then(|key| hold.keyvals.remove(key));
    }
}

/// What MPI_Finalize does first: as if MPI_COMM_SELF were freed, then MPI_COMM_WORLD (MPI-4.1 §11.2.4).
///
/// # Errors
/// As [`delete_all`].
pub fn delete_predefined(hold: &mut Hold) -> Result<()> {
    let (own, world) = (hold.own.clone(), hold.world.clone());
    let deleted = delete_all(hold, MPI_COMM_SELF, &own.attributes);
    deleted.and(delete_all(hold, MPI_COMM_WORLD, &world.attributes))
}

/// The key `handle` names, which must be for objects of kind `owner`.
pub(super) fn keyval(state: &State, handle: c_int, owner: Owner) -> Result<Rc<Keyval>> {
    let key = Object::Keyval.key(handle)?;
    let keyval = Object::Keyval.alive(handle, state.keyvals.get(key))?;
    if keyval.owner != owner {
        let found = keyval.owner;
        fail!(
            Keyval,
            "attribute key {handle:#x} is for a {found:?}, not for a {owner:?}"
        );
    }
    Ok(keyval.clone())
}

pub(super) fn create(
    name: &'static str,
    owner: Owner,
    copy: Option<CopyFunction>,
    delete: Option<DeleteFunction>,
    new: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    on_world(name, |hold| {
        let out = out(new, "keyval")?;
        let keyval = |handle| {
            Rc::new(Keyval {
                handle,
                owner,
                copy,
                delete,
                extra_state,
                proxies: Cell::new(None),
                freed: Cell::new(false),
            })
        };
        let key = hold.keyvals.insert(keyval(0));
        let handle = Object::Keyval.made(key)?;
        if let Some(place) = key.and_then(|key| hold.keyvals.get_mut(key)) {
            *place = keyval(handle);
        }
        *out = handle;
        Ok(())
    })
}

pub(super) fn free(name: &'static str, owner: Owner, handle: *mut c_int) -> c_int {
    on_world(name, |hold| {
        let handle = out(handle, "keyval")?;
        let keyval = keyval(hold, *handle, owner)?;
        keyval.freed.set(true);
        let_go(hold, keyval);
        *handle = MPI_KEYVAL_INVALID;
        Ok(())
    })
}

/// Sets a value under a key, telling the delete call-back about the one before.
pub(super) fn set(
    hold: &mut Hold,
    handle: c_int,
    attributes: &Attributes,
    keyval: Rc<Keyval>,
    value: *mut c_void,
    form: c_int,
) -> Result<()> {
    let form = Form::new(form)?;
    if let Some(old) = attributes.get(&keyval) {
        tell_deleted(hold, handle, &old)?;
    }
    attributes.set(Attribute::new(keyval, form, value as usize));
    Ok(())
}

pub(super) fn get(
    attributes: &Attributes,
    keyval: &Rc<Keyval>,
    attribute_val: *mut c_void,
    flag: *mut c_int,
    form: c_int,
) -> Result<()> {
    let form = Form::new(form)?;
    let (flag, value) = (out(flag, "flag")?, out(attribute_val.cast::<usize>(), "attribute_val")?);
    let found = attributes.get(keyval);
    *flag = found.is_some().into();
    if let Some(found) = found {
        *value = found.read(form);
    }
    Ok(())
}

pub(super) fn delete(hold: &mut Hold, handle: c_int, attributes: &Attributes, keyval: Rc<Keyval>) -> Result<()> {
    if let Some(old) = attributes.get(&keyval) {
        tell_deleted(hold, handle, &old)?;
        attributes.remove(&keyval);
    }
    let_go(hold, keyval);
    Ok(())
}

/// Reads an attribute of a communicator. `values` asks for predefined ones as values, not by address.
fn comm_get(
    name: &'static str,
    handle: MPI_Comm,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
    form: c_int,
    values: bool,
) -> c_int {
    on_comm(name, handle, |hold, comm| {
        let row = (comm_keyval.wrapping_sub(FIRST) as u32 / 2) as usize;
        if row >= PREDEFINED.len() {
            let keyval = keyval(hold, comm_keyval, Owner::Comm)?;
            return get(&comm.attributes, &keyval, attribute_val, flag, form);
        }
        let (flag, out) = (out(flag, "flag")?, out(attribute_val.cast::<usize>(), "attribute_val")?);
        let value = predefined(hold, row);
        *flag = value.is_some().into();
        if let Some(value) = value {
            *out = match values || (comm_keyval - FIRST) % 2 == 1 {
                true => value as isize as usize,
                false => PREDEFINED[row].as_ptr() as usize,
            };
        }
        Ok(())
    })
}

fn comm_set(
    name: &'static str,
    handle: MPI_Comm,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
    form: c_int,
) -> c_int {
    on_comm(name, handle, |hold, comm| {
        let keyval = keyval(hold, comm_keyval, Owner::Comm)?;
        set(hold, handle, &comm.attributes, keyval, attribute_val, form)
    })
}

fn comm_delete(name: &'static str, handle: MPI_Comm, comm_keyval: c_int) -> c_int {
    on_comm(name, handle, |hold, comm| {
        let keyval = keyval(hold, comm_keyval, Owner::Comm)?;
        delete(hold, handle, &comm.attributes, keyval)
    })
}

/// A key for attributes of communicators. MPI-4.1 §7.7.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_create_keyval(
    comm_copy_attr_fn: MPI_Comm_copy_attr_function,
    comm_delete_attr_fn: MPI_Comm_delete_attr_function,
    comm_keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    let name = "MPI_Comm_create_keyval";
    create(
        name,
        Owner::Comm,
        comm_copy_attr_fn,
        comm_delete_attr_fn,
        comm_keyval,
        extra_state,
    )
}

/// Frees a key; values under it stay until their objects go. MPI-4.1 §7.7.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_free_keyval(comm_keyval: *mut c_int) -> c_int {
    free("MPI_Comm_free_keyval", Owner::Comm, comm_keyval)
}

/// Sets a value under a key. MPI-4.1 §7.7.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_set_attr(comm: MPI_Comm, comm_keyval: c_int, attribute_val: *mut c_void) -> c_int {
    comm_set(
        "MPI_Comm_set_attr",
        comm,
        comm_keyval,
        attribute_val,
        Form::Pointer as c_int,
    )
}

/// The value under a key. MPI-4.1 §7.7.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_get_attr(
    comm: MPI_Comm,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    let form = Form::Pointer as c_int;
    comm_get("MPI_Comm_get_attr", comm, comm_keyval, attribute_val, flag, form, false)
}

/// Deletes the value under a key. MPI-4.1 §7.7.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_delete_attr(comm: MPI_Comm, comm_keyval: c_int) -> c_int {
    comm_delete("MPI_Comm_delete_attr", comm, comm_keyval)
}

/// Old name of [`MPI_Comm_create_keyval`].
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Keyval_create(
    copy_fn: MPI_Copy_function,
    delete_fn: MPI_Delete_function,
    keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    create(
        "MPI_Keyval_create",
        Owner::Comm,
        copy_fn,
        delete_fn,
        keyval,
        extra_state,
    )
}

/// Old name of [`MPI_Comm_free_keyval`].
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Keyval_free(keyval: *mut c_int) -> c_int {
    free("MPI_Keyval_free", Owner::Comm, keyval)
}

/// Old name of [`MPI_Comm_set_attr`].
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Attr_put(comm: MPI_Comm, keyval: c_int, attribute_val: *mut c_void) -> c_int {
    comm_set("MPI_Attr_put", comm, keyval, attribute_val, Form::Pointer as c_int)
}

/// Old name of [`MPI_Comm_get_attr`].
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Attr_get(
    comm: MPI_Comm,
    keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    let form = Form::Pointer as c_int;
    comm_get("MPI_Attr_get", comm, keyval, attribute_val, flag, form, false)
}

/// Old name of [`MPI_Comm_delete_attr`].
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Attr_delete(comm: MPI_Comm, keyval: c_int) -> c_int {
    comm_delete("MPI_Attr_delete", comm, keyval)
}

/// A key for attributes of datatypes. MPI-4.1 §7.7.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_create_keyval(
    type_copy_attr_fn: MPI_Type_copy_attr_function,
    type_delete_attr_fn: MPI_Type_delete_attr_function,
    type_keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    let name = "MPI_Type_create_keyval";
    create(
        name,
        Owner::Datatype,
        type_copy_attr_fn,
        type_delete_attr_fn,
        type_keyval,
        extra_state,
    )
}

/// Frees a key of datatypes. MPI-4.1 §7.7.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_free_keyval(type_keyval: *mut c_int) -> c_int {
    free("MPI_Type_free_keyval", Owner::Datatype, type_keyval)
}

/// Sets a value under a key. MPI-4.1 §7.7.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_set_attr(
    datatype: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: *mut c_void,
) -> c_int {
    type_set(
        "MPI_Type_set_attr",
        datatype,
        type_keyval,
        attribute_val,
        Form::Pointer as c_int,
    )
}

fn type_set(
    name: &'static str,
    handle: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: *mut c_void,
    form: c_int,
) -> c_int {
    on_world(name, |hold| {
        let datatype = hold.datatypes.get(handle)?.clone();
        let keyval = keyval(hold, type_keyval, Owner::Datatype)?;
        set(hold, handle, datatype.attributes(), keyval, attribute_val, form)
    })
}

/// The value under a key. MPI-4.1 §7.7.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_get_attr(
    datatype: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    let form = Form::Pointer as c_int;
    type_get("MPI_Type_get_attr", datatype, type_keyval, attribute_val, flag, form)
}

fn type_get(
    name: &'static str,
    handle: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
    form: c_int,
) -> c_int {
    on_world(name, |hold| {
        let datatype = hold.datatypes.get(handle)?.clone();
        let keyval = keyval(hold, type_keyval, Owner::Datatype)?;
        get(datatype.attributes(), &keyval, attribute_val, flag, form)
    })
}

/// Deletes the value under a key. MPI-4.1 §7.7.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Type_delete_attr(datatype: MPI_Datatype, type_keyval: c_int) -> c_int {
    on_world("MPI_Type_delete_attr", |hold| {
        let object = hold.datatypes.get(datatype)?.clone();
        let keyval = keyval(hold, type_keyval, Owner::Datatype)?;
        delete(hold, datatype, object.attributes(), keyval)
    })
}

/// For Fortran libraries: [`MPI_Comm_set_attr`] of a value in the form `attr_type`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPII_Comm_set_attr(
    comm: MPI_Comm,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
    attr_type: c_int,
) -> c_int {
    comm_set("MPI_Comm_set_attr", comm, comm_keyval, attribute_val, attr_type)
}

/// For Fortran libraries: [`MPI_Comm_get_attr`] in the form `attr_type`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPII_Comm_get_attr(
    comm: MPI_Comm,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
    attr_type: c_int,
) -> c_int {
    comm_get(
        "MPI_Comm_get_attr",
        comm,
        comm_keyval,
        attribute_val,
        flag,
        attr_type,
        false,
    )
}

/// For Fortran libraries that know C's predefined keys: as [`MPII_Comm_get_attr`], predefined
/// attributes by value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPII_Comm_get_attr_fort(
    comm: MPI_Comm,
    comm_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
    attr_type: c_int,
) -> c_int {
    comm_get(
        "MPI_Comm_get_attr",
        comm,
        comm_keyval,
        attribute_val,
        flag,
        attr_type,
        true,
    )
}

/// For Fortran libraries: [`MPI_Type_set_attr`] of a value in the form `attr_type`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPII_Type_set_attr(
    datatype: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: *mut c_void,
    attr_type: c_int,
) -> c_int {
    type_set("MPI_Type_set_attr", datatype, type_keyval, attribute_val, attr_type)
}

/// For Fortran libraries: [`MPI_Type_get_attr`] in the form `attr_type`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPII_Type_get_attr(
    datatype: MPI_Datatype,
    type_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
    attr_type: c_int,
) -> c_int {
    type_get(
        "MPI_Type_get_attr",
        datatype,
        type_keyval,
        attribute_val,
        flag,
        attr_type,
    )
}

/// For Fortran and C++ libraries: call-backs of `keyval` are called through these.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPII_Keyval_set_proxy(
    keyval: c_int,
    copy_proxy: Option<CopyProxy>,
    delete_proxy: Option<DeleteProxy>,
) {
    let Some(world) = current_world() else { return };
    let hold = world.hold();
    let found = Object::Keyval.key(keyval).ok().and_then(|key| hold.keyvals.get(key));
    if let Some(found) = found {
        found.proxies.set(copy_proxy.zip(delete_proxy));
    }
}
