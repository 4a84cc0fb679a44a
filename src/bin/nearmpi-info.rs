//! nearmpi-info: what this nearmpi is, which functions it has, which settings it knows.
//! Under the name `mpichversion` it prints the lines that tools read from MPICH's program.

#[path = "shared/say.rs"]
mod say;

use mpi::abi::chapters::{CHAPTERS, chapter};
use mpi::abi::unsupported::unsupported_names;
use mpi::mpi::coll::choice::Case;
use mpi::sys::cpu;
use mpi::sys::cvar::{self, Settings};
use mpi::sys::selection::Operation;
use mpi::version;
use std::ffi::OsStr;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
nearmpi-info: what this nearmpi is
usage: nearmpi-info [option]

  (none)        version, ABI, library, compiler
  --functions   every MPI function: `written`, or `not-yet` (a call raises MPI_ERR_UNSUPPORTED_OPERATION)
  --coverage    the same, counted by chapter of MPI-4.1
  --cvars       control variables of the environment: name, default, range, meaning
  --collectives [N]   which way collective operations of N ranks (default: 2, and as many as there are CPUs) go here,
                and the words of NEARMPI_COLLECTIVES, which changes it
  --library     name of the library's file
  --version     version alone
  --help        this
";

fn main() -> ExitCode {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    if Path::new(&program).file_name() == Some(OsStr::new("mpichversion")) {
        return printed(&mpichversion());
    }
    match reply(words.next().as_deref(), words.next().as_deref()) {
        Ok(text) => printed(&text),
        Err(sentence) => {
            say::aside(&format!("nearmpi-info: {sentence}\n\n{HELP}"));
            ExitCode::from(2)
        }
    }
}

fn printed(text: &str) -> ExitCode {
    match say::out(text) {
        Ok(_) => ExitCode::SUCCESS,
        Err(sentence) => {
            say::aside(&format!("nearmpi-info: {sentence}"));
            ExitCode::FAILURE
        }
    }
}

fn reply(option: Option<&str>, value: Option<&str>) -> Result<String, String> {
    Ok(match option {
        Some("--collectives") => collectives(value)?,
        Some(_) if value.is_some() => return Err("one option at most, and only --collectives takes a number".into()),
        None => overview(),
        Some("--functions") => functions(),
        Some("--coverage") => coverage(),
        Some("--cvars") => cvars(),
        Some("--library") => format!("{}\n", version::FILE),
        Some("--version" | "-V") => format!("nearmpi {}\n", version::NEARMPI),
        Some("--help" | "-h" | "-help") => HELP.into(),
        Some(other) => return Err(format!("{other} is not an option of this program")),
    })
}

/// Every function of the ABI: the table that the C edge is made from.
const FUNCTIONS: &str = include_str!("../abi/functions.tsv");

/// Names of all functions, with whether each is written.
fn all_functions() -> impl Iterator<Item = (&'static str, bool)> {
    let rows = FUNCTIONS.lines().filter(|line| !line.starts_with('#'));
    let names = rows.filter_map(|line| line.split('\t').next());
    names.map(|name| (name, !unsupported_names().contains(&name)))
}

fn overview() -> String {
    let prefix = std::env::current_exe().ok();
    let prefix = prefix.as_deref().and_then(Path::parent).and_then(Path::parent);
    let prefix = prefix.map_or("unknown".into(), |path| path.display().to_string());
    format!(
        "nearmpi:   {}\nABI:       MPICH {} ({}), interface {}; of MPI-5.0 ({})\nlibrary:   {}\nprefix:    {prefix}\ncompiler:  {}\n\
         functions: {} of {} written (--functions)\n",
        version::NEARMPI,
        version::MPICH,
        version::SONAME,
        version::ABI,
        version::STANDARD_SONAME,
        version::FILE,
        env!("NEARMPI_RUSTC"),
        all_functions().filter(|(_, written)| *written).count(),
        all_functions().count(),
    )
}

fn functions() -> String {
    let missing = unsupported_names().len();
    let mut text = format!(
        "# {} functions written, {missing} not yet\n",
        all_functions().count() - missing
    );
    for (name, written) in all_functions() {
        let state = if written { "written" } else { "not-yet" };
        writeln!(text, "{state}  {name}").expect("a String takes every text");
    }
    text
}

/// How many functions of each chapter are written, as a table in Markdown.
fn coverage() -> String {
    let number = |title: &str| {
        let end = title.find(|c: char| !c.is_ascii_digit()).unwrap_or(title.len());
        title[..end].parse().unwrap_or(u32::MAX)
    };
    let mut titles: Vec<&str> = CHAPTERS.iter().map(|(title, _)| *title).collect();
    titles.sort_by_key(|title| number(title));
    let mut text = String::from("| chapter of MPI-4.1 | functions | written |\n|---|---|---|\n");
    for title in titles {
        let here = || all_functions().filter(|(name, _)| chapter(name) == Some(title));
        let (all, written) = (here().count(), here().filter(|(_, written)| *written).count());
        writeln!(text, "| {title} | {all} | {written} |").expect("a String takes every text");
    }
    text
}

fn cvars() -> String {
    let mut text = format!("{:24} {:>10}  {:20} MEANING\n", "NAME", "DEFAULT", "RANGE");
    for cvar in cvar::TABLE {
        let (default, range) = match cvar.is_text {
            true => ("none".into(), "rules".into()),
            false => (cvar.default.to_string(), format!("{}..{}", cvar.range.0, cvar.range.1)),
        };
        writeln!(text, "{:24} {default:>10}  {range:20} {}", cvar.name, cvar.meaning)
            .expect("a String takes every text");
    }
    text
}

/// The rules that collective operations go by, for communicators of `ranks` ranks, and how rules are written.
fn collectives(ranks: Option<&str>) -> Result<String, String> {
    let cpus = cpu::allowed(0);
    let sizes = match ranks {
        None if cpus > 2 => vec![2, cpus],
        None => vec![2],
        Some(ranks) => vec![
            (ranks.parse().ok())
                .filter(|&ranks| ranks > 0)
                .ok_or_else(|| format!("{ranks} is no number of ranks"))?,
        ],
    };
    let settings = Settings::from_environment()?;
    let mut text = String::from(SELECTION);
    for operation in Operation::ALL {
        let ways: Vec<&str> = operation.ways().iter().map(|way| way.word()).collect();
        let line = (operation.word(), operation.measure(), ways.join(" "));
        writeln!(text, "# {:16}{:32}{}", line.0, line.1, line.2).expect("a String takes every text");
    }
    for size in sizes {
        for crowded in [false, true] {
            let whose = if crowded {
                "more ranks than CPUs"
            } else {
                "a CPU for each rank"
            };
            writeln!(text, "\n# {size} ranks, of a job with {whose}").expect("a String takes every text");
            for &operation in Operation::ALL {
                let rule = Case::new(&settings, crowded.then_some(cpus as u32), size).rule(operation);
                writeln!(text, "{rule};").expect("a String takes every text");
            }
        }
    }
    Ok(text)
}

const SELECTION: &str = "\
# NEARMPI_COLLECTIVES=\"RULE; RULE ...\" says otherwise, case by case; the later of two rules for a case counts.
#   RULE: OPERATION[@RANKS] [roomy|crowded]: WAY[<=BYTES] ...
#   RANKS: 8, 3-8 or 3-; roomy: jobs with a CPU for each rank; BYTES: 4096, 64K, 1M
# Of the ways the first is taken whose bound holds and that can do it. For blocking operations alone there are shown
# (through boards in shared memory), learnt (shown or copied once, as proves quicker while the program runs), handed (from
# rank to rank, each of which reduces) and offered (copied once); the others are by messages, and may come anywhere behind shown.
#
# OPERATION       BYTES                           WAYS, in this order
";

/// MPICH's lines, in the spelling that Spack's and EasyBuild's patterns look for.
fn mpichversion() -> String {
    format!(
        "MPICH Version:      {}\nMPICH ABI:          {}\nMPICH Device:       nearmpi:shm\nMPICH CC:           cc\n\
         MPICH CXX:          c++\nMPICH FC:           gfortran\n",
        version::line(),
        version::ABI,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mpichversion_fits_the_patterns_of_package_managers() {
        let text = mpichversion();
        let version = text.lines().find_map(|line| line.strip_prefix("MPICH Version:"));
        assert_eq!(version.unwrap().split_whitespace().next(), Some(version::MPICH));
    }

    #[test]
    fn every_control_variable_is_listed() {
        let text = cvars();
        assert_eq!(text.lines().count(), cvar::TABLE.len() + 1);
        assert!(cvar::TABLE.iter().all(|cvar| text.contains(cvar.name)));
    }

    #[test]
    fn every_function_is_listed_and_no_other() {
        let text = functions();
        assert!(all_functions().count() > 500);
        assert!(text.contains("  MPI_Send\n"));
        let known = |name: &&&str| !all_functions().any(|(function, _)| function == **name);
        assert_eq!(unsupported_names().iter().find(known), None);
    }

    /// `NEARMPI_BLESS=1` writes the table into README.md.
    #[test]
    fn the_generated_table_of_the_readme_is_fresh() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        let readme = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = readme.split_once("<!-- nearmpi-info --coverage -->\n").unwrap();
        let (table, after) = rest.split_once("<!-- end -->").unwrap();
        if table == coverage() {
            return;
        }
        let fresh = format!(
            "{before}<!-- nearmpi-info --coverage -->\n{}<!-- end -->{after}",
            coverage()
        );
        match std::env::var_os("NEARMPI_BLESS") {
            Some(_) => std::fs::write(&path, fresh).unwrap(),
            None => panic!("README.md is stale; run NEARMPI_BLESS=1 cargo test generated"),
        }
    }

    #[test]
    fn an_unknown_option_is_named() {
        assert!(reply(Some("--colour"), None).unwrap_err().contains("--colour"));
        assert!(reply(None, None).unwrap().contains(version::NEARMPI));
        assert!(reply(Some("--cvars"), Some("4")).unwrap_err().contains("one option"));
        assert!(
            reply(Some("--collectives"), Some("0"))
                .unwrap_err()
                .contains("0 is no number of ranks")
        );
    }

    #[test]
    fn the_rules_that_are_printed_can_be_given_back() {
        let text = reply(Some("--collectives"), Some("6")).unwrap();
        let printed: Vec<&str> = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .collect();
        assert_eq!(printed.len(), 2 * Operation::ALL.len());
        for half in printed.chunks(Operation::ALL.len()) {
            let rules = half.join(" ");
            let given = |name: &str| (name == "NEARMPI_COLLECTIVES").then(|| rules.clone());
            let settings = Settings::read(given).unwrap();
            let crowded = rules.contains("crowded");
            for (&operation, line) in Operation::ALL.iter().zip(half) {
                let rule = Case::new(&settings, crowded.then_some(2), 6).rule(operation);
                assert_eq!(format!("{rule};"), *line);
            }
        }
    }
}
