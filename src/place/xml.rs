//! Reads the XML that hwloc writes, versions 1 and 2 (hwloc2.dtd): objects, their CPUs, distances of NUMA nodes.

use super::machine::{Kind, Machine, Object};
use crate::sys::cpuset::CpuSet;
use roxmltree::{Document, Node, ParsingOptions};
use std::collections::BTreeMap;

/// Deepest nesting of objects that is followed.
const DEEPEST: usize = 200;

/// The machine that `text` describes.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub fn machine(text: &str) -> Result<Machine, String> {
    let options = ParsingOptions {
        allow_dtd: true,
        ..ParsingOptions::default()
    };
    let document = Document::parse_with_options(text, options).map_err(|error| error.to_string())?;
    let root = document.root_element();
    if root.tag_name().name() != "topology" {
        return Err(format!(
            "it begins with <{}>, not with <topology>",
            root.tag_name().name()
        ));
    }
    let mut objects = Vec::new();
    let children = root.children().filter(|node| node.has_tag_name("object"));
    children
        .into_iter()
        .try_for_each(|node| gather(node, &mut objects, 0))?;
    let mut distances = BTreeMap::new();
    for node in root.descendants() {
        match node.tag_name().name() {
            "distances2" => distances_of_2(node, &mut distances)?,
            "distances" => distances_of_1(node, &objects, &mut distances)?,
            _ => {}
        }
    }
    Machine::new(objects, distances)
}

/// Adds the object of `node` and all below it.
fn gather(node: Node, objects: &mut Vec<Object>, depth: usize) -> Result<(), String> {
    if depth > DEEPEST {
        return Err(format!("objects are nested more than {DEEPEST} deep"));
    }
    if let Some(kind) = kind(&node) {
        let mask = node.attribute("cpuset");
        let cpus = mask.map(CpuSet::from_mask).transpose()?.unwrap_or_default();
        let number = node.attribute("os_index").and_then(|text| text.parse().ok());
        let bytes = node.attribute("cache_size").or(node.attribute("local_memory"));
        let bytes = bytes.and_then(|text| text.parse().ok()).unwrap_or(0);
        if kind == Kind::Pu && cpus.count() != 1 {
            return Err(format!("a PU with {} CPUs", cpus.count()));
        }
        objects.push(Object {
            kind,
            number,
            bytes,
            cpus,
        });
    }
    let children = node.children().filter(|child| child.has_tag_name("object"));
    children
        .into_iter()
        .try_for_each(|child| gather(child, objects, depth + 1))
}

fn kind(node: &Node) -> Option<Kind> {
    match node.attribute("type")? {
        // Version 1 has one type for all caches.
        "Cache" if node.attribute("cache_type") != Some("2") => {
            Kind::named(&format!("l{}cache", node.attribute("depth")?))
        }
        "Socket" => Some(Kind::Package),
        "NUMANode" => Some(Kind::Node),
        name @ ("Machine" | "Group" | "Package" | "Die" | "Core" | "PU") => Kind::named(name),
        name => Kind::named(name).filter(|kind| (Kind::L5..=Kind::L1).contains(kind)),
    }
}

/// Version 2: the nodes' numbers in `<indexes>`, a row after the other in `<u64values>`.
fn distances_of_2(node: Node, distances: &mut BTreeMap<(u32, u32), u64>) -> Result<(), String> {
    let of_nodes = node.attribute("type") == Some("NUMANode") && node.attribute("indexing") != Some("gp");
    // Bit 4 of the kind: the numbers are bandwidths, of which more is nearer.
    let is_latency = node
        .attribute("kind")
        .and_then(|kind| kind.parse::<u32>().ok())
        .is_none_or(|kind| kind & 8 == 0);
    if !of_nodes || !is_latency {
        return Ok(());
    }
    let texts = |tag: &'static str| {
        let parts = node.children().filter(move |child| child.has_tag_name(tag));
        parts.filter_map(|part| part.text()).collect::<Vec<_>>().join(" ")
    };
    let numbers = |text: String| {
        text.split_whitespace()
            .map(str::parse::<u64>)
            .collect::<Result<Vec<_>, _>>()
    };
    let wrong = |_| "distances that are no numbers".to_string();
    let (nodes, values) = (
        numbers(texts("indexes")).map_err(wrong)?,
        numbers(texts("u64values")).map_err(wrong)?,
    );
    enter(&nodes, &values, distances)
}

/// Version 1: relative latencies of the nodes in logical order, `<latency value=...>`.
fn distances_of_1(node: Node, objects: &[Object], distances: &mut BTreeMap<(u32, u32), u64>) -> Result<(), String> {
    let nodes = objects.iter().filter(|object| object.kind == Kind::Node);
    let nodes: Vec<u64> = nodes.filter_map(|object| object.number.map(u64::from)).collect();
    let count = node.attribute("nbobjs").and_then(|count| count.parse().ok());
    if count != Some(nodes.len()) {
        return Ok(());
    }
    let values = node
        .children()
        .filter_map(|child| child.attribute("value")?.parse::<f64>().ok());
    let values: Vec<u64> = values.map(|value| (value * 10.0) as u64).collect();
    enter(&nodes, &values, distances)
}

fn enter(nodes: &[u64], values: &[u64], distances: &mut BTreeMap<(u32, u32), u64>) -> Result<(), String> {
    if values.len() != nodes.len() * nodes.len() {
        return Err(format!("{} distances between {} NUMA nodes", values.len(), nodes.len()));
    }
    for (row, from) in nodes.iter().enumerate() {
        for (column, to) in nodes.iter().enumerate() {
            distances.insert((*from as u32, *to as u32), values[row * nodes.len() + column]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_topology_is_refused_with_a_reason() {
        for (text, reason) in [
            ("", "root"),
            ("<topology", "root"),
            ("<topology></x>", "expected"),
            ("<html/>", "<html>"),
            ("<topology/>", "no CPU"),
            ("<topology><object type='PU' cpuset='0x3'/></topology>", "2 CPUs"),
            ("<topology><object type='PU' cpuset='q'/></topology>", "mask"),
        ] {
            let error = machine(text).unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn version_1_is_read_as_well() {
        let text = "<topology><object type='Machine' cpuset='0xf'><object type='NUMANode' os_index='0' cpuset='0x3'>\
            <object type='Socket' os_index='0' cpuset='0x3'><object type='Cache' depth='2' cache_type='0' cpuset='0x3'>\
            <object type='PU' os_index='0' cpuset='0x1'/><object type='PU' os_index='1' cpuset='0x2'/></object></object></object>\
            <object type='NUMANode' os_index='1' cpuset='0xc'><object type='PU' cpuset='0x4'/><object type='PU' cpuset='0x8'/></object>\
            <distances nbobjs='2'><latency value='1.0'/><latency value='2.1'/><latency value='2.1'/><latency value='1.0'/></distances>\
            </object></topology>";
        let machine = machine(text).unwrap();
        let set = |list: &str| CpuSet::parse(list).unwrap();
        assert_eq!(machine.level(&set("0-1")).name(), "shared L2");
        assert_eq!(machine.level(&set("2-3")).name(), "same NUMA node");
        assert_eq!(machine.distance(&set("0"), &set("3")), Some(21));
        assert_eq!(machine.places(false).len(), 4);
    }
}
