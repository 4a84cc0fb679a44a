//! nearmpi-tune: measures, on this machine, where one way of sending large messages begins to beat another, and one way of
//! collective operations, and keeps what it finds for MPI_Init to read. The ranks are threads over a segment of their own.

mod collectives;
#[path = "../shared/say.rs"]
mod say;

use mpi::channel::late::AT_ONCE;
use mpi::mpi::buffer::Buffer;
use mpi::mpi::comm::Plane;
use mpi::mpi::pt2pt::{Mode, recv, send};
use mpi::mpi::world::{State, World};
use mpi::shm::segment::Segment;
use mpi::sys::cpuset::CpuSet;
use mpi::sys::cvar::Settings;
use mpi::sys::{clock, cpu, tuned};
use std::process::ExitCode;
use std::sync::Arc;

const HELP: &str = "\
nearmpi-tune: measures thresholds for this machine, in about a second, and keeps them for MPI_Init
usage: nearmpi-tune [option]

  (none)       measure, print what was chosen, keep it
  --dry-run    measure and print, keep nothing
  --force      keep it even if other programs have used the CPUs meanwhile
  --show       print what is kept for this hardware
  --forget     remove what is kept for this hardware
  --help       this

What is kept gives way to NEARMPI_... in the environment; NEARMPI_TUNED=0 leaves it unread.
";

/// Lengths that are measured.
const LENGTHS: std::ops::RangeInclusive<u32> = 14..=21;
/// Time for one measurement, in nanoseconds, and its fewest round trips.
const SLICE: u64 = 3_000_000;
const TRIPS: usize = 6;
/// Measurements of the same thing, of which the best counts.
const TIMES: usize = 2;
/// A way replaces another where it costs less than this much of it.
const BETTER: f64 = 0.95;

/// Part of the time that the two ranks of a measurement have to run, for it to be believed: alone they have 0.97 and more of it,
/// beside one program that computes 0.6 on two CPUs.
const QUIET: f64 = 0.85;

/// When what was measured is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keep {
    Never,
    IfQuiet,
    Always,
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let option = words.next();
    if words.next().is_some() {
        say::aside(&format!("nearmpi-tune: one option at most\n\n{HELP}"));
        return ExitCode::from(2);
    }
    let outcome = match option.as_deref() {
        None => tune(Keep::IfQuiet),
        Some("--dry-run") => tune(Keep::Never),
        Some("--force") => tune(Keep::Always),
        Some("--show") => show(),
        Some("--forget") => forget(),
        Some("--help" | "-h") => say::out(HELP).map(drop),
        Some(other) => {
            say::aside(&format!(
                "nearmpi-tune: {other} is not an option of this program\n\n{HELP}"
            ));
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            say::aside(&format!("nearmpi-tune: {sentence}"));
            ExitCode::FAILURE
        }
    }
}

fn folder() -> Result<std::path::PathBuf, String> {
    tuned::folder(|name| std::env::var_os(name)).ok_or("neither XDG_CACHE_HOME nor HOME says where to keep it".into())
}

fn show() -> Result<(), String> {
    let kept = tuned::read(&folder()?);
    let mut text = format!("{}\n", tuned::hardware());
    if kept.is_empty() {
        text += "nothing is kept for this hardware\n";
    }
    text.extend(kept.iter().map(|(name, value)| format!("{name}={value}\n")));
    say::out(&text).map(drop)
}

fn forget() -> Result<(), String> {
    let file = tuned::file(&folder()?);
    match std::fs::remove_file(&file) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {error}", file.display())),
        _ => Ok(()),
    }
}

fn tune(keep: Keep) -> Result<(), String> {
    let folder = folder().or_else(|sentence| match keep {
        Keep::Never => Ok(std::path::PathBuf::new()),
        _ => Err(sentence),
    })?;
    let cpus: Vec<usize> = cpu::mask(0).iter().collect();
    if cpu::allowed(0) < 2 || cpus.len() < 2 {
        return Err("needs two CPUs".into());
    }
    let pair = [cpus[0], cpus[1]];
    let (begin, idle) = (clock::nanoseconds(), clock::used());
    say::out(&format!(
        "{}\n\none way, us, message rewritten and read     (untouched)\n{:>9}{:>18}{:>18}{:>18}{:>18}\n",
        tuned::hardware(),
        "bytes",
        "cells at once",
        "cells",
        "pull",
        "join"
    ))?;
    let rows = LENGTHS.map(|bits| Row::measure(pair, 1 << bits));
    let rows = rows.collect::<Result<Vec<Row>, String>>()?;
    let mut chosen: Vec<(&str, String)> = choose(&rows)
        .into_iter()
        .map(|(name, value)| (name, value.to_string()))
        .collect();
    chosen.push(("NEARMPI_COLLECTIVES", collectives::measure(&cpus)?));
    let spent = (clock::nanoseconds() - begin) as f64 * 1e-9;
    let mut text = format!("\nchosen in {spent:.1} s:\n");
    text.extend(chosen.iter().map(|(name, value)| format!("{name}={value}\n")));
    let others = others((clock::used() - idle) as f64 * 1e-9, spent);
    let keeps = keep == Keep::Always || keep == Keep::IfQuiet && others.is_none();
    if keeps {
        let file = tuned::write(&folder, &format!("nearmpi-tune on {}", tuned::hardware()), &chosen)
            .map_err(|error| format!("cannot keep it in {}: {error}", folder.display()))?;
        text += &format!("kept in {}\n", file.display());
    }
    say::out(&text)?;
    match others {
        Some(others) if keep == Keep::IfQuiet => Err(format!("{others}: nothing is kept (--force keeps it)")),
        Some(others) => {
            say::aside(&format!("nearmpi-tune: {others}"));
            Ok(())
        }
        None => Ok(()),
    }
}

/// A sentence if the ranks, two of which measure at any time, ran for too little of the time `spent`, in seconds both.
fn others(ran: f64, spent: f64) -> Option<String> {
    let share = 1.0 - ran / (2.0 * spent);
    (share > 1.0 - QUIET).then(|| {
        let share = 100.0 * share;
        format!("other programs were on the CPUs of the measuring ranks for {share:.0} % of the time")
    })
}

/// Microseconds one way: rewritten, untouched.
type Cost = [f64; 2];

/// What was measured for one length.
struct Row {
    len: usize,
    eager: Cost,
    cells: Cost,
    pull: Cost,
    join: Cost,
}

impl Row {
    /// Measures and prints it.
    fn measure(cpus: [usize; 2], len: usize) -> Result<Row, String> {
        let way = |set: &[(&str, &str)]| [true, false].map(|fresh| cost(cpus, len, fresh, set));
        let row = Row {
            len,
            eager: way(&[("NEARMPI_WAY", "1"), ("NEARMPI_OFFER_MIN", "1073741824")]),
            cells: way(&[("NEARMPI_WAY", "1"), ("NEARMPI_OFFER_MIN", "1")]),
            pull: way(&[("NEARMPI_WAY", "2")]),
            join: way(&[("NEARMPI_WAY", "3")]),
        };
        let ways = [row.eager, row.cells, row.pull, row.join];
        let ways = ways.map(|[fresh, rest]| format!("{:>18}", format!("{fresh:.1} ({rest:.1})")));
        say::out(&format!("{len:>9}{}\n", ways.concat()))?;
        Ok(row)
    }
}

/// The thresholds that `rows`, from short to long, speak for.
fn choose(rows: &[Row]) -> Vec<(&'static str, u64)> {
    let first = |from: &dyn Fn(&Row) -> bool| {
        // From there on, all but at most one longer length agree.
        let holds = |at: usize| from(&rows[at]) && rows[at..].iter().filter(|row| !from(row)).count() <= 1;
        (0..rows.len()).find(|&at| holds(at)).map(|at| rows[at].len as u64)
    };
    let longest = 2 * rows.last().map_or(1 << 20, |row| row.len as u64);
    // Waiting in the sender's memory costs the receiver least: it begins where sending at once gains little.
    let offer = first(&|row| row.eager[0] > BETTER * row.cells[0].min(row.join[0]));
    let pull = first(&|row| row.pull[1] < BETTER * row.eager[1] || row.pull[0] < BETTER * row.eager[0]);
    let join = first(&|row| row.join[0] < BETTER * row.cells[0].min(row.pull[0]));
    vec![
        // What was measured goes through the ring in parts, for which it counts so many times.
        (
            "NEARMPI_OFFER_MIN",
            (offer.unwrap_or(longest) / AT_ONCE as u64).clamp(16 << 10, 64 << 10),
        ),
        ("NEARMPI_ONE_COPY_MIN", pull.unwrap_or(longest)),
        // Not so high that learning would not try it.
        ("NEARMPI_JOIN_MIN", (2 * join.unwrap_or(longest)).min(2 << 20)),
    ]
}

/// Microseconds one way for a message of `len` bytes between these CPUs under settings from `set`: the best of some
/// measurements. `fresh`: each side writes the message before it sends it and reads it when it has come.
fn cost(cpus: [usize; 2], len: usize, fresh: bool, set: &[(&str, &str)]) -> f64 {
    on_ranks(&cpus, set, |rank, world| {
        let measured = (0..TIMES).map(|_| ping_pong(world, rank, len, fresh));
        measured.fold(f64::INFINITY, f64::min)
    })
}

/// What `program` returns at rank 0 of a job with a rank on each of `cpus`, under settings from `set`.
fn on_ranks<R: Send>(cpus: &[usize], set: &[(&str, &str)], program: impl Fn(u32, &World) -> R + Sync) -> R {
    let lookup = |name: &str| {
        set.iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value.to_string())
    };
    let settings = Settings::read(lookup).expect("what this program sets makes sense");
    let ranks = cpus.len() as u32;
    let segment = Arc::new(Segment::private(ranks, ranks).expect("memory for some ranks"));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                let (segment, settings, program) = (segment.clone(), settings.clone(), &program);
                scope.spawn(move || {
                    let mut only = CpuSet::default();
                    only.add(cpus[rank as usize]);
                    cpu::bind(&only);
                    let world = World::new(State::join(segment, rank, settings), false);
                    let result = program(rank, &world);
                    let mut hold = world.hold();
                    let comm = hold.world.clone();
                    mpi::mpi::coll::barrier(&mut hold, &comm).expect("ranks of this process");
                    result
                })
            })
            .collect();
        let mut results = threads
            .into_iter()
            .map(|rank| rank.join().expect("measuring does not panic"));
        let first = results.next().expect("there is a rank 0");
        results.for_each(drop);
        first
    })
}

fn ping_pong(world: &World, rank: u32, len: usize, fresh: bool) -> f64 {
    let (mut out, mut into) = (vec![1u8; len], vec![0u8; len]);
    let mut hold = world.hold();
    let comm = hold.world.clone();
    let peer = 1 - rank;
    let mut trip = |turn: usize, stop: bool| {
        let mut stopped = stop;
        for step in 0..2 {
            if step == rank {
                if fresh {
                    out.fill(turn as u8);
                }
                // The first byte says whether this is the last trip.
                out[0] = stopped as u8;
                let message = Buffer::bytes(out.as_mut_ptr(), len);
                send(&mut hold, &comm, Plane::PointToPoint, message, peer, 0, Mode::Standard)
                    .expect("a rank of this process");
            } else {
                let message = Buffer::bytes(into.as_mut_ptr(), len);
                recv(&mut hold, &comm, Plane::PointToPoint, message, peer as i32, 0).expect("a rank of this process");
                if fresh {
                    std::hint::black_box(into.iter().fold(0u8, |sum, byte| sum ^ byte));
                }
                stopped |= into[0] == 1;
            }
        }
        stopped
    };
    (0..2).for_each(|turn| {
        trip(turn, false);
    });
    let begin = clock::nanoseconds();
    let mut trips = 0;
    loop {
        trips += 1;
        let over = rank == 0 && trips >= TRIPS && clock::nanoseconds() - begin > SLICE;
        if trip(trips, over) {
            return (clock::nanoseconds() - begin) as f64 * 1e-3 / (2 * trips) as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(eager: f64, cells: f64, pull: f64, join: f64, cross: usize) -> Vec<Row> {
        let row = |bits: u32| {
            let len = 1 << bits;
            let scale = len as f64 / 1e4;
            let later = if len >= cross { 0.8 } else { 1.2 };
            Row {
                len,
                eager: [eager * scale, 2.0 * scale],
                cells: [cells * scale, 2.0 * scale],
                pull: [pull * scale, 2.0 * scale * later],
                join: [join * scale * later, 2.0 * scale * later],
            }
        };
        LENGTHS.map(row).collect()
    }

    fn value(chosen: &[(&str, u64)], name: &str) -> u64 {
        chosen.iter().find(|(key, _)| *key == name).unwrap().1
    }

    #[test]
    fn thresholds_stand_where_the_curves_cross() {
        let chosen = choose(&rows(0.9, 1.0, 1.3, 1.0, 1 << 18));
        assert_eq!(value(&chosen, "NEARMPI_JOIN_MIN"), 2 << 18);
        assert_eq!(value(&chosen, "NEARMPI_ONE_COPY_MIN"), 1 << 18);
        // Sending at once is better up to there, but the receiver may have to keep it: not above 256 KiB, four times this.
        assert_eq!(value(&chosen, "NEARMPI_OFFER_MIN"), 1 << 16);
    }

    #[test]
    fn what_a_busy_machine_has_measured_is_not_believed() {
        assert_eq!(others(1.84, 0.94), None);
        assert_eq!(others(20.0, 2.0), None, "more than two ranks");
        let said = others(2.09, 1.77).unwrap();
        assert!(said.ends_with("for 41 % of the time"), "{said}");
    }

    #[test]
    fn every_choice_is_a_value_that_the_library_takes() {
        for (eager, cells, pull, join) in [(1.0, 1.0, 1.0, 1.0), (9.0, 1.0, 1.0, 1.0), (1.0, 9.0, 9.0, 9.0)] {
            let chosen = choose(&rows(eager, cells, pull, join, usize::MAX));
            let lookup = |name: &str| {
                chosen
                    .iter()
                    .find(|(key, _)| *key == name)
                    .map(|(_, value)| value.to_string())
            };
            Settings::read(lookup).unwrap();
        }
    }
}
