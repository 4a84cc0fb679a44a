//! What the command line asks for: MPICH's options, Open MPI's questions, and words for the compiler.

use crate::language::Language;
use std::ffi::OsString;

/// What to reply instead of compiling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// Nothing was asked: compile.
    Run,
    /// The whole command line.
    Line,
    /// Flags for compiling.
    CompileFlags,
    /// Flags for linking.
    LinkFlags,
    /// The compiler's name.
    Compiler,
    /// Header directories.
    IncludeDirs,
    /// Library directories.
    LibraryDirs,
    /// Library names.
    Libraries,
    /// Version line.
    Version,
    /// Options of this program.
    Help,
}

/// A command line taken apart.
#[derive(Debug)]
pub struct Request {
    /// What to do.
    pub question: Question,
    /// Words for the compiler, in order.
    pub rest: Vec<OsString>,
    /// `-cc=`, `-cxx=`, `-fc=`.
    pub compiler: Option<String>,
    /// `-config=`.
    pub config: Option<String>,
    /// `-profile=`.
    pub profile: Option<String>,
    /// Whether the compiler will link.
    pub links: bool,
    /// `-echo`: show the command before running it.
    pub echo: bool,
    /// `-v` is among the words: say the version first.
    pub verbose: bool,
    /// `-nativelinking`: link without MPI.
    pub native: bool,
    /// `-mpi-abi`: the standard ABI instead of MPICH's.
    pub standard: bool,
}

impl Request {
    /// Takes `words` apart.
    ///
    /// # Errors
    /// A sentence about an option that cannot be served.
    pub fn parse(language: Language, words: Vec<OsString>) -> Result<Request, String> {
        let mut request = Request {
            question: Question::Run,
            compiler: None,
            config: None,
            profile: None,
            links: true,
            echo: false,
            verbose: false,
            native: false,
            standard: false,
            rest: Vec::new(),
        };
        let only_one = words.len() == 1;
        let mut is_static = false;
        for word in words {
            let text = word.to_str().unwrap_or("");
            if request.own_option(language, text)? {
                continue;
            }
            match text {
                "-c" | "-S" | "-E" | "-M" | "-MM" => request.links = false,
                "-v" => {
                    request.verbose = true;
                    request.links &= !only_one;
                }
                "-static" => is_static = true,
                _ => {}
            }
            request.rest.push(word);
        }
        if is_static && request.links && !request.native {
            return Err(STATIC.into());
        }
        Ok(request)
    }

    /// Whether `text` was an option of this program, which is then done with.
    fn own_option(&mut self, language: Language, text: &str) -> Result<bool, String> {
        if let Some(question) = question(text)? {
            self.question = question;
            return Ok(true);
        }
        match text {
            "-echo" => self.echo = true,
            "-nativelinking" => self.native = true,
            "-static-mpi" | "-static_mpi" => return Err(STATIC.into()),
            "-mpi-abi" | "-mpi_abi" => self.standard = true,
            _ => return Ok(self.named_option(language, text)),
        }
        Ok(true)
    }

    /// Takes options of the form `-name=value`.
    fn named_option(&mut self, language: Language, text: &str) -> bool {
        let after = |option: &&str| text.strip_prefix(*option).map(str::to_owned);
        if let Some(value) = language.options().iter().find_map(after) {
            self.compiler = Some(value);
        } else if let Some(value) = after(&"-config=") {
            self.config = Some(value);
        } else if let Some(value) = after(&"-profile=") {
            self.profile = Some(value);
        } else {
            return false;
        }
        true
    }
}

const STATIC: &str = "nearmpi is a shared library only: leave out -static and -static-mpi";

/// The question that an option asks, of either family.
fn question(text: &str) -> Result<Option<Question>, String> {
    Ok(Some(match text {
        "-show" | "-compile_info" | "-compile-info" | "-link_info" | "-link-info" => Question::Line,
        "-show-compile-info" | "-show_compile_info" => Question::CompileFlags,
        "-show-link-info" | "-show_link_info" => Question::LinkFlags,
        "-help" => Question::Help,
        _ => {
            let Some(topic) = text.strip_prefix("--showme").or(text.strip_prefix("-showme")) else {
                return Ok(None);
            };
            match topic {
                "" => Question::Line,
                ":compile" => Question::CompileFlags,
                ":link" => Question::LinkFlags,
                ":command" => Question::Compiler,
                ":incdirs" => Question::IncludeDirs,
                ":libdirs" => Question::LibraryDirs,
                ":libs" => Question::Libraries,
                ":version" => Question::Version,
                ":help" => Question::Help,
                _ => return Err(format!("{text} is not a question this program knows; -help lists them")),
            }
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, String> {
        Request::parse(Language::C, line.split_whitespace().map(OsString::from).collect())
    }

    #[test]
    fn compiler_words_pass_in_order() {
        let request = parse("-O2 -cc=clang x.c -echo -o x").unwrap();
        assert_eq!(request.rest, ["-O2", "x.c", "-o", "x"]);
        assert_eq!(request.compiler.as_deref(), Some("clang"));
        assert!(request.echo && request.links);
        assert_eq!(request.question, Question::Run);
    }

    #[test]
    fn linking_is_off_where_the_compiler_does_not_link() {
        for line in ["-c x.c", "x.c -S", "-E x.c", "-M x.c", "-MM x.c", "-v"] {
            assert!(!parse(line).unwrap().links, "{line}");
        }
        for line in ["x.c", "-v x.c", "-MD x.c"] {
            assert!(parse(line).unwrap().links, "{line}");
        }
    }

    #[test]
    fn both_dashes_ask_the_same() {
        for topic in [
            "", ":compile", ":link", ":command", ":incdirs", ":libdirs", ":libs", ":version", ":help",
        ] {
            let one = parse(&format!("-showme{topic}")).unwrap().question;
            assert_eq!(one, parse(&format!("--showme{topic}")).unwrap().question);
            assert_ne!(one, Question::Run);
        }
        assert!(parse("-showme:nothing").unwrap_err().contains("-showme:nothing"));
    }

    #[test]
    fn static_is_refused_when_linking() {
        assert!(parse("-static-mpi x.c").is_err());
        assert!(parse("-static x.c").is_err());
        assert!(parse("-static -c x.c").is_ok());
    }
}
