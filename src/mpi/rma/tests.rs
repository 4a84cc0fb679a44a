//! One-sided communication among ranks that are threads over a segment of this process: memory in zones, and memory
//! that its owner has to be asked for.

use super::create::{Share, create, forget, free, keep};
use super::*;
use crate::mpi::coll::barrier;
use crate::mpi::datatype::basic;
use crate::mpi::error::Class;
use crate::mpi::op::kernel::BUILTINS;
use crate::mpi::world::World;
use crate::shm::mailbox::FAR;
use crate::shm::segment::Segment;
use crate::sys::cvar::Settings;
use std::sync::Arc;

pub(super) const LONG: i32 = 0x4c00_0807;

/// Runs `program` as each of `ranks` ranks that cannot reach each other through the kernel.
pub(super) fn job(ranks: u32, program: impl Fn(&mut Hold, &Rc<Comm>) + Sync) {
    job_with(ranks, &[], program);
}

/// ... and with these control variables set to 0, too.
pub(super) fn job_with(ranks: u32, off: &[&str], program: impl Fn(&mut Hold, &Rc<Comm>) + Sync) {
    let segment = Arc::new(Segment::private(ranks, 2).unwrap());
    std::thread::scope(|scope| {
        for rank in 0..ranks {
            let (segment, program) = (segment.clone(), &program);
            scope.spawn(move || {
                let settings = Settings::read(|name| {
                    let is_off = name == "NEARMPI_ONE_COPY" || off.contains(&name);
                    is_off.then(|| "0".into())
                })
                .unwrap();
                let world = World::new(State::join(segment, rank, settings), false);
                let mut hold = world.hold();
                let comm = hold.world.clone();
                program(&mut hold, &comm);
                barrier(&mut hold, &comm).unwrap();
            });
        }
    });
}

/// A window of `words`, in memory of the program or allocated.
pub(super) fn window(hold: &mut Hold, comm: &Rc<Comm>, flavor: Flavor, words: &mut [i64]) -> Rc<Window> {
    let share = Share {
        flavor,
        base: words.as_mut_ptr().cast(),
        size: size_of_val(words),
        unit: 8,
        info: Info::default(),
    };
    let window = create(hold, comm, share).unwrap();
    let key = keep(hold, window).unwrap();
    hold.windows.get(key).unwrap().clone()
}

pub(super) fn end(hold: &mut Hold, window: Rc<Window>) {
    free(hold, &window).unwrap();
    let key = hold
        .windows
        .iter()
        .find(|(_, w)| Rc::ptr_eq(w, &window))
        .map(|(key, _)| key);
    forget(hold, key.unwrap());
}

pub(super) fn target(rank: u32, disp: i64, count: usize) -> Target {
    let datatype = Datatype::basic_at(basic::index(LONG).unwrap());
    Target {
        rank,
        disp,
        count,
        datatype,
    }
}

pub(super) fn buffer(words: &mut [i64]) -> Buffer {
    Buffer::bytes(words.as_mut_ptr().cast(), size_of_val(words))
}

pub(super) fn sum(hold: &Hold) -> Rc<super::super::op::Op> {
    let number = BUILTINS.iter().position(|builtin| builtin.name() == "MPI_SUM").unwrap();
    hold.ops.builtin(number as u32 + 1).unwrap().clone()
}

#[test]
fn everybody_finds_what_everybody_put() {
    for flavor in [Flavor::Create, Flavor::Allocate, Flavor::Shared] {
        job(3, |hold, comm| {
            const N: usize = 3000;
            let mut memory = vec![0i64; 3 * N];
            let window = window(hold, comm, flavor, &mut memory);
            epoch::fence(hold, &window, false).unwrap();
            let me = comm.rank as i64;
            let mut out: Vec<i64> = (0..N as i64).map(|word| me << 32 | word).collect();
            for rank in 0..3 {
                transfer::put(hold, &window, &buffer(&mut out), &target(rank, me * N as i64, N)).unwrap();
            }
            epoch::fence(hold, &window, false).unwrap();
            let mut seen = vec![0i64; 3 * N];
            let next = (comm.rank + 1) % 3;
            transfer::get(hold, &window, &buffer(&mut seen), &target(next, 0, 3 * N)).unwrap();
            epoch::fence(hold, &window, true).unwrap();
            for (index, &word) in seen.iter().enumerate() {
                assert_eq!(word, ((index / N) as i64) << 32 | (index % N) as i64);
            }
            end(hold, window);
        });
    }
}

#[test]
fn no_update_is_lost_and_locks_exclude() {
    for flavor in [Flavor::Create, Flavor::Allocate] {
        job(3, |hold, comm| {
            const ROUNDS: i64 = 100;
            let mut memory = vec![0i64; 2];
            let window = window(hold, comm, flavor, &mut memory);
            let (op, mut one, mut before, mut last) = (sum(hold), [1i64], [0i64], -1);
            for _ in 0..ROUNDS {
                epoch::lock(hold, &window, 0, false).unwrap();
                let (origin, result) = (buffer(&mut one), buffer(&mut before));
                update::accumulate(hold, &window, &origin, Some(&result), &target(0, 0, 1), &op).unwrap();
                epoch::unlock(hold, &window, 0).unwrap();
                assert!(before[0] > last);
                last = before[0];
                let mut word = [0i64];
                epoch::lock(hold, &window, 0, true).unwrap();
                transfer::get(hold, &window, &buffer(&mut word), &target(0, 1, 1)).unwrap();
                word[0] += 1;
                transfer::put(hold, &window, &buffer(&mut word), &target(0, 1, 1)).unwrap();
                epoch::unlock(hold, &window, 0).unwrap();
            }
            barrier(hold, comm).unwrap();
            let mut words = [0i64; 2];
            epoch::lock_all(hold, &window).unwrap();
            transfer::get(hold, &window, &buffer(&mut words), &target(0, 0, 2)).unwrap();
            epoch::unlock_all(hold, &window).unwrap();
            assert_eq!(words, [3 * ROUNDS; 2]);
            end(hold, window);
        });
    }
}

#[test]
fn an_owner_answers_only_for_what_it_exposes() {
    job(2, |hold, comm| {
        let mut memory = vec![5i64; 4];
        let share = Share {
            flavor: Flavor::Dynamic,
            base: std::ptr::null_mut(),
            size: 0,
            unit: 1,
            info: Info::default(),
        };
        let window = create(hold, comm, share).unwrap();
        let key = keep(hold, window).unwrap();
        let window = hold.windows.get(key).unwrap().clone();
        let address = memory.as_mut_ptr() as usize;
        create::attach(&window, address, 16).unwrap();
        let all = crate::mpi::coll::allgather_bytes(hold, comm, &address.to_ne_bytes()).unwrap();
        let other = 1 - comm.rank;
        let there = i64::from_ne_bytes(all[8 * other as usize..][..8].try_into().unwrap());
        epoch::lock(hold, &window, other, false).unwrap();
        let mut words = [0i64; 2];
        transfer::get(hold, &window, &buffer(&mut words), &target(other, there, 2)).unwrap();
        assert_eq!(words, [5, 5]);
        for (disp, count) in [(there + 8, 2), (there - 8, 1), (8, 1)] {
            let mut words = vec![0i64; count];
            let (op, origin, at) = (sum(hold), buffer(&mut words), target(other, disp, count));
            let got = transfer::get(hold, &window, &origin, &at);
            let refused = got.and_then(|()| epoch::flush(hold, &window, Some(other)));
            assert_eq!(refused.unwrap_err().class(), Class::RmaRange);
            let kept = update::accumulate(hold, &window, &origin, None, &at, &op);
            let refused = kept.and_then(|()| epoch::flush(hold, &window, Some(other)));
            assert_eq!(refused.unwrap_err().class(), Class::RmaRange);
        }
        epoch::unlock(hold, &window, other).unwrap();
        barrier(hold, comm).unwrap();
        assert!(create::attach(&window, address + 8, 1).is_err() && create::detach(&window, address + 8).is_err());
        end(hold, window);
        assert_eq!(memory, [5; 4]);
    });
}

/// Member 1 does not do what it is asked in its second mailbox, behind this list.
pub(super) fn refuses(window: &Window, question: [u64; 3], list: &[[u64; 4]]) {
    let mailbox = &window.mailboxes(1).unwrap()[1];
    assert!(mailbox.take());
    // Where a list and its rows lie together.
    let mut at = mailbox.bytes(FAR).unwrap().cast::<[u64; 4]>();
    for words in list {
        // SAFETY: the mailbox, which is taken, has room for the list.
        unsafe { at.write_unaligned(*words) };
        at = at.wrapping_add(1);
    }
    mailbox.ask(question);
    while mailbox.answer_is().is_none() {
        std::thread::yield_now();
    }
    assert_eq!(mailbox.answer_is(), Some(false), "{question:x?} {list:x?}");
    mailbox.leave();
}

#[test]
fn a_member_that_waits_does_what_its_mailbox_asks_and_refuses_what_makes_no_sense() {
    use super::short::Here;
    use super::update::{Change, Run};
    use crate::mpi::op::kernel::Builtin;
    use crate::sys::cma::Direction;
    const N: usize = 10_000;
    let addresses = std::sync::Mutex::new(0);
    job(2, |hold, comm| {
        let mut memory: Vec<i64> = (0..N as i64).collect();
        let window = window(hold, comm, Flavor::Create, &mut memory);
        if comm.rank == 1 {
            *addresses.lock().unwrap() = window.base as u64;
        }
        barrier(hold, comm).unwrap();
        if comm.rank == 1 {
            barrier(hold, comm).unwrap();
            assert!((0..).zip(&memory).skip(1).all(|(index, &word)| word == 3 * index));
            assert_eq!(memory[0], 9);
            return end(hold, window);
        }
        let there = *addresses.lock().unwrap();
        for count in [1, 4, 5, 2048, 2049, 3 * 2048, N] {
            let mut row = vec![0i64; count];
            let mut copy = |row: &mut [i64], direction| {
                let here = (row.as_mut_ptr().cast(), count * 8);
                // SAFETY: the row has so many bytes.
                while !unsafe { mail::transfer(hold, &window, (1, there), direction, here, |_| Ok(())) }.unwrap() {}
            };
            copy(&mut row, Direction::Read);
            assert!((0..).zip(&row).all(|(index, &word)| word == index), "{count} words");
            copy(&mut row, Direction::Write);
        }
        let basic = &basic::BASICS[basic::index(LONG).unwrap()];
        let mut change = |what, words: &[i64], compare: &[i64], old: &mut [i64], at: usize| {
            let here = Here {
                origin: words.as_ptr().cast(),
                compare: compare.as_ptr().cast(),
                result: if old.is_empty() {
                    std::ptr::null_mut()
                } else {
                    old.as_mut_ptr().cast()
                },
            };
            // What the member has not changed is asked for again, and nothing else.
            let mut left: Vec<_> = std::iter::once(0..words.len() * 8).collect();
            while let Some(part) = left.pop() {
                let run = Run {
                    address: there + 8 * at as u64 + part.start as u64,
                    count: part.len() / 8,
                };
                let others = left.len();
                let skip = |at: *const u8| at.wrapping_add(if at.is_null() { 0 } else { part.start });
                let here = Here {
                    origin: skip(here.origin),
                    compare: skip(here.compare),
                    result: skip(here.result).cast_mut(),
                };
                // SAFETY: so many words lie at each address.
                let asked = unsafe {
                    mail::update(hold, &window, (1, &run), (what, basic), &here, |_, bytes| {
                        left.push(part.start + bytes.start..part.start + bytes.end);
                        Ok(())
                    })
                };
                assert_eq!(asked.unwrap(), left.len() == others);
            }
        };
        let twice: Vec<i64> = (0..N as i64).map(|index| 2 * index).collect();
        for (start, count, wanted) in [
            (0, 1, true),
            (1, 2, true),
            (3, 997, true),
            (1000, 5000, true),
            (6000, 4000, false),
        ] {
            let operand = &twice[start..][..count];
            let mut old = vec![-1; if wanted { count } else { 0 }];
            change(Change::Combine(Builtin::Sum), operand, &[], &mut old, start);
            assert!(
                (start as i64..).zip(&old).all(|(index, &word)| word == index),
                "{count} words"
            );
        }
        let mut old = [-1];
        change(Change::Swap, &[7], &[1], &mut old, 0);
        assert_eq!(old, [0]);
        change(Change::Swap, &[9], &[0], &mut old, 0);
        change(Change::Combine(Builtin::NoOp), &[0], &[], &mut old, 0);
        assert_eq!(old, [9]);
        let long = (basic::index(LONG).unwrap() as u64) << 16;
        let (sum, wanted) = ((Builtin::Sum as u64) << 8, 1 << 32);
        for junk in [
            [0, there - 8, 8],
            [0, there, 8 * N as u64],
            [1, there + 8 * N as u64 - 4, 8],
            [0, u64::MAX, 8],
            [4, there, 8],
            [2 | sum | 0xffff << 16, there, 1],
            [2 | 0xff << 8 | long, there, 1],
            [2 | sum | long, there, 2049],
            [2 | sum | long, there, 0],
            [2 | sum | long, there, u64::MAX],
            [3 | long, there, 1],
            [3 | long | wanted, there + 8 * N as u64, 1],
            [2 | sum | long, there + 8 * N as u64 - 7, 1],
        ] {
            refuses(&window, junk, &[]);
        }
        barrier(hold, comm).unwrap();
        end(hold, window);
    });
}

#[test]
fn window_memory_is_used_again_and_comes_empty() {
    job(2, |hold, comm| {
        for round in 0..50 {
            // Half of the zone of a rank that is a thread: the third round needs what the first gave back.
            let mut words = vec![0i64; (2 << 20) / 8];
            let window = window(hold, comm, Flavor::Allocate, &mut words);
            let base = window.base.cast::<i64>();
            // SAFETY: the window's memory, which nobody else accesses.
            unsafe {
                assert_eq!(base.add(100).read(), 0, "round {round}");
                base.add(100).write(7);
            }
            end(hold, window);
        }
        let too_much = Share {
            flavor: Flavor::Allocate,
            base: std::ptr::null_mut(),
            size: if comm.rank == 0 { 1 << 30 } else { 8 },
            unit: 1,
            info: Info::default(),
        };
        assert_eq!(create(hold, comm, too_much).unwrap_err().class(), Class::NoMem);
    });
}

#[test]
fn the_short_way_does_what_the_long_one_does_or_nothing() {
    use super::short::{Here, There};
    use crate::mpi::op::kernel::Builtin;
    use crate::sys::cma::Direction;
    let there = |rank, disp, count| There {
        rank,
        disp,
        count,
        datatype: LONG,
    };
    job(2, |hold, comm| {
        let window = window(hold, comm, Flavor::Allocate, &mut [0i64; 8]);
        let peer = 1 - comm.rank as i32;
        let mut mine = [comm.rank as i64 + 5, 0];
        let copy = |hold: &Hold, mine: *mut i64, there: &There, direction| {
            // SAFETY: two words lie there.
            unsafe { short::transfer(hold, &window, mine.cast(), there, direction) }
        };
        let at = mine.as_mut_ptr();
        assert!(
            !copy(hold, at, &there(peer, 0, 1), Direction::Write),
            "no access is open"
        );
        epoch::fence(hold, &window, false).unwrap();
        assert!(!copy(hold, at, &there(peer, 0, 1), Direction::Write), "not mapped yet");
        transfer::put(hold, &window, &buffer(&mut mine[..1]), &target(peer as u32, 7, 1)).unwrap();
        assert!(copy(hold, at, &there(peer, 0, 1), Direction::Write));
        for wrong in [
            there(peer, -1, 1),
            there(peer, 7, 2),
            there(peer, 8, 1),
            there(2, 0, 1),
            there(-1, 0, 1),
        ] {
            assert!(
                !copy(hold, at, &wrong, Direction::Write),
                "{} {}",
                wrong.rank,
                wrong.disp
            );
        }
        let own = window.base.cast();
        assert!(
            !copy(hold, own, &there(comm.rank as i32, 0, 1), Direction::Write),
            "onto itself"
        );
        epoch::fence(hold, &window, false).unwrap();
        assert!(copy(hold, at, &there(comm.rank as i32, 0, 1), Direction::Read));
        assert_eq!(mine[0], peer as i64 + 5);
        epoch::fence(hold, &window, false).unwrap();
        let change = |hold: &Hold, words: [i64; 2], builtin| {
            let mut old = -1i64;
            let here = Here {
                origin: (&raw const words[0]).cast(),
                compare: (&raw const words[1]).cast(),
                result: (&raw mut old).cast(),
            };
            // SAFETY: a word lies at each address.
            assert!(unsafe { short::update(hold, &window, &here, &there(0, 3, 1), builtin) });
            old
        };
        for _ in 0..1000 {
            change(hold, [1, 0], Some(Builtin::Sum));
            while change(hold, [0, 0], Some(Builtin::NoOp)) < 0 {}
        }
        epoch::fence(hold, &window, false).unwrap();
        assert_eq!(change(hold, [0, 0], Some(Builtin::NoOp)), 2000);
        epoch::fence(hold, &window, false).unwrap();
        if comm.rank == 1 {
            // What is not swapped takes no turn, so it goes on while another rank has it.
            assert!(window.control(0).try_update(0));
            assert_eq!(change(hold, [7, 1999], None), 2000, "no swap");
            window.control(0).end_update();
            assert_eq!(change(hold, [7, 2000], None), 2000);
            assert_eq!(change(hold, [9, 0], Some(Builtin::Replace)), 7);
            assert_eq!(change(hold, [0, 0], Some(Builtin::NoOp)), 9);
        }
        epoch::fence(hold, &window, true).unwrap();
        end(hold, window);
    });
}

/// `words` words of this rank's home.
fn lent(hold: &mut Hold, words: usize) -> &'static mut [i64] {
    let at = hold.lend(words * 8).unwrap();
    // SAFETY: so many bytes of the home are lent, which are mapped; the segment lasts as long as the rank.
    unsafe { std::slice::from_raw_parts_mut(at.cast(), words) }
}

#[test]
fn memory_of_a_home_is_mapped_from_the_first_access_on_and_updates_of_any_length_are_whole() {
    use super::short::{Here, There};
    use crate::mpi::op::kernel::Builtin;
    const N: usize = 3000;
    job(2, |hold, comm| {
        let words = lent(hold, N);
        (0..).zip(words.iter_mut()).for_each(|(index, word)| *word = index);
        let window = window(hold, comm, Flavor::Create, words);
        epoch::fence(hold, &window, false).unwrap();
        let peer = 1 - comm.rank;
        let (operand, mut before) = ((0..N as i64).map(|index| 2 * index).collect::<Vec<_>>(), vec![-1i64; N]);
        let mut update = |hold: &Hold, count| {
            let here = Here {
                origin: operand.as_ptr().cast(),
                compare: std::ptr::null(),
                result: before.as_mut_ptr().cast(),
            };
            let there = There {
                rank: peer as i32,
                disp: 0,
                count,
                datatype: LONG,
            };
            // SAFETY: so many words lie at each address.
            unsafe { short::update(hold, &window, &here, &there, Some(Builtin::Sum)) }
        };
        assert!(!update(hold, N), "not mapped yet");
        assert!(update(hold, 0), "nothing is anywhere");
        transfer::get(hold, &window, &buffer(&mut [0]), &target(peer, 0, 1)).unwrap();
        assert!(update(hold, N));
        assert!((0..).zip(&before).all(|(index, &word)| word == index));
        epoch::fence(hold, &window, true).unwrap();
        assert!((0..).zip(words.iter()).all(|(index, &word)| word == 3 * index));
        end(hold, window);
    });
}

#[test]
fn a_dynamic_window_sees_what_is_attached_of_a_home() {
    let addresses = std::sync::Mutex::new([0; 2]);
    job(2, |hold, comm| {
        let (words, mut others) = (lent(hold, 4), [5i64; 4]);
        words.fill(comm.rank.into());
        let window = window(hold, comm, Flavor::Dynamic, &mut []);
        addresses.lock().unwrap()[comm.rank as usize] = words.as_ptr() as i64;
        epoch::fence(hold, &window, false).unwrap();
        let peer = 1 - comm.rank;
        let at = target(peer, addresses.lock().unwrap()[peer as usize] + 8, 2);
        assert!(matches!(window.way(hold, &at), Ok(Way::Here(_))));
        let elsewhere = target(peer, others.as_ptr() as i64, 2);
        assert!(matches!(window.way(hold, &elsewhere), Ok(Way::Served(_))));
        transfer::put(hold, &window, &buffer(&mut others[..2]), &at).unwrap();
        epoch::fence(hold, &window, true).unwrap();
        let mine = comm.rank.into();
        assert_eq!(words, [mine, 5, 5, mine]);
        end(hold, window);
    });
}

#[test]
fn memory_of_no_length_is_in_nobodys_way_and_regions_that_meet_are_one() {
    job(1, |hold, comm| {
        let window = window(hold, comm, Flavor::Dynamic, &mut []);
        for (base, size) in [(0, 0), (0, 0), (100, 0), (100, 50), (120, 0), (150, 8), (200, 8)] {
            create::attach(&window, base, size).unwrap();
        }
        for (base, size) in [(100, 1), (149, 1), (90, 11), (0, 1000)] {
            assert_eq!(
                create::attach(&window, base, size).unwrap_err().class(),
                Class::RmaAttach
            );
        }
        let exposed = |address, len| serve::exposed(&window, address, len);
        assert!(exposed(100, 58) && exposed(149, 2) && exposed(200, 8));
        assert!(!exposed(100, 59) && !exposed(99, 2) && !exposed(157, 44) && !exposed(200, usize::MAX));
        for base in [0, 0, 100, 100, 120, 150, 200] {
            create::detach(&window, base).unwrap();
        }
        assert!(create::detach(&window, 0).is_err() && !exposed(100, 1));
        end(hold, window);
    });
}

#[test]
fn a_block_of_any_length_is_lent_and_comes_again_as_it_was_left() {
    job(1, |hold, _| {
        for words in [1, 2048, 2049] {
            let first = lent(hold, words);
            first.fill(7);
            assert!(hold.take_back(first.as_mut_ptr().cast()).unwrap());
            let again = lent(hold, words);
            assert!(std::ptr::eq(again.as_ptr(), first.as_ptr()) && again.iter().all(|&word| word == 7));
            assert!(hold.take_back(again.as_mut_ptr().cast()).unwrap());
        }
    });
}

#[test]
fn what_the_program_has_freed_makes_room_for_longer_blocks() {
    job(1, |hold, _| {
        let len = crate::shm::zone::PRIVATE / 4 * 3;
        for words in [len / 8, len / 16, len / 8] {
            let block = lent(hold, words);
            block.fill(7);
            assert!(hold.take_back(block.as_mut_ptr().cast()).unwrap());
            assert!(hold.take_back(block.as_mut_ptr().cast()).is_err(), "freed twice");
        }
    });
}
