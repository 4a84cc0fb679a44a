//! The predefined datatypes: one table that says for each its name, its number in the MPICH ABI,
//! how its bits are read, and which reduction operations take it (MPI-4.1 §3.2.2, §6.9.2).

/// How the bits of one value are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repr {
    /// Signed integer of 8 bits.
    I8,
    /// Signed integer of 16 bits.
    I16,
    /// Signed integer of 32 bits.
    I32,
    /// Signed integer of 64 bits.
    I64,
    /// Signed integer of 128 bits.
    I128,
    /// Unsigned integer of 8 bits; also a byte without meaning.
    U8,
    /// Unsigned integer of 16 bits.
    U16,
    /// Unsigned integer of 32 bits.
    U32,
    /// Unsigned integer of 64 bits.
    U64,
    /// IEEE binary16.
    F16,
    /// The upper half of an IEEE binary32.
    BF16,
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// x87 extended precision: ten bytes, and six without meaning.
    F80,
    /// IEEE binary128.
    F128,
    /// Two [`Repr::F16`]: real and imaginary part.
    C16,
    /// Two [`Repr::F32`].
    C32,
    /// Two [`Repr::F64`].
    C64,
    /// Two [`Repr::F80`].
    C80,
    /// Two [`Repr::F128`].
    C128,
    /// C `bool`: one byte, 0 or 1.
    Bool,
    /// `struct { float; int; }`.
    FloatInt,
    /// `struct { double; int; }`.
    DoubleInt,
    /// `struct { long; int; }`.
    LongInt,
    /// `struct { short; int; }`.
    ShortInt,
    /// `struct { long double; int; }`.
    LongDoubleInt,
    /// Two 32-bit integers.
    TwoInt,
    /// Two `float`.
    TwoFloat,
    /// Two `double`.
    TwoDouble,
    /// No bits: `MPI_LB` and `MPI_UB`.
    Marker,
}

/// Groups of predefined datatypes that the reduction operations are defined on (MPI-4.1 §6.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OpClass {
    /// C integers. `MPI_CHAR` is here too, as in MPICH; the standard leaves it out.
    CInteger,
    /// Fortran integers.
    FInteger,
    /// Floating point.
    Floating,
    /// C and Fortran truth values.
    Logical,
    /// Complex numbers.
    Complex,
    /// `MPI_BYTE`.
    Byte,
    /// `MPI_AINT`, `MPI_OFFSET`, `MPI_COUNT`.
    MultiLanguage,
    /// Value and index, for `MPI_MINLOC` and `MPI_MAXLOC`.
    Pair,
    /// No predefined operation but `MPI_REPLACE` and `MPI_NO_OP`.
    None,
}

/// A predefined datatype.
#[derive(Debug, PartialEq, Eq)]
pub struct Basic {
    /// Name, as `MPI_Type_get_name` gives it.
    pub name: &'static str,
    /// Number in the MPICH ABI.
    pub handle: i32,
    /// Bytes of data; a struct's padding is not counted.
    pub size: usize,
    /// Bytes from one element to the next.
    pub extent: usize,
    /// Alignment that the compiler gives it.
    pub align: usize,
    /// Meaning of the bits.
    pub repr: Repr,
    /// Which reductions take it.
    pub class: OpClass,
}

/// The two members of a pair datatype: both sizes, and where the second lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Bytes of the first member, which lies at 0.
    pub first: usize,
    /// Offset of the second member.
    pub offset: usize,
    /// Bytes of the second member.
    pub second: usize,
}

impl Basic {
    /// The members of a pair datatype.
    pub fn parts(&self) -> Option<Parts> {
        let (first, offset, second) = match self.repr {
            Repr::FloatInt | Repr::TwoInt | Repr::TwoFloat => (4, 4, 4),
            Repr::DoubleInt | Repr::LongInt => (8, 8, 4),
            Repr::ShortInt => (2, 4, 4),
            Repr::LongDoubleInt => (16, 16, 4),
            Repr::TwoDouble => (8, 8, 8),
            _ => return None,
        };
        Some(Parts { first, offset, second })
    }

    /// Whether neighbouring elements leave no gap.
    pub fn is_contiguous(&self) -> bool {
        self.size == self.extent
    }
}

/// The number of `MPI_DATATYPE_NULL` in the MPICH ABI.
pub const NULL: i32 = 0x0c00_0000;
/// Place of `MPI_LB` in [`BASICS`].
pub const LB: usize = 0;

const fn row(name: &'static str, handle: u32, repr: Repr, class: OpClass) -> Basic {
    let (size, extent, align) = match repr {
        Repr::Marker => (0, 0, 1),
        Repr::I8 | Repr::U8 | Repr::Bool => (1, 1, 1),
        Repr::I16 | Repr::U16 | Repr::F16 | Repr::BF16 => (2, 2, 2),
        Repr::I32 | Repr::U32 | Repr::F32 => (4, 4, 4),
        Repr::I64 | Repr::U64 | Repr::F64 => (8, 8, 8),
        Repr::I128 | Repr::F80 | Repr::F128 => (16, 16, 16),
        Repr::C16 => (4, 4, 2),
        Repr::C32 => (8, 8, 4),
        Repr::C64 => (16, 16, 8),
        Repr::C80 | Repr::C128 => (32, 32, 16),
        Repr::FloatInt | Repr::TwoInt | Repr::TwoFloat => (8, 8, 4),
        Repr::DoubleInt | Repr::LongInt => (12, 16, 8),
        Repr::ShortInt => (6, 8, 4),
        Repr::LongDoubleInt => (20, 32, 16),
        Repr::TwoDouble => (16, 16, 8),
    };
    Basic {
        name,
        handle: handle as i32,
        size,
        extent,
        align,
        repr,
        class,
    }
}

/// Every predefined datatype once. `MPI_LONG_LONG` is `MPI_LONG_LONG_INT` and
/// `MPI_C_FLOAT_COMPLEX` is `MPI_C_COMPLEX`.
#[rustfmt::skip]
pub static BASICS: &[Basic] = &[
    row("MPI_LB", 0x4c00_0010, Repr::Marker, OpClass::None),
    row("MPI_UB", 0x4c00_0011, Repr::Marker, OpClass::None),
    row("MPI_CHAR", 0x4c00_0101, Repr::I8, OpClass::CInteger),
    row("MPI_UNSIGNED_CHAR", 0x4c00_0102, Repr::U8, OpClass::CInteger),
    row("MPI_SHORT", 0x4c00_0203, Repr::I16, OpClass::CInteger),
    row("MPI_UNSIGNED_SHORT", 0x4c00_0204, Repr::U16, OpClass::CInteger),
    row("MPI_INT", 0x4c00_0405, Repr::I32, OpClass::CInteger),
    row("MPI_UNSIGNED", 0x4c00_0406, Repr::U32, OpClass::CInteger),
    row("MPI_LONG", 0x4c00_0807, Repr::I64, OpClass::CInteger),
    row("MPI_UNSIGNED_LONG", 0x4c00_0808, Repr::U64, OpClass::CInteger),
    row("MPI_LONG_LONG_INT", 0x4c00_0809, Repr::I64, OpClass::CInteger),
    row("MPI_FLOAT", 0x4c00_040a, Repr::F32, OpClass::Floating),
    row("MPI_DOUBLE", 0x4c00_080b, Repr::F64, OpClass::Floating),
    row("MPI_LONG_DOUBLE", 0x4c00_100c, Repr::F80, OpClass::Floating),
    row("MPI_BYTE", 0x4c00_010d, Repr::U8, OpClass::Byte),
    row("MPI_WCHAR", 0x4c00_040e, Repr::I32, OpClass::None),
    row("MPI_PACKED", 0x4c00_010f, Repr::U8, OpClass::None),
    row("MPI_2INT", 0x4c00_0816, Repr::TwoInt, OpClass::Pair),
    row("MPI_SIGNED_CHAR", 0x4c00_0118, Repr::I8, OpClass::CInteger),
    row("MPI_UNSIGNED_LONG_LONG", 0x4c00_0819, Repr::U64, OpClass::CInteger),
    row("MPI_CHARACTER", 0x4c00_011a, Repr::U8, OpClass::None),
    row("MPI_INTEGER", 0x4c00_041b, Repr::I32, OpClass::FInteger),
    row("MPI_REAL", 0x4c00_041c, Repr::F32, OpClass::Floating),
    row("MPI_LOGICAL", 0x4c00_041d, Repr::I32, OpClass::Logical),
    row("MPI_COMPLEX", 0x4c00_081e, Repr::C32, OpClass::Complex),
    row("MPI_DOUBLE_PRECISION", 0x4c00_081f, Repr::F64, OpClass::Floating),
    row("MPI_2INTEGER", 0x4c00_0820, Repr::TwoInt, OpClass::Pair),
    row("MPI_2REAL", 0x4c00_0821, Repr::TwoFloat, OpClass::Pair),
    row("MPI_DOUBLE_COMPLEX", 0x4c00_1022, Repr::C64, OpClass::Complex),
    row("MPI_2DOUBLE_PRECISION", 0x4c00_1023, Repr::TwoDouble, OpClass::Pair),
    row("MPI_REAL2", 0x4c00_0226, Repr::F16, OpClass::Floating),
    row("MPI_REAL4", 0x4c00_0427, Repr::F32, OpClass::Floating),
    row("MPI_COMPLEX8", 0x4c00_0828, Repr::C32, OpClass::Complex),
    row("MPI_REAL8", 0x4c00_0829, Repr::F64, OpClass::Floating),
    row("MPI_COMPLEX16", 0x4c00_102a, Repr::C64, OpClass::Complex),
    row("MPI_REAL16", 0x4c00_102b, Repr::F128, OpClass::Floating),
    row("MPI_COMPLEX32", 0x4c00_202c, Repr::C128, OpClass::Complex),
    row("MPI_INTEGER1", 0x4c00_012d, Repr::I8, OpClass::FInteger),
    row("MPI_COMPLEX4", 0x4c00_042e, Repr::C16, OpClass::Complex),
    row("MPI_INTEGER2", 0x4c00_022f, Repr::I16, OpClass::FInteger),
    row("MPI_INTEGER4", 0x4c00_0430, Repr::I32, OpClass::FInteger),
    row("MPI_INTEGER8", 0x4c00_0831, Repr::I64, OpClass::FInteger),
    row("MPI_INTEGER16", 0x4c00_1032, Repr::I128, OpClass::FInteger),
    row("MPI_CXX_BOOL", 0x4c00_0133, Repr::Bool, OpClass::Logical),
    row("MPI_CXX_FLOAT_COMPLEX", 0x4c00_0834, Repr::C32, OpClass::Complex),
    row("MPI_CXX_DOUBLE_COMPLEX", 0x4c00_1035, Repr::C64, OpClass::Complex),
    row("MPI_CXX_LONG_DOUBLE_COMPLEX", 0x4c00_2036, Repr::C80, OpClass::Complex),
    row("MPI_INT8_T", 0x4c00_0137, Repr::I8, OpClass::CInteger),
    row("MPI_INT16_T", 0x4c00_0238, Repr::I16, OpClass::CInteger),
    row("MPI_INT32_T", 0x4c00_0439, Repr::I32, OpClass::CInteger),
    row("MPI_INT64_T", 0x4c00_083a, Repr::I64, OpClass::CInteger),
    row("MPI_UINT8_T", 0x4c00_013b, Repr::U8, OpClass::CInteger),
    row("MPI_UINT16_T", 0x4c00_023c, Repr::U16, OpClass::CInteger),
    row("MPI_UINT32_T", 0x4c00_043d, Repr::U32, OpClass::CInteger),
    row("MPI_UINT64_T", 0x4c00_083e, Repr::U64, OpClass::CInteger),
    row("MPI_C_BOOL", 0x4c00_013f, Repr::Bool, OpClass::Logical),
    row("MPI_C_COMPLEX", 0x4c00_0840, Repr::C32, OpClass::Complex),
    row("MPI_C_DOUBLE_COMPLEX", 0x4c00_1041, Repr::C64, OpClass::Complex),
    row("MPI_C_LONG_DOUBLE_COMPLEX", 0x4c00_2042, Repr::C80, OpClass::Complex),
    row("MPI_AINT", 0x4c00_0843, Repr::I64, OpClass::MultiLanguage),
    row("MPI_OFFSET", 0x4c00_0844, Repr::I64, OpClass::MultiLanguage),
    row("MPI_COUNT", 0x4c00_0845, Repr::I64, OpClass::MultiLanguage),
    row("MPIX_C_FLOAT16", 0x4c00_0246, Repr::F16, OpClass::Floating),
    row("MPI_LOGICAL1", 0x4c00_0147, Repr::I8, OpClass::Logical),
    row("MPI_LOGICAL2", 0x4c00_0248, Repr::I16, OpClass::Logical),
    row("MPI_LOGICAL4", 0x4c00_0449, Repr::I32, OpClass::Logical),
    row("MPI_LOGICAL8", 0x4c00_084a, Repr::I64, OpClass::Logical),
    row("MPI_LOGICAL16", 0x4c00_104b, Repr::I128, OpClass::Logical),
    row("MPIX_BFLOAT16", 0x4c00_024c, Repr::BF16, OpClass::Floating),
    row("MPI_FLOAT_INT", 0x8c00_0000, Repr::FloatInt, OpClass::Pair),
    row("MPI_DOUBLE_INT", 0x8c00_0001, Repr::DoubleInt, OpClass::Pair),
    row("MPI_LONG_INT", 0x8c00_0002, Repr::LongInt, OpClass::Pair),
    row("MPI_SHORT_INT", 0x8c00_0003, Repr::ShortInt, OpClass::Pair),
    row("MPI_LONG_DOUBLE_INT", 0x8c00_0004, Repr::LongDoubleInt, OpClass::Pair),
];

/// Handle numbers of predefined datatypes differ in their low byte, or are one of the five structs.
const STRUCTS: usize = 0x50;
const PLACES: usize = STRUCTS + 5;
static PLACE: [u8; PLACES] = places();

const fn places() -> [u8; PLACES] {
    let mut places = [u8::MAX; PLACES];
    let mut index = 0;
    while index < BASICS.len() {
        let slot = slot(BASICS[index].handle);
        assert!(places[slot] == u8::MAX, "two predefined datatypes share a low byte");
        places[slot] = index as u8;
        index += 1;
    }
    places
}

#[inline]
const fn slot(handle: i32) -> usize {
    let low = (handle & 0xff) as usize;
    if handle < 0 { STRUCTS + low } else { low }
}

/// Place in [`BASICS`] of the predefined datatype with this number. Cost: O(1).
#[inline]
pub fn index(handle: i32) -> Option<usize> {
    let index = *PLACE.get(slot(handle))? as usize;
    (BASICS.get(index)?.handle == handle).then_some(index)
}

/// The predefined datatypes whose elements are bytes in a row, by the low byte of their numbers; a number with another
/// low byte where there is none.
static ROWS: [i32; 256] = rows();

const fn rows() -> [i32; 256] {
    let mut rows = [0; 256];
    let mut index = 0;
    while index < rows.len() {
        rows[index] = index as i32 ^ 1;
        index += 1;
    }
    index = 0;
    while index < BASICS.len() {
        let handle = BASICS[index].handle;
        if handle > 0 {
            rows[(handle & 0xff) as usize] = handle;
        }
        index += 1;
    }
    rows
}

/// Bytes of an element of the predefined datatype with this number, whose elements lie in a row; `None` for other
/// datatypes, and for pairs with gaps. The number carries the size.
#[inline(always)]
pub fn row_size(handle: i32) -> Option<usize> {
    (ROWS[(handle & 0xff) as usize] == handle).then_some((handle >> 8 & 0xff) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_finds_its_own_row() {
        for (place, basic) in BASICS.iter().enumerate() {
            assert_eq!(index(basic.handle), Some(place), "{}", basic.name);
        }
        for junk in [
            NULL,
            0,
            -1,
            0x4c00_0805,
            0x4c00_00ff,
            0x4c00_0150,
            0x8c00_0005u32 as i32,
        ] {
            assert_eq!(index(junk), None, "{junk:#x}");
        }
        assert_eq!((BASICS[LB].name, BASICS[LB + 1].name), ("MPI_LB", "MPI_UB"));
    }

    #[test]
    fn a_row_size_is_that_of_a_predefined_datatype_in_a_row() {
        for basic in BASICS {
            let datatype = crate::mpi::datatype::Datatype::basic_at(index(basic.handle).unwrap());
            let size = datatype.is_contiguous().then_some(basic.size);
            if basic.handle > 0 {
                assert_eq!(
                    (row_size(basic.handle), datatype.true_lb()),
                    (size, 0),
                    "{}",
                    basic.name
                );
            } else {
                assert_eq!(row_size(basic.handle), None, "{}", basic.name);
            }
        }
        for junk in [NULL, 0, -1, 0x4c00_0805, 0x4c00_00ff, 0x4c00_0150] {
            assert_eq!(row_size(junk), None, "{junk:#x}");
        }
    }

    #[test]
    fn a_builtin_number_carries_the_size() {
        for basic in BASICS.iter().filter(|basic| basic.handle > 0) {
            assert_eq!((basic.handle >> 8 & 0xff) as usize, basic.size, "{}", basic.name);
        }
    }

    #[test]
    fn pairs_are_laid_out_like_c_structs() {
        #[repr(C)]
        struct ShortInt(i16, i32);
        #[repr(C)]
        struct DoubleInt(f64, i32);
        let find = |name| BASICS.iter().find(|basic| basic.name == name).unwrap();
        let (short, double) = (find("MPI_SHORT_INT"), find("MPI_DOUBLE_INT"));
        assert_eq!((short.extent, short.size), (size_of::<ShortInt>(), 6));
        assert_eq!(short.parts().unwrap().offset, std::mem::offset_of!(ShortInt, 1));
        assert_eq!((double.extent, double.size), (size_of::<DoubleInt>(), 12));
        for basic in BASICS {
            if let Some(parts) = basic.parts() {
                assert_eq!(parts.first + parts.second, basic.size, "{}", basic.name);
            }
            assert_eq!(basic.parts().is_some(), basic.class == OpClass::Pair, "{}", basic.name);
        }
    }
}
