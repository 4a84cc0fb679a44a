//! Processes: others, by number, and what there is to know of this one.

use std::os::unix::fs::MetadataExt;

/// Whether there is such a process, and it has not ended. Cost: opens a file.
pub fn is_alive(pid: i32) -> bool {
    let state = state_and_parent(pid).map(|(state, _)| state);
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
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
    fn a_child_counts_as_its_parent_does() {
        let link = std::fs::read_link("/proc/self/ns/pid").unwrap();
        let number = namespace().expect("there is one").to_string();
        assert!(link.to_string_lossy().contains(&number), "{link:?}");
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
        child.wait().unwrap();
        assert!(!is_alive(pid));
    }
}
