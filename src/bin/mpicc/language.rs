//! The names this program goes by, and what differs between C, C++ and Fortran.

use std::ffi::OsStr;
use std::path::Path;

/// Which compiler a name stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// mpicc, mpicc_abi.
    C,
    /// mpicxx, mpic++, mpiCC, mpicxx_abi, mpic++_abi.
    Cxx,
    /// mpifort, mpif77, mpif90.
    Fortran,
}

/// `mpicxx` from `/usr/bin/mpicxx` or `mpicxx.nearmpi`.
pub fn called_as(program: &OsStr) -> String {
    let file = Path::new(program).file_name().unwrap_or(OsStr::new("mpicc"));
    let name = file.to_string_lossy();
    name.split('.').next().unwrap_or("mpicc").to_owned()
}

/// Whether a program name stands for the standard ABI.
pub fn is_standard(name: &str) -> bool {
    name.ends_with("_abi")
}

impl Language {
    /// The language of a program name; C for a name it does not know.
    pub fn of(name: &str) -> Language {
        match name.strip_suffix("_abi").unwrap_or(name) {
            "mpicxx" | "mpic++" | "mpiCC" => Language::Cxx,
            "mpifort" | "mpif77" | "mpif90" | "mpifc" => Language::Fortran,
            _ => Language::C,
        }
    }

    /// The language's name for people.
    pub fn name(self) -> &'static str {
        match self {
            Language::C => "C",
            Language::Cxx => "C++",
            Language::Fortran => "Fortran",
        }
    }

    /// The compiler when nobody names one.
    pub fn compiler(self) -> &'static str {
        match self {
            Language::C => "cc",
            Language::Cxx => "c++",
            Language::Fortran => "gfortran",
        }
    }

    /// `-cc=`, `-cxx=` or `-fc=`: the options that name the compiler.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            Language::C => &["-cc="],
            Language::Cxx => &["-cxx=", "-CC="],
            Language::Fortran => &["-fc=", "-f90=", "-f77="],
        }
    }

    /// Environment variables that name the compiler, strongest first.
    pub fn variables(self) -> &'static [&'static str] {
        match self {
            Language::C => &["MPICH_CC", "OMPI_CC"],
            Language::Cxx => &["MPICH_CXX", "OMPI_CXX"],
            Language::Fortran => &["MPICH_FC", "MPICH_F90", "MPICH_F77", "OMPI_FC", "OMPI_F90", "OMPI_F77"],
        }
    }

    /// Open MPI's variable of compiler flags.
    pub fn flags_variable(self) -> &'static str {
        match self {
            Language::C => "OMPI_CFLAGS",
            Language::Cxx => "OMPI_CXXFLAGS",
            Language::Fortran => "OMPI_FCFLAGS",
        }
    }

    /// MPICH's variable that names a profile.
    pub fn profile_variable(self) -> &'static str {
        match self {
            Language::C => "MPICC_PROFILE",
            Language::Cxx => "MPICXX_PROFILE",
            Language::Fortran => "MPIFORT_PROFILE",
        }
    }

    /// The name of the compiler in a configuration file.
    pub fn compiler_setting(self) -> &'static str {
        match self {
            Language::C => "CC",
            Language::Cxx => "CXX",
            Language::Fortran => "FC",
        }
    }

    /// The word that configuration files begin with.
    pub fn stem(self) -> &'static str {
        match self {
            Language::C => "mpicc",
            Language::Cxx => "mpicxx",
            Language::Fortran => "mpifort",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_chooses_language() {
        for (program, language) in [
            ("/opt/x/bin/mpicc", Language::C),
            ("mpicc.nearmpi", Language::C),
            ("./mpic++", Language::Cxx),
            ("mpiCC", Language::Cxx),
            ("mpicxx", Language::Cxx),
            ("mpicc_abi", Language::C),
            ("/x/mpic++_abi", Language::Cxx),
            ("mpif77", Language::Fortran),
            ("/a.b/mpif90", Language::Fortran),
        ] {
            assert_eq!(Language::of(&called_as(OsStr::new(program))), language, "{program}");
        }
    }
}
