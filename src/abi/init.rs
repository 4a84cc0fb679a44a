//! # Safety
//! Writes through the application's pointers; gives it memory and takes it back.
//!
//! The life of MPI in a process, and what it says about itself and the machine (MPI-4.1 §9, §11.2).
#![allow(unsafe_code)]

use super::constants::*;
use super::crash;
use super::dynamic;
use super::edge::*;
use super::errhandler::report;
use super::fortran;
use super::info::hints;
use super::progress;
use super::timing;
use super::tool_pvars;
use super::types::*;
use crate::fail;
use crate::launch::bootstrap::{self, Control, Membership};
use crate::launch::memory_report;
use crate::mpi::coll;
use crate::mpi::coll::signature::Call;
use crate::mpi::comm;
use crate::mpi::errhandler::Errhandler;
use crate::mpi::error::Class;
use crate::mpi::failure;
use crate::mpi::world::{Job, State, World};
use crate::shm::layout::PAGE;
use crate::shm::profile::Stage;
use crate::shm::segment::{self, Life, Segment};
use crate::sys::cpuset::CpuSet;
use crate::sys::cvar::{self, Settings};
use crate::sys::spare::SPARE;
use crate::sys::topology::{self, Place};
use crate::sys::{clock, cma, cpu, descriptor, fork, host, memory, process};
use std::collections::BTreeMap;
use std::ffi::{c_char, c_double, c_int, c_void};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// The way to the launcher.
static CONTROL: Mutex<Option<Control>> = Mutex::new(None);
/// The thread that initialized MPI.
static MAIN: OnceLock<ThreadId> = OnceLock::new();
/// The level of thread support in force.
static LEVEL: AtomicI32 = AtomicI32::new(MPI_THREAD_SINGLE);

/// What MPI_Get_library_version tells.
const LIBRARY_VERSION: &str = concat!(
    "nearmpi ",
    env!("CARGO_PKG_VERSION"),
    ": MPI for one machine, with the MPICH ABI (libmpi.so.12)\n"
);

/// Who uses the library: it starts for the first and stops after the last.
static USERS: Mutex<Users> = Mutex::new(Users {
    program: false,
    sessions: 0,
});

/// Who uses the library.
struct Users {
    /// The program, between MPI_Init and MPI_Finalize.
    program: bool,
    /// Open sessions.
    sessions: u32,
}

fn users() -> MutexGuard<'static, Users> {
    USERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the library unless it runs. What began for a session is fit for threads that call at the
/// same time, since others may come.
fn open(name: &'static str, multiple: bool) -> &'static World {
    if let Some(world) = current_world() {
        return world;
    }
    if let Some(world) = reset_world() {
        live(&world.hold(), Life::Attached);
        timing::stage(&world.hold(), Stage::Running);
        progress::begin_if_asked(world);
        return world;
    }
    let world = join(multiple).unwrap_or_else(|sentence| {
        report(&format!("nearmpi: cannot initialize MPI: {sentence}"));
        end_job(1)
    });
    fork::in_each_child(disown);
    at_end_of_job(tell_job);
    let world = set_world(world);
    let mut hold = world.hold();
    if let Err(error) = dynamic::meet_parents(&mut hold) {
        report(&format!(
            "nearmpi: cannot join those who started this process: {}",
            error.text()
        ));
        match error.class() {
            // The others of them may go on without this one, as without the dead one.
            Class::ProcFailed => end_alone(1),
            _ => end_job(1),
        }
    }
    timing::ready(&hold, timing::number(name));
    drop(hold);
    progress::begin_if_asked(world);
    world
}

/// Says in shared memory how far this rank is.
fn live(state: &State, life: Life) {
    let channel = &state.engine.channel;
    let place = &channel.segment().rank(channel.me()).life;
    // Who was taken for dead stays so: others have been told.
    let may = |now| (now != Life::Dead as u32).then_some(life as u32);
    let _ = place.fetch_update(Ordering::Release, Ordering::Relaxed, may);
}

/// Stops the library after its last user.
fn close(name: &'static str, users: &Users) -> c_int {
    if users.program || users.sessions > 0 {
        return MPI_SUCCESS;
    }
    progress::end();
    let code = on_world(name, |hold| {
        hold.wait_until(None, |hold| {
            let channel = &mut hold.engine.channel;
            channel.drop_unread();
            Ok(channel.is_flushed())
        })?;
        let channel = &hold.engine.channel;
        memory_report::write(channel.me(), channel.segment());
        comm::dynamic::end(hold);
        live(hold, Life::Finalized);
        timing::stage(hold, Stage::Ended);
        Ok(())
    });
    if code != MPI_SUCCESS {
        return code;
    }
    unset_world();
    SPARE.keep_at_most(0);
    let control = CONTROL.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(Err(sentence)) = control.map(Control::finalize) {
        report(&format!("nearmpi: {sentence}"));
    }
    MPI_SUCCESS
}

/// Counts a session in; starts the library for the first user.
pub fn open_session() -> &'static World {
    refuse_child("MPI_Session_init");
    let mut users = users();
    let world = open("MPI_Session_init", true);
    users.sessions += 1;
    world
}

/// Counts a session out; stops the library after the last user.
pub fn close_session() -> c_int {
    let mut users = users();
    users.sessions -= 1;
    close("MPI_Session_finalize", &users)
}

/// Joins the job with thread support `level`.
fn initialize(name: &'static str, level: c_int) -> Result<()> {
    if finalized() {
        fail!(Other, "MPI has been finalized and cannot be initialized again");
    }
    if initialized() {
        fail!(Other, "MPI has been initialized already");
    }
    let mut users = users();
    open(name, level == MPI_THREAD_MULTIPLE);
    users.program = true;
    LEVEL.store(level, Ordering::Relaxed);
    let _ = MAIN.set(std::thread::current().id());
    set_initialized();
    Ok(())
}

fn join(multiple: bool) -> std::result::Result<World, String> {
    let began = timing::moment();
    let mut settings = Settings::from_environment()?;
    // Where we make the segment ourselves, the launcher's own mask says which CPUs the job has: a
    // launcher may have bound this rank to one of them.
    let create = |ranks| segment::create(ranks, cpu::allowed(descriptor::parent()) as u32);
    let (mut member, mut segment) = enter(bootstrap::join(create)?)?;
    if is_taken(&segment, member.first + member.rank)? {
        (member, segment) = enter(bootstrap::alone(create)?)?;
    }
    segment.wait_while_held(|| !process::is_alive(member.launcher_pid));
    let rank = member.first + member.rank;
    settle(&segment, rank, &mut settings)?;
    place_memory(&segment, &member, settings.numa != 0);
    cma::allow_reads_by(member.launcher_pid);
    if rank == 0 && !cvar::secure() {
        tell_slips();
    }
    let (debug, errors_return) = (settings.debug, settings.errors_return > 0);
    if settings.backtrace > 0 {
        crash::report(&format!("rank {rank}"));
    }
    let segment = Arc::new(segment);
    let mut state = State::join(segment.clone(), rank, settings);
    state.job = Job {
        appnum: member.appnum,
        alike: member.alike,
        universe: member.universe,
        launcher: member.launcher_pid,
        is_ours: member.control.is_mpirun(),
    };
    if !member.control.is_mpirun() && rank == 0 {
        // By whose end jobs that join this one (mpirun -join) notice that it was killed.
        let pid = match segment.ranks() {
            1 => std::process::id() as i32,
            _ => member.launcher_pid,
        };
        segment.launch(0, pid);
    }
    state.vigil = keep_watch;
    if errors_return {
        state.world.errhandler.replace(Errhandler::Return);
    }
    let threads = state.needs_gate(multiple);
    if let Err(sentence) = timing::profile(&mut state, &segment, threads, began) {
        report(&format!("nearmpi: {sentence}"));
    }
    state.share_heap();
    fortran::begin();
    tool_pvars::begin(&mut state);
    if debug > 0 {
        tell_ways(&mut state, debug);
    }
    *CONTROL.lock().unwrap_or_else(PoisonError::into_inner) = Some(member.control);
    Ok(World::new(state, multiple))
}

/// The job's memory, which must be that of a job with such a member.
fn enter(member: Membership) -> std::result::Result<(Membership, Segment), String> {
    let segment = Segment::attach(member.segment.as_fd()).map_err(|error| format!("the job's memory: {error}"))?;
    let size = match (member.first, segment.birth(member.first)) {
        (0, _) => segment.ranks(),
        (first, Some(birth)) if birth.first == first => birth.count,
        (first, _) => return Err(format!("the job's memory has no ranks that begin with {first}")),
    };
    match size == member.size {
        true => Ok((member, segment)),
        false => Err(format!("the job's memory is for {size} ranks, not {}", member.size)),
    }
}

/// Whether rank `rank` is a process that has started this one, by itself or by others: this one has a job of its own then, whatever
/// the environment that it has inherited says.
///
/// # Errors
/// A sentence: the rank is another process, or has been one that is gone, or this one before exec(2).
fn is_taken(segment: &Segment, rank: u32) -> std::result::Result<bool, String> {
    let (life, pid) = (segment.life(rank), segment.rank(rank).pid.load(Ordering::Relaxed));
    match life {
        Life::Absent => Ok(false),
        Life::Attached if process::is_ancestor(pid as i32) => Ok(true),
        _ => Err(format!(
            "rank {rank} of this job has been in MPI already, as process {pid}: of what was started as one rank, one program \
             can use MPI, and once; start another job with mpirun"
        )),
    }
}

/// Says which variables of the environment look like settings and are none.
fn tell_slips() {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for sentence in names.filter_map(|name| cvar::slip(&name)) {
        report(&format!("nearmpi: {sentence}"));
    }
}

/// Makes those settings that all ranks must have alike those of the first rank that came here.
fn settle(segment: &Segment, rank: u32, settings: &mut Settings) -> std::result::Result<(), String> {
    let (settler, numbers, rules) = segment.agree(rank, &settings.of_job(), &settings.collectives.text)?;
    let others = settings.adopt(&numbers, &rules);
    let others = others.map_err(|wrong| format!("the settings that rank {settler} made the job's: {wrong}"))?;
    if !others.is_empty() {
        report(&format!(
            "nearmpi: rank {rank} goes by {} of rank {settler}, which was first in MPI_Init: all ranks must have the same",
            others.join(", ")
        ));
    }
    if settings.cpus > 0 {
        segment.count_on(settings.cpus as u32);
    }
    Ok(())
}

/// Puts this rank's part of the shared memory on its NUMA node. Our mpirun has done so before the rank began.
fn place_memory(segment: &Segment, member: &Membership, wanted: bool) {
    if !wanted {
        if member.rank == 0 {
            segment.touch_all();
        }
    } else if !member.control.is_mpirun()
        && topology::nodes().count() > 1
        && let Some(node) = Place::of(&cpu::mask(0)).node
    {
        segment.prefer_node(member.rank, node);
    }
}

/// How long the banner waits for ranks that are not in MPI_Init yet.
const ARRIVAL: Duration = Duration::from_secs(2);

/// How large messages come to this rank, and why so: rank 0 says it, and who gets two copies from somebody; from
/// debug level 2 on all say it.
fn tell_ways(state: &mut State, debug: u64) {
    let (me, segment) = (state.engine.channel.me(), state.engine.channel.segment().clone());
    if me == 0 {
        banner(state);
    }
    let deadline = Instant::now() + ARRIVAL;
    let is_absent = |rank: u32| segment.life(rank) == Life::Absent;
    while Instant::now() < deadline && (0..segment.ranks()).any(is_absent) {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut ways: BTreeMap<String, CpuSet> = BTreeMap::new();
    for rank in (0..segment.ranks()).filter(|&rank| rank != me) {
        let way = match is_absent(rank) {
            true => "not in MPI_Init yet".to_string(),
            false => match state.engine.channel.explain_reach(rank) {
                Ok(()) => "by one copy".to_string(),
                Err(why) => format!("by two copies ({why})"),
            },
        };
        ways.entry(way).or_default().add(rank as usize);
    }
    let odd = ways.keys().any(|way| way != "by one copy");
    if me == 0 || odd || debug > 1 {
        let ways: Vec<String> = ways
            .into_iter()
            .map(|(way, ranks)| format!("from {ranks} {way}"))
            .collect();
        if !ways.is_empty() {
            report(&format!("nearmpi: rank {me} gets large messages {}", ways.join("; ")));
        }
    }
}

fn banner(state: &State) {
    let segment = state.engine.channel.segment();
    let shared = if segment.oversubscribed() {
        "ranks share CPUs"
    } else {
        "a CPU per rank"
    };
    report(&format!(
        "{}nearmpi: {} ranks, {shared}",
        LIBRARY_VERSION,
        segment.ranks()
    ));
}

/// Ends the job: everybody else learns the exit code.
fn tell_job(code: c_int) {
    if let Some(world) = current_world() {
        world.segment().abort(world.me(), code as u8);
    }
    // A thread that holds the lock is ending the job itself.
    if let Ok(control) = CONTROL.try_lock()
        && let Some(control) = &*control
    {
        control.abort(code);
    }
}

/// Ends this process if nobody else would: the launcher is gone, or the job is being ended.
fn keep_watch() {
    let Ok(control) = CONTROL.try_lock() else { return };
    let is_orphan = control.as_ref().is_some_and(Control::launcher_is_gone);
    drop(control);
    if is_orphan {
        report("nearmpi: the launcher is gone; ending");
        end_job(1);
    }
    if let Some(code) = current_world().and_then(|world| world.segment().aborted(world.me())) {
        end_job(code.into());
    }
}

/// Initializes MPI. MPI-4.1 §11.2.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> c_int {
    on_any("MPI_Init", || initialize("MPI_Init", MPI_THREAD_SINGLE))
}

/// Initializes MPI with the level of thread support asked for, which is always given. MPI-4.1 §11.6.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> c_int {
    on_any("MPI_Init_thread", || {
        let level = required.clamp(MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE);
        initialize("MPI_Init_thread", level)?;
        store(provided, "provided", level)
    })
}

/// Ends MPI, when all have come here and nothing is under way. MPI-4.1 §11.2.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Finalize() -> c_int {
    // An attribute that cannot be deleted keeps nobody from ending: the error is told, and MPI ends.
    let deleted = on_world("MPI_Finalize", super::attr::delete_predefined);
    let code = on_world("MPI_Finalize", |hold| {
        let world = hold.world.clone();
        match coll::barrier_of(hold, &world, Call::Finalize) {
            Err(error) if matches!(error.class(), Class::ProcFailed | Class::Revoked) => failure::meet_at_end(hold),
            other => {
                let leaks = hold.leaks().filter(|_| hold.is_checking());
                if let Some(leaks) = leaks {
                    report(&format!("nearmpi: rank {}: {leaks}", hold.world.rank));
                }
                other.and_then(|()| coll::signature::check_end(hold))
            }
        }
    });
    if code != MPI_SUCCESS {
        return code;
    }
    let mut users = users();
    users.program = false;
    set_finalized();
    match close("MPI_Finalize", &users) {
        MPI_SUCCESS => deleted,
        code => code,
    }
}

/// Whether MPI_Init has been called. MPI-4.1 §11.4.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Initialized(flag: *mut c_int) -> c_int {
    on_any("MPI_Initialized", || store(flag, "flag", initialized() as c_int))
}

/// Whether MPI_Finalize has been called. MPI-4.1 §11.4.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Finalized(flag: *mut c_int) -> c_int {
    on_any("MPI_Finalized", || store(flag, "flag", finalized() as c_int))
}

/// The level of thread support in force.
pub fn thread_level() -> c_int {
    LEVEL.load(Ordering::Relaxed)
}

/// The level of thread support. MPI-4.1 §11.6.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Query_thread(provided: *mut c_int) -> c_int {
    on_world_or_child("MPI_Query_thread", || store(provided, "provided", thread_level()))
}

/// Whether the calling thread initialized MPI. MPI-4.1 §11.6.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Is_thread_main(flag: *mut c_int) -> c_int {
    on_world("MPI_Is_thread_main", |_| {
        store(
            flag,
            "flag",
            (MAIN.get() == Some(&std::thread::current().id())) as c_int,
        )
    })
}

/// Seconds since some time in the past. MPI-4.1 §9.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Wtime() -> c_double {
    clock::seconds()
}

/// Resolution of [`MPI_Wtime`]. MPI-4.1 §9.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Wtick() -> c_double {
    clock::resolution()
}

/// The name of this machine. MPI-4.1 §9.1.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Get_processor_name(name: *mut c_char, resultlen: *mut c_int) -> c_int {
    on_world_or_child("MPI_Get_processor_name", || {
        store_string(name, "name", MPI_MAX_PROCESSOR_NAME, &host::name(), resultlen)
    })
}

/// The version of the standard. MPI-4.1 §9.1.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    on_any("MPI_Get_version", || {
        store(version, "version", MPI_VERSION)?;
        store(subversion, "subversion", MPI_SUBVERSION)
    })
}

/// The version of this library. MPI-4.1 §9.1.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Get_library_version(version: *mut c_char, resultlen: *mut c_int) -> c_int {
    on_any("MPI_Get_library_version", || {
        store_string(
            version,
            "version",
            MPI_MAX_LIBRARY_VERSION_STRING,
            LIBRARY_VERSION,
            resultlen,
        )
    })
}

/// Allocates memory; the key `mpi_minimum_memory_alignment` of `info` says at a multiple of how many bytes it begins at least.
/// MPI-4.1 §9.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Alloc_mem(size: MPI_Aint, info: MPI_Info, baseptr: *mut c_void) -> c_int {
    on_world("MPI_Alloc_mem", |hold| {
        if size < 0 {
            fail!(Arg, "size is {size} but must not be negative");
        }
        load(baseptr.cast::<u8>(), "baseptr")?;
        let power = |text: &str| text.parse().ok().filter(|bytes: &usize| bytes.is_power_of_two());
        let alignment = hints(info)?.read("mpi_minimum_memory_alignment", "power of two", power)?;
        let alignment = alignment.unwrap_or(1);
        // Blocks of the home begin with a page.
        let lent = (alignment <= PAGE).then(|| hold.lend(size as usize)).flatten();
        let Some(memory) = lent.or_else(|| memory::allocate(size as usize, alignment)) else {
            fail!(NoMem, "{size} bytes of memory are not to be had");
        };
        store(baseptr.cast::<*mut u8>(), "baseptr", memory)
    })
}

/// Frees memory from [`MPI_Alloc_mem`]. MPI-4.1 §9.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Free_mem(base: *mut c_void) -> c_int {
    on_world("MPI_Free_mem", |hold| {
        if !hold.take_back(base.cast())? {
            // SAFETY: the program's promise: `base` came from MPI_Alloc_mem and is not used any more.
            unsafe { memory::free(base.cast()) };
        }
        Ok(())
    })
}
