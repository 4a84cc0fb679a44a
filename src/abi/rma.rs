//! # Safety
//! Hands the application's buffers on: relies on its pointers, counts and datatypes.
//!
//! One-sided communication: put, get and accumulates, also with requests (MPI-4.1 §12.3).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::op::op;
use super::pt2pt::{buffer, dest, length, store_request};
use super::types::*;
use super::win::{on_win, window};
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::datatype::basic::Basic;
use crate::mpi::op::Function;
use crate::mpi::request::Request;
use crate::mpi::rma::short::{self, Here, There};
use crate::mpi::rma::{Target, Window, transfer, update};
use crate::mpi::status::Status;
use crate::mpi::world::{State, World};
use crate::sys::cma::Direction;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// An address, a number of elements and their datatype.
type Elements = (*const c_void, i64, MPI_Datatype);

fn local(state: &State, (address, count, datatype): Elements, name: &str) -> Result<Buffer> {
    buffer(state, address, self::count(count, name)?, datatype)
}

/// The target that the program describes; `None` for MPI_PROC_NULL.
fn target(
    state: &State,
    window: &Window,
    rank: c_int,
    disp: MPI_Aint,
    count: i64,
    datatype: MPI_Datatype,
) -> Result<Option<Target>> {
    let rank = dest(&window.comm, rank)?;
    let count = self::count(count, "target_count")?;
    let datatype = state.datatypes.committed(datatype)?.clone();
    length(count, &datatype)?;
    Ok(rank.map(|rank| Target {
        rank,
        disp,
        count,
        datatype,
    }))
}

/// Runs an operation, by `short` if that does it and else by `body`; with a request, stores one that is over: it is when this returns.
/// Watchers are not told of operations that go the short way, nor do these look at anything but the window.
#[inline(always)]
fn run(
    name: &'static str,
    win: MPI_Win,
    request: Option<*mut MPI_Request>,
    short: impl Fn(&State, &Window) -> bool,
    body: impl FnOnce(&mut Hold, &Rc<Window>) -> Result<()>,
) -> c_int {
    let alone = current_world().and_then(World::hold_alone);
    if let (Some(hold), None) = (&alone, request)
        && window(hold, win).is_ok_and(|window| short(hold, window))
    {
        return MPI_SUCCESS;
    }
    long(name, win, request, short, body)
}

/// The same, as all calls go.
#[inline(never)]
fn long(
    name: &'static str,
    win: MPI_Win,
    request: Option<*mut MPI_Request>,
    short: impl Fn(&State, &Window) -> bool,
    body: impl FnOnce(&mut Hold, &Rc<Window>) -> Result<()>,
) -> c_int {
    on_win(name, win, |hold, window| {
        if let Some(request) = request {
            load(request, "request")?;
        }
        if !short(hold, window) {
            body(hold, window)?;
        }
        match request {
            Some(request) => {
                let key = hold.add_request(Request::over(Status::EMPTY))?;
                store_request(request, key)
            }
            None => Ok(()),
        }
    })
}

/// The target of an operation whose elements are those of the origin and the result as well, for the short way.
fn there(all: &[Elements], rank: c_int, disp: MPI_Aint, (count, datatype): (i64, MPI_Datatype)) -> Option<There> {
    let alike = |elements: &Elements| (elements.1, elements.2) == (count, datatype);
    let count = usize::try_from(count).ok()?;
    all.iter().all(alike).then_some(There {
        rank,
        disp,
        count,
        datatype,
    })
}

/// Which way a transfer goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Put,
    Get,
}

#[allow(clippy::too_many_arguments)]
fn move_data(
    name: &'static str,
    way: Way,
    origin: Elements,
    rank: c_int,
    disp: MPI_Aint,
    (count, datatype): (i64, MPI_Datatype),
    win: MPI_Win,
    request: Option<*mut MPI_Request>,
) -> c_int {
    let short = |state: &State, window: &Window| {
        let direction = match way {
            Way::Put => Direction::Write,
            Way::Get => Direction::Read,
        };
        let (here, short) = (
            origin.0.cast_mut().cast(),
            there(&[origin], rank, disp, (count, datatype)),
        );
        // SAFETY: the program owns the elements that it describes.
        short.is_some_and(|there| unsafe { short::transfer(state, window, here, &there, direction) })
    };
    run(name, win, request, short, |hold, window| {
        let origin = local(hold, origin, "origin_count")?;
        match (target(hold, window, rank, disp, count, datatype)?, way) {
            (Some(target), Way::Put) => transfer::put(hold, window, &origin, &target),
            (Some(target), Way::Get) if request.is_some() => transfer::get_now(hold, window, &origin, &target),
            (Some(target), Way::Get) => transfer::get(hold, window, &origin, &target),
            (None, _) => Ok(()),
        }
    })
}

/// Refuses a datatype that is not predefined.
fn predefined(state: &State, name: &str, datatype: MPI_Datatype) -> Result<()> {
    match state.datatypes.committed(datatype)?.contents() {
        Some(_) => fail!(Type, "{name} takes predefined datatypes, not derived ones"),
        None => Ok(()),
    }
}

#[allow(clippy::too_many_arguments)]
fn combine<const PREDEFINED: bool>(
    name: &'static str,
    own: Elements,
    result: Option<Elements>,
    rank: c_int,
    disp: MPI_Aint,
    (count, datatype): (i64, MPI_Datatype),
    op_handle: MPI_Op,
    win: MPI_Win,
    request: Option<*mut MPI_Request>,
) -> c_int {
    let short = |state: &State, window: &Window| {
        let Ok(op) = op(state, op_handle) else { return false };
        // The origin of a fetch without an operation is not looked at, whatever it is.
        let no_op = op_handle == MPI_NO_OP;
        let fetched = result.unwrap_or(own);
        let short = there(
            &[if no_op { fetched } else { own }, fetched],
            rank,
            disp,
            (count, datatype),
        );
        if let (Some(there), Function::Builtin(builtin)) = (short, op.function) {
            let here = Here {
                origin: if no_op { std::ptr::null() } else { own.0.cast() },
                compare: std::ptr::null(),
                result: result.map_or(std::ptr::null_mut(), |result| result.0.cast_mut().cast()),
            };
            let fetches = result.is_none_or(|result| !result.0.is_null());
            // SAFETY: the program owns the elements that it describes.
            return fetches && unsafe { short::update(state, window, &here, &there, Some(builtin)) };
        }
        false
    };
    run(name, win, request, short, |hold, window| {
        let op = op(hold, op_handle)?.clone();
        if op_handle == MPI_NO_OP && result.is_none() {
            fail!(Op, "{name} does not take MPI_NO_OP");
        }
        if PREDEFINED {
            predefined(hold, name, datatype)?;
        }
        let origin = match op_handle {
            MPI_NO_OP => Buffer::bytes(std::ptr::null_mut(), 0),
            _ => local(hold, own, "origin_count")?,
        };
        let fetched = result.map(|result| local(hold, result, "result_count")).transpose()?;
        let Some(target) = target(hold, window, rank, disp, count, datatype)? else {
            return Ok(());
        };
        let combined = (op_handle != MPI_NO_OP).then_some(own);
        let moves = matches!(op_handle, MPI_NO_OP | MPI_REPLACE);
        for (_, count, datatype) in combined.into_iter().chain(result) {
            made_of_the_same(hold, (count, datatype), &target, moves)?;
        }
        update::accumulate(hold, window, &origin, fetched.as_ref(), &target, &op)
    })
}

/// Makes sure that elements on this side, if there are any, are made of the same values as those of an update's target
/// (MPI-4.1 §12.3.4), by whatever name. What is only moved may have another meaning.
fn made_of_the_same(state: &State, (count, datatype): (i64, MPI_Datatype), target: &Target, moves: bool) -> Result<()> {
    if count == 0 || target.is_empty() {
        return Ok(());
    }
    let (own, theirs) = (state.datatypes.get(datatype)?.element(), target.datatype.element());
    if let (Some(own), Some(theirs)) = (own, theirs)
        && (own.repr == theirs.repr || moves && own.size == theirs.size)
    {
        return Ok(());
    }
    let name = |basic: Option<&Basic>| basic.map_or("several predefined datatypes", |basic| basic.name);
    fail!(
        Type,
        "{} cannot be combined with {}, which the target is made of",
        name(own),
        name(theirs)
    )
}

/// Copies to a member's memory. MPI-4.1 §12.3.1.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Put(
    origin_addr: *const c_void,
    origin_count: Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> c_int {
    let origin = (origin_addr, origin_count.into(), origin_datatype);
    let there = (target_count.into(), target_datatype);
    move_data("MPI_Put", Way::Put, origin, target_rank, target_disp, there, win, None)
}

/// Copies from a member's memory. MPI-4.1 §12.3.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Get(
    origin_addr: *mut c_void,
    origin_count: Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
) -> c_int {
    let origin = (origin_addr.cast_const(), origin_count.into(), origin_datatype);
    let there = (target_count.into(), target_datatype);
    move_data("MPI_Get", Way::Get, origin, target_rank, target_disp, there, win, None)
}

/// MPI_Put with a request. MPI-4.1 §12.3.5.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Rput(
    origin_addr: *const c_void,
    origin_count: Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    let origin = (origin_addr, origin_count.into(), origin_datatype);
    let there = (target_count.into(), target_datatype);
    let request = Some(request);
    move_data(
        "MPI_Rput",
        Way::Put,
        origin,
        target_rank,
        target_disp,
        there,
        win,
        request,
    )
}

/// MPI_Get with a request. MPI-4.1 §12.3.5.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Rget(
    origin_addr: *mut c_void,
    origin_count: Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: Count,
    target_datatype: MPI_Datatype,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    let origin = (origin_addr.cast_const(), origin_count.into(), origin_datatype);
    let there = (target_count.into(), target_datatype);
    let request = Some(request);
    move_data(
        "MPI_Rget",
        Way::Get,
        origin,
        target_rank,
        target_disp,
        there,
        win,
        request,
    )
}

/// Combines with a member's memory. MPI-4.1 §12.3.4.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Accumulate(
    origin_addr: *const c_void,
    origin_count: Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let (name, origin) = ("MPI_Accumulate", (origin_addr, origin_count.into(), origin_datatype));
    let there = (target_count.into(), target_datatype);
    combine::<false>(name, origin, None, target_rank, target_disp, there, op, win, None)
}

/// MPI_Accumulate with a request. MPI-4.1 §12.3.5.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Raccumulate(
    origin_addr: *const c_void,
    origin_count: Count,
    origin_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    let (name, origin) = ("MPI_Raccumulate", (origin_addr, origin_count.into(), origin_datatype));
    let there = (target_count.into(), target_datatype);
    let request = Some(request);
    combine::<false>(name, origin, None, target_rank, target_disp, there, op, win, request)
}

/// Combines with a member's memory and fetches what was there before. MPI-4.1 §12.3.4.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Get_accumulate(
    origin_addr: *const c_void,
    origin_count: Count,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: Count,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let (name, origin) = (
        "MPI_Get_accumulate",
        (origin_addr, origin_count.into(), origin_datatype),
    );
    let result = (result_addr.cast_const(), result_count.into(), result_datatype);
    let there = (target_count.into(), target_datatype);
    combine::<false>(
        name,
        origin,
        Some(result),
        target_rank,
        target_disp,
        there,
        op,
        win,
        None,
    )
}

/// MPI_Get_accumulate with a request. MPI-4.1 §12.3.5.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Rget_accumulate(
    origin_addr: *const c_void,
    origin_count: Count,
    origin_datatype: MPI_Datatype,
    result_addr: *mut c_void,
    result_count: Count,
    result_datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    target_count: Count,
    target_datatype: MPI_Datatype,
    op: MPI_Op,
    win: MPI_Win,
    request: *mut MPI_Request,
) -> c_int {
    let (name, origin) = (
        "MPI_Rget_accumulate",
        (origin_addr, origin_count.into(), origin_datatype),
    );
    let result = Some((result_addr.cast_const(), result_count.into(), result_datatype));
    let there = (target_count.into(), target_datatype);
    let request = Some(request);
    combine::<false>(name, origin, result, target_rank, target_disp, there, op, win, request)
}

/// Combines one element with a member's memory and fetches what was there before. MPI-4.1 §12.3.4.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Fetch_and_op(
    origin_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    op: MPI_Op,
    win: MPI_Win,
) -> c_int {
    let name = "MPI_Fetch_and_op";
    let (origin, result) = ((origin_addr, 1, datatype), (result_addr.cast_const(), 1, datatype));
    let there = (1, datatype);
    combine::<true>(
        name,
        origin,
        Some(result),
        target_rank,
        target_disp,
        there,
        op,
        win,
        None,
    )
}

/// Stores one element in a member's memory if it finds there what it compares with. MPI-4.1 §12.3.4.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Compare_and_swap(
    origin_addr: *const c_void,
    compare_addr: *const c_void,
    result_addr: *mut c_void,
    datatype: MPI_Datatype,
    target_rank: c_int,
    target_disp: MPI_Aint,
    win: MPI_Win,
) -> c_int {
    let short = |state: &State, window: &Window| {
        let here = Here {
            origin: origin_addr.cast(),
            compare: compare_addr.cast(),
            result: result_addr.cast(),
        };
        let there = There {
            rank: target_rank,
            disp: target_disp,
            count: 1,
            datatype,
        };
        // SAFETY: the program owns the elements that it describes.
        unsafe { short::update(state, window, &here, &there, None) }
    };
    run("MPI_Compare_and_swap", win, None, short, |hold, window| {
        predefined(hold, "MPI_Compare_and_swap", datatype)?;
        let origin = local(hold, (origin_addr, 1, datatype), "count")?;
        let compare = local(hold, (compare_addr, 1, datatype), "count")?;
        let result = local(hold, (result_addr.cast_const(), 1, datatype), "count")?;
        match target(hold, window, target_rank, target_disp, 1, datatype)? {
            Some(target) => update::compare_and_swap(hold, window, &origin, &compare, &result, &target),
            None => Ok(()),
        }
    })
}
