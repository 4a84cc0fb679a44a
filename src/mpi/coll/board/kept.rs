//! Persistent operations by boards: each goes as a nonblocking one does ([`started`](super::started)), on boards of its own and with
//! a room of its own, since members may start several in different orders (MPI-4.1 §6.13). Its turns are counted from the first
//! start to the last.
//!
//! There are so many boards for them in a job; one member claims some when an operation is initialized and tells the others,
//! as for a new communicator. They are free again when all members have freed the request. What gets none runs as a schedule.

use super::cut::longest;
use super::{Boards, started};
use crate::mpi::coll::bcast_bytes;
use crate::mpi::coll::call::{self, Task};
use crate::mpi::coll::choice::Table;
use crate::mpi::coll::signature::Signature;
use crate::mpi::comm::Comm;
use crate::mpi::context::{Context, NONE};
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::shm::board::{ROOM, SLOTS};
use std::rc::Rc;

/// Boards for `task`, the context that has them, and what the task says of itself; `None` for one that runs as a schedule.
/// Collective; all members get the same.
///
/// # Errors
/// What makes progress impossible; `Other`: a member is in another call.
pub fn claim(hold: &mut Hold, comm: &Rc<Comm>, task: &Task) -> Result<Option<(Rc<Boards>, Context, Signature)>> {
    let (size, channel) = (comm.size() as usize, &hold.engine.channel);
    if !Boards::may_open(hold, comm, true) {
        return Ok(None);
    }
    let shown = call::shown(hold, comm, task).map(|(shown, _)| shown);
    let table = Table::new(channel.settings(), channel.segment().crowd(), size);
    let most = longest(channel.settings(), &table, task, size);
    let Some(shown) = shown.filter(|&shown| shown <= most) else {
        return Ok(None);
    };
    let mut number = NONE;
    if comm.rank == 0 {
        let segment = hold.engine.channel.segment();
        let claimed = segment.claim_kept(comm.size(), shown > ROOM.1 / SLOTS);
        number = claimed.unwrap_or(NONE);
    }
    let mut bytes = number.to_ne_bytes();
    bcast_bytes(hold, comm, 0, &mut bytes)?;
    let number = u16::from_ne_bytes(bytes);
    if number == NONE {
        return Ok(None);
    }
    let context = hold.adopt_context(number);
    let Some(boards) = Boards::open(hold, comm, number, true) else {
        return Ok(None);
    };
    let signature = started::signature(hold, comm, &boards, task);
    Ok(signature.map(|signature| (boards, context, signature)))
}
