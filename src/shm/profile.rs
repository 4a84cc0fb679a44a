//! # Safety
//! Turns a place in memory into references to atomics: relies on the place being as long as
//! [`len`] says and page aligned, and on memory of zero bytes being a valid start. A [`Part`] keeps what it points into.
//!
//! What a rank counts when it is profiled: how often and how long it was in which function, how many
//! bytes went which way to and from whom, and what it waited for longest.
//!
//! ```text
//! | head 4K: who, when, settings, counters | calls | traffic | longest waits | events | peers 512 B x P |
//! ```
//! The block lies in the job's segment, or in a file of its own where another launcher started the job;
//! either keeps what was counted when the rank is killed. Only its rank writes it. Readers believe
//! nothing: a rank may be killed between two words.
//!
//! Times are in ticks of [`Ticks`](crate::sys::clock::Ticks); `began` and `latest` say how those run against the machine's clock.
#![allow(unsafe_code)]

use super::layout::PAGE;
use super::ring::INLINE;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Functions that are told apart, by number.
pub const CALLS: usize = 1024;
/// Classes of sizes: class 0 is no bytes, class k is 2^(k-1) to 2^k - 1 bytes.
pub const CLASSES: usize = 65;
/// Longest waits that are kept.
pub const LONGEST: usize = 16;
/// Latest events that are kept.
pub const EVENTS: usize = 256;
/// Settings and counters that are kept.
pub const VALUES: usize = 96;
/// Bytes of a program's name that are kept.
pub const NAME: usize = 1024;

/// "nmprofil" and the version of the block's format.
const MAGIC: u64 = u64::from_le_bytes(*b"nmprof\x00\x03");

/// The way of bytes from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// Inside a slot of the pair's ring.
    Slot,
    /// Through the bytes of the pair's ring.
    Ring,
    /// Through cells of the sender's pool.
    Cells,
    /// Offered, then through cells.
    Streamed,
    /// Read from the sender's memory by one system call.
    OneCopy,
    /// Read and written from both sides at once.
    Joint,
    /// Copied out of memory that both have mapped.
    Mapped,
    /// Through the memory that collective operations share.
    Collective,
}

/// The paths in the order of their numbers, and what they are called.
pub const PATHS: [(Path, &str); 8] = [
    (Path::Slot, "slot"),
    (Path::Ring, "ring"),
    (Path::Cells, "cells"),
    (Path::Streamed, "streamed"),
    (Path::OneCopy, "one copy"),
    (Path::Joint, "both copy"),
    (Path::Mapped, "mapped"),
    (Path::Collective, "collective"),
];

/// Whose bytes they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A message of the program.
    Message,
    /// A step of a collective operation, or another message of the library's own.
    Inside,
}

/// Kinds of bytes.
pub const KINDS: usize = 2;

/// The kinds and what they are called.
pub const KIND_NAMES: [(Kind, &str); KINDS] = [(Kind::Message, "message"), (Kind::Inside, "inside")];

/// A number and the bytes that go with it.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Amount {
    /// How many.
    pub messages: AtomicU64,
    /// Their bytes.
    pub bytes: AtomicU64,
}

impl Amount {
    #[inline]
    fn add(&self, bytes: u64) {
        bump(&self.messages, 1);
        bump(&self.bytes, bytes);
    }

    /// With so much more.
    fn plus(&self, more: Sum) -> Sum {
        more.and(
            self.messages.load(Ordering::Relaxed),
            self.bytes.load(Ordering::Relaxed),
        )
    }
}

/// Messages of the program that went in a slot by the shortest way, by their bytes. One addition for each, since bytes,
/// classes and paths follow from it.
#[repr(transparent)]
#[derive(Debug)]
pub struct Few([AtomicU64; INLINE + 1]);

impl Default for Few {
    fn default() -> Few {
        Few([const { AtomicU64::new(0) }; INLINE + 1])
    }
}

impl Few {
    /// Counts a message of `bytes` bytes, at most [`INLINE`].
    #[inline(always)]
    pub fn add(&self, bytes: usize) {
        bump(&self.0[bytes], 1);
    }

    /// Messages and their bytes in class `class`.
    fn of(&self, class: usize) -> Sum {
        let bytes = (least(class)..=most(class)).take_while(|&bytes| bytes <= INLINE as u64);
        bytes.fold(Sum::default(), |sum, bytes| {
            let messages = self.0[bytes as usize].load(Ordering::Relaxed);
            sum.and(messages, messages.wrapping_mul(bytes))
        })
    }

    /// All messages and their bytes.
    pub fn sum(&self) -> Sum {
        (0..=class(INLINE as u64)).fold(Sum::default(), |sum, class| {
            let part = self.of(class);
            sum.and(part.messages, part.bytes)
        })
    }
}

/// An [`Amount`] that somebody has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How many.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Sum {
    /// So many more; what is no count, because the memory holds junk, wraps.
    pub fn and(self, messages: u64, bytes: u64) -> Sum {
        Sum {
            messages: self.messages.wrapping_add(messages),
            bytes: self.bytes.wrapping_add(bytes),
        }
    }
}

/// Short calls of a function that are still to come until something is due.
#[repr(transparent)]
#[derive(Debug, Default)]
pub struct Countdown(AtomicU64);

impl Countdown {
    /// One less; whether that was the last. From 0 on it takes 2^64 calls.
    #[inline(always)]
    pub fn step(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed).wrapping_sub(1);
        self.0.store(left, Ordering::Relaxed);
        left == 0
    }

    /// How many there were, if it started from 0.
    pub fn stepped(&self) -> u64 {
        self.left().wrapping_neg()
    }

    #[inline]
    fn left(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, left: u64) {
        self.0.store(left, Ordering::Relaxed);
    }
}

/// One function. Long calls are timed one by one; of a run of short ones one is timed for all.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Call {
    /// Times it was called, and those short calls that `left` still has to count: see [`Call::count`].
    ahead: AtomicU64,
    /// Counts short calls, which count themselves.
    pub left: Countdown,
    /// Calls timed for themselves, and their ticks.
    pub timed: AtomicU64,
    /// See [`Call::timed`].
    pub ticks: AtomicU64,
    /// Calls timed for all those that were not, and their ticks.
    pub samples: AtomicU64,
    /// See [`Call::samples`].
    pub sampled: AtomicU64,
    /// Ticks of the longest.
    pub longest: AtomicU64,
    /// Ticks it waited, of all the others.
    pub waited: AtomicU64,
    /// The call with this number is timed; the highest bit: it stands for those before.
    next: AtomicU64,
}

impl Call {
    /// Times it was called.
    #[inline]
    pub fn count(&self) -> u64 {
        self.ahead.load(Ordering::Relaxed).wrapping_sub(self.left.left())
    }
}

/// A long wait.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Wait {
    /// How long, in ticks.
    pub ticks: AtomicU64,
    /// When it began.
    pub began: AtomicU64,
    /// Number of the function plus 1; 0: unknown.
    pub call: AtomicU32,
    /// Rank in the job of whoever ended it, plus 1; 0: unknown.
    pub peer: AtomicU32,
    pad: AtomicU64,
}

/// Something worth telling that happened.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Event {
    /// When, in ticks.
    pub when: AtomicU64,
    /// What: one of [`EVENT_NAMES`], counted from 1.
    pub what: AtomicU32,
    /// Rank in the job that it is about.
    pub peer: AtomicU32,
    /// A number that goes with it.
    pub value: AtomicU64,
    pad: AtomicU64,
}

/// Traffic with one rank, as its pair or as this rank counts it.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct Peer {
    /// Bytes this rank wrote for it, by kind, without those of `few`.
    sent: [Amount; KINDS],
    /// Bytes this rank read from its memory, by kind.
    pub read: [Amount; KINDS],
    /// Data it got from this rank in collective operations, as the program says it.
    pub given: Amount,
    /// Waits that it ended.
    pub waits: AtomicU64,
    /// Their ticks.
    pub waited: AtomicU64,
    /// Messages this rank wrote for it, by their bytes.
    pub few: Few,
}

impl Peer {
    /// What this rank wrote for it.
    pub fn sent(&self, kind: Kind) -> Sum {
        let few = match kind {
            Kind::Message => self.few.sum(),
            Kind::Inside => Sum::default(),
        };
        self.sent[kind as usize].plus(few)
    }
}

/// Where a rank stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Stage {
    /// Not begun.
    Absent = 0,
    /// In MPI.
    Running = 1,
    /// After MPI_Finalize.
    Ended = 2,
}

/// What is said once.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Head {
    magic: AtomicU64,
    /// The same for all ranks of a job, and for no other job.
    pub job: AtomicU64,
    /// Ranks of the job.
    pub ranks: AtomicU32,
    /// Which of them.
    pub rank: AtomicU32,
    /// Process number.
    pub pid: AtomicU32,
    /// One of the numbers of [`Stage`].
    pub stage: AtomicU32,
    /// CPU that it ran on when that was looked at last, plus 1.
    pub cpu: AtomicU32,
    /// CPUs of the job.
    pub cpus: AtomicU32,
    /// When MPI_Init began: ticks, nanoseconds of the machine's clock, and of the calendar.
    pub began: [AtomicU64; 3],
    /// Ticks and nanoseconds of a later moment.
    pub latest: [AtomicU64; 2],
    /// Ticks when MPI_Init was over.
    pub ready: AtomicU64,
    /// Ticks when MPI_Finalize was over.
    pub ended: AtomicU64,
    /// Function under way, plus 1, and since when: as far as known, which is while it waits.
    pub inside: AtomicU32,
    /// Rank that the wait under way is for, plus 1; 0: unknown.
    pub awaited: AtomicU32,
    /// See [`Head::inside`].
    pub since: AtomicU64,
    /// When the wait under way began; 0: it does not wait.
    pub waiting: AtomicU64,
    /// Events so far; the latest are kept.
    pub events: AtomicU64,
    /// The values of the control variables.
    pub settings: [AtomicU64; VALUES],
    /// The transport's counters.
    pub counters: [AtomicU64; VALUES],
    /// The program's name, with zero bytes behind it.
    pub name: [AtomicU64; NAME / 8],
}

/// The part of a block that does not depend on the number of ranks.
#[repr(C, align(4096))]
#[derive(Debug)]
pub struct Fixed {
    /// What is said once.
    pub head: Head,
    /// By the function's number.
    pub calls: [Call; CALLS],
    /// By kind, path and class of size; what this rank wrote, or read from another's memory, without [`Peer::few`].
    traffic: [[[Amount; CLASSES]; PATHS.len()]; KINDS],
    /// In no order.
    pub longest: [Wait; LONGEST],
    /// A ring: event number n is at n modulo [`EVENTS`].
    pub events: [Event; EVENTS],
}

const _: () = assert!(size_of::<Head>() == PAGE && size_of::<Call>() == 128 && size_of::<Peer>() == 512);
const _: () = assert!(size_of::<Fixed>().is_multiple_of(PAGE));

/// What events are called.
pub const EVENT_NAMES: [&str; 7] = [
    "cells are best from",
    "one copy is best from",
    "copying from both sides is best from",
    "one copy is refused",
    "skew: keeps up again, queue of",
    "skew: large messages by value, queue of",
    "skew: no large messages by value, queue of",
];

/// An event's number in [`EVENT_NAMES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum What {
    /// Messages to the peer go through cells, it was found: those of about as many bytes as the value says.
    Cells = 1,
    /// Its receiver reads them.
    OneCopy = 2,
    /// Both sides copy.
    Joint = 3,
    /// The kernel does not let this rank read the peer's memory.
    Refused = 4,
    /// This rank keeps up with the peer again: its thresholds are the usual ones.
    Usual = 5,
    /// This rank is late for the peer, and asks it to send large messages by value.
    Raised = 6,
    /// This rank's queue is too long for that.
    Flooded = 7,
}

/// Bytes of a block for a job of `ranks`; whole pages.
pub const fn len(ranks: u32) -> usize {
    (size_of::<Fixed>() + ranks as usize * size_of::<Peer>()).next_multiple_of(PAGE)
}

/// A word that one writer counts in: no locked instruction.
#[inline]
fn bump(word: &AtomicU64, by: u64) {
    word.store(word.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// The class of sizes that `bytes` belongs to.
#[inline]
pub fn class(bytes: u64) -> usize {
    (u64::BITS - bytes.leading_zeros()) as usize
}

/// The fewest bytes of a class.
pub fn least(class: usize) -> u64 {
    if class == 0 { 0 } else { 1 << (class - 1) }
}

/// The most bytes of a class.
pub fn most(class: usize) -> u64 {
    if class == 0 {
        0
    } else {
        u64::MAX >> (u64::BITS as usize - class)
    }
}

/// Something inside of `T`, at hand, that somebody counts in: one load away, and kept as long as this is.
pub struct Part<T> {
    place: NonNull<T>,
    _keep: Arc<dyn Keep>,
}

// SAFETY: it gives out shared references only.
unsafe impl<T: Sync> Send for Part<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Part<T> {}

impl<T> Part<T> {
    /// The part of `whole` that `pick` finds.
    pub fn new<W: Keep + 'static>(whole: Arc<W>, pick: impl FnOnce(&W) -> &T) -> Part<T> {
        Part {
            place: NonNull::from(pick(&whole)),
            _keep: whole,
        }
    }
}

impl<T> Clone for Part<T> {
    fn clone(&self) -> Part<T> {
        Part {
            place: self.place,
            _keep: self._keep.clone(),
        }
    }
}

impl<T> Deref for Part<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: `pick` found it in something that has been shared, and neither moved nor lent for changes, ever since.
        unsafe { self.place.as_ref() }
    }
}

/// What keeps a block's memory.
pub trait Keep: Send + Sync {}
impl<T: Send + Sync> Keep for T {}

/// A block in memory.
pub struct Block {
    fixed: NonNull<Fixed>,
    ranks: u32,
    _keep: Box<dyn Keep>,
}

// SAFETY: all of it is atomics.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// The block at `place`, of a job of `ranks`, which `keep` keeps mapped.
    ///
    /// # Safety
    /// [`len`] bytes lie there, page aligned, as long as `keep` lives, and nobody accesses them other than
    /// through a [`Block`].
    pub unsafe fn new(place: NonNull<u8>, ranks: u32, keep: Box<dyn Keep>) -> Block {
        Block {
            fixed: place.cast(),
            ranks,
            _keep: keep,
        }
    }

    /// The part that every job has.
    #[inline]
    pub fn fixed(&self) -> &Fixed {
        // SAFETY: the promise of `new`; zero bytes are a valid start for all its atomics.
        unsafe { self.fixed.as_ref() }
    }

    /// The head.
    #[inline]
    pub fn head(&self) -> &Head {
        &self.fixed().head
    }

    /// The traffic with rank `peer`.
    ///
    /// # Panics
    /// When there is no such rank.
    #[inline]
    pub fn peer(&self, peer: u32) -> &Peer {
        assert!(peer < self.ranks);
        // SAFETY: as above; the peers follow the fixed part.
        unsafe { self.fixed.add(1).cast::<Peer>().add(peer as usize).as_ref() }
    }

    /// Ranks of the job.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// What this rank wrote, or read from another's memory, of a kind, a path and a class of size.
    pub fn traffic(&self, kind: Kind, path: Path, class: usize) -> Sum {
        let mut few = Sum::default();
        if (kind, path) == (Kind::Message, Path::Slot) {
            for peer in 0..self.ranks {
                let part = self.peer(peer).few.of(class);
                few = few.and(part.messages, part.bytes);
            }
        }
        self.fixed().traffic[kind as usize][path as usize][class].plus(few)
    }

    /// Whether a rank has begun to count here, in this version's format.
    pub fn is_begun(&self) -> bool {
        let head = self.head();
        head.magic.load(Ordering::Acquire) == MAGIC && head.ranks.load(Ordering::Relaxed) == self.ranks
    }
}

/// Who counts.
pub struct Start<'a> {
    /// For [`Head::began`].
    pub began: [u64; 3],
    /// A number of this job's own.
    pub job: u64,
    /// Which rank.
    pub rank: u32,
    /// CPUs of the job.
    pub cpus: u32,
    /// The values of the control variables.
    pub settings: &'a [u64],
    /// The program's name.
    pub name: &'a [u8],
}

impl Block {
    /// Begins to count: writes the head.
    pub fn begin(&self, start: &Start) {
        let head = self.head();
        for (word, value) in head.began.iter().zip(start.began) {
            word.store(value, Ordering::Relaxed);
        }
        head.job.store(start.job, Ordering::Relaxed);
        head.ranks.store(self.ranks, Ordering::Relaxed);
        head.rank.store(start.rank, Ordering::Relaxed);
        head.cpus.store(start.cpus, Ordering::Relaxed);
        head.pid.store(std::process::id(), Ordering::Relaxed);
        for (word, value) in head.settings.iter().zip(start.settings) {
            word.store(*value, Ordering::Relaxed);
        }
        // The last word stays zero: the end of the name.
        for (word, letters) in head.name.iter().zip(start.name.chunks(8)).take(NAME / 8 - 1) {
            let mut value = [0; 8];
            value[..letters.len()].copy_from_slice(letters);
            word.store(u64::from_le_bytes(value), Ordering::Relaxed);
        }
        head.stage.store(Stage::Running as u32, Ordering::Relaxed);
        head.magic.store(MAGIC, Ordering::Release);
    }
}

pub mod file;
mod meter;
mod thread;

pub use meter::Meter;
pub use thread::Outermost;
