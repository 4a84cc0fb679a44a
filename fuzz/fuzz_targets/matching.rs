//! The matching queues against a list that is searched from the front, as MPI-4.1 §3.5 describes it.
//! Four bytes of input are an event: what, context and source, tag, how often.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mpi::mpi::pt2pt::matching::{Envelope, Pattern, Posted, Unexpected};
use mpi::mpi::status::{ANY_SOURCE, ANY_TAG};

/// A receive: context, source, tag, which.
type Wish = (u16, i32, i32, u32);

fn wants(&(context, source, tag, _): &Wish, envelope: Envelope) -> bool {
    envelope.context() == context
        && (source == ANY_SOURCE || envelope.source() as i32 == source)
        && (tag == envelope.tag() || tag == ANY_TAG && envelope.tag() >= 0)
}

fuzz_target!(|input: &[u8]| {
    let (mut posted, mut unexpected) = (Posted::<u32>::default(), Unexpected::<u32>::default());
    let (mut wishes, mut arrived) = (Vec::<Wish>::new(), Vec::<(Envelope, u32)>::new());
    let (mut tokens, mut number) = (Vec::new(), 0);
    for event in input.as_chunks::<4>().0 {
        let [what, from, tag, times] = *event;
        let (context, source) = (u16::from(from >> 7), i32::from(from & 7));
        for turn in 0..=i32::from(times & 31) {
            number += 1;
            let tag = i32::from(tag & 63) + turn * i32::from(times >> 5);
            let wish = (
                context,
                if source == 7 { ANY_SOURCE } else { source },
                if what & 0x80 != 0 { ANY_TAG } else { tag },
                number,
            );
            let pattern = Pattern::new(wish.0, wish.1, wish.2);
            match what & 3 {
                0 => {
                    let at = arrived.iter().position(|(envelope, _)| wants(&wish, *envelope));
                    let expected = at.map(|at| arrived.remove(at));
                    assert_eq!(unexpected.take(pattern), expected);
                    if expected.is_none() {
                        tokens.push((posted.post(pattern, number), number));
                        wishes.push(wish);
                    }
                }
                1 => {
                    let envelope = Envelope::new(context, source as u32, tag);
                    let at = wishes.iter().position(|wish| wants(wish, envelope));
                    let expected = at.map(|at| wishes.remove(at).3);
                    assert_eq!(posted.take(envelope), expected);
                    if expected.is_none() {
                        unexpected.push(envelope, number);
                        arrived.push((envelope, number));
                    }
                }
                2 => {
                    let expected = arrived.iter().find(|(envelope, _)| wants(&wish, *envelope));
                    let found = unexpected.peek(pattern).map(|(envelope, &which)| (envelope, which));
                    assert_eq!(found, expected.copied());
                }
                _ if !tokens.is_empty() => {
                    let (token, which) = tokens[tag as usize % tokens.len()];
                    let at = wishes.iter().position(|wish| wish.3 == which);
                    assert_eq!(posted.cancel(token), at.is_some());
                    at.map(|at| wishes.remove(at));
                }
                _ => {}
            }
        }
        assert_eq!((posted.len(), unexpected.len()), (wishes.len(), arrived.len()));
    }
});
