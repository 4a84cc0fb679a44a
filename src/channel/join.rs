//! # Safety
//! Makes the ends of this rank's rings and pool, one each.
//!
//! Joining a job: what a rank sends and receives with, to and from those that are there and those that come later.
#![allow(unsafe_code)]

use super::direct::Homes;
use super::late::{Lateness, Level};
use super::metering::Short;
use super::offers::Offers;
use super::outgoing::Out;
use super::pull::Reach;
use super::together::Together;
use super::ways::Ways;
use super::{Bytes, Channel, Counters, parts};
use crate::shm::bell::Barriers;
use crate::shm::pool::{Pool, cells_of};
use crate::shm::profile::Path;
use crate::shm::ring::{Consumer, INLINE, Larger, Producer};
use crate::shm::segment::annex::Outcome;
use crate::shm::segment::{Block, Life, Segment};
use crate::shm::shuttle::Shuttles;
use crate::shm::stores::Stores;
use crate::sys::clock::Ticks;
use crate::sys::copy::Ahead;
use crate::sys::cpu;
use crate::sys::cpuset::CpuSet;
use crate::sys::cvar::Settings;
use crate::sys::process;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl<B: Bytes> Channel<B> {
    /// Joins the job of `segment` as rank `me`; once per rank and job.
    pub fn join(segment: Arc<Segment>, me: u32, mut settings: Settings) -> Channel<B> {
        if segment.oversubscribed() {
            // The reader may run on this very CPU: windows of 512 bytes of four ranks on two took 1.8 times as long.
            settings.demote_max = 0;
            // Who read it before on this CPU has brought it here, and who wrote it elsewhere may not run now: broadcasts, allgathers and
            // alltoalls of 8 ranks took 1.1 to 1.3 times as long.
            settings.fetch_ahead = 0;
        }
        let ranks = segment.known();
        let block = Block::new(&segment, me);
        let short = Short::new(&block);
        let ticks = Ticks::best();
        // SAFETY: this rank joins once.
        let (out, rings) = (0..segment.known())
            .map(|peer| unsafe { ends(&segment, me, peer, &settings, (&short, ticks)) })
            .unzip();
        let cells = match settings.cells {
            0 => cells_of(ranks),
            cells => cells as usize,
        };
        // SAFETY: as above.
        let pool = unsafe { Pool::new(segment.pool(me), cells) };
        let quarter = segment.layout().bytes / 4;
        let ring_max = (settings.ring_max as usize).min(quarter);
        let part = settings.ring_part as usize;
        let in_parts = quarter >= part.min(parts::PART_LEAST) && ring_max > 0 && !segment.oversubscribed();
        let part = if in_parts { part.min(quarter) } else { 0 };
        let row_max = ring_max.min(settings.one_copy_min.min(settings.offer_min) as usize - 1);
        let shuttle_min = match part > 0 && segment.layout().shuttle > 0 && settings.shuttle_max > 0 {
            true => settings.shuttle_min as usize,
            false => usize::MAX,
        };
        let aside_min = shuttle_min.clamp(INLINE + 1, row_max.max(INLINE) + 1) as u32;
        let barriers = segment.barriers();
        let spreads = settings.spread != 0 && segment.oversubscribed();
        let mut channel = Channel {
            block,
            me,
            barriers,
            ring_max,
            ask_max: ring_max.min(settings.ask_max as usize),
            aside_min,
            fetch_max: settings.fetch_max as u32,
            ahead: Ahead(settings.fetch_ahead as usize),
            row_max,
            part,
            stage: Vec::new(),
            out,
            rings,
            pool,
            waiting: Vec::new(),
            offers: Offers::new(),
            ways: (0..ranks).map(|to| Ways::between(me, to)).collect(),
            far: vec![None; ranks as usize],
            places: Default::default(),
            habits: Default::default(),
            pace: None,
            lateness: vec![Lateness::default(); ranks as usize],
            levels: vec![Level::default(); ranks as usize],
            reach: vec![Reach::Unknown; ranks as usize],
            homes: Homes::new(ranks, segment.home_len()),
            canary: Box::new(super::pull::random()),
            joints: Vec::new(),
            together: Together::new(),
            sent: VecDeque::new(),
            next: 0,
            gone: segment.ranks(),
            heard: None,
            heard_before: None,
            meter: None,
            short,
            path: Path::OneCopy,
            spreads,
            shared: false,
            checked: process::is_checked(),
            may: if spreads { cpu::mask(0) } else { CpuSet::default() },
            given: 0,
            mate: None,
            counters: Counters::default(),
            settings: Box::new(settings),
            segment,
        };
        channel.leave_out();
        channel.seen();
        if !cpu::join_barriers() {
            channel.barriers = Barriers::Local;
        }
        let block = channel.segment.rank(me);
        block.pid.store(std::process::id(), Ordering::Relaxed);
        block.canary.store(*channel.canary, Ordering::Relaxed);
        block
            .canary_address
            .store(&raw const *channel.canary as u64, Ordering::Relaxed);
        block.life.store(Life::Attached as u32, Ordering::Release);
        channel
    }

    /// Meets the ranks that were started since: the segment knows them.
    pub fn grow(&mut self) {
        let (me, segment) = (self.me, self.segment.clone());
        let (ranks, ticks) = (segment.known(), Ticks::best());
        for peer in self.out.len() as u32..ranks {
            // SAFETY: those of this peer have not been made before; the channel keeps the segment.
            let (out, ring) = unsafe { ends(&segment, me, peer, &self.settings, (&self.short, ticks)) };
            self.out.push(out);
            self.rings.push(ring);
            self.ways.push(Ways::between(me, peer));
        }
        let all = ranks as usize;
        self.far.resize(all, None);
        self.lateness.resize(all, Lateness::default());
        self.levels.resize(all, Level::default());
        self.reach.resize(all, Reach::Unknown);
        self.homes.grow(ranks);
        self.leave_out();
    }

    /// Leaves those who came later and are gone out of what is looked at for messages.
    fn leave_out(&mut self) {
        let (me, segment) = (self.me, self.segment.clone());
        while let Some(birth) = segment.birth(self.gone)
            && segment.outcome(birth.first) != Outcome::Open
            && (birth.first..birth.first + birth.count).all(|rank| rank != me && !self.has_next(rank))
        {
            self.gone += birth.count;
        }
        self.next = 0;
    }
}

/// What rank `me` sends to `peer` with, and receives from there with.
///
/// # Safety
/// Called once for each of them; `segment` is kept for as long as either is used.
unsafe fn ends<B>(
    segment: &Arc<Segment>,
    me: u32,
    peer: u32,
    settings: &Settings,
    (short, ticks): (&Short, Ticks),
) -> (Out<B>, Consumer) {
    let grow = settings.ring_grow * u64::from(!segment.oversubscribed());
    let fraction = settings.credit_fraction as u32;
    let room = segment.larger_ring(peer, me);
    let larger = room.map(|room| Larger {
        byte_count: room.byte_count.min(1 << settings.ring_large.max(1).ilog2()),
        ..room
    });
    // SAFETY: the caller's promise: these are the only ends of this rank's; of two ranks the lower one begins with the first
    // shuttle.
    let (producer, shuttles, ring) = unsafe {
        (
            Producer::new(segment.ring(peer, me)).growing(larger, grow),
            Shuttles::new(segment.shuttles(me, peer), (me > peer).into()),
            Consumer::new(segment.ring(me, peer), fraction).growing(segment.larger_ring(me, peer)),
        )
    };
    let out = Out {
        producer,
        peer: Block::new(segment, peer),
        few: short.few.clone(),
        shuttles,
        stores: Stores::new(settings.stream_min, ticks),
        large: 0,
        closed: false,
        controls: VecDeque::new(),
        messages: VecDeque::new(),
    };
    (out, ring)
}

#[cfg(test)]
mod tests {
    use super::super::joint::tests::Plain;
    use super::super::{Arrival, outgoing::Sent};
    use super::*;
    use crate::shm::segment;
    use std::os::fd::AsFd;

    /// What `receiver` gets from `from`: one message of this length.
    fn gets(receiver: &mut Channel<Plain>, from: u32) -> usize {
        let Some(Arrival::Message { from: sender, len, .. }) = receiver.poll(None).unwrap() else {
            panic!("nothing has come from rank {from}");
        };
        receiver.consume(sender);
        assert_eq!(sender, from);
        len
    }

    #[test]
    fn ranks_that_share_cpus_neither_hand_lines_over_nor_fetch_them_ahead() {
        for (cpus, expected) in [(2, (512, 4096)), (1, (0, 0))] {
            let file = segment::create(2, cpus).unwrap();
            let segment = Arc::new(Segment::attach(file.as_fd()).unwrap());
            let channel = Channel::<Plain>::join(segment, 0, Settings::read(|_| None).unwrap());
            assert_eq!((channel.settings.demote_max, channel.ahead.0), expected);
        }
    }

    #[test]
    fn who_comes_later_is_met_and_looked_at_until_it_is_gone_and_nothing_of_it_is_left() {
        let file = segment::create(1, 4).unwrap();
        let join = |rank| {
            let segment = Arc::new(Segment::attach(file.as_fd()).unwrap());
            Channel::<Plain>::join(segment, rank, Settings::read(|_| None).unwrap())
        };
        let mut bytes = [7u8; 300];
        let message = Plain(bytes.as_mut_ptr(), bytes.len());
        let mut old = join(0);
        let count = |channel: &Channel<Plain>| (channel.out.len(), channel.rings.len(), channel.gone);
        for first in [1, 3] {
            old.segment.extend(2, Some(0), 2, 3).unwrap();
            old.grow();
            let mut new = [first, first + 1].map(join);
            for (index, new) in new.iter_mut().enumerate() {
                let rank = first + index as u32;
                assert_eq!(new.send(0, 5, &message, 0), Ok(Sent::Done));
                assert_eq!(gets(&mut old, rank), 300);
                assert_eq!(old.send(rank, 5, &message, 0), Ok(Sent::Done));
                assert_eq!(gets(new, 0), 300);
            }
            assert_eq!(new[1].send(0, 5, &message, 0), Ok(Sent::Done));
            old.segment.conclude(first, Outcome::Over);
            old.grow();
            assert_eq!(
                count(&old),
                (first as usize + 2, first as usize + 2, first),
                "something is left to read"
            );
            assert_eq!(gets(&mut old, first + 1), 300);
            old.grow();
            assert_eq!(count(&old).2, first + 2);
            assert!(old.poll(None).unwrap().is_none());
        }
        assert_eq!(count(&join(4)).2, 3, "a rank never leaves itself out");
    }
}
