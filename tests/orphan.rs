//! Ranks below a wrapper that the kernel does not end with mpirun: those that wait in MPI end themselves.

mod common;

use common::compile;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAM: &str = r#"
    #include <mpi.h>
    #include <stdio.h>
    #include <unistd.h>
    int main(int argc, char **argv)
    {
        int nothing = 0;
        MPI_Init(&argc, &argv);
        printf("%d\n", (int)getpid());
        fflush(stdout);
        MPI_Recv(&nothing, 1, MPI_INT, MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Finalize();
        return 0;
    }
"#;

#[test]
fn a_waiting_rank_ends_when_mpirun_is_killed() {
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("orphan");
    let program = compile(&work, PROGRAM);
    // The shell stays, so that the rank is no child of mpirun and does not die with it.
    let wrapped = format!("{}; exit $?", program.display());
    let mut mpirun = Command::new(env!("CARGO_BIN_EXE_mpirun"))
        .args(["-stall", "off", "-n", "2", "sh", "-c", &wrapped])
        .env("LD_LIBRARY_PATH", &work)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let reader = BufReader::new(mpirun.stdout.take().unwrap());
    let pids: Vec<String> = reader
        .lines()
        .take(2)
        .map(|line| line.unwrap().trim().to_string())
        .collect();
    let lives = |pid: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    };
    assert!(pids.iter().all(lives), "{pids:?}");
    mpirun.kill().unwrap();
    mpirun.wait().unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while pids.iter().any(lives) {
        assert!(Instant::now() < deadline, "a rank outlives mpirun");
        std::thread::sleep(Duration::from_millis(10));
    }
}
