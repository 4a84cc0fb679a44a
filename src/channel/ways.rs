//! Which way a large message takes, learnt per destination and class of length.
//!
//! Two copies through cells, one copy by the receiver and one copy by both sides each win somewhere: it depends on
//! whether the program rewrites its buffers, on which caches the two CPUs share, on the length. A copy's own time
//! does not tell: a message that the receiver has read lies in its cache, and the *next write* of the sender pays
//! for that. So what is measured is the time from one send to a later one, with all that the program does in
//! between; whatever else it does is the same for each way.
//!
//! ```text
//!  epoch: some messages one way, ended when nothing is under way     cost = time / bytes
//!  first epoch (not counted) -> trial: the ways in turn, up to three rounds, fewer and fewer -> settled for a while
//!                                 ^--------------------------------------------------------------'
//! ```
//! The first messages after a change of ways are not counted: in caches that another way has filled each way is slow.
//! A way replaces the one in use only if it is clearly better. Trials get rarer while they change nothing, the sooner the less
//! the others were near; one of those that costs twice as much is given up after two messages. Where many
//! messages are under way at a time an epoch is all of them, and says as much as several short ones: then two rounds do,
//! and the way in use, too, is tried no more when it is hopeless. A whole epoch of those by a way that takes several times as
//! long is dear, so each other way is probed first: some messages go by it and the rest by the way in use.

use super::packet::Way;
use crate::shm::pool::Name;

/// Lengths of a class: from 2^(14 + its number) on; the last has no end.
const FIRST: u32 = 14;
pub(super) const CLASSES: usize = 9;
/// An epoch has this many messages at least, or half of them and [`EPOCH_BYTES`].
const EPOCH: u32 = 8;
const EPOCH_BYTES: u64 = 256 << 10;
/// ... and ends with this one even if something is still under way.
const LONG: u32 = 512;
/// Rounds of a trial; an epoch of at least [`HEAVY`] messages makes two of them.
const ROUNDS: u8 = 3;
const HEAVY: u32 = 3 * EPOCH;
/// Messages after a change of ways that are not counted: what the other way has left in the caches is still there. A window
/// of [`HEAVY`] messages outweighs that.
const WARM: u32 = EPOCH / 4;
/// Messages of a probe, and how much of the way in use a way may cost by it to be tried.
const PROBE: u32 = 16;
const BEARABLE: f32 = 2.0;
/// A challenger that costs more than this much of the best is not tried again in the trial.
const HOPELESS: f32 = 1.3;
/// Its epoch ends at once when one message, not the first, costs more than this much.
const LOST: f32 = 2.0;
/// Nor is any way, after two rounds, that costs more than this much.
const CLEAR: f32 = 1.1;
/// A challenger must cost less than this much of the way in use.
const BETTER: f32 = 0.93;
/// Epochs from trial to trial: at first, at most.
const PERIOD: (u32, u32) = (64, 1024);

const WAYS: [Way; 3] = [Way::Cells, Way::Pull, Way::Join];

/// Which ways there are for a length, and which one without experience.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// One bit for each.
    pub open: u8,
    /// The best guess.
    pub guess: Way,
}

/// What has been learnt for one destination.
#[derive(Default)]
pub(super) struct Ways {
    classes: Vec<Class>,
}

/// One class of lengths.
#[derive(Clone, Debug)]
struct Class {
    way: Way,
    /// Messages that wait for their receiver or are being copied.
    open: u32,
    /// The cell that was filled last.
    last: Option<Name>,
    /// Start of the epoch, in nanoseconds.
    since: u64,
    /// When the latest message of a challenger started, or the first of those under way, and their bytes.
    latest: (u64, usize),
    count: u32,
    bytes: u64,
    /// The way has just changed.
    cold: bool,
    /// Only the first [`PROBE`] messages of the epoch go by this way, the others by the incumbent's.
    probe: bool,
    phase: Phase,
    period: u32,
    /// Least cost per byte in the latest trial; infinite where it was not tried.
    cost: [f32; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Unused,
    First,
    Trial { incumbent: Way, alive: u8, round: u8 },
    Settled { left: u32 },
}

/// The class of a length.
pub(super) fn class_of(len: usize) -> usize {
    (len.max(1).ilog2().saturating_sub(FIRST) as usize).min(CLASSES - 1)
}

/// The least length of the class of a length; 0 for the first, which has the shorter ones too.
pub(super) fn least(len: usize) -> u64 {
    match class_of(len) {
        0 => 0,
        class => 1 << (FIRST as usize + class),
    }
}

impl Ways {
    /// The way of a message of `len` bytes that is about to start. `quiet` says whether the cell it is given has
    /// been emptied and nothing is queued; `now` tells the time in nanoseconds.
    pub fn choose(
        &mut self,
        len: usize,
        choice: Choice,
        quiet: impl FnOnce(Option<Name>) -> bool,
        now: impl Fn() -> u64,
    ) -> Way {
        if self.classes.is_empty() {
            self.classes = vec![Class::UNUSED; CLASSES];
        }
        let number = class_of(len);
        if self.classes[number].phase == Phase::Unused {
            self.begin(number, choice);
            self.classes[number].since = now();
        } else {
            let class = &mut self.classes[number];
            let lost = class.lost(len, &now);
            let lull = class.open == 0 && class.count >= WARM && (class.cold || class.count >= EPOCH / 2);
            let lull = lull && quiet(class.last);
            if class.cold && lull {
                class.cold = false;
                if class.count < HEAVY {
                    (class.since, class.count, class.bytes, class.last) = (now(), 0, 0, None);
                }
            }
            let enough = class.count >= EPOCH || class.count >= EPOCH / 2 && class.bytes >= EPOCH_BYTES;
            if class.count >= LONG || enough && lull || lost.is_some() {
                let (now, before) = (now(), class.way);
                let cost = now.saturating_sub(class.since) as f32 / class.bytes.max(1) as f32;
                let cost = lost.unwrap_or(cost);
                class.end_epoch(cost, class.count >= HEAVY, choice.open);
                class.cold = class.way != before;
                (class.since, class.count, class.bytes, class.last) = (now, 0, 0, None);
                class.latest = (now, len);
            }
        }
        let class = &mut self.classes[number];
        class.count += 1;
        class.bytes += len as u64;
        match class.phase {
            Phase::Trial { incumbent, .. } if class.probe && class.count > PROBE => incumbent,
            _ => class.way,
        }
    }

    /// Another kind of way has become possible for messages of about `len` bytes: all is learnt anew.
    pub fn forget(&mut self, len: usize) {
        if let Some(class) = self.classes.get_mut(class_of(len)) {
            *class = Class {
                open: class.open,
                ..Class::UNUSED
            };
        }
    }

    /// The message of `len` bytes waits for its receiver.
    pub fn opened(&mut self, len: usize) {
        if let Some(class) = self.classes.get_mut(class_of(len)) {
            class.open += 1;
        }
    }

    /// A message of `len` bytes that did is over.
    pub fn closed(&mut self, len: usize) {
        if let Some(class) = self.classes.get_mut(class_of(len)) {
            class.open = class.open.saturating_sub(1);
        }
    }

    /// Whether messages of about `len` bytes, or longer ones, wait for their receiver or are being copied; never, where no way
    /// has been chosen by learning.
    pub fn under_way(&self, len: usize) -> bool {
        self.classes.iter().skip(class_of(len)).any(|class| class.open > 0)
    }

    /// The last bytes of a message of `len` bytes lie in this cell.
    pub fn filled(&mut self, len: usize, cell: Name) {
        if let Some(class) = self.classes.get_mut(class_of(len)) {
            class.last = Some(cell);
        }
    }

    /// What has been settled for messages of about `len` bytes.
    pub fn settled(&self, len: usize) -> Option<Way> {
        let class = self.classes.get(class_of(len))?;
        matches!(class.phase, Phase::Settled { .. }).then_some(class.way)
    }

    /// A class begins with what the next smaller or larger one has learnt.
    fn begin(&mut self, number: usize, choice: Choice) {
        let known = |class: &&Class| matches!(class.phase, Phase::Settled { .. });
        let shorter = self.classes[..number].last().filter(known);
        let below = shorter.is_some();
        let near = shorter.or(self.classes.get(number + 1).filter(known)).cloned();
        let class = &mut self.classes[number];
        class.phase = Phase::First;
        class.way = choice.guess;
        if let Some(near) = near {
            if choice.has(near.way) {
                class.way = near.way;
            }
            class.cost = near.cost.map(|cost| {
                if cost > HOPELESS * near.best() {
                    cost
                } else {
                    f32::INFINITY
                }
            });
            // Of shorter messages it is no surprise: two copy faster than one, but have to agree first.
            if below {
                class.cost[Way::Join as usize] = f32::INFINITY;
            }
        }
    }
}

impl Choice {
    fn has(self, way: Way) -> bool {
        self.open & bit(way) != 0
    }
}

fn bit(way: Way) -> u8 {
    1 << way as u8
}

impl Class {
    const UNUSED: Class = Class {
        way: Way::Cells,
        open: 0,
        last: None,
        since: 0,
        latest: (0, 0),
        count: 0,
        bytes: 0,
        cold: false,
        probe: false,
        phase: Phase::Unused,
        period: PERIOD.0,
        cost: [f32::INFINITY; 3],
    };

    fn best(&self) -> f32 {
        self.cost.iter().copied().fold(f32::INFINITY, f32::min)
    }

    /// What a byte of the challenger's latest message has cost, if that is so much that no more are needed; another of `len`
    /// bytes is about to start. Its first may make pages, or find caches as another way has left them.
    fn lost(&mut self, len: usize, now: impl Fn() -> u64) -> Option<f32> {
        let challenges = matches!(self.phase, Phase::Trial { incumbent, .. } if incumbent != self.way);
        if !challenges || self.probe {
            return None;
        }
        if self.open > 0 {
            self.latest.1 += len;
            return None;
        }
        let (from, bytes) = std::mem::replace(&mut self.latest, (now(), len));
        let cost = self.latest.0.saturating_sub(from) as f32 / bytes.max(1) as f32;
        (self.count > 1 && cost > LOST * self.best()).then_some(cost)
    }

    fn end_epoch(&mut self, mut cost: f32, heavy: bool, open: u8) {
        match self.phase {
            Phase::Unused => {}
            Phase::First => {
                // What was hopeless for the neighbour (a finite cost, see `begin`) is left for later trials.
                let hopeless = WAYS.iter().filter(|&&way| self.cost[way as usize].is_finite());
                let hopeless = hopeless.fold(0, |bits, &way| bits | bit(way));
                self.begin_trial(open & !hopeless);
            }
            Phase::Settled { left: 1.. } => {
                if let Phase::Settled { left } = &mut self.phase {
                    *left -= 1;
                }
            }
            Phase::Settled { .. } => self.begin_trial(open),
            Phase::Trial {
                incumbent,
                mut alive,
                mut round,
            } => {
                let way = self.way;
                if std::mem::take(&mut self.probe) {
                    let used = self.cost[incumbent as usize];
                    cost = used + (cost - used) * (self.count as f32 / PROBE as f32).max(1.0);
                    if cost <= BEARABLE * used {
                        return;
                    }
                }
                let slot = &mut self.cost[way as usize];
                *slot = slot.min(cost);
                let (best, cost) = (self.best(), self.cost);
                let tried = |way: &&Way| heavy || **way == self.way && **way != incumbent;
                for &way in WAYS.iter().filter(tried) {
                    if cost[way as usize].is_finite() && cost[way as usize] > HOPELESS * best {
                        alive &= !bit(way);
                    }
                }
                // The one in use goes first in each round.
                let order = [incumbent]
                    .into_iter()
                    .chain(WAYS.into_iter().filter(|&other| other != incumbent));
                let mut rest = order.skip_while(|&other| other != way).skip(1);
                match rest.find(|&other| alive & bit(other) != 0) {
                    Some(next) => {
                        self.way = next;
                        self.probe = heavy && round == 0 && next != incumbent && alive & bit(incumbent) != 0;
                    }
                    None => {
                        for &way in WAYS.iter().filter(|_| round > 0) {
                            if cost[way as usize].is_finite() && cost[way as usize] > CLEAR * best {
                                alive &= !bit(way);
                            }
                        }
                        let mut order = [incumbent].into_iter().chain(WAYS);
                        self.way = order.find(|&way| alive & bit(way) != 0).unwrap_or(incumbent);
                        round += 1 + heavy as u8;
                    }
                }
                self.phase = Phase::Trial {
                    incumbent,
                    alive,
                    round,
                };
                if round >= ROUNDS || round > 0 && alive.count_ones() < 2 || alive & !bit(incumbent) == 0 {
                    self.settle(incumbent);
                }
            }
        }
    }

    fn begin_trial(&mut self, open: u8) {
        self.cost = [f32::INFINITY; 3];
        self.phase = Phase::Trial {
            incumbent: self.way,
            alive: open | bit(self.way),
            round: 0,
        };
        if open & !bit(self.way) == 0 {
            self.settle(self.way);
        }
    }

    fn settle(&mut self, incumbent: Way) {
        let best = self.best();
        let winner = WAYS.into_iter().find(|&way| self.cost[way as usize] <= best);
        self.way = winner
            .filter(|_| best < BETTER * self.cost[incumbent as usize])
            .unwrap_or(incumbent);
        let rivals = WAYS.into_iter().filter(|&way| way != incumbent);
        let near = rivals
            .map(|way| self.cost[way as usize])
            .any(|cost| cost <= LOST * best);
        self.period = match self.way == incumbent {
            true => (self.period * if near { 2 } else { 4 }).min(PERIOD.1),
            false => PERIOD.0,
        };
        self.phase = Phase::Settled { left: self.period };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Choice = Choice {
        open: 0b111,
        guess: Way::Cells,
    };

    /// A program that sends messages of `len` bytes, each of which costs `cost` nanoseconds by its way; returns
    /// how many went each way.
    fn program(
        ways: &mut Ways,
        clock: &mut u64,
        messages: usize,
        len: usize,
        cost: impl Fn(Way, usize) -> u64,
    ) -> [usize; 3] {
        let mut count = [0; 3];
        for turn in 0..messages {
            let way = ways.choose(len, ALL, |_| true, || *clock);
            count[way as usize] += 1;
            *clock += cost(way, turn);
        }
        count
    }

    #[test]
    fn the_cheapest_way_is_found_and_kept() {
        for best in WAYS {
            let (mut ways, mut clock) = (Ways::default(), 0);
            let cost = |way, _| if way == best { 10_000 } else { 15_000 };
            program(&mut ways, &mut clock, 200, 1 << 16, cost);
            assert_eq!(ways.settled(1 << 16), Some(best));
            let count = program(&mut ways, &mut clock, 10_000, 1 << 16, cost);
            assert!(count[best as usize] > 9_800, "{count:?}");
        }
    }

    #[test]
    fn a_program_that_changes_its_habits_is_followed() {
        let (mut ways, mut clock) = (Ways::default(), 0);
        let rewritten = |way, _| if way == Way::Cells { 8_000 } else { 14_000 };
        let untouched = |way, _| if way == Way::Pull { 3_000 } else { 6_000 };
        program(&mut ways, &mut clock, 2_000, 1 << 16, rewritten);
        assert_eq!(ways.settled(1 << 16), Some(Way::Cells));
        program(&mut ways, &mut clock, 10_000, 1 << 16, untouched);
        assert_eq!(ways.settled(1 << 16), Some(Way::Pull));
    }

    #[test]
    fn what_lies_between_the_messages_does_not_mislead() {
        let (mut ways, mut clock) = (Ways::default(), 0);
        // Each 100th message waits for a millisecond's computing.
        let cost = |way, turn: usize| {
            let way = if way == Way::Join { 20_000 } else { 30_000 };
            way + if turn % 100 == 3 { 1_000_000 } else { 0 }
        };
        let count = program(&mut ways, &mut clock, 20_000, 1 << 18, cost);
        assert!(count[Way::Join as usize] > 15_000, "{count:?}");
    }

    #[test]
    fn few_messages_go_a_way_that_has_clearly_lost() {
        for costs in [[8_900, 12_500, 7_200], [6_000, 4_900, 5_100]] {
            let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 19);
            let best = WAYS[(0..3).min_by_key(|&way| costs[way]).unwrap()];
            let cost = |way, _| costs[way as usize];
            let count = program(&mut ways, &mut clock, 150, len, cost);
            assert_eq!(ways.settled(len), Some(best));
            assert!(count[best as usize] >= 110, "{count:?} at {costs:?}");
        }
    }

    #[test]
    fn a_challenger_that_costs_far_more_is_dropped_after_two_messages() {
        let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 19);
        let cost = |way, _| [20_000, 75_000, 41_000][way as usize];
        let count = program(&mut ways, &mut clock, 100, len, cost);
        assert_eq!((ways.settled(len), &count[1..]), (Some(Way::Cells), &[2, 2][..]));
        // A first message that makes pages decides nothing.
        let (mut ways, mut clock) = (Ways::default(), 0);
        let seen = std::cell::Cell::new(false);
        let cost = |way, _| match way {
            Way::Join if !seen.replace(true) => 900_000,
            Way::Join => 10_000,
            _ => 20_000,
        };
        program(&mut ways, &mut clock, 150, len, cost);
        assert_eq!(ways.settled(len), Some(Way::Join));
    }

    #[test]
    fn one_epoch_that_was_interrupted_decides_nothing() {
        // The way in use is the best, and loses its first epoch, or its second.
        for interrupted in [6, 18] {
            let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 19);
            let cost =
                |way, turn: usize| [7_000, 8_000, 8_500][way as usize] + if turn == interrupted { 90_000 } else { 0 };
            program(&mut ways, &mut clock, 150, len, cost);
            assert_eq!(ways.settled(len), Some(Way::Cells), "turn {interrupted}");
        }
    }

    #[test]
    fn what_the_way_before_has_left_in_the_caches_does_not_count() {
        let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 19);
        let run = std::cell::Cell::new((Way::Cells, 0));
        let cost = |way, _| {
            let (last, length) = run.get();
            let length = if way == last { length + 1 } else { 1 };
            run.set((way, length));
            match way {
                Way::Join if length <= 2 => 17_000,
                Way::Join => 10_000,
                _ => 12_500,
            }
        };
        program(&mut ways, &mut clock, 150, len, cost);
        assert_eq!(ways.settled(len), Some(Way::Join));
    }

    #[test]
    fn small_differences_change_nothing() {
        let (mut ways, mut clock) = (Ways::default(), 0);
        let cost = |way, turn: usize| 10_000 - way as u64 * 100 + (turn % 7) as u64 * 10;
        program(&mut ways, &mut clock, 5_000, 1 << 16, cost);
        assert_eq!(ways.settled(1 << 16), Some(Way::Cells));
    }

    #[test]
    fn a_class_begins_with_what_its_neighbour_has_learnt() {
        let (mut ways, mut clock) = (Ways::default(), 0);
        let cost = |way, _| [30_000, 12_000, 10_000][way as usize];
        program(&mut ways, &mut clock, 200, 1 << 18, cost);
        let count = program(&mut ways, &mut clock, 100, 1 << 19, cost);
        assert!(
            count[Way::Cells as usize] == 0 && count[Way::Pull as usize] > 0,
            "{count:?}"
        );
    }

    #[test]
    fn both_sides_are_tried_although_it_was_hopeless_for_shorter_messages() {
        let (mut ways, mut clock) = (Ways::default(), 0);
        program(&mut ways, &mut clock, 200, 1 << 18, |way, _| {
            [4_300, 5_900, 6_000][way as usize]
        });
        assert_eq!(ways.settled(1 << 18), Some(Way::Cells));
        let cost = |way, _| [8_900, 12_500, 7_200][way as usize];
        let count = program(&mut ways, &mut clock, 150, 1 << 19, cost);
        assert!(
            count[Way::Join as usize] > 120 && count[Way::Pull as usize] == 0,
            "{count:?}"
        );
    }

    #[test]
    fn an_epoch_ends_when_nothing_is_under_way() {
        let (mut ways, mut clock) = (Ways::default(), 0);
        let len = 1 << 20;
        let mut first = None;
        for window in 0..40 {
            let mut seen = Vec::new();
            for _ in 0..32 {
                seen.push(ways.choose(len, ALL, |_| true, || clock));
                ways.opened(len);
            }
            let (probe, rest) = seen.split_at(PROBE as usize);
            for part in [probe, rest] {
                assert!(part.iter().all(|&way| way == part[0]), "window {window}: {seen:?}");
            }
            first.get_or_insert(seen[0]);
            clock += 32 * if seen[0] == Way::Join { 50_000 } else { 90_000 };
            (0..32).for_each(|_| ways.closed(len));
        }
        assert_eq!((first, ways.settled(len)), (Some(Way::Cells), Some(Way::Join)));
    }

    #[test]
    fn windows_of_messages_are_judged_after_few_of_them() {
        // The way that is in use first is hopeless, the other two are close to each other.
        let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 16);
        let mut seen = Vec::new();
        while ways.settled(len).is_none() {
            let way = ways.choose(len, ALL, |_| true, || clock);
            seen.push(way);
            for _ in 1..64 {
                ways.opened(len);
                ways.choose(len, ALL, |_| true, || clock);
            }
            (1..64).for_each(|_| ways.closed(len));
            clock += [1_200_000, 300_000, 330_000][way as usize];
        }
        let cells = seen.iter().filter(|&&way| way == Way::Cells).count();
        assert!(seen.len() <= 8 && cells <= 2, "{seen:?}");
        assert_eq!(ways.settled(len), Some(Way::Pull));
    }

    #[test]
    fn few_messages_of_a_window_go_a_way_that_takes_several_times_as_long() {
        let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 16);
        let mut count = [0; 3];
        for _ in 0..20 {
            let window: Vec<Way> = (0..64)
                .map(|_| {
                    let way = ways.choose(len, ALL, |_| true, || clock);
                    ways.opened(len);
                    way
                })
                .collect();
            for way in window {
                ways.closed(len);
                count[way as usize] += 1;
                clock += [1_500, 6_000, 5_000][way as usize];
            }
        }
        assert_eq!(ways.settled(len), Some(Way::Cells));
        assert_eq!(count, [20 * 64 - 32, 16, 16]);
    }
}
