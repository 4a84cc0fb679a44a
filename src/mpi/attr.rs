//! Attributes: values that a program or library caches on communicators, datatypes and windows
//! under keys of its own (MPI-4.1 §7.7). Which call-backs run when is decided here; the C edge
//! hands in how to call them.

use super::error::Result;
use super::table::Table;
use crate::fail;
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// The program's copy call-back: object handle, key, extra state, value, new value, flag.
pub type CopyFunction = unsafe extern "C" fn(c_int, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// The program's delete call-back: object handle, key, value, extra state.
pub type DeleteFunction = unsafe extern "C" fn(c_int, c_int, *mut c_void, *mut c_void) -> c_int;
/// What another language's library puts before a copy call-back, to pass the value in its own way.
pub type CopyProxy = unsafe extern "C" fn(
    Option<CopyFunction>,
    c_int,
    c_int,
    *mut c_void,
    c_int,
    *mut c_void,
    *mut *mut c_void,
    *mut c_int,
) -> c_int;
/// The same for a delete call-back.
pub type DeleteProxy =
    unsafe extern "C" fn(Option<DeleteFunction>, c_int, c_int, c_int, *mut c_void, *mut c_void) -> c_int;

/// What kind of object a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Communicators.
    Comm,
    /// Datatypes.
    Datatype,
    /// Windows.
    Win,
}

/// A key and what the program wants to happen to values under it. It and its handle live as long as a value does,
/// though the program may have freed it before (MPI-4.1 §7.7.2).
pub struct Keyval {
    /// Its handle.
    pub handle: c_int,
    /// What it is for.
    pub owner: Owner,
    /// Decides what a duplicate gets; without one it gets nothing.
    pub copy: Option<CopyFunction>,
    /// Hears of removed values.
    pub delete: Option<DeleteFunction>,
    /// The program's own argument to both.
    pub extra_state: *mut c_void,
    /// Set by the Fortran and C++ libraries.
    pub proxies: Cell<Option<(CopyProxy, DeleteProxy)>>,
    /// The program has freed it.
    pub freed: Cell<bool>,
}

/// How a value was given (MPI-4.1 §19.3.7); the numbers are those of MPICH's `MPIR_Attr_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Form {
    /// A C pointer.
    Pointer = 0,
    /// An address-sized integer of Fortran.
    Aint = 1,
    /// A default integer of Fortran.
    Int = 3,
}

impl Form {
    /// The form with MPICH's number.
    ///
    /// # Errors
    /// `Arg`: there is none.
    pub fn new(number: c_int) -> Result<Form> {
        match number {
            0 => Ok(Form::Pointer),
            1 => Ok(Form::Aint),
            3 => Ok(Form::Int),
            _ => fail!(Arg, "{number} is not a kind of attribute value"),
        }
    }
}

/// A value under a key.
#[derive(Clone)]
pub struct Attribute {
    /// The key.
    pub keyval: Rc<Keyval>,
    /// How the value was given.
    pub form: Form,
    /// The value: at an address that stays, because C reads Fortran's integers through a pointer.
    pub value: Rc<Cell<usize>>,
}

impl Attribute {
    /// A value under `keyval`.
    pub fn new(keyval: Rc<Keyval>, form: Form, value: usize) -> Attribute {
        let value = Rc::new(Cell::new(value));
        Attribute { keyval, form, value }
    }

    /// What a caller that wants `form` is given: Fortran's integer by its address if it is C that asks.
    pub fn read(&self, form: Form) -> usize {
        match (form, self.form) {
            (Form::Pointer, Form::Aint | Form::Int) => self.value.as_ptr() as usize,
            _ => self.value.get(),
        }
    }
}

/// The attributes of one object, in the order their keys were first set.
#[derive(Default)]
pub struct Attributes(RefCell<Vec<Attribute>>);

impl Attributes {
    /// The value under the key with this handle.
    pub fn get(&self, keyval: &Rc<Keyval>) -> Option<Attribute> {
        let attributes = self.0.borrow();
        attributes
            .iter()
            .find(|known| Rc::ptr_eq(&known.keyval, keyval))
            .cloned()
    }

    /// Sets the value under its key. An earlier one is replaced: the caller has told its delete
    /// call-back already.
    pub fn set(&self, attribute: Attribute) {
        let mut attributes = self.0.borrow_mut();
        match attributes
            .iter_mut()
            .find(|known| Rc::ptr_eq(&known.keyval, &attribute.keyval))
        {
            Some(known) => *known = attribute,
            None => attributes.push(attribute),
        }
    }

    /// Removes the value under a key.
    pub fn remove(&self, keyval: &Rc<Keyval>) {
        self.0.borrow_mut().retain(|known| !Rc::ptr_eq(&known.keyval, keyval));
    }

    /// The value that was set last: the first to be deleted with its object.
    pub fn last(&self) -> Option<Attribute> {
        self.0.borrow().last().cloned()
    }

    /// A copy of the list, to call back from while the program may change the original.
    pub fn to_vec(&self) -> Vec<Attribute> {
        self.0.borrow().clone()
    }
}

impl std::fmt::Debug for Attributes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let attributes = self.0.borrow();
        let entries = attributes.iter();
        f.debug_map()
            .entries(entries.map(|attribute| (attribute.keyval.handle, attribute.value.get())))
            .finish()
    }
}

/// Every key that is not freed, by handle key.
pub type Keyvals = Table<Rc<Keyval>>;

#[cfg(test)]
mod tests {
    use super::*;

    fn keyval(handle: c_int) -> Rc<Keyval> {
        Rc::new(Keyval {
            handle,
            owner: Owner::Comm,
            copy: None,
            delete: None,
            extra_state: std::ptr::null_mut(),
            proxies: Cell::new(None),
            freed: Cell::new(false),
        })
    }

    #[test]
    fn values_are_found_by_key_and_end_last_first() {
        let (one, two) = (keyval(1), keyval(2));
        let attributes = Attributes::default();
        attributes.set(Attribute::new(one.clone(), Form::Pointer, 10));
        attributes.set(Attribute::new(two.clone(), Form::Pointer, 20));
        attributes.set(Attribute::new(one.clone(), Form::Pointer, 11));
        assert_eq!(attributes.get(&one).unwrap().read(Form::Pointer), 11);
        assert_eq!(attributes.last().unwrap().keyval.handle, 2);
        attributes.remove(&two);
        assert!(attributes.get(&two).is_none());
        assert_eq!(attributes.last().unwrap().keyval.handle, 1);
    }

    #[test]
    fn c_gets_the_address_of_what_fortran_set() {
        let attribute = Attribute::new(keyval(1), Form::Int, 42);
        let address = attribute.read(Form::Pointer);
        assert_eq!(address, attribute.value.as_ptr() as usize);
        assert_eq!(attribute.read(Form::Int), 42);
        let attribute = Attribute::new(keyval(1), Form::Pointer, 0x1000);
        assert_eq!(attribute.read(Form::Int), 0x1000);
    }
}
