//! # Safety
//! As in the file above.
//!
//! Runs of equal short messages, broken by others: counted to the byte.
#![allow(unsafe_code)]

use super::*;
use mpi::abi::completion::MPI_Wait;

/// How long message number `at` of the program "runs" is: runs of equal ones, broken by others of all sorts.
fn run_len(at: usize) -> usize {
    match at {
        _ if at.is_multiple_of(97) => 100,
        _ if at.is_multiple_of(31) => 48,
        _ if at.is_multiple_of(7) => at % 49,
        _ => 8,
    }
}

/// Whether it goes to rank 0 itself, and whether by MPI_Isend.
fn run_kind(at: usize) -> (bool, bool) {
    (at.is_multiple_of(13), at.is_multiple_of(11))
}

const RUNS: usize = 20_000;

pub unsafe fn runs(rank: c_int) {
    for at in 0..RUNS {
        let (own, started) = run_kind(at);
        let to = c_int::from(!own);
        unsafe {
            if rank == 0 && started {
                let data = [1u8; 128];
                let mut request = MPI_REQUEST_NULL;
                let address = data.as_ptr().cast();
                MPI_Isend(
                    address,
                    run_len(at) as c_int,
                    MPI_BYTE,
                    to,
                    3,
                    MPI_COMM_WORLD,
                    &mut request,
                );
                MPI_Wait(&mut request, MPI_STATUS_IGNORE);
            } else if rank == 0 {
                send(run_len(at), to);
            }
            if rank == to {
                receive(run_len(at), 0);
            }
        }
    }
}

#[test]
fn runs_of_short_messages_are_counted_to_the_byte() {
    let run = profiled("runs", 2);
    assert!(run.output.status.success(), "{}", run.said());
    let json = run.json();
    let of = |which: &dyn Fn(usize) -> bool| -> (u64, u64) {
        let lens: Vec<usize> = (0..RUNS).filter(|&at| which(at)).map(run_len).collect();
        (lens.len() as u64, sum(&lens))
    };
    let (own, other) = (of(&|at| run_kind(at).0), of(&|at| !run_kind(at).0));
    assert_eq!(matrix(&json, "logical", "messages"), [[own.0, other.0], [0, 0]]);
    assert_eq!(matrix(&json, "logical", "bytes"), [[own.1, other.1], [0, 0]]);
    assert_eq!(json["logical"], json["physical"]);
    for (least, most) in [(0, 0), (1, 1), (2, 3), (4, 7), (8, 15), (16, 31), (32, 63), (64, 127)] {
        let here = of(&|at| (least..=most).contains(&run_len(at)));
        assert_eq!(of_size(&json, least as u64), here.0, "from {least} bytes");
    }
    let started = of(&|at| run_kind(at).1).0;
    let calls = json["calls"].as_array().unwrap();
    for (name, count) in [
        ("MPI_Send", RUNS as u64 - started),
        ("MPI_Isend", started),
        ("MPI_Recv", RUNS as u64),
    ] {
        let call = calls.iter().find(|call| call["name"] == name).unwrap();
        assert_eq!(call["count"], count, "{name}");
        // All of them took some time, and only some were timed.
        assert!(call["seconds"].as_f64() > Some(0.0), "{call}");
    }
    let sampled = |name: &str| calls.iter().find(|call| call["name"] == name).unwrap()["sampled"].as_u64();
    assert!(sampled("MPI_Send") > Some(RUNS as u64 / 2), "{calls:?}");
    let inline: u64 = json["processes"][0]["counters"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["name"] == "inline")
        .unwrap()["value"]
        .as_u64()
        .unwrap();
    assert!(inline >= of(&|at| run_len(at) <= 48).0, "{inline}");
}
