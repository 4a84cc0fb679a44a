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

/// The code that a job ends with when a rank aborts it with `code`. Of an exit code the kernel keeps the lowest byte, and a job that was
/// aborted must not look like one that went well: what would become 0 is 1. 0 itself stays, as under MPICH.
pub fn aborted_with(code: i32) -> i32 {
    match code & 0xff {
        0 if code != 0 => 1,
        _ => code,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn no_abort_looks_like_success() {
        for code in [256, 512, -256, i32::MIN] {
            assert_eq!(super::aborted_with(code), 1, "{code}");
        }
        for code in [0, 1, 255, 257, -1] {
            assert_eq!(super::aborted_with(code), code);
        }
    }
}
