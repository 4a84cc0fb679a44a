//! The page: one file of HTML with its style and pictures inside.

use crate::charts::{self, bar, colour, key};
use crate::model::{Matrix, Run};
use crate::sizes::{self, CHAI, JIN};
use crate::summary::{later, paths};
use crate::units::{bytes, number, share, time};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// Functions that are shown rank by rank.
const CALLS: usize = 14;
/// Events that are shown.
const EVENTS: usize = 100;

/// The page's text.
pub fn page(run: &Run) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Profile of " (run.command) }
                style { (PreEscaped(include_str!("page.css"))) }
            }
            body { main {
                (head(run))
                (times(run))
                (calls(run))
                (matrix(run))
                (messages(run))
                (waits(run))
                (settings(run))
                (processes(run))
            } }
        }
    };
    page.into_string()
}

fn head(run: &Run) -> Markup {
    let (all, in_mpi, waiting) = run.totals();
    let (messages, moved) = run.physical.total();
    let early = run.processes.iter().filter(|process| !process.finished);
    let missing = (run.ranks as usize).saturating_sub(run.processes.len());
    let figure = |value: String, word: &str| html! { div.figure { b { (value) } span { (word) } } };
    html! {
        header {
            h1 { "Profile of a run" }
            p { code { (run.command) } }
            p { (run.ranks) @if run.ranks == 1 { " rank" } @else { " ranks" } " on " (run.cpus)
                @if run.cpus == 1 { " CPU" } @else { " CPUs" } ", " (date(run.started)) ", nearmpi " (run.nearmpi) }
        }
        @for process in early { p.warn { "Rank " (process.rank) " " (process.end) "; what it counted until then is in." } }
        @if missing > 0 { p.warn { (missing) " of " (run.ranks) " ranks never came to MPI_Init." } }
        @if let Some(sentence) = later(run) { p.warn { (sentence) "." } }
        div.figures {
            (figure(time(run.seconds), "from the first MPI_Init to the last end"))
            (figure(share(in_mpi, all), "of the time in MPI"))
            (figure(share(waiting, all), "of the time waiting in MPI"))
            @if let Some((imbalance, rank)) = run.imbalance() {
                (figure(share(imbalance, 1.0), &format!("imbalance: rank {rank} computes that much longer than the average")))
            }
            (figure(bytes(moved), "moved between ranks"))
            (figure(number(messages), "messages, those of collectives included"))
        }
    }
}

fn times(run: &Run) -> Markup {
    html! {
        section {
            h2 { "Time by rank" }
            p.hint { "The length of each part is a sum over the run, not a place in it." }
            div.keys {
                (key("var(--outside)", "outside of MPI")) (key("var(--work)", "working in MPI"))
                (key("var(--wait)", "waiting in MPI"))
            }
            (charts::times(run))
        }
    }
}

fn calls(run: &Run) -> Markup {
    let (all, ..) = run.totals();
    let most = run.calls.first().map_or(0.0, |call| call.seconds);
    let sampled = run.calls.iter().any(|call| call.sampled > 0);
    html! {
        section {
            h2 { "Time by call" }
            p.hint { "All ranks together."
                @if sampled { " Of functions with a ~ most calls are short: their time is known from a sample; whatever waited is exact." } }
            div.scroll { table {
                thead { tr {
                    th.l { "call" } th { "count" } th { "time" } th.l { "" } th { "of all time" } th { "waiting" } th { "mean" } th { "longest" }
                } }
                tbody { @for call in &run.calls { tr {
                    td.l { (call.name) }
                    td { (number(call.count)) }
                    td { @if call.sampled > 0 { "~ " } (time(call.seconds)) }
                    td { (bar(call.seconds / most.max(f64::MIN_POSITIVE), "work")) }
                    td { (share(call.seconds, all)) }
                    td { (time(call.waiting)) }
                    td { (time(call.seconds / call.count.max(1) as f64)) }
                    td { (time(call.longest)) }
                } } }
            } }
            @if run.ranks > 1 {
                h3 { "Rank by rank" }
                p.hint { "Darker is longer. Rest the pointer on a field to read its value." }
                (charts::calls(run, CALLS))
            }
        }
    }
}

fn matrix(run: &Run) -> Markup {
    let float = |table: &[Vec<u64>]| -> Vec<Vec<f64>> {
        table
            .iter()
            .map(|row| row.iter().map(|&value| value as f64).collect())
            .collect()
    };
    let of = |matrix: &Matrix, in_bytes: bool| match in_bytes {
        true => charts::heat(&float(&matrix.bytes), "from rank", "to rank", |value| {
            bytes(value as u64)
        }),
        false => charts::heat(&float(&matrix.messages), "from rank", "to rank", |value| {
            number(value as u64)
        }),
    };
    let panels = [
        (
            "bytes that moved",
            of(&run.physical, true),
            "Who read whose data, by whichever path; collective operations as their algorithm moved it.",
        ),
        ("messages that moved", of(&run.physical, false), "In how many pieces."),
        (
            "data passed on",
            of(&run.logical, true),
            "Who has data of whom, as the program said it: a broadcast goes from its root to every rank, whatever the algorithm did.",
        ),
        (
            "operations",
            of(&run.logical, false),
            "Messages, and shares of collective operations, as the program said it.",
        ),
        (
            "waiting",
            charts::heat(&run.waited_for, "this rank waited", "for this rank", time),
            "How long a rank waited until another one did something: sent, received, or made room.",
        ),
    ];
    html! {
        section {
            h2 { "Who talks to whom" }
            p.hint { "The scale is logarithmic." }
            div.tabs {
                @for (at, (title, ..)) in panels.iter().enumerate() {
                    input type="radio" name="matrix" id=(format!("matrix{at}")) checked[at == 0];
                    label for=(format!("matrix{at}")) { (title) }
                }
                @for (_, picture, hint) in &panels { div.panel { p.hint { (hint) } (picture) } }
            }
        }
    }
}

fn messages(run: &Run) -> Markup {
    let (all, total) = run.pieces(|_| true);
    let chai = |name: &str, kind: Option<&str>| {
        let row = sizes::table(run, &CHAI, |traffic| kind.is_none_or(|kind| traffic.kind == kind));
        let sum: u64 = row.iter().map(|cell| cell.0).sum();
        html! { tr { td.l { (name) } @for cell in &row { td { (share(cell.0 as f64, sum as f64)) } } } }
    };
    let jin = |kind: Option<&str>| sizes::table(run, &JIN, |traffic| kind.is_none_or(|kind| traffic.kind == kind));
    let (each, program, inside) = (jin(None), jin(Some("message")), jin(Some("inside")));
    html! {
        section {
            h2 { "Messages by size and path" }
            div.keys { @for (path, ..) in paths(run) { (key(&colour(&path), &path)) } }
            div.two { (charts::sizes(run, false)) (charts::sizes(run, true)) }
            div.two {
                div {
                    h3 { "By path" }
                    div.scroll { table {
                        thead { tr { th.l { "path" } th { "messages" } th { "of all" } th { "bytes" } th { "of all" } } }
                        tbody { @for (path, messages, moved) in paths(run) { tr {
                            td.l { (key(&colour(&path), &path)) } td { (number(messages)) } td { (share(messages as f64, all as f64)) }
                            td { (bytes(moved)) } td { (share(moved as f64, total as f64)) }
                        } } }
                    } }
                    h3 { "Share of messages by size (classes of Chai 2008, table 1)" }
                    div.scroll { table {
                        thead { tr { th.l { "" } @for class in &CHAI { th { (class.0) } } } }
                        tbody { (chai("all", None)) (chai("program", Some("message"))) (chai("inside collectives", Some("inside"))) }
                    } }
                }
                div {
                    h3 { "Messages by size (classes of Jin 2005, table 2)" }
                    div.scroll { table {
                        thead { tr { th.l { "bytes" } th { "all" } th { "program" } th { "inside collectives" } th { "bytes, all" } } }
                        tbody { @for (row, class) in JIN.iter().enumerate() { tr {
                            td.l { (class.0) } td { (number(each[row].0)) } td { (number(program[row].0)) }
                            td { (number(inside[row].0)) } td { (bytes(each[row].1)) }
                        } } }
                    } }
                }
            }
        }
    }
}

fn waits(run: &Run) -> Markup {
    let longest = run.longest_waits.first().map_or(0.0, |wait| wait.seconds);
    html! {
        section {
            h2 { "Longest waits" }
            @if run.longest_waits.is_empty() { p.hint { "No rank waited for longer than a glance." } }
            @else {
                p.hint { "Who ended it is the rank whose message, answer or room came last." }
                div.scroll { table {
                    thead { tr { th.l { "rank" } th.l { "in" } th.l { "ended by" } th { "for" } th.l { "" } th { "after the start" } } }
                    tbody { @for wait in &run.longest_waits { tr {
                        td.l { (wait.rank) }
                        td.l { (wait.call.as_deref().unwrap_or("")) }
                        td.l { @if wait.unfinished { "nobody" @if let Some(peer) = wait.peer { " (rank " (peer) ")" } }
                               @else if let Some(peer) = wait.peer { "rank " (peer) } }
                        td { (time(wait.seconds)) }
                        td { (bar(wait.seconds / longest.max(f64::MIN_POSITIVE), "wait")) }
                        td { (time(wait.began)) }
                    } } }
                } }
            }
        }
    }
}

fn settings(run: &Run) -> Markup {
    html! {
        section {
            h2 { "Thresholds in force" }
            p.hint { "Settings of the environment; those that are not at their default are marked." }
            div.scroll { table {
                thead { tr { th.l { "name" } th { "value" } th { "default" } th.l { "meaning" } } }
                tbody { @for setting in &run.settings {
                    tr.changed[setting.value != setting.default] {
                        td.l { code { (setting.name) } } td { (setting.value) } td { (setting.default) } td.t { (setting.meaning) }
                    }
                } }
            } }
            h3 { "What happened" }
            @if run.events.is_empty() { p.hint { "No threshold was moved for a rank that lagged behind, and no copy was refused." } }
            @else {
                p.hint { (number(run.events.len() as u64 + run.events_lost)) " events"
                    @if run.events.len() > EVENTS { "; the first " (EVENTS) " of those that were kept" } }
                div.scroll { table {
                    thead { tr { th { "after the start" } th.l { "rank" } th.l { "what" } th.l { "for rank" } th { "value" } } }
                    tbody { @for event in run.events.iter().take(EVENTS) { tr {
                        td { (time(event.when)) } td.l { (event.rank) } td.l { (event.what) } td.l { (event.peer) } td { (number(event.value)) }
                    } } }
                } }
            }
        }
    }
}

fn processes(run: &Run) -> Markup {
    let counters = run.processes.first().map_or(&[][..], |process| &process.counters);
    html! {
        section {
            details {
                summary { "Ranks" }
                div.scroll { table {
                    thead { tr {
                        th.l { "rank" } th { "pid" } th { "CPU" } th { "time" } th { "in MPI" } th { "waiting" } th.l { "end" }
                        @for counter in counters { th { (counter.name.replace('_', " ")) } }
                        th.l { "program" }
                    } }
                    tbody { @for process in &run.processes { tr {
                        td.l { (process.rank) } td { (process.pid) }
                        td { @if let Some(cpu) = process.cpu { (cpu) } }
                        td { (time(process.seconds)) } td { (share(process.in_mpi, process.seconds)) }
                        td { (share(process.waiting, process.seconds)) } td.l { (process.end) }
                        @for counter in &process.counters { td { (number(counter.value)) } }
                        td.l { code { (process.program) } }
                    } } }
                } }
            }
        }
    }
}

/// A moment of the calendar, in UTC.
fn date(seconds: f64) -> String {
    let days = (seconds / 86400.0).floor();
    let rest = (seconds - days * 86400.0) as u64;
    // Days since 1 March of the year 0, in eras of 400 years.
    let day = days as i64 + 719_468;
    let (era, of_era) = (day.div_euclid(146_097), day.rem_euclid(146_097));
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year}-{month:02}-{day:02} {:02}:{:02} UTC",
        rest / 3600,
        rest / 60 % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right() {
        assert_eq!(date(0.0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400.0), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_795_257_930.0), "2026-11-21 10:45 UTC");
    }

    #[test]
    fn names_from_outside_cannot_break_the_page() {
        let run = Run {
            command: "<script>alert(1)</script>".into(),
            ..Run::default()
        };
        let page = page(&run);
        assert!(!page.contains("<script>") && page.contains("&lt;script&gt;"));
        // Nothing is fetched from elsewhere.
        assert!(!page.contains("http") && !page.contains("url(") && !page.contains("src="));
    }
}
