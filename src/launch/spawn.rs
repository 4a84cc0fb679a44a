//! Starting more processes for a job that runs: mpirun does it, whoever started the job, in a process of its own that
//! watches over them as over a job.
//!
//! ```text
//! NEARMPI_ANNEX = PID FD FIRST LAUNCHER     mpirun's environment: the job's memory is descriptor FD of process PID, which
//!                                           belongs to rank FIRST's starter; LAUNCHER may run where the job may
//! mpirun [options] -- program arguments \x01 [options] -- program arguments ...
//! ```

use crate::sys::host;
use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The variable that tells mpirun to start ranks of a job that runs.
pub const ANNEX: &str = "NEARMPI_ANNEX";
/// What stands between two programs there: a word that nobody writes.
pub const SEPARATOR: &str = "\x01";

/// Processes of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// How many.
    pub count: u32,
    /// The program.
    pub command: OsString,
    /// What it is given.
    pub arguments: Vec<OsString>,
    /// Options of mpirun for it, with their values.
    pub options: Vec<(&'static str, String)>,
}

/// What [`ANNEX`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annex {
    /// The process that asked.
    pub pid: i32,
    /// Its descriptor of the job's memory.
    pub file: RawFd,
    /// The rank of the first process.
    pub first: u32,
    /// A process that may run on all CPUs of the job.
    pub launcher: i32,
}

impl Annex {
    /// Reads the variable.
    ///
    /// # Errors
    /// A sentence about anything that is not what [`start`] writes.
    pub fn parse(text: &str) -> Result<Annex, String> {
        let numbers: Vec<i32> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
        match numbers[..] {
            [pid, file, first, launcher] if numbers.iter().all(|&number| number >= 0) => Ok(Annex {
                pid,
                file,
                first: first as u32,
                launcher,
            }),
            _ => Err(format!("{ANNEX}={text:?} is not four numbers")),
        }
    }
}

/// Where mpirun is: with this library, or what the job was started with.
fn mpirun(launcher: Option<i32>) -> Result<PathBuf, String> {
    let library = host::library();
    let folder = library.as_ref().and_then(|file| file.parent());
    let beside = folder
        .into_iter()
        .flat_map(|lib| [lib.join("../bin/mpirun"), lib.join("mpirun")]);
    let started_by = launcher.map(|pid| PathBuf::from(format!("/proc/{pid}/exe")));
    let found = beside.chain(started_by).find(|file| file.is_file());
    found.ok_or_else(|| match library {
        Some(library) => format!(
            "there is no ../bin/mpirun beside {}, to start processes with",
            library.display()
        ),
        None => "there is no mpirun beside the library, to start processes with".into(),
    })
}

/// Starts mpirun for `programs`, the processes of which are the ranks that `annex` says; it goes on by itself.
/// `ours`: the process that started the job, if it is our mpirun.
///
/// # Errors
/// A sentence: there is no mpirun, or it does not start.
pub fn start(annex: Annex, ours: Option<i32>, programs: &[Program]) -> Result<(), String> {
    let mpirun = mpirun(ours)?;
    let mut command = Command::new(&mpirun);
    let Annex {
        pid,
        file,
        first,
        launcher,
    } = annex;
    command
        .env(ANNEX, format!("{pid} {file} {first} {launcher}"))
        .stdin(Stdio::null());
    command.args(["-bind-to", "none"]);
    for (index, program) in programs.iter().enumerate() {
        if index > 0 {
            command.arg(SEPARATOR);
        }
        command.args(["-n", &program.count.to_string()]);
        for (option, value) in &program.options {
            command.arg(option).arg(value);
        }
        command.arg("--").arg(&program.command).args(&program.arguments);
    }
    let status = command.status();
    match status {
        Ok(status) if status.success() => Ok(()),
        // Where the program reaps its children itself, nobody can tell.
        Err(error) if error.raw_os_error() == Some(libc::ECHILD) => Ok(()),
        Ok(status) => Err(format!("{} ended with {status}", mpirun.display())),
        Err(error) => Err(format!("{} cannot be started: {error}", mpirun.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_is_four_numbers() {
        let annex = Annex {
            pid: 12,
            file: 40,
            first: 2,
            launcher: 11,
        };
        assert_eq!(Annex::parse("12 40 2 11"), Ok(annex));
        for wrong in ["", "12 40 2", "12 40 2 11 5", "12 -4 2 11", "a 40 2 11"] {
            assert!(Annex::parse(wrong).is_err(), "{wrong}");
        }
    }
}
