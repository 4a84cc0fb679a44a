//! Files that `-config=` and `-profile=` name: lines `NAME="value"`, as MPICH's, without shell code.

use std::collections::HashMap;
use std::path::Path;

/// Names and values of one file.
#[derive(Debug, Default)]
pub struct Settings(HashMap<String, String>);

impl Settings {
    /// Reads `path`.
    ///
    /// # Errors
    /// A sentence when the file cannot be read, or a line is neither blank, `#` nor `NAME=value`.
    pub fn read(path: &Path) -> Result<Settings, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Settings::parse(&text).map_err(|line| format!("{}: this line is not NAME=\"value\": {line}", path.display()))
    }

    fn parse(text: &str) -> Result<Settings, String> {
        let mut names = HashMap::new();
        for line in text.lines().map(str::trim) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (name, value) = line.split_once('=').ok_or(line)?;
            let shell_code = value.contains(['`', '$', ';']) || name.contains(char::is_whitespace);
            if shell_code {
                return Err(line.to_owned());
            }
            let bare = value.trim_matches(|quote| quote == '"' || quote == '\'');
            names.insert(name.to_owned(), bare.to_owned());
        }
        Ok(Settings(names))
    }

    /// The value of `name`, if the file sets it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_names_and_refuses_shell_code() {
        let settings = Settings::parse("# tool\n\nPROFILE_PRELIB=\"-ltool -lm\"\nCC='gcc -m64'\n").unwrap();
        assert_eq!(settings.get("PROFILE_PRELIB"), Some("-ltool -lm"));
        assert_eq!(settings.get("CC"), Some("gcc -m64"));
        assert_eq!(settings.get("CFLAGS"), None);
        for line in ["if true", "CC=$HOME/cc", "CC=cc; rm x", "export CC=cc"] {
            assert!(Settings::parse(line).is_err(), "{line}");
        }
    }
}
