//! What a completed operation tells its caller.

/// Source of a message that was matched with `MPI_ANY_SOURCE`, in the numbers of the ABI.
pub const ANY_SOURCE: i32 = -2;
/// Any tag.
pub const ANY_TAG: i32 = -1;
/// The rank that is nobody.
pub const PROC_NULL: i32 = -1;
/// "Undefined" colours, counts and ranks.
pub const UNDEFINED: i32 = -32766;

/// Envelope and size of a received message (MPI-4.1 §3.2.5). The C layout is `abi::types::MPI_Status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Rank of the sender in the communicator.
    pub source: i32,
    /// Tag of the message.
    pub tag: i32,
    /// Class of the error this operation ended with, 0 for success.
    pub error: i32,
    /// Bytes received.
    pub bytes: u64,
    /// Whether the operation was cancelled.
    pub cancelled: bool,
}

impl Status {
    /// Of a message of `bytes` bytes that was received, or would be.
    #[inline(always)]
    pub const fn received(source: i32, tag: i32, bytes: usize) -> Status {
        Status {
            source,
            tag,
            error: 0,
            bytes: bytes as u64,
            cancelled: false,
        }
    }
    /// The empty status (MPI-4.1 §3.7.3).
    pub const EMPTY: Status = Status {
        source: ANY_SOURCE,
        tag: ANY_TAG,
        error: 0,
        bytes: 0,
        cancelled: false,
    };
    /// What a receive from `MPI_PROC_NULL` returns (MPI-4.1 §3.10).
    pub const PROC_NULL: Status = Status {
        source: PROC_NULL,
        tag: ANY_TAG,
        error: 0,
        bytes: 0,
        cancelled: false,
    };
}
