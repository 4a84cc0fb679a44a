//! Matching against a reference that a reader can check by eye, and its cost in steps and bytes.

use super::*;
use proptest::prelude::*;
use std::cell::Cell;

thread_local! {
    /// Slots of hash tables looked at.
    pub static STEPS: Cell<u64> = const { Cell::new(0) };
}

fn steps_of(work: impl FnOnce()) -> u64 {
    STEPS.set(0);
    work();
    STEPS.get()
}

/// The queues as MPI describes them: everything in order, first match wins.
#[derive(Default)]
struct Reference {
    posted: Vec<(i32, i32, i32, u32)>,
    arrived: Vec<(Envelope, u32)>,
}

impl Reference {
    fn wants((context, source, tag): (i32, i32, i32), envelope: Envelope) -> bool {
        i32::from(envelope.context()) == context
            && (source == ANY_SOURCE || envelope.source() as i32 == source)
            && (tag == envelope.tag() || tag == ANY_TAG && envelope.tag() >= 0)
    }

    fn take_posted(&mut self, envelope: Envelope) -> Option<u32> {
        let at = self
            .posted
            .iter()
            .position(|&(c, s, t, _)| Self::wants((c, s, t), envelope))?;
        Some(self.posted.remove(at).3)
    }

    fn take_arrived(&mut self, wanted: (i32, i32, i32)) -> Option<(Envelope, u32)> {
        let at = self
            .arrived
            .iter()
            .position(|&(envelope, _)| Self::wants(wanted, envelope))?;
        Some(self.arrived.remove(at))
    }

    fn cancel(&mut self, id: u32) -> bool {
        let before = self.posted.len();
        self.posted.retain(|&(.., posted)| posted != id);
        self.posted.len() < before
    }
}

#[derive(Clone, Debug)]
enum Event {
    /// A receive: takes a stored message or is posted.
    Receive(u16, i32, i32),
    /// A message: takes a posted receive or is stored.
    Arrive(u16, u32, i32),
    Cancel(prop::sample::Index),
    Probe(u16, i32, i32),
}

fn event() -> impl Strategy<Value = Event> {
    let source = prop_oneof![4 => 0..3i32, 1 => Just(ANY_SOURCE)];
    let tag = prop_oneof![4 => 0..6i32, 1 => Just(ANY_TAG)];
    let wanted = (0..2u16, source, tag);
    let arrival = (0..2u16, 0..3u32, prop_oneof![12 => 0..6i32, 1 => Just(-7)]);
    prop_oneof![
        4 => wanted.clone().prop_map(|(c, s, t)| Event::Receive(c, s, t)),
        4 => arrival.prop_map(|(c, s, t)| Event::Arrive(c, s, t)),
        1 => any::<prop::sample::Index>().prop_map(Event::Cancel),
        1 => wanted.prop_map(|(c, s, t)| Event::Probe(c, s, t)),
    ]
}

fn check(events: &[Event]) {
    let (mut posted, mut unexpected) = (Posted::<u32>::default(), Unexpected::<u32>::default());
    let mut reference = Reference::default();
    let mut tokens = Vec::new();
    for (id, event) in events.iter().enumerate() {
        let id = id as u32;
        match *event {
            Event::Receive(context, source, tag) => {
                let pattern = Pattern::new(context, source, tag);
                let wanted = (i32::from(context), source, tag);
                let place = unexpected.find(pattern);
                let seen = place.as_ref().and_then(|place| unexpected.at(place));
                let seen = seen.map(|(envelope, id)| (envelope, *id));
                let taken = match place {
                    Some(place) if id.is_multiple_of(2) => {
                        unexpected.discard(place);
                        seen
                    }
                    place => place.and_then(|place| unexpected.remove(place)),
                };
                assert_eq!(seen, taken);
                assert_eq!(taken, reference.take_arrived(wanted));
                if taken.is_none() {
                    tokens.push((posted.post(pattern, id), id));
                    reference.posted.push((wanted.0, source, tag, id));
                }
            }
            Event::Arrive(context, source, tag) => {
                let envelope = Envelope::new(context, source, tag);
                let wanted = posted.wants(envelope);
                let taken = posted.take(envelope);
                assert_eq!(wanted, taken.is_some());
                assert_eq!(taken, reference.take_posted(envelope));
                if taken.is_none() {
                    unexpected.push(envelope, id);
                    reference.arrived.push((envelope, id));
                }
            }
            Event::Cancel(index) => {
                if !tokens.is_empty() {
                    let (token, id) = *index.get(&tokens);
                    assert_eq!(posted.cancel(token), reference.cancel(id));
                }
            }
            Event::Probe(context, source, tag) => {
                let found = unexpected.peek(Pattern::new(context, source, tag));
                let wanted = (i32::from(context), source, tag);
                let mut arrived = reference.arrived.iter();
                let expected = arrived.find(|(envelope, _)| Reference::wants(wanted, *envelope));
                assert_eq!(found, expected.map(|(envelope, id)| (*envelope, id)));
            }
        }
        assert_eq!(posted.len(), reference.posted.len());
        assert_eq!(unexpected.len(), reference.arrived.len());
        assert_eq!(unexpected.iter().count(), reference.arrived.len());
    }
}

proptest! {
    #[test]
    fn matches_as_the_reference_does(events in prop::collection::vec(event(), 0..400)) {
        check(&events);
    }

    /// Bursts make the queues long, and long enough to grow their tables.
    #[test]
    fn matches_as_the_reference_does_after_bursts(
        bursts in prop::collection::vec((event(), 1..120usize, 0..7i32), 0..24)
    ) {
        let mut events = Vec::new();
        for (event, count, stride) in bursts {
            for n in 0..count as i32 {
                events.push(match event.clone() {
                    Event::Arrive(c, s, t) => Event::Arrive(c, s, if t < 0 { t } else { t + n * stride }),
                    Event::Receive(c, s, t) => Event::Receive(c, s, if t < 0 { t } else { t + n * stride }),
                    other => other,
                });
            }
        }
        check(&events);
    }
}

#[test]
fn an_envelope_keeps_its_parts() {
    let envelope = Envelope::new(0xfffe, 0xffff, i32::MAX);
    assert_eq!(
        (envelope.context(), envelope.source(), envelope.tag()),
        (0xfffe, 0xffff, i32::MAX)
    );
    assert!(Pattern::exact(envelope).matches(envelope));
    assert!(Pattern::new(0xfffe, 0xffff, i32::MAX).matches(envelope));
    assert!(!Pattern::new(0xfffc, ANY_SOURCE, ANY_TAG).matches(envelope));
    assert!(!Pattern::new(1, ANY_SOURCE, ANY_TAG).matches(Envelope::new(1, 0, -5)));
}

#[test]
fn a_token_survives_both_moves_and_works_once() {
    let mut posted = Posted::default();
    let early: Vec<_> = (0..10).map(|tag| posted.post(Pattern::new(0, 1, tag), tag)).collect();
    let late: Vec<_> = (10..100).map(|tag| posted.post(Pattern::new(0, 1, tag), tag)).collect();
    assert!(posted.cancel(early[3]) && !posted.cancel(early[3]));
    assert!(posted.cancel(late[50]) && !posted.cancel(late[50]));
    for tag in (2..98).filter(|&tag| tag != 3 && tag != 60) {
        assert_eq!(posted.take(Envelope::new(0, 1, tag)), Some(tag));
    }
    assert_eq!(posted.len(), 4);
    assert!(!posted.is_long);
    assert!(posted.cancel(early[0]) && posted.cancel(late[89]) && !posted.cancel(early[5]));
    assert_eq!(posted.take(Envelope::new(0, 1, 98)), Some(98));
    assert_eq!(posted.len(), 1);
}

#[test]
fn what_comes_in_order_needs_no_lists_at_any_length() {
    let count = 50_000;
    let (mut posted, mut unexpected) = (Posted::default(), Unexpected::default());
    let steps = steps_of(|| {
        for tag in 0..count {
            posted.post(Pattern::new(2, 5, tag), tag);
            unexpected.push(Envelope::new(2, 5, tag), tag);
        }
        for tag in 0..count {
            assert_eq!(posted.take(Envelope::new(2, 5, tag)), Some(tag));
            assert_eq!(
                unexpected.take(Pattern::new(2, 5, tag)),
                Some((Envelope::new(2, 5, tag), tag))
            );
            assert!(!posted.is_long && unexpected.is_row());
        }
    });
    assert!(steps <= 2 * count as u64, "{steps} steps");
}

#[test]
fn reverse_order_costs_a_few_steps_each() {
    for count in [512, 50_000] {
        let mut posted = Posted::default();
        for tag in 0..count {
            posted.post(Pattern::new(2, if tag % 3 == 0 { ANY_SOURCE } else { 5 }, tag), tag);
        }
        let steps = steps_of(|| {
            for tag in (0..count).rev() {
                assert_eq!(posted.take(Envelope::new(2, 5, tag)), Some(tag));
            }
        });
        assert!(steps < 16 * count as u64, "{steps} steps for {count} matches");
    }
}

#[test]
fn equal_posted_receives_cost_a_few_steps_each() {
    let count = 20_000;
    let mut posted = Posted::default();
    let tokens: Vec<_> = (0..count)
        .map(|n| posted.post(Pattern::new(2, 5, ANY_TAG), n))
        .collect();
    let steps = steps_of(|| {
        for (n, token) in tokens.iter().enumerate().skip(1).step_by(2) {
            assert!(posted.cancel(*token), "{n}");
        }
        for n in (0..count).step_by(2) {
            assert_eq!(posted.take(Envelope::new(2, 5, 9)), Some(n));
        }
    });
    assert!(steps < 8 * count as u64, "{steps} steps");
}

#[test]
fn a_long_unexpected_queue_costs_a_few_steps_a_match() {
    for count in [1_000, 100_000] {
        let mut unexpected = Unexpected::default();
        let steps = steps_of(|| {
            for n in 0..count {
                unexpected.push(Envelope::new(4, n as u32 % 7, n / 2), n);
            }
            for n in (0..count).rev().step_by(4) {
                let found = unexpected.take(Pattern::new(4, n % 7, n / 2)).unwrap();
                assert_eq!(found.1, n);
            }
            for _ in 0..count / 4 {
                unexpected.take(Pattern::new(4, ANY_SOURCE, ANY_TAG)).unwrap();
            }
            for source in (0..7).cycle().take(count as usize / 8) {
                unexpected.take(Pattern::new(4, source, ANY_TAG)).unwrap();
            }
            for n in (0..count).rev().step_by(2) {
                unexpected.take(Pattern::new(4, ANY_SOURCE, n / 2));
            }
        });
        assert!(steps < 40 * count as u64, "{steps} steps for {count} messages");
    }
}

#[test]
fn places_are_used_again_when_many_are_free_and_the_order_stays() {
    let mut unexpected = Unexpected::default();
    let rounds = 50_000;
    (0..40).for_each(|n| unexpected.push(Envelope::new(4, 1, n), n));
    for n in 40..rounds {
        // The latest but one goes: the queue stays long, and the first ones stay.
        assert_eq!(unexpected.take(Pattern::new(4, 1, n - 1)).unwrap().1, n - 1);
        unexpected.push(Envelope::new(4, 1, n), n);
    }
    assert!(!unexpected.is_row());
    assert!(unexpected.nodes.len() < 4 * 40, "{}", unexpected.nodes.len());
    let rest = std::iter::from_fn(|| unexpected.take(Pattern::new(4, ANY_SOURCE, ANY_TAG)));
    let rest: Vec<i32> = rest.map(|(_, n)| n).collect();
    assert_eq!(rest, (0..39).chain([rounds - 1]).collect::<Vec<_>>());
}

#[test]
fn a_flood_received_from_its_end_gets_its_lists_at_once() {
    for count in [100, 10_000] {
        let mut unexpected = Unexpected::default();
        (0..count).for_each(|n| unexpected.push(Envelope::new(4, 1, n), n));
        let steps = steps_of(|| {
            for n in (0..count).rev() {
                assert_eq!(unexpected.take(Pattern::new(4, 1, n)).unwrap().1, n);
            }
        });
        assert!(steps < 5 * count as u64, "{steps} steps for {count} messages");
    }
}

#[test]
fn a_flood_that_ascends_gets_no_lists_while_it_is_received_by_strides() {
    let count = 10_000;
    for stride in [-7, -1, 1, 3] {
        let mut unexpected = Unexpected::default();
        (0..count).for_each(|n| unexpected.push(Envelope::new(4, 1, n), n));
        let mut left = count - 1;
        let steps = steps_of(|| {
            // 7919 is as good as any start that is not the first; the stride leads round and round, over what is gone.
            let mut n: i32 = 7919;
            while (0..count).contains(&n) {
                assert_eq!(unexpected.take(Pattern::new(4, 1, n)).unwrap().1, n);
                left -= 1;
                n += stride;
            }
        });
        let taken = count - 1 - left;
        assert_eq!(unexpected.way, super::unexpected::Way::Ascending);
        assert!(
            steps < 2 * taken as u64 + 100,
            "{steps} steps for {taken} messages by {stride}"
        );
        // One that is like another goes behind it.
        unexpected.push(Envelope::new(4, 1, 2), -1);
        unexpected.push(Envelope::new(4, 1, 2), -2);
        let alike = std::iter::from_fn(|| unexpected.take(Pattern::new(4, 1, 2)));
        assert_eq!(alike.map(|(_, n)| n).filter(|&n| n < 0).collect::<Vec<_>>(), [-1, -2]);
    }
}

#[test]
fn what_is_as_far_away_as_the_last_is_not_taken_before_one_like_it() {
    // Tags 0 to 99, then 50 again between others: backwards the second 50 comes first, and the first must be taken.
    let mut unexpected = Unexpected::default();
    let tags: Vec<i32> = (0..100).chain(200..210).chain([50]).chain(300..310).collect();
    for (n, &tag) in tags.iter().enumerate() {
        unexpected.push(Envelope::new(4, 1, tag), n);
    }
    for n in (111..121).rev() {
        assert_eq!(unexpected.take(Pattern::new(4, 1, tags[n])).unwrap().1, n);
    }
    assert_eq!(unexpected.take(Pattern::new(4, 1, 50)).unwrap().1, 50);
    assert_eq!(unexpected.take(Pattern::new(4, 1, 49)).unwrap().1, 49);
    assert_eq!(unexpected.take(Pattern::new(4, 1, 50)).unwrap().1, 110);
    assert!(unexpected.take(Pattern::new(4, 1, 50)).is_none());
}

#[test]
fn an_unexpected_message_of_32_bytes_costs_at_most_100() {
    let mut unexpected = Unexpected::default();
    let count = 1_000_000;
    for n in 0..count as i32 {
        unexpected.push(Envelope::new(4, n as u32 % 7, n), [n as u64; 4]);
    }
    assert!(unexpected.peek(Pattern::new(4, ANY_SOURCE, 500)).is_some());
    assert!(unexpected.peek(Pattern::new(4, 0, ANY_TAG)).is_some());
    assert!(unexpected.peek(Pattern::new(4, 0, 7)).is_some());
    assert!(unexpected.lists.iter().flatten().count() == 3);
    let Unexpected { nodes, lists, .. } = &unexpected;
    let lists = lists.iter().flatten();
    let lists: usize = lists
        .map(|lists| (lists.lasts.slots.capacity() + lists.next.capacity()) * 4)
        .sum();
    let bytes = nodes.capacity() * size_of_val(&nodes[0]) + lists;
    assert!(bytes <= 100 * count, "{} bytes a message", bytes / count);
}

#[test]
fn a_drained_queue_gives_its_memory_back() {
    let mut unexpected = Unexpected::default();
    for n in 0..20_000 {
        unexpected.push(Envelope::new(4, 0, n), n);
    }
    while unexpected.take(Pattern::new(4, ANY_SOURCE, ANY_TAG)).is_some() {}
    assert!(unexpected.is_empty() && unexpected.is_row());
    assert_eq!(unexpected.nodes.capacity(), SHORT);
    // The same when it is left with a few, which stay in their order.
    for n in 0..20_000 {
        unexpected.push(Envelope::new(4, 0, n), n);
    }
    for n in (FEW as i32..20_000).rev() {
        unexpected.take(Pattern::new(4, 0, n)).unwrap();
    }
    assert!(unexpected.is_row());
    assert_eq!(unexpected.nodes.capacity(), SHORT);
    let rest = std::iter::from_fn(|| unexpected.take(Pattern::new(4, ANY_SOURCE, ANY_TAG)));
    assert_eq!(rest.map(|(_, n)| n).collect::<Vec<_>>(), [0, 1, 2, 3]);
}

#[test]
fn the_signature_of_a_collective_call_does_not_count() {
    let tag = |number: i32, signature: i32| i32::MIN | signature << 21 | number;
    let (context, many) = (1, 100);
    let mut posted = Posted::default();
    let mut unexpected = Unexpected::default();
    for number in 0..many {
        posted.post(Pattern::new(context, 3, tag(number, 5)), number);
        unexpected.push(Envelope::new(context, 3, tag(number, 6)), number);
    }
    for number in (0..many).rev() {
        let other = Envelope::new(context, 3, tag(number, 1023));
        assert_eq!(posted.take(other), Some(number));
        let taken = unexpected.take(Pattern::new(context, 3, tag(number, 9)));
        assert_eq!(
            taken.map(|(envelope, item)| (envelope.tag(), item)),
            Some((tag(number, 6), number))
        );
    }
    // The program's own tags count whole.
    posted.post(Pattern::new(0, 3, 1 << 21), 0);
    assert_eq!(posted.take(Envelope::new(0, 3, 2 << 21)), None);
}

#[test]
fn negative_tags_name_calls_on_the_collective_plane_alone() {
    let alike = |context, other| {
        let (tag, other) = (i32::MIN, i32::MIN + other);
        let envelope = Envelope::new(context, 3, other);
        let patterns = [
            Pattern::new(context, 3, tag),
            Pattern::exact(Envelope::new(context, 3, tag)),
        ];
        patterns.map(|pattern| pattern.matches(envelope))
    };
    for bit in 0..31 {
        assert_eq!(alike(6, 1 << bit), [false; 2], "bit {bit}");
        assert_eq!(alike(7, 1 << bit), [bit >= 21; 2], "bit {bit}");
    }
}
