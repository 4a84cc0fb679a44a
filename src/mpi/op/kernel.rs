//! # Safety
//! Reads and writes rows of elements: relies on the caller of a kernel to own `count` elements at
//! both addresses.
//!
//! The loops of the predefined reduction operations, one for each operation and representation
//! (MPI-4.1 §6.9.2 to §6.9.4). They read and write unaligned, and LLVM vectorises them: once for every CPU, and
//! once for those with AVX2, where comparisons and products of integers fit into vectors too. Both give the same bits.
#![allow(unsafe_code)]

use crate::mpi::datatype::basic::{Basic, OpClass, Repr};
use half::{bf16, f16};

/// `right[i] = left[i] op right[i]` for `count` elements.
pub type Kernel = unsafe extern "C" fn(left: *const u8, right: *mut u8, count: usize);

/// The predefined operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Builtin {
    Max,
    Min,
    Sum,
    Prod,
    Land,
    Band,
    Lor,
    Bor,
    Lxor,
    Bxor,
    Minloc,
    Maxloc,
    Replace,
    NoOp,
}

/// In the order of their handles, from `MPI_MAX` = 0x58000001 on.
pub const BUILTINS: [Builtin; 14] = [
    Builtin::Max,
    Builtin::Min,
    Builtin::Sum,
    Builtin::Prod,
    Builtin::Land,
    Builtin::Band,
    Builtin::Lor,
    Builtin::Bor,
    Builtin::Lxor,
    Builtin::Bxor,
    Builtin::Minloc,
    Builtin::Maxloc,
    Builtin::Replace,
    Builtin::NoOp,
];

impl Builtin {
    /// Its name in MPI.
    pub fn name(self) -> &'static str {
        match self {
            Builtin::Max => "MPI_MAX",
            Builtin::Min => "MPI_MIN",
            Builtin::Sum => "MPI_SUM",
            Builtin::Prod => "MPI_PROD",
            Builtin::Land => "MPI_LAND",
            Builtin::Band => "MPI_BAND",
            Builtin::Lor => "MPI_LOR",
            Builtin::Bor => "MPI_BOR",
            Builtin::Lxor => "MPI_LXOR",
            Builtin::Bxor => "MPI_BXOR",
            Builtin::Minloc => "MPI_MINLOC",
            Builtin::Maxloc => "MPI_MAXLOC",
            Builtin::Replace => "MPI_REPLACE",
            Builtin::NoOp => "MPI_NO_OP",
        }
    }

    /// Whether it is defined on `class` (MPI-4.1 §6.9.2). As in MPICH, the logical operations also
    /// take Fortran integers and the multi-language types.
    fn takes(self, class: OpClass) -> bool {
        use OpClass::*;
        let integer = matches!(class, CInteger | FInteger | MultiLanguage);
        match self {
            Builtin::Max | Builtin::Min => integer || class == Floating,
            Builtin::Sum | Builtin::Prod => integer || matches!(class, Floating | Complex),
            Builtin::Land | Builtin::Lor | Builtin::Lxor => integer || class == Logical,
            Builtin::Band | Builtin::Bor | Builtin::Bxor => integer || class == Byte,
            Builtin::Minloc | Builtin::Maxloc => class == Pair,
            Builtin::Replace | Builtin::NoOp => true,
        }
    }
}

/// The kernel of `builtin` on elements of `basic`, if it is defined there. Cost: a table look-up.
pub fn find(builtin: Builtin, basic: &Basic) -> Option<Kernel> {
    find_for(is_wide(), builtin, basic)
}

/// As [`find`], for a CPU with AVX2 if `wide`.
fn find_for(wide: bool, builtin: Builtin, basic: &Basic) -> Option<Kernel> {
    if !builtin.takes(basic.class) {
        return None;
    }
    match builtin {
        Builtin::Replace => replace(basic.extent),
        Builtin::NoOp => Some(nothing),
        Builtin::Minloc | Builtin::Maxloc => located(builtin == Builtin::Maxloc, basic.repr),
        _ => match basic.repr {
            Repr::I8 => integer::<i8>(wide, builtin),
            Repr::I16 => integer::<i16>(wide, builtin),
            Repr::I32 => integer::<i32>(wide, builtin),
            Repr::I64 => integer::<i64>(wide, builtin),
            Repr::I128 => integer::<i128>(wide, builtin),
            Repr::U8 | Repr::Bool => integer::<u8>(wide, builtin),
            Repr::U16 => integer::<u16>(wide, builtin),
            Repr::U32 => integer::<u32>(wide, builtin),
            Repr::U64 => integer::<u64>(wide, builtin),
            Repr::F16 => floating::<f16>(wide, builtin),
            Repr::BF16 => floating::<bf16>(wide, builtin),
            Repr::F32 => floating::<f32>(wide, builtin),
            Repr::F64 => floating::<f64>(wide, builtin),
            Repr::C16 => complex::<f16>(wide, builtin),
            Repr::C32 => complex::<f32>(wide, builtin),
            Repr::C64 => complex::<f64>(wide, builtin),
            repr => c_kernel(builtin, repr),
        },
    }
}

/// `right[i] = op(left[i], right[i])`.
///
/// # Safety
/// As [`Kernel`]'s users promise: `count` elements at both addresses, which do not overlap.
#[inline(always)]
unsafe fn each<T: Copy>(left: *const u8, right: *mut u8, count: usize, op: impl Fn(T, T) -> T) {
    let (left, right) = (left.cast::<T>(), right.cast::<T>());
    for index in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let result = op(left.add(index).read_unaligned(), right.add(index).read_unaligned());
            right.add(index).write_unaligned(result);
        }
    }
}

/// Defines kernels `name::<T>` from what they do to two elements, and the same in module `wide` for CPUs with AVX2.
macro_rules! kernels {
    ($($(#[$attribute:meta])* $name:ident<$bound:ident>($a:ident, $b:ident: $element:ty) $body:expr;)*) => {
        $(
            $(#[$attribute])*
            unsafe extern "C" fn $name<T: $bound>(left: *const u8, right: *mut u8, count: usize) {
                // SAFETY: the caller's promise, passed on.
                unsafe { each::<$element>(left, right, count, #[inline(always)] |$a, $b| $body) }
            }
        )*

        #[cfg(target_arch = "x86_64")]
        mod wide {
            use super::{Integer, Number, each};
            $(
                $(#[$attribute])*
                #[target_feature(enable = "avx2")]
                pub unsafe extern "C" fn $name<T: $bound>(left: *const u8, right: *mut u8, count: usize) {
                    // SAFETY: the caller's promise, passed on.
                    unsafe { each::<$element>(left, right, count, #[inline(always)] |$a, $b| $body) }
                }
            )*
        }
    };
}

/// Whether this CPU runs the kernels of module `wide`.
#[inline]
fn is_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Kernel `name::<T>` for this CPU, if `wide` for one with AVX2.
macro_rules! kernel {
    ($wide:ident, $name:ident) => {{
        #[cfg(target_arch = "x86_64")]
        if $wide {
            return Some(wide::$name::<T>);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = $wide;
        $name::<T>
    }};
}

kernels! {
    max<Number>(a, b: T) if a > b { a } else { b };
    min<Number>(a, b: T) if a < b { a } else { b };
    sum<Number>(a, b: T) a.add(b);
    prod<Number>(a, b: T) a.mul(b);
    land<Integer>(a, b: T) T::truth(a != T::ZERO && b != T::ZERO);
    lor<Integer>(a, b: T) T::truth(a != T::ZERO || b != T::ZERO);
    lxor<Integer>(a, b: T) T::truth((a != T::ZERO) != (b != T::ZERO));
    band<Integer>(a, b: T) a.and(b);
    bor<Integer>(a, b: T) a.or(b);
    bxor<Integer>(a, b: T) a.xor(b);
    complex_sum<Number>(a, b: [T; 2]) [a[0].add(b[0]), a[1].add(b[1])];
    complex_prod<Number>(a, b: [T; 2]) [
        a[0].mul(b[0]).sub(a[1].mul(b[1])),
        a[0].mul(b[1]).add(a[1].mul(b[0])),
    ];
}

unsafe extern "C" fn nothing(_left: *const u8, _right: *mut u8, _count: usize) {}

fn replace(extent: usize) -> Option<Kernel> {
    unsafe extern "C" fn copy<const LEN: usize>(left: *const u8, right: *mut u8, count: usize) {
        // SAFETY: the caller's promise: rows of `count` elements of LEN bytes that do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(left, right, LEN * count) };
    }
    Some(match extent {
        0 => nothing,
        1 => copy::<1>,
        2 => copy::<2>,
        4 => copy::<4>,
        8 => copy::<8>,
        16 => copy::<16>,
        32 => copy::<32>,
        _ => return None,
    })
}

fn integer<T: Integer>(wide: bool, builtin: Builtin) -> Option<Kernel> {
    Some(match builtin {
        Builtin::Max => kernel!(wide, max),
        Builtin::Min => kernel!(wide, min),
        Builtin::Sum => kernel!(wide, sum),
        Builtin::Prod => kernel!(wide, prod),
        Builtin::Land => kernel!(wide, land),
        Builtin::Lor => kernel!(wide, lor),
        Builtin::Lxor => kernel!(wide, lxor),
        Builtin::Band => kernel!(wide, band),
        Builtin::Bor => kernel!(wide, bor),
        Builtin::Bxor => kernel!(wide, bxor),
        _ => return None,
    })
}

fn floating<T: Number>(wide: bool, builtin: Builtin) -> Option<Kernel> {
    Some(match builtin {
        Builtin::Max => kernel!(wide, max),
        Builtin::Min => kernel!(wide, min),
        Builtin::Sum => kernel!(wide, sum),
        Builtin::Prod => kernel!(wide, prod),
        _ => return None,
    })
}

fn complex<T: Number>(wide: bool, builtin: Builtin) -> Option<Kernel> {
    Some(match builtin {
        Builtin::Sum => kernel!(wide, complex_sum),
        Builtin::Prod => kernel!(wide, complex_prod),
        _ => return None,
    })
}

/// The arithmetic of one representation; integers wrap around.
trait Number: Copy + PartialOrd {
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
}

trait Integer: Number {
    const ZERO: Self;
    fn truth(value: bool) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        impl Number for $type {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
        impl Integer for $type {
            const ZERO: Self = 0;
            #[inline(always)]
            fn truth(value: bool) -> Self {
                value as $type
            }
            #[inline(always)]
            fn and(self, other: Self) -> Self {
                self & other
            }
            #[inline(always)]
            fn or(self, other: Self) -> Self {
                self | other
            }
            #[inline(always)]
            fn xor(self, other: Self) -> Self {
                self ^ other
            }
        }
    )*};
}
integers!(i8 i16 i32 i64 i128 u8 u16 u32 u64);

macro_rules! floats {
    ($($type:ty)*) => {$(
        impl Number for $type {
            #[inline(always)]
            fn add(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn sub(self, other: Self) -> Self {
                self - other
            }
            #[inline(always)]
            fn mul(self, other: Self) -> Self {
                self * other
            }
        }
    )*};
}
floats!(f16 bf16 f32 f64);

/// A value and where it was found, laid out as in C.
#[repr(C)]
#[derive(Clone, Copy)]
struct Located<V, I> {
    value: V,
    index: I,
}

/// `MPI_MAXLOC` or `MPI_MINLOC`: of equal values the lower index counts (MPI-4.1 §6.9.4).
fn located(greatest: bool, repr: Repr) -> Option<Kernel> {
    unsafe extern "C" fn extreme<V: Copy + PartialOrd, I: Copy + PartialOrd, const GREATEST: bool>(
        left: *const u8,
        right: *mut u8,
        count: usize,
    ) {
        let op = |a: Located<V, I>, b: Located<V, I>| {
            let first = if GREATEST { a.value > b.value } else { a.value < b.value };
            if first || (a.value == b.value && a.index < b.index) {
                a
            } else {
                b
            }
        };
        // SAFETY: the caller's promise, passed on.
        unsafe { each(left, right, count, op) }
    }
    fn pick<V: Copy + PartialOrd, I: Copy + PartialOrd>(greatest: bool) -> Option<Kernel> {
        Some(if greatest {
            extreme::<V, I, true>
        } else {
            extreme::<V, I, false>
        })
    }
    match repr {
        Repr::FloatInt => pick::<f32, i32>(greatest),
        Repr::DoubleInt => pick::<f64, i32>(greatest),
        Repr::LongInt => pick::<i64, i32>(greatest),
        Repr::ShortInt => pick::<i16, i32>(greatest),
        Repr::TwoInt => pick::<i32, i32>(greatest),
        Repr::TwoFloat => pick::<f32, f32>(greatest),
        Repr::TwoDouble => pick::<f64, f64>(greatest),
        Repr::LongDoubleInt if greatest => Some(nearmpi_f80_maxloc),
        Repr::LongDoubleInt => Some(nearmpi_f80_minloc),
        _ => None,
    }
}

/// Extended and quadruple precision, which only C has: `long_double.c`.
fn c_kernel(builtin: Builtin, repr: Repr) -> Option<Kernel> {
    Some(match (repr, builtin) {
        (Repr::F80, Builtin::Max) => nearmpi_f80_max,
        (Repr::F80, Builtin::Min) => nearmpi_f80_min,
        (Repr::F80, Builtin::Sum) => nearmpi_f80_sum,
        (Repr::F80, Builtin::Prod) => nearmpi_f80_prod,
        (Repr::F128, Builtin::Max) => nearmpi_f128_max,
        (Repr::F128, Builtin::Min) => nearmpi_f128_min,
        (Repr::F128, Builtin::Sum) => nearmpi_f128_sum,
        (Repr::F128, Builtin::Prod) => nearmpi_f128_prod,
        (Repr::C80, Builtin::Sum) => nearmpi_c80_sum,
        (Repr::C80, Builtin::Prod) => nearmpi_c80_prod,
        (Repr::C128, Builtin::Sum) => nearmpi_c128_sum,
        (Repr::C128, Builtin::Prod) => nearmpi_c128_prod,
        _ => return None,
    })
}

macro_rules! c_kernels {
    ($($name:ident)*) => {
        unsafe extern "C" {
            $(fn $name(left: *const u8, right: *mut u8, count: usize);)*
        }
    };
}
c_kernels! {
    nearmpi_f80_max nearmpi_f80_min nearmpi_f80_sum nearmpi_f80_prod
    nearmpi_f128_max nearmpi_f128_min nearmpi_f128_sum nearmpi_f128_prod
    nearmpi_c80_sum nearmpi_c80_prod nearmpi_c128_sum nearmpi_c128_prod
    nearmpi_f80_maxloc nearmpi_f80_minloc
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::datatype::basic::BASICS;

    fn basic(name: &str) -> &'static Basic {
        BASICS.iter().find(|basic| basic.name == name).unwrap()
    }

    /// `left op right` on byte images, one byte off alignment.
    fn apply<T: Copy>(builtin: Builtin, name: &str, left: &[T], right: &[T]) -> Vec<T> {
        let kernel = find(builtin, basic(name)).unwrap();
        let len = size_of_val(left);
        assert_eq!(size_of::<T>(), basic(name).extent);
        let (mut a, mut b) = (vec![0u8; len + 1], vec![0u8; len + 1]);
        // SAFETY: all rows hold `left.len()` elements, as the kernel is told.
        unsafe {
            std::ptr::copy_nonoverlapping(left.as_ptr().cast(), a.as_mut_ptr().add(1), len);
            std::ptr::copy_nonoverlapping(right.as_ptr().cast(), b.as_mut_ptr().add(1), len);
            kernel(a.as_ptr().add(1), b.as_mut_ptr().add(1), left.len());
            (0..left.len())
                .map(|index| b.as_ptr().add(1).cast::<T>().add(index).read_unaligned())
                .collect()
        }
    }

    /// The x87 image of a small integer: sign and exponent above an explicit leading bit.
    fn f80(value: i32) -> u128 {
        let magnitude = value.unsigned_abs() as u64;
        if magnitude == 0 {
            return 0;
        }
        let exponent = 63 - magnitude.leading_zeros();
        let sign = u128::from(value < 0) << 79;
        sign | ((16383 + exponent) as u128) << 64 | (magnitude << (63 - exponent)) as u128
    }

    fn f80_bits(value: u128) -> u128 {
        value & ((1 << 80) - 1)
    }

    /// The binary128 image of a small integer.
    fn f128(value: i32) -> u128 {
        let magnitude = value.unsigned_abs() as u128;
        if magnitude == 0 {
            return 0;
        }
        let exponent = 127 - magnitude.leading_zeros();
        let sign = u128::from(value < 0) << 127;
        sign | ((16383 + exponent) as u128) << 112 | (magnitude ^ 1 << exponent) << (112 - exponent)
    }

    #[test]
    fn integers_wrap_and_compare() {
        assert_eq!(apply(Builtin::Sum, "MPI_INT", &[i32::MAX, 2], &[1, 3]), [i32::MIN, 5]);
        assert_eq!(apply(Builtin::Max, "MPI_UNSIGNED_CHAR", &[200u8], &[100]), [200]);
        assert_eq!(apply(Builtin::Max, "MPI_SIGNED_CHAR", &[-56i8], &[100]), [100]);
        assert_eq!(apply(Builtin::Land, "MPI_C_BOOL", &[1u8, 1, 0], &[1, 0, 0]), [1, 0, 0]);
        assert_eq!(apply(Builtin::Lxor, "MPI_LONG", &[7i64, 7], &[9, 0]), [0, 1]);
        assert_eq!(apply(Builtin::Bxor, "MPI_BYTE", &[0xf0u8], &[0xff]), [0x0f]);
        assert_eq!(
            apply(Builtin::Prod, "MPI_INTEGER16", &[1i128 << 70], &[3]),
            [3i128 << 70]
        );
    }

    #[test]
    fn halves_and_complex_numbers() {
        let half = |x: f32| f16::from_f32(x).to_bits();
        let brain = |x: f32| bf16::from_f32(x).to_bits();
        assert_eq!(
            apply(Builtin::Sum, "MPIX_C_FLOAT16", &[half(1.5)], &[half(2.0)]),
            [half(3.5)]
        );
        assert_eq!(
            apply(Builtin::Max, "MPIX_BFLOAT16", &[brain(-1.0)], &[brain(2.0)]),
            [brain(2.0)]
        );
        let product = apply(Builtin::Prod, "MPI_C_DOUBLE_COMPLEX", &[[1.0f64, 2.0]], &[[3.0, 4.0]]);
        assert_eq!(product, [[-5.0, 10.0]]);
    }

    #[test]
    fn long_doubles_are_computed_by_c() {
        let sum = apply(Builtin::Sum, "MPI_LONG_DOUBLE", &[f80(7), f80(-3)], &[f80(5), f80(1)]);
        assert_eq!(sum.map_bits(), [f80(12), f80(-2)]);
        let least = apply(Builtin::Min, "MPI_LONG_DOUBLE", &[f80(7)], &[f80(5)]);
        assert_eq!(least.map_bits(), [f80(5)]);
        assert_eq!(apply(Builtin::Prod, "MPI_REAL16", &[f128(6)], &[f128(-7)]), [f128(-42)]);
        let product = apply(
            Builtin::Prod,
            "MPI_COMPLEX32",
            &[[f128(1), f128(2)]],
            &[[f128(3), f128(4)]],
        );
        assert_eq!(product, [[f128(-5), f128(10)]]);
        let product = apply(
            Builtin::Prod,
            "MPI_C_LONG_DOUBLE_COMPLEX",
            &[[f80(1), f80(2)]],
            &[[f80(3), f80(4)]],
        );
        assert_eq!(product[0].map(f80_bits), [f80(-5), f80(10)]);
    }

    trait MapBits {
        fn map_bits(self) -> Vec<u128>;
    }
    impl MapBits for Vec<u128> {
        fn map_bits(self) -> Vec<u128> {
            self.into_iter().map(f80_bits).collect()
        }
    }

    #[test]
    fn locations_break_ties_downwards() {
        #[repr(C)]
        #[derive(Clone, Copy, PartialEq, Debug)]
        struct DoubleInt(f64, i32);
        let left = [DoubleInt(1.0, 4), DoubleInt(2.0, 9), DoubleInt(3.0, 1)];
        let right = [DoubleInt(1.0, 3), DoubleInt(1.0, 0), DoubleInt(3.0, 2)];
        let got = apply(Builtin::Maxloc, "MPI_DOUBLE_INT", &left, &right);
        assert_eq!(got, [DoubleInt(1.0, 3), DoubleInt(2.0, 9), DoubleInt(3.0, 1)]);
        let long = |value, index: i32| [f80(value), index as u32 as u128];
        let got = apply(Builtin::Minloc, "MPI_LONG_DOUBLE_INT", &[long(4, 2)], &[long(4, 1)]);
        assert_eq!((f80_bits(got[0][0]), got[0][1] as u32), (f80(4), 1));
    }

    /// Bytes that are no NaNs and no traps in any representation: small positive numbers.
    fn operands(len: usize, seed: usize) -> Vec<u8> {
        (0..len).map(|at| ((at * 37 + seed * 11) % 63) as u8).collect()
    }

    #[test]
    fn kernels_for_wide_vectors_give_the_same_bits() {
        if !is_wide() {
            return;
        }
        for basic in BASICS {
            for builtin in BUILTINS {
                let (Some(narrow), Some(wide)) = (find_for(false, builtin, basic), find_for(true, builtin, basic))
                else {
                    continue;
                };
                for count in [1, 7, 16, 67] {
                    let len = count * basic.extent;
                    let left = operands(len, 1);
                    let (mut one, mut other) = (operands(len, 2), operands(len, 2));
                    // SAFETY: rows of `count` elements.
                    unsafe {
                        narrow(left.as_ptr(), one.as_mut_ptr(), count);
                        wide(left.as_ptr(), other.as_mut_ptr(), count);
                    }
                    assert_eq!(one, other, "{builtin:?} on {count} of {}", basic.name);
                }
            }
        }
    }

    #[test]
    fn every_defined_pair_has_a_kernel_and_no_other() {
        for basic in BASICS {
            for builtin in BUILTINS {
                let found = find(builtin, basic).is_some();
                assert_eq!(found, builtin.takes(basic.class), "{builtin:?} on {}", basic.name);
            }
        }
        assert!(find(Builtin::Band, basic("MPI_DOUBLE")).is_none());
        assert!(find(Builtin::Max, basic("MPI_COMPLEX")).is_none());
        assert!(find(Builtin::Sum, basic("MPI_BYTE")).is_none());
        assert!(find(Builtin::Maxloc, basic("MPI_INT")).is_none());
    }
}
