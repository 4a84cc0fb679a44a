//! What comes over sockets: requests of ranks to mpirun's PMI server, and a launcher's answers to a rank.
#![no_main]
#![allow(dead_code, missing_docs)]

#[path = "../../src/bin/mpirun/server.rs"]
mod server;

use libfuzzer_sys::fuzz_target;
use mpi::launch::client::Client;
use mpi::launch::pmi::{Lines, Message, on_one_host};
use server::{Effect, Server};
use std::io::Write;
use std::os::unix::net::UnixStream;

fuzz_target!(|input: &[u8]| {
    let Some((&which, rest)) = input.split_first() else {
        return;
    };
    if which % 2 == 0 {
        serve(rest);
    } else {
        ask(which, rest);
    }
});

/// Two ranks whose lines these are, in turn.
fn serve(bytes: &[u8]) {
    let mut server = Server::new("kvs".into(), vec![0, 1], None);
    let mut lines = [Lines::default(), Lines::default()];
    for (index, piece) in bytes.chunks(37).enumerate() {
        let rank = index % 2;
        lines[rank].push(piece);
        while let Some(line) = lines[rank].next_line() {
            let Ok(line) = line else { continue };
            for effect in server.take(rank, &line).unwrap_or_default() {
                if let Effect::Reply(to, text) = effect {
                    assert!(to < 2 && !text.contains('\n'));
                    Message::parse(&text).unwrap();
                }
            }
        }
    }
}

/// A launcher that answers this, whatever it is asked, and goes away.
fn ask(which: u8, bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        drop(on_one_host(text, u32::from(which)));
    }
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    let _ = theirs.write(bytes);
    theirs.shutdown(std::net::Shutdown::Write).unwrap();
    if which & 2 != 0 {
        drop(Client::identify(ours.into(), 3));
        return;
    }
    let Ok(mut client) = Client::new(ours.into()) else {
        return;
    };
    let _ = client.appnum();
    let _ = client.universe_size();
    let _ = client.put("key", "value");
    let _ = client.barrier();
    if let Ok(Some(value)) = client.get("key") {
        assert!(!value.contains(['\n', ' ']));
    }
    let _ = client.finalize();
}
