//! # Safety
//! Relies on the scheduler's calls to fill in the sets they are given, and on a prefetch to touch nothing.
//!
//! CPUs: how many we may use, giving one up for a while, and the process-wide memory barrier.
#![allow(unsafe_code)]

use super::cpuset::CpuSet;
use std::{fs, mem};

/// Words of the largest set that is asked for: more CPUs than any kernel knows.
const WORDS: usize = 1024;

/// The CPUs that process `pid` (0: this thread) may run on; empty where the kernel does not tell.
pub fn mask(pid: i32) -> CpuSet {
    let mut words = [0u64; WORDS];
    // SAFETY: the kernel writes at most the size it is given.
    let failed = unsafe { libc::sched_getaffinity(pid, mem::size_of_val(&words), words.as_mut_ptr().cast()) } != 0;
    if failed {
        return CpuSet::default();
    }
    CpuSet::from_words(&words)
}

/// Lets this thread, and what it starts, run on `cpus` only; false where the kernel refuses. Makes one
/// system call and nothing else, so it may stand between fork and exec.
pub fn bind(cpus: &CpuSet) -> bool {
    let words = cpus.words();
    // SAFETY: the kernel reads the words it is given.
    unsafe { libc::sched_setaffinity(0, mem::size_of_val(words), words.as_ptr().cast()) == 0 }
}

/// CPUs that process `pid` (0: this thread) may run on: its affinity mask, bounded by the cgroup's quota.
/// 1 where the kernel does not tell.
pub fn allowed(pid: i32) -> usize {
    let mask = mask(pid).count();
    if mask == 0 {
        return 1;
    }
    quota().map_or(mask, |quota| quota.min(mask)).max(1)
}

/// Whole CPUs' worth of time that the cgroup (v2 `cpu.max`, or v1) grants, rounded up.
fn quota() -> Option<usize> {
    let v2 = fs::read_to_string("/sys/fs/cgroup/cpu.max").ok();
    let v1 = || {
        let quota = fs::read_to_string("/sys/fs/cgroup/cpu/cpu.cfs_quota_us").ok()?;
        let period = fs::read_to_string("/sys/fs/cgroup/cpu/cpu.cfs_period_us").ok()?;
        Some(format!("{} {}", quota.trim(), period.trim()))
    };
    parse_quota(&v2.or_else(v1)?)
}

fn parse_quota(text: &str) -> Option<usize> {
    let mut words = text.split_whitespace().map(str::parse::<usize>);
    let (quota, period) = (words.next()?.ok()?, words.next()?.ok()?);
    (period > 0 && quota > 0).then(|| quota.div_ceil(period))
}

/// The CPU that this thread runs on at the moment; `None` where the kernel does not tell.
pub fn current() -> Option<u32> {
    // SAFETY: no arguments.
    u32::try_from(unsafe { libc::sched_getcpu() }).ok()
}

/// Lets another thread run on this CPU (sched_yield(2)).
#[inline]
pub fn give_way() {
    // SAFETY: no arguments.
    unsafe { libc::sched_yield() };
}

/// Fetches the cache line at `at` for writing, without waiting for it: whoever writes there soon finds the line its own,
/// while the next reader has to come for it only once.
#[inline]
pub fn own_soon<T>(at: *const T) {
    // SAFETY: a prefetch never faults; processors that do not know this one take it for a no-op.
    unsafe { std::arch::asm!("prefetchw [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly)) };
}

/// Fetches the cache line at `at` for reading, without waiting for it.
#[inline]
pub fn read_soon<T>(at: *const T) {
    // SAFETY: a prefetch never faults.
    unsafe { std::arch::asm!("prefetcht0 [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly)) };
}

/// As [`read_soon`], into the second-level cache only, which more lines may be on their way to.
#[inline]
pub fn read_later<T>(at: *const T) {
    // SAFETY: a prefetch never faults.
    unsafe { std::arch::asm!("prefetcht1 [{at}]", at = in(reg) at, options(nostack, preserves_flags, readonly)) };
}

/// The `len` bytes at `at` have been written for another CPU to read: their lines may leave this one's own caches for the shared one,
/// where the other finds them sooner (Intel Sapphire Rapids). Processors that do not know the hint take it for a no-op.
#[inline(always)]
pub fn hand_over(at: *const u8, len: usize) {
    for line in (0..len).step_by(64) {
        let at = at.wrapping_add(line);
        // SAFETY: a hint never faults and changes no memory.
        unsafe { std::arch::asm!("cldemote [{at}]", at = in(reg) at, options(nostack, preserves_flags)) };
    }
}

/// Registers this process for [`barrier_everywhere`]; false where membarrier(2) is missing or refused.
pub fn join_barriers() -> bool {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED)
}

/// A full memory barrier on every CPU that runs a registered process now.
pub fn barrier_everywhere() -> bool {
    membarrier(libc::MEMBARRIER_CMD_GLOBAL_EXPEDITED)
}

/// Registers this process for [`barrier_in_process`]; false where membarrier(2) is missing or refused.
pub fn join_process_barriers() -> bool {
    membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
}

/// A full memory barrier on every CPU that runs a thread of this process now.
pub fn barrier_in_process() -> bool {
    membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
}

/// A number that no other thread of this process has now. Cost: one load.
#[inline(always)]
pub fn thread() -> usize {
    let number;
    // SAFETY: on x86-64 the word at fs:0 holds the address of the thread's control block (System V ABI, thread-local storage).
    unsafe { std::arch::asm!("mov {}, fs:0", out(reg) number, options(nostack, preserves_flags, pure, readonly)) };
    number
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: plain integers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quota_counts_as_whole_cpus() {
        assert_eq!(parse_quota("150000 100000\n"), Some(2));
        assert_eq!(parse_quota("100000 100000"), Some(1));
        assert_eq!(parse_quota("max 100000\n"), None);
        assert_eq!(parse_quota("-1 100000"), None);
        assert_eq!(parse_quota(""), None);
    }
}
