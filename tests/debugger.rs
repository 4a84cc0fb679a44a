//! mpirun as parallel debuggers start it: stopped at MPIR_Breakpoint it shows them all ranks, which wait in MPI_Init meanwhile.
#![allow(unsafe_code)]
#![cfg(target_arch = "x86_64")]

mod common;

use common::compile;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const MPIRUN: &str = env!("CARGO_BIN_EXE_mpirun");

const PROGRAM: &str = r#"
    #include <mpi.h>
    #include <stdio.h>
    #include <stdlib.h>
    int main(int argc, char **argv)
    {
        int rank;
        char name[4096];
        MPI_Init(&argc, &argv);
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        snprintf(name, sizeof name, "%s/%d", argv[1], rank);
        fclose(fopen(name, "w"));
        if (argc > 2 && rank == 1)
            exit(atoi(argv[2]));
        return MPI_Finalize();
    }
"#;

/// A process that this thread traces.
struct Traced {
    pid: i32,
    memory: File,
    /// Where mpirun's names lie.
    symbols: BTreeMap<String, u64>,
}

impl Traced {
    /// Starts `command`, which is stopped before its first instruction.
    fn start(mut command: Command) -> Traced {
        // SAFETY: one system call, between fork and exec.
        unsafe {
            command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let pid = command.spawn().unwrap().id() as i32;
        assert_eq!(wait(pid), Err(libc::SIGTRAP));
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let base = u64::from_str_radix(maps.split('-').next().unwrap(), 16).unwrap();
        let listed = Command::new("nm").arg(MPIRUN).output().unwrap().stdout;
        let symbols = String::from_utf8_lossy(&listed)
            .lines()
            .filter_map(|line| {
                let words: Vec<&str> = line.split(' ').collect();
                let [address, _, name] = words[..] else { return None };
                let address = u64::from_str_radix(address, 16).ok()?;
                Some((name.to_string(), base + address))
            })
            .collect();
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"));
        Traced {
            pid,
            memory: memory.unwrap(),
            symbols,
        }
    }

    fn at(&self, name: &str) -> u64 {
        *self.symbols.get(name).unwrap_or_else(|| panic!("mpirun has no {name}"))
    }

    fn bytes<const N: usize>(&self, address: u64) -> [u8; N] {
        let mut bytes = [0; N];
        self.memory.read_exact_at(&mut bytes, address).unwrap();
        bytes
    }

    fn int(&self, name: &str) -> i32 {
        i32::from_ne_bytes(self.bytes(self.at(name)))
    }

    fn word(&self, address: u64) -> u64 {
        u64::from_ne_bytes(self.bytes(address))
    }

    fn text(&self, address: u64) -> String {
        let bytes = (address..)
            .map(|at| self.bytes::<1>(at)[0])
            .take_while(|&byte| byte != 0);
        String::from_utf8(bytes.collect()).unwrap()
    }

    /// Lets it run to its end (its exit code) or to an instruction that traps; other signals reach it.
    fn go_on(&self) -> Option<i32> {
        let mut signal = 0;
        loop {
            // SAFETY: numbers alone.
            let done = unsafe { libc::ptrace(libc::PTRACE_CONT, self.pid, 0, signal) };
            assert_eq!(done, 0);
            match wait(self.pid) {
                Ok(code) => return Some(code),
                Err(libc::SIGTRAP) => return None,
                Err(other) => signal = other,
            }
        }
    }

    /// Runs up to `function` and into it; whether it came there.
    fn run_to(&self, function: &str) -> bool {
        const TRAP: u8 = 0xcc;
        let address = self.at(function);
        let before = self.bytes::<1>(address);
        self.memory.write_all_at(&[TRAP], address).unwrap();
        if self.go_on().is_some() {
            return false;
        }
        self.memory.write_all_at(&before, address).unwrap();
        // SAFETY: `registers` has room for all of them.
        unsafe {
            let mut registers: libc::user_regs_struct = std::mem::zeroed();
            assert_eq!(libc::ptrace(libc::PTRACE_GETREGS, self.pid, 0, &mut registers), 0);
            registers.rip -= 1;
            assert_eq!(registers.rip, address);
            assert_eq!(libc::ptrace(libc::PTRACE_SETREGS, self.pid, 0, &registers), 0);
            assert_eq!(libc::ptrace(libc::PTRACE_SINGLESTEP, self.pid, 0, 0), 0);
        }
        assert_eq!(wait(self.pid), Err(libc::SIGTRAP));
        true
    }
}

/// Waits for a process to end (its exit code, or 128 and the signal) or to stop (the signal).
fn wait(pid: i32) -> Result<i32, i32> {
    let mut status = 0;
    // SAFETY: `status` is there for the call.
    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
    match libc::WIFSTOPPED(status) {
        true => Err(libc::WSTOPSIG(status)),
        false if libc::WIFSIGNALED(status) => Ok(128 + libc::WTERMSIG(status)),
        false => Ok(libc::WEXITSTATUS(status)),
    }
}

/// mpirun with two ranks of the program, which get the folder that it lies in and the other `arguments`, stopped by a debugger
/// that has started it.
fn debugged(name: &str, arguments: &[&str]) -> (Traced, PathBuf) {
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&work);
    let program = compile(&work, PROGRAM);
    let mut command = Command::new(MPIRUN);
    command.args(["-n", "2"]).arg(&program).arg(&work).args(arguments);
    command.env("LD_LIBRARY_PATH", &work).stdin(Stdio::null());
    let mpirun = Traced::start(command);
    let being_debugged = mpirun.at("MPIR_being_debugged");
    mpirun.memory.write_all_at(&1i32.to_ne_bytes(), being_debugged).unwrap();
    assert!(mpirun.run_to("MPIR_Breakpoint"));
    (mpirun, work)
}

#[test]
fn a_debugger_finds_all_ranks_waiting_and_lets_them_go() {
    let (mpirun, work) = debugged("debugger", &[]);
    let program = work.join("program");
    assert_eq!(mpirun.int("MPIR_debug_state"), 1, "MPIR_DEBUG_SPAWNED");
    assert_eq!(mpirun.int("MPIR_proctable_size"), 2);
    mpirun.at("MPIR_i_am_starter");
    mpirun.at("MPIR_partial_attach_ok");
    let table = mpirun.word(mpirun.at("MPIR_proctable"));
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for rank in 0..2 {
        // A pointer, a pointer, a number and what fills up the third word.
        let entry = table + 24 * rank;
        let pid = i32::from_ne_bytes(mpirun.bytes(entry + 16));
        let runs = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap();
        assert_eq!(runs, program.canonicalize().unwrap());
        assert_eq!(mpirun.text(mpirun.word(entry)), host.trim());
        assert_eq!(mpirun.text(mpirun.word(entry + 8)), runs.to_str().unwrap());
    }
    // Unless they were held they would be through within milliseconds.
    std::thread::sleep(Duration::from_millis(300));
    let through = || (0..2).filter(|rank| work.join(rank.to_string()).exists()).count();
    assert_eq!(through(), 0);
    assert_eq!(mpirun.go_on(), Some(0));
    assert_eq!(through(), 2);
}

#[test]
fn a_debugger_is_told_before_a_failed_job_is_ended() {
    let (mpirun, _work) = debugged("debugger_failure", &["3"]);
    assert!(mpirun.run_to("MPIR_Breakpoint"));
    assert_eq!(mpirun.int("MPIR_debug_state"), 2, "MPIR_DEBUG_ABORTING");
    let reason = mpirun.text(mpirun.word(mpirun.at("MPIR_debug_abort_string")));
    assert_eq!(reason, "the job is about to end with code 3");
    assert_eq!(mpirun.go_on(), Some(3));
}

const WAITS: &str = r#"
    #include <mpi.h>
    #include <stdio.h>
    #include <unistd.h>
    int main(int argc, char **argv)
    {
        int nothing;
        MPI_Init(&argc, &argv);
        fprintf(stderr, "%d\n", (int)getpid());
        return MPI_Recv(&nothing, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
"#;

#[test]
fn a_stuck_job_that_a_debugger_looks_at_is_not_ended() {
    let program = compile(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("debugger_stuck"), WAITS);
    let mut mpirun = Command::new(MPIRUN)
        .args(["-stall", "1", "-n", "1"])
        .arg(&program)
        .env("LD_LIBRARY_PATH", program.parent().unwrap())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(mpirun.stderr.take().unwrap())
        .lines()
        .map(Result::unwrap);
    let rank: i32 = said.next().unwrap().parse().unwrap();
    // SAFETY: numbers alone.
    assert_eq!(unsafe { libc::ptrace(libc::PTRACE_SEIZE, rank, 0, 0) }, 0);
    said.find(|line| line.ends_with("the job is left running: a debugger has rank 0"))
        .expect("it says so");
    assert_eq!(mpirun.try_wait().unwrap(), None);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::kill(rank, libc::SIGKILL) }, 0);
    // Who traces it has to hear of its end before its parent does.
    assert_eq!(wait(rank), Ok(128 + libc::SIGKILL));
    assert_eq!(mpirun.wait().unwrap().code(), Some(128 + libc::SIGKILL));
}
