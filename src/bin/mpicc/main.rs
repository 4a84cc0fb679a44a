//! mpicc, mpicxx, mpifort and their other names: compiles MPI programs with the system's compiler.
//!
//! One program; the name it is called by chooses the language, and the standard ABI if it ends in `_abi`. It answers the questions that build
//! systems ask MPICH's wrappers (`-show`, `-link_info`, ...) and Open MPI's (`-showme:link`, ...),
//! and finds its installation beside itself, so a prefix may be moved or copied.
//!
//! | file | owns |
//! |---|---|
//! | `language.rs` | the names, and what differs between C, C++ and Fortran |
//! | `request.rs` | what the command line asks for |
//! | `settings.rs` | `-config=` and `-profile=` files |
//! | `install.rs` | where headers and libraries lie, Fortran's too |
//! | `command.rs` | the flags and the command made of them |
//! | `answer.rs` | replies to questions |
mod answer;
mod command;
mod install;
mod language;
mod request;
#[path = "../shared/say.rs"]
mod say;
mod settings;

use command::Command;
use install::Install;
use language::Language;
use request::{Question, Request};
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

/// Set for the compiler's process: a wrapper that finds it was started by a wrapper.
const GUARD: &str = "MPICH_RECURSION_CHECK";

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let name = language::called_as(&program);
    match run(&name, words.collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            say::aside(&format!("{name}: {sentence}"));
            ExitCode::FAILURE
        }
    }
}

/// Answers or compiles; returns after an answer or on an error only.
fn run(name: &str, words: Vec<std::ffi::OsString>) -> Result<(), String> {
    let language = Language::of(name);
    if words.is_empty() {
        say::aside(&answer::help(name, language));
        return Err("a source file or an option is needed".into());
    }
    let mut request = Request::parse(language, words)?;
    request.standard |= language::is_standard(name);
    match request.question {
        Question::Help => return say::out(&answer::help(name, language)).map(drop),
        Question::Version => return say::out(&(answer::version(name) + "\n")).map(drop),
        _ => {}
    }
    let install = Install::find()?;
    let command = Command::new(language, &request, &install)?;
    if request.question != Question::Run {
        return say::out(&(answer::reply(request.question, &command) + "\n")).map(drop);
    }
    if request.verbose {
        say::out(&(answer::version(name) + "\n"))?;
    }
    if request.echo {
        say::aside(&format!("+ {}", answer::quoted(&command.line())));
    }
    execute(&command)
}

/// Becomes the compiler.
fn execute(command: &Command) -> Result<(), String> {
    if std::env::var_os(GUARD).is_some() {
        return Err(
            "started by a compiler wrapper: MPICH_CC, OMPI_CC and their like must name a compiler, not mpicc".into(),
        );
    }
    let line = command.line();
    let error = std::process::Command::new(&line[0])
        .args(&line[1..])
        .env(GUARD, "1")
        .exec();
    Err(format!(
        "the compiler {} does not start: {error}",
        line[0].to_string_lossy()
    ))
}
