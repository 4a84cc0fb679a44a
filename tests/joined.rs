//! Jobs that join a job that runs (mpirun -join): they connect, talk, go again, and live and die by themselves.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

mod common;

const MPIRUN: &str = env!("CARGO_BIN_EXE_mpirun");

/// tests/joined.c, built for the test `name`.
fn program(name: &str) -> PathBuf {
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("joined").join(name);
    common::compile(&work, include_str!("joined.c"))
}

/// mpirun with `options`, and `program` after them in `role`.
fn job(program: &Path, options: &[&str], role: &[&str]) -> Command {
    let mut command = Command::new(MPIRUN);
    command.args(["-timeout", "30"]).args(options).arg(program).args(role);
    command
        .env("LD_LIBRARY_PATH", program.parent().unwrap())
        .env_remove("MPIEXEC_TIMEOUT")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// A job that serves, and the name of its port.
struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    port: String,
}

impl Server {
    fn start(program: &Path, role: &[&str]) -> Server {
        Server::begin(job(program, &["-n", "2"], role))
    }

    fn begin(mut command: Command) -> Server {
        let mut child = command.spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut port = String::new();
        output.read_line(&mut port).unwrap();
        Server {
            child,
            output,
            port: port.trim().to_string(),
        }
    }

    /// The process number of its mpirun.
    fn job(&self) -> String {
        self.child.id().to_string()
    }

    /// Exit code and what it has written, sorted output before messages.
    fn end(mut self) -> (Option<i32>, String) {
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        let mut messages = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        (self.child.wait().unwrap().code(), sorted(&text) + &messages)
    }
}

fn sorted(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort();
    lines.concat()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// `role` on so many ranks, joining `target`.
fn join(program: &Path, target: &str, ranks: &str, role: &[&str]) -> Output {
    job(program, &["-join", target, "-n", ranks], role).output().unwrap()
}

#[test]
fn they_come_and_go_and_find_the_port_in_every_way() {
    let program = program("come");
    let server = Server::start(&program, &["serve", "3"]);
    let rank = server.port.split(':').nth(1).unwrap().to_string();
    for (target, ranks, role) in [
        (server.job(), "3", vec!["call", &server.port]),
        (rank, "1", vec!["call"]),
        (server.port.clone(), "2", vec!["call"]),
    ] {
        let done = join(&program, &target, ranks, &role);
        assert_eq!((done.status.code(), errors(&done).as_str()), (Some(0), ""), "{target}");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        assert_eq!(text.lines().count().to_string(), ranks, "{text}");
    }
    let (code, text) = server.end();
    assert_eq!(
        (code, text.as_str()),
        (Some(0), "serve 0 of 2 is doneserve 1 of 2 is done")
    );
}

#[test]
fn a_job_can_be_joined_as_soon_as_its_mpirun_is_started() {
    let program = program("soon");
    let mut child = job(&program, &["-n", "2"], &["serve", "1"]).spawn().unwrap();
    let done = job(Path::new("true"), &["-join", &child.id().to_string(), "-n", "1"], &[])
        .output()
        .unwrap();
    assert_eq!((done.status.code(), errors(&done).as_str()), (Some(0), ""));
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn those_that_are_not_connected_live_and_die_by_themselves() {
    let program = program("apart");
    let server = Server::start(&program, &["serve", "1"]);
    let stuck = join(&program, &server.job(), "2", &["stuck"]);
    assert_eq!(stuck.status.code(), Some(86), "{}", errors(&stuck));
    assert!(errors(&stuck).contains("deadlock: 2 -> 2"), "{}", errors(&stuck));
    let aborted = join(&program, &server.job(), "2", &["abort"]);
    assert_eq!(aborted.status.code(), Some(5), "{}", errors(&aborted));
    let missing = job(Path::new("/usr/bin/false"), &["-join", &server.job(), "-n", "2"], &[]);
    assert_eq!({ missing }.output().unwrap().status.code(), Some(1));
    assert_eq!(join(&program, &server.job(), "2", &["call"]).status.code(), Some(0));
    let (code, text) = server.end();
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn who_loses_patience_and_is_gone_is_in_nobodys_way() {
    let program = program("patience");
    let server = Server::start(&program, &["looks"]);
    let gone = join(&program, &server.port, "2", &["withdraw"]);
    assert_eq!(gone.status.code(), Some(0), "{}", errors(&gone));
    assert_eq!(join(&program, &server.port, "1", &["call"]).status.code(), Some(0));
    let (code, text) = server.end();
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn who_waits_for_a_busy_server_is_not_stuck() {
    let program = program("busy");
    let server = Server::start(&program, &["busy"]);
    let options = [
        "-join",
        &server.port,
        "-n",
        "2",
        "-hang-after",
        "1",
        "-genv",
        "NEARMPI_CONNECT_MAX",
        "0",
    ];
    let done = job(&program, &options, &["call"]).output().unwrap();
    assert_eq!((done.status.code(), errors(&done).as_str()), (Some(0), ""));
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn those_that_joined_go_on_when_the_first_have_gone_and_can_be_joined() {
    let program = program("relay");
    let first = Server::start(&program, &["serve", "1"]);
    let second = Server::begin(job(&program, &["-join", &first.port, "-n", "2"], &["relay"]));
    assert_eq!(first.end().0, Some(0));
    let done = join(&program, &second.job(), "2", &["call", &second.port]);
    assert_eq!((done.status.code(), errors(&done).as_str()), (Some(0), ""));
    let (code, text) = second.end();
    assert_eq!(
        (code, text.as_str()),
        (Some(0), "relay 0 of 2 is donerelay 1 of 2 is done")
    );
}

#[test]
fn a_death_is_told_to_whoever_waits_for_the_dead() {
    let program = program("death");
    let server = Server::start(&program, &["expect-death"]);
    let died = join(&program, &server.job(), "2", &["die-on-call"]);
    assert_eq!(died.status.code(), Some(137), "{}", errors(&died));
    let (code, text) = server.end();
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("rank 0 outlives the callerrank 1 outlives the caller"),
        "{text}"
    );

    let server = Server::start(&program, &["die-in-service"]);
    let told = join(&program, &server.job(), "2", &["wait-for-death"]);
    assert_eq!(told.status.code(), Some(101), "{}", errors(&told));
    assert!(errors(&told).contains("is dead"), "{}", errors(&told));
    assert_eq!(server.end().0, Some(137));
}

#[test]
fn a_launcher_that_is_killed_leaves_nobody_waiting() {
    let program = program("launcher");
    let mut server = Server::start(&program, &["expect-death"]);
    let caller = job(&program, &["-join", &server.job(), "-n", "2"], &["hold"]).spawn();
    let mut caller = caller.unwrap();
    let mut line = String::new();
    BufReader::new(caller.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, "holds\n");
    caller.kill().unwrap();
    caller.wait().unwrap();
    let mut text = String::new();
    server.output.read_to_string(&mut text).unwrap();
    assert!(
        text.contains("rank 0 outlives the caller") && text.contains("rank 1 outlives the caller"),
        "{text}"
    );
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn what_cannot_be_joined_is_told() {
    let program = program("refused");
    let server = Server::start(&program, &["serve", "1"]);
    let me = std::process::id().to_string();
    for (options, sentence) in [
        (vec!["-join", &me], "no process of a nearmpi job that you may join"),
        (
            vec!["-join", "nobody"],
            "-join nobody: neither a process number nor the name of a port",
        ),
        (
            vec!["-join", &server.port, "-profile"],
            "-profile is for a whole job: it cannot stand beside -join",
        ),
        (
            vec!["-join", &server.port, "-place", "auto"],
            "-place is for a whole job",
        ),
        (
            vec!["-join", &server.port, "-n", "32767"],
            "32767 more ranks: a job that has had 2 can have 32766",
        ),
    ] {
        let done = job(&program, &options, &["call"]).output().unwrap();
        assert_eq!(done.status.code(), Some(1), "{options:?}");
        assert!(errors(&done).contains(sentence), "{}", errors(&done));
    }
    let apart = job(&program, &["-n", "1"], &["call", &server.port]).output().unwrap();
    let hint = format!(
        "start this program with mpirun -join {}",
        server.port.split(':').nth(1).unwrap()
    );
    assert!(errors(&apart).contains(&hint), "{}", errors(&apart));
    assert_eq!(join(&program, &server.port, "1", &["call"]).status.code(), Some(0));
    assert_eq!(server.end().0, Some(0));
}
