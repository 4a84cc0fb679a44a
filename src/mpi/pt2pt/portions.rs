//! # Safety
//! Reads portions where the channel says they lie until they are consumed, and copies them into the buffers that its callers promise.
//!
//! Messages that come in portions: the first finds its receive, or is kept, and the others go where it went.
#![allow(unsafe_code)]

use super::engine::{Engine, received};
use super::matching::{Envelope, Pattern};
use super::unexpected::{Arriving, Stored};
use crate::channel::Fault;
use crate::channel::packet::{Part, Portion};
use crate::mpi::error::{Result, fault};
use crate::mpi::request::{Coming, RequestKey, Stage};
use crate::mpi::status::Status;
use crate::mpi::world::State;
use crate::sys::copy;
use std::cell::RefCell;
use std::rc::Rc;

/// Where the portions of a message go.
pub(super) enum Stream {
    /// Into the buffer of a receive.
    Request(RequestKey),
    /// Into memory of ours.
    Kept(Rc<RefCell<Arriving>>),
}

impl Engine {
    /// Whether the message whose parts come from rank `from` of the job is the receive `key`'s.
    #[inline]
    pub(super) fn streams_to(&self, from: u32, key: RequestKey) -> bool {
        matches!(self.streams[from as usize], Some(Stream::Request(to)) if to == key)
    }
}

impl State {
    /// As [`State::message`], for the part of a message that the ring from `from` stands at, which was `waited` for or not; false, and
    /// nothing done, if it stands at anything else.
    ///
    /// # Errors
    /// A peer that left the protocol.
    #[inline(never)]
    pub(super) fn part(&mut self, from: u32, waited: bool) -> Result<bool> {
        let channel = &mut self.engine.channel;
        let Some((envelope, part)) = channel.part(from) else {
            return Ok(false);
        };
        channel.expect_by_shuttle(from, &part, waited);
        let envelope = Envelope(envelope);
        if !part.is_whole() {
            return self.parts(from, envelope, part, waited).map(|()| true);
        }
        let (data, len) = (part.at.as_ptr().cast_const(), part.len as usize);
        let (ahead, posted) = (channel.ahead, self.engine.posted.take(envelope));
        match posted {
            // SAFETY: the ring holds the part until it is left; `fill_by` vouches for the other side.
            Some(key) => self.fill_by(key, envelope, (data, len), |from, to, len| unsafe {
                ahead.from_peer(from, to, len)
            }),
            None => self.message(envelope, data, len),
        }
        self.engine.channel.leave_part(from, &part);
        self.note_arrival(from, posted.is_some())?;
        Ok(true)
    }

    /// The first portion finds the receive, or makes room; the others follow it.
    pub(super) fn portion(&mut self, from: u32, envelope: Envelope, portion: &Portion) -> Result<()> {
        if portion.offset == 0 {
            self.begin(from, envelope, portion.total as usize)?;
        }
        self.arrived(from, envelope, portion)
    }

    /// A portion of a message that has begun.
    fn arrived(&mut self, from: u32, envelope: Envelope, portion: &Portion) -> Result<()> {
        let last = portion.offset + u64::from(portion.len) == portion.total;
        match self.engine.streams[from as usize].take() {
            Some(Stream::Request(key)) => {
                self.land(from, key, portion)?;
                if !last {
                    self.engine.streams[from as usize] = Some(Stream::Request(key));
                }
            }
            Some(Stream::Kept(arriving)) => {
                self.keep(from, envelope, &arriving, portion)?;
                if !last {
                    self.engine.streams[from as usize] = Some(Stream::Kept(arriving));
                }
            }
            None => return Err(fault(Fault { from })),
        }
        Ok(())
    }

    /// A message of `total` bytes from `from` begins: it is a receive's, or is kept.
    fn begin(&mut self, from: u32, envelope: Envelope, total: usize) -> Result<()> {
        self.post_partitions(envelope, total)?;
        let posted = self.engine.posted.take(envelope);
        self.note_arrival(from, posted.is_some())?;
        let stream = match posted {
            Some(key) => {
                self.take_note(key, envelope);
                if let Some(receive) = self.receive(key) {
                    receive.stage = Stage::Coming(Coming {
                        from,
                        envelope,
                        len: total,
                        wanted: total.min(receive.buffer.len()),
                    });
                }
                Stream::Request(key)
            }
            None => self.keep_arriving(envelope, &[], total),
        };
        self.engine.streams[from as usize] = Some(stream);
        Ok(())
    }

    /// As [`State::portion`], for this `part` in the ring from `from` and those that come behind it: at once or, if the program waits,
    /// soon.
    fn parts(&mut self, from: u32, envelope: Envelope, part: Part, waits: bool) -> Result<()> {
        if part.offset == 0 {
            self.begin(from, envelope, part.total as usize)?;
        }
        let key = match self.engine.streams[from as usize] {
            Some(Stream::Request(key)) => Some(key),
            _ => None,
        };
        let row = key.and_then(|key| self.receive(key)).and_then(|receive| {
            let begun = receive.coming()?.len as u64;
            let fits = part.total == begun && begun <= receive.buffer.len() as u64;
            receive.buffer.in_a_row().filter(|_| fits)
        });
        let (Some(key), Some(address)) = (key, row) else {
            return self.arrived(from, envelope, &part.into());
        };
        let total = part.total as usize;
        let looks = waits as u32 * self.engine.channel.settings().glances as u32;
        // SAFETY: the receive has room for the whole message.
        if unsafe { self.copy_parts(from, part, address, looks) }.is_ok() {
            self.engine.streams[from as usize] = None;
            let error = self.mismatch(key, envelope);
            self.complete(
                key,
                Status::received(envelope.source() as i32, envelope.tag(), total),
                error,
            );
        }
        Ok(())
    }

    /// Copies the message that begins with the part which the ring from `from` stands at, part by part as they come, if it
    /// is wanted; its envelope and length. `None` when it is not, or when the next part is long in coming: then it is a
    /// message that arrives unexpected.
    ///
    /// # Safety
    /// `address` has room for `room` bytes.
    #[inline(never)]
    pub unsafe fn gather(
        &mut self,
        from: u32,
        pattern: Pattern,
        (address, room): (*mut u8, usize),
        waited: bool,
    ) -> Option<(Envelope, usize)> {
        let (envelope, part) = self.engine.channel.part(from)?;
        self.engine.channel.expect_by_shuttle(from, &part, waited);
        let (envelope, total) = (Envelope(envelope), part.total as usize);
        let fits = part.offset == 0 && total <= room;
        if !fits || !pattern.matches(envelope) || self.engine.is_for_posted(envelope) {
            return None;
        }
        let looks = self.engine.channel.settings().glances as u32;
        // SAFETY: the caller's promise.
        match unsafe { self.copy_parts(from, part, address, looks) } {
            Ok(()) => Some((envelope, total)),
            Err(position) => {
                // SAFETY: so many bytes have just been copied there.
                let bytes = unsafe { std::slice::from_raw_parts(address, position) };
                let stream = self.keep_arriving(envelope, bytes, total);
                self.engine.streams[from as usize] = Some(stream);
                None
            }
        }
    }

    /// Copies `part`, which the ring from `from` stands at, and those behind it to their places from `address` on, until the last, or
    /// until the next does not come within so many looks; then where it belongs is the error.
    ///
    /// # Safety
    /// There is room for the whole message.
    #[inline(always)]
    unsafe fn copy_parts(
        &mut self,
        from: u32,
        mut part: Part,
        address: *mut u8,
        looks: u32,
    ) -> std::result::Result<(), usize> {
        let (total, mut position) = (part.total, part.offset as usize);
        loop {
            let channel = &mut self.engine.channel;
            // SAFETY: the ring holds the part until it is left; it starts at `position` and ends within `total` bytes, for
            // which there is room.
            unsafe {
                channel
                    .ahead
                    .from_peer(part.at.as_ptr(), address.add(position), part.len as usize)
            };
            channel.leave_part(from, &part);
            position += part.len as usize;
            if position as u64 == total {
                return Ok(());
            }
            let mut left = self.engine.glances.longer(looks, total as usize);
            part = loop {
                match channel.part(from) {
                    Some((_, part)) if (part.offset, part.total) == (position as u64, total) => break part,
                    None if left > 0 => left -= 1,
                    _ => return Err(position),
                }
                std::hint::spin_loop();
            };
        }
    }

    /// Makes room for a message of `total` bytes that has begun with `bytes` and is unexpected.
    fn keep_arriving(&mut self, envelope: Envelope, bytes: &[u8], total: usize) -> Stream {
        let mut kept = Vec::with_capacity(total);
        copy::append(&mut kept, bytes);
        let arriving = Rc::new(RefCell::new(Arriving {
            total,
            bytes: kept,
            claimed: None,
            is_lost: false,
        }));
        let stored = Stored::Arriving(arriving.clone());
        self.engine.unexpected.push(envelope, stored);
        Stream::Kept(arriving)
    }

    /// A portion of the offer that the receive `token` has taken.
    pub(super) fn data(&mut self, from: u32, token: u32, portion: &Portion) -> Result<()> {
        let coming = self.receive(token).and_then(|receive| receive.coming());
        match coming {
            Some(coming) if coming.from == from && portion.total == coming.wanted as u64 => {
                self.land(from, token, portion)
            }
            _ => Err(fault(Fault { from })),
        }
    }

    /// Copies a portion into the buffer of the receive `key`, and completes it with the last one.
    fn land(&mut self, from: u32, key: RequestKey, portion: &Portion) -> Result<()> {
        let Some(receive) = self.receive(key) else {
            return Err(fault(Fault { from }));
        };
        let (Some(coming), buffer) = (receive.coming(), receive.buffer.clone()) else {
            return Err(fault(Fault { from }));
        };
        let ahead = self.engine.channel.ahead;
        let copy = |position: usize, data: *const u8, len: usize| {
            if position < coming.wanted {
                // SAFETY: the cell holds `len` bytes; no more than wanted are put.
                unsafe { buffer.unpack_from_peer(ahead, position, data, len.min(coming.wanted - position)) };
            }
        };
        self.engine.channel.empty_cells(from, portion, copy);
        self.engine.channel.consume(from);
        if portion.offset + u64::from(portion.len) == portion.total {
            let (status, error) = received(coming.envelope, coming.len, &buffer);
            let error = error.or(self.mismatch(key, coming.envelope));
            self.complete(key, status, error);
        }
        Ok(())
    }

    /// Keeps a portion of a message that has no receive yet, or had none when it began.
    fn keep(
        &mut self,
        from: u32,
        envelope: Envelope,
        arriving: &Rc<RefCell<Arriving>>,
        portion: &Portion,
    ) -> Result<()> {
        let mut message = arriving.borrow_mut();
        if portion.offset != message.bytes.len() as u64 || portion.total != message.total as u64 {
            return Err(fault(Fault { from }));
        }
        let copy = |_, data: *const u8, len: usize| {
            // SAFETY: the cell holds `len` bytes until it is released.
            copy::append(&mut message.bytes, unsafe { std::slice::from_raw_parts(data, len) });
        };
        self.engine.channel.empty_cells(from, portion, copy);
        self.engine.channel.consume(from);
        if message.bytes.len() == message.total
            && let Some(key) = message.claimed
        {
            self.fill(key, envelope, message.bytes.as_ptr(), message.total);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{buffer, job, pattern, striped};
    use super::super::*;
    use crate::mpi::coll;
    use crate::mpi::error::Class;
    use std::sync::atomic::AtomicUsize;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::{Duration, Instant};

    #[test]
    fn parts_go_to_their_receive_whether_the_next_one_is_long_in_coming_or_not() {
        let len = 40_000;
        for (glances, shuttle) in [("1", "0"), ("1", "1048576"), ("64", "1048576")] {
            let set = [
                ("NEARMPI_GLANCES", glances),
                ("NEARMPI_SHUTTLE_MAX", shuttle),
                ("NEARMPI_WAY", "1"),
            ];
            job(2, &set, |rank, world| {
                let mut hold = world.hold();
                let comm = hold.world.clone();
                for turn in 0..100 {
                    let mut sent = pattern(len, turn);
                    if rank == 0 {
                        let message = buffer(&mut sent);
                        let next = buffer(&mut sent[..8]);
                        for (message, tag) in [(message, 1), (next, 2)] {
                            send(&mut hold, &comm, Plane::PointToPoint, message, 1, tag, Mode::Standard).unwrap();
                        }
                        continue;
                    }
                    let looks = [Looks::Once, Looks::Out][turn % 2];
                    let mut receive = |data: Buffer| {
                        let key = irecv(&mut hold, &comm, Plane::PointToPoint, data, 0, 1).unwrap();
                        let mut word = [0; 8];
                        let next = irecv(&mut hold, &comm, Plane::PointToPoint, buffer(&mut word), 0, 2).unwrap();
                        // Who looks for the message behind it takes those parts that the queues have not taken.
                        while !hold.is_over(next) {
                            if !look_for_awaited(&mut hold, next, looks).unwrap() {
                                engine::step(&mut hold, None).unwrap();
                            }
                        }
                        wait(&mut hold, next).unwrap();
                        wait(&mut hold, key)
                    };
                    // With room to spare, with gaps, and with too little room.
                    let mut data = vec![0; 2 * len];
                    match turn % 4 {
                        0 | 1 => {
                            assert_eq!(receive(buffer(&mut data)).unwrap().bytes, len as u64);
                            assert!(data[..len] == sent && data[len..].iter().all(|&byte| byte == 0));
                        }
                        2 => {
                            assert_eq!(receive(striped(&mut data, len as i64 / 2)).unwrap().bytes, len as u64);
                            assert!(data.chunks(4).flat_map(|four| &four[..2]).eq(&sent));
                        }
                        _ => {
                            let error = receive(buffer(&mut data[..len - 1])).unwrap_err();
                            assert_eq!(error.class(), Class::Truncate);
                            assert!(
                                data[..len - 1] == sent[..len - 1] && data[len - 1..].iter().all(|&byte| byte == 0)
                            );
                        }
                    }
                }
            });
        }
    }

    /// Whoever tests for a message finds its other parts as it found the first: without the queues.
    #[test]
    fn the_rest_of_a_message_is_looked_for_where_its_beginning_was() {
        let set = [
            ("NEARMPI_GLANCES", "1"),
            ("NEARMPI_WAY", "1"),
            ("NEARMPI_RING_PART", "1024"),
        ];
        let left = AtomicUsize::new(0);
        job(2, &set, |rank, world| {
            let mut hold = world.hold();
            let comm = hold.world.clone();
            let len = 40_000;
            for turn in 0..300 {
                let mut data = pattern(len, if rank == 0 { turn } else { 1 << 20 });
                coll::barrier(&mut hold, &comm).unwrap();
                if rank == 0 {
                    let message = buffer(&mut data);
                    send(&mut hold, &comm, Plane::PointToPoint, message, 1, 1, Mode::Standard).unwrap();
                    continue;
                }
                let key = irecv(&mut hold, &comm, Plane::PointToPoint, buffer(&mut data), 0, 1).unwrap();
                let until = Instant::now() + Duration::from_secs(1);
                while left.load(Relaxed) == 0 && !hold.is_over(key) && Instant::now() < until {
                    look_for_awaited(&mut hold, key, Looks::Once).unwrap();
                }
                left.fetch_add(!hold.is_over(key) as usize, Relaxed);
                wait(&mut hold, key).unwrap();
                assert!(data == pattern(len, turn));
            }
        });
        assert_eq!(left.into_inner(), 0, "messages of which the rest was not looked for");
    }
}
