//! # Safety
//! Turns views of shared memory into control lines and addresses; relies on [`create`] to size them.
//!
//! One-sided communication (MPI-4.1 §12): windows of memory that others read and write.
//!
//! | module | owns |
//! |---|---|
//! | [`create`] | making windows: who shares what, and how it is found |
//! | [`epoch`] | fences, locks, post-start-complete-wait; who may access whom now |
//! | [`transfer`] | put and get |
//! | [`update`] | accumulates, which read, combine and write as one |
//! | [`short`] | all three for a few elements in mapped memory, without allocations |
//! | [`later`] | short puts, gets and accumulates that are kept until several go at once |
//! | [`list`] | where the bytes of an access lie that lie apart |
//! | [`habits`] | which way to such memory is quicker: asking its owner, or the kernel |
//! | [`mail`], [`listed`] | what a member that waits in MPI does for others, who ask it in its mailbox |
//! | [`serve`] | what a member does for others whose memory it cannot be reached in |
//!
//! Memory that a window allocates lies in the ranks' zones and is mapped where it is accessed: a put is a copy. Memory
//! that the program brought is accessed through the kernel (process_vm_writev); where the kernel refuses, its owner is
//! asked in a message and answers from inside any MPI call. All of it is over when the call returns, but for what is
//! kept for later; but for a lock nobody waits for anybody, and the target need not call MPI.
#![allow(unsafe_code)]

#[cfg(test)]
mod apart;
pub mod create;
pub mod epoch;
mod habits;
pub mod later;
mod list;
mod listed;
pub mod mail;
pub mod serve;
pub mod short;
#[cfg(test)]
mod tests;
pub mod transfer;
pub mod update;

use super::attr::Attributes;
use super::buffer::Buffer;
use super::comm::Comm;
use super::datatype::Datatype;
use super::errhandler::Errhandler;
use super::error::Result;
use super::info::Info;
use super::op::kernel::{Builtin, Kernel};
use super::world::{Hold, State};
use crate::channel::direct::There;
use crate::fail;
use crate::shm::mailbox::Mailbox;
use crate::shm::profile::Path;
use crate::shm::window::{Control, Told, WORDS, Word};
use crate::shm::zone::View;
use epoch::Epochs;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How a window's memory came to be: `MPI_WIN_FLAVOR_*` of the MPICH ABI (MPI-4.1 §12.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Flavor {
    Create = 1,
    Allocate = 2,
    Dynamic = 3,
    Shared = 4,
}

/// Mailboxes of a member.
const MAILBOXES: usize = 2;

/// A window.
#[derive(Debug)]
pub struct Window {
    /// Its members, in a communicator that only the library uses.
    pub comm: Rc<Comm>,
    /// How its memory came to be.
    pub flavor: Flavor,
    /// First byte of this process's part; null in a dynamic window.
    pub base: *mut u8,
    /// What happens to errors on it.
    pub errhandler: RefCell<Errhandler>,
    /// The name the program gave it.
    pub name: RefCell<String>,
    /// Hints.
    pub info: RefCell<Info>,
    /// Values cached under keys.
    pub attributes: Attributes,
    /// What predefined attributes point to.
    pub values: Values,
    /// Which accesses are open.
    pub epochs: RefCell<Epochs>,
    /// Of each member, whether it has been heard to say each word an odd number of times.
    heard: RefCell<Vec<[bool; WORDS]>>,
    /// The member that was last accessed on the short way, as long as nothing changes about open accesses.
    near: Cell<short::Near>,
    /// The last short update's operation, datatype and kernel.
    kernel: Cell<Option<(Builtin, i32, Kernel)>>,
    /// Counts synchronizations, one of so many of which serves others.
    synchronized: Cell<u32>,
    /// Memory attached to a dynamic window: first byte and length.
    pub attached: RefCell<BTreeMap<usize, usize>>,
    /// Where memory of no length was attached.
    pub attached_empty: RefCell<Vec<usize>>,
    parts: Vec<Part>,
    controls: View,
    /// Where each member is asked for its memory; `None` where all of it is mapped.
    mailboxes: Option<View>,
    /// What accesses to members that can be asked have taken.
    habits: RefCell<BTreeMap<u32, habits::Habits>>,
    /// A member has been answered since this process last accessed another's memory.
    answered: Cell<bool>,
    /// What is kept for members whose memory is not mapped here, until this process synchronizes.
    later: RefCell<BTreeMap<later::Whose, later::Later>>,
    /// Parts of this process's zone that go with the window.
    zone: Vec<(usize, usize)>,
    /// Other members' memory, as far as it has been mapped; what the program has brought of a home, which stays mapped, too.
    mapped: RefCell<Vec<Option<Rc<View>>>>,
    /// Requests of others that have not come whole yet.
    serving: RefCell<Vec<serve::Coming>>,
    asked: Cell<u32>,
    /// This process frees the window: as soon as member 0 is through with that, the mailboxes are somebody else's memory.
    is_leaving: Cell<bool>,
}

/// Size, displacement unit, flavour and model of this process's part, at addresses that last as long as the window.
#[derive(Debug)]
#[repr(C)]
#[allow(missing_docs)]
pub struct Values {
    pub size: i64,
    pub unit: i32,
    pub flavor: i32,
    pub model: i32,
}

/// One member's memory.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Where it lies in its owner's process.
    pub address: u64,
    /// Bytes in it.
    pub size: usize,
    /// Bytes by which displacements count.
    pub unit: usize,
    place: Place,
}

/// Where a part can be seen by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In its owner's memory only.
    Own,
    /// In the zone of its owner, from this offset on.
    Zone(usize),
    /// So many bytes behind the start of the one block of all, in the zone of member 0 from this offset on.
    Block(usize, usize),
}

/// How this process reaches a member's part: each with the address of its first byte.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// It is mapped here.
    Here(*mut u8),
    /// Through the kernel, in the process of this number.
    Process(i32, u64),
    /// By asking its owner.
    Served(u64),
}

/// What an operation accesses at its target.
#[derive(Clone, Debug)]
pub struct Target {
    /// Member.
    pub rank: u32,
    /// Displacement, in the target's units.
    pub disp: i64,
    /// Number of elements.
    pub count: usize,
    /// Their datatype.
    pub datatype: Rc<Datatype>,
}

impl Target {
    /// Bytes of data.
    pub fn len(&self) -> usize {
        self.count * self.datatype.size()
    }

    /// Its lowest byte and the one behind its highest, from its first element's address.
    fn span(&self) -> (i128, i128) {
        let datatype = &self.datatype;
        let last = (self.count as i128 - 1) * datatype.extent() as i128;
        let (low, len) = (i128::from(datatype.true_lb() as i64), datatype.true_extent() as i128);
        (low + last.min(0), low + len + last.max(0))
    }

    /// Whether nothing is accessed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Window {
    /// The memory of member `rank`.
    pub fn part(&self, rank: u32) -> &Part {
        &self.parts[rank as usize]
    }

    /// Member `rank`'s control line.
    fn control(&self, rank: u32) -> &Control {
        assert!((rank as usize) < self.parts.len());
        // SAFETY: the view holds a line for each member, all atomics, for which zero bytes are valid.
        unsafe { &*self.controls.base().cast::<Control>().add(rank as usize) }
    }

    /// What member `rank` is told by member `from`, and the place of that member in it.
    fn told(&self, rank: u32, from: u32) -> (&Told, usize) {
        let (members, rank, from) = (self.parts.len(), rank as usize, from as usize);
        assert!(rank < members && from < members);
        let index = rank * create::told_by(members) + from / Told::MEMBERS;
        // SAFETY: behind the members' lines the view holds so many for each, all atomics, for which zero bytes are valid.
        let told = unsafe {
            &*self
                .controls
                .base()
                .cast::<Control>()
                .add(members)
                .cast::<Told>()
                .add(index)
        };
        (told, from % Told::MEMBERS)
    }

    /// Whether member `from` has told this one `word` since it was heard to do so.
    fn is_told(&self, from: u32, word: Word) -> bool {
        let (told, place) = self.told(self.comm.rank, from);
        told.is_odd(place, word) != self.heard.borrow()[from as usize][word as usize]
    }

    /// Member `from` was heard to say `word`: from now on it is for the next time.
    fn hear(&self, from: u32, word: Word) {
        self.heard.borrow_mut()[from as usize][word as usize] ^= true;
    }

    /// Where member `rank` is asked for its memory; `None` where all is mapped, or from now on nobody is asked.
    fn mailboxes(&self, rank: u32) -> Option<&[Mailbox]> {
        assert!((rank as usize) < self.parts.len());
        let first = self
            .mailboxes
            .as_ref()
            .filter(|_| !self.is_leaving.get())?
            .base()
            .cast::<Mailbox>();
        // SAFETY: the view holds so many for each member, of atomics, for which zero bytes are valid, and cells.
        Some(unsafe { std::slice::from_raw_parts(first.add(rank as usize * MAILBOXES), MAILBOXES) })
    }

    /// First byte of member `rank`'s part as this process sees it; `None` where it does not see it.
    ///
    /// # Errors
    /// `NoMem`: it could not be mapped.
    pub fn mapped(&self, state: &State, rank: u32) -> Result<Option<*mut u8>> {
        let part = self.part(rank);
        if rank == self.comm.rank {
            return Ok(Some(self.base));
        }
        let (owner, offset, len, shift) = match part.place {
            Place::Own => return Ok(None),
            Place::Zone(offset) => (rank, offset, part.size, 0),
            Place::Block(offset, shift) => (0, offset, self.block_len(), shift),
        };
        let mut mapped = self.mapped.borrow_mut();
        let view = match &mapped[owner as usize] {
            Some(view) => view,
            None => {
                let segment = state.engine.channel.segment();
                let view = create::view(segment, self.comm.group.world(owner), offset, len)?;
                mapped[owner as usize].insert(Rc::new(view))
            }
        };
        Ok(Some(view.base().wrapping_add(shift)))
    }

    fn block_len(&self) -> usize {
        self.parts.iter().map(|part| part.size).sum()
    }

    /// How this process reaches `target`, which is not empty.
    fn way(&self, state: &mut State, target: &Target) -> Result<Way> {
        let rank = target.rank;
        if let Some(base) = self.mapped(state, rank)? {
            return Ok(Way::Here(base));
        }
        if let Some(view) = &self.mapped.borrow()[rank as usize] {
            return Ok(Way::Here(view.base())); // of its owner's home
        }
        let part = self.part(rank);
        let peer = self.comm.group.world(rank);
        let is_dynamic = self.flavor == Flavor::Dynamic;
        // Attached memory may lie anywhere: the target alone is looked for, and told from where addresses begin.
        let (from, len) = if is_dynamic {
            let (low, high) = target.span();
            ((i128::from(target.disp) + low) as u64, (high - low) as usize)
        } else {
            (part.address, part.size)
        };
        Ok(match state.engine.channel.reach_memory(peer, from, len) {
            Some(There::Mapped(at)) if is_dynamic => Way::Here(at.wrapping_sub(from as usize)),
            Some(There::Mapped(base)) => {
                let first = base as usize;
                let view = View::inside(first..first + len, 0);
                self.mapped.borrow_mut()[rank as usize] = Some(Rc::new(view));
                Way::Here(base)
            }
            Some(There::Process(pid, _)) => Way::Process(pid, part.address),
            None => Way::Served(part.address),
        })
    }

    /// Counts for a profile what an operation moves to member `rank` and back: `way`, or as one copy if the member was asked in its
    /// mailbox. The messages that a served operation is made of count themselves.
    #[inline]
    fn count(&self, state: &State, (way, asked): (Way, bool), rank: u32, there: usize, back: usize) {
        let path = match way {
            _ if asked => Path::OneCopy,
            Way::Here(_) => Path::Mapped,
            Way::Process(..) => Path::OneCopy,
            Way::Served(_) => return,
        };
        let peer = self.comm.group.world(rank);
        state.engine.channel.count_one_sided(path, peer, there, back);
    }

    /// Distance of the target's first element from the first byte of the member's part.
    ///
    /// # Errors
    /// `Disp`: it is negative; `RmaRange`: the target does not lie within the part.
    fn locate(&self, target: &Target) -> Result<isize> {
        let (part, Target { rank, disp, .. }) = (self.part(target.rank), target);
        if self.flavor == Flavor::Dynamic {
            let (low, high) = target.span();
            let first = i128::from(*disp) + low;
            // What others have attached they know, or the kernel; between gaps there may be what is not attached.
            if *rank == self.comm.rank
                && !target.is_empty()
                && target.datatype.is_contiguous()
                && !u64::try_from(first).is_ok_and(|first| serve::exposed(self, first, (high - low) as usize))
            {
                fail!(
                    RmaRange,
                    "the {} bytes at {first:#x} are not attached to the window",
                    high - low
                );
            }
            return Ok(*disp as isize);
        }
        if *disp < 0 {
            fail!(Disp, "the target displacement is {disp} but must not be negative");
        }
        let first = i128::from(*disp) * part.unit as i128;
        if !target.is_empty() {
            let (low, high) = target.span();
            let (low, high) = (first + low, first + high);
            if low < 0 || high > part.size as i128 {
                fail!(
                    RmaRange,
                    "bytes {low} to {high} at displacement {disp} are not within the {} bytes of rank {rank}'s window",
                    part.size
                );
            }
        }
        Ok(first as isize)
    }
}

/// The target as memory of this process, whose part's first byte is `base`.
fn buffer_at(base: *mut u8, offset: isize, target: &Target) -> Buffer {
    Buffer::typed(base.wrapping_offset(offset), target.count, &target.datatype)
}

/// Wakes the members of `window` that sleep.
fn wake(hold: &Hold, window: &Window) {
    let comm = &window.comm;
    (0..comm.size())
        .filter(|&rank| rank != comm.rank)
        .for_each(|rank| hold.engine.channel.wake(comm.group.world(rank)));
    hold.wake_threads();
}
