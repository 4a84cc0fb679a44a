//! # Safety
//! Exports functions that reach the application's memory through the helpers of [`super::edge`] only; what a program
//! exposes in a window is touched by others, as it wants.
//!
//! Windows: made, freed, and what is known of them (MPI-4.1 §12.2, §12.4, §7.7.3, §7.8, §9.3.2).
#![allow(unsafe_code)]

use super::attr;
use super::constants::*;
use super::edge::*;
use super::errhandler::{find, handle, raise, refer};
use super::group::{give_group, out};
use super::info::{give_info, hints};
use super::source::Source;
use super::types::*;
use crate::fail;
use crate::mpi::attr::{Form, Owner};
use crate::mpi::errhandler::Target;
use crate::mpi::rma::create::{self, Share};
use crate::mpi::rma::{Flavor, Window};
use crate::mpi::world::State;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::rc::Rc;

/// The window `handle` names.
///
/// # Errors
/// [`Class::Win`]: the null handle, another kind of handle, or a window that was freed.
pub fn window(state: &State, handle: MPI_Win) -> Result<&Rc<Window>> {
    let key = Object::Win.key(handle)?;
    Object::Win.alive(handle, state.windows.get(key))
}

/// Runs `body` on the window `handle`; its error, or the handle's, goes to an error handler.
pub fn on_win(name: &'static str, handle: MPI_Win, body: impl FnOnce(&mut Hold, &Rc<Window>) -> Result<()>) -> c_int {
    let world = world(name);
    let _call = world.calling(name);
    let mut hold = world.hold();
    let (source, error) = match window(&hold, handle).cloned() {
        Ok(window) => match body(&mut hold, &window) {
            Ok(()) => return MPI_SUCCESS,
            Err(error) => (Source::win(&hold, handle, &window.errhandler), error),
        },
        Err(error) => (Source::anywhere(&hold), error),
    };
    drop(hold);
    raise(name, source, error)
}

/// Makes a window and tells where its memory lies.
#[allow(clippy::too_many_arguments)]
fn make(
    name: &'static str,
    flavor: Flavor,
    base: *mut c_void,
    size: MPI_Aint,
    unit: i64,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: Option<*mut c_void>,
    win: *mut MPI_Win,
) -> c_int {
    on_comm(name, comm, |hold, comm| {
        comm.intra()?;
        let win = out(win, "win")?;
        let baseptr = baseptr
            .map(|place| out(place.cast::<*mut u8>(), "baseptr"))
            .transpose()?;
        if size < 0 {
            fail!(Size, "the size is {size} but must not be negative");
        }
        if unit <= 0 {
            fail!(Disp, "the displacement unit is {unit} but must be positive");
        }
        if flavor == Flavor::Create && base.is_null() && size > 0 {
            fail!(Base, "the base is a null pointer, but the size is {size}");
        }
        let share = Share {
            flavor,
            base: base.cast(),
            size: size as usize,
            unit: unit as usize,
            info: hints(info)?,
        };
        *win = MPI_WIN_NULL;
        let new = create::create(hold, comm, share)?;
        if let Some(place) = baseptr {
            *place = new.base;
        }
        *win = Object::Win.made(create::keep(hold, new))?;
        Ok(())
    })
}

/// A window over memory of the program. Collective. MPI-4.1 §12.2.1.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_create(
    base: *mut c_void,
    size: MPI_Aint,
    disp_unit: Displ,
    info: MPI_Info,
    comm: MPI_Comm,
    win: *mut MPI_Win,
) -> c_int {
    let (name, unit) = ("MPI_Win_create", i64::from(disp_unit));
    make(name, Flavor::Create, base, size, unit, info, comm, None, win)
}

/// A window that allocates its memory. Collective. MPI-4.1 §12.2.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_allocate(
    size: MPI_Aint,
    disp_unit: Displ,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> c_int {
    let (name, flavor, unit) = ("MPI_Win_allocate", Flavor::Allocate, i64::from(disp_unit));
    make(name, flavor, null_mut(), size, unit, info, comm, Some(baseptr), win)
}

/// A window whose memory all members may load and store. Collective. MPI-4.1 §12.2.3.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_allocate_shared(
    size: MPI_Aint,
    disp_unit: Displ,
    info: MPI_Info,
    comm: MPI_Comm,
    baseptr: *mut c_void,
    win: *mut MPI_Win,
) -> c_int {
    let (name, flavor, unit) = ("MPI_Win_allocate_shared", Flavor::Shared, i64::from(disp_unit));
    make(name, flavor, null_mut(), size, unit, info, comm, Some(baseptr), win)
}

/// A window to which memory is attached later. Collective. MPI-4.1 §12.2.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_create_dynamic(info: MPI_Info, comm: MPI_Comm, win: *mut MPI_Win) -> c_int {
    let name = "MPI_Win_create_dynamic";
    make(name, Flavor::Dynamic, null_mut(), 0, 1, info, comm, None, win)
}

/// Where this process sees the memory of `rank`; of `MPI_PROC_NULL`: of the first member that has some. Memory that
/// it does not see has size 0. MPI-4.1 §12.2.3.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_shared_query(
    win: MPI_Win,
    rank: c_int,
    size: *mut MPI_Aint,
    disp_unit: *mut Displ,
    baseptr: *mut c_void,
) -> c_int {
    on_win("MPI_Win_shared_query", win, |hold, window| {
        if window.flavor == Flavor::Dynamic {
            fail!(
                RmaFlavor,
                "the window is a dynamic one: its members have no memory of their own in it"
            );
        }
        let rank = match rank {
            MPI_PROC_NULL => (0..window.comm.size())
                .find(|&rank| window.part(rank).size > 0)
                .unwrap_or(0),
            _ => window.comm.checked_rank(rank)?,
        };
        let (size, unit, base) = (
            out(size, "size")?,
            out(disp_unit, "disp_unit")?,
            out(baseptr.cast::<*mut u8>(), "baseptr")?,
        );
        let part = window.part(rank);
        let seen = window.mapped(hold, rank)?;
        // Nothing lies nowhere, as in MPICH.
        *base = seen.filter(|_| part.size > 0).unwrap_or(null_mut());
        *size = seen.map_or(0, |_| part.size as MPI_Aint);
        *unit = Displ::try_from(part.unit as i64).unwrap_or(Displ::MAX);
        Ok(())
    })
}

/// Frees a window once all members have called it. Collective. MPI-4.1 §12.2.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_free(win: *mut MPI_Win) -> c_int {
    let place = match out(win, "win") {
        Ok(place) => place,
        Err(error) => return on_world("MPI_Win_free", |_| Err(error)),
    };
    on_win("MPI_Win_free", *place, |hold, window| {
        window.epochs.borrow().check_idle()?;
        attr::delete_all(hold, *place, &window.attributes)?;
        create::free(hold, window)?;
        create::forget(hold, Object::Win.key(*place)?);
        *place = MPI_WIN_NULL;
        Ok(())
    })
}

/// Attaches memory to a dynamic window. MPI-4.1 §12.2.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_attach(win: MPI_Win, base: *mut c_void, size: MPI_Aint) -> c_int {
    on_win("MPI_Win_attach", win, |_, window| {
        if size < 0 {
            fail!(Size, "the size is {size} but must not be negative");
        }
        create::attach(window, base as usize, size as usize)
    })
}

/// Takes attached memory back. MPI-4.1 §12.2.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_detach(win: MPI_Win, base: *const c_void) -> c_int {
    on_win("MPI_Win_detach", win, |_, window| create::detach(window, base as usize))
}

/// The members. MPI-4.1 §12.2.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_get_group(win: MPI_Win, group: *mut MPI_Group) -> c_int {
    on_win("MPI_Win_get_group", win, |hold, window| {
        let out = out(group, "group")?;
        *out = give_group(hold, window.comm.group.clone())?;
        Ok(())
    })
}

/// Names a window. MPI-4.1 §7.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_set_name(win: MPI_Win, win_name: *const c_char) -> c_int {
    on_win("MPI_Win_set_name", win, |_, window| {
        window.name.replace(string(win_name, "win_name")?);
        Ok(())
    })
}

/// A window's name; the null handle has one too. MPI-4.1 §7.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_get_name(win: MPI_Win, win_name: *mut c_char, resultlen: *mut c_int) -> c_int {
    let write = |name: &str| store_string(win_name, "win_name", MPI_MAX_OBJECT_NAME, name, resultlen);
    if win == MPI_WIN_NULL {
        return on_world("MPI_Win_get_name", |_| write("MPI_WIN_NULL"));
    }
    on_win("MPI_Win_get_name", win, |_, window| write(&window.name.borrow()))
}

/// Adds hints. MPI-4.1 §12.2.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_set_info(win: MPI_Win, info: MPI_Info) -> c_int {
    on_win("MPI_Win_set_info", win, |_, window| {
        window.info.borrow_mut().update(&hints(info)?);
        Ok(())
    })
}

/// The hints that were given. MPI-4.1 §12.2.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_get_info(win: MPI_Win, info_used: *mut MPI_Info) -> c_int {
    on_win("MPI_Win_get_info", win, |_, window| {
        let out = out(info_used, "info_used")?;
        *out = give_info(window.info.borrow().in_use_on_window())?;
        Ok(())
    })
}

/// Attaches an error handler to a window. MPI-4.1 §9.3.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_set_errhandler(win: MPI_Win, errhandler: MPI_Errhandler) -> c_int {
    on_win("MPI_Win_set_errhandler", win, |_, window| {
        *window.errhandler.borrow_mut() = find(Target::Win, errhandler)?;
        Ok(())
    })
}

/// The error handler of a window. MPI-4.1 §9.3.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_get_errhandler(win: MPI_Win, errhandler: *mut MPI_Errhandler) -> c_int {
    on_win("MPI_Win_get_errhandler", win, |_, window| {
        let out = out(errhandler, "errhandler")?;
        *out = refer(&window.errhandler.borrow())?;
        Ok(())
    })
}

/// Calls the error handler of a window. MPI-4.1 §9.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_call_errhandler(win: MPI_Win, errorcode: c_int) -> c_int {
    let mut source = None;
    let rc = on_win("MPI_Win_call_errhandler", win, |hold, window| {
        source = Some(Source::win(hold, win, &window.errhandler));
        Ok(())
    });
    if let Some(source) = source {
        handle("MPI_Win_call_errhandler", source, errorcode);
    }
    rc
}

/// A key for attributes of windows. MPI-4.1 §7.7.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_create_keyval(
    win_copy_attr_fn: MPI_Win_copy_attr_function,
    win_delete_attr_fn: MPI_Win_delete_attr_function,
    win_keyval: *mut c_int,
    extra_state: *mut c_void,
) -> c_int {
    let (name, owner) = ("MPI_Win_create_keyval", Owner::Win);
    attr::create(
        name,
        owner,
        win_copy_attr_fn,
        win_delete_attr_fn,
        win_keyval,
        extra_state,
    )
}

/// Frees a key of windows. MPI-4.1 §7.7.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_free_keyval(win_keyval: *mut c_int) -> c_int {
    attr::free("MPI_Win_free_keyval", Owner::Win, win_keyval)
}

/// Sets a value under a key. MPI-4.1 §7.7.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_set_attr(win: MPI_Win, win_keyval: c_int, attribute_val: *mut c_void) -> c_int {
    set_attr(win, win_keyval, attribute_val, Form::Pointer as c_int)
}

/// The value under a key, those of MPI-4.1 §12.2.6 included. MPI-4.1 §7.7.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_get_attr(
    win: MPI_Win,
    win_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
) -> c_int {
    get_attr(win, win_keyval, attribute_val, flag, Form::Pointer as c_int)
}

/// Deletes the value under a key. MPI-4.1 §7.7.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_delete_attr(win: MPI_Win, win_keyval: c_int) -> c_int {
    on_win("MPI_Win_delete_attr", win, |hold, window| {
        let keyval = attr::keyval(hold, win_keyval, Owner::Win)?;
        attr::delete(hold, win, &window.attributes, keyval)
    })
}

/// For Fortran libraries: [`MPI_Win_set_attr`] of a value in the form `attr_type`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPII_Win_set_attr(
    win: MPI_Win,
    win_keyval: c_int,
    attribute_val: *mut c_void,
    attr_type: c_int,
) -> c_int {
    set_attr(win, win_keyval, attribute_val, attr_type)
}

/// For Fortran libraries: [`MPI_Win_get_attr`] in the form `attr_type`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPII_Win_get_attr(
    win: MPI_Win,
    win_keyval: c_int,
    attribute_val: *mut c_void,
    flag: *mut c_int,
    attr_type: c_int,
) -> c_int {
    get_attr(win, win_keyval, attribute_val, flag, attr_type)
}

fn set_attr(win: MPI_Win, win_keyval: c_int, value: *mut c_void, form: c_int) -> c_int {
    on_win("MPI_Win_set_attr", win, |hold, window| {
        let keyval = attr::keyval(hold, win_keyval, Owner::Win)?;
        attr::set(hold, win, &window.attributes, keyval, value, form)
    })
}

fn get_attr(win: MPI_Win, win_keyval: c_int, value: *mut c_void, flag: *mut c_int, form: c_int) -> c_int {
    on_win("MPI_Win_get_attr", win, |hold, window| {
        let values = &window.values;
        // Fortran's keys are C's plus 1 and read values; C reads the address of all but the base.
        let fortran = win_keyval & 1 == 0;
        let (address, number) = match win_keyval - c_int::from(fortran) {
            MPI_WIN_BASE => (window.base as usize, window.base as usize),
            MPI_WIN_SIZE => ((&raw const values.size) as usize, values.size as usize),
            MPI_WIN_DISP_UNIT => ((&raw const values.unit) as usize, values.unit as usize),
            MPI_WIN_CREATE_FLAVOR => ((&raw const values.flavor) as usize, values.flavor as usize),
            MPI_WIN_MODEL => ((&raw const values.model) as usize, values.model as usize),
            _ => {
                let keyval = attr::keyval(hold, win_keyval, Owner::Win)?;
                return attr::get(&window.attributes, &keyval, value, flag, form);
            }
        };
        let by_value = fortran || form != Form::Pointer as c_int;
        let (flag, value) = (out(flag, "flag")?, out(value.cast::<usize>(), "attribute_val")?);
        *flag = 1;
        *value = if by_value { number } else { address };
        Ok(())
    })
}
