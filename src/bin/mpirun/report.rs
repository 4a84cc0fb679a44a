//! Who waits for whom: the report of a job that does not move, or of one that somebody asks about.

use crate::view::{View, communicator, difference};
use std::collections::BTreeMap;
use std::time::Duration;

/// Ranks that the report tells about one by one.
const TOLD: usize = 64;

/// The lines about `views`, all ranks of the job. `is_stuck`: nothing is on its way to anybody.
pub fn lines(views: &[View], is_stuck: bool) -> Vec<String> {
    let ranks = views.len() as u32;
    let mut lines = Vec::new();
    // Ranks that do the same are told about together; what is left has a line each.
    let mut alike: BTreeMap<String, Vec<u32>> = BTreeMap::new();
    let mut order = Vec::new();
    for view in views {
        let doing = view.doing(ranks);
        let group = alike.entry(doing.clone()).or_default();
        if group.is_empty() {
            order.push((doing, view));
        }
        group.push(view.rank);
    }
    let groups = order.len();
    for (doing, view) in order.into_iter().take(TOLD) {
        let members = &alike[&doing];
        let verb = if members.len() > 1 {
            plural(&doing)
        } else {
            doing.clone()
        };
        let time = view
            .asleep()
            .map(|time| format!(" for {}", seconds(time)))
            .unwrap_or_default();
        lines.push(format!("  {} {verb}{time}", who(members)));
        let wanted = view.awaited().first();
        if let (Some(account), Some(wanted)) = (&view.account, wanted) {
            lines.extend(
                account
                    .near
                    .iter()
                    .map(|near| format!("    {}", difference(near, wanted))),
            );
        }
    }
    if groups > TOLD {
        lines.push(format!("  and {} ranks more", groups - TOLD));
    }
    lines.extend(mismatches(views));
    lines.extend(ended(views));
    if let Some(cycle) = cycle(views) {
        let chain: Vec<String> = cycle.iter().map(u32::to_string).collect();
        let word = if is_stuck {
            "deadlock"
        } else {
            "they wait for each other"
        };
        lines.push(format!("  {word}: {} -> {}", chain.join(" -> "), chain[0]));
    }
    lines
}

/// `waits` of one is `wait` of several.
fn plural(doing: &str) -> String {
    let (verb, rest) = doing.split_once(' ').unwrap_or((doing, ""));
    let verb = match verb {
        "is" => "are",
        "has" => "have",
        "waits" => "wait",
        "runs" => "run",
        other => other,
    };
    format!("{verb} {rest}")
}

/// `rank 3`, `ranks 1 to 3 and 7`.
fn who(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let mut parts: Vec<String> = Vec::new();
    for (first, last) in runs {
        match last - first {
            0 => parts.push(first.to_string()),
            1 => parts.extend([first.to_string(), last.to_string()]),
            _ => parts.push(format!("{first} to {last}")),
        }
    }
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    match parts.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{word} {} and {last}", rest.join(", ")),
        _ => format!("{word} {}", parts.join("")),
    }
}

/// A time as people read it.
pub fn seconds(time: Duration) -> String {
    match time.as_secs() {
        0..100 => format!("{:.1} s", time.as_secs_f64()),
        s @ 100..6000 => format!("{} min {:02} s", s / 60, s % 60),
        s => format!("{} h {:02} min", s / 3600, s / 60 % 60),
    }
}

/// Communicators whose ranks wait in different collective calls.
fn mismatches(views: &[View]) -> Vec<String> {
    let mut by_comm: BTreeMap<u16, BTreeMap<&str, Vec<u32>>> = BTreeMap::new();
    for view in views {
        if let Some((comm, call)) = view.collective() {
            by_comm
                .entry(comm)
                .or_default()
                .entry(call)
                .or_default()
                .push(view.rank);
        }
    }
    let name = |comm: u16| {
        let mut items = views.iter().filter_map(|view| view.account.as_ref());
        let named = items.find(|account| {
            let first = account.items.first();
            !account.name.is_empty() && first.is_some_and(|item| item.context >> 1 == comm)
        });
        communicator(comm << 1, named.map_or("", |account| &account.name))
    };
    let differing = by_comm.into_iter().filter(|(_, calls)| calls.len() > 1);
    differing
        .map(|(comm, calls)| {
            let calls: Vec<String> = calls
                .into_iter()
                .map(|(call, ranks)| format!("{} in {call}", who(&ranks)))
                .collect();
            let comm = name(comm);
            format!("  different collective calls on {comm}: {}", calls.join(", "))
        })
        .collect()
}

/// Waits for ranks that will answer nobody any more.
fn ended(views: &[View]) -> Vec<String> {
    let end_of = |peer: u32| {
        let view = views.get(peer as usize)?;
        let gone = view.is_gone || view.life == mpi::shm::segment::Life::Finalized;
        gone.then(|| view.doing(views.len() as u32))
    };
    let waits = views.iter().filter(|view| view.account.is_some()).filter_map(|view| {
        let peer = view
            .awaited()
            .iter()
            .find_map(|item| item.peer.filter(|&peer| end_of(peer).is_some()))?;
        Some(format!(
            "  rank {} waits for rank {peer}, which {}",
            view.rank,
            end_of(peer)?
        ))
    });
    waits.take(TOLD).collect()
}

/// Ranks each of which waits for the next, and the last for the first.
fn cycle(views: &[View]) -> Option<Vec<u32>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Closed,
    }
    let edges = |rank: u32| {
        let peers = views[rank as usize].awaited().iter().filter_map(|item| item.peer);
        peers
            .filter(|&peer| (peer as usize) < views.len())
            .collect::<Vec<u32>>()
    };
    let mut marks = vec![Mark::New; views.len()];
    for start in 0..views.len() as u32 {
        if marks[start as usize] != Mark::New {
            continue;
        }
        marks[start as usize] = Mark::Open;
        let mut path = vec![(start, edges(start))];
        while let Some((rank, left)) = path.last_mut() {
            let rank = *rank;
            match left.pop() {
                Some(peer) if marks[peer as usize] == Mark::Open => {
                    let path = path.iter().map(|(rank, _)| *rank);
                    return Some(path.skip_while(|&rank| rank != peer).collect());
                }
                Some(peer) if marks[peer as usize] == Mark::New => {
                    marks[peer as usize] = Mark::Open;
                    path.push((peer, edges(peer)));
                }
                Some(_) => {}
                None => {
                    marks[rank as usize] = Mark::Closed;
                    path.pop();
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::{receive, sleeper};
    use mpi::mpi::coll::signature::{Call, Signature};
    use mpi::shm::segment::Life;
    use mpi::shm::waiting::{Item, Near};

    #[test]
    fn a_cycle_is_named() {
        let wait = |rank, peer| sleeper(rank, "MPI_Recv", true, &[receive(peer, 7)]);
        let lines = lines(&[wait(0, 1), wait(1, 2), wait(2, 1)], true);
        assert_eq!(lines.last().unwrap(), "  deadlock: 1 -> 2 -> 1");
        assert!(lines[0].starts_with("  ranks 0 and 2 wait in MPI_Recv(source=1, tag=7, MPI_COMM_WORLD) for 0.0 s"));
        assert_eq!(cycle(&[wait(0, 1), sleeper(1, "MPI_Recv", true, &[])]), None);
        assert_eq!(cycle(&[wait(0, 0)]), Some(vec![0]));
    }

    #[test]
    fn what_nearly_matches_is_shown() {
        let mut view = sleeper(0, "MPI_Recv", true, &[receive(1, 7)]);
        let envelope = mpi::mpi::pt2pt::matching::Envelope::new(0, 1, 8).0;
        view.account.as_mut().unwrap().near = vec![Near { envelope, len: 4 }];
        let mut done = sleeper(1, "MPI_Recv", true, &[]);
        (done.account, done.life) = (None, Life::Finalized);
        let lines = lines(&[view, done], true);
        assert_eq!(lines[1], "    a message of 4 bytes has come from rank 1 with tag 8");
        assert_eq!(lines[2], "  rank 1 has called MPI_Finalize");
        assert_eq!(lines[3], "  rank 0 waits for rank 1, which has called MPI_Finalize");
    }

    #[test]
    fn different_collectives_are_named() {
        let wait = |rank, call: &'static str, number| {
            let item = Item {
                context: 1,
                ..receive(0, Signature::of(number).tag(3))
            };
            sleeper(rank, call, true, &[item])
        };
        let views: Vec<View> = [
            wait(0, "MPI_Bcast", Call::Bcast),
            wait(1, "MPI_Gather", Call::Gather),
            wait(2, "MPI_Bcast", Call::Bcast),
            wait(3, "MPI_Bcast", Call::Bcast),
            wait(4, "MPI_Bcast", Call::Bcast),
        ]
        .into();
        let lines = mismatches(&views);
        assert_eq!(
            lines,
            ["  different collective calls on MPI_COMM_WORLD: ranks 0 and 2 to 4 in MPI_Bcast, rank 1 in MPI_Gather"]
        );
    }

    #[test]
    fn times_are_short() {
        let of = |s| seconds(Duration::from_secs(s));
        assert_eq!([of(3), of(100), of(7265)], ["3.0 s", "1 min 40 s", "2 h 01 min"]);
    }
}
