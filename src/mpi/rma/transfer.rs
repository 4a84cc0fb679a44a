//! # Safety
//! Copies between the application's buffers and a window's memory: relies on [`Window::locate`] for the target's
//! bounds, and on the promise of [`Buffer`] for the origin.
//!
//! Put and get (MPI-4.1 §12.3).
#![allow(unsafe_code)]

use super::epoch::access;
use super::later::{self, Kind};
use super::list::{Group, List, Stretch};
use super::listed::{self, Wish};
use super::serve::{self, Request};
use super::short::Here;
use super::{Target, Way, Window, buffer_at, mail};
use crate::channel::Bytes;
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::sys::cma::{self, Direction};
use crate::sys::gather;
use std::ops::Range;
use std::rc::Rc;

/// Bytes copied at a time where they have to be spread out.
const ROW: usize = 256 << 10;

/// Copies `origin` to the target. MPI-4.1 §12.3.1.
///
/// # Errors
/// `RmaSync`, `Disp`, `RmaRange`; `Truncate`: the target has no room for all.
pub fn put(hold: &mut Hold, window: &Rc<Window>, origin: &Buffer, target: &Target) -> Result<()> {
    transfer(hold, window, origin, target, Direction::Write)
}

/// Copies the target to `origin`, at the latest when the program synchronizes. MPI-4.1 §12.3.2.
///
/// # Errors
/// As [`put`]; `Truncate`: the origin has no room for all.
pub fn get(hold: &mut Hold, window: &Rc<Window>, origin: &Buffer, target: &Target) -> Result<()> {
    transfer(hold, window, origin, target, Direction::Read)
}

/// As [`get`]; it has been done then. MPI-4.1 §12.3.5.
///
/// # Errors
/// As [`put`].
pub fn get_now(hold: &mut Hold, window: &Rc<Window>, origin: &Buffer, target: &Target) -> Result<()> {
    get(hold, window, origin, target)?;
    later::settle(hold, window, target.rank)
}

fn transfer(
    hold: &mut Hold,
    window: &Rc<Window>,
    origin: &Buffer,
    target: &Target,
    direction: Direction,
) -> Result<()> {
    access(hold, window, target.rank)?;
    let offset = window.locate(target)?;
    let len = moved(origin, target, direction)?;
    if len == 0 {
        return Ok(());
    }
    let way = window.way(hold, target)?;
    let mut asked = false;
    match way {
        Way::Here(base) => {
            let there = buffer_at(base, offset, target);
            match direction {
                Direction::Write => copy(origin, &there, len),
                Direction::Read => copy(&there, origin, len),
            }
        }
        Way::Process(_, base) | Way::Served(base) => {
            let there = buffer_at(base as *mut u8, offset, target);
            if origin.is_in_a_row() && there.is_in_a_row() {
                let bytes = (there.address as u64, origin.address, len);
                let kind = match direction {
                    Direction::Write => Kind::Put,
                    Direction::Read => Kind::Get,
                };
                // SAFETY: the program owns the origin, which it leaves to a get until it synchronizes.
                if unsafe { later::keeps(hold, window, target.rank, (kind, way), bytes)? } {
                    return Ok(());
                }
                let (there, here, len) = bytes;
                // SAFETY: the program owns the origin.
                asked = unsafe { reach_row(hold, window, (way, target.rank), (there, len), direction, here)? };
            } else {
                later::settle(hold, window, target.rank)?;
                let first = base.wrapping_add_signed(offset as i64);
                in_rows((origin, len), direction, |position, row, len| {
                    let list = stretches(target, first, position, len);
                    // SAFETY: `row` has `len` bytes of the origin or room for them.
                    asked = unsafe { reach(hold, window, (way, target.rank), &list, direction, row)? };
                    Ok(())
                })?;
            }
        }
    }
    match direction {
        Direction::Write => window.count(hold, (way, asked), target.rank, len, 0),
        Direction::Read => window.count(hold, (way, asked), target.rank, 0, len),
    }
    Ok(())
}

/// Copies the bytes in `list` from or to `row`: by member `rank`, whose they are, through the kernel or by messages. Whether the member was
/// asked in its mailbox and did all.
///
/// # Safety
/// So many bytes are at `row`, for a read to write to.
pub(super) unsafe fn reach(
    hold: &mut Hold,
    window: &Window,
    (way, rank): (Way, u32),
    list: &List,
    direction: Direction,
    row: *mut u8,
) -> Result<bool> {
    if let Some(stretch) = list.single() {
        // SAFETY: the caller's promise.
        return unsafe { reach_row(hold, window, (way, rank), stretch, direction, row) };
    }
    let reads = direction == Direction::Read;
    let wish = Wish {
        word: if reads { serve::READ } else { serve::WRITE },
        operands: usize::from(!reads),
        wanted: reads,
        size: 1,
    };
    let here = Here {
        origin: row,
        compare: row,
        result: row,
    };
    let other = |hold: &mut Hold, bytes: Range<usize>| {
        let (row, list) = (row.wrapping_add(bytes.start), list.part(bytes));
        // SAFETY: the caller's promise.
        unsafe { without_asking(hold, window, (way, rank), &list, direction, row) }
    };
    // SAFETY: the caller's promise.
    unsafe { listed::ask(hold, window, rank, list, (wish, &here), other) }
}

/// As [`reach`], of bytes that lie in a row.
///
/// # Safety
/// As [`reach`].
unsafe fn reach_row(
    hold: &mut Hold,
    window: &Window,
    (way, rank): (Way, u32),
    (there, len): Stretch,
    direction: Direction,
    row: *mut u8,
) -> Result<bool> {
    let other = |hold: &mut Hold| {
        // SAFETY: the caller's promise.
        unsafe { without_asking(hold, window, (way, rank), &[(there, len)], direction, row) }
    };
    // SAFETY: the caller's promise.
    unsafe { mail::transfer(hold, window, (rank, there), direction, (row, len), other) }
}

/// Copies the bytes in `list` from or to `row` through the kernel or by messages.
///
/// # Safety
/// As [`reach`].
unsafe fn without_asking(
    hold: &mut Hold,
    window: &Window,
    (way, rank): (Way, u32),
    list: &[Stretch],
    direction: Direction,
    row: *mut u8,
) -> Result<()> {
    match way {
        Way::Here(_) => Ok(()),
        // SAFETY: the caller's promise.
        Way::Process(pid, _) => unsafe {
            let outcome = match direction {
                Direction::Read => gather::read(pid, row, list),
                Direction::Write => cma::transfer(pid, direction, row, list),
            };
            outcome.or_else(|error| refused(rank, &error))
        },
        Way::Served(_) => {
            let list: List = list.iter().copied().collect();
            (0..list.len()).step_by(serve::MOST).try_for_each(|start| {
                let bytes = start..list.len().min(start + serve::MOST);
                let request = Request::transfer(direction, &list.part(bytes.clone()));
                // SAFETY: the caller's promise.
                let row = unsafe { std::slice::from_raw_parts_mut(row.wrapping_add(start), bytes.len()) };
                serve::ask(hold, window, rank, &request, row)
            })
        }
    }
}

/// The bytes that a transfer moves: it is a message from one side that has to fit into the other (MPI-4.1 §12.3.1).
fn moved(origin: &Buffer, target: &Target, direction: Direction) -> Result<usize> {
    let sides = [("origin", origin.len()), ("target", target.len())];
    let [(from, sent), (to, room)] = match direction {
        Direction::Write => sides,
        Direction::Read => [sides[1], sides[0]],
    };
    if sent > room {
        fail!(
            Truncate,
            "the {from} has {sent} bytes, but the {to} has room for {room}"
        );
    }
    Ok(sent)
}

/// Refuses accumulates whose sides differ in length.
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
    if error.raw_os_error() == Some(libc::ESRCH) {
        fail!(ProcFailed, "rank {rank} of the window is dead");
    }
    fail!(RmaRange, "the memory of rank {rank} is not there: {error}")
}

/// Where bytes `position .. position + len` of the target lie; `first` is its first element's address.
pub(super) fn stretches(target: &Target, first: u64, position: usize, len: usize) -> List {
    let mut list = List::default();
    let mut add = |at: isize, len: usize, count: usize, distance: isize| {
        list.push(Group {
            address: first.wrapping_add_signed(at as i64),
            len,
            count,
            distance: distance as u64,
        });
    };
    target.datatype.groups(target.count, position, len, &mut add);
    list
}

/// Copies the first `len` bytes of `from` to `to`; both have so many.
fn copy(from: &Buffer, to: &Buffer, len: usize) {
    // SAFETY: both have so many bytes; the program owns one, the window the other.
    unsafe { from.give(to, len) };
}

/// Calls `body(position, row, len)` for the first `len` bytes of `origin`, [`ROW`] at a time, with a row that holds them (for a
/// write) or takes them (for a read).
fn in_rows(
    (origin, len): (&Buffer, usize),
    direction: Direction,
    mut body: impl FnMut(usize, *mut u8, usize) -> Result<()>,
) -> Result<()> {
    let mut scratch = vec![0u8; if origin.is_in_a_row() { 0 } else { ROW.min(len) }];
    for position in (0..len).step_by(ROW) {
        let len = ROW.min(len - position);
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
