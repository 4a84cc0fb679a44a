//! # Safety
//! Calls MPI with buffers of its own variables and the lengths they have.
//!
//! The profile of programs whose traffic is known to the byte, of one that is killed, and under no launcher.
#![allow(unsafe_code, clippy::undocumented_unsafe_blocks)]

use mpi::abi::coll::*;
use mpi::abi::completion::MPI_Waitall;
use mpi::abi::constants::*;
use mpi::abi::errhandler::MPI_Abort;
use mpi::abi::init::{MPI_Finalize, MPI_Init, MPI_Init_thread};
use mpi::abi::recv::MPI_Recv;
use mpi::abi::rma::{MPI_Accumulate, MPI_Fetch_and_op, MPI_Get, MPI_Put};
use mpi::abi::send::{MPI_Isend, MPI_Send};
use mpi::abi::tools::MPI_Pcontrol;
use mpi::abi::win::{MPI_Win_allocate, MPI_Win_create, MPI_Win_free};
use mpi::abi::win_sync::MPI_Win_fence;
use serde_json::Value;
use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::ptr::null_mut;

#[path = "profile/runs.rs"]
mod runs;
#[path = "profile/spawns.rs"]
mod spawns;

const PROGRAM: &str = "NEARMPI_TEST_PROGRAM";

/// A rank of the program that the environment names. Run as a program of its own by the tests below.
#[test]
#[ignore = "a rank, started by the other tests"]
fn rank() {
    let program = std::env::var(PROGRAM).unwrap();
    let (mut rank, mut size) = (0, 0);
    if program == "spawns" {
        spawns::begin();
    }
    // SAFETY: MPI's functions, called as its standard says.
    unsafe {
        match program.as_str() {
            "late-in-threads" => MPI_Init_thread(null_mut(), null_mut(), MPI_THREAD_MULTIPLE, &mut rank),
            _ => MPI_Init(null_mut(), null_mut()),
        };
        mpi::abi::comm::MPI_Comm_rank(MPI_COMM_WORLD, &mut rank);
        mpi::abi::comm::MPI_Comm_size(MPI_COMM_WORLD, &mut size);
        match program.as_str() {
            "messages" => messages(rank),
            "kept" => kept(rank),
            "runs" => runs::runs(rank),
            "spawns" => spawns::spawns(rank),
            "collectives" => collectives(rank as usize, size as usize),
            "windows" => windows(rank),
            "late" | "late-in-threads" => {
                if rank == 1 {
                    std::thread::sleep(std::time::Duration::from_millis(300));
                }
                MPI_Barrier(MPI_COMM_WORLD);
            }
            "killed" => killed(rank, libc::SIGKILL),
            "aborts" => killed(rank, 0),
            _ => panic!("no program {program}"),
        }
        MPI_Finalize();
    }
}

/// What rank 0 sends to rank 1, and rank 1 to rank 0: one for each way, the bounds of classes among them.
const THERE: [usize; 8] = [0, 8, 8, 48, 1000, 1 << 13, 40_000, 3 << 20];
const BACK: [usize; 3] = [1023, 1024, 1 << 16];

unsafe fn send(len: usize, to: c_int) {
    let data = vec![1u8; len];
    unsafe { MPI_Send(data.as_ptr().cast(), len as c_int, MPI_BYTE, to, 3, MPI_COMM_WORLD) };
}

unsafe fn receive(len: usize, from: c_int) {
    let mut data = vec![0u8; len];
    let status = MPI_STATUS_IGNORE;
    unsafe {
        MPI_Recv(
            data.as_mut_ptr().cast(),
            len as c_int,
            MPI_BYTE,
            from,
            3,
            MPI_COMM_WORLD,
            status,
        )
    };
    assert!(data.iter().all(|&byte| byte == 1));
}

unsafe fn messages(rank: c_int) {
    unsafe {
        for len in THERE {
            if rank == 0 { send(len, 1) } else { receive(len, 0) }
        }
        for len in BACK {
            if rank == 1 { send(len, 0) } else { receive(len, 1) }
        }
        // To itself.
        send(5, rank);
        receive(5, rank);
        MPI_Pcontrol(1);
    }
}

/// Messages that rank 1 keeps before it receives them, from the last to the first: short ones, and some that are too long
/// to be received where they are kept.
const KEPT: usize = 700;

unsafe fn kept(rank: c_int) {
    let len = |n: usize| if n.is_multiple_of(100) { 300_000 } else { n % 40 };
    let mut data = vec![1u8; 300_000];
    let data = data.as_mut_ptr().cast::<c_void>();
    let mut requests = vec![MPI_REQUEST_NULL; KEPT];
    unsafe {
        for (n, request) in requests.iter_mut().enumerate().filter(|_| rank == 0) {
            MPI_Isend(data, len(n) as c_int, MPI_BYTE, 1, n as c_int, MPI_COMM_WORLD, request);
        }
        if rank == 0 {
            MPI_Send(data, 0, MPI_BYTE, 1, KEPT as c_int, MPI_COMM_WORLD);
        }
        // The last of all comes first.
        for tag in (0..=KEPT as c_int).rev().filter(|_| rank == 1) {
            MPI_Recv(data, 300_000, MPI_BYTE, 0, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        MPI_Waitall(KEPT as c_int, requests.as_mut_ptr(), MPI_STATUSES_IGNORE);
    }
}

/// What rank `from` gives to rank `to` in the alltoallv below.
fn block(from: usize, to: usize) -> usize {
    (from * 10 + to) * 100
}

unsafe fn collectives(rank: usize, size: usize) {
    let mut here = vec![0u8; 8 << 20];
    let mut there = vec![0u8; 8 << 20];
    let (send, recv): (*mut c_void, *mut c_void) = (here.as_mut_ptr().cast(), there.as_mut_ptr().cast());
    let counts = |of: &dyn Fn(usize) -> usize| (0..size).map(|rank| of(rank) as c_int).collect::<Vec<_>>();
    let starts = |counts: &[c_int]| {
        counts
            .iter()
            .scan(0, |sum, count| Some(std::mem::replace(sum, *sum + count)))
            .collect::<Vec<c_int>>()
    };
    let world = MPI_COMM_WORLD;
    let (out, back) = (counts(&|to| block(rank, to)), counts(&|from| block(from, rank)));
    let (out_at, back_at) = (starts(&out), starts(&back));
    let shares = counts(&|rank| rank + 1);
    // SAFETY: both buffers have room for all of it.
    unsafe {
        MPI_Barrier(world);
        MPI_Bcast(send, 1000, MPI_BYTE, 1, world);
        MPI_Bcast(send, 200_000, MPI_BYTE, 0, world);
        MPI_Gather(send, 16, MPI_BYTE, recv, 16, MPI_BYTE, 2, world);
        MPI_Scatter(send, 17, MPI_BYTE, recv, 17, MPI_BYTE, 3, world);
        MPI_Allgather(send, 24, MPI_BYTE, recv, 24, MPI_BYTE, world);
        MPI_Alltoallv(
            send,
            out.as_ptr(),
            out_at.as_ptr(),
            MPI_BYTE,
            recv,
            back.as_ptr(),
            back_at.as_ptr(),
            MPI_BYTE,
            world,
        );
        MPI_Allreduce(send, recv, 8, MPI_INT, MPI_SUM, world);
        MPI_Reduce(send, recv, 3, MPI_INT, MPI_SUM, 0, world);
        MPI_Scan(send, recv, 2, MPI_INT, MPI_SUM, world);
        MPI_Reduce_scatter(send, recv, shares.as_ptr(), MPI_INT, MPI_SUM, world);
    }
}

/// What rank `from` gives to rank `to` in all of them, by their meaning.
fn given(from: usize, to: usize) -> u64 {
    if from == to {
        return 0;
    }
    let when = |condition: bool, bytes: usize| if condition { bytes } else { 0 };
    let bytes = when(from == 1, 1000)
        + when(from == 0, 200_000)
        + when(to == 2, 16)
        + when(from == 3, 17)
        + 24
        + block(from, to)
        + 32
        + when(to == 0, 12)
        + when(to > from, 8)
        + 4 * (to + 1);
    bytes as u64
}

unsafe fn killed(rank: c_int, signal: c_int) {
    unsafe {
        if rank == 1 {
            (0..5).for_each(|_| send(100, 0));
            receive(1, 0);
            std::thread::sleep(std::time::Duration::from_millis(300));
            match signal {
                0 => drop(MPI_Abort(MPI_COMM_WORLD, 3)),
                signal => drop(libc::raise(signal)),
            }
        }
        (0..5).for_each(|_| receive(100, 1));
        send(1, 1);
        // Waits for what never comes.
        receive(100, 1);
    }
}

/// One-sided operations: on memory of the window, and on memory of the program.
unsafe fn windows(rank: c_int) {
    let (mut base, mut allocated, mut created) = (null_mut::<u8>(), MPI_WIN_NULL, MPI_WIN_NULL);
    let mut memory = vec![0u8; 1 << 16];
    let mut data = vec![0u8; 1 << 16];
    let (world, info, len) = (MPI_COMM_WORLD, MPI_INFO_NULL, 1 << 16);
    unsafe {
        MPI_Win_allocate(len, 1, info, world, (&raw mut base).cast(), &mut allocated);
        MPI_Win_create(memory.as_mut_ptr().cast(), len, 1, info, world, &mut created);
        let data = data.as_mut_ptr().cast::<c_void>();
        for win in [allocated, created] {
            MPI_Win_fence(0, win);
            if rank == 0 {
                MPI_Put(data, 1000, MPI_BYTE, 1, 0, 1000, MPI_BYTE, win);
                MPI_Get(data, 300, MPI_BYTE, 1, 0, 300, MPI_BYTE, win);
                MPI_Accumulate(data, 10, MPI_INT, 1, 0, 10, MPI_INT, MPI_SUM, win);
                MPI_Fetch_and_op(data, data.wrapping_add(8), MPI_INT, 1, 64, MPI_SUM, win);
                MPI_Fetch_and_op(null_mut(), data, MPI_INT, 1, 64, MPI_NO_OP, win);
                MPI_Put(data, 20, MPI_BYTE, MPI_PROC_NULL, 0, 20, MPI_BYTE, win);
            } else {
                MPI_Put(data, 70, MPI_BYTE, 0, 0, 70, MPI_BYTE, win);
            }
            MPI_Win_fence(0, win);
        }
        MPI_Win_free(&mut created);
        MPI_Win_free(&mut allocated);
    }
}

struct Run {
    output: Output,
    folder: PathBuf,
}

impl Run {
    fn json(&self) -> Value {
        let text = std::fs::read_to_string(self.folder.join("run.json")).unwrap_or_else(|error| {
            panic!("{error}: {}", String::from_utf8_lossy(&self.output.stderr));
        });
        serde_json::from_str(&text).unwrap()
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Runs `program` on `ranks` ranks under our mpirun, with a profile.
fn profiled(program: &str, ranks: u32) -> Run {
    let folder = std::env::temp_dir().join(format!("nearmpi-{program}-{}-{ranks}", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpirun"));
    command
        .arg(format!("--profile={}", folder.display()))
        .args(["-n", &ranks.to_string()]);
    let output = ranked(command, program);
    Run { output, folder }
}

fn ranked(mut command: Command, program: &str) -> Output {
    let me = std::env::current_exe().unwrap();
    command
        .arg(me)
        .args(["--ignored", "--exact", "rank", "--nocapture"])
        .env(PROGRAM, program)
        .env_remove("NEARMPI_PROFILE")
        .stdin(Stdio::null());
    command.output().unwrap()
}

fn matrix(json: &Value, which: &str, what: &str) -> Vec<Vec<u64>> {
    serde_json::from_value(json[which][what].clone()).unwrap()
}

fn sum(lens: &[usize]) -> u64 {
    lens.iter().sum::<usize>() as u64
}

/// Messages of the program in the class of sizes from `least` on.
fn of_size(json: &Value, least: u64) -> u64 {
    let rows = json["traffic"].as_array().unwrap().iter();
    let rows = rows.filter(|row| row["kind"] == "message" && row["least"] == least);
    rows.map(|row| row["messages"].as_u64().unwrap()).sum()
}

#[test]
fn messages_are_counted_to_the_byte() {
    let run = profiled("messages", 2);
    assert!(run.output.status.success(), "{}", run.said());
    let json = run.json();
    let bytes = vec![vec![5, sum(&THERE)], vec![sum(&BACK), 5]];
    assert_eq!(matrix(&json, "logical", "bytes"), bytes);
    // Inside of MPI_Finalize there are messages without bytes.
    assert_eq!(matrix(&json, "physical", "bytes"), bytes);
    assert_eq!(json["matrix"], json["physical"]);
    assert_eq!(
        matrix(&json, "logical", "messages"),
        [[1, THERE.len() as u64], [BACK.len() as u64, 1]]
    );
    // 0; 5 and 5; 8 and 8; 48; 1000 and 1023; 1024; 8 KiB; 40,000; 64 KiB; 3 MiB
    let classes = [
        (0, 1),
        (4, 2),
        (8, 2),
        (32, 1),
        (512, 2),
        (1024, 1),
        (1 << 13, 1),
        (1 << 15, 1),
        (1 << 16, 1),
        (1 << 21, 1),
    ];
    for (least, messages) in classes {
        assert_eq!(of_size(&json, least), messages, "from {least} bytes");
    }
    let on = |path: &str| -> u64 {
        let rows = json["traffic"].as_array().unwrap().iter();
        let rows = rows.filter(|row| row["kind"] == "message" && row["path"] == path);
        rows.map(|row| row["messages"].as_u64().unwrap()).sum()
    };
    // Up to 48 bytes in a slot: four there, and one of each rank to itself.
    assert_eq!(on("slot"), 6);
    assert!(on("ring") >= 3, "{}", json["traffic"]);
    let call = |name: &str| {
        let calls = json["calls"].as_array().unwrap();
        calls
            .iter()
            .find(|call| call["name"] == name)
            .map(|call| call["count"].as_u64().unwrap())
    };
    let all = (THERE.len() + BACK.len() + 2) as u64;
    assert_eq!(
        (call("MPI_Send"), call("MPI_Recv"), call("MPI_Init")),
        (Some(all), Some(all), Some(2))
    );
    assert_eq!((call("MPI_Pcontrol"), call("MPI_Isend")), (Some(2), None));
    for process in json["processes"].as_array().unwrap() {
        let (seconds, in_mpi) = (
            process["seconds"].as_f64().unwrap(),
            process["in_mpi"].as_f64().unwrap(),
        );
        assert!(
            process["finished"] == true && in_mpi > 0.0 && in_mpi <= seconds * 1.01,
            "{process}"
        );
    }
    let page = std::fs::read_to_string(run.folder.join("index.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("Who talks to whom") && page.ends_with("</html>"));
    assert!(run.said().contains("profile of "), "{}", run.said());
}

#[test]
fn receives_of_kept_messages_are_counted_once_each() {
    let run = profiled("kept", 2);
    assert!(run.output.status.success(), "{}", run.said());
    let json = run.json();
    let count = |name: &str| {
        let calls = json["calls"].as_array().unwrap();
        let call = calls.iter().find(|call| call["name"] == name);
        call.map_or(0, |call| call["count"].as_u64().unwrap())
    };
    let kept = KEPT as u64;
    assert_eq!(
        (count("MPI_Isend"), count("MPI_Send"), count("MPI_Recv")),
        (kept, 1, kept + 1)
    );
}

#[test]
fn one_sided_operations_are_counted_to_the_byte() {
    let run = profiled("windows", 2);
    assert!(run.output.status.success(), "{}", run.said());
    let json = run.json();
    let (there, back) = (1000 + 40 + 4, 300 + 4 + 4 + 70);
    assert_eq!(matrix(&json, "logical", "bytes"), [[0, 2 * there], [2 * back, 0]]);
    assert_eq!(matrix(&json, "logical", "messages"), [[0, 6], [8, 0]]);
    let physical = matrix(&json, "physical", "bytes");
    assert!(
        physical[0][1] >= 2 * there && physical[1][0] >= 2 * back,
        "{physical:?}"
    );
    let mapped = |row: &&Value| row["kind"] == "message" && row["path"] == "mapped";
    let rows = json["traffic"].as_array().unwrap().iter().filter(mapped);
    let bytes: u64 = rows.map(|row| row["bytes"].as_u64().unwrap()).sum();
    assert_eq!(bytes, there + back);
}

#[test]
fn who_comes_late_to_a_barrier_is_named() {
    for program in ["late", "late-in-threads"] {
        let run = profiled(program, 3);
        assert!(run.output.status.success(), "{}", run.said());
        let json = run.json();
        for longest in &json["longest_waits"].as_array().unwrap()[..2] {
            assert!(longest["rank"] != 1 && longest["peer"] == 1, "{longest}");
            assert!(
                longest["call"] == "MPI_Barrier" && longest["seconds"].as_f64().unwrap() > 0.2,
                "{longest}"
            );
        }
        for waiting in [0, 2].map(|rank| json["processes"][rank]["waiting"].as_f64()) {
            assert!(waiting.unwrap() > 0.2, "{waiting:?}");
        }
    }
}

#[test]
fn ranks_are_placed_by_a_traced_run_and_then_by_what_it_found() {
    let cache = std::env::temp_dir().join(format!("nearmpi-placed-{}", std::process::id()));
    let placed = |how: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpirun"));
        command.args(["-place", how, "-n", "2"]).env("XDG_CACHE_HOME", &cache);
        let output = ranked(command, "messages");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // The traced run is one more, and nobody hears it.
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(out.matches("running 1 test").count(), 2, "{out}{said}");
        assert!(output.status.success(), "{said}");
        said
    };
    if mpi::sys::cpu::allowed(0) < 2 {
        eprintln!("one CPU leaves no choice of places");
        return;
    }
    let first = placed("auto");
    assert!(
        first.contains("tracing ") && first.contains("ranks placed by "),
        "{first}"
    );
    let kept: Vec<PathBuf> = std::fs::read_dir(cache.join("nearmpi"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let matrix = mpi::place::matrix::Matrix::read(&kept[0]).unwrap();
    assert_eq!((kept.len(), matrix.ranks()), (1, 2));
    assert_eq!((matrix.sent(0, 1), matrix.sent(1, 0)), (sum(&THERE), sum(&BACK)));
    let again = placed("auto");
    assert!(
        !again.contains("tracing ") && again.contains("ranks placed by "),
        "{again}"
    );
    assert!(placed("auto:5").contains("tracing "));
    std::fs::remove_dir_all(cache).unwrap();
}

#[test]
fn collectives_count_by_their_meaning() {
    for ranks in [4, 7] {
        let run = profiled("collectives", ranks);
        assert!(run.output.status.success(), "{}", run.said());
        let json = run.json();
        let ranks = ranks as usize;
        let expected: Vec<Vec<u64>> = (0..ranks)
            .map(|from| (0..ranks).map(|to| given(from, to)).collect())
            .collect();
        assert_eq!(matrix(&json, "logical", "bytes"), expected);
        // However it was done, every rank has got at least what it needs of 200,000 bytes.
        let physical = matrix(&json, "physical", "bytes");
        for to in 1..ranks {
            let got: u64 = physical.iter().map(|row| row[to]).sum();
            assert!(got >= 200_000, "rank {to} of {ranks} got {got} bytes");
        }
    }
}

#[test]
fn what_was_counted_stays_when_a_rank_is_killed_or_aborts() {
    for (program, end) in [("killed", "was killed by signal 9 (SIGKILL)"), ("aborts", "")] {
        let run = profiled(program, 2);
        assert!(!run.output.status.success());
        let json = run.json();
        assert_eq!(matrix(&json, "logical", "bytes"), [[0, 1], [500, 0]], "{program}");
        // The rank that aborts may be ended before it ends itself.
        assert!(
            end.is_empty() || json["processes"][1]["end"] == end,
            "{}",
            json["processes"][1]
        );
        assert_eq!(json["processes"][1]["finished"], false);
        // Rank 0 waited for rank 1 until it was ended itself.
        let longest = &json["longest_waits"][0];
        assert_eq!(
            (&longest["rank"], &longest["peer"], &longest["call"]),
            (&0.into(), &1.into(), &"MPI_Recv".into())
        );
        assert!(longest["seconds"].as_f64().unwrap() > 0.2, "{longest}");
    }
}

#[test]
fn many_ranks_of_two_programs_make_one_profile() {
    let folder = std::env::temp_dir().join(format!("nearmpi-crowd-{}", std::process::id()));
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpirun"));
    let me = std::env::current_exe().unwrap();
    let body = ["--ignored", "--exact", "rank", "--nocapture"];
    command
        .arg(format!("--profile={}", folder.display()))
        .args(["-n", "60"])
        .arg(&me)
        .args(body)
        .args([":", "-n", "6"]);
    let run = Run {
        output: ranked(command, "collectives"),
        folder,
    };
    assert!(run.output.status.success(), "{}", run.said());
    let json = run.json();
    assert_eq!(
        (&json["ranks"], json["processes"].as_array().unwrap().len()),
        (&66.into(), 66)
    );
    assert_eq!(matrix(&json, "logical", "bytes")[7][65], given(7, 65));
}

#[test]
fn without_a_launcher_of_ours_the_counts_lie_in_files() {
    let folder = std::env::temp_dir().join(format!("nearmpi-files-{}", std::process::id()));
    let me = std::env::current_exe().unwrap();
    let output = Command::new(me)
        .args(["--ignored", "--exact", "rank", "--nocapture"])
        .env(PROGRAM, "collectives")
        .env("NEARMPI_PROFILE", &folder)
        .output()
        .unwrap();
    let run = Run { output, folder };
    // One rank alone names roots that are not there, and so ends with an error: that is no matter here.
    assert!(run.folder.join("rank-0.counts").is_file(), "{}", run.said());
    let tool = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_nearmpi-profile"))
            .args(arguments)
            .output()
            .unwrap()
    };
    let made = tool(&[run.folder.to_str().unwrap()]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let json = run.json();
    assert_eq!(
        (&json["ranks"], &json["processes"][0]["finished"]),
        (&1.into(), &false.into())
    );
    assert_eq!(json["processes"][0]["end"], "did not come to MPI_Finalize");
    let sizes = tool(&["--sizes", run.folder.join("run.json").to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&sizes.stdout).contains("32K-256K"));
    let wrong = tool(&[run.folder.join("index.html").to_str().unwrap()]);
    assert!(!wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("not a profile"));
}
