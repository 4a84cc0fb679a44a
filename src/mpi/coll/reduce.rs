//! Reductions to one rank (MPI-4.1 §6.9.1), and the accumulator that every reduction uses.
//!
//! All algorithms keep the operands in rank order, so that they serve operations that do not
//! commute, and so that all ranks that combine the same operands get the same bits.

use super::allreduce::Halves;
use super::gather::collect;
use super::schedule::{Area, Base, Member, Round, Schedule, tree};

/// A vector to be reduced. In place: `send` equals `recv`.
#[derive(Clone, Copy, Debug)]
pub struct Vector {
    /// This rank's operand.
    pub send: Area,
    /// Where the result goes; significant where there is one.
    pub recv: Area,
    /// Number of elements.
    pub count: usize,
}

/// The operand combined so far, and room for the next one. `left op right` is computed into
/// `right`, so the two change places when the received operand stands on the right.
pub struct Accumulator {
    /// The result so far.
    pub now: Area,
    /// Where the next operand is received.
    pub spare: Area,
    /// Room that replaces `now` once: set while `now` is the send buffer, which is never written.
    fresh: Option<Area>,
}

impl Accumulator {
    /// Starts with the operand of `vector`; takes scratch memory for one more vector.
    pub fn new(schedule: &mut Schedule, vector: &Vector) -> Accumulator {
        let scratch = schedule.reserve_elements(vector.send.shape, vector.count);
        let in_place = vector.send == vector.recv;
        Accumulator {
            now: vector.send,
            spare: if in_place { scratch } else { vector.recv },
            fresh: (!in_place).then_some(scratch),
        }
    }

    /// Combines elements `first .. first + count` with those received in `spare`, which stand to the right.
    pub fn append(&mut self, round: &mut Round, first: usize, count: usize) {
        round.reduce(self.now.slice(first, count), self.spare.slice(first, count));
        let old = std::mem::replace(&mut self.now, self.spare);
        self.spare = self.fresh.take().unwrap_or(old);
    }

    /// As [`Accumulator::append`], with the received elements to the left.
    pub fn prepend(&mut self, round: &mut Round, first: usize, count: usize) {
        if let Some(room) = self.fresh.take() {
            round.copy(self.now.slice(first, count), room.slice(first, count));
            self.now = room;
        }
        round.reduce(self.spare.slice(first, count), self.now.slice(first, count));
    }
}

/// `vector` with scratch memory in place of the receive buffer, for ranks that have none.
pub fn without_recv(schedule: &mut Schedule, vector: &Vector) -> Vector {
    Vector {
        recv: schedule.reserve_elements(vector.send.shape, vector.count),
        ..*vector
    }
}

/// Everybody sends its operand to the root, which reduces them in rank order. For short vectors of
/// more ranks than CPUs: only the root waits for the others.
/// Cost: one message of n bytes; at the root p - 1 of them, n (p-1) reduced, p n bytes of scratch memory.
pub fn flat(schedule: &mut Schedule, me: Member, root: u32, vector: &Vector) {
    let mine = vector.send.slice(0, vector.count);
    if me.rank != root {
        return schedule.round().send(root, mine);
    }
    let rooms: Vec<_> = (0..me.size)
        .map(|_| {
            schedule
                .reserve_elements(vector.send.shape, vector.count)
                .slice(0, vector.count)
        })
        .collect();
    schedule.round().copy(mine, rooms[root as usize]);
    collect(schedule, (0..me.size).filter(|&peer| peer != root), |peer| {
        rooms[peer as usize]
    });
    let last = schedule.last();
    for pair in rooms.windows(2) {
        last.reduce(pair[0], pair[1]);
    }
    last.copy(rooms[me.size as usize - 1], vector.recv.slice(0, vector.count));
}

/// Binomial tree. An operation that does not commute is reduced at rank 0, which passes the result
/// to the root.
/// Cost: ceil(log2 p) rounds of n bytes, and one more for the last case.
pub fn binomial(schedule: &mut Schedule, me: Member, root: u32, commutes: bool, vector: &Vector) {
    let top = if commutes { root } else { 0 };
    let seat = me.seen_from(top);
    let from_top = Member { rank: top, ..me };
    let all = |area: &Area| area.slice(0, vector.count);
    let has_recv = me.rank == root;
    let mut sum = vector.send;
    if tree::span(seat) > 1 {
        let room = if has_recv {
            *vector
        } else {
            without_recv(schedule, vector)
        };
        let mut accumulator = Accumulator::new(schedule, &room);
        for child in tree::children(seat) {
            let round = schedule.round();
            round.recv(from_top.after(child.rank), all(&accumulator.spare));
            accumulator.append(round, 0, vector.count);
        }
        sum = accumulator.now;
    }
    if let Some(parent) = tree::parent(seat) {
        schedule.round().send(from_top.after(parent), all(&sum));
    } else if has_recv {
        schedule.last().copy(all(&sum), all(&vector.recv));
    } else {
        schedule.round().send(root, all(&sum));
    }
    if has_recv && top != root {
        schedule.round().recv(top, all(&vector.recv));
    }
}

/// Reduces halves of halves, so that each rank has the result of one part, and gathers the parts at
/// the root along the same way back. For long vectors.
/// Cost: 2 log2 p rounds (+ 2 when p is no power of two), about 2 n bytes and n reduced.
/// Source: Rabenseifner 2004.
pub fn halving(schedule: &mut Schedule, me: Member, root: u32, vector: &Vector) {
    let has_recv = me.rank == root;
    let room = if has_recv {
        *vector
    } else {
        without_recv(schedule, vector)
    };
    let Some(halves) = Halves::reduce(schedule, me, &room) else {
        if has_recv {
            schedule
                .round()
                .recv(Halves::partner(root), vector.recv.slice(0, vector.count));
        }
        return;
    };
    let collector = Halves::seat_of(me.size, root);
    let mut active = true;
    for step in halves.steps.iter().rev() {
        let round = schedule.round();
        let distance = step.distance;
        if !active {
            continue;
        }
        if (halves.seat ^ collector) & distance == 0 {
            round.recv(step.peer, room.recv.slice(step.given.0, step.given.1));
        } else {
            round.send(step.peer, room.recv.slice(step.kept.0, step.kept.1));
            active = false;
        }
    }
    let folded = Halves::is_folded(me.size, root);
    if folded && halves.seat == collector {
        schedule.round().send(root, room.recv.slice(0, vector.count));
    }
    debug_assert!(room.recv.base != Base::Send);
}
