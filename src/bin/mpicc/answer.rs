//! Replies to questions. CMake takes a reply for a failure when it holds words such as "need to set";
//! the golden transcript of `tests/mpicc.rs` looks for them.

use crate::command::Command;
use crate::language::Language;
use crate::request::Question;
use std::borrow::Cow;
use std::ffi::OsString;
use std::path::PathBuf;

/// The reply to a question about flags.
pub fn reply(question: Question, command: &Command) -> String {
    let dirs = |dirs: &[PathBuf]| dirs.iter().map(|dir| dir.clone().into_os_string()).collect();
    let words: Vec<OsString> = match question {
        Question::CompileFlags => command.compile_flags(),
        Question::LinkFlags => command.all_link_flags(),
        Question::Compiler => command.compiler.clone(),
        Question::IncludeDirs => dirs(&command.include),
        Question::LibraryDirs => dirs(&command.lib),
        Question::Libraries => command.library_names(),
        _ => command.line(),
    };
    quoted(&words)
}

/// Words as a shell line; CMake understands double quotes after a flag, `-I"a dir"`.
pub fn quoted(words: &[OsString]) -> String {
    let texts: Vec<String> = words.iter().map(|word| quote(word.to_string_lossy())).collect();
    texts.join(" ")
}

fn quote(word: Cow<str>) -> String {
    let plain = |letter: char| letter.is_alphanumeric() || "-_=+./,:@%^~".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    let flag = ["-I", "-L", "-Wl,"]
        .into_iter()
        .find(|flag| word.starts_with(flag))
        .unwrap_or("");
    let mut text = format!("{flag}\"");
    for letter in word[flag.len()..].chars() {
        if "\"\\$`".contains(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text + "\""
}

/// The line that `-v` and `-showme:version` print.
pub fn version(name: &str) -> String {
    format!("{name} for MPICH version {}", mpi::version::line())
}

/// The options of this program.
pub fn help(name: &str, language: Language) -> String {
    let option = language.options()[0];
    let variables = language.variables().join(", ");
    format!(
        "{name}: compiles and links {language} programs with nearmpi\n\
         usage: {name} [options] [words for the {language} compiler]\n\
         \n\
         \x20 -show, -showme            print the command instead of running it\n\
         \x20 -compile_info, -link_info the same, by MPICH's older names\n\
         \x20 -show-compile-info        print the flags for compiling\n\
         \x20 -show-link-info           print the flags for linking\n\
         \x20 -showme:WHAT              print WHAT: compile, link, command, incdirs, libdirs, libs, version, help\n\
         \x20 {option:<25} use another compiler; so do {variables}\n\
         \x20 -profile=NAME             link libNAME too, or what NAME.conf says\n\
         \x20 -config=NAME              take settings from etc/{stem}-NAME.conf\n\
         \x20 -mpi-abi                  compile and link for the standard ABI of MPI-5.0 (libmpi_abi), C and C++ only;\n\
         \x20                           mpicc_abi, mpicxx_abi and mpic++_abi do so by their name\n\
         \x20 -nativelinking            link without MPI\n\
         \x20 -echo                     print the command and run it\n\
         \x20 -v                        print the version, and let the compiler print its own\n\
         \x20 -help                     print this\n\
         \n\
         OMPI_CPPFLAGS, {flags}, OMPI_LDFLAGS and OMPI_LIBS add words to the command.\n",
        language = language.name(),
        option = format!("{option}COMPILER"),
        stem = language.stem(),
        flags = language.flags_variable(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_what_a_shell_would_take_apart() {
        let words = ["cc", "-DX=\"a b\"", "-I/a dir", "", "-Wl,/a$b"].map(OsString::from);
        assert_eq!(quoted(&words), r#"cc "-DX=\"a b\"" -I"/a dir" "" -Wl,"/a\$b""#);
    }
}
