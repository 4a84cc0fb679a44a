//! Lists and files of hosts: that they name this machine, and how many ranks they have room for.

use crate::arguments::MOST;
use std::net::{IpAddr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

/// How long to wait for the address of a host that this machine does not know by name.
const PATIENCE: Duration = Duration::from_secs(1);

/// This machine.
pub struct Here<'a> {
    /// What it calls itself.
    pub name: &'a str,
    /// Whether a name that it does not know leads to it: [`resolves_here`].
    pub resolves: &'a dyn Fn(&str) -> bool,
}

/// The ranks that a list (`-host`) has room for, if it says so: `box:3`, or `box` more than once.
///
/// # Errors
/// A sentence about a host that is another machine, or about a number.
pub fn list(text: &str, here: &Here) -> Result<Option<u32>, String> {
    let entries = text.split(',').map(|entry| {
        let (name, slots) = divided(entry.trim());
        // Open MPI: as many as there are CPUs.
        let slots = slots.filter(|slots| !matches!(*slots, "" | "*" | "auto"));
        Ok((name, slots.map(|slots| number(entry, slots)).transpose()?))
    });
    room(entries, here)
}

/// The same for a file of hosts, one a line: Hydra's `box:3`, Open MPI's `box slots=3`.
///
/// # Errors
/// As [`list`].
pub fn file(text: &str, here: &Here) -> Result<Option<u32>, String> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim());
    let entries = lines.filter(|line| !line.is_empty()).map(|line| {
        let mut words = line.split_whitespace();
        let (name, slots) = divided(words.next().unwrap_or_default());
        let mut slots = slots.filter(|slots| !slots.is_empty());
        for word in words {
            if let Some((key, value)) = word.split_once('=')
                && ["slots", "count", "cpus"].contains(&key)
            {
                slots = Some(value);
            }
        }
        Ok((name, slots.map(|slots| number(line, slots)).transpose()?))
    });
    room(entries, here)
}

type Entry<'a> = Result<(&'a str, Option<u32>), String>;

fn room<'a>(entries: impl Iterator<Item = Entry<'a>>, here: &Here) -> Result<Option<u32>, String> {
    let (mut count, mut sum, mut said) = (0, 0u32, false);
    for entry in entries {
        let (name, slots) = entry?;
        if !here.is_called(name) {
            return Err(format!(
                "host {name:?} is not this machine ({}): nearmpi runs on one machine",
                here.name
            ));
        }
        count += 1;
        said |= slots.is_some();
        sum = sum.saturating_add(slots.unwrap_or(1));
    }
    if sum > MOST {
        return Err(format!("the hosts have room for {sum} ranks: a job has {MOST} at most"));
    }
    Ok((said || count > 1).then_some(sum))
}

fn number(entry: &str, slots: &str) -> Result<u32, String> {
    let number = slots.parse().ok().filter(|slots| (1..=MOST).contains(slots));
    number.ok_or_else(|| format!("host {entry}: {slots:?} is not a number of ranks from 1 to {MOST}"))
}

/// A host and what stands behind its colon. An address of IPv6 has colons of its own.
fn divided(entry: &str) -> (&str, Option<&str>) {
    if let Some((name, rest)) = entry.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (name, rest.strip_prefix(':'));
    }
    if let Some(rest) = entry
        .strip_prefix("::1")
        .filter(|rest| rest.is_empty() || rest.starts_with(':'))
    {
        return ("::1", rest.strip_prefix(':'));
    }
    match entry.split_once(':') {
        Some((name, rest)) if entry.parse::<Ipv6Addr>().is_err() => (name, rest.split(':').next()),
        _ => (entry, None),
    }
}

impl Here<'_> {
    /// Whether that is one of its names or addresses.
    fn is_called(&self, name: &str) -> bool {
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        if name.is_empty() {
            return false;
        }
        match name.parse::<IpAddr>() {
            Ok(address) => is_mine(address),
            Err(_) => {
                let local = ["localhost", "localhost4", "localhost6", "ip6-localhost", "ip6-loopback"];
                local.contains(&short(name).as_str()) || short(name) == short(self.name) || (self.resolves)(name)
            }
        }
    }
}

/// Whether one of this machine's interfaces has the address: nobody can receive at another's.
fn is_mine(address: IpAddr) -> bool {
    let usable = !address.is_unspecified() && !address.is_multicast();
    usable && (address.is_loopback() || UdpSocket::bind((address, 0)).is_ok())
}

/// Whether the name of a host leads to this machine, as far as is known within [`PATIENCE`].
pub fn resolves_here(name: &str) -> bool {
    let (answer, asked) = mpsc::channel();
    let name = name.to_string();
    let ask = move || {
        let addresses = (name.as_str(), 0).to_socket_addrs();
        // Whoever asked may have lost patience.
        let _ = answer.send(addresses.is_ok_and(|mut all| all.any(|address| is_mine(address.ip()))));
    };
    std::thread::Builder::new().spawn(ask).is_ok() && asked.recv_timeout(PATIENCE).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Here = Here {
        name: "box.example.org",
        resolves: &|name| name == "alias",
    };

    #[test]
    fn this_machine_has_many_names() {
        let names = "localhost,LOCALHOST,localhost.localdomain,localhost6,127.0.0.1,127.0.1.1,::1,[::1],alias,box,box.else.where,BOX";
        for name in names.split(',') {
            assert!(list(name, &HERE).is_ok(), "{name}");
        }
        for name in ["", "faraway", "192.0.2.77", "2001:db8::7", "0.0.0.0", "boxer"] {
            let sentence = list(name, &HERE).unwrap_err();
            assert!(sentence.contains("one machine"), "{name}: {sentence}");
        }
    }

    #[test]
    fn this_machine_has_the_addresses_of_its_interfaces() {
        // The kernel says with which address of ours it would send there; that sends nothing.
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        if socket.connect("198.51.100.1:9").is_ok() {
            let mine = socket.local_addr().unwrap().ip().to_string();
            assert_eq!(list(&mine, &HERE), Ok(None), "{mine}");
            assert_eq!(list(&format!("{mine}:4"), &HERE), Ok(Some(4)), "{mine}");
        }
    }

    #[test]
    fn names_are_looked_up() {
        assert!(resolves_here("localhost"));
        assert!(!resolves_here("no such name"));
    }

    #[test]
    fn slots_are_added_up() {
        let room = |text: &str| list(text, &HERE).unwrap();
        assert_eq!((room("box"), room("box:"), room("box:*")), (None, None, None));
        assert_eq!(
            (room("box:3"), room("::1:3"), room("[::1]:3")),
            (Some(3), Some(3), Some(3))
        );
        assert_eq!((room("box,box"), room("box:2,localhost")), (Some(2), Some(3)));
        let room = |text: &str| file(text, &HERE).unwrap();
        assert_eq!((room("box # me\n\n"), room("box\nbox\n")), (None, Some(2)));
        assert_eq!(room("box:2\nbox slots=3 max_slots=9\n"), Some(5));
        for wrong in ["box:0", "box:x", "box:-1", "box:99999", "box:20000,box:20000"] {
            assert!(list(wrong, &HERE).is_err(), "{wrong}");
        }
        assert!(file("box slots=none", &HERE).unwrap_err().contains("none"));
    }
}
