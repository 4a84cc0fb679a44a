//! Exchanges with the neighbours of a virtual topology (MPI-4.1 §8.6).

use super::schedule::{Schedule, Slice};

/// Whom a process receives from and sends to, in the order of the buffers' blocks; negative numbers
/// stand beyond the edge of a grid.
pub struct Neighbors {
    /// This process.
    pub me: u32,
    /// Blocks of the receive buffer come from these.
    pub sources: Vec<i32>,
    /// Blocks of the send buffer go to these.
    pub destinations: Vec<i32>,
    /// In a grid, what goes to the lower neighbour of a dimension arrives there as from the higher
    /// one, which matters when both are the same process (MPI-4.1 §8.6).
    pub is_grid: bool,
}

/// Sends block k of `from` to destination k and receives block k of `to` from source k, all at once.
/// Cost: one message for each neighbour.
pub fn exchange(
    schedule: &mut Schedule,
    neighbors: &Neighbors,
    from: impl Fn(u32) -> Slice,
    to: impl Fn(u32) -> Slice,
) {
    let mut own = Vec::new();
    let round = schedule.round();
    for (index, &rank) in neighbors.destinations.iter().enumerate() {
        let block = from(index as u32);
        match u32::try_from(rank) {
            Ok(rank) if rank == neighbors.me => own.push(block),
            Ok(rank) => round.send(rank, block),
            Err(_) => {}
        }
    }
    let mut own = own.into_iter();
    for position in 0..neighbors.sources.len() {
        let index = if neighbors.is_grid { position ^ 1 } else { position };
        let block = to(index as u32);
        match u32::try_from(neighbors.sources[index]) {
            Ok(rank) if rank == neighbors.me => {
                if let Some(sent) = own.next() {
                    round.copy(sent, block);
                }
            }
            Ok(rank) => round.recv(rank, block),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::simulate::{ELEMENT, Memory, recvs, run, sends};
    use super::*;

    /// A ring of `size` processes as a periodic grid of one dimension, each sending 10 r to the lower
    /// neighbour and 10 r + 1 to the higher.
    #[test]
    fn a_ring_exchanges_with_both_sides_at_any_size() {
        for size in 1..=6u32 {
            let block = |area: super::super::schedule::Area| move |index: u32| area.slice(index as usize, 1);
            let mut schedules = Vec::new();
            let mut memories = Vec::new();
            for me in 0..size {
                let around = vec![((me + size - 1) % size) as i32, ((me + 1) % size) as i32];
                let neighbors = Neighbors {
                    me,
                    sources: around.clone(),
                    destinations: around,
                    is_grid: true,
                };
                let mut schedule = Schedule::default();
                exchange(&mut schedule, &neighbors, block(sends(ELEMENT)), block(recvs(ELEMENT)));
                schedules.push(schedule);
                let mut memory = Memory::new(ELEMENT);
                let values = [(10 * me as u16, 0), (10 * me as u16 + 1, 0)];
                memory.set_maps(sends(ELEMENT).slice(0, 2), &values);
                memories.push(memory);
            }
            run(&schedules, &mut memories);
            for me in 0..size {
                let (lower, higher) = ((me + size - 1) % size, (me + 1) % size);
                let got = memories[me as usize].maps(recvs(ELEMENT).slice(0, 2));
                assert_eq!(
                    got,
                    [(10 * lower as u16 + 1, 0), (10 * higher as u16, 0)],
                    "{me} of {size}"
                );
            }
        }
    }
}
