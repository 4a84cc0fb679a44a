//! Members of a communicator that are in another collective operation than this rank.

use super::of;
use crate::mpi::coll::{TAGS, signature};
use crate::mpi::error::{Class, Error, Result};
use crate::mpi::world::Hold;
use crate::shm::sync::Ordering;
use std::cell::Cell;

/// Looks between two searches for a message of another collective operation.
pub const STRAY: u32 = 64;

/// What two messages of one call have in common: the number of its turn, and whether it is persistent.
fn number(tag: i32) -> u32 {
    tag as u32 % (2 * TAGS)
}

/// Finds out that a member is in another collective operation from the message it has sent.
///
/// # Errors
/// `Other`: that is so.
#[cold]
pub fn refuse_stray(hold: &Hold, context: u16, tag: i32) -> Result<()> {
    for (envelope, _) in hold.engine.unexpected.iter() {
        let theirs = envelope.tag();
        let same = envelope.context() == context && theirs < 0 && number(theirs) == number(tag);
        if same && signature::differ(tag, theirs) {
            let source = envelope.source() as i32;
            return Err(Error::new(Class::Other, signature::complaint(tag, source, theirs)));
        }
    }
    Ok(())
}

/// Looks at the end whether members of the world showed something for another call in one of its last
/// turns: each of several roots shows its data and waits for nobody.
///
/// # Errors
/// `Other`: that is so.
pub fn check_end(hold: &Hold) -> Result<()> {
    let Some(boards) = of(hold, &hold.world) else {
        return Ok(());
    };
    for turn in boards.shown.iter().map(Cell::get).filter(|&turn| turn > 0) {
        let mine = boards.members[boards.me].board.slot(turn).note().tag;
        for (rank, member) in boards.members.iter().enumerate() {
            let slot = member.board.slot(turn);
            if slot.turn().load(Ordering::Acquire) != turn {
                continue;
            }
            let theirs = slot.note().tag;
            if signature::differ(mine, theirs) {
                let text = signature::complaint(mine, rank as i32, theirs);
                return Err(Error::new(Class::Other, text.replace("is in", "was in")));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::coll::signature::{Call, Signature};

    /// Persistent operations keep their number, which a nonblocking one gets 2^19 calls later.
    #[test]
    fn a_persistent_operation_is_another_call_than_the_nonblocking_one_of_its_number() {
        let tag = |turn: u32, call| Signature::of(call).tag(turn as i32);
        let (started, persistent) = (TAGS / 2 + 7, TAGS + TAGS / 2 + 7);
        assert_eq!(number(tag(started, Call::Barrier)), number(tag(started, Call::Bcast)));
        assert_ne!(
            number(tag(started, Call::Barrier)),
            number(tag(persistent, Call::Barrier))
        );
    }
}
