//! The short ways of nonblocking operations, for bytes that lie in rows and take one turn of the boards: what this rank shows is shown before
//! anything else is made, and where all that it waits for has come, or it waits for nothing, the operation is over at once. Else it goes on as
//! [`started`](super::started) does. What others see is the same, so each rank may go either way.

use super::reductions::Elements;
use super::rows::{self, Rows};
use super::started::go_on_behind;
use super::{Boards, Turn};
use crate::mpi::coll::args::{Reduction, reduction_signature};
use crate::mpi::coll::call::{Task, bcast_signature};
use crate::mpi::coll::next_started_tag;
use crate::mpi::coll::short::{Members, Way, members, own, rooted};
use crate::mpi::coll::signature::{Call, Signature};
use crate::mpi::comm::Comm;
use crate::mpi::error::Result;
use crate::mpi::request::{Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::Hold;
use std::ops::Range;
use std::rc::Rc;

/// Bytes that are shown at most: what is longer may go another way.
const MOST: usize = 2 << 10;

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
        let most = MOST.min(hold.engine.channel.settings().board_started as usize);
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

/// The only member has `rows` of `len` bytes for itself.
#[inline(always)]
fn alone(hold: &mut Hold, rows: Rows, len: usize) -> Option<Result<Begun>> {
    rows::alone(rows, len);
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
    fn bcast(hold: &mut Hold, comm: &Rc<Comm>, root: u32, (row, len): (*mut u8, usize)) -> Option<Result<Begun>> {
        let Members::Boards(boards) = members_up_to(hold, comm, Some(len))? else {
            return Some(done(hold));
        };
        let operation = Operation {
            comm,
            boards,
            signature: bcast_signature(root, len),
            shown: if comm.rank == root { len } else { 0 },
            awaits: Awaits::from_root(comm, root),
        };
        begin(
            hold,
            operation,
            |hold, turn| rows::put(hold, turn, row, len),
            |hold, turn| rows::take(hold, turn, root, row, len),
        )
    }

    #[inline]
    fn gather(hold: &mut Hold, comm: &Rc<Comm>, root: u32, rows: Rows, len: usize) -> Option<Result<Begun>> {
        let Members::Boards(boards) = members_up_to(hold, comm, Some(len))? else {
            return alone(hold, rows, len);
        };
        // Nobody reads what the root shows, but ranks that take another for the root are told so.
        let shown = if comm.rank == root { 0 } else { len };
        let operation = Operation {
            comm,
            boards,
            signature: rooted(Call::Gather, root),
            shown,
            awaits: Awaits::for_root(comm, root),
        };
        begin(
            hold,
            operation,
            |hold, turn| {
                if comm.rank == root {
                    rows::keep_among(rows, root, len);
                }
                rows::put(hold, turn, rows.0, shown)
            },
            |hold, turn| rows::take_others(hold, turn, rows.1, len),
        )
    }

    #[inline]
    fn scatter(hold: &mut Hold, comm: &Rc<Comm>, root: u32, rows: Rows, len: usize) -> Option<Result<Begun>> {
        let all = len.checked_mul(comm.size() as usize);
        let Members::Boards(boards) = members_up_to(hold, comm, all)? else {
            return alone(hold, rows, len);
        };
        let operation = Operation {
            comm,
            boards,
            signature: rooted(Call::Scatter, root),
            shown: if comm.rank == root { all? - len } else { 0 },
            awaits: Awaits::from_root(comm, root),
        };
        begin(
            hold,
            operation,
            |hold, turn| rows::put_others(hold, turn, rows.0, len, rows.1),
            |hold, turn| rows::take_part(hold, turn, root, rows.1, len),
        )
    }

    #[inline]
    fn allgather(hold: &mut Hold, comm: &Rc<Comm>, rows: Rows, len: usize) -> Option<Result<Begun>> {
        let Members::Boards(boards) = members_up_to(hold, comm, Some(len))? else {
            return alone(hold, rows, len);
        };
        if len > boards.table.allgather.shown {
            return None;
        }
        let operation = Operation {
            comm,
            boards,
            signature: Signature::of(Call::Allgather),
            shown: len,
            awaits: Awaits::All,
        };
        begin(
            hold,
            operation,
            |hold, turn| {
                rows::put(hold, turn, rows.0, len)?;
                rows::keep_among(rows, comm.rank, len);
                Ok(())
            },
            |hold, turn| rows::take_others(hold, turn, rows.1, len),
        )
    }

    #[inline]
    fn alltoall(hold: &mut Hold, comm: &Rc<Comm>, rows: Rows, len: usize) -> Option<Result<Begun>> {
        let all = len.checked_mul(comm.size() as usize);
        let Members::Boards(boards) = members_up_to(hold, comm, all)? else {
            return alone(hold, rows, len);
        };
        if len > boards.table.alltoall.shown {
            return None;
        }
        let operation = Operation {
            comm,
            boards,
            signature: Signature::of(Call::Alltoall),
            shown: all? - len,
            awaits: Awaits::All,
        };
        let own = rows::block(rows.1, comm.rank, len);
        begin(
            hold,
            operation,
            |hold, turn| rows::put_others(hold, turn, rows.0, len, own),
            |hold, turn| rows::take_parts(hold, turn, rows.1, len),
        )
    }

    #[inline]
    fn allreduce(hold: &mut Hold, comm: &Rc<Comm>, reduction: &Reduction) -> Option<Result<Begun>> {
        let signature = reduction_signature(Call::Allreduce, reduction);
        reduced(
            hold,
            comm,
            (signature, Awaits::All),
            reduction,
            |hold, turn, elements| elements.reduce_all(hold, turn),
        )
    }

    #[inline]
    fn reduce(hold: &mut Hold, comm: &Rc<Comm>, root: u32, reduction: &Reduction) -> Option<Result<Begun>> {
        let signature = reduction_signature(Call::Reduce, reduction).with(root.into());
        let awaits = Awaits::for_root(comm, root);
        reduced(hold, comm, (signature, awaits), reduction, |hold, turn, elements| {
            elements.reduce_whole(hold, turn, turn.size() - 1)
        })
    }

    #[inline]
    fn scan(hold: &mut Hold, comm: &Rc<Comm>, reduction: &Reduction) -> Option<Result<Begun>> {
        // The first one has its own operand to take.
        let signature = reduction_signature(Call::Scan, reduction);
        let awaits = Awaits::Ranks(0..comm.rank + 1);
        reduced(hold, comm, (signature, awaits), reduction, |hold, turn, elements| {
            elements.reduce_whole(hold, turn, comm.rank)
        })
    }
}

/// Begins a reduction whose elements `take` reduces.
#[inline(always)]
fn reduced(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    (signature, awaits): (Signature, Awaits),
    reduction: &Reduction,
    take: impl FnOnce(&mut Hold, &Turn, &Elements) -> Result<()>,
) -> Option<Result<Begun>> {
    let elements = Elements::of(reduction)?;
    let len = elements.size();
    let Members::Boards(boards) = members_up_to(hold, comm, Some(len))? else {
        let (rows, len) = own(reduction, &elements);
        return alone(hold, rows, len);
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
