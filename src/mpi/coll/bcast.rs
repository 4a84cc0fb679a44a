//! Broadcasts (MPI-4.1 §6.4).

use super::allgather;
use super::schedule::{Area, Member, Schedule, Slice, share, tree};

/// Binomial tree; works on any datatype, since everybody handles the whole message.
/// Cost: ceil(log2 p) messages of n bytes one after the other.
pub fn binomial(schedule: &mut Schedule, me: Member, root: u32, data: Slice) {
    let seat = me.seen_from(root);
    let from_root = Member { rank: root, ..me };
    if let Some(parent) = tree::parent(seat) {
        schedule.round().recv(from_root.after(parent), data);
    }
    let round = schedule.round();
    for child in tree::children(seat).rev() {
        round.send(from_root.after(child.rank), data);
    }
}

/// Scatters the message along a binomial tree, then passes the parts around a ring. `data` counts
/// in elements that all ranks agree on (bytes).
/// Cost: ceil(log2 p) + p - 1 rounds, 2 n (p-1)/p bytes through each rank.
/// Source: van de Geijn 1994; Thakur, Rabenseifner, Gropp 2005 §4.
pub fn scatter_ring(schedule: &mut Schedule, me: Member, root: u32, data: Area, count: usize) {
    let seat = me.seen_from(root);
    let from_root = Member { rank: root, ..me };
    let run = |member: Member| {
        let (first, _) = share(count, me.size, member.rank);
        let (last, len) = share(count, me.size, member.rank + tree::span(member) - 1);
        data.slice(first, last + len - first)
    };
    if let Some(parent) = tree::parent(seat) {
        schedule.round().recv(from_root.after(parent), run(seat));
    }
    let round = schedule.round();
    for child in tree::children(seat).rev() {
        round.send(from_root.after(child.rank), run(child));
    }
    let part = |rank| {
        let (first, len) = share(count, me.size, Member { rank, ..me }.seen_from(root).rank);
        data.slice(first, len)
    };
    allgather::ring(schedule, me, part(me.rank), part);
}
