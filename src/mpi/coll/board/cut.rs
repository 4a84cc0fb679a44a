//! How nonblocking operations by boards go in pieces, and how long they may be.

use super::reductions::{Elements, SHARED};
use crate::mpi::coll::args::Root;
use crate::mpi::coll::call::{Task, known_block};
use crate::mpi::coll::choice::{LEAST, Table};
use crate::mpi::comm::Comm;
use crate::shm::board::{ROOM, SLOTS};
use crate::sys::cvar::Settings;

/// How an operation goes in pieces.
#[derive(Clone, Copy)]
pub struct Cut {
    /// Bytes of a block, or elements.
    pub whole: usize,
    /// ... of a piece.
    pub each: usize,
    /// Turns of the operation, at least one.
    pub turns: u64,
    /// Each rank reduces its share of a piece, and shows the result in a turn of its own.
    pub shared: bool,
    /// Bytes that this rank shows in a turn, at most.
    pub room: usize,
    /// All wait for all: what is shown may lie in memory that is passed on.
    pub passes: bool,
}

/// Bytes shown in a turn at most where there is so much `room`, and whether longer operations go in pieces.
pub fn bounds(table: &Table, room: usize) -> (usize, bool) {
    match room == ROOM.0 {
        true => (table.near, table.near >= LEAST),
        false => (table.near.min(room / SLOTS), false),
    }
}

/// Bytes up to which two ranks show what goes one way. Longer ones are no slower as messages, once these have learnt their way.
pub const ONE_WAY: usize = 64 << 10;
/// ... of what goes both ways.
pub const BOTH_WAYS: usize = 128 << 10;

/// Bytes, as [`call::shown`](crate::mpi::coll::call::shown) counts them, up to which `task` of `size` ranks goes by boards, if it goes in pieces
/// there: up to `NEARMPI_BOARD_STARTED`, and as far as a blocking one is shown, or further where its row says so. What two ranks
/// copy once if that is quicker goes by messages, which find out by themselves.
pub fn longest(settings: &Settings, table: &Table, task: &Task, size: usize) -> usize {
    let most = settings.board_started as usize;
    // How far blocking ones are shown, up to where two ranks show, and blocks that are shown.
    let (row, two, blocks) = match task {
        // All is shown at once.
        Task::ReduceScatter(..) => return most.min(ROOM.0 / 2),
        Task::Reduce(..) => return most.max(table.reduce.shown_unasked),
        Task::Allreduce(..) => return most.max(table.allreduce.shown_unasked),
        Task::Scan(_, false) => return most.max(table.scan.shown),
        Task::Bcast(..) | Task::Scan(_, true) => (&table.bcast, ONE_WAY, 1),
        Task::Gather(..) => (&table.gather, ONE_WAY, 1),
        Task::Scatter(..) => (&table.scatter, ONE_WAY, size),
        Task::Allgather(..) => (&table.allgather, BOTH_WAYS.max(table.allgather.shown), 1),
        Task::Alltoall(..) => (&table.alltoall, BOTH_WAYS.max(table.alltoall.shown), size),
        _ => return most,
    };
    match size == 2 && row.learnt > 0 {
        true => most.min(two.saturating_mul(blocks)),
        // Messages are no better for what blocking ones copy once.
        false if blocks == 1 => most.max(row.shown).max(row.shown_unasked),
        false => most,
    }
}

impl Cut {
    /// How `task` goes in pieces of up to `near` bytes; of an allreduce of `share` bytes each rank reduces its share.
    pub fn of(task: &Task, comm: &Comm, near: usize, share: usize) -> Cut {
        let (me, size) = (comm.rank, comm.size() as usize);
        let pieces = |whole: usize, each: usize, shown: usize| Cut {
            whole,
            each,
            turns: whole.div_ceil(each.max(1)).max(1) as u64,
            shared: false,
            room: each.min(whole) * shown,
            passes: matches!(
                task,
                Task::Alltoall(..) | Task::Allgather(..) | Task::Allreduce(_) | Task::ReduceScatter(..)
            ),
        };
        // Of a root's data for all, and of a block for each.
        let by_root = |root: u32, shown: usize| if root == me { shown } else { 0 };
        // Bytes that go to each of the others.
        let others = size - 1;
        let block = (near / others.max(1)).max(1);
        let known = || known_block(comm, task).unwrap_or(0);
        match task {
            Task::Bcast(Root::Rank(root), data) => pieces(data.len(), near, by_root(*root, 1)),
            Task::Gather(_, _, recv, _) => pieces(known(), near, recv.is_none().into()),
            Task::Scatter(Root::Rank(root), ..) => pieces(known(), block, by_root(*root, others)),
            Task::Allgather(_, recv) => pieces(recv.largest(), near, 1),
            Task::Alltoall(..) => pieces(known(), block, others),
            Task::Allreduce(reduction) | Task::Scan(reduction, _) | Task::Reduce(_, reduction) => {
                let Some(elements) = Elements::of(reduction) else {
                    return pieces(0, 1, 0);
                };
                let len = elements.size();
                let shared = matches!(task, Task::Allreduce(_))
                    && (len > near || len >= share)
                    && reduction.count >= size
                    && near * SHARED <= ROOM.0 / 2;
                let near = if shared { near * SHARED } else { near };
                let each = (near / elements.extent.max(1)).max(1);
                let cut = pieces(reduction.count, each, elements.extent);
                Cut {
                    shared,
                    turns: cut.turns * if shared { 2 } else { 1 },
                    ..cut
                }
            }
            Task::ReduceScatter(reduction, _) => {
                let len = Elements::of(reduction).map_or(0, |all| all.size());
                pieces(len, len, 1)
            }
            _ => pieces(0, 1, 0),
        }
    }

    /// What is shown in the operation's turn number `turn`: its first byte or element, and how many.
    pub fn piece(&self, turn: u64) -> (usize, usize) {
        let index = if self.shared { turn / 2 } else { turn } as usize;
        let first = index * self.each;
        (first, self.each.min(self.whole - first))
    }

    /// Whether shares of the result are shown in turn number `turn`.
    pub fn is_second(&self, turn: u64) -> bool {
        self.shared && turn % 2 == 1
    }
}
