//! What this build calls itself, and which MPICH it can stand in for.

/// nearmpi's own version.
pub const NEARMPI: &str = env!("CARGO_PKG_VERSION");

/// The MPICH release whose header, constants and symbols this library follows.
pub const MPICH: &str = "5.0.2";

/// That release's libtool interface version, `current:revision:age`.
pub const ABI: &str = "18:2:6";

/// The name that programs ask the dynamic linker for.
pub const SONAME: &str = "libmpi.so.12";

/// The same for programs of the standard ABI of MPI-5.0.
pub const STANDARD_SONAME: &str = "libmpi_abi.so.1";

/// The installed file's full name: soname, age, revision.
pub const FILE: &str = "libmpi.so.12.6.2";

/// `5.0.2 (ABI; this is nearmpi 0.1.0)`: the version scripts look for, and whose it is.
pub fn line() -> String {
    format!("{MPICH} (ABI; this is nearmpi {NEARMPI})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_follows_from_soname_and_interface_version() {
        let numbers: Vec<u32> = ABI.split(':').map(|part| part.parse().unwrap()).collect();
        let [current, revision, age] = numbers[..] else {
            panic!("three numbers in {ABI}")
        };
        assert_eq!(SONAME, format!("libmpi.so.{}", current - age));
        assert_eq!(FILE, format!("{SONAME}.{age}.{revision}"));
    }
}
