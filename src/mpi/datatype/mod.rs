//! Datatypes: what MPI knows about how an element lies in memory (MPI-4.1 §5).
//!
//! | module | owns |
//! |---|---|
//! | [`basic`] | the table of predefined datatypes |
//! | [`pack`] | copying elements to and from a row of bytes |

pub mod basic;
pub mod pack;

use super::error::{Class, Error, Result};
use super::table::Table;
use crate::fail;
use basic::{BASICS, Basic};
use std::cell::Cell;
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
    contiguous: bool,
    basic: Option<&'static Basic>,
    element: Option<&'static Basic>,
    committed: Cell<bool>,
    blocks: Vec<(isize, usize)>,
}

impl Datatype {
    /// The predefined datatype in row `index` of [`BASICS`].
    pub fn basic_at(index: usize) -> Rc<Datatype> {
        let basic = &BASICS[index];
        let blocks = match basic.parts() {
            Some(parts) => vec![(0, parts.first), (parts.offset as isize, parts.second)],
            None => vec![(0, basic.size)],
        };
        Rc::new(Datatype {
            size: basic.size,
            lb: 0,
            extent: basic.extent as isize,
            true_lb: 0,
            true_extent: basic.parts().map_or(basic.size, |parts| parts.offset + parts.second) as isize,
            align: basic.align,
            contiguous: basic.is_contiguous(),
            basic: Some(basic),
            element: Some(basic),
            committed: Cell::new(true),
            blocks,
        })
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

    /// Alignment that a C compiler would give a struct of the same members.
    pub fn align(&self) -> usize {
        self.align
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
}

/// Every datatype of a rank, by its number in the MPICH ABI.
pub struct Datatypes {
    basics: Vec<Rc<Datatype>>,
    derived: Table<Rc<Datatype>>,
}

/// The bits of a derived datatype's number above its key: an "indirect" MPICH handle of kind datatype.
const DERIVED: i32 = 0xcc00_0000u32 as i32;
const KEY: i32 = 0x03ff_ffff;

impl Default for Datatypes {
    fn default() -> Self {
        Datatypes {
            basics: (0..BASICS.len()).map(Datatype::basic_at).collect(),
            derived: Table::default(),
        }
    }
}

impl Datatypes {
    /// The datatype with this number. Cost: O(1).
    ///
    /// # Errors
    /// `Type` for `MPI_DATATYPE_NULL`, a freed datatype and a number that never was one.
    #[inline]
    pub fn get(&self, handle: i32) -> Result<&Rc<Datatype>> {
        let found = match basic::index(handle) {
            Some(index) => self.basics.get(index),
            None if handle & !KEY == DERIVED => self.derived.get((handle & KEY) as u32),
            None => None,
        };
        found.ok_or_else(|| unknown(handle))
    }

    /// The datatype with this number, fit for communication. Cost: O(1).
    ///
    /// # Errors
    /// `Type` as [`Datatypes::get`], and if the datatype is not committed.
    #[inline]
    pub fn committed(&self, handle: i32) -> Result<&Rc<Datatype>> {
        let datatype = self.get(handle)?;
        if !datatype.is_committed() {
            fail!(
                Type,
                "the datatype {handle:#x} is not committed: call MPI_Type_commit first"
            );
        }
        Ok(datatype)
    }

    /// The predefined datatype in row `index` of [`BASICS`].
    pub fn basic(&self, index: usize) -> &Rc<Datatype> {
        &self.basics[index]
    }

    /// Gives a number to `datatype`: its own if it is predefined, else a new one.
    ///
    /// # Errors
    /// `NoMem` if 2^22 derived datatypes live already.
    pub fn insert(&mut self, datatype: Rc<Datatype>) -> Result<i32> {
        if let Some(basic) = datatype.basic() {
            return Ok(basic.handle);
        }
        match self.derived.insert(datatype) {
            Some(key) => Ok(DERIVED | key as i32),
            None => fail!(NoMem, "4194304 derived datatypes live already"),
        }
    }

    /// Forgets the number of a derived datatype; pending communication keeps the datatype itself.
    ///
    /// # Errors
    /// `Type` as [`Datatypes::get`], and for predefined datatypes.
    pub fn remove(&mut self, handle: i32) -> Result<Rc<Datatype>> {
        if let Some(basic) = self.get(handle)?.basic() {
            fail!(Type, "{} is predefined and cannot be freed", basic.name);
        }
        self.derived
            .remove((handle & KEY) as u32)
            .ok_or_else(|| unknown(handle))
    }
}

#[cold]
fn unknown(handle: i32) -> Error {
    let text = if handle == basic::NULL {
        "the datatype is MPI_DATATYPE_NULL".to_string()
    } else {
        format!("{handle:#x} is no datatype, or one that was freed")
    };
    Error::new(Class::Type, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_find_what_lives_and_nothing_else() {
        let mut types = Datatypes::default();
        assert_eq!(types.get(0x4c00_0405).unwrap().basic().unwrap().name, "MPI_INT");
        assert_eq!(types.get(0x8c00_0001u32 as i32).unwrap().extent(), 16);
        for junk in [basic::NULL, 0, DERIVED, DERIVED | 7, 0x4400_0000] {
            assert_eq!(types.get(junk).unwrap_err().class(), Class::Type);
        }
        assert_eq!(types.remove(0x4c00_0405).unwrap_err().class(), Class::Type);
        let int = types.get(0x4c00_0405).unwrap().clone();
        assert_eq!(types.insert(int).unwrap(), 0x4c00_0405);
    }
}
