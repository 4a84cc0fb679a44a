//! Notices that all ranks wait for each other.
//!
//! A rank that sleeps in MPI says so in the job's memory ([`mpi::shm::waiting`]). When every rank
//! that is not through with MPI sleeps, none has woken since the last look, and no message is on its
//! way to any (a message rings the sleeper's bell), nothing can wake them any more: only their own
//! threads could, where the program may call MPI from several (`MPI_THREAD_MULTIPLE`) and has several beside the library's own.
//! Who waits for whom says `report`.

use crate::view::{View, is_alone};
use mpi::shm::doing::number;
use mpi::shm::segment::{Life, Segment};
use mpi::shm::waiting::Account;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What to do about a job that is stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// End it after that many seconds.
    End(u64),
    /// Say so after that many seconds.
    Report(u64),
    Off,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::End(5)
    }
}

impl Policy {
    /// `off`, `report`, `abort` or seconds; the latter two may be joined: `report:30`.
    ///
    /// # Errors
    /// A sentence about anything else.
    pub fn parse(text: &str) -> Result<Policy, String> {
        let (word, seconds) = match text.split_once(':') {
            Some((word, seconds)) => (word, Some(seconds)),
            None if text.starts_with(|c: char| c.is_ascii_digit()) => ("abort", Some(text)),
            None => (text, None),
        };
        let seconds = match seconds.map(str::parse) {
            None => Some(5),
            Some(Ok(seconds @ 1..=86400)) => Some(seconds),
            Some(_) => None,
        };
        match (word, seconds) {
            ("off", Some(_)) => Ok(Policy::Off),
            ("report", Some(seconds)) => Ok(Policy::Report(seconds)),
            ("abort", Some(seconds)) => Ok(Policy::End(seconds)),
            _ => Err(format!(
                "-stall {text}: not off, report[:SECONDS] or abort[:SECONDS], with 1 to 86400 seconds"
            )),
        }
    }

    /// The same with another time.
    pub fn after(self, seconds: u64) -> Policy {
        match self {
            Policy::End(_) => Policy::End(seconds),
            Policy::Report(_) => Policy::Report(seconds),
            Policy::Off => Policy::Off,
        }
    }

    fn patience(self) -> Option<Duration> {
        match self {
            Policy::End(seconds) | Policy::Report(seconds) => Some(Duration::from_secs(seconds)),
            Policy::Off => None,
        }
    }
}

/// What was seen at the last look.
#[derive(Default)]
pub struct Stall {
    /// The ranks that could still take part, each with its turn.
    turns: Vec<(u32, u32)>,
    since: Option<Instant>,
    /// It was said once that all sleep, who may be woken yet.
    reported: bool,
    /// It was said that they are stuck.
    is_over: bool,
}

/// A job that is stuck.
#[derive(Debug, PartialEq, Eq)]
pub struct Stuck {
    /// The sentence above the report.
    pub headline: String,
    /// The ranks can only wait for each other.
    pub is_certain: bool,
    /// The job is to be ended.
    pub end: bool,
}

impl Stall {
    /// Looks at the ranks, of which `takes_part` says which can still take part.
    pub fn look(&mut self, policy: Policy, segment: &Segment, takes_part: impl Fn(u32) -> bool) -> Option<Stuck> {
        let patience = policy.patience()?;
        let now = Instant::now();
        if self.is_over {
            return None;
        }
        let ranks: Vec<u32> = (0..segment.known()).filter(|&rank| takes_part(rank)).collect();
        let accounts: Option<Vec<Account>> = ranks.iter().map(|&r| segment.rank(r).waiting.read()).collect();
        // Who looks around between two naps is not asleep for a moment, and sleeps on in the same turn; who was awake, in another.
        let accounts = accounts.filter(|accounts| !accounts.is_empty())?;
        let turns: Vec<(u32, u32)> = ranks
            .iter()
            .copied()
            .zip(accounts.iter().map(|account| account.turn))
            .collect();
        if self.since.is_none() || turns != self.turns {
            (self.turns, self.since) = (turns, Some(now));
            return None;
        }
        // Between two naps a bell is not set for a moment; a rung one stays so until the rank runs.
        let quiet = ranks.iter().all(|&rank| segment.rank(rank).bell.is_set());
        if !quiet || self.since.is_none_or(|since| now - since < patience) {
            return None;
        }
        let is_serving = |(&rank, account): (&u32, &Account)| {
            account.outside && segment.rank(rank).doing.read().call == Some(number("MPI_Comm_accept"))
        };
        if ranks.iter().zip(&accounts).any(is_serving) {
            // It waits for somebody who has not been started yet.
            return None;
        }
        let others_may_come = |(&rank, account): (&u32, &Account)| {
            account.outside || account.threads && !is_alone(segment.rank(rank).pid.load(Ordering::Relaxed))
        };
        let open = ranks.iter().zip(&accounts).any(others_may_come);
        let vague = accounts.iter().any(|account| account.count == 0);
        let is_certain = !open && !vague;
        if self.reported && !is_certain {
            return None;
        }
        (self.reported, self.is_over) = (true, is_certain);
        let headline = format!(
            "nothing has moved for {} s: {}",
            patience.as_secs(),
            match is_certain {
                true => "the ranks wait for each other and for ever",
                false => "all ranks sleep in MPI",
            }
        );
        let end = matches!(policy, Policy::End(_)) && is_certain;
        Some(Stuck {
            headline,
            is_certain,
            end,
        })
    }
}

/// Whether `view` says what its rank waits for, or there is nothing to say.
pub fn tells(view: &View) -> bool {
    view.account.is_some() || view.is_gone || view.life != Life::Attached
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi::shm::waiting::Item;

    #[test]
    fn the_policy_is_read() {
        assert_eq!(Policy::parse("off"), Ok(Policy::Off));
        assert_eq!(Policy::parse("report"), Ok(Policy::Report(5)));
        assert_eq!(Policy::parse("report:30"), Ok(Policy::Report(30)));
        assert_eq!(Policy::parse("7"), Ok(Policy::End(7)));
        assert_eq!(Policy::Report(5).after(9), Policy::Report(9));
        assert!(Policy::parse("abort:0").is_err() && Policy::parse("often").is_err());
    }

    #[test]
    fn sleepers_are_stuck_only_after_the_time() {
        let segment = Segment::private(2, 2).unwrap();
        let asleep = Account {
            count: 1,
            items: vec![Item::default()],
            ..Account::default()
        };
        let mut stall = Stall::default();
        let mut look = |segment: &Segment| stall.look(Policy::End(1), segment, |rank| rank == 0);
        assert!(look(&segment).is_none());
        let block = segment.rank(0);
        block.waiting.fall_asleep(&asleep);
        block.bell.announce(|| ());
        assert!(look(&segment).is_none() && look(&segment).is_none());
        std::thread::sleep(Duration::from_millis(1100));
        block.waiting.wake();
        block.waiting.fall_asleep(&asleep);
        assert!(look(&segment).is_none(), "it was awake: the time begins anew");
        std::thread::sleep(Duration::from_millis(1100));
        block.waiting.stir();
        assert!(look(&segment).is_none(), "it looks around");
        block.waiting.settle();
        block.bell.awake();
        assert!(look(&segment).is_none(), "a message is on its way");
        block.bell.announce(|| ());
        let stuck = look(&segment).unwrap();
        assert!(stuck.end);
        assert!(stuck.is_certain && stuck.headline.contains("for ever"));
    }

    #[test]
    fn a_server_sleeps_without_a_word_and_others_can_still_be_stuck() {
        let segment = Segment::private(1, 1).unwrap();
        let block = segment.rank(0);
        let asleep = |outside| {
            block.waiting.fall_asleep(&Account {
                count: 1,
                outside,
                items: vec![Item::default()],
                ..Account::default()
            });
            block.bell.announce(|| ());
        };
        let mut stall = Stall::default();
        let mut after_a_second = || {
            assert!(stall.look(Policy::End(1), &segment, |_| true).is_none());
            std::thread::sleep(Duration::from_millis(1100));
            stall.look(Policy::End(1), &segment, |_| true)
        };
        let former = block.doing.enter(number("MPI_Comm_accept"));
        asleep(true);
        assert_eq!(after_a_second(), None);
        block.doing.leave(former);
        block.waiting.wake();
        asleep(true);
        assert!(after_a_second().is_some_and(|stuck| !stuck.is_certain));
        block.waiting.wake();
        asleep(true);
        assert_eq!(after_a_second(), None, "that was said");
        block.waiting.wake();
        asleep(false);
        assert!(after_a_second().is_some_and(|stuck| stuck.is_certain && stuck.end));
    }

    #[test]
    fn other_threads_may_come() {
        let segment = Segment::private(1, 1).unwrap();
        let block = segment.rank(0);
        // This process has the thread of the test and the one that waits for it, and no memory of a job.
        block.pid.store(std::process::id(), Ordering::Relaxed);
        let asleep = Account {
            count: 1,
            threads: true,
            items: vec![Item::default()],
            ..Account::default()
        };
        block.waiting.fall_asleep(&asleep);
        block.bell.announce(|| ());
        let mut stall = Stall::default();
        assert!(stall.look(Policy::End(1), &segment, |_| true).is_none());
        std::thread::sleep(Duration::from_millis(1100));
        let stuck = stall.look(Policy::End(1), &segment, |_| true).unwrap();
        assert!(!stuck.end && !stuck.is_certain, "{stuck:?}");
    }

    #[test]
    fn who_looks_around_tells_nothing_and_who_is_gone_has_nothing_to_tell() {
        let sleeps = crate::view::tests::sleeper(0, "MPI_Recv", true, &[]);
        let stirs = View {
            account: None,
            ..sleeps.clone()
        };
        let gone = View {
            is_gone: true,
            ..stirs.clone()
        };
        assert!(tells(&sleeps) && tells(&gone) && !tells(&stirs));
    }
}
