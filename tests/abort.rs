//! MPI_Abort: which code a job ends with, and that the rank says so, once.

mod common;

use common::compile;
use std::path::Path;
use std::process::{Command, Stdio};

const PROGRAM: &str = r#"
    #include <mpi.h>
    #include <stdlib.h>
    int main(int argc, char **argv)
    {
        int rank, size, nothing = 0;
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        if (rank == size - 1)
            MPI_Abort(MPI_COMM_WORLD, atoi(argv[1]));
        MPI_Recv(&nothing, 1, MPI_INT, size - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return 99;
    }
"#;

#[test]
fn the_code_is_the_jobs_and_never_passes_for_success() {
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("abort");
    let program = compile(&work, PROGRAM);
    for (code, expected) in [("7", 7), ("256", 1), ("512", 1), ("300", 44), ("-1", 255), ("0", 0)] {
        for launched in [true, false] {
            let mut command = Command::new(if launched {
                Path::new(env!("CARGO_BIN_EXE_mpirun"))
            } else {
                &program
            });
            if launched {
                command.args(["-n", "3"]).arg(&program);
            }
            command.arg(code).env("LD_LIBRARY_PATH", &work).stdin(Stdio::null());
            let output = command.output().unwrap();
            assert_eq!(output.status.code(), Some(expected), "{code} {launched}: {output:?}");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let sentence = format!("application called MPI_Abort(MPI_COMM_WORLD, {code}) - process ");
            let rank = if launched { 2 } else { 0 };
            assert_eq!(said.matches(&format!("{sentence}{rank}\n")).count(), 1, "{said}");
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }
}
