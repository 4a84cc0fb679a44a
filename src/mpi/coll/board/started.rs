//! # Safety
//! Copies between what is shown and buffers of the program, which it leaves alone until the operation is over; a piece is cut to
//! the bytes that both have.
//!
//! Nonblocking operations by boards: each shows at once, or as soon as its slot is free and there is room, what it has, and takes
//! what it needs when the others have shown theirs; nobody waits in between. Long ones go in pieces, a turn each.
//!
//! They have boards and turns of their own, because programs may start an operation before or after a blocking one as
//! they like. What is too long for a slot lies in a [`Room`](super::desk::Room) of the communicator's own. Operations show in
//! order, so that none takes the slot of an earlier one, and may end in any; `done` tells up to which turn all are over.
#![allow(unsafe_code)]

use super::cut::{Cut, longest};
use super::kept::Short;
use super::moves::keep;
use super::reductions::{Elements, block};
use super::started_short::Shown;
use super::stray::{STRAY, refuse_stray};
use super::{Boards, Turn};

use crate::mpi::buffer::Buffer;
use crate::mpi::coll::args::{Data, Root};
use crate::mpi::coll::call::{self, Task};
use crate::mpi::coll::schedule::share;
use crate::mpi::coll::signature::Signature;
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::context::Context;
use crate::mpi::error::Result;
use crate::mpi::request::{Kind, Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::Hold;
use crate::shm::board::{INLINE, SLOTS};
use crate::shm::sync::Ordering;
use crate::shm::waiting::Item;
use std::ops::{Deref, Range};
use std::rc::Rc;

/// Bytes up to which what is shown may go to a new place before it is known who reads the last one.
const LOOKED: usize = 2 << 10;

/// What is done, once or whenever it is started.
pub struct Plan {
    /// Whose operation.
    pub comm: Rc<Comm>,
    pub(super) boards: Rc<Boards>,
    pub(super) task: Task,
    cut: Cut,
    pub(super) tag: i32,
    /// Of a persistent operation, which has turns of its own.
    pub(super) context: Option<Box<Context>>,
    /// The short way of a persistent one that has one.
    pub(super) short: Option<Short>,
}

/// What an operation under way does: a nonblocking one once, a persistent one whenever it is started.
#[allow(clippy::large_enum_variant)]
pub(super) enum Held {
    Own(Plan),
    Kept(Rc<Plan>),
}

impl Deref for Held {
    type Target = Plan;
    #[inline]
    fn deref(&self) -> &Plan {
        match self {
            Held::Own(plan) => plan,
            Held::Kept(plan) => plan,
        }
    }
}

/// How far an operation under way has come.
pub(super) struct Started {
    /// Its first turn.
    number: u64,
    /// Turns in which this rank has shown what it has.
    shown: u64,
    /// Turns that are over.
    over: u64,
    /// Ranks that have not been seen yet in the turn, and are waited for.
    awaited: Range<u32>,
    looks: u32,
    request: Option<RequestKey>,
}

/// What `task` says of itself if it goes by `boards`; all members decide alike.
#[inline(always)]
pub fn signature(hold: &Hold, comm: &Comm, boards: &Boards, task: &Task) -> Option<Signature> {
    let (near, in_pieces) = boards.cut;
    let size = boards.members.len();
    let (shown, signature) = call::shown(hold, comm, task)?;
    let most = longest(hold.engine.channel.settings(), &boards.table, task, size);
    let fits = shown <= most && (in_pieces || shown <= near);
    fits.then(|| call::in_pieces(signature, shown, near))
}

/// An operation under way.
pub struct Open {
    plan: Held,
    started: Started,
}

/// Starts what is planned and returns its request.
///
/// # Errors
/// `Other`: a member is in another call. `ProcFailed`, `Revoked`. `NoMem`: too many requests.
pub fn start(hold: &mut Hold, plan: Plan) -> Result<RequestKey> {
    let started = begin(hold, &plan)?;
    let key = request(hold, &plan, started.is_none())?;
    if let Some(started) = started {
        go_on(hold, key, started, Held::Own(plan));
    }
    Ok(key)
}

/// Makes `task`, of which this rank has `shown` what it has, and which has to wait; returns its request.
///
/// # Errors
/// What there is instead of the task: then nobody waits for this rank. `NoMem`: too many requests.
#[inline(never)]
pub(super) fn go_on_behind(hold: &mut Hold, comm: &Rc<Comm>, shown: Shown, task: Result<Task>) -> Result<RequestKey> {
    let boards = shown.boards.clone();
    let plan = task.map(|task| Held::Own(Plan::new((comm, &boards), task, shown.tag, None)));
    wait_behind(hold, shown, plan)
}

/// What has been `shown` goes on as `plan` says; returns its request.
pub(super) fn wait_behind(hold: &mut Hold, shown: Shown, plan: Result<Held>) -> Result<RequestKey> {
    let Shown { boards, number, .. } = shown;
    let key = plan.and_then(|plan| {
        let key = request(hold, &plan, false)?;
        let started = Started {
            number,
            shown: 1,
            over: 0,
            awaited: awaited(&plan.task, &plan.comm),
            looks: 0,
            request: None,
        };
        go_on(hold, key, started, plan);
        Ok(key)
    });
    key.inspect_err(|_| {
        boards.end_started(number);
        boards.ring(hold);
    })
}

/// How far what has begun has come, if it is not over. Nothing is moved before something is shown.
#[inline(always)]
pub(super) fn begin(hold: &mut Hold, plan: &Plan) -> Result<Option<Started>> {
    let comm = &plan.comm;
    hold.check_peer(comm, Plane::Collective, None)?;
    let context = plan.context.as_deref().unwrap_or(&comm.context);
    let mut started = Started {
        number: plan.boards.before + context.take_started_turns(plan.cut.turns) + 1,
        awaited: awaited(&plan.task, comm),
        shown: 0,
        over: 0,
        looks: 0,
        request: None,
    };
    let over = started.step(plan, hold).inspect_err(|_| started.give_up(plan, hold))?;
    if let Some(Some(boards)) = comm.boards.get() {
        let waits = !over && plan.context.is_none();
        boards.has_started(hold, root_for(&plan.task, comm).map(|root| (root as usize, waits)));
    }
    Ok((!over).then_some(started))
}

/// The request of what has begun.
#[inline(always)]
pub(super) fn request(hold: &mut Hold, plan: &Plan, over: bool) -> Result<RequestKey> {
    hold.make_request(|| Request {
        done: over.then_some(Status::EMPTY),
        ..Request::new(Kind::Collective, Some(plan.comm.clone()))
    })
}

/// From now on it is taken as far as it gets whenever there is progress.
pub(super) fn go_on(hold: &mut Hold, key: RequestKey, started: Started, plan: Held) {
    let request = Some(key);
    let started = Started { request, ..started };
    hold.desk.started.push(Open { plan, started });
}

/// Takes every operation under way as far as it gets; whether one moved.
#[inline(never)]
pub fn look(hold: &mut Hold) -> bool {
    let mut list = std::mem::take(&mut hold.desk.started);
    let mut moved = false;
    list.retain_mut(|Open { plan, started }| {
        let before = (started.shown, started.over);
        let outcome = started.step(plan, hold).and_then(|over| match over {
            true => Ok(true),
            false => started.check(plan, hold).map(|()| false),
        });
        moved |= (started.shown, started.over) != before;
        let error = match outcome {
            Ok(false) => return true,
            Ok(true) => None,
            Err(error) => {
                started.give_up(plan, hold);
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

/// The short way of a wait for the operation `key`, or of a test if it `waits` not: looks at the boards that the operation waits for alone,
/// as a blocking one does first, and takes it further, turn by turn. Whether anything moved.
#[inline(never)]
pub fn look_out(hold: &mut Hold, key: RequestKey, waits: bool) -> bool {
    let mut moved = false;
    loop {
        let mut list = hold.desk.started.iter_mut();
        let Some(Open { plan, started }) = list.find(|open| open.started.request == Some(key)) else {
            return moved;
        };
        // What is not shown yet waits for room, which the long way looks for.
        let mut looks = match (started.over < started.shown, waits) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) => plan.boards.glances(),
        };
        while looks > 0 && !started.has_come(plan) {
            std::hint::spin_loop();
            looks -= 1;
        }
        if looks == 0 || !look(hold) {
            return moved;
        }
        if !waits {
            // Who tests again and again gives way now and then, by what its tests have found.
            hold.engine.vain.found();
        }
        moved = true;
    }
}

/// The root of `task` that this rank waits for and gives nothing.
fn root_for(task: &Task, comm: &Comm) -> Option<u32> {
    match task {
        Task::Bcast(Root::Rank(root), _) | Task::Scatter(Root::Rank(root), ..) => {
            Some(*root).filter(|&root| root != comm.rank)
        }
        _ => None,
    }
}

/// The ranks that this one waits for in `task`; it may be among them.
fn awaited(task: &Task, comm: &Comm) -> Range<u32> {
    let (me, all) = (comm.rank, 0..comm.size());
    if let Some(root) = root_for(task, comm) {
        return root..root + 1;
    }
    match task {
        Task::Bcast(..) | Task::Scatter(..) => 0..0,
        Task::Reduce(Root::Rank(root), _) | Task::Gather(Root::Rank(root), ..) if *root != me => 0..0,
        Task::Scan(..) => 0..me,
        _ => all,
    }
}

impl Plan {
    /// `task` on `boards`, under a tag of its own; [`signature`] is what it says of itself. A persistent operation has a
    /// `context`.
    #[inline(always)]
    pub fn new((comm, boards): (&Rc<Comm>, &Rc<Boards>), task: Task, tag: i32, context: Option<Box<Context>>) -> Plan {
        let cut = Cut::of(&task, comm, boards.cut.0, boards.table.share);
        let may_be_short = context.is_some() && cut.turns == 1;
        Plan {
            cut,
            comm: comm.clone(),
            boards: boards.clone(),
            short: may_be_short.then(|| Short::of(&task, comm)).flatten(),
            task,
            tag,
            context,
        }
    }
}

impl Started {
    /// Goes on as far as it gets without waiting; whether it is over. Mostly it has to wait, so the rest are calls: inlined, they have
    /// the compiler load the whole plan each time.
    fn step(&mut self, plan: &Plan, hold: &mut Hold) -> Result<bool> {
        loop {
            while self.may_show(plan) {
                let number = self.number + self.shown;
                plan.boards.next.set(number + 1);
                self.shown += 1;
                self.show(plan, hold, self.shown - 1)?;
            }
            if self.over == plan.cut.turns {
                return Ok(true);
            }
            if self.over == self.shown || !self.has_come(plan) {
                return Ok(false);
            }
            self.take(plan, hold)?;
            if plan.cut.passes {
                plan.boards.bring_areas(self.number + self.over);
            }
            self.end(plan, hold);
            self.over += 1;
            self.awaited = awaited(&plan.task, &plan.comm);
        }
    }

    /// Whether this rank shows in the next turn now.
    fn may_show(&self, plan: &Plan) -> bool {
        let Cut { turns, room, .. } = plan.cut;
        let areas = plan.boards.areas.as_ref().filter(|_| plan.cut.passes);
        let room = areas.filter(|areas| areas.has(room)).map_or(room, |_| 0);
        let number = self.number + self.shown;
        let ready = !plan.cut.is_second(self.shown) || self.over == self.shown;
        self.shown < turns && ready && plan.boards.next.get() == number && plan.boards.has_room(number, room)
    }

    /// Whether all have shown whom this rank waits for in the turn.
    fn has_come(&mut self, plan: &Plan) -> bool {
        let number = self.number + self.over;
        while let Some(rank) = self.awaited.clone().next() {
            if rank != plan.comm.rank && !plan.boards.has_come(rank, number) {
                return false;
            }
            self.awaited.start += 1;
        }
        true
    }

    /// Whether there is still hope, after a step in vain.
    fn check(&mut self, plan: &Plan, hold: &Hold) -> Result<()> {
        self.looks = self.looks.wrapping_add(1);
        if self.looks.is_multiple_of(STRAY) {
            refuse_stray(hold, plan.comm.context_on(Plane::Collective), plan.tag)?;
        }
        hold.check_peer(&plan.comm, Plane::Collective, None)
    }

    /// The operation's turn number `turn`.
    fn turn<'a>(&self, plan: &'a Plan, turn: u64) -> Turn<'a> {
        Turn {
            comm: &plan.comm,
            boards: &plan.boards,
            number: self.number + turn,
            tag: plan.tag,
            swap: None,
            passes: plan.cut.passes && plan.boards.areas.is_some(),
        }
    }

    /// Nothing of the turn is read here any more.
    fn end(&self, plan: &Plan, hold: &Hold) {
        plan.boards.end_started(self.number + self.over);
        self.turn(plan, self.over).ring(hold);
    }

    /// Ends all turns that are left, after an error: nobody shall wait for them.
    #[cold]
    fn give_up(&mut self, plan: &Plan, hold: &Hold) {
        let turns = self.number..self.number + plan.cut.turns;
        if turns.contains(&plan.boards.next.get()) {
            plan.boards.next.set(turns.end);
        }
        while self.over < plan.cut.turns {
            self.end(plan, hold);
            self.over += 1;
        }
    }

    /// Shows what this rank has for others in a turn, if it has something, and keeps what it has for itself.
    #[inline(never)]
    fn show(&self, plan: &Plan, hold: &mut Hold, number: u64) -> Result<()> {
        let (turn, me) = (self.turn(plan, number), plan.comm.rank);
        let (first, len) = plan.cut.piece(number);
        let show = |hold: &mut Hold, buffer: &Buffer, len: usize| {
            turn.show_with(hold, len, |sheet| {
                // SAFETY: the sheet has as many bytes as the piece of the buffer, which the program owns.
                unsafe { sheet.pack(0, buffer, first, len) };
            })
        };
        match &plan.task {
            Task::Bcast(Root::Rank(root), data) if *root == me => show(hold, &data.buffer(), len),
            Task::Gather(_, send, Some(recv), _) => {
                // Nobody reads it, but ranks that take another for the root are told so.
                turn.show_with(hold, 0, |_| ())?;
                if first == 0 {
                    keep(send.as_ref().map(Data::buffer).as_ref(), Some(&recv.buffer(me)));
                }
                Ok(())
            }
            Task::Gather(_, Some(send), None, _) => show(hold, &send.buffer(), len),
            Task::Scatter(Root::Rank(root), Some(send), recv, _) if *root == me => {
                turn.show_parts(hold, (first, len), |rank| send.buffer(rank))?;
                if first == 0 {
                    keep(Some(&send.buffer(me)), recv.as_ref().map(Data::buffer).as_ref());
                }
                Ok(())
            }
            Task::Allgather(send, recv) => {
                let (mine, send) = (recv.buffer(me), send.as_ref().map(Data::buffer));
                let len = len.min(mine.len().saturating_sub(first));
                show(hold, send.as_ref().unwrap_or(&mine), len)?;
                if first == 0 {
                    keep(send.as_ref(), Some(&mine));
                }
                Ok(())
            }
            Task::Alltoall(send, recv) => {
                let blocks = send.as_ref().unwrap_or(recv);
                // Of two ranks they may be of different lengths.
                let part = match plan.comm.size() {
                    2 => len.min(blocks.buffer(1 - me).len().saturating_sub(first)),
                    _ => len,
                };
                turn.show_parts(hold, (first, part), |rank| blocks.buffer(rank))?;
                if first == 0 {
                    let mine = send.as_ref().map(|send| send.buffer(me));
                    keep(mine.as_ref(), Some(&recv.buffer(me)));
                }
                Ok(())
            }
            Task::Allreduce(reduction) | Task::Scan(reduction, _) | Task::Reduce(_, reduction) => {
                let Some(elements) = Elements::of(reduction).map(|all| all.piece((first, len))) else {
                    return Ok(());
                };
                let (share_first, share) = share(len, plan.comm.size(), me);
                match plan.cut.shared {
                    true if plan.cut.is_second(number) => turn.show(hold, &elements.result(share_first, share)),
                    true => elements.show_to_others(hold, &turn, (share_first, share)),
                    false => turn.show(hold, &elements.operand()),
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

    /// Takes what the others have shown in the turn, all of them whom this rank waits for.
    #[inline(never)]
    fn take(&self, plan: &Plan, hold: &mut Hold) -> Result<()> {
        let (turn, me, size) = (self.turn(plan, self.over), plan.comm.rank, plan.comm.size());
        let others = || (0..size).filter(|&rank| rank != me);
        let (first, len) = plan.cut.piece(self.over);
        let piece = |reduction| Elements::of(reduction).map(|all| all.piece((first, len)));
        // A piece of `room` from what `rank` shows: of its bytes for each of the others where it has `parts`.
        let take = |hold: &mut Hold, rank: u32, parts: bool, room: &Buffer, len: usize| {
            let view = match parts {
                true => turn.see_part(hold, rank, len)?,
                false => turn.see(hold, rank, Some(len))?,
            };
            // SAFETY: the view has `len` bytes; the program owns the buffer, which has room for the piece.
            unsafe { room.unpack_from_peer(hold.engine.channel.ahead, first, view.data, len) };
            turn.count(hold, rank, len);
            Ok(())
        };
        match &plan.task {
            Task::Barrier(_) => others().try_for_each(|rank| turn.see(hold, rank, Some(0)).map(drop)),
            Task::Bcast(Root::Rank(root), data) if *root != me => take(hold, *root, false, &data.buffer(), len),
            Task::Gather(_, _, Some(recv), _) | Task::Allgather(_, recv) => others().try_for_each(|rank| {
                let room = recv.buffer(rank);
                let len = len.min(room.len().saturating_sub(first));
                take(hold, rank, false, &room, len)
            }),
            Task::Scatter(Root::Rank(root), _, Some(recv), _) if *root != me => {
                take(hold, *root, true, &recv.buffer(), len)
            }
            Task::Alltoall(_, recv) => others().try_for_each(|rank| {
                let room = recv.buffer(rank);
                let len = len.min(room.len().saturating_sub(first));
                take(hold, rank, true, &room, len)
            }),
            Task::Allreduce(reduction) if plan.cut.is_second(self.over) => {
                let Some(elements) = piece(reduction) else {
                    return Ok(());
                };
                others().try_for_each(|rank| {
                    let (first, count) = share(len, size, rank);
                    let room = elements.result(first, count);
                    turn.see(hold, rank, Some(room.len()))?.copy(hold, 0, &room)?;
                    turn.count(hold, rank, room.len());
                    Ok(())
                })
            }
            Task::Allreduce(reduction) if plan.cut.shared => {
                let Some(elements) = piece(reduction) else {
                    return Ok(());
                };
                let part = |rank| share(len, size, rank);
                let (first, mine) = part(me);
                let to = elements.result(first, mine).address;
                elements.reduce_together(hold, &turn, (first, mine), to, part)
            }
            Task::Allreduce(reduction) => piece(reduction).map_or(Ok(()), |elements| elements.reduce_all(hold, &turn)),
            Task::Reduce(Root::Rank(root), reduction) => {
                let last = (*root == me).then_some(size - 1);
                reduce_up_to(hold, &turn, piece(reduction), last)
            }
            Task::Scan(reduction, exclusive) => {
                let last = me.checked_sub((*exclusive).into());
                reduce_up_to(hold, &turn, piece(reduction), last)
            }
            Task::ReduceScatter(reduction, counts) => match Elements::of(reduction) {
                Some(elements) => {
                    let (mine, recv) = (block(counts, me), elements.recv);
                    elements.reduce_together(hold, &turn, mine, recv, |rank| block(counts, rank))
                }
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

impl Open {
    /// What it waits for, for the launcher, and its request.
    pub fn item(&self) -> (Option<RequestKey>, Item) {
        let Open { plan, started } = self;
        let mut missing = started.awaited.clone().filter(|&rank| rank != plan.comm.rank);
        let place = missing.next();
        let item = Item {
            peer: place.map(|rank| plan.boards.members[rank as usize].world),
            place,
            tag: Some(plan.tag),
            context: plan.comm.context_on(Plane::Collective),
            ..Item::default()
        };
        (started.request, item)
    }
}

fn reduce_up_to(hold: &mut Hold, turn: &Turn, elements: Option<Elements>, last: Option<u32>) -> Result<()> {
    match (elements, last) {
        (Some(elements), Some(last)) => elements.reduce_whole(hold, turn, last),
        _ => Ok(()),
    }
}

impl Boards {
    /// Whether `rank` has shown in turn `number`.
    #[inline]
    pub(super) fn has_come(&self, rank: u32, number: u64) -> bool {
        let slot = self.members[rank as usize].board.slot(number);
        slot.turn().load(Ordering::Acquire) >= number
    }

    /// Whether the slot of turn `number` may be overwritten, and there is room for `len` bytes: everybody is through with what was
    /// there, this rank too, which reads its own operand there where that is in place.
    pub(super) fn has_room(&self, number: u64, len: usize) -> bool {
        let shown = self.shown[number as usize % SLOTS].get();
        let fits = |through: u64| {
            let over = self.over.get().min(through);
            let room = self.room.as_ref().filter(|_| len > INLINE);
            shown <= over && room.is_none_or(|room| room.borrow_mut().has(len, over))
        };
        // Data that go where those before lay are in fewer pages, and nearer in the cache.
        (len <= LOOKED && fits(self.through())) || {
            self.look_through();
            // Not without the dead: who starts operations and never waits would not notice.
            fits(self.through())
        }
    }

    /// This rank is through with turn `number`; says up to which turn it is through with all.
    pub(super) fn end_started(&self, number: u64) {
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
