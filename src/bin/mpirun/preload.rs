//! Our libraries before those that a program was linked with: `-preload` and `-shared-heap`.
//!
//! A program has MPICH's ABI or the standard one, and must get the library of its own: the same name takes other
//! handles in each. Which one that is, the program's loader tells. It is MPICH's where nothing tells, as for scripts.

use crate::arguments::{App, Job};
use crate::start::Failure;
use mpi::version;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Names and values of variables.
pub type Environment = BTreeMap<OsString, OsString>;

/// What the names of libraries of the standard ABI begin with.
const STANDARD: &str = "libmpi_abi.so";

/// What a job asks for.
pub struct Preload {
    heap: Option<PathBuf>,
    /// Of MPICH's ABI.
    library: Option<PathBuf>,
}

impl Preload {
    /// # Errors
    /// What is not installed, or a variable's wrong value.
    pub fn new(job: &Job) -> Result<Preload, Failure> {
        let asked = match job.variable("NEARMPI_SHARED_HEAP").as_deref() {
            None | Some("" | "0") => false,
            Some("1") => true,
            Some(other) => {
                return Err(Failure::new(format!(
                    "NEARMPI_SHARED_HEAP is \"{other}\" but must be 0 or 1"
                )));
            }
        };
        let heap = (job.shared_heap || asked).then(|| installed("-shared-heap", &["libnearmpi-heap.so"]));
        let library = job
            .preload
            .then(|| installed("-preload", &["libmpi.so.12", "libmpi.so"]));
        Ok(Preload {
            heap: heap.transpose()?,
            library: library.transpose()?,
        })
    }

    /// Adds to the variables of the program `file` what makes it load our libraries first.
    ///
    /// # Errors
    /// The standard ABI's library is not installed, and the program needs it.
    pub fn add(&self, app: &App, file: &OsStr, env: &mut Environment) -> Result<(), Failure> {
        if let Some(heap) = &self.heap {
            preload(env, heap)?;
        }
        let Some(mpich) = &self.library else {
            return Ok(());
        };
        let lib = mpich.parent().unwrap_or(Path::new("/")).display().to_string();
        put_before(env, "LD_LIBRARY_PATH", format!("{lib}:{lib}/compat").as_ref());
        let library = match has_standard_abi(app, file, env) {
            true => installed("-preload", &[version::STANDARD_SONAME])?,
            false => mpich.clone(),
        };
        preload(env, &library)?;
        Ok(())
    }
}

/// Has the loader load `library` first.
///
/// # Errors
/// Its path has what ends one for the loader, ld.so(8).
fn preload(env: &mut Environment, library: &Path) -> Result<(), Failure> {
    if library
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .any(|byte| b" :".contains(byte))
    {
        return Err(Failure::new(format!(
            "{:?} cannot be preloaded, because its path has a space or a colon: install nearmpi in another folder",
            library
        )));
    }
    put_before(env, "LD_PRELOAD", library.as_os_str());
    Ok(())
}

/// Puts `value` into a list, before what is there; but tools stand between the program and MPI (MPI-4.1 §15.2),
/// another MPI does not.
fn put_before(env: &mut Environment, name: &str, value: &OsStr) {
    let joined = match env.get(OsStr::new(name)).filter(|old| !old.is_empty()) {
        Some(old) if is_mpi(value) && !is_mpi(old) => [old, value].join(OsStr::new(":")),
        Some(old) => [value, old].join(OsStr::new(":")),
        None => value.into(),
    };
    env.insert(name.into(), joined);
}

/// Whether a list of libraries has an MPI library; mpiP, a tool, is none.
fn is_mpi(list: &OsStr) -> bool {
    let names = ["libmpi.so", "libmpich.so", STANDARD];
    list.to_string_lossy()
        .split([':', ' '])
        .filter_map(|file| file.rsplit('/').next())
        .any(|name| names.iter().any(|mpi| name.starts_with(mpi)))
}

/// Whether a program needs a library of the standard ABI, itself or by way of another library.
fn has_standard_abi(app: &App, file: &OsStr, env: &Environment) -> bool {
    let folder = app.folder.as_deref().unwrap_or(Path::new(""));
    let path = env.get(OsStr::new("PATH")).map(OsString::as_os_str).unwrap_or_default();
    let program = match file.as_encoded_bytes().contains(&b'/') {
        true => Some(folder.join(file)),
        false => std::env::split_paths(path)
            .map(|place| folder.join(place).join(file))
            .find(|file| file.is_file()),
    };
    let program = program.and_then(|program| std::path::absolute(program).ok());
    let Some((program, loader)) = program.and_then(|program| loader(&program).map(|loader| (program, loader))) else {
        return false;
    };
    let mut list = Command::new(loader);
    list.arg("--list").arg(program).env_clear().envs(env);
    // Which library it does not find it says as an error.
    let list = list.stdin(Stdio::null()).output();
    list.is_ok_and(|list| names_standard_abi(&String::from_utf8_lossy(&[list.stdout, list.stderr].concat())))
}

/// Whether one of these words is a library of the standard ABI.
fn names_standard_abi(said: &str) -> bool {
    let mut files = said.split_whitespace().filter_map(|word| word.rsplit('/').next());
    files.any(|file| file.starts_with(STANDARD))
}

/// The loader that an ELF file of 64 bits names.
fn loader(program: &Path) -> Option<PathBuf> {
    let file = File::open(program).ok()?;
    let read = |at, len| {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
    };
    let header = read(0, 64)?;
    header.starts_with(b"\x7fELF\x02").then_some(())?;
    let segments = read(word(&header, 32), short(&header, 54) * short(&header, 56))?;
    // PT_INTERP is type 3.
    let mut segments = segments.chunks_exact(short(&header, 54).max(56));
    let interpreter = segments.find(|segment| segment.starts_with(&[3, 0, 0, 0]))?;
    let mut path = read(word(interpreter, 8), word(interpreter, 32).min(4096) as usize)?;
    path.pop_if(|end| *end == 0);
    Some(OsString::from_vec(path).into())
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn short(bytes: &[u8], at: usize) -> usize {
    u16::from_le_bytes([bytes[at], bytes[at + 1]]).into()
}

/// The first of these libraries that is installed with this mpirun, which `option` needs.
fn installed(option: &str, names: &[&str]) -> Result<PathBuf, Failure> {
    let program = std::env::current_exe().map_err(|e| Failure::new(format!("cannot find mpirun itself: {e}")))?;
    let bin = program.parent().unwrap_or(Path::new("/"));
    let folders = [bin.join("../lib"), bin.to_path_buf()];
    let candidates = folders.iter().flat_map(|f| names.iter().map(|name| f.join(name)));
    candidates
        .filter_map(|path| path.canonicalize().ok().map(|_| path))
        .find_map(|path| std::path::absolute(path.parent()?.canonicalize().ok()?.join(path.file_name()?)).ok())
        .ok_or_else(|| {
            Failure::new(format!(
                "{option}: no {} in {} or beside mpirun",
                names[0],
                folders[0].display()
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_name_their_loader_and_other_files_do_not() {
        let own = std::env::current_exe().unwrap();
        assert!(loader(&own).unwrap().is_file());
        for other in ["/dev/null", "/etc/passwd", "/none"] {
            assert_eq!(loader(Path::new(other)), None, "{other}");
        }
    }

    #[test]
    fn a_folder_of_that_name_is_no_library() {
        assert!(names_standard_abi(
            "\tlibmpi_abi.so.1 => /lib/libmpi_abi.so.1 (0x7f00)\n"
        ));
        assert!(names_standard_abi(
            "error while loading shared libraries: libmpi_abi.so.1: cannot open"
        ));
        assert!(!names_standard_abi("\tlibx.so => /libmpi_abi.so.d/libx.so (0x7f00)\n"));
    }

    #[test]
    fn lists_with_an_mpi_library_are_known() {
        for list in ["/a/libmpi.so.40", "/libx.so:/libmpi_abi.so.1", "libmpich.so.12 /b"] {
            assert!(is_mpi(list.as_ref()), "{list}");
        }
        assert!(!is_mpi("/libmpi.so.d/libmpiP.so".as_ref()));
    }
}
