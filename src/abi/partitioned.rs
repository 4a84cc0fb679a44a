//! # Safety
//! Hands the application's buffers on: relies on its pointers, counts and datatypes.
//!
//! Partitioned communication (MPI-4.1 §4.2).
#![allow(unsafe_code)]

use super::completion::poll;
use super::constants::*;
use super::edge::*;
use super::handle::Object;
use super::info::check_info;
use super::pt2pt::*;
use super::request::key_of;
use super::timing;
use super::types::*;
use crate::fail;
use crate::mpi::pt2pt::engine::CAREFUL;
use crate::mpi::pt2pt::partitioned::{self, Partitions};
use crate::mpi::pt2pt::persistent;
use crate::mpi::world::State;
use std::ffi::{c_int, c_void};

/// The buffer that the program describes.
fn partitions(
    state: &State,
    buf: *const c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
) -> Result<Partitions> {
    if partitions < 0 {
        fail!(Arg, "partitions is {partitions} but must not be negative");
    }
    let (number, count) = (partitions as usize, self::count(count, "count")?);
    // Checks the address and the type.
    buffer(state, buf, count, datatype)?;
    Ok(Partitions {
        address: buf.cast_mut().cast(),
        number,
        count,
        datatype: state.datatypes.committed(datatype)?.clone(),
    })
}

/// Makes a partitioned send. MPI-4.1 §4.2.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Psend_init(
    buf: *const c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    dest: c_int,
    tag: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    on_comm("MPI_Psend_init", comm, |hold, comm| {
        let to = self::dest(comm, dest)?;
        send_tag(tag)?;
        load(request, "request")?;
        check_info(info)?;
        let partitions = self::partitions(hold, buf, partitions, count, datatype)?;
        let operation = partitioned::send_init(hold, comm, partitions, to, tag)?;
        store_request(request, persistent::create(hold, operation)?)
    })
}

/// Makes a partitioned receive. MPI-4.1 §4.2.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Precv_init(
    buf: *mut c_void,
    partitions: c_int,
    count: MPI_Count,
    datatype: MPI_Datatype,
    source: c_int,
    tag: c_int,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
) -> c_int {
    on_comm("MPI_Precv_init", comm, |hold, comm| {
        // No wildcards here.
        let from = self::dest(comm, source)?;
        send_tag(tag)?;
        load(request, "request")?;
        check_info(info)?;
        let partitions = self::partitions(hold, buf, partitions, count, datatype)?;
        let operation = partitioned::recv_init(hold, comm, partitions, from, tag)?;
        store_request(request, persistent::create(hold, operation)?)
    })
}

fn number(partition: c_int) -> Result<usize> {
    match usize::try_from(partition) {
        Ok(number) => Ok(number),
        Err(_) => fail!(Arg, "partition is {partition} but must not be negative"),
    }
}

/// The short way of MPI_Pready: one more of the partitions that wait for others. False, and nothing done, for anything else.
#[inline(always)]
fn short(partition: c_int, request: MPI_Request) -> bool {
    let Some(world) = current_world() else { return false };
    let mut hold = world.hold();
    let held = hold.engine.detours & CAREFUL == 0
        && Object::Request
            .key_of(request)
            .is_some_and(|key| partitioned::hold_another(&hold, key, partition as u32 as usize));
    if held {
        timing::count(&mut hold, None);
    }
    held
}

/// Says that a partition may be sent. MPI-4.1 §4.2.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Pready(partition: c_int, request: MPI_Request) -> c_int {
    if short(partition, request) {
        return MPI_SUCCESS;
    }
    on_world("MPI_Pready", |hold| {
        let key = key_of(hold, request)?;
        partitioned::ready(hold, key, std::iter::once(number(partition)?))
    })
}

/// Says that partitions in a row may be sent. MPI-4.1 §4.2.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Pready_range(partition_low: c_int, partition_high: c_int, request: MPI_Request) -> c_int {
    on_world("MPI_Pready_range", |hold| {
        let key = key_of(hold, request)?;
        let (first, last) = (number(partition_low)?, number(partition_high)?);
        if first > last {
            fail!(
                Arg,
                "partition_low is {first}, which is more than partition_high, {last}"
            );
        }
        partitioned::ready(hold, key, first..=last)
    })
}

/// Says that the partitions of a list may be sent. MPI-4.1 §4.2.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Pready_list(
    length: c_int,
    array_of_partitions: *const c_int,
    request: MPI_Request,
) -> c_int {
    on_world("MPI_Pready_list", |hold| {
        let key = key_of(hold, request)?;
        let length = count(length, "length")?;
        let list = slice(array_of_partitions, length, "array_of_partitions")?;
        let list: Vec<usize> = list.iter().map(|&one| number(one)).collect::<Result<_>>()?;
        partitioned::ready(hold, key, list.into_iter())
    })
}

/// Whether a partition has arrived. MPI-4.1 §4.2.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Parrived(request: MPI_Request, partition: c_int, flag: *mut c_int) -> c_int {
    on_world("MPI_Parrived", |hold| {
        load(flag, "flag")?;
        if request == MPI_REQUEST_NULL {
            return store(flag, "flag", 1);
        }
        let (key, partition) = (key_of(hold, request)?, number(partition)?);
        partitioned::arrived(hold, key, partition)?;
        poll(hold, |hold| partitioned::arrived(hold, key, partition).unwrap_or(true))?;
        store(flag, "flag", partitioned::arrived(hold, key, partition)? as c_int)
    })
}
