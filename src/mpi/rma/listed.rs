//! # Safety
//! Reads and writes this process's part of a window for others, and their mailboxes: relies on [`Window`] to know what the
//! program exposed, on its callers for their buffers, and on the mailbox for who has its bytes.
//!
//! Stretches of a member's memory that lie apart, accessed by a question of many: as in [`mail`], with a list before the bytes.
//!
//! ```text
//! question: | kind, operation, basic, whether the old is wanted, LISTED | groups | bytes, all in all |
//! bytes:    | n x (address, length, how many, distance) | operands, or what is written | room for what was there, or is read |
//! ```
//! A group is stretches of one length at one distance: what a vector has lies in one or two, whatever its length. The list, in memory that
//! others write, is copied and checked before any of it is done.
#![allow(unsafe_code)]

use super::Window;
use super::epoch::updating;
use super::mail::{answered, in_pieces, quicker, soon};
use super::serve::{READ, WRITE, exposed};
use super::short::{Here, change};
use super::update::Change;
use crate::mpi::error::Result;
use crate::mpi::op::kernel::Kernel;
use crate::mpi::world::Hold;
use crate::shm::mailbox::{FAR, Mailbox};
use crate::sys::copy;
use std::ops::Range;

/// Bytes in a row of a member's memory: address and length.
pub(super) type Stretch = (u64, usize);

/// Bytes of a copy that take the kernel as long as a stretch more.
const STRETCH_COST: usize = 1 << 10;

/// Stretches of one length at one distance from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Group {
    address: u64,
    len: usize,
    count: usize,
    distance: u64,
}

/// Bytes of a group in a mailbox.
const GROUP: usize = 4 * size_of::<u64>();

impl Group {
    fn words(self) -> [u64; 4] {
        [self.address, self.len as u64, self.count as u64, self.distance]
    }

    fn of_words([address, len, count, distance]: [u64; 4]) -> Option<Group> {
        Some(Group {
            address,
            len: usize::try_from(len).ok()?,
            count: usize::try_from(count).ok()?,
            distance,
        })
    }

    fn stretches(self) -> impl Iterator<Item = Stretch> {
        (0..self.count as u64)
            .map(move |index| (self.address.wrapping_add(self.distance.wrapping_mul(index)), self.len))
    }

    /// Takes one more; false if it has another length or lies elsewhere.
    fn takes(&mut self, (address, len): Stretch) -> bool {
        if self.count == 1 {
            self.distance = address.wrapping_sub(self.address);
        }
        let next = self.address.wrapping_add(self.distance.wrapping_mul(self.count as u64));
        let fits = len == self.len && address == next;
        self.count += usize::from(fits);
        fits
    }
}

/// What one question is about.
#[derive(Debug, Default)]
struct Piece {
    bytes: Range<usize>,
    groups: Vec<Group>,
}

/// Cuts a list into questions whose bytes, in so many rows of elements of `size` bytes, fill a mailbox at most.
fn pieces(list: &[Stretch], rows: usize, size: usize) -> Vec<Piece> {
    let mut pieces = vec![Piece::default()];
    let mut piece = 0;
    for &(mut address, mut left) in list {
        while left > 0 {
            let Piece { bytes, groups } = &mut pieces[piece];
            let used = (groups.len() + 1) * GROUP + bytes.len() * rows;
            let room = FAR.saturating_sub(used) / rows.max(1) / size * size;
            if room == 0 {
                let start = bytes.end;
                let bytes = start..start;
                pieces.push(Piece {
                    bytes,
                    groups: Vec::new(),
                });
                piece += 1;
                continue;
            }
            let len = left.min(room);
            bytes.end += len;
            if !groups.last_mut().is_some_and(|group| group.takes((address, len))) {
                groups.push(Group {
                    address,
                    len,
                    count: 1,
                    distance: 0,
                });
            }
            (address, left) = (address.wrapping_add(len as u64), left - len);
        }
    }
    pieces
}

/// What the member is asked to do with the elements in a list.
#[derive(Clone, Copy)]
pub(super) struct Wish {
    /// A question's first word, but for [`LISTED`].
    pub word: u64,
    /// Rows that go with it, and whether one comes back.
    pub operands: usize,
    pub wanted: bool,
    /// Bytes of an element.
    pub size: usize,
}

/// A question's first word says so if a list comes before its bytes.
pub(super) const LISTED: u64 = 1 << 33;

/// Has member `rank` do what is wished with the bytes in `list`, from and to the rows `here`, or does it by `other`, which is told the
/// bytes that the member has not done; whether the member did all.
///
/// # Safety
/// As many bytes lie at each address in `here` that the wish has a row for, and nothing overlaps.
///
/// # Errors
/// `ProcFailed`: the member died over it; those of `other`.
pub(super) unsafe fn ask(
    hold: &mut Hold,
    window: &Window,
    rank: u32,
    list: &[Stretch],
    (wish, here): (Wish, &Here),
    other: impl FnMut(&mut Hold, Range<usize>) -> Result<()>,
) -> Result<bool> {
    let len = list.iter().map(|stretch| stretch.1).sum();
    let rows = wish.operands + usize::from(wish.wanted);
    let room = |piece: &Piece| piece.groups.len() * GROUP + rows * piece.bytes.len();
    let begin = |pieces: &[Piece], (hold, looks): (&mut Hold, u32), mailbox: &Mailbox, index: usize| {
        let piece = &pieces[index];
        let Some(mut at) = mailbox
            .bytes(room(piece))
            .filter(|_| soon(hold, looks, || mailbox.take()))
        else {
            return false;
        };
        // SAFETY: the mailbox, which is taken, has room for list and rows; the caller's promise for what lies here.
        unsafe {
            for group in &piece.groups {
                at.cast::<[u64; 4]>().write_unaligned(group.words());
                at = at.wrapping_add(GROUP);
            }
            for row in [here.origin, here.compare].into_iter().take(wish.operands) {
                copy::bytes(row.wrapping_add(piece.bytes.start), at, piece.bytes.len());
                at = at.wrapping_add(piece.bytes.len());
            }
        }
        let wanted = if wish.wanted { super::mail::WANTED } else { 0 };
        let word = wish.word | wanted | LISTED;
        mailbox.ask([word, piece.groups.len() as u64, piece.bytes.len() as u64]);
        true
    };
    let end = |pieces: &[Piece], (hold, looks): (&mut Hold, u32), mailbox: &Mailbox, index: usize| {
        let piece = &pieces[index];
        if !answered(hold, window, (rank, looks), mailbox)? {
            return Ok(false);
        }
        if let Some(bytes) = mailbox.bytes(room(piece)).filter(|_| wish.wanted) {
            let old = bytes.wrapping_add(room(piece) - piece.bytes.len());
            // SAFETY: as above.
            unsafe { copy::bytes(old, here.result.wrapping_add(piece.bytes.start), piece.bytes.len()) };
        }
        mailbox.leave();
        Ok(true)
    };
    let ask = |hold: &mut Hold, mailboxes: &[Mailbox], looks: u32| {
        let pieces = pieces(list, rows, wish.size);
        let left = in_pieces(
            hold,
            mailboxes,
            (pieces.len(), 1),
            |hold, mailbox, piece| begin(&pieces, (hold, looks), mailbox, piece.start),
            |hold, mailbox, piece| end(&pieces, (hold, looks), mailbox, piece.start),
        )?;
        let bytes = |left: Range<usize>| pieces[left.start].bytes.start..pieces[left.end - 1].bytes.end;
        Ok(left.into_iter().map(bytes).collect())
    };
    let kind = if matches!(wish.word, READ | WRITE) { 2 } else { 3 };
    let cost = list.len().saturating_mul(STRETCH_COST).saturating_add(len);
    quicker(hold, window, rank, (kind, len, cost), ask, other)
}

/// Bytes `part` of a list.
pub(super) fn part(list: &[Stretch], part: Range<usize>) -> Vec<Stretch> {
    let mut position = 0;
    let mut found = Vec::new();
    for &(address, len) in list {
        let (from, to) = (part.start.max(position), part.end.min(position + len));
        if from < to {
            found.push((address.wrapping_add((from - position) as u64), to - from));
        }
        position += len;
        if position >= part.end {
            break;
        }
    }
    found
}

/// What a question with a list asks for, once it is known that the window has such memory.
pub(super) struct Listed {
    groups: Vec<Group>,
    /// Where the rows begin.
    rows: *mut u8,
    len: usize,
}

/// Copies and checks a list of `count` groups, of `len` bytes in `rows` rows in elements of `size` bytes.
pub(super) fn listed(
    window: &Window,
    mailbox: &Mailbox,
    (count, len): (u64, u64),
    (rows, size): (usize, usize),
) -> Option<Listed> {
    let (count, len) = (usize::try_from(count).ok()?, usize::try_from(len).ok()?);
    let list = count.checked_mul(GROUP)?;
    let bytes = mailbox.bytes(list.checked_add(rows.checked_mul(len)?)?)?;
    let mut groups = Vec::with_capacity(count);
    let mut total = 0usize;
    for index in 0..count {
        // SAFETY: the mailbox, which is claimed, has the whole list.
        let words = unsafe { bytes.wrapping_add(index * GROUP).cast::<[u64; 4]>().read_unaligned() };
        let group = Group::of_words(words)?;
        total = total.checked_add(group.len.checked_mul(group.count)?)?;
        let sound = group.len > 0 && group.len.is_multiple_of(size) && total <= len;
        if !sound || !group.stretches().all(|(address, len)| exposed(window, address, len)) {
            return None;
        }
        groups.push(group);
    }
    (total == len && len > 0).then_some(Listed {
        groups,
        rows: bytes.wrapping_add(list),
        len,
    })
}

impl Listed {
    fn stretches(&self) -> impl Iterator<Item = Stretch> {
        self.groups.iter().flat_map(|group| group.stretches())
    }

    /// Copies to or from the one row.
    pub(super) fn copy(&self, reads: bool) {
        let mut row = self.rows;
        for (address, len) in self.stretches() {
            let there = address as usize as *mut u8;
            // SAFETY: the window has the stretch, and the row has as many bytes.
            unsafe {
                match reads {
                    true => copy::bytes(there, row, len),
                    false => copy::bytes(row, there, len),
                }
            }
            row = row.wrapping_add(len);
        }
    }

    /// Changes the elements in one turn.
    ///
    /// # Safety
    /// The kernel is the one for elements of `size` bytes.
    pub(super) unsafe fn change(
        &self,
        window: &Window,
        (what, kernel): (Change, Option<Kernel>),
        wanted: bool,
        size: usize,
    ) {
        let mut here = Here {
            origin: self.rows,
            compare: self.rows.wrapping_add(self.len),
            result: match wanted {
                true => self.rows.wrapping_add(what.operands() * self.len),
                false => std::ptr::null_mut(),
            },
        };
        updating(window, window.comm.rank, || {
            for (address, len) in self.stretches() {
                // SAFETY: the window has the stretch, the rows have as many elements for it, and the kernel is theirs.
                unsafe { change(address as usize as *mut u8, &here, (what, kernel), (size, len / size)) };
                here = here.skip(len);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_is_a_group_and_pieces_fill_a_mailbox_at_most() {
        let vector: Vec<Stretch> = (0..3000).map(|index| (1000 + 256 * index, 32)).collect();
        let cut = pieces(&vector, 1, 8);
        assert!(cut.iter().all(|piece| piece.groups.len() <= 2));
        let odd: Vec<Stretch> = (0..3000u64)
            .map(|index| (1000 + 200 * index * index, 8 + 8 * (index as usize % 3)))
            .collect();
        let back = [(1 << 40, 16), (1 << 39, 16), (0, 16), (64, 100_000)];
        for (list, rows) in [
            (&vector[..], 1),
            (&vector[..], 2),
            (&odd[..], 1),
            (&odd[..], 3),
            (&back[..], 2),
        ] {
            let cut = pieces(list, rows, 8);
            let len: usize = list.iter().map(|stretch| stretch.1).sum();
            assert_eq!((cut[0].bytes.start, cut[cut.len() - 1].bytes.end), (0, len));
            for (piece, next) in cut.iter().zip(&cut[1..]) {
                assert_eq!(piece.bytes.end, next.bytes.start);
            }
            for piece in &cut {
                assert!(piece.groups.len() * GROUP + rows * piece.bytes.len() <= FAR && !piece.bytes.is_empty());
                let told = piece.groups.iter().map(|group| Group::of_words(group.words()).unwrap());
                let bytes = |list: &[Stretch]| {
                    let each = list.iter().flat_map(|&(address, len)| (address..).take(len));
                    each.collect::<Vec<_>>()
                };
                let told: Vec<_> = told.flat_map(|group| group.stretches()).collect();
                assert_eq!(bytes(&told), bytes(&part(list, piece.bytes.clone())));
            }
        }
    }
}
