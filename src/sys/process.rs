//! Processes: others, by number, and what there is to know of this one.

/// Whether there is such a process, and it has not ended. Cost: opens a file.
pub fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state stands behind the name, which may hold anything.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// Whether valgrind checks this process's use of memory: it does not see what other processes write there.
pub fn is_checked() -> bool {
    std::env::var_os("LD_PRELOAD").is_some_and(|list| list.to_string_lossy().contains("vgpreload"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
