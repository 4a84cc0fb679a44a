//! nearmpi: an MPICH-ABI MPI library for one machine.
//!
//! Layers, bottom first; a module uses only what stands above it in this list
//! (`launch` stands beside `mpi`):
//!
//! | layer | owns |
//! |---|---|
//! | [`sys`] | the kernel: mappings, process_vm_readv, futexes, affinity, clocks |
//! | [`shm`] | shared-memory structures without MPI words: segment, rings, pools, sleeping |
//! | [`channel`] | ordered packets and one-copy transfers between local ranks |
//! | [`mpi`] | MPI semantics: matching, requests, datatypes, communicators, collectives |
//! | [`launch`] | how a rank finds its job, and how a launcher makes one |
//! | [`place`] | which rank runs where; for mpirun and the tools only |
//! | [`abi`] | the C edge: every exported symbol |
#[cfg(not(any(loom, sanitized)))]
pub mod abi;
#[cfg(not(loom))]
pub mod channel;
#[cfg(not(any(loom, sanitized)))]
pub mod launch;
#[cfg(not(loom))]
pub mod mpi;
#[cfg(not(any(loom, sanitized)))]
pub mod place;
pub mod shm;
pub mod sys;
#[cfg(test)]
mod tidy;
pub mod version;
