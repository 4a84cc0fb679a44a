//! What `NEARMPI_CHECK=1` looks at besides: handles that are left at the end, and buffers of operations under way
//! that overlap (MPI-4.1 §3.7.2: nobody touches a buffer while an operation has it). The types of messages are the
//! business of [`super::pt2pt::types`].

use super::buffer::Buffer;
use super::error::Result;
use super::pt2pt::engine::CAREFUL;
use super::request::Kind;
use super::world::State;
use crate::fail;

impl State {
    /// Whether the checks were asked for; then all calls go the long way.
    #[inline]
    pub fn is_checking(&self) -> bool {
        self.engine.detours & CAREFUL != 0 && self.engine.notes.is_some()
    }

    /// What the program made and never freed, as a sentence.
    pub fn leaks(&self) -> Option<String> {
        let kinds = [
            (self.comms.len(), "communicator"),
            (self.groups.len(), "group"),
            (self.datatypes.made(), "datatype"),
            (self.ops.made(), "reduction operation"),
            (self.windows.len(), "window"),
            (self.files.len(), "open file"),
        ];
        let left = kinds.into_iter().filter(|(count, _)| *count > 0);
        let left: Vec<String> = left
            .map(|(count, name)| format!("{count} {name}{}", if count == 1 { "" } else { "s" }))
            .collect();
        (!left.is_empty()).then(|| format!("{} never freed", left.join(", ")))
    }

    /// Fails if a buffer of an operation that begins overlaps one under way, where one of both is received into.
    /// Buffers with gaps are not compared.
    ///
    /// # Errors
    /// `Buffer`.
    #[cold]
    pub fn check_overlap(&self, buffer: &Buffer, is_receive: bool) -> Result<()> {
        let Some((from, to)) = span(buffer) else { return Ok(()) };
        let overlaps = |other: (usize, usize)| from < other.1 && other.0 < to;
        let receives = self.requests.iter().filter_map(|(_, request)| match &request.kind {
            Kind::Recv(receive) if request.done.is_none() => span(&receive.buffer),
            _ => None,
        });
        let what = if is_receive { "receives into" } else { "sends" };
        if let Some((start, end)) = receives.into_iter().find(|&other| overlaps(other)) {
            fail!(
                Buffer,
                "the operation {what} the {} bytes at {from:#x}, but a receive under way has the {} at {start:#x}",
                to - from,
                end - start
            );
        }
        let sends = self.engine.channel.open_sends().filter(|_| is_receive);
        let sends = sends.filter_map(|send| send.at.map(|at| (at as usize, at as usize + send.len)));
        if let Some((start, end)) = sends.into_iter().find(|&other| overlaps(other)) {
            fail!(
                Buffer,
                "the operation {what} the {} bytes at {from:#x}, but a send under way has the {} at {start:#x}",
                to - from,
                end - start
            );
        }
        Ok(())
    }
}

/// First byte and the one behind the last.
fn span(buffer: &Buffer) -> Option<(usize, usize)> {
    let first = buffer.in_a_row()? as usize;
    (!buffer.is_empty()).then(|| (first, first + buffer.len()))
}
