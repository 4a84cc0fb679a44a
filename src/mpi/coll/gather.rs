//! Everybody's block to one rank (MPI-4.1 §6.5).

use super::schedule::{Member, Schedule, Slice, WINDOW, tree};

/// Everybody sends to the root. `mine` is `None` where the block is in place already (the root
/// with `MPI_IN_PLACE`); `block` is asked at the root only, which
/// keeps its own block last: those that copy with it need not wait for that.
/// Cost: one message of n bytes; p - 1 at the root, up to [`WINDOW`] at once.
pub fn linear(schedule: &mut Schedule, me: Member, root: u32, mine: Option<Slice>, block: impl Fn(u32) -> Slice) {
    if me.rank != root {
        if let Some(mine) = mine {
            schedule.round().send(root, mine);
        }
        return;
    }
    collect(schedule, (0..me.size).filter(|&peer| peer != root), &block);
    if let Some(mine) = mine {
        schedule.last().copy(mine, block(root));
    }
}

/// Receives a block from each of `peers`, a window at a time.
pub fn collect(schedule: &mut Schedule, peers: impl Iterator<Item = u32>, block: impl Fn(u32) -> Slice) {
    let peers: Vec<u32> = peers.collect();
    for window in peers.chunks(WINDOW as usize) {
        let round = schedule.round();
        for &peer in window {
            round.recv(peer, block(peer));
        }
    }
}

/// Along a binomial tree through packed scratch memory, for short blocks of `len` bytes.
/// Cost: ceil(log2 p) messages one after the other; each block is copied on its way.
pub fn binomial(
    schedule: &mut Schedule,
    me: Member,
    root: u32,
    len: usize,
    mine: Option<Slice>,
    block: impl Fn(u32) -> Slice,
) {
    let seat = me.seen_from(root);
    let from_root = Member { rank: root, ..me };
    let span = tree::span(seat);
    let packed = schedule.reserve(if span > 1 { len * span as usize } else { 0 });
    let run = |first: u32, blocks: u32| packed.slice((first - seat.rank) as usize * len, blocks as usize * len);
    if span > 1 {
        let round = schedule.round();
        for child in tree::children(seat) {
            round.recv(from_root.after(child.rank), run(child.rank, tree::span(child)));
        }
    }
    match (tree::parent(seat), mine) {
        (Some(parent), Some(mine)) if span == 1 => schedule.round().send(from_root.after(parent), mine),
        (Some(parent), Some(mine)) => {
            schedule.last().copy(mine, run(seat.rank, 1));
            schedule.round().send(from_root.after(parent), run(seat.rank, span));
        }
        (Some(_), None) => {}
        (None, mine) => {
            let last = schedule.last();
            if let Some(mine) = mine {
                last.copy(mine, block(root));
            }
            for step in 1..span {
                last.copy(run(step, 1), block(from_root.after(step)));
            }
        }
    }
}
