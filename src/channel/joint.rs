//! # Safety
//! Copies between buffers of the application and another process's memory, through the kernel's checks.
//!
//! Both sides copy: a large message is cut into chunks that its receiver reads from the front while its
//! sender writes from the back (LiMIC 2005 §4.3: who comes later starts, at once). The receiver invites with
//! a Join and starts; the sender helps when it looks at its rings, or never. See [`crate::shm::offer`] for how
//! chunks are claimed and who ends the transfer.
#![allow(unsafe_code)]

use super::direct::There;
use super::packet::{Join, Offered, Record};
use super::pull::Brought;
use super::{Arrival, Bytes, Channel, Fault, Ticket};
use crate::shm::layout::PAGE;
use crate::shm::offer::{CHUNKS, End, Junk};

/// A message that both sides copy, and that is not whole yet.
pub(super) struct Joint<B> {
    offered: Offered,
    token: u32,
    into: B,
    wanted: usize,
    cut: Cut,
    /// Nothing is left to claim: the sender copies the last chunk.
    claimed: bool,
}

/// Where a message's chunks lie.
#[derive(Clone, Copy)]
struct Cut {
    source: There,
    local: *mut u8,
    wanted: usize,
    chunk: usize,
    chunks: u32,
}

/// What has become of the next chunk from the front.
enum Next {
    /// It is copied.
    Copied,
    /// ... and with it the message is whole.
    Whole,
    /// The sender has claimed it.
    Claimed,
    /// It can't be copied: the message goes through cells.
    Refused,
}

impl<B: Bytes> Channel<B> {
    /// Bytes of a chunk of a message of `len` bytes, in whole pages: both sides get some, and neither waits long
    /// for the other's last one.
    fn chunk(&self, len: usize) -> usize {
        let most = self.settings.join_chunk as usize;
        let chunk = (len / 2).clamp(most.min(JOIN_LEAST), most).max(len.div_ceil(CHUNKS));
        chunk.next_multiple_of(PAGE)
    }

    /// Receives the first `wanted` bytes of a claimed offer together with its sender; `None` when it cannot. The half at the back is
    /// the sender's as long as this rank has anything else to do ([`Channel::help`]): of messages in a row into one buffer each side
    /// then writes the same part, which its own cache holds.
    pub(super) fn share(
        &mut self,
        offered: &Offered,
        into: &B,
        wanted: usize,
        token: u32,
    ) -> Result<Option<Brought>, Fault> {
        let from = offered.from;
        let (Some(address), Some(local)) = (self.address_of(offered), into.in_a_row()) else {
            return Ok(None);
        };
        if self.checked {
            return Ok(None);
        }
        let chunk = self.chunk(wanted);
        let chunks = wanted.div_ceil(chunk) as u32;
        let (2.., Some(source)) = (chunks, self.reach_memory(from, address, wanted)) else {
            return Ok(None);
        };
        let join = Join {
            id: offered.id,
            token,
            wanted: wanted as u64,
            address: local as u64,
            chunk: chunk as u64,
        };
        self.control(from, Record::join(&join))?;
        let cut = Cut {
            source,
            local,
            wanted,
            chunk,
            chunks,
        };
        let mut claimed = false;
        for _ in 0..chunks / 2 {
            match self.copy_next(offered, &cut)? {
                Next::Copied => {}
                Next::Whole => return Ok(Some(Brought::Copied)),
                Next::Claimed => {
                    claimed = true;
                    break;
                }
                Next::Refused => {
                    self.clear(offered, token, wanted)?;
                    return Ok(Some(Brought::Later));
                }
            }
        }
        self.joints.push(Joint {
            offered: *offered,
            token,
            into: into.clone(),
            wanted,
            cut,
            claimed,
        });
        Ok(Some(Brought::Later))
    }

    /// Whether messages to this rank are copied by both sides and are not whole yet.
    #[inline]
    pub fn shares(&self) -> bool {
        !self.joints.is_empty()
    }

    /// Nothing else has come: copies what no sender has got to yet, until something does.
    pub(super) fn help(&mut self) -> Result<Option<Arrival>, Fault> {
        while let Some(index) = self.joints.iter().position(|joint| !joint.claimed) {
            let (offered, cut) = (self.joints[index].offered, self.joints[index].cut);
            match self.copy_next(&offered, &cut)? {
                Next::Copied if self.has_next(offered.from) => break,
                Next::Copied => {}
                Next::Claimed => self.joints[index].claimed = true,
                Next::Whole => {
                    let (from, token) = (offered.from, self.joints.swap_remove(index).token);
                    return Ok(Some(Arrival::Whole { from, token }));
                }
                Next::Refused => {
                    let joint = self.joints.swap_remove(index);
                    self.clear(&offered, joint.token, joint.wanted)?;
                }
            }
        }
        Ok(None)
    }

    /// Claims the next chunk from the front and copies it.
    fn copy_next(&mut self, offered: &Offered, cut: &Cut) -> Result<Next, Fault> {
        let (from, segment) = (offered.from, self.segment.clone());
        let offer = segment.offer(from, offered.id.index).ok_or(Fault { from })?;
        let Some(index) = offer.claim(offered.id.usage, End::Front, cut.chunks) else {
            return Ok(Next::Claimed);
        };
        let at = index as usize * cut.chunk;
        let len = cut.chunk.min(cut.wanted - at);
        // SAFETY: these bytes lie within the first `wanted` of the message and of the receive buffer.
        if let Err(error) = unsafe { cut.source.read(at, cut.local.add(at), len) } {
            offer.stop();
            self.say(format_args!("reads rank {from} through cells: {error}"));
            return Ok(Next::Refused);
        }
        if offer.finish(cut.chunks).map_err(|Junk| Fault { from })? {
            self.counters.one_copies += 1;
            self.finish_offer(from, offered.id)?;
            return Ok(Next::Whole);
        }
        Ok(Next::Copied)
    }

    /// The sender's part; the ticket of the message when that ended the transfer.
    pub(super) fn join_in(&mut self, from: u32, join: &Join) -> Result<Option<Ticket>, Fault> {
        let fault = Fault { from };
        let (local, len) = self.offered_memory(join.id, from).ok_or(fault)?;
        let wanted = usize::try_from(join.wanted).ok().filter(|&wanted| wanted <= len);
        let (wanted, chunk) = (wanted.ok_or(fault)?, join.chunk.min(join.wanted) as usize);
        let chunks = wanted.div_ceil(chunk) as u32;
        let Some(target) = self.reach_memory(from, join.address, wanted) else {
            return Ok(None);
        };
        let segment = self.segment.clone();
        let offer = segment.offer(self.me, join.id.index).ok_or(fault)?;
        while let Some(index) = offer.claim(join.id.usage, End::Back, chunks) {
            let at = index as usize * chunk;
            let len = chunk.min(wanted - at);
            // SAFETY: these bytes lie within the message, whose memory is ours until it is sent, and within what is wanted.
            if let Err(error) = unsafe { target.write(at, local.add(at), len) } {
                offer.stop();
                self.say(format_args!("cannot write to rank {from}: {error}"));
                self.control(from, Record::joined(join.token, false))?;
                return Ok(None);
            }
            self.counters.written += 1;
            if offer.finish(chunks).map_err(|Junk| fault)? {
                self.control(from, Record::joined(join.token, true))?;
                return self.close_offer(from, join.id);
            }
        }
        Ok(None)
    }

    /// The sender says how its part has ended; the token of the message when that is whole now.
    pub(super) fn end_joint(&mut self, from: u32, token: u32, whole: bool) -> Result<Option<u32>, Fault> {
        let same = |joint: &Joint<B>| joint.token == token && joint.offered.from == from;
        let Some(index) = self.joints.iter().position(same) else {
            // Both have failed, and the message comes through cells.
            return if whole { Err(Fault { from }) } else { Ok(None) };
        };
        let joint = self.joints.swap_remove(index);
        if whole {
            self.counters.one_copies += 1;
            return Ok(Some(token));
        }
        let alone = self.bring_alone(&joint.offered, &joint.into, joint.wanted, token)?;
        Ok((alone == Brought::Copied).then_some(token))
    }

    /// Ends what `dead` was to help with; returns the tokens.
    pub(super) fn leave_joints(&mut self, dead: u32) -> Vec<u32> {
        let (gone, left) = self.joints.drain(..).partition(|joint| joint.offered.from == dead);
        self.joints = left;
        Vec::into_iter(gone).map(|joint: Joint<B>| joint.token).collect()
    }

    /// A line for whoever asked for them.
    pub(super) fn say(&self, what: std::fmt::Arguments) {
        if self.settings.debug > 0 {
            let line = format!("nearmpi: rank {} {what}\n", self.me);
            // The macro would panic where nobody reads.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        }
    }
}

/// Chunks are not cut smaller than this: a system call and two claims each.
pub(super) const JOIN_LEAST: usize = 16 << 10;

#[cfg(test)]
pub(super) mod tests {
    use super::super::outgoing::Terms;
    use super::super::packet::{OfferId, Way, kind};
    use super::*;
    use crate::shm::profile::Path;
    use crate::shm::ring::Header;
    use crate::shm::segment::Segment;
    use crate::sys::cvar::Settings;
    use std::sync::Arc;

    #[derive(Clone)]
    pub struct Plain(pub *mut u8, pub usize);

    impl Bytes for Plain {
        fn len(&self) -> usize {
            self.1
        }
        fn in_a_row(&self) -> Option<*mut u8> {
            Some(self.0)
        }
        fn kept(&self) -> Plain {
            let mut copy = vec![0; self.1];
            // SAFETY: both have as many bytes.
            unsafe { self.take(0, copy.as_mut_ptr(), self.1) };
            Plain(copy.leak().as_mut_ptr(), self.1)
        }
        unsafe fn take(&self, position: usize, to: *mut u8, len: usize) {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(self.0.add(position), to, len) }
        }
        unsafe fn put(&self, position: usize, from: *const u8, len: usize) {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(from, self.0.add(position), len) }
        }
    }

    pub const LEN: usize = 300_000;
    const TOKEN: u32 = 7;

    /// A sender (rank 0), a receiver (rank 1), and an offer that the receiver has claimed.
    struct Pair {
        sender: Channel<Plain>,
        receiver: Channel<Plain>,
        offered: Offered,
        source: Vec<u8>,
        target: Vec<u8>,
    }

    /// Ranks 0 and 1 of a job.
    pub fn channels() -> (Channel<Plain>, Channel<Plain>) {
        let segment = Arc::new(Segment::private(2, 2).unwrap());
        let settings = Settings::read(|_| None).unwrap();
        let sender = Channel::join(segment.clone(), 0, settings.clone());
        (sender, Channel::join(segment, 1, settings))
    }

    /// Puts what is streamed to `receiver` into `into`.
    pub fn drain(receiver: &mut Channel<Plain>, into: &Plain) {
        while let Some(arrival) = receiver.poll(None).unwrap() {
            let Arrival::Data { from, portion, .. } = arrival else {
                panic!("{arrival:?}");
            };
            receiver.empty_cells(from, &portion, |position, data, len| {
                // SAFETY: the cell holds `len` bytes; `into` has room for all of the message.
                unsafe { into.put(position, data, len) };
            });
            receiver.consume(from);
        }
    }

    fn pair() -> Pair {
        let (mut sender, mut receiver) = channels();
        let mut source: Vec<u8> = (0..LEN).map(|at| ((at * 7) ^ (at >> 9)) as u8).collect();
        let message = Plain(source.as_mut_ptr(), LEN);
        sender
            .offer(1, 5, &message, 3, Way::Join, Terms::default())
            .unwrap()
            .unwrap();
        let Ok(Some(Arrival::Offer { offered, .. })) = receiver.poll(None) else {
            panic!("no offer came");
        };
        assert!(offered.way == Way::Join && receiver.claim(&offered));
        let target = vec![0; LEN];
        Pair {
            sender,
            receiver,
            offered,
            source,
            target,
        }
    }

    impl Pair {
        fn bring(&mut self) -> Brought {
            let into = Plain(self.target.as_mut_ptr(), LEN);
            self.receiver.bring(&self.offered, &into, LEN, TOKEN).unwrap()
        }

        /// Claims the last chunk, as a sender does that takes long to copy it; returns where it starts.
        fn claim_last(&self) -> (usize, u32) {
            let chunk = self.receiver.chunk(LEN);
            let chunks = LEN.div_ceil(chunk) as u32;
            let segment = self.sender.segment.clone();
            let offer = segment.offer(0, self.offered.id.index).unwrap();
            let usage = self.offered.id.usage;
            assert_eq!(offer.claim(usage, End::Back, chunks), Some(chunks - 1));
            ((chunks as usize - 1) * chunk, chunks)
        }

        fn receiver_gets_whole(&mut self) {
            let arrival = self.receiver.poll(None);
            assert!(
                matches!(arrival, Ok(Some(Arrival::Whole { from: 0, token: TOKEN }))),
                "{arrival:?}"
            );
            assert!(self.target == self.source);
        }
    }

    #[test]
    fn a_receiver_whose_sender_is_away_copies_all_when_nothing_else_is_to_be_done() {
        let mut pair = pair();
        pair.receiver.settings.join_chunk = 1 << 16;
        let (chunk, offer) = (1 << 16, Plain(pair.source.as_mut_ptr(), LEN));
        let mut another = || {
            let sent = pair.sender.offer(1, 6, &offer, 4, Way::Join, Terms::default());
            assert!(sent.unwrap().is_some());
        };
        another();
        let into = Plain(pair.target.as_mut_ptr(), LEN);
        let bring = |receiver: &mut Channel<Plain>| receiver.bring(&pair.offered, &into, LEN, TOKEN).unwrap();
        assert_eq!(bring(&mut pair.receiver), Brought::Later);
        let copied = |target: &[u8], chunks: usize| {
            let len = (chunks * chunk).min(LEN);
            target[..len] == pair.source[..len] && target[len..].iter().all(|&byte| byte == 0)
        };
        assert!(copied(&pair.target, 2), "the half at the back is the sender's");
        let comes = |receiver: &mut Channel<Plain>| matches!(receiver.poll(None), Ok(Some(Arrival::Offer { .. })));
        assert!(comes(&mut pair.receiver) && copied(&pair.target, 2));
        another();
        assert!(matches!(pair.receiver.help(), Ok(None)));
        assert!(copied(&pair.target, 3) && pair.receiver.shares());
        assert!(comes(&mut pair.receiver));
        pair.receiver_gets_whole();
        // The invitation comes too late, the news of the end does not.
        assert!(matches!(pair.sender.poll(None), Ok(Some(Arrival::Sent(3)))));
        assert_eq!(pair.sender.counters.written, 0);
    }

    #[test]
    fn who_is_checked_by_valgrind_copies_all_that_it_receives() {
        let mut pair = pair();
        pair.receiver.checked = true;
        assert_eq!(pair.bring(), Brought::Copied);
        assert!(pair.target == pair.source && !pair.receiver.shares());
    }

    #[test]
    fn what_can_be_read_no_more_comes_through_cells_from_its_beginning() {
        let mut pair = pair();
        assert_eq!(pair.bring(), Brought::Later);
        pair.receiver.joints[0].cut.source = There::Process(std::process::id() as i32, 8);
        assert!(matches!(pair.receiver.help(), Ok(None)));
        assert!(!pair.receiver.shares());
        while !matches!(pair.sender.poll(None), Ok(Some(Arrival::Sent(3)))) {
            drain(&mut pair.receiver, &Plain(pair.target.as_mut_ptr(), LEN));
        }
        drain(&mut pair.receiver, &Plain(pair.target.as_mut_ptr(), LEN));
        assert!(pair.target == pair.source);
    }

    #[test]
    fn of_two_that_send_to_each_other_each_copies_what_it_receives() {
        let mut pair = pair();
        let mut other = vec![1u8; LEN];
        let message = Plain(other.as_mut_ptr(), LEN);
        // Learning counts what is under way from the first plan on.
        pair.receiver.plan(0, &message);
        pair.receiver
            .offer(0, 5, &message, 4, Way::Join, Terms::default())
            .unwrap()
            .unwrap();
        assert_eq!(pair.bring(), Brought::Copied);
        assert!(pair.target == pair.source);
        assert_eq!(pair.receiver.path, Path::OneCopy);
    }

    #[test]
    fn who_copies_the_last_chunk_tells_the_other() {
        let mut pair = pair();
        let (start, chunks) = pair.claim_last();
        assert_eq!(pair.bring(), Brought::Later);
        assert!(pair.target[..start] == pair.source[..start] && pair.target[start] == 0);
        pair.target[start..].copy_from_slice(&pair.source[start..]);
        let offer = pair.sender.segment.offer(0, pair.offered.id.index).unwrap();
        assert_eq!(offer.finish(chunks), Ok(true));
        pair.sender.control(1, Record::joined(TOKEN, true)).unwrap();
        pair.receiver_gets_whole();
    }

    #[test]
    fn a_sender_writes_into_its_receivers_memory() {
        let mut pair = pair();
        let join = Join {
            id: pair.offered.id,
            token: TOKEN,
            wanted: LEN as u64,
            address: pair.target.as_ptr() as u64,
            chunk: 4096,
        };
        assert_eq!(pair.sender.join_in(1, &join), Ok(Some(3)));
        assert!(pair.target == pair.source);
        assert_eq!(pair.sender.counters.written, LEN.div_ceil(4096) as u64);
    }

    #[test]
    fn a_receiver_whose_sender_cannot_write_goes_on_alone() {
        let mut pair = pair();
        pair.claim_last();
        assert_eq!(pair.bring(), Brought::Later);
        pair.sender.control(1, Record::joined(TOKEN, false)).unwrap();
        pair.receiver_gets_whole();
    }

    #[test]
    fn a_sender_that_is_sent_to_memory_that_is_not_there_says_so() {
        let mut pair = pair();
        let join = Join {
            id: pair.offered.id,
            token: TOKEN,
            wanted: LEN as u64,
            address: 8,
            chunk: 65536,
        };
        assert_eq!(pair.sender.join_in(1, &join), Ok(None));
        let joined = pair.receiver.rings[0].peek().unwrap();
        assert_eq!((joined.kind, joined.aux), (kind::JOINED, 0));
    }

    #[test]
    fn junk_invitations_and_junk_ends_are_faults() {
        let mut pair = pair();
        let good = [LEN as u64, 4096, 0, 65536, 0, 0];
        let id = u64::from(pair.offered.id.usage) << 32 | u64::from(pair.offered.id.index);
        for (word, value) in [
            (0, 0),
            (0, LEN as u64 + 1),
            (3, 0),
            (2, id + 1),
            (2, id + (1 << 32)),
            (0, u64::MAX),
        ] {
            let mut words = good;
            words[2] = id;
            words[word] = value;
            let header = Header {
                kind: kind::JOIN,
                aux: 0,
                len: 0,
            };
            let record = Record {
                header,
                envelope: TOKEN.into(),
                words,
            };
            pair.receiver.control(0, record).unwrap();
            let fault = pair.sender.poll(None);
            assert!(
                matches!(fault, Err(Fault { from: 1 })),
                "word {word} {value}: {fault:?}"
            );
            // A fault stays; the next record stands behind it.
            if pair.sender.rings[1].peek().is_some() {
                pair.sender.leave(1, 0);
            }
        }
        let unknown = OfferId { index: 9, usage: 9 };
        assert!(pair.sender.close_offer(1, unknown).is_err());
        assert_eq!(pair.receiver.end_joint(0, 99, true), Err(Fault { from: 0 }));
        assert_eq!(pair.receiver.end_joint(0, 99, false), Ok(None));
    }
}
