//! `-place auto`: finds out who talks to whom, then binds the ranks so that those who talk much are near each other.
//!
//! The first time a program is started so, it runs for a while under a profile, with its output and input on
//! /dev/null, and its communication matrix is kept (in `$XDG_CACHE_HOME/nearmpi`); later times use what was kept.

use crate::arguments::Job;
use crate::say;
use crate::start::Failure;
use mpi::place::mapping::BindTo;
use mpi::place::matrix::Matrix;
use mpi::place::policy::{Method, Planner, Policy};
use mpi::place::weights::Weights;
use mpi::sys::cpuset::CpuSet;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Tells a run of our own that it is the traced one, and how many seconds it may take.
pub const TRACE: &str = "NEARMPI_PLACE_TRACE";
/// Seconds of a traced run where nobody says.
const SECONDS: u64 = 10;

/// How ranks are to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auto {
    /// Trace again, for so many seconds.
    trace: Option<u64>,
}

impl Auto {
    /// Takes the option's value apart.
    ///
    /// # Errors
    /// A sentence with the value.
    pub fn parse(text: &str) -> Result<Auto, String> {
        match text.split_once(':') {
            None if text == "auto" => Ok(Auto { trace: None }),
            Some(("auto", seconds)) => Ok(Auto {
                trace: Some(crate::arguments::seconds("-place auto:", seconds)?),
            }),
            _ => Err(format!("-place {text}: not auto or auto:SECONDS")),
        }
    }
}

/// Binds the ranks of `job`, if that is asked for. `words`: mpirun's own arguments.
///
/// # Errors
/// A sentence when options contradict each other. Whatever else goes wrong leaves the job as it is, and is said.
pub fn place(job: &mut Job, words: &[OsString]) -> Result<(), Failure> {
    let Some(auto) = job.place.take() else { return Ok(()) };
    if let Some(seconds) = std::env::var(TRACE).ok().and_then(|text| text.parse().ok()) {
        // We are the traced run.
        job.timeout = Some(job.timeout.unwrap_or(seconds).min(seconds));
        job.stall = crate::stall::Policy::parse("off").map_err(Failure::new)?;
        return Ok(());
    }
    if job.binding.wish.bind.is_some() || job.binding.wish.map.is_some() || job.binding.wish.rank.is_some() {
        return Err(Failure::new(
            "-place auto leaves no room for -bind-to, -map-by and -rank-by",
        ));
    }
    match sets(job, auto, words) {
        Ok(sets) => job.binding.wish.bind = Some(BindTo::Sets(sets)),
        Err(why) => say::aside(&format!("mpirun: -place auto: {why}; ranks are not placed")),
    }
    Ok(())
}

/// The CPUs of each rank.
fn sets(job: &Job, auto: Auto, words: &[OsString]) -> Result<Vec<CpuSet>, String> {
    let ranks: u32 = job.apps.iter().filter_map(|app| app.count).sum();
    let machine = job.binding.machine()?.0;
    let cores = machine.places(false).len();
    let weights = Weights::new(&machine, ranks as usize > cores);
    if ranks as usize > weights.places.len() {
        return Err(format!("{ranks} ranks are more than the {} CPUs", weights.places.len()));
    }
    let kept = kept(job, ranks);
    let old = kept
        .as_ref()
        .filter(|_| auto.trace.is_none())
        .and_then(|path| Matrix::read(path).ok());
    let matrix = match old.filter(|matrix| matrix.ranks() == ranks as usize) {
        Some(matrix) => matrix,
        None => {
            let matrix = trace(job, auto.trace.unwrap_or(SECONDS), words)?;
            if matrix.ranks() != ranks as usize {
                return Err(format!("the traced run had {} ranks, not {ranks}", matrix.ranks()));
            }
            // What cannot be kept is traced again next time.
            let _ = kept.as_ref().map(|path| {
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                fs::write(path, matrix.json())
            });
            matrix
        }
    };
    let planner = Planner::new(&machine, &weights, &matrix)?;
    let (placed, by) = planner.placed(Method::Best, job.variable("NEARMPI_SCOTCH").as_deref())?;
    let cost = |policy| planner.report(&planner.sets(policy, &placed)).cost;
    let (mine, dealt) = (cost(Policy::Placed), cost(Policy::RrBound));
    let ratio = if mine > 0.0 { dealt / mine } else { 1.0 };
    say::aside(&format!(
        "mpirun: ranks placed by {by}: {ratio:.2} times nearer than dealt out in turn (-report-bindings shows where)"
    ));
    Ok(placed.iter().map(|&place| weights.places[place].clone()).collect())
}

/// Where the matrix of this job is kept; `None` where nothing can be.
fn kept(job: &Job, ranks: u32) -> Option<PathBuf> {
    let folder = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    let mut hasher = DefaultHasher::new();
    ranks.hash(&mut hasher);
    for app in &job.apps {
        let program = fs::canonicalize(&app.program).unwrap_or_else(|_| PathBuf::from(&app.program));
        (program, &app.arguments, app.count).hash(&mut hasher);
    }
    Some(
        cache
            .join("nearmpi")
            .join(format!("matrix-{:016x}.json", hasher.finish())),
    )
}

/// Runs the job under a profile and reads the matrix.
fn trace(job: &Job, seconds: u64, words: &[OsString]) -> Result<Matrix, String> {
    let programs: Vec<_> = job.apps.iter().map(|app| app.program.to_string_lossy()).collect();
    say::aside(&format!(
        "mpirun: tracing {} for {seconds} s at most, to see who talks to whom",
        programs.join(" and ")
    ));
    let folder = std::env::temp_dir().join(format!("nearmpi-place-{}", std::process::id()));
    fs::create_dir(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let program = std::env::current_exe().map_err(|why| format!("cannot find mpirun itself: {why}"))?;
    let run = Command::new(program)
        .arg(format!("-profile={}", folder.display()))
        .args(words)
        .env(TRACE, seconds.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let matrix = run.map_err(|why| why.to_string()).and_then(|_| Matrix::read(&folder));
    let _ = fs::remove_dir_all(&folder);
    matrix.map_err(|why| format!("no matrix of the traced run ({why})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_auto() {
        assert_eq!(Auto::parse("auto"), Ok(Auto { trace: None }));
        assert_eq!(Auto::parse("auto:3"), Ok(Auto { trace: Some(3) }));
        for text in ["", "car", "auto:", "auto:x", "auto:0"] {
            assert!(Auto::parse(text).is_err(), "{text}");
        }
    }
}
