//! # Safety
//! Reads another process's memory into buffers of the application, through the kernel's checks.
//!
//! Several offered messages of one sender that are read by one call of the kernel, which costs as much as copying 8 to 16 KiB: those of
//! a window whose receives are posted. They wait
//! for no more than a look at the ring.
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
}

impl<B: Bytes> Channel<B> {
    /// As [`Channel::bring`], of an offer that has just come: what says [`Brought::Soon`] waits for those behind it, which
    /// [`Channel::next_for_together`] shows, until [`Channel::bring_together`], which must come before anything else.
    ///
    /// # Errors
    /// As [`Channel::bring`].
    pub fn bring_soon(&mut self, offered: &Offered, into: &B, wanted: usize, token: u32) -> Result<Brought, Fault> {
        let has_company = self.has_soon() || self.company(offered.from).is_some();
        let row = if has_company {
            self.row(offered, into, wanted)
        } else {
            None
        };
        let Some((pid, row)) = row else {
            return self.bring(offered, into, wanted, token);
        };
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
        if !self.may_go_together(offered) || len == 0 {
            return None;
        }
        let (address, local) = (self.address_of(offered)?, into.in_a_row()?);
        let There::Process(pid, remote) = self.reach_memory(offered.from, address, len)? else {
            return None;
        };
        let row = Row { remote, local, len };
        cma::goes_with_others(row).then_some((pid, row))
    }

    fn may_go_together(&self, offered: &Offered) -> bool {
        offered.way == Way::Pull && offered.from != self.me && offered.len <= self.together_most() as u64 / 2
    }

    /// The offer that the ring from `from` stands at, with its envelope, if it may be one more; its descriptor, which is about to be
    /// claimed, is fetched.
    fn company(&self, from: u32) -> Option<(u64, Offered)> {
        let next = self.offered(from).filter(|(_, next)| self.may_go_together(next))?;
        if let Some(offer) = self.segment.offer(from, next.1.id.index) {
            cpu::own_soon(&raw const *offer);
        }
        Some(next)
    }

    /// While messages of `from` wait and there is room: the next offer in its ring, which has left that, with its envelope; `None` when
    /// something else is next.
    pub fn next_for_together(&mut self, from: u32) -> Option<(u64, Offered)> {
        let is_full = self.together.messages.len() == ROWS || self.together.bytes > self.together_most() / 2;
        if !self.has_soon() || is_full {
            return None;
        }
        let next = self.company(from)?;
        self.leave_offer(&next.1);
        Some(next)
    }

    /// Whether messages wait for [`Channel::bring_together`].
    #[inline]
    pub fn has_soon(&self) -> bool {
        !self.together.messages.is_empty()
    }

    /// Brings what waits: the receives that have it now, and what went wrong with the ring to its sender. What does not come at once
    /// comes as after [`Brought::Later`].
    pub fn bring_together(&mut self) -> (Whole, Result<(), Fault>) {
        let (mut whole, mut outcome, mut moved) = (Whole::default(), Ok(()), 0);
        let mut messages = std::mem::take(&mut self.together.messages);
        self.together.bytes = 0;
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
                    outcome = outcome.and(self.finish_offer(offered.from, offered.id));
                    Ok(Brought::Copied)
                }
                None => {
                    moved = 0;
                    self.bring_alone(&offered, &into, row.len, token)
                }
            };
            if brought == Ok(Brought::Copied) {
                whole.tokens[whole.count] = token;
                whole.count += 1;
            }
            outcome = outcome.and(brought.map(drop));
        }
        self.together.messages = messages;
        (whole, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::super::joint::tests::{Plain, channels, drain};
    use super::super::outgoing::Terms;
    use super::super::{Arrival, Ticket};
    use super::*;

    const LEN: usize = 20_000;

    fn offer(sender: &mut Channel<Plain>, at: *mut u8, len: usize, ticket: Ticket) {
        let sent = sender.offer(1, 5, &Plain(at, len), ticket, Way::Pull, Terms::default());
        assert!(sent.unwrap().is_some());
    }

    /// Takes the next offer and those that may go with it as posted receives would: message `n` for token `n` goes to `LEN * n` in
    /// `target`. How each was met.
    fn take_all(receiver: &mut Channel<Plain>, target: &mut [u8]) -> Vec<Brought> {
        let mut all = Vec::new();
        let Ok(Some(Arrival::Offer { offered, .. })) = receiver.poll(None) else {
            panic!("no offer came");
        };
        let mut next = Some(offered);
        while let Some(offered) = next {
            assert!(receiver.claim(&offered));
            let into = Plain(target[LEN * all.len()..].as_mut_ptr(), LEN);
            let (wanted, token) = (LEN.min(offered.len as usize), all.len() as u32);
            all.push(receiver.bring_soon(&offered, &into, wanted, token).unwrap());
            next = receiver.next_for_together(0).map(|(_, offered)| offered);
        }
        all
    }

    /// The part of `room`, all of it but a page, that lies half a page away from where `source` lies in its own, so that no processor's
    /// kernel stumbles over it.
    fn beside<'a>(source: &[u8], room: &'a mut [u8]) -> &'a mut [u8] {
        const PAGE: usize = 4096;
        let shift = (source.as_ptr().addr() + PAGE / 2).wrapping_sub(room.as_ptr().addr()) % PAGE;
        let len = room.len() - PAGE;
        &mut room[shift..][..len]
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
        let mut room = vec![0u8; 6 * LEN];
        let target = &mut beside(&source, &mut room)[..5 * LEN];
        for number in 0..5 {
            offer(&mut sender, source[LEN * number..].as_mut_ptr(), LEN, number as Ticket);
        }
        assert_eq!(take_all(&mut receiver, target), [Brought::Soon; 5]);
        assert!(receiver.has_soon() && target == [0; 5 * LEN] && sent(&mut sender).is_empty());
        let (whole, outcome) = receiver.bring_together();
        assert_eq!(outcome, Ok(()));
        assert_eq!((whole.from, whole.tokens()), (0, &[0, 1, 2, 3, 4][..]));
        assert!(target == source && !receiver.has_soon() && receiver.counters.one_copies == 5);
        assert_eq!(sent(&mut sender), [0, 1, 2, 3, 4]);
        assert!(receiver.bring_together().0.tokens().is_empty());
    }

    #[test]
    fn one_alone_does_not_wait_and_many_wait_only_until_there_are_enough() {
        let (mut sender, mut receiver) = channels();
        let (mut source, mut room) = (vec![1u8; LEN], vec![0u8; 40 * LEN]);
        let target = beside(&source, &mut room);
        offer(&mut sender, source.as_mut_ptr(), LEN, 0);
        assert_eq!(take_all(&mut receiver, target), [Brought::Copied]);
        (0..20).for_each(|ticket| offer(&mut sender, source.as_mut_ptr(), LEN, ticket));
        let most = receiver.together_most();
        let enough = most / 2 / LEN + 1;
        assert_eq!(take_all(&mut receiver, target), vec![Brought::Soon; enough]);
        assert_eq!(receiver.bring_together().0.tokens().len(), enough);
        let (mut sender, mut receiver) = channels();
        (0..20).for_each(|ticket| offer(&mut sender, source.as_mut_ptr(), 64, ticket));
        assert_eq!(take_all(&mut receiver, target), [Brought::Soon; ROWS]);
    }

    #[test]
    fn what_cannot_be_read_goes_through_cells_and_holds_up_no_other() {
        let (mut sender, mut receiver) = channels();
        let (mut source, mut room) = (vec![3u8; LEN], vec![0u8; 4 * LEN]);
        let target = beside(&source, &mut room);
        offer(&mut sender, source.as_mut_ptr(), LEN, 0);
        // The kernel finds nothing there.
        let nowhere = Plain(source.as_mut_ptr(), LEN);
        let id = sender
            .offer(1, 5, &nowhere, 1, Way::Pull, Terms::default())
            .unwrap()
            .unwrap();
        offer(&mut sender, source.as_mut_ptr(), LEN, 2);
        assert_eq!(take_all(&mut receiver, target), [Brought::Soon; 3]);
        let bad = &mut receiver.together.messages[1];
        assert_eq!(bad.offered.id, id);
        (bad.row.remote, bad.offered.address) = (8, Some(8));
        let (whole, outcome) = receiver.bring_together();
        assert_eq!(outcome, Ok(()));
        assert_eq!(whole.tokens(), [0, 2]);
        assert!(target[..LEN] == source[..] && target[2 * LEN..3 * LEN] == source[..]);
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
    }
}
