//! Reductions whose result is dealt out in blocks (MPI-4.1 §6.10).

use super::alltoall;
use super::reduce::Vector;
use super::schedule::{Member, Schedule};

/// Everybody sends each rank its block of the operand; each rank reduces what it got, in rank order.
/// `block` gives the first element and the count of a rank's block; the result goes to the start
/// of `vector.recv`.
/// Cost: p - 1 messages each way, n (p-1)/p bytes; p blocks of scratch memory.
pub fn exchange(schedule: &mut Schedule, me: Member, vector: &Vector, block: impl Fn(u32) -> (usize, usize)) {
    let count = block(me.rank).1;
    let room: Vec<_> = (0..me.size)
        .map(|_| schedule.reserve_elements(vector.send.shape, count).slice(0, count))
        .collect();
    let from = |rank: u32| vector.send.slice(block(rank).0, block(rank).1);
    alltoall::windowed(schedule, me, from, |rank| room[rank as usize]);
    let last = schedule.last();
    for pair in room.windows(2) {
        last.reduce(pair[0], pair[1]);
    }
    last.copy(room[me.size as usize - 1], vector.recv.slice(0, count));
}
