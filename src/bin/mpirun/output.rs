//! The ranks' output on its way through the launcher, where it has to be tagged or several ranks write into
//! the same file or pipe. Lines stay whole; a tagged one that has no end gets one when its rank is gone.

use crate::arguments::Output;
use crate::os;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::rc::Rc;

/// A line that is longer is written in pieces.
const LINE_MAX: usize = 1 << 20;

/// One stream of one rank.
pub struct Stream {
    /// `None` once it has ended.
    pipe: Option<io::PipeReader>,
    tag: String,
    has_time: bool,
    to_stderr: bool,
    /// In place of our own output.
    file: Option<Rc<File>>,
    partial: Vec<u8>,
}

impl Stream {
    /// The stream that `rank` writes into the other end of `pipe`.
    ///
    /// # Errors
    /// Its file cannot be made.
    pub fn new(
        pipe: io::PipeReader,
        rank: usize,
        to_stderr: bool,
        how: &Output,
        files: &mut Files,
    ) -> io::Result<Stream> {
        let name = if to_stderr { "stderr" } else { "stdout" };
        let file = if to_stderr { &how.err } else { &how.out };
        let file = file.as_ref().map(|pattern| files.open(&expand(pattern, rank, name)));
        Ok(Stream {
            pipe: Some(pipe),
            tag: expand(&how.tag, rank, name),
            has_time: how.has_time,
            to_stderr,
            file: file.transpose()?,
            partial: Vec::new(),
        })
    }

    /// What to wait for.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    /// Passes on what has come, of which there must be something.
    ///
    /// # Errors
    /// When our own output is closed.
    pub fn pump(&mut self) -> io::Result<()> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        let mut room = vec![0; 1 << 16];
        match os::read_pipe(pipe.as_fd(), &mut room) {
            Ok(Some(count)) if count > 0 => {
                self.partial.extend_from_slice(&room[..count]);
                let whole = match self.partial.iter().rposition(|&b| b == b'\n') {
                    Some(last) => last + 1,
                    None if self.partial.len() > LINE_MAX => self.partial.len(),
                    None => return Ok(()),
                };
                let rest = self.partial.split_off(whole);
                let lines = std::mem::replace(&mut self.partial, rest);
                self.write(&lines)
            }
            Ok(None) => Ok(()),
            _ => {
                self.pipe = None;
                let last = std::mem::take(&mut self.partial);
                self.write(&last)
            }
        }
    }

    /// Passes on what is left, without waiting for who else may hold the pipe.
    ///
    /// # Errors
    /// When our own output is closed.
    pub fn finish(&mut self) -> io::Result<()> {
        while let Some(pipe) = &self.pipe
            && os::poll(&[pipe.as_fd()], Some(std::time::Duration::ZERO))[0]
        {
            self.pump()?;
        }
        self.pipe = None;
        let last = std::mem::take(&mut self.partial);
        self.write(&last)
    }

    fn write(&self, lines: &[u8]) -> io::Result<()> {
        let time = self.has_time.then(os::local_time);
        let tagged = tagged(&(time.unwrap_or_default() + &self.tag), lines);
        match self.to_stderr {
            _ if self.file.is_some() => self.file.as_deref().map_or(Ok(()), |mut file| file.write_all(&tagged)),
            true => io::stderr().lock().write_all(&tagged),
            false => {
                let mut out = io::stdout().lock();
                out.write_all(&tagged)?;
                out.flush()
            }
        }
    }
}

/// Files that ranks write into, by name; ranks may share one.
#[derive(Default)]
pub struct Files(HashMap<String, Rc<File>>);

impl Files {
    fn open(&mut self, name: &str) -> io::Result<Rc<File>> {
        if let Some(file) = self.0.get(name) {
            return Ok(file.clone());
        }
        if let Some(folder) = Path::new(name).parent() {
            fs::create_dir_all(folder)?;
        }
        let file = File::create(name).map_err(|e| io::Error::new(e.kind(), format!("{name}: {e}")))?;
        let file = Rc::new(file);
        self.0.insert(name.to_string(), file.clone());
        Ok(file)
    }
}

/// A pattern's meaning for a rank. What is no pattern stands for itself.
fn expand(pattern: &str, rank: usize, stream: &str) -> String {
    let mut text = String::new();
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        match (letter, letters.clone().next()) {
            ('%', Some('r')) => text += &rank.to_string(),
            ('%', Some('h')) => text += &mpi::sys::host::name(),
            ('%', Some('s')) => text += stream,
            // Hydra's process group and proxy: there is one of each.
            ('%', Some('g' | 'p')) => text.push('0'),
            ('%', Some('%')) => text.push('%'),
            _ => {
                text.push(letter);
                continue;
            }
        }
        letters.next();
    }
    text
}

fn tagged(tag: &str, lines: &[u8]) -> Vec<u8> {
    if tag.is_empty() {
        return lines.to_vec();
    }
    let mut text = Vec::with_capacity(lines.len() + tag.len());
    for line in lines.split_inclusive(|&b| b == b'\n') {
        text.extend_from_slice(tag.as_bytes());
        text.extend_from_slice(line);
    }
    if text.last().is_some_and(|&b| b != b'\n') {
        text.push(b'\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_expanded() {
        assert_eq!(expand("%r.%s %g%% %x%", 12, "stdout"), "12.stdout 0% %x%");
        assert_eq!(expand("", 1, "stderr"), "");
    }

    #[test]
    fn every_line_gets_its_tag() {
        assert_eq!(tagged("[1] ", b"a\n\nb"), b"[1] a\n[1] \n[1] b\n");
        assert_eq!(tagged("[1] ", b""), b"");
        assert_eq!(tagged("", b"a\nb"), b"a\nb");
    }
}
