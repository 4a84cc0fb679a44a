//! Contexts: the numbers that keep communicators' messages apart (MPI-4.1 §7.1.2).
//!
//! A context number is claimed in shared memory by one member, with the number of members that will
//! hold it, and told to the others; it is free again when the last holder has let go of it. That of a communicator that was revoked
//! stays taken: its messages may be under way, or wait in a queue, which nobody will ever receive.

use super::error::Result;
use super::world::State;
use crate::fail;
use crate::shm::layout::CONTEXTS;
use crate::shm::segment::Segment;
use std::cell::Cell;
use std::sync::Arc;

/// Context of `MPI_COMM_WORLD`.
pub const WORLD: u16 = 0;
/// Context of every rank's `MPI_COMM_SELF`.
pub const OWN: u16 = 1;

/// Greater than every context number: "not known yet", and in a message "there was none to claim".
pub const NONE: u16 = u16::MAX;

/// This rank's hold on a context; lets go on drop.
#[derive(Debug)]
pub struct Context {
    number: Cell<u16>,
    /// Blocking collective operations, or rounds of them, so far on the communicator.
    turns: Cell<u64>,
    /// The same of nonblocking ones, or of a persistent one.
    started: Cell<u64>,
    segment: Arc<Segment>,
}

impl Context {
    /// Takes over one of the holds with which context `number` was claimed.
    pub fn adopt(segment: &Arc<Segment>, number: u16) -> Context {
        Context {
            number: Cell::new(number),
            turns: Cell::new(0),
            started: Cell::new(0),
            segment: segment.clone(),
        }
    }

    /// The number to tell the other members.
    #[inline]
    pub fn number(&self) -> u16 {
        self.number.get()
    }

    /// Takes the next turn: 0, 1, 2 ... All members take theirs in the same order.
    #[inline]
    pub fn take_turn(&self) -> u64 {
        let turn = self.turns.get();
        self.turns.set(turn + 1);
        turn
    }

    /// Takes the next `turns` turns of nonblocking operations, which have turns of their own; the first.
    #[inline]
    pub fn take_started_turns(&self, turns: u64) -> u64 {
        let turn = self.started.get();
        self.started.set(turn + turns);
        turn
    }

    /// Turns of nonblocking operations that have been taken.
    #[inline]
    pub fn started_turns(&self) -> u64 {
        self.started.get()
    }

    /// The turn that comes next.
    #[inline]
    pub fn next_turn(&self) -> u64 {
        self.turns.get()
    }

    /// The job's memory.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Where the number stands: that of a communicator from `MPI_Comm_idup` comes in a message.
    pub fn cell(&self) -> &Cell<u16> {
        &self.number
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let number = self.number.get();
        let was_revoked = usize::from(number) < CONTEXTS && self.segment.fate(number).is_revoked();
        if number != NONE && !was_revoked {
            // The next life begins behind both kinds of turns.
            let turns = self.turns.get() + self.started.get();
            self.segment.release_context(number, turns);
        }
    }
}

impl State {
    /// Claims a free context number for `holders` members, of which each calls [`State::adopt_context`] once.
    ///
    /// # Errors
    /// `Other` when all are in use.
    pub fn claim_context(&self, holders: u32) -> Result<u16> {
        match self.engine.channel.segment().claim_context(holders) {
            Some(number) => Ok(number),
            None => fail!(
                Other,
                "all 32768 communicator contexts of the job are in use; free some communicators"
            ),
        }
    }

    /// This member's hold on a claimed context.
    pub fn adopt_context(&self, number: u16) -> Context {
        Context::adopt(self.engine.channel.segment(), number)
    }
}
