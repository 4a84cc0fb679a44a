//! A machine: its objects (packages, caches, cores...), each with the CPUs it holds.

use super::{hwloc, xml};
use crate::sys::cpuset::CpuSet;
use crate::sys::topology::{Groups, Level, SYS};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// What an object is; outer ones first, as far as one can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Kind {
    Machine,
    Group,
    Package,
    Die,
    Node,
    L5,
    L4,
    L3,
    L2,
    L1,
    Core,
    Pu,
}

impl Kind {
    /// Every kind with its names: ours first, then those of hwloc's versions and of both launchers' options.
    const NAMES: [(Kind, &[&str]); 12] = [
        (Kind::Machine, &["machine", "node", "board"]),
        (Kind::Group, &["group"]),
        (Kind::Package, &["package", "socket"]),
        (Kind::Die, &["die"]),
        (Kind::Node, &["numa", "numanode"]),
        (Kind::L5, &["l5cache"]),
        (Kind::L4, &["l4cache"]),
        (Kind::L3, &["l3cache", "l3ucache"]),
        (Kind::L2, &["l2cache", "l2ucache"]),
        (Kind::L1, &["l1cache", "l1dcache"]),
        (Kind::Core, &["core", "cpu", "slot"]),
        (Kind::Pu, &["hwthread", "pu"]),
    ];

    /// The kind of that name; letters' case does not count.
    pub fn named(name: &str) -> Option<Kind> {
        let name = name.to_ascii_lowercase();
        let found = Kind::NAMES.iter().find(|(_, names)| names.contains(&name.as_str()))?;
        Some(found.0)
    }

    /// What reports and options call it.
    pub fn name(self) -> &'static str {
        Kind::NAMES
            .iter()
            .find(|(kind, _)| *kind == self)
            .map_or("", |(_, names)| names[0])
    }
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// The number that the kernel gives it.
    pub number: Option<u32>,
    /// Bytes of a cache or of a node's memory; 0 where unknown.
    pub bytes: u64,
    /// Its CPUs.
    pub cpus: CpuSet,
}

/// A machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// Its objects from the outside in, and within a kind in the order of the machine.
    objects: Vec<Object>,
    /// The CPUs in the order of the machine: those that share much lie side by side.
    order: Vec<usize>,
    /// Distance between two NUMA nodes by their numbers, as the firmware says it.
    distances: BTreeMap<(u32, u32), u64>,
}

impl Machine {
    /// The machine that these objects make. CPUs come in the order of their `Kind::Pu` objects; where there
    /// are no cores, every CPU is one.
    ///
    /// # Errors
    /// A sentence when there is no CPU.
    pub fn new(mut objects: Vec<Object>, distances: BTreeMap<(u32, u32), u64>) -> Result<Machine, String> {
        objects.retain(|object| !object.cpus.is_empty());
        let order: Vec<usize> = objects
            .iter()
            .filter(|o| o.kind == Kind::Pu)
            .filter_map(|o| o.cpus.first())
            .collect();
        if order.is_empty() {
            return Err("no CPU in it".into());
        }
        let all: CpuSet = order.iter().copied().collect();
        objects
            .iter_mut()
            .for_each(|object| object.cpus = object.cpus.and(&all));
        if !objects.iter().any(|o| o.kind == Kind::Core) {
            let core = |(number, &cpu): (usize, &usize)| Object {
                kind: Kind::Core,
                number: Some(number as u32),
                bytes: 0,
                cpus: [cpu].into_iter().collect(),
            };
            objects.extend(order.iter().enumerate().map(core).collect::<Vec<_>>());
        }
        objects.retain(|object| object.kind != Kind::Machine);
        objects.push(Object {
            kind: Kind::Machine,
            number: None,
            bytes: 0,
            cpus: all,
        });
        let place: BTreeMap<usize, usize> = order.iter().enumerate().map(|(at, &cpu)| (cpu, at)).collect();
        let first = |object: &Object| object.cpus.iter().filter_map(|cpu| place.get(&cpu)).min().copied();
        // Stable: of objects with the same CPUs the one that was named first is the outer one.
        objects.sort_by_key(|object| {
            (
                object.kind != Kind::Machine,
                usize::MAX - object.cpus.count(),
                first(object),
                object.kind,
            )
        });
        Ok(Machine {
            objects,
            order,
            distances,
        })
    }

    /// The machine we are on: by hwloc where it can be loaded (`library` is its file, "none" forbids it), else by
    /// /sys, and why.
    ///
    /// # Errors
    /// A sentence when neither tells.
    pub fn host(library: Option<&str>) -> Result<(Machine, Option<String>), String> {
        let notice = match hwloc::export(library).and_then(|text| xml::machine(&text)) {
            Ok(machine) => return Ok((machine, None)),
            Err(why) => format!("no hwloc ({why}); reading /sys instead"),
        };
        Ok((Machine::from_sys(Path::new(SYS))?, Some(notice)))
    }

    /// The machine of `source`: `host`, or the name of an XML file that hwloc's `lstopo` wrote.
    ///
    /// # Errors
    /// A sentence that names the file.
    pub fn of(source: &str, library: Option<&str>) -> Result<(Machine, Option<String>), String> {
        if source == "host" {
            return Machine::host(library);
        }
        let text = fs::read_to_string(source).map_err(|why| format!("{source}: {why}"))?;
        let machine = xml::machine(&text).map_err(|why| format!("{source}: not a topology that hwloc wrote: {why}"))?;
        Ok((machine, None))
    }

    /// The machine that the folder `sys` describes, as far as this process may use it.
    ///
    /// # Errors
    /// A sentence when it names no CPU.
    pub fn from_sys(sys: &Path) -> Result<Machine, String> {
        let online = fs::read_to_string(sys.join("cpu/online")).ok();
        let cpus = online.and_then(|list| CpuSet::parse(&list).ok());
        let cpus = cpus
            .filter(|cpus| !cpus.is_empty())
            .unwrap_or_else(|| crate::sys::cpu::mask(0));
        let groups = Groups::of_all(sys, &cpus);
        let mut sorted: Vec<usize> = cpus.iter().collect();
        let name = |group: &Option<(u32, CpuSet)>| group.as_ref().map_or(u32::MAX, |(name, _)| *name);
        sorted.sort_by_key(|cpu| {
            let g = &groups[cpu];
            [
                name(&g.package),
                name(&g.node),
                name(&g.l3),
                name(&g.l2),
                name(&g.core),
                *cpu as u32,
            ]
        });
        let mut objects: Vec<Object> = Vec::new();
        let mut distances = BTreeMap::new();
        for &cpu in &sorted {
            let g = &groups[&cpu];
            let kinds = [
                (Kind::Package, &g.package, true),
                (Kind::Node, &g.node, true),
                (Kind::L3, &g.l3, false),
                (Kind::L2, &g.l2, false),
                (Kind::Core, &g.core, false),
            ];
            for (kind, group, numbered) in kinds {
                let Some((number, members)) = group else { continue };
                if objects.iter().any(|o| o.kind == kind && o.cpus.has(cpu)) {
                    continue;
                }
                let alike = objects.iter().filter(|o| o.kind == kind).count() as u32;
                let number = if numbered { *number } else { alike };
                objects.push(Object {
                    kind,
                    number: Some(number),
                    bytes: 0,
                    cpus: members.and(&cpus),
                });
                if kind == Kind::Node {
                    let list = fs::read_to_string(sys.join(format!("node/node{number}/distance"))).unwrap_or_default();
                    let values = list.split_whitespace().filter_map(|word| word.parse().ok());
                    let nodes = fs::read_to_string(sys.join("node/online")).ok();
                    let nodes = nodes.and_then(|list| CpuSet::parse(&list).ok()).unwrap_or_default();
                    distances.extend(nodes.iter().zip(values).map(|(to, far)| ((number, to as u32), far)));
                }
            }
            let one = [cpu].into_iter().collect();
            objects.push(Object {
                kind: Kind::Pu,
                number: Some(cpu as u32),
                bytes: 0,
                cpus: one,
            });
        }
        Machine::new(objects, distances)
    }

    /// What is left of it when only `cpus` may be used.
    ///
    /// # Errors
    /// A sentence when nothing is.
    pub fn restricted(&self, cpus: &CpuSet) -> Result<Machine, String> {
        let mut objects = self.objects.clone();
        objects
            .iter_mut()
            .for_each(|object| object.cpus = object.cpus.and(cpus));
        // The order of the machine is that of its CPUs.
        let place = |object: &Object| self.order.iter().position(|cpu| object.cpus.has(*cpu));
        objects.sort_by_key(|object| (object.kind, place(object)));
        Machine::new(objects, self.distances.clone()).map_err(|_| format!("none of the CPUs {cpus} is in this machine"))
    }

    /// All objects, outer ones before inner ones.
    pub fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// The objects of one kind, in the order of the machine.
    pub fn all(&self, kind: Kind) -> Vec<&Object> {
        self.objects.iter().filter(|object| object.kind == kind).collect()
    }

    /// The CPUs in the order of the machine.
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// All CPUs.
    pub fn cpus(&self) -> CpuSet {
        self.order.iter().copied().collect()
    }

    /// The sets that one rank each may be bound to: the cores, or every hardware thread.
    pub fn places(&self, hwthreads: bool) -> Vec<CpuSet> {
        let kind = if hwthreads { Kind::Pu } else { Kind::Core };
        let mut places: Vec<CpuSet> = self.all(kind).into_iter().map(|object| object.cpus.clone()).collect();
        let at = |set: &CpuSet| self.order.iter().position(|cpu| set.has(*cpu));
        places.sort_by_key(at);
        places
    }

    /// The object of that kind that holds all of `cpus`.
    pub fn around(&self, kind: Kind, cpus: &CpuSet) -> Option<&Object> {
        self.objects
            .iter()
            .find(|object| object.kind == kind && cpus.within(&object.cpus))
    }

    /// The nearest thing that all of `cpus` share.
    pub fn level(&self, cpus: &CpuSet) -> Level {
        let shared = |kind| self.around(kind, cpus).is_some();
        match () {
            () if shared(Kind::Core) || shared(Kind::L2) => Level::L2,
            () if shared(Kind::L3) => Level::L3,
            () if shared(Kind::Node) => Level::Node,
            () if shared(Kind::Package) => Level::Package,
            () => Level::Other,
        }
    }

    /// How far the NUMA nodes of two sets of CPUs are apart, where the machine says so.
    pub fn distance(&self, a: &CpuSet, b: &CpuSet) -> Option<u64> {
        let node = |cpus| self.around(Kind::Node, cpus)?.number;
        self.distances.get(&(node(a)?, node(b)?)).copied()
    }

    /// The outermost kind of which there are several: what round-robin goes round.
    pub fn outer(&self) -> Kind {
        let several = |kind: &&Kind| self.all(**kind).len() > 1;
        let kinds = [Kind::Group, Kind::Package, Kind::Die, Kind::Node, Kind::L3, Kind::L2];
        kinds.iter().find(several).copied().unwrap_or(Kind::Core)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hwloc_and_sys_agree_about_this_machine() {
        let Ok(text) = hwloc::export(None) else { return };
        let (theirs, ours) = (xml::machine(&text).unwrap(), Machine::from_sys(Path::new(SYS)).unwrap());
        let allowed = crate::sys::cpu::mask(0);
        let (theirs, ours) = (theirs.restricted(&allowed).unwrap(), ours.restricted(&allowed).unwrap());
        assert_eq!(theirs.places(false), ours.places(false));
        for pair in theirs.places(true).windows(2) {
            let mut both = pair[0].clone();
            both.join(&pair[1]);
            assert_eq!(theirs.level(&both), ours.level(&both), "{both}");
        }
    }

    #[test]
    fn kinds_have_the_names_of_both_launchers() {
        for (name, kind) in [
            ("socket", Kind::Package),
            ("NUMA", Kind::Node),
            ("L3Cache", Kind::L3),
            ("slot", Kind::Core),
        ] {
            assert_eq!(Kind::named(name), Some(kind));
        }
        assert_eq!(Kind::named("galaxy"), None);
        assert!(Kind::NAMES.iter().all(|(kind, names)| kind.name() == names[0]));
    }

    #[test]
    fn a_missing_file_is_named() {
        assert!(
            Machine::of("/nonexistent.xml", None)
                .unwrap_err()
                .contains("/nonexistent.xml")
        );
        assert!(Machine::new(vec![], BTreeMap::new()).is_err());
    }
}
