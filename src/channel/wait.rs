//! How a rank waits: it polls, then yields, then sleeps until somebody rings its bell.
//!
//! With a CPU per rank polling is cheapest and comes first for long; where ranks share CPUs the peer
//! that is waited for may need this one, so yielding comes almost at once.

use super::{Bytes, Channel};
use crate::shm::bell::{Barriers, local_barrier};
use crate::shm::sync::Ordering;
use crate::sys::cvar::Settings;
use crate::sys::{cpu, futex};
use std::time::Duration;

/// Longest sleep at a time: a waiting rank looks after itself that often.
pub const NAP: Duration = Duration::from_millis(100);

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
}

impl Patience {
    /// For a job that is `oversubscribed` or not.
    pub fn new(settings: &Settings, oversubscribed: bool) -> Patience {
        let polls = if oversubscribed {
            settings.spin_shared
        } else {
            settings.spin
        };
        Patience {
            polls,
            yields: settings.yields,
            polls_left: polls,
            yields_left: settings.yields,
        }
    }

    /// Something came: start anew.
    pub fn renew(&mut self) {
        (self.polls_left, self.yields_left) = (self.polls, self.yields);
    }

    /// After a poll in vain.
    #[inline]
    pub fn step(&mut self) -> Next {
        if self.polls_left > 0 {
            self.polls_left -= 1;
            return Next::Poll;
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
    /// Whether the wait under way has looks at all.
    tried: bool,
    /// Waits since the most were tried.
    since: u32,
}

/// Of so many waits one tries the most looks, for the sender may run beside this rank by now.
const RETRY: u32 = 32;
/// Looks that every wait has unless the sender needs this CPU: long enough for the answer of one that runs. With less,
/// two ranks that each try more now and then would have to do so at the same time.
const FEWEST: u32 = 8;

impl Glances {
    /// For a job in which ranks share CPUs (`shared`) or not.
    pub fn new(settings: &Settings, shared: bool) -> Glances {
        let most = settings.glances as u32;
        Glances {
            most,
            shared,
            now: most,
            tried: false,
            since: 0,
        }
    }

    /// Looks that the wait which begins now has; none where the sender needs this CPU (`here`).
    #[inline]
    pub fn granted(&mut self, here: impl FnOnce() -> bool) -> u32 {
        self.tried = !self.shared || !here();
        if !self.tried {
            return 0;
        }
        if self.now == self.most {
            return self.most;
        }
        self.since += 1;
        if self.since >= RETRY {
            self.since = 0;
            return self.most;
        }
        self.now
    }

    /// The message came after looks in vain.
    #[inline]
    pub fn paid(&mut self) {
        self.now = self.most;
    }

    /// It did not.
    #[inline]
    pub fn lost(&mut self) {
        if self.shared && self.tried {
            self.now = (self.now / 2).max(FEWEST.min(self.most));
        }
    }
}

impl<B: Bytes> Channel<B> {
    /// Glances for the blocking receives of this rank.
    pub fn glances(&self) -> Glances {
        Glances::new(&self.settings, self.segment.oversubscribed())
    }

    /// Patience for a wait that starts now, for something from rank `first` if that is known.
    pub fn patience(&self, first: Option<u32>) -> Patience {
        let shared = self.segment.oversubscribed();
        let mut patience = Patience::new(&self.settings, shared);
        if shared && first.is_some_and(|peer| self.is_here(peer)) {
            patience.polls_left = 0;
        }
        patience
    }

    /// Whether rank `peer` was last seen on the CPU that this thread runs on. Says where that is, too.
    #[inline]
    pub fn is_here(&self, peer: u32) -> bool {
        let Some(cpu) = cpu::current() else { return false };
        self.block.bell.seen_on(cpu);
        self.settings.same_cpu != 0 && self.segment.rank(peer).bell.was_on(cpu)
    }

    /// Announces sleep. The caller polls once more, then [`Bed::sleep`]s unless something came, and
    /// then says [`Channel::awake`] unless another of its threads sleeps on.
    pub fn announce_sleep(&mut self) -> Bed {
        self.counters.sleeps += 1;
        self.tell_counters();
        let bell = &self.segment.rank(self.me).bell;
        let ticket = bell.announce(|| match self.barriers {
            Barriers::Local => local_barrier(),
            Barriers::Remote => {
                cpu::barrier_everywhere();
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
    /// Sleeps until the bell rings, for a nap at most; whether it has rung.
    pub fn sleep(&self) -> bool {
        let word = self.segment.rank(self.me).bell.word();
        futex::wait(word, self.ticket, NAP);
        word.load(Ordering::Relaxed) != self.ticket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        patience.renew();
        steps.truncate(0);
        steps.extend((0..2).map(|_| patience.step()));
        assert_eq!(steps, [Next::Poll, Next::Poll]);
    }

    #[test]
    fn looks_that_find_nothing_are_given_up_where_ranks_share_cpus() {
        let settings = Settings::read(|_| None).unwrap();
        let mut alone = Glances::new(&settings, false);
        let mut shared = Glances::new(&settings, true);
        for _ in 0..10 {
            alone.granted(|| false);
            alone.lost();
            shared.granted(|| false);
            shared.lost();
        }
        assert_eq!((alone.granted(|| false), shared.granted(|| false)), (64, FEWEST));
        let tried: Vec<u32> = (0..RETRY).map(|_| shared.granted(|| false)).collect();
        assert_eq!(tried.iter().filter(|&&looks| looks == 64).count(), 1);
        shared.paid();
        assert_eq!(shared.granted(|| false), 64);
    }

    #[test]
    fn no_look_is_spent_on_a_sender_that_needs_this_cpu() {
        let settings = Settings::read(|_| None).unwrap();
        let mut alone = Glances::new(&settings, false);
        let mut shared = Glances::new(&settings, true);
        assert_eq!((alone.granted(|| true), shared.granted(|| true)), (64, 0));
        shared.lost();
        assert_eq!(shared.granted(|| false), 64, "nothing was tried, so nothing was lost");
    }
}
