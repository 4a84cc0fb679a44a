//! The records that travel in a pair's ring, and nowhere else defined.
//!
//! Header and envelope word are the slot's ([`crate::shm::ring`]); the payload words say:
//!
//! ```text
//! kind    len           aux        envelope word   payload
//! Inline  message       -          envelope        the message, up to 48 bytes
//! Bytes   message       -          envelope        - (the message lies in the byte ring)
//! Cells   this record   cells      envelope        w0 total length, w1 offset, w2..w5 16-bit cell names
//! Data    this record   cells      receiver token  as Cells: part of a taken offer
//! Part    this record   shuttle    envelope        w0 total length, w1 offset; the bytes lie in the byte ring or a shuttle
//! Rest    this record   shuttle    receiver token  as Part: part of a taken offer
//! Offer   0             way | row  envelope        w0 length, w1 address, w2 use:32 | descriptor:32
//! Clear   0             -          receiver token  w0 bytes wanted, w2 use:32 | descriptor:32
//! Fin     0             -          -               w2 use:32 | descriptor:32
//! Join    0             -          receiver token  w0 bytes wanted, w1 address, w2 use:32 | descriptor:32, w3 chunk
//! Joined  0             whole      receiver token  -
//! Level   0             level      -               -
//! Ask     message       withdraw   envelope        w0 use:32 | descriptor:32, then the message, or it lies in the byte ring
//! Larger  larger ring   -          -               - (the ring's own, see there)
//! ```
//!
//! An Offer's aux has [`Way`] in its upper bits; bit 0 says that the bytes lie in a row at the address. A Joined
//! says that the sender has copied the last chunk of what a Join asked for, or that it could not copy one.
//!
//! An Ask is a message by value whose sender waits for a Fin, which the receiver sends when a receive has it; bit 0 of
//! its aux says that the sender may withdraw it until the receiver claims the descriptor.
//!
//! The aux of a Part or Rest is 0 where its bytes lie in the byte ring, else the shuttle's number plus 1; they lie there as in the
//! message, from the beginning.
//!
//! Cells, Data, Part and Rest records of one message come in order of their offsets; a message may take several.

use super::Glance;
use crate::shm::offer::CHUNKS;
use crate::shm::pool::CELL;
use crate::shm::ring::{Consumer, Header, INLINE, Junk};
use crate::shm::shuttle::{Number, Shuttles};
use std::ptr::NonNull;

/// Cells that one record can name.
pub const CELLS_PER_RECORD: usize = 16;

/// Most bytes of an Ask that lie in its slot, behind the first word.
pub const ASK_INLINE: usize = INLINE - 8;

/// Bit of an offer whose message the program cannot cancel.
const FIRM: u8 = 8;

/// Kind numbers; 0 is no record.
pub mod kind {
    #![allow(missing_docs)]
    pub const INLINE: u8 = 1;
    pub const BYTES: u8 = 2;
    pub const CELLS: u8 = 3;
    pub const DATA: u8 = 4;
    pub const OFFER: u8 = 5;
    pub const CLEAR: u8 = 6;
    pub const FIN: u8 = 7;
    pub const JOIN: u8 = 8;
    pub const JOINED: u8 = 9;
    pub const LEVEL: u8 = 10;
    pub const PART: u8 = 11;
    pub const REST: u8 = 12;
    pub const ASK: u8 = 13;
    pub const LARGER: u8 = crate::shm::ring::LARGER;
}

/// How the bytes of a large message travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Way {
    /// Through the sender's cells: two copies that overlap.
    Cells = 0,
    /// The receiver reads them out of the sender's memory.
    Pull = 1,
    /// The receiver reads some and the sender writes some, at the same time.
    Join = 2,
}

/// A record without bytes of its own in the ring.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Header of the slot.
    pub header: Header,
    /// Envelope word of the slot.
    pub envelope: u64,
    /// Payload words.
    pub words: [u64; 6],
}

/// Names a descriptor in one of its uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OfferId {
    /// Number of the descriptor at its owner.
    pub index: u32,
    /// Which use of it.
    pub usage: u32,
}

/// A message that its sender offers for one copy.
#[derive(Clone, Copy, Debug)]
pub struct Offered {
    /// Rank in the job of the sender.
    pub from: u32,
    /// The sender's descriptor.
    pub id: OfferId,
    /// Bytes in the message.
    pub len: u64,
    /// Address in the sender, or `None` when the bytes do not lie in a row there.
    pub address: Option<u64>,
    /// How the sender wants them to travel.
    pub way: Way,
    /// The program cannot cancel it.
    pub is_firm: bool,
}

/// A message by value whose sender waits until it is received.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Rank in the job of the sender.
    pub from: u32,
    /// The sender's descriptor.
    pub id: OfferId,
    /// Whether the sender may withdraw it until the descriptor is claimed.
    pub withdrawable: bool,
}

/// A receiver's invitation to copy with it.
#[derive(Clone, Copy, Debug)]
pub struct Join {
    /// The sender's descriptor.
    pub id: OfferId,
    /// What the receiver calls the message.
    pub token: u32,
    /// Bytes that it takes.
    pub wanted: u64,
    /// Where they go in the receiver.
    pub address: u64,
    /// Bytes of a chunk; the last one may be shorter.
    pub chunk: u64,
}

/// Part of a message, in cells, in the byte ring or in a shuttle.
#[derive(Clone, Copy, Debug)]
pub struct Portion {
    /// Bytes of the whole message.
    pub total: u64,
    /// Where in the message this portion starts.
    pub offset: u64,
    /// Bytes in this portion.
    pub len: u32,
    /// The sender's cells, `count` of them, all full but the last.
    pub cells: [u16; CELLS_PER_RECORD],
    /// How many cells.
    pub count: usize,
    /// Where the bytes lie in a row, until the slot is left; `None`: in the cells.
    pub row: Option<NonNull<u8>>,
}

/// Part of a message, in the byte ring or a shuttle until its slot is left.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Bytes of the whole message.
    pub total: u64,
    /// Where in the message this part starts.
    pub offset: u64,
    /// Bytes in this part.
    pub len: u32,
    /// Where they lie.
    pub at: NonNull<u8>,
    /// In which shuttle; `None`: in the byte ring.
    pub shuttle: Option<Number>,
}

impl Part {
    /// The shuttle that comes with this part, the last of its message.
    #[inline]
    pub fn brings(&self) -> Option<Number> {
        self.shuttle.filter(|_| self.is_last())
    }

    /// Whether its message ends with it.
    #[inline]
    pub fn is_last(&self) -> bool {
        self.offset + u64::from(self.len) == self.total
    }

    /// Whether it is all of its message.
    #[inline]
    pub fn is_whole(&self) -> bool {
        u64::from(self.len) == self.total
    }

    /// Bytes of it in the byte ring.
    #[inline]
    pub fn outside(&self) -> u32 {
        match self.shuttle {
            None => self.len,
            Some(_) => 0,
        }
    }
}

impl From<Part> for Portion {
    fn from(part: Part) -> Portion {
        Portion {
            total: part.total,
            offset: part.offset,
            len: part.len,
            cells: [0; CELLS_PER_RECORD],
            count: 0,
            row: Some(part.at),
        }
    }
}

impl OfferId {
    pub(super) fn word(self) -> u64 {
        u64::from(self.usage) << 32 | u64::from(self.index)
    }

    fn of(word: u64) -> OfferId {
        OfferId {
            index: word as u32,
            usage: (word >> 32) as u32,
        }
    }
}

impl Record {
    #[inline]
    fn new(kind: u8, aux: u8, len: u32, envelope: u64, words: [u64; 6]) -> Record {
        Record {
            header: Header { kind, aux, len },
            envelope,
            words,
        }
    }

    /// An offer of `len` bytes at `address` (or in pieces).
    pub fn offer(envelope: u64, len: u64, address: Option<u64>, id: OfferId, (way, is_firm): (Way, bool)) -> Record {
        let words = [len, address.unwrap_or(0), id.word(), 0, 0, 0];
        let aux = (if is_firm { FIRM } else { 0 }) | (way as u8) << 1 | address.is_some() as u8;
        Record::new(kind::OFFER, aux, 0, envelope, words)
    }

    /// Asks the owner of a taken offer to copy with its receiver.
    pub fn join(join: &Join) -> Record {
        let words = [join.wanted, join.address, join.id.word(), join.chunk, 0, 0];
        Record::new(kind::JOIN, 0, 0, join.token.into(), words)
    }

    /// Tells the receiver `token` that all chunks are copied, or that its sender cannot write to it.
    pub fn joined(token: u32, whole: bool) -> Record {
        Record::new(kind::JOINED, whole as u8, 0, token.into(), [0; 6])
    }

    /// Asks the owner of a taken offer to send `wanted` bytes through cells to `token`.
    pub fn clear(id: OfferId, token: u32, wanted: u64) -> Record {
        Record::new(kind::CLEAR, 0, 0, token.into(), [wanted, 0, id.word(), 0, 0, 0])
    }

    /// Tells the owner of a taken offer that the copy is made.
    pub fn fin(id: OfferId) -> Record {
        Record::new(kind::FIN, 0, 0, 0, [0, 0, id.word(), 0, 0, 0])
    }

    /// Tells a sender how to treat large messages, by the number of a [`super::late::Level`].
    pub fn level(level: u8) -> Record {
        Record::new(kind::LEVEL, level, 0, 0, [0; 6])
    }

    /// `len` bytes in the byte ring or in `shuttle`, from `offset` of a message of `total`; `kind` is PART or REST.
    #[inline]
    pub fn part(kind: u8, envelope: u64, (total, offset, len): (u64, u64, u32), shuttle: Option<Number>) -> Record {
        let aux = shuttle.map_or(0, |number| number + 1);
        Record::new(kind, aux, len, envelope, [total, offset, 0, 0, 0, 0])
    }

    /// A portion of a message; `kind` is CELLS or DATA.
    pub fn portion(kind: u8, envelope: u64, portion: &Portion) -> Record {
        let mut words = [portion.total, portion.offset, 0, 0, 0, 0];
        for (index, cell) in portion.cells.iter().take(portion.count).enumerate() {
            words[2 + index / 4] |= u64::from(*cell) << (index % 4 * 16);
        }
        Record::new(kind, portion.count as u8, portion.len, envelope, words)
    }
}

/// Reads the portion in the slot that `ring` stands at.
///
/// # Errors
/// `Junk` when lengths and cells do not fit each other.
pub fn read_portion(ring: &Consumer, header: Header) -> Result<Portion, Junk> {
    let count = usize::from(header.aux);
    let (total, offset) = (ring.word(0), ring.word(1));
    let full = header.len as usize <= count * CELL && header.len as usize + CELL > count * CELL;
    let inside = offset
        .checked_add(u64::from(header.len))
        .is_some_and(|end| end <= total);
    if count == 0 || count > CELLS_PER_RECORD || !full || !inside || total > isize::MAX as u64 {
        return Err(Junk);
    }
    let mut cells = [0; CELLS_PER_RECORD];
    for (index, cell) in cells.iter_mut().take(count).enumerate() {
        *cell = (ring.word(2 + index / 4) >> (index % 4 * 16)) as u16;
    }
    Ok(Portion {
        total,
        offset,
        len: header.len,
        cells,
        count,
        row: None,
    })
}

/// Reads the part of a message in the slot that `ring` stands at; `shuttles` are those of the same two ranks.
///
/// # Errors
/// `Junk` when it has no bytes, more than the byte ring or the shuttle, or more than the message.
#[inline]
pub fn read_part(ring: &Consumer, header: Header, shuttles: &Shuttles) -> Result<Part, Junk> {
    let (total, offset) = (ring.word(0), ring.word(1));
    let inside = offset
        .checked_add(u64::from(header.len))
        .is_some_and(|end| end <= total);
    if header.len == 0 || !inside || total > isize::MAX as u64 {
        return Err(Junk);
    }
    let len = header.len;
    let shuttle = header.aux.checked_sub(1);
    let at = match shuttle {
        None => ring.bytes(len)?,
        Some(number) => shuttles.bytes(number, offset, len)?,
    };
    Ok(Part {
        total,
        offset,
        len,
        at,
        shuttle,
    })
}

/// What the next slot of `ring` shows.
#[inline(always)]
pub(super) fn glance(ring: &Consumer) -> Glance {
    match ring.peek() {
        None => Glance::Nothing,
        Some(Header {
            kind: kind::INLINE,
            len,
            ..
        }) if len as usize <= INLINE => Glance::Whole {
            envelope: ring.envelope(),
            data: ring.payload(),
            len: len as usize,
            outside: 0,
        },
        Some(Header {
            kind: kind::BYTES, len, ..
        }) => match ring.bytes(len) {
            Ok(data) => Glance::Whole {
                envelope: ring.envelope(),
                data: data.as_ptr(),
                len: len as usize,
                outside: len,
            },
            Err(Junk) => Glance::Other,
        },
        Some(Header { kind: kind::PART, .. }) => Glance::Part,
        Some(_) => Glance::Other,
    }
}

/// Reads the offer in the slot that `ring` stands at.
///
/// # Errors
/// `Junk` for a length that no message has.
pub fn read_offer(ring: &Consumer, header: Header, from: u32) -> Result<Offered, Junk> {
    let len = ring.word(0);
    if len > isize::MAX as u64 {
        return Err(Junk);
    }
    let way = match (header.aux & !FIRM) >> 1 {
        0 => Way::Cells,
        1 => Way::Pull,
        2 => Way::Join,
        _ => return Err(Junk),
    };
    let is_firm = header.aux & FIRM != 0;
    let address = (header.aux & 1 != 0).then(|| ring.word(1));
    Ok(Offered {
        from,
        id: OfferId::of(ring.word(2)),
        len,
        address,
        way,
        is_firm,
    })
}

/// Reads the Join in the slot that `ring` stands at.
///
/// # Errors
/// `Junk` for chunks that no receiver asks for.
pub fn read_join(ring: &Consumer) -> Result<Join, Junk> {
    let (wanted, chunk) = (ring.word(0), ring.word(3));
    if chunk == 0 || wanted == 0 || wanted.div_ceil(chunk) > CHUNKS as u64 {
        return Err(Junk);
    }
    Ok(Join {
        id: OfferId::of(ring.word(2)),
        token: ring.envelope() as u32,
        wanted,
        address: ring.word(1),
        chunk,
    })
}

/// The shuttle that comes with the record at which `ring` stands, the last part of a message.
#[inline]
pub fn brings(ring: &Consumer, header: Header) -> Option<Number> {
    let is_part = matches!(header.kind, kind::PART | kind::REST) && header.aux != 0;
    (is_part && ring.word(1).wrapping_add(header.len.into()) == ring.word(0)).then(|| header.aux - 1)
}

/// Bytes of a record that lie in the byte ring.
#[inline]
pub fn outside(header: Header) -> u32 {
    match header.kind {
        kind::PART | kind::REST if header.aux != 0 => 0,
        kind::BYTES | kind::PART | kind::REST => header.len,
        kind::ASK if header.len as usize > ASK_INLINE => header.len,
        _ => 0,
    }
}

/// Reads the Ask in the slot that `ring` stands at, and where its bytes lie.
///
/// # Errors
/// `Junk` for more bytes than the byte ring has.
pub fn read_asked(ring: &Consumer, header: Header, from: u32) -> Result<(Asked, *const u8), Junk> {
    let id = OfferId::of(ring.word(0));
    let data = match outside(header) {
        0 => ring.payload().wrapping_add(8),
        len => ring.bytes(len)?.as_ptr().cast_const(),
    };
    let withdrawable = header.aux & 1 != 0;
    Ok((Asked { from, id, withdrawable }, data))
}

/// The descriptor that a Clear or Fin record names.
pub fn read_id(ring: &Consumer) -> OfferId {
    OfferId::of(ring.word(2))
}
