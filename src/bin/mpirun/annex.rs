//! mpirun for a job that runs already: a rank has called MPI_Comm_spawn ([`mpi::launch::spawn`]), or somebody has asked for
//! ranks that can connect to the job's (mpirun -join).
//!
//! A rank waits for this process only until it has let go of it: what watches over the new ranks is nobody's child but the
//! first launcher's, as soon as that has adopted it, and ends with that. Ranks that join are a family of their own, with a world and
//! no parents: they live and die by themselves, and this process stays where it was started.

use crate::os;
use crate::start::Failure;
use mpi::launch::bootstrap;
use mpi::launch::spawn::{ANNEX, Annex};
use mpi::shm::segment::annex::Outcome;
use mpi::shm::segment::{Life, Segment};
use mpi::sys::{cpu, process};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long a shell's child may take to become mpirun, and mpirun to make its job's memory; how often to look.
const BECOME: Duration = Duration::from_millis(100);
const START: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(2);

/// The job that is to have more ranks.
pub struct Host {
    /// Its memory.
    pub segment: Segment,
    pub memory: OwnedFd,
    /// The first of the new ranks.
    pub first: u32,
    /// How many they are to be.
    pub count: u32,
    /// The process that asked, and its rank in the job; none if these ranks join by themselves.
    starter: Option<(i32, u32)>,
}

/// The job that this process is asked to start ranks for, if it is.
///
/// # Errors
/// What is wrong with it.
pub fn asked() -> Result<Option<Host>, Failure> {
    let Ok(text) = std::env::var(ANNEX) else {
        return Ok(None);
    };
    let annex = Annex::parse(&text).map_err(Failure::new)?;
    let wrong = |why: &str| Failure::new(format!("cannot use the job's memory, {ANNEX}={text:?}: {why}"));
    let memory = bootstrap::reopen(annex.pid, annex.file).ok_or_else(|| wrong("no such file"))?;
    let segment = Segment::attach(memory.as_fd()).map_err(|error| wrong(&error.to_string()))?;
    let birth = segment.birth(annex.first).filter(|birth| birth.first == annex.first);
    let birth = birth.ok_or_else(|| wrong("no ranks begin there"))?;
    let starter = birth.starter.ok_or_else(|| wrong("no rank has started those"))?;
    // The rank that asked may be bound to a CPU of its own.
    cpu::bind(&cpu::mask(annex.launcher));
    Ok(Some(Host {
        segment,
        memory,
        first: annex.first,
        count: birth.count,
        starter: Some((annex.pid, starter)),
    }))
}

/// Whose memory ranks are to share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// A process of that job.
    pub pid: i32,
    /// The job's number, if that is known.
    pub number: Option<u64>,
}

/// The memory of the job that process `pid` is of. An mpirun that has only just been started is given time to make it:
/// `mpirun ... & mpirun -join $!`.
///
/// # Errors
/// There is none that this user may use.
fn memory(pid: i32) -> Result<(OwnedFd, Segment), String> {
    let began = Instant::now();
    loop {
        let attach = |memory: OwnedFd| Segment::attach(memory.as_fd()).map(|segment| (memory, segment));
        let why = match bootstrap::memory_of(pid).map(attach) {
            Some(Ok(found)) => return Ok(found),
            Some(Err(error)) => error.to_string(),
            None => "no process of a nearmpi job that you may join".into(),
        };
        let time = began.elapsed();
        let may_come = time < BECOME || time < START && bootstrap::is_launcher(pid);
        if !may_come || !process::is_alive(pid) {
            return Err(why);
        }
        std::thread::sleep(LOOK);
    }
}

/// Makes room for `count` ranks in the job of `target`.
///
/// # Errors
/// There is no such job, or none that this user may join; it has no room.
pub fn join(target: &Target, count: u32) -> Result<Host, Failure> {
    let pid = target.pid;
    let wrong = |why: String| Failure::new(format!("-join {pid}: {why}"));
    let (memory, segment) = memory(pid).map_err(wrong)?;
    if target.number.is_some_and(|number| number != segment.number()) {
        return Err(wrong("the process is of another job than the port".into()));
    }
    let world = segment.claim_context(count);
    let world = world.ok_or_else(|| wrong("all communicator contexts of the job are in use".into()))?;
    let birth = segment.extend(count, None, 0, world);
    let birth = birth.map_err(|error| {
        (0..count).for_each(|_| segment.release_context(world, 0));
        wrong(format!("cannot make memory for {count} more ranks: {error}"))
    })?;
    segment.launch(birth.first, std::process::id() as i32);
    Ok(Host {
        segment,
        memory,
        first: birth.first,
        count,
        starter: None,
    })
}

impl Host {
    /// Goes on in a process of its own. The one that was called ends here.
    ///
    /// # Errors
    /// There is no such process to be had.
    pub fn let_go(&self) -> Result<(), Failure> {
        os::detach().map_err(|error| Failure::new(format!("cannot start a process: {error}")))?;
        // The rank that asked looks whether it lives.
        self.segment.launch(self.first, std::process::id() as i32);
        Ok(())
    }

    /// Whether a rank has asked for these, which are of its family then.
    pub fn was_asked(&self) -> bool {
        self.starter.is_some()
    }

    /// Whether the rank that asked has died and these ranks still count on it.
    pub fn is_forsaken(&self) -> bool {
        let Some((pid, rank)) = self.starter else {
            return false;
        };
        let counts_on_it = self.segment.life(rank) == Life::Attached && !self.segment.is_apart(self.first);
        counts_on_it && !process::is_alive(pid)
    }

    /// Tells the job how it ended.
    pub fn conclude(&self, outcome: Outcome) {
        if outcome == Outcome::Failed && !self.was_asked() {
            // Some may have come to MPI before the others could not be started.
            self.segment.desert(self.first);
        }
        self.segment.conclude(self.first, outcome);
        // A kernel that refuses leaves it until the job ends.
        let _ = self.segment.give_back(self.first);
    }
}
