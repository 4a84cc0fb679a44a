//! nearmpi-topo: the machine as nearmpi sees it, with ranks on it.

#[cfg(test)]
#[path = "shared/man.rs"]
mod man;
#[path = "shared/say.rs"]
mod say;

use clap::Parser;
use mpi::place::machine::Machine;
use mpi::place::weights::Weights;
use mpi::place::{draw, map};
use mpi::sys::cpuset::CpuSet;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Prints and draws a machine: what its cores share, how near they are to each other, and which ranks run where.
#[derive(Parser)]
#[command(name = "nearmpi-topo", version)]
struct Options {
    /// The machine: `host`, or an XML file that hwloc's lstopo wrote
    #[arg(short, long, default_value = "host", value_name = "host|FILE")]
    topology: String,
    /// Show the ranks of this map (from nearmpi-place)
    #[arg(short, long, value_name = "FILE", conflicts_with = "job")]
    map: Option<PathBuf>,
    /// Show the ranks of the job that this mpirun runs
    #[arg(short, long, value_name = "PID")]
    job: Option<u32>,
    /// Print the weight of each pair of cores, and nothing else
    #[arg(short, long)]
    weights: bool,
    /// Count every hardware thread instead of the cores
    #[arg(long)]
    hwthreads: bool,
    /// Also draw the machine into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// The hwloc library to load; none: read /sys
    #[arg(long, value_name = "FILE|none", env = "NEARMPI_HWLOC")]
    hwloc: Option<String>,
}

fn main() -> ExitCode {
    match run(&Options::parse()).and_then(|text| say::out(&text)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(sentence) => {
            say::aside(&format!("nearmpi-topo: {sentence}"));
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<String, String> {
    let (machine, notice) = Machine::of(&options.topology, options.hwloc.as_deref())?;
    notice
        .iter()
        .for_each(|notice| say::aside(&format!("nearmpi-topo: {notice}")));
    let ranks = match (&options.map, options.job) {
        (Some(path), _) => {
            let name = path.display();
            let text = fs::read_to_string(path).map_err(|why| format!("{name}: {why}"))?;
            map::read(&text).map_err(|why| format!("{name}: {why}"))?
        }
        (None, Some(launcher)) => ranks_of(launcher)?,
        (None, None) => vec![],
    };
    if let Some(path) = &options.svg {
        fs::write(path, draw::svg(&machine, &ranks)).map_err(|why| format!("{}: {why}", path.display()))?;
    }
    let weights = Weights::new(&machine, options.hwthreads);
    if options.weights {
        return Ok(draw::matrix(&weights.matrix()));
    }
    Ok(format!("{}\n{}", draw::text(&machine, &ranks), draw::levels(&weights)))
}

/// The CPUs that each rank of the job of `launcher` may use.
fn ranks_of(launcher: u32) -> Result<Vec<CpuSet>, String> {
    let mut found: Vec<(usize, i32, CpuSet)> = Vec::new();
    let mine = format!("NEARMPI_LAUNCHER_PID={launcher}");
    for entry in fs::read_dir("/proc").map_err(|why| format!("/proc: {why}"))?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(environment) = fs::read(entry.path().join("environ")) else {
            continue;
        };
        let variables: Vec<&[u8]> = environment.split(|byte| *byte == 0).collect();
        let value = |name: &[u8]| variables.iter().find_map(|text| text.strip_prefix(name));
        let rank = value(b"PMI_RANK=").and_then(|text| String::from_utf8_lossy(text).parse().ok());
        if let Some(rank) = rank.filter(|_| variables.contains(&mine.as_bytes())) {
            found.push((rank, pid, mpi::sys::cpu::mask(pid)));
        }
    }
    // Children of a rank have its variables and a higher number.
    found.sort_by_key(|(rank, pid, _)| (*rank, *pid));
    found.dedup_by_key(|(rank, _, _)| *rank);
    match found.is_empty() {
        true => Err(format!("no rank of a job of process {launcher} that we may look at")),
        false => Ok(found.into_iter().map(|(_, _, cpus)| cpus).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn generated_man_page_is_fresh() {
        man::is_fresh("nearmpi-topo", Options::command());
    }
}
