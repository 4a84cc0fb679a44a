//! The ranks' output on its way through the launcher, where it has to be tagged or several ranks write into
//! the same file or pipe. Lines stay whole, unless a rank pauses in one, as behind a question: what there is of it is passed on
//! then. A tagged line that has no end gets one when its rank is gone, or when others write before it goes on, with its tag anew.
//! A rank whose output is not being read has to wait, as it would without a launcher between.

use crate::arguments::Output;
use crate::os;
use crate::outlet::Outlets;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// A line that is longer is written in pieces.
const LINE_MAX: usize = 1 << 20;
/// How long a rank may pause in a line before what there is of it is passed on.
const PAUSE: Duration = Duration::from_millis(50);
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
    /// When the last of `partial` came.
    since: Instant,
    /// Which one this is.
    number: usize,
}

/// By outlet: the stream whose line was passed on without its end.
type Begun = HashMap<usize, usize>;

/// All of the ranks' streams, and where they go.
pub struct Streams {
    pub outlets: Outlets,
    all: Vec<Stream>,
    /// The one that was read last: the others have their turn before it has the next.
    last: usize,
    room: Vec<u8>,
    begun: Begun,
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
            begun: Begun::new(),
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
            since: Instant::now(),
            number: self.all.len(),
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
                outcome = outcome.and(stream.pump(&mut self.room, &mut self.outlets, &mut self.begun));
            }
        }
        outcome
    }

    /// Writes what mpirun has to say to standard error, below a line that a rank has begun there.
    pub fn say(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.begun.remove(&self.outlets.standard(true)).is_some() {
            self.outlets.say("\n");
        }
        self.outlets.say(text);
    }

    /// When a rank that has paused in a line will have paused for long enough.
    pub fn due(&self) -> Option<Instant> {
        let waits = |stream: &&Stream| !stream.partial.is_empty() && !self.outlets.is_full(stream.outlet);
        self.all.iter().filter(waits).map(|stream| stream.since + PAUSE).min()
    }

    /// Passes on what there is of lines in which ranks have paused.
    ///
    /// # Errors
    /// As [`Streams::pump`].
    pub fn pass_pauses(&mut self) -> Result<(), String> {
        let now = Instant::now();
        let mut outcome = Ok(());
        for stream in &mut self.all {
            let waits = !stream.partial.is_empty() && !self.outlets.is_full(stream.outlet);
            // A rank that was not read meanwhile has not paused.
            if waits && now >= stream.since + PAUSE && !stream.has_more() {
                outcome = outcome.and(stream.write(b"", &mut self.outlets, &mut self.begun));
            }
        }
        outcome
    }

    /// Passes on what is left, without waiting for who else may hold the pipes.
    ///
    /// # Errors
    /// As [`Streams::pump`].
    pub fn finish(&mut self) -> Result<(), String> {
        let (room, outlets, begun) = (&mut self.room, &mut self.outlets, &mut self.begun);
        let finished = self.all.iter_mut().map(|stream| stream.finish(room, outlets, begun));
        finished.fold(Ok(()), Result::and)
    }
}

impl Stream {
    fn pump(&mut self, room: &mut [u8], outlets: &mut Outlets, begun: &mut Begun) -> Result<(), String> {
        let Some(pipe) = &self.pipe else { return Ok(()) };
        let count = match os::read_pipe(pipe.as_fd(), room) {
            Ok(Some(count)) if count > 0 => count,
            Ok(None) => return Ok(()),
            _ => return self.end(outlets, begun),
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
            _ => self.write(lines, outlets, begun),
        };
        self.partial.extend_from_slice(rest);
        self.since = Instant::now();
        outcome
    }

    fn finish(&mut self, room: &mut [u8], outlets: &mut Outlets, begun: &mut Begun) -> Result<(), String> {
        let mut outcome = Ok(());
        while self.has_more() {
            outcome = outcome.and(self.pump(room, outlets, begun));
        }
        outcome.and(self.end(outlets, begun))
    }

    /// Writes what is left; a tagged line gets its end.
    fn end(&mut self, outlets: &mut Outlets, begun: &mut Begun) -> Result<(), String> {
        self.pipe = None;
        let outcome = self.write(b"", outlets, begun);
        let is_open = begun.get(&self.outlet) == Some(&self.number);
        match is_open && self.has_tag() {
            true => {
                begun.remove(&self.outlet);
                outcome.and(outlets.write(self.outlet, b"\n"))
            }
            false => outcome,
        }
    }

    /// Whether something has come that was not read yet.
    fn has_more(&self) -> bool {
        let pipe = self.pipe.as_ref();
        pipe.is_some_and(|pipe| os::poll(&[pipe.as_fd()], &[], Some(Duration::ZERO))[0])
    }

    fn has_tag(&self) -> bool {
        self.has_time || !self.tag.is_empty()
    }

    /// Writes what had come before, and then `lines`.
    fn write(&mut self, lines: &[u8], outlets: &mut Outlets, begun: &mut Begun) -> Result<(), String> {
        let mut text = std::mem::take(&mut self.partial);
        let mut lines = lines;
        if !text.is_empty() {
            text.extend_from_slice(lines);
            lines = &text;
        }
        let Some(last) = lines.last() else { return Ok(()) };
        let before = match last {
            b'\n' => begun.remove(&self.outlet),
            _ => begun.insert(self.outlet, self.number),
        };
        if !self.has_tag() {
            return outlets.write(self.outlet, lines);
        }
        let tag = match (self.has_time, self.tag.is_empty()) {
            (false, _) => self.tag.clone(),
            (true, true) => os::local_time() + ": ",
            (true, false) => os::local_time() + &self.tag,
        };
        let start = match before {
            Some(number) if number == self.number => Start::GoesOn,
            Some(_) => Start::Below,
            None => Start::Fresh,
        };
        outlets.write(self.outlet, &tagged(&tag, start, lines))
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

/// Where lines begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// Behind the end of one.
    Fresh,
    /// In one of the same stream.
    GoesOn,
    /// In one of another stream, which is ended first.
    Below,
}

fn tagged(tag: &str, start: Start, lines: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(lines.len() + tag.len() + 1);
    if start == Start::Below {
        text.push(b'\n');
    }
    for (number, line) in lines.split_inclusive(|&b| b == b'\n').enumerate() {
        if number > 0 || start != Start::GoesOn {
            text.extend_from_slice(tag.as_bytes());
        }
        text.extend_from_slice(line);
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
        assert_eq!(tagged("[1] ", Start::Fresh, b"a\n\nb"), b"[1] a\n[1] \n[1] b");
        assert_eq!(tagged("[1] ", Start::GoesOn, b"a\nb"), b"a\n[1] b");
        assert_eq!(tagged("[1] ", Start::Below, b"a\n"), b"\n[1] a\n");
    }
}
