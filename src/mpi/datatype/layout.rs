//! Where a datatype's bytes lie: nested loops over blocks, never a list of every block of a regular type.
//!
//! The smart constructors [`Layout::repeat`] and [`Layout::sequence`] keep a layout small: neighbours
//! melt into one block, equal blocks at equal distances become a run. Order is the typemap's order,
//! which is also the order of the packed bytes. Idea: dataloops (Ross, Miller, Gropp 2003).

use std::rc::Rc;

/// Bytes of one element in packing order. Displacements are relative to the element's address.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Added to every displacement in `shape`.
    pub offset: isize,
    /// Bytes of data.
    pub size: usize,
    /// How they lie.
    pub shape: Shape,
}

/// How the bytes of a [`Layout`] lie.
#[derive(Clone, Debug)]
pub enum Shape {
    /// `count` blocks of `len` bytes, `stride` bytes apart; a `count` of 0 is no byte at all.
    Run {
        /// Number of blocks.
        count: usize,
        /// Bytes from one block to the next.
        stride: isize,
        /// Bytes of a block.
        len: usize,
    },
    /// `count` times the same, `stride` bytes apart; `count` is at least 2 and `child` not empty.
    Repeat {
        /// Number of repetitions.
        count: usize,
        /// Bytes from one to the next.
        stride: isize,
        /// What is repeated.
        child: Rc<Layout>,
    },
    /// Blocks of equal length without a pattern in their displacements; neighbours may touch.
    Scatter {
        /// Bytes of a block.
        len: usize,
        /// Their displacements.
        offsets: Rc<[isize]>,
    },
    /// Blocks of any length.
    Blocks(Rc<[Block]>),
    /// Different layouts one after the other, none empty.
    Sequence(Rc<[Part]>),
}

/// Bytes in a row.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// Displacement.
    pub offset: isize,
    /// Number of bytes before it in the packed form.
    pub start: usize,
    /// Number of bytes.
    pub len: usize,
}

/// Member of a [`Shape::Sequence`].
#[derive(Clone, Debug)]
pub struct Part {
    /// Number of bytes before it in the packed form.
    pub start: usize,
    /// Its bytes.
    pub layout: Layout,
}

/// Sequences of at most so many blocks are stored flat.
const FLAT: usize = 32;
/// Blocks are cut into at most so many units each, on average: a displacement takes a third of a [`Block`].
const CUT: usize = size_of::<Block>() / size_of::<isize>();
/// Longest unit: a power of two, which a loop copies that knows its length.
const LINE: usize = 64;

impl Layout {
    /// No byte.
    pub fn empty() -> Layout {
        Layout::block(0, 0)
    }

    /// `len` bytes in a row at `offset`.
    pub fn block(offset: isize, len: usize) -> Layout {
        let count = usize::from(len > 0);
        Layout {
            offset: if len > 0 { offset } else { 0 },
            size: len,
            shape: Shape::Run { count, stride: 0, len },
        }
    }

    /// The same bytes, `by` further on.
    pub fn shift(mut self, by: isize) -> Layout {
        if self.size > 0 {
            self.offset += by;
        }
        self
    }

    /// The one block that this is.
    pub fn single(&self) -> Option<Block> {
        match self.shape {
            Shape::Run { count: 0 | 1, len, .. } => Some(Block {
                offset: self.offset,
                start: 0,
                len,
            }),
            _ => None,
        }
    }

    /// `count` times `self`, `stride` bytes apart. Sizes and displacements must fit `isize`.
    pub fn repeat(self, count: usize, stride: isize) -> Layout {
        if count == 0 || self.size == 0 {
            return Layout::empty();
        }
        if count == 1 {
            return self;
        }
        let offset = self.offset;
        let size = self.size * count;
        let joins = |n: usize, inner: isize| inner.checked_mul(n as isize) == Some(stride);
        let shape = match self.shape {
            Shape::Run { count: 1, len, .. } if len as isize == stride => return Layout::block(offset, size),
            Shape::Run { count: 1, len, .. } => Shape::Run { count, stride, len },
            Shape::Run {
                count: n,
                stride: inner,
                len,
            } if joins(n, inner) => Shape::Run {
                count: n * count,
                stride: inner,
                len,
            },
            Shape::Repeat {
                count: n,
                stride: inner,
                child,
            } if joins(n, inner) => Shape::Repeat {
                count: n * count,
                stride: inner,
                child,
            },
            shape => Shape::Repeat {
                count,
                stride,
                child: Rc::new(Layout {
                    offset: 0,
                    size: self.size,
                    shape,
                }),
            },
        };
        Layout { offset, size, shape }
    }

    /// Blocks of so many bytes at such offsets, none empty, one after the other: as [`Layout::sequence`] of them, without a layout of
    /// its own for each.
    pub fn of_blocks(blocks: impl Iterator<Item = (isize, usize)>) -> Layout {
        let mut list: Vec<Block> = Vec::with_capacity(blocks.size_hint().1.unwrap_or(0));
        let mut size = 0;
        for (offset, len) in blocks {
            append(&mut list, offset, len);
            size += len;
        }
        let Some(first) = list.first() else {
            return Layout::empty();
        };
        let one = Layout::block(first.offset, first.len);
        let step = |pair: &[Block]| pair[1].offset.checked_sub(pair[0].offset);
        let stride = list.get(..2).map_or(Some(0), step);
        let alike = |pair: &[Block]| pair[0].len == pair[1].len && step(pair) == stride;
        match stride {
            Some(stride) if list.windows(2).all(alike) => one.repeat(list.len(), stride),
            _ => Layout {
                offset: 0,
                size,
                shape: scattered(list),
            },
        }
    }

    /// `parts` one after the other.
    pub fn sequence(parts: impl IntoIterator<Item = Layout>) -> Layout {
        let mut list: Vec<Layout> = Vec::new();
        for part in parts {
            push(&mut list, part);
        }
        match list.len() {
            0 => return Layout::empty(),
            1 => return list.remove(0),
            _ => {}
        }
        if let Some(stride) = regular(&list) {
            let count = list.len();
            return list.swap_remove(0).repeat(count, stride);
        }
        let size = list.iter().map(|part| part.size).sum();
        let list = spliced(list);
        let shape = match flat(&list) {
            Some(blocks) => scattered(blocks),
            None => {
                let mut start = 0;
                let place = |layout: Layout| {
                    start += layout.size;
                    Part {
                        start: start - layout.size,
                        layout,
                    }
                };
                Shape::Sequence(list.into_iter().map(place).collect())
            }
        };
        Layout { offset: 0, size, shape }
    }
}

/// Appends `part`, melting it into the last one if it continues that one's block or run.
fn push(list: &mut Vec<Layout>, part: Layout) {
    if part.size == 0 {
        return;
    }
    let Some(last) = list.last_mut() else {
        return list.push(part);
    };
    match (&mut last.shape, &part.shape) {
        (
            Shape::Run { count: 1, len, .. },
            &Shape::Run {
                count: 1, len: more, ..
            },
        ) if last.offset.checked_add_unsigned(*len) == Some(part.offset) => {
            *len += more;
            last.size += more;
        }
        (
            Shape::Run { count, stride, len },
            &Shape::Run {
                count: more,
                stride: same,
                len: equal,
            },
        ) if *count > 1
            && *len == equal
            && (more == 1 || *stride == same)
            && stride
                .checked_mul(*count as isize)
                .and_then(|by| last.offset.checked_add(by))
                == Some(part.offset) =>
        {
            *count += more;
            last.size += part.size;
        }
        _ => list.push(part),
    }
}

/// `list` with the members of short sequences in their place: a type that is made step by step, of the last one and a little more,
/// gets neither as deep as there are steps, nor has each step as many members as there were before. Long lists are left alone: their
/// members may share what they are made of.
fn spliced(list: Vec<Layout>) -> Vec<Layout> {
    let is_short = |part: &Layout| matches!(&part.shape, Shape::Sequence(parts) if parts.len() <= FLAT);
    if list.len() > FLAT || !list.iter().any(is_short) {
        return list;
    }
    let mut all = Vec::new();
    for part in list {
        match &part.shape {
            Shape::Sequence(parts) if is_short(&part) => {
                let moved = parts.iter().map(|inner| inner.layout.clone().shift(part.offset));
                moved.for_each(|inner| push(&mut all, inner));
            }
            _ => push(&mut all, part),
        }
    }
    all
}

/// The distance between the members of `list`, if they are all alike and equally far apart.
fn regular(list: &[Layout]) -> Option<isize> {
    let stride = list[1].offset.checked_sub(list[0].offset)?;
    let alike = |pair: &[Layout]| {
        pair[1].offset.checked_sub(pair[0].offset) == Some(stride) && same(&pair[0].shape, &pair[1].shape)
    };
    list.windows(2).all(alike).then_some(stride)
}

/// Whether two shapes are known to be equal, at the cost of looking at one level.
fn same(a: &Shape, b: &Shape) -> bool {
    match (a, b) {
        (
            Shape::Run { count, stride, len },
            Shape::Run {
                count: n,
                stride: s,
                len: l,
            },
        ) => count == n && len == l && (stride == s || *count == 1),
        (
            Shape::Repeat { count, stride, child },
            Shape::Repeat {
                count: n,
                stride: s,
                child: c,
            },
        ) => {
            count == n
                && stride == s
                && (Rc::ptr_eq(child, c) || child.offset == c.offset && same(&child.shape, &c.shape))
        }
        (Shape::Scatter { len, offsets }, Shape::Scatter { len: l, offsets: o }) => len == l && Rc::ptr_eq(offsets, o),
        (Shape::Blocks(a), Shape::Blocks(b)) => Rc::ptr_eq(a, b),
        (Shape::Sequence(a), Shape::Sequence(b)) => Rc::ptr_eq(a, b),
        _ => false,
    }
}

/// The blocks of `list`, if each member is one, or if they are few in all.
fn flat(list: &[Layout]) -> Option<Vec<Block>> {
    // Those of a sequence were not few.
    if list.iter().any(|part| matches!(part.shape, Shape::Sequence(_))) {
        return None;
    }
    let limit = if list.iter().all(|part| part.single().is_some()) {
        usize::MAX
    } else {
        FLAT
    };
    let mut blocks: Vec<Block> = Vec::new();
    let mut fits = true;
    for part in list {
        fits = fits
            && part.blocks(0, &mut |offset, len| {
                append(&mut blocks, offset, len);
                blocks.len() <= limit
            });
    }
    fits.then_some(blocks)
}

/// Appends a block, melting it into the last one if it continues that.
fn append(blocks: &mut Vec<Block>, offset: isize, len: usize) {
    let start = match blocks.last_mut() {
        Some(last) if last.offset.checked_add_unsigned(last.len) == Some(offset) => {
            last.len += len;
            return;
        }
        Some(last) => last.start + last.len,
        None => 0,
    };
    blocks.push(Block { offset, start, len });
}

fn scattered(blocks: Vec<Block>) -> Shape {
    let first = blocks[0].len;
    if blocks.iter().all(|block| block.len == first) {
        let offsets = blocks.iter().map(|block| block.offset).collect();
        return Shape::Scatter { len: first, offsets };
    }
    let Some(unit) = unit(&blocks) else {
        return Shape::Blocks(blocks.into());
    };
    let mut offsets = Vec::with_capacity(CUT * blocks.len());
    for block in blocks {
        offsets.extend((0..block.len / unit).map(|i| block.offset + (i * unit) as isize));
    }
    Shape::Scatter {
        len: unit,
        offsets: offsets.into(),
    }
}

/// The length of the units that blocks of several lengths are cut into, if that pays: one loop over blocks of equal length takes 0.3
/// to 0.9 of the time of one that has to look how long each is. Few blocks are left alone, since repetitions of them are copied block
/// by block. Only powers of two are looked for, which takes no division for each block.
fn unit(blocks: &[Block]) -> Option<usize> {
    let bits = blocks.iter().fold(LINE, |bits, block| bits | block.len);
    let unit = 1 << bits.trailing_zeros();
    let size = blocks.last().map_or(0, |last| last.start + last.len);
    (blocks.len() > FLAT && size / unit <= CUT * blocks.len()).then_some(unit)
}

impl Layout {
    /// Calls `visit(offset, len)` for every block in order until it answers `false`; returns the last answer.
    pub fn blocks(&self, at: isize, visit: &mut dyn FnMut(isize, usize) -> bool) -> bool {
        let at = at + self.offset;
        match &self.shape {
            &Shape::Run { count, stride, len } => (0..count).all(|i| visit(at + i as isize * stride, len)),
            Shape::Repeat { count, stride, child } => {
                (0..*count).all(|i| child.blocks(at + i as isize * stride, visit))
            }
            Shape::Scatter { len, offsets } => offsets.iter().all(|offset| visit(at + offset, *len)),
            Shape::Blocks(list) => list.iter().all(|block| visit(at + block.offset, block.len)),
            Shape::Sequence(parts) => parts.iter().all(|part| part.layout.blocks(at, visit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_melt() {
        let two = Layout::sequence([Layout::block(4, 4), Layout::block(8, 8)]);
        assert_eq!(two.single().map(|block| (block.offset, block.len)), Some((4, 12)));
        let rows = Layout::block(0, 8).repeat(10, 8).repeat(5, 80);
        assert_eq!(rows.single().map(|block| block.len), Some(400));
        assert!(Layout::sequence([Layout::empty(), Layout::block(3, 0)]).size == 0);
    }

    #[test]
    fn regular_places_become_one_run() {
        let list = Layout::sequence((0..1000).map(|i| Layout::block(i * 24, 8)));
        assert!(matches!(
            list.shape,
            Shape::Run {
                count: 1000,
                stride: 24,
                len: 8
            }
        ));
        let grid = list.clone().repeat(7, 24000);
        assert!(matches!(grid.shape, Shape::Run { count: 7000, .. }));
        let cube = Layout::sequence((0..9).map(|i| list.clone().shift(i * 100_000)));
        assert!(matches!(
            cube.shape,
            Shape::Repeat {
                count: 9,
                stride: 100_000,
                ..
            }
        ));
    }

    #[test]
    fn blocks_alone_lie_as_in_a_sequence() {
        let lists: [&[(isize, usize)]; 7] = [
            &[],
            &[(3, 5)],
            &[(8, 4), (12, 4), (16, 1)],
            &[(0, 8), (24, 8), (48, 8)],
            &[(0, 8), (24, 8), (49, 8)],
            &[(40, 8), (0, 8), (8, 4), (100, 1)],
            &[(isize::MAX - 4, 4), (isize::MIN, 4), (0, 4)],
        ];
        for list in lists {
            let parts = list.iter().map(|&(offset, len)| Layout::block(offset, len));
            let (one, other) = (Layout::of_blocks(list.iter().copied()), Layout::sequence(parts));
            assert_eq!(format!("{one:?}"), format!("{other:?}"));
        }
    }

    /// How many sequences lie within each other.
    fn depth(layout: &Layout) -> usize {
        match &layout.shape {
            Shape::Sequence(parts) => 1 + parts.iter().map(|part| depth(&part.layout)).max().unwrap(),
            _ => 0,
        }
    }

    #[test]
    fn what_is_made_step_by_step_is_neither_deep_nor_long() {
        let mut all = Layout::block(0, 4);
        for step in 1..2000 {
            let before = all.clone().shift(3);
            all = Layout::sequence([before, Layout::block(step * step * 16, 4)]);
        }
        assert_eq!(all.size, 8000);
        assert!(depth(&all) <= 2000 / FLAT, "{}", depth(&all));
        let mut offsets = Vec::new();
        all.blocks(0, &mut |offset, _| {
            offsets.push(offset);
            true
        });
        let expected = (0..2000).map(|step| step * step * 16 + 3 * (1999 - step));
        assert!(offsets.into_iter().eq(expected));
    }

    #[test]
    fn many_blocks_of_several_lengths_are_cut_into_equal_ones() {
        for (count, unit, cut) in [
            (400, 8, true),
            (400, 1, true),
            (400, 64, true),
            (FLAT, 8, false),
            (400, 3, false),
        ] {
            // One to four units each.
            let blocks = (0..count).map(|i| (i as isize * 1000, (1 + i % 4) * unit));
            let layout = Layout::of_blocks(blocks.clone());
            let is_cut = matches!(layout.shape, Shape::Scatter { len, .. } if len == unit);
            assert_eq!(is_cut, cut, "{count} blocks of {unit}");
            let mut bytes = blocks.flat_map(|(offset, len)| offset..offset + len as isize);
            layout.blocks(0, &mut |offset, len| {
                assert!((offset..offset + len as isize).eq(bytes.by_ref().take(len)));
                true
            });
            assert_eq!(bytes.next(), None);
        }
        // Units that would be many more than the blocks.
        let long = Layout::of_blocks((0..400).map(|i| (i * 100, 8 + 8 * (i as usize % 7))));
        assert!(matches!(long.shape, Shape::Blocks(_)));
    }

    #[test]
    fn a_small_struct_is_flat() {
        let inner = Layout::sequence([Layout::block(0, 4), Layout::block(8, 8)]);
        let outer = Layout::sequence([inner, Layout::block(24, 1).repeat(3, 2)]);
        let Shape::Blocks(blocks) = &outer.shape else {
            panic!("{outer:?}");
        };
        assert_eq!(
            blocks.iter().map(|b| (b.offset, b.start, b.len)).collect::<Vec<_>>(),
            [(0, 0, 4), (8, 4, 8), (24, 12, 1), (26, 13, 1), (28, 14, 1)]
        );
    }
}
