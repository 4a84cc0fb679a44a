//! How a rank waits: it polls, then yields, then sleeps until somebody rings its bell.
//!
//! With a CPU per rank polling is cheapest and comes first for long; where ranks share CPUs the peer
//! that is waited for may need this one, so yielding comes almost at once. A rank that should have a CPU of its own and waits for
//! long looks whether another one runs there too: who binds ranks, and when, the library is not told.

use super::{Bytes, Channel};
use crate::shm::bell::{Barriers, local_barrier};
use crate::shm::segment::Life;
use crate::shm::sync::Ordering;
use crate::sys::cvar::Settings;
use crate::sys::{cpu, futex};
use std::time::Duration;

/// Longest sleep at a time: a waiting rank looks after itself that often.
pub const NAP: Duration = Duration::from_millis(100);

/// Polls in vain after which a rank looks whether its CPU is its own, beside one for each rank that it looks at.
const DOUBT: u64 = 64;
/// Polls that take as long as giving way to nobody.
const POLLS_OF_YIELD: u64 = 8;

/// What to do after a poll that found nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Poll again.
    Poll,
    /// Give way to other threads of this CPU.
    Yield,
    /// Sleep.
    Sleep,
}

/// One wait's patience.
#[derive(Clone, Debug)]
pub struct Patience {
    polls: u64,
    yields: u64,
    polls_left: u64,
    yields_left: u64,
    /// Another rank runs on this CPU, though there is one for each.
    shared: bool,
}

impl Patience {
    /// For a job that is `crowded`, with more ranks or waiting threads than CPUs, or not.
    pub fn new(settings: &Settings, crowded: bool) -> Patience {
        let polls = if crowded { settings.spin_shared } else { settings.spin };
        Patience {
            polls,
            yields: settings.yields,
            polls_left: polls,
            yields_left: settings.yields,
            shared: false,
        }
    }

    /// Something came: start anew.
    pub fn renew(&mut self) {
        (self.polls_left, self.yields_left) = (self.polls, self.yields);
    }

    /// Whether now is the time to look who else runs on this CPU, of `ranks` ranks.
    #[inline]
    pub fn doubts(&self, ranks: u32) -> bool {
        self.polls.checked_sub(self.polls_left) == Some(DOUBT + u64::from(ranks)) && !self.shared
    }

    /// Somebody does: gives way instead of polling, but waits no shorter before it sleeps.
    pub fn shares(&mut self) {
        self.shared = true;
    }

    /// Nobody else wants this CPU: looks as long as giving way takes.
    pub fn more(&mut self) {
        self.polls_left = self.polls_left.max(POLLS_OF_YIELD);
    }

    /// Somebody computes on this CPU: sleeps from now on, until something comes.
    pub fn end(&mut self) {
        (self.polls_left, self.yields_left) = (0, 0);
    }

    /// After a poll in vain.
    #[inline]
    pub fn step(&mut self) -> Next {
        if self.polls_left > 0 {
            let (next, polls) = match self.shared {
                true => (Next::Yield, POLLS_OF_YIELD),
                false => (Next::Poll, 1),
            };
            self.polls_left = self.polls_left.saturating_sub(polls);
            return next;
        }
        if self.yields_left > 0 {
            self.yields_left -= 1;
            return Next::Yield;
        }
        Next::Sleep
    }
}

/// How often a blocking receive looks at the awaited ring alone, before it goes through the queues and gives way.
///
/// Where ranks share CPUs the sender may be running beside this rank, and then waiting a little keeps the pair going;
/// or it needs this CPU, and then each look is lost. Which it is shows in what the last looks found.
#[derive(Clone, Debug)]
pub struct Glances {
    most: u32,
    shared: bool,
    now: u32,
    /// What the wait under way has, so many times.
    granted: u32,
    times: u32,
    /// Looks that a sender's answer takes if it runs.
    fewest: u32,
    /// A random number.
    random: u32,
}

/// Of so many waits one tries the most looks, for the sender may run beside this rank by now. Which one is random:
/// ranks that all look long and all give way at the same time never meet.
const RETRY: u32 = 8;
/// Every wait has so many looks at least, unless the sender needs this CPU, and twice those that the last answer took:
/// with less, two ranks that each try more now and then would have to do so at the same time.
const FEWEST: u32 = 4;

/// Each so many bytes that a message may have give a wait its looks again, up to so many times: the other ranks get no
/// answer in the meantime.
const LONGER: (usize, usize) = (4096, 8);
/// ... where ranks share CPUs: what a sender that runs beside this rank takes to copy as much, not for long ones, which take longer
/// than a change of place.
const SHARED_LONGER: (usize, usize) = (2048, 4);

impl Glances {
    /// For rank `me` of a job in which ranks share CPUs (`shared`) or not.
    pub fn new(settings: &Settings, shared: bool, me: u32) -> Glances {
        let most = settings.glances as u32;
        Glances {
            most,
            shared,
            now: most,
            granted: 0,
            times: 1,
            fewest: FEWEST.min(most),
            random: me.wrapping_add(1).wrapping_mul(0x9e37_79b9) | 1,
        }
    }

    /// Looks that the wait which begins now has, for a message of up to `room` bytes; none where the sender needs this CPU (`here`).
    #[inline]
    pub fn granted(&mut self, room: usize, here: impl FnOnce() -> bool) -> u32 {
        self.times = self.longer(1, room);
        self.granted = match () {
            () if self.shared && here() => 0,
            () if self.now == self.most || self.is_lucky() => self.most,
            () => self.now,
        };
        self.granted.saturating_mul(self.times)
    }

    /// Instead of `looks` for the next part of a message of `room` bytes: a long one takes longer to come, and waiting in the queues, or
    /// giving way, costs more than the looks.
    #[inline]
    pub fn longer(&self, looks: u32, room: usize) -> u32 {
        let (each, most) = if self.shared { SHARED_LONGER } else { LONGER };
        looks.saturating_mul((1 + room / each).min(most) as u32)
    }

    /// One time in [`RETRY`], the more seldom the longer that takes.
    fn is_lucky(&mut self) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random >> 8 < (1 << 24) / (RETRY * self.times)
    }

    /// The message came, with `left` looks left.
    #[inline]
    pub fn paid(&mut self, left: u32) {
        if self.shared {
            let looks = self.granted.saturating_mul(self.times).saturating_sub(left);
            let took = 2 * looks.div_ceil(self.times);
            self.fewest = took
                .max(self.fewest - 1)
                .clamp(FEWEST.min(self.most), self.most.div_ceil(2));
        }
        self.now = self.most;
    }

    /// It did not.
    #[inline]
    pub fn lost(&mut self) {
        if self.shared && self.granted > 0 {
            self.now = (self.now / 2).max(self.fewest);
        }
    }
}

impl<B: Bytes> Channel<B> {
    /// Glances for the blocking receives of this rank.
    pub fn glances(&self) -> Glances {
        Glances::new(&self.settings, self.segment.oversubscribed(), self.me)
    }

    /// Patience for a wait that starts now, for something from rank `first` if that is known.
    pub fn patience(&mut self, first: Option<u32>) -> Patience {
        let mut patience = Patience::new(&self.settings, self.segment.lacks_cpus());
        patience.shared = self.shared && self.shares_cpu();
        if self.segment.oversubscribed() && first.is_some_and(|peer| self.is_here(peer)) {
            patience.polls_left = 0;
        }
        patience
    }

    /// The CPU that this thread runs on; says so to the others.
    #[inline]
    pub fn seen(&self) -> Option<u32> {
        cpu::current().inspect(|&cpu| self.block.bell.seen_on(cpu))
    }

    /// Whether rank `peer` was last seen on the CPU that this thread runs on.
    #[inline]
    pub fn is_here(&self, peer: u32) -> bool {
        let here = self.seen();
        self.settings.same_cpu != 0 && here.is_some() && self.segment.rank(peer).bell.cpu() == here
    }

    /// Whether nothing comes from rank `peer` before this thread gives way, as far as is known: it does not run, or was last seen here.
    #[inline]
    pub fn needs_this_cpu(&self, peer: u32) -> bool {
        self.segment.rank(peer).bell.is_away() || self.is_here(peer)
    }

    /// Whether another rank was last seen on the CPU that this thread runs on. If so the next wait begins with that question.
    #[cold]
    pub fn shares_cpu(&mut self) -> bool {
        let here = self.seen().filter(|_| self.settings.same_cpu != 0);
        // Who came later may have gone.
        let is_there = |&rank: &u32| rank != self.me && self.segment.life(rank) == Life::Attached;
        let mut others = (0..self.segment.known()).filter(is_there);
        self.shared = here.is_some() && others.any(|rank| self.segment.rank(rank).bell.cpu() == here);
        self.shared
    }

    /// Announces sleep. The caller polls once more, then [`Bed::sleep`]s unless something came, and
    /// then says [`Channel::awake`] unless another of its threads sleeps on.
    pub fn announce_sleep(&mut self) -> Bed {
        self.counters.sleeps += 1;
        self.tell_counters();
        let bell = &self.segment.rank(self.me).bell;
        let ticket = bell.announce(|| {
            // Where the kernel refuses, this rank may hear late of what comes: it looks again after a while.
            if self.segment.barriers() == Barriers::Local || !cpu::barrier_everywhere() {
                local_barrier();
            }
        });
        Bed {
            segment: self.segment.clone(),
            me: self.me,
            ticket,
        }
    }

    /// No thread of this rank sleeps any more.
    pub fn awake(&self) {
        self.segment.rank(self.me).bell.awake();
    }

    /// Wakes this rank's own sleeping threads.
    pub fn wake_own(&self) {
        let bell = &self.segment.rank(self.me).bell;
        bell.shake();
        futex::wake_all(bell.word());
    }
}

/// A place to sleep without holding the channel.
pub struct Bed {
    segment: std::sync::Arc<crate::shm::segment::Segment>,
    me: u32,
    ticket: u32,
}

impl Bed {
    /// Sleeps until the bell rings, so long at most; whether it has rung.
    pub fn sleep(&self, most: Duration) -> bool {
        let word = self.segment.rank(self.me).bell.word();
        futex::wait(word, self.ticket, most);
        word.load(Ordering::Relaxed) != self.ticket
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::joint::tests::channels;
    use super::*;

    /// Keeps this thread on the CPU that it runs on.
    pub fn stay_here() -> u32 {
        let here = cpu::current().unwrap();
        assert!(cpu::bind(&[here as usize].into_iter().collect()));
        here
    }

    #[test]
    fn patience_polls_then_yields_then_sleeps() {
        let settings = Settings::read(|name| match name {
            "NEARMPI_SPIN" => Some("2".into()),
            "NEARMPI_YIELDS" => Some("1".into()),
            _ => None,
        })
        .unwrap();
        let mut patience = Patience::new(&settings, false);
        let mut steps: Vec<Next> = (0..4).map(|_| patience.step()).collect();
        assert_eq!(steps, [Next::Poll, Next::Poll, Next::Yield, Next::Sleep]);
        patience.more();
        let again: Vec<Next> = (0..=POLLS_OF_YIELD).map(|_| patience.step()).collect();
        assert!(again.ends_with(&[Next::Poll, Next::Sleep]), "{again:?}");
        patience.renew();
        steps.truncate(0);
        steps.extend((0..2).map(|_| patience.step()));
        assert_eq!(steps, [Next::Poll, Next::Poll]);
        patience.end();
        assert_eq!(patience.step(), Next::Sleep);
    }

    #[test]
    fn who_shares_a_cpu_unexpectedly_gives_way_instead_of_polling() {
        let settings = Settings::read(|name| (name == "NEARMPI_SPIN").then(|| "200".into())).unwrap();
        let mut patience = Patience::new(&settings, false);
        let polls = (0..).take_while(|_| !patience.doubts(6) && patience.step() == Next::Poll);
        assert_eq!(polls.count() as u64, DOUBT + 6);
        patience.shares();
        assert!(!patience.doubts(6));
        let left = (200 - DOUBT - 6).div_ceil(POLLS_OF_YIELD) + settings.yields;
        let yields = (0..).take_while(|_| patience.step() == Next::Yield);
        assert_eq!(yields.count() as u64, left);
        let crowded = Patience::new(&settings, true);
        assert!(
            settings.spin_shared < DOUBT && !crowded.doubts(0),
            "it gives way anyway"
        );
    }

    #[test]
    fn a_rank_counts_where_it_was_seen_last() {
        let (mut low, high) = channels();
        let here = stay_here();
        high.block.bell.seen_on(here + 1);
        assert!(!low.shares_cpu());
        high.block.bell.seen_on(here);
        assert!(!low.patience(None).shared, "nobody has asked");
        assert!(low.shares_cpu() && low.patience(None).shared);
        high.block.bell.seen_on(here + 1);
        assert!(!low.patience(None).shared);
        high.block.bell.seen_on(here);
        assert!(low.needs_this_cpu(1));
        low.settings.same_cpu = 0;
        assert!(!low.shares_cpu() && !low.needs_this_cpu(1));
        high.block.bell.gives_way(true);
        assert!(low.needs_this_cpu(1));
    }

    #[test]
    fn looks_that_find_nothing_are_given_up_where_ranks_share_cpus() {
        let settings = Settings::read(|_| None).unwrap();
        let mut alone = Glances::new(&settings, false, 0);
        let mut shared = Glances::new(&settings, true, 0);
        for _ in 0..10 {
            alone.granted(0, || false);
            alone.lost();
            shared.granted(0, || false);
            shared.lost();
        }
        assert_eq!(alone.granted(0, || false), 64);
        let tried: Vec<u32> = (0..1000 * RETRY).map(|_| shared.granted(0, || false)).collect();
        let most = tried.iter().filter(|&&looks| looks == 64).count();
        assert!((800..1200).contains(&most), "{most}");
        let long = (0..4000 * RETRY)
            .filter(|_| shared.granted(8192, || false) == 256)
            .count();
        assert!((800..1200).contains(&long), "a quarter as often: {long}");
        shared.times = 1;
        assert!(tried.iter().all(|&looks| looks == 64 || looks == FEWEST));
        shared.granted = 64;
        shared.paid(50);
        assert_eq!(shared.granted(0, || false), 64);
        (0..10).for_each(|_| shared.lost());
        assert_eq!(shared.now, 28, "the next answer may take as long");
    }

    #[test]
    fn no_look_is_spent_on_a_sender_that_needs_this_cpu() {
        let settings = Settings::read(|_| None).unwrap();
        let mut alone = Glances::new(&settings, false, 0);
        let mut shared = Glances::new(&settings, true, 0);
        assert_eq!((alone.granted(0, || true), shared.granted(0, || true)), (64, 0));
        shared.lost();
        assert_eq!(
            shared.granted(0, || false),
            64,
            "nothing was tried, so nothing was lost"
        );
    }

    #[test]
    fn long_messages_get_more_looks_and_fewer_of_them_where_others_need_the_cpu() {
        let settings = Settings::read(|_| None).unwrap();
        let (alone, mut shared) = (Glances::new(&settings, false, 0), Glances::new(&settings, true, 0));
        assert_eq!(
            [8, 16 << 10, 1 << 30].map(|room| alone.longer(64, room)),
            [64, 320, 512]
        );
        assert_eq!([8, 4096, 1 << 30].map(|room| shared.longer(64, room)), [64, 192, 256]);
        // What the answer took counts as so many times fewer.
        for (room, left) in [(0, 44), (4096, 132)] {
            assert_eq!(shared.granted(room, || false), shared.longer(64, room));
            shared.paid(left);
            (0..10).for_each(|_| shared.lost());
            assert_eq!(shared.now, 32);
            shared.now = shared.most;
        }
    }
}
