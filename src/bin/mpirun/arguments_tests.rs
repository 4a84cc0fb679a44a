//! Command lines and what becomes of them.

use super::*;

fn parsed(line: &str) -> Result<Request, String> {
    let read = |name: &str| match name {
        "conf" => Ok("# programs\n-n 2 ./a 'x y'\n\n-n 1 -env K v ./b\n".to_string()),
        "hosts" => Ok("localhost slots=4 # here\n\nbox:2\n".to_string()),
        "tuned" => Ok("# -x NOT=this\n--mca btl self -x K=v\n".to_string()),
        "far" => Ok("faraway\n".to_string()),
        other => Err(format!("{other}: no such file")),
    };
    let words = words::split(line).unwrap().into_iter().map(OsString::from).collect();
    parse(words, ":", &read, &HERE)
}

const HERE: Here = Here {
    name: "box.example.org",
    resolves: &|_| false,
};

pub fn job(line: &str) -> Job {
    match parsed(line) {
        Ok(Request::Run(job)) => *job,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn dashes_and_equal_signs() {
    for line in ["-n 3 a -n b", "--np 3 a -n b", "-c=3 a -n b", "--n=3 -- a -n b"] {
        let job = job(line);
        assert_eq!(
            (job.apps[0].count, job.apps[0].program.to_str().unwrap()),
            (Some(3), "a"),
            "{line}"
        );
        assert_eq!(job.apps[0].arguments, ["-n", "b"], "{line}");
    }
    assert_eq!(job("a").apps[0].count, None);
}

#[test]
fn several_programs_have_their_own_options() {
    let job = job("-genv G 1 -n 1 -wdir /x a : -n 2 -env K v b c : d");
    assert_eq!(job.apps.len(), 3);
    assert_eq!(job.apps[0].folder.as_deref(), Some("/x".as_ref()));
    assert_eq!(job.apps[1].env, [("K".to_string(), "v".to_string())]);
    assert_eq!(job.apps[2].folder, None);
    assert_eq!(job.env, [("G".to_string(), "1".to_string())]);
}

#[test]
fn a_configuration_file_gives_programs() {
    let job = job("-l -configfile conf");
    assert_eq!(job.output.tag, "[%r] ");
    assert_eq!((job.apps[0].count, job.apps[1].count), (Some(2), Some(1)));
    assert_eq!(job.apps[0].arguments, ["x y"]);
    for line in [
        "-configfile=conf",
        "--app=conf",
        "-genv A=B -configfile conf",
        "-genv A B --configfile=conf",
    ] {
        assert_eq!(self::job(line).apps.len(), 2, "{line}");
    }
    assert_eq!(
        self::job("-n 1 a -configfile=conf").apps[0].arguments,
        ["-configfile=conf"]
    );
    assert!(parsed("-configfile nosuch").is_err());
    assert!(parsed("-configfile").is_err());
}

#[test]
fn output_goes_where_it_is_sent() {
    let output = job("--output-filename a%b --timestamp-output -prepend-pattern %r@%h: a").output;
    assert_eq!(output.out.as_deref(), Some("a%%b/1/rank.%r/stdout"));
    assert_eq!(output.err.as_deref(), Some("a%%b/1/rank.%r/stderr"));
    assert!(output.has_time && output.tag == "%r@%h:");
}

#[test]
fn arguments_need_not_be_text() {
    use std::os::unix::ffi::OsStringExt;
    let odd = || OsString::from_vec(vec![b'x', 0xff]);
    let read = |_: &str| Err(String::new());
    let words = |first: &str| vec![first.into(), odd(), odd()];
    let Ok(Request::Run(job)) = parse(words("-l"), ":", &read, &HERE) else {
        panic!("not understood")
    };
    assert_eq!(
        (&job.apps[0].program, &job.apps[0].arguments[..]),
        (&odd(), &[odd()][..])
    );
    assert!(
        parse(words("-wdir"), ":", &read, &HERE)
            .unwrap_err()
            .contains("not text")
    );
}

#[test]
fn hosts_are_this_machine() {
    job("-host localhost,box:4 -f hosts -n 1 a");
    job("-hosts box.example.org a");
    assert!(parsed("-hosts localhost,faraway a").unwrap_err().contains("faraway"));
    assert!(parsed("-machinefile far a").unwrap_err().contains("one machine"));
}

#[test]
fn mistakes_are_explained() {
    for (line, word) in [
        ("-wdri /x a", "did you mean -wdir"),
        ("-n", "needs COUNT"),
        ("-n 0 a", "not a number"),
        ("-n x a", "not a number"),
        ("-usize many a", "INFINITE"),
        ("-n 99999999999 a", "not a number"),
        ("-n 2", "no program"),
        ("-configfile apps -n 1 a", "stands behind -configfile apps"),
        ("", "no program"),
        ("-env =B c a", "cannot be the name"),
        ("-genv =B c a", "cannot be the name"),
        ("-N 0 a", "not a number"),
        ("-ppn x a", "not a number"),
        ("-npernode -1 a", "not a number"),
        ("-host localhost:0 a", "not a number"),
        ("-soft 1- a", "FIRST:LAST"),
        ("-s all a", "one rank can read"),
        ("--output loud a", "loud"),
        ("--display mood a", "mood"),
        ("--nolocal a", "no other"),
        ("-skip-launch-node a", "no other"),
        ("-gpus-per-proc 2 a", "MPI_LOCALRANKID"),
        ("-initial-errhandler mpi_errors_ignore a", "mpi_errors_return"),
        ("-gdb a", "lists all"),
        ("-timeout x a", "not a number of seconds"),
        ("-timeout soon a", "seconds"),
        ("-exit-codes windows a", "hydra"),
        ("-bind-to mars a", "mars"),
        ("-map-by ppr:x:socket a", "ppr:x:socket"),
        ("-rank-by mood a", "mood"),
        ("-membind mars:0 a", "mars:0"),
        ("-membind bind: a", "no nodes"),
        ("-membind interleave:0,4095 a", "no NUMA node 4095"),
        ("-place well a", "not auto"),
        ("-cpu-set 3-1 a", "3-1"),
    ] {
        let sentence = parsed(line).unwrap_err();
        assert!(sentence.contains(word), "{line}: {sentence}");
    }
    assert_eq!(parsed("-n 2 -help"), Ok(Request::Help));
    assert_eq!(parsed("--version"), Ok(Request::Version));
}

#[test]
fn other_launchers_options_are_noted() {
    assert_eq!(job("-usize 12 a").universe, Some(12));
    assert_eq!(
        (job("-usize infinite a").universe, job("a").universe),
        (Some(MOST), None)
    );
    let job = job("--mca btl self --oversubscribe -topolib hwloc -n 1 a");
    assert_eq!(job.notes.len(), 3);
    assert_eq!(job.apps[0].program, "a");
}

#[test]
fn tables_come_at_intervals() {
    use std::time::Duration;
    assert_eq!(job("-top a").top, Some(Duration::from_secs(1)));
    assert_eq!(job("-top-every 0.2 a").top, Some(Duration::from_millis(200)));
    for wrong in ["0", "x", "-1", "1e9"] {
        assert!(
            parsed(&format!("-top-every {wrong} a"))
                .unwrap_err()
                .contains("seconds"),
            "{wrong}"
        );
    }
}

#[test]
fn variables_are_set_in_one_word_or_two() {
    let job = job("-genv A=B=C -env D=E -genv F G -env H I -x J=K -n 1 a b");
    assert_eq!(job.apps[0].program, "a");
    let given = ["A", "D", "F", "H", "J", "L"].map(|name| job.given(name));
    assert_eq!(given, [Some("B=C"), Some("E"), Some("G"), Some("I"), Some("K"), None]);
    let job = self::job("-genv A 1 -genv A 2 -n 1 a : -env A 3 b");
    assert_eq!(
        job.variable("A").as_deref(),
        Some("3"),
        "one program's, before that of all"
    );
    assert_eq!(self::job("-genv PATH x a").variable("PATH").as_deref(), Some("x"));
    assert!(self::job("a").variable("PATH").is_some_and(|path| path != "x"));
}

#[test]
fn the_last_of_a_variable_counts() {
    assert_eq!(job("-genv A 1 -genv A 2 a").given("A"), Some("2"));
}

#[test]
fn no_limit_is_a_limit_of_nothing() {
    for (line, limit) in [("-timeout 0 a", 0), ("-timeout -1 a", 0), ("-timeout 7 a", 7)] {
        assert_eq!(job(line).timeout, Some(limit), "{line}");
    }
    assert_eq!(limit("MPIEXEC_TIMEOUT", " -1 "), Ok(0));
    assert!(limit("MPIEXEC_TIMEOUT", "1.5").is_err());
}

#[test]
fn a_modifier_alone_maps_as_usual() {
    use mpi::place::machine::Kind;
    use mpi::place::mapping::MapBy;
    let map = |line: &str| job(line).binding.wish.map;
    assert_eq!(map("--map-by :OVERSUBSCRIBE a"), None);
    assert_eq!(map("--map-by :SPAN,NOLOCAL a"), None);
    let by = |kind, cores| Some(MapBy::Objects { kind, cores });
    assert_eq!(map("--map-by :PE=2 a"), by(Kind::Core, 2));
    assert_eq!(map("--map-by numa --map-by :OVERSUBSCRIBE a"), by(Kind::Node, 1));
    assert_eq!(map("--rankfile x a"), Some(MapBy::File("x".into())));
}

#[test]
fn other_launchers_spellings_have_their_effect() {
    assert_eq!(job("--stdin 3 a").reader, Reader::Rank(3));
    assert_eq!(
        (job("-s none a").reader, job("a").reader),
        (Reader::Nobody, Reader::Rank(0))
    );
    assert!(job("--merge-stderr-to-stdout a").output.merges);
    assert!(job("--display-map a").binding.report && job("--display map a").binding.report);
    assert!(!job("--display allocation a").binding.report);
    assert_eq!(
        job("--output rank,dir=d a").output.err.as_deref(),
        Some("d/1/rank.%r/stderr")
    );
    assert_eq!(job("--tune tuned -n 1 a").env, [("K".to_string(), "v".to_string())]);
    for (name, value) in [
        ("MPI_ERRORS_ARE_FATAL", "0"),
        ("mpi_errors_abort", "0"),
        ("mpi_errors_return", "1"),
    ] {
        let job = job(&format!("-initial-errhandler {name} a"));
        assert_eq!(job.variable("NEARMPI_ERRORS_RETURN").as_deref(), Some(value));
    }
    let line = "-enable-x --prefix /opt -arch x -order-nodes ascending -pmi-port -demux poll -nameserver h:1 -localhost h \
                -memory-alloc-kinds mpi -gpus-per-proc auto -tune none -n 2 a";
    let job = job(line);
    assert_eq!((job.notes.len(), job.apps[0].count), (11, Some(2)), "{:?}", job.notes);
}
