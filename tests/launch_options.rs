//! Options and variables that other launchers have, and what they do to programs that mpirun starts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Variables that a machine's batch system or user may have set.
const STEERING: [&str; 9] = [
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "PBS_NODEFILE",
    "LSB_JOBID",
    "PE_HOSTFILE",
    "I_MPI_PERHOST",
    "I_MPI_PIN",
    "NEARMPI_SHARED_HEAP",
    "MPIEXEC_TIMEOUT",
];

fn mpirun_at(program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    for name in STEERING {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).output().unwrap()
}

fn mpirun(arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    mpirun_at(Path::new(env!("CARGO_BIN_EXE_mpirun")), arguments, variables)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn count(output: &Output) -> usize {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().count()
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("launch_options").join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn as_many_start_as_there_is_room_for() {
    let cpus = count(&mpirun(&["echo"], &[]));
    for (options, expected) in [
        (&["-N", "1"][..], 1),
        (&["--pernode"], 1),
        (&["-ppn", "3"], 3),
        (&["-npernode", "3"], 3),
        (&["-hosts", "localhost:3"], 3),
        (&["-ppn", "1", "-n", "3"], 3),
        (&["-soft", "3"], 3),
        (&["--map-by", ":OVERSUBSCRIBE"], cpus),
    ] {
        let output = mpirun(&[options, &["echo"]].concat(), &[]);
        assert_eq!(count(&output), expected, "{options:?}");
        assert!(output.stderr.is_empty(), "{options:?}: {}", text(&output.stderr));
    }
    let told = mpirun(&["-v", "-ppn", "1", "-n", "3", "true"], &[]);
    assert!(
        text(&told.stderr).contains("room for 1 on a machine"),
        "{}",
        text(&told.stderr)
    );
}

#[test]
fn a_batch_job_of_several_machines_is_told_that_this_is_one() {
    let slurm = [
        ("SLURM_JOB_ID", "1"),
        ("SLURM_NTASKS", "3"),
        ("SLURM_JOB_NUM_NODES", "2"),
    ];
    let output = mpirun(&["echo"], &slurm);
    assert_eq!(count(&output), 3);
    let told = text(&output.stderr);
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.contains("2 machines") && told.contains("all 3 ranks"), "{told}");
    let meant = mpirun(&["-n", "2", "echo"], &slurm);
    assert_eq!((count(&meant), meant.stderr.len()), (2, 0));
    let one = mpirun(&["echo"], &slurm[..2]);
    assert_eq!((count(&one), one.stderr.len()), (3, 0));
    let nodes = folder("batch").join("nodes");
    fs::write(&nodes, "here\nhere\n").unwrap();
    assert_eq!(
        count(&mpirun(&["echo"], &[("PBS_NODEFILE", nodes.to_str().unwrap())])),
        2
    );
}

#[test]
fn no_limit_ends_nothing() {
    for none in ["-1", "0", "", " "] {
        let output = mpirun(&["-n", "1", "echo"], &[("MPIEXEC_TIMEOUT", none)]);
        assert_eq!(count(&output), 1, "{none:?}");
    }
    let unlimited = ["-timeout", "0", "-n", "1", "sh", "-c", "sleep 1.5; echo"];
    assert_eq!(count(&mpirun(&unlimited, &[("MPIEXEC_TIMEOUT", "1")])), 1);
    let limited = mpirun(&["-genv", "MPIEXEC_TIMEOUT", "1", "-n", "1", "sleep", "100"], &[]);
    assert_eq!(limited.status.code(), Some(124));
    let junk = mpirun(&["-n", "1", "true"], &[("MPIEXEC_TIMEOUT", "soon")]);
    assert!(text(&junk.stderr).contains("MPIEXEC_TIMEOUT soon"));
}

#[test]
fn a_path_is_seen_from_here_or_from_the_programs_folder() {
    let folder = folder("path");
    let (here, there) = (folder.join("bin"), folder.join("work/tools"));
    for (place, name) in [(&here, "of-here"), (&there, "of-there")] {
        fs::create_dir_all(place).unwrap();
        fs::write(place.join(name), "#!/bin/sh\npwd\n").unwrap();
        Command::new("chmod").arg("755").arg(place.join(name)).status().unwrap();
    }
    let work = folder.join("work").canonicalize().unwrap();
    let ask = |path: &str, program: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpirun"));
        command.args(["-n", "1", "-wdir", work.to_str().unwrap(), "-path", path, program]);
        command.current_dir(&folder).stdin(Stdio::null()).output().unwrap()
    };
    let expected = format!("{}\n", work.display());
    assert_eq!(text(&ask("bin", "of-here").stdout), expected);
    assert_eq!(text(&ask("tools", "of-there").stdout), expected);
    assert_eq!(text(&ask("nowhere", "of-here").stdout), "");
    let why = text(&ask("nowhere", "./bin/of-here").stderr);
    assert!(
        why.contains(&format!("in {}, where it is to run", work.display())),
        "{why}"
    );
}

#[test]
fn one_rank_reads_or_none() {
    let read = |options: &[&str]| {
        let script = ["-n", "2", "sh", "-c", "read line && echo $PMI_RANK $line"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpirun"));
        command.args(options).args(["-keep-going"]).args(script);
        let file = folder(&format!("read{}", options.concat())).join("input");
        fs::write(&file, "words\n").unwrap();
        text(&command.stdin(fs::File::open(file).unwrap()).output().unwrap().stdout)
    };
    assert_eq!(read(&[]), "0 words\n");
    assert_eq!(read(&["-s", "1"]), "1 words\n");
    assert_eq!(read(&["--stdin", "none"]), "");
}

#[test]
fn output_goes_where_open_mpis_words_send_it() {
    let script = ["sh", "-c", "echo out; echo err >&2"];
    let ask = |options: &[&str]| mpirun(&[options, &script].concat(), &[]);
    for options in [
        &["-n", "1", "--merge-stderr-to-stdout"][..],
        &["-n", "1", "--output", "merge-stderr-to-stdout"],
    ] {
        let output = ask(options);
        assert_eq!((text(&output.stdout), output.stderr.len()), ("out\nerr\n".into(), 0));
    }
    let merged = ask(&["-n", "2", "--output", "merge,tag"]);
    let mut lines: Vec<String> = text(&merged.stdout).lines().map(str::to_string).collect();
    lines.sort();
    let expected = [
        "[1,0]<stdout>: err",
        "[1,0]<stdout>: out",
        "[1,1]<stdout>: err",
        "[1,1]<stdout>: out",
    ];
    assert_eq!(lines, expected);
    let file = folder("output").join("100%");
    let output = ask(&["-n", "2", "--output", &format!("file={}", file.display())]);
    assert_eq!((output.stdout.len(), output.stderr.len()), (0, 0));
    for rank in 0..2 {
        let read = |end: &str| fs::read_to_string(format!("{}.{rank}.{end}", file.display())).unwrap();
        assert_eq!((read("out"), read("err")), ("out\n".into(), "err\n".into()));
    }
}

#[test]
fn variables_steer_mpirun_wherever_they_are_set() {
    let prefix = folder("steer");
    fs::create_dir_all(prefix.join("bin")).unwrap();
    fs::create_dir_all(prefix.join("lib")).unwrap();
    let program = prefix.join("bin/mpirun");
    fs::hard_link(env!("CARGO_BIN_EXE_mpirun"), &program).unwrap();
    // The loader says that this is no library, and goes on.
    fs::write(prefix.join("lib/libnearmpi-heap.so"), "").unwrap();
    let heap = |options: &[&str], variables: &[(&str, &str)]| {
        let show = ["-n", "1", "sh", "-c", "echo $LD_PRELOAD"];
        let output = mpirun_at(&program, &[options, &show].concat(), variables);
        text(&output.stdout).contains("libnearmpi-heap.so")
    };
    let name = "NEARMPI_SHARED_HEAP";
    assert!(!heap(&[], &[]));
    assert!(heap(&[], &[(name, "1")]));
    assert!(heap(&["-genv", name, "1"], &[]));
    assert!(heap(&["-env", "NEARMPI_SHARED_HEAP=1"], &[]));
    assert!(heap(&["-x", "NEARMPI_SHARED_HEAP=1"], &[]));
    assert!(!heap(&["-genv", name, "0"], &[(name, "1")]));

    let first = mpi::sys::cpu::mask(0).first().unwrap().to_string();
    let bound = |options: &[&str], variables: &[(&str, &str)]| {
        let show = ["-n", "1", "sh", "-c", "grep Cpus_allowed_list /proc/self/status"];
        let output = mpirun(&[options, &show].concat(), variables);
        text(&output.stdout)
            .split_whitespace()
            .last()
            .unwrap_or_default()
            .to_string()
    };
    let user = format!("user:{first}");
    assert_eq!(bound(&["-genv", "HYDRA_BINDING", &user], &[]), first);
    assert_eq!(bound(&[], &[("I_MPI_PIN_PROCESSOR_LIST", &first)]), first);
    assert_eq!(bound(&["-genv", "I_MPI_PIN_PROCESSOR_LIST", &first], &[]), first);
    let all = bound(&["-bind-to", "none"], &[]);
    assert_eq!(
        bound(&["-bind-to", "none"], &[("I_MPI_PIN_PROCESSOR_LIST", &first)]),
        all
    );
    if all != first {
        let shared = |variables: &[(&str, &str)]| {
            let show = ["-n", "2", "sh", "-c", "grep Cpus_allowed_list /proc/self/status"];
            text(&mpirun(&show, variables).stdout).matches(&all).count()
        };
        assert_eq!((shared(&[]), shared(&[("I_MPI_PIN", "off")])), (0, 2));
    }
    let odd = mpirun(&["-v", "-n", "1", "true"], &[("I_MPI_PIN_DOMAIN", "omp")]);
    assert!(text(&odd.stderr).contains("I_MPI_PIN_DOMAIN=omp: no effect here"));
    let wrong = mpirun(&["-n", "1", "true"], &[("I_MPI_PIN_PROCESSOR_LIST", "60000")]);
    assert!(
        text(&wrong.stderr).contains("I_MPI_PIN_PROCESSOR_LIST=60000"),
        "{}",
        text(&wrong.stderr)
    );
}

#[test]
fn preload_puts_our_library_before_the_linked_one_and_behind_tools() {
    let prefix = folder("preload");
    for folder in ["bin", "lib/compat"] {
        fs::create_dir_all(prefix.join(folder)).unwrap();
    }
    let program = prefix.join("bin/mpirun");
    fs::hard_link(env!("CARGO_BIN_EXE_mpirun"), &program).unwrap();
    let script = "echo $LD_PRELOAD; echo $LD_LIBRARY_PATH";
    let run = |preloaded: &str| {
        let variables = [("LD_LIBRARY_PATH", "/there"), ("LD_PRELOAD", preloaded)];
        mpirun_at(&program, &["-preload", "-n", "1", "sh", "-c", script], &variables)
    };
    let library = prefix.join("lib/libmpi.so.12");
    let output = run("/libmpiP.so");
    assert!(
        text(&output.stderr).contains("libmpi.so.12") && !output.status.success(),
        "no library, no job"
    );
    // The loader says that this is no library, and goes on.
    fs::write(&library, "").unwrap();
    let (lib, library) = (prefix.join("lib"), library.display());
    let both = [
        ("/libmpiP.so", format!("/libmpiP.so:{library}")),
        ("/libmpi.so.40", format!("{library}:/libmpi.so.40")),
    ];
    for (preloaded, list) in both {
        let expected = format!("{list}\n{0}:{0}/compat:/there\n", lib.display());
        assert_eq!(text(&run(preloaded).stdout), expected);
    }
}

#[test]
fn preload_gives_each_program_the_library_of_its_abi() {
    let prefix = folder("preload_abi");
    for folder in ["bin", "lib", "theirs"] {
        fs::create_dir_all(prefix.join(folder)).unwrap();
    }
    let mpirun = prefix.join("bin/mpirun");
    fs::hard_link(env!("CARGO_BIN_EXE_mpirun"), &mpirun).unwrap();
    let compile = |arguments: &[&str]| {
        let mut command = Command::new("cc");
        let done = command.current_dir(&prefix).args(arguments).status();
        assert!(done.unwrap().success(), "{arguments:?}");
    };
    let library = |file: &str, needs: &[&str]| {
        let name = Path::new(file).file_name().unwrap().to_str().unwrap();
        let soname = format!("-Wl,-soname,{name}");
        let empty = [
            "-shared",
            "-nostdlib",
            "-xc",
            "/dev/null",
            "-xnone",
            "-Wl,--no-as-needed",
        ];
        compile(&[&empty, &["-o", file, &soname][..], needs].concat());
    };
    library("theirs/libmpi.so.12", &[]);
    library("theirs/libmpi_abi.so.1", &[]);
    library("theirs/libuser.so", &["theirs/libmpi_abi.so.1"]);
    let source = prefix.join("show.c");
    let show = "#include <stdio.h>\n#include <stdlib.h>\nint main(void) { return puts(getenv(\"LD_PRELOAD\")) < 0; }\n";
    fs::write(&source, show).unwrap();
    let rpath = format!("-Wl,-rpath,{}/theirs", prefix.display());
    let programs = [
        ("mpich", "theirs/libmpi.so.12", "libmpi.so.12"),
        ("direct", "theirs/libmpi_abi.so.1", "libmpi_abi.so.1"),
        ("by-library", "theirs/libuser.so", "libmpi_abi.so.1"),
    ];
    for (program, needed, _) in programs {
        compile(&["show.c", "-o", program, "-Wl,--no-as-needed", needed, &rpath]);
    }
    library("lib/libmpi.so.12", &[]);
    let path = format!("{}:/usr/bin:/bin", prefix.display());
    let run = |program: &str| mpirun_at(&mpirun, &["-preload", "-n", "1", program], &[("PATH", &path)]);
    let without = text(&run("direct").stderr);
    assert!(without.contains("no libmpi_abi.so.1"), "{without}");
    library("lib/libmpi_abi.so.1", &[]);
    let mut all = vec!["-preload"];
    for (program, _, expected) in programs {
        let expected = format!("{}/lib/{expected}\n", prefix.display());
        // Found in a folder of PATH, and by its own.
        for program in [program, prefix.join(program).to_str().unwrap()] {
            assert_eq!(text(&run(program).stdout), expected, "{program}");
        }
        all.extend(["-n", "1", program, ":"]);
    }
    let mixed = text(&mpirun_at(&mpirun, &all[..all.len() - 1], &[("PATH", &path)]).stdout);
    assert_eq!(mixed.matches("libmpi_abi.so.1").count(), 2, "{mixed}");
    // The heap stands before either.
    fs::write(prefix.join("lib/libnearmpi-heap.so"), "").unwrap();
    let heap = mpirun_at(
        &mpirun,
        &["-preload", "-shared-heap", "-n", "1", "direct"],
        &[("PATH", &path)],
    );
    let lib = prefix.join("lib");
    assert_eq!(
        text(&heap.stdout),
        format!("{0}/libnearmpi-heap.so:{0}/libmpi_abi.so.1\n", lib.display())
    );
}

#[test]
fn limits_that_keep_a_job_from_starting_are_named() {
    for (limit, most) in [("-v", "200000"), ("-f", "65536"), ("-n", "40")] {
        let script = format!(
            "ulimit {limit} {most}; exec {} -n 64 true",
            env!("CARGO_BIN_EXE_mpirun")
        );
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let said = text(&output.stderr);
        assert!(
            !output.status.success() && said.contains(&format!("(ulimit {limit}")),
            "{said}"
        );
    }
}

/// The kernel shares CPUs among sessions, and who gives its CPU up gives it to its own.
#[test]
fn ranks_have_a_session_each_where_they_have_a_cpu_each() {
    let cpus = mpi::sys::cpu::allowed(0);
    let sessions = |ranks: usize| {
        let output = mpirun(&["-n", &ranks.to_string(), "cut", "-d ", "-f6", "/proc/self/stat"], &[]);
        assert_eq!(count(&output), ranks);
        let mut sessions: Vec<String> = text(&output.stdout).lines().map(String::from).collect();
        sessions.sort();
        sessions.dedup();
        sessions.len()
    };
    if cpus >= 2 {
        assert_eq!(sessions(2), 2);
    }
    assert_eq!(sessions(cpus + 1), 1);
}
