//! Every option of mpirun, once: the parser, `--help` and whatever else lists options read this table.

use mpi::sys::cvar;

/// Whose option it is, and so under which heading the help shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// How many ranks of what.
    Job,
    /// Environment and folder of the ranks.
    Surroundings,
    /// Standard output and messages.
    Output,
    /// Where ranks run.
    Place,
    /// Taken for the sake of other launchers' scripts; changes nothing here.
    Accepted,
}

impl Family {
    /// Headings in the order of the help.
    pub const ALL: [(Family, &str); 5] = [
        (Family::Job, "Job"),
        (Family::Surroundings, "Environment"),
        (Family::Output, "Output"),
        (Family::Place, "Placement"),
        (Family::Accepted, "Accepted without effect (noted under -v)"),
    ];
}

/// What an option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Count,
    PerHost,
    OnePerHost,
    Soft,
    Join,
    Universe,
    Folder,
    ConfigFile,
    Hosts,
    HostFile,
    Preload,
    SharedHeap,
    Timeout,
    Stall,
    HangAfter,
    KeepGoing,
    Backtrace,
    ExitCodes,
    PrintExitCodes,
    Completion,
    Path,
    PrependPattern,
    Timestamp,
    OutFile,
    ErrFile,
    OutputFolder,
    Directives,
    Merge,
    Reader,
    Tune,
    Gpus,
    ErrorHandler,
    RankFile,
    Top,
    TopEvery,
    Env,
    EnvOnly,
    EnvNone,
    EnvAll,
    GlobalEnv,
    GlobalEnvOnly,
    GlobalEnvNone,
    GlobalEnvAll,
    Export,
    Prepend,
    Tag,
    Verbose,
    Profile,
    BindTo,
    MapBy,
    RankBy,
    CpuSet,
    Display,
    RankMap,
    MemBind,
    ReportBindings,
    ReportMemory,
    Auto,
    Help,
    Version,
    Ignore,
}

/// One option.
pub struct Opt {
    /// Its names without dashes, the usual one first; each may be given with one dash or two.
    pub names: &'static [&'static str],
    /// What its values are, for the help; as many as it takes. One in brackets may be left out, and is given after `=` only.
    pub values: &'static [&'static str],
    /// One line of help.
    pub help: &'static str,
    /// Heading.
    pub family: Family,
    /// What it does.
    pub action: Action,
}

const fn opt(
    names: &'static [&'static str],
    values: &'static [&'static str],
    family: Family,
    action: Action,
    help: &'static str,
) -> Opt {
    Opt {
        names,
        values,
        help,
        family,
        action,
    }
}

use Action::*;
use Family::*;

/// The table.
#[rustfmt::skip]
pub const OPTIONS: &[Opt] = &[
    opt(&["n", "np", "c"], &["COUNT"], Job, Count, "start COUNT ranks of the program (default: as many as -N or the hosts have room for, or a batch system has given, or one for each CPU that may be used)"),
    opt(&["N", "ppn", "perhost", "npernode"], &["COUNT"], Job, PerHost, "COUNT ranks of the program on each machine, of which there is one; -n may be more"),
    opt(&["pernode"], &[], Job, OnePerHost, "as -N 1"),
    opt(&["soft"], &["LIST"], Job, Soft, "start the largest number of ranks up to that of -n that is in LIST, such as 1,2:16:2 (FIRST:LAST:STEP)"),
    opt(&["join"], &["JOB"], Job, Join, "start the ranks in the memory of a job that runs, so that MPI_Comm_connect and MPI_Lookup_name reach it; JOB: the process number of its mpirun or of a rank, or the name of a port"),
    opt(&["configfile", "app"], &["FILE"], Job, ConfigFile, "read the arguments from FILE, one program a line, # for comments"),
    opt(&["host", "hosts", "H"], &["LIST"], Job, Hosts, "hosts, separated by commas: this machine only, by any of its names or addresses; HOST:COUNT has room for COUNT ranks"),
    opt(&["f", "hostfile", "machinefile", "file"], &["FILE"], Job, HostFile, "file of hosts, one a line: this machine only; HOST:COUNT or HOST slots=COUNT"),
    opt(&["preload"], &[], Job, Preload, "run programs linked with MPICH, Intel MPI or any libmpi_abi on nearmpi instead"),
    opt(&["shared-heap"], &[], Job, SharedHeap, "long blocks from malloc lie in memory that all ranks map, so that messages between them are copied once, without the kernel (also: NEARMPI_SHARED_HEAP=1; docs/shared-heap.md)"),
    opt(&["timeout"], &["SECONDS"], Job, Timeout, "end the job after SECONDS with exit code 124; 0: never (also: MPIEXEC_TIMEOUT)"),
    opt(&["stall"], &["WHAT"], Job, Stall, "when all ranks wait for each other: abort[:SECONDS] ends the job with code 86 (default: after 5 s) unless a debugger has a rank, report[:SECONDS] only says who waits for whom, off"),
    opt(&["hang-after"], &["SECONDS"], Job, HangAfter, "how long nothing may move before -stall acts (default: 5)"),
    opt(&["keep-going", "disable-auto-cleanup", "enable-recovery"], &[], Job, KeepGoing, "when a rank dies, leave the others running: their MPI calls to it fail with MPIX_ERR_PROC_FAILED"),
    opt(&["top"], &[], Job, Top, "show what each rank is doing, again and again (nearmpi-top does so for a running job)"),
    opt(&["top-every"], &["SECONDS"], Job, TopEvery, "as -top, with that many seconds from one table to the next (default: 1)"),
    opt(&["backtrace"], &[], Job, Backtrace, "a rank that crashes says where (also: NEARMPI_BACKTRACE=1)"),
    opt(&["exit-codes"], &["STYLE"], Job, ExitCodes, "shell: 128 + signal for a rank that was killed (default); hydra: the signal, as MPICH has it"),
    opt(&["print-all-exitcodes"], &[], Job, PrintExitCodes, "at the end say how each rank ended"),
    opt(&["completion"], &["SHELL"], Job, Completion, "print a script that completes these options in bash, zsh or fish"),
    opt(&["help", "h"], &[], Job, Help, "show this help"),
    opt(&["version", "V", "info"], &[], Job, Version, "show the version"),
    opt(&["wdir", "wd"], &["DIR"], Surroundings, Folder, "start this program in DIR"),
    opt(&["path"], &["DIRS"], Surroundings, Path, "look for this program in DIRS (a:b:c) first, from here or, if it is in none of them, from its own folder (-wdir)"),
    opt(&["env"], &["NAME", "VALUE"], Surroundings, Env, "set NAME to VALUE for this program; also NAME=VALUE"),
    opt(&["genv"], &["NAME", "VALUE"], Surroundings, GlobalEnv, "set NAME to VALUE for all programs; also NAME=VALUE"),
    opt(&["x"], &["NAME[=VALUE]"], Surroundings, Export, "pass NAME on to all programs, or set it"),
    opt(&["envlist"], &["NAMES"], Surroundings, EnvOnly, "of mpirun's environment pass only NAMES (a,b,c) to this program"),
    opt(&["envnone"], &[], Surroundings, EnvNone, "pass nothing of mpirun's environment to this program"),
    opt(&["envall"], &[], Surroundings, EnvAll, "pass all of mpirun's environment to this program (default)"),
    opt(&["genvlist"], &["NAMES"], Surroundings, GlobalEnvOnly, "as -envlist, for all programs"),
    opt(&["genvnone"], &[], Surroundings, GlobalEnvNone, "as -envnone, for all programs"),
    opt(&["genvall"], &[], Surroundings, GlobalEnvAll, "as -envall, for all programs (default)"),
    opt(&["usize"], &["COUNT"], Surroundings, Universe, "tell programs that COUNT processes are of use in all, those that they start with MPI_Comm_spawn included (MPI_UNIVERSE_SIZE); SYSTEM: one for each CPU that may be used, INFINITE: as many as a job can have (default: they are told nothing)"),
    opt(&["initial-errhandler"], &["NAME"], Surroundings, ErrorHandler, "mpi_errors_are_fatal, mpi_errors_abort or mpi_errors_return: what MPI_COMM_WORLD does with errors at first"),
    opt(&["l", "prepend-rank"], &[], Output, Prepend, "begin each line of output with [RANK]"),
    opt(&["tag-output"], &[], Output, Tag, "begin each line of output with [1,RANK]<stdout>: or [1,RANK]<stderr>:"),
    opt(&["prepend-pattern"], &["PATTERN"], Output, PrependPattern, "begin each line of output with PATTERN: %r is the rank, %h the host, %s the stream, %% a %"),
    opt(&["timestamp-output", "prepend-timestamp"], &[], Output, Timestamp, "begin each line of output with the time"),
    opt(&["outfile-pattern"], &["PATTERN"], Output, OutFile, "write standard output into files with these names, %r and %h as above"),
    opt(&["errfile-pattern"], &["PATTERN"], Output, ErrFile, "write standard error into files with these names"),
    opt(&["output-filename"], &["DIR"], Output, OutputFolder, "write into the files DIR/1/rank.RANK/stdout and stderr"),
    opt(&["output"], &["WHAT"], Output, Directives, "Open MPI's words for these, with commas between: tag, rank, timestamp, merge-stderr-to-stdout, file=NAME (NAME.RANK.out and NAME.RANK.err), dir=DIR (as -output-filename)"),
    opt(&["merge-stderr-to-stdout"], &[], Output, Merge, "the ranks' standard error goes where their standard output goes"),
    opt(&["s", "stdin"], &["RANK"], Output, Reader, "who reads mpirun's standard input; none: nobody (default: 0)"),
    opt(&["v", "verbose"], &[], Output, Verbose, "say what is done"),
    opt(&["profile"], &["[DIR]"], Output, Profile, "when the job is over, write into DIR where its time and its bytes went (index.html, run.json), and print a summary; default: nearmpi-profile-PROGRAM-PID (also: NEARMPI_PROFILE)"),
    opt(&["bind-to"], &["WHAT"], Place, BindTo, "core, hwthread, l2cache, l3cache, numa or socket, with :N for several; rr: one CPU after the other; user:0+1,2: these CPUs; none (default: equal shares of the cores if ranks fit)"),
    opt(&["map-by"], &["WHAT"], Place, MapBy, "go round the objects of this kind, :PE=N with N cores a rank; ppr:N:OBJECT: N ranks on each; file:PATH: as a map of nearmpi-place says"),
    opt(&["rankfile", "rf"], &["FILE"], Place, RankFile, "as -map-by file:FILE"),
    opt(&["rank-by"], &["WHAT"], Place, RankBy, "number the ranks round the objects of this kind; slot: in the order of the machine"),
    opt(&["cpu-set", "cpu-list"], &["LIST"], Place, CpuSet, "use these CPUs only, such as 0-3,8"),
    opt(&["report-bindings", "display-map", "display-devel-map"], &[], Place, ReportBindings, "say which CPUs each rank is bound to"),
    opt(&["report-memory"], &[], Place, ReportMemory, "when a rank finalizes MPI, say how many pages of each of its mappings lie on which NUMA node, and warn of those on the wrong one"),
    opt(&["place"], &["HOW"], Place, Auto, "auto: put ranks that talk much near each other; who does is found out by a short traced run, the first time or with auto:SECONDS"),
    opt(&["display"], &["WHAT"], Place, Display, "bind or map: as -report-bindings"),
    opt(&["membind"], &["WHAT"], Place, MemBind, "NUMA nodes that the ranks' own memory comes from: bind:NODES, interleave:NODES, preferred:NODES; firsttouch: that of the CPU (default)"),
    opt(&["print-rank-map"], &[], Place, RankMap, "say which ranks run on this machine, as Hydra does: (host:0,1,2)"),
    opt(&["oversubscribe", "allow-run-as-root", "use-hwthread-cpus", "nooversubscribe"], &[], Accepted, Ignore, "always so"),
    opt(&["q", "quiet", "silent-abort"], &[], Accepted, Ignore, "messages of other launchers"),
    opt(&["launcher", "bootstrap", "rmk", "iface", "launcher-exec", "bootstrap-exec"], &["NAME"], Accepted, Ignore, "how other hosts are reached"),
    opt(&["enable-x", "disable-x", "pmi-port", "hybrid-hosts"], &[], Accepted, Ignore, "how other hosts are spoken to"),
    opt(&["prefix", "localhost", "nameserver", "order-nodes", "demux", "personality", "tmpdir", "stream-buffering"], &["NAME"], Accepted, Ignore, "what other hosts need, and how launchers work"),
    opt(&["display-allocation", "display-topo"], &[], Accepted, Ignore, "there is one machine (nearmpi-topo shows it)"),
    opt(&["arch"], &["NAME"], Accepted, Ignore, "there is one kind of processor"),
    opt(&["memory-alloc-kinds"], &["KINDS"], Accepted, Ignore, "programs are always told mpi,system"),
    opt(&["tune"], &["FILE"], Accepted, Tune, "settings of Open MPI, of which -x NAME=VALUE counts, and of Intel MPI"),
    opt(&["gpus-per-proc"], &["COUNT"], Accepted, Gpus, "auto or 0; ranks are given no GPUs"),
    opt(&["mca", "gmca", "pmixmca", "prtemca"], &["NAME", "VALUE"], Accepted, Ignore, "settings of Open MPI"),
    opt(&["localonly", "disable-hostname-propagation", "noprefix", "bynode", "byslot", "disable-recovery"], &[], Accepted, Ignore, "always so"),
    opt(&["rankmap", "topolib"], &["WHAT"], Accepted, Ignore, "placement of Hydra"),
];

/// Options of other launchers that ask for what cannot be had, and why.
pub const REFUSED: &[(&[&str], &str)] = &[(
    &["nolocal", "skip-launch-node"],
    "nearmpi runs on one machine, so there is no other for the ranks to run on",
)];

impl Opt {
    /// Whether it takes NAME=VALUE as well as NAME VALUE.
    pub fn joins(&self) -> bool {
        matches!(self.action, Action::Env | Action::GlobalEnv)
    }

    /// How many values must follow.
    pub fn needs(&self) -> usize {
        self.values.iter().filter(|value| !value.starts_with('[')).count()
    }

    /// Its values as they are given after its name, each dressed by `dress`.
    pub fn shown(&self, dress: impl Fn(&str) -> String) -> String {
        let bare = |value: &'static str| value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let show = |value: &&'static str| match bare(value) {
            Some(bare) => format!("[={}]", dress(bare)),
            None => format!(" {}", dress(value)),
        };
        self.values.iter().map(show).collect()
    }
}

/// The option of that name (without dashes).
pub fn find(name: &str) -> Option<&'static Opt> {
    OPTIONS.iter().find(|o| o.names.contains(&name))
}

/// The name that looks most like `name`, if one does.
pub fn nearest(name: &str) -> Option<&'static str> {
    let names = OPTIONS.iter().flat_map(|o| o.names).copied();
    cvar::nearest(name, names.filter(|known| known.len() > 1))
}

/// The text of `--help`.
pub fn help() -> String {
    let mut text = String::from(
        "Usage: mpirun [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]]...\n\
         Starts the ranks of an MPI job on this machine. Options take one dash or two.\n",
    );
    for (family, heading) in Family::ALL {
        text += &format!("\n{heading}:\n");
        for o in OPTIONS.iter().filter(|o| o.family == family) {
            let names: Vec<String> = o.names.iter().map(|n| format!("-{n}")).collect();
            let usage = names.join(", ") + &o.shown(str::to_string);
            let gap = if usage.len() > 28 {
                "\n                                "
            } else {
                ""
            };
            text += &format!("  {:<29} {gap}{}\n", usage, o.help);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_used_once() {
        let refused = REFUSED.iter().flat_map(|(names, _)| *names);
        let mut names: Vec<_> = OPTIONS.iter().flat_map(|o| o.names).chain(refused).collect();
        names.sort();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
    }

    #[test]
    fn what_may_be_left_out_is_shown_as_it_is_given() {
        let shown = |name| find(name).unwrap().shown(|value| format!("<{value}>"));
        assert_eq!(shown("profile"), "[=<DIR>]");
        assert_eq!(shown("env"), " <NAME> <VALUE>");
        assert_eq!(shown("x"), " <NAME[=VALUE]>");
        assert!(help().contains("  -profile[=DIR] "));
    }

    #[test]
    fn a_slip_finds_its_option() {
        assert_eq!(nearest("wdri"), Some("wdir"));
        assert_eq!(nearest("oversubscibe"), Some("oversubscribe"));
        assert_eq!(nearest("bindto"), Some("bind-to"));
        assert_eq!(nearest("hsot"), Some("host"));
        for word in ["something-else-entirely", "gdb", "gtool", "mode", "fort"] {
            assert_eq!(nearest(word), None, "{word}");
        }
    }

    #[test]
    fn the_help_shows_every_option() {
        let help = help();
        assert!(
            OPTIONS
                .iter()
                .flat_map(|o| o.names)
                .all(|name| help.contains(&format!("-{name}")))
        );
    }
}
