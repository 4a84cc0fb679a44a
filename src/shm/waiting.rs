//! What a sleeping rank waits for, as the launcher may read it at any time.
//!
//! Only the rank writes here, and only when it falls asleep or wakes. `turn` is odd while it sleeps
//! (not while it looks around between two naps), and another for another sleep; a reader that finds the same
//! `turn` before and after has read what belongs together. Readers believe nothing: every number is checked before it is used.

use super::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Operations that are described; of more only the number is known.
pub const DESCRIBED: usize = 4;
/// Messages that nearly match that are described.
pub const NEAR: usize = 2;
/// Bytes of a communicator's name that are told.
pub const NAME: usize = 32;

/// A rank's account of its sleep.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Waiting {
    turn: AtomicU32,
    /// Operations under way.
    count: AtomicU32,
    flags: AtomicU32,
    near_count: AtomicU32,
    /// When it fell asleep: nanoseconds of CLOCK_MONOTONIC.
    since: AtomicU64,
    items: [AtomicU64; DESCRIBED],
    places: [AtomicU32; DESCRIBED],
    lens: [AtomicU64; DESCRIBED],
    near: [AtomicU64; NEAR],
    near_lens: [AtomicU64; NEAR],
    /// Name of the communicator of the first item, if the program gave it one.
    name: [AtomicU64; NAME / 8],
}

/// An operation under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// A send, not a receive.
    pub is_send: bool,
    /// What member `len` of a window has to say, or its lock, of which nobody knows who holds it.
    pub is_member: bool,
    /// Rank in the job of the other side; `None`: any.
    pub peer: Option<u32>,
    /// Its rank in the communicator; `None`: any.
    pub place: Option<u32>,
    /// Tag; `None`: any.
    pub tag: Option<i32>,
    /// Context number.
    pub context: u16,
    /// Bytes of the message, or of the room for it.
    pub len: u64,
}

/// A message that has come and is not received, though it resembles what is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near {
    /// Its envelope: source in the communicator, context, tag.
    pub envelope: u64,
    /// Its bytes.
    pub len: u64,
}

/// What a rank says when it falls asleep, and what a reader sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Changes with each sleep.
    pub turn: u32,
    /// Operations under way.
    pub count: u32,
    /// Other threads of the rank, if it has some, may call MPI meanwhile.
    pub threads: bool,
    /// Something that is not MPI may end what it waits for.
    pub outside: bool,
    /// The first item is what the rank waits for, and nothing else is.
    pub is_certain: bool,
    /// When it fell asleep: nanoseconds of CLOCK_MONOTONIC.
    pub since: u64,
    /// The first operations.
    pub items: Vec<Item>,
    /// Messages that nearly match the first.
    pub near: Vec<Near>,
    /// Name of the first item's communicator; empty if it has none.
    pub name: String,
}

const SEND: u32 = 1 << 16;
const ANY_PEER: u32 = 1 << 17;
const ANY_TAG: u32 = 1 << 18;
const MEMBER: u32 = 1 << 19;

const THREADS: u32 = 1;
const CERTAIN: u32 = 2;
const OUTSIDE: u32 = 4;

impl Waiting {
    /// Falls asleep. The account's `turn` does not count.
    pub fn fall_asleep(&self, account: &Account) {
        let flag = |set, flag| if set { flag } else { 0 };
        let store = |word: &AtomicU64, value| word.store(value, Ordering::Relaxed);
        self.count.store(account.count, Ordering::Relaxed);
        let flags = flag(account.threads, THREADS) | flag(account.is_certain, CERTAIN) | flag(account.outside, OUTSIDE);
        self.flags.store(flags, Ordering::Relaxed);
        store(&self.since, account.since);
        for (index, item) in account.items.iter().take(DESCRIBED).enumerate() {
            let (peer, tag) = (item.peer.unwrap_or(0), item.tag.unwrap_or(0));
            let rank = u64::from(item.place.unwrap_or(peer)) << 48 | u64::from(peer as u16) << 32;
            let place = u32::from(item.context)
                | flag(item.is_send, SEND)
                | flag(item.is_member, MEMBER)
                | flag(item.peer.is_none(), ANY_PEER)
                | flag(item.tag.is_none(), ANY_TAG);
            store(&self.items[index], rank | u64::from(tag as u32));
            self.places[index].store(place, Ordering::Relaxed);
            store(&self.lens[index], item.len);
        }
        let near = account.near.iter().take(NEAR);
        self.near_count.store(near.len() as u32, Ordering::Relaxed);
        for (index, message) in near.enumerate() {
            store(&self.near[index], message.envelope);
            store(&self.near_lens[index], message.len);
        }
        let mut name = [0; NAME];
        let len = account.name.len().min(NAME);
        name[..len].copy_from_slice(&account.name.as_bytes()[..len]);
        for (word, part) in self.name.iter().zip(name.as_chunks::<8>().0) {
            store(word, u64::from_le_bytes(*part));
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
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let count = self.count.load(Ordering::Relaxed);
        let flags = self.flags.load(Ordering::Relaxed);
        let since = load(&self.since);
        let item = |index: usize| {
            let (item, place) = (load(&self.items[index]), self.places[index].load(Ordering::Relaxed));
            let known = place & ANY_PEER == 0;
            Item {
                is_send: place & SEND != 0,
                is_member: place & MEMBER != 0,
                peer: known.then_some((item >> 32) as u32 & 0xffff),
                place: known.then_some((item >> 48) as u32),
                tag: (place & ANY_TAG == 0).then_some(item as u32 as i32),
                context: place as u16,
                len: load(&self.lens[index]),
            }
        };
        let items = (0..DESCRIBED.min(count as usize)).map(item).collect();
        let near = |index: usize| Near {
            envelope: load(&self.near[index]),
            len: load(&self.near_lens[index]),
        };
        let near_count = NEAR.min(self.near_count.load(Ordering::Relaxed) as usize);
        let near = (0..near_count).map(near).collect();
        let name: Vec<u8> = self.name.iter().flat_map(|word| load(word).to_le_bytes()).collect();
        let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        fence(Ordering::Acquire);
        (self.turn.load(Ordering::Relaxed) == turn).then_some(Account {
            turn,
            count,
            threads: flags & THREADS != 0,
            outside: flags & OUTSIDE != 0,
            is_certain: flags & CERTAIN != 0,
            since,
            items,
            near,
            name,
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
        let items = vec![
            Item {
                peer: Some(3),
                place: Some(1),
                context: 9,
                len: 1 << 40,
                ..Item::default()
            },
            Item {
                is_send: true,
                is_member: true,
                tag: Some(-5),
                context: u16::MAX,
                ..Item::default()
            },
        ];
        let near = vec![Near {
            envelope: u64::MAX - 1,
            len: 8,
        }];
        let said = Account {
            count: 2,
            is_certain: true,
            since: 77,
            items: items.clone(),
            near,
            name: "left".into(),
            ..Account::default()
        };
        waiting.fall_asleep(&said);
        let account = waiting.read().unwrap();
        assert_eq!(account, Account { turn: 1, ..said });
        waiting.stir();
        assert_eq!(waiting.read(), None);
        waiting.settle();
        assert_eq!(waiting.read().unwrap(), account);
        waiting.stir();
        waiting.wake();
        assert_eq!(waiting.read(), None);
        waiting.fall_asleep(&Account {
            count: 70,
            threads: true,
            outside: true,
            items: vec![items[0]; 6],
            name: "ä".repeat(40),
            ..Account::default()
        });
        let again = waiting.read().unwrap();
        assert_ne!(again.turn, account.turn);
        assert_eq!((again.count, again.threads, again.is_certain), (70, true, false));
        assert!(again.outside && !account.outside);
        assert_eq!((again.items.len(), again.near.len()), (DESCRIBED, 0));
        assert_eq!(again.name, "ä".repeat(NAME / 2));
    }
}
