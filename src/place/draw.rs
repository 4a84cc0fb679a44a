//! Draws a machine with ranks on it: as an indented text, and as an SVG that needs nothing else.

use super::machine::{Kind, Machine, Object};
use super::weights::Weights;
use crate::sys::cpuset::CpuSet;
use std::fmt::Write;

/// An object and what lies directly inside it.
struct Tree<'a> {
    /// Objects with the same CPUs, the outermost first.
    objects: Vec<&'a Object>,
    inside: Vec<Tree<'a>>,
}

/// The machine as nested objects.
fn tree(machine: &Machine) -> Tree<'_> {
    let mut objects = machine.objects().iter();
    let mut root = Tree {
        objects: objects.next().into_iter().collect(),
        inside: vec![],
    };
    // Outer ones come first, so each finds the one it belongs to.
    objects.for_each(|object| insert(&mut root, object));
    sort(&mut root, machine);
    root
}

fn insert<'a>(tree: &mut Tree<'a>, object: &'a Object) {
    if tree.objects.first().is_some_and(|first| first.cpus == object.cpus) {
        return tree.objects.push(object);
    }
    let holds = |inner: &&mut Tree| {
        inner
            .objects
            .first()
            .is_some_and(|first| object.cpus.within(&first.cpus))
    };
    match tree.inside.iter_mut().find(holds) {
        Some(inner) => insert(inner, object),
        None => tree.inside.push(Tree {
            objects: vec![object],
            inside: vec![],
        }),
    }
}

fn sort(tree: &mut Tree, machine: &Machine) {
    let at = |tree: &Tree| {
        machine
            .order()
            .iter()
            .position(|cpu| tree.objects.first().is_some_and(|o| o.cpus.has(*cpu)))
    };
    tree.inside.sort_by_key(at);
    tree.inside.iter_mut().for_each(|inner| sort(inner, machine));
}

fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.iter().find(|(_, unit)| bytes >= *unit);
    unit.map_or(String::new(), |(name, unit)| {
        format!(" ({} {name})", (bytes + unit / 2) / unit)
    })
}

fn label(object: &Object) -> String {
    let name = match object.kind {
        Kind::Machine => "Machine",
        Kind::Group => "Group",
        Kind::Package => "Package",
        Kind::Die => "Die",
        Kind::Node => "NUMA node",
        Kind::L5 => "L5",
        Kind::L4 => "L4",
        Kind::L3 => "L3",
        Kind::L2 => "L2",
        Kind::L1 => "L1",
        Kind::Core => "Core",
        Kind::Pu => "CPU",
    };
    let numbered = !matches!(
        object.kind,
        Kind::Machine | Kind::L5 | Kind::L4 | Kind::L3 | Kind::L2 | Kind::L1
    );
    let number = object
        .number
        .filter(|_| numbered)
        .map_or(String::new(), |number| format!(" {number}"));
    format!("{name}{number}{}", size(object.bytes))
}

/// The ranks that may run on `cpus` and nowhere else, and whether they have to share it.
fn ranks_of(ranks: &[CpuSet], cpus: &CpuSet) -> Vec<usize> {
    (0..ranks.len())
        .filter(|&rank| !ranks[rank].is_empty() && ranks[rank].within(cpus))
        .collect()
}

fn list(ranks: &[usize]) -> String {
    let set: CpuSet = ranks.iter().copied().collect();
    format!("{} {set}", if ranks.len() == 1 { "rank" } else { "ranks" })
}

/// The machine as text, one line for each group of objects with the same CPUs. `ranks`: the CPUs of each.
pub fn text(machine: &Machine, ranks: &[CpuSet]) -> String {
    let mut text = String::new();
    lines(&tree(machine), ranks, 0, &mut text);
    let free: Vec<usize> = (0..ranks.len()).filter(|&rank| ranks[rank].is_empty()).collect();
    if !free.is_empty() {
        writeln!(text, "not bound: {}", list(&free)).expect("a String takes every text");
    }
    text
}

fn lines(tree: &Tree, ranks: &[CpuSet], depth: usize, text: &mut String) {
    let Some(first) = tree.objects.first() else { return };
    let labels: Vec<String> = tree.objects.iter().map(|object| label(object)).collect();
    let mut mine = ranks_of(ranks, &first.cpus);
    let deeper = |rank: &usize| {
        let fits = |inner: &Tree| inner.objects.first().is_some_and(|o| ranks[*rank].within(&o.cpus));
        tree.inside.iter().any(fits)
    };
    mine.retain(|rank| !deeper(rank));
    let who = if mine.is_empty() {
        String::new()
    } else {
        format!("   <- {}", list(&mine))
    };
    writeln!(text, "{}{}{who}", "  ".repeat(depth), labels.join(" + ")).expect("a String takes every text");
    tree.inside
        .iter()
        .for_each(|inner| lines(inner, ranks, depth + 1, text));
}

/// The levels of a machine with the pairs of cores at each, and the weights.
pub fn levels(weights: &Weights) -> String {
    let mut text = format!("{:32} {:>10} {:>10}\n", "two cores have in common", "pairs", "weight");
    for (index, class) in weights.classes.iter().enumerate() {
        let count = weights.places.len();
        let pairs = (0..count).flat_map(|a| (0..a).map(move |b| (a, b)));
        let pairs = pairs.filter(|(a, b)| weights.class(*a, *b) == index).count();
        writeln!(text, "{:32} {pairs:>10} {:>10}", class.name(), weights.weight_of(index))
            .expect("a String takes every text");
    }
    text
}

/// A matrix of numbers in columns.
pub fn matrix(rows: &[Vec<u64>]) -> String {
    let width = rows
        .iter()
        .flatten()
        .map(|number| number.to_string().len())
        .max()
        .unwrap_or(1);
    let row = |row: &Vec<u64>| {
        row.iter()
            .map(|number| format!("{number:>width$}"))
            .collect::<Vec<_>>()
            .join(" ")
            + "\n"
    };
    rows.iter().map(row).collect()
}

/// Pixels of the drawing.
const CORE: (usize, usize) = (58, 40);
const GAP: usize = 6;
const TITLE: usize = 18;

/// Fill of the box of each kind.
fn color(kind: Kind) -> &'static str {
    match kind {
        Kind::Machine | Kind::Group => "#ffffff",
        Kind::Package => "#e8eef7",
        Kind::Die => "#dfe8f5",
        Kind::Node => "#e7f3e8",
        Kind::L5 | Kind::L4 | Kind::L3 => "#fbf3dc",
        Kind::L2 | Kind::L1 => "#f7ead0",
        Kind::Core | Kind::Pu => "#f4f4f4",
    }
}

/// A box with boxes inside.
struct Picture {
    width: usize,
    height: usize,
    /// Its elements, to be moved to its place.
    body: String,
}

/// The machine as an SVG drawing.
pub fn svg(machine: &Machine, ranks: &[CpuSet]) -> String {
    let picture = picture(&tree(machine), ranks);
    let (width, height) = (picture.width + 2 * GAP, picture.height + 2 * GAP);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"11\" role=\"img\">\n<title>Machine with the ranks on it</title>\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n<g transform=\"translate({GAP} {GAP})\">\n{}</g>\n</svg>\n",
        picture.body
    )
}

fn picture(tree: &Tree, ranks: &[CpuSet]) -> Picture {
    let Some(first) = tree.objects.first() else {
        return Picture {
            width: 0,
            height: 0,
            body: String::new(),
        };
    };
    let core = tree.objects.iter().find(|object| object.kind >= Kind::Core);
    // Threads are not drawn: a core shows the ranks of all its CPUs.
    let outer = tree.objects.iter().filter(|object| object.kind < Kind::Core);
    let title = outer.map(|object| label(object)).collect::<Vec<_>>().join(" + ");
    let inner = match core {
        Some(core) => vec![leaf(core, ranks)],
        None => tree.inside.iter().map(|inner| picture(inner, ranks)).collect(),
    };
    if title.is_empty() {
        return inner.into_iter().next().unwrap_or(Picture {
            width: 0,
            height: 0,
            body: String::new(),
        });
    }
    let columns = columns(&inner);
    let (mut x, mut y, mut width, mut tallest) = (GAP, TITLE + GAP, 0, 0);
    let mut body = String::new();
    for (index, part) in inner.iter().enumerate() {
        if index > 0 && index % columns == 0 {
            (x, y, tallest) = (GAP, y + tallest + GAP, 0);
        }
        writeln!(body, "<g transform=\"translate({x} {y})\">\n{}</g>", part.body).expect("a String takes every text");
        x += part.width + GAP;
        (width, tallest) = (width.max(x), tallest.max(part.height));
    }
    let (width, height) = (width.max(title.chars().count() * 6 + 2 * GAP), y + tallest + GAP);
    let frame = format!(
        "<rect width=\"{width}\" height=\"{height}\" rx=\"4\" fill=\"{}\" stroke=\"#8a94a0\"/>\n<text x=\"{GAP}\" y=\"14\" \
         fill=\"#30363d\">{title}</text>\n",
        color(first.kind)
    );
    Picture {
        width,
        height,
        body: frame + &body,
    }
}

/// Parts side by side such that the whole is about twice as wide as high.
fn columns(parts: &[Picture]) -> usize {
    let (width, height) = parts
        .first()
        .map_or((1, 1), |part| (part.width + GAP, part.height + GAP));
    let shape = |columns: &usize| (columns * width).abs_diff(2 * parts.len().div_ceil(*columns) * height);
    (1..=parts.len().max(1)).min_by_key(shape).unwrap_or(1)
}

fn leaf(core: &Object, ranks: &[CpuSet]) -> Picture {
    let (width, height) = CORE;
    let bound = ranks_of(ranks, &core.cpus);
    let all: Vec<usize> = (0..ranks.len())
        .filter(|&rank| !ranks[rank].and(&core.cpus).is_empty())
        .collect();
    let (fill, text) = match (bound.is_empty(), all.is_empty()) {
        (false, _) => ("#2f6fb4", "#ffffff"),
        (true, false) => ("#a9c8e8", "#10263d"),
        (true, true) => (color(Kind::Core), "#6a737d"),
    };
    let named: CpuSet = if bound.is_empty() { all } else { bound }.into_iter().collect();
    let who = if named.is_empty() {
        "idle".to_string()
    } else {
        format!("rank {named}")
    };
    let body = format!(
        "<rect width=\"{width}\" height=\"{height}\" rx=\"3\" fill=\"{fill}\" stroke=\"#8a94a0\"/>\n<text x=\"{0}\" y=\"17\" \
         text-anchor=\"middle\" font-weight=\"bold\" fill=\"{text}\">{who}</text>\n<text x=\"{0}\" y=\"32\" text-anchor=\"middle\" \
         font-size=\"9\" fill=\"{text}\">CPU {1}</text>\n",
        width / 2,
        core.cpus
    );
    Picture { width, height, body }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn machine() -> Machine {
        let object = |kind, number, bytes, list: &str| Object {
            kind,
            number: Some(number),
            bytes,
            cpus: CpuSet::parse(list).unwrap(),
        };
        let mut objects = vec![];
        for package in 0..2u32 {
            let list = format!("{},{}", package, package + 2);
            objects.push(object(Kind::Package, package, 0, &list));
            objects.push(object(Kind::Node, package, 8 << 30, &list));
            for cpu in [package, package + 2] {
                objects.push(object(Kind::L2, cpu, 1 << 20, &cpu.to_string()));
                objects.push(object(Kind::Pu, cpu, 0, &cpu.to_string()));
            }
        }
        Machine::new(objects, BTreeMap::new()).unwrap()
    }

    #[test]
    fn the_text_nests_and_shows_ranks() {
        let ranks: Vec<CpuSet> = ["2", "1,3", ""]
            .iter()
            .map(|list| CpuSet::parse(list).unwrap())
            .collect();
        let expected = "Machine\n  Package 0 + NUMA node 0 (8 GiB)\n    L2 (1 MiB) + Core 0 + CPU 0\n    L2 (1 MiB) + Core 1 + CPU 2   \
                        <- rank 0\n  Package 1 + NUMA node 1 (8 GiB)   <- rank 1\n    L2 (1 MiB) + Core 2 + CPU 1\n    L2 (1 MiB) + Core 3 \
                        + CPU 3\nnot bound: rank 2\n";
        assert_eq!(text(&machine(), &ranks), expected);
    }

    #[test]
    fn the_drawing_is_well_formed_and_shows_every_core() {
        let ranks: Vec<CpuSet> = ["2", "1,3"].iter().map(|list| CpuSet::parse(list).unwrap()).collect();
        let drawing = svg(&machine(), &ranks);
        let document = roxmltree::Document::parse(&drawing).unwrap();
        let texts: Vec<&str> = document
            .descendants()
            .filter(|n| n.has_tag_name("text"))
            .filter_map(|n| n.text())
            .collect();
        assert_eq!(texts.iter().filter(|text| text.starts_with("CPU ")).count(), 4);
        assert_eq!(texts.iter().filter(|text| **text == "rank 1").count(), 2);
        assert!(texts.contains(&"rank 0") && texts.contains(&"idle"));
    }

    #[test]
    fn numbers_stand_in_columns() {
        assert_eq!(matrix(&[vec![0, 100], vec![10, 0]]), "  0 100\n 10   0\n");
    }
}
