//! The library with the MPICH ABI: `libmpi.so.12` in the folder of this one.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};
use std::error::Error;
use std::ffi::{CStr, OsStr, c_void};
use std::io::{self, Write};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of that library, which is looked up when it is called first.
pub struct Function {
    name: &'static str,
    address: AtomicPtr<c_void>,
}

impl Function {
    /// The function `name`, which ends in NUL.
    pub const fn named(name: &'static str) -> Function {
        Function {
            name,
            address: AtomicPtr::new(null_mut()),
        }
    }

    /// Where it is.
    #[inline]
    pub fn address(&self) -> *mut c_void {
        match self.address.load(Ordering::Relaxed) {
            address if address.is_null() => self.find(),
            address => address,
        }
    }

    #[cold]
    #[inline(never)]
    fn find(&self) -> *mut c_void {
        let address = symbol(self.name);
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

/// The address of `name`, which ends in NUL. The process ends if there is no such thing: nothing of MPI works then.
pub fn symbol(name: &str) -> *mut c_void {
    // SAFETY: only its address is used, by who knows its type.
    let found: Result<Symbol<*mut c_void>, _> = unsafe { library().get(name.as_bytes()) };
    match found {
        Ok(symbol) => symbol.as_raw_ptr(),
        Err(error) => give_up("the libmpi.so.12 beside it is of another version", &error),
    }
}

fn library() -> &'static Library {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let file = folder().join("libmpi.so.12");
        // Its names stay its own: the program's calls are for this library.
        // SAFETY: loading libmpi.so.12 runs no code of ours.
        match unsafe { Library::open(Some(&file), RTLD_NOW | RTLD_LOCAL) } {
            Ok(library) => library,
            Err(error) => give_up("it needs libmpi.so.12 beside it", &error),
        }
    })
}

/// Where this library lies, by whatever name it was loaded.
fn folder() -> PathBuf {
    let here = folder as fn() -> PathBuf as *const c_void;
    let mut info = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: an address of this library, and a structure to fill.
    if unsafe { libc::dladdr(here, info.as_mut_ptr()) } == 0 {
        give_up("the loader does not know where it lies", &io::Error::last_os_error());
    }
    // SAFETY: dladdr has filled it; the name lives as long as this library is loaded.
    let name = unsafe { CStr::from_ptr(info.assume_init().dli_fname) };
    let name = Path::new(OsStr::from_bytes(name.to_bytes()));
    // From another folder than this one now, perhaps.
    let file = match name.is_absolute() {
        true => name.canonicalize().ok(),
        false => mapped_at(here.addr()),
    };
    let file = file.as_deref().unwrap_or(name);
    file.parent().unwrap_or(Path::new(".")).to_owned()
}

/// The file that lies at an address of this process.
fn mapped_at(address: usize) -> Option<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| {
        let range = line.split([' ', '-']).map(|end| usize::from_str_radix(end, 16));
        let mut ends = range.take(2).map_while(Result::ok);
        ends.next().is_some_and(|start| start <= address) && ends.next().is_some_and(|end| address < end)
    })?;
    line.find('/').map(|at| PathBuf::from(&line[at..]))
}

fn give_up(what: &str, error: &dyn Error) -> ! {
    let why = error.source().unwrap_or(error);
    // Who cannot be told is not told.
    let _ = writeln!(io::stderr(), "nearmpi: libmpi_abi.so.1 does not work: {what}: {why}");
    std::process::exit(1)
}
