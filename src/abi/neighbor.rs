//! # Safety
//! Hands the program's buffers on: relies on the sizes that its counts, displacements and datatypes
//! give them.
//!
//! Neighbourhood collectives (MPI-4.1 §8.6 to §8.8).
#![allow(unsafe_code)]

use super::coll::{forms, keep, run, short_way, start};
use super::coll_args::*;
use super::edge::*;
use super::types::*;
use crate::mpi::coll::call::Task;
use crate::mpi::coll::neighbor::{Neighbors, Outgoing};
use crate::mpi::traffic::Gift;
use std::ffi::{c_int, c_void};

/// Operations with a `_c` form.
macro_rules! counted {
    ($($rest:tt)*) => { forms! { mpi_function_c: $($rest)* } };
}

counted! {
    MPI_Neighbor_allgather, MPI_Ineighbor_allgather, MPI_Neighbor_allgather_init, "§8.6.1",
    (
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype
    ) => |hold, comm| {
        let around = Neighbors::of(comm)?;
        let send = data(hold, (sendbuf, sendcount.into(), sendtype), "sendbuf")?;
        let recv = blocks(hold, (recvbuf, recvcount.into(), recvtype), RECV)?;
        hold.note(|| same(&around, send.len()));
        Ok(Task::Neighbor(around, Outgoing::Same(send), recv))
    };

    MPI_Neighbor_allgatherv, MPI_Ineighbor_allgatherv, MPI_Neighbor_allgatherv_init, "§8.6.1",
    (
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Displ, recvtype: MPI_Datatype
    ) => |hold, comm| {
        let around = Neighbors::of(comm)?;
        let send = data(hold, (sendbuf, sendcount.into(), sendtype), "sendbuf")?;
        let recv = varying(hold, around.sources, recvbuf, recvcounts, displs, recvtype, RECV)?;
        hold.note(|| same(&around, send.len()));
        Ok(Task::Neighbor(around, Outgoing::Same(send), recv))
    };

    MPI_Neighbor_alltoall, MPI_Ineighbor_alltoall, MPI_Neighbor_alltoall_init, "§8.6.2",
    (
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype
    ) => |hold, comm| {
        let around = Neighbors::of(comm)?;
        let send = blocks(hold, (sendbuf, sendcount.into(), sendtype), SEND)?;
        let recv = blocks(hold, (recvbuf, recvcount.into(), recvtype), RECV)?;
        hold.note(|| Gift::blocks(&send, around.destinations.iter().copied()));
        Ok(Task::Neighbor(around, Outgoing::Blocks(send), recv))
    };

    MPI_Neighbor_alltoallv, MPI_Ineighbor_alltoallv, MPI_Neighbor_alltoallv_init, "§8.6.2",
    (
        sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Displ, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Displ, recvtype: MPI_Datatype
    ) => |hold, comm| {
        let around = Neighbors::of(comm)?;
        let (to, from) = (around.destinations.len() as u32, around.sources);
        let send = varying(hold, to, sendbuf, sendcounts, sdispls, sendtype, SEND)?;
        let recv = varying(hold, from, recvbuf, recvcounts, rdispls, recvtype, RECV)?;
        hold.note(|| Gift::blocks(&send, around.destinations.iter().copied()));
        Ok(Task::Neighbor(around, Outgoing::Blocks(send), recv))
    };

    MPI_Neighbor_alltoallw, MPI_Ineighbor_alltoallw, MPI_Neighbor_alltoallw_init, "§8.6.2",
    (
        sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const MPI_Aint, sendtypes: *const MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const MPI_Aint, recvtypes: *const MPI_Datatype
    ) => |hold, comm| {
        let around = Neighbors::of(comm)?;
        let (to, from) = (around.destinations.len() as u32, around.sources);
        let send = each(hold, to, sendbuf, sendcounts, sdispls, sendtypes, SEND)?;
        let recv = each(hold, from, recvbuf, recvcounts, rdispls, recvtypes, RECV)?;
        hold.note(|| Gift::blocks(&send, around.destinations.iter().copied()));
        Ok(Task::Neighbor(around, Outgoing::Blocks(send), recv))
    };
}

/// The same to all neighbours.
fn same(around: &Neighbors, bytes: usize) -> Gift {
    let ranks = around.destinations.iter().filter_map(|&to| u32::try_from(to).ok());
    Gift::Each(ranks.map(|to| (to, bytes)).collect())
}
