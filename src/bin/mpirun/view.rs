//! What the ranks of a job are doing, read from its memory and from /proc, and the words for it.

use mpi::mpi::coll::signature;
use mpi::mpi::pt2pt::matching::Envelope;
use mpi::shm::doing::{Activity, number};
use mpi::shm::segment::{Life, Segment};
use mpi::shm::waiting::{Account, Item, Near};
use mpi::sys::clock;
use mpi::sys::process::exists;
use mpi::sys::thread;
use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

/// Names of the functions of MPI, by number.
pub struct Calls(HashMap<u32, &'static str>);

/// What is known about one rank.
#[derive(Clone, Debug)]
pub struct View {
    pub rank: u32,
    /// 0 if nobody knows.
    pub pid: u32,
    pub life: Life,
    /// Its process has ended.
    pub is_gone: bool,
    pub activity: Activity,
    /// What it sleeps for, if it sleeps.
    pub account: Option<Account>,
    /// The call it is in.
    pub call: Option<&'static str>,
}

impl Calls {
    /// The functions of the table that the library is made from.
    pub fn new() -> Calls {
        let lines = include_str!("../../abi/functions.tsv").lines();
        let names = lines
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split('\t').next());
        Calls(names.map(|name| (number(name), name)).collect())
    }

    /// The call a rank is in.
    pub fn of(&self, activity: &Activity) -> Option<&'static str> {
        self.0.get(&activity.call?).copied()
    }
}

/// Those `ranks` of `segment`, numbered from 0 on; `process` gives the process of each, if the caller knows it, and whether it is gone.
pub fn look(
    calls: &Calls,
    segment: &Segment,
    ranks: Range<u32>,
    process: impl Fn(u32) -> (Option<u32>, bool),
) -> Vec<View> {
    let view = |rank| {
        let block = segment.rank(ranks.start + rank);
        let activity = block.doing.read();
        let (pid, is_gone) = process(rank);
        let own = block.pid.load(std::sync::atomic::Ordering::Relaxed);
        let mut account = block.waiting.read();
        if let Some(account) = &mut account {
            // Whoever else is in MPI may be why it sleeps.
            account.threads = account.threads && !is_alone(own);
            account.is_certain &= !account.threads;
        }
        View {
            rank,
            pid: pid.unwrap_or(own),
            life: segment.life(ranks.start + rank),
            is_gone,
            call: calls.of(&activity),
            activity,
            account,
        }
    };
    (0..ranks.end - ranks.start).map(view).collect()
}

impl View {
    /// What the rank does, without a subject: `waits in MPI_Recv(source=1, tag=7, MPI_COMM_WORLD)`.
    pub fn doing(&self, ranks: u32) -> String {
        if self.is_gone {
            return "is gone".into();
        }
        match self.life {
            Life::Absent => return "has not called MPI_Init".into(),
            Life::Finalized => return "has called MPI_Finalize".into(),
            Life::Dead => return "is dead".into(),
            Life::Attached => {}
        }
        match (&self.account, self.call) {
            (Some(account), call) => format!("waits in {}", waits(account, call, ranks)),
            (None, Some(call)) => format!("is in {call}"),
            (None, None) => "runs outside MPI".into(),
        }
    }

    /// The operations that it waits for, as far as it says.
    pub fn awaited(&self) -> &[Item] {
        let Some(account) = &self.account else { return &[] };
        match account.is_certain {
            true => &account.items[..account.items.len().min(1)],
            false => &account.items,
        }
    }

    /// How long it has been asleep.
    pub fn asleep(&self) -> Option<Duration> {
        let since = self.account.as_ref()?.since;
        Some(Duration::from_nanos(clock::nanoseconds().saturating_sub(since)))
    }

    /// The collective call that it is in and the number of its communicator.
    pub fn collective(&self) -> Option<(u16, &'static str)> {
        let item = self.account.as_ref()?.items.first()?;
        if item.context & 1 == 0 {
            return None;
        }
        let name = item.tag.filter(|&tag| tag < 0).map(signature::name);
        Some((item.context >> 1, self.call.or(name)?))
    }
}

/// The wait, by its call: `MPI_Recv(source=1, tag=7, MPI_COMM_WORLD)`.
fn waits(account: &Account, call: Option<&'static str>, ranks: u32) -> String {
    let Some(first) = account.items.first() else {
        return call.unwrap_or("MPI").to_string();
    };
    match call {
        Some(call @ "MPI_Comm_accept") if account.outside => return format!("{call} for somebody to connect"),
        Some(call @ "MPI_Comm_connect") if account.outside => return format!("{call} to be accepted"),
        _ => {}
    }
    let described = |index: usize, item: &Item| {
        let name = if index == 0 { account.name.as_str() } else { "" };
        arguments(item, name, ranks)
    };
    if let Some(tag) = first.tag.filter(|&tag| first.context & 1 == 1 && tag < 0) {
        let name = call.unwrap_or(signature::name(tag));
        let peers: Vec<String> = account
            .items
            .iter()
            .filter_map(|item| item.peer)
            .map(|peer| peer.to_string())
            .collect();
        let plural = if peers.len() == 1 { "rank" } else { "ranks" };
        let comm = communicator(first.context, &account.name);
        return format!("{name} on {comm} for {plural} {}", peers.join(", "));
    }
    let direct = [
        "MPI_Recv",
        "MPI_Mrecv",
        "MPI_Probe",
        "MPI_Mprobe",
        "MPI_Send",
        "MPI_Ssend",
        "MPI_Rsend",
    ];
    let names_it = |call: &&str| account.is_certain && (first.is_member || direct.contains(call));
    if let Some(call) = call.filter(names_it) {
        return format!("{call}({})", described(0, first));
    }
    let word = |item: &Item| match item {
        Item { is_member: true, .. } => "member",
        Item { is_send: true, .. } => "send",
        _ => "receive",
    };
    let shown = if account.is_certain { 1 } else { account.items.len() };
    let mut items: Vec<String> = account.items[..shown]
        .iter()
        .enumerate()
        .map(|(index, item)| format!("{}({})", word(item), described(index, item)))
        .collect();
    let more = (account.count as usize).saturating_sub(shown);
    if more > 0 && !account.is_certain {
        items.push(format!("and {more} more"));
    }
    format!("{} for {}", call.unwrap_or("MPI"), items.join(", "))
}

/// An operation's arguments as its call has them.
fn arguments(item: &Item, name: &str, ranks: u32) -> String {
    if item.is_member {
        return format!("rank={} of a window", item.len);
    }
    let side = if item.is_send { "dest" } else { "source" };
    let peer = match (item.place, item.peer) {
        (_, Some(peer)) if peer >= ranks => "an impossible rank".into(),
        (Some(place), Some(peer)) if place != peer => format!("{place} (rank {peer} of the job)"),
        (Some(place), _) => place.to_string(),
        (None, _) => "MPI_ANY_SOURCE".into(),
    };
    let tag = match item.tag {
        Some(tag) => tag.to_string(),
        None => "MPI_ANY_TAG".into(),
    };
    let bytes = match item.is_send {
        true => format!("{} bytes, ", item.len),
        false => String::new(),
    };
    format!("{bytes}{side}={peer}, tag={tag}, {}", communicator(item.context, name))
}

/// The communicator of a context: by its MPI name, the one the program gave it, or its number.
pub fn communicator(context: u16, name: &str) -> String {
    match (context >> 1, name) {
        (0, "" | "MPI_COMM_WORLD") => "MPI_COMM_WORLD".into(),
        (1, "" | "MPI_COMM_SELF") => "MPI_COMM_SELF".into(),
        (number, "") => format!("communicator {number}"),
        (_, name) => format!("{name:?}"),
    }
}

/// How a message that came differs from what is waited for.
pub fn difference(near: &Near, wanted: &Item) -> String {
    let envelope = Envelope(near.envelope);
    let got = |what: String| format!("a message of {} bytes has come {what}", near.len);
    if envelope.context() != wanted.context {
        let comm = communicator(envelope.context(), "");
        return got(format!("with this source and tag, but on {comm}"));
    }
    if wanted.tag.is_some_and(|tag| tag != envelope.tag()) {
        return got(format!("from rank {} with tag {}", envelope.source(), envelope.tag()));
    }
    got(format!("with this tag from rank {}", envelope.source()))
}

/// What the kernel says about a process: the letter of its state and the CPU time it has used.
pub fn process(pid: u32) -> Option<(char, Duration)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    // The kernel shows times in USER_HZ, which is 100 on x86-64.
    Some((fields.first()?.chars().next()?, Duration::from_millis(ticks * 10)))
}

/// Whether process `pid` has ended. One that may not be looked at has not.
pub fn is_gone(pid: u32) -> bool {
    let has_ended = || process(pid).map_or_else(|| !exists(pid as i32), |(state, _)| matches!(state, 'Z' | 'X'));
    pid != 0 && has_ended()
}

/// Whether a rank's process `pid` has one thread, beside the library's own. Its number may be that of another namespace: whoever has it
/// here must use a job's memory.
pub fn is_alone(pid: u32) -> bool {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let process = PathBuf::from(format!("/proc/{pid}"));
    let tasks = fs::read_dir(process.join("task")).into_iter().flatten().flatten();
    let of_program = tasks.filter(|task| read(task.path().join("comm")).trim_end() != thread::PROGRESS);
    of_program.take(2).count() == 1 && read(process.join("maps")).contains("/memfd:nearmpi (deleted)")
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A receive on MPI_COMM_WORLD.
    pub fn receive(peer: u32, tag: i32) -> Item {
        Item {
            peer: Some(peer),
            place: Some(peer),
            tag: Some(tag),
            ..Item::default()
        }
    }

    /// A rank that waits for `items` in `call`.
    pub fn sleeper(rank: u32, call: &'static str, is_certain: bool, items: &[Item]) -> View {
        let account = Account {
            count: items.len() as u32,
            is_certain,
            items: items.to_vec(),
            since: clock::nanoseconds(),
            ..Account::default()
        };
        View {
            rank,
            pid: 0,
            life: Life::Attached,
            is_gone: false,
            activity: Activity::default(),
            account: Some(account),
            call: Some(call),
        }
    }

    #[test]
    fn each_function_has_a_number_of_its_own() {
        let lines = include_str!("../../abi/functions.tsv").lines();
        let functions = lines.filter(|line| !line.starts_with('#')).count();
        let calls = Calls::new();
        assert_eq!(calls.0.len(), functions);
        let activity = Activity {
            call: Some(number("MPI_Put")),
            ..Activity::default()
        };
        assert_eq!(calls.of(&activity), Some("MPI_Put"));
    }

    #[test]
    fn waits_are_told_as_calls() {
        let one = sleeper(0, "MPI_Recv", true, &[receive(1, 7)]);
        assert_eq!(one.doing(4), "waits in MPI_Recv(source=1, tag=7, MPI_COMM_WORLD)");
        let send = Item {
            is_send: true,
            len: 100,
            context: 10,
            place: Some(0),
            ..receive(2, 5)
        };
        let many = sleeper(0, "MPI_Waitall", false, &[receive(1, 7), send]);
        assert_eq!(
            many.doing(4),
            "waits in MPI_Waitall for receive(source=1, tag=7, MPI_COMM_WORLD), \
             send(100 bytes, dest=0 (rank 2 of the job), tag=5, communicator 5)"
        );
        let any = Item {
            peer: None,
            place: None,
            tag: None,
            ..receive(0, 0)
        };
        let probe = sleeper(0, "MPI_Probe", true, &[any]);
        assert_eq!(
            probe.doing(4),
            "waits in MPI_Probe(source=MPI_ANY_SOURCE, tag=MPI_ANY_TAG, MPI_COMM_WORLD)"
        );
        let collective = Item {
            context: 1,
            ..receive(3, signature::Signature::of(signature::Call::Bcast).tag(4))
        };
        let bcast = sleeper(0, "MPI_Bcast", true, &[collective]);
        assert_eq!(bcast.doing(4), "waits in MPI_Bcast on MPI_COMM_WORLD for rank 3");
    }

    #[test]
    fn junk_is_described_not_believed() {
        let item = Item {
            peer: Some(0xffff),
            place: Some(0xffff),
            tag: Some(i32::MIN | 0xf << 27),
            context: 3,
            ..Item::default()
        };
        let view = sleeper(0, "MPI_Recv", true, &[Item { context: 2, ..item }]);
        assert!(view.doing(4).contains("source=an impossible rank"), "{}", view.doing(4));
        let mut view = sleeper(0, "MPI_Recv", true, &[item]);
        view.call = None;
        assert_eq!(view.doing(4), "waits in something else on MPI_COMM_SELF for rank 65535");
    }
}
