//! How a rank finds its job, and how a launcher makes one.
//!
//! | file | owns |
//! |---|---|
//! | [`bootstrap`] | the order in which a rank looks for its job |
//! | [`client`] | a rank's side of PMI-1, the protocol of Hydra, Slurm and Flux |
//! | [`handover`] | the job's memory on its way from rank 0 to the others |
//! | [`memory_report`] | on which NUMA nodes a rank's memory lies |
//! | [`pmi`] | the lines of PMI-1, for both sides |
//! | [`spawn`] | more processes for a job that runs |
pub mod bootstrap;
pub mod client;
pub mod handover;
pub mod memory_report;
pub mod pmi;
pub mod spawn;
