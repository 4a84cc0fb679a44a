//! # Safety
//! As [`super`]: the header is all atomics, in a page of its own at the beginning of what is mapped.
//!
//! Annexes: what the segment's file is made longer by for ranks that are started later, by ranks (MPI_Comm_spawn) or by
//! themselves (mpirun -join).
//!
//! ```text
//! job's header -> first annex -> second annex -> 0        offsets in the file; ranks go on from one to the next
//! ```
//! Who starts ranks makes the annex and links it, while it has the file's lock; from then on nothing of that changes.
//! Everybody maps it when `total` in the job's header has changed, or a rank of it is named.
#![allow(unsafe_code)]

use super::{Life, Part, Segment};
use crate::shm::layout::{Layout, MAX_RANKS, PAGE};
use crate::shm::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::memory::{self, Mapping};
use crate::sys::process;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
mod family;

/// "annex" and the version of its format.
const MAGIC: u64 = u64::from_le_bytes(*b"annex\0\0\x02");

/// In place of the rank that started the others: none did.
const NOBODY: u32 = u32::MAX;

/// The process that starts some ranks and watches over them.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct Launcher {
    /// In which namespace it counts.
    space: AtomicU64,
    pid: AtomicU32,
}

impl Launcher {
    /// Its number, if it has said it.
    fn pid(&self) -> Option<i32> {
        Some(self.pid.load(Ordering::Acquire) as i32).filter(|&pid| pid > 1)
    }
}

/// The first page of an annex.
#[repr(C, align(64))]
#[derive(Debug)]
struct Header {
    magic: AtomicU64,
    first: AtomicU32,
    count: AtomicU32,
    /// Where the next annex begins; 0: nowhere.
    next: AtomicU64,
    starter: AtomicU32,
    bridge: AtomicU32,
    world: AtomicU32,
    launcher: Launcher,
    outcome: AtomicU32,
    /// Sides, as bits.
    left: AtomicU32,
    /// Other processes that share communicators with some of these ranks.
    links: AtomicU32,
    /// As in the job's header, for the family that begins here.
    abort: AtomicU32,
    met: AtomicU32,
}

/// An annex that this process has mapped.
#[derive(Debug)]
pub(super) struct Annex {
    part: Part,
}

/// What ranks that are started later are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth {
    /// The first of them.
    pub first: u32,
    /// How many they are.
    pub count: u32,
    /// The rank that started them; none where they came by themselves.
    pub starter: Option<u32>,
    /// Context of the first messages between `starter` and `first`.
    pub bridge: u16,
    /// Context of their `MPI_COMM_WORLD`.
    pub world: u16,
}

/// How their launcher fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It has not failed so far.
    Open,
    /// They did not start, or ended before they were in MPI.
    Failed,
    /// They are gone, and so is the launcher.
    Over,
}

/// Who has left whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Side {
    /// Those who were started have left their starters.
    Started = 1,
    /// The starters have left those whom they started.
    Starters = 2,
}

impl Annex {
    fn header(&self) -> &Header {
        // SAFETY: the first page is the header, all atomics.
        unsafe { self.part.at::<Header>(0).as_ref() }
    }

    /// Maps the annex at `start`, which must go on behind rank `first` - 1.
    fn map(segment: &Segment, start: u64, first: u32) -> io::Result<Annex> {
        let wrong = |what| io::Error::new(io::ErrorKind::InvalidData, format!("no annex of the job: {what}"));
        let file = segment.file()?;
        let len = memory::len(file)?;
        let start = usize::try_from(start).map_err(|_| wrong("place"))?;
        let room = len.checked_sub(start).filter(|_| start.is_multiple_of(PAGE));
        let room = room.filter(|&room| room >= PAGE).ok_or_else(|| wrong("place"))?;
        let part = |len, layout| {
            let mapping = Mapping::part(file, start, len)?;
            Ok::<_, io::Error>(Annex {
                part: Part { mapping, layout, start },
            })
        };
        let page = part(PAGE, *segment.layout())?;
        let header = page.header();
        let (began, count) = (
            header.first.load(Ordering::Acquire),
            header.count.load(Ordering::Relaxed),
        );
        let starter = header.starter.load(Ordering::Relaxed);
        let is_whole = header.magic.load(Ordering::Acquire) == MAGIC && (starter < first || starter == NOBODY);
        if !is_whole || began != first || !fits(first, count) {
            return Err(wrong("header"));
        }
        let layout = segment.layout().annex(first, first + count);
        if room < layout.len + count as usize * segment.zone {
            return Err(wrong("length"));
        }
        part(layout.len, layout)
    }
}

fn fits(first: u32, count: u32) -> bool {
    count > 0 && first.checked_add(count).is_some_and(|end| end <= MAX_RANKS)
}

impl Segment {
    /// Ranks that this process knows of: those that the job began with and those of mapped annexes.
    #[inline]
    pub fn known(&self) -> u32 {
        self.known.load(Ordering::Relaxed)
    }

    /// Ranks that were started later than the job, gone ones too.
    pub fn later(&self) -> u32 {
        self.header().total.load(Ordering::Acquire).saturating_sub(self.ranks())
    }

    /// Whether there are more, that [`Segment::grow`] has not found too many. Cost: a load of a line that is seldom written.
    #[inline]
    pub fn has_grown(&self) -> bool {
        let total = self.header().total.load(Ordering::Acquire);
        total != self.known() && total != self.missed.load(Ordering::Relaxed)
    }

    /// Maps all annexes.
    ///
    /// # Errors
    /// What the kernel says; `InvalidData` when something is no annex.
    pub fn grow(&self) -> io::Result<()> {
        let total = self.header().total.load(Ordering::Acquire);
        let mapped = self.map_annexes();
        if mapped
            .as_ref()
            .is_err_and(|error| error.kind() != io::ErrorKind::InvalidData)
        {
            self.missed.store(total, Ordering::Relaxed);
        }
        mapped
    }

    fn map_annexes(&self) -> io::Result<()> {
        let mut first = self.known();
        loop {
            let last = self.annexes.len();
            let link = self.last_link();
            let start = link.load(Ordering::Acquire);
            if start == 0 {
                break;
            }
            let annex = self.annexes.append(last, Annex::map(self, start, first)?);
            first = annex.part.layout.ranks;
            self.known.fetch_max(first, Ordering::Relaxed);
        }
        match self.header().total.load(Ordering::Acquire) > first {
            true => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the job is said to have more than {first} ranks, and has no memory for them"),
            )),
            false => Ok(()),
        }
    }

    #[cold]
    pub(super) fn annex_of(&self, rank: u32) -> &Part {
        match self.annex(rank) {
            Some(annex) => &annex.part,
            None => panic!("the job has no rank {rank}"),
        }
    }

    /// The annex that has `rank`, if one has.
    fn annex(&self, rank: u32) -> Option<&Annex> {
        let annex = self.annexes.first(|annex| rank < annex.part.layout.ranks);
        annex.filter(|annex| rank >= annex.part.layout.first)
    }

    /// Makes room for `count` more ranks, which rank `starter` will have started, or nobody of the job; `bridge` and `world` are
    /// contexts for them.
    ///
    /// # Errors
    /// What the kernel says; `OutOfMemory` when the job has had as many ranks as it can; `Unsupported` where ranks are threads.
    pub fn extend(&self, count: u32, starter: Option<u32>, bridge: u16, world: u16) -> io::Result<Birth> {
        let file = self.file()?;
        // A description of its own, or the lock would be shared with all who inherited this one. Closing it lets go.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let locked = File::options().read(true).write(true).open(path)?;
        locked.lock()?;
        self.grow()?;
        let first = self.known();
        if !fits(first, count) {
            let text = format!(
                "{count} more ranks: a job that has had {first} can have {}",
                MAX_RANKS - first
            );
            return Err(io::Error::new(io::ErrorKind::OutOfMemory, text));
        }
        let layout = self.layout().annex(first, first + count);
        let start = memory::len(file)?.next_multiple_of(PAGE);
        let len = layout.len + count as usize * self.zone;
        memory::extend(file, start.saturating_add(len))?;
        // Before anybody knows of it: where this process has no room for it there is nothing to tell.
        let mapping = Mapping::part(file, start, layout.len)?;
        let annex = Annex {
            part: Part { mapping, layout, start },
        };
        let (header, last) = (annex.header(), self.annexes.len());
        header.first.store(first, Ordering::Relaxed);
        header.count.store(count, Ordering::Relaxed);
        header.starter.store(starter.unwrap_or(NOBODY), Ordering::Relaxed);
        if starter.is_none() {
            let both = Side::Started as u32 | Side::Starters as u32;
            header.left.store(both, Ordering::Relaxed);
        }
        header.bridge.store(bridge.into(), Ordering::Relaxed);
        header.world.store(world.into(), Ordering::Relaxed);
        header.magic.store(MAGIC, Ordering::Release);
        self.last_link().store(start as u64, Ordering::Release);
        self.header().beside.fetch_add(count, Ordering::Relaxed);
        self.header().total.store(first + count, Ordering::Release);
        self.annexes.append(last, annex);
        self.known.fetch_max(first + count, Ordering::Relaxed);
        Ok(Birth {
            first,
            count,
            starter,
            bridge,
            world,
        })
    }

    /// How `rank` came to life, if it was started later.
    pub fn birth(&self, rank: u32) -> Option<Birth> {
        let annex = self.annex(rank)?;
        let header = annex.header();
        let Layout { first, ranks, .. } = annex.part.layout;
        let context = |word: &AtomicU32| word.load(Ordering::Relaxed) as u16;
        let starter = Some(header.starter.load(Ordering::Relaxed)).filter(|&rank| rank != NOBODY);
        Some(Birth {
            first,
            count: ranks - first,
            starter: starter.map(|rank| rank.min(first - 1)),
            bridge: context(&header.bridge),
            world: context(&header.world),
        })
    }

    /// Launcher: it is process `pid` that starts the ranks from `first` on, and watches over them.
    pub fn launch(&self, first: u32, pid: i32) {
        let launcher = match self.annex(first) {
            Some(annex) => &annex.header().launcher,
            None => &self.header().launcher,
        };
        let space = process::namespace().unwrap_or(0);
        launcher.space.store(space, Ordering::Relaxed);
        launcher.pid.store(pid as u32, Ordering::Release);
    }

    /// The first ranks of all launchers that are not through with theirs, with the launchers' numbers as this process counts.
    pub fn launchers(&self) -> Vec<(u32, i32)> {
        let annexes = self
            .annexes
            .iter()
            .map(|annex| (annex.part.layout.first, &annex.header().launcher));
        let all = [(0, &self.header().launcher)].into_iter().chain(annexes);
        let open = all.filter(|(first, _)| *first == 0 || self.outcome(*first) == Outcome::Open);
        let space = process::namespace();
        let known = open.filter(|(_, launcher)| space == Some(launcher.space.load(Ordering::Relaxed)));
        known
            .filter_map(|(first, launcher)| Some((first, launcher.pid()?)))
            .collect()
    }

    /// Launcher: the ranks from `first` on, whose launcher is dead, are gone. Buries those that have not left MPI.
    pub fn desert(&self, first: u32) {
        let count = self.birth(first).map_or(self.ranks(), |birth| birth.count);
        let ranks = first..first + count;
        ranks
            .filter(|&rank| self.life(rank) == Life::Attached)
            .for_each(|rank| self.bury(rank));
        self.conclude(first, Outcome::Failed);
    }

    /// Launcher: how it ended for the ranks from `first` on, which is said once. Wakes who started them.
    pub fn conclude(&self, first: u32, outcome: Outcome) {
        let Some(annex) = self.annex(first) else { return };
        let (header, Layout { first, ranks, .. }) = (annex.header(), annex.part.layout);
        let open = Outcome::Open as u32;
        let told = header
            .outcome
            .compare_exchange(open, outcome as u32, Ordering::SeqCst, Ordering::Relaxed);
        if told.is_ok() {
            self.header().beside.fetch_sub(ranks - first, Ordering::Relaxed);
        }
        let starter = header.starter.load(Ordering::Relaxed);
        if starter < self.known() {
            self.wake(starter);
        }
    }

    /// How it stands with the ranks from `first` on.
    pub fn outcome(&self, first: u32) -> Outcome {
        match self
            .annex(first)
            .map(|annex| annex.header().outcome.load(Ordering::Acquire))
        {
            Some(0) => Outcome::Open,
            Some(1) => Outcome::Failed,
            _ => Outcome::Over,
        }
    }

    /// The process that watches over the ranks from `first` on, unless it is through with that, or not known yet.
    pub fn launcher(&self, first: u32) -> Option<i32> {
        let pid = self.annex(first)?.header().launcher.pid()?;
        (self.outcome(first) == Outcome::Open).then_some(pid)
    }

    /// The first of the ranks that process `pid` watches over, if it is such a launcher.
    pub fn ranks_of(&self, pid: i32) -> Option<u32> {
        let mut firsts = self.annexes.iter().map(|annex| annex.part.layout.first);
        firsts.find(|&first| self.launcher(first) == Some(pid))
    }

    /// A side has left the other (MPI_Comm_disconnect): those who were started, of whom `rank` is one, or those who started them.
    /// What becomes of the ones is no matter of the others any more.
    pub fn leave(&self, rank: u32, side: Side) {
        if let Some(annex) = self.annex(rank) {
            annex.header().left.fetch_or(side as u32, Ordering::AcqRel);
        }
    }

    /// Whether one of the two has left.
    pub fn is_apart(&self, rank: u32) -> bool {
        self.left(rank) & (Side::Started as u32 | Side::Starters as u32) != 0
    }

    fn left(&self, rank: u32) -> u32 {
        self.annex(rank)
            .map_or(0, |annex| annex.header().left.load(Ordering::Acquire))
    }

    /// One more process shares communicators with ranks of those from `first` on, of whom it is none itself: it reads their memory.
    pub fn link(&self, first: u32) {
        if let Some(annex) = self.annex(first) {
            annex.header().links.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// One such process less. The last one gives the memory back, if the launcher could not.
    pub fn unlink(&self, first: u32) {
        if let Some(annex) = self.annex(first)
            && annex.header().links.fetch_sub(1, Ordering::SeqCst) == 1
        {
            // A kernel that refuses leaves it until the job ends.
            let _ = self.give_back(first);
        }
    }

    /// Gives the memory of the ranks from `first` on back, but for their blocks, which say what became of them, if they are gone, all
    /// of them in order, and nobody reads it any more.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn give_back(&self, first: u32) -> io::Result<()> {
        let Some(annex) = self.annex(first).filter(|_| self.file.is_some()) else {
            return Ok(());
        };
        let (header, part) = (annex.header(), &annex.part);
        let is_over = header.outcome.load(Ordering::SeqCst) == Outcome::Over as u32;
        let is_read = header.links.load(Ordering::SeqCst) != 0;
        // What stands there about the dead is read later.
        let ranks = part.layout.first..part.layout.ranks;
        if !is_over || is_read || ranks.clone().any(|rank| self.life(rank) == Life::Dead) {
            return Ok(());
        }
        let kept = part.layout.block(part.layout.ranks);
        let len = part.layout.len - kept + ranks.len() * self.zone;
        memory::discard(self.file()?, part.start + kept, len)
    }

    /// Where the place of the annex behind the last one stands.
    fn last_link(&self) -> &AtomicU64 {
        match self
            .annexes
            .len()
            .checked_sub(1)
            .and_then(|last| self.annexes.get(last))
        {
            Some(annex) => &annex.header().next,
            None => &self.header().annex,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use crate::shm::fate::Stamp;

    pub fn job(ranks: u32) -> (Segment, Segment) {
        let fd = create(ranks, 2).unwrap();
        (
            Segment::attach(fd.as_fd()).unwrap(),
            Segment::attach(fd.as_fd()).unwrap(),
        )
    }

    #[test]
    fn one_extends_what_others_and_late_comers_see() {
        let fd = create(2, 2).unwrap();
        let [one, other] = [(), ()].map(|()| Segment::attach(fd.as_fd()).unwrap());
        let born = one.extend(3, Some(1), 9, 10).unwrap();
        assert_eq!((born.first, born.count, one.known(), other.known()), (2, 3, 5, 2));
        assert!(other.has_grown() && !one.has_grown() && one.lacks_cpus());
        let again = other.extend(1, Some(0), 11, 12).unwrap();
        assert_eq!((again.first, other.known()), (5, 6));
        assert!(one.has_grown());
        one.grow().unwrap();
        let late = Segment::attach(fd.as_fd()).unwrap();
        assert_eq!((late.known(), late.ranks(), late.zone_len()), (6, 2, one.zone_len()));
        for rank in 2..5 {
            assert_eq!(late.birth(rank), Some(born));
        }
        assert_eq!((late.birth(5), late.birth(1)), (Some(again), None));
        one.rank(5).life.store(Life::Attached as u32, Ordering::Release);
        assert_eq!((late.life(5), late.life(4)), (Life::Attached, Life::Absent));
        one.view(4, PAGE, PAGE).unwrap();
        assert!(one.view(6, 0, PAGE).is_err());
        assert!(!one.is_damaged() && !other.is_damaged());
    }

    #[test]
    fn what_becomes_of_them_is_told() {
        let (one, other) = job(1);
        let first = one.extend(2, Some(0), 2, 3).unwrap().first;
        other.grow().unwrap();
        assert_eq!((one.outcome(first), one.launcher(first)), (Outcome::Open, None));
        other.launch(first, 77);
        assert_eq!(one.launcher(first), Some(77));
        assert_eq!([77, 78].map(|pid| one.ranks_of(pid)), [Some(first), None]);
        assert!(!one.is_apart(first + 1));
        other.leave(first + 1, Side::Started);
        assert!(one.is_apart(first) && !one.is_apart(0));
        assert!(one.lacks_cpus());
        other.conclude(first, Outcome::Failed);
        other.conclude(first, Outcome::Over);
        assert_eq!(
            (one.outcome(first), one.launcher(first), one.ranks_of(77)),
            (Outcome::Failed, None, None)
        );
        assert!(!one.lacks_cpus(), "they are counted out once");
    }

    #[test]
    fn memory_is_given_back_when_they_are_gone_and_nobody_reads_it() {
        let (one, other) = job(1);
        let vote = |first: u32| one.vote(first + 1, 3, 0).read(Stamp::new(1, 0));
        let born = |starter| {
            let first = one.extend(2, starter, 2, 3).unwrap().first;
            other.grow().unwrap();
            one.vote(first + 1, 3, 0).cast(Stamp::new(1, 0), 9, 0);
            one.rank(first + 1)
                .life
                .store(Life::Finalized as u32, Ordering::Relaxed);
            first
        };
        let early = born(Some(0));
        one.link(early);
        one.unlink(early);
        other.give_back(early).unwrap();
        assert_eq!(vote(early), Some((9, 0)), "they run");
        other.conclude(early, Outcome::Over);
        other.give_back(early).unwrap();
        assert_eq!((vote(early), one.birth(early).unwrap().count), (None, 2));
        assert_eq!(one.life(early + 1), Life::Finalized);

        let late = born(None);
        (0..2).for_each(|_| one.link(late));
        other.conclude(late, Outcome::Over);
        other.give_back(late).unwrap();
        one.unlink(late);
        assert_eq!(vote(late), Some((9, 0)), "one still reads");
        one.unlink(late);
        assert_eq!(vote(late), None);

        let dead = born(None);
        one.bury(dead + 1);
        other.conclude(dead, Outcome::Over);
        other.give_back(dead).unwrap();
        assert_eq!((one.life(dead + 1), vote(dead)), (Life::Dead, Some((9, 0))));
    }

    #[test]
    fn junk_is_no_annex() {
        let (one, other) = job(1);
        one.header().total.store(4, Ordering::Release);
        assert_eq!(other.grow().unwrap_err().kind(), io::ErrorKind::InvalidData);
        for at in [1u64 << 62, 17, 0x1000] {
            one.header().annex.store(at, Ordering::Release);
            assert!(other.grow().is_err(), "{at}");
        }
    }

    #[test]
    fn a_job_has_so_many_ranks_and_no_more() {
        let (one, _) = job(4);
        assert!(one.extend(0, Some(0), 2, 3).is_err() && one.extend(u32::MAX, Some(0), 2, 3).is_err());
        assert_eq!(
            one.extend(MAX_RANKS - 3, Some(0), 2, 3).unwrap_err().kind(),
            io::ErrorKind::OutOfMemory
        );
        assert!(Segment::private(1, 1).unwrap().extend(1, Some(0), 2, 3).is_err());
    }

    #[test]
    fn several_processes_extend_it_one_after_the_other() {
        let fd = create(1, 1).unwrap();
        let segments: Vec<Segment> = (0..4).map(|_| Segment::attach(fd.as_fd()).unwrap()).collect();
        std::thread::scope(|scope| {
            for segment in &segments {
                scope.spawn(|| (0..5).for_each(|_| assert_eq!(segment.extend(2, Some(0), 2, 3).unwrap().count, 2)));
            }
        });
        segments[0].grow().unwrap();
        assert_eq!(segments[0].known(), 1 + 4 * 5 * 2);
        let firsts: Vec<u32> = (1..41).map(|rank| segments[0].birth(rank).unwrap().first).collect();
        assert!((0..40).all(|index| firsts[index] == 1 + index as u32 / 2 * 2));
    }
}
