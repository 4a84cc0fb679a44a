//! # Safety
//! One system call with plain integers.
//!
//! Processes: others, by number, and what there is to know of this one.
#![allow(unsafe_code)]

use std::os::unix::fs::MetadataExt;

/// Whether there is such a process, and it has not ended. Cost: opens a file.
pub fn is_alive(pid: i32) -> bool {
    let state = state_and_parent(pid).map(|(state, _)| state);
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Whether there is a process `pid`, ended and not reaped or not, that may be looked at or not.
pub fn exists(pid: i32) -> bool {
    // SAFETY: signal 0 is sent to nobody.
    let sent = unsafe { libc::kill(pid, 0) } == 0;
    sent || std::io::Error::last_os_error().raw_os_error() != Some(libc::ESRCH)
}

/// Whether `pid` has started this process, or a process that has. Cost: opens a file for each generation.
pub fn is_ancestor(pid: i32) -> bool {
    let mut parent = super::descriptor::parent();
    while parent > 1 && parent != pid {
        parent = state_and_parent(parent).map_or(0, |(_, parent)| parent);
    }
    parent > 1
}

/// Which namespace this process counts processes in, where the kernel tells; the same number means the same process there only.
pub fn namespace() -> Option<u64> {
    std::fs::metadata("/proc/self/ns/pid").ok().map(|file| file.ino())
}

fn state_and_parent(pid: i32) -> Option<(char, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // They stand behind the name, which may hold anything.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}

/// Whether valgrind checks this process's use of memory: it does not see what other processes write there.
pub fn is_checked() -> bool {
    std::env::var_os("LD_PRELOAD").is_some_and(|list| list.to_string_lossy().contains("vgpreload"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_has_the_number_that_the_kernel_shows() {
        let link = std::fs::read_link("/proc/self/ns/pid").unwrap();
        let number = namespace().expect("there is one");
        assert_eq!(link.to_string_lossy(), format!("pid:[{number}]"));
    }

    #[test]
    fn who_has_started_this_process_is_its_ancestor() {
        assert!(is_ancestor(crate::sys::descriptor::parent()));
        assert!(!is_ancestor(std::process::id() as i32) && !is_ancestor(0));
    }

    #[test]
    fn a_process_lives_until_it_ends_whether_it_is_reaped_or_not() {
        assert!(is_alive(std::process::id() as i32) && !is_alive(i32::MAX));
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id() as i32;
        assert!(is_alive(pid));
        drop(child.stdin.take());
        while is_alive(pid) {
            std::thread::yield_now();
        }
        assert!(exists(pid) && exists(1));
        child.wait().unwrap();
        assert!(!is_alive(pid) && !exists(pid));
    }
}
