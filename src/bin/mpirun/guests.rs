//! Ranks that other launchers watch over: those that ranks have started (MPI_Comm_spawn), as the first launcher of their family sees
//! them, and those of other families (mpirun -join). Who waits for whom is told and judged for all together.

use crate::remains::children;
use crate::view::{self, View};
use mpi::shm::segment::annex::Outcome;
use mpi::shm::segment::{Life, Segment};

/// Whether some are still running: their launchers are our children.
pub fn are_there(segment: &Segment) -> bool {
    // What cannot be mapped cannot be waited for.
    let _ = segment.grow();
    segment.known() > segment.ranks() && children().into_iter().any(|pid| segment.ranks_of(pid).is_some())
}

/// Whether the rank that `view` shows is gone.
pub fn is_gone(segment: &Segment, view: &View) -> bool {
    view::is_gone(view.pid) || has_ended(segment, view.rank)
}

/// Whether `rank` may still take part. One that is on its way to MPI may.
pub fn takes_part(segment: &Segment, rank: u32) -> bool {
    let is_through = matches!(segment.life(rank), Life::Finalized | Life::Dead);
    !is_through && !has_ended(segment, rank)
}

/// Ranks of other families whose launcher was killed are gone with it, and nobody else would tell. `first`: a rank of our own.
pub fn bury_deserted(segment: &Segment, first: u32) {
    let family = segment.family(first);
    for (first, pid) in segment.launchers() {
        if segment.family(first) != family && view::is_gone(pid as u32) {
            segment.desert(first);
        }
    }
}

/// Whether its launcher is through with it, or could not start it.
fn has_ended(segment: &Segment, rank: u32) -> bool {
    let born = segment.birth(rank);
    born.is_some_and(|birth| segment.outcome(birth.first) != Outcome::Open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Calls;
    use mpi::shm::segment::create;
    use std::os::fd::AsFd;
    use std::sync::atomic::Ordering;

    #[test]
    fn those_on_their_way_may_come_until_their_launcher_fails() {
        let memory = create(2, 2).unwrap();
        let (starter, launcher) = (
            Segment::attach(memory.as_fd()).unwrap(),
            Segment::attach(memory.as_fd()).unwrap(),
        );
        let calls = Calls::new();
        assert!(!are_there(&launcher));
        let born = starter.extend(2, Some(0), 1, 2).unwrap();
        launcher.grow().unwrap();
        let seen = view::look(&calls, &launcher, 0..4, |_| (None, false));
        assert_eq!(seen.iter().map(|view| view.rank).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(!is_gone(&launcher, &seen[3]) && takes_part(&launcher, 3));
        starter.conclude(born.first, Outcome::Failed);
        assert!(is_gone(&launcher, &seen[3]) && !takes_part(&launcher, 3));
    }

    #[test]
    fn ranks_whose_launcher_was_killed_are_buried_by_other_families() {
        let segment = Segment::attach(create(2, 2).unwrap().as_fd()).unwrap();
        let first = segment.extend(3, None, 0, 2).unwrap().first;
        let child = segment.extend(1, Some(first), 3, 4).unwrap().first;
        for (rank, life) in [
            (0, Life::Attached),
            (first, Life::Attached),
            (first + 1, Life::Finalized),
        ] {
            segment.rank(rank).life.store(life as u32, Ordering::Relaxed);
        }
        let mut launcher = std::process::Command::new("true").spawn().unwrap();
        segment.launch(first, launcher.id() as i32);
        segment.launch(0, launcher.id() as i32);
        segment.launch(child, std::process::id() as i32);
        launcher.wait().unwrap();
        bury_deserted(&segment, child);
        assert_eq!(
            (segment.life(0), segment.life(first)),
            (Life::Dead, Life::Attached),
            "its own family"
        );
        bury_deserted(&segment, 0);
        bury_deserted(&segment, 0);
        assert_eq!(
            [first, first + 1].map(|rank| segment.life(rank)),
            [Life::Dead, Life::Finalized]
        );
        assert_eq!(
            (segment.deaths(), segment.outcome(first), segment.outcome(child)),
            (2, Outcome::Failed, Outcome::Open)
        );
    }
}
