//! The job's memory on its way from rank 0 to the others, under a launcher that is not ours.
//!
//! Rank 0 makes the memory file and listens on an abstract unix socket whose name nobody can guess; the name
//! goes through the launcher's key-value space. Each of the others connects and says its rank in four bytes;
//! both sides check that the peer is the same user; the file's descriptor is passed and the socket is closed.
//! No file system name exists at any time. Source: unix(7).

use crate::sys::descriptor::{effective_user, peer, random, receive_descriptor, send_descriptor, wait_readable};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// How long rank 0 waits for the others, who all know its name, and how long they wait for it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Rank 0's end.
pub struct Host {
    listener: UnixListener,
    name: String,
}

impl Host {
    /// Listens under a new name.
    ///
    /// # Errors
    /// What socket(2), bind(2) and getrandom(2) report.
    pub fn new() -> io::Result<Host> {
        let name = format!("nearmpi-{:032x}", random()?);
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        listener.set_nonblocking(true)?;
        Ok(Host { listener, name })
    }

    /// What the others have to know.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives `memory` to the ranks 1 to `size` - 1, then closes the socket. Strangers are turned away.
    ///
    /// # Errors
    /// A rank that does not come in time, or that comes twice.
    pub fn serve(self, memory: &OwnedFd, size: u32) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        let mut served = vec![false; size as usize];
        served[0] = true;
        while let Some(missing) = served.iter().position(|done| !done) {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(e) if e.kind() == ErrorKind::WouldBlock && Instant::now() < deadline => {
                    wait_readable(self.listener.as_fd(), Duration::from_millis(200));
                    continue;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    return Err(format!(
                        "rank {missing} has not come for the job's memory in {PATIENCE:?}"
                    ));
                }
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => continue,
                Err(e) => return Err(format!("cannot take the other ranks' connections: {e}")),
            };
            if let Some(rank) = greet(&stream, size) {
                if std::mem::replace(&mut served[rank], true) {
                    return Err(format!("rank {rank} came twice for the job's memory"));
                }
                send_descriptor(stream.as_fd(), memory.as_fd())
                    .map_err(|e| format!("cannot pass the job's memory to rank {rank}: {e}"))?;
            }
        }
        Ok(())
    }
}

/// The rank at the other end, if it is one of ours.
fn greet(mut stream: &UnixStream, size: u32) -> Option<usize> {
    let (_, user) = peer(stream.as_fd()).ok()?;
    if user != effective_user() {
        return None;
    }
    stream.set_nonblocking(false).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let mut rank = [0; 4];
    stream.read_exact(&mut rank).ok()?;
    Some(u32::from_le_bytes(rank))
        .filter(|rank| (1..size).contains(rank))
        .map(|rank| rank as usize)
}

/// Gets the job's memory from the rank 0 that listens under `name`.
///
/// # Errors
/// A name that is not one of ours, nobody there, or somebody else's socket.
pub fn fetch(name: &str, rank: u32) -> Result<OwnedFd, String> {
    let secret = name
        .strip_prefix("nearmpi-")
        .filter(|s| s.len() == 32 && s.bytes().all(|b| b.is_ascii_hexdigit()));
    if secret.is_none() {
        return Err("what rank 0 published is not the name of its socket: do all ranks use nearmpi?".into());
    }
    let gone = |e: io::Error| {
        format!(
            "cannot get the job's memory from rank 0 ({e}): are the ranks in containers with networks of their own?"
        )
    };
    let mut stream = SocketAddr::from_abstract_name(name)
        .and_then(|to| UnixStream::connect_addr(&to))
        .map_err(gone)?;
    let (_, user) = peer(stream.as_fd()).map_err(gone)?;
    if user != effective_user() {
        return Err(format!(
            "rank 0 runs as user {user}, this rank as user {}: nearmpi joins ranks of one user",
            effective_user()
        ));
    }
    stream.set_read_timeout(Some(PATIENCE)).map_err(gone)?;
    stream.write_all(&rank.to_le_bytes()).map_err(gone)?;
    receive_descriptor(stream.as_fd()).map_err(gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn every_rank_gets_the_same_file() {
        let host = Host::new().unwrap();
        let name = host.name().to_string();
        let file: OwnedFd = File::open("/proc/self/exe").unwrap().into();
        let inode = |fd: &OwnedFd| File::from(fd.try_clone().unwrap()).metadata().unwrap().ino();
        let expected = inode(&file);
        let others: Vec<_> = (1..5)
            .map(|rank| {
                let name = name.clone();
                std::thread::spawn(move || fetch(&name, rank).unwrap())
            })
            .collect();
        host.serve(&file, 5).unwrap();
        for other in others {
            assert_eq!(inode(&other.join().unwrap()), expected);
        }
        assert!(fetch(&name, 1).is_err(), "the socket is closed afterwards");
    }

    #[test]
    fn a_stranger_and_a_second_comer_are_not_served() {
        let host = Host::new().unwrap();
        let name = host.name().to_string();
        let file: OwnedFd = File::open("/proc/self/exe").unwrap().into();
        let others = std::thread::spawn(move || {
            assert!(fetch(&name, 0).is_err(), "rank 0 is not to be fetched for");
            assert!(fetch(&name, 9).is_err(), "no such rank");
            assert!(fetch(&name, 1).is_ok());
            let _ = fetch(&name, 1);
        });
        assert!(host.serve(&file, 3).unwrap_err().contains("twice"));
        others.join().unwrap();
    }

    #[test]
    fn other_names_are_refused() {
        assert!(fetch("", 1).is_err());
        assert!(fetch("nearmpi-zz", 1).is_err());
        assert!(
            fetch(&format!("nearmpi-{:032x}", 5), 1)
                .unwrap_err()
                .contains("containers")
        );
    }
}
