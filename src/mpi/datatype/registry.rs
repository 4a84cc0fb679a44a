//! The datatypes of a rank and their numbers in the MPICH ABI.

use super::basic::{self, BASICS};
use super::{Combiner, Contents, Datatype};
use crate::fail;
use crate::mpi::error::{Class, Error, Result};
use crate::mpi::table::Table;
use std::rc::Rc;

/// Every datatype of a rank, by its number in the MPICH ABI.
pub struct Datatypes {
    basics: Vec<Rc<Datatype>>,
    derived: Table<Rc<Datatype>>,
    kinds: Vec<(Rc<Datatype>, i32)>,
    pinned: Vec<Pinned>,
}

/// A number that functions of the program have, which run.
struct Pinned {
    handle: i32,
    times: u32,
    /// Whether the program has freed it since.
    freed: bool,
}

/// The bits of a derived datatype's number above its key: an "indirect" MPICH handle of kind datatype.
const DERIVED: i32 = 0xcc00_0000u32 as i32;
const KEY: i32 = 0x03ff_ffff;

impl Default for Datatypes {
    fn default() -> Self {
        Datatypes {
            basics: (0..BASICS.len()).map(Datatype::basic_at).collect(),
            derived: Table::default(),
            kinds: Vec::new(),
            pinned: Vec::new(),
        }
    }
}

impl Datatypes {
    /// How many derived datatypes there are.
    pub fn made(&self) -> usize {
        self.derived.len()
    }

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
            return Err(uncommitted(handle));
        }
        Ok(datatype)
    }

    /// Gives a number to `datatype`: its own if it is predefined, else a new one.
    ///
    /// # Errors
    /// `NoMem` if 2^22 derived datatypes live already.
    pub fn insert(&mut self, datatype: Rc<Datatype>) -> Result<i32> {
        if let (Some(basic), None) = (datatype.basic(), datatype.contents()) {
            return Ok(basic.handle);
        }
        if let Some((_, handle)) = self.kinds.iter().find(|(kind, _)| Rc::ptr_eq(kind, &datatype)) {
            return Ok(*handle);
        }
        match self.derived.insert(datatype.clone()) {
            Some(key) => {
                datatype.handles.set(datatype.handles.get() + 1);
                Ok(DERIVED | key as i32)
            }
            None => fail!(NoMem, "4194304 derived datatypes live already"),
        }
    }

    /// The number of the predefined datatype `of` as Fortran's `arguments` select it: the same one each time, not to be
    /// freed (MPI-4.1 §19.1.5).
    ///
    /// # Errors
    /// As [`Datatypes::insert`].
    pub fn parameterized(&mut self, combiner: Combiner, arguments: &[i32], of: &Rc<Datatype>) -> Result<i32> {
        let known = self.kinds.iter().find(|(kind, _)| {
            let same = |contents: &Contents| contents.combiner == combiner && contents.integers == arguments;
            kind.contents().is_some_and(same)
        });
        if let Some((_, handle)) = known {
            return Ok(*handle);
        }
        let kind = Datatype::parameterized(of).made_by(Contents {
            combiner,
            integers: arguments.to_vec(),
            addresses: Vec::new(),
            counts: Vec::new(),
            datatypes: Vec::new(),
        });
        let handle = self.insert(kind.clone())?;
        self.kinds.push((kind, handle));
        Ok(handle)
    }

    /// The derived datatype with this number.
    ///
    /// # Errors
    /// `Type` as [`Datatypes::get`], and for predefined datatypes.
    pub fn derived(&self, handle: i32) -> Result<&Rc<Datatype>> {
        let datatype = self.get(handle)?;
        if let Some(basic) = datatype.basic() {
            fail!(Type, "{} is predefined and cannot be freed", basic.name);
        }
        Ok(datatype)
    }

    /// Forgets the number of a derived datatype; pending communication keeps the datatype itself.
    ///
    /// # Errors
    /// As [`Datatypes::derived`].
    pub fn remove(&mut self, handle: i32) -> Result<Rc<Datatype>> {
        let datatype = self.derived(handle)?.clone();
        match self.pinned.iter_mut().find(|pinned| pinned.handle == handle) {
            Some(pinned) if pinned.freed => return Err(unknown(handle)),
            Some(pinned) => pinned.freed = true,
            None => drop(self.derived.remove((handle & KEY) as u32)),
        }
        datatype.handles.set(datatype.handles.get() - 1);
        Ok(datatype)
    }

    /// The number of a derived datatype stays valid until [`Datatypes::unpin`], even if [`Datatypes::remove`] comes before:
    /// a function of the program has it.
    pub fn pin(&mut self, handle: i32) {
        match self.pinned.iter_mut().find(|pinned| pinned.handle == handle) {
            Some(pinned) => pinned.times += 1,
            None => self.pinned.push(Pinned {
                handle,
                times: 1,
                freed: false,
            }),
        }
    }

    /// Ends one [`Datatypes::pin`].
    pub fn unpin(&mut self, handle: i32) {
        let Some(at) = self.pinned.iter().position(|pinned| pinned.handle == handle) else {
            return;
        };
        self.pinned[at].times -= 1;
        if self.pinned[at].times == 0 && self.pinned.swap_remove(at).freed {
            self.derived.remove((handle & KEY) as u32);
        }
    }
}

#[cold]
fn uncommitted(handle: i32) -> Error {
    let text = format!("the datatype {handle:#x} is not committed: call MPI_Type_commit first");
    Error::new(Class::Type, text)
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

    #[test]
    fn a_number_that_a_function_has_is_freed_behind_it() {
        let mut types = Datatypes::default();
        let int = types.get(0x4c00_0405).unwrap().clone();
        let handle = types.insert(Rc::new(Datatype::contiguous(2, &int).unwrap())).unwrap();
        types.pin(handle);
        types.pin(handle);
        let freed = types.remove(handle).unwrap();
        assert_eq!(freed.handles.get(), 0);
        assert_eq!(
            types.remove(handle).unwrap_err().class(),
            Class::Type,
            "it is freed once"
        );
        types.unpin(handle);
        assert_eq!(types.get(handle).unwrap().size(), 8);
        types.unpin(handle);
        assert!(types.get(handle).is_err() && types.made() == 0);
    }

    #[test]
    fn a_fortran_kind_keeps_its_number_and_stays() {
        let mut types = Datatypes::default();
        let double = types.get(0x4c00_080b).unwrap().clone();
        let kind = types.parameterized(Combiner::F90Real, &[15, 300], &double).unwrap();
        assert_eq!(
            types.parameterized(Combiner::F90Real, &[15, 300], &double).unwrap(),
            kind
        );
        assert_ne!(
            types.parameterized(Combiner::F90Real, &[15, 301], &double).unwrap(),
            kind
        );
        assert_eq!(types.remove(kind).unwrap_err().class(), Class::Type);
        assert!(types.committed(kind).is_ok());
        assert_eq!(types.get(kind).unwrap().basic(), double.basic());
    }
}
