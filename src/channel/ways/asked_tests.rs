//! Which messages take their way without a question, and which ways are not tried at all.

use super::tests::ALL;
use super::*;

#[test]
fn what_goes_through_cells_is_asked_about_only_now_and_then() {
    let len = 20_000;
    let mut ways = Ways::between(0, 1);
    let asked = |ways: &mut Ways| (0..64).filter(|_| !ways.goes_on(len)).count();
    assert_eq!(asked(&mut ways), 64, "nothing is known");
    ways.settle_on(len, Way::Pull);
    assert_eq!(asked(&mut ways), 64);
    ways.settle_on(len, Way::Cells);
    let class = class_of(len);
    let mut asked_about = 0;
    for _ in 0..64 {
        if !ways.goes_on(len) {
            asked_about += 1;
            ways.classes[class].count += 1;
        }
    }
    assert_eq!((asked_about, ways.classes[class].count), (8, 64));
    assert_eq!(ways.classes[class].bytes, 56 * len as u64);
}

#[test]
fn of_messages_to_and_fro_the_next_one_is_asked_about_when_an_epoch_may_be_over() {
    let (len, class) = (20_000, class_of(20_000));
    let mut ways = Ways::between(0, 1);
    ways.settle_on(len, Way::Cells);
    let mut turn = |window: usize| {
        ways.came(len, Way::Cells);
        let mut asked = 0;
        for _ in 0..window {
            if !ways.goes_on(len) {
                asked += 1;
                (ways.classes[class].alone, ways.classes[class].count) = (1, 1);
            }
        }
        asked
    };
    let asked: Vec<usize> = (0..25).map(|_| turn(1)).collect();
    assert_eq!(asked.iter().sum::<usize>(), 3, "{asked:?}");
    // Amid a window nothing is over.
    assert_eq!([turn(20), turn(20), turn(20)], [0, 1, 1]);
    // The higher rank sends as the lower one does, and learns for itself again when nothing comes any more.
    let mut ways = Ways::between(1, 0);
    for (way, asked) in [(Way::Pull, ALONE as usize + 4), (Way::Cells, 4)] {
        ways.came(len, way);
        let asks = (0..ALONE + 4).filter(|_| !ways.goes_on(len)).count();
        assert_eq!(asks, asked);
    }
}

#[test]
fn a_call_of_the_kernel_that_costs_more_than_two_copies_is_not_tried_for_single_messages() {
    let tried = |call: f32, window: usize| {
        let (mut ways, mut clock, len) = (Ways::default(), 0, 1 << 14);
        let choice = Choice {
            open: 0b11,
            one_copy: 0.05,
            call,
            ..ALL
        };
        let mut pulled = 0;
        for turn in 0..4_000 {
            let before = turn % window * len;
            let way = ways.choose(len, choice, |_| before as u64, || clock);
            pulled += (way == Way::Pull) as u32;
            clock += [2_000, 4_000][way as usize];
        }
        pulled > 0
    };
    assert_eq!([tried(0.1, 1), tried(0.0, 1), tried(0.1, 64)], [false, true, true]);
}
