//! The short ways of nonblocking and persistent operations, for bytes that lie in rows and take one turn of the boards: what this rank shows
//! is shown before anything else is made, and where all that it waits for has come, or it waits for nothing, the operation is over at once.
//! Else it goes on as [`started`](super::started) does. What others see is the same, so each rank may go either way.

use super::cut::ONE_WAY;
use super::reductions::{Elements, Part};
use super::rows::{self, Row, Rows};
use super::started::go_on_behind;
use super::{Boards, Turn};
use crate::mpi::coll::args::{Reduction, reduction_signature};
use crate::mpi::coll::call::{Task, bcast_signature};
use crate::mpi::coll::next_started_tag;
use crate::mpi::coll::short::{Members, Way, agreed, exchanged, members, own, rooted};
use crate::mpi::coll::signature::{Call, Signature};
use crate::mpi::comm::Comm;
use crate::mpi::context::Context;
use crate::mpi::error::Result;
use crate::mpi::request::{Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::Hold;
use std::ops::Range;
use std::rc::Rc;

/// An operation that has begun.
pub enum Begun {
    /// It is over.
    Over,
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
            Begun::Over => hold.make_request(|| Request::over(Status::EMPTY)),
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
struct Operation {
    signature: Signature,
    /// Bytes that this rank shows.
    shown: usize,
    awaits: Awaits,
}

/// Where an operation goes.
#[derive(Clone, Copy)]
pub(super) struct On<'a> {
    pub comm: &'a Rc<Comm>,
    pub boards: &'a Rc<Boards>,
    /// Of a persistent operation, which has turns and a tag of its own.
    pub kept: Option<(&'a Context, i32)>,
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

/// The boards for an operation on `comm` of which a rank shows up to `shown` bytes, or nothing: there is one member. `None`: it is not short.
#[inline(always)]
fn boards_for<'a>(hold: &Hold, comm: &'a Rc<Comm>, shown: Option<usize>) -> Option<Option<On<'a>>> {
    let Members::Boards(boards) = members(hold, comm, &comm.started_boards)? else {
        return Some(None);
    };
    // What is longer may go another way.
    let most = ONE_WAY.min(hold.engine.channel.settings().board_started as usize);
    let kept = None;
    (shown? <= most.min(boards.cut.0)).then_some(Some(On { comm, boards, kept }))
}

/// The only member has its `own` row for itself.
#[inline(always)]
fn alone((own, to): (Row, *mut u8)) -> Option<Result<Begun>> {
    rows::keep(own, to);
    Some(Ok(Begun::Over))
}

/// Each operation, of arguments as [`Way`] has them. `None`: it would have to wait for its slot.
impl On<'_> {
    pub fn barrier(self, hold: &mut Hold) -> Option<Result<Begun>> {
        let operation = Operation {
            signature: Signature::of(Call::Barrier),
            shown: 0,
            awaits: Awaits::Ranks(0..self.comm.size()),
        };
        self.begin(
            hold,
            operation,
            |hold, turn| turn.put(hold, 0, false, |_| ()),
            |hold, turn| {
                let mut others = self.comm.others();
                others.try_for_each(|rank| turn.see(hold, rank, Some(0)).map(drop))
            },
        )
    }

    #[inline(always)]
    pub fn bcast(self, hold: &mut Hold, root: u32, row: Row) -> Option<Result<Begun>> {
        let operation = Operation {
            signature: bcast_signature(root, row.1),
            shown: if self.comm.rank == root { row.1 } else { 0 },
            awaits: Awaits::from_root(self.comm, root),
        };
        self.begin(
            hold,
            operation,
            |hold, turn| rows::put(hold, turn, row),
            |hold, turn| rows::take(hold, turn, root, row),
        )
    }

    #[inline(always)]
    pub fn gather(self, hold: &mut Hold, root: u32, own: Row, to: Option<impl Rows>) -> Option<Result<Begun>> {
        // Nobody reads what the root shows, but ranks that take another for the root are told so.
        let shown = if to.is_some() { (own.0, 0) } else { own };
        let operation = Operation {
            signature: rooted(Call::Gather, root),
            shown: shown.1,
            awaits: Awaits::for_root(self.comm, root),
        };
        self.begin(
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

    #[inline(always)]
    pub fn scatter(self, hold: &mut Hold, root: u32, from: Option<impl Rows>, own: Row) -> Option<Result<Begun>> {
        let operation = Operation {
            signature: rooted(Call::Scatter, root),
            shown: from.map_or(0, |from| from.len_but(root, self.comm.size())),
            awaits: Awaits::from_root(self.comm, root),
        };
        self.begin(
            hold,
            operation,
            |hold, turn| from.map_or(Ok(()), |from| rows::put_others(hold, turn, from, own.0)),
            |hold, turn| rows::take_part(hold, turn, root, own),
        )
    }

    #[inline(always)]
    pub fn allgather(self, hold: &mut Hold, own: Row, to: impl Rows) -> Option<Result<Begun>> {
        let operation = Operation {
            signature: Signature::of(Call::Allgather),
            shown: own.1,
            awaits: Awaits::All,
        };
        self.begin(
            hold,
            operation,
            |hold, turn| {
                rows::put(hold, turn, own)?;
                rows::keep(own, to.of(self.comm.rank).0);
                Ok(())
            },
            |hold, turn| rows::take_others(hold, turn, to),
        )
    }

    #[inline(always)]
    pub fn alltoall<R: Rows>(self, hold: &mut Hold, from: R, to: R) -> Option<Result<Begun>> {
        let (me, size) = (self.comm.rank, self.comm.size());
        let operation = Operation {
            signature: Signature::of(Call::Alltoall),
            shown: from.len_but(me, size),
            awaits: Awaits::All,
        };
        self.begin(
            hold,
            operation,
            |hold, turn| rows::put_others(hold, turn, from, to.of(me).0),
            |hold, turn| rows::take_parts(hold, turn, to),
        )
    }

    #[inline(always)]
    pub fn allreduce(self, hold: &mut Hold, reduction: &Reduction, elements: &Elements) -> Option<Result<Begun>> {
        let what = (reduction_signature(Call::Allreduce, reduction), Awaits::All);
        self.reduced(hold, what, elements, |hold, turn| elements.reduce_all(hold, turn))
    }

    #[inline(always)]
    pub fn reduce(
        self,
        hold: &mut Hold,
        root: u32,
        reduction: &Reduction,
        elements: &Elements,
    ) -> Option<Result<Begun>> {
        let signature = reduction_signature(Call::Reduce, reduction).with(root.into());
        let what = (signature, Awaits::for_root(self.comm, root));
        self.reduced(hold, what, elements, |hold, turn| {
            elements.reduce_whole(hold, turn, turn.size() - 1)
        })
    }

    #[inline(always)]
    pub fn scan(
        self,
        hold: &mut Hold,
        reduction: &Reduction,
        elements: &Elements,
        exclusive: bool,
    ) -> Option<Result<Begun>> {
        let (call, above) = if exclusive { (Call::Exscan, 0) } else { (Call::Scan, 1) };
        // The first one has its own operand to take, or nothing.
        let awaits = match self.comm.rank + above {
            0 => Awaits::None,
            up_to => Awaits::Ranks(0..up_to),
        };
        let what = (reduction_signature(call, reduction), awaits);
        self.reduced(hold, what, elements, |hold, turn| {
            elements.reduce_whole(hold, turn, self.comm.rank + above - 1)
        })
    }

    /// A reduction whose elements `take` reduces.
    #[inline(always)]
    fn reduced(
        self,
        hold: &mut Hold,
        (signature, awaits): (Signature, Awaits),
        elements: &Elements,
        take: impl FnOnce(&mut Hold, &Turn) -> Result<()>,
    ) -> Option<Result<Begun>> {
        let operation = Operation {
            signature,
            shown: elements.size(),
            awaits,
        };
        let operand = elements.operand();
        self.begin(hold, operation, |hold, turn| turn.put_buffer(hold, &operand), take)
    }

    #[inline(always)]
    pub fn reduce_scatter(
        self,
        hold: &mut Hold,
        reduction: &Reduction,
        elements: &Elements,
        block: impl Fn(u32) -> Part,
    ) -> Option<Result<Begun>> {
        let mine = block(self.comm.rank);
        let operation = Operation {
            signature: reduction_signature(Call::ReduceScatter, reduction),
            shown: elements.size(),
            awaits: Awaits::All,
        };
        self.begin(
            hold,
            operation,
            |hold, turn| elements.show_to_others(hold, turn, mine),
            |hold, turn| elements.reduce_together(hold, turn, mine, elements.recv, block),
        )
    }

    /// Begins: `put` shows, and `take` takes what others show, in so far as this rank does.
    #[inline(always)]
    fn begin(
        self,
        hold: &mut Hold,
        operation: Operation,
        put: impl FnOnce(&mut Hold, &Turn) -> Result<()>,
        take: impl FnOnce(&mut Hold, &Turn) -> Result<()>,
    ) -> Option<Result<Begun>> {
        let Operation {
            signature,
            shown,
            awaits,
        } = operation;
        let On { comm, boards, kept } = self;
        let context = kept.map_or(&comm.context, |(context, _)| context);
        let number = boards.before + context.started_turns() + 1;
        let areas = boards.areas.as_ref().filter(|_| matches!(awaits, Awaits::All));
        let room = areas.filter(|areas| areas.has(shown)).map_or(shown, |_| 0);
        if boards.next.get() != number || !boards.has_room(number, room) {
            return None;
        }
        context.take_started_turns(1);
        boards.next.set(number + 1);
        let turn = Turn {
            comm,
            boards,
            number,
            tag: match kept {
                Some((_, tag)) => tag,
                None => signature.tag(next_started_tag(comm)),
            },
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
            boards.has_started(hold, root.map(|root| (root, waits && kept.is_none())));
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
        Some(outcome.map(|()| Begun::Over))
    }
}

/// Nonblocking operations.
pub struct Nonblocking;

impl Way for Nonblocking {
    type Outcome = Begun;

    #[inline]
    fn idle(hold: &mut Hold, comm: &Rc<Comm>) -> Option<Result<Begun>> {
        boards_for(hold, comm, Some(0)).map(|_| Ok(Begun::Over))
    }

    #[inline]
    fn barrier(hold: &mut Hold, comm: &Rc<Comm>) -> Option<Result<Begun>> {
        match boards_for(hold, comm, Some(0))? {
            Some(on) => on.barrier(hold),
            None => Some(Ok(Begun::Over)),
        }
    }

    #[inline]
    fn bcast(hold: &mut Hold, comm: &Rc<Comm>, root: u32, row: Row) -> Option<Result<Begun>> {
        match boards_for(hold, comm, Some(row.1))? {
            Some(on) => on.bcast(hold, root, row),
            None => Some(Ok(Begun::Over)),
        }
    }

    #[inline]
    fn gather(hold: &mut Hold, comm: &Rc<Comm>, root: u32, own: Row, to: Option<impl Rows>) -> Option<Result<Begun>> {
        match boards_for(hold, comm, agreed(comm, own, to))? {
            Some(on) => on.gather(hold, root, own, to),
            None => alone((own, to?.of(root).0)),
        }
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
        match boards_for(hold, comm, all)? {
            Some(on) => on.scatter(hold, root, from, own),
            None => alone((from?.of(root), own.0)),
        }
    }

    #[inline]
    fn allgather(hold: &mut Hold, comm: &Rc<Comm>, own: Row, to: impl Rows) -> Option<Result<Begun>> {
        let longest = to.longest(comm.size());
        match boards_for(hold, comm, Some(longest))? {
            Some(on) if longest > on.boards.table.allgather.shown => None,
            Some(on) => on.allgather(hold, own, to),
            None => alone((own, to.of(comm.rank).0)),
        }
    }

    #[inline]
    fn alltoall<R: Rows>(hold: &mut Hold, comm: &Rc<Comm>, from: Option<R>, to: R) -> Option<Result<Begun>> {
        let from = from.unwrap_or(to);
        let len = exchanged(comm, from, to);
        let all = len.and_then(|len| len.checked_mul(comm.size() as usize));
        match boards_for(hold, comm, all)? {
            Some(on) if len? > on.boards.table.alltoall.shown => None,
            Some(on) => on.alltoall(hold, from, to),
            None => alone((from.of(comm.rank), to.of(comm.rank).0)),
        }
    }

    #[inline]
    fn allreduce(hold: &mut Hold, comm: &Rc<Comm>, reduction: &Reduction) -> Option<Result<Begun>> {
        reduced(hold, comm, Call::Allreduce, reduction, |hold, on, elements| {
            // Of longer ones each rank reduces its share.
            match elements.size() >= on.boards.table.share {
                true => None,
                false => on.allreduce(hold, reduction, elements),
            }
        })
    }

    #[inline]
    fn reduce(hold: &mut Hold, comm: &Rc<Comm>, root: u32, reduction: &Reduction) -> Option<Result<Begun>> {
        reduced(hold, comm, Call::Reduce, reduction, |hold, on, elements| {
            on.reduce(hold, root, reduction, elements)
        })
    }

    #[inline]
    fn reduce_scatter(
        hold: &mut Hold,
        comm: &Rc<Comm>,
        reduction: &Reduction,
        block: impl Fn(u32) -> Part,
    ) -> Option<Result<Begun>> {
        reduced(hold, comm, Call::ReduceScatter, reduction, |hold, on, elements| {
            on.reduce_scatter(hold, reduction, elements, block)
        })
    }

    #[inline]
    fn scan(hold: &mut Hold, comm: &Rc<Comm>, reduction: &Reduction, exclusive: bool) -> Option<Result<Begun>> {
        let call = if exclusive { Call::Exscan } else { Call::Scan };
        reduced(hold, comm, call, reduction, |hold, on, elements| {
            on.scan(hold, reduction, elements, exclusive)
        })
    }
}

/// A reduction that `by_boards` begins; the only member has its own.
#[inline(always)]
fn reduced(
    hold: &mut Hold,
    comm: &Rc<Comm>,
    call: Call,
    reduction: &Reduction,
    by_boards: impl FnOnce(&mut Hold, On, &Elements) -> Option<Result<Begun>>,
) -> Option<Result<Begun>> {
    let elements = Elements::of(reduction)?;
    match boards_for(hold, comm, Some(elements.size()))? {
        Some(on) => by_boards(hold, on, &elements),
        None => alone(own(call, reduction, &elements)),
    }
}
