//! The portable format "external32": big-endian values of fixed sizes without gaps (MPI-4.1 §14.5.2).
//!
//! The packed bytes of a datatype are its predefined values in order, so converting is a walk over
//! those. `MPI_LONG` and `MPI_UNSIGNED_LONG` have 4 bytes here and `MPI_WCHAR` has 2; what does not
//! fit loses its upper bits. `long double` becomes IEEE binary128.

use super::Datatype;
use super::basic::{Basic, Repr};
use crate::fail;
use crate::mpi::error::Result;

/// How a value changes on its way out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Turned around: this many bytes on both sides.
    Swap(usize),
    /// Cut to its lower bytes, then turned around: native and external bytes, and whether the sign comes back.
    Cut(usize, usize, bool),
    /// x87 extended, as binary128.
    Extended,
}

impl Form {
    fn native(self) -> usize {
        match self {
            Form::Swap(size) | Form::Cut(size, ..) => size,
            Form::Extended => 16,
        }
    }

    fn external(self) -> usize {
        match self {
            Form::Swap(size) | Form::Cut(_, size, _) => size,
            Form::Extended => 16,
        }
    }
}

/// The one or two scalars that make up a value.
fn forms(basic: &Basic) -> (Form, Option<Form>) {
    let twice = |form| (form, Some(form));
    let int = Some(Form::Swap(4));
    let long = Form::Cut(8, 4, true);
    match basic.repr {
        Repr::I64 if basic.name == "MPI_LONG" => (long, None),
        Repr::U64 if basic.name == "MPI_UNSIGNED_LONG" => (Form::Cut(8, 4, false), None),
        Repr::I32 if basic.name == "MPI_WCHAR" => (Form::Cut(4, 2, false), None),
        Repr::F80 => (Form::Extended, None),
        Repr::C16 => twice(Form::Swap(2)),
        Repr::C32 | Repr::TwoInt | Repr::TwoFloat | Repr::FloatInt => twice(Form::Swap(4)),
        Repr::C64 | Repr::TwoDouble => twice(Form::Swap(8)),
        Repr::C80 => twice(Form::Extended),
        Repr::C128 => twice(Form::Swap(16)),
        Repr::DoubleInt => (Form::Swap(8), int),
        Repr::LongInt => (long, int),
        Repr::ShortInt => (Form::Swap(2), int),
        Repr::LongDoubleInt => (Form::Extended, int),
        _ => (Form::Swap(basic.size), None),
    }
}

impl Datatype {
    /// Bytes of one element in the external format.
    pub fn external_size(&self) -> usize {
        let mut size = 0usize;
        self.values(&mut |basic, count| {
            let (first, second) = forms(basic);
            let one = first.external() + second.map_or(0, Form::external);
            size = size.saturating_add(one.saturating_mul(count));
        });
        size
    }

    /// Makes sure that every value has the same size in the external format as in memory.
    ///
    /// # Errors
    /// `UnsupportedDatarep`: one has not, as `MPI_LONG`.
    pub fn check_external(&self) -> Result<()> {
        let mut other = None;
        self.values(&mut |basic, _| {
            let (first, second) = forms(basic);
            let same = |form: Form| form.native() == form.external();
            if !same(first) || !second.is_none_or(same) {
                other = Some(basic.name);
            }
        });
        match other {
            None => Ok(()),
            Some(name) => fail!(
                UnsupportedDatarep,
                "a value of {name} has another size in \"external32\" than in memory, which files do not support"
            ),
        }
    }

    /// Converts whole packed elements to the external format.
    pub fn to_external(&self, packed: &[u8]) -> Vec<u8> {
        self.convert(packed, self.size(), Form::native, encode)
    }

    /// Converts whole elements in the external format to packed ones.
    pub fn from_external(&self, external: &[u8]) -> Vec<u8> {
        self.convert(external, self.external_size(), Form::external, decode)
    }

    fn convert(
        &self,
        from: &[u8],
        size: usize,
        width: fn(Form) -> usize,
        turn: fn(Form, &[u8], &mut Vec<u8>),
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(from.len());
        let mut left = from;
        for _ in 0..from.len().checked_div(size).unwrap_or(0) {
            self.values(&mut |basic, count| {
                let (first, second) = forms(basic);
                for _ in 0..count {
                    for form in [Some(first), second].into_iter().flatten() {
                        let (value, rest) = left.split_at(width(form));
                        turn(form, value, &mut out);
                        left = rest;
                    }
                }
            });
        }
        out
    }
}

fn encode(form: Form, value: &[u8], out: &mut Vec<u8>) {
    match form {
        Form::Swap(_) => out.extend(value.iter().rev()),
        Form::Cut(_, size, _) => out.extend(value[..size].iter().rev()),
        Form::Extended => out.extend(widen(value).to_be_bytes()),
    }
}

fn decode(form: Form, value: &[u8], out: &mut Vec<u8>) {
    match form {
        Form::Swap(_) => out.extend(value.iter().rev()),
        Form::Cut(native, size, signed) => {
            out.extend(value.iter().rev());
            let fill = if signed && value[0] & 0x80 != 0 { 0xff } else { 0 };
            out.extend(std::iter::repeat_n(fill, native - size));
        }
        Form::Extended => {
            let value = u128::from_be_bytes(value.try_into().expect("16 bytes"));
            out.extend(narrow(value).to_le_bytes());
        }
    }
}

const FRACTION: u32 = 112;

/// x87 extended to binary128: exact.
fn widen(value: &[u8]) -> u128 {
    let mantissa = u64::from_le_bytes(value[..8].try_into().expect("8 bytes"));
    let head = u16::from_le_bytes([value[8], value[9]]);
    let (sign, exponent) = ((head >> 15) as u128, (head & 0x7fff) as u128);
    // The leading bit of the mantissa is written out in one format and understood in the other.
    let fraction = (mantissa << 1 >> 1) as u128;
    let (exponent, fraction) = match exponent {
        0 if mantissa >> 63 == 1 => (1, fraction),
        _ => (exponent, fraction),
    };
    sign << 127 | exponent << FRACTION | fraction << (FRACTION - 63)
}

/// binary128 to x87 extended, rounded to nearest, ties to even.
fn narrow(value: u128) -> u128 {
    let (sign, exponent) = (value >> 127, value >> FRACTION & 0x7fff);
    let fraction = value & ((1 << FRACTION) - 1);
    let whole = fraction | if exponent == 0 { 0 } else { 1 << FRACTION };
    let drop = FRACTION - 63;
    let (kept, lost) = (whole >> drop, whole & ((1 << drop) - 1));
    if exponent == 0x7fff {
        // Infinity, or a NaN that must stay one.
        let quiet = if fraction == 0 { 0 } else { 1 << 62 };
        return (sign << 15 | exponent) << 64 | kept | quiet;
    }
    let half = 1 << (drop - 1);
    let up = lost > half || lost == half && kept & 1 == 1;
    let rounded = kept + u128::from(up);
    let (exponent, mantissa) = match rounded >> 63 {
        2 => (exponent + 1, rounded >> 1),
        1 if exponent == 0 => (1, rounded),
        _ => (exponent, rounded),
    };
    (sign << 15 | exponent) << 64 | mantissa
}

#[cfg(test)]
mod tests {
    use super::super::basic;
    use super::*;
    use proptest::prelude::*;

    fn named(name: &str) -> std::rc::Rc<Datatype> {
        Datatype::basic_at(basic::BASICS.iter().position(|basic| basic.name == name).unwrap())
    }

    #[test]
    fn values_are_big_endian_and_of_the_standards_size() {
        assert_eq!(named("MPI_INT").to_external(&0x01020304i32.to_ne_bytes()), [1, 2, 3, 4]);
        assert_eq!(
            named("MPI_LONG").to_external(&(-2i64).to_ne_bytes()),
            [0xff, 0xff, 0xff, 0xfe]
        );
        assert_eq!(
            named("MPI_LONG").from_external(&[0xff, 0xff, 0xff, 0xfe]),
            (-2i64).to_ne_bytes()
        );
        assert_eq!(
            named("MPI_UNSIGNED_LONG").from_external(&[0xff, 0, 0, 1]),
            0xff000001u64.to_ne_bytes()
        );
        let sizes = [
            ("MPI_WCHAR", 2),
            ("MPI_LONG_DOUBLE_INT", 20),
            ("MPI_SHORT_INT", 6),
            ("MPI_LONG_INT", 8),
        ];
        for (name, size) in sizes {
            assert_eq!(named(name).external_size(), size, "{name}");
        }
        let mut double = Vec::new();
        double.extend(1.0f64.to_ne_bytes());
        double.extend(7i32.to_ne_bytes());
        let external = named("MPI_DOUBLE_INT").to_external(&double);
        assert_eq!(external, [0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(named("MPI_DOUBLE_INT").from_external(&external), double);
    }

    #[test]
    fn extended_precision_keeps_known_values() {
        let one: u128 = 0x3fff << 64 | 1 << 63;
        assert_eq!(widen(&one.to_le_bytes()), 0x3fff << 112);
        assert_eq!(narrow(0x3fff << 112), one);
        let infinity: u128 = 0xffff << 64 | 1 << 63;
        assert_eq!(widen(&infinity.to_le_bytes()), 0xffff << 112);
        // Just below 2 rounds up to 2.
        assert_eq!(narrow(0x3fff << 112 | ((1 << 112) - 1)), 0x4000 << 64 | 1 << 63);
    }

    proptest! {
        #[test]
        fn extended_precision_survives_the_round_trip(sign in 0u128..2, exponent in 0u128..0x7fff, mantissa: u64) {
            let lead = if exponent == 0 { 0 } else { 1 << 63 };
            let value = (sign << 15 | exponent) << 64 | (mantissa >> 1 | lead) as u128;
            prop_assert_eq!(narrow(widen(&value.to_le_bytes())), value);
        }
    }
}
