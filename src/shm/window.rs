//! What the members of a window share about each of them: its lock, its turn at accumulating, and what it is told.
//!
//! ```text
//!  0        4         8         12                      64
//! | holders | writers | waiting | updating |    ...      |
//! ```
//! `holders` counts shared holders of the lock (MPI-4.1 §12.5.3) or is [`EXCLUSIVE`]; `writers` counts those that wait
//! for it exclusively, which keeps new shared holders out but those of [`Control::try_join`]; `waiting` counts all that wait, and tells who lets go to wake
//! them. `updating` is held for the length of one update, so that accumulates are atomic (MPI-4.1 §12.7.1): the rank in the job, and
//! one, of who has it.

use super::sync::{AtomicU32, AtomicU64, Ordering};

/// In `holders`: held exclusively.
const EXCLUSIVE: u32 = 1 << 31;

/// One member's control line.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Control {
    holders: AtomicU32,
    writers: AtomicU32,
    waiting: AtomicU32,
    updating: AtomicU32,
}

impl Control {
    /// Takes the lock if that is possible now.
    pub fn try_lock(&self, exclusive: bool) -> bool {
        match exclusive {
            true => self.swap(0, EXCLUSIVE),
            false => self.writers.load(Ordering::Relaxed) == 0 && self.try_join(),
        }
    }

    /// Takes the lock beside others that share it, even if somebody waits for it exclusively, whose turn it may be only after
    /// something that the caller has to do.
    pub fn try_join(&self) -> bool {
        let join = |held| (held & EXCLUSIVE == 0).then_some(held + 1);
        // Others that share it come and go meanwhile.
        self.holders
            .fetch_update(Ordering::SeqCst, Ordering::Relaxed, join)
            .is_ok()
    }

    /// Whether the lock may be free for somebody who waits for it.
    pub fn may_lock(&self, exclusive: bool) -> bool {
        let held = self.holders.load(Ordering::Relaxed);
        if exclusive { held == 0 } else { held & EXCLUSIVE == 0 }
    }

    fn swap(&self, old: u32, new: u32) -> bool {
        self.holders
            .compare_exchange(old, new, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    /// Says that the caller waits for the lock, until [`Control::stop_waiting`].
    pub fn wait(&self, exclusive: bool) {
        self.writers.fetch_add(u32::from(exclusive), Ordering::SeqCst);
        self.waiting.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends [`Control::wait`]; whether somebody else has to be woken, whom this wait kept out.
    pub fn stop_waiting(&self, exclusive: bool) -> bool {
        self.writers.fetch_sub(u32::from(exclusive), Ordering::SeqCst);
        self.waiting.fetch_sub(1, Ordering::SeqCst) > 1
    }

    /// Lets go of the lock; whether somebody waits and has to be woken.
    pub fn unlock(&self, exclusive: bool) -> bool {
        let held = if exclusive { EXCLUSIVE } else { 1 };
        self.holders.fetch_sub(held, Ordering::SeqCst);
        self.waiting.load(Ordering::SeqCst) > 0
    }

    /// Takes the turn at updating for rank `me` if it is free. Does not look first: that would fetch the line twice, to read and to write.
    #[inline]
    pub fn try_update(&self, me: u32) -> bool {
        self.updating
            .compare_exchange(0, me.wrapping_add(1), Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Who has the turn at updating.
    #[inline]
    pub fn updater(&self) -> Option<u32> {
        self.updating.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Takes the turn of `from`, which is dead, for rank `me`; whether it had it yet.
    #[cold]
    pub fn take_over(&self, from: u32, me: u32) -> bool {
        self.updating
            .compare_exchange(
                from.wrapping_add(1),
                me.wrapping_add(1),
                Ordering::Acquire,
                Ordering::Relaxed,
            )
            .is_ok()
    }

    /// Ends the turn at updating.
    #[inline]
    pub fn end_update(&self) {
        self.updating.store(0, Ordering::Release);
    }
}

/// What one member tells another (MPI-4.1 §12.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Word {
    /// Its memory is exposed to the other.
    Posted = 0,
    /// Its accesses to the other's memory are over.
    Complete = 1,
}

/// Words that a member can be told.
pub const WORDS: usize = 2;

/// Part of what a member is told: a bit for each word of [`Told::MEMBERS`] members, who turn it over to say it again. The member looks
/// whether the bit has changed, so nobody takes back what was said.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Told([AtomicU64; 8]);

impl Told {
    /// Members whose words one of them holds.
    pub const MEMBERS: usize = 512 / WORDS;

    /// Member `from` of these says `word`; what was written before is seen by who hears it.
    #[inline]
    pub fn tell(&self, from: usize, word: Word) {
        let (bits, bit) = self.place(from, word);
        bits.fetch_xor(bit, Ordering::SeqCst);
    }

    /// Whether member `from` of these has said `word` an odd number of times.
    #[inline]
    pub fn is_odd(&self, from: usize, word: Word) -> bool {
        let (bits, bit) = self.place(from, word);
        bits.load(Ordering::Acquire) & bit != 0
    }

    #[inline]
    fn place(&self, from: usize, word: Word) -> (&AtomicU64, u64) {
        let number = from * WORDS + word as usize;
        (&self.0[number / 64], 1 << (number % 64))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn each_member_says_each_word_for_itself_and_again() {
        let told = Told::default();
        let all = || (0..Told::MEMBERS).flat_map(|from| [Word::Posted, Word::Complete].map(|word| (from, word)));
        for said in all() {
            told.tell(said.0, said.1);
            assert!(told.is_odd(said.0, said.1), "{said:?}");
            for other in all().filter(|&other| other != said) {
                assert!(!told.is_odd(other.0, other.1), "{said:?} is heard as {other:?}");
            }
            told.tell(said.0, said.1);
            assert!(!told.is_odd(said.0, said.1), "{said:?} again");
        }
    }

    #[test]
    fn many_share_or_one_has_it_and_writers_are_not_starved() {
        let control = Control::default();
        assert!(control.try_lock(false) && control.try_lock(false) && !control.try_lock(true));
        control.wait(true);
        assert!(!control.try_lock(false) && control.try_join() && control.unlock(false));
        assert!(control.unlock(false) && control.unlock(false));
        assert!(control.try_lock(true) && !control.stop_waiting(true));
        assert!(!control.try_lock(false) && !control.try_lock(true) && !control.try_join());
        assert!(!control.unlock(true));
        assert!(control.try_lock(false));
    }

    #[test]
    fn one_updates_at_a_time() {
        let control = Control::default();
        assert!(control.try_update(7) && !control.try_update(8) && control.updater() == Some(7));
        assert!(!control.take_over(6, 8) && control.take_over(7, 8) && !control.take_over(7, 9));
        control.end_update();
        assert!(control.updater().is_none() && control.try_update(0) && control.updater() == Some(0));
    }
}
