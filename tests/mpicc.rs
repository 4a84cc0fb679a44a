//! The compiler wrappers as build systems meet them: started by name, in a prefix of their own.
//!
//! `tests/mpicc.golden` is a transcript; `NEARMPI_BLESS=1 cargo test --test mpicc` writes it anew.
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const NAMES: [&str; 9] = [
    "mpicxx",
    "mpic++",
    "mpiCC",
    "mpifort",
    "mpif77",
    "mpif90",
    "mpicc_abi",
    "mpicxx_abi",
    "mpic++_abi",
];

/// What CMake's FindMPI takes for a failure.
const FAILURE_WORDS: [&str; 5] = [
    "undefined reference",
    "unrecognized",
    "need to set",
    "no version information available",
    "command not found",
];

/// A prefix of links to the program under test, gone with the value.
struct Prefix(PathBuf);

impl Prefix {
    /// Makes a prefix whose path ends in `name`.
    fn new(name: &str) -> Prefix {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let root = folder.join(format!("mpicc-{}-{name}", std::process::id()));
        for dir in ["bin", "include", "lib/compat", "etc"] {
            std::fs::create_dir_all(root.join(dir)).unwrap();
        }
        // Not a copy: another test's child may hold one open for writing, and it does not start then.
        std::fs::hard_link(env!("CARGO_BIN_EXE_mpicc"), root.join("bin/mpicc")).unwrap();
        for name in NAMES {
            symlink("mpicc", root.join("bin").join(name)).unwrap();
        }
        Prefix(root)
    }

    /// The same with MPICH's Fortran files in it.
    fn with_fortran(name: &str) -> Prefix {
        let prefix = Prefix::new(name);
        prefix.write("include/mpif.h", "");
        prefix.write("lib/libmpichfort.so", "");
        prefix
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.0.join(path);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A compiler that prints its arguments, one a line.
    fn fake_compiler(&self, file: &str) -> PathBuf {
        let path = self.write(file, "#!/bin/sh\nprintf '<%s>\\n' \"$@\"\n");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    /// `line` is a shell-like command: words before the program that hold `=` set the environment.
    fn run(&self, line: &str) -> Output {
        let words: Vec<&str> = line.split_whitespace().collect();
        let settings = words.iter().take_while(|word| word.contains('=')).count();
        let mut command = Command::new(self.0.join("bin").join(words[settings]));
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.envs(words[..settings].iter().map(|word| word.split_once('=').unwrap()));
        command.args(&words[settings + 1..]).current_dir(&self.0);
        command.output().unwrap()
    }
}

impl Drop for Prefix {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn golden_transcript() {
    let prefix = Prefix::with_fortran("golden");
    prefix.write("lib/libcounter.so", "");
    prefix.write(
        "etc/tool.conf",
        "PROFILE_PRELIB=\"-ltool -lm\"\nPROFILE_INCPATHS=-Itool\n",
    );
    prefix.write("etc/mpicc-strict.conf", "# warnings\nCC=\"gcc -Wall\"\n");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpicc.golden");
    let old = std::fs::read_to_string(&golden).unwrap_or_default();
    let mut new = String::new();
    for line in old.lines().filter_map(|line| line.strip_prefix("$ ")) {
        let output = prefix.run(line);
        new += &format!("$ {line}\n{}", text(&output.stdout));
        if !output.status.success() {
            new += &format!("[exit {}] {}", output.status.code().unwrap(), text(&output.stderr));
        }
    }
    let new = new
        .replace(prefix.0.to_str().unwrap(), "PREFIX")
        .replace(env!("CARGO_PKG_VERSION"), "VERSION");
    if std::env::var_os("NEARMPI_BLESS").is_some() {
        std::fs::write(&golden, &new).unwrap();
    }
    assert!(new.lines().count() > 60, "the transcript is nearly empty");
    assert_eq!(new, std::fs::read_to_string(&golden).unwrap());
    for word in FAILURE_WORDS {
        assert!(!new.contains(word), "a reply holds {word:?}, a failure to CMake");
    }
}

#[test]
fn arguments_reach_the_compiler_whole() {
    let prefix = Prefix::new("whole");
    let compiler = prefix.fake_compiler("fake");
    let output = Command::new(prefix.0.join("bin/mpicc"))
        .args(["-c", "a file.c", "-DNAME=\"x y\"", ""])
        .env("MPICH_CC", &compiler)
        .env_remove("MPICH_RECURSION_CHECK")
        .output()
        .unwrap();
    let include = prefix.0.join("include");
    let expected = format!("<-c>\n<a file.c>\n<-DNAME=\"x y\">\n<>\n<-I{}>\n", include.display());
    assert_eq!(text(&output.stdout), expected, "{}", text(&output.stderr));
}

#[test]
fn exit_code_is_the_compilers() {
    let prefix = Prefix::new("exit");
    let compiler = prefix.fake_compiler("fake");
    std::fs::write(&compiler, "#!/bin/sh\nexit 42\n").unwrap();
    let output = prefix.run(&format!("MPICH_CC={} mpicc x.c", compiler.display()));
    assert_eq!(output.status.code(), Some(42));
}

#[test]
fn a_prefix_with_spaces_is_quoted() {
    let prefix = Prefix::new("with spaces");
    let path = prefix.0.to_str().unwrap();
    let output = prefix.run("mpicc -showme:compile");
    assert_eq!(text(&output.stdout), format!("-I\"{path}/include\"\n"));
}

#[test]
fn a_moved_prefix_answers_for_its_new_place() {
    let prefix = Prefix::new("moved");
    let link = prefix.0.join("elsewhere");
    symlink(prefix.0.join("bin/mpicxx"), &link).unwrap();
    let output = Command::new(&link).arg("-showme:incdirs").output().unwrap();
    assert_eq!(text(&output.stdout), format!("{}/include\n", prefix.0.display()));
}

#[test]
fn a_wrapper_that_starts_itself_stops() {
    let prefix = Prefix::new("recursion");
    let own = prefix.0.join("bin/mpicc");
    let output = prefix.run(&format!("MPICH_CC={} mpicc x.c", own.display()));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("must name a compiler"));
}

#[test]
fn fortran_without_an_interface_says_what_to_install() {
    let prefix = Prefix::new("fortran");
    let empty = prefix.0.join("empty");
    let output = prefix.run(&format!("NEARMPI_FORTRAN={} mpifort x.f90", empty.display()));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("mpif.h"), "{}", text(&output.stderr));
}

#[test]
fn the_man_page_knows_every_option_of_the_summary() {
    let prefix = Prefix::new("man");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/mpicc.1");
    let page = std::fs::read_to_string(page).unwrap().replace('\\', "");
    let help = text(&prefix.run("mpicc -help").stdout);
    let is_option = |word: &&str| word.starts_with('-') && word.len() > 1;
    let options: Vec<&str> = help.split([' ', ',', ':', '\n', '=']).filter(is_option).collect();
    assert!(options.len() > 10, "{options:?}");
    for option in options {
        assert!(page.contains(option), "{option} is not in man/mpicc.1");
    }
}
