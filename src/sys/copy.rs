//! # Safety
//! Copies between regions that the callers own.
//!
//! Copies of a few bytes without a call.
#![allow(unsafe_code)]

use std::ptr::{read_unaligned, write_unaligned};

/// Largest length that [`few`] takes.
pub const FEW: usize = 64;

/// Copies `len <= 64` bytes with loads and stores of up to 16 bytes that may overlap each other.
///
/// # Safety
/// Both sides are valid for `len` bytes and do not overlap.
#[inline(always)]
pub unsafe fn few(from: *const u8, to: *mut u8, len: usize) {
    debug_assert!(len <= FEW);
    // SAFETY: every access below lies within the first `len` bytes of its side.
    unsafe {
        if len >= 16 {
            let mut at = 0;
            while at + 16 < len {
                put::<u128>(from, to, at);
                at += 16;
            }
            put::<u128>(from, to, len - 16);
        } else if len >= 8 {
            put::<u64>(from, to, 0);
            put::<u64>(from, to, len - 8);
        } else if len >= 4 {
            put::<u32>(from, to, 0);
            put::<u32>(from, to, len - 4);
        } else if len > 0 {
            put::<u8>(from, to, 0);
            put::<u8>(from, to, len / 2);
            put::<u8>(from, to, len - 1);
        }
    }
}

/// Copies `len` bytes: few by [`few`], many by memcpy.
///
/// # Safety
/// As for [`few`], for any `len`.
#[inline(always)]
pub unsafe fn bytes(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        if len <= FEW {
            few(from, to, len);
        } else {
            std::ptr::copy_nonoverlapping(from, to, len);
        }
    }
}

#[inline(always)]
unsafe fn put<T>(from: *const u8, to: *mut u8, at: usize) {
    // SAFETY: the caller checked that `at + size_of::<T>()` lies within both sides.
    unsafe { write_unaligned(to.add(at).cast::<T>(), read_unaligned(from.add(at).cast::<T>())) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_and_nothing_beyond() {
        let source: Vec<u8> = (1..=80).collect();
        for len in 0..=80 {
            let mut target = vec![0u8; 96];
            // SAFETY: both vectors are longer than `len`.
            unsafe { bytes(source.as_ptr(), target.as_mut_ptr().add(3), len) };
            assert_eq!(&target[3..3 + len], &source[..len]);
            assert!(
                target[..3].iter().chain(&target[3 + len..]).all(|&byte| byte == 0),
                "length {len}"
            );
        }
    }
}
