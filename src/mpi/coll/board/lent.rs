//! # Safety
//! Readers look at memory of another rank that both have mapped, after [`Turn::see`] has found that all of it lies there.
//!
//! What is shown without being copied: data in memory that other ranks map (`MPI_Alloc_mem`, windows, `libnearmpi-heap.so`), from
//! `NEARMPI_BOARD_LEND` bytes on. Its owner shows where it lies, readers read it there as they read what is copied to scratch memory,
//! and the owner leaves the call when all are through with the turn ([`Boards::take_back`]). So it lends only what the call does not
//! overwrite, in operations in which it waits for others anyway, or all others read it; and only if all ranks have a CPU.
//!
//! What the program has not written since others read it last still lies in their caches, and is read there; what it has written must
//! be taken from its own, and when it writes it again from theirs: a copy is quicker then (two ranks, 8 KiB: a half of the time lent, if
//! they are as they were, and up to twice of it if not). So a rank looks at some words of what it shows, and lends it if they are
//! what they were the last time ([`Boards::lends`]).
#![allow(unsafe_code)]

use super::{Boards, Turn, View};
use crate::fail;
use crate::mpi::buffer::Buffer;
use crate::mpi::coll::args::Blocks;
use crate::mpi::coll::signature::SPREAD;
use crate::mpi::comm::Comm;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;
use crate::sys::copy;

/// Buffers, and pieces of long ones, of which is known what was in them: a power of two.
const SAMPLES: usize = 256;

/// Words that are looked at in each.
const WORDS: usize = 16;

/// What some words of a buffer were when it was shown last.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    at: usize,
    len: usize,
    words: u64,
    /// The call that looked at them, and whether they were as before.
    call: u64,
    same: bool,
}

/// What a rank knows of the buffers that it shows.
#[derive(Debug, Default)]
pub struct Samples {
    /// None until the first is asked for.
    all: Vec<Sample>,
    /// The calls so far.
    calls: u64,
}

impl Samples {
    /// Whether some words of `len` bytes at `at` are what they were in the last call that asked.
    ///
    /// # Safety
    /// There are `len` bytes, at least eight, that can be read.
    unsafe fn are_same(&mut self, at: *const u8, len: usize) -> bool {
        let place = (at as u64 ^ (len as u64).rotate_left(32)).wrapping_mul(SPREAD) >> (64 - SAMPLES.ilog2());
        if self.all.is_empty() {
            self.all.resize(SAMPLES, Sample::default());
        }
        let known = &mut self.all[place as usize];
        let again = (known.at, known.len) == (at as usize, len);
        if again && known.call == self.calls {
            return known.same;
        }
        let mut words = 0u64;
        for first in (0..WORDS).map(|word| (len - 8) * word / (WORDS - 1)) {
            // SAFETY: the caller's promise.
            let word = unsafe { at.wrapping_add(first).cast::<u64>().read_unaligned() };
            words = (words.rotate_left(7) ^ word).wrapping_mul(SPREAD);
        }
        *known = Sample {
            at: at as usize,
            len,
            words,
            call: self.calls,
            same: again && known.words == words,
        };
        known.same
    }
}

/// Bytes that say what is lent: the address, how many bytes there are, and the distance of blocks from each other (0: one row).
/// What is offered has other lengths.
pub(super) const LENT: usize = 24;

impl Boards {
    /// Waits until all members are through with what this rank has lent, and forgets what it was lent itself.
    ///
    /// # Errors
    /// What makes progress impossible.
    #[inline]
    pub fn take_back(&self, hold: &mut Hold, comm: &Comm) -> Result<()> {
        hold.desk.samples.calls += 1;
        self.borrowed.borrow_mut().clear();
        match self.lent.take() {
            None => Ok(()),
            Some((turn, tag)) => self.wait_through(hold, turn, comm, tag),
        }
    }

    /// Whether `len` bytes at `at` may be lent: they lie where others can read them.
    #[inline]
    pub fn may_lend(&self, hold: &Hold, at: *const u8, len: usize) -> bool {
        len >= self.lend_min && hold.engine.channel.is_home(at, len)
    }

    /// Whether bytes `(first, len)` of `buffer` are lent: they lie there in a row, and the program has not changed them since the last call.
    #[inline]
    pub fn lends(&self, hold: &mut Hold, buffer: &Buffer, (first, len): (usize, usize)) -> bool {
        let at = buffer.address.wrapping_add(first);
        if !self.may_lend(hold, at, len) || !buffer.is_in_a_row() {
            return false;
        }
        // SAFETY: they are the program's, in this rank's memory.
        unsafe { hold.desk.samples.are_same(at, len) }
    }
}

impl Turn<'_> {
    /// Shows `len` bytes of `buffer` from `first` on where they lie; `false`: they have to be copied, and nothing is shown.
    ///
    /// # Errors
    /// As [`Turn::show`].
    #[inline]
    pub fn lend(&self, hold: &mut Hold, buffer: &Buffer, (first, len): (usize, usize)) -> Result<bool> {
        if !self.boards.lends(hold, buffer, (first, len)) {
            return Ok(false);
        }
        let at = buffer.address as u64 + first as u64;
        self.show_lent(hold, [at, len as u64, 0]).map(|()| true)
    }

    /// As [`Turn::lend`], of all of `buffer`, of which each rank reads a share: short ones lie in too many pages (16 ranks, 4 KiB: twice the
    /// time of a copy, 32 KiB two thirds of it).
    ///
    /// # Errors
    /// As [`Turn::show`].
    pub fn lend_shares(&self, hold: &mut Hold, buffer: &Buffer) -> Result<bool> {
        // Of more than two ranks the bound is twice the setting.
        match buffer.len() / (self.size() as usize) < self.boards.lend_min / 2 {
            true => Ok(false),
            false => self.lend(hold, buffer, (0, buffer.len())),
        }
    }

    /// As [`Turn::lend`], of a part of the block for each of the others: its first byte, and how many.
    ///
    /// # Errors
    /// As [`Turn::show`].
    pub fn lend_parts(&self, hold: &mut Hold, (first, part): (usize, usize), blocks: &Blocks) -> Result<bool> {
        if part < self.boards.lend_min {
            return Ok(false);
        }
        let ranks = self.size();
        let block = |rank| blocks.buffer(rank);
        let (base, last) = (block(0), block(ranks - 1));
        let (at, end) = (base.address as usize, last.address as usize);
        if end <= at {
            return Ok(false);
        }
        let (others, span) = (ranks as usize - 1, end - at + last.len());
        let (stride, shown) = ((end - at) / others, part * others);
        let regular = (0..ranks).all(|rank| {
            let block = block(rank);
            stride >= part
                && block.is_in_a_row()
                && block.len() >= first + part
                && block.address as usize == at + rank as usize * stride
        });
        if !regular || !self.boards.lends(hold, &Buffer::bytes(base.address, span), (0, span)) {
            return Ok(false);
        }
        let words = [(at + first) as u64, shown as u64, stride as u64];
        self.show_lent(hold, words).map(|()| true)
    }

    fn show_lent(&self, hold: &mut Hold, words: [u64; 3]) -> Result<()> {
        self.boards.lent.set(Some((self.number, self.tag)));
        self.show_marked(hold, LENT, true, |sheet| {
            // SAFETY: the sheet is made for three words.
            unsafe { copy::many(words.as_ptr().cast(), sheet.room(), LENT) };
        })
    }

    /// What `view`, whose bytes [`LENT`] say where it lies, is seen as.
    pub(super) fn borrow(&self, hold: &mut Hold, view: View) -> Result<View> {
        let [address, len, stride] = [0, 8, 16].map(|first| view.word(first));
        let (len, stride) = (len as usize, stride as usize);
        let others = (self.size() as usize - 1).max(1);
        // Blocks do not overlap, so that all of `len` bytes lie in the span, too, for who reads them as one row.
        if stride != 0 && stride < len / others {
            fail!(
                Other,
                "rank {} shows {len} bytes as blocks {stride} bytes from each other, which is junk",
                view.from
            );
        }
        let span = match stride {
            0 => len,
            _ => others.saturating_mul(stride).saturating_add(len / others),
        };
        let world = self.boards.members[view.from as usize].world;
        let data = match hold.engine.channel.mapped(world, address, span) {
            Some(at) => at.cast_const(),
            None => self.copy_borrowed(hold, world, (address, span), view.from)?,
        };
        Ok(View {
            data,
            len,
            far: None,
            lent: Some(stride),
            ..view
        })
    }

    /// A copy of what a rank lends that this one cannot map.
    #[cold]
    fn copy_borrowed(
        &self,
        hold: &mut Hold,
        world: u32,
        (address, span): (u64, usize),
        from: u32,
    ) -> Result<*const u8> {
        let channel = &mut hold.engine.channel;
        let mut copy = Vec::new();
        let room = span <= channel.segment().home_len() && copy.try_reserve_exact(span).is_ok();
        if room {
            copy.resize(span, 0u8);
        }
        // SAFETY: the vector has room for as many bytes.
        if !room || !unsafe { channel.read_memory(world, address, copy.as_mut_ptr(), span) } {
            fail!(
                Other,
                "rank {from} shows {span} bytes at {address:#x} of its memory that this rank can neither map nor copy"
            );
        }
        let data = copy.as_ptr();
        self.boards.borrowed.borrow_mut().push(copy);
        Ok(data)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::job;
    use super::*;
    use crate::mpi::coll::args::{Data, Root};
    use crate::mpi::coll::board;
    use crate::mpi::coll::call::{Task, perform};
    use crate::mpi::coll::signature::{Call, Signature};
    use crate::mpi::coll::support::data;

    #[test]
    fn a_buffer_is_the_same_until_a_word_of_it_changes() {
        let mut words = vec![7u64; 512];
        let mut samples = Samples::default();
        let mut ask = |words: &[u64]| {
            // SAFETY: the words are there.
            unsafe { samples.are_same(words.as_ptr().cast(), size_of_val(words)) }
        };
        assert!(!ask(&words), "it is not known yet");
        assert!(!ask(&words), "a call that asks twice hears the same");
        samples.calls += 1;
        let mut ask = |words: &[u64], calls| {
            samples.calls += calls;
            // SAFETY: as above.
            unsafe { samples.are_same(words.as_ptr().cast(), size_of_val(words)) }
        };
        assert!(ask(&words, 0) && ask(&words, 1));
        for at in [0, 511] {
            words[at] += 1;
            assert!(!ask(&words, 1), "word {at} has changed");
            assert!(ask(&words, 1));
        }
        assert!(!ask(&words[..256], 1), "another length is another buffer");
        words.fill(9);
        assert!(!ask(&words, 1));
    }

    /// Bytes that rank 0 put on its board for each of some broadcasts of 4000 integers, before the third of which it changes them.
    fn shown(cpus: u32, at_home: bool, set: &[(&str, u64)]) -> Vec<(bool, u32)> {
        let all = std::sync::Mutex::new(Vec::new());
        job(3, cpus, set, false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let mut elsewhere = vec![0i32; 4000];
            let home = hold.engine.channel.home().unwrap();
            let ints = match at_home {
                // SAFETY: the home has room for them, and nobody else uses it.
                true => unsafe { std::slice::from_raw_parts_mut(home.start as *mut i32, 4000) },
                false => &mut elsewhere[..],
            };
            for call in 0..4 {
                let value = call / 2 + 1;
                ints.fill(if rank == 0 { value } else { -1 });
                let message: Data = data(ints);
                perform(&mut hold, &comm, Task::Bcast(Root::Rank(0), message)).unwrap();
                assert!(ints.iter().all(|&int| int == value), "rank {rank}, call {call}");
                let boards = board::of(&hold, &comm).unwrap();
                if rank == 0 {
                    let turn = boards.before + comm.context.next_turn();
                    let note = boards.members[0].board.slot(turn).note();
                    all.lock().unwrap().push((note.far, note.len));
                }
            }
        });
        all.into_inner().unwrap()
    }

    /// What rank 0 shows then says that blocks of 32 KiB lie a byte from each other, at the end of its home.
    #[test]
    fn blocks_that_overlap_are_junk() {
        job(3, 8, &[], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            crate::mpi::coll::barrier(&mut hold, &comm).unwrap();
            let boards = board::of(&hold, &comm).unwrap().clone();
            let at = board::Where::new(&comm, &boards, Signature::of(Call::Bcast), board::MOST);
            let (turn, len) = (at.turn(), 1 << 16);
            match rank {
                0 => {
                    let end = hold.engine.channel.home().unwrap().end;
                    turn.show_lent(&mut hold, [(end - len / 2 - 2) as u64, len as u64, 1])
                        .unwrap();
                }
                _ => {
                    let error = turn.see(&mut hold, 0, Some(len)).err().unwrap();
                    assert!(error.to_string().contains("junk"), "{error}");
                }
            }
            turn.finish(&hold);
            boards.take_back(&mut hold, &comm).unwrap();
        });
    }

    /// Rank 1 can map nothing of the others' memory, and copies what they lend; rank 2 can do neither and says so.
    #[test]
    fn what_cannot_be_mapped_is_copied_or_else_refused() {
        job(3, 8, &[], false, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let home = hold.engine.channel.home().unwrap();
            // SAFETY: the home has room for them, and nobody else uses it.
            let ints = unsafe { std::slice::from_raw_parts_mut(home.start as *mut i32, 4000) };
            if rank > 0 {
                hold.engine.channel.never_map(0);
            }
            for last in [false, true] {
                if last && rank == 2 {
                    hold.engine.channel.never_read(0);
                }
                ints.fill(if rank == 0 { 7 } else { -1 });
                let outcome = perform(&mut hold, &comm, Task::Bcast(Root::Rank(0), data(ints)));
                match last && rank == 2 {
                    true => assert!(outcome.unwrap_err().to_string().contains("neither map nor copy")),
                    false => assert!(outcome.is_ok() && ints.iter().all(|&int| int == 7), "rank {rank}"),
                }
                let boards = board::of(&hold, &comm).unwrap();
                assert!(
                    boards.borrowed.borrow().is_empty() || last,
                    "copies are kept for a call"
                );
            }
        });
    }

    #[test]
    fn what_is_as_it_was_in_the_last_call_is_lent_if_others_can_map_it() {
        // Of this length rank 0 may also offer what it has: far, but other bytes.
        let lent = |shown: Vec<(bool, u32)>| shown.into_iter().map(|(far, _)| far).collect::<Vec<_>>();
        assert_eq!(lent(shown(8, true, &[])), [false, true, false, true]);
        assert_eq!(lent(shown(8, false, &[])), [false; 4]);
        assert_eq!(lent(shown(1, true, &[])), [false; 4]);
        assert_eq!(lent(shown(8, true, &[("NEARMPI_BOARD_LEND", 0)])), [false; 4]);
        assert_eq!(lent(shown(8, true, &[("NEARMPI_BOARD_LEND", 9000)])), [false; 4]);
    }
}
