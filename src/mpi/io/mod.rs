//! Files (MPI-4.1 §14).
//!
//! | module | owns |
//! |---|---|
//! | [`open`] | opening and closing, sizes, access modes |
//! | [`view`] | which bytes of a file a process sees |
//! | [`pointer`] | individual and shared file pointers, and what reads and writes at them |
//! | [`transfer`] | moving data between memory and a view |
//!
//! All of an operation is done when its call returns, nonblocking and split ones included: the kernel's page cache takes the
//! data as fast as memory does, and nobody has to wait for another process.

pub mod open;
pub mod pointer;
pub mod transfer;
pub mod view;

use super::coll::{allgather_bytes, allgather_u64};
use super::comm::Comm;
use super::errhandler::Errhandler;
use super::error::{Class, Error, Result};
use super::info::Info;
use super::status::Status;
use super::world::Hold;
use crate::fail;
use crate::shm::zone;
use crate::sys::file;
use open::Mode;
use std::cell::{Cell, RefCell};
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use view::View;

/// A file that the members of a communicator have opened together.
#[derive(Debug)]
pub struct File {
    /// Those who have opened it, in a communicator that only the library uses.
    pub comm: Rc<Comm>,
    /// Its name.
    pub path: PathBuf,
    /// What it was opened for.
    pub mode: Mode,
    /// Hints.
    pub info: RefCell<Info>,
    /// What happens to errors on it.
    pub errhandler: RefCell<Errhandler>,
    /// Which of its bytes this process sees.
    view: RefCell<Rc<View>>,
    /// The individual file pointer: a position in the view.
    position: Cell<u64>,
    /// Whether accesses that stand against each other come one after the other.
    atomic: Cell<bool>,
    /// The split collective operation under way, and how it has ended already.
    split: Cell<Option<(pointer::Split, Status)>>,
    file: file::File,
    gaps: transfer::Gaps,
    shared: zone::View,
    /// Where the shared file pointer lies in this process's zone, if it is the first one's.
    claim: Option<usize>,
}

impl File {
    /// The view.
    pub fn view(&self) -> Rc<View> {
        self.view.borrow().clone()
    }

    /// Whether the atomic mode is set (MPI-4.1 §14.6.1).
    pub fn is_atomic(&self) -> bool {
        self.atomic.get()
    }

    /// The error `error` of the kernel.
    fn failed(&self, what: &str, error: io::Error) -> Error {
        failed(what, &self.path, error)
    }
}

/// What the kernel said of `path`, as MPI names it.
fn failed(what: &str, path: &std::path::Path, error: io::Error) -> Error {
    let class = match error.raw_os_error().unwrap_or(0) {
        libc::ENOENT => Class::NoSuchFile,
        libc::EEXIST => Class::FileExists,
        libc::EACCES | libc::EPERM => Class::Access,
        libc::EROFS => Class::ReadOnly,
        libc::ENOSPC => Class::NoSpace,
        libc::EDQUOT => Class::Quota,
        libc::ENAMETOOLONG | libc::ENOTDIR | libc::EISDIR | libc::ELOOP => Class::BadFile,
        libc::ETXTBSY | libc::EBUSY => Class::FileInUse,
        _ => Class::Io,
    };
    Error::new(class, format!("cannot {what} \"{}\": {error}", path.display()))
}

/// Classes of errors that all members get if one has one; any other becomes the last.
const SHARED: [Class; 19] = [
    Class::Arg,
    Class::Count,
    Class::Type,
    Class::NoMem,
    Class::Access,
    Class::Amode,
    Class::BadFile,
    Class::FileExists,
    Class::FileInUse,
    Class::Info,
    Class::InfoValue,
    Class::NoSpace,
    Class::NoSuchFile,
    Class::Quota,
    Class::ReadOnly,
    Class::UnsupportedDatarep,
    Class::UnsupportedOperation,
    Class::Buffer,
    Class::Io,
];

/// Makes an error of one member one of all, of the same class. Collective.
///
/// # Errors
/// The member's own, else that of the first one that has one.
fn agree<T>(hold: &mut Hold, comm: &Rc<Comm>, mine: Result<T>) -> Result<T> {
    let number = |error: &Error| {
        let found = SHARED.iter().position(|class| *class == error.class());
        found.unwrap_or(SHARED.len() - 1) as u8 + 1
    };
    let told = mine.as_ref().err().map_or(0, number);
    let all = allgather_bytes(hold, comm, &[told])?;
    let mine = mine?;
    match (0..).zip(all).find(|&(_, told)| told != 0) {
        None => Ok(mine),
        Some((rank, told)) => {
            let class = SHARED[(told as usize - 1).min(SHARED.len() - 1)];
            Err(Error::new(
                class,
                format!("it failed on rank {rank} of the communicator"),
            ))
        }
    }
}

/// Makes sure that all members say the same. Collective.
///
/// # Errors
/// `NotSame`: they do not.
fn same(hold: &mut Hold, comm: &Rc<Comm>, what: &str, mine: i64) -> Result<()> {
    let all = allgather_u64(hold, comm, mine as u64)?;
    let other = all
        .into_iter()
        .map(|other| other as i64)
        .zip(0..)
        .find(|&(other, _)| other != mine);
    if let Some((other, rank)) = other {
        fail!(
            NotSame,
            "the {what} is {mine} here, but {other} on rank {rank} of the communicator"
        );
    }
    Ok(())
}
