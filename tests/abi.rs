//! The built library and its header as a C programmer meets them: symbols, layout, interposition.

mod common;

use common::{library, link_library};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A fresh directory for what a test compiles.
fn work(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Runs a command; its output if it succeeds.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// Compiles C or C++ `source` with our header.
fn compile(compiler: &str, source: &str, output: &Path, arguments: &[&str]) {
    let extension = if compiler == "c++" { "cpp" } else { "c" };
    let file = output.with_extension(extension);
    std::fs::write(&file, source).unwrap();
    let include = format!("-I{}", root().join("include").display());
    run(Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Werror", &include])
        .arg(&file)
        .arg("-o")
        .arg(output)
        .args(arguments));
}

/// First column of a table in src/abi.
fn names(table: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("src/abi").join(table)).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|line| line.split('\t').next().unwrap().to_owned()).collect()
}

/// Data symbols of MPICH's library, the Fortran libraries' included, and their sizes.
const OBJECTS: &[(&str, u64)] = &[
    ("MPI_UNWEIGHTED", 8),
    ("MPI_WEIGHTS_EMPTY", 8),
    ("MPI_F_STATUS_IGNORE", 8),
    ("MPI_F_STATUSES_IGNORE", 8),
    ("MPI_F08_STATUS_IGNORE", 8),
    ("MPI_F08_STATUSES_IGNORE", 8),
    ("MPI_T_PVAR_ALL_HANDLES", 8),
    ("MPIR_F08_MPI_STATUS_IGNORE_OBJ", 20),
    ("MPIR_F08_MPI_STATUSES_IGNORE_OBJ", 20),
    ("MPIR_F08_MPI_BOTTOM", 4),
    ("MPIR_F08_MPI_IN_PLACE", 4),
    ("MPIR_C_MPI_UNWEIGHTED", 8),
    ("MPIR_C_MPI_WEIGHTS_EMPTY", 8),
    ("MPIR_fortran_true", 4),
    ("MPIR_fortran_false", 4),
    ("MPII_F_TRUE", 4),
    ("MPII_F_FALSE", 4),
    ("MPIR_F_MPI_BOTTOM", 8),
    ("MPIR_F_MPI_IN_PLACE", 8),
    ("MPIR_F_MPI_BUFFER_AUTOMATIC", 8),
    ("MPIR_F_MPI_UNWEIGHTED", 8),
    ("MPIR_F_MPI_WEIGHTS_EMPTY", 8),
    ("MPI_F_ARGVS_NULL", 8),
    ("MPI_F_ERRCODES_IGNORE", 8),
];

#[test]
fn every_symbol_of_the_abi_is_exported() {
    let output = run(Command::new("nm").args(["-D", "--defined-only", "-S"]).arg(library()));
    let mut functions = BTreeSet::new();
    let mut objects = BTreeSet::new();
    for line in output.lines() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [_, _, "T", name] => _ = functions.insert(name.to_owned()),
            [_, size, "B" | "D" | "R", name] => {
                objects.insert((name.to_owned(), u64::from_str_radix(size, 16).unwrap()));
            }
            _ => (),
        }
    }
    let mut missing = Vec::new();
    for name in names("functions.tsv") {
        let twin = format!("P{name}");
        if name.starts_with("MPI_") || name.starts_with("MPIX_") {
            missing.extend((!functions.contains(&twin)).then_some(twin));
        }
        missing.extend((!functions.contains(&name)).then_some(name));
    }
    assert!(missing.is_empty(), "not exported: {missing:?}");
    for (name, size) in OBJECTS {
        assert!(objects.contains(&((*name).to_owned(), *size)), "{name} of {size} bytes");
    }
}

#[test]
fn the_library_has_the_soname_and_needs_only_libc() {
    let output = run(Command::new("readelf").arg("-dW").arg(library()));
    assert!(output.contains("Library soname: [libmpi.so.12]"), "{output}");
    let allowed = ["libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"];
    for line in output.lines().filter(|line| line.contains("(NEEDED)")) {
        assert!(allowed.iter().any(|name| line.contains(name)), "{line}");
    }
}

#[test]
fn the_header_says_what_the_table_says() {
    let mut source = String::from("#include <mpi.h>\n#include <stddef.h>\n");
    let table = std::fs::read_to_string(root().join("src/abi/constants.tsv")).unwrap();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let [name, kind, value] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        if !["string", "callback"].contains(&kind)
            && !kind.contains('*')
            && !kind.starts_with("MPI_T_")
            && kind != "MPI_File"
        {
            source += &format!("_Static_assert((int)({name}) == (int)({value}), \"{name}\");\n");
        }
    }
    source += "_Static_assert(sizeof(MPI_Status) == 20 && offsetof(MPI_Status, MPI_ERROR) == 16, \"status\");\n\
               int main(void) { return MPI_STATUS_IGNORE != (MPI_Status *)1 || MPI_IN_PLACE != (void *)-1; }\n";
    let program = work("constants").join("constants");
    compile("cc", &source, &program, &["-std=c11", "-pedantic"]);
    run(&mut Command::new(&program));
    let source = "#include <mpi.h>\nint main() { return MPI_COMM_WORLD == MPI_COMM_NULL; }\n";
    compile("c++", source, &program, &["-std=c++98", "-Wno-long-long"]);
}

/// By its own name and by mpi.h's, in the oldest and newer languages.
#[test]
fn the_standard_header_says_what_its_table_says() {
    let mut source = String::from("#include <mpi.h>\n#include <stddef.h>\nint main(void)\n{\n");
    let table = std::fs::read_to_string(root().join("src/abi/standard.tsv")).unwrap();
    for (number, line) in table.lines().filter(|line| !line.starts_with('#')).enumerate() {
        let [name, _, value] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        source += &format!("    if ((long)({name}) != {value}) return {};\n", number % 250 + 1);
    }
    source += "    return sizeof(MPI_Status) != 32 || offsetof(MPI_Status, MPI_ERROR) != 8;\n}\n";
    let program = work("standard").join("constants");
    for (compiler, standard) in [("cc", "c89"), ("cc", "c11"), ("c++", "c++98"), ("c++", "c++17")] {
        let standard = format!("-std={standard}");
        compile(compiler, &source, &program, &[&standard, "-pedantic", "-DMPI_ABI"]);
        run(&mut Command::new(&program));
    }
    let source = source.replace("mpi.h", "mpi_abi.h") + "int other(void) { return MPI_Barrier(MPI_COMM_WORLD); }\n";
    compile("cc", &source, &program, &["-c"]);
}

/// A tool that replaces `MPI_Error_class` and calls `PMPI_Error_class` reaches the library once.
#[test]
fn a_tool_can_stand_between_program_and_library() {
    let work = work("interposition");
    let program = r#"
        #include <mpi.h>
        #include <stdio.h>
        int main(void)
        {
            int class = -1;
            MPI_Error_class(MPI_ERR_RANK, &class);
            printf("class %d\n", class);
            return 0;
        }
    "#;
    let tool = r#"
        #include <mpi.h>
        #include <stdio.h>
        static int calls;
        int MPI_Error_class(int errorcode, int *errorclass)
        {
            calls++;
            return PMPI_Error_class(errorcode, errorclass);
        }
        __attribute__((destructor)) static void tell(void) { printf("calls %d\n", calls); }
    "#;
    let library = library();
    link_library(&work);
    compile("cc", program, &work.join("program"), &[library.to_str().unwrap()]);
    compile("cc", tool, &work.join("tool.so"), &["-shared", "-fPIC"]);
    let output = run(Command::new(work.join("program"))
        .env("LD_LIBRARY_PATH", &work)
        .env("LD_PRELOAD", work.join("tool.so")));
    assert_eq!(output, "class 6\ncalls 1\n");
}

/// What a call before initialization prints and how the process ends.
#[test]
fn a_call_outside_the_lifetime_ends_the_process() {
    let work = work("lifetime");
    let program = r#"
        #include <mpi.h>
        int main(void)
        {
            MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
            return 0;
        }
    "#;
    let library = library();
    link_library(&work);
    compile("cc", program, &work.join("program"), &[library.to_str().unwrap()]);
    let output = Command::new(work.join("program"))
        .env("LD_LIBRARY_PATH", &work)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.starts_with("Attempting to use an MPI routine (MPI_Comm_set_errhandler) before initializing MPI"),
        "{text}"
    );
}

/// Variables of the library as a program sees that holds copies of them (R_X86_64_COPY): both sides must mean one
/// object. The conversion that must fail shows that the library reads what the program wrote.
#[test]
fn data_symbols_are_shared_with_the_program() {
    let work = work("data");
    let program = r#"
        #include <mpi.h>
        #include <stdio.h>
        int main(int argc, char **argv)
        {
            static MPI_Fint ignore[5];
            MPI_Status status;
            (void)argv;
            if (!MPI_UNWEIGHTED || !MPI_WEIGHTS_EMPTY || MPI_UNWEIGHTED == MPI_WEIGHTS_EMPTY)
                return 1;
            if (!MPI_F08_STATUS_IGNORE || MPI_F08_STATUS_IGNORE == MPI_F08_STATUSES_IGNORE || MPI_F_STATUS_IGNORE)
                return 2;
            if (argc > 1)
                MPI_F_STATUS_IGNORE = ignore;
            MPI_Status_f2c(ignore, &status);
            return 0;
        }
    "#;
    let library = library();
    link_library(&work);
    compile(
        "cc",
        program,
        &work.join("program"),
        &["-no-pie", library.to_str().unwrap()],
    );
    let run = |argument: Option<&str>| {
        let mut command = Command::new(work.join("program"));
        let output = command.args(argument).env("LD_LIBRARY_PATH", &work).output().unwrap();
        output.status.code()
    };
    assert_eq!(run(None), Some(0));
    assert_eq!(run(Some("ignore")), Some(12), "MPI_ERR_ARG");
}
