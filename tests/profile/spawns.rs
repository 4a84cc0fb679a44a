//! # Safety
//! As in the file above.
//!
//! Rank 0 starts another rank before rank 1 has come to MPI_Init, and sends to it.
#![allow(unsafe_code)]

use super::*;
use mpi::abi::dynamic::{MPI_Comm_get_parent, MPI_Comm_spawn};
use std::ffi::CString;

/// What is sent, in bytes.
const LEN: usize = 100_000;

/// Rank 1 comes late to MPI_Init.
pub fn begin() {
    if std::env::var("PMI_RANK").is_ok_and(|rank| rank == "1") {
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
}

pub unsafe fn spawns(rank: c_int) {
    let mut bytes = vec![0_u8; LEN];
    let place = bytes.as_mut_ptr().cast::<c_void>();
    let mut other = MPI_COMM_NULL;
    unsafe {
        MPI_Comm_get_parent(&mut other);
        if other != MPI_COMM_NULL {
            MPI_Recv(place, LEN as c_int, MPI_BYTE, 0, 0, other, MPI_STATUS_IGNORE);
            return;
        }
        let me = CString::new(std::env::current_exe().unwrap().to_str().unwrap()).unwrap();
        let words = [c"--ignored", c"--exact", c"rank", c"--nocapture"];
        let mut words: Vec<_> = words.map(|word| word.as_ptr().cast_mut()).into();
        words.push(null_mut());
        let words = words.as_mut_ptr();
        MPI_Comm_spawn(
            me.as_ptr(),
            words,
            1,
            MPI_INFO_NULL,
            0,
            MPI_COMM_WORLD,
            &mut other,
            null_mut(),
        );
        if rank == 0 {
            MPI_Send(place, LEN as c_int, MPI_BYTE, 0, 0, other);
        }
    }
}

#[test]
fn ranks_that_were_started_later_are_told_and_not_counted() {
    let run = profiled("spawns", 2);
    assert!(run.output.status.success(), "{}", run.said());
    let json = run.json();
    assert_eq!(json["later"], 1);
    let by_path = json["traffic"].as_array().unwrap().iter();
    let by_path: u64 = by_path.map(|row| row["bytes"].as_u64().unwrap()).sum();
    let by_pair: u64 = matrix(&json, "physical", "bytes").iter().flatten().sum();
    assert_eq!(by_path, by_pair);
    assert!(run.said().contains("1 rank that was started later"), "{}", run.said());
}
