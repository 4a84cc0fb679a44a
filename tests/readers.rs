//! Readers of the commands' output that are gone, slow or asleep, or wait for a question: what comes out, and with which exit code.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

const MPIRUN: &str = env!("CARGO_BIN_EXE_mpirun");

/// How long a job may take to end.
const LIMIT: Duration = Duration::from_secs(20);

/// Rank 0 writes more than two pipes hold, and less than mpirun keeps for a reader; then it says so on standard error.
const RANK_0: &str = "if [ $PMI_RANK = 0 ]; then yes 'a line in one piece' | head -c 150000; echo written >&2";

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.env_remove("MPIEXEC_TIMEOUT");
    command
}

/// What is written to it has no reader.
fn nobody() -> PipeWriter {
    std::io::pipe().unwrap().1
}

/// mpirun under way, whose standard error we read; one that hangs is killed.
struct Job {
    child: Child,
    errors: BufReader<ChildStderr>,
    _over: Sender<()>,
}

impl Job {
    fn start(arguments: &[&str], stdout: impl Into<Stdio>) -> Job {
        let mut command = command(MPIRUN, arguments);
        let mut child = command.stdout(stdout).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, receiver) = channel();
        let pid = child.id();
        std::thread::spawn(move || {
            if receiver.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                signal(pid, "KILL");
            }
        });
        Job {
            errors: BufReader::new(child.stderr.take().unwrap()),
            child,
            _over: sender,
        }
    }

    /// The next line of standard error.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.errors.read_line(&mut line).unwrap();
        line.trim_end().to_string()
    }

    fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// The rest of standard error, and the exit code.
    fn end(mut self) -> (String, Option<i32>) {
        let mut text = String::new();
        self.errors.read_to_string(&mut text).unwrap();
        (text, self.child.wait().unwrap().code())
    }
}

fn signal(pid: u32, name: &str) {
    let pid = pid.to_string();
    assert!(
        Command::new("kill")
            .args(["-s", name, &pid])
            .status()
            .unwrap()
            .success()
    );
}

fn all_gone(pids: impl Iterator<Item = String>) -> bool {
    pids.into_iter().all(|pid| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
        stat.map_or(true, |stat| stat.contains(") Z "))
    })
}

#[test]
fn a_command_ends_as_it_would_if_somebody_read() {
    let commands: &[(&str, &[&str])] = &[
        (MPIRUN, &["-help"]),
        (MPIRUN, &["-version"]),
        (MPIRUN, &["-completion", "bash"]),
        (MPIRUN, &["-completion", "no-such-shell"]),
        (MPIRUN, &["-no-such-option"]),
        (MPIRUN, &["-n", "2", "/no/such/program"]),
        (MPIRUN, &["-verbose", "-print-rank-map", "-n", "2", "true"]),
        (MPIRUN, &["-report-bindings", "-n", "2", "true"]),
        (MPIRUN, &["-print-all-exitcodes", "-report-memory", "-n", "2", "true"]),
        (MPIRUN, &["-n", "2", "sh", "-c", "exit 3"]),
        (MPIRUN, &["-n", "2", "sh", "-c", "kill -KILL $$"]),
        (MPIRUN, &["-timeout", "1", "-top-every", "1", "-n", "2", "sleep", "100"]),
        (env!("CARGO_BIN_EXE_mpicc"), &["-help"]),
        (env!("CARGO_BIN_EXE_mpicc"), &["-show"]),
        (env!("CARGO_BIN_EXE_mpicc"), &[]),
        (env!("CARGO_BIN_EXE_nearmpi-info"), &["--functions"]),
        (env!("CARGO_BIN_EXE_nearmpi-info"), &["--no-such-option"]),
        (env!("CARGO_BIN_EXE_nearmpi-tune"), &["--help"]),
        (env!("CARGO_BIN_EXE_nearmpi-tune"), &["--show"]),
        (env!("CARGO_BIN_EXE_nearmpi-tune"), &["--no-such-option"]),
        (env!("CARGO_BIN_EXE_nearmpi-topo"), &[]),
        (env!("CARGO_BIN_EXE_nearmpi-topo"), &["--help"]),
        (env!("CARGO_BIN_EXE_nearmpi-topo"), &["--topology", "/no/such/file"]),
        (env!("CARGO_BIN_EXE_nearmpi-place"), &["--pattern", "no-such-pattern"]),
        (env!("CARGO_BIN_EXE_nearmpi-top"), &["--help"]),
        (env!("CARGO_BIN_EXE_nearmpi-top"), &["--no-such-option"]),
        (env!("CARGO_BIN_EXE_nearmpi-top"), &["1"]),
        (env!("CARGO_BIN_EXE_nearmpi-profile"), &["--help"]),
        (env!("CARGO_BIN_EXE_nearmpi-profile"), &["/no/such/profile"]),
    ];
    for (program, arguments) in commands {
        let read = command(program, arguments).output().unwrap();
        let mut unread = command(program, arguments);
        let unread = unread.stdout(nobody()).stderr(nobody()).status().unwrap();
        assert_eq!(unread.code(), read.status.code(), "{program} {arguments:?}: {read:?}");
        assert!(!read.stdout.is_empty() || !read.stderr.is_empty() || unread.code() == Some(3));
    }
}

#[test]
fn nothing_is_left_behind_when_nobody_reads_the_errors() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readers");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    // Both ranks leave a helper; the first of them to fail may take the other with it.
    let helper = "setsid sleep 100 & echo $! >pid.$PMI_RANK; exit 3";
    let mut command = command(MPIRUN, &["-n", "2", "sh", "-c", helper]);
    let status = command
        .current_dir(&folder)
        .stdout(nobody())
        .stderr(nobody())
        .status()
        .unwrap();
    assert_eq!(status.code(), Some(3));
    let files = fs::read_dir(&folder).unwrap();
    let pids: Vec<String> = files.map(|f| fs::read_to_string(f.unwrap().path()).unwrap()).collect();
    assert!(!pids.is_empty() && all_gone(pids.into_iter()));
}

#[test]
fn a_disk_that_is_full_is_a_failure() {
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let info = env!("CARGO_BIN_EXE_nearmpi-info");
    let output = command(info, &[])
        .stdout(full())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("No space left"));
    let mut mpirun = command(MPIRUN, &["-n", "2", "echo", "text"]);
    let output = mpirun.stdout(full()).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(output.status.code(), Some(141));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("cannot write to standard output: No space left"),
        "{said}"
    );
}

/// The write end of a pipe that does not wait, as Node and asyncio leave it to whoever they start.
fn impatient(writer: PipeWriter) -> File {
    let mut options = File::options();
    options.write(true).custom_flags(libc::O_NONBLOCK);
    options.open(format!("/proc/self/fd/{}", writer.as_raw_fd())).unwrap()
}

#[test]
fn a_slow_reader_gets_everything_in_whole_lines() {
    let (reader, writer) = std::io::pipe().unwrap();
    check_slow(reader, writer);
    let (reader, writer) = std::io::pipe().unwrap();
    check_slow(reader, impatient(writer));
    let (reader, writer) = std::os::unix::net::UnixStream::pair().unwrap();
    writer.set_nonblocking(true).unwrap();
    check_slow(reader, std::os::fd::OwnedFd::from(writer));
}

/// A reader that does not begin before rank 0 has filled the pipes; then rank 1 writes as well.
fn check_slow(mut reader: impl Read, writer: impl Into<Stdio>) {
    let full = Path::new(env!("CARGO_TARGET_TMPDIR")).join("full");
    let _ = fs::remove_file(&full);
    let more = "touch full; yes 'a line in one piece' | head -c 150000";
    let other = "while [ ! -e full ]; do sleep 0.01; done; yes 'another line' | head -c 130000";
    let script = format!("cd $0; {RANK_0}; {more}; else {other}; fi");
    let folder = env!("CARGO_TARGET_TMPDIR");
    let mut job = Job::start(&["-n", "2", "sh", "-c", &script, folder], writer);
    assert_eq!(job.line(), "written");
    let (mut text, mut some) = (String::new(), [0; 3000]);
    loop {
        match reader.read(&mut some).unwrap() {
            0 => break,
            count => text += std::str::from_utf8(&some[..count]).unwrap(),
        }
    }
    assert_eq!(job.end(), (String::new(), Some(0)));
    let count = |line| text.lines().filter(|other| *other == line).count();
    let lines = ["a line in one piece", "another line"].map(count);
    assert_eq!(lines, [2 * 150_000 / 20, 130_000 / 13]);
    assert_eq!(text.len(), 2 * 150_000 + 130_000, "no other line");
}

#[test]
fn a_reader_that_sleeps_stops_neither_the_clock_nor_signals() {
    let endless = format!("{RANK_0}; yes; fi; sleep 100");
    let endless = ["-n", "2", "sh", "-c", &endless];
    for (options, signals, code, says) in [
        (&["-timeout", "3"][..], &[][..], 124, "time limit of 3 s"),
        (&[], &["TERM"], 143, ""),
        (&[], &["INT", "INT"], 130, ""),
        (&["-l"], &["HUP", "TERM"], 129, ""),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        let tagged = options.contains(&"-l");
        let arguments = [options, &endless[..]].concat();
        let mut job = Job::start(&arguments, writer);
        assert_eq!(job.line(), if tagged { "[0] written" } else { "written" });
        signals.iter().for_each(|name| job.signal(name));
        let (said, got) = job.end();
        assert_eq!(got, Some(code), "{options:?} {signals:?}: {said}");
        assert!(said.contains(says), "{said}");
        assert!(
            said.contains("bytes are lost: standard output is not being read"),
            "{said}"
        );
        drop(reader);
    }
}

#[test]
fn our_own_words_wait_behind_the_ranks_in_the_same_pipe() {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = command(MPIRUN, &["-timeout", "1", "-n", "2", "yes"]);
    command.stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut child = command.spawn().unwrap();
    drop(command);
    let deadline = Instant::now() + LIMIT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(child.wait().unwrap().code(), Some(124));
    drop(reader);
}

#[test]
fn what_ranks_left_is_waited_for_after_their_end() {
    for (options, signals, expected) in [
        (&[][..], &[][..], Some(0)),
        (&[], &["TERM"], Some(143)),
        (&["-timeout", "3"], &[], Some(124)),
    ] {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let script = format!("{RANK_0}; fi; echo $$ >&2");
        let arguments = [options, &["-n", "2", "sh", "-c", &script]].concat();
        let mut job = Job::start(&arguments, writer);
        let lines = [job.line(), job.line(), job.line()];
        let pids = || lines.iter().filter(|line| *line != "written").cloned();
        let deadline = Instant::now() + LIMIT;
        while !all_gone(pids()) {
            assert!(Instant::now() < deadline, "the ranks end");
            std::thread::yield_now();
        }
        assert!(job.child.try_wait().unwrap().is_none(), "{signals:?}");
        signals.iter().for_each(|name| job.signal(name));
        if expected == Some(0) {
            let mut text = String::new();
            reader.read_to_string(&mut text).unwrap();
            assert_eq!(text.len(), 150_000);
        }
        let (said, code) = job.end();
        assert_eq!(code, expected, "{options:?} {signals:?}: {said}");
        drop(reader);
    }
}

/// The reader takes what it wants and goes.
fn read_one_line(reader: PipeReader) {
    let mut line = String::new();
    BufReader::with_capacity(2, reader).read_line(&mut line).unwrap();
    assert_eq!(line, "y\n");
}

#[test]
fn a_reader_that_goes_ends_the_job_which_says_why() {
    let (reader, writer) = std::io::pipe().unwrap();
    let job = Job::start(&["-n", "2", "yes"], writer);
    read_one_line(reader);
    let said = "mpirun: the reader of standard output is gone; ending the job\n";
    assert_eq!(job.end(), (said.to_string(), Some(141)));
}

/// Whoever answers has seen the question, which has no end.
#[test]
fn a_question_is_shown_before_it_is_answered() {
    let ask = "if [ $PMI_RANK = 0 ]; then printf 'how many? '; read n; echo got $n; fi";
    for (options, question, rest) in [
        (&[][..], "how many? ", "got 5\n"),
        (&["-l"], "[0] how many? ", "got 5\n"),
    ] {
        let mut command = command(
            MPIRUN,
            &[options, &["-timeout", "20", "-n", "2", "sh", "-c", ask]].concat(),
        );
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (mut answers, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut shown = vec![0; question.len()];
        output.read_exact(&mut shown).unwrap();
        assert_eq!(String::from_utf8(shown).unwrap(), question);
        answers.write_all(b"5\n").unwrap();
        let mut text = String::new();
        output.read_to_string(&mut text).unwrap();
        assert!(child.wait().unwrap().success());
        assert_eq!(text, rest);
    }
}

/// Rank 0 pauses in a line, and rank 1 writes one meanwhile.
#[test]
fn a_tagged_line_that_is_broken_into_begins_anew() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("readers-pause");
    let (first, second) = (folder.with_extension("first"), folder.with_extension("second"));
    for file in [&first, &second] {
        let _ = fs::remove_file(file);
    }
    // Each goes on when the other's part has been shown, which the reader says.
    let ranks = format!(
        "wait_for() {{ while [ ! -e \"$1\" ]; do sleep 0.01; done; }}
         if [ $PMI_RANK = 0 ]; then printf one; wait_for '{1}'; echo two; else wait_for '{0}'; echo other; fi",
        first.display(),
        second.display()
    );
    let mut command = command(MPIRUN, &["-timeout", "20", "-l", "-n", "2", "sh", "-c", &ranks]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut shown = vec![0; "[0] one".len()];
    output.read_exact(&mut shown).unwrap();
    assert_eq!(shown, b"[0] one");
    File::create(&first).unwrap();
    let mut line = || {
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        line
    };
    assert_eq!((line(), line()), ("\n".into(), "[1] other\n".into()));
    File::create(&second).unwrap();
    assert_eq!((line(), line()), ("[0] two\n".into(), String::new()));
    assert!(child.wait().unwrap().success());
    for file in [&first, &second] {
        fs::remove_file(file).unwrap();
    }
}

#[test]
fn a_signal_that_nohup_has_ignored_is_ignored_and_one_of_the_keyboard_is_not() {
    let job = ["-n", "2", "sh", "-c", "echo here >&2; sleep 0.5; echo there >&2"];
    for (program, name, code, said) in [("nohup", "HUP", Some(0), 2), (MPIRUN, "QUIT", Some(128 + 3), 0)] {
        let words = [&[MPIRUN][..], &job].concat();
        let mut command = command(program, if program == MPIRUN { &job } else { &words });
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        for _ in 0..2 {
            errors.read_line(&mut line).unwrap();
        }
        assert_eq!(line, "here\nhere\n");
        signal(child.id(), name);
        let mut rest = String::new();
        errors.read_to_string(&mut rest).unwrap();
        assert_eq!(
            (child.wait().unwrap().code(), rest.matches("there").count()),
            (code, said),
            "{rest}"
        );
    }
}

/// Who reads slowly gets whole lines all the same: a rank whose output waits has not paused.
#[test]
fn lines_stay_whole_for_a_slow_reader() {
    let ranks = "yes $(printf %0100d $PMI_RANK) | head -n 30000";
    let mut job = command(MPIRUN, &["-timeout", "20", "-n", "3", "sh", "-c", ranks]);
    let mut child = job.stdout(Stdio::piped()).spawn().unwrap();
    let (mut output, mut text, mut piece) = (child.stdout.take().unwrap(), Vec::new(), vec![0; 1 << 16]);
    for turn in 0.. {
        let count = output.read(&mut piece).unwrap();
        if count == 0 {
            break;
        }
        text.extend_from_slice(&piece[..count]);
        if turn < 15 {
            std::thread::sleep(Duration::from_millis(70));
        }
    }
    assert!(child.wait().unwrap().success());
    let text = String::from_utf8(text).unwrap();
    let whole = |rank: u32| text.lines().filter(|line| *line == format!("{rank:0100}")).count();
    assert_eq!((0..3).map(whole).collect::<Vec<_>>(), [30000; 3]);
}
