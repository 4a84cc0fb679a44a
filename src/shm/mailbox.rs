//! # Safety
//! Gives out addresses in shared memory: relies on the states for one side at a time to use them.
//!
//! Where others ask a process for something while it waits in MPI and looks here.
//!
//! ```text
//!  0       8          32       64            64 + FAR
//! | state | question | near   | far          |
//!
//!  FREE --take--> TAKEN --ask--> ASKED --claim--> CLAIMED --answer--> ANSWERED or REFUSED --leave--> FREE
//!                                  '--take_back--> FREE
//! ```
//! Any process takes it, and writes its question and the bytes that go with it; the owner claims the question and leaves its
//! answer among the bytes. Until it is claimed a question can be taken back, so that an owner that does something else keeps
//! nobody. Who has taken it has all of it but for the state until it has asked; then the owner from its claim on; then
//! again who asked. Who dies meanwhile leaves it taken for ever: others find it taken, and go another way.
#![allow(unsafe_code)]

use super::sync::{AtomicU32, AtomicU64, Ordering};
use std::cell::UnsafeCell;

/// Most bytes that go with a question in the line that it is in.
const NEAR: usize = 32;
/// Most bytes that go with a question and its answer.
pub const FAR: usize = if cfg!(loom) { 64 } else { 16 << 10 };

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const ASKED: u32 = 2;
const CLAIMED: u32 = 3;
const ANSWERED: u32 = 4;
const REFUSED: u32 = 5;

/// What is asked; what the words mean is between the two.
pub type Question = [u64; 3];

/// A process's mailbox. Zeros are an empty one.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Mailbox {
    state: AtomicU32,
    question: [AtomicU64; 3],
    near: UnsafeCell<[u8; NEAR]>,
    far: UnsafeCell<[u8; FAR]>,
}

impl Mailbox {
    fn step(&self, from: u32, to: u32) -> bool {
        self.state
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes the mailbox; false if somebody else has it.
    #[inline]
    pub fn take(&self) -> bool {
        self.step(FREE, TAKEN)
    }

    /// Asks the owner, by who has taken the mailbox and written what goes with the question.
    #[inline]
    pub fn ask(&self, question: Question) {
        for (word, value) in self.question.iter().zip(question) {
            word.store(value, Ordering::Relaxed);
        }
        self.state.store(ASKED, Ordering::Release);
    }

    /// Takes the question back, and leaves the mailbox; false if the owner has claimed it.
    pub fn take_back(&self) -> bool {
        self.step(ASKED, FREE)
    }

    /// Whether the owner did what was asked, as soon as it has answered.
    #[inline]
    pub fn answer_is(&self) -> Option<bool> {
        match self.state.load(Ordering::Acquire) {
            ANSWERED => Some(true),
            REFUSED => Some(false),
            _ => None,
        }
    }

    /// Lets others take it, once the answer has been looked at.
    #[inline]
    pub fn leave(&self) {
        self.state.store(FREE, Ordering::Release);
    }

    /// Whether the owner is asked.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.state.load(Ordering::Relaxed) == ASKED
    }

    /// The owner claims the question.
    #[inline]
    pub fn claim(&self) -> Option<Question> {
        let words = &self.question;
        self.step(ASKED, CLAIMED)
            .then(|| std::array::from_fn(|index| words[index].load(Ordering::Relaxed)))
    }

    /// The owner has done what it has claimed, or refused it.
    #[inline]
    pub fn answer(&self, done: bool) {
        self.state
            .store(if done { ANSWERED } else { REFUSED }, Ordering::Release);
    }

    /// Where `len` bytes of question and answer lie; `None` for more than there is room for.
    #[inline]
    pub fn bytes(&self, len: usize) -> Option<*mut u8> {
        match () {
            () if len <= NEAR => Some(self.near.get().cast()),
            () if len <= FAR => Some(self.far.get().cast()),
            () => None,
        }
    }
}

impl Default for Mailbox {
    fn default() -> Mailbox {
        Mailbox {
            state: AtomicU32::new(FREE),
            question: std::array::from_fn(|_| AtomicU64::new(0)),
            near: UnsafeCell::new([0; NEAR]),
            far: UnsafeCell::new([0; FAR]),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_asks_at_a_time_and_gets_the_owners_answer() {
        let mailbox = Mailbox::default();
        assert!(!mailbox.is_asked() && mailbox.claim().is_none());
        for done in [true, false] {
            assert!(mailbox.take() && !mailbox.take() && !mailbox.is_asked());
            mailbox.ask([1, 2, 3]);
            assert!(mailbox.is_asked() && mailbox.answer_is().is_none());
            assert_eq!(mailbox.claim(), Some([1, 2, 3]));
            assert!(!mailbox.take_back() && !mailbox.is_asked() && !mailbox.take());
            mailbox.answer(done);
            assert!(mailbox.answer_is() == Some(done) && !mailbox.take());
            mailbox.leave();
        }
        assert!(mailbox.take());
        mailbox.ask([0; 3]);
        assert!(mailbox.take_back() && mailbox.claim().is_none() && mailbox.take());
    }

    #[test]
    fn bytes_lie_in_the_questions_line_or_behind_it() {
        let mailbox = Mailbox::default();
        let start = (&raw const mailbox).addr();
        let at = |len| mailbox.bytes(len).map(|at| at.addr() - start);
        assert_eq!([at(0), at(NEAR)], [Some(32); 2]);
        assert_eq!([at(NEAR + 1), at(FAR), at(FAR + 1)], [Some(64), Some(64), None]);
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    // SAFETY: what the model is about: the states give the rest to one thread at a time.
    unsafe impl Sync for Mailbox {}
    // SAFETY: as above.
    unsafe impl Send for Mailbox {}

    /// Asks with a word that the answer is to be ten more than; whether it was answered.
    fn question(mailbox: &Mailbox, word: u64) -> bool {
        if !mailbox.take() {
            return false;
        }
        mailbox.ask([word, 0, 0]);
        while mailbox.answer_is().is_none() {
            if mailbox.take_back() {
                return false;
            }
            thread::yield_now();
        }
        assert_eq!(mailbox.question[1].load(Ordering::Relaxed), word + 10);
        mailbox.leave();
        true
    }

    #[test]
    fn loom_a_question_is_answered_or_taken_back_never_both() {
        loom::model(|| {
            let mailbox = Arc::new(Mailbox::default());
            let askers = [1, 2].map(|word| {
                let mailbox = mailbox.clone();
                thread::spawn(move || question(&mailbox, word))
            });
            let claimed = mailbox.claim();
            if let Some([word, ..]) = claimed {
                mailbox.question[1].store(word + 10, Ordering::Relaxed);
                mailbox.answer(true);
            }
            let answered = askers.map(|asker| u32::from(asker.join().unwrap()));
            assert_eq!(answered.iter().sum::<u32>(), u32::from(claimed.is_some()));
        });
    }
}
