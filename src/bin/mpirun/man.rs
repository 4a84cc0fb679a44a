//! The man page, made of the table of options. `NEARMPI_BLESS=1 cargo test generated` writes it;
//! without that the test says whether the committed one is fresh.

use crate::options::{Family, OPTIONS};

/// What stands before the options.
const HEAD: &str = r#".\" Generated from the table of options; see src/bin/mpirun/man.rs.
.TH MPIRUN 1 "" nearmpi "nearmpi"
.SH NAME
mpirun, mpiexec, mpiexec.hydra \- start an MPI job on this machine
.SH SYNOPSIS
.B mpirun
[\fIoptions\fR] \fIprogram\fR [\fIarguments\fR] [: [\fIoptions\fR] \fIprogram\fR [\fIarguments\fR]]...
.SH DESCRIPTION
Starts the ranks of a job and watches over them. Programs separated by a colon make one job. Rank 0 reads mpirun's
standard input, the others read nothing. When a rank is killed, exits with a code other than 0, or leaves while
others count on it, the others get SIGTERM and, 250 ms later, SIGKILL. Processes that ranks leave behind are ended
with the job; a rank dies with mpirun even if that is killed by SIGKILL, but then what a script has started as its rank
ends at its next call of MPI only. SIGINT, SIGTERM and, unless they were ignored before (nohup), SIGHUP and SIGQUIT are
passed on and end the job in the same way, a second one at once. SIGUSR1 makes mpirun
say what each rank is doing and who waits for whom, and is passed on to ranks that handle it; SIGUSR2 is passed on;
SIGTSTP stops the job and SIGCONT continues it. When all ranks wait for each other, mpirun says so and ends the job
(\-stall); so it does when the time limit is reached.
.SH OPTIONS
Each may be given with one dash or two.
"#;

/// What stands after them.
const TAIL: &str = r#".SH EXIT STATUS
That of the first rank that failed, 128 plus the signal if it was killed by one, or the code given to MPI_Abort (1 for
256 and others that would look like 0); 141 when output of ranks cannot be written, its reader being gone;
86 when all ranks waited for each other, 124 when the time limit was reached, 126 and 127 when a program cannot be run
or is not there, 1 for mistakes in the command line and for a job whose shared memory was damaged.
.SH ENVIRONMENT
mpirun looks for these first among what \-x, \-genv and \-env set, then in its own environment. Options count more.
.TP
.B MPIEXEC_TIMEOUT
As \-timeout; 0 and what is negative or empty is no limit.
.TP
.B HYDRA_BINDING, HYDRA_MAPPING, HYDRA_MEMBIND
As \-bind\-to, \-map\-by and \-membind.
.TP
.B HYDRA_TOPO_DEBUG
As \-report\-bindings, unless it is 0.
.TP
.B I_MPI_PIN, I_MPI_PIN_DOMAIN, I_MPI_PIN_PROCESSOR_LIST
Intel MPI's: I_MPI_PIN=0 is as \-bind\-to none; the domains core, socket, numa, cache2 and cache3 as \-bind\-to with these; a
list of numbers as \-bind\-to user:LIST. Other values have no effect, and are noted under \-v.
.TP
.B I_MPI_PERHOST
A number is as \-N.
.TP
.B NEARMPI_NUMA
0: ranks are not bound where no option says so, and all of the job's memory lies where rank 0 runs.
.TP
.B NEARMPI_HWLOC
The library that describes the machine in place of the system's libhwloc; none: /sys alone describes it.
.TP
.B NEARMPI_SCOTCH
The library that \-place auto asks in place of the system's libscotch; none: our own method does without.
.TP
.B NEARMPI_SHARED_HEAP, NEARMPI_PROFILE
As \-shared\-heap (with 1) and \-profile (with a folder).
.TP
.B SLURM_NTASKS, SLURM_NPROCS, SLURM_TASKS_PER_NODE, PBS_NP, PBS_NODEFILE, LSB_DJOB_NUMPROC, LSB_MCPU_HOSTS, NSLOTS
In a job of Slurm, PBS, LSF or Grid Engine: how many ranks there are where no option says so. If the job has several
machines, mpirun says that all ranks start on this one, unless \-n or \-host is given.
.PP
Ranks find PMI_RANK, PMI_SIZE, MPI_LOCALRANKID and MPI_LOCALNRANKS in their environment. Programs linked with MPICH or
Intel MPI run on their own libraries: mpirun answers PMI-1 on PMI_FD.
.SH SEE ALSO
.BR mpicc (1),
.BR nearmpi-info (1),
.BR nearmpi-top (1)
"#;

fn page() -> String {
    let escape = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
    let mut page = HEAD.to_string();
    for (family, heading) in Family::ALL {
        page += &format!(".SS {heading}\n");
        for o in OPTIONS.iter().filter(|o| o.family == family) {
            let names: Vec<String> = o.names.iter().map(|n| format!("\\fB\\-{}\\fR", escape(n))).collect();
            let values = o.shown(|value| format!("\\fI{value}\\fR"));
            page += &format!(".TP\n{}{values}\n{}\n", names.join(", "), escape(o.help));
        }
    }
    page + TAIL
}

#[test]
fn generated_man_page_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/man/mpirun.1");
    if std::env::var_os("NEARMPI_BLESS").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == page(),
        "man/mpirun.1 is stale; run NEARMPI_BLESS=1 cargo test generated"
    );
}
