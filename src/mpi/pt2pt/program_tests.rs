//! Random programs of one receiver and several senders, with wildcards, probes, matched probes and
//! cancelled receives, held against the rules of MPI-4.1 §3.5 as a matcher that sees the whole history.

use super::tests::job;
use super::*;
use crate::mpi::status::{ANY_SOURCE, ANY_TAG};
use proptest::prelude::*;
use std::sync::Mutex;

/// A message of a sender's list; its bytes say who sent it and which of the list it is.
#[derive(Clone, Debug)]
struct Message {
    tag: i32,
    len: usize,
    synchronous: bool,
}

/// What the receiver does next.
#[derive(Clone, Debug)]
enum Step {
    /// A receive, left open.
    Receive(i32, i32),
    /// A look, and if it finds something a receive of what it found.
    Probe(i32, i32),
    /// A matched look, and a receive of what it took.
    Matched(i32, i32),
    /// Cancels one of the open receives.
    Cancel(prop::sample::Index),
    /// Some progress.
    Poll,
}

/// A receive as it went: its wishes, when it was posted and seen to end, and what it got.
#[derive(Clone, Debug)]
struct Past {
    source: i32,
    tag: i32,
    posted: usize,
    ended: usize,
    cancel_asked: usize,
    got: Option<(u32, usize)>,
}

const SENDERS: u32 = 2;
const RECEIVER: u32 = SENDERS;
/// Every message is longer than this: room for its sender and its number.
const HEADER: usize = 8;

fn message() -> impl Strategy<Value = Message> {
    let len = prop_oneof![6 => HEADER..60usize, 3 => 60..3000usize, 1 => 3000..70_000usize];
    (0..3i32, len, prop::bool::weighted(0.2)).prop_map(|(tag, len, synchronous)| Message { tag, len, synchronous })
}

fn step() -> impl Strategy<Value = Step> {
    let source = || prop_oneof![3 => 0..SENDERS as i32, 2 => Just(ANY_SOURCE)];
    let tag = || prop_oneof![3 => 0..3i32, 2 => Just(ANY_TAG)];
    prop_oneof![
        6 => (source(), tag()).prop_map(|(s, t)| Step::Receive(s, t)),
        2 => (source(), tag()).prop_map(|(s, t)| Step::Probe(s, t)),
        2 => (source(), tag()).prop_map(|(s, t)| Step::Matched(s, t)),
        2 => any::<prop::sample::Index>().prop_map(Step::Cancel),
        2 => Just(Step::Poll),
    ]
}

fn contents(sender: u32, number: usize, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..len)
        .map(|at| (at ^ number.wrapping_mul(37) ^ sender as usize) as u8)
        .collect();
    bytes[..4].copy_from_slice(&sender.to_ne_bytes());
    bytes[4..HEADER].copy_from_slice(&(number as u32).to_ne_bytes());
    bytes
}

/// The receiver's side: open receives with their memory, and the history.
struct Receiver<'h, 'w> {
    hold: &'h mut Hold<'w>,
    comm: Rc<Comm>,
    sent: Vec<Vec<Message>>,
    now: usize,
    open: Vec<(RequestKey, Vec<u8>, usize)>,
    past: Vec<Past>,
}

impl Receiver<'_, '_> {
    fn tick(&mut self) -> usize {
        self.now += 1;
        self.now
    }

    fn note(&mut self, source: i32, tag: i32) -> usize {
        let posted = self.tick();
        self.past.push(Past {
            source,
            tag,
            posted,
            ended: usize::MAX,
            cancel_asked: usize::MAX,
            got: None,
        });
        self.past.len() - 1
    }

    fn post(&mut self, source: i32, tag: i32) {
        let which = self.note(source, tag);
        let mut bytes = vec![0xee; 70_000];
        let room = Buffer::bytes(bytes.as_mut_ptr(), bytes.len());
        let key = irecv(self.hold, &self.comm, Plane::PointToPoint, room, source, tag).unwrap();
        self.open.push((key, bytes, which));
    }

    /// Checks what came, byte for byte, and writes it into the history.
    fn came(&mut self, which: usize, status: Status, bytes: &[u8]) {
        let ended = self.tick();
        self.past[which].ended = ended;
        if status.cancelled {
            assert!(self.past[which].cancel_asked < ended, "nobody asked to cancel");
            return;
        }
        let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        let (sender, number) = (word(0), word(4) as usize);
        let message = &self.sent[sender as usize][number];
        assert_eq!((status.source, status.tag), (sender as i32, message.tag));
        assert_eq!(status.bytes as usize, message.len);
        assert!(bytes[..message.len] == contents(sender, number, message.len));
        assert!(bytes[message.len..].iter().all(|&byte| byte == 0xee));
        self.past[which].got = Some((sender, number));
    }

    /// Takes note of every open receive that is over.
    fn reap(&mut self) {
        let mut at = 0;
        while at < self.open.len() {
            if !is_done(self.hold, self.open[at].0) {
                at += 1;
                continue;
            }
            let (key, bytes, which) = self.open.remove(at);
            let status = finish(self.hold, key).unwrap();
            self.came(which, status, &bytes);
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Receive(source, tag) => self.post(source, tag),
            Step::Probe(source, tag) => {
                let Some(seen) = probe::iprobe(self.hold, &self.comm, source, tag).unwrap() else {
                    return;
                };
                self.reap();
                let which = self.note(seen.source, seen.tag);
                let mut bytes = vec![0xee; 70_000];
                let room = Buffer::bytes(bytes.as_mut_ptr(), bytes.len());
                let plane = Plane::PointToPoint;
                let status = recv(self.hold, &self.comm, plane, room, seen.source, seen.tag).unwrap();
                assert_eq!(
                    (status.source, status.tag, status.bytes),
                    (seen.source, seen.tag, seen.bytes)
                );
                self.came(which, status, &bytes);
            }
            Step::Matched(source, tag) => {
                let Some((matched, seen)) = probe::improbe(self.hold, &self.comm, source, tag).unwrap() else {
                    return;
                };
                self.reap();
                let which = self.note(source, tag);
                let mut bytes = vec![0xee; 70_000];
                let room = Buffer::bytes(bytes.as_mut_ptr(), bytes.len());
                let key = imrecv(self.hold, matched, room).unwrap();
                let status = wait(self.hold, key).unwrap();
                assert_eq!(
                    (status.source, status.tag, status.bytes),
                    (seen.source, seen.tag, seen.bytes)
                );
                self.came(which, status, &bytes);
            }
            Step::Cancel(index) if !self.open.is_empty() => self.cancel(index.index(self.open.len())),
            Step::Cancel(_) => {}
            Step::Poll => drop(self.hold.progress(None).unwrap()),
        }
        self.reap();
    }

    fn cancel(&mut self, at: usize) {
        let (key, bytes, which) = self.open.remove(at);
        self.past[which].cancel_asked = self.tick();
        request::cancel(self.hold, key).unwrap();
        let status = wait(self.hold, key).unwrap();
        self.came(which, status, &bytes);
    }

    /// Cancels what is open, receives the rest, and tells the history.
    fn end(mut self) -> Vec<Past> {
        while !self.open.is_empty() {
            self.cancel(0);
        }
        let all: usize = self.sent.iter().map(Vec::len).sum();
        while self.past.iter().filter(|past| past.got.is_some()).count() < all {
            self.post(ANY_SOURCE, ANY_TAG);
            let (key, bytes, which) = self.open.pop().unwrap();
            let status = wait(self.hold, key).unwrap();
            self.came(which, status, &bytes);
        }
        self.past
    }
}

/// Every message was received once, and nobody overtook: see the two rules below.
fn check(sent: &[Vec<Message>], past: &[Past]) {
    let wants = |past: &Past, sender: u32, tag: i32| {
        (past.source == ANY_SOURCE || past.source == sender as i32) && (past.tag == ANY_TAG || past.tag == tag)
    };
    let taker = |sender: u32, number: usize| {
        let mut takers = past.iter().filter(|past| past.got == Some((sender, number)));
        let taker = takers.next().expect("a message was lost");
        assert!(takers.next().is_none(), "a message came twice");
        taker
    };
    for sender in 0..sent.len() as u32 {
        for (number, message) in sent[sender as usize].iter().enumerate() {
            let mine = taker(sender, number);
            // Messages of one sender: what this receive could have had earlier had gone to an earlier receive.
            for (before, earlier) in sent[sender as usize][..number].iter().enumerate() {
                if wants(mine, sender, earlier.tag) {
                    assert!(
                        taker(sender, before).posted < mine.posted,
                        "{earlier:?} was overtaken by {message:?}"
                    );
                }
            }
            // Receives: an earlier one that wanted this message had got an earlier one, or one of another
            // sender, or was cancelled and not yet known to be so when this message was received.
            for other in past
                .iter()
                .filter(|other| other.posted < mine.posted && wants(other, sender, message.tag))
            {
                match other.got {
                    Some((from, at)) if from == sender => assert!(at < number, "{mine:?} overtook {other:?}"),
                    Some(_) => {}
                    None => assert!(other.cancel_asked < mine.ended, "{mine:?} overtook the open {other:?}"),
                }
            }
        }
    }
}

fn run(set: &[(&str, &str)], sent: &[Vec<Message>], steps: &[Step]) {
    let history = Mutex::new(Vec::new());
    job(SENDERS + 1, set, |rank, world| {
        let mut hold = world.hold();
        let comm = hold.world.clone();
        if rank == RECEIVER {
            let mut receiver = Receiver {
                hold: &mut hold,
                comm,
                sent: sent.to_vec(),
                now: 0,
                open: Vec::new(),
                past: Vec::new(),
            };
            steps.iter().for_each(|step| receiver.take(step));
            *history.lock().unwrap() = receiver.end();
            return;
        }
        let mut memory: Vec<Vec<u8>> = sent[rank as usize]
            .iter()
            .enumerate()
            .map(|(number, message)| contents(rank, number, message.len))
            .collect();
        let mut requests = Vec::new();
        for (bytes, message) in memory.iter_mut().zip(&sent[rank as usize]) {
            let mode = if message.synchronous {
                Mode::Synchronous
            } else {
                Mode::Standard
            };
            let buffer = Buffer::bytes(bytes.as_mut_ptr(), bytes.len());
            requests.push(
                isend(
                    &mut hold,
                    &comm,
                    Plane::PointToPoint,
                    buffer,
                    RECEIVER,
                    message.tag,
                    mode,
                )
                .unwrap(),
            );
        }
        for request in requests {
            wait(&mut hold, request).unwrap();
        }
    });
    check(sent, &history.into_inner().unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(debug_assertions) { 40 } else { 200 }, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_match_as_the_standard_says(
        sent in prop::collection::vec(prop::collection::vec(message(), 0..20), SENDERS as usize),
        steps in prop::collection::vec(step(), 0..40),
        paths in 0..3usize,
    ) {
        let set: &[(&str, &str)] = [
            &[][..],
            &[("NEARMPI_ONE_COPY", "0")],
            &[("NEARMPI_ONE_COPY_MIN", "1"), ("NEARMPI_OFFER_MIN", "1")],
        ][paths];
        run(set, &sent, &steps);
    }
}
