//! The checked arguments of collective operations.

use super::machine::Element;
use super::signature::{Call, Signature};
use crate::mpi::buffer::Buffer;
use crate::mpi::datatype::basic::OpClass;
use crate::mpi::error::{Class, Error, Result};
use crate::mpi::op::Op;
use std::rc::Rc;

/// The root of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// This rank: of the group, or of the remote group of an intercommunicator.
    Rank(u32),
    /// I am the root, for the remote group (`MPI_ROOT`).
    Here,
    /// The root is another rank of my group (`MPI_PROC_NULL` in an intercommunicator).
    Beside,
}

/// A buffer argument.
#[derive(Clone, Debug)]
pub struct Data {
    /// Address.
    pub address: *mut u8,
    /// Number of elements.
    pub count: usize,
    /// Their type.
    pub element: Element,
}

/// A buffer argument with a block for each rank.
#[derive(Clone, Debug)]
pub struct Blocks {
    /// Address.
    pub address: *mut u8,
    /// Where the blocks lie.
    pub places: Places,
}

/// The block of each rank.
pub type BlockOf<'a> = &'a dyn Fn(u32) -> Buffer;

/// The blocks that a function finds, if there are some.
pub fn blocks_of<F: Fn(u32) -> Buffer>(block: &Option<F>) -> Option<BlockOf<'_>> {
    block.as_ref().map(|block| block as BlockOf)
}

/// Where the blocks of a buffer lie.
#[derive(Clone, Debug)]
pub enum Places {
    /// One after the other, of the same size.
    Regular {
        /// Elements of one block.
        count: usize,
        /// Their type.
        element: Element,
    },
    /// At displacements in elements.
    Varying {
        /// Elements of each block.
        counts: Vec<usize>,
        /// Where each starts.
        displs: Vec<isize>,
        /// The type of all.
        element: Element,
    },
    /// At displacements in bytes, of different types.
    Each {
        /// Elements of each block.
        counts: Vec<usize>,
        /// Where each starts.
        displs: Vec<isize>,
        /// The type of each.
        elements: Vec<Element>,
    },
}

/// The arguments that all reductions have. `send` is `None` in place.
pub struct Reduction {
    /// This rank's operand.
    pub send: Option<*mut u8>,
    /// Where the result goes (and where the operand is, in place).
    pub recv: *mut u8,
    /// Number of elements.
    pub count: usize,
    /// Their type.
    pub element: Element,
    /// What is computed.
    pub op: Rc<Op>,
}

/// What all members shall say of a reduction: as many elements of the same kind by the same operation;
/// integers are one kind.
#[inline]
pub fn reduction_signature(call: Call, reduction: &Reduction) -> Signature {
    let datatype = &reduction.element.datatype;
    let kind = match datatype.basic() {
        Some(basic) => match basic.class {
            OpClass::CInteger | OpClass::FInteger | OpClass::MultiLanguage | OpClass::Byte | OpClass::Logical => 0,
            class => class as u64,
        },
        None => u64::MAX,
    };
    let bytes = reduction.count * datatype.size();
    Signature::of(call).with(kind).with_op(&reduction.op).with(bytes as u64)
}

/// Checks that the block which a rank has for itself, of `sent` bytes, is as long as its room for it.
///
/// # Errors
/// `Truncate`: it is longer; `Other`: it is shorter.
#[inline]
pub fn check_own(sent: usize, room: usize) -> Result<()> {
    #[cold]
    fn differs(sent: usize, room: usize) -> Error {
        let class = if sent > room { Class::Truncate } else { Class::Other };
        let text = format!(
            "this rank's block for itself has {sent} bytes, but the room for it {room}: counts are those of one rank's block"
        );
        Error::new(class, text)
    }
    if sent == room { Ok(()) } else { Err(differs(sent, room)) }
}

impl Data {
    /// The data as a message.
    #[inline]
    pub fn buffer(&self) -> Buffer {
        Buffer::typed(self.address, self.count, &self.element.datatype)
    }

    /// Bytes of data.
    pub fn len(&self) -> usize {
        self.count * self.element.datatype.size()
    }

    /// Whether there is no data.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Blocks {
    /// The block of `rank`: bytes from the address to its first element; how many elements it has, and their type.
    #[inline]
    pub fn block_of(&self, rank: u32) -> (isize, (usize, &Element)) {
        let rank = rank as usize;
        match &self.places {
            Places::Regular { count, element } => {
                ((rank * count) as isize * element.datatype.extent(), (*count, element))
            }
            Places::Varying {
                counts,
                displs,
                element,
            } => (displs[rank] * element.datatype.extent(), (counts[rank], element)),
            Places::Each {
                counts,
                displs,
                elements,
            } => (displs[rank], (counts[rank], &elements[rank])),
        }
    }

    /// The block of `rank` as a message.
    #[inline]
    pub fn buffer(&self, rank: u32) -> Buffer {
        let (shift, (count, element)) = self.block_of(rank);
        Buffer::typed(self.address.wrapping_offset(shift), count, &element.datatype)
    }

    /// Bytes of data in the block of `rank`.
    pub fn len(&self, rank: u32) -> usize {
        let (_, (count, element)) = self.block_of(rank);
        count * element.datatype.size()
    }

    /// Bytes of data in the largest block.
    pub fn largest(&self) -> usize {
        match &self.places {
            Places::Regular { count, element } => count * element.datatype.size(),
            Places::Varying { counts, element, .. } => {
                counts.iter().max().map_or(0, |&count| count * element.datatype.size())
            }
            Places::Each { counts, elements, .. } => {
                let blocks = counts.iter().zip(elements);
                blocks
                    .map(|(count, element)| count * element.datatype.size())
                    .max()
                    .unwrap_or(0)
            }
        }
    }

    /// Bytes of data in a block, when all have the same size.
    pub fn block(&self) -> Option<usize> {
        match &self.places {
            Places::Regular { count, element } => Some(count * element.datatype.size()),
            _ => None,
        }
    }
}
