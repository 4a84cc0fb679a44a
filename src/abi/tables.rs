//! What the tables constants.tsv, standard.tsv and functions.tsv say, and what is generated from them; used by the
//! build script and by tests.
//!
//! `NEARMPI_BLESS=1 cargo test generated` rewrites the generated files; without it the tests fail
//! when one is stale.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A row of constants.tsv or standard.tsv.
pub struct Constant {
    /// The standard's name.
    pub name: &'static str,
    /// C type, or the group an integer belongs to.
    pub kind: &'static str,
    /// A C literal.
    pub value: &'static str,
}

/// A row of functions.tsv.
pub struct Function {
    /// Name without `P`.
    pub name: &'static str,
    /// Whether mpi.h declares it.
    pub declared: bool,
    /// C prototype without `;`.
    pub prototype: &'static str,
}

fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split('\t').collect())
}

fn constant(row: Vec<&'static str>) -> Constant {
    Constant {
        name: row[0],
        kind: row[1],
        value: row[2],
    }
}

/// Every constant of the ABI.
pub fn constants() -> Vec<Constant> {
    rows(include_str!("constants.tsv")).map(constant).collect()
}

/// Every constant of the standard ABI, with a decimal value.
pub fn standard_constants() -> Vec<Constant> {
    rows(include_str!("standard.tsv")).map(constant).collect()
}

/// What MPI-5.0 no longer has, and its ABI never had.
const REMOVED: [&str; 10] = [
    "MPI_Address",
    "MPI_Errhandler_create",
    "MPI_Errhandler_get",
    "MPI_Errhandler_set",
    "MPI_Type_extent",
    "MPI_Type_hindexed",
    "MPI_Type_hvector",
    "MPI_Type_lb",
    "MPI_Type_struct",
    "MPI_Type_ub",
];

/// Whether the standard ABI has `function`: extensions are no part of it, nor what belongs to a Fortran library.
pub fn is_standard(function: &Function) -> bool {
    let name = function.name;
    let fortran = ["_c2f", "_f2c", "f08"].iter().any(|part| name.contains(part));
    name.starts_with("MPI_") && !fortran && !REMOVED.contains(&name)
}

/// Every function the library exports.
pub fn functions() -> Vec<Function> {
    let make = |row: Vec<&'static str>| Function {
        name: row[0],
        declared: row[1] == "y",
        prototype: row[2],
    };
    rows(include_str!("functions.tsv")).map(make).collect()
}

/// The package's directory.
pub fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Compares a generated file with what it should hold, or writes it when `NEARMPI_BLESS` is set.
pub fn fresh(path: &str, expected: &str) {
    let path = root().join(path);
    if std::env::var_os("NEARMPI_BLESS").is_some() {
        std::fs::write(&path, expected).unwrap();
        return;
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    let different = found.lines().zip(expected.lines()).find(|(a, b)| a != b);
    assert!(
        found == expected,
        "{} is stale (first difference: {different:?}); run NEARMPI_BLESS=1 cargo test generated",
        path.display()
    );
}

/// Where a function of the table is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub path: PathBuf,
    /// Whether it is an item of its own, rather than made by a macro of that file from its name.
    pub item: bool,
}

/// The exported functions found in src/abi.
pub fn written() -> BTreeMap<String, Place> {
    let known: BTreeSet<&str> = functions().iter().map(|f| f.name).collect();
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(root().join("src/abi")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "rs") {
            scan(&path, &known, &mut found);
        }
    }
    found
}

/// Finds functions in one file: items, and names in calls of the file's own macros.
fn scan(path: &Path, known: &BTreeSet<&str>, found: &mut BTreeMap<String, Place>) {
    let text = std::fs::read_to_string(path).unwrap();
    let mut add = |name: &str, both: bool, item: bool| {
        let path = path.to_owned();
        found.insert(name.to_owned(), Place { path, item });
        if both {
            let path = found[name].path.clone();
            found.insert(format!("{name}_c"), Place { path, item });
        }
    };
    // Attributes say whether an item has a `_c` form; the macro that is being defined or called.
    let (mut both, mut defined, mut called) = (false, None, None);
    let mut wide_macros = BTreeSet::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("macro_rules! ") {
            defined = rest.split(' ').next();
        } else if line.starts_with('}') {
            (defined, called) = (None, None);
        } else if line.ends_with("! {") && !line.starts_with(' ') {
            called = line.strip_suffix("! {");
        } else if let Some(name) = called {
            for word in line.split(|c: char| !c.is_alphanumeric() && c != '_') {
                if known.contains(word) {
                    add(word, wide_macros.contains(name), false);
                }
            }
        } else if line.trim_start().starts_with("#[apply(") {
            both = line.contains("mpi_function_c");
            wide_macros.extend(defined.filter(|_| both));
        } else if line.contains("{ mpi_function_c:") {
            wide_macros.extend(defined);
        } else if let Some(rest) = line.strip_prefix("pub unsafe extern \"C\" fn MPI") {
            let name = format!("MPI{}", rest.split('(').next().unwrap());
            add(&name, both, true);
            both = false;
        }
    }
}

/// A parameter of a prototype.
#[derive(Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in Rust.
    pub name: String,
    /// Its type in Rust.
    pub rust: String,
}

impl Function {
    /// What the function returns, in C.
    pub fn returns(&self) -> &str {
        let (returns, _) = self.prototype.split_once(self.name).unwrap();
        returns.trim()
    }

    /// The parameters; `...` is left out.
    pub fn parameters(&self) -> Vec<Parameter> {
        let (_, list) = self.prototype.split_once('(').unwrap();
        let list = list.strip_suffix(')').unwrap();
        let named = list.split(',').map(str::trim).filter(|p| !["void", "..."].contains(p));
        named.map(parameter).collect()
    }
}

fn parameter(text: &str) -> Parameter {
    let (text, dimensions) = text.split_at(text.find('[').unwrap_or(text.len()));
    let start = text.rfind([' ', '*']).unwrap() + 1;
    let name = text[start..].to_owned();
    let (base, constant) = match text[..start].trim().strip_prefix("const ") {
        Some(base) => (base, "*const "),
        None => (text[..start].trim(), "*mut "),
    };
    let stars = base.matches('*').count();
    let base = base.trim_end_matches(['*', ' ']);
    let function = base.contains("_function") && !base.starts_with("MPI_T_");
    let mut levels = stars - function as usize;
    let mut rust = match base {
        "void" => "c_void".to_owned(),
        "char" => "c_char".to_owned(),
        "int" => "c_int".to_owned(),
        "double" => "f64".to_owned(),
        other => other.to_owned(),
    };
    match dimensions {
        "" => (),
        "[]" => levels += 1,
        "[][3]" => {
            levels += 1;
            rust = format!("[{rust}; 3]");
        }
        other => panic!("array {other}"),
    }
    // `const` belongs to what the outermost pointer shows.
    for level in 0..levels {
        rust = format!("{}{rust}", if level == 0 { constant } else { "*mut " });
    }
    Parameter { name, rust }
}

/// Source text that exports every function of the table that is not [`written`], for `unsupported.rs`.
pub fn unsupported() -> String {
    let written = written();
    let mut text = String::from("unsupported! {\n");
    for function in functions() {
        if written.contains_key(function.name) || !["int", "void"].contains(&function.returns()) {
            continue;
        }
        let parameters = function.parameters();
        let object = parameters.iter().find(|p| p.rust == "MPI_Comm");
        let on = match object {
            _ if function.name.starts_with("MPI_T_") => "tool".to_owned(),
            _ if function.name.contains("MPI_File_") || parameters.iter().any(|p| p.rust == "MPI_File") => {
                "file".to_owned()
            }
            _ if function.name.contains("Session_") || function.name.contains("MPI_Info_") => "any".to_owned(),
            Some(comm) => format!("comm({})", comm.name),
            None => "world".to_owned(),
        };
        let list: Vec<String> = parameters.iter().map(|p| format!("{}: {}", p.name, p.rust)).collect();
        writeln!(text, "    {on} fn {}({});", function.name, list.join(", ")).unwrap();
    }
    text + "}\n"
}

/// The text of `functions.rs`: the names in the order of the table.
pub fn names() -> String {
    let names = functions();
    let mut text = format!(
        "/// Names of all functions.\npub const FUNCTIONS: [&str; {}] = [\n",
        names.len()
    );
    for function in names {
        writeln!(text, "    {:?},", function.name).unwrap();
    }
    text + "];\n"
}

/// The text of `constants.rs`.
fn rust_constants() -> String {
    let mut text = String::from(
        "//! Constants of the MPICH ABI; the names are the standard's own.\n//!\n\
         //! Generated from constants.tsv by `NEARMPI_BLESS=1 cargo test generated`; edit the table instead.\n\
         #![allow(missing_docs)]\n\nuse super::types::*;\nuse std::ffi::{c_char, c_int, c_void};\n\
         use std::ptr::{null_mut, without_provenance_mut};\n\n",
    );
    for Constant { name, kind, value } in constants() {
        let (rust, value) = match kind {
            "callback" => continue,
            "string" => ("&str", value.to_owned()),
            "void*" if value == "0" => ("*mut c_void", "null_mut()".to_owned()),
            "void*" => ("*mut c_void", format!("without_provenance_mut({value}isize as usize)")),
            "int*" => ("*mut c_int", "null_mut()".to_owned()),
            "char**" if name == "MPI_ARGV_NULL" => ("*mut *mut c_char", "null_mut()".to_owned()),
            "char**" => ("*mut *mut *mut c_char", "null_mut()".to_owned()),
            "MPI_Status*" => ("*mut MPI_Status", format!("without_provenance_mut({value})")),
            "MPI_Offset" => (kind, value.to_owned()),
            "MPI_File" | "MPI_T_enum" | "MPI_T_cvar_handle" | "MPI_T_pvar_handle" | "MPI_T_pvar_session" => {
                (kind, "null_mut()".to_owned())
            }
            _ if kind.starts_with("MPI") => (kind, format!("{value}u32 as c_int")),
            _ => ("c_int", value.to_owned()),
        };
        writeln!(text, "pub const {name}: {rust} = {value};").unwrap();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_constants_are_fresh() {
        fresh("src/abi/constants.rs", &rust_constants());
    }

    #[test]
    fn the_standard_abi_is_whole() {
        assert_eq!(functions().iter().filter(|f| is_standard(f)).count(), 662);
        let constants = standard_constants();
        assert_eq!(constants.len(), 365);
        for Constant { name, value, .. } in constants {
            assert!(value.parse::<i32>().is_ok(), "{name} is {value}");
        }
    }

    #[test]
    fn every_written_function_is_in_the_table() {
        let known: Vec<&str> = functions().iter().map(|f| f.name).collect();
        for (name, Place { path, .. }) in written() {
            assert!(
                known.contains(&name.as_str()),
                "{name} of {} is not in functions.tsv",
                path.display()
            );
        }
    }

    #[test]
    fn functions_made_by_a_macro_are_found() {
        let path = std::env::temp_dir().join(format!("nearmpi-scan-{}.rs", std::process::id()));
        let text = "macro_rules! sends {\n    () => {\n        #[apply(mpi_function_c!)]\n    }\n}\n\
                    macro_rules! others {\n        #[apply(mpi_function!)]\n}\n\
                    sends! {\n    1, MPI_Send, MPI_Comm;\n}\nothers! {\n    MPI_Recv\n}\n// MPI_Wait\n\
                    #[apply(mpi_function_c!)]\npub unsafe extern \"C\" fn MPI_Bcast(\n) {\n    MPI_Reduce\n}\n";
        std::fs::write(&path, text).unwrap();
        let known = functions().iter().map(|f| f.name).collect();
        let mut found = BTreeMap::new();
        scan(&path, &known, &mut found);
        std::fs::remove_file(&path).unwrap();
        let found: Vec<(&str, bool)> = found.iter().map(|(name, place)| (name.as_str(), place.item)).collect();
        let expected = [
            ("MPI_Bcast", true),
            ("MPI_Bcast_c", true),
            ("MPI_Recv", false),
            ("MPI_Send", false),
            ("MPI_Send_c", false),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn parameters_become_rust() {
        let rust = |text| {
            let Parameter { name, rust } = parameter(text);
            format!("{name}: {rust}")
        };
        assert_eq!(rust("const void *buf"), "buf: *const c_void");
        assert_eq!(rust("int ranges[][3]"), "ranges: *mut [c_int; 3]");
        assert_eq!(rust("char **array_of_argv[]"), "array_of_argv: *mut *mut *mut c_char");
        assert_eq!(rust("const int counts[]"), "counts: *const c_int");
        assert_eq!(rust("MPI_User_function *user_fn"), "user_fn: MPI_User_function");
        assert_eq!(rust("MPI_T_event_cb_function cb"), "cb: MPI_T_event_cb_function");
    }
}
