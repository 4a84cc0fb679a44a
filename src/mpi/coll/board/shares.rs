//! # Safety
//! Shows operands of the program, which owns them, and writes into room that is made for a share.
//!
//! Reductions by boards in which every rank reduces a share, in the order of all reductions, and shows it to those who want the result.
#![allow(unsafe_code)]

use super::reductions::{Elements, Part, SHARED};
use super::{Turn, Where};
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::schedule::share;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;

impl Elements<'_> {
    /// Shows this rank's operand to ranks that need no element of `kept`, its own part: it is left out, unless the
    /// operand is in place, where the result overwrites it.
    pub(super) fn show_to_others(&self, hold: &mut Hold, turn: &Turn, kept: Part) -> Result<()> {
        let operand = self.operand();
        if self.send.is_none() {
            return turn.show(hold, &operand);
        }
        if turn.lend_shares(hold, &operand)? {
            return Ok(());
        }
        let (before, gap) = (kept.0 * self.extent, kept.1 * self.extent);
        let after = operand.len() - before - gap;
        turn.show_with(hold, before + after, |sheet| {
            // SAFETY: the sheet has as many bytes as both parts, which are of the program's operand.
            unsafe {
                sheet.pack(0, &operand, 0, before);
                sheet.pack(before, &operand, before + gap, after);
            }
        })
    }

    /// Where this rank's share of the result goes: to the result, or else to `room`, if nobody wants the others' here.
    pub(super) fn share_of_mine(&self, (first, count): Part, room: Option<&mut [u8]>) -> Buffer {
        match room {
            Some(room) => Buffer::bytes(room.as_mut_ptr(), count * self.extent),
            None => self.result(first, count),
        }
    }

    /// Takes the shares of the result that the others show.
    pub(super) fn take_shares(&self, hold: &mut Hold, turn: &Turn) -> Result<()> {
        let room = |rank| {
            let (first, count) = share(self.count, turn.size(), rank);
            self.result(first, count)
        };
        for rank in turn.comm.others() {
            let room = room(rank);
            turn.see(hold, rank, Some(room.len()))?.copy(hold, 0, &room)?;
            turn.count(hold, rank, room.len());
        }
        Ok(())
    }
}

/// Everybody shows its operand and reduces its share of all; then everybody shows its share of the
/// result, and the root, or everybody if there is none, takes the others'.
/// Cost: about n bytes shown and read by each rank, n more by who takes the result, n reduced, two turns for each piece.
///
/// # Errors
/// As [`reductions::allreduce`](super::reductions::allreduce).
pub fn reduce(hold: &mut Hold, at: Where, root: Option<u32>, elements: &Elements) -> Result<()> {
    in_pieces(at, root, elements, at.near * SHARED, |piece, room| {
        share_piece(hold, at, piece, room)
    })
}

/// Reduces pieces of up to `most` bytes; a rank that does not take the result has room for its share of one.
pub(super) fn in_pieces(
    at: Where,
    root: Option<u32>,
    elements: &Elements,
    most: usize,
    mut reduce: impl FnMut(&Elements, Option<&mut [u8]>) -> Result<()>,
) -> Result<()> {
    let takes = root.is_none_or(|root| root == at.comm.rank);
    let share = elements.size().min(most).div_ceil(at.comm.size() as usize) + elements.extent;
    let mut room = vec![0u8; if takes { 0 } else { share }];
    elements
        .pieces(most)
        .try_for_each(|piece| reduce(&piece, (!takes).then_some(&mut room[..])))
}

/// One piece of a reduction whose result this rank takes, unless it only has `room` for its share.
fn share_piece(hold: &mut Hold, at: Where, elements: &Elements, room: Option<&mut [u8]>) -> Result<()> {
    let part = |rank: u32| share(elements.count, at.comm.size(), rank);
    let (first, count) = part(at.comm.rank);
    let takes = room.is_none();
    let mine = elements.share_of_mine((first, count), room);
    let turn = at.turn();
    elements.show_to_others(hold, &turn, (first, count))?;
    elements.reduce_together(hold, &turn, (first, count), mine.address, part)?;
    turn.seen_all();
    turn.finish(hold);
    let turn = at.turn();
    turn.show(hold, &mine)?;
    if takes {
        for rank in at.others() {
            let len = part(rank).1 * elements.extent;
            let view = turn.see(hold, rank, Some(len))?;
            hold.engine.channel.ahead.fetch_piece(view.data, view.len);
        }
        elements.take_shares(hold, &turn)?;
        turn.seen_all();
    }
    turn.finish(hold);
    Ok(())
}
