//! # Safety
//! Packs and unpacks vectors that are as long as the bounds of the datatype say.
//!
//! Random datatypes against the standard's definition: a typemap is a list of (basic, displacement).
#![allow(unsafe_code)]

use super::construct::Member;
use super::*;
use proptest::prelude::*;

/// A datatype and its typemap.
#[derive(Clone, Debug)]
struct Model {
    datatype: Rc<Datatype>,
    map: Vec<(&'static Basic, isize)>,
}

fn basic(name: &str) -> Model {
    let index = BASICS.iter().position(|basic| basic.name == name).unwrap();
    let datatype = Datatype::basic_at(index);
    Model {
        map: vec![(datatype.basic().unwrap(), 0)],
        datatype,
    }
}

fn made(datatype: crate::mpi::error::Result<Datatype>, map: Vec<(&'static Basic, isize)>) -> Model {
    Model {
        datatype: Rc::new(datatype.unwrap()),
        map,
    }
}

impl Model {
    fn rows(&self, rows: impl IntoIterator<Item = (i64, isize)>) -> Vec<(&'static Basic, isize)> {
        let extent = self.datatype.extent();
        let places = rows
            .into_iter()
            .flat_map(|(count, at)| (0..count as isize).map(move |i| at + i * extent));
        places
            .flat_map(|place| self.map.iter().map(move |&(basic, at)| (basic, place + at)))
            .collect()
    }

    /// Displacements of the bytes of `count` elements in packing order.
    fn bytes(&self, count: usize) -> Vec<isize> {
        let extent = self.datatype.extent();
        let elements =
            (0..count as isize).flat_map(|i| self.map.iter().map(move |&(basic, at)| (basic, at + i * extent)));
        elements
            .flat_map(|(basic, at)| {
                let parts = basic.parts();
                let (first, offset) = parts.map_or((basic.size, 0), |parts| (parts.first, parts.offset));
                let own = move |i: usize| if i < first { i } else { offset + i - first };
                (0..basic.size).map(move |i| at + own(i) as isize)
            })
            .collect()
    }
}

fn leaf() -> impl Strategy<Value = Model> {
    let names = [
        "MPI_CHAR",
        "MPI_SHORT",
        "MPI_INT",
        "MPI_DOUBLE",
        "MPI_LONG_DOUBLE",
        "MPI_DOUBLE_INT",
        "MPI_SHORT_INT",
        "MPI_2INT",
        "MPI_C_LONG_DOUBLE_COMPLEX",
    ];
    proptest::sample::select(names.to_vec()).prop_map(basic)
}

fn model() -> impl Strategy<Value = Model> {
    leaf().prop_recursive(4, 40, 4, |inner| {
        let pairs = || proptest::collection::vec((0i64..4, -6i64..12), 0..5);
        prop_oneof![
            (inner.clone(), 0i64..5)
                .prop_map(|(of, count)| { made(Datatype::contiguous(count, &of.datatype), of.rows([(count, 0)])) }),
            (inner.clone(), 0i64..5, 0i64..4, -5i64..9).prop_map(|(of, count, length, stride)| {
                let step = stride as isize * of.datatype.extent();
                let rows = of.rows((0..count as isize).map(|i| (length, i * step)));
                made(Datatype::vector(count, length, stride, &of.datatype), rows)
            }),
            (inner.clone(), 0i64..70, 1i64..3, -40i128..90).prop_map(|(of, count, length, stride)| {
                let count = if of.map.len() > 40 { count % 4 } else { count };
                let rows = of.rows((0..count as isize).map(|i| (length, i * stride as isize)));
                made(Datatype::hvector(count, length, stride, &of.datatype), rows)
            }),
            (inner.clone(), pairs()).prop_map(|(of, blocks)| {
                let extent = of.datatype.extent();
                let rows = of.rows(blocks.iter().map(|&(length, at)| (length, at as isize * extent)));
                made(Datatype::indexed(blocks.iter().copied(), &of.datatype), rows)
            }),
            (inner.clone(), pairs()).prop_map(|(of, blocks)| {
                let rows = of.rows(blocks.iter().map(|&(length, at)| (length, 3 * at as isize)));
                let blocks = blocks.iter().map(|&(length, at)| (length, 3 * at as i128));
                made(Datatype::hindexed(blocks, &of.datatype), rows)
            }),
            proptest::collection::vec((inner.clone(), 0i64..3, -50isize..90), 0..4).prop_map(|members| {
                let map = members
                    .iter()
                    .flat_map(|(of, count, at)| of.rows([(*count, *at)]))
                    .collect();
                let members: Vec<_> = members
                    .iter()
                    .map(|(of, count, at)| Member {
                        count: *count,
                        at: *at as i128,
                        datatype: &of.datatype,
                    })
                    .collect();
                made(Datatype::structure(&members), map)
            }),
            (inner, -20i64..20, -30i64..90)
                .prop_map(|(of, lb, extent)| { made(Datatype::resized(&of.datatype, lb, extent), of.map) }),
        ]
    })
}

/// What a byte at displacement `at` holds at first.
fn filler(at: isize) -> u8 {
    (at.wrapping_mul(0x9e37_79b1) >> 11) as u8 | 1
}

/// Memory around the bytes at `places`, and the index of displacement 0 in it.
fn memory(places: &[isize]) -> (Vec<u8>, isize) {
    let low = places.iter().copied().min().unwrap_or(0).min(0);
    let high = places.iter().copied().max().unwrap_or(0).max(0);
    ((low..=high).map(filler).collect(), -low)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sizes_and_bounds_are_the_typemaps(model in model()) {
        let (datatype, bytes) = (&model.datatype, model.bytes(1));
        prop_assert_eq!(datatype.size(), bytes.len());
        if let (Some(low), Some(high)) = (bytes.iter().min(), bytes.iter().max()) {
            prop_assert_eq!(datatype.true_lb(), *low);
            prop_assert_eq!(datatype.true_extent(), high - low + 1);
        }
        let mut values = Vec::new();
        datatype.values(&mut |basic, count| values.extend(std::iter::repeat_n(basic.name, count)));
        prop_assert_eq!(values, model.map.iter().map(|(basic, _)| basic.name).collect::<Vec<_>>());
        if datatype.is_contiguous() {
            let row = |count: usize| (0..count * bytes.len()).map(|i| datatype.true_lb() + i as isize);
            prop_assert!(model.bytes(3).into_iter().eq(row(3)));
        }
    }

    #[test]
    fn any_stretch_packs_and_unpacks(model in model(), count in 0usize..90, cut in any::<(prop::sample::Index, prop::sample::Index)>()) {
        let count = count.min(20_000 / (model.map.len() + 1));
        let places = model.bytes(count);
        let (from, to) = (cut.0.index(places.len() + 1), cut.1.index(places.len() + 1));
        for (from, to) in [(0, places.len()), (from.min(to), from.max(to))] {
            let (mut memory, zero) = memory(&places);
            let mut out = vec![0u8; to - from];
            // SAFETY: the memory spans all bytes of the elements, `out` those asked for.
            unsafe { model.datatype.pack(memory.as_ptr().offset(zero), count, from, out.as_mut_ptr(), to - from) };
            let expected: Vec<u8> = places[from..to].iter().map(|&at| filler(at)).collect();
            prop_assert_eq!(&out, &expected);

            let fresh: Vec<u8> = (0..to - from).map(|i| ((i * 7) >> 2) as u8 & 0xfe).collect();
            let mut expected = memory.clone();
            for (byte, at) in fresh.iter().zip(&places[from..to]) {
                expected[(zero + at) as usize] = *byte;
            }
            // SAFETY: as above.
            unsafe { model.datatype.unpack(memory.as_mut_ptr().offset(zero), count, from, fresh.as_ptr(), to - from) };
            prop_assert_eq!(&memory, &expected);

            let mut seen = Vec::new();
            model.datatype.segments(count, from, to - from, &mut |offset, len| {
                seen.extend((0..len).map(|i| offset + i as isize));
            });
            prop_assert_eq!(&seen[..], &places[from..to]);
        }
    }

    #[test]
    fn elements_are_counted_value_by_value(model in model(), count in 0usize..4) {
        let sizes: Vec<usize> = model.map.iter().flat_map(|(basic, _)| match basic.parts() {
            Some(parts) => vec![parts.first, parts.second],
            None => vec![basic.size],
        }).collect();
        let all: Vec<usize> = sizes.iter().copied().cycle().take(sizes.len() * count).collect();
        let (mut bytes, mut ends) = (0, std::collections::HashMap::from([(0, 0)]));
        for (n, size) in all.iter().enumerate() {
            bytes += size;
            ends.insert(bytes, n as u64 + 1);
        }
        for position in 0..=bytes {
            prop_assert_eq!(model.datatype.elements_in(position as u64), ends.get(&position).copied());
        }
        for (&position, &leaves) in &ends {
            prop_assert_eq!(model.datatype.bytes_of(leaves), Some(position as u64));
        }
    }

    #[test]
    fn external_packing_returns_what_went_in(model in model(), count in 0usize..4) {
        let datatype = &model.datatype;
        let packed: Vec<u8> = (0..datatype.size() * count).map(|i| i as u8).collect();
        let external = datatype.to_external(&packed);
        prop_assert_eq!(external.len(), datatype.external_size() * count);
        // Any bytes are a value, but for long double.
        if model.map.iter().all(|(basic, _)| basic.align < 16) {
            prop_assert_eq!(datatype.from_external(&external), packed);
        }
    }
}

#[test]
fn what_lies_in_a_row_is_one_stretch_however_many_elements_it_has() {
    const MANY: usize = 1 << 40; // too many to be looked at one by one
    let byte = basic("MPI_BYTE").datatype;
    let rows = Rc::new(Datatype::contiguous(3, &Rc::new(Datatype::vector(2, 5, 5, &byte).unwrap())).unwrap());
    for (datatype, size) in [(byte, 1), (rows, 30)] {
        let mut seen = Vec::new();
        datatype.segments(MANY, 7, size * MANY - 8, &mut |offset, len| seen.push((offset, len)));
        assert_eq!(seen, [(7, size * MANY - 8)]);
    }
}
