//! What tests of collective operations share: jobs of threads, and arguments made of vectors of integers.

use super::args::{Blocks, Data, Places, Reduction, Root};
use super::board::reductions::block;
use super::board::rows::{Even, Row, Rows};
use super::call::Task;
use super::internal;
use super::machine::Element;
use super::short::Way;
use crate::mpi::comm::Comm;
use crate::mpi::datatype::Datatype;
use crate::mpi::datatype::basic::index;
use crate::mpi::error::Result;
use crate::mpi::op::Op;
use crate::mpi::world::{Hold, State, World};
use crate::shm::segment::Segment;
use crate::sys::cvar::Settings;
use std::rc::Rc;
use std::sync::Arc;

const INT: i32 = 0x4c00_0405;

/// A rank of a job of threads; one that panics is dead for the others, which wait for it no longer.
struct End(Arc<Segment>, u32);

impl Drop for End {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.bury(self.1);
        }
    }
}

/// Runs `program` as each rank of a job on `cpus` CPUs, with control variables besides the defaults; of two for the
/// same the first counts.
pub fn job(ranks: u32, cpus: u32, set: &[(&str, u64)], multiple: bool, program: impl Fn(u32, &World) + Sync) {
    let found = |name: &str| {
        let found = set.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.to_string())
    };
    job_with(ranks, cpus, &Settings::read(found).unwrap(), multiple, program);
}

/// As [`job`], with these settings.
pub fn job_with(ranks: u32, cpus: u32, settings: &Settings, multiple: bool, program: impl Fn(u32, &World) + Sync) {
    let segment = Arc::new(Segment::private(ranks, cpus).unwrap());
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            let (segment, program) = (segment.clone(), &program);
            scope.spawn(move || {
                let _end = End(segment.clone(), rank);
                let world = World::new(State::join(segment, rank, settings.clone()), multiple);
                program(rank, &world);
                let mut hold = world.hold();
                let comm = hold.world.clone();
                internal::barrier(&mut hold, &comm).unwrap();
            });
        }
    });
}

/// After how many elements what tests send comes again: a prime, so that no part of a message that goes somewhere for
/// itself looks like another.
pub const PERIOD: usize = 4093;

/// `len` elements made by `element` of the index modulo [`PERIOD`]. Those after the first period are copied, which a
/// sanitizer slows less than reckoning.
pub fn repeating<T: Copy>(len: usize, element: impl Fn(usize) -> T) -> Vec<T> {
    let mut all: Vec<T> = Vec::with_capacity(len);
    all.extend((0..len.min(PERIOD)).map(element));
    while all.len() < len {
        // Whole periods but for the last time.
        all.extend_from_within(..all.len().min(len - all.len()));
    }
    all
}

/// The type of all elements.
pub fn int() -> Element {
    Element {
        datatype: Datatype::basic_at(index(INT).unwrap()),
        handle: INT,
    }
}

/// A buffer argument.
pub fn data(ints: &mut [i32]) -> Data {
    Data {
        address: ints.as_mut_ptr().cast(),
        count: ints.len(),
        element: int(),
    }
}

/// One with a block for each rank.
pub fn regular(ints: &mut [i32], ranks: u32) -> Blocks {
    Blocks {
        address: ints.as_mut_ptr().cast(),
        places: Places::Regular {
            count: ints.len() / ranks as usize,
            element: int(),
        },
    }
}

/// One with blocks of so many integers where [`starts`] says.
pub fn varying(ints: &mut [i32], counts: &[usize]) -> Blocks {
    Blocks {
        address: ints.as_mut_ptr().cast(),
        places: Places::Varying {
            counts: counts.to_vec(),
            displs: starts(counts).iter().map(|&start| start as isize).collect(),
            element: int(),
        },
    }
}

/// Where blocks of so many integers begin that lie in reverse order, with one integer between them.
pub fn starts(counts: &[usize]) -> Vec<usize> {
    (0..counts.len())
        .map(|rank| counts[rank + 1..].iter().map(|count| count + 1).sum())
        .collect()
}

/// Integers that hold them, with one behind the last.
pub fn room(counts: &[usize]) -> usize {
    counts.iter().map(|count| count + 1).sum()
}

/// Blocks, whose elements are integers.
#[derive(Clone, Copy)]
struct Spread<'a>(&'a Blocks);

impl Rows for Spread<'_> {
    const EVEN: bool = false;

    fn of(&self, rank: u32) -> Row {
        let buffer = self.0.buffer(rank);
        (buffer.address, buffer.len())
    }
}

/// Does `task` by its short way `W`, if it has one for these arguments.
pub fn short<W: Way>(hold: &mut Hold, comm: &Rc<Comm>, task: &Task) -> Option<Result<W::Outcome>> {
    let me = comm.rank;
    let row = |data: &Data| (data.address, data.len());
    // Where all have a block of the same size it has some bytes.
    let even = |blocks: &Blocks| match blocks.block() {
        Some(0) => None,
        len => Some(len.map(|len| Even {
            first: blocks.address,
            len,
        })),
    };
    // What is this rank's own, there or in place.
    let own = |data: &Option<Data>, blocks: Option<&Blocks>| match (data, blocks) {
        (Some(data), _) => Some(row(data)),
        (None, blocks) => blocks.map(|blocks| Spread(blocks).of(me)),
    };
    match task {
        Task::Barrier(_) => W::barrier(hold, comm),
        Task::Bcast(Root::Rank(root), data) if !data.is_empty() => W::bcast(hold, comm, *root, row(data)),
        Task::Gather(Root::Rank(root), send, recv, regular) => {
            let own = own(send, recv.as_ref())?;
            match (recv, regular) {
                (_, true) if own.1 == 0 => None,
                (Some(recv), true) => W::gather(hold, comm, *root, own, even(recv)?),
                (None, true) => W::gather(hold, comm, *root, own, None::<Even>),
                (recv, false) => W::gather(hold, comm, *root, own, recv.as_ref().map(Spread)),
            }
        }
        Task::Scatter(Root::Rank(root), send, recv, regular) => {
            let own = own(recv, send.as_ref())?;
            match (send, regular) {
                (_, true) if own.1 == 0 => None,
                (Some(send), true) => W::scatter(hold, comm, *root, even(send)?, own),
                (None, true) => W::scatter(hold, comm, *root, None::<Even>, own),
                (send, false) => W::scatter(hold, comm, *root, send.as_ref().map(Spread), own),
            }
        }
        Task::Allgather(send, recv) if recv.largest() > 0 => {
            let own = own(send, Some(recv))?;
            match even(recv)? {
                Some(recv) => W::allgather(hold, comm, own, recv),
                None => W::allgather(hold, comm, own, Spread(recv)),
            }
        }
        Task::Alltoall(send, recv) => {
            let from = send.as_ref().unwrap_or(recv);
            match (even(from)?, even(recv)?) {
                (Some(from), Some(recv)) => W::alltoall(hold, comm, send.as_ref().map(|_| from), recv),
                _ => W::alltoall(hold, comm, send.as_ref().map(Spread), Spread(recv)),
            }
        }
        Task::Allreduce(reduction) if reduction.count > 0 => W::allreduce(hold, comm, reduction),
        Task::Reduce(Root::Rank(root), reduction) if reduction.count > 0 => W::reduce(hold, comm, *root, reduction),
        Task::ReduceScatter(reduction, counts) if reduction.count > 0 => {
            W::reduce_scatter(hold, comm, reduction, |rank| block(counts, rank))
        }
        Task::Scan(reduction, exclusive) if reduction.count > 0 => W::scan(hold, comm, reduction, *exclusive),
        _ => None,
    }
}

/// `recv = op` over all `send`, or over all `recv` in place.
pub fn reduction(send: Option<&mut [i32]>, recv: &mut [i32], count: usize, op: Rc<Op>) -> Reduction {
    Reduction {
        send: send.map(|send| send.as_mut_ptr().cast()),
        recv: recv.as_mut_ptr().cast(),
        count,
        element: int(),
        op,
    }
}
