//! What a rank and mpirun read out of shared memory while another rank writes junk there: an error or nothing, never
//! an access out of bounds. Both ranks are real and live in this process; between their steps, rank 1's rings, cells,
//! offers, board and block, or anything else, are overwritten. Twelve bytes of input are a step: what, where, value.
#![no_main]
#![allow(dead_code, missing_docs)]

#[path = "../../src/bin/nearmpi-profile/collect.rs"]
mod collect;
#[path = "../../src/bin/nearmpi-profile/model.rs"]
mod model;
#[path = "../../src/bin/mpirun/report.rs"]
mod report;
#[path = "../../src/bin/mpirun/view.rs"]
mod view;

use libfuzzer_sys::fuzz_target;
use mpi::mpi::buffer::Buffer;
use mpi::mpi::coll::bcast_bytes;
use mpi::mpi::comm::Plane;
use mpi::mpi::pt2pt::{self, Mode};
use mpi::mpi::world::{Hold, State, World};
use mpi::shm::segment::{self, Segment};
use mpi::sys::cvar::Settings;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, LazyLock};

/// The names of calls, which take longer to read than anything here.
static CALLS: LazyLock<view::Calls> = LazyLock::new(view::Calls::new);

/// A job of two ranks in this process.
struct Job {
    file: File,
    segment: Arc<Segment>,
    /// Parts of the segment, as offsets.
    regions: Vec<Range<usize>>,
    /// Memory that operations use, until the end.
    buffers: Vec<Vec<u8>>,
}

impl Job {
    fn new() -> Job {
        let file = File::from(segment::create(2, 2).unwrap());
        let segment = Arc::new(Segment::attach(file.as_fd()).unwrap());
        let layout = segment.layout();
        let part = |at: usize, len: usize| at..at + len;
        let regions = vec![
            part(layout.slots(0, 1), 64 * 16),
            part(layout.slots(0, 1), 64 * layout.slots),
            part(layout.boards(1), 128 * 6), // slots 0 to 4
            part(layout.offers(1), 4096),
            part(layout.block(1), 2048),
            part(layout.credit(1, 0), 64),
            part(layout.pool(1), 8192),
            part(layout.fates(), 64),
            part(layout.profile(1), 4096),
            0..64,
            0..layout.len,
        ];
        Job {
            file,
            segment,
            regions,
            buffers: Vec::new(),
        }
    }

    fn junk(&self, region: u8, place: u16, value: [u8; 8]) {
        let region = &self.regions[usize::from(region) % self.regions.len()];
        let words = (region.len() / 8).max(1);
        // Small numbers reach every word of a small region, large ones all of a large one.
        let word = if words <= 1 << 16 {
            usize::from(place)
        } else {
            usize::from(place) * (words >> 16)
        };
        let at = region.start + word % words * 8;
        self.file.write_all_at(&value, at as u64).unwrap();
        // The kernel is not asked for other processes' memory.
        for rank in 0..2 {
            self.segment
                .rank(rank)
                .pid
                .store(0, std::sync::atomic::Ordering::Relaxed);
        }
    }

    fn room(&mut self, len: usize) -> Buffer {
        self.buffers.push(vec![0; len]);
        let buffer = self.buffers.last_mut().unwrap();
        Buffer::bytes(buffer.as_mut_ptr(), len)
    }

    fn send(&mut self, hold: &mut Hold, to: u32, len: usize) -> bool {
        let (comm, buffer) = (hold.world.clone(), self.room(len));
        pt2pt::isend(hold, &comm, Plane::PointToPoint, buffer, to, 3, Mode::Standard).is_ok()
    }

    fn receive(&mut self, hold: &mut Hold, from: i32, len: usize) -> bool {
        let (comm, buffer) = (hold.world.clone(), self.room(len));
        pt2pt::irecv(hold, &comm, Plane::PointToPoint, buffer, from, 3).is_ok()
    }
}

fuzz_target!(|input: &[u8]| {
    let mut job = Job::new();
    // No process of the other rank's to be read; rings that grow when they are full for the first time.
    let value = |name: &str| match name {
        "NEARMPI_ONE_COPY" => Some("0".to_string()),
        "NEARMPI_RING_GROW" => Some("1".to_string()),
        _ => None,
    };
    let settings = Settings::read(value).unwrap();
    let worlds = [0, 1].map(|rank| World::new(State::join(job.segment.clone(), rank, settings.clone()), false));
    let [mut honest, mut other] = [worlds[0].hold(), worlds[1].hold()];
    let mut is_sane = true;
    for step in input.as_chunks::<12>().0.iter().take(64) {
        let [what, region, p0, p1, value @ ..] = *step;
        let place = u16::from_le_bytes([p0, p1]);
        let len = usize::from(place) * if region & 1 == 0 { 1 } else { 16 };
        match what % 12 {
            0 if is_sane => is_sane = job.send(&mut other, 0, len),
            1 if is_sane => is_sane = job.receive(&mut other, 0, len),
            2 if !job.send(&mut honest, 1, len) => return,
            3 if !job.receive(&mut honest, if region & 2 == 0 { 1 } else { -2 }, len) => return,
            4 if is_sane => is_sane = (0..8).all(|_| other.progress(None).is_ok()),
            5 if (0..8).any(|_| honest.progress(None).is_err()) => return,
            6 if is_sane => {
                // The root shows and waits for nobody; what it shows is overwritten but for its turn.
                let (comm, len) = (other.world.clone(), len.min(8 << 10));
                let mut bytes = vec![1; len];
                is_sane = bcast_bytes(&mut other, &comm, 1, &mut bytes).is_ok();
                let board = job.segment.board(1, 0, false).unwrap();
                let turns = [1, 2, 3, 4].map(|turn| board.slot(turn).turn().load(std::sync::atomic::Ordering::Relaxed));
                job.junk(2, place % 96, value);
                let same = [1, 2, 3, 4].map(|turn| board.slot(turn).turn().load(std::sync::atomic::Ordering::Relaxed))
                    == turns;
                // What a far note points to cannot be read here, and the message asked for instead never comes: its
                // sender is dead.
                let far = [1, 2, 3, 4].iter().any(|&turn| board.slot(turn).note().far);
                if far {
                    job.segment.bury(1);
                }
                let comm = honest.world.clone();
                let mut bytes = vec![0; len];
                if !is_sane || !same || bcast_bytes(&mut honest, &comm, 1, &mut bytes).is_err() || far {
                    return;
                }
            }
            7 => {
                let views = view::look(&CALLS, &job.segment, 0..job.segment.ranks(), |_| (None, false));
                assert!(!report::lines(&views, region & 1 == 0).is_empty());
                let _ = (job.segment.is_damaged(), job.segment.aborted(job.segment.known() - 1), job.segment.events());
            }
            8 if region == 0 => {
                let blocks: Vec<_> = (0..2).map(|rank| job.segment.profile(rank)).collect();
                drop(collect::collect(&blocks, &collect::Ends::default()));
            }
            9 => drop(Segment::attach(job.file.as_fd())),
            _ => job.junk(region, place, value),
        }
    }
});
