//! Nonblocking duplicates (MPI-4.1 §7.4.2, `MPI_Comm_idup`): the claimant tells every member the
//! context number, and the receive of that message is the request that the program waits for. The claimant waits for
//! nobody while few contexts are in use; then for the others to have called it, too, since it might be ahead of them by all there are.

use super::inter::is_low;
use super::{Comm, Plane};
use crate::mpi::buffer::Buffer;
use crate::mpi::coll;
use crate::mpi::context::{Context, NONE};
use crate::mpi::error::Result;
use crate::mpi::pt2pt::{self, Mode};
use crate::mpi::request::parts::{Parts, Told};
use crate::mpi::request::{self, Kind, Request, RequestKey};
use crate::mpi::world::Hold;
use crate::shm::context::REUSED;
use std::rc::Rc;

/// A duplicate that may be used once the request is over. Collective, but nobody waits in here. Where no context is left the
/// request ends with an error at every member.
///
/// # Errors
/// `NoMem`: too many requests.
pub fn idup(hold: &mut Hold, comm: &Rc<Comm>) -> Result<(Rc<Comm>, RequestKey)> {
    let pending =
        |hold: &Hold, parent: &Comm| parent.child(hold.adopt_context(NONE), parent.rank, parent.group.clone());
    let mut new = pending(hold, comm);
    new.topology.clone_from(&comm.topology);
    let tag = coll::next_started_tag(comm);
    let (new, learnt) = match (&comm.remote, &comm.local) {
        (Some(remote), Some(local)) => {
            new.join(remote.clone(), pending(hold, local));
            let new = Rc::new(new);
            let hidden = new.local_comm()?.clone();
            let local_tag = coll::next_started_tag(local);
            let low = is_low(&comm.group, remote);
            if low && comm.rank == 0 {
                let (mine, theirs) = (comm.size(), remote.size());
                let [both, here, there] = claim_all(hold, [mine + theirs, mine, theirs]);
                let mut heard = announce(hold, local, 1, local_tag, &[both, here])?;
                heard.extend(announce(hold, comm, 0, tag, &[both, there])?);
                new.context.cell().set(both);
                hidden.context.cell().set(here);
                (new, heard)
            } else {
                let (over, tag) = if low { (local, local_tag) } else { (comm, tag) };
                let first = learn(hold, &new, over, tag, &new.context)?;
                let second = learn(hold, &hidden, over, tag, &hidden.context)?;
                (new, vec![first, second])
            }
        }
        _ => {
            let new = Rc::new(new);
            if comm.rank == 0 {
                let [number] = claim_all(hold, [comm.size()]);
                let heard = announce(hold, comm, 1, tag, &[number])?;
                new.context.cell().set(number);
                (new, heard)
            } else {
                let number = learn(hold, &new, comm, tag, &new.context)?;
                (new, vec![number])
            }
        }
    };
    let parts = Parts::new(learnt, Told::Made(new.clone()));
    let request = hold.add_request(Request::new(Kind::Parts(parts), Some(comm.clone())))?;
    Ok((new, request))
}

/// Claims a context for so many holders each: all of them, or none.
fn claim_all<const N: usize>(hold: &Hold, holders: [u32; N]) -> [u16; N] {
    let numbers = holders.map(|holders| hold.claim_context(holders).unwrap_or(NONE));
    if !numbers.contains(&NONE) {
        return numbers;
    }
    for (number, holders) in numbers.into_iter().zip(holders) {
        (0..holders).for_each(|_| drop(hold.adopt_context(number)));
    }
    [NONE; N]
}

/// Sends the numbers, one a message, to the ranks of `comm.peers()` from `first` up. Which of these messages have to be waited for:
/// none while few contexts are in use.
fn announce(hold: &mut Hold, comm: &Rc<Comm>, first: u32, tag: i32, numbers: &[u16]) -> Result<Vec<RequestKey>> {
    let few = numbers.iter().all(|&number| u32::from(number) < REUSED);
    let mut awaited = Vec::new();
    for peer in first..comm.peers().size() {
        for number in numbers {
            let mut bytes = number.to_ne_bytes();
            let buffer = Buffer::kept(&Buffer::bytes(bytes.as_mut_ptr(), bytes.len()));
            let mut send = |mode| pt2pt::isend(hold, comm, Plane::Collective, buffer.clone(), peer, tag, mode);
            match few {
                // There may be no room for more synchronous messages.
                false if let Ok(sent) = send(Mode::Synchronous) => awaited.push(sent),
                _ => {
                    let sent = send(Mode::Standard)?;
                    request::free(hold, sent)?;
                }
            }
        }
    }
    Ok(awaited)
}

/// Receives the number of `context`, which belongs to `new`, from rank 0 of `comm.peers()`. The
/// request keeps `new` alive, since the message goes into it.
fn learn(hold: &mut Hold, new: &Rc<Comm>, comm: &Rc<Comm>, tag: i32, context: &Context) -> Result<RequestKey> {
    let room = Buffer::bytes(context.cell().as_ptr().cast(), 2);
    let key = pt2pt::irecv(hold, comm, Plane::Collective, room, 0, tag)?;
    if let Some(request) = hold.requests.get_mut(key) {
        request.comm = Some(new.clone());
    }
    Ok(key)
}
