//! The rules of the house, as tests: layers, docs, length, unsafe, statics, marks, scripts.
//!
//! A rule that has exceptions names them here, each with its reason beside it.

use std::fs;
use std::path::{Path, PathBuf};

/// Layers below the C edge, and the layers each may use.
const LAYERS: [(&str, &[&str]); 6] = [
    ("sys", &[]),
    ("shm", &["sys"]),
    ("channel", &["shm", "sys"]),
    ("mpi", &["channel", "shm", "sys"]),
    ("launch", &["shm", "sys"]),
    ("place", &["shm", "sys"]),
];

/// Everything a path can begin with after `crate::`.
const MODULES: &[&str] = &["sys", "shm", "channel", "mpi", "launch", "place", "abi"];

/// Where unsafe code may stand: directories, then single files.
const UNSAFE: &[&str] = &[
    "src/sys/",
    "src/shm/",
    "src/abi/",
    // Shared memory is written through raw pointers up to here.
    "src/channel/asked.rs",
    "src/channel/bytes.rs",
    "src/channel/direct.rs",
    "src/channel/join.rs",
    "src/channel/joint.rs",
    "src/channel/outgoing.rs",
    "src/channel/parts.rs",
    "src/channel/pull.rs",
    "src/channel/together.rs",
    "src/channel/row.rs",
    // The application's memory and call-backs.
    "src/mpi/alloc.rs",
    "src/mpi/buffer.rs",
    "src/mpi/datatype/pack.rs",
    "src/mpi/datatype/kernel.rs",
    "src/mpi/datatype/wide.rs",
    "src/mpi/pt2pt/",
    "src/mpi/op",
    "src/mpi/coll/machine.rs",
    "src/mpi/rma/",
    "src/mpi/io/transfer.rs",
    "src/mpi/coll/board/",
    // The gate of MPI_THREAD_MULTIPLE.
    "src/mpi/world.rs",
    // Functions of libraries that are loaded when they are there.
    "src/place/hwloc.rs",
    "src/place/scotch.rs",
    // The launcher's process control, and names that debuggers know.
    "src/bin/mpirun/os.rs",
    "src/bin/mpirun/debugger.rs",
];

/// Statics below `abi`: tables, and what there is one of in a process whoever uses it.
const STATICS: &[(&str, &str)] = &[
    ("src/mpi/datatype/basic.rs", "BASICS"),
    ("src/mpi/datatype/basic.rs", "PLACE"),
    ("src/mpi/datatype/basic.rs", "ROWS"),
    ("src/sys/spare.rs", "SPARE"),
];

/// Lines a source file may have.
const LONGEST: usize = 600;

/// Files that may be longer: tables, and what waits for its split.
const LONG: &[(&str, usize)] = &[];

/// A text file of the repository.
struct Source {
    /// From the repository's root.
    path: String,
    text: String,
}

impl Source {
    fn is(&self, extension: &str) -> bool {
        self.path.ends_with(extension)
    }

    /// The layer it belongs to, if any.
    fn layer(&self) -> Option<&str> {
        self.path.strip_prefix("src/")?.split(['/', '.']).next()
    }

    /// Its text without the tests.
    fn working_part(&self) -> &str {
        match self.path.ends_with("tests.rs") || self.path == "src/tidy.rs" {
            true => "",
            false => self.text.split("#[cfg(test)]\nmod ").next().unwrap_or(""),
        }
    }

    /// Its lines without comments, with their numbers.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.text.lines().enumerate();
        lines.map(|(index, line)| (index + 1, line.split("//").next().unwrap_or(line)))
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every text file of the repository that people write.
fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for name in [
        "src",
        "standard-abi",
        "tests",
        "c-tests",
        "osu-bench",
        "scripts",
        "man",
        ".ci",
    ] {
        gather(&root().join(name), &mut found);
    }
    for entry in fs::read_dir(root()).unwrap() {
        let path = entry.unwrap().path();
        if [".rs", ".md", ".toml"]
            .iter()
            .any(|end| path.to_string_lossy().ends_with(end))
        {
            read(path, &mut found);
        }
    }
    assert!(found.len() > 40, "the repository's files are not where this test looks");
    found
}

fn gather(dir: &Path, found: &mut Vec<Source>) {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => gather(&path, found),
            false => read(path, found),
        }
    }
}

fn read(path: PathBuf, found: &mut Vec<Source>) {
    if let Ok(text) = fs::read_to_string(&path) {
        let path = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        found.push(Source { path, text });
    }
}

/// Fails with every breach in one list.
fn none(rule: &str, breaches: Vec<String>) {
    assert!(breaches.is_empty(), "{rule}:\n  {}", breaches.join("\n  "));
}

/// Identifiers that follow `marker` in `line`.
fn names_after<'a>(line: &'a str, marker: &'a str) -> impl Iterator<Item = &'a str> {
    let end = |rest: &'a str| {
        rest.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
            .next()
            .unwrap()
    };
    line.split(marker).skip(1).map(end)
}

#[test]
fn layers_use_only_what_stands_below() {
    let mut breaches = Vec::new();
    for source in sources() {
        let Some((layer, below)) = LAYERS.iter().find(|(name, _)| source.layer() == Some(name)) else {
            continue;
        };
        for (number, line) in source.code() {
            for used in names_after(line, "crate::").filter(|used| MODULES.contains(used)) {
                if used != *layer && !below.contains(&used) {
                    breaches.push(format!("{}:{number}: {layer} uses {used}", source.path));
                }
            }
            if line.contains("crate::{") {
                breaches.push(format!(
                    "{}:{number}: one `use` a module, so that layers can be read",
                    source.path
                ));
            }
        }
    }
    none("calls go down only", breaches);
}

#[test]
fn every_file_says_what_it_owns() {
    let mut breaches = Vec::new();
    for source in sources() {
        let opens = match &source.path {
            path if path.ends_with(".rs") => "//!",
            path if path.ends_with(".c") || path.ends_with(".h") => "/*",
            path if path.starts_with("scripts/") || path.starts_with(".ci/") => "# ",
            _ => continue,
        };
        let interpreter = source.text.lines().next().filter(|line| line.starts_with("#!/"));
        let after = interpreter.map_or(0, |line| line.len() + 1);
        if !source.text[after..].starts_with(opens) {
            breaches.push(format!("{} does not begin with {opens:?}", source.path));
        }
    }
    none("a file opens with its purpose", breaches);
}

#[test]
fn files_stay_short() {
    let mut breaches = Vec::new();
    for source in sources() {
        let code = [".rs", ".c", ".h"].iter().any(|end| source.is(end)) || source.path.starts_with("scripts/");
        let exception = LONG.iter().find(|(path, _)| source.path == *path);
        let most = exception.map_or(LONGEST, |(_, most)| *most);
        let count = source.text.lines().count();
        if code && count > most {
            breaches.push(format!("{} has {count} lines, more than {most}", source.path));
        }
    }
    none("split the file", breaches);
}

#[test]
fn unsafe_code_stays_behind_its_fence() {
    let allow = concat!("allow(unsafe", "_code)");
    let mut breaches = Vec::new();
    for source in sources().iter().filter(|source| source.path.starts_with("src/")) {
        if !source.working_part().contains(allow) {
            continue;
        }
        if !UNSAFE.iter().any(|place| source.path.starts_with(place)) {
            breaches.push(format!("{}: unsafe code is not allowed here", source.path));
        }
        if !source.text.starts_with("//! # Safety\n") {
            breaches.push(format!(
                "{}: does not open with `//! # Safety`, whose promise it relies on",
                source.path
            ));
        }
    }
    none("unsafe is fenced by module", breaches);
}

#[test]
fn no_state_in_statics_below_the_c_edge() {
    let (mut breaches, mut known) = (Vec::new(), 0);
    for source in sources()
        .iter()
        .filter(|source| LAYERS.iter().any(|(name, _)| source.layer() == Some(name)))
    {
        for (index, line) in source.working_part().lines().enumerate() {
            let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
            let (word, name) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let name = name.trim_end_matches(':');
            if word == "static" && STATICS.contains(&(source.path.as_str(), name)) {
                known += 1;
            } else if word == "static" || word.starts_with("thread_local!") {
                breaches.push(format!("{}:{}: {line}", source.path, index + 1));
            }
        }
    }
    none(
        "all state hangs off World, so that tests run ranks as threads",
        breaches,
    );
    assert_eq!(known, STATICS.len(), "{STATICS:?}");
}

#[test]
fn the_crate_never_calls_mpi_by_its_c_names() {
    let mut breaches = Vec::new();
    for source in sources() {
        if !source.is(".rs") || !LAYERS.iter().any(|(name, _)| source.layer() == Some(name)) {
            continue;
        }
        for (number, line) in source.code() {
            let unquoted: String = line.split('"').step_by(2).collect();
            let calls = ["MPI_", "PMPI_"].iter().any(|prefix| is_called(&unquoted, prefix));
            if calls {
                breaches.push(format!("{}:{number}: {line}", source.path));
            }
        }
    }
    none("a profiling tool may have replaced the symbol", breaches);
}

/// Whether `prefix` begins a name with an open parenthesis after it.
fn is_called(line: &str, prefix: &str) -> bool {
    let after = |rest: &str| {
        let name = rest.trim_start_matches(|letter: char| letter.is_alphanumeric() || letter == '_');
        name.len() < rest.len() && name.trim_start().starts_with('(')
    };
    line.split(prefix).skip(1).any(after)
}

#[test]
fn nobody_panics_because_nobody_reads() {
    let macros = [concat!("pri", "nt!("), concat!("print", "ln!(")];
    let mut breaches = Vec::new();
    for source in sources().iter().filter(|source| source.path.starts_with("src/")) {
        for (index, line) in source.working_part().lines().enumerate() {
            if macros.iter().any(|name| line.contains(name)) {
                breaches.push(format!("{}:{}: {line}", source.path, index + 1));
            }
        }
    }
    none(
        "the macros panic when the reader is gone: src/bin/shared/say.rs does not",
        breaches,
    );
}

#[test]
fn nothing_is_left_for_later_and_nothing_names_this_machine() {
    let words = [
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("/wo", "rk/"),
        concat!("/ho", "me/"),
        concat!("/ro", "ot/"),
        concat!("/t", "mp/"),
        concat!("shared/", "design"),
        concat!("shared/", "abi"),
    ];
    let mut breaches = Vec::new();
    for source in sources() {
        for (index, line) in source.text.lines().enumerate() {
            if let Some(word) = words.iter().find(|word| line.contains(*word)) {
                breaches.push(format!("{}:{}: {word}", source.path, index + 1));
            }
        }
    }
    none(
        "finish it, or name it in the README's limits; keep paths relative",
        breaches,
    );
}

#[test]
fn the_command_line_is_fuzzed_with_all_of_its_modules() {
    let target = fs::read_to_string(root().join("fuzz/fuzz_targets/command.rs")).unwrap();
    let main = fs::read_to_string(root().join("src/bin/mpirun/main.rs")).unwrap();
    let modules: Vec<&str> = main.lines().flat_map(|line| names_after(line, "mod ")).collect();
    let mut breaches = Vec::new();
    for file in target.lines().flat_map(|line| names_after(line, "/mpirun/")) {
        let text = fs::read_to_string(root().join(format!("src/bin/mpirun/{file}.rs"))).unwrap();
        for used in text.lines().flat_map(|line| names_after(line, "crate::")) {
            if modules.contains(&used) && !target.contains(&format!("mod {used};")) {
                breaches.push(format!("{file} uses {used}"));
            }
        }
    }
    none(
        "fuzz/fuzz_targets/command.rs names each module that another uses",
        breaches,
    );
}

#[test]
fn every_script_explains_itself() {
    let mut breaches = Vec::new();
    let script = |source: &&Source| source.path.starts_with("scripts/") && source.path.matches('/').count() == 1;
    for source in sources().iter().filter(script) {
        let output = std::process::Command::new(root().join(&source.path))
            .arg("--help")
            .output();
        let explains = output.is_ok_and(|output| output.status.success() && output.stdout.len() > 40);
        if !explains {
            breaches.push(format!("{} --help", source.path));
        }
    }
    none("--help prints the head comment", breaches);
}
