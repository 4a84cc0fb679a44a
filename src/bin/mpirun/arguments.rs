//! From the command line to a job: which programs, how many ranks of each, in which surroundings.

use crate::annex::Target;
use crate::auto::Auto;
use crate::binding::Binding;
use crate::count::Soft;
use crate::hosts::{self, Here};
use crate::options::{Action, Opt, REFUSED, find, nearest};
use crate::stall::Policy;
use crate::top::interval;
use crate::{directives, words};
use mpi::shm::port::PortName;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

/// What mpirun is asked to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Request {
    Help,
    Version,
    /// For that shell.
    Completion(String),
    Run(Box<Job>),
}

/// Which of mpirun's own variables a program sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inherit {
    All,
    Only(Vec<String>),
}

/// One program of the job.
#[derive(Debug, PartialEq, Eq)]
pub struct App {
    /// `None`: as `count` settles it.
    pub count: Option<u32>,
    /// Ranks for each machine.
    pub per_host: Option<u32>,
    /// Ranks that the hosts have room for.
    pub slots: Option<u32>,
    pub names_hosts: bool,
    /// Numbers of ranks that will do.
    pub soft: Option<Soft>,
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Folders to look for the program in first, separated by colons.
    pub path: Option<String>,
    pub folder: Option<PathBuf>,
    pub inherit: Option<Inherit>,
    pub env: Vec<(String, String)>,
}

/// What happens to the ranks' output. In patterns %r is the rank, %h the host, %s the stream, %% a %.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// What stands before a line.
    pub tag: String,
    /// The time stands before that.
    pub has_time: bool,
    /// File for standard output.
    pub out: Option<String>,
    /// File for standard error.
    pub err: Option<String>,
    /// Standard error goes where standard output goes.
    pub merges: bool,
}

impl Output {
    /// Sends all of it into files in `folder`, as Open MPI names them.
    pub fn fill_folder(&mut self, folder: &str) {
        let folder = folder.replace('%', "%%");
        self.out = Some(format!("{folder}/1/rank.%r/stdout"));
        self.err = Some(format!("{folder}/1/rank.%r/stderr"));
    }
}

/// Who reads mpirun's standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    Rank(u32),
    Nobody,
}

impl Default for Reader {
    fn default() -> Reader {
        Reader::Rank(0)
    }
}

/// The whole job.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Job {
    pub apps: Vec<App>,
    pub join: Option<Target>,
    pub inherit: Option<Inherit>,
    pub env: Vec<(String, String)>,
    /// `MPI_UNIVERSE_SIZE`, if programs are told one.
    pub universe: Option<u32>,
    pub output: Output,
    pub reader: Reader,
    /// A rank that was killed gives its signal as exit code, without 128.
    pub bare_signals: bool,
    pub print_codes: bool,
    pub binding: Binding,
    pub place: Option<Auto>,
    /// Seconds; 0 for no limit, whatever the environment says.
    pub timeout: Option<u64>,
    pub stall: Policy,
    /// The death of a rank is not the end of the job.
    pub keep_going: bool,
    /// Seconds, in place of the policy's.
    pub hang_after: Option<u64>,
    /// Seconds from one table of ranks to the next.
    pub top: Option<Duration>,
    pub preload: bool,
    pub shared_heap: bool,
    /// Into which folder, if into a chosen one.
    pub profile: Option<Option<PathBuf>>,
    pub verbose: bool,
    /// What was accepted without effect.
    pub notes: Vec<String>,
}

impl Job {
    /// What the command line sets a variable to, if it does: for all programs or for one.
    pub fn given(&self, name: &str) -> Option<&str> {
        let lists = self.apps.iter().map(|app| &app.env).chain([&self.env]);
        let mut found = lists.filter_map(|list| list.iter().rev().find(|(key, _)| key == name));
        found.next().map(|(_, value)| value.as_str())
    }

    /// What a variable says to mpirun itself: as the command line sets it, or else as mpirun found it.
    pub fn variable(&self, name: &str) -> Option<String> {
        let given = self.given(name).map(str::to_string);
        given.or_else(|| std::env::var(name).ok())
    }
}

/// The most ranks of one job.
pub const MOST: u32 = mpi::shm::layout::MAX_RANKS;

/// Takes the command line apart; `separator` stands between two programs. `read` reads a file; `here` is this machine.
///
/// # Errors
/// A sentence about the first argument that cannot be understood.
pub fn parse(
    arguments: Vec<OsString>,
    separator: &str,
    read: &dyn Fn(&str) -> Result<String, String>,
    here: &Here,
) -> Result<Request, String> {
    let mut parser = Parser {
        job: Job::default(),
        read,
        here,
    };
    let mut rest = arguments;
    // A configuration file stands in place of the programs; it may not name another.
    if let Some((at, first)) = config_file(&rest) {
        let (file, end) = match first {
            Some(file) => (file, at + 1),
            None => (text(rest.get(at + 1).ok_or("-configfile needs a file")?)?, at + 2),
        };
        if let Some(more) = rest.get(end) {
            return Err(format!(
                "{:?} stands behind -configfile {file}, which stands in place of all programs: options go before it",
                more.to_string_lossy()
            ));
        }
        let lines = words::programs(&read(&file)?)?;
        rest.splice(at..end, lines.into_iter().map(OsString::from));
    }
    let mut segment = Vec::new();
    for word in rest.into_iter().chain([separator.into()]) {
        if word != separator {
            segment.push(word);
        } else if let Some(special) = parser.segment(std::mem::take(&mut segment))? {
            return Ok(special);
        }
    }
    match parser.job.apps.is_empty() {
        true => Err("no program to start (mpirun --help shows the usage)".into()),
        false => Ok(Request::Run(Box::new(parser.job))),
    }
}

struct Parser<'a> {
    job: Job,
    read: &'a dyn Fn(&str) -> Result<String, String>,
    here: &'a Here<'a>,
}

impl Parser<'_> {
    /// One program with its options; an empty segment is nothing.
    fn segment(&mut self, words: Vec<OsString>) -> Result<Option<Request>, String> {
        let mut words = words.into_iter().peekable();
        if words.peek().is_none() {
            return Ok(None);
        }
        let mut app = App {
            count: None,
            per_host: None,
            slots: None,
            names_hosts: false,
            soft: None,
            program: OsString::new(),
            arguments: vec![],
            path: None,
            folder: None,
            inherit: None,
            env: vec![],
        };
        while let Some(word) = words.next_if(|w| is_option(w)) {
            let word = text(&word)?;
            if word == "--" {
                break;
            }
            let (opt, first) = recognise(&word)?;
            let mut values: Vec<String> = first.into_iter().collect();
            while values.len() < opt.needs() {
                if let Some((name, value)) = values.first().filter(|_| opt.joins()).and_then(|v| v.split_once('=')) {
                    values = vec![name.to_string(), value.to_string()];
                    break;
                }
                let missing = || format!("{word} needs {}", opt.values.join(" and "));
                values.push(text(&words.next().ok_or_else(missing)?)?);
            }
            if let Some(special) = self.apply(opt, &word, &values, &mut app)? {
                return Ok(Some(special));
            }
        }
        app.program = words
            .next()
            .filter(|p| !p.is_empty())
            .ok_or("no program after the options")?;
        app.arguments = words.collect();
        self.job.apps.push(app);
        Ok(None)
    }

    fn apply(&mut self, opt: &Opt, word: &str, values: &[String], app: &mut App) -> Result<Option<Request>, String> {
        let value = || values[0].clone();
        let names = || {
            value()
                .split(',')
                .filter(|n| !n.is_empty())
                .map(str::to_string)
                .collect::<Vec<_>>()
        };
        match opt.action {
            Action::Count => app.count = Some(ranks(word, &values[0])?),
            Action::PerHost => app.per_host = Some(ranks(word, &values[0])?),
            Action::OnePerHost => app.per_host = Some(1),
            Action::Soft => app.soft = Some(Soft::parse(&values[0])?),
            Action::Join => self.job.join = Some(target(word, &values[0])?),
            Action::Universe => {
                let count = match values[0].to_ascii_lowercase().as_str() {
                    "system" => Some(mpi::sys::cpu::allowed(0) as u32),
                    "infinite" => Some(MOST),
                    number => number.parse().ok().filter(|n| (1..=MOST).contains(n)),
                };
                let wrong = || {
                    format!(
                        "{word} {}: not a number from 1 to {MOST}, SYSTEM or INFINITE",
                        values[0]
                    )
                };
                self.job.universe = Some(count.ok_or_else(wrong)?);
            }
            Action::Folder => app.folder = Some(PathBuf::from(value())),
            Action::ConfigFile => return Err(format!("{word} cannot stand here")),
            Action::Hosts | Action::HostFile => {
                app.names_hosts = true;
                app.slots = match opt.action {
                    Action::Hosts => hosts::list(&values[0], self.here)?,
                    _ => hosts::file(&(self.read)(&values[0])?, self.here)?,
                };
            }
            Action::Preload => self.job.preload = true,
            Action::SharedHeap => self.job.shared_heap = true,
            Action::Timeout => self.job.timeout = Some(limit(word, &values[0])?),
            Action::Stall => self.job.stall = Policy::parse(&values[0])?,
            Action::KeepGoing => self.job.keep_going = true,
            Action::Backtrace => self.job.env.push(setting("NEARMPI_BACKTRACE", "1")?),
            Action::ExitCodes => {
                self.job.bare_signals = match values[0].as_str() {
                    "shell" => false,
                    "hydra" => true,
                    other => return Err(format!("{word} {other}: not shell or hydra")),
                }
            }
            Action::PrintExitCodes => self.job.print_codes = true,
            Action::Completion => return Ok(Some(Request::Completion(value()))),
            Action::Path => app.path = Some(value()),
            Action::PrependPattern => self.job.output.tag = value(),
            Action::Timestamp => self.job.output.has_time = true,
            Action::OutFile => self.job.output.out = Some(value()),
            Action::ErrFile => self.job.output.err = Some(value()),
            // Nothing is copied anyway.
            Action::OutputFolder => self.job.output.fill_folder(values[0].trim_end_matches(":nocopy")),
            Action::Directives => directives::output(&values[0], &mut self.job.output)?,
            Action::Merge => self.job.output.merges = true,
            Action::Reader => {
                self.job.reader = match values[0].parse() {
                    Ok(rank) => Reader::Rank(rank),
                    Err(_) if values[0] == "none" => Reader::Nobody,
                    Err(_) => return Err(format!("{word} {}: one rank can read, or none", values[0])),
                }
            }
            Action::HangAfter => self.job.hang_after = Some(seconds(word, &values[0])?),
            Action::Top => drop(self.job.top.get_or_insert(Duration::from_secs(1))),
            Action::TopEvery => self.job.top = Some(interval(&values[0]).map_err(|why| format!("{word} {why}"))?),
            Action::Env => app.env.push(setting(&values[0], &values[1])?),
            Action::EnvOnly => app.inherit = Some(Inherit::Only(names())),
            Action::EnvNone => app.inherit = Some(Inherit::Only(vec![])),
            Action::EnvAll => app.inherit = Some(Inherit::All),
            Action::GlobalEnv => self.job.env.push(setting(&values[0], &values[1])?),
            Action::GlobalEnvOnly => self.job.inherit = Some(Inherit::Only(names())),
            Action::GlobalEnvNone => self.job.inherit = Some(Inherit::Only(vec![])),
            Action::GlobalEnvAll => self.job.inherit = Some(Inherit::All),
            Action::Export => self.export(&values[0])?,
            Action::Tune => {
                // Intel MPI's are no text; those of Open MPI may set variables for the program.
                let text = (self.read)(&values[0]).unwrap_or_default();
                let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
                let listed: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
                for pair in listed.windows(2).filter(|pair| matches!(pair[0], "-x" | "--x")) {
                    self.export(pair[1])?;
                }
                self.ignored(word, values);
            }
            Action::Gpus => match values[0].as_str() {
                "auto" | "0" => self.ignored(word, values),
                number => {
                    return Err(format!(
                        "{word} {number}: mpirun gives out no GPUs; a program may choose its own by MPI_LOCALRANKID"
                    ));
                }
            },
            Action::ErrorHandler => match values[0].to_ascii_lowercase().trim_start_matches("mpi_errors_") {
                // Either of these ends the job.
                "are_fatal" | "abort" => self.job.env.push(setting("NEARMPI_ERRORS_RETURN", "0")?),
                "return" => self.job.env.push(setting("NEARMPI_ERRORS_RETURN", "1")?),
                _ => {
                    return Err(format!(
                        "{word} {}: none of mpi_errors_are_fatal, mpi_errors_abort and mpi_errors_return",
                        values[0]
                    ));
                }
            },
            Action::Prepend => self.job.output.tag = "[%r] ".into(),
            Action::Tag => self.job.output.tag = "[1,%r]<%s>:".into(),
            Action::Verbose => self.job.verbose = true,
            Action::Auto => self.job.place = Some(Auto::parse(&values[0])?),
            Action::BindTo
            | Action::MapBy
            | Action::RankBy
            | Action::CpuSet
            | Action::Display
            | Action::RankMap
            | Action::MemBind
            | Action::ReportMemory
            | Action::RankFile
            | Action::ReportBindings => {
                let value = values.first().map_or("", String::as_str);
                self.job.binding.take(opt.action, value)?;
            }
            Action::Profile => {
                let folder = values.first().filter(|folder| !folder.is_empty());
                self.job.profile = Some(folder.map(PathBuf::from));
            }
            Action::Help => return Ok(Some(Request::Help)),
            Action::Version => return Ok(Some(Request::Version)),
            Action::Ignore => self.ignored(word, values),
        }
        Ok(None)
    }

    /// Sets a variable for all programs, or passes on what it is.
    fn export(&mut self, word: &str) -> Result<(), String> {
        match word.split_once('=') {
            Some((name, text)) => self.job.env.push(setting(name, text)?),
            None => {
                if let Ok(text) = std::env::var(word) {
                    self.job.env.push(setting(word, &text)?);
                }
            }
        }
        Ok(())
    }

    fn ignored(&mut self, word: &str, values: &[String]) {
        self.job
            .notes
            .push(format!("{word} {}: no effect here", values.join(" ")));
    }
}

/// Where a configuration file is named before the first program, and the file, if it stands in the same word.
fn config_file(words: &[OsString]) -> Option<(usize, Option<String>)> {
    let mut at = 0;
    while let Some(word) = words.get(at).filter(|word| is_option(word) && *word != "--") {
        let (opt, first) = recognise(&word.to_string_lossy()).ok()?;
        if opt.action == Action::ConfigFile {
            return Some((at, first));
        }
        let mut taken = opt.needs() - usize::from(first.is_some()).min(opt.needs());
        let value = first
            .as_ref()
            .map(OsStr::new)
            .or(words.get(at + 1).map(OsString::as_os_str));
        if opt.joins() && value.is_some_and(|value| value.as_encoded_bytes().contains(&b'=')) {
            taken -= 1;
        }
        at += 1 + taken;
    }
    None
}

/// Whether a word begins with a dash and has more.
fn is_option(word: &OsStr) -> bool {
    word.len() > 1 && word.as_encoded_bytes().starts_with(b"-")
}

/// An option or its value.
fn text(word: &OsStr) -> Result<String, String> {
    let what = || format!("{}: not text in UTF-8", word.to_string_lossy());
    word.to_str().map(str::to_string).ok_or_else(what)
}

/// The option that `word` names, and the value after `=` if it takes one.
fn recognise(word: &str) -> Result<(&'static Opt, Option<String>), String> {
    let bare = word
        .strip_prefix("--")
        .or_else(|| word.strip_prefix('-'))
        .unwrap_or(word);
    if let Some(opt) = find(bare) {
        return Ok((opt, None));
    }
    let name = bare.split('=').next().unwrap_or(bare);
    if let Some((_, why)) = REFUSED.iter().find(|(names, _)| names.contains(&name)) {
        return Err(format!("{word}: {why}"));
    }
    if let Some((name, value)) = bare.split_once('=')
        && let Some(opt) = find(name).filter(|o| !o.values.is_empty())
    {
        return Ok((opt, Some(value.to_string())));
    }
    Err(match nearest(name) {
        Some(known) => format!("unknown option {word}: did you mean -{known}?"),
        None => format!("unknown option {word} (mpirun --help lists all)"),
    })
}

/// A number of ranks.
fn ranks(word: &str, text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|n| (1..=MOST).contains(n));
    count.ok_or_else(|| format!("{word} {text}: not a number from 1 to {MOST}"))
}

/// A job, by the number of a process or by the name of a port.
fn target(word: &str, text: &str) -> Result<Target, String> {
    let (pid, number) = match PortName::parse(text) {
        Some(port) => (Some(port.pid), Some(port.job)),
        None => (text.parse().ok(), None),
    };
    let wrong = || format!("{word} {text}: neither a process number nor the name of a port");
    let pid = pid.filter(|&pid| pid > 0).ok_or_else(wrong)?;
    Ok(Target { pid, number })
}

/// A time limit; 0, as anything below, for none.
///
/// # Errors
/// Anything but a whole number of seconds.
pub fn limit(word: &str, text: &str) -> Result<u64, String> {
    match text.trim().parse::<i64>() {
        Ok(..=0) => Ok(0),
        _ => seconds(word, text),
    }
}

/// A time.
///
/// # Errors
/// Anything but a whole number of seconds above 0.
pub fn seconds(word: &str, text: &str) -> Result<u64, String> {
    let seconds = text
        .trim()
        .parse()
        .ok()
        .filter(|s| (1..=u64::from(u32::MAX)).contains(s));
    seconds.ok_or_else(|| format!("{word} {text}: not a number of seconds"))
}

fn setting(name: &str, value: &str) -> Result<(String, String), String> {
    match name.is_empty() || name.contains('=') || name.contains('\0') {
        true => Err(format!("{name:?} cannot be the name of an environment variable")),
        false => Ok((name.to_string(), value.to_string())),
    }
}

#[cfg(test)]
#[path = "arguments_tests.rs"]
pub mod tests;
