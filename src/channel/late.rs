//! What a sender does whose receiver is late.
//!
//! *Skew* (Chai 2008 §4.2): a receiver whose queue of unexpected messages stays long tells the senders of large
//! messages to send them by value up to a higher threshold, so that they run ahead instead of waiting for it; when
//! it keeps up again, or when its queue becomes so long that its memory matters, it tells them otherwise.
//!
//! *Leaving*: a sender that would fall asleep copies the messages which it has offered, and nobody has taken, into
//! memory of its own and lets the program go on. The offers stand, at new addresses. Where ranks share CPUs it sleeps a
//! while first: its receiver may need this CPU. What it has offered to itself, and waits for, leaves at once.

use super::packet::{Offered, Record, Way};
use super::wait::NAP;
use super::{Bytes, Channel, Fault, Ticket};
use crate::shm::pool::CELL;
use crate::shm::profile::What;
use crate::sys::clock;
use crate::sys::cvar::Settings;
use std::time::Duration;

/// Arrivals in a row, more or less, that make a receiver late, or one that keeps up.
const STREAK: u32 = 16;

/// What a receiver has told a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Level {
    /// The thresholds of the control variables.
    #[default]
    Usual = 0,
    /// Large messages by value up to `NEARMPI_SKEW_MAX`.
    Raised = 1,
    /// None of them by value.
    Flooded = 2,
}

/// How late a receiver is for one sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness {
    streak: u32,
    told: Level,
}

impl Level {
    pub(super) fn of(number: u8) -> Option<Level> {
        [Level::Usual, Level::Raised, Level::Flooded]
            .get(usize::from(number))
            .copied()
    }
}

impl Lateness {
    /// A large message has come, expected or into a queue of `queue` messages; what to tell its sender, if
    /// anything.
    fn arrival(&mut self, expected: bool, queue: usize, settings: &Settings) -> Option<Level> {
        let (long, most) = (settings.skew_queue as usize, settings.skew_most as usize);
        match !expected && queue > long {
            true => self.streak = (self.streak + 1).min(STREAK),
            false => self.streak = self.streak.saturating_sub(1),
        }
        let level = match self.told {
            _ if queue > most => Level::Flooded,
            Level::Flooded if queue > most / 2 => Level::Flooded,
            _ if self.streak == STREAK => Level::Raised,
            Level::Raised if self.streak > 0 => Level::Raised,
            _ => Level::Usual,
        };
        (level != self.told).then(|| {
            self.told = level;
            level
        })
    }
}

/// Up to so many times `NEARMPI_OFFER_MIN` go without an offer where the ring or the cells have room.
pub const AT_ONCE: usize = 4;
/// ... where it is the cells: with the defaults half of those that a rank has.
const AT_ONCE_IN_CELLS: usize = 8;

impl<B: Bytes> Channel<B> {
    /// A large message from `from` has found its receive, or has joined a queue of now `queue` unexpected messages.
    ///
    /// # Errors
    /// A [`Fault`] when the ring to the sender makes no sense.
    pub fn note_arrival(&mut self, from: u32, expected: bool, queue: usize) -> Result<(), Fault> {
        if self.settings.skew == 0 {
            return Ok(());
        }
        let lateness = &mut self.lateness[from as usize];
        if let Some(level) = lateness.arrival(expected, queue, &self.settings) {
            self.counters.levels += 1;
            if let Some(meter) = self.meter() {
                let what = match level {
                    Level::Usual => What::Usual,
                    Level::Raised => What::Raised,
                    Level::Flooded => What::Flooded,
                };
                meter.event(what, from, queue as u64);
            }
            self.control(from, Record::level(level as u8))?;
        }
        Ok(())
    }

    /// The receiver `from` has told a level.
    pub(super) fn set_level(&mut self, from: u32, number: u8) -> Result<(), Fault> {
        self.levels[from as usize] = Level::of(number).ok_or(Fault { from })?;
        Ok(())
    }

    /// Whether a message of `len` bytes to `to`, in a row or not, with a choice of `way`, waits for its receiver.
    pub(super) fn waits(&mut self, to: u32, (len, in_a_row): (usize, bool), way: Way) -> bool {
        let offer_min = self.scaled(to, self.settings.offer_min);
        match self.levels[to as usize] {
            Level::Usual => way != Way::Cells || len >= offer_min && !self.goes_at_once(to, (len, in_a_row), offer_min),
            Level::Raised => len >= offer_min.max(self.settings.skew_max as usize),
            Level::Flooded => true,
        }
    }

    /// Whether a message that could wait goes by value all the same, which saves the answer to an offer: if a shuttle, the ring or,
    /// instead of that, the cells have room for all of it, so that its sender need not wait for a late receiver, and those before it have
    /// been read. (Where ranks share CPUs an answer takes two changes of place.)
    /// In a window of messages the answers come while others are copied, and one copy is less work than two.
    fn goes_at_once(&mut self, to: u32, (len, in_a_row): (usize, bool), offer_min: usize) -> bool {
        if self.goes_by_shuttle(to, len, in_a_row) {
            return true;
        }
        let most = if self.part == 0 { AT_ONCE_IN_CELLS } else { AT_ONCE };
        if len > offer_min.saturating_mul(most) {
            return false;
        }
        if self.part == 0 {
            return self.out[to as usize].messages.is_empty() && self.pool.is_whole(len.div_ceil(CELL));
        }
        let part = self.part_of(len, in_a_row) as u32;
        let out = &mut self.out[to as usize];
        // So much may have been read without a word about it.
        let untold = out.producer.size() / self.settings.credit_fraction as u32;
        let is_read = out.messages.is_empty() && matches!(out.producer.unread(), Ok(bytes) if bytes <= untold);
        is_read && u32::try_from(len).is_ok_and(|len| out.producer.has_room(len, part) == Ok(true))
    }

    /// Before a sleep: ends the sends whose messages nobody has taken, and that may be kept. Where ranks share CPUs, only those that have
    /// waited for `NEARMPI_LATE_AFTER` since the first such look: a receiver that has not had its turn yet is not late, and two more
    /// copies are a loss to all. How long the sleep may be; `None` if some sends are over.
    pub fn leave_late(&mut self) -> Option<Duration> {
        let (longest, room) = (self.settings.late_max as usize, self.settings.late_room as usize);
        let after = match self.segment.lacks_cpus() {
            true => Duration::from_micros(self.settings.late_after),
            false => Duration::ZERO,
        };
        let (now, before, mut most) = (clock::nanoseconds(), self.sent.len(), NAP);
        for index in 0..self.offers.slots() {
            let held = self.offers.kept;
            let Some(open) = self.offers.may_leave(index) else {
                continue;
            };
            let len = open.buffer.len();
            if len > longest || held + len > room {
                continue;
            }
            let waited = Duration::from_nanos(now - *open.waits_since.get_or_insert(now));
            if waited < after {
                most = most.min(after - waited);
                continue;
            }
            self.let_go(index);
        }
        (self.sent.len() == before).then_some(most)
    }

    /// A message of this rank's to itself has come that no receive is there for, and the program waits for nothing but its send, `ticket`: who
    /// would have to go on is late for certain. It leaves at once if the messages kept may be so long, whatever its length.
    pub fn leave_own(&mut self, offered: &Offered, ticket: Ticket) {
        let room = (self.settings.late_room as usize).saturating_sub(self.offers.kept);
        let is_own = offered.from == self.me
            && (self.offers.find(offered.id, self.me)).is_some_and(|open| open.ticket == Some(ticket));
        if is_own && offered.len <= room as u64 && self.offers.may_leave(offered.id.index).is_some() {
            self.let_go(offered.id.index);
        }
    }

    /// The message that is offered under `index` goes on in memory of this rank's own, unless somebody has taken it.
    fn let_go(&mut self, index: u32) {
        let Some(open) = self.offers.may_leave(index) else {
            return;
        };
        let (usage, kept) = (open.usage, open.buffer.kept());
        let moved = kept.in_a_row().zip(self.segment.offer(self.me, index));
        if let Some((address, offer)) = moved
            && offer.move_to(usage, address as u64)
        {
            self.counters.left += 1;
            self.sent.extend(self.offers.leave(index, kept));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Arrival;
    use super::super::joint::tests::{LEN, Plain, channels, drain};
    use super::super::outgoing::Terms;
    use super::super::pull::Brought;
    use super::*;
    use std::time::Instant;

    const LEAVES: Terms = Terms {
        may_leave: true,
        may_cancel: false,
    };

    fn settings() -> Settings {
        Settings::read(|_| None).unwrap()
    }

    #[test]
    fn a_receiver_that_stays_late_raises_the_threshold_and_lowers_it_when_it_keeps_up() {
        let (mut lateness, settings) = (Lateness::default(), settings());
        let mut told = Vec::new();
        for _ in 0..STREAK {
            assert_eq!(told, []);
            told.extend(lateness.arrival(false, 20, &settings));
        }
        assert_eq!(told, [Level::Raised]);
        // Now and then a message that is expected changes nothing.
        for turn in 0..100 {
            told.extend(lateness.arrival(turn % 3 == 0, 20, &settings));
        }
        assert_eq!(told, [Level::Raised]);
        for _ in 0..STREAK {
            told.extend(lateness.arrival(true, 2, &settings));
        }
        assert_eq!(told, [Level::Raised, Level::Usual]);
    }

    #[test]
    fn a_short_queue_is_no_skew() {
        let mut lateness = Lateness::default();
        let settings = settings();
        assert!((0..1000).all(|_| lateness.arrival(false, 3, &settings).is_none()));
    }

    #[test]
    fn a_flood_ends_sending_by_value_until_half_of_it_is_gone() {
        let (mut lateness, settings) = (Lateness::default(), settings());
        let most = settings.skew_most as usize;
        assert_eq!(lateness.arrival(false, most + 1, &settings), Some(Level::Flooded));
        assert_eq!(lateness.arrival(true, most / 2 + 1, &settings), None);
        assert_eq!(lateness.arrival(true, most / 2, &settings), Some(Level::Usual));
    }

    #[test]
    fn a_long_message_goes_by_shuttle_at_once_if_one_is_here() {
        let (mut sender, _receiver) = channels();
        (sender.settings.way, sender.settings.offer_min) = (1, 16_384);
        sender.out[1].large = u64::MAX;
        let mut bytes = vec![1u8; 300_000];
        let message = Plain(bytes.as_mut_ptr(), bytes.len());
        assert_eq!(sender.plan(1, &message), None);
        assert_eq!(sender.send(1, 5, &message, 0), Ok(super::super::outgoing::Sent::Done));
        assert!(sender.plan(1, &message).is_some());
    }

    #[test]
    fn a_long_message_goes_by_cells_at_once_if_receivers_hold_none() {
        let (mut sender, mut receiver) = channels();
        (sender.settings.way, sender.part) = (1, 0);
        let mut bytes = vec![1u8; 600_000];
        let at = bytes.as_mut_ptr();
        let (long, longest) = (Plain(at, 100_000), Plain(at, 8 * 65_536));
        assert!(sender.plan(1, &Plain(at, longest.1 + 1)).is_some());
        assert_eq!(sender.plan(1, &longest), None);
        assert_eq!(sender.plan(1, &long), None);
        assert_eq!(sender.send(1, 5, &long, 0), Ok(super::super::outgoing::Sent::Done));
        assert!(sender.plan(1, &long).is_some(), "nothing has been read");
        let mut read = 0;
        while let Some(arrival) = receiver.poll(None).unwrap() {
            let Arrival::Portion { from, portion, .. } = arrival else {
                panic!("{arrival:?}");
            };
            receiver.empty_cells(from, &portion, |_, _, len| read += len);
            receiver.consume(from);
        }
        assert_eq!(read, 100_000);
        assert_eq!(sender.plan(1, &long), None, "all has");
    }

    #[test]
    fn a_sender_does_as_its_receiver_tells_it() {
        let (mut sender, mut receiver) = channels();
        (sender.settings.offer_min, sender.settings.shuttle_max) = (16_384, 0);
        let mut bytes = vec![1u8; LEN];
        let at = bytes.as_mut_ptr();
        let (few, many, huge) = (Plain(at, 20_000), Plain(at, 100_000), Plain(at, LEN));
        let offered = |sender: &mut Channel<Plain>| [&few, &many, &huge].map(|buffer| sender.plan(1, buffer).is_some());
        assert_eq!(offered(&mut sender), [false, true, true]);
        for (level, plan) in [
            (Level::Raised, [false, false, true]),
            (Level::Flooded, [true; 3]),
            (Level::Usual, [false, true, true]),
        ] {
            receiver.control(0, Record::level(level as u8)).unwrap();
            assert!(matches!(sender.poll(None), Ok(None)));
            assert_eq!(offered(&mut sender), plan, "{level:?}");
        }
        receiver.control(0, Record::level(3)).unwrap();
        assert!(matches!(sender.poll(None), Err(Fault { from: 1 })));
    }

    #[test]
    fn a_message_that_has_left_is_received_from_where_it_is_kept() {
        for (way, one_copy) in [(Way::Pull, true), (Way::Cells, true), (Way::Pull, false)] {
            let (mut sender, mut receiver) = channels();
            if !one_copy {
                receiver.settings.one_copy = 0;
            }
            let len = 100_000;
            let mut source: Vec<u8> = (0..len).map(|at| at as u8).collect();
            let message = Plain(source.as_mut_ptr(), len);
            let id = sender.offer(1, 5, &message, 3, way, LEAVES).unwrap().unwrap();
            let Ok(Some(Arrival::Offer { offered, .. })) = receiver.poll(None) else {
                panic!("no offer came");
            };
            assert_eq!(sender.leave_late(), None);
            assert!(matches!(sender.poll(None), Ok(Some(Arrival::Sent(3)))));
            assert!(!sender.is_flushed() && sender.open_sends().count() == 0);
            assert!(
                sender.leave_late() == Some(NAP) && !sender.withdraw(id),
                "it leaves once and stays sent"
            );
            source.fill(0xee);
            assert!(receiver.stands(&offered) && receiver.claim(&offered));
            let mut target = vec![0u8; len];
            let into = Plain(target.as_mut_ptr(), len);
            let brought = receiver.bring(&offered, &into, len, 7).unwrap();
            assert_eq!(
                matches!(brought, Brought::Copied),
                one_copy,
                "the sender may not call MPI any more"
            );
            while !sender.is_flushed() {
                assert!(matches!(sender.poll(None), Ok(None)));
                drain(&mut receiver, &into);
            }
            assert!((0..len).all(|at| target[at] == at as u8), "one copy: {one_copy}");
        }
    }

    #[test]
    fn where_ranks_share_cpus_a_message_leaves_only_when_its_receiver_had_time_for_a_turn() {
        let (mut sender, _receiver) = channels();
        sender.segment.count_on(1);
        sender.settings.late_after = 20_000;
        let after = Duration::from_micros(sender.settings.late_after);
        assert_eq!(sender.leave_late(), Some(NAP), "nothing waits");
        let mut bytes = vec![1u8; 40_000];
        let message = Plain(bytes.as_mut_ptr(), bytes.len());
        sender.offer(1, 5, &message, 3, Way::Pull, LEAVES).unwrap();
        let began = Instant::now();
        while let Some(most) = sender.leave_late() {
            assert!(most <= after && sender.counters.left == 0, "{most:?}");
            std::thread::sleep(most);
        }
        assert!(began.elapsed() >= after && sender.counters.left == 1);
    }

    #[test]
    fn what_is_too_long_or_synchronous_stays() {
        let (mut sender, _receiver) = channels();
        sender.settings.late_max = 50_000;
        sender.settings.late_room = 50_000;
        let mut bytes = vec![1u8; LEN];
        let at = bytes.as_mut_ptr();
        for (len, may_leave) in [(60_000, true), (40_000, false), (40_000, true), (40_000, true)] {
            let terms = Terms { may_leave, ..LEAVES };
            sender.offer(1, 5, &Plain(at, len), 3, Way::Pull, terms).unwrap();
        }
        assert_eq!(sender.leave_late(), None);
        assert_eq!((sender.counters.left, sender.open_sends().count()), (1, 3));
    }
}
