//! Handles: which object a number names (MPI-4.1 §2.5.1), in MPICH's bit layout.
//!
//! ```text
//! 31 30 29    26 25                                0
//! [kind][object][ key of the object's slot table   ]
//! ```
//! Kind 0 is the null handle, 1 a predefined object, 2 an object made at run time (3 for datatypes,
//! because the predefined pair types occupy kind 2).

use crate::fail;
use crate::mpi::error::{Class, Error, Result};
use crate::mpi::table::KEY_BITS;
use std::ffi::c_int;

/// What kinds of object have integer handles; the value is the nibble in the handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum Object {
    Comm = 1,
    Group = 2,
    Datatype = 3,
    File = 4,
    Errhandler = 5,
    Op = 6,
    Info = 7,
    Win = 8,
    Keyval = 9,
    Attribute = 10,
    Request = 11,
    Grequest = 13,
    Session = 14,
    Stream = 15,
}

/// The key bits of a handle.
pub(super) const KEY_MASK: u32 = (1 << KEY_BITS) - 1;
const PREDEFINED: u32 = 1;

impl Object {
    const ALL: [Object; 14] = [
        Object::Comm,
        Object::Group,
        Object::Datatype,
        Object::File,
        Object::Errhandler,
        Object::Op,
        Object::Info,
        Object::Win,
        Object::Keyval,
        Object::Attribute,
        Object::Request,
        Object::Grequest,
        Object::Session,
        Object::Stream,
    ];

    /// The standard's word for the object.
    pub const fn name(self) -> &'static str {
        match self {
            Object::Comm => "communicator",
            Object::Group => "group",
            Object::Datatype => "datatype",
            Object::File => "file",
            Object::Errhandler => "error handler",
            Object::Op => "reduction operation",
            Object::Info => "info object",
            Object::Win => "window",
            Object::Keyval => "attribute key",
            Object::Attribute => "attribute",
            Object::Request => "request",
            Object::Grequest => "generalized request class",
            Object::Session => "session",
            Object::Stream => "stream",
        }
    }

    /// Its name with an article.
    fn one(self) -> String {
        let name = self.name();
        match name.starts_with(['a', 'e', 'i']) {
            true => format!("an {name}"),
            false => format!("a {name}"),
        }
    }

    /// The error class for a wrong handle of this kind.
    pub const fn class(self) -> Class {
        match self {
            Object::Comm => Class::Comm,
            Object::Group => Class::Group,
            Object::Datatype => Class::Type,
            Object::File => Class::File,
            Object::Errhandler => Class::Errhandler,
            Object::Op => Class::Op,
            Object::Info => Class::Info,
            Object::Win => Class::Win,
            Object::Keyval | Object::Attribute => Class::Keyval,
            Object::Request => Class::Request,
            Object::Session => Class::Session,
            Object::Grequest | Object::Stream => Class::Arg,
        }
    }

    /// Kind bits of the objects made at run time.
    const fn dynamic(self) -> u32 {
        match self {
            Object::Datatype => 3,
            _ => 2,
        }
    }

    /// The null handle, `MPI_*_NULL`.
    pub const fn null(self) -> c_int {
        ((self as u32) << KEY_BITS) as c_int
    }

    /// The handle of the object whose slot is `key`.
    #[inline]
    pub const fn handle(self, key: u32) -> c_int {
        (self.dynamic() << 30 | (self as u32) << KEY_BITS | key) as c_int
    }

    /// The slot key in `handle`, if it has the form of an object of this kind made at run time.
    ///
    /// # Errors
    /// The null handle, a predefined one, another kind of object or no handle at all; each with its
    /// own sentence. Whether the slot still holds the object is for the table to say: see
    /// [`Object::stale`].
    #[inline]
    pub fn key(self, handle: c_int) -> Result<u32> {
        self.key_of(handle).ok_or_else(|| self.wrong(handle))
    }

    /// The same for those who leave it to others to say what is wrong.
    #[inline(always)]
    pub fn key_of(self, handle: c_int) -> Option<u32> {
        let bits = handle as u32;
        (bits >> KEY_BITS == self.dynamic() << 4 | self as u32).then_some(bits & KEY_MASK)
    }

    /// Why `handle` does not name a usable object of this kind.
    #[cold]
    fn wrong(self, handle: c_int) -> Error {
        let (bits, name) = (handle as u32, self.name());
        let found = Object::ALL.into_iter().find(|&o| o as u32 == bits >> KEY_BITS & 15);
        let text = match found {
            _ if handle == self.null() => format!("the {name} is the null handle"),
            Some(other) if other == self && bits >> 30 == PREDEFINED => {
                format!("{bits:#010x} is no predefined {name} that can be used here")
            }
            Some(other) if other != self && bits >> 30 != 0 => {
                format!("handle {bits:#010x} names {}, not {}", other.one(), self.one())
            }
            _ => format!("{bits:#010x} is not the handle of {}", self.one()),
        };
        Error::new(self.class(), text)
    }

    /// The error for a well-formed handle whose object is gone.
    #[cold]
    pub fn stale(self, handle: c_int) -> Error {
        let name = self.name();
        Error::new(
            self.class(),
            format!("{name} {:#010x} has been freed or never existed", handle as u32),
        )
    }

    /// `found`, or the error that the object under `handle` is gone.
    #[inline]
    pub fn alive<T>(self, handle: c_int, found: Option<T>) -> Result<T> {
        found.ok_or_else(|| self.stale(handle))
    }

    /// The handle for the outcome of a table insertion.
    ///
    /// # Errors
    /// The table was full.
    pub fn made(self, key: Option<u32>) -> Result<c_int> {
        match key {
            Some(key) => Ok(self.handle(key)),
            None => fail!(NoMem, "there are 4194304 objects of the kind {} already", self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::constants::*;
    use super::*;

    #[test]
    fn null_handles_are_those_of_the_abi() {
        assert_eq!(Object::Comm.null(), MPI_COMM_NULL);
        assert_eq!(Object::Request.null(), MPI_REQUEST_NULL);
        assert_eq!(Object::Session.null(), MPI_SESSION_NULL);
    }

    #[test]
    fn a_handle_gives_its_key_back_and_refuses_the_others() {
        for object in Object::ALL {
            let handle = object.handle(KEY_MASK - 5);
            assert_eq!(object.key(handle).unwrap(), KEY_MASK - 5);
        }
        let text = |handle| Object::Comm.key(handle).unwrap_err().text().to_owned();
        assert!(text(MPI_COMM_NULL).contains("null handle"));
        assert!(text(MPI_INT).contains("names a datatype, not a communicator"));
        assert!(text(MPI_COMM_WORLD).contains("predefined"));
        assert!(text(7).contains("is not the handle of a communicator"));
        assert_eq!(Object::Comm.key(MPI_INT).unwrap_err().class(), Class::Comm);
        assert!(Object::Datatype.key(MPI_FLOAT_INT).is_err());
    }
}
