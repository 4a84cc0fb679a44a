//! Ordered packets between the ranks of one machine.
//!
//! The channel knows bytes, ranks of the job and envelopes; what an envelope means, and which
//! receive it matches, is MPI's matter. It sends through the pair's ring, the sender's cells or by
//! one copy; it receives as [`Arrival`]s that the caller takes from [`Channel::poll`] one by one.

mod asked;
pub mod bytes;
pub mod direct;
mod join;
mod joint;
pub mod late;
mod metering;
mod offers;
pub mod outgoing;
pub mod packet;
pub mod parts;
mod plan;
pub mod pull;
mod row;
pub mod spread;
mod together;
pub mod wait;
mod ways;

pub use bytes::Bytes;
pub use metering::{Counters, Metering};
pub use row::Pushed;

use crate::shm::bell::Barriers;
use crate::shm::pool::{CELL, Pool};
use crate::shm::profile::Path;
use crate::shm::ring::{Consumer, INLINE, Junk};
use crate::shm::segment::{Block, RankBlock, Segment};
use crate::sys::cma::Pace;
use crate::sys::copy::Ahead;
use crate::sys::cpuset::CpuSet;
use crate::sys::cvar::Settings;
use crate::sys::futex;
use crate::sys::topology::Known;
use direct::Homes;
use joint::Joint;
use late::{Lateness, Level};
use metering::Short;
use offers::Offers;
use outgoing::Out;
use packet::{Asked, OfferId, Offered, Part, Portion, Record, Way, kind};
use pull::Reach;
use spread::Mate;
use std::collections::VecDeque;
use std::sync::Arc;
use together::Together;
use ways::{CLASSES, Ways};

/// What the sender calls a message until it is sent.
pub type Ticket = u32;

/// A peer left the protocol, or memory holds what nobody wrote; the job cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The rank whose ring, cells or credits are wrong.
    pub from: u32,
}

/// Something that has come; to be dealt with before the next poll.
#[derive(Debug)]
pub enum Arrival {
    /// A whole message; its bytes lie at `data` until [`Channel::consume`].
    Message {
        /// Rank in the job of the sender.
        from: u32,
        /// Its envelope.
        envelope: u64,
        /// Its bytes.
        data: *const u8,
        /// How many.
        len: usize,
    },
    /// A portion of a message, in order; ends with [`Channel::consume`].
    Portion {
        /// Rank in the job of the sender.
        from: u32,
        /// Its envelope, the same for all portions.
        envelope: u64,
        /// Which bytes, and in which cells.
        portion: Portion,
    },
    /// A portion of the offer that the receive `token` took; ends with [`Channel::consume`].
    Data {
        /// Rank in the job of the sender.
        from: u32,
        /// What the receiver gave to [`Channel::clear`].
        token: u32,
        /// Which bytes, and in which cells.
        portion: Portion,
    },
    /// A message to be copied once.
    Offer {
        /// Its envelope.
        envelope: u64,
        /// Where it lies.
        offered: Offered,
    },
    /// A whole message whose sender waits until it is received; its bytes lie at `data` until [`Channel::consume`].
    Asked {
        /// Its envelope.
        envelope: u64,
        /// What its sender waits for.
        asked: Asked,
        /// Its bytes.
        data: *const u8,
        /// How many.
        len: usize,
    },
    /// All bytes of the offer that the receive `token` took have come; consumed already.
    Whole {
        /// Rank in the job of the sender.
        from: u32,
        /// What the receiver gave to [`Channel::bring`].
        token: u32,
    },
    /// The message that was given this ticket is sent: its buffer is the caller's again.
    Sent(Ticket),
}

/// What a glance at a ring shows.
#[derive(Clone, Copy, Debug)]
pub enum Glance {
    /// No record.
    Nothing,
    /// A whole message in the ring; it lies there until [`Channel::leave`].
    Whole {
        /// Its envelope.
        envelope: u64,
        /// Its bytes.
        data: *const u8,
        /// How many.
        len: usize,
        /// How many of them lie in the byte ring.
        outside: u32,
    },
    /// Part of a message, for [`Channel::part`].
    Part,
    /// A record for [`Channel::poll`].
    Other,
}

/// What one rank sends and receives with.
pub struct Channel<B> {
    segment: Arc<Segment>,
    block: Block,
    me: u32,
    /// Behind a pointer, so that one control variable more does not move what the short ways use.
    settings: Box<Settings>,
    /// The barrier behind which this rank rings: its own where no sleeper's would reach it.
    barriers: Barriers,
    ring_max: usize,
    /// Longest message in a row that takes the short way.
    row_max: usize,
    /// Shortest message for which [`Channel::push_row`] looks whether it is too long for the ring or goes by shuttle.
    aside_min: u32,
    /// Longest message that is fetched all at once.
    fetch_max: u32,
    /// How copies of what peers have written are made.
    pub ahead: Ahead,
    /// Longest synchronous message that goes with its record.
    ask_max: usize,
    /// Bytes of a part of a longer message in the byte ring; 0: such messages go through cells.
    part: usize,
    /// Where data with gaps are gathered before they go into shared memory; empty until there are some.
    stage: Vec<u8>,
    out: Vec<Out<B>>,
    /// Destinations with something queued.
    waiting: Vec<u32>,
    rings: Vec<Consumer>,
    pool: Pool,
    offers: Offers<B>,
    ways: Vec<Ways>,
    /// By destination, whether its CPUs share no cache with this rank's, once somebody has looked.
    far: Vec<Option<bool>>,
    /// What has been read for that.
    places: Known,
    /// By class of length, what was settled last for any destination.
    habits: [Option<Way>; CLASSES],
    /// What copies take at least, once somebody has asked.
    pace: Option<Pace>,
    /// By sender, how late this rank is for it; by receiver, what it has told this rank.
    lateness: Vec<Lateness>,
    levels: Vec<Level>,
    reach: Vec<Reach>,
    homes: Homes,
    canary: Box<u64>,
    /// Messages whose senders copy the last of them.
    joints: Vec<Joint<B>>,
    /// Messages that wait to be read by one call.
    together: Together<B>,
    sent: VecDeque<Ticket>,
    next: u32,
    /// From the ranks that the job began with up to this one all are gone, and nothing is left in their rings.
    gone: u32,
    /// Rank in the job that the latest record came from, and not from a glance.
    heard: Option<u32>,
    /// ... before that was asked last.
    heard_before: Option<u32>,
    meter: Option<Metering>,
    short: Short,
    /// The way that the last [`Channel::bring`] took.
    path: Path,
    /// Whether this rank says where it waits, and moves.
    spreads: bool,
    /// Whether valgrind checks this rank, which must not be written to by others then.
    checked: bool,
    /// Whether another rank was seen on this one's CPU when that was last asked.
    shared: bool,
    /// Where this rank may run, as far as it knows.
    may: CpuSet,
    /// How often it gave up its CPU.
    given: u32,
    mate: Option<Mate>,
    /// What it has done so far, without what is in `short`.
    counters: Counters,
}

impl<B: Bytes> Channel<B> {
    /// My rank in the job.
    pub fn me(&self) -> u32 {
        self.me
    }

    /// My block.
    pub fn block(&self) -> &RankBlock {
        &self.block
    }

    /// The job's segment.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The rank that was heard of last since this was asked last; messages that a receive or wait takes at a glance do not count.
    pub fn heard(&mut self) -> Option<u32> {
        self.heard_before = self.heard.or(self.heard_before);
        self.heard.take()
    }

    /// Rank `from` has done what this rank waited for, which no record tells.
    #[inline]
    pub fn noticed(&mut self, from: u32) {
        self.heard = Some(from);
    }

    /// The control variables in force.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The next thing that has come, looking at the ring from `first` before the others; `None`
    /// when nothing has. Also sends on what was queued.
    ///
    /// # Errors
    /// A [`Fault`] when a peer's memory makes no sense.
    #[inline]
    pub fn poll(&mut self, first: Option<u32>) -> Result<Option<Arrival>, Fault> {
        if let Some(source) = first
            && let Some(arrival) = self.poll_ring(source)?
        {
            return Ok(Some(arrival));
        }
        self.poll_others()
    }

    /// Ends the message or portion that the last poll returned from `from`.
    #[inline]
    pub fn consume(&mut self, from: u32) {
        let ring = &self.rings[from as usize];
        let header = ring.peek();
        if let Some(number) = header.and_then(|header| packet::brings(ring, header)) {
            self.out[from as usize].shuttles.came(number);
        }
        let bytes = header.map_or(0, packet::outside);
        match header {
            Some(header) if header.kind == kind::BYTES => self.leave(from, bytes),
            _ => self.step(from, bytes),
        }
    }

    /// Leaves a slot, and the `bytes` outside it, to the writer, which may sleep because the ring was full.
    #[inline(always)]
    pub fn leave(&mut self, from: u32, bytes: u32) {
        if bytes as usize >= ways::LEAST {
            self.begins(from, bytes.into(), 0);
        }
        self.step(from, bytes);
    }

    /// A message of `total` bytes has come by value from `from`, from byte `offset` on: who sends there as well learns with it.
    #[inline]
    fn begins(&mut self, from: u32, total: u64, offset: u64) {
        if offset == 0 {
            self.ways[from as usize].came(total as usize, Way::Cells);
        }
    }

    /// As [`Channel::leave`], a record that is no whole message.
    #[inline(always)]
    fn step(&mut self, from: u32, bytes: u32) {
        if self.rings[from as usize].advance(bytes) {
            self.ring_bell(from);
        }
    }

    /// Copies a portion's bytes out by calling `copy(offset in the message, bytes, how many)` for each
    /// cell, and gives the cells back to `from`; once for bytes in the ring or in a shuttle, which [`Channel::consume`] gives back or
    /// keeps.
    pub fn empty_cells(&mut self, from: u32, portion: &Portion, mut copy: impl FnMut(usize, *const u8, usize)) {
        if let Some(bytes) = portion.row {
            return copy(portion.offset as usize, bytes.as_ptr(), portion.len as usize);
        }
        let pool = self.segment.pool(from);
        for (index, &cell) in portion.cells[..portion.count].iter().enumerate() {
            let len = (portion.len as usize - index * CELL).min(CELL);
            copy(portion.offset as usize + index * CELL, pool.cell(cell).as_ptr(), len);
            pool.release(cell);
        }
        // It may sleep because the pool was empty.
        self.ring_bell(from);
    }

    /// Tells the sender now what has been read of its ring.
    #[inline]
    pub fn settle_up(&mut self, from: u32) {
        if self.rings[from as usize].return_credit() {
            self.ring_bell(from);
        }
    }

    /// Whether something is next in the ring from `from`.
    #[inline(always)]
    pub fn has_next(&self, from: u32) -> bool {
        self.rings[from as usize].peek().is_some()
    }

    /// Looks at the next slot of the ring from `from` only. The caller then takes a whole message and leaves
    /// its slot, or lets it be.
    #[inline(always)]
    pub fn glance(&self, from: u32) -> Glance {
        packet::glance(&self.rings[from as usize])
    }

    /// As [`Channel::glance`], up to `left` times, until something is there: with the looks that are left then.
    #[inline(always)]
    pub fn look_out(&self, from: u32, mut left: u32) -> Option<(Glance, u32)> {
        let ring = &self.rings[from as usize];
        while left > 0 {
            left -= 1;
            // Without a pause each look takes the line away from the sender, which is filling it.
            std::hint::spin_loop();
            match packet::glance(ring) {
                Glance::Nothing => {}
                glance => return Some((glance, left)),
            }
        }
        None
    }

    /// The part of a message that the ring from `from` stands at, with the message's envelope; it lies there until
    /// [`Channel::leave_part`]. `None` for anything else.
    pub fn part(&self, from: u32) -> Option<(u64, Part)> {
        let ring = &self.rings[from as usize];
        let header = ring.peek().filter(|header| header.kind == kind::PART)?;
        let part = packet::read_part(ring, header, &self.out[from as usize].shuttles).ok()?;
        Some((ring.envelope(), part))
    }

    /// Leaves `part`, which [`Channel::part`] has shown and which has been copied out. A sender of long messages is told when the last
    /// part has been read, for it asks.
    #[inline]
    pub fn leave_part(&mut self, from: u32, part: &Part) {
        if let Some(number) = part.brings() {
            self.out[from as usize].shuttles.came(number);
        }
        self.begins(from, part.total, part.offset);
        self.step(from, part.outside());
        if part.is_last() && part.total >= self.settings.offer_min {
            self.settle_up(from);
        }
    }

    /// Whether [`Channel::poll`] would find nothing to do, which takes itself longer to find out.
    #[inline]
    pub fn is_quiet(&mut self) -> bool {
        let is_quiet = self.sent.is_empty()
            && self.waiting.is_empty()
            && self.joints.is_empty()
            && self.rings.iter().all(Consumer::is_quiet);
        self.counters.sweeps += u64::from(is_quiet);
        is_quiet
    }

    fn poll_others(&mut self) -> Result<Option<Arrival>, Fault> {
        if let Some(ticket) = self.sent.pop_front() {
            return Ok(Some(Arrival::Sent(ticket)));
        }
        if !self.waiting.is_empty() {
            self.flush()?;
        }
        self.counters.sweeps += 1;
        let (all, own) = (self.rings.len() as u32, self.segment.ranks());
        for _ in 0..all - (self.gone - own) {
            let source = self.next;
            if let Some(arrival) = self.poll_ring(source)? {
                return Ok(Some(arrival));
            }
            self.pass_turn();
        }
        match self.sent.pop_front() {
            Some(ticket) => Ok(Some(Arrival::Sent(ticket))),
            None => self.help(),
        }
    }

    /// The rank behind the one whose turn it was is looked at first when all are, next time.
    #[inline]
    pub fn pass_turn(&mut self) {
        let (all, own) = (self.rings.len() as u32, self.segment.ranks());
        let behind = if self.next + 1 == own { self.gone } else { self.next + 1 };
        self.next = if behind == all { 0 } else { behind };
    }

    #[inline]
    fn poll_ring(&mut self, from: u32) -> Result<Option<Arrival>, Fault> {
        let fault = |Junk| Fault { from };
        loop {
            let ring = &mut self.rings[from as usize];
            let Some(header) = ring.peek() else {
                self.settle_up(from);
                return Ok(None);
            };
            self.heard = Some(from);
            let envelope = ring.envelope();
            let arrival = match header.kind {
                kind::INLINE if header.len as usize <= INLINE => Arrival::Message {
                    from,
                    envelope,
                    data: ring.payload(),
                    len: header.len as usize,
                },
                kind::BYTES => {
                    let data = ring.bytes(header.len).map_err(fault)?.as_ptr();
                    Arrival::Message {
                        from,
                        envelope,
                        data,
                        len: header.len as usize,
                    }
                }
                kind::CELLS => {
                    let portion = packet::read_portion(ring, header).map_err(fault)?;
                    self.begins(from, portion.total, portion.offset);
                    Arrival::Portion {
                        from,
                        envelope,
                        portion,
                    }
                }
                kind::DATA => {
                    let portion = packet::read_portion(ring, header).map_err(fault)?;
                    Arrival::Data {
                        from,
                        token: envelope as u32,
                        portion,
                    }
                }
                kind::PART => {
                    let part = packet::read_part(ring, header, &self.out[from as usize].shuttles).map_err(fault)?;
                    self.begins(from, part.total, part.offset);
                    match part.is_whole() {
                        true => Arrival::Message {
                            from,
                            envelope,
                            data: part.at.as_ptr(),
                            len: part.len as usize,
                        },
                        false => Arrival::Portion {
                            from,
                            envelope,
                            portion: part.into(),
                        },
                    }
                }
                kind::REST => {
                    let portion = packet::read_part(ring, header, &self.out[from as usize].shuttles)
                        .map_err(fault)?
                        .into();
                    Arrival::Data {
                        from,
                        token: envelope as u32,
                        portion,
                    }
                }
                kind::OFFER => {
                    let offered = packet::read_offer(ring, header, from).map_err(fault)?;
                    self.leave_offer(&offered);
                    Arrival::Offer { envelope, offered }
                }
                kind::ASK => {
                    let (asked, data) = packet::read_asked(ring, header, from).map_err(fault)?;
                    let len = header.len as usize;
                    Arrival::Asked {
                        envelope,
                        asked,
                        data,
                        len,
                    }
                }
                kind::CLEAR => {
                    let (id, token, wanted) = (packet::read_id(ring), envelope as u32, ring.word(0));
                    self.step(from, 0);
                    self.start_stream(from, id, token, wanted)?;
                    continue;
                }
                kind::FIN => {
                    let id = packet::read_id(ring);
                    self.step(from, 0);
                    match self.close_offer(from, id)? {
                        Some(ticket) => Arrival::Sent(ticket),
                        None => continue,
                    }
                }
                kind::LEVEL => {
                    self.step(from, 0);
                    self.set_level(from, header.aux)?;
                    continue;
                }
                kind::JOIN => {
                    let join = packet::read_join(ring).map_err(fault)?;
                    self.step(from, 0);
                    match self.join_in(from, &join)? {
                        Some(ticket) => Arrival::Sent(ticket),
                        None => continue,
                    }
                }
                kind::JOINED => {
                    let (token, whole) = (envelope as u32, header.aux != 0);
                    self.step(from, 0);
                    match self.end_joint(from, token, whole)? {
                        Some(token) => Arrival::Whole { from, token },
                        None => continue,
                    }
                }
                kind::LARGER => {
                    ring.enlarge(header.len).map_err(fault)?;
                    self.step(from, 0);
                    continue;
                }
                _ => return Err(Fault { from }),
            };
            return Ok(Some(arrival));
        }
    }

    /// Answers a taken offer: the copy is made, the sender may go on.
    pub fn finish_offer(&mut self, from: u32, id: OfferId) -> Result<(), Fault> {
        self.control(from, Record::fin(id))
    }

    /// Answers a taken offer that cannot be copied directly: the sender shall send its first `wanted`
    /// bytes as [`Arrival::Data`] for `token`.
    pub fn clear(&mut self, offered: &Offered, token: u32, wanted: usize) -> Result<(), Fault> {
        self.counters.streams += 1;
        self.control(offered.from, Record::clear(offered.id, token, wanted as u64))
    }

    /// Wakes rank `to` if it sleeps: what it waits for has changed in shared memory.
    #[cold]
    #[inline(never)]
    pub fn wake(&self, to: u32) {
        self.ring_bell(to);
    }

    /// Tells `ranks` that something has been published which they may wait for.
    #[inline]
    pub fn ring_bells(&self, ranks: impl Iterator<Item = u32>) {
        self.barriers.before_ringing();
        for rank in ranks {
            let bell = &self.segment.rank(rank).bell;
            if bell.ring_on() {
                futex::wake_all(bell.word());
            }
        }
    }

    #[inline(always)]
    fn ring_bell(&self, to: u32) {
        let bell = &self.segment.rank(to).bell;
        if bell.ring(self.barriers) {
            futex::wake_all(bell.word());
        }
    }
}
