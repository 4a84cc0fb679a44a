//! Where headers and libraries lie: beside this program, so that a prefix may be moved.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};

/// A nearmpi installation.
pub struct Install {
    /// Holds `bin`, `include`, `lib`, `etc`.
    prefix: PathBuf,
}

/// A Fortran interface made for the MPICH ABI.
#[derive(Debug, PartialEq, Eq)]
pub struct Fortran {
    /// Holds mpif.h and the modules.
    pub include: PathBuf,
    /// Holds the library.
    pub lib: PathBuf,
    /// `mpifort` or `mpichfort`.
    pub name: &'static str,
}

impl Install {
    /// The installation this program was started from.
    ///
    /// # Errors
    /// A sentence when the kernel does not say where the program lies.
    pub fn find() -> Result<Install, String> {
        let program = std::env::current_exe().map_err(|error| format!("/proc/self/exe: {error}"))?;
        let prefix = program.parent().and_then(Path::parent);
        let prefix = prefix.ok_or("this program lies in no bin directory")?.to_owned();
        Ok(Install { prefix })
    }

    /// Where mpi.h lies.
    pub fn include(&self) -> PathBuf {
        self.prefix.join("include")
    }

    /// Where libmpi.so lies.
    pub fn lib(&self) -> PathBuf {
        self.prefix.join("lib")
    }

    /// What stands in for a distribution's own name of MPICH's library.
    pub fn compat(&self) -> PathBuf {
        self.prefix.join("lib/compat/libmpich.so.12")
    }

    /// Where configuration files lie.
    pub fn etc(&self) -> PathBuf {
        self.prefix.join("etc")
    }

    /// The Fortran interface to use: what `NEARMPI_FORTRAN` names, or the system's.
    ///
    /// # Errors
    /// A sentence that says what to install.
    pub fn fortran(&self) -> Result<Fortran, String> {
        let named = std::env::var_os("NEARMPI_FORTRAN").map(PathBuf::from);
        let places = match &named {
            Some(prefix) => vec![(prefix.join("include"), prefix.join("lib"))],
            None => vec![
                (self.include(), self.lib()),
                (
                    format!("/usr/include/{ARCH}-linux-gnu/mpich").into(),
                    format!("/usr/lib/{ARCH}-linux-gnu").into(),
                ),
            ],
        };
        places
            .into_iter()
            .find_map(|(include, lib)| at(include, lib))
            .ok_or_else(|| match named {
                Some(prefix) => format!(
                    "NEARMPI_FORTRAN={}: no include/mpif.h there, or no lib/libmpifort.so",
                    prefix.display()
                ),
                None => NO_FORTRAN.into(),
            })
    }
}

const NO_FORTRAN: &str = "nearmpi has no Fortran interface of its own; it uses MPICH's, which runs on top of nearmpi's \
    library. On Debian: apt-get install gfortran libmpich-dev. Elsewhere set NEARMPI_FORTRAN to the prefix of a MPICH \
    with include/mpif.h and lib/libmpifort.so";

/// The Fortran interface in these directories, if there is one.
fn at(include: PathBuf, lib: PathBuf) -> Option<Fortran> {
    let has = |name: &&str| lib.join(format!("lib{name}.so")).exists();
    let name = ["mpifort", "mpichfort"].into_iter().find(has)?;
    include
        .join("mpif.h")
        .exists()
        .then_some(Fortran { include, lib, name })
}
