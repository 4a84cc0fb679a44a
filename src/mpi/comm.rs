//! Communicators: a context, a group, and what is cached on them (MPI-4.1 §7.4).
//!
//! | module | owns |
//! |---|---|
//! | [`create`] | new communicators out of one: duplicates, parts, chosen groups |
//! | [`inter`] | intercommunicators: made, duplicated, split and merged |
//! | [`dynamic`] | intercommunicators with processes that connect, or are started later |
//! | [`birth`] | starting those |
//! | [`idup`] | duplicates whose context is on its way |

pub mod birth;
pub mod create;
pub mod dynamic;
pub mod hardware;
pub mod idup;
pub mod inter;

#[cfg(test)]
mod tests;

use super::attr::Attributes;
use super::coll::board::Boards;
use super::coll::neighbor::Neighbors;
use super::context::Context;
use super::errhandler::Errhandler;
use super::error::Result;
use super::group::{Group, Likeness};
use super::info::Info;
use super::pt2pt::buffered::Account;
use super::session::Session;
use super::topo::Topology;
use crate::fail;
use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

/// Which of a communicator's two message spaces: user messages and collectives never match each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// Messages of the program's own sends and receives.
    PointToPoint,
    /// Messages inside collective operations.
    Collective,
}

/// A communicator. Shared by `Rc`: pending requests keep it alive after `MPI_Comm_free`.
#[derive(Debug)]
pub struct Comm {
    /// Unique in the job while the communicator lives.
    pub context: Context,
    /// My rank in `group`.
    pub rank: u32,
    /// The (local) group.
    pub group: Rc<Group>,
    /// The remote group, for an intercommunicator.
    pub remote: Option<Rc<Group>>,
    /// The remote group, or `group`.
    peers: Rc<Group>,
    /// What its members show each other in collective operations, once there has been one.
    pub boards: OnceCell<Option<Rc<Boards>>>,
    /// The same for nonblocking ones.
    pub started_boards: OnceCell<Option<Rc<Boards>>>,
    /// Nonblocking collective operations so far, as a number that wraps around.
    pub started_collectives: Cell<u32>,
    /// Persistent collectives made on it, as a number that wraps around.
    pub persistent_collectives: Cell<u32>,
    /// Votes cast on it by agreements.
    pub votes: Cell<u32>,
    /// The deaths that were acknowledged on it: that many of the job's first.
    pub acknowledged: Cell<u32>,
    /// What happens to errors on this communicator; a new one inherits it (MPI-4.1 §9.3).
    pub errhandler: RefCell<Errhandler>,
    /// Two of its members talk on it and the others do not count, dead or not ([`dynamic`]).
    pub is_bridge: bool,
    /// For an intercommunicator, an intracommunicator of the local group that only the library uses.
    pub local: Option<Rc<Comm>>,
    /// For such a hidden one, the group on the other side: a death there ends what is under way here, too, or those would
    /// wait who have nothing to do with the other side for one who has given up.
    pub across: Option<Rc<Group>>,
    /// Who is whose neighbour, if that was said.
    pub topology: Option<Rc<Topology>>,
    /// What that means for this rank's exchanges, from the first one on.
    pub neighbors: OnceCell<Rc<Neighbors>>,
    /// The name the program gave it.
    pub name: RefCell<Option<String>>,
    /// Hints.
    pub info: RefCell<Info>,
    /// Values cached under keys.
    pub attributes: Attributes,
    /// Its buffer for buffered sends.
    pub buffered: Account,
    /// The session that its group, or that of a communicator it was made from, came from.
    pub session: Option<Rc<Session>>,
}

impl Comm {
    /// A communicator with nothing cached on it and the default error handler.
    pub fn new(context: Context, rank: u32, group: Rc<Group>, remote: Option<Rc<Group>>) -> Comm {
        let session = group.session.clone();
        let peers = remote.as_ref().unwrap_or(&group).clone();
        Comm {
            context,
            rank,
            group,
            remote,
            peers,
            boards: OnceCell::new(),
            started_boards: OnceCell::new(),
            started_collectives: Cell::new(0),
            persistent_collectives: Cell::new(0),
            votes: Cell::new(0),
            acknowledged: Cell::new(0),
            errhandler: RefCell::default(),
            is_bridge: false,
            local: None,
            across: None,
            topology: None,
            neighbors: OnceCell::new(),
            name: RefCell::default(),
            info: RefCell::default(),
            attributes: Attributes::default(),
            buffered: Account::default(),
            session,
        }
    }

    /// An intracommunicator made from this communicator, with its error handler.
    pub fn child(&self, context: Context, rank: u32, group: Rc<Group>) -> Comm {
        let mut child = Comm::new(context, rank, group, None);
        child.session = child.session.or_else(|| self.session.clone());
        child.errhandler.replace(self.errhandler.borrow().clone());
        child
    }

    /// Makes it an intercommunicator with the group `remote`; `local` is for the library's own collectives.
    pub fn join(&mut self, remote: Rc<Group>, mut local: Comm) {
        self.peers = remote.clone();
        local.across = Some(remote.clone());
        self.remote = Some(remote);
        self.local = Some(Rc::new(local));
    }

    /// Number of processes in the (local) group.
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// The other ranks of the (local) group, from the one behind this one on.
    pub fn others(&self) -> impl Iterator<Item = u32> + Clone + use<> {
        let (rank, size) = (self.rank, self.size());
        (1..size).map(move |step| (rank + step) % size)
    }

    /// The group that `dest` and `source` arguments count in.
    #[inline]
    pub fn peers(&self) -> &Rc<Group> {
        &self.peers
    }

    /// Whether this is an intercommunicator.
    pub fn is_inter(&self) -> bool {
        self.remote.is_some()
    }

    /// The remote group.
    ///
    /// # Errors
    /// `Comm`: this is an intracommunicator.
    pub fn remote_group(&self) -> Result<&Rc<Group>> {
        match &self.remote {
            Some(remote) => Ok(remote),
            None => fail!(Comm, "the communicator is not an intercommunicator"),
        }
    }

    /// The intracommunicator of the local group, for the library's own collectives.
    ///
    /// # Errors
    /// `Comm`: this is an intracommunicator.
    pub fn local_comm(&self) -> Result<&Rc<Comm>> {
        match &self.local {
            Some(local) => Ok(local),
            None => fail!(Comm, "the communicator is not an intercommunicator"),
        }
    }

    /// Refuses intercommunicators.
    ///
    /// # Errors
    /// `Comm`: this is one.
    pub fn intra(&self) -> Result<()> {
        if self.is_inter() {
            fail!(Comm, "the communicator is an intercommunicator");
        }
        Ok(())
    }

    /// `rank`, if it is one of this communicator's local group.
    ///
    /// # Errors
    /// `Rank`: it is not.
    pub fn checked_rank(&self, rank: i32) -> Result<u32> {
        if rank < 0 || rank >= self.size() as i32 {
            let size = self.size();
            fail!(Rank, "rank {rank} is not in a communicator of {size} processes");
        }
        Ok(rank as u32)
    }

    /// How `other` compares with this communicator (MPI-4.1 §7.4.1).
    pub fn compare(&self, other: &Comm) -> Likeness {
        if std::ptr::eq(self, other) {
            return Likeness::Identical;
        }
        let groups = match (&self.remote, &other.remote) {
            (None, None) => self.group.compare(&other.group),
            (Some(mine), Some(theirs)) => self.group.compare(&other.group).max(mine.compare(theirs)),
            _ => Likeness::Unequal,
        };
        groups.max(Likeness::Congruent)
    }

    /// The context number on `plane`.
    #[inline]
    pub fn context_on(&self, plane: Plane) -> u16 {
        self.context.number() << 1 | (plane == Plane::Collective) as u16
    }
}
