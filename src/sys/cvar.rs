//! # Safety
//! Relies on getauxval(3).
//!
//! Control variables: the one table of `NEARMPI_*` settings that feeds the code, `nearmpi-info` and
//! the documentation.
#![allow(unsafe_code)]

use super::selection::{self, Rules};
use super::tuned;

/// One control variable.
#[derive(Clone, Copy, Debug)]
pub struct Cvar {
    /// Name in the environment.
    pub name: &'static str,
    /// Value when the environment does not say; a text is empty then.
    pub default: u64,
    /// Least and greatest value taken.
    pub range: (u64, u64),
    /// Whether it is a text rather than a number: the last row.
    pub is_text: bool,
    /// Whether one rank's value counts for the job: that of the first rank in MPI_Init.
    pub of_job: bool,
    /// What it does, with its unit.
    pub meaning: &'static str,
}

macro_rules! cvars {
    ($($field:ident $name:literal $default:literal $least:literal..=$most:literal $($job:ident)? $meaning:literal;)*) => {
        /// The table.
        pub const TABLE: &[Cvar] = &[$(Cvar {
            name: concat!("NEARMPI_", $name), default: $default, range: ($least, $most),
            is_text: false, of_job: !stringify!($($job)?).is_empty(), meaning: $meaning,
        }),*, COLLECTIVES];

        /// The values in force.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $(#[doc = $meaning] pub $field: u64,)*
            /// How collective operations go.
            pub collectives: Rules,
        }

        impl Settings {
            /// The numbers, in the order of the table.
            pub fn values(&self) -> Vec<u64> {
                vec![$(self.$field),*]
            }

            /// As [`Settings::values`], to be changed.
            fn values_mut(&mut self) -> Vec<&mut u64> {
                vec![$(&mut self.$field),*]
            }

            /// Takes each variable from `lookup`, or its default.
            ///
            /// # Errors
            /// A sentence naming the variable whose value is no number, out of range or no rules.
            pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Settings, String> {
                let mut table = TABLE.iter();
                Ok(Settings { $($field: {
                    let cvar = table.next().expect("the macro makes one row per field");
                    cvar.value(lookup(cvar.name))?
                },)* collectives: rules(lookup(COLLECTIVES.name))? })
            }
        }
    };
}

cvars! {
    one_copy "ONE_COPY" 1 0..=1 job
        "1: large messages are copied once, by process_vm_readv; 0: all go through shared memory";
    one_copy_min "ONE_COPY_MIN" 32768 1..=1073741824
        "bytes from which a message in a row may be copied once rather than twice; from half of it a blocking send, one to a rank that sends as long ones, and any where the kernel copies quickly; which is better is learnt";
    one_copy_together "ONE_COPY_TOGETHER" 262144 0..=1073741824
        "bytes of messages of one sender, none of more than half of them, that a receiver copies by one call of the kernel when they have come together and have receives; 0: each by a call of its own";
    one_copy_shared "ONE_COPY_SHARED" 32768 0..=1073741824
        "ONE_COPY_MIN where ranks share CPUs, and 32 times that where the kernel copies much slower than a process does: shorter messages go through cells and nothing is learnt, but of what lies in memory that other ranks map, or goes to a rank on a CPU far away; 0: as elsewhere";
    offer_min "OFFER_MIN" 65536 1..=1073741824
        "bytes from which a message waits in the sender's memory until its receive is posted, even if it will go through cells; four times that if the ring has room for it in parts; eight times that, where it goes through cells, if receivers have given all of them back";
    way "WAY" 0 0..=4
        "how large messages travel: 1 through cells, 2 read by the receiver, 3 copied by both sides, 4 by length alone; 0: learnt for each destination";
    direct_min "DIRECT_MIN" 1 0..=1073741824
        "bytes from which MPI_Alloc_mem gives memory that other ranks map, whole pages: what lies there, or in a window that MPI has allocated, is copied once without the kernel where one copy is chosen; 0: nothing is";
    heap_min "HEAP_MIN" 65536 0..=1073741824
        "bytes from which malloc gives memory that other ranks map, where libnearmpi-heap.so is put before the program (LD_PRELOAD); 0: it never does";
    window_ask_max "WINDOW_ASK_MAX" 1048576 0..=1073741824
        "bytes up to which a window's memory that only its owner maps is accessed by asking the owner, while that waits in MPI; longer accesses, and where ranks share CPUs all but of lists, go through the kernel; 0: all do";
    window_later "WINDOW_LATER" 1 0..=1
        "1: short puts, gets and accumulates on a window's memory that only its owner maps are kept until the program synchronizes, and go together, unless there is but one each time; 0: each goes at once";
    join_min "JOIN_MIN" 524288 1..=1073741824
        "bytes from which both sides copy a message by length alone; learning begins with it from half of this";
    join_chunk "JOIN_CHUNK" 262144 4096..=1073741824
        "most bytes that one side copies at a time when both do";
    tuned "TUNED" 1 0..=1
        "1: thresholds that nearmpi-tune has kept for this hardware count where the environment is silent; 0: they do not";
    far "FAR" 50 1..=100
        "thresholds of large messages between CPUs that share no cache, in percent of the others";
    skew "SKEW" 1 0..=1
        "1: a receiver whose unexpected messages pile up tells its senders to send large ones by value; 0: it does not";
    skew_queue "SKEW_QUEUE" 8 0..=1000000000
        "unexpected messages from which a receiver counts as late";
    skew_most "SKEW_MOST" 256 1..=1000000000
        "unexpected messages from which no large message is sent by value";
    skew_max "SKEW_MAX" 262144 1..=1073741824
        "bytes up to which messages to a late receiver are sent by value";
    late_max "LATE_MAX" 262144 0..=1073741824
        "longest message, in bytes, that a sender about to sleep copies to memory of its own so that its program goes on; 0: none";
    late_after "LATE_AFTER" 10000 0..=1000000000
        "microseconds that such a message waits first where ranks share CPUs, from when its sender would sleep: its receiver may only not have had its turn";
    late_room "LATE_ROOM" 4194304 0..=1099511627776
        "bytes of such messages that a rank keeps at most";
    partition_hold "PARTITION_HOLD" 32768 0..=1073741824
        "bytes of partitions marked as ready that a partitioned send collects before they leave, as one message where they lie in a row: until all are ready, or the rank looks for messages; 0: each leaves at once";
    ring_max "RING_MAX" 32768 0..=1073741824
        "bytes up to which a message goes through the pair's ring rather than the sender's cells (at most a quarter of the ring)";
    ring_part "RING_PART" 8192 0..=1073741824
        "least bytes that the pair's ring shows to the receiver at a time, of messages above NEARMPI_RING_MAX, of those with gaps and of blocking sends; at most a quarter of the ring; 0, or ranks that share CPUs, or more than 64 ranks: whole messages up to NEARMPI_RING_MAX, longer ones through cells";
    ring_grow "RING_GROW" 2097152 0..=1152921504606846976
        "bytes after which a pair of ranks in a job of two, each with a CPU of its own, goes over to a larger ring than the first one of 256 KiB, if the ring was full each time that so much had gone through; 0: never; unless it is set, 262144 on AMD's processors";
    ring_large "RING_LARGE" 1048576 0..=4194304 job
        "bytes of that larger ring, a power of two or what is below; unless it is set, on AMD's processors four times a second-level cache if that is more: what has left that comes quicker out of the shared one";
    shuttle_max "SHUTTLE_MAX" 4194304 0..=1073741824
        "bytes up to which a message may take memory that goes back and forth between two ranks with their messages (at most 4 MiB with two ranks, 2 with four, 1 with eight, 256 KiB with 16, 64 with 64, none with more); 0: none";
    shuttle_min "SHUTTLE_MIN" 1024 1..=1073741824
        "bytes from which a message in a row goes that way rather than through the pair's ring; unless it is set, 512 on AMD's processors";
    shuttle_own "SHUTTLE_OWN" 8192 0..=1073741824
        "bytes up to which the receiver of a message that has come that way fetches its lines for writing; unless it is set, 0 on processors of Intel, where that loses";
    shuttle_alone "SHUTTLE_ALONE" 32768 0..=1073741824
        "bytes up to which a message does not go that way where many are sent before anything comes from there, or were a few turns before; 0: all go";
    stream_min "STREAM_MIN" 2048 0..=1073741824
        "bytes from which what is copied into memory that others read goes past the caches (non-temporal stores) where the writer needs less than two fifths of the time so; 0: never";
    demote_max "DEMOTE_MAX" 512 0..=1073741824
        "bytes up to which a message in the ring, and what is shown on a board up to twice that, and the descriptor of a message that is offered, is told to leave the writer's own caches for the shared one, where its reader finds it sooner (cldemote, where the processor knows it); 0, or ranks that share CPUs: none";
    fetch_max "FETCH_MAX" 2048 0..=1048576
        "bytes up to which a message in the ring that was waited for is fetched all at once, with room for an answer of its size; 0: none";
    fetch_ahead "FETCH_AHEAD" 4096 0..=1048576
        "bytes that a copy of 4 KiB and more out of memory that another rank has written, or into a shuttle, fetches before it needs them; 0, or ranks that share CPUs: none; unless it is set, 0 on processors that are not Intel's: on AMD's Zen 3 that loses";
    ask_max "ASK_MAX" 32768 0..=1073741824
        "bytes up to which a synchronous message goes by value, and its receiver answers when a receive has it (at most RING_MAX); longer ones are offered";
    spare_max "SPARE_MAX" 4194304 0..=1099511627776
        "bytes of memory of its own that the library keeps when it needs them no more, in blocks of 4 KiB to 4 MiB, for messages that come before their receives and the like; 0: all goes back to malloc";
    cells "CELLS" 0 0..=128
        "cells of 8 KiB that a rank may use; 0: 128, with more than 28 ranks 3584 divided by their number, but at least 8";
    cells_batch "CELLS_BATCH" 4 1..=16
        "cells announced by one control message";
    credit_fraction "CREDIT_FRACTION" 4 1..=64
        "a receiver returns ring credits each time this fraction of the ring is consumed";
    cpus "CPUS" 0 0..=1048576 job
        "CPUs that the job counts on: with fewer than ranks, waiting ranks give way to each other at once, else each polls as if one were its own; 0: as many as the kernel lets it use";
    spin "SPIN" 20000 0..=1000000000
        "polls before a waiting rank begins to yield, when every rank has a CPU";
    spin_shared "SPIN_SHARED" 2 0..=1000000000
        "polls before a waiting rank begins to yield, when ranks share CPUs";
    glances "GLANCES" 64 1..=1000000
        "looks at the awaited rank's ring before a blocking receive, a probe or a wait for a receive goes through the queues, up to eight times as many for long messages; where ranks share CPUs up to four times as many, the most that are tried";
    same_cpu "SAME_CPU" 1 0..=1
        "1: where ranks share CPUs, one that waits for a rank of its own CPU gives way at once, and where each should have one of its own, one that finds another on it gives way instead of polling; 0: it looks a few times first, and polls";
    gate_bias "GATE_BIAS" 1 0..=1
        "1: with MPI_THREAD_MULTIPLE the thread that initialized MPI passes without atomic instructions until another one calls MPI or makes progress; 0: all threads pass alike";
    nap_yields "NAP_YIELDS" 200 0..=1000000000
        "yields before a thread sleeps that waits while another thread of its rank polls for it; 0: it sleeps at once";
    async_progress "ASYNC_PROGRESS" 0 0..=1
        "1: a thread of the library makes progress while the program computes, so that long messages, nonblocking collectives and access to windows go on; each call passes a lock then; MPICH_ASYNC_PROGRESS, MPIR_CVAR_ASYNC_PROGRESS and I_MPI_ASYNC_PROGRESS ask for it too; 0: progress is made in calls of MPI only";
    async_nap "ASYNC_NAP" 50 1..=1000000
        "microseconds that this thread sleeps between two looks in vain while something is under way, else up to ten times as long";
    yields "YIELDS" 200 0..=1000000000
        "yields before a waiting rank sleeps";
    away_max "AWAY_MAX" 1000 0..=1000000000
        "microseconds that giving way may take: where it took longer twice within some times, somebody computes on this CPU, and waiting threads sleep the next 16 times instead; 0: they give way all the same";
    alone_max "ALONE_MAX" 700 0..=1000000000
        "nanoseconds that giving way to nobody may take: where it took less twice in a row, nobody else wants this CPU, and ranks that share CPUs look longer before they give way again; 0: they look as often all the time";
    vain_max "VAIN_MAX" 256 1..=1000000000
        "tests and probes in vain, in a row, before a rank that shares CPUs gives way: 16 at first, up to so many where what it tests for does not come by that, as where a program computes between its tests; 16 or less: always so many";
    spread "SPREAD" 1 0..=1
        "1: where ranks share CPUs, a waiting rank moves from a CPU with at least two more of them than another has, away from the rank it waits for if they take turns with short messages, and to that one's CPU if they exchange windows of messages or long ones; 0: the kernel alone decides";
    board_ranks "BOARD_RANKS" 64 0..=32768 job
        "ranks up to which a communicator's short collectives go by boards in shared memory; 0: all by messages";
    board_lead "BOARD_LEAD" 1 0..=1
        "1: where ranks share CPUs, one that waits for the same root behind each barrier, or for all ranks below it with one of them on its CPU, lets that leave the barrier first; 0: none waits for another to leave";
    board_max "BOARD_MAX" 65536 0..=65536 job
        "bytes of a rank that are shown to others at a time; up to these a collective goes by boards";
    board_pieces "BOARD_PIECES" 262144 0..=1152921504606846976 job
        "bytes of a rank up to which a broadcast, a gather or a prefix reduction goes by boards, in pieces of BOARD_MAX, and a reduction up to four times that; at any length, unless it is 0, reductions of two ranks and most operations where ranks share CPUs (nearmpi-info --collectives)";
    board_direct "BOARD_DIRECT" 32768 0..=65536 job
        "bytes for others up to which a scatter shows them, and where each rank has a CPU an allgather or alltoall";
    board_started "BOARD_STARTED" 1048576 0..=1152921504606846976 job
        "bytes of a rank up to which a nonblocking collective of one of the first 16 communicators goes by boards, in pieces of BOARD_MAX, and longer ones as far as blocking ones are shown (nearmpi-info --collectives); of one of the next 240 up to 1024; of persistent ones 16 and 240 at a time; 0: by messages";
    board_trays "BOARD_TRAYS" 1 0..=1 job
        "1: what a rank shows on a board and is too long for a slot lies behind its own mark if it has up to 16384 bytes; 0: in scratch memory, where the slot says";
    board_swap "BOARD_SWAP" 1 0..=1 job
        "1: what two ranks with a CPU each show each other at the same time and is too long for a slot lies in memory that they swap, or pass to each other in nonblocking operations: each writes where it has just read; 0: in memory of its own";
    board_round "BOARD_ROUND" 0 0..=1048576 job
        "bytes of scratch memory that a rank goes round in with what it shows to up to three others and is too long for a tray, at first a 64th of what it has shown; 0: it takes the first place that is free; unless it is set, 1048576 on AMD's processors, where what has left the second-level caches comes quicker out of the shared one";
    board_one_copy "BOARD_ONE_COPY" 1 0..=2 job
        "longer data of a blocking collective are copied once by whoever needs them: 0: never; 1: where that has proved quicker (nearmpi-info --collectives); 2: always";
    board_lend "BOARD_LEND" 2048 0..=1073741824
        "bytes from which what a rank with a CPU of its own shows on a board is not copied if it lies in memory that other ranks map (NEARMPI_DIRECT_MIN): they read it there, and it waits until they have; 0: all is copied";
    board_doubling "BOARD_DOUBLING" 8 0..=32768 job
        "ranks, each with a CPU, from which an allreduce of 3072 bytes of all ranks together, and up to 1024 of each, goes by boards in exchanges at doubling distances; with more than twice as many ranks shorter ones and barriers too; 0: all look at all";
    share_min "SHARE_MIN" 2048 0..=1073741824 job
        "bytes from which each rank reduces its share of an allreduce by boards; where ranks share CPUs 16 times that, two ranks 128 times; never two with a CPU each; of a reduction to a root of more than four ranks with a CPU each four times that";
    connect_max "CONNECT_MAX" 180 0..=1000000000
        "seconds that MPI_Comm_connect waits at most to be accepted where the key timeout of its info does not say it, before it fails with MPI_ERR_PORT; 0: for ever";
    file_together "FILE_TOGETHER" 2048 0..=1073741824
        "where a view of a file has gaps, pieces which, each with the gap before it, have at most so many bytes are read together, gaps and all, or written together by way of a mapping; 0: each by a call of its own";
    file_map "FILE_MAP" 1 0..=1
        "1: pieces of a file that are written together are written by way of a mapping; 0: each by a call of its own";
    numa "NUMA" 1 0..=1
        "1: what a rank owns of the shared memory lies on its own NUMA node; 0: rank 0 touches all of it first, and mpirun binds nobody unless asked";
    check "CHECK" 0 0..=1 job
        "1: buffers of operations under way must not overlap, receives name the types that were sent, and all ranks the same in a collective call; MPI_Finalize fails when messages were never received or requests never completed, and says which handles were never freed";
    backtrace "BACKTRACE" 0 0..=1
        "1: a rank that crashes prints the calls under way on standard error";
    errors_return "ERRORS_RETURN" 0 0..=1
        "1: MPI_COMM_WORLD, and with it what has no error handler of its own, has MPI_ERRORS_RETURN until the program says otherwise (mpirun -initial-errhandler); 0: MPI_ERRORS_ARE_FATAL";
    debug "DEBUG" 0 0..=5
        "1: start-up banner with the way of large messages, and fall-backs, on standard error; 2: of every rank; higher: more";
}

const COLLECTIVES: Cvar = Cvar {
    name: "NEARMPI_COLLECTIVES",
    default: 0,
    range: (0, selection::ROOM as u64),
    is_text: true,
    of_job: true,
    meaning: "rules for the way that collective operations go, such as allreduce@2: shown<=256K offered; alltoall: pairs \
              (nearmpi-info --collectives)",
};

/// Variables that are read elsewhere.
const OTHERS: [&str; 6] = [
    "NEARMPI_FORTRAN",
    "NEARMPI_HWLOC",
    "NEARMPI_PLACE_TRACE",
    "NEARMPI_PROFILE",
    "NEARMPI_SCOTCH",
    "NEARMPI_SHARED_HEAP",
];

/// What other MPIs call `NEARMPI_ASYNC_PROGRESS`, and the words that they take for 1.
const ASYNC_PROGRESS: [&str; 3] = [
    "MPICH_ASYNC_PROGRESS",
    "MPIR_CVAR_ASYNC_PROGRESS",
    "I_MPI_ASYNC_PROGRESS",
];
const YES: [&str; 5] = ["1", "yes", "true", "on", "enable"];

/// The value of a variable that programs of other MPIs are given by another name; what is no yes there is none here.
fn given_elsewhere(name: &str, lookup: impl Fn(&str) -> Option<String>) -> Option<String> {
    let asks = |name| lookup(name).is_some_and(|text| YES.contains(&text.trim().to_lowercase().as_str()));
    (name == "NEARMPI_ASYNC_PROGRESS" && ASYNC_PROGRESS.into_iter().any(asks)).then(|| "1".into())
}

/// The name of `known` that looks most like `name`, if one does: few letters must be changed, added, removed or swapped
/// with their neighbour.
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let (distance, best) = known.map(|known| (strsim::osa_distance(name, known), known)).min()?;
    // Words of a few letters are all near each other.
    (distance <= ((name.chars().count() + 1) / 3).clamp(1, 3)).then_some(best)
}

/// A sentence if `name` looks like one of these variables, and is none.
pub fn slip(name: &str) -> Option<String> {
    let word = name.strip_prefix("NEARMPI_")?;
    let known = || TABLE.iter().map(|cvar| cvar.name).chain(OTHERS);
    let best = nearest(word, known().map(|known| &known["NEARMPI_".len()..]))?;
    (best != word).then(|| format!("{name} is no setting: did you mean NEARMPI_{best}?"))
}

fn rules(text: Option<String>) -> Result<Rules, String> {
    Rules::read(text.as_deref().unwrap_or_default()).map_err(|wrong| format!("{}: {wrong}", COLLECTIVES.name))
}

impl Cvar {
    fn value(&self, text: Option<String>) -> Result<u64, String> {
        let Some(text) = text else { return Ok(self.default) };
        let (least, most) = self.range;
        match text.trim().parse() {
            Ok(value) if (least..=most).contains(&value) => Ok(value),
            _ => Err(format!("{}={text} is not a number from {least} to {most}", self.name)),
        }
    }
}

impl Settings {
    /// What this process's environment says, or else what `nearmpi-tune` has kept for this hardware, or what its processor
    /// asks for ([`tuned::of_processor`]); a program that runs with privileges its caller lacks (AT_SECURE) gets the defaults.
    ///
    /// # Errors
    /// As [`Settings::read`]; values that are kept and make no sense do not count.
    pub fn from_environment() -> Result<Settings, String> {
        if secure() {
            return Settings::read(|_| None);
        }
        let given = |name: &str| {
            std::env::var(name)
                .ok()
                .or_else(|| given_elsewhere(name, |name| std::env::var(name).ok()))
        };
        let folder = tuned::folder(|name| std::env::var_os(name));
        let kept = folder.filter(|_| given("NEARMPI_TUNED").as_deref() != Some("0"));
        Settings::read_over(given, &kept.map(|folder| tuned::read(&folder)).unwrap_or_default())
    }

    /// Takes each variable from `lookup`, or as `kept` says, or as the processor asks, or its default.
    fn read_over(lookup: impl Fn(&str) -> Option<String>, kept: &[(String, String)]) -> Result<Settings, String> {
        let good = |name: &str, value: &String| {
            let cvar = TABLE.iter().find(|cvar| cvar.name == name);
            cvar.is_some_and(|cvar| match cvar.is_text {
                true => rules(Some(value.clone())).is_ok(),
                false => cvar.value(Some(value.clone())).is_ok(),
            })
        };
        let kept = |name: &str| {
            let (_, value) = kept.iter().find(|(key, value)| key == name && good(name, value))?;
            Some(value.clone())
        };
        Settings::read(|name| {
            lookup(name)
                .or_else(|| kept(name))
                .or_else(|| tuned::of_processor(name))
        })
    }

    /// The numbers that all ranks of a job have alike.
    pub fn of_job(&self) -> Vec<u64> {
        let rows = TABLE.iter().zip(self.values());
        rows.filter(|(cvar, _)| cvar.of_job).map(|(_, value)| value).collect()
    }

    /// Takes over what another rank of the job goes by: its [`Settings::of_job`] and the text of its rules. Returns the
    /// names of those that were others here.
    ///
    /// # Errors
    /// A sentence that names a value which makes no sense; nothing is changed then.
    pub fn adopt(&mut self, numbers: &[u64], collectives: &str) -> Result<Vec<&'static str>, String> {
        let collectives = rules(Some(collectives.into()))?;
        let of_job = || TABLE.iter().filter(|cvar| cvar.of_job && !cvar.is_text);
        if numbers.len() != of_job().count() {
            return Err(format!("{} settings of the job", numbers.len()));
        }
        for (cvar, number) in of_job().zip(numbers) {
            cvar.value(Some(number.to_string()))?;
        }
        let mut changed = Vec::new();
        let mine = TABLE.iter().zip(self.values_mut()).filter(|(cvar, _)| cvar.of_job);
        for ((cvar, mine), &number) in mine.zip(numbers) {
            if std::mem::replace(mine, number) != number {
                changed.push(cvar.name);
            }
        }
        if self.collectives != collectives {
            self.collectives = collectives;
            changed.push(COLLECTIVES.name);
        }
        Ok(changed)
    }
}

/// How many numbers the ranks of a job have alike, and most bytes of the text.
pub const OF_JOB: (usize, usize) = {
    let (mut at, mut count) = (0, 0);
    while at < TABLE.len() {
        count += (TABLE[at].of_job && !TABLE[at].is_text) as usize;
        at += 1;
    }
    (count, selection::ROOM)
};

/// Whether the program was given privileges that its caller lacks (set-uid, file capabilities).
pub fn secure() -> bool {
    // SAFETY: reads the auxiliary vector.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_comes_from_the_environment_or_the_table() {
        let settings = Settings::read(|name| (name == "NEARMPI_SPIN").then(|| "7".into())).unwrap();
        assert_eq!((settings.spin, settings.yields), (7, 200));
    }

    #[test]
    fn a_progress_thread_is_asked_for_by_the_names_of_other_mpis() {
        let asked = |name: &'static str, text: &'static str| {
            given_elsewhere("NEARMPI_ASYNC_PROGRESS", |asked| (asked == name).then(|| text.into()))
        };
        for name in ASYNC_PROGRESS {
            assert_eq!(asked(name, "1").as_deref(), Some("1"));
            assert_eq!(asked(name, "Yes").as_deref(), Some("1"));
            assert_eq!(asked(name, "0"), None);
        }
        assert_eq!(asked("NEARMPI_SPIN", "1"), None);
        assert_eq!(given_elsewhere("NEARMPI_SPIN", |_| Some("1".into())), None);
    }

    #[test]
    fn what_is_kept_counts_below_the_environment_unless_it_is_junk() {
        let kept = [
            ("SPIN", "8"),
            ("YIELDS", "9"),
            ("OFFER_MIN", "0"),
            ("JUNK", "1"),
            ("RING_MAX", "x"),
            ("COLLECTIVES", "x"),
        ];
        let kept = kept.map(|(name, value)| (format!("NEARMPI_{name}"), value.to_string()));
        let given = |name: &str| (name == "NEARMPI_SPIN").then(|| "7".into());
        let settings = Settings::read_over(given, &kept).unwrap();
        let defaults = Settings::read(|_| None).unwrap();
        assert_eq!((settings.spin, settings.yields), (7, 9));
        let own =
            tuned::of_processor("NEARMPI_SHUTTLE_OWN").map_or(defaults.shuttle_own, |value| value.parse().unwrap());
        assert_eq!(settings.shuttle_own, own);
        let given = |name: &str| (name == "NEARMPI_SHUTTLE_OWN").then(|| "77".into());
        assert_eq!(Settings::read_over(given, &[]).unwrap().shuttle_own, 77);
        assert_eq!(
            (settings.offer_min, settings.ring_max),
            (defaults.offer_min, defaults.ring_max)
        );
    }

    #[test]
    fn what_another_rank_settled_is_taken_over_if_it_makes_sense() {
        let read = |name: &str, value: &str| {
            Settings::read(|asked| (asked == name).then(|| value.into())).expect("good values")
        };
        let theirs = read("NEARMPI_BOARD_MAX", "4096");
        let mut mine = read("NEARMPI_COLLECTIVES", "scan: doubling");
        let changed = mine.adopt(&theirs.of_job(), "").unwrap();
        assert_eq!(changed, ["NEARMPI_BOARD_MAX", "NEARMPI_COLLECTIVES"]);
        assert_eq!((mine.board_max, mine.collectives.rules.len()), (4096, 0));
        assert_eq!(mine.adopt(&theirs.of_job(), "").unwrap(), [""; 0]);
        let mut junk = theirs.of_job();
        junk.fill(u64::MAX);
        assert!(
            mine.adopt(&junk, "")
                .unwrap_err()
                .contains("=18446744073709551615 is not a number")
        );
        assert!(mine.adopt(&theirs.of_job(), "scan").unwrap_err().contains("no colon"));
        assert!(mine.adopt(&[], "").is_err());
        assert_eq!(mine.board_max, 4096);
    }

    #[test]
    fn a_slip_is_noticed_and_a_name_of_somebody_else_is_not() {
        let said = slip("NEARMPI_ONECOPY");
        assert_eq!(
            said.unwrap(),
            "NEARMPI_ONECOPY is no setting: did you mean NEARMPI_ONE_COPY?"
        );
        assert!(slip("NEARMPI_PROFIEL").unwrap().ends_with("NEARMPI_PROFILE?"));
        let others = "FD RANK UNIVERSE LAUNCHER_PID FIRST APPNUM ANNEX PREFIX ROOT HOME DIR PATH VERSION LIB BLESS";
        for name in others.split(' ').map(|word| format!("NEARMPI_{word}")) {
            assert_eq!(slip(&name), None);
        }
        let known = TABLE
            .iter()
            .map(|cvar| cvar.name)
            .chain(OTHERS)
            .chain(["NEARMP_SPIN", "SPINN"]);
        assert_eq!(known.filter_map(slip).next(), None);
    }

    #[test]
    fn a_bad_value_is_named() {
        let error = Settings::read(|name| (name == "NEARMPI_ONE_COPY").then(|| "2".into())).unwrap_err();
        assert_eq!(error, "NEARMPI_ONE_COPY=2 is not a number from 0 to 1");
        let error = Settings::read(|name| (name == "NEARMPI_COLLECTIVES").then(|| "scan".into())).unwrap_err();
        assert_eq!(error, "NEARMPI_COLLECTIVES: \"scan\": no colon behind the operation");
    }
}
