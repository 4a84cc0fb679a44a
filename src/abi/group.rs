//! # Safety
//! Exports functions that reach the application's memory through the helpers of [`super::edge`] only.
//!
//! Groups (MPI-4.1 §7.3).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::source::Source;
use super::types::*;
use crate::fail;
use crate::mpi::group::Group;
use crate::mpi::status::UNDEFINED;
use crate::mpi::world::State;
use std::ffi::c_int;
use std::rc::Rc;

/// The group `handle` names.
///
/// # Errors
/// `Group`: the null handle, another kind of handle, or a freed group.
pub fn group(state: &State, handle: MPI_Group) -> Result<Rc<Group>> {
    if handle == MPI_GROUP_EMPTY {
        return Ok(Rc::default());
    }
    let key = Object::Group.key(handle)?;
    Object::Group.alive(handle, state.groups.get(key)).cloned()
}

/// A handle for `group`; that of the predefined empty group if it is empty.
///
/// # Errors
/// `NoMem`: 2^22 groups live already.
pub fn give_group(state: &mut State, group: Rc<Group>) -> Result<MPI_Group> {
    if group.size() == 0 {
        return Ok(MPI_GROUP_EMPTY);
    }
    Object::Group.made(state.groups.insert(group))
}

/// Runs `body` of a function of the group `handle`; its error goes to the session that the group came from, if it did (MPI-4.1 §9.3).
fn on_group(name: &'static str, handle: MPI_Group, body: impl FnOnce(&mut Hold) -> Result<()>) -> c_int {
    let source = |state: &State| {
        let session = group(state, handle).ok().and_then(|group| group.session.clone());
        match session {
            Some(session) => Source::session(state, &session),
            None => Source::anywhere(state),
        }
    };
    on_world_or(name, source, body)
}

/// Stores the group that `make` makes of `from`.
fn derive(
    name: &'static str,
    from: MPI_Group,
    newgroup: *mut MPI_Group,
    make: impl FnOnce(&State, &Group) -> Result<Group>,
) -> c_int {
    on_group(name, from, |hold| {
        let out = out(newgroup, "newgroup")?;
        let from = group(hold, from)?;
        let new = make(hold, &from)?;
        *out = give_group(hold, Rc::new(new))?;
        Ok(())
    })
}

/// Number of processes in `group`. MPI-4.1 §7.3.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_size(group: MPI_Group, size: *mut c_int) -> c_int {
    on_group("MPI_Group_size", group, |hold| {
        store(size, "size", self::group(hold, group)?.size() as c_int)
    })
}

/// The caller's rank in `group`, or MPI_UNDEFINED. MPI-4.1 §7.3.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_rank(group: MPI_Group, rank: *mut c_int) -> c_int {
    on_group("MPI_Group_rank", group, |hold| {
        let mine = self::group(hold, group)?.rank_of(hold.me());
        store(rank, "rank", mine.map_or(UNDEFINED, |rank| rank as c_int))
    })
}

/// Ranks in `group2` of the processes that have `ranks1` in `group1`. MPI-4.1 §7.3.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_translate_ranks(
    group1: MPI_Group,
    n: c_int,
    ranks1: *const c_int,
    group2: MPI_Group,
    ranks2: *mut c_int,
) -> c_int {
    on_group("MPI_Group_translate_ranks", group1, |hold| {
        let (from, to) = (group(hold, group1)?, group(hold, group2)?);
        let n = length(n, "n")?;
        let translated = from.translate(slice(ranks1, n, "ranks1")?, &to)?;
        slice_mut(ranks2, n, "ranks2")?.copy_from_slice(&translated);
        Ok(())
    })
}

/// Whether two groups have the same members, and in the same order. MPI-4.1 §7.3.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_compare(group1: MPI_Group, group2: MPI_Group, result: *mut c_int) -> c_int {
    on_group("MPI_Group_compare", group1, |hold| {
        let likeness = group(hold, group1)?.compare(&*group(hold, group2)?);
        store(result, "result", likeness as c_int)
    })
}

/// The processes of either group. MPI-4.1 §7.3.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_union(group1: MPI_Group, group2: MPI_Group, newgroup: *mut MPI_Group) -> c_int {
    derive("MPI_Group_union", group1, newgroup, |state, from| {
        Ok(from.union(&*group(state, group2)?))
    })
}

/// The processes of both groups. MPI-4.1 §7.3.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_intersection(
    group1: MPI_Group,
    group2: MPI_Group,
    newgroup: *mut MPI_Group,
) -> c_int {
    derive("MPI_Group_intersection", group1, newgroup, |state, from| {
        Ok(from.intersection(&*group(state, group2)?))
    })
}

/// The processes of `group1` that are not in `group2`. MPI-4.1 §7.3.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_difference(group1: MPI_Group, group2: MPI_Group, newgroup: *mut MPI_Group) -> c_int {
    derive("MPI_Group_difference", group1, newgroup, |state, from| {
        Ok(from.difference(&*group(state, group2)?))
    })
}

/// The processes at `ranks`, in that order. MPI-4.1 §7.3.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_incl(
    group: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut MPI_Group,
) -> c_int {
    derive("MPI_Group_incl", group, newgroup, |_, from| {
        from.incl(slice(ranks, length(n, "n")?, "ranks")?)
    })
}

/// All processes but those at `ranks`. MPI-4.1 §7.3.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_excl(
    group: MPI_Group,
    n: c_int,
    ranks: *const c_int,
    newgroup: *mut MPI_Group,
) -> c_int {
    derive("MPI_Group_excl", group, newgroup, |_, from| {
        from.excl(slice(ranks, length(n, "n")?, "ranks")?)
    })
}

/// The processes at the ranks of `ranges`. MPI-4.1 §7.3.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_range_incl(
    group: MPI_Group,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut MPI_Group,
) -> c_int {
    derive("MPI_Group_range_incl", group, newgroup, |_, from| {
        from.range_incl(slice(ranges, length(n, "n")?, "ranges")?)
    })
}

/// All processes but those at the ranks of `ranges`. MPI-4.1 §7.3.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_range_excl(
    group: MPI_Group,
    n: c_int,
    ranges: *mut [c_int; 3],
    newgroup: *mut MPI_Group,
) -> c_int {
    derive("MPI_Group_range_excl", group, newgroup, |_, from| {
        from.range_excl(slice(ranges, length(n, "n")?, "ranges")?)
    })
}

/// Frees a group's handle. MPI-4.1 §7.3.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Group_free(group: *mut MPI_Group) -> c_int {
    on_world("MPI_Group_free", |hold| {
        let handle = out(group, "group")?;
        self::group(hold, *handle)?;
        if *handle != MPI_GROUP_EMPTY {
            hold.groups.remove(Object::Group.key(*handle)?);
        }
        *handle = MPI_GROUP_NULL;
        Ok(())
    })
}

/// The number of elements of an array argument.
pub(super) fn length(n: c_int, name: &str) -> Result<usize> {
    if n < 0 {
        fail!(Arg, "{name} is {n} but must not be negative");
    }
    Ok(n as usize)
}

/// An argument that is written, checked before anything is done for it.
pub(super) fn out<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T> {
    Ok(&mut slice_mut(pointer, 1, name)?[0])
}
