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

/// A row of bytes of the program: the first one, and how many.
pub type Row = (*mut u8, usize);

/// Rows of a buffer of the program, one for each rank.
pub trait Rows: Copy {
    /// Whether they are as long as each other and lie one behind the other.
    const EVEN: bool;

    /// The row of `rank`.
    fn of(&self, rank: u32) -> Row;

    /// Bytes of those of all `ranks` ranks but `one`.
    #[inline(always)]
    fn len_but(&self, one: u32, ranks: u32) -> usize {
        match Self::EVEN {
            true => self.of(one).1 * (ranks as usize - 1),
            false => (0..ranks).filter(|&rank| rank != one).map(|rank| self.of(rank).1).sum(),
        }
    }

    /// Bytes of the longest of those of `ranks` ranks.
    #[inline(always)]
    fn longest(&self, ranks: u32) -> usize {
        match Self::EVEN {
            true => self.of(0).1,
            false => (0..ranks).map(|rank| self.of(rank).1).max().unwrap_or(0),
        }
    }
}

/// Rows of `len` bytes, one behind the other.
#[derive(Clone, Copy)]
pub struct Even {
    /// The first byte of the first one.
    pub first: *mut u8,
    /// Bytes of each.
    pub len: usize,
}

impl Rows for Even {
    const EVEN: bool = true;

    #[inline(always)]
    fn of(&self, rank: u32) -> Row {
        (
            self.first.wrapping_add((rank as usize).wrapping_mul(self.len)),
            self.len,
        )
    }
}

/// The root shows its row and does not wait; the others copy it to theirs.
///
/// # Errors
/// As [`moves::bcast`](super::moves::bcast).
#[inline(always)]
pub fn bcast(hold: &mut Hold, at: Where, root: u32, row: Row) -> Result<()> {
    let turn = at.turn();
    match at.comm.rank == root {
        true => put(hold, &turn, row)?,
        false => take(hold, &turn, root, row)?,
    }
    turn.finish(hold);
    Ok(())
}

/// Everybody shows its row, and the root takes them `to` its rows; nobody else has some.
///
/// # Errors
/// As [`moves::gather`](super::moves::gather).
#[inline]
pub fn gather(hold: &mut Hold, at: Where, root: u32, own: Row, to: Option<impl Rows>) -> Result<()> {
    let turn = at.turn();
    let Some(to) = to else {
        put(hold, &turn, own)?;
        turn.finish(hold);
        return Ok(());
    };
    keep(own, to.of(root).0);
    turn.show_with(hold, 0, |_| ())?;
    take_all(hold, &turn, to)
}

/// The root shows its rows `from` which all others take theirs, and does not wait; each rank copies its `own`.
///
/// # Errors
/// As [`moves::scatter`](super::moves::scatter).
#[inline]
pub fn scatter(hold: &mut Hold, at: Where, root: u32, from: Option<impl Rows>, own: Row) -> Result<()> {
    let turn = at.turn();
    match from {
        Some(from) => put_others(hold, &turn, from, own.0)?,
        None => take_part(hold, &turn, root, own)?,
    }
    turn.finish(hold);
    Ok(())
}

/// Everybody shows its `own` row, and takes all `to` its rows.
///
/// # Errors
/// As [`moves::allgather`](super::moves::allgather).
#[inline]
pub fn allgather(hold: &mut Hold, at: Where, own: Row, to: impl Rows) -> Result<()> {
    let turn = at.exchange();
    // SAFETY: the sheet has as many bytes as the row, which the program owns.
    turn.show_with(hold, own.1, |sheet| unsafe { sheet.copy(own.0, own.1) })?;
    keep(own, to.of(at.comm.rank).0);
    take_all(hold, &turn, to)
}

/// Everybody shows the rows `from` which all others take theirs, and takes its own of theirs `to` its rows. Rows that are not even are
/// those of two ranks.
///
/// # Errors
/// As [`moves::alltoall`](super::moves::alltoall).
#[inline]
pub fn alltoall(hold: &mut Hold, at: Where, from: impl Rows, to: impl Rows) -> Result<()> {
    let (me, turn) = (at.comm.rank, at.exchange());
    let shown = from.len_but(me, turn.size());
    turn.show_with(hold, shown, |sheet| show_others(sheet, (me, turn.size()), from, shown))?;
    keep(from.of(me), to.of(me).0);
    take_parts(hold, &turn, to)?;
    turn.seen_all();
    turn.finish(hold);
    Ok(())
}

/// Copies the row that a rank has for itself, unless it lies there.
#[inline(always)]
pub(in crate::mpi::coll) fn keep((from, len): Row, to: *mut u8) {
    if from != to {
        // SAFETY: rows of the program, which do not overlap.
        unsafe { copy::bytes(from, to, len) };
    }
}

/// Writes the rows of all of the ranks but `me`, `shown` bytes.
#[inline(always)]
fn show_others<R: Rows>(sheet: &mut super::Sheet, (me, ranks): (u32, u32), from: R, shown: usize) {
    let copy = |sheet: &mut super::Sheet, place: usize, (row, len): Row| {
        // The program's counts are read again.
        let len = len.min(shown - place);
        // SAFETY: the sheet has as many bytes as all rows but one, which the program owns.
        unsafe { sheet.copy_to(place, row, len) };
        place + len
    };
    if R::EVEN {
        let (own, len) = from.of(me);
        let below = copy(sheet, 0, (from.of(0).0, me as usize * len));
        copy(sheet, below, (own.wrapping_add(len), shown - below));
        return;
    }
    let others = (0..ranks).filter(|&rank| rank != me);
    others.fold(0, |place, rank| copy(sheet, place, from.of(rank)));
}

/// Shows a row, and wakes nobody yet.
#[inline(always)]
pub(super) fn put(hold: &mut Hold, turn: &Turn, (row, len): Row) -> Result<()> {
    // SAFETY: the sheet has as many bytes as the row, which the program owns.
    turn.put(hold, len, false, |sheet| unsafe { sheet.copy(row, len) })
}

/// Shows the rows `from` which all others take theirs, and copies its own to `own`; wakes nobody yet.
#[inline(always)]
pub(super) fn put_others(hold: &mut Hold, turn: &Turn, from: impl Rows, own: *mut u8) -> Result<()> {
    let (me, ranks) = (turn.comm.rank, turn.size());
    let shown = from.len_but(me, ranks);
    // Before what is shown: stores to lines that others have would hold up those behind them.
    keep(from.of(me), own);
    turn.put(hold, shown, false, |sheet| show_others(sheet, (me, ranks), from, shown))
}

/// Takes what all others show.
#[inline(always)]
pub(super) fn take_others(hold: &mut Hold, turn: &Turn, to: impl Rows) -> Result<()> {
    turn.comm
        .others()
        .try_for_each(|rank| take(hold, turn, rank, to.of(rank)))
}

/// Takes its rows from all others, which show one for each.
#[inline(always)]
pub(super) fn take_parts(hold: &mut Hold, turn: &Turn, to: impl Rows) -> Result<()> {
    turn.comm
        .others()
        .try_for_each(|rank| take_part(hold, turn, rank, to.of(rank)))
}

/// Takes what all others show, and ends the turn.
#[inline(always)]
fn take_all(hold: &mut Hold, turn: &Turn, to: impl Rows) -> Result<()> {
    take_others(hold, turn, to)?;
    turn.seen_all();
    turn.finish(hold);
    Ok(())
}

/// Takes what rank `from` shows.
#[inline(always)]
pub(super) fn take(hold: &mut Hold, turn: &Turn, from: u32, to: Row) -> Result<()> {
    let view = turn.see(hold, from, Some(to.1))?;
    copy_view(hold, &view, to);
    Ok(())
}

/// Takes its row from a rank that shows one for each of the others.
#[inline(always)]
pub(super) fn take_part(hold: &mut Hold, turn: &Turn, from: u32, to: Row) -> Result<()> {
    let view = turn.see_part(hold, from, to.1)?;
    copy_view(hold, &view, to);
    Ok(())
}

#[inline(always)]
fn copy_view(hold: &Hold, view: &View, (to, len): Row) {
    // SAFETY: the view has so many bytes, and the program owns the row.
    unsafe { hold.engine.channel.ahead.from_peer(view.data, to, len) };
}
