//! A block of one rank to each (MPI-4.1 §6.6).

use super::schedule::{Member, Schedule, Slice, WINDOW, tree};

/// The root sends to everybody. `mine` is `None` where the block stays where it is (the root with
/// `MPI_IN_PLACE`); `block` is asked at the root only.
/// Cost: one message of n bytes; p - 1 at the root, up to [`WINDOW`] at once.
pub fn linear(schedule: &mut Schedule, me: Member, root: u32, mine: Option<Slice>, block: impl Fn(u32) -> Slice) {
    if me.rank != root {
        if let Some(mine) = mine {
            schedule.round().recv(root, mine);
        }
        return;
    }
    if let Some(mine) = mine {
        schedule.last().copy(block(root), mine);
    }
    deal(schedule, (0..me.size).filter(|&peer| peer != root), block);
}

/// Sends a block to each of `peers`, a window at a time.
pub fn deal(schedule: &mut Schedule, peers: impl Iterator<Item = u32>, block: impl Fn(u32) -> Slice) {
    let peers: Vec<u32> = peers.collect();
    for window in peers.chunks(WINDOW as usize) {
        let round = schedule.round();
        for &peer in window {
            round.send(peer, block(peer));
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
    match (tree::parent(seat), mine) {
        (Some(parent), Some(mine)) if span == 1 => {
            schedule.round().recv(from_root.after(parent), mine);
            return;
        }
        (Some(parent), mine) => {
            let round = schedule.round();
            round.recv(from_root.after(parent), run(seat.rank, span));
            if let Some(mine) = mine {
                round.copy(run(seat.rank, 1), mine);
            }
        }
        (None, mine) => {
            let round = schedule.last();
            if let Some(mine) = mine {
                round.copy(block(root), mine);
            }
            for step in 1..span {
                round.copy(block(from_root.after(step)), run(step, 1));
            }
        }
    }
    let round = schedule.round();
    for child in tree::children(seat).rev() {
        round.send(from_root.after(child.rank), run(child.rank, tree::span(child)));
    }
}
