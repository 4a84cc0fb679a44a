//! What is left of a job when its ranks are gone: processes that they started, and what they wrote about their memory.

use crate::os::{self, Signals};
use mpi::launch::memory_report;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Ends every process that is still a child of ours: what the ranks left behind.
pub fn clear(signals: &mut Signals) {
    let deadline = Instant::now() + Duration::from_secs(1);
    loop {
        loop {
            match os::reap() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => return,
            }
        }
        if Instant::now() > deadline {
            return;
        }
        children()
            .into_iter()
            .for_each(|pid| os::kill(pid, false, libc::SIGKILL));
        os::poll(&[signals.as_fd()], &[], Some(Duration::from_millis(5)));
        while signals.next().is_some() {}
    }
}

/// Our living children.
pub fn children() -> Vec<i32> {
    let me = std::process::id();
    if let Ok(list) = std::fs::read_to_string(format!("/proc/self/task/{me}/children")) {
        return list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect();
    }
    // A kernel without that file: look at everybody's parent.
    let parent = |stat: &str| stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok();
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| parent(&stat) == Some(me)))
        .collect()
}

/// What the ranks wrote about their memory, in their order.
pub fn memory(mut file: File, ranks: usize) -> String {
    let mut text = Vec::new();
    let read = file.rewind().and_then(|()| file.read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text).into_owned();
    let rank = |part: &&str| part.strip_prefix("rank ")?.split(':').next()?.parse::<usize>().ok();
    let mut parts: Vec<(usize, &str)> = text
        .split(memory_report::END)
        .filter_map(|part| Some((rank(&part)?, part)))
        .collect();
    parts.sort();
    let mut all: String = parts.iter().map(|(_, part)| *part).collect();
    if read.is_err() || parts.len() < ranks {
        all += &format!(
            "mpirun: {} of {ranks} ranks said where their memory lies, as they finalized MPI\n",
            parts.len()
        );
    }
    all
}
