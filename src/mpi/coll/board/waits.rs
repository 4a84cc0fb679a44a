//! How a member waits until others show a turn or are through with it, and what it knows of that.

use super::stray::{STRAY, refuse_stray};
use super::{Boards, GLANCES};
use crate::mpi::comm::{Comm, Plane};
use crate::mpi::error::Result;
use crate::mpi::failure;
use crate::mpi::rma::mail::soon;
use crate::mpi::sleep::Sign;
use crate::mpi::world::Hold;
use crate::shm::board::{Board, Place};
use crate::shm::sync::Ordering;
use crate::shm::waiting::Item;

/// What is waited for on another rank's board.
#[derive(Clone, Copy, Debug)]
pub struct Wait {
    /// Whose board.
    pub board: Place<Board>,
    /// The turn that is to come.
    pub turn: u64,
    /// To be through with it, rather than to show it.
    pub done: bool,
}

impl Wait {
    /// Whether it has come.
    #[inline]
    pub fn is_over(&self) -> bool {
        let word = match self.done {
            true => self.board.done(),
            false => self.board.slot(self.turn).turn(),
        };
        word.load(Ordering::Acquire) >= self.turn
    }

    /// Whether it comes within so many `looks`.
    #[inline]
    pub fn comes_within(&self, looks: u32) -> bool {
        (0..looks).any(|_| {
            std::hint::spin_loop();
            self.is_over()
        })
    }
}

impl Boards {
    /// A turn that all members are known to be through with.
    #[inline]
    pub(super) fn through(&self) -> u64 {
        self.through.get()
    }

    /// As [`Boards::through`], after a look at every board. The dead read nothing, but [`Boards::through`] leaves them out only when
    /// somebody has waited and noticed. Cost: a cache line from each member.
    pub(super) fn look_through(&self) -> u64 {
        let (mut least, mut all_live) = (u64::MAX, true);
        for (_, member) in self.members.iter().enumerate().filter(|&(rank, _)| rank != self.me) {
            match self.segment.death(member.world) {
                None => least = least.min(member.board.done().load(Ordering::Acquire)),
                Some(_) => all_live = false,
            }
        }
        let through = least.max(self.through.get());
        if all_live {
            self.through.set(through);
        }
        through
    }

    /// Whether this rank may still read what it showed in `turn`, its own operand, while an operation of `asker` asks: then another
    /// thread is in the operation, for those of one communicator come one after the other.
    #[inline]
    pub(super) fn reads_own(&self, turn: u64, asker: &Boards) -> bool {
        !std::ptr::eq(self, asker) && self.members[self.me].board.done().load(Ordering::Relaxed) < turn
    }

    /// Ends this rank's turns so far, after an error: nobody shall wait for it.
    #[cold]
    pub fn give_up(&self, hold: &Hold, comm: &Comm) {
        let turn = self.before + comm.context.next_turn();
        self.members[self.me].board.finish(turn);
        self.ring(hold);
    }

    /// Wakes the others who sleep.
    #[inline]
    pub(super) fn ring(&self, hold: &Hold) {
        let others = self.members.iter().enumerate().filter(|&(rank, _)| rank != self.me);
        hold.engine.channel.ring_bells(others.map(|(_, member)| member.world));
    }

    /// Looks at a board alone before anything else: a peer that needs this CPU shows nothing meanwhile.
    pub(super) fn glances(&self) -> u32 {
        if self.segment.oversubscribed() { 1 } else { GLANCES }
    }

    /// Waits until all members are through with `turn`, or dead.
    #[cold]
    pub(super) fn wait_through(&self, hold: &mut Hold, turn: u64, comm: &Comm, tag: i32) -> Result<()> {
        for rank in (0..self.members.len()).filter(|&rank| rank != self.me) {
            self.wait_for(hold, rank, turn, true, (comm, tag))?;
        }
        self.through.set(self.through.get().max(turn));
        Ok(())
    }

    /// Waits until `rank` shows `turn`, or is `done` with it.
    pub(super) fn wait_for(
        &self,
        hold: &mut Hold,
        rank: usize,
        turn: u64,
        done: bool,
        (comm, tag): (&Comm, i32),
    ) -> Result<()> {
        let context = comm.context_on(Plane::Collective);
        let member = &self.members[rank];
        let item = Item {
            peer: Some(member.world),
            place: Some(rank as u32),
            tag: Some(tag),
            context,
            ..Item::default()
        };
        let board = member.board;
        let wait = Wait { board, turn, done };
        if wait.is_over() {
            return Ok(());
        }
        // Who has memory that others may access does for them what they ask meanwhile.
        let comes = match hold.served.is_empty() {
            true => wait.comes_within(self.glances()),
            false => soon(hold, self.glances(), || wait.is_over()),
        };
        if comes || (self.gives_way(hold) && self.comes_in_turn(hold, &wait, rank)) {
            return Ok(());
        }
        let mut looks = 0u32;
        let outcome = hold.wait_for_sign((Sign::Board(wait), item), |hold| {
            if wait.is_over() || (done && self.segment.death(member.world).is_some()) {
                hold.engine.channel.noticed(member.world);
                return Ok(true);
            }
            looks += 1;
            if looks.is_multiple_of(STRAY) {
                refuse_stray(hold, context, tag)?;
            }
            hold.check_peer(comm, Plane::Collective, None)?;
            Ok(false)
        });
        if done && self.segment.death(member.world).is_some() {
            // Who only shows and never waits for what others show finds out here.
            failure::catch_up(hold)?;
        }
        outcome
    }
}
