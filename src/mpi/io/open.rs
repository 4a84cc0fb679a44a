//! Opening and closing files, access modes and sizes (MPI-4.1 §14.2).

use super::transfer::Gaps;
use super::view::{Representation, View};
use super::{File, agree, failed, same};
use crate::fail;
use crate::mpi::coll::bcast_bytes;
use crate::mpi::comm::{Comm, create};
use crate::mpi::datatype::Datatype;
use crate::mpi::errhandler::Errhandler;
use crate::mpi::error::{Class, Error, Result};
use crate::mpi::info::Info;
use crate::mpi::world::Hold;
use crate::shm::file_pointer::FilePointer;
use crate::shm::layout::PAGE;
use crate::sys::file::{self, How};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What a file is opened for: bits of the ABI's `MPI_MODE_*` (MPI-4.1 §14.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode(pub i32);

#[allow(missing_docs)]
impl Mode {
    pub const CREATE: Mode = Mode(1);
    pub const READ_ONLY: Mode = Mode(2);
    pub const WRITE_ONLY: Mode = Mode(4);
    pub const READ_WRITE: Mode = Mode(8);
    pub const DELETE_ON_CLOSE: Mode = Mode(16);
    pub const UNIQUE_OPEN: Mode = Mode(32);
    pub const EXCLUSIVE: Mode = Mode(64);
    pub const APPEND: Mode = Mode(128);
    pub const SEQUENTIAL: Mode = Mode(256);
    const ALL: i32 = 511;

    /// Whether a bit of `other` is set.
    pub fn has(self, other: Mode) -> bool {
        self.0 & other.0 != 0
    }

    /// Makes sure that its bits go together.
    ///
    /// # Errors
    /// `Amode`: they do not.
    pub fn check(self) -> Result<()> {
        let bits = self.0;
        if bits & !Mode::ALL != 0 {
            fail!(Amode, "the access mode {bits} has bits that mean nothing");
        }
        let ways = [Mode::READ_ONLY, Mode::WRITE_ONLY, Mode::READ_WRITE];
        if ways.into_iter().filter(|&way| self.has(way)).count() != 1 {
            fail!(
                Amode,
                "the access mode {bits} must have exactly one of MPI_MODE_RDONLY, MPI_MODE_RDWR and MPI_MODE_WRONLY"
            );
        }
        if self.has(Mode::READ_ONLY) && self.has(Mode(Mode::CREATE.0 | Mode::EXCLUSIVE.0)) {
            fail!(
                Amode,
                "the access mode {bits} has MPI_MODE_CREATE or MPI_MODE_EXCL, which do not go with MPI_MODE_RDONLY"
            );
        }
        if self.has(Mode::READ_WRITE) && self.has(Mode::SEQUENTIAL) {
            fail!(
                Amode,
                "the access mode {bits} has MPI_MODE_SEQUENTIAL, which does not go with MPI_MODE_RDWR"
            );
        }
        Ok(())
    }
}

/// What the program says when it opens a file.
#[derive(Debug)]
pub struct Request {
    /// The file's name.
    pub path: PathBuf,
    /// What for.
    pub mode: Mode,
    /// Hints.
    pub info: Info,
    /// What happens to errors on it.
    pub errhandler: Errhandler,
    /// The datatype of the first view.
    pub byte: Rc<Datatype>,
}

/// Permissions of a new file, before the umask: the hint `file_perm` (octal), else those that programs give.
fn permissions(info: &Info) -> Result<u32> {
    let given = info.read("file_perm", "octal number", |text| u32::from_str_radix(text, 8).ok())?;
    Ok(given.map_or(0o666, |bits| bits & 0o7777))
}

/// Opens a file. Collective. MPI-4.1 §14.2.1.
///
/// # Errors
/// On all members if on one: that of its arguments; `Amode`; `NotSame`: the access modes differ; what the kernel says.
pub fn open(hold: &mut Hold, comm: &Rc<Comm>, request: Result<Request>) -> Result<File> {
    let request = request.and_then(|request| {
        request.mode.check()?;
        let permissions = permissions(&request.info)?;
        Ok((request, permissions))
    });
    let (request, permissions) = agree(hold, comm, request)?;
    same(hold, comm, "access mode", i64::from(request.mode.0))?;
    let comm = Rc::new(create::dup(hold, comm)?);
    let mode = request.mode;
    let open = |first: bool| {
        let how = How {
            read: !mode.has(Mode::WRITE_ONLY),
            write: !mode.has(Mode::READ_ONLY),
            create: (first && mode.has(Mode::CREATE)).then_some(permissions),
            exclusive: first && mode.has(Mode::EXCLUSIVE),
        };
        file::File::open(&request.path, how).map_err(|error| failed("open", &request.path, error))
    };
    // The first one creates the file; the others open what is there then.
    let first = agree(hold, &comm, (comm.rank == 0).then(|| open(true)).transpose())?;
    let file = agree(hold, &comm, first.map_or_else(|| open(false), Ok))?;

    let claim = (comm.rank == 0)
        .then(|| hold.take_block(size_of::<FilePointer>()))
        .flatten();
    // 0: there was no room.
    let mut told = claim.map_or(0, |offset| offset as u64 + 1).to_ne_bytes();
    bcast_bytes(hold, &comm, 0, &mut told)?;
    let Some(offset) = u64::from_ne_bytes(told).checked_sub(1) else {
        fail!(NoMem, "there is no room for the shared file pointer");
    };
    let channel = &hold.engine.channel;
    let gaps = Gaps {
        together: channel.settings().file_together,
        mapped: channel.settings().file_map != 0,
    };
    let segment = channel.segment();
    let shared = match segment.view(comm.group.world(0), offset as usize, PAGE) {
        Ok(shared) => Ok(shared),
        Err(error) => Err(Error::new(
            Class::NoMem,
            format!("the shared file pointer could not be mapped: {error}"),
        )),
    };
    let end = match mode.has(Mode::APPEND) {
        true => file
            .size()
            .map_err(|error| failed("find the end of", &request.path, error)),
        false => Ok(0),
    };
    let ready = agree(hold, &comm, shared.and_then(|shared| Ok((shared, end?))));
    let (shared, end) = ready.inspect_err(|_| give_back(hold, claim))?;
    let view = View::new(0, request.byte.clone(), request.byte, Representation::Native, true)?;
    let file = File {
        position: Cell::new(end),
        view: RefCell::new(Rc::new(view)),
        atomic: Cell::new(false),
        split: Cell::new(None),
        claim,
        gaps,
        path: request.path,
        info: RefCell::new(request.info.in_use_on_file()),
        errhandler: RefCell::new(request.errhandler),
        mode,
        file,
        shared,
        comm,
    };
    file.start_at(hold, end)?;
    Ok(file)
}

/// Gives back what this process's zone has of the shared file pointer.
fn give_back(hold: &mut Hold, claim: Option<usize>) {
    if let Some(offset) = claim {
        hold.give_block_back(offset, size_of::<FilePointer>());
    }
}

/// Removes a file. MPI-4.1 §14.2.3.
///
/// # Errors
/// What the kernel says, `NoSuchFile` above all.
pub fn delete(path: &Path) -> Result<()> {
    file::remove(path).map_err(|error| failed("delete", path, error))
}

impl File {
    /// Makes sure that all members have called this and that it may be closed. Collective.
    ///
    /// # Errors
    /// `Io`: a split collective operation is under way.
    pub fn check_idle(&self, hold: &mut Hold) -> Result<()> {
        let idle = self.check_no_split();
        agree(hold, &self.comm, idle)
    }

    /// Closes it, behind [`File::check_idle`]; it must not be used any more, whatever this returns. Collective. MPI-4.1 §14.2.2.
    ///
    /// # Errors
    /// What the kernel says when the file is to be deleted.
    pub fn close(&self, hold: &mut Hold) -> Result<()> {
        give_back(hold, self.claim);
        if !self.mode.has(Mode::DELETE_ON_CLOSE) {
            return Ok(());
        }
        let gone = match self.comm.rank {
            0 => delete(&self.path),
            _ => Ok(()),
        };
        agree(hold, &self.comm, gone)
    }

    /// Bytes in the file. MPI-4.1 §14.2.6.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn size(&self) -> Result<u64> {
        self.file.size().map_err(|error| self.failed("find the size of", error))
    }

    /// Cuts the file short or lengthens it. Collective. MPI-4.1 §14.2.4.
    ///
    /// # Errors
    /// As [`File::resize`].
    pub fn set_size(&self, hold: &mut Hold, size: i64) -> Result<()> {
        self.resize(hold, size, |file, size| file.set_size(size))
    }

    /// Takes room for the first `size` bytes. Collective. MPI-4.1 §14.2.5.
    ///
    /// # Errors
    /// As [`File::resize`].
    pub fn preallocate(&self, hold: &mut Hold, size: i64) -> Result<()> {
        self.resize(
            hold,
            size,
            |file, size| if size > 0 { file.allocate(size) } else { Ok(()) },
        )
    }

    /// Has one member change the size.
    ///
    /// # Errors
    /// `Arg`: it is negative; `NotSame`: members want different ones; `ReadOnly`; `UnsupportedOperation`: the file is sequential;
    /// what the kernel says.
    fn resize(&self, hold: &mut Hold, size: i64, change: fn(&file::File, u64) -> std::io::Result<()>) -> Result<()> {
        let allowed = self.writable().and_then(|()| self.seekable());
        let mine = allowed.and_then(|()| match u64::try_from(size) {
            Ok(size) => Ok(size),
            Err(_) => fail!(Arg, "the size is {size} but must not be negative"),
        });
        let wanted = agree(hold, &self.comm, mine)?;
        same(hold, &self.comm, "size", size)?;
        let changed = match self.comm.rank {
            0 => change(&self.file, wanted).map_err(|error| self.failed("change the size of", error)),
            _ => Ok(()),
        };
        agree(hold, &self.comm, changed)
    }

    /// Returns once everything that members have written is on the device, and seen by all. Collective. MPI-4.1 §14.6.1.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sync(&self, hold: &mut Hold) -> Result<()> {
        let written = match self.mode.has(Mode::READ_ONLY) {
            true => Ok(()),
            false => hold.released(|| self.file.sync()),
        };
        agree(
            hold,
            &self.comm,
            written.map_err(|error| self.failed("write out", error)),
        )
    }

    /// Sets the atomic mode. Collective. MPI-4.1 §14.6.1.
    ///
    /// # Errors
    /// `NotSame`: members want different ones.
    pub fn set_atomic(&self, hold: &mut Hold, atomic: bool) -> Result<()> {
        same(hold, &self.comm, "flag", i64::from(atomic))?;
        self.atomic.set(atomic);
        Ok(())
    }

    /// Sets the view; all file pointers are at its beginning then. Collective. MPI-4.1 §14.3.
    ///
    /// # Errors
    /// On all members if on one: that of its arguments.
    pub fn set_view(&self, hold: &mut Hold, view: Result<View>) -> Result<()> {
        let view = agree(hold, &self.comm, view)?;
        *self.view.borrow_mut() = Rc::new(view);
        self.position.set(0);
        self.start_at(hold, 0)
    }

    /// Makes sure that the file may be written.
    ///
    /// # Errors
    /// `ReadOnly`: it was opened for reading only.
    pub fn writable(&self) -> Result<()> {
        match self.mode.has(Mode::READ_ONLY) {
            true => fail!(ReadOnly, "\"{}\" was opened with MPI_MODE_RDONLY", self.path.display()),
            false => Ok(()),
        }
    }

    /// Makes sure that the file may be read.
    ///
    /// # Errors
    /// `Access`: it was opened for writing only.
    pub fn readable(&self) -> Result<()> {
        match self.mode.has(Mode::WRITE_ONLY) {
            true => fail!(Access, "\"{}\" was opened with MPI_MODE_WRONLY", self.path.display()),
            false => Ok(()),
        }
    }

    /// Makes sure that the program may choose places in the file.
    ///
    /// # Errors
    /// `UnsupportedOperation`: it was opened with `MPI_MODE_SEQUENTIAL`.
    pub fn seekable(&self) -> Result<()> {
        match self.mode.has(Mode::SEQUENTIAL) {
            true => fail!(
                UnsupportedOperation,
                "\"{}\" was opened with MPI_MODE_SEQUENTIAL: only the shared file pointer is there",
                self.path.display()
            ),
            false => Ok(()),
        }
    }

    /// Extent of a datatype in the file. MPI-4.1 §14.5.
    ///
    /// # Errors
    /// `UnsupportedDatarep`: a value has another size there.
    pub fn extent_of(&self, datatype: &Datatype) -> Result<isize> {
        if self.view().representation == Representation::External32 {
            datatype.check_external()?;
        }
        Ok(datatype.extent())
    }
}
