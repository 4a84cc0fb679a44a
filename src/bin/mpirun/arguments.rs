//! From the command line to a job: which programs, how many ranks of each, in which surroundings.

use crate::auto::Auto;
use crate::binding::Binding;
use crate::options::{Action, Opt, find, nearest};
use crate::stall::Policy;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

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
    /// `None`: one for each CPU.
    pub count: Option<u32>,
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
}

/// The whole job.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Job {
    pub apps: Vec<App>,
    pub inherit: Option<Inherit>,
    pub env: Vec<(String, String)>,
    /// `MPI_UNIVERSE_SIZE`, if programs are told one.
    pub universe: Option<u32>,
    pub output: Output,
    /// A rank that was killed gives its signal as exit code, without 128.
    pub bare_signals: bool,
    pub print_codes: bool,
    pub binding: Binding,
    pub place: Option<Auto>,
    pub timeout: Option<u64>,
    pub stall: Policy,
    /// The death of a rank is not the end of the job.
    pub keep_going: bool,
    /// Seconds, in place of the policy's.
    pub hang_after: Option<u64>,
    /// Seconds from one table of ranks to the next.
    pub top: Option<u64>,
    pub preload: bool,
    pub shared_heap: bool,
    /// Into which folder, if into a chosen one.
    pub profile: Option<Option<PathBuf>>,
    pub verbose: bool,
    /// What was accepted without effect.
    pub notes: Vec<String>,
}

/// The most ranks of one job.
const MOST: u32 = mpi::shm::layout::MAX_RANKS;

/// Takes the command line apart; `separator` stands between two programs. `read` reads a file; `host` is this machine's name.
///
/// # Errors
/// A sentence about the first argument that cannot be understood.
pub fn parse(
    arguments: Vec<OsString>,
    separator: &str,
    read: &dyn Fn(&str) -> Result<String, String>,
    host: &str,
) -> Result<Request, String> {
    let mut parser = Parser {
        job: Job::default(),
        read,
        host,
    };
    let mut rest = arguments;
    // A configuration file stands in place of the programs; it may not name another.
    if let Some(at) = rest
        .iter()
        .position(|a| matches!(a.to_str(), Some("-configfile" | "--configfile" | "-app" | "--app")))
    {
        let before_program = options_end(&rest).is_none_or(|end| at < end);
        if before_program {
            let file = rest.get(at + 1).ok_or("-configfile needs a file")?;
            let lines = config_lines(&read(&text(file)?)?)?;
            rest.splice(at..at + 2, lines.into_iter().map(OsString::from));
        }
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
    host: &'a str,
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
            Action::Count => {
                let count = value().parse().ok().filter(|n| (1..=MOST).contains(n));
                app.count = Some(count.ok_or_else(|| format!("{word} {}: not a number from 1 to {MOST}", values[0]))?);
            }
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
            Action::Hosts => value().split(',').try_for_each(|name| check_host(name, self.host))?,
            Action::HostFile => check_hosts(&(self.read)(&values[0])?, self.host)?,
            Action::Preload => self.job.preload = true,
            Action::SharedHeap => self.job.shared_heap = true,
            Action::Timeout => self.job.timeout = Some(seconds(word, &values[0])?),
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
            Action::OutputFolder => {
                let folder = value().replace('%', "%%");
                self.job.output.out = Some(format!("{folder}/1/rank.%r/stdout"));
                self.job.output.err = Some(format!("{folder}/1/rank.%r/stderr"));
            }
            Action::HangAfter => self.job.hang_after = Some(seconds(word, &values[0])?),
            Action::Top => drop(self.job.top.get_or_insert(1)),
            Action::TopEvery => self.job.top = Some(seconds(word, &values[0])?),
            Action::Env => app.env.push(setting(&values[0], &values[1])?),
            Action::EnvOnly => app.inherit = Some(Inherit::Only(names())),
            Action::EnvNone => app.inherit = Some(Inherit::Only(vec![])),
            Action::EnvAll => app.inherit = Some(Inherit::All),
            Action::GlobalEnv => self.job.env.push(setting(&values[0], &values[1])?),
            Action::GlobalEnvOnly => self.job.inherit = Some(Inherit::Only(names())),
            Action::GlobalEnvNone => self.job.inherit = Some(Inherit::Only(vec![])),
            Action::GlobalEnvAll => self.job.inherit = Some(Inherit::All),
            Action::Export => match value().split_once('=') {
                Some((name, text)) => self.job.env.push(setting(name, text)?),
                None => {
                    if let Ok(text) = std::env::var(&values[0]) {
                        self.job.env.push(setting(&values[0], &text)?);
                    }
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
            Action::Ignore => self
                .job
                .notes
                .push(format!("{word} {}: no effect here", values.join(" "))),
        }
        Ok(None)
    }
}

/// Where the first program's options end, for finding `-configfile` before it.
fn options_end(words: &[OsString]) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        if !is_option(word) || word == "--" {
            return Some(at);
        }
        let taken =
            recognise(&word.to_string_lossy()).map_or(0, |(opt, first)| opt.needs().saturating_sub(first.iter().len()));
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
    if let Some((name, value)) = bare.split_once('=')
        && let Some(opt) = find(name).filter(|o| !o.values.is_empty())
    {
        return Ok((opt, Some(value.to_string())));
    }
    Err(match nearest(bare.split('=').next().unwrap_or(bare)) {
        Some(known) => format!("unknown option {word}: did you mean -{known}?"),
        None => format!("unknown option {word} (mpirun --help lists all)"),
    })
}

/// A time limit.
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

fn check_host(entry: &str, host: &str) -> Result<(), String> {
    let entry = entry.trim();
    let name = match entry.strip_prefix("::1") {
        Some(_) => "::1",
        None => entry.split(':').next().unwrap_or_default(),
    };
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_string();
    let here = matches!(name, "localhost" | "127.0.0.1" | "::1") || (!name.is_empty() && short(name) == short(host));
    match here {
        true => Ok(()),
        false => Err(format!(
            "host {name:?} is not this machine ({host}): nearmpi runs on one machine"
        )),
    }
}

fn check_hosts(text: &str, host: &str) -> Result<(), String> {
    let entries = text
        .lines()
        .filter_map(|line| line.split('#').next()?.split_whitespace().next());
    entries.into_iter().try_for_each(|entry| check_host(entry, host))
}

/// The words of a configuration file, programs separated by `:`.
fn config_lines(text: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    for line in text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        if !words.is_empty() {
            words.push(":".to_string());
        }
        words.extend(split(line)?);
    }
    Ok(words)
}

/// The words of a line as a shell sees them: quotes and backslashes, nothing more.
fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(q), l) if l == q => quote = None,
            (Some('\''), l) => word.get_or_insert_default().push(l),
            (_, '\\') => word.get_or_insert_default().extend(letters.next()),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, l) if l.is_whitespace() => words.extend(word.take()),
            (_, l) => word.get_or_insert_default().push(l),
        }
    }
    words.extend(word);
    match quote {
        Some(_) => Err(format!("a quote is not closed: {line}")),
        None => Ok(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Request, String> {
        let read = |name: &str| match name {
            "conf" => Ok("# programs\n-n 2 ./a 'x y'\n\n-n 1 -env K v ./b\n".to_string()),
            "hosts" => Ok("localhost slots=4 # here\n\nbox:2\n".to_string()),
            "far" => Ok("faraway\n".to_string()),
            other => Err(format!("{other}: no such file")),
        };
        let words = split(line).unwrap().into_iter().map(OsString::from).collect();
        parse(words, ":", &read, "box.example.org")
    }

    fn job(line: &str) -> Job {
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
        let Ok(Request::Run(job)) = parse(words("-l"), ":", &read, "box") else {
            panic!("not understood")
        };
        assert_eq!(
            (&job.apps[0].program, &job.apps[0].arguments[..]),
            (&odd(), &[odd()][..])
        );
        assert!(
            parse(words("-wdir"), ":", &read, "box")
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
            ("", "no program"),
            ("-env A=B c a", "cannot be the name"),
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
}
