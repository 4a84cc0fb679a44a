//! # Safety
//! The gate decides who may touch the state: relies on every reference to [`State`] being made
//! through a [`Hold`], of which one is active at a time.
//!
//! The root of everything a rank knows, the gate its threads pass one at a time, and how they wait.
#![allow(unsafe_code)]

mod helper;

use super::alloc::Lent;
use super::attr::Keyvals;
use super::coll::board::desk::Desk;
use super::coll::board::started;
use super::coll::machine::Schedules;
use super::comm::Comm;
use super::comm::dynamic::{Port, Withdrawn};
use super::context::{self, Context};
use super::datatype::Datatypes;
use super::error::{Error, Result};
use super::failure;
use super::group::Group;
use super::hooks::{self, Hook};
use super::io::File;
use super::op::Ops;
use super::pt2pt::engine::Engine;
use super::pt2pt::partitioned::{self, Partitioning};
use super::request::{Request, RequestKey};
use super::rma::{self, Window};
use super::session::Session;
use super::sleep::Awaited;
use super::table::Table;
use super::traffic::Gift;
use crate::channel::Channel;
use crate::channel::wait::{NAP, Next};
use crate::shm::doing;
use crate::shm::profile::Meter;
use crate::shm::segment::annex::Birth;
use crate::shm::segment::{Block, Segment};
use crate::shm::zone::Zone;
use crate::sys::cvar::Settings;
use crate::sys::gate::Gate;
use crate::sys::hog::Hog;
use crate::sys::spare::SPARE;
use crate::sys::topology::Groups;
use crate::sys::{cpu, futex};
use std::cell::{Cell, UnsafeCell};
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// One rank's MPI: its state, behind a gate where threads may meet: with `MPI_THREAD_MULTIPLE` or a helper.
pub struct World {
    gate: Option<Gate>,
    /// Whether threads of the program may call at the same time.
    multiple: bool,
    hog: Arc<Hog>,
    /// Threads that wait while another one polls nap on this word.
    nap: AtomicU32,
    /// How many of them sleep there; the others look at it now and then.
    asleep: AtomicU32,
    /// Most threads that have napped at a time.
    crowd: AtomicU32,
    segment: Arc<Segment>,
    me: u32,
    block: Block,
    state: UnsafeCell<State>,
}

// SAFETY: the state is reached through a `Hold` only, and one thread at a time has an active one:
// by the gate, or because the program promised so (MPI_THREAD_SERIALIZED and below) and there is no helper.
unsafe impl Sync for World {}
// SAFETY: as above; nothing in the state is tied to the thread that made it.
unsafe impl Send for World {}

/// What a rank knows, object tables included.
pub struct State {
    /// `MPI_COMM_WORLD`.
    pub world: Rc<Comm>,
    /// `MPI_COMM_SELF`.
    pub own: Rc<Comm>,
    /// Every communicator made since, by handle key.
    pub comms: Table<Rc<Comm>>,
    /// The annexes whose memory this process may read, by their first ranks, because it shares communicators with ranks of theirs or
    /// did until it last left one; and how many connections to them are being made.
    pub linked: BTreeMap<u32, i32>,
    /// Every group with a handle.
    pub groups: Table<Rc<Group>>,
    /// Every attribute key that is not freed.
    pub keyvals: Keyvals,
    /// Every datatype.
    pub datatypes: Datatypes,
    /// Every reduction operation.
    pub ops: Ops,
    /// What it has lying about for its boards.
    pub desk: Desk,
    /// Nonblocking collectives under way.
    pub schedules: Schedules,
    /// Every session.
    pub sessions: Table<Rc<Session>>,
    /// Started operations.
    pub requests: Table<Request>,
    /// Functions of the program that progress calls.
    pub hooks: Vec<Hook>,
    /// Whether some generalized request had a way of its own to be waited for.
    pub own_ways: bool,
    /// How many of the functions a thread has taken out to call and has not called to their end.
    pub hooks_called: usize,
    /// Messages on their way.
    pub engine: Engine,
    /// Partitioned operations.
    pub partitioning: Partitioning,
    /// Every open file.
    pub files: Table<Rc<File>>,
    /// Every window.
    pub windows: Table<Rc<Window>>,
    /// Those of them in which this process has memory that others may have to ask for.
    pub served: Vec<Rc<Window>>,
    /// What is free of the memory this rank shares on demand.
    pub zone: Zone,
    /// What of it the program has or had.
    pub lent: Lent,
    /// A CPU and what it belongs to: the first of those that this process could run on when it was asked last.
    pub around: Option<(usize, Groups)>,
    /// What the collective call under way gives to the others, as far as it is profiled.
    pub gift: Cell<Gift>,
    /// What the launcher says about the job.
    pub job: Job,
    /// The key of the communicator with those who started this process, if it was started later and has not left them.
    pub parent: Option<u32>,
    /// Where others can connect.
    pub ports: Vec<Port>,
    /// Connections that this process has given up.
    pub withdrawn: Vec<Withdrawn>,
    /// The library's own thread ([`World::look_after`]) is in: where others see this, it runs a function of the program.
    pub helped: bool,
    /// What has ended the helper ([`World::look_after`]), for the program's next call that makes progress.
    pub trouble: Option<Error>,
    /// Called after each nap in which nothing came, with the state released: ends a process that
    /// nobody else would end.
    pub vigil: fn(),
}

/// What the launcher says about the job.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    /// Which program of the job this is (`MPI_APPNUM`); -1 if nobody knows.
    pub appnum: i32,
    /// How many ranks run it; -1 if nobody knows.
    pub alike: i32,
    /// `MPI_UNIVERSE_SIZE`; -1 if nobody knows.
    pub universe: i32,
    /// A process that may run on all CPUs of the job: the launcher's, or this one's parent.
    pub launcher: i32,
    /// Whether that is our mpirun.
    pub is_ours: bool,
}

/// The right to use the state. While a `Hold` is active no other thread has one; [`Hold::released`]
/// lets the others in for the time of a call-back or a pause.
pub struct Hold<'w> {
    world: &'w World,
}

/// A call under way, as watchers see it.
pub struct Calling<'w> {
    world: &'w World,
    former: u32,
}

impl Drop for Calling<'_> {
    #[inline]
    fn drop(&mut self) {
        self.world.block.doing.leave(self.former);
    }
}

impl State {
    /// The state of rank `rank` of the job, which joins that of `segment` hereby. Ranks that were started later have a world of
    /// their own.
    pub fn join(segment: Arc<Segment>, rank: u32, settings: Settings) -> State {
        let comm = |number, rank, members| {
            let context = Context::adopt(&segment, number);
            Rc::new(Comm::new(context, rank, Rc::new(Group::new(members)), None))
        };
        let world = match segment.birth(rank) {
            None => comm(context::WORLD, rank, (0..segment.ranks()).collect()),
            Some(Birth {
                first, count, world, ..
            }) => {
                segment.hold_context(context::OWN, 1);
                comm(world, rank - first, (first..first + count).collect())
            }
        };
        let own = comm(context::OWN, 0, vec![rank]);
        let zone = Zone::new(segment.zone_len());
        let ranks = segment.known();
        let engine = Engine::new(Channel::join(segment, rank, settings), ranks);
        State {
            world,
            own,
            comms: Table::default(),
            linked: BTreeMap::new(),
            groups: Table::default(),
            keyvals: Table::default(),
            datatypes: Datatypes::default(),
            ops: Ops::default(),
            desk: Desk::new(engine.channel.settings().board_round),
            schedules: Schedules::default(),
            sessions: Table::default(),
            requests: Table::default(),
            hooks: Vec::new(),
            own_ways: false,
            hooks_called: 0,
            engine,
            partitioning: Partitioning::default(),
            files: Table::default(),
            windows: Table::default(),
            served: Vec::new(),
            zone,
            lent: Lent::default(),
            around: None,
            gift: Cell::default(),
            job: Job {
                appnum: -1,
                alike: -1,
                universe: -1,
                launcher: 0,
                is_ours: false,
            },
            parent: None,
            ports: Vec::new(),
            withdrawn: Vec::new(),
            helped: false,
            trouble: None,
            vigil: || (),
        }
    }

    /// Whether several threads may be in MPI at the same time: `multiple` of the program, or the library's own.
    pub fn needs_gate(&self, multiple: bool) -> bool {
        multiple || self.engine.channel.settings().async_progress != 0
    }

    /// This process's rank in the job, which groups count in; that in `MPI_COMM_WORLD` unless it was started later.
    #[inline]
    pub fn me(&self) -> u32 {
        self.engine.channel.me()
    }
}

impl World {
    /// A world of `state`; `multiple` makes it safe for threads of the program that call at the same time.
    pub fn new(state: State, multiple: bool) -> World {
        let segment = state.engine.channel.segment().clone();
        let settings = state.engine.channel.settings();
        let hog = Arc::new(Hog::new(settings.away_max, settings.alone_max));
        SPARE.keep_at_most(settings.spare_max as usize);
        World {
            gate: state.needs_gate(multiple).then(|| match settings.gate_bias {
                0 => Gate::new(hog.clone()),
                _ => Gate::owned(hog.clone()),
            }),
            multiple,
            hog,
            nap: AtomicU32::new(0),
            asleep: AtomicU32::new(0),
            crowd: AtomicU32::new(0),
            block: Block::new(&segment, state.engine.channel.me()),
            me: state.engine.channel.me(),
            segment,
            state: UnsafeCell::new(state),
        }
    }

    /// This process's rank in the job; needs no hold.
    pub fn me(&self) -> u32 {
        self.me
    }

    /// The job's segment; needs no hold.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Says that this rank is in the call `name`, until the result is dropped.
    #[inline(always)]
    pub fn calling(&self, name: &str) -> Calling<'_> {
        let former = self.block.doing.enter(doing::number(name));
        Calling { world: self, former }
    }

    /// Whether threads of the program may call at the same time.
    pub fn is_multiple(&self) -> bool {
        self.multiple
    }

    /// Enters, unless threads may come at the same time; there is nothing to do when the result is dropped.
    #[inline(always)]
    pub fn hold_alone(&self) -> Option<ManuallyDrop<Hold<'_>>> {
        self.gate.is_none().then(|| ManuallyDrop::new(Hold { world: self }))
    }

    /// Enters; waits for other threads, if there may be some.
    #[inline(always)]
    pub fn hold(&self) -> Hold<'_> {
        if let Some(gate) = &self.gate {
            gate.enter();
        }
        Hold { world: self }
    }
}

impl Hold<'_> {
    /// Whether other threads of the program may be in MPI at the same time.
    pub fn has_threads(&self) -> bool {
        self.world.multiple
    }

    /// Runs `outside` with the state released: user call-backs may call MPI again, other threads may enter.
    pub fn released<R>(&mut self, outside: impl FnOnce() -> R) -> R {
        if let Some(gate) = &self.world.gate {
            gate.leave();
        }
        let result = outside();
        if let Some(gate) = &self.world.gate {
            gate.enter();
        }
        result
    }

    /// Lets others have this CPU, with the state released; false if sleeping is better, as [`Hog::gives_way`] says.
    pub fn give_way(&mut self) -> bool {
        let World { hog, segment, .. } = self.world;
        if !segment.oversubscribed() {
            return self.released(|| hog.gives_way());
        }
        let bell = &segment.rank(self.me()).bell;
        bell.gives_way(true);
        let goes_on = self.released(|| hog.gives_way());
        bell.gives_way(false);
        goes_on
    }

    /// Whether nobody else wanted this CPU of late.
    pub fn is_alone(&self) -> bool {
        self.world.hog.is_alone()
    }

    /// Waits until the request `key` is over, as [`Hold::wait_until`].
    ///
    /// # Errors
    /// What makes progress impossible.
    pub fn wait_over(&mut self, first: Option<u32>, key: RequestKey) -> Result<()> {
        self.wait_for(Awaited::Request(key), first, |hold| Ok(hold.is_over(key)))
    }

    /// As [`Hold::wait_until`], for something that watchers can be told about.
    ///
    /// # Errors
    /// As [`Hold::wait_until`].
    #[inline]
    pub fn wait_for(
        &mut self,
        awaited: Awaited,
        first: Option<u32>,
        done: impl FnMut(&mut Hold) -> Result<bool>,
    ) -> Result<()> {
        let outer = std::mem::replace(&mut self.engine.awaited, awaited);
        let outcome = self.wait_until(first, done);
        // Threads do not begin and end to wait one inside the other.
        self.engine.awaited = if self.has_threads() { Awaited::Several } else { outer };
        outcome
    }

    /// Waits until `done` says so, and then goes on saying so, looking at messages from rank `first` of the job first.
    ///
    /// Of several threads that wait one polls, for all of them; the others nap until something has moved.
    ///
    /// # Errors
    /// The error that `done` returns, or what makes progress impossible.
    pub fn wait_until(&mut self, first: Option<u32>, mut done: impl FnMut(&mut Hold) -> Result<bool>) -> Result<()> {
        while !done(self)? {
            if self.engine.polling {
                let began = self.engine.channel.meter().map(Meter::now);
                self.nap();
                if let (Some(began), Some(meter)) = (began, self.engine.channel.meter()) {
                    meter.napped(began);
                }
                continue;
            }
            self.engine.polling = true;
            let channel = &mut self.engine.channel;
            channel.heard();
            let began = channel.meter().map(|meter| meter.begin_wait(first));
            let outcome = self.poll_until(first, &mut done);
            let channel = &mut self.engine.channel;
            let heard = channel.heard();
            if let (Some(began), Some(meter)) = (began, channel.meter()) {
                meter.end_wait(began, first.or(heard));
            }
            self.engine.polling = false;
            self.tell_awake();
            self.wake_threads();
            return outcome;
        }
        Ok(())
    }

    /// Polls, yields and sleeps as [`crate::channel::wait`] decides; other threads get their turns.
    fn poll_until(&mut self, first: Option<u32>, done: &mut impl FnMut(&mut Hold) -> Result<bool>) -> Result<()> {
        let mut patience = self.engine.channel.patience(first);
        while !done(self)? {
            if self.progress(first)? {
                patience.renew();
                self.breathe();
                continue;
            }
            self.tell_news();
            let channel = &mut self.engine.channel;
            if patience.doubts(channel.segment().ranks()) && channel.shares_cpu() {
                patience.shares();
            }
            match patience.step() {
                // Nobody would call the program's functions while all threads sleep.
                Next::Sleep if self.hooks.len() + self.hooks_called > 0 => self.released(cpu::give_way),
                // The napping threads' peers may need this CPU.
                Next::Poll if self.engine.napping > 0 => self.released(cpu::give_way),
                Next::Poll => {
                    std::hint::spin_loop();
                    self.breathe();
                }
                Next::Yield => {
                    self.engine.channel.spread(first);
                    if !self.give_way() {
                        patience.end();
                    } else if self.is_alone() {
                        patience.more();
                    }
                }
                Next::Sleep => {
                    if self.sleep(done)? {
                        patience.renew();
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits until the polling thread has moved something, or polls no more: gives way for a while, then sleeps. Waking a
    /// sleeper takes many times as long as threads that take turns on a CPU.
    fn nap(&mut self) {
        let World { nap, asleep, hog, .. } = self.world;
        let ticket = nap.load(Ordering::Relaxed);
        self.engine.napping += 1;
        if self.engine.napping as u32 > self.world.crowd.load(Ordering::Relaxed) {
            self.world.crowd.store(self.engine.napping as u32, Ordering::Relaxed);
            self.world.segment.add_thread();
        }
        let yields = self.engine.channel.settings().nap_yields;
        self.released(|| {
            for _ in 0..yields {
                let goes_on = hog.gives_way();
                if nap.load(Ordering::Relaxed) != ticket {
                    return;
                }
                if !goes_on {
                    break;
                }
            }
            // Whoever moves something changes the word, then looks at this.
            asleep.fetch_add(1, Ordering::SeqCst);
            futex::wait(nap, ticket, NAP);
            asleep.fetch_sub(1, Ordering::Relaxed);
        });
        self.engine.napping -= 1;
    }

    /// One step of everything under way; whether anything moved.
    ///
    /// # Errors
    /// A peer that left the protocol.
    #[inline]
    pub fn progress(&mut self, first: Option<u32>) -> Result<bool> {
        let moved = super::pt2pt::engine::step(self, first)?;
        self.progress_behind(moved, false)
    }

    /// As [`Hold::progress`], for a program that polls: mostly nothing has come, which is soon found out.
    ///
    /// # Errors
    /// As [`Hold::progress`].
    pub fn look_around(&mut self, first: Option<u32>) -> Result<bool> {
        self.look_by(first, false)
    }

    /// The same, by the `helper` or a thread of the program.
    fn look_by(&mut self, first: Option<u32>, helper: bool) -> Result<bool> {
        let moved = !self.engine.channel.is_quiet() && super::pt2pt::engine::step(self, first)?;
        self.progress_behind(moved, helper)
    }

    /// One step of what does not come by messages, after a step of these; by the `helper` or a thread of the program.
    #[inline]
    fn progress_behind(&mut self, mut moved: bool, helper: bool) -> Result<bool> {
        partitioned::send_held(self)?;
        if !self.hooks.is_empty() {
            moved |= hooks::call(self, helper);
        }
        if !self.desk.started.is_empty() {
            moved |= started::look(self);
        }
        if let Some(error) = self.trouble.take() {
            return Err(error);
        }
        if moved {
            self.tell_awake();
            self.moved()?;
            return Ok(true);
        }
        if !self.served.is_empty() && rma::mail::look(self) {
            return Ok(true);
        }
        if self.engine.channel.segment().has_grown() {
            self.meet_new()?;
        }
        let events = self.engine.channel.segment().events();
        if events != self.engine.events {
            failure::notice(self, events)?;
            self.tell_awake();
            self.moved()?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Messages have come: lets all go on that may wait for one.
    ///
    /// # Errors
    /// A peer that left the protocol.
    pub fn moved(&mut self) -> Result<()> {
        super::coll::advance(self)?;
        partitioned::advance(self)?;
        rma::serve::advance(self)?;
        self.wake_threads();
        Ok(())
    }

    /// Lets this rank's sleeping threads look again.
    pub fn wake_threads(&self) {
        if self.engine.asleep {
            self.engine.channel.wake_own();
        }
        if self.engine.napping > 0 {
            self.world.nap.fetch_add(1, Ordering::SeqCst);
            if self.world.asleep.load(Ordering::SeqCst) > 0 {
                futex::wake_all(&self.world.nap);
            }
        }
    }

    /// Lets threads in that wait at the gate.
    fn breathe(&mut self) {
        if let Some(gate) = &self.world.gate
            && gate.is_contended()
        {
            gate.pass();
        }
    }
}

impl Deref for Hold<'_> {
    type Target = State;
    #[inline]
    fn deref(&self) -> &State {
        // SAFETY: an active hold is the only one, and `&mut self` methods end the borrow.
        unsafe { &*self.world.state.get() }
    }
}

impl DerefMut for Hold<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut State {
        // SAFETY: as above.
        unsafe { &mut *self.world.state.get() }
    }
}

impl Drop for Hold<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(gate) = &self.world.gate {
            gate.leave();
        }
    }
}
