//! Synchronization (MPI-4.1 §12.5): which accesses are open, and waiting for others.

use super::short::Near;
use super::{Flavor, Window, later, mail, wake};
use crate::fail;
use crate::mpi::coll;
use crate::mpi::comm::Plane;
use crate::mpi::error::Result;
use crate::mpi::group::Group;
use crate::mpi::sleep::Sign;
use crate::mpi::world::{Hold, State};
use crate::shm::waiting::Item;
use crate::shm::window::Word;
use crate::sys::cpu;
use std::cell::{Cell, RefMut};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{Ordering, fence as memory_fence};

/// `MPI_WIN_UNIFIED`: one memory, as on every machine of one.
pub const UNIFIED: i32 = 2;
/// One of so many synchronizations serves others, though it waits for nobody.
const SERVES: u32 = 16;
/// Looks at a lock, or at what a member tells, before this rank says that it waits for it.
const LOOKS: u32 = 64;

/// Which accesses and exposures of a window are open in this process.
#[derive(Debug, Default)]
pub struct Epochs {
    /// A fence has opened accesses to all.
    fenced: bool,
    /// ... and one has been made: the next fence ends them.
    used: Cell<bool>,
    /// Members that accesses were started to.
    started: Option<Vec<u32>>,
    /// Members that this process is exposed to.
    posted: Option<Vec<u32>>,
    /// Locked members, and whether exclusively.
    locked: BTreeMap<u32, bool>,
    /// All members are locked (shared): those in `locked`, and the others from the first access on.
    all: bool,
}

impl Epochs {
    /// An access to member `rank` begins: whether it is open, and needs nothing else.
    #[inline]
    pub fn begin(&self, rank: u32) -> bool {
        let started = || self.started.as_ref().is_some_and(|ranks| ranks.contains(&rank));
        self.used.set(self.fenced);
        self.fenced || self.locked.contains_key(&rank) || started()
    }

    /// Whether member `rank` is locked by a call of its own, or by an access under [`lock_all`].
    pub fn is_locked(&self, rank: u32) -> bool {
        self.locked.contains_key(&rank)
    }

    /// Refuses while an access or exposure that needs its own end is open.
    ///
    /// # Errors
    /// `RmaSync`.
    pub fn check_idle(&self) -> Result<()> {
        self.check_exposure(Epochs::check_no_access)
    }

    fn check_exposure(&self, check_access: impl Fn(&Epochs) -> Result<()>) -> Result<()> {
        check_access(self)?;
        if self.posted.is_some() {
            fail!(RmaSync, "the window is exposed by MPI_Win_post");
        }
        Ok(())
    }

    fn check_no_access(&self) -> Result<()> {
        if self.fenced && self.used.get() {
            fail!(
                RmaSync,
                "accesses begun by MPI_Win_fence are open: another one ends them"
            );
        }
        self.check_unfenced()
    }

    fn check_unfenced(&self) -> Result<()> {
        if self.started.is_some() {
            fail!(RmaSync, "accesses begun by MPI_Win_start are open");
        }
        if self.all || !self.locked.is_empty() {
            fail!(RmaSync, "locks on the window are held");
        }
        Ok(())
    }

    /// Refuses when member `rank`, or for `None` every member, is not locked.
    ///
    /// # Errors
    /// `RmaSync`.
    pub fn check_locked(&self, rank: Option<u32>) -> Result<()> {
        match rank {
            _ if self.all => Ok(()),
            Some(rank) if !self.locked.contains_key(&rank) => fail!(RmaSync, "rank {rank} is not locked"),
            None if self.locked.is_empty() => fail!(RmaSync, "the window is not locked"),
            _ => Ok(()),
        }
    }
}

impl Window {
    /// Which accesses are open, to change that.
    fn change(&self) -> RefMut<'_, Epochs> {
        self.near.set(Near::NOTHING);
        self.epochs.borrow_mut()
    }
}

/// Begins an access to member `rank`: what [`lock_all`] left to lock is locked now.
///
/// # Errors
/// `RmaSync`: no access to it is open.
pub fn access(hold: &mut Hold, window: &Rc<Window>, rank: u32) -> Result<()> {
    {
        let epochs = window.epochs.borrow();
        if epochs.begin(rank) {
            return Ok(());
        }
        if !epochs.all {
            fail!(
                RmaSync,
                "no access to rank {rank} is open: call MPI_Win_fence, MPI_Win_start or MPI_Win_lock first"
            );
        }
    }
    take(hold, window, rank, Lock::Late).map(drop)
}

/// Ends all accesses by and to this process, and opens new ones unless `last`. Collective. MPI-4.1 §12.5.1.
///
/// # Errors
/// `RmaSync`: another kind of access is open.
pub fn fence(hold: &mut Hold, window: &Window, last: bool) -> Result<()> {
    window.epochs.borrow().check_exposure(Epochs::check_unfenced)?;
    let outcome = later::end(hold, window, None);
    memory_fence(Ordering::SeqCst);
    coll::barrier(hold, &window.comm)?;
    let mut epochs = window.change();
    epochs.fenced = !last;
    epochs.used.set(false);
    drop(epochs);
    outcome.and(serve_in_turn(hold, window))
}

/// Exposes this process's memory to the members in `group`. MPI-4.1 §12.5.2.
///
/// # Errors
/// `RmaSync`: it is exposed already; `Group`: a process is no member; `ProcFailed`: a member is dead.
pub fn post(hold: &Hold, window: &Window, group: &Group) -> Result<()> {
    if window.epochs.borrow().posted.is_some() {
        fail!(RmaSync, "the window is exposed already");
    }
    let ranks = members(window, group)?;
    check_alive(hold, window)?;
    ranks.iter().for_each(|&rank| tell(hold, window, rank, Word::Posted));
    window.change().posted = Some(ranks);
    Ok(())
}

/// Waits until the members in `group` have exposed their memory and opens accesses to them. MPI-4.1 §12.5.2.
///
/// # Errors
/// `RmaSync`: an access is open already; `Group`: a process is no member; `ProcFailed`: a member is dead.
pub fn start(hold: &mut Hold, window: &Rc<Window>, group: &Group) -> Result<()> {
    window.epochs.borrow().check_no_access()?;
    let ranks = members(window, group)?;
    for &rank in &ranks {
        wait_told(hold, window, rank, Word::Posted)?;
    }
    let mut epochs = window.change();
    epochs.fenced = false;
    epochs.started = Some(ranks);
    Ok(())
}

/// Ends the accesses begun by [`start`]. MPI-4.1 §12.5.2.
///
/// # Errors
/// `RmaSync`: there are none; those of what was kept; a peer that left the protocol.
pub fn complete(hold: &mut Hold, window: &Window) -> Result<()> {
    let Some(ranks) = window.change().started.take() else {
        fail!(RmaSync, "MPI_Win_start has not been called");
    };
    let outcome = later::end(hold, window, None);
    ranks
        .into_iter()
        .for_each(|rank| tell(hold, window, rank, Word::Complete));
    outcome.and(serve_in_turn(hold, window))
}

/// Waits, or for `wait` false only looks, whether all accesses to this process are over. MPI-4.1 §12.5.2.
///
/// # Errors
/// `RmaSync`: it is not exposed; `ProcFailed`: a member is dead.
pub fn end_exposure(hold: &mut Hold, window: &Rc<Window>, wait: bool) -> Result<bool> {
    let Some(ranks) = window.change().posted.take() else {
        fail!(RmaSync, "MPI_Win_post has not been called");
    };
    if wait {
        for rank in ranks {
            wait_told(hold, window, rank, Word::Complete)?;
        }
        return serve_in_turn(hold, window).map(|()| true);
    }
    let is_over = || ranks.iter().all(|&rank| window.is_told(rank, Word::Complete));
    if !is_over() {
        let moved = hold.progress(None)?;
        let over = is_over();
        hold.in_vain(moved || over);
        if !over {
            check_alive(hold, window)?;
            window.change().posted = Some(ranks);
            return Ok(false);
        }
    }
    ranks.into_iter().for_each(|rank| window.hear(rank, Word::Complete));
    Ok(true)
}

/// Locks member `rank`. MPI-4.1 §12.5.3.
///
/// # Errors
/// `RmaSync`: it is locked already, or another kind of access is open.
pub fn lock(hold: &mut Hold, window: &Rc<Window>, rank: u32, exclusive: bool) -> Result<()> {
    {
        let epochs = window.epochs.borrow();
        if epochs.started.is_some() || epochs.all || epochs.locked.is_empty() {
            epochs.check_no_access()?;
        }
        if epochs.locked.contains_key(&rank) {
            fail!(RmaSync, "rank {rank} is locked already");
        }
    }
    let lock = if exclusive { Lock::Exclusive } else { Lock::Shared };
    if !take(hold, window, rank, lock)? {
        fail!(RmaSync, "another thread has locked rank {rank} meanwhile");
    }
    Ok(())
}

/// How a member is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lock {
    Exclusive,
    Shared,
    /// Shared, under [`lock_all`], which others may have heard of: it waits for those who hold the lock exclusively, not for
    /// those who wait for that.
    Late,
}

/// Waits for the lock of member `rank` and notes it; false if another thread of this process, to which the wait gives way, has it.
fn take(hold: &mut Hold, window: &Rc<Window>, rank: u32, lock: Lock) -> Result<bool> {
    let exclusive = lock == Lock::Exclusive;
    acquire(hold, window, rank, lock)?;
    let epochs = window.epochs.borrow();
    let (is_held, is_over) = (epochs.locked.contains_key(&rank), lock == Lock::Late && !epochs.all);
    drop(epochs);
    if is_held || is_over {
        release(hold, window, rank, exclusive);
    }
    if is_over {
        fail!(RmaSync, "another thread has called MPI_Win_unlock_all meanwhile");
    }
    if is_held {
        return Ok(false);
    }
    let mut epochs = window.change();
    epochs.fenced = false;
    epochs.locked.insert(rank, exclusive);
    Ok(true)
}

/// Unlocks member `rank`. MPI-4.1 §12.5.3.
///
/// # Errors
/// `RmaSync`: it is not locked; as [`complete`].
pub fn unlock(hold: &mut Hold, window: &Window, rank: u32) -> Result<()> {
    if window.epochs.borrow().all {
        fail!(RmaSync, "rank {rank} is locked by MPI_Win_lock_all");
    }
    let Some(exclusive) = window.change().locked.remove(&rank) else {
        fail!(RmaSync, "rank {rank} is not locked");
    };
    let outcome = later::end(hold, window, Some(rank));
    release(hold, window, rank, exclusive);
    outcome.and(serve_in_turn(hold, window))
}

/// Locks all members, shared. MPI-4.1 §12.5.3. Where members are reached by calls of MPI only, each is locked by the first
/// access to it, as in Intel MPI: the call costs the same for any number of members, and who has not accessed a member does
/// not keep others from it. Programs rely on that: OpenCoarrays waits for an event under this lock, and who posts the event
/// locks the waiting member exclusively.
///
/// # Errors
/// `RmaSync`: an access is open already.
pub fn lock_all(hold: &mut Hold, window: &Rc<Window>) -> Result<()> {
    window.epochs.borrow().check_no_access()?;
    if window.flavor == Flavor::Shared {
        (0..window.comm.size()).try_for_each(|rank| take(hold, window, rank, Lock::Shared).map(drop))?;
    }
    let mut epochs = window.change();
    epochs.fenced = false;
    epochs.all = true;
    Ok(())
}

/// Unlocks all members. MPI-4.1 §12.5.3.
///
/// # Errors
/// `RmaSync`: [`lock_all`] has not been called; as [`complete`].
pub fn unlock_all(hold: &mut Hold, window: &Window) -> Result<()> {
    let locked = {
        let mut epochs = window.change();
        if !std::mem::take(&mut epochs.all) {
            fail!(RmaSync, "MPI_Win_lock_all has not been called");
        }
        std::mem::take(&mut epochs.locked)
    };
    let outcome = later::end(hold, window, None);
    memory_fence(Ordering::SeqCst);
    locked.into_keys().for_each(|rank| release(hold, window, rank, false));
    outcome.and(serve_in_turn(hold, window))
}

/// Whether member `rank` is locked and its memory is mapped here: all accesses are over and, from now on, seen. Nobody is served.
#[inline]
pub fn flush_near(state: &State, window: &Window, rank: i32) -> bool {
    let near = window.near.get();
    let quick = near.rank == rank && near.locked && state.served.is_empty();
    // One time of many others are served as by [`flush`]: a program may poll by flushing.
    if !quick || is_turn(window) {
        return false;
    }
    memory_fence(Ordering::SeqCst);
    true
}

/// Whether it is this synchronization's turn to serve others.
fn is_turn(window: &Window) -> bool {
    let turn = window.synchronized.get().wrapping_add(1);
    window.synchronized.set(turn);
    turn.is_multiple_of(SERVES)
}

/// One time of many lets others be served: a program may poll by locking, or by epochs with itself. Fails for a peer that left the
/// protocol.
fn serve_in_turn(hold: &mut Hold, window: &Window) -> Result<()> {
    match is_turn(window) {
        true => hold.look_around(None).map(drop),
        false => Ok(()),
    }
}

/// Ends all accesses to member `rank`, or to all, and lets others be served. MPI-4.1 §12.5.4.
///
/// # Errors
/// Those of what was kept; a peer that left the protocol.
pub fn flush(hold: &mut Hold, window: &Window, rank: Option<u32>) -> Result<()> {
    let outcome = later::end(hold, window, rank);
    sync(hold)?;
    outcome
}

/// Makes what was accessed so far seen, and lets others be served. MPI-4.1 §12.5.4.
///
/// # Errors
/// A peer that left the protocol.
pub fn sync(hold: &mut Hold) -> Result<()> {
    memory_fence(Ordering::SeqCst);
    hold.progress(None)?;
    Ok(())
}

fn acquire(hold: &mut Hold, window: &Rc<Window>, rank: u32, lock: Lock) -> Result<()> {
    let control = window.control(rank);
    let exclusive = lock == Lock::Exclusive;
    if mail::soon(hold, LOOKS, || control.try_lock(exclusive)) {
        return Ok(());
    }
    control.wait(exclusive);
    let mut locked = false;
    let seen = move |window: &Window| window.control(rank).may_lock(exclusive);
    let outcome = wait_for_member(hold, window, (rank, None), seen, |hold| {
        locked = locked || control.try_lock(exclusive) || lock == Lock::Late && control.try_join();
        if !locked {
            check_alive(hold, window)?; // Who has died may hold it for ever.
        }
        Ok(locked)
    });
    if control.stop_waiting(exclusive) {
        wake(hold, window);
    }
    outcome
}

fn release(hold: &mut Hold, window: &Window, rank: u32, exclusive: bool) {
    memory_fence(Ordering::SeqCst);
    if window.control(rank).unlock(exclusive) {
        wake(hold, window);
    }
}

/// Runs `body` while nobody else updates member `rank`'s memory. Who had the turn and died has left it as it was then.
pub(super) fn updating<R>(window: &Window, rank: u32, body: impl FnOnce() -> R) -> R {
    let control = window.control(rank);
    let me = window.comm.group.world(window.comm.rank);
    let is_dead = |rank| window.comm.context.segment().is_dead(rank);
    let mut looks = 0;
    'turn: while !control.try_update(me) {
        while let Some(updater) = control.updater() {
            looks += 1;
            if looks % LOOKS != 0 {
                std::hint::spin_loop();
                continue;
            }
            if is_dead(updater) && control.take_over(updater, me) {
                break 'turn;
            }
            cpu::give_way();
        }
    }
    let result = body();
    control.end_update();
    result
}

/// Tells member `rank`, which may have died, `word`.
fn tell(hold: &Hold, window: &Window, rank: u32, word: Word) {
    let comm = &window.comm;
    let (told, place) = window.told(rank, comm.rank);
    told.tell(place, word);
    match rank == comm.rank {
        true => hold.wake_threads(),
        false => hold.engine.channel.wake(comm.group.world(rank)),
    }
}

/// Waits until member `rank` has said `word`.
fn wait_told(hold: &mut Hold, window: &Rc<Window>, rank: u32, word: Word) -> Result<()> {
    if !mail::soon_answered(hold, LOOKS, || window.is_told(rank, word)) {
        let is_told = move |window: &Window| window.is_told(rank, word);
        let peer = window.comm.group.world(rank);
        wait_for_member(hold, window, (rank, Some(peer)), is_told, |hold| {
            let is_over = is_told(window);
            if !is_over {
                check_alive(hold, window)?;
            }
            Ok(is_over)
        })?;
    }
    window.hear(rank, word);
    Ok(())
}

/// Waits until `done` says so, which may be as soon as `seen` does, for what member `rank` says, or `None` of the job, whoever locks it.
fn wait_for_member(
    hold: &mut Hold,
    window: &Rc<Window>,
    (rank, peer): (u32, Option<u32>),
    seen: impl Fn(&Window) -> bool + 'static,
    done: impl FnMut(&mut Hold) -> Result<bool>,
) -> Result<()> {
    let item = Item {
        is_member: true,
        peer,
        context: window.comm.context_on(Plane::PointToPoint),
        len: rank.into(),
        ..Item::default()
    };
    let window = window.clone();
    hold.wait_for_sign((Sign::Seen(Box::new(move || seen(&window))), item), done)
}

/// Fails if a member has died: nobody waits for one who has given up.
fn check_alive(hold: &Hold, window: &Window) -> Result<()> {
    hold.check_peer(&window.comm, Plane::Collective, None)
}

/// The processes of `group` as members of the window.
fn members(window: &Window, group: &Group) -> Result<Vec<u32>> {
    let member = |&world: &u32| match window.comm.group.rank_of(world) {
        Some(rank) => Ok(rank),
        None => fail!(
            Group,
            "the group holds rank {world} of the job, which is not in the window"
        ),
    };
    group.members.iter().map(member).collect()
}
