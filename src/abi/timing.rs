//! # Safety
//! Follows a pointer to the meter of this process, which is never freed once it is there.
//!
//! Times every MPI function when the run is profiled: the macro [`mpi_function!`](crate::mpi_function)
//! begins each with [`timed`]. Without a profile that is one look at a pointer.
#![allow(unsafe_code)]

use crate::channel::Metering;
use crate::mpi::pt2pt::engine::CAREFUL;
use crate::mpi::traffic;
use crate::mpi::world::State;
use crate::shm::doing::SHORT;
use crate::shm::profile::{self, Block, CALLS, Meter, Outermost, Stage, Start, file};
use crate::shm::segment::Segment;
use crate::sys::clock::{Ticks, nanoseconds};
use crate::sys::cvar::secure;
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

include!(concat!(env!("OUT_DIR"), "/functions.rs"));

/// The folder in which ranks count when their launcher keeps no profile.
pub const VARIABLE: &str = "NEARMPI_PROFILE";

const _: () = assert!(FUNCTIONS.len() < CALLS);

/// What counts in this process, as in [`Timed`].
static METER: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Calls under way in this thread, where several threads call at the same time.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The outermost of them.
    static OUTERMOST: Cell<Outermost> = const { Cell::new(Outermost { call: 0, began: 0 }) };
}

/// The number of the function `name`; functions that are not in the table share the last.
pub const fn number(name: &str) -> usize {
    let mut at = 0;
    while at < FUNCTIONS.len() && !is_same(FUNCTIONS[at].as_bytes(), name.as_bytes()) {
        at += 1;
    }
    at
}

const fn is_same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = one.len();
    // From the end: names begin alike.
    while at > 0 {
        at -= 1;
        if one[at] != other[at] {
            return false;
        }
    }
    true
}

/// Functions with a short way that counts itself ([`count`]), and only when it has been gone.
const COUNTED: [usize; SHORT] = [number("MPI_Send"), number("MPI_Isend"), number("MPI_Recv")];

/// Their bits in [`Engine::detours`](crate::mpi::pt2pt::engine::Engine::detours). 0 for all others.
#[inline(always)]
pub const fn bit(call: usize) -> u8 {
    let mut at = 0;
    while at < SHORT {
        if call == COUNTED[at] {
            return 2 << at;
        }
        at += 1;
    }
    0
}

/// A call under way: the meter's address, plus 1 where several threads call at the same time; 0: nothing counts.
pub struct Timed {
    meter: usize,
    call: usize,
}

/// Begins a call of function `call`; dropping the result ends it. Cost: [`Meter::enter`]; without a profile, a look
/// at a word. Does nothing for those that have a [`bit`].
#[inline(always)]
pub fn timed(call: usize) -> Timed {
    match bit(call) {
        0 => timed_anyway(call),
        _ => Timed { meter: 0, call },
    }
}

/// Counts a call that has gone the short way; `None`: one that is timed, and counted by that.
#[inline(always)]
pub fn count(state: &mut State, call: Option<usize>) {
    let Some(at) = call.and_then(|call| COUNTED.iter().position(|&counted| counted == call)) else {
        return state.engine.channel.doing().called();
    };
    if state.engine.channel.called(at) {
        state.engine.detours |= bit(COUNTED[at]);
    }
}

/// The long way of a function that has a [`bit`]: times the call if that is due, and then goes `short` once more.
#[inline]
pub fn long_way<R>(call: usize, short: impl FnOnce() -> Option<R>, long: impl FnOnce() -> R) -> R {
    if bit(call) == 0 || METER.load(Ordering::Relaxed) == 0 {
        return long();
    }
    let timed = timed_anyway(call);
    let result = if take_detour(call) { short() } else { None };
    let result = result.unwrap_or_else(long);
    drop(timed);
    if let Some(world) = super::edge::current_world() {
        let state: &mut State = &mut world.hold();
        if state.engine.channel.meter().is_some_and(|meter| meter.arm(call)) {
            state.engine.detours |= bit(call);
        }
    }
    result
}

/// Whether the call came the long way because it was to be timed; not the next.
fn take_detour(call: usize) -> bool {
    super::edge::current_world().is_some_and(|world| {
        let state: &mut State = &mut world.hold();
        let due = state.engine.detours & bit(call) != 0;
        state.engine.detours &= !bit(call);
        due
    })
}

#[inline(always)]
fn timed_anyway(call: usize) -> Timed {
    let mut meter = METER.load(Ordering::Relaxed);
    if meter != 0 {
        meter = begin(meter, call);
    }
    Timed { meter, call }
}

impl Drop for Timed {
    #[inline(always)]
    fn drop(&mut self) {
        if self.meter != 0 {
            end(self.meter, self.call);
        }
    }
}

/// The meter of an address that [`METER`] has held.
#[inline(always)]
fn meter(address: usize) -> &'static Meter {
    let place = std::ptr::with_exposed_provenance::<Meter>(address & !1);
    // SAFETY: the address of a meter that is never freed.
    unsafe { &*place }
}

#[inline(always)]
fn begin(address: usize, call: usize) -> usize {
    if address & 1 != 0 {
        begin_in_thread(address, call);
        return address;
    }
    if meter(address).enter(call) { address } else { 0 }
}

#[inline(always)]
fn end(address: usize, call: usize) {
    match address & 1 {
        0 => meter(address).leave(call),
        _ => end_in_thread(address, call),
    }
}

#[cold]
fn begin_in_thread(address: usize, call: usize) {
    DEPTH.set(DEPTH.get() + 1);
    if DEPTH.get() == 1 {
        let (call, began) = (call as u32, meter(address).now());
        OUTERMOST.set(Outermost { call, began });
    }
}

#[cold]
fn end_in_thread(address: usize, call: usize) {
    DEPTH.set(DEPTH.get() - 1);
    meter(address).called(call, OUTERMOST.get().began, DEPTH.get() == 0);
}

/// The outermost call of this thread, where several call at the same time.
fn outermost() -> Option<Outermost> {
    (DEPTH.get() > 0).then(|| OUTERMOST.get())
}

/// A moment, for [`profile()`].
pub fn moment() -> [u64; 3] {
    let calendar = std::time::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64);
    [Ticks::best().now(), nanoseconds(), calendar]
}

/// Begins to count, if the launcher or the environment asks for it. `began`: when this rank began to join.
///
/// # Errors
/// A sentence: there is no place to count in.
pub fn profile(state: &mut State, segment: &Arc<Segment>, threads: bool, began: [u64; 3]) -> Result<(), String> {
    let rank = state.engine.channel.me();
    let Some(block) = place(segment, rank)? else {
        return Ok(());
    };
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let name: Vec<u8> = line.iter().map(|&byte| if byte == 0 { b' ' } else { byte }).collect();
    block.begin(&Start {
        began,
        job: segment.number(),
        rank,
        cpus: segment.cpus(),
        settings: &state.engine.channel.settings().values(),
        name: name.trim_ascii_end(),
    });
    let meter = Arc::new(Meter::new(block, Ticks::best(), outermost));
    let address = Arc::into_raw(meter.clone()).expose_provenance();
    METER.store(address | usize::from(threads), Ordering::Release);
    let kind = traffic::kind;
    state.engine.channel.profile(Metering { meter, kind });
    state.engine.channel.profile_calls(COUNTED);
    // The first calls are all timed; where threads are told apart, all are.
    state.engine.detours |= if threads {
        CAREFUL
    } else {
        COUNTED.iter().fold(0, |bits, &call| bits | bit(call))
    };
    Ok(())
}

/// Where to count, if anywhere.
fn place(segment: &Arc<Segment>, rank: u32) -> Result<Option<Block>, String> {
    if rank >= segment.ranks() {
        return Ok(None); // A profile is of the ranks that the job began with.
    }
    if segment.is_profiled() {
        return Ok(Some(segment.profile(rank)));
    }
    let folder = std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty() && !secure());
    let Some(folder) = folder else { return Ok(None) };
    let block = file::create(Path::new(&folder), rank, segment.ranks());
    block.map(Some).map_err(|error| {
        let folder = folder.to_string_lossy();
        format!("{VARIABLE}={folder}: no profile is made, because there is no file to count in: {error}")
    })
}

/// MPI is ready, by function `call`.
pub fn ready(state: &State, call: usize) {
    if let Some(meter) = state.engine.channel.meter() {
        meter.ready(call);
    }
}

/// How far this rank is.
pub fn stage(state: &State, stage: Stage) {
    state.engine.channel.tell_counters();
    if let Some(meter) = state.engine.channel.meter() {
        meter.stage(stage);
    }
}

/// Counts no more: this process is a copy of the rank that counts.
pub fn stop() {
    METER.store(0, Ordering::Relaxed);
}

/// Names of the functions by number, as a profile counts them.
pub fn name(call: usize) -> &'static str {
    FUNCTIONS.get(call).copied().unwrap_or("others")
}

/// Names of the transport's counters, in the order of [`profile::Head::counters`].
pub fn counter_names() -> Vec<&'static str> {
    let counters = crate::channel::Counters::default().list();
    counters.iter().map(|(name, _)| *name).take(profile::VALUES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_has_its_number() {
        for (at, function) in FUNCTIONS.iter().enumerate() {
            assert_eq!((number(function), name(at)), (at, *function));
        }
        assert_eq!(number("nothing"), FUNCTIONS.len());
        assert_eq!(name(FUNCTIONS.len()), "others");
        assert!(crate::sys::cvar::TABLE.len() <= profile::VALUES && counter_names().len() <= profile::VALUES);
    }
}
