//! Descriptors of messages that wait to be copied once (LiMIC 2005 §4: preallocated descriptors).
//!
//! ```text
//!           owner            receiver           owner
//!   FREE  ---------> OFFERED <--------> TAKEN  -------> FREE      (after the receiver's FIN)
//!                       |  owner withdraws
//!                       +---------------------------->  FREE
//! ```
//! Only the owner leaves FREE, only it returns there; OFFERED is left by a compare-and-swap, so a
//! message is either taken or withdrawn. The word carries the use count of the descriptor, so that
//! an offer kept after its withdrawal is recognised.

use super::sync::{AtomicU32, Ordering};

/// Descriptors per rank.
pub const OFFERS: usize = 1 << 16;

const FREE: u32 = 0;
const OFFERED: u32 = 1;
const TAKEN: u32 = 2;

/// One descriptor: use count and state. Zero is free.
#[repr(C, align(16))]
#[derive(Debug, Default)]
pub struct Offer {
    word: AtomicU32,
}

impl Offer {
    /// Owner: offers a message under this free descriptor; the use number goes with the offer.
    pub fn open(&self) -> u32 {
        let usage = (self.word.load(Ordering::Relaxed) >> 2).wrapping_add(1) & (u32::MAX >> 2);
        self.word.store(usage << 2 | OFFERED, Ordering::Release);
        usage
    }

    /// Receiver: takes the message; false when the sender has withdrawn it.
    pub fn take(&self, usage: u32) -> bool {
        self.leave(usage, TAKEN)
    }

    /// Receiver: gives the message it has taken back, for a later receive.
    pub fn give_back(&self, usage: u32) {
        self.word.store(usage << 2 | OFFERED, Ordering::Release);
    }

    /// Owner: withdraws the message; false when the receiver has taken it.
    pub fn withdraw(&self, usage: u32) -> bool {
        self.leave(usage, FREE)
    }

    /// Owner: the transfer is over.
    pub fn close(&self) {
        let usage = self.word.load(Ordering::Relaxed) >> 2;
        self.word.store(usage << 2 | FREE, Ordering::Release);
    }

    /// Whether the offer still stands.
    pub fn stands(&self, usage: u32) -> bool {
        self.word.load(Ordering::Acquire) == usage << 2 | OFFERED
    }

    fn leave(&self, usage: u32, to: u32) -> bool {
        let (from, to) = (usage << 2 | OFFERED, usage << 2 | to);
        self.word
            .compare_exchange(from, to, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_old_offer_cannot_be_taken_in_a_new_use() {
        let offer = Offer::default();
        let first = offer.open();
        assert!(offer.stands(first));
        assert!(offer.withdraw(first));
        let second = offer.open();
        assert!(!offer.take(first));
        assert!(offer.take(second));
        assert!(!offer.withdraw(second));
        offer.close();
        assert!(!offer.stands(second));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;

    #[test]
    fn loom_an_offer_is_taken_or_withdrawn_never_both() {
        loom::model(|| {
            let offer = loom::sync::Arc::new(Offer::default());
            let usage = offer.open();
            let receiver = {
                let offer = offer.clone();
                loom::thread::spawn(move || offer.take(usage))
            };
            let withdrawn = offer.withdraw(usage);
            let taken = receiver.join().unwrap();
            assert!(withdrawn != taken);
        });
    }
}
