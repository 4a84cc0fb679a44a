//! # Safety
//! Copies between what is shown and rows of the program, which are as long as the callers say and do not overlap.
//!
//! Operations that move data, as [`moves`](super::moves) does in one turn, of bytes that lie in rows: nothing but numbers goes on. What
//! others see of them is the same, so each rank may go either way. They are not counted for a profile.
#![allow(unsafe_code)]

use super::{Turn, View, Where};
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::sys::copy;

/// Rows of blocks of the program, the one that is sent and the one that is received.
pub type Rows = (*const u8, *mut u8);

/// The root shows its row and does not wait; the others copy it to theirs.
///
/// # Errors
/// As [`moves::bcast`](super::moves::bcast).
#[inline(always)]
pub fn bcast(hold: &mut Hold, at: Where, root: u32, (row, len): (*mut u8, usize)) -> Result<()> {
    let turn = at.turn();
    if at.comm.rank == root {
        put(hold, &turn, row, len)?;
        turn.finish(hold);
        return Ok(());
    }
    take(hold, &turn, root, row, len)?;
    turn.finish(hold);
    Ok(())
}

/// Everybody shows its row of `len` bytes at `from`, and the root takes them to `to`, one behind the other.
///
/// # Errors
/// As [`moves::gather`](super::moves::gather).
#[inline]
pub fn gather(hold: &mut Hold, at: Where, root: u32, (from, to): Rows, len: usize) -> Result<()> {
    let turn = at.turn();
    if at.comm.rank != root {
        put(hold, &turn, from, len)?;
        turn.finish(hold);
        return Ok(());
    }
    keep(from, block(to, root, len), len);
    turn.show_with(hold, 0, |_| ())?;
    take_all(hold, &turn, to, len)
}

/// The root shows rows of `len` bytes for all others, which lie one behind the other at `from`, and does not wait; each rank copies its
/// own to `to`.
///
/// # Errors
/// As [`moves::scatter`](super::moves::scatter).
#[inline]
pub fn scatter(hold: &mut Hold, at: Where, root: u32, (from, to): Rows, len: usize) -> Result<()> {
    let turn = at.turn();
    if at.comm.rank == root {
        put_others(hold, &turn, from, len, to)?;
        turn.finish(hold);
        return Ok(());
    }
    take_part(hold, &turn, root, to, len)?;
    turn.finish(hold);
    Ok(())
}

/// Everybody shows its row of `len` bytes at `from`, and takes all to `to`, one behind the other.
///
/// # Errors
/// As [`moves::allgather`](super::moves::allgather).
#[inline]
pub fn allgather(hold: &mut Hold, at: Where, (from, to): Rows, len: usize) -> Result<()> {
    let turn = at.exchange();
    // SAFETY: the sheet has as many bytes as the row, which the program owns.
    turn.show_with(hold, len, |sheet| unsafe { sheet.copy(from, len) })?;
    keep(from, block(to, at.comm.rank, len), len);
    take_all(hold, &turn, to, len)
}

/// Everybody shows rows of `len` bytes for all others, which lie one behind the other at `from`, and takes its own of theirs to `to`.
///
/// # Errors
/// As [`moves::alltoall`](super::moves::alltoall).
#[inline]
pub fn alltoall(hold: &mut Hold, at: Where, (from, to): Rows, len: usize) -> Result<()> {
    let (me, turn) = (at.comm.rank, at.exchange());
    let shown = len * (turn.size() as usize - 1);
    turn.show_with(hold, shown, |sheet| show_others(sheet, me, from, len, shown))?;
    keep(block(from.cast_mut(), me, len), block(to, me, len), len);
    take_parts(hold, &turn, to, len)?;
    turn.seen_all();
    turn.finish(hold);
    Ok(())
}

/// What the only member of a communicator has for itself.
#[inline]
pub fn alone(rows: Rows, len: usize) {
    keep(rows.0, rows.1, len);
}

/// Copies the row that rank `me` has to its place among those of all.
#[inline(always)]
pub(super) fn keep_among((from, to): Rows, me: u32, len: usize) {
    keep(from, block(to, me, len), len);
}

/// Copies the row that a rank has for itself.
#[inline(always)]
fn keep(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: rows of the program, which do not overlap.
    unsafe { copy::bytes(from, to, len) };
}

/// The row of `rank`.
#[inline(always)]
pub(super) fn block(first: *mut u8, rank: u32, len: usize) -> *mut u8 {
    first.wrapping_add(rank as usize * len)
}

/// Writes the rows of all but rank `me`, `shown` bytes.
#[inline(always)]
fn show_others(sheet: &mut super::Sheet, me: u32, from: *const u8, len: usize, shown: usize) {
    let below = me as usize * len;
    // SAFETY: the sheet has as many bytes as all rows but one, which the program owns.
    unsafe {
        sheet.copy_to(0, from, below);
        sheet.copy_to(below, from.wrapping_add(below + len), shown - below);
    }
}

/// Shows a row, and wakes nobody yet.
#[inline(always)]
pub(super) fn put(hold: &mut Hold, turn: &Turn, from: *const u8, len: usize) -> Result<()> {
    // SAFETY: the sheet has as many bytes as the row, which the program owns.
    turn.put(hold, len, false, |sheet| unsafe { sheet.copy(from, len) })
}

/// Shows the rows for all others, which lie one behind the other at `from`, and copies its own to `own`; wakes nobody yet.
#[inline(always)]
pub(super) fn put_others(hold: &mut Hold, turn: &Turn, from: *const u8, len: usize, own: *mut u8) -> Result<()> {
    let (me, shown) = (turn.comm.rank, len * (turn.size() as usize - 1));
    // Before what is shown: stores to lines that others have would hold up those behind them.
    keep(block(from.cast_mut(), me, len), own, len);
    turn.put(hold, shown, false, |sheet| show_others(sheet, me, from, len, shown))
}

/// Takes what all others show.
#[inline(always)]
pub(super) fn take_others(hold: &mut Hold, turn: &Turn, to: *mut u8, len: usize) -> Result<()> {
    turn.comm
        .others()
        .try_for_each(|rank| take(hold, turn, rank, block(to, rank, len), len))
}

/// Takes its rows from all others, which show one for each.
#[inline(always)]
pub(super) fn take_parts(hold: &mut Hold, turn: &Turn, to: *mut u8, len: usize) -> Result<()> {
    turn.comm
        .others()
        .try_for_each(|rank| take_part(hold, turn, rank, block(to, rank, len), len))
}

/// Takes what all others show, and ends the turn.
#[inline(always)]
fn take_all(hold: &mut Hold, turn: &Turn, to: *mut u8, len: usize) -> Result<()> {
    take_others(hold, turn, to, len)?;
    turn.seen_all();
    turn.finish(hold);
    Ok(())
}

/// Takes what rank `from` shows.
#[inline(always)]
pub(super) fn take(hold: &mut Hold, turn: &Turn, from: u32, to: *mut u8, len: usize) -> Result<()> {
    let view = turn.see(hold, from, Some(len))?;
    copy_view(hold, &view, to, len);
    Ok(())
}

/// Takes its row from a rank that shows one for each of the others.
#[inline(always)]
pub(super) fn take_part(hold: &mut Hold, turn: &Turn, from: u32, to: *mut u8, len: usize) -> Result<()> {
    let view = turn.see_part(hold, from, len)?;
    copy_view(hold, &view, to, len);
    Ok(())
}

#[inline(always)]
fn copy_view(hold: &Hold, view: &View, to: *mut u8, len: usize) {
    // SAFETY: the view has so many bytes, and the program owns the row.
    unsafe { hold.engine.channel.ahead.from_peer(view.data, to, len) };
}
