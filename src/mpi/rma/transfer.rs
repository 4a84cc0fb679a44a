//! # Safety
//! Copies between the application's buffers and a window's memory: relies on [`Window::locate`] for the target's
//! bounds, and on the promise of [`Buffer`] for the origin.
//!
//! Put and get (MPI-4.1 §12.3).
#![allow(unsafe_code)]

use super::epoch::access;
use super::serve::{self, Request};
use super::{Target, Way, Window, buffer_at, mail};
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::sys::cma::{self, Direction};

/// Bytes copied at a time where they have to be spread out.
const ROW: usize = 256 << 10;

/// Copies `origin` to the target. MPI-4.1 §12.3.1.
///
/// # Errors
/// `RmaSync`, `Disp`, `RmaRange`; `Type`: both sides do not have the same number of bytes.
pub fn put(hold: &mut Hold, window: &Window, origin: &Buffer, target: &Target) -> Result<()> {
    transfer(hold, window, origin, target, Direction::Write)
}

/// Copies the target to `origin`. MPI-4.1 §12.3.2.
///
/// # Errors
/// As [`put`].
pub fn get(hold: &mut Hold, window: &Window, origin: &Buffer, target: &Target) -> Result<()> {
    transfer(hold, window, origin, target, Direction::Read)
}

fn transfer(hold: &mut Hold, window: &Window, origin: &Buffer, target: &Target, direction: Direction) -> Result<()> {
    access(hold, window, target.rank)?;
    let offset = window.locate(target)?;
    same_length(origin, target)?;
    if origin.is_empty() {
        return Ok(());
    }
    let way = window.way(hold, target)?;
    let mut asked = false;
    match way {
        Way::Here(base) => {
            let there = buffer_at(base, offset, target);
            match direction {
                Direction::Write => copy(origin, &there),
                Direction::Read => copy(&there, origin),
            }
        }
        Way::Process(_, base) | Way::Served(base) => {
            let there = buffer_at(base as *mut u8, offset, target);
            let other = |hold: &mut Hold| far(hold, window, way, origin, target, offset, direction);
            if origin.is_in_a_row() && there.is_in_a_row() {
                let (there, here) = ((target.rank, there.address as u64), (origin.address, origin.len()));
                // SAFETY: the program owns the origin.
                asked = unsafe { mail::transfer(hold, window, there, direction, here, other)? };
            } else {
                other(hold)?;
            }
        }
    }
    match direction {
        Direction::Write => window.count(hold, (way, asked), target.rank, origin.len(), 0),
        Direction::Read => window.count(hold, (way, asked), target.rank, 0, origin.len()),
    }
    Ok(())
}

/// Copies through the kernel, or by messages.
fn far(
    hold: &mut Hold,
    window: &Window,
    way: Way,
    origin: &Buffer,
    target: &Target,
    offset: isize,
    direction: Direction,
) -> Result<()> {
    match way {
        Way::Here(_) => Ok(()),
        Way::Process(pid, base) => in_rows(origin, direction, ROW, |position, row, len| {
            let stretches = stretches(target, base.wrapping_add_signed(offset as i64), position, len);
            // SAFETY: `row` has `len` bytes, as many as the stretches have together.
            let outcome = unsafe { cma::transfer(pid, direction, row, &stretches) };
            match outcome {
                Ok(()) => Ok(()),
                Err(error) => refused(target.rank, &error),
            }
        }),
        Way::Served(base) => in_rows(origin, direction, serve::MOST, |position, row, len| {
            let stretches = stretches(target, base.wrapping_add_signed(offset as i64), position, len);
            // SAFETY: `row` has `len` bytes of the origin or room for them.
            let row = unsafe { std::slice::from_raw_parts_mut(row, len) };
            serve::ask(
                hold,
                window,
                target.rank,
                &Request::transfer(direction, &stretches),
                row,
            )
        }),
    }
}

/// Refuses transfers whose sides differ in length.
pub(super) fn same_length(origin: &Buffer, target: &Target) -> Result<()> {
    if origin.len() != target.len() {
        fail!(
            Type,
            "the origin has {} bytes, but the target {}",
            origin.len(),
            target.len()
        );
    }
    Ok(())
}

/// The error for memory of member `rank` that the kernel does not show.
pub(super) fn refused<T>(rank: u32, error: &std::io::Error) -> Result<T> {
    fail!(RmaRange, "the memory of rank {rank} is not there: {error}")
}

/// Where bytes `position .. position + len` of the target lie; `first` is its first element's address.
pub(super) fn stretches(target: &Target, first: u64, position: usize, len: usize) -> Vec<(u64, usize)> {
    let mut found: Vec<(u64, usize)> = Vec::new();
    target.datatype.segments(target.count, position, len, &mut |at, len| {
        let address = first.wrapping_add_signed(at as i64);
        match found.last_mut() {
            Some((last, room)) if last.wrapping_add(*room as u64) == address => *room += len,
            _ => found.push((address, len)),
        }
    });
    found
}

/// Copies all of `from` to `to`, which is as long.
pub(super) fn copy(from: &Buffer, to: &Buffer) {
    let len = from.len();
    // SAFETY: both have `len` bytes; the program owns one, the window the other.
    unsafe {
        if to.is_in_a_row() {
            return from.pack(0, to.address, len);
        }
        if from.is_in_a_row() {
            return to.unpack(0, from.address, len);
        }
        let mut row = vec![0u8; ROW.min(len)];
        for position in (0..len).step_by(ROW) {
            let len = ROW.min(len - position);
            from.pack(position, row.as_mut_ptr(), len);
            to.unpack(position, row.as_ptr(), len);
        }
    }
}

/// Calls `body(position, row, len)` for the bytes of `origin`, `most` at a time, with a row that holds them (for a
/// write) or takes them (for a read).
fn in_rows(
    origin: &Buffer,
    direction: Direction,
    most: usize,
    mut body: impl FnMut(usize, *mut u8, usize) -> Result<()>,
) -> Result<()> {
    let len = origin.len();
    let mut scratch = vec![0u8; if origin.is_in_a_row() { 0 } else { most.min(len) }];
    for position in (0..len).step_by(most) {
        let len = most.min(len - position);
        if origin.is_in_a_row() {
            body(position, origin.address.wrapping_add(position), len)?;
            continue;
        }
        // SAFETY: the scratch row has room for `len` bytes, and the origin has them from `position` on.
        unsafe {
            if direction == Direction::Write {
                origin.pack(position, scratch.as_mut_ptr(), len);
            }
            body(position, scratch.as_mut_ptr(), len)?;
            if direction == Direction::Read {
                origin.unpack(position, scratch.as_ptr(), len);
            }
        }
    }
    Ok(())
}
