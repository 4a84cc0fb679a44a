//! # Safety
//! Stores results through pointers of the application; reads and fills its strings.
//!
//! Sessions and their process sets (MPI-4.1 §11.3).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::errhandler::{find, handle, raise, refer};
use super::info::{answer, check_info, hints};
use super::init;
use super::source::Source;
use super::types::*;
use crate::fail;
use crate::mpi::errhandler::Target;
use crate::mpi::info::MEMORY_KINDS;
use crate::mpi::session::{self, PSETS, Session};
use crate::mpi::world::State;
use std::ffi::{c_char, c_int};
use std::rc::Rc;

/// Names of the levels of thread support, in the order of their numbers.
pub(super) const LEVELS: [&str; 4] = [
    "MPI_THREAD_SINGLE",
    "MPI_THREAD_FUNNELED",
    "MPI_THREAD_SERIALIZED",
    "MPI_THREAD_MULTIPLE",
];

fn find_session(state: &State, handle: MPI_Session) -> Result<&Rc<Session>> {
    let key = Object::Session.key(handle)?;
    Object::Session.alive(handle, state.sessions.get(key))
}

/// Runs `body` on the session `handle`; its error goes to the session's error handler, for want of
/// a valid one to that of errors without an object.
pub(super) fn on_session(
    name: &'static str,
    handle: MPI_Session,
    body: impl FnOnce(&mut Hold, &Rc<Session>) -> Result<()>,
) -> c_int {
    let Some(world) = current_world() else {
        let error = Object::Session.key(handle).err();
        return raise(
            name,
            Source::default(),
            error.unwrap_or_else(|| Object::Session.stale(handle)),
        );
    };
    let mut hold = world.hold();
    let (source, error) = match find_session(&hold, handle).cloned() {
        Ok(session) => match body(&mut hold, &session) {
            Ok(()) => return MPI_SUCCESS,
            Err(error) => (Source::on(handle, &session.errhandler), error),
        },
        Err(error) => (Source::anywhere(&hold), error),
    };
    drop(hold);
    raise(name, source, error)
}

/// The level of thread support that `info` asks for; the highest if it says nothing, as in MPICH.
fn level(info: MPI_Info) -> Result<c_int> {
    let hints = hints(info)?;
    let Some(asked) = hints.get(b"thread_level")? else {
        return Ok(MPI_THREAD_MULTIPLE);
    };
    match LEVELS.iter().position(|name| name.as_bytes() == asked) {
        Some(level) => Ok(level as c_int),
        None => fail!(
            InfoValue,
            "thread_level is \"{}\" but must be one of {}",
            asked.escape_ascii(),
            LEVELS.join(", ")
        ),
    }
}

/// Opens a session; starts the library if nothing else has. MPI-4.1 §11.3.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_init(
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    session: *mut MPI_Session,
) -> c_int {
    let errhandler = match find(Target::Session, errhandler) {
        Ok(errhandler) => errhandler,
        Err(error) => return on_any("MPI_Session_init", || Err(error)),
    };
    let begin = || {
        load(session, "session")?;
        let level = level(info)?;
        let world = init::open_session();
        // A library that was started for one thread at a time stays so.
        let most = if world.is_multiple() {
            MPI_THREAD_MULTIPLE
        } else {
            MPI_THREAD_SERIALIZED
        };
        let new = Rc::new(Session::new(errhandler.clone(), level.min(most)));
        let made = Object::Session.made(world.hold().sessions.insert(new));
        store(session, "session", made?)
    };
    match begin() {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise("MPI_Session_init", Source::new(errhandler.clone()), error),
    }
}

/// Closes a session; stops the library if nothing else uses it. MPI-4.1 §11.3.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_finalize(session: *mut MPI_Session) -> c_int {
    let handle = match load(session, "session") {
        Ok(handle) => handle,
        Err(error) => return on_any("MPI_Session_finalize", || Err(error)),
    };
    let code = on_session("MPI_Session_finalize", handle, |hold, _| {
        hold.sessions.remove(Object::Session.key(handle)?);
        store(session, "session", MPI_SESSION_NULL)
    });
    if code == MPI_SUCCESS {
        return init::close_session();
    }
    code
}

/// Number of process sets. MPI-4.1 §11.3.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_get_num_psets(
    session: MPI_Session,
    info: MPI_Info,
    npset_names: *mut c_int,
) -> c_int {
    on_session("MPI_Session_get_num_psets", session, |_, _| {
        check_info(info)?;
        store(npset_names, "npset_names", PSETS.len() as c_int)
    })
}

/// Name of a process set, cut short to the room there is; the room it needs. MPI-4.1 §11.3.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_get_nth_pset(
    session: MPI_Session,
    info: MPI_Info,
    n: c_int,
    pset_len: *mut c_int,
    pset_name: *mut c_char,
) -> c_int {
    on_session("MPI_Session_get_nth_pset", session, |_, _| {
        check_info(info)?;
        let Some(name) = usize::try_from(n).ok().and_then(|n| PSETS.get(n)) else {
            fail!(Arg, "there is no process set {n}: there are {}", PSETS.len());
        };
        let room = count(load(pset_len, "pset_len")?, "pset_len")?;
        if room > 0 {
            store_text(pset_name, "pset_name", room, name)?;
        }
        store(pset_len, "pset_len", name.len() as c_int + 1)
    })
}

/// What is known about a session. MPI-4.1 §11.3.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_get_info(session: MPI_Session, info_used: *mut MPI_Info) -> c_int {
    on_session("MPI_Session_get_info", session, |_, session| {
        let level = LEVELS[session.level as usize];
        answer(&[("thread_level", level), MEMORY_KINDS], info_used)
    })
}

/// What is known about a process set. MPI-4.1 §11.3.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_get_pset_info(
    session: MPI_Session,
    pset_name: *const c_char,
    info: *mut MPI_Info,
) -> c_int {
    on_session("MPI_Session_get_pset_info", session, |hold, session| {
        let group = pset(hold, session, pset_name)?;
        answer(&[("mpi_size", &group.size().to_string())], info)
    })
}

fn pset(state: &State, session: &Rc<Session>, name: *const c_char) -> Result<crate::mpi::group::Group> {
    let name = string(name, "pset_name")?;
    match session::group(state, session, &name) {
        Some(group) => Ok(group),
        None => fail!(
            Arg,
            "there is no process set \"{name}\"; there are {}",
            PSETS.join(" and ")
        ),
    }
}

/// The processes of a process set. MPI-4.1 §7.3.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_from_session_pset(
    session: MPI_Session,
    pset_name: *const c_char,
    newgroup: *mut MPI_Group,
) -> c_int {
    on_session("MPI_Group_from_session_pset", session, |hold, session| {
        load(newgroup, "newgroup")?;
        let group = pset(hold, session, pset_name)?;
        let made = Object::Group.made(hold.groups.insert(Rc::new(group)))?;
        store(newgroup, "newgroup", made)
    })
}

/// Attaches an error handler to a session. MPI-4.1 §9.3.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_set_errhandler(session: MPI_Session, errhandler: MPI_Errhandler) -> c_int {
    on_session("MPI_Session_set_errhandler", session, |_, session| {
        *session.errhandler.borrow_mut() = find(Target::Session, errhandler)?;
        Ok(())
    })
}

/// The error handler of a session. MPI-4.1 §9.3.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_get_errhandler(session: MPI_Session, errhandler: *mut MPI_Errhandler) -> c_int {
    on_session("MPI_Session_get_errhandler", session, |_, session| {
        load(errhandler, "errhandler")?;
        store(errhandler, "errhandler", refer(&session.errhandler.borrow())?)
    })
}

/// Calls the error handler of a session. MPI-4.1 §9.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Session_call_errhandler(session: MPI_Session, errorcode: c_int) -> c_int {
    let mut source = None;
    let code = on_session("MPI_Session_call_errhandler", session, |_, object| {
        source = Some(Source::on(session, &object.errhandler));
        Ok(())
    });
    if let Some(source) = source {
        handle("MPI_Session_call_errhandler", source, errorcode);
    }
    code
}
