//! nearmpi-top: what each rank of a running job is doing, from outside. Looks at the memory of the job, of which
//! mpirun holds a descriptor; only who may look at mpirun's descriptors can do so (proc(5), PTRACE_MODE_READ).

#[path = "mpirun/report.rs"]
mod report;
#[path = "shared/say.rs"]
mod say;
#[path = "mpirun/top.rs"]
mod top;
#[path = "mpirun/view.rs"]
mod view;

use mpi::launch::bootstrap;
use mpi::shm::segment::Segment;
use std::fs;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::Duration;
use top::{Screen, Table};
use view::Calls;

const HELP: &str = "\
nearmpi-top: what each rank of a running job is doing
usage: nearmpi-top [options] [JOB]

  JOB              process number of the job's mpirun (default: the only job there is)
  --every SECONDS  time from one table to the next (default: 1)
  --once           one table, then the end
  --report         who waits for whom, then the end
  --help           this

In a terminal each table takes the place of the last one.
";

/// What is asked for.
#[derive(Debug, PartialEq)]
struct Request {
    job: Option<i32>,
    every: Duration,
    once: bool,
    report: bool,
}

fn main() -> ExitCode {
    let request = match parse(std::env::args().skip(1)) {
        Ok(Some(request)) => request,
        Ok(None) => {
            let _ = say::out(HELP);
            return ExitCode::SUCCESS;
        }
        Err(sentence) => {
            say::aside(&format!("nearmpi-top: {sentence}\n\n{HELP}"));
            return ExitCode::from(2);
        }
    };
    match show(&request) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            say::aside(&format!("nearmpi-top: {sentence}"));
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Option<Request>, String> {
    let mut request = Request {
        job: None,
        every: Duration::from_secs(1),
        once: false,
        report: false,
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--help" | "-h" | "-help" => return Ok(None),
            "--once" => request.once = true,
            "--report" => request.report = true,
            "--every" => {
                let text = words.next().ok_or("--every needs a number of seconds")?;
                request.every = top::interval(&text).map_err(|why| format!("--every {why}"))?;
            }
            job => match job.parse() {
                Ok(job @ 1..) if request.job.is_none() => request.job = Some(job),
                _ => return Err(format!("{job} is neither an option nor a process number")),
            },
        }
    }
    Ok(Some(request))
}

/// The launchers whose jobs this user may look at.
fn jobs() -> Vec<i32> {
    let is_launcher = |pid: &i32| bootstrap::is_launcher(*pid) && bootstrap::memory_of(*pid).is_some();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(is_launcher).collect()
}

fn show(request: &Request) -> Result<(), String> {
    let job = match (request.job, jobs().as_slice()) {
        (Some(job), _) | (None, &[job]) => job,
        (None, []) => return Err("there is no job that you may look at".into()),
        (None, jobs) => return Err(format!("there are several jobs; name one of {jobs:?}")),
    };
    let memory = bootstrap::memory_of(job);
    let memory = memory.ok_or_else(|| format!("process {job} is no nearmpi job that you may look at"))?;
    let segment = Segment::attach(memory.as_fd()).map_err(|error| format!("the memory of job {job}: {error}"))?;
    drop(memory);
    let calls = Calls::new();
    let views = || {
        let _ = segment.grow();
        let mut views = view::look(&calls, &segment, 0..segment.known(), |_| (None, false));
        views.iter_mut().for_each(|view| view.is_gone = view::is_gone(view.pid));
        views
    };
    let (mut table, mut screen) = (Table::default(), Screen::default());
    if request.report {
        return say::out(&(report::lines(&views(), false).join("\n") + "\n")).map(drop);
    }
    table.lines(&views(), None);
    let mut pause = request.every.min(Duration::from_millis(200));
    while fs::metadata(format!("/proc/{job}/fd")).is_ok() && bootstrap::memory_of(job).is_some() {
        std::thread::sleep(pause);
        pause = request.every;
        let size = Screen::size(1);
        let lines = table.lines(&views(), size);
        let text = match size {
            Some(_) => screen.draw(&lines),
            None => lines.join("\n") + "\n\n",
        };
        if !say::out(&text)? || request.once {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_read() {
        let of = |line: &str| parse(line.split_whitespace().map(str::to_string));
        let request = of("--once --every 0.5 77").unwrap().unwrap();
        assert_eq!(
            (request.job, request.once, request.every),
            (Some(77), true, Duration::from_millis(500))
        );
        assert_eq!(of("-help"), Ok(None));
        for wrong in ["7 8", "--every", "--every 0", "--every x", "--wide", "-3"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
