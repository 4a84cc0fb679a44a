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
fn begin(name: &'static str, fh: MPI_File, split: Split, place: Place, buf: Triple) -> c_int {
    on_file(name, fh, |hold, file| {
        let data = data(hold, buf);
        file.begin(hold, split, place, data)
    })
}

/// Operations at an offset.
macro_rules! at_offset {
    ($($name:ident = $way:ident;)*) => {$(
        /// Reads or writes at an offset. MPI-4.1 §14.4.2.
        #[apply(mpi_function_c!)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            fh: MPI_File,
            offset: MPI_Offset,
            buf: *mut c_void,
            count: Count,
            datatype: MPI_Datatype,
            status: *mut MPI_Status,
        ) -> c_int {
            let buf = (buf, i64::from(count), datatype);
            now(stringify!($name), fh, Way::$way, Place::At(offset), buf, status)
        }
    )*};
}

at_offset! {
    MPI_File_read_at = Read;
    MPI_File_read_at_all = Read;
    MPI_File_write_at = Write;
    MPI_File_write_at_all = Write;
}

/// Operations at a file pointer.
macro_rules! at_pointer {
    ($($name:ident = $way:ident, $place:ident;)*) => {$(
        /// Reads or writes at a file pointer. MPI-4.1 §14.4.3, §14.4.4.
        #[apply(mpi_function_c!)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            fh: MPI_File,
            buf: *mut c_void,
            count: Count,
            datatype: MPI_Datatype,
            status: *mut MPI_Status,
        ) -> c_int {
            let buf = (buf, i64::from(count), datatype);
            now(stringify!($name), fh, Way::$way, Place::$place, buf, status)
        }
    )*};
}

at_pointer! {
    MPI_File_read = Read, Own;
    MPI_File_read_all = Read, Own;
    MPI_File_read_shared = Read, Shared;
    MPI_File_read_ordered = Read, Ordered;
    MPI_File_write = Write, Own;
    MPI_File_write_all = Write, Own;
    MPI_File_write_shared = Write, Shared;
    MPI_File_write_ordered = Write, Ordered;
}

/// Nonblocking operations at an offset.
macro_rules! started_at_offset {
    ($($name:ident = $way:ident;)*) => {$(
        /// Reads or writes at an offset, for a request. MPI-4.1 §14.4.2.
        #[apply(mpi_function_c!)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            fh: MPI_File,
            offset: MPI_Offset,
            buf: *mut c_void,
            count: Count,
            datatype: MPI_Datatype,
            request: *mut MPI_Request,
        ) -> c_int {
            let buf = (buf, i64::from(count), datatype);
            start(stringify!($name), fh, Way::$way, Place::At(offset), buf, request)
        }
    )*};
}

started_at_offset! {
    MPI_File_iread_at = Read;
    MPI_File_iread_at_all = Read;
    MPI_File_iwrite_at = Write;
    MPI_File_iwrite_at_all = Write;
}

/// Nonblocking operations at a file pointer.
macro_rules! started_at_pointer {
    ($($name:ident = $way:ident, $place:ident;)*) => {$(
        /// Reads or writes at a file pointer, for a request. MPI-4.1 §14.4.3, §14.4.4.
        #[apply(mpi_function_c!)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            fh: MPI_File,
            buf: *mut c_void,
            count: Count,
            datatype: MPI_Datatype,
            request: *mut MPI_Request,
        ) -> c_int {
            let buf = (buf, i64::from(count), datatype);
            start(stringify!($name), fh, Way::$way, Place::$place, buf, request)
        }
    )*};
}

started_at_pointer! {
    MPI_File_iread = Read, Own;
    MPI_File_iread_all = Read, Own;
    MPI_File_iread_shared = Read, Shared;
    MPI_File_iwrite = Write, Own;
    MPI_File_iwrite_all = Write, Own;
    MPI_File_iwrite_shared = Write, Shared;
}

/// Beginnings of split collective operations at an offset.
macro_rules! begun_at_offset {
    ($($name:ident = $way:ident, $kind:literal;)*) => {$(
        /// Begins to read or write at an offset. MPI-4.1 §14.4.5.
        #[apply(mpi_function_c!)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            fh: MPI_File,
            offset: MPI_Offset,
            buf: *mut c_void,
            count: Count,
            datatype: MPI_Datatype,
        ) -> c_int {
            let split = Split { way: Way::$way, kind: $kind };
            begin(stringify!($name), fh, split, Place::At(offset), (buf, i64::from(count), datatype))
        }
    )*};
}

begun_at_offset! {
    MPI_File_read_at_all_begin = Read, "at_all";
    MPI_File_write_at_all_begin = Write, "at_all";
}

/// Beginnings of split collective operations at a file pointer.
macro_rules! begun_at_pointer {
    ($($name:ident = $way:ident, $place:ident, $kind:literal;)*) => {$(
        /// Begins to read or write at a file pointer. MPI-4.1 §14.4.5.
        #[apply(mpi_function_c!)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            fh: MPI_File,
            buf: *mut c_void,
            count: Count,
            datatype: MPI_Datatype,
        ) -> c_int {
            let split = Split { way: Way::$way, kind: $kind };
            begin(stringify!($name), fh, split, Place::$place, (buf, i64::from(count), datatype))
        }
    )*};
}

begun_at_pointer! {
    MPI_File_read_all_begin = Read, Own, "all";
    MPI_File_read_ordered_begin = Read, Ordered, "ordered";
    MPI_File_write_all_begin = Write, Own, "all";
    MPI_File_write_ordered_begin = Write, Ordered, "ordered";
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
