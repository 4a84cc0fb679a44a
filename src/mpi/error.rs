//! What goes wrong, as MPI names it: an error class and a sentence.

use crate::channel::Fault;
use std::fmt;

/// Error classes with the numbers of the MPICH ABI (MPI-4.1 §9.4, table 9.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Class {
    Buffer = 1,
    Count = 2,
    Type = 3,
    Tag = 4,
    Comm = 5,
    Rank = 6,
    Root = 7,
    Group = 8,
    Op = 9,
    Topology = 10,
    Dims = 11,
    Arg = 12,
    Unknown = 13,
    Truncate = 14,
    Other = 15,
    Intern = 16,
    InStatus = 17,
    Pending = 18,
    Request = 19,
    Access = 20,
    Amode = 21,
    BadFile = 22,
    Conversion = 23,
    DupDatarep = 24,
    FileExists = 25,
    FileInUse = 26,
    File = 27,
    Info = 28,
    InfoKey = 29,
    InfoValue = 30,
    InfoNokey = 31,
    Io = 32,
    Name = 33,
    NoMem = 34,
    NotSame = 35,
    NoSpace = 36,
    NoSuchFile = 37,
    Port = 38,
    Quota = 39,
    ReadOnly = 40,
    Service = 41,
    Spawn = 42,
    UnsupportedDatarep = 43,
    UnsupportedOperation = 44,
    Win = 45,
    Base = 46,
    Locktype = 47,
    Keyval = 48,
    RmaConflict = 49,
    RmaSync = 50,
    Size = 51,
    Disp = 52,
    Assert = 53,
    RmaRange = 55,
    RmaAttach = 56,
    RmaShared = 57,
    RmaFlavor = 58,
    Session = 75,
    ProcAborted = 76,
    ValueTooLarge = 77,
    Errhandler = 80,
    Abi = 81,
    ProcFailed = 101,
    ProcFailedPending = 102,
    Revoked = 103,
}

/// An MPI error: its class, and a sentence that says what was wrong, where and with which value.
#[derive(Clone)]
pub struct Error(Box<Detail>);

#[derive(Clone)]
struct Detail {
    class: Class,
    code: Option<i32>,
    text: String,
}

/// The result of everything that can fail inside the library.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `class`; `text` is one sentence without a final full stop.
    #[cold]
    pub fn new(class: Class, text: impl Into<String>) -> Error {
        Error(Box::new(Detail {
            class,
            code: None,
            text: text.into(),
        }))
    }

    /// The error that a call-back of the program returned as `code`; the program gets that code back.
    #[cold]
    pub fn returned(code: i32, text: impl Into<String>) -> Error {
        let mut error = Error::new(Class::Other, text);
        error.0.code = Some(code);
        error
    }

    /// The code that a call-back returned, if that is where the error comes from.
    pub fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// The error class.
    pub fn class(&self) -> Class {
        self.0.class
    }

    /// The sentence.
    pub fn text(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.0.class, self.0.text)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl std::error::Error for Error {}

/// `fail!(Rank, "rank {r} ...")` returns `Err(Error)` of that class from the current function.
#[macro_export]
macro_rules! fail {
    ($class:ident, $($text:tt)*) => {
        return Err($crate::mpi::error::Error::new($crate::mpi::error::Class::$class, format!($($text)*)))
    };
}
/// A fault as an MPI error.
#[cold]
pub fn fault(fault: Fault) -> Error {
    Error::new(
        Class::Intern,
        format!(
            "rank {} has left the protocol: shared memory holds junk from it",
            fault.from
        ),
    )
}
