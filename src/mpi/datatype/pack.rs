//! # Safety
//! Reads and writes the application's buffers: relies on the caller of MPI to own `count` elements
//! at the address it passed.
//!
//! Copies the data of typed elements to and from a row of bytes, from any position in that row.
//!
//! A position is found by a division or a binary search per level of the layout; from there on whole
//! blocks stream through the loops of [`super::kernel`]. Many repetitions of few blocks are taken
//! block by block over [`STRIP`] repetitions at a time, so that each inner loop is long.
#![allow(unsafe_code)]

use super::Datatype;
use super::kernel::{Strided, Transfer};
use super::layout::{Block, Layout, Shape};

/// Repetitions that are copied block by block before the next ones; their memory should fit the first-level cache.
const STRIP: usize = 64;
/// Data of more bytes come from memory, not from a cache: a line at a time is no faster there, and on two cores of one
/// cache a third slower.
const WIDE: usize = 2 << 20;
/// Up to so many blocks are worth taking block by block.
const FEW: usize = 32;

impl Datatype {
    /// Copies bytes `position .. position + len` of the packed form of `count` elements at `base` to `out`.
    ///
    /// # Safety
    /// As [`crate::mpi::buffer::Buffer::pack`].
    pub unsafe fn pack(&self, base: *const u8, count: usize, position: usize, out: *mut u8, len: usize) {
        let mut copy = Transfer::<true> {
            memory: base.cast_mut(),
            row: out,
            wide: count * self.size() <= WIDE,
        };
        self.walk(count, position, len, &mut copy);
    }

    /// The reverse of `pack`. Where elements overlap, the last one in packing order wins.
    ///
    /// # Safety
    /// As [`crate::mpi::buffer::Buffer::unpack`].
    pub unsafe fn unpack(&self, base: *mut u8, count: usize, position: usize, from: *const u8, len: usize) {
        let mut copy = Transfer::<false> {
            memory: base,
            row: from.cast_mut(),
            wide: count * self.size() <= WIDE,
        };
        self.walk(count, position, len, &mut copy);
    }

    /// Calls `visit(offset, len)` for each stretch of memory that holds bytes `position .. position + len` of the
    /// packed form of `count` elements, in order; `offset` is relative to the first element's address.
    pub fn segments(&self, count: usize, position: usize, len: usize, visit: &mut dyn FnMut(isize, usize)) {
        let mut stretches = Stretches { visit, at: 0, len: 0 };
        self.walk(count, position, len, &mut stretches);
        stretches.finish();
    }

    /// As [`Datatype::segments`], with stretches of one length at one distance together, neighbours not joined: calls
    /// `visit(offset, len, count, distance)`.
    pub fn groups(&self, count: usize, position: usize, len: usize, visit: &mut dyn FnMut(isize, usize, usize, isize)) {
        self.walk(count, position, len, &mut Groups(visit));
    }

    fn walk<V: Visit>(&self, count: usize, position: usize, len: usize, visit: &mut V) {
        if len == 0 {
            return;
        }
        debug_assert!(position + len <= count * self.size());
        let many = Many {
            layout: &self.layout,
            at: self.layout.offset,
            stride: self.extent(),
            count,
        };
        many.part(0, position, len, visit);
    }
}

/// Orders in which a visitor can take blocks.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    /// In any order.
    Free,
    /// In packing order where blocks overlap.
    Overlaps,
    /// In packing order.
    Packing,
}

/// What is done with the blocks of a layout. `to` counts packed bytes from the walk's position.
trait Visit {
    /// In which order blocks must come.
    const ORDER: Order;
    fn strided(&mut self, s: Strided);
    fn scattered(&mut self, at: isize, offsets: &[isize], to: usize, len: usize);
    fn listed(&mut self, at: isize, blocks: &[Block], to: usize);

    fn block(&mut self, at: isize, to: usize, len: usize) {
        let (stride, pitch, count) = (0, 0, 1);
        self.strided(Strided {
            at,
            stride,
            to,
            pitch,
            count,
            len,
        });
    }
}

impl<const PACK: bool> Visit for Transfer<PACK> {
    const ORDER: Order = if PACK { Order::Free } else { Order::Overlaps };

    #[inline]
    fn strided(&mut self, s: Strided) {
        // SAFETY: `walk` visits only blocks of the elements and of the row that its caller vouches for.
        unsafe { Transfer::strided(self, s) }
    }

    #[inline]
    fn scattered(&mut self, at: isize, offsets: &[isize], to: usize, len: usize) {
        // SAFETY: as above.
        unsafe { Transfer::scattered(self, at, offsets, to, len) }
    }

    #[inline]
    fn listed(&mut self, at: isize, blocks: &[Block], to: usize) {
        // SAFETY: as above.
        unsafe { Transfer::listed(self, at, blocks, to) }
    }

    #[inline]
    fn block(&mut self, at: isize, to: usize, len: usize) {
        // SAFETY: as above.
        unsafe { Transfer::block(self, at, to, len) }
    }
}

/// Tells stretches of memory, neighbours joined.
struct Stretches<'a> {
    visit: &'a mut dyn FnMut(isize, usize),
    at: isize,
    len: usize,
}

impl Stretches<'_> {
    fn finish(&mut self) {
        if self.len > 0 {
            (self.visit)(self.at, self.len);
        }
    }
}

impl Visit for Stretches<'_> {
    const ORDER: Order = Order::Packing;

    fn strided(&mut self, s: Strided) {
        if s.stride == s.len as isize {
            return self.block(s.at, 0, s.count * s.len);
        }
        for i in 0..s.count {
            self.block(s.at + i as isize * s.stride, 0, s.len);
        }
    }

    fn scattered(&mut self, at: isize, offsets: &[isize], _: usize, len: usize) {
        for offset in offsets {
            self.block(at + offset, 0, len);
        }
    }

    fn listed(&mut self, at: isize, blocks: &[Block], _: usize) {
        for block in blocks {
            self.block(at + block.offset, 0, block.len);
        }
    }

    fn block(&mut self, at: isize, _: usize, len: usize) {
        if self.at + self.len as isize == at {
            self.len += len;
            return;
        }
        self.finish();
        (self.at, self.len) = (at, len);
    }
}

/// Tells groups of stretches of memory.
struct Groups<'a>(&'a mut dyn FnMut(isize, usize, usize, isize));

impl Visit for Groups<'_> {
    const ORDER: Order = Order::Packing;

    fn strided(&mut self, s: Strided) {
        match s.stride == s.len as isize {
            true => (self.0)(s.at, s.count * s.len, 1, 0),
            false => (self.0)(s.at, s.len, s.count, s.stride),
        }
    }

    fn scattered(&mut self, at: isize, offsets: &[isize], _: usize, len: usize) {
        for offset in offsets {
            (self.0)(at + offset, len, 1, 0);
        }
    }

    fn listed(&mut self, at: isize, blocks: &[Block], _: usize) {
        for block in blocks {
            (self.0)(at + block.offset, block.len, 1, 0);
        }
    }
}

/// `count` times `layout`, the first at `at` (its own offset included), `stride` bytes apart.
#[derive(Clone, Copy)]
struct Many<'a> {
    layout: &'a Layout,
    at: isize,
    stride: isize,
    count: usize,
}

impl Many<'_> {
    fn one(&self, index: usize) -> isize {
        self.at + index as isize * self.stride
    }

    /// All of it, the first byte to `to` of the row.
    fn whole<V: Visit>(&self, to: usize, visit: &mut V) {
        if self.by_block(V::ORDER) {
            return self.strips(to, visit);
        }
        for index in 0..self.count {
            whole(self.layout, self.one(index), to + index * self.layout.size, visit);
        }
    }

    /// Whether to take block by block over many repetitions.
    fn by_block(&self, order: Order) -> bool {
        let blocks = match &self.layout.shape {
            Shape::Run { count: 1, .. } => return true,
            Shape::Run { count, .. } => *count,
            Shape::Scatter { offsets, .. } => offsets.len(),
            Shape::Blocks(list) => list.len(),
            _ => return false,
        };
        if blocks > FEW || blocks >= self.count {
            return false;
        }
        match order {
            Order::Free => true,
            Order::Overlaps => !self.overlaps(),
            Order::Packing => false,
        }
    }

    /// Whether two repetitions may share a byte. Cost: O(blocks).
    fn overlaps(&self) -> bool {
        let (mut low, mut high) = (isize::MAX, isize::MIN);
        self.layout.blocks(0, &mut |offset, len| {
            low = low.min(offset);
            high = high.max(offset + len as isize);
            true
        });
        self.stride.unsigned_abs() < high.abs_diff(low)
    }

    fn strips<V: Visit>(&self, to: usize, visit: &mut V) {
        let pitch = self.layout.size;
        let strip = match &self.layout.shape {
            Shape::Run { count: 1, .. } => self.count,
            _ => STRIP,
        };
        let mut index = 0;
        while index < self.count {
            let count = strip.min(self.count - index);
            let (first, to) = (self.one(index), to + index * pitch);
            let mut column = |offset: isize, start: usize, len: usize| {
                visit.strided(Strided {
                    at: first + offset,
                    stride: self.stride,
                    to: to + start,
                    pitch,
                    count,
                    len,
                });
            };
            match &self.layout.shape {
                &Shape::Run { count, stride, len } => {
                    (0..count).for_each(|i| column(i as isize * stride, i * len, len));
                }
                Shape::Scatter { len, offsets } => {
                    (0..offsets.len()).for_each(|i| column(offsets[i], i * len, *len));
                }
                Shape::Blocks(list) => list.iter().for_each(|b| column(b.offset, b.start, b.len)),
                _ => unreachable!("by_block admits no other shape"),
            }
            index += count;
        }
    }

    /// Bytes `skip .. skip + len` of it.
    fn part<V: Visit>(&self, mut to: usize, skip: usize, mut len: usize, visit: &mut V) {
        let size = self.layout.size;
        let (mut index, within) = (skip / size, skip % size);
        if within > 0 || len < size {
            let take = len.min(size - within);
            part(self.layout, self.one(index), to, within, take, visit);
            (index, to, len) = (index + 1, to + take, len - take);
        }
        let rest = Many {
            at: self.one(index),
            count: len / size,
            ..*self
        };
        if rest.count > 0 {
            rest.whole(to, visit);
        }
        let tail = len % size;
        if tail > 0 {
            part(self.layout, rest.one(rest.count), to + len - tail, 0, tail, visit);
        }
    }
}

/// All bytes of `layout`; `at` includes its offset.
fn whole<V: Visit>(layout: &Layout, at: isize, to: usize, visit: &mut V) {
    match &layout.shape {
        &Shape::Run { count, stride, len } => {
            let pitch = len;
            visit.strided(Strided {
                at,
                stride,
                to,
                pitch,
                count,
                len,
            });
        }
        Shape::Repeat { count, stride, child } => many(child, at, *stride, *count).whole(to, visit),
        Shape::Scatter { len, offsets } => visit.scattered(at, offsets, to, *len),
        Shape::Blocks(list) => visit.listed(at, list, to),
        Shape::Sequence(parts) => {
            for part in parts.iter() {
                whole(&part.layout, at + part.layout.offset, to + part.start, visit);
            }
        }
    }
}

fn many(child: &Layout, at: isize, stride: isize, count: usize) -> Many<'_> {
    Many {
        layout: child,
        at: at + child.offset,
        stride,
        count,
    }
}

/// Bytes `skip .. skip + len` of `layout`, at least one; `at` includes its offset.
fn part<V: Visit>(layout: &Layout, at: isize, to: usize, skip: usize, len: usize, visit: &mut V) {
    match &layout.shape {
        &Shape::Run { count: 1, .. } => visit.block(at + skip as isize, to, len),
        &Shape::Run {
            count,
            stride,
            len: block,
        } => {
            let block = Layout::block(0, block);
            many(&block, at, stride, count).part(to, skip, len, visit);
        }
        Shape::Repeat { count, stride, child } => many(child, at, *stride, *count).part(to, skip, len, visit),
        Shape::Scatter { len: block, offsets } => scatter_part(at, offsets, *block, to, skip, len, visit),
        Shape::Blocks(list) => {
            let first = list.partition_point(|block| block.start <= skip) - 1;
            let end = skip + len;
            for block in list[first..].iter().take_while(|block| block.start < end) {
                let from = skip.max(block.start);
                let take = end.min(block.start + block.len) - from;
                visit.block(
                    at + block.offset + (from - block.start) as isize,
                    to + from - skip,
                    take,
                );
            }
        }
        Shape::Sequence(parts) => {
            let first = parts.partition_point(|part| part.start <= skip) - 1;
            let end = skip + len;
            for member in parts[first..].iter().take_while(|member| member.start < end) {
                let from = skip.max(member.start);
                let take = end.min(member.start + member.layout.size) - from;
                let at = at + member.layout.offset;
                if take == member.layout.size {
                    whole(&member.layout, at, to + from - skip, visit);
                } else {
                    part(&member.layout, at, to + from - skip, from - member.start, take, visit);
                }
            }
        }
    }
}

fn scatter_part<V: Visit>(
    at: isize,
    offsets: &[isize],
    block: usize,
    mut to: usize,
    skip: usize,
    mut len: usize,
    visit: &mut V,
) {
    let (mut index, within) = (skip / block, skip % block);
    if within > 0 {
        let take = len.min(block - within);
        visit.block(at + offsets[index] + within as isize, to, take);
        (index, to, len) = (index + 1, to + take, len - take);
    }
    let count = len / block;
    visit.scattered(at, &offsets[index..index + count], to, block);
    let tail = len % block;
    if tail > 0 {
        visit.block(at + offsets[index + count], to + len - tail, tail);
    }
}
