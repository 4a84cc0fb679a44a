//! # Safety
//! Reads the processor's name by cpuid, which every x86-64 processor has, and asks uname(2).
//!
//! What `nearmpi-tune` has measured: a small file for each kind of hardware, read at MPI_Init, written by nobody else.
//!
//! ```text
//!  $XDG_CACHE_HOME/nearmpi/tuned/KEY       (or ~/.cache/...)        KEY: hash of processor, CPUs and kernel
//!  # comment
//!  NEARMPI_JOIN_MIN=262144
//! ```
#![allow(unsafe_code)]

use std::ffi::{CStr, OsString};
use std::path::{Path, PathBuf};
use std::{fs, io};

/// The folder of these files, if there is a home for it.
pub fn folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let given = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = given("XDG_CACHE_HOME").or_else(|| given("HOME").map(|home| home.join(".cache")));
    cache.map(|cache| cache.join("nearmpi").join("tuned"))
}

/// The values that were measured for this hardware: none where nobody has measured. Costs one system call then.
pub fn read(folder: &Path) -> Vec<(String, String)> {
    if !folder.exists() {
        return Vec::new();
    }
    fs::read_to_string(file(folder)).map_or_else(|_| Vec::new(), |text| parse(&text))
}

fn parse(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs
        .map(|(name, value)| (name.trim().into(), value.trim().into()))
        .collect()
}

/// Keeps `values` for this hardware in `folder`, with `remark` above them; returns the file. Whoever reads at the
/// same time sees the old file or the new one.
///
/// # Errors
/// What the file system says.
pub fn write(folder: &Path, remark: &str, values: &[(&str, String)]) -> io::Result<PathBuf> {
    let mut text: String = remark.lines().map(|line| format!("# {line}\n")).collect();
    text.extend(values.iter().map(|(name, value)| format!("{name}={value}\n")));
    fs::create_dir_all(folder)?;
    let file = file(folder);
    let new = file.with_extension(std::process::id().to_string());
    fs::write(&new, text)?;
    fs::rename(&new, &file)?;
    Ok(file)
}

/// The file for this hardware in `folder`.
pub fn file(folder: &Path) -> PathBuf {
    folder.join(key())
}

/// The hardware in words: processor, number of CPUs, kernel.
pub fn hardware() -> String {
    // SAFETY: sysconf and uname only fill in what they are given; uname's fields end with a zero byte.
    let (cpus, release) = unsafe {
        let mut name: libc::utsname = std::mem::zeroed();
        libc::uname(&mut name);
        let release = CStr::from_ptr(name.release.as_ptr()).to_string_lossy().into_owned();
        (libc::sysconf(libc::_SC_NPROCESSORS_ONLN), release)
    };
    format!("{}, {cpus} CPUs, Linux {release}", processor())
}

/// The value of a control variable that this kind of processor asks for where nobody says otherwise (docs/measured.md, "Fetched ahead",
/// "A larger ring", "Shuttles" and "Going round"): Intel's lose by reading a shuttle's lines for writing, AMD's Zen 3 by fetching lines ahead of a copy, and
/// on others that is not measured; where lines are read for writing shuttles pay earlier; AMD's copy slowly out of another core's
/// second-level cache, so a ring should be as long as four of those, and soon, and what is shown on boards go round (Zen 3 and 4).
pub fn of_processor(variable: &str) -> Option<String> {
    #[allow(unused_unsafe)]
    // SAFETY: every x86-64 processor has leaf 0, its maker's name.
    let maker = unsafe { std::arch::x86_64::__cpuid(0) }.ebx.to_le_bytes();
    let (is_intel, is_amd) = (maker == *b"Genu", maker == *b"Auth");
    match variable {
        "NEARMPI_SHUTTLE_OWN" if is_intel => Some(0),
        "NEARMPI_FETCH_AHEAD" if !is_intel => Some(0),
        "NEARMPI_SHUTTLE_MIN" if is_amd => Some(512),
        "NEARMPI_RING_GROW" if is_amd => Some(256 << 10),
        "NEARMPI_RING_LARGE" if is_amd => Some((4 * second_level()).next_power_of_two().clamp(1 << 20, 4 << 20)),
        "NEARMPI_BOARD_ROUND" if is_amd => Some(1 << 20),
        _ => None,
    }
    .map(|value| value.to_string())
}

/// Bytes of the second-level cache, as processors of AMD tell them.
fn second_level() -> u32 {
    #[allow(unused_unsafe)]
    // SAFETY: leaf 0x80000006 is read where leaf 0x80000000 says that it exists.
    unsafe {
        match std::arch::x86_64::__cpuid(0x8000_0000).eax {
            0x8000_0006.. => std::arch::x86_64::__cpuid(0x8000_0006).ecx >> 16 << 10,
            _ => 0,
        }
    }
}

/// The processor's brand string.
fn processor() -> String {
    use std::arch::x86_64::__cpuid;
    let mut bytes = Vec::new();
    #[allow(unused_unsafe)]
    // SAFETY: these leaves exist where leaf 0x80000000 says so.
    unsafe {
        if __cpuid(0x8000_0000).eax >= 0x8000_0004 {
            for leaf in 0x8000_0002..=0x8000_0004u32 {
                let words = __cpuid(leaf);
                bytes.extend(
                    [words.eax, words.ebx, words.ecx, words.edx]
                        .map(u32::to_le_bytes)
                        .concat(),
                );
            }
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    text.trim_matches(|letter: char| letter == '\0' || letter.is_whitespace())
        .to_string()
}

/// The name of this hardware's file: FNV-1a of [`hardware`].
fn key() -> String {
    let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    format!("{:016x}", hardware().bytes().fold(0xcbf2_9ce4_8422_2325, hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_of_intel_and_others_ask_for_different_things() {
        let cpus = fs::read_to_string("/proc/cpuinfo").unwrap();
        let (intel, amd) = (cpus.contains("GenuineIntel"), cpus.contains("AuthenticAMD"));
        let asked = |variable: &str| of_processor(variable).map(|value| value.parse::<u32>().unwrap());
        assert_eq!(asked("NEARMPI_SHUTTLE_OWN"), intel.then_some(0));
        assert_eq!(asked("NEARMPI_FETCH_AHEAD"), (!intel).then_some(0));
        assert_eq!(asked("NEARMPI_SHUTTLE_MIN"), amd.then_some(512));
        assert_eq!(asked("NEARMPI_RING_GROW"), amd.then_some(256 << 10));
        assert_eq!(asked("NEARMPI_BOARD_ROUND"), amd.then_some(1 << 20));
        let ring = asked("NEARMPI_RING_LARGE");
        assert_eq!(ring.is_some(), amd);
        assert!(
            ring.is_none_or(|bytes| bytes.is_power_of_two() && (1 << 20..=4 << 20).contains(&bytes)),
            "{ring:?}"
        );
        assert_eq!(asked("NEARMPI_SHUTTLE_MAX"), None);
    }

    #[test]
    fn the_folder_follows_the_rules_of_xdg() {
        let with = |set: &'static [(&str, &str)]| {
            folder(move |name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()))
        };
        let cache = with(&[("XDG_CACHE_HOME", "/c"), ("HOME", "/h")]);
        assert_eq!(cache, Some("/c/nearmpi/tuned".into()));
        let relative = with(&[("XDG_CACHE_HOME", "c"), ("HOME", "/h")]);
        assert_eq!(relative, Some("/h/.cache/nearmpi/tuned".into()));
        assert_eq!(with(&[]), None);
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = std::env::temp_dir().join(format!("nearmpi-tuned-{}", std::process::id()));
        assert_eq!(read(&folder), []);
        write(&folder, "two\nlines", &[("NEARMPI_A", "7".into())]).unwrap();
        let values = [("NEARMPI_A", "8".into()), ("NEARMPI_B", "9".into())];
        let file = write(&folder, "again", &values).unwrap();
        let pairs = [("NEARMPI_A", "8"), ("NEARMPI_B", "9")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(read(&folder), pairs);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::write(file, "junk\n=\n\u{0}").unwrap();
        assert!(read(&folder).iter().all(|(name, _)| name.is_empty()));
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn hardware_has_a_name() {
        assert!(hardware().contains("CPUs, Linux"), "{}", hardware());
        assert_eq!(key().len(), 16);
    }
}
