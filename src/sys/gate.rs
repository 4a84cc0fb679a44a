//! A lock that sleeps, and that costs its owner next to nothing as long as no other thread comes.
//!
//! Cost uncontended: one read-modify-write to enter, one to leave; for the owner before others have come, plain loads and
//! stores.
//!
//! Whoever comes while it is free gets it, though others may wait: a lock that is passed on in the order of coming makes
//! two threads that share a CPU change places at each call. A thread that has waited for long stands in a queue, and the
//! first of it has the next turn promised.
//!
//! The owner says in `inside` that it is in, and looks at `bias` afterwards; another thread says in `bias` that it is
//! there, and looks at `inside` afterwards. Both need a full barrier in between. The other thread makes it for both, by
//! membarrier(2), which runs it on every CPU where a thread of this process is. So whatever the owner did before that
//! barrier is visible after it, and whatever it does later sees the word:
//!
//! - it stored 1 in `inside` and saw [`OWNED`]: the other thread sees the 1, and waits;
//! - it sees another word: it takes `inside` back, and enters as everybody;
//! - it stored 0 on leaving and saw [`OWNED`]: the other thread sees the 0; else the owner wakes who waits for it.
//!
//! A thread enters without owning the lock only after it has seen, or knows that another has seen, `inside` at 0 after the barrier. From
//! then on the lock stays an ordinary one. Neither loom nor ThreadSanitizer knows membarrier(2): tests take the lock away
//! from its owner thousands of times instead, and fail where the barrier is left out.

use super::hog::Hog;
use super::{cpu, futex};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, compiler_fence};
use std::time::Duration;

/// Polls, then yields, before a thread that waits takes a place in the queue; the same again before the first of it sleeps.
const POLLS: u32 = 100;
const YIELDS: u32 = 20;
/// Longest sleep of a thread before it looks again.
const NAP: Duration = Duration::from_secs(1);

/// In `word`: somebody is in.
const TAKEN: u32 = 1;
/// In `word`: nobody enters before the first of the queue.
const PROMISED: u32 = 2;

/// In `bias`: there is no owner.
const SHARED: u32 = 0;
/// In `bias`: the owner passes without one.
const OWNED: u32 = 1;
/// In `bias`: no longer; it may still be inside.
const ENDING: u32 = 2;

/// The lock.
#[derive(Debug, Default)]
pub struct Gate {
    /// [`TAKEN`] and [`PROMISED`].
    word: AtomicU32,
    /// Threads that wait to enter.
    waiting: AtomicU32,
    /// The next place in the queue, and the place of its first.
    next: AtomicU32,
    serving: AtomicU32,
    /// Threads that sleep, on `word` or `serving`.
    sleepers: AtomicU32,
    /// [`SHARED`], [`OWNED`] or [`ENDING`].
    bias: AtomicU32,
    /// 1: the owner is in, without [`TAKEN`], or about to look whether it may. Written by the owner only.
    inside: AtomicU32,
    /// Number of the owner's thread; 0: none.
    owner: AtomicUsize,
    hog: Arc<Hog>,
}

impl Gate {
    /// A lock without an owner; threads that wait give way as `hog` says.
    pub fn new(hog: Arc<Hog>) -> Gate {
        Gate { hog, ..Gate::default() }
    }

    /// A lock whose owner is the calling thread; without one where membarrier(2) is missing.
    pub fn owned(hog: Arc<Hog>) -> Gate {
        let gate = Gate::new(hog);
        if cpu::join_process_barriers() {
            gate.owner.store(cpu::thread(), Ordering::Relaxed);
            gate.bias.store(OWNED, Ordering::Relaxed);
        }
        gate
    }

    /// Waits for this thread's turn.
    #[inline]
    pub fn enter(&self) {
        if self.owner.load(Ordering::Relaxed) == cpu::thread() {
            self.inside.store(1, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            if self.bias.load(Ordering::Relaxed) == OWNED {
                return;
            }
            self.put_out();
        } else if self.bias.load(Ordering::Acquire) != SHARED {
            self.disown();
        }
        if !self.try_enter() {
            self.wait();
        }
    }

    #[inline(always)]
    fn try_enter(&self) -> bool {
        self.word
            .compare_exchange(0, TAKEN, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Enters if nobody is in, nobody waits, and there is no owner.
    pub fn enters_at_once(&self) -> bool {
        let is_shared = self.bias.load(Ordering::Acquire) == SHARED;
        is_shared && self.waiting.load(Ordering::Relaxed) == 0 && self.try_enter()
    }

    /// Lets others in.
    #[inline]
    pub fn leave(&self) {
        if self.owner.load(Ordering::Relaxed) == cpu::thread() && self.inside.load(Ordering::Relaxed) != 0 {
            self.inside.store(0, Ordering::Release);
            compiler_fence(Ordering::SeqCst);
            if self.bias.load(Ordering::Relaxed) != OWNED {
                futex::wake_all(&self.inside);
            }
            return;
        }
        // A full barrier between the change and the look at the sleepers; its partner is in `wait`.
        if self.word.fetch_sub(TAKEN, Ordering::SeqCst) != TAKEN && self.sleepers.load(Ordering::SeqCst) != 0 {
            futex::wake_all(&self.word);
        }
    }

    /// Lets one of those in who wait, if they run, and enters again.
    pub fn pass(&self) {
        self.leave();
        for _ in 0..POLLS {
            if self.word.load(Ordering::Relaxed) != 0 || self.waiting.load(Ordering::Relaxed) == 0 {
                break;
            }
            std::hint::spin_loop();
        }
        self.enter();
    }

    /// Whether the thread inside is keeping others waiting.
    #[inline]
    pub fn is_contended(&self) -> bool {
        if self.inside.load(Ordering::Relaxed) != 0 {
            return self.bias.load(Ordering::Relaxed) != OWNED;
        }
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// The owner has seen that another has come: it is an owner no longer.
    #[cold]
    fn put_out(&self) {
        self.owner.store(0, Ordering::Relaxed);
        self.inside.store(0, Ordering::Release);
        futex::wake_all(&self.inside);
    }

    /// Makes an ordinary lock of it, and waits until the owner is out.
    #[cold]
    fn disown(&self) {
        // Where another thread has done this already it is done once more, unless that one is through.
        let _ = self
            .bias
            .compare_exchange(OWNED, ENDING, Ordering::SeqCst, Ordering::SeqCst);
        assert!(cpu::barrier_in_process(), "membarrier(2) worked before");
        let mut turn = 0;
        while self.inside.load(Ordering::Acquire) != 0 {
            match turn {
                0..POLLS => std::hint::spin_loop(),
                _ if turn < POLLS + YIELDS => cpu::give_way(),
                _ => futex::wait(&self.inside, 1, NAP),
            }
            turn = turn.saturating_add(1);
        }
        self.bias.store(SHARED, Ordering::Release);
    }

    #[cold]
    fn wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        if !be_patient(&self.hog, || self.word.load(Ordering::Relaxed) == 0 && self.try_enter()) {
            self.queue();
        }
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    fn queue(&self) {
        let ticket = self.next.fetch_add(1, Ordering::Relaxed);
        self.sleep_until(&self.serving, |serving| serving == ticket);
        self.word.fetch_or(PROMISED, Ordering::Relaxed);
        let kept = || {
            self.word
                .compare_exchange(PROMISED, TAKEN, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        };
        if !be_patient(&self.hog, kept) {
            self.sleep_until(&self.word, |_| kept());
        }
        self.serving.fetch_add(1, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) != 0 {
            futex::wake_all(&self.serving);
        }
    }

    /// Sleeps until `done` says so of the word.
    fn sleep_until(&self, word: &AtomicU32, done: impl Fn(u32) -> bool) {
        if done(word.load(Ordering::Acquire)) {
            return;
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        loop {
            let seen = word.load(Ordering::SeqCst);
            if done(seen) {
                break;
            }
            futex::wait(word, seen, NAP);
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Polls, then gives way, unless somebody computes here, until `done` says so; whether it has.
fn be_patient(hog: &Hog, done: impl Fn() -> bool) -> bool {
    for _ in 0..POLLS {
        std::hint::spin_loop();
        if done() {
            return true;
        }
    }
    for _ in 0..YIELDS {
        let goes_on = hog.gives_way();
        if done() {
            return true;
        }
        if !goes_on {
            break;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn one_thread_at_a_time_is_inside() {
        let (gate, count) = (Gate::default(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        gate.enter();
                        let seen = count.load(Ordering::Relaxed);
                        std::hint::black_box(seen);
                        count.store(seen + 1, Ordering::Relaxed);
                        gate.leave();
                    }
                });
            }
        });
        assert_eq!(count.load(Ordering::Relaxed), 16000);
        assert!(!gate.is_contended());
    }

    /// Threads on one CPU that give it up while they are inside: each comes back to a lock that the others wait for.
    #[test]
    fn threads_that_share_a_cpu_do_not_change_places_at_each_turn_and_none_starves() {
        const ROUNDS: u32 = 2000;
        let one = cpu::mask(0).iter().take(1).collect();
        let gate = Gate::default();
        let (last, changes, over) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let start = std::sync::Barrier::new(3);
        std::thread::scope(|scope| {
            for me in 1..=3 {
                let (one, start, gate, last, changes, over) = (&one, &start, &gate, &last, &changes, &over);
                scope.spawn(move || {
                    assert!(cpu::bind(one));
                    start.wait();
                    for round in 0..ROUNDS {
                        gate.enter();
                        if last.swap(me, Ordering::Relaxed) != me {
                            changes.fetch_add(1, Ordering::Relaxed);
                        }
                        if over.load(Ordering::Relaxed) > 0 {
                            assert!(
                                round > ROUNDS / 20,
                                "thread {me} had {round} turns when another was through"
                            );
                        }
                        cpu::give_way();
                        gate.leave();
                    }
                    over.store(1, Ordering::Relaxed);
                });
            }
        });
        let changes = changes.load(Ordering::Relaxed);
        assert!(changes < ROUNDS, "{changes} changes in {} turns", 3 * ROUNDS);
    }

    /// The owner and others count, each as often as it likes, from the start; the others come while it is anywhere.
    fn take_from_owner(others: u32, rounds: u64, alone: u64) {
        let (gate, count) = (Gate::owned(Arc::default()), AtomicU64::new(0));
        let add = |times: u64| {
            for _ in 0..times {
                gate.enter();
                // Two additions at a time lose one of them.
                let seen = count.load(Ordering::Relaxed);
                std::hint::black_box(seen);
                count.store(seen + 1, Ordering::Relaxed);
                gate.leave();
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..others {
                scope.spawn(|| add(rounds));
            }
            add(alone + rounds);
        });
        let expected = (u64::from(others) + 1) * rounds + alone;
        assert_eq!(count.load(Ordering::Relaxed), expected);
        assert!(!gate.is_contended());
    }

    #[test]
    fn the_owner_loses_the_lock_at_any_time_and_nobody_else_gets_in_beside_it() {
        for turn in 0..1500 {
            let others = 1 + turn as u32 % 7;
            take_from_owner(others, 5 + turn % 50, turn * 7 % 3000);
        }
    }

    /// Finds a missing membarrier(2), which the test above does not.
    #[test]
    fn nobody_gets_in_while_the_owner_is_on_its_way_in() {
        let far: Vec<AtomicU64> = (0..1 << 22).map(AtomicU64::new).collect();
        let gates: Vec<Gate> = (0..2000).map(|_| Gate::owned(Arc::default())).collect();
        let (turn, done) = (AtomicU64::new(0), AtomicU64::new(0));
        let (busy, wrong) = (AtomicU32::new(0), AtomicU32::new(0));
        let pass = |gate: &Gate| {
            gate.enter();
            if busy.fetch_add(1, Ordering::Relaxed) != 0 {
                wrong.fetch_add(1, Ordering::Relaxed);
            }
            (0..10).for_each(|_| std::hint::spin_loop());
            busy.fetch_sub(1, Ordering::Relaxed);
            gate.leave();
        };
        let reach = |word: &AtomicU64, value: u64| {
            for look in 0u64.. {
                match word.load(Ordering::Acquire) >= value {
                    true => return,
                    false if look < 10_000 => std::hint::spin_loop(),
                    false => cpu::give_way(),
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for (number, gate) in (1..).zip(&gates) {
                    reach(&turn, number);
                    // At another point of the owner's round each time.
                    (0..number % 40).for_each(|_| std::hint::spin_loop());
                    pass(gate);
                    done.store(number, Ordering::Release);
                }
            });
            for (number, gate) in (1..).zip(&gates) {
                turn.store(number, Ordering::Release);
                for round in 0..50 {
                    // A store that misses the caches: those after it have to wait, and what is loaded then does not.
                    let place = (number * 50 + round).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 42;
                    far[place as usize].store(number, Ordering::Relaxed);
                    pass(gate);
                }
                reach(&done, number);
            }
        });
        assert_eq!(wrong.load(Ordering::Relaxed), 0, "times that two threads were inside");
    }

    #[test]
    fn whoever_comes_while_the_owner_stays_inside_waits_and_is_woken() {
        for stay in [0, 1, 20] {
            let gate = Gate::owned(Arc::default());
            let done = AtomicU64::new(0);
            std::thread::scope(|scope| {
                gate.enter();
                for _ in 0..3 {
                    scope.spawn(|| {
                        gate.enter();
                        done.fetch_add(1, Ordering::Relaxed);
                        gate.leave();
                    });
                }
                std::thread::sleep(Duration::from_millis(stay));
                assert_eq!(done.load(Ordering::Relaxed), 0);
                // What a thread that polls does.
                while !gate.is_contended() {
                    std::thread::yield_now();
                }
                gate.leave();
            });
            assert_eq!(done.load(Ordering::Relaxed), 3);
            gate.enter();
            assert_eq!(gate.inside.load(Ordering::Relaxed), 0, "it owns nothing");
            gate.leave();
        }
    }
}
