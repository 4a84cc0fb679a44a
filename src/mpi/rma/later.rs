//! # Safety
//! Copies from and to the program's buffers: relies on its callers for them.
//!
//! Short operations on memory that only its owner maps, kept here until there are several: each alone takes the member or the kernel as long
//! as dozens. They go when the program synchronizes, does something else to the member, or has filled the room here. MPI promises no more
//! before (MPI-4.1 §12.5), and asks for no order but of accumulates to one place: those are never kept together. Where there was one before
//! the last synchronization, the first one goes at once, so that a program that flushes each pays for no copy.
#![allow(unsafe_code)]

use super::list::{List, Stretch};
use super::transfer::reach;
use super::update::{Change, Rows, TURN, turn};
use super::{Way, Window, mail};
use crate::mpi::datatype::basic::Basic;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::sys::cma::Direction;
use crate::sys::copy;

/// Most bytes of an operation that is kept, and of all puts or gets that are kept for a member; updates are one turn.
const SHORT: usize = 4 << 10;
const MOST: usize = 16 << 10;
/// Most stretches that are kept.
const STRETCHES: usize = 64;

/// What is done with a member's bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// They are written.
    Put,
    /// They are read.
    Get,
    /// Their elements are changed.
    Change(Change, &'static Basic),
}

impl Kind {
    /// What differs where one question can't ask for both.
    fn word(self) -> (u8, u64) {
        match self {
            Kind::Put => (0, 0),
            Kind::Get => (1, 0),
            Kind::Change(what, basic) => (2, mail::word(what, basic)),
        }
    }
}

/// Of what member, and whether it is read: what is written and what is read in an epoch should have nothing in common (MPI-4.1 §12.7), so
/// neither waits for the other where that is so.
pub(super) type Whose = (u32, bool);

/// What is kept for a member.
#[derive(Debug, Default)]
pub struct Later {
    /// Operations since the program synchronized; more than two are two.
    count: u8,
    /// Several came before the last synchronization at which any had come.
    several: bool,
    /// A thread is handing over what was kept before.
    busy: bool,
    /// Of all that is kept, and the way there.
    how: Option<(Kind, Way)>,
    list: Vec<Stretch>,
    /// What is written or combined; as many bytes as are to be read.
    bytes: Vec<u8>,
    /// Where what is read goes, in pieces of so many bytes.
    rooms: Vec<(*mut u8, usize)>,
}

/// Whether two stretches have a byte in common.
fn overlap((one, len): Stretch, (other, other_len): Stretch) -> bool {
    one < other.saturating_add(other_len as u64) && other < one.saturating_add(len as u64)
}

impl Later {
    fn is_idle(&self) -> bool {
        self.list.is_empty() && !self.busy
    }

    /// Keeps an operation on `stretch` with as many bytes `here`; false if it has to wait for what is kept.
    ///
    /// # Safety
    /// So many bytes are there; those of a get stay there until it is done.
    unsafe fn keep(&mut self, (kind, way): (Kind, Way), stretch: Stretch, here: *mut u8) -> bool {
        let (_, len) = stretch;
        let follows = self
            .list
            .last()
            .is_some_and(|last| last.0.wrapping_add(last.1 as u64) == stretch.0);
        let (most, once) = match kind {
            Kind::Change(..) => (TURN, true),
            Kind::Put | Kind::Get => (MOST, false),
        };
        let fits = self.list.is_empty()
            || self.how.is_some_and(|(kept, _)| kept.word() == kind.word())
                && self.bytes.len() + len <= most
                && (follows || self.list.len() < STRETCHES)
                && !(once && self.list.iter().any(|&kept| overlap(kept, stretch)));
        if !fits {
            return false;
        }
        self.how = Some((kind, way));
        match kind {
            Kind::Get => {
                self.bytes.resize(self.bytes.len() + len, 0);
                self.rooms.push((here, len));
            }
            // SAFETY: the caller's promise.
            _ => copy::append(&mut self.bytes, unsafe { std::slice::from_raw_parts(here, len) }),
        }
        match self.list.last_mut().filter(|_| follows) {
            Some(last) => last.1 += len,
            None => self.list.push(stretch),
        }
        true
    }
}

/// Keeps an operation of `kind` on the `len` bytes at address `there` of member `rank` with those `here`; if not, what was kept of this
/// direction is done, and the caller does this.
///
/// # Safety
/// So many bytes are `here`, which a get may write to until the program synchronizes.
///
/// # Errors
/// Those of what was kept.
pub(super) unsafe fn keeps(
    hold: &mut Hold,
    window: &Window,
    rank: u32,
    how: (Kind, Way),
    (there, here, len): (u64, *mut u8, usize),
) -> Result<bool> {
    let reads = matches!(how.0, Kind::Get);
    let (whose, other) = ((rank, reads), (rank, !reads));
    let meets = |later: &Later| later.list.iter().any(|&kept| overlap(kept, (there, len)));
    if window.later.borrow().get(&other).is_some_and(meets) {
        settle_one(hold, window, other)?;
    }
    loop {
        {
            let mut all = window.later.borrow_mut();
            let later = all.entry(whose).or_default();
            let is_off = hold.engine.channel.settings().window_later == 0;
            let is_first = later.count == 0;
            later.count = (later.count + 1).min(2);
            if is_first && !later.several || len > SHORT || is_off {
                if later.is_idle() {
                    return Ok(false);
                }
                break;
            }
            // SAFETY: the caller's promise.
            if unsafe { later.keep(how, (there, len), here) } {
                return Ok(true);
            }
        }
        settle_one(hold, window, whose)?;
    }
    settle_one(hold, window, whose).map(|()| false)
}

/// Does what is kept for member `rank`.
///
/// # Errors
/// Those of its operations; all are tried.
pub(super) fn settle(hold: &mut Hold, window: &Window, rank: u32) -> Result<()> {
    let written = settle_one(hold, window, (rank, false));
    written.and(settle_one(hold, window, (rank, true)))
}

fn settle_one(hold: &mut Hold, window: &Window, whose: Whose) -> Result<()> {
    if window.later.borrow().get(&whose).is_none_or(Later::is_idle) {
        return Ok(());
    }
    let rank = whose.0;
    let is_busy = || window.later.borrow().get(&whose).is_some_and(|later| later.busy);
    hold.wait_until(None, |_| Ok(!is_busy()))?;
    let ((kind, way), list, mut bytes, rooms) = match window.later.borrow_mut().get_mut(&whose) {
        Some(Later { list, .. }) if list.is_empty() => return Ok(()),
        Some(Later {
            how: Some(how),
            busy,
            list,
            bytes,
            rooms,
            ..
        }) => {
            *busy = true;
            (*how, std::mem::take(list), std::mem::take(bytes), std::mem::take(rooms))
        }
        _ => return Ok(()),
    };
    let row = bytes.as_mut_ptr();
    let all: List = list.iter().copied().collect();
    // SAFETY: as many bytes were kept as the list has.
    let mut moved = |direction| unsafe { reach(hold, window, (way, rank), &all, direction, row) };
    let outcome = match kind {
        Kind::Put => moved(Direction::Write),
        Kind::Get => moved(Direction::Read),
        Kind::Change(what, basic) => {
            let mut rows = Rows::new(bytes.len(), false);
            rows.fill(&bytes, bytes.len());
            turn(hold, window, rank, (way, true), (what, basic), &all, &mut rows)
        }
    };
    if let Ok(asked) = outcome {
        let mut place = 0;
        for &(room, len) in &rooms {
            // SAFETY: the row has the bytes of all rooms; who kept them promised that they stay.
            unsafe { copy::bytes(row.add(place), room, len) };
            place += len;
        }
        let (there, back) = if rooms.is_empty() { (bytes.len(), 0) } else { (0, place) };
        window.count(hold, (way, asked), rank, there, back);
    }
    if let Some(later) = window.later.borrow_mut().get_mut(&whose) {
        later.busy = false;
        if later.list.is_empty() {
            (later.list, later.bytes, later.rooms) = (list, bytes, rooms);
            later.list.clear();
            later.bytes.clear();
            later.rooms.clear();
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
    let mut kept: Vec<Whose> = Vec::new();
    let mut end = |(whose, later): (&Whose, &mut Later)| {
        match std::mem::take(&mut later.count) {
            0 => {}
            count => later.several = count > 1,
        }
        if !later.is_idle() {
            kept.push(*whose);
        }
    };
    let mut all = window.later.borrow_mut();
    match rank {
        Some(rank) => all.range_mut((rank, false)..=(rank, true)).for_each(&mut end),
        None => all.iter_mut().for_each(&mut end),
    }
    drop(all);
    let each = |outcome: Result<()>, whose| outcome.and(settle_one(hold, window, whose));
    kept.into_iter().fold(Ok(()), each)
}

/// How many bytes are kept.
#[cfg(test)]
pub(super) fn kept(window: &Window, whose: Whose) -> usize {
    let all = window.later.borrow();
    all.get(&whose).map_or(0, |later| later.bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::datatype::basic::BASICS;
    use crate::mpi::op::kernel::Builtin;

    #[test]
    fn what_goes_together_is_kept_in_order_and_no_element_changed_twice() {
        // A place of `len` bytes that are `fill`.
        let keep = |later: &mut Later, kind: Kind, (there, len): Stretch, fill: u8| {
            let mut bytes = vec![fill; len];
            // SAFETY: so many bytes are there, and nothing is read.
            unsafe { later.keep((kind, Way::Served(0)), (there, len), bytes.as_mut_ptr()) }
        };
        let sum = |basic: usize| Kind::Change(Change::Combine(Builtin::Sum), &BASICS[basic]);
        let mut later = Later::default();
        assert!(
            keep(&mut later, Kind::Put, (100, 8), 1)
                && keep(&mut later, Kind::Put, (108, 4), 2)
                && keep(&mut later, Kind::Put, (90, 12), 3)
        );
        assert_eq!(later.list, [(100, 12), (90, 12)]);
        assert_eq!(later.bytes, [[1; 8].as_slice(), &[2; 4], &[3; 12]].concat());
        for other in [sum(8), Kind::Get] {
            assert!(!keep(&mut later, other, (200, 8), 1), "another kind");
        }
        let mut later = Later::default();
        assert!(keep(&mut later, sum(8), (100, 8), 1) && keep(&mut later, sum(8), (116, 8), 1));
        for address in [93, 100, 107, 116, 123] {
            assert!(!keep(&mut later, sum(8), (address, 8), 1), "{address}");
        }
        assert!(keep(&mut later, sum(8), (108, 8), 1) && !keep(&mut later, sum(9), (124, 8), 1));
        for kind in [Kind::Put, Kind::Get] {
            let mut later = Later::default();
            assert!((0..STRETCHES as u64).all(|index| keep(&mut later, kind, (100 * index, 1), 0)));
            assert!(!keep(&mut later, kind, (1, 1), 0));
            let mut later = Later::default();
            assert!((0..(MOST / SHORT) as u64).all(|index| keep(&mut later, kind, (index << 20, SHORT), 0)));
            assert!(!keep(&mut later, kind, (1 << 30, 1), 0));
        }
    }
}
