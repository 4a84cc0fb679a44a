//! # Safety
//! Copies out of and into memory of other ranks that is mapped here too: an address that a rank tells counts only as far as it
//! lies within that rank's zone, which stays mapped as long as the channel.
//!
//! Memory of a rank that other ranks can reach. What MPI_Alloc_mem and windows allocate lies in the rank's zone, whose first
//! part the rank maps in one piece, its *home*. It says in its block where; whoever is told of an address in there maps that
//! part as well, once, and copies without the kernel. All other memory is reached by cross-memory attach, if the kernel lets it.
//! A home is as long as much of the machine's memory; what nothing has been allocated of yet is mapped, but closed.
#![allow(unsafe_code)]

use super::{Bytes, Channel};
use crate::shm::profile::Path;
use crate::shm::zone::View;
use crate::sys::{cma, copy, memory};
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Bytes that are opened at least.
const LEAST: usize = 1 << 20;

/// Homes as this rank has mapped them.
pub(super) struct Homes {
    /// Addresses of the own one; empty while it is not mapped. It stays mapped when MPI is finalized, for the program may still
    /// have memory from malloc in it.
    range: Range<usize>,
    /// So many bytes of it are open.
    open: usize,
    /// Bytes of a home at most.
    most: usize,
    /// Everybody's, by rank.
    theirs: Vec<Theirs>,
}

#[derive(Default)]
enum Theirs {
    #[default]
    Unknown,
    /// The view of it; where the peer has said that it has it; and how many bytes of it are open.
    Seen(View, u64, usize),
    Never,
}

/// Bytes of another rank's memory.
#[derive(Clone, Copy, Debug)]
pub enum There {
    /// They lie here in this process as well.
    Mapped(*mut u8),
    /// In the process of this number, from this address on.
    Process(i32, u64),
}

impl There {
    /// What a profile calls this way.
    pub fn path(self) -> Path {
        match self {
            There::Mapped(_) => Path::Mapped,
            There::Process(..) => Path::OneCopy,
        }
    }

    /// Copies `len` bytes, from byte `at` on, to `to`.
    ///
    /// # Errors
    /// As [`cma::read`].
    ///
    /// # Safety
    /// They are within what was asked for; `to` has room for them.
    pub unsafe fn read(self, at: usize, to: *mut u8, len: usize) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                There::Mapped(base) => copy::bytes(base.add(at), to, len),
                There::Process(pid, address) => cma::read(pid, address.wrapping_add(at as u64), to, len)?,
            }
        }
        Ok(())
    }

    /// Copies `len` bytes at `from` there, from byte `at` on.
    ///
    /// # Errors
    /// As [`cma::write`].
    ///
    /// # Safety
    /// As [`There::read`], of `from`.
    pub unsafe fn write(self, at: usize, from: *const u8, len: usize) -> io::Result<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                There::Mapped(base) => copy::bytes(from, base.add(at), len),
                There::Process(pid, address) => cma::write(pid, address.wrapping_add(at as u64), from, len)?,
            }
        }
        Ok(())
    }
}

impl Homes {
    /// Those of a job of `ranks`, of up to `most` bytes each.
    pub fn new(ranks: u32, most: usize) -> Homes {
        let mut homes = Homes {
            range: 0..0,
            open: 0,
            most,
            theirs: Vec::new(),
        };
        homes.grow(ranks);
        homes
    }

    /// The job has `ranks` ranks now.
    pub fn grow(&mut self, ranks: u32) {
        self.theirs.resize_with(ranks as usize, || Theirs::Unknown);
    }

    /// Whether `len` bytes at `at` lie in this rank's home.
    #[inline]
    pub fn has(&self, at: *const u8, len: usize) -> bool {
        let at = at as usize;
        at >= self.range.start && at < self.range.end && len <= self.range.end - at
    }
}

impl<B: Bytes> Channel<B> {
    /// This rank's home, mapped and made known at first; `None` where there can be none, `NEARMPI_DIRECT_MIN` is 0, or a mapping would
    /// fill as much memory.
    pub fn home(&mut self) -> Option<Range<usize>> {
        if self.homes.range.is_empty() && self.settings.direct_min > 0 {
            let len = self.homes.most;
            if len == 0 || memory::is_made_at_once() {
                return None;
            }
            let view = self.segment.closed_view(self.me, len).ok()?;
            let base = std::mem::ManuallyDrop::new(view).base() as usize;
            self.homes.range = base..base + len;
            self.block.home_len.store(len as u64, Ordering::Relaxed);
            self.block.home.store(base as u64, Ordering::Release);
        }
        (!self.homes.range.is_empty()).then(|| self.homes.range.clone())
    }

    /// Opens this rank's home, which is mapped, up to byte `end`, for others (as they are told of it) and this rank; whether that was possible.
    pub fn open_home(&mut self, end: usize, is_dumped: bool) -> bool {
        let homes = &mut self.homes;
        if end > homes.range.len() {
            return false;
        }
        if end > homes.open {
            let more = ahead(homes.open, end, homes.range.len());
            let at = (homes.range.start + homes.open) as *mut u8;
            // SAFETY: this is the rest of the home, which this rank has mapped.
            if unsafe { memory::open(at, more - homes.open, is_dumped) }.is_err() {
                return false;
            }
            homes.open = more;
        }
        true
    }

    /// Whether `len` bytes at `at` lie where other ranks may map them.
    #[inline]
    pub fn is_home(&self, at: *const u8, len: usize) -> bool {
        self.homes.has(at, len)
    }

    /// Where `len` bytes at `address` of `peer`'s memory can be reached; `None`: nowhere.
    pub fn reach_memory(&mut self, peer: u32, address: u64, len: usize) -> Option<There> {
        if let Some(at) = self.mapped(peer, address, len) {
            return Some(There::Mapped(at));
        }
        Some(There::Process(self.process_of(peer)?, address))
    }

    /// Where this process sees those bytes, if they lie in the peer's home. What it says of that is read once: it shares a line with what
    /// the peer writes often.
    #[inline]
    pub fn mapped(&mut self, peer: u32, address: u64, len: usize) -> Option<*mut u8> {
        if let Theirs::Seen(view, base, home) = &self.homes.theirs[peer as usize]
            && let Some(offset) = within(*base, *home, address, len)
        {
            return Some(view.base().wrapping_add(offset));
        }
        self.map(peer, address, len)
    }

    /// As if `peer`'s home could not be mapped.
    #[cfg(test)]
    pub fn never_map(&mut self, peer: u32) {
        self.homes.theirs[peer as usize] = Theirs::Never;
    }

    /// As [`Channel::mapped`], of what the peer says now.
    fn map(&mut self, peer: u32, address: u64, len: usize) -> Option<*mut u8> {
        let block = self.segment.rank(peer);
        let base = block.home.load(Ordering::Acquire);
        if base == 0 || self.settings.direct_min == 0 {
            return None;
        }
        let home = usize::try_from(block.home_len.load(Ordering::Relaxed)).ok()?;
        let home = home.min(self.homes.most);
        let offset = within(base, home, address, len)?;
        let theirs = &mut self.homes.theirs[peer as usize];
        if matches!(theirs, Theirs::Unknown) {
            *theirs = match self.segment.closed_view(peer, self.homes.most) {
                Ok(view) if !memory::is_made_at_once() => Theirs::Seen(view, base, 0),
                _ => Theirs::Never,
            };
        }
        let Theirs::Seen(view, told, open) = theirs else {
            return None;
        };
        *told = base;
        if offset + len > *open {
            let more = ahead(*open, offset + len, self.homes.most);
            // SAFETY: this is more of the view, which has as many bytes as a home at most.
            unsafe { memory::open(view.base().wrapping_add(*open), more - *open, false) }.ok()?;
            *open = more;
        }
        Some(view.base().wrapping_add(offset))
    }
}

/// How far a home of `most` bytes is opened for byte `end` to be open: by as much again, so that it is seldom done.
fn ahead(open: usize, end: usize, most: usize) -> usize {
    end.max(2 * open).next_multiple_of(LEAST).min(most)
}

/// How far `address` lies behind `base`, if `len` bytes there are within `home` bytes.
fn within(base: u64, home: usize, address: u64, len: usize) -> Option<usize> {
    let offset = usize::try_from(address.checked_sub(base)?).ok()?;
    (offset < home && len <= home - offset).then_some(offset)
}

#[cfg(test)]
mod tests {
    use super::super::Arrival;
    use super::super::joint::tests::{LEN, Plain, channels};
    use super::super::outgoing::Terms;
    use super::super::packet::Way;
    use super::super::pull::Brought;
    use super::*;

    /// Rank 0 with its home, and rank 1.
    fn pair() -> (Channel<Plain>, Channel<Plain>, Range<usize>) {
        let (mut owner, other) = channels();
        let home = owner.home().unwrap();
        (owner, other, home)
    }

    #[test]
    fn of_a_peers_memory_only_its_home_is_mapped() {
        let (mut owner, mut other, home) = pair();
        let (start, len) = (home.start as u64, home.len());
        assert_eq!(owner.home(), Some(home.clone()), "it is mapped once");
        let mut mapped = |address, len| other.mapped(0, address, len).is_some();
        assert!(mapped(start, len) && mapped(start + 4096, len - 4096));
        assert!(!mapped(start, len + 1) && !mapped(start + 1, len) && !mapped(start + len as u64, 1));
        assert!(!mapped(start - 1, 2) && !mapped(8, 1) && !mapped(u64::MAX, usize::MAX));
        assert!(owner.mapped(1, start, 1).is_none(), "the other one has none");
        assert!(matches!(other.reach_memory(0, 8, 1), Some(There::Process(_, 8))));
        other.settings.one_copy = 0;
        assert!(other.reach_memory(0, 8, 1).is_none() && other.reach_memory(0, start, 1).is_some());
        let (_owner, mut off, home) = pair();
        off.settings.direct_min = 0;
        assert!(off.mapped(0, home.start as u64, 1).is_none());
    }

    #[test]
    fn junk_about_a_home_leads_nowhere_else() {
        let (owner, mut other, home) = pair();
        let block = owner.segment.rank(0);
        for (base, len) in [
            (1, u64::MAX),
            (u64::MAX - 7, u64::MAX),
            (home.start as u64, u64::MAX),
            (4096, 0),
        ] {
            block.home.store(base, Ordering::Relaxed);
            block.home_len.store(len, Ordering::Relaxed);
            for at in [0, 1, 4095, home.len() as u64 - 1, home.len() as u64, u64::MAX / 2] {
                let address = base.wrapping_add(at);
                let view = other.mapped(0, address, 8).map(|found| found as usize);
                assert!(
                    view.is_none_or(|found| at + 8 <= home.len() as u64 && home.contains(&found)),
                    "{base:x} {len:x} {at}"
                );
            }
        }
    }

    #[test]
    fn a_message_in_a_home_needs_no_kernel() {
        for way in [Way::Pull, Way::Join] {
            let (mut sender, mut receiver, home) = pair();
            sender.never_read(1);
            receiver.never_read(0);
            let message = Plain(home.start as *mut u8, LEN);
            // SAFETY: the home has so many bytes, which nobody else uses.
            let source = unsafe { std::slice::from_raw_parts_mut(message.0, LEN) };
            source
                .iter_mut()
                .enumerate()
                .for_each(|(at, byte)| *byte = ((at * 7) ^ (at >> 9)) as u8);
            sender.offer(1, 5, &message, 3, way, Terms::default()).unwrap().unwrap();
            let Ok(Some(Arrival::Offer { offered, .. })) = receiver.poll(None) else {
                panic!("no offer came");
            };
            assert!(receiver.claim(&offered));
            let mut target = vec![0; LEN];
            let into = Plain(target.as_mut_ptr(), LEN);
            let mut brought = receiver.bring(&offered, &into, LEN, 7).unwrap();
            if way == Way::Join {
                // The sender cannot write to memory outside of a home, and says so.
                assert_eq!(brought, Brought::Later);
                assert!(matches!(receiver.poll(None), Ok(Some(Arrival::Whole { .. }))));
                brought = Brought::Copied;
            }
            assert_eq!(brought, Brought::Copied);
            assert!(target == source);
            assert_eq!((receiver.counters.one_copies, receiver.counters.streams), (1, 0));
        }
    }

    #[test]
    fn a_sender_writes_into_its_receivers_home() {
        let (mut receiver, mut sender, home) = pair();
        sender.never_read(0);
        receiver.never_read(1);
        let mut source: Vec<u8> = (0..LEN).map(|at| ((at * 5) ^ (at >> 7)) as u8).collect();
        let target = home.start as *mut u8;
        let there = sender.reach_memory(0, target as u64 + 64, LEN).unwrap();
        // SAFETY: the home has so many bytes.
        unsafe { there.write(3, source.as_mut_ptr(), LEN - 3) }.unwrap();
        // SAFETY: as above.
        let seen = unsafe { std::slice::from_raw_parts(target.add(67), LEN - 3) };
        assert!(seen == &source[..LEN - 3]);
    }
}
