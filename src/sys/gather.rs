//! # Safety
//! Relies on the kernel to check the other process's addresses; the caller owns the local side.
//!
//! Reading what lies apart in another process's memory. The kernel takes as long for a stretch as for the copy of a KiB or two, so short
//! gaps are read too, where that is what most stretches have between them, and what is wanted is picked out here.
#![allow(unsafe_code)]

use super::cma::{self, Direction};
use super::copy;
use std::io;

/// Bytes of a gap that is read. So short a one lies in pages that what is before or behind it has bytes in: it is mapped if they are.
const GAP: u64 = 1 << 10;
/// Bytes that stretches have on average at most, for one copy more not to count.
const LONG: usize = 4 << 10;
/// Bytes that are read at a time: they are to be in a near cache when they are picked out.
const WINDOW: usize = 64 << 10;

/// How far `next` lies behind the end of `last`, if that is no farther than is read.
fn gap(last: (u64, usize), next: (u64, usize)) -> Option<usize> {
    let gap = next.0.checked_sub(last.0.checked_add(last.1 as u64)?)?;
    (gap <= GAP && last.1 > 0 && next.1 > 0).then_some(gap as usize)
}

/// Whether a list is read with its gaps.
fn is_dense(list: &[(u64, usize)]) -> bool {
    let bytes: usize = list.iter().map(|stretch| stretch.1).sum();
    let gaps = list.windows(2).filter(|two| gap(two[0], two[1]).is_some()).count();
    2 * gaps > list.len() && bytes / list.len() <= LONG
}

/// Copies the stretches `(address, length)` of process `pid`'s memory to `local`, in order.
///
/// # Errors
/// As [`cma::transfer`].
///
/// # Safety
/// `local` is writable for the sum of all lengths.
pub unsafe fn read(pid: i32, local: *mut u8, list: &[(u64, usize)]) -> io::Result<()> {
    if !is_dense(list) {
        // SAFETY: the caller's promise.
        return unsafe { cma::transfer(pid, Direction::Read, local, list) };
    }
    let longest = list.iter().map(|stretch| stretch.1).max().unwrap_or(0);
    let mut room = Vec::<u8>::with_capacity(WINDOW.max(longest));
    let room_len = room.capacity();
    let (mut rest, mut local) = (list, local);
    let mut covers: Vec<(u64, usize)> = Vec::new();
    while !rest.is_empty() {
        covers.clear();
        let (mut count, mut used) = (0, 0);
        for &(address, len) in rest {
            let before = covers.last().and_then(|&last| gap(last, (address, len)));
            let more = before.unwrap_or(0) + len;
            if used + more > room_len {
                break;
            }
            match covers.last_mut().filter(|_| before.is_some()) {
                Some(cover) => cover.1 += more,
                None => covers.push((address, len)),
            }
            (count, used) = (count + 1, used + more);
        }
        let (now, later) = rest.split_at(count);
        // SAFETY: the room has as many bytes as the covers together, and they have all stretches; the caller's promise for `local`.
        unsafe {
            cma::transfer(pid, Direction::Read, room.as_mut_ptr(), &covers)?;
            local = pick(room.as_ptr(), local, now, &covers);
        }
        rest = later;
    }
    Ok(())
}

/// Copies the stretches out of what covers them, which lies in a row; where the next ones belong.
///
/// # Safety
/// So many bytes lie at both, and each stretch in its cover.
unsafe fn pick(room: *const u8, mut local: *mut u8, list: &[(u64, usize)], covers: &[(u64, usize)]) -> *mut u8 {
    let mut list = list.iter().peekable();
    let mut start = room;
    for &(first, covered) in covers {
        let within = |&&(address, len): &&(u64, usize)| {
            address
                .checked_sub(first)
                .is_some_and(|skip| skip + len as u64 <= covered as u64)
        };
        while let Some(&(address, len)) = list.next_if(within) {
            // SAFETY: the caller's promise.
            unsafe { copy::bytes(start.wrapping_add((address - first) as usize), local, len) };
            local = local.wrapping_add(len);
        }
        start = start.wrapping_add(covered);
    }
    local
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_apart_is_picked_out_of_what_lies_between() {
        let there: Vec<u8> = (0..200_000u32).map(|at| (at * 7 % 251) as u8).collect();
        let lists: [Vec<(usize, usize)>; 5] = [
            (0..700).map(|index| (256 * index, 32)).collect(),
            (0..40).map(|index| (4096 * index, 3500)).collect(),
            (0..300).map(|index| (40 * (300 - index), 8)).collect(),
            vec![
                (0, 10),
                (10, 5),
                (900, 70_000),
                (70_901, 3),
                (70_906, 0),
                (70_907, 4),
                (3, 9),
                (1, 1),
            ],
            vec![(5, 1), (5, 1), (6, 3)],
        ];
        for list in lists {
            let (mut right, mut found) = (Vec::new(), Vec::new());
            for &(at, len) in &list {
                right.extend_from_slice(&there[at..at + len]);
            }
            found.resize(right.len(), 0);
            let list: Vec<_> = list
                .iter()
                .map(|&(at, len)| (there[at..].as_ptr() as u64, len))
                .collect();
            // SAFETY: `found` is as long as all of them.
            unsafe { read(std::process::id() as i32, found.as_mut_ptr(), &list) }.unwrap();
            assert!(right == found, "{} stretches", list.len());
        }
    }

    #[test]
    fn what_is_not_mapped_is_refused() {
        let list: Vec<_> = (0..100).map(|index| (8 + 100 * index, 8)).collect();
        // SAFETY: nothing is mapped at the first page.
        let refused = unsafe { read(std::process::id() as i32, [0u8; 800].as_mut_ptr(), &list) };
        assert_eq!(refused.unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }
}
