//! # Safety
//! Copies and combines a few elements in a window's memory: relies on [`Window::at_hand`] for the target's bounds, on its
//! callers for origin and result, and on the kernel being the one for the elements.
//!
//! The short way of one-sided operations: elements of one predefined datatype in a row, in memory that is mapped here,
//! inside of an open access. Nothing is allocated, and updates work on the target in place. What does not go this way, wrong
//! arguments too, is not begun.
#![allow(unsafe_code)]

use super::epoch::updating;
use super::update::{Change, TURN, comparable};
use super::{Flavor, Place, Window};
use crate::mpi::datatype::basic::{self, BASICS, Basic};
use crate::mpi::op::kernel::{self, Builtin, Kernel};
use crate::mpi::world::State;
use crate::sys::cma::Direction;
use crate::sys::{copy, cpu};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// The elements of a short operation on the target's side.
#[derive(Clone, Copy)]
pub struct There {
    /// Member, as the program says.
    pub rank: i32,
    /// Displacement, in the member's units.
    pub disp: i64,
    /// Number of elements.
    pub count: usize,
    /// Their datatype's number.
    pub datatype: i32,
}

/// What a short update works with on this side: `count` elements at each address, or null.
#[derive(Clone, Copy)]
pub struct Here {
    /// The operand.
    pub origin: *const u8,
    /// What the target is compared with.
    pub compare: *const u8,
    /// Room for what was there before.
    pub result: *mut u8,
}

impl Here {
    /// The elements that follow `len` bytes.
    pub(super) fn skip(self, len: usize) -> Here {
        let result = if self.result.is_null() { 0 } else { len };
        Here {
            origin: self.origin.wrapping_add(len),
            compare: self.compare.wrapping_add(len),
            result: self.result.wrapping_add(result),
        }
    }
}

impl There {
    /// Bytes of data; `None` for a datatype that is not predefined or whose elements have gaps.
    fn len(&self) -> Option<usize> {
        basic::row_size(self.datatype)?.checked_mul(self.count)
    }

    fn basic(&self) -> Option<&'static Basic> {
        BASICS.get(basic::index(self.datatype)?)
    }
}

/// A member whose memory is mapped here, while an access to it is open.
#[derive(Clone, Copy, Debug)]
pub struct Near {
    /// The member; -1 for none.
    pub rank: i32,
    /// Whether the access is a lock.
    pub locked: bool,
    base: *mut u8,
    size: usize,
    unit: usize,
}

impl Near {
    /// No member.
    pub const NOTHING: Near = Near {
        rank: -1,
        locked: false,
        base: std::ptr::null_mut(),
        size: 0,
        unit: 0,
    };

    /// Where `len` bytes lie at displacement `disp`; `None` when some of them do not.
    #[inline(always)]
    fn at(&self, disp: i64, len: usize) -> Option<*mut u8> {
        let first = usize::try_from(disp).ok()?.checked_mul(self.unit)?;
        (first.checked_add(len)? <= self.size).then(|| self.base.wrapping_add(first))
    }
}

impl Window {
    /// Where `len` bytes of an open access lie, somewhere if there are none; `None` when they are not mapped here, or something is
    /// wrong.
    #[inline(always)]
    fn at_hand(&self, state: &State, there: &There, len: usize) -> Option<*mut u8> {
        let near = self.near.get();
        if near.rank != there.rank || there.rank < 0 {
            return self.find(state, there, len);
        }
        near.at(there.disp, len)
    }

    /// The kernel for elements, which is mostly the last one's.
    #[inline(always)]
    fn kernel(&self, builtin: Builtin, basic: &Basic) -> Option<Kernel> {
        match self.kernel.get() {
            Some((last, handle, kernel)) if (last, handle) == (builtin, basic.handle) => Some(kernel),
            _ => {
                let kernel = kernel::find(builtin, basic)?;
                self.kernel.set(Some((builtin, basic.handle, kernel)));
                Some(kernel)
            }
        }
    }

    /// The same, of a member that was not accessed last.
    #[inline(never)]
    fn find(&self, state: &State, there: &There, len: usize) -> Option<*mut u8> {
        let rank = u32::try_from(there.rank).ok()?;
        let part = self.parts.get(rank as usize)?;
        let usual = self.flavor != Flavor::Dynamic && state.engine.channel.meter().is_none();
        if !usual || !self.epochs.borrow().begin(rank) {
            return None;
        }
        let mapped = self.mapped.borrow();
        let base = match part.place {
            _ if rank == self.comm.rank => Some(self.base),
            Place::Own | Place::Zone(_) => mapped[rank as usize].as_ref().map(|view| view.base()),
            Place::Block(_, shift) => mapped[0].as_ref().map(|view| view.base().wrapping_add(shift)),
        };
        let mut near = Near {
            rank: there.rank,
            locked: self.epochs.borrow().is_locked(rank),
            base: self.base,
            size: part.size,
            unit: part.unit,
        };
        match base {
            Some(base) => {
                near.base = base;
                self.near.set(near);
            }
            None if len > 0 => return None,
            None => {}
        }
        near.at(there.disp, len)
    }
}

/// Whether the element at `at` is a word that differs from the one it is compared with: then that is all, and what it is has
/// been stored as the result. Nobody takes a turn for it or fetches its line for writing: an update writes a word as one.
///
/// # Safety
/// The element of `len` bytes can be read; as [`update`].
#[inline]
unsafe fn differs(at: *mut u8, here: &Here, len: usize) -> bool {
    // SAFETY: the caller's promise; the words are where their size demands.
    let word = unsafe {
        match len {
            4 if at.addr().is_multiple_of(4) => u64::from(AtomicU32::from_ptr(at.cast()).load(Ordering::Acquire)),
            8 if at.addr().is_multiple_of(8) => AtomicU64::from_ptr(at.cast()).load(Ordering::Acquire),
            _ => return false,
        }
    };
    let word = word.to_ne_bytes();
    // SAFETY: the caller's promise.
    unsafe {
        if std::slice::from_raw_parts(here.compare, len) == &word[..len] {
            return false;
        }
        copy::few(word.as_ptr(), here.result, len);
    }
    true
}

/// Whether `len` bytes at two addresses have one in common.
fn overlap(one: *const u8, other: *const u8, len: usize) -> bool {
    (one as usize).abs_diff(other as usize) < len
}

/// Copies the `there.count` elements at `here` to the target, or the other way; false, and nothing done, if they do not
/// go the short way.
///
/// # Safety
/// The elements at `here` are the program's: readable, or for a read writable.
#[inline]
pub unsafe fn transfer(state: &State, window: &Window, here: *mut u8, there: &There, direction: Direction) -> bool {
    let go = || {
        let len = there.len()?;
        let at = window.at_hand(state, there, len)?;
        if len == 0 {
            return Some(());
        }
        if here.is_null() || overlap(here, at, len) {
            return None;
        }
        // SAFETY: the caller's promise; the window has so many bytes there.
        unsafe {
            match direction {
                Direction::Write => copy::bytes(here, at, len),
                Direction::Read => copy::bytes(at, here, len),
            }
        }
        Some(())
    };
    go().is_some()
}

/// Combines the target's elements with those `here` by `builtin`, or swaps where there is none; false, and nothing done,
/// if they do not go the short way.
///
/// # Safety
/// What is not null in `here` is the program's.
#[inline]
pub unsafe fn update(state: &State, window: &Window, here: &Here, there: &There, builtin: Option<Builtin>) -> bool {
    let go = || {
        let (basic, len) = (there.basic()?, there.len()?);
        if len == 0 {
            return window.at_hand(state, there, len).map(drop);
        }
        let (what, kernel) = match builtin {
            Some(builtin) => (Change::Combine(builtin), window.kernel(builtin, basic)),
            None => (Change::Swap, None),
        };
        let whole = match what {
            Change::Combine(Builtin::NoOp) => !here.result.is_null(),
            Change::Combine(_) => kernel.is_some() && !here.origin.is_null(),
            Change::Swap => {
                let missing = here.origin.is_null() || here.compare.is_null() || here.result.is_null();
                comparable(basic) && !missing
            }
        };
        let at = window.at_hand(state, there, len)?;
        let apart = |one: *const u8, other: *const u8| one.is_null() || !overlap(one, other, len);
        let all_apart = apart(here.origin, at) && apart(here.compare, at) && apart(here.result, at);
        if !whole || !all_apart || !apart(here.origin, here.result) || !apart(here.compare, here.result) {
            return None;
        }
        // SAFETY: the caller's promise; the window has `len` bytes at `at`.
        if matches!(what, Change::Swap) && unsafe { differs(at, here, len) } {
            return Some(());
        }
        if matches!(what, Change::Combine(combined) if combined != Builtin::NoOp) {
            cpu::own_soon(at);
        }
        // SAFETY: the caller's promise; the window has so many elements at `at`, none of which is one of those here, and the
        // kernel is the one for them.
        unsafe {
            in_place(
                window,
                there.rank as u32,
                at,
                here,
                (what, kernel),
                (basic.size, there.count),
            )
        };
        Some(())
    };
    go().is_some()
}

/// Changes `count` elements of `size` bytes at `at`, in member `rank`'s memory, in turns.
///
/// # Safety
/// So many elements lie at `at` and, as far as they are needed, at the addresses in `here`, and none twice; the kernel is the one for
/// them.
pub(super) unsafe fn in_place(
    window: &Window,
    rank: u32,
    at: *mut u8,
    here: &Here,
    (what, kernel): (Change, Option<Kernel>),
    (size, count): (usize, usize),
) {
    let turn = |start: usize, count: usize| {
        let skipped = start * size;
        let here = here.skip(skipped);
        // SAFETY: the caller's promise.
        let body = || unsafe { change(at.wrapping_add(skipped), &here, (what, kernel), (size, count)) };
        updating(window, rank, body);
    };
    if count * size <= TURN {
        return turn(0, count);
    }
    let step = (TURN / size).max(1);
    for start in (0..count).step_by(step) {
        turn(start, step.min(count - start));
    }
}

/// Changes `count` elements of `size` bytes at `at`, by who has the turn.
///
/// # Safety
/// As [`in_place`].
#[inline(always)]
pub(super) unsafe fn change(
    at: *mut u8,
    here: &Here,
    (what, kernel): (Change, Option<Kernel>),
    (size, count): (usize, usize),
) {
    let len = size * count;
    // SAFETY: the caller's promise.
    unsafe {
        if !here.result.is_null() {
            copy::bytes(at, here.result, len);
        }
        match (what, kernel) {
            (Change::Combine(_), Some(kernel)) => kernel(here.origin, at, count),
            (Change::Combine(_), None) => {}
            (Change::Swap, _) => {
                let compare = std::slice::from_raw_parts(here.compare, len);
                if compare == std::slice::from_raw_parts(here.result, len) {
                    copy::bytes(here.origin, at, len);
                }
            }
        }
    }
}
