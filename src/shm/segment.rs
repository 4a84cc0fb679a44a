//! # Safety
//! Turns offsets into addresses: relies on [`Layout`] to keep every structure in its own range of a
//! mapping that is as long as the layout says.
//!
//! A job's segment: one nameless file that the launcher makes and every rank maps.
#![allow(unsafe_code)]

use super::bell::{Barriers, Bell};
use super::board::WIDE;
use super::context::{Context, REUSED};
use super::doing::Doing;
use super::fate::{Fate, VOTES, Vote};
use super::layout::{CONTEXTS, ENTRIES, KEPT, Layout, MAX_RANKS, PAGE};
use super::sync::{AtomicU32, AtomicU64, Ordering};
use super::waiting::Waiting;
use super::zone;
use crate::sys::descriptor::Lasting;
use crate::sys::futex;
use crate::sys::growing::Growing;
use crate::sys::memory::{self, Mapping};
use crate::sys::pages;
use std::io;
use std::ops::{Deref, Range};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
mod accord;
pub mod annex;
mod held;
mod places;
mod profiled;
mod zones;

/// "nearmpi" and the version of the segment's format.
const MAGIC: u64 = u64::from_le_bytes(*b"nearmpi\x02");

/// Marks an exit code in the header, so that junk is no exit code.
const ABORT: u32 = 0x4142_5200;

/// The first page.
#[repr(C, align(64))]
#[derive(Debug)]
struct JobHeader {
    magic: AtomicU64,
    ranks: AtomicU32,
    cpus: AtomicU32,
    remote_barriers: AtomicU32,
    /// [`ABORT`] + exit code of MPI_Abort; 0 while nobody has called it.
    abort: AtomicU32,
    /// Ranks that have died in a job that goes on, as the launcher counts them, times 2^32, plus the last of them.
    deaths: AtomicU64,
    /// Deaths and revoked communicators.
    events: AtomicU32,
    next_context: AtomicU32,
    /// No context from [`REUSED`] up to this one is free, as far as is known.
    full_below: AtomicU32,
    /// 1: ranks count for a profile.
    profiled: AtomicU32,
    /// No other job's number.
    number: AtomicU64,
    /// The rank whose settings count for the job, and one; 0 while there is none.
    settler: AtomicU32,
    /// Threads that have waited beside another one of their rank, as many as at a time; and ranks that were started later.
    beside: AtomicU32,
    /// Ranks that there have been, those that were started later included.
    total: AtomicU32,
    /// Bytes in each rank's zone.
    zone: AtomicU64,
    /// Where the first annex lies in the file, behind the zones; 0: nowhere.
    annex: AtomicU64,
    /// 1: of those that the job began with, and their family, some were connected with others.
    met: AtomicU32,
    /// The launcher of those that the job began with, if it is one of ours; 0: it is not.
    launcher: annex::Launcher,
    /// 1: ranks wait in MPI_Init.
    held: AtomicU32,
}

/// What a rank tells the others and the launcher about itself; written by that rank only, but for
/// its bell.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct RankBlock {
    /// Wakes the rank.
    pub bell: Bell,
    /// Process number as the rank sees it.
    pub pid: AtomicU32,
    /// One of the numbers of [`Life`].
    pub life: AtomicU32,
    /// Address, in the rank's own memory, of a copy of `canary`.
    pub canary_address: AtomicU64,
    /// A random number: who can read it there reads the right process.
    pub canary: AtomicU64,
    /// Where the rank has mapped the first bytes of its zone, its *home*, and how many; 0: nowhere.
    pub home: AtomicU64,
    /// Written before `home`.
    pub home_len: AtomicU64,
    /// What the rank sleeps for.
    pub waiting: Waiting,
    /// What it does.
    pub doing: Doing,
    /// 0, or the how manyeth rank to die it was; written by whoever first looks at that death.
    death: AtomicU32,
    /// The settings it would have all ranks go by.
    accord: accord::Accord,
}

const _: () = assert!(size_of::<JobHeader>() <= PAGE && size_of::<RankBlock>() <= PAGE);

/// Where a rank stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Life {
    /// Not yet in MPI_Init.
    Absent = 0,
    /// Between MPI_Init and MPI_Finalize.
    Attached = 1,
    /// After MPI_Finalize.
    Finalized = 2,
    /// Gone, while the job goes on without it.
    Dead = 3,
}

/// A rank's block, at hand.
#[derive(Clone, Debug)]
pub struct Block {
    block: NonNull<RankBlock>,
    _segment: Arc<Segment>,
}

// SAFETY: the block is all atomics, in a mapping that lives as long as this.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// Rank `rank`'s block.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn new(segment: &Arc<Segment>, rank: u32) -> Block {
        Block {
            block: segment.rank(rank).into(),
            _segment: segment.clone(),
        }
    }
}

impl Deref for Block {
    type Target = RankBlock;
    #[inline]
    fn deref(&self) -> &RankBlock {
        // SAFETY: the segment is kept, so the block stays mapped; it is all atomics.
        unsafe { self.block.as_ref() }
    }
}

/// A mapped segment.
#[derive(Debug)]
pub struct Segment {
    /// What the job began with.
    part: Part,
    /// What was added since, as far as this process has mapped it.
    annexes: Growing<annex::Annex>,
    /// Ranks in all of that.
    known: AtomicU32,
    /// How many there were when this process had no room for all.
    missed: AtomicU32,
    /// The file, for what is mapped on demand; none where ranks are threads.
    file: Option<Lasting>,
    /// Bytes in each rank's zone.
    zone: usize,
}

/// What is mapped in one piece: with all that some ranks own.
#[derive(Debug)]
struct Part {
    mapping: Mapping,
    layout: Layout,
    /// Where it begins in the file; the zones of its ranks lie behind it.
    start: usize,
}

impl Part {
    fn at<T>(&self, offset: usize) -> NonNull<T> {
        debug_assert!(offset + size_of::<T>() <= self.mapping.len());
        let address = self.mapping.base().wrapping_add(offset).cast();
        NonNull::new(address).expect("a mapping is never at address 0")
    }
}

/// Makes the segment of a job of `ranks` ranks on `cpus` CPUs.
///
/// # Errors
/// What the kernel says; `InvalidInput` for a number of ranks that no job can have.
pub fn create(ranks: u32, cpus: u32) -> io::Result<OwnedFd> {
    if ranks == 0 || ranks > MAX_RANKS {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{ranks} ranks: from 1 to {MAX_RANKS}"),
        ));
    }
    let layout = Layout::new(ranks);
    let zone = zone::len_for(&layout);
    let fd = memory::create(layout.len + zone * ranks as usize)?;
    let segment = Segment::over(Mapping::shared(fd.as_fd(), layout.len)?, layout);
    Segment { zone, ..segment }.initialise(cpus);
    Ok(fd)
}

impl Segment {
    fn over(mapping: Mapping, layout: Layout) -> Segment {
        Segment {
            part: Part {
                mapping,
                layout,
                start: 0,
            },
            annexes: Growing::default(),
            missed: AtomicU32::new(0),
            known: AtomicU32::new(layout.ranks),
            file: None,
            zone: 0,
        }
    }

    /// Maps the segment behind `fd`.
    ///
    /// # Errors
    /// What the kernel says; `InvalidData` when the file is no segment of this version.
    pub fn attach(fd: BorrowedFd<'_>) -> io::Result<Segment> {
        let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("not a nearmpi segment: {what}"));
        let len = memory::len(fd)?;
        if len < PAGE {
            return Err(wrong("too short"));
        }
        let first = Segment::over(Mapping::shared(fd, PAGE)?, Layout::new(1));
        if first.header().magic.load(Ordering::Acquire) != MAGIC {
            return Err(wrong("another version's, or another file"));
        }
        let ranks = first.header().ranks.load(Ordering::Relaxed);
        if ranks == 0 || ranks > MAX_RANKS {
            return Err(wrong("number of ranks"));
        }
        let layout = Layout::new(ranks);
        let zone = first.header().zone.load(Ordering::Relaxed) as usize;
        let zones = zone.checked_mul(ranks as usize).filter(|_| zone.is_multiple_of(PAGE));
        let end = zones.and_then(|zones| zones.checked_add(layout.len));
        // Annexes may lie behind that.
        if end.is_none_or(|end| end > len) {
            return Err(wrong("length"));
        }
        let segment = Segment {
            file: Some(Lasting::new(fd.try_clone_to_owned()?)?),
            zone,
            ..Segment::over(Mapping::shared(fd, layout.len)?, layout)
        };
        segment.grow()?;
        Ok(segment)
    }

    /// A segment in this process's own memory, for ranks that are threads.
    pub fn private(ranks: u32, cpus: u32) -> io::Result<Segment> {
        let layout = Layout::new(ranks);
        let zones = zone::PRIVATE * ranks as usize;
        let segment = Segment {
            zone: zone::PRIVATE,
            ..Segment::over(Mapping::anonymous(layout.len + zones)?, layout)
        };
        segment.initialise(cpus);
        Ok(segment)
    }

    fn initialise(&self, cpus: u32) {
        let header = self.header();
        let ranks = self.ranks();
        header.ranks.store(ranks, Ordering::Relaxed);
        header.total.store(ranks, Ordering::Relaxed);
        header.cpus.store(cpus, Ordering::Relaxed);
        header.zone.store(self.zone as u64, Ordering::Relaxed);
        let remote = ranks <= cpus && crate::sys::cpu::join_barriers() && crate::sys::cpu::barrier_everywhere();
        header.remote_barriers.store(remote as u32, Ordering::Relaxed);
        self.give_number();
        for predefined in 0..2 {
            self.hold_context(predefined, ranks);
        }
        header.magic.store(MAGIC, Ordering::Release);
    }

    /// The file that all of this lies in.
    ///
    /// # Errors
    /// `Unsupported` where ranks are threads; `NotFound` when the program has closed its descriptor, the number of which may be
    /// some other file's by now.
    fn file(&self) -> io::Result<BorrowedFd<'_>> {
        let Some(file) = &self.file else {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the job's memory is no file",
            ));
        };
        file.get().ok_or_else(|| {
            let number = file.number();
            let text = format!("the program has closed descriptor {number}, which was that of the job's memory");
            io::Error::new(io::ErrorKind::NotFound, text)
        })
    }

    /// Number of ranks that the job began with.
    pub fn ranks(&self) -> u32 {
        self.part.layout.ranks
    }

    /// Where that which the job began with is mapped.
    pub fn addresses(&self) -> Range<usize> {
        let base = self.part.mapping.base() as usize;
        base..base + self.part.mapping.len()
    }

    /// What of it has that which `rank` owns.
    ///
    /// # Panics
    /// When there is no such rank.
    #[inline(always)]
    fn part(&self, rank: u32) -> &Part {
        if rank < self.part.layout.ranks {
            return &self.part;
        }
        self.annex_of(rank)
    }

    /// Has what belongs to `rank` lie on NUMA node `node`, as far as nobody has touched it yet.
    pub fn prefer_node(&self, rank: u32, node: u32) {
        let mine = self.part(rank);
        let base = mine.mapping.base() as usize;
        for (_, part) in mine.layout.partitions(rank) {
            pages::prefer(base + part.start..base + part.end, node);
        }
        if self.file.is_some()
            && let Ok(zone) = self.view(rank, 0, self.zone)
        {
            // The file remembers it when this view is gone.
            let start = zone.base() as usize;
            pages::prefer(start..start + self.zone, node);
        }
    }

    /// Touches every page that messages go through, as a library did that knew no nodes: all of them come to lie
    /// where the caller runs.
    pub fn touch_all(&self) {
        let parts = (0..self.ranks()).flat_map(|rank| self.part.layout.partitions(rank).into_iter().take(4));
        for offset in parts.flat_map(|(_, part)| part.step_by(PAGE)) {
            // SAFETY: an aligned word within the mapping.
            let word = unsafe { self.at::<AtomicU64>(offset).as_ref() };
            // Writes what is there, which adding 0 would not: the compiler makes a load of that.
            let _ = word.compare_exchange(0, 0, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Who pays for the barriers of sleeping and waking.
    pub fn barriers(&self) -> Barriers {
        match self.header().remote_barriers.load(Ordering::Relaxed) {
            0 => Barriers::Local,
            _ => Barriers::Remote,
        }
    }

    /// Whether the segment holds what nobody writes: a rank has run wild over the job's memory. Looks at
    /// the header and the ranks' blocks, and at what is left of their pages.
    pub fn is_damaged(&self) -> bool {
        let header = self.header();
        let abort = header.abort.load(Ordering::Acquire);
        let impossible = |rank| self.rank(rank).life.load(Ordering::Relaxed) > Life::Dead as u32;
        header.magic.load(Ordering::Relaxed) != MAGIC
            || header.ranks.load(Ordering::Relaxed) != self.ranks()
            || (abort != 0 && abort & !0xff != ABORT)
            || !self.is_blank(size_of::<JobHeader>(), PAGE)
            || (0..self.ranks()).any(|rank| {
                let at = self.part.layout.block(rank);
                impossible(rank) || !self.is_blank(at + size_of::<RankBlock>(), at + PAGE)
            })
    }

    /// Whether the words from offset `from` to offset `to` are all 0.
    fn is_blank(&self, from: usize, to: usize) -> bool {
        (from..to).step_by(size_of::<u64>()).all(|offset| {
            // SAFETY: an aligned word within the mapping; nobody makes a reference to it but here.
            let word = unsafe { self.at::<AtomicU64>(offset).as_ref() };
            word.load(Ordering::Relaxed) == 0
        })
    }

    /// Launcher: rank `rank` is gone, and the job goes on without it. Wakes everybody. It is dead before it is counted, so a number
    /// up to a count that was seen is of a rank all of whose words have been seen. Who is dead already stays so.
    pub fn bury(&self, rank: u32) {
        if self.rank(rank).life.swap(Life::Dead as u32, Ordering::AcqRel) == Life::Dead as u32 {
            return;
        }
        // Another launcher may bury another rank at the same time: the count and whose it is change at once.
        let deaths = &self.header().deaths;
        let mut before = deaths.load(Ordering::Acquire);
        let after = loop {
            // The last may have been started since.
            let _ = self.grow();
            let count = self.number_last_death(before).wrapping_add(1);
            let after = u64::from(count) << 32 | u64::from(rank);
            match deaths.compare_exchange(before, after, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break after,
                Err(now) => before = now,
            }
        };
        self.number_last_death(after);
        self.announce();
    }

    /// The count of `deaths`, the last of which gets its number if it has none yet.
    fn number_last_death(&self, deaths: u64) -> u32 {
        let (count, rank) = ((deaths >> 32) as u32, deaths as u32);
        if count != 0 && rank < self.known() {
            self.rank(rank).death.store(count, Ordering::Release);
        }
        count
    }

    /// Ranks that have died; each that is known here has its number.
    pub fn deaths(&self) -> u32 {
        self.number_last_death(self.header().deaths.load(Ordering::Acquire))
    }

    /// The how manyeth rank to die `rank` was, if it has died.
    pub fn death(&self, rank: u32) -> Option<u32> {
        Some(self.rank(rank).death.load(Ordering::Acquire)).filter(|&number| number != 0)
    }

    /// Changes whenever a rank has died or a communicator was revoked. Cost: a load of a line that others
    /// seldom write.
    #[inline]
    pub fn events(&self) -> u32 {
        self.header().events.load(Ordering::Acquire)
    }

    /// Revokes the communicator that has `context`, unless it is revoked. Wakes everybody.
    pub fn revoke(&self, context: u16) {
        if self.fate(context).revoke() {
            self.announce();
        }
    }

    fn announce(&self) {
        self.header().events.fetch_add(1, Ordering::AcqRel);
        (0..self.known()).for_each(|rank| self.wake(rank));
    }

    /// Wakes whoever sleeps in `rank`.
    pub fn wake(&self, rank: u32) {
        let bell = &self.rank(rank).bell;
        bell.shake();
        futex::wake_all(bell.word());
    }

    /// What has become of the communicator that has `context`.
    pub fn fate(&self, context: u16) -> &Fate {
        let index = usize::from(context) % CONTEXTS;
        // SAFETY: the table of CONTEXTS fates, all atomics, lies within the mapping.
        unsafe { self.at::<Fate>(self.part.layout.fates()).add(index).as_ref() }
    }

    /// The vote `number` of `owner` on the communicator that has `context`.
    ///
    /// # Panics
    /// When there is no such rank.
    pub fn vote(&self, owner: u32, context: u16, number: u32) -> &Vote {
        let part = self.part(owner);
        let index = usize::from(context) % CONTEXTS * VOTES + number as usize % VOTES;
        // SAFETY: the table lies within the mapping; a vote is all atomics.
        unsafe { part.at::<Vote>(part.layout.votes(owner)).add(index).as_ref() }
    }

    /// Rank `rank`'s block.
    ///
    /// # Panics
    /// When there is no such rank.
    #[inline(always)]
    pub fn rank(&self, rank: u32) -> &RankBlock {
        let part = self.part(rank);
        // SAFETY: the block lies within the mapping and is all atomics, for which zero is valid.
        unsafe { part.at::<RankBlock>(part.layout.block(rank)).as_ref() }
    }

    /// Whether there is a rank `rank`, and it has died.
    pub fn is_dead(&self, rank: u32) -> bool {
        rank < self.known() && self.life(rank) == Life::Dead
    }

    /// Where rank `rank` stands.
    pub fn life(&self, rank: u32) -> Life {
        match self.rank(rank).life.load(Ordering::Acquire) {
            0 => Life::Absent,
            1 => Life::Attached,
            2 => Life::Finalized,
            _ => Life::Dead,
        }
    }

    /// Claims a free communicator context with `holders` holders; `None` when all are taken. A freed one is not used
    /// again at once, yet programs with few communicators at a time touch few boards. Where many are held, the search
    /// leaves those out that the last one passed.
    pub fn claim_context(&self, holders: u32) -> Option<u16> {
        let start = self.header().next_context.fetch_add(1, Ordering::Relaxed);
        let full_below = &self.header().full_below;
        let passed = full_below.load(Ordering::Relaxed).clamp(REUSED, CONTEXTS as u32);
        (0..REUSED)
            .map(|step| start.wrapping_add(step) % REUSED)
            .chain(passed..CONTEXTS as u32)
            // What another rank has freed meanwhile.
            .chain(REUSED..passed)
            .map(|context| context as u16)
            .find(|&context| self.context(context).claim(holders))
            .inspect(|&context| {
                if u32::from(context) >= REUSED {
                    full_below.store(u32::from(context) + 1, Ordering::Relaxed);
                }
                self.fate(context).begin();
            })
    }

    /// Claims a free context for a persistent operation, with a `wide` room or a narrow one; `None` when all are taken.
    pub fn claim_kept(&self, holders: u32, wide: bool) -> Option<u16> {
        let mut all = if wide { 0..WIDE } else { WIDE..KEPT };
        all.find_map(|index| Some((CONTEXTS + index) as u16).filter(|&context| self.context(context).claim(holders)))
    }

    /// Whether anybody holds `context`.
    pub fn is_held(&self, context: u16) -> bool {
        self.context(context).is_held()
    }

    /// The turns of collective operations that came before in lives of `context`, which the caller holds.
    pub fn turns_before(&self, context: u16) -> u64 {
        self.context(context).turns_before()
    }

    /// Adds `holders` holders to a context that the caller knows to be its own.
    pub fn hold_context(&self, context: u16, holders: u32) {
        self.context(context).hold(holders);
    }

    /// One holder lets go of `context`, after `turns` of collective operations in this life of it; the
    /// last one frees it.
    pub fn release_context(&self, context: u16, turns: u64) {
        if self.context(context).release(turns) && u32::from(context) >= REUSED {
            self.header()
                .full_below
                .fetch_min(u32::from(context), Ordering::Relaxed);
        }
    }

    fn context(&self, context: u16) -> &Context {
        let index = usize::from(context) % ENTRIES;
        // SAFETY: the table of ENTRIES entries, all atomics, lies within the mapping.
        unsafe { self.at::<Context>(self.part.layout.contexts()).add(index).as_ref() }
    }

    fn header(&self) -> &JobHeader {
        // SAFETY: the first page is the header, all atomics.
        unsafe { self.at::<JobHeader>(0).as_ref() }
    }

    fn at<T>(&self, offset: usize) -> NonNull<T> {
        self.part.at(offset)
    }
}

#[cfg(test)]
mod tests;
