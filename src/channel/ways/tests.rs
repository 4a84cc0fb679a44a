//! Programs that send messages whose ways cost so and so much.

use super::*;

pub(super) const ALL: Choice = Choice {
    open: 0b111,
    guess: Way::Cells,
    one_copy: 0.0,
    call: 0.0,
    two_copies: 0.0,
    grows: false,
};

/// A program that sends messages of `len` bytes, each of which costs `cost` nanoseconds by its way; returns
/// how many went each way.
fn program(
    ways: &mut Ways,
    clock: &mut u64,
    messages: usize,
    len: usize,
    cost: impl Fn(Way, usize) -> u64,
) -> [usize; 3] {
    let mut count = [0; 3];
    for turn in 0..messages {
        let way = ways.choose(len, ALL, |_| 0, || *clock);
        count[way as usize] += 1;
        *clock += cost(way, turn);
    }
    count
}

impl Ways {
    /// `way` is settled for messages of about `len` bytes, and nothing has come.
    pub fn settle_on(&mut self, len: usize, way: Way) {
        self.classes.resize(CLASSES, Class::UNUSED);
        self.classes[class_of(len)] = Class {
            way,
            phase: Phase::Settled { left: 1000 },
            ..Class::UNUSED
        };
    }
}

#[test]
fn the_cheapest_way_is_found_and_kept() {
    for best in WAYS {
        let (mut ways, mut clock) = (Ways::default(), 0);
        let cost = |way, _| if way == best { 10_000 } else { 15_000 };
        program(&mut ways, &mut clock, 200, 1 << 16, cost);
        assert_eq!(ways.settled(1 << 16), Some(best));
        let count = program(&mut ways, &mut clock, 10_000, 1 << 16, cost);
        assert!(count[best as usize] > 9_800, "{count:?}");
    }
}

#[test]
fn a_program_of_few_messages_tries_nothing() {
    let (mut ways, mut clock) = (Ways::default(), 0);
    let len = 1 << 16;
    let dear = |way, _| if way == Way::Cells { 15_000 } else { 10_000 };
    let half = (FIRST_BYTES / 2) as usize / len;
    assert_eq!(program(&mut ways, &mut clock, half - 1, len, dear)[0], half - 1);
    assert!(!ways.is_about_to_try(len));
    assert_eq!(program(&mut ways, &mut clock, half, len, dear)[0], half);
    assert!(ways.is_about_to_try(len) && ways.tries(len));
    program(&mut ways, &mut clock, 100, len, dear);
    assert_ne!(ways.settled(len), Some(Way::Cells));
}

#[test]
fn a_larger_ring_is_another_way() {
    let (mut ways, mut clock) = (Ways::default(), 0);
    let cost = |way, _| if way == Way::Pull { 10_000 } else { 15_000 };
    assert!(!ways.outgrown(256), "nothing is known yet");
    program(&mut ways, &mut clock, 2_000, 1 << 16, cost);
    assert!(!ways.outgrown(256) && ways.settled(1 << 16) == Some(Way::Pull));
    assert!(ways.outgrown(1024) && ways.settled(1 << 16).is_none());
    let cost = |way, _| if way == Way::Cells { 5_000 } else { 10_000 };
    program(&mut ways, &mut clock, 200, 1 << 16, cost);
    assert_eq!(ways.settled(1 << 16), Some(Way::Cells));
}

#[test]
fn a_program_that_changes_its_habits_is_followed() {
    let (mut ways, mut clock) = (Ways::default(), 0);
    let rewritten = |way, _| if way == Way::Cells { 8_000 } else { 14_000 };
    let untouched = |way, _| if way == Way::Pull { 3_000 } else { 6_000 };
    program(&mut ways, &mut clock, 2_000, 1 << 16, rewritten);
    assert_eq!(ways.settled(1 << 16), Some(Way::Cells));
    program(&mut ways, &mut clock, 10_000, 1 << 16, untouched);
    assert_eq!(ways.settled(1 << 16), Some(Way::Pull));
}

#[test]
fn what_lies_between_the_messages_does_not_mislead() {
    let (mut ways, mut clock) = (Ways::default(), 0);
    // Each 100th message waits for a millisecond's computing.
    let cost = |way, turn: usize| {
        let way = if way == Way::Join { 20_000 } else { 30_000 };
        way + if turn % 100 == 3 { 1_000_000 } else { 0 }
    };
    let count = program(&mut ways, &mut clock, 20_000, 1 << 18, cost);
    assert!(count[Way::Join as usize] > 15_000, "{count:?}");
}

#[test]
fn few_messages_go_a_way_that_has_clearly_lost() {
    for costs in [[8_900, 12_500, 7_200], [6_000, 4_900, 5_100]] {
        let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 19);
        let best = WAYS[(0..3).min_by_key(|&way| costs[way]).unwrap()];
        let cost = |way, _| costs[way as usize];
        let count = program(&mut ways, &mut clock, 150, len, cost);
        assert_eq!(ways.settled(len), Some(best));
        assert!(count[best as usize] >= 110, "{count:?} at {costs:?}");
    }
}

#[test]
fn a_challenger_that_costs_far_more_is_dropped_after_two_messages() {
    let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 19);
    let cost = |way, _| [20_000, 75_000, 41_000][way as usize];
    let count = program(&mut ways, &mut clock, 100, len, cost);
    assert_eq!((ways.settled(len), &count[1..]), (Some(Way::Cells), &[2, 2][..]));
    // A first message that makes pages decides nothing.
    let (mut ways, mut clock) = (Ways::default(), 0);
    let seen = std::cell::Cell::new(false);
    let cost = |way, _| match way {
        Way::Join if !seen.replace(true) => 900_000,
        Way::Join => 10_000,
        _ => 20_000,
    };
    program(&mut ways, &mut clock, 150, len, cost);
    assert_eq!(ways.settled(len), Some(Way::Join));
}

#[test]
fn trials_come_later_where_the_others_were_far_off() {
    let period = |costs: [u64; 3]| {
        let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 19);
        program(&mut ways, &mut clock, 100, len, |way, _| costs[way as usize]);
        assert_eq!(ways.settled(len), Some(Way::Cells));
        ways.classes[class_of(len)].period
    };
    assert_eq!(period([20_000, 75_000, 41_000]), 4 * PERIOD.0);
    assert_eq!(period([20_000, 75_000, 39_000]), 2 * PERIOD.0);
}

#[test]
fn one_epoch_that_was_interrupted_decides_nothing() {
    // The way in use is the best, and loses its first epoch, or its second.
    for interrupted in [6, 18] {
        let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 19);
        let cost =
            |way, turn: usize| [7_000, 8_000, 8_500][way as usize] + if turn == interrupted { 90_000 } else { 0 };
        program(&mut ways, &mut clock, 150, len, cost);
        assert_eq!(ways.settled(len), Some(Way::Cells), "turn {interrupted}");
    }
}

#[test]
fn what_the_way_before_has_left_in_the_caches_does_not_count() {
    let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 19);
    let run = std::cell::Cell::new((Way::Cells, 0));
    let cost = |way, _| {
        let (last, length) = run.get();
        let length = if way == last { length + 1 } else { 1 };
        run.set((way, length));
        match way {
            Way::Join if length <= 2 => 17_000,
            Way::Join => 10_000,
            _ => 12_500,
        }
    };
    program(&mut ways, &mut clock, 150, len, cost);
    assert_eq!(ways.settled(len), Some(Way::Join));
}

#[test]
fn small_differences_change_nothing() {
    let (mut ways, mut clock) = (Ways::default(), 0);
    let cost = |way, turn: usize| 10_000 - way as u64 * 100 + (turn % 7) as u64 * 10;
    program(&mut ways, &mut clock, 5_000, 1 << 16, cost);
    assert_eq!(ways.settled(1 << 16), Some(Way::Cells));
}

#[test]
fn a_class_begins_with_what_its_neighbour_has_learnt() {
    let (mut ways, mut clock) = (Ways::default(), 0);
    let cost = |way, _| [30_000, 12_000, 10_000][way as usize];
    program(&mut ways, &mut clock, 200, 1 << 18, cost);
    let count = program(&mut ways, &mut clock, 100, 1 << 19, cost);
    assert!(
        count[Way::Cells as usize] == 0 && count[Way::Pull as usize] > 0,
        "{count:?}"
    );
}

#[test]
fn both_sides_are_tried_although_it_was_hopeless_for_shorter_messages() {
    let (mut ways, mut clock) = (Ways::default(), 0);
    program(&mut ways, &mut clock, 200, 1 << 18, |way, _| {
        [4_300, 5_900, 6_000][way as usize]
    });
    assert_eq!(ways.settled(1 << 18), Some(Way::Cells));
    let cost = |way, _| [8_900, 12_500, 7_200][way as usize];
    let count = program(&mut ways, &mut clock, 150, 1 << 19, cost);
    assert!(
        count[Way::Join as usize] > 120 && count[Way::Pull as usize] == 0,
        "{count:?}"
    );
}

#[test]
fn an_epoch_ends_when_nothing_is_under_way() {
    let (mut ways, mut clock) = (Ways::default(), 0);
    let len = 1 << 20;
    let mut first = None;
    for window in 0..40 {
        let mut seen = Vec::new();
        for _ in 0..32 {
            seen.push(ways.choose(len, ALL, |_| 0, || clock));
            ways.opened(len);
        }
        let (probe, rest) = seen.split_at(PROBE as usize);
        for part in [probe, rest] {
            assert!(part.iter().all(|&way| way == part[0]), "window {window}: {seen:?}");
        }
        first.get_or_insert(seen[0]);
        clock += 32 * if seen[0] == Way::Join { 50_000 } else { 90_000 };
        (0..32).for_each(|_| ways.closed(len));
    }
    assert_eq!((first, ways.settled(len)), (Some(Way::Cells), Some(Way::Join)));
}

#[test]
fn windows_of_messages_are_judged_after_few_of_them() {
    // The way that is in use first is hopeless, the other two are close to each other.
    let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 16);
    let mut seen = Vec::new();
    while ways.settled(len).is_none() {
        let way = ways.choose(len, ALL, |_| 0, || clock);
        seen.push(way);
        for _ in 1..64 {
            ways.opened(len);
            ways.choose(len, ALL, |_| 0, || clock);
        }
        (1..64).for_each(|_| ways.closed(len));
        clock += [1_200_000, 300_000, 330_000][way as usize];
    }
    let cells = seen.iter().filter(|&&way| way == Way::Cells).count();
    assert!(seen.len() <= 8 && cells <= 2, "{seen:?}");
    assert_eq!(ways.settled(len), Some(Way::Pull));
}

/// 64 messages of `len` bytes that are under way at a time, by ways that cost so many nanoseconds: how many went each way.
fn window(ways: &mut Ways, clock: &mut u64, len: usize, choice: Choice, costs: [u64; 3]) -> [usize; 3] {
    let choose = |_| {
        let way = ways.choose(len, choice, |_| 0, || *clock);
        ways.opened(len);
        way
    };
    let by = [0; 64].map(choose);
    by.iter().for_each(|_| ways.closed(len));
    *clock += by.iter().map(|&way| costs[way as usize]).sum::<u64>();
    WAYS.map(|way| by.iter().filter(|&&other| other == way).count())
}

#[test]
fn few_messages_of_a_window_go_a_way_that_takes_several_times_as_long() {
    let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 16);
    let mut count = [0; 3];
    for _ in 0..20 {
        let by = window(&mut ways, &mut clock, len, ALL, [1_500, 6_000, 5_000]);
        count = std::array::from_fn(|way| count[way] + by[way]);
    }
    assert_eq!(ways.settled(len), Some(Way::Cells));
    let probe = PROBE as usize;
    assert_eq!(count, [20 * 64 - 2 * probe, probe, probe]);
}

/// The first messages of a window by cells find the ring as it is, and make it a long one.
#[test]
fn a_whole_window_goes_by_cells_where_that_makes_the_ring_a_long_one() {
    let most = |grows: bool| {
        let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 18);
        let choice = Choice {
            open: 1 | bit(Way::Join),
            guess: Way::Join,
            grows,
            ..ALL
        };
        let mut by_cells = || window(&mut ways, &mut clock, len, choice, [60_000, 0, 10_000])[Way::Cells as usize];
        (0..12).map(|_| by_cells()).max().unwrap()
    };
    assert_eq!([true, false].map(most), [64, PROBE as usize]);
}

/// Windows that two ranks send each other at the same time, each of which takes as long as the slower direction: how many messages
/// of the last ones went each way.
fn windows(low: &mut Ways, high: &mut Ways, costs: [u64; 3]) -> [usize; 3] {
    let (mut clock, len, mut count) = (0, 1 << 16, [0; 3]);
    for window in 0..60 {
        let send = |ways: &mut Ways| -> Vec<Way> {
            let one = |_| {
                let way = ways.choose(len, ALL, |_| 0, || clock);
                ways.opened(len);
                way
            };
            (0..64).map(one).collect()
        };
        let sent = [send(low), send(high)];
        for (ways, from) in [(&mut *low, &sent[1]), (&mut *high, &sent[0])] {
            for &way in from {
                ways.came(len, way);
                ways.closed(len);
            }
        }
        let took = |sent: &Vec<Way>| sent.iter().map(|&way| costs[way as usize]).sum::<u64>();
        clock += took(&sent[0]).max(took(&sent[1]));
        if window >= 40 {
            sent.iter().flatten().for_each(|&way| count[way as usize] += 1);
        }
    }
    count
}

#[test]
fn two_ranks_that_send_to_each_other_try_a_way_at_the_same_time() {
    for (costs, best) in [
        ([9_000, 4_000, 12_000], Way::Pull),
        ([4_000, 15_000, 12_000], Way::Cells),
        ([9_000, 20_000, 5_000], Way::Join),
    ] {
        let (mut low, mut high) = (Ways::between(0, 1), Ways::between(1, 0));
        let count = windows(&mut low, &mut high, costs);
        assert_eq!(count[best as usize], 2 * 20 * 64, "{count:?} at {costs:?}");
    }
}

#[test]
fn who_followed_learns_alone_once_nothing_comes_any_more() {
    let (mut ways, mut clock, len) = (Ways::between(1, 0), 0, 1 << 16);
    ways.choose(len, ALL, |_| 0, || 0);
    ways.came(len, Way::Join);
    ways.came(1000, Way::Pull);
    let cost = |way, _| [30_000, 10_000, 90_000][way as usize];
    assert_eq!(program(&mut ways, &mut clock, 200, len, cost), [0, 0, 200]);
    clock += 1_000_000_000;
    program(&mut ways, &mut clock, 400, len, cost);
    assert_eq!(ways.settled(len), Some(Way::Pull));
    let few = Choice {
        open: 1,
        guess: Way::Cells,
        ..ALL
    };
    ways.came(len, Way::Join);
    assert_ne!(ways.choose(len, few, |_| 0, || clock), Way::Join, "not open to it");
}

#[test]
fn a_way_that_cannot_be_better_is_not_tried() {
    let count = |one_copy| {
        let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 16);
        let choice = Choice {
            one_copy,
            two_copies: one_copy,
            ..ALL
        };
        let mut count = [0; 3];
        for _ in 0..400 {
            let way = ways.choose(len, choice, |_| 0, || clock);
            count[way as usize] += 1;
            clock += [6_000, 8_000, 7_500][way as usize];
        }
        count
    };
    // By value a byte takes 0.09 ns; both sides together take half of what one takes.
    let [cells, pull, join] = count(0.08);
    assert!(cells > 300 && pull > 0 && join > 0, "{cells} {pull} {join}");
    let [_, pull, join] = count(0.1);
    assert!(pull == 0 && join > 0, "{pull} {join}");
    assert_eq!(count(f32::INFINITY), [400, 0, 0]);
}

#[test]
fn what_may_be_the_best_is_tried_first_and_spares_the_others_a_trial() {
    // Two sides copy a byte in 0.03 ns, by value it takes 0.06, and one side needs 0.05 at least.
    let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 16);
    let choice = Choice { one_copy: 0.05, ..ALL };
    let mut order = Vec::new();
    while ways.settled(len).is_none() {
        let way = ways.choose(len, choice, |_| 0, || clock);
        if order.last() != Some(&way) {
            order.push(way);
        }
        clock += [4_000, 3_300, 2_000][way as usize];
    }
    assert!(
        order.starts_with(&[Way::Cells, Way::Join]) && !order.contains(&Way::Pull),
        "{order:?}"
    );
    assert_eq!(ways.settled(len), Some(Way::Join));
}

#[test]
fn what_is_surely_better_is_tried_with_a_whole_window() {
    // Of a window that two ranks send each other a few messages that go another way tell nothing.
    let (mut ways, mut clock, len) = (Ways::between(0, 1), 0, 1 << 15);
    let mut tried = 0;
    for _ in 0..12 {
        // Of what goes by value nothing has been read before the window ends.
        let choice = Choice {
            open: 0b11,
            one_copy: 0.05,
            ..ALL
        };
        let mut one = |before: u64| ways.choose(len, choice, |_| before * len as u64, || clock);
        let window: Vec<Way> = (0..64).map(&mut one).collect();
        assert!(window.iter().all(|&way| way == window[0]), "{window:?}");
        tried += (window[0] == Way::Pull) as u32;
        ways.came(len, window[0]);
        clock += 64 * [5_000, 2_500][window[0] as usize];
    }
    assert!(tried >= 6 && ways.settled(len) == Some(Way::Pull), "{tried}");
}

#[test]
fn messages_by_value_count_when_they_have_been_read() {
    // A window fills the ring in no time; its reader takes a long one.
    let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 15);
    let (mut sent, mut read) = (0u64, 0u64);
    while ways.settled(len).is_none() {
        let way = ways.choose(len, Choice { open: 0b11, ..ALL }, |_| sent - read, || clock);
        if way == Way::Pull {
            clock += 5_000;
            continue;
        }
        clock += 1_000;
        sent += len as u64;
        if sent - read >= 256 << 10 {
            clock += 60_000;
            read = sent;
        }
    }
    assert_eq!(ways.settled(len), Some(Way::Pull));
}

/// Messages of `len` bytes by ways that cost so many nanoseconds, each answered in the same way if `both` send, where one copy of a byte
/// takes 0.04 ns at least, as do two: how many went each way.
fn answered(ways: &mut Ways, messages: usize, len: usize, both: bool, costs: [u64; 3]) -> [usize; 3] {
    let choice = Choice {
        guess: Way::Pull,
        one_copy: 0.04,
        two_copies: 0.04,
        ..ALL
    };
    let (mut clock, mut count) = (0, [0; 3]);
    for _ in 0..messages {
        let way = ways.choose(len, choice, |_| 0, || clock);
        count[way as usize] += 1;
        clock += costs[way as usize];
        if both {
            ways.came(len, way);
        }
    }
    count
}

#[test]
fn cells_are_not_tried_where_two_ranks_copy_once_as_fast_as_can_be() {
    // 0.06 ns a byte: by cells each rank would copy two bytes in that time.
    let (len, costs) = (1 << 17, [20_000, 7_900, 9_000]);
    let mut ways = Ways::between(0, 1);
    assert_eq!(answered(&mut ways, 100, len, true, costs)[0], 0);
    assert_eq!(ways.settled(len), Some(Way::Pull));
    assert!(ways.beats_cells(len, 0.04) && !ways.beats_cells(len, 0.02));
    // Nor are they at first by those twice as long, though their copies take longer.
    let longer = [40_000, 26_000, 25_000];
    assert_eq!(answered(&mut ways, 60, 2 * len, true, longer)[0], 0);
    let mut ways = Ways::between(0, 1);
    assert!(answered(&mut ways, 60, 2 * len, true, longer)[0] > 0);
    let mut ways = Ways::between(0, 1);
    assert!(
        answered(&mut ways, 100, len, false, costs)[0] > 0,
        "two copies may overlap"
    );
}

#[test]
fn cells_are_tried_where_the_kernel_copies_more_slowly_than_two_ranks_do() {
    // Both sides copy a byte once in 0.06 ns by the kernel; by cells it takes 0.04.
    let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 20);
    let choice = Choice {
        open: 0b101,
        guess: Way::Join,
        one_copy: 0.1,
        call: 0.0,
        two_copies: 0.03,
        grows: false,
    };
    while ways.settled(len).is_none() {
        let way = ways.choose(len, choice, |_| 0, || clock);
        clock += [42_000, 0, 63_000][way as usize];
    }
    assert_eq!(ways.settled(len), Some(Way::Cells));
}

#[test]
fn both_sides_are_no_quicker_than_one_where_two_ranks_send_each_other() {
    // By cells a byte takes 0.06 ns; one copy takes 0.08 at least, of which each rank has a whole one to make.
    let tried = |both| {
        let (mut ways, mut clock, len) = (Ways::between(0, 1), 0, 1 << 17);
        let choice = Choice {
            open: 0b101,
            one_copy: 0.08,
            ..ALL
        };
        let mut tried = false;
        for _ in 0..100 {
            let way = ways.choose(len, choice, |_| 0, || clock);
            tried |= way == Way::Join;
            clock += 7_900;
            if both {
                ways.came(len, way);
            }
        }
        tried
    };
    assert_eq!([false, true].map(tried), [true, false]);
}

#[test]
fn what_nothing_was_compared_with_costs_what_it_took_afterwards() {
    let (len, costs) = (1 << 17, [60_000, 7_900, 7_900]);
    let mut ways = Ways::between(0, 1);
    let alone = Choice {
        open: 1 << Way::Join as u8,
        guess: Way::Join,
        one_copy: 0.04,
        call: 0.0,
        two_copies: 0.04,
        grows: false,
    };
    for turn in 0..40 {
        ways.choose(len, alone, |_| 0, || turn * costs[2]);
        ways.came(len, Way::Join);
    }
    assert!(ways.settled(len) == Some(Way::Join) && ways.beats_cells(len, 0.04));
}

#[test]
fn a_class_that_has_not_its_neighbours_way_begins_with_the_other_single_copy() {
    let (mut ways, mut clock) = (Ways::default(), 0);
    let cost = |way, _| [30_000, 10_000, 12_000][way as usize];
    program(&mut ways, &mut clock, 200, 1 << 19, cost);
    assert_eq!(ways.settled(1 << 19), Some(Way::Pull));
    let choice = Choice { open: 0b101, ..ALL };
    assert_eq!(ways.choose(1 << 20, choice, |_| 0, || clock), Way::Join);
}

#[test]
fn what_has_become_cheaper_is_tried_from_the_way_in_use_on() {
    let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 20);
    program(&mut ways, &mut clock, 1_000, len, |way, _| {
        [200_000, 80_000, 50_000][way as usize]
    });
    assert_eq!(ways.settled(len), Some(Way::Join));
    ways.retry(len);
    let cheaper = |way, _| [30_000, 80_000, 50_000][way as usize];
    assert_eq!(program(&mut ways, &mut clock, 4, len, cheaper), [0, 0, 4]);
    program(&mut ways, &mut clock, 60, len, cheaper);
    assert_eq!(ways.settled(len), Some(Way::Cells));
    ways.retry(1 << 14);
    assert_eq!(ways.settled(1 << 14), None, "nothing of that length was sent");
}
