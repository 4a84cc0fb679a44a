//! Ranks that ranks have started (MPI_Comm_spawn), as the job's first launcher sees them: other launchers watch over them, but who
//! waits for whom is told and judged for all together.

use crate::remains::children;
use crate::view::{self, Calls, View};
use mpi::shm::segment::annex::Outcome;
use mpi::shm::segment::{Life, Segment};

/// Whether some are still running: their launchers are our children.
pub fn are_there(segment: &Segment) -> bool {
    // What cannot be mapped cannot be waited for.
    let _ = segment.grow();
    segment.known() > segment.ranks() && children().into_iter().any(|pid| segment.ranks_of(pid).is_some())
}

/// What they do.
pub fn views(calls: &Calls, segment: &Segment) -> Vec<View> {
    let _ = segment.grow();
    let first = segment.ranks();
    let mut views = view::look(calls, segment, first..segment.known(), |_| (None, false));
    for view in &mut views {
        view.rank += first;
        view.is_gone = view::is_gone(view.pid) || has_ended(segment, view.rank);
    }
    views
}

/// Whether `rank` may still take part. One that is on its way to MPI may.
pub fn takes_part(segment: &Segment, rank: u32) -> bool {
    let is_through = matches!(segment.life(rank), Life::Finalized | Life::Dead);
    !is_through && !has_ended(segment, rank)
}

/// Whether its launcher is through with it, or could not start it.
fn has_ended(segment: &Segment, rank: u32) -> bool {
    let born = segment.birth(rank);
    born.is_some_and(|birth| segment.outcome(birth.first) != Outcome::Open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpi::shm::segment::create;
    use std::os::fd::AsFd;

    #[test]
    fn those_on_their_way_may_come_until_their_launcher_fails() {
        let memory = create(2, 2).unwrap();
        let (starter, launcher) = (
            Segment::attach(memory.as_fd()).unwrap(),
            Segment::attach(memory.as_fd()).unwrap(),
        );
        let calls = Calls::new();
        assert!(views(&calls, &launcher).is_empty() && !are_there(&launcher));
        let born = starter.extend(2, 0, 1, 2).unwrap();
        let seen = views(&calls, &launcher);
        assert_eq!(seen.iter().map(|view| view.rank).collect::<Vec<_>>(), [2, 3]);
        assert_eq!(seen[0].doing(4), "has not called MPI_Init");
        assert!(takes_part(&launcher, 3));
        starter.conclude(born.first, Outcome::Failed);
        assert!(!takes_part(&launcher, 3));
        assert_eq!(views(&calls, &launcher)[1].doing(4), "is gone");
    }
}
