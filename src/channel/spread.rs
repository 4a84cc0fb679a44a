//! Ranks that share CPUs keep to equal numbers on each.
//!
//! A rank that waits gives its CPU up again and again, and the kernel takes a CPU on which only such a rank runs for as
//! busy as one with three: four ranks on two CPUs stay as one and three for long, and everything that all take part in
//! needs three changes of place, one after the other, instead of two and two side by side. So each rank says on which
//! CPU it waits, and the last rank of a CPU with at least two more than another moves there. What it may run on
//! afterwards is what it was before, so the kernel stays free.

use super::{Bytes, Channel};
use crate::sys::cpu;
use crate::sys::cpuset::CpuSet;

/// Looks at the others come once in so many times that the CPU is given up.
const EVERY: u32 = 256;

impl<B: Bytes> Channel<B> {
    /// This rank waits and gives up its CPU; now and then it goes to another one.
    #[inline]
    pub fn spread(&mut self) {
        self.given = self.given.wrapping_add(1);
        if self.spreads && self.given.is_multiple_of(EVERY) {
            self.move_on();
        }
    }

    #[cold]
    fn move_on(&mut self) {
        self.seen();
        let bells = (0..self.segment.ranks()).map(|rank| &self.segment.rank(rank).bell);
        // Those who sleep need no CPU.
        let places: Vec<Option<u32>> = bells.map(|bell| bell.cpu().filter(|_| !bell.is_set())).collect();
        // What it was when this was asked last is good enough for most times, in which there is nothing to do.
        let Some(to) = better(&places, self.me as usize, &self.may) else {
            return;
        };
        let may = cpu::mask(0);
        self.may = may.clone();
        if may.has(to) && cpu::bind(&[to].into_iter().collect()) {
            cpu::bind(&may);
            self.seen();
        }
    }
}

/// The CPU out of `may` to which rank `me` should go: the emptiest, if it has two ranks fewer than `me`'s, of which `me`
/// is the last. `places` are the CPUs on which ranks are, where known.
fn better(places: &[Option<u32>], me: usize, may: &CpuSet) -> Option<usize> {
    let here = places[me]?;
    if places[me + 1..].contains(&Some(here)) {
        return None;
    }
    let on = |cpu: u32| places.iter().filter(|&&place| place == Some(cpu)).count();
    let (count, to) = may.iter().map(|cpu| (on(cpu as u32), cpu)).min()?;
    (count + 2 <= on(here)).then_some(to)
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
        assert_eq!(better(&places, 3, &both), Some(1));
        assert!((0..3).all(|rank| better(&places, rank, &both).is_none()));
        // Nobody is counted who sleeps, or whose place is not known.
        assert_eq!(better(&on(&[0, 0, -1, -1]), 1, &both), Some(1));
        assert_eq!(better(&on(&[0, 0, -1, -1]), 3, &both), None);
    }

    #[test]
    fn ranks_stay_that_are_spread_or_bound() {
        let both = CpuSet::parse("0-1").unwrap();
        assert_eq!(better(&on(&[0, 1, 0, 1]), 2, &both), None);
        assert_eq!(better(&on(&[0, 1, 0]), 2, &both), None);
        assert_eq!(better(&on(&[0, 0, 0]), 2, &CpuSet::parse("0").unwrap()), None);
    }
}
