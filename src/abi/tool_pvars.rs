//! # Safety
//! Stores results through pointers of the application.
//!
//! Performance variables of the tools interface (MPI-4.1 §15.3.7): the counters of this rank's channel, the lengths of
//! its queues, and messages and bytes by path and size. The latter are what a profile counts, and are counted from
//! the first start of such a variable on; before, they cost nothing.
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::{apply, current_world};
use super::tool_vars::*;
use super::types::*;
use crate::channel::Metering;
use crate::mpi::traffic;
use crate::mpi::world::State;
use crate::shm::profile::{self, Meter, Path};
use crate::sys::clock::Ticks;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Arc;

/// A session: its handles, by number.
#[derive(Default)]
pub(super) struct Session {
    handles: BTreeMap<usize, Handle>,
}

/// A handle of a performance variable.
struct Handle {
    variable: &'static Pvar,
    /// What was counted while it was started before, and when it was started now; of variables that are started.
    before: Vec<u64>,
    started: Option<Vec<u64>>,
}

impl Tools {
    /// The handles of a session.
    fn handles(&mut self, session: MPI_T_pvar_session) -> Result<&mut BTreeMap<usize, Handle>, Code> {
        let session = self.sessions.get_mut(&session.addr());
        session
            .map(|session| &mut session.handles)
            .ok_or(MPI_T_ERR_INVALID_SESSION)
    }

    /// A handle.
    fn handle(&mut self, session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> Result<&mut Handle, Code> {
        self.handles(session)?
            .get_mut(&handle.addr())
            .ok_or(MPI_T_ERR_INVALID_HANDLE)
    }
}

impl Pvar {
    /// How many numbers it has.
    fn len(&self) -> usize {
        match self.value {
            Value::Number(_) => 1,
            Value::Sizes(..) => profile::CLASSES,
        }
    }

    /// Its numbers now; 0 while MPI is not initialized or nothing is counted.
    fn now(&self) -> Vec<u64> {
        let Some(world) = current_world() else {
            return vec![0; self.len()];
        };
        let state: &State = &world.hold();
        match self.value {
            Value::Number(value) => vec![value(state)],
            Value::Sizes(path, measure) => match state.engine.channel.meter() {
                Some(meter) => sizes(meter, path, measure),
                None => vec![0; self.len()],
            },
        }
    }

    fn is_started_by_tools(&self) -> bool {
        matches!(self.value, Value::Sizes(..))
    }
}

/// What has gone by `path`, the program's messages and the library's own together.
fn sizes(meter: &Meter, path: Path, measure: Measure) -> Vec<u64> {
    let of = |kind, class| {
        let sum = meter.block().traffic(kind, path, class);
        match measure {
            Measure::Messages => sum.messages,
            Measure::Bytes => sum.bytes,
        }
    };
    let sum = |class| profile::KIND_NAMES.iter().map(|&(kind, _)| of(kind, class)).sum();
    (0..profile::CLASSES).map(sum).collect()
}

impl Handle {
    fn start(&mut self) {
        if self.started.is_none() {
            if let Some(world) = current_world() {
                count(&mut world.hold());
            }
            self.started = Some(self.variable.now());
        }
    }

    fn stop(&mut self) {
        self.before = self.values();
        self.started = None;
    }

    fn values(&self) -> Vec<u64> {
        if !self.variable.is_started_by_tools() {
            return self.variable.now();
        }
        let Some(from) = &self.started else {
            return self.before.clone();
        };
        let since = self.variable.now().into_iter().zip(from);
        let since = since.map(|(now, from)| now.saturating_sub(*from));
        since.zip(&self.before).map(|(since, before)| since + before).collect()
    }
}

/// Counts messages by path and size from now on.
fn count(state: &mut State) {
    let channel = &mut state.engine.channel;
    if channel.meter().is_none() {
        // The rank's place in the segment is there, and nobody reads it: no profile was asked for.
        let block = channel.segment().profile(channel.me());
        let meter = Arc::new(Meter::new(block, Ticks::best(), || None));
        channel.profile(Metering {
            meter,
            kind: traffic::kind,
        });
    }
}

/// MPI begins: counts if a tool has started such a variable already.
pub(super) fn begin(state: &mut State) {
    let tools = tools();
    let mut handles = tools.sessions.values().flat_map(|session| session.handles.values());
    if handles.any(|handle| handle.started.is_some()) {
        count(state);
    }
}

/// A performance variable.
struct Pvar {
    name: &'static str,
    meaning: &'static str,
    class: c_int,
    value: Value,
}

/// What a performance variable tells.
#[derive(Clone, Copy)]
enum Value {
    /// A number that is always there.
    Number(fn(&State) -> u64),
    /// What has gone this way since its handle was started, by class of size (see [`profile::CLASSES`]).
    Sizes(Path, Measure),
}

/// What is counted by size.
#[derive(Clone, Copy)]
enum Measure {
    Messages,
    Bytes,
}

macro_rules! variables {
    ($($field:ident $meaning:literal),*; $($path:ident $name:literal $way:literal),* $(,)?) => {
        &[
            $(Pvar {
                name: concat!("nearmpi_", stringify!($field)),
                meaning: $meaning,
                class: MPI_T_PVAR_CLASS_COUNTER,
                value: Value::Number(|state| state.engine.channel.counters().$field),
            },)*
            Pvar {
                name: "nearmpi_posted",
                meaning: "receives that have no message yet",
                class: MPI_T_PVAR_CLASS_LEVEL,
                value: Value::Number(|state| state.engine.posted.len() as u64),
            },
            Pvar {
                name: "nearmpi_unexpected",
                meaning: "messages that have no receive yet",
                class: MPI_T_PVAR_CLASS_LEVEL,
                value: Value::Number(|state| state.engine.unexpected.len() as u64),
            },
            Pvar {
                name: "nearmpi_sends",
                meaning: "messages of this rank that are queued, or offered and not fetched yet",
                class: MPI_T_PVAR_CLASS_LEVEL,
                value: Value::Number(|state| state.engine.channel.open_sends().count() as u64),
            },
            Pvar {
                name: "nearmpi_requests",
                meaning: "requests that have been made and not freed",
                class: MPI_T_PVAR_CLASS_LEVEL,
                value: Value::Number(|state| state.requests.iter().count() as u64),
            },
            $(Pvar {
                name: concat!("nearmpi_messages_", $name),
                meaning: concat!("messages ", $way, ", by size: none, 1, 2 to 3, 4 to 7 bytes, and so on"),
                class: MPI_T_PVAR_CLASS_COUNTER,
                value: Value::Sizes(Path::$path, Measure::Messages),
            },
            Pvar {
                name: concat!("nearmpi_bytes_", $name),
                meaning: concat!("bytes of messages ", $way, ", by size: none, 1, 2 to 3, 4 to 7 bytes, and so on"),
                class: MPI_T_PVAR_CLASS_COUNTER,
                value: Value::Sizes(Path::$path, Measure::Bytes),
            },)*
        ]
    };
}

/// The table of performance variables.
const PVARS: &[Pvar] = variables! {
    inline "messages sent inside a slot of the pair's ring",
    ring "messages sent through the bytes of the pair's ring",
    cells "portions sent through cells of the sender's pool",
    offers "messages offered to be copied once",
    one_copies "messages received by one copy",
    streams "offers that could not be copied at once and were streamed through cells",
    written "chunks of large messages that this rank wrote into their receivers' memory",
    levels "times this rank told a sender that it is late, or no longer",
    left "large messages kept by their sender because no receiver came",
    queued "messages that had to wait for room",
    sleeps "times a wait went to sleep",
    sweeps "times all rings were looked at in turn",
    refused "ranks whose memory the kernel does not let this rank read: all goes through shared memory";
    Slot "slot" "that this rank wrote into slots of rings",
    Ring "ring" "that this rank wrote into the bytes of rings",
    Cells "cells" "that this rank wrote into its cells",
    Streamed "streamed" "that this rank got through cells after an offer",
    OneCopy "one_copy" "that this rank read from their senders' memory",
    Joint "both_copy" "that this rank and their senders copied together",
    Mapped "mapped" "that this rank read in memory that both have mapped",
    Collective "collective" "that this rank read in the memory of collective operations",
};

/// The performance variables of a category.
pub(super) fn pvars_of(category: usize) -> Vec<c_int> {
    let class = [MPI_T_PVAR_CLASS_COUNTER, MPI_T_PVAR_CLASS_LEVEL][category];
    let all = PVARS.iter().enumerate();
    all.filter(|(_, pvar)| pvar.class == class)
        .map(|(index, _)| index as c_int)
        .collect()
}

/// Number of performance variables. MPI-4.1 §15.3.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_pvar_get_num(num_pvar: *mut c_int) -> c_int {
    on_tools(|_| give(num_pvar, PVARS.len() as c_int))
}

/// What a performance variable is. MPI-4.1 §15.3.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_pvar_get_info(
    pvar_index: c_int,
    name: *mut c_char,
    name_len: *mut c_int,
    verbosity: *mut c_int,
    var_class: *mut c_int,
    datatype: *mut MPI_Datatype,
    enumtype: *mut MPI_T_enum,
    desc: *mut c_char,
    desc_len: *mut c_int,
    bind: *mut c_int,
    readonly: *mut c_int,
    continuous: *mut c_int,
    atomic: *mut c_int,
) -> c_int {
    on_tools(|_| {
        let (_, pvar) = row(PVARS, pvar_index)?;
        text(name, name_len, pvar.name);
        text(desc, desc_len, pvar.meaning);
        put(verbosity, MPI_T_VERBOSITY_USER_BASIC);
        put(var_class, pvar.class);
        put(datatype, MPI_UNSIGNED_LONG_LONG);
        put(enumtype, MPI_T_ENUM_NULL);
        put(bind, MPI_T_BIND_NO_OBJECT);
        put(readonly, 1);
        put(continuous, c_int::from(!pvar.is_started_by_tools()));
        put(atomic, 0);
        Ok(())
    })
}

/// The performance variable of a name and class. MPI-4.1 §15.3.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_pvar_get_index(name: *const c_char, var_class: c_int, pvar_index: *mut c_int) -> c_int {
    on_tools(|_| {
        let index = named(name, PVARS.iter().map(|pvar| pvar.name))?;
        if row(PVARS, index)?.1.class != var_class {
            return Err(MPI_T_ERR_INVALID_NAME);
        }
        give(pvar_index, index)
    })
}

/// Opens a session. MPI-4.1 §15.3.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_pvar_session_create(session: *mut MPI_T_pvar_session) -> c_int {
    on_tools(|tools| {
        let number = tools.next;
        give(session, std::ptr::without_provenance_mut(number))?;
        tools.number();
        tools.sessions.insert(number, Session::default());
        Ok(())
    })
}

/// Closes a session and the handles in it. MPI-4.1 §15.3.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_pvar_session_free(session: *mut MPI_T_pvar_session) -> c_int {
    on_tools(|tools| {
        let number = number_of(session)?;
        tools.sessions.remove(&number).ok_or(MPI_T_ERR_INVALID_SESSION)?;
        give(session, MPI_T_PVAR_SESSION_NULL)
    })
}

/// Opens a performance variable in a session. MPI-4.1 §15.3.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_pvar_handle_alloc(
    session: MPI_T_pvar_session,
    pvar_index: c_int,
    _obj_handle: *mut c_void,
    handle: *mut MPI_T_pvar_handle,
    count: *mut c_int,
) -> c_int {
    on_tools(|tools| {
        let (_, variable) = row(PVARS, pvar_index)?;
        let number = tools.number();
        let handles = tools.handles(session)?;
        give(handle, std::ptr::without_provenance_mut(number))?;
        let (before, started) = (vec![0; variable.len()], None);
        let opened = Handle {
            variable,
            before,
            started,
        };
        handles.insert(number, opened);
        put(count, variable.len() as c_int);
        Ok(())
    })
}

/// Closes a performance variable. MPI-4.1 §15.3.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_pvar_handle_free(session: MPI_T_pvar_session, handle: *mut MPI_T_pvar_handle) -> c_int {
    on_tools(|tools| {
        let number = number_of(handle)?;
        let freed = tools.handles(session)?.remove(&number);
        freed.ok_or(MPI_T_ERR_INVALID_HANDLE)?;
        give(handle, MPI_T_PVAR_HANDLE_NULL)
    })
}

/// Whether every handle of the session is meant.
fn is_all(handle: MPI_T_pvar_handle) -> bool {
    handle.addr() == super::fortran::MPI_T_PVAR_ALL_HANDLES.0.addr()
}

/// Starts a performance variable; those that are not counted by size run always. MPI-4.1 §15.3.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_pvar_start(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
    on_tools(|tools| switch(tools, session, handle, Handle::start))
}

/// Stops a performance variable, which keeps its values; those that are not counted by size run always. MPI-4.1 §15.3.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_pvar_stop(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
    on_tools(|tools| switch(tools, session, handle, Handle::stop))
}

/// Does so with one handle, or with all for which it is allowed.
fn switch(
    tools: &mut Tools,
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    act: fn(&mut Handle),
) -> Result<(), Code> {
    if is_all(handle) {
        let handles = tools.handles(session)?.values_mut();
        handles
            .filter(|handle| handle.variable.is_started_by_tools())
            .for_each(act);
        return Ok(());
    }
    let handle = tools.handle(session, handle)?;
    if !handle.variable.is_started_by_tools() {
        return Err(MPI_T_ERR_PVAR_NO_STARTSTOP);
    }
    act(handle);
    Ok(())
}

/// Refuses what no variable allows; the form for all handles passes over such variables.
fn refuse(tools: &mut Tools, session: MPI_T_pvar_session, handle: MPI_T_pvar_handle, code: Code) -> Result<(), Code> {
    if is_all(handle) {
        return tools.handles(session).map(drop);
    }
    tools.handle(session, handle)?;
    Err(code)
}

/// The value of a performance variable; 0 while MPI is not initialized. MPI-4.1 §15.3.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_pvar_read(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    buf: *mut c_void,
) -> c_int {
    on_tools(|tools| {
        let values = tools.handle(session, handle)?.values();
        give(buf.cast::<u64>(), values[0])?;
        for (at, value) in values.into_iter().enumerate() {
            put(buf.cast::<u64>().wrapping_add(at), value);
        }
        Ok(())
    })
}

/// Performance variables cannot be written. MPI-4.1 §15.3.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_pvar_write(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    _buf: *const c_void,
) -> c_int {
    on_tools(|tools| {
        tools.handle(session, handle)?;
        Err(MPI_T_ERR_PVAR_NO_WRITE)
    })
}

/// Performance variables cannot be reset. MPI-4.1 §15.3.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_pvar_reset(session: MPI_T_pvar_session, handle: MPI_T_pvar_handle) -> c_int {
    on_tools(|tools| refuse(tools, session, handle, MPI_T_ERR_PVAR_NO_WRITE))
}

/// No performance variable can be read and reset in one step. MPI-4.1 §15.3.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_T_pvar_readreset(
    session: MPI_T_pvar_session,
    handle: MPI_T_pvar_handle,
    _buf: *mut c_void,
) -> c_int {
    on_tools(|tools| {
        tools.handle(session, handle)?;
        Err(MPI_T_ERR_PVAR_NO_ATOMIC)
    })
}
