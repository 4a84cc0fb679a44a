//! From what the ranks counted to a [`Run`].

use crate::model::*;
use mpi::abi::timing::{counter_names, name};
use mpi::shm::profile::{self, Amount, Block, CALLS, CLASSES, EVENT_NAMES, EVENTS, KIND_NAMES, PATHS, Stage, Sum};
use mpi::sys::clock::{Ticks, nanoseconds};
use mpi::sys::cvar;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest waits that are shown, of all ranks.
const WAITS: usize = 32;
/// Nanoseconds between two readings of the clocks that are enough to tell their rates.
const ENOUGH: u64 = 20_000_000;

/// What a launcher knows about the ranks, by rank: when each ended, in nanoseconds of the machine's clock, and how.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct Ends {
    pub command: String,
    pub ends: Vec<End>,
}

/// The end of a rank.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct End {
    pub nanoseconds: u64,
    pub how: String,
}

/// From ticks to the machine's clock.
#[derive(Clone, Copy)]
struct Clock {
    ticks: u64,
    nanoseconds: u64,
    /// Nanoseconds a tick.
    rate: f64,
}

impl Clock {
    fn at(&self, ticks: u64) -> f64 {
        self.nanoseconds as f64 + (ticks as f64 - self.ticks as f64) * self.rate
    }

    fn seconds(&self, ticks: u64) -> f64 {
        ticks as f64 * self.rate * 1e-9
    }
}

fn get(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

fn get32(word: &AtomicU32) -> u32 {
    word.load(Ordering::Relaxed)
}

/// Both clocks, as one rank compared them.
fn compared(block: &Block) -> Option<(u64, u64)> {
    let head = block.head();
    let ticks = get(&head.latest[0]).checked_sub(get(&head.began[0]))?;
    let nanoseconds = get(&head.latest[1]).checked_sub(get(&head.began[1]))?;
    Some((ticks, nanoseconds))
}

/// Nanoseconds a tick: from the rank that compared the clocks over the longest time, or from a short time now.
fn rate(blocks: &[Block]) -> f64 {
    let best = blocks
        .iter()
        .filter_map(compared)
        .max_by_key(|(_, nanoseconds)| *nanoseconds);
    let (ticks, nanoseconds) = best
        .filter(|(_, nanoseconds)| *nanoseconds >= ENOUGH)
        .unwrap_or_else(|| {
            let clock = Ticks::best();
            let (ticks, begin) = (clock.now(), nanoseconds());
            let since = Instant::now();
            while since.elapsed() < Duration::from_nanos(ENOUGH) {
                std::thread::yield_now();
            }
            (clock.now() - ticks, nanoseconds() - begin)
        });
    nanoseconds as f64 / ticks.max(1) as f64
}

/// The run of `blocks`: one of each rank that got as far as MPI, all of one job.
///
/// # Errors
/// A sentence when there is none.
pub fn collect(blocks: &[Block], ends: &Ends) -> Result<Run, String> {
    let first = blocks
        .iter()
        .min_by_key(|block| get(&block.head().began[1]))
        .ok_or("no rank has come to MPI_Init: there is nothing to show")?;
    let ranks = first.ranks();
    let rate = rate(blocks);
    let start = get(&first.head().began[1]) as f64;
    let mut run = Run {
        format: FORMAT.into(),
        version: VERSION,
        nearmpi: mpi::version::NEARMPI.into(),
        command: ends.command.clone(),
        ranks,
        cpus: get32(&first.head().cpus),
        started: get(&first.head().began[2]) as f64 * 1e-9,
        physical: Matrix::new(ranks),
        logical: Matrix::new(ranks),
        waited_for: vec![vec![0.0; ranks as usize]; ranks as usize],
        settings: settings(first),
        ..Run::default()
    };
    for block in blocks {
        let head = block.head();
        let clock = Clock {
            ticks: get(&head.began[0]),
            nanoseconds: get(&head.began[1]),
            rate,
        };
        let rank = get32(&head.rank);
        if rank >= ranks {
            return Err(format!(
                "the counts of a rank {rank} among those of {ranks}: the memory holds junk"
            ));
        }
        let end = ends.ends.get(rank as usize);
        process(&mut run, block, &clock, start, end);
        matrices(&mut run, block, &clock);
        traffic(&mut run.traffic, block);
        waits(&mut run, block, &clock, start);
        events(&mut run, block, &clock, start);
    }
    run.matrix = run.physical.clone();
    let over = run.processes.iter().map(|p| p.began + p.seconds);
    run.seconds = over.fold(0.0, f64::max);
    run.calls = sums(&run.processes);
    run.processes.sort_by_key(|process| process.rank);
    run.longest_waits.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    run.longest_waits.truncate(WAITS);
    run.events.sort_by(|a, b| a.when.total_cmp(&b.when));
    if run.command.is_empty() {
        run.command = run.processes.first().map_or(String::new(), |p| p.program.clone());
    }
    Ok(run)
}

fn settings(block: &Block) -> Vec<Setting> {
    let values = block.head().settings.iter().map(get);
    let make = |(cvar, value): (&cvar::Cvar, u64)| Setting {
        name: cvar.name.into(),
        value,
        default: cvar.default,
        meaning: cvar.meaning.into(),
    };
    cvar::TABLE.iter().zip(values).map(make).collect()
}

/// The rank's wait that was not over when it ended: when it began, in ticks.
fn unfinished(block: &Block) -> Option<u64> {
    let head = block.head();
    let running = get32(&head.stage) == Stage::Running as u32;
    Some(get(&head.waiting)).filter(|&began| running && began != 0)
}

fn process(run: &mut Run, block: &Block, clock: &Clock, start: f64, end: Option<&End>) {
    let head = block.head();
    let finished = get32(&head.stage) == Stage::Ended as u32;
    let began = get(&head.began[1]) as f64;
    let over = match (finished, end) {
        (true, _) => clock.at(get(&head.ended)),
        (false, Some(end)) if end.nanoseconds > 0 => end.nanoseconds as f64,
        _ => (get(&head.latest[1]) as f64).max(began),
    };
    let mut calls: Vec<Call> = (0..CALLS).filter_map(|at| call(block, at, clock)).collect();
    // The call that never ended counts until the end of the rank.
    if unfinished(block).is_some() {
        let inside = get32(&head.inside);
        let spent = (over - clock.at(get(&head.since))).max(0.0) * 1e-9;
        let waited = (over - clock.at(get(&head.waiting))).max(0.0) * 1e-9;
        if let Some(call) = calls
            .iter_mut()
            .find(|call| inside > 0 && call.name == name(inside as usize - 1))
        {
            call.seconds += spent;
            call.waiting += waited;
            call.longest = call.longest.max(spent);
        }
    }
    calls.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let seconds = (over - began).max(0.0) * 1e-9;
    let letters = head.name.iter().flat_map(|word| get(word).to_le_bytes());
    let letters: Vec<u8> = letters.take_while(|&letter| letter != 0).collect();
    let how = match end.map(|end| end.how.as_str()).filter(|how| !how.is_empty()) {
        Some(how) => how.to_string(),
        None if finished => "finished".into(),
        None => "did not come to MPI_Finalize".into(),
    };
    let counters = counter_names().into_iter().zip(&head.counters);
    run.processes.push(Process {
        rank: get32(&head.rank),
        pid: get32(&head.pid),
        program: String::from_utf8_lossy(&letters).into_owned(),
        cpu: get32(&head.cpu).checked_sub(1),
        end: how,
        finished,
        began: (began - start) * 1e-9,
        seconds,
        in_mpi: in_mpi(&calls, seconds),
        waiting: calls.iter().map(|call| call.waiting).sum(),
        calls,
        counters: counters
            .map(|(name, value)| Counter {
                name: name.into(),
                value: get(value),
            })
            .collect(),
    });
}

/// Time in `calls` of `seconds`. An estimate is no longer than the run; where all is measured, threads may add up to more.
fn in_mpi(calls: &[Call], seconds: f64) -> f64 {
    let sum = calls.iter().map(|call| call.seconds).sum();
    match calls.iter().any(|call| call.sampled > 0) {
        true => seconds.min(sum),
        false => sum,
    }
}

/// Function number `at`, if it was called: calls that were timed for themselves, and the others by their samples.
fn call(block: &Block, at: usize, clock: &Clock) -> Option<Call> {
    let counts = &block.fixed().calls[at];
    let (count, timed, samples) = (counts.count(), get(&counts.timed), get(&counts.samples));
    if count == 0 {
        return None;
    }
    let untimed = count.saturating_sub(timed);
    let each = match samples {
        // Too few calls for a sample: those that were timed stand for them, without their waits, since every call
        // that waits is timed.
        0 => get(&counts.ticks).saturating_sub(get(&counts.waited)) as f64 / timed.max(1) as f64,
        _ => get(&counts.sampled) as f64 / samples as f64,
    };
    // A call inside another one's call-back has no time of its own; no function has only such.
    let each = if timed + samples == 0 { 0.0 } else { each };
    let ticks = get(&counts.ticks) as f64 + each * untimed as f64;
    Some(Call {
        name: name(at).into(),
        count,
        seconds: ticks * clock.rate * 1e-9,
        waiting: clock.seconds(get(&counts.waited)),
        longest: clock.seconds(get(&counts.longest)),
        sampled: if samples > 0 { untimed } else { 0 },
    })
}

/// Rows for what the rank wrote or gave, columns for what it read.
fn matrices(run: &mut Run, block: &Block, clock: &Clock) {
    let me = get32(&block.head().rank) as usize;
    let both = |amount: &Amount| (get(&amount.messages), get(&amount.bytes));
    for other in 0..run.ranks as usize {
        let peer = block.peer(other as u32);
        for (kind, _) in KIND_NAMES {
            let (sent, read) = (peer.sent(kind), both(&peer.read[kind as usize]));
            run.physical.add(me, other, sent.messages, sent.bytes);
            run.physical.add(other, me, read.0, read.1);
            // What the program sends is the same either way.
            if kind == profile::Kind::Message {
                run.logical.add(me, other, sent.messages, sent.bytes);
                run.logical.add(other, me, read.0, read.1);
            }
        }
        let given = both(&peer.given);
        run.logical.add(me, other, given.0, given.1);
        run.waited_for[me][other] += clock.seconds(get(&peer.waited));
    }
}

fn traffic(sums: &mut Vec<Traffic>, block: &Block) {
    for (kind, name) in KIND_NAMES {
        for (path, path_name) in PATHS {
            for class in 0..CLASSES {
                let Sum { messages, bytes } = block.traffic(kind, path, class);
                if messages == 0 {
                    continue;
                }
                let least = profile::least(class);
                let same = |sum: &&mut Traffic| sum.kind == name && sum.path == path_name && sum.least == least;
                match sums.iter_mut().find(same) {
                    Some(sum) => (sum.messages, sum.bytes) = (sum.messages + messages, sum.bytes + bytes),
                    None => sums.push(Traffic {
                        kind: name.into(),
                        path: path_name.into(),
                        least,
                        most: profile::most(class),
                        messages,
                        bytes,
                    }),
                }
            }
        }
    }
}

fn waits(run: &mut Run, block: &Block, clock: &Clock, start: f64) {
    let rank = get32(&block.head().rank);
    let after = |ticks: u64| (clock.at(ticks) - start) * 1e-9;
    let called = |number: u32| number.checked_sub(1).map(|number| name(number as usize).to_string());
    let other = |number: u32| number.checked_sub(1).filter(|&peer| peer < block.ranks());
    for wait in block.fixed().longest.iter().filter(|wait| get(&wait.ticks) > 0) {
        run.longest_waits.push(Wait {
            rank,
            peer: other(get32(&wait.peer)),
            call: called(get32(&wait.call)),
            seconds: clock.seconds(get(&wait.ticks)),
            began: after(get(&wait.began)),
            unfinished: false,
        });
    }
    if let Some(began) = unfinished(block) {
        let head = block.head();
        let process = run.processes.iter().find(|process| process.rank == rank);
        let over = process.map_or(0.0, |process| process.began + process.seconds);
        run.longest_waits.push(Wait {
            rank,
            peer: other(get32(&head.awaited)),
            call: called(get32(&head.inside)),
            seconds: (over - after(began)).max(0.0),
            began: after(began),
            unfinished: true,
        });
    }
}

fn events(run: &mut Run, block: &Block, clock: &Clock, start: f64) {
    let head = block.head();
    let count = head.events.load(Ordering::Acquire);
    run.events_lost += count.saturating_sub(EVENTS as u64);
    for event in block.fixed().events.iter().take(count.min(EVENTS as u64) as usize) {
        let Some(what) = EVENT_NAMES.get((get32(&event.what) as usize).wrapping_sub(1)) else {
            continue;
        };
        run.events.push(Event {
            rank: get32(&head.rank),
            peer: get32(&event.peer),
            what: (*what).into(),
            value: get(&event.value),
            when: (clock.at(get(&event.when)) - start) * 1e-9,
        });
    }
}

/// Each function of all ranks.
fn sums(processes: &[Process]) -> Vec<Call> {
    let mut sums: Vec<Call> = Vec::new();
    for call in processes.iter().flat_map(|process| &process.calls) {
        match sums.iter_mut().find(|sum| sum.name == call.name) {
            Some(sum) => {
                sum.count += call.count;
                sum.seconds += call.seconds;
                sum.waiting += call.waiting;
                sum.longest = sum.longest.max(call.longest);
                sum.sampled += call.sampled;
            }
            None => sums.push(call.clone()),
        }
    }
    sums.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_is_no_longer_than_the_run_and_threads_add_up() {
        let call = |seconds, sampled| Call {
            seconds,
            sampled,
            ..Call::default()
        };
        assert_eq!(in_mpi(&[call(1.0, 0), call(2.5, 9)], 3.0), 3.0);
        assert_eq!(in_mpi(&[call(1.0, 0), call(1.5, 9)], 3.0), 2.5);
        assert_eq!(in_mpi(&[call(1.0, 0), call(2.5, 0)], 3.0), 3.5);
    }
}
