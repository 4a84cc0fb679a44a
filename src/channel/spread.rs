//! Ranks that share CPUs keep to equal numbers on each, and apart from the rank that they wait for.
//!
//! A rank that waits gives its CPU up again and again, and the kernel takes a CPU on which only such a rank runs for as
//! busy as one with three: four ranks on two CPUs stay as one and three for long, and everything that all take part in
//! needs three changes of place, one after the other, instead of two and two side by side. So each rank says on which
//! CPU it waits, and the last rank of a CPU with at least two more than another moves there. What it may run on
//! afterwards is what it was before, so the kernel stays free.
//!
//! Two ranks that send each other messages on one CPU need a change of place for each. So the second of them moves to a CPU that is
//! no fuller, if it waits for the same rank at two looks and has little to do with others (neighbours in a ring would move on and on),
//! and no rank moves to that of the one it waits for. Two that exchange many messages for each change of place, or longer ones, are
//! better off together, for what one has written lies in the cache of the other: they stay, and one goes where the other is if that
//! CPU is no fuller than its own and it has little to do with others. Who waits for several messages does not know for whom: for this
//! rule, and for no other, the rank counts that it heard of before.

use super::{Bytes, Channel};
use crate::shm::segment::Life;
use crate::sys::cpu;
use crate::sys::cpuset::CpuSet;

/// Looks at the others come once in so many times that the CPU is given up.
const EVERY: u32 = 32;
/// Of so many looks the lower one of two mates goes to the other at one only.
const PATIENCE: u32 = 4;
/// Two ranks that exchange more records than this for each time that the CPU is given up are better off together.
const FEW: u32 = 8;
/// ... or so many bytes a record: copying them from cache to cache takes longer than a change of place.
const LONG: u32 = 3072;

/// The rank that this one waited for when it looked where it should be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mate {
    rank: u32,
    dealt: Dealt,
    /// ... and what this one had with all.
    total: Dealt,
}

/// What two ranks have exchanged, modulo 2^32 each.
#[derive(Clone, Copy, Debug, Default)]
struct Dealt {
    records: u32,
    /// Those that came and went through rings, went by shuttle, or went in long messages, which may count twice.
    bytes: u32,
}

/// What a rank has to do with its mate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bond {
    /// Each waits for the other one's messages, and few come and go with others.
    Turns,
    /// Many messages come and go at a time, or long ones, and few with others.
    Bulk,
}

impl Dealt {
    fn since(self, before: Dealt) -> Dealt {
        Dealt {
            records: self.records.wrapping_sub(before.records),
            bytes: self.bytes.wrapping_sub(before.bytes),
        }
    }

    fn with(self, other: Dealt) -> Dealt {
        Dealt {
            records: self.records.wrapping_add(other.records),
            bytes: self.bytes.wrapping_add(other.bytes),
        }
    }
}

impl Mate {
    /// If it was the same one at the look `before`: what has come and gone since.
    fn bond(self, before: Option<Mate>) -> Option<(usize, Bond)> {
        let before = before.filter(|before| before.rank == self.rank)?;
        let (with_it, with_all) = (self.dealt.since(before.dealt), self.total.since(before.total));
        let (long, many) = (
            with_it.bytes > with_it.records.saturating_mul(LONG),
            with_it.records > FEW * EVERY,
        );
        let bond = match long || many {
            true => Bond::Bulk,
            false => Bond::Turns,
        };
        let (one, all) = match long {
            true => (with_it.bytes, with_all.bytes),
            false => (with_it.records, with_all.records),
        };
        let most = u64::from(one) * 4 >= u64::from(all) * 3;
        most.then_some((self.rank as usize, bond))
    }
}

impl<B: Bytes> Channel<B> {
    /// This rank waits, for rank `mate` if that is known, else perhaps for the one that it has heard of last, and gives up its CPU; now and
    /// then it goes to another one.
    #[inline]
    pub fn spread(&mut self, mate: Option<u32>) {
        self.given = self.given.wrapping_add(1);
        if self.spreads {
            self.seen();
            if self.given.is_multiple_of(EVERY) {
                self.move_on(mate);
            }
        }
    }

    /// How often this rank has given up its CPU.
    #[cfg(test)]
    pub fn given(&self) -> u32 {
        self.given
    }

    #[cold]
    fn move_on(&mut self, mate: Option<u32>) {
        let all = 0..self.segment.known();
        // What was heard before this wait tells of many messages only.
        let known = mate.or(self.heard);
        let mate = known.or(self.heard_before).map(|rank| Mate {
            rank,
            dealt: self.dealt_with(rank),
            total: all.fold(Dealt::default(), |sum, rank| sum.with(self.dealt_with(rank))),
        });
        let before = std::mem::replace(&mut self.mate, mate);
        // Lest two change places again and again, the lower one goes where the other is only at one look of some.
        let (me, now) = (self.me as usize, (self.given / EVERY).is_multiple_of(PATIENCE));
        let goes = |&(rank, bond): &(usize, Bond)| match bond {
            Bond::Turns => known.is_some(),
            Bond::Bulk => now || rank < me,
        };
        let mate = mate.and_then(|mate| mate.bond(before)).filter(goes);
        // Those who sleep need no CPU, and those who came later may have gone.
        let place = |rank| {
            let bell = &self.segment.rank(rank).bell;
            let needs = || !bell.is_set() && self.segment.life(rank) == Life::Attached;
            bell.cpu().filter(|_| needs())
        };
        let places: Vec<Option<u32>> = (0..self.segment.known()).map(place).collect();
        // What it was when this was asked last is good enough for most times, in which there is nothing to do.
        let Some(to) = better(&places, me, mate, &self.may) else {
            return;
        };
        let may = cpu::mask(0);
        self.may = may.clone();
        if may.has(to) && cpu::bind(&[to].into_iter().collect()) {
            cpu::bind(&may);
            self.seen();
        }
    }

    /// What this rank and `mate` have exchanged.
    fn dealt_with(&self, mate: u32) -> Dealt {
        let out = &self.out[mate as usize];
        let ((pushed, sent), (consumed, read)) = (out.producer.pushed(), self.rings[mate as usize].consumed());
        Dealt {
            records: pushed.wrapping_add(consumed),
            bytes: [read, out.shuttles.gone(), out.large as u32]
                .into_iter()
                .fold(sent, u32::wrapping_add),
        }
    }
}

/// The CPU out of `may` to which rank `me`, which waits for `mate`, should go; `places` are the CPUs on which ranks are, where known.
///
/// - That of its mate in bulk, if it is no fuller and `me` leaves others behind.
/// - Else the emptiest but the mate's, of several the next one behind its own, if it has two ranks fewer than `me`'s, of which `me` is
///   the last; three fewer from a mate in bulk, so that the others of its CPU go to theirs; or no more from a mate in turns.
fn better(places: &[Option<u32>], me: usize, mate: Option<(usize, Bond)>, may: &CpuSet) -> Option<usize> {
    let here = places[me]?;
    let on = |cpu: u32| places.iter().filter(|&&place| place == Some(cpu)).count();
    let mate = mate.filter(|&(rank, _)| rank != me);
    let with_mate = mate.and_then(|(rank, _)| *places.get(rank)?);
    let together = with_mate == Some(here);
    let fewer = match mate {
        Some((rank, Bond::Turns)) if together && rank < me => 0,
        Some((_, Bond::Bulk)) if together => 3,
        Some((_, Bond::Bulk)) => {
            let joins = |&there: &u32| may.has(there as usize) && on(here) > 1 && on(there) <= on(here);
            if let Some(there) = with_mate.filter(joins) {
                return Some(there as usize);
            }
            2
        }
        _ => 2,
    };
    if fewer > 0 && places[me + 1..].contains(&Some(here)) {
        return None;
    }
    let others = may.iter().filter(|&cpu| with_mate != Some(cpu as u32));
    // The next one behind its own, lest those of all crowds meet on one.
    let behind = |cpu: usize| (cpu.wrapping_sub(here as usize), cpu);
    let (count, (_, to)) = others.map(|cpu| (on(cpu as u32), behind(cpu))).min()?;
    (count + fewer <= on(here)).then_some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(cpus: &[i32]) -> Vec<Option<u32>> {
        cpus.iter().map(|&cpu| u32::try_from(cpu).ok()).collect()
    }

    #[test]
    fn the_last_rank_of_a_crowd_goes_where_there_is_room() {
        let both = CpuSet::parse("0-1").unwrap();
        let places = on(&[0, 0, 1, 0]);
        assert_eq!(better(&places, 3, None, &both), Some(1));
        assert!((0..3).all(|rank| better(&places, rank, None, &both).is_none()));
        // Nobody is counted who sleeps, or whose place is not known.
        assert_eq!(better(&on(&[0, 0, -1, -1]), 1, None, &both), Some(1));
        assert_eq!(better(&on(&[0, 0, -1, -1]), 3, None, &both), None);
    }

    #[test]
    fn who_was_heard_of_before_a_wait_is_remembered() {
        let (mut low, _high) = super::super::joint::tests::channels();
        low.noticed(1);
        assert_eq!((low.heard(), low.heard()), (Some(1), None));
        assert_eq!(low.heard_before, Some(1));
    }

    #[test]
    fn the_last_of_two_crowds_part() {
        let four = CpuSet::parse("0-3").unwrap();
        let places = on(&[0, 2, 0, 2]);
        assert_eq!([2, 3].map(|me| better(&places, me, None, &four)), [Some(1), Some(3)]);
    }

    #[test]
    fn ranks_stay_that_are_spread_or_bound() {
        let both = CpuSet::parse("0-1").unwrap();
        assert_eq!(better(&on(&[0, 1, 0, 1]), 2, None, &both), None);
        assert_eq!(better(&on(&[0, 1, 0]), 2, None, &both), None);
        assert_eq!(better(&on(&[0, 0, 0]), 2, None, &CpuSet::parse("0").unwrap()), None);
    }

    #[test]
    fn mates_take_turns_or_exchange_many_messages_at_a_time() {
        let dealt = |records: u32, bytes: u32| Dealt { records, bytes };
        let at = |rank, dealt, total| Mate { rank, dealt, total };
        let start = dealt(u32::MAX - 10, u32::MAX - 10);
        let before = Some(at(1, start, dealt(5, 5)));
        let after = |with_it: Dealt, others: Dealt| {
            let now = at(1, start.with(with_it), dealt(5, 5).with(with_it).with(others));
            now.bond(before).map(|(_, bond)| bond)
        };
        let (none, turns) = (dealt(0, 0), 2 * EVERY);
        let (short, long, window) = (
            dealt(turns, turns * 1024),
            dealt(turns, turns * 4096),
            dealt(65 * EVERY, 65 * EVERY * 8),
        );
        assert_eq!(after(short, none), Some(Bond::Turns));
        assert_eq!(after(long, none), Some(Bond::Bulk));
        assert_eq!(after(window, none), Some(Bond::Bulk));
        // With others it has as much to do: neighbours in a ring would change CPUs again and again.
        assert!([short, long, window].iter().all(|&some| after(some, some).is_none()));
        let other = at(2, start, start);
        assert!(other.bond(before).is_none() && other.bond(None).is_none());
    }

    #[test]
    fn mates_in_bulk_come_together_and_leave_others_theirs() {
        let both = CpuSet::parse("0-1").unwrap();
        let go = |cpus: &[i32], me: usize, step: usize| better(&on(cpus), me, Some((me ^ step, Bond::Bulk)), &both);
        let all = |cpus: &[i32], step| [0, 1, 2, 3].map(|me| go(cpus, me, step));
        assert_eq!(all(&[0, 1, 0, 1], 2), [None; 4], "together");
        assert_eq!(all(&[0, 0, 1, 1], 2), [Some(1), Some(1), Some(0), Some(0)]);
        assert_eq!(all(&[0, 0, 0, 1], 2), [None, Some(1), None, None]);
        assert_eq!(all(&[0, 0, 0, 0], 2), [None, None, None, Some(1)]);
        assert_eq!(all(&[0, 1, -1, -1], 1)[..2], [None; 2], "each has a CPU");
        let narrow = CpuSet::parse("1").unwrap();
        assert_eq!(better(&on(&[0, 1, 1]), 1, Some((0, Bond::Bulk)), &narrow), None);
    }

    #[test]
    fn mates_in_bulk_find_each_other_from_anywhere() {
        let both = CpuSet::parse("0-1").unwrap();
        let mut random = 1u64;
        // Ranks `me` and `me + half` exchange messages.
        for (ranks, start) in (0..16).map(|start| (4, start)).chain((0..256).map(|start| (8, start))) {
            let half = ranks / 2;
            let mut places: Vec<Option<u32>> = (0..ranks).map(|rank| Some(start >> rank & 1)).collect();
            for _ in 0..400 {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let me = (random >> 33) as usize % ranks;
                let mate = ((me + half) % ranks, Bond::Bulk);
                if let Some(to) = better(&places, me, Some(mate), &both) {
                    places[me] = Some(to as u32);
                }
            }
            let second = places.iter().filter(|&&place| place == Some(1)).count();
            assert_eq!(places[..half], places[half..], "from {start:b}");
            assert_eq!(second, half, "from {start:b}");
        }
    }

    #[test]
    fn mates_part_and_stay_apart() {
        let both = CpuSet::parse("0-1").unwrap();
        let go = |cpus: &[i32], me: usize| better(&on(cpus), me, Some((me ^ 1, Bond::Turns)), &both);
        // Two pairs, each on a CPU: one of a pair goes, and then one of the other, whoever is first.
        let together = [0, 0, 1, 1];
        assert_eq!([0, 1, 2, 3].map(|me| go(&together, me)), [None, Some(1), None, Some(0)]);
        assert_eq!(
            [0, 1, 2, 3].map(|me| go(&[0, 1, 1, 1], me)),
            [None, None, None, Some(0)]
        );
        assert_eq!(
            [0, 1, 2, 3].map(|me| go(&[0, 0, 1, 0], me)),
            [None, Some(1), None, None]
        );
        assert_eq!([0, 1, 2, 3].map(|me| go(&[0, 1, 1, 0], me)), [None; 4]);
        // Nobody leaves for a fuller CPU, or for the one where the mate is; a rank waits for itself in vain.
        assert_eq!(go(&[0, 0, 1, 1, 1], 1), None);
        assert_eq!(better(&on(&[1, 0, 0, 0]), 3, Some((0, Bond::Turns)), &both), None);
        assert_eq!(better(&on(&[0, 1]), 0, Some((0, Bond::Turns)), &both), None);
    }
}
