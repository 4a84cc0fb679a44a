//! The table, its switches and the rules that change it.

use super::*;
use crate::sys::cvar::TABLE;

fn table(set: &[(&str, &str)], crowded: bool, size: usize) -> Table {
    let value = |name: &str| {
        set.iter()
            .find(|(key, _)| *key == name)
            .map(|(_, value)| (*value).into())
    };
    Table::new(&Settings::read(value).unwrap(), crowded.then_some(2), size)
}

#[test]
fn ranks_with_a_cpu_each_copy_long_data_once_and_those_that_share_cpus_take_pieces() {
    let (roomy, crowded) = (table(&[], false, 4), table(&[], true, 4));
    assert_eq!(ways(roomy.allreduce), [1 << 18, 0, 0, ANY]);
    let eight = table(&[], false, 8);
    assert_eq!((ways(eight.reduce), eight.reduce_share), ([1 << 18, 0, 0, ANY], 8192));
    assert_eq!((ways(roomy.reduce), roomy.reduce_share), ([1 << 19, 0, 0, 0], ANY));
    assert_eq!(ways(eight.reduce_scatter), [1 << 18, 0, 0, ANY]);
    let uncopied = table(&[("NEARMPI_ONE_COPY", "0")], false, 8);
    assert_eq!(
        (ways(uncopied.allreduce), ways(uncopied.reduce)),
        ([1 << 20, 0, 0, 0], [1 << 19, 0, 0, 0])
    );
    assert_eq!(ways(roomy.allgather), [1 << 16, 0, 1 << 18, ANY]);
    assert_eq!(ways(crowded.allgather), [ANY, 0, 0, 0]);
    let both = |row: Row| (row.shown, row.shown_unasked);
    assert_eq!(
        (roomy.alltoall.shown_unasked, both(crowded.alltoall)),
        (32768, (ANY, 8 << 20))
    );
    assert_eq!(
        [16, 17].map(|size| both(table(&[], true, size).alltoall)),
        [(ANY, 8 << 20), (1 << 20, 1 << 20)]
    );
    assert_eq!((crowded.scatter.shown, crowded.scatter.learnt), (1 << 18, 0));
    assert_eq!((roomy.alltoall.learnt, crowded.alltoall.learnt), (1 << 18, 0));
    assert_eq!((roomy.scatter.shown_unasked, roomy.scatter.learnt), (8192, 1 << 18));
    assert_eq!((roomy.bcast.learnt, crowded.bcast.shown), (1 << 18, ANY));
}

/// Up to how many bytes an operation is shown, sent, learnt and offered.
fn ways(row: Row) -> [usize; 4] {
    [row.shown, row.sent.1, row.learnt, row.offered]
}

#[test]
fn two_ranks_share_reductions_late_if_at_all_and_show_more() {
    let (two, three) = (table(&[], false, 2), table(&[], false, 3));
    assert_eq!((two.share, three.share, table(&[], true, 4).share), (ANY, 2048, 32768));
    assert_eq!(table(&[], true, 2).share, 1 << 18);
    assert_eq!((two.allreduce.shown, three.allreduce.shown), (ANY, 1 << 18));
    let both = |row: Row| (row.shown, row.learnt);
    assert_eq!((both(two.reduce), both(three.reduce)), ((1 << 14, ANY), (1 << 19, 0)));
    assert_eq!((both(two.scan), both(three.scan)), ((1 << 14, ANY), (1 << 18, 0)));
    assert_eq!(
        (both(two.gather), both(three.gather)),
        ((1 << 14, 1 << 22), (1 << 18, 0))
    );
    assert_eq!(
        (both(two.bcast), both(three.bcast)),
        ((1 << 13, 1 << 16), (1 << 13, 1 << 18))
    );
    let scattered = |table: Table| table.reduce_scatter.shown;
    assert_eq!((scattered(two), scattered(three)), (ANY, 256 << 10));
    let crowded = |set: &[(&str, &str)]| scattered(table(set, true, 9));
    assert_eq!(
        [crowded(&[]), crowded(&[("NEARMPI_BOARD_PIECES", "0")])],
        [ANY, 256 << 10]
    );
}

#[test]
fn some_ranks_that_share_cpus_copy_long_broadcasts_once_unless_they_are_started() {
    let bcast = |set: &[(&str, &str)], size| {
        let row = table(set, true, size).bcast;
        [row.shown, row.shown_unasked, row.offered]
    };
    let (once, pieces) = ([512 << 10, ANY, ANY], [ANY, ANY, 0]);
    assert_eq!(
        [4, 5, 16, 17].map(|size| bcast(&[], size)),
        [pieces, once, once, pieces]
    );
    assert_eq!(bcast(&[("NEARMPI_BOARD_ONE_COPY", "0")], 8), pieces);
    assert_eq!(bcast(&[("NEARMPI_ONE_COPY", "0")], 8), pieces);
}

#[test]
fn long_broadcasts_of_ranks_that_share_many_cpus_go_in_pieces() {
    let settings = Settings::read(|_| None).unwrap();
    let bcast = |cpus, size| Table::new(&settings, Some(cpus), size).bcast.offered;
    assert_eq!([bcast(2, 8), bcast(3, 8), bcast(8, 16)], [ANY, 0, 0]);
}

#[test]
fn long_reductions_of_more_than_two_ranks_are_handed_on() {
    let row = |set: &[(&str, &str)], crowded, size| {
        let table = table(set, crowded, size);
        let reduce = table.reduce;
        ([reduce.shown, reduce.shown_unasked, reduce.handed], table.link)
    };
    assert_eq!(row(&[], true, 3), ([512 << 10, ANY, ANY], 64 << 10));
    assert_eq!(row(&[], true, 40), row(&[], true, 3));
    assert_eq!(row(&[], false, 4), ([512 << 10, 512 << 10, ANY], 32 << 10));
    assert_eq!(row(&[], false, 16), ([256 << 10, 256 << 10, ANY], 32 << 10));
    assert_eq!([row(&[], true, 2).0[2], row(&[], false, 2).0[2]], [0, 0]);
    let settings = Settings::read(|_| None).unwrap();
    let all = |crowd, size| {
        let row = Table::new(&settings, crowd, size).allreduce;
        [row.shown, row.shown_unasked, row.handed]
    };
    assert_eq!(
        [3, 4, 5].map(|size| all(Some(2), size)),
        [[4 << 20, ANY, ANY], [4 << 20, ANY, ANY], [512 << 10, ANY, ANY]]
    );
    assert_eq!([all(Some(3), 4), all(Some(1), 2)], [[ANY, ANY, 0]; 2]);
    assert_eq!(all(None, 8), [256 << 10, 256 << 10, 0]);
    // It copies nothing out of another's memory.
    assert_eq!(row(&[("NEARMPI_ONE_COPY", "0")], false, 16).0[2], ANY);
    for switch in [
        ("NEARMPI_BOARD_PIECES", "0"),
        ("NEARMPI_BOARD_ONE_COPY", "2"),
        ("NEARMPI_BOARD_MAX", "0"),
    ] {
        assert_eq!(
            [true, false].map(|crowded| row(&[switch], crowded, 8).0[2]),
            [0, 0],
            "{switch:?}"
        );
    }
    let rules = [("NEARMPI_COLLECTIVES", "reduce: shown<=4K handed<=1M offered")];
    let reduce = table(&rules, false, 4).reduce;
    assert_eq!([reduce.shown, reduce.handed, reduce.offered], [4096, 1 << 20, ANY]);
}

#[test]
fn many_ranks_with_a_cpu_each_show_in_pieces_or_send() {
    let [four, eight, nine] = [4, 8, 9].map(|size| table(&[], false, size));
    assert_eq!([four, eight, nine].map(|table| table.wide), [1 << 16, 1 << 16, 1 << 15]);
    assert_eq!(
        (ways(eight.allgather), eight.allgather.shown_unasked),
        ([512 << 10, 0, 0, ANY], ANY)
    );
    assert_eq!(
        ways(table(&[("NEARMPI_ONE_COPY", "0")], false, 8).allgather),
        [ANY, 0, 0, 0]
    );
    let sent = |table: Table| [table.reduce_scatter.shown, table.alltoall.sent.1, table.scatter.sent.1];
    assert_eq!(sent(eight), [256 << 10, 56 << 10, 224 << 10]);
    assert_eq!(sent(nine), [32 << 10, 256 << 10, 256 << 10]);
    assert_eq!(table(&[], true, 9).wide, 256 << 10);
}

#[test]
fn what_is_passed_on_goes_in_quarters_so_that_copies_overlap() {
    let roomy = table(&[], false, 2);
    let pieces = [8192, 8193, 20_000, 65_536, 100_000, 262_144, 1 << 20].map(|len| roomy.piece(len));
    assert_eq!(pieces, [8192, 8192, 8192, 16_384, 25_024, 65_536, 65_536]);
    // Each turn costs a change of place; or there shall be no pieces.
    assert_eq!(table(&[], true, 2).piece(20_000), 65_536);
    assert_eq!(table(&[("NEARMPI_BOARD_PIECES", "0")], false, 2).piece(20_000), 65_536);
    assert_eq!(table(&[("NEARMPI_BOARD_MAX", "0")], false, 2).piece(20_000), 0);
}

#[test]
fn switches_turn_ways_off() {
    let none = table(
        &[("NEARMPI_BOARD_ONE_COPY", "0"), ("NEARMPI_BOARD_PIECES", "0")],
        false,
        4,
    );
    assert_eq!((ways(none.allreduce), none.bcast.shown), ([65536, 0, 0, 0], 65536));
    let all = table(&[("NEARMPI_BOARD_ONE_COPY", "2")], true, 9);
    assert_eq!((all.bcast.shown, all.bcast.offered, all.scan.offered), (65536, ANY, 0));
    let refused = table(&[("NEARMPI_BOARD_ONE_COPY", "2"), ("NEARMPI_ONE_COPY", "0")], true, 4);
    assert!(!refused.bcast.offers_any() && refused.bcast.shown > 65536);
}

#[test]
fn rules_take_the_place_of_the_defaults_for_their_case_alone() {
    let rules =
        "allreduce@2: shown<=4K offered<=8K; reduce_scatter crowded: shown pairs; bcast@3-: parts; gather: offered";
    let set = |more| vec![("NEARMPI_COLLECTIVES", rules), more];
    let (two, none) = (table(&set(("", "")), false, 2), table(&[], false, 2));
    assert_eq!(ways(two.allreduce), [4096, 0, 0, 8192]);
    assert_eq!((two.bcast, two.alltoall), (none.bcast, none.alltoall));
    assert_eq!((two.gather.shown, two.gather.offered), (0, ANY));
    let rules = "allreduce: shown<=1K doubling<=2K halves<=8K offered; bcast: parts<=1K";
    let early = table(&[("NEARMPI_COLLECTIVES", rules)], false, 2);
    assert_eq!(ways(early.allreduce), [1024, 8192, 0, ANY]);
    let sends = [1024, 1025, 8192, 8193].map(|len| early.allreduce.sends(len));
    assert_eq!(sends, [false, true, true, false]);
    let behind = [(
        "NEARMPI_COLLECTIVES",
        "alltoall: shown<=1K learnt<=2K pairs<=8K offered",
    )];
    let behind = table(&behind, false, 2).alltoall;
    let sends = [1025, 2048, 2049, 8192, 8193].map(|len| behind.sends(len));
    assert_eq!(sends, [false, false, true, true, false]);
    let four = table(&set(("", "")), true, 4);
    assert_eq!((four.bcast.shown, four.bcast.offered), (0, 0));
    assert_eq!((four.reduce_scatter.shown, four.reduce_scatter.offered), (ANY, 0));
    assert_eq!(four.allreduce, table(&[], true, 4).allreduce);
    let refused = table(&set(("NEARMPI_ONE_COPY", "0")), false, 2);
    assert_eq!((refused.gather.offered, refused.allreduce.shown), (0, 4096));
}

#[test]
fn schedules_are_those_of_the_rule_then_the_usual_ones() {
    let rules = "bcast: parts<=1K; allreduce@3: doubling<=9 halves<=99; alltoall: pairs; allgather: shown<=5";
    let found = |name: &str| (name == "NEARMPI_COLLECTIVES").then(|| rules.into());
    let settings = Settings::read(found).unwrap();
    let way = |crowded: bool, size, operation, len| {
        Case::new(&settings, crowded.then_some(2), size).by_messages(operation, len, |_| true)
    };
    let bcast = |len| way(false, 9, Operation::Bcast, len);
    assert_eq!(
        [bcast(1024), bcast(1025), bcast(1 << 20)],
        [Way::Parts, Way::Tree, Way::Parts]
    );
    let allreduce = |len| way(true, 3, Operation::Allreduce, len);
    assert_eq!(
        [allreduce(9), allreduce(10), allreduce(100)],
        [Way::Doubling, Way::Halves, Way::Flat]
    );
    assert_eq!(way(true, 4, Operation::Allreduce, 10), Way::Flat);
    assert_eq!(way(false, 9, Operation::Alltoall, 1), Way::Pairs);
    assert_eq!(way(false, 9, Operation::Allgather, 1), Way::Bruck);
    let unable = |len| {
        let case = Case::new(&settings, None, 3);
        case.by_messages(Operation::Allreduce, len, |way| way != Way::Halves)
    };
    assert_eq!([unable(50), unable(1 << 20)], [Way::Doubling; 2]);
}

#[test]
fn a_case_says_what_is_done_as_a_rule() {
    let settings = Settings::read(|_| None).unwrap();
    let rule = |crowded: bool, size, operation| {
        let case = Case::new(&settings, crowded.then_some(2), size);
        case.rule(operation).to_string()
    };
    assert_eq!(rule(false, 8, Operation::Barrier), "barrier@8 roomy: doubling");
    assert_eq!(rule(false, 8, Operation::Bcast), "bcast@8 roomy: shown");
    assert_eq!(rule(false, 8, Operation::Reduce), "reduce@8 roomy: shown<=256K handed");
    assert_eq!(rule(true, 8, Operation::Bcast), "bcast@8 crowded: shown<=512K offered");
    assert_eq!(
        rule(false, 16, Operation::Allreduce),
        "allreduce@16 roomy: shown<=256K offered"
    );
    assert_eq!(
        rule(false, 16, Operation::Alltoall),
        "alltoall@16 roomy: shown<=7680 pairs<=480K offered"
    );
    assert_eq!(
        rule(false, 4, Operation::Allgather),
        "allgather@4 roomy: shown<=64K learnt<=256K offered"
    );
    assert_eq!(
        rule(false, 5, Operation::Allgather),
        "allgather@5 roomy: shown<=512K offered"
    );
    let many = rule(true, 100, Operation::Allreduce);
    assert_eq!(many, "allreduce@100 crowded: flat<=4K doubling<=16383 halves");
}

#[test]
fn an_allreduce_of_few_ranks_that_share_cpus_or_many_that_do_not_goes_in_phases() {
    let phased = |set: &[(&str, &str)], crowded, size| table(set, crowded, size).phased;
    assert_eq!(
        [2, 3, 4, 5].map(|size| phased(&[], true, size)),
        [ANY, 256 << 10, 256 << 10, ANY]
    );
    assert_eq!([7, 8, 16].map(|size| phased(&[], false, size)), [ANY, 1 << 20, 1 << 20]);
    assert_eq!(phased(&[("NEARMPI_BOARD_PIECES", "0")], true, 4), ANY);
}

#[test]
fn a_scatter_of_two_ranks_with_a_long_ring_goes_by_messages() {
    let of = |ring: &str, size| {
        let table = table(&[("NEARMPI_RING_LARGE", ring)], false, size);
        [16 << 10, (16 << 10) + 1, 2 << 20, (2 << 20) + 1].map(|len| table.scatter.sends(len))
    };
    assert_eq!(of("4194304", 2), [false, true, true, false]);
    assert_eq!(of("1048576", 2), [false; 4]);
    // Three have no larger ring.
    assert_eq!(of("4194304", 3), [true, true, false, false]);
}

#[test]
fn ranks_that_go_round_may_be_far_ahead_and_two_need_not_learn_what_is_quicker() {
    let learnt = |round: &str| {
        let table = table(&[("NEARMPI_BOARD_ROUND", round)], false, 2);
        [table.gather, table.reduce, table.scan].map(|row| (row.shown, row.learnt, row.shown_unasked))
    };
    let ahead = |round: &str| table(&[("NEARMPI_BOARD_ROUND", round)], true, 4).ahead;
    assert_eq!(["0", "65536", "1048576"].map(ahead), [256 << 10, 256 << 10, 512 << 10]);
    let quarter = 16 << 10;
    let (most, scan) = (4 << 20, (quarter, ANY, quarter));
    assert_eq!(learnt("0"), [(quarter, most, most), scan, scan]);
    // Nonblocking ones of two ranks, which do not go round, stay as they are.
    assert_eq!(learnt("1048576"), [(most, most, most), (ANY, ANY, quarter), scan]);
}

#[test]
fn a_rule_says_messages_where_they_come() {
    let rule = |rules: &str| {
        let settings = Settings::read(|name| (name == "NEARMPI_COLLECTIVES").then(|| rules.into())).unwrap();
        Case::new(&settings, None, 2).rule(Operation::Scatter).to_string()
    };
    for steps in [
        "shown<=32K learnt<=256K linear<=2M offered",
        "shown<=1K linear<=2K learnt<=4K offered",
        "offered<=1M linear",
    ] {
        assert_eq!(rule(&format!("scatter: {steps}")), format!("scatter@2 roomy: {steps}"));
    }
}

/// Ranks that chose differently would wait for each other for ever.
#[test]
fn the_table_goes_by_settings_that_all_ranks_have_alike() {
    let jobs = [2, 4, 8, 32].into_iter().flat_map(|size| [(false, size), (true, size)]);
    let tables = |set: &[(&str, &str)]| -> Vec<Table> {
        jobs.clone().map(|(crowded, size)| table(set, crowded, size)).collect()
    };
    for cvar in TABLE.iter().filter(|cvar| !cvar.of_job && !cvar.is_text) {
        for value in [cvar.range.0, cvar.range.1].map(|value| value.to_string()) {
            assert_eq!(tables(&[(cvar.name, &value)]), tables(&[]), "{}={value}", cvar.name);
        }
    }
}
