//! # Safety
//! Reads another process's memory into buffers of the application, through the kernel's checks.
//!
//! Several offered messages of one sender that are read by one call of the kernel, which costs as much as copying 8 to 16 KiB: those of
//! a window whose receives are posted. The first ones wait while the next record in the ring may be one more.
#![allow(unsafe_code)]

use super::direct::There;
use super::packet::{Offered, Way};
use super::pull::Brought;
use super::{Bytes, Channel, Fault};
use crate::shm::profile::Path;
use crate::sys::cma::{self, ROWS, Row};
use crate::sys::cpu;

/// Messages of one sender to be read.
pub(super) struct Together<B> {
    pid: i32,
    bytes: usize,
    messages: Vec<Message<B>>,
}

struct Message<B> {
    offered: Offered,
    into: B,
    row: Row,
    token: u32,
}

/// The receives whose messages are there.
#[derive(Clone, Copy, Debug, Default)]
pub struct Whole {
    /// Rank in the job of the sender.
    pub from: u32,
    tokens: [u32; ROWS],
    count: usize,
}

impl Whole {
    /// Their tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens[..self.count]
    }
}

impl<B> Together<B> {
    /// None.
    pub fn new() -> Together<B> {
        Together {
            pid: 0,
            bytes: 0,
            messages: Vec::new(),
        }
    }

    /// Whether there is no room for one more message of half of `most` bytes.
    fn is_full(&self, most: usize) -> bool {
        self.messages.len() == ROWS || self.bytes > most / 2
    }
}

impl<B: Bytes> Channel<B> {
    /// As [`Channel::bring`], of an offer that has just come: what says [`Brought::Soon`] waits for those behind it, until
    /// [`Channel::bring_together`], which must come before control goes back to the program.
    ///
    /// # Errors
    /// As [`Channel::bring`].
    pub fn bring_soon(&mut self, offered: &Offered, into: &B, wanted: usize, token: u32) -> Result<Brought, Fault> {
        let from = offered.from;
        let may_wait = match self.together.messages.last() {
            Some(last) => last.offered.from == from && !self.together.is_full(self.together_most()),
            None => self.has_next(from),
        };
        let row = if may_wait {
            self.row(offered, into, wanted)
        } else {
            None
        };
        let Some((pid, row)) = row else {
            return self.bring(offered, into, wanted, token);
        };
        self.fetch_next_offer(from);
        self.path = Path::OneCopy;
        self.together.pid = pid;
        self.together.bytes += wanted;
        self.together.messages.push(Message {
            offered: *offered,
            into: into.clone(),
            row,
            token,
        });
        Ok(Brought::Soon)
    }

    /// Bytes that are read together at most: their sender is told only then.
    fn together_most(&self) -> usize {
        self.settings.one_copy_together as usize
    }

    /// What the kernel would have to copy, and from which process, if it is that and nothing else.
    fn row(&mut self, offered: &Offered, into: &B, len: usize) -> Option<(i32, Row)> {
        if offered.way != Way::Pull || len == 0 || len > self.together_most() / 2 || self.checked {
            return None;
        }
        let (address, local) = (self.address_of(offered)?, into.in_a_row()?);
        let There::Process(pid, remote) = self.reach_memory(offered.from, address, len)? else {
            return None;
        };
        let row = Row { remote, local, len };
        cma::goes_with_others(row).then_some((pid, row))
    }

    /// The descriptor of the offer that the ring stands at, if it is one, is about to be claimed.
    fn fetch_next_offer(&self, from: u32) {
        if let Some((_, next)) = self.offered(from)
            && let Some(offer) = self.segment.offer(from, next.id.index)
        {
            cpu::own_soon(&raw const *offer);
        }
    }

    /// Whether messages wait for [`Channel::bring_together`].
    #[inline]
    pub fn has_soon(&self) -> bool {
        !self.together.messages.is_empty()
    }

    /// ... and no more are to join them.
    pub fn has_enough(&self) -> bool {
        let last = self.together.messages.last();
        last.is_some_and(|last| self.together.is_full(self.together_most()) || !self.has_next(last.offered.from))
    }

    /// Brings what waits. What does not come at once comes as after [`Brought::Later`].
    ///
    /// # Errors
    /// As [`Channel::bring`].
    pub fn bring_together(&mut self) -> Result<Whole, Fault> {
        let (mut whole, mut moved) = (Whole::default(), 0);
        let mut messages = std::mem::take(&mut self.together.messages);
        if let [first, ..] = &messages[..] {
            whole.from = first.offered.from;
            let mut rows = [first.row; ROWS];
            for (row, message) in rows.iter_mut().zip(&messages) {
                *row = message.row;
            }
            // SAFETY: bytes of messages and of receive buffers, the callers' promises to MPI.
            moved = unsafe { cma::read_rows(self.together.pid, &rows[..messages.len()]) };
        }
        for Message {
            offered,
            into,
            row,
            token,
        } in messages.drain(..)
        {
            let brought = match moved.checked_sub(row.len) {
                Some(others) => {
                    moved = others;
                    self.counters.one_copies += 1;
                    self.finish_offer(offered.from, offered.id)?;
                    Brought::Copied
                }
                None => {
                    moved = 0;
                    self.bring_alone(&offered, &into, row.len, token)?
                }
            };
            if brought == Brought::Copied {
                whole.tokens[whole.count] = token;
                whole.count += 1;
            }
        }
        (self.together.messages, self.together.bytes) = (messages, 0);
        Ok(whole)
    }
}

#[cfg(test)]
mod tests {
    use super::super::joint::tests::{Plain, channels, drain};
    use super::super::outgoing::Terms;
    use super::super::{Arrival, Ticket};
    use super::*;
    use crate::sys::cma;

    const LEN: usize = 20_000;

    fn offer(sender: &mut Channel<Plain>, at: *mut u8, len: usize, ticket: Ticket) {
        let sent = sender.offer(1, 5, &Plain(at, len), ticket, Way::Pull, Terms::default());
        assert!(sent.unwrap().is_some());
    }

    /// Takes the offers that have come as posted receives would: message `n` for token `n` goes to `LEN * n` in `target`. How
    /// each was met.
    fn take_all(receiver: &mut Channel<Plain>, target: &mut [u8]) -> Vec<Brought> {
        let mut all = Vec::new();
        while let Some(Arrival::Offer { offered, .. }) = receiver.poll(None).unwrap() {
            assert!(receiver.claim(&offered));
            let into = Plain(target[LEN * all.len()..].as_mut_ptr(), LEN);
            let token = all.len() as u32;
            all.push(
                receiver
                    .bring_soon(&offered, &into, LEN.min(offered.len as usize), token)
                    .unwrap(),
            );
            if receiver.has_enough() {
                break;
            }
        }
        all
    }

    fn sent(sender: &mut Channel<Plain>) -> Vec<Ticket> {
        std::iter::from_fn(|| match sender.poll(None).unwrap() {
            Some(Arrival::Sent(ticket)) => Some(ticket),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn what_has_come_is_read_by_one_call_and_each_sender_is_told() {
        let (mut sender, mut receiver) = channels();
        let mut source: Vec<u8> = (0..5 * LEN).map(|at| (at * 7 % 251) as u8).collect();
        let mut target = vec![0u8; 5 * LEN];
        for number in 0..5 {
            offer(&mut sender, source[LEN * number..].as_mut_ptr(), LEN, number as Ticket);
        }
        assert_eq!(take_all(&mut receiver, &mut target), [Brought::Soon; 5]);
        assert!(receiver.has_soon() && target == [0; 5 * LEN] && sent(&mut sender).is_empty());
        let whole = receiver.bring_together().unwrap();
        assert_eq!((whole.from, whole.tokens()), (0, &[0, 1, 2, 3, 4][..]));
        assert!(target == source && !receiver.has_soon() && receiver.counters.one_copies == 5);
        assert_eq!(sent(&mut sender), [0, 1, 2, 3, 4]);
        assert!(receiver.bring_together().unwrap().tokens().is_empty());
    }

    #[test]
    fn one_alone_does_not_wait_and_many_wait_only_until_there_are_enough() {
        let (mut sender, mut receiver) = channels();
        let (mut source, mut target) = (vec![1u8; LEN], vec![0u8; 40 * LEN]);
        offer(&mut sender, source.as_mut_ptr(), LEN, 0);
        assert_eq!(take_all(&mut receiver, &mut target), [Brought::Copied]);
        (0..20).for_each(|ticket| offer(&mut sender, source.as_mut_ptr(), LEN, ticket));
        let most = receiver.together_most();
        let enough = most / 2 / LEN + 1;
        assert_eq!(take_all(&mut receiver, &mut target), vec![Brought::Soon; enough]);
        receiver.bring_together().unwrap();
        let (mut sender, mut receiver) = channels();
        (0..20).for_each(|ticket| offer(&mut sender, source.as_mut_ptr(), 64, ticket));
        assert_eq!(take_all(&mut receiver, &mut target), [Brought::Soon; ROWS]);
    }

    #[test]
    fn what_cannot_be_read_goes_through_cells_and_holds_up_no_other() {
        let (mut sender, mut receiver) = channels();
        let (mut source, mut target) = (vec![3u8; LEN], vec![0u8; 3 * LEN]);
        offer(&mut sender, source.as_mut_ptr(), LEN, 0);
        // The kernel finds nothing there.
        let nowhere = Plain(source.as_mut_ptr(), LEN);
        let id = sender
            .offer(1, 5, &nowhere, 1, Way::Pull, Terms::default())
            .unwrap()
            .unwrap();
        offer(&mut sender, source.as_mut_ptr(), LEN, 2);
        assert_eq!(take_all(&mut receiver, &mut target), [Brought::Soon; 3]);
        let bad = &mut receiver.together.messages[1];
        assert_eq!(bad.offered.id, id);
        (bad.row.remote, bad.offered.address) = (8, Some(8));
        let whole = receiver.bring_together().unwrap();
        assert_eq!(whole.tokens(), [0, 2]);
        assert!(target[..LEN] == source[..] && target[2 * LEN..] == source[..]);
        assert_eq!((target[LEN], receiver.counters.streams), (0, 1));
        assert_eq!(sent(&mut sender), [0, 2, 1]);
        drain(&mut receiver, &Plain(target[LEN..].as_mut_ptr(), LEN));
        assert!(target[LEN..2 * LEN] == source[..]);
    }

    #[test]
    fn other_ways_and_long_messages_do_not_wait() {
        let (mut sender, mut receiver) = channels();
        let most = receiver.together_most();
        let (mut source, mut target) = (vec![3u8; most], vec![0u8; most]);
        for (len, way) in [
            (most / 2 + 1, Way::Pull),
            (LEN, Way::Cells),
            (0, Way::Pull),
            (LEN, Way::Pull),
        ] {
            if (len, way) == (LEN, Way::Pull) {
                receiver.settings.one_copy_together = 0;
            }
            let message = Plain(source.as_mut_ptr(), len);
            sender.offer(1, 5, &message, 0, way, Terms::default()).unwrap().unwrap();
            offer(&mut sender, source.as_mut_ptr(), LEN, 1);
            let Ok(Some(Arrival::Offer { offered, .. })) = receiver.poll(None) else {
                panic!("no offer came");
            };
            let into = Plain(target.as_mut_ptr(), len);
            assert!(receiver.claim(&offered));
            assert_ne!(
                receiver.bring_soon(&offered, &into, len, 9).unwrap(),
                Brought::Soon,
                "{len} {way:?}"
            );
            assert!(matches!(receiver.poll(None), Ok(Some(Arrival::Offer { .. }))));
        }
        let row = |len| cma::Row {
            remote: 4096,
            local: std::ptr::null_mut(),
            len,
        };
        assert!(cma::goes_with_others(row(most)) && !cma::goes_with_others(row(usize::MAX)));
    }
}
