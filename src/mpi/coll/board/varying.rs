//! # Safety
//! Writes the table of a rank's blocks into the room that is made for it, and copies from views into buffers of the program with as
//! many bytes.
//!
//! Blocks of lengths that only their two ranks know, in pieces: a rank with more than it can show in a turn says so, and how long
//! its longest block is. All have seen that when the turn is over, so they agree on how many more it takes.
#![allow(unsafe_code)]

use super::moves::{self, Piece};
use super::{ENTRY, Turn, View, Where, long};
use crate::channel::Fault;
use crate::mpi::coll::args::BlockOf;
use crate::mpi::error::Result;
use crate::mpi::error::fault;
use crate::mpi::world::Hold;

/// In the place of a block: it comes in pieces.
const LATER: u64 = u64::MAX;

/// `MPI_Alltoallv` and `MPI_Alltoallw`, not in place, of more than two ranks, of which this one has `mine` bytes for others: what is too
/// long to be shown at once goes in pieces up to `most` bytes, and is offered above. Cost: n (p-1) bytes shown and read by each
/// rank, a turn, and one for each piece.
///
/// # Errors
/// As [`long::alltoall`].
pub fn alltoall(hold: &mut Hold, at: Where, (mine, most): (usize, usize), send: BlockOf, recv: BlockOf) -> Result<()> {
    let (rank, size) = (at.comm.rank, at.comm.size());
    let turn = at.turn();
    let later = mine > at.near && mine <= most;
    let lens = (0..size).map(|to| if to == rank { 0 } else { send(to).len() });
    let (mine_longest, offer) = match later {
        true => (announce(hold, &turn, lens)?, None),
        false => (0, at.present_blocks(hold, &turn, send, false)?),
    };
    moves::keep(Some(&send(rank)), Some(&recv(rank)));
    let looked = look(hold, at, &turn, most, recv);
    let outcome = match &looked {
        Ok((_, waits)) => {
            let now = at.others().filter(|&from| !waits[from as usize]);
            long::take(hold, at, (&turn, offer.as_ref()), now, true, recv)
        }
        Err(_) => Ok(()),
    };
    turn.seen_all();
    // Also after an error: others may be reading what this rank has offered.
    at.end(hold, &turn, outcome, offer.as_ref(), long::AFTER)?;
    let (longest, waits) = looked?;
    let longest = longest.max(mine_longest);
    if longest == 0 {
        return Ok(());
    }
    let show = |hold: &mut Hold, turn: &Turn, piece: Piece| match later {
        true => turn.show_parts(hold, piece, send),
        false => turn.show_with(hold, 0, |_| ()),
    };
    let take = |hold: &mut Hold, turn: &Turn, (first, part): Piece| {
        at.others().try_for_each(|from| {
            if !waits[from as usize] {
                return turn.see(hold, from, Some(0)).map(drop);
            }
            let room = recv(from);
            let len = part.min(room.len().saturating_sub(first));
            let view = turn.see_part(hold, from, part)?;
            // SAFETY: the view has `part` bytes, the program's buffer room for `len` more.
            unsafe { room.unpack_from_peer(hold.engine.channel.ahead, first, view.data, len) };
            turn.count(hold, from, len);
            Ok(())
        })
    };
    moves::exchange(
        hold,
        at,
        moves::pieces(longest, at.near / size as usize),
        at.near,
        show,
        take,
    )
}

/// Looks at what all others show in the first turn: the longest block of those that come in pieces, and whose do.
///
/// # Errors
/// As [`Turn::see`].
fn look(hold: &mut Hold, at: Where, turn: &Turn, most: usize, recv: BlockOf) -> Result<(usize, Vec<bool>)> {
    let (rank, size) = (at.comm.rank, at.comm.size());
    let (mut longest, mut waits) = (0, vec![false; size as usize]);
    for from in at.others() {
        let view = turn.see(hold, from, None)?;
        let Some((len, its_longest)) = later_of(&view, rank, size) else {
            continue;
        };
        let expected = recv(from).len();
        if len != expected {
            return Err(View { len, ..view }.differs(expected));
        }
        if its_longest > most {
            let from = turn.boards.members[from as usize].world;
            return Err(fault(Fault { from }));
        }
        longest = longest.max(its_longest);
        waits[from as usize] = true;
    }
    Ok((longest, waits))
}

/// Says that blocks of `lens` bytes come in pieces, and how long the longest is, where the table of others has the place of a block; that
/// length.
fn announce(hold: &mut Hold, turn: &Turn, lens: impl Iterator<Item = usize> + Clone) -> Result<usize> {
    let longest = lens.clone().max().unwrap_or(0);
    turn.show_with(hold, (1 + turn.size() as usize) * ENTRY, |sheet| {
        let words = lens.chain([longest]).flat_map(|len| [LATER, len as u64]);
        for (index, word) in words.enumerate() {
            // SAFETY: the sheet has two words for each rank and for the longest.
            unsafe { sheet.room().cast::<u64>().wrapping_add(index).write_unaligned(word) };
        }
    })?;
    Ok(longest)
}

/// Bytes of the block for `rank` and of the longest one, if what a rank of `size` shows says that they come in pieces.
fn later_of(view: &View, rank: u32, size: u32) -> Option<(usize, usize)> {
    let (mine, last) = (rank as usize * ENTRY, size as usize * ENTRY);
    let says = view.far.is_none() && view.len == last + ENTRY && view.word(mine) == LATER;
    says.then(|| (view.word(mine + 8) as usize, view.word(last + 8) as usize))
}

#[cfg(test)]
mod tests {
    use super::super::tests::value;
    use crate::mpi::coll::call::{Task, perform};
    use crate::mpi::coll::support::{self, room, starts, varying};

    /// Turns that an alltoallv of ranks on two CPUs takes that sends `ints(from, to)`.
    fn turns(ranks: u32, ints: impl Fn(u32, u32) -> usize + Sync) -> u64 {
        let all = std::sync::Mutex::new(Vec::new());
        support::job(ranks, 2, &[("NEARMPI_BOARD_MAX", 1024)], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let sent: Vec<usize> = (0..ranks).map(|to| ints(rank, to)).collect();
            let got: Vec<usize> = (0..ranks).map(|from| ints(from, rank)).collect();
            let mut out = vec![-1; room(&sent)];
            for to in 0..ranks {
                let block = &mut out[starts(&sent)[to as usize]..][..sent[to as usize]];
                block
                    .iter_mut()
                    .enumerate()
                    .for_each(|(index, int)| *int = value(to, rank, index));
            }
            let mut all_of = vec![-1; room(&got)];
            let before = comm.context.next_turn();
            let task = Task::Alltoall(Some(varying(&mut out, &sent)), varying(&mut all_of, &got));
            perform(&mut hold, &comm, task).unwrap();
            all.lock().unwrap().push(comm.context.next_turn() - before);
            for from in 0..ranks {
                let block = &all_of[starts(&got)[from as usize]..][..got[from as usize]];
                let expected = (0..block.len()).map(|index| value(rank, from, index));
                assert!(block.iter().copied().eq(expected), "{from} to {rank}");
            }
        });
        let all = all.into_inner().unwrap();
        assert!(all.iter().all(|&turns| turns == all[0]), "{all:?}");
        all[0]
    }

    #[test]
    fn what_is_too_long_for_a_turn_takes_as_many_as_its_longest_block() {
        // 4 KiB are shown at a time, 1 KiB for each of four ranks, and up to 128 KiB go in pieces.
        assert_eq!(turns(4, |_, _| 341), 1);
        assert_eq!(turns(4, |_, _| 1000), 1 + 4);
        assert_eq!(
            turns(4, |from, to| if from == 1 { 300 + 300 * to as usize } else { 7 }),
            1 + 5
        );
        // One offers, one has pieces, others have little or nothing.
        assert_eq!(
            turns(4, |from, to| [12_000, 0, 400, 9][from as usize] + to as usize),
            1 + 2
        );
        assert_eq!(turns(4, |_, _| 10_923), 1);
    }
}
