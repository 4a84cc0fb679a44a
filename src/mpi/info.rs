//! Info objects: keys and values as the program wrote them (MPI-4.1 §10).

use super::error::Result;
use crate::fail;

/// Longest key, in bytes.
pub const MAX_KEY: usize = 255;
/// Longest value, in bytes.
pub const MAX_VALUE: usize = 1024;

/// Promises that a program can make about a communicator (MPI-4.1 §7.4.4). Receives without wildcards
/// take the short way whether this is promised or not, so a promise saves nothing; with `NEARMPI_CHECK`
/// it is held.
pub const PROMISES: [&str; 5] = [
    "mpi_assert_no_any_tag",
    "mpi_assert_no_any_source",
    "mpi_assert_exact_length",
    "mpi_assert_allow_overtaking",
    "mpi_assert_strict_persistent_collective_ordering",
];
/// Kinds of memory that buffers may lie in (MPI-4.1 §11.4.3).
pub const MEMORY_KINDS: (&str, &str) = ("mpi_memory_alloc_kinds", "mpi,system");
/// Hints about windows and their values where the program gives none (MPI-4.1 §12.2.1 to §12.2.3).
pub const WINDOW_HINTS: [(&str, &str); 7] = [
    ("no_locks", "false"),
    ("accumulate_ordering", "rar,raw,war,waw"),
    ("accumulate_ops", "same_op_no_op"),
    ("mpi_accumulate_granularity", "0"),
    ("same_size", "false"),
    ("same_disp_unit", "false"),
    ("alloc_shared_noncontig", "false"),
];

/// Hints about files (MPI-4.1 §14.2.8). One of them changes something here: `file_perm`, the permissions of a new file.
pub const FILE_HINTS: [&str; 14] = [
    "access_style",
    "collective_buffering",
    "cb_block_size",
    "cb_buffer_size",
    "cb_nodes",
    "chunked",
    "chunked_item",
    "chunked_size",
    "file_perm",
    "io_node_list",
    "nb_proc",
    "num_io_nodes",
    "striping_factor",
    "striping_unit",
];

/// An info object. Keys and values are bytes without a final NUL, in the order they were first set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    entries: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Info {
    /// The value under `key`.
    ///
    /// # Errors
    /// `InfoKey`: the key is empty or too long.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        check_key(key)?;
        let entry = self.entries.iter().find(|(known, _)| known == key);
        Ok(entry.map(|(_, value)| value.as_slice()))
    }

    /// What `read` makes of the value under `key`, without the spaces around it.
    ///
    /// # Errors
    /// `InfoValue`: it makes nothing of it, which should be a `kind`. As [`Info::get`].
    pub fn read<T>(&self, key: &str, kind: &str, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>> {
        let Some(text) = self.get(key.as_bytes())? else {
            return Ok(None);
        };
        match std::str::from_utf8(text).ok().and_then(|text| read(text.trim())) {
            Some(value) => Ok(Some(value)),
            None => fail!(InfoValue, "the hint {key} is \"{}\", no {kind}", text.escape_ascii()),
        }
    }

    /// Puts `value` under `key`, in place of an earlier one.
    ///
    /// # Errors
    /// `InfoKey`: the key is empty or too long; `InfoValue`: the value is too long.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        if value.len() > MAX_VALUE {
            let len = value.len();
            fail!(InfoValue, "the value has {len} bytes, more than {MAX_VALUE}");
        }
        match self.entries.iter_mut().find(|(known, _)| known == key) {
            Some((_, old)) => *old = value.to_vec(),
            None => self.entries.push((key.to_vec(), value.to_vec())),
        }
        Ok(())
    }

    /// Removes `key` and its value.
    ///
    /// # Errors
    /// `InfoNokey`: there is no such key; `InfoKey`: it is empty or too long.
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        check_key(key)?;
        match self.entries.iter().position(|(known, _)| known == key) {
            Some(at) => self.entries.remove(at),
            None => fail!(InfoNokey, "there is no key \"{}\"", key.escape_ascii()),
        };
        Ok(())
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The `n`th key, from 0.
    ///
    /// # Errors
    /// `Arg`: there are not so many.
    pub fn key(&self, n: i32) -> Result<&[u8]> {
        let entry = usize::try_from(n).ok().and_then(|n| self.entries.get(n));
        let Some((key, _)) = entry else {
            fail!(Arg, "key number {n} was asked for, but there are {} keys", self.len());
        };
        Ok(key)
    }

    /// Takes over every entry of `other`.
    pub fn update(&mut self, other: &Info) {
        for (key, value) in &other.entries {
            match self.entries.iter_mut().find(|(known, _)| known == key) {
                Some((_, old)) => old.clone_from(value),
                None => self.entries.push((key.clone(), value.clone())),
            }
        }
    }

    /// Whether `promise`, one of [`PROMISES`], was made.
    pub fn promises(&self, promise: &str) -> bool {
        let value = self.get(promise.as_bytes()).ok().flatten();
        value.is_some_and(|value| value.trim_ascii().eq_ignore_ascii_case(b"true"))
    }

    /// The hints in use on a communicator for which the program gave these: every promise with its
    /// state, and the kinds of memory. Others are ignored (MPI-4.1 §7.4.4).
    pub fn in_use(&self) -> Info {
        let word = |promise: &str| if self.promises(promise) { "true" } else { "false" };
        let promises = PROMISES.map(|promise| (promise, word(promise)));
        Info::of(promises.into_iter().chain([MEMORY_KINDS]))
    }

    /// The hints in use on a window for which the program gave these; others are ignored.
    pub fn in_use_on_window(&self) -> Info {
        let mut used = Info::of(WINDOW_HINTS.into_iter().chain([MEMORY_KINDS]));
        for (key, value) in &mut used.entries {
            if let Some((_, given)) = self.entries.iter().find(|(known, _)| known == key)
                && key != MEMORY_KINDS.0.as_bytes()
            {
                value.clone_from(given);
            }
        }
        used
    }

    /// The hints in use on a file for which the program gave these: those that the standard knows (MPI-4.1 §14.2.8), and the kinds of
    /// memory.
    pub fn in_use_on_file(&self) -> Info {
        let known = |(key, _): &&(Vec<u8>, Vec<u8>)| FILE_HINTS.iter().any(|hint| hint.as_bytes() == key);
        let mut used = Info::of([MEMORY_KINDS].into_iter());
        used.entries.extend(self.entries.iter().filter(known).cloned());
        used
    }

    fn of<'a>(entries: impl Iterator<Item = (&'a str, &'a str)>) -> Info {
        let bytes = |text: &str| text.as_bytes().to_vec();
        Info {
            entries: entries.map(|(key, value)| (bytes(key), bytes(value))).collect(),
        }
    }

    /// What is known about how this process was started, as `MPI_INFO_ENV` tells it
    /// (MPI-4.1 §11.5): the program and its arguments, where it runs, on what.
    pub fn of_process(arguments: impl Iterator<Item = String>) -> Info {
        let mut info = Info::default();
        let mut put = |key: &str, value: &str| {
            if !value.is_empty() {
                let len = value.len().min(MAX_VALUE);
                info.entries
                    .push((key.as_bytes().to_vec(), value.as_bytes()[..len].to_vec()));
            }
        };
        let mut arguments = arguments;
        put("command", &arguments.next().unwrap_or_default());
        put("argv", &arguments.collect::<Vec<_>>().join(" "));
        let directory = std::env::current_dir().unwrap_or_default();
        put("wdir", &directory.to_string_lossy());
        put("arch", std::env::consts::ARCH);
        info
    }
}

fn check_key(key: &[u8]) -> Result<()> {
    if key.len() > MAX_KEY {
        fail!(InfoKey, "the key has {} bytes, more than {MAX_KEY}", key.len());
    }
    if key.is_empty() {
        fail!(InfoKey, "the key is empty");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::error::Class;
    use super::*;

    #[test]
    fn keys_keep_their_order_and_their_last_value() {
        let mut info = Info::default();
        info.set(b"one", b"1").unwrap();
        info.set(b"two", b"2").unwrap();
        info.set(b"one", b"uno").unwrap();
        assert_eq!(info.get(b"one").unwrap(), Some(&b"uno"[..]));
        assert_eq!((info.key(0).unwrap(), info.key(1).unwrap()), (&b"one"[..], &b"two"[..]));
        info.delete(b"one").unwrap();
        assert_eq!(info.get(b"one").unwrap(), None);
        assert_eq!(info.key(1).unwrap_err().class(), Class::Arg);
        assert_eq!(info.key(-1).unwrap_err().class(), Class::Arg);
        assert_eq!(info.delete(b"one").unwrap_err().class(), Class::InfoNokey);
    }

    #[test]
    fn promises_have_a_state_and_other_hints_stay() {
        let mut given = Info::default();
        given.set(b"mpi_assert_no_any_tag", b"TRUE").unwrap();
        given.set(b"mpi_assert_exact_length", b"perhaps").unwrap();
        given.set(b"mpi_memory_alloc_kinds", b"cuda").unwrap();
        given.set(b"color", b"blue").unwrap();
        let used = given.in_use();
        let value = |key: &[u8]| {
            used.get(key)
                .unwrap()
                .map(|value| String::from_utf8_lossy(value).into_owned())
        };
        assert_eq!(value(b"mpi_assert_no_any_tag").unwrap(), "true");
        assert_eq!(value(b"mpi_assert_exact_length").unwrap(), "false");
        assert_eq!(value(b"mpi_assert_allow_overtaking").unwrap(), "false");
        assert_eq!(value(b"mpi_memory_alloc_kinds").unwrap(), "mpi,system");
        assert_eq!(value(b"color"), None, "what is not understood is ignored");
    }

    #[test]
    fn hints_on_windows_have_defaults() {
        let mut given = Info::default();
        given.set(b"accumulate_ops", b"same_op").unwrap();
        given.set(b"color", b"blue").unwrap();
        let used = given.in_use_on_window();
        assert_eq!(used.get(b"accumulate_ops").unwrap().unwrap(), b"same_op");
        assert_eq!(used.get(b"accumulate_ordering").unwrap().unwrap(), b"rar,raw,war,waw");
        assert_eq!(used.get(b"color").unwrap(), None);
    }

    #[test]
    fn lengths_are_limited() {
        let mut info = Info::default();
        info.set(&[b'k'; MAX_KEY], &[b'v'; MAX_VALUE]).unwrap();
        assert_eq!(info.set(&[b'k'; 256], b"v").unwrap_err().class(), Class::InfoKey);
        assert_eq!(info.set(b"k", &[b'v'; 1025]).unwrap_err().class(), Class::InfoValue);
        assert_eq!(info.set(b"", b"v").unwrap_err().class(), Class::InfoKey);
    }
}
