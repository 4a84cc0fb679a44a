//! Ranks that find their job: under our own mpirun, under Debian's mpiexec.mpich where that is installed and other launchers
//! (`NEARMPI_TEST_LAUNCHERS`: their paths, separated by colons, instead of it), and under nobody.

use mpi::launch::bootstrap::join;
use mpi::shm::segment::{self, Life, Segment};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What every rank does: joins, tells the others its pid, waits for theirs, and prints what it found.
/// Run as a program of its own by the tests below.
#[test]
#[ignore = "a rank, started by the other tests"]
fn rank() {
    let member = match join(|ranks| segment::create(ranks, 2)) {
        Ok(member) => member,
        Err(sentence) => {
            println!("refused: {sentence}");
            std::process::exit(9);
        }
    };
    let segment = Segment::attach(member.segment.as_fd()).expect("a segment");
    assert_eq!(segment.ranks(), member.size);
    let mine = segment.rank(member.rank);
    mine.pid.store(std::process::id(), Ordering::Release);
    mine.life.store(Life::Attached as u32, Ordering::Release);
    let deadline = Instant::now() + Duration::from_secs(20);
    let pids: Vec<u32> = (0..member.size)
        .map(|rank| {
            loop {
                match segment.rank(rank).pid.load(Ordering::Acquire) {
                    0 => assert!(Instant::now() < deadline, "rank {rank} comes"),
                    pid => break pid,
                }
                std::thread::yield_now();
            }
        })
        .collect();
    let flags = std::fs::read_to_string(format!("/proc/self/fdinfo/{}", member.segment.as_raw_fd())).unwrap();
    let flags = flags
        .lines()
        .find_map(|line| line.strip_prefix("flags:"))
        .unwrap()
        .trim()
        .to_string();
    let closed_by_exec = i64::from_str_radix(&flags, 8).unwrap() & 0o2000000 != 0;
    println!(
        "joined {}/{} appnum {} exec {closed_by_exec} all {pids:?}",
        member.rank, member.size, member.appnum
    );
    if let Ok(code) = std::env::var("NEARMPI_TEST_ABORT") {
        if member.rank == 1 {
            member.control.abort(code.parse().unwrap());
        }
        std::thread::sleep(Duration::from_secs(20));
    }
    mine.life.store(Life::Finalized as u32, Ordering::Release);
    member.control.finalize().unwrap();
}

/// `launcher arguments... this program as a rank`.
fn launch(launcher: &str, arguments: &[&str], env: &[(&str, &str)]) -> Output {
    let me = std::env::current_exe().unwrap();
    let (program, prefix) = match launcher {
        "" => (me.to_str().unwrap(), vec![]),
        launcher => (launcher, [arguments, &[me.to_str().unwrap()]].concat()),
    };
    let body = ["--ignored", "--exact", "rank", "--nocapture"];
    let mut command = Command::new(program);
    command
        .args(prefix)
        .args(body)
        .envs(env.iter().copied())
        .stdin(Stdio::null());
    command.output().unwrap()
}

fn joined(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    // The test harness of a rank writes before it on the same line.
    let mut lines: Vec<String> = text
        .lines()
        .filter_map(|l| Some(l[l.find("joined ")?..].to_string()))
        .collect();
    lines.sort();
    lines
}

fn pids(line: &str) -> &str {
    &line[line.find('[').unwrap()..]
}

fn check_job(launcher: &str, ranks: usize) {
    let output = launch(launcher, &["-n", &ranks.to_string()], &[]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{launcher}: {output:?}");
    let lines = joined(&output);
    assert_eq!(lines.len(), ranks, "{launcher}: {output:?} {errors}");
    for (rank, line) in lines.iter().enumerate() {
        assert!(
            line.starts_with(&format!("joined {rank}/{ranks} appnum 0 exec true")),
            "{launcher}: {line}"
        );
        assert_eq!(pids(line), pids(&lines[0]), "{launcher}: one segment for all");
    }
}

fn check_abort(launcher: &str, code: &str, expected: i32) {
    let begin = Instant::now();
    let output = launch(launcher, &["-n", "2"], &[("NEARMPI_TEST_ABORT", code)]);
    assert_eq!(output.status.code(), Some(expected), "{launcher}: {output:?}");
    assert!(begin.elapsed() < Duration::from_secs(10), "{launcher}");
}

#[test]
fn under_our_own_mpirun() {
    for ranks in [1, 2, 4] {
        check_job(env!("CARGO_BIN_EXE_mpirun"), ranks);
    }
    for (code, expected) in [("42", 42), ("300", 44), ("512", 1), ("0", 0)] {
        check_abort(env!("CARGO_BIN_EXE_mpirun"), code, expected);
    }
}

#[test]
fn under_a_wrapper_that_closes_descriptors() {
    let script = "exec 40>&- 41>&- 42>&-; exec \"$0\" \"$@\"";
    let output = launch(env!("CARGO_BIN_EXE_mpirun"), &["-n", "2", "bash", "-c", script], &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let lines = joined(&output);
    assert_eq!(lines.len(), 2, "{output:?}");
    assert_eq!(pids(&lines[0]), pids(&lines[1]));
}

#[test]
fn under_other_launchers() {
    let launchers = std::env::var("NEARMPI_TEST_LAUNCHERS").unwrap_or("mpiexec.mpich".into());
    for launcher in launchers.split(':') {
        if Command::new(launcher).arg("--version").output().is_err() {
            eprintln!("skipped: there is no {launcher}");
            continue;
        }
        for ranks in [1, 2, 5] {
            check_job(launcher, ranks);
        }
        check_abort(launcher, "42", 42);
    }
}

#[test]
fn under_nobody() {
    let lines = joined(&launch("", &[], &[]));
    assert_eq!(lines.len(), 1);
    assert!(lines[0].starts_with("joined 0/1"), "{lines:?}");
}

#[test]
fn under_a_launcher_that_cannot_be_joined() {
    let output = launch("", &[], &[("OMPI_COMM_WORLD_SIZE", "2"), ("OMPI_COMM_WORLD_RANK", "1")]);
    assert_eq!(output.status.code(), Some(9));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("Open MPI"),
        "{output:?}"
    );
}

#[test]
fn a_rank_that_leaves_the_others_ends_the_job() {
    let me = std::env::current_exe().unwrap();
    let leave = "if [ $PMI_RANK = 1 ]; then exit 0; fi; exec \"$0\" \"$@\"";
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpirun"));
    command
        .args(["-n", "2", "sh", "-c", leave])
        .arg(me)
        .args(["--ignored", "--exact", "rank"])
        .stdin(Stdio::null());
    let begin = Instant::now();
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("rank 1") && begin.elapsed() < Duration::from_secs(5));
}
