//! The summary for a terminal.

use crate::model::Run;
use crate::units::{bytes, number, share, time};

/// Calls that are shown.
const CALLS: usize = 8;
/// Waits that are shown.
const WAITS: usize = 3;

/// The summary; `page` is where the page lies.
pub fn text(run: &Run, page: &str) -> String {
    let (all, in_mpi, waiting) = run.totals();
    let ranks = if run.ranks == 1 {
        "1 rank".into()
    } else {
        format!("{} ranks", run.ranks)
    };
    let mut text = format!("profile of {} ({ranks}, {}): {page}\n", run.command, time(run.seconds));
    let part = |process: &&crate::model::Process| process.in_mpi / process.seconds.max(f64::MIN_POSITIVE);
    let least = run.processes.iter().min_by(|a, b| part(a).total_cmp(&part(b)));
    let most = run.processes.iter().max_by(|a, b| part(a).total_cmp(&part(b)));
    text += &format!(
        "  in MPI     {} of the time, {} waiting",
        share(in_mpi, all),
        share(waiting, all)
    );
    if let (Some(least), Some(most)) = (least, most)
        && run.ranks > 1
    {
        let of = |process: &crate::model::Process| share(process.in_mpi, process.seconds);
        text += &format!(
            "; from {} (rank {}) to {} (rank {})",
            of(least),
            least.rank,
            of(most),
            most.rank
        );
    }
    text.push('\n');
    if let Some((imbalance, rank)) = run.imbalance().filter(|_| run.ranks > 1) {
        let percent = share(imbalance, 1.0);
        text += &format!("  imbalance  {percent}: rank {rank} is outside of MPI that much longer than the average\n");
    }
    let (messages, total) = run.physical.total();
    let (_, logical) = run.logical.total();
    let moved = bytes(total);
    text += &format!(
        "  traffic    {moved} in {} messages; data passed on: {}\n",
        number(messages),
        bytes(logical)
    );
    let paths = paths(run);
    if !paths.is_empty() {
        let list: Vec<String> = paths
            .iter()
            .map(|(path, _, bytes)| format!("{path} {}", share(*bytes as f64, total as f64)))
            .collect();
        text += &format!("  by path    {} of the bytes\n", list.join(", "));
    }
    text += &format!(
        "\n  {:28} {:>14} {:>10} {:>8} {:>10} {:>10}\n",
        "call", "count", "time", "of all", "waiting", "longest"
    );
    for call in run.calls.iter().take(CALLS) {
        let about = if call.sampled > 0 { "~ " } else { "" };
        text += &format!(
            "  {:28} {:>14} {:>10} {:>8} {:>10} {:>10}\n",
            call.name,
            number(call.count),
            format!("{about}{}", time(call.seconds)),
            share(call.seconds, all),
            time(call.waiting),
            time(call.longest),
        );
    }
    if !run.longest_waits.is_empty() {
        text += "\n";
    }
    for wait in run.longest_waits.iter().take(WAITS) {
        let peer = wait.peer.map_or(String::new(), |peer| format!(" for rank {peer}"));
        let call = wait.call.as_ref().map_or(String::new(), |call| format!(" in {call}"));
        let end = if wait.unfinished { ", until its end" } else { "" };
        text += &format!(
            "  rank {} waited {}{call}{peer}, {} after the start{end}\n",
            wait.rank,
            time(wait.seconds),
            time(wait.began),
        );
    }
    for process in run.processes.iter().filter(|process| !process.finished) {
        text += &format!(
            "  rank {} {}; what it counted until then is in\n",
            process.rank, process.end
        );
    }
    let missing = run.ranks as usize - run.processes.len().min(run.ranks as usize);
    if missing > 0 {
        text += &format!("  {missing} of {} ranks never came to MPI_Init\n", run.ranks);
    }
    if let Some(sentence) = later(run) {
        text += &format!("  {sentence}\n");
    }
    text
}

/// What is to be said about ranks that were started later.
pub fn later(run: &Run) -> Option<String> {
    match run.later {
        0 => None,
        1 => Some("1 rank that was started later is not in this profile".into()),
        later => Some(format!("{later} ranks that were started later are not in this profile")),
    }
}

/// Messages and bytes by path, the most bytes first.
pub fn paths(run: &Run) -> Vec<(String, u64, u64)> {
    let mut names: Vec<String> = run.traffic.iter().map(|traffic| traffic.path.clone()).collect();
    names.sort();
    names.dedup();
    let mut paths: Vec<(String, u64, u64)> = Vec::new();
    for name in names {
        let (messages, bytes) = run.pieces(|traffic| traffic.path == name);
        paths.push((name, messages, bytes));
    }
    paths.sort_by_key(|path| std::cmp::Reverse((path.2, path.1)));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Call;

    #[test]
    fn estimates_are_marked_and_ranks_that_came_later_are_told() {
        let call = |name: &str, sampled| Call {
            name: name.into(),
            count: 9,
            seconds: 0.0123,
            sampled,
            ..Call::default()
        };
        let mut run = Run {
            ranks: 1,
            calls: vec![call("MPI_Send", 5), call("MPI_Barrier", 0)],
            later: 2,
            ..Run::default()
        };
        let line = |text: &str, word: &str| text.lines().find(|line| line.contains(word)).map(String::from);
        let said = text(&run, "page");
        assert!(line(&said, "MPI_Send").unwrap().contains(" ~ 12.3 ms "));
        assert!(!line(&said, "MPI_Barrier").unwrap().contains('~'));
        assert_eq!(
            line(&said, "later").unwrap(),
            "  2 ranks that were started later are not in this profile"
        );
        run.later = 0;
        assert_eq!(line(&text(&run, "page"), "later"), None);
    }
}
