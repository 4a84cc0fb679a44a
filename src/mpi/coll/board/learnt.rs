//! Whether long data are shown or offered, where neither is best everywhere. Data that the program has rewritten lie in its
//! own cache: two copies through scratch memory, whose lines both ranks know, are quicker than one copy out of the program's
//! memory, which takes each line away twice. Data that nobody has touched since they were read last still lie in their
//! reader's cache, and one copy out of there is quicker than two.
//!
//! Whoever has data may show or offer them as it likes: readers take both. So nothing has to be agreed, and each rank finds out
//! for its own data. Now and then it offers them. Whoever reads them takes the time, compares it with that of reading the
//! same bytes once more, when they are in its cache for certain, and says both on its board ([`Verdict`]).

use super::far::Offer;
use super::{Boards, Learns, Turn};
use crate::shm::board::Verdict;
use crate::sys::selection::Operation;
use std::cell::RefCell;

/// Calls until data are offered for the first time; the next times come after four times as many each, up to `RARE`. So often
/// those that are always offered are shown, and read once more, to see whether that takes as long as it did.
const FIRST: u32 = 4;
const RARE: u32 = 256;
/// Calls in a row that offer data to find out: the first one finds little of what it needs in the caches, so it does not count.
const TRIAL: u32 = 3;
/// Calls between two whose showing is timed: the clock takes as long as some hundreds of bytes.
const TIMED: u32 = 16;
/// Verdicts in a row against offering that end it.
const SURE: u32 = 2;
/// Lengths of a class are at most twice each other.
const CLASSES: usize = 32;
/// Offering is better if reading takes less than so many percent of showing and copying what is shown.
const BOTH: u64 = 85;
/// Reading is slow from so many percent of what it takes from the own cache.
const SLOW: u64 = 160;

/// What has been learnt on a communicator, of each operation and class of lengths.
#[derive(Debug, Default)]
pub(super) struct Learnt {
    all: RefCell<Vec<(Operation, usize, Known)>>,
}

#[derive(Debug, Default)]
struct Known {
    calls: u32,
    /// Whether data are offered, and how many of the last verdicts were against it.
    offers: bool,
    against: u32,
    /// Calls of a trial that are left.
    trial: u32,
    /// Picoseconds that showing a byte takes.
    cost: Pace,
    /// Whether the other one of two ranks offered its data last.
    offered: bool,
    /// ... and copying one out of what another rank shows in the same call, which takes as long as others need for what this one
    /// shows: the line may be the peer's own, and then that is several times as much (Intel Sapphire Rapids: 17 and 95).
    read: Pace,
}

/// Picoseconds that a byte takes, at best: what disturbs makes it slower only.
#[derive(Clone, Copy, Debug, Default)]
struct Pace(Option<u64>);

/// What a rank knows of reading other ranks' memory.
#[derive(Debug, Default)]
pub struct Paces {
    /// Bytes that are in its cache, by class of length.
    cached: [(Pace, u32); CLASSES],
}

/// The class of a length.
fn class_of(len: usize) -> usize {
    (len.max(1).ilog2() as usize).min(CLASSES - 1)
}

/// Picoseconds a byte.
fn pace(nanoseconds: u64, len: usize) -> u64 {
    nanoseconds.saturating_mul(1000) / len.max(1) as u64
}

impl Pace {
    fn learn(&mut self, now: u64) {
        self.0 = Some(match self.0 {
            Some(old) if now > old => old + (now - old) / 4,
            _ => now,
        });
    }
}

impl Paces {
    /// What there is to say of `len` bytes that were read in `turn` in so many nanoseconds; `again` reads them once more and says
    /// how long that took.
    pub fn judge(&mut self, turn: u64, nanoseconds: u64, len: usize, mut again: impl FnMut() -> u64) -> Verdict {
        let (cached, age) = &mut self.cached[class_of(len)];
        let twice = *age < FIRST || age.is_multiple_of(RARE);
        if twice {
            cached.learn(pace(again(), len));
        }
        *age = age.wrapping_add(1);
        let pace = pace(nanoseconds, len);
        Verdict {
            turn,
            pace,
            fresh: pace * 100 > cached.0.unwrap_or(0) * SLOW,
            twice,
        }
    }
}

impl Known {
    /// Whether the next call offers its data.
    fn next(&mut self) -> bool {
        let call = self.calls;
        self.calls = call.wrapping_add(1);
        if self.offers {
            return !call.is_multiple_of(RARE);
        }
        let due = match call {
            0..RARE => call >= FIRST && call.is_power_of_two() && call.ilog2().is_multiple_of(2),
            _ => call.is_multiple_of(RARE),
        };
        if due {
            self.trial = TRIAL;
        }
        self.trial > 0
    }

    /// The readers took `took` a byte, and not out of their caches if `fresh`, and kept this rank waiting for so long; showing them is as
    /// quick if that takes `worth` percent of copying them to scratch memory, where nothing is known of the copies out of it.
    fn judge(&mut self, (took, waited): (u64, u64), fresh: bool, worth: u64) {
        let took = took.max(waited);
        let shown = self.cost.0.map(|cost| match self.read.0 {
            Some(read) => (cost + read) * BOTH,
            None => cost * worth,
        });
        let better = !fresh && shown.is_some_and(|shown| took * 100 < shown);
        if self.offers {
            self.against = if better { 0 } else { self.against + 1 };
            self.offers = self.against < SURE;
        } else if self.trial > 0 {
            let first = self.trial == TRIAL;
            self.trial = if better || first { self.trial - 1 } else { 0 };
            (self.offers, self.against) = (better && self.trial == 0, 0);
        }
    }
}

impl Boards {
    fn about<T>(&self, what: Operation, len: usize, ask: impl FnOnce(&mut Known) -> T) -> T {
        let mut all = self.learnt.all.borrow_mut();
        let class = class_of(len);
        let index = all
            .iter()
            .position(|one| (one.0, one.1) == (what, class))
            .unwrap_or_else(|| {
                all.push((what, class, Known::default()));
                all.len() - 1
            });
        ask(&mut all[index].2)
    }

    /// Whether this rank offers its data in a call of `what`, of `len` bytes, and whether it takes the time if it shows them.
    pub fn offers(&self, what: Operation, len: usize) -> (bool, bool) {
        self.about(what, len, |known| {
            let timed = known.calls < FIRST || known.calls.is_multiple_of(TIMED);
            (known.next(), timed)
        })
    }

    /// Whether the other one of two ranks offered its data in the last such call.
    pub(super) fn was_offered(&self, what: Operation, len: usize) -> bool {
        self.about(what, len, |known| known.offered)
    }

    /// ... and whether it does in this one.
    pub(super) fn is_offered(&self, what: Operation, len: usize, offered: bool) {
        self.about(what, len, |known| known.offered = offered);
    }

    /// This rank has shown `bytes` bytes in such a call, in so many nanoseconds.
    pub(super) fn has_shown(&self, what: Operation, len: usize, nanoseconds: u64, bytes: usize) {
        self.about(what, len, |known| known.cost.learn(pace(nanoseconds, bytes)));
    }

    /// This rank has copied `bytes` bytes out of what others have shown in such a call, in so many nanoseconds.
    pub(super) fn has_read(&self, what: Operation, len: usize, nanoseconds: u64, bytes: usize) {
        self.about(what, len, |known| known.read.learn(pace(nanoseconds, bytes)));
    }

    /// This rank has sent its data in such a call, which kept it so many nanoseconds; `worth` as for [`Boards::learn`].
    pub(super) fn has_sent(&self, what: Operation, len: usize, nanoseconds: u64, worth: u64) {
        self.about(what, len, |known| {
            known.judge((0, pace(nanoseconds, len)), false, worth)
        });
    }

    /// The readers of `offer` are through with it: learns what they say. Showing is as quick if reading takes `worth` percent
    /// of a copy to scratch memory. Who would not wait for readers of what it shows has waited so many nanoseconds for these;
    /// if they read twice that tells nothing.
    pub(super) fn learn(&self, Learns { what, len, .. }: Learns, turn: &Turn, offer: &Offer, worth: u64, waited: u64) {
        let mut all = Verdict {
            turn: turn.number,
            pace: 0,
            fresh: false,
            twice: false,
        };
        for rank in offer.readers() {
            let board = self.members[rank as usize].board;
            // Who could not read says nothing.
            let one = board
                .verdict()
                .filter(|verdict| verdict.turn == turn.number & Verdict::TURN);
            all.pace = all.pace.max(one.map_or(0, |one| one.pace));
            all.fresh |= one.is_none_or(|one| one.fresh);
            all.twice |= one.is_some_and(|one| one.twice);
        }
        if waited == 0 || !all.twice {
            self.about(what, len, |known| {
                known.judge((all.pace, pace(waited, len)), all.fresh, worth)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ANY, Step, What, take};
    use super::*;
    use crate::mpi::coll::args::Root;
    use crate::mpi::coll::call::{self, Task};
    use crate::mpi::coll::{board, support};
    use crate::mpi::error::Class;

    /// A program whose readers take `took` a byte, while showing takes `cost`: how many of `calls` were offered.
    fn run(known: &mut Known, calls: u32, took: u64, fresh: bool, cost: u64) -> u32 {
        let offered = |known: &mut Known| match known.next() {
            true => {
                known.judge((took, 0), fresh, 170);
                1
            }
            false => {
                known.cost.learn(cost);
                0
            }
        };
        (0..calls).map(|_| offered(known)).sum()
    }

    #[test]
    fn untouched_data_come_to_be_offered_and_rewritten_ones_to_be_shown() {
        let mut known = Known::default();
        assert!(run(&mut known, 10, 27, false, 30) >= 2);
        assert!(run(&mut known, 1000, 27, false, 30) >= 980);
        assert!(run(&mut known, 10, 27, true, 30) <= 4);
        assert!(run(&mut known, 1000, 27, true, 30) <= 20);
        // They lie in a cache that both ranks share, where two copies are quick.
        assert!(run(&mut known, 10, 27, false, 10) <= 3);
        assert!(run(&mut known, 1000, 27, false, 10) <= 20);
    }

    #[test]
    fn what_copies_out_of_others_memory_take_counts_where_it_is_known() {
        let mut known = Known::default();
        assert!(run(&mut known, 1000, 48, false, 17) <= 20, "two copies seem to take 29");
        known.read.learn(95);
        assert!(run(&mut known, 1000, 48, false, 17) >= 700, "they take 112");
        assert!(run(&mut known, 1000, 48, true, 17) <= 20);
        let mut quick = Known::default();
        quick.read.learn(17);
        assert!(run(&mut quick, 1000, 48, false, 17) <= 20);
    }

    #[test]
    fn one_call_that_was_disturbed_changes_nothing() {
        let mut known = Known::default();
        run(&mut known, 100, 27, false, 30);
        known.judge((500, 0), true, 170);
        assert!(known.offers);
        known.judge((27, 0), false, 170);
        known.judge((500, 0), true, 170);
        assert!(known.offers);
        known.judge((500, 0), true, 170);
        assert!(!known.offers);
        known.cost.learn(10_000);
        assert!(known.cost.0.unwrap() < 3000);
        // The first call of a trial does not count, one of the next is enough against it.
        let mut trial = |verdicts: &[bool]| {
            while !known.next() {}
            for &fresh in verdicts {
                known.judge((27, 0), fresh, 17_000);
                known.next();
            }
            (std::mem::take(&mut known.offers), std::mem::take(&mut known.trial))
        };
        assert_eq!(trial(&[true, false, false]), (true, 0));
        assert_eq!(trial(&[false, true]), (false, 0));
        assert_eq!(trial(&[false, false, true]), (false, 0));
    }

    #[test]
    fn what_is_read_is_compared_with_reading_it_again_now_and_then() {
        let (mut paces, mut again) = (Paces::default(), 0);
        let mut twice = 0;
        let mut judge = |nanoseconds| {
            let said = paces.judge(7, nanoseconds, 100_000, || {
                again += 1;
                2000
            });
            assert_eq!(said.turn, 7);
            twice += u32::from(said.twice);
            (said.pace, said.fresh)
        };
        assert_eq!(judge(5000), (50, true));
        assert_eq!(judge(2100), (21, false));
        assert_eq!(judge(3300), (33, true));
        (3..2 * RARE).for_each(|_| assert!(!judge(2100).1));
        assert_eq!((again, twice), (FIRST + 1, FIRST + 1));
    }

    /// Whether rank 0 offered its data in call `FIRST` of each operation on boards that learn, and what its reader, rank 1, said
    /// of them in the last one; `take` compares what has come with its definition.
    fn tried(refused: bool) -> Vec<(bool, Option<Verdict>)> {
        let outcome = std::sync::Mutex::new(Vec::new());
        support::job(2, 8, &[], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            if refused {
                hold.engine.channel.never_read(1 - rank);
            }
            for what in [
                What::Bcast,
                What::Scatter,
                What::Scatterv,
                What::Allgather,
                What::Allgatherv,
                What::Alltoall,
                What::Alltoallv,
                What::Gather,
                What::Gatherv,
                What::Reduce,
                What::Scan,
                What::Exscan,
            ] {
                // What has been learnt of one is known of its kin.
                board::of(&hold, &comm).unwrap().learnt.all.borrow_mut().clear();
                for seed in 0..=FIRST {
                    // Of rank 0 60,000 to 120,000 bytes, or 30,000 to 60,000: a broadcast of several pieces; or what is not sent.
                    let count = match what {
                        What::Gather => 7_000,
                        What::Bcast | What::Gatherv | What::Exscan => 15_000,
                        _ => 30_000,
                    };
                    let root = matches!(what, What::Gather | What::Gatherv | What::Reduce).into();
                    take(
                        &mut hold,
                        &comm,
                        Step {
                            what,
                            root,
                            count,
                            seed,
                            ..ANY
                        },
                    );
                }
                let boards = board::of(&hold, &comm).unwrap();
                if rank == 0 {
                    let known = boards.learnt.all.borrow();
                    let tried = known.last().is_some_and(|(_, _, known)| known.trial > 0);
                    outcome.lock().unwrap().push((tried, boards.members[1].board.verdict()));
                }
            }
        });
        outcome.into_inner().unwrap()
    }

    #[test]
    fn who_would_not_wait_for_a_late_root_does_not_come_to_offer_its_data() {
        let late = |waited| {
            let mut known = Known::default();
            known.cost.learn(30);
            for _ in 0..10 {
                if known.next() {
                    known.judge((27, waited), false, 120);
                }
            }
            known.offers
        };
        assert!(late(0) && late(35) && !late(37) && !late(17_000));
    }

    /// Gathers of `count` integers at rank 1 on boards that learn: after each of so many calls, what rank 0 has still to try of a trial.
    fn gathered(count: usize, calls: u32) -> Vec<u32> {
        let outcome = std::sync::Mutex::new(Vec::new());
        support::job(2, 8, &[], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            for seed in 0..calls {
                let what = What::Gather;
                take(
                    &mut hold,
                    &comm,
                    Step {
                        what,
                        root: 1,
                        count,
                        seed,
                        ..ANY
                    },
                );
                let boards = board::of(&hold, &comm).unwrap();
                if rank == 0 {
                    outcome
                        .lock()
                        .unwrap()
                        .push(boards.learnt.all.borrow().last().unwrap().2.trial);
                }
            }
        });
        outcome.into_inner().unwrap()
    }

    #[test]
    fn waiting_for_who_reads_twice_says_nothing() {
        let left = gathered(7_000, 2 * FIRST + 1);
        assert_eq!(left[..FIRST as usize], [0; FIRST as usize]);
        assert_eq!(left[FIRST as usize..2 * FIRST as usize], [TRIAL; FIRST as usize]);
        assert_eq!(left[2 * FIRST as usize], TRIAL - 1);
    }

    #[test]
    fn what_is_sent_says_nothing_while_messages_try_ways() {
        let left = gathered(30_000, 300);
        let tries = left.iter().filter(|&&left| left == TRIAL).count();
        assert!(tries > 10 && left.contains(&(TRIAL - 1)), "{left:?}");
    }

    #[test]
    fn a_root_with_room_for_another_number_of_bytes_than_are_sent_is_told_so() {
        let outcome = |room: usize| {
            let outcome = std::sync::Mutex::new([None; 2]);
            support::job(2, 8, &[], false, |rank, world| {
                let mut hold = world.hold();
                let comm = hold.world.clone();
                let boards = board::of(&hold, &comm).unwrap();
                boards.about(Operation::Gather, 120_000, |known| {
                    (known.calls, known.offers) = (1, true)
                });
                let (mut mine, mut all) = (vec![1; [30_000, room][rank as usize]], vec![0; 2 * room]);
                let recv = (rank == 1).then(|| support::regular(&mut all, 2));
                let task = Task::Gather(Root::Rank(1), Some(support::data(&mut mine)), recv, true);
                let error = call::perform(&mut hold, &comm, task).err();
                outcome.lock().unwrap()[rank as usize] = error.map(|error| error.class());
            });
            outcome.into_inner().unwrap()
        };
        for room in [29_000, 31_000] {
            assert_eq!(outcome(room), [None, Some(Class::Other)]);
        }
        assert_eq!(outcome(30_000), [None; 2]);
    }

    #[test]
    fn readers_say_how_they_fared_and_get_what_is_shown_as_well_as_what_is_offered() {
        let tried = tried(false);
        assert!(
            tried.iter().all(|(offered, verdict)| *offered && verdict.is_some()),
            "{tried:?}"
        );
        let turns: std::collections::BTreeSet<_> = tried.iter().map(|(_, verdict)| verdict.unwrap().turn).collect();
        assert_eq!(turns.len(), tried.len());
    }

    #[test]
    fn readers_that_cannot_read_get_messages_and_say_nothing() {
        assert!(tried(true).iter().all(|outcome| *outcome == (true, None)));
    }
}
