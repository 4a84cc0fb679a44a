//! Ranks that share CPUs keep to equal numbers on each, and apart from the rank that they wait for.
//!
//! A rank that waits gives its CPU up again and again, and the kernel takes a CPU on which only such a rank runs for as
//! busy as one with three: four ranks on two CPUs stay as one and three for long, and everything that all take part in
//! needs three changes of place, one after the other, instead of two and two side by side. So each rank says on which
//! CPU it waits, and the last rank of a CPU with at least two more than another moves there. What it may run on
//! afterwards is what it was before, so the kernel stays free.
//!
//! Two ranks that send each other messages on one CPU need a change of place for each. So the second of them moves to a
//! CPU that is no fuller, if it waits for the same rank at two looks, and no rank moves to that of the one it waits for. Two
//! that exchange many messages for each change of place stay: they need no other CPU than the one they have.

use super::{Bytes, Channel};
use crate::sys::cpu;
use crate::sys::cpuset::CpuSet;

/// Looks at the others come once in so many times that the CPU is given up.
const EVERY: u32 = 32;
/// Two ranks that exchange more records than this for each time that the CPU is given up may stay together.
const FEW: u32 = 8;

/// The rank that this one waited for when it looked where it should be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mate {
    rank: u32,
    /// Records that the two had exchanged.
    dealt: u32,
}

impl Mate {
    /// Whether it was the same one at the look `before`, and few records have come and gone since.
    fn is_still(self, before: Option<Mate>) -> bool {
        before.is_some_and(|before| before.rank == self.rank && self.dealt.wrapping_sub(before.dealt) <= FEW * EVERY)
    }
}

impl<B: Bytes> Channel<B> {
    /// This rank waits, for rank `mate` if that is known, and gives up its CPU; now and then it goes to another one.
    #[inline]
    pub fn spread(&mut self, mate: Option<u32>) {
        self.given = self.given.wrapping_add(1);
        if self.spreads && self.given.is_multiple_of(EVERY) {
            self.move_on(mate);
        }
    }

    /// How often this rank has given up its CPU.
    #[cfg(test)]
    pub fn given(&self) -> u32 {
        self.given
    }

    #[cold]
    fn move_on(&mut self, mate: Option<u32>) {
        self.seen();
        let mate = mate.map(|rank| Mate {
            rank,
            dealt: self.dealt_with(rank),
        });
        let before = std::mem::replace(&mut self.mate, mate);
        let mate = mate.filter(|mate| mate.is_still(before)).map(|mate| mate.rank as usize);
        let bells = (0..self.segment.ranks()).map(|rank| &self.segment.rank(rank).bell);
        // Those who sleep need no CPU.
        let places: Vec<Option<u32>> = bells.map(|bell| bell.cpu().filter(|_| !bell.is_set())).collect();
        // What it was when this was asked last is good enough for most times, in which there is nothing to do.
        let Some(to) = better(&places, self.me as usize, mate, &self.may) else {
            return;
        };
        let may = cpu::mask(0);
        self.may = may.clone();
        if may.has(to) && cpu::bind(&[to].into_iter().collect()) {
            cpu::bind(&may);
            self.seen();
        }
    }

    /// Records that this rank and `mate` have exchanged, modulo 2^32.
    fn dealt_with(&self, mate: u32) -> u32 {
        let (out, ring) = (&self.out[mate as usize], &self.rings[mate as usize]);
        out.producer.pushed().wrapping_add(ring.consumed())
    }
}

/// The CPU out of `may` to which rank `me`, which waits for `mate`, should go: the emptiest, if it has two ranks fewer than
/// `me`'s, of which `me` is the last, or no more and `mate` is on `me`'s; never `mate`'s. `places` are the CPUs on which
/// ranks are, where known.
fn better(places: &[Option<u32>], me: usize, mate: Option<usize>, may: &CpuSet) -> Option<usize> {
    let here = places[me]?;
    let mate = mate.filter(|&mate| mate != me);
    let with_mate = mate.and_then(|mate| *places.get(mate)?);
    let leaves = with_mate == Some(here) && mate < Some(me);
    if !leaves && places[me + 1..].contains(&Some(here)) {
        return None;
    }
    let on = |cpu: u32| places.iter().filter(|&&place| place == Some(cpu)).count();
    let others = may.iter().filter(|&cpu| with_mate != Some(cpu as u32));
    let (count, to) = others.map(|cpu| (on(cpu as u32), cpu)).min()?;
    let fewer = if leaves { 0 } else { 2 };
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
    fn ranks_stay_that_are_spread_or_bound() {
        let both = CpuSet::parse("0-1").unwrap();
        assert_eq!(better(&on(&[0, 1, 0, 1]), 2, None, &both), None);
        assert_eq!(better(&on(&[0, 1, 0]), 2, None, &both), None);
        assert_eq!(better(&on(&[0, 0, 0]), 2, None, &CpuSet::parse("0").unwrap()), None);
    }

    #[test]
    fn two_that_exchange_much_for_each_change_of_place_may_stay_together() {
        let at = |rank, dealt| Mate { rank, dealt };
        let ping_pong = at(1, 1000 + 2 * EVERY);
        assert!(ping_pong.is_still(Some(at(1, 1000))));
        assert!(!ping_pong.is_still(Some(at(2, 1000))) && !ping_pong.is_still(None));
        let window = at(1, u32::MAX).dealt.wrapping_add(65 * EVERY);
        assert!(!at(1, window).is_still(Some(at(1, u32::MAX))));
    }

    #[test]
    fn mates_part_and_stay_apart() {
        let both = CpuSet::parse("0-1").unwrap();
        let go = |cpus: &[i32], me: usize| better(&on(cpus), me, Some(me ^ 1), &both);
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
        assert_eq!(better(&on(&[1, 0, 0, 0]), 3, Some(0), &both), None);
        assert_eq!(better(&on(&[0, 1]), 0, Some(0), &both), None);
    }
}
