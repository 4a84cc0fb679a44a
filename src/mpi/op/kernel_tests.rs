//! # Safety
//! Hands kernels rows of as many elements as they are told.
//!
//! The kernels against values worked out by hand, and against each other.
#![allow(unsafe_code)]

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
            let (Some(narrow), Some(wide)) = (find_for(false, builtin, basic), find_for(true, builtin, basic)) else {
                continue;
            };
            for count in [1, 7, 16, 67] {
                let len = count * basic.extent;
                let left = operands(len, 1);
                let (mut one, mut other) = (operands(len, 2), operands(len, 2));
                let (right, mut third) = (operands(len, 2), vec![0; len]);
                // SAFETY: rows of `count` elements.
                unsafe {
                    (narrow.kernel)(left.as_ptr(), one.as_mut_ptr(), count);
                    (wide.kernel)(left.as_ptr(), other.as_mut_ptr(), count);
                }
                assert_eq!(one, other, "{builtin:?} on {count} of {}", basic.name);
                let runnable = if is_widest() { 2 } else { 1 };
                for apart in wide.apart.iter().flat_map(|apart| &apart[..runnable]) {
                    third.fill(0);
                    // SAFETY: rows of `count` elements, apart from each other.
                    unsafe { apart(left.as_ptr(), right.as_ptr(), third.as_mut_ptr(), count) };
                    assert_eq!(one, third, "{builtin:?} on {count} of {} apart", basic.name);
                }
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

#[test]
fn what_lies_between_the_members_of_pairs_stays() {
    let pairs = BASICS.iter().filter_map(|basic| Some((basic, basic.parts()?)));
    for ((basic, parts), builtin) in
        pairs.flat_map(|pair| [Builtin::Replace, Builtin::Maxloc, Builtin::Minloc].map(|builtin| (pair, builtin)))
    {
        const COUNT: usize = 5;
        let len = COUNT * basic.extent;
        // As numbers the left ones are greater than the right ones, or smaller: one of both is taken.
        for (left, right) in [(0x42u8, 0x41u8), (0x41, 0x42)] {
            // The leading bit of an x87 number is part of it.
            let leads = |at: usize| basic.repr == Repr::LongDoubleInt && at % basic.extent == 7;
            let byte = |value: u8, at: usize| if leads(at) { value | 0x80 } else { value };
            let image = |value: u8| -> Vec<u8> { (0..len).map(|at| byte(value, at)).collect() };
            let (from, mut to) = (image(left), image(right));
            let gap = |at: usize| {
                let at = at % basic.extent;
                at >= parts.offset + parts.second || (parts.first..parts.offset).contains(&at)
            };
            (0..len).filter(|&at| gap(at)).for_each(|at| to[at] = 0xee);
            let kernel = find(builtin, basic).unwrap();
            // SAFETY: both rows hold as many elements.
            unsafe { kernel(from.as_ptr(), to.as_mut_ptr(), COUNT) };
            let takes_left = match builtin {
                Builtin::Maxloc => left > right,
                Builtin::Minloc => left < right,
                _ => true,
            };
            for (at, &got) in to.iter().enumerate() {
                let expected = match gap(at) {
                    true => 0xee,
                    false => byte(if takes_left { left } else { right }, at),
                };
                assert_eq!(got, expected, "{} of {}, byte {at}", builtin.name(), basic.name);
            }
        }
    }
}
