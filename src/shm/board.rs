//! # Safety
//! Relies on the segment to outlive the places made of it, and on each rank to fill only slots of its own.
//!
//! A rank's board for one communicator: what it shows to the other members in a collective operation.
//!
//! ```text
//! | done, need, verdict (two lines) | slot 0 | slot 1 | ... | slot 15 |      all written by the owner only
//!
//! Slot w0   | turn                       |   stored last (Release): what follows belongs to this turn
//!      w1   | tag:32 | far:1 | bytes:31  |
//!      w2.. 112 bytes of payload, or in w2 where more lies in the owner's scratch memory
//! ```
//!
//! A rank's trays serve all its communicators. What does not fit a slot lies behind its own mark there, so that a reader fetches
//! both at once; the slot says the same a moment later, for readers that look there. Up to 1 KiB go to one of 16, turn by turn, up
//! to 16 KiB to one of 4.
//!
//! ```text
//! Tray w0   | context:16 | turn:48       |   the mark, stored last (Release): never the same twice
//!      w1   | tag:32 | far:1 | bytes:31  |
//!      w8.. 1 or 16 KiB of payload
//! ```
//!
//! Two ranks that show each other something in the same turn swap what they write into: memory like a tray, of 260 KiB, that each
//! has for some contexts. Who writes there has read it in the turn before of that kind, or owns it and nobody has; so nobody waits.
//! The upper halves of two ranks' wide rooms are areas, four in all: who has read what is shown in one may write there; slots say where.
//!
//! Collective operations of a communicator have turns: 1, 2, 3 ... for as long as the job lives, also
//! when the context's number goes to another communicator. So no word is ever reset, and what a reader
//! waits for cannot be there from before. Turn `t` uses slot `t % 16`. When a rank is through with a turn,
//! it stores the turn into `done`; whoever has shown something waits for that before it overwrites it, or, within an operation
//! in which one rank alone reads it, until that one has shown what it made of it.
#![allow(unsafe_code)]

mod verdict;

pub use self::verdict::Verdict;
use super::sync::{AtomicU64, Ordering};
use crate::sys::cpu::own_soon;
use std::ops::Deref;
use std::ptr::NonNull;

/// Turns that can be shown at a time: how far a rank that waits for nobody runs ahead of the others.
pub const SLOTS: usize = 16;
/// Bytes of payload in a slot.
pub const INLINE: usize = 8 * WORDS;
const WORDS: usize = 14;
/// Bytes of a rank's scratch memory for what is too long for a slot: as many as it goes round in at most (`NEARMPI_BOARD_ROUND`), of which it uses
/// those of a wide room otherwise, and behind them a reserve for communicators that have nothing there while others have
/// all: their threads may be what those wait for.
pub const SCRATCH: usize = ROUND + ROOM.0;
/// Bytes of it before the reserve.
pub const ROUND: usize = 1 << 20;
/// Contexts, from the first on, that have a second board: for nonblocking operations. As many boards more are for persistent ones.
pub const STARTED: usize = 256;
/// Those of either, from the first on, that have a wide room each, behind the scratch memory: those of one communicator must
/// never wait for another's.
pub const WIDE: usize = 16;
/// Bytes of a wide room, twice 256 KiB and tables of where which block lies, and of the narrow one of the others.
pub const ROOM: (usize, usize) = (2 * ((256 << 10) + (4 << 10)), SLOTS << 10);
/// Bytes of all rooms.
pub const ROOMS: usize = 2 * HALF;
const HALF: usize = WIDE * ROOM.0 + (STARTED - WIDE) * ROOM.1;
/// Bytes of payload in a short tray.
pub const TRAY: usize = 1 << 10;
/// Bytes of payload in a long one, and how many of these there are: lines that come back soon are still at hand.
pub const LONG_TRAY: (usize, usize) = (16 << 10, 4);
/// Trays of a rank.
pub const TRAYS: usize = SLOTS + LONG_TRAY.1;
/// Contexts, from the first on, whose communicators of two members have memory that these swap.
pub const SWAPPED: usize = 32;
/// Bytes of payload there.
pub const SWAP: usize = ROOM.0 / 2;
/// Bytes of all that slots say the place of: scratch memory, the rooms behind it, the trays behind those, what is swapped.
pub const REACH: usize = SCRATCH + ROOMS + size_of::<Trays>() + SWAPPED * size_of::<Swap>();

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
    verdict: AtomicU64,
}

/// What is shown in one turn.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub struct Slot {
    turn: AtomicU64,
    note: AtomicU64,
    payload: [AtomicU64; WORDS],
}

/// A rank's trays.
#[repr(C, align(4096))]
#[derive(Debug, Default)]
pub struct Trays {
    short: [Tray; SLOTS],
    long: [Tray<{ LONG_TRAY.0 / 8 }>; LONG_TRAY.1],
}

/// What is shown in one turn of any communicator.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Tray<const WORDS: usize = { TRAY / 8 }> {
    head: Head,
    payload: [AtomicU64; WORDS],
}

/// The line before a tray's payload.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Head {
    mark: AtomicU64,
    note: AtomicU64,
}

/// What one of two members shows in a turn in which both show something: one of two that they swap.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Swap(Tray<{ SWAP / 8 }>);

impl Deref for Swap {
    type Target = Tray<{ SWAP / 8 }>;
    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.0
    }
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
/// In a place: whose scratch memory it lies in.
const FIRST: u64 = 1 << 62;
const SECOND: u64 = 1 << 63;

impl Note {
    fn word(self) -> u64 {
        let far = if self.far { FAR } else { 0 };
        u64::from(self.tag as u32) << 32 | far | u64::from(self.len)
    }

    fn of(word: u64) -> Note {
        Note {
            tag: (word >> 32) as i32,
            len: (word & (FAR - 1)) as u32,
            far: word & FAR != 0,
        }
    }
}

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

    /// Owner: what it says of the bytes that it has copied out of others' memory, before it is done with the turn.
    #[inline]
    pub fn judge(&self, verdict: Verdict) {
        self.control.verdict.store(verdict.word(), Ordering::Relaxed);
    }

    /// What the owner said last, if anything.
    #[inline]
    pub fn verdict(&self) -> Option<Verdict> {
        Verdict::of(self.control.verdict.load(Ordering::Relaxed))
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
    /// Owner: shows what it has put into the payload. It knows that nobody reads what the slot showed before any more.
    #[inline]
    pub fn show(&self, turn: u64, note: Note) {
        self.note.store(note.word(), Ordering::Relaxed);
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
        Note::of(self.note.load(Ordering::Relaxed))
    }

    /// The payload, [`INLINE`] bytes.
    #[inline]
    pub fn payload(&self) -> *mut u8 {
        self.payload.as_ptr().cast::<u8>().cast_mut()
    }

    /// Owner: says where more than [`INLINE`] bytes lie: in its scratch memory, or as [`place_of`] has it.
    #[inline]
    pub fn set_place(&self, place: u64) {
        self.payload[0].store(place, Ordering::Relaxed);
    }

    /// Where the bytes lie, not checked yet, and in which member's scratch memory, if not the owner's.
    #[inline]
    pub fn place(&self) -> (u64, Option<usize>) {
        let word = self.payload[0].load(Ordering::Relaxed);
        let whose = match word & (FIRST | SECOND) {
            FIRST => Some(0),
            SECOND => Some(1),
            _ => None,
        };
        (word & !(FIRST | SECOND), whose)
    }
}

impl<const WORDS: usize> Default for Tray<WORDS> {
    fn default() -> Self {
        Tray {
            head: Head::default(),
            payload: std::array::from_fn(|_| AtomicU64::default()),
        }
    }
}

impl Trays {
    /// The tray of `turn` for `len` bytes, up to [`LONG_TRAY`]: its number, its head and its payload.
    #[inline]
    pub fn tray(&self, turn: u64, len: usize) -> (usize, &Head, *mut u8) {
        if len <= TRAY {
            let index = turn as usize % SLOTS;
            let tray = &self.short[index];
            return (index, &tray.head, tray.payload());
        }
        let index = turn as usize % LONG_TRAY.1;
        let tray = &self.long[index];
        (SLOTS + index, &tray.head, tray.payload())
    }

    /// Owner: gets the memory of all short trays from the kernel, once rather than in each of the first turns.
    pub fn touch(&self) {
        for tray in &self.short {
            for word in [&tray.head.mark, &tray.payload[TRAY / 8 - 1]] {
                word.store(word.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }
}

/// The room of the second board number `index`: its place behind the beginning of scratch memory, and its bytes.
pub fn room(index: usize) -> (usize, usize) {
    let (half, index) = (index / STARTED, index % STARTED);
    let first = SCRATCH + half * HALF + index.min(WIDE) * ROOM.0 + index.saturating_sub(WIDE) * ROOM.1;
    (first, if index < WIDE { ROOM.0 } else { ROOM.1 })
}

/// The place of bytes in the scratch memory of the first or second of two members.
#[inline]
pub fn place_of(member: usize, offset: u64) -> u64 {
    [FIRST, SECOND][member % 2] | offset
}

/// The mark of `turn` of context number `context`.
#[inline]
pub fn mark(context: u16, turn: u64) -> u64 {
    u64::from(context) << 48 | turn & ((1 << 48) - 1)
}

impl Head {
    /// Owner: shows what it has put into the payload. It has seen all who read what the tray showed before be through with
    /// that.
    #[inline]
    pub fn show(&self, mark: u64, note: Note) {
        self.note.store(note.word(), Ordering::Relaxed);
        self.mark.store(mark, Ordering::Release);
    }

    /// What is shown with `mark`, if it is.
    #[inline]
    pub fn look(&self, mark: u64) -> Option<Note> {
        (self.mark.load(Ordering::Acquire) == mark).then(|| Note::of(self.note.load(Ordering::Relaxed)))
    }
}

impl<const WORDS: usize> Tray<WORDS> {
    /// What says whether it shows something.
    #[inline]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The payload, [`TRAY`] bytes, [`LONG_TRAY`], or [`SWAP`].
    #[inline]
    pub fn payload(&self) -> *mut u8 {
        self.payload.as_ptr().cast::<u8>().cast_mut()
    }
}

/// A board, or a rank's trays or scratch memory, in a mapped segment.
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

impl Place<u8> {
    /// The trays of the rank whose scratch memory this is.
    pub fn trays(self) -> Place<Trays> {
        // SAFETY: they lie behind scratch memory and rooms, in pages of their own ([`REACH`]).
        Place(unsafe { self.0.add(SCRATCH + ROOMS) }.cast())
    }

    /// What the rank whose scratch memory this is brings along to swap in `context`.
    pub fn swap(self, context: u16) -> Option<Place<Swap>> {
        let index = Some(usize::from(context)).filter(|&context| context < SWAPPED)?;
        let offset = SCRATCH + ROOMS + size_of::<Trays>() + index * size_of::<Swap>();
        // SAFETY: it lies behind the trays ([`REACH`]), in pages of its own.
        Some(Place(unsafe { self.0.add(offset) }.cast()))
    }
}

/// What is all atomics, for which zero is valid.
pub trait Atomics {}
impl Atomics for Board {}
impl Atomics for Swap {}
impl Atomics for Trays {}

impl<T: Atomics> Deref for Place<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `new`'s promise.
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
        assert_eq!((board.slot(5).note(), board.slot(5).place()), (note, (99, None)));
        for member in [0, 1] {
            board.slot(5).set_place(place_of(member, 99));
            assert_eq!(board.slot(5).place(), (99, Some(member)));
        }
        assert_eq!(board.slot(6).turn().load(Ordering::Acquire), 0);
        board.finish(5);
        assert_eq!(board.done().load(Ordering::Acquire), 5);
        assert_eq!(board.verdict(), None);
        assert_eq!((size_of::<Slot>(), size_of::<Control>()), (128, 128));
    }

    #[test]
    fn a_tray_shows_one_turn_of_one_context() {
        let trays = Box::<Trays>::default();
        let note = Note {
            tag: 4,
            len: 2048,
            far: false,
        };
        for (len, again) in [(TRAY, SLOTS), (TRAY + 1, LONG_TRAY.1)] {
            let (index, head, payload) = trays.tray(5, len);
            head.show(mark(7, 5), note);
            assert_eq!(head.look(mark(7, 5)), Some(note));
            assert_eq!(
                [mark(7, 21), mark(6, 5), mark(8, 5)].map(|other| head.look(other)),
                [None; 3]
            );
            assert_eq!(trays.tray(6, len).1.look(mark(7, 6)), None);
            assert_eq!(trays.tray(5 + again as u64, len).0, index);
            trays.touch();
            assert_eq!(head.look(mark(7, 5)), Some(note));
            assert_eq!(payload.addr() - std::ptr::from_ref(head).addr(), 64);
        }
        assert_eq!((size_of::<Tray>(), size_of::<Trays>() % 4096), (64 + TRAY, 0));
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
                        assert_eq!((slot.place().0, slot.note().len), (10 * turn, turn as u32));
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

    #[test]
    fn loom_a_tray_goes_from_one_context_to_another() {
        loom::model(|| {
            // The note stands for the payload; each context has a board of its own for its reader.
            let shared = Arc::new((Head::default(), [Board::default(), Board::default()]));
            let reader = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    for context in [0, 1] {
                        let note = loop {
                            match shared.0.look(mark(context, 1)) {
                                Some(note) => break note,
                                None => loom::thread::yield_now(),
                            }
                        };
                        assert_eq!(note.len, u32::from(context) + 5);
                        shared.1[usize::from(context)].finish(1);
                    }
                })
            };
            for context in [0, 1] {
                if context == 1 {
                    wait(shared.1[0].done(), 1);
                }
                let note = Note {
                    tag: -1,
                    len: u32::from(context) + 5,
                    far: false,
                };
                shared.0.show(mark(context, 1), note);
            }
            reader.join().unwrap();
        });
    }

    #[test]
    fn loom_two_ranks_write_where_they_have_read() {
        loom::model(|| {
            let swaps = Arc::new([Tray::<1>::default(), Tray::<1>::default()]);
            let exchange = |swaps: &[Tray<1>; 2], me: usize| {
                for turn in [1, 2] {
                    let (mine, theirs) = (&swaps[(me + turn) % 2], &swaps[(me + turn + 1) % 2]);
                    mine.payload[0].store((10 * turn + me) as u64, Ordering::Relaxed);
                    let note = Note {
                        tag: -1,
                        len: 8,
                        far: false,
                    };
                    mine.head.show(mark(0, turn as u64), note);
                    while theirs.head.look(mark(0, turn as u64)).is_none() {
                        loom::thread::yield_now();
                    }
                    let read = theirs.payload[0].load(Ordering::Relaxed);
                    assert_eq!(read, (10 * turn + 1 - me) as u64);
                }
            };
            let other = {
                let swaps = swaps.clone();
                loom::thread::spawn(move || exchange(&swaps, 1))
            };
            exchange(&swaps, 0);
            other.join().unwrap();
        });
    }
}
