//! # Safety
//! Hands the program's buffers on: relies on the sizes that its counts, displacements and datatypes
//! give them.
//!
//! Collective communication (MPI-4.1 §6). Each operation has three forms that share their checks and
//! their plan: blocking, nonblocking (§6.12) and persistent (§6.13).
#![allow(unsafe_code)]

use super::coll_args::*;
use super::coll_short;
use super::constants::*;
use super::edge::*;
use super::info::check_info;
use super::op::op as find_op;
use super::types::*;
use crate::fail;
use crate::mpi::coll::args::check_own;
use crate::mpi::coll::board::started_short::{Begun, Nonblocking};
use crate::mpi::coll::call::{self, Task};
use crate::mpi::coll::machine::Element;
use crate::mpi::coll::plan::{Blocks, Data, Reduction, Root};
use crate::mpi::coll::short::{Blocking, Way};
use crate::mpi::coll::signature::Call;
use crate::mpi::comm::Comm;
use crate::mpi::pt2pt::{persistent, types};
use crate::mpi::traffic::Gift;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

/// Runs an operation to its end, unless it is over already (`None`).
#[inline]
pub fn run(
    name: &'static str,
    comm: MPI_Comm,
    task: impl FnOnce(&mut Hold, &Rc<Comm>) -> Result<Option<Task>>,
) -> c_int {
    on_comm(name, comm, |hold, comm| {
        let Some(task) = task(hold, comm)? else { return Ok(()) };
        hold.hand_out(comm, &hold.noted());
        call::perform(hold, comm, task)
    })
}

/// Starts an operation, unless it has begun by a short way.
#[inline]
pub fn start(
    name: &'static str,
    comm: MPI_Comm,
    request: *mut MPI_Request,
    short: impl FnOnce(&mut Hold, &Rc<Comm>) -> Option<Result<Begun>>,
    task: impl FnOnce(&mut Hold, &Rc<Comm>) -> Result<Task>,
) -> c_int {
    on_comm(name, comm, |hold, comm| {
        slice_mut(request, 1, "request")?;
        let key = match short(hold, comm) {
            Some(begun) => begun?.request(hold, comm, task)?,
            None => {
                let task = task(hold, comm)?;
                hold.hand_out(comm, &hold.noted());
                call::begin(hold, comm, task)?
            }
        };
        store(request, "request", Object::Request.handle(key))
    })
}

/// Keeps an operation as a persistent request.
pub fn keep(
    name: &'static str,
    comm: MPI_Comm,
    info: MPI_Info,
    request: *mut MPI_Request,
    task: impl FnOnce(&mut Hold, &Rc<Comm>) -> Result<Task>,
) -> c_int {
    on_comm(name, comm, |hold, comm| {
        slice_mut(request, 1, "request")?;
        check_info(info)?;
        let task = task(hold, comm)?;
        let gift = hold.noted();
        let kept = call::keep(hold, comm, task)?;
        let key = persistent::create(hold, persistent::Operation::Collective { kept, gift })?;
        store(request, "request", Object::Request.handle(key))
    })
}

/// The short way of a nonblocking operation, if it has one.
macro_rules! short_way {
    ($hold:ident, $comm:ident) => {
        |_, _| None
    };
    ($hold:ident, $comm:ident, $quick:expr) => {
        |$hold, $comm| {
            type How = Nonblocking;
            $quick
        }
    };
}

/// Defines the three forms of an operation from its arguments (without the communicator) and its plan; the blocking one and the
/// nonblocking one may have a `quick` way of the kind `How`, which says `None` where it is not for these arguments.
macro_rules! forms {
    ($apply:ident: $(
        $name:ident, $started:ident, $kept:ident, $section:literal,
        ($($arg:ident: $type:ty),*) => |$hold:ident, $comm:ident| $plan:expr $(, quick $quick:expr)?;
    )*) => {$(
        #[doc = concat!("Blocking collective operation. MPI-4.1 ", $section, ".")]
        #[apply($apply!)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type,)* comm: MPI_Comm) -> c_int {
            run(stringify!($name), comm, |$hold, $comm| {
                $(type How = Blocking;
                if let Some(outcome) = $quick {
                    return outcome.map(|()| None);
                })?
                ($plan).map(Some)
            })
        }

        #[doc = concat!("The nonblocking form of [`", stringify!($name), "`]. MPI-4.1 §6.12.")]
        #[apply($apply!)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $started($($arg: $type,)* comm: MPI_Comm, request: *mut MPI_Request) -> c_int {
            start(stringify!($started), comm, request, short_way!($hold, $comm $(, $quick)?), |$hold, $comm| $plan)
        }

        #[doc = concat!("The persistent form of [`", stringify!($name), "`]. MPI-4.1 §6.13.")]
        #[apply($apply!)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $kept(
            $($arg: $type,)* comm: MPI_Comm, info: MPI_Info, request: *mut MPI_Request,
        ) -> c_int {
            keep(stringify!($kept), comm, info, request, |$hold, $comm| $plan)
        }
    )*};
}

pub(super) use {forms, short_way};

/// Operations without counts.
macro_rules! plain {
    ($($rest:tt)*) => { forms! { mpi_function: $($rest)* } };
}

/// Operations with a `_c` form.
macro_rules! counted {
    ($($rest:tt)*) => { forms! { mpi_function_c: $($rest)* } };
}

plain! {
    MPI_Barrier, MPI_Ibarrier, MPI_Barrier_init, "§6.3",
    () => |_hold, _comm| Ok(Task::Barrier(Call::Barrier)), quick How::barrier(_hold, _comm);
}

counted! {
    MPI_Bcast, MPI_Ibcast, MPI_Bcast_init, "§6.4",
    (buffer: *mut c_void, count: Count, datatype: MPI_Datatype, root: c_int) => |hold, comm|
        bcast(hold, comm, (buffer, count.into(), datatype), root),
        quick coll_short::bcast::<How>(hold, comm, (buffer, count.into(), datatype), root);

    MPI_Gather, MPI_Igather, MPI_Gather_init, "§6.5",
    (
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype, root: c_int
    ) => |hold, comm| {
        let recv = |hold: &Hold| blocks(hold, (recvbuf, recvcount.into(), recvtype), RECV);
        gather(hold, comm, (sendbuf, sendcount.into(), sendtype), recv, root, true)
    }, quick {
        let recv = || coll_short::even((recvbuf.cast_const(), recvcount.into(), recvtype));
        coll_short::gather::<How, _>(hold, comm, (sendbuf, sendcount.into(), sendtype), recv, root)
    };

    MPI_Gatherv, MPI_Igatherv, MPI_Gatherv_init, "§6.5",
    (
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Displ, recvtype: MPI_Datatype, root: c_int
    ) => |hold, comm| {
        let ranks = comm.peers().size();
        let recv = |hold: &Hold| varying(hold, ranks, recvbuf, recvcounts, displs, recvtype, RECV);
        gather(hold, comm, (sendbuf, sendcount.into(), sendtype), recv, root, false)
    }, quick {
        let recv = || coll_short::varying(comm, (recvbuf, recvcounts, displs), recvtype);
        coll_short::gather::<How, _>(hold, comm, (sendbuf, sendcount.into(), sendtype), recv, root)
    };

    MPI_Scatter, MPI_Iscatter, MPI_Scatter_init, "§6.6",
    (
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype, root: c_int
    ) => |hold, comm| {
        let send = |hold: &Hold| blocks(hold, (sendbuf, sendcount.into(), sendtype), SEND);
        scatter(hold, comm, send, (recvbuf, recvcount.into(), recvtype), root, true)
    }, quick {
        let send = || coll_short::even((sendbuf, sendcount.into(), sendtype));
        coll_short::scatter::<How, _>(hold, comm, send, (recvbuf, recvcount.into(), recvtype), root)
    };

    MPI_Scatterv, MPI_Iscatterv, MPI_Scatterv_init, "§6.6",
    (
        sendbuf: *const c_void, sendcounts: *const Count, displs: *const Displ, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype, root: c_int
    ) => |hold, comm| {
        let ranks = comm.peers().size();
        let send = |hold: &Hold| varying(hold, ranks, sendbuf, sendcounts, displs, sendtype, SEND);
        scatter(hold, comm, send, (recvbuf, recvcount.into(), recvtype), root, false)
    }, quick {
        let send = || coll_short::varying(comm, (sendbuf, sendcounts, displs), sendtype);
        coll_short::scatter::<How, _>(hold, comm, send, (recvbuf, recvcount.into(), recvtype), root)
    };

    MPI_Allgather, MPI_Iallgather, MPI_Allgather_init, "§6.7",
    (
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype
    ) => |hold, comm| {
        let recv = blocks(hold, (recvbuf, recvcount.into(), recvtype), RECV);
        allgather(hold, comm, (sendbuf, sendcount.into(), sendtype), recv?)
    }, quick {
        let recv = coll_short::even((recvbuf.cast_const(), recvcount.into(), recvtype));
        coll_short::allgather::<How>(hold, comm, (sendbuf, sendcount.into(), sendtype), recv)
    };

    MPI_Allgatherv, MPI_Iallgatherv, MPI_Allgatherv_init, "§6.7",
    (
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const Count, displs: *const Displ, recvtype: MPI_Datatype
    ) => |hold, comm| {
        let recv = varying(hold, comm.peers().size(), recvbuf, recvcounts, displs, recvtype, RECV);
        allgather(hold, comm, (sendbuf, sendcount.into(), sendtype), recv?)
    }, quick {
        let recv = coll_short::varying(comm, (recvbuf, recvcounts, displs), recvtype);
        coll_short::allgather::<How>(hold, comm, (sendbuf, sendcount.into(), sendtype), recv)
    };

    MPI_Alltoall, MPI_Ialltoall, MPI_Alltoall_init, "§6.8",
    (
        sendbuf: *const c_void, sendcount: Count, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcount: Count, recvtype: MPI_Datatype
    ) => |hold, comm| {
        let send = |hold: &Hold| blocks(hold, (sendbuf, sendcount.into(), sendtype), SEND);
        let recv = blocks(hold, (recvbuf, recvcount.into(), recvtype), RECV);
        alltoall(hold, comm, sendbuf, send, recv?)
    }, quick {
        let send = || coll_short::even((sendbuf, sendcount.into(), sendtype));
        let recv = || coll_short::even((recvbuf.cast_const(), recvcount.into(), recvtype));
        coll_short::alltoall::<How, _>(hold, comm, sendbuf, send, recv)
    };

    MPI_Alltoallv, MPI_Ialltoallv, MPI_Alltoallv_init, "§6.8",
    (
        sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Displ, sendtype: MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Displ, recvtype: MPI_Datatype
    ) => |hold, comm| {
        let ranks = comm.peers().size();
        let send = |hold: &Hold| varying(hold, ranks, sendbuf, sendcounts, sdispls, sendtype, SEND);
        let recv = varying(hold, ranks, recvbuf, recvcounts, rdispls, recvtype, RECV);
        alltoall(hold, comm, sendbuf, send, recv?)
    }, quick {
        let send = || coll_short::varying(comm, (sendbuf, sendcounts, sdispls), sendtype);
        let recv = || coll_short::varying(comm, (recvbuf, recvcounts, rdispls), recvtype);
        coll_short::alltoall::<How, _>(hold, comm, sendbuf, send, recv)
    };

    MPI_Alltoallw, MPI_Ialltoallw, MPI_Alltoallw_init, "§6.8",
    (
        sendbuf: *const c_void, sendcounts: *const Count, sdispls: *const Displ, sendtypes: *const MPI_Datatype,
        recvbuf: *mut c_void, recvcounts: *const Count, rdispls: *const Displ, recvtypes: *const MPI_Datatype
    ) => |hold, comm| {
        let ranks = comm.peers().size();
        let send = |hold: &Hold| each(hold, ranks, sendbuf, sendcounts, sdispls, sendtypes, SEND);
        let recv = each(hold, ranks, recvbuf, recvcounts, rdispls, recvtypes, RECV);
        alltoall(hold, comm, sendbuf, send, recv?)
    }, quick {
        let send = || coll_short::each(comm, (sendbuf, sendcounts, sdispls), sendtypes);
        let recv = || coll_short::each(comm, (recvbuf, recvcounts, rdispls), recvtypes);
        coll_short::alltoall::<How, _>(hold, comm, sendbuf, send, recv)
    };

    MPI_Reduce, MPI_Ireduce, MPI_Reduce_init, "§6.9.1",
    (
        sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: MPI_Datatype, op: MPI_Op, root: c_int
    ) => |hold, comm| reduce(hold, comm, (sendbuf, count.into(), datatype), recvbuf, op, root),
        quick coll_short::reduce::<How>(hold, comm, (sendbuf, count.into(), datatype), recvbuf, op, root);

    MPI_Allreduce, MPI_Iallreduce, MPI_Allreduce_init, "§6.9.6",
    (
        sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: MPI_Datatype, op: MPI_Op
    ) => |hold, comm| {
        let reduction = reduction(hold, comm, (sendbuf, count.into(), datatype), recvbuf, op)?;
        hold.note(|| Gift::All(reduction.bytes()));
        Ok(Task::Allreduce(reduction))
    }, quick coll_short::allreduce::<How>(hold, comm, (sendbuf, count.into(), datatype), recvbuf, op);

    MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, MPI_Reduce_scatter_block_init, "§6.10.1",
    (
        sendbuf: *const c_void, recvbuf: *mut c_void, recvcount: Count, datatype: MPI_Datatype, op: MPI_Op
    ) => |hold, comm| {
        let counts = vec![count(recvcount, "recvcount")?; comm.size() as usize];
        reduce_scatter(hold, comm, sendbuf, recvbuf, counts, datatype, op)
    }, quick coll_short::reduce_scatter_block::<How>(hold, comm, (sendbuf, recvcount.into(), datatype), recvbuf, op);

    MPI_Reduce_scatter, MPI_Ireduce_scatter, MPI_Reduce_scatter_init, "§6.10.2",
    (
        sendbuf: *const c_void, recvbuf: *mut c_void, recvcounts: *const Count, datatype: MPI_Datatype, op: MPI_Op
    ) => |hold, comm| {
        let counts = counts(recvcounts, comm.size() as usize, "recvcounts")?;
        reduce_scatter(hold, comm, sendbuf, recvbuf, counts, datatype, op)
    }, quick coll_short::reduce_scatter::<How, _>(hold, comm, (sendbuf, recvcounts, datatype), recvbuf, op);

    MPI_Scan, MPI_Iscan, MPI_Scan_init, "§6.11.1",
    (
        sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: MPI_Datatype, op: MPI_Op
    ) => |hold, comm| scan(hold, comm, (sendbuf, count.into(), datatype), recvbuf, op, false),
        quick coll_short::scan::<How>(hold, comm, (sendbuf, count.into(), datatype), recvbuf, op, false);

    MPI_Exscan, MPI_Iexscan, MPI_Exscan_init, "§6.11.2",
    (
        sendbuf: *const c_void, recvbuf: *mut c_void, count: Count, datatype: MPI_Datatype, op: MPI_Op
    ) => |hold, comm| scan(hold, comm, (sendbuf, count.into(), datatype), recvbuf, op, true),
        quick coll_short::scan::<How>(hold, comm, (sendbuf, count.into(), datatype), recvbuf, op, true);
}

fn bcast(hold: &Hold, comm: &Rc<Comm>, buffer: Triple, root: c_int) -> Result<Task> {
    let root = self::root(comm, root)?;
    let data = match root {
        Root::Beside => nothing(),
        _ => data(hold, buffer, "buffer")?,
    };
    hold.note(|| Gift::from_root(comm, root, data.len()));
    Ok(Task::Bcast(root, data))
}

fn gather(
    hold: &Hold,
    comm: &Rc<Comm>,
    send: Triple,
    recv: impl FnOnce(&Hold) -> Result<Blocks>,
    root: c_int,
    regular: bool,
) -> Result<Task> {
    let root = self::root(comm, root)?;
    let at_root = is_root(comm, root);
    let in_place = at_root && !comm.is_inter() && is_in_place(send.0);
    let sends = !in_place && matches!(root, Root::Rank(_));
    let recv = if at_root { Some(recv(hold)?) } else { None };
    let send = if sends {
        Some(data(hold, send, "sendbuf")?)
    } else {
        None
    };
    if let (Some(send), Some(recv)) = (&send, &recv) {
        recv.refuse_overlap(send.address, comm.rank, send.is_empty())?;
        // MPICH lets a root have less for itself than room for it, and there are programs that do.
        if !regular || hold.is_checking() || send.len() > recv.len(comm.rank) {
            own_block(hold, (send.count, &send.element), recv.block_of(comm.rank).1)?;
        }
    }
    hold.note(|| Gift::to_root(root, send.as_ref().map_or(0, Data::len)));
    Ok(Task::Gather(root, send, recv, regular))
}

fn scatter(
    hold: &Hold,
    comm: &Rc<Comm>,
    send: impl FnOnce(&Hold) -> Result<Blocks>,
    recv: Triple,
    root: c_int,
    regular: bool,
) -> Result<Task> {
    let root = self::root(comm, root)?;
    let at_root = is_root(comm, root);
    let in_place = at_root && !comm.is_inter() && is_in_place(recv.0);
    let receives = !in_place && matches!(root, Root::Rank(_));
    let send = if at_root { Some(send(hold)?) } else { None };
    let recv = if receives {
        Some(data(hold, recv, "recvbuf")?)
    } else {
        None
    };
    if let (Some(send), Some(recv)) = (&send, &recv) {
        send.refuse_overlap(recv.address, comm.rank, recv.is_empty())?;
        own_block(hold, send.block_of(comm.rank).1, (recv.count, &recv.element))?;
    }
    if let Some(send) = &send {
        hold.note(|| Gift::blocks(send, 0..comm.peers().size() as i32));
    }
    Ok(Task::Scatter(root, send, recv, regular))
}

fn allgather(hold: &Hold, comm: &Rc<Comm>, send: Triple, recv: Blocks) -> Result<Task> {
    let in_place = !comm.is_inter() && is_in_place(send.0);
    let send = if in_place {
        None
    } else {
        Some(data(hold, send, "sendbuf")?)
    };
    if let Some(send) = send.as_ref().filter(|_| !comm.is_inter()) {
        recv.refuse_overlap(send.address, comm.rank, send.is_empty())?;
        own_block(hold, (send.count, &send.element), recv.block_of(comm.rank).1)?;
    }
    hold.note(|| match &send {
        Some(send) => Gift::All(send.len()),
        None => Gift::All(recv.len(comm.rank)),
    });
    Ok(Task::Allgather(send, recv))
}

fn alltoall(
    hold: &Hold,
    comm: &Rc<Comm>,
    sendbuf: *const c_void,
    send: impl FnOnce(&Hold) -> Result<Blocks>,
    recv: Blocks,
) -> Result<Task> {
    let in_place = !comm.is_inter() && is_in_place(sendbuf);
    let send = if in_place { None } else { Some(send(hold)?) };
    let ranks = comm.peers().size();
    if send.as_ref().is_some_and(|send| same_blocks(send, &recv, ranks)) {
        return aliased();
    }
    if let Some(send) = send.as_ref().filter(|_| !comm.is_inter()) {
        own_block(hold, send.block_of(comm.rank).1, recv.block_of(comm.rank).1)?;
    }
    hold.note(|| Gift::blocks(send.as_ref().unwrap_or(&recv), 0..ranks as i32));
    Ok(Task::Alltoall(send, recv))
}

/// Checks the block that a rank has for itself against its room for it, each a number of elements and their type: that
/// they have as many bytes, and with `NEARMPI_CHECK` the same types.
fn own_block(hold: &Hold, sent: (usize, &Element), room: (usize, &Element)) -> Result<()> {
    let ((count, element), (most, into)) = (sent, room);
    check_own(count * element.datatype.size(), most * into.datatype.size())?;
    match hold.is_checking() {
        true => types::check_own((&element.datatype, count), (&into.datatype, most)),
        false => Ok(()),
    }
}

/// The buffer of a reduction, which has a type even if it has no elements.
fn operands(hold: &Hold, buffer: Triple, name: &str) -> Result<Data> {
    if buffer.2 == MPI_DATATYPE_NULL {
        element(hold, buffer.2)?;
    }
    shared_data(hold, buffer, name)
}

/// Arguments of a reduction whose result every rank gets.
fn reduction(hold: &Hold, comm: &Comm, send: Triple, recvbuf: *mut c_void, op: MPI_Op) -> Result<Reduction> {
    let recv = operands(hold, (recvbuf, send.1, send.2), "recvbuf")?;
    let op = find_op(hold, op)?.clone();
    op.check(&recv.element.datatype)?;
    let in_place = !comm.is_inter() && is_in_place(send.0);
    if !in_place {
        let send = shared_data(hold, send, "sendbuf")?;
        if same_memory(send.address, recv.address) && !send.is_empty() {
            return aliased();
        }
    }
    Ok(Reduction {
        send: (!in_place).then_some(send.0.cast_mut().cast()),
        recv: recv.address,
        count: recv.count,
        element: recv.element,
        op,
    })
}

fn reduce(hold: &Hold, comm: &Rc<Comm>, send: Triple, recvbuf: *mut c_void, op: MPI_Op, root: c_int) -> Result<Task> {
    let root = self::root(comm, root)?;
    let reduction = match (root, comm.is_inter()) {
        (Root::Beside, _) => return Ok(Task::Bcast(root, nothing())),
        // Only the receive buffer counts at a root that reduces the other group's operands.
        (Root::Here, _) => operand(hold, (recvbuf, send.1, send.2), op, "recvbuf")?,
        (Root::Rank(_), false) if is_root(comm, root) => reduction(hold, comm, send, recvbuf, op)?,
        (Root::Rank(_), _) => operand(hold, send, op, "sendbuf")?,
    };
    hold.note(|| Gift::to_root(root, reduction.bytes()));
    Ok(Task::Reduce(root, reduction))
}

/// Arguments of a reduction at a rank where one buffer counts: one that only contributes, or the root
/// that reduces the other group's operands.
fn operand(hold: &Hold, buffer: Triple, op: MPI_Op, name: &str) -> Result<Reduction> {
    let data = operands(hold, buffer, name)?;
    let op = find_op(hold, op)?.clone();
    op.check(&data.element.datatype)?;
    Ok(Reduction {
        send: Some(data.address),
        recv: data.address,
        count: data.count,
        element: data.element,
        op,
    })
}

fn reduce_scatter(
    hold: &Hold,
    comm: &Rc<Comm>,
    sendbuf: *const c_void,
    recvbuf: *mut c_void,
    counts: Vec<usize>,
    datatype: MPI_Datatype,
    op: MPI_Op,
) -> Result<Task> {
    let total: usize = counts.iter().sum();
    // A rank whose block is empty needs no receive buffer, unless its input lies there.
    let no_block = recvbuf.is_null() && counts[comm.rank as usize] == 0 && !is_in_place(sendbuf);
    let recv = if no_block { sendbuf.cast_mut() } else { recvbuf };
    let send = (sendbuf, total as i64, datatype);
    let reduction = match no_block {
        true => operand(hold, send, op, "sendbuf")?,
        false => reduction(hold, comm, send, recv, op)?,
    };
    hold.note(|| reduce_scatter_gift(comm, &reduction, &counts));
    Ok(Task::ReduceScatter(reduction, counts))
}

/// Each rank's share of a result that is reduced and scattered. The other group of an intercommunicator knows
/// its own shares only: they count as equal.
fn reduce_scatter_gift(comm: &Comm, reduction: &Reduction, counts: &[usize]) -> Gift {
    if comm.is_inter() {
        return Gift::All(reduction.bytes() / comm.peers().size() as usize);
    }
    let size = reduction.element.datatype.size();
    Gift::Each((0..).zip(counts).map(|(rank, count)| (rank, count * size)).collect())
}

fn scan(hold: &Hold, comm: &Rc<Comm>, send: Triple, recvbuf: *mut c_void, op: MPI_Op, exclusive: bool) -> Result<Task> {
    if comm.is_inter() {
        fail!(Comm, "prefix reductions are not defined on intercommunicators");
    }
    // Rank 0 of an exclusive scan receives nothing.
    let reduction = match exclusive && comm.rank == 0 && !is_in_place(send.0) {
        true if send.1 > 0 && same_memory(send.0.cast_mut().cast(), recvbuf.cast()) => return aliased(),
        true => operand(hold, send, op, "sendbuf")?,
        false => reduction(hold, comm, send, recvbuf, op)?,
    };
    hold.note(|| Gift::Above(reduction.bytes()));
    Ok(Task::Scan(reduction, exclusive))
}

fn root(comm: &Comm, root: c_int) -> Result<Root> {
    match root {
        MPI_ROOT if comm.is_inter() => Ok(Root::Here),
        MPI_PROC_NULL if comm.is_inter() => Ok(Root::Beside),
        _ => root_rank(comm, root).map(Root::Rank),
    }
}

/// A root that is a rank of `comm`, or of the remote group.
///
/// # Errors
/// `Root`: it is none.
pub fn root_rank(comm: &Comm, root: c_int) -> Result<u32> {
    let ranks = comm.peers().size();
    match (0..ranks as c_int).contains(&root) {
        true => Ok(root as u32),
        false => fail!(Root, "the root is {root} but must be a rank from 0 to {}", ranks - 1),
    }
}

/// Whether this rank is the root.
fn is_root(comm: &Comm, root: Root) -> bool {
    root == Root::Here || !comm.is_inter() && root == Root::Rank(comm.rank)
}
