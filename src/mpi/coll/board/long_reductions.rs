//! # Safety
//! Reduces into the program's receive buffer, or into memory of ours of the same size; reads its
//! operand. What is read from other ranks is as long as the elements that are reduced.
//!
//! Reductions of long vectors by boards, of predefined operations: every rank reduces a part, block by
//! block through the cache, in the order of the ranks from the last one down.
#![allow(unsafe_code)]

use super::Where;
use super::far::{BLOCK, Offer, Reader, WHOLE};
use super::moves::keep;
use super::reductions::{self, Elements};
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::args::Reduction;
use crate::mpi::coll::schedule::share;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::sys::copy;
use crate::sys::pages::PAGE;

/// Percent of a copy to scratch memory that showing takes in all where the root reduces beside it, which it can't while it reads.
const AT_ONCE: u64 = 100;

/// Bytes above which one copy to the root is not tried: it reduces pieces while the next are shown.
const REDUCE_MOST: usize = 128 << 10;

/// Elements of a rank's operand, or of a part of the result: first and number.
type Part = (usize, usize);

impl Elements<'_> {
    fn bytes(&self, (first, count): Part) -> (usize, usize) {
        (first * self.extent, count * self.extent)
    }

    /// Reduces `part` of what ranks 0 to `last` have into `to`, which overlaps this rank's operand
    /// unless `apart`.
    fn reduce_long(
        &self,
        hold: &mut Hold,
        reader: &mut Reader,
        (me, last): (u32, u32),
        part: Part,
        to: *mut u8,
        apart: bool,
    ) -> Result<()> {
        let Reduction { op, element, .. } = self.reduction;
        let each = (BLOCK / self.extent.max(1)).max(1);
        let room = each.min(part.1) * self.extent;
        let mut kept = std::mem::take(&mut hold.desk.blocks);
        if kept.len() < 2 * room {
            kept.resize(2 * room, 0);
        }
        let (left_room, own_room) = (kept.as_mut_ptr(), kept.as_mut_ptr().wrapping_add(room));
        let mine = self.operand().address;
        let mut done = 0;
        while done < part.1 {
            let count = each.min(part.1 - done);
            let (start, len) = self.bytes((part.0 + done, count));
            let target = to.wrapping_add(done * self.extent);
            let right = if apart { target } else { own_room };
            let from = match last == me {
                true => mine.wrapping_add(start).cast_const(),
                // SAFETY: the caller's memory, or `own_room`.
                false => unsafe { reader.get(hold, last, (start, len), right)? },
            };
            if from != right.cast_const() {
                // SAFETY: `len` bytes at both; `right` is no part of an operand.
                unsafe { copy::many(from, right, len) };
            }
            for rank in (0..last).rev() {
                let left = match rank == me {
                    true => mine.wrapping_add(start).cast_const(),
                    // SAFETY: `left_room` holds a block.
                    false => unsafe { reader.get(hold, rank, (start, len), left_room)? },
                };
                // SAFETY: `count` elements at both, apart from each other.
                unsafe { op.reduce(hold, &element.datatype, element.handle, left, right, count)? };
            }
            if !apart {
                // SAFETY: the operand's elements here are not needed any more, the caller says.
                unsafe { copy::many(right, target, len) };
            }
            done += count;
        }
        hold.desk.blocks = kept;
        Ok(())
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
        let (me, turn) = (at.comm.rank, at.turn());
        let readers = at.others().map(|rank| (rank, self.bytes(part(rank))));
        let offer = Offer::whole(&self.operand(), readers);
        turn.offer(hold, &offer)?;
        let (mine, whole) = (part(me), Some(self.size()));
        let reader = Reader::new(hold, &turn, at.others(), false, whole, Some(&offer), |_| {
            self.bytes(mine)
        });
        let outcome = reader.and_then(|mut reader| {
            let last = at.comm.size() - 1;
            self.reduce_long(hold, &mut reader, (me, last), mine, to, apart)
        });
        turn.seen_all();
        turn.end(hold, outcome, Some(&offer))
    }

    fn is_in_place(&self) -> bool {
        self.send.is_none()
    }
}

/// Everybody reduces its part of all operands, and copies the other parts of the result.
/// Cost: about 2 n bytes read by each rank, n reduced, two turns.
///
/// # Errors
/// `Other`: a member is in another call, or has another number of elements.
pub fn allreduce(hold: &mut Hold, at: Where, elements: &Elements) -> Result<()> {
    let part = |rank| share(elements.count, at.comm.size(), rank);
    let result = |rank| {
        let (first, count) = part(rank);
        elements.result(first, count)
    };
    let mine = result(at.comm.rank);
    // Nobody but this rank reads its operand where its part of the result goes.
    elements.reduce_parts(hold, at, part, mine.address, !elements.is_in_place())?;
    let turn = at.turn();
    let offer = Offer::whole(&mine, at.others().map(|rank| (rank, WHOLE)));
    turn.offer(hold, &offer)?;
    let wanted = |rank| (0, result(rank).len());
    let reader = Reader::new(hold, &turn, at.others(), false, None, Some(&offer), wanted);
    let outcome = reader.and_then(|mut reader| {
        let mut others = at.others();
        others.try_for_each(|rank| reader.copy(hold, rank, 0, &result(rank)))
    });
    turn.seen_all();
    turn.end(hold, outcome, Some(&offer))
}

/// Everybody reduces its part of all operands, and the root copies them.
/// Cost: about n bytes read by each rank, 2 n by the root, n reduced, two turns.
///
/// # Errors
/// As [`allreduce`].
pub fn reduce(hold: &mut Hold, at: Where, root: u32, elements: &Elements) -> Result<()> {
    let part = |rank| share(elements.count, at.comm.size(), rank);
    let (first, count) = part(at.comm.rank);
    if at.comm.rank == root {
        let mine = elements.result(first, count);
        elements.reduce_parts(hold, at, part, mine.address, !elements.is_in_place())?;
        let turn = at.turn();
        let wanted = |rank| (0, elements.bytes(part(rank)).1);
        let reader = Reader::new(hold, &turn, at.others(), false, None, None, wanted);
        let outcome = reader.and_then(|mut reader| {
            at.others().try_for_each(|rank| {
                let (first, count) = part(rank);
                reader.copy(hold, rank, 0, &elements.result(first, count))
            })
        });
        return turn.end(hold, outcome, None);
    }
    let mut room = vec![0u8; elements.bytes((first, count)).1];
    elements.reduce_parts(hold, at, part, room.as_mut_ptr(), true)?;
    let turn = at.turn();
    let result = Buffer::bytes(room.as_mut_ptr(), room.len());
    let offer = Offer::whole(&result, std::iter::once((root, WHOLE)));
    turn.offer(hold, &offer)?;
    turn.end(hold, Ok(()), Some(&offer))
}

/// As [`reductions::reduce`] of two ranks, of which the other one offers its operand, or shows it, as it has learnt
/// ([`Where::decides`]). Cost: n bytes read and reduced by the root.
///
/// # Errors
/// As [`allreduce`].
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
/// As [`allreduce`].
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
/// As [`allreduce`].
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
/// As [`allreduce`].
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
