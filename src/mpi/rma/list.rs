//! Stretches of a member's memory that lie apart, in the order of an access's bytes.

use std::ops::Range;

/// Bytes in a row of a member's memory: address and length.
pub(super) type Stretch = (u64, usize);

/// Stretches of one length at one distance from each other: what a vector has lies in one or two, whatever its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Of the first one.
    pub address: u64,
    /// Bytes of each.
    pub len: usize,
    /// How many there are.
    pub count: usize,
    /// From one to the next; addresses wrap.
    pub distance: u64,
}

impl Group {
    fn at(&self, index: usize) -> u64 {
        self.address.wrapping_add(self.distance.wrapping_mul(index as u64))
    }

    /// Those behind the first `count` ones.
    fn behind(self, count: usize) -> Group {
        Group {
            address: self.at(count),
            count: self.count - count,
            ..self
        }
    }

    /// All of them.
    pub fn stretches(self) -> impl Iterator<Item = Stretch> {
        (0..self.count).map(move |index| (self.at(index), self.len))
    }

    /// Address and length of the memory from the first byte of all to the last; `None` if that cannot be said.
    pub fn span(&self) -> Option<Stretch> {
        let shift = (self.distance as i64).checked_mul(self.count as i64 - 1)?;
        let other = self.address.checked_add_signed(shift)?;
        let between = usize::try_from(other.abs_diff(self.address)).ok()?;
        Some((self.address.min(other), between.checked_add(self.len)?))
    }

    /// Takes those of another one, too; false if they do not go on as these do.
    fn takes(&mut self, next: Group) -> bool {
        let distance = match self.count {
            1 => next.address.wrapping_sub(self.address),
            _ => self.distance,
        };
        let behind = self.address.wrapping_add(distance.wrapping_mul(self.count as u64));
        let fits = next.len == self.len && next.address == behind && (next.count == 1 || next.distance == distance);
        if fits {
            (self.distance, self.count) = (distance, self.count + next.count);
        }
        fits
    }
}

/// The stretches of an access.
#[derive(Debug, Default)]
pub(super) struct List {
    groups: Vec<Group>,
    len: usize,
    count: usize,
}

impl List {
    /// Adds those of a group behind all others. Two that lie beside each other are one.
    pub fn push(&mut self, group: Group) {
        self.len += group.len * group.count;
        if let Some(last) = self.groups.last_mut() {
            let follows =
                (last.count, group.count) == (1, 1) && last.at(0).wrapping_add(last.len as u64) == group.address;
            if follows {
                last.len += group.len;
                return;
            }
        }
        self.count += group.count;
        add(&mut self.groups, group);
    }

    /// Bytes of all.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The only one.
    pub fn single(&self) -> Option<Stretch> {
        match *self.groups {
            [
                Group {
                    address, len, count: 1, ..
                },
            ] => Some((address, len)),
            _ => None,
        }
    }

    /// Those with these bytes of the access.
    pub fn part(&self, part: Range<usize>) -> Vec<Stretch> {
        let (mut position, mut found) = (0, Vec::new());
        for group in &self.groups {
            let behind = position + group.len * group.count;
            if behind > part.start && position < part.end {
                let first = part.start.saturating_sub(position) / group.len;
                for index in first..group.count {
                    let begin = position + index * group.len;
                    let (from, to) = (part.start.max(begin), part.end.min(begin + group.len));
                    if from >= to {
                        break;
                    }
                    found.push((group.at(index).wrapping_add((from - begin) as u64), to - from));
                }
            }
            position = behind;
        }
        found
    }

    /// All of them.
    pub fn all(&self) -> Vec<Stretch> {
        self.part(0..self.len)
    }

    /// Cuts the list into pieces: `room(groups, bytes)` says how many bytes fit behind so many groups and bytes of one, some into an
    /// empty one.
    pub fn pieces(&self, room: impl Fn(usize, usize) -> usize) -> Vec<Piece> {
        let mut pieces = vec![Piece::default()];
        let mut left: Vec<Group> = self.groups.iter().rev().copied().collect();
        let mut at = 0;
        while let Some(group) = left.pop() {
            let Piece { bytes, groups } = &mut pieces[at];
            let room = room(groups.len(), bytes.len());
            let whole = room / group.len;
            let taken = match whole {
                // What fits of the first one, whose rest begins the next piece.
                0 => Group {
                    len: room,
                    count: 1,
                    ..group
                },
                _ => Group {
                    count: whole.min(group.count),
                    ..group
                },
            };
            bytes.end += taken.len * taken.count;
            if taken.len > 0 {
                add(groups, taken);
            }
            if group.count > taken.count {
                left.push(group.behind(taken.count));
            }
            if whole == 0 {
                left.push(Group {
                    address: group.address.wrapping_add(room as u64),
                    len: group.len - room,
                    count: 1,
                    ..group
                });
                let end = bytes.end;
                pieces.push(Piece {
                    bytes: end..end,
                    groups: Vec::new(),
                });
                at += 1;
            }
        }
        pieces
    }
}

impl FromIterator<Stretch> for List {
    fn from_iter<I: IntoIterator<Item = Stretch>>(stretches: I) -> List {
        let mut list = List::default();
        for (address, len) in stretches {
            list.push(Group {
                address,
                len,
                count: 1,
                distance: 0,
            });
        }
        list
    }
}

/// A part of a list.
#[derive(Debug, Default)]
pub(super) struct Piece {
    /// Which bytes of the access it has.
    pub bytes: Range<usize>,
    /// Where they lie.
    pub groups: Vec<Group>,
}

fn add(groups: &mut Vec<Group>, group: Group) {
    if !groups.last_mut().is_some_and(|last| last.takes(group)) {
        groups.push(group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Address of each byte.
    fn bytes(stretches: impl IntoIterator<Item = Stretch>) -> Vec<u64> {
        let each = |(address, len): Stretch| (address..).take(len);
        stretches.into_iter().flat_map(each).collect()
    }

    fn lists() -> Vec<Vec<Stretch>> {
        vec![
            (0..3000).map(|index| (1000 + 256 * index, 32)).collect(),
            (0..3000)
                .map(|index| (1 << 30 | (9000 - 16 * index) as u64 & 0xffff_ffff, 16))
                .collect(),
            (0..3000u64)
                .map(|index| (1000 + 200 * index * index, 8 + 8 * (index as usize % 3)))
                .collect(),
            vec![(1 << 40, 16), (1 << 39, 16), (0, 16), (64, 100_000)],
            vec![(100, 8), (108, 8), (116, 8)],
            vec![(100, 8)],
        ]
    }

    #[test]
    fn a_list_has_its_bytes_in_order_and_any_part_of_them() {
        for stretches in lists() {
            let list: List = stretches.iter().copied().collect();
            let all = bytes(stretches.iter().copied());
            assert_eq!((list.len(), bytes(list.all())), (all.len(), all.clone()));
            assert_eq!(list.single().is_some(), list.count() == 1);
            for (from, to) in [
                (0, 1),
                (1, 17),
                (7, 8),
                (24, 31),
                (33, all.len() / 2),
                (5, 5),
                (all.len() - 3, all.len()),
            ] {
                let (from, to) = (from.min(all.len()), to.min(all.len()));
                let part = if from < to { &all[from..to] } else { &[] };
                assert_eq!(bytes(list.part(from..to)), part, "{from}..{to}");
            }
        }
    }

    #[test]
    fn a_vector_is_a_group_and_what_lies_beside_each_other_one_stretch() {
        let groups: Vec<usize> = lists()
            .into_iter()
            .map(|stretches| stretches.into_iter().collect::<List>().groups.len())
            .collect();
        assert_eq!((groups[0], groups[4], groups[5]), (1, 1, 1));
        let mut list = List::default();
        for first in 0..10u64 {
            list.push(Group {
                address: 160 * first,
                len: 8,
                count: 10,
                distance: 16,
            });
        }
        assert_eq!((list.groups.len(), list.count(), list.len()), (1, 100, 800));
        list.push(Group {
            address: 0,
            len: 8,
            count: 2,
            distance: 8,
        });
        assert_eq!(list.groups.len(), 2);
    }

    #[test]
    fn pieces_have_all_bytes_in_order_and_no_more_than_fits() {
        for stretches in lists() {
            let list: List = stretches.iter().copied().collect();
            for (most, each, unit) in [(1 << 14, 32, 8), (5000, 32, 8), (100, 32, 4), (64, 32, 1)] {
                let room = |groups: usize, bytes: usize| {
                    usize::saturating_sub(most, (groups + 1) * each + bytes) / unit * unit
                };
                let pieces = list.pieces(room);
                assert_eq!(
                    (pieces[0].bytes.start, pieces[pieces.len() - 1].bytes.end),
                    (0, list.len())
                );
                for (piece, next) in pieces.iter().zip(&pieces[1..]) {
                    assert_eq!(piece.bytes.end, next.bytes.start);
                }
                for piece in &pieces {
                    let told = piece.groups.iter().flat_map(|group| group.stretches());
                    assert_eq!(bytes(told), bytes(list.part(piece.bytes.clone())));
                    assert!(piece.groups.len() * each + piece.bytes.len() <= most && !piece.bytes.is_empty());
                }
            }
        }
    }

    #[test]
    fn a_span_holds_all_stretches_or_is_not_known() {
        let group = |address, len, count, distance| Group {
            address,
            len,
            count,
            distance,
        };
        assert_eq!(group(100, 8, 3, 16).span(), Some((100, 40)));
        assert_eq!(group(100, 8, 3, 16u64.wrapping_neg()).span(), Some((68, 40)));
        assert_eq!(group(100, 8, 1, 5).span(), Some((100, 8)));
        // These wrap.
        assert_eq!(group(100, 8, 3, 1 << 63).span(), None);
        assert_eq!(group(u64::MAX - 20, 8, 3, 16).span(), None);
        assert_eq!(group(20, 8, 3, 16u64.wrapping_neg()).span(), None);
    }
}
