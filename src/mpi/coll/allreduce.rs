//! Reductions whose result everybody gets (MPI-4.1 §6.9.6).
//!
//! Both algorithms work on a power of two of ranks: of the first ranks, as many pairs as are too
//! many fold together (the even one hands its operand to the odd one and gets the result back).
//! Partners are at distance 1, 2, 4 ..., so what is combined are always neighbouring runs of ranks.

use super::reduce::{self, Accumulator, Vector};
use super::scatter::deal;
use super::schedule::{Area, Member, Schedule};

/// Everybody exchanges its partial result with a partner at doubling distances.
/// Cost: ceil(log2 p) rounds of n bytes (+ 2 when p is no power of two). For short vectors.
pub fn recursive_doubling(schedule: &mut Schedule, me: Member, vector: &Vector) {
    let all = |area: &Area| area.slice(0, vector.count);
    let mut accumulator = Accumulator::new(schedule, vector);
    let Some(seat) = fold(schedule, me, vector, &mut accumulator) else {
        return schedule.round().recv(Halves::partner(me.rank), all(&vector.recv));
    };
    let mut distance = 1;
    while distance < seats(me.size) {
        let peer = rank_of(me.size, seat ^ distance);
        let round = schedule.round();
        round.recv(peer, all(&accumulator.spare));
        round.send(peer, all(&accumulator.now));
        if seat & distance == 0 {
            accumulator.append(round, 0, vector.count);
        } else {
            accumulator.prepend(round, 0, vector.count);
        }
        distance *= 2;
    }
    schedule.last().copy(all(&accumulator.now), all(&vector.recv));
    unfold(schedule, me, vector);
}

/// Rank 0 reduces everybody's operand and sends everybody the result. For short vectors of more
/// ranks than CPUs. Cost: as [`reduce::flat`], and p - 1 messages more at rank 0.
pub fn flat(schedule: &mut Schedule, me: Member, vector: &Vector) {
    let result = vector.recv.slice(0, vector.count);
    reduce::flat(schedule, me, 0, vector);
    if me.rank != 0 {
        return schedule.round().recv(0, result);
    }
    deal(schedule, 1..me.size, |_| result);
}

/// Reduces halves of halves and spreads the parts along the same way back. For long vectors.
/// Cost: 2 log2 p rounds (+ 2 when p is no power of two), 2 n (p-1)/p bytes each way and
/// n (p-1)/p reduced. Source: Rabenseifner 2004.
pub fn halving(schedule: &mut Schedule, me: Member, vector: &Vector) {
    let Some(halves) = Halves::reduce(schedule, me, vector) else {
        let result = vector.recv.slice(0, vector.count);
        return schedule.round().recv(Halves::partner(me.rank), result);
    };
    for step in halves.steps.iter().rev() {
        let round = schedule.round();
        round.recv(step.peer, vector.recv.slice(step.given.0, step.given.1));
        round.send(step.peer, vector.recv.slice(step.kept.0, step.kept.1));
    }
    unfold(schedule, me, vector);
}

/// A rank's way through a reduction by halves.
pub struct Halves {
    /// Its place among the ranks that take part.
    pub seat: u32,
    /// First exchange first.
    pub steps: Vec<Step>,
}

/// One exchange: elements (first, count) given to the partner and kept.
pub struct Step {
    /// The partner.
    pub peer: u32,
    /// Distance of the partner's seat.
    pub distance: u32,
    /// Reduced by the partner.
    pub given: (usize, usize),
    /// Reduced here.
    pub kept: (usize, usize),
}

impl Halves {
    /// Reduces; at the end the rank's `kept` elements of the last step (all, when there is none)
    /// are in `vector.recv`. `None` for a rank that handed its operand to its partner.
    pub fn reduce(schedule: &mut Schedule, me: Member, vector: &Vector) -> Option<Halves> {
        let mut accumulator = Accumulator::new(schedule, vector);
        let seat = fold(schedule, me, vector, &mut accumulator)?;
        let mut steps: Vec<Step> = Vec::new();
        let mut mine = (0, vector.count);
        let mut distance = 1;
        while distance < seats(me.size) {
            let peer = rank_of(me.size, seat ^ distance);
            let low = (mine.0, mine.1.div_ceil(2));
            let high = (mine.0 + low.1, mine.1 - low.1);
            let is_low = seat & distance == 0;
            let (kept, given) = if is_low { (low, high) } else { (high, low) };
            let round = schedule.round();
            round.recv(peer, accumulator.spare.slice(kept.0, kept.1));
            round.send(peer, accumulator.now.slice(given.0, given.1));
            if is_low {
                accumulator.append(round, kept.0, kept.1);
            } else {
                accumulator.prepend(round, kept.0, kept.1);
            }
            steps.push(Step {
                peer,
                distance,
                given,
                kept,
            });
            mine = kept;
            distance *= 2;
        }
        let last = schedule.last();
        last.copy(accumulator.now.slice(mine.0, mine.1), vector.recv.slice(mine.0, mine.1));
        Some(Halves { seat, steps })
    }

    /// Whether `rank` of `size` hands its operand to its partner.
    pub fn is_folded(size: u32, rank: u32) -> bool {
        rank < 2 * (size - seats(size)) && rank.is_multiple_of(2)
    }

    /// Who acts for a folded `rank`.
    pub fn partner(rank: u32) -> u32 {
        rank + 1
    }

    /// The seat of `rank`, or of the one that acts for it.
    pub fn seat_of(size: u32, rank: u32) -> u32 {
        let pairs = size - seats(size);
        if rank < 2 * pairs { rank / 2 } else { rank - pairs }
    }
}

/// The largest power of two of ranks.
fn seats(size: u32) -> u32 {
    1 << size.ilog2()
}

/// The rank on `seat`.
fn rank_of(size: u32, seat: u32) -> u32 {
    let pairs = size - seats(size);
    if seat < pairs { 2 * seat + 1 } else { seat + pairs }
}

/// Folds the ranks that are too many; `None` for one that now only waits for the result.
fn fold(schedule: &mut Schedule, me: Member, vector: &Vector, accumulator: &mut Accumulator) -> Option<u32> {
    if Halves::is_folded(me.size, me.rank) {
        let operand = accumulator.now.slice(0, vector.count);
        schedule.round().send(Halves::partner(me.rank), operand);
        return None;
    }
    if me.rank > 0 && Halves::is_folded(me.size, me.rank - 1) {
        let round = schedule.round();
        round.recv(me.rank - 1, accumulator.spare.slice(0, vector.count));
        accumulator.prepend(round, 0, vector.count);
    }
    Some(Halves::seat_of(me.size, me.rank))
}

/// Sends the result to the rank that was folded into this one.
fn unfold(schedule: &mut Schedule, me: Member, vector: &Vector) {
    if me.rank > 0 && Halves::is_folded(me.size, me.rank - 1) {
        schedule.round().send(me.rank - 1, vector.recv.slice(0, vector.count));
    }
}
