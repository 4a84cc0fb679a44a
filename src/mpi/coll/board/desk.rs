//! What a rank has lying about for its boards: scratch memory that others still read, where what is shown takes the first place that is
//! free or goes round.

use super::Boards;
use super::learnt::Paces;
use super::lent::Samples;
use super::started::Open;
use crate::shm::board::{ROOM, ROUND, SCRATCH, TRAYS};
use std::rc::Rc;

/// Pieces of scratch memory begin on multiples of this.
pub const LINE: usize = 64;

/// ... and those of a [`Room`] on multiples of this: one core that reads what is shown fetches lines behind it too.
const APART: usize = 1 << 10;

/// More pieces than these are not looked through before it is known which are read no more.
const MANY: usize = 64;

/// A rank's part of all boards.
#[derive(Default)]
pub struct Desk {
    /// Pieces of scratch memory that somebody may still read, by address.
    lying: Vec<Piece>,
    round: Round,
    /// The turn that each tray showed last, and of which communicator.
    pub trays: [Option<(u64, Rc<Boards>)>; TRAYS],
    /// Nonblocking operations under way.
    pub started: Vec<Open>,
    /// Room for blocks on their way through the cache; whoever uses it takes it and brings it back.
    pub blocks: Vec<u8>,
    /// What was in the buffers that this rank has shown.
    pub samples: Samples,
    /// How long it takes to read other ranks' memory.
    pub paces: Paces,
}

/// How scratch memory is gone round in, on processors where what is written comes quicker to its reader when it has left the second-level
/// caches of both.
#[derive(Debug, Default)]
struct Round {
    /// Bytes of it; 0: the first place that is free is taken, which stays in the caches.
    most: usize,
    /// The place behind the last one that was taken.
    next: usize,
    /// Bytes that have been shown there.
    shown: usize,
}

/// For so many bytes that have been shown one more is gone round in: a new page takes its writer and its readers as long as showing a dozen.
const SHOWN: usize = 64;

impl Round {
    /// One of `most` bytes.
    fn new(most: usize) -> Round {
        Round {
            most,
            ..Round::default()
        }
    }

    /// `len` bytes are shown in a place that ends there.
    fn took(&mut self, end: usize, len: usize) {
        (self.next, self.shown) = (end, self.shown + len);
    }

    /// Bytes of it that are gone round in by now.
    fn room(&self) -> usize {
        self.most.min(self.shown / SHOWN)
    }

    /// The next place for `len` bytes, if `lying` pieces (first byte, end) leave it free, and the number of those before it.
    fn place(&self, len: usize, lying: impl Iterator<Item = (usize, usize)>) -> Option<(usize, usize)> {
        let room = self.room();
        let from = if self.next + len > room { 0 } else { self.next };
        let (mut before, mut free) = (0, from + len <= room);
        for (first, end) in lying {
            before += usize::from(first < from);
            free &= end <= from || from + len <= first;
        }
        free.then_some((from, before))
    }
}

struct Piece {
    from: usize,
    to: usize,
    turn: u64,
    boards: Rc<Boards>,
}

impl Piece {
    /// Whether somebody may still read it whom an operation of `asker` has to leave it to; others are through with the turns up to
    /// `through`.
    fn is_read(&self, through: u64, asker: &Boards) -> bool {
        through < self.turn || self.boards.reads_own(self.turn, asker)
    }
}

/// The first gap of `len` bytes between `pieces` (first byte, end), which lie in a room of `room` bytes in this order, and the
/// number of those before it.
fn gap(pieces: impl Iterator<Item = (usize, usize)>, len: usize, room: usize) -> Option<(usize, usize)> {
    let (mut from, mut before) = (0, 0);
    for (first, end) in pieces {
        if from + len <= first {
            break;
        }
        (from, before) = (end, before + 1);
    }
    (from + len <= room).then_some((from, before))
}

/// A communicator's room for what its nonblocking operations show: scratch memory that one under way held could keep a blocking
/// operation of another communicator from ending, for which the first waits.
#[derive(Debug)]
pub struct Room {
    /// Its place behind the beginning of scratch memory, and its bytes.
    place: (usize, usize),
    /// First byte, end and turn of what somebody may still read, by address.
    lying: Vec<(usize, usize, u64)>,
    round: Round,
}

impl Room {
    /// The room at `place`, `round` bytes of which are gone round in, or none.
    pub fn new(place: (usize, usize), round: usize) -> Room {
        Room {
            place,
            lying: Vec::new(),
            round: Round::new(round.min(place.1)),
        }
    }

    /// Whether `len` bytes have a place, once what was shown up to turn `over` is read no more.
    pub fn has(&mut self, len: usize, over: u64) -> bool {
        self.lying.retain(|&(_, _, turn)| turn > over);
        self.gap(len).is_some()
    }

    /// Takes the first place, or the next one, for `len` bytes that are shown in `turn`.
    pub fn take(&mut self, len: usize, turn: u64) -> Option<usize> {
        let next = self.round.place(len, self.lying());
        let (from, index) = next.or_else(|| self.gap(len))?;
        let to = (from + len).next_multiple_of(APART);
        self.round.took(to, len);
        self.lying.insert(index, (from, to, turn));
        Some(self.place.0 + from)
    }

    fn gap(&self, len: usize) -> Option<(usize, usize)> {
        gap(self.lying(), len, self.place.1)
    }

    fn lying(&self) -> impl Iterator<Item = (usize, usize)> {
        self.lying.iter().map(|&(from, to, _)| (from, to))
    }
}

impl Desk {
    /// That of a rank which goes round in `round` bytes of scratch memory, or in none.
    pub fn new(round: u64) -> Desk {
        Desk {
            round: Round::new((round as usize).min(ROUND)),
            ..Desk::default()
        }
    }

    /// Whether it goes round in all that it shall: then what is written lies in no second-level cache.
    pub fn goes_far(&self) -> bool {
        self.round.most > 0 && self.round.room() == self.round.most
    }

    /// Room for `len` bytes that are read in `turn`; `None` while too much is still being read.
    /// Prefers low addresses, which stay in the cache, unless it goes `round`.
    pub fn place(&mut self, len: usize, turn: u64, boards: &Rc<Boards>, round: bool) -> Option<usize> {
        self.lying.retain(|piece| piece.is_read(piece.boards.through(), boards));
        if self.lying.len() > MANY {
            self.look(boards);
        }
        self.take(len, turn, boards, round).or_else(|| {
            self.look(boards);
            let found = self.take(len, turn, boards, round);
            found.or_else(|| self.take_reserve(len, turn, boards))
        })
    }

    /// Takes a place behind all that is used otherwise, for a communicator that has none anywhere.
    #[cold]
    fn take_reserve(&mut self, len: usize, turn: u64, boards: &Rc<Boards>) -> Option<usize> {
        if self.lying.iter().any(|piece| Rc::ptr_eq(&piece.boards, boards)) {
            return None;
        }
        let before = self.lying.partition_point(|piece| piece.from < ROUND);
        let reserved = self.lying[before..].iter();
        let places = reserved.map(|piece| (piece.from - ROUND, piece.to - ROUND));
        let (from, index) = gap(places, len, SCRATCH - ROUND)?;
        Some(self.insert(before + index, (ROUND + from, len), turn, boards))
    }

    /// Whether there is room for `len` bytes of an operation of `boards` already.
    pub fn has_room(&mut self, len: usize, boards: &Rc<Boards>) -> bool {
        self.look(boards);
        self.gap(len).is_some()
    }

    /// Looks at the boards of all who read, and forgets what they are through with.
    fn look(&mut self, boards: &Rc<Boards>) {
        self.lying
            .retain(|piece| piece.is_read(piece.boards.look_through(), boards));
    }

    /// A place for `len` bytes, and its number among all.
    fn gap(&self, len: usize) -> Option<(usize, usize)> {
        gap(self.lying(), len, ROOM.0.max(self.round.most))
    }

    fn lying(&self) -> impl Iterator<Item = (usize, usize)> {
        self.lying.iter().map(|piece| (piece.from, piece.to))
    }

    /// Takes a place for `len` bytes that are read in `turn`, if there is one.
    fn take(&mut self, len: usize, turn: u64, boards: &Rc<Boards>, round: bool) -> Option<usize> {
        let next = if round {
            self.round.place(len, self.lying())
        } else {
            None
        };
        let (from, index) = next.or_else(|| self.gap(len))?;
        let from = self.insert(index, (from, len), turn, boards);
        if round {
            self.round.took(self.lying[index].to, len);
        }
        Some(from)
    }

    /// Writes down the piece `(first byte, length)`; its first byte.
    fn insert(&mut self, index: usize, (from, len): (usize, usize), turn: u64, boards: &Rc<Boards>) -> usize {
        let (to, boards) = ((from + len).next_multiple_of(LINE), boards.clone());
        self.lying.insert(index, Piece { from, to, turn, boards });
        from
    }

    /// The turn, and the boards, whose readers have to be waited for when there is no room for one of `boards`: its own, if it has
    /// something there, for others' may wait for what a thread has to show here.
    pub fn oldest(&self, boards: &Rc<Boards>) -> Option<(u64, Rc<Boards>)> {
        let own = self.lying.iter().find(|piece| Rc::ptr_eq(&piece.boards, boards));
        let piece = own.or(self.lying.first())?;
        Some((piece.turn, piece.boards.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ANY, Step, What, job, take};
    use super::*;
    use crate::mpi::coll::board;
    use crate::mpi::comm::{Comm, create};
    use crate::mpi::world::Hold;

    /// The boards of a communicator of its own, like `comm`.
    fn boards_of_dup(hold: &mut Hold, comm: &Rc<Comm>) -> Rc<Boards> {
        let dup = Rc::new(create::dup(hold, comm).unwrap());
        board::of(hold, &dup).unwrap().clone()
    }

    /// `take` compares what has come with its definition.
    #[test]
    fn what_is_shown_goes_round_and_stays_until_all_have_read_it() {
        // Of a broadcast and a gather to the same root each rank shows one: enough of them for the whole round.
        let (round, bytes) = (140_000, 64_000);
        let (pairs, set) = ((round * SHOWN).div_ceil(bytes), [("NEARMPI_BOARD_ROUND", round as u64)]);
        for cpus in [1, 3] {
            job(3, cpus, &set, false, |rank, world| {
                let mut hold = world.hold();
                let comm = hold.world.clone();
                assert!(!hold.desk.goes_far());
                for seed in 0..pairs as u32 {
                    for what in [What::Bcast, What::Gather] {
                        let step = Step {
                            what,
                            count: 16_000,
                            root: seed % 3,
                            seed,
                            ..ANY
                        };
                        take(&mut hold, &comm, step);
                    }
                }
                let round = &hold.desk.round;
                assert!(
                    round.next <= ROOM.0 && round.shown >= pairs * bytes,
                    "rank {rank}: {round:?}"
                );
                // Then it is written by way of the caches, without a trial of another.
                assert!(hold.desk.goes_far());
                let left = |hold: &Hold| board::of(hold, &comm).unwrap().stores.borrow().until_trial();
                let before = left(&hold);
                let step = Step {
                    what: What::Bcast,
                    count: 16_000,
                    ..ANY
                };
                take(&mut hold, &comm, step);
                assert_eq!(left(&hold), before);
            });
        }
    }

    /// What is shown is read only when all has been.
    #[test]
    fn who_has_nothing_shown_finds_room_when_another_communicator_has_all() {
        job(2, 1, &[], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let boards = [0; 3].map(|_| boards_of_dup(&mut hold, &comm));
            if rank == 1 {
                return;
            }
            let desk = &mut hold.desk;
            let mut place = |boards: &Rc<Boards>, len, turn| desk.place(len, turn, boards, false);
            let turn = 1 << 40;
            let full: Vec<_> = (turn..).map_while(|turn| place(&boards[0], 64 << 10, turn)).collect();
            assert_eq!(full.len(), ROOM.0 / (64 << 10));
            assert_eq!(place(&boards[1], 64 << 10, turn), Some(ROUND));
            assert_eq!(place(&boards[2], 20_000, turn), Some(ROUND + (64 << 10)));
            assert_eq!(place(&boards[1], 20_000, turn), None, "it has something there");
            // Who has nothing at all waits for the others.
            for (index, first) in [(0, turn), (1, turn)] {
                let (oldest, whose) = desk.oldest(&boards[index]).unwrap();
                assert!(oldest == first && Rc::ptr_eq(&whose, &boards[index]));
            }
            desk.lying.clear();
        });
    }

    /// As when another thread of this rank reduces in place: the other rank has read its operand, it has not.
    #[test]
    fn what_this_rank_still_reads_is_not_written_over_for_another_communicator() {
        job(2, 1, &[], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let boards = [0; 2].map(|_| boards_of_dup(&mut hold, &comm));
            if rank == 1 {
                return;
            }
            let turn = boards[0].before + 1;
            let done = |rank: usize| boards[0].members[rank].board.finish(turn);
            let mut place =
                |index: usize, turn| hold.desk.place(10 * LINE, turn, &boards[index], false).unwrap() / LINE;
            assert_eq!(place(0, turn), 0);
            assert_eq!(place(1, u64::MAX), 10);
            done(1);
            assert_eq!(boards[0].look_through(), turn);
            assert_eq!(place(1, u64::MAX), 20);
            done(0);
            assert_eq!(place(1, u64::MAX), 0);
            hold.desk.lying.clear();
        });
    }

    #[test]
    fn a_round_goes_on_behind_the_last_place_and_takes_none_that_is_read() {
        let mut round = Round::new(1000);
        let mut lying: Vec<(usize, usize)> = Vec::new();
        // Nothing is gone round in before enough has been shown, nor where no round is wanted.
        assert_eq!(round.place(100, lying.iter().copied()), None);
        round.shown = 250 * SHOWN;
        let mut places = Vec::new();
        for _ in 0..3 {
            let (from, before) = round.place(100, lying.iter().copied()).unwrap();
            assert_eq!(before, lying.iter().filter(|piece| piece.0 < from).count());
            places.push(from);
            round.next = from + 100;
        }
        assert_eq!(places, [0, 100, 0]);
        round.shown = 5000 * SHOWN;
        lying = vec![(0, 100), (250, 300)];
        assert_eq!(round.place(150, lying.iter().copied()), Some((100, 1)));
        assert_eq!(round.place(151, lying.iter().copied()), None);
        round.next = 851;
        assert_eq!(round.place(150, lying.iter().copied()), None);
        round.next = 850;
        assert_eq!(round.place(150, lying.iter().copied()), Some((850, 2)));
        assert_eq!(Round { most: 0, ..round }.place(1, std::iter::empty()), None);
    }

    #[test]
    fn a_room_is_gone_round_in_if_it_shall_be() {
        let places = |round: usize| {
            let mut room = Room::new((5000, 8 * APART), round);
            room.round.shown = 8 * APART * SHOWN;
            let mut turn = 1;
            [0; 5].map(|_| {
                turn += 1;
                // Only the last one is still read.
                assert!(room.has(2 * APART, turn - 2));
                room.take(2 * APART, turn).unwrap() - 5000
            })
        };
        let [second, third, fourth] = [2, 4, 6].map(|kilobytes| kilobytes * APART);
        assert_eq!(places(0), [0, second, 0, second, 0]);
        assert_eq!(places(usize::MAX), [0, second, third, fourth, 0]);
        assert_eq!(places(6 * APART), [0, second, third, 0, second]);
    }
}
