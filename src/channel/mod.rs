//! Ordered packets between the ranks of one machine.
