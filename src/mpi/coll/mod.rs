//! Collective operations (MPI-4.1 §6): schedules, and the one machine that runs them.

pub mod allgather;
pub mod allreduce;
pub mod alltoall;
mod alone;
pub mod args;
pub mod barrier;
pub mod bcast;
pub mod board;
pub mod call;
pub mod choice;
pub mod gather;
pub mod inter;
pub mod internal;
pub mod machine;
#[cfg(test)]
mod machine_tests;
pub mod neighbor;
pub mod plan;
pub mod presented;
pub mod reduce;
pub mod reduce_scatter;
pub mod scan;
pub mod scatter;
pub mod schedule;
pub mod short;
pub mod signature;
#[cfg(test)]
mod simulate;
#[cfg(test)]
pub(super) mod support;
#[cfg(test)]
mod tests;

pub use internal::{allgather_bytes, allgather_u64, allreduce_u64, barrier, barrier_of, bcast_bytes};

pub use machine::advance;

use super::comm::Comm;
use std::cell::Cell;

/// Numbers `0 .. TAGS` of a communicator's collective plane belong to its collective operations: the
/// lower half to the blocking ones, the upper half to those that are started, each of which takes the
/// next one of its half. Those of persistent operations stay in use: they are counted for themselves and have the numbers
/// `TAGS .. 2 * TAGS`, so the messages of one could be taken for another's only if as many were made while it lived.
/// Two halves, because programs exist (ULFM's `MPIX_Comm_iagree` in mpi4py is one) whose ranks start an
/// operation before or after a barrier as they like; MPICH lets them. A schedule's messages have the number and a [`signature`] in a negative tag. Tags from
/// `2 * TAGS` up belong to other messages of the library: those of `MPI_Comm_create_group` and
/// `MPI_Intercomm_create` (`mpi::comm`) and of partitions (`mpi::pt2pt::partitioned`).
pub const TAGS: u32 = 1 << 20;

/// The tag of the next blocking operation on `comm`. All members call collectives in the same order,
/// so they agree on it.
pub fn next_tag(comm: &Comm) -> i32 {
    tag_of(comm.context.take_turn())
}

/// The number of a blocking operation's turn in tags.
fn tag_of(turn: u64) -> i32 {
    (turn % u64::from(TAGS / 2)) as i32
}

/// The tag of the next nonblocking operation on `comm`.
pub fn next_started_tag(comm: &Comm) -> i32 {
    (TAGS / 2 + take(&comm.started_collectives, TAGS / 2)) as i32
}

/// The tag of a persistent operation, for all its starts.
pub fn persistent_tag(comm: &Comm) -> i32 {
    (TAGS + take(&comm.persistent_collectives, TAGS)) as i32
}

/// The next number of `many`.
fn take(counter: &Cell<u32>, many: u32) -> u32 {
    let number = counter.get();
    counter.set((number + 1) % many);
    number
}
