//! Which way a message takes: by its length, by what has been learnt, by what its receiver has told, and by what the
//! two ranks' CPUs share.
//!
//! Thresholds follow the topology (Chai 2008 §4.1): where two CPUs share no cache, copies through cells are dearer, and
//! what avoids them begins with shorter messages. /sys is read at the first large message to a rank of each place.

use super::joint::JOIN_LEAST;
use super::outgoing::{Out, Outgoing};
use super::packet::Way;
use super::ways::{self, Choice};
use super::{Bytes, Channel};
use crate::shm::pool::Name;
use crate::shm::profile::What;
use crate::shm::ring::LONG;
use crate::sys::cma::{self, Pace};
use crate::sys::{clock, cpu};
use std::sync::atomic::Ordering;

/// A shuttle's first bytes, whose pages are made for whatever comes, at most; its first quarter where that is less.
pub(super) const MADE: usize = 256 << 10;
/// A longer one is made when so many times its bytes have been sent: making its pages costs ten messages that fill it, of
/// each of which it saves 5 to 15%.
const PAGES_AFTER: u64 = 64;

/// Parts of a ring, the least of which a message fills that may go through cells where the ring is full.
const ASIDE: u32 = 64;

/// Where ranks share CPUs and the kernel copies slowly, learning begins at so many times `NEARMPI_ONE_COPY_SHARED`.
const SLOW_KERNEL: u64 = 32;

/// From this part of `NEARMPI_ONE_COPY_MIN` on a message may be copied once if its sender waits for it, or where
/// [`Channel::learns_windows`] says so.
const AWAITED: u64 = 2;

impl<B> Out<B> {
    /// Whether the shuttles' pages for a message of `len` bytes are there, or enough has been sent to make them.
    pub(super) fn is_worth_pages(&self, len: usize) -> bool {
        len <= MADE.min(self.shuttles.capacity() / 4) || self.large / PAGES_AFTER >= len as u64
    }
}

impl<B: Bytes> Channel<B> {
    /// How a message to `to` waits for its receiver and then travels; `None` when it goes by value at once.
    #[inline]
    pub fn plan(&mut self, to: u32, buffer: &B) -> Option<Way> {
        let least = match self.learns_windows(to, buffer.len()) {
            true => self.settings.one_copy_min / AWAITED,
            false => self.settings.one_copy_min,
        };
        self.plan_from(to, buffer, least)
    }

    /// As [`Channel::plan`], a message whose sender waits until it is over, and for which [`Channel::learns`].
    pub fn plan_awaited(&mut self, to: u32, buffer: &B) -> Option<Way> {
        self.plan_from(to, buffer, self.settings.one_copy_min / AWAITED)
    }

    /// Whether there is a choice of ways for `len` bytes in a row, which are short enough for [`Channel::push_row`], if their
    /// sender waits until they are gone.
    #[inline]
    pub fn learns(&self, len: usize) -> bool {
        let least = self.settings.one_copy_min / AWAITED;
        self.overlaps(len) && len as u64 >= least && self.settings.one_copy != 0
    }

    /// ... and if it does not wait: where both ranks send as long ones, who would have to copy in and out, and where the kernel copies
    /// quickly as far as is known, for which several are one call ([`Channel::bring_soon`]). Elsewhere one copy gains nothing in windows.
    #[inline]
    pub(super) fn learns_windows(&self, to: u32, len: usize) -> bool {
        let is_quick = || self.settings.way == 0 && self.pace.is_none_or(Pace::kernel_is_quick);
        self.learns(len) && (is_quick() || self.ways[to as usize].exchanged(len))
    }

    /// Whether messages to `to` of about `len` bytes are about to find out which way is the best.
    pub fn tries(&self, to: u32, len: usize) -> bool {
        self.ways[to as usize].tries(len)
    }

    #[inline]
    fn plan_from(&mut self, to: u32, buffer: &B, one_copy_min: u64) -> Option<Way> {
        let len = buffer.len();
        // To itself, where one copy costs no call of the kernel.
        if to == self.me && self.settings.way != 1 {
            return (len as u64 >= one_copy_min || len > self.ring_max).then_some(Way::Pull);
        }
        let least = one_copy_min.min(self.settings.offer_min);
        if (len as u64) < least * self.settings.far / 100 {
            return None;
        }
        self.look_at(to);
        if self.ways[to as usize].outgrown(self.out[to as usize].producer.size()) {
            self.habits = Default::default();
        }
        let at = buffer.in_a_row();
        let in_a_row = at.is_some();
        let out = &mut self.out[to as usize];
        let before = out.is_worth_pages(len);
        out.large = out.large.saturating_add(len as u64);
        let beaten = || {
            self.pace
                .is_some_and(|pace| self.ways[to as usize].beats_cells(len, pace.own))
        };
        if !before && out.is_worth_pages(len) && !beaten() {
            self.ways[to as usize].retry(len);
            self.habits[ways::class_of(len)] = None;
        }
        let way = self.way(to, len, at, one_copy_min);
        self.waits(to, (len, in_a_row), way).then_some(way)
    }

    fn way(&mut self, to: u32, len: usize, at: Option<*mut u8>, one_copy_min: u64) -> Way {
        let one_copy_min = self.scaled(to, one_copy_min);
        let join_min = self.scaled(to, self.settings.join_min);
        let at_home = at.is_some_and(|at| self.homes.has(at, len));
        let at_hand = at_home || at.is_some() && self.settings.one_copy != 0;
        match self.settings.way {
            _ if !at_hand => Way::Cells,
            1 => Way::Cells,
            2 => Way::Pull,
            3 => Way::Join,
            4 if len < one_copy_min => Way::Cells,
            4 if len < join_min => Way::Pull,
            4 => Way::Join,
            _ => match !at_home && self.is_given(to, len as u64) {
                true => Way::Cells,
                false => self.learnt_way(to, (len, at_home), one_copy_min, join_min),
            },
        }
    }

    /// Whether messages of `len` bytes to `to` go through cells and nothing is learnt, because ranks share CPUs: who copies, by itself
    /// or in the kernel, takes the time from the others. Where the kernel copies quickly that is worth finding out all the same, and
    /// lines that come from a core far away, past whose caches this rank has come to write therefore, cost more than trying.
    fn is_given(&mut self, to: u32, len: u64) -> bool {
        let least = self.settings.one_copy_shared;
        let near = |low: &Self| !low.out[to as usize].stores.streaming() || low.is_here(to);
        self.segment.oversubscribed()
            && len < least.saturating_mul(SLOW_KERNEL)
            && near(self)
            && (len < least || !self.pace.get_or_insert_with(cma::pace).kernel_is_quick())
    }

    /// Where learning has a choice: both sides copy what makes a chunk for each, above twice `join_min` one
    /// side alone is never worth it. What could go by shuttle begins with that, but what has just become worth the shuttle's pages goes
    /// on as it did until it has tried that (`Ways::retry`). Where ranks share CPUs and the kernel copies quickly it begins with one copy.
    /// Of what lies in this rank's home the kernel's pace says nothing.
    fn learnt_way(&mut self, to: u32, (len, at_home): (usize, bool), one_copy_min: usize, join_min: usize) -> Way {
        let pull = len >= one_copy_min && len < 2 * join_min;
        let join = len >= one_copy_min.max(2 * JOIN_LEAST);
        let by_shuttle = self.goes_by_shuttle(to, len, true);
        let quick = || self.segment.oversubscribed() && self.pace.is_some_and(Pace::kernel_is_quick);
        let producer = &self.out[to as usize].producer;
        let (long, grows) = (producer.size() >= LONG, producer.may_have() >= Some(LONG));
        let guess = match len {
            _ if long => Way::Cells,
            _ if pull && !at_home && quick() => Way::Pull,
            _ if join && 2 * len >= join_min && !by_shuttle => Way::Join,
            _ => Way::Cells,
        };
        if self.pace.is_none() && self.ways[to as usize].is_about_to_try(len) {
            self.pace = Some(cma::pace());
        }
        let pace = self.pace.unwrap_or_default();
        let mut choice = Choice {
            open: 1 | (pull as u8) << Way::Pull as u8 | (join as u8) << Way::Join as u8,
            guess,
            one_copy: if at_home { 0.0 } else { pace.kernel },
            call: if at_home { 0.0 } else { pace.call / len as f32 },
            two_copies: pace.own,
            grows,
        };
        let habit = self.habits[ways::class_of(len)].filter(|&way| choice.has(way));
        choice.guess = habit.unwrap_or(guess);
        let (out, pool) = (&mut self.out[to as usize], &self.pool);
        let under_way = |last: Option<Name>| match out.messages.is_empty() && last.is_none_or(|name| pool.is_back(name))
        {
            true => out.producer.unread().map_or(u64::MAX, u64::from),
            false => u64::MAX,
        };
        let ways = &mut self.ways[to as usize];
        let before = ways.settled(len);
        let way = ways.choose(len, choice, under_way, clock::nanoseconds);
        let settled = ways.settled(len);
        if let Some(found) = settled {
            self.habits[ways::class_of(len)] = settled;
            if let (None, Some(meter)) = (before, self.meter()) {
                let what = match found {
                    Way::Cells => What::Cells,
                    Way::Pull => What::OneCopy,
                    Way::Join => What::Joint,
                };
                meter.event(what, to, ways::least(len));
            }
        }
        way
    }

    /// Whether `message` goes through the ring in one piece, as soon as there is room.
    pub(super) fn goes_whole(&mut self, to: u32, message: &Outgoing<B>) -> bool {
        let short = message.end <= self.ring_max && message.position == 0;
        short && !self.goes_in_parts(to, message) && !self.goes_aside(to, message.end)
    }

    /// Whether a message of `len` bytes that the ring is too full for goes through cells rather than wait, where nothing goes in parts:
    /// ranks that share CPUs change places each time that a ring is full.
    fn goes_aside(&mut self, to: u32, len: usize) -> bool {
        let producer = &mut self.out[to as usize].producer;
        let (size, len) = (producer.size(), len as u32);
        self.part == 0 && len > size / ASIDE && producer.has_room(len, len) == Ok(false)
    }

    /// Finds out, the first time, how far away `to` is.
    fn look_at(&mut self, to: u32) {
        if self.far[to as usize].is_some() || self.settings.far == 100 {
            return;
        }
        let pid = self.segment.rank(to).pid.load(Ordering::Relaxed) as i32;
        let (mine, theirs) = (cpu::mask(0), cpu::mask(pid));
        self.far[to as usize] = Some(pid > 0 && self.places.are_far(&mine, &theirs));
    }

    /// A threshold of `bytes`, for messages to `to`.
    pub(super) fn scaled(&self, to: u32, bytes: u64) -> usize {
        let percent = match self.far[to as usize] {
            Some(true) => self.settings.far,
            _ => 100,
        };
        (bytes as usize).saturating_mul(percent as usize) / 100
    }
}

#[cfg(test)]
mod tests {
    use super::super::joint::tests::{Plain, channels};
    use super::super::outgoing::Sent;
    use super::super::wait::tests::stay_here;
    use super::super::{Arrival, Glance};
    use super::*;
    use crate::shm::segment::Segment;
    use crate::shm::stores::Stores;
    use crate::sys::cma::Pace;
    use crate::sys::cvar::Settings;
    use std::sync::Arc;

    #[test]
    fn short_messages_of_a_window_do_not_go_by_shuttle() {
        let (mut low, _high) = channels();
        let mut bytes = [1; 4096];
        let goes = |low: &mut Channel<Plain>| [20_000, 40_000].map(|len| low.goes_by_shuttle(1, len, true));
        assert_eq!(goes(&mut low), [true; 2]);
        for _ in 0..20 {
            assert_eq!(low.send(1, 5, &Plain(bytes.as_mut_ptr(), 8), 0), Ok(Sent::Done));
        }
        assert_eq!(goes(&mut low), [true; 2], "the ring's pages would have to be made");
        assert_eq!(
            low.send(1, 5, &Plain(bytes.as_mut_ptr(), bytes.len()), 0),
            Ok(Sent::Done)
        );
        assert_eq!(goes(&mut low), [false, true]);
        low.settings.shuttle_alone = 0;
        assert_eq!(goes(&mut low), [true; 2]);
    }

    #[test]
    fn where_ranks_share_cpus_nothing_is_learnt_about_what_is_not_very_long() {
        let segment = Arc::new(Segment::private(2, 1).unwrap());
        let mut low = Channel::<Plain>::join(segment, 0, Settings::read(|_| None).unwrap());
        let mut bytes = vec![1u8; 1 << 20];
        let at = bytes.as_mut_ptr();
        let ways = |low: &mut Channel<Plain>, len| -> Vec<Way> {
            (0..100).map(|_| low.way(1, len, Some(at), 32_768)).collect()
        };
        let pace = |kernel| {
            Some(Pace {
                kernel,
                own: 0.03,
                ..Pace::default()
            })
        };
        low.pace = pace(0.1);
        assert!(ways(&mut low, 500_000).iter().all(|&way| way == Way::Cells) && !low.tries(1, 500_000));
        assert!(ways(&mut low, 1 << 20).iter().any(|&way| way != Way::Cells));
        low.pace = pace(0.03);
        assert!(ways(&mut low, 32_767).iter().all(|&way| way == Way::Cells));
        assert_eq!(
            ways(&mut low, 32_768)[0],
            Way::Pull,
            "what a quick kernel does is tried first"
        );
        low.pace = pace(0.1);
        low.settings.way = 4;
        assert_eq!(low.way(1, 500_000, Some(at), 32_768), Way::Pull, "by length alone");
        (low.settings.way, low.settings.one_copy_shared) = (0, 0);
        assert!(ways(&mut low, 500_000).iter().any(|&way| way != Way::Cells));
    }

    #[test]
    fn where_ranks_share_cpus_ways_to_a_core_far_away_are_learnt() {
        let segment = Arc::new(Segment::private(2, 1).unwrap());
        let here = stay_here();
        let mut bytes = vec![1u8; 500_000];
        let at = bytes.as_mut_ptr();
        let mut low = Channel::<Plain>::join(segment.clone(), 0, Settings::read(|_| None).unwrap());
        low.pace = Some(Pace {
            kernel: f32::INFINITY,
            own: 0.03,
            ..Pace::default()
        });
        let mut learns = |past: bool, cpu| {
            low.out[1].stores = if past { Stores::past() } else { Stores::plain() };
            segment.rank(1).bell.seen_on(cpu);
            (0..100).any(|_| low.way(1, 500_000, Some(at), 32_768) != Way::Cells)
        };
        assert!(!learns(false, here + 1) && !learns(true, here));
        assert!(learns(true, here + 1));
    }

    #[test]
    fn long_messages_begin_with_cells_once_the_ring_is_a_long_one() {
        let segment = Arc::new(Segment::private(2, 2).unwrap());
        let settings = Settings {
            ring_grow: 1,
            ring_large: 4 << 20,
            shuttle_max: 0,
            ..Settings::read(|_| None).unwrap()
        };
        let mut low = Channel::<Plain>::join(segment.clone(), 0, settings);
        let _high = Channel::<Plain>::join(segment, 1, Settings::read(|_| None).unwrap());
        let mut bytes = vec![1u8; 600_000];
        let (at, len) = (Some(bytes.as_mut_ptr()), bytes.len());
        assert_eq!(low.way(1, len, at, 32_768), Way::Join);
        let message = Plain(bytes.as_mut_ptr(), 30_000);
        (0..20).for_each(|_| _ = low.send(1, 5, &message, 0).unwrap());
        assert!(low.out[1].producer.size() >= LONG);
        low.ways[1].forget(len);
        assert_eq!(low.way(1, len, at, 32_768), Way::Cells);
    }

    #[test]
    fn of_many_ranks_a_quarter_of_a_shuttle_is_there_for_whatever_comes() {
        let segment = Arc::new(Segment::private(16, 16).unwrap());
        let mut low = Channel::<Plain>::join(segment, 0, Settings::read(|_| None).unwrap());
        let quarter = low.out[1].shuttles.capacity() / 4;
        assert!(quarter < MADE);
        assert_eq!(
            [0, 1].map(|more| low.goes_by_shuttle(1, quarter + more, true)),
            [true, false]
        );
    }

    #[test]
    fn where_ranks_share_cpus_only_short_messages_wait_for_room_in_the_ring() {
        let (mut low, _high) = channels();
        low.part = 0;
        let size = low.out[1].producer.size() as usize;
        let mut bytes = vec![1; size / 32];
        for (len, goes) in [(size / 32, Sent::Done), (size / 64, Sent::Later)] {
            let message = Plain(bytes.as_mut_ptr(), len);
            let (ring, cells) = (low.counters.ring, low.counters.cells);
            while low.out[1].producer.has_room(len as u32, len as u32) == Ok(true) {
                assert_eq!(low.send(1, 5, &message, 0), Ok(Sent::Done));
            }
            assert!(low.counters.ring >= ring && low.counters.cells == cells);
            assert_eq!(low.send(1, 5, &message, 0), Ok(goes));
            assert_eq!(low.counters.cells > cells, goes == Sent::Done);
        }
    }

    #[test]
    fn a_long_message_goes_by_shuttle_once_as_much_has_gone_as_its_pages_cost() {
        let (mut low, _high) = channels();
        let mut bytes = vec![1u8; 3 << 20];
        let message = Plain(bytes.as_mut_ptr(), bytes.len());
        low.pace = Some(Pace::default());
        let mut by_shuttle = |messages| (0..messages).filter(|_| low.plan(1, &message).is_none()).count();
        // The last one that it takes may go by shuttle itself.
        assert_eq!(by_shuttle(PAGES_AFTER - 1), 0);
        assert!(by_shuttle(2 * PAGES_AFTER) > 0, "never tried");
        let short = Plain(bytes.as_mut_ptr(), MADE);
        let (mut low, _high) = channels();
        assert!(low.plan(1, &short).is_none(), "those pages are made anyway");
    }

    #[test]
    fn a_sender_that_waits_has_a_choice_from_half_the_length_on() {
        let (mut low, _high) = channels();
        let least = low.settings.one_copy_min as usize;
        let mut bytes = vec![1u8; least - 1];
        let message = Plain(bytes.as_mut_ptr(), bytes.len());
        assert!(low.learns(least / 2) && !low.learns(least / 2 - 1));
        low.pace = Some(Pace {
            kernel: f32::INFINITY,
            own: 1.0,
            ..Pace::default()
        });
        assert_eq!(low.plan(1, &message), None, "others go through the ring");
        low.ways[1].settle_on(least - 1, Way::Pull);
        assert_eq!(low.plan_awaited(1, &message), Some(Way::Pull));
        low.settings.one_copy = 0;
        assert!(!low.learns(least - 1));
    }

    #[test]
    fn a_way_that_is_closed_to_a_length_is_not_taken_though_others_of_its_class_go_so() {
        let (mut low, _high) = channels();
        (
            low.settings.one_copy_min,
            low.settings.offer_min,
            low.settings.shuttle_max,
        ) = (100_000, 1, 0);
        let mut bytes = vec![1u8; 100_001];
        let at = bytes.as_mut_ptr();
        low.ways[1].settle_on(bytes.len(), Way::Pull);
        for (len, way) in [(99_999, Way::Cells), (100_001, Way::Pull)] {
            assert_eq!(low.way(1, len, Some(at), 100_000), way, "{len} bytes");
        }
        low.ways[1] = Default::default();
        low.habits[ways::class_of(99_999)] = Some(Way::Pull);
        assert_eq!(low.way(1, 99_999, Some(at), 100_000), Way::Cells);
    }

    #[test]
    fn the_higher_rank_follows_what_has_come_whole_through_the_ring() {
        let (mut low, mut high) = channels();
        let mut bytes = vec![1u8; low.settings.ring_max as usize];
        low.settings.shuttle_max = 0;
        let message = Plain(bytes.as_mut_ptr(), bytes.len());
        for glance in [false, true] {
            high.ways[0].settle_on(message.1, Way::Pull);
            assert_eq!(high.plan(0, &message), Some(Way::Pull));
            assert_eq!(low.send(1, 7, &message, 3), Ok(Sent::Done));
            match glance {
                true => {
                    let Glance::Whole { outside, .. } = high.glance(0) else {
                        panic!("a whole message");
                    };
                    high.leave(0, outside);
                }
                false => {
                    assert!(matches!(high.poll(None), Ok(Some(Arrival::Message { .. }))));
                    high.consume(0);
                }
            }
            assert_eq!(high.plan(0, &message), None);
        }
    }

    #[test]
    fn thresholds_are_lower_for_those_far_away() {
        let (mut sender, _receiver) = channels();
        (
            sender.settings.way,
            sender.settings.offer_min,
            sender.settings.shuttle_max,
        ) = (1, 16_384, 0);
        let mut bytes = vec![0u8; 60_000];
        let message = Plain(bytes.as_mut_ptr(), bytes.len());
        sender.far[1] = Some(false);
        assert_eq!(sender.plan(1, &message), None);
        sender.far[1] = Some(true);
        assert!(sender.plan(1, &message).is_some());
        sender.settings.far = 100;
        assert_eq!(sender.plan(1, &message), None);
    }
}
