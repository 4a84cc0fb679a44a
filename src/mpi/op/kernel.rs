//! # Safety
//! Reads and writes rows of elements: relies on the caller of a kernel to own `count` elements at
//! both addresses.
//!
//! The loops of the predefined reduction operations, one for each operation and representation
//! (MPI-4.1 §6.9.2 to §6.9.4). They read and write unaligned, and LLVM vectorises them: once for every CPU, and
//! once for those with AVX2, where comparisons and products of integers fit into vectors too. Both give the same bits.
#![allow(unsafe_code)]

use crate::mpi::datatype::basic::{Basic, OpClass, Repr};
use crate::sys::copy;
use half::{bf16, f16};

/// `right[i] = left[i] op right[i]` for `count` elements.
pub type Kernel = unsafe extern "C" fn(left: *const u8, right: *mut u8, count: usize);

/// `to[i] = left[i] op right[i]` for `count` elements; `to` overlaps neither operand.
pub type Apart = unsafe extern "C" fn(left: *const u8, right: *const u8, to: *mut u8, count: usize);

/// What there is for an operation on a representation.
#[derive(Clone, Copy)]
struct Kernels {
    kernel: Kernel,
    /// With the result in a third place: for AVX2 and for AVX-512, whose loads take a whole cache line. Half as many misses
    /// are under way with the former: what another core has just written comes 7 to 13% later.
    apart: Option<[Apart; 2]>,
}

impl From<Kernel> for Kernels {
    fn from(kernel: Kernel) -> Kernels {
        Kernels { kernel, apart: None }
    }
}

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
    Some(find_for(is_wide(), builtin, basic)?.kernel)
}

/// As [`find`], with the result in a third place: saves a copy of an operand. Not all have this, nor all CPUs.
pub fn find_apart(builtin: Builtin, basic: &Basic) -> Option<Apart> {
    let kernels = find_for(is_wide(), builtin, basic)?;
    Some(kernels.apart?[usize::from(is_widest())])
}

/// As [`find`] and [`find_apart`], for a CPU with AVX2 if `wide`.
fn find_for(wide: bool, builtin: Builtin, basic: &Basic) -> Option<Kernels> {
    if !builtin.takes(basic.class) {
        return None;
    }
    match builtin {
        Builtin::Replace if basic.is_contiguous() => replace(basic.extent).map(Kernels::from),
        Builtin::Replace => replace_located(basic.repr).map(Kernels::from),
        Builtin::NoOp => Some(Kernels::from(nothing as Kernel)),
        Builtin::Minloc | Builtin::Maxloc => located(builtin == Builtin::Maxloc, basic.repr).map(Kernels::from),
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
            repr => c_kernel(builtin, repr).map(Kernels::from),
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

/// `to[i] = op(left[i], right[i])`.
///
/// # Safety
/// As [`Apart`]'s users promise.
#[inline(always)]
unsafe fn each_apart<T: Copy>(left: *const u8, right: *const u8, to: *mut u8, count: usize, op: impl Fn(T, T) -> T) {
    let (left, right, to) = (left.cast::<T>(), right.cast::<T>(), to.cast::<T>());
    for index in 0..count {
        // SAFETY: the caller's promise.
        unsafe {
            let result = op(left.add(index).read_unaligned(), right.add(index).read_unaligned());
            to.add(index).write_unaligned(result);
        }
    }
}

/// Defines module `$module` of kernels with the result in a third place, for CPUs with `$features`.
macro_rules! apart {
    ($module:ident $features:literal
     $($(#[$attribute:meta])* $name:ident<$bound:ident>($a:ident, $b:ident: $element:ty) $body:expr;)*) => {
        #[cfg(target_arch = "x86_64")]
        mod $module {
            use super::{Integer, Number, each_apart};
            $(
                $(#[$attribute])*
                #[target_feature(enable = $features)]
                pub unsafe extern "C" fn $name<T: $bound>(left: *const u8, right: *const u8, to: *mut u8, count: usize) {
                    // SAFETY: the caller's promise, passed on.
                    unsafe { each_apart::<$element>(left, right, to, count, #[inline(always)] |$a, $b| $body) }
                }
            )*
        }
    };
}

/// Defines kernels `name::<T>` from what they do to two elements, the same in module `wide` for CPUs with AVX2, and for
/// those also with the result in a third place, in `apart` and, for CPUs with AVX-512, `whole_lines`.
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

        apart! { apart "avx2" $($(#[$attribute])* $name<$bound>($a, $b: $element) $body;)* }
        apart! { whole_lines "avx512f,avx512bw" $($(#[$attribute])* $name<$bound>($a, $b: $element) $body;)* }
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

/// Whether this CPU runs the kernels of module `whole_lines`.
#[inline]
fn is_widest() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512f") && std::arch::is_x86_feature_detected!("avx512bw");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Kernels `name::<T>` for this CPU, if `wide` for one with AVX2.
macro_rules! kernel {
    ($wide:ident, $name:ident) => {{
        #[cfg(target_arch = "x86_64")]
        if $wide {
            return Some(Kernels {
                kernel: wide::$name::<T>,
                apart: Some([apart::$name::<T>, whole_lines::$name::<T>]),
            });
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = $wide;
        Kernels::from($name::<T> as Kernel)
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
    unsafe extern "C" fn whole<const LEN: usize>(left: *const u8, right: *mut u8, count: usize) {
        // SAFETY: the caller's promise: rows of `count` elements of LEN bytes that do not overlap.
        unsafe { copy::many(left, right, LEN * count) };
    }
    Some(match extent {
        0 => nothing,
        1 => whole::<1>,
        2 => whole::<2>,
        4 => whole::<4>,
        8 => whole::<8>,
        16 => whole::<16>,
        32 => whole::<32>,
        _ => return None,
    })
}

fn integer<T: Integer>(wide: bool, builtin: Builtin) -> Option<Kernels> {
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

fn floating<T: Number>(wide: bool, builtin: Builtin) -> Option<Kernels> {
    Some(match builtin {
        Builtin::Max => kernel!(wide, max),
        Builtin::Min => kernel!(wide, min),
        Builtin::Sum => kernel!(wide, sum),
        Builtin::Prod => kernel!(wide, prod),
        _ => return None,
    })
}

fn complex<T: Number>(wide: bool, builtin: Builtin) -> Option<Kernels> {
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

/// A value and where it was found, laid out as in C; what lies between and behind them is the program's.
#[repr(C)]
#[derive(Clone, Copy)]
struct Located<V, I> {
    value: V,
    index: I,
}

impl<V: Copy, I: Copy> Located<V, I> {
    /// Copies value and index of the element at `from`.
    ///
    /// # Safety
    /// One is there and at `to`, at any alignment.
    #[inline(always)]
    unsafe fn copy(from: *const Self, to: *mut Self) {
        // SAFETY: the caller's promise.
        unsafe {
            let (value, index) = ((&raw const (*from).value), (&raw const (*from).index));
            (&raw mut (*to).value).write_unaligned(value.read_unaligned());
            (&raw mut (*to).index).write_unaligned(index.read_unaligned());
        }
    }
}

/// `MPI_REPLACE` of elements with gaps.
fn replace_located(repr: Repr) -> Option<Kernel> {
    unsafe extern "C" fn all<V: Copy, I: Copy>(left: *const u8, right: *mut u8, count: usize) {
        let (left, right) = (left.cast::<Located<V, I>>(), right.cast::<Located<V, I>>());
        for index in 0..count {
            // SAFETY: the caller's promise.
            unsafe { Located::copy(left.add(index), right.add(index)) };
        }
    }
    match repr {
        Repr::DoubleInt | Repr::LongInt => Some(all::<u64, u32>),
        Repr::ShortInt => Some(all::<u16, u32>),
        Repr::LongDoubleInt => Some(all::<u128, u32>),
        _ => None,
    }
}

/// `MPI_MAXLOC` or `MPI_MINLOC`: of equal values the lower index counts (MPI-4.1 §6.9.4).
fn located(greatest: bool, repr: Repr) -> Option<Kernel> {
    unsafe extern "C" fn extreme<V: Copy + PartialOrd, I: Copy + PartialOrd, const GREATEST: bool>(
        left: *const u8,
        right: *mut u8,
        count: usize,
    ) {
        let (left, right) = (left.cast::<Located<V, I>>(), right.cast::<Located<V, I>>());
        for index in 0..count {
            // SAFETY: the caller's promise.
            unsafe {
                let (from, to) = (left.add(index), right.add(index));
                let (a, b) = (from.read_unaligned(), to.read_unaligned());
                let first = if GREATEST { a.value > b.value } else { a.value < b.value };
                if first || (a.value == b.value && a.index < b.index) {
                    Located::copy(from, to);
                }
            }
        }
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
#[path = "kernel_tests.rs"]
mod tests;
