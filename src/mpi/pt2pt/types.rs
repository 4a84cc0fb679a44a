//! What `NEARMPI_CHECK` knows about the types of messages (MPI-4.1 §3.3.1: the receiver names the types that the
//! sender named, in their order).
//!
//! Before each message of the program goes a *note* that says how many values it has, of which types: a
//! message of its own, so that it takes the same ways in the same order. Its envelope is nobody's. The receiver
//! pairs notes and messages when they are matched, which is in the order of their sending for equal envelopes, and
//! compares when the bytes are there. Types that read the same bits count as one, in whichever language they have
//! their names; `MPI_BYTE` and `MPI_PACKED` go with everything.
//!
//! Collective operations need no notes: where all members name the same values, their calls' signatures have a [`hash`] of the
//! types, in which `MPI_BYTE` goes with itself alone.

use super::matching::Envelope;
use crate::channel::outgoing::Sent;
use crate::mpi::buffer::{Buffer, Layout};
use crate::mpi::datatype::Datatype;
use crate::mpi::datatype::basic::{BASICS, Basic, OpClass, Repr};
use crate::mpi::error::fault;
use crate::mpi::error::{Class, Error, Result};
use crate::mpi::request::{Kind, Request, RequestKey};
use crate::mpi::status::Status;
use crate::mpi::world::{Hold, State};
use std::collections::{HashMap, VecDeque};

/// The sender of a note, as its envelope has it: no rank.
const NOBODY: u32 = u16::MAX as u32;
/// The tag of a note; no message of the program or of ours has it.
const NOTE: i32 = -1;
/// What hashes are powers of.
const BASE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The notes that have come.
#[derive(Default)]
pub struct Notes {
    /// By envelope: of messages that have not been matched.
    waiting: HashMap<u64, VecDeque<Note>>,
    /// By request: of messages that a receive or a probe has taken.
    taken: HashMap<RequestKey, Note>,
}

/// Of the messages with an envelope, which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The first of those that wait.
    First,
    /// The one that has just come.
    Latest,
}

/// The values of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    row: Row,
    /// The one type of all values, by its place in [`BASICS`].
    element: Option<usize>,
}

/// A row of values: how many, and a hash of their types in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    len: u64,
    hash: u64,
    /// `BASE` to the power of `len`.
    power: u64,
    /// There is one that goes with everything.
    any: bool,
}

impl Row {
    const EMPTY: Row = Row {
        len: 0,
        hash: 0,
        power: 1,
        any: false,
    };

    fn one(repr: Repr) -> Row {
        Row {
            len: 1,
            hash: repr as u64 + 1,
            power: BASE,
            any: false,
        }
    }

    fn then(self, next: Row) -> Row {
        Row {
            len: self.len + next.len,
            hash: self.hash.wrapping_mul(next.power).wrapping_add(next.hash),
            power: self.power.wrapping_mul(next.power),
            any: self.any || next.any,
        }
    }

    fn times(mut self, mut count: u64) -> Row {
        let mut all = Row::EMPTY;
        while count > 0 {
            if count & 1 == 1 {
                all = all.then(self);
            }
            self = self.then(self);
            count >>= 1;
        }
        all
    }

    /// The values of one element of a predefined type, `most` at most.
    fn of_basic(basic: &Basic, most: u64) -> Row {
        let wild = basic.class == OpClass::Byte || basic.name == "MPI_PACKED";
        let (first, second) = match basic.repr {
            Repr::FloatInt => (Repr::F32, Some(Repr::I32)),
            Repr::DoubleInt => (Repr::F64, Some(Repr::I32)),
            Repr::LongInt => (Repr::I64, Some(Repr::I32)),
            Repr::ShortInt => (Repr::I16, Some(Repr::I32)),
            Repr::LongDoubleInt => (Repr::F80, Some(Repr::I32)),
            Repr::TwoInt => (Repr::I32, Some(Repr::I32)),
            Repr::TwoFloat => (Repr::F32, Some(Repr::F32)),
            Repr::TwoDouble => (Repr::F64, Some(Repr::F64)),
            // C leaves open whether a char has a sign.
            Repr::U8 => (Repr::I8, None),
            repr => (repr, None),
        };
        let first = Row {
            any: wild,
            ..Row::one(first)
        };
        match second.filter(|_| most > 1) {
            Some(second) => first.then(Row::one(second)),
            None => first,
        }
    }

    /// The first `most` values of one element of a type.
    fn of_element(datatype: &Datatype, most: u64) -> Row {
        let mut row = Row::EMPTY;
        datatype.values(&mut |basic, count| {
            let (one, left) = (Row::of_basic(basic, u64::MAX), most - row.len);
            let full = (left / one.len).min(count as u64);
            row = row.then(one.times(full));
            if full < count as u64 && row.len < most {
                row = row.then(Row::of_basic(basic, most - row.len));
            }
        });
        row
    }

    /// The first `most` values of `count` elements of a type.
    fn of(datatype: &Datatype, count: usize, most: u64) -> Row {
        let one = Row::of_element(datatype, u64::MAX);
        if one.len == 0 {
            return Row::EMPTY;
        }
        let full = (most / one.len).min(count as u64);
        let row = one.times(full);
        if full == count as u64 || row.len == most {
            return row;
        }
        row.then(Row::of_element(datatype, most - row.len))
    }
}

impl Note {
    /// What the buffer of a send holds, if its type is known.
    fn of(buffer: &Buffer) -> Option<Note> {
        match &buffer.layout {
            Layout::Typed { count, datatype } => Some(Note::of_elements(datatype, *count)),
            _ => None,
        }
    }

    fn of_elements(datatype: &Datatype, count: usize) -> Note {
        let element = datatype.element();
        Note {
            row: Row::of(datatype, count, u64::MAX),
            element: element.and_then(|element| BASICS.iter().position(|basic| basic == element)),
        }
    }

    fn words(&self, envelope: Envelope) -> [u64; 6] {
        let Row { len, hash, power, any } = self.row;
        let element = self.element.map_or(0, |at| at as u64 + 1);
        [envelope.0, len, hash, power, any.into(), element]
    }

    fn read(words: &[u64; 6]) -> (u64, Note) {
        let [envelope, len, hash, power, any, element] = *words;
        let any = any != 0;
        let row = Row { len, hash, power, any };
        let element = (element as usize).checked_sub(1).filter(|&at| at < BASICS.len());
        (envelope, Note { row, element })
    }

    /// What is wrong with receiving `what` with these values as `count` elements of a type.
    fn mismatch(&self, datatype: &Datatype, count: usize, what: impl FnOnce() -> String) -> Option<Error> {
        let mine = Row::of(datatype, count, self.row.len);
        if mine.any || self.row.any || (mine.len, mine.hash) == (self.row.len, self.row.hash) {
            return None;
        }
        let name = |element: Option<&Basic>| element.map_or("several types", |basic| basic.name);
        Some(Error::new(
            Class::Type,
            format!(
                "{} has {} values of {}, but the receive names {}",
                what(),
                self.row.len,
                name(self.element.map(|at| &BASICS[at])),
                name(datatype.element()),
            ),
        ))
    }
}

/// What errors call the message with `envelope`.
fn named(envelope: Envelope) -> String {
    format!(
        "the message from rank {} with tag {}",
        envelope.source(),
        envelope.tag()
    )
}

/// Checks the types of a block that a rank has for itself, which is `sent`, against those of its room for it.
///
/// # Errors
/// `Type`.
pub fn check_own(sent: (&Datatype, usize), room: (&Datatype, usize)) -> Result<()> {
    let what = || "this rank's block for itself".to_owned();
    let wrong = Note::of_elements(sent.0, sent.1).mismatch(room.0, room.1, what);
    wrong.map_or(Ok(()), Err)
}

/// A hash of the types of `count` elements, in order: of what all members of a collective operation shall name alike.
pub fn hash(datatype: &Datatype, count: usize) -> u64 {
    Row::of(datatype, count, u64::MAX).hash
}

/// Whether a message is a note.
#[inline]
pub fn is_note(envelope: Envelope) -> bool {
    envelope.source() == NOBODY && envelope.tag() == NOTE
}

/// Tells rank `to` of the job what the next message to it with `envelope` holds.
///
/// # Errors
/// A peer that left the protocol; too many requests.
pub fn announce(hold: &mut Hold, to: u32, envelope: Envelope, buffer: &Buffer) -> Result<()> {
    let Some(note) = Note::of(buffer) else { return Ok(()) };
    let mut words = note.words(envelope);
    let kept = Buffer::kept(&Buffer::bytes(words.as_mut_ptr().cast(), size_of_val(&words)));
    let mut request = Request::new(Kind::Send(None), None);
    request.detached = true;
    let key = hold.add_request(request)?;
    let envelope = Envelope::new(envelope.context(), NOBODY, NOTE).0;
    if hold.engine.channel.send(to, envelope, &kept, key).map_err(fault)? == Sent::Done {
        hold.complete(key, Status::EMPTY, None);
    }
    Ok(())
}

impl State {
    /// A note has come.
    #[cold]
    pub(super) fn keep_note(&mut self, bytes: &[u8]) {
        let mut words = [0; 6];
        let (Some(notes), true) = (&mut self.engine.notes, bytes.len() == size_of_val(&words)) else {
            return;
        };
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().expect("chunks of eight"));
        }
        let (envelope, note) = Note::read(&words);
        notes.waiting.entry(envelope).or_default().push_back(note);
    }

    /// The request `key`, a receive or what a probe has found, has taken the next message with `envelope`.
    #[inline]
    pub(super) fn take_note(&mut self, key: RequestKey, envelope: Envelope) {
        if let Some(notes) = &mut self.engine.notes {
            notes.take(key, envelope);
        }
    }

    /// The message of `from` is to be received by `to`, or by nobody any more.
    pub(in crate::mpi) fn move_note(&mut self, from: RequestKey, to: Option<RequestKey>) {
        if let Some(notes) = &mut self.engine.notes
            && let Some(note) = notes.taken.remove(&from)
            && let Some(to) = to
        {
            notes.taken.insert(to, note);
        }
    }

    /// A message with `envelope` that nobody has taken has been withdrawn.
    pub(super) fn drop_note(&mut self, envelope: Envelope, which: Which) {
        if let Some(notes) = &mut self.engine.notes {
            notes.remove(envelope, which);
        }
    }

    /// What is wrong with the types of the message that the receive `key` has got, if anything.
    #[inline]
    pub(super) fn mismatch(&mut self, key: RequestKey, envelope: Envelope) -> Option<Error> {
        let note = self.engine.notes.as_mut()?.taken.remove(&key)?;
        let Kind::Recv(receive) = &self.requests.get(key)?.kind else {
            return None;
        };
        let Layout::Typed { count, datatype } = &receive.buffer.layout else {
            return None;
        };
        note.mismatch(datatype, *count, || named(envelope))
    }
}

impl Notes {
    fn take(&mut self, key: RequestKey, envelope: Envelope) {
        if !self.taken.contains_key(&key)
            && let Some(note) = self.remove(envelope, Which::First)
        {
            self.taken.insert(key, note);
        }
    }

    fn remove(&mut self, envelope: Envelope, which: Which) -> Option<Note> {
        let waiting = self.waiting.get_mut(&envelope.0)?;
        let note = match which {
            Which::First => waiting.pop_front(),
            Which::Latest => waiting.pop_back(),
        };
        if waiting.is_empty() {
            self.waiting.remove(&envelope.0);
        }
        note
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::datatype::construct::Member;
    use std::rc::Rc;

    fn basic(name: &str) -> Rc<Datatype> {
        Datatype::basic_at(BASICS.iter().position(|basic| basic.name == name).unwrap())
    }

    /// A row value by value.
    fn slow(values: &[Repr]) -> Row {
        values.iter().fold(Row::EMPTY, |row, &repr| row.then(Row::one(repr)))
    }

    #[test]
    fn rows_are_what_their_values_say() {
        use Repr::{F32, F64, I32};
        let (int, double) = (&basic("MPI_INT"), &basic("MPI_DOUBLE"));
        let member = |count, at, datatype| Member { count, at, datatype };
        let mixed = Datatype::structure(&[member(2, 0, int), member(1, 8, double)]).unwrap();
        let values = [I32, I32, F64].repeat(5);
        for most in 0..=values.len() {
            assert_eq!(Row::of(&mixed, 5, most as u64), slow(&values[..most]), "{most}");
        }
        assert_eq!(Row::of(&mixed, 5, u64::MAX), slow(&values));
        let pair = basic("MPI_FLOAT_INT");
        for most in 0..=6 {
            assert_eq!(Row::of(&pair, 3, most), slow(&[F32, I32].repeat(3)[..most as usize]));
        }
        let thousands = Row::of(int, 100_000, u64::MAX);
        assert_eq!((thousands, thousands.len), (Row::one(I32).times(100_000), 100_000));
        assert_eq!(Row::of(&basic("MPI_LB"), 4, u64::MAX), Row::EMPTY);
    }

    #[test]
    fn what_goes_with_what() {
        let typed = |name: &str, count| Buffer {
            address: std::ptr::null_mut(),
            layout: Layout::Typed {
                count,
                datatype: basic(name),
            },
        };
        let envelope = Envelope::new(4, 2, 7);
        let wrong = |sent, count, received, room| {
            let (of, note) = Note::read(&Note::of(&typed(sent, count)).unwrap().words(envelope));
            assert_eq!(of, envelope.0);
            note.mismatch(&basic(received), room, || named(envelope))
        };
        for (sent, received) in [
            ("MPI_INT", "MPI_INTEGER"),
            ("MPI_LONG", "MPI_INT64_T"),
            ("MPI_CHAR", "MPI_UNSIGNED_CHAR"),
            ("MPI_PACKED", "MPI_DOUBLE"),
            ("MPI_DOUBLE", "MPI_BYTE"),
        ] {
            assert!(wrong(sent, 3, received, 5).is_none(), "{sent} as {received}");
        }
        let text = wrong("MPI_FLOAT", 4, "MPI_INT", 4).unwrap().to_string();
        let expected = "from rank 2 with tag 7 has 4 values of MPI_FLOAT, but the receive names MPI_INT";
        assert!(text.contains(expected), "{text}");
        assert!(wrong("MPI_INT", 2, "MPI_DOUBLE", 1).is_some());
        assert!(wrong("MPI_INT", 0, "MPI_DOUBLE", 1).is_none());
    }
}
