//! # Safety
//! Stores results through pointers of the application and fills its strings.
//!
//! The tools interface (MPI-4.1 §15.3): what all of it uses, and control variables, those of [`cvar::TABLE`].
//! There are no enumerations and no events. Nothing here calls an error handler.
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::{apply, current_world};
use super::tool_pvars::Session;
use super::types::*;
use crate::sys::cvar::{self, Settings};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What tools have opened.
pub(super) struct Tools {
    /// Calls of MPI_T_init_thread without their MPI_T_finalize.
    users: u32,
    pub(super) next: usize,
    /// Handles of control variables: the variable of each.
    cvars: BTreeMap<usize, usize>,
    /// Sessions, by number.
    pub(super) sessions: BTreeMap<usize, Session>,
}

static TOOLS: Mutex<Tools> = Mutex::new(Tools {
    users: 0,
    next: 1,
    cvars: BTreeMap::new(),
    sessions: BTreeMap::new(),
});

/// An error code of the interface.
pub(super) type Code = c_int;

pub(super) fn tools() -> MutexGuard<'static, Tools> {
    TOOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `body` if the interface is initialized.
pub(super) fn on_tools(body: impl FnOnce(&mut Tools) -> Result<(), Code>) -> c_int {
    let mut tools = tools();
    if tools.users == 0 {
        return MPI_T_ERR_NOT_INITIALIZED;
    }
    body(&mut tools).err().unwrap_or(MPI_SUCCESS)
}

impl Tools {
    /// A number that no handle has had.
    pub(super) fn number(&mut self) -> usize {
        self.next += 1;
        self.next - 1
    }
}

/// Name and meaning of each category; the first has the counters and all control variables, the
/// second the lengths of queues.
pub(super) const CATEGORIES: [(&str, &str); 2] = [
    (
        "nearmpi_transport",
        "how messages travel between the ranks of the machine",
    ),
    (
        "nearmpi_matching",
        "queues in which messages and receives wait for each other",
    ),
];

/// The control variables of a category.
pub(super) fn cvars_of(category: usize) -> Vec<c_int> {
    match category {
        0 => (0..cvar::TABLE.len() as c_int).collect(),
        _ => Vec::new(),
    }
}

/// Entry `index` of a table.
pub(super) fn row<T>(table: &'static [T], index: c_int) -> Result<(usize, &'static T), Code> {
    let found = usize::try_from(index).ok().and_then(|at| Some((at, table.get(at)?)));
    found.ok_or(MPI_T_ERR_INVALID_INDEX)
}

/// Stores an output the tool may leave out.
pub(super) fn put<T>(out: *mut T, value: T) {
    if !out.is_null() {
        // SAFETY: not NULL, hence the tool's variable.
        unsafe { out.write(value) };
    }
}

/// Stores an output that must be there.
pub(super) fn give<T>(out: *mut T, value: T) -> Result<(), Code> {
    if out.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    put(out, value);
    Ok(())
}

/// The number behind the handle that a call is to close.
pub(super) fn number_of<T>(handle: *mut *mut T) -> Result<usize, Code> {
    if handle.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    // SAFETY: not NULL, hence the tool's variable.
    Ok(unsafe { handle.read() }.addr())
}

/// Fills a string as MPI-4.1 §15.3.3 says: cut short to `*len` bytes, and `*len` becomes the room it needs.
pub(super) fn text(out: *mut c_char, len: *mut c_int, text: &str) {
    if len.is_null() {
        return;
    }
    // SAFETY: not NULL, hence the tool's variable.
    let room = unsafe { len.read() };
    put(len, text.len() as c_int + 1);
    if out.is_null() || room <= 0 {
        return;
    }
    let copied = text.len().min(room as usize - 1);
    // SAFETY: the tool's buffer has `room` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), out, copied);
        out.add(copied).write(0);
    }
}

/// The index whose name the tool gives.
pub(super) fn named<'a>(name: *const c_char, mut names: impl Iterator<Item = &'a str>) -> Result<c_int, Code> {
    if name.is_null() {
        return Err(MPI_T_ERR_INVALID);
    }
    // SAFETY: not NULL, hence a string of the tool.
    let name = unsafe { CStr::from_ptr(name) }.to_str().unwrap_or_default();
    let found = names.position(|known| known == name);
    found.map(|index| index as c_int).ok_or(MPI_T_ERR_INVALID_NAME)
}

/// Stores as many of `indices` as there is room for.
pub(super) fn list(out: *mut c_int, len: c_int, indices: &[c_int]) {
    for (at, &index) in indices.iter().take(len.max(0) as usize).enumerate() {
        put(out.wrapping_add(at), index);
    }
}

/// Begins using the tools interface; every thread may. MPI-4.1 §15.3.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_init_thread(required: c_int, provided: *mut c_int) -> c_int {
    let _ = required;
    tools().users += 1;
    put(provided, MPI_THREAD_MULTIPLE);
    MPI_SUCCESS
}

/// Ends using the tools interface; the last one closes what is open. MPI-4.1 §15.3.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_finalize() -> c_int {
    on_tools(|tools| {
        tools.users -= 1;
        if tools.users == 0 {
            tools.cvars.clear();
            tools.sessions.clear();
        }
        Ok(())
    })
}

/// There are no enumerations. MPI-4.1 §15.3.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_enum_get_info(
    _enumtype: MPI_T_enum,
    _num: *mut c_int,
    _name: *mut c_char,
    _name_len: *mut c_int,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_HANDLE))
}

/// There are no enumerations. MPI-4.1 §15.3.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_enum_get_item(
    _enumtype: MPI_T_enum,
    _indx: c_int,
    _value: *mut c_int,
    _name: *mut c_char,
    _name_len: *mut c_int,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_HANDLE))
}

/// Number of control variables. MPI-4.1 §15.3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_cvar_get_num(num_cvar: *mut c_int) -> c_int {
    on_tools(|_| give(num_cvar, cvar::TABLE.len() as c_int))
}

/// What a control variable is. MPI-4.1 §15.3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_cvar_get_info(
    cvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    datatype: *mut MPI_Datatype,
    enumtype: *mut MPI_T_enum,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    scope: *mut c_int,
) -> c_int {
    on_tools(|_| {
        let (_, cvar) = row(cvar::TABLE, cvar_index)?;
        text(name, name_len, cvar.name);
        text(desc, desc_len, cvar.meaning);
        put(verbosity, MPI_T_VERBOSITY_TUNER_BASIC);
        put(datatype, if cvar.is_text { MPI_CHAR } else { MPI_UNSIGNED_LONG_LONG });
        put(enumtype, MPI_T_ENUM_NULL);
        put(bind, MPI_T_BIND_NO_OBJECT);
        put(scope, MPI_T_SCOPE_READONLY);
        Ok(())
    })
}

/// The control variable of a name. MPI-4.1 §15.3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_cvar_get_index(name: *const c_char, cvar_index: *mut c_int) -> c_int {
    on_tools(|_| give(cvar_index, named(name, cvar::TABLE.iter().map(|cvar| cvar.name))?))
}

/// Opens a control variable. MPI-4.1 §15.3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_cvar_handle_alloc(
    cvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: *mut MPI_T_cvar_handle,
    count: *mut c_int,
) -> c_int {
    on_tools(|tools| {
        let (index, cvar) = row(cvar::TABLE, cvar_index)?;
        let number = tools.next;
        give(handle, std::ptr::without_provenance_mut(number))?;
        tools.number();
        tools.cvars.insert(number, index);
        // A text has room for the longest, and its end.
        put(count, if cvar.is_text { cvar.range.1 as c_int + 1 } else { 1 });
        Ok(())
    })
}

/// Closes a control variable. MPI-4.1 §15.3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_cvar_handle_free(handle: *mut MPI_T_cvar_handle) -> c_int {
    on_tools(|tools| {
        let number = number_of(handle)?;
        tools.cvars.remove(&number).ok_or(MPI_T_ERR_INVALID_HANDLE)?;
        give(handle, MPI_T_CVAR_HANDLE_NULL)
    })
}

/// The value of a control variable: the one in force, or that of the environment. MPI-4.1 §15.3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_cvar_read(handle: MPI_T_cvar_handle, buf: *mut c_void) -> c_int {
    on_tools(|tools| {
        let index = tools.cvars.get(&handle.addr()).ok_or(MPI_T_ERR_INVALID_HANDLE)?;
        let settings = match current_world() {
            Some(world) => world.hold().engine.channel.settings().clone(),
            None => Settings::from_environment().map_err(|_| MPI_T_ERR_INVALID)?,
        };
        match settings.values().get(*index) {
            Some(&value) => give(buf.cast::<u64>(), value),
            None if buf.is_null() => Err(MPI_T_ERR_INVALID),
            None => {
                let mut room = cvar::TABLE[*index].range.1 as c_int + 1;
                text(buf.cast(), &raw mut room, &settings.collectives.text);
                Ok(())
            }
        }
    })
}

/// Control variables are set by the environment alone. MPI-4.1 §15.3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_cvar_write(handle: MPI_T_cvar_handle, _buf: *const c_void) -> c_int {
    on_tools(|tools| match tools.cvars.contains_key(&handle.addr()) {
        true => Err(MPI_T_ERR_CVAR_SET_NEVER),
        false => Err(MPI_T_ERR_INVALID_HANDLE),
    })
}
