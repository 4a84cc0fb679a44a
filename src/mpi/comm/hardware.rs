//! Splitting a communicator by the hardware its processes run on (MPI-4.1 §7.4.2), from what /sys tells.

use super::Comm;
use super::create::{Choice, split};
use crate::mpi::coll::allgather_bytes;
use crate::mpi::error::Result;
use crate::mpi::status::UNDEFINED;
use crate::mpi::world::{Hold, State};
use crate::sys::cpu;
use crate::sys::cpuset::CpuSet;
use crate::sys::file;
use crate::sys::topology::{Groups, Place};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

/// A kind of hardware that processes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Resource {
    Machine,
    Package,
    Node,
    L3,
    L2,
    Core,
    Thread,
}

impl Resource {
    /// All, the outermost first.
    pub const ALL: [Resource; 7] = [
        Resource::Machine,
        Resource::Package,
        Resource::Node,
        Resource::L3,
        Resource::L2,
        Resource::Core,
        Resource::Thread,
    ];

    /// Its name as hwloc has it, which is what MPICH and Open MPI know.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Machine => "hwloc://Machine",
            Resource::Package => "hwloc://Package",
            Resource::Node => "hwloc://NUMANode",
            Resource::L3 => "hwloc://L3Cache",
            Resource::L2 => "hwloc://L2Cache",
            Resource::Core => "hwloc://Core",
            Resource::Thread => "hwloc://PU",
        }
    }

    /// The resource of a name, in any case, with or without `hwloc://`.
    pub fn named(name: &[u8]) -> Option<Resource> {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        Some(match name.strip_prefix("hwloc://").unwrap_or(&name) {
            "mpi_shared_memory" | "machine" => Resource::Machine,
            "package" | "socket" => Resource::Package,
            "numanode" | "numa" => Resource::Node,
            "l3cache" | "l3" => Resource::L3,
            "l2cache" | "l2" => Resource::L2,
            "core" => Resource::Core,
            "pu" | "hwthread" => Resource::Thread,
            _ => return None,
        })
    }

    /// Which of these a process at `here` is confined to; `None` if it may run on several.
    pub fn of(self, here: &Here) -> Option<u32> {
        match self {
            Resource::Machine => Some(0),
            Resource::Package => here.place.package,
            Resource::Node => here.place.node,
            Resource::L3 => here.place.l3,
            Resource::L2 => here.place.l2,
            Resource::Core => here.place.core,
            Resource::Thread => here.thread,
        }
    }
}

/// Where a process runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Here {
    /// What its CPUs belong to.
    pub place: Place,
    /// Its CPU, if it has but one.
    pub thread: Option<u32>,
}

/// Bytes of a [`Here`] in a message.
const LEN: usize = 24;

impl State {
    /// Where the caller may run now. Reads a dozen small files unless the first of its CPUs is the same as the last time.
    pub fn here(&mut self) -> Here {
        let cpus = cpu::mask(0);
        let Some(first) = cpus.first() else {
            return Here::default();
        };
        let known = self.around.take().filter(|&(cpu, _)| cpu == first);
        let (_, around) = self
            .around
            .insert(known.unwrap_or_else(|| (first, Groups::around(first))));
        Here::among(&cpus, around)
    }
}

impl Here {
    /// Where the caller may run now. Reads a dozen small files.
    pub fn now() -> Here {
        let cpus = cpu::mask(0);
        let around = cpus.first().map(Groups::around).unwrap_or_default();
        Here::among(&cpus, &around)
    }

    /// Where a process is that may run on `cpus`, the first of which belongs to these.
    fn among(cpus: &CpuSet, around: &Groups) -> Here {
        let only = cpus.first().filter(|_| cpus.count() == 1);
        Here {
            place: around.place(cpus),
            thread: only.map(|cpu| cpu as u32),
        }
    }

    fn to_bytes(self) -> [u8; LEN] {
        let Place {
            core,
            l2,
            l3,
            node,
            package,
        } = self.place;
        let mut bytes = [0; LEN];
        for (at, number) in [core, l2, l3, node, package, self.thread].into_iter().enumerate() {
            bytes[4 * at..4 * at + 4].copy_from_slice(&number.unwrap_or(u32::MAX).to_ne_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; LEN]) -> Here {
        let mut numbers = bytes.as_chunks().0.iter().map(|&number| u32::from_ne_bytes(number));
        let mut next = || numbers.next().filter(|&number| number != u32::MAX);
        Here {
            place: Place {
                core: next(),
                l2: next(),
                l3: next(),
                node: next(),
                package: next(),
            },
            thread: next(),
        }
    }
}

/// Where every process of `comm` runs, by rank. Collective.
///
/// # Errors
/// A peer that left the protocol.
pub fn everybody(hold: &mut Hold, comm: &Rc<Comm>) -> Result<Vec<Here>> {
    let here = hold.here();
    let all = allgather_bytes(hold, comm, &here.to_bytes())?;
    Ok(all.as_chunks().0.iter().map(Here::from_bytes).collect())
}

/// The processes of `comm` on the caller's piece of `resource`; `None` for those not confined to one.
/// Collective.
///
/// # Errors
/// As [`split`].
pub fn guided(hold: &mut Hold, comm: &Rc<Comm>, resource: Resource, key: i32) -> Result<Option<Comm>> {
    let piece = resource.of(&hold.here());
    let color = piece.map_or(UNDEFINED, |piece| piece as i32);
    split(hold, comm, Choice { color, key })
}

/// The same for the outermost resource that divides those processes of `comm` that ask for this, with the resource; `None`
/// if none does, and for those not confined to a piece of it. Collective, where the others call [`split`] without a color.
///
/// # Errors
/// As [`split`].
pub fn unguided(hold: &mut Hold, comm: &Rc<Comm>, key: i32) -> Result<(Option<Comm>, Option<Resource>)> {
    let Some(part) = split(hold, comm, Choice { color: 0, key })?.map(Rc::new) else {
        return Ok((None, None));
    };
    let everybody = everybody(hold, part.local.as_ref().unwrap_or(&part))?;
    let resource = dividing(&everybody);
    let piece = resource.and_then(|resource| resource.of(&everybody[part.rank as usize]));
    let color = piece.map_or(UNDEFINED, |piece| piece as i32);
    Ok((
        split(hold, &part, Choice { color, key })?,
        resource.filter(|_| piece.is_some()),
    ))
}

/// The part of `comm` whose members name the same directory; `None` to those who name none. MPICH's extension. Collective.
///
/// # Errors
/// As [`split`].
pub fn neighborhood(hold: &mut Hold, comm: &Rc<Comm>, directory: &[u8], key: i32) -> Result<Option<Comm>> {
    let color = match file::directory(Path::new(OsStr::from_bytes(directory))) {
        // One machine has few file systems, and two directories of one differ in their numbers.
        Some((device, number)) => ((device.wrapping_mul(0x9E37_79B9) ^ number) & i32::MAX as u64) as i32,
        None => UNDEFINED,
    };
    split(hold, comm, Choice { color, key })
}

/// The outermost resource of which some process has a piece that not all of them share.
fn dividing(everybody: &[Here]) -> Option<Resource> {
    let divides = |resource: &Resource| {
        let mut pieces = everybody.iter().map(|here| resource.of(here));
        let first = pieces.next().flatten();
        let same = pieces.clone().all(|piece| piece == first);
        !same && (first.is_some() || pieces.any(|piece| piece.is_some()))
    };
    Resource::ALL.into_iter().find(divides)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(package: u32, core: Option<u32>) -> Here {
        Here {
            place: Place {
                core,
                package: Some(package),
                ..Place::default()
            },
            thread: None,
        }
    }

    #[test]
    fn the_outermost_resource_that_divides_is_taken() {
        assert_eq!(dividing(&[at(0, Some(0)), at(1, Some(4))]), Some(Resource::Package));
        assert_eq!(dividing(&[at(1, Some(0)), at(1, Some(4))]), Some(Resource::Core));
        assert_eq!(dividing(&[at(1, None), at(1, Some(4))]), Some(Resource::Core));
        assert_eq!(dividing(&[at(1, Some(4)), at(1, Some(4))]), None);
        assert_eq!(dividing(&[at(1, None), at(1, None)]), None);
    }

    #[test]
    fn every_resource_answers_to_its_name_and_places_travel() {
        for resource in Resource::ALL {
            assert_eq!(Resource::named(resource.name().as_bytes()), Some(resource));
        }
        assert_eq!(Resource::named(b"NumaNode"), Some(Resource::Node));
        assert_eq!(Resource::named(b"blah"), None);
        let here = Here {
            thread: Some(7),
            ..at(3, None)
        };
        assert_eq!(Here::from_bytes(&here.to_bytes()), here);
    }
}
