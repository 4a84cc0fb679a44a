//! `mpirun -report-memory`: each rank says on which NUMA nodes its memory lies, as it finalizes MPI.

mod common;

use common::compile;
use std::path::Path;
use std::process::{Command, Output};

/// Every rank sends a message of many cells to its neighbour.
const PROGRAM: &str = r#"
    #include <mpi.h>
    #include <stdlib.h>
    int main(int argc, char **argv)
    {
        int rank, size, bytes = 1 << 15;
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        MPI_Comm_size(MPI_COMM_WORLD, &size);
        char *out = calloc(bytes, 1), *in = calloc(bytes, 1);
        MPI_Sendrecv(out, bytes, MPI_CHAR, (rank + 1) % size, 0, in, bytes, MPI_CHAR, (rank + size - 1) % size, 0,
                     MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        if (argc > 1)
            _Exit(0);
        MPI_Finalize();
        return 0;
    }
"#;

fn report(work: &Path, program: &Path, numa: &str, arguments: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_mpirun"))
        .args(["-n", "3", "-report-memory"])
        .arg(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", work)
        .env("NEARMPI_NUMA", numa)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, text)
}

/// Pages of the part of that name, in the report of `rank`.
fn pages(report: &str, rank: u32, part: &str) -> u64 {
    let start = report.find(&format!("rank {rank}: pid")).unwrap();
    let end = report[start..].find("Processed").unwrap() + start;
    let mut lines = report[start..end]
        .lines()
        .skip_while(|line| !line.ends_with(part))
        .skip(1);
    let count = |line: &str| line.trim().split_once(" pages on node ")?.0.parse::<u64>().ok();
    std::iter::from_fn(|| count(lines.next()?)).sum()
}

#[test]
fn the_ranks_memory_is_reported_in_order() {
    if !Path::new("/proc/self/numa_maps").exists() {
        eprintln!("this kernel knows no NUMA nodes");
        return;
    }
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("memory");
    let program = compile(&work, PROGRAM);
    let (output, text) = report(&work, &program, "1", &[]);
    assert!(output.status.success(), "{text}");
    let places: Vec<usize> = (0..3)
        .map(|rank| text.find(&format!("rank {rank}: pid")).expect(&text))
        .collect();
    assert!(places.is_sorted());
    for rank in 0..3 {
        assert!(pages(&text, rank, "[heap]") > 0, "{text}");
        assert!(pages(&text, rank, &format!("rings of rank {rank}")) > 0, "{text}");
        // Nobody has touched the whole table.
        assert!(pages(&text, rank, &format!("offers of rank {rank}")) < 100, "{text}");
    }
    assert_eq!(text.matches("Process running on node").count(), 3, "{text}");
    assert!(!text.contains('\0'), "{text}");

    // As of old, rank 0 touches everything: a table of offers is a MiB or more.
    let (output, text) = report(&work, &program, "0", &[]);
    assert!(output.status.success(), "{text}");
    for rank in 0..3 {
        assert!(pages(&text, 0, &format!("offers of rank {rank}")) >= 256, "{text}");
    }

    let (_, text) = report(&work, &program, "1", &["leave"]);
    assert!(text.contains("0 of 3 ranks said where their memory lies"), "{text}");
}

#[test]
fn memory_comes_from_where_it_is_asked() {
    let Ok(maps) = std::fs::read_to_string("/proc/self/numa_maps") else {
        eprintln!("this kernel knows no NUMA nodes");
        return;
    };
    assert!(maps.contains("default"), "{maps}");
    let show = [
        "-membind",
        "interleave:0",
        "-n",
        "1",
        "head",
        "-n1",
        "/proc/self/numa_maps",
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_mpirun")).args(show).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains(" interleave:0 "), "{output:?}");
}
