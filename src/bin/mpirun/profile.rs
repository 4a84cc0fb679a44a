//! The profile of a job: asks the ranks to count, and has nearmpi-profile make a page of it when all are gone.
//! The counts lie in the job's memory, so those of a rank that was killed are there too.

use crate::arguments::Job;
use crate::os::End;
use crate::os::signal_name;
use crate::start::{Failure, Started};
use mpi::sys::clock::nanoseconds;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The program that makes the page.
const PROGRAM: &str = "nearmpi-profile";

/// A profile in the making.
pub struct Profile {
    folder: PathBuf,
    command: String,
    /// When each rank ended, in nanoseconds of the machine's clock.
    over: Vec<u64>,
}

impl Profile {
    /// Asks the ranks of `job` to count, if a profile is wanted: by the option, or by `NEARMPI_PROFILE` in the environment.
    ///
    /// # Errors
    /// There is no folder to write into, or no program that would.
    pub fn prepare(job: &Job, started: &mpi::shm::segment::Segment) -> Result<Option<Profile>, Failure> {
        let name = mpi::abi::timing::VARIABLE;
        let variable = || {
            let given = job.given(name).map(Into::into);
            given
                .or_else(|| std::env::var_os(name))
                .filter(|folder| !folder.is_empty())
        };
        let folder = match &job.profile {
            Some(folder) => folder.clone(),
            None => match variable() {
                Some(folder) => Some(folder.into()),
                None => return Ok(None),
            },
        };
        let first = job.apps.first().map_or(OsStr::new(""), |app| &app.program);
        let name = Path::new(first)
            .file_name()
            .unwrap_or(OsStr::new("job"))
            .to_string_lossy();
        let folder = folder.unwrap_or_else(|| format!("{PROGRAM}-{name}-{}", std::process::id()).into());
        let fail = |what: String| Failure::new(format!("-profile: {what}"));
        std::fs::create_dir_all(&folder)
            .map_err(|error| fail(format!("cannot make the folder {}: {error}", folder.display())))?;
        try_out(&folder)
            .map_err(|error| fail(format!("cannot write into the folder {}: {error}", folder.display())))?;
        if program().is_none_or(|program| !program.is_file()) {
            return Err(fail(format!("there is no {PROGRAM} beside mpirun")));
        }
        started.ask_for_profile();
        let words = |app: &crate::arguments::App| {
            let words = std::iter::once(&app.program).chain(&app.arguments);
            words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
        };
        Ok(Some(Profile {
            folder,
            command: job.apps.iter().map(words).collect::<Vec<_>>().join(" : "),
            over: vec![0; started.ranks() as usize],
        }))
    }

    /// Rank `rank` has just ended.
    pub fn ended(&mut self, rank: usize) {
        self.over[rank] = nanoseconds();
    }

    /// Makes the page; returns what is to be said about it. A failure is no failure of the job.
    pub fn finish(self, started: &Started, ends: &[Option<End>]) -> String {
        let folder = self.folder.display().to_string();
        match self.make(started, ends) {
            Ok(summary) => summary,
            Err(why) => format!("mpirun: -profile: {folder}: {why}\n"),
        }
    }

    fn make(self, started: &Started, ends: &[Option<End>]) -> Result<String, String> {
        let how = |end: &Option<End>| match end {
            Some(End::Exit(0)) => String::new(),
            Some(End::Exit(code)) => format!("exited with code {code}"),
            Some(End::Signal(signal)) => format!("was killed by signal {signal} ({})", signal_name(*signal)),
            None => "did not end".into(),
        };
        let ranks = self.over.iter().zip(ends);
        let ends: Vec<_> = ranks
            .map(|(over, end)| serde_json::json!({"nanoseconds": over, "how": how(end)}))
            .collect();
        let about = serde_json::json!({"command": self.command, "ends": ends});
        let memory = format!("/proc/{}/fd/{}", std::process::id(), started.memory.as_raw_fd());
        let wrong = |error: io::Error| format!("cannot run {PROGRAM}: {error}");
        let mut child = Command::new(program().ok_or("cannot find mpirun itself")?)
            .args(["--memory", &memory, "--out"])
            .arg(&self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(wrong)?;
        if let Some(mut pipe) = child.stdin.take() {
            // A child that is gone says why itself.
            let _ = pipe.write_all(about.to_string().as_bytes());
        }
        let output = child.wait_with_output().map_err(wrong)?;
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        match output.status.success() {
            true => Ok(said),
            false => Err(format!("no page was made: {}", said.trim_end())),
        }
    }
}

/// Writes a file into `folder` and removes it: better that it fails now than when the job is over.
fn try_out(folder: &Path) -> io::Result<()> {
    let path = folder.join(format!("{PROGRAM}-{}.tmp", std::process::id()));
    let written = std::fs::write(&path, [0; 1 << 16]);
    let removed = std::fs::remove_file(&path);
    written.and(removed)
}

/// The program beside our own.
fn program() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.with_file_name(PROGRAM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_takes_no_files_is_found_out_before_the_job() {
        // Not even the superuser makes files here.
        assert!(try_out(Path::new("/proc/self")).is_err());
        let folder = std::env::temp_dir().join(format!("nearmpi-try-out-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        try_out(&folder).unwrap();
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir(&folder).unwrap();
    }
}
