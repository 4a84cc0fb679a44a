//! Watches over a job until nothing of it is left: one loop over signals, PMI connections and output.
//!
//! A job ends early when a rank is killed, exits with a code other than 0, or leaves while others count on it.
//! The others get SIGTERM and, after [`GRACE`], SIGKILL. The first failure gives the exit code.
//!
//! At the end what readers have not taken yet is waited for, but not for ever once a signal or the time limit ends the job.

use crate::annex::Host;
use crate::arguments::Job;
use crate::guests;
use crate::os::{self, End, Signals};
use crate::output::Streams;
use crate::remains::{clear, memory};
use crate::report;
use crate::server::{Effect, Server, Stage};
use crate::stall::{self, Stall, Stuck};
use crate::start::Started;
use crate::top::{Screen, Table};
use crate::view::{self, Calls, View};
use mpi::launch::aborted_with;
use mpi::launch::pmi::Lines;
use mpi::shm::segment::Life;
use mpi::shm::segment::annex::Outcome;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
#[path = "ending.rs"]
mod ending;

/// From the polite signal to the other one.
const GRACE: Duration = Duration::from_millis(250);
/// How often to look whether others wait for a rank that left without coming to MPI.
const LOOK: Duration = Duration::from_millis(50);
/// How often to look for junk in the job's memory and for ranks that wait for each other.
const LOOK_AT_MEMORY: Duration = Duration::from_millis(500);
/// Exit code of a job whose ranks wait for each other.
const STUCK: i32 = 86;
/// Looks again at ranks of which one may only look around: that takes microseconds, and a look as long.
const LOOKS: usize = 16;
/// How long readers are waited for once a signal or the time limit has ended the job.
const LINGER: Duration = Duration::from_secs(2);
/// How long a process may take to die of SIGKILL before we leave it to the kernel.
const LAST: Duration = Duration::from_secs(5);

/// Signals that end the job, are passed on, or stop and continue it.
pub const WATCHED: [i32; 9] = [
    libc::SIGCHLD,
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGTSTP,
    libc::SIGCONT,
];

struct Watch<'a> {
    job: &'a Job,
    /// The job that these ranks were started for, if it ran before them.
    host: Option<&'a Host>,
    started: Started,
    server: Server,
    lines: Vec<Lines>,
    ends: Vec<Option<End>>,
    code: Option<i32>,
    /// When to use SIGKILL, once the job is being ended.
    ending: Option<Instant>,
    killed: Option<Instant>,
    limit: Option<Instant>,
    /// Until when readers are waited for.
    until: Option<Instant>,
    stall: Stall,
    calls: Calls,
    table: Table,
    screen: Screen,
    /// When the next table is due.
    table_at: Option<Instant>,
    /// When the job's memory was looked at.
    looked: Instant,
}

/// Watches until all ranks are gone, ends what they left behind, and returns the job's exit code.
pub fn supervise(job: &Job, host: Option<&Host>, started: Started, mut signals: Signals) -> i32 {
    let space = format!("nearmpi_{}", std::process::id());
    let size = started.ranks.len();
    let mut watch = Watch {
        job,
        host,
        server: Server::new(space, started.appnums.clone(), job.universe),
        started,
        lines: (0..size).map(|_| Lines::default()).collect(),
        ends: vec![None; size],
        code: None,
        ending: None,
        killed: None,
        limit: job
            .timeout
            .and_then(|s| Instant::now().checked_add(Duration::from_secs(s))),
        until: None,
        stall: Stall::default(),
        calls: Calls::new(),
        table: Table::default(),
        screen: Screen::default(),
        table_at: job.top.map(|_| Instant::now()),
        looked: Instant::now(),
    };
    while watch.ends.iter().any(Option::is_none) || watch.has_guests() {
        if watch.killed.is_some_and(|since| since.elapsed() > LAST) {
            watch.say("some ranks do not die of SIGKILL; leaving them to the kernel");
            break;
        }
        watch.step(&mut signals);
    }
    if let Some(host) = host.filter(|_| !watch.were_all_in_mpi()) {
        host.conclude(Outcome::Failed);
    }
    watch.tell_others();
    clear(&mut signals);
    let finished = watch.started.streams.finish();
    watch.passed_on(finished);
    if let Some(reports) = watch.started.reports.take() {
        watch.started.streams.say(&memory(reports, size));
    }
    if let Some(profile) = watch.started.profile.take() {
        let summary = profile.finish(&watch.started, &watch.ends);
        watch.started.streams.say(&summary);
    }
    if job.print_codes {
        let codes = watch.ends.iter().map(|end| match end {
            Some(End::Exit(code)) => code.to_string(),
            Some(End::Signal(signal)) => format!("signal {signal}"),
            None => "alive".into(),
        });
        let codes = codes.collect::<Vec<_>>().join(",");
        watch.say(&format!("exit codes: {codes}"));
    }
    while watch.waits_for_readers() {
        watch.step(&mut signals);
    }
    watch.started.streams.outlets.give_up();
    let code = watch.code.unwrap_or(0);
    let killed = watch
        .ends
        .iter()
        .flatten()
        .any(|&end| matches!(end, End::Signal(signal) if code == 128 + signal));
    if job.bare_signals && killed { code - 128 } else { code }
}

impl Watch<'_> {
    /// Waits for something to happen and deals with it.
    fn step(&mut self, signals: &mut Signals) {
        let mut fds: Vec<BorrowedFd<'_>> = vec![signals.as_fd()];
        let sockets: Vec<usize> = (0..self.ends.len())
            .filter(|&r| self.started.ranks[r].socket.is_some())
            .collect();
        fds.extend(
            sockets
                .iter()
                .filter_map(|&r| self.started.ranks[r].socket.as_ref().map(AsFd::as_fd)),
        );
        let streams = &self.started.streams;
        let open: Vec<usize> = streams.open().map(|(stream, _)| stream).collect();
        fds.extend(streams.open().map(|(_, pipe)| pipe));
        let behind = streams.outlets.behind();
        let to_write: Vec<BorrowedFd<'_>> = behind.iter().map(|&o| streams.outlets.descriptor(o)).collect();
        let ready = os::poll(&fds, &to_write, self.patience());
        let of = |all: &[usize], ready: &[bool]| -> Vec<usize> {
            let all = all.iter().zip(ready).filter(|(_, ready)| **ready);
            all.map(|(&one, _)| one).collect()
        };
        let (of_sockets, others) = ready[1..].split_at(sockets.len());
        let (of_streams, of_outlets) = others.split_at(open.len());
        let (sockets, open, behind) = (of(&sockets, of_sockets), of(&open, of_streams), of(&behind, of_outlets));
        sockets.into_iter().for_each(|rank| self.listen(rank));
        for outlet in behind {
            let flushed = self.started.streams.outlets.flush(outlet);
            self.passed_on(flushed);
        }
        if !open.is_empty() {
            self.pass_on(|streams| streams.pump(open));
        }
        if self.started.streams.due().is_some_and(|due| due <= Instant::now()) {
            self.pass_on(|streams| streams.pass_pauses());
        }
        if ready[0] {
            while let Some(signal) = signals.next() {
                self.signal(signal.number, signal.from_terminal);
            }
            self.reap();
        }
        self.look_at_the_clock();
        self.look_for_the_missing();
        self.look_at_the_memory();
        self.show_the_table();
    }

    /// Says something on standard error, in a line of its own.
    fn say(&mut self, text: &str) {
        self.started.streams.say(&format!("mpirun: {text}\n"));
    }

    /// Passes output of ranks on, where the table stood.
    fn pass_on(&mut self, pass: impl FnOnce(&mut Streams) -> Result<(), String>) {
        let erase = self.screen.erase();
        self.started.streams.say(&erase);
        let outcome = pass(&mut self.started.streams);
        self.passed_on(outcome);
    }

    /// Output of ranks has been passed on; if there is nobody for whom, the job has no purpose any more.
    fn passed_on(&mut self, outcome: Result<(), String>) {
        let Err(why) = outcome else { return };
        if self.ending.is_none() {
            self.say(&format!("{why}; ending the job"));
        }
        self.end_job(128 + libc::SIGPIPE, libc::SIGTERM);
    }

    /// Whether there is output that readers have not taken, and that they still may.
    fn waits_for_readers(&self) -> bool {
        let outlets = &self.started.streams.outlets;
        !outlets.behind().is_empty() && self.until.is_none_or(|until| Instant::now() < until)
    }

    /// What each rank is doing.
    fn views(&self) -> Vec<View> {
        let process = |rank: usize| {
            let pid = self.started.ranks[rank].pid;
            (u32::try_from(pid).ok(), self.ends[rank].is_some())
        };
        let segment = &self.started.segment;
        if !self.leads() {
            let own = self.place(0)..self.place(self.ends.len());
            return view::look(&self.calls, segment, own, |rank| process(rank as usize));
        }
        let _ = segment.grow();
        let all = |place| self.own(place).map_or((None, false), process);
        let mut views = view::look(&self.calls, segment, 0..segment.known(), all);
        for view in views.iter_mut().filter(|view| self.own(view.rank).is_none()) {
            view.is_gone = guests::is_gone(segment, view);
        }
        views
    }

    /// What ranks are doing that all sleep, for certain: one that looks around between two naps says nothing for that moment.
    fn sleeping(&self) -> Vec<View> {
        let mut looks = (0..LOOKS).map(|_| self.views());
        let told = looks.find(|views| views.iter().all(stall::tells));
        told.unwrap_or_else(|| self.views())
    }

    /// Says who waits for whom.
    fn tell(&mut self, headline: &str, is_stuck: bool) {
        let views = if is_stuck { self.sleeping() } else { self.views() };
        // One write, so that what the ranks write stands before or after it.
        let mut text = self.screen.erase() + &format!("mpirun: {headline}\n");
        for line in report::lines(&views, is_stuck) {
            text += &format!("mpirun: {line}\n");
        }
        self.started.streams.say(&text);
    }

    fn show_the_table(&mut self) {
        let now = Instant::now();
        let (Some(interval), Some(at)) = (self.job.top, self.table_at) else {
            return;
        };
        if now < at || self.ending.is_some() {
            return;
        }
        self.table_at = now.checked_add(interval);
        let outlets = &self.started.streams.outlets;
        if outlets.is_behind(outlets.standard(true)) {
            // Who does not read has no use for one table more.
            return;
        }
        let size = Screen::size(libc::STDERR_FILENO);
        let lines = self.table.lines(&self.views(), size);
        let text = match size {
            Some(_) => self.screen.draw(&lines),
            None => lines.join("\n") + "\n\n",
        };
        self.started.streams.say(&text);
    }

    /// How long nothing may happen.
    fn patience(&self) -> Option<Duration> {
        let now = Instant::now();
        let moments = [
            self.ending.filter(|_| self.killed.is_none()),
            self.limit,
            Some(self.looked + LOOK_AT_MEMORY).filter(|_| self.ending.is_none()),
            self.table_at.filter(|_| self.ending.is_none()),
            self.started.streams.due(),
        ];
        let next = moments
            .into_iter()
            .flatten()
            .map(|at| at.saturating_duration_since(now))
            .min();
        let waits = self.somebody_left_early().is_some() || self.ends.iter().all(Option::is_some);
        let look = waits.then_some(LOOK);
        let last = self.killed.map(|_| LOOK);
        [next, look, last].into_iter().flatten().min()
    }

    fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        if self.limit.take_if(|limit| now >= *limit).is_some() {
            self.until.get_or_insert(now + LINGER);
            if self.ending.is_none() {
                let after = self.job.timeout.map_or(String::new(), |s| format!(" of {s} s"));
                self.tell(&format!("the time limit{after} is over; ending the job"), false);
                self.end_job(124, libc::SIGTERM);
            }
        }
        if self.killed.is_none() && self.ending.is_some_and(|at| now >= at) {
            self.kill_hard();
        }
    }

    /// Reads what `rank` has to say over PMI.
    fn listen(&mut self, rank: usize) {
        let mut room = [0; 4096];
        while let Some(socket) = &self.started.ranks[rank].socket {
            match os::read_now(socket.as_fd(), &mut room) {
                Ok(None) => return,
                Ok(Some(count)) if count > 0 => self.lines[rank].push(&room[..count]),
                _ => {
                    self.started.ranks[rank].socket = None;
                    return;
                }
            }
            while let Some(line) = self.lines[rank].next_line() {
                match line.and_then(|line| self.server.take(rank, &line)) {
                    Ok(effects) => effects.into_iter().for_each(|effect| self.carry_out(effect)),
                    Err(why) => {
                        self.say(&format!("rank {rank} breaks the PMI protocol: {why}"));
                        self.started.ranks[rank].socket = None;
                        return;
                    }
                }
            }
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Abort(code) => self.end_job(aborted_with(code) & 0xff, libc::SIGTERM),
            Effect::Reply(rank, text) => {
                let socket = &mut self.started.ranks[rank].socket;
                if socket
                    .as_ref()
                    .is_some_and(|s| !os::send_now(s.as_fd(), format!("{text}\n").as_bytes()))
                {
                    *socket = None;
                }
            }
        }
    }

    fn reap(&mut self) {
        while let Ok(Some((pid, end))) = os::reap() {
            // Others are adopted orphans: launchers of ranks that were started later, and what nobody asks about.
            let rank = (0..self.ends.len()).find(|&r| self.started.ranks[r].pid == pid && self.ends[r].is_none());
            if let Some(rank) = rank {
                self.listen(rank);
                self.ends[rank] = Some(end);
                if let Some(profile) = &mut self.started.profile {
                    profile.ended(rank);
                }
                self.judge(rank, end);
            } else {
                self.lost(pid);
            }
        }
    }

    /// An orphan has ended. If that watched over ranks that were started later, and has not said how they ended, they died with it.
    fn lost(&mut self, pid: i32) {
        let segment = &self.started.segment;
        let _ = segment.grow();
        let Some(first) = segment.ranks_of(pid) else { return };
        let counted_on = !segment.is_apart(first) && segment.life(first) != Life::Absent;
        match segment.has_joined() {
            true => segment.desert(first),
            false => segment.conclude(first, Outcome::Failed),
        }
        if counted_on && self.ending.is_none() {
            self.say("what watched over the ranks that were started later is dead; ending the job");
            self.end_job(1, libc::SIGTERM);
        }
    }

    /// Whether the end of a rank is the end of the job.
    fn judge(&mut self, rank: usize, end: End) {
        if self.ending.is_some() {
            return;
        }
        let abort = self.started.segment.aborted(self.started.first);
        let in_mpi = self.stage(rank) == Life::Attached;
        if self.look_for_damage() {
            return;
        }
        let died = match end {
            End::Exit(code) => code != 0 && self.stage(rank) != Life::Finalized || in_mpi,
            End::Signal(_) => true,
        };
        if died && self.job.keep_going && abort.is_none() {
            let (what, code) = match end {
                End::Signal(signal) => {
                    let name = os::signal_name(signal);
                    (format!("was killed by signal {signal} ({name})"), 128 + signal)
                }
                End::Exit(code) if in_mpi => (
                    format!("exited with code {code} before MPI_Finalize was done"),
                    code.max(1),
                ),
                End::Exit(code) => (format!("exited with code {code}"), code),
            };
            self.report(rank, &(what + "; the others go on"));
            self.code.get_or_insert(code);
            self.started.segment.bury(self.place(rank));
            return;
        }
        match end {
            _ if abort.is_some() => self.end_job(abort.unwrap_or(1).into(), libc::SIGTERM),
            End::Signal(signal) => {
                if signal != libc::SIGPIPE || self.job.verbose {
                    self.report(
                        rank,
                        &format!("was killed by signal {signal} ({})", os::signal_name(signal)),
                    );
                }
                self.end_job(128 + signal, libc::SIGTERM);
            }
            End::Exit(0) if in_mpi => {
                self.report(rank, "exited with code 0 before MPI_Finalize was done");
                self.end_job(1, libc::SIGTERM);
            }
            End::Exit(0) => {}
            // After MPI_Finalize a code is the rank's own verdict; the others may finish.
            End::Exit(code) if self.stage(rank) == Life::Finalized => {
                self.report(rank, &format!("exited with code {code}"));
                self.code.get_or_insert(code);
            }
            End::Exit(code) => {
                let place = if in_mpi { " before MPI_Finalize was done" } else { "" };
                self.report(rank, &format!("exited with code {code}{place}"));
                self.end_job(code, libc::SIGTERM);
            }
        }
    }

    /// Whether these are the first ranks of their family, so that nobody else judges about it.
    fn leads(&self) -> bool {
        self.host.is_none_or(|host| !host.was_asked())
    }

    /// The rank in the job of rank `rank`.
    fn place(&self, rank: usize) -> u32 {
        self.started.first + rank as u32
    }

    /// Which of our ranks is `place` in the job, if it is one of them.
    fn own(&self, place: u32) -> Option<usize> {
        let rank = place.checked_sub(self.started.first)? as usize;
        (rank < self.ends.len()).then_some(rank)
    }

    /// Whether all ranks have come to MPI.
    fn were_all_in_mpi(&self) -> bool {
        (0..self.ends.len()).all(|rank| self.stage(rank) != Life::Absent)
    }

    /// Whether processes that ranks have started (MPI_Comm_spawn) are still running, and may go on.
    fn has_guests(&self) -> bool {
        self.ending.is_none() && guests::are_there(&self.started.segment)
    }

    /// Where `rank` stands: nearmpi says so in the segment, other libraries over PMI.
    fn stage(&self, rank: usize) -> Life {
        match (self.started.segment.life(self.place(rank)), self.server.stage(rank)) {
            (Life::Absent, Stage::Joined) => Life::Attached,
            (Life::Absent, Stage::Finished) => Life::Finalized,
            (life, _) => life,
        }
    }

    /// A rank that is gone without ever having come to MPI, while others run.
    fn somebody_left_early(&self) -> Option<usize> {
        if self.ending.is_some() {
            return None;
        }
        (0..self.ends.len()).find(|&r| self.ends[r].is_some() && self.stage(r) == Life::Absent)
    }

    fn look_for_the_missing(&mut self) {
        if let Some(rank) = self.somebody_left_early()
            && (0..self.ends.len()).any(|r| self.ends[r].is_none() && self.stage(r) == Life::Attached)
        {
            self.report(
                rank,
                "exited with code 0 without calling MPI_Init, and others are in MPI",
            );
            self.end_job(1, libc::SIGTERM);
        }
    }

    /// Ends a job whose memory holds junk; true if it does.
    fn look_for_damage(&mut self) -> bool {
        let damaged = self.started.segment.is_damaged();
        if damaged && self.ending.is_none() {
            self.say("the job's shared memory holds junk: a rank has written where it must not; ending the job");
            self.end_job(1, libc::SIGTERM);
        }
        damaged
    }

    /// Ends with the processes of the job that other launchers watch over: a rank of theirs has ended it, or those who wanted these
    /// ranks are gone.
    fn look_at_the_others(&mut self) {
        let segment = &self.started.segment;
        let _ = segment.grow();
        if segment.known() == segment.ranks() {
            return;
        }
        let first = self.started.first;
        if self.leads() && segment.has_joined() {
            guests::bury_deserted(segment, first);
        }
        let is_apart = !self.leads() && segment.is_apart(first);
        let ended = segment.aborted(first).filter(|_| !is_apart).map(i32::from);
        if let Some(code) = ended.or(self.host.filter(|host| host.is_forsaken()).map(|_| 1)) {
            self.end_job(code, libc::SIGTERM);
        }
    }

    fn look_at_the_memory(&mut self) {
        if self.ending.is_some() || self.looked.elapsed() < LOOK_AT_MEMORY {
            return;
        }
        self.looked = Instant::now();
        if self.look_for_damage() {
            return;
        }
        self.look_at_the_others();
        if self.ending.is_some() || !self.leads() {
            return;
        }
        let mut stall = std::mem::take(&mut self.stall);
        let segment = &self.started.segment;
        let first = self.started.first;
        let takes_part = |place: u32| match self.own(place) {
            Some(rank) => self.ends[rank].is_none() && self.stage(rank) != Life::Finalized,
            None => segment.concerns(first, place) && guests::takes_part(segment, place),
        };
        let stuck = stall.look(self.job.stall, segment, takes_part);
        let is_traced = |place| os::is_traced(segment.rank(place).pid.load(Ordering::Relaxed) as i32);
        let looked_at = match stuck {
            Some(Stuck { end: true, .. }) => (0..segment.known()).find(|&place| takes_part(place) && is_traced(place)),
            _ => None,
        };
        self.stall = stall;
        let Some(stuck) = stuck else { return };
        self.tell(&stuck.headline, stuck.is_certain);
        match looked_at {
            Some(rank) => self.say(&format!("the job is left running: a debugger has rank {rank}")),
            None if stuck.end => {
                self.say(&format!(
                    "ending the job with code {STUCK} (-stall report leaves it running)"
                ));
                self.end_job(STUCK, libc::SIGTERM);
            }
            None => {}
        }
    }

    fn report(&mut self, rank: usize, what: &str) {
        let Some(r) = self.started.ranks.get(rank) else { return };
        let what = match self.calls.of(&self.started.segment.rank(self.place(rank)).doing.read()) {
            Some(call) => format!("{what} in {call}"),
            None => what.to_string(),
        };
        let who = format!("rank {rank} (pid {}, {})", r.pid, r.program);
        self.say(&format!("{who} {what}"));
    }
}
