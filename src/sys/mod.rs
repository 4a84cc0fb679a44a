//! The kernel and nothing else: every system call of the library is made here.

pub mod clock;
pub mod cma;
pub mod copy;
pub mod cpu;
pub mod cpuset;
pub mod cvar;
pub mod descriptor;
pub mod file;
pub mod fork;
pub mod futex;
pub mod gate;
pub mod gather;
pub mod growing;
pub mod heap;
pub mod hog;
pub mod host;
pub mod memory;
pub mod pages;
pub mod process;
pub mod selection;
pub mod spare;
pub mod thread;
pub mod topology;
pub mod tuned;
