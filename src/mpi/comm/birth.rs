//! Starting processes (MPI-4.1 §11.8): room for them, which all members must be able to see, then the processes, then the
//! communicator with them.

use super::Comm;
use super::create::known;
use super::dynamic::{elsewhere, join};
use crate::fail;
use crate::mpi::coll::{allgather_bytes, bcast_bytes};
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::shm::segment::annex::{Birth, Outcome};
use crate::shm::segment::{Life, Segment};
use crate::sys::process;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often a rank that waits for processes to start looks whether their launcher lives.
const LOOK: Duration = Duration::from_millis(100);

/// Has processes started, the first of which is to have that rank in the job.
pub type Launch = Box<dyn FnOnce(&Segment, u32) -> Result<()>>;

/// Starts as many processes as `begin` says, and joins the group of `comm` to theirs. Collective; only `root` calls `begin`, whose
/// error makes it fail everywhere. MPI-4.1 §11.8.2.
///
/// # Errors
/// `Spawn`: they did not start or did not come to MPI_Init, or a member has no room for their memory. What `begin` says, and `Other`
/// when there is no context left.
pub fn spawn(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    root: u32,
    begin: impl FnOnce(&Hold) -> Result<(u32, Launch)>,
) -> Result<Comm> {
    let room = match comm.rank == root {
        true => Some(begin(hold).and_then(|(count, launch)| Ok((make_room(hold, count)?, launch)))),
        false => None,
    };
    let made = room.as_ref().and_then(|room| room.as_ref().ok());
    let born = made.map(|(born, _)| *born);
    let ready = get_ready(hold, comm, root, room);
    if let (Some(born), Err(_)) = (born, &ready) {
        forget(hold, born);
    }
    let started = ready?.map(|(born, launch)| start(hold, born, launch));
    let have_come = matches!(started, Some(Ok(())));
    let told = tell(hold, comm, root, started);
    let leader = born.map(|born| (born.bridge, born.first));
    match told {
        Err(error) if !have_come => Err(error),
        // If some member has died meanwhile, those who have come hear of it in there.
        told => told.and(join(hold, comm, root, leader.ok_or_else(|| elsewhere(root)))),
    }
}

/// Memory and contexts for `count` more ranks.
fn make_room(hold: &mut Hold, count: u32) -> Result<Birth> {
    let world = known(hold.claim_context(count)?)?;
    // For the bridge's two ends.
    let bridge = match hold.claim_context(2).and_then(known) {
        Ok(bridge) => bridge,
        Err(error) => {
            (0..count).for_each(|_| drop(hold.adopt_context(world)));
            return Err(error);
        }
    };
    let made = hold
        .engine
        .channel
        .segment()
        .extend(count, Some(hold.me()), bridge, world);
    if made.is_err() {
        release(hold, (count, bridge, world));
    }
    match made {
        Ok(born) => Ok(born),
        Err(error) => fail!(Spawn, "cannot make memory for {count} more processes: {error}"),
    }
}

/// The root tells whether there is room, and all tell each other whether they can see it: nobody shall start whom a member could
/// not meet. What the root has.
fn get_ready<T>(hold: &mut Hold, comm: &Rc<Comm>, root: u32, room: Option<Result<T>>) -> Result<Option<T>> {
    let room = tell(hold, comm, root, room)?;
    let met = hold.meet_all();
    let all = allgather_bytes(hold, comm, &[met.is_ok().into()])?;
    if let Err(error) = met {
        fail!(Spawn, "{error}");
    }
    if let Some(rank) = all.iter().position(|&met| met == 0) {
        fail!(Spawn, "rank {rank} has no room for the memory of more processes");
    }
    Ok(room)
}

/// Everybody learns whether the root was successful.
fn tell<T>(hold: &mut Hold, comm: &Rc<Comm>, root: u32, outcome: Option<Result<T>>) -> Result<Option<T>> {
    let mut done = [u8::from(matches!(outcome, Some(Ok(_))))];
    let told = bcast_bytes(hold, comm, root, &mut done);
    let outcome = outcome.transpose()?;
    told?;
    if done == [0] {
        fail!(Spawn, "rank {root}, the root, could not start the processes");
    }
    Ok(outcome)
}

/// Has the processes started, and waits until all of them are in MPI.
fn start(hold: &mut Hold, born: Birth, launch: Launch) -> Result<()> {
    let come = launch_and_wait(hold, born, launch);
    if come.is_err() {
        forget(hold, born);
    }
    come
}

fn launch_and_wait(hold: &mut Hold, Birth { first, count, .. }: Birth, launch: Launch) -> Result<()> {
    let segment = hold.engine.channel.segment().clone();
    launch(&segment, first)?;
    let ranks = first..first + count;
    let (mut outcome, mut looked) = (Outcome::Open, Instant::now());
    hold.wait_until(None, |_| {
        outcome = segment.outcome(first);
        if looked.elapsed() > LOOK {
            looked = Instant::now();
            if segment.launcher(first).is_some_and(|pid| !process::is_alive(pid)) {
                segment.conclude(first, Outcome::Failed);
            }
        }
        let have_come = ranks.clone().all(|rank| segment.life(rank) != Life::Absent);
        Ok(outcome != Outcome::Open || have_come)
    })?;
    if outcome == Outcome::Failed {
        fail!(
            Spawn,
            "not all of the {count} processes came to MPI_Init; mpirun, which starts them, has said why"
        );
    }
    Ok(())
}

/// Nobody comes.
fn forget(hold: &Hold, born: Birth) {
    hold.engine.channel.segment().conclude(born.first, Outcome::Failed);
    release(hold, (born.count, born.bridge, born.world));
}

fn release(hold: &Hold, (count, bridge, world): (u32, u16, u16)) {
    (0..count).for_each(|_| drop(hold.adopt_context(world)));
    (0..2).for_each(|_| drop(hold.adopt_context(bridge)));
}

/// The child's side of [`spawn`]: the communicator with those who started this process, `None` if no rank did.
/// Collective over `MPI_COMM_WORLD`.
///
/// # Errors
/// As [`super::inter::create`].
pub fn parents(hold: &mut Hold) -> Result<Option<Comm>> {
    let segment = hold.engine.channel.segment().clone();
    let Some((birth, starter)) = segment.birth(hold.me()).and_then(|birth| Some((birth, birth.starter?))) else {
        return Ok(None);
    };
    segment.wake(starter);
    let world = hold.world.clone();
    join(hold, &world, 0, Ok((birth.bridge, starter))).map(Some)
}
