//! # Safety
//! Hands the application's buffers on: relies on its pointers, counts and datatypes.
//!
//! Buffers for buffered sends: the process's, those of communicators and of sessions (MPI-4.1 §3.6).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::pt2pt::store_request;
use super::session::on_session;
use super::types::*;
use crate::fail;
use crate::mpi::pt2pt::buffered::Account;
use crate::mpi::request::{Kind, Request};
use std::ffi::{c_int, c_void};

fn attach(account: &Account, buffer: *mut c_void, size: i64) -> Result<()> {
    if size < 0 {
        fail!(Arg, "size is {size} but must not be negative");
    }
    let mut attached = account.borrow_mut();
    if attached.buffer.is_some() {
        fail!(Buffer, "a buffer is attached already");
    }
    let automatic = buffer == MPI_BUFFER_AUTOMATIC;
    let room = if automatic { usize::MAX } else { size as usize };
    attached.buffer = Some((buffer as usize, room));
    Ok(())
}

/// Waits until all messages held against the account have left.
fn flush(hold: &mut Hold, account: &Account) -> Result<()> {
    hold.wait_until(None, |_| Ok(account.borrow().is_idle()))
}

fn detach<C: Copy + TryFrom<i64> + From<i16>>(
    hold: &mut Hold,
    account: &Account,
    buffer_addr: *mut c_void,
    size: *mut C,
) -> Result<()> {
    // Without one, as in MPICH: nothing, of 0 bytes.
    let (address, len) = account.borrow().buffer.unwrap_or_default();
    load(buffer_addr.cast::<u8>(), "buffer_addr")?;
    load(size, "size")?;
    flush(hold, account)?;
    account.borrow_mut().buffer = None;
    store(buffer_addr.cast::<usize>(), "buffer_addr", address)?;
    store_count(size, "size", i64::try_from(len).unwrap_or(0))
}

/// The request that is over when what has been sent so far has left.
fn iflush(hold: &mut Hold, account: &Account, request: *mut MPI_Request) -> Result<()> {
    load(request, "request")?;
    let epoch = account.borrow_mut().next_epoch();
    let key = hold.add_request(Request::new(Kind::Flush(account.clone(), epoch), None))?;
    store_request(request, key)
}

/// Attaches a buffer for the buffered sends of the process. MPI-4.1 §3.6.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Buffer_attach(buffer: *mut c_void, size: Count) -> c_int {
    on_world("MPI_Buffer_attach", |hold| {
        attach(&hold.engine.buffered, buffer, size.into())
    })
}

/// Waits for the buffered sends and takes their buffer back. MPI-4.1 §3.6.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Buffer_detach(buffer_addr: *mut c_void, size: *mut Count) -> c_int {
    on_world("MPI_Buffer_detach", |hold| {
        let account = hold.engine.buffered.clone();
        detach(hold, &account, buffer_addr, size)
    })
}

/// Waits until all buffered sends have left. MPI-4.1 §3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Buffer_flush() -> c_int {
    on_world("MPI_Buffer_flush", |hold| {
        let account = hold.engine.buffered.clone();
        flush(hold, &account)
    })
}

/// Starts waiting until the buffered sends of so far have left. MPI-4.1 §3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Buffer_iflush(request: *mut MPI_Request) -> c_int {
    on_world("MPI_Buffer_iflush", |hold| {
        let account = hold.engine.buffered.clone();
        iflush(hold, &account, request)
    })
}

/// Attaches a buffer for the buffered sends of a communicator. MPI-4.1 §3.6.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_attach_buffer(comm: MPI_Comm, buffer: *mut c_void, size: Count) -> c_int {
    on_comm("MPI_Comm_attach_buffer", comm, |_, comm| {
        attach(&comm.buffered, buffer, size.into())
    })
}

/// Waits for the communicator's buffered sends and takes their buffer back. MPI-4.1 §3.6.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_detach_buffer(comm: MPI_Comm, buffer_addr: *mut c_void, size: *mut Count) -> c_int {
    on_comm("MPI_Comm_detach_buffer", comm, |hold, comm| {
        detach(hold, &comm.buffered, buffer_addr, size)
    })
}

/// Waits until what is in the communicator's buffer has left. MPI-4.1 §3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_flush_buffer(comm: MPI_Comm) -> c_int {
    on_comm("MPI_Comm_flush_buffer", comm, |hold, comm| flush(hold, &comm.buffered))
}

/// Starts waiting until what is in the communicator's buffer has left. MPI-4.1 §3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_iflush_buffer(comm: MPI_Comm, request: *mut MPI_Request) -> c_int {
    on_comm("MPI_Comm_iflush_buffer", comm, |hold, comm| {
        iflush(hold, &comm.buffered, request)
    })
}

/// Attaches a buffer for the buffered sends on communicators of a session. MPI-4.1 §3.6.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_attach_buffer(session: MPI_Session, buffer: *mut c_void, size: Count) -> c_int {
    on_session("MPI_Session_attach_buffer", session, |_, session| {
        attach(&session.buffered, buffer, size.into())
    })
}

/// Waits for the session's buffered sends and takes their buffer back. MPI-4.1 §3.6.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_detach_buffer(
    session: MPI_Session,
    buffer_addr: *mut c_void,
    size: *mut Count,
) -> c_int {
    on_session("MPI_Session_detach_buffer", session, |hold, session| {
        detach(hold, &session.buffered, buffer_addr, size)
    })
}

/// Waits until what is in the session's buffer has left. MPI-4.1 §3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_flush_buffer(session: MPI_Session) -> c_int {
    on_session("MPI_Session_flush_buffer", session, |hold, session| {
        flush(hold, &session.buffered)
    })
}

/// Starts waiting until what is in the session's buffer has left. MPI-4.1 §3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_iflush_buffer(session: MPI_Session, request: *mut MPI_Request) -> c_int {
    on_session("MPI_Session_iflush_buffer", session, |hold, session| {
        iflush(hold, &session.buffered, request)
    })
}
