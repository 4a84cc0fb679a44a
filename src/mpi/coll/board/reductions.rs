//! # Safety
//! Reduces from what others show into the program's receive buffer, which the caller of the operation
//! owns. A view holds as many bytes as the elements that are read from it.
//!
//! Reductions by boards (MPI-4.1 §6.9). All add up in the same order, that of the ranks from the last one down, so every rank gets
//! the same bits in every run. Functions of the program get an operand of their own, which they may change and which lies on a line.
#![allow(unsafe_code)]

use super::{Turn, View, Where};
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::args::Reduction;
use crate::mpi::coll::choice::Row;
use crate::mpi::error::Result;
use crate::mpi::op::Function;
use crate::mpi::world::Hold;
use crate::sys::copy;
use std::mem::MaybeUninit;

/// Where each rank reduces a share, pieces are so many times as long: a turn costs as much as taking some 16 KiB from another
/// core, and less than a whole piece is shown in each.
pub(super) const SHARED: usize = 4;

/// Bytes of an operand that are fetched at a time, of what another core has, and of all operands: they stay in the first-level cache
/// until they are reduced.
const BLOCK: usize = 2 << 10;
const FETCHED: usize = 32 << 10;

/// Bytes of an operand in place that are kept at a time while the result goes where they lie.
const KEPT: usize = 4096;

/// ... and their place.
#[repr(C, align(64))]
struct Kept(MaybeUninit<[u8; KEPT]>);

/// Elements of an operand or of the result: first and number.
pub type Part = (usize, usize);

/// The block of `rank`, where `counts` says how many elements each gets.
pub fn block(counts: &[usize], rank: u32) -> Part {
    (counts[..rank as usize].iter().sum(), counts[rank as usize])
}

/// Elements of a reduction: all ranks have the same predefined type, so they lie alike everywhere.
#[derive(Clone, Copy)]
pub struct Elements<'a> {
    pub(super) reduction: &'a Reduction,
    pub(super) extent: usize,
    /// This rank's operands; `None` where they lie in `recv`.
    pub(super) send: Option<*mut u8>,
    pub(super) recv: *mut u8,
    /// How many.
    pub count: usize,
}

impl<'a> Elements<'a> {
    /// The elements of `reduction`, unless the operation is one of the program: its functions may take long and call MPI, and
    /// whoever makes progress would have to wait for them.
    #[inline]
    pub fn of(reduction: &'a Reduction) -> Option<Elements<'a>> {
        match Elements::calls(reduction) {
            true => None,
            false => Elements::awaited(reduction),
        }
    }

    /// The same for a rank that waits for the result: the program's operations too, on predefined datatypes. What boards show and
    /// take are whole elements, so those with gaps, which belong to the program, go by messages.
    #[inline]
    pub fn awaited(reduction: &'a Reduction) -> Option<Elements<'a>> {
        let goes = match reduction.element.datatype.basic() {
            Some(basic) => basic.is_contiguous(),
            None => !Elements::calls(reduction),
        };
        if !goes && reduction.count > 0 {
            return None;
        }
        let extent = usize::try_from(reduction.element.datatype.extent()).ok()?;
        Some(Elements {
            reduction,
            extent,
            send: reduction.send,
            recv: reduction.recv,
            count: reduction.count,
        })
    }

    /// Whether the operation is one of the program.
    #[inline]
    pub fn calls(reduction: &Reduction) -> bool {
        !matches!(reduction.op.function, Function::Builtin(_))
    }

    /// As [`Elements::calls`].
    #[inline]
    pub fn call_the_program(&self) -> bool {
        Elements::calls(self.reduction)
    }

    /// Bytes up to which they are shown, as `row` says: functions of the program are given what is shown alone.
    #[inline]
    pub fn shown(&self, row: &Row) -> usize {
        match self.call_the_program() {
            true => row.shown_unasked,
            false => row.shown,
        }
    }

    /// Whether they go by messages, as `row` says or because a function of the program would be given what is not shown.
    #[inline]
    pub fn are_sent(&self, row: &Row) -> bool {
        row.sends(self.size()) || self.call_the_program() && self.size() > self.shown(row)
    }

    /// Whether a function of the program would be given the elements of a turn of `near` bytes in several calls.
    pub fn would_be_cut(&self, near: usize) -> bool {
        self.call_the_program() && self.size() > near.min(KEPT)
    }

    /// Bytes of all elements, gaps included.
    #[inline]
    pub fn size(&self) -> usize {
        self.count * self.extent
    }

    /// The same elements in pieces of up to `most` bytes, in order.
    pub(super) fn pieces(self, most: usize) -> impl Iterator<Item = Elements<'a>> {
        let each = (most / self.extent.max(1)).max(1);
        (0..self.count)
            .step_by(each)
            .map(move |first| self.piece((first, each.min(self.count - first))))
    }

    /// Only those of `part`.
    pub(super) fn piece(self, (first, count): Part) -> Elements<'a> {
        let shift = first * self.extent;
        Elements {
            send: self.send.map(|send| send.wrapping_add(shift)),
            recv: self.recv.wrapping_add(shift),
            count,
            ..self
        }
    }

    /// This rank's operand.
    pub(super) fn operand(&self) -> Buffer {
        Buffer::bytes(self.send.unwrap_or(self.recv), self.size())
    }

    /// Elements `first .. first + count` of the result.
    pub(super) fn result(&self, first: usize, count: usize) -> Buffer {
        let at = self.recv.wrapping_add(first * self.extent);
        Buffer::bytes(at, count * self.extent)
    }

    /// Of an exclusive scan of two ranks: what rank 0 has, and where rank 1 wants it.
    pub fn passed_up(&self, rank: u32) -> Buffer {
        match rank {
            0 => self.operand(),
            _ => self.result(0, self.count),
        }
    }

    /// Shows this rank's operand, which the result may overwrite if it is in place.
    fn show_operand(&self, hold: &mut Hold, turn: &Turn) -> Result<()> {
        let operand = self.operand();
        if self.send.is_some() && turn.lend(hold, &operand, (0, operand.len()))? {
            return Ok(());
        }
        turn.show(hold, &operand)
    }

    /// Reduces elements `first .. first + count` of what ranks 0 to `last` show into `to`. A rank may have left out
    /// what is its own part, which does not overlap these: `part(rank)`.
    pub(super) fn reduce(
        &self,
        hold: &mut Hold,
        turn: &Turn,
        last: u32,
        (first, count): Part,
        to: *mut u8,
        part: &impl Fn(u32) -> Part,
    ) -> Result<()> {
        let start = first * self.extent;
        let view = self.view(hold, turn, last, first, part)?;
        if last == 0 {
            return view.copy(hold, start, &Buffer::bytes(to, count * self.extent));
        }
        let mut right: Option<View> = Some(view);
        for rank in (0..last).rev() {
            let left = self.view(hold, turn, rank, first, part)?;
            let right = right.take();
            let both = [left.from, right.map_or(left.from, |right| right.from)];
            let own = both.into_iter().position(|rank| self.is_overwritten(turn, rank));
            self.combine(hold, (left, right), own, (start, count), to)?;
        }
        Ok(())
    }

    /// As [`Elements::reduce`], of what all ranks show, while all do so: where more than two have a CPU each, block by block. A block is
    /// fetched from the rank behind this one on, and then reduced: ranks that all look at the same line, or into the same rank's
    /// caches, at a time wait for each other, and lines that are on their way together come sooner. Where ranks share CPUs the order in
    /// which they wait matters more.
    pub(super) fn reduce_together(
        &self,
        hold: &mut Hold,
        turn: &Turn,
        (first, count): Part,
        to: *mut u8,
        part: impl Fn(u32) -> Part,
    ) -> Result<()> {
        let size = turn.size();
        (0..size).for_each(|rank| turn.count(hold, rank, count * self.extent));
        if size == 2 || turn.boards.segment.oversubscribed() {
            return self.reduce(hold, turn, size - 1, (first, count), to, &part);
        }
        let each = ((FETCHED / size as usize).min(BLOCK) / self.extent.max(1)).max(1);
        for done in (0..count.max(1)).step_by(each) {
            let block = (first + done, each.min(count - done));
            for rank in turn.comm.others() {
                let view = self.view(hold, turn, rank, block.0, &part)?;
                let from = view.data.wrapping_add(block.0 * self.extent);
                hold.engine.channel.ahead.fetch_row(from, block.1 * self.extent);
            }
            self.reduce(hold, turn, size - 1, block, to.wrapping_add(done * self.extent), &part)?;
        }
        Ok(())
    }

    /// Reduces what ranks 0 to `last` show, all of it, into the receive buffer.
    pub(super) fn reduce_whole(&self, hold: &mut Hold, turn: &Turn, last: u32) -> Result<()> {
        if turn.size() == 2 && last == 1 && self.send.is_some() {
            return self.reduce_with_other(hold, turn, self.recv);
        }
        (0..=last).for_each(|rank| turn.count(hold, rank, self.size()));
        self.reduce(hold, turn, last, (0, self.count), self.recv, &|_| (0, 0))
    }

    /// As [`Elements::reduce_together`], all of what all show, into the receive buffer.
    pub(super) fn reduce_all(&self, hold: &mut Hold, turn: &Turn) -> Result<()> {
        self.reduce_together(hold, turn, (0, self.count), self.recv, |_| (0, 0))
    }

    /// The operand of `rank`, of which elements from `first` on are wanted: my own where it lies, unless the result
    /// goes there and what was shown stays.
    fn view(&self, hold: &mut Hold, turn: &Turn, rank: u32, first: usize, part: &impl Fn(u32) -> Part) -> Result<View> {
        let own = rank == turn.comm.rank;
        let in_place = self.is_overwritten(turn, rank).then_some(self.recv);
        if let (true, Some(operand)) = (own, self.send.or(in_place)) {
            return Ok(View {
                data: operand.cast_const(),
                len: self.size(),
                far: None,
                lent: None,
                from: rank,
            });
        }
        let (start, count) = part(rank);
        if own || count == 0 {
            return turn.see(hold, rank, Some(self.size()));
        }
        let gap = count * self.extent;
        let mut view = turn.see_either(hold, rank, self.size(), self.size() - gap)?;
        if view.len < self.size() {
            // What lies behind the gap is counted from where it would be without.
            view.len = self.size();
            if start < first {
                view.data = view.data.wrapping_sub(gap);
            }
        }
        Ok(view)
    }

    /// Whether the operand of `rank` is read where it lies and the result goes there too: in memory that is swapped or passed on
    /// the other rank may be in the next turn and write over what was shown of it.
    fn is_overwritten(&self, turn: &Turn, rank: u32) -> bool {
        rank == turn.comm.rank && self.send.is_none() && (turn.swap.is_some() || turn.passes)
    }

    /// Reduces this rank's operand and what the other one of two ranks shows into `to`.
    fn reduce_with_other(&self, hold: &mut Hold, turn: &Turn, to: *mut u8) -> Result<()> {
        let (me, other) = (turn.comm.rank, 1 - turn.comm.rank);
        let theirs = turn.see(hold, other, Some(self.size()))?;
        turn.count(hold, other, self.size());
        self.with_other(hold, me, theirs.data, to)
    }

    /// Reduces this rank's operand, `me` of two ranks, and the other one's at `theirs` into `to`.
    pub(super) fn with_other(&self, hold: &mut Hold, me: u32, theirs: *const u8, to: *mut u8) -> Result<()> {
        let view = |data, from| View {
            data,
            len: self.size(),
            far: None,
            lent: None,
            from,
        };
        let (own, theirs) = (view(self.operand().address.cast_const(), me), view(theirs, 1 - me));
        let both = if me == 0 { (own, theirs) } else { (theirs, own) };
        let overwritten = self.send.is_none().then_some(me as usize);
        self.combine(hold, (both.0, Some(both.1)), overwritten, (0, self.count), to)
    }

    /// Reduces what two ranks show, the lower one first, into the receive buffer.
    pub(super) fn reduce_two(&self, hold: &mut Hold, turn: &Turn, (lower, upper): (u32, u32)) -> Result<()> {
        let len = Some(self.size());
        // What this rank has is read from where it shows it: the result may overwrite it.
        let right = turn.see(hold, upper, len)?;
        let left = turn.see(hold, lower, len)?;
        self.combine(hold, (left, Some(right)), None, (0, self.count), self.recv)
    }

    /// `to = left op right`, or `to = left op to`; the result overwrites the operand number `own`, if any.
    fn combine(
        &self,
        hold: &mut Hold,
        (left, right): (View, Option<View>),
        own: Option<usize>,
        (start, count): Part,
        to: *mut u8,
    ) -> Result<()> {
        let Reduction { op, element, .. } = self.reduction;
        let (datatype, handle) = (&element.datatype, element.handle);
        let at = left.data.wrapping_add(start);
        let right = right.map(|right| right.data.wrapping_add(start));
        // Functions of the program never see what another rank shows.
        let kept = if self.call_the_program() { Some(0) } else { own };
        let Some(kept) = kept else {
            // SAFETY: the views have all elements (`see` compared the lengths), and `to` is the caller's, apart from them: what this
            // rank has in place has been shown and is read from there.
            return unsafe {
                match right {
                    None => op.reduce(hold, datatype, handle, at, to, count),
                    Some(right) => op.reduce_apart(hold, datatype, handle, (at, right), to, count),
                }
            };
        };
        let both = [at, right.unwrap_or(to)];
        let each = KEPT / self.extent.max(1);
        if each == 0 {
            fail!(
                Intern,
                "elements of {} bytes are too long to be reduced in place",
                self.extent
            );
        }
        let mut room = Kept(MaybeUninit::uninit());
        let room = room.0.as_mut_ptr().cast::<u8>();
        for first in (0..count).step_by(each) {
            let (shift, count) = (first * self.extent, each.min(count - first));
            let (mut both, to) = (both.map(|data| data.wrapping_add(shift)), to.wrapping_add(shift));
            // SAFETY: as above; so many elements have room, and the result of those before lies before the operand of these.
            unsafe {
                copy::many(both[kept], room, count * self.extent);
                both[kept] = room;
                match both[1] == to.cast_const() {
                    true => op.reduce(hold, datatype, handle, both[0], to, count)?,
                    false => op.reduce_apart(hold, datatype, handle, both.into(), to, count)?,
                }
            }
        }
        Ok(())
    }
}

/// Everybody shows its operand, and everybody reduces all of them.
/// Cost: n bytes shown, p n read and reduced by each rank, a turn for each piece. For short vectors, and two ranks.
///
/// # Errors
/// `Other`: a member is in another call.
pub fn allreduce(hold: &mut Hold, at: Where, elements: &Elements) -> Result<()> {
    for elements in elements.pieces(at.near * SHARED) {
        let turn = at.exchange();
        elements.show_operand(hold, &turn)?;
        match turn.size() {
            2 => elements.reduce_with_other(hold, &turn, elements.recv)?,
            _ => elements.reduce_all(hold, &turn)?,
        }
        turn.seen_all();
        turn.finish(hold);
    }
    Ok(())
}

/// Everybody shows its operand, and the root reduces all of them; the others do not wait.
/// Cost: n bytes shown by each of the others, p n read and reduced by the root, a turn for each piece.
///
/// # Errors
/// As [`allreduce`].
pub fn reduce(hold: &mut Hold, at: Where, root: u32, elements: &Elements) -> Result<()> {
    if at.comm.rank == root {
        let first = begin_reduce(hold, at, elements)?;
        return reduce_from(hold, at, first, elements);
    }
    for elements in elements.pieces(at.near) {
        let turn = at.turn();
        turn.show(hold, &elements.operand())?;
        turn.finish(hold);
    }
    Ok(())
}

/// The next turn of a reduction at its root: that of the first piece of `elements`.
///
/// # Errors
/// As [`allreduce`].
pub fn begin_reduce<'a>(hold: &mut Hold, at: Where<'a>, elements: &Elements) -> Result<Turn<'a>> {
    let turn = at.turn();
    match elements.pieces(at.near).next() {
        // The result goes where it lies.
        Some(first) if first.send.is_none() => turn.show(hold, &first.operand())?,
        // Nobody reads it, but ranks that take another for the root are told so.
        _ => turn.show_with(hold, 0, |_| ())?,
    }
    Ok(turn)
}

/// As [`reduce`], of the root, which has begun the first turn.
///
/// # Errors
/// As [`allreduce`].
pub fn reduce_from(hold: &mut Hold, at: Where, first: Turn, elements: &Elements) -> Result<()> {
    let mut begun = Some(first);
    for elements in elements.pieces(at.near) {
        let turn = match begun.take() {
            Some(turn) => turn,
            None => begin_reduce(hold, at, &elements)?,
        };
        elements.reduce_whole(hold, &turn, at.comm.size() - 1)?;
        turn.seen_all();
        turn.finish(hold);
    }
    Ok(())
}

/// Everybody shows its operand and reduces its block of all; `block(rank)` is (first element, elements).
/// Cost: n bytes shown by each rank, about n read and reduced, one turn.
///
/// # Errors
/// As [`allreduce`].
pub fn reduce_scatter(hold: &mut Hold, at: Where, elements: &Elements, block: impl Fn(u32) -> Part) -> Result<()> {
    let turn = at.exchange();
    let mine = block(at.comm.rank);
    elements.show_to_others(hold, &turn, mine)?;
    elements.reduce_together(hold, &turn, mine, elements.recv, block)?;
    turn.seen_all();
    turn.finish(hold);
    Ok(())
}

/// As [`reduce_scatter`], of two ranks, in pieces: each shows what the other one reduces, and reads its own operand where it
/// lies. Cost: as many bytes shown and read by each rank as the other one and it reduce, a turn for each piece of the longer block.
///
/// # Errors
/// As [`allreduce`].
pub fn reduce_scatter_of_two(
    hold: &mut Hold,
    at: Where,
    elements: &Elements,
    block: impl Fn(u32) -> Part,
) -> Result<()> {
    let (me, other) = (at.comm.rank, 1 - at.comm.rank);
    let each = (at.near * SHARED / elements.extent.max(1)).max(1);
    let longest = block(me).1.max(block(other).1);
    for done in (0..longest).step_by(each) {
        let piece = |rank| {
            let (first, count) = block(rank);
            let done = done.min(count);
            elements.piece((first + done, each.min(count - done)))
        };
        let turn = at.exchange();
        // In place, what it shows is not overwritten by results before this turn's.
        piece(other).show_operand(hold, &turn)?;
        let mine = piece(me);
        mine.reduce_with_other(hold, &turn, elements.result(done, mine.count).address)?;
        turn.seen_all();
        turn.finish(hold);
    }
    Ok(())
}

/// Everybody shows its operand and reduces those of the ranks up to its own, or below its own if
/// `exclusive`; nobody waits for higher ranks. Cost: n bytes shown, rank r reads and reduces r n, a turn for each piece.
///
/// # Errors
/// As [`allreduce`].
pub fn scan(hold: &mut Hold, at: Where, elements: &Elements, exclusive: bool) -> Result<()> {
    let (me, size) = (at.comm.rank, at.comm.size());
    for (piece, elements) in elements.pieces(at.near).enumerate() {
        let turn = match me + 1 < size {
            true => {
                let turn = at.turn();
                turn.show(hold, &elements.operand())?;
                turn
            }
            // Nobody looks at the last rank's.
            false => begin_reduce(hold, at, &elements)?,
        };
        if piece == 0 {
            turn.chains(hold);
        }
        if let Some(last) = me.checked_sub(exclusive.into()) {
            elements.reduce_whole(hold, &turn, last)?;
        }
        turn.finish(hold);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SUM, combined, job, reduction, values};
    use super::*;
    use crate::mpi::coll::args::Root;
    use crate::mpi::coll::call::{Task, perform};
    use crate::mpi::coll::signature::{Call, Signature};
    use crate::mpi::coll::{board, support};
    use crate::mpi::op::Op;
    use crate::shm::sync::Ordering;
    use std::ffi::{c_int, c_void};
    use std::rc::Rc;

    /// Rank 0 reduces only when rank 1 shows something in the next turn already, where rank 0 has shown its operand.
    #[test]
    fn an_operand_in_place_is_whole_when_the_other_rank_is_ahead() {
        let count = 5000;
        job(2, 2, &[], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let boards = board::of(&hold, &comm).unwrap().clone();
            let second = boards.before + comm.context.next_turn() + 2;
            let at = || Where::new(&comm, &boards, Signature::of(Call::Allreduce), 1 << 16);
            let mut got = [1, 2].map(|seed| values(seed, rank, count));
            for (seed, got) in (1..).zip(&mut got) {
                let task = reduction(&hold, SUM, None, got, count);
                let elements = Elements::of(&task).unwrap();
                if (rank, seed) != (0, 1) {
                    allreduce(&mut hold, at(), &elements).unwrap();
                    continue;
                }
                let turn = at().exchange();
                turn.show(&mut hold, &elements.operand()).unwrap();
                while boards.members[1].board.slot(second).turn().load(Ordering::Acquire) < second {
                    std::thread::yield_now();
                }
                elements.reduce_whole(&mut hold, &turn, 1).unwrap();
                turn.seen_all();
                turn.finish(&hold);
            }
            for (seed, got) in (1..).zip(got) {
                assert!(got == combined(SUM, seed, 2, count), "rank {rank}, call {seed}");
            }
        });
    }

    /// Adds integers.
    unsafe extern "C" fn adds(left: *mut c_void, right: *mut c_void, count: *mut c_int, _: *mut c_int) {
        // SAFETY: as many integers lie on both sides.
        unsafe {
            for index in 0..*count as usize {
                let right = right.cast::<c_int>().add(index);
                *right = right.read().wrapping_add(*left.cast::<c_int>().add(index));
            }
        }
    }

    #[test]
    fn functions_of_the_program_get_what_is_shown_however_long_where_ranks_share_cpus() {
        let count = 200_000;
        support::job(3, 2, &[], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let op = Rc::new(Op {
                function: Function::User(adds),
                commutes: true,
                destructor: None,
            });
            let (mut mine, mut got) = (values(1, rank, count), vec![0; count]);
            let task = support::reduction(Some(&mut mine), &mut got, count, op);
            let before = comm.context.next_turn();
            perform(&mut hold, &comm, Task::Reduce(Root::Rank(0), task)).unwrap();
            // A turn for each 64 KiB.
            assert_eq!(comm.context.next_turn() - before, 13);
            assert!(rank > 0 || got == combined(SUM, 1, 3, count));
        });
    }
}
