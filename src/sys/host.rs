//! The machine's name.

/// The name of this machine as uname(2) has it; "localhost" where /proc does not tell.
pub fn name() -> String {
    match std::fs::read_to_string("/proc/sys/kernel/hostname") {
        Ok(name) => name.trim_end().to_owned(),
        Err(_) => "localhost".to_owned(),
    }
}
