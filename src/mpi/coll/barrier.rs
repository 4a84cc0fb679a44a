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
