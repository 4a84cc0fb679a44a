//! # Safety
//! Calls what is tested, with memory of the tests of the length it needs.
//!
//! Tests of accesses to what lies apart in a member's memory, by its mailbox and through the kernel, and of what is kept for later.
#![allow(unsafe_code)]

use super::list::{List, Stretch};
use super::listed::{self, Wish};
use super::serve::{READ, WRITE};
use super::short::Here;
use super::tests::{LONG, buffer, end, job, job_with, refuses, sum, window};
use super::update::{Change, Rows, through};
use super::*;
use crate::mpi::coll::barrier;
use crate::mpi::datatype::basic::{self, BASICS, Basic};

const N: usize = 4000;

fn basic(name: &str) -> &'static Basic {
    BASICS.iter().find(|basic| basic.name == name).unwrap()
}

/// Words at growing distances, and a vector, in turns of some that follow each other.
fn words() -> Vec<usize> {
    let odd = (0..60).flat_map(|index| [index * index, index * index + index]);
    let mut words: Vec<usize> = odd.chain((0..300).map(|index| 3600 - 5 * index / 2 * 2)).collect();
    words.sort_unstable();
    words.dedup();
    words
}

fn list(base: u64, words: &[usize]) -> Vec<Stretch> {
    words.iter().map(|&word| (base + 8 * word as u64, 8)).collect()
}

#[test]
fn a_member_that_waits_does_what_a_list_asks_and_refuses_what_makes_no_sense() {
    let addresses = std::sync::Mutex::new(0);
    job(2, |hold, comm| {
        let mut memory: Vec<i64> = (0..N as i64).collect();
        let window = window(hold, comm, Flavor::Create, &mut memory);
        if comm.rank == 1 {
            *addresses.lock().unwrap() = window.base as u64;
        }
        barrier(hold, comm).unwrap();
        let words = words();
        if comm.rank == 1 {
            barrier(hold, comm).unwrap();
            for (index, &word) in memory.iter().enumerate() {
                let factor = if words.contains(&index) { 3 } else { 1 };
                assert_eq!(word, factor * index as i64, "{index}");
            }
            return end(hold, window);
        }
        let there = *addresses.lock().unwrap();
        let list = list(there, &words);
        let right: Vec<i64> = words.iter().map(|&word| word as i64).collect();
        let mut ask = |word, (operand, old): (&[i64], &mut [i64])| {
            let wish = Wish {
                word,
                operands: usize::from(!operand.is_empty()),
                wanted: !old.is_empty(),
                size: 8,
            };
            // What the member has not done is asked for again, and nothing else.
            let mut left: Vec<_> = std::iter::once(0..8 * list.len()).collect();
            while let Some(bytes) = left.pop() {
                let here = Here {
                    origin: operand.as_ptr().wrapping_byte_add(bytes.start).cast(),
                    compare: std::ptr::null(),
                    result: match old.is_empty() {
                        true => std::ptr::null_mut(),
                        false => old.as_mut_ptr().wrapping_byte_add(bytes.start).cast(),
                    },
                };
                let list: List = list.iter().copied().collect();
                let list: List = list.part(bytes.clone()).into_iter().collect();
                let others = left.len();
                let again = |_: &mut Hold, part: std::ops::Range<usize>| {
                    left.push(bytes.start + part.start..bytes.start + part.end);
                    Ok(())
                };
                // SAFETY: as many words lie at each address as in the list.
                let asked = unsafe { listed::ask(hold, &window, 1, &list, (wish, &here), again) };
                assert_eq!(asked.unwrap(), left.len() == others);
            }
        };
        let (mut seen, mut old) = (vec![-1; words.len()], vec![-1; words.len()]);
        ask(READ, (&[], &mut seen));
        assert_eq!(seen, right);
        let twice: Vec<i64> = right.iter().map(|word| 2 * word).collect();
        ask(WRITE, (&twice, &mut []));
        let combine = mail::word(Change::Combine(Builtin::Sum), &BASICS[basic::index(LONG).unwrap()]);
        let negative: Vec<i64> = right.iter().map(|word| -word).collect();
        ask(combine, (&negative, &mut old));
        assert_eq!(old, twice);
        ask(combine, (&twice, &mut []));

        let end_of = there + 8 * N as u64;
        for (word, groups, bytes) in [
            (READ, &[[there, 8, 2, 16]][..], 24),
            (READ, &[[there, 8, 2, 16]], 8),
            (READ, &[[there, 8, 2, u64::MAX]], 16),
            (READ, &[[there, 0, 2, 16]], 16),
            (READ, &[[there, 8, 1, 0], [end_of - 4, 8, 1, 0]], 16),
            (WRITE, &[[there, 8, 1 << 61, 8]], 8),
            (WRITE, &[[end_of - 8, 8, 2, 8]], 16),
            (combine, &[[there, 4, 2, 8]], 8),
            (combine, &[[there, 8, 1, 0], [there - 8, 8, 1, 0]], 16),
            (combine | 0xff << 8, &[[there, 8, 1, 0]], 8),
            (READ, &[], 0),
            (READ, &[[there, 8, 2, 16]], u64::MAX),
        ] {
            refuses(&window, [word | listed::LISTED, groups.len() as u64, bytes], groups);
        }
        barrier(hold, comm).unwrap();
        end(hold, window);
    });
}

#[test]
fn the_kernel_is_asked_for_all_at_once_and_elements_keep_what_lies_in_their_gaps() {
    let here = std::process::id() as i32;
    let mut memory: Vec<i64> = (0..N as i64).collect();
    let words = words();
    let list = list(memory.as_mut_ptr() as u64, &words);
    for wanted in [true, false] {
        let mut rows = Rows::new(8 * (words.len() + 1), wanted);
        rows.fill(&5i64.to_ne_bytes().repeat(words.len() + 1), 8 * (words.len() + 1));
        through(
            here,
            Change::Combine(Builtin::Sum),
            basic("MPI_LONG"),
            &list,
            &mut rows,
            8,
        )
        .unwrap();
        if wanted {
            let (old, _) = rows.old().as_chunks::<8>();
            let old = old.iter().skip(1).map(|word| i64::from_ne_bytes(*word));
            assert!(old.zip(&words).all(|(old, &word)| old == word as i64));
        }
    }
    for (index, &word) in memory.iter().enumerate() {
        let more = if words.contains(&index) { 10 } else { 0 };
        assert_eq!(word, index as i64 + more, "{index}");
    }
    // Pairs of a short and an int, of which every second one is changed.
    let mut pairs: Vec<[i16; 4]> = (0..20).map(|index| [index, 77, index, 0]).collect();
    let base = pairs.as_mut_ptr() as u64;
    let each = |index: u64| [(base + 16 * index, 2), (base + 16 * index + 4, 4)];
    let list: Vec<Stretch> = (0..10).flat_map(each).collect();
    let mut rows = Rows::new(80, true);
    rows.fill(&[9i16, 99, 1, 0].map(i16::to_ne_bytes).concat().repeat(10), 80);
    through(
        here,
        Change::Combine(Builtin::Maxloc),
        basic("MPI_SHORT_INT"),
        &list,
        &mut rows,
        0,
    )
    .unwrap();
    for (index, pair) in (0..).zip(&pairs) {
        let right = if index < 9 && index % 2 == 0 {
            [9, 77, 1, 0]
        } else {
            [index, 77, index, 0]
        };
        assert_eq!(*pair, right);
    }
}

#[test]
fn short_operations_wait_for_a_synchronization_and_for_no_other_kind() {
    job(2, |hold, comm| {
        let mut memory = vec![0i64; N];
        for index in [20, 21, 30] {
            memory[index] = index as i64;
        }
        let window = window(hold, comm, Flavor::Create, &mut memory);
        let (other, op) = (1 - comm.rank, sum(hold));
        let kept = |window: &Window| [false, true].map(|reads| later::kept(window, (other, reads)));
        let target = |disp, count| super::tests::target(other, disp, count);
        epoch::lock_all(hold, &window).unwrap();
        for round in 0..2 {
            for index in 0..3 {
                transfer::put(hold, &window, &buffer(&mut [index + 1]), &target(2 * index, 1)).unwrap();
            }
            assert_eq!(
                kept(&window),
                [[16, 24][round], 0],
                "the first one goes at once at first"
            );
            let mut seen = [0; 5];
            if round == 0 {
                for index in 0..3 {
                    let at = target([20, 21, 30][index], 1);
                    transfer::get(hold, &window, &buffer(&mut seen[index..=index]), &at).unwrap();
                }
                assert_eq!(
                    (seen, kept(&window)),
                    ([20, 0, 0, 0, 0], [16, 16]),
                    "gets wait beside them"
                );
                let at = target(0, 5);
                transfer::get_now(hold, &window, &buffer(&mut seen[..]), &at).unwrap();
                assert_eq!((seen, kept(&window)), ([1, 0, 2, 0, 3], [0, 0]));
            }
            update::accumulate(hold, &window, &buffer(&mut [5]), None, &target(0, 1), &op).unwrap();
            update::accumulate(hold, &window, &buffer(&mut [6]), None, &target(1, 1), &op).unwrap();
            assert_eq!(kept(&window), [16, 0], "and puts before other kinds");
            update::accumulate(hold, &window, &buffer(&mut [7, 0]), None, &target(0, 2), &op).unwrap();
            assert_eq!(kept(&window), [16, 0], "and each element is changed once");
            let mut words = [0; 2];
            for index in 0..2 {
                let at = target([20, 30][index], 1);
                transfer::get(hold, &window, &buffer(&mut words[index..=index]), &at).unwrap();
            }
            transfer::put(hold, &window, &buffer(&mut vec![1; 1000]), &target(40, 1000)).unwrap();
            assert_eq!((kept(&window)[0], words[1]), (0, 0));
            update::accumulate(hold, &window, &buffer(&mut [-12, -6]), None, &target(0, 2), &op).unwrap();
            epoch::flush(hold, &window, [Some(other), None][round]).unwrap();
            assert_eq!((kept(&window), words), ([0, 0], [20, 30]));
        }
        transfer::put(hold, &window, &buffer(&mut [9]), &target(4, 1)).unwrap();
        transfer::put(hold, &window, &buffer(&mut [8]), &target(6, 1)).unwrap();
        for bytes in [8, 0, 0] {
            epoch::flush(hold, &window, None).unwrap();
            transfer::put(hold, &window, &buffer(&mut [7]), &target(5, 1)).unwrap();
            assert_eq!(kept(&window), [bytes, 0], "and where the last one was alone");
        }
        epoch::unlock_all(hold, &window).unwrap();
        barrier(hold, comm).unwrap();
        assert_eq!(memory[..7], [1, 0, 2, 0, 9, 7, 8]);
        end(hold, window);
    });
}

/// Programs should not, but do.
#[test]
fn what_is_read_and_written_at_one_place_is_so_in_order() {
    job(2, |hold, comm| {
        let mut memory = vec![0i64; N];
        let window = window(hold, comm, Flavor::Create, &mut memory);
        let other = 1 - comm.rank;
        let target = |disp| super::tests::target(other, disp, 1);
        epoch::lock_all(hold, &window).unwrap();
        for place in [10, 20, 30] {
            transfer::put(hold, &window, &buffer(&mut [place]), &target(place)).unwrap();
        }
        let mut seen = [-1; 3];
        for (index, place) in [30, 40, 50].into_iter().enumerate() {
            transfer::get(hold, &window, &buffer(&mut seen[index..=index]), &target(place)).unwrap();
        }
        assert_eq!(seen, [30, -1, -1], "the first one goes at once, behind the put");
        transfer::put(hold, &window, &buffer(&mut [50]), &target(50)).unwrap();
        assert_eq!(seen, [30, 0, 0], "a put goes behind the get");
        epoch::unlock_all(hold, &window).unwrap();
        barrier(hold, comm).unwrap();
        assert_eq!([memory[30], memory[50]], [30, 50]);
        end(hold, window);
    });
}

#[test]
fn nothing_is_kept_where_that_is_turned_off() {
    job_with(2, &["NEARMPI_WINDOW_LATER"], |hold, comm| {
        let mut memory = vec![0i64; N];
        let window = window(hold, comm, Flavor::Create, &mut memory);
        let other = 1 - comm.rank;
        epoch::lock_all(hold, &window).unwrap();
        for index in 0..3 {
            let target = super::tests::target(other, 2 * index, 1);
            transfer::put(hold, &window, &buffer(&mut [index]), &target).unwrap();
        }
        assert_eq!(later::kept(&window, (other, false)), 0);
        epoch::unlock_all(hold, &window).unwrap();
        barrier(hold, comm).unwrap();
        end(hold, window);
    });
}
