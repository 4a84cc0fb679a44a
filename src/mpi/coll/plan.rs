//! From the arguments of a collective operation to its schedule: which algorithm is taken when.
//!
//! The choice ([`Case::by_messages`]) depends only on what all ranks know alike: the number of ranks, bytes of data
//! (type signatures must agree, datatypes need not), and whether the operation commutes.

use super::args::reduction_signature;
pub use super::args::{Blocks, Data, Places, Reduction, Root};
use super::choice::Case;
use super::inter::{self, Sides};
use super::machine::{Element, Operation};
use super::neighbor::{self, Neighbors, Outgoing};
use super::reduce::Vector;
use super::schedule::{Area, Base, Member, Schedule, Shape, Slice};
use super::signature::{Call, Signature};
use super::{allgather, allreduce, alltoall, barrier as barriers, bcast as bcasts, gather as gathers};
use super::{reduce as reduces, reduce_scatter as reduce_scatters, scan as scans, scatter as scatters};
use crate::mpi::comm::Comm;
use crate::sys::selection::{Operation as Kind, Way};
use std::ptr::null_mut;
use std::rc::Rc;

/// An operation in the making.
struct Draft {
    operation: Operation,
    call: Call,
    me: Member,
}

/// Blocks as slices.
enum Table {
    Regular(Area, usize),
    Varying(Area, Vec<usize>, Vec<isize>),
    Each(Vec<Area>, Vec<usize>),
}

impl Table {
    fn slice(&self, rank: u32) -> Slice {
        let rank = rank as usize;
        match self {
            Table::Regular(area, count) => area.slice(rank * count, *count),
            Table::Varying(area, counts, displs) => {
                let shift = displs[rank] * area.shape.extent;
                let offset = area.offset + shift;
                Area { offset, ..*area }.slice(0, counts[rank])
            }
            Table::Each(areas, counts) => areas[rank].slice(0, counts[rank]),
        }
    }

    /// Bytes of a block when all have the same size.
    fn block(&self) -> Option<usize> {
        match self {
            Table::Regular(area, count) => Some(area.shape.size * count),
            _ => None,
        }
    }
}

impl Draft {
    fn new(comm: &Rc<Comm>, call: Call) -> Draft {
        let (rank, size) = (comm.rank, comm.size());
        Draft {
            operation: Operation {
                comm: comm.clone(),
                schedule: Schedule::default(),
                send: null_mut(),
                recv: null_mut(),
                types: Vec::new(),
                op: None,
                signature: Signature::of(call),
            },
            call,
            me: Member { rank, size },
        }
    }

    /// Both sides of an intercommunicator.
    fn sides(&self) -> Option<Sides> {
        let remote = self.operation.comm.remote.as_ref()?.size();
        Some(Sides { me: self.me, remote })
    }

    /// Peers shall have named the same root. An intercommunicator's sides name it differently.
    fn rooted(&mut self, root: Root) {
        if let (None, Root::Rank(root)) = (&self.operation.comm.remote, root) {
            self.operation.signature = self.operation.signature.with(root.into());
        }
    }

    /// Peers shall have as many bytes.
    fn sized(&mut self, bytes: usize) {
        self.operation.signature = self.operation.signature.with(bytes as u64);
    }

    fn shape(&mut self, element: &Element) -> Shape {
        let datatype = &element.datatype;
        self.operation.types.push(element.clone());
        Shape {
            kind: self.operation.types.len() as u32,
            size: datatype.size(),
            extent: datatype.extent(),
            true_lb: datatype.true_lb(),
            true_extent: datatype.true_extent() as usize,
        }
    }

    fn area(&mut self, base: Base, address: *mut u8, element: &Element) -> Area {
        match base {
            Base::Send => self.operation.send = address,
            Base::Recv => self.operation.recv = address,
            Base::Scratch => {}
        }
        let shape = self.shape(element);
        Area { base, offset: 0, shape }
    }

    fn data(&mut self, base: Base, data: &Data) -> Slice {
        self.area(base, data.address, &data.element).slice(0, data.count)
    }

    fn table(&mut self, base: Base, blocks: Blocks) -> Table {
        let address = blocks.address;
        match blocks.places {
            Places::Regular { count, element } => Table::Regular(self.area(base, address, &element), count),
            Places::Varying {
                counts,
                displs,
                element,
            } => Table::Varying(self.area(base, address, &element), counts, displs),
            Places::Each {
                counts,
                displs,
                elements,
            } => {
                let at = |(element, &offset): (&Element, &isize)| Area {
                    offset,
                    ..self.area(base, address, element)
                };
                Table::Each(elements.iter().zip(&displs).map(at).collect(), counts)
            }
        }
    }

    fn vector(&mut self, reduction: &Reduction) -> Vector {
        self.operation.op = Some(reduction.op.clone());
        let recv = self.area(Base::Recv, reduction.recv, &reduction.element);
        let send = match reduction.send {
            Some(address) => {
                self.operation.send = address;
                Area {
                    base: Base::Send,
                    ..recv
                }
            }
            None => recv,
        };
        let count = reduction.count;
        if self.operation.comm.remote.is_none() {
            self.operation.signature = reduction_signature(self.call, reduction);
        }
        Vector { send, recv, count }
    }
}

/// `MPI_Barrier`, or `call`'s part that is one.
pub fn barrier(case: Case, comm: &Rc<Comm>, call: Call) -> Operation {
    let mut draft = Draft::new(comm, call);
    match draft.sides() {
        Some(sides) => inter::barrier(&mut draft.operation.schedule, sides),
        None => match case.by_messages(Kind::Barrier, 0, |_| true) {
            Way::Flat => barriers::flat(&mut draft.operation.schedule, draft.me),
            _ => barriers::dissemination(&mut draft.operation.schedule, draft.me),
        },
    }
    draft.operation
}

/// `MPI_Bcast`.
pub fn bcast(case: Case, comm: &Rc<Comm>, root: Root, data: &Data) -> Operation {
    let mut draft = Draft::new(comm, Call::Bcast);
    let slice = draft.data(Base::Recv, data);
    draft.rooted(root);
    draft.sized(slice.len);
    let sides = draft.sides();
    let schedule = &mut draft.operation.schedule;
    match (sides, root) {
        (Some(sides), Root::Here) => inter::send_to_all(schedule, sides, |_| slice),
        (Some(_), Root::Rank(root)) => schedule.round().recv(root, slice),
        (None, Root::Rank(root)) => intra_bcast(case, schedule, draft.me, root, (slice, data)),
        _ => {}
    }
    draft.operation
}

fn intra_bcast(case: Case, schedule: &mut Schedule, me: Member, root: u32, (slice, data): (Slice, &Data)) {
    if case.by_messages(Kind::Bcast, slice.len, |_| true) == Way::Tree {
        return bcasts::binomial(schedule, me, root, slice);
    }
    // Parts must be cut at the same bytes everywhere, whatever the datatypes: other layouts are packed.
    let datatype = &data.element.datatype;
    if datatype.is_contiguous() {
        let bytes = Area::bytes(Base::Recv, datatype.true_lb());
        return bcasts::scatter_ring(schedule, me, root, bytes, slice.len);
    }
    let packed = schedule.reserve(slice.len);
    if me.rank == root {
        schedule.round().copy(slice, packed.slice(0, slice.len));
    }
    bcasts::scatter_ring(schedule, me, root, packed, slice.len);
    if me.rank != root {
        schedule.last().copy(packed.slice(0, slice.len), slice);
    }
}

/// `MPI_Gather` and `MPI_Gatherv`. `send` is `None` in place and where the root is beside; `recv`
/// is there at the root.
pub fn gather(comm: &Rc<Comm>, root: Root, send: Option<&Data>, recv: Option<Blocks>) -> Operation {
    let mut draft = Draft::new(comm, Call::Gather);
    draft.rooted(root);
    let mine = send.map(|data| draft.data(Base::Send, data));
    // Gather or Gatherv must be told at every rank alike: only the root's arguments differ in form.
    let table = recv.map(|blocks| draft.table(Base::Recv, blocks));
    let place = |rank: u32| table.as_ref().map_or(Slice::EMPTY, |table| table.slice(rank));
    let (sides, me) = (draft.sides(), draft.me);
    let schedule = &mut draft.operation.schedule;
    match (sides, root) {
        (Some(sides), Root::Here) => inter::recv_from_all(schedule, sides, place),
        (Some(_), Root::Rank(root)) => {
            if let Some(mine) = mine {
                schedule.round().send(root, mine);
            }
        }
        (None, Root::Rank(root)) => gathers::linear(schedule, me, root, mine, place),
        _ => {}
    }
    draft.operation
}

/// `MPI_Gather`, which may go along a tree in an intracommunicator; otherwise as [`gather`].
pub fn gather_regular(case: Case, comm: &Rc<Comm>, root: Root, send: Option<&Data>, recv: Option<Blocks>) -> Operation {
    // A root may gather less from itself than it has room for.
    let block = recv
        .as_ref()
        .and_then(Blocks::block)
        .or_else(|| send.map(Data::len))
        .unwrap_or(0);
    let Root::Rank(rank) = root else {
        return gather(comm, root, send, recv);
    };
    if comm.is_inter() || case.by_messages(Kind::Gather, block, |_| true) != Way::Tree {
        return gather(comm, root, send, recv);
    }
    let mut draft = Draft::new(comm, Call::Gather);
    draft.rooted(root);
    let mine = send.map(|data| draft.data(Base::Send, data));
    let table = recv.map(|blocks| draft.table(Base::Recv, blocks));
    let place = |rank: u32| table.as_ref().map_or(Slice::EMPTY, |table| table.slice(rank));
    gathers::binomial(&mut draft.operation.schedule, draft.me, rank, block, mine, place);
    draft.operation
}

/// `MPI_Scatter` and `MPI_Scatterv`; arguments mirror those of [`gather`].
pub fn scatter(comm: &Rc<Comm>, root: Root, send: Option<Blocks>, recv: Option<&Data>) -> Operation {
    let mut draft = Draft::new(comm, Call::Scatter);
    draft.rooted(root);
    let mine = recv.map(|data| draft.data(Base::Recv, data));
    let table = send.map(|blocks| draft.table(Base::Send, blocks));
    let place = |rank: u32| table.as_ref().map_or(Slice::EMPTY, |table| table.slice(rank));
    let (sides, me) = (draft.sides(), draft.me);
    let schedule = &mut draft.operation.schedule;
    match (sides, root) {
        (Some(sides), Root::Here) => inter::send_to_all(schedule, sides, place),
        (Some(_), Root::Rank(root)) => {
            if let Some(mine) = mine {
                schedule.round().recv(root, mine);
            }
        }
        (None, Root::Rank(root)) => scatters::linear(schedule, me, root, mine, place),
        _ => {}
    }
    draft.operation
}

/// `MPI_Scatter`, which may go along a tree in an intracommunicator; otherwise as [`scatter`].
pub fn scatter_regular(
    case: Case,
    comm: &Rc<Comm>,
    root: Root,
    send: Option<Blocks>,
    recv: Option<&Data>,
) -> Operation {
    let block = recv.map(Data::len).or_else(|| send.as_ref()?.block()).unwrap_or(0);
    let Root::Rank(rank) = root else {
        return scatter(comm, root, send, recv);
    };
    let others = (comm.size() as usize - 1).saturating_mul(block);
    if comm.is_inter() || case.by_messages(Kind::Scatter, others, |_| true) != Way::Tree {
        return scatter(comm, root, send, recv);
    }
    let mut draft = Draft::new(comm, Call::Scatter);
    draft.rooted(root);
    let mine = recv.map(|data| draft.data(Base::Recv, data));
    let table = send.map(|blocks| draft.table(Base::Send, blocks));
    let place = |rank: u32| table.as_ref().map_or(Slice::EMPTY, |table| table.slice(rank));
    scatters::binomial(&mut draft.operation.schedule, draft.me, rank, block, mine, place);
    draft.operation
}

/// `MPI_Allgather` and `MPI_Allgatherv`; `send` is `None` in place.
pub fn allgather(case: Case, comm: &Rc<Comm>, send: Option<&Data>, recv: Blocks) -> Operation {
    let mut draft = Draft::new(comm, Call::Allgather);
    let mine = send.map(|data| draft.data(Base::Send, data));
    let table = draft.table(Base::Recv, recv);
    let (sides, me) = (draft.sides(), draft.me);
    let schedule = &mut draft.operation.schedule;
    let mine = mine.unwrap_or_else(|| table.slice(me.rank));
    let place = |rank: u32| table.slice(rank);
    if let Some(sides) = sides {
        inter::exchange(schedule, sides, |_| mine, place);
        return draft.operation;
    }
    let largest = (0..me.size).map(|rank| place(rank).len).max().unwrap_or(0);
    let block = table.block();
    match case.by_messages(Kind::Allgather, largest, |way| way != Way::Bruck || block.is_some()) {
        Way::Bruck => allgather::bruck(schedule, me, block.unwrap_or(0), mine, place),
        way => {
            schedule.round().copy(mine, place(me.rank));
            match way {
                Way::Spread => allgather::spread(schedule, me, mine, place),
                _ => allgather::ring(schedule, me, mine, place),
            }
        }
    }
    draft.operation
}

/// `MPI_Alltoall`, `MPI_Alltoallv` and `MPI_Alltoallw`; `send` is `None` in place.
pub fn alltoall(case: Case, comm: &Rc<Comm>, send: Option<Blocks>, recv: Blocks) -> Operation {
    let mut draft = Draft::new(comm, Call::Alltoall);
    let from = send.map(|blocks| draft.table(Base::Send, blocks));
    let to = draft.table(Base::Recv, recv);
    let (sides, me) = (draft.sides(), draft.me);
    let schedule = &mut draft.operation.schedule;
    let to_place = |rank: u32| to.slice(rank);
    let Some(from) = from else {
        // In place: what is sent is packed before anything is received over it.
        let packed: Vec<Slice> = (0..me.size)
            .map(|rank| {
                let len = to.slice(rank).len;
                schedule.reserve(len).slice(0, len)
            })
            .collect();
        let round = schedule.round();
        for rank in (0..me.size).filter(|&rank| rank != me.rank) {
            round.copy(to.slice(rank), packed[rank as usize]);
        }
        let from = |rank: u32| {
            if rank == me.rank {
                to.slice(rank)
            } else {
                packed[rank as usize]
            }
        };
        alltoall::windowed(schedule, me, from, to_place);
        return draft.operation;
    };
    let from_place = |rank: u32| from.slice(rank);
    if let Some(sides) = sides {
        inter::exchange(schedule, sides, from_place, to_place);
        return draft.operation;
    }
    let block = to.block();
    let others = block.unwrap_or(0).saturating_mul(me.size as usize - 1);
    match case.by_messages(Kind::Alltoall, others, |way| way != Way::Bruck || block.is_some()) {
        Way::Bruck => alltoall::bruck(schedule, me, block.unwrap_or(0), from_place, to_place),
        _ => alltoall::windowed(schedule, me, from_place, to_place),
    }
    draft.operation
}

/// `MPI_Reduce`.
pub fn reduce(case: Case, comm: &Rc<Comm>, root: Root, reduction: &Reduction) -> Operation {
    let mut draft = Draft::new(comm, Call::Reduce);
    let vector = draft.vector(reduction);
    draft.rooted(root);
    let (sides, me) = (draft.sides(), draft.me);
    let schedule = &mut draft.operation.schedule;
    let whole = vector.send.slice(0, vector.count);
    match (sides, root) {
        _ if whole.len == 0 => {}
        (Some(sides), Root::Here) => inter::reduce(schedule, sides, &vector),
        (Some(_), Root::Rank(root)) => schedule.round().send(root, whole),
        (None, Root::Rank(root)) => match case.by_messages(Kind::Reduce, whole.len, able(me, &vector)) {
            Way::Flat => reduces::flat(schedule, me, root, &vector),
            Way::Halves => reduces::halving(schedule, me, root, &vector),
            _ => reduces::binomial(schedule, me, root, reduction.op.commutes, &vector),
        },
        _ => {}
    }
    draft.operation
}

/// `MPI_Allreduce`.
pub fn allreduce(case: Case, comm: &Rc<Comm>, reduction: &Reduction) -> Operation {
    let mut draft = Draft::new(comm, Call::Allreduce);
    let vector = draft.vector(reduction);
    let (sides, me) = (draft.sides(), draft.me);
    let schedule = &mut draft.operation.schedule;
    let len = vector.count * vector.send.shape.size;
    match sides {
        _ if len == 0 => {}
        Some(sides) => inter::allreduce(schedule, sides, &vector),
        None => match case.by_messages(Kind::Allreduce, len, able(me, &vector)) {
            Way::Flat => allreduce::flat(schedule, me, &vector),
            Way::Halves => allreduce::halving(schedule, me, &vector),
            _ => allreduce::recursive_doubling(schedule, me, &vector),
        },
    }
    draft.operation
}

/// Whether `vector` can be reduced in that way: halves need an element for each rank.
fn able(me: Member, vector: &Vector) -> impl Fn(Way) -> bool {
    let enough = vector.count >= me.size as usize;
    move |way| way != Way::Halves || enough
}

/// `MPI_Reduce_scatter` and `MPI_Reduce_scatter_block`; `counts` are those of my group's blocks.
pub fn reduce_scatter(comm: &Rc<Comm>, reduction: &Reduction, counts: &[usize]) -> Operation {
    let mut draft = Draft::new(comm, Call::ReduceScatter);
    let vector = draft.vector(reduction);
    let (sides, me) = (draft.sides(), draft.me);
    let schedule = &mut draft.operation.schedule;
    let block = |rank: u32| {
        let before = counts[..rank as usize].iter().sum();
        (before, counts[rank as usize])
    };
    match sides {
        _ if vector.count * vector.send.shape.size == 0 => {}
        Some(sides) => {
            let whole = reduces::without_recv(schedule, &vector);
            inter::allreduce(schedule, sides, &whole);
            let (first, count) = block(me.rank);
            schedule
                .last()
                .copy(whole.recv.slice(first, count), vector.recv.slice(0, count));
        }
        None => reduce_scatters::exchange(schedule, me, &vector, block),
    }
    draft.operation
}

/// `MPI_Scan`, or `MPI_Exscan` if `exclusive`.
pub fn scan(comm: &Rc<Comm>, reduction: &Reduction, exclusive: bool) -> Operation {
    let mut draft = Draft::new(comm, if exclusive { Call::Exscan } else { Call::Scan });
    let vector = draft.vector(reduction);
    let me = draft.me;
    let schedule = &mut draft.operation.schedule;
    match exclusive {
        _ if vector.count * vector.send.shape.size == 0 => {}
        true => scans::exclusive(schedule, me, &vector),
        false => scans::inclusive(schedule, me, &vector),
    }
    draft.operation
}

/// The neighbourhood collectives.
pub fn neighbor(comm: &Rc<Comm>, neighbors: &Neighbors, send: Outgoing, recv: Blocks) -> Operation {
    let mut draft = Draft::new(comm, Call::Neighbor);
    let to = draft.table(Base::Recv, recv);
    let place = |index: u32| to.slice(index);
    match send {
        Outgoing::Same(data) => {
            let mine = draft.data(Base::Send, &data);
            neighbor::exchange(&mut draft.operation.schedule, neighbors, |_| mine, place);
        }
        Outgoing::Blocks(blocks) => {
            let from = draft.table(Base::Send, blocks);
            neighbor::exchange(
                &mut draft.operation.schedule,
                neighbors,
                |index| from.slice(index),
                place,
            );
        }
    }
    draft.operation
}
