//! What a rank has lying about for its boards: scratch memory that others still read, and what its
//! threads wait for.

use super::Boards;
use super::learnt::Paces;
use super::started::Started;
use crate::shm::board::{Board, Place, SCRATCH, SLOTS};
use crate::shm::sync::Ordering;
use crate::shm::waiting::Item;
use std::rc::Rc;

/// Pieces of scratch memory begin on multiples of this.
pub const LINE: usize = 64;

/// More pieces than these are not looked through before it is known which are read no more.
const MANY: usize = 64;

/// A rank's part of all boards.
#[derive(Default)]
pub struct Desk {
    /// What its threads wait for.
    waits: Vec<(u64, Wait)>,
    next_wait: u64,
    /// Pieces of scratch memory that somebody may still read, by address.
    lying: Vec<Piece>,
    /// The turn that each tray showed last, and of which communicator.
    pub trays: [Option<(u64, Rc<Boards>)>; SLOTS],
    /// Nonblocking operations under way.
    pub started: Vec<Started>,
    /// Room for blocks on their way through the cache; whoever uses it takes it and brings it back.
    pub blocks: Vec<u8>,
    /// How long it takes to read other ranks' memory.
    pub paces: Paces,
}

/// What a thread waits for on another rank's board.
#[derive(Debug)]
pub struct Wait {
    /// Whose board.
    pub board: Place<Board>,
    /// The turn that is to come.
    pub turn: u64,
    /// To be through with it, rather than to show it.
    pub done: bool,
    /// For the launcher.
    pub item: Item,
    /// The thread has been told that it came.
    pub told: bool,
}

struct Piece {
    from: usize,
    to: usize,
    turn: u64,
    boards: Rc<Boards>,
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
}

impl Desk {
    /// Writes down that a thread waits; the key strikes it out again.
    pub fn begin_wait(&mut self, wait: Wait) -> u64 {
        self.next_wait += 1;
        self.waits.push((self.next_wait, wait));
        self.next_wait
    }

    /// The thread waits no more.
    pub fn end_wait(&mut self, key: u64) {
        self.waits.retain(|(other, _)| *other != key);
    }

    /// Whether something has come that a thread waits for and has not been told of yet.
    pub fn has_news(&mut self) -> bool {
        let mut news = false;
        for (_, wait) in &mut self.waits {
            if !wait.told && wait.is_over() {
                wait.told = true;
                news = true;
            }
        }
        news
    }

    /// What the threads wait for, for the launcher.
    pub fn items(&self) -> impl Iterator<Item = Item> {
        self.waits.iter().map(|(_, wait)| wait.item)
    }

    /// Room for `len` bytes that are read in `turn`; `None` while too much is still being read.
    /// Prefers low addresses, which stay in the cache.
    pub fn place(&mut self, len: usize, turn: u64, boards: &Rc<Boards>) -> Option<usize> {
        self.lying.retain(|piece| piece.boards.through() < piece.turn);
        if self.lying.len() > MANY {
            self.look();
        }
        self.take(len, turn, boards).or_else(|| {
            self.look();
            self.take(len, turn, boards)
        })
    }

    /// Whether there is room for `len` bytes already.
    pub fn has_room(&mut self, len: usize) -> bool {
        self.look();
        self.gap(len).is_some()
    }

    /// Looks at the boards of all who read, and forgets what they are through with.
    fn look(&mut self) {
        self.lying.retain(|piece| piece.boards.look_through() < piece.turn);
    }

    /// A place for `len` bytes, and its number among all.
    fn gap(&self, len: usize) -> Option<(usize, usize)> {
        let mut from = 0;
        let mut index = 0;
        while let Some(piece) = self.lying.get(index)
            && piece.from < from + len
        {
            from = piece.to;
            index += 1;
        }
        (from + len <= SCRATCH).then_some((from, index))
    }

    /// Takes a place for `len` bytes that are read in `turn`, if there is one.
    fn take(&mut self, len: usize, turn: u64, boards: &Rc<Boards>) -> Option<usize> {
        let (from, index) = self.gap(len)?;
        let to = (from + len).next_multiple_of(LINE);
        let boards = boards.clone();
        self.lying.insert(index, Piece { from, to, turn, boards });
        Some(from)
    }

    /// The turn, and the boards, whose readers have to be waited for when there is no room.
    pub fn oldest(&self) -> Option<(u64, Rc<Boards>)> {
        self.lying.first().map(|piece| (piece.turn, piece.boards.clone()))
    }
}
