//! Views: which bytes of a file a process sees, and in which order (MPI-4.1 §14.3).
//!
//! The data of a view are a row of bytes, without gaps and without end: the file is tiled with the filetype from the
//! displacement on. A *position* counts bytes of that row, an *offset* bytes of the file.

use crate::fail;
use crate::mpi::datatype::Datatype;
use crate::mpi::error::Result;
use std::ops::Range;
use std::rc::Rc;

/// How values lie in the file (MPI-4.1 §14.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    /// As in memory.
    Native,
    /// As in memory: there is one kind of machine.
    Internal,
    /// Big-endian, of fixed sizes.
    External32,
}

impl Representation {
    /// Its name, as the program knows it.
    pub fn name(self) -> &'static str {
        match self {
            Representation::Native => "native",
            Representation::Internal => "internal",
            Representation::External32 => "external32",
        }
    }

    /// The one of that name, in small letters (MPI-4.1 §14.5) or, as MPICH takes it too, in capitals.
    pub fn of(name: &str) -> Option<Representation> {
        let all = [
            Representation::Native,
            Representation::Internal,
            Representation::External32,
        ];
        all.into_iter()
            .find(|representation| [representation.name(), &representation.name().to_uppercase()].contains(&name))
    }
}

/// A view.
#[derive(Debug)]
pub struct View {
    /// Offset at which the first tile begins.
    pub displacement: u64,
    /// In its size file pointers and offsets of the program count.
    pub etype: Rc<Datatype>,
    /// With it the file is tiled.
    pub filetype: Rc<Datatype>,
    /// How values lie in the file.
    pub representation: Representation,
}

impl View {
    /// A view of a file that may be `written`.
    ///
    /// # Errors
    /// `Type`: the etype has no data; `Arg`: the filetype is not made of whole etypes; `Io`: values lie at negative displacements,
    /// before earlier ones, or, in a file that may be written, on others; `UnsupportedDatarep`: they have another size in the file.
    pub fn new(
        displacement: u64,
        etype: Rc<Datatype>,
        filetype: Rc<Datatype>,
        representation: Representation,
        written: bool,
    ) -> Result<View> {
        let (size, unit) = (filetype.size(), etype.size());
        if unit == 0 {
            fail!(Type, "the etype has no data");
        }
        if !size.is_multiple_of(unit) {
            fail!(
                Arg,
                "the filetype has {size} bytes, which are not whole etypes of {unit} bytes"
            );
        }
        if filetype.extent() < 0 {
            fail!(Io, "the filetype has the negative extent {}", filetype.extent());
        }
        for (name, datatype) in [("etype", &etype), ("filetype", &filetype)] {
            check_order(name, datatype, written)?;
        }
        if representation == Representation::External32 {
            for datatype in [&etype, &filetype] {
                datatype.check_external()?;
            }
        }
        Ok(View {
            displacement,
            etype,
            filetype,
            representation,
        })
    }

    /// Where the row of data begins in the file, if it has no gaps there.
    pub fn plain(&self) -> Option<u64> {
        let filetype = &self.filetype;
        let dense = filetype.is_contiguous() && filetype.size() as isize == filetype.extent();
        dense.then(|| self.displacement + filetype.true_lb() as u64)
    }

    /// The tiles that `len` bytes from `position` on lie in: the offset of the first one, the position in it, how many they are.
    pub(super) fn tiles(&self, position: u64, len: usize) -> (u64, usize, usize) {
        let size = self.filetype.size() as u64;
        let begin = (position / size).saturating_mul(self.filetype.extent() as u64);
        let inner = (position % size) as usize;
        let count = (inner + len).div_ceil(size as usize);
        (self.displacement.saturating_add(begin), inner, count)
    }

    /// Calls `visit(offset, len)` for the stretches of the file that hold `len` bytes from `position` on, in order.
    pub fn stretches(&self, position: u64, len: usize, visit: &mut dyn FnMut(u64, usize)) {
        if len == 0 {
            return;
        }
        let (begin, inner, count) = self.tiles(position, len);
        self.filetype.segments(count, inner, len, &mut |at, len| {
            visit(begin.saturating_add_signed(at as i64), len);
        });
    }

    /// The offset of the byte at `position`; where the tiles begin if there are no data.
    pub fn offset(&self, position: u64) -> u64 {
        let mut found = self.displacement;
        if self.filetype.size() > 0 {
            self.stretches(position, 1, &mut |offset, _| found = offset);
        }
        found
    }

    /// From the first to behind the last of `len` bytes from `position` on.
    pub fn span(&self, position: u64, len: usize) -> Range<u64> {
        let (mut start, mut end) = (u64::MAX, 0);
        self.stretches(position, len, &mut |offset, len| {
            start = start.min(offset);
            end = end.max(offset.saturating_add(len as u64));
        });
        start..end
    }

    /// How many bytes of data lie before the offset `end`.
    pub fn data_before(&self, end: u64) -> u64 {
        let filetype = &self.filetype;
        let first = self.displacement.wrapping_add_signed(filetype.true_lb() as i64);
        let end = end.saturating_sub(first);
        if self.plain().is_some() {
            return end;
        }
        let (tiles, rest) = match filetype.extent() as u64 {
            0 => (0, end),
            extent => (end / extent, end % extent),
        };
        let mut data = tiles * filetype.size() as u64;
        filetype.segments(1, 0, filetype.size(), &mut |at, len| {
            let at = (at - filetype.true_lb()) as u64;
            data += rest.saturating_sub(at).min(len as u64);
        });
        data
    }
}

/// Makes sure that a datatype's values lie as they must in a file (MPI-4.1 §14.1.1).
fn check_order(name: &str, datatype: &Datatype, written: bool) -> Result<()> {
    let (mut first, mut end, mut wrong) = (0, 0, None);
    datatype.segments(1, 0, datatype.size(), &mut |at, len| {
        if at < first || written && at < end {
            wrong.get_or_insert(at);
        }
        (first, end) = (at, at + len as isize);
    });
    match wrong {
        None => Ok(()),
        Some(at) => fail!(
            Io,
            "the {name} has a value at displacement {at}: displacements must not be negative, nor lower than those before, nor \
             may values overlap in a file that is written"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::datatype::basic::BASICS;
    use crate::mpi::error::Class;
    use proptest::prelude::*;

    fn byte() -> Rc<Datatype> {
        let index = BASICS.iter().position(|basic| basic.name == "MPI_BYTE").unwrap();
        Datatype::basic_at(index)
    }

    fn indexed(blocks: &[(usize, isize)], extent: isize) -> Rc<Datatype> {
        let blocks = blocks.iter().map(|&(len, at)| (len as i64, at as i128));
        let list = Datatype::hindexed(blocks, &byte()).unwrap();
        Rc::new(Datatype::resized(&Rc::new(list), 0, extent as i64).unwrap())
    }

    proptest! {
        /// The offset of each byte of data is what tiling by hand gives, by each of the functions that know it.
        #[test]
        fn tiles_lie_one_behind_the_other(
            blocks in prop::collection::vec((0usize..20, 1usize..9), 1..6),
            tail in 0usize..9,
            displacement in 0u64..50,
            position in 0u64..200,
            len in 1usize..300,
        ) {
            let (mut at, mut list, mut offsets) = (0, Vec::new(), Vec::new());
            for (gap, len) in blocks {
                at += gap;
                list.push((len, at as isize));
                offsets.extend(at..at + len);
                at += len;
            }
            let extent = at + tail;
            let view = View::new(displacement, byte(), indexed(&list, extent as isize), Representation::Native, true).unwrap();
            let of = |position: u64| {
                let (tile, inner) = (position as usize / offsets.len(), position as usize % offsets.len());
                displacement + (tile * extent + offsets[inner]) as u64
            };
            let expected: Vec<u64> = (position..position + len as u64).map(of).collect();
            let mut found = Vec::new();
            view.stretches(position, len, &mut |at, len| found.extend(at..at + len as u64));
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(view.offset(position), expected[0]);
            prop_assert_eq!(view.span(position, len), expected[0]..expected[len - 1] + 1);
            let before = (0..).take_while(|&position| of(position) < expected[0]).count();
            prop_assert_eq!(view.data_before(expected[0]), before as u64);
            prop_assert_eq!(view.data_before(expected[0] + 1), before as u64 + 1);
        }
    }

    #[test]
    fn what_tiles_no_file_is_refused() {
        let view = |etype: Rc<Datatype>, filetype, written| {
            let made = View::new(0, etype, filetype, Representation::Native, written);
            made.map(|_| ()).map_err(|error| error.class())
        };
        let class = |etype, filetype| view(etype, filetype, true).unwrap_err();
        let pair = Rc::new(Datatype::contiguous(2, &byte()).unwrap());
        assert_eq!(class(pair, indexed(&[(3, 0)], 3)), Class::Arg);
        assert_eq!(class(byte(), indexed(&[(1, -1)], 8)), Class::Io);
        assert_eq!(class(byte(), indexed(&[(2, 4), (2, 0)], 8)), Class::Io);
        let twice = || indexed(&[(3, 0), (2, 1)], 8);
        assert_eq!(class(byte(), twice()), Class::Io);
        assert_eq!(view(byte(), twice(), false), Ok(()));
        assert_eq!(class(indexed(&[], 8), byte()), Class::Type);
    }
}
