//! Operations that move data, by boards (MPI-4.1 §6.3 to §6.8). A block that a rank keeps for itself it
//! takes from its own board, like those of the others.

use super::{Boards, Turn};
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::args::Blocks;
use crate::mpi::coll::signature::Signature;
use crate::mpi::comm::Comm;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use std::rc::Rc;

/// Everybody shows that it is here and looks at everybody else.
/// Cost: one line to show, p - 1 to look at, all at once.
///
/// # Errors
/// `Other`: a member is in another call.
pub fn barrier(hold: &mut Hold, comm: &Rc<Comm>, boards: &Rc<Boards>, signature: Signature) -> Result<()> {
    let turn = Turn::begin(comm, boards, signature);
    turn.show_with(hold, 0, |_| ())?;
    for rank in (0..turn.size()).filter(|&rank| rank != comm.rank) {
        turn.see(hold, rank, Some(0))?;
    }
    turn.seen_all();
    turn.finish(hold);
    Ok(())
}

/// The root shows its data and does not wait.
/// Cost: n bytes written once, and read by each of the others.
///
/// # Errors
/// `Other`: the root is in another call.
pub fn bcast(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    boards: &Rc<Boards>,
    signature: Signature,
    root: u32,
    data: &Buffer,
) -> Result<()> {
    let turn = Turn::begin(comm, boards, signature);
    if comm.rank == root {
        turn.show(hold, data)?;
    } else {
        turn.see(hold, root, Some(data.len()))?.copy(0, data)?;
        turn.count(hold, root, data.len());
    }
    turn.finish(hold);
    Ok(())
}

/// Everybody shows its block, and the root takes them; the others do not wait. `recv` is there at the
/// root, `send` is `None` where it already has its block in place.
/// Cost: n bytes shown by each rank, p n read by the root.
///
/// # Errors
/// `Other`: a member is in another call, or has a block of another size.
pub fn gather(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    boards: &Rc<Boards>,
    signature: Signature,
    send: Option<&Buffer>,
    recv: Option<&Blocks>,
) -> Result<()> {
    let turn = Turn::begin(comm, boards, signature);
    if let Some(send) = send {
        turn.show(hold, send)?;
    }
    if let Some(recv) = recv {
        take_all(hold, comm, &turn, recv, send.is_none())?;
    }
    turn.finish(hold);
    Ok(())
}

/// The root shows all blocks and does not wait; each rank takes its own. `send` is there at the root,
/// `recv` is `None` where it leaves its block in place. `len` is the size of a block.
/// Cost: p n bytes written by the root, n read by each rank.
///
/// # Errors
/// `Other`: the root is in another call, or has a block of another size.
pub fn scatter(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    boards: &Rc<Boards>,
    signature: Signature,
    root: u32,
    (len, send): (usize, Option<&Blocks>),
    recv: Option<&Buffer>,
) -> Result<()> {
    let turn = Turn::begin(comm, boards, signature);
    if let Some(send) = send {
        turn.show_blocks(hold, len, send)?;
    }
    if let Some(recv) = recv {
        let whole = len * comm.size() as usize;
        turn.see(hold, root, Some(whole))?
            .copy(comm.rank as usize * len, recv)?;
        turn.count(hold, root, recv.len());
    }
    turn.finish(hold);
    Ok(())
}

/// Everybody shows its block and takes all. `send` is `None` in place.
/// Cost: n bytes shown and p n read by each rank, one turn.
///
/// # Errors
/// As [`gather`].
pub fn allgather(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    boards: &Rc<Boards>,
    signature: Signature,
    send: Option<&Buffer>,
    recv: &Blocks,
) -> Result<()> {
    let turn = Turn::begin(comm, boards, signature);
    match send {
        Some(send) => turn.show(hold, send)?,
        None => turn.show(hold, &recv.buffer(comm.rank))?,
    }
    take_all(hold, comm, &turn, recv, send.is_none())?;
    turn.seen_all();
    turn.finish(hold);
    Ok(())
}

/// Takes the block of each rank, but my own if I have it.
fn take_all(hold: &mut Hold, comm: &Rc<Comm>, turn: &Turn, recv: &Blocks, have_mine: bool) -> Result<()> {
    let others = (1..comm.size()).map(|step| (comm.rank + step) % comm.size());
    for rank in others.chain((!have_mine).then_some(comm.rank)) {
        let room = recv.buffer(rank);
        turn.see(hold, rank, Some(room.len()))?.copy(0, &room)?;
        turn.count(hold, rank, room.len());
    }
    Ok(())
}

/// Everybody shows all its blocks, of `len` bytes each, and takes its own of each rank's. `send` is
/// `None` in place. Cost: p n bytes shown and read by each rank, one turn.
///
/// # Errors
/// As [`gather`].
pub fn alltoall(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    boards: &Rc<Boards>,
    signature: Signature,
    (len, send): (usize, Option<&Blocks>),
    recv: &Blocks,
) -> Result<()> {
    let turn = Turn::begin(comm, boards, signature);
    turn.show_blocks(hold, len, send.unwrap_or(recv))?;
    let whole = len * comm.size() as usize;
    for step in 1..=comm.size() {
        let rank = (comm.rank + step) % comm.size();
        let view = turn.see(hold, rank, Some(whole))?;
        view.copy(comm.rank as usize * len, &recv.buffer(rank))?;
        turn.count(hold, rank, len);
    }
    turn.seen_all();
    turn.finish(hold);
    Ok(())
}
