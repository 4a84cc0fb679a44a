//! What a sleeping rank waits for, as the launcher may read it at any time.
//!
//! Only the rank writes here, and only when it falls asleep or wakes. `turn` is odd while it sleeps
//! (not while it looks around between two naps), and another for another sleep; a reader that finds the same `turn` before and after has read what belongs together. Readers
//! believe nothing: every number is checked before it is used.

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Operations that are described; of more only the number is known.
pub const DESCRIBED: usize = 4;

/// A rank's account of its sleep.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Waiting {
    turn: AtomicU32,
    /// Operations under way.
    count: AtomicU32,
    /// 1: other threads of the rank may call MPI meanwhile.
    threads: AtomicU32,
    items: [AtomicU64; DESCRIBED],
    places: [AtomicU32; DESCRIBED],
}

/// An operation under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// A send, not a receive.
    pub is_send: bool,
    /// Rank in the job of the other side; `None`: any.
    pub peer: Option<u32>,
    /// Tag; `None`: any.
    pub tag: Option<i32>,
    /// Context number.
    pub context: u16,
}

/// What a reader sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Changes with each sleep.
    pub turn: u32,
    /// Operations under way.
    pub count: u32,
    /// Other threads of the rank may call MPI meanwhile.
    pub threads: bool,
    /// The first of them.
    pub items: Vec<Item>,
}

const SEND: u32 = 1 << 16;
const ANY_PEER: u32 = 1 << 17;
const ANY_TAG: u32 = 1 << 18;

impl Waiting {
    /// Falls asleep with `count` operations under way, some of which are `items`.
    pub fn fall_asleep(&self, threads: bool, count: u32, items: &[Item]) {
        self.count.store(count, Ordering::Relaxed);
        self.threads.store(threads.into(), Ordering::Relaxed);
        for (index, item) in items.iter().take(DESCRIBED).enumerate() {
            let (peer, tag) = (item.peer.unwrap_or(0), item.tag.unwrap_or(0));
            let flag = |set, flag| if set { flag } else { 0 };
            let place = u32::from(item.context)
                | flag(item.is_send, SEND)
                | flag(item.peer.is_none(), ANY_PEER)
                | flag(item.tag.is_none(), ANY_TAG);
            self.items[index].store(u64::from(peer) << 32 | u64::from(tag as u32), Ordering::Relaxed);
            self.places[index].store(place, Ordering::Relaxed);
        }
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn.wrapping_add(1) | 1, Ordering::Release);
    }

    /// Looks around between two naps.
    pub fn stir(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn & !1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Sleeps on after [`Waiting::stir`]: it is the same sleep.
    pub fn settle(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store(turn | 1, Ordering::Release);
    }

    /// Wakes.
    pub fn wake(&self) {
        let turn = self.turn.load(Ordering::Relaxed);
        self.turn.store((turn | 1).wrapping_add(1), Ordering::Relaxed);
        // What is written for the next sleep comes after.
        fence(Ordering::Release);
    }

    /// The account, while the rank sleeps.
    pub fn read(&self) -> Option<Account> {
        let turn = self.turn.load(Ordering::Acquire);
        if turn & 1 == 0 {
            return None;
        }
        let count = self.count.load(Ordering::Relaxed);
        let threads = self.threads.load(Ordering::Relaxed) != 0;
        let described = (count as usize).min(DESCRIBED);
        let items = self
            .items
            .iter()
            .zip(&self.places)
            .take(described)
            .map(|(item, place)| {
                let (item, place) = (item.load(Ordering::Relaxed), place.load(Ordering::Relaxed));
                Item {
                    is_send: place & SEND != 0,
                    peer: (place & ANY_PEER == 0).then_some((item >> 32) as u32),
                    tag: (place & ANY_TAG == 0).then_some(item as u32 as i32),
                    context: place as u16,
                }
            });
        let items = items.collect();
        fence(Ordering::Acquire);
        (self.turn.load(Ordering::Relaxed) == turn).then_some(Account {
            turn,
            count,
            threads,
            items,
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_sleeps_says_what_for() {
        let waiting = Waiting::default();
        assert_eq!(waiting.read(), None);
        let items = [
            Item {
                is_send: false,
                peer: Some(3),
                tag: None,
                context: 9,
            },
            Item {
                is_send: true,
                peer: None,
                tag: Some(-5),
                context: u16::MAX,
            },
        ];
        waiting.fall_asleep(false, 2, &items);
        let account = waiting.read().unwrap();
        assert_eq!(
            (account.count, account.threads, &account.items[..]),
            (2, false, &items[..])
        );
        waiting.stir();
        assert_eq!(waiting.read(), None);
        waiting.settle();
        assert_eq!(waiting.read().unwrap(), account);
        waiting.stir();
        waiting.wake();
        assert_eq!(waiting.read(), None);
        waiting.fall_asleep(true, 70, &items);
        let again = waiting.read().unwrap();
        assert_ne!(again.turn, account.turn);
        assert_eq!((again.count, again.items.len()), (70, DESCRIBED));
    }
}
