//! Error handlers and the memory behind error codes (MPI-4.1 §9.3 to §9.5).
//!
//! An error code of ours is `number << 8 | class`: the class in the low seven bits, as in MPICH, and
//! above it the running number of the error, under which its sentence is kept for a while. Codes and
//! classes that the program adds have bit 30 set, which puts them above `MPI_ERR_LASTCODE`.

use super::error::{Error, Result};
use super::table::Table;
use crate::fail;
use std::ffi::c_int;
use std::sync::Arc;

/// Bits of an error code that hold the class.
pub const CLASS_MASK: c_int = 0x7f;
/// Set in the codes and classes that a program adds.
const ADDED: c_int = 0x4000_0000;
const NUMBER_SHIFT: u32 = 8;
const NUMBERS: u32 = 1 << 22;
/// How many sentences are kept.
const KEPT: u32 = 256;

/// What happens to an error on a communicator, window, file or session.
#[derive(Clone, Debug, Default)]
pub enum Errhandler {
    /// Nobody has attached one, to the object or to what it was made from: errors go to `MPI_COMM_WORLD`'s of the moment, as
    /// under MPICH, and are fatal where that has none either.
    #[default]
    Unset,
    /// `MPI_ERRORS_ARE_FATAL`: the job ends.
    Fatal,
    /// `MPI_ERRORS_ABORT`: the processes of the communicator end; here, the job.
    Abort,
    /// `MPI_ERRORS_RETURN`: the caller gets the code.
    Return,
    /// `MPI::ERRORS_THROW_EXCEPTIONS` of MPICH's C++ library, which throws when it gets the code and finds this.
    Throw,
    /// A function of the program.
    User(Arc<UserHandler>),
}

/// An error handling function and what it may be attached to.
pub struct UserHandler {
    /// The kind of object it was created for.
    pub target: Target,
    /// The program's function, with the first argument's type erased (a pointer to a handle).
    pub function: Function,
    /// Called when nobody refers to the handler any more.
    pub gone: Option<Box<dyn FnMut() + Send + Sync>>,
}

impl Drop for UserHandler {
    fn drop(&mut self) {
        if let Some(gone) = &mut self.gone {
            gone();
        }
    }
}

impl std::fmt::Debug for UserHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} for a {:?}", self.function, self.target)
    }
}

/// What an error handler can be attached to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Communicators.
    Comm,
    /// Windows.
    Win,
    /// Files.
    File,
    /// Sessions.
    Session,
}

/// A program's error handling function.
#[derive(Clone, Copy, Debug)]
pub enum Function {
    /// C and Fortran: pointer to the handle, pointer to the code.
    Plain(unsafe extern "C" fn(*mut c_int, *mut c_int, ...)),
    /// C++: called through the function that the C++ library registered.
    Cxx(unsafe extern "C" fn(*mut c_int, *mut c_int, ...)),
    /// MPICH's extension: the handle, the code, and the program's pointer, whose address stands here.
    State(unsafe extern "C" fn(c_int, c_int, *mut std::ffi::c_void), usize),
    /// The standard ABI: as `Plain`, through a function of libmpi_abi that is given the program's, whose address stands here.
    Through(
        unsafe extern "C" fn(*mut c_int, *mut c_int, *mut std::ffi::c_void),
        usize,
    ),
}

/// Error handler objects, the sentences of recent errors, and what the program added.
#[derive(Default)]
pub struct Errors {
    handlers: Table<Handle>,
    recent: Vec<(u32, String)>,
    next: u32,
    added: Vec<Added>,
    /// Numbers of removed ones, to be used again.
    vacant: Vec<usize>,
}

/// A handle of a user's error handler; `MPI_Comm_get_errhandler` makes one handle stand for several.
struct Handle {
    handler: Arc<UserHandler>,
    references: u32,
}

#[derive(Clone)]
struct Added {
    class: c_int,
    text: Option<String>,
    /// For a class: its codes.
    codes: usize,
    removed: bool,
}

impl Errors {
    /// A table with nothing in it.
    pub const fn new() -> Errors {
        Errors {
            handlers: Table::new(),
            recent: Vec::new(),
            next: 0,
            added: Vec::new(),
            vacant: Vec::new(),
        }
    }

    /// Keeps the sentence of `error` and returns the code under which it is found.
    pub fn remember(&mut self, error: &Error) -> c_int {
        if let Some(code) = error.code() {
            return code;
        }
        self.remember_text(error.class() as c_int, error.text())
    }

    /// As [`Errors::remember`], of an error in the function `name`.
    pub fn remember_in(&mut self, name: &str, error: &Error) -> c_int {
        match error.code() {
            Some(code) => code,
            None => self.remember_text(error.class() as c_int, &format!("{name}: {}", error.text())),
        }
    }

    /// Keeps `text` and returns a code of `class` under which it is found.
    pub fn remember_text(&mut self, class: c_int, text: &str) -> c_int {
        // Number 0 stays unused: a code without a number is a bare class.
        self.next = self.next % (NUMBERS - 1) + 1;
        let entry = (self.next, text.to_owned());
        let slot = (self.next % KEPT) as usize;
        if self.recent.len() <= slot {
            self.recent.resize(slot + 1, (0, String::new()));
        }
        self.recent[slot] = entry;
        (self.next << NUMBER_SHIFT) as c_int | class & CLASS_MASK
    }

    /// The sentence kept under `code`, if it is recent.
    pub fn sentence(&self, code: c_int) -> Option<&str> {
        let number = code as u32 >> NUMBER_SHIFT;
        let (kept, text) = self.recent.get((number % KEPT) as usize)?;
        (code & ADDED == 0 && number != 0 && *kept == number).then_some(text)
    }

    /// What `MPI_Error_string` says about `code`.
    ///
    /// # Errors
    /// The code is neither one of ours nor added by the program.
    pub fn string(&self, code: c_int) -> Result<String> {
        if code & ADDED != 0 && code > 0 {
            return Ok(self.find(code)?.text.clone().unwrap_or_default());
        }
        let class = describe(code & CLASS_MASK).filter(|_| code >= 0);
        match (class, self.sentence(code)) {
            (Some(class), Some(text)) => Ok(format!("{class}, error stack:\n{text}")),
            (Some(class), None) => Ok(class.to_owned()),
            (None, _) => fail!(Arg, "{code} is not an error code"),
        }
    }

    /// The class of `code`.
    ///
    /// # Errors
    /// As [`Errors::string`].
    pub fn class(&self, code: c_int) -> Result<c_int> {
        if code & ADDED != 0 && code > 0 {
            return Ok(self.find(code)?.class);
        }
        match describe(code & CLASS_MASK) {
            Some(_) if code >= 0 => Ok(code & CLASS_MASK),
            _ => fail!(Arg, "{code} is not an error code"),
        }
    }

    /// A new error class.
    pub fn add_class(&mut self) -> c_int {
        let code = self.push(0);
        self.added[(code & !ADDED) as usize].class = code;
        code
    }

    /// A new error code in `class`, which may be predefined or added.
    ///
    /// # Errors
    /// There is no such class.
    pub fn add_code(&mut self, class: c_int) -> Result<c_int> {
        if self.class(class)? != class {
            fail!(Arg, "{class} is an error code, not an error class");
        }
        if let Ok(added) = self.find_mut(class) {
            added.codes += 1;
        }
        Ok(self.push(class))
    }

    /// Sets the text of an added class or code.
    ///
    /// # Errors
    /// `code` was not added by the program.
    pub fn add_string(&mut self, code: c_int, text: &str) -> Result<()> {
        self.find_mut(code)?.text = Some(text.to_owned());
        Ok(())
    }

    /// Takes back [`Errors::add_class`].
    ///
    /// # Errors
    /// Not an added class, or codes of this class or its text still exist.
    pub fn remove_class(&mut self, class: c_int) -> Result<()> {
        let added = self.find(class)?;
        if added.class != class {
            fail!(Arg, "{class} is an error code, not an error class");
        }
        if added.codes > 0 {
            fail!(Arg, "error class {class} still has {} error codes", added.codes);
        }
        self.remove(class)
    }

    /// Takes back [`Errors::add_code`].
    ///
    /// # Errors
    /// Not an added code, or its text still exists.
    pub fn remove_code(&mut self, code: c_int) -> Result<()> {
        let class = self.find(code)?.class;
        if class == code {
            fail!(Arg, "{code} is an error class, not an error code");
        }
        self.remove(code)?;
        if let Ok(added) = self.find_mut(class) {
            added.codes -= 1;
        }
        Ok(())
    }

    fn remove(&mut self, code: c_int) -> Result<()> {
        let added = self.find_mut(code)?;
        if added.text.is_some() {
            fail!(Arg, "{code} still has its text");
        }
        added.removed = true;
        self.vacant.push((code & !ADDED) as usize);
        Ok(())
    }

    /// Takes back [`Errors::add_string`].
    ///
    /// # Errors
    /// `code` was not added by the program, or has no text.
    pub fn remove_string(&mut self, code: c_int) -> Result<()> {
        match self.find_mut(code)?.text.take() {
            Some(_) => Ok(()),
            None => fail!(Arg, "error code {code} has no string"),
        }
    }

    /// The largest code or class the program has added, if any: the value of `MPI_LASTUSEDCODE`.
    pub fn last_used(&self) -> Option<c_int> {
        Some(ADDED | self.added.len().checked_sub(1)? as c_int)
    }

    /// A handle key for a new user error handler; `None` when the table is full.
    pub fn create(&mut self, handler: UserHandler) -> Option<u32> {
        let handler = Arc::new(handler);
        self.handlers.insert(Handle { handler, references: 1 })
    }

    /// The handler under `key`.
    pub fn handler(&self, key: u32) -> Option<&Arc<UserHandler>> {
        Some(&self.handlers.get(key)?.handler)
    }

    /// One more reference to a handle of `handler`; makes a new handle if the program freed the last.
    pub fn refer(&mut self, handler: &Arc<UserHandler>) -> Option<u32> {
        let known = self.handlers.iter().find(|(_, h)| Arc::ptr_eq(&h.handler, handler));
        match known.map(|(key, _)| key) {
            Some(key) => {
                self.handlers.get_mut(key)?.references += 1;
                Some(key)
            }
            None => self.handlers.insert(Handle {
                handler: handler.clone(),
                references: 1,
            }),
        }
    }

    /// Makes the handler under `key` a C++ one (the C++ library registers its handlers in two steps).
    pub fn mark_cxx(&mut self, key: u32) -> Option<()> {
        let handle = self.handlers.get_mut(key)?;
        let UserHandler { target, function, .. } = *handle.handler;
        let (Function::Plain(function) | Function::Cxx(function)) = function else {
            return None;
        };
        handle.handler = Arc::new(UserHandler {
            target,
            function: Function::Cxx(function),
            gone: None,
        });
        Some(())
    }

    /// Drops one reference to the handle; objects that use the handler keep it.
    pub fn free(&mut self, key: u32) -> Option<()> {
        let handle = self.handlers.get_mut(key)?;
        handle.references -= 1;
        if handle.references == 0 {
            self.handlers.remove(key);
        }
        Some(())
    }

    fn push(&mut self, class: c_int) -> c_int {
        let added = Added {
            class,
            text: None,
            codes: 0,
            removed: false,
        };
        let number = match self.vacant.pop() {
            Some(number) => {
                self.added[number] = added;
                number
            }
            None => {
                self.added.push(added);
                self.added.len() - 1
            }
        };
        ADDED | number as c_int
    }

    fn find(&self, code: c_int) -> Result<&Added> {
        let found = self.added.get((code & !ADDED) as usize);
        match found.filter(|added| code & ADDED != 0 && !added.removed) {
            Some(added) => Ok(added),
            None => fail!(Arg, "error code {code} was not added by MPI_Add_error_class or _code"),
        }
    }

    fn find_mut(&mut self, code: c_int) -> Result<&mut Added> {
        self.find(code)?;
        Ok(&mut self.added[(code & !ADDED) as usize])
    }
}

/// What predefined error class `class` means, in the words MPICH uses.
pub fn describe(class: c_int) -> Option<&'static str> {
    CLASSES
        .iter()
        .find(|(number, _)| *number == class)
        .map(|(_, text)| *text)
}

/// Every predefined error class and its sentence.
pub const CLASSES: &[(c_int, &str)] = &[
    (0, "No MPI error"),
    (1, "Invalid buffer pointer"),
    (2, "Invalid count"),
    (3, "Invalid datatype"),
    (4, "Invalid tag"),
    (5, "Invalid communicator"),
    (6, "Invalid rank"),
    (7, "Invalid root"),
    (8, "Invalid group"),
    (9, "Invalid MPI_Op"),
    (10, "Invalid topology"),
    (11, "Invalid dimension argument"),
    (12, "Invalid argument"),
    (13, "Unknown error.  Please file a bug report."),
    (14, "Message truncated"),
    (15, "Other MPI error"),
    (16, "Internal MPI error!"),
    (17, "See the MPI_ERROR field in MPI_Status for the error code"),
    (18, "Pending request (no error)"),
    (19, "Invalid MPI_Request"),
    (20, "Access denied to file"),
    (21, "Invalid amode value in MPI_File_open"),
    (22, "Invalid file name"),
    (23, "An error occurred in a user-defined data conversion function"),
    (
        24,
        "The requested datarep name has already been specified to MPI_REGISTER_DATAREP",
    ),
    (25, "File exists"),
    (26, "File in use by some process"),
    (27, "Invalid MPI_File"),
    (28, "Invalid MPI_Info"),
    (29, "Invalid key for MPI_Info"),
    (30, "Invalid MPI_Info value"),
    (31, "MPI_Info key is not defined"),
    (32, "Other I/O error"),
    (33, "Invalid service name (see MPI_Publish_name)"),
    (34, "Unable to allocate memory for MPI_Alloc_mem"),
    (35, "Inconsistent arguments to collective routine"),
    (36, "Not enough space for file"),
    (37, "File does not exist"),
    (38, "Invalid port"),
    (39, "Quota exceeded for files"),
    (40, "Read-only file or filesystem name"),
    (41, "Attempt to lookup an unknown service name"),
    (42, "Error in spawn call"),
    (43, "Unsupported datarep passed to MPI_File_set_view"),
    (44, "Unsupported operation"),
    (45, "Invalid MPI_Win"),
    (46, "Invalid base address"),
    (47, "Invalid lock type"),
    (48, "Invalid keyval"),
    (49, "Conflicting accesses to window"),
    (50, "Wrong synchronization of RMA calls"),
    (51, "Invalid size argument in RMA call"),
    (52, "Invalid displacement argument in RMA call"),
    (53, "Invalid assert argument"),
    (54, "Error class that is not in use"),
    (55, "Target memory is not part of the window"),
    (56, "Memory cannot be attached to the window"),
    (57, "Memory cannot be shared"),
    (58, "Passed window has the wrong flavor"),
    (59, "Out of memory in the MPI tool interface"),
    (60, "The MPI tool interface is not initialized"),
    (61, "The MPI tool interface cannot be initialized"),
    (62, "Invalid index in the MPI tool interface"),
    (63, "Invalid item in the MPI tool interface"),
    (64, "Invalid handle in the MPI tool interface"),
    (65, "No more handles available in the MPI tool interface"),
    (66, "No more sessions available in the MPI tool interface"),
    (67, "Invalid session in the MPI tool interface"),
    (68, "The control variable cannot be set now"),
    (69, "The control variable can never be set"),
    (70, "The performance variable cannot be started or stopped"),
    (71, "The performance variable cannot be written or reset"),
    (72, "The performance variable cannot be read and reset atomically"),
    (73, "Invalid name in the MPI tool interface"),
    (74, "Invalid use of the MPI tool interface"),
    (75, "Invalid session"),
    (76, "Communication with an aborted process"),
    (77, "Value too large to store"),
    (78, "Operation not supported by the MPI tool interface"),
    (79, "Not accessible through the MPI tool interface"),
    (80, "Invalid error handler"),
    (81, "The Fortran ABI is set already"),
    (101, "Process failed"),
    (102, "A process failure left the request pending"),
    (103, "The communicator has been revoked"),
    (104, "The operation could not be issued"),
    (105, "The request could not be allocated"),
    (106, "Invalid stream"),
    (107, "The operation timed out"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::error::Class;

    #[test]
    fn a_code_carries_its_class_and_sentence() {
        let mut errors = Errors::new();
        let code = errors.remember(&Error::new(Class::Rank, "rank 9 is not in 0..2"));
        assert_eq!(code & CLASS_MASK, 6);
        assert_eq!(errors.class(code).unwrap(), 6);
        assert_eq!(
            errors.string(code).unwrap(),
            "Invalid rank, error stack:\nrank 9 is not in 0..2"
        );
        assert_eq!(errors.string(6).unwrap(), "Invalid rank");
        assert!(errors.string(-1).is_err() && errors.string(99).is_err());
    }

    #[test]
    fn an_old_sentence_is_forgotten_but_not_its_class() {
        let mut errors = Errors::new();
        let code = errors.remember(&Error::new(Class::Tag, "tag -7"));
        for _ in 0..KEPT {
            errors.remember(&Error::new(Class::Count, "count -1"));
        }
        assert_eq!(errors.string(code).unwrap(), "Invalid tag");
    }

    #[test]
    fn added_codes_live_until_removed() {
        let mut errors = Errors::new();
        assert_eq!(errors.last_used(), None);
        let class = errors.add_class();
        let code = errors.add_code(class).unwrap();
        let in_predefined = errors.add_code(4).unwrap();
        assert!(class > 0x3fff_ffff && code > class);
        assert_eq!(errors.last_used(), Some(in_predefined));
        assert_eq!(errors.class(in_predefined).unwrap(), 4);
        assert_eq!(errors.string(code).unwrap(), "");
        errors.add_string(code, "my error").unwrap();
        assert_eq!(errors.string(code).unwrap(), "my error");
        assert!(errors.add_string(6, "taken").is_err());
        assert!(errors.remove_class(class).is_err(), "it has a code");
        assert!(errors.remove_code(code).is_err(), "it has a text");
        errors.remove_string(code).unwrap();
        errors.remove_code(code).unwrap();
        errors.remove_class(class).unwrap();
        assert!(errors.string(code).is_err() && errors.class(class).is_err());
        for _ in 0..1000 {
            let class = errors.add_class();
            let code = errors.add_code(class).unwrap();
            errors.remove_code(code).unwrap();
            errors.remove_class(class).unwrap();
        }
        assert_eq!(errors.last_used(), Some(in_predefined), "numbers are used again");
    }

    #[test]
    fn a_handle_counts_its_references() {
        let mut errors = Errors::new();
        let function = Function::Plain(handler_stand_in());
        let target = Target::Comm;
        let key = errors
            .create(UserHandler {
                target,
                function,
                gone: None,
            })
            .unwrap();
        let handler = errors.handler(key).unwrap().clone();
        assert_eq!(errors.refer(&handler), Some(key));
        errors.free(key).unwrap();
        assert!(errors.handler(key).is_some());
        errors.free(key).unwrap();
        assert!(errors.handler(key).is_none());
        assert_ne!(errors.refer(&handler).unwrap(), key);
    }

    #[allow(unsafe_code)]
    /// Any function of the right type; the tests never call it.
    fn handler_stand_in() -> unsafe extern "C" fn(*mut c_int, *mut c_int, ...) {
        unsafe extern "C" {
            #[link_name = "printf"]
            fn stand_in(_: *mut c_int, _: *mut c_int, ...);
        }
        stand_in
    }
}
