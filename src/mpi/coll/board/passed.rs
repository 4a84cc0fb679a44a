//! Nonblocking operations of two ranks in which each waits for what the other one shows have memory for that which they pass to each
//! other: whoever has read there, and has it in its cache, is the next to write there.
//!
//! Each brings along two *areas*, the upper half of its room, and shows in one that it has: that of which it got hold last. With what
//! is shown the area goes to its reader, who has it when it has read. Nobody waits for one: who has none, or shows something longer,
//! takes the rest of its room.

use super::Boards;
use super::swap::swappers;
use crate::mpi::comm::Comm;
use crate::mpi::world::Hold;
use crate::shm::board::{INLINE, ROOM, Slot};
use std::cell::RefCell;

/// Bytes of an area.
const AREA: usize = ROOM.0 / 4;

/// The areas of two members that one of them has.
#[derive(Debug)]
pub struct Areas {
    /// Whose they were at first, and their places behind the beginning of its scratch memory.
    here: RefCell<Vec<(usize, usize)>>,
    /// Those of either member.
    places: [usize; 2],
}

impl Areas {
    /// Those in the `room` of `comm`, if that is wide and has two members on CPUs of their own, with `NEARMPI_BOARD_SWAP`.
    pub(super) fn open(hold: &Hold, comm: &Comm, room: (usize, usize)) -> Option<Areas> {
        swappers(hold, comm).filter(|_| room.1 == ROOM.0)?;
        let places = [2, 3].map(|quarter| room.0 + quarter * AREA);
        let here = places.map(|place| (comm.rank as usize, place)).into();
        Some(Areas {
            here: RefCell::new(here),
            places,
        })
    }

    /// Whether one for `len` bytes is here.
    pub(super) fn has(&self, len: usize) -> bool {
        len <= AREA && !self.here.borrow().is_empty()
    }

    /// One for `len` bytes.
    pub(super) fn take(&self, len: usize) -> Option<(usize, usize)> {
        self.here.borrow_mut().pop_if(|_| len <= AREA)
    }

    /// This rank has read what the other one has shown with `slot`.
    fn bring(&self, slot: &Slot) {
        let (offset, Some(whose)) = slot.place() else {
            return;
        };
        let (area, mut here) = ((whose, offset as usize), self.here.borrow_mut());
        // What a faulty rank says may not be an area, or one that is here.
        if self.places.contains(&area.1) && !here.contains(&area) {
            here.push(area);
        }
    }
}

impl Boards {
    /// This rank has read what the members have shown in turn `number`, in which all wait for all.
    pub(super) fn bring_areas(&self, number: u64) {
        if let Some(areas) = &self.areas {
            let slot = self.members[1 - self.me].board.slot(number);
            if slot.note().len as usize > INLINE {
                areas.bring(slot);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SUM, combined, job, reduction, values};
    use super::*;
    use crate::mpi::coll::call::{Task, begin};
    use crate::mpi::coll::{board, internal};
    use crate::mpi::pt2pt::wait;
    use crate::mpi::request::RequestKey;
    use crate::shm::board::place_of;
    use crate::shm::sync::Ordering;
    use std::rc::Rc;

    fn start(hold: &mut Hold, comm: &Rc<Comm>, got: &mut [i32]) -> RequestKey {
        let task = Task::Allreduce(reduction(hold, SUM, None, got, got.len()));
        begin(hold, comm, task).unwrap()
    }

    /// Whose areas rank 0 showed its operands in, of operations under way together, of so many elements.
    fn shown(ranks: u32, cpus: u32, set: &[(&str, u64)], counts: &[usize], together: usize) -> Vec<Option<usize>> {
        let all = std::sync::Mutex::new(Vec::new());
        job(ranks, cpus, set, false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let boards = board::of_started(&hold, &comm).unwrap().clone();
            let slot = |number: u64| boards.members[0].board.slot(number);
            let mut seed = 0;
            for counts in counts.chunks(together) {
                let first = boards.next.get();
                let last = first + counts.len() as u64 - 1;
                let mut got: Vec<_> = counts
                    .iter()
                    .zip(seed..)
                    .map(|(&count, seed)| values(seed, rank, count))
                    .collect();
                // Rank 0 shows all of them before the others show one.
                while rank > 0 && slot(last).turn().load(Ordering::Acquire) < last {
                    std::thread::yield_now();
                }
                let under_way: Vec<_> = got.iter_mut().map(|got| start(&mut hold, &comm, got)).collect();
                if rank == 0 {
                    all.lock()
                        .unwrap()
                        .extend((first..=last).map(|number| slot(number).place().1));
                }
                for (request, got) in under_way.into_iter().zip(got) {
                    wait(&mut hold, request).unwrap();
                    assert!(
                        got == combined(SUM, seed, ranks, got.len()),
                        "rank {rank}, operation {seed}"
                    );
                    seed += 1;
                }
                internal::barrier(&mut hold, &comm).unwrap();
            }
        });
        all.into_inner().unwrap()
    }

    #[test]
    fn each_of_two_ranks_shows_where_it_has_read_last() {
        let expected: Vec<_> = (0..12).map(|count| Some(count % 2)).collect();
        assert_eq!(shown(2, 2, &[], &[100, 16_000, 600].repeat(4), 1), expected);
    }

    #[test]
    fn who_has_no_area_shows_in_its_own_room() {
        // Rank 1 ends its operations one by one, and passes on what it brought along and what it was passed.
        let places = shown(2, 2, &[], &[5000; 12], 4);
        assert_eq!(places[..4], [Some(0), Some(0), None, None]);
        assert!(places[4..8].contains(&Some(1)));
    }

    #[test]
    fn others_keep_to_their_own_memory() {
        assert_eq!(shown(2, 2, &[("NEARMPI_BOARD_SWAP", 0)], &[600; 4], 1), [None; 4]);
        assert_eq!(shown(2, 1, &[], &[600; 4], 1), [None; 4]);
        assert_eq!(shown(3, 3, &[], &[600; 4], 1), [None; 4]);
    }

    /// Rank 0 reduces only when rank 1 shows the next operand already, where rank 0 has shown its own.
    #[test]
    fn an_operand_in_place_is_whole_when_the_other_rank_is_ahead() {
        let count = 5000;
        job(2, 2, &[], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let boards = board::of_started(&hold, &comm).unwrap().clone();
            let second = boards.next.get() + 1;
            let mut got = [1, 2].map(|seed| values(seed, rank, count));
            for (seed, got) in (1..).zip(&mut got) {
                let request = start(&mut hold, &comm, got);
                let slot = boards.members[1].board.slot(second);
                while (rank, seed) == (0, 1) && slot.turn().load(Ordering::Acquire) < second {
                    std::thread::yield_now();
                }
                wait(&mut hold, request).unwrap();
            }
            for (seed, got) in (1..).zip(got) {
                assert!(got == combined(SUM, seed, 2, count), "rank {rank}, operation {seed}");
            }
        });
    }

    /// What a faulty rank shows is not an area, or one that it has not.
    #[test]
    fn only_an_area_of_the_other_rank_is_brought() {
        let (shm, room) = (Slot::default(), 1 << 20);
        let areas = Areas {
            here: RefCell::new(vec![(0, room)]),
            places: [room, room + AREA],
        };
        for (whose, offset, expected) in [(0, room, 1), (1, room + 64, 1), (1, room, 2), (1, room, 2)] {
            shm.set_place(place_of(whose, offset as u64));
            areas.bring(&shm);
            assert_eq!(areas.here.borrow().len(), expected);
        }
        shm.set_place(room as u64 + AREA as u64);
        areas.bring(&shm);
        assert_eq!((areas.take(AREA + 1), areas.take(AREA)), (None, Some((1, room))));
    }
}
