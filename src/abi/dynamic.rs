//! # Safety
//! Reads and writes the application's memory through the helpers of [`super::edge`]; of an array of strings that ends in a null
//! pointer, and of a descriptor, it believes what the program says.
//!
//! Processes that are started later, ports, and published names (MPI-4.1 §11.8, §11.9).
#![allow(unsafe_code)]

use super::coll::root_rank;
use super::comm::{give_comm, new_comm};
use super::constants::*;
use super::edge::*;
use super::info::hints;
use super::types::*;
use crate::fail;
use crate::launch::spawn::{self, Annex, Program};
use crate::mpi::comm::{Comm, birth, dynamic};
use crate::mpi::info::Info;
use crate::mpi::world::Hold;
use crate::shm::names::{self, NAMES, Refused, SERVICE};
use crate::sys::descriptor;
use std::ffi::{CStr, OsString, c_char, c_int};
use std::fs::File;
use std::io::Read;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::time::Duration;

/// Keys of info objects that mpirun has an option for; the others mean nothing here.
const KEYS: [(&str, &str); 5] = [
    ("wdir", "-wdir"),
    ("path", "-path"),
    ("host", "-host"),
    ("hostfile", "-f"),
    ("mpi_initial_errhandler", "-initial-errhandler"),
];

/// Joins those who started this process, if it was started later.
///
/// # Errors
/// As [`birth::parents`].
pub fn meet_parents(hold: &mut Hold) -> Result<()> {
    let Some(parents) = birth::parents(hold)? else {
        return Ok(());
    };
    parents.name.replace(Some("MPI_COMM_PARENT".into()));
    hold.parent = hold.keep_comm(Rc::new(parents));
    Ok(())
}

/// A string of the program's, as it is.
fn bytes(text: *const c_char, name: &str) -> Result<OsString> {
    load(text.cast::<u8>(), name)?;
    // SAFETY: not NULL, hence a string of the application that ends in NUL.
    let text = unsafe { CStr::from_ptr(text) };
    Ok(std::ffi::OsStr::from_bytes(text.to_bytes()).to_os_string())
}

/// The strings of an array that ends in a null pointer, or is one.
fn strings(array: *mut *mut c_char) -> Result<Vec<OsString>> {
    let mut words = Vec::new();
    let mut at = array;
    while !at.is_null() {
        // SAFETY: the program's promise: an array of strings, behind the last of which stands a null pointer.
        let word = unsafe { *at };
        if word.is_null() {
            break;
        }
        words.push(bytes(word, "argv")?);
        // SAFETY: as above, there is one more.
        at = unsafe { at.add(1) };
    }
    Ok(words)
}

/// `count` processes of `command`, as the hints ask.
fn program(command: *const c_char, argv: *mut *mut c_char, count: c_int, info: MPI_Info) -> Result<Program> {
    let Ok(count) = u32::try_from(count) else {
        fail!(Arg, "maxprocs is {count} but must not be negative");
    };
    let command = bytes(command, "command")?;
    if command.is_empty() {
        fail!(Arg, "command is empty");
    }
    let hints: Info = hints(info)?;
    let mut options = Vec::new();
    for (key, option) in KEYS {
        if let Some(value) = hints.get(key.as_bytes())? {
            options.push((option, String::from_utf8_lossy(value).into_owned()));
        }
    }
    Ok(Program {
        count,
        command,
        arguments: strings(argv)?,
        options,
    })
}

/// Has mpirun start `programs` as ranks from `first` on.
fn launch(hold: &Hold, programs: Vec<Program>) -> birth::Launch {
    let job = hold.job;
    Box::new(move |segment, first| {
        let Some((file, _)) = segment.zone_file(0) else {
            fail!(Spawn, "the program has closed the descriptor of the job's memory");
        };
        let annex = Annex {
            pid: std::process::id() as i32,
            file: file.as_raw_fd(),
            first,
            launcher: job.launcher,
        };
        let ours = Some(job.launcher).filter(|_| job.is_ours);
        spawn::start(annex, ours, &programs).or_else(|sentence| fail!(Spawn, "{sentence}"))
    })
}

/// What both functions that start processes do.
fn start(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    root: c_int,
    (intercomm, errcodes): (*mut MPI_Comm, *mut c_int),
    programs: impl FnOnce() -> Result<Vec<Program>>,
) -> Result<()> {
    comm.intra()?;
    let root = root_rank(comm, root)?;
    let out = new_comm(intercomm, "intercomm")?;
    let mut wanted = 0;
    let new = birth::spawn(hold, comm, root, |hold| {
        let programs: Vec<Program> = programs()?.into_iter().filter(|program| program.count > 0).collect();
        let count = programs
            .iter()
            .try_fold(0u32, |sum, program| sum.checked_add(program.count));
        wanted = count.unwrap_or(u32::MAX);
        match wanted {
            0 => fail!(Arg, "maxprocs is 0: there is no process to start"),
            count => Ok((count, launch(hold, programs))),
        }
    });
    let (code, count) = match &new {
        Ok(new) => (MPI_SUCCESS, new.remote_group()?.size()),
        Err(error) => (error.class() as c_int, wanted),
    };
    if errcodes != MPI_ERRCODES_IGNORE && count <= crate::shm::layout::MAX_RANKS {
        slice_mut(errcodes, count as usize, "array_of_errcodes")?.fill(code);
    }
    *out = give_comm(hold, Rc::new(new?))?;
    Ok(())
}

/// Starts processes, and joins them to this group by an intercommunicator, when all are in MPI_Init. MPI-4.1 §11.8.2.
///
/// mpirun starts them, with `wdir`, `path`, `host`, `hostfile` and `mpi_initial_errhandler` of `info`; if one does not start, none
/// does, and the class is `MPI_ERR_SPAWN`.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_spawn(
    command: *const c_char,
    argv: *mut *mut c_char,
    maxprocs: c_int,
    info: MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
    array_of_errcodes: *mut c_int,
) -> c_int {
    on_comm("MPI_Comm_spawn", comm, |hold, comm| {
        start(hold, comm, root, (intercomm, array_of_errcodes), || {
            Ok(vec![program(command, argv, maxprocs, info)?])
        })
    })
}

/// As [`MPI_Comm_spawn`], several programs, whose processes have one `MPI_COMM_WORLD`. MPI-4.1 §11.8.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_spawn_multiple(
    count: c_int,
    array_of_commands: *mut *mut c_char,
    array_of_argv: *mut *mut *mut c_char,
    array_of_maxprocs: *const c_int,
    array_of_info: *const MPI_Info,
    root: c_int,
    comm: MPI_Comm,
    intercomm: *mut MPI_Comm,
    array_of_errcodes: *mut c_int,
) -> c_int {
    on_comm("MPI_Comm_spawn_multiple", comm, |hold, comm| {
        start(hold, comm, root, (intercomm, array_of_errcodes), || {
            let count = self::count(count, "count")?;
            let commands = slice(array_of_commands, count, "array_of_commands")?;
            let numbers = slice(array_of_maxprocs, count, "array_of_maxprocs")?;
            let infos = slice(array_of_info, count, "array_of_info")?;
            let argvs = match array_of_argv == MPI_ARGVS_NULL {
                true => &vec![MPI_ARGV_NULL; count],
                false => slice(array_of_argv, count, "array_of_argv")?,
            };
            let programs = (0..count).map(|at| program(commands[at], argvs[at], numbers[at], infos[at]));
            programs.collect()
        })
    })
}

/// The intercommunicator with those who started this process; `MPI_COMM_NULL` if it was there from the start, or has left them.
/// MPI-4.1 §11.8.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_get_parent(parent: *mut MPI_Comm) -> c_int {
    on_world("MPI_Comm_get_parent", |hold| {
        let handle = match hold.parent {
            Some(key) => Object::Comm.made(Some(key))?,
            None => MPI_COMM_NULL,
        };
        store(parent, "parent", handle)
    })
}

/// Opens a port at which others of the job can connect. MPI-4.1 §11.9.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Open_port(info: MPI_Info, port_name: *mut c_char) -> c_int {
    on_world("MPI_Open_port", |hold| {
        hints(info)?;
        load(port_name.cast::<u8>(), "port_name")?;
        let name = dynamic::open_port(hold)?;
        store_text(port_name, "port_name", MPI_MAX_PORT_NAME as usize, &name).map(drop)
    })
}

/// Closes a port. MPI-4.1 §11.9.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Close_port(port_name: *const c_char) -> c_int {
    on_world("MPI_Close_port", |hold| {
        dynamic::close_port(hold, &string(port_name, "port_name")?)
    })
}

/// Makes the two functions that join groups at a port, by what their roots do to find each other.
macro_rules! at_port {
    ($($(#[$doc:meta])* $name:ident = $find:expr;)*) => {$(
        $(#[$doc])*
        #[apply(mpi_function!)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            port_name: *const c_char,
            info: MPI_Info,
            root: c_int,
            comm: MPI_Comm,
            newcomm: *mut MPI_Comm,
        ) -> c_int {
            on_comm(stringify!($name), comm, |hold, comm| {
                comm.intra()?;
                let info = hints(info)?;
                let root = root_rank(comm, root)?;
                let out = new_comm(newcomm, "newcomm")?;
                let find = |hold: &mut Hold| ($find)(hold, &string(port_name, "port_name")?, &info);
                let new = dynamic::meet(hold, comm, root, find)?;
                *out = give_comm(hold, Rc::new(new))?;
                Ok(())
            })
        }
    )*};
}

at_port! {
    /// Waits for a group to connect at a port that `root` has opened. MPI-4.1 §11.9.2.
    MPI_Comm_accept = |hold: &mut Hold, name: &str, _: &Info| dynamic::accept(hold, name);
    /// Connects to the group that accepts at a port; `timeout` of `info` says for how many seconds it waits at most, or else
    /// `NEARMPI_CONNECT_MAX`, and `MPI_ERR_PORT` is what it gives then, or when the port is closed. MPI-4.1 §11.9.3.
    MPI_Comm_connect = |hold: &mut Hold, name: &str, info: &Info| {
        let limit = info.read("timeout", "number of seconds", |text| text.parse().ok())?;
        let usual = Some(hold.engine.channel.settings().connect_max).filter(|&seconds| seconds > 0);
        dynamic::connect(hold, name, limit.or(usual).map(Duration::from_secs))
    };
}

/// Joins this process to the one at the other end of socket `fd`; `MPI_COMM_NULL` if that is of another job. MPI-4.1 §11.9.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_join(fd: c_int, intercomm: *mut MPI_Comm) -> c_int {
    on_world("MPI_Comm_join", |hold| {
        let out = new_comm(intercomm, "intercomm")?;
        if fd < 0 {
            fail!(Arg, "fd is {fd}, which is no descriptor");
        }
        // SAFETY: the program's descriptor, which it goes on using: it is not closed here.
        let mut socket = ManuallyDrop::new(unsafe { File::from_raw_fd(fd) });
        let swap = |mine: u64| {
            let mut theirs = [0; 8];
            let done =
                descriptor::send_all(socket.as_fd(), &mine.to_be_bytes()).and_then(|()| socket.read_exact(&mut theirs));
            match done {
                Ok(()) => Ok(u64::from_be_bytes(theirs)),
                Err(error) => fail!(Arg, "descriptor {fd} does not serve as a connection: {error}"),
            }
        };
        if let Some(new) = dynamic::join_over(hold, swap)? {
            *out = give_comm(hold, Rc::new(new))?;
        }
        Ok(())
    })
}

/// The name of a service, which must have room in a table.
fn service(text: *const c_char) -> Result<String> {
    let name = string(text, "service_name")?;
    if name.len() > SERVICE {
        fail!(
            Arg,
            "service_name has {} bytes, and at most {SERVICE} are kept",
            name.len()
        );
    }
    Ok(name)
}

/// Publishes a port for all processes of the job. MPI-4.1 §11.9.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Publish_name(
    service_name: *const c_char,
    info: MPI_Info,
    port_name: *const c_char,
) -> c_int {
    on_world("MPI_Publish_name", |hold| {
        hints(info)?;
        let (name, port) = (service(service_name)?, string(port_name, "port_name")?);
        if port.len() >= MPI_MAX_PORT_NAME as usize {
            fail!(Port, "port_name has {} bytes, more than any port's name", port.len());
        }
        match names::publish(hold.engine.channel.segment().names(), &name, &port) {
            Ok(()) => Ok(()),
            Err(Refused::Taken) => fail!(Service, "the name {name:?} is published already"),
            Err(Refused::Full) => fail!(
                Service,
                "{NAMES} names are published, as many as a job can have at a time"
            ),
        }
    })
}

/// Takes a published name back. MPI-4.1 §11.9.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Unpublish_name(
    service_name: *const c_char,
    info: MPI_Info,
    port_name: *const c_char,
) -> c_int {
    on_world("MPI_Unpublish_name", |hold| {
        hints(info)?;
        string(port_name, "port_name")?;
        let name = service(service_name)?;
        match names::take_back(hold.engine.channel.segment().names(), &name) {
            true => Ok(()),
            false => fail!(Service, "the name {name:?} is not published"),
        }
    })
}

/// The port that is published under a name. MPI-4.1 §11.9.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Lookup_name(service_name: *const c_char, info: MPI_Info, port_name: *mut c_char) -> c_int {
    on_world("MPI_Lookup_name", |hold| {
        hints(info)?;
        load(port_name.cast::<u8>(), "port_name")?;
        let name = service(service_name)?;
        match names::find(hold.engine.channel.segment().names(), &name) {
            Some(port) => store_text(port_name, "port_name", MPI_MAX_PORT_NAME as usize, &port).map(drop),
            None => fail!(Name, "nothing is published under the name {name:?}"),
        }
    })
}
