//! Ordered sets of processes (MPI-4.1 §7.3).

use super::error::Result;
use super::session::Session;
use super::status::{PROC_NULL, UNDEFINED};
use crate::fail;
use std::rc::Rc;

/// A group: rank in the group -> rank in the job.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Rank in the job of each member, in group order.
    pub members: Vec<u32>,
    /// The session it came from, if it did.
    pub session: Option<Rc<Session>>,
}

impl PartialEq for Group {
    fn eq(&self, other: &Group) -> bool {
        self.members == other.members
    }
}

impl Eq for Group {}

/// How two groups, or two communicators, compare; the numbers are those of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(i32)]
pub enum Likeness {
    /// The same object, or groups of the same members in the same order.
    Identical = 0,
    /// Communicators of the same groups with different contexts.
    Congruent = 1,
    /// The same members in another order.
    Similar = 2,
    /// Different members.
    Unequal = 3,
}

/// Not a member, in a table of [`Group::ranks`].
const ABSENT: u32 = u32::MAX;

impl Group {
    /// A group of these ranks in the job.
    pub fn new(members: Vec<u32>) -> Group {
        Group { members, session: None }
    }

    /// A group of these ranks in the job, made from this one.
    fn derive(&self, members: Vec<u32>) -> Group {
        let session = self.session.clone();
        Group { members, session }
    }

    /// Number of members.
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// The member's rank in the job.
    #[inline]
    pub fn world(&self, rank: u32) -> u32 {
        self.members[rank as usize]
    }

    /// Rank in this group of the process that is `world` in the job.
    pub fn rank_of(&self, world: u32) -> Option<u32> {
        self.members
            .iter()
            .position(|&member| member == world)
            .map(|rank| rank as u32)
    }

    /// How `other` compares with this group.
    pub fn compare(&self, other: &Group) -> Likeness {
        if self == other {
            return Likeness::Identical;
        }
        let other_ranks = other.ranks();
        if self.size() == other.size() && self.members.iter().all(|&member| other_ranks.has(member)) {
            Likeness::Similar
        } else {
            Likeness::Unequal
        }
    }

    /// This group's members, then those of `other` that are not among them.
    pub fn union(&self, other: &Group) -> Group {
        let ranks = self.ranks();
        let added = other.members.iter().filter(|&&member| !ranks.has(member));
        self.derive(self.members.iter().chain(added).copied().collect())
    }

    /// The members that `other` has too, in this group's order.
    pub fn intersection(&self, other: &Group) -> Group {
        let ranks = other.ranks();
        self.filtered(|_, member| ranks.has(member))
    }

    /// The members that `other` lacks, in this group's order.
    pub fn difference(&self, other: &Group) -> Group {
        let ranks = other.ranks();
        self.filtered(|_, member| !ranks.has(member))
    }

    /// The members at `ranks`, in that order.
    ///
    /// # Errors
    /// `Rank`: a rank that is not in the group or comes twice.
    pub fn incl(&self, ranks: &[i32]) -> Result<Group> {
        self.chosen(ranks)?;
        Ok(self.derive(ranks.iter().map(|&rank| self.world(rank as u32)).collect()))
    }

    /// The members except those at `ranks`, in this group's order.
    ///
    /// # Errors
    /// As [`Group::incl`].
    pub fn excl(&self, ranks: &[i32]) -> Result<Group> {
        let chosen = self.chosen(ranks)?;
        Ok(self.filtered(|rank, _| !chosen[rank]))
    }

    /// [`Group::incl`] of the ranks in `ranges`, each `[first, last, stride]`.
    ///
    /// # Errors
    /// As [`Group::incl`]; `Arg` for an end outside the group and a stride of 0 or in the wrong direction.
    pub fn range_incl(&self, ranges: &[[i32; 3]]) -> Result<Group> {
        self.incl(&self.expanded(ranges)?)
    }

    /// [`Group::excl`] of the ranks in `ranges`.
    ///
    /// # Errors
    /// As [`Group::range_incl`].
    pub fn range_excl(&self, ranges: &[[i32; 3]]) -> Result<Group> {
        self.excl(&self.expanded(ranges)?)
    }

    /// For each rank in this group, the rank of the same process in `other`: `UNDEFINED` when it is
    /// not there; `PROC_NULL` stays what it is.
    ///
    /// # Errors
    /// `Rank`: a rank that is not in this group.
    pub fn translate(&self, ranks: &[i32], other: &Group) -> Result<Vec<i32>> {
        let other_ranks = other.ranks();
        let one = |&rank: &i32| match rank {
            PROC_NULL => Ok(PROC_NULL),
            _ => {
                let world = self.world(self.checked(rank)?);
                Ok(other_ranks.of(world).map_or(UNDEFINED, |rank| rank as i32))
            }
        };
        ranks.iter().map(one).collect()
    }

    /// `rank`, if there is such a member.
    ///
    /// # Errors
    /// `Rank`: there is none.
    pub fn checked(&self, rank: i32) -> Result<u32> {
        if rank < 0 || rank >= self.size() as i32 {
            let size = self.size();
            fail!(Rank, "rank {rank} is not in a group of {size} processes");
        }
        Ok(rank as u32)
    }

    /// The rank of each process in this group, for many questions at once.
    pub fn ranks(&self) -> Ranks {
        let room = self.members.iter().max().map_or(0, |&most| most as usize + 1);
        let mut ranks = vec![ABSENT; room];
        for (rank, &member) in self.members.iter().enumerate() {
            ranks[member as usize] = rank as u32;
        }
        Ranks(ranks)
    }

    fn filtered(&self, keep: impl Fn(usize, u32) -> bool) -> Group {
        let members = self.members.iter().enumerate();
        let kept = members.filter(|&(rank, &member)| keep(rank, member));
        self.derive(kept.map(|(_, &member)| member).collect())
    }

    /// By rank, whether it is among `ranks`.
    fn chosen(&self, ranks: &[i32]) -> Result<Vec<bool>> {
        let mut chosen = vec![false; self.members.len()];
        for &rank in ranks {
            let slot = &mut chosen[self.checked(rank)? as usize];
            if std::mem::replace(slot, true) {
                fail!(Rank, "rank {rank} comes twice in the list of ranks");
            }
        }
        Ok(chosen)
    }

    fn expanded(&self, ranges: &[[i32; 3]]) -> Result<Vec<i32>> {
        let mut ranks = Vec::new();
        for &[first, last, stride] in ranges {
            for end in [first, last] {
                if let Err(error) = self.checked(end) {
                    fail!(Arg, "the range ({first}, {last}, {stride}) has a wrong end: {error}");
                }
            }
            if stride == 0 || (last - first).signum() * stride.signum() < 0 {
                fail!(
                    Arg,
                    "the range ({first}, {last}, {stride}) never gets from {first} to {last}"
                );
            }
            let steps = (last - first) / stride;
            ranks.extend((0..=steps).map(|step| first + step * stride));
        }
        Ok(ranks)
    }
}

/// Rank in the job -> rank in a group.
pub struct Ranks(Vec<u32>);

impl Ranks {
    /// The rank of the process that is `world` in the job.
    pub fn of(&self, world: u32) -> Option<u32> {
        self.0.get(world as usize).copied().filter(|&rank| rank != ABSENT)
    }

    /// Whether the process is a member.
    pub fn has(&self, world: u32) -> bool {
        self.of(world).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::super::error::Class;
    use super::*;

    fn group(members: &[u32]) -> Group {
        Group::new(members.to_vec())
    }

    #[test]
    fn sets_keep_the_order_of_the_first_group() {
        let (a, b) = (group(&[5, 1, 3, 0]), group(&[3, 7, 5]));
        assert_eq!(a.union(&b), group(&[5, 1, 3, 0, 7]));
        assert_eq!(a.intersection(&b), group(&[5, 3]));
        assert_eq!(a.difference(&b), group(&[1, 0]));
        assert_eq!(b.difference(&group(&[])), b);
    }

    #[test]
    fn comparison_tells_order_from_membership() {
        let a = group(&[2, 4, 6]);
        assert_eq!(a.compare(&group(&[2, 4, 6])), Likeness::Identical);
        assert_eq!(a.compare(&group(&[6, 2, 4])), Likeness::Similar);
        assert_eq!(a.compare(&group(&[2, 4])), Likeness::Unequal);
        assert_eq!(a.compare(&group(&[2, 4, 5])), Likeness::Unequal);
    }

    #[test]
    fn ranks_choose_and_are_checked() {
        let a = group(&[10, 11, 12, 13, 14, 15]);
        assert_eq!(a.incl(&[4, 0]).unwrap(), group(&[14, 10]));
        assert_eq!(a.excl(&[4, 0]).unwrap(), group(&[11, 12, 13, 15]));
        assert_eq!(a.range_incl(&[[5, 1, -2]]).unwrap(), group(&[15, 13, 11]));
        assert_eq!(a.range_incl(&[[2, 2, 7], [0, 1, 1]]).unwrap(), group(&[12, 10, 11]));
        assert_eq!(a.range_excl(&[[0, 5, 2]]).unwrap(), group(&[11, 13, 15]));
        for wrong in [&[1, 1][..], &[6], &[-1]] {
            assert_eq!(a.incl(wrong).unwrap_err().class(), Class::Rank);
            assert_eq!(a.excl(wrong).unwrap_err().class(), Class::Rank);
        }
        for wrong in [[0, 3, 0], [0, 3, -1], [3, 0, 1], [0, 6, 1], [-1, 3, 1]] {
            assert_eq!(a.range_incl(&[wrong]).unwrap_err().class(), Class::Arg);
        }
        assert_eq!(a.range_excl(&[[0, 2, 1], [2, 3, 1]]).unwrap_err().class(), Class::Rank);
    }

    #[test]
    fn translation_knows_who_is_missing() {
        let (a, b) = (group(&[3, 4, 5]), group(&[5, 3]));
        let translated = a.translate(&[0, 1, 2, PROC_NULL], &b).unwrap();
        assert_eq!(translated, [1, UNDEFINED, 0, PROC_NULL]);
        assert_eq!(a.translate(&[3], &b).unwrap_err().class(), Class::Rank);
    }
}
