//! The ranks' output on its way through the launcher, where it has to be tagged or several ranks write into
//! the same file or pipe. Lines stay whole; a tagged one that has no end gets one when its rank is gone.
//! A rank whose output is not being read has to wait, as it would without a launcher between.

use crate::arguments::Output;
use crate::os;
use crate::outlet::Outlets;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// A line that is longer is written in pieces.
const LINE_MAX: usize = 1 << 20;
/// What is read at a time.
const ROOM: usize = 1 << 16;

/// One stream of one rank.
struct Stream {
    /// `None` once it has ended.
    pipe: Option<io::PipeReader>,
    tag: String,
    has_time: bool,
    outlet: usize,
    partial: Vec<u8>,
}

/// All of the ranks' streams, and where they go.
pub struct Streams {
    pub outlets: Outlets,
    all: Vec<Stream>,
    /// The one that was read last: the others have their turn before it has the next.
    last: usize,
    room: Vec<u8>,
}

impl Streams {
    /// None yet.
    ///
    /// # Errors
    /// As [`Outlets::new`].
    pub fn new() -> io::Result<Streams> {
        Ok(Streams {
            outlets: Outlets::new()?,
            all: Vec::new(),
            last: 0,
            room: vec![0; ROOM],
        })
    }

    /// Adds the stream that `rank` writes into the other end of `pipe`.
    ///
    /// # Errors
    /// Its file cannot be made.
    pub fn add(&mut self, pipe: io::PipeReader, rank: usize, is_error: bool, how: &Output) -> io::Result<()> {
        let name = if is_error { "stderr" } else { "stdout" };
        let file = if is_error { &how.err } else { &how.out };
        let outlet = match file {
            Some(pattern) => self.outlets.open(&expand(pattern, rank, name))?,
            None => self.outlets.standard(is_error),
        };
        self.all.push(Stream {
            pipe: Some(pipe),
            tag: expand(&how.tag, rank, name),
            has_time: how.has_time,
            outlet,
            partial: Vec::new(),
        });
        Ok(())
    }

    /// The streams to read from, and what to wait for: those that have not ended, and whose reader keeps up.
    pub fn open(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let all = self.all.iter().enumerate();
        let keep_up = all.filter(|(_, stream)| !self.outlets.is_full(stream.outlet));
        keep_up.filter_map(|(number, stream)| Some((number, stream.pipe.as_ref()?.as_fd())))
    }

    /// Passes on what has come from `ready`, each of which has something, as long as it is read.
    ///
    /// # Errors
    /// Output is lost; the sentence says why. What the others have is passed on.
    pub fn pump(&mut self, mut ready: Vec<usize>) -> Result<(), String> {
        let last = self.last;
        ready.sort_by_key(|&number| (number <= last, number));
        let mut outcome = Ok(());
        for number in ready {
            let stream = &mut self.all[number];
            if !self.outlets.is_full(stream.outlet) {
                self.last = number;
                outcome = outcome.and(stream.pump(&mut self.room, &mut self.outlets));
            }
        }
        outcome
    }

    /// Passes on what is left, without waiting for who else may hold the pipes.
    ///
    /// # Errors
    /// As [`Streams::pump`].
    pub fn finish(&mut self) -> Result<(), String> {
        let (room, outlets) = (&mut self.room, &mut self.outlets);
        let finished = self.all.iter_mut().map(|stream| stream.finish(room, outlets));
        finished.fold(Ok(()), Result::and)
    }
}

impl Stream {
    fn pump(&mut self, room: &mut [u8], outlets: &mut Outlets) -> Result<(), String> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        let count = match os::read_pipe(pipe.as_fd(), room) {
            Ok(Some(count)) if count > 0 => count,
            Ok(None) => return Ok(()),
            _ => {
                self.pipe = None;
                return self.write(b"", outlets);
            }
        };
        let new = &room[..count];
        let whole = match new.iter().rposition(|&b| b == b'\n') {
            Some(last) => last + 1,
            None if self.partial.len() + count > LINE_MAX => count,
            None => 0,
        };
        let (lines, rest) = new.split_at(whole);
        let outcome = match whole {
            0 => Ok(()),
            _ => self.write(lines, outlets),
        };
        self.partial.extend_from_slice(rest);
        outcome
    }

    fn finish(&mut self, room: &mut [u8], outlets: &mut Outlets) -> Result<(), String> {
        let mut outcome = Ok(());
        while let Some(pipe) = &self.pipe
            && os::poll(&[pipe.as_fd()], &[], Some(Duration::ZERO))[0]
        {
            outcome = outcome.and(self.pump(room, outlets));
        }
        self.pipe = None;
        outcome.and(self.write(b"", outlets))
    }

    /// Writes what had come before, and then `lines`.
    fn write(&mut self, lines: &[u8], outlets: &mut Outlets) -> Result<(), String> {
        let mut text = std::mem::take(&mut self.partial);
        let mut lines = lines;
        if !text.is_empty() {
            text.extend_from_slice(lines);
            lines = &text;
        }
        if lines.is_empty() {
            return Ok(());
        }
        let time = self.has_time.then(os::local_time);
        let tag = time.unwrap_or_default() + &self.tag;
        match tag.is_empty() {
            true => outlets.write(self.outlet, lines),
            false => outlets.write(self.outlet, &tagged(&tag, lines)),
        }
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
    }
}
