//! The segment, its header and contexts.

use super::*;
use crate::shm::board::{ROOMS, SCRATCH, STARTED, room};
use crate::shm::layout::second;

#[test]
fn what_one_mapping_writes_another_sees() {
    let fd = create(3, 2).unwrap();
    let (one, other) = (
        Segment::attach(fd.as_fd()).unwrap(),
        Segment::attach(fd.as_fd()).unwrap(),
    );
    assert!(one.oversubscribed());
    one.rank(2).life.store(Life::Attached as u32, Ordering::Release);
    assert_eq!((other.life(2), other.life(1)), (Life::Attached, Life::Absent));
    one.abort(0, 255);
    other.abort(1, 3);
    assert_eq!(one.aborted(0), Some(255));
    assert!(!one.is_damaged());
    one.header().abort.store(77, Ordering::Relaxed);
    assert!(other.is_damaged() && other.aborted(0).is_none());
    one.header().abort.store(0, Ordering::Relaxed);
    assert!(!other.is_damaged());
    one.bury(2);
    assert_eq!((other.deaths(), other.death(2), other.death(1)), (1, Some(1), None));
    assert_eq!((other.life(2), other.events()), (Life::Dead, 1));
    // A launcher that was killed once it had counted rank 0: the next one makes up for it, whichever mapping is asked.
    one.header().deaths.store(2 << 32, Ordering::Relaxed);
    other.bury(1);
    assert_eq!(
        (one.deaths(), one.death(0), one.death(1), one.death(2)),
        (3, Some(2), Some(3), Some(1))
    );
    one.revoke(5);
    one.revoke(5);
    assert!(other.fate(5).is_revoked() && !other.fate(4).is_revoked() && other.events() == 3);
    assert!(!other.is_damaged());
    one.rank(2).life.store(4, Ordering::Release);
    assert!(other.is_damaged());
}

#[test]
fn another_file_is_refused() {
    let fd = memory::create(1 << 20).unwrap();
    let error = Segment::attach(fd.as_fd()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    assert!(create(0, 1).is_err() && create(MAX_RANKS + 1, 1).is_err());
}

/// The ranks that another one starts get room before all that the job began with have come.
#[test]
fn a_file_that_is_longer_is_mapped_and_one_that_is_too_short_refused() {
    let fd = create(2, 2).unwrap();
    let (file, zone) = (std::fs::File::from(fd.try_clone().unwrap()), |fd: &OwnedFd| {
        Segment::attach(fd.as_fd()).map(|segment| segment.zone_len())
    });
    let len = file.metadata().unwrap().len();
    let before = zone(&fd).unwrap();
    file.set_len(len + 3 * PAGE as u64).unwrap();
    assert_eq!(zone(&fd).unwrap(), before);
    for junk in [u64::MAX, before as u64 + 1, before as u64 + 2 * PAGE as u64] {
        let first = Mapping::shared(fd.as_fd(), PAGE).unwrap();
        Segment::over(first, Layout::new(1))
            .header()
            .zone
            .store(junk, Ordering::Relaxed);
        assert!(zone(&fd).unwrap_err().to_string().contains("length"), "{junk:#x}");
    }
}

#[test]
fn contexts_that_many_hold_are_claimed_in_turn_and_the_lowest_freed_one_first() {
    let segment = Segment::private(2, 2).unwrap();
    let reused = u16::try_from(REUSED).unwrap();
    let claim = || segment.claim_context(1).unwrap();
    let few: Vec<u16> = (2..reused).map(|_| claim()).collect();
    assert!(few.iter().all(|&context| context < reused));
    assert_eq!(
        [claim(), claim(), claim(), claim()],
        [0, 1, 2, 3].map(|above| reused + above)
    );
    for freed in [reused + 3, reused + 1] {
        segment.release_context(freed, 0);
    }
    assert_eq!([claim(), claim(), claim()], [1, 3, 4].map(|above| reused + above));
    segment.release_context(few[7], 0);
    assert_eq!([claim(), claim()], [few[7], reused + 5]);
    // What is passed is not searched again, unless nothing else is free.
    let passed = &segment.header().full_below;
    assert_eq!(passed.load(Ordering::Relaxed), u32::from(reused) + 6);
    segment.release_context(reused + 2, 0);
    passed.store(CONTEXTS as u32, Ordering::Relaxed);
    assert_eq!(claim(), reused + 2);
}

#[test]
fn a_context_is_free_again_when_its_last_holder_lets_go() {
    let segment = Segment::private(2, 2).unwrap();
    let first = segment.claim_context(2).unwrap();
    let others: Vec<u16> = (3..CONTEXTS).map(|_| segment.claim_context(1).unwrap()).collect();
    assert!(!others.contains(&first));
    segment.release_context(first, 7);
    assert_eq!(segment.claim_context(1), None);
    segment.release_context(first, 5);
    assert_eq!(segment.claim_context(1), Some(first));
    assert_eq!(segment.turns_before(first), 7);
    // Those of persistent operations are others, the lowest of which is taken.
    assert_eq!(
        [false, true, true].map(|wide| segment.claim_kept(1, wide)),
        [32784, 32768, 32769].map(Some)
    );
    segment.release_context(32768, 3);
    assert_eq!(
        (segment.claim_kept(1, true), segment.turns_before(32768)),
        (Some(32768), 3)
    );
}

#[test]
fn each_second_board_has_a_room_of_its_own() {
    let mut all: Vec<(usize, usize)> = (0..=u16::MAX)
        .filter_map(|context| Some(room(second(context.into())?)))
        .collect();
    assert_eq!(all.len(), STARTED + KEPT);
    all.sort_unstable();
    assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0));
    assert_eq!(
        (all[0].0, all.iter().map(|room| room.1).sum::<usize>()),
        (SCRATCH, ROOMS)
    );
}
