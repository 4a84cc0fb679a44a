//! # Safety
//! Relies on clock_gettime(2) filling in the structure it is given.
//!
//! Time: the machine's clock, and ticks that cost less to read.
#![allow(unsafe_code)]

/// Seconds since an arbitrary time in the past, the same for all processes of the machine
/// (CLOCK_MONOTONIC, so `MPI_WTIME_IS_GLOBAL` holds).
pub fn seconds() -> f64 {
    let time = read(libc::clock_gettime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Nanoseconds of the same time.
pub fn nanoseconds() -> u64 {
    let time = read(libc::clock_gettime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Nanoseconds for which the threads of this process have run, together.
pub fn used() -> u64 {
    let time = read_of(libc::clock_gettime, libc::CLOCK_PROCESS_CPUTIME_ID);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Resolution of [`seconds`], in seconds.
pub fn resolution() -> f64 {
    let time = read(libc::clock_getres);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// A clock for short times: the processor's time stamp counter where that counts evenly on all CPUs
/// (as the processor says: "invariant TSC", CPUID 8000_0007H), the machine's clock elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticks {
    counter: bool,
}

impl Ticks {
    /// The best clock of this processor.
    pub fn best() -> Ticks {
        use std::arch::x86_64::__cpuid;
        let known = __cpuid(0x8000_0000).eax >= 0x8000_0007;
        Ticks {
            counter: known && __cpuid(0x8000_0007).edx & 1 << 8 != 0,
        }
    }

    /// The machine's clock.
    pub fn coarse() -> Ticks {
        Ticks { counter: false }
    }

    /// Ticks since an arbitrary time, the same for all processes of the machine. Cost: about 10 ns.
    #[inline]
    pub fn now(self) -> u64 {
        match self.counter {
            // SAFETY: every x86-64 processor has the instruction.
            true => unsafe { std::arch::x86_64::_rdtsc() },
            false => nanoseconds(),
        }
    }
}

type Call = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;

fn read(call: Call) -> libc::timespec {
    read_of(call, libc::CLOCK_MONOTONIC)
}

fn read_of(call: Call, clock: libc::clockid_t) -> libc::timespec {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to.
    unsafe { call(clock, &mut time) };
    time
}
