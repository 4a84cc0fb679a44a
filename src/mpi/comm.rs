//! Communicators: a context, a group, and what is cached on them (MPI-4.1 §7.4).

use super::context::Context;
use super::errhandler::Errhandler;
use super::group::Group;
use std::cell::{Cell, RefCell};
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
    /// Collective operations started so far on this communicator; gives each its tag.
    pub collectives: Cell<u32>,
    /// What happens to errors on this communicator; a new one inherits it (MPI-4.1 §9.3).
    pub errhandler: RefCell<Errhandler>,
}

impl Comm {
    /// A communicator with nothing cached on it and the default error handler.
    pub fn new(context: Context, rank: u32, group: Rc<Group>, remote: Option<Rc<Group>>) -> Comm {
        let errhandler = RefCell::default();
        Comm {
            context,
            rank,
            group,
            remote,
            collectives: Cell::new(0),
            errhandler,
        }
    }

    /// Number of processes in the (local) group.
    pub fn size(&self) -> u32 {
        self.group.size()
    }

    /// The group that `dest` and `source` arguments count in.
    #[inline]
    pub fn peers(&self) -> &Rc<Group> {
        self.remote.as_ref().unwrap_or(&self.group)
    }

    /// Whether this is an intercommunicator.
    pub fn is_inter(&self) -> bool {
        self.remote.is_some()
    }

    /// The context number on `plane`.
    #[inline]
    pub fn context_on(&self, plane: Plane) -> u16 {
        self.context.number() << 1 | (plane == Plane::Collective) as u16
    }
}
