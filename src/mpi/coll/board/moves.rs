//! # Safety
//! Copies between what is shown and buffers of the program, which do not overlap, as the caller of an operation
//! promises, and have as many bytes as the pieces that are cut from them.
//!
//! Operations that move data, by boards (MPI-4.1 §6.3 to §6.8). Where only the root waits, long data go in pieces:
//! while it takes one, the others show the next.
#![allow(unsafe_code)]

use super::{Turn, Where, doubling};
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::args::Blocks;
use crate::mpi::coll::machine;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;

/// Everybody shows that it is here and looks at everybody else; where ranks share CPUs some wait for a root to leave first
/// ([`Turn::follow`]), and where each of many has a CPU they go by [`doubling`].
/// Cost: one line to show, p - 1 to look at, all at once.
///
/// # Errors
/// `Other`: a member is in another call.
pub fn barrier(hold: &mut Hold, at: Where) -> Result<()> {
    if at.boards.table.doubling == 0 {
        return doubling::barrier(hold, at);
    }
    let turn = at.turn();
    turn.show_with(hold, 0, |_| ())?;
    turn.follow(hold)?;
    for rank in (0..turn.size()).filter(|&rank| rank != at.comm.rank) {
        turn.see(hold, rank, Some(0))?;
    }
    turn.seen_all();
    turn.finish(hold);
    Ok(())
}

/// The root shows its data and does not wait.
/// Cost: n bytes written once, and read by each of the others, a turn for each piece.
///
/// # Errors
/// `Other`: the root is in another call.
pub fn bcast(hold: &mut Hold, at: Where, root: u32, data: &Buffer) -> Result<()> {
    if data.len() <= at.near {
        return bcast_piece(hold, at, root, data, (0, data.len()));
    }
    pieces(data.len(), at.near).try_for_each(|piece| bcast_piece(hold, at, root, data, piece))
}

/// As [`bcast`], of a rank that is not the root, which has begun the first turn.
///
/// # Errors
/// As [`bcast`].
pub fn bcast_from(hold: &mut Hold, at: Where, turn: Turn, root: u32, data: &Buffer) -> Result<()> {
    let mut pieces = pieces(data.len(), at.near);
    if let Some(first) = pieces.next() {
        take(hold, &turn, root, data, first)?;
    }
    turn.finish(hold);
    pieces.try_for_each(|piece| bcast_piece(hold, at, root, data, piece))
}

#[inline]
fn bcast_piece(hold: &mut Hold, at: Where, root: u32, data: &Buffer, piece: Piece) -> Result<()> {
    let turn = at.turn();
    if at.comm.rank == root {
        if turn.lend(hold, data, piece)? {
            turn.finish(hold);
            return Ok(());
        }
        return show(hold, &turn, data, piece);
    }
    take(hold, &turn, root, data, piece)?;
    turn.finish(hold);
    Ok(())
}

/// Bytes of a buffer: the first, and how many.
pub(super) type Piece = (usize, usize);

/// `len` bytes, one after the other, in pieces of up to `most` bytes; one piece of nothing where there are none.
pub(super) fn pieces(len: usize, most: usize) -> impl Iterator<Item = Piece> {
    let most = most.max(1);
    (0..len.max(1))
        .step_by(most)
        .map(move |first| (first, most.min(len - first)))
}

/// Shows a piece in a turn in which this rank takes nothing, and ends it.
fn show(hold: &mut Hold, turn: &Turn, data: &Buffer, (first, len): Piece) -> Result<()> {
    turn.show_and_finish(hold, len, |sheet| {
        // SAFETY: the sheet has as many bytes as the piece of the buffer, which the program owns.
        unsafe { sheet.pack(0, data, first, len) };
    })
}

/// Takes what `from` shows.
fn take(hold: &mut Hold, turn: &Turn, from: u32, to: &Buffer, (first, len): Piece) -> Result<()> {
    let view = turn.see(hold, from, Some(len))?;
    // SAFETY: the view has `len` bytes; the program owns the buffer, which has room for the piece.
    unsafe { view.unpack(hold, 0, to, (first, len)) };
    turn.count(hold, from, len);
    Ok(())
}

/// Everybody shows its block, and the root takes them; the others do not wait. `recv` is there at the
/// root, `send` is `None` where it already has its block in place. `len` is the size of a block.
/// Cost: n bytes shown by each rank, p n read by the root, a turn for each piece.
///
/// # Errors
/// `Other`: a member is in another call, or has a block of another size.
pub fn gather(hold: &mut Hold, at: Where, len: usize, send: Option<&Buffer>, recv: Option<&Blocks>) -> Result<()> {
    if let Some(recv) = recv {
        keep(send, Some(&recv.buffer(at.comm.rank)));
        let first = begin_gather(hold, at)?;
        return gather_from(hold, at, first, len, recv);
    }
    for piece in pieces(len, at.near) {
        let turn = at.turn();
        match send {
            Some(send) => show(hold, &turn, send, piece)?,
            None => turn.finish(hold),
        }
    }
    Ok(())
}

/// A turn of a gather at its root, whom others are told about that take another rank for it.
///
/// # Errors
/// As [`gather`].
pub fn begin_gather<'a>(hold: &mut Hold, at: Where<'a>) -> Result<Turn<'a>> {
    let turn = at.turn();
    turn.show_with(hold, 0, |_| ())?;
    Ok(turn)
}

/// As [`gather`], of the root, which has begun the first turn and has its own block.
///
/// # Errors
/// As [`gather`].
pub fn gather_from(hold: &mut Hold, at: Where, first: Turn, len: usize, recv: &Blocks) -> Result<()> {
    let mut begun = Some(first);
    for piece in pieces(len, at.near) {
        let turn = match begun.take() {
            Some(turn) => turn,
            None => begin_gather(hold, at)?,
        };
        for rank in at.others() {
            take(hold, &turn, rank, &recv.buffer(rank), piece)?;
        }
        turn.seen_all();
        turn.finish(hold);
    }
    Ok(())
}

/// The root shows all blocks and does not wait; each rank takes its own. `send` is there at the root,
/// `recv` is `None` where it leaves its block in place. `len` is the size of a block.
/// Cost: p n bytes written by the root, n read by each rank, a turn for each piece.
///
/// # Errors
/// `Other`: the root is in another call, or has a block of another size.
pub fn scatter(
    hold: &mut Hold,
    at: Where,
    root: u32,
    (len, send): (usize, Option<&Blocks>),
    recv: Option<&Buffer>,
) -> Result<()> {
    // Before what is shown: the root's stores to lines that others have would hold up those behind them.
    keep(send.map(|send| send.buffer(root)).as_ref(), recv);
    for piece in parts(len, at) {
        let turn = at.turn();
        if let Some(send) = send {
            if !turn.lend_parts(hold, piece, send)? {
                turn.show_parts(hold, piece, |rank| send.buffer(rank))?;
            }
        } else if let Some(recv) = recv {
            take_part(hold, &turn, root, recv, piece)?;
        }
        turn.finish(hold);
    }
    Ok(())
}

/// Everybody shows its block and takes all, of which the largest has `longest` bytes. `send` is `None` in place.
/// Cost: n bytes shown and p n read by each rank, a turn for each piece.
///
/// # Errors
/// As [`gather`].
pub fn allgather(
    hold: &mut Hold,
    at: Where,
    send: Option<&Buffer>,
    recv: impl Fn(u32) -> Buffer,
    longest: usize,
) -> Result<()> {
    let mine = recv(at.comm.rank);
    let then = |_: &mut Hold| {
        keep(send, Some(&mine));
        Ok(())
    };
    // In place too the others' blocks go elsewhere.
    let shown = (send.unwrap_or(&mine), mine.len(), true, then);
    each_shows(hold, at, shown, &recv, longest)
}

/// As [`allgather`] in place; this rank does `then` when it has shown its first piece, and has not taken any.
pub(super) fn allgather_then(
    hold: &mut Hold,
    at: Where,
    recv: impl Fn(u32) -> Buffer,
    longest: usize,
    then: impl Fn(&mut Hold) -> Result<()>,
) -> Result<()> {
    let mine = recv(at.comm.rank);
    each_shows(hold, at, (&mine, mine.len(), true, then), &recv, longest)
}

/// `MPI_Alltoallv` and `MPI_Alltoallw` of two ranks, whose longer block has `longest` bytes: each shows its block for the other,
/// as in an allgather. `send` is `None` in place. Cost: n bytes shown and read by each rank, a turn for each piece.
///
/// # Errors
/// As [`gather`].
pub fn alltoallv_of_two(
    hold: &mut Hold,
    at: Where,
    longest: usize,
    send: Option<&Blocks>,
    recv: &Blocks,
) -> Result<()> {
    let me = at.comm.rank;
    let mine = send.unwrap_or(recv).buffer(1 - me);
    let then = |_: &mut Hold| {
        keep(send.map(|send| send.buffer(me)).as_ref(), Some(&recv.buffer(me)));
        Ok(())
    };
    let shown = (&mine, mine.len(), send.is_some(), then);
    each_shows(hold, at, shown, |rank| recv.buffer(rank), longest)
}

/// Everybody shows the first bytes of a buffer, which the call leaves as it is or does not, does something `then`, such as keeping what it
/// has for itself, and takes what the others show.
fn each_shows(
    hold: &mut Hold,
    at: Where,
    (mine, len, stays, then): (&Buffer, usize, bool, impl Fn(&mut Hold) -> Result<()>),
    recv: impl Fn(u32) -> Buffer,
    longest: usize,
) -> Result<()> {
    let piece = |len: usize, (first, most): Piece| (first, most.min(len.saturating_sub(first)));
    let show = |hold: &mut Hold, turn: &Turn, part| {
        let (first, len) = piece(len, part);
        if !stays || !turn.lend(hold, mine, (first, len))? {
            turn.show_with(hold, len, |sheet| {
                // SAFETY: the sheet has as many bytes as the piece of the buffer, which the program owns.
                unsafe { sheet.pack(0, mine, first, len) };
            })?;
        }
        if first == 0 {
            then(hold)?;
        }
        Ok(())
    };
    let take = |hold: &mut Hold, turn: &Turn, part| {
        at.others().try_for_each(|rank| {
            let room = recv(rank);
            take(hold, turn, rank, &room, piece(room.len(), part))
        })
    };
    exchange(hold, at, pieces(longest, at.near), at.near, show, take)
}

/// Everybody shows all its blocks, of `len` bytes each, and takes its own of each rank's. `send` is
/// `None` in place. Cost: p n bytes shown and read by each rank, a turn for each piece.
///
/// # Errors
/// As [`gather`].
pub fn alltoall(hold: &mut Hold, at: Where, (len, send): (usize, Option<&Blocks>), recv: &Blocks) -> Result<()> {
    let mine = at.comm.rank;
    let show = |hold: &mut Hold, turn: &Turn, piece: Piece| {
        let lent = match send {
            Some(send) => turn.lend_parts(hold, piece, send)?,
            None => false,
        };
        if !lent {
            turn.show_parts(hold, piece, |rank| send.unwrap_or(recv).buffer(rank))?;
        }
        if piece.0 == 0 {
            keep(send.map(|send| send.buffer(mine)).as_ref(), Some(&recv.buffer(mine)));
        }
        Ok(())
    };
    let take = |hold: &mut Hold, turn: &Turn, piece| {
        at.others()
            .try_for_each(|rank| take_part(hold, turn, rank, &recv.buffer(rank), piece))
    };
    exchange(hold, at, parts(len, at), at.near, show, take)
}

/// A turn for each piece, in which everybody shows something, of up to `room` bytes, and takes what the others show. The next is
/// shown before one is taken, so that nobody waits for it, unless there is no room yet.
#[inline]
pub(super) fn exchange(
    hold: &mut Hold,
    at: Where,
    mut pieces: impl Iterator<Item = Piece>,
    room: usize,
    show: impl Fn(&mut Hold, &Turn, Piece) -> Result<()>,
    take: impl Fn(&mut Hold, &Turn, Piece) -> Result<()>,
) -> Result<()> {
    let begin = |hold: &mut Hold, turn, piece| show(hold, &turn, piece).map(|()| (turn, piece));
    let Some(first) = pieces.next() else {
        return Ok(());
    };
    let mut piece = pieces.next();
    // Who shows the next piece has not taken this one yet.
    let turn = if piece.is_none() { at.exchange() } else { at.turn() };
    let (mut now, mut ahead) = (begin(hold, turn, first)?, 0);
    loop {
        let next = match piece {
            Some(piece) if hold.desk.has_room(room, at.boards) => Some(begin(hold, at.turn(), piece)?),
            _ => None,
        };
        let (turn, part) = &now;
        take(hold, turn, *part)?;
        turn.seen_all_but(ahead);
        turn.finish(hold);
        now = match (next, piece) {
            (Some(next), _) => next,
            (None, Some(piece)) => begin(hold, at.turn(), piece)?,
            (None, None) => return Ok(()),
        };
        piece = pieces.next();
        ahead = 1;
    }
}

/// Parts of blocks of `len` bytes, of which one for each rank is shown at a time.
fn parts(len: usize, at: Where) -> impl Iterator<Item = Piece> {
    pieces(len, at.near / at.comm.size() as usize)
}

/// Takes its part from a rank that shows one for each.
fn take_part(hold: &mut Hold, turn: &Turn, from: u32, to: &Buffer, (first, part): Piece) -> Result<()> {
    let view = turn.see_part(hold, from, part)?;
    // SAFETY: the view has `part` bytes; the program owns the buffer, which has room for them.
    unsafe { view.unpack(hold, 0, to, (first, part)) };
    turn.count(hold, from, part);
    Ok(())
}

/// Copies the block that a rank has for itself, unless it is in place.
pub(super) fn keep(from: Option<&Buffer>, to: Option<&Buffer>) {
    if let (Some(from), Some(to)) = (from, to) {
        // SAFETY: the program's buffers, which do not overlap.
        unsafe { machine::copy(from, to) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ANY, Step, What, job, take as perform, values};
    use super::*;
    use crate::mpi::coll::board;
    use crate::mpi::coll::signature::{Call, Signature};
    use crate::mpi::coll::support::data;
    use crate::shm::sync::Ordering;

    /// Rank 1 has shown two pieces, but reads the first one of rank 0 only when that has shown its fourth. All that rank 0
    /// knows then is that rank 1 has shown the second: nothing may lie where its own first one does.
    #[test]
    fn a_piece_that_a_slow_member_still_reads_stays_while_later_ones_are_shown() {
        const INTS: usize = 2500;
        let count = 8 * INTS;
        job(2, 2, &[], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let boards = board::of(&hold, &comm).unwrap().clone();
            let fourth = boards.before + comm.context.next_turn() + 4;
            let mut all = vec![-1; 2 * count];
            let blocks: Vec<Buffer> = all.chunks_mut(count).map(|block| data(block).buffer()).collect();
            let recv = |from: u32| {
                let shown = boards.members[from as usize].board.slot(fourth).turn();
                while rank == 1 && from == 0 && shown.load(Ordering::Acquire) < fourth {
                    std::thread::yield_now();
                }
                blocks[from as usize].clone()
            };
            let at = Where::new(&comm, &boards, Signature::of(Call::Allgather), INTS * 4);
            let mut mine = values(1, rank, count);
            allgather(&mut hold, at, Some(&data(&mut mine).buffer()), recv, count * 4).unwrap();
            assert!(
                all == [values(1, 0, count), values(1, 1, count)].concat(),
                "rank {rank}"
            );
        });
    }

    /// Both know what goes from one of two ranks to the other, so it is shown as it is, without a table of places.
    #[test]
    fn two_ranks_show_blocks_of_any_length_as_those_of_one() {
        job(2, 2, &[], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            // Who shows how many of 1000 integers: `take` gives rank 1 five more than the half, and the same to both in an alltoall.
            for (what, from, ints) in [
                (What::Gatherv, 1, 505),
                (What::Scatterv, 0, 505),
                (What::Alltoallv, 0, 500),
                (What::Alltoallv, 1, 500),
            ] {
                let step = Step {
                    what,
                    count: 1000,
                    ..ANY
                };
                perform(&mut hold, &comm, step);
                let boards = board::of(&hold, &comm).unwrap();
                let turn = boards.before + comm.context.next_turn();
                let note = boards.members[from].board.slot(turn).note();
                assert!(rank != from as u32 || note.len == 4 * ints, "{what:?}: {}", note.len);
            }
        });
    }
}
