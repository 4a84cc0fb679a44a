//! What people type and files that they name: mpirun's command line and configuration files, placement maps, matrices,
//! topologies, control variables. Whatever it is, it is understood or refused with a sentence.
#![no_main]
#![allow(dead_code, missing_docs)]

#[path = "../../src/bin/mpirun/allocation.rs"]
mod allocation;
#[path = "../../src/bin/mpirun/annex.rs"]
mod annex;
#[path = "../../src/bin/mpirun/arguments.rs"]
mod arguments;
#[path = "../../src/bin/mpirun/auto.rs"]
mod auto;
#[path = "../../src/bin/mpirun/binding.rs"]
mod binding;
#[path = "../../src/bin/mpirun/count.rs"]
mod count;
#[path = "../../src/bin/mpirun/debugger.rs"]
mod debugger;
#[path = "../../src/bin/mpirun/directives.rs"]
mod directives;
#[path = "../../src/bin/mpirun/guests.rs"]
mod guests;
#[path = "../../src/bin/mpirun/hosts.rs"]
mod hosts;
#[path = "../../src/bin/mpirun/intel.rs"]
mod intel;
#[path = "../../src/bin/mpirun/options.rs"]
mod options;
#[path = "../../src/bin/mpirun/os.rs"]
mod os;
#[path = "../../src/bin/mpirun/outlet.rs"]
mod outlet;
#[path = "../../src/bin/mpirun/output.rs"]
mod output;
#[path = "../../src/bin/mpirun/preload.rs"]
mod preload;
#[path = "../../src/bin/mpirun/profile.rs"]
mod profile;
#[path = "../../src/bin/mpirun/remains.rs"]
mod remains;
#[path = "../../src/bin/mpirun/report.rs"]
mod report;
#[path = "../../src/bin/shared/say.rs"]
mod say;
#[path = "../../src/bin/mpirun/server.rs"]
mod server;
#[path = "../../src/bin/mpirun/stall.rs"]
mod stall;
#[path = "../../src/bin/mpirun/start.rs"]
mod start;
#[path = "../../src/bin/mpirun/supervise.rs"]
mod supervise;
#[path = "../../src/bin/mpirun/top.rs"]
mod top;
#[path = "../../src/bin/mpirun/view.rs"]
mod view;
#[path = "../../src/bin/mpirun/words.rs"]
mod words;

use libfuzzer_sys::fuzz_target;
use mpi::place::{map, matrix::Matrix, patterns, xml};
use mpi::sys::cvar::Settings;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

fuzz_target!(|input: &[u8]| {
    let Some((&which, rest)) = input.split_first() else {
        return;
    };
    let text = String::from_utf8_lossy(rest);
    match which % 8 {
        0 => drop(map::read(&text)),
        1 => drop(Matrix::parse(&text)),
        2 => drop(xml::machine(&text)),
        3 if rest.len() < 12 => drop(patterns::named(&text)),
        4 => {
            let name = text.lines().next().unwrap_or_default().to_string();
            drop(Settings::read(|asked| {
                (asked.ends_with(&name)).then(|| text.to_string())
            }));
        }
        // Words end with a zero byte; what a configuration file says comes after two of them.
        _ => {
            let (words, file) = match rest.windows(2).position(|pair| pair == [0, 0]) {
                Some(at) => (&rest[..at], &rest[at + 2..]),
                None => (rest, &[][..]),
            };
            let words: Vec<OsString> = words
                .split(|&byte| byte == 0)
                .map(|word| OsStr::from_bytes(word).into())
                .collect();
            let read = |_: &str| String::from_utf8(file.to_vec()).map_err(|why| why.to_string());
            let here = hosts::Here {
                name: "box",
                resolves: &|_| false,
            };
            match arguments::parse(words, ":", &read, &here) {
                Ok(arguments::Request::Run(job)) => {
                    assert!(!job.apps.is_empty() && job.apps.iter().all(|app| !app.program.is_empty()));
                }
                Ok(_) => {}
                Err(sentence) => assert!(!sentence.is_empty()),
            }
        }
    }
});
