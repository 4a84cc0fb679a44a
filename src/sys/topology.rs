//! What CPUs share, as /sys tells: the levels that thresholds, placement and binding go by.
//! Source: Documentation/ABI/stable/sysfs-devices-system-cpu of Linux.

use super::cpuset::CpuSet;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where Linux describes the CPUs.
pub const SYS: &str = "/sys/devices/system";

/// The nearest thing that two ranks share; the lower, the nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// A core or its second-level cache.
    L2 = 0,
    /// A third-level cache.
    L3 = 1,
    /// A NUMA node.
    Node = 2,
    /// A package (socket).
    Package = 3,
    /// The machine only, or nobody knows.
    Other = 4,
}

impl Level {
    /// All, the nearest first.
    pub const ALL: [Level; 5] = [Level::L2, Level::L3, Level::Node, Level::Package, Level::Other];

    /// What reports call it.
    pub fn name(self) -> &'static str {
        match self {
            Level::L2 => "shared L2",
            Level::L3 => "shared L3",
            Level::Node => "same NUMA node",
            Level::Package => "same package",
            Level::Other => "other",
        }
    }
}

/// Where a rank runs: of each kind of thing, the one that all its CPUs belong to; `None` where they
/// belong to several, or /sys does not tell. A cache is named by its lowest CPU. So two numbers and
/// a comparison tell what two ranks share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// Core, by its lowest CPU.
    pub core: Option<u32>,
    /// Second-level cache.
    pub l2: Option<u32>,
    /// Third-level cache.
    pub l3: Option<u32>,
    /// NUMA node.
    pub node: Option<u32>,
    /// Package.
    pub package: Option<u32>,
}

impl Place {
    /// Where a rank is that may run on `cpus`. Reads a dozen small files.
    pub fn of(cpus: &CpuSet) -> Place {
        Place::under(Path::new(SYS), cpus)
    }

    /// The same, with another folder in place of [`SYS`].
    pub fn under(sys: &Path, cpus: &CpuSet) -> Place {
        let first = cpus.first();
        first.map_or_else(Place::default, |first| Groups::of(sys, first).place(cpus))
    }

    /// The nearest thing that this place shares with `other`.
    pub fn level(&self, other: &Place) -> Level {
        let same = |a: Option<u32>, b: Option<u32>| a.is_some() && a == b;
        match () {
            () if same(self.core, other.core) || same(self.l2, other.l2) => Level::L2,
            () if same(self.l3, other.l3) => Level::L3,
            () if same(self.node, other.node) => Level::Node,
            () if same(self.package, other.package) => Level::Package,
            () => Level::Other,
        }
    }
}

/// What one CPU belongs to: the thing's name and all its CPUs.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// Core, by its lowest CPU.
    pub core: Option<(u32, CpuSet)>,
    /// Second-level cache, by its lowest CPU.
    pub l2: Option<(u32, CpuSet)>,
    /// Third-level cache, by its lowest CPU.
    pub l3: Option<(u32, CpuSet)>,
    /// NUMA node.
    pub node: Option<(u32, CpuSet)>,
    /// Package.
    pub package: Option<(u32, CpuSet)>,
}

impl Groups {
    /// What `cpu` belongs to. Reads a dozen small files.
    pub fn around(cpu: usize) -> Groups {
        Groups::of(Path::new(SYS), cpu)
    }

    /// The same, as the folder `sys` has it.
    pub fn of(sys: &Path, cpu: usize) -> Groups {
        Groups::beside(sys, cpu, &BTreeMap::new())
    }

    /// Where a rank is that may run on `cpus`, the first of which belongs to these.
    pub fn place(&self, cpus: &CpuSet) -> Place {
        let common = |group: &Option<(u32, CpuSet)>| {
            let (name, members) = group.as_ref()?;
            cpus.within(members).then_some(*name)
        };
        Place {
            core: common(&self.core),
            l2: common(&self.l2),
            l3: common(&self.l3),
            node: common(&self.node),
            package: common(&self.package),
        }
    }

    /// The same for each of `cpus`; reads what several share once.
    pub fn of_all(sys: &Path, cpus: &CpuSet) -> BTreeMap<usize, Groups> {
        let mut all = BTreeMap::new();
        for cpu in cpus.iter() {
            let groups = Groups::beside(sys, cpu, &all);
            all.insert(cpu, groups);
        }
        all
    }

    fn beside(sys: &Path, cpu: usize, known: &BTreeMap<usize, Groups>) -> Groups {
        let folder = sys.join(format!("cpu/cpu{cpu}"));
        let core = || either(&folder, "topology/core_cpus_list", "topology/thread_siblings_list").and_then(by_lowest);
        Groups {
            core: shared(known, cpu, |g| &g.core).or_else(core),
            l2: shared(known, cpu, |g| &g.l2).or_else(|| caches(&folder, "2")),
            l3: shared(known, cpu, |g| &g.l3).or_else(|| caches(&folder, "3")),
            node: shared(known, cpu, |g| &g.node).or_else(|| node(sys, &folder)),
            package: shared(known, cpu, |g| &g.package).or_else(|| package(&folder)),
        }
    }
}

/// Third-level caches, nodes and packages, each read from a dozen small files when it is asked for the first time.
#[derive(Debug)]
pub struct Known {
    sys: PathBuf,
    /// Of each of the three, sets of CPUs, and whether they are told to belong together.
    sets: [Vec<(CpuSet, bool)>; 3],
}

impl Default for Known {
    fn default() -> Known {
        Known::under(Path::new(SYS))
    }
}

impl Known {
    fn under(sys: &Path) -> Known {
        Known {
            sys: sys.into(),
            sets: Default::default(),
        }
    }

    /// Whether ranks that may run on these CPUs share no third-level cache, node or package, where both have one.
    pub fn are_far(&mut self, mine: &CpuSet, theirs: &CpuSet) -> bool {
        (0..self.sets.len()).any(|kind| {
            let shared = self.around(kind, mine);
            shared.is_some_and(|index| !theirs.within(&self.sets[kind][index].0) && self.around(kind, theirs).is_some())
        })
    }

    /// Which set of this kind holds all of `cpus`.
    fn around(&mut self, kind: usize, cpus: &CpuSet) -> Option<usize> {
        let first = cpus.first()?;
        let index = match self.sets[kind].iter().position(|(set, _)| set.has(first)) {
            Some(index) => index,
            None => {
                let folder = self.sys.join(format!("cpu/cpu{first}"));
                let thing = match kind {
                    0 => caches(&folder, "3"),
                    1 => node(&self.sys, &folder),
                    _ => package(&folder),
                };
                let told = thing.is_some();
                let set = thing.map_or_else(|| [first].into_iter().collect(), |(_, set)| set);
                self.sets[kind].push((set, told));
                self.sets[kind].len() - 1
            }
        };
        let (set, told) = &self.sets[kind][index];
        (*told && cpus.within(set)).then_some(index)
    }
}

fn by_lowest(set: CpuSet) -> Thing {
    Some((set.first()? as u32, set))
}

/// The CPUs that a file in `folder` lists; older kernels know its second name only.
fn either(folder: &Path, new: &str, old: &str) -> Option<CpuSet> {
    let list = |file: &str| text(&folder.join(file)).and_then(|list| CpuSet::parse(&list).ok());
    list(new).or_else(|| list(old))
}

/// The package of the CPU in `folder`.
fn package(folder: &Path) -> Thing {
    let set = either(folder, "topology/package_cpus_list", "topology/core_siblings_list")?;
    let number = text(&folder.join("topology/physical_package_id")).and_then(|id| id.parse().ok());
    Some((number.or(set.first().map(|cpu| cpu as u32))?, set))
}

/// The cache of that level of the CPU in `folder`, which mostly has the level's number, as there are two of the first.
fn caches(folder: &Path, level: &str) -> Thing {
    let index = |index: &str| cache(&folder.join(format!("cache/index{index}")), level);
    index(level)
        .or_else(|| (0..8).find_map(|number: u8| index(&number.to_string())))
        .and_then(by_lowest)
}

/// A thing and its CPUs.
type Thing = Option<(u32, CpuSet)>;

/// The thing that holds `cpu`, if a CPU before it has named it.
fn shared(known: &BTreeMap<usize, Groups>, cpu: usize, thing: impl Fn(&Groups) -> &Thing) -> Thing {
    let mut things = known.values().rev().filter_map(|groups| thing(groups).as_ref());
    things.find(|(_, members)| members.has(cpu)).cloned()
}

/// The CPUs that share the cache in `folder`, if it is one of that level for data.
fn cache(folder: &Path, level: &str) -> Option<CpuSet> {
    let fits = text(&folder.join("level"))? == level && text(&folder.join("type"))? != "Instruction";
    fits.then(|| text(&folder.join("shared_cpu_list")).and_then(|list| CpuSet::parse(&list).ok()))?
}

/// The NUMA node of the CPU in `folder`, which holds a link named after it.
fn node(sys: &Path, folder: &Path) -> Thing {
    let number = fs::read_dir(folder).ok()?.flatten().find_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix("node")?.parse::<u32>().ok()
    })?;
    let list = text(&sys.join(format!("node/node{number}/cpulist")))?;
    Some((number, CpuSet::parse(&list).ok()?))
}

/// The NUMA nodes that have memory or CPUs; one where the kernel does not tell.
pub fn nodes() -> CpuSet {
    let online = text(&Path::new(SYS).join("node/online"));
    let nodes = online.and_then(|list| CpuSet::parse(&list).ok());
    nodes
        .filter(|nodes| !nodes.is_empty())
        .unwrap_or_else(|| [0].into_iter().collect())
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that describes two packages of two nodes of two cores of two threads; an L3 for each node.
    fn sys(name: &str) -> PathBuf {
        let root = std::env::temp_dir().join(format!("nearmpi-{name}-{}", std::process::id()));
        let write = |path: String, text: String| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text + "\n").unwrap();
        };
        for cpu in 0..16 {
            let (core, node, package) = (cpu / 2, cpu / 4, cpu / 8);
            let range = |size: usize| format!("{}-{}", cpu / size * size, cpu / size * size + size - 1);
            let file = |name: &str| format!("cpu/cpu{cpu}/{name}");
            write(file("topology/physical_package_id"), package.to_string());
            write(file("topology/core_id"), core.to_string());
            write(file("topology/core_cpus_list"), range(2));
            write(file("topology/package_cpus_list"), range(8));
            let caches = [
                ("1", "Data", 2),
                ("1", "Instruction", 2),
                ("2", "Unified", 2),
                ("3", "Unified", 4),
            ];
            for (index, (level, kind, size)) in caches.into_iter().enumerate() {
                write(file(&format!("cache/index{index}/level")), level.into());
                write(file(&format!("cache/index{index}/type")), kind.into());
                write(file(&format!("cache/index{index}/shared_cpu_list")), range(size));
            }
            write(file(&format!("node{node}/x")), String::new());
            write(format!("node/node{node}/cpulist"), range(4));
        }
        root
    }

    #[test]
    fn two_places_share_what_sys_says() {
        let root = sys("levels");
        let place = |list: &str| Place::under(&root, &CpuSet::parse(list).unwrap());
        for (a, b, level) in [
            ("0", "1", Level::L2),
            ("0", "2", Level::L3),
            ("0-1", "2-3", Level::L3),
            ("0", "4", Level::Package),
            ("0-3", "0-3", Level::L3),
            ("0-7", "0-7", Level::Package),
            ("0-7", "3", Level::Package),
            ("0", "8", Level::Other),
            ("0-15", "0-15", Level::Other),
        ] {
            assert_eq!(place(a).level(&place(b)), level, "{a} and {b}");
        }
        assert_eq!(place("5").node, Some(1));
        assert_eq!(place("9").package, Some(1));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn ranks_are_far_apart_when_a_known_thing_is_not_shared() {
        let root = sys("far");
        let mut known = Known::under(&root);
        let mut far = |mine: &str, theirs: &str| {
            let parse = |list| CpuSet::parse(list).unwrap();
            known.are_far(&parse(mine), &parse(theirs))
        };
        for (mine, theirs, expected) in [
            ("0", "0", false),
            ("0", "3", false),
            ("0-1", "2-3", false),
            ("0", "4", true),
            ("0", "8", true),
            // Of what has CPUs in several nobody knows where it runs.
            ("0-7", "0", false),
            ("0", "0-7", false),
            ("0-7", "8-15", true),
            ("0-15", "8", false),
        ] {
            assert_eq!(far(mine, theirs), expected, "{mine} and {theirs}");
            assert_eq!(far(theirs, mine), expected, "{theirs} and {mine}");
        }
        let [one, other] = ["0", "1"].map(|list| CpuSet::parse(list).unwrap());
        assert!(!Known::under(Path::new("/nonexistent")).are_far(&one, &other));
        // What has been read is not read again.
        fs::remove_dir_all(root).unwrap();
        assert!(known.are_far(&one, &CpuSet::parse("9").unwrap()));
    }

    #[test]
    fn who_knows_nothing_shares_nothing() {
        let nowhere = Place::under(Path::new("/nonexistent"), &CpuSet::parse("0").unwrap());
        assert_eq!(nowhere, Place::default());
        assert_eq!(nowhere.level(&nowhere), Level::Other);
    }

    #[test]
    fn this_machine_can_be_read() {
        let mine = Place::of(&CpuSet::parse("0").unwrap());
        assert!(Path::new(SYS).exists() == mine.package.is_some() || mine.core.is_some());
        assert!(!nodes().is_empty());
    }
}
