//! # Safety
//! Reads and writes the application's buffers: relies on the caller of MPI to own `count` elements
//! at the address it passed.
//!
//! Copies the data of typed elements to and from a row of bytes, from any position in that row.
#![allow(unsafe_code)]

use super::Datatype;

impl Datatype {
    /// Copies bytes `position .. position + len` of the packed form of `count` elements at `base` to `out`.
    ///
    /// # Safety
    /// As [`crate::mpi::buffer::Buffer::pack`].
    pub unsafe fn pack(&self, base: *const u8, count: usize, position: usize, out: *mut u8, len: usize) {
        let mut done = 0;
        self.segments(count, position, len, &mut |offset, len| {
            // SAFETY: the caller's promise; the segments cover exactly `len` bytes.
            unsafe { base.offset(offset).copy_to_nonoverlapping(out.add(done), len) };
            done += len;
        });
    }

    /// The reverse of `pack`.
    ///
    /// # Safety
    /// As [`crate::mpi::buffer::Buffer::unpack`].
    pub unsafe fn unpack(&self, base: *mut u8, count: usize, position: usize, from: *const u8, len: usize) {
        let mut done = 0;
        self.segments(count, position, len, &mut |offset, len| {
            // SAFETY: the caller's promise; the segments cover exactly `len` bytes.
            unsafe { from.add(done).copy_to_nonoverlapping(base.offset(offset), len) };
            done += len;
        });
    }

    /// Calls `visit(offset, len)` for each run of memory that holds bytes `position .. position + len` of the packed
    /// form of `count` elements, in order; `offset` is relative to the first element's address.
    pub fn segments(&self, count: usize, position: usize, len: usize, visit: &mut dyn FnMut(isize, usize)) {
        let (mut skip, mut left) = (position, len);
        let start = skip.checked_div(self.size).unwrap_or(count);
        skip -= start * self.size;
        for element in start..count {
            for &(offset, len) in &self.blocks {
                let from = skip.min(len);
                let take = (len - from).min(left);
                if take > 0 {
                    visit(element as isize * self.extent + offset + from as isize, take);
                }
                skip -= from;
                left -= take;
            }
            if left == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::basic;
    use super::*;

    #[test]
    fn a_pair_packs_without_its_padding_from_any_position() {
        let pair = Datatype::basic_at(basic::index(0x8c00_0001u32 as i32).unwrap());
        let memory: Vec<u8> = (0..48).collect();
        let packed: Vec<u8> = memory.chunks(16).flat_map(|element| &element[..12]).copied().collect();
        for position in 0..36 {
            for len in 0..=36 - position {
                let mut out = vec![0; len];
                // SAFETY: three elements of 16 bytes; `out` has `len` bytes.
                unsafe { pair.pack(memory.as_ptr(), 3, position, out.as_mut_ptr(), len) };
                assert_eq!(out, packed[position..position + len]);
            }
        }
    }
}
