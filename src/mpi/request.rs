//! Requests: what has been started and is not yet waited for (MPI-4.1 §3.7).

use super::status::Status;

/// Key of a request in [`super::world::State::requests`].
pub type RequestKey = u32;

/// A started operation.
#[derive(Debug)]
pub struct Request {
    /// Set when the operation is over.
    pub done: Option<Status>,
}
