//! Names of ports (MPI-4.1 §11.9.1): who opened a port, in which job, and which context stands for it.
//!
//! ```text
//! nearmpi:PID:JOB:RANK:CONTEXT:LIFE     all decimal but JOB, the job's number
//! ```

use std::fmt;

const SCHEME: &str = "nearmpi";

/// What a port's name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortName {
    /// The process that opened it: `mpirun -join` finds the job by it.
    pub pid: i32,
    /// The job's number.
    pub job: u64,
    /// The process's rank in the job.
    pub owner: u32,
    /// The port's context.
    pub context: u16,
    /// Which life the context is in.
    pub life: u32,
}

impl PortName {
    /// Reads a name; `None` if it is no port's.
    pub fn parse(text: &str) -> Option<PortName> {
        let parts: Vec<&str> = text.split(':').collect();
        let [SCHEME, pid, job, owner, context, life] = parts[..] else {
            return None;
        };
        Some(PortName {
            pid: pid.parse().ok()?,
            job: u64::from_str_radix(job, 16).ok()?,
            owner: owner.parse().ok()?,
            context: context.parse().ok()?,
            life: life.parse().ok()?,
        })
    }
}

impl fmt::Display for PortName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let PortName {
            pid,
            job,
            owner,
            context,
            life,
        } = self;
        write!(f, "{SCHEME}:{pid}:{job:x}:{owner}:{context}:{life}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let port = PortName {
            pid: 12,
            job: 0xfedc_ba98_7654_3210,
            owner: 3,
            context: 40,
            life: 2,
        };
        assert_eq!(PortName::parse(&port.to_string()), Some(port));
        for wrong in [
            "",
            "nearmpi",
            "nearmpi:12:g:3:40:2",
            "other:12:a:3:40:2",
            "nearmpi:12:a:3:70000:2",
            "nearmpi:12:a:3:40:2:1",
        ] {
            assert_eq!(PortName::parse(wrong), None, "{wrong}");
        }
    }
}
