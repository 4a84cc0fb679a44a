//! Where ranks share CPUs: whose turn it is on this one.
//!
//! A rank that waits gives way at once: each look before that is lost for a rank that needs the CPU. It looks about as long as a
//! change of place takes where that would only let in ranks that wait for the same, in a row of turns in which all show something.
//! In others they wait for a root, and who gives way lets it go on sooner, if it is here, to what is waited for next.
//!
//! Who leaves a barrier only to wait for a root gives way there just the same: it waits in the barrier already, for the root to
//! leave ([`Lead`]), and then what it needs is there. Where each waits for all below it, two of a CPU leave in
//! the order of ranks.

use super::{Boards, GLANCES, SLOTS, Turn, waits::Wait};
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::shm::sync::Ordering;
use crate::sys::cpu;
use std::cell::Cell;

/// Times that a rank gives way before it looks at the queues in between.
const TIMES: u32 = 2;

/// The root that a rank waits for behind each barrier, as long as it does: in a blocking operation or in the first nonblocking one.
#[derive(Debug, Default)]
pub struct Lead {
    who: Cell<Option<usize>>,
    /// The turn of the last barrier.
    barrier: Cell<u64>,
    /// That of the last one behind which this rank has started a nonblocking operation, and of the last one behind which it has
    /// started one in which it is not the one that waits for a root.
    started: Cell<u64>,
    gave: Cell<u64>,
    /// The last turn in which each rank waited for all below it.
    chain: Cell<u64>,
}

impl Turn<'_> {
    /// In a barrier that this rank has shown: waits until the [`Lead`] has left it, if there is one.
    ///
    /// # Errors
    /// What makes progress impossible.
    #[inline]
    pub fn follow(&self, hold: &mut Hold) -> Result<()> {
        match self.boards.lead(hold, self.number) {
            Some(rank) => self
                .boards
                .wait_for(hold, rank, self.number, true, (&**self.comm, self.tag)),
            None => Ok(()),
        }
    }

    /// In this turn every rank shows something and waits for all below it.
    #[inline]
    pub fn chains(&self, hold: &Hold) {
        if self.boards.segment.oversubscribed() && hold.engine.channel.settings().board_lead != 0 {
            self.boards.lead.chain.set(self.number);
        }
    }
}

impl Boards {
    /// Who leads in the barrier of `turn`: nobody any more if this rank has shown something behind the last one, in a blocking operation
    /// or in any nonblocking one that it has started there, but one below on this CPU where that was in a chain. So ranks never follow
    /// in a circle: a leader has shown behind a barrier when its followers began to wait for it, and waits for others only later; behind a
    /// chain all have shown something.
    #[inline]
    fn lead(&self, hold: &Hold, turn: u64) -> Option<usize> {
        let last = self.lead.barrier.replace(turn);
        let behind = last + 1;
        if self.lead.who.get().is_some() {
            let waited = match behind == turn {
                // No blocking operation came in between.
                true => self.lead.started.get() == last,
                false => self.shown[behind as usize % SLOTS].get() < behind,
            };
            if !waited || self.lead.gave.get() == last {
                self.lead.who.set(None);
            }
        }
        match self.lead.chain.get() == behind {
            true => self.below(hold),
            false => self.lead.who.get(),
        }
    }

    /// The rank that shares this one's CPU, as far as was seen, if it is one and below. (Of more ranks each would wait for a change of
    /// place in the barrier: 8 on two CPUs took 1.4 times as long for a barrier and a scan, 16 more than twice as long.)
    #[cold]
    fn below(&self, hold: &Hold) -> Option<usize> {
        let here = hold.engine.channel.seen()?;
        let cpu = |rank: usize| self.segment.rank(self.members[rank].world).bell.cpu();
        let mut others = (0..self.members.len()).filter(|&rank| rank != self.me && cpu(rank) == Some(here));
        let other = others.next().filter(|&other| other < self.me);
        other.filter(|_| others.next().is_none())
    }

    /// Whether this rank has shown something in `turn`, and nothing since in its slot.
    fn shows(&self, turn: u64) -> bool {
        self.shown[turn as usize % SLOTS].get() == turn
    }

    /// This rank gives way in `wait`, for `rank`: which leads from now on if that is what it does behind a barrier.
    fn may_lead(&self, hold: &Hold, wait: &Wait, rank: usize) {
        let behind = !wait.done && wait.turn == self.lead.barrier.get() + 1;
        if behind && !self.shows(wait.turn) && hold.engine.channel.settings().board_lead != 0 {
            self.lead.who.set(Some(rank));
        }
    }

    /// A nonblocking operation has begun in which this rank waits for the root `awaited` and has to wait, or gives something (`None`).
    /// Persistent ones name no root: members may start them in different orders, so that they might wait for each other.
    #[inline]
    pub(super) fn has_started(&self, hold: &Hold, awaited: Option<(usize, bool)>) {
        if !self.segment.oversubscribed() || hold.engine.channel.settings().board_lead == 0 {
            return;
        }
        let barrier = self.lead.barrier.get();
        let is_first = self.lead.started.replace(barrier) != barrier;
        match awaited {
            Some((root, true)) if is_first => self.lead.who.set(Some(root)),
            Some(_) => {}
            None => self.lead.gave.set(barrier),
        }
    }

    /// Whether this rank lets others have the CPU before it looks at the queues. A profile counts waiting from there on.
    pub(super) fn gives_way(&self, hold: &Hold) -> bool {
        let channel = &hold.engine.channel;
        self.segment.oversubscribed() && channel.settings().same_cpu != 0 && channel.meter().is_none()
    }

    /// Whether what this rank waits for on `rank`'s board comes while it gives way to those who need its CPU.
    pub(super) fn comes_in_turn(&self, hold: &mut Hold, wait: &Wait, rank: usize) -> bool {
        self.may_lead(hold, wait, rank);
        (0..TIMES).any(|_| {
            if self.can_look(hold, wait, rank) && wait.comes_within(GLANCES) {
                return true;
            }
            hold.engine.channel.spread(None);
            hold.released(cpu::give_way);
            wait.is_over()
        })
    }

    /// Whether `rank` is on another CPU, and all members that were last seen on this one wait for the same: they have shown this turn,
    /// as this rank has, and the one before, or are through with it where that is waited for.
    fn can_look(&self, hold: &Hold, wait: &Wait, rank: usize) -> bool {
        let turn = wait.turn;
        let shows = self.shows(turn) && self.shows(turn - 1);
        let Some(here) = hold.engine.channel.seen().filter(|_| shows) else {
            return false;
        };
        let others = self.members.iter().enumerate().filter(|&(other, _)| other != self.me);
        let mut here = others.filter(|(_, member)| self.segment.rank(member.world).bell.cpu() == Some(here));
        here.all(|(other, member)| {
            let word = match wait.done {
                true => member.board.done(),
                false => member.board.slot(turn).turn(),
            };
            other != rank && word.load(Ordering::Acquire) >= turn
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Where;
    use super::super::tests::{ANY, Step, What, take};
    use super::*;
    use crate::mpi::coll::board::{moves, rows};
    use crate::mpi::coll::signature::{Call, Signature};
    use crate::mpi::coll::{board, support};
    use crate::mpi::comm::create;
    use crate::shm::board::Note;
    use std::sync::Barrier;

    /// Rank 0 shows two barriers, and a broadcast between them for which rank 1 gives way.
    #[test]
    fn who_waits_for_a_root_behind_a_barrier_lets_it_leave_the_next_one_first() {
        for leads in [1, 0] {
            support::job(2, 1, &[("NEARMPI_BOARD_LEAD", leads)], false, |me, world| {
                let mut hold = world.hold();
                let comm = hold.world.clone();
                let boards = board::of(&hold, &comm).unwrap().clone();
                let at = |call| Where::new(&comm, &boards, Signature::of(call), board::MOST);
                let (barrier, bcast) = (at(Call::Barrier), at(Call::Bcast));
                let mut byte = [me as u8 + 1];
                let row = (byte.as_mut_ptr(), 1);
                if me == 1 {
                    moves::barrier(&mut hold, barrier).unwrap();
                    rows::bcast(&mut hold, bcast, 0, row).unwrap();
                    assert_eq!((byte[0], boards.lead.who.get()), (1, (leads == 1).then_some(0)));
                    moves::barrier(&mut hold, barrier).unwrap();
                    // Nobody waited for anybody in between.
                    moves::barrier(&mut hold, barrier).unwrap();
                    assert_eq!(boards.lead.who.get(), None);
                    return;
                }
                let left = |turn| boards.members[1].board.done().load(Ordering::Acquire) >= turn;
                let first = boards.before + comm.context.next_turn() + 1;
                moves::barrier(&mut hold, barrier).unwrap();
                while !left(first) || !world.segment().rank(1).bell.is_set() {
                    std::thread::yield_now();
                }
                rows::bcast(&mut hold, bcast, 0, row).unwrap();
                let turn = barrier.turn();
                turn.show_with(&mut hold, 0, |_| ()).unwrap();
                while leads == 0 && !left(turn.number) && world.segment().death(1).is_none() {
                    std::thread::yield_now();
                }
                turn.see(&mut hold, 1, Some(0)).unwrap();
                (0..100).for_each(|_| std::thread::yield_now());
                assert_eq!(left(turn.number), leads == 0);
                turn.finish(&hold);
                moves::barrier(&mut hold, barrier).unwrap();
            });
        }
    }

    #[test]
    fn who_waits_for_a_root_in_a_nonblocking_operation_follows_it_unless_it_gives_something_itself() {
        for leads in [1, 0] {
            support::job(2, 1, &[("NEARMPI_BOARD_LEAD", leads)], false, |me, world| {
                let mut hold = world.hold();
                let comm = hold.world.clone();
                take(
                    &mut hold,
                    &comm,
                    Step {
                        what: What::Barrier,
                        ..ANY
                    },
                );
                if me == 0 {
                    return;
                }
                let boards = board::of(&hold, &comm).unwrap().clone();
                let next = |between: u64| boards.lead(&hold, boards.lead.barrier.get() + 1 + between);
                let start = |awaited| boards.has_started(&hold, awaited);
                let root = (leads == 1).then_some(0);
                start(Some((0, true)));
                assert_eq!(next(0), root);
                start(Some((0, false)));
                assert_eq!(next(0), root, "what has come is no reason to go first");
                assert_eq!(next(0), None, "nothing came in between");
                start(Some((0, false)));
                start(Some((0, true)));
                assert_eq!(next(0), None, "only the first one counts");
                for awaited in [Some((0, true)), None] {
                    start(Some((0, true)));
                    start(awaited);
                    assert_eq!(next(0), root.filter(|_| awaited.is_some()), "it gave something");
                }
            });
        }
    }

    #[test]
    fn behind_a_scan_the_upper_of_two_ranks_of_a_cpu_follows_the_lower() {
        for (ranks, leads) in [(2, 1), (2, 0), (3, 1)] {
            let over = Barrier::new(ranks);
            support::job(ranks as u32, 1, &[("NEARMPI_BOARD_LEAD", leads)], false, |me, world| {
                let mut hold = world.hold();
                let comm = hold.world.clone();
                for what in [What::Barrier, What::Scan] {
                    let count = 1;
                    take(&mut hold, &comm, Step { what, count, ..ANY });
                }
                // From here on no rank says itself where it runs.
                over.wait();
                if me == 1 {
                    let here = cpu::current().unwrap();
                    assert!(cpu::bind(&[here as usize].into_iter().collect()));
                    (0..ranks).for_each(|rank| world.segment().rank(rank as u32).bell.seen_on(here));
                    let boards = board::of(&hold, &comm).unwrap().clone();
                    let barrier = boards.lead.barrier.get() + 2;
                    assert_eq!(boards.lead(&hold, barrier), (ranks == 2 && leads == 1).then_some(0));
                    assert_eq!(boards.lead(&hold, barrier + 1), None, "nothing came in between");
                }
                over.wait();
            });
        }
    }

    #[test]
    fn a_rank_looks_on_if_all_here_wait_for_the_same_and_gives_way_otherwise() {
        let over = Barrier::new(4);
        support::job(4, 2, &[], false, |me, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let comm = create::dup(&mut hold, &comm).unwrap();
            // From here on no rank says itself where it runs.
            over.wait();
            if me != 0 {
                over.wait();
                return;
            }
            let boards = board::of(&hold, &comm).unwrap().clone();
            let here = cpu::current().unwrap();
            assert!(cpu::bind(&[here as usize].into_iter().collect()));
            let sits = |rank: u32, cpu| world.segment().rank(rank).bell.seen_on(cpu);
            (1..4).for_each(|rank| sits(rank, here + rank % 2));
            let note = Note {
                tag: 0,
                len: 0,
                far: false,
            };
            let show = |rank: usize, turn| boards.members[rank].board.slot(turn).show(turn, note);
            let wait = |rank: usize, turn, done| Wait {
                board: boards.members[rank].board,
                turn,
                done,
            };
            let looks = |hold: &Hold, rank, turn, done| boards.can_look(hold, &wait(rank, turn, done), rank);
            // Rank 2 is here, and has not shown what all show; then it is the one that is waited for.
            boards.shown[2].set(2);
            boards.shown[3].set(3);
            assert!(!looks(&hold, 1, 3, false));
            show(2, 3);
            assert!(looks(&hold, 1, 3, false) && !looks(&hold, 2, 3, false));
            // All are to be through with it.
            assert!(!looks(&hold, 1, 3, true));
            boards.members[2].board.finish(3);
            assert!(looks(&hold, 1, 3, true));
            // A turn in which this rank shows nothing, and the one after that.
            boards.shown[5].set(5);
            show(2, 5);
            assert!(!looks(&hold, 1, 4, false) && !looks(&hold, 1, 5, false));
            // Rank 2 goes elsewhere; so it needs nothing here.
            boards.shown[6].set(6);
            assert!(!looks(&hold, 1, 6, false));
            sits(2, here + 1);
            assert!(looks(&hold, 1, 6, false));
            // What does not come costs a few changes of place; what comes while a rank looks costs none.
            let given = hold.engine.channel.given();
            assert!(!boards.comes_in_turn(&mut hold, &wait(1, 6, false), 1));
            assert_eq!(hold.engine.channel.given() - given, TIMES);
            show(1, 6);
            assert!(boards.comes_in_turn(&mut hold, &wait(1, 6, false), 1));
            assert_eq!(hold.engine.channel.given() - given, TIMES);
            over.wait();
        });
    }
}
