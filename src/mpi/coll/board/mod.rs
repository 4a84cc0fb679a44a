//! # Safety
//! Reads what other ranks show for as long as this rank has not said that it is through with the
//! turn; writes only into slots and scratch memory that all members are through with.
//!
//! Collective operations without messages: each member shows what it has on its board, and whoever
//! needs it looks (`shm::board` has the picture and the rules). One line changes hands per rank that
//! is looked at, nothing is matched, and nobody forwards anything: with more ranks than CPUs each rank
//! has to run only once.
//!
//! An operation takes a *turn* of the communicator (a long one several): it shows, sees what it waits
//! for, and finishes. Nonblocking operations have boards and turns of their own ([`started`]), and so has each persistent one
//! ([`kept`]). The longest of them run as schedules.
//!
//! | module | owns |
//! |---|---|
//! | [`blocks`] | a block for each of the others |
//! | [`crowd`] | whose turn it is on a CPU that ranks share |
//! | [`cut`] | how nonblocking operations go in pieces |
//! | [`doubling`] | exchanges at doubling distances |
//! | [`desk`] | scratch memory that is still being read, and where the next lies; what threads wait for |
//! | [`far`] | what is too long to be shown: one copy out of its owner's memory |
//! | [`handed`] | reductions that go from rank to rank |
//! | [`kept`] | persistent operations |
//! | [`learnt`] | whether long data are shown or offered, where that is learnt |
//! | [`lent`] | what is shown where it lies |
//! | [`moves`] | operations that move data |
//! | [`passed`] | memory that two ranks pass to each other in nonblocking operations |
//! | [`reductions`] | operations that compute |
//! | [`rows`] | short operations that move data, of bytes in rows |
//! | [`shares`] | reductions of which each rank does a share |
//! | [`sheet`] | how what is shown is written |
//! | [`started`] | nonblocking operations |
//! | [`stray`] | members that are in another call |
//! | [`swap`] | what is too long for a slot, where two ranks show each other something |
//! | [`tray`] | what is too long for a slot |
//! | [`varying`] | blocks of lengths that not all know, in pieces |
//! | [`view`] | what a reader sees of another rank |
//! | [`waits`] | when others show a turn, and are through with it |
//! | [`long`], [`long_reductions`] | the same for long data, and for lengths that not all ranks know |
#![allow(unsafe_code)]

mod blocks;
mod crowd;
mod cut;
pub mod desk;
pub mod doubling;
pub mod far;
pub mod handed;
pub mod kept;
pub mod learnt;
mod lent;
pub mod long;
pub mod long_reductions;
pub mod moves;
mod passed;
pub mod reductions;
pub mod rows;
pub mod shares;
mod sheet;
pub mod started;
pub mod started_short;
#[cfg(test)]
mod started_tests;
mod stray;
mod swap;
#[cfg(test)]
mod tests;
mod tray;
pub mod varying;
mod view;
pub mod waits;

use super::choice::Table;
use super::signature::{self, Signature};
use super::tag_of;
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::comm::Comm;
use crate::mpi::error::fault;
use crate::mpi::error::{Class, Error, Result};
use crate::mpi::world::Hold;
use crate::shm::board::{Board, INLINE, Note, Place, REACH, ROOM, SLOTS, SWAP, Trays, room};
use crate::shm::layout::second;
use crate::shm::profile::Path;
use crate::shm::segment::Segment;
use crate::shm::stores::Stores;
use crate::shm::sync::Ordering;
use crate::sys::clock::Ticks;
use crate::sys::cpu;
use crate::sys::selection::Operation;
use desk::Room;
use learnt::Learnt;
use passed::Areas;
use sheet::Sheet;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
pub use stray::check_end;
use swap::Swaps;
pub use view::View;

/// Ranks of which each goes round in its scratch memory, if it does: what more of them show does not stay in the shared cache.
const ROUND_RANKS: u32 = 4;
/// Looks at a board alone before the queues are looked at in between.
const GLANCES: u32 = 128;
/// Bytes of an entry that says where data lie: an address or offset, and a number of bytes.
const ENTRY: usize = 16;
/// Bytes that lie in the line of a slot's or a tray's head.
const BESIDE_HEAD: usize = 48;
/// Why a rank may have another number of bytes than expected.
const DIFFER: &str = "counts or datatypes differ between the ranks of the collective operation";
/// Most bytes shown at a time: what all slots of a communicator show leaves room for others.
pub const MOST: usize = 64 << 10;
/// Most bytes of data that are shown in a turn whose others show as much.
pub const AT_ONCE: usize = 256 << 10;
/// The same with tables of where they lie: the next turn's have room beside them.
pub const LONGEST: usize = ROOM.0 / 2;

/// The boards of a communicator's members.
#[derive(Debug)]
pub struct Boards {
    /// Turns in earlier lives of the context.
    before: u64,
    me: usize,
    members: Vec<Member>,
    /// A turn that all members are known to be through with.
    through: Cell<u64>,
    /// The turn that each of my slots shows.
    shown: [Cell<u64>; SLOTS],
    /// Of nonblocking operations: what is too long for a slot.
    room: Option<RefCell<Room>>,
    /// ... how many bytes are shown in a turn at most, and whether longer operations go in pieces.
    cut: (usize, bool),
    /// ... what two members pass to each other, if they do.
    areas: Option<Areas>,
    /// The turn that shows next: what is not shown yet keeps its slot.
    next: Cell<u64>,
    /// Who is waited for behind barriers.
    lead: crowd::Lead,
    /// All turns up to this one are over here.
    over: Cell<u64>,
    /// Later ones that are over.
    early: RefCell<Vec<u64>>,
    /// The last turn in which this rank has lent something since the call began, and its tag.
    lent: Cell<Option<(u64, i32)>>,
    /// Copies of what others lend, where this rank cannot map it, until the call is over.
    borrowed: RefCell<Vec<Vec<u8>>>,
    /// Bytes from which it does.
    lend_min: usize,
    /// The memory of all this.
    segment: Arc<Segment>,
    /// Its context, if what is too long for a slot lies in trays.
    trays: Option<u16>,
    /// Which way operations go.
    pub table: Table,
    /// What has been learnt about showing and offering.
    learnt: Learnt,
    /// What two members swap, if they do.
    swaps: Option<Swaps>,
    /// Bytes from which what is shown may go past this rank's caches, and how it goes.
    stream_min: usize,
    stores: RefCell<Stores>,
    /// Bytes up to which what is shown leaves this rank's own caches.
    demote_max: usize,
}

#[derive(Debug)]
struct Member {
    board: Place<Board>,
    scratch: Place<u8>,
    trays: Place<Trays>,
    /// Rank in the job.
    world: u32,
}

/// Where an operation takes place.
#[derive(Clone, Copy)]
pub struct Where<'a> {
    /// On which communicator.
    pub comm: &'a Rc<Comm>,
    /// Its boards.
    pub boards: &'a Rc<Boards>,
    /// What the call says of itself.
    pub signature: Signature,
    /// Bytes up to which data are shown rather than offered, and shown at a time where they go in pieces.
    pub near: usize,
    /// What is learnt from the turn, if it is learnt whether data are shown or offered.
    pub learns: Option<Learns>,
}

/// What a turn is to be remembered as.
#[derive(Clone, Copy)]
pub struct Learns {
    /// The operation.
    pub what: Operation,
    /// Its bytes.
    pub len: usize,
    /// Whether to take the time of showing them.
    pub timed: bool,
}

impl<'a> Where<'a> {
    /// On `comm`, by its `boards`, with `near` bytes shown at a time; nothing is learnt.
    #[inline]
    pub fn new(comm: &'a Rc<Comm>, boards: &'a Rc<Boards>, signature: Signature, near: usize) -> Where<'a> {
        Where {
            comm,
            boards,
            signature,
            near,
            learns: None,
        }
    }

    /// The next turn.
    #[inline]
    pub fn turn(&self) -> Turn<'a> {
        Turn::begin(self.comm, self.boards, self.signature)
    }

    /// For `len` bytes that some show and others take.
    #[inline]
    pub fn passing(self, len: usize) -> Where<'a> {
        let near = self.boards.table.piece(len);
        Where { near, ..self }
    }

    /// For pieces that each hands on.
    pub fn linked(self) -> Where<'a> {
        let near = self.boards.table.link;
        Where { near, ..self }
    }

    /// For `len` bytes that some show and others take by one copy or two, as the one that has them has learnt.
    pub fn once(self, what: Operation, len: usize) -> Where<'a> {
        let learns = Some(Learns {
            what,
            len,
            timed: false,
        });
        Where { learns, ..self }
    }

    /// The other ranks, from the one behind this one on.
    pub fn others(&self) -> impl Iterator<Item = u32> + Clone + use<> {
        self.comm.others()
    }
}

/// One turn of this rank.
pub struct Turn<'a> {
    comm: &'a Rc<Comm>,
    boards: &'a Rc<Boards>,
    number: u64,
    tag: i32,
    /// Which of what two ranks swap this one writes, if they do in this turn.
    swap: Option<usize>,
    /// What it shows may lie in memory that it passes on.
    passes: bool,
}

/// The boards of `comm`, if it uses them: intracommunicators of up to `NEARMPI_BOARD_RANKS` ranks, the first
/// [`BOARDED`](crate::shm::layout::BOARDED) contexts.
#[inline]
pub fn of<'a>(hold: &Hold, comm: &'a Comm) -> Option<&'a Rc<Boards>> {
    comm.boards
        .get_or_init(|| Boards::open(hold, comm, comm.context.number(), false))
        .as_ref()
}

/// As [`of`], for nonblocking operations, with `NEARMPI_BOARD_STARTED`: the first
/// [`STARTED`](crate::shm::board::STARTED) contexts.
#[inline]
pub fn of_started<'a>(hold: &Hold, comm: &'a Comm) -> Option<&'a Rc<Boards>> {
    comm.started_boards
        .get_or_init(|| Boards::open(hold, comm, comm.context.number(), true))
        .as_ref()
}

impl Boards {
    /// Whether the members of `comm` may use boards, those for what is started if `started`; all know it alike.
    fn may_open(hold: &Hold, comm: &Comm, started: bool) -> bool {
        let settings = hold.engine.channel.settings();
        let few = u64::from(comm.size()) <= settings.board_ranks;
        !comm.is_inter() && few && (!started || settings.board_started > 0)
    }

    /// The boards of `context`, which is that of `comm` or of a persistent operation on it.
    #[cold]
    fn open(hold: &Hold, comm: &Comm, context: u16, started: bool) -> Option<Rc<Boards>> {
        if !Boards::may_open(hold, comm, started) {
            return None;
        }
        let channel = &hold.engine.channel;
        let (settings, segment) = (channel.settings(), channel.segment());
        let table = Table::new(settings, segment.crowd(), comm.size() as usize);
        let mut room = second(context.into()).filter(|_| started).map(room);
        let cut = cut::bounds(&table, room.map_or(0, |(_, bytes)| bytes));
        let areas = room.and_then(|room| Areas::open(hold, comm, room));
        if let (Some((_, bytes)), Some(_)) = (&mut room, &areas) {
            *bytes /= 2;
        }
        let member = |&world: &u32| {
            Some(Member {
                board: segment.board(world, context, started)?,
                scratch: segment.scratch(world),
                trays: segment.scratch(world).trays(),
                world,
            })
        };
        // Two ranks gain nothing by it.
        let round = match (3..=ROUND_RANKS).contains(&comm.size()) {
            true => settings.board_round as usize,
            false => 0,
        };
        let before = segment.turns_before(context);
        Some(Rc::new(Boards {
            before,
            me: comm.rank as usize,
            members: comm.group.members.iter().map(member).collect::<Option<_>>()?,
            through: Cell::new(before),
            shown: Default::default(),
            room: room.map(|place| RefCell::new(Room::new(place, round))),
            cut,
            areas,
            next: Cell::new(before + 1),
            lead: Default::default(),
            over: Cell::new(before),
            early: RefCell::default(),
            lent: Cell::new(None),
            borrowed: RefCell::default(),
            lend_min: match settings.board_lend {
                // Of more ranks each waits for more.
                least if least > 0 && !started && !segment.oversubscribed() => {
                    (least as usize * comm.size().saturating_sub(1).clamp(1, 2) as usize).max(8)
                }
                _ => usize::MAX,
            },
            segment: segment.clone(),
            trays: (!started && settings.board_trays != 0).then_some(context),
            table,
            learnt: Learnt::default(),
            swaps: if started { None } else { Swaps::open(hold, comm) },
            stream_min: match settings.stream_min {
                0 => usize::MAX,
                least => least as usize,
            },
            stores: RefCell::new(Stores::new(settings.stream_min, Ticks::best())),
            demote_max: settings.demote_max.saturating_mul(2) as usize,
        }))
    }
}

impl<'a> Turn<'a> {
    /// The next turn of `comm`, for a call that all members describe by the same signature.
    #[inline]
    pub fn begin(comm: &'a Rc<Comm>, boards: &'a Rc<Boards>, signature: Signature) -> Turn<'a> {
        let turn = comm.context.take_turn();
        Turn {
            comm,
            boards,
            number: boards.before + turn + 1,
            tag: signature.tag(tag_of(turn)),
            swap: None,
            passes: false,
        }
    }

    /// Members of the communicator.
    #[inline]
    pub fn size(&self) -> u32 {
        self.boards.members.len() as u32
    }

    /// Shows `buffer`, of up to [`MOST`] bytes, to the other members.
    ///
    /// # Errors
    /// What makes progress impossible.
    pub fn show(&self, hold: &mut Hold, buffer: &Buffer) -> Result<()> {
        self.put_buffer(hold, buffer)?;
        self.ring(hold);
        Ok(())
    }

    /// Shows `len` bytes that `fill` writes.
    ///
    /// # Errors
    /// As [`Turn::show`].
    #[inline]
    pub fn show_with(&self, hold: &mut Hold, len: usize, fill: impl FnOnce(&mut Sheet)) -> Result<()> {
        self.show_marked(hold, len, false, fill)
    }

    /// As [`Turn::show_with`], and ends the turn, for a rank that looks at nobody: who sleeps is woken once for both.
    ///
    /// # Errors
    /// As [`Turn::show`].
    #[inline]
    pub fn show_and_finish(&self, hold: &mut Hold, len: usize, fill: impl FnOnce(&mut Sheet)) -> Result<()> {
        self.put(hold, len, false, fill)?;
        self.finish(hold);
        Ok(())
    }

    #[inline]
    fn show_marked(&self, hold: &mut Hold, len: usize, far: bool, fill: impl FnOnce(&mut Sheet)) -> Result<()> {
        self.put(hold, len, far, fill)?;
        self.ring(hold);
        Ok(())
    }

    /// Waits until nobody reads what this rank's slot of the turn showed before.
    #[inline]
    fn free_slot(&self, hold: &mut Hold) -> Result<()> {
        let boards = self.boards;
        let shown = boards.shown[self.number as usize % SLOTS].get();
        if shown > boards.through() {
            boards.look_through();
            if shown > boards.through() {
                boards.wait_through(hold, shown, self.comm, self.tag)?;
            }
        }
        Ok(())
    }

    /// Shows; wakes nobody yet.
    #[inline]
    fn put(&self, hold: &mut Hold, len: usize, far: bool, fill: impl FnOnce(&mut Sheet)) -> Result<()> {
        let boards = self.boards;
        let slot = boards.members[boards.me].board.slot(self.number);
        self.free_slot(hold)?;
        boards.shown[self.number as usize % SLOTS].set(self.number);
        let note = Note {
            tag: self.tag,
            len: len as u32,
            far,
        };
        let mine = &boards.members[boards.me];
        let mut stores = None;
        let mut read_by_others = || stores = (len >= boards.stream_min).then(|| boards.stores.borrow_mut());
        let (room, head, place) = if len <= INLINE {
            (slot.payload(), None, None)
        } else if let Some((swap, mark)) = self.swapped(boards.me).filter(|_| len <= SWAP) {
            (swap.payload(), Some((swap.head(), mark)), self.swapped_place())
        } else if let Some((head, payload, mark)) = self.tray(hold, len) {
            read_by_others();
            let place = (payload.addr() - mine.scratch.address().addr()) as u64;
            (payload, Some((head, mark)), Some(place))
        } else {
            let (payload, place, at_hand) = self.room(hold, len)?;
            if !at_hand {
                read_by_others();
            }
            (payload, None, Some(place))
        };
        fill(&mut Sheet { room, stores });
        // What lies in the head's own line changes hands with it.
        if len > BESIDE_HEAD && len <= boards.demote_max {
            cpu::hand_over(room.wrapping_add(BESIDE_HEAD), len - BESIDE_HEAD);
        }
        if let Some((head, mark)) = head {
            head.show(mark, note);
        }
        // Readers of what the head shows look here too: it is written last.
        if let Some(place) = place {
            slot.set_place(place);
        }
        slot.show(self.number, note);
        Ok(())
    }

    /// Counts `bytes` bytes that this rank takes from what `from` shows, for the profile.
    #[inline]
    pub fn count(&self, hold: &Hold, from: u32, bytes: usize) {
        if from != self.comm.rank {
            let world = self.boards.members[from as usize].world;
            hold.engine.channel.count_seen(Path::Collective, world, bytes);
        }
    }

    /// Waits for what `from` shows, of `len` bytes (or any number).
    ///
    /// # Errors
    /// `Other`: it is in another call, or shows another number of bytes; junk in shared memory.
    pub fn see(&self, hold: &mut Hold, from: u32, len: Option<usize>) -> Result<View> {
        let member = &self.boards.members[from as usize];
        if let Some(view) = len.and_then(|len| self.glance(from, len)) {
            return Ok(view);
        }
        let slot = member.board.slot(self.number);
        if slot.turn().load(Ordering::Acquire) < self.number {
            let who = (&**self.comm, self.tag);
            self.boards.wait_for(hold, from as usize, self.number, false, who)?;
        }
        let note = slot.note();
        let shown = note.len as usize;
        if signature::differ(self.tag, note.tag) {
            let text = signature::complaint(self.tag, from as i32, note.tag);
            return Err(Error::new(Class::Other, text));
        }
        let junk = || {
            let from = member.world;
            Err(fault(crate::channel::Fault { from }))
        };
        let data = if shown <= INLINE {
            slot.payload().cast_const()
        } else {
            let (place, whose) = slot.place();
            let place = place as usize;
            if place > REACH || shown > REACH - place {
                return junk();
            }
            let Some(owner) = self.boards.members.get(whose.unwrap_or(from as usize)) else {
                return junk();
            };
            if whose.is_some() && whose == self.swap && from as usize != self.boards.me {
                fail!(
                    Other,
                    "rank {from} has not been in the same collective operations before this one"
                );
            }
            owner.scratch.address().wrapping_add(place).cast_const()
        };
        let mut view = View {
            data,
            len: shown,
            far: None,
            lent: None,
            from,
        };
        if note.far && shown == lent::LENT {
            view = self.borrow(hold, view)?;
        } else if note.far {
            let entry = if shown == ENTRY { 0 } else { self.boards.me * ENTRY };
            if shown < entry + ENTRY {
                return junk();
            }
            (view.far, view.len) = (Some(view.word(entry)), view.word(entry + 8) as usize);
        }
        if let Some(len) = len.filter(|&len| len != view.len) {
            return Err(view.differs(len));
        }
        Ok(view)
    }

    /// As [`Turn::see`], of `len` bytes or of the `shorter` ones.
    ///
    /// # Errors
    /// As [`Turn::see`].
    pub fn see_either(&self, hold: &mut Hold, from: u32, len: usize, shorter: usize) -> Result<View> {
        let view = self.see(hold, from, None)?;
        if view.len == shorter {
            return Ok(view);
        }
        self.see(hold, from, Some(len))
    }

    /// All members have been seen in this turn: they are through with those before.
    #[inline]
    pub fn seen_all(&self) {
        self.seen_all_but(0);
    }

    /// As [`Turn::seen_all`], of members that may have shown this turn while they were not through with so many before.
    #[inline]
    pub fn seen_all_but(&self, ahead: u64) {
        let through = &self.boards.through;
        through.set(through.get().max(self.number - 1 - ahead));
    }

    /// Ends the turn: what others show in it is not read any more.
    #[inline]
    pub fn finish(&self, hold: &Hold) {
        self.pass();
        self.ring(hold);
    }

    #[inline]
    fn ring(&self, hold: &Hold) {
        self.boards.ring(hold);
    }
}
