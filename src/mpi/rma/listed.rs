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
use super::list::{Group, List, Piece, Stretch};
use super::mail::{answered, in_pieces, quicker, soon_answered};
use super::serve::{READ, WRITE, exposed};
use super::short::{Here, change};
use super::update::Change;
use crate::mpi::datatype::kernel::{Strided, Transfer};
use crate::mpi::error::Result;
use crate::mpi::op::kernel::Kernel;
use crate::mpi::world::Hold;
use crate::shm::mailbox::{FAR, Mailbox};
use crate::sys::copy;
use std::ops::Range;

/// Bytes of a copy that take the kernel as long as a stretch more that is written, or read, with what lies between.
const STRETCH_COST: usize = 1 << 10;
const READ_COST: usize = 1 << 6;

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

    /// Whether the program exposes all of it through this window.
    fn is_exposed(self, window: &Window) -> bool {
        let whole = self.span().is_some_and(|(address, len)| exposed(window, address, len));
        whole || self.stretches().all(|(address, len)| exposed(window, address, len))
    }
}

/// Cuts a list into questions whose bytes, in so many rows of elements of `size` bytes, fill a mailbox at most.
fn pieces(list: &List, rows: usize, size: usize) -> Vec<Piece> {
    list.pieces(|groups, bytes| {
        let used = (groups + 1) * GROUP + bytes * rows;
        FAR.saturating_sub(used) / rows.max(1) / size * size
    })
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
    list: &List,
    (wish, here): (Wish, &Here),
    other: impl FnMut(&mut Hold, Range<usize>) -> Result<()>,
) -> Result<bool> {
    let len = list.len();
    let rows = wish.operands + usize::from(wish.wanted);
    let room = |piece: &Piece| piece.groups.len() * GROUP + rows * piece.bytes.len();
    let begin = |pieces: &[Piece], (hold, looks): (&mut Hold, u32), mailbox: &Mailbox, index: usize| {
        let piece = &pieces[index];
        let Some(mut at) = mailbox
            .bytes(room(piece))
            .filter(|_| soon_answered(hold, looks, || mailbox.take()))
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
    let each = if wish.word == READ { READ_COST } else { STRETCH_COST };
    let cost = list.count().saturating_mul(each).saturating_add(len);
    quicker(hold, window, rank, (kind, len, cost), ask, other)
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
        if !sound || !group.is_exposed(window) {
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
        for group in &self.groups {
            let (memory, wide) = (group.address as usize as *mut u8, true);
            let Group { len, count, .. } = *group;
            let all = Strided {
                at: 0,
                stride: group.distance as isize,
                to: 0,
                pitch: len,
                count,
                len,
            };
            // SAFETY: the window has the stretches, and the row has as many bytes.
            unsafe {
                match reads {
                    true => Transfer::<true> { memory, row, wide }.strided(all),
                    false => Transfer::<false> { memory, row, wide }.strided(all),
                }
            }
            row = row.wrapping_add(len * count);
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
    fn a_question_fills_a_mailbox_at_most() {
        let odd = (0..3000u64).map(|index| (1000 + 200 * index * index, 8 + 8 * (index as usize % 3)));
        let vector = (0..3000).map(|index| (1000 + 256 * index, 32));
        for (list, rows) in [
            (odd.collect::<Vec<Stretch>>(), 3),
            (vector.collect(), 2),
            (vec![(64, 100_000)], 1),
        ] {
            for Piece { bytes, groups } in pieces(&list.into_iter().collect(), rows, 8) {
                assert!(groups.len() * GROUP + rows * bytes.len() <= FAR && !bytes.is_empty());
                for group in groups {
                    assert_eq!(Group::of_words(group.words()), Some(group));
                }
            }
        }
    }
}
