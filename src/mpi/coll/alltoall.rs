//! A block from everybody to everybody (MPI-4.1 §6.8).

use super::schedule::{Member, Schedule, Slice, WINDOW};

/// Sends each rank its block directly, a window of ranks at a time, everybody starting with its
/// neighbours so that no rank is everyone's target at once. My own block is copied.
/// Cost: p - 1 messages each way, up to [`WINDOW`] at once.
pub fn windowed(schedule: &mut Schedule, me: Member, from: impl Fn(u32) -> Slice, to: impl Fn(u32) -> Slice) {
    schedule.last().copy(from(me.rank), to(me.rank));
    let mut step = 1;
    while step < me.size {
        let end = me.size.min(step + WINDOW);
        let round = schedule.round();
        for step in step..end {
            round.recv(me.before(step), to(me.before(step)));
        }
        for step in step..end {
            round.send(me.after(step), from(me.after(step)));
        }
        step = end;
    }
}

/// Short blocks of `len` bytes, forwarded along doubling distances in packed scratch memory.
/// Cost: ceil(log2 p) rounds of about p/2 blocks each. Source: Bruck et al. 1997.
pub fn bruck(schedule: &mut Schedule, me: Member, len: usize, from: impl Fn(u32) -> Slice, to: impl Fn(u32) -> Slice) {
    let blocks = me.size as usize;
    let held = schedule.reserve(len * blocks);
    let out = schedule.reserve(len * blocks.div_ceil(2));
    let inward = schedule.reserve(len * blocks.div_ceil(2));
    let block = |step: u32| held.slice(step as usize * len, len);
    let first = schedule.last();
    for step in 0..me.size {
        first.copy(from(me.after(step)), block(step));
    }
    let mut distance = 1;
    while distance < me.size {
        let moving: Vec<u32> = (0..me.size).filter(|step| step & distance != 0).collect();
        for (index, &step) in moving.iter().enumerate() {
            schedule.last().copy(block(step), out.slice(index * len, len));
        }
        let round = schedule.round();
        round.recv(me.before(distance), inward.slice(0, moving.len() * len));
        round.send(me.after(distance), out.slice(0, moving.len() * len));
        for (index, &step) in moving.iter().enumerate() {
            round.copy(inward.slice(index * len, len), block(step));
        }
        distance *= 2;
    }
    // Block `step` has travelled `step` ranks: it comes from the rank that far before me.
    for step in 0..me.size {
        schedule.last().copy(block(step), to(me.before(step)));
    }
}
