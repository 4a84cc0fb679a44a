//! Barriers (MPI-4.1 §6.3).

use super::schedule::{Member, Schedule};

/// Dissemination: in round k everybody tells the rank 2^k ahead that all it heard of are here.
/// Cost: ceil(log2 p) rounds of one empty message each way. Source: Hensgen, Finkel, Manber 1988.
pub fn dissemination(schedule: &mut Schedule, me: Member) {
    let mut step = 1;
    while step < me.size {
        let round = schedule.round();
        round.hear(me.before(step));
        round.signal(me.after(step));
        step *= 2;
    }
}

/// Everybody reports to rank 0, which then lets everybody go. With more ranks than CPUs this needs
/// the fewest turns: each rank runs once before and once after rank 0.
/// Cost: 2 (p - 1) empty messages, all at rank 0.
pub fn flat(schedule: &mut Schedule, me: Member) {
    if me.rank != 0 {
        schedule.round().signal(0);
        return schedule.round().hear(0);
    }
    let round = schedule.round();
    for peer in 1..me.size {
        round.hear(peer);
    }
    let round = schedule.round();
    for peer in 1..me.size {
        round.signal(peer);
    }
}
