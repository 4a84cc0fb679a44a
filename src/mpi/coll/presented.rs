//! Gathers, scatters and alltoalls by boards of blocks that are too long to be shown, or of lengths that not all ranks know: each rank
//! shows or offers what it has by its length, or as it has learnt.

use super::args::BlockOf;
use super::board::{AT_ONCE, Learns, Where, long, varying};
use super::choice::Row;
use super::machine;
use crate::mpi::buffer::Buffer;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::sys::selection::Operation as What;

/// For `len` bytes of each call, which this rank shows or offers as it has learnt.
pub fn learning(at: Where, what: What, len: usize) -> Where {
    let (offers, timed) = at.boards.offers(what, len);
    let near = if offers { 0 } else { AT_ONCE };
    let learns = Some(Learns { what, len, timed });
    Where { near, learns, ..at }
}

/// For what is too long to be shown in any case, or of a length that not `all` ranks know: this one has `mine` bytes for others,
/// and shows or offers them by their length or as it has learnt; `None` if such go by messages.
fn presenting<'a>(at: Where<'a>, what: What, row: &Row, mine: usize, all: Option<usize>) -> Option<Where<'a>> {
    let shown = if all.is_some() { row.shown } else { row.shown_unasked };
    let near = at.boards.table.wide.min(shown);
    let learns = row.learnt > 0 && all.is_none_or(|all| all <= row.learnt);
    match learns {
        _ if all.is_some_and(|all| row.sends(all)) => None,
        _ if !row.offers_any() && (all.is_none() || !learns) => None,
        false => Some(Where { near, ..at }),
        true if near < mine && mine <= row.learnt => Some(learning(at, what, mine)),
        // It may have to say how reading what others offer went.
        true => {
            let (len, timed) = (mine, false);
            let learns = Some(Learns { what, len, timed });
            Some(Where { near, learns, ..at })
        }
    }
}

/// `MPI_Gather` and `MPI_Gatherv` by boards of blocks of `all` bytes, too many to be shown, or of a length that not all ranks know; `None`
/// where they go as a schedule.
pub fn gather(
    hold: &mut Hold,
    at: Where,
    root: u32,
    all: Option<usize>,
    send: Option<&Buffer>,
    recv: Option<BlockOf>,
) -> Option<Result<()>> {
    let row = &at.boards.table.gather;
    let near = match all {
        Some(_) => at.near,
        None => at.near.min(row.shown_unasked),
    };
    // Each rank can send what is too long to be shown.
    let can = row.offers_any() || all.is_none() && near > 0;
    can.then(|| long::gather(hold, Where { near, ..at }, root, send, recv))
}

/// As [`gather`], of `MPI_Scatter` and `MPI_Scatterv`, of which a rank has `all` bytes for others if all ranks know it.
pub fn scatter(
    hold: &mut Hold,
    at: Where,
    root: u32,
    all: Option<usize>,
    send: Option<BlockOf>,
    recv: Option<&Buffer>,
) -> Option<Result<()>> {
    let mine = send.map_or(0, |send| at.others().map(|rank| send(rank).len()).sum());
    let at = presenting(at, What::Scatter, &at.boards.table.scatter, mine, all)?;
    Some(long::scatter(hold, at, root, send, recv))
}

/// As [`scatter`], of `MPI_Alltoall` and its kin; `send` is `None` in place.
pub fn alltoall(
    hold: &mut Hold,
    at: Where,
    all: Option<usize>,
    send: Option<BlockOf>,
    recv: BlockOf,
) -> Option<Result<()>> {
    let row = &at.boards.table.alltoall;
    let from = send.unwrap_or(recv);
    let mine = at.others().map(|rank| from(rank).len()).sum();
    let at = presenting(at, What::Alltoall, row, mine, all)?;
    // Of ranks that share CPUs each would wait for all readers of what it offers.
    Some(match send {
        Some(send) if all.is_none() && row.learnt == 0 && machine::is_crowded(hold) => {
            varying::alltoall(hold, at, (mine, row.shown_unasked), send, recv)
        }
        _ => long::alltoall(hold, at, send, recv),
    })
}
