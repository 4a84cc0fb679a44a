//! Starts the ranks: their surroundings, descriptors and places.

use crate::annex::Host;
use crate::arguments::{App, Inherit, Job, Output, Reader};
use crate::binding::Places;
use crate::debugger;
use crate::os::{self, Child, Files, Mask};
use crate::output::Streams;
use crate::preload::{Environment, Preload};
use crate::profile::Profile;
use crate::say;
use mpi::launch::{bootstrap, memory_report, spawn};
use mpi::shm::segment::{self, Segment};
use mpi::sys::cpu;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tells ranks that are started later the rank of the first of them.
const FIRST: &str = "NEARMPI_FIRST";

/// Variables, besides those by which [`bootstrap`] knows other launchers, that would make a rank believe it belongs to another job.
const FOREIGN: [&str; 6] = [
    crate::auto::TRACE,
    FIRST,
    spawn::ANNEX,
    memory_report::VARIABLE,
    "PMI_SPAWNED",
    "PMI_KVSNAME",
];

/// A rank that runs.
pub struct Rank {
    pub pid: i32,
    pub program: String,
    /// It leads a process group of its own.
    pub own_group: bool,
    /// Our end of its PMI connection; `None` when it is closed.
    pub socket: Option<OwnedFd>,
}

/// A job under way.
pub struct Started {
    pub ranks: Vec<Rank>,
    pub streams: Streams,
    pub segment: Segment,
    /// Rank in the job of the first of `ranks`.
    pub first: u32,
    /// Stays open for ranks whose wrapper closed theirs.
    pub memory: OwnedFd,
    /// Index of the program that each rank runs.
    pub appnums: Vec<usize>,
    /// Where ranks write about their memory.
    pub reports: Option<File>,
    pub profile: Option<Profile>,
}

/// Why a job did not start, and the exit code that says so.
#[derive(Debug)]
pub struct Failure {
    pub code: i32,
    pub text: String,
}

impl Failure {
    /// A failure of the launcher's own.
    pub fn new(text: impl Into<String>) -> Failure {
        Failure {
            code: 1,
            text: text.into(),
        }
    }
}

/// What all ranks have in common.
struct Common<'a> {
    job: &'a Job,
    size: usize,
    first: u32,
    /// A rank of the job has asked for these.
    was_asked: bool,
    memory: OwnedFd,
    places: Places,
    reports: Option<OwnedFd>,
    files: Files,
    mask: Mask,
}

/// What all ranks of a program have in common.
struct Program<'a> {
    app: &'a App,
    appnum: usize,
    /// How many ranks run it.
    count: u32,
    file: OsString,
    env: Environment,
}

/// Starts every rank of `job`, as more ranks of the one of `host` if there is one. After an error the ranks that were started before are the caller's to end.
///
/// # Errors
/// The first program that cannot be started, or what the job lacks.
pub fn start(job: &Job, host: Option<&Host>, mask: Mask) -> Result<Started, Failure> {
    let files = os::raise_files();
    let allowed = cpu::allowed(0) as u32;
    let counts = counts(job, allowed);
    let size = total(&counts);
    let places = places(job, size, allowed)?;
    // Ranks that have to share CPUs must not wait for each other by polling.
    let cpus = match (places.own_cpus as u32) < size {
        true => allowed.min(places.own_cpus as u32),
        false => allowed,
    };
    let memory = match host {
        Some(host) if host.count == size => host.memory.try_clone(),
        Some(host) => {
            return Err(Failure::new(format!(
                "{size} ranks, not the {} that the job expects",
                host.count
            )));
        }
        None => segment::create(size, cpus),
    };
    let memory = memory.map_err(|e| Failure::new(format!("cannot make the memory of a job of {size} ranks: {e}")))?;
    let wrong = |e: io::Error| Failure::new(format!("cannot use the job's memory: {e}"));
    let segment = Segment::attach(memory.as_fd()).map_err(wrong)?;
    let profile = match host {
        Some(_) => None,
        None => Profile::prepare(job, &segment)?,
    };
    let first = host.map_or(0, |host| host.first);
    segment.launch(first, std::process::id() as i32);
    let held = host.is_none() && debugger::is_there();
    if held {
        segment.hold_ranks();
    }
    let memory = os::out_of_the_way(memory.as_fd()).map_err(wrong)?;
    place_memory(
        &segment,
        first,
        &places,
        job.variable("NEARMPI_NUMA").as_deref() != Some("0"),
    );
    let reports = job.binding.memory.then(os::report_file).transpose().map_err(wrong)?;
    let preload = Preload::new(job)?;
    let common = Common {
        job,
        size: size as usize,
        first,
        was_asked: host.is_some_and(Host::was_asked),
        memory,
        places,
        reports,
        files,
        mask,
    };
    let (mut ranks, mut appnums) = (Vec::new(), Vec::new());
    let mut streams = Streams::new().map_err(|e| Failure::new(format!("cannot use standard output: {e}")))?;
    for (appnum, (app, count)) in job.apps.iter().zip(counts).enumerate() {
        let (file, mut env) = (found(app), common.inherited(app));
        preload.add(app, &file, &mut env)?;
        let program = Program {
            app,
            appnum,
            count,
            file,
            env,
        };
        for _ in 0..count {
            let rank = common.rank(ranks.len(), &program, &mut streams)?;
            if job.verbose {
                say::aside(&format!(
                    "mpirun: rank {} is pid {}: {}",
                    ranks.len(),
                    rank.pid,
                    rank.program
                ));
            }
            ranks.push(rank);
            appnums.push(appnum);
        }
    }
    debugger::show(&ranks);
    if held {
        segment.let_go();
    }
    Ok(Started {
        ranks,
        streams,
        segment,
        first,
        memory: common.memory,
        appnums,
        reports: common.reports.map(File::from),
        profile,
    })
}

/// How many ranks `job` starts in all.
pub fn size(job: &Job) -> u32 {
    total(&counts(job, cpu::allowed(0) as u32))
}

/// How many ranks of each program.
fn counts(job: &Job, allowed: u32) -> Vec<u32> {
    job.apps.iter().map(|app| app.count.unwrap_or(allowed)).collect()
}

fn total(counts: &[u32]) -> u32 {
    let sum = counts.iter().try_fold(0u32, |sum, &n| sum.checked_add(n));
    sum.unwrap_or(u32::MAX)
}

/// Puts what each rank owns of the job's memory on its NUMA node, before anybody can touch it. Not `by_node`
/// (`NEARMPI_NUMA=0`), all of it goes where rank 0 runs, as with libraries that touched it before they knew nodes.
fn place_memory(segment: &Segment, first: u32, places: &Places, by_node: bool) {
    if !by_node {
        if first > 0 {
            return;
        }
        let before = cpu::mask(0);
        let moved = places.sets.first().is_some_and(|set| !set.is_empty() && cpu::bind(set));
        segment.touch_all();
        if moved {
            cpu::bind(&before);
        }
        return;
    }
    for rank in 0..places.sets.len() {
        if let Some(node) = places.node(rank) {
            segment.prefer_node(first + rank as u32, node);
        }
    }
}

/// Where the ranks run; says so if that is wanted.
fn places(job: &Job, size: u32, allowed: u32) -> Result<Places, Failure> {
    let most = mpi::shm::layout::MAX_RANKS;
    if size > most {
        return Err(Failure::new(format!("{size} ranks: a job has {most} at most")));
    }
    let places = job
        .binding
        .places(size as usize, allowed as usize)
        .map_err(Failure::new)?;
    if let Some(notice) = places.notice.as_ref().filter(|_| job.verbose || job.binding.report) {
        say::aside(&format!("mpirun: {notice}"));
    }
    if job.binding.ranks {
        let ranks: Vec<String> = (0..size).map(|rank| rank.to_string()).collect();
        let map = format!("({}:{})\n", mpi::sys::host::name(), ranks.join(","));
        say::out(&map).map_err(Failure::new)?;
    }
    if job.binding.report {
        places
            .report(&mpi::sys::host::name())
            .iter()
            .for_each(|line| say::aside(line));
    }
    Ok(places)
}

impl Common<'_> {
    fn rank(&self, rank: usize, program: &Program, streams: &mut Streams) -> Result<Rank, Failure> {
        let app = program.app;
        if let Some(folder) = app.folder.as_ref().filter(|folder| !folder.is_dir()) {
            return Err(Failure::new(format!("-wdir {}: no such folder", folder.display())));
        }
        let no_socket = |e| Failure::new(format!("cannot make the sockets of rank {rank}: {e}"));
        let (ours, theirs) = UnixStream::pair().map_err(no_socket)?;
        let theirs = os::out_of_the_way(theirs.as_fd()).map_err(no_socket)?;
        // Who reads the terminal must be in the group that owns it.
        let reads = self.job.reader == Reader::Rank(rank as u32);
        let own_group = !(reads && os::reads_terminal());
        // The kernel gives sessions equal shares of the CPUs (sched_autogroup), so one for all ranks would get less than one
        // process of somebody else; but what gives its CPU up gives it to processes of its session only.
        let alone = self.first == 0 && (2..=cpu::allowed(0)).contains(&self.size);
        let own_session = own_group && alone;
        let mut command = Command::new(&program.file);
        command.args(&app.arguments);
        command
            .env_clear()
            .envs(self.environment(rank, program, theirs.as_raw_fd()));
        if let Some(folder) = &app.folder {
            command.current_dir(folder);
        }
        if !reads {
            let nothing = File::open("/dev/null").map_err(|e| Failure::new(format!("/dev/null: {e}")))?;
            command.stdin(nothing);
        }
        self.connect_output(rank, &mut command, streams)
            .map_err(|e| Failure::new(format!("cannot connect the output of rank {rank}: {e}")))?;
        let mut keep = vec![self.memory.as_raw_fd(), theirs.as_raw_fd()];
        keep.extend(self.reports.as_ref().map(AsRawFd::as_raw_fd));
        let (files, mask) = (self.files, self.mask);
        os::prepare(
            &mut command,
            Child {
                cpus: self.places.sets[rank].clone(),
                policy: self.job.binding.policy.clone(),
                keep,
                own_group,
                own_session,
                files,
                mask,
            },
        );
        let child = command
            .spawn()
            .map_err(|e| not_started(&app.program.to_string_lossy(), app.folder.as_deref(), &e))?;
        Ok(Rank {
            pid: child.id() as i32,
            program: program.file.to_string_lossy().into_owned(),
            own_group,
            socket: Some(ours.into()),
        })
    }

    /// Gives the rank our own output, or pipes to us where lines have to be tagged or kept whole: several
    /// ranks that write into one file or pipe would tear each other's.
    fn connect_output(&self, rank: usize, command: &mut Command, streams: &mut Streams) -> io::Result<()> {
        let how = &self.job.output;
        let merges = how.merges;
        let plain = Output {
            merges: false,
            ..how.clone()
        } == Output::default();
        // A table on the terminal has to make room for the ranks' output; and a terminal may stop who writes from the background,
        // where ranks are.
        let stops = os::stops_writers(io::stdout().as_fd()) || os::stops_writers(io::stderr().as_fd());
        let passed = stops || self.job.top.is_some() && io::stderr().is_terminal();
        if plain && !passed && (self.size == 1 || io::stdout().is_terminal()) {
            if merges {
                command.stderr(io::stdout().as_fd().try_clone_to_owned()?);
            }
            return Ok(());
        }
        let (reader, writer) = io::pipe()?;
        if (!plain || passed) && !merges {
            let (errors, writer) = io::pipe()?;
            command.stderr(writer);
            streams.add(errors, rank, true, how)?;
        } else if merges || streams.outlets.are_one() {
            // One pipe for both keeps their order.
            command.stderr(writer.try_clone()?);
        }
        command.stdout(writer);
        streams.add(reader, rank, false, how)
    }

    /// The variables of a program that do not come from us.
    fn inherited(&self, app: &App) -> Environment {
        let mut env = Environment::new();
        match app
            .inherit
            .as_ref()
            .or(self.job.inherit.as_ref())
            .unwrap_or(&Inherit::All)
        {
            Inherit::All => env.extend(std::env::vars_os()),
            Inherit::Only(names) => {
                env.extend(names.iter().filter_map(|n| Some((n.into(), std::env::var_os(n)?))));
            }
        }
        let theirs = FOREIGN
            .iter()
            .chain(&bootstrap::WITH_PMI)
            .chain(&bootstrap::WITHOUT_PMI);
        theirs.for_each(|name| drop(env.remove(OsStr::new(name))));
        if !self.was_asked {
            env.remove(OsStr::new("NEARMPI_UNIVERSE"));
        }
        let given = self.job.env.iter().chain(&app.env);
        env.extend(given.map(|(name, value)| (name.into(), value.into())));
        env
    }

    fn environment(&self, rank: usize, program: &Program, socket: i32) -> Environment {
        let mut env = program.env.clone();
        let mut set = |name: &str, value: String| drop(env.insert(name.into(), value.into()));
        set("NEARMPI_FD", self.memory.as_raw_fd().to_string());
        if let Some(reports) = &self.reports {
            set(memory_report::VARIABLE, reports.as_raw_fd().to_string());
        }
        if self.first > 0 {
            set(FIRST, self.first.to_string());
        }
        set("NEARMPI_RANK", format!("{rank}/{}", self.size));
        set("NEARMPI_APPNUM", format!("{}/{}", program.appnum, program.count));
        if let Some(universe) = self.job.universe {
            set("NEARMPI_UNIVERSE", universe.to_string());
        }
        set("NEARMPI_LAUNCHER_PID", std::process::id().to_string());
        set("PMI_FD", socket.to_string());
        set("PMI_RANK", rank.to_string());
        set("PMI_SIZE", self.size.to_string());
        set("MPI_LOCALRANKID", rank.to_string());
        set("MPI_LOCALNRANKS", self.size.to_string());
        env
    }
}

/// Where the program is: in the first folder of `-path` that has it, seen from here or else from the program's own
/// folder; or as it was given.
fn found(app: &App) -> OsString {
    let is_plain = !app.program.as_encoded_bytes().contains(&b'/');
    let folders = app.path.as_deref().filter(|_| is_plain).unwrap_or("").split(':');
    let folders: Vec<&str> = folders.filter(|folder| !folder.is_empty()).collect();
    let bases = [Some(Path::new("")), app.folder.as_deref()].into_iter().flatten();
    let mut files = bases.flat_map(|base| folders.iter().map(move |folder| base.join(folder).join(&app.program)));
    // The rank looks for it after it has gone to its folder.
    let found = files
        .find(|file| file.is_file())
        .and_then(|file| std::path::absolute(file).ok());
    found.map_or_else(|| app.program.clone(), PathBuf::into_os_string)
}

fn not_started(program: &str, folder: Option<&Path>, e: &io::Error) -> Failure {
    let is_at = |folder: &Path| folder.join(program).is_file();
    let here = Path::new("");
    let hint = match (is_at(folder.unwrap_or(here)), program.contains('/')) {
        (true, false) => format!(" (it is in this folder: ./{program})"),
        (false, _) if let Some(folder) = folder.filter(|_| is_at(here)) => {
            format!(" in {}, where it is to run", folder.display())
        }
        (true, true) => " (it is there: what is missing is the interpreter or the loader that it names)".to_string(),
        _ => String::new(),
    };
    let (code, reason) = match (e.kind(), e.raw_os_error()) {
        (io::ErrorKind::NotFound, _) => (127, format!("No such file or directory{hint}")),
        (io::ErrorKind::PermissionDenied, _) => (126, "Permission denied".to_string()),
        (_, Some(libc::EMFILE)) => (126, format!("{e}: more ranks need more descriptors (ulimit -n)")),
        (_, Some(libc::EAGAIN)) => (
            126,
            format!("{e}: no more processes may be started (ulimit -u, the cgroup's pids.max)"),
        ),
        _ => (126, e.to_string()),
    };
    Failure {
        code,
        text: format!("{program}: {reason}"),
    }
}
