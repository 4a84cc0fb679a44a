//! Which way a collective of an intracommunicator goes, the same at all ranks: by boards, as a table says that is made
//! when the communicator's boards are opened, or by messages, along one of several schedules. `NEARMPI_COLLECTIVES`
//! overrides both, case by case ([`selection`](crate::sys::selection)).
//!
//! A row of the table says up to how many bytes the operation is shown on the boards, in pieces of `near` bytes where it
//! goes in pieces, between which lengths it goes by messages, up to how many bytes it is shown or offered as the ranks learn what
//! is quicker, up to how many it is handed on from rank to rank, and up to how many it is offered, to be copied once; what is longer
//! still becomes a schedule, and so does what is of more ranks than use boards.
//! Nonblocking and persistent operations are shown as far as blocking ones, but at least up to one bound for all
//! (`NEARMPI_BOARD_STARTED`), and become schedules above.

use super::board::desk::LINE;
use super::board::{AT_ONCE, MOST};
use crate::mpi::comm::Comm;
use crate::mpi::world::Hold;
use crate::shm::ring::LONG;
use crate::sys::cvar::Settings;
use crate::sys::selection::{Operation, Rule, Step, Way};
use std::ops::RangeInclusive;

/// Smallest pieces, in bytes: a turn costs as much as copying these.
pub const LEAST: usize = 1024;
/// Bytes up to which nothing goes in pieces so that showing and taking overlap.
const OVERLAP: usize = 8 << 10;

/// Ranks up to which each reads all before it in a prefix reduction of long vectors, and of which all take from all.
const FEW: usize = 8;

/// One operation's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Bytes of a rank up to which it goes by boards.
    pub shown: usize,
    /// ... where only that rank knows how many they are, it is nonblocking, or it calls functions of the program.
    pub shown_unasked: usize,
    /// Bytes above which and up to which it goes by messages, if it is too long to be shown.
    pub sent: (usize, usize),
    /// Bytes up to which what is longer is shown or copied once, as has been learnt ([`board::learnt`](super::board::learnt)).
    pub learnt: usize,
    /// Bytes up to which what is longer is handed on from rank to rank.
    pub handed: usize,
    /// Bytes up to which what is longer is copied once; 0: never, however long or of unknown length.
    pub offered: usize,
}

/// Bytes from which a broadcast goes in parts, and ranks from which that can pay.
const LONG_BCAST: (usize, usize) = (64 << 10, 5);
/// Bytes from which a reduction works by halves; an allreduce of ranks with a CPU each divides them by their number.
const LONG_REDUCE: usize = 16 << 10;
/// Bytes up to which ranks that share CPUs reduce at one of them.
const SHORT_CROWD: usize = 4 << 10;
/// Bytes of a block up to which gather and scatter forward blocks along a tree, and ranks from which that can pay.
const SHORT_BLOCK: (usize, usize) = (2 << 10, 5);
/// Ranks from which that can pay where each has a CPU.
const LINEAR: usize = 17;
/// Bytes of a block above which more than four ranks with a CPU each copy it once.
const LONG_BLOCK: usize = 512 << 10;
/// Bytes in all up to which an allgather does without a ring.
const SHORT_ALLGATHER: usize = 32 << 10;
/// The same where each rank has a CPU, and bytes of a block up to which it forwards blocks at doubling distances.
const SPREAD: usize = 256 << 10;
const BRUCK: usize = 256;
/// Bytes of a block up to which an alltoall forwards blocks, and ranks from which that can pay.
const SHORT_ALLTOALL: (usize, usize) = (256, 8);

/// Bytes of all ranks together up to which each looks at all the others rather than at one in each of several turns.
const LOOKED_ROUND: usize = 3 << 10;

/// CPUs up to which ranks that share them go some ways that have been measured there alone, or lose with more of them.
const FEW_CPUS: u32 = 2;
/// Ranks, on as few CPUs, of which a long broadcast is copied once.
const ONCE_CROWD: RangeInclusive<usize> = 5..=16;
/// Ranks that share CPUs of which an allreduce goes in phases, and up to how many bytes.
const PHASED: (RangeInclusive<usize>, usize) = (3..=4, 4 << 20);
/// Ranks with a CPU each from which it does, and above how many bytes.
const PHASED_ROOMY: (usize, usize) = (8, 1 << 20);
/// Ranks that share CPUs up to which a long alltoall goes in pieces.
const PIECES_CROWD: usize = 16;

/// However long.
const ANY: usize = usize::MAX;

impl Row {
    /// Whether `len` bytes, which all ranks know, go by messages rather than as it says further on.
    #[inline]
    pub fn sends(&self, len: usize) -> bool {
        len > self.shown.max(self.sent.0) && len <= self.sent.1
    }

    /// Whether `len` bytes, too many to be shown, are copied once.
    #[inline]
    pub fn offers(&self, len: usize) -> bool {
        len <= self.offered
    }

    /// Whether what is too long to be shown, or of a length that not all ranks know, is copied once.
    #[inline]
    pub fn offers_any(&self) -> bool {
        self.offered > 0
    }
}

/// The table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Bytes shown at a time, and the length of the longest pieces.
    pub near: usize,
    /// The length of the shortest pieces of what is shown to ranks that show nothing themselves.
    pub least: usize,
    /// The same in an allgather, an alltoall and its kin.
    pub wide: usize,
    /// Bytes that a rank hands on at a time.
    pub link: usize,
    /// Bytes that it may be ahead of the one below it.
    pub ahead: usize,
    /// Bytes from which an allreduce, up to [`DOUBLED`](super::board::doubling::DOUBLED) bytes, goes by exchanges at doubling
    /// distances; 0: a barrier too.
    pub doubling: usize,
    /// Bytes from which each rank reduces its share of an allreduce.
    pub share: usize,
    /// Bytes above which all shares of an allreduce are reduced before any is shown.
    pub phased: usize,
    /// Bytes from which each rank reduces its share of a reduction to a root.
    pub reduce_share: usize,
    /// `MPI_Bcast`, in pieces.
    pub bcast: Row,
    /// `MPI_Reduce`, in pieces; of two ranks learnt.
    pub reduce: Row,
    /// `MPI_Allreduce`, in pieces.
    pub allreduce: Row,
    /// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`, by the bytes of all blocks, in pieces.
    pub reduce_scatter: Row,
    /// `MPI_Scan` and `MPI_Exscan`, in pieces; of two ranks learnt.
    pub scan: Row,
    /// `MPI_Gather`, in pieces, of two ranks learnt; `MPI_Gatherv` of more than two ranks is always as long as the longest.
    pub gather: Row,
    /// `MPI_Scatter`, by the bytes of all blocks for others; those of `MPI_Scatterv` only the root of more than two ranks knows.
    pub scatter: Row,
    /// `MPI_Allgather` and `MPI_Allgatherv`, by the bytes of the largest block.
    pub allgather: Row,
    /// `MPI_Alltoall`, by the bytes of all blocks for others; those of its kin only their rank knows, but of two ranks.
    pub alltoall: Row,
}

impl Table {
    /// The table for `size` ranks, of a job whose ranks share the CPUs of `crowd`, or have one each.
    pub fn new(settings: &Settings, crowd: Option<u32>, size: usize) -> Table {
        let crowded = crowd.is_some();
        let few_cpus = crowd.is_some_and(|cpus| cpus <= FEW_CPUS);
        let near = (settings.board_max as usize).min(MOST);
        let can = near > 0 && settings.one_copy != 0;
        // What is longer may be copied once where that has proved quicker, or always, and then nothing goes in pieces.
        let (once, always) = (can && settings.board_one_copy > 0, can && settings.board_one_copy > 1);
        let (short, any) = match near >= LEAST && !always && settings.board_pieces > 0 {
            true => (near.max(settings.board_pieces as usize), ANY),
            false => (near, near),
        };
        // Where ranks share CPUs, messages cost them changes of place; two ranks gain by pieces at any length: while one
        // reduces, the other shows the next.
        let reduced = |most| if crowded || size <= 2 { any } else { most };
        // Shown to ranks that all take from all.
        let direct = near.min(settings.board_direct as usize);
        // What is shown in one turn to ranks that all wait for it.
        let at_once = near.saturating_mul(4).min(AT_ONCE);
        // Of two ranks each shows only what the other one reduces, in pieces, and ranks that share CPUs show strips.
        let scattered = match size {
            _ if any == ANY && (size <= 2 || crowded) => ANY,
            0..=2 => at_once.saturating_mul(2),
            _ => at_once,
        };
        // Each turn costs ranks that share CPUs a change of place.
        let wide = if crowded { at_once } else { near };
        let row = |shown, offered| Row {
            shown,
            shown_unasked: shown,
            sent: (0, 0),
            learnt: 0,
            handed: 0,
            offered: if offered { ANY } else { 0 },
        };
        // What has room in scratch memory in all: ranks that wait for nobody need not wait for the root either.
        let roomful = at_once.saturating_mul(2);
        let handed = Row {
            shown: roomful,
            handed: ANY,
            ..row(any, false)
        };
        let mut table = Table {
            near,
            // As above; where each has one, those behind it begin sooner.
            link: if crowded { near } else { near / 2 },
            // Less makes ranks that share a CPU change places more often, more does not stay in the caches, unless it shall not.
            ahead: match settings.board_round {
                0 => AT_ONCE,
                round => AT_ONCE.max((round / 2) as usize),
            },
            // Where ranks share CPUs each turn costs a change of place.
            least: match crowded || any != ANY {
                true => near,
                false => near.min(OVERLAP),
            },
            wide,
            doubling: match settings.board_doubling as usize {
                0 => ANY,
                _ if crowded || size < 2 => ANY,
                ranks if size > 2 * ranks => 0,
                ranks if size >= ranks => LOOKED_ROUND / size,
                _ => ANY,
            },
            // Two ranks read as much either way, in one turn rather than two. Ranks that share CPUs change places in each; of
            // two on one CPU what both show, read and write has to fit its cache.
            share: match (size, crowded) {
                (0..=2, false) => ANY,
                (0..=2, true) => settings.share_min.saturating_mul(128) as usize,
                (_, true) => settings.share_min.saturating_mul(16) as usize,
                (_, false) => settings.share_min as usize,
            },
            phased: if crowded && any == ANY && PHASED.0.contains(&size) {
                at_once
            } else {
                ANY
            },
            reduce_share: ANY,
            // Where each rank has a CPU, two can copy by messages.
            bcast: match size {
                // Longer buffers of all ranks of a CPU do not fit its cache together.
                _ if few_cpus && ONCE_CROWD.contains(&size) && once && any == ANY => Row {
                    shown: roomful,
                    ..row(any, true)
                },
                _ => row(if crowded { any } else { short }, always),
            },
            reduce: match crowded && size > 2 && any == ANY {
                true => handed,
                false => row(reduced(short.saturating_mul(4).min(any)), always),
            },
            allreduce: match crowded {
                true if few_cpus && size > 2 && any == ANY => match PHASED.0.contains(&size) {
                    true => Row {
                        shown: PHASED.1,
                        ..handed
                    },
                    false => handed,
                },
                true => row(any, always),
                false => row(reduced(near), once),
            },
            reduce_scatter: row(scattered, once),
            scan: row(reduced(short), always && size <= FEW),
            gather: match (crowded, size) {
                (true, _) => row(short.saturating_mul(2).min(any), always),
                (false, 0..=2) => row(short.saturating_mul(16).min(any), always),
                (false, _) => row(short, always),
            },
            scatter: row(if crowded { wide } else { direct }, once),
            allgather: match crowded {
                true => row(any, always),
                false => row(direct, once),
            },
            alltoall: match crowded {
                // Who offers waits for all readers; but of more ranks the pieces for each are short, as they are if blocks differ.
                true if any == ANY && size <= PIECES_CROWD => Row {
                    shown_unasked: wide.saturating_mul(32),
                    ..row(any, once)
                },
                true => row(wide.saturating_mul(4), once),
                false => row(direct, once),
            },
        };
        if once && !always && !crowded && near >= LEAST {
            // Data that are rewritten go quicker by two copies, others by one: the ranks find out.
            (table.scatter.shown, table.scatter.shown_unasked) = (direct / 4, direct / 4);
            for row in [&mut table.scatter, &mut table.allgather, &mut table.alltoall] {
                row.learnt = AT_ONCE;
            }
            // A long ring takes less time than the reader of what lies in the other one's cache. What goes both ways gains less, and
            // loses until its messages have learnt their way.
            let ring = settings.ring_large as usize;
            if size == 2 && settings.ring_large >= LONG.into() {
                (table.scatter.shown, table.scatter.sent) = (direct / 2, (0, ring / 2));
            }
            (table.bcast.shown, table.bcast.learnt) = (near / 8, short);
            if size == 2 {
                // Longer messages both copy, each a half.
                table.bcast.learnt = near;
                for row in [&mut table.gather, &mut table.reduce, &mut table.scan] {
                    (row.shown, row.learnt) = (near / 4, row.shown);
                }
            }
        }
        if size > 2 && !crowded && !always && near >= LEAST {
            table.adapt_to_roomy(size, any, once);
            if size > 4 {
                // A root that reduces all is the last to be through, by far.
                table.reduce_share = settings.share_min.saturating_mul(4) as usize;
            }
        }
        if !crowded {
            let Table {
                reduce,
                allreduce,
                reduce_scatter,
                scan,
                ..
            } = &mut table;
            for row in [reduce, allreduce, reduce_scatter, scan] {
                row.shown_unasked = row.shown;
            }
            if settings.board_round > 0 {
                // What is gone round in takes less time than what is copied once; nonblocking ones of two ranks do not go round.
                for row in [&mut table.gather, &mut table.reduce] {
                    row.shown = row.shown.max(row.learnt);
                }
            }
        }
        for &operation in Operation::ALL {
            let Some(rule) = settings.collectives.find(operation, size, crowded) else {
                continue;
            };
            let Some(row) = table.row(operation) else {
                continue;
            };
            let most = |way| {
                rule.steps
                    .iter()
                    .find(|step| step.way == way)
                    .map_or(0, |step| step.most)
            };
            let shown = match near >= LEAST {
                true => most(Way::Shown),
                false => most(Way::Shown).min(scattered),
            };
            let mut behind_shown = rule.steps.iter().filter(|step| step.way != Way::Shown).peekable();
            let reach = |most, step: &Step| step.most.max(most);
            let above = std::iter::from_fn(|| behind_shown.next_if(|step| !step.way.is_by_messages())).fold(0, reach);
            let sent = std::iter::from_fn(|| behind_shown.next_if(|step| step.way.is_by_messages())).fold(0, reach);
            *row = Row {
                shown,
                shown_unasked: shown,
                sent: (above, sent),
                learnt: if can { most(Way::Learnt) } else { 0 },
                handed: if near >= LEAST { most(Way::Handed) } else { 0 },
                offered: if can { most(Way::Offered) } else { 0 },
            };
        }
        table
    }

    /// What differs where each of `size` ranks, more than two, has a CPU. What all show in a turn is written and read by everybody
    /// at the same time; messages, which go back and forth through lines that are at hand, are quicker for some of it, and pieces for
    /// the rest (docs/measured.md, "Sixteen cores"). What goes in pieces is shown up to `any` bytes.
    fn adapt_to_roomy(&mut self, size: usize, any: usize, once: bool) {
        let (others, few) = (size - 1, size <= FEW);
        let send = |row: &mut Row, shown: usize, sent| {
            (row.shown, row.sent) = (row.shown.min(shown), (0, sent));
        };
        match few {
            true => send(&mut self.reduce_scatter, ANY, 0),
            false => send(&mut self.reduce_scatter, 32 << 10, AT_ONCE),
        }
        send(
            &mut self.alltoall,
            512 * others,
            (if few { 8 << 10 } else { 32 << 10 }) * others,
        );
        send(&mut self.scatter, 2 << 10, (32 << 10) * others);
        self.allreduce.shown = any.min(if once { AT_ONCE } else { 1 << 20 });
        self.reduce.shown = self.reduce.shown.min(512 << 10);
        self.reduce.handed = if any == ANY { ANY } else { 0 };
        self.allgather.shown = self.near;
        if size >= PHASED_ROOMY.0 {
            self.phased = PHASED_ROOMY.1;
        }
        if size > 4 {
            if once {
                (self.reduce.shown, self.reduce.offered) = (self.reduce.shown.min(AT_ONCE), ANY);
            }
            let shown = if once { any.min(LONG_BLOCK) } else { any };
            self.allgather = Row {
                shown,
                shown_unasked: any,
                learnt: 0,
                ..self.allgather
            };
            (self.bcast.shown, self.bcast.learnt) = (any, 0);
            let scanned = if few { 1 << 10 } else { 128 };
            self.scan.shown = self.scan.shown.min(scanned);
        }
        if !few {
            // So that what all show stays in its owners' caches.
            self.wide = self.near / 2;
        }
    }

    /// The length of the pieces of `len` bytes that some ranks show and others take: a quarter, so that most of them are taken while
    /// the next are shown.
    pub fn piece(&self, len: usize) -> usize {
        len.div_ceil(4).next_multiple_of(LINE).clamp(self.least, self.near)
    }

    /// The row of `operation`; `None` for those that need none.
    fn row(&mut self, operation: Operation) -> Option<&mut Row> {
        Some(match operation {
            Operation::Barrier => return None,
            Operation::Bcast => &mut self.bcast,
            Operation::Reduce => &mut self.reduce,
            Operation::Allreduce => &mut self.allreduce,
            Operation::Scan => &mut self.scan,
            Operation::Gather => &mut self.gather,
            Operation::ReduceScatter => &mut self.reduce_scatter,
            Operation::Scatter => &mut self.scatter,
            Operation::Allgather => &mut self.allgather,
            Operation::Alltoall => &mut self.alltoall,
        })
    }
}

/// The case that a schedule is chosen for.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    settings: &'a Settings,
    crowd: Option<u32>,
    size: usize,
}

impl<'a> Case<'a> {
    /// That of `size` ranks, of a job whose ranks share the CPUs of `crowd`, or have one each.
    pub fn new(settings: &'a Settings, crowd: Option<u32>, size: usize) -> Case<'a> {
        Case { settings, crowd, size }
    }

    /// That of `comm`.
    pub fn of(hold: &'a Hold, comm: &Comm) -> Case<'a> {
        let channel = &hold.engine.channel;
        Case::new(channel.settings(), channel.segment().crowd(), comm.size() as usize)
    }

    /// The schedule for `len` bytes: the first way within its bound that is `able`, of the rule for this case, then of
    /// the usual ones, of which the last is always able.
    pub fn by_messages(self, operation: Operation, len: usize, able: impl Fn(Way) -> bool) -> Way {
        let steps = self.schedules(operation);
        let fits = |step: &&Step| len <= step.most && able(step.way);
        let step = steps.iter().find(fits).or(steps.last());
        step.expect("each operation has a usual way").way
    }

    /// The rule that says what is done in this case.
    pub fn rule(self, operation: Operation) -> Rule {
        let row = Table::new(self.settings, self.crowd, self.size).row(operation).copied();
        let row = row.filter(|_| self.size as u64 <= self.settings.board_ranks);
        let bounds = |row: Row| [row.shown, row.learnt, row.handed, row.offered];
        let most = row.map_or([0; 4], bounds);
        let schedules = self.schedules(operation);
        let (above, sent) = row.map_or((0, 0), |row| row.sent);
        let by_messages = |&Step { way, most }: &Step| Step {
            way,
            most: most.min(sent),
        };
        let ways = [Way::Shown, Way::Learnt, Way::Handed, Way::Offered]
            .into_iter()
            .zip(most);
        let boards = ways.map(|(way, most)| Step { way, most });
        // Messages come where all before reach as far as they begin.
        let (before, behind): (Vec<_>, Vec<_>) = boards.partition(|step| step.way == Way::Shown || step.most <= above);
        let mut steps: Vec<Step> = Vec::new();
        for step in (before.into_iter())
            .chain(schedules.iter().map(by_messages))
            .chain(behind)
            .chain(schedules.iter().copied())
        {
            let reached = steps.last().map_or(0, |step| step.most);
            if reached < step.most {
                steps.push(step);
            }
        }
        Rule {
            operation,
            ranks: (self.size, self.size),
            crowded: Some(self.crowd.is_some()),
            steps,
        }
    }

    /// The ways by messages: those of the rule for this case, then the usual ones.
    fn schedules(self, operation: Operation) -> Vec<Step> {
        let rule = self
            .settings
            .collectives
            .find(operation, self.size, self.crowd.is_some());
        let ruled = rule.map_or(&[][..], |rule| &rule.steps).iter().copied();
        ruled
            .filter(|step| step.way.is_by_messages())
            .chain(self.usual(operation))
            .collect()
    }

    /// The ways by messages that are taken where nobody says; the last is always able.
    fn usual(self, operation: Operation) -> Vec<Step> {
        let up_to = |way, most| Step { way, most };
        let any = |way| up_to(way, ANY);
        let roomy = self.crowd.is_none();
        let crowd = if roomy { 0 } else { SHORT_CROWD };
        let from = |ranks, block: usize| if self.size >= ranks { block } else { 0 };
        // With a CPU each, a root is through with some ranks before a tree is.
        let tree = if roomy { LINEAR } else { SHORT_BLOCK.1 };
        let others = self.size.saturating_sub(1);
        match operation {
            Operation::Barrier => vec![any(if roomy { Way::Doubling } else { Way::Flat })],
            Operation::Bcast => match self.size >= LONG_BCAST.1 {
                true => vec![up_to(Way::Tree, LONG_BCAST.0 - 1), any(Way::Parts)],
                false => vec![any(Way::Tree)],
            },
            Operation::Reduce if roomy => vec![any(Way::Tree)],
            Operation::Reduce | Operation::Allreduce => {
                let (short, most) = match operation {
                    Operation::Reduce => (Way::Tree, LONG_REDUCE - 1),
                    _ if roomy => (Way::Doubling, LONG_REDUCE / self.size.max(1)),
                    _ => (Way::Doubling, LONG_REDUCE - 1),
                };
                vec![
                    up_to(Way::Flat, crowd),
                    up_to(short, most),
                    any(Way::Halves),
                    any(short),
                ]
            }
            Operation::ReduceScatter => vec![any(Way::Pairs)],
            Operation::Scan => vec![any(Way::Doubling)],
            Operation::Gather => vec![up_to(Way::Tree, from(tree, SHORT_BLOCK.0)), any(Way::Linear)],
            Operation::Scatter => vec![up_to(Way::Tree, from(tree, SHORT_BLOCK.0) * others), any(Way::Linear)],
            Operation::Allgather if roomy => {
                let spread = SPREAD / self.size.max(1);
                vec![up_to(Way::Bruck, BRUCK), up_to(Way::Spread, spread), any(Way::Ring)]
            }
            Operation::Allgather => {
                let short = SHORT_ALLGATHER / self.size.max(1);
                vec![up_to(Way::Bruck, short), up_to(Way::Spread, short), any(Way::Ring)]
            }
            Operation::Alltoall => {
                let bruck = from(SHORT_ALLTOALL.1, SHORT_ALLTOALL.0) * others;
                vec![up_to(Way::Bruck, bruck), any(Way::Pairs)]
            }
        }
    }
}

#[cfg(test)]
mod tests;
