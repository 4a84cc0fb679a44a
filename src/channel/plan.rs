//! Which way a message takes: by its length, by what has been learnt, by what its receiver has told.

use super::packet::Way;
use super::ways::{self, Choice};
use super::{Bytes, Channel};
use crate::shm::pool::Name;
use crate::sys::clock;

impl<B: Bytes> Channel<B> {
    /// How a message to `to` waits for its receiver and then travels; `None` when it goes by value at once.
    #[inline]
    pub fn plan(&mut self, to: u32, buffer: &B) -> Option<Way> {
        let len = buffer.len();
        if len < self.settings.one_copy_min.min(self.settings.offer_min) as usize {
            return None;
        }
        let way = self.way(to, len, buffer.in_a_row().is_some());
        self.waits(to, len, way).then_some(way)
    }

    fn way(&mut self, to: u32, len: usize, in_a_row: bool) -> Way {
        let (one_copy_min, join_min) = (self.settings.one_copy_min as usize, self.settings.join_min as usize);
        let at_hand = in_a_row && self.settings.one_copy != 0 && to != self.me;
        match self.settings.way {
            _ if !at_hand => Way::Cells,
            1 => Way::Cells,
            2 => Way::Pull,
            3 => Way::Join,
            4 if len < one_copy_min => Way::Cells,
            4 if len < join_min => Way::Pull,
            4 => Way::Join,
            _ => self.learnt_way(to, len, one_copy_min, join_min),
        }
    }

    /// Where learning has a choice: below `join_min` / 8 both sides are never worth it, above twice `join_min` one
    /// side alone never is.
    fn learnt_way(&mut self, to: u32, len: usize, one_copy_min: usize, join_min: usize) -> Way {
        let pull = len >= one_copy_min && len < 2 * join_min;
        let join = len >= join_min / 8;
        let guess = match len {
            _ if join && 2 * len >= join_min => Way::Join,
            _ => Way::Cells,
        };
        let choice = Choice {
            open: 1 | (pull as u8) << Way::Pull as u8 | (join as u8) << Way::Join as u8,
            guess: self.habits[ways::class_of(len)].unwrap_or(guess),
        };
        let (queue, pool) = (&self.out[to as usize].messages, &self.pool);
        let quiet = |last: Option<Name>| queue.is_empty() && last.is_none_or(|name| pool.is_back(name));
        let ways = &mut self.ways[to as usize];
        let way = ways.choose(len, choice, quiet, clock::nanoseconds);
        if let Some(settled) = ways.settled(len) {
            self.habits[ways::class_of(len)] = Some(settled);
        }
        way
    }
}
