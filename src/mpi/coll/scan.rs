//! Prefix reductions (MPI-4.1 §6.11).

use super::reduce::Vector;
use super::schedule::{Area, Member, Schedule};

/// Inclusive: in round k everybody sends what it has to the rank 2^k above and puts what it gets
/// in front. Cost: ceil(log2 p) rounds of n bytes. Source: Hillis, Steele 1986.
pub fn inclusive(schedule: &mut Schedule, me: Member, vector: &Vector) {
    let all = |area: &Area| area.slice(0, vector.count);
    schedule.round().copy(all(&vector.send), all(&vector.recv));
    prefixes(schedule, me, 0, vector.recv, vector.count);
}

/// Exclusive: everybody passes its operand up by one, then the ranks above 0 scan what they got.
/// Rank 0 gets nothing. Cost: 1 + ceil(log2 (p-1)) rounds of n bytes.
pub fn exclusive(schedule: &mut Schedule, me: Member, vector: &Vector) {
    let all = |area: &Area| area.slice(0, vector.count);
    let passes = me.rank + 1 < me.size;
    let in_place = vector.send == vector.recv;
    let sum = if in_place && passes && me.rank > 0 {
        schedule.reserve_elements(vector.send.shape, vector.count)
    } else {
        vector.recv
    };
    let round = schedule.round();
    if me.rank > 0 {
        round.recv(me.rank - 1, all(&sum));
    }
    if passes {
        round.send(me.rank + 1, all(&vector.send));
    }
    if me.rank > 0 {
        prefixes(schedule, me, 1, sum, vector.count);
        schedule.last().copy(all(&sum), all(&vector.recv));
    }
}

/// Inclusive scan in `sum` over the ranks from `lowest` up.
fn prefixes(schedule: &mut Schedule, me: Member, lowest: u32, sum: Area, count: usize) {
    if lowest + 1 == me.size {
        return;
    }
    let received = schedule.reserve_elements(sum.shape, count).slice(0, count);
    let sum = sum.slice(0, count);
    let mut distance = 1;
    while distance < me.size - lowest {
        let round = schedule.round();
        let below = me.rank >= lowest + distance;
        if below {
            round.recv(me.rank - distance, received);
        }
        if me.rank + distance < me.size {
            round.send(me.rank + distance, sum);
        }
        if below {
            round.reduce(received, sum);
        }
        distance *= 2;
    }
}
