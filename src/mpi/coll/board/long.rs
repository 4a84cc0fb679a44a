//! # Safety
//! Copies between buffers of the program that do not overlap, as the caller of an operation promises.
//!
//! Operations that move data too long to be shown, or of lengths that only some ranks know. Each rank
//! shows what is short and offers what is long; readers take ranks in turn, from the one behind them on,
//! so that no rank is read by all at once.
#![allow(unsafe_code)]

use super::desk::LINE;
use super::far::{Offer, Reader, SENT, WHOLE, wait_all};
use super::moves::{self, keep};
use super::sheet::Sheet;
use super::{ENTRY, LONGEST, Learns, Turn, View, Where};
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::args::{BlockOf, Blocks};
use crate::mpi::coll::machine;
use crate::mpi::comm::Plane;
use crate::mpi::error::Result;
use crate::mpi::pt2pt::{self, Mode};
use crate::mpi::world::Hold;
use crate::sys::clock;
use crate::sys::selection::Operation;

impl<'a> Where<'a> {
    /// Shows `buffer`, or offers it to `readers`.
    fn present(
        &self,
        hold: &mut Hold,
        turn: &Turn,
        buffer: &Buffer,
        readers: impl Iterator<Item = u32>,
    ) -> Result<Option<Offer>> {
        if buffer.len() <= self.near && !self.boards.lends(hold, buffer, (0, buffer.len())) {
            self.timed(buffer.len(), || turn.show(hold, buffer))?;
            return Ok(None);
        }
        let offer = Offer::whole(buffer, readers.map(|rank| (rank, WHOLE)));
        turn.offer(hold, &offer)?;
        Ok(Some(offer))
    }

    /// Shows all `blocks` but this rank's own, which nobody takes, behind a table of their places, or offers them; as
    /// copies if they are to be overwritten.
    pub(super) fn present_blocks(
        &self,
        hold: &mut Hold,
        turn: &Turn,
        blocks: BlockOf,
        copied: bool,
    ) -> Result<Option<Offer>> {
        let ranks = self.comm.size();
        // Blocks begin with a line: copies that do not are slower.
        let table = (ranks as usize * ENTRY).next_multiple_of(LINE);
        let total: usize = self.others().map(|rank| blocks(rank).len()).sum();
        let lends = |hold: &mut Hold| {
            let first = blocks(0);
            !copied && self.boards.lends(hold, &first, (0, first.len()))
        };
        if total > self.near || total + table > LONGEST || lends(hold) {
            let offer = Offer::blocks(blocks, ranks, copied, self.others());
            turn.offer(hold, &offer)?;
            return Ok(Some(offer));
        }
        let show = |sheet: &mut Sheet| {
            let mut place = table;
            for rank in self.others() {
                let block = blocks(rank);
                let entry = sheet.room().wrapping_add(rank as usize * ENTRY).cast::<u64>();
                // SAFETY: the sheet is made for the table and all blocks.
                unsafe {
                    entry.write_unaligned(place as u64);
                    entry.wrapping_add(1).write_unaligned(block.len() as u64);
                    sheet.pack(place, &block, 0, block.len());
                }
                place += block.len();
            }
        };
        self.timed(total, || turn.show_with(hold, table + total, show))?;
        Ok(None)
    }

    /// Waits, if the kernel copies what the root offers and each rank has a CPU, until the rank [`READERS`] before this one has what it
    /// wants: the more ranks read one's memory at a time, the longer the kernel takes for each page.
    fn wait_in_line(&self, hold: &mut Hold, turn: &Turn, root: u32) -> Result<()> {
        let (me, size) = (self.comm.rank, self.comm.size());
        if (me + size - root) % size <= READERS || machine::is_crowded(hold) {
            return Ok(());
        }
        let view = turn.see(hold, root, None)?;
        let world = self.boards.members[root as usize].world;
        if view
            .far
            .is_none_or(|at| hold.engine.channel.mapped(world, at, view.len).is_some())
        {
            return Ok(());
        }
        let before = (me + size - READERS) % size;
        self.boards
            .wait_for(hold, before as usize, turn.number, true, (self.comm, turn.tag))
    }

    /// Shows `len` bytes, and takes the time if it counts.
    pub(super) fn timed(&self, len: usize, show: impl FnOnce() -> Result<()>) -> Result<()> {
        let Some(learns) = self.learns.filter(|learns| learns.timed) else {
            return show();
        };
        let from = clock::nanoseconds();
        show()?;
        self.boards
            .has_shown(learns.what, learns.len, clock::nanoseconds() - from, len);
        Ok(())
    }

    /// Offers `buffer` to the root, waits until that has read it, and learns how it fared; `worth` as for [`Where::end`].
    pub(super) fn offer_to(&self, hold: &mut Hold, root: u32, buffer: &Buffer, worth: u64) -> Result<()> {
        let (turn, from) = (self.turn(), clock::nanoseconds());
        let offer = Offer::whole(buffer, std::iter::once((root, WHOLE)));
        turn.offer(hold, &offer)?;
        turn.end(hold, Ok(()), Some(&offer))?;
        if let Some(learns) = self.learns {
            let waited = clock::nanoseconds() - from;
            self.boards.learn(learns, &turn, &offer, worth, waited);
        }
        Ok(())
    }

    /// Tells the root that `buffer` comes by message, sends it, and learns how long that took, unless messages try ways.
    fn send_to(&self, hold: &mut Hold, root: u32, buffer: &Buffer) -> Result<()> {
        let (turn, from) = (self.turn(), clock::nanoseconds());
        turn.offer(hold, &Offer::sent(buffer.len()))?;
        turn.finish(hold);
        pt2pt::send(
            hold,
            self.comm,
            Plane::Collective,
            buffer.clone(),
            root,
            turn.tag,
            Mode::Standard,
        )?;
        let world = self.comm.peers().world(root);
        if let Some(Learns { what, len, .. }) = self.learns.filter(|_| !hold.engine.channel.tries(world, buffer.len()))
        {
            self.boards.has_sent(what, len, clock::nanoseconds() - from, BESIDE);
        }
        Ok(())
    }

    /// As the rank that has the data of an operation that learns, whether it offers them this time.
    pub(super) fn decides(self) -> (bool, Where<'a>) {
        let Some(Learns { what, len, .. }) = self.learns else {
            return (false, self);
        };
        let (offers, timed) = self.boards.offers(what, len);
        let learns = Some(Learns { what, len, timed });
        (offers, Where { learns, ..self })
    }

    /// Ends a turn as [`Turn::end`] does, and learns how the readers of `offer` fared; showing is as quick as reading that takes
    /// `worth` percent of a copy to scratch memory.
    pub(super) fn end(
        &self,
        hold: &mut Hold,
        turn: &Turn,
        outcome: Result<()>,
        offer: Option<&Offer>,
        worth: u64,
    ) -> Result<()> {
        turn.end(hold, outcome, offer)?;
        if let (Some(learns), Some(offer)) = (self.learns, offer) {
            self.boards.learn(learns, turn, offer, worth, 0);
        }
        Ok(())
    }
}

/// Percent of a copy to scratch memory that two copies take, the second after the first, where this rank does not know how long its
/// own copies out of others' take.
pub(super) const AFTER: u64 = 220;
/// ... where the second goes beside the first of the next piece.
const BESIDE: u64 = 120;

/// Ranks that copy their blocks out of one's memory at a time, of a scatter.
const READERS: u32 = 2;

/// Bytes of a block above which it is not read by the root alone: as a message both copy it.
const ALONE: usize = 32 << 10;

/// The root offers its data; everybody copies them. Cost: n bytes read by each of the others.
///
/// # Errors
/// `Other`: the root is in another call, or has another number of bytes.
pub fn bcast(hold: &mut Hold, at: Where, root: u32, data: &Buffer) -> Result<()> {
    let turn = at.turn();
    if at.comm.rank == root {
        let offer = at.present(hold, &turn, data, at.others())?;
        return at.end(hold, &turn, Ok(()), offer.as_ref(), BESIDE);
    }
    let outcome = take(hold, at, (&turn, None), std::iter::once(root), false, |_| data.clone());
    turn.end(hold, outcome, None)
}

/// The root offers its data, or shows them in pieces, as it has learnt ([`Where::learns`]); the others see what it does.
/// Cost: that of [`bcast`] or [`moves::bcast`].
///
/// # Errors
/// As [`bcast`].
pub fn bcast_learnt(hold: &mut Hold, at: Where, root: u32, data: &Buffer) -> Result<()> {
    if at.comm.rank == root {
        if at.boards.lends(hold, data, (0, data.len())) {
            return bcast(hold, Where { learns: None, ..at }, root, data);
        }
        let (offers, at) = at.decides();
        return match offers {
            true => bcast(hold, Where { near: 0, ..at }, root, data),
            false => at.timed(data.len(), || moves::bcast(hold, at, root, data)),
        };
    }
    let turn = at.turn();
    if turn.see(hold, root, None)?.far.is_none() {
        return moves::bcast_from(hold, at, turn, root, data);
    }
    let outcome = take(hold, at, (&turn, None), std::iter::once(root), false, |_| data.clone());
    turn.end(hold, outcome, None)
}

/// Takes what each of `ranks` has for me to the buffer for that rank, in a turn in which this rank may have made an
/// offer; where `tabled`, it is my block of what they show.
pub(super) fn take(
    hold: &mut Hold,
    at: Where,
    (turn, offer): (&Turn, Option<&Offer>),
    ranks: impl Iterator<Item = u32> + Clone,
    tabled: bool,
    room: impl Fn(u32) -> Buffer,
) -> Result<()> {
    // What is shown needs no more than a look, unless that is timed.
    let mut ranks = ranks.peekable();
    if at.learns.is_none_or(|learns| !learns.timed) {
        while let Some(&rank) = ranks.peek() {
            let view = turn.see(hold, rank, None)?;
            if view.far.is_some() {
                break;
            }
            take_shown(hold, turn, &turn.own_of(view, tabled)?, &room(rank))?;
            ranks.next();
        }
    }
    if ranks.peek().is_none() {
        return Ok(());
    }
    let wanted = |rank| (0, room(rank).len());
    let mut reader = Reader::new(hold, turn, ranks.clone(), tabled, None, offer, wanted)?;
    if let Some(learns) = at.learns {
        reader.judges();
        if learns.timed {
            reader.times();
        }
    }
    // Many readers of one rank begin at different places.
    let parts = match at.comm.size() {
        0..=2 => 1,
        size => size as usize - 1,
    };
    while let Some(rank) = ranks.next() {
        let room = room(rank);
        let lone = parts > 1 && ranks.peek().is_none() && room.is_in_a_row() && room.len() > parts * super::far::BLOCK;
        if !lone {
            reader.copy(hold, rank, 0, &room)?;
            continue;
        }
        let each = room.len().div_ceil(parts).next_multiple_of(4096);
        for part in 0..parts {
            let first = (part + at.comm.rank as usize) % parts * each;
            let len = each.min(room.len().saturating_sub(first));
            let piece = Buffer::bytes(room.address.wrapping_add(first.min(room.len())), len);
            reader.copy(hold, rank, first, &piece)?;
        }
    }
    reader.tell();
    if let (Some(learns), Some((nanoseconds, bytes))) = (at.learns, reader.took()) {
        at.boards.has_read(learns.what, learns.len, nanoseconds, bytes);
    }
    Ok(())
}

/// Takes what a rank shows for this one, as many bytes as there is room for.
fn take_shown(hold: &Hold, turn: &Turn, view: &View, room: &Buffer) -> Result<()> {
    if view.len != room.len() {
        return Err(view.differs(room.len()));
    }
    // SAFETY: both have as many bytes, and the program owns the buffer.
    unsafe { view.unpack(hold, 0, room, (0, view.len)) };
    turn.count(hold, view.from, view.len);
    Ok(())
}

/// `MPI_Gather` and `MPI_Gatherv`: everybody presents its block, or sends it if it is too long to be shown and none is offered; the root
/// takes them. Cost: n bytes read from each rank by the root.
///
/// # Errors
/// `Other`: a member is in another call, or has another number of bytes.
pub fn gather(hold: &mut Hold, at: Where, root: u32, send: Option<&Buffer>, recv: Option<BlockOf>) -> Result<()> {
    if at.comm.rank != root {
        let Some(send) = send else { return Ok(()) };
        if send.len() > at.near && !at.boards.table.gather.offers_any() {
            return at.send_to(hold, root, send);
        }
        let turn = at.turn();
        let offer = at.present(hold, &turn, send, std::iter::once(root))?;
        return turn.end(hold, Ok(()), offer.as_ref());
    }
    let Some(recv) = recv else { return Ok(()) };
    keep(send, Some(&recv(root)));
    let turn = moves::begin_gather(hold, at)?;
    let (mut requests, mut offered) = (Vec::new(), Vec::new());
    let outcome = at.others().try_for_each(|rank| {
        let (view, room) = (turn.see(hold, rank, None)?, recv(rank));
        match view.far {
            None => take_shown(hold, &turn, &view, &room),
            Some(SENT) => {
                let len = room.len();
                requests.push(pt2pt::irecv(
                    hold,
                    at.comm,
                    Plane::Collective,
                    room,
                    rank as i32,
                    turn.tag,
                )?);
                if view.len == len {
                    Ok(())
                } else {
                    Err(view.differs(len))
                }
            }
            Some(_) => {
                offered.push(rank);
                Ok(())
            }
        }
    });
    let outcome = outcome.and_then(|()| {
        take(hold, at, (&turn, None), offered.iter().copied(), false, recv)?;
        turn.seen_all();
        Ok(())
    });
    // What has been sent goes to the program's buffer after an error, too.
    let came = wait_all(hold, requests);
    turn.end(hold, outcome, None).and(came)
}

/// As [`moves::gather`] of two ranks, of which the other one shows its block, or else offers or sends it, as it has learnt
/// ([`Where::decides`]). Cost: that of [`moves::gather`], or n bytes copied once, by the root or by both.
///
/// # Errors
/// As [`gather`].
pub fn gather_learnt(
    hold: &mut Hold,
    at: Where,
    root: u32,
    len: usize,
    send: Option<&Buffer>,
    recv: Option<&Blocks>,
) -> Result<()> {
    let (Some(recv), true) = (recv, at.comm.rank == root) else {
        let Some(send) = send else {
            return moves::gather(hold, at, len, None, None);
        };
        let (once, at) = at.decides();
        return match once {
            true if len > ALONE => at.send_to(hold, root, send),
            true => at.offer_to(hold, root, send, BESIDE),
            false => at.timed(len, || moves::gather(hold, at, len, Some(send), None)),
        };
    };
    let (what, mine) = (Operation::Gather, recv.buffer(root));
    // Who shows takes its time; who offers or sends waits for it.
    let first = !at.boards.was_offered(what, len);
    if first {
        keep(send, Some(&mine));
    }
    let turn = moves::begin_gather(hold, at)?;
    let other = 1 - root;
    let view = turn.see(hold, other, None)?;
    let outcome = match view.far {
        Some(SENT) => {
            turn.seen_all();
            turn.finish(hold);
            let room = recv.buffer(other);
            pt2pt::recv(hold, at.comm, Plane::Collective, room, other as i32, turn.tag)?;
            view.has(len)
        }
        Some(_) => {
            let outcome = take(hold, at, (&turn, None), at.others(), false, |rank| recv.buffer(rank));
            turn.seen_all();
            turn.end(hold, outcome, None)
        }
        None => moves::gather_from(hold, at, turn, len, recv),
    };
    if !first {
        keep(send, Some(&mine));
    }
    at.boards.is_offered(what, len, view.far.is_some());
    outcome
}

/// `MPI_Scatter` and `MPI_Scatterv`: the root presents all blocks, everybody takes its own.
/// Cost: n bytes read from the root by each rank.
///
/// # Errors
/// As [`gather`].
pub fn scatter(hold: &mut Hold, at: Where, root: u32, send: Option<BlockOf>, recv: Option<&Buffer>) -> Result<()> {
    let turn = at.turn();
    if at.comm.rank != root {
        let Some(recv) = recv else { return Ok(()) };
        at.wait_in_line(hold, &turn, root)?;
        let outcome = take(hold, at, (&turn, None), std::iter::once(root), true, |_| recv.clone());
        return turn.end(hold, outcome, None);
    }
    let Some(send) = send else { return Ok(()) };
    let offer = at.present_blocks(hold, &turn, send, false)?;
    keep(Some(&send(root)), recv);
    at.end(hold, &turn, Ok(()), offer.as_ref(), AFTER)
}

/// `MPI_Allgather` and `MPI_Allgatherv`: everybody presents its block and takes the others'.
/// Cost: n (p-1) bytes read by each rank.
///
/// # Errors
/// As [`gather`].
pub fn allgather(hold: &mut Hold, at: Where, send: Option<&Buffer>, recv: &Blocks) -> Result<()> {
    let turn = at.exchange();
    let mine = recv.buffer(at.comm.rank);
    let offer = at.present(hold, &turn, send.unwrap_or(&mine), at.others())?;
    keep(send, Some(&mine));
    let outcome = take(hold, at, (&turn, offer.as_ref()), at.others(), false, |rank| {
        recv.buffer(rank)
    });
    turn.seen_all();
    at.end(hold, &turn, outcome, offer.as_ref(), AFTER)
}

/// `MPI_Alltoall` and its kin: everybody presents its blocks and takes its own of each other rank's;
/// `send` is `None` in place, where what is sent is copied first. Cost: n (p-1) bytes read by each rank.
///
/// # Errors
/// As [`gather`].
pub fn alltoall(hold: &mut Hold, at: Where, send: Option<BlockOf>, recv: BlockOf) -> Result<()> {
    let turn = at.exchange();
    let offer = at.present_blocks(hold, &turn, send.unwrap_or(recv), send.is_none())?;
    let rank = at.comm.rank;
    keep(send.map(|send| send(rank)).as_ref(), Some(&recv(rank)));
    let outcome = take(hold, at, (&turn, offer.as_ref()), at.others(), true, recv);
    turn.seen_all();
    at.end(hold, &turn, outcome, offer.as_ref(), AFTER)
}
