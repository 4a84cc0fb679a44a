//! The constructors of derived datatypes (MPI-4.1 §5.1.2-§5.1.10).
//!
//! Counts and displacements are 64 bits wide here, so each constructor serves both of its C forms.
//! Bounds follow MPICH: those of a struct come from its `MPI_LB` and `MPI_UB` members where it has
//! any, otherwise from its members' bounds, and are then padded to the members' alignment unless all
//! members are of one predefined type.

use super::basic::{Basic, Repr};
use super::layout::Layout;
use super::{Combiner, Contents, Datatype};
use crate::fail;
use crate::mpi::attr::Attributes;
use crate::mpi::error::Result;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A block of a derived datatype: copies of a datatype in a row, and where the first one lies.
#[derive(Clone, Copy, Debug)]
pub struct Member<'a> {
    /// Number of copies.
    pub count: i64,
    /// Displacement of the first in bytes.
    pub at: i128,
    /// The datatype.
    pub datatype: &'a Rc<Datatype>,
}

impl Datatype {
    /// `count` elements in a row. MPI-4.1 §5.1.2.
    ///
    /// # Errors
    /// `Count`: negative; `ValueTooLarge`: the result does not fit an address.
    pub fn contiguous(count: i64, of: &Rc<Datatype>) -> Result<Datatype> {
        Datatype::hvector(count, 1, of.extent as i128, of)
    }

    /// `count` blocks of `blocklength` elements, `stride` elements apart. MPI-4.1 §5.1.2.
    ///
    /// # Errors
    /// As [`Datatype::contiguous`].
    pub fn vector(count: i64, blocklength: i64, stride: i64, of: &Rc<Datatype>) -> Result<Datatype> {
        Datatype::hvector(count, blocklength, stride as i128 * of.extent as i128, of)
    }

    /// `count` blocks of `blocklength` elements, `stride` bytes apart. MPI-4.1 §5.1.2.
    ///
    /// # Errors
    /// As [`Datatype::contiguous`].
    pub fn hvector(count: i64, blocklength: i64, stride: i128, of: &Rc<Datatype>) -> Result<Datatype> {
        natural(count, "count")?;
        natural(blocklength, "blocklength")?;
        let mut shape = Outline::default();
        let copies = count as i128 * blocklength as i128;
        if copies > 0 {
            let (across, along) = (
                (count - 1) as i128 * stride,
                (blocklength - 1) as i128 * of.extent as i128,
            );
            shape.take(of, copies, across.min(0) + along.min(0), across.max(0) + along.max(0));
        }
        let block = || of.layout.clone().repeat(blocklength as usize, of.extent);
        // A stride that matters lies within the bounds, which fit.
        shape.finish(|| block().repeat(count as usize, stride as isize), &[(copies, of)])
    }

    /// Blocks of `lengths[i]` elements at `displacements[i]` bytes. MPI-4.1 §5.1.2.
    ///
    /// # Errors
    /// As [`Datatype::contiguous`].
    pub fn hindexed(blocks: impl Iterator<Item = (i64, i128)> + Clone, of: &Rc<Datatype>) -> Result<Datatype> {
        let (mut copies, mut outermost) = (0, None);
        for (index, (count, at)) in blocks.clone().enumerate() {
            natural_of(index, count, "block length")?;
            if count > 0 {
                copies += count as i128;
                let (first, last) = across(count, at, of);
                let (low, high) = outermost.unwrap_or((first, last));
                outermost = Some((low.min(first), high.max(last)));
            }
        }
        let mut shape = Outline::default();
        if let Some((first, last)) = outermost {
            shape.take(of, copies, first, last);
        }
        let used = blocks.filter(|(count, _)| *count > 0 && of.size > 0);
        let layout = || match of.layout.single() {
            // Elements in a row need no layouts of their own.
            Some(row) if row.len as isize == of.extent => Layout::of_blocks(
                used.map(|(count, at)| ((at + row.offset as i128) as isize, count as usize * row.len)),
            ),
            _ => Layout::sequence(used.map(|(count, at)| {
                let copies = of.layout.clone().repeat(count as usize, of.extent);
                copies.shift(at as isize)
            })),
        };
        shape.finish(layout, &[(copies, of)])
    }

    /// Blocks of `lengths[i]` elements at `displacements[i]` elements. MPI-4.1 §5.1.2.
    ///
    /// # Errors
    /// As [`Datatype::contiguous`].
    pub fn indexed(blocks: impl Iterator<Item = (i64, i64)> + Clone, of: &Rc<Datatype>) -> Result<Datatype> {
        let extent = of.extent as i128;
        Datatype::hindexed(blocks.map(move |(count, at)| (count, at as i128 * extent)), of)
    }

    /// Blocks of different datatypes. MPI-4.1 §5.1.2.
    ///
    /// # Errors
    /// As [`Datatype::contiguous`].
    pub fn structure(members: &[Member]) -> Result<Datatype> {
        let mut shape = Outline::default();
        let (mut lb, mut ub) = (None::<i128>, None::<i128>);
        for (index, member) in members.iter().enumerate() {
            natural_of(index, member.count, "block length")?;
            match member.datatype.marker() {
                _ if member.count == 0 => {}
                Some("MPI_LB") => lb = Some(lb.map_or(member.at, |lb| lb.min(member.at))),
                Some(_) => ub = Some(ub.map_or(member.at, |ub| ub.max(member.at))),
                None => shape.row(*member),
            }
        }
        let used = || {
            members
                .iter()
                .filter(|member| member.count > 0 && member.datatype.marker().is_none())
        };
        // As in MPICH: blocks of one datatype lie as in MPI_Type_create_hindexed.
        let mut filled = used()
            .map(|member| member.datatype)
            .filter(|datatype| datatype.size > 0);
        let first = filled.next();
        let is_one = |datatype: &Rc<Datatype>| {
            let same = |first: &Rc<Datatype>| {
                Rc::ptr_eq(first, datatype) || first.basic.is_some() && first.basic == datatype.basic
            };
            first.is_some_and(same)
        };
        if lb.is_none() && ub.is_none() && (first.is_none() || !filled.all(is_one)) {
            shape.pad();
        }
        shape.mark(lb, ub);
        let block = |member: &Member| {
            let datatype = member.datatype;
            let copies = datatype.layout.clone().repeat(member.count as usize, datatype.extent);
            copies.shift(member.at as isize)
        };
        let parts: Vec<_> = used().map(|member| (member.count as i128, member.datatype)).collect();
        shape.finish(
            || Layout::sequence(used().filter(|member| member.datatype.size > 0).map(block)),
            &parts,
        )
    }

    /// The same elements between other bounds. MPI-4.1 §5.1.7.
    ///
    /// # Errors
    /// `ValueTooLarge`: the upper bound does not fit an address.
    pub fn resized(of: &Rc<Datatype>, lb: i64, extent: i64) -> Result<Datatype> {
        let mut shape = Outline::default();
        shape.take(of, 1, 0, 0);
        shape.lb = Some(lb as i128);
        shape.ub = Some(lb as i128 + extent as i128);
        shape.finish(|| of.layout.clone(), &[(1, of)])
    }

    /// The same datatype again, as committed as `of`. MPI-4.1 §5.1.10.
    pub fn duplicate(of: &Rc<Datatype>) -> Datatype {
        Datatype {
            size: of.size,
            lb: of.lb,
            extent: of.extent,
            true_lb: of.true_lb,
            true_extent: of.true_extent,
            align: of.align,
            leaves: of.leaves,
            void: of.void,
            basic: None,
            element: of.element,
            contiguous: of.contiguous,
            committed: of.committed.clone(),
            name: RefCell::default(),
            handles: Cell::new(0),
            layout: of.layout.clone(),
            members: vec![(1, of.clone())],
            contents: None,
            attributes: Attributes::default(),
        }
    }

    /// `of`, which is predefined, as a datatype that is also predefined but has no name of its own.
    pub(super) fn parameterized(of: &Rc<Datatype>) -> Datatype {
        let mut made = Datatype::duplicate(of);
        made.basic = of.basic;
        made
    }

    /// Remembers the call that made it.
    pub fn made_by(mut self, contents: Contents) -> Rc<Datatype> {
        debug_assert!(contents.combiner != Combiner::Named);
        self.contents = Some(Box::new(contents));
        Rc::new(self)
    }

    /// The name, if this is `MPI_LB` or `MPI_UB`.
    fn marker(&self) -> Option<&'static str> {
        self.basic
            .filter(|basic| basic.repr == Repr::Marker)
            .map(|basic| basic.name)
    }
}

pub(super) fn natural(value: i64, name: &str) -> Result<()> {
    if value < 0 {
        fail!(Count, "{name} is {value} but must not be negative");
    }
    Ok(())
}

/// The same, of the number at `index` of an array.
#[inline]
pub(super) fn natural_of(index: usize, value: i64, name: &str) -> Result<()> {
    match value {
        0.. => Ok(()),
        _ => natural(value, &format!("{name} {index}")),
    }
}

/// Where the outermost of `count` copies of `of` in a row lie, the first at `at`.
fn across(count: i64, at: i128, of: &Datatype) -> (i128, i128) {
    let along = (count - 1) as i128 * of.extent as i128;
    (at + along.min(0), at + along.max(0))
}

/// The predefined datatype that all values of `datatypes` are of.
fn common<'a>(datatypes: impl Iterator<Item = &'a Rc<Datatype>>) -> Option<&'static Basic> {
    let mut all = datatypes.filter(|datatype| datatype.size > 0);
    let first = all.next()?.element?;
    all.all(|datatype| datatype.element == Some(first)).then_some(first)
}

/// Size and bounds of a datatype in the making, in numbers that cannot overflow.
#[derive(Default)]
pub(super) struct Outline {
    size: i128,
    leaves: i128,
    lb: Option<i128>,
    ub: Option<i128>,
    low: Option<i128>,
    high: Option<i128>,
    align: usize,
    huge: bool,
}

impl Outline {
    /// Adds `copies` of `of`, of which the outermost lie at `first` and `last`.
    pub(super) fn take(&mut self, of: &Datatype, copies: i128, first: i128, last: i128) {
        let lower = |old: &mut Option<i128>, new: i128| *old = Some(old.map_or(new, |old| old.min(new)));
        let upper = |old: &mut Option<i128>, new: i128| *old = Some(old.map_or(new, |old| old.max(new)));
        self.align = self.align.max(of.align);
        if of.void {
            return;
        }
        lower(&mut self.lb, first.saturating_add(of.lb as i128));
        upper(&mut self.ub, last.saturating_add(of.ub() as i128));
        if of.size > 0 {
            lower(&mut self.low, first.saturating_add(of.true_lb as i128));
            upper(
                &mut self.high,
                last.saturating_add((of.true_lb + of.true_extent) as i128),
            );
        }
        let size = copies.checked_mul(of.size as i128);
        let leaves = copies.checked_mul(of.leaves as i128);
        match (size, leaves) {
            (Some(size), Some(leaves)) => {
                self.size = self.size.saturating_add(size);
                self.leaves = self.leaves.saturating_add(leaves);
            }
            _ => self.huge = true,
        }
    }

    /// Adds a row of copies.
    fn row(&mut self, member: Member) {
        if member.count > 0 {
            let (first, last) = across(member.count, member.at, member.datatype);
            self.take(member.datatype, member.count as i128, first, last);
        }
    }

    /// Rounds the extent up to the alignment, as a C compiler does for a struct.
    fn pad(&mut self) {
        if let (Some(lb), Some(ub), 2..) = (self.lb, self.ub, self.align) {
            let align = self.align as i128;
            let over = (ub - lb).rem_euclid(align);
            if over > 0 {
                self.ub = Some(ub + align - over);
            }
        }
    }

    /// Sets the bounds that markers give.
    pub(super) fn mark(&mut self, lb: Option<i128>, ub: Option<i128>) {
        if lb.is_some() || ub.is_some() {
            self.lb = Some(lb.or(self.lb).unwrap_or(0));
            self.ub = Some(ub.or(self.ub).unwrap_or(0));
        }
    }

    /// The datatype; `layout` is asked for once all numbers are known to fit.
    pub(super) fn finish(self, layout: impl FnOnce() -> Layout, members: &[(i128, &Rc<Datatype>)]) -> Result<Datatype> {
        let (lb, ub) = (self.lb.unwrap_or(0), self.ub.unwrap_or(0));
        let (low, high) = (self.low.unwrap_or(0), self.high.unwrap_or(0));
        let numbers = [self.size, self.leaves, lb, ub, ub - lb, low, high, high - low];
        if self.huge || numbers.iter().any(|&number| isize::try_from(number).is_err()) {
            fail!(
                ValueTooLarge,
                "the datatype has a size or bounds that do not fit 64 bits"
            );
        }
        let void = self.lb.is_none() && self.ub.is_none();
        let used = members.iter().filter(|(count, _)| *count > 0);
        let layout = if self.size == 0 { Layout::empty() } else { layout() };
        debug_assert_eq!(layout.size as i128, self.size);
        Ok(Datatype {
            size: self.size as usize,
            lb: lb as isize,
            extent: (ub - lb) as isize,
            true_lb: low as isize,
            true_extent: (high - low) as isize,
            align: self.align.max(1),
            leaves: self.leaves as u64,
            void,
            basic: None,
            element: common(used.clone().map(|(_, datatype)| *datatype)),
            contiguous: self.size == 0 || self.size == ub - lb && layout.single().is_some(),
            committed: Cell::new(false),
            name: RefCell::default(),
            handles: Cell::new(0),
            layout,
            members: used
                .filter(|(_, datatype)| datatype.size > 0)
                .map(|(count, datatype)| (*count as usize, (*datatype).clone()))
                .collect(),
            contents: None,
            attributes: Attributes::default(),
        })
    }
}
