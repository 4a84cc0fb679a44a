//! Makes include/mpi.h: mpi.h.in with the constants of constants.tsv and the prototypes that cbindgen
//! reads from the Rust functions.
//!
//! cbindgen does not see functions that a macro makes from their names; their prototypes are taken from
//! functions.tsv, as are those of functions that are not written yet. It sees neither the `PMPI_` twins nor the `_c` forms that the macros make, and knows call-back
//! types as pointers where MPI has function types; both are mended here.

use super::tables::{self, Constant, Function, Place, fresh, functions, root};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// C prototypes, without `;`, of the functions found in src/abi, in both forms where there are two.
fn prototypes() -> BTreeMap<String, String> {
    let mut builder = cbindgen::Builder::new().with_config(cbindgen::Config {
        language: cbindgen::Language::C,
        no_includes: true,
        line_length: 10_000,
        documentation: false,
        ..cbindgen::Config::default()
    });
    let written = tables::written();
    for path in written.values().map(|place| &place.path).collect::<BTreeSet<_>>() {
        builder = builder.with_src(path);
    }
    let mut text = Vec::new();
    builder.generate().expect("cbindgen reads src/abi").write(&mut text);
    let mut found = BTreeMap::new();
    for statement in String::from_utf8(text).unwrap().split(';') {
        let statement = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        let Some(start) = statement.find(" MPI").or(statement.find("*MPI")) else {
            continue;
        };
        let Some(name) = statement[start + 1..].split('(').next() else {
            continue;
        };
        if !written.contains_key(name) {
            continue;
        }
        let wide = format!("{name}_c");
        if is_wide(&written, &statement, &wide) {
            let text = statement.replace(&format!("{name}("), &format!("{wide}("));
            found.insert(wide, mend(&text, ["MPI_Count", "MPI_Aint", "MPI_Count"]));
        }
        found.insert(name.to_owned(), mend(&statement, ["int", "int", "MPI_Aint"]));
    }
    found
}

/// Whether the same function was compiled a second time, with 64-bit counts.
fn is_wide(written: &BTreeMap<String, Place>, statement: &str, wide: &str) -> bool {
    written.contains_key(wide) && words(statement).any(|w| ["Count", "Displ", "TypeDispl"].contains(&w))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
}

/// Replaces the aliases of the two widths and makes call-backs pointers to function types.
fn mend(statement: &str, [count, displ, type_displ]: [&str; 3]) -> String {
    let mut text = String::new();
    let mut rest = statement;
    while !rest.is_empty() {
        let len = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let (word, after) = rest.split_at(len);
        text += match word {
            // An `Option` of a call-back that has no name in C.
            "struct" => "void",
            other if other.starts_with("Option_") => {
                text.push('*');
                rest = after.trim_start();
                continue;
            }
            "Count" => count,
            "Displ" => displ,
            "TypeDispl" => type_displ,
            other => other,
        };
        let function = word.contains("_function") && !word.starts_with("MPI_T_");
        let Some(separator) = after.chars().next() else { break };
        text.push(separator);
        if function && separator == ' ' {
            text.push('*');
        }
        rest = &after[separator.len_utf8()..];
    }
    text.replace("(void)", "()")
        .replace("()", "(void)")
        .replace("int MPI_Pcontrol(int level)", "int MPI_Pcontrol(const int level, ...)")
}

/// The declaration of `function`: from its Rust item, or from the table while it is not written.
fn declaration(function: &Function, written: &BTreeMap<String, String>) -> String {
    let text = written.get(function.name).map_or(function.prototype, String::as_str);
    let twin = text.replacen(function.name, &format!("P{}", function.name), 1);
    match function.name.starts_with("MPIR_") {
        true => format!("{text};\n"),
        false => format!("{text};\n{twin};\n"),
    }
}

fn define(constant: &Constant) -> String {
    let Constant { name, kind, value } = constant;
    let pointed = |kind: &str, value: &str| format!("(({kind}){value})");
    let text = match *kind {
        "callback" if *value == "&MPIR_Dup_fn" && *name == "MPI_DUP_FN" => "MPIR_Dup_fn".to_owned(),
        "callback" => {
            let function = callback_type(name);
            pointed(&format!("{function} *"), value.trim_start_matches('&'))
        }
        "char**" if *name == "MPI_ARGVS_NULL" => pointed("char ***", value),
        "void*" | "int*" | "char**" | "MPI_Status*" => pointed(&kind.replacen('*', " *", 1), value),
        _ if kind.starts_with("MPI") => pointed(kind, value),
        _ if value.starts_with('-') => format!("({value})"),
        _ => (*value).to_owned(),
    };
    format!("#define {name} {text}\n")
}

/// The type of a constant that stands for a call-back: `MPI_COMM_DUP_FN` -> `MPI_Comm_copy_attr_function`.
pub fn callback_type(name: &str) -> String {
    match name {
        "MPI_NULL_COPY_FN" | "MPI_DUP_FN" => return "MPI_Copy_function".into(),
        "MPI_NULL_DELETE_FN" => return "MPI_Delete_function".into(),
        "MPI_CONVERSION_FN_NULL" => return "MPI_Datarep_conversion_function".into(),
        "MPI_CONVERSION_FN_NULL_C" => return "MPI_Datarep_conversion_function_c".into(),
        _ => {}
    }
    let object = match name.split('_').nth(1) {
        Some("COMM") => "Comm",
        Some("TYPE") => "Type",
        _ => "Win",
    };
    let what = if name.contains("DELETE") { "delete" } else { "copy" };
    format!("MPI_{object}_{what}_attr_function")
}

/// Constants that are enumerators of a type of their own.
pub fn is_enumerator(name: &str) -> bool {
    name.starts_with("MPI_T_CB_") || name.starts_with("MPI_T_SOURCE_")
}

/// Those of `constants` that begin with `prefix`, in the order of their values.
pub fn enumerators(constants: &[Constant], prefix: &str) -> String {
    let mut all: Vec<&Constant> = constants.iter().filter(|c| c.name.starts_with(prefix)).collect();
    all.sort_by_key(|c| c.value.parse::<i32>().unwrap());
    let lines: Vec<String> = all.iter().map(|c| format!("    {} = {}", c.name, c.value)).collect();
    lines.join(",\n")
}

fn conversions() -> String {
    let handles = "Comm Type:Datatype Group Info Request Op Errhandler Win Message Session";
    let mut text = String::new();
    for handle in handles.split(' ') {
        let (name, kind) = handle.split_once(':').unwrap_or((handle, handle));
        for prefix in ["MPI", "PMPI"] {
            writeln!(text, "#define {prefix}_{name}_c2f(handle) ((MPI_Fint)(handle))").unwrap();
            writeln!(text, "#define {prefix}_{name}_f2c(handle) ((MPI_{kind})(handle))").unwrap();
        }
    }
    text
}

/// The text of include/mpi.h.
fn header() -> String {
    let constants = tables::constants();
    let defines = constants.iter().filter(|c| !is_enumerator(c.name)).map(define);
    let written = prototypes();
    let functions = functions();
    let declared = functions.iter().filter(|f| f.declared);
    let declarations = declared.map(|f| declaration(f, &written));
    include_str!("mpi.h.in")
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@ENUM MPI_T_CB_@", &enumerators(&constants, "MPI_T_CB_"))
        .replace("@ENUM MPI_T_SOURCE_@", &enumerators(&constants, "MPI_T_SOURCE_"))
        .replace("@CONSTANTS@", defines.collect::<String>().trim_end())
        .replace("@PROTOTYPES@", declarations.collect::<String>().trim_end())
        .replace("@CONVERSIONS@", conversions().trim_end())
}

#[test]
fn generated_header_is_fresh() {
    fresh("include/mpi.h", &header());
}

#[test]
fn rust_signatures_are_those_of_the_table() {
    let written = prototypes();
    let mut wrong = String::new();
    for function in functions() {
        let Some(prototype) = written.get(function.name) else {
            continue;
        };
        let prototype: &'static str = prototype.replace("(*ranges)[3]", "ranges[][3]").leak();
        let found = Function { prototype, ..function };
        let types = |f: &Function| f.parameters().into_iter().map(|p| p.rust).collect::<Vec<_>>();
        let table = functions().into_iter().find(|f| f.name == found.name).unwrap();
        if types(&found) != types(&table) || found.returns() != table.returns() {
            writeln!(wrong, "{prototype}\n    should be {}", table.prototype).unwrap();
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(written.len() > 10, "cbindgen found {written:?}");
}

#[test]
fn every_written_function_has_a_prototype() {
    let prototypes = prototypes();
    for (name, place) in tables::written() {
        let path = place.path.strip_prefix(root()).unwrap().display();
        assert!(
            !place.item || prototypes.contains_key(&name),
            "cbindgen does not see {name} of {path}"
        );
    }
}
