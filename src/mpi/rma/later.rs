//! # Safety
//! Copies what the program gives: relies on its callers for that.
//!
//! Short puts and accumulates to memory that only its owner maps, kept here until there are several: each alone takes the member or the
//! kernel as long as dozens. The first one after a synchronization goes at once, so that a program that flushes each waits for nothing;
//! those behind it go when the program synchronizes, does something else to the member, or has filled the room here. MPI promises no more
//! before (MPI-4.1 §12.5), and asks for no order but of accumulates to one place: those are never kept together.
#![allow(unsafe_code)]

use super::listed::Stretch;
use super::transfer::reach;
use super::update::{Change, Rows, TURN, turn};
use super::{Way, Window, mail};
use crate::mpi::datatype::basic::Basic;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::sys::cma::Direction;
use crate::sys::copy;

/// Most bytes of an operation that is kept, and of all puts that are kept for a member; updates are one turn.
const SHORT: usize = 4 << 10;
const MOST: usize = 16 << 10;
/// Most stretches that are kept.
const STRETCHES: usize = 64;

/// What is done with the bytes: a put, or a change of elements.
pub(super) type Kind = Option<(Change, &'static Basic)>;

/// What is kept for a member.
#[derive(Debug, Default)]
pub struct Later {
    /// Something has gone to it since the program synchronized.
    begun: bool,
    /// A thread is handing over what was kept before.
    busy: bool,
    kind: Kind,
    way: Option<Way>,
    list: Vec<Stretch>,
    bytes: Vec<u8>,
}

/// Whether two stretches have a byte in common.
fn overlap((one, len): Stretch, (other, other_len): Stretch) -> bool {
    one < other.saturating_add(other_len as u64) && other < one.saturating_add(len as u64)
}

impl Later {
    /// How many bytes are kept.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.bytes.len()
    }

    fn is_idle(&self) -> bool {
        self.list.is_empty() && !self.busy
    }

    /// Keeps these bytes for `stretch`; false if they have to wait for what is kept.
    fn keep(&mut self, kind: Kind, stretch: Stretch, bytes: &[u8]) -> bool {
        let word = |kind: Kind| kind.map(|(what, basic)| mail::word(what, basic));
        let follows = self
            .list
            .last()
            .is_some_and(|last| last.0.wrapping_add(last.1 as u64) == stretch.0);
        let most = if kind.is_some() { TURN } else { MOST };
        let fits = self.list.is_empty()
            || word(kind) == word(self.kind)
                && self.bytes.len() + bytes.len() <= most
                && (follows || self.list.len() < STRETCHES)
                && (kind.is_none() || !self.list.iter().any(|&kept| overlap(kept, stretch)));
        if !fits {
            return false;
        }
        self.kind = kind;
        copy::append(&mut self.bytes, bytes);
        match self.list.last_mut().filter(|_| follows) {
            Some(last) => last.1 += stretch.1,
            None => self.list.push(stretch),
        }
        true
    }
}

/// Keeps the `len` bytes at `here` for those at address `there` of member `rank`, elements of `kind`; if not, all that was kept for it is
/// done, and the caller does this.
///
/// # Safety
/// So many bytes are at `here`.
///
/// # Errors
/// Those of what was kept.
pub(super) unsafe fn keeps(
    hold: &mut Hold,
    window: &Window,
    rank: u32,
    way: Way,
    kind: Kind,
    (there, here, len): (u64, *const u8, usize),
) -> Result<bool> {
    loop {
        {
            let mut all = window.later.borrow_mut();
            let later = all.entry(rank).or_default();
            let is_off = hold.engine.channel.settings().window_later == 0;
            if !std::mem::replace(&mut later.begun, true) || len > SHORT || is_off {
                if later.is_idle() {
                    return Ok(false);
                }
                break;
            }
            // SAFETY: the caller's promise.
            if later.keep(kind, (there, len), unsafe { std::slice::from_raw_parts(here, len) }) {
                later.way = Some(way);
                return Ok(true);
            }
        }
        settle(hold, window, rank)?;
    }
    settle(hold, window, rank).map(|()| false)
}

/// Does what is kept for member `rank`.
///
/// # Errors
/// Those of its operations.
pub(super) fn settle(hold: &mut Hold, window: &Window, rank: u32) -> Result<()> {
    if window.later.borrow().get(&rank).is_none_or(Later::is_idle) {
        return Ok(());
    }
    let is_busy = || window.later.borrow().get(&rank).is_some_and(|later| later.busy);
    hold.wait_until(None, |_| Ok(!is_busy()))?;
    let (kind, way, list, mut bytes) = match window.later.borrow_mut().get_mut(&rank) {
        Some(Later { list, .. }) if list.is_empty() => return Ok(()),
        Some(Later {
            way: Some(way),
            busy,
            kind,
            list,
            bytes,
            ..
        }) => {
            *busy = true;
            (*kind, *way, std::mem::take(list), std::mem::take(bytes))
        }
        _ => return Ok(()),
    };
    let outcome = match kind {
        None => {
            let row = bytes.as_mut_ptr();
            // SAFETY: as many bytes were kept as the list has.
            unsafe { reach(hold, window, (way, rank), &list, Direction::Write, row) }
        }
        Some(change) => {
            let mut rows = Rows::new(bytes.len(), false);
            rows.fill(&bytes, bytes.len());
            turn(hold, window, rank, (way, true), change, &list, &mut rows)
        }
    };
    if let Ok(asked) = outcome {
        window.count(hold, (way, asked), rank, bytes.len(), 0);
    }
    if let Some(later) = window.later.borrow_mut().get_mut(&rank) {
        later.busy = false;
        if later.list.is_empty() {
            (later.list, later.bytes) = (list, bytes);
            later.list.clear();
            later.bytes.clear();
        }
    }
    hold.wake_threads();
    outcome.map(drop)
}

/// The program synchronizes with member `rank`, or with all: does what is kept for it.
///
/// # Errors
/// Those of its operations; all are tried.
pub(super) fn end(hold: &mut Hold, window: &Window, rank: Option<u32>) -> Result<()> {
    let Some(rank) = rank else {
        let ranks: Vec<u32> = window.later.borrow().keys().copied().collect();
        let each = |outcome: Result<()>, rank| outcome.and(end(hold, window, Some(rank)));
        return ranks.into_iter().fold(Ok(()), each);
    };
    if let Some(later) = window.later.borrow_mut().get_mut(&rank) {
        later.begun = false;
    }
    settle(hold, window, rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::datatype::basic::BASICS;
    use crate::mpi::op::kernel::Builtin;

    #[test]
    fn what_goes_together_is_kept_in_order_and_no_element_changed_twice() {
        let sum = |basic: usize| Some((Change::Combine(Builtin::Sum), &BASICS[basic]));
        let mut later = Later::default();
        assert!(
            later.keep(None, (100, 8), &[1; 8])
                && later.keep(None, (108, 4), &[2; 4])
                && later.keep(None, (90, 12), &[3; 12])
        );
        assert_eq!(later.list, [(100, 12), (90, 12)]);
        assert_eq!(later.bytes, [[1; 8].as_slice(), &[2; 4], &[3; 12]].concat());
        assert!(!later.keep(sum(8), (200, 8), &[1; 8]), "another kind");
        let mut later = Later::default();
        assert!(later.keep(sum(8), (100, 8), &[1; 8]) && later.keep(sum(8), (116, 8), &[1; 8]));
        for address in [93, 100, 107, 116, 123] {
            assert!(!later.keep(sum(8), (address, 8), &[1; 8]), "{address}");
        }
        assert!(later.keep(sum(8), (108, 8), &[1; 8]) && !later.keep(sum(9), (124, 8), &[1; 8]));
        let mut later = Later::default();
        assert!((0..STRETCHES as u64).all(|index| later.keep(None, (100 * index, 1), &[0])));
        assert!(!later.keep(None, (1, 1), &[0]));
        let mut later = Later::default();
        assert!((0..(MOST / SHORT) as u64).all(|index| later.keep(None, (index << 20, SHORT), &[0; SHORT])));
        assert!(!later.keep(None, (1 << 30, 1), &[0]));
    }
}
