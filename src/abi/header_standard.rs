//! Makes include/mpi_abi.h, the header of the standard ABI: mpi_abi.h.in with the constants of standard.tsv
//! and the prototypes of functions.tsv, which are those of the Rust functions (`header.rs` has the test).

use super::header::{callback_type, enumerators, is_enumerator};
use super::tables::{self, Constant, fresh};

fn define(constant: &Constant) -> String {
    let Constant { name, kind, value } = constant;
    let number: i64 = value.parse().unwrap();
    let text = match kind.split_once(':') {
        Some(("handle", handle)) => format!("(({handle}){number:#x})"),
        Some(("ptr", pointed)) => format!("(({}){number})", pointed.replacen('*', " *", 1)),
        _ if *kind == "callback-ptr" => format!("(({} *){number})", callback_type(name)),
        _ if *kind == "MPI_Offset" => format!("(({kind}){number})"),
        _ if number < 0 => format!("({number})"),
        _ => number.to_string(),
    };
    format!("#define {name} {text}\n")
}

/// The text of include/mpi_abi.h.
fn header() -> String {
    let constants = tables::standard_constants();
    let defines = constants.iter().filter(|c| !is_enumerator(c.name)).map(define);
    let functions = tables::functions();
    let standard = functions.iter().filter(|f| tables::is_standard(f));
    let declarations = standard.map(|f| {
        let text = f.prototype;
        format!("{text};\n{};\n", text.replacen(f.name, &format!("P{}", f.name), 1))
    });
    include_str!("mpi_abi.h.in")
        .replace("@VERSION@", env!("CARGO_PKG_VERSION"))
        .replace("@ENUM MPI_T_CB_@", &enumerators(&constants, "MPI_T_CB_"))
        .replace("@ENUM MPI_T_SOURCE_@", &enumerators(&constants, "MPI_T_SOURCE_"))
        .replace("@CONSTANTS@", defines.collect::<String>().trim_end())
        .replace("@PROTOTYPES@", declarations.collect::<String>().trim_end())
}

#[test]
fn generated_standard_header_is_fresh() {
    fresh("include/mpi_abi.h", &header());
}
