//! What several tests need: programs that run on the library built beside them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The shared library that cargo built together with this test, beside it.
pub fn library() -> PathBuf {
    std::env::current_exe().unwrap().with_file_name("libmpi.so")
}

/// Puts the library into folder `work` under the name that programs ask for; with that file.
pub fn link_library(work: &Path) -> PathBuf {
    let name = work.join("libmpi.so.12");
    let _ = std::fs::remove_file(&name);
    std::fs::hard_link(library(), &name).unwrap();
    name
}

/// Compiles `source` to `work/program` and puts the library beside it, as `libmpi.so.12`.
#[allow(dead_code)] // Not in every test.
pub fn compile(work: &Path, source: &str) -> PathBuf {
    std::fs::create_dir_all(work).unwrap();
    let library = link_library(work);
    let (file, program) = (work.join("program.c"), work.join("program"));
    std::fs::write(&file, source).unwrap();
    let done = Command::new("cc")
        .arg(concat!("-I", env!("CARGO_MANIFEST_DIR"), "/include"))
        .args([&file, &library])
        .arg("-o")
        .arg(&program)
        .status();
    assert!(done.unwrap().success());
    program
}
