//! Which way a blocking collective of an intracommunicator goes: one table, the same at all ranks, made when the
//! communicator's boards are opened.
//!
//! A row says up to how many bytes of a rank the operation is shown on the boards, in pieces of `near` bytes where it
//! goes in pieces, and up to how many it is offered, to be copied once; what is longer still becomes a schedule.

use super::board::MOST;
use crate::sys::cvar::Settings;

/// Smallest pieces, in bytes: a turn costs as much as copying these.
const LEAST: usize = 1024;

/// Ranks up to which each reads all before it in a prefix reduction of long vectors.
const FEW_SCAN: usize = 8;

/// One operation's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Bytes of a rank up to which it goes by boards.
    pub shown: usize,
    /// Bytes up to which what is longer is copied once; 0: never, however long or of unknown length.
    pub offered: usize,
}

/// However long.
const ANY: usize = usize::MAX;

impl Row {
    /// Whether `len` bytes, too many to be shown, are copied once.
    #[inline]
    pub fn offers(&self, len: usize) -> bool {
        len <= self.offered
    }

    /// Whether what is too long to be shown, or of a length that not all ranks know, is copied once.
    #[inline]
    pub fn offers_any(&self) -> bool {
        self.offered > 0
    }
}

/// Bytes from which two ranks that have a CPU each broadcast by messages: there both copy, and the root would only wait.
const BOTH_COPY: usize = 512 << 10;

/// The table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Bytes shown at a time, and the length of pieces.
    pub near: usize,
    /// Bytes from which each rank reduces its share of an allreduce.
    pub share: usize,
    /// `MPI_Bcast`, in pieces.
    pub bcast: Row,
    /// `MPI_Reduce`, in pieces.
    pub reduce: Row,
    /// `MPI_Allreduce`, in pieces.
    pub allreduce: Row,
    /// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`, by the bytes of all blocks.
    pub reduce_scatter: Row,
    /// `MPI_Scan` and `MPI_Exscan`, in pieces.
    pub scan: Row,
    /// `MPI_Gather`, in pieces; `MPI_Gatherv` is always as long as the longest.
    pub gather: Row,
    /// `MPI_Scatter`, by the bytes of all blocks for others; `MPI_Scatterv` is always as long as the longest.
    pub scatter: Row,
    /// `MPI_Allgather` and `MPI_Allgatherv`, by the bytes of the largest block.
    pub allgather: Row,
    /// `MPI_Alltoall`, by the bytes of all blocks for others; its kin are always as long as the longest.
    pub alltoall: Row,
}

impl Table {
    /// The table for `size` ranks, of a job whose ranks share CPUs if `crowded`.
    pub fn new(settings: &Settings, crowded: bool, size: usize) -> Table {
        let near = (settings.board_max as usize).min(MOST);
        let can = near > 0 && settings.one_copy != 0;
        // What is longer may be copied once where readers share the work; elsewhere, and then nothing goes in pieces.
        let (far, always) = match settings.board_one_copy {
            0 => (false, false),
            1 => (can && !crowded, false),
            _ => (can, can),
        };
        let pieces = match near >= LEAST && !always {
            true => settings.board_pieces as usize,
            false => 0,
        };
        let short = near.max(pieces);
        let long = near.max(pieces.saturating_mul(4));
        // Two ranks gain by pieces at any length: while one reduces, the other shows the next.
        let reduced = |most| if pieces > 0 && size <= 2 { ANY } else { most };
        // Shown to ranks that all take from all.
        let direct = match crowded {
            true => near,
            false => near.min(settings.board_direct as usize),
        };
        let row = |shown, offered| Row {
            shown,
            offered: if offered { ANY } else { 0 },
        };
        Table {
            near,
            // Two ranks read as much either way, and one turn is shorter than two.
            share: match size {
                0..=2 => settings.share_min.saturating_mul(4) as usize,
                _ => settings.share_min as usize,
            },
            bcast: match (far && !always, size) {
                (true, ..=2) => Row {
                    shown: direct,
                    offered: BOTH_COPY - 1,
                },
                // Where each rank has a CPU, two can copy by messages.
                _ => row(if crowded { long } else { short }, always),
            },
            reduce: row(reduced(long), always),
            // Two ranks show each other half of each piece.
            allreduce: match (far && !crowded, size) {
                (true, 3..) => row(near, true),
                (true, _) => row(short, true),
                (false, _) => row(long, far),
            },
            reduce_scatter: row(near, far),
            scan: row(reduced(short), always && size <= FEW_SCAN),
            gather: row(short, always),
            scatter: row(direct, far),
            allgather: row(direct, far),
            alltoall: row(direct, far),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(set: &[(&str, &str)], crowded: bool, size: usize) -> Table {
        let value = |name: &str| {
            set.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).into())
        };
        Table::new(&Settings::read(value).unwrap(), crowded, size)
    }

    #[test]
    fn ranks_with_a_cpu_each_copy_long_data_once_and_those_that_share_cpus_take_pieces() {
        let (roomy, crowded) = (table(&[], false, 4), table(&[], true, 4));
        assert_eq!((roomy.allreduce.shown, roomy.allreduce.offered), (65536, ANY));
        assert_eq!((crowded.allreduce.shown, crowded.allreduce.offered), (1 << 20, 0));
        assert_eq!((roomy.alltoall.shown, crowded.alltoall.shown), (16384, 65536));
        assert_eq!((roomy.bcast.shown, crowded.bcast.shown), (1 << 18, 1 << 20));
    }

    #[test]
    fn two_ranks_share_reductions_later_and_show_more() {
        let (two, three) = (table(&[], false, 2), table(&[], false, 3));
        assert_eq!((two.share, three.share), (32768, 8192));
        assert_eq!((two.allreduce.shown, three.allreduce.shown), (1 << 18, 65536));
        assert_eq!((two.reduce.shown, three.reduce.shown), (ANY, 1 << 20));
    }

    #[test]
    fn two_ranks_copy_a_broadcast_of_middling_length_once() {
        let two = table(&[], false, 2);
        assert_eq!(two.bcast.shown, 16384);
        assert!(two.bcast.offers(BOTH_COPY - 1) && !two.bcast.offers(BOTH_COPY));
        let refused = table(&[("NEARMPI_ONE_COPY", "0")], false, 2);
        assert!(!refused.bcast.offers_any() && refused.bcast.shown == 1 << 18);
    }

    #[test]
    fn switches_turn_ways_off() {
        let none = table(
            &[("NEARMPI_BOARD_ONE_COPY", "0"), ("NEARMPI_BOARD_PIECES", "0")],
            false,
            4,
        );
        assert_eq!(
            (none.allreduce, none.bcast.shown),
            (
                Row {
                    shown: 65536,
                    offered: 0
                },
                65536
            )
        );
        let all = table(&[("NEARMPI_BOARD_ONE_COPY", "2")], true, 9);
        assert_eq!((all.bcast.shown, all.bcast.offered, all.scan.offered), (65536, ANY, 0));
        let refused = table(&[("NEARMPI_BOARD_ONE_COPY", "2"), ("NEARMPI_ONE_COPY", "0")], true, 4);
        assert!(!refused.bcast.offers_any() && refused.bcast.shown > 65536);
    }
}
