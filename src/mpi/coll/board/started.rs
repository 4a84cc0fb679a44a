//! Short nonblocking operations by boards: each shows at once, or as soon as its slot is free, what it has, and takes
//! what it needs when the others have shown theirs; nobody waits in between.
//!
//! They have boards and turns of their own, because programs may start an operation before or after a blocking one as
//! they like. What is too long for a slot lies in a room of the slot's own: scratch memory that an operation under way held
//! could keep a blocking one of another communicator from ending, for which the first waits. Operations show in order, so
//! that none takes the slot of an earlier one, and may end in any; `done` tells up to which turn all are over.

use super::moves::keep;
use super::reductions::{Elements, block};
use super::{Boards, STRAY, Turn, of_started, refuse_stray};

use crate::fail;
use crate::mpi::coll::args::{Data, Root};
use crate::mpi::coll::call::{self, Task};
use crate::mpi::coll::next_started_tag;
use crate::mpi::coll::signature::Signature;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::error::Result;
use crate::mpi::request::{Kind, Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::Hold;
use crate::shm::board::{EACH, SLOTS};
use crate::shm::sync::Ordering;
use crate::shm::waiting::Item;
use std::ops::Range;
use std::rc::Rc;

/// An operation under way.
pub struct Started {
    comm: Rc<Comm>,
    boards: Rc<Boards>,
    task: Task,
    number: u64,
    tag: i32,
    shown: bool,
    /// Ranks that have not been seen yet, and are waited for.
    awaited: Range<u32>,
    looks: u32,
    request: Option<RequestKey>,
}

/// What `task` says of itself if it goes by boards; all members decide alike.
pub fn signature(hold: &Hold, comm: &Comm, task: &Task) -> Option<Signature> {
    let boards = of_started(hold, comm)?;
    call::short_signature(task, comm.size() as usize, EACH.min(boards.table.near))
}

/// Starts `task`, of which [`signature`] is known, and returns its request.
///
/// # Errors
/// `Other`: a member is in another call. `ProcFailed`, `Revoked`. `NoMem`: too many requests.
pub fn start(hold: &mut Hold, comm: &Rc<Comm>, task: Task, signature: Signature) -> Result<RequestKey> {
    let Some(boards) = of_started(hold, comm) else {
        fail!(Intern, "a communicator without boards");
    };
    hold.check_peer(comm, Plane::Collective, None)?;
    let number = boards.before + comm.context.take_started_turn() + 1;
    let mut started = Started {
        awaited: awaited(&task, comm),
        comm: comm.clone(),
        boards: boards.clone(),
        task,
        number,
        tag: signature.tag(next_started_tag(comm)),
        shown: false,
        looks: 0,
        request: None,
    };
    let over = started.step(hold).inspect_err(|_| started.end(hold))?;
    let key = hold.make_request(|| Request {
        done: over.then_some(Status::EMPTY),
        ..Request::new(Kind::Collective, Some(comm.clone()))
    })?;
    if !over {
        started.request = Some(key);
        hold.desk.started.push(started);
    }
    Ok(key)
}

/// Takes every operation under way as far as it gets; whether one moved.
#[inline(never)]
pub fn look(hold: &mut Hold) -> bool {
    let mut list = std::mem::take(&mut hold.desk.started);
    let mut moved = false;
    list.retain_mut(|started| {
        let was_shown = started.shown;
        let outcome = started.step(hold).and_then(|over| match over {
            true => Ok(true),
            false => started.check(hold).map(|()| false),
        });
        moved |= started.shown != was_shown;
        let error = match outcome {
            Ok(false) => return true,
            Ok(true) => None,
            Err(error) => {
                started.end(hold);
                Some(error)
            }
        };
        moved = true;
        if let Some(key) = started.request {
            hold.complete(key, Status::EMPTY, error);
        }
        false
    });
    list.append(&mut hold.desk.started);
    hold.desk.started = list;
    moved
}

/// The ranks that this one waits for in `task`; it may be among them.
fn awaited(task: &Task, comm: &Comm) -> Range<u32> {
    let (me, all) = (comm.rank, 0..comm.size());
    match task {
        Task::Bcast(Root::Rank(root), _) | Task::Scatter(Root::Rank(root), ..) if *root == me => 0..0,
        Task::Bcast(Root::Rank(root), _) | Task::Scatter(Root::Rank(root), ..) => *root..root + 1,
        Task::Reduce(Root::Rank(root), _) | Task::Gather(Root::Rank(root), ..) if *root != me => 0..0,
        Task::Scan(..) => 0..me,
        _ => all,
    }
}

impl Started {
    /// Goes on as far as it gets without waiting; whether it is over.
    fn step(&mut self, hold: &mut Hold) -> Result<bool> {
        if !self.shown {
            if self.boards.next.get() != self.number || !self.boards.has_room(self.number) {
                return Ok(false);
            }
            self.shown = true;
            self.boards.next.set(self.number + 1);
            self.show(hold)?;
        }
        while let Some(rank) = self.awaited.clone().next() {
            let slot = self.boards.members[rank as usize].board.slot(self.number);
            if rank != self.comm.rank && slot.turn().load(Ordering::Acquire) < self.number {
                return Ok(false);
            }
            self.awaited.start += 1;
        }
        self.take(hold)?;
        self.end(hold);
        Ok(true)
    }

    /// Whether there is still hope, after a step in vain.
    fn check(&mut self, hold: &Hold) -> Result<()> {
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(STRAY) {
            refuse_stray(hold, self.comm.context_on(Plane::Collective), self.tag)?;
        }
        hold.check_peer(&self.comm, Plane::Collective, None)
    }

    fn turn(&self) -> Turn<'_> {
        Turn {
            comm: &self.comm,
            boards: &self.boards,
            number: self.number,
            tag: self.tag,
            swap: None,
        }
    }

    /// Nothing of the turn is read here any more.
    fn end(&self, hold: &Hold) {
        if self.boards.next.get() == self.number {
            // It failed before it could show something.
            self.boards.next.set(self.number + 1);
        }
        self.boards.end_started(self.number);
        self.turn().ring(hold);
    }

    /// Shows what this rank has for others, if it has something, and keeps what it has for itself.
    fn show(&self, hold: &mut Hold) -> Result<()> {
        let (turn, me) = (self.turn(), self.comm.rank);
        match &self.task {
            Task::Bcast(Root::Rank(root), data) if *root == me => turn.show(hold, &data.buffer()),
            Task::Gather(_, send, Some(recv), _) => {
                // Nobody reads it, but ranks that take another for the root are told so.
                turn.show_with(hold, 0, |_| ())?;
                keep(send.as_ref().map(Data::buffer).as_ref(), Some(&recv.buffer(me)));
                Ok(())
            }
            Task::Gather(_, Some(send), None, _) => turn.show(hold, &send.buffer()),
            Task::Scatter(Root::Rank(root), Some(send), recv, _) if *root == me => {
                let len = send.block().unwrap_or(0);
                turn.show_blocks(hold, len, send)?;
                keep(Some(&send.buffer(me)), recv.as_ref().map(Data::buffer).as_ref());
                Ok(())
            }
            Task::Allgather(send, recv) => {
                let (mine, send) = (recv.buffer(me), send.as_ref().map(Data::buffer));
                turn.show(hold, send.as_ref().unwrap_or(&mine))?;
                keep(send.as_ref(), Some(&mine));
                Ok(())
            }
            Task::Alltoall(send, recv) => {
                let len = recv.block().unwrap_or(0);
                turn.show_blocks(hold, len, send.as_ref().unwrap_or(recv))?;
                keep(
                    send.as_ref().map(|send| send.buffer(me)).as_ref(),
                    Some(&recv.buffer(me)),
                );
                Ok(())
            }
            Task::Allreduce(reduction) | Task::Scan(reduction, _) | Task::Reduce(_, reduction) => {
                match Elements::of(reduction) {
                    Some(elements) => turn.show(hold, &elements.operand()),
                    None => Ok(()),
                }
            }
            Task::ReduceScatter(reduction, counts) => match Elements::of(reduction) {
                Some(elements) => elements.show_to_others(hold, &turn, block(counts, me)),
                None => Ok(()),
            },
            Task::Barrier(_) => turn.show_with(hold, 0, |_| ()),
            _ => Ok(()),
        }
    }

    /// Takes what the others have shown, all of them whom this rank waits for.
    fn take(&self, hold: &mut Hold) -> Result<()> {
        let (turn, me, size) = (self.turn(), self.comm.rank, self.comm.size());
        let others = || (0..size).filter(|&rank| rank != me);
        match &self.task {
            Task::Barrier(_) => others().try_for_each(|rank| turn.see(hold, rank, Some(0)).map(drop)),
            Task::Bcast(Root::Rank(root), data) if *root != me => {
                turn.see(hold, *root, Some(data.len()))?.copy(0, &data.buffer())?;
                turn.count(hold, *root, data.len());
                Ok(())
            }
            Task::Gather(_, _, Some(recv), _) | Task::Allgather(_, recv) => others().try_for_each(|rank| {
                let room = recv.buffer(rank);
                turn.see(hold, rank, Some(room.len()))?.copy(0, &room)?;
                turn.count(hold, rank, room.len());
                Ok(())
            }),
            Task::Scatter(Root::Rank(root), _, Some(recv), _) if *root != me => {
                let len = recv.len();
                turn.see_part(hold, *root, len)?.copy(0, &recv.buffer())?;
                turn.count(hold, *root, len);
                Ok(())
            }
            Task::Alltoall(_, recv) => {
                let len = recv.block().unwrap_or(0);
                others().try_for_each(|rank| {
                    turn.see_part(hold, rank, len)?.copy(0, &recv.buffer(rank))?;
                    turn.count(hold, rank, len);
                    Ok(())
                })
            }
            Task::Allreduce(reduction) => reduce_up_to(hold, &turn, Elements::of(reduction), Some(size - 1)),
            Task::Reduce(Root::Rank(root), reduction) => {
                let last = (*root == me).then_some(size - 1);
                reduce_up_to(hold, &turn, Elements::of(reduction), last)
            }
            Task::Scan(reduction, exclusive) => {
                let last = me.checked_sub((*exclusive).into());
                reduce_up_to(hold, &turn, Elements::of(reduction), last)
            }
            Task::ReduceScatter(reduction, counts) => match Elements::of(reduction) {
                Some(elements) => {
                    let (mine, recv) = (block(counts, me), elements.recv);
                    elements.reduce(hold, &turn, size - 1, mine, recv, |rank| block(counts, rank))
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// What it waits for, for the launcher, and its request.
    pub fn item(&self) -> (Option<RequestKey>, Item) {
        let mut missing = self.awaited.clone().filter(|&rank| rank != self.comm.rank);
        let place = missing.next();
        let item = Item {
            is_send: false,
            peer: place.map(|rank| self.boards.members[rank as usize].world),
            place,
            tag: Some(self.tag),
            context: self.comm.context_on(Plane::Collective),
            len: 0,
        };
        (self.request, item)
    }
}

fn reduce_up_to(hold: &mut Hold, turn: &Turn, elements: Option<Elements>, last: Option<u32>) -> Result<()> {
    match (elements, last) {
        (Some(elements), Some(last)) => elements.reduce_whole(hold, turn, last),
        _ => Ok(()),
    }
}

impl Boards {
    /// Whether the slot of turn `number` may be overwritten: everybody is through with what it shows, this rank too, which
    /// reads its own operand there where that is in place.
    fn has_room(&self, number: u64) -> bool {
        let shown = self.shown[number as usize % SLOTS].get();
        shown <= self.over.get() && (shown <= self.through() || shown <= self.look_through())
    }

    /// This rank is through with turn `number`; says up to which turn it is through with all.
    fn end_started(&self, number: u64) {
        let mut over = self.over.get() + 1;
        let mut early = self.early.borrow_mut();
        if number != over {
            early.push(number);
            return;
        }
        while let Some(next) = early.iter().position(|&turn| turn == over + 1) {
            early.swap_remove(next);
            over += 1;
        }
        self.over.set(over);
        self.members[self.me].board.finish(over);
    }
}
