//! # Safety
//! Hands the application's buffers on: relies on its pointers, counts and datatypes.
//!
//! The program's buffer for buffered sends (MPI-4.1 §3.6).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use crate::fail;
use std::ffi::{c_int, c_void};

/// Attaches a buffer for buffered sends. MPI-4.1 §3.6.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Buffer_attach(buffer: *mut c_void, size: Count) -> c_int {
    on_world("MPI_Buffer_attach", |hold| {
        let size = match i64::from(size) {
            size @ 0.. => size as usize,
            size => fail!(Arg, "size is {size} but must not be negative"),
        };
        if hold.engine.buffered.buffer.is_some() {
            fail!(Buffer, "a buffer is attached already");
        }
        let automatic = buffer == MPI_BUFFER_AUTOMATIC;
        let room = if automatic { usize::MAX } else { size };
        hold.engine.buffered.buffer = Some((buffer as usize, room));
        Ok(())
    })
}

/// Waits until all buffered sends have left. MPI-4.1 §3.6.
fn flush(hold: &mut Hold) -> Result<()> {
    hold.wait_until(None, |hold| Ok(hold.engine.buffered.is_idle()))
}

/// Waits for the buffered sends and takes their buffer back. MPI-4.1 §3.6.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Buffer_detach(buffer_addr: *mut c_void, size: *mut Count) -> c_int {
    on_world("MPI_Buffer_detach", |hold| {
        let Some((address, len)) = hold.engine.buffered.buffer else {
            fail!(Buffer, "no buffer is attached");
        };
        load(buffer_addr.cast::<u8>(), "buffer_addr")?;
        load(size, "size")?;
        flush(hold)?;
        hold.engine.buffered.buffer = None;
        store(buffer_addr.cast::<usize>(), "buffer_addr", address)?;
        store_count(size, "size", i64::try_from(len).unwrap_or(0))
    })
}

/// Waits until all buffered sends have left. MPI-4.1 §3.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Buffer_flush() -> c_int {
    on_world("MPI_Buffer_flush", flush)
}
