//! nearmpi-place: which rank should run on which core, from who talks to whom and what the cores share.

#[cfg(test)]
#[path = "shared/man.rs"]
mod man;
#[path = "shared/say.rs"]
mod say;

use clap::{Parser, ValueEnum};
use mpi::place::machine::Machine;
use mpi::place::matrix::Matrix;
use mpi::place::policy::{Method, Planner, Policy, Report};
use mpi::place::weights::Weights;
use mpi::place::{draw, map, patterns};
use mpi::sys::cpuset::CpuSet;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

/// Computes which rank runs on which core, so that ranks that talk much are near each other (Mercier 2009).
#[derive(Parser)]
#[command(name = "nearmpi-place", version)]
struct Options {
    /// The run.json of `mpirun --profile`, or its folder
    #[arg(short, long, value_name = "FILE", required_unless_present = "pattern")]
    matrix: Option<PathBuf>,
    /// The communication of a NAS benchmark in place of a matrix: lu, bt, sp, cg or mg, class and ranks, as lu.B.8
    #[arg(long, value_name = "NAME", conflicts_with = "matrix")]
    pattern: Option<String>,
    /// The machine: `host`, or an XML file that hwloc's lstopo wrote
    #[arg(short, long, default_value = "host", value_name = "host|FILE")]
    topology: String,
    /// The policy that is mapped and written; the others are shown beside it
    #[arg(short, long, default_value = "placed", value_enum)]
    policy: Name,
    /// Who looks for the mapping of low cost
    #[arg(long, default_value = "best", value_enum)]
    method: By,
    /// One rank to each hardware thread instead of each core
    #[arg(long)]
    hwthreads: bool,
    /// Write the map here, for mpirun -map-by file:FILE
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Draw the machine with the ranks on it into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the matrix here
    #[arg(long, value_name = "FILE")]
    write_matrix: Option<PathBuf>,
    /// The hwloc library to load; none: read /sys
    #[arg(long, value_name = "FILE|none", env = "NEARMPI_HWLOC")]
    hwloc: Option<String>,
    /// The Scotch library to load; none: do without
    #[arg(long, value_name = "FILE|none", env = "NEARMPI_SCOTCH")]
    scotch: Option<String>,
}

/// Policies.
#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// Round the machine's packages or nodes, free within each
    Rr,
    /// The same, each rank bound to a core
    RrBound,
    /// Those that talk much in one package or node, free within it
    Regroup,
    /// Those that talk much near each other, each bound to a core
    Placed,
    /// Those that talk much as far apart as can be: what is to be lost
    PlacedReverse,
}

/// Methods.
#[derive(Clone, Copy, ValueEnum)]
enum By {
    /// Scotch if it is installed, and our own; the cheaper mapping counts
    Best,
    /// Scotch alone
    Scotch,
    /// Our own alone
    Builtin,
}

fn main() -> ExitCode {
    match run(&Options::parse()).and_then(|text| say::out(&text)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(sentence) => {
            say::aside(&format!("nearmpi-place: {sentence}"));
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<String, String> {
    let (name, matrix) = match (&options.pattern, &options.matrix) {
        (Some(pattern), _) => (pattern.clone(), patterns::named(pattern)?),
        (None, Some(path)) => (path.display().to_string(), Matrix::read(path)?),
        (None, None) => return Err("neither a matrix nor a pattern".into()),
    };
    let (machine, notice) = Machine::of(&options.topology, options.hwloc.as_deref())?;
    notice
        .iter()
        .for_each(|notice| say::aside(&format!("nearmpi-place: {notice}")));
    let machine = match options.topology.as_str() {
        "host" => machine.restricted(&mpi::sys::cpu::mask(0))?,
        _ => machine,
    };
    let weights = Weights::new(&machine, options.hwthreads);
    let planner = Planner::new(&machine, &weights, &matrix).map_err(|why| format!("{name}: {why}"))?;
    let method = [Method::Best, Method::Scotch, Method::Builtin][options.method as usize];
    let (placed, by) = planner.placed(method, options.scotch.as_deref())?;
    let wanted = Policy::ALL[options.policy as usize];
    let reports: Vec<(Policy, Report)> = Policy::ALL
        .into_iter()
        .map(|policy| (policy, planner.report(&planner.sets(policy, &placed))))
        .collect();
    let places = planner.sets(wanted, &placed);
    let union = |places: &Vec<usize>| places.iter().flat_map(|&place| weights.places[place].iter()).collect();
    let sets: Vec<CpuSet> = places.iter().map(union).collect();

    let mut text = format!(
        "{name} on {}: {} ranks, {} cores; {}: {by}\n\n",
        options.topology,
        matrix.ranks(),
        weights.places.len(),
        wanted.name()
    );
    text += &columns(&sets);
    text += &table(&reports, &weights);
    let user: Vec<String> = sets
        .iter()
        .map(|set| set.iter().map(|cpu| cpu.to_string()).collect::<Vec<_>>().join("+"))
        .collect();
    let command = format!("mpirun -n {} -bind-to user:{} PROGRAM", sets.len(), user.join(","));
    writeln!(text, "\n{command}").expect("a String takes every text");

    let save = |path: &PathBuf, what: String| fs::write(path, what).map_err(|why| format!("{}: {why}", path.display()));
    if let Some(path) = &options.output {
        let comment = format!(
            "nearmpi-place: {name} on {}, {} ({by})",
            options.topology,
            wanted.name()
        );
        save(path, map::write(&comment, &sets))?;
        writeln!(text, "mpirun -n {} -map-by file:{} PROGRAM", sets.len(), path.display())
            .expect("a String takes every text");
    }
    options
        .svg
        .as_ref()
        .map_or(Ok(()), |path| save(path, draw::svg(&machine, &sets)))?;
    options
        .write_matrix
        .as_ref()
        .map_or(Ok(()), |path| save(path, matrix.json()))?;
    Ok(text)
}

/// Ranks and their CPUs in columns, sixteen a line.
fn columns(sets: &[CpuSet]) -> String {
    let texts: Vec<String> = sets.iter().map(CpuSet::to_string).collect();
    let width = texts
        .iter()
        .map(String::len)
        .max()
        .unwrap_or(1)
        .max(sets.len().to_string().len())
        + 1;
    let mut text = String::new();
    for (line, part) in texts.chunks(16).enumerate() {
        let ranks: String = (0..part.len())
            .map(|at| format!("{:>width$}", line * 16 + at))
            .collect();
        let cpus: String = part.iter().map(|cpus| format!("{cpus:>width$}")).collect();
        writeln!(text, "rank{ranks}\nCPU {cpus}").expect("a String takes every text");
    }
    text + "\n"
}

/// Cost of each policy, and the share of the bytes at each level.
fn table(reports: &[(Policy, Report)], weights: &Weights) -> String {
    let names: Vec<String> = weights.classes.iter().map(|class| class.name()).collect();
    let placed = reports
        .iter()
        .find(|(policy, _)| *policy == Policy::Placed)
        .map_or(0.0, |(_, report)| report.cost);
    let mut text = format!("{:14} {:>12} {:>8}", "policy", "cost", "ratio");
    names
        .iter()
        .for_each(|name| write!(text, "  {name}").expect("a String takes every text"));
    text.push('\n');
    for (policy, report) in reports {
        let ratio = if placed > 0.0 { report.cost / placed } else { 1.0 };
        write!(text, "{:14} {:>12.4e} {ratio:>8.2}", policy.name(), report.cost).expect("a String takes every text");
        for (name, share) in names.iter().zip(&report.shares) {
            write!(text, "  {:>width$.1}%", share * 100.0, width = name.len() - 1).expect("a String takes every text");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn generated_man_page_is_fresh() {
        man::is_fresh("nearmpi-place", Options::command());
    }
}
