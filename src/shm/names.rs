//! Published names: which port a service is reached at (MPI-4.1 §11.9.4).
//!
//! ```text
//!  0        8          520     776
//! | state  | service  | port  |        bytes, the rest zero
//! ```
//! Who publishes claims a free entry (0 -> 1) and shows it when it is filled in (1 -> 2); who takes it back does the
//! same backwards. A reader believes what it has read if the entry was shown before and after, in the same showing.

use super::sync::{AtomicU64, Ordering, fence};

/// Names of a job at a time.
pub const NAMES: usize = 4096;
/// Longest name of a service, in bytes.
pub const SERVICE: usize = 511;
/// Longest name of a port.
pub const PORT: usize = 255;

/// In the lowest bits of a state: claimed, shown. The number of times it was shown stands above.
const CLAIMED: u64 = 1;
const SHOWN: u64 = 2;

/// One entry.
#[repr(C)]
#[derive(Debug)]
pub struct Name {
    state: AtomicU64,
    service: [AtomicU64; (SERVICE + 1) / 8],
    port: [AtomicU64; (PORT + 1) / 8],
}

fn write(words: &[AtomicU64], text: &str) {
    let mut bytes = text.bytes();
    for word in words {
        let eight = std::array::from_fn(|_| bytes.next().unwrap_or(0));
        word.store(u64::from_ne_bytes(eight), Ordering::Relaxed);
    }
}

fn read(words: &[AtomicU64]) -> String {
    let bytes = words.iter().flat_map(|word| word.load(Ordering::Relaxed).to_ne_bytes());
    let bytes: Vec<u8> = bytes.take_while(|&byte| byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Name {
    /// The port, if the entry shows one for `service`; and in which state.
    fn look(&self, service: &str) -> Option<(u64, String)> {
        let state = self.state.load(Ordering::Acquire);
        if state & 3 != SHOWN || read(&self.service) != service {
            return None;
        }
        let port = read(&self.port);
        std::sync::atomic::fence(Ordering::Acquire);
        (self.state.load(Ordering::Relaxed) == state).then_some((state, port))
    }
}

/// Why a name could not be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// There is one already.
    Taken,
    /// There are [`NAMES`] already.
    Full,
}

/// The port of `service`.
pub fn find(names: &[Name], service: &str) -> Option<String> {
    names.iter().find_map(|name| name.look(service)).map(|(_, port)| port)
}

/// Publishes `port` for `service`; neither is longer than it may be. Of two who publish the same at the same moment both may succeed.
///
/// # Errors
/// Why not.
pub fn publish(names: &[Name], service: &str, port: &str) -> Result<(), Refused> {
    if find(names, service).is_some() {
        return Err(Refused::Taken);
    }
    let claim = |name: &&Name| {
        let state = name.state.load(Ordering::Relaxed);
        let claim = || {
            name.state
                .compare_exchange(state, state | CLAIMED, Ordering::AcqRel, Ordering::Relaxed)
        };
        state & 3 == 0 && claim().is_ok()
    };
    let name = names.iter().find(claim).ok_or(Refused::Full)?;
    // Who sees a word of what follows sees the claim.
    fence(Ordering::Release);
    write(&name.service, service);
    write(&name.port, port);
    let state = name.state.load(Ordering::Relaxed);
    name.state.store(((state >> 2) + 1) << 2 | SHOWN, Ordering::Release);
    Ok(())
}

/// Takes a name back; whether there was one.
pub fn take_back(names: &[Name], service: &str) -> bool {
    names.iter().any(|name| {
        name.look(service).is_some_and(|(state, _)| {
            let gone = state & !3;
            name.state
                .compare_exchange(state, gone, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        })
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<Name> {
        let empty = || Name {
            state: AtomicU64::new(0),
            service: std::array::from_fn(|_| AtomicU64::new(0)),
            port: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        (0..count).map(|_| empty()).collect()
    }

    #[test]
    fn what_is_published_is_found_until_it_is_taken_back() {
        let names = names(2);
        assert_eq!(find(&names, ""), None);
        publish(&names, "ocean", "port 1").unwrap();
        assert_eq!(publish(&names, "ocean", "port 2"), Err(Refused::Taken));
        publish(&names, "", "port 3").unwrap();
        assert_eq!(publish(&names, "ice", "port 4"), Err(Refused::Full));
        assert_eq!(find(&names, "ocean").as_deref(), Some("port 1"));
        assert_eq!(find(&names, "").as_deref(), Some("port 3"));
        assert!(take_back(&names, "ocean") && !take_back(&names, "ocean"));
        assert_eq!(find(&names, "ocean"), None);
        publish(&names, "ice", "port 4").unwrap();
        assert_eq!(find(&names, "ice").as_deref(), Some("port 4"));
    }

    #[test]
    fn the_longest_names_fit() {
        let names = names(1);
        let (service, port) = ("s".repeat(SERVICE), "p".repeat(PORT));
        publish(&names, &service, &port).unwrap();
        assert_eq!(find(&names, &service), Some(port));
    }

    #[test]
    fn many_publish_at_the_same_time() {
        let names = names(64);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let names = &names;
                scope.spawn(move || {
                    for turn in 0..200 {
                        let (service, port) = (format!("{thread}.{turn}"), format!("at {thread}.{turn}"));
                        publish(names, &service, &port).unwrap();
                        assert_eq!(find(names, &service), Some(port));
                        assert!(take_back(names, &service));
                    }
                });
            }
        });
        assert!(names.iter().all(|name| name.state.load(Ordering::Relaxed) & 3 == 0));
    }
}
