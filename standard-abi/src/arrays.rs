//! Arrays of handles, and the functions that are given arrays of requests.

use crate::status::{IGNORE, MpichStatus, Status, StatusSlot};
use crate::values::*;
use crate::{Pointer, apply, call, translation};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::{null_mut, without_provenance_mut};

/// How many values take no memory from the heap.
const FEW: usize = 128;

/// Room for some values during a call.
struct Room<T> {
    few: [MaybeUninit<T>; FEW],
    many: Vec<MaybeUninit<T>>,
    count: usize,
}

impl<T: Copy> Room<T> {
    fn new(value: T, count: usize) -> Room<T> {
        let mut room = Room {
            few: [const { MaybeUninit::uninit() }; FEW],
            many: Vec::with_capacity(if count > FEW { count } else { 0 }),
            count,
        };
        match room.few.get_mut(..count) {
            Some(few) => few.fill(MaybeUninit::new(value)),
            None => room.many.resize(count, MaybeUninit::new(value)),
        }
        room
    }

    fn all(&mut self) -> &mut [T] {
        let all = match self.few.get_mut(..self.count) {
            Some(few) => few,
            None => &mut self.many[..],
        };
        // SAFETY: `new` has given all of these a value.
        unsafe { &mut *(all as *mut [MaybeUninit<T>] as *mut [T]) }
    }
}

/// The program's handles, and MPICH's in their place during a call.
pub struct Handles {
    at: *mut Handle,
    own: Room<c_int>,
}

impl Handles {
    /// Reads `count` handles.
    ///
    /// # Safety
    /// `at` is a null pointer, or leads to that many.
    pub unsafe fn read(at: *mut Handle, count: impl TryInto<usize>) -> Handles {
        let count = if at.is_null() { 0 } else { count.try_into().unwrap_or(0) };
        let mut own = Room::new(0, count);
        for (index, value) in own.all().iter_mut().enumerate() {
            // SAFETY: as above.
            *value = mpich(unsafe { *at.add(index) });
        }
        Handles { at, own }
    }

    /// What the function is given.
    pub fn pointer(&mut self) -> *mut c_int {
        if self.at.is_null() {
            null_mut()
        } else {
            self.own.all().as_mut_ptr()
        }
    }

    /// Gives the program what the function has left: the same, or null handles. What was no handle stays.
    ///
    /// # Safety
    /// As for [`Handles::read`].
    unsafe fn give(&mut self) {
        for (index, &value) in self.own.all().iter().enumerate() {
            if value != 0 {
                // SAFETY: as above.
                unsafe { *self.at.add(index) = standard(value) };
            }
        }
    }
}

/// The program's statuses, and MPICH's in their place during a call.
struct Statuses {
    at: *mut Status,
    own: Room<MpichStatus>,
}

impl Statuses {
    /// For `count` statuses that the function fills.
    fn empty(at: *mut Status, count: c_int) -> Statuses {
        let count = if at.is_null() {
            0
        } else {
            usize::try_from(count).unwrap_or(0)
        };
        Statuses {
            at,
            own: Room::new(MpichStatus::EMPTY, count),
        }
    }

    /// What the function is given.
    fn pointer(&mut self) -> *mut MpichStatus {
        if self.at.is_null() {
            without_provenance_mut(IGNORE)
        } else {
            self.own.all().as_mut_ptr()
        }
    }

    /// Gives the program the first `count`.
    ///
    /// # Safety
    /// `at` is a null pointer, or leads to as many statuses as were asked for.
    unsafe fn give(&mut self, count: usize) {
        for (index, value) in self.own.all().iter().enumerate().take(count) {
            // SAFETY: as above.
            unsafe { &mut *self.at.add(index) }.take_set(value);
        }
    }
}

#[apply(translation!)]
pub unsafe extern "C" fn MPI_Waitall(
    count: c_int,
    array_of_requests: *mut Handle,
    array_of_statuses: *mut Status,
) -> c_int {
    let mut requests = Handles::read(array_of_requests, count);
    let mut statuses = Statuses::empty(array_of_statuses, count);
    let wait = call!(MPI_Waitall: fn(c_int, *mut c_int, *mut MpichStatus) -> c_int);
    let code = standard_code(wait(count, requests.pointer(), statuses.pointer()));
    requests.give();
    statuses.give(usize::MAX);
    code
}

/// Makes the functions that look whether all requests are complete, and free them or not.
macro_rules! all {
    ($($name:ident $frees:literal)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $name(
            count: c_int, array_of_requests: *mut Handle, flag: *mut c_int, array_of_statuses: *mut Status,
        ) -> c_int {
            let mut requests = Handles::read(array_of_requests, count);
            let mut statuses = Statuses::empty(array_of_statuses, count);
            let test = call!($name: fn(c_int, *mut c_int, *mut c_int, *mut MpichStatus) -> c_int);
            let code = test(count, requests.pointer(), flag, statuses.pointer());
            if $frees {
                requests.give();
            }
            if code != 0 || *flag != 0 {
                statuses.give(usize::MAX);
            }
            standard_code(code)
        }
    )*};
}
all! { MPI_Testall true MPI_Request_get_status_all false }

#[apply(translation!)]
pub unsafe extern "C" fn MPI_Waitany(
    count: c_int,
    array_of_requests: *mut Handle,
    indx: *mut c_int,
    status: *mut Status,
) -> c_int {
    let mut requests = Handles::read(array_of_requests, count);
    let mut status = StatusSlot::empty(status);
    let wait = call!(MPI_Waitany: fn(c_int, *mut c_int, *mut c_int, *mut MpichStatus) -> c_int);
    let code = wait(count, requests.pointer(), indx, status.pointer());
    requests.give();
    status.give();
    standard_code(code)
}

/// Makes the functions that look for any request that is complete, and free it or not.
macro_rules! any {
    ($($name:ident $frees:literal)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $name(
            count: c_int, array_of_requests: *mut Handle, indx: *mut c_int, flag: *mut c_int, status: *mut Status,
        ) -> c_int {
            let mut requests = Handles::read(array_of_requests, count);
            let mut status = StatusSlot::empty(status);
            let test = call!($name: fn(c_int, *mut c_int, *mut c_int, *mut c_int, *mut MpichStatus) -> c_int);
            let code = test(count, requests.pointer(), indx, flag, status.pointer());
            if $frees {
                requests.give();
            }
            status.give();
            standard_code(code)
        }
    )*};
}
any! { MPI_Testany true MPI_Request_get_status_any false }

/// Makes the functions that name all requests that are complete, and free them or not.
macro_rules! some {
    ($($name:ident $frees:literal)*) => {$(
        #[apply(translation!)]
        pub unsafe extern "C" fn $name(
            incount: c_int, array_of_requests: *mut Handle, outcount: *mut c_int, array_of_indices: *mut c_int,
            array_of_statuses: *mut Status,
        ) -> c_int {
            let mut requests = Handles::read(array_of_requests, incount);
            let mut statuses = Statuses::empty(array_of_statuses, incount);
            let some = call!($name: fn(c_int, *mut c_int, *mut c_int, *mut c_int, *mut MpichStatus) -> c_int);
            let mut found = outcount.as_ref().copied().unwrap_or(0);
            let place = if outcount.is_null() { outcount } else { &raw mut found };
            let code = standard_code(some(incount, requests.pointer(), place, array_of_indices, statuses.pointer()));
            if !outcount.is_null() {
                *outcount = found;
            }
            if $frees {
                requests.give();
            }
            statuses.give(usize::try_from(found).unwrap_or(0));
            code
        }
    )*};
}
some! { MPI_Waitsome true MPI_Testsome true MPI_Request_get_status_some false }

#[apply(translation!)]
pub unsafe extern "C" fn MPI_Startall(count: c_int, array_of_requests: *mut Handle) -> c_int {
    let mut requests = Handles::read(array_of_requests, count);
    let code = call!(MPI_Startall: fn(c_int, *mut c_int) -> c_int)(count, requests.pointer());
    requests.give();
    standard_code(code)
}

/// How many blocks an exchange on `comm` sends from `sendbuf` and receives; none if it serves for none, which the function says. In
/// place, what is said of the blocks to send counts for nothing and need not be there.
pub fn blocks(comm: Handle, with_neighbors: bool, sendbuf: Pointer) -> (usize, usize) {
    let (mut sends, mut receives) = (0, 0);
    let ask = call!(nearmpi_blocks: fn(c_int, c_int, *mut c_int, *mut c_int) -> ());
    // SAFETY: it sets two numbers.
    unsafe { ask(mpich(comm), with_neighbors.into(), &raw mut sends, &raw mut receives) };
    let is_in_place = sendbuf.addr() == number::MPI_IN_PLACE;
    (if is_in_place { 0 } else { sends as usize }, receives as usize)
}
