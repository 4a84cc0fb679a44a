//! Processes that are started later, and connections between processes that have no communicator in common (MPI-4.1 §11.8,
//! §11.9).
//!
//! Whoever belongs to a job, from its start or later, has a rank in it and can send to every other rank: what is missing is
//! a context that both sides know. So two leaders first talk on a *bridge*, a communicator of all ranks, and
//! join their groups by [`inter::create`] from there:
//!
//! - Who is started finds the bridge in the annex ([`crate::shm::segment::annex`]).
//! - A *port* is a context too, on which who connects says which bridge it has claimed; there it waits to be let in.
//!
//! Jobs that were started apart share no memory and cannot be connected. Who is to connect later is started with
//! `mpirun -join`, in the memory of the job that runs.

use super::create::{known, recv_bytes, send_bytes};
use super::{Comm, Plane, inter};
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::coll;
use crate::mpi::context::{Context, NONE};
use crate::mpi::error::{Class, Error, Result};
use crate::mpi::group::Group;
use crate::mpi::pt2pt;
use crate::mpi::request::{self, RequestKey};
use crate::mpi::sleep::Awaited;
use crate::mpi::status::ANY_SOURCE;
use crate::mpi::world::{Hold, State};
use crate::shm::port::PortName;
use crate::shm::segment::annex::Side;
use crate::shm::segment::{Life, Segment};
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// A port of this process.
#[derive(Debug)]
pub struct Port {
    name: String,
    context: Context,
}

impl Hold<'_> {
    /// Meets the ranks that were started since this was asked last.
    ///
    /// # Errors
    /// `NoMem`: the kernel refuses. `Intern`: there is junk in shared memory.
    #[cold]
    pub fn meet_all(&mut self) -> Result<()> {
        let grown = self.engine.channel.segment().grow();
        // Some of them may be there all the same.
        self.engine.grow();
        match grown {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                fail!(Intern, "shared memory holds junk: {error}")
            }
            Err(error) => fail!(NoMem, "cannot map the memory of ranks that were started later: {error}"),
            Ok(()) => Ok(()),
        }
    }

    /// As [`Hold::meet_all`], when some have come that this rank may have nothing to do with: it goes on without those that it has
    /// no room for.
    ///
    /// # Errors
    /// `Intern`: there is junk in shared memory.
    #[cold]
    pub fn meet_new(&mut self) -> Result<()> {
        match self.meet_all() {
            Err(error) if error.class() == Class::NoMem => Ok(()),
            met => met,
        }
    }
}

impl State {
    /// Gives a new communicator its place among those of the program; `None`: there are too many.
    pub fn keep_comm(&mut self, comm: Rc<Comm>) -> Option<u32> {
        if self.engine.channel.segment().known() > self.engine.channel.segment().ranks() {
            let ranks = strangers(self, &comm);
            link(self, ranks);
        }
        self.comms.insert(comm)
    }

    /// The communicator of all ranks of the job that has context `number`. It takes over a hold on that: who has none to give
    /// sets its number to [`NONE`] before it goes.
    fn bridge(&self, number: u16) -> Rc<Comm> {
        let all = Group::new((0..self.engine.channel.segment().known()).collect());
        let mut bridge = Comm::new(self.adopt_context(number), self.me(), Rc::new(all), None);
        bridge.is_bridge = true;
        Rc::new(bridge)
    }
}

/// Joins `local` to the group of rank `remote` of the job, on bridge `number`. Of `local`, rank `root` alone looks at these.
pub(super) fn join(hold: &mut Hold, local: &Rc<Comm>, root: u32, remote: Result<(u16, u32)>) -> Result<Comm> {
    // Who has no room for them says so in there, where the others wait for it.
    let met = hold.meet_all();
    let leader = remote.as_ref().ok().map(|(_, remote)| *remote);
    pin(hold, leader);
    let peer = match (local.rank == root, remote) {
        (true, Ok((_, remote))) if remote >= hold.engine.channel.segment().known() => {
            Err(met.err().unwrap_or_else(|| elsewhere(root)))
        }
        (true, remote) => remote.map(|(number, remote)| (hold.bridge(number), remote)),
        (false, _) => Err(elsewhere(root)),
    };
    let new = inter::create(hold, local, root, peer, 0);
    unpin(hold, leader);
    if let Ok(new) = &new {
        let segment = hold.engine.channel.segment();
        let peers = new.peers().members.iter();
        peers.for_each(|&peer| segment.meet(hold.me(), peer));
    }
    new
}

/// The members of `comm` that did not begin with this process.
fn strangers(state: &State, comm: &Comm) -> Vec<u32> {
    let segment = state.engine.channel.segment();
    let first = |rank: u32| segment.birth(rank).map(|birth| birth.first);
    let mine = first(state.me());
    let members = comm.group.members.iter().chain(&comm.peers().members);
    members.copied().filter(|&rank| first(rank) != mine).collect()
}

/// Waits until the members of `comm`'s (local) group have all come to leave it; of an intercommunicator that has lost one
/// member nobody has to.
///
/// # Errors
/// As [`coll::barrier`].
pub fn meet_before_leaving(hold: &mut Hold, comm: &Rc<Comm>) -> Result<()> {
    let Some(local) = &comm.local else {
        return coll::barrier(hold, comm);
    };
    match coll::barrier(hold, local) {
        Err(error) if matches!(error.class(), Class::ProcFailed | Class::Revoked) => Ok(()),
        met => met,
    }
}

/// `comm` is left for good, and with it those of its members that no other communicator connects this process to: between who was
/// started and who started them, each side may die without the other from now on.
pub fn leave(state: &mut State, comm: &Rc<Comm>) {
    let of_requests = state.requests.iter().filter_map(|(_, request)| request.comm.as_ref());
    let others: BTreeSet<u32> = (state.comms.iter().map(|(_, other)| other))
        .filter(|other| !Rc::ptr_eq(other, comm))
        .chain(state.windows.iter().map(|(_, window)| &window.comm))
        .chain(state.files.iter().map(|(_, file)| &file.comm))
        .chain(of_requests)
        .flat_map(|other| strangers(state, other))
        .collect();
    let left: Vec<u32> = strangers(state, comm)
        .into_iter()
        .filter(|rank| !others.contains(rank))
        .collect();
    let segment = state.engine.channel.segment().clone();
    let starter = |rank: u32| segment.birth(rank).and_then(|birth| birth.starter);
    if starter(state.me()).is_some_and(|starter| left.contains(&starter)) {
        segment.leave(state.me(), Side::Started);
    }
    for &rank in &left {
        if starter(rank).is_some_and(|starter| comm.group.members.contains(&starter)) {
            segment.leave(rank, Side::Starters);
        }
    }
    let kept = annexes_of(&segment, others);
    state
        .linked
        .extract_if(.., |first, pins| *pins == 0 && !kept.contains(first))
        .for_each(|(first, _)| segment.unlink(first));
}

/// The annexes of those of `ranks` that were started later, by their first ranks.
fn annexes_of(segment: &Segment, ranks: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
    let births = ranks.into_iter().filter_map(|rank| segment.birth(rank));
    births.map(|birth| birth.first).collect()
}

/// This process reads the memory of `ranks` from now on, if they are not those that it came with.
pub(super) fn link(state: &mut State, ranks: impl IntoIterator<Item = u32>) {
    let segment = state.engine.channel.segment().clone();
    let mine = segment.birth(state.me()).map(|birth| birth.first);
    for first in annexes_of(&segment, ranks) {
        if Some(first) != mine && !state.linked.contains_key(&first) {
            state.linked.insert(first, 0);
            segment.link(first);
        }
    }
}

/// As [`link`] for `rank`, if there is one, and until [`unpin`] no other thread's leaving of some communicator ends it.
fn pin(state: &mut State, rank: Option<u32>) {
    link(state, rank);
    change_pins(state, rank, 1);
}

fn unpin(state: &mut State, rank: Option<u32>) {
    change_pins(state, rank, -1);
}

fn change_pins(state: &mut State, rank: Option<u32>, by: i32) {
    let birth = rank.and_then(|rank| state.engine.channel.segment().birth(rank));
    if let Some(pins) = birth.and_then(|birth| state.linked.get_mut(&birth.first)) {
        *pins += by;
    }
}

/// This process ends MPI, and reads nothing any more.
pub fn end(state: &mut State) {
    let linked = std::mem::take(&mut state.linked);
    let segment = state.engine.channel.segment();
    linked.into_keys().for_each(|first| segment.unlink(first));
}

/// Opens a port: its name. MPI-4.1 §11.9.2.
///
/// # Errors
/// `Other`: no context is left.
pub fn open_port(hold: &mut Hold) -> Result<String> {
    let context = hold.adopt_context(hold.claim_context(1)?);
    let segment = hold.engine.channel.segment();
    let name = PortName {
        pid: std::process::id() as i32,
        job: segment.number(),
        owner: hold.me(),
        context: context.number(),
        life: segment.fate(context.number()).life(),
    }
    .to_string();
    hold.ports.push(Port {
        name: name.clone(),
        context,
    });
    Ok(name)
}

/// Closes a port of this process; who has knocked there and was not let in is told. MPI-4.1 §11.9.2.
///
/// # Errors
/// `Port`: it has no such port open. As [`pt2pt::irecv`].
pub fn close_port(hold: &mut Hold, name: &str) -> Result<()> {
    let Some(at) = hold.ports.iter().position(|port| port.name == name) else {
        fail!(Port, "this process has no port {name:?} open");
    };
    let port = hold.ports.remove(at);
    // Other threads that accept there give up.
    hold.wake_threads();
    hold.meet_all()?;
    for _ in 0..SWEEPS {
        if !hold.progress(None)? {
            break;
        }
    }
    let at_port = hold.bridge(port.context.number());
    let drained = loop {
        match turn_away(hold, &at_port) {
            Ok(true) => {}
            Ok(false) => break Ok(()),
            Err(error) if error.class() == Class::ProcFailed => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    lend_back(&at_port);
    drained
}

/// Turns away one of those who have knocked; whether there was one.
fn turn_away(hold: &mut Hold, at_port: &Rc<Comm>) -> Result<bool> {
    match receive_unless(hold, at_port, ANY_SOURCE, KNOCKS, several, |_| true)? {
        Some((number, who)) => answer(hold, number, who, false).map(|_| true),
        None => Ok(false),
    }
}

/// Whether the port is open, and its owner in MPI.
fn is_open(port: PortName, segment: &Segment) -> bool {
    segment.is_held(port.context)
        && segment.fate(port.context).life() == port.life
        && segment.life(port.owner) == Life::Attached
}

/// The port `name`, which is open.
fn find_port(state: &State, name: &str) -> Result<PortName> {
    let segment = state.engine.channel.segment();
    let Some(port) = PortName::parse(name) else {
        fail!(Port, "{name:?} is no port's name");
    };
    if port.job != segment.number() {
        fail!(
            Port,
            "the port {name:?} was opened in another job: to connect there, start this program with mpirun -join {}, or with \
             -join and the port's name",
            port.pid
        );
    }
    match port.owner < segment.known() && is_open(port, segment) {
        true => Ok(port),
        false => fail!(Port, "the port {name:?} is not open any more"),
    }
}

/// Joins the groups of two roots that find each other: `find` says on which bridge, and with which rank of the job. Collective;
/// only `root` calls it, and its error makes this fail everywhere. MPI-4.1 §11.9.2, §11.9.3.
///
/// # Errors
/// What `find` says. As [`inter::create`].
pub fn meet(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    root: u32,
    find: impl FnOnce(&mut Hold) -> Result<(u16, u32)>,
) -> Result<Comm> {
    let remote = match comm.rank == root {
        true => find(hold),
        false => Err(elsewhere(root)),
    };
    join(hold, comm, root, remote)
}

/// Tags of connecting, above those of [`inter::create`] and of collective operations. Who connects claims a bridge and knocks at the
/// port with its number; the owner says there whether it lets it in, and hears whether it comes: it does not once it has lost
/// patience. Each lets go of the bridge when it has heard the other, so that no message is left on it.
const KNOCKS: i32 = i32::MAX;
const LETS_IN: i32 = i32::MAX - 1;
const COMES: i32 = i32::MAX - 2;

/// Steps that closing a port makes, to hear who has knocked by then, whatever else comes.
const SWEEPS: usize = 64;

/// A connection that was given up: the bridge, and the owner of the port, whose word is still to come.
pub type Withdrawn = (Rc<Comm>, u32);

/// Gives the context of a bridge back to whoever [`State::bridge`] took it over from.
fn lend_back(bridge: &Comm) {
    bridge.context.cell().set(NONE);
}

/// Of a wait that other things end, too.
fn several(_: RequestKey) -> Awaited {
    Awaited::Several
}

fn say(hold: &mut Hold, bridge: &Rc<Comm>, to: u32, tag: i32, word: u16) -> Result<()> {
    send_bytes(hold, bridge, to, tag, &word.to_ne_bytes())
}

/// Receives a word on a bridge, unless `gives_up` says so before it is there; with the rank it came from. `awaited`: what watchers are
/// told about the request.
fn receive_unless(
    hold: &mut Hold,
    bridge: &Rc<Comm>,
    source: i32,
    tag: i32,
    awaited: impl FnOnce(RequestKey) -> Awaited,
    mut gives_up: impl FnMut(&Hold) -> bool,
) -> Result<Option<(u16, u32)>> {
    let mut word = [0; 2];
    let buffer = Buffer::bytes(word.as_mut_ptr(), word.len());
    let key = pt2pt::irecv(hold, bridge, Plane::Collective, buffer, source, tag)?;
    let waited = hold.wait_for(awaited(key), None, |hold| Ok(hold.is_over(key) || gives_up(hold)));
    if !hold.is_over(key) {
        request::cancel(hold, key)?;
    }
    let status = pt2pt::wait(hold, key)?;
    waited?;
    Ok((!status.cancelled).then(|| (u16::from_ne_bytes(word), status.source as u32)))
}

/// Tells `who` has knocked with bridge `number` whether it is let in; whether it comes. It may have lost patience and be gone.
fn answer(hold: &mut Hold, number: u16, who: u32, lets_in: bool) -> Result<bool> {
    // It may be of a rank that was started while this one waited.
    hold.meet_all()?;
    let bridge = hold.bridge(known(number)?);
    let mut comes = [0; 2];
    pin(hold, Some(who));
    // Who is there now says whether it comes before it leaves MPI, and its memory stays until that was heard.
    let heard = match hold.engine.channel.segment().life(who) {
        Life::Attached => say(hold, &bridge, who, LETS_IN, lets_in.into())
            .and_then(|()| recv_bytes(hold, &bridge, who, COMES, &mut comes)),
        _ => Ok(()),
    };
    unpin(hold, Some(who));
    match heard {
        Ok(()) if lets_in && u16::from_ne_bytes(comes) == 1 => {
            lend_back(&bridge);
            Ok(true)
        }
        Err(error) if error.class() != Class::ProcFailed => Err(error),
        _ => Ok(false),
    }
}

/// Waits at the port `name` of this process for somebody to connect: for [`meet`].
///
/// # Errors
/// `Port`: it has no such port open, or another thread has closed it.
pub fn accept(hold: &mut Hold, name: &str) -> Result<(u16, u32)> {
    let number = |hold: &Hold| {
        hold.ports
            .iter()
            .find(|port| port.name == name)
            .map(|port| port.context.number())
    };
    let Some(context) = number(hold) else {
        fail!(Port, "this process has no port {name:?} open");
    };
    hold.meet_all()?;
    loop {
        let at_port = hold.bridge(context);
        let heard = receive_unless(hold, &at_port, ANY_SOURCE, KNOCKS, Awaited::Stranger, |hold| {
            number(hold).is_none()
        });
        lend_back(&at_port);
        let Some((number, who)) = heard? else {
            fail!(Port, "the port {name:?} was closed by another thread");
        };
        if answer(hold, number, who, true)? {
            return Ok((number, who));
        }
    }
}

/// Knocks at the port `name` and waits to be let in, if `limit` is given so long at most: for [`meet`].
///
/// # Errors
/// `Port`: there is no such port in this job, or it was closed or time was over before anybody accepted. `Comm`: the port is this
/// process's own.
pub fn connect(hold: &mut Hold, name: &str, limit: Option<Duration>) -> Result<(u16, u32)> {
    hold.meet_all()?;
    forget_withdrawn(hold)?;
    let port = find_port(hold, name)?;
    if port.owner == hold.me() {
        fail!(Comm, "the port {name:?} is this process's own");
    }
    let number = known(hold.claim_context(2)?)?;
    let segment = hold.engine.channel.segment().clone();
    let (at_port, bridge) = (hold.bridge(port.context), hold.bridge(number));
    segment.meet(hold.me(), port.owner);
    let told = say(hold, &at_port, port.owner, KNOCKS, number);
    lend_back(&at_port);
    told?;
    let began = Instant::now();
    let is_late = || limit.is_some_and(|limit| began.elapsed() >= limit);
    let gives_up = |_: &Hold| is_late() || !is_open(port, &segment);
    let awaited = if limit.is_none() {
        Awaited::Request
    } else {
        Awaited::Late
    };
    let word = receive_unless(hold, &bridge, port.owner as i32, LETS_IN, awaited, gives_up)?;
    let comes = word.is_some_and(|(lets_in, _)| lets_in == 1);
    say(hold, &bridge, port.owner, COMES, comes.into())?;
    if comes {
        lend_back(&bridge);
        return Ok((number, port.owner));
    }
    let gave_up = word.is_none();
    if gave_up {
        hold.withdrawn.push((bridge, port.owner));
    }
    match gave_up && is_late() {
        true => fail!(
            Port,
            "nobody accepted at the port {name:?} within {} s",
            limit.unwrap_or_default().as_secs()
        ),
        false => fail!(Port, "the port {name:?} was closed before anybody accepted there"),
    }
}

/// Lets go of the bridges of connections that were given up, as far as their owners have answered by now.
fn forget_withdrawn(hold: &mut Hold) -> Result<()> {
    for (bridge, owner) in std::mem::take(&mut hold.withdrawn) {
        if receive_unless(hold, &bridge, owner as i32, LETS_IN, several, |_| true)?.is_none() {
            hold.withdrawn.push((bridge, owner));
        }
    }
    Ok(())
}

pub(super) fn elsewhere(root: u32) -> Error {
    Error::new(Class::Port, format!("rank {root}, the root, could not connect"))
}

/// Joins this process and the one at the other end of a connection, with which `swap` exchanges eight bytes. `None` if that
/// is of another job. MPI-4.1 §11.9.6.
///
/// # Errors
/// What `swap` says; `Comm`: the other end is this process itself.
pub fn join_over(hold: &mut Hold, mut swap: impl FnMut(u64) -> Result<u64>) -> Result<Option<Comm>> {
    let (job, me) = (hold.engine.channel.segment().number(), hold.me());
    let theirs = hold.released(|| swap(job))?;
    let peer = hold.released(|| swap(me.into()))?;
    let (same, peer) = (theirs == job, u32::try_from(peer).unwrap_or(u32::MAX));
    hold.meet_all()?;
    if !same || peer >= hold.engine.channel.segment().known() {
        return Ok(None);
    }
    if peer == me {
        fail!(Comm, "both ends of the connection belong to this process");
    }
    hold.engine.channel.segment().meet(me, peer);
    let claimed = match me < peer {
        true => hold.claim_context(2).unwrap_or(NONE),
        false => NONE,
    };
    let told = hold.released(|| swap(claimed.into()))?;
    let told = u16::try_from(told).unwrap_or(NONE);
    let bridge = known(if me < peer { claimed } else { told })?;
    let own = hold.own.clone();
    join(hold, &own, 0, Ok((bridge, peer))).map(Some)
}
