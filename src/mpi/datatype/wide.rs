//! # Safety
//! As [`super::kernel`]; uses instructions only where the processor says that it has them.
//!
//! Every other element of 4, 8 or 16 bytes, a cache line at a time (AVX-512): what vectors of stride 2 and the real parts
//! of complex numbers are made of.
//!
//! Packing loads whole lines, of which each holds an element, and stores half of their bytes; unpacking stores lines under a
//! mask, so that what lies between the elements is never written. Lines are taken where they begin in memory, since an
//! access across two of them costs twice.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

const LINE: usize = 64;
/// Elements below which the loop of single ones is as fast.
const WORTH: usize = 32;

/// Copies the first so many of `count` elements of `width` bytes, `2 * width` bytes apart from `memory` and next to each
/// other from `row`; returns how many, 0 where that cannot be done.
///
/// # Safety
/// They may be read and written, as the direction says.
#[inline]
pub unsafe fn every_other<const PACK: bool>(memory: *mut u8, row: *mut u8, count: usize, width: usize) -> usize {
    let possible = matches!(width, 4 | 8 | 16) && count >= WORTH && memory.addr().is_multiple_of(width);
    if !possible || !std::arch::is_x86_feature_detected!("avx512f") {
        return 0;
    }
    // SAFETY: the caller's promise, and the processor has the instructions.
    unsafe {
        match width {
            4 => lines::<PACK, 1>(memory, row, count),
            8 => lines::<PACK, 2>(memory, row, count),
            _ => lines::<PACK, 4>(memory, row, count),
        }
    }
}

/// Which of 16 words go where, for elements of `words` words of four bytes: the place in two lines of each packed word, the
/// packed word of each place in a line, and the places in a line that have one.
const fn places(words: usize) -> ([i32; 16], [i32; 16], u16) {
    let (mut places, mut sources, mut mask, mut i) = ([0; 16], [0; 16], 0, 0);
    while i < 16 {
        places[i] = (i / words * 2 * words + i % words) as i32;
        sources[i] = (i / (2 * words) * words + i % words) as i32;
        if (i / words).is_multiple_of(2) {
            mask |= 1 << i;
        }
        i += 1;
    }
    (places, sources, mask)
}

/// # Safety
/// As [`every_other`], of elements of `WORDS` words; `memory` is a multiple of their width.
#[target_feature(enable = "avx512f")]
unsafe fn lines<const PACK: bool, const WORDS: usize>(memory: *mut u8, row: *mut u8, count: usize) -> usize {
    let width = 4 * WORDS;
    // Until an element is the first, or nearly, of a line.
    let mut done = 0;
    while (memory.addr() + 2 * width * done) % LINE >= 2 * width {
        // SAFETY: an element, see above.
        unsafe {
            let (element, packed) = (memory.add(2 * width * done), row.add(width * done));
            match PACK {
                true => packed.copy_from_nonoverlapping(element, width),
                false => element.copy_from_nonoverlapping(packed, width),
            }
        }
        done += 1;
    }
    let shift = (memory.addr() + 2 * width * done) % LINE;
    let (places, sources, mask) = const { places(WORDS) };
    let mask = mask << (shift / 4);
    // SAFETY: arrays of the right size.
    let (places, low) = unsafe { (load(places.as_ptr().cast()), load(sources.as_ptr().cast())) };
    let places = _mm512_add_epi32(places, _mm512_set1_epi32((shift / 4) as i32));
    let high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    while count - done >= LINE / width {
        // SAFETY: each of the two lines holds at least one whole element; only elements are written. In the row there are
        // as many bytes as one line has.
        unsafe {
            let at = memory.add(2 * width * done).sub(shift);
            let packed = row.add(width * done);
            if PACK {
                let (first, second) = (load(at), load(at.add(LINE)));
                let both = _mm512_permutex2var_epi32(first, places, second);
                _mm512_storeu_si512(packed.cast(), both);
            } else {
                let both = load(packed);
                _mm512_mask_storeu_epi32(at.cast(), mask, _mm512_permutexvar_epi32(low, both));
                _mm512_mask_storeu_epi32(at.add(LINE).cast(), mask, _mm512_permutexvar_epi32(high, both));
            }
        }
        done += LINE / width;
    }
    done
}

/// # Safety
/// A line can be read there.
#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn load(at: *const u8) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe { _mm512_loadu_si512(at.cast()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_copied_and_gaps_left_alone_at_any_address() {
        for width in [4, 8, 16] {
            for first in (0..2 * LINE).step_by(4) {
                for count in [1, 31, 32, 33, 47, 64, 65, 100] {
                    let bytes: Vec<u8> = (0..2 * LINE + 2 * width * count)
                        .map(|at| (at * 7 + at / 251) as u8)
                        .collect();
                    // Lines of memory begin at a multiple of 64.
                    let mut memory = vec![0u8; bytes.len() + LINE];
                    let start = memory.as_ptr().align_offset(LINE);
                    memory[start..start + bytes.len()].copy_from_slice(&bytes);
                    let element = |i: usize| first + 2 * width * i..first + 2 * width * i + width;
                    let mut row = vec![0xee; width * count + LINE];
                    // SAFETY: the elements lie in `memory`, and `row` has room for them.
                    let done = unsafe {
                        let at = memory.as_mut_ptr().add(start + first);
                        every_other::<true>(at, row.as_mut_ptr(), count, width)
                    };
                    assert!(done <= count);
                    for i in 0..done {
                        assert_eq!(
                            row[i * width..][..width],
                            bytes[element(i)],
                            "{width} {first} {count}: {i}"
                        );
                    }
                    assert!(row[done * width..].iter().all(|&byte| byte == 0xee));
                    let packed: Vec<u8> = (0..width * count).map(|at| (at * 3 + 1) as u8).collect();
                    let mut expected = bytes.clone();
                    // SAFETY: as above.
                    let done = unsafe {
                        let at = memory.as_mut_ptr().add(start + first);
                        every_other::<false>(at, packed.as_ptr().cast_mut(), count, width)
                    };
                    for i in 0..done {
                        expected[element(i)].copy_from_slice(&packed[i * width..][..width]);
                    }
                    assert!(memory[start..][..bytes.len()] == expected, "{width} {first} {count}");
                    let usual = std::arch::is_x86_feature_detected!("avx512f") && first % width == 0 && count >= 64;
                    assert!(!usual || done > count - LINE / width, "{width} {first} {count}: {done}");
                }
            }
        }
    }
}
