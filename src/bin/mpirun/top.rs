//! The live table of what each rank is doing.

use crate::report::seconds;
use crate::view::{View, process};
use mpi::sys::host::terminal_size;
use std::time::{Duration, Instant};

/// The time from one table to the next.
///
/// # Errors
/// The value, and what it should be.
pub fn interval(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|s| (0.05..=86400.0).contains(s));
    let seconds = seconds.ok_or(format!("{text}: not a number of seconds from 0.05 to 86400"))?;
    Ok(Duration::from_secs_f64(seconds))
}

/// What is remembered from one table to the next.
#[derive(Default)]
pub struct Table {
    before: Vec<Before>,
}

/// A rank at the last table.
#[derive(Clone, Copy)]
struct Before {
    at: Instant,
    cpu: Duration,
    calls: u32,
    /// Since when it has called nothing new.
    since: Instant,
}

/// Lines on a terminal that are replaced by the next ones.
#[derive(Default)]
pub struct Screen {
    drawn: usize,
}

impl Table {
    /// The table of `views`, heading first, each line at most `width` letters if that is given.
    pub fn lines(&mut self, views: &[View], size: Option<(usize, usize)>) -> Vec<String> {
        let now = Instant::now();
        let mut lines = vec!["rank     pid  cpu%     messages       bytes  posted  unexpected  doing".to_string()];
        let (width, height) = size.unwrap_or((usize::MAX, usize::MAX));
        let room = height.saturating_sub(3).max(1);
        let shown = if views.len() > room { room - 1 } else { views.len() };
        for (index, view) in views.iter().enumerate() {
            let activity = &view.activity;
            let (_, cpu) = process(view.pid).unwrap_or(('X', Duration::ZERO));
            let before = self.before.get(index).copied();
            let moved = before.is_none_or(|before| before.calls != activity.calls);
            let since = before.filter(|_| !moved).map_or(now, |before| before.since);
            let percent = before.map_or(0.0, |before| {
                let used = cpu.saturating_sub(before.cpu).as_secs_f64();
                100.0 * used / (now - before.at).as_secs_f64().max(0.001)
            });
            let seen = Before {
                at: now,
                cpu,
                calls: activity.calls,
                since,
            };
            match self.before.get_mut(index) {
                Some(before) => *before = seen,
                None => self.before.push(seen),
            }
            if index >= shown {
                continue;
            }
            let time = view.asleep().or((!moved).then(|| now - since));
            let time = time.map(|time| format!(" for {}", seconds(time))).unwrap_or_default();
            lines.push(format!(
                "{:4} {:7} {percent:5.0} {:>12} {:>11} {:7} {:11}  {}{time}",
                view.rank,
                view.pid,
                amount(activity.messages, 1000),
                amount(activity.bytes, 1024),
                activity.posted,
                activity.unexpected,
                view.doing(views.len() as u32),
            ));
        }
        if shown < views.len() {
            lines.push(format!("and {} ranks more", views.len() - shown));
        }
        lines
            .into_iter()
            .map(|line| line.chars().take(width).collect())
            .collect()
    }
}

/// A number with at most five digits and a letter: `12345`, `67.9 M`.
fn amount(value: u64, step: u64) -> String {
    if value < 100_000 {
        return value.to_string();
    }
    let (mut value, mut unit) = (value as f64, ' ');
    for letter in ['k', 'M', 'G', 'T', 'P'] {
        if value < 1000.0 {
            break;
        }
        (value, unit) = (value / step as f64, letter);
    }
    format!("{value:.1} {unit}")
}

impl Screen {
    /// Width and height of the terminal behind descriptor `fd`, if it is one.
    pub fn size(fd: i32) -> Option<(usize, usize)> {
        terminal_size(fd)
    }

    /// What takes the last table away and puts `lines` in its place.
    pub fn draw(&mut self, lines: &[String]) -> String {
        let text = self.erase() + &lines.join("\n") + "\n";
        self.drawn = lines.len();
        text
    }

    /// What takes the last table away.
    pub fn erase(&mut self) -> String {
        match std::mem::take(&mut self.drawn) {
            0 => String::new(),
            lines => format!("\x1b[{lines}A\x1b[J"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::{receive, sleeper};

    #[test]
    fn a_table_has_a_line_for_each_rank() {
        let views: Vec<View> = (0..9)
            .map(|rank| sleeper(rank, "MPI_Recv", true, &[receive(1, 7)]))
            .collect();
        let mut table = Table::default();
        let lines = table.lines(&views, None);
        assert_eq!(lines.len(), 10);
        assert!(
            lines[9].contains("waits in MPI_Recv(source=1, tag=7, MPI_COMM_WORLD) for "),
            "{}",
            lines[9]
        );
        let short = table.lines(&views, Some((40, 8)));
        assert_eq!((short.len(), short.last().unwrap().as_str()), (6, "and 5 ranks more"));
        assert!(short.iter().all(|line| line.chars().count() <= 40));
    }

    #[test]
    fn a_table_takes_the_place_of_the_last() {
        let mut screen = Screen::default();
        assert_eq!(screen.draw(&["a".into(), "b".into()]), "a\nb\n");
        assert_eq!(screen.draw(&["c".into()]), "\x1b[2A\x1b[Jc\n");
        assert_eq!(
            (screen.erase().as_str(), screen.erase().as_str()),
            ("\x1b[1A\x1b[J", "")
        );
    }

    #[test]
    fn amounts_are_short() {
        assert_eq!([amount(99_999, 1000), amount(12_345_678, 1000)], ["99999", "12.3 M"]);
        assert_eq!(amount(1 << 30, 1024), "1.0 G");
    }
}
