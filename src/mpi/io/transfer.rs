//! # Safety
//! Reads and writes the application's buffers: relies on the caller of MPI to own `count` elements of `datatype` at the
//! address it passed.
//!
//! Moving data between memory and a view of a file (MPI-4.1 §14.4).
//!
//! Where a view has gaps, its stretches of the file are taken together in *windows*. A window is read with one call, gaps
//! and all, and picked apart in memory (data sieving: Thakur, Gropp, Lusk 1999). It is written by way of a mapping of the file,
//! so that the gaps stay what others make of them meanwhile and nobody has to wait; that is why a collective write needs no
//! exchange of data first. What the kernel does not map is written stretch by stretch.
#![allow(unsafe_code)]

use super::view::{Representation, View};
use crate::fail;
use crate::mpi::buffer::{Buffer, Layout};
use crate::mpi::datatype::Datatype;
use crate::mpi::error::Result;
use crate::sys::file::File;
use std::io;
use std::rc::Rc;

/// Longest window, in bytes of the file.
const WINDOW: u64 = 4 << 20;
/// Bytes of data that are packed or unpacked at a time where memory has gaps.
const ROW: usize = 1 << 20;
/// Up to so many stretches are written by a call each: mapping the file and making a page of it takes as long.
const CALLS: u64 = 4;

/// How gaps are dealt with.
#[derive(Clone, Copy, Debug)]
pub struct Gaps {
    /// Stretches share a window if they have at most so many bytes, each with the gap before it (`NEARMPI_FILE_TOGETHER`): a
    /// call takes about as long as reading them and picking them apart, and half as long as making a page of a mapping.
    pub together: u64,
    /// Whether a window is written by way of a mapping (`NEARMPI_FILE_MAP`).
    pub mapped: bool,
}

/// Where a view's data are read from and written to.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The file.
    pub file: &'a File,
    /// The view.
    pub view: &'a View,
    /// How its gaps are dealt with.
    pub gaps: Gaps,
}

/// What the program reads or writes.
#[derive(Clone, Debug)]
pub struct Data {
    buffer: Buffer,
    datatype: Rc<Datatype>,
}

impl Data {
    /// `count` elements of `datatype` at `address`.
    pub fn new(address: *mut u8, count: usize, datatype: &Rc<Datatype>) -> Data {
        Data {
            buffer: Buffer::typed(address, count, datatype),
            datatype: datatype.clone(),
        }
    }

    /// Bytes of data.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Stretches of a view that are read or written together.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Position of the first byte in the view.
    position: u64,
    /// Bytes of data.
    len: usize,
    /// Offsets of the first byte and of what is behind the last.
    start: u64,
    end: u64,
    stretches: u64,
}

impl Seen<'_> {
    /// Calls `each` for the windows of `len` bytes from `position` on, in order, until it says that nothing is left to do.
    fn windows(&self, position: u64, len: usize, mut each: impl FnMut(Window) -> io::Result<bool>) -> io::Result<()> {
        let mut window = Window {
            position,
            len: 0,
            start: 0,
            end: 0,
            stretches: 0,
        };
        let mut outcome = Ok(true);
        self.view.stretches(position, len, &mut |offset, len| {
            if !matches!(outcome, Ok(true)) {
                return;
            }
            let end = offset + len as u64;
            let most = self.gaps.together;
            let joins = (window.stretches > 1 || window.stretches == 1 && window.len as u64 <= most)
                && offset >= window.end
                && end - window.end <= most
                && end - window.start <= WINDOW;
            if !joins {
                if window.stretches > 0 {
                    outcome = each(window);
                }
                window = Window {
                    position: window.position + window.len as u64,
                    len: 0,
                    start: offset,
                    end,
                    stretches: 0,
                };
            }
            window.len += len;
            window.end = end;
            window.stretches += 1;
        });
        match outcome? && window.stretches > 0 {
            true => each(window).map(drop),
            false => Ok(()),
        }
    }

    /// Writes `len` bytes of a row to `position` and what follows.
    ///
    /// # Safety
    /// They can be read at `row`.
    unsafe fn write_row(&self, position: u64, row: *const u8, len: usize) -> io::Result<()> {
        if let Some(first) = self.view.plain() {
            // SAFETY: the caller's promise.
            return unsafe { self.file.write_at(row, len, first + position) };
        }
        self.windows(position, len, |window| {
            let from = row.wrapping_add((window.position - position) as usize);
            // SAFETY: the caller's promise; the window is part of the row.
            unsafe { self.write_window(window, from) }?;
            Ok(true)
        })
    }

    /// Writes one window; its data lie at `row`.
    ///
    /// # Safety
    /// They can be read there.
    unsafe fn write_window(&self, window: Window, row: *const u8) -> io::Result<()> {
        // SAFETY: the caller's promise, of each part of the row.
        let put = |done: usize, len, offset| unsafe { self.file.write_at(row.add(done), len, offset) };
        if window.stretches == 1 {
            return put(0, window.len, window.start);
        }
        if self.gaps.mapped && window.stretches > CALLS {
            // Its last byte goes ahead, so that the file is as long as the window.
            put(window.len - 1, 1, window.end - 1)?;
            if let Some(mapped) = self.file.window(window.start..window.end) {
                let (begin, inner, count) = self.view.tiles(window.position, window.len);
                let base = mapped.origin().wrapping_add(begin as usize);
                // SAFETY: the mapping has all bytes of the window; the caller's promise.
                unsafe { self.view.filetype.unpack(base, count, inner, row, window.len) };
                return Ok(());
            }
        }
        let (mut done, mut outcome) = (0, Ok(()));
        self.view.stretches(window.position, window.len, &mut |offset, len| {
            if outcome.is_ok() {
                outcome = put(done, len, offset);
                done += len;
            }
        });
        outcome
    }

    /// Reads up to `len` bytes from `position` on into a row; how many there are before the end of the file. `scratch` is memory
    /// that is used for it.
    ///
    /// # Safety
    /// There is room for them at `row`.
    unsafe fn read_row(&self, position: u64, row: *mut u8, len: usize, scratch: &mut Vec<u8>) -> io::Result<usize> {
        if let Some(first) = self.view.plain() {
            // SAFETY: the caller's promise.
            return unsafe { self.file.read_at(row, len, first + position) };
        }
        let mut done = 0;
        self.windows(position, len, |window| {
            let to = row.wrapping_add((window.position - position) as usize);
            // SAFETY: the caller's promise; the window is part of the row.
            let got = unsafe { self.read_window(window, to, scratch) }?;
            done += got;
            Ok(got == window.len)
        })?;
        Ok(done)
    }

    /// Reads one window to `row`; how many of its data there are.
    ///
    /// # Safety
    /// There is room for them.
    unsafe fn read_window(&self, window: Window, row: *mut u8, scratch: &mut Vec<u8>) -> io::Result<usize> {
        if window.stretches == 1 {
            // SAFETY: the caller's promise.
            return unsafe { self.file.read_at(row, window.len, window.start) };
        }
        let span = (window.end - window.start) as usize;
        scratch.clear();
        scratch.reserve(span);
        // SAFETY: so much room was just made.
        let got = unsafe { self.file.read_at(scratch.as_mut_ptr(), span, window.start) }?;
        let mut there = window.len;
        if got < span {
            let end = window.start + got as u64;
            there = 0;
            self.view.stretches(window.position, window.len, &mut |offset, len| {
                there += end.saturating_sub(offset).min(len as u64) as usize;
            });
        }
        if there > 0 {
            let (begin, inner, count) = self.view.tiles(window.position, there);
            let origin = scratch.as_ptr().wrapping_sub(window.start as usize);
            // SAFETY: the data counted have been read; the caller's promise.
            unsafe {
                self.view
                    .filetype
                    .pack(origin.wrapping_add(begin as usize), count, inner, row, there)
            };
        }
        Ok(there)
    }

    /// Writes `data` to `position` of the view and what follows.
    pub fn write(&self, position: u64, data: &Data) -> io::Result<()> {
        let (buffer, len) = (&data.buffer, data.len());
        if self.view.representation == Representation::External32 {
            let mut packed = vec![0; len];
            // SAFETY: the application's buffer, as long as `packed`.
            unsafe { buffer.pack(0, packed.as_mut_ptr(), len) };
            let external = data.datatype.to_external(&packed);
            // SAFETY: values have the same size outside (`View::new`, `check`).
            return unsafe { self.write_row(position, external.as_ptr(), len) };
        }
        if let Layout::Bytes(_) = buffer.layout {
            // SAFETY: the application's buffer.
            return unsafe { self.write_row(position, buffer.address, len) };
        }
        let mut row = vec![0; len.min(ROW)];
        for done in (0..len).step_by(ROW) {
            let part = ROW.min(len - done);
            // SAFETY: the application's buffer; the row has room for a part.
            unsafe {
                buffer.pack(done, row.as_mut_ptr(), part);
                self.write_row(position + done as u64, row.as_ptr(), part)?;
            }
        }
        Ok(())
    }

    /// Reads `data` from `position` of the view on; how many bytes there were before the end of the file.
    pub fn read(&self, position: u64, data: &Data) -> io::Result<usize> {
        let (buffer, len) = (&data.buffer, data.len());
        let mut scratch = Vec::new();
        if self.view.representation == Representation::External32 {
            let mut external = vec![0; len];
            // SAFETY: the row has that length; so have the values (`View::new`, `check`), and the application's buffer.
            unsafe {
                let got = self.read_row(position, external.as_mut_ptr(), len, &mut scratch)?;
                let packed = data.datatype.from_external(&external);
                buffer.unpack(0, packed.as_ptr(), got);
                return Ok(got);
            }
        }
        if let Layout::Bytes(_) = buffer.layout {
            // SAFETY: the application's buffer.
            return unsafe { self.read_row(position, buffer.address, len, &mut scratch) };
        }
        let mut row = vec![0; len.min(ROW)];
        let mut done = 0;
        while done < len {
            let part = ROW.min(len - done);
            // SAFETY: the row has room for a part; the application's buffer.
            let got = unsafe {
                let got = self.read_row(position + done as u64, row.as_mut_ptr(), part, &mut scratch)?;
                buffer.unpack(done, row.as_ptr(), got);
                got
            };
            done += got;
            if got < part {
                break;
            }
        }
        Ok(done)
    }
}

/// Makes sure that `data` can be read or written in the view.
///
/// # Errors
/// `Io`: they are not whole etypes, or there are data but no bytes in the view to hold them; `UnsupportedDatarep`: values have
/// another size in the file.
pub fn check(view: &View, data: &Data) -> Result<()> {
    let (len, unit) = (data.len(), view.etype.size());
    if !len.is_multiple_of(unit) {
        fail!(Io, "{len} bytes are not whole etypes of {unit} bytes");
    }
    if len > 0 && view.filetype.size() == 0 {
        fail!(Io, "the filetype of the view has no room for {len} bytes of data");
    }
    if view.representation == Representation::External32 {
        data.datatype.check_external()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::datatype::basic::BASICS;
    use crate::sys::file::How;

    fn basic(name: &str) -> Rc<Datatype> {
        Datatype::basic_at(BASICS.iter().position(|basic| basic.name == name).unwrap())
    }

    fn data(bytes: &mut [u8]) -> Data {
        Data::new(bytes.as_mut_ptr(), bytes.len(), &basic("MPI_BYTE"))
    }

    fn seen<'a>(file: &'a File, view: &'a View, together: u64) -> Seen<'a> {
        let mapped = true;
        let gaps = Gaps { together, mapped };
        Seen { file, view, gaps }
    }

    fn scratch(name: &str) -> (std::path::PathBuf, File) {
        let path = std::env::temp_dir().join(format!("nearmpi-io-{name}-{}", std::process::id()));
        let how = How {
            read: true,
            write: true,
            create: Some(0o600),
            exclusive: false,
        };
        (path.clone(), File::open(&path, how).unwrap())
    }

    /// Blocks of `len` bytes, `stride` bytes apart, in tiles of 1000: written through a view over a file of marks, then read
    /// through the same view and as a whole.
    fn round(len: usize, stride: usize, bytes: usize, together: u64) {
        let vector = Datatype::hvector(1000, len as i64, stride as i128, &basic("MPI_BYTE")).unwrap();
        let vector = Rc::new(Datatype::resized(&Rc::new(vector), 0, 1000 * stride as i64).unwrap());
        let view = View::new(7, basic("MPI_BYTE"), vector, Representation::Native, true).unwrap();
        let (path, file) = scratch(&format!("{len}-{stride}-{together}"));
        let end = view.offset(bytes as u64 - 1) as usize + 1;
        let mut model = vec![0xee; end];
        // The first half of the file is there, the rest is made by writing.
        // SAFETY: the vector's own bytes.
        unsafe { file.write_at(model.as_ptr(), end / 2, 0).unwrap() };
        model[end / 2..].fill(0);
        let mut sent: Vec<u8> = (0..bytes).map(|i| (i * 7 + i / 251) as u8).collect();
        for (i, &byte) in sent.iter().enumerate() {
            model[view.offset(i as u64) as usize] = byte;
        }
        // From the middle on first, so that positions within tiles come up.
        let (front, back) = sent.split_at_mut(bytes / 3);
        seen(&file, &view, together)
            .write(front.len() as u64, &data(back))
            .unwrap();
        seen(&file, &view, together).write(0, &data(front)).unwrap();
        let mut whole = vec![0; end + 9];
        // SAFETY: the vector's own bytes.
        assert_eq!(unsafe { file.read_at(whole.as_mut_ptr(), end + 9, 0).unwrap() }, end);
        assert!(whole[..end] == model, "{len} bytes each {stride}");
        let mut got = vec![0; bytes + 100];
        assert_eq!(seen(&file, &view, together).read(0, &data(&mut got)).unwrap(), bytes);
        assert!(got[..bytes] == sent, "{len} bytes each {stride}");
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn gaps_are_kept_however_short_blocks_and_gaps_are() {
        for (len, stride) in [
            (1, 2),
            (8, 24),
            (100, 4000),
            (3000, 3001),
            (10, 4200),
            (5000, 9000),
            (7, 7),
        ] {
            for together in [0, 2048] {
                round(len, stride, 40_000 / (stride / len).max(1) + 17, together);
            }
        }
        round(8, 16, 3 << 20, 2048);
    }

    #[test]
    fn memory_with_gaps_and_ends_of_files_are_respected() {
        let (path, file) = scratch("memory");
        let view = View::new(0, basic("MPI_BYTE"), basic("MPI_BYTE"), Representation::Native, true).unwrap();
        let every_other = Rc::new(Datatype::hvector(3 << 20, 1, 2, &basic("MPI_BYTE")).unwrap());
        let mut memory: Vec<u8> = (0..6usize << 20).map(|i| (i / 2 * 5) as u8).collect();
        let all = Data::new(memory.as_mut_ptr(), 1, &every_other);
        seen(&file, &view, 2048).write(10, &all).unwrap();
        file.set_size((2 << 20) + 10).unwrap();
        memory.fill(1);
        assert_eq!(seen(&file, &view, 2048).read(10, &all).unwrap(), 2 << 20);
        let right = |i: usize| match i {
            i if i % 2 == 1 || i / 2 >= 2 << 20 => 1,
            i => (i / 2 * 5) as u8,
        };
        assert!((0..memory.len()).all(|i| memory[i] == right(i)));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn few_stretches_are_not_worth_a_mapping() {
        let (path, file) = scratch("few");
        let is_mapped = || {
            let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
            maps.contains(path.to_str().unwrap())
        };
        let vector = Rc::new(Datatype::hvector(100, 8, 24, &basic("MPI_BYTE")).unwrap());
        let view = View::new(0, basic("MPI_BYTE"), vector, Representation::Native, true).unwrap();
        for (stretches, mapped) in [(CALLS, false), (CALLS + 1, true)] {
            let mut bytes = vec![stretches as u8; 8 * stretches as usize];
            seen(&file, &view, 2048).write(0, &data(&mut bytes)).unwrap();
            assert_eq!(is_mapped(), mapped);
            let mut got = vec![0; bytes.len()];
            assert_eq!(seen(&file, &view, 2048).read(0, &data(&mut got)).unwrap(), got.len());
            assert_eq!(got, bytes);
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn what_the_kernel_does_not_map_is_written_all_the_same() {
        // A device takes single writes and no mapping.
        let how = How {
            read: false,
            write: true,
            create: None,
            exclusive: false,
        };
        let null = File::open(std::path::Path::new("/dev/null"), how).unwrap();
        let vector = Rc::new(Datatype::hvector(10, 1, 3, &basic("MPI_BYTE")).unwrap());
        let view = View::new(0, basic("MPI_BYTE"), vector, Representation::Native, true).unwrap();
        seen(&null, &view, 2048).write(0, &data(&mut [1; 10])).unwrap();
    }
}
