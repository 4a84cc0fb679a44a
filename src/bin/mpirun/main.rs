//! mpirun (also mpiexec): starts the ranks of an MPI job on this machine and watches over them.
//!
//! | file | owns |
//! |---|---|
//! | `options` | the table of options, the help; `man` makes the man page of it |
//! | `completion` | what makes shells complete them |
//! | `arguments` | from the command line to a job; `words` takes lines apart, `directives` Open MPI's lists, `hosts` lists of hosts |
//! | `count` | how many ranks each program has; `allocation` knows what a batch system has given |
//! | `annex` | more ranks for a job that runs (MPI_Comm_spawn, -join) |
//! | `auto` | ranks placed by who talks to whom |
//! | `binding` | which CPUs each rank gets; `intel` reads Intel MPI's variables |
//! | `start` | the ranks' surroundings, descriptors and places |
//! | `debugger` | what parallel debuggers read: the table of ranks, and where they stop mpirun |
//! | `preload` | our libraries before those that a program was linked with |
//! | `supervise` | the loop from start to end: deaths, time limit, what the ranks are told; `ending` ends a job, and takes signals |
//! | `guests` | ranks that other launchers watch over |
//! | `remains` | what is left when the ranks are gone |
//! | `stall` | noticing that ranks wait for each other |
//! | `view` | what the ranks are doing, in words |
//! | `report` | who waits for whom |
//! | `top` | the live table |
//! | `profile` | where the job's time and bytes went, if that is asked for |
//! | `server` | PMI-1 for programs of other MPI libraries |
//! | `output` | the ranks' output, tagged and in whole lines |
//! | `outlet` | where output goes, and what has to wait for its reader |
//! | `os` | system calls that the standard library lacks |
mod allocation;
mod annex;
mod arguments;
mod auto;
mod binding;
mod completion;
mod count;
mod debugger;
mod directives;
mod guests;
mod hosts;
mod intel;
#[cfg(test)]
mod man;
mod options;
mod os;
mod outlet;
mod output;
mod preload;
mod profile;
mod remains;
mod report;
#[path = "../shared/say.rs"]
mod say;
mod server;
mod stall;
mod start;
mod supervise;
mod top;
mod view;
mod words;

use annex::Host;
use arguments::{Job, Request};
use hosts::Here;
use mpi::launch::spawn::SEPARATOR;
use mpi::shm::segment::annex::Outcome;
use start::Failure;
use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(code) => ExitCode::from(code as u8),
        Err(failure) => {
            say::aside(&format!("mpirun: {}", failure.text));
            ExitCode::from(failure.code as u8)
        }
    }
}

fn run() -> Result<i32, Failure> {
    let words: Vec<OsString> = std::env::args_os().skip(1).collect();
    let host_job = annex::asked()?;
    let separator = if host_job.is_some() { SEPARATOR } else { ":" };
    let read = |name: &str| std::fs::read_to_string(name).map_err(|e| format!("{name}: {e}"));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let here = Here {
        name: host.trim(),
        resolves: &hosts::resolves_here,
    };
    let text = match arguments::parse(words.clone(), separator, &read, &here).map_err(Failure::new)? {
        Request::Help => options::help(),
        Request::Version => format!("mpirun (nearmpi) {}\n", env!("CARGO_PKG_VERSION")),
        Request::Completion(shell) => match completion::script(&shell) {
            Some(script) => script,
            None => {
                return Err(Failure::new(format!(
                    "-completion {shell}: not one of {}",
                    completion::SHELLS.join(", ")
                )));
            }
        },
        Request::Run(job) => match host_job {
            None => return launch(*job, &words),
            Some(host_job) => {
                host_job.let_go()?;
                return extend(&job, &host_job);
            }
        },
    };
    say::out(&text).map_err(Failure::new)?;
    Ok(0)
}

/// Starts `job` as more ranks of another one.
fn extend(job: &Job, host: &Host) -> Result<i32, Failure> {
    let done = run_to_the_end(job, Some(host));
    host.conclude(match done {
        Ok(_) => Outcome::Over,
        Err(_) => Outcome::Failed,
    });
    done
}

fn launch(mut job: Job, words: &[OsString]) -> Result<i32, Failure> {
    if job.timeout.is_none()
        && let Some(text) = job.variable("MPIEXEC_TIMEOUT").filter(|text| !text.trim().is_empty())
    {
        job.timeout = Some(arguments::limit("MPIEXEC_TIMEOUT", &text).map_err(Failure::new)?);
    }
    job.timeout = job.timeout.filter(|seconds| *seconds > 0);
    prepare(&mut job).map_err(Failure::new)?;
    if job.join.is_some() {
        join_only(&mut job).map_err(Failure::new)?;
    }
    if let Some(seconds) = job.hang_after {
        job.stall = job.stall.after(seconds);
    }
    auto::place(&mut job, words)?;
    if job.verbose {
        job.notes.iter().for_each(|note| say::aside(&format!("mpirun: {note}")));
    }
    match &job.join {
        Some(target) => extend(&job, &annex::join(target, start::size(&job))?),
        None => run_to_the_end(&job, None),
    }
}

/// Leaves to the job that `job` joins what is of all its ranks: their places, which those of others may have taken, and its profile.
fn join_only(job: &mut Job) -> Result<(), String> {
    let refused = [(job.profile.is_some(), "-profile"), (job.place.is_some(), "-place")];
    if let Some((_, option)) = refused.iter().find(|(is_given, _)| *is_given) {
        return Err(format!("{option} is for a whole job: it cannot stand beside -join"));
    }
    job.binding.leave_free();
    Ok(())
}

/// Completes `job` by what the environment and the machine say.
fn prepare(job: &mut Job) -> Result<(), String> {
    let mut binding = std::mem::take(&mut job.binding);
    let ignored = binding.read_environment(&|name| job.variable(name));
    job.binding = binding;
    job.notes
        .extend(ignored?.iter().map(|what| format!("{what}: no effect here")));
    let cpus = mpi::sys::cpu::allowed(0) as u32;
    let read = |name: &str| std::fs::read_to_string(name).ok();
    let outside = count::Outside::look(&|name| job.variable(name), &read);
    if let Some(warning) = count::settle(job, cpus, &outside)? {
        say::aside(&format!("mpirun: {warning}"));
    }
    Ok(())
}

fn run_to_the_end(job: &Job, host: Option<&Host>) -> Result<i32, Failure> {
    os::adopt_orphans();
    let mut signals =
        os::Signals::new(&supervise::WATCHED).map_err(|e| Failure::new(format!("cannot watch signals: {e}")))?;
    match start::start(job, host, signals.before) {
        Ok(started) => Ok(supervise::supervise(job, host, started, signals)),
        Err(failure) => {
            remains::clear(&mut signals);
            Err(failure)
        }
    }
}
