//! How [`super`] ends a job, tells other families of its end, and what it does about signals.

use super::{GRACE, LINGER, Watch};
use crate::debugger;
use crate::os;
use mpi::shm::segment::Life;
use std::time::Instant;

impl Watch<'_> {
    /// A signal has come to mpirun.
    pub(super) fn signal(&mut self, number: i32, from_terminal: bool) {
        let ends = matches!(number, libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT);
        if ends {
            let wait = if self.until.is_none() { LINGER } else { GRACE };
            let until = Instant::now() + wait;
            self.until = Some(self.until.map_or(until, |before| before.min(until)));
        }
        match number {
            libc::SIGCHLD => {}
            _ if ends && self.ending.is_some() => self.kill_hard(),
            _ if ends => {
                self.code.get_or_insert(128 + number);
                self.ending = Some(Instant::now() + GRACE);
                self.send(number, from_terminal);
            }
            libc::SIGUSR1 => {
                self.tell("what the ranks are doing:", false);
                // Who does not handle it would die of it, and only wanted to be asked.
                for (rank, end) in self.started.ranks.iter().zip(&self.ends) {
                    if end.is_none() && os::catches(rank.pid, number) {
                        os::kill(rank.pid, rank.own_group, number);
                    }
                }
            }
            libc::SIGTSTP => {
                self.send(libc::SIGSTOP, false);
                os::kill(std::process::id() as i32, false, libc::SIGSTOP);
            }
            other => self.send(other, from_terminal),
        }
    }

    /// Ends the job with `code`, unless it is being ended already.
    pub(super) fn end_job(&mut self, code: i32, signal: i32) {
        if self.ending.is_none() {
            debugger::show_end(code);
            // Those who count on these ranks end with them.
            let (segment, first) = (&self.started.segment, self.started.first);
            if !self.leads() && self.were_all_in_mpi() && !segment.is_apart(first) {
                segment.abort(first, code as u8);
            }
            self.code.get_or_insert(code);
            self.ending = Some(Instant::now() + GRACE);
            self.send(signal, false);
            // Who is stopped cannot die of SIGTERM.
            self.send(libc::SIGCONT, false);
        }
    }

    pub(super) fn kill_hard(&mut self) {
        self.ending.get_or_insert_with(Instant::now);
        self.killed.get_or_insert_with(Instant::now);
        self.send(libc::SIGKILL, false);
    }

    /// Signals the ranks that live. What the terminal sent, a rank in our own group has got already.
    fn send(&self, signal: i32, from_terminal: bool) {
        for (rank, end) in self.started.ranks.iter().zip(&self.ends) {
            if end.is_none() && (rank.own_group || !from_terminal) {
                os::kill(rank.pid, rank.own_group, signal);
            }
        }
    }

    /// The ranks are gone, or will not do anything any more. Tells those of other families, who may wait for one of them, which have
    /// died.
    pub(super) fn tell_others(&self) {
        let segment = &self.started.segment;
        let _ = segment.grow();
        if !segment.has_joined() {
            return;
        }
        let places = (0..self.ends.len()).map(|rank| self.place(rank));
        places
            .filter(|&place| segment.life(place) == Life::Attached)
            .for_each(|place| segment.bury(place));
    }
}
