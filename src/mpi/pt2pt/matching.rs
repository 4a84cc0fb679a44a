//! Matching: which posted receive takes an arriving message, and which stored message a receive
//! finds (MPI-4.1 §3.5 "Order").
//!
//! Both queues start as a row scanned from its oldest entry, of any length: messages mostly come in
//! the order of their receives, and then the first entry is the match. When none of the first
//! [`SHORT`] entries is, and there are more, the queue moves into lists found by hash, one family of
//! lists for each of the four kinds of pattern (see [`Pattern::kind`]), so a match costs O(1) at any
//! length; it moves back when [`FEW`] entries are left.

mod links;
mod posted;
mod unexpected;

pub use posted::{Posted, Token};
pub use unexpected::{Place, Unexpected};

use super::super::comm::Comm;
use super::super::status::{ANY_SOURCE, ANY_TAG};

/// Most entries of a row that are scanned.
const SHORT: usize = 16;
/// Entries at which a long queue becomes short again.
const FEW: usize = 4;
/// Entries whose memory a queue keeps when it becomes short again or empty.
const KEPT: usize = 4096;
/// No node.
const NONE: u32 = u32::MAX;

const TAG_BITS: u64 = 0x7fff_ffff;
const SOURCE_BITS: u64 = 0xffff << 48;
/// Bits of a negative tag on the plane of collective operations that say which call the message belongs to and do not count.
pub const SIGNATURE_BITS: u64 = 0x3ff << 21;
/// What counts for each kind of pattern. A negative tag is nobody's "any tag": its sign stays.
const MASKS: [u64; 4] = [!0, !SOURCE_BITS, !TAG_BITS, !(SOURCE_BITS | TAG_BITS)];
const EXACT: usize = 0;

/// The bits of an envelope that do not count: the signature's, if it has both the sign of its tag and, beside that, the lowest
/// bit of its context, which is the plane.
#[inline]
const fn unmatched(envelope: u64) -> u64 {
    SIGNATURE_BITS & ((envelope & envelope >> 1) as i32 >> 31) as i64 as u64
}

/// What a message is matched by, in one word.
///
/// ```text
///  63        48 47        32 31                    0
/// +------------+------------+-----------------------+
/// |   source   |  context   |          tag          |
/// +------------+------------+-----------------------+
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Envelope(pub u64);

impl Envelope {
    /// The envelope of a message from rank `source` of the communicator that owns `context`.
    #[inline]
    pub fn new(context: u16, source: u32, tag: i32) -> Envelope {
        debug_assert!(source <= u16::MAX.into());
        Envelope(u64::from(source) << 48 | u64::from(context) << 32 | u64::from(tag as u32))
    }

    /// The envelope of a message of the program's own on `comm`.
    #[inline(always)]
    pub fn program(comm: &Comm, tag: i32) -> Envelope {
        // The plane is 0; shifting the number as a whole word takes fewer instructions than `new`.
        let context = u64::from(comm.context.number()) << 33;
        Envelope(u64::from(comm.rank) << 48 | context | u64::from(tag as u32))
    }

    /// Context number.
    #[inline]
    pub fn context(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Sender's rank in the communicator.
    #[inline]
    pub fn source(self) -> u32 {
        (self.0 >> 48) as u32
    }

    /// The bits that messages are told apart by.
    #[inline]
    fn counting(self) -> u64 {
        self.0 & !unmatched(self.0)
    }

    /// Tag.
    #[inline]
    pub fn tag(self) -> i32 {
        self.0 as u32 as i32
    }
}

impl std::fmt::Debug for Envelope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (context, source, tag) = (self.context(), self.source(), self.tag());
        write!(f, "context {context} source {source} tag {tag}")
    }
}

/// Which envelopes a receive or probe takes: those that equal `value` under `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The wanted bits; the others say nothing.
    pub value: u64,
    /// The bits that count.
    pub mask: u64,
}

impl Pattern {
    /// Messages on `context` from `source` (or `ANY_SOURCE`) with `tag` (or `ANY_TAG`: every tag >= 0).
    #[inline]
    pub fn new(context: u16, source: i32, tag: i32) -> Pattern {
        let kind = usize::from(source == ANY_SOURCE) | usize::from(tag == ANY_TAG) << 1;
        let tag = if tag == ANY_TAG { 0 } else { tag };
        let value = u64::from(source as u16) << 48 | u64::from(context) << 32 | u64::from(tag as u32);
        let mask = MASKS[kind] & !unmatched(value);
        Pattern { value, mask }
    }

    /// The pattern that only `envelope` matches.
    #[inline]
    pub fn exact(envelope: Envelope) -> Pattern {
        Pattern {
            value: envelope.0,
            mask: !unmatched(envelope.0),
        }
    }

    /// The wanted bits alone.
    fn key(self) -> u64 {
        self.value & self.mask
    }

    /// The context it wants.
    pub fn context(self) -> u16 {
        Envelope(self.value).context()
    }

    /// The source it wants, unless it takes any.
    pub fn source(self) -> Option<u32> {
        (self.mask & SOURCE_BITS != 0).then(|| Envelope(self.value).source())
    }

    /// The tag it wants, signature included, unless it takes any.
    pub fn tag(self) -> Option<i32> {
        (self.mask & TAG_BITS != 0).then(|| Envelope(self.value).tag())
    }

    /// Whether a message with `envelope` is wanted.
    #[inline]
    pub fn matches(self, envelope: Envelope) -> bool {
        (envelope.0 ^ self.value) & self.mask == 0
    }

    /// Which wildcards it has: 1 for any source, plus 2 for any tag.
    fn kind(self) -> usize {
        usize::from(self.mask & SOURCE_BITS == 0) | usize::from(self.mask & TAG_BITS == 0) << 1
    }
}

/// Where a row has the entry that is looked for.
enum Scan {
    /// At this place.
    Found(usize),
    /// Nowhere.
    None,
    /// The queue is long: in its lists, if anywhere.
    Long,
}

/// Counts the entries looked at, for the tests.
#[inline(always)]
fn step() {
    #[cfg(test)]
    tests::STEPS.with(|steps| steps.set(steps.get() + 1));
}

#[cfg(test)]
mod tests;
