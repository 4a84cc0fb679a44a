//! The classes of message sizes of the papers: table 2 of Jin 2005 counts messages, table 1 of Chai 2008 gives shares.

use crate::model::{Run, Traffic};
use crate::units;

/// A class of sizes: its name, and the bytes it begins at; it ends where the next begins.
pub type Class = (&'static str, u64);

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;

/// The rows of Jin 2005 table 2, and what lies between and around them.
pub const JIN: [Class; 8] = [
    ("< 1K", 0),
    ("1K-8K", K),
    ("8K-32K", 8 * K),
    ("32K-256K", 32 * K),
    ("256K-1M", 256 * K),
    ("1M-4M", M),
    ("4M-16M", 4 * M),
    (">= 16M", 16 * M),
];

/// The columns of Chai 2008 table 1.
pub const CHAI: [Class; 4] = [("< 1K", 0), ("1K-32K", K), ("32K-1M", 32 * K), (">= 1M", M)];

/// Picks pieces.
type Wanted = fn(&Traffic) -> bool;

/// Messages and bytes in each class, of the pieces that `wanted` picks.
pub fn table(run: &Run, classes: &[Class], wanted: impl Fn(&Traffic) -> bool) -> Vec<(u64, u64)> {
    let ends = classes.iter().skip(1).map(|class| class.1).chain([u64::MAX]);
    let pick =
        |(class, end): (&Class, u64)| run.pieces(|traffic| wanted(traffic) && (class.1..end).contains(&traffic.least));
    classes.iter().zip(ends).map(pick).collect()
}

/// Both tables, as text.
pub fn text(run: &Run) -> String {
    let kinds: [(&str, Wanted); 3] = [
        ("all", |_| true),
        ("program", |traffic| traffic.kind == "message"),
        ("inside", |traffic| traffic.kind == "inside"),
    ];
    let mut text = format!("# {} ranks: {}\n", run.ranks, run.command);
    text +=
        "# all: what moved between ranks; program: messages it sent itself; inside: those of collective operations\n\n";
    text += "Messages by size (classes of Jin 2005, table 2)\n";
    text += &format!(
        "{:10} {:>14} {:>14} {:>14} {:>12}\n",
        "bytes", "all", "program", "inside", "bytes, all"
    );
    let tables = kinds.map(|(_, wanted)| table(run, &JIN, wanted));
    for (row, class) in JIN.iter().enumerate() {
        let [all, program, inside] = [0, 1, 2].map(|kind| tables[kind][row]);
        let cells = [all.0, program.0, inside.0].map(units::number);
        text += &format!(
            "{:10} {:>14} {:>14} {:>14} {:>12}\n",
            class.0,
            cells[0],
            cells[1],
            cells[2],
            units::bytes(all.1)
        );
    }
    text += "\nShare of messages by size (classes of Chai 2008, table 1)\n";
    text += &format!("{:10}", "");
    CHAI.iter().for_each(|class| text += &format!(" {:>9}", class.0));
    text.push('\n');
    for (name, wanted) in kinds {
        let row = table(run, &CHAI, wanted);
        let total: u64 = row.iter().map(|cell| cell.0).sum();
        text += &format!("{name:10}");
        row.iter()
            .for_each(|cell| text += &format!(" {:>9}", units::share(cell.0 as f64, total as f64)));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_begin_where_the_papers_say() {
        let piece = |least: u64, messages| Traffic {
            kind: "message".into(),
            least,
            messages,
            bytes: least * messages,
            ..Traffic::default()
        };
        let run = Run {
            traffic: vec![
                piece(512, 1),
                piece(K, 2),
                piece(4 * K, 4),
                piece(16 * K, 8),
                piece(M, 16),
                piece(32 * M, 32),
            ],
            ..Run::default()
        };
        let counts = |classes| {
            table(&run, classes, |_| true)
                .iter()
                .map(|cell| cell.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(counts(&JIN[..]), [1, 6, 8, 0, 0, 16, 0, 32]);
        assert_eq!(counts(&CHAI[..]), [1, 14, 0, 48]);
        assert!(text(&run).contains("1M-4M                  16"));
    }
}
