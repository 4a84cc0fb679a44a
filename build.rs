//! Gives the shared library the soname that programs built for the MPICH ABI ask for,
//! and binds its own calls to itself.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    for arg in ["-Wl,-soname,libmpi.so.12", "-Wl,-Bsymbolic-functions"] {
        println!("cargo:rustc-cdylib-link-arg={arg}");
    }
}
