//! # Safety
//! Calls error handling functions of the application: relies on them having the type that the
//! standard gives them.
//!
//! Error handlers, error codes and the end of a job (MPI-4.1 §9.3 to §9.5).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::file::{number, of_number, on_file};
use super::source::Source;
use super::types::*;
use crate::fail;
use crate::mpi::errhandler::{CLASS_MASK, Errhandler, Errors, Function, Target, UserHandler, describe};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::mem::transmute;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Process-wide: error codes and handlers may be used before initialization (MPI-4.1 §11.4.1).
static ERRORS: Mutex<Errors> = Mutex::new(Errors::new());
/// The error handler of `MPI_FILE_NULL`, which new files inherit and which takes the errors of
/// opening one (MPI-4.1 §14.7).
static FILES: Mutex<Errhandler> = Mutex::new(Errhandler::Return);
/// Calls a C++ error handler; registered by the C++ library.
static CALL_CXX: OnceLock<CallCxx> = OnceLock::new();

/// What kind of object (0 communicator, 1 file, 2 window), its handle, the code, the C++ function.
type CallCxx = unsafe extern "C" fn(c_int, *mut c_int, *mut c_int, CFunction);
/// An error handling function with the type of its first argument erased.
type CFunction = unsafe extern "C" fn(*mut c_int, *mut c_int, ...);

/// An error handling function that takes a pointer of the program.
pub(super) type StateFunction = unsafe extern "C" fn(c_int, c_int, *mut c_void);
/// The same, for files.
pub(super) type FileStateFunction = unsafe extern "C" fn(MPI_File, c_int, *mut c_void);

/// The error handlers, codes and classes of this process.
pub fn errors() -> MutexGuard<'static, Errors> {
    ERRORS.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn files() -> MutexGuard<'static, Errhandler> {
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Hands `error`, found by function `name`, to the error handler of `source`; returns the error
/// code if the handler returns.
#[cold]
pub fn raise(name: &str, source: Source, error: Error) -> c_int {
    let code = errors().remember_in(name, &error);
    handle(name, source, code)
}

/// Hands `code` to the error handler of `source`.
pub(super) fn handle(name: &str, source: Source, code: c_int) -> c_int {
    match &source.handler {
        Errhandler::Return | Errhandler::Throw => code,
        Errhandler::Unset | Errhandler::Fatal | Errhandler::Abort => {
            let Source { rank, context, .. } = source;
            let (class, text) = {
                let errors = errors();
                let class = errors.class(code).unwrap_or(MPI_ERR_UNKNOWN);
                let text = errors.sentence(code).map(str::to_owned);
                let text = text.or_else(|| Some(format!("{name}: {}", errors.string(code).ok()?)));
                (class, text.unwrap_or_default())
            };
            let meaning = describe(class).unwrap_or("Error class of the program");
            report(&format!(
                "Abort({code}) on node {} (rank {rank} in comm {context}): Fatal error in {name}: \
                 {meaning}, error stack:\n{text}",
                rank_in_world()
            ));
            // A class of the program has a number that fits no exit code.
            end_job(if class > CLASS_MASK { 1 } else { class })
        }
        Errhandler::User(handler) => {
            let handler = handler.clone();
            call(&handler, source.handle, code)
        }
    }
}

fn call(handler: &UserHandler, handle: c_int, mut code: c_int) -> c_int {
    // A file's handle has eight bytes, of which those of any other are the first four.
    let mut wide = of_number(handle);
    let place = (&raw mut wide).cast::<c_int>();
    match (handler.function, CALL_CXX.get()) {
        (Function::Cxx(function), Some(call_cxx)) => {
            let kind = match handler.target {
                Target::File => 1,
                Target::Win => 2,
                Target::Comm | Target::Session => 0,
            };
            // SAFETY: the C++ library registered both; it throws unless its function returns success.
            unsafe { call_cxx(kind, place, &mut code, function) };
            MPI_SUCCESS
        }
        // SAFETY: the program's function, called with its own pointer. One for files takes a file first.
        (Function::State(function, state), _) => unsafe {
            let state = std::ptr::with_exposed_provenance_mut(state);
            match handler.target {
                Target::File => {
                    transmute::<StateFunction, FileStateFunction>(function)(wide, code, state);
                }
                _ => function(handle, code, state),
            }
            code
        },
        // SAFETY: libmpi_abi's function, with the program's that it has brought.
        (Function::Through(call, function), _) => unsafe {
            call(place, &mut code, std::ptr::with_exposed_provenance_mut(function));
            code
        },
        // SAFETY: the program's function, called with what the standard says it gets. MPICH's third
        // argument is a null pointer.
        (Function::Plain(function) | Function::Cxx(function), _) => unsafe {
            function(place, &mut code, std::ptr::null_mut::<c_int>());
            code
        },
    }
}

/// Writes a message of the library to standard error, in one piece.
pub fn report(text: &str) {
    let line = format!("{text}\n");
    // SAFETY: writes the bytes of `line`. The standard library's stderr would panic when closed.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}

/// A handle for a new error handler.
fn create(target: Target, function: Option<CFunction>, errhandler: *mut MPI_Errhandler) -> Result<()> {
    let Some(function) = function else {
        fail!(Arg, "the error handling function is a null pointer");
    };
    give_handler(target, Function::Plain(function), None, errhandler)
}

/// Stores a handle for a new error handler; `gone` is called when the last user has let it go.
pub(super) fn give_handler(
    target: Target,
    function: Function,
    gone: Option<Box<dyn FnMut() + Send + Sync>>,
    errhandler: *mut MPI_Errhandler,
) -> Result<()> {
    load(errhandler, "errhandler")?;
    let key = errors().create(UserHandler { target, function, gone });
    store(errhandler, "errhandler", Object::Errhandler.made(key)?)
}

/// The error handler that `handle` names, for use on a `target`.
///
/// # Errors
/// [`Class::Errhandler`]: the null handle, a stale one, or a handler for another kind of object.
pub(super) fn find(target: Target, handle: MPI_Errhandler) -> Result<Errhandler> {
    match handle {
        MPI_ERRORS_ARE_FATAL => Ok(Errhandler::Fatal),
        MPI_ERRORS_ABORT => Ok(Errhandler::Abort),
        MPI_ERRORS_RETURN => Ok(Errhandler::Return),
        MPIR_ERRORS_THROW_EXCEPTIONS => Ok(Errhandler::Throw),
        _ => {
            let key = Object::Errhandler.key(handle)?;
            let handler = errors().handler(key).cloned();
            let handler = Object::Errhandler.alive(handle, handler)?;
            if handler.target != target {
                fail!(
                    Errhandler,
                    "an error handler created for a {:?} cannot be used on a {target:?}",
                    handler.target
                );
            }
            Ok(Errhandler::User(handler))
        }
    }
}

/// A handle for `errhandler`, to be freed by the program.
pub(super) fn refer(errhandler: &Errhandler) -> Result<MPI_Errhandler> {
    match errhandler {
        Errhandler::Unset | Errhandler::Fatal => Ok(MPI_ERRORS_ARE_FATAL),
        Errhandler::Abort => Ok(MPI_ERRORS_ABORT),
        Errhandler::Return => Ok(MPI_ERRORS_RETURN),
        Errhandler::Throw => Ok(MPIR_ERRORS_THROW_EXCEPTIONS),
        Errhandler::User(handler) => {
            let key = errors().refer(handler);
            Object::Errhandler.made(key)
        }
    }
}

/// Creates an error handler for communicators. MPI-4.1 §9.3.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_create_errhandler(
    comm_errhandler_fn: MPI_Comm_errhandler_function,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    on_any("MPI_Comm_create_errhandler", || {
        create(Target::Comm, comm_errhandler_fn, errhandler)
    })
}

/// Deprecated name of [`MPI_Comm_create_errhandler`].
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Errhandler_create(
    comm_errhandler_fn: MPI_Comm_errhandler_function,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    on_any("MPI_Errhandler_create", || {
        create(Target::Comm, comm_errhandler_fn, errhandler)
    })
}

/// Creates an error handler for windows. MPI-4.1 §9.3.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Win_create_errhandler(
    win_errhandler_fn: MPI_Win_errhandler_function,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    on_any("MPI_Win_create_errhandler", || {
        create(Target::Win, win_errhandler_fn, errhandler)
    })
}

/// Creates an error handler for files. MPI-4.1 §9.3.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_create_errhandler(
    file_errhandler_fn: MPI_File_errhandler_function,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    on_any("MPI_File_create_errhandler", || {
        // SAFETY: differs in the type of the first pointer only; the function is called with a
        // pointer to a file handle.
        let function = file_errhandler_fn.map(|f| unsafe { transmute::<_, CFunction>(f) });
        create(Target::File, function, errhandler)
    })
}

/// Creates an error handler for sessions. MPI-4.1 §9.3.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_create_errhandler(
    session_errhandler_fn: MPI_Session_errhandler_function,
    errhandler: *mut MPI_Errhandler,
) -> c_int {
    on_any("MPI_Session_create_errhandler", || {
        create(Target::Session, session_errhandler_fn, errhandler)
    })
}

/// Attaches an error handler to a communicator. MPI-4.1 §9.3.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_set_errhandler(comm: MPI_Comm, errhandler: MPI_Errhandler) -> c_int {
    on_comm("MPI_Comm_set_errhandler", comm, |_, comm| {
        *comm.errhandler.borrow_mut() = find(Target::Comm, errhandler)?;
        Ok(())
    })
}

/// Removed name of [`MPI_Comm_set_errhandler`].
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Errhandler_set(comm: MPI_Comm, errhandler: MPI_Errhandler) -> c_int {
    on_comm("MPI_Errhandler_set", comm, |_, comm| {
        *comm.errhandler.borrow_mut() = find(Target::Comm, errhandler)?;
        Ok(())
    })
}

/// The error handler of a communicator. MPI-4.1 §9.3.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_get_errhandler(comm: MPI_Comm, errhandler: *mut MPI_Errhandler) -> c_int {
    on_comm("MPI_Comm_get_errhandler", comm, |_, comm| {
        load(errhandler, "errhandler")?;
        store(errhandler, "errhandler", refer(&comm.errhandler.borrow())?)
    })
}

/// Removed name of [`MPI_Comm_get_errhandler`].
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Errhandler_get(comm: MPI_Comm, errhandler: *mut MPI_Errhandler) -> c_int {
    on_comm("MPI_Errhandler_get", comm, |_, comm| {
        load(errhandler, "errhandler")?;
        store(errhandler, "errhandler", refer(&comm.errhandler.borrow())?)
    })
}

/// Calls the error handler of a communicator. MPI-4.1 §9.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_call_errhandler(comm: MPI_Comm, errorcode: c_int) -> c_int {
    let mut source = None;
    let rc = on_comm("MPI_Comm_call_errhandler", comm, |hold, object| {
        source = Some(Source::comm(hold, comm, object));
        Ok(())
    });
    if let Some(source) = source {
        handle("MPI_Comm_call_errhandler", source, errorcode);
    }
    rc
}

/// Attaches an error handler to a file, or to files to come (`MPI_FILE_NULL`). MPI-4.1 §14.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_set_errhandler(file: MPI_File, errhandler: MPI_Errhandler) -> c_int {
    on_files("MPI_File_set_errhandler", file, |place| {
        let handler = find(Target::File, errhandler)?;
        match place {
            Some(place) => *place.borrow_mut() = handler,
            None => *files() = handler,
        }
        Ok(())
    })
}

/// The error handler of a file, or of files to come (`MPI_FILE_NULL`). MPI-4.1 §14.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_get_errhandler(file: MPI_File, errhandler: *mut MPI_Errhandler) -> c_int {
    on_files("MPI_File_get_errhandler", file, |place| {
        load(errhandler, "errhandler")?;
        let handler = place.map_or_else(|| files().clone(), |place| place.borrow().clone());
        store(errhandler, "errhandler", refer(&handler)?)
    })
}

/// Calls the error handler of a file, or that of files to come (`MPI_FILE_NULL`). MPI-4.1 §9.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_call_errhandler(fh: MPI_File, errorcode: c_int) -> c_int {
    let mut source = None;
    let rc = on_files("MPI_File_call_errhandler", fh, |place| {
        source = Some(match place {
            Some(place) => Source::on(number(fh).unwrap_or(0), place),
            None => Source::files(),
        });
        Ok(())
    });
    if let Some(source) = source {
        handle("MPI_File_call_errhandler", source, errorcode);
    }
    rc
}

/// Runs `body` on the place of a file's error handler; `None` for `MPI_FILE_NULL`, which has one before initialization, too.
fn on_files(
    name: &'static str,
    file: MPI_File,
    body: impl FnOnce(Option<&RefCell<Errhandler>>) -> Result<()>,
) -> c_int {
    if !file.is_null() {
        return on_file(name, file, |_, file| body(Some(&file.errhandler)));
    }
    match body(None) {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise(name, Source::files(), error),
    }
}

/// Frees an error handler's handle; objects that use it keep it. MPI-4.1 §9.3.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Errhandler_free(errhandler: *mut MPI_Errhandler) -> c_int {
    on_any("MPI_Errhandler_free", || {
        let handle = load(errhandler, "errhandler")?;
        let predefined = [
            MPI_ERRORS_ARE_FATAL,
            MPI_ERRORS_ABORT,
            MPI_ERRORS_RETURN,
            MPIR_ERRORS_THROW_EXCEPTIONS,
        ];
        if !predefined.contains(&handle) {
            let key = Object::Errhandler.key(handle)?;
            let freed = errors().free(key);
            Object::Errhandler.alive(handle, freed)?;
        }
        store(errhandler, "errhandler", MPI_ERRHANDLER_NULL)
    })
}

/// The text of an error code. MPI-4.1 §9.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Error_string(errorcode: c_int, string: *mut c_char, resultlen: *mut c_int) -> c_int {
    on_any("MPI_Error_string", || {
        let text = errors().string(errorcode)?;
        store_string(string, "string", MPI_MAX_ERROR_STRING, &text, resultlen)
    })
}

/// The class of an error code. MPI-4.1 §9.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Error_class(errorcode: c_int, errorclass: *mut c_int) -> c_int {
    on_any("MPI_Error_class", || {
        let class = errors().class(errorcode)?;
        store(errorclass, "errorclass", class)
    })
}

/// Adds an error class. MPI-4.1 §9.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Add_error_class(errorclass: *mut c_int) -> c_int {
    on_any("MPI_Add_error_class", || {
        load(errorclass, "errorclass")?;
        let class = errors().add_class();
        store(errorclass, "errorclass", class)
    })
}

/// Adds an error code to a class. MPI-4.1 §9.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Add_error_code(errorclass: c_int, errorcode: *mut c_int) -> c_int {
    on_any("MPI_Add_error_code", || {
        load(errorcode, "errorcode")?;
        let code = errors().add_code(errorclass)?;
        store(errorcode, "errorcode", code)
    })
}

/// Gives an added code or class its text. MPI-4.1 §9.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Add_error_string(errorcode: c_int, string: *const c_char) -> c_int {
    on_any("MPI_Add_error_string", || {
        let text = self::string(string, "string")?;
        errors().add_string(errorcode, &text)
    })
}

/// Removes an added class. MPI-4.1 §9.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Remove_error_class(errorclass: c_int) -> c_int {
    on_any("MPI_Remove_error_class", || errors().remove_class(errorclass))
}

/// Removes an added code. MPI-4.1 §9.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Remove_error_code(errorcode: c_int) -> c_int {
    on_any("MPI_Remove_error_code", || errors().remove_code(errorcode))
}

/// Removes the text of an added code or class. MPI-4.1 §9.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Remove_error_string(errorcode: c_int) -> c_int {
    on_any("MPI_Remove_error_string", || errors().remove_string(errorcode))
}

/// Ends the job with exit code `errorcode`. MPI-4.1 §9.7 (all processes end, whatever `comm` is).
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Abort(comm: MPI_Comm, errorcode: c_int) -> c_int {
    // Without passing the gate: a signal handler may have interrupted a thread that holds it.
    world("MPI_Abort");
    let rank = rank_in_world();
    let on = match comm {
        MPI_COMM_WORLD => "MPI_COMM_WORLD".to_owned(),
        MPI_COMM_SELF => "MPI_COMM_SELF".to_owned(),
        other => format!("comm={:#010x}", other as u32),
    };
    report(&format!(
        "Abort({errorcode}) on node {rank} (rank {rank} in comm 0): \
         application called MPI_Abort({on}, {errorcode}) - process {rank}"
    ));
    end_job(errorcode)
}

/// For MPICH's C++ library: makes `errhandler` a C++ handler, called through `call`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPII_Errhandler_set_cxx(errhandler: MPI_Errhandler, call: *mut c_void) {
    if !call.is_null() {
        // SAFETY: the C++ library passes a function of the type `CallCxx` under this name.
        CALL_CXX.get_or_init(|| unsafe { transmute::<*mut c_void, CallCxx>(call) });
    }
    if let Ok(key) = Object::Errhandler.key(errhandler) {
        errors().mark_cxx(key);
    }
}

/// For Fortran libraries: an error code of `error_class` with the sentence `generic_msg`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPIR_Err_create_code(
    lastcode: c_int,
    fatal: c_int,
    fcname: *const c_char,
    line: c_int,
    error_class: c_int,
    generic_msg: *const c_char,
) -> c_int {
    let _ = (lastcode, fatal, line);
    let text = self::string(generic_msg, "generic_msg").unwrap_or_default();
    let place = self::string(fcname, "fcname").unwrap_or_default();
    errors().remember_text(error_class, &format!("{place}: {text}"))
}

/// Raises `errcode` for a Fortran library, which knows no valid object.
pub fn pass_on(object: *mut c_void, fcname: *const c_char, errcode: c_int) -> c_int {
    let _ = object;
    let name = self::string(fcname, "fcname").unwrap_or_default();
    let source = current_world().map(|world| Source::anywhere(&world.hold()));
    handle(&name, source.unwrap_or_default(), errcode)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI32, Ordering};

    static SEEN_HANDLE: AtomicI32 = AtomicI32::new(0);
    static SEEN_CODE: AtomicI32 = AtomicI32::new(0);

    unsafe extern "C" fn note(handle: *mut c_int, code: *mut c_int) {
        // SAFETY: called with pointers to the handle and the code.
        unsafe {
            SEEN_HANDLE.store(*handle, Ordering::Relaxed);
            SEEN_CODE.store(*code, Ordering::Relaxed);
        }
    }

    /// `note` as C would pass it: Rust cannot define a function with `...` itself.
    fn noting() -> Option<CFunction> {
        // SAFETY: on this machine a function may be called with more arguments than it takes.
        Some(unsafe { transmute::<unsafe extern "C" fn(*mut c_int, *mut c_int), CFunction>(note) })
    }

    #[test]
    fn a_user_handler_sees_handle_and_code_and_the_code_is_returned() {
        let mut handle = 0;
        create(Target::Comm, noting(), &mut handle).unwrap();
        let source = Source {
            handler: find(Target::Comm, handle).unwrap(),
            handle: MPI_COMM_SELF,
            ..Source::default()
        };
        let code = raise("MPI_Send", source, Error::new(Class::Tag, "tag -3"));
        assert_eq!(code & CLASS_MASK, MPI_ERR_TAG);
        assert_eq!(SEEN_HANDLE.load(Ordering::Relaxed), MPI_COMM_SELF);
        assert_eq!(SEEN_CODE.load(Ordering::Relaxed), code);
        assert_eq!(errors().sentence(code), Some("MPI_Send: tag -3"));
    }

    #[test]
    fn a_handler_of_files_sees_a_whole_file() {
        static SEEN: AtomicI32 = AtomicI32::new(0);
        unsafe extern "C" fn note(file: *mut MPI_File, _: *mut c_int) {
            // SAFETY: a handler of files gets a pointer to one.
            SEEN.store(number(unsafe { *file }).unwrap_or(-1), Ordering::Relaxed);
        }
        // SAFETY: as in `noting`.
        let note = unsafe { transmute::<unsafe extern "C" fn(*mut MPI_File, *mut c_int), CFunction>(note) };
        let mut handler = 0;
        create(Target::File, Some(note), &mut handler).unwrap();
        let source = Source {
            handler: find(Target::File, handler).unwrap(),
            handle: Object::File.handle(5),
            ..Source::default()
        };
        raise("MPI_File_read", source, Error::new(Class::Io, "no"));
        assert_eq!(SEEN.load(Ordering::Relaxed), Object::File.handle(5));
    }

    #[test]
    fn a_handler_serves_only_what_it_was_created_for() {
        let mut handle = 0;
        create(Target::Win, noting(), &mut handle).unwrap();
        assert!(find(Target::Win, handle).is_ok());
        let class = |target, handle| find(target, handle).unwrap_err().class();
        assert_eq!(class(Target::Comm, handle), Class::Errhandler);
        assert_eq!(class(Target::Comm, MPI_ERRHANDLER_NULL), Class::Errhandler);
        assert_eq!(create(Target::Win, None, &mut handle).unwrap_err().class(), Class::Arg);
        let freed = handle;
        // SAFETY: the pointer is a variable's.
        assert_eq!(unsafe { MPI_Errhandler_free(&mut handle) }, MPI_SUCCESS);
        assert_eq!(handle, MPI_ERRHANDLER_NULL);
        assert!(find(Target::Win, freed).is_err());
    }

    #[test]
    fn errors_of_files_return_unless_somebody_asks_otherwise() {
        let code = raise(
            "MPI_File_open",
            Source::files(),
            Error::new(Class::NoSuchFile, "no file"),
        );
        assert_eq!(code & CLASS_MASK, MPI_ERR_NO_SUCH_FILE);
    }
}
