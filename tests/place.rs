//! Placement: the figures and tables of Mercier 2009, known best mappings, and what the tools say to bad input.

use mpi::place::machine::Machine;
use mpi::place::matrix::Matrix;
use mpi::place::patterns;
use mpi::place::policy::{Method, Planner, Policy};
use mpi::place::weights::Weights;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn topology(name: &str) -> String {
    format!("{}/tests/topologies/{name}.xml", env!("CARGO_MANIFEST_DIR"))
}

fn tool(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).output().unwrap()
}

fn topo(arguments: &[&str]) -> Output {
    tool(env!("CARGO_BIN_EXE_nearmpi-topo"), arguments)
}

fn place(arguments: &[&str]) -> Output {
    tool(env!("CARGO_BIN_EXE_nearmpi-place"), arguments)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output of a run that must succeed.
fn said(output: Output) -> String {
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Calls `check` with a planner for `matrix` on a machine of ours.
fn on<T>(machine: &str, matrix: &Matrix, check: impl FnOnce(&Planner, &Weights) -> T) -> T {
    let (machine, _) = Machine::of(&topology(machine), None).unwrap();
    let weights = Weights::new(&machine, false);
    let planner = Planner::new(&machine, &weights, matrix).unwrap();
    check(&planner, &weights)
}

fn cost_of(planner: &Planner, method: Method) -> Option<f64> {
    let (placed, _) = planner.placed(method, None).ok()?;
    Some(planner.report(&planner.sets(Policy::Placed, &placed)).cost)
}

/// Figure 4: NAS LU, class B, 8 processes.
fn figure_4() -> Matrix {
    let rows = [
        [0, 1000, 10, 1, 100, 1, 1, 1],
        [1000, 0, 1000, 1, 1, 100, 1, 1],
        [10, 1000, 0, 1000, 1, 1, 100, 1],
        [1, 1, 1000, 0, 1, 1, 1, 100],
        [100, 1, 1, 1, 0, 1000, 10, 1],
        [1, 100, 1, 1, 1000, 0, 1000, 1],
        [1, 1, 100, 1, 10, 1000, 0, 1000],
        [1, 1, 1, 100, 1, 1, 1000, 0],
    ];
    let mut matrix = Matrix::silent(8);
    for (a, row) in rows.iter().enumerate() {
        row.iter().enumerate().for_each(|(b, bytes)| matrix.send(a, b, *bytes));
    }
    matrix
}

#[test]
fn the_weights_of_the_opteron_are_those_of_figure_3() {
    let figure = "   0  100  100   10 1000  100  100   10\n 100    0   10  100  100 1000   10  100\n\
                  \x20100   10    0  100  100   10 1000  100\n  10  100  100    0   10  100  100 1000\n\
                  1000  100  100   10    0  100  100   10\n 100 1000   10  100  100    0   10  100\n\
                  \x20100   10 1000  100  100   10    0  100\n  10  100  100 1000   10  100  100    0\n";
    assert_eq!(said(topo(&["-t", &topology("opteron-4x2"), "--weights"])), figure);
}

#[test]
fn lu_is_placed_better_than_in_table_1() {
    on("opteron-4x2", &figure_4(), |planner, weights| {
        let core = |cpu: usize| weights.places.iter().position(|place| place.has(cpu)).unwrap();
        let table_1: Vec<Vec<usize>> = [3, 7, 4, 0, 6, 2, 5, 1].iter().map(|cpu| vec![core(*cpu)]).collect();
        let theirs = planner.report(&table_1).cost;
        // Ranks 01, 23, 45 and 67 share a die, 8000 bytes in all. With the dies in the circle 01-23-67-45 the
        // neighbours exchange 2024, 404, 2024 and 404, one hop; the others twice 8, two hops. The table has the
        // two heavy ones of these two hops away.
        let best = 8000.0 + 10.0 * 4856.0 + 100.0 * 16.0;
        for method in [Method::Best, Method::Builtin] {
            let cost = cost_of(planner, method).unwrap();
            assert!(cost <= theirs, "{method:?}: {cost} against {theirs}");
            assert_eq!(cost, best, "{method:?}");
        }
        assert!(theirs > 2.0 * best);
    });
}

#[test]
fn our_own_method_is_as_good_as_scotch() {
    let kernels = [
        "lu.B.8", "cg.B.8", "mg.B.8", "bt.B.4", "sp.B.4", "lu.C.64", "cg.C.64", "bt.C.64", "mg.C.64", "sp.C.64",
    ];
    for name in kernels {
        let matrix = patterns::named(name).unwrap();
        let machines: &[&str] = if matrix.ranks() > 8 {
            &["epyc-2x32"]
        } else {
            &["opteron-4x2", "xeon-2x8"]
        };
        for machine in machines {
            on(machine, &matrix, |planner, _| {
                let ours = cost_of(planner, Method::Builtin).unwrap();
                if let Some(theirs) = cost_of(planner, Method::Scotch) {
                    assert!(ours <= theirs, "{name} on {machine}: {ours} against Scotch's {theirs}");
                }
                let placed = planner.placed(Method::Builtin, None).unwrap().0;
                let cost = |policy| planner.report(&planner.sets(policy, &placed)).cost;
                assert!(
                    Policy::ALL.iter().all(|policy| cost(*policy) >= ours * (1.0 - 1e-9)),
                    "{name} on {machine}"
                );
                assert!(
                    cost(Policy::PlacedReverse) >= cost(Policy::RrBound),
                    "{name} on {machine}"
                );
            });
        }
    }
}

#[test]
fn known_best_mappings_are_found() {
    // Every rank talks to the one half a job away, on two packages of eight: each pair shares a package.
    let mut matrix = Matrix::silent(16);
    (0..8).for_each(|rank| matrix.send(rank, rank + 8, 1000));
    // Across packages 1 byte costs 10, within 1.
    on("xeon-2x8", &matrix, |planner, _| {
        assert_eq!(cost_of(planner, Method::Builtin), Some(8000.0))
    });
    // Rings of four ranks, far apart by number, fit under the third-level caches of four cores.
    let mut matrix = Matrix::silent(64);
    for rank in 0..64 {
        matrix.send(rank, (rank + 16) % 64, 1);
    }
    on("epyc-2x32", &matrix, |planner, weights| {
        assert_eq!(weights.classes.len(), 4, "L3, node, package, other");
        assert_eq!(cost_of(planner, Method::Builtin), Some(64.0));
    });
}

#[test]
fn the_share_of_near_traffic_grows_as_in_table_3() {
    // Eight nodes like the paper's; round-robin deals rank i to node i mod 8.
    for name in ["bt.C.64", "cg.C.64", "lu.C.64", "mg.C.64", "sp.C.64"] {
        on("borderline-8x8", &patterns::named(name).unwrap(), |planner, weights| {
            let near = |policy, placed: &[usize]| -> f64 {
                let report = planner.report(&planner.sets(policy, placed));
                let classes = weights.classes.iter().zip(&report.shares);
                classes
                    .filter(|(class, _)| class.distance != Some(200))
                    .map(|(_, share)| share)
                    .sum()
            };
            let placed = planner.placed(Method::Builtin, None).unwrap().0;
            let (spread, grouped) = (near(Policy::Rr, &placed), near(Policy::Placed, &placed));
            assert!(
                (near(Policy::RrBound, &placed) - spread).abs() < 1e-9,
                "{name}: binding changes no node"
            );
            assert!(grouped > spread + 0.05, "{name}: {spread} to {grouped}");
        });
    }
}

#[test]
fn a_map_goes_from_the_tool_to_a_drawing() {
    let (map, svg) = (scratch("lu.map"), scratch("lu.svg"));
    let opteron = topology("opteron-4x2");
    let (map, svg) = (map.to_str().unwrap(), svg.to_str().unwrap());
    let report = said(place(&["--pattern", "lu.B.8", "-t", &opteron, "-o", map, "--svg", svg]));
    for policy in Policy::ALL {
        assert!(report.contains(&format!("\n{} ", policy.name())), "{report}");
    }
    assert!(
        report.contains("mpirun -n 8 -bind-to user:") && report.contains("same NUMA node"),
        "{report}"
    );
    let picture = said(topo(&["-t", &opteron, "-m", map]));
    assert!(
        (0..8).all(|rank| picture.contains(&format!("<- rank {rank}\n"))),
        "{picture}"
    );
    let drawing = fs::read_to_string(svg).unwrap();
    assert!(
        (0..8).all(|rank| drawing.contains(&format!(">rank {rank}<"))),
        "{drawing}"
    );
    assert_eq!(
        fs::read_to_string(map)
            .unwrap()
            .lines()
            .filter(|line| !line.starts_with('#'))
            .count(),
        8
    );
}

#[test]
fn without_hwloc_the_tools_read_sys_and_say_so() {
    let output = topo(&["--hwloc", "none"]);
    assert!(
        text(&output.stderr).contains("reading /sys instead"),
        "{}",
        text(&output.stderr)
    );
    assert!(said(output).contains("CPU 0"));
    let output = topo(&["--hwloc", "/nonexistent/libhwloc.so"]);
    assert!(text(&output.stderr).contains("/nonexistent/libhwloc.so"));
    assert!(output.status.success());
}

#[test]
fn bad_input_gets_a_sentence() {
    let write = |name: &str, content: &str| {
        let path = scratch(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_string()
    };
    let opteron = topology("opteron-4x2");
    let torn = write("torn.json", r#"{"ranks": 3, "matrix": {"bytes": [[0,1],[1,0]]}}"#);
    let uneven = write("uneven.json", r#"{"ranks": 2, "matrix": {"bytes": [[0,1],[1]]}}"#);
    let words = write("words.json", "who knows");
    let xml = write("torn.xml", "<topology><object type='Machine'>");
    let other = write("other.xml", "<html></html>");
    for (arguments, reason) in [
        (
            &["--matrix", &torn, "-t", &opteron][..],
            "torn.json: the matrix has 2 rows for 3 ranks",
        ),
        (
            &["--matrix", &uneven, "-t", &opteron],
            "row 1 of the matrix has 1 numbers for 2 ranks",
        ),
        (&["--matrix", &words, "-t", &opteron], "words.json: no JSON"),
        (&["--matrix", "/nonexistent.json"], "/nonexistent.json: No such file"),
        (
            &["--pattern", "lu.B.16", "-t", &opteron],
            "lu.B.16: 16 ranks do not fit on 8 cores",
        ),
        (&["--pattern", "lu.B.8", "-t", &xml], "torn.xml: not a topology"),
        (&["--pattern", "lu.B.8", "-t", &other], "begins with <html>"),
        (
            &["--pattern", "lu.B.8", "-t", "/nonexistent.xml"],
            "/nonexistent.xml: No such file",
        ),
        (&["--pattern", "lu.B.7", "-t", &opteron], "power of two"),
        (
            &[
                "--pattern",
                "lu.B.8",
                "-t",
                &opteron,
                "--method",
                "scotch",
                "--scotch",
                "none",
            ],
            "switched off",
        ),
        (
            &["--pattern", "lu.B.8", "-t", &opteron, "-o", "/nonexistent/map"],
            "/nonexistent/map",
        ),
        (&["-t", &opteron], "--matrix"),
    ] {
        let output = place(arguments);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(
            text(&output.stderr).contains(reason),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
    }
    for (arguments, reason) in [
        (&["-t", "/nonexistent.xml"][..], "/nonexistent.xml"),
        (&["-m", "/nonexistent.map"], "/nonexistent.map"),
        (&["-m", &words], "line 1"),
        (&["-j", "1"], "no rank of a job of process 1"),
    ] {
        let output = topo(arguments);
        assert!(
            !output.status.success() && text(&output.stderr).contains(reason),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
    }
}
