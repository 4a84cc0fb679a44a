//! Ordered sets of processes (MPI-4.1 §7.3).

/// A group: rank in the group -> rank in the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Rank in the job of each member, in group order.
    pub members: Vec<u32>,
}

impl Group {
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
}
