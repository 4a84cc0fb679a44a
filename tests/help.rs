//! What each command says about itself, word by word: `tests/help/NAME.txt`, written anew by
//! `NEARMPI_BLESS=1 cargo test --test help`. A change of an option is seen there before users see it.

use std::path::Path;
use std::process::Command;

/// Commands and the words that make them explain themselves.
const COMMANDS: [(&str, &str, &[&str]); 7] = [
    ("mpirun", env!("CARGO_BIN_EXE_mpirun"), &["--help"]),
    ("nearmpi-info", env!("CARGO_BIN_EXE_nearmpi-info"), &["--help"]),
    ("nearmpi-place", env!("CARGO_BIN_EXE_nearmpi-place"), &["--help"]),
    ("nearmpi-profile", env!("CARGO_BIN_EXE_nearmpi-profile"), &["--help"]),
    ("nearmpi-top", env!("CARGO_BIN_EXE_nearmpi-top"), &["--help"]),
    ("nearmpi-topo", env!("CARGO_BIN_EXE_nearmpi-topo"), &["--help"]),
    ("nearmpi-tune", env!("CARGO_BIN_EXE_nearmpi-tune"), &["--help"]),
];

#[test]
fn help_is_what_it_was() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/help");
    let mut stale = Vec::new();
    for (name, program, arguments) in COMMANDS {
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("COLUMNS", "100");
        let output = command.output().unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{name}: {output:?}"
        );
        let file = folder.join(format!("{name}.txt"));
        if std::env::var_os("NEARMPI_BLESS").is_some() {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &output.stdout).unwrap();
        }
        if std::fs::read(&file).unwrap_or_default() != output.stdout {
            stale.push(name);
        }
    }
    assert!(
        stale.is_empty(),
        "the help of {stale:?} has changed; NEARMPI_BLESS=1 cargo test --test help takes it over"
    );
}

/// Some pages are written by hand.
#[test]
fn the_manual_page_knows_every_option_of_the_help() {
    for (name, program, arguments) in COMMANDS {
        let help = Command::new(program).args(arguments).output().unwrap().stdout;
        let page = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("man")
            .join(format!("{name}.1"));
        let page = std::fs::read_to_string(page).unwrap().replace('\\', "");
        let help = String::from_utf8(help).unwrap();
        let words = help.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        let options: Vec<&str> = words.filter(|word| word.starts_with("--") && word.len() > 2).collect();
        let absent: Vec<&&str> = options.iter().filter(|option| !page.contains(**option)).collect();
        assert!(absent.is_empty(), "{absent:?} of {options:?} are not in man/{name}.1");
    }
}

#[test]
fn what_is_unknown_is_refused_with_a_word_about_help() {
    for (name, program, arguments) in COMMANDS {
        if !arguments.contains(&"--help") {
            continue;
        }
        let output = Command::new(program).arg("--no-such-option").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code();
        assert!(code.is_some_and(|code| code != 0), "{name}: {code:?}");
        assert!(
            said.contains("--no-such-option") && output.stdout.is_empty(),
            "{name}: {said}"
        );
    }
}
