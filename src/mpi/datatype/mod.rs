//! Datatypes: what MPI knows about how an element lies in memory (MPI-4.1 §5).
//!
//! | module | owns |
//! |---|---|
//! | [`basic`] | the table of predefined datatypes |
//! | [`registry`] | the numbers of a rank's datatypes |
//! | [`construct`], [`array`] | the constructors; subarray and darray |
//! | [`layout`] | where the bytes lie, as nested loops |
//! | [`pack`], `kernel` | copying elements to and from a row of bytes |
//! | [`external`] | the portable format "external32" |

pub mod array;
pub mod basic;
pub mod construct;
pub mod external;
pub mod kernel;
pub mod layout;
pub mod pack;
#[cfg(test)]
mod proptests;
pub mod registry;
mod wide;

pub use registry::Datatypes;

use super::attr::Attributes;
use basic::{BASICS, Basic};
use layout::Layout;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A datatype. All displacements are bytes relative to the element's address.
#[derive(Debug)]
pub struct Datatype {
    size: usize,
    lb: isize,
    extent: isize,
    true_lb: isize,
    true_extent: isize,
    align: usize,
    leaves: u64,
    void: bool,
    basic: Option<&'static Basic>,
    element: Option<&'static Basic>,
    /// See [`Datatype::is_contiguous`].
    contiguous: bool,
    committed: Cell<bool>,
    name: RefCell<String>,
    handles: Cell<u32>,
    layout: Layout,
    members: Vec<(usize, Rc<Datatype>)>,
    contents: Option<Box<Contents>>,
    attributes: Attributes,
}

/// Which constructor made a datatype: `MPI_COMBINER_*` of the MPICH ABI (MPI-4.1 §5.1.13).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum Combiner {
    Named = 1,
    Dup = 2,
    Contiguous = 3,
    Vector = 4,
    Hvector = 6,
    Indexed = 7,
    Hindexed = 9,
    IndexedBlock = 10,
    Struct = 12,
    Subarray = 13,
    Darray = 14,
    F90Real = 15,
    F90Complex = 16,
    F90Integer = 17,
    Resized = 18,
    HindexedBlock = 19,
}

/// The arguments of a constructor call, in the order of `MPI_Type_get_contents`.
#[derive(Clone, Debug)]
pub struct Contents {
    /// The constructor.
    pub combiner: Combiner,
    /// Its integer arguments.
    pub integers: Vec<i32>,
    /// Its address arguments.
    pub addresses: Vec<isize>,
    /// Its `MPI_Count` arguments, if its form with large counts was called.
    pub counts: Vec<i64>,
    /// Its datatype arguments.
    pub datatypes: Vec<Rc<Datatype>>,
}

/// Datatypes are made of others, as many deep as the program likes: they go one after the other, not one within the other.
impl Drop for Datatype {
    fn drop(&mut self) {
        let mut used = Vec::new();
        self.let_go(&mut used);
        while let Some(next) = used.pop() {
            if let Some(mut last) = Rc::into_inner(next) {
                last.let_go(&mut used);
            }
        }
    }
}

impl Datatype {
    /// Moves the datatypes that it is made of to `used`.
    fn let_go(&mut self, used: &mut Vec<Rc<Datatype>>) {
        used.extend(self.members.drain(..).map(|(_, member)| member));
        used.extend(self.contents.take().into_iter().flat_map(|contents| contents.datatypes));
    }

    /// The predefined datatype in row `index` of [`BASICS`].
    pub fn basic_at(index: usize) -> Rc<Datatype> {
        let basic = &BASICS[index];
        let (layout, leaves) = match basic.parts() {
            Some(parts) => {
                let second = Layout::block(parts.offset as isize, parts.second);
                (Layout::sequence([Layout::block(0, parts.first), second]), 2)
            }
            None => (Layout::block(0, basic.size), u64::from(basic.size > 0)),
        };
        Rc::new(Datatype {
            size: basic.size,
            lb: 0,
            extent: basic.extent as isize,
            true_lb: 0,
            true_extent: basic.parts().map_or(basic.size, |parts| parts.offset + parts.second) as isize,
            align: basic.align,
            leaves,
            void: false,
            basic: Some(basic),
            element: Some(basic),
            contiguous: basic.size == 0 || basic.size == basic.extent && layout.single().is_some(),
            committed: Cell::new(true),
            name: RefCell::new(basic.name.to_string()),
            handles: Cell::new(0),
            layout,
            members: Vec::new(),
            contents: None,
            attributes: Attributes::default(),
        })
    }

    /// Values that the program caches on it.
    pub fn attributes(&self) -> &Attributes {
        &self.attributes
    }

    /// Bytes of data in one element.
    #[inline]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Bytes from one element to the next.
    #[inline]
    pub fn extent(&self) -> isize {
        self.extent
    }

    /// Lower bound.
    #[inline]
    pub fn lb(&self) -> isize {
        self.lb
    }

    /// Upper bound: `lb + extent`.
    #[inline]
    pub fn ub(&self) -> isize {
        self.lb + self.extent
    }

    /// Lowest byte that one element touches.
    #[inline]
    pub fn true_lb(&self) -> isize {
        self.true_lb
    }

    /// Bytes from the lowest to behind the highest byte that one element touches.
    #[inline]
    pub fn true_extent(&self) -> isize {
        self.true_extent
    }

    /// Whether `count` elements lie in memory as `count * size()` bytes in a row from [`Datatype::true_lb`], in order.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.contiguous
    }

    /// The predefined datatype that this is.
    #[inline]
    pub fn basic(&self) -> Option<&'static Basic> {
        self.basic
    }

    /// The one predefined datatype that all members are of, if there is one.
    #[inline]
    pub fn element(&self) -> Option<&'static Basic> {
        self.element
    }

    /// Whether it may be used in communication.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.committed.get()
    }

    /// Makes it usable in communication; any number of times.
    pub fn commit(&self) {
        self.committed.set(true);
    }

    /// Its name: empty for derived datatypes that got none.
    pub fn name(&self) -> String {
        self.name.borrow().clone()
    }

    /// Names it.
    pub fn set_name(&self, name: &str) {
        name.clone_into(&mut self.name.borrow_mut());
    }

    /// How many numbers lead to it: more than one after `MPI_Type_get_contents`.
    pub fn handles(&self) -> u32 {
        self.handles.get()
    }

    /// The constructor call that made it; none for predefined datatypes.
    pub fn contents(&self) -> Option<&Contents> {
        self.contents.as_deref()
    }

    /// Predefined values in one element; a pair counts as two.
    pub fn leaves(&self) -> u64 {
        self.leaves
    }

    /// How many predefined values `bytes` bytes of elements hold; `None` if a value is cut in two, or if there are
    /// bytes but the datatype has none (MPI-4.1 §5.1.11).
    pub fn elements_in(&self, bytes: u64) -> Option<u64> {
        if self.size == 0 {
            return (bytes == 0).then_some(0);
        }
        let (full, rest) = (bytes / self.size as u64, bytes % self.size as u64);
        Some(full * self.leaves + self.leaves_in(rest as usize)?)
    }

    /// As [`Datatype::elements_in`], for fewer bytes than one element has.
    fn leaves_in(&self, bytes: usize) -> Option<u64> {
        if bytes == 0 {
            return Some(0);
        }
        if let Some(basic) = self.basic {
            return (basic.parts()?.first == bytes).then_some(1);
        }
        let (mut left, mut leaves) = (bytes, 0);
        for (repeat, member) in &self.members {
            let full = left.checked_div(member.size).unwrap_or(*repeat).min(*repeat);
            leaves += full as u64 * member.leaves;
            left -= full * member.size;
            if full < *repeat {
                return Some(leaves + member.leaves_in(left)?);
            }
        }
        Some(leaves)
    }

    /// How many bytes the first `leaves` predefined values of elements have: the inverse of [`Datatype::elements_in`]. `None`
    /// if those are more than can be counted, or if there are none in the datatype.
    pub fn bytes_of(&self, leaves: u64) -> Option<u64> {
        if leaves == 0 {
            return Some(0);
        }
        let (full, rest) = (leaves.checked_div(self.leaves)?, leaves % self.leaves);
        full.checked_mul(self.size as u64)?.checked_add(self.bytes_in(rest))
    }

    /// As [`Datatype::bytes_of`], for fewer values than one element has.
    fn bytes_in(&self, leaves: u64) -> u64 {
        if leaves == 0 {
            return 0;
        }
        if let Some(basic) = self.basic {
            return basic.parts().map_or(0, |pair| pair.first as u64);
        }
        let (mut left, mut bytes) = (leaves, 0);
        for (repeat, member) in &self.members {
            let repeat = *repeat as u64;
            let full = left.checked_div(member.leaves).unwrap_or(repeat).min(repeat);
            bytes += full * member.size as u64;
            left -= full * member.leaves;
            if full < repeat {
                return bytes + member.bytes_in(left);
            }
        }
        bytes
    }

    /// Calls `visit(value, count)` for the predefined values of one element in packing order, equal neighbours together.
    pub(crate) fn values(&self, visit: &mut dyn FnMut(&'static Basic, usize)) {
        if let Some(basic) = self.element {
            let values = self.size.checked_div(basic.size).unwrap_or(0);
            return visit(basic, values);
        }
        for (repeat, member) in &self.members {
            match member.element {
                Some(basic) => visit(basic, repeat * (member.size / basic.size)),
                None => (0..*repeat).for_each(|_| member.values(visit)),
            }
        }
    }
}
