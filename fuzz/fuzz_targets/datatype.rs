//! Trees of datatypes against their typemaps (MPI-4.1 §5.1): the displacements of all bytes in order. The
//! input is read as numbers from its front; a tree that would grow too large ends.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpi::mpi::datatype::Datatype;
use mpi::mpi::datatype::construct::Member;
use std::rc::Rc;

/// Most bytes of an element.
const LARGEST: usize = 4000;

/// A datatype and the displacements of its bytes in packing order.
struct Model {
    datatype: Rc<Datatype>,
    bytes: Vec<isize>,
}

/// The input.
struct Numbers<'a>(std::slice::Iter<'a, u8>);

impl Numbers<'_> {
    fn below(&mut self, end: u8) -> i64 {
        i64::from(self.0.next().copied().unwrap_or(0) % end)
    }

    fn around(&mut self, most: i8) -> i64 {
        i64::from(self.0.next().copied().unwrap_or(0) as i8 % (most + 1))
    }
}

/// The bytes of blocks of `of`, each a count and a displacement in bytes.
fn blocks(of: &Model, blocks: impl IntoIterator<Item = (i64, isize)>) -> Vec<isize> {
    let extent = of.datatype.extent();
    let places = blocks
        .into_iter()
        .flat_map(|(count, at)| (0..count as isize).map(move |i| at + i * extent));
    places
        .flat_map(|place| of.bytes.iter().map(move |byte| place + byte))
        .collect()
}

fn tree(input: &mut Numbers, depth: u32) -> Model {
    let what = if depth == 0 { 0 } else { input.below(8) };
    if what == 0 {
        // Thirteen of C's types, without gaps: the table begins with two markers of bounds.
        let datatype = Datatype::basic_at(2 + input.below(13) as usize);
        let bytes = (0..datatype.size() as isize).collect();
        return Model { datatype, bytes };
    }
    let of = tree(input, depth - 1);
    let extent = of.datatype.extent();
    let pairs = |input: &mut Numbers| -> Vec<(i64, i64)> {
        let count = input.below(5);
        (0..count).map(|_| (input.below(4), input.around(12))).collect()
    };
    let (made, bytes) = match what {
        1 => {
            let count = input.below(6);
            (Datatype::contiguous(count, &of.datatype), blocks(&of, [(count, 0)]))
        }
        2 => {
            let (count, length, stride) = (input.below(5), input.below(4), input.around(9));
            let rows = (0..count as isize).map(|i| (length, i * stride as isize * extent));
            (Datatype::vector(count, length, stride, &of.datatype), blocks(&of, rows))
        }
        3 => {
            let (count, length, stride) = (input.below(20), input.below(3), input.around(90));
            let rows = (0..count as isize).map(|i| (length, i * stride as isize));
            (
                Datatype::hvector(count, length, i128::from(stride), &of.datatype),
                blocks(&of, rows),
            )
        }
        4 => {
            let pairs = pairs(input);
            let rows = pairs.iter().map(|&(length, at)| (length, at as isize * extent));
            (
                Datatype::indexed(pairs.iter().copied(), &of.datatype),
                blocks(&of, rows),
            )
        }
        5 => {
            let pairs = pairs(input);
            let rows = pairs.iter().map(|&(length, at)| (length, 3 * at as isize));
            let wide = pairs.iter().map(|&(length, at)| (length, 3 * i128::from(at)));
            (Datatype::hindexed(wide, &of.datatype), blocks(&of, rows))
        }
        6 => {
            let other = tree(input, depth - 1);
            let members = [
                (&of, input.below(3), input.around(60)),
                (&other, input.below(3), input.around(60)),
            ];
            let bytes = members
                .iter()
                .flat_map(|(of, count, at)| blocks(of, [(*count, *at as isize)]))
                .collect();
            let members = members.map(|(of, count, at)| Member {
                count,
                at: i128::from(at),
                datatype: &of.datatype,
            });
            (Datatype::structure(&members), bytes)
        }
        _ => {
            let (lb, extent) = (input.around(20), input.around(90));
            (Datatype::resized(&of.datatype, lb, extent), of.bytes.clone())
        }
    };
    match made {
        Ok(datatype) if bytes.len() <= LARGEST => Model {
            datatype: Rc::new(datatype),
            bytes,
        },
        _ => of,
    }
}

fuzz_target!(|input: &[u8]| {
    let mut input = Numbers(input.iter());
    let count = input.below(4) as usize;
    let (from, to) = (input.below(255) as usize, input.below(255) as usize);
    let Model { datatype, bytes } = tree(&mut input, 4);
    datatype.commit();
    assert_eq!(datatype.size(), bytes.len());
    if let (Some(&low), Some(&high)) = (bytes.iter().min(), bytes.iter().max()) {
        assert_eq!((datatype.true_lb(), datatype.true_extent()), (low, high - low + 1));
    }
    let places: Vec<isize> = (0..count as isize)
        .flat_map(|i| bytes.iter().map(move |byte| (byte, i)))
        .map(|(byte, i)| byte + i * datatype.extent())
        .collect();
    let (from, to) = (from * places.len() / 254, to * places.len() / 254);
    let (from, to) = (from.min(to), from.max(to));
    let (low, high) = places
        .iter()
        .fold((0, 0), |(low, high), &at| (at.min(low), at.max(high)));
    let filler = |at: isize| (at.wrapping_mul(0x9e37_79b1) >> 11) as u8;
    let mut memory: Vec<u8> = (low..=high).map(filler).collect();
    let mut packed = vec![0u8; to - from];
    // SAFETY: the memory spans all bytes of the elements, `packed` those asked for.
    unsafe {
        datatype.pack(
            memory.as_ptr().offset(-low),
            count,
            from,
            packed.as_mut_ptr(),
            to - from,
        )
    };
    assert!(
        packed
            .iter()
            .zip(&places[from..to])
            .all(|(&byte, &at)| byte == filler(at))
    );

    let fresh: Vec<u8> = (0..to - from).map(|i| i as u8 ^ 0x5a).collect();
    let mut expected = memory.clone();
    for (byte, at) in fresh.iter().zip(&places[from..to]) {
        expected[(at - low) as usize] = *byte;
    }
    // SAFETY: as above.
    unsafe { datatype.unpack(memory.as_mut_ptr().offset(-low), count, from, fresh.as_ptr(), to - from) };
    assert!(memory == expected);

    let mut seen = Vec::new();
    datatype.segments(count, from, to - from, &mut |offset, len| {
        seen.extend((0..len).map(|i| offset + i as isize))
    });
    assert_eq!(seen, places[from..to]);
});
