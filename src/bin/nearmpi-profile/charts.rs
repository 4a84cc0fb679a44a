//! The pictures of the page, as inline SVG. Colours are the page's variables, so that they follow its theme.

use crate::model::{Process, Run};
use crate::units::{bytes, number, share, time};
use maud::{Markup, html};
use mpi::shm::profile::PATHS;

/// Rows and columns of a heat map, at most; of more ranks neighbours are added up.
const CELLS: usize = 96;
/// The scale of a heat map reaches from its highest value down to one so many times smaller, at least.
const NARROW: f64 = 64.0;
/// Width of the pictures, in their own unit.
const WIDTH: f64 = 1000.0;

/// The colour of a path, by its place in the list of paths.
pub fn colour(path: &str) -> String {
    let place = PATHS.iter().position(|(_, name)| *name == path);
    format!("var(--path{})", place.unwrap_or(0))
}

/// A coloured square with a word.
pub fn key(colour: &str, word: &str) -> Markup {
    html! { span.key { i style={ "background:" (colour) } {} (word) } }
}

/// How each rank spent the run: outside of MPI, working in it, waiting in it.
pub fn times(run: &Run) -> Markup {
    let rows = run.processes.len().max(1) as f64;
    let height = (900.0 / rows).clamp(3.0, 22.0);
    let (left, top) = (70.0, 4.0);
    let scale = (WIDTH - left - 10.0) / run.seconds.max(f64::MIN_POSITIVE);
    let every = (12.0 / height).ceil() as usize;
    let total = top + rows * height + 26.0;
    let part = |y: f64, from: f64, seconds: f64, class: &str, title: String| {
        html! {
            rect.(class) x=(round(left + from * scale)) y=(round(y)) width=(round((seconds * scale).max(0.0)))
                height=(round(height * 0.82)) { title { (title) } }
        }
    };
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {total}")) role="img" aria-label="time of each rank" {
            @for (row, process) in run.processes.iter().enumerate() {
                @let y = top + row as f64 * height;
                @let outside = (process.seconds - process.in_mpi).max(0.0);
                @let work = (process.in_mpi - process.waiting).max(0.0);
                @let title = |what: &str, seconds: f64| format!(
                    "rank {}: {what} {} ({})", process.rank, time(seconds), share(seconds, process.seconds));
                @if row % every == 0 {
                    text x=(left - 8.0) y=(round(y + height * 0.41 + 4.0)) text-anchor="end" { "rank " (process.rank) }
                }
                (part(y, process.began, outside, "outside", title("outside of MPI", outside)))
                (part(y, process.began + outside, work, "work", title("working in MPI", work)))
                (part(y, process.began + outside + work, process.waiting, "wait", title("waiting in MPI", process.waiting)))
            }
            @for tick in 0..=4 {
                @let at = run.seconds * tick as f64 / 4.0;
                text x=(round(left + at * scale)) y=(round(total - 8.0))
                    text-anchor=(["start", "middle", "middle", "middle", "end"][tick]) { (time(at)) }
            }
        }
    }
}

/// What each rank spent in which function.
pub fn calls(run: &Run, most: usize) -> Markup {
    let names: Vec<&str> = run.calls.iter().take(most).map(|call| call.name.as_str()).collect();
    let (left, top, height) = (210.0, 20.0, 20.0);
    let columns = groups(run.processes.len());
    let width = (WIDTH - left - 10.0) / columns.len().max(1) as f64;
    let of = |process: &Process, name: &str| {
        process
            .calls
            .iter()
            .find(|call| call.name == name)
            .map_or(0.0, |call| call.seconds)
    };
    let mean = |group: &std::ops::Range<usize>, name: &str| {
        run.processes[group.clone()]
            .iter()
            .map(|process| of(process, name))
            .sum::<f64>()
            / group.len() as f64
    };
    let highest = names
        .iter()
        .flat_map(|name| columns.iter().map(|group| mean(group, name)))
        .fold(0.0, f64::max);
    let every = (34.0 / width).ceil() as usize;
    html! {
        svg viewBox=(format!("0 0 {WIDTH} {}", top + names.len() as f64 * height + 6.0)) role="img"
            aria-label="time of each rank in each function" {
            @for (at, group) in columns.iter().enumerate().filter(|(at, _)| at % every == 0) {
                text x=(round(left + (at as f64 + 0.5) * width)) y="13" text-anchor="middle" { (group.start) }
            }
            @for (row, name) in names.iter().enumerate() {
                @let y = top + row as f64 * height;
                text x=(left - 8.0) y=(round(y + 14.0)) text-anchor="end" { (name) }
                @for (at, group) in columns.iter().enumerate() {
                    @let seconds = mean(group, name);
                    rect.cell x=(round(left + at as f64 * width)) y=(round(y)) width=(round(width - gap(width)))
                        height=(height - 1.5) fill-opacity=(opacity(seconds / highest.max(f64::MIN_POSITIVE))) {
                        title { (ranks(group)) ": " (time(seconds)) " in " (name) }
                    }
                }
            }
        }
    }
}

/// A matrix as a heat map, on a logarithmic scale; `tell` says a value in words.
pub fn heat(table: &[Vec<f64>], rows: &str, columns: &str, tell: impl Fn(f64) -> String) -> Markup {
    let groups = groups(table.len());
    let sum = |row: &std::ops::Range<usize>, column: &std::ops::Range<usize>| -> f64 {
        row.clone()
            .map(|at| table[at][column.clone()].iter().sum::<f64>())
            .sum()
    };
    let values: Vec<Vec<f64>> = groups
        .iter()
        .map(|row| groups.iter().map(|column| sum(row, column)).collect())
        .collect();
    let some = || values.iter().flatten().copied().filter(|value| *value > 0.0);
    let high = some().fold(0.0, f64::max);
    // Values that are close to each other shall look so.
    let low = some().fold(high / NARROW, f64::min);
    let depth = |value: f64| {
        if high > low {
            (value / low).ln() / (high / low).ln()
        } else {
            1.0
        }
    };
    let (left, top, side) = (64.0, 46.0, 600.0);
    let cell = side / groups.len().max(1) as f64;
    let every = (26.0 / cell).ceil() as usize;
    let total = top + side + 54.0;
    html! {
        svg.heat viewBox=(format!("0 0 {} {total}", left + side + 16.0)) role="img" aria-label="matrix of ranks" {
            text x=(left + side / 2.0) y="14" text-anchor="middle" { (columns) }
            text transform=(format!("translate(14 {}) rotate(-90)", top + side / 2.0)) text-anchor="middle" { (rows) }
            rect.frame x=(left) y=(top) width=(side) height=(side) {}
            @for (at, group) in groups.iter().enumerate().filter(|(at, _)| at % every == 0) {
                @let middle = (at as f64 + 0.5) * cell;
                text x=(round(left + middle)) y=(top - 8.0) text-anchor="middle" { (group.start) }
                text x=(left - 8.0) y=(round(top + middle + 4.0)) text-anchor="end" { (group.start) }
            }
            @for (row, line) in values.iter().enumerate() {
                @for (column, value) in line.iter().enumerate().filter(|(_, value)| **value > 0.0) {
                    rect.cell x=(round(left + column as f64 * cell)) y=(round(top + row as f64 * cell))
                        width=(round(cell - gap(cell))) height=(round(cell - gap(cell)))
                        fill-opacity=(opacity(depth(*value))) {
                        title { (ranks(&groups[row])) " → " (ranks(&groups[column])) ": " (tell(*value)) }
                    }
                }
            }
            @if high > 0.0 {
                @for step in 0..40 {
                    rect.cell x=(left + 100.0 + f64::from(step) * 10.0) y=(top + side + 18.0) width="10" height="12"
                        fill-opacity=(opacity(f64::from(step) / 39.0)) {}
                }
                text x=(left + 92.0) y=(top + side + 29.0) text-anchor="end" { (tell(low)) }
                text x=(left + 508.0) y=(top + side + 29.0) { (tell(high)) }
            } @else {
                text x=(left + side / 2.0) y=(top + side / 2.0) text-anchor="middle" { "nothing" }
            }
        }
    }
}

/// Messages, or bytes, by class of sizes, coloured by path.
pub fn sizes(run: &Run, in_bytes: bool) -> Markup {
    let value = |traffic: &crate::model::Traffic| if in_bytes { traffic.bytes } else { traffic.messages };
    let mut classes: Vec<u64> = run.traffic.iter().map(|traffic| traffic.least).collect();
    classes.sort();
    classes.dedup();
    let sums: Vec<Vec<(&str, u64)>> = classes
        .iter()
        .map(|&least| {
            let of = |path: &&str| {
                let same = run
                    .traffic
                    .iter()
                    .filter(|traffic| traffic.least == least && traffic.path == **path);
                same.map(value).sum::<u64>()
            };
            PATHS
                .iter()
                .map(|(_, path)| (*path, of(path)))
                .filter(|(_, sum)| *sum > 0)
                .collect()
        })
        .collect();
    let height = |sum: &Vec<(&str, u64)>| sum.iter().map(|(_, value)| value).sum::<u64>();
    let highest = sums.iter().map(height).max().unwrap_or(0).max(1) as f64;
    let tell = |value: u64| if in_bytes { bytes(value) } else { number(value) };
    let (left, top, base) = (10.0, 26.0, 250.0);
    let width = ((560.0 - left) / classes.len().max(1) as f64).min(56.0);
    let every = (46.0 / width).ceil() as usize;
    html! {
        svg viewBox="0 0 570 290" role="img" aria-label=(if in_bytes { "bytes by size" } else { "messages by size" }) {
            text x=(left) y="14" { (if in_bytes { "bytes" } else { "messages" }) " by size of the message; highest: " (tell(highest as u64)) }
            line.axis x1=(left) x2="560" y1=(base) y2=(base) {}
            @for (at, (least, sum)) in classes.iter().zip(&sums).enumerate() {
                @let x = left + at as f64 * width;
                @let parts = stack(sum, (base - top) / highest, base);
                @for (path, value, y, tall) in parts {
                    rect x=(round(x + 1.0)) y=(round(y)) width=(round(width - 3.0)) height=(round(tall)) style={ "fill:" (colour(path)) } {
                        title { (class(*least)) " by " (path) ": " (tell(value)) }
                    }
                }
                @if at % every == 0 {
                    text x=(round(x + width / 2.0)) y=(base + 18.0) text-anchor="middle" { (short(*least)) }
                }
            }
            text x="560" y=(base + 36.0) text-anchor="end" { "from so many bytes, up to twice as many" }
        }
    }
}

/// The parts of a column from its foot up: path, value, top and height.
fn stack<'a>(sum: &[(&'a str, u64)], scale: f64, base: f64) -> Vec<(&'a str, u64, f64, f64)> {
    let mut y = base;
    let part = |&(path, value): &(&'a str, u64)| {
        let tall = value as f64 * scale;
        y -= tall;
        (path, value, y, tall)
    };
    sum.iter().map(part).collect()
}

/// A bar for a table's cell.
pub fn bar(part: f64, class: &str) -> Markup {
    html! {
        svg.bar viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" {
            rect.(class) x="0" y="0" width=(round(100.0 * part.clamp(0.0, 1.0))) height="10" {}
        }
    }
}

/// Ranks in at most [`CELLS`] groups of neighbours.
fn groups(ranks: usize) -> Vec<std::ops::Range<usize>> {
    let each = ranks.div_ceil(CELLS).max(1);
    (0..ranks)
        .step_by(each)
        .map(|first| first..(first + each).min(ranks))
        .collect()
}

fn ranks(group: &std::ops::Range<usize>) -> String {
    match group.len() {
        1 => format!("rank {}", group.start),
        _ => format!("ranks {} to {}", group.start, group.end - 1),
    }
}

fn class(least: u64) -> String {
    match least {
        0 | 1 => bytes(least),
        _ => format!("{} to {}", bytes(least), bytes(least * 2 - 1)),
    }
}

fn short(least: u64) -> String {
    bytes(least)
        .replace(" B", "")
        .replace(".00", "")
        .replace(".0", "")
        .replace(" ", "")
        .replace("iB", "")
}

/// A colour's strength for a value from 0 to 1; the least is to be seen still.
fn opacity(depth: f64) -> String {
    match depth > 0.0 || depth.is_nan() {
        true => format!("{:.3}", 0.1 + 0.9 * depth.clamp(0.0, 1.0)),
        false => "0.1".into(),
    }
}

fn gap(cell: f64) -> f64 {
    if cell > 12.0 { 1.5 } else { 0.0 }
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_ranks_are_added_up() {
        assert_eq!(groups(3), [0..1, 1..2, 2..3]);
        let many = groups(1000);
        assert!(many.len() <= CELLS && many.last().unwrap().end == 1000);
        let mut table = vec![vec![0.0; 200]; 200];
        (table[0][0], table[1][1]) = (1.0, 2.0);
        let svg = heat(&table, "from", "to", |value| value.to_string()).into_string();
        assert!(svg.contains("ranks 0 to 2 → ranks 0 to 2: 3"), "{svg}");
    }

    #[test]
    fn a_column_is_as_high_as_its_parts() {
        let parts = stack(&[("slot", 1), ("ring", 3)], 10.0, 100.0);
        assert_eq!(parts, [("slot", 1, 90.0, 10.0), ("ring", 3, 60.0, 30.0)]);
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!([0, 1, 16, 1 << 10, 1 << 20].map(short), ["0", "1", "16", "1K", "1M"]);
    }
}
