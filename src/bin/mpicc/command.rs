//! The compiler's command line, in MPICH's order:
//! `cc $CPPFLAGS $CFLAGS $LDFLAGS words -Iinclude -Llib ... -lmpi`; for the standard ABI
//! `cc -DMPI_ABI ... -lmpi_abi`.

use crate::install::{Fortran, Install};
use crate::language::Language;
use crate::request::Request;
use crate::settings::Settings;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The parts of a command; [`Command::line`] puts them together.
pub struct Command {
    /// The compiler and its first arguments.
    pub compiler: Vec<OsString>,
    /// Flags for compiling that stand before the words.
    flags: Vec<OsString>,
    /// Flags for linking that stand before the words.
    link_flags: Vec<OsString>,
    /// The words of the command line.
    words: Vec<OsString>,
    /// Header directories.
    pub include: Vec<PathBuf>,
    /// Library directories.
    pub lib: Vec<PathBuf>,
    /// Libraries, as linker arguments, in order.
    libraries: Vec<OsString>,
    links: bool,
}

impl Command {
    /// The command that serves `request`.
    ///
    /// # Errors
    /// A sentence when a configuration, a profile or a Fortran interface is missing.
    pub fn new(language: Language, request: &Request, install: &Install) -> Result<Command, String> {
        let named = first_of(language.variables());
        let config = configuration(language, request, install, named.as_deref())?;
        let configured = config.get(language.compiler_setting()).map(str::to_owned);
        let compiler = request.compiler.clone().or(configured).or(named);
        let compiler = compiler.unwrap_or_else(|| language.compiler().into());
        let profile = Profile::choose(language, request, install)?;
        let mut command = Command {
            compiler: split(&compiler),
            flags: from_environment("OMPI_CPPFLAGS"),
            link_flags: from_environment("OMPI_LDFLAGS"),
            words: request.rest.clone(),
            include: vec![install.include()],
            lib: vec![install.lib()],
            libraries: Vec::new(),
            links: request.links,
        };
        if command.compiler.is_empty() {
            return Err("the compiler's name is empty: look at -cc=, MPICH_CC and OMPI_CC".into());
        }
        if request.standard && language == Language::Fortran {
            return Err("the standard ABI is for C and C++; MPICH's Fortran library has MPICH's ABI".into());
        }
        if request.standard {
            command.flags.insert(0, "-DMPI_ABI".into());
        }
        command.flags.extend(profile.include);
        command.flags.extend(from_environment(language.flags_variable()));
        if request.native {
            command.lib.clear();
            return Ok(command);
        }
        command.libraries.extend(profile.before);
        let fortran = match language {
            Language::Fortran => Some(install.fortran()?),
            _ => None,
        };
        if let Some(fortran) = &fortran {
            command.add_fortran(fortran, &compiler);
        }
        command.libraries.extend(run_path(&install.lib()));
        let library = if request.standard { "-lmpi_abi" } else { "-lmpi" };
        command.libraries.push(library.into());
        if fortran.is_some_and(|interface| interface.name == "mpichfort") {
            command.libraries.extend(stand_in(&install.compat()));
        }
        command.libraries.extend(profile.after);
        command.libraries.extend(from_environment("OMPI_LIBS"));
        Ok(command)
    }

    /// Adds MPICH's Fortran headers, modules and library.
    fn add_fortran(&mut self, fortran: &Fortran, compiler: &str) {
        if compiler.contains("gfortran") {
            self.flags.push("-fallow-argument-mismatch".into());
            self.flags.push("-fallow-invalid-boz".into());
        }
        for (dirs, dir) in [(&mut self.include, &fortran.include), (&mut self.lib, &fortran.lib)] {
            if !dirs.contains(dir) {
                dirs.push(dir.clone());
            }
        }
        self.libraries.push(format!("-l{}", fortran.name).into());
    }

    /// The whole command line.
    pub fn line(&self) -> Vec<OsString> {
        let mut line = [&self.compiler[..], &self.flags].concat();
        if self.links {
            line.extend(self.link_flags.clone());
        }
        line.extend(self.words.clone());
        line.extend(self.include.iter().map(|dir| joined("-I", dir)));
        if self.links {
            line.extend(self.linking());
        }
        line
    }

    /// Flags for compiling alone.
    pub fn compile_flags(&self) -> Vec<OsString> {
        let include = self.include.iter().map(|dir| joined("-I", dir));
        self.flags.iter().cloned().chain(include).collect()
    }

    /// Flags for linking alone.
    pub fn all_link_flags(&self) -> Vec<OsString> {
        self.link_flags.iter().cloned().chain(self.linking()).collect()
    }

    /// Names of the libraries, without `-l`.
    pub fn library_names(&self) -> Vec<OsString> {
        let name = |word: &OsString| Some(word.to_str()?.strip_prefix("-l")?.into());
        self.libraries.iter().filter_map(name).collect()
    }

    fn linking(&self) -> impl Iterator<Item = OsString> {
        let directories = self.lib.iter().map(|dir| joined("-L", dir));
        directories.chain(self.libraries.iter().cloned())
    }
}

/// What `-profile=NAME` or its environment variable adds.
#[derive(Default)]
struct Profile {
    include: Vec<OsString>,
    before: Vec<OsString>,
    after: Vec<OsString>,
}

impl Profile {
    /// `libNAME.so` in the library directory, or a file `NAME.conf` of PROFILE_ settings.
    fn choose(language: Language, request: &Request, install: &Install) -> Result<Profile, String> {
        let variable = first_of(&[language.profile_variable()]);
        let Some(name) = request.profile.clone().or(variable) else {
            return Ok(Profile::default());
        };
        let is_library = |end: &&str| install.lib().join(format!("lib{name}.{end}")).exists();
        if ["so", "a"].iter().any(is_library) {
            return Ok(Profile {
                before: vec![format!("-l{name}").into()],
                ..Profile::default()
            });
        }
        let file = format!("{name}.conf");
        let places = [install.etc().join(&file), PathBuf::from(&file)];
        let found = places.iter().find(|path| path.exists());
        let found = found.ok_or(format!("profile {name}: neither lib{name}.so nor {file} is there"))?;
        let settings = Settings::read(found)?;
        let value = |name| split(settings.get(name).unwrap_or(""));
        Ok(Profile {
            include: value("PROFILE_INCPATHS"),
            before: value("PROFILE_PRELIB"),
            after: value("PROFILE_POSTLIB"),
        })
    }
}

/// The file that `-config=` names, or the one made for the compiler of the environment, if any.
fn configuration(
    language: Language,
    request: &Request,
    install: &Install,
    compiler: Option<&str>,
) -> Result<Settings, String> {
    let path = |name: &str| install.etc().join(format!("{}-{name}.conf", language.stem()));
    if let Some(name) = &request.config {
        return Settings::read(&path(name));
    }
    let own = compiler
        .map(|name| path(&name.replace(' ', "-")))
        .filter(|path| path.exists());
    own.map_or(Ok(Settings::default()), |path| Settings::read(&path))
}

/// So that the program finds the library without LD_LIBRARY_PATH, which stays the stronger of the two.
fn run_path(dir: &Path) -> [OsString; 3] {
    [
        "-Wl,-rpath".into(),
        joined("-Wl,", dir),
        "-Wl,--enable-new-dtags".into(),
    ]
}

/// Names the stand-in for libmpich.so.12 in the program itself: MPICH's Fortran library, which asks
/// for that name, is loaded later and finds it there.
fn stand_in(stub: &Path) -> [OsString; 3] {
    let mut word = OsString::from("-Wl,--push-state,--no-as-needed,");
    word.push(stub);
    word.push(",--pop-state");
    let dir = stub.parent().unwrap_or(stub);
    ["-Wl,-rpath".into(), joined("-Wl,", dir), word]
}

fn joined(flag: &str, dir: &Path) -> OsString {
    let mut word = OsString::from(flag);
    word.push(dir);
    word
}

/// The first of these variables that is set to something.
fn first_of(variables: &[&str]) -> Option<String> {
    let value = |name: &&str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
    variables.iter().find_map(value)
}

fn from_environment(variable: &str) -> Vec<OsString> {
    split(&first_of(&[variable]).unwrap_or_default())
}

fn split(text: &str) -> Vec<OsString> {
    text.split_whitespace().map(OsString::from).collect()
}
