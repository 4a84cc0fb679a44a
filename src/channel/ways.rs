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
//!  first epoch (2 MiB, not counted) -> trial: the ways in turn, up to three rounds, fewer and fewer -> settled for a while
//!                                        ^--------------------------------------------------------------'
//! ```
//! What goes by value is under way until its receiver has read it, as far as the ring's credit tells. A way that a copy's least time, as
//! measured within this process, rules out is not tried. The first messages after a change of ways are not counted: in caches that another way has filled each way is slow.
//! A way replaces the one in use only if it is clearly better. Trials get rarer while they change nothing, the sooner the less
//! the others were near. Where many messages are under way at a time an epoch is all of them, and says as much as several short
//! ones: then two rounds do, and the way in use, too, is tried no more when it is hopeless. A whole epoch by a way that takes several
//! times as long is dear, so each other way is probed first, and given up if it costs twice as much: with two messages that go one
//! after the other, or with a few of those that are under way at a time, while the rest goes by the way in use. What must be better
//! by far, as that least time says, is not probed. Cells make two copies, so they are not even probed where one copy is about as
//! fast as it can be: the pages that a probe makes for them may take as long as a hundred messages.
//!
//! Two ranks that send each other messages of a class have to try a way at the same time: of one alone the other's messages, by the
//! old way, take as long as before. So the lower rank learns, and the higher one sends as the lower one does, which it sees
//! from what comes. A trial's first window, in which the other one has not followed yet, is not counted.

mod choice;

pub(super) use choice::Choice;

use super::packet::Way;
use crate::shm::pool::Name;
use choice::{bit, least_by_cells};

/// Messages by value are over when of so many bytes the receiver has read all but one.
const FEW: u64 = 4;
/// Lengths of a class: from 2^(14 + its number) on; the last has no end.
const FIRST: u32 = 14;
pub(super) const LEAST: usize = 1 << FIRST;
pub(super) const CLASSES: usize = 9;
/// An epoch has this many messages at least, or half of them and [`EPOCH_BYTES`].
const EPOCH: u32 = 8;
const EPOCH_BYTES: u64 = 256 << 10;
/// ... and ends with this one even if something is still under way.
const LONG: u32 = 512;
/// The first has so many bytes, which is when what a trial costs, some tenths of a millisecond, begins to pay.
const FIRST_BYTES: u64 = 2 << 20;
/// Rounds of a trial; an epoch of at least [`HEAVY`] messages makes two of them.
const ROUNDS: u8 = 3;
const HEAVY: u32 = 3 * EPOCH;
/// Messages after a change of ways that are not counted: what the other way has left in the caches is still there. A window
/// of [`HEAVY`] messages outweighs that.
const WARM: u32 = EPOCH / 4;
/// Messages to a rank without one from there, of the same class, from which they no longer count as sending to each other.
const ALONE: u32 = 256;
/// Messages of a probe at most.
const PROBE: u32 = 8;
/// A challenger that costs more than this much of the best is not tried again in the trial.
const HOPELESS: f32 = 1.3;
/// One that costs more than this much of the way in use by a probe is not tried at all.
const LOST: f32 = 2.0;
/// One that costs less than this much, as far as is known before, is tried at once.
const PROMISING: f32 = 0.6;
/// Nor is any way, after two rounds, that costs more than this much.
const CLEAR: f32 = 1.1;
/// A challenger must cost less than this much of the way in use.
const BETTER: f32 = 0.93;
/// Epochs from trial to trial: at first, at most.
const PERIOD: (u32, u32) = (64, 1024);

const WAYS: [Way; 3] = [Way::Cells, Way::Pull, Way::Join];

/// What has been learnt for one destination.
#[derive(Default)]
pub(super) struct Ways {
    classes: Vec<Class>,
    /// Bytes of the ring, when it was looked at last.
    ring: u32,
    /// The other rank is the lower one: it leads while both send.
    follows: bool,
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
    /// When the latest message of a probe started, or the first of those under way, and their bytes.
    latest: (u64, usize),
    count: u32,
    bytes: u64,
    /// The way has just changed.
    cold: bool,
    /// How the latest message from there came, and how many have gone there since.
    theirs: Option<Way>,
    alone: u32,
    /// The latest message went as those that come from there.
    followed: bool,
    /// The epoch is a probe: only its first [`PROBE`] messages go by this way, others by the incumbent's.
    probe: bool,
    phase: Phase,
    period: u32,
    /// Least cost per byte in the latest trial; infinite where it was not tried. If there was nothing to try, of the epoch after it.
    cost: [f32; 3],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Unused,
    First,
    Trial { incumbent: Way, alive: u8, round: u8 },
    Settled { left: u32 },
}

/// What a probe has shown of a way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Probed {
    /// It is worth trying.
    Bearable,
    /// It costs so much a byte that it is not.
    Lost(f32),
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
    /// Those of rank `me` for messages to rank `to`.
    pub fn between(me: u32, to: u32) -> Ways {
        Ways {
            follows: me > to,
            ..Ways::default()
        }
    }

    /// A message of `len` bytes came from there, this `way`.
    #[inline]
    pub fn came(&mut self, len: usize, way: Way) {
        if len >= LEAST {
            let class = &mut self.classes()[class_of(len)];
            (class.theirs, class.alone) = (Some(way), 0);
        }
    }

    /// Whether messages of about `len` bytes have come from there of late.
    #[inline]
    pub fn exchanged(&self, len: usize) -> bool {
        let class = self.classes.get(class_of(len));
        class.is_some_and(|class| class.theirs.is_some() && class.alone <= ALONE)
    }

    #[inline]
    fn classes(&mut self) -> &mut [Class] {
        if self.classes.is_empty() {
            self.classes = vec![Class::UNUSED; CLASSES];
        }
        &mut self.classes
    }

    /// The way of a message of `len` bytes that is about to start. `under_way` says how many bytes of those by value the receiver
    /// has still to read, as far as is known, the last of which lie in the cell that it is given; `now` tells the time in nanoseconds.
    pub fn choose(
        &mut self,
        len: usize,
        choice: Choice,
        mut under_way: impl FnMut(Option<Name>) -> u64,
        now: impl Fn() -> u64,
    ) -> Way {
        let (number, follows) = (class_of(len), self.follows);
        let class = &mut self.classes()[number];
        class.alone = class.alone.saturating_add(1);
        let theirs = class.theirs.filter(|&way| class.alone <= ALONE && choice.has(way));
        if let (true, Some(way)) = (follows, theirs) {
            class.followed = true;
            return way;
        }
        if std::mem::take(&mut class.followed) {
            (class.since, class.count, class.bytes, class.last) = (now(), 0, 0, None);
            (class.latest, class.cold) = ((class.since, 0), true);
        }
        if self.classes[number].phase == Phase::Unused {
            self.begin(number, choice);
            self.classes[number].since = now();
        } else {
            let class = &mut self.classes[number];
            // The other rank has not followed yet, or only now.
            let too_early = theirs.is_some() && class.cold && class.count >= HEAVY;
            // Of a window the first ones are gone at once: it is over when something has come.
            let answered = theirs.is_some() && class.alone == 1;
            let mut gone = |last, bytes| answered || under_way(last) <= bytes / FEW;
            let probed = class.probed(len, &mut gone, &now).filter(|_| !too_early);
            if probed == Some(Probed::Bearable) {
                (class.probe, class.cold) = (false, theirs.is_some());
                (class.since, class.count, class.bytes, class.last) = (now(), 0, 0, None);
            }
            let lost = match probed {
                Some(Probed::Lost(cost)) => Some(cost),
                _ => None,
            };
            let lull = class.open == 0 && class.count >= WARM && (class.cold || class.count >= EPOCH / 2);
            let lull = lull && (theirs.is_none() || answered) && gone(class.last, class.bytes);
            if class.cold && lull {
                class.cold = false;
                if class.count < HEAVY || too_early {
                    (class.since, class.count, class.bytes, class.last) = (now(), 0, 0, None);
                }
            }
            let enough = match class.phase {
                Phase::First => class.count >= EPOCH / 2 && class.bytes >= FIRST_BYTES,
                _ => class.count >= EPOCH || class.count >= EPOCH / 2 && class.bytes >= EPOCH_BYTES,
            };
            if class.count >= LONG || enough && lull || lost.is_some() {
                let (now, before) = (now(), class.way);
                let cost = now.saturating_sub(class.since) as f32 / class.bytes.max(1) as f32;
                let cost = lost.unwrap_or(cost);
                class.end_epoch(cost, class.count >= HEAVY, choice, theirs.is_some());
                class.cold = class.way != before;
                (class.since, class.count, class.bytes, class.last) = (now, 0, 0, None);
                class.latest = (now, len);
            }
        }
        let class = &mut self.classes[number];
        class.count += 1;
        class.bytes += len as u64;
        let way = match class.phase {
            Phase::Trial { incumbent, .. } if class.probe && class.count > PROBE => incumbent,
            _ => class.way,
        };
        // A threshold may lie within a class.
        if choice.has(way) { way } else { choice.guess }
    }

    /// Whether messages of about `len` bytes go by a way that costs less than cells can, where two copies of a byte take so long at
    /// least.
    pub fn beats_cells(&self, len: usize, two_copies: f32) -> bool {
        let class = self.classes.get(class_of(len));
        class.is_some_and(|class| class.beats_cells(two_copies))
    }

    /// Cells cost messages of about `len` bytes less from now on: all ways are tried once more, from the one in use on.
    pub fn retry(&mut self, len: usize) {
        if let Some(class) = self.classes.get_mut(class_of(len)) {
            match class.phase {
                Phase::Unused | Phase::First => return,
                Phase::Trial { incumbent, .. } => class.way = incumbent,
                Phase::Settled { .. } => {}
            }
            (class.phase, class.period, class.probe) = (Phase::First, PERIOD.0, false);
            class.cost = [f32::INFINITY; 3];
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

    /// The ring has so many bytes: if it has become larger all is learnt anew; whether it has.
    #[inline]
    pub fn outgrown(&mut self, ring: u32) -> bool {
        let before = std::mem::replace(&mut self.ring, ring);
        let grown = before != 0 && before != ring;
        if grown {
            (FIRST..FIRST + CLASSES as u32).for_each(|bits| self.forget(1 << bits));
        }
        grown
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

    /// Whether one more message of `len` bytes goes through cells, as has been settled, or as those that come from there do, without a
    /// further question; it is counted then. Every eighth is asked about, or the next one that goes when something has come.
    #[inline]
    pub fn goes_on(&mut self, len: usize) -> bool {
        let follows = self.follows;
        let Some(class) = self.classes.get_mut(class_of(len)) else {
            return false;
        };
        let theirs = class.theirs.filter(|_| class.alone < ALONE);
        if let (true, Some(way)) = (follows, theirs) {
            let goes_on = way == Way::Cells;
            class.alone += goes_on as u32;
            class.followed |= goes_on;
            return goes_on;
        }
        let is_settled = class.way == Way::Cells && matches!(class.phase, Phase::Settled { .. }) && !class.cold;
        let is_asked = match theirs {
            Some(_) => class.alone == 0 && class.count >= EPOCH,
            None => class.count % EPOCH == 0,
        };
        let goes_on = is_settled && !class.followed && !is_asked;
        if goes_on {
            class.count += 1;
            class.bytes += len as u64;
            class.alone = class.alone.saturating_add(1);
        }
        goes_on
    }

    /// What has been settled for messages of about `len` bytes.
    pub fn settled(&self, len: usize) -> Option<Way> {
        let class = self.classes.get(class_of(len))?;
        matches!(class.phase, Phase::Settled { .. }).then_some(class.way)
    }

    /// Whether messages of about `len` bytes try ways now.
    pub fn tries(&self, len: usize) -> bool {
        let class = self.classes.get(class_of(len));
        class.is_some_and(|class| matches!(class.phase, Phase::First | Phase::Trial { .. }))
    }

    /// Whether messages of about `len` bytes are about to try ways: what must be known by then may be found out now, in an epoch that
    /// is not counted.
    pub fn is_about_to_try(&self, len: usize) -> bool {
        let class = self.classes.get(class_of(len));
        class.is_some_and(|class| class.phase == Phase::First && class.bytes >= FIRST_BYTES / 2)
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
            class.way = match near.way {
                way if choice.has(way) => way,
                Way::Pull if choice.has(Way::Join) => Way::Join,
                Way::Join if choice.has(Way::Pull) => Way::Pull,
                _ => choice.guess,
            };
            class.cost = near.cost.map(|cost| {
                if cost > HOPELESS * near.best() {
                    cost
                } else {
                    f32::INFINITY
                }
            });
            // Left for later trials too, as what has a cost here.
            if near.beats_cells(choice.two_copies) {
                class.cost[Way::Cells as usize] = choice.two_copies;
            }
            // Of shorter messages it is no surprise: two copy faster than one, but have to agree first.
            if below {
                class.cost[Way::Join as usize] = f32::INFINITY;
            }
        }
    }
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
        theirs: None,
        alone: 0,
        followed: false,
        probe: false,
        phase: Phase::Unused,
        period: PERIOD.0,
        cost: [f32::INFINITY; 3],
    };

    fn best(&self) -> f32 {
        self.cost.iter().copied().fold(f32::INFINITY, f32::min)
    }

    /// Whether the way in use costs less than cells can.
    fn beats_cells(&self, two_copies: f32) -> bool {
        let both = self.theirs.is_some() && self.alone <= ALONE;
        self.way != Way::Cells && BETTER * self.cost[self.way as usize] < least_by_cells(two_copies, both)
    }

    /// What a probe has shown, when it has; another message of `len` bytes is about to start. The first of a probe may make
    /// pages, or find caches as another way has left them, so it tells nothing alone.
    fn probed(
        &mut self,
        len: usize,
        mut gone: impl FnMut(Option<Name>, u64) -> bool,
        now: impl Fn() -> u64,
    ) -> Option<Probed> {
        let Phase::Trial { incumbent, .. } = self.phase else {
            return None;
        };
        if !self.probe {
            return None;
        }
        if self.open > 0 || !gone(self.last, self.latest.1 as u64) {
            self.latest.1 += len;
            return None;
        }
        let (from, bytes) = std::mem::replace(&mut self.latest, (now(), len));
        if self.count < WARM {
            return None;
        }
        let used = self.cost[incumbent as usize];
        let cost = self.latest.0.saturating_sub(from) as f32 / bytes.max(1) as f32;
        // Of those that were under way at a time only the first went by the challenger.
        let cost = used + (cost - used) * (self.count as f32 / PROBE as f32).max(1.0);
        Some(if cost > LOST * used {
            Probed::Lost(cost)
        } else {
            Probed::Bearable
        })
    }

    /// ... of messages that went one way, or `both` ways, and cost so much a byte.
    fn end_epoch(&mut self, cost: f32, heavy: bool, choice: Choice, both: bool) {
        let open = choice.open;
        match self.phase {
            Phase::Unused => {}
            Phase::First => {
                // What was hopeless for the neighbour (a finite cost, see `begin`) is left for later trials.
                let hopeless = WAYS.iter().filter(|&&way| self.cost[way as usize].is_finite());
                let hopeless = hopeless.fold(0, |bits, &way| bits | bit(way));
                self.begin_trial(open & !hopeless);
            }
            Phase::Settled { left: 1.. } => {
                // What nothing was compared with has no cost yet.
                let slot = &mut self.cost[self.way as usize];
                *slot = if slot.is_finite() { *slot } else { cost };
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
                self.probe = false;
                let slot = &mut self.cost[way as usize];
                *slot = slot.min(cost);
                let (best, cost) = (self.best(), self.cost);
                let tried = |way: &&Way| heavy || **way == self.way && **way != incumbent;
                for &way in WAYS.iter().filter(tried) {
                    if cost[way as usize].is_finite() && cost[way as usize] > HOPELESS * best {
                        alive &= !bit(way);
                    }
                }
                // What can't be better is not tried, so the one in use goes first in each round, and then what may be the best.
                let used = self.cost[incumbent as usize];
                for &other in WAYS.iter().filter(|&&other| other != incumbent) {
                    if cost[other as usize] > best && choice.least(other, both, heavy) > BETTER * best {
                        alive &= !bit(other);
                    }
                }
                let order = [incumbent]
                    .into_iter()
                    .chain(WAYS.into_iter().rev().filter(|&other| other != incumbent));
                let mut rest = order.skip_while(|&other| other != way).skip(1);
                match rest.find(|&other| alive & bit(other) != 0) {
                    Some(next) => {
                        self.way = next;
                        let least = choice.least(next, both, heavy);
                        let doubtful = match next {
                            Way::Cells => !choice.grows,
                            _ => least == 0.0 || least > PROMISING * used,
                        };
                        self.probe = doubtful && round == 0 && next != incumbent && alive & bit(incumbent) != 0;
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
mod asked_tests;
#[cfg(test)]
mod tests;
