//! # Safety
//! Reads and writes this process's part of a window for others: relies on [`Window`] to know what the program exposed.
//!
//! What a member does for others that the kernel keeps from its memory: they ask in a message, it answers from inside
//! any MPI call.
//!
//! ```text
//! request: | kind, operation | basic | tag of the answer | n | n x (address, length or count) | bytes
//! answer:  | 0, or 1 for refused | bytes
//! ```
//! Numbers are 64 bits wide. What a request names is checked against the window before it is touched.
#![allow(unsafe_code)]

use super::create::{numbers, words};
use super::epoch::updating;
use super::update::{Change, Rows, Run, apply};
use super::{Flavor, Window};
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::comm::Plane;
use crate::mpi::datatype::basic::{BASICS, Basic, index};
use crate::mpi::error::Result;
use crate::mpi::op::kernel::{self, BUILTINS, Builtin};
use crate::mpi::pt2pt::{self, Mode, probe};
use crate::mpi::request::RequestKey;
use crate::mpi::status::ANY_SOURCE;
use crate::mpi::world::Hold;
use crate::sys::cma::Direction;
use crate::sys::copy;
use std::rc::Rc;

/// Most bytes that one request moves.
pub(super) const MOST: usize = 8 << 10;
/// Tag of requests, and the first of the tags of answers.
const ASKED: i32 = 0;
const ANSWERS: i32 = 16;
const ANSWER_TAGS: u32 = 1 << 20;

/// Kinds of what is asked for, here and in mailboxes; above [`KIND_BITS`] stands which operation combines.
pub(super) const READ: u64 = 0;
pub(super) const WRITE: u64 = 1;
const COMBINE: u64 = 2;
const SWAP: u64 = 3;
const KIND_BITS: u32 = 8;
/// Numbers before the list.
const HEAD: usize = 4;

/// A request whose bytes are on their way: who asks, the receive, and its memory.
#[derive(Debug)]
pub struct Coming {
    from: u32,
    key: RequestKey,
    bytes: Box<[u8]>,
}

impl Change {
    /// Kind and operation, as it is asked for.
    pub(super) fn word(self) -> u64 {
        match self {
            Change::Swap => SWAP,
            Change::Combine(builtin) => COMBINE | (builtin as u64) << KIND_BITS,
        }
    }

    /// What kind and operation ask for, if that is a change.
    pub(super) fn of_word(word: u64) -> Option<Change> {
        let builtin = *BUILTINS.get((word >> KIND_BITS) as usize)?;
        match word & ((1 << KIND_BITS) - 1) {
            COMBINE => Some(Change::Combine(builtin)),
            SWAP => Some(Change::Swap),
            _ => None,
        }
    }

    /// Operands that it takes.
    pub(super) fn operands(self) -> usize {
        match self {
            Change::Combine(Builtin::NoOp) => 0,
            Change::Combine(_) => 1,
            Change::Swap => 2,
        }
    }
}

/// What is asked for.
pub(super) struct Request {
    kind: u64,
    basic: u64,
    list: Vec<u64>,
}

impl Request {
    /// To copy the stretches, in order.
    pub(super) fn transfer(direction: Direction, stretches: &[(u64, usize)]) -> Request {
        Request {
            kind: if direction == Direction::Read { READ } else { WRITE },
            basic: 0,
            list: stretches.iter().flat_map(|&(at, len)| [at, len as u64]).collect(),
        }
    }

    /// To change the runs of `basic` elements.
    pub(super) fn change(what: Change, basic: &Basic, runs: impl Iterator<Item = Run>) -> Request {
        Request {
            kind: what.word(),
            basic: index(basic.handle).unwrap_or_default() as u64,
            list: runs.flat_map(|run| [run.address, run.count as u64]).collect(),
        }
    }
}

/// Has member `rank` copy to or from `row`.
pub(super) fn ask(hold: &mut Hold, window: &Window, rank: u32, request: &Request, row: &mut [u8]) -> Result<()> {
    let reads = request.kind == READ;
    let given: &[u8] = if reads { &[] } else { row };
    let answer = exchange(hold, window, rank, request, given, if reads { row.len() } else { 0 })?;
    if reads {
        row.copy_from_slice(&answer);
    }
    Ok(())
}

/// Has member `rank` update its memory; returns what was there before.
pub(super) fn ask_update(
    hold: &mut Hold,
    window: &Window,
    rank: u32,
    request: &Request,
    operands: &[u8],
) -> Result<Vec<u8>> {
    let elements: u64 = request.list.chunks_exact(2).map(|run| run[1]).sum();
    let extent = BASICS[request.basic as usize].extent;
    exchange(hold, window, rank, request, operands, elements as usize * extent)
}

fn exchange(
    hold: &mut Hold,
    window: &Window,
    rank: u32,
    request: &Request,
    given: &[u8],
    wanted: usize,
) -> Result<Vec<u8>> {
    let (comm, plane) = (&window.comm, Plane::PointToPoint);
    let number = window.asked.get();
    window.asked.set((number + 1) % ANSWER_TAGS);
    let tag = ANSWERS + number as i32;
    let mut message = words(&[request.kind, request.basic, tag as u64, request.list.len() as u64 / 2]);
    message.extend(words(&request.list));
    message.extend_from_slice(given);
    let mut answer = vec![0u8; 8 + wanted];
    let room = Buffer::bytes(answer.as_mut_ptr(), answer.len());
    let coming = pt2pt::irecv(hold, comm, plane, room, rank as i32, tag)?;
    let message = Buffer::bytes(message.as_mut_ptr(), message.len());
    pt2pt::send(hold, comm, plane, message, rank, ASKED, Mode::Standard)?;
    let status = pt2pt::wait(hold, coming)?;
    if status.bytes as usize != answer.len() || answer[0] != 0 {
        fail!(RmaRange, "rank {rank} does not expose the memory that was accessed");
    }
    Ok(answer.split_off(8))
}

/// Answers what has come for any window.
///
/// # Errors
/// A peer that left the protocol.
pub fn advance(hold: &mut Hold) -> Result<()> {
    if hold.served.is_empty() {
        return Ok(());
    }
    for window in hold.served.clone() {
        while let Some((key, status)) = probe::take_kept(hold, &window.comm, ANY_SOURCE, ASKED)? {
            let mut bytes = vec![0u8; status.bytes as usize].into_boxed_slice();
            let room = Buffer::bytes(bytes.as_mut_ptr(), bytes.len());
            let (from, key) = (status.source as u32, pt2pt::imrecv(hold, key, room)?);
            window.serving.borrow_mut().push(Coming { from, key, bytes });
        }
        let mut coming = std::mem::take(&mut *window.serving.borrow_mut());
        let mut index = 0;
        while index < coming.len() {
            if !hold.is_over(coming[index].key) {
                index += 1;
                continue;
            }
            let Coming { from, key, bytes } = coming.remove(index);
            pt2pt::finish(hold, key)?;
            answer(hold, &window, from, &bytes)?;
        }
        window.serving.borrow_mut().extend(coming);
    }
    Ok(())
}

fn answer(hold: &mut Hold, window: &Rc<Window>, from: u32, message: &[u8]) -> Result<()> {
    let head = numbers(message.get(..HEAD * 8).unwrap_or_default());
    let tag = head.get(2).and_then(|&tag| i32::try_from(tag).ok());
    let Some(tag) = tag.filter(|tag| (ANSWERS..ANSWERS + ANSWER_TAGS as i32).contains(tag)) else {
        fail!(
            Intern,
            "rank {from} asked for window memory in a message that makes no sense"
        );
    };
    let mut bytes = words(&[0]);
    match serve(window, &head, message) {
        Some(data) => bytes.extend(data),
        None => bytes = words(&[1]),
    }
    let reply = Buffer::kept(&Buffer::bytes(bytes.as_mut_ptr(), bytes.len()));
    let (comm, plane) = (&window.comm, Plane::PointToPoint);
    let key = pt2pt::isend(hold, comm, plane, reply, from, tag, Mode::Standard)?;
    match hold.is_over(key) {
        true => pt2pt::finish(hold, key).map(drop),
        false => {
            if let Some(request) = hold.requests.get_mut(key) {
                request.detached = true;
            }
            Ok(())
        }
    }
}

/// Does what a request asks for and returns what it wants to know; `None` if the window has no such memory or the
/// request makes no sense.
fn serve(window: &Window, head: &[u64], message: &[u8]) -> Option<Vec<u8>> {
    let &[kind, basic, _, count] = head else { return None };
    let list_len = usize::try_from(count).ok()?.checked_mul(16)?;
    let rest = message.get(HEAD * 8..)?;
    let (list, given) = rest.split_at_checked(list_len)?;
    let list: Vec<(u64, usize)> = numbers(list)
        .chunks_exact(2)
        .map(|pair| (pair[0], pair[1] as usize))
        .collect();
    if kind == READ || kind == WRITE {
        return copied(window, kind == READ, &list, given);
    }
    let what = Change::of_word(kind)?;
    let basic = BASICS.get(basic as usize).filter(|basic| basic.extent > 0)?;
    if let Change::Combine(builtin) = what {
        kernel::find(builtin, basic)?;
    }
    let runs: Vec<Run> = list.iter().map(|&(address, count)| Run { address, count }).collect();
    let mut elements = 0usize;
    for run in &runs {
        exposed(window, run.address, run.count.checked_mul(basic.extent)?.max(1))
            .then_some(())
            .or_else(|| exposed_but_gap(window, basic, run))?;
        elements = elements.checked_add(run.count)?;
    }
    let len = elements
        .checked_mul(basic.extent)
        .filter(|&len| len <= MOST.max(basic.extent))?;
    if given.len() != what.operands() * len {
        return None;
    }
    let mut rows = Rows::new(len, true);
    rows.fill(given, len);
    updating(window, window.comm.rank, || {
        // SAFETY: the runs lie in memory that the program exposes; the rows were made for their elements.
        unsafe { apply(what, basic, runs.iter().copied(), &mut rows) };
    });
    Some(rows.old()[..len].to_vec())
}

/// Whether the run lies within the window but for the gap behind its last element.
fn exposed_but_gap(window: &Window, basic: &Basic, run: &Run) -> Option<()> {
    let gap = basic
        .parts()
        .map_or(0, |parts| basic.extent - parts.offset - parts.second);
    let len = run.count.checked_mul(basic.extent)?.checked_sub(gap)?;
    exposed(window, run.address, len).then_some(())
}

fn copied(window: &Window, reads: bool, list: &[(u64, usize)], given: &[u8]) -> Option<Vec<u8>> {
    let all = list.iter().all(|&(address, len)| exposed(window, address, len));
    let total = list.iter().try_fold(0usize, |sum, &(_, len)| sum.checked_add(len))?;
    if !all || total > MOST || given.len() != if reads { 0 } else { total } {
        return None;
    }
    let mut data = vec![0u8; if reads { total } else { 0 }];
    let mut position = 0;
    for &(address, len) in list {
        let there = address as usize as *mut u8;
        // SAFETY: the stretch lies in memory that the program exposes; the row has as many bytes.
        unsafe {
            match reads {
                true => copy::many(there, data.as_mut_ptr().add(position), len),
                false => copy::many(given.as_ptr().add(position), there, len),
            }
        }
        position += len;
    }
    Some(data)
}

/// Whether the program exposes the `len` bytes at `address` through this window.
pub(super) fn exposed(window: &Window, address: u64, len: usize) -> bool {
    let within = |base: usize, size: usize| {
        let start = (address as usize).checked_sub(base);
        start
            .and_then(|start| start.checked_add(len))
            .is_some_and(|end| end <= size)
    };
    match window.flavor {
        Flavor::Dynamic => {
            let attached = window.attached.borrow();
            let (mut at, Some(end)) = (address as usize, (address as usize).checked_add(len)) else {
                return false;
            };
            // Regions that follow each other make one.
            while let Some((&base, &size)) = attached.range(..=at).next_back()
                && at - base < size
            {
                at = base.saturating_add(size);
                if end <= at {
                    return true;
                }
            }
            false
        }
        _ => within(window.base as usize, window.values.size as usize),
    }
}
