//! # Safety
//! Reads and writes this process's part of a window for others, and their mailboxes: relies on [`Window`] to know what the
//! program exposed, on its callers for their buffers, and on the mailbox for who has its bytes.
//!
//! Memory that only its owner maps, accessed by the owner, which is asked in its mailbox: while it waits in MPI it looks there, and is
//! quicker than a call of the kernel. Where it is not, because it does something else or the kernel copies faster, accesses go
//! through the kernel: what either takes is measured by length and now and then again, for each member ([`habits`](super::habits)).
//!
//! ```text
//! question: | kind, operation, basic, whether the old is wanted | address | bytes or count |
//! bytes:    | operands, or what is written | room for what was there, or is read |
//! ```
#![allow(unsafe_code)]

use super::Window;
use super::habits::{ASK, KERNEL};
use super::listed::{self, LISTED};
use super::serve::{READ, WRITE, exposed};
use super::short::{Here, in_place};
use super::update::{Change, Run, comparable};
use crate::mpi::coll::machine::is_crowded;
use crate::mpi::comm::Plane;
use crate::mpi::datatype::basic::{BASICS, Basic, index};
use crate::mpi::error::Result;
use crate::mpi::op::kernel::{self, Builtin};
use crate::mpi::world::{Hold, State};
use crate::shm::mailbox::{FAR, Mailbox, Question};
use crate::sys::cma::Direction;
use crate::sys::{clock, copy, cpu};
use std::cell::RefMut;
use std::ops::Range;

/// A question's first word: kind and operation as in requests by message, 16 bits each for them and for the basic, and whether
/// the old is wanted.
const HALF: u64 = 0xffff;
const BASIC: u32 = 16;
pub(super) const WANTED: u64 = 1 << 32;

/// Where ranks share CPUs each look gives way to others, which takes about as long as so many looks.
const YIELD: u32 = 4;
/// What lists cost above their bytes from which on members are asked there.
const CROWDED: usize = 16 << 10;

/// Parts of an access, in bytes from its first one on, that the member has not done.
type Left = Vec<Range<usize>>;

/// Accesses `len` bytes of member `rank` by `ask`, which may find that the member does not answer within so many looks, or by `other`, and
/// what is left in that case by `other` as well; whether all was by `ask`. What either takes is known by kind and cost, in bytes.
pub(super) fn quicker(
    hold: &mut Hold,
    window: &Window,
    rank: u32,
    (kind, len, cost): (usize, usize, usize),
    ask: impl FnOnce(&mut Hold, &[Mailbox], u32) -> Result<Left>,
    mut other: impl FnMut(&mut Hold, Range<usize>) -> Result<()>,
) -> Result<bool> {
    let most = hold.engine.channel.settings().window_ask_max as usize;
    // Where ranks share CPUs a member seldom answers as soon as the kernel does, but for lists.
    let crowded = is_crowded(hold);
    let may_ask = len <= most && (!crowded || cost.saturating_sub(len) >= CROWDED);
    let Some(mailboxes) = window.mailboxes(rank).filter(|_| may_ask) else {
        return other(hold, 0..len).map(|()| false);
    };
    let habits = || {
        RefMut::map(window.habits.borrow_mut(), |all| {
            all.entry(rank).or_default().of(kind, cost)
        })
    };
    let (mut way, mut timed) = habits().choose();
    if way == KERNEL {
        // Others may have waited for this rank as long as they do. Of two it is clear who has asked.
        look(hold);
        let asked = window.answered.take() && window.comm.size() == 2;
        (way, timed) = habits().instead(asked).unwrap_or((way, timed));
    }
    let looks = habits().looks(cost) / if crowded { YIELD } else { 1 };
    let rouses = habits().rouses();
    if rouses {
        hold.engine.channel.wake(window.comm.group.world(rank));
    }
    let began = if timed { clock::nanoseconds() } else { 0 };
    let left = match way {
        ASK => ask(hold, mailboxes, looks)?,
        _ => std::iter::once(0..len).collect(),
    };
    let asked = left.is_empty();
    for part in left {
        other(hold, part)?;
    }
    if timed {
        let took = clock::nanoseconds() - began;
        habits().took(way, took);
    }
    Ok(asked)
}

/// Asks for `len` bytes in pieces of `most`: while the member has one, this process has the next one. `begin` writes a question, if it gets
/// the mailbox soon; `end` waits for the answer, and says whether the member has done it.
pub(super) fn in_pieces<S, M>(
    state: &mut S,
    mailboxes: &[M],
    (len, most): (usize, usize),
    mut begin: impl FnMut(&mut S, &M, Range<usize>) -> bool,
    mut end: impl FnMut(&mut S, &M, Range<usize>) -> Result<bool>,
) -> Result<Left> {
    let pieces = len.div_ceil(most);
    let piece = |index: usize| index * most..len.min((index + 1) * most);
    let mailbox = |index: usize| &mailboxes[index % mailboxes.len()];
    let (mut begun, mut ended, mut left) = (0, 0, Left::new());
    let mut all = true;
    while ended < pieces {
        if all && begun < pieces.min(ended + mailboxes.len()) {
            all = begin(state, mailbox(begun), piece(begun));
            begun += usize::from(all);
        } else if ended < begun {
            if !end(state, mailbox(ended), piece(ended))? {
                all = false;
                left.push(piece(ended));
            }
            ended += 1;
        } else {
            left.push(piece(ended).start..len);
            break;
        }
    }
    Ok(left)
}

/// Copies `len` bytes at address `there` of member `rank` to or from `here`, by the member, or by `other`, all of them; whether the
/// member did.
///
/// # Safety
/// So many bytes are at `here`, for a read to write to.
///
/// # Errors
/// `ProcFailed`: the member died over it; those of `other`.
pub(super) unsafe fn transfer(
    hold: &mut Hold,
    window: &Window,
    (rank, there): (u32, u64),
    direction: Direction,
    (here, len): (*mut u8, usize),
    mut other: impl FnMut(&mut Hold) -> Result<()>,
) -> Result<bool> {
    let begin = |(hold, looks): &mut (&mut Hold, u32), mailbox: &Mailbox, piece: Range<usize>| {
        let Some(bytes) = mailbox
            .bytes(piece.len())
            .filter(|_| soon_answered(hold, *looks, || mailbox.take()))
        else {
            return false;
        };
        if direction == Direction::Write {
            // SAFETY: the caller's promise; the mailbox, which is taken, has room.
            unsafe { copy::bytes(here.wrapping_add(piece.start), bytes, piece.len()) };
        }
        let kind = if direction == Direction::Write { WRITE } else { READ };
        mailbox.ask([kind, there.wrapping_add(piece.start as u64), piece.len() as u64]);
        true
    };
    let end = |(hold, looks): &mut (&mut Hold, u32), mailbox: &Mailbox, piece: Range<usize>| {
        if !answered(hold, window, (rank, *looks), mailbox)? {
            return Ok(false);
        }
        if direction == Direction::Read
            && let Some(bytes) = mailbox.bytes(piece.len())
        {
            // SAFETY: as above.
            unsafe { copy::bytes(bytes, here.wrapping_add(piece.start), piece.len()) };
        }
        mailbox.leave();
        Ok(true)
    };
    let ask = |hold: &mut Hold, mailboxes: &[Mailbox], looks: u32| {
        let left = in_pieces(&mut (hold, looks), mailboxes, (len, FAR), begin, end)?;
        Ok(left.first().map(|_| 0..len).into_iter().collect())
    };
    quicker(hold, window, rank, (0, len, len), ask, |hold, _| other(hold))
}

/// Changes the elements of `run` in the memory of member `rank` by those `here`, by the member, or by `other`, which is told the bytes
/// of the run that the member has not changed; whether the member changed all.
///
/// # Safety
/// Elements without gaps lie at each address in `here` that is not null, and nothing overlaps.
///
/// # Errors
/// As [`transfer`].
pub(super) unsafe fn update(
    hold: &mut Hold,
    window: &Window,
    (rank, run): (u32, &Run),
    (what, basic): (Change, &Basic),
    here: &Here,
    other: impl FnMut(&mut Hold, Range<usize>) -> Result<()>,
) -> Result<bool> {
    let len = run.count * basic.size;
    let wanted = if here.result.is_null() { 0 } else { WANTED };
    let operands = [here.origin, here.compare];
    let begin = |(hold, looks): &mut (&mut Hold, u32), mailbox: &Mailbox, piece: Range<usize>| {
        let room = room(what, wanted > 0, piece.len()).and_then(|room| mailbox.bytes(room));
        let Some(mut at) = room.filter(|_| soon_answered(hold, *looks, || mailbox.take())) else {
            return false;
        };
        for operand in operands.into_iter().take(what.operands()) {
            // SAFETY: the caller's promise; the mailbox, which is taken, has room for all.
            unsafe { copy::bytes(operand.wrapping_add(piece.start), at, piece.len()) };
            at = at.wrapping_add(piece.len());
        }
        let address = run.address.wrapping_add(piece.start as u64);
        let count = piece.len() / basic.size;
        mailbox.ask([word(what, basic) | wanted, address, count as u64]);
        true
    };
    let end = |(hold, looks): &mut (&mut Hold, u32), mailbox: &Mailbox, piece: Range<usize>| {
        if !answered(hold, window, (rank, *looks), mailbox)? {
            return Ok(false);
        }
        let room = room(what, wanted > 0, piece.len()).and_then(|room| mailbox.bytes(room));
        if let Some(room) = room.filter(|_| wanted > 0) {
            let old = room.wrapping_add(what.operands() * piece.len());
            // SAFETY: as above.
            unsafe { copy::bytes(old, here.result.wrapping_add(piece.start), piece.len()) };
        }
        mailbox.leave();
        Ok(true)
    };
    let rows = what.operands() + usize::from(wanted > 0);
    let most = FAR / rows.max(1) / basic.size * basic.size;
    let ask = |hold: &mut Hold, mailboxes: &[Mailbox], looks: u32| {
        in_pieces(&mut (hold, looks), mailboxes, (len, most), begin, end)
    };
    quicker(hold, window, rank, (1, len, len), ask, other)
}

/// A question's first word for a change.
pub(super) fn word(what: Change, basic: &Basic) -> u64 {
    what.word() | (index(basic.handle).unwrap_or_default() as u64) << BASIC
}

/// Bytes that go with a change of `len` bytes and its answer.
fn room(what: Change, wanted: bool, len: usize) -> Option<usize> {
    len.checked_mul(what.operands() + usize::from(wanted))
}

/// Whether `done` holds within so many looks; others are served meanwhile.
pub fn soon(state: &State, looks: u32, done: impl Fn() -> bool) -> bool {
    within(state, looks, done, std::hint::spin_loop)
}

/// As [`soon`], of what a member does that may need this CPU.
pub(super) fn soon_answered(state: &State, looks: u32, done: impl Fn() -> bool) -> bool {
    match is_crowded(state) {
        true => within(state, looks, done, cpu::give_way),
        false => soon(state, looks, done),
    }
}

#[inline(always)]
fn within(state: &State, looks: u32, done: impl Fn() -> bool, pause: fn()) -> bool {
    (0..looks).any(|_| {
        done() || {
            look(state);
            pause();
            false
        }
    })
}

/// Waits for an answer; false if there is none within so many looks, or the member refuses: then the mailbox is left.
pub(super) fn answered(hold: &mut Hold, window: &Window, (rank, looks): (u32, u32), mailbox: &Mailbox) -> Result<bool> {
    let is_there = || mailbox.answer_is().is_some();
    if !soon_answered(hold, looks, is_there) {
        if mailbox.take_back() {
            hold.engine.channel.wake(window.comm.group.world(rank)); // for the next time
            return Ok(false);
        }
        // The member is at it. It waits for nobody before it answers, and rings no bell then: who slept meanwhile would hear late.
        while !is_there() {
            hold.check_peer(&window.comm, Plane::PointToPoint, Some(rank))?;
            hold.give_way();
        }
    }
    let done = mailbox.answer_is() == Some(true);
    if !done {
        mailbox.leave();
    }
    Ok(done)
}

/// Does what others ask in this process's mailboxes; whether anybody did.
#[inline]
pub fn look(state: &State) -> bool {
    let mut asked = false;
    for window in &state.served {
        for mailbox in window.mailboxes(window.comm.rank).unwrap_or_default() {
            asked |= mailbox.is_asked() && serve(window, mailbox);
        }
    }
    asked
}

fn serve(window: &Window, mailbox: &Mailbox) -> bool {
    let Some(question) = mailbox.claim() else {
        return false;
    };
    mailbox.answer(act(window, mailbox, question).is_some());
    window.answered.set(true);
    true
}

/// Does what is asked; `None` if the window has no such memory or the question makes no sense.
fn act(window: &Window, mailbox: &Mailbox, [what, address, count]: Question) -> Option<()> {
    let kind = what & HALF;
    let (listed, wanted) = (what & LISTED != 0, what & WANTED != 0);
    if kind == READ || kind == WRITE {
        if listed {
            listed::listed(window, mailbox, (address, count), (1, 1))?.copy(kind == READ);
            return Some(());
        }
        let (count, at) = (usize::try_from(count).ok()?, address as usize as *mut u8);
        let bytes = mailbox.bytes(count).filter(|_| exposed(window, address, count))?;
        // SAFETY: the program exposes so many bytes there; the mailbox, which is claimed, has as many.
        unsafe {
            match kind {
                READ => copy::bytes(at, bytes, count),
                _ => copy::bytes(bytes, at, count),
            }
        }
        return Some(());
    }
    let basic = BASICS.get((what >> BASIC & HALF) as usize)?;
    let change = Change::of_word(kind)?;
    let kernel = match change {
        Change::Combine(Builtin::NoOp) => None,
        Change::Combine(builtin) => Some(kernel::find(builtin, basic)?),
        Change::Swap if wanted && comparable(basic) => None,
        Change::Swap => return None,
    };
    if !basic.is_contiguous() || basic.size == 0 {
        return None;
    }
    if listed {
        let rows = change.operands() + usize::from(wanted);
        let listed = listed::listed(window, mailbox, (address, count), (rows, basic.size))?;
        // SAFETY: the kernel is the one for the basic.
        unsafe { listed.change(window, (change, kernel), wanted, basic.size) };
        return Some(());
    }
    let (count, at) = (usize::try_from(count).ok()?, address as usize as *mut u8);
    let len = count.checked_mul(basic.size)?;
    let bytes = mailbox.bytes(room(change, wanted, len)?)?;
    if len == 0 || !exposed(window, address, len) {
        return None;
    }
    let result = match wanted {
        true => bytes.wrapping_add(change.operands() * len),
        false => std::ptr::null_mut(),
    };
    let here = Here {
        origin: bytes,
        compare: bytes.wrapping_add(len),
        result,
    };
    // SAFETY: the program exposes the elements, the mailbox has the others; the kernel is the one for them.
    unsafe {
        in_place(
            window,
            window.comm.rank,
            at,
            &here,
            (change, kernel),
            (basic.size, count),
        )
    };
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::Flavor;
    use super::super::tests::{end, job, window};
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// The middle one of some waits counts: the machine may do something else in others.
    #[test]
    fn who_waits_for_an_answer_under_way_has_it_as_soon_as_it_is_there() {
        let (answered_at, late) = (AtomicU64::new(0), Mutex::new(Vec::new()));
        job(2, |hold, comm| {
            let window = window(hold, comm, Flavor::Create, &mut [0; 2]);
            let mailbox = &window.mailboxes(1).unwrap()[0];
            for _ in 0..5 {
                if comm.rank == 1 {
                    while mailbox.claim().is_none() {
                        std::thread::yield_now();
                    }
                    std::thread::sleep(Duration::from_millis(30));
                    answered_at.store(clock::nanoseconds(), Ordering::Relaxed);
                    mailbox.answer(true);
                    continue;
                }
                while !mailbox.take() {}
                mailbox.ask([READ, 0, 0]);
                while mailbox.is_asked() {
                    std::thread::yield_now();
                }
                let is_done = answered(hold, &window, (1, 1), mailbox).unwrap();
                let took = clock::nanoseconds() - answered_at.load(Ordering::Relaxed);
                assert!(is_done);
                late.lock().unwrap().push(took);
                mailbox.leave();
            }
            end(hold, window);
        });
        let mut late = late.into_inner().unwrap();
        late.sort_unstable();
        assert!(late[2] < 10_000_000, "{late:?} ns");
    }

    #[test]
    fn a_piece_is_done_once_or_left_and_the_next_one_is_asked_for_before() {
        // Of ten pieces this one is not taken, or not done; what has been begun and ended by then, and what is left.
        let run = |not_taken: usize, not_done: usize| {
            let mut seen = Vec::new();
            let begin = |seen: &mut Vec<(char, usize, usize)>, &mailbox: &usize, piece: Range<usize>| {
                let takes = piece.start / 10 != not_taken;
                if takes {
                    seen.push(('b', mailbox, piece.start));
                }
                takes
            };
            let end = |seen: &mut Vec<_>, &mailbox: &usize, piece: Range<usize>| {
                seen.push(('e', mailbox, piece.start));
                Ok(piece.start / 10 != not_done)
            };
            let left = in_pieces(&mut seen, &[0, 1], (95, 10), begin, end).unwrap();
            let left: Vec<_> = left.iter().map(|part| (part.start, part.end)).collect();
            let began = seen.iter().filter(|seen| seen.0 == 'b').count();
            assert_eq!(2 * began, seen.len(), "all that is begun is ended");
            (seen, began, left)
        };
        let (seen, began, left) = run(99, 99);
        assert_eq!((began, left), (10, vec![]));
        assert_eq!(seen[..4], [('b', 0, 0), ('b', 1, 10), ('e', 0, 0), ('b', 0, 20)]);
        for (not_taken, not_done, began, left) in [
            (0, 99, 0, vec![(0, 95)]),
            (3, 99, 3, vec![(30, 95)]),
            (99, 0, 2, vec![(0, 10), (20, 95)]),
            (99, 8, 10, vec![(80, 90)]),
            (99, 9, 10, vec![(90, 95)]),
        ] {
            let (_, did, rest) = run(not_taken, not_done);
            assert_eq!((did, rest), (began, left), "{not_taken} {not_done}");
        }
    }
}
