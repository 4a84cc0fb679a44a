//! What several tests need: programs that run on the library built beside them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles `source` to `work/program` and puts the library beside it, as `libmpi.so.12`.
pub fn compile(work: &Path, source: &str) -> PathBuf {
    let library = work.join("libmpi.so.12");
    let built = std::env::current_exe().unwrap().with_file_name("libmpi.so");
    std::fs::create_dir_all(work).unwrap();
    let _ = std::fs::remove_file(&library);
    std::fs::hard_link(built, &library).unwrap();
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
