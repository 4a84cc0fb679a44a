//! Where ranks run: what the command line says about it, worked out on this machine, and the report of it.

use crate::allocation::Lookup;
use crate::options::Action;
use crate::{directives, intel};
use mpi::place::machine::{Kind, Machine};
use mpi::place::mapping::{self, BindTo, MapBy, Wish};
use mpi::sys::cpu;
use mpi::sys::cpuset::CpuSet;
use mpi::sys::pages::Policy;
use mpi::sys::topology::{SYS, nodes};
use std::path::Path;

/// What the command line says.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Binding {
    pub wish: Wish,
    /// Say who is bound where.
    pub report: bool,
    /// Where the ranks' own memory comes from.
    pub policy: Option<Policy>,
    /// Say which ranks run on this machine.
    pub ranks: bool,
    /// Say at the end on which NUMA nodes the ranks' memory lies.
    pub memory: bool,
    /// The library that describes the machine, where the environment names one.
    library: Option<String>,
    /// The variable that says what the ranks are bound to, with its value.
    source: Option<String>,
}

/// What came of it.
pub struct Places {
    machine: Machine,
    /// The CPUs of each rank; none for one that is not bound.
    pub sets: Vec<CpuSet>,
    /// Ranks that can have a CPU of their own at the same time.
    pub own_cpus: usize,
    /// Why hwloc was not asked.
    pub notice: Option<String>,
}

impl Binding {
    /// Takes an option of the table's placement family.
    ///
    /// # Errors
    /// A sentence with the value.
    pub fn take(&mut self, action: Action, value: &str) -> Result<(), String> {
        match action {
            Action::BindTo => self.wish.bind = Some(BindTo::parse(value)?),
            Action::MapBy => {
                // Words about the mapping alone leave it as it is.
                let map = MapBy::parse(value)?;
                let as_usual = value.starts_with(':') && matches!(map, MapBy::Objects { cores: 1, .. });
                self.wish.map = Some(map).filter(|_| !as_usual).or(self.wish.map.take());
            }
            Action::RankFile => self.wish.map = Some(MapBy::File(value.to_string())),
            Action::RankBy => self.wish.rank = Some(mapping::rank_by(value)?),
            Action::CpuSet => {
                let set = CpuSet::parse(value).map_err(|why| format!("-cpu-set {value}: {why}"))?;
                self.wish.cpus = Some(Some(set).filter(|set| !set.is_empty()).ok_or("-cpu-set needs a CPU")?);
            }
            Action::Display => self.report |= directives::shows_places(value)?,
            Action::RankMap => self.ranks = true,
            Action::MemBind => {
                let wrong = |why| format!("-membind {value}: {why}");
                self.policy = Policy::parse(value, &nodes()).map_err(wrong)?;
            }
            Action::ReportMemory => self.memory = true,
            _ => self.report = true,
        }
        Ok(())
    }

    /// Binds nobody, unless the command line says something.
    pub fn leave_free(&mut self) {
        if self.wish == Wish::default() {
            self.wish.bind = Some(BindTo::None);
        }
    }

    /// Takes what the environment says where the command line is silent: Hydra's variables, Intel MPI's, and
    /// `NEARMPI_NUMA=0`, under which nobody is bound. Returns what has no effect.
    ///
    /// # Errors
    /// A sentence with the value.
    pub fn read_environment(&mut self, lookup: Lookup) -> Result<Vec<String>, String> {
        let of = |name: &str| lookup(name).filter(|value| !value.is_empty());
        if let (None, Some(value)) = (&self.wish.bind, of("HYDRA_BINDING")) {
            self.take(Action::BindTo, &value)
                .map_err(|why| format!("HYDRA_BINDING: {why}"))?;
        }
        if let (None, Some(value)) = (&self.wish.map, of("HYDRA_MAPPING")) {
            self.take(Action::MapBy, &value)
                .map_err(|why| format!("HYDRA_MAPPING: {why}"))?;
        }
        if let (None, Some(value)) = (&self.policy, of("HYDRA_MEMBIND")) {
            self.take(Action::MemBind, &value)
                .map_err(|why| format!("HYDRA_MEMBIND: {why}"))?;
        }
        self.report |= of("HYDRA_TOPO_DEBUG").is_some_and(|value| value != "0");
        let pinning = intel::pinning(lookup);
        if let Some((name, bind)) = pinning.bind
            && self.wish == Wish::default()
        {
            let source = format!("{name}={}", lookup(name).unwrap_or_default());
            self.take(Action::BindTo, &bind)
                .map_err(|why| format!("{source}: {why}"))?;
            self.source = Some(source);
        }
        if self.wish == Wish::default() && lookup("NEARMPI_NUMA").as_deref() == Some("0") {
            self.wish.bind = Some(BindTo::None);
        }
        self.library = lookup("NEARMPI_HWLOC");
        Ok(pinning.ignored)
    }

    /// The machine: hwloc is asked only where an option names its objects, for it takes its time.
    ///
    /// # Errors
    /// A sentence when nothing describes it.
    pub fn machine(&self) -> Result<(Machine, Option<String>), String> {
        let simple = self.wish.map.is_none() && self.wish.rank.is_none();
        let simple = simple && !matches!(self.wish.bind, Some(BindTo::Objects { .. }));
        let (machine, notice) = match simple {
            true => (Machine::from_sys(Path::new(SYS))?, None),
            false => Machine::host(self.library.as_deref())?,
        };
        let mine = cpu::mask(0);
        Ok((
            if mine.is_empty() {
                machine
            } else {
                machine.restricted(&mine)?
            },
            notice,
        ))
    }

    /// How many ranks to start where nobody says: as many as `ppr` has room for.
    ///
    /// # Errors
    /// As [`Binding::places`].
    pub fn default_count(&self) -> Result<Option<u32>, String> {
        let Some(MapBy::Each { ranks, kind, .. }) = &self.wish.map else {
            return Ok(None);
        };
        let objects = self.machine()?.0.all(*kind).len();
        Ok(Some((objects * ranks) as u32).filter(|count| *count > 0))
    }

    /// The places of `ranks` ranks; `allowed` CPUs' worth of time may be used.
    ///
    /// # Errors
    /// A sentence about what this machine has not got.
    pub fn places(&self, ranks: usize, allowed: usize) -> Result<Places, String> {
        let (machine, notice) = self.machine()?;
        let read = |name: &str| std::fs::read_to_string(name).map_err(|why| format!("{name}: {why}"));
        let sets = mapping::assign(&self.wish, &machine, ranks, ranks <= allowed, &read);
        let sets = sets.map_err(|why| {
            self.source
                .as_ref()
                .map_or(why.clone(), |source| format!("{source}: {why}"))
        })?;
        let bound = sets.iter().any(|set| !set.is_empty());
        let own_cpus = if bound {
            mapping::own_cpus(&sets, &machine.cpus())
        } else {
            ranks
        };
        Ok(Places {
            machine,
            sets,
            own_cpus,
            notice,
        })
    }
}

impl Places {
    /// The NUMA node that `rank` keeps to, if it is bound to one and there are others.
    pub fn node(&self, rank: usize) -> Option<u32> {
        let set = self.sets.get(rank).filter(|set| !set.is_empty())?;
        let node = self.machine.around(Kind::Node, set)?.number?;
        (nodes().count() > 1).then_some(node)
    }

    /// Who is bound where, a line for each rank, in the words of Open MPI.
    pub fn report(&self, host: &str) -> Vec<String> {
        let (cores, packages) = (self.machine.places(false), self.machine.all(Kind::Package));
        let all = self.machine.cpus();
        let packages = if packages.is_empty() {
            vec![all.clone()]
        } else {
            packages.iter().map(|p| p.cpus.clone()).collect()
        };
        let line = |(rank, set): (usize, &CpuSet)| {
            let who = format!("[{host}:{}] MCW rank {rank}", std::process::id());
            if set.is_empty() || *set == all {
                return format!("{who} is not bound (or bound to all available processors)");
            }
            let mut words = Vec::new();
            let mut picture = String::new();
            for (socket, package) in packages.iter().enumerate() {
                let inside = cores.iter().enumerate().filter(|(_, core)| core.within(package));
                let mut marks = Vec::new();
                for (number, core) in inside {
                    let threads: Vec<bool> = core.iter().map(|cpu| set.has(cpu)).collect();
                    marks.push(
                        threads
                            .iter()
                            .map(|used| if *used { 'B' } else { '.' })
                            .collect::<String>(),
                    );
                    let used: CpuSet = (0..threads.len()).filter(|&thread| threads[thread]).collect();
                    if !used.is_empty() {
                        words.push(format!("socket {socket}[core {number}[hwt {used}]]"));
                    }
                }
                picture += &format!("[{}]", marks.join("/"));
            }
            format!("{who} bound to {}: {picture}", words.join(", "))
        };
        self.sets.iter().enumerate().map(line).collect()
    }
}
