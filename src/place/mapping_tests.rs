//! Binding on a machine of two packages with four cores of two threads each, numbered as Intel does.

use super::*;
use crate::place::machine::Object;
use std::collections::BTreeMap;

fn machine() -> Machine {
    let object = |kind, number, list: &str| Object {
        kind,
        number: Some(number),
        bytes: 0,
        cpus: CpuSet::parse(list).unwrap(),
    };
    let mut objects = vec![];
    for (package, list) in [(0, "0-3,8-11"), (1, "4-7,12-15")] {
        objects.push(object(Kind::Package, package, list));
        objects.push(object(Kind::Node, package, list));
    }
    for core in 0..8 {
        objects.push(object(Kind::Core, core, &format!("{core},{}", core + 8)));
        objects.push(object(Kind::Pu, core, &format!("{core}")));
        objects.push(object(Kind::Pu, core + 8, &format!("{}", core + 8)));
    }
    Machine::new(objects, BTreeMap::new()).unwrap()
}

fn wish(options: &str) -> Wish {
    let mut wish = Wish::default();
    for option in options.split_whitespace() {
        let (name, value) = option.split_at(2);
        match name {
            "m=" => wish.map = Some(MapBy::parse(value).unwrap()),
            "b=" => wish.bind = Some(BindTo::parse(value).unwrap()),
            "r=" => wish.rank = Some(rank_by(value).unwrap()),
            _ => wish.cpus = Some(CpuSet::parse(value).unwrap()),
        }
    }
    wish
}

fn try_assigned(options: &str, ranks: usize) -> Result<String, String> {
    let read = |name: &str| match name {
        "map" => Ok("0 5\n1 0-1\n".to_string()),
        "far" => Ok("0 5\n1 99\n".to_string()),
        other => Err(format!("{other}: no such file")),
    };
    let sets = assign(&wish(options), &machine(), ranks, ranks <= 16, &read)?;
    Ok(sets.iter().map(CpuSet::to_string).collect::<Vec<_>>().join(" "))
}

#[test]
fn ranks_sit_where_the_options_say() {
    for (options, ranks, expected) in [
        // Shares: whole cores, threads of one core to one rank.
        ("", 2, "0-3,8-11 4-7,12-15"),
        ("", 4, "0-1,8-9 2-3,10-11 4-5,12-13 6-7,14-15"),
        ("", 3, "0-1,8-9 2-4,10-12 5-7,13-15"),
        ("", 16, "0 8 1 9 2 10 3 11 4 12 5 13 6 14 7 15"),
        ("", 1, ""),
        ("", 17, "                "),
        // Hydra.
        ("b=core", 3, "0,8 1,9 2,10"),
        ("b=core:2", 3, "0-1,8-9 2-3,10-11 4-5,12-13"),
        ("b=hwthread", 3, "0 8 1"),
        ("b=socket", 3, "0-3,8-11 4-7,12-15 0-3,8-11"),
        ("b=rr", 3, "0 1 2"),
        ("b=user:0,2,1", 4, "0 2 1 0"),
        ("b=user:0+2,1+4,3", 3, "0,2 1,4 3"),
        ("b=none", 2, " "),
        ("m=socket b=core", 4, "0,8 4,12 1,9 5,13"),
        ("b=core", 9, "0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15 0,8"),
        // Open MPI.
        ("m=ppr:2:socket", 4, "0,8 1,9 4,12 5,13"),
        ("m=ppr:2:socket:PE=2", 4, "0-1,8-9 2-3,10-11 4-5,12-13 6-7,14-15"),
        ("m=ppr:1:core", 3, "0,8 1,9 2,10"),
        ("m=ppr:2:core", 3, "0,8 0,8 1,9"),
        ("m=ppr:1:hwthread", 3, "0 8 1"),
        ("m=ppr:1:numa b=numa", 2, "0-3,8-11 4-7,12-15"),
        ("m=slot:PE=2", 2, "0-1,8-9 2-3,10-11"),
        ("m=core b=core r=socket", 6, "0,8 4,12 1,9 5,13 2,10 3,11"),
        ("m=socket b=core r=core", 4, "0,8 1,9 4,12 5,13"),
        ("m=ppr:4:socket r=socket", 8, "0,8 4,12 1,9 5,13 2,10 6,14 3,11 7,15"),
        ("m=ppr:4:socket r=slot", 8, "0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15"),
        ("m=hwthread b=hwthread", 3, "0 8 1"),
        ("m=socket:SPAN b=socket:overload-allowed", 2, "0-3,8-11 4-7,12-15"),
        // A part of the machine.
        ("c=2,3,6 b=core", 3, "2 3 6"),
        ("c=2,3,6 b=none", 2, "2-3,6 2-3,6"),
        ("c=2,3", 1, "2-3"),
        ("c=2,3", 3, "2-3 2-3 2-3"),
        ("c=4-7 m=socket b=core", 2, "4 5"),
        // A file.
        ("m=file:map", 2, "5 0-1"),
    ] {
        assert_eq!(try_assigned(options, ranks).unwrap(), expected, "{options} for {ranks}");
    }
}

#[test]
fn what_the_machine_has_not_got_is_said() {
    for (options, ranks, reason) in [
        ("m=ppr:2:socket", 5, "take 4 ranks, the job has 5"),
        ("m=ppr:1:core", 9, "8 of them take 8 ranks, the job has 9"),
        ("m=ppr:1:core:PE=2", 2, "a core of this machine has 1"),
        ("m=core:PE=9", 1, "this machine has 8"),
        ("m=l3cache", 2, "no l3cache"),
        ("m=socket:PE=5", 2, "a package of this machine has 4"),
        ("c=3,99", 2, "CPUs 99"),
        ("b=user:0,77", 2, "CPU 77 of rank 1"),
        ("m=file:map", 3, "is for 2 ranks, the job has 3"),
        ("m=file:far", 2, "CPU 99 of rank 1"),
        ("m=file:gone", 2, "no such file"),
    ] {
        let error = try_assigned(options, ranks).unwrap_err();
        assert!(error.contains(reason), "{options}: {error}");
    }
}

#[test]
fn modifiers_alone_are_of_slots() {
    assert_eq!(MapBy::parse(":PE=2"), MapBy::parse("slot:PE=2"));
    assert_eq!(MapBy::parse(":OVERSUBSCRIBE,SPAN"), MapBy::parse("slot"));
    assert!(MapBy::parse(":").is_err() && MapBy::parse(":MOOD").is_err());
}

#[test]
fn what_is_no_binding_is_refused() {
    for text in ["", "cor", "core:0", "core:x", "user:", "user:a", "user:1,,2"] {
        assert!(BindTo::parse(text).unwrap_err().contains("-bind-to"), "{text}");
    }
    for text in [
        "",
        "sockets",
        "ppr",
        "ppr:2",
        "ppr:x:socket",
        "socket:PE=0",
        "core:loud",
    ] {
        assert!(MapBy::parse(text).unwrap_err().contains("-map-by"), "{text}");
    }
    assert!(rank_by("mood").is_err());
}

#[test]
fn ranks_that_share_a_cpu_are_counted() {
    let sets = |list: &[&str]| list.iter().map(|set| CpuSet::parse(set).unwrap()).collect::<Vec<_>>();
    let all = CpuSet::parse("0-3").unwrap();
    assert_eq!(own_cpus(&sets(&["0", "0", "1"]), &all), 2);
    assert_eq!(own_cpus(&sets(&["0-1", "0", "1-2", "", ""]), &all), 4);
    assert_eq!(own_cpus(&sets(&["0-2", "0", "1", "2"]), &all), 3);
    assert_eq!(own_cpus(&sets(&["0-1", "0", "3", "2-3"]), &all), 4);
}
