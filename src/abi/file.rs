//! # Safety
//! Exports functions that reach the application's memory through the helpers of [`super::edge`] only.
//!
//! Files: opening, sizes, views and file pointers (MPI-4.1 §14.2, §14.3, §14.4.3, §14.5.3, §14.6).
#![allow(unsafe_code)]

use super::constants::*;
use super::edge::*;
use super::errhandler::{files, raise};
use super::group::{give_group, out};
use super::info::{give_info, hints};
use super::source::Source;
use super::types::*;
use crate::fail;
use crate::mpi::io::File;
use crate::mpi::io::open::{self, Mode, Request};
use crate::mpi::io::pointer::Whence;
use crate::mpi::io::view::{Representation, View};
use crate::mpi::world::State;
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

/// The number of a file's handle: the handle is that number in the form of a pointer.
pub fn number(file: MPI_File) -> Option<c_int> {
    u32::try_from(file as usize).ok().map(|bits| bits as c_int)
}

/// The handle of a number.
pub fn of_number(number: c_int) -> MPI_File {
    std::ptr::without_provenance_mut(number as u32 as usize)
}

/// The file `handle` names.
///
/// # Errors
/// [`Class::File`]: MPI_FILE_NULL, something else, or a file that was closed.
pub fn file(state: &State, handle: MPI_File) -> Result<&Rc<File>> {
    if handle.is_null() {
        fail!(File, "the file is MPI_FILE_NULL");
    }
    let Some(number) = number(handle) else {
        fail!(File, "{handle:p} is not the handle of a file");
    };
    let key = Object::File.key(number)?;
    Object::File.alive(number, state.files.get(key))
}

/// Runs `body` on the file `handle`; its error goes to the file's error handler, the handle's to that of MPI_FILE_NULL.
pub fn on_file(name: &'static str, handle: MPI_File, body: impl FnOnce(&mut Hold, &Rc<File>) -> Result<()>) -> c_int {
    let world = world(name);
    let _call = world.calling(name);
    let mut hold = world.hold();
    let (source, error) = match file(&hold, handle).cloned() {
        Ok(file) => match body(&mut hold, &file) {
            Ok(()) => return MPI_SUCCESS,
            Err(error) => (Source::on(number(handle).unwrap_or(0), &file.errhandler), error),
        },
        Err(error) => (Source::files(), error),
    };
    drop(hold);
    raise(name, source, error)
}

/// Names of kinds of file systems that MPICH takes before a file's name.
const KINDS: [&[u8]; 11] = [
    b"ufs:", b"nfs:", b"xfs:", b"pfs:", b"sfs:", b"panfs:", b"lustre:", b"gpfs:", b"pvfs2:", b"daos:", b"testfs:",
];

/// A file's name.
fn path(filename: *const c_char) -> Result<PathBuf> {
    if filename.is_null() {
        fail!(Arg, "filename is a null pointer");
    }
    // SAFETY: not NULL, hence a string of the application that ends in NUL.
    let bytes = unsafe { CStr::from_ptr(filename) }.to_bytes();
    let bytes = KINDS.iter().find_map(|kind| bytes.strip_prefix(*kind)).unwrap_or(bytes);
    Ok(PathBuf::from(OsStr::from_bytes(bytes)))
}

/// Opens a file. Collective. MPI-4.1 §14.2.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_open(
    comm: MPI_Comm,
    filename: *const c_char,
    amode: c_int,
    info: MPI_Info,
    fh: *mut MPI_File,
) -> c_int {
    let name = "MPI_File_open";
    let world = world(name);
    let _call = world.calling(name);
    let mut hold = world.hold();
    let opened = self::comm(&hold, comm).cloned().and_then(|comm| {
        comm.intra()?;
        let request = out(fh, "fh").and_then(|fh| {
            *fh = MPI_FILE_NULL;
            Ok(Request {
                path: path(filename)?,
                mode: Mode(amode),
                info: hints(info)?,
                errhandler: files().clone(),
                byte: hold.datatypes.get(MPI_BYTE)?.clone(),
            })
        });
        let file = open::open(&mut hold, &comm, request)?;
        let handle = Object::File.made(hold.files.insert(Rc::new(file)))?;
        store(fh, "fh", of_number(handle))
    });
    drop(hold);
    match opened {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise(name, Source::files(), error),
    }
}

/// Closes a file. Collective. MPI-4.1 §14.2.2.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_close(fh: *mut MPI_File) -> c_int {
    let place = match out(fh, "fh") {
        Ok(place) => place,
        Err(error) => return raise("MPI_File_close", Source::files(), error),
    };
    on_file("MPI_File_close", *place, |hold, file| {
        file.check_idle(hold)?;
        let key = Object::File.key(number(*place).unwrap_or(0))?;
        hold.files.remove(key);
        *place = MPI_FILE_NULL;
        file.close(hold)
    })
}

/// Runs `body` on no file in particular.
fn on_none(name: &'static str, body: impl FnOnce() -> Result<()>) -> c_int {
    let world = world(name);
    let _call = world.calling(name);
    match body() {
        Ok(()) => MPI_SUCCESS,
        Err(error) => raise(name, Source::files(), error),
    }
}

/// Removes a file. MPI-4.1 §14.2.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_delete(filename: *const c_char, info: MPI_Info) -> c_int {
    on_none("MPI_File_delete", || {
        hints(info)?;
        open::delete(&path(filename)?)
    })
}

/// Cuts a file short or lengthens it. Collective. MPI-4.1 §14.2.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_set_size(fh: MPI_File, size: MPI_Offset) -> c_int {
    on_file("MPI_File_set_size", fh, |hold, file| file.set_size(hold, size))
}

/// Takes room for the beginning of a file. Collective. MPI-4.1 §14.2.5.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_preallocate(fh: MPI_File, size: MPI_Offset) -> c_int {
    on_file("MPI_File_preallocate", fh, |hold, file| file.preallocate(hold, size))
}

/// Bytes in a file. MPI-4.1 §14.2.6.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_get_size(fh: MPI_File, size: *mut MPI_Offset) -> c_int {
    on_file("MPI_File_get_size", fh, |_, file| {
        store(size, "size", file.size()? as MPI_Offset)
    })
}

/// The group that has opened a file. MPI-4.1 §14.2.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_get_group(fh: MPI_File, group: *mut MPI_Group) -> c_int {
    on_file("MPI_File_get_group", fh, |hold, file| {
        let group = out(group, "group")?;
        *group = give_group(hold, file.comm.group.clone())?;
        Ok(())
    })
}

/// The access mode. MPI-4.1 §14.2.7.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_get_amode(fh: MPI_File, amode: *mut c_int) -> c_int {
    on_file("MPI_File_get_amode", fh, |_, file| store(amode, "amode", file.mode.0))
}

/// Adds hints. Collective. MPI-4.1 §14.2.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_set_info(fh: MPI_File, info: MPI_Info) -> c_int {
    on_file("MPI_File_set_info", fh, |_, file| {
        let hints = hints(info)?.in_use_on_file();
        file.info.borrow_mut().update(&hints);
        Ok(())
    })
}

/// The hints in use. MPI-4.1 §14.2.8.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_get_info(fh: MPI_File, info_used: *mut MPI_Info) -> c_int {
    on_file("MPI_File_get_info", fh, |_, file| {
        let place = out(info_used, "info_used")?;
        *place = give_info(file.info.borrow().clone())?;
        Ok(())
    })
}

/// Representations that the program has named (MPI-4.1 §14.5.3).
static REGISTERED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The representation that `name` means.
///
/// # Errors
/// `UnsupportedDatarep`: none, or one that the program converts.
fn representation(name: &str) -> Result<Representation> {
    let registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    match Representation::of(name) {
        Some(representation) => Ok(representation),
        None if registered.iter().any(|known| known == name) => fail!(
            UnsupportedDatarep,
            "conversions by functions of the program, as \"{name}\" has, are not supported"
        ),
        None => fail!(
            UnsupportedDatarep,
            "\"{name}\" is no data representation: there are native, internal and external32"
        ),
    }
}

/// Sets what this process sees of a file. Collective. MPI-4.1 §14.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_set_view(
    fh: MPI_File,
    disp: MPI_Offset,
    etype: MPI_Datatype,
    filetype: MPI_Datatype,
    datarep: *const c_char,
    info: MPI_Info,
) -> c_int {
    on_file("MPI_File_set_view", fh, |hold, file| {
        let current = match file.seekable() {
            Ok(()) => None,
            Err(_) => Some(file.current_displacement(hold)?),
        };
        let view = displacement(disp, current).and_then(|displacement| {
            let view = View::new(
                displacement,
                hold.datatypes.committed(etype)?.clone(),
                hold.datatypes.committed(filetype)?.clone(),
                representation(&string(datarep, "datarep")?)?,
                file.writable().is_ok(),
            )?;
            file.info.borrow_mut().update(&hints(info)?.in_use_on_file());
            Ok(view)
        });
        file.set_view(hold, view)
    })
}

/// Where a view begins that is to begin at `disp`; `current` is where a sequential file stands.
fn displacement(disp: MPI_Offset, current: Option<u64>) -> Result<u64> {
    match (current, disp) {
        (Some(current), MPI_DISPLACEMENT_CURRENT) => Ok(current),
        (Some(_), _) => fail!(
            Arg,
            "disp is {disp}, but a file that was opened with MPI_MODE_SEQUENTIAL takes MPI_DISPLACEMENT_CURRENT only"
        ),
        (None, MPI_DISPLACEMENT_CURRENT) => fail!(
            Arg,
            "MPI_DISPLACEMENT_CURRENT is for files that were opened with MPI_MODE_SEQUENTIAL"
        ),
        (None, disp) if disp < 0 => fail!(Arg, "disp is {disp} but must not be negative"),
        (None, disp) => Ok(disp as u64),
    }
}

/// What this process sees of a file. MPI-4.1 §14.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_get_view(
    fh: MPI_File,
    disp: *mut MPI_Offset,
    etype: *mut MPI_Datatype,
    filetype: *mut MPI_Datatype,
    datarep: *mut c_char,
) -> c_int {
    on_file("MPI_File_get_view", fh, |hold, file| {
        let (etype, filetype) = (out(etype, "etype")?, out(filetype, "filetype")?);
        let view = file.view();
        store_text(
            datarep,
            "datarep",
            MPI_MAX_DATAREP_STRING as usize,
            view.representation.name(),
        )?;
        store(disp, "disp", view.displacement as MPI_Offset)?;
        *etype = hold.datatypes.insert(view.etype.clone())?;
        *filetype = hold.datatypes.insert(view.filetype.clone())?;
        Ok(())
    })
}

/// Names a data representation that functions of the program convert; files do not take it yet. MPI-4.1 §14.5.3.
fn register(name: &'static str, datarep: *const c_char, extent: MPI_Datarep_extent_function) -> c_int {
    on_none(name, || {
        let text = string(datarep, "datarep")?;
        if text.is_empty() || text.len() >= MPI_MAX_DATAREP_STRING as usize {
            fail!(
                Arg,
                "the name of a representation has 1 to 127 bytes, but this one {}",
                text.len()
            );
        }
        if extent.is_none() {
            fail!(Arg, "dtype_file_extent_fn is a null pointer");
        }
        let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
        if Representation::of(&text).is_some() || registered.contains(&text) {
            fail!(DupDatarep, "there is a data representation \"{text}\" already");
        }
        registered.push(text);
        Ok(())
    })
}

/// Names a data representation. MPI-4.1 §14.5.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Register_datarep(
    datarep: *const c_char,
    read_conversion_fn: MPI_Datarep_conversion_function,
    write_conversion_fn: MPI_Datarep_conversion_function,
    dtype_file_extent_fn: MPI_Datarep_extent_function,
    extra_state: *mut c_void,
) -> c_int {
    let _ = (read_conversion_fn, write_conversion_fn, extra_state);
    register("MPI_Register_datarep", datarep, dtype_file_extent_fn)
}

/// As [`MPI_Register_datarep`], with conversions that count in 64 bits.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_Register_datarep_c(
    datarep: *const c_char,
    read_conversion_fn: MPI_Datarep_conversion_function_c,
    write_conversion_fn: MPI_Datarep_conversion_function_c,
    dtype_file_extent_fn: MPI_Datarep_extent_function,
    extra_state: *mut c_void,
) -> c_int {
    let _ = (read_conversion_fn, write_conversion_fn, extra_state);
    register("MPI_Register_datarep_c", datarep, dtype_file_extent_fn)
}

/// From where a seek counts.
fn whence(value: c_int) -> Result<Whence> {
    match value {
        MPI_SEEK_SET => Ok(Whence::Set),
        MPI_SEEK_CUR => Ok(Whence::Current),
        MPI_SEEK_END => Ok(Whence::End),
        _ => fail!(
            Arg,
            "whence is {value}, which is none of MPI_SEEK_SET, MPI_SEEK_CUR and MPI_SEEK_END"
        ),
    }
}

/// Moves the individual file pointer. MPI-4.1 §14.4.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_seek(fh: MPI_File, offset: MPI_Offset, whence: c_int) -> c_int {
    on_file("MPI_File_seek", fh, |_, file| file.seek(offset, self::whence(whence)?))
}

/// Where the individual file pointer stands. MPI-4.1 §14.4.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_get_position(fh: MPI_File, offset: *mut MPI_Offset) -> c_int {
    on_file("MPI_File_get_position", fh, |_, file| {
        store(offset, "offset", file.position()?)
    })
}

/// Where in the file an offset of the view is. MPI-4.1 §14.4.3.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_get_byte_offset(fh: MPI_File, offset: MPI_Offset, disp: *mut MPI_Offset) -> c_int {
    on_file("MPI_File_get_byte_offset", fh, |_, file| {
        store(disp, "disp", file.byte_offset(offset)?)
    })
}

/// Moves the shared file pointer. Collective. MPI-4.1 §14.4.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_seek_shared(fh: MPI_File, offset: MPI_Offset, whence: c_int) -> c_int {
    on_file("MPI_File_seek_shared", fh, |hold, file| {
        file.seek_shared(hold, offset, self::whence(whence))
    })
}

/// Where the shared file pointer stands. MPI-4.1 §14.4.4.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_get_position_shared(fh: MPI_File, offset: *mut MPI_Offset) -> c_int {
    on_file("MPI_File_get_position_shared", fh, |_, file| {
        store(offset, "offset", file.shared_position()?)
    })
}

/// Extent of a datatype in the file. MPI-4.1 §14.5.
#[apply(mpi_function_c!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_get_type_extent(
    fh: MPI_File,
    datatype: MPI_Datatype,
    extent: *mut TypeDispl,
) -> c_int {
    on_file("MPI_File_get_type_extent", fh, |hold, file| {
        let datatype = hold.datatypes.get(datatype)?;
        store(extent, "extent", file.extent_of(datatype)? as TypeDispl)
    })
}

/// Sets whether accesses that stand against each other come one after the other. Collective. MPI-4.1 §14.6.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_set_atomicity(fh: MPI_File, flag: c_int) -> c_int {
    on_file("MPI_File_set_atomicity", fh, |hold, file| {
        file.set_atomic(hold, flag != 0)
    })
}

/// Whether they do. MPI-4.1 §14.6.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_get_atomicity(fh: MPI_File, flag: *mut c_int) -> c_int {
    on_file("MPI_File_get_atomicity", fh, |_, file| {
        store(flag, "flag", c_int::from(file.is_atomic()))
    })
}

/// Writes everything out. Collective. MPI-4.1 §14.6.1.
#[apply(mpi_function!)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn MPI_File_sync(fh: MPI_File) -> c_int {
    on_file("MPI_File_sync", fh, |hold, file| file.sync(hold))
}
