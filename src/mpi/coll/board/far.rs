//! # Safety
//! Reads other ranks' memory through the kernel's checks, into memory of the program or of ours that
//! has room for as much.
//!
//! What is too long to be shown stays where it is: its owner shows addresses, and whoever wants the
//! bytes copies them once (process_vm_readv). The owner then waits until everybody is through with the
//! turn. A rank that cannot read another's memory says so (`need`), is through with the turn and gets
//! everything by messages; before it waits for them it serves those who read from it, so that ranks which
//! the kernel refuses each other's memory do not wait for each other.
#![allow(unsafe_code)]

use super::{DIFFER, Turn, View};
use crate::channel::Fault;
use crate::channel::direct::There;
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::args::BlockOf;
use crate::mpi::comm::Plane;
use crate::mpi::error::Result;
use crate::mpi::error::fault;
use crate::mpi::pt2pt::{self, Mode};
use crate::mpi::request::RequestKey;
use crate::mpi::world::Hold;
use crate::shm::board::Verdict;
use crate::shm::profile::Path;
use crate::shm::sync::Ordering;
use crate::sys::{clock, copy};
use std::cell::Cell;

/// Bytes copied at a time where they go on from there through the cache.
pub const BLOCK: usize = 64 << 10;

/// Everything that a reader sees.
pub const WHOLE: (usize, usize) = (0, usize::MAX);
/// Where bytes lie that come by message.
pub const SENT: u64 = 0;

/// Bytes of this rank that others may copy, until the turn has been served.
pub struct Offer {
    /// One piece for all, or one for each rank.
    pieces: Vec<Buffer>,
    /// Packed data that pieces point into.
    _packed: Vec<u8>,
    /// Who reads, and which bytes `(first, len)` of what it sees.
    readers: Vec<(u32, (usize, usize))>,
    served: Cell<bool>,
}

/// Where a rank's bytes are and which of them are wanted.
struct Source {
    view: View,
    wanted: (usize, usize),
    /// Its bytes, when they had to come by a message or to be kept.
    kept: Option<Vec<u8>>,
}

/// What other ranks show or offer in a turn, as far as this rank wants it.
pub struct Reader<'t, 'a> {
    turn: &'t Turn<'a>,
    sources: Vec<Option<Source>>,
    /// What this rank offers in the turn.
    offer: Option<&'t Offer>,
    /// What there is to say of the bytes that were offered, if their owners want to know it.
    verdict: Option<Verdict>,
    judges: bool,
    /// Nanoseconds and bytes of what was read of what others show, if that is timed.
    timed: Option<(u64, usize)>,
}

impl Offer {
    fn new(pieces: Vec<Buffer>, packed: Vec<u8>, readers: impl Iterator<Item = (u32, (usize, usize))>) -> Offer {
        Offer {
            pieces,
            _packed: packed,
            readers: readers.collect(),
            served: Cell::new(false),
        }
    }

    /// The same bytes for all, of which each reader reads some; data with gaps are packed.
    pub fn whole(buffer: &Buffer, readers: impl Iterator<Item = (u32, (usize, usize))>) -> Offer {
        let mut packed = Vec::new();
        Offer::new(vec![in_a_row(buffer, &mut packed)], packed, readers)
    }

    /// `len` bytes that come by message: a place at [`SENT`].
    pub fn sent(len: usize) -> Offer {
        let nowhere = Buffer::bytes(std::ptr::null_mut(), len);
        Offer::new(vec![nowhere], Vec::new(), std::iter::empty())
    }

    /// A block for each of `ranks` ranks, read by all `others`; packed if they have gaps, or if `copied`.
    pub fn blocks(blocks: BlockOf, ranks: u32, copied: bool, others: impl Iterator<Item = u32>) -> Offer {
        let pieces: Vec<Buffer> = (0..ranks).map(blocks).collect();
        let readers = others.map(|rank| (rank, WHOLE));
        if !copied && pieces.iter().all(Buffer::is_in_a_row) {
            return Offer::new(pieces, Vec::new(), readers);
        }
        let mut packed = vec![0; pieces.iter().map(Buffer::len).sum()];
        let mut room = packed.as_mut_ptr();
        let pack = |piece: &Buffer| {
            let copy = Buffer::bytes(room, piece.len());
            // SAFETY: the vector has room for all pieces one after the other.
            unsafe { piece.pack(0, room, piece.len()) };
            room = room.wrapping_add(piece.len());
            copy
        };
        let pieces = pieces.iter().map(pack).collect();
        Offer::new(pieces, packed, readers)
    }

    /// Who reads.
    pub fn readers(&self) -> impl Iterator<Item = u32> {
        self.readers.iter().map(|&(rank, _)| rank)
    }

    /// Bytes `(first, len)` of what `rank` sees.
    fn portion(&self, rank: u32, (first, len): (usize, usize)) -> Buffer {
        let piece = self.pieces.get(rank as usize).unwrap_or(&self.pieces[0]);
        let first = first.min(piece.len());
        Buffer::bytes(piece.address.wrapping_add(first), len.min(piece.len() - first))
    }
}

/// `buffer`, or a packed copy of it.
fn in_a_row(buffer: &Buffer, packed: &mut Vec<u8>) -> Buffer {
    if buffer.is_in_a_row() {
        return buffer.clone();
    }
    packed.resize(buffer.len(), 0);
    // SAFETY: the vector has the buffer's length.
    unsafe { buffer.pack(0, packed.as_mut_ptr(), packed.len()) };
    Buffer::bytes(packed.as_mut_ptr(), packed.len())
}

impl<'a> Turn<'a> {
    /// Shows where the bytes of `offer` lie.
    ///
    /// # Errors
    /// As [`Turn::show`].
    pub fn offer(&self, hold: &mut Hold, offer: &Offer) -> Result<()> {
        let entries = offer
            .pieces
            .iter()
            .flat_map(|piece| [piece.address as u64, piece.len() as u64]);
        let entries: Vec<u8> = entries.flat_map(u64::to_ne_bytes).collect();
        hold.tell_awake();
        self.show_marked(hold, entries.len(), true, |sheet| {
            // SAFETY: the sheet is made for the entries.
            unsafe { copy::many(entries.as_ptr(), sheet.room(), entries.len()) };
        })
    }

    /// Ends the turn and waits until the readers of `offer` are through with it too, or get what they want by
    /// messages: the requests of those.
    ///
    /// # Errors
    /// What makes progress impossible.
    pub(super) fn serve(&self, hold: &mut Hold, offer: &Offer) -> Result<Vec<RequestKey>> {
        self.finish(hold);
        let mut requests = Vec::new();
        if offer.served.replace(true) {
            return Ok(requests);
        }
        for &(rank, portion) in offer
            .readers
            .iter()
            .filter(|&&(rank, _)| rank as usize != self.boards.me)
        {
            let who = (&**self.comm, self.tag);
            self.boards.wait_for(hold, rank as usize, self.number, true, who)?;
            if self.boards.members[rank as usize].board.need().load(Ordering::Relaxed) == self.number {
                let buffer = offer.portion(rank, portion);
                let (comm, plane) = (self.comm, Plane::Collective);
                requests.push(pt2pt::isend(hold, comm, plane, buffer, rank, self.tag, Mode::Standard)?);
            }
        }
        Ok(requests)
    }

    /// Ends the turn, in which `offer` may have been made and others must have read it, after `outcome`; the first
    /// error counts.
    ///
    /// # Errors
    /// What makes progress impossible.
    pub fn end(&self, hold: &mut Hold, outcome: Result<()>, offer: Option<&Offer>) -> Result<()> {
        let served = match offer {
            Some(offer) => self.serve(hold, offer),
            None => {
                self.finish(hold);
                Ok(Vec::new())
            }
        };
        outcome.and(served.and_then(|requests| wait_all(hold, requests)))
    }
}

impl Turn<'_> {
    /// What a rank shows or offers for this one: where it is `tabled`, its block.
    ///
    /// # Errors
    /// Junk in shared memory.
    pub(super) fn own_of(&self, view: View, tabled: bool) -> Result<View> {
        if !tabled {
            return Ok(view);
        }
        let from = self.boards.members[view.from as usize].world;
        view.block(self.boards.me).ok_or_else(|| fault(Fault { from }))
    }
}

/// Waits for what is sent because others cannot read it.
///
/// # Errors
/// What makes progress impossible.
pub(super) fn wait_all(hold: &mut Hold, requests: Vec<RequestKey>) -> Result<()> {
    requests
        .into_iter()
        .try_for_each(|request| pt2pt::wait(hold, request).map(drop))
}

impl<'t, 'a> Reader<'t, 'a> {
    /// Waits for what each of `ranks` shows or offers (where `tabled`, a block for each rank); bytes
    /// `(first, len) = wanted(rank)` will be read. A rank has `whole` bytes, or else just those. This rank may
    /// have made an `offer` in the turn.
    ///
    /// # Errors
    /// As [`Turn::see`]; `Other` and `Truncate`: a rank has another number of bytes.
    pub fn new(
        hold: &mut Hold,
        turn: &'t Turn<'a>,
        ranks: impl Iterator<Item = u32>,
        tabled: bool,
        whole: Option<usize>,
        offer: Option<&'t Offer>,
        wanted: impl Fn(u32) -> (usize, usize),
    ) -> Result<Reader<'t, 'a>> {
        let mut sources: Vec<Option<Source>> = (0..turn.size()).map(|_| None).collect();
        for rank in ranks.filter(|&rank| rank as usize != turn.boards.me) {
            let view = turn.see(hold, rank, None)?;
            let view = turn.own_of(view, tabled)?;
            let wanted = wanted(rank);
            view.has(wanted.0 + wanted.1)?;
            let (has, expected) = (view.len, whole.unwrap_or(wanted.1));
            if has > expected {
                fail!(
                    Truncate,
                    "rank {rank} has {has} bytes where {expected} were expected: {DIFFER}"
                );
            }
            sources[rank as usize] = Some(Source {
                view,
                wanted,
                kept: None,
            });
        }
        hold.tell_awake();
        Ok(Reader {
            turn,
            sources,
            offer,
            verdict: None,
            judges: false,
            timed: None,
        })
    }

    /// Where bytes `first .. first + len` of what `rank` has can be read: at once, if they are mapped here and nobody wants to know how
    /// long a copy takes, or after a copy to `room`, which has as many bytes.
    ///
    /// # Errors
    /// What makes progress impossible.
    ///
    /// # Safety
    /// `room` has room for `len` bytes.
    pub unsafe fn get(
        &mut self,
        hold: &mut Hold,
        rank: u32,
        (first, len): (usize, usize),
        room: *mut u8,
    ) -> Result<*const u8> {
        loop {
            let Some(source) = &self.sources[rank as usize] else {
                return Ok(room);
            };
            if let Some(kept) = &source.kept {
                return Ok(kept.as_ptr().wrapping_add(first - source.wanted.0));
            }
            let Some(address) = source.view.far else {
                self.turn.count(hold, rank, len);
                return Ok(source.view.data.wrapping_add(first));
            };
            let world = self.turn.boards.members[rank as usize].world;
            let address = address.wrapping_add(first as u64);
            let there = hold.engine.channel.reach_memory(world, address, len);
            if let (Some(There::Mapped(at)), false) = (there, self.judges) {
                hold.engine.channel.count_seen(Path::Mapped, world, len);
                return Ok(at);
            }
            let from = if self.judges { clock::nanoseconds() } else { 0 };
            // SAFETY: the caller's room.
            if unsafe { hold.engine.channel.read_memory(world, address, room, len) } {
                if self.judges {
                    self.judge(hold, clock::nanoseconds() - from, (world, address), (room, len));
                }
                hold.engine
                    .channel
                    .count_seen(there.map_or(Path::OneCopy, There::path), world, len);
                return Ok(room);
            }
            self.ask(hold)?;
        }
    }

    /// Whether the data come by messages, or were kept: this rank has found that it cannot read another's memory.
    pub fn has_asked(&self) -> bool {
        self.sources.iter().flatten().any(|source| source.kept.is_some())
    }

    /// From now on the time of reading is taken, for the owners of the data: [`Reader::tell`].
    pub fn judges(&mut self) {
        self.judges = true;
    }

    /// From now on it takes the time of reading what others show.
    pub fn times(&mut self) {
        self.timed = Some((0, 0));
    }

    /// Nanoseconds and bytes of what others show, as far as that was timed.
    pub fn took(&self) -> Option<(u64, usize)> {
        self.timed.filter(|&(_, bytes)| bytes > 0)
    }

    /// The bytes that lie in `room` now came from a rank's memory in so many nanoseconds.
    fn judge(&mut self, hold: &mut Hold, took: u64, (world, address): (u32, u64), (room, len): (*mut u8, usize)) {
        let mut paces = std::mem::take(&mut hold.desk.paces);
        let now = paces.judge(self.turn.number, took, len, || {
            let from = clock::nanoseconds();
            // SAFETY: as many bytes have just come to the same room; if they cannot any more, those stay.
            unsafe { hold.engine.channel.read_memory(world, address, room, len) };
            clock::nanoseconds() - from
        });
        hold.desk.paces = paces;
        let last = self.verdict.unwrap_or(now);
        self.verdict = Some(Verdict {
            turn: now.turn,
            pace: last.pace.max(now.pace),
            fresh: last.fresh || now.fresh,
            twice: last.twice || now.twice,
        });
    }

    /// Tells the owners of the data how reading went, if it did.
    pub fn tell(&self) {
        if let Some(verdict) = self.verdict {
            self.turn.boards.members[self.turn.boards.me].board.judge(verdict);
        }
    }

    /// Copies bytes `first ..` of what `rank` has to `to`, as many as go there.
    ///
    /// # Errors
    /// What makes progress impossible.
    pub fn copy(&mut self, hold: &mut Hold, rank: u32, first: usize, to: &Buffer) -> Result<()> {
        let len = to.len();
        if to.is_in_a_row() {
            // SAFETY: the program owns the buffer.
            let from = unsafe { self.get(hold, rank, (first, len), to.address)? };
            if from != to.address.cast_const() {
                let begin = self.timed.map(|_| clock::nanoseconds());
                // Mapped memory of a program's comes in long rows, which a processor copies best by itself.
                let shown = self.sources[rank as usize]
                    .as_ref()
                    .is_some_and(|source| source.view.far.is_none());
                // SAFETY: as many bytes lie there; the program owns the buffer.
                unsafe {
                    match shown {
                        true => to.unpack_from_peer(hold.engine.channel.ahead, 0, from, len),
                        false => to.unpack(0, from, len),
                    }
                }
                if let (Some((spent, bytes)), Some(begin)) = (&mut self.timed, begin) {
                    *spent += clock::nanoseconds() - begin;
                    *bytes += len;
                }
            }
            return Ok(());
        }
        let mut piece = vec![0u8; BLOCK.min(len)];
        let mut done = 0;
        while done < len {
            let step = BLOCK.min(len - done);
            // SAFETY: the piece has as many bytes.
            let from = unsafe { self.get(hold, rank, (first + done, step), piece.as_mut_ptr())? };
            // SAFETY: as above.
            unsafe { to.unpack(done, from, step) };
            done += step;
        }
        Ok(())
    }

    /// Keeps what is shown and gets what is offered by messages: this rank cannot read another's memory.
    #[cold]
    fn ask(&mut self, hold: &mut Hold) -> Result<()> {
        for source in self
            .sources
            .iter_mut()
            .flatten()
            .filter(|source| source.view.far.is_none())
        {
            let (first, len) = source.wanted;
            let mut bytes = vec![0; len];
            // SAFETY: `new` has found that the view has them.
            unsafe { copy::many(source.view.data.wrapping_add(first), bytes.as_mut_ptr(), len) };
            source.kept = Some(bytes);
        }
        let board = self.turn.boards.members[self.turn.boards.me].board;
        board.need().store(self.turn.number, Ordering::Relaxed);
        self.turn.finish(hold);
        let (comm, plane, tag) = (self.turn.comm, Plane::Collective, self.turn.tag);
        let mut requests = Vec::new();
        for (rank, source) in self.sources.iter_mut().enumerate() {
            if let Some(source) = source.as_mut().filter(|source| source.view.far.is_some()) {
                let bytes = source.kept.insert(vec![0u8; source.wanted.1]);
                let buffer = Buffer::bytes(bytes.as_mut_ptr(), bytes.len());
                requests.push(pt2pt::irecv(hold, comm, plane, buffer, rank as i32, tag)?);
            }
        }
        if let Some(offer) = self.offer {
            requests.extend(self.turn.serve(hold, offer)?);
        }
        wait_all(hold, requests)
    }
}
