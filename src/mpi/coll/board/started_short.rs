//! The short ways of nonblocking operations, for bytes that lie in rows and take one turn of the boards: what this rank shows is shown before
//! anything else is made, and where all that it waits for has come, or it waits for nothing, the operation is over at once. Else it goes on as
//! [`started`](super::started) does. What others see is the same, so each rank may go either way.

use super::cut::ONE_WAY;
use super::reductions::{Elements, Part};
use super::rows::{self, Row, Rows};
use super::started::go_on_behind;
use super::{Boards, Turn};
use crate::mpi::coll::args::Reduction;
use crate::mpi::coll::call::{Task, bcast_signature};
use crate::mpi::coll::next_started_tag;
use crate::mpi::coll::short::{Members, Way, agreed, exchanged, members, named, own, rooted};
use crate::mpi::coll::signature::{Call, Signature};
use crate::mpi::comm::Comm;
use crate::mpi::error::Result;
use crate::mpi::request::{Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::Hold;
use std::ops::Range;
use std::rc::Rc;

/// An operation that has begun.
pub enum Begun {
    /// It is over, and this is its request.
    Over(RequestKey),
    /// What this rank shows is shown, and it has to wait.
    Shown(Shown),
}

impl Begun {
    /// Its request. The `task` is made only where it is needed to go on.
    ///
    /// # Errors
    /// What there is instead of the task. `NoMem`: too many requests.
    #[inline]
    pub fn request(
        self,
        hold: &mut Hold,
        comm: &Rc<Comm>,
        task: impl FnOnce(&mut Hold, &Rc<Comm>) -> Result<Task>,
    ) -> Result<RequestKey> {
        match self {
            Begun::Over(key) => Ok(key),
            Begun::Shown(shown) => {
                let task = task(hold, comm);
                go_on_behind(hold, comm, shown, task)
            }
        }
    }
}

/// A turn in which this rank has shown what it has.
#[must_use]
pub struct Shown {
    pub(super) boards: Rc<Boards>,
    /// Its number.
    pub(super) number: u64,
    /// What the operation says of itself.
    pub(super) tag: i32,
}

/// What is known of an operation before its turn.
struct Operation<'a> {
    comm: &'a Rc<Comm>,
    boards: &'a Rc<Boards>,
    signature: Signature,
    /// Bytes that this rank shows.
    shown: usize,
    awaits: Awaits,
}

/// Whom this rank waits for.
enum Awaits {
    /// Nobody: it takes nothing.
    None,
    /// The root alone, to which it shows nothing.
    Root(u32),
    /// These; it may be among them.
    Ranks(Range<u32>),
    /// All, who wait for it, too.
    All,
}

impl Awaits {
    /// In an operation in which a root shows.
    fn from_root(comm: &Comm, root: u32) -> Awaits {
        if comm.rank == root {
            Awaits::None
        } else {
            Awaits::Root(root)
        }
    }

    /// In one in which all show for a root.
    fn for_root(comm: &Comm, root: u32) -> Awaits {
        if comm.rank == root {
            Awaits::Ranks(0..comm.size())
        } else {
            Awaits::None
        }
    }
}

/// Who takes part in an operation on `comm` of which a rank shows up to `shown` bytes; `None`: it is not short.
#[inline(always)]
fn members_up_to<'a>(hold: &Hold, comm: &'a Comm, shown: Option<usize>) -> Option<Members<'a>> {
    let members = members(hold, comm, &comm.started_boards)?;
    if let Members::Boards(boards) = members {
        // What is longer may go another way.
        let most = ONE_WAY.min(hold.engine.channel.settings().board_started as usize);
        if shown? > most.min(boards.cut.0) {
            return None;
        }
    }
    Some(members)
}

/// A request that is over.
#[inline(always)]
fn done(hold: &mut Hold) -> Result<Begun> {
    hold.make_request(|| Request::over(Status::EMPTY)).map(Begun::Over)
}

/// The only member has its `own` row for itself.
#[inline(always)]
fn alone(hold: &mut Hold, (own, to): (Row, *mut u8)) -> Option<Result<Begun>> {
    rows::keep(own, to);
    Some(done(hold))
}

/// Begins: `put` shows, and `take` takes what others show, in so far as this rank does. `None`: it would have to wait for its slot.
#[inline(always)]
fn begin(
    hold: &mut Hold,
    operation: Operation,
    put: impl FnOnce(&mut Hold, &Turn) -> Result<()>,
    take: impl FnOnce(&mut Hold, &Turn) -> Result<()>,
) -> Option<Result<Begun>> {
    let Operation {
        comm,
        boards,
        signature,
        shown,
        awaits,
    } = operation;
    let number = boards.before + comm.context.started_turns() + 1;
    let areas = boards.areas.as_ref().filter(|_| matches!(awaits, Awaits::All));
    let room = areas.filter(|areas| areas.has(shown)).map_or(shown, |_| 0);
    if boards.next.get() != number || !boards.has_room(number, room) {
        return None;
    }
    comm.context.take_started_turns(1);
    boards.next.set(number + 1);
    let turn = Turn {
        comm,
        boards,
        number,
        tag: signature.tag(next_started_tag(comm)),
        swap: None,
        passes: areas.is_some(),
    };
    let outcome = match awaits {
        Awaits::Root(_) => Ok(()),
        _ => put(hold, &turn),
    };
    let (root, awaited) = match awaits {
        Awaits::None => (None, 0..0),
        Awaits::Root(root) => (Some(root as usize), root..root + 1),
        Awaits::Ranks(ranks) => (None, ranks),
        Awaits::All => (None, 0..comm.size()),
    };
    let takes = !awaited.is_empty();
    // Who waits for nobody is through with the turn, and says both at once.
    if takes && root.is_none() {
        turn.ring(hold);
    }
    let mut others = awaited.filter(|&rank| rank != comm.rank);
    let waits = outcome.is_ok() && others.any(|rank| !boards.has_come(rank, number));
    if let Some(Some(boards)) = comm.boards.get() {
        boards.has_started(hold, root.map(|root| (root, waits)));
    }
    if waits {
        return Some(Ok(Begun::Shown(Shown {
            boards: boards.clone(),
            number,
            tag: turn.tag,
        })));
    }
    let outcome = match outcome {
        Ok(()) if takes => take(hold, &turn),
        other => other,
    };
    if areas.is_some() && outcome.is_ok() {
        boards.bring_areas(number);
    }
    boards.end_started(number);
    turn.ring(hold);
    Some(outcome.and_then(|()| done(hold)))
}

/// Nonblocking operations.
pub struct Nonblocking;

impl Way for Nonblocking {
    type Outcome = Begun;

    #[inline]
    fn idle(hold: &mut Hold, comm: &Rc<Comm>) -> Option<Result<Begun>> {
        members_up_to(hold, comm, Some(0)).is_some().then(|| done(hold))
    }

    #[inline]
    fn barrier(hold: &mut Hold, comm: &Rc<Comm>) -> Option<Result<Begun>> {
        let Members::Boards(boards) = members_up_to(hold, comm, Some(0))? else {
            return Some(done(hold));
        };
        let operation = Operation {
            comm,
            boards,
            signature: Signature::of(Call::Barrier),
            shown: 0,
            awaits: Awaits::Ranks(0..comm.size()),
        };
        begin(
            hold,
            operation,
            |hold, turn| turn.put(hold, 0, false, |_| ()),
            |hold, turn| {
                comm.others()
                    .try_for_each(|rank| turn.see(hold, rank, Some(0)).map(drop))
            },
        )
    }

    #[inline]
    fn bcast(hold: &mut Hold, comm: &Rc<Comm>, root: u32, row: Row) -> Option<Result<Begun>> {
        let Members::Boards(boards) = members_up_to(hold, comm, Some(row.1))? else {
            return Some(done(hold));
        };
        let operation = Operation {
            comm,
            boards,
            signature: bcast_signature(root, row.1),
            shown: if comm.rank == root { row.1 } else { 0 },
            awaits: Awaits::from_root(comm, root),
        };
        begin(
            hold,
            operation,
            |hold, turn| rows::put(hold, turn, row),
            |hold, turn| rows::take(hold, turn, root, row),
        )
    }

    #[inline]
    fn gather(hold: &mut Hold, comm: &Rc<Comm>, root: u32, own: Row, to: Option<impl Rows>) -> Option<Result<Begun>> {
        let Members::Boards(boards) = members_up_to(hold, comm, agreed(comm, own, to))? else {
            return alone(hold, (own, to?.of(root).0));
        };
        // Nobody reads what the root shows, but ranks that take another for the root are told so.
        let shown = if to.is_some() { (own.0, 0) } else { own };
        let operation = Operation {
            comm,
            boards,
            signature: rooted(Call::Gather, root),
            shown: shown.1,
            awaits: Awaits::for_root(comm, root),
        };
        begin(
            hold,
            operation,
            |hold, turn| {
                if let Some(to) = to {
                    rows::keep(own, to.of(root).0);
                }
                rows::put(hold, turn, shown)
            },
            |hold, turn| to.map_or(Ok(()), |to| rows::take_others(hold, turn, to)),
        )
    }

    #[inline]
    fn scatter(
        hold: &mut Hold,
        comm: &Rc<Comm>,
        root: u32,
        from: Option<impl Rows>,
        own: Row,
    ) -> Option<Result<Begun>> {
        let all = agreed(comm, own, from).and_then(|len| len.checked_mul(comm.size() as usize));
        let Members::Boards(boards) = members_up_to(hold, comm, all)? else {
            return alone(hold, (from?.of(root), own.0));
        };
        let operation = Operation {
            comm,
            boards,
            signature: rooted(Call::Scatter, root),
            shown: from.map_or(0, |from| from.len_but(root, comm.size())),
            awaits: Awaits::from_root(comm, root),
        };
        begin(
            hold,
            operation,
            |hold, turn| from.map_or(Ok(()), |from| rows::put_others(hold, turn, from, own.0)),
            |hold, turn| rows::take_part(hold, turn, root, own),
        )
    }

    #[inline]
    fn allgather(hold: &mut Hold, comm: &Rc<Comm>, own: Row, to: impl Rows) -> Option<Result<Begun>> {
        let (longest, mine) = (to.longest(comm.size()), to.of(comm.rank).0);
        let Members::Boards(boards) = members_up_to(hold, comm, Some(longest))? else {
            return alone(hold, (own, mine));
        };
        if longest > boards.table.allgather.shown {
            return None;
        }
        let operation = Operation {
            comm,
            boards,
            signature: Signature::of(Call::Allgather),
            shown: own.1,
            awaits: Awaits::All,
        };
        begin(
            hold,
            operation,
            |hold, turn| {
                rows::put(hold, turn, own)?;
                rows::keep(own, mine);
                Ok(())
            },
            |hold, turn| rows::take_others(hold, turn, to),
        )
    }

    #[inline]
    fn alltoall<R: Rows>(hold: &mut Hold, comm: &Rc<Comm>, from: Option<R>, to: R) -> Option<Result<Begun>> {
        let from = from.unwrap_or(to);
        let (me, size) = (comm.rank, comm.size());
        let len = exchanged(comm, from, to);
        let all = len.and_then(|len| len.checked_mul(size as usize));
        let Members::Boards(boards) = members_up_to(hold, comm, all)? else {
            return alone(hold, (from.of(me), to.of(me).0));
        };
        if len? > boards.table.alltoall.shown {
            return None;
        }
        let operation = Operation {
            comm,
            boards,
            signature: Signature::of(Call::Alltoall),
            shown: from.len_but(me, size),
            awaits: Awaits::All,
        };
        begin(
            hold,
            operation,
            |hold, turn| rows::put_others(hold, turn, from, to.of(me).0),
            |hold, turn| rows::take_parts(hold, turn, to),
        )
    }

    #[inline]
    fn allreduce(hold: &mut Hold, comm: &Rc<Comm>, reduction: &Reduction) -> Option<Result<Begun>> {
        let what = (named(Call::Allreduce, reduction), Awaits::All);
        reduced(hold, comm, what, reduction, |hold, turn, elements| {
            elements.reduce_all(hold, turn)
        })
    }

    #[inline]
    fn reduce(hold: &mut Hold, comm: &Rc<Comm>, root: u32, reduction: &Reduction) -> Option<Result<Begun>> {
        let (call, signature) = named(Call::Reduce, reduction);
        let what = ((call, signature.with(root.into())), Awaits::for_root(comm, root));
        reduced(hold, comm, what, reduction, |hold, turn, elements| {
            elements.reduce_whole(hold, turn, turn.size() - 1)
        })
    }

    #[inline]
    fn reduce_scatter(
        hold: &mut Hold,
        comm: &Rc<Comm>,
        reduction: &Reduction,
        block: impl Fn(u32) -> Part,
    ) -> Option<Result<Begun>> {
        let (call, signature) = named(Call::ReduceScatter, reduction);
        let elements = Elements::of(reduction)?;
        let Members::Boards(boards) = members_up_to(hold, comm, Some(elements.size()))? else {
            return alone(hold, own(call, reduction, &elements));
        };
        let mine = block(comm.rank);
        let operation = Operation {
            comm,
            boards,
            signature,
            shown: elements.size(),
            awaits: Awaits::All,
        };
        begin(
            hold,
            operation,
            |hold, turn| elements.show_to_others(hold, turn, mine),
            |hold, turn| elements.reduce_together(hold, turn, mine, elements.recv, block),
        )
    }

    #[inline]
    fn scan(hold: &mut Hold, comm: &Rc<Comm>, reduction: &Reduction, exclusive: bool) -> Option<Result<Begun>> {
        let (call, above) = if exclusive { (Call::Exscan, 0) } else { (Call::Scan, 1) };
        // The first one has its own operand to take, or nothing.
        let awaits = match comm.rank + above {
            0 => Awaits::None,
            up_to => Awaits::Ranks(0..up_to),
        };
        let what = (named(call, reduction), awaits);
        reduced(hold, comm, what, reduction, |hold, turn, elements| {
            elements.reduce_whole(hold, turn, comm.rank + above - 1)
        })
    }
}

/// Begins a reduction whose elements `take` reduces.
#[inline(always)]
fn reduced(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    ((call, signature), awaits): ((Call, Signature), Awaits),
    reduction: &Reduction,
    take: impl FnOnce(&mut Hold, &Turn, &Elements) -> Result<()>,
) -> Option<Result<Begun>> {
    let elements = Elements::of(reduction)?;
    let len = elements.size();
    let Members::Boards(boards) = members_up_to(hold, comm, Some(len))? else {
        return alone(hold, own(call, reduction, &elements));
    };
    // Of longer ones each rank reduces its share.
    if matches!(awaits, Awaits::All) && len >= boards.table.share {
        return None;
    }
    let operation = Operation {
        comm,
        boards,
        signature,
        shown: len,
        awaits,
    };
    let operand = elements.operand();
    begin(
        hold,
        operation,
        |hold, turn| turn.put_buffer(hold, &operand),
        |hold, turn| take(hold, turn, &elements),
    )
}
