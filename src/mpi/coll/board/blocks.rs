//! # Safety
//! Copies from buffers of the program into room that is made for what is copied.
//!
//! What a rank shows for each of the others: a block, or a part of each. It has none for itself, so of two ranks both show the
//! same lines ([`swap`](super::swap)).
#![allow(unsafe_code)]

use super::{Turn, View};
use crate::mpi::buffer::Buffer;
use crate::mpi::error::Result;
use crate::mpi::world::Hold;

impl Turn<'_> {
    /// Shows a part of the block for each of the others: its first byte, and how many.
    ///
    /// # Errors
    /// As [`Turn::show`].
    pub fn show_parts(
        &self,
        hold: &mut Hold,
        (first, part): (usize, usize),
        block: impl Fn(u32) -> Buffer,
    ) -> Result<()> {
        let me = self.comm.rank;
        self.show_with(hold, part * (self.size() as usize - 1), |sheet| {
            for rank in (0..self.size()).filter(|&rank| rank != me) {
                let block = block(rank);
                let place = place_among(rank, me) * part;
                // SAFETY: the sheet has `part` bytes for each block, which the program owns.
                unsafe { sheet.pack(place, &block, first, part.min(block.len().saturating_sub(first))) };
            }
        })
    }

    /// Waits for what `from` shows for each of the others, `part` bytes: those for this rank.
    ///
    /// # Errors
    /// As [`Turn::see`].
    pub fn see_part(&self, hold: &mut Hold, from: u32, part: usize) -> Result<View> {
        let view = self.see(hold, from, Some(part * (self.size() as usize - 1)))?;
        let place = match view.lent {
            None => place_among(self.comm.rank, from) * part,
            Some(stride) => self.comm.rank as usize * stride,
        };
        Ok(View {
            data: view.data.wrapping_add(place),
            len: part,
            ..view
        })
    }
}

/// The place of `rank` among all ranks but `one`.
fn place_among(rank: u32, one: u32) -> usize {
    rank as usize - usize::from(rank > one)
}
