//! What tests of collective operations share: jobs of threads, and arguments made of vectors of integers.

use super::args::{Blocks, Data, Places, Reduction};
use super::internal;
use super::machine::Element;
use crate::mpi::datatype::Datatype;
use crate::mpi::datatype::basic::index;
use crate::mpi::op::Op;
use crate::mpi::world::{State, World};
use crate::shm::segment::Segment;
use crate::sys::cvar::Settings;
use std::rc::Rc;
use std::sync::Arc;

const INT: i32 = 0x4c00_0405;

/// A rank of a job of threads; one that panics is dead for the others, which wait for it no longer.
struct End(Arc<Segment>, u32);

impl Drop for End {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.bury(self.1);
        }
    }
}

/// Runs `program` as each rank of a job on `cpus` CPUs, with control variables besides the defaults; of two for the
/// same the first counts.
pub fn job(ranks: u32, cpus: u32, set: &[(&str, u64)], multiple: bool, program: impl Fn(u32, &World) + Sync) {
    let found = |name: &str| {
        let found = set.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.to_string())
    };
    job_with(ranks, cpus, &Settings::read(found).unwrap(), multiple, program);
}

/// As [`job`], with these settings.
pub fn job_with(ranks: u32, cpus: u32, settings: &Settings, multiple: bool, program: impl Fn(u32, &World) + Sync) {
    let segment = Arc::new(Segment::private(ranks, cpus).unwrap());
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            let (segment, program) = (segment.clone(), &program);
            scope.spawn(move || {
                let _end = End(segment.clone(), rank);
                let world = World::new(State::join(segment, rank, settings.clone()), multiple);
                program(rank, &world);
                let mut hold = world.hold();
                let comm = hold.world.clone();
                internal::barrier(&mut hold, &comm).unwrap();
            });
        }
    });
}

/// After how many elements what tests send comes again: a prime, so that no part of a message that goes somewhere for
/// itself looks like another.
pub const PERIOD: usize = 4093;

/// `len` elements made by `element` of the index modulo [`PERIOD`]. Those after the first period are copied, which a
/// sanitizer slows less than reckoning.
pub fn repeating<T: Copy>(len: usize, element: impl Fn(usize) -> T) -> Vec<T> {
    let mut all: Vec<T> = Vec::with_capacity(len);
    all.extend((0..len.min(PERIOD)).map(element));
    while all.len() < len {
        // Whole periods but for the last time.
        all.extend_from_within(..all.len().min(len - all.len()));
    }
    all
}

/// The type of all elements.
pub fn int() -> Element {
    Element {
        datatype: Datatype::basic_at(index(INT).unwrap()),
        handle: INT,
    }
}

/// A buffer argument.
pub fn data(ints: &mut [i32]) -> Data {
    Data {
        address: ints.as_mut_ptr().cast(),
        count: ints.len(),
        element: int(),
    }
}

/// One with a block for each rank.
pub fn regular(ints: &mut [i32], ranks: u32) -> Blocks {
    Blocks {
        address: ints.as_mut_ptr().cast(),
        places: Places::Regular {
            count: ints.len() / ranks as usize,
            element: int(),
        },
    }
}

/// `recv = op` over all `send`, or over all `recv` in place.
pub fn reduction(send: Option<&mut [i32]>, recv: &mut [i32], count: usize, op: Rc<Op>) -> Reduction {
    Reduction {
        send: send.map(|send| send.as_mut_ptr().cast()),
        recv: recv.as_mut_ptr().cast(),
        count,
        element: int(),
        op,
    }
}
