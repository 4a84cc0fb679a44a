//! Which call a collective message belongs to, in a few bits of its tag, so that ranks that call
//! different operations learn it from the first message (MPI-4.1 §6.1 demands the same order everywhere).
//!
//! ```text
//!  31  30      27 26       21 20                 0
//! +---+----------+-----------+--------------------+
//! | 1 |   kind   |    mix    |  number of the call |
//! +---+----------+-----------+--------------------+
//! ```
//! Messages are matched without `kind` and `mix` ([`SIGNATURE_BITS`]); the receiver compares them.
//! Tags of other messages of that plane are never negative.
//!
//! [`SIGNATURE_BITS`]: crate::mpi::pt2pt::matching::SIGNATURE_BITS

use super::board;
use crate::fail;
use crate::mpi::error::Result;
use crate::mpi::op::{Function, Op};
use crate::mpi::pt2pt::matching::SIGNATURE_BITS;
use crate::mpi::request::{Kind, Request};
use crate::mpi::world::Hold;

/// Which operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Call {
    Internal,
    Barrier,
    Bcast,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    Reduce,
    Allreduce,
    ReduceScatter,
    Scan,
    Exscan,
    Neighbor,
    Finalize,
}

/// The calls by number, and what a message says about them.
const CALLS: [(Call, &str); 14] = [
    (Call::Internal, "making or freeing a communicator"),
    (Call::Barrier, "MPI_Barrier"),
    (Call::Bcast, "MPI_Bcast"),
    (Call::Gather, "MPI_Gather or MPI_Gatherv"),
    (Call::Scatter, "MPI_Scatter or MPI_Scatterv"),
    (Call::Allgather, "MPI_Allgather or MPI_Allgatherv"),
    (Call::Alltoall, "MPI_Alltoall or its kin"),
    (Call::Reduce, "MPI_Reduce"),
    (Call::Allreduce, "MPI_Allreduce"),
    (Call::ReduceScatter, "MPI_Reduce_scatter or MPI_Reduce_scatter_block"),
    (Call::Scan, "MPI_Scan"),
    (Call::Exscan, "MPI_Exscan"),
    (Call::Neighbor, "a neighbourhood collective"),
    (Call::Finalize, "MPI_Finalize"),
];
const _: () = {
    let mut number = 0;
    while number < CALLS.len() {
        assert!(CALLS[number].0 as usize == number);
        number += 1;
    }
};

const KIND_SHIFT: u32 = 27;
const MIX_SHIFT: u32 = 21;
const MIX_BITS: u32 = 6;
/// A multiplier that spreads neighbouring values (2^64 divided by the golden ratio).
pub(super) const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// A call as its messages name it: `kind` and `mix` in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature(u32);

impl Signature {
    /// A call whose arguments are not compared.
    #[inline]
    pub const fn of(call: Call) -> Signature {
        Signature((call as u32) << KIND_SHIFT)
    }

    /// With one more argument that all ranks must give alike. Cost: a multiplication.
    #[inline]
    pub const fn with(self, argument: u64) -> Signature {
        let mixed = (u64_of(self) ^ argument).wrapping_add(1).wrapping_mul(SPREAD) >> (64 - MIX_BITS);
        let kind = self.0 >> KIND_SHIFT << KIND_SHIFT;
        Signature(kind | (mixed as u32) << MIX_SHIFT)
    }

    /// With what a reduction computes; all functions of the program count as one.
    #[inline]
    pub fn with_op(self, op: &Op) -> Signature {
        match op.function {
            Function::Builtin(builtin) => self.with(builtin as u64),
            _ => self.with(u64::MAX),
        }
    }

    /// The tag of call `number` (with the bit of persistent operations).
    #[inline]
    pub fn tag(self, number: i32) -> i32 {
        i32::MIN | self.0 as i32 | number
    }
}

const fn u64_of(signature: Signature) -> u64 {
    ((signature.0 >> MIX_SHIFT & ((1 << MIX_BITS) - 1)) as u64) << 32
}

/// Whether two tags of the same number name different calls.
#[inline]
pub fn differ(mine: i32, theirs: i32) -> bool {
    (mine ^ theirs) as u32 as u64 & SIGNATURE_BITS != 0
}

/// What a tag says about the call.
pub fn name(tag: i32) -> &'static str {
    CALLS
        .get((tag as u32 >> KIND_SHIFT & 0xf) as usize)
        .map_or("something else", |call| call.1)
}

/// What is wrong, from the tags of this rank and of rank `theirs`.
pub fn complaint(mine: i32, from: i32, theirs: i32) -> String {
    let (here, there) = (name(mine), name(theirs));
    if here == there {
        return format!(
            "rank {from} of the communicator is in the same collective operation ({here}) with another root, \
             operation, datatype or count"
        );
    }
    format!("this rank is in {here}, but rank {from} of the communicator is in {there}")
}

/// Looks at the end for what nobody received: messages of collective operations, which only ranks that
/// made different calls leave behind. With `NEARMPI_CHECK`, also other messages and open requests.
///
/// # Errors
/// `Other`: there is such a thing.
pub fn check_end(hold: &mut Hold) -> Result<()> {
    // A barrier by boards looks into no queue.
    while hold.progress(None)? {}
    let strict = hold.engine.channel.settings().check > 0;
    board::check_end(hold)?;
    for (envelope, stored) in hold.engine.unexpected.iter() {
        let (source, tag, context) = (envelope.source(), envelope.tag(), envelope.context() >> 1);
        if !hold.stands(stored) || hold.engine.channel.segment().fate(context).is_revoked() {
            continue; // Its sender has withdrawn it, or nobody may receive it.
        }
        if envelope.context() & 1 == 1 && tag < 0 {
            let call = name(tag);
            fail!(
                Other,
                "rank {source} of communicator {context} was in {call} when this rank was not: \
                 its message is left over at the end"
            );
        }
        if strict {
            fail!(
                Other,
                "a message from rank {source} of communicator {context} with tag {tag} was never received"
            );
        }
    }
    let is_open = |request: &Request| match &request.kind {
        Kind::Persistent(persistent) => persistent.active.is_some(),
        _ => true,
    };
    let open = hold.requests.iter().filter(|(_, request)| is_open(request)).count();
    if strict && open > 0 {
        fail!(Other, "{open} requests were never completed by MPI_Wait or MPI_Test");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::coll::TAGS;
    use crate::mpi::status::ANY_TAG;

    #[test]
    fn close_arguments_differ() {
        let bcast = Signature::of(Call::Bcast);
        for root in 0..60 {
            assert!(differ(bcast.with(root).tag(5), bcast.with(root + 1).tag(5)));
            assert!(differ(
                bcast.with(0).with(root).tag(5),
                bcast.with(0).with(root + 1).tag(5)
            ));
        }
        assert!(!differ(bcast.with(3).tag(5), bcast.with(3).tag(5)));
        let text = complaint(bcast.tag(1), 2, Signature::of(Call::Barrier).with(7).tag(1));
        assert_eq!(
            text,
            "this rank is in MPI_Bcast, but rank 2 of the communicator is in MPI_Barrier"
        );
    }

    #[test]
    fn no_tag_is_any_tag() {
        let last = Signature::of(Call::Finalize);
        for argument in 0..1000 {
            let tag = last.with(argument).tag(2 * TAGS as i32 - 1);
            assert!(tag < ANY_TAG, "{tag}");
        }
    }
}
