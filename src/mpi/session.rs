//! Sessions: handles on the library, from which groups and communicators are made (MPI-4.1 §11.3).

use super::errhandler::Errhandler;
use super::group::Group;
use super::pt2pt::buffered::Account;
use super::world::State;
use std::cell::RefCell;
use std::rc::Rc;

/// Names of the process sets, all of them known from the start.
pub const PSETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

/// A session.
#[derive(Debug)]
pub struct Session {
    /// What happens to errors on it.
    pub errhandler: RefCell<Errhandler>,
    /// The level of thread support it was given, in the numbers of the ABI.
    pub level: i32,
    /// Its buffer for buffered sends.
    pub buffered: Account,
}

impl Session {
    /// A session with this error handler and level of thread support.
    pub fn new(errhandler: Errhandler, level: i32) -> Session {
        Session {
            errhandler: RefCell::new(errhandler),
            level,
            buffered: Account::default(),
        }
    }
}

/// The processes of the set `name`, as a group of `session`; `None` if there is no such set.
pub fn group(state: &State, session: &Rc<Session>, name: &str) -> Option<Group> {
    let comm = match PSETS.iter().position(|pset| pset.eq_ignore_ascii_case(name))? {
        0 => &state.world,
        _ => &state.own,
    };
    Some(Group {
        session: Some(session.clone()),
        ..Group::clone(&comm.group)
    })
}
