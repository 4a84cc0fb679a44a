//! # Safety
//! Hands the application's buffers on: relies on its pointers, counts and datatypes.
//!
//! Reading and writing files (MPI-4.1 §14.4.2 to §14.4.5).
#![allow(unsafe_code)]

use super::edge::*;
use super::file::on_file;
use super::pt2pt::{buffer, store_request};
use super::status::store_status;
use super::types::*;
use crate::mpi::io::pointer::{Place, Split, Way};
use crate::mpi::io::transfer::Data;
use crate::mpi::world::State;
use std::ffi::{c_int, c_void};

/// A buffer of the application in the order of the C functions: address, count, datatype.
type Triple = (*mut c_void, i64, MPI_Datatype);

/// What an operation reads or writes.
fn data(state: &State, (address, count, datatype): Triple) -> Result<Data> {
    let count = self::count(count, "count")?;
    buffer(state, address, count, datatype)?;
    Ok(Data::new(address.cast(), count, state.datatypes.committed(datatype)?))
}

/// Does an operation.
fn now(name: &'static str, fh: MPI_File, way: Way, place: Place, buf: Triple, status: *mut MPI_Status) -> c_int {
    on_file(name, fh, |hold, file| {
        let data = data(hold, buf);
        let done = file.access(hold, way, place, data)?;
        store_status(status, &done)
    })
}

/// Does an operation, and gives a request for it that is over.
fn start(name: &'static str, fh: MPI_File, way: Way, place: Place, buf: Triple, request: *mut MPI_Request) -> c_int {
    on_file(name, fh, |hold, file| {
        load(request, "request")?;
        let data = data(hold, buf);
        let key = file.start(hold, way, place, data)?;
        store_request(request, key)
    })
}

/// Begins a split collective operation.
fn begin(name: &'static str, fh: MPI_File, way: Way, place: Place, buf: Triple) -> c_int {
    on_file(name, fh, |hold, file| {
        let data = data(hold, buf);
        file.begin(hold, way, place, data)
    })
}

/// Makes functions that read or write: the argument that says where, if there is one; what is done, and what that gives; which
/// way, and where.
macro_rules! accesses {
    ($(
        $name:ident($($offset:ident: $type:ty)?) $does:ident($($out:ident: $given:ty)?) = $way:ident, $place:expr;
    )*) => {$(
        #[doc = concat!("Accesses a file: `", stringify!($way), "`, `", stringify!($place), "`. MPI-4.1 §14.4.")]
        #[apply(mpi_function_c!)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            fh: MPI_File,
            $($offset: $type,)?
            buf: *mut c_void,
            count: Count,
            datatype: MPI_Datatype,
            $($out: *mut $given,)?
        ) -> c_int {
            $does(stringify!($name), fh, Way::$way, $place, (buf, i64::from(count), datatype) $(, $out)?)
        }
    )*};
}

accesses! {
    MPI_File_read_at(offset: MPI_Offset) now(status: MPI_Status) = Read, Place::At(offset);
    MPI_File_read_at_all(offset: MPI_Offset) now(status: MPI_Status) = Read, Place::At(offset);
    MPI_File_read() now(status: MPI_Status) = Read, Place::Own;
    MPI_File_read_all() now(status: MPI_Status) = Read, Place::Own;
    MPI_File_read_shared() now(status: MPI_Status) = Read, Place::Shared;
    MPI_File_read_ordered() now(status: MPI_Status) = Read, Place::Ordered;
    MPI_File_write_at(offset: MPI_Offset) now(status: MPI_Status) = Write, Place::At(offset);
    MPI_File_write_at_all(offset: MPI_Offset) now(status: MPI_Status) = Write, Place::At(offset);
    MPI_File_write() now(status: MPI_Status) = Write, Place::Own;
    MPI_File_write_all() now(status: MPI_Status) = Write, Place::Own;
    MPI_File_write_shared() now(status: MPI_Status) = Write, Place::Shared;
    MPI_File_write_ordered() now(status: MPI_Status) = Write, Place::Ordered;

    MPI_File_iread_at(offset: MPI_Offset) start(request: MPI_Request) = Read, Place::At(offset);
    MPI_File_iread_at_all(offset: MPI_Offset) start(request: MPI_Request) = Read, Place::At(offset);
    MPI_File_iread() start(request: MPI_Request) = Read, Place::Own;
    MPI_File_iread_all() start(request: MPI_Request) = Read, Place::Own;
    MPI_File_iread_shared() start(request: MPI_Request) = Read, Place::Shared;
    MPI_File_iwrite_at(offset: MPI_Offset) start(request: MPI_Request) = Write, Place::At(offset);
    MPI_File_iwrite_at_all(offset: MPI_Offset) start(request: MPI_Request) = Write, Place::At(offset);
    MPI_File_iwrite() start(request: MPI_Request) = Write, Place::Own;
    MPI_File_iwrite_all() start(request: MPI_Request) = Write, Place::Own;
    MPI_File_iwrite_shared() start(request: MPI_Request) = Write, Place::Shared;

    MPI_File_read_at_all_begin(offset: MPI_Offset) begin() = Read, Place::At(offset);
    MPI_File_read_all_begin() begin() = Read, Place::Own;
    MPI_File_read_ordered_begin() begin() = Read, Place::Ordered;
    MPI_File_write_at_all_begin(offset: MPI_Offset) begin() = Write, Place::At(offset);
    MPI_File_write_all_begin() begin() = Write, Place::Own;
    MPI_File_write_ordered_begin() begin() = Write, Place::Ordered;
}

/// Ends of split collective operations.
macro_rules! ended {
    ($($name:ident = $way:ident, $kind:literal;)*) => {$(
        /// Ends a split collective operation. MPI-4.1 §14.4.5.
        #[apply(mpi_function!)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fh: MPI_File, buf: *mut c_void, status: *mut MPI_Status) -> c_int {
            let _ = buf;
            on_file(stringify!($name), fh, |_, file| {
                let done = file.end(Split { way: Way::$way, kind: $kind })?;
                store_status(status, &done)
            })
        }
    )*};
}

ended! {
    MPI_File_read_at_all_end = Read, "at_all";
    MPI_File_read_all_end = Read, "all";
    MPI_File_read_ordered_end = Read, "ordered";
    MPI_File_write_at_all_end = Write, "at_all";
    MPI_File_write_all_end = Write, "all";
    MPI_File_write_ordered_end = Write, "ordered";
}
