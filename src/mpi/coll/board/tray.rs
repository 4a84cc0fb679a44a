//! What is too long for a slot lies in scratch memory, or, if there is not much of it, in a tray: behind a mark of its own, which
//! readers that know how long it is look at before the slot. The mark and what follows come in one go; a slot has to come
//! first, and then what it says the place of.
//!
//! A rank's trays serve all its communicators. One that others have not read yet in an earlier turn, or another thread of this
//! rank, is left alone, so that nobody waits for another communicator; readers find the bytes by the slot then.

use super::{ROUND_RANKS, Turn, View};
use crate::fail;
use crate::mpi::coll::signature;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::shm::board::{Head, INLINE, LONG_TRAY, SWAP, mark, place_of};
use crate::shm::sync::Ordering;
use std::rc::Rc;

/// Looks at a tray between two at the slot.
const ASIDE: u32 = 8;

impl<'a> Turn<'a> {
    /// Where `len` bytes that this rank shows are put, in its scratch memory mostly, how its slot says that, and whether its lines are
    /// at hand: this rank has read there what was passed to it, or goes round so far that its readers' own caches have let go of them.
    pub(super) fn room(&self, hold: &mut Hold, len: usize) -> Result<(*mut u8, u64, bool)> {
        let scratch = |rank: usize| self.boards.members[rank].scratch.address();
        let mine = |at: usize, at_hand| (scratch(self.boards.me).wrapping_add(at), at as u64, at_hand);
        if let Some(room) = &self.boards.room {
            let areas = self.boards.areas.as_ref().filter(|_| self.passes);
            if let Some((whose, at)) = areas.and_then(|areas| areas.take(len)) {
                return Ok((scratch(whose).wrapping_add(at), place_of(whose, at as u64), true));
            }
            // An operation shows when there is room.
            let Some(at) = room.borrow_mut().take(len, self.number) else {
                fail!(Intern, "no room for {len} bytes of a nonblocking operation");
            };
            return Ok(mine(at, false));
        }
        let round = self.size() <= ROUND_RANKS;
        let at = self.scratch(hold, len, self.number, round)?;
        Ok(mine(at, round && hold.desk.goes_far()))
    }

    /// The place of `len` bytes in this rank's scratch memory that are read until turn `last` is over, one behind the other or the first that
    /// is free.
    pub(super) fn scratch(&self, hold: &mut Hold, len: usize, last: u64, round: bool) -> Result<usize> {
        loop {
            if let Some(at) = hold.desk.place(len, last, self.boards, round) {
                return Ok(at);
            }
            match hold.desk.oldest(self.boards) {
                Some((turn, boards)) => {
                    boards.wait_through(hold, turn, self.comm, self.tag)?;
                    if boards.reads_own(turn, self.boards) {
                        hold.give_way(); // to this rank's thread that is in that operation
                    }
                }
                None => fail!(Intern, "{len} bytes are too many to show to other ranks"),
            }
        }
    }

    /// The tray for the `len` bytes that this rank shows, more than [`INLINE`]: its head, its payload, and the turn's mark.
    #[inline]
    pub(super) fn tray(&self, hold: &mut Hold, len: usize) -> Option<(&'a Head, *mut u8, u64)> {
        let boards = self.boards;
        let context = boards.trays.filter(|_| len <= LONG_TRAY.0)?;
        let mine = &boards.members[boards.me].trays;
        if hold.desk.trays.iter().all(Option::is_none) {
            mine.touch();
        }
        let (index, head, payload) = mine.tray(self.number, len);
        let last = &mut hold.desk.trays[index];
        match last {
            Some((turn, other)) if other.through() < *turn && other.look_through() < *turn => return None,
            Some((turn, other)) if other.reads_own(*turn, boards) => return None,
            Some((turn, other)) if Rc::ptr_eq(other, boards) => *turn = self.number,
            _ => *last = Some((self.number, boards.clone())),
        }
        Some((head, payload, mark(context, self.number)))
    }

    /// What `from` shows in its tray or swaps, if it is `len` bytes for this call and comes soon.
    #[inline]
    pub(super) fn glance(&self, from: u32, len: usize) -> Option<View> {
        if len <= INLINE {
            return None;
        }
        if let Some((swap, mark)) = self.swapped(from as usize).filter(|_| len <= SWAP) {
            return self.glance_at((swap.head(), mark), swap.payload(), from, len);
        }
        let context = self.boards.trays.filter(|_| len <= LONG_TRAY.0)?;
        let (_, head, payload) = self.boards.members[from as usize].trays.tray(self.number, len);
        self.glance_at((head, mark(context, self.number)), payload, from, len)
    }

    #[inline]
    fn glance_at(&self, (head, mark): (&Head, u64), payload: *mut u8, from: u32, len: usize) -> Option<View> {
        let slot = self.boards.members[from as usize].board.slot(self.number);
        for look in 1..=self.boards.glances() {
            if let Some(note) = head.look(mark) {
                let fits = note.len as usize == len && !note.far && !signature::differ(self.tag, note.tag);
                return fits.then(|| View {
                    data: payload.cast_const(),
                    len,
                    far: None,
                    lent: None,
                    from,
                });
            }
            if look % ASIDE == 0 && slot.turn().load(Ordering::Acquire) >= self.number {
                return None;
            }
            std::hint::spin_loop();
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::Where;
    use super::super::tests::{ANY, Step, What, job, take};
    use crate::mpi::coll::board;
    use crate::mpi::coll::signature::{Call, Signature};
    use crate::mpi::comm::create;
    use crate::shm::board::SLOTS;
    use std::rc::Rc;

    #[test]
    fn a_tray_that_is_not_read_yet_keeps_what_it_shows() {
        for trays in [0, 1] {
            job(2, 2, &[("NEARMPI_BOARD_TRAYS", trays)], false, |rank, world| {
                let mut hold = world.hold();
                let comm = hold.world.clone();
                let comms: Vec<_> = (0..20)
                    .map(|_| Rc::new(create::dup(&mut hold, &comm).unwrap()))
                    .collect();
                if rank == 1 {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                // The root shows something in the same turn of each.
                for count in [29, 300, 512, 513, 4096, 4097] {
                    for (seed, comm) in comms.iter().enumerate() {
                        let step = Step {
                            what: What::Bcast,
                            count,
                            seed: seed as u32,
                            ..ANY
                        };
                        take(&mut hold, comm, step);
                    }
                }
                let (short, long) = hold.desk.trays.split_at(SLOTS);
                for kind in [short, long] {
                    assert_eq!(kind.iter().any(Option::is_some), trays == 1 && rank == 0);
                }
            });
        }
    }

    /// As [`Desk`](super::super::desk::Desk)'s places do.
    #[test]
    fn a_tray_that_this_rank_still_reads_keeps_what_it_shows() {
        job(2, 2, &[], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let comms = [0; 2].map(|_| Rc::new(create::dup(&mut hold, &comm).unwrap()));
            if rank == 1 {
                return;
            }
            let boards = [0, 1].map(|index: usize| board::of(&hold, &comms[index]).unwrap().clone());
            let turns = [0, 1].map(|index| {
                Where::new(
                    &comms[index],
                    &boards[index],
                    Signature::of(Call::Allreduce),
                    board::MOST,
                )
                .turn()
            });
            let mut tray = |index: usize| turns[index].tray(&mut hold, 300).is_some();
            let done = |rank: usize| boards[0].members[rank].board.finish(turns[0].number);
            assert!(tray(0));
            done(1);
            assert!(!tray(1), "the other rank is through with it, this one is not");
            done(0);
            assert!(tray(1));
        });
    }
}
