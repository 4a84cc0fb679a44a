//! Persistent operations by boards: each goes as a nonblocking one does ([`started`](super::started)), on boards of its own and with
//! a room of its own, since members may start several in different orders (MPI-4.1 §6.13). Its turns are counted from the first
//! start to the last.
//!
//! There are so many boards for them in a job; one member claims some when an operation is initialized and tells the others,
//! as for a new communicator. They are free again when all members have freed the request. What gets none runs as a schedule.

use super::Boards;
use super::cut::longest;
use super::reductions::{Elements, block};
use super::rows::{Even, Row, Rows};
use super::started::{self, Held, Plan};
use super::started_short::{Begun, On};
use crate::mpi::coll::args::{Blocks, Data, Root};
use crate::mpi::coll::bcast_bytes;
use crate::mpi::coll::call::{self, Task};
use crate::mpi::coll::choice::Table;
use crate::mpi::coll::short::is_usual;
use crate::mpi::coll::signature::Signature;
use crate::mpi::comm::Comm;
use crate::mpi::context::{Context, NONE};
use crate::mpi::error::Result;
use crate::mpi::request::RequestKey;
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

/// Starts what is planned; `None` if it is over, else its request.
///
/// # Errors
/// As [`started::start`].
pub fn start(hold: &mut Hold, plan: &Rc<Plan>) -> Result<Option<RequestKey>> {
    let kept = || Held::Kept(plan.clone());
    if let Some(begun) = begin_short(hold, plan) {
        return match begun? {
            Begun::Over => Ok(None),
            Begun::Shown(shown) => started::wait_behind(hold, shown, Ok(kept())).map(Some),
        };
    }
    let Some(begun) = started::begin(hold, plan)? else {
        return Ok(None);
    };
    let key = started::request(hold, plan, false)?;
    started::go_on(hold, key, begun, kept());
    Ok(Some(key))
}

/// Begins by the short way, if there is one and nothing needs a longer look.
#[inline]
fn begin_short(hold: &mut Hold, plan: &Plan) -> Option<Result<Begun>> {
    let (short, context) = (plan.short.as_ref()?, plan.context.as_deref()?);
    let on = On {
        comm: &plan.comm,
        boards: &plan.boards,
        kept: Some((context, plan.tag)),
    };
    if !is_usual(hold) {
        return None;
    }
    short.begin(hold, on, &plan.task)
}

/// What a persistent operation does that has a short way: moves these rows, or what its task says of a reduction.
pub enum Short {
    /// A barrier.
    Barrier,
    /// Of a root's row.
    Bcast(u32, Row),
    /// To a root's rows.
    Gather(u32, Row, Option<Even>),
    /// From a root's rows.
    Scatter(u32, Option<Even>, Row),
    /// To everybody's rows.
    Allgather(Row, Even),
    /// From rows to rows.
    Alltoall(Even, Even),
    /// A reduction.
    Reduction,
}

impl Short {
    /// What `task` does, if its bytes lie in rows, even ones; it takes one turn.
    pub fn of(task: &Task, comm: &Comm) -> Option<Short> {
        let me = comm.rank;
        let row = |data: &Data| Some((data.buffer().in_a_row()?, data.len()));
        // Elements that lie in a row lie behind each other.
        let even = |blocks: &Blocks| {
            let (first, len) = (blocks.buffer(0).in_a_row()?, blocks.block()?);
            let next = blocks.buffer(1).in_a_row()?;
            (next == first.wrapping_add(len)).then_some(Even { first, len })
        };
        // Nothing, or what lies in rows.
        fn rows<T, R>(from: &Option<T>, rows: impl Fn(&T) -> Option<R>) -> Option<Option<R>> {
            from.as_ref().map_or(Some(None), |from| rows(from).map(Some))
        }
        let own = |data: &Option<Data>, all: Option<Even>| match data {
            Some(data) => row(data),
            None => all.map(|all| all.of(me)),
        };
        Some(match task {
            Task::Barrier(_) => Short::Barrier,
            Task::Bcast(Root::Rank(root), data) => Short::Bcast(*root, row(data)?),
            Task::Gather(Root::Rank(root), send, recv, true) => {
                let to = rows(recv, even)?;
                Short::Gather(*root, own(send, to)?, to)
            }
            Task::Scatter(Root::Rank(root), send, recv, true) => {
                let from = rows(send, even)?;
                Short::Scatter(*root, from, own(recv, from)?)
            }
            Task::Allgather(send, recv) => {
                let to = even(recv)?;
                Short::Allgather(own(send, Some(to))?, to)
            }
            Task::Alltoall(send, recv) => {
                let to = even(recv)?;
                Short::Alltoall(rows(send, even)?.unwrap_or(to), to)
            }
            Task::Allreduce(_) | Task::Reduce(Root::Rank(_), _) | Task::ReduceScatter(..) | Task::Scan(..) => {
                Short::Reduction
            }
            _ => return None,
        })
    }

    /// Begins `task`, whose short way this is. `None`: it would have to wait for its slot.
    #[inline]
    fn begin(&self, hold: &mut Hold, on: On, task: &Task) -> Option<Result<Begun>> {
        match *self {
            Short::Barrier => on.barrier(hold),
            Short::Bcast(root, row) => on.bcast(hold, root, row),
            Short::Gather(root, own, to) => on.gather(hold, root, own, to),
            Short::Scatter(root, from, own) => on.scatter(hold, root, from, own),
            Short::Allgather(own, to) => on.allgather(hold, own, to),
            Short::Alltoall(from, to) => on.alltoall(hold, from, to),
            Short::Reduction => match task {
                Task::Allreduce(all) => on.allreduce(hold, all, &Elements::of(all)?),
                Task::Reduce(Root::Rank(root), all) => on.reduce(hold, *root, all, &Elements::of(all)?),
                Task::Scan(all, exclusive) => on.scan(hold, all, &Elements::of(all)?, *exclusive),
                Task::ReduceScatter(all, counts) => {
                    on.reduce_scatter(hold, all, &Elements::of(all)?, |rank| block(counts, rank))
                }
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::started_tests::{COUNTS, KINDS, init, open};
    use super::super::tests::job;
    use crate::mpi::coll::call::{Kept, begin, keep};
    use crate::mpi::pt2pt::{Looks, look_for_awaited, persistent};
    use crate::mpi::request;
    use std::time::{Duration, Instant};

    /// All but those on blocks of different lengths.
    #[test]
    fn what_lies_in_even_rows_has_a_short_way() {
        job(3, 3, &[], false, |_, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let short = (0..KINDS).filter(|&kind| {
                let (task, _open) = open(&hold, &comm, kind, [5; 8]);
                match keep(&mut hold, &comm, task).unwrap() {
                    Kept::Boards(plan) => plan.short.is_some(),
                    Kept::Schedule(..) => false,
                }
            });
            assert_eq!(short.collect::<Vec<_>>(), (0..11).collect::<Vec<_>>());
        });
    }

    /// Nothing but a look at the boards that the operation waits for takes it to its end.
    #[test]
    fn a_wait_or_test_looks_out_for_what_is_shown() {
        for (looks, counts) in [(Looks::Out, COUNTS), (Looks::Once, COUNTS), (Looks::Out, [4000; 8])] {
            job(2, 2, &[("NEARMPI_BOARD_MAX", 4096)], false, |_, world| {
                let mut hold = world.hold();
                let comm = hold.world.clone();
                for index in 0..2 * KINDS {
                    let (task, open) = open(&hold, &comm, index, counts);
                    let (key, boarded) = match index % 2 {
                        0 => (begin(&mut hold, &comm, task).unwrap(), true),
                        _ => init(&mut hold, &comm, task),
                    };
                    if index % 2 == 1 {
                        persistent::start(&mut hold, key).unwrap();
                    }
                    if !hold.schedules.is_empty() || !boarded {
                        hold.wait_until(None, |hold| Ok(hold.is_over(key))).unwrap();
                    }
                    let began = Instant::now();
                    while !hold.is_over(key) {
                        look_for_awaited(&mut hold, key, looks).unwrap();
                        assert!(
                            began.elapsed() < Duration::from_secs(30),
                            "operation {index} goes no further"
                        );
                    }
                    open.check("awaited", index);
                    request::finish(&mut hold, key);
                    request::free(&mut hold, key).unwrap();
                }
            });
        }
    }
}
