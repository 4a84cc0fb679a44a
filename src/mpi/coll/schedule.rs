//! Schedules: what one rank does in a collective operation, as pure data.
//!
//! A schedule is a list of rounds. A round starts all its messages at once, waits for them, and then
//! does its local work (copies and reductions) in order. Memory is named, not pointed to: a
//! [`Slice`] counts from the send buffer, the receive buffer or the schedule's scratch memory, in
//! elements of a numbered type. So a schedule is built once and run many times (persistent
//! operations), and is checked for every number of ranks without a runtime.

/// Which memory a slice counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The caller's send buffer; never written.
    Send,
    /// The caller's receive buffer.
    Recv,
    /// Memory that lives as long as the operation.
    Scratch,
}

/// Number of a type: [`BYTES`] or an entry of the operation's type list, counted from 1.
pub type Kind = u32;

/// The type of plain bytes: how packed data is kept in scratch memory.
pub const BYTES: Kind = 0;

/// Elements in a row: `count` of type `kind`, the first at `offset` bytes from `base`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Which memory.
    pub base: Base,
    /// Bytes from the base to the first element's address.
    pub offset: isize,
    /// Number of elements.
    pub count: usize,
    /// Type of the elements.
    pub kind: Kind,
    /// Bytes of data in all.
    pub len: usize,
}

/// How elements of a type lie in memory; lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The type's number.
    pub kind: Kind,
    /// Data in one element.
    pub size: usize,
    /// From one element to the next.
    pub extent: isize,
    /// From an element's address to its lowest byte.
    pub true_lb: isize,
    /// From an element's lowest byte to the end of its highest.
    pub true_extent: usize,
}

/// A row of elements without an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Area {
    /// Which memory.
    pub base: Base,
    /// Bytes from the base to element 0.
    pub offset: isize,
    /// The elements.
    pub shape: Shape,
}

/// A message of a round. Ranks are those that `pt2pt` takes: of the remote group in an
/// intercommunicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Sends `slice` to rank `to`.
    Send {
        /// The receiver.
        to: u32,
        /// What is sent.
        slice: Slice,
    },
    /// Receives `slice` from rank `from`.
    Recv {
        /// The sender.
        from: u32,
        /// Where it goes.
        slice: Slice,
    },
}

/// Work without communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// Copies the data of `from` to `to`, which has as many bytes.
    Copy {
        /// Where it comes from.
        from: Slice,
        /// Where it goes.
        to: Slice,
    },
    /// `right = left op right`, element by element: the operands in the order that `MPI_User_function` has.
    Reduce {
        /// The operand from the lower ranks, left as it is.
        left: Slice,
        /// The operand from the higher ranks, replaced by the result.
        right: Slice,
    },
}

/// Messages that travel together, and the local work after them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Started together; the order within one pair of ranks counts.
    pub messages: Vec<Message>,
    /// Done in order when all messages are over.
    pub local: Vec<Local>,
}

/// What one rank does in one collective operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// In order.
    pub rounds: Vec<Round>,
    /// Bytes of scratch memory, aligned to [`SCRATCH_ALIGN`].
    pub scratch: usize,
}

/// A rank among the members of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// This rank.
    pub rank: u32,
    /// How many there are.
    pub size: u32,
}

/// Alignment of scratch memory and of every piece that [`Schedule::reserve`] hands out.
pub const SCRATCH_ALIGN: usize = 64;

/// How many receives (and sends) a round of an operation among all pairs starts at once.
pub const WINDOW: u32 = 32;

impl Shape {
    /// Plain bytes.
    pub const BYTES: Shape = Shape {
        kind: BYTES,
        size: 1,
        extent: 1,
        true_lb: 0,
        true_extent: 1,
    };
}

impl Slice {
    /// No data.
    pub const EMPTY: Slice = Slice {
        base: Base::Scratch,
        offset: 0,
        count: 0,
        kind: BYTES,
        len: 0,
    };
}

impl Area {
    /// Bytes that start `offset` bytes from `base`.
    pub fn bytes(base: Base, offset: isize) -> Area {
        Area {
            base,
            offset,
            shape: Shape::BYTES,
        }
    }

    /// Elements `first .. first + count`.
    pub fn slice(&self, first: usize, count: usize) -> Slice {
        Slice {
            base: self.base,
            offset: self.offset + first as isize * self.shape.extent,
            count,
            kind: self.shape.kind,
            len: count * self.shape.size,
        }
    }
}

impl Round {
    /// Adds a send; nothing for an empty slice, which its receiver leaves out as well.
    pub fn send(&mut self, to: u32, slice: Slice) {
        if slice.len > 0 {
            self.messages.push(Message::Send { to, slice });
        }
    }

    /// Adds a receive; nothing for an empty slice.
    pub fn recv(&mut self, from: u32, slice: Slice) {
        if slice.len > 0 {
            self.messages.push(Message::Recv { from, slice });
        }
    }

    /// Adds an empty message to `to`.
    pub fn signal(&mut self, to: u32) {
        self.messages.push(Message::Send {
            to,
            slice: Slice::EMPTY,
        });
    }

    /// Adds the receive of an empty message from `from`.
    pub fn hear(&mut self, from: u32) {
        self.messages.push(Message::Recv {
            from,
            slice: Slice::EMPTY,
        });
    }

    /// Adds a copy after the messages; nothing when it would copy nothing or to itself.
    pub fn copy(&mut self, from: Slice, to: Slice) {
        if from.len > 0 && from != to {
            self.local.push(Local::Copy { from, to });
        }
    }

    /// Adds `right = left op right` after the messages.
    pub fn reduce(&mut self, left: Slice, right: Slice) {
        if left.count > 0 {
            self.local.push(Local::Reduce { left, right });
        }
    }
}

impl Schedule {
    /// Starts a new round.
    pub fn round(&mut self) -> &mut Round {
        self.rounds.push(Round::default());
        self.rounds.last_mut().unwrap()
    }

    /// The round that further local work goes to.
    pub fn last(&mut self) -> &mut Round {
        if self.rounds.is_empty() {
            return self.round();
        }
        self.rounds.last_mut().unwrap()
    }

    /// Scratch memory for `len` bytes.
    pub fn reserve(&mut self, len: usize) -> Area {
        let offset = self.scratch;
        self.scratch = (offset + len).next_multiple_of(SCRATCH_ALIGN);
        Area::bytes(Base::Scratch, offset as isize)
    }

    /// Scratch memory for `count` elements of `shape`, laid out as in a program's buffer.
    pub fn reserve_elements(&mut self, shape: Shape, count: usize) -> Area {
        let step = shape.extent * count.saturating_sub(1) as isize;
        let bytes = self.reserve(shape.true_extent + step.unsigned_abs());
        Area {
            offset: bytes.offset - shape.true_lb - step.min(0),
            shape,
            ..bytes
        }
    }
}

impl Member {
    /// The rank `steps` after this one, around the ring.
    pub fn after(&self, steps: u32) -> u32 {
        ((self.rank as u64 + steps as u64) % self.size as u64) as u32
    }

    /// The rank `steps` (at most `size`) before this one, around the ring.
    pub fn before(&self, steps: u32) -> u32 {
        self.after(self.size - steps)
    }

    /// This member as seen from `root`: the root has rank 0, the others follow around the ring.
    pub fn seen_from(&self, root: u32) -> Member {
        Member {
            rank: self.before(root),
            size: self.size,
        }
    }
}

/// Part `index` of `count` elements shared by `parts` ranks: first element and number of elements.
/// All parts but the last ones have the same size.
pub fn share(count: usize, parts: u32, index: u32) -> (usize, usize) {
    let each = count.div_ceil(parts as usize);
    let first = (each * index as usize).min(count);
    (first, each.min(count - first))
}

/// The binomial tree over `0 .. size` with root 0, of which every subtree is a run of ranks.
pub mod tree {
    use super::Member;

    /// Ranks in the subtree of `member`: it and the ones that follow.
    pub fn span(member: Member) -> u32 {
        let reach = if member.rank == 0 {
            member.size
        } else {
            1 << member.rank.trailing_zeros()
        };
        reach.min(member.size - member.rank)
    }

    /// The parent, except for rank 0.
    pub fn parent(member: Member) -> Option<u32> {
        (member.rank != 0).then(|| member.rank & (member.rank - 1))
    }

    /// The children, nearest (smallest subtree) first.
    pub fn children(member: Member) -> impl DoubleEndedIterator<Item = Member> {
        let span = span(member);
        (0..32).filter(move |&bit| 1u32 << bit < span).map(move |bit| Member {
            rank: member.rank + (1 << bit),
            size: member.size,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tree_subtrees_are_runs_that_add_up() {
        for size in 1..=64 {
            for rank in 0..size {
                let member = Member { rank, size };
                let mut next = rank + 1;
                for child in tree::children(member) {
                    assert_eq!(child.rank, next);
                    assert_eq!(tree::parent(child), Some(rank));
                    next += tree::span(child);
                }
                assert_eq!(next - rank, tree::span(member), "rank {rank} of {size}");
            }
        }
    }

    #[test]
    fn shares_cover_everything_once() {
        for count in 0..40 {
            for parts in 1..20 {
                let mut next = 0;
                for index in 0..parts {
                    let (first, len) = share(count, parts, index);
                    assert_eq!(first, next);
                    next += len;
                }
                assert_eq!(next, count);
            }
        }
    }

    #[test]
    fn scratch_of_a_falling_type_stays_inside() {
        let shape = Shape {
            kind: 1,
            size: 4,
            extent: -8,
            true_lb: -2,
            true_extent: 5,
        };
        let mut schedule = Schedule::default();
        schedule.reserve(10);
        let area = schedule.reserve_elements(shape, 3);
        for index in 0..3 {
            let low = area.slice(index, 1).offset + shape.true_lb;
            assert!(low >= 64 && low + shape.true_extent as isize <= schedule.scratch as isize);
        }
    }
}
