//! The segment, its header and contexts.

use super::*;

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
    one.abort(255);
    other.abort(3);
    assert_eq!(one.aborted(), Some(255));
    assert!(!one.is_damaged());
    one.header().abort.store(77, Ordering::Relaxed);
    assert!(other.is_damaged() && other.aborted().is_none());
    one.header().abort.store(0, Ordering::Relaxed);
    assert!(!other.is_damaged());
    one.bury(2);
    assert_eq!((other.deaths(), other.death(2), other.death(1)), (1, Some(1), None));
    assert_eq!((other.life(2), other.events()), (Life::Dead, 1));
    one.revoke(5);
    one.revoke(5);
    assert!(other.fate(5).is_revoked() && !other.fate(4).is_revoked() && other.events() == 2);
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
}
