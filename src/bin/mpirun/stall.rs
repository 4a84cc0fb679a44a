//! Notices that all ranks wait for each other, and says who waits for whom.
//!
//! A rank that sleeps in MPI says so in the job's memory ([`mpi::shm::waiting`]). When every rank
//! that is not through with MPI sleeps, none has woken since the last look, and no message is on its
//! way to any (a message rings the sleeper's bell), nothing can wake them any more: only their own
//! threads could, if the program has several in MPI.

use mpi::mpi::coll::signature;
use mpi::shm::segment::Segment;
use mpi::shm::waiting::{Account, Item};
use std::time::{Duration, Instant};

/// Ranks that the report tells about.
const TOLD: usize = 64;

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
    turns: Vec<u32>,
    since: Option<Instant>,
    reported: bool,
}

/// A job that is stuck.
pub struct Stuck {
    /// Lines that say who waits for whom.
    pub report: Vec<String>,
    /// The job is to be ended.
    pub end: bool,
}

impl Stall {
    /// Looks at the ranks, of which `takes_part` says which can still take part.
    pub fn look(&mut self, policy: Policy, segment: &Segment, takes_part: impl Fn(u32) -> bool) -> Option<Stuck> {
        let patience = policy.patience()?;
        let now = Instant::now();
        if self.reported {
            return None;
        }
        let ranks: Vec<u32> = (0..segment.ranks()).filter(|&rank| takes_part(rank)).collect();
        let accounts: Option<Vec<Account>> = ranks.iter().map(|&r| segment.rank(r).waiting.read()).collect();
        let Some(accounts) = accounts.filter(|accounts| !accounts.is_empty()) else {
            self.since = None;
            return None;
        };
        let turns: Vec<u32> = accounts.iter().map(|account| account.turn).collect();
        if self.since.is_none() || turns != self.turns {
            (self.turns, self.since) = (turns, Some(now));
            return None;
        }
        // Between two naps a bell is not set for a moment; a rung one stays so until the rank runs.
        let quiet = ranks.iter().all(|&rank| segment.rank(rank).bell.is_set());
        if !quiet || self.since.is_none_or(|since| now - since < patience) {
            return None;
        }
        self.reported = true;
        let threads = accounts.iter().any(|account| account.threads);
        let vague = accounts.iter().any(|account| account.count == 0);
        let mut report = vec![format!(
            "nothing has moved for {} s: {}",
            patience.as_secs(),
            match threads || vague {
                true => "all ranks sleep in MPI",
                false => "the ranks wait for each other and for ever",
            }
        )];
        let size = segment.ranks();
        report.extend(ranks.iter().zip(&accounts).take(TOLD).map(|(rank, account)| {
            let items: Vec<String> = account.items.iter().map(|item| describe(item, size)).collect();
            let more = (account.count as usize).saturating_sub(items.len());
            let more = if more > 0 {
                format!("; and {more} more")
            } else {
                String::new()
            };
            let what = if items.is_empty() {
                "waits".to_string()
            } else {
                items.join("; ")
            };
            format!("  rank {rank} {what}{more}")
        }));
        if ranks.len() > TOLD {
            report.push(format!("  and {} ranks more", ranks.len() - TOLD));
        }
        let gone = size as usize - ranks.len();
        if gone > 0 {
            report.push(format!("  {gone} of {size} ranks have called MPI_Finalize or are gone"));
        }
        let end = matches!(policy, Policy::End(_)) && !threads && !vague;
        Some(Stuck { report, end })
    }
}

/// What an operation under way waits for.
fn describe(item: &Item, size: u32) -> String {
    let peer = match item.peer {
        Some(peer) if peer < size => format!("rank {peer}"),
        Some(_) => "an impossible rank".into(),
        None => "any rank".into(),
    };
    if item.is_send {
        return format!("sends to {peer}, which does not receive it");
    }
    let comm = match item.context >> 1 {
        0 => "MPI_COMM_WORLD".into(),
        1 => "MPI_COMM_SELF".into(),
        number => format!("communicator {number}"),
    };
    match item.tag {
        Some(tag) if item.context & 1 == 1 && tag < 0 => {
            format!("is in {} on {comm} and waits for {peer}", signature::name(tag))
        }
        _ if item.context & 1 == 1 => format!("makes a communicator out of {comm} and waits for {peer}"),
        Some(tag) => format!("receives from {peer} with tag {tag} on {comm}"),
        None => format!("receives from {peer} with any tag on {comm}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_read() {
        assert_eq!(Policy::parse("off"), Ok(Policy::Off));
        assert_eq!(Policy::parse("report"), Ok(Policy::Report(5)));
        assert_eq!(Policy::parse("report:30"), Ok(Policy::Report(30)));
        assert_eq!(Policy::parse("7"), Ok(Policy::End(7)));
        assert!(Policy::parse("abort:0").is_err() && Policy::parse("often").is_err());
    }

    #[test]
    fn junk_is_described_not_believed() {
        let item = Item {
            is_send: false,
            peer: Some(u32::MAX),
            tag: Some(i32::MIN | 0xf << 27),
            context: 3,
        };
        assert_eq!(
            describe(&item, 4),
            "is in something else on MPI_COMM_SELF and waits for an impossible rank"
        );
    }

    #[test]
    fn sleepers_are_stuck_only_after_the_time() {
        let segment = Segment::private(2, 2).unwrap();
        let receive = Item {
            is_send: false,
            peer: Some(1),
            tag: Some(9),
            context: 0,
        };
        let mut stall = Stall::default();
        let mut look = |segment: &Segment| stall.look(Policy::End(1), segment, |rank| rank == 0);
        assert!(look(&segment).is_none());
        let block = segment.rank(0);
        block.waiting.fall_asleep(false, 1, &[receive]);
        block.bell.announce(|| ());
        assert!(look(&segment).is_none() && look(&segment).is_none());
        std::thread::sleep(Duration::from_millis(1100));
        block.bell.awake();
        assert!(look(&segment).is_none(), "a message is on its way");
        block.bell.announce(|| ());
        let stuck = look(&segment).unwrap();
        assert!(stuck.end);
        assert_eq!(
            stuck.report[1],
            "  rank 0 receives from rank 1 with tag 9 on MPI_COMM_WORLD"
        );
    }
}
