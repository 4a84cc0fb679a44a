//! nearmpi-info: what this nearmpi is, which functions it has, which settings it knows.
//! Under the name `mpichversion` it prints the lines that tools read from MPICH's program.

use mpi::{sys::cvar, version};
use std::ffi::OsStr;
use std::fmt::Write;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
nearmpi-info: what this nearmpi is
usage: nearmpi-info [option]

  (none)        version, ABI, library, compiler
  --functions   MPI functions that are not written yet: a call raises MPI_ERR_UNSUPPORTED_OPERATION
  --cvars       control variables of the environment: name, default, range, meaning
  --library     name of the library's file
  --version     version alone
  --help        this
";

fn main() -> ExitCode {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    if Path::new(&program).file_name() == Some(OsStr::new("mpichversion")) {
        return say(&mpichversion());
    }
    match reply(words.next().as_deref()) {
        Ok(text) => say(&text),
        Err(sentence) => {
            eprint!("nearmpi-info: {sentence}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

/// Prints `text`; a reader that has seen enough (`| head`) is no failure.
fn say(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

fn reply(option: Option<&str>) -> Result<String, String> {
    Ok(match option {
        None => overview(),
        Some("--functions") => functions(not_written()),
        Some("--cvars") => cvars(),
        Some("--library") => format!("{}\n", version::FILE),
        Some("--version" | "-V") => format!("nearmpi {}\n", version::NEARMPI),
        Some("--help" | "-h" | "-help") => HELP.into(),
        Some(other) => return Err(format!("{other} is not an option of this program")),
    })
}

/// The functions that exist as a name only; the one place that asks the library.
fn not_written() -> &'static [&'static str] {
    &[]
}

fn overview() -> String {
    let prefix = std::env::current_exe().ok();
    let prefix = prefix.as_deref().and_then(Path::parent).and_then(Path::parent);
    let prefix = prefix.map_or("unknown".into(), |path| path.display().to_string());
    format!(
        "nearmpi:   {}\nABI:       MPICH {} ({}), interface {}\nlibrary:   {}\nprefix:    {prefix}\ncompiler:  {}\n\
         functions: {} not written yet (--functions)\n",
        version::NEARMPI,
        version::MPICH,
        version::SONAME,
        version::ABI,
        version::FILE,
        env!("NEARMPI_RUSTC"),
        not_written().len(),
    )
}

fn functions(missing: &[&str]) -> String {
    if missing.is_empty() {
        return "every function of the ABI is written\n".into();
    }
    let mut text = format!("{} functions are not written yet:\n", missing.len());
    for name in missing {
        writeln!(text, "  {name}").expect("a String takes every text");
    }
    text
}

fn cvars() -> String {
    let mut text = format!("{:24} {:>10}  {:20} MEANING\n", "NAME", "DEFAULT", "RANGE");
    for cvar in cvar::TABLE {
        let range = format!("{}..{}", cvar.range.0, cvar.range.1);
        writeln!(
            text,
            "{:24} {:>10}  {range:20} {}",
            cvar.name, cvar.default, cvar.meaning
        )
        .expect("a String takes every text");
    }
    text
}

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
    fn missing_functions_are_listed_by_name() {
        assert!(functions(&["MPI_Spawn_magic"]).contains("\n  MPI_Spawn_magic\n"));
    }

    #[test]
    fn an_unknown_option_is_named() {
        assert!(reply(Some("--colour")).unwrap_err().contains("--colour"));
        assert!(reply(None).unwrap().contains(version::NEARMPI));
    }
}
