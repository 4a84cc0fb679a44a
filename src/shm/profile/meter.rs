//! The writer of a block.
//!
//! Two readings of the clock for each call would cost more than a short call itself. So a function
//! whose calls are short is timed now and then only, at random, and each such sample stands for the
//! calls since the one before; whatever waits, or moves much, says so ([`Meter::begin_wait`],
//! [`Meter::dwell`]) and is timed for itself. Sums of both kinds are kept apart, so that
//! `ticks + sampled / samples * (count - timed)` is the expected total.

use super::{
    Amount, Block, CALLS, Call, EVENTS, Kind, LONGEST, Outermost, Path, Peer, Stage, VALUES, What, bump, class,
};
use crate::sys::clock::{Ticks, nanoseconds};
use crate::sys::cpu;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Calls of a function that are timed one by one before samples will do.
const FIRST: u64 = 64;
/// Ticks below which a call is short: 1 to 5 us.
const SHORT: u64 = 5000;
/// Ticks from which a call stands for no other: it was interrupted, most likely. 8 to 40 us.
const LONG: u64 = 8 * SHORT;
/// Calls that one sample stands for, at most (a power of two); half of it on average.
const STRIDE: u64 = 512;
/// In [`Call::next`]: the call stands for those before it.
const RUN: u64 = 1 << 63;
/// Ticks after which the clocks are compared again: 50 to 300 ms.
const LATER: u64 = 1 << 28;

/// In `Meter::stamp`: no call is under way. Up to [`CALLS`], function n - 1 is, and is not timed; beyond, one is
/// since so many ticks.
const OUTSIDE: u64 = 0;
/// In a stamp of ticks: this call counts for itself alone.
const ALONE: u64 = 1;

/// Counts for one rank.
#[repr(align(64))]
pub struct Meter {
    /// What is under way: see [`OUTSIDE`].
    stamp: AtomicU64,
    /// Number of the function under way, if it is timed.
    call: AtomicU32,
    /// This thread's outermost call, where several call at the same time.
    outermost: fn() -> Option<Outermost>,
    ticks: Ticks,
    block: Block,
    random: AtomicU64,
    /// The shortest of the longest waits, in ticks.
    bar: AtomicU64,
    compared: AtomicU64,
}

impl Meter {
    /// Counts into `block`, which has begun with the same clock. `outermost`: the outermost call of the thread that
    /// asks, where several call at the same time and say so by [`Meter::called`].
    pub fn new(block: Block, ticks: Ticks, outermost: fn() -> Option<Outermost>) -> Meter {
        Meter {
            stamp: AtomicU64::new(OUTSIDE),
            call: AtomicU32::new(u32::MAX),
            outermost,
            ticks,
            block,
            random: AtomicU64::new(0x9e37_79b9_7f4a_7c15),
            bar: AtomicU64::new(0),
            compared: AtomicU64::new(0),
        }
    }

    /// Where it counts.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// Where what concerns `rank` is counted; nowhere, for one that was started later.
    #[inline]
    fn peer(&self, rank: u32) -> Option<&Peer> {
        (rank < self.block.ranks()).then(|| self.block.peer(rank))
    }

    /// The time, in ticks.
    #[inline]
    pub fn now(&self) -> u64 {
        self.ticks.now()
    }

    #[inline]
    fn call(&self, call: usize) -> &Call {
        &self.block.fixed().calls[call]
    }

    /// A call of function `call` begins; whether it is the outermost. If so, [`Meter::leave`] ends it.
    /// Cost: a dozen instructions without a system call or locked access; 10 ns more when it is timed.
    #[inline]
    pub fn enter(&self, call: usize) -> bool {
        let counts = self.call(call);
        bump(&counts.ahead, 1);
        let number = counts.count();
        if self.stamp.load(Ordering::Relaxed) != OUTSIDE {
            return false;
        }
        self.stamp.store(call as u64 + 1, Ordering::Relaxed);
        if counts.next.load(Ordering::Relaxed) & !RUN <= number {
            self.time(call);
        }
        true
    }

    /// Whether the next call of function `call` shall be timed. If not, [`Call::left`] now counts the short calls until
    /// one shall.
    pub fn arm(&self, call: usize) -> bool {
        let counts = self.call(call);
        let count = counts.count();
        let before = (counts.next.load(Ordering::Relaxed) & !RUN).saturating_sub(count.wrapping_add(1));
        if before != counts.left.left() {
            counts.left.set(before);
            counts.ahead.store(count.wrapping_add(before), Ordering::Relaxed);
        }
        before == 0
    }

    /// Begins to time the call.
    #[cold]
    fn time(&self, call: usize) {
        let stands_for_others = self.call(call).next.load(Ordering::Relaxed) & RUN != 0;
        let alone = if stands_for_others { 0 } else { ALONE };
        self.call.store(call as u32, Ordering::Relaxed);
        self.stamp.store(self.now() & !ALONE | alone, Ordering::Relaxed);
    }

    /// The outermost call ends.
    #[inline]
    pub fn leave(&self, call: usize) {
        let stamp = self.stamp.load(Ordering::Relaxed);
        if stamp != call as u64 + 1 {
            self.record(call, stamp);
        }
        self.stamp.store(OUTSIDE, Ordering::Relaxed);
    }

    #[cold]
    fn record(&self, call: usize, stamp: u64) {
        let now = self.now();
        let spent = now.saturating_sub(stamp & !ALONE);
        let counts = self.call(call);
        if stamp & ALONE != 0 || spent >= LONG {
            bump(&counts.timed, 1);
            bump(&counts.ticks, spent);
        } else {
            bump(&counts.samples, 1);
            bump(&counts.sampled, spent);
        }
        raise(&counts.longest, spent);
        let number = counts.count();
        // In the middle of a run it was timed because it dwelt.
        if counts.next.load(Ordering::Relaxed) & !RUN <= number {
            let next = match number >= FIRST && spent < SHORT {
                true => RUN | (number + 2 + self.random() % (STRIDE - 1)),
                false => 0,
            };
            counts.next.store(next, Ordering::Relaxed);
        }
        self.compare(now);
        self.prolong(now);
    }

    /// What comes after the end belongs to the run as long as calls last.
    pub(super) fn prolong(&self, now: u64) {
        let ended = &self.block.head().ended;
        if ended.load(Ordering::Relaxed) != 0 {
            ended.store(now, Ordering::Relaxed);
        }
    }

    /// The function under way that is not timed.
    #[inline]
    fn untimed(stamp: u64) -> Option<u32> {
        (1..=CALLS as u64).contains(&stamp).then(|| stamp as u32 - 1)
    }

    /// The call under way takes its time: it is timed for itself.
    #[inline]
    pub fn dwell(&self) {
        let stamp = self.stamp.load(Ordering::Relaxed);
        if let Some(call) = Self::untimed(stamp) {
            self.call.store(call, Ordering::Relaxed);
            self.stamp.store(self.now() | ALONE, Ordering::Relaxed);
        } else if stamp != OUTSIDE {
            self.stamp.store(stamp | ALONE, Ordering::Relaxed);
        }
    }

    /// A wait begins, for rank `peer` if that is known; when, in ticks.
    pub fn begin_wait(&self, peer: Option<u32>) -> u64 {
        self.dwell();
        let now = self.now();
        let head = self.block.head();
        let place = |number: u32| number.wrapping_add(1);
        let (call, since) = self.under_way();
        head.inside.store(place(call), Ordering::Relaxed);
        head.awaited.store(peer.map_or(0, place), Ordering::Relaxed);
        head.since.store(since, Ordering::Relaxed);
        head.waiting.store(now, Ordering::Relaxed);
        now
    }

    /// The wait that began at `began` is over; rank `peer` ended it, if that is known.
    pub fn end_wait(&self, began: u64, peer: Option<u32>) {
        let now = self.now();
        let ticks = now.saturating_sub(began);
        self.block.head().waiting.store(0, Ordering::Relaxed);
        let (call, _) = self.under_way();
        self.waited(call, ticks);
        if let Some(peer) = peer.and_then(|peer| self.peer(peer)) {
            bump(&peer.waits, 1);
            bump(&peer.waited, ticks);
        }
        if ticks > self.bar.load(Ordering::Relaxed) {
            self.keep(ticks, began, call, peer);
        }
        self.compare(now);
    }

    /// Function `call` has waited so long. Threads say so in turn.
    pub(super) fn waited(&self, call: u32, ticks: u64) {
        if let Some(counts) = self.block.fixed().calls.get(call as usize) {
            bump(&counts.waited, ticks);
        }
    }

    /// The function that dwells, and since when; `u32::MAX` when that is not known.
    pub(super) fn under_way(&self) -> (u32, u64) {
        match (self.stamp.load(Ordering::Relaxed), (self.outermost)()) {
            (OUTSIDE, None) => (u32::MAX, OUTSIDE),
            (OUTSIDE, Some(outermost)) => (outermost.call, outermost.began),
            (stamp, _) => (self.call.load(Ordering::Relaxed), stamp & !ALONE),
        }
    }

    /// Keeps a wait in place of the shortest one that is kept.
    #[cold]
    fn keep(&self, ticks: u64, began: u64, call: u32, peer: Option<u32>) {
        let longest = &self.block.fixed().longest;
        let lengths = || longest.iter().map(|wait| wait.ticks.load(Ordering::Relaxed));
        let shortest = (0..LONGEST).min_by_key(|&at| longest[at].ticks.load(Ordering::Relaxed));
        let wait = &longest[shortest.unwrap_or(0)];
        wait.ticks.store(ticks, Ordering::Relaxed);
        wait.began.store(began, Ordering::Relaxed);
        wait.call.store(call.wrapping_add(1), Ordering::Relaxed);
        wait.peer.store(peer.map_or(0, |peer| peer + 1), Ordering::Relaxed);
        self.bar.store(lengths().min().unwrap_or(0), Ordering::Relaxed);
    }

    /// Compares the clocks, unless that was done lately.
    #[inline]
    fn compare(&self, now: u64) {
        if now.wrapping_sub(self.compared.load(Ordering::Relaxed)) > LATER {
            self.compare_now();
        }
    }

    #[cold]
    fn compare_now(&self) {
        let now = self.now();
        self.compared.store(now, Ordering::Relaxed);
        let head = self.block.head();
        head.latest[0].store(now, Ordering::Relaxed);
        head.latest[1].store(nanoseconds(), Ordering::Relaxed);
        head.cpu
            .store(cpu::current().map_or(0, |cpu| cpu + 1), Ordering::Relaxed);
    }

    /// `bytes` bytes went to rank `to`, written by this rank. Not counted for one that was started later.
    #[inline]
    pub fn sent(&self, kind: Kind, path: Path, to: u32, bytes: usize) {
        if let Some(peer) = self.peer(to) {
            self.traffic(kind, path, bytes);
            peer.sent[kind as usize].add(bytes as u64);
        }
    }

    /// `bytes` bytes came from rank `from`, read by this rank out of memory that the other does not send from.
    /// Not counted for one that was started later.
    #[inline]
    pub fn read(&self, kind: Kind, path: Path, from: u32, bytes: usize) {
        if let Some(peer) = self.peer(from) {
            self.traffic(kind, path, bytes);
            peer.read[kind as usize].add(bytes as u64);
        }
    }

    #[inline]
    fn traffic(&self, kind: Kind, path: Path, bytes: usize) {
        let amount: &Amount = &self.block.fixed().traffic[kind as usize][path as usize][class(bytes as u64)];
        amount.add(bytes as u64);
    }

    /// In a collective operation rank `to` gets `bytes` bytes of data from this rank, as the program says it.
    #[inline]
    pub fn given(&self, to: u32, bytes: usize) {
        if let Some(peer) = self.peer(to) {
            peer.given.add(bytes as u64);
        }
    }

    /// Something worth telling.
    #[cold]
    pub fn event(&self, what: What, peer: u32, value: u64) {
        let head = self.block.head();
        let number = head.events.load(Ordering::Relaxed);
        let event = &self.block.fixed().events[number as usize % EVENTS];
        event.when.store(self.now(), Ordering::Relaxed);
        event.what.store(what as u32, Ordering::Relaxed);
        event.peer.store(peer, Ordering::Relaxed);
        event.value.store(value, Ordering::Relaxed);
        head.events.store(number.wrapping_add(1), Ordering::Release);
    }

    /// The transport's counters, as they are now.
    pub fn counters(&self, values: &[u64]) {
        for (word, value) in self.block.head().counters.iter().zip(values.iter().take(VALUES)) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    /// MPI_Init is over, which was function `call`.
    pub fn ready(&self, call: usize) {
        let head = self.block.head();
        let now = self.now();
        head.ready.store(now, Ordering::Relaxed);
        let spent = now.saturating_sub(head.began[0].load(Ordering::Relaxed));
        let counts = self.call(call);
        bump(&counts.ahead, 1);
        bump(&counts.timed, 1);
        bump(&counts.ticks, spent);
        raise(&counts.longest, spent);
        self.compare_now();
    }

    /// MPI is over for this rank, or begins anew for a session.
    pub fn stage(&self, stage: Stage) {
        self.compare_now();
        let head = self.block.head();
        let ended = if stage == Stage::Ended { self.now() } else { 0 };
        head.ended.store(ended, Ordering::Relaxed);
        head.stage.store(stage as u32, Ordering::Release);
    }

    /// The next of a row of numbers that look random (xorshift64).
    fn random(&self) -> u64 {
        let mut word = self.random.load(Ordering::Relaxed);
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        self.random.store(word, Ordering::Relaxed);
        word
    }
}

fn raise(word: &AtomicU64, to: u64) {
    if word.load(Ordering::Relaxed) < to {
        word.store(to, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Start, Sum, len};
    use super::*;
    use crate::sys::memory::Mapping;
    use std::ptr::NonNull;

    fn meter(ranks: u32) -> Meter {
        let mapping = Mapping::anonymous(len(ranks)).unwrap();
        let place = NonNull::new(mapping.base()).unwrap();
        // SAFETY: the mapping is new, long enough and kept.
        let block = unsafe { Block::new(place, ranks, Box::new(mapping)) };
        assert!(!block.is_begun());
        let ticks = Ticks::best();
        let start = Start {
            began: [0; 3],
            job: 7,
            rank: 0,
            cpus: 1,
            settings: &[1, 2],
            name: b"program",
        };
        block.begin(&start);
        assert!(block.is_begun());
        Meter::new(block, ticks, || None)
    }

    /// Spends so many ticks.
    fn spend(meter: &Meter, ticks: u64) {
        let until = meter.now() + ticks;
        while meter.now() < until {}
    }

    fn loaded(word: &AtomicU64) -> u64 {
        word.load(Ordering::Relaxed)
    }

    #[test]
    fn short_calls_are_sampled_and_their_time_is_what_it_was() {
        // A sampled call that loses its CPU stands for many: one undisturbed round is enough.
        let mut ratios = (0..50).map(|_| estimate_of_short_calls());
        assert!(ratios.any(|ratio| (0.5..1.5).contains(&ratio)));
    }

    /// The estimated time of many short calls in parts of the true one.
    fn estimate_of_short_calls() -> f64 {
        let meter = meter(2);
        let (calls, each) = (40_000, 300);
        let began = meter.now();
        for _ in 0..calls {
            assert!(meter.enter(5));
            spend(&meter, each);
            meter.leave(5);
        }
        let truth = (meter.now() - began) as f64;
        let counts = &meter.block().fixed().calls[5];
        let (count, timed, samples) = (counts.count(), loaded(&counts.timed), loaded(&counts.samples));
        assert_eq!(count, calls);
        assert!(samples > calls / 512 && samples < calls / 128, "{samples} samples");
        let rest = (count - timed) as f64;
        (loaded(&counts.ticks) as f64 + loaded(&counts.sampled) as f64 / samples as f64 * rest) / truth
    }

    #[test]
    fn short_calls_count_themselves_until_one_is_due() {
        let meter = meter(1);
        let counts = &meter.block().fixed().calls[3];
        let mut due = true;
        for number in 1..=50_000 {
            if due {
                meter.enter(3);
                meter.leave(3);
                due = meter.arm(3);
            } else {
                due = counts.left.step();
            }
            assert_eq!(counts.count(), number);
        }
        let timed = loaded(&counts.timed) + loaded(&counts.samples);
        assert!(
            (FIRST + 50_000 / STRIDE..FIRST + 50_000 / 128).contains(&timed),
            "{timed} timed"
        );
    }

    #[test]
    fn a_call_that_waits_is_timed_for_itself_even_in_a_run_of_short_ones() {
        let meter = meter(4);
        for _ in 0..10_000 {
            meter.enter(9);
            meter.leave(9);
        }
        let before = loaded(&meter.block().fixed().calls[9].ticks);
        meter.enter(9);
        let began = meter.begin_wait(Some(3));
        let head = meter.block().head();
        assert_eq!(
            (
                head.inside.load(Ordering::Relaxed),
                head.awaited.load(Ordering::Relaxed)
            ),
            (10, 4)
        );
        spend(&meter, 1_000_000);
        meter.end_wait(began, Some(3));
        meter.leave(9);
        let counts = &meter.block().fixed().calls[9];
        assert!(loaded(&counts.ticks) - before >= 1_000_000);
        assert!(loaded(&counts.waited) >= 1_000_000 && loaded(&counts.longest) >= 1_000_000);
        let peer = meter.block().peer(3);
        assert!(loaded(&peer.waits) == 1 && loaded(&peer.waited) >= 1_000_000);
        let longest = &meter.block().fixed().longest;
        let found = longest.iter().find(|wait| loaded(&wait.ticks) >= 1_000_000).unwrap();
        assert_eq!(
            (found.call.load(Ordering::Relaxed), found.peer.load(Ordering::Relaxed)),
            (10, 4)
        );
        assert_eq!(loaded(&head.waiting), 0);
    }

    #[test]
    fn a_wait_belongs_to_the_call_of_its_thread_where_several_call() {
        let mut meter = meter(4);
        let start = meter.now();
        meter.outermost = || Some(Outermost { call: 9, began: 5 });
        let began = meter.begin_wait(Some(3));
        let head = meter.block().head();
        assert_eq!((head.inside.load(Ordering::Relaxed), loaded(&head.since)), (10, 5));
        spend(&meter, 100_000);
        meter.end_wait(began, Some(3));
        let began = meter.now();
        spend(&meter, 1_000_000);
        meter.napped(began);
        meter.called(8, began, false);
        meter.called(9, start, true);
        let [inner, outer] = [8, 9].map(|call| &meter.block().fixed().calls[call]);
        assert!((1_100_000..=loaded(&outer.ticks)).contains(&loaded(&outer.waited)));
        assert_eq!((loaded(&inner.timed), loaded(&inner.waited)), (0, 0));
        let mut longest = meter.block().fixed().longest.iter();
        assert!(longest.any(|wait| wait.call.load(Ordering::Relaxed) == 10));
        meter.outermost = || None;
        assert_eq!(meter.under_way().0, u32::MAX);
    }

    #[test]
    fn a_sample_that_was_interrupted_stands_for_no_other_call() {
        let meter = meter(1);
        let counts = &meter.block().fixed().calls[6];
        for number in 0..20_000 {
            meter.enter(6);
            let stamp = meter.stamp.load(Ordering::Relaxed);
            if number > 1000 && stamp > CALLS as u64 && stamp & ALONE == 0 {
                spend(&meter, 2 * LONG);
            }
            meter.leave(6);
        }
        assert!(loaded(&counts.sampled) < loaded(&counts.samples) * LONG);
        assert!(loaded(&counts.ticks) > 20 * LONG && loaded(&counts.longest) >= 2 * LONG);
    }

    #[test]
    fn the_longest_waits_stay() {
        let meter = meter(1);
        for ticks in (1..=100).rev().chain(50..=150) {
            if ticks > loaded(&meter.bar) {
                meter.keep(ticks, 0, 0, None);
            }
        }
        let mut kept: Vec<u64> = meter.block().fixed().longest.iter().map(|w| loaded(&w.ticks)).collect();
        kept.sort();
        assert_eq!(kept, (135..=150).collect::<Vec<u64>>());
        assert_eq!(loaded(&meter.bar), 135);
    }

    #[test]
    fn a_call_inside_a_call_is_counted_and_not_timed_twice() {
        let meter = meter(1);
        assert!(meter.enter(1));
        assert!(!meter.enter(2));
        meter.leave(1);
        let inner = &meter.block().fixed().calls[2];
        assert_eq!((inner.count(), loaded(&inner.timed)), (1, 0));
        assert!(meter.enter(2));
        meter.leave(2);
        assert_eq!((inner.count(), loaded(&inner.timed)), (2, 1));
    }

    #[test]
    fn bytes_are_counted_by_kind_path_class_and_peer() {
        let meter = meter(3);
        meter.sent(Kind::Message, Path::Slot, 2, 0);
        meter.sent(Kind::Message, Path::Slot, 2, 8);
        meter.read(Kind::Inside, Path::OneCopy, 1, 1 << 20);
        meter.given(1, 5);
        // Ranks that were started later.
        meter.sent(Kind::Message, Path::Slot, 3, 8);
        meter.read(Kind::Inside, Path::OneCopy, 3, 1 << 20);
        let traffic = |kind, path, class| meter.block().traffic(kind, path, class);
        assert_eq!(traffic(Kind::Message, Path::Slot, 0).messages, 1);
        assert_eq!(traffic(Kind::Message, Path::Slot, class(8)).bytes, 8);
        assert_eq!(traffic(Kind::Inside, Path::OneCopy, 21).messages, 1);
        assert_eq!(traffic(Kind::Inside, Path::OneCopy, 21).bytes, 1 << 20);
        let (one, two) = (meter.block().peer(1), meter.block().peer(2));
        assert_eq!(two.sent(Kind::Message), Sum { messages: 2, bytes: 8 });
        assert_eq!((loaded(&one.read[1].bytes), loaded(&one.given.bytes)), (1 << 20, 5));
    }

    #[test]
    fn the_oldest_events_go_first() {
        let meter = meter(1);
        for value in 0..EVENTS as u64 + 3 {
            meter.event(What::Cells, 0, value);
        }
        let fixed = meter.block().fixed();
        assert_eq!(loaded(&fixed.head.events), EVENTS as u64 + 3);
        assert_eq!(
            (loaded(&fixed.events[2].value), loaded(&fixed.events[3].value)),
            (EVENTS as u64 + 2, 3)
        );
    }
}
