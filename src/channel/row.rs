//! # Safety
//! Copies messages out of the callers' memory into room that it has reserved in a ring.
//!
//! The short way out: messages in a row that go through the pair's ring at once, or not this way.
#![allow(unsafe_code)]

use super::packet::{Part, Record, kind};
use super::{Bytes, Channel, Fault};
use crate::shm::profile::Path;
use crate::shm::ring::{Header, INLINE, Junk};
use crate::sys::{copy, cpu, futex};

/// Bytes of a cache line.
const LINE: usize = 64;

/// What became of a message that was to go the shortest way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It does not go that way; nothing was done.
    Not,
    /// It is there.
    Done,
    /// It is there, and [`Channel::wake`] must follow.
    Asleep,
}

impl<B: Bytes> Channel<B> {
    /// A message from `to` has just come that was waited for, of which so many bytes lie `outside` its slot. Fetches them if
    /// they are few, before memcpy asks for them from both ends, and the lines that the answer goes into, for it will probably
    /// be answered by one of its size. The first lines of a longer one are here before the last is asked for.
    #[inline(always)]
    pub fn expect_answer(&self, to: u32, outside: u32) {
        let few = if outside <= self.fetch_max { outside } else { 0 };
        self.rings[to as usize].fetch(few);
        self.out[to as usize].producer.expect(few);
    }

    /// Sends the `len` bytes at `data` if they fit into a slot and one is known to be free; false, and nothing done,
    /// otherwise. Counts it as a message of the program. Makes no call: the receiver may have to be woken.
    ///
    /// # Safety
    /// `data` is readable for `len` bytes.
    #[inline(always)]
    pub unsafe fn push_few(&mut self, to: u32, envelope: u64, data: *const u8, len: usize) -> Pushed {
        let Some(out) = self.out.get_mut(to as usize) else {
            return Pushed::Not;
        };
        if len > INLINE || !out.messages.is_empty() || !out.producer.knows_slot() {
            return Pushed::Not;
        }
        let (kind, short) = (kind::INLINE, len as u32);
        // SAFETY: the caller's promise.
        unsafe {
            out.producer.push_bytes(
                Header {
                    kind,
                    aux: 0,
                    len: short,
                },
                envelope,
                data,
            )
        };
        self.barriers.before_ringing();
        let asleep = out.peer.bell.is_set();
        out.few.add(len);
        self.block.doing.sent(len);
        if asleep { Pushed::Asleep } else { Pushed::Done }
    }

    /// As [`Channel::push_row`], and counts the message for a profile.
    ///
    /// # Safety
    /// As [`Channel::push_row`].
    #[inline(always)]
    pub unsafe fn send_row(&mut self, to: u32, envelope: u64, data: *const u8, len: usize) -> Result<bool, Fault> {
        // SAFETY: the caller's promise.
        let sent = unsafe { self.push_row(to, envelope, data, len) }?;
        if sent && self.meter.is_some() {
            self.count_row(to, envelope, len);
        }
        Ok(sent)
    }

    /// Counts a message that [`Channel::push_row`] has sent.
    #[inline]
    pub fn count_row(&self, to: u32, envelope: u64, len: usize) {
        let path = if len <= INLINE { Path::Slot } else { Path::Ring };
        self.count_sent(path, to, envelope, len);
    }

    /// A receive that was `waited` for, or not, stands at this part from `from`. If the message is short and came by shuttle its
    /// lines are fetched for writing: they hold the answer, or whatever is sent there next, and so change hands once.
    #[inline]
    pub fn expect_by_shuttle(&self, from: u32, part: &Part, waited: bool) {
        if part.shuttle.is_none() || part.total > self.settings.shuttle_own {
            return;
        }
        for line in (0..part.len as usize).step_by(LINE) {
            cpu::own_soon(part.at.as_ptr().wrapping_add(line));
        }
        if waited {
            self.out[from as usize].producer.expect(0);
        }
    }

    /// As [`Channel::push_row`] with a message of at least `NEARMPI_SHUTTLE_MIN` bytes, by shuttle: in parts if it is long enough, for
    /// what goes by shuttle is no window's, and somebody waits for it.
    ///
    /// # Safety
    /// As [`Channel::push_row`].
    #[inline(never)]
    unsafe fn push_by_shuttle(&mut self, to: u32, envelope: u64, data: *const u8, len: usize) -> Result<bool, Fault> {
        if !self.out[to as usize].messages.is_empty() {
            return Ok(false);
        }
        if self.overlaps(len) {
            // SAFETY: the caller's promise.
            return Ok(self.goes_by_shuttle(to, len, true) && unsafe { self.push_long(to, envelope, data, len) }?);
        }
        let Some((number, room)) = self.shuttle_for(to, len, len as u32)? else {
            return Ok(false);
        };
        // SAFETY: the caller's promise; the shuttle has room for the message.
        unsafe { copy::bytes(data, room.as_ptr(), len) };
        // Its reader begins with those.
        cpu::hand_over(room.as_ptr(), len.min(self.settings.demote_max as usize));
        let at = (len as u64, 0, len as u32);
        self.announce(to, Record::part(kind::PART, envelope, at, Some(number)));
        self.counters.ring += 1;
        self.block.doing.sent(len);
        Ok(true)
    }

    /// Sends the `len` bytes at `data` if they go through the ring, that needs no waiting, and no other way is to be tried; false otherwise.
    ///
    /// # Safety
    /// `data` is readable for `len` bytes.
    ///
    /// Cost: a cache line to the receiver for up to 48 bytes, then one more for each 64; no system call, lock,
    /// allocation or read-modify-write.
    #[inline(always)]
    pub unsafe fn push_row(&mut self, to: u32, envelope: u64, data: *const u8, len: usize) -> Result<bool, Fault> {
        let fault = |Junk| Fault { from: to };
        if len >= self.aside_min as usize {
            if self.learns_windows(to, len) && !self.ways[to as usize].goes_on(len) {
                return Ok(false);
            }
            // SAFETY: the caller's promise.
            let sent = len <= self.row_max && unsafe { self.push_by_shuttle(to, envelope, data, len) }?;
            if sent || len > self.row_max {
                return Ok(sent);
            }
        }
        let out = &mut self.out[to as usize];
        if !out.messages.is_empty() || !out.producer.has_slot().map_err(fault)? {
            return Ok(false);
        }
        if len <= INLINE {
            let (kind, len) = (kind::INLINE, len as u32);
            // SAFETY: the caller's promise.
            unsafe { out.producer.push_bytes(Header { kind, aux: 0, len }, envelope, data) };
            self.counters.inline += 1;
        } else {
            let (kind, len) = (kind::BYTES, len as u32);
            let Some(room) = out.producer.reserve(len).map_err(fault)? else {
                return Ok(false);
            };
            // SAFETY: the caller's promise; the room was reserved for the whole message.
            unsafe { out.stores.copy(data, room.as_ptr(), len as usize) };
            if len as u64 <= self.settings.demote_max {
                cpu::hand_over(room.as_ptr(), len as usize);
            }
            out.producer.push(Header { kind, aux: 0, len }, envelope, &[]);
            self.counters.ring += 1;
        }
        if out.peer.bell.ring(self.barriers) {
            futex::wake_all(out.peer.bell.word());
        }
        self.block.doing.sent(len);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Glance;
    use super::super::joint::tests::{Plain, channels};
    use super::super::packet::Way;
    use super::*;
    use crate::sys::cma::Pace;

    #[test]
    fn a_sender_that_goes_on_has_that_choice_while_the_other_rank_sends_as_long_ones_or_the_kernel_is_quick() {
        let (mut low, _high) = channels();
        let len = low.settings.one_copy_min as usize - 1;
        let mut bytes = vec![1u8; len];
        let message = Plain(bytes.as_mut_ptr(), len);
        low.settings.shuttle_max = 0;
        low.ways[1].settle_on(len, Way::Pull);
        low.pace = Some(Pace {
            kernel: f32::INFINITY,
            own: 1.0,
            ..Pace::default()
        });
        // SAFETY: the message has so many bytes.
        let push = |low: &mut Channel<Plain>| unsafe { low.push_row(1, 5, message.0, len) }.unwrap();
        assert!(push(&mut low), "the other one has sent nothing");
        low.ways[1].came(len, Way::Pull);
        assert_eq!(low.plan(1, &message), Some(Way::Pull));
        assert!(!push(&mut low));
        while low.learns_windows(1, len) {
            low.plan(1, &message);
        }
        assert!(push(&mut low), "it has sent none for long");
        // One that waits has that choice whatever has come, unless it has settled on cells.
        // SAFETY: as above.
        let parts = |low: &mut Channel<Plain>| unsafe { low.push_parts(1, 5, message.0, len) }.unwrap();
        assert!(!parts(&mut low));
        low.ways[1].settle_on(len, Way::Cells);
        low.ways[1].came(len, Way::Cells);
        assert!(parts(&mut low));
        low.ways[1].settle_on(len, Way::Pull);
        low.pace = Some(Pace {
            kernel: 1.0,
            own: 1.0,
            ..Pace::default()
        });
        assert!(!push(&mut low), "the kernel copies quickly");
    }
    #[test]
    fn a_message_that_may_go_on_shows_parts_by_shuttle_and_the_whole_by_ring() {
        let (mut sender, mut receiver) = channels();
        sender.settings.one_copy = 0;
        let data = [7u8; 20_000];
        // SAFETY: the message has so many bytes.
        let push = |sender: &mut Channel<Plain>| unsafe { sender.push_row(1, 5, data.as_ptr(), data.len()) };
        // The first takes the only shuttle.
        assert_eq!([push(&mut sender), push(&mut sender)], [Ok(true); 2]);
        let mut parts = 0;
        while let Some((_, part)) = receiver.part(0) {
            receiver.leave_part(0, &part);
            parts += 1;
        }
        assert!(parts > 1, "{parts}");
        assert!(matches!(receiver.glance(0), Glance::Whole { len: 20_000, .. }));
    }
}
