//! How a rank finds its job, in this order: our own mpirun's memory file, inherited as `NEARMPI_FD`; a launcher
//! that speaks PMI-1 (`PMI_FD`, `PMI_PORT`); a launcher that we cannot join, which is an error and never
//! a silent job of one; nothing, which is a job of one (MPI-4.1 §11.5 calls it a singleton).
//!
//! Only descriptors, ranks and sizes are taken from the environment of a set-uid or set-gid program.

use super::client::{Client, tell};
use super::handover::{Host, fetch};
use super::pmi::{on_one_host, shorten};
use crate::shm::layout::MAX_RANKS;
use crate::sys::cvar::secure;
use crate::sys::descriptor::{Lasting, inherited, is_closed, is_memory_file, parent};
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// The key under which rank 0 publishes the name of its socket.
const MEMORY_KEY: &str = "nearmpi-memory";

/// A rank's place in its job.
pub struct Membership {
    /// Rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Ranks in `MPI_COMM_WORLD`.
    pub size: u32,
    /// Rank in the job of the first of them: not 0 for processes that were started later.
    pub first: u32,
    /// The job's memory file, closed by `exec`.
    pub segment: OwnedFd,
    /// Which of the programs of an MPMD job this is; -1 if nobody knows.
    pub appnum: i32,
    /// How many ranks run that; -1 if nobody knows.
    pub alike: i32,
    /// `MPI_UNIVERSE_SIZE`; -1 if nobody knows.
    pub universe: i32,
    /// The launcher, or the process that it put between itself and this rank; an ancestor of this process.
    pub launcher_pid: i32,
    /// The way to the launcher.
    pub control: Control,
}

/// The way to the launcher. Dropping it without [`Control::finalize`] tells a PMI launcher that the rank failed;
/// our own mpirun and a job of one read the rank's state from the segment and the exit code.
pub struct Control(Way);

enum Way {
    Alone,
    Mpirun(Option<Lasting>),
    Pmi(Client),
}

impl Control {
    /// Whether the launcher is our own mpirun.
    pub fn is_mpirun(&self) -> bool {
        matches!(self.0, Way::Mpirun(_))
    }

    /// Asks the launcher to end the whole job with `code`. The caller ends itself afterwards: there is no answer.
    pub fn abort(&self, code: i32) {
        // A launcher that is gone has taken the job with it: nothing is left to tell.
        let _ = match &self.0 {
            Way::Alone | Way::Mpirun(None) => Ok(()),
            Way::Mpirun(Some(socket)) => match socket.get() {
                Some(socket) => tell(&socket, &format!("cmd=abort exitcode={code}")),
                None => Ok(()),
            },
            Way::Pmi(client) => client.abort(code),
        };
    }

    /// True once the launcher is gone, after which nobody ends a rank whose peers do not answer. Ranks that run
    /// below a wrapper do not die with mpirun by themselves: whoever waits for long should ask. Cost: one system call.
    pub fn launcher_is_gone(&self) -> bool {
        match &self.0 {
            Way::Alone | Way::Mpirun(None) => false,
            Way::Mpirun(Some(socket)) => socket.get().is_some_and(is_closed),
            Way::Pmi(client) => client.is_closed(),
        }
    }

    /// Tells the launcher that this rank ends in order, after which its exit is no failure.
    ///
    /// # Errors
    /// A launcher that is gone.
    pub fn finalize(self) -> Result<(), String> {
        match self.0 {
            Way::Alone | Way::Mpirun(_) => Ok(()),
            Way::Pmi(mut client) => client.finalize(),
        }
    }
}

/// Joins the job that started this process. `create` makes the memory file for a number of ranks; it is called
/// where no launcher of ours made one, and by one rank of the job only.
///
/// # Errors
/// A sentence that names the launcher and what to do, if this process belongs to a job that it cannot join.
pub fn join(create: impl FnOnce(u32) -> io::Result<OwnedFd>) -> Result<Membership, String> {
    let env = |name: &str| std::env::var(name).ok();
    match plan(&env, &is_open)? {
        Plan::Mpirun {
            rank,
            size,
            memory,
            socket,
        } => join_mpirun(&env, rank, size, memory, socket),
        Plan::Pmi { rank, size, socket } => join_pmi(&env, rank, size, socket, create),
        Plan::Port { address, id } => {
            let stream = TcpStream::connect(&address)
                .map_err(|e| format!("cannot reach the launcher at PMI_PORT={:?}: {e}", shorten(&address)))?;
            let (socket, rank, size) = Client::identify(stream.into(), id)?;
            let (rank, size) =
                place(rank.into(), size.into()).ok_or("the launcher gives an impossible rank or size")?;
            greet(&env, rank, size, socket, create)
        }
        Plan::Alone => alone(create),
    }
}

/// A job of this process alone. `create` as for [`join`].
///
/// # Errors
/// A sentence: its memory cannot be made.
pub fn alone(create: impl FnOnce(u32) -> io::Result<OwnedFd>) -> Result<Membership, String> {
    Ok(Membership {
        rank: 0,
        size: 1,
        first: 0,
        segment: create(1).map_err(|e| format!("cannot make the memory of a job of one rank: {e}"))?,
        appnum: -1,
        alike: 1,
        universe: -1,
        launcher_pid: parent(),
        control: Control(Way::Alone),
    })
}

type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What the environment says about the job.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Mpirun {
        rank: u32,
        size: u32,
        memory: i32,
        socket: Option<i32>,
    },
    Pmi {
        rank: u32,
        size: u32,
        socket: i32,
    },
    Port {
        address: String,
        id: i32,
    },
    Alone,
}

fn plan(env: Lookup, is_open: &dyn Fn(i32) -> bool) -> Result<Plan, String> {
    if let Some(plan) = plan_mpirun(env, is_open)? {
        return Ok(plan);
    }
    let size = number(env, "PMI_SIZE")?;
    let socket = number(env, "PMI_FD")?.and_then(|fd| i32::try_from(fd).ok());
    if let Some(socket) = socket.filter(|&fd| is_open(fd)) {
        let (rank, size) = ranks(env)?;
        return Ok(Plan::Pmi { rank, size, socket });
    }
    if let (Some(address), Some(id)) = (env("PMI_PORT"), number(env, "PMI_ID")?) {
        let id = i32::try_from(id).map_err(|_| "PMI_ID is too large")?;
        return Ok(Plan::Port { address, id });
    }
    if size.is_some_and(|size| size > 1) {
        return Err(match socket {
            Some(fd) => format!(
                "this process is to be one of {} ranks, but the launcher's descriptor PMI_FD={fd} is not open here: \
                 a program that MPI ranks start cannot be a rank itself (unset PMI_FD, PMI_RANK and PMI_SIZE for it)",
                size.unwrap_or(0)
            ),
            None => "PMI_SIZE is set without PMI_FD or PMI_PORT: this launcher's PMI cannot be joined; \
                     start the program with nearmpi's mpirun"
                .into(),
        });
    }
    match foreign(env)? {
        Some(sentence) => Err(sentence),
        None => Ok(Plan::Alone),
    }
}

/// Variables of a rank that other launchers with a PMI set. Our mpirun takes them from what it starts.
pub const WITH_PMI: [&str; 4] = ["PMI_PORT", "PMI_ID", "HYDI_CONTROL_FD", "HYDRA_BSTRAP_PROXY_ID"];
/// The same of launchers without. What they are called is known to scripts, which set some of them for other programs.
pub const WITHOUT_PMI: [&str; 5] = [
    "PMIX_RANK",
    "PMIX_NAMESPACE",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_RANK",
    "MPIRUN_RANK",
];

/// Our own mpirun's variables, unless another launcher, started by it, has added its own.
fn plan_mpirun(env: Lookup, is_open: &dyn Fn(i32) -> bool) -> Result<Option<Plan>, String> {
    let Some(memory) = number(env, "NEARMPI_FD")? else {
        return Ok(None);
    };
    let is_set = |name: &&str| env(name).is_some();
    // No script sets this one.
    if is_set(&"PMIX_NAMESPACE") {
        // What there is of PMI is ours.
        return foreign(env)?.map_or(Ok(Some(Plan::Alone)), Err);
    }
    if WITH_PMI.iter().any(is_set) {
        return Ok(None);
    }
    let (rank, size) = ranks(env)?;
    if env("NEARMPI_RANK").is_some_and(|ours| ours != format!("{rank}/{size}")) {
        return Ok(None);
    }
    let memory = i32::try_from(memory).map_err(|_| "NEARMPI_FD is too large")?;
    let socket = number(env, "PMI_FD")?
        .and_then(|fd| i32::try_from(fd).ok())
        .filter(|&fd| is_open(fd));
    Ok(Some(Plan::Mpirun {
        rank,
        size,
        memory,
        socket,
    }))
}

/// The launchers that say how many ranks they start in variables of their own but have no PMI-1:
/// (name, number of ranks, a variable that only a rank has).
const FOREIGN: [(&str, &str, &str); 6] = [
    ("Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("Slurm's srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),
    ("MVAPICH's mpirun_rsh", "MPIRUN_NPROCS", "MPIRUN_RANK"),
    ("IBM's jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK"),
    ("Flux", "FLUX_JOB_SIZE", "FLUX_TASK_RANK"),
    ("Cray's aprun", "ALPS_APP_PES", "ALPS_APP_PE"),
];

/// The sentence about a launcher that started several ranks which cannot find each other. The shell of an
/// allocation (`salloc`, `sbatch`) has no step, so a program in it is a job of one.
fn foreign(env: Lookup) -> Result<Option<String>, String> {
    for (name, size, rank) in FOREIGN {
        let (Some(size), Some(rank)) = (env(size), env(rank)) else {
            continue;
        };
        if size.trim().parse::<u64>().is_ok_and(|size| size > 1) {
            let fix = match name {
                "Slurm's srun" => "use srun --mpi=pmi2, or nearmpi's mpirun inside the allocation",
                _ => "use nearmpi's mpirun",
            };
            return Ok(Some(format!(
                "{name} started this process as rank {} of {}, but the program runs on nearmpi, which cannot join \
                 its jobs: {fix}",
                shorten(&rank),
                shorten(&size)
            )));
        }
    }
    // A PMIx launcher does not say how many; where there is a rank above 0, there are several.
    match env("PMIX_RANK") {
        Some(rank) if env("PMIX_NAMESPACE").is_some() && rank != "0" => Ok(Some(format!(
            "a PMIx launcher started this process as rank {}, but the program runs on nearmpi, which does not speak \
             PMIx: use nearmpi's mpirun",
            shorten(&rank)
        ))),
        _ => Ok(None),
    }
}

fn join_mpirun(env: Lookup, rank: u32, size: u32, memory: i32, socket: Option<i32>) -> Result<Membership, String> {
    let launcher = match secure() {
        true => None,
        false => number(env, "NEARMPI_LAUNCHER_PID")?
            .and_then(|pid| i32::try_from(pid).ok())
            .filter(|&pid| pid > 1),
    };
    let inherited_memory = inherited("NEARMPI_FD")
        .ok()
        .and_then(|fd| match is_memory_file(fd.as_fd()) {
            true => Some(fd),
            false => {
                // Something of the program's own has the number: it is not ours to close.
                std::mem::forget(fd);
                None
            }
        });
    // A wrapper that closes what it does not know (Python's subprocess does) has not closed the launcher's own.
    let segment = inherited_memory.or_else(|| reopen(launcher?, memory)).ok_or_else(|| {
        format!(
            "mpirun's memory file NEARMPI_FD={memory} is not open in this process: does a wrapper close descriptors?"
        )
    })?;
    let socket = socket.and_then(|_| Lasting::new(inherited("PMI_FD").ok()?).ok());
    let small = |name| Ok::<_, String>(number(env, name)?.and_then(|n| i32::try_from(n).ok()));
    let program = env("NEARMPI_APPNUM").unwrap_or_default();
    let (appnum, alike) = program.split_once('/').unwrap_or_default();
    let [appnum, alike] = [appnum, alike].map(|text| text.parse().ok());
    Ok(Membership {
        rank,
        size,
        first: number(env, "NEARMPI_FIRST")?
            .and_then(|first| u32::try_from(first).ok())
            .unwrap_or(0),
        segment,
        appnum: appnum.unwrap_or(-1),
        alike: alike.unwrap_or(-1),
        universe: small("NEARMPI_UNIVERSE")?.unwrap_or(-1),
        launcher_pid: launcher.unwrap_or_else(parent),
        control: Control(Way::Mpirun(socket)),
    })
}

/// Whether process `pid` is an mpirun, by the name of its program.
pub fn is_launcher(pid: i32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    matches!(name.trim(), "mpirun" | "mpiexec" | "mpiexec.hydra")
}

/// The memory of the job that process `pid` is of, as launcher or as rank; the kernel lets the same user only.
pub fn memory_of(pid: i32) -> Option<OwnedFd> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    let is_memory = |path: &Path| std::fs::read_link(path).is_ok_and(|to| to.starts_with("/memfd:nearmpi (deleted)"));
    let mut paths = entries.map(|entry| entry.path()).filter(|path| is_memory(path));
    paths.find_map(|path| reopen(pid, path.file_name()?.to_str()?.parse().ok()?))
}

/// Another process's own descriptor of the memory file; the kernel lets the same user only.
pub fn reopen(pid: i32, memory: i32) -> Option<OwnedFd> {
    let path = format!("/proc/{pid}/fd/{memory}");
    let file = File::options().read(true).write(true).open(path).ok()?;
    is_memory_file(file.as_fd()).then(|| file.into())
}

fn join_pmi(
    env: Lookup,
    rank: u32,
    size: u32,
    socket: i32,
    create: impl FnOnce(u32) -> io::Result<OwnedFd>,
) -> Result<Membership, String> {
    let socket = inherited("PMI_FD").map_err(|e| format!("cannot use PMI_FD={socket}: {e}"))?;
    greet(env, rank, size, socket, create)
}

/// Joins over PMI-1.
fn greet(
    env: Lookup,
    rank: u32,
    size: u32,
    socket: OwnedFd,
    create: impl FnOnce(u32) -> io::Result<OwnedFd>,
) -> Result<Membership, String> {
    let mut client = Client::new(socket)?;
    let appnum = client.appnum()?;
    let universe = client.universe_size()?;
    let local = number(env, "MPI_LOCALNRANKS")? == Some(size.into());
    if size > 1 && !local {
        check_hosts(&mut client, size)?;
    }
    let make = || create(size).map_err(|e| format!("cannot make the memory of a job of {size} ranks: {e}"));
    let segment = match (rank, size) {
        (_, 1) => make()?,
        (0, _) => {
            let memory = make()?;
            let host = Host::new().map_err(|e| format!("cannot open a socket for the other ranks: {e}"))?;
            client.put(MEMORY_KEY, host.name())?;
            client.barrier()?;
            host.serve(&memory, size)?;
            memory
        }
        _ => {
            client.barrier()?;
            let name = client.get(MEMORY_KEY)?;
            fetch(
                &name.ok_or("rank 0 has not published the job's memory: do all ranks use nearmpi?")?,
                rank,
            )?
        }
    };
    Ok(Membership {
        rank,
        size,
        first: 0,
        segment,
        appnum,
        alike: -1,
        universe,
        launcher_pid: parent(),
        control: Control(Way::Pmi(client)),
    })
}

fn check_hosts(client: &mut Client, size: u32) -> Result<(), String> {
    let Some(mapping) = client.get("PMI_process_mapping")? else {
        return Ok(());
    };
    match on_one_host(&mapping, size)? {
        true => Ok(()),
        false => Err(format!(
            "the launcher puts the {size} ranks on several hosts; nearmpi runs on one machine: \
             ask for one host, or run this program with another MPI"
        )),
    }
}

/// The rank and the number of ranks, as every launcher with PMI writes them.
fn ranks(env: Lookup) -> Result<(u32, u32), String> {
    match (number(env, "PMI_RANK")?, number(env, "PMI_SIZE")?) {
        (Some(rank), Some(size)) => place(rank, size)
            .ok_or_else(|| format!("PMI_RANK={rank} and PMI_SIZE={size} name no rank of at most {MAX_RANKS}")),
        _ => Err("the launcher set no PMI_RANK and PMI_SIZE".into()),
    }
}

fn place(rank: i64, size: i64) -> Option<(u32, u32)> {
    let (rank, size) = (u32::try_from(rank).ok()?, u32::try_from(size).ok()?);
    (rank < size && size <= MAX_RANKS).then_some((rank, size))
}

/// A variable that is a number of at most 18 digits, 0 or more; `None` if it is not set or empty.
fn number(env: Lookup, name: &str) -> Result<Option<i64>, String> {
    match env(name).as_deref() {
        None | Some("") => Ok(None),
        Some(text) if text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit()) => Ok(text.parse().ok()),
        Some(text) => Err(format!("{name}={:?} in the environment is not a number", shorten(text))),
    }
}

/// True if the descriptor is open and may be taken over.
fn is_open(number: i32) -> bool {
    number > 2 && File::open(format!("/proc/self/fdinfo/{number}")).is_ok()
}

#[cfg(test)]
mod tests;
