//! Tests of the ring.

use super::*;

/// A ring on the heap.
pub struct Heap {
    slots: Box<[Slot]>,
    bytes: Box<[u64]>,
    larger: Box<[u64]>,
    credit: Box<Credit>,
}

impl Heap {
    pub fn new(slots: usize, bytes: usize) -> Heap {
        Heap {
            slots: (0..slots).map(|_| Slot::default()).collect(),
            bytes: vec![0; bytes / 8].into(),
            larger: vec![0; bytes / 2].into(),
            credit: Box::default(),
        }
    }

    pub fn place(&self) -> Place {
        Place {
            slots: NonNull::from(&self.slots[0]),
            slot_count: self.slots.len() as u32,
            bytes: NonNull::from(&self.bytes[0]).cast(),
            byte_count: self.bytes.len() as u32 * 8,
            credit: NonNull::from(&*self.credit),
        }
    }

    /// Four times the size of the first byte ring.
    fn larger(&self) -> Larger {
        Larger {
            bytes: NonNull::from(&self.larger[0]).cast(),
            byte_count: self.larger.len() as u32 * 8,
        }
    }
}

fn ends(heap: &Heap, fraction: u32) -> (Producer, Consumer) {
    // SAFETY: the heap ring outlives both ends in every test, and there is one of each.
    unsafe { (Producer::new(heap.place()), Consumer::new(heap.place(), fraction)) }
}

/// As `ends`, of a ring that grows when `after` bytes have gone through it while it was full.
fn growing(heap: &Heap, fraction: u32, after: u64) -> (Producer, Consumer) {
    let (producer, consumer) = ends(heap, fraction);
    let larger = Some(heap.larger());
    // SAFETY: as above, and each end is told of the same larger ring.
    unsafe { (producer.growing(larger, after), consumer.growing(larger)) }
}

/// Puts message `value` of `len` bytes into the ring, if it has room.
fn put(producer: &mut Producer, value: u8, len: u32) -> bool {
    if !producer.has_slot().unwrap() {
        return false;
    }
    let Some(room) = producer.reserve(len).unwrap() else {
        return false;
    };
    // SAFETY: `reserve` gave `len` bytes.
    unsafe { room.write_bytes(value, len as usize) };
    producer.push(Header { kind: 1, aux: 0, len }, value.into(), &[]);
    true
}

/// Takes what is next, of which the envelope says what its bytes are; whether that was a message.
fn get(consumer: &mut Consumer) -> Option<bool> {
    let header = consumer.peek()?;
    if header.kind == LARGER {
        consumer.enlarge(header.len).unwrap();
        consumer.advance(0);
        return Some(false);
    }
    let at = consumer.bytes(header.len).unwrap();
    for byte in 0..header.len as usize {
        // SAFETY: `bytes` found so many.
        assert_eq!(u64::from(unsafe { at.add(byte).read() }), consumer.envelope());
    }
    consumer.advance(header.len);
    Some(true)
}

#[cfg(not(loom))]
#[test]
fn a_ring_that_was_full_for_long_becomes_larger_amid_messages() {
    for (ahead, len) in [(1, 64), (2, 100), (3, 64), (3, 256), (4, 30)] {
        let heap = Heap::new(64, 256);
        let (mut producer, mut consumer) = growing(&heap, 4, 3 * 256);
        let (mut sent, mut got, mut grown_at) = (0u32, 0u32, None);
        while got < 2000 {
            // Bursts that fill the ring, of which some stay unread when the next one comes.
            while sent - got < 200 && put(&mut producer, sent as u8, len) {
                sent += 1;
            }
            loop {
                match get(&mut consumer) {
                    Some(true) => got += 1,
                    Some(false) => grown_at = grown_at.or(Some(got)),
                    None => panic!("{got} of {sent}"),
                }
                if sent - got < ahead {
                    break;
                }
            }
            consumer.return_credit();
        }
        while get(&mut consumer).is_some() {}
        consumer.return_credit();
        let grown_at = grown_at.expect("it was full often enough");
        assert!(
            grown_at * len.next_multiple_of(64) >= 3 * 256,
            "{grown_at} messages of {len}"
        );
        assert_eq!(producer.size(), 1024);
        assert!(producer.has_room(700, 128).unwrap(), "nearly all of it is free");
    }
}

#[cfg(not(loom))]
#[test]
fn a_ring_through_which_little_goes_at_a_time_stays() {
    let heap = Heap::new(64, 256);
    let (mut producer, mut consumer) = growing(&heap, 4, 1);
    for turn in 0..10_000 {
        assert!(put(&mut producer, turn as u8, 64) && get(&mut consumer) == Some(true));
    }
    assert_eq!(producer.size(), 256);
    // Nor one that must not grow, nor one with no slot to spare.
    for (slots, after) in [(64, 0), (4, 1)] {
        let heap = Heap::new(slots, 256);
        let (mut producer, mut consumer) = growing(&heap, 4, after);
        for turn in 0..100 {
            let sent = (0..100).take_while(|_| put(&mut producer, turn, 64)).count();
            assert_eq!((sent, producer.size()), (4, 256));
            assert!(sent > 0 && (0..sent).all(|_| get(&mut consumer) == Some(true)));
            assert_eq!(consumer.peek(), None);
        }
    }
}

#[cfg(not(loom))]
#[test]
fn a_larger_ring_that_nobody_has_is_junk() {
    let heap = Heap::new(64, 256);
    let (_, mut consumer) = ends(&heap, 4);
    assert_eq!(consumer.enlarge(1024), Err(Junk));
    let (_, mut consumer) = growing(&heap, 4, 1);
    for len in [0, 128, 256, 700, 2048, u32::MAX] {
        assert_eq!(consumer.enlarge(len), Err(Junk));
    }
    assert_eq!(consumer.enlarge(512), Ok(()), "half of what there is room for");
    assert_eq!(consumer.enlarge(1024), Err(Junk), "it has one");
}

#[cfg(not(loom))]
#[test]
fn the_pages_of_the_first_ring_go_when_those_of_the_larger_one_come() {
    const LEN: usize = 64 << 10;
    const BEFORE: usize = 128;
    let file = memory::create(8 * LEN).unwrap();
    let mapping = memory::Mapping::shared(std::os::fd::AsFd::as_fd(&file), 8 * LEN).unwrap();
    let at = |offset: usize| NonNull::new(mapping.base().wrapping_add(offset)).unwrap();
    let heap = Heap::new(64, 256);
    // Not at the beginning of a page, as in the segment.
    let place = Place {
        bytes: at(BEFORE),
        byte_count: LEN as u32,
        ..heap.place()
    };
    let larger = Larger {
        bytes: at(4 * LEN),
        byte_count: 4 * LEN as u32,
    };
    // SAFETY: memory of this test alone, and one end of each kind.
    let mut producer = unsafe { Producer::new(place).growing(Some(larger), 1) };
    // SAFETY: as above.
    let mut consumer = unsafe { Consumer::new(place, 4).growing(Some(larger)) };
    // SAFETY: what lies before and behind the ring.
    unsafe { (at(BEFORE - 1).write(7), at(BEFORE + LEN).write(8)) };
    while producer.size() == LEN as u32 {
        assert!(put(&mut producer, 1, 16 << 10));
    }
    let pages = |bytes: usize| bytes.div_ceil(4096);
    assert_eq!(made(&mapping), pages(BEFORE + LEN + 1) + pages(4 * LEN));
    while get(&mut consumer).is_some() {}
    assert_eq!(made(&mapping), 2 + pages(4 * LEN), "but those that it shares");
    // SAFETY: as above.
    assert_eq!(unsafe { (at(BEFORE - 1).read(), at(BEFORE + LEN).read()) }, (7, 8));
}

#[cfg(not(loom))]
#[test]
fn slots_arrive_in_order_over_many_laps_and_a_full_ring_says_so() {
    let heap = Heap::new(4, 256);
    let (mut producer, mut consumer) = ends(&heap, 1);
    let mut expected = 0u64;
    for value in 0..300_000u64 {
        if !producer.has_slot().unwrap() {
            for _ in 0..4 {
                assert_eq!(
                    consumer.peek(),
                    Some(Header {
                        kind: 1,
                        aux: 2,
                        len: 8
                    })
                );
                assert_eq!((consumer.envelope(), consumer.word(0)), (!expected, expected));
                consumer.advance(0);
                expected += 1;
            }
            assert_eq!(consumer.peek(), None);
            assert!(producer.has_slot().unwrap());
        }
        producer.push(
            Header {
                kind: 1,
                aux: 2,
                len: 8,
            },
            !value,
            &[value],
        );
    }
    assert!(expected > 4 * 65536, "the number wrapped");
}

/// How many of the pages of `mapping` are there.
#[cfg(not(loom))]
fn made(mapping: &memory::Mapping) -> usize {
    let mut pages = vec![0u8; mapping.len() / 4096];
    // SAFETY: the kernel writes a byte for each page of the mapping.
    let answer = unsafe { libc::mincore(mapping.base().cast(), mapping.len(), pages.as_mut_ptr()) };
    assert_eq!(answer, 0);
    pages.iter().filter(|&&page| page & 1 != 0).count()
}

#[cfg(not(loom))]
#[test]
fn who_sends_more_than_a_little_has_the_pages_made_at_once() {
    const LEN: usize = 64 << 10;
    let halves = [LEN; 2].map(|len| memory::Mapping::anonymous(len).unwrap());
    let credit = Box::<Credit>::default();
    let place = Place {
        slots: NonNull::new(halves[0].base().cast()).unwrap(),
        slot_count: (LEN / size_of::<Slot>()) as u32,
        bytes: NonNull::new(halves[1].base()).unwrap(),
        byte_count: LEN as u32,
        credit: NonNull::from(&*credit),
    };
    // SAFETY: zeroed memory of this test alone.
    let mut producer = unsafe { Producer::new(place) };
    let mut send = |len: u32| {
        assert!(producer.has_slot().unwrap());
        if len > 0 {
            let room = producer.reserve(len).unwrap().unwrap();
            // SAFETY: `reserve` gave `len` bytes.
            unsafe { room.write_bytes(1, len as usize) };
        }
        producer.push(Header { kind: 1, aux: 0, len }, 0, &[]);
        [made(&halves[0]), made(&halves[1])]
    };
    for _ in 0..FIRST / LINE - 1 {
        assert_eq!(send(0), [1, 0]);
    }
    assert_eq!(send(FIRST), [1, 1]);
    assert_eq!(send(0), [LEN / 4096, 1], "another slot than the first few");
    assert_eq!(send(1), [LEN / 4096; 2], "another byte than the first few");
}

#[cfg(not(loom))]
#[test]
fn bytes_keep_their_place_across_the_end_of_the_ring() {
    let heap = Heap::new(64, 256);
    let (mut producer, mut consumer) = ends(&heap, 64);
    for (turn, len) in [100u32, 128, 1, 64, 90, 65, 3]
        .into_iter()
        .cycle()
        .take(1000)
        .enumerate()
    {
        let room = producer.reserve(len).unwrap().expect("the ring is empty");
        // SAFETY: `reserve` gave `len` bytes.
        unsafe { room.write_bytes(turn as u8, len as usize) };
        producer.push(Header { kind: 2, aux: 0, len }, 0, &[]);
        let header = consumer.peek().unwrap();
        let found = consumer.bytes(header.len).unwrap();
        assert_eq!(found, room);
        consumer.advance(header.len);
    }
}

#[cfg(not(loom))]
#[test]
fn parts_fill_the_ring_to_the_last_byte_wherever_they_begin() {
    for before in [0, 64, 100, 192] {
        let heap = Heap::new(64, 256);
        let (mut producer, mut consumer) = ends(&heap, 64);
        let send = |producer: &mut Producer, len: u32| {
            assert!(producer.has_slot().unwrap() && producer.reserve(len).unwrap().is_some());
            producer.push(Header { kind: 2, aux: 0, len }, 0, &[]);
        };
        if before > 0 {
            send(&mut producer, before);
            consumer.advance(before);
            consumer.return_credit();
        }
        for len in [256, 200, 193, 130] {
            assert!(producer.has_room(len, 128).unwrap(), "{len} bytes behind {before}");
            assert!(!producer.has_room(257, 128).unwrap());
            let mut left = len;
            while left > 0 {
                let short = producer.stretch(left.min(128));
                send(&mut producer, short);
                left -= short;
            }
            assert_eq!(producer.has_room(64, 128).unwrap(), len <= 192);
            while let Some(header) = consumer.peek() {
                consumer.bytes(header.len).unwrap();
                consumer.advance(header.len);
            }
            consumer.return_credit();
            assert_eq!(producer.unread(), Ok(0));
        }
    }
}

#[cfg(not(loom))]
#[test]
fn a_full_byte_ring_refuses_until_credit_comes_back() {
    let heap = Heap::new(64, 256);
    let (mut producer, mut consumer) = ends(&heap, 64);
    assert!(producer.reserve(192).unwrap().is_some());
    producer.push(
        Header {
            kind: 2,
            aux: 0,
            len: 192,
        },
        0,
        &[],
    );
    assert!(producer.reserve(65).unwrap().is_none());
    assert!(consumer.peek().is_some());
    consumer.advance(192);
    assert!(producer.reserve(65).unwrap().is_some());
}

#[cfg(not(loom))]
#[test]
fn junk_in_the_credit_line_is_noticed() {
    let heap = Heap::new(2, 64);
    let (mut producer, _) = ends(&heap, 1);
    for _ in 0..2 {
        assert!(producer.has_slot().unwrap());
        producer.push(
            Header {
                kind: 1,
                aux: 0,
                len: 0,
            },
            0,
            &[],
        );
    }
    heap.credit.consumed.store(77, Ordering::Relaxed);
    assert_eq!(producer.has_slot(), Err(Junk));
}

#[cfg(loom)]
#[test]
fn loom_a_slot_is_seen_whole_and_credit_frees_it() {
    loom::model(|| {
        let heap = std::sync::Arc::new(Heap::new(2, 64));
        let (mut producer, mut consumer) = ends(&heap, 2);
        let keep = heap.clone();
        let writer = loom::thread::spawn(move || {
            let _keep = keep;
            for value in 1..=3u64 {
                while !producer.has_slot().unwrap() {
                    loom::thread::yield_now();
                }
                producer.push(
                    Header {
                        kind: 1,
                        aux: 0,
                        len: 8,
                    },
                    value,
                    &[value * 10],
                );
            }
        });
        for value in 1..=3u64 {
            while consumer.peek().is_none() {
                loom::thread::yield_now();
            }
            assert_eq!((consumer.envelope(), consumer.word(0)), (value, value * 10));
            consumer.advance(0);
        }
        writer.join().unwrap();
    });
}

#[cfg(loom)]
#[test]
fn loom_a_ring_becomes_larger_while_its_first_bytes_are_read() {
    loom::model(|| {
        let heap = std::sync::Arc::new(Heap::new(4, 64));
        let (mut producer, mut consumer) = growing(&heap, 1, 1);
        let keep = heap.clone();
        let writer = loom::thread::spawn(move || {
            let _keep = keep;
            for value in 1..=3 {
                while !put(&mut producer, value, 64) {
                    loom::thread::yield_now();
                }
            }
        });
        let mut got = 0;
        while got < 3 {
            match get(&mut consumer) {
                Some(message) => got += u32::from(message),
                None => {
                    consumer.return_credit();
                    loom::thread::yield_now();
                }
            }
        }
        writer.join().unwrap();
    });
}
