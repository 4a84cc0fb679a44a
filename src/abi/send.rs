//! # Safety
//! Hands the application's buffers on: relies on its pointers, counts and datatypes.
//!
//! Sends in all modes, blocking, nonblocking and persistent (MPI-4.1 §3.4, §3.7.2, §3.9).
#![allow(unsafe_code)]

use super::constants::{MPI_PROC_NULL, MPI_SUCCESS};
use super::edge::*;
use super::pt2pt::*;
use super::request::REQUEST_SENT;
use super::timing;
use super::types::*;
use crate::channel::Pushed;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::datatype::basic::row_size;
use crate::mpi::pt2pt::Envelope;
use crate::mpi::pt2pt::engine::CAREFUL;
use crate::mpi::pt2pt::persistent::{self, Operation};
use crate::mpi::pt2pt::{self, Mode};
use crate::mpi::world::State;
use crate::shm::ring::INLINE;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// Arguments of a send in the order of the C functions: address, count, datatype, destination, tag.
pub(super) type Arguments = (*const c_void, i64, MPI_Datatype, c_int, c_int);

/// The shortest way: sends a message that fits into a slot of the ring. `None`, and nothing done, when it cannot go that
/// way or when anything is wrong or unusual: [`short`] is for that. Makes no call but a last one, so that everything stays
/// in registers and few or none have to be saved; the limit on its instructions stands in `scripts/instructions`. `sent` is
/// called when the message is there.
#[inline(always)]
fn shortest(
    call: usize,
    (buf, count, datatype, dest, tag): Arguments,
    comm: MPI_Comm,
    sent: impl FnOnce(),
) -> Option<c_int> {
    let mut hold = current_world()?.hold_alone()?;
    let state: &mut State = &mut hold;
    let (comm, to) = on_short_way(state, CAREFUL | timing::bit(call), comm, dest)?;
    let size = row_size(datatype)?;
    // Neither negative counts nor such that the product could overflow.
    if tag < 0 || count as u64 > INLINE as u64 || buf.is_null() {
        return None;
    }
    let envelope = Envelope::program(comm, tag).0;
    let channel = &mut state.engine.channel;
    // SAFETY: the program owns the bytes that it describes.
    let pushed = unsafe { channel.push_few(to, envelope, buf.cast(), count as usize * size) };
    if pushed == Pushed::Not {
        return None;
    }
    sent();
    timing::count(state, Some(call));
    Some(match pushed {
        Pushed::Asleep => wake(state, to),
        _ => MPI_SUCCESS,
    })
}

/// Wakes rank `to` of the job, at the end of a send.
#[cold]
#[inline(never)]
fn wake(state: &State, to: u32) -> c_int {
    state.engine.channel.wake(to);
    MPI_SUCCESS
}

/// The short way: sends a message in a row through the ring if that needs no waiting. False, and nothing done, when it
/// cannot go that way or when anything is wrong: the long way says what. `call` is counted when it is
/// over, unless it is timed. Only a blocking send may go in parts: a window of others is faster whole.
#[inline(always)]
fn short(call: Option<usize>, (buf, count, datatype, dest, tag): Arguments, comm: MPI_Comm, blocking: bool) -> bool {
    let Some(world) = current_world() else { return false };
    let mut hold = world.hold();
    let state: &mut State = &mut hold;
    let Some((comm, to)) = on_short_way(state, CAREFUL | call.map_or(0, timing::bit), comm, dest) else {
        return dest == MPI_PROC_NULL && to_nobody(state, call, (buf, count, datatype, tag), comm);
    };
    if tag < 0 || count < 0 || buf.is_null() {
        return false;
    }
    let Some((address, len)) = row(state, buf, count as usize, datatype) else {
        return false;
    };
    let envelope = Envelope::program(comm, tag).0;
    let channel = &mut state.engine.channel;
    // SAFETY: the program owns the bytes that it describes.
    let sent = unsafe {
        match blocking && channel.overlaps(len) {
            true => channel.push_parts(to, envelope, address, len),
            false => channel.push_row(to, envelope, address, len),
        }
    };
    if !matches!(sent, Ok(true)) {
        return false;
    }
    if channel.meter().is_some() {
        channel.count_row(to, envelope, len);
    }
    timing::count(state, call);
    true
}

/// [`short`] to MPI_PROC_NULL.
#[inline(never)]
fn to_nobody(
    state: &mut State,
    call: Option<usize>,
    (buf, count, datatype, tag): (*const c_void, i64, MPI_Datatype, c_int),
    comm: MPI_Comm,
) -> bool {
    let careful = state.engine.detours & (CAREFUL | call.map_or(0, timing::bit)) != 0;
    let is_wrong = tag < 0 || count < 0 || buf.is_null() || comm_of(state, comm).is_none();
    if careful || is_wrong || row(state, buf, count as usize, datatype).is_none() {
        return false;
    }
    timing::count(state, call);
    true
}

/// Starts a send; one that is over at once needs no request of its own.
fn start(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    (buf, count, datatype, dest, tag): Arguments,
    mode: Option<Mode>,
    request: *mut MPI_Request,
) -> Result<()> {
    let count = self::count(count, "count")?;
    let (buffer, to) = outgoing(hold, comm, buf, count, datatype, dest, tag)?;
    load(request, "request")?;
    let Some(to) = to else {
        return store(request, "request", REQUEST_SENT);
    };
    let Some(mode) = mode else {
        pt2pt::bsend(hold, comm, buffer, to, tag)?;
        return store(request, "request", REQUEST_SENT);
    };
    let key = pt2pt::isend(hold, comm, Plane::PointToPoint, buffer, to, tag, mode)?;
    store_request(request, key)
}

/// What an argument list describes, sent in `mode` (buffered: `None`).
#[inline(always)]
fn send_now(call: usize, name: &'static str, arguments: Arguments, comm: MPI_Comm, mode: Option<Mode>) -> c_int {
    if matches!(mode, Some(Mode::Standard | Mode::Ready)) && short(Some(call), arguments, comm, true) {
        return MPI_SUCCESS;
    }
    let (buf, count, datatype, dest, tag) = arguments;
    send_long(call, name, buf, count, datatype, dest, tag, comm, mode)
}

/// Its arguments are the call's own, where they lie.
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn send_long(
    call: usize,
    name: &'static str,
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Option<Mode>,
) -> c_int {
    let arguments = (buf, count, datatype, dest, tag);
    let short = || (mode == Some(Mode::Standard) && short(None, arguments, comm, true)).then_some(MPI_SUCCESS);
    let long = || on_comm(name, comm, |hold, comm| send_other(hold, comm, arguments, mode));
    timing::long_way(call, short, long)
}

fn send_other(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    (buf, count, datatype, dest, tag): Arguments,
    mode: Option<Mode>,
) -> Result<()> {
    let count = self::count(count, "count")?;
    let (buffer, to) = outgoing(hold, comm, buf, count, datatype, dest, tag)?;
    let Some(to) = to else { return Ok(()) };
    match mode {
        Some(mode) => pt2pt::send(hold, comm, Plane::PointToPoint, buffer, to, tag, mode),
        None => pt2pt::bsend(hold, comm, buffer, to, tag),
    }
}

/// The same, started.
#[inline(always)]
fn send_started(
    call: usize,
    name: &'static str,
    arguments: Arguments,
    comm: MPI_Comm,
    mode: Option<Mode>,
    request: *mut MPI_Request,
) -> c_int {
    if matches!(mode, Some(Mode::Standard | Mode::Ready))
        && !request.is_null()
        && short(Some(call), arguments, comm, false)
    {
        // SAFETY: not NULL, hence the application's variable.
        unsafe { request.write(REQUEST_SENT) };
        return MPI_SUCCESS;
    }
    let (buf, count, datatype, dest, tag) = arguments;
    start_long(call, name, buf, count, datatype, dest, tag, comm, mode, request)
}

#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn start_long(
    call: usize,
    name: &'static str,
    buf: *const c_void,
    count: i64,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    mode: Option<Mode>,
    request: *mut MPI_Request,
) -> c_int {
    let arguments = (buf, count, datatype, dest, tag);
    let short = || {
        let sent = mode == Some(Mode::Standard) && !request.is_null() && short(None, arguments, comm, false);
        // SAFETY: not NULL, hence the application's variable.
        sent.then(|| unsafe { request.write(REQUEST_SENT) })
            .map(|()| MPI_SUCCESS)
    };
    let long = || on_comm(name, comm, |hold, comm| start(hold, comm, arguments, mode, request));
    timing::long_way(call, short, long)
}

/// The same, as a persistent request.
fn send_described(
    name: &'static str,
    (buf, count, datatype, dest, tag): Arguments,
    comm: MPI_Comm,
    mode: Option<Mode>,
    request: *mut MPI_Request,
) -> c_int {
    on_comm(name, comm, |hold, comm| {
        let count = self::count(count, "count")?;
        let (buffer, _) = outgoing(hold, comm, buf, count, datatype, dest, tag)?;
        let operation = Operation::Send {
            comm: comm.clone(),
            buffer,
            dest,
            tag,
            mode,
        };
        store_request(request, persistent::create(hold, operation)?)
    })
}

/// Blocking standard-mode send. MPI-4.1 §3.4.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Send(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    /// Takes over the arguments where they lie.
    #[inline(never)]
    fn other(b: *const c_void, n: Count, datatype: MPI_Datatype, dest: c_int, tag: c_int, comm: MPI_Comm) -> c_int {
        let arguments = (b, n.into(), datatype, dest, tag);
        send_now(CALL, "MPI_Send", arguments, comm, Some(Mode::Standard))
    }
    if let Some(done) = shortest(CALL, (buf, count.into(), datatype, dest, tag), comm, || ()) {
        return done;
    }
    other(buf, count, datatype, dest, tag, comm)
}

/// Nonblocking standard-mode send. MPI-4.1 §3.7.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Isend(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    /// Takes over the arguments where they lie.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    fn other(
        b: *const c_void,
        n: Count,
        datatype: MPI_Datatype,
        dest: c_int,
        tag: c_int,
        comm: MPI_Comm,
        request: *mut MPI_Request,
    ) -> c_int {
        let arguments = (b, n.into(), datatype, dest, tag);
        send_started(CALL, "MPI_Isend", arguments, comm, Some(Mode::Standard), request)
    }
    // The fewer stores the better: those that wait in the store buffer behind a slot whose line is still to come leave less of it to the
    // next slots, and to a CPU far away that decides how many lines are under way.
    if !request.is_null() {
        // SAFETY: not NULL, hence the application's variable.
        let sent = || unsafe { request.write(REQUEST_SENT) };
        if let Some(done) = shortest(CALL, (buf, count.into(), datatype, dest, tag), comm, sent) {
            return done;
        }
    }
    other(buf, count, datatype, dest, tag, comm, request)
}

/// Makes a persistent request for a standard-mode send. MPI-4.1 §3.9.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Send_init(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_described(
        "MPI_Send_init",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Standard),
        request,
    )
}

/// Blocking synchronous send. MPI-4.1 §3.4.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Ssend(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send_now(
        CALL,
        "MPI_Ssend",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Synchronous),
    )
}

/// Nonblocking synchronous send. MPI-4.1 §3.7.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Issend(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_started(
        CALL,
        "MPI_Issend",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Synchronous),
        request,
    )
}

/// Makes a persistent request for a synchronous send. MPI-4.1 §3.9.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Ssend_init(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_described(
        "MPI_Ssend_init",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Synchronous),
        request,
    )
}

/// Blocking ready send. MPI-4.1 §3.4.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Rsend(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send_now(
        CALL,
        "MPI_Rsend",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Ready),
    )
}

/// Nonblocking ready send. MPI-4.1 §3.7.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Irsend(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_started(
        CALL,
        "MPI_Irsend",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Ready),
        request,
    )
}

/// Makes a persistent request for a ready send. MPI-4.1 §3.9.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Rsend_init(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_described(
        "MPI_Rsend_init",
        (buf, count.into(), datatype, dest, tag),
        comm,
        Some(Mode::Ready),
        request,
    )
}

/// Blocking buffered send. MPI-4.1 §3.4.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Bsend(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
) -> c_int {
    send_now(CALL, "MPI_Bsend", (buf, count.into(), datatype, dest, tag), comm, None)
}

/// Nonblocking buffered send. MPI-4.1 §3.7.2.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Ibsend(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_started(
        CALL,
        "MPI_Ibsend",
        (buf, count.into(), datatype, dest, tag),
        comm,
        None,
        request,
    )
}

/// Makes a persistent request for a buffered send. MPI-4.1 §3.9.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Bsend_init(
    buf: *const c_void,
    count: Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    send_described(
        "MPI_Bsend_init",
        (buf, count.into(), datatype, dest, tag),
        comm,
        None,
        request,
    )
}
