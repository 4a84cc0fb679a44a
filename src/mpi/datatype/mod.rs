//! Datatypes: typemaps, their layout, packing and unpacking (MPI-4.1 §5).

/// A datatype.
#[derive(Debug)]
pub struct Datatype {}

#[allow(unsafe_code)]
impl Datatype {
    /// Copies bytes `position .. position + len` of the packed form of `count` elements at `base` to `out`.
    ///
    /// # Safety
    /// As [`super::buffer::Buffer::pack`].
    pub unsafe fn pack(&self, _base: *const u8, _count: usize, _position: usize, _out: *mut u8, _len: usize) {}
    /// The reverse of `pack`.
    ///
    /// # Safety
    /// As [`super::buffer::Buffer::unpack`].
    pub unsafe fn unpack(&self, _base: *mut u8, _count: usize, _position: usize, _from: *const u8, _len: usize) {}
    /// Bytes of data in one element.
    pub fn size(&self) -> usize {
        0
    }
    /// Lowest byte that one element touches, relative to its address.
    pub fn true_lb(&self) -> isize {
        0
    }
    /// Whether `count` elements lie in memory as `count * size()` bytes in a row, in order.
    pub fn is_contiguous(&self) -> bool {
        true
    }
}
