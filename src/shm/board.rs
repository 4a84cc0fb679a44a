//! # Safety
//! Relies on the segment to outlive the places made of it, and on each rank to fill only slots of its own.
//!
//! A rank's board for one communicator: what it shows to the other members in a collective operation.
//!
//! ```text
//! | done, need (two lines) | slot 0 | slot 1 | ... | slot 15 |      all written by the owner only
//!
//! Slot w0   | turn                       |   stored last (Release): what follows belongs to this turn
//!      w1   | tag:32 | far:1 | bytes:31  |
//!      w2.. 112 bytes of payload, or in w2 where more lies in the owner's scratch memory
//! ```
//!
//! Collective operations of a communicator have turns: 1, 2, 3 ... for as long as the job lives, also
//! when the context's number goes to another communicator. So no word is ever reset, and what a reader
//! waits for cannot be there from before. Turn `t` uses slot `t % 16`. When a rank is through with a turn,
//! it stores the turn into `done`; whoever has shown something waits for that before it overwrites it.
#![allow(unsafe_code)]

use super::sync::{AtomicU64, Ordering};
use crate::sys::cpu::own_soon;
use std::ops::Deref;
use std::ptr::NonNull;

/// Turns that can be shown at a time: how far a rank that waits for nobody runs ahead of the others.
pub const SLOTS: usize = 16;
/// Bytes of payload in a slot.
pub const INLINE: usize = 8 * WORDS;
const WORDS: usize = 14;
/// Bytes of a rank's scratch memory for what is too long for a slot.
pub const SCRATCH: usize = 512 << 10;
/// Contexts, from the first on, that have a second board: for nonblocking operations.
pub const STARTED: usize = 256;
/// Bytes that lie ready for each slot of a second board, behind the scratch memory: those of one communicator must never
/// wait for another's.
pub const EACH: usize = 1 << 10;
/// Bytes of all these.
pub const ROOMS: usize = STARTED * SLOTS * EACH;

/// A rank's board for one communicator.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Board {
    control: Control,
    slots: [Slot; SLOTS],
}

#[repr(C, align(128))]
#[derive(Debug, Default)]
struct Control {
    done: AtomicU64,
    need: AtomicU64,
}

/// What is shown in one turn.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Slot {
    turn: AtomicU64,
    note: AtomicU64,
    payload: [AtomicU64; WORDS],
}

/// What a slot says about its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    /// Which operation.
    pub tag: i32,
    /// Bytes shown, fewer than 2^31.
    pub len: u32,
    /// They are places in the owner's own memory: pairs of an address and a number of bytes.
    pub far: bool,
}

const FAR: u64 = 1 << 31;

impl Board {
    /// The slot of `turn`.
    #[inline]
    pub fn slot(&self, turn: u64) -> &Slot {
        &self.slots[turn as usize % SLOTS]
    }

    /// The last turn that the owner is through with.
    #[inline]
    pub fn done(&self) -> &AtomicU64 {
        &self.control.done
    }

    /// The last turn in which the owner could not read others' memory and wants messages; written
    /// before it is done with the turn.
    #[inline]
    pub fn need(&self) -> &AtomicU64 {
        &self.control.need
    }

    /// Owner: will show something in `turn`, soon.
    #[inline]
    pub fn expect(&self, turn: u64) {
        let slot = self.slot(turn);
        own_soon(slot);
        own_soon(&slot.payload[WORDS - 1]);
    }

    /// Owner: through with `turn` and all before.
    #[inline]
    pub fn finish(&self, turn: u64) {
        self.control.done.store(turn, Ordering::Release);
    }
}

impl Slot {
    /// Owner: shows what it has put into the payload. It has seen all members [`Board::done`] with what
    /// the slot showed before.
    #[inline]
    pub fn show(&self, turn: u64, note: Note) {
        let far = if note.far { FAR } else { 0 };
        let word = u64::from(note.tag as u32) << 32 | far | u64::from(note.len);
        self.note.store(word, Ordering::Relaxed);
        self.turn.store(turn, Ordering::Release);
    }

    /// The turn that is shown; a reader that finds its own may read the rest.
    #[inline]
    pub fn turn(&self) -> &AtomicU64 {
        &self.turn
    }

    /// What is shown.
    #[inline]
    pub fn note(&self) -> Note {
        let word = self.note.load(Ordering::Relaxed);
        Note {
            tag: (word >> 32) as i32,
            len: (word & (FAR - 1)) as u32,
            far: word & FAR != 0,
        }
    }

    /// The payload, [`INLINE`] bytes.
    #[inline]
    pub fn payload(&self) -> *mut u8 {
        self.payload.as_ptr().cast::<u8>().cast_mut()
    }

    /// Owner: says where more than [`INLINE`] bytes lie in its scratch memory.
    #[inline]
    pub fn set_place(&self, offset: u64) {
        self.payload[0].store(offset, Ordering::Relaxed);
    }

    /// Where the bytes lie, not checked yet.
    #[inline]
    pub fn place(&self) -> u64 {
        self.payload[0].load(Ordering::Relaxed)
    }
}

/// A board, or a rank's scratch memory, in a mapped segment.
#[derive(Debug)]
pub struct Place<T>(NonNull<T>);

// SAFETY: addresses of shared memory, used by the rules above.
unsafe impl<T> Send for Place<T> {}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

impl<T> Place<T> {
    /// What lies at `address`.
    ///
    /// # Safety
    /// The segment there outlives the place and all its copies.
    pub unsafe fn new(address: NonNull<T>) -> Place<T> {
        Place(address)
    }

    /// Its address.
    pub fn address(self) -> *mut T {
        self.0.as_ptr()
    }
}

impl Deref for Place<Board> {
    type Target = Board;
    #[inline]
    fn deref(&self) -> &Board {
        // SAFETY: `new`'s promise; a board is all atomics, for which zero is valid.
        unsafe { self.0.as_ref() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_shown_with_its_note() {
        let board = Board::default();
        let note = Note {
            tag: -7,
            len: 3,
            far: true,
        };
        assert_eq!(board.slot(5).turn().load(Ordering::Acquire), 0);
        board.slot(5).set_place(99);
        board.slot(5).show(5, note);
        assert_eq!(board.slot(5).turn().load(Ordering::Acquire), 5);
        assert_eq!((board.slot(5).note(), board.slot(5).place()), (note, 99));
        assert_eq!(board.slot(6).turn().load(Ordering::Acquire), 0);
        board.finish(5);
        assert_eq!(board.done().load(Ordering::Acquire), 5);
        assert_eq!(size_of::<Slot>(), 128);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;

    fn wait(word: &AtomicU64, turn: u64) {
        while word.load(Ordering::Acquire) < turn {
            loom::thread::yield_now();
        }
    }

    #[test]
    fn loom_a_reader_gets_what_its_turn_showed() {
        loom::model(|| {
            let boards = Arc::new([Board::default(), Board::default()]);
            let reader = {
                let boards = boards.clone();
                loom::thread::spawn(move || {
                    for turn in [1, 1 + SLOTS as u64] {
                        let slot = boards[0].slot(turn);
                        wait(slot.turn(), turn);
                        assert_eq!((slot.place(), slot.note().len), (10 * turn, turn as u32));
                        boards[1].finish(turn);
                    }
                })
            };
            for turn in [1, 1 + SLOTS as u64] {
                let slot = boards[0].slot(turn);
                // The slot's last turn: the reader must be through with it.
                wait(boards[1].done(), turn.saturating_sub(SLOTS as u64));
                slot.set_place(10 * turn);
                let note = Note {
                    tag: -1,
                    len: turn as u32,
                    far: false,
                };
                slot.show(turn, note);
            }
            reader.join().unwrap();
        });
    }
}
