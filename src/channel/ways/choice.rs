//! Which ways there are for a message, and what each costs at least, as far as that is known before it is tried.

use super::Way;

/// Which ways there are for a length, and which one without experience.
#[derive(Clone, Copy, Debug)]
pub(in crate::channel) struct Choice {
    /// One bit for each.
    pub open: u8,
    /// The best guess.
    pub guess: Way,
    /// Nanoseconds that one copy of a byte takes at least; 0: not known.
    pub one_copy: f32,
    /// ... and more for a message that shares no call of the kernel with others.
    pub call: f32,
    /// ... and two copies by two ranks at a time.
    pub two_copies: f32,
    /// The ring becomes a long one once it has been full: what a few messages cost by value before says nothing.
    pub grows: bool,
}

impl Choice {
    /// Whether there is this one.
    pub(in crate::channel) fn has(self, way: Way) -> bool {
        self.open & bit(way) != 0
    }

    /// What `way` costs a byte at least; `both`: of two ranks that send to each other; `heavy`: of many messages at a time.
    pub(in crate::channel) fn least(self, way: Way, both: bool, heavy: bool) -> f32 {
        let call = if heavy { 0.0 } else { self.call };
        match way {
            Way::Cells => least_by_cells(self.two_copies, both),
            Way::Pull => self.one_copy + call,
            // Where both send, each has a message of its own to copy.
            Way::Join => self.one_copy / 2.0 * (1 + both as u8) as f32 + call,
        }
    }
}

/// What a byte costs at least that two ranks copy twice; if `both` send, each of them copies that of both.
pub(super) fn least_by_cells(two_copies: f32, both: bool) -> f32 {
    two_copies * (1 + both as u8) as f32
}

/// The bit of [`Choice::open`] for `way`.
pub(super) fn bit(way: Way) -> u8 {
    1 << way as u8
}
