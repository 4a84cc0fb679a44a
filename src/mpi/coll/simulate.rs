//! Runs the schedules of all ranks of an operation at once, on vectors of bytes, for tests.
//!
//! Messages are rendezvous: a send and its receive happen when both ranks are in the round that
//! holds them, so a schedule that relies on buffering is found as a deadlock. Kind 1 has elements of
//! [`ELEMENT`]'s shape, reduced by [`compose`], which is associative and does not commute.

use super::schedule::{Area, BYTES, Base, Local, Message, Schedule, Shape, Slice};

/// Four bytes of data, the first byte below the element's address, and a gap behind them.
pub const ELEMENT: Shape = Shape {
    kind: 1,
    size: 4,
    extent: 7,
    true_lb: -1,
    true_extent: 4,
};

/// `ELEMENT` forwards or as an array that runs backwards.
pub const FALLING: Shape = Shape { extent: -6, ..ELEMENT };

/// Where element 0 lies in a simulated buffer.
const ORIGIN: isize = 2048;

/// The memory of one rank.
#[derive(Clone, Default)]
pub struct Memory {
    /// The send buffer, from [`ORIGIN`] bytes below its address on.
    pub send: Vec<u8>,
    /// The receive buffer, likewise.
    pub recv: Vec<u8>,
    scratch: Vec<u8>,
    shape: Option<Shape>,
}

/// x -> a x + b of 16-bit numbers; the value of an element.
pub type Map = (u16, u16);

/// First `left`, then `right`.
pub fn compose(left: Map, right: Map) -> Map {
    let a = left.0.wrapping_mul(right.0);
    (a, left.1.wrapping_mul(right.0).wrapping_add(right.1))
}

impl Memory {
    /// Buffers for 4096 bytes on either side of their addresses.
    pub fn new(shape: Shape) -> Memory {
        Memory {
            send: vec![0xee; 8192],
            recv: vec![0xee; 8192],
            scratch: Vec::new(),
            shape: Some(shape),
        }
    }

    /// The data of `slice`, packed.
    pub fn pack(&self, slice: Slice) -> Vec<u8> {
        let bytes = match slice.base {
            Base::Send => &self.send,
            Base::Recv => &self.recv,
            Base::Scratch => &self.scratch,
        };
        self.places(slice).into_iter().map(|place| bytes[place]).collect()
    }

    /// Writes packed `data` to `slice`.
    pub fn unpack(&mut self, slice: Slice, data: &[u8]) {
        assert_eq!(data.len(), slice.len);
        let places = self.places(slice);
        let bytes = match slice.base {
            Base::Send => &mut self.send,
            Base::Recv => &mut self.recv,
            Base::Scratch => &mut self.scratch,
        };
        for (place, &byte) in places.into_iter().zip(data) {
            bytes[place] = byte;
        }
    }

    /// The elements of `slice`.
    pub fn maps(&self, slice: Slice) -> Vec<Map> {
        self.pack(slice)
            .chunks(4)
            .map(|e| (u16::from_ne_bytes([e[0], e[1]]), u16::from_ne_bytes([e[2], e[3]])))
            .collect()
    }

    /// Sets the elements of `slice`.
    pub fn set_maps(&mut self, slice: Slice, maps: &[Map]) {
        let data: Vec<u8> = maps
            .iter()
            .flat_map(|m| [m.0.to_ne_bytes(), m.1.to_ne_bytes()].concat())
            .collect();
        self.unpack(slice, &data);
    }

    /// Indices of the slice's bytes in its memory, in message order.
    fn places(&self, slice: Slice) -> Vec<usize> {
        let shape = if slice.kind == BYTES {
            Shape::BYTES
        } else {
            self.shape.unwrap()
        };
        assert_eq!(slice.len, slice.count * shape.size);
        let origin = if slice.base == Base::Scratch { 0 } else { ORIGIN };
        (0..slice.count as isize)
            .flat_map(|index| (0..shape.size as isize).map(move |byte| (index, byte)))
            .map(|(index, byte)| (origin + slice.offset + index * shape.extent + shape.true_lb + byte) as usize)
            .collect()
    }

    fn work(&mut self, local: &Local) {
        match *local {
            Local::Copy { from, to } => {
                let data = self.pack(from);
                self.unpack(to, &data);
            }
            Local::Reduce { left, right } => {
                assert_ne!(right.base, Base::Send, "the send buffer was written");
                let result: Vec<Map> = self
                    .maps(left)
                    .into_iter()
                    .zip(self.maps(right))
                    .map(|(left, right)| compose(left, right))
                    .collect();
                self.set_maps(right, &result);
            }
        }
    }

    /// Fails when a byte that a message writes is also used by another message of the round.
    fn check_round(&self, messages: &[Message]) {
        if messages.len() < 2 {
            return;
        }
        let mut written = [self.send.len(), self.recv.len(), self.scratch.len()].map(|len| vec![false; len]);
        for message in messages {
            if let Message::Recv { slice, .. } = message {
                assert_ne!(slice.base, Base::Send, "the send buffer was written");
                for place in self.places(*slice) {
                    let twice = std::mem::replace(&mut written[slice.base as usize][place], true);
                    assert!(!twice, "two receives overlap");
                }
            }
        }
        for message in messages {
            if let Message::Send { slice, .. } = message {
                for place in self.places(*slice) {
                    assert!(!written[slice.base as usize][place], "a send and a receive overlap");
                }
            }
        }
    }
}

/// Who a rank's messages go to: rank `r` of its peers is simulated rank `peers(me, r)`.
pub type Peers<'a> = &'a dyn Fn(usize, u32) -> usize;

/// Runs all `schedules` to their ends.
pub fn run(schedules: &[Schedule], memories: &mut [Memory]) {
    run_between(schedules, memories, &|_, rank| rank as usize);
}

/// As [`run`], with ranks that count in another group.
pub fn run_between(schedules: &[Schedule], memories: &mut [Memory], peers: Peers) {
    struct At {
        round: usize,
        open: Vec<Message>,
    }
    let enter = |rank: usize, round: usize, memory: &Memory| {
        let open = schedules[rank]
            .rounds
            .get(round)
            .map(|r| r.messages.clone())
            .unwrap_or_default();
        memory.check_round(&open);
        At { round, open }
    };
    let mut at = Vec::new();
    for (rank, memory) in memories.iter_mut().enumerate() {
        memory.scratch = vec![0xdd; schedules[rank].scratch];
        at.push(enter(rank, 0, memory));
    }
    loop {
        let mut moved = false;
        for rank in 0..schedules.len() {
            let mut index = 0;
            while let Some(&message) = at[rank].open.get(index) {
                let Message::Send { to, slice } = message else {
                    index += 1;
                    continue;
                };
                let peer = peers(rank, to);
                assert_ne!(peer, rank, "a message to itself");
                let earlier = at[rank].open[..index]
                    .iter()
                    .any(|m| matches!(m, Message::Send { to: other, .. } if *other == to));
                let found = at[peer]
                    .open
                    .iter()
                    .position(|m| matches!(m, Message::Recv { from, .. } if peers(peer, *from) == rank));
                let Some(found) = found.filter(|_| !earlier) else {
                    index += 1;
                    continue;
                };
                let Message::Recv { slice: target, .. } = at[peer].open.remove(found) else {
                    unreachable!()
                };
                at[rank].open.remove(index);
                assert_eq!(slice.len, target.len, "rank {rank} to {peer}");
                let data = memories[rank].pack(slice);
                memories[peer].unpack(target, &data);
                moved = true;
            }
        }
        for rank in 0..schedules.len() {
            while at[rank].open.is_empty() && at[rank].round < schedules[rank].rounds.len() {
                for local in &schedules[rank].rounds[at[rank].round].local {
                    memories[rank].work(local);
                }
                at[rank] = enter(rank, at[rank].round + 1, &memories[rank]);
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    for (rank, at) in at.iter().enumerate() {
        assert_eq!(
            at.round,
            schedules[rank].rounds.len(),
            "rank {rank} is stuck with {:?}",
            at.open
        );
    }
}

/// The send buffer in elements of `shape`.
pub fn sends(shape: Shape) -> Area {
    Area {
        base: Base::Send,
        offset: 0,
        shape,
    }
}

/// The receive buffer in elements of `shape`.
pub fn recvs(shape: Shape) -> Area {
    Area {
        base: Base::Recv,
        offset: 0,
        shape,
    }
}
