//! Descriptors of messages that wait to be copied once (LiMIC 2005 §4: preallocated descriptors).
//!
//! ```text
//!           owner            receiver           owner
//!   FREE  ---------> OFFERED ---------> TAKEN  -------> FREE      (after the receiver's FIN)
//!                       |  owner withdraws  ^
//!                       +-------------------|-------->  FREE
//!                       |  owner moves it   | receiver
//!                       +---------------> MOVED
//! ```
//! A message whose bytes go with its record, and which its owner will not withdraw, is TAKEN from the start.
//! Only the owner leaves FREE, only it returns there; OFFERED is left by a compare-and-swap, so a
//! message is either taken or withdrawn or moved: the owner has kept a copy at another address. The word carries
//! the use count of the descriptor, so that an offer kept after its withdrawal is recognised.
//!
//! A message that both sides copy is cut into chunks: the receiver claims them from the front, the owner
//! from the back, until they meet (so each side gets the same ones again when a buffer is used again).
//! Whoever finishes the last chunk ends the transfer. Claims and the count of what is done start at 0
//! with each opening. The owner may end a transfer and open the descriptor for its next message before the
//! receiver has found that nothing is left to claim, so claims carry the use count as well.
//!
//! ```text
//!   word: use count 29 | state 3     done 32     claims: use count 29 | back 17 | front 17     moved: address 64
//! ```

use super::sync::{AtomicU32, AtomicU64, Ordering};

/// Descriptors per rank.
pub const OFFERS: usize = 1 << 16;

const FREE: u32 = 0;
const OFFERED: u32 = 1;
const TAKEN: u32 = 2;
/// Set beside OFFERED (drawn as MOVED) and beside TAKEN after that.
const MOVED: u32 = 4;
const STATE: u32 = 3;

/// One descriptor. Zero is free.
#[repr(C, align(32))]
#[derive(Debug, Default)]
pub struct Offer {
    word: AtomicU32,
    done: AtomicU32,
    claims: AtomicU64,
    moved: AtomicU64,
}

/// Bits of the count of chunks that one side has claimed.
const CLAIM: u32 = 17;

/// Most chunks of a message.
pub const CHUNKS: usize = (1 << CLAIM) - 1;

/// From which end of a message a side claims chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The receiver's.
    Front,
    /// The owner's.
    Back,
}

/// The descriptor holds what nobody writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Junk;

impl Offer {
    /// Owner: offers a message under this free descriptor; the use number goes with the offer.
    pub fn open(&self) -> u32 {
        self.open_as(OFFERED)
    }

    /// Owner: the same for a message that it will not withdraw; there is nothing to take.
    pub fn open_taken(&self) -> u32 {
        self.open_as(TAKEN)
    }

    fn open_as(&self, state: u32) -> u32 {
        let usage = (self.word.load(Ordering::Relaxed) >> STATE).wrapping_add(1) & (u32::MAX >> STATE);
        self.done.store(0, Ordering::Relaxed);
        self.claims.store(u64::from(usage) << (2 * CLAIM), Ordering::Relaxed);
        self.word.store(usage << STATE | state, Ordering::Release);
        usage
    }

    /// Receiver: takes the message; false when the sender has withdrawn it.
    pub fn take(&self, usage: u32) -> bool {
        self.leave(usage, OFFERED, TAKEN) || self.leave(usage, OFFERED | MOVED, TAKEN | MOVED)
    }

    /// Receiver: where the message lies now, if it has been moved. Before it is taken that may be so a moment later.
    pub fn moved(&self) -> Option<u64> {
        let moved = self.word.load(Ordering::Acquire) & MOVED != 0;
        moved.then(|| self.moved.load(Ordering::Relaxed))
    }

    /// Owner: withdraws the message; false when the receiver has taken it.
    pub fn withdraw(&self, usage: u32) -> bool {
        self.leave(usage, OFFERED, FREE)
    }

    /// Owner: the message lies at `address` from now on; false when the receiver has taken it.
    pub fn move_to(&self, usage: u32, address: u64) -> bool {
        self.moved.store(address, Ordering::Relaxed);
        self.leave(usage, OFFERED, OFFERED | MOVED)
    }

    /// Owner: the transfer of use `usage` is over. The line, which the receiver wrote last, need not be waited for.
    pub fn close(&self, usage: u32) {
        self.word.store(usage << STATE | FREE, Ordering::Release);
    }

    /// Whether the offer still stands.
    pub fn stands(&self, usage: u32) -> bool {
        self.word.load(Ordering::Acquire) & !MOVED == usage << STATE | OFFERED
    }

    /// Either side of the offer taken in use `usage`: claims one of `chunks` chunks, or learns that none is left.
    pub fn claim(&self, usage: u32, end: End, chunks: u32) -> Option<u32> {
        let mut claims = self.claims.load(Ordering::Relaxed);
        loop {
            let count = |shift: u32| (claims >> shift) as u32 & CHUNKS as u32;
            let (front, back) = (count(0), count(CLAIM));
            if claims >> (2 * CLAIM) != u64::from(usage) || front + back >= chunks {
                return None;
            }
            let (one, index) = match end {
                End::Front => (1, front),
                End::Back => (1 << CLAIM, chunks - 1 - back),
            };
            let claimed = self
                .claims
                .compare_exchange_weak(claims, claims + one, Ordering::Relaxed, Ordering::Relaxed);
            match claimed {
                Ok(_) => return Some(index),
                Err(now) => claims = now,
            }
        }
    }

    /// Either side, which has claimed a chunk and cannot copy it: lets nobody claim any more.
    pub fn stop(&self) {
        self.claims.fetch_or(CHUNKS as u64, Ordering::Relaxed);
    }

    /// Either side: the chunk it has claimed is copied; whether that was the last of `chunks`.
    ///
    /// # Errors
    /// `Junk` when more are done than there are.
    pub fn finish(&self, chunks: u32) -> Result<bool, Junk> {
        let before = self.done.fetch_add(1, Ordering::AcqRel);
        if before < chunks {
            Ok(before + 1 == chunks)
        } else {
            Err(Junk)
        }
    }

    fn leave(&self, usage: u32, from: u32, to: u32) -> bool {
        let (from, to) = (usage << STATE | from, usage << STATE | to);
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
        assert!(
            !offer.withdraw(second) && !offer.move_to(second, 77),
            "what is taken stays"
        );
        offer.close(second);
        assert!(!offer.stands(second));
    }

    #[test]
    fn chunks_are_claimed_from_both_ends_until_they_meet() {
        let offer = Offer::default();
        for _ in 0..2 {
            let usage = offer.open();
            assert!(offer.take(usage));
            assert_eq!(offer.claim(usage, End::Front, 3), Some(0));
            assert_eq!(offer.claim(usage, End::Back, 3), Some(2));
            assert_eq!(offer.claim(usage, End::Back, 3), Some(1));
            assert_eq!(offer.claim(usage, End::Front, 3), None);
            assert_eq!(offer.claim(usage, End::Back, 3), None);
            assert_eq!([offer.finish(3), offer.finish(3)], [Ok(false), Ok(false)]);
            assert_eq!([offer.finish(3), offer.finish(3)], [Ok(true), Err(Junk)]);
            offer.close(usage);
        }
    }

    #[test]
    fn junk_claims_give_no_chunk_that_is_not_there() {
        let offer = Offer::default();
        for claims in [u64::MAX, u64::from(u32::MAX), 3, 1 << 33, 2 << CLAIM | 1] {
            for end in [End::Front, End::Back] {
                offer.claims.store(claims, Ordering::Relaxed);
                assert!(offer.claim(0, end, 3).is_none_or(|chunk| chunk < 3), "{claims:x}");
            }
        }
        let usage = offer.open();
        offer.stop();
        assert_eq!(offer.claim(usage, End::Back, CHUNKS as u32), None);
    }

    #[test]
    fn a_late_receiver_claims_nothing_of_the_owners_next_message() {
        let offer = Offer::default();
        let first = offer.open();
        assert!(offer.take(first));
        assert_eq!(offer.claim(first, End::Back, 1), Some(0));
        assert_eq!(offer.finish(1), Ok(true));
        offer.close(first);
        let second = offer.open();
        assert_eq!(offer.claim(first, End::Front, 1), None);
        assert!(offer.take(second));
        assert_eq!(offer.claim(second, End::Front, 1), Some(0));
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

    #[test]
    fn loom_a_message_is_taken_where_it_lies() {
        loom::model(|| {
            let offer = loom::sync::Arc::new(Offer::default());
            let usage = offer.open();
            let receiver = {
                let offer = offer.clone();
                loom::thread::spawn(move || {
                    assert!(offer.take(usage));
                    offer.moved()
                })
            };
            let moved = offer.move_to(usage, 77);
            // The owner frees the copy, or the program its buffer: the receiver must not look there.
            assert_eq!(receiver.join().unwrap(), moved.then_some(77));
        });
    }

    #[test]
    fn loom_what_is_copied_before_it_is_taken_is_the_message_or_known_not_to_be() {
        use loom::sync::atomic::AtomicU32;
        loom::model(|| {
            // The program's buffer and its owner's copy.
            let shared = loom::sync::Arc::new((Offer::default(), [AtomicU32::new(1), AtomicU32::new(0)]));
            let usage = shared.0.open();
            let receiver = {
                let shared = shared.clone();
                loom::thread::spawn(move || {
                    let (offer, places) = &*shared;
                    let read = |moved: Option<u64>| places[usize::from(moved.is_some())].load(Ordering::Relaxed);
                    let before = offer.moved();
                    let copied = read(before);
                    if !offer.take(usage) {
                        return None;
                    }
                    let moved = offer.moved();
                    Some(if moved == before { copied } else { read(moved) })
                })
            };
            let (offer, [buffer, copy]) = &*shared;
            copy.store(buffer.load(Ordering::Relaxed), Ordering::Relaxed);
            if offer.move_to(usage, 77) {
                buffer.store(2, Ordering::Relaxed);
            }
            assert_eq!(receiver.join().unwrap(), Some(1));
        });
    }

    #[test]
    fn loom_both_sides_copy_every_chunk_once_and_one_of_them_ends_the_transfer() {
        use loom::sync::atomic::AtomicU32;
        const CHUNKS: u32 = 3;
        loom::model(|| {
            let shared = loom::sync::Arc::new((Offer::default(), std::array::from_fn(|_| AtomicU32::new(0))));
            let usage = shared.0.open();
            assert!(shared.0.take(usage));
            let copy = move |shared: &(Offer, [AtomicU32; CHUNKS as usize]), end| {
                let mut last = false;
                while let Some(chunk) = shared.0.claim(usage, end, CHUNKS) {
                    shared.1[chunk as usize].fetch_add(1, Ordering::Relaxed);
                    last |= shared.0.finish(CHUNKS).unwrap();
                }
                if last {
                    // Who ends the transfer sees all of it.
                    assert!(shared.1.iter().all(|copies| copies.load(Ordering::Relaxed) == 1));
                }
                last
            };
            let receiver = {
                let shared = shared.clone();
                loom::thread::spawn(move || copy(&shared, End::Front))
            };
            let owner = copy(&shared, End::Back);
            // The owner that has ended the transfer sends its next message under the same descriptor.
            let next = owner.then(|| {
                shared.0.close(usage);
                shared.0.open()
            });
            assert!(owner != receiver.join().unwrap());
            if let Some(next) = next {
                assert!(shared.0.take(next));
                assert_eq!(shared.0.claim(next, End::Front, CHUNKS), Some(0));
            }
        });
    }
}
