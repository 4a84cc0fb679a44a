//! Collectives on intercommunicators (MPI-4.1 §6.2.2): each group gets the other group's data.
//!
//! Messages can only cross between the groups, so rank 0 of each group works for the other one:
//! what a group is to hear goes to the other group's rank 0, which tells all. Ranks in messages are
//! those of the remote group.

use super::gather::collect;
use super::reduce::{Accumulator, Vector, without_recv};
use super::scatter::deal;
use super::schedule::{Area, Member, Schedule, Slice};

/// The member's place, and the size of the group it talks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sides {
    /// Rank and size in the local group.
    pub me: Member,
    /// Size of the remote group.
    pub remote: u32,
}

/// Everybody reports to the other group's rank 0; the two of them tell each other, then everybody
/// else. Cost: 3 rounds, p messages at each rank 0.
pub fn barrier(schedule: &mut Schedule, sides: Sides) {
    let round = schedule.round();
    if sides.me.rank != 0 {
        round.signal(0);
        return schedule.round().hear(0);
    }
    for peer in 1..sides.remote {
        round.hear(peer);
    }
    let round = schedule.round();
    round.hear(0);
    round.signal(0);
    let round = schedule.round();
    for peer in 1..sides.remote {
        round.signal(peer);
    }
}

/// The root sends to every rank of the other group. Cost: one message of n bytes, p at the root.
pub fn send_to_all(schedule: &mut Schedule, sides: Sides, block: impl Fn(u32) -> Slice) {
    deal(schedule, 0..sides.remote, block);
}

/// The root receives from every rank of the other group. Cost: as [`send_to_all`].
pub fn recv_from_all(schedule: &mut Schedule, sides: Sides, block: impl Fn(u32) -> Slice) {
    collect(schedule, 0..sides.remote, block);
}

/// A message from everybody to everybody across. `from` is what a remote rank gets, `to` where its
/// message goes. Cost: as many messages as the other group has ranks, each way.
pub fn exchange(schedule: &mut Schedule, sides: Sides, from: impl Fn(u32) -> Slice, to: impl Fn(u32) -> Slice) {
    // Two groups as one ring of the larger size: rank r meets r + step; ranks that do not exist are skipped.
    let ring = Member {
        rank: sides.me.rank,
        size: sides.me.size.max(sides.remote),
    };
    let mut step = 0;
    while step < ring.size {
        let end = ring.size.min(step + super::schedule::WINDOW);
        let round = schedule.round();
        for peer in (step..end)
            .map(|step| ring.before(step))
            .filter(|&peer| peer < sides.remote)
        {
            round.recv(peer, to(peer));
        }
        for peer in (step..end)
            .map(|step| ring.after(step))
            .filter(|&peer| peer < sides.remote)
        {
            round.send(peer, from(peer));
        }
        step = end;
    }
}

/// At the root: the operands of the other group, reduced in rank order into `vector.recv`.
/// Cost: p messages of n bytes at the root.
pub fn reduce(schedule: &mut Schedule, sides: Sides, vector: &Vector) {
    let first = Vector {
        send: vector.recv,
        ..*vector
    };
    schedule.round().recv(0, first.recv.slice(0, vector.count));
    let mut accumulator = Accumulator::new(schedule, &first);
    for peer in 1..sides.remote {
        let round = schedule.round();
        round.recv(peer, accumulator.spare.slice(0, vector.count));
        accumulator.append(round, 0, vector.count);
    }
    let sum = accumulator.now.slice(0, vector.count);
    schedule.last().copy(sum, vector.recv.slice(0, vector.count));
}

/// The other group's operands, reduced in rank order, to everybody.
/// Cost: at rank 0 of each group 2 p messages of n bytes.
pub fn allreduce(schedule: &mut Schedule, sides: Sides, vector: &Vector) {
    let all = |area: &Area| area.slice(0, vector.count);
    if sides.me.rank != 0 {
        schedule.round().send(0, all(&vector.send));
        return schedule.round().recv(0, all(&vector.recv));
    }
    // My operand goes to the other rank 0 while its operand comes to me; then the others'.
    let ours = without_recv(schedule, vector).recv;
    let theirs = schedule.reserve_elements(vector.send.shape, vector.count);
    let round = schedule.round();
    round.recv(0, all(&ours));
    round.send(0, all(&vector.send));
    let start = Vector {
        send: ours,
        recv: ours,
        count: vector.count,
    };
    let mut accumulator = Accumulator::new(schedule, &start);
    for peer in 1..sides.remote {
        let round = schedule.round();
        round.recv(peer, all(&accumulator.spare));
        accumulator.append(round, 0, vector.count);
    }
    // What I reduced is for my group: the other rank 0 hands it out, as I do with what it reduced.
    let round = schedule.round();
    round.recv(0, all(&theirs));
    round.send(0, all(&accumulator.now));
    round.copy(all(&accumulator.now), all(&vector.recv));
    deal(schedule, 1..sides.remote, |_| all(&theirs));
}
