//! # Safety
//! Exports functions that reach the application's memory through the helpers of [`super::edge`] only.
//!
//! Communicators (MPI-4.1 §7.4, §7.6, §7.8).
#![allow(unsafe_code)]

use super::attr::{copy_all, delete_all};
use super::constants::*;
use super::edge::*;
use super::errhandler::find;
use super::group::{give_group, group, out};
use super::info::{give_info, hints, set_info};
use super::source::Source;
use super::types::*;
use crate::fail;
use crate::mpi::comm::create::{self, Choice};
use crate::mpi::comm::hardware::{self, Resource};
use crate::mpi::comm::{Comm, dynamic, idup, inter};
use crate::mpi::errhandler::{Errhandler, Target};
use crate::mpi::info::Info;
use crate::mpi::session::PSETS;
use crate::mpi::status::UNDEFINED;
use crate::mpi::world::State;
use std::ffi::{c_char, c_int};
use std::rc::Rc;

/// A handle for `new`.
///
/// # Errors
/// `NoMem`: 2^22 communicators live already.
pub fn give_comm(state: &mut State, new: Rc<Comm>) -> Result<MPI_Comm> {
    Object::Comm.made(state.keep_comm(new))
}

/// A handle for `new`, `MPI_COMM_NULL` for nothing.
///
/// # Errors
/// As [`give_comm`].
pub fn give_if_any(state: &mut State, new: Option<Comm>) -> Result<MPI_Comm> {
    new.map_or(Ok(MPI_COMM_NULL), |new| give_comm(state, Rc::new(new)))
}

/// Where a new communicator's handle goes; the null handle until then, so that it stands there after an error.
pub fn new_comm<'a>(place: *mut MPI_Comm, name: &str) -> Result<&'a mut MPI_Comm> {
    let place = out(place, name)?;
    *place = MPI_COMM_NULL;
    Ok(place)
}

/// Copies the attributes of `comm` to its duplicate `new` and gives that a handle.
fn finish_dup(hold: &mut Hold, handle: MPI_Comm, comm: &Comm, new: Rc<Comm>) -> Result<MPI_Comm> {
    copy_all(hold, handle, &comm.attributes, &new.attributes)?;
    give_comm(hold, new)
}

/// Runs `body` on the communicator whose handle is `*comm`.
fn on_handle(
    name: &'static str,
    comm: *mut MPI_Comm,
    body: impl FnOnce(&mut Hold, &Rc<Comm>, &mut MPI_Comm) -> Result<()>,
) -> c_int {
    match out(comm, "comm") {
        Ok(handle) => on_comm(name, *handle, |hold, comm| body(hold, comm, handle)),
        Err(error) => on_world(name, |_| Err(error)),
    }
}

/// Number of processes in the (local) group. MPI-4.1 §7.4.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_size(comm: MPI_Comm, size: *mut c_int) -> c_int {
    if let Some((_, ranks)) = forked_place(comm) {
        return on_any("MPI_Comm_size", || store(size, "size", ranks as c_int));
    }
    on_comm("MPI_Comm_size", comm, |_, comm| {
        store(size, "size", comm.size() as c_int)
    })
}

/// The caller's rank. MPI-4.1 §7.4.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_rank(comm: MPI_Comm, rank: *mut c_int) -> c_int {
    if let Some((mine, _)) = forked_place(comm) {
        return on_any("MPI_Comm_rank", || store(rank, "rank", mine as c_int));
    }
    on_comm("MPI_Comm_rank", comm, |_, comm| store(rank, "rank", comm.rank as c_int))
}

/// Whether two communicators have the same groups. MPI-4.1 §7.4.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_compare(comm1: MPI_Comm, comm2: MPI_Comm, result: *mut c_int) -> c_int {
    on_comm("MPI_Comm_compare", comm1, |hold, first| {
        let likeness = first.compare(comm(hold, comm2)?);
        store(result, "result", likeness as c_int)
    })
}

/// The (local) group. MPI-4.1 §7.3.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_group(comm: MPI_Comm, group: *mut MPI_Group) -> c_int {
    on_comm("MPI_Comm_group", comm, |hold, comm| {
        let out = out(group, "group")?;
        *out = give_group(hold, comm.group.clone())?;
        Ok(())
    })
}

/// Whether `comm` is an intercommunicator. MPI-4.1 §7.6.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_test_inter(comm: MPI_Comm, flag: *mut c_int) -> c_int {
    on_comm("MPI_Comm_test_inter", comm, |_, comm| {
        store(flag, "flag", comm.is_inter().into())
    })
}

/// Number of processes in the remote group. MPI-4.1 §7.6.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_remote_size(comm: MPI_Comm, size: *mut c_int) -> c_int {
    on_comm("MPI_Comm_remote_size", comm, |_, comm| {
        store(size, "size", comm.remote_group()?.size() as c_int)
    })
}

/// The remote group. MPI-4.1 §7.6.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_remote_group(comm: MPI_Comm, group: *mut MPI_Group) -> c_int {
    on_comm("MPI_Comm_remote_group", comm, |hold, comm| {
        let out = out(group, "group")?;
        *out = give_group(hold, comm.remote_group()?.clone())?;
        Ok(())
    })
}

/// A duplicate with the attributes that want to be copied. MPI-4.1 §7.4.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_dup(comm: MPI_Comm, newcomm: *mut MPI_Comm) -> c_int {
    duplicate("MPI_Comm_dup", comm, newcomm, || Ok(Info::default()))
}

/// A duplicate with these hints. MPI-4.1 §7.4.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_dup_with_info(comm: MPI_Comm, info: MPI_Info, newcomm: *mut MPI_Comm) -> c_int {
    duplicate("MPI_Comm_dup_with_info", comm, newcomm, || hints(info))
}

fn duplicate(
    name: &'static str,
    handle: MPI_Comm,
    newcomm: *mut MPI_Comm,
    hints: impl FnOnce() -> Result<Info>,
) -> c_int {
    on_comm(name, handle, |hold, comm| {
        let (out, hints) = (new_comm(newcomm, "newcomm")?, hints()?);
        *out = MPI_COMM_NULL;
        let new = create::dup(hold, comm)?;
        new.info.replace(hints);
        *out = finish_dup(hold, handle, comm, Rc::new(new))?;
        Ok(())
    })
}

/// Starts a duplicate. MPI-4.1 §7.4.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_idup(comm: MPI_Comm, newcomm: *mut MPI_Comm, request: *mut MPI_Request) -> c_int {
    start_duplicate("MPI_Comm_idup", comm, newcomm, request, || Ok(Info::default()))
}

/// Starts a duplicate with these hints. MPI-4.1 §7.4.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_idup_with_info(
    comm: MPI_Comm,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
) -> c_int {
    start_duplicate("MPI_Comm_idup_with_info", comm, newcomm, request, || hints(info))
}

fn start_duplicate(
    name: &'static str,
    handle: MPI_Comm,
    newcomm: *mut MPI_Comm,
    request: *mut MPI_Request,
    hints: impl FnOnce() -> Result<Info>,
) -> c_int {
    on_comm(name, handle, |hold, comm| {
        let (newcomm, request, hints) = (new_comm(newcomm, "newcomm")?, out(request, "request")?, hints()?);
        let (new, key) = idup::idup(hold, comm)?;
        new.info.replace(hints);
        *newcomm = finish_dup(hold, handle, comm, new)?;
        *request = Object::Request.handle(key);
        Ok(())
    })
}

/// A communicator of `group`. MPI-4.1 §7.4.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_create(comm: MPI_Comm, group: MPI_Group, newcomm: *mut MPI_Comm) -> c_int {
    on_comm("MPI_Comm_create", comm, |hold, comm| {
        let out = new_comm(newcomm, "newcomm")?;
        let group = self::group(hold, group)?;
        let new = create::create(hold, comm, &group)?;
        *out = give_if_any(hold, new)?;
        Ok(())
    })
}

/// Runs `body` of a function that makes a communicator of groups alone; its error goes to the error handler that the new one is
/// to have.
fn on_groups(
    name: &'static str,
    errhandler: MPI_Errhandler,
    body: impl FnOnce(&mut Hold, Errhandler) -> Result<()>,
) -> c_int {
    let errhandler = find(Target::Comm, errhandler);
    let known = errhandler.as_ref().ok().cloned();
    let source = |state: &State| match known {
        Some(handler) => Source {
            handle: MPI_COMM_NULL,
            ..Source::new(handler)
        },
        None => Source::anywhere(state),
    };
    on_world_or(name, source, |hold| body(hold, errhandler?))
}

/// A communicator of `group`, called by its members only. MPI-4.1 §7.4.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_create_group(
    comm: MPI_Comm,
    group: MPI_Group,
    tag: c_int,
    newcomm: *mut MPI_Comm,
) -> c_int {
    on_comm("MPI_Comm_create_group", comm, |hold, comm| {
        let out = new_comm(newcomm, "newcomm")?;
        comm.intra()?;
        check_tag(tag)?;
        let group = self::group(hold, group)?;
        let new = create::create_group(hold, comm, &group, tag)?;
        *out = give_if_any(hold, new)?;
        Ok(())
    })
}

fn check_tag(tag: c_int) -> Result<()> {
    if tag < 0 {
        fail!(Tag, "the tag is {tag} but must not be negative");
    }
    Ok(())
}

/// The part of `comm` with the caller's color, ordered by key. MPI-4.1 §7.4.2.
///
/// A negative color is an error that the program may handle. Where it would end the job it is a color as any other, as MPICH and
/// Intel MPI have it: oneCCL counts on that.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_split(comm: MPI_Comm, color: c_int, key: c_int, newcomm: *mut MPI_Comm) -> c_int {
    on_comm("MPI_Comm_split", comm, |hold, comm| {
        let out = new_comm(newcomm, "newcomm")?;
        if color < 0 && color != MPI_UNDEFINED && !Source::comm(hold, MPI_COMM_NULL, comm).ends_the_job() {
            fail!(Arg, "the color is {color}, neither MPI_UNDEFINED nor 0 or more");
        }
        let new = create::split(hold, comm, Choice { color, key })?;
        *out = give_if_any(hold, new)?;
        Ok(())
    })
}

/// The part of `comm` that shares something: memory, hardware. Here all share one machine, and finer
/// parts are not made. MPI-4.1 §7.4.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_split_type(
    comm: MPI_Comm,
    split_type: c_int,
    key: c_int,
    info: MPI_Info,
    newcomm: *mut MPI_Comm,
) -> c_int {
    on_comm("MPI_Comm_split_type", comm, |hold, comm| {
        let out = new_comm(newcomm, "newcomm")?;
        let hints = hints(info)?;
        let kind = hints.get(b"mpi_hw_resource_type")?;
        let all = Choice { color: 0, key };
        let none = Choice { color: UNDEFINED, key };
        let new = match split_type {
            MPI_COMM_TYPE_SHARED => create::split(hold, comm, all)?,
            UNDEFINED => create::split(hold, comm, none)?,
            MPI_COMM_TYPE_HW_GUIDED | MPI_COMM_TYPE_RESOURCE_GUIDED if kind.is_some() => {
                match kind.and_then(Resource::named) {
                    Some(resource) => hardware::guided(hold, comm, resource, key)?,
                    None => create::split(hold, comm, none)?,
                }
            }
            MPI_COMM_TYPE_RESOURCE_GUIDED => match hints.get(b"mpi_pset_name")?.map(pset_color) {
                Some(color) => create::split(
                    hold,
                    comm,
                    Choice {
                        color: color(hold),
                        key,
                    },
                )?,
                None => create::split(hold, comm, none)?,
            },
            MPI_COMM_TYPE_HW_UNGUIDED => {
                let (new, resource) = hardware::unguided(hold, comm, key)?;
                if let Some(resource) = resource
                    && info != MPI_INFO_NULL
                {
                    set_info(info, b"mpi_hw_resource_type", resource.name().as_bytes())?;
                }
                new
            }
            MPIX_COMM_TYPE_NEIGHBORHOOD => match hints.get(b"nbhd_common_dirname")? {
                Some(directory) => hardware::neighborhood(hold, comm, directory, key)?,
                None => create::split(hold, comm, none)?,
            },
            MPI_COMM_TYPE_HW_GUIDED => create::split(hold, comm, none)?,
            _ => fail!(Arg, "{split_type} is not a split type"),
        };
        if let Some(new) = &new {
            new.info.replace(hints);
        }
        *out = give_if_any(hold, new)?;
        Ok(())
    })
}

/// The colour of a process set: one for all, or for each process its own.
fn pset_color(name: &[u8]) -> fn(&Hold) -> c_int {
    match PSETS.iter().position(|pset| pset.as_bytes().eq_ignore_ascii_case(name)) {
        Some(0) => |_| 0,
        Some(_) => |hold| hold.world.rank as c_int,
        None => |_| UNDEFINED,
    }
}

/// Frees a communicator's handle; what is under way on it goes on. MPI-4.1 §7.4.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_free(comm: *mut MPI_Comm) -> c_int {
    on_handle("MPI_Comm_free", comm, free)
}

/// Frees a communicator when all of its processes have come here. MPI-4.1 §11.10.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_disconnect(comm: *mut MPI_Comm) -> c_int {
    on_handle("MPI_Comm_disconnect", comm, |hold, comm, handle| {
        dynamic::meet_before_leaving(hold, comm)?;
        dynamic::leave(hold, comm);
        free(hold, comm, handle)
    })
}

fn free(hold: &mut Hold, comm: &Rc<Comm>, handle: &mut MPI_Comm) -> Result<()> {
    if *handle == MPI_COMM_WORLD || *handle == MPI_COMM_SELF {
        fail!(Comm, "predefined communicators cannot be freed");
    }
    delete_all(hold, *handle, &comm.attributes)?;
    let key = Object::Comm.key(*handle)?;
    hold.comms.remove(key);
    hold.parent = hold.parent.filter(|&parent| parent != key);
    *handle = MPI_COMM_NULL;
    Ok(())
}

/// Joins two groups by an intercommunicator. MPI-4.1 §7.6.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Intercomm_create(
    local_comm: MPI_Comm,
    local_leader: c_int,
    peer_comm: MPI_Comm,
    remote_leader: c_int,
    tag: c_int,
    newintercomm: *mut MPI_Comm,
) -> c_int {
    on_comm("MPI_Intercomm_create", local_comm, |hold, local| {
        let out = out(newintercomm, "newintercomm")?;
        local.intra()?;
        check_tag(tag)?;
        let leader = local.checked_rank(local_leader)?;
        let peer = comm(hold, peer_comm).and_then(|peer| Ok((peer.clone(), peer.peers().checked(remote_leader)?)));
        let new = inter::create(hold, local, leader, peer, tag)?;
        *out = give_comm(hold, Rc::new(new))?;
        Ok(())
    })
}

/// An intracommunicator of both groups. MPI-4.1 §7.6.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Intercomm_merge(intercomm: MPI_Comm, high: c_int, newintracomm: *mut MPI_Comm) -> c_int {
    on_comm("MPI_Intercomm_merge", intercomm, |hold, intercomm| {
        let out = out(newintracomm, "newintracomm")?;
        let new = inter::merge(hold, intercomm, high != 0)?;
        *out = give_comm(hold, Rc::new(new))?;
        Ok(())
    })
}

/// A tag for the program's `stringtag`, the same in every process.
fn tag_of(stringtag: *const c_char) -> Result<c_int> {
    let text = string(stringtag, "stringtag")?;
    // FNV-1a.
    let hash = text.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    Ok((hash >> 1) as c_int)
}

/// A communicator of `group`, called by its members only. MPI-4.1 §7.4.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_create_from_group(
    group: MPI_Group,
    stringtag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newcomm: *mut MPI_Comm,
) -> c_int {
    on_groups("MPI_Comm_create_from_group", errhandler, |hold, errhandler| {
        let out = new_comm(newcomm, "newcomm")?;
        let (group, tag, hints) = (self::group(hold, group)?, tag_of(stringtag)?, hints(info)?);
        let world = hold.world.clone();
        let new = create::create_group(hold, &world, &group, tag)?;
        if let Some(new) = &new {
            new.info.replace(hints);
            new.errhandler.replace(errhandler);
        }
        *out = give_if_any(hold, new)?;
        Ok(())
    })
}

/// Joins two groups, each called by its members, by an intercommunicator. MPI-4.1 §7.6.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Intercomm_create_from_groups(
    local_group: MPI_Group,
    local_leader: c_int,
    remote_group: MPI_Group,
    remote_leader: c_int,
    stringtag: *const c_char,
    info: MPI_Info,
    errhandler: MPI_Errhandler,
    newintercomm: *mut MPI_Comm,
) -> c_int {
    on_groups("MPI_Intercomm_create_from_groups", errhandler, |hold, errhandler| {
        let out = out(newintercomm, "newintercomm")?;
        let (local, tag, hints) = (group(hold, local_group)?, tag_of(stringtag)?, hints(info)?);
        let leader = local.checked(local_leader)?;
        let world = hold.world.clone();
        let Some(members) = create::create_group(hold, &world, &local, tag)? else {
            *out = MPI_COMM_NULL;
            return Ok(());
        };
        let members = Rc::new(members);
        let peer = group(hold, remote_group).and_then(|remote| {
            let leader = remote.world(remote.checked(remote_leader)?);
            match world.group.rank_of(leader) {
                Some(leader) => Ok((world, leader)),
                None => fail!(Group, "remote_leader is not in MPI_COMM_WORLD"),
            }
        });
        let new = inter::create(hold, &members, leader, peer, tag)?;
        new.info.replace(hints);
        new.errhandler.replace(errhandler);
        *out = give_comm(hold, Rc::new(new))?;
        Ok(())
    })
}

/// Names a communicator. MPI-4.1 §7.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_set_name(comm: MPI_Comm, comm_name: *const c_char) -> c_int {
    on_comm("MPI_Comm_set_name", comm, |_, comm| {
        let name = string(comm_name, "comm_name")?;
        comm.name.replace(Some(name));
        Ok(())
    })
}

/// A communicator's name; the null handle has one too. MPI-4.1 §7.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_get_name(comm: MPI_Comm, comm_name: *mut c_char, resultlen: *mut c_int) -> c_int {
    if comm == MPI_COMM_NULL {
        return on_world("MPI_Comm_get_name", |_| {
            store_string(comm_name, "comm_name", MPI_MAX_OBJECT_NAME, "MPI_COMM_NULL", resultlen)
        });
    }
    on_comm("MPI_Comm_get_name", comm, |_, object| {
        let given = object.name.borrow();
        let name = match (given.as_deref(), comm) {
            (Some(name), _) => name,
            (None, MPI_COMM_WORLD) => "MPI_COMM_WORLD",
            (None, MPI_COMM_SELF) => "MPI_COMM_SELF",
            _ => "",
        };
        store_string(comm_name, "comm_name", MPI_MAX_OBJECT_NAME, name, resultlen)
    })
}

/// Adds hints. MPI-4.1 §7.4.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_set_info(comm: MPI_Comm, info: MPI_Info) -> c_int {
    on_comm("MPI_Comm_set_info", comm, |_, comm| {
        comm.info.borrow_mut().update(&hints(info)?);
        Ok(())
    })
}

/// The hints that were given. MPI-4.1 §7.4.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Comm_get_info(comm: MPI_Comm, info_used: *mut MPI_Info) -> c_int {
    on_comm("MPI_Comm_get_info", comm, |_, comm| {
        let out = out(info_used, "info_used")?;
        *out = give_info(comm.info.borrow().in_use())?;
        Ok(())
    })
}
