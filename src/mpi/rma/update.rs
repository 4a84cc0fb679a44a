//! # Safety
//! Combines elements in a window's memory: relies on [`Window::locate`] for the target's bounds, on the promise of
//! [`Buffer`] for origin and result, and on the kernel being the one for the elements.
//!
//! Accumulates: read, combine, write, as one for each element (MPI-4.1 §12.3.4). Every update of a member's memory
//! takes its turn at the member's control line, so that updates through different paths are atomic too.
#![allow(unsafe_code)]

use super::epoch::{access, updating};
use super::later::{self, Kind};
use super::list::{List, Stretch};
use super::listed::{self, Wish};
use super::serve::{self, Request};
use super::short::{self, Here};
use super::transfer::{refused, same_length, stretches};
use super::{Target, Way, Window, buffer_at, mail};
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::datatype::Datatype;
use crate::mpi::datatype::basic::{Basic, OpClass};
use crate::mpi::error::Result;
use crate::mpi::op::kernel::{self, Builtin, Kernel};
use crate::mpi::op::{Function, Op};
use crate::mpi::world::Hold;
use crate::sys::cma::{self, Direction};
use crate::sys::{copy, gather};
use std::ops::Range;
use std::rc::Rc;

/// Bytes of elements combined in one turn; of more the turns of others may come in between.
pub(super) const TURN: usize = serve::MOST;

/// What is done to the elements of a target.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// `target = operand op target`.
    Combine(Builtin),
    /// The operand is stored if the target equals a second operand behind it.
    Swap,
}

/// Elements of one predefined datatype in a target's memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    /// Address of the first one.
    pub address: u64,
    /// How many follow each other.
    pub count: usize,
}

/// Combines `origin` with the target by `op`; `result`, if there is one, gets what was there before. MPI-4.1 §12.3.4.
///
/// # Errors
/// `RmaSync`, `Disp`, `RmaRange`; `Op`: the operation is not predefined or does not take the datatype; `Type`: the
/// sides differ in length, or the datatype is not made of one predefined datatype.
pub fn accumulate(
    hold: &mut Hold,
    window: &Rc<Window>,
    origin: &Buffer,
    result: Option<&Buffer>,
    target: &Target,
    op: &Op,
) -> Result<()> {
    let Function::Builtin(builtin) = op.function else {
        fail!(Op, "accumulates take predefined operations only");
    };
    access(hold, window, target.rank)?;
    if builtin != Builtin::NoOp {
        same_length(origin, target)?;
    }
    if let Some(result) = result {
        same_length(result, target)?;
    }
    window.locate(target)?;
    if target.is_empty() {
        return Ok(()); // even MPI_BYTE, which no operation takes, as in MPICH
    }
    let basic = element(target)?;
    kernel_for(builtin, basic)?;
    let all = Operands {
        basic,
        first: (builtin != Builtin::NoOp).then_some(origin),
        second: None,
        result,
    };
    change(hold, window, &all, target, Change::Combine(builtin))
}

/// Stores `origin` in the target's one element if that equals `compare`; `result` gets what was there before.
/// MPI-4.1 §12.3.4.4.
///
/// # Errors
/// As [`accumulate`].
pub fn compare_and_swap(
    hold: &mut Hold,
    window: &Rc<Window>,
    origin: &Buffer,
    compare: &Buffer,
    result: &Buffer,
    target: &Target,
) -> Result<()> {
    access(hold, window, target.rank)?;
    let basic = element(target)?;
    if !comparable(basic) {
        fail!(Type, "MPI_Compare_and_swap does not take {}", basic.name);
    }
    let all = Operands {
        basic,
        first: Some(origin),
        second: Some(compare),
        result: Some(result),
    };
    change(hold, window, &all, target, Change::Swap)
}

/// Whether MPI_Compare_and_swap takes the datatype.
pub(super) fn comparable(basic: &Basic) -> bool {
    use OpClass::*;
    matches!(basic.class, CInteger | FInteger | Logical | MultiLanguage | Byte)
}

/// The buffers of one update on this side.
struct Operands<'a> {
    basic: &'static Basic,
    first: Option<&'a Buffer>,
    second: Option<&'a Buffer>,
    result: Option<&'a Buffer>,
}

impl Operands<'_> {
    /// Where they lie, if each lies in a row.
    fn in_a_row(&self) -> Option<Here> {
        let at = |buffer: Option<&Buffer>| buffer.map_or(Some(std::ptr::null_mut()), Buffer::in_a_row);
        Some(Here {
            origin: at(self.first)?,
            compare: at(self.second)?,
            result: at(self.result)?,
        })
    }
}

fn change(hold: &mut Hold, window: &Window, all: &Operands, target: &Target, what: Change) -> Result<()> {
    let offset = window.locate(target)?;
    if target.is_empty() {
        return Ok(());
    }
    let way = window.way(hold, target)?;
    let base = match way {
        Way::Here(base) => base as u64,
        Way::Process(_, base) | Way::Served(base) => base,
    };
    let (size, elements) = (all.basic.size, target.len() / all.basic.size);
    let first = base.wrapping_add_signed(offset as i64);
    let there = buffer_at(base as *mut u8, offset, target);
    let plain = all.basic.is_contiguous() && there.is_in_a_row() && !matches!(way, Way::Here(_));
    if !matches!(way, Way::Here(_)) {
        let kept = match all
            .in_a_row()
            .filter(|here| plain && here.result.is_null() && !here.origin.is_null())
        {
            Some(here) => {
                let bytes = (there.address as u64, here.origin.cast_mut(), target.len());
                let kind = Kind::Change(what, all.basic);
                // SAFETY: the program owns the origin, which has as many bytes as the target: the change has an operand, for without it
                // there is a result.
                unsafe { later::keeps(hold, window, target.rank, (kind, way), bytes)? }
            }
            None => later::settle(hold, window, target.rank).map(|()| false)?,
        };
        if kept {
            return Ok(());
        }
    }
    let asked = match all.in_a_row().filter(|_| plain) {
        Some(here) => {
            let run = Run {
                address: there.address as u64,
                count: elements,
            };
            let rest = |hold: &mut Hold, bytes: Range<usize>| {
                let elements = bytes.start / size..bytes.end / size;
                in_turns(hold, window, all, (target, first), (way, false), what, elements).map(drop)
            };
            // SAFETY: the program owns the buffers, which have as many elements as the run, and that is not here.
            unsafe { mail::update(hold, window, (target.rank, &run), (what, all.basic), &here, rest)? }
        }
        None => in_turns(hold, window, all, (target, first), (way, true), what, 0..elements)?,
    };
    let (there, back) = (all.first.map_or(0, Buffer::len), all.result.map_or(0, Buffer::len));
    window.count(hold, (way, asked), target.rank, there, back);
    Ok(())
}

/// Changes these elements of the target, whose first element of its datatype lies at `first`, by rows of them that are made for each turn;
/// the member is asked first if it `may_ask`. Whether the member did the last turn.
fn in_turns(
    hold: &mut Hold,
    window: &Window,
    all: &Operands,
    (target, first): (&Target, u64),
    (way, may_ask): (Way, bool),
    what: Change,
    elements: Range<usize>,
) -> Result<bool> {
    let Basic { size, extent, .. } = *all.basic;
    let step = (TURN / extent).max(1);
    let mut rows = Rows::new(step.min(elements.len()) * extent, all.result.is_some());
    let mut asked = false;
    for start in elements.clone().step_by(step) {
        let count = step.min(elements.end - start);
        let list = stretches(target, first, start * size, count * size);
        // SAFETY: the buffers have `count` elements from `start` on, and the rows room for them.
        unsafe {
            rows.load(0, all.first, all.basic, start, count);
            rows.load(1, all.second, all.basic, start, count);
        }
        asked = turn(
            hold,
            window,
            target.rank,
            (way, may_ask),
            (what, all.basic),
            &list,
            &mut rows,
        )?;
        // SAFETY: as for loading.
        unsafe { rows.store(all.result, all.basic, start, count) };
    }
    Ok(asked)
}

/// Changes the elements that `list` has the bytes of, in member `rank`'s memory, by those in `rows`, in a turn, or where the member is asked
/// in a few; whether it did all.
pub(super) fn turn(
    hold: &mut Hold,
    window: &Window,
    rank: u32,
    (way, may_ask): (Way, bool),
    (what, basic): (Change, &'static Basic),
    list: &List,
    rows: &mut Rows,
) -> Result<bool> {
    let len = list.len();
    let here = rows.here();
    if let Way::Here(_) = way {
        // SAFETY: the runs lie in the window's memory, which is mapped here.
        updating(window, rank, || unsafe {
            apply(what, basic, runs(&list.all(), basic), rows)
        });
        return Ok(false);
    }
    let mut other = |hold: &mut Hold, bytes: Range<usize>| {
        let list = list.part(bytes.clone());
        let at = bytes.start / basic.size * basic.extent;
        match way {
            Way::Here(_) => Ok(()),
            Way::Process(pid, _) => {
                let outcome = updating(window, rank, || through(pid, what, basic, &list, rows, at));
                outcome.or_else(|error| refused(rank, &error))
            }
            Way::Served(_) => {
                let request = Request::change(what, basic, runs(&list, basic));
                let operands = rows.operands(what, at..at + bytes.len() / basic.size * basic.extent);
                let old = serve::ask_update(hold, window, rank, &request, &operands)?;
                if rows.wanted {
                    rows.old()[at..at + old.len()].copy_from_slice(&old);
                }
                Ok(())
            }
        }
    };
    if !may_ask || !basic.is_contiguous() {
        return other(hold, 0..len).map(|()| false);
    }
    // SAFETY: the rows hold as many elements as the list, which are not here.
    unsafe {
        if let Some((address, _)) = list.single() {
            let count = len / basic.size;
            let run = Run { address, count };
            return mail::update(hold, window, (rank, &run), (what, basic), &here, other);
        }
        let wish = Wish {
            word: mail::word(what, basic),
            operands: what.operands(),
            wanted: !here.result.is_null(),
            size: basic.size,
        };
        listed::ask(hold, window, rank, list, (wish, &here), other)
    }
}

/// The one predefined datatype that the target is made of.
fn element(target: &Target) -> Result<&'static Basic> {
    match target.datatype.element() {
        Some(basic) if basic.size > 0 => Ok(basic),
        _ => fail!(Type, "the target's datatype is not made of one predefined datatype"),
    }
}

fn kernel_for(builtin: Builtin, basic: &Basic) -> Result<Kernel> {
    match kernel::find(builtin, basic) {
        Some(kernel) => Ok(kernel),
        None => fail!(Op, "{} is not defined for {}", builtin.name(), basic.name),
    }
}

/// The elements that `list` has the bytes of: in rows, or one by one if they have gaps inside.
fn runs(list: &[Stretch], basic: &Basic) -> impl Iterator<Item = Run> {
    let (size, one_by_one) = (basic.size, !basic.is_contiguous());
    // Where the first element begins: a stretch may begin with the rest of one before.
    let starts = list.iter().scan(0, move |start, &(address, len)| {
        let step = if one_by_one { size } else { len.max(1) };
        let begin = std::mem::take(start);
        *start = (begin + (len - begin.min(len)).next_multiple_of(step)).saturating_sub(len);
        Some((begin..len).step_by(step).map(move |at| Run {
            address: address.wrapping_add(at as u64),
            count: if one_by_one { 1 } else { len / size },
        }))
    });
    starts.flatten()
}

/// Rows of whole elements, gaps included: two operands, and what was in the target before.
pub(super) struct Rows {
    memory: Vec<u128>,
    len: usize,
    wanted: bool,
}

impl Rows {
    /// Rows of `len` bytes, for one operand alone unless what was there is `wanted`.
    pub(super) fn new(len: usize, wanted: bool) -> Rows {
        let len = len.next_multiple_of(size_of::<u128>());
        let count = if wanted { 3 } else { 1 };
        Rows {
            memory: vec![0; count * len / size_of::<u128>()],
            len,
            wanted,
        }
    }

    fn here(&mut self) -> Here {
        Here {
            origin: self.row(0),
            compare: self.row(1),
            result: match self.wanted {
                true => self.row(2),
                false => std::ptr::null_mut(),
            },
        }
    }

    fn row(&mut self, index: usize) -> *mut u8 {
        self.memory.as_mut_ptr().cast::<u8>().wrapping_add(index * self.len)
    }

    /// What was in the target before, which is wanted.
    pub(super) fn old(&mut self) -> &mut [u8] {
        assert!(self.wanted);
        let (row, len) = (self.row(2), self.len);
        // SAFETY: the third row has `len` bytes.
        unsafe { std::slice::from_raw_parts_mut(row, len) }
    }

    /// Fills the operands from what a message brought.
    pub(super) fn fill(&mut self, operands: &[u8], len: usize) {
        let most = if self.wanted { 2 } else { 1 };
        for (index, operand) in operands.chunks_exact(len.max(1)).take(most).enumerate() {
            let row = self.row(index);
            // SAFETY: a row has room for `len` bytes, by the caller's call of `new`.
            unsafe { copy::many(operand.as_ptr(), row, len) };
        }
    }

    fn operands(&mut self, what: Change, bytes: Range<usize>) -> Vec<u8> {
        assert!(bytes.end <= self.len && (self.wanted || what.operands() < 2));
        let count = what.operands();
        let mut operands = Vec::with_capacity(count * bytes.len());
        for index in 0..count {
            let row = self.row(index).wrapping_add(bytes.start);
            // SAFETY: a row has `len` bytes.
            operands.extend_from_slice(unsafe { std::slice::from_raw_parts(row, bytes.len()) });
        }
        operands
    }

    /// # Safety
    /// `buffer` has the elements, and a row has room for them.
    unsafe fn load(&mut self, index: usize, buffer: Option<&Buffer>, basic: &Basic, start: usize, count: usize) {
        let Some(buffer) = buffer else { return };
        let row = self.row(index);
        let (position, len) = (start * basic.size, count * basic.size);
        if basic.is_contiguous() {
            // SAFETY: the caller's promise.
            return unsafe { buffer.pack(position, row, len) };
        }
        let mut packed = vec![0u8; len];
        // SAFETY: as above.
        unsafe {
            buffer.pack(position, packed.as_mut_ptr(), len);
            whole(basic).unpack(row, count, 0, packed.as_ptr(), len);
        }
    }

    /// # Safety
    /// As [`Rows::load`].
    unsafe fn store(&mut self, buffer: Option<&Buffer>, basic: &Basic, start: usize, count: usize) {
        let Some(buffer) = buffer else { return };
        let row = self.row(2);
        let (position, len) = (start * basic.size, count * basic.size);
        if basic.is_contiguous() {
            // SAFETY: the caller's promise.
            return unsafe { buffer.unpack(position, row, len) };
        }
        let mut packed = vec![0u8; len];
        // SAFETY: as above.
        unsafe {
            whole(basic).pack(row, count, 0, packed.as_mut_ptr(), len);
            buffer.unpack(position, packed.as_ptr(), len);
        }
    }
}

/// The datatype of one `basic` element.
fn whole(basic: &Basic) -> Rc<Datatype> {
    let index = crate::mpi::datatype::basic::index(basic.handle);
    Datatype::basic_at(index.expect("a row of the table has an index"))
}

/// Bytes from the first to behind the last byte of `count` elements.
fn span(basic: &Basic, count: usize) -> usize {
    let last = basic.parts().map_or(basic.size, |parts| parts.offset + parts.second);
    (count - 1) * basic.extent + last
}

/// The kernel of a change, if it combines.
fn kernel_of(what: Change, basic: &Basic) -> Option<Kernel> {
    match what {
        Change::Combine(builtin) => kernel::find(builtin, basic),
        Change::Swap => None,
    }
}

/// Changes the elements of `runs`, which are mapped here, by those in `rows`.
///
/// # Safety
/// The runs lie in memory that is readable and writable; the rows hold as many elements.
pub(super) unsafe fn apply(what: Change, basic: &Basic, runs: impl Iterator<Item = Run>, rows: &mut Rows) {
    let kernel = kernel_of(what, basic);
    let mut here = rows.here();
    for run in runs {
        let there = run.address as usize as *mut u8;
        // SAFETY: the caller's promise.
        unsafe { combine((what, kernel), basic, &here, there, run.count) };
        here = here.skip(run.count * basic.extent);
    }
}

/// As [`apply`], in the memory of process `pid`, of the elements that `list` has the bytes of, by those from byte `at` of the rows on.
pub(super) fn through(
    pid: i32,
    what: Change,
    basic: &Basic,
    list: &[Stretch],
    rows: &mut Rows,
    at: usize,
) -> std::io::Result<()> {
    let len: usize = list.iter().map(|stretch| stretch.1).sum();
    let count = len / basic.size;
    let mut bytes = vec![0u8; len];
    let mut spread = vec![0u8; if basic.is_contiguous() { 0 } else { count * basic.extent }];
    let here = rows.here().skip(at);
    // SAFETY: there are as many bytes as in the list, and elements as in the rows from `at` on.
    unsafe {
        gather::read(pid, bytes.as_mut_ptr(), list)?;
        if basic.is_contiguous() {
            combine((what, kernel_of(what, basic)), basic, &here, bytes.as_mut_ptr(), count);
        } else {
            whole(basic).unpack(spread.as_mut_ptr(), count, 0, bytes.as_ptr(), len);
            combine((what, kernel_of(what, basic)), basic, &here, spread.as_mut_ptr(), count);
            whole(basic).pack(spread.as_mut_ptr(), count, 0, bytes.as_mut_ptr(), len);
        }
        if !matches!(what, Change::Combine(Builtin::NoOp)) {
            cma::transfer(pid, Direction::Write, bytes.as_mut_ptr(), list)?;
        }
    }
    Ok(())
}

/// Changes `count` elements at `there` by those `here`.
///
/// # Safety
/// All have so many elements, of which those with gaps end with their last byte.
unsafe fn combine(change: (Change, Option<Kernel>), basic: &Basic, here: &Here, there: *mut u8, count: usize) {
    if basic.is_contiguous() || here.result.is_null() {
        // SAFETY: the caller's promise; the kernel is the one for these elements.
        return unsafe { short::change(there, here, change, (basic.size, count)) };
    }
    // SAFETY: as above; what has gaps is not compared.
    unsafe {
        copy::many(there, here.result, span(basic, count));
        let result = std::ptr::null_mut();
        short::change(there, &Here { result, ..*here }, change, (basic.size, count));
    }
}
