//! # Safety
//! Shows operands of the program, which owns them, and writes into room that is made for a share.
//!
//! Reductions by boards in which every rank reduces a share, in the order of all reductions, and shows it to those who want the result.
#![allow(unsafe_code)]

use super::reductions::{self, Elements, Part, SHARED};
use super::{Turn, Where, moves};
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

    /// Shows `strips` of this rank's operand behind each other, to ranks of which each needs its own alone: this rank's is left out,
    /// unless the operand is in place, where the result overwrites it.
    fn show_strips(&self, hold: &mut Hold, turn: &Turn, strips: &[Part]) -> Result<()> {
        let operand = self.operand();
        let kept = self.send.map(|_| turn.comm.rank as usize);
        let shown = strips.iter().enumerate().filter(|(rank, _)| Some(*rank) != kept);
        let rows = shown.map(|(_, &(first, count))| (first * self.extent, count * self.extent));
        turn.show_with(hold, rows.clone().map(|row| row.1).sum(), |sheet| {
            let mut to = 0;
            for (first, len) in rows {
                // SAFETY: the sheet has as many bytes as all rows, which are of the program's operand.
                unsafe { sheet.pack(to, &operand, first, len) };
                to += len;
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

    /// Where the share of `rank`, of `size`, of the result goes.
    pub(super) fn share_of(&self, size: u32, rank: u32) -> Buffer {
        let (first, count) = share(self.count, size, rank);
        self.result(first, count)
    }

    /// Takes the shares of the result that the others show.
    pub(super) fn take_shares(&self, hold: &mut Hold, turn: &Turn) -> Result<()> {
        for rank in turn.comm.others() {
            let room = self.share_of(turn.size(), rank);
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
/// As [`reductions::allreduce`].
pub fn reduce(hold: &mut Hold, at: Where, root: Option<u32>, elements: &Elements) -> Result<()> {
    in_pieces(at, root, elements, at.near * SHARED, |piece, room| {
        share_piece(hold, at, piece, room)
    })
}

/// Everybody reduces its block of all; `block(rank)` is (first element, elements). What is more than a turn shows goes in strips.
/// Cost: about n bytes shown and read by each rank, n / p of them reduced p times, a turn for each strip.
///
/// # Errors
/// As [`reductions::allreduce`].
pub fn reduce_scatter(hold: &mut Hold, at: Where, elements: &Elements, block: impl Fn(u32) -> Part) -> Result<()> {
    match elements.size() <= at.near * SHARED {
        true => reductions::reduce_scatter(hold, at, elements, block),
        false => in_strips(hold, at, elements, 0, block),
    }
}

/// As [`reduce`], for everybody, in two phases: all shares are reduced, in strips, before any is shown, `wide` bytes of it at a time.
/// That takes fewer turns. Cost: as many bytes, a turn for each strip and for each piece of a share.
///
/// # Errors
/// As [`reductions::allreduce`].
pub fn allreduce(hold: &mut Hold, at: Where, wide: usize, elements: &Elements) -> Result<()> {
    let part = |rank| share(elements.count, at.comm.size(), rank);
    in_strips(hold, at, elements, part(at.comm.rank).0, part)?;
    let room = |rank| elements.share_of(at.comm.size(), rank);
    let at = Where { near: wide, ..at };
    moves::allgather(hold, at, None, room, part(0).1 * elements.extent)
}

/// Everybody shows a strip of each of the others' blocks and reduces that of its own, strip by strip, into the result from element
/// `first` on. In place no element is overwritten before it has been shown, if each rank's result begins where its block does, or all
/// begin with the first element.
fn in_strips(hold: &mut Hold, at: Where, elements: &Elements, first: usize, block: impl Fn(u32) -> Part) -> Result<()> {
    let (me, extent) = (at.comm.rank as usize, elements.extent);
    let blocks: Vec<Part> = (0..at.comm.size()).map(block).collect();
    let longest = blocks.iter().map(|block| block.1).max().unwrap_or(0);
    let each = strip(&blocks, at.near * SHARED / extent.max(1));
    for done in (0..longest).step_by(each) {
        let strip = |&(first, count): &Part| (first + done.min(count), each.min(count.saturating_sub(done)));
        let strips: Vec<Part> = blocks.iter().map(strip).collect();
        // The same, of strips that lie behind each other.
        let mut count = 0;
        let behind = |&(_, strip): &Part| {
            count += strip;
            (count - strip, strip)
        };
        let shown: Vec<Part> = strips.iter().map(behind).collect();
        let turn = at.exchange();
        elements.show_strips(hold, &turn, &strips)?;
        // Of this rank's operand only its own strip is looked at, as far from here as if all strips lay behind each other.
        let (own, lying) = (strips[me].0 * extent, shown[me].0 * extent);
        let all = Elements {
            send: elements.send.map(|send| send.wrapping_add(own).wrapping_sub(lying)),
            count,
            ..*elements
        };
        let to = elements.result(first + done, shown[me].1).address;
        all.reduce_together(hold, &turn, shown[me], to, |rank| shown[rank as usize])?;
        turn.seen_all();
        turn.finish(hold);
    }
    Ok(())
}

/// Elements of a strip, so that those of all `blocks` are about `most`: where some blocks are shorter, the others' strips are longer.
fn strip(blocks: &[Part], most: usize) -> usize {
    let in_all = |each: usize| blocks.iter().map(|block| block.1.min(each)).sum::<usize>();
    let least = (most / blocks.len().max(1)).max(1);
    let doubled = std::iter::successors(Some(least), |each| Some(2 * each));
    let fits = |&each: &usize| each == least || in_all(each) <= most && in_all(each / 2) < in_all(each);
    doubled.take_while(fits).last().unwrap_or(least)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::coll::args::Reduction;
    use crate::mpi::coll::board::tests::{SUM, combined, job, reduction, values};
    use crate::mpi::coll::board::{self, long_reductions};
    use crate::mpi::coll::signature::{Call, Signature};

    #[test]
    fn strips_fill_a_turn_also_where_blocks_differ() {
        let of = |counts: &[usize], most| strip(&counts.iter().map(|&count| (0, count)).collect::<Vec<_>>(), most);
        assert_eq!([of(&[900; 4], 400), of(&[900; 4], 3), of(&[900; 4], 0)], [100, 1, 1]);
        // The only long block has all of the turn to itself.
        assert_eq!(of(&[9000, 0, 0, 0], 400), 400);
        assert_eq!(of(&[9000, 9000, 3, 0], 400), 100);
        assert_eq!(of(&[150, 150, 0, 0], 400), 200);
    }

    /// Does `program` with a reduction of `count` elements of three ranks and its receive buffer, a kilobyte in a turn, and in place.
    fn each_way(
        count: usize,
        program: impl Fn(&mut Hold, Where, &Elements) + Sync,
        check: impl Fn(u32, &[i32]) + Sync,
    ) {
        for in_place in [false, true] {
            job(3, 1, &[], false, |me, world| {
                let mut hold = world.hold();
                let comm = hold.world.clone();
                let boards = board::of(&hold, &comm).unwrap().clone();
                let at = Where::new(&comm, &boards, Signature::of(Call::ReduceScatter), 1024 / SHARED);
                let mut mine = values(1, me, count);
                let mut got = if in_place { mine.clone() } else { vec![-1; count] };
                let task: Reduction = reduction(&hold, SUM, (!in_place).then_some(&mut mine), &mut got, count);
                program(&mut hold, at, &Elements::of(&task).unwrap());
                check(me, &got);
            });
        }
    }

    #[test]
    fn blocks_of_any_lengths_are_reduced_strip_by_strip() {
        for counts in [
            [700, 700, 700],
            [0, 1999, 1],
            [1500, 0, 600],
            [1, 2, 1025],
            [300, 900, 800],
        ] {
            let count: usize = counts.iter().sum();
            let block = |rank| reductions::block(&counts, rank);
            let program = |hold: &mut Hold, at: Where, all: &Elements| reduce_scatter(hold, at, all, block).unwrap();
            each_way(count, program, |me, got| {
                let (first, len) = block(me);
                assert!(
                    got[..len] == combined(SUM, 1, 3, count)[first..first + len],
                    "{counts:?} at {me}"
                );
            });
        }
    }

    #[test]
    fn an_allreduce_in_phases_gives_all_the_result() {
        for count in [3, 255, 1000, 4097] {
            let shown = |hold: &mut Hold, at: Where, all: &Elements| allreduce(hold, at, 512, all).unwrap();
            let offered =
                |hold: &mut Hold, at: Where, all: &Elements| long_reductions::allreduce(hold, at, 512, all).unwrap();
            // One cannot read the others' memory, and gets all by messages.
            let refused = |hold: &mut Hold, at: Where, all: &Elements| {
                if at.comm.rank == 1 {
                    [0, 2].into_iter().for_each(|peer| hold.engine.channel.never_read(peer));
                }
                long_reductions::allreduce(hold, at, 512, all).unwrap();
            };
            let check = |me, got: &[i32]| assert!(got == combined(SUM, 1, 3, count), "{count} at {me}");
            each_way(count, shown, check);
            each_way(count, offered, check);
            each_way(count, refused, check);
        }
    }
}
