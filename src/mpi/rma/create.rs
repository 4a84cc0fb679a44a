//! Making and freeing windows (MPI-4.1 §12.2).

use super::epoch::Epochs;
use super::short::Near;
use super::{Flavor, MAILBOXES, Part, Place, Values, Window, later};
use crate::fail;
use crate::mpi::attr::Attributes;
use crate::mpi::coll::{allgather_bytes, barrier, bcast_bytes};
use crate::mpi::comm::{Comm, create};
use crate::mpi::errhandler::Errhandler;
use crate::mpi::error::{Error, Result};
use crate::mpi::info::Info;
use crate::mpi::world::{Hold, State};
use crate::shm::mailbox::Mailbox;
use crate::shm::segment::Segment;
use crate::shm::window::{Control, Told, WORDS};
use crate::shm::zone::{View, pages};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// "None" among offsets that are told.
const NOWHERE: u64 = u64::MAX;

/// What a process brings to a window.
#[derive(Debug)]
pub struct Share {
    /// How its memory comes to be.
    pub flavor: Flavor,
    /// Its memory, where the program brings it.
    pub base: *mut u8,
    /// Bytes of memory.
    pub size: usize,
    /// Bytes by which displacements count.
    pub unit: usize,
    /// Hints: `alloc_shared_noncontig`.
    pub info: Info,
}

/// Maps part of a zone.
pub(super) fn view(segment: &Segment, owner: u32, offset: usize, len: usize) -> Result<View> {
    let mapped = pages(len).map(|len| segment.view(owner, offset, len));
    match mapped {
        Some(Ok(view)) => Ok(view),
        Some(Err(error)) => fail!(NoMem, "{len} bytes of window memory could not be mapped: {error}"),
        None => fail!(NoMem, "{len} bytes of window memory are more than any machine has"),
    }
}

/// A window over `share` of each member of `comm`. Collective.
///
/// # Errors
/// `NoMem`: a member's memory could not be allocated or mapped; `Other`: no context is left.
pub fn create(hold: &mut Hold, comm: &Rc<Comm>, share: Share) -> Result<Window> {
    let comm = Rc::new(create::dup(hold, comm)?);
    let wants_a_row = share.flavor == Flavor::Shared && !is_noncontiguous(&share.info);
    let allocates = matches!(share.flavor, Flavor::Allocate | Flavor::Shared);
    let mut claims = Claims::default();
    let [base, size, unit] = [share.base as usize, share.size, share.unit].map(|word| word as u64);
    let mut told = [base, size, unit, NOWHERE, wants_a_row.into()];
    if allocates && !wants_a_row {
        told[3] = claims.take(hold, share.size);
    }
    let all = allgather_bytes(hold, &comm, &words(&told))?;
    let shares: Vec<Vec<u64>> = all.chunks_exact(size_of_val(&told)).map(numbers).collect();
    // The hint counts where all give it.
    let contiguous = shares.iter().any(|share| share[4] != 0);
    if contiguous {
        std::mem::take(&mut claims).give_back(hold);
    }

    let total = shares
        .iter()
        .try_fold(0usize, |sum, share| sum.checked_add(share[1] as usize));
    let mut blocks = [NOWHERE; 2];
    if comm.rank == 0 {
        blocks[0] = claims.take(hold, controls(shares.len()));
        if contiguous && let Some(total) = total {
            blocks[1] = claims.take(hold, total);
        }
        if !allocates && shares.len() > 1 {
            blocks[1] = claims.take(hold, shares.len() * MAILBOXES * size_of::<Mailbox>());
        }
    }
    let mut told = words(&blocks);
    bcast_bytes(hold, &comm, 0, &mut told)?;
    let blocks = numbers(&told);

    let missing = shares.iter().any(|share| share[3] == NOWHERE);
    if blocks[0] == NOWHERE || contiguous && blocks[1] == NOWHERE || allocates && !contiguous && missing {
        claims.give_back(hold);
        fail!(NoMem, "there is not so much room for windows on all processes");
    }
    let mut before = 0;
    let parts = shares.iter().map(|share| {
        let size = share[1] as usize;
        before += size;
        Part {
            address: share[0],
            size,
            unit: share[2] as usize,
            place: match (contiguous, allocates) {
                (true, _) => Place::Block(blocks[1] as usize, before - size),
                (_, true) => Place::Zone(share[3] as usize),
                _ => Place::Own,
            },
        }
    });
    let parts: Vec<Part> = parts.collect();
    let mailboxes = (!allocates && blocks[1] != NOWHERE).then_some(blocks[1] as usize);
    let made = finish(
        hold,
        comm.clone(),
        share,
        parts,
        (blocks[0] as usize, mailboxes),
        &claims,
    );
    if made.is_err() {
        claims.give_back(hold);
    }
    made
}

/// Bytes of what `members` share about each: control lines, and then what each is told.
fn controls(members: usize) -> usize {
    members * (size_of::<Control>() + told_by(members) * size_of::<Told>())
}

/// How many [`Told`] hold what one is told by `members`.
pub(super) fn told_by(members: usize) -> usize {
    members.div_ceil(Told::MEMBERS)
}

fn finish(
    hold: &mut Hold,
    comm: Rc<Comm>,
    share: Share,
    parts: Vec<Part>,
    (control, mailboxes): (usize, Option<usize>),
    claims: &Claims,
) -> Result<Window> {
    let segment = hold.engine.channel.segment().clone();
    let first = comm.group.world(0);
    let mut window = Window {
        flavor: share.flavor,
        base: share.base,
        errhandler: RefCell::new(Errhandler::default()),
        name: RefCell::default(),
        info: RefCell::new(share.info),
        attributes: Attributes::default(),
        values: Values {
            size: share.size as i64,
            unit: i32::try_from(share.unit).unwrap_or(i32::MAX),
            flavor: share.flavor as i32,
            model: super::epoch::UNIFIED,
        },
        epochs: RefCell::new(Epochs::default()),
        heard: RefCell::new(vec![[false; WORDS]; parts.len()]),
        near: Cell::new(Near::NOTHING),
        kernel: Cell::new(None),
        synchronized: Cell::new(0),
        attached: RefCell::default(),
        attached_empty: RefCell::default(),
        controls: view(&segment, first, control, controls(parts.len()))?,
        mailboxes: mailboxes
            .map(|offset| view(&segment, first, offset, parts.len() * MAILBOXES * size_of::<Mailbox>()))
            .transpose()?,
        habits: RefCell::default(),
        answered: Cell::default(),
        later: RefCell::default(),
        zone: claims.0.clone(),
        mapped: RefCell::new(vec![None; parts.len()]),
        serving: RefCell::default(),
        asked: Cell::new(0),
        is_leaving: Cell::new(false),
        parts,
        comm,
    };
    let own = window.comm.rank;
    let (owner, offset, len, shift) = match window.part(own).place {
        Place::Own => return Ok(window),
        Place::Zone(offset) => (own, offset, window.part(own).size, 0),
        Place::Block(offset, shift) => (0, offset, window.block_len(), shift),
    };
    // The own part of what others reach anyway: messages out of it go without the kernel.
    let home = hold.engine.channel.home().filter(|_| owner == own);
    let memory = Rc::new(match home.filter(|home| offset + len <= home.len()) {
        Some(home) => View::inside(home, offset),
        None => view(&segment, window.comm.group.world(owner), offset, len)?,
    });
    window.base = memory.base().wrapping_add(shift);
    window.mapped.borrow_mut()[owner as usize] = Some(memory);
    Ok(window)
}

/// Keeps a window, for others to be served in it; its number in the table of windows, `None` if that is full.
pub fn keep(state: &mut State, window: Window) -> Option<u32> {
    let window = Rc::new(window);
    let key = state.windows.insert(window.clone())?;
    if matches!(window.flavor, Flavor::Create | Flavor::Dynamic) && window.parts.len() > 1 {
        state.served.push(window);
    }
    Some(key)
}

/// Gives up what [`keep`] has kept.
pub fn forget(state: &mut State, key: u32) {
    let window = state.windows.remove(key);
    state
        .served
        .retain(|served| !window.as_ref().is_some_and(|window| Rc::ptr_eq(window, served)));
}

/// Waits until all members have called it and gives the window's memory back. Collective.
///
/// # Errors
/// `RmaSync`: an access or exposure is still open; those of what was kept.
pub fn free(hold: &mut Hold, window: &Window) -> Result<()> {
    window.epochs.borrow().check_idle()?;
    let outcome = later::end(hold, window, None);
    window.is_leaving.set(true);
    barrier(hold, &window.comm)?;
    Claims(window.zone.clone()).give_back(hold);
    outcome
}

/// What a process has taken of its own zone.
#[derive(Default)]
struct Claims(Vec<(usize, usize)>);

impl Claims {
    fn take(&mut self, state: &mut State, len: usize) -> u64 {
        match state.take_block(len) {
            Some(offset) => {
                self.0.push((offset, len));
                offset as u64
            }
            None => NOWHERE,
        }
    }

    fn give_back(self, state: &mut State) {
        self.0
            .into_iter()
            .for_each(|(offset, len)| state.give_block_back(offset, len));
    }
}

fn is_noncontiguous(info: &Info) -> bool {
    matches!(info.get(b"alloc_shared_noncontig"), Ok(Some(b"true")))
}

/// Attaches memory to a dynamic window. MPI-4.1 §12.2.4.
///
/// # Errors
/// `RmaFlavor`: the window is not dynamic; `RmaAttach`: the memory overlaps what is attached.
pub fn attach(window: &Window, base: usize, size: usize) -> Result<()> {
    dynamic(window)?;
    if size == 0 {
        window.attached_empty.borrow_mut().push(base);
        return Ok(());
    }
    let mut attached = window.attached.borrow_mut();
    let overlap = attached.range(..base.saturating_add(size)).next_back();
    if let Some((&other, &len)) = overlap
        && other.saturating_add(len) > base
    {
        fail!(
            RmaAttach,
            "{size} bytes at {base:#x} overlap the {len} bytes attached at {other:#x}"
        );
    }
    attached.insert(base, size);
    Ok(())
}

/// Takes attached memory back. MPI-4.1 §12.2.4.
///
/// # Errors
/// `RmaFlavor`: the window is not dynamic; `RmaAttach`: nothing is attached at `base`.
pub fn detach(window: &Window, base: usize) -> Result<()> {
    dynamic(window)?;
    if window.attached.borrow_mut().remove(&base).is_some() {
        return Ok(());
    }
    let mut empty = window.attached_empty.borrow_mut();
    match empty.iter().position(|&other| other == base) {
        Some(found) => drop(empty.swap_remove(found)),
        None => fail!(RmaAttach, "no memory is attached at {base:#x}"),
    }
    Ok(())
}

fn dynamic(window: &Window) -> Result<()> {
    match window.flavor {
        Flavor::Dynamic => Ok(()),
        _ => Err(Error::new(
            crate::mpi::error::Class::RmaFlavor,
            "memory is attached to dynamic windows only",
        )),
    }
}

pub(super) fn words(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

pub(super) fn numbers(bytes: &[u8]) -> Vec<u64> {
    let (words, _) = bytes.as_chunks::<8>();
    words.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}
