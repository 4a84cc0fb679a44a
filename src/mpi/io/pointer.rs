//! File pointers, and reading and writing at them or at an offset (MPI-4.1 §14.4).
//!
//! Pointers are kept as positions in the view, in bytes of data; the program counts in etypes.

use super::transfer::{self, Data, Seen};
use super::view::View;
use super::{File, agree};
use crate::fail;
use crate::mpi::coll::{allgather_u64, barrier, bcast_bytes};
use crate::mpi::error::Result;
use crate::mpi::request::{Kind, Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::Hold;
use crate::shm::file_pointer::FilePointer;
use std::fmt;

/// Where an operation takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// So many etypes behind the beginning of the view.
    At(i64),
    /// At the individual file pointer.
    Own,
    /// At the shared file pointer.
    Shared,
    /// At the shared file pointer, all members one after the other in rank order. Collective.
    Ordered,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Way {
    Read,
    Write,
}

/// A split collective operation: what it does, and which of the three kinds it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Whether it reads or writes.
    pub way: Way,
    /// The word in its name: `at_all`, `all` or `ordered`.
    pub kind: &'static str,
}

/// From where a seek counts (MPI-4.1 §14.4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whence {
    /// The beginning of the view.
    Set,
    /// Where the pointer stands.
    Current,
    /// The end of the file.
    End,
}

/// The position `offset` etypes behind `from`.
fn moved(view: &View, from: u64, offset: i64) -> Result<u64> {
    let by = i128::from(offset) * view.etype.size() as i128;
    match u64::try_from(i128::from(from) + by) {
        Ok(position) if position <= i64::MAX as u64 => Ok(position),
        Ok(_) => fail!(Arg, "{offset} etypes further on is more than a file can have"),
        Err(_) => fail!(Arg, "{offset} etypes from there is before the beginning of the view"),
    }
}

impl File {
    fn pointer(&self) -> &FilePointer {
        FilePointer::at(&self.shared)
    }

    /// Puts the shared file pointer to `position`; all members see it there then. Collective, behind an exchange in which each has
    /// said that it is through with the pointer.
    pub(super) fn start_at(&self, hold: &mut Hold, position: u64) -> Result<()> {
        if self.comm.rank == 0 {
            self.pointer().set(position);
        }
        barrier(hold, &self.comm)
    }

    /// The position that a seek leads to.
    fn target(&self, here: u64, offset: i64, whence: Whence) -> Result<u64> {
        let view = self.view();
        let from = match whence {
            Whence::Set => 0,
            Whence::Current => here,
            // The first etype that does not lie before the end as a whole.
            Whence::End => view
                .data_before(self.size()?)
                .next_multiple_of(view.etype.size() as u64),
        };
        moved(&view, from, offset)
    }

    /// Moves the individual file pointer. MPI-4.1 §14.4.3.
    ///
    /// # Errors
    /// `Arg`: it would be before the beginning; `UnsupportedOperation`: the file is sequential.
    pub fn seek(&self, offset: i64, whence: Whence) -> Result<()> {
        self.seekable()?;
        self.position.set(self.target(self.position.get(), offset, whence)?);
        Ok(())
    }

    /// Moves the shared file pointer. Collective. MPI-4.1 §14.4.4.
    ///
    /// # Errors
    /// As [`File::seek`], on all members.
    pub fn seek_shared(&self, hold: &mut Hold, offset: i64, whence: Result<Whence>) -> Result<()> {
        barrier(hold, &self.comm)?;
        let target = self
            .seekable()
            .and_then(|()| self.target(self.pointer().get(), offset, whence?));
        let target = agree(hold, &self.comm, target)?;
        super::same(hold, &self.comm, "new position", target as i64)?;
        self.start_at(hold, target)
    }

    /// Where the individual file pointer stands, in etypes. MPI-4.1 §14.4.3.
    ///
    /// # Errors
    /// `UnsupportedOperation`: the file is sequential.
    pub fn position(&self) -> Result<i64> {
        self.seekable()?;
        Ok((self.position.get() / self.view().etype.size() as u64) as i64)
    }

    /// Where the shared file pointer stands, in etypes. MPI-4.1 §14.4.4.
    ///
    /// # Errors
    /// `UnsupportedOperation`: the file is sequential.
    pub fn shared_position(&self) -> Result<i64> {
        self.seekable()?;
        Ok((self.pointer().get() / self.view().etype.size() as u64) as i64)
    }

    /// The offset in the file of the shared file pointer, where a new view of a sequential file begins. Collective.
    ///
    /// # Errors
    /// A peer that left the protocol.
    pub fn current_displacement(&self, hold: &mut Hold) -> Result<u64> {
        barrier(hold, &self.comm)?;
        Ok(self.view().offset(self.pointer().get()))
    }

    /// The offset in the file of what lies `offset` etypes behind the beginning of the view. MPI-4.1 §14.4.3.
    ///
    /// # Errors
    /// `Arg`: it is negative; `UnsupportedOperation`: the file is sequential.
    pub fn byte_offset(&self, offset: i64) -> Result<i64> {
        self.seekable()?;
        let view = self.view();
        let position = moved(&view, 0, offset)?;
        match i64::try_from(view.offset(position)) {
            Ok(byte) => Ok(byte),
            Err(_) => fail!(
                Arg,
                "the offset {offset} of the view lies beyond what MPI_Offset can hold"
            ),
        }
    }

    /// Reads or writes `data`; the bytes that were moved, in a status. MPI-4.1 §14.4.
    ///
    /// # Errors
    /// That of the arguments; `Access`, `ReadOnly`: the file was not opened for this; `UnsupportedOperation`: it is sequential;
    /// what the kernel says.
    pub fn access(&self, hold: &mut Hold, way: Way, place: Place, data: Result<Data>) -> Result<Status> {
        let view = self.view();
        let checked = data.and_then(|data| {
            match way {
                Way::Read => self.readable()?,
                Way::Write => self.writable()?,
            }
            if let Place::At(_) | Place::Own = place {
                self.seekable()?;
            }
            transfer::check(&view, &data)?;
            Ok(data)
        });
        let (data, position) = match place {
            Place::Ordered => {
                let data = agree(hold, &self.comm, checked)?;
                let position = self.turn(hold, data.len() as u64)?;
                (data, position)
            }
            Place::At(offset) => (checked?, moved(&view, 0, offset)?),
            Place::Own => (checked?, self.position.get()),
            Place::Shared => {
                let data = checked?;
                let position = self.pointer().advance(data.len() as u64);
                (data, position)
            }
        };
        let end = position + data.len() as u64;
        if place == Place::Own {
            // Before other threads come in, so that no two meet at one place.
            self.position.set(end);
        }
        let outcome = match self.atomic.get() {
            true => self.transfer_alone(&view, way, position, &data),
            false => hold.released(|| self.transfer(&view, way, position, &data)),
        };
        if place == Place::Own && self.position.get() == end {
            self.position
                .set(position + outcome.as_ref().map_or(0, |&bytes| bytes as u64));
        }
        outcome.map(|bytes| Status {
            bytes: bytes as u64,
            ..Status::EMPTY
        })
    }

    /// Where this member's part of an operation in rank order begins, of `bytes` bytes. Collective.
    fn turn(&self, hold: &mut Hold, bytes: u64) -> Result<u64> {
        let all = allgather_u64(hold, &self.comm, bytes)?;
        let mut start = [0; 8];
        if self.comm.rank == 0 {
            start = self.pointer().advance(all.iter().sum()).to_ne_bytes();
        }
        bcast_bytes(hold, &self.comm, 0, &mut start)?;
        Ok(u64::from_ne_bytes(start) + all[..self.comm.rank as usize].iter().sum::<u64>())
    }

    fn transfer(&self, view: &View, way: Way, position: u64, data: &Data) -> Result<usize> {
        let seen = Seen {
            file: &self.file,
            view,
            gaps: self.gaps,
        };
        match way {
            Way::Read => seen.read(position, data).map_err(|error| self.failed("read", error)),
            Way::Write => match seen.write(position, data) {
                Ok(()) => Ok(data.len()),
                Err(error) => Err(self.failed("write", error)),
            },
        }
    }

    /// As [`File::transfer`], while nobody else accesses the same bytes.
    fn transfer_alone(&self, view: &View, way: Way, position: u64, data: &Data) -> Result<usize> {
        if data.is_empty() {
            return Ok(0);
        }
        let lock = self.file.lock(view.span(position, data.len()), way == Way::Write);
        let _lock = lock.map_err(|error| self.failed("lock", error))?;
        self.transfer(view, way, position, data)
    }

    /// As [`File::access`], for a request that is over.
    ///
    /// # Errors
    /// As [`File::access`]; `NoMem`: there are too many requests.
    pub fn start(&self, hold: &mut Hold, way: Way, place: Place, data: Result<Data>) -> Result<RequestKey> {
        let status = self.access(hold, way, place, data)?;
        let key = hold.add_request(Request::new(Kind::Over, None))?;
        hold.complete(key, status, None);
        Ok(key)
    }

    /// As [`File::access`]; the status is for [`File::end`]. MPI-4.1 §14.4.5.
    ///
    /// # Errors
    /// As [`File::access`]; `Io`: another split collective operation is under way.
    pub fn begin(&self, hold: &mut Hold, way: Way, place: Place, data: Result<Data>) -> Result<()> {
        self.check_no_split()?;
        let status = self.access(hold, way, place, data)?;
        let kind = match place {
            Place::At(_) => "at_all",
            Place::Own => "all",
            Place::Shared | Place::Ordered => "ordered",
        };
        self.split.set(Some((Split { way, kind }, status)));
        Ok(())
    }

    /// Ends a split collective operation. MPI-4.1 §14.4.5.
    ///
    /// # Errors
    /// `Io`: it has not been begun.
    pub fn end(&self, split: Split) -> Result<Status> {
        match self.split.get() {
            Some((begun, status)) if begun == split => {
                self.split.set(None);
                Ok(status)
            }
            _ => fail!(Io, "no {split} operation has been begun"),
        }
    }

    /// Makes sure that no split collective operation is under way.
    ///
    /// # Errors
    /// `Io`: one is.
    pub(super) fn check_no_split(&self) -> Result<()> {
        match self.split.get() {
            Some((split, _)) => fail!(Io, "a {split} operation is under way, begun and not ended"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.way {
            Way::Read => "read",
            Way::Write => "write",
        };
        write!(f, "MPI_File_{way}_{}", self.kind)
    }
}
