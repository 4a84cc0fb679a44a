//! mpirun with programs that are no MPI programs: what it promises about processes, signals, output,
//! surroundings and exit codes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn mpirun(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mpirun"));
    command
        .args(arguments)
        .stdin(Stdio::null())
        .env_remove("MPIEXEC_TIMEOUT");
    command
}

fn run(arguments: &[&str]) -> Output {
    mpirun(arguments).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("mpirun ends by itself")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output's lines in order of the alphabet.
fn lines(output: &Output) -> Vec<String> {
    let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_string).collect();
    lines.sort();
    lines
}

/// mpirun with its output on a pipe, and the first `count` lines of it.
fn started(arguments: &[&str], count: usize) -> (Child, BufReader<std::process::ChildStdout>, Vec<String>) {
    let mut child = mpirun(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let lines = (0..count)
        .map(|_| {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            line.trim().to_string()
        })
        .collect();
    (child, reader, lines)
}

fn signal(child: &Child, name: &str) {
    let done = Command::new("sh")
        .args(["-c", &format!("kill -{name} {}", child.id())])
        .status()
        .unwrap();
    assert!(done.success());
}

/// The letter that the kernel gives the state of a process; `None` if there is no such process.
fn state(pid: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

/// True once no process of these numbers lives.
fn all_gone(pids: &[String], within: Duration) -> bool {
    let deadline = Instant::now() + within;
    while pids.iter().any(|pid| state(pid).is_some_and(|state| state != 'Z')) {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}

#[test]
fn every_rank_knows_its_place() {
    let show = "echo $PMI_RANK/$PMI_SIZE $MPI_LOCALRANKID/$MPI_LOCALNRANKS; test -n \"$NEARMPI_FD\" -a -n \"$PMI_FD\"";
    let output = run(&["-n", "3", "sh", "-c", show]);
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    assert_eq!(lines(&output), ["0/3 0/3", "1/3 1/3", "2/3 2/3"]);
}

#[test]
fn the_first_failure_gives_the_code() {
    let output = run(&["-n", "2", "sh", "-c", "if [ $PMI_RANK = 1 ]; then exit 7; fi; sleep 20"]);
    assert_eq!(code(&output), 7);
    assert!(text(&output.stderr).contains("rank 1"), "{}", text(&output.stderr));
    assert_eq!(code(&run(&["-n", "2", "true"])), 0);
}

#[test]
fn a_killed_rank_ends_the_job() {
    let begin = Instant::now();
    let output = run(&[
        "-n",
        "2",
        "sh",
        "-c",
        "if [ $PMI_RANK = 1 ]; then kill -SEGV $$; fi; sleep 20",
    ]);
    assert_eq!(code(&output), 128 + 11);
    let message = text(&output.stderr);
    assert!(
        message.contains("rank 1 (pid ") && message.contains("SIGSEGV"),
        "{message}"
    );
    assert!(begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn who_ignores_the_polite_signal_gets_the_other() {
    let begin = Instant::now();
    let stubborn = "trap '' TERM; if [ $PMI_RANK = 1 ]; then sleep 0.2; exit 3; fi; while :; do sleep 20; done";
    assert_eq!(code(&run(&["-n", "2", "sh", "-c", stubborn])), 3);
    assert!(begin.elapsed() >= Duration::from_millis(250) && begin.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_program_that_is_not_there_says_so() {
    let output = run(&["-n", "2", "./no-such-program"]);
    assert_eq!(code(&output), 127);
    assert!(text(&output.stderr).contains("./no-such-program: No such file or directory"));
    assert_eq!(code(&run(&["-n", "1", "/etc/passwd"])), 126);
    assert!(text(&run(&["-wdir", "/no/such/folder", "true"]).stderr).contains("/no/such/folder"));
}

#[test]
fn the_environment_is_as_asked() {
    let show = ["-n", "1", "-env", "B", "2", "sh", "-c", "echo $A$B$C$KEPT"];
    let output = mpirun(&[&["-genv", "A", "1", "-x", "C=3"][..], &show].concat())
        .env("KEPT", "4")
        .output()
        .unwrap();
    assert_eq!(lines(&output), ["1234"]);
    let output = mpirun(&[
        "-genvlist",
        "PATH,KEPT",
        "-n",
        "1",
        "sh",
        "-c",
        "echo $KEPT-$LOST-$PMI_RANK",
    ])
    .envs([("KEPT", "k"), ("LOST", "l")])
    .output()
    .unwrap();
    assert_eq!(lines(&output), ["k--0"]);
    let output = mpirun(&["-n", "1", "sh", "-c", "echo x$PMIX_RANK$OMPI_COMM_WORLD_SIZE"])
        .envs([("PMIX_RANK", "5"), ("OMPI_COMM_WORLD_SIZE", "9")])
        .output()
        .unwrap();
    assert_eq!(lines(&output), ["x"], "another launcher's variables");
}

#[test]
fn programs_differ_in_one_job() {
    let first = ["-n", "1", "-wdir", "/", "sh", "-c", "echo a $PMI_RANK $PWD"];
    let second = ["-n", "2", "sh", "-c", "echo b $PMI_RANK"];
    let output = run(&[&first[..], &[":"], &second].concat());
    assert_eq!(lines(&output), ["a 0 /", "b 1", "b 2"]);
}

#[test]
fn tagged_lines_are_whole() {
    let write = "i=0; while [ $i -lt 2000 ]; do echo line $i of rank $PMI_RANK; i=$((i+1)); done; printf partial";
    let output = run(&["-l", "-n", "3", "sh", "-c", write]);
    assert_eq!(code(&output), 0);
    let mut next = [0; 3];
    for line in text(&output.stdout).lines() {
        let rank: usize = line[1..2].parse().unwrap();
        let rest = &line[4..];
        match next[rank] {
            2000 => assert_eq!(rest, "partial"),
            i => assert_eq!(rest, format!("line {i} of rank {rank}")),
        }
        next[rank] += 1;
    }
    assert_eq!(next, [2001; 3]);
    let output = run(&["--tag-output", "-n", "1", "sh", "-c", "echo out; echo err >&2"]);
    assert_eq!(text(&output.stdout), "[1,0]<stdout>:out\n");
    assert_eq!(text(&output.stderr), "[1,0]<stderr>:err\n");
}

#[test]
fn output_goes_into_files() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("output");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let write = ["-n", "2", "sh", "-c", "echo out $PMI_RANK; echo err $PMI_RANK >&2"];
    let of = |name: &str| fs::read_to_string(folder.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
    let run_here = |options: &[&str]| {
        let output = mpirun(&[options, &write].concat())
            .current_dir(&folder)
            .output()
            .unwrap();
        assert_eq!(code(&output), 0, "{}", text(&output.stderr));
        output
    };
    let output = run_here(&["-outfile-pattern", "out.%r", "-errfile-pattern", "all"]);
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
    assert_eq!((of("out.0"), of("out.1")), ("out 0\n".into(), "out 1\n".into()));
    let all = of("all");
    assert!(all == "err 0\nerr 1\n" || all == "err 1\nerr 0\n", "{all}");
    run_here(&["--output-filename", "deep/er"]);
    assert_eq!(of("deep/er/1/rank.1/stderr"), "err 1\n");
    let output = run_here(&["-prepend-pattern", "<%r%%>", "-outfile-pattern", "tagged"]);
    assert!(of("tagged").contains("<1%>out 1\n") && text(&output.stderr).contains("<0%>err 0\n"));
    let output = run_here(&["--timestamp-output", "--tag-output"]);
    let line = text(&output.stdout).lines().next().unwrap().to_string();
    let (time, rest) = line.split_once("[1,").unwrap();
    assert!(
        time.len() == 24 && time.as_bytes()[13] == b':' && rest.contains("<stdout>:out"),
        "{line}"
    );
    let broken = run(&[&["-outfile-pattern", "/no/such/%r"][..], &write].concat());
    assert!(
        text(&broken.stderr).contains("output of rank 0") && code(&broken) == 1 || std::path::Path::new("/no").exists()
    );
}

#[test]
fn arguments_and_variables_are_passed_on_as_they_are() {
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"a\xff b");
    let output = mpirun(&["-n", "1", "sh", "-c", "printf %s \"$1$ODD\"", "x"])
        .arg(odd)
        .env("ODD", odd)
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"a\xff ba\xff b");
}

#[test]
fn programs_are_looked_for_in_the_path() {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("path");
    fs::create_dir_all(&folder).unwrap();
    let program = folder.join("of-my-own");
    fs::write(&program, "#!/bin/sh\necho found\n").unwrap();
    Command::new("chmod").arg("755").arg(&program).status().unwrap();
    let path = format!("/nowhere:{}", folder.display());
    assert_eq!(text(&run(&["-path", &path, "-n", "1", "of-my-own"]).stdout), "found\n");
    assert_eq!(code(&run(&["-n", "1", "of-my-own"])), 127);
}

#[test]
fn exit_codes_are_as_asked() {
    let killed = [
        "-n",
        "2",
        "sh",
        "-c",
        // Rank 0 has to be gone before the death of rank 1 ends it.
        "if [ $PMI_RANK = 1 ]; then sleep 0.5; kill -KILL $$; fi; exit 0",
    ];
    assert_eq!(code(&run(&killed)), 137);
    let output = run(&[&["-exit-codes", "hydra", "-print-all-exitcodes"][..], &killed].concat());
    assert_eq!(code(&output), 9);
    assert!(
        text(&output.stderr).contains("exit codes: 0,signal 9"),
        "{}",
        text(&output.stderr)
    );
    assert_eq!(
        code(&run(&["-exit-codes", "hydra", "-n", "1", "sh", "-c", "exit 137"])),
        137
    );
}

#[test]
fn untagged_lines_are_whole_as_well() {
    // Blocks as the C library writes them, which end in the middle of a line.
    let output = run(&[
        "-n",
        "3",
        "sh",
        "-c",
        "yes \"rank $PMI_RANK writes this line\" | head -c 1300000; printf end",
    ]);
    let all = text(&output.stdout);
    let known = [
        "rank 0 writes this line",
        "rank 1 writes this line",
        "rank 2 writes this line",
    ];
    let torn: Vec<&str> = all.lines().filter(|line| !known.contains(line)).collect();
    assert!(
        torn.len() <= 3 && torn.iter().any(|line| line.contains("end")),
        "{torn:?}"
    );
    assert_eq!(all.len(), 3 * 1_300_003);
    let output = Command::new("sh")
        .args([
            "-c",
            "$0 -n 2 sh -c 'if [ $PMI_RANK = 1 ]; then for i in 1 2 3; do echo o$i; echo e$i >&2; done; fi' 2>&1",
        ])
        .arg(env!("CARGO_BIN_EXE_mpirun"))
        .output()
        .unwrap();
    assert_eq!(
        text(&output.stdout),
        "o1\ne1\no2\ne2\no3\ne3\n",
        "output and errors keep their order"
    );
}

#[test]
fn standard_input_is_rank_0s() {
    let mut child = mpirun(&["-n", "2", "sh", "-c", "echo $PMI_RANK $(wc -c)"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&vec![b'x'; 3 << 20]).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(lines(&output), [format!("0 {}", 3 << 20), "1 0".into()]);
}

#[test]
fn a_killed_launcher_leaves_nothing() {
    let (mut child, _reader, pids) = started(&["-n", "3", "sh", "-c", "echo $$; exec sleep 100"], 3);
    assert!(pids.iter().all(|pid| state(pid).is_some()));
    signal(&child, "KILL");
    child.wait().unwrap();
    assert!(all_gone(&pids, Duration::from_secs(2)), "{pids:?}");
}

#[test]
fn a_helper_of_a_dead_rank_delays_nothing() {
    for options in [&["-n", "2"][..], &["-l", "-n", "2"]] {
        let helper = "sleep 100 & echo $!; if [ $PMI_RANK = 1 ]; then kill -KILL $$; fi; wait";
        let begin = Instant::now();
        let output = run(&[options, &["sh", "-c", helper]].concat());
        assert_eq!(code(&output), 137);
        assert!(begin.elapsed() < Duration::from_secs(5));
        let pids: Vec<String> = lines(&output)
            .iter()
            .map(|l| l.rsplit(' ').next().unwrap().to_string())
            .collect();
        assert!(!pids.is_empty() && all_gone(&pids, Duration::ZERO), "{pids:?}");
    }
    let output = run(&["-n", "1", "sh", "-c", "setsid sleep 100 & echo $!"]);
    assert_eq!(code(&output), 0);
    assert!(
        all_gone(&lines(&output), Duration::ZERO),
        "a daemon left behind after a good end"
    );
}

#[test]
fn the_launchers_signals_reach_the_ranks() {
    for (name, number) in [("TERM", 15), ("INT", 2), ("HUP", 1)] {
        let script = format!("trap 'echo got; exit 0' {name}; echo ready; while :; do sleep 0.01; done");
        let (mut child, mut reader, ready) = started(&["-n", "2", "sh", "-c", &script], 2);
        assert_eq!(ready, ["ready", "ready"]);
        signal(&child, name);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "got\ngot\n", "{name}");
        assert_eq!(child.wait().unwrap().code(), Some(128 + number));
    }
}

#[test]
fn user_signals_are_passed_on_and_nothing_more() {
    let script = "trap 'echo usr; exit 0' USR1; echo ready; while :; do sleep 0.01; done";
    let (mut child, mut reader, _) = started(&["-n", "2", "sh", "-c", script], 2);
    signal(&child, "USR1");
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "usr\nusr\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_user_signal_asks_what_the_ranks_are_doing() {
    let (mut child, mut reader, pids) = started(&["-n", "2", "sh", "-c", "echo $$; exec sleep 2"], 2);
    signal(&child, "USR1");
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    // Ranks without a handler do not get it.
    assert_eq!(child.wait().unwrap().code(), Some(0), "{pids:?}");
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("ranks 0 and 1 have not called MPI_Init"), "{said}");
}

#[test]
fn the_table_shows_each_rank() {
    let output = run(&["--top-every", "1", "-n", "2", "sh", "-c", "sleep 1.5"]);
    let said = text(&output.stderr);
    assert_eq!(code(&output), 0);
    assert!(
        said.contains("messages") && said.matches("MPI_Init").count() >= 4,
        "{said}"
    );
}

#[test]
fn a_stopped_job_goes_on() {
    let mut child = mpirun(&["-n", "1", "sh", "-c", "echo $$; read line; echo done"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stdout.take().unwrap());
    let mut pid = String::new();
    reader.read_line(&mut pid).unwrap();
    signal(&child, "TSTP");
    let deadline = Instant::now() + Duration::from_secs(5);
    while [pid.trim(), &child.id().to_string()]
        .iter()
        .any(|pid| state(pid) != Some('T'))
    {
        assert!(Instant::now() < deadline, "both stop");
        std::thread::sleep(Duration::from_millis(2));
    }
    signal(&child, "CONT");
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "done\n");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn time_is_limited() {
    let begin = Instant::now();
    let output = run(&["--timeout", "1", "-n", "2", "sleep", "100"]);
    assert_eq!(code(&output), 124);
    assert!(text(&output.stderr).contains("time limit"));
    assert!(text(&output.stderr).contains("ranks 0 and 1 have not called MPI_Init"));
    let output = mpirun(&["-n", "1", "sleep", "100"])
        .env("MPIEXEC_TIMEOUT", "1")
        .output()
        .unwrap();
    assert_eq!(code(&output), 124);
    assert!(begin.elapsed() < Duration::from_secs(10));
}

#[test]
fn mistakes_are_explained() {
    assert_ne!(code(&run(&["-nn", "2", "true"])), 0);
    let output = run(&["--oversubscrib", "true"]);
    assert!(
        text(&output.stderr).contains("did you mean -oversubscribe?"),
        "{}",
        text(&output.stderr)
    );
    let output = run(&["-hosts", "faraway", "true"]);
    assert!(text(&output.stderr).contains("one machine") && code(&output) != 0);
    assert!(text(&run(&["--help"]).stdout).contains("-genvlist"));
    assert!(text(&run(&["--version"]).stdout).contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn ranks_have_cpus_of_their_own_unless_told_otherwise() {
    let show = "grep Cpus_allowed_list /proc/self/status";
    let here = fs::read_to_string("/proc/self/status").unwrap();
    let here = here.lines().find(|l| l.starts_with("Cpus_allowed_list")).unwrap();
    let output = run(&["-bind-to", "none", "-n", "2", "sh", "-c", show]);
    assert_eq!(lines(&output), [here, here]);
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() >= 2) {
        let apart = lines(&run(&["-n", "2", "sh", "-c", show]));
        assert!(apart[0] != apart[1] && !apart.contains(&here.to_string()), "{apart:?}");
    }
}

#[test]
fn binding_is_as_asked_and_reported() {
    let show = "grep Cpus_allowed_list /proc/self/status";
    let bound = |options: &[&str]| run(&[options, &["-report-bindings", "sh", "-c", show]].concat());
    let mine = |output: &Output| -> Vec<String> {
        assert_eq!(code(output), 0, "{}", text(&output.stderr));
        let list = |line: String| line.rsplit(char::is_whitespace).next().unwrap_or("").to_string();
        lines(output).into_iter().map(list).collect()
    };
    let first = mpi::sys::cpu::mask(0).first().unwrap().to_string();
    let user = format!("user:{first}");
    for options in [
        &["-n", "2", "-bind-to", &user][..],
        &["-n", "2", "-cpu-set", &first],
        &["-n", "2", "--map-by", "core", "--bind-to", "core", "--cpu-set", &first],
        &["-map-by", "ppr:2:machine", "--cpu-set", &first],
    ] {
        let output = bound(options);
        assert_eq!(mine(&output), [first.clone(), first.clone()], "{options:?}");
        assert_eq!(
            text(&output.stderr).matches("MCW rank").count(),
            2,
            "{}",
            text(&output.stderr)
        );
    }
    let file = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("one.map");
    fs::write(&file, format!("0 {first}\n")).unwrap();
    let map = format!("file:{}", file.display());
    assert_eq!(
        mine(&bound(&["-n", "1", "-map-by", &map])),
        std::slice::from_ref(&first)
    );
    let variable = mpirun(&["-n", "1", "sh", "-c", show])
        .env("HYDRA_BINDING", &user)
        .output()
        .unwrap();
    assert_eq!(mine(&variable), std::slice::from_ref(&first));
    for (options, reason) in [
        (&["-n", "2", "-map-by", &map][..], "is for 1 ranks, the job has 2"),
        (&["-n", "1", "-map-by", "file:/nonexistent"], "/nonexistent"),
        (&["-n", "1", "-cpu-set", "60000"], "60000"),
        (&["-n", "1", "-bind-to", "user:60000"], "CPU 60000 of rank 0"),
        (&["-n", "1", "-map-by", "l5cache"], "no l5cache"),
    ] {
        let output = bound(options);
        assert!(
            code(&output) != 0 && text(&output.stderr).contains(reason),
            "{options:?}: {}",
            text(&output.stderr)
        );
    }
}

#[test]
fn the_ranks_of_the_machine_are_told() {
    let output = run(&["-print-rank-map", "-n", "3", "true"]);
    let told = text(&output.stdout);
    assert!(told.starts_with('(') && told.ends_with(":0,1,2)\n"), "{told}");
}

#[test]
fn a_job_ends_where_its_starter_ignores_the_deaths_of_children() {
    let mut job = Command::new("env")
        .args(["--ignore-signal=CHLD", env!("CARGO_BIN_EXE_mpirun"), "-n", "2", "true"])
        .spawn()
        .unwrap();
    let began = Instant::now();
    while job.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(20) {
            job.kill().unwrap();
            panic!("it does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(job.wait().unwrap().success());
}

#[test]
fn closed_output_ends_the_job() {
    for options in ["-n 2", "-l -n 2"] {
        let pipe = format!(
            "({} {options} yes; echo $? >&2) | head -1 >/dev/null",
            env!("CARGO_BIN_EXE_mpirun")
        );
        let output = Command::new("sh")
            .args(["-c", &pipe])
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            text(&output.stderr).trim_end().ends_with("141"),
            "{options}: {}",
            text(&output.stderr)
        );
    }
}
