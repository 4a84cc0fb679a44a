//! Gives the shared library the soname that programs built for the MPICH ABI ask for, binds its own calls to itself, lays together
//! what common programs run (`scripts/order`), lists the functions of the ABI that nobody has written yet, and tells `nearmpi-info`
//! which compiler built it.

#[allow(dead_code)]
#[path = "src/abi/tables.rs"]
mod tables;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=src/abi");
    println!("cargo:rerun-if-changed=src/mpi/op/long_double.c");
    cc::Build::new()
        .file("src/mpi/op/long_double.c")
        .opt_level(2)
        .compile("nearmpi_long_double");
    // Code lies in memory as it lies in the file, modulo 64 KiB: where a page is touched the kernel maps 64 KiB of memory's addresses
    // and, since 6.18, whole folios of the page cache, which would be two folios each time.
    let aligned = "-Wl,-z,max-page-size=65536";
    for arg in ["-Wl,-soname,libmpi.so.12", "-Wl,-Bsymbolic-functions", aligned] {
        println!("cargo:rustc-cdylib-link-arg={arg}");
    }
    // Not every linker that a user may choose knows linker scripts; lld, which is the default, and GNU ld do.
    let flags = std::env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    if !flags.contains("fuse-ld") {
        let root = std::env::var("CARGO_MANIFEST_DIR").unwrap();
        println!("cargo:rustc-cdylib-link-arg=-Wl,-T,{root}/src/abi/order.ld");
    }
    let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").unwrap());
    std::fs::write(out.join("unsupported_functions.rs"), tables::unsupported()).unwrap();
    std::fs::write(out.join("functions.rs"), tables::names()).unwrap();
    let rustc = std::env::var_os("RUSTC").expect("cargo names the compiler");
    let version = std::process::Command::new(rustc).arg("--version").output();
    let version = version.expect("the compiler that cargo names starts").stdout;
    println!(
        "cargo:rustc-env=NEARMPI_RUSTC={}",
        String::from_utf8_lossy(&version).trim()
    );
}
