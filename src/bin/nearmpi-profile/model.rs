//! What a profile says, as `run.json` has it (docs/profile.md describes the format) and as the page and the
//! summary show it.

use serde::{Deserialize, Serialize};

/// The format's name.
pub const FORMAT: &str = "nearmpi-profile";
/// The format's version.
pub const VERSION: u32 = 1;

/// A run.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Run {
    pub format: String,
    pub version: u32,
    pub nearmpi: String,
    pub command: String,
    pub ranks: u32,
    /// Ranks that were started later, which are not in the profile, as far as that is known.
    pub later: u32,
    pub cpus: u32,
    /// Seconds of the calendar (Unix time).
    pub started: f64,
    pub seconds: f64,
    pub matrix: Matrix,
    pub physical: Matrix,
    pub logical: Matrix,
    /// Row i, column j: seconds that rank i waited until rank j did something.
    pub waited_for: Vec<Vec<f64>>,
    pub processes: Vec<Process>,
    /// Sums over all ranks, the longest first.
    pub calls: Vec<Call>,
    pub traffic: Vec<Traffic>,
    pub longest_waits: Vec<Wait>,
    pub settings: Vec<Setting>,
    pub events: Vec<Event>,
    /// Events that came before those that were kept.
    pub events_lost: u64,
}

/// What went from the rank of the row to the rank of the column.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    pub bytes: Vec<Vec<u64>>,
    pub messages: Vec<Vec<u64>>,
}

/// A rank.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    pub rank: u32,
    pub pid: u32,
    pub program: String,
    /// Where it ran when that was looked at last.
    pub cpu: Option<u32>,
    /// "finished", or how it ended otherwise.
    pub end: String,
    pub finished: bool,
    /// Seconds after the start of the run.
    pub began: f64,
    pub seconds: f64,
    /// Seconds in MPI, and of these waiting.
    pub in_mpi: f64,
    pub waiting: f64,
    pub calls: Vec<Call>,
    pub counters: Vec<Counter>,
}

/// A function, by one rank or by all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub name: String,
    pub count: u64,
    pub seconds: f64,
    pub waiting: f64,
    pub longest: f64,
    /// Calls whose time is known from samples only.
    pub sampled: u64,
}

/// Pieces of one class of sizes that went one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// "message": of the program; "inside": of collective operations and of the library.
    pub kind: String,
    pub path: String,
    /// Bytes: from `least` to `most`.
    pub least: u64,
    pub most: u64,
    pub messages: u64,
    pub bytes: u64,
}

/// A long wait.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Wait {
    pub rank: u32,
    /// Who ended it.
    pub peer: Option<u32>,
    pub call: Option<String>,
    pub seconds: f64,
    /// Seconds after the start of the run.
    pub began: f64,
    /// It was not over when the rank ended.
    pub unfinished: bool,
}

/// A control variable.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Setting {
    pub name: String,
    pub value: u64,
    pub default: u64,
    pub meaning: String,
}

/// A counter of the transport.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counter {
    pub name: String,
    pub value: u64,
}

/// Something that happened.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Event {
    pub rank: u32,
    pub peer: u32,
    pub what: String,
    pub value: u64,
    /// Seconds after the start of the run.
    pub when: f64,
}

impl Matrix {
    pub fn new(ranks: u32) -> Matrix {
        let zero = vec![vec![0; ranks as usize]; ranks as usize];
        Matrix {
            bytes: zero.clone(),
            messages: zero,
        }
    }

    pub fn add(&mut self, from: usize, to: usize, messages: u64, bytes: u64) {
        self.messages[from][to] += messages;
        self.bytes[from][to] += bytes;
    }

    /// Messages and bytes in all.
    pub fn total(&self) -> (u64, u64) {
        let sum = |table: &[Vec<u64>]| table.iter().flatten().sum();
        (sum(&self.messages), sum(&self.bytes))
    }
}

impl Run {
    /// Time of all ranks together, and of it in MPI and waiting, in seconds.
    pub fn totals(&self) -> (f64, f64, f64) {
        let sum = |value: fn(&Process) -> f64| self.processes.iter().map(value).sum();
        (sum(|p| p.seconds), sum(|p| p.in_mpi), sum(|p| p.waiting))
    }

    /// How much longer the busiest rank computes than the average one, as a share of the average; and which it is.
    pub fn imbalance(&self) -> Option<(f64, u32)> {
        let outside = |p: &Process| (p.seconds - p.in_mpi).max(0.0);
        let mean = self.processes.iter().map(outside).sum::<f64>() / self.processes.len() as f64;
        let most = self.processes.iter().max_by(|a, b| outside(a).total_cmp(&outside(b)))?;
        (mean > 0.0).then(|| (outside(most) / mean - 1.0, most.rank))
    }

    /// Messages and bytes of the pieces that `wanted` picks.
    pub fn pieces(&self, wanted: impl Fn(&Traffic) -> bool) -> (u64, u64) {
        let picked = self.traffic.iter().filter(|traffic| wanted(traffic));
        picked.fold((0, 0), |sum, traffic| (sum.0 + traffic.messages, sum.1 + traffic.bytes))
    }
}
