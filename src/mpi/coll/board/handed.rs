//! # Safety
//! Writes into scratch memory that this rank has claimed for the whole operation, a part of it again only when its reader is
//! through with that, and into the program's receive buffer, which the caller of the operation owns.
//!
//! Reductions that are handed on from rank to rank. Each rank reads its own operand once, in its own caches; what it gets and
//! hands on are pieces that have just been written. Where each reads a part of all operands instead, or the root all of them, every
//! operand is first copied, and read out of another's caches.
#![allow(unsafe_code)]

use super::reductions::Elements;
use super::{SLOTS, Turn, View, Where};
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::args::Reduction;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::shm::board::{INLINE, Note};
use crate::shm::sync::Ordering;
use crate::sys::copy;
use std::collections::VecDeque;

/// Where a rank puts what it hands on.
struct Window {
    /// Its place in this rank's scratch memory.
    place: usize,
    /// The length of a piece, and how many have room.
    each: usize,
    pieces: u64,
    /// Who takes the result; `None`: everybody.
    root: Option<u32>,
    /// What this rank makes is the result, and goes where the program wants it.
    ends: bool,
}

impl Window {
    /// Claims the room for `turns` pieces of up to `each` bytes, of which the first is handed on in `turn`.
    fn open(
        hold: &mut Hold,
        turn: &Turn,
        root: Option<u32>,
        turns: u64,
        (each, ends): (usize, bool),
    ) -> Result<Window> {
        let pieces = ((turn.boards.table.ahead / each) as u64)
            .clamp(1, SLOTS as u64)
            .min(turns);
        let len = each * pieces as usize;
        Ok(Window {
            // A window stays in the caches.
            place: turn.scratch(hold, len, turn.number + turns - 1, false)?,
            each,
            pieces,
            root,
            ends,
        })
    }

    /// Waits until this rank may hand on piece `index`: who reads the one whose room it takes is through with that, the rank below when it
    /// has handed on what it made of it, who takes the result when it has ended the turn.
    fn wait(&self, hold: &mut Hold, turn: &Turn, index: u64) -> Result<()> {
        if index < SLOTS as u64 {
            turn.free_slot(hold)?;
        }
        if index < self.pieces || self.ends {
            return Ok(());
        }
        let (boards, me) = (turn.boards, turn.boards.me);
        let (before, who) = (turn.number - self.pieces, (&**turn.comm, turn.tag));
        match self.root {
            _ if me > 0 => boards.wait_for(hold, me - 1, before, false, who),
            Some(root) => boards.wait_for(hold, root as usize, before, true, who),
            None => (1..boards.members.len()).try_for_each(|rank| boards.wait_for(hold, rank, before, true, who)),
        }
    }

    /// Hands on piece `index`: this rank's `elements`, reduced with what it has got. Wakes nobody yet.
    fn hand_on(&self, hold: &mut Hold, turn: &Turn, index: u64, elements: &Elements, got: Option<View>) -> Result<()> {
        let mine = &turn.boards.members[turn.boards.me];
        let slot = mine.board.slot(turn.number);
        let place = self.place + (index % self.pieces) as usize * self.each;
        let to = match elements.size() {
            _ if self.ends => elements.recv,
            ..=INLINE => slot.payload(),
            _ => mine.scratch.address().wrapping_add(place),
        };
        let operand = elements.operand();
        let Reduction { op, element, .. } = elements.reduction;
        let (datatype, handle) = (&element.datatype, element.handle);
        // SAFETY: there is room for a piece, which nobody reads now; what was got has as many elements (`see` compared the lengths). The
        // receive buffer is apart from the operand: who ends the operation in place takes the result out of its window.
        unsafe {
            match got {
                None => copy::many(operand.address, to, operand.len()),
                Some(got) => {
                    let both = (operand.address.cast_const(), got.data);
                    op.reduce_apart(hold, datatype, handle, both, to, elements.count)?;
                }
            }
        }
        let len = if self.ends { 0 } else { operand.len() };
        if len > INLINE {
            slot.set_place(place as u64);
        }
        turn.boards.shown[turn.number as usize % SLOTS].set(turn.number);
        let note = Note {
            tag: turn.tag,
            len: len as u32,
            far: false,
        };
        slot.show(turn.number, note);
        Ok(())
    }
}

/// The last rank shows its operand, each one before it what that makes with its own, in the order of all reductions; what the first one
/// shows is the result, which the root takes, or everybody if there is none. A rank is up to `ahead` bytes, as
/// the [table](crate::mpi::coll::choice::Table) says, ahead of the one below.
/// Cost: n bytes read, reduced and shown by each rank, n more copied by who takes the result, a turn for each piece.
///
/// Ranks never wait for each other in a circle: who may hand on a piece knows that the rank below has handed on the one a window before, and
/// so on down to the first, whose result of as many windows before it finds and takes then. The first waits for results within one
/// window alone.
///
/// # Errors
/// `Other`: a member is in another call.
pub fn reduce(hold: &mut Hold, at: Where, root: Option<u32>, elements: &Elements) -> Result<()> {
    let (me, last) = (at.comm.rank, at.comm.size() - 1);
    let extent = elements.extent.max(1);
    let each = (at.near / extent).max(1);
    let turns = elements.count.div_ceil(each) as u64;
    let ends = me == 0 && root == Some(0) && elements.send.is_some();
    let takes = !ends && root.is_none_or(|root| root == me);
    let mut window = None;
    let mut open = VecDeque::new();
    for (index, piece) in (0..).zip(elements.pieces(at.near)) {
        let turn = at.turn();
        let got = match me < last {
            true => Some(turn.see(hold, me + 1, Some(piece.size()))?),
            false => None,
        };
        turn.count(hold, (me + 1).min(last), piece.size());
        let window = match &mut window {
            Some(window) => window,
            none => none.insert(Window::open(hold, &turn, root, turns, (each * extent, ends))?),
        };
        window.wait(hold, &turn, index)?;
        window.hand_on(hold, &turn, index, &piece, got)?;
        if !takes {
            turn.finish(hold);
            continue;
        }
        turn.ring(hold);
        open.push_back((turn, piece));
        take(hold, &mut open, false)?;
    }
    take(hold, &mut open, true)
}

/// Takes the results of `open` turns that are there, or waits for all of them.
fn take(hold: &mut Hold, open: &mut VecDeque<(Turn, Elements)>, waits: bool) -> Result<()> {
    while let Some((turn, piece)) = open.front() {
        let shown = turn.boards.members[0].board.slot(turn.number).turn();
        if !waits && shown.load(Ordering::Acquire) < turn.number {
            return Ok(());
        }
        let room = Buffer::bytes(piece.recv, piece.size());
        turn.see(hold, 0, Some(room.len()))?.copy(hold, 0, &room)?;
        turn.count(hold, 0, room.len());
        turn.finish(hold);
        open.pop_front();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ANY, SUM, Step, What, combined, reduction, take, values};
    use super::*;
    use crate::mpi::coll::signature::{Call, Signature};
    use crate::mpi::coll::{board, support};
    use crate::sys::cvar::Settings;

    /// Settings by which all reductions go this way, in pieces of a kilobyte, or half of one.
    fn settings() -> Settings {
        let given = |name: &str| match name {
            "NEARMPI_COLLECTIVES" => Some("reduce: handed; allreduce: handed".to_string()),
            "NEARMPI_BOARD_MAX" => Some("1024".to_string()),
            _ => None,
        };
        Settings::read(given).unwrap()
    }

    #[test]
    fn any_root_and_all_ranks_get_the_result_of_any_number_of_pieces() {
        for (ranks, cpus) in [(1, 1), (2, 1), (2, 2), (3, 1), (3, 8), (7, 2), (7, 8)] {
            support::job_with(ranks, cpus, &settings(), false, |_, world| {
                let mut hold = world.hold();
                let comm = hold.world.clone();
                // The last piece lies in the slot, in the window, or fills it; up to 60 pieces, in 16 slots.
                for (seed, count) in (0..).zip([1, 5, 255, 256, 270, 4099, 7680]) {
                    for root in 0..2 * ranks {
                        let in_place = root >= ranks;
                        for what in [What::Reduce, What::Allreduce, What::Scan] {
                            let step = Step {
                                what,
                                root,
                                count,
                                in_place,
                                seed,
                                ..ANY
                            };
                            take(&mut hold, &comm, step);
                        }
                    }
                }
            });
        }
    }

    /// All ranks but the root stop when they can go no further: as long as it has no result, none of its window is used again.
    #[test]
    fn a_root_that_takes_nothing_holds_up_the_others_a_window_at_a_time() {
        let (ranks, root, count) = (3, 2, 40 * 256);
        support::job_with(ranks, 1, &settings(), false, |me, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let boards = board::of(&hold, &comm).unwrap().clone();
            let at = Where::new(&comm, &boards, Signature::of(Call::Reduce), 1024);
            let before = boards.before + comm.context.next_turn();
            let (mut mine, mut got) = (values(1, me, count), vec![0; count]);
            let task = reduction(&hold, SUM, Some(&mut mine), &mut got, count);
            let elements = Elements::of(&task).unwrap();
            if me != root {
                return reduce(&mut hold, at, Some(root), &elements).unwrap();
            }
            let pieces: Vec<_> = elements.pieces(at.near).map(|piece| (at.turn(), piece)).collect();
            let window = Window::open(&mut hold, &pieces[0].0, Some(root), 40, (1024, false)).unwrap();
            assert_eq!(window.pieces, SLOTS as u64);
            let shown = |rank: usize, turn| boards.members[rank].board.slot(turn).turn().load(Ordering::Acquire);
            let mut open = VecDeque::new();
            for (index, (turn, piece)) in (0..).zip(pieces) {
                if index == 32 {
                    // Rank 1 has handed on 32 pieces, rank 0 its first 16.
                    while shown(1, before + 32) < before + 32 || shown(0, before + 16) < before + 16 {
                        std::thread::yield_now();
                    }
                    (0..100).for_each(|_| std::thread::yield_now());
                    assert!(shown(0, before + 17) < before + 17 && shown(1, before + 33) < before + 33);
                }
                window.wait(&mut hold, &turn, index).unwrap();
                window.hand_on(&mut hold, &turn, index, &piece, None).unwrap();
                turn.ring(&hold);
                open.push_back((turn, piece));
                if index >= 32 {
                    super::take(&mut hold, &mut open, false).unwrap();
                }
            }
            super::take(&mut hold, &mut open, true).unwrap();
            assert!(got == combined(SUM, 1, ranks, count));
        });
    }
}
