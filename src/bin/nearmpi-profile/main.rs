//! nearmpi-profile: from what the ranks of a run counted to a page, a summary and `run.json`.
//!
//! | file | owns |
//! |---|---|
//! | `model` | what a profile says, as `run.json` has it |
//! | `collect` | from the ranks' counts to the model |
//! | `summary` | the text for a terminal |
//! | `page`, `charts` | the page and its pictures |
//! | `sizes` | the papers' tables of message sizes |
//! | `units` | numbers for people |
mod charts;
mod collect;
mod model;
mod page;
#[path = "../shared/say.rs"]
mod say;
mod sizes;
mod summary;
mod units;

use collect::{Ends, collect};
use model::{FORMAT, Run, VERSION};
use mpi::shm::profile::{Block, file};
use mpi::shm::segment::Segment;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

const HELP: &str = "\
nearmpi-profile: shows where the time and the bytes of a run went
usage: nearmpi-profile [options] DIR | RUN.json

  DIR          what a run with NEARMPI_PROFILE=DIR counted, under any launcher; makes DIR/run.json and
               DIR/index.html and prints a summary
  RUN.json     a profile made before; makes index.html beside it anew and prints the summary

  --sizes      print only how many messages there were of which size, in the classes of Jin 2005 (table 2)
               and Chai 2008 (table 1)
  --out DIR    write into DIR
  --quiet      print nothing
  --help       this
mpirun --profile[=DIR] does all this by itself.
";

/// What is asked for.
#[derive(Debug, Default)]
struct Request {
    /// A folder of counts, or a profile.
    source: Option<PathBuf>,
    /// In place of it, the memory of a job that our launcher started; who ended how comes on standard input.
    memory: Option<PathBuf>,
    out: Option<PathBuf>,
    sizes: bool,
    quiet: bool,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words
        .iter()
        .any(|word| matches!(word.as_str(), "--help" | "-h" | "-help"))
    {
        let _ = say::out(HELP);
        return ExitCode::SUCCESS;
    }
    match parse(words).and_then(|request| run(&request)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            say::aside(&format!("nearmpi-profile: {sentence}"));
            ExitCode::FAILURE
        }
    }
}

fn parse(words: Vec<String>) -> Result<Request, String> {
    let mut request = Request::default();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or(format!("{word} needs a value; --help shows the usage"))
        };
        match word.as_str() {
            "--sizes" => request.sizes = true,
            "--quiet" => request.quiet = true,
            "--out" => request.out = Some(value()?.into()),
            "--memory" => request.memory = Some(value()?.into()),
            _ if word.starts_with('-') => return Err(format!("{word} is not an option; --help lists them")),
            _ if request.source.is_none() => request.source = Some(word.into()),
            _ => return Err(format!("{word}: one folder or profile at a time")),
        }
    }
    match request.source.is_some() || request.memory.is_some() {
        true => Ok(request),
        false => Err("no folder and no profile is given; --help shows the usage".into()),
    }
}

fn run(request: &Request) -> Result<(), String> {
    let (run, made_now) = match (&request.memory, &request.source) {
        (Some(memory), _) => (from_memory(memory)?, true),
        (None, Some(source)) if source.is_dir() => (from_folder(source)?, true),
        (None, source) => (from_profile(source.as_deref().unwrap_or(Path::new("")))?, false),
    };
    if request.sizes {
        return say::out(&sizes::text(&run)).map(drop);
    }
    let beside = request.source.as_deref().map(|source| match source.is_dir() {
        true => source,
        false => source
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
            .unwrap_or(Path::new(".")),
    });
    let out = request.out.as_deref().or(beside).unwrap_or(Path::new("."));
    fs::create_dir_all(out).map_err(|error| format!("cannot make the folder {}: {error}", out.display()))?;
    if made_now {
        let json = serde_json::to_string(&run).map_err(|error| format!("cannot write the profile: {error}"))?;
        write(&out.join("run.json"), &json)?;
    }
    write(&out.join("index.html"), &page::page(&run))?;
    match request.quiet {
        true => Ok(()),
        false => say::out(&summary::text(&run, &out.join("index.html").display().to_string())).map(drop),
    }
}

/// Writes the file anew; one that was there before stays whole until the new one is.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let mut name = path.as_os_str().to_owned();
    name.push(".tmp");
    let made = fs::write(&name, text).and_then(|()| fs::rename(&name, path));
    made.map_err(|error| {
        let _ = fs::remove_file(&name);
        format!("cannot write {}: {error}", path.display())
    })
}

/// From the job's own memory.
fn from_memory(path: &Path) -> Result<Run, String> {
    let wrong = |error: std::io::Error| format!("cannot read the job's memory: {error}");
    let memory = File::options().read(true).write(true).open(path).map_err(wrong)?;
    let segment = Arc::new(Segment::attach(memory.as_fd()).map_err(wrong)?);
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(|error| format!("cannot read standard input: {error}"))?;
    let ends: Ends = serde_json::from_str(&text).map_err(|error| format!("cannot read standard input: {error}"))?;
    let blocks = (0..segment.ranks()).map(|rank| segment.profile(rank));
    let mut run = collect(&blocks.filter(Block::is_begun).collect::<Vec<_>>(), &ends)?;
    run.later = segment.later();
    Ok(run)
}

/// From the files that ranks left in a folder: those of the job that was started last.
fn from_folder(folder: &Path) -> Result<Run, String> {
    let files = file::list(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    if files.is_empty() && folder.join("run.json").is_file() {
        return from_profile(&folder.join("run.json"));
    }
    let mut blocks = Vec::new();
    for (_, path) in &files {
        // A rank that has not come to MPI_Init has an empty file, or none.
        match file::open(path) {
            Ok(block) => blocks.push(block),
            Err(error) => say::aside(&format!("nearmpi-profile: {} is left out: {error}", path.display())),
        }
    }
    let job = |block: &Block| block.head().job.load(std::sync::atomic::Ordering::Relaxed);
    let began = |block: &Block| block.head().began[2].load(std::sync::atomic::Ordering::Relaxed);
    let latest = blocks.iter().max_by_key(|block| began(block)).map(job);
    blocks.retain(|block| Some(job(block)) == latest);
    collect(&blocks, &Ends::default()).map_err(|sentence| format!("{}: {sentence}", folder.display()))
}

/// From a profile that was made before.
fn from_profile(path: &Path) -> Result<Run, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    let text = fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let run: Run = serde_json::from_str(&text).map_err(|error| wrong(format!("not a profile: {error}")))?;
    match run.format == FORMAT && run.version == VERSION {
        true => check(run).map_err(wrong),
        false => Err(wrong(format!("not a profile of version {VERSION}"))),
    }
}

/// Refuses matrices that do not fit the number of ranks.
fn check(run: Run) -> Result<Run, String> {
    let ranks = run.ranks as usize;
    let square = |table: &[Vec<u64>]| table.len() == ranks && table.iter().all(|row| row.len() == ranks);
    let whole = [&run.matrix, &run.physical, &run.logical]
        .iter()
        .all(|matrix| square(&matrix.bytes) && square(&matrix.messages));
    let waits = run.waited_for.len() == ranks && run.waited_for.iter().all(|row| row.len() == ranks);
    match whole && waits {
        true => Ok(run),
        false => Err(format!("a matrix does not have {ranks} rows of {ranks} columns")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_as_it_was_written_and_a_torn_one_is_refused() {
        let mut run = Run {
            format: FORMAT.into(),
            version: VERSION,
            ranks: 2,
            matrix: model::Matrix::new(2),
            physical: model::Matrix::new(2),
            logical: model::Matrix::new(2),
            waited_for: vec![vec![0.5; 2]; 2],
            ..Run::default()
        };
        run.physical.add(0, 1, 3, 1 << 60);
        let path = std::env::temp_dir().join(format!("nearmpi-profile-{}.json", std::process::id()));
        let read = |run: &Run| {
            fs::write(&path, serde_json::to_string(run).unwrap()).unwrap();
            from_profile(&path)
        };
        assert_eq!(read(&run).unwrap().physical, run.physical);
        run.logical.bytes.pop();
        assert!(
            read(&run)
                .unwrap_err()
                .ends_with("a matrix does not have 2 rows of 2 columns")
        );
        run.version = 99;
        assert!(read(&run).unwrap_err().contains("not a profile of version 1"));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_written_anew_stays_as_it_was() {
        let folder = std::env::temp_dir().join(format!("nearmpi-profile-{}", std::process::id()));
        let path = folder.join("run.json");
        fs::create_dir_all(folder.join("run.json.tmp")).unwrap();
        fs::write(&path, "old").unwrap();
        assert!(write(&path, "new").unwrap_err().contains("run.json: "));
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        fs::remove_dir(folder.join("run.json.tmp")).unwrap();
        write(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let words = |text: &str| text.split(' ').map(String::from).collect();
        assert!(parse(words("--colour x")).unwrap_err().contains("--colour"));
        assert!(parse(words("a b")).unwrap_err().contains("b: one"));
        assert!(parse(words("--out")).unwrap_err().contains("needs a value"));
        assert!(parse(words("--quiet")).unwrap_err().contains("no folder"));
    }
}
