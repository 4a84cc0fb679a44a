//! # Safety
//! Reduces into the program's receive buffer, or into memory of ours of the same size; reads its
//! operand. What is read from other ranks is as long as the elements that are reduced.
//!
//! Reductions of long vectors by boards, of predefined operations: every rank reduces a part, block by
//! block through the cache, in the order of the ranks from the last one down.
#![allow(unsafe_code)]

use super::far::{BLOCK, Offer, Reader, WHOLE, wait_all};
use super::moves::{self, keep};
use super::reductions::{self, Elements, Part};
use super::{Turn, Where, shares};
use crate::mpi::coll::args::Reduction;
use crate::mpi::coll::schedule::share;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::sys::copy;
use crate::sys::pages::PAGE;
use std::cell::RefCell;

/// Percent of a copy to scratch memory that showing takes in all where the root reduces beside it, which it can't while it reads.
const AT_ONCE: u64 = 100;

/// Bytes above which one copy to the root is not tried: it reduces pieces while the next are shown.
const REDUCE_MOST: usize = 128 << 10;

/// Bytes of all ranks' operands that are got at a time: they stay in a core's second-level cache until they are reduced.
const FETCHED: usize = 512 << 10;

/// Bytes of them that are reduced at a time.
const REDUCED: usize = 4 << 10;

impl Elements<'_> {
    fn bytes(&self, (first, count): Part) -> (usize, usize) {
        (first * self.extent, count * self.extent)
    }

    /// Reduces `part` of what ranks 0 to `last` have into `to`, which overlaps this rank's operand
    /// unless `apart`: a block of each, got from the rank behind this one on, so that no rank's memory is read by all at once, and
    /// then reduced in the order of all reductions.
    fn reduce_long(
        &self,
        hold: &mut Hold,
        reader: &mut Reader,
        (me, last): (u32, u32),
        part: Part,
        to: *mut u8,
        apart: bool,
    ) -> Result<()> {
        let ranks = last + 1;
        let most = (FETCHED / ranks as usize).clamp(PAGE, BLOCK);
        let each = (most / self.extent.max(1)).max(1);
        // The kernel copies to pages that begin like its source's more quickly.
        let row = (each.min(part.1) * self.extent).next_multiple_of(PAGE);
        let mut kept = std::mem::take(&mut hold.desk.blocks);
        let needed = ranks as usize * row + PAGE;
        if kept.len() < needed {
            kept.resize(needed, 0);
        }
        let room = kept.as_mut_ptr().wrapping_add(kept.as_ptr().align_offset(PAGE));
        let mut operands = vec![std::ptr::null(); ranks as usize];
        let mine = self.operand().address;
        for done in (0..part.1).step_by(each) {
            let count = each.min(part.1 - done);
            let (start, len) = self.bytes((part.0 + done, count));
            loop {
                let by_messages = reader.has_asked();
                for rank in (1..=ranks).map(|step| (me + step) % ranks) {
                    let room = room.wrapping_add(rank as usize * row);
                    operands[rank as usize] = match rank == me {
                        true if apart => mine.wrapping_add(start).cast_const(),
                        true => {
                            // SAFETY: the operand has the elements, the row room for them.
                            unsafe { copy::many(mine.wrapping_add(start), room, len) };
                            room.cast_const()
                        }
                        // SAFETY: the row has room for a block.
                        false => unsafe { reader.get(hold, rank, (start, len), room)? },
                    };
                }
                // Who asks for messages is through with the turn: what is mapped may have been overwritten since.
                if by_messages == reader.has_asked() {
                    break;
                }
            }
            let target = to.wrapping_add(done * self.extent);
            self.reduce_rows(hold, &operands, count, target)?;
        }
        hold.desk.blocks = kept;
        Ok(())
    }

    /// Reduces `count` elements of all `operands`, the last one first, into `to`, which overlaps none; piece by piece, so that the
    /// result stays in the first-level cache.
    fn reduce_rows(&self, hold: &mut Hold, operands: &[*const u8], count: usize, to: *mut u8) -> Result<()> {
        let Reduction { op, element, .. } = self.reduction;
        let (datatype, handle) = (&element.datatype, element.handle);
        let each = (REDUCED / self.extent.max(1)).max(1);
        for first in (0..count).step_by(each) {
            let (shift, count) = (first * self.extent, each.min(count - first));
            let to = to.wrapping_add(shift);
            let mut operands = operands.iter().rev().map(|operand| operand.wrapping_add(shift));
            let (last, second) = (operands.next(), operands.next());
            // SAFETY: `count` elements at all of them, and `to` is the caller's, apart from them.
            unsafe {
                match (last, second) {
                    (Some(right), Some(left)) => {
                        op.reduce_apart(hold, datatype, handle, (left, right), to, count)?;
                    }
                    (Some(only), None) => copy::many(only, to, count * self.extent),
                    _ => {}
                }
                operands.try_for_each(|left| op.reduce(hold, datatype, handle, left, to, count))?;
            }
        }
        Ok(())
    }

    /// Everybody offers its operand, of which each rank reads `part(rank)`.
    fn offer<'a>(&self, hold: &mut Hold, at: Where<'a>, part: impl Fn(u32) -> Part) -> Result<(Turn<'a>, Offer)> {
        let turn = at.turn();
        let readers = at.others().map(|rank| (rank, self.bytes(part(rank))));
        let offer = Offer::whole(&self.operand(), readers);
        turn.offer(hold, &offer)?;
        Ok((turn, offer))
    }

    /// Reduces this rank's part of what all offer in the turn, `part(rank)`, into `to`, which is apart from its operand or may overlap it.
    /// After an error the turn has ended.
    fn reduce_offered(
        &self,
        hold: &mut Hold,
        (turn, offer): (&Turn, &Offer),
        part: impl Fn(u32) -> Part,
        to: *mut u8,
        apart: bool,
    ) -> Result<()> {
        let (me, last) = (turn.comm.rank, turn.size() - 1);
        let (mine, whole) = (part(me), Some(self.size()));
        let reader = Reader::new(hold, turn, turn.comm.others(), false, whole, Some(offer), |_| {
            self.bytes(mine)
        });
        let outcome = reader.and_then(|mut reader| self.reduce_long(hold, &mut reader, (me, last), mine, to, apart));
        turn.seen_all();
        match outcome {
            Ok(()) => Ok(()),
            wrong => turn.end(hold, wrong, Some(offer)),
        }
    }

    /// Everybody offers its operand and reduces its part, `part(rank)`, into `to`.
    fn reduce_parts(
        &self,
        hold: &mut Hold,
        at: Where,
        part: impl Fn(u32) -> Part,
        to: *mut u8,
        apart: bool,
    ) -> Result<()> {
        let (turn, offer) = self.offer(hold, at, &part)?;
        self.reduce_offered(hold, (&turn, &offer), part, to, apart)?;
        turn.end(hold, Ok(()), Some(&offer))
    }

    fn is_in_place(&self) -> bool {
        self.send.is_none()
    }
}

/// Everybody offers its operand and reduces its share of all; then it shows that, and the root, or everybody if there is none, takes the
/// others'. Cost: about n bytes read by each rank, n more by who takes the result, n reduced, two turns for each piece.
///
/// # Errors
/// `Other`: a member is in another call, or has another number of elements.
pub fn reduce(hold: &mut Hold, at: Where, root: Option<u32>, elements: &Elements) -> Result<()> {
    let most = longest(at, elements) * at.comm.size() as usize;
    shares::in_pieces(at, root, elements, most, |piece, room| {
        reduce_piece(hold, at, piece, room)
    })
}

/// As [`reduce`], for everybody, in two phases: all shares are reduced before any is shown, `wide` bytes of it at a time.
/// Cost: as many bytes, a turn, and one for each piece of a share.
///
/// # Errors
/// As [`reduce`].
pub fn allreduce(hold: &mut Hold, at: Where, wide: usize, elements: &Elements) -> Result<()> {
    let part = |rank| share(elements.count, at.comm.size(), rank);
    let room = |rank| elements.share_of(at.comm.size(), rank);
    let (turn, offer) = elements.offer(hold, at, part)?;
    // Nobody but this rank reads its operand where its share of the result goes.
    let (mine, apart) = (room(at.comm.rank), !elements.is_in_place());
    elements.reduce_offered(hold, (&turn, &offer), part, mine.address, apart)?;
    turn.finish(hold);
    // After it has shown a piece of its share, for which others wait, and before it writes what may be read in place.
    let sent = RefCell::new(Vec::new());
    let serve = |hold: &mut Hold| {
        sent.replace(turn.serve(hold, &offer)?);
        Ok(())
    };
    let at = Where { near: wide, ..at };
    moves::allgather_then(hold, at, room, part(0).1 * elements.extent, serve)?;
    wait_all(hold, sent.take())
}

/// Bytes of the longest share of a piece, which is shown at a time: whole elements.
fn longest(at: Where, elements: &Elements) -> usize {
    let extent = elements.extent.max(1);
    (at.near / extent).max(1) * extent
}

/// One piece of a reduction whose result this rank takes, unless it only has `room` for its share.
fn reduce_piece(hold: &mut Hold, at: Where, elements: &Elements, room: Option<&mut [u8]>) -> Result<()> {
    let part = |rank| share(elements.count, at.comm.size(), rank);
    let takes = room.is_none();
    let mine = elements.share_of_mine(part(at.comm.rank), room);
    // Nobody but this rank reads its operand where its share of the result goes.
    let apart = !takes || !elements.is_in_place();
    let (turn, offer) = elements.offer(hold, at, part)?;
    elements.reduce_offered(hold, (&turn, &offer), part, mine.address, apart)?;
    turn.finish(hold);
    // Before it waits for those who read its operand: they wait for its share.
    let next = at.turn();
    next.show(hold, &mine)?;
    let sent = turn.serve(hold, &offer)?;
    if takes {
        elements.take_shares(hold, &next)?;
        next.seen_all();
    }
    next.finish(hold);
    wait_all(hold, sent)
}

/// As [`reductions::reduce`] of two ranks, of which the other one offers its operand, or shows it, as it has learnt
/// ([`Where::decides`]). Cost: n bytes read and reduced by the root.
///
/// # Errors
/// As [`reduce`].
pub fn reduce_learnt(hold: &mut Hold, at: Where, root: u32, elements: &Elements) -> Result<()> {
    let (me, len) = (at.comm.rank, elements.size());
    if me != root {
        let (offers, at) = match len {
            ..=REDUCE_MOST => at.decides(),
            _ => (false, at),
        };
        return match offers {
            true => at.offer_to(hold, root, &elements.operand(), AT_ONCE),
            false => at.timed(len, || reductions::reduce(hold, at, root, elements)),
        };
    }
    let turn = reductions::begin_reduce(hold, at, elements)?;
    if turn.see(hold, 1 - root, None)?.far.is_none() {
        return reductions::reduce_from(hold, at, turn, elements);
    }
    let mut reader = Reader::new(hold, &turn, at.others(), false, Some(len), None, |_| (0, len))?;
    reader.judges();
    let mut kept = std::mem::take(&mut hold.desk.blocks);
    if kept.len() < len + PAGE {
        kept.resize(len + PAGE, 0);
    }
    // The kernel copies to pages that begin like its source's more quickly.
    let room = kept.as_mut_ptr().wrapping_add(kept.as_ptr().align_offset(PAGE));
    // SAFETY: there is room for all of them.
    let data = unsafe { reader.get(hold, 1 - root, (0, len), room)? };
    // The other one need not wait for more than this.
    reader.tell();
    turn.seen_all();
    turn.finish(hold);
    elements.with_other(hold, me, data, elements.recv)?;
    hold.desk.blocks = kept;
    Ok(())
}

/// A scan of two ranks: to rank 1 it is a reduction, to rank 0 a copy. Cost: that of [`reduce_learnt`].
///
/// # Errors
/// As [`reduce`].
pub fn scan_learnt(hold: &mut Hold, at: Where, elements: &Elements) -> Result<()> {
    reduce_learnt(hold, at, 1, elements)?;
    if at.comm.rank == 0 && !elements.is_in_place() {
        keep(Some(&elements.operand()), Some(&elements.result(0, elements.count)));
    }
    Ok(())
}

/// Everybody reduces its block of all operands; `block(rank)` is (first element, elements).
/// Cost: about n bytes read and reduced by each rank, one turn.
///
/// # Errors
/// As [`reduce`].
pub fn reduce_scatter(hold: &mut Hold, at: Where, elements: &Elements, block: impl Fn(u32) -> Part) -> Result<()> {
    let len = elements.bytes(block(at.comm.rank)).1;
    let recv = elements.recv;
    if !elements.is_in_place() {
        return elements.reduce_parts(hold, at, block, recv, true);
    }
    // The result goes where others read this rank's operand.
    let mut room = vec![0u8; len];
    elements.reduce_parts(hold, at, block, room.as_mut_ptr(), true)?;
    // SAFETY: the receive buffer has room for the block.
    unsafe { copy::many(room.as_ptr(), recv, len) };
    Ok(())
}

/// Everybody reduces the operands of the ranks up to its own, or below its own if `exclusive`.
/// Cost: rank r reads and reduces r n bytes.
///
/// # Errors
/// As [`reduce`].
pub fn scan(hold: &mut Hold, at: Where, elements: &Elements, exclusive: bool) -> Result<()> {
    let (me, size, recv) = (at.comm.rank, at.comm.size(), elements.recv);
    let whole = (0, elements.count);
    let turn = at.turn();
    let offer = Offer::whole(&elements.operand(), (me + 1..size).map(|rank| (rank, WHOLE)));
    turn.offer(hold, &offer)?;
    let mut room = vec![0u8; if elements.is_in_place() { elements.size() } else { 0 }];
    let to = if elements.is_in_place() {
        room.as_mut_ptr()
    } else {
        recv
    };
    let last = me.checked_sub(exclusive.into());
    let mut outcome = Ok(());
    if let Some(last) = last {
        let wanted = |_| (0, elements.size());
        outcome = Reader::new(hold, &turn, 0..me, false, Some(elements.size()), Some(&offer), wanted)
            .and_then(|mut reader| elements.reduce_long(hold, &mut reader, (me, last), whole, to, true));
    }
    let outcome = turn.end(hold, outcome, Some(&offer));
    if last.is_some() && elements.is_in_place() {
        // SAFETY: the receive buffer has room for all elements.
        unsafe { copy::many(room.as_ptr(), recv, room.len()) };
    }
    outcome
}
