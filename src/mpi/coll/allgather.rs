//! Everybody's block to everybody (MPI-4.1 §6.7).

use super::alltoall;
use super::schedule::{Member, Schedule, Slice};

/// Passes the blocks around a ring. `mine` is in its place already too, but those lines were just written.
/// Cost: p - 1 rounds of one block each way.
pub fn ring(schedule: &mut Schedule, me: Member, mine: Slice, block: impl Fn(u32) -> Slice) {
    for step in 0..me.size - 1 {
        let round = schedule.round();
        round.recv(me.before(1), block(me.before(step + 1)));
        round.send(me.after(1), if step == 0 { mine } else { block(me.before(step)) });
    }
}

/// Doubling distances through packed scratch memory, for short blocks of `len` bytes that all ranks
/// agree on.
/// Cost: ceil(log2 p) rounds; (p-1) len bytes, and once more copied. Source: Bruck et al. 1997.
pub fn bruck(schedule: &mut Schedule, me: Member, len: usize, mine: Slice, block: impl Fn(u32) -> Slice) {
    let packed = schedule.reserve(len * me.size as usize);
    let run = |first: u32, blocks: u32| packed.slice(first as usize * len, blocks as usize * len);
    schedule.round().copy(mine, run(0, 1));
    let mut have = 1;
    while have < me.size {
        let blocks = have.min(me.size - have);
        let round = schedule.round();
        round.recv(me.after(have), run(have, blocks));
        round.send(me.before(have), run(0, blocks));
        have += blocks;
    }
    let last = schedule.last();
    last.copy(mine, block(me.rank));
    for step in 1..me.size {
        last.copy(run(step, 1), block(me.after(step)));
    }
}

/// Everybody sends its block to everybody, a window of them at a time; `mine` is in its place already too.
/// Cost: p - 1 messages each way, up to [`super::schedule::WINDOW`] at once.
pub fn spread(schedule: &mut Schedule, me: Member, mine: Slice, block: impl Fn(u32) -> Slice) {
    alltoall::windowed(schedule, me, |_| mine, block);
}
