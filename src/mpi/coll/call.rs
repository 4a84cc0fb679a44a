//! A collective operation that was asked for, with checked arguments: by boards where that is quickest,
//! else as a schedule.

use super::args::{Blocks, Data, Places, Reduction, Root, blocks_of, reduction_signature};
use super::board::doubling::{self, DOUBLED};
use super::board::handed;
use super::board::reductions::{self, Elements, Part};
use super::board::started::{self, Plan};
use super::board::{self, Boards, Where, kept, long, long_reductions, moves, shares};
use super::choice::Case;
use super::machine::{self, Operation};
use super::neighbor::{self, Neighbors, Outgoing};
use super::signature::{Call, Signature};
use super::{alone, next_started_tag, persistent_tag, plan, presented};
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::error::Result;
use crate::mpi::pt2pt::types;
use crate::mpi::request::{Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::Hold;
use crate::sys::selection::Operation as What;
use std::rc::Rc;

/// What a collective call is to do.
pub enum Task {
    /// `MPI_Barrier`, or the part of another call that is one.
    Barrier(Call),
    /// `MPI_Bcast`.
    Bcast(Root, Data),
    /// `MPI_Reduce`.
    Reduce(Root, Reduction),
    /// `MPI_Allreduce`.
    Allreduce(Reduction),
    /// `MPI_Gather`, or `MPI_Gatherv` where the last is false: arguments of [`plan::gather`].
    Gather(Root, Option<Data>, Option<Blocks>, bool),
    /// `MPI_Scatter`, or `MPI_Scatterv` where the last is false: arguments of [`plan::scatter`].
    Scatter(Root, Option<Blocks>, Option<Data>, bool),
    /// `MPI_Allgather` and `MPI_Allgatherv`: arguments of [`plan::allgather`].
    Allgather(Option<Data>, Blocks),
    /// `MPI_Alltoall` and its kin: arguments of [`plan::alltoall`].
    Alltoall(Option<Blocks>, Blocks),
    /// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`, with the elements of each rank's block.
    ReduceScatter(Reduction, Vec<usize>),
    /// `MPI_Scan`, or `MPI_Exscan` where the last is true.
    Scan(Reduction, bool),
    /// `MPI_Neighbor_allgather` and its kin: arguments of [`plan::neighbor`].
    Neighbor(Rc<Neighbors>, Outgoing, Blocks),
}

impl Task {
    /// What it says of itself, so that ranks in different calls learn of it; `None` for what goes as a schedule alone.
    #[inline]
    fn signature(&self, hold: &Hold) -> Option<Signature> {
        let rooted = |call, root: u32| Signature::of(call).with(root.into());
        let signature = match self {
            Task::Barrier(call) => Signature::of(*call),
            Task::Bcast(Root::Rank(root), data) => bcast_signature(*root, data.len()),
            Task::Reduce(Root::Rank(root), reduction) => {
                reduction_signature(Call::Reduce, reduction).with((*root).into())
            }
            Task::Allreduce(reduction) => reduction_signature(Call::Allreduce, reduction),
            Task::ReduceScatter(reduction, _) => reduction_signature(Call::ReduceScatter, reduction),
            Task::Scan(reduction, false) => reduction_signature(Call::Scan, reduction),
            Task::Scan(reduction, true) => reduction_signature(Call::Exscan, reduction),
            Task::Gather(Root::Rank(root), ..) => rooted(Call::Gather, *root),
            Task::Scatter(Root::Rank(root), ..) => rooted(Call::Scatter, *root),
            Task::Allgather(..) => Signature::of(Call::Allgather),
            Task::Alltoall(..) => Signature::of(Call::Alltoall),
            _ => return None,
        };
        Some(match hold.is_checking() {
            true => signature.with(self.types()),
            false => signature,
        })
    }

    /// A hash of the types in a block of it, where all members of an intracommunicator name the same; 0 where they need not.
    #[cold]
    fn types(&self) -> u64 {
        let of_data = |data: &Data| types::hash(&data.element.datatype, data.count);
        let of_block = |own: Option<&Data>, blocks: Option<&Blocks>| match (own, blocks.map(|blocks| &blocks.places)) {
            (Some(data), _) => of_data(data),
            (None, Some(Places::Regular { count, element })) => types::hash(&element.datatype, *count),
            _ => 0,
        };
        match self {
            Task::Bcast(_, data) => of_data(data),
            Task::Gather(_, send, recv, true) => of_block(send.as_ref(), recv.as_ref()),
            Task::Scatter(_, send, recv, true) => of_block(recv.as_ref(), send.as_ref()),
            Task::Allgather(_, recv) | Task::Alltoall(_, recv) => of_block(None, Some(recv)),
            _ => 0,
        }
    }

    /// Whether it moves nothing, as all members know: then nobody waits for anybody. Ranks that are checked do, and so learn of
    /// those in another call; groups of an intercommunicator need not know each other's lengths. Blocking reductions notice it themselves.
    #[inline(never)] // out of the way of reductions
    fn is_idle(&self, hold: &Hold, comm: &Comm) -> bool {
        let no_data = |data: &Option<Data>| data.as_ref().is_none_or(Data::is_empty);
        let no_blocks = |blocks: &Option<Blocks>| blocks.as_ref().is_none_or(|blocks| blocks.block() == Some(0));
        let is_empty = match self {
            Task::Bcast(_, data) => data.is_empty(),
            Task::Gather(_, send, recv, true) => no_data(send) && no_blocks(recv),
            Task::Scatter(_, send, recv, true) => no_blocks(send) && no_data(recv),
            Task::Allgather(send, recv) => no_data(send) && recv.largest() == 0,
            Task::Alltoall(send, recv) => no_blocks(send) && recv.block() == Some(0),
            Task::Allreduce(reduction)
            | Task::Reduce(_, reduction)
            | Task::ReduceScatter(reduction, _)
            | Task::Scan(reduction, _) => reduction.count == 0,
            _ => false,
        };
        is_empty && !hold.is_checking() && !comm.is_inter()
    }

    /// The schedule that does it.
    pub fn plan(self, hold: &Hold, comm: &Rc<Comm>) -> Operation {
        let case = Case::of(hold, comm);
        let types = (hold.is_checking() && !comm.is_inter()).then(|| self.types());
        let mut operation = match self {
            Task::Barrier(call) => plan::barrier(case, comm, call),
            Task::Bcast(root, data) => plan::bcast(case, comm, root, &data),
            Task::Reduce(root, reduction) => plan::reduce(case, comm, root, &reduction),
            Task::Allreduce(reduction) => plan::allreduce(case, comm, &reduction),
            Task::Gather(root, send, recv, true) => plan::gather_regular(case, comm, root, send.as_ref(), recv),
            Task::Gather(root, send, recv, false) => plan::gather(comm, root, send.as_ref(), recv),
            Task::Scatter(root, send, recv, true) => plan::scatter_regular(case, comm, root, send, recv.as_ref()),
            Task::Scatter(root, send, recv, false) => plan::scatter(comm, root, send, recv.as_ref()),
            Task::Allgather(send, recv) => plan::allgather(case, comm, send.as_ref(), recv),
            Task::Alltoall(send, recv) => plan::alltoall(case, comm, send, recv),
            Task::ReduceScatter(reduction, counts) => plan::reduce_scatter(comm, &reduction, &counts),
            Task::Scan(reduction, exclusive) => plan::scan(comm, &reduction, exclusive),
            Task::Neighbor(neighbors, send, recv) => plan::neighbor(comm, &neighbors, send, recv),
        };
        if let Some(types) = types {
            operation.signature = operation.signature.with(types);
        }
        operation
    }
}

/// Does `task` and returns when this rank's part is over.
///
/// # Errors
/// As [`machine::run`].
pub fn perform(hold: &mut Hold, comm: &Rc<Comm>, task: Task) -> Result<()> {
    if let Some(outcome) = alone(hold, comm, &task) {
        return outcome;
    }
    if let Some(boards) = board::of(hold, comm) {
        hold.check_peer(comm, Plane::Collective, None)?;
        if let Some(outcome) = on_boards(hold, comm, boards, &task) {
            let outcome = outcome.and_then(|()| boards.take_back(hold, comm));
            return outcome.inspect_err(|_| boards.give_up(hold, comm));
        }
    }
    if let Task::Neighbor(neighbors, send, recv) = &task {
        return neighbor::perform(hold, comm, neighbors, send, recv);
    }
    let operation = task.plan(hold, comm);
    machine::run(hold, operation)
}

/// Does `task` if this rank is the only member of `comm`; `None` if there are others, or for one that goes as a schedule.
#[inline]
fn alone(hold: &Hold, comm: &Comm, task: &Task) -> Option<Result<()>> {
    if comm.size() > 1 || comm.is_inter() {
        return None;
    }
    match hold.check_peer(comm, Plane::Collective, None) {
        Ok(()) => alone::perform(task),
        Err(error) => Some(Err(error)),
    }
}

/// Starts `task` and returns its request.
///
/// # Errors
/// As [`machine::start`]; `Other`: a member is in another call.
pub fn begin(hold: &mut Hold, comm: &Rc<Comm>, task: Task) -> Result<RequestKey> {
    if task.is_idle(hold, comm) {
        hold.check_peer(comm, Plane::Collective, None)?;
        return hold.add_request(Request::over(Status::EMPTY));
    }
    if let Some(outcome) = alone(hold, comm, &task) {
        outcome?;
        return hold.add_request(Request::over(Status::EMPTY));
    }
    if let Some(boards) = board::of_started(hold, comm)
        && let Some(signature) = started::signature(hold, comm, boards, &task)
    {
        let tag = signature.tag(next_started_tag(comm));
        let plan = Plan::new((comm, boards), task, tag, None);
        return started::start(hold, plan);
    }
    let operation = task.plan(hold, comm);
    machine::start(hold, Rc::new(operation), next_started_tag(comm))
}

/// A persistent operation, ready to be started any number of times.
#[derive(Clone)]
pub enum Kept {
    /// By boards of its own.
    Boards(Rc<Plan>),
    /// As a schedule, with this tag.
    Schedule(Rc<Operation>, i32),
}

/// Makes `task` a persistent operation. Collective.
///
/// # Errors
/// As [`perform`].
pub fn keep(hold: &mut Hold, comm: &Rc<Comm>, task: Task) -> Result<Kept> {
    let tag = persistent_tag(comm);
    Ok(match kept::claim(hold, comm, &task)? {
        Some((boards, context, signature)) => {
            let (tag, context) = (signature.tag(tag), Some(Box::new(context)));
            Kept::Boards(Rc::new(Plan::new((comm, &boards), task, tag, context)))
        }
        None => Kept::Schedule(Rc::new(task.plan(hold, comm)), tag),
    })
}

impl Kept {
    /// Starts it and returns its request, unless it is over. Members may start several persistent operations in different orders.
    ///
    /// # Errors
    /// As [`begin`].
    pub fn start(self, hold: &mut Hold) -> Result<Option<RequestKey>> {
        match self {
            Kept::Boards(plan) => kept::start(hold, &plan),
            Kept::Schedule(operation, tag) => machine::start(hold, operation, tag).map(Some),
        }
    }

    /// Its communicator.
    pub fn comm(&self) -> &Rc<Comm> {
        match self {
            Kept::Boards(plan) => &plan.comm,
            Kept::Schedule(operation, _) => &operation.comm,
        }
    }
}

/// Bytes that a rank shows at most in a task on `comm`, and what the task says of itself; `None` for one that cannot go by
/// boards without waiting, or that shows nothing. All members decide alike.
#[inline(always)]
pub fn shown(hold: &Hold, comm: &Comm, task: &Task) -> Option<(usize, Signature)> {
    let size = comm.size() as usize;
    let shown = match task {
        Task::Barrier(_) => 0,
        Task::Bcast(_, data) => data.len(),
        Task::Allreduce(reduction)
        | Task::Reduce(_, reduction)
        | Task::ReduceScatter(reduction, _)
        | Task::Scan(reduction, _) => Some(Elements::of(reduction)?.size()).filter(|&len| len > 0)?,
        Task::Gather(..) => known_block(comm, task)?,
        Task::Scatter(..) | Task::Alltoall(..) => known_block(comm, task)?.saturating_mul(size),
        Task::Allgather(_, recv) => recv.largest(),
        _ => return None,
    };
    Some((shown, task.signature(hold)?))
}

/// What a broadcast says of itself.
#[inline]
pub(super) fn bcast_signature(root: u32, len: usize) -> Signature {
    Signature::of(Call::Bcast).with(root.into()).with(len as u64)
}

/// Does `task` by boards; `None` for one that goes as a schedule. All members decide alike.
#[inline]
fn on_boards(hold: &mut Hold, comm: &Rc<Comm>, boards: &Rc<Boards>, task: &Task) -> Option<Result<()>> {
    let table = &boards.table;
    let near = table.near;
    let size = comm.size() as usize;
    let signature = task.signature(hold)?;
    let at = |signature| Where::new(comm, boards, signature, near);
    match task {
        Task::Bcast(..) | Task::Gather(..) | Task::Scatter(..) | Task::Allgather(..) | Task::Alltoall(..)
            if task.is_idle(hold, comm) =>
        {
            Some(Ok(()))
        }
        Task::Barrier(_) => Some(moves::barrier(hold, at(signature))),
        Task::Bcast(Root::Rank(root), data) => {
            let buffer = data.buffer();
            match data.len() {
                len if len <= table.bcast.shown => Some(moves::bcast(hold, at(signature).passing(len), *root, &buffer)),
                len if table.bcast.sends(len) => None,
                len if len <= table.bcast.learnt => {
                    let at = at(signature).passing(len).once(What::Bcast, len);
                    Some(long::bcast_learnt(hold, at, *root, &buffer))
                }
                len => table.bcast.offers(len).then(|| {
                    let near = near.min(table.bcast.shown);
                    long::bcast(hold, Where { near, ..at(signature) }, *root, &buffer)
                }),
            }
        }
        Task::Allreduce(reduction) => allreduce(hold, at(signature), &Elements::awaited(reduction)?),
        Task::Reduce(Root::Rank(root), reduction) => reduce(hold, at(signature), *root, &Elements::awaited(reduction)?),
        Task::ReduceScatter(reduction, counts) => {
            let elements = Elements::awaited(reduction)?;
            reduce_scatter(hold, at(signature), &elements, |rank| reductions::block(counts, rank))
        }
        Task::Scan(reduction, exclusive) => scan(hold, at(signature), &Elements::awaited(reduction)?, *exclusive),
        Task::Gather(Root::Rank(root), send, recv, _) => {
            let buffer = send.as_ref().map(Data::buffer);
            let len = known_block(comm, task);
            match len {
                Some(len) if table.gather.sends(len) => None,
                Some(len) if len <= table.gather.shown.max(table.gather.learnt) => {
                    let at = at(in_pieces(signature, len, table.piece(len))).passing(len);
                    let (send, recv) = (buffer.as_ref(), recv.as_ref());
                    Some(match len > table.gather.shown && size == 2 {
                        true => long::gather_learnt(hold, at.once(What::Gather, len), *root, len, send, recv),
                        false => moves::gather(hold, at, len, send, recv),
                    })
                }
                _ => {
                    let (at, buffer) = (at(signature), buffer.as_ref());
                    let block = recv.as_ref().map(|recv| |rank| recv.buffer(rank));
                    presented::gather(hold, at, *root, len, buffer, blocks_of(&block))
                }
            }
        }
        Task::Scatter(Root::Rank(root), send, recv, _) => {
            let buffer = recv.as_ref().map(Data::buffer);
            let len = known_block(comm, task);
            let all = len.map(|len| len.saturating_mul(size - 1));
            match (len, all) {
                (Some(len), Some(all)) if all <= table.scatter.shown => {
                    let signature = in_pieces(signature, len.saturating_mul(size), near);
                    let (send, recv) = ((len, send.as_ref()), buffer.as_ref());
                    Some(moves::scatter(hold, at(signature), *root, send, recv))
                }
                _ => {
                    let (at, buffer) = (at(signature), buffer.as_ref());
                    let send = send.as_ref().filter(|_| comm.rank == *root);
                    let block = send.map(|send| |rank| send.buffer(rank));
                    presented::scatter(hold, at, *root, all, blocks_of(&block), buffer)
                }
            }
        }
        Task::Allgather(send, recv) => {
            let send = send.as_ref().map(Data::buffer);
            match recv.largest() {
                longest if longest <= table.allgather.shown => {
                    let near = table.wide;
                    let at = |signature| Where { near, ..at(signature) };
                    let signature = in_pieces(signature, longest, near);
                    let (send, room) = (send.as_ref(), |rank| recv.buffer(rank));
                    Some(moves::allgather(hold, at(signature), send, room, longest))
                }
                longest if table.allgather.sends(longest) => None,
                longest if longest <= table.allgather.learnt => {
                    let at = presented::learning(at(signature), What::Allgather, longest);
                    Some(long::allgather(hold, at, send.as_ref(), recv))
                }
                _ => (table.allgather.offers_any()).then(|| long::allgather(hold, at(signature), send.as_ref(), recv)),
            }
        }
        Task::Alltoall(send, recv) => {
            let len = recv.block();
            let all = known_block(comm, task).map(|len| len.saturating_mul(size - 1));
            match (len, all) {
                (_, Some(all)) if all <= table.alltoall.shown => {
                    let near = table.wide;
                    let at = |all| Where {
                        near,
                        ..at(in_pieces(signature, all, near))
                    };
                    let send = send.as_ref();
                    Some(match len {
                        Some(len) => moves::alltoall(hold, at(len.saturating_mul(size)), (len, send), recv),
                        None => moves::alltoallv_of_two(hold, at(all), all, send, recv),
                    })
                }
                _ => {
                    let recv = |rank| recv.buffer(rank);
                    let send = send.as_ref().map(|send| |rank| send.buffer(rank));
                    presented::alltoall(hold, at(signature), all, blocks_of(&send), &recv)
                }
            }
        }
        _ => None,
    }
}

/// `MPI_Allreduce` by boards; `None` where it goes as a schedule.
#[inline]
pub(super) fn allreduce(hold: &mut Hold, at: Where, elements: &Elements) -> Option<Result<()>> {
    let (table, size) = (&at.boards.table, at.comm.size() as usize);
    let (row, shown) = (&table.allreduce, elements.shown(&table.allreduce));
    match elements.size() {
        0 => Some(Ok(())),
        _ if elements.are_sent(row) => None,
        len if len > shown && len <= row.handed => Some(handed::reduce(hold, at.linked(), None, elements)),
        len if len > shown => row
            .offers(len)
            .then(|| match len > table.phased && elements.count >= size {
                true => long_reductions::allreduce(hold, at, table.wide, elements),
                false => long_reductions::reduce(hold, at, None, elements),
            }),
        len if (table.doubling..=DOUBLED).contains(&len) && !elements.call_the_program() => {
            Some(doubling::allreduce(hold, at, elements))
        }
        len if len > table.phased && elements.count >= size => Some(shares::allreduce(hold, at, table.wide, elements)),
        len if (size > 2 && len > at.near) || (len >= table.share && elements.count >= size) => {
            Some(shares::reduce(hold, at, None, elements))
        }
        _ => Some(reductions::allreduce(hold, at, elements)),
    }
}

/// `MPI_Reduce` by boards; `None` where it goes as a schedule.
#[inline]
pub(super) fn reduce(hold: &mut Hold, at: Where, root: u32, elements: &Elements) -> Option<Result<()>> {
    let (table, size) = (&at.boards.table, at.comm.size() as usize);
    let (row, shown) = (&table.reduce, elements.shown(&table.reduce));
    match elements.size() {
        0 => Some(Ok(())),
        _ if elements.are_sent(row) => None,
        len if len > shown.max(row.learnt) && len <= row.handed => {
            Some(handed::reduce(hold, at.linked(), Some(root), elements))
        }
        len if len > shown.max(row.learnt) => row
            .offers(len)
            .then(|| long_reductions::reduce(hold, at, Some(root), elements)),
        len if len > shown && size == 2 => {
            let at = at.passing(len).once(What::Reduce, len);
            Some(long_reductions::reduce_learnt(hold, at, root, elements))
        }
        len if len >= table.reduce_share && elements.count >= size => {
            Some(shares::reduce(hold, at, Some(root), elements))
        }
        len => Some(reductions::reduce(hold, at.passing(len), root, elements)),
    }
}

/// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block` by boards, each rank of its `block`; `None` where it goes as a schedule.
#[inline]
pub(super) fn reduce_scatter(
    hold: &mut Hold,
    at: Where,
    elements: &Elements,
    block: impl Fn(u32) -> Part,
) -> Option<Result<()>> {
    let row = &at.boards.table.reduce_scatter;
    match elements.size() {
        0 => Some(Ok(())),
        _ if elements.are_sent(row) => None,
        len if len > row.shown => row
            .offers(len)
            .then(|| long_reductions::reduce_scatter(hold, at, elements, block)),
        _ if at.comm.size() == 2 => Some(reductions::reduce_scatter_of_two(hold, at, elements, block)),
        _ => Some(shares::reduce_scatter(hold, at, elements, block)),
    }
}

/// `MPI_Scan`, or `MPI_Exscan` if `exclusive`, by boards; `None` where it goes as a schedule.
#[inline]
pub(super) fn scan(hold: &mut Hold, at: Where, elements: &Elements, exclusive: bool) -> Option<Result<()>> {
    let (table, size, rank) = (&at.boards.table, at.comm.size(), at.comm.rank);
    match elements.size() {
        0 => Some(Ok(())),
        _ if elements.are_sent(&table.scan) => None,
        // Scans give functions of the program whole vectors, as MPICH's do, whose tests ask for that.
        _ if elements.would_be_cut(at.near) => None,
        len if len > table.scan.shown.max(table.scan.learnt) => {
            (table.scan.offers(len)).then(|| long_reductions::scan(hold, at, elements, exclusive))
        }
        // All that rank 1 wants is what rank 0 has, which goes as broadcasts do.
        len if exclusive && size == 2 && table.scan.learnt > 0 && len > table.bcast.shown => {
            let at = at.passing(len).once(What::Scan, len);
            (len <= table.bcast.learnt).then(|| long::bcast_learnt(hold, at, 0, &elements.passed_up(rank)))
        }
        len if !exclusive && size == 2 && len > table.scan.shown => {
            let at = at.passing(len).once(What::Scan, len);
            Some(long_reductions::scan_learnt(hold, at, elements))
        }
        _ => Some(reductions::scan(hold, at, elements, exclusive)),
    }
}

/// What a call says of itself whose `len` bytes go in pieces of `near`: all agree on their number.
#[inline]
pub fn in_pieces(signature: Signature, len: usize, near: usize) -> Signature {
    match len > near {
        true => signature.with(len as u64),
        false => signature,
    }
}

/// Bytes of a rank's block in a regular gather or scatter. A root may gather less from itself than it has room for.
fn block(own: Option<&Data>, blocks: Option<&Blocks>) -> Option<usize> {
    blocks.and_then(Blocks::block).or_else(|| own.map(Data::len))
}

/// Bytes of a rank's block in a gather or scatter whose length all ranks know: of a regular one, and of the only block that goes
/// from one of two ranks to the other. `blocks` are the root's.
fn agreed_block(comm: &Comm, root: u32, regular: bool, own: Option<&Data>, blocks: Option<&Blocks>) -> Option<usize> {
    match blocks.filter(|_| comm.rank == root) {
        _ if regular => block(own, blocks),
        _ if comm.size() != 2 => None,
        Some(blocks) => Some(blocks.buffer(1 - root).len()),
        None => own.map(Data::len),
    }
}

/// Bytes of the longest block that `task` moves from one rank to another, if it is a gather, scatter or alltoall of which all ranks know them.
#[inline]
pub fn known_block(comm: &Comm, task: &Task) -> Option<usize> {
    match task {
        Task::Gather(Root::Rank(root), send, recv, regular) => {
            agreed_block(comm, *root, *regular, send.as_ref(), recv.as_ref())
        }
        Task::Scatter(Root::Rank(root), send, recv, regular) => {
            agreed_block(comm, *root, *regular, recv.as_ref(), send.as_ref())
        }
        Task::Alltoall(send, recv) => match recv.block() {
            None if comm.size() == 2 => Some(longer(comm, send.as_ref(), recv)),
            block => block,
        },
        _ => None,
    }
}

/// Bytes of the longer one of the blocks that two ranks have for each other.
fn longer(comm: &Comm, send: Option<&Blocks>, recv: &Blocks) -> usize {
    let len = |blocks: &Blocks| blocks.buffer(1 - comm.rank).len();
    len(send.unwrap_or(recv)).max(len(recv))
}
