//! Completion for shells, made of the table of options: `mpirun -completion bash`.

use crate::options::{Action, OPTIONS, Opt};

/// Shells that completion is made for.
pub const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// Commands that take the options.
const COMMANDS: [&str; 3] = ["mpirun", "mpiexec", "mpiexec.hydra"];

/// The words that an option's value can be, where they are few.
fn words(o: &Opt) -> Option<&'static str> {
    match o.action {
        Action::Stall => Some("abort report off"),
        Action::ExitCodes => Some("shell hydra"),
        Action::Completion => Some("bash zsh fish"),
        Action::BindTo => Some("core hwthread none"),
        _ => None,
    }
}

/// What the value of an option is.
enum Value {
    None,
    File,
    Folder,
    Words(&'static str),
    Other,
}

fn value(o: &Opt) -> Value {
    match (o.values, words(o)) {
        (_, Some(words)) => Value::Words(words),
        ([], _) => Value::None,
        (["FILE" | "PATTERN"], _) => Value::File,
        (["DIR" | "DIRS"], _) => Value::Folder,
        _ => Value::Other,
    }
}

/// The completion script for `shell`, if it is one of [`SHELLS`].
pub fn script(shell: &str) -> Option<String> {
    match shell {
        "bash" => Some(bash()),
        "zsh" => Some(zsh()),
        "fish" => Some(fish()),
        _ => None,
    }
}

/// The names of the options for which `wanted` holds, as patterns of a `case`.
fn patterns(wanted: impl Fn(&Opt) -> bool) -> String {
    let names = OPTIONS.iter().filter(|o| wanted(o)).flat_map(|o| o.names);
    let names: Vec<String> = names.map(|name| format!("-{name}")).collect();
    names.join("|")
}

fn bash() -> String {
    let all: Vec<String> = OPTIONS
        .iter()
        .flat_map(|o| o.names)
        .map(|name| format!("-{name}"))
        .collect();
    let mut cases = String::new();
    for o in OPTIONS {
        if let Value::Words(words) = value(o) {
            let names: Vec<String> = o.names.iter().map(|name| format!("-{name}")).collect();
            let names = names.join("|");
            cases +=
                &format!("      {names}) mapfile -t COMPREPLY < <(compgen -W '{words}' -- \"$word\"); return ;;\n");
        }
    }
    let of = |wanted: fn(&Value) -> bool| patterns(|o| wanted(&value(o)));
    let (files, folders) = (of(|v| matches!(v, Value::File)), of(|v| matches!(v, Value::Folder)));
    let two = patterns(|o| o.values.len() == 2);
    let one = patterns(|o| o.needs() == 1);
    format!(
        r#"# Completion of mpirun for bash, made by `mpirun -completion bash`.
_nearmpi_mpirun() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} at=1 skip name
  while [ $at -lt $COMP_CWORD ]; do          # to the option or the program that stands here
    name=${{COMP_WORDS[at]/#--/-}}
    case $name in
      {two}) skip=2 ;;
      {one}) skip=1 ;;
      -*|:) skip=0 ;;
      *)
        if declare -F _command_offset >/dev/null; then _command_offset $at
        else mapfile -t COMPREPLY < <(compgen -f -- "$word"); fi
        return ;;
    esac
    [ $((at + skip)) -lt $COMP_CWORD ] || break
    at=$((at + skip + 1))
  done
  if [ $at -lt $COMP_CWORD ]; then
    case $name in
{cases}      {files}) mapfile -t COMPREPLY < <(compgen -f -- "$word"); return ;;
      {folders}) mapfile -t COMPREPLY < <(compgen -d -- "$word"); return ;;
    esac
    return
  fi
  case $word in
    --*) mapfile -t COMPREPLY < <(compgen -P - -W '{all}' -- "${{word#-}}") ;;
    -*) mapfile -t COMPREPLY < <(compgen -W '{all}' -- "$word") ;;
    *) mapfile -t COMPREPLY < <(compgen -c -- "$word"; compgen -f -- "$word") ;;
  esac
}}
complete -o filenames -F _nearmpi_mpirun {commands}
"#,
        all = all.join(" "),
        commands = COMMANDS.join(" "),
    )
}

/// Text between single quotes.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn zsh() -> String {
    let mut lines = String::new();
    for o in OPTIONS {
        let help = o.help.replace('[', "(").replace(']', ")").replace(':', "\\:");
        let action = match value(o) {
            Value::None => String::new(),
            Value::File => ":file:_files".into(),
            Value::Folder => ":folder:_files -/".into(),
            Value::Words(words) => format!(":{}:({words})", o.values[0]),
            Value::Other => o.values.iter().map(|value| format!(":{value}: ")).collect(),
        };
        for name in o.names {
            lines += &format!("  {} \\\n", quoted(&format!("*-{name}[{help}]{action}")));
        }
    }
    let commands = COMMANDS.join(" ");
    format!(
        "#compdef {commands}\n# Completion of mpirun for zsh, made by `mpirun -completion zsh`.\n\
         _arguments -S -A '-*' \\\n{lines}  '(-)1:program:_command_names -e' '*::arguments:_normal'\n"
    )
}

fn fish() -> String {
    let mut lines = String::from("# Completion of mpirun for fish, made by `mpirun -completion fish`.\n");
    for command in COMMANDS {
        for o in OPTIONS {
            let more = match value(o) {
                Value::None => String::new(),
                Value::File => " -r -F".into(),
                Value::Folder => " -x -a '(__fish_complete_directories)'".into(),
                Value::Words(words) => format!(" -x -a '{words}'"),
                Value::Other => " -x".into(),
            };
            for name in o.names {
                let kind = if name.len() == 1 { 's' } else { 'o' };
                let help = quoted(o.help);
                lines += &format!("complete -c {command} -{kind} {name}{more} -d {help}\n");
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn every_shell_gets_every_option() {
        for shell in SHELLS {
            let script = script(shell).unwrap();
            let mut names = OPTIONS.iter().flat_map(|o| o.names);
            assert!(names.all(|name| script.contains(name)), "{shell}");
        }
        assert_eq!(script("csh"), None);
    }

    #[test]
    fn bash_completes() {
        let ask = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let ask = format!(
                "{}COMP_WORDS=({}); COMP_CWORD={}; _nearmpi_mpirun; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
                bash(),
                words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "),
                words.len() - 1
            );
            let output = Command::new("bash").args(["--norc", "-c", &ask]).output().unwrap();
            assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        assert!(ask("mpirun -n 2 -genv").lines().any(|word| word == "-genvlist"));
        assert!(ask("mpirun --timeo").lines().any(|word| word == "--timeout"));
        assert!(ask("mpirun -n 2 -stall r").lines().eq(["report"]));
        assert!(ask("mpirun -genv A B -wdir /us").lines().any(|word| word == "/usr"));
        assert!(ask("mpirun -n 2 /bin/l").lines().any(|word| word == "/bin/ls"));
        assert!(
            ask("mpirun -n 2 cat /etc/passw")
                .lines()
                .any(|word| word == "/etc/passwd")
        );
    }
}
