//! # Safety
//! Stores results through pointers of the application and fills its strings.
//!
//! The tools interface (MPI-4.1 §15.3.8, §15.3.9): categories of variables, and events, of which
//! there are none, nor sources of them.
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::apply;
use super::tool_pvars::pvars_of;
use super::tool_vars::*;
use super::types::*;
use std::ffi::{c_char, c_int, c_void};

/// Number of categories. MPI-4.1 §15.3.9.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_category_get_num(num_cat: *mut c_int) -> c_int {
    on_tools(|_| give(num_cat, CATEGORIES.len() as c_int))
}

/// What a category is. MPI-4.1 §15.3.9.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_category_get_info(
    cat_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    desc: *mut c_char,
    desc_len: *mut c_int,
    num_cvars: *mut c_int,
    num_pvars: *mut c_int,
    num_categories: *mut c_int,
) -> c_int {
    on_tools(|_| {
        let (category, (known, meaning)) = row(&CATEGORIES, cat_index)?;
        text(name, name_len, known);
        text(desc, desc_len, meaning);
        put(num_cvars, cvars_of(category).len() as c_int);
        put(num_pvars, pvars_of(category).len() as c_int);
        put(num_categories, 0);
        Ok(())
    })
}

/// The category of a name. MPI-4.1 §15.3.9.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_category_get_index(name: *const c_char, cat_index: *mut c_int) -> c_int {
    on_tools(|_| give(cat_index, named(name, CATEGORIES.iter().map(|category| category.0))?))
}

/// Control variables of a category. MPI-4.1 §15.3.9.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_category_get_cvars(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    on_tools(|_| {
        let (category, _) = row(&CATEGORIES, cat_index)?;
        list(indices, len, &cvars_of(category));
        Ok(())
    })
}

/// Performance variables of a category. MPI-4.1 §15.3.9.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_category_get_pvars(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
    on_tools(|_| {
        let (category, _) = row(&CATEGORIES, cat_index)?;
        list(indices, len, &pvars_of(category));
        Ok(())
    })
}

/// Categories in a category: there are none. MPI-4.1 §15.3.9.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_category_get_categories(cat_index: c_int, _len: c_int, _indices: *mut c_int) -> c_int {
    on_tools(|_| row(&CATEGORIES, cat_index).map(drop))
}

/// Number of events of a category: none. MPI-4.1 §15.3.9.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_category_get_num_events(cat_index: c_int, num_events: *mut c_int) -> c_int {
    on_tools(|_| {
        row(&CATEGORIES, cat_index)?;
        give(num_events, 0)
    })
}

/// Events of a category: there are none. MPI-4.1 §15.3.9.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_category_get_events(cat_index: c_int, _len: c_int, _indices: *mut c_int) -> c_int {
    on_tools(|_| row(&CATEGORIES, cat_index).map(drop))
}

/// How often categories have changed: never. MPI-4.1 §15.3.9.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_category_changed(update_number: *mut c_int) -> c_int {
    on_tools(|_| give(update_number, 0))
}

/// Number of sources of events: none. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_source_get_num(num_sources: *mut c_int) -> c_int {
    on_tools(|_| give(num_sources, 0))
}

/// Number of events: none. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_get_num(num_events: *mut c_int) -> c_int {
    on_tools(|_| give(num_events, 0))
}

/// There is no event of any name. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_get_index(name: *const c_char, _event_index: *mut c_int) -> c_int {
    on_tools(|_| named(name, std::iter::empty()).map(drop))
}

/// There is no event, hence no handle of one. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_callback_get_info(
    _event_registration: MPI_T_event_registration,
    _cb_safety: MPI_T_cb_safety,
    _info_used: *mut MPI_Info,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_HANDLE))
}

/// There is no event, hence no handle of one. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_callback_set_info(
    _event_registration: MPI_T_event_registration,
    _cb_safety: MPI_T_cb_safety,
    _info: MPI_Info,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_HANDLE))
}

/// There is no event, hence no handle of one. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_copy(_event_instance: MPI_T_event_instance, _buffer: *mut c_void) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_HANDLE))
}

/// There is no event. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_get_info(
    _event_index: c_int,
    _name: *mut c_char,
    _name_len: *mut c_int,
    _verbosity: *mut c_int,
    _array_of_datatypes: *mut MPI_Datatype,
    _array_of_displacements: *mut MPI_Aint,
    _num_elements: *mut c_int,
    _enumtype: *mut MPI_T_enum,
    _info: *mut MPI_Info,
    _desc: *mut c_char,
    _desc_len: *mut c_int,
    _bind: *mut c_int,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_INDEX))
}

/// There is no event, hence no handle of one. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_get_source(
    _event_instance: MPI_T_event_instance,
    _source_index: *mut c_int,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_HANDLE))
}

/// There is no event, hence no handle of one. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_get_timestamp(
    _event_instance: MPI_T_event_instance,
    _event_timestamp: *mut MPI_Count,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_HANDLE))
}

/// There is no event. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_handle_alloc(
    _event_index: c_int,
    _obj_handle: *mut c_void,
    _info: MPI_Info,
    _event_registration: *mut MPI_T_event_registration,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_INDEX))
}

/// There is no event, hence no handle of one. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_handle_free(
    _event_registration: MPI_T_event_registration,
    _user_data: *mut c_void,
    _free_cb_function: MPI_T_event_free_cb_function,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_HANDLE))
}

/// There is no event, hence no handle of one. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_handle_get_info(
    _event_registration: MPI_T_event_registration,
    _info_used: *mut MPI_Info,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_HANDLE))
}

/// There is no event, hence no handle of one. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_handle_set_info(
    _event_registration: MPI_T_event_registration,
    _info: MPI_Info,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_HANDLE))
}

/// There is no event, hence no handle of one. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_read(
    _event_instance: MPI_T_event_instance,
    _element_index: c_int,
    _buffer: *mut c_void,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_HANDLE))
}

/// There is no event, hence no handle of one. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_register_callback(
    _event_registration: MPI_T_event_registration,
    _cb_safety: MPI_T_cb_safety,
    _info: MPI_Info,
    _user_data: *mut c_void,
    _event_cb_function: MPI_T_event_cb_function,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_HANDLE))
}

/// There is no event, hence no handle of one. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_event_set_dropped_handler(
    _event_registration: MPI_T_event_registration,
    _dropped_cb_function: MPI_T_event_dropped_cb_function,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_HANDLE))
}

/// There is no source. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_source_get_info(
    _source_index: c_int,
    _name: *mut c_char,
    _name_len: *mut c_int,
    _desc: *mut c_char,
    _desc_len: *mut c_int,
    _ordering: *mut MPI_T_source_order,
    _ticks_per_second: *mut MPI_Count,
    _max_ticks: *mut MPI_Count,
    _info: *mut MPI_Info,
) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_INDEX))
}

/// There is no source. MPI-4.1 §15.3.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_source_get_timestamp(_source_index: c_int, _timestamp: *mut MPI_Count) -> c_int {
    on_tools(|_| Err(MPI_T_ERR_INVALID_INDEX))
}
