//! # Safety
//! Combines elements in a window's memory: relies on [`Window::locate`] for the target's bounds, on the promise of
//! [`Buffer`] for origin and result, and on the kernel being the one for the elements.
//!
//! Accumulates: read, combine, write, as one for each element (MPI-4.1 §12.3.4). Every update of a member's memory
//! takes its turn at the member's control line, so that updates through different paths are atomic too.
#![allow(unsafe_code)]

use super::epoch::{access, updating};
use super::serve::{self, Request};
use super::short::Here;
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
use crate::sys::copy;
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
    window: &Window,
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
    window: &Window,
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
    let extent = all.basic.extent;
    let step = (TURN / extent).max(1);
    let mut rows = Rows::new(step.min(elements.len()) * extent);
    let mut asked = false;
    for start in elements.clone().step_by(step) {
        let count = step.min(elements.end - start);
        let runs = runs(target, all.basic, first, start, count);
        // SAFETY: the buffers have `count` elements from `start` on, and the rows room for them.
        unsafe {
            rows.load(0, all.first, all.basic, start, count);
            rows.load(1, all.second, all.basic, start, count);
        }
        let here = Here {
            origin: rows.row(0),
            compare: rows.row(1),
            result: if all.result.is_some() {
                rows.row(2)
            } else {
                std::ptr::null_mut()
            },
        };
        let mut other = |hold: &mut Hold| match way {
            Way::Here(_) => {
                // SAFETY: the runs lie in the window's memory, which is mapped here.
                updating(window, target.rank, || unsafe {
                    apply(what, all.basic, &runs, &mut rows)
                });
                Ok(())
            }
            Way::Process(pid, _) => {
                let outcome = updating(window, target.rank, || through(pid, what, all.basic, &runs, &mut rows));
                outcome.or_else(|error| refused(target.rank, &error))
            }
            Way::Served(_) => {
                let request = Request::change(what, all.basic, &runs);
                let operands = rows.operands(what, count * extent);
                let old = serve::ask_update(hold, window, target.rank, &request, &operands)?;
                rows.old()
                    .get_mut(..old.len())
                    .unwrap_or_default()
                    .copy_from_slice(&old);
                Ok(())
            }
        };
        let change = (what, all.basic);
        asked = match (way, &runs[..]) {
            (Way::Process(..) | Way::Served(_), [run]) if may_ask && all.basic.is_contiguous() => {
                // A turn is one piece (`TURN` of operands and as much of what was there fill a mailbox), so all of it is left or nothing.
                // SAFETY: the rows hold as many elements as the run, which is not here.
                unsafe { mail::update(hold, window, (target.rank, run), change, &here, |hold, _| other(hold))? }
            }
            _ => other(hold).map(|()| false)?,
        };
        // SAFETY: as for loading.
        unsafe { rows.store(all.result, all.basic, start, count) };
    }
    Ok(asked)
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

/// Elements `start .. start + count` of the target, whose first element of its datatype lies at `first`.
fn runs(target: &Target, basic: &Basic, first: u64, start: usize, count: usize) -> Vec<Run> {
    if basic.is_contiguous() {
        let found = stretches(target, first, start * basic.size, count * basic.size);
        let run = |(address, len): (u64, usize)| Run {
            address,
            count: len / basic.size,
        };
        return found.into_iter().map(run).collect();
    }
    // Elements with gaps inside, one by one.
    (start..start + count)
        .filter_map(|index| {
            let found = stretches(target, first, index * basic.size, basic.size);
            found.first().map(|&(address, _)| Run { address, count: 1 })
        })
        .collect()
}

/// Rows of whole elements, gaps included: two operands, and what was in the target before.
pub(super) struct Rows {
    memory: Vec<u128>,
    len: usize,
}

impl Rows {
    /// Rows of `len` bytes.
    pub(super) fn new(len: usize) -> Rows {
        let len = len.next_multiple_of(size_of::<u128>());
        Rows {
            memory: vec![0; 3 * len / size_of::<u128>()],
            len,
        }
    }

    fn row(&mut self, index: usize) -> *mut u8 {
        self.memory.as_mut_ptr().cast::<u8>().wrapping_add(index * self.len)
    }

    /// What was in the target before.
    pub(super) fn old(&mut self) -> &mut [u8] {
        let (row, len) = (self.row(2), self.len);
        // SAFETY: the third row has `len` bytes.
        unsafe { std::slice::from_raw_parts_mut(row, len) }
    }

    /// Fills the operands from what a message brought.
    pub(super) fn fill(&mut self, operands: &[u8], len: usize) {
        for (index, operand) in operands.chunks_exact(len.max(1)).take(2).enumerate() {
            let row = self.row(index);
            // SAFETY: a row has room for `len` bytes, by the caller's call of `new`.
            unsafe { copy::many(operand.as_ptr(), row, len) };
        }
    }

    fn operands(&mut self, what: Change, len: usize) -> Vec<u8> {
        let count = what.operands();
        let mut operands = Vec::with_capacity(count * len);
        for index in 0..count {
            let row = self.row(index);
            // SAFETY: a row has at least `len` bytes.
            operands.extend_from_slice(unsafe { std::slice::from_raw_parts(row, len) });
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

/// Changes the elements of `runs`, which are mapped here, by the operands in `rows`.
///
/// # Safety
/// The runs lie in memory that is readable and writable; the rows hold as many elements.
pub(super) unsafe fn apply(what: Change, basic: &Basic, runs: &[Run], rows: &mut Rows) {
    let mut done = 0;
    for run in runs {
        let there = run.address as usize as *mut u8;
        // SAFETY: the caller's promise.
        unsafe {
            copy::many(there, rows.row(2).wrapping_add(done), span(basic, run.count));
            combine(what, basic, rows, done, there, run.count);
        }
        done += run.count * basic.extent;
    }
}

/// As [`apply`], in the memory of process `pid`.
fn through(pid: i32, what: Change, basic: &Basic, runs: &[Run], rows: &mut Rows) -> std::io::Result<()> {
    let mut done = 0;
    let mut near = Vec::new();
    for run in runs {
        let there = [(run.address, span(basic, run.count))];
        near.resize(run.count * basic.extent, 0u8);
        // SAFETY: `near` and the third row from `done` on have room for the run's elements.
        unsafe {
            cma::transfer(pid, Direction::Read, near.as_mut_ptr(), &there)?;
            copy::many(near.as_ptr(), rows.row(2).wrapping_add(done), there[0].1);
            combine(what, basic, rows, done, near.as_mut_ptr(), run.count);
            if !matches!(what, Change::Combine(Builtin::NoOp)) {
                cma::transfer(pid, Direction::Write, near.as_mut_ptr(), &there)?;
            }
        }
        done += run.count * basic.extent;
    }
    Ok(())
}

/// `there = operand op there` for `count` elements; the operands lie `done` bytes into their rows, and so does a copy
/// of what is there.
///
/// # Safety
/// All of them have so many elements.
unsafe fn combine(what: Change, basic: &Basic, rows: &mut Rows, done: usize, there: *mut u8, count: usize) {
    let operand = rows.row(0).wrapping_add(done);
    match what {
        Change::Combine(builtin) => {
            if let Some(kernel) = kernel::find(builtin, basic) {
                // SAFETY: the caller's promise; the kernel is the one for these elements.
                unsafe { kernel(operand, there, count) };
            }
        }
        Change::Swap => {
            let len = basic.size;
            let (compare, old) = (rows.row(1).wrapping_add(done), rows.row(2).wrapping_add(done));
            // SAFETY: as above; comparable elements have no gaps.
            unsafe {
                if std::slice::from_raw_parts(compare, len) == std::slice::from_raw_parts(old, len) {
                    copy::many(operand, there, len);
                }
            }
        }
    }
}
