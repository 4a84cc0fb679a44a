//! On which NUMA nodes a rank's memory lies (`mpirun -report-memory`), in the form of Ekman 2005: the totals of
//! /proc/PID/nodemem, then each mapping as maps.pl lists it. The job's shared memory is listed by its parts.

use crate::shm::segment::Segment;
use crate::sys::cpu;
use crate::sys::descriptor::{inherited, is_memory_file};
use crate::sys::pages::{self, Area, PAGE};
use crate::sys::topology::{Place, nodes};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write;
use std::ops::Range;
use std::os::fd::AsFd;

/// The variable that names the file which the launcher collects reports in.
pub const VARIABLE: &str = "NEARMPI_REPORT_MEMORY";

/// What follows each rank's report.
pub const END: char = '\0';

/// Writes this rank's report where the launcher asked for it, if it did. What goes wrong is the report's loss.
pub fn write(rank: u32, segment: &Segment) {
    let Ok(file) = inherited(VARIABLE) else { return };
    if is_memory_file(file.as_fd()) {
        let text = format!("{}{END}", report(rank, segment));
        // One call, so that the reports of several ranks do not mix.
        let _ = File::from(file).write_all(text.as_bytes());
    }
}

/// Pages by node.
type Count = BTreeMap<u32, usize>;

/// The report of this process, which is rank `rank`.
pub fn report(rank: u32, segment: &Segment) -> String {
    let mine = Place::of(&cpu::mask(0)).node;
    let mut parts: Vec<(String, Count, Option<u32>)> = Vec::new();
    for area in pages::areas().iter().filter(|area| area.resident) {
        parts.extend(split(area, segment, rank).into_iter().map(|(name, range, is_mine)| {
            let mut count = Count::new();
            pages::nodes(range)
                .iter()
                .for_each(|(_, node)| *count.entry(*node).or_default() += 1);
            (name, count, mine.filter(|_| is_mine))
        }));
    }
    text(
        rank,
        mine,
        &nodes().iter().map(|node| node as u32).collect::<Vec<_>>(),
        &parts,
    )
}

/// The parts of a mapping that are listed apart: name, addresses, and whether it should be on the rank's own node.
fn split(area: &Area, segment: &Segment, rank: u32) -> Vec<(String, Range<usize>, bool)> {
    let all = segment.addresses();
    let title = format!("VMA {:x}-{:x} {}", area.range.start, area.range.end, area.name);
    if area.range != all {
        // Files are shared with everybody who runs the same programs; what a process writes is its own.
        let own = area.private && area.writable && !area.name.starts_with('/');
        return vec![(title.trim_end().to_string(), area.range.clone(), own)];
    }
    let layout = segment.layout();
    let owners = (0..segment.ranks()).flat_map(|owner| layout.partitions(owner).map(|part| (owner, part)));
    let mut parts: Vec<_> = owners
        .map(|(owner, (name, range))| {
            let place = all.start + range.start..all.start + range.end;
            (format!("job's memory, {name} of rank {owner}"), place, owner == rank)
        })
        .collect();
    parts.sort_by_key(|(_, range, _)| range.start);
    // What lies between belongs to nobody.
    let ends: Vec<usize> = std::iter::once(all.start)
        .chain(parts.iter().map(|(_, range, _)| range.end))
        .collect();
    let starts: Vec<usize> = parts.iter().map(|(_, range, _)| range.start).chain([all.end]).collect();
    let gaps = ends.into_iter().zip(starts).filter(|(end, start)| end < start);
    parts.extend(gaps.map(|(from, to)| ("job's memory, common tables".to_string(), from..to, false)));
    parts.sort_by_key(|(_, range, _)| range.start);
    parts
}

fn text(rank: u32, mine: Option<u32>, nodes: &[u32], parts: &[(String, Count, Option<u32>)]) -> String {
    let mut text = String::new();
    let mut line = |words: String| writeln!(text, "{words}").expect("a String takes every text");
    let program = std::env::args().next().unwrap_or_default();
    line(format!("rank {rank}: pid {}, {program}", std::process::id()));
    match mine {
        Some(node) => line(format!("Process running on node {node}")),
        None => line("Process running on any node".into()),
    }
    for node in nodes {
        let count: usize = parts.iter().filter_map(|(_, count, _)| count.get(node)).sum();
        line(format!(
            "Process has {} bytes ({count} pages) on node {node}",
            count * PAGE
        ));
    }
    for (name, count, _) in parts.iter().filter(|(_, count, _)| !count.is_empty()) {
        line(name.clone());
        count
            .iter()
            .for_each(|(node, count)| line(format!("    {count} pages on node {node}")));
    }
    line(format!(
        "Processed {} pages",
        parts.iter().flat_map(|(_, count, _)| count.values()).sum::<usize>()
    ));
    for (name, count, wanted) in parts {
        let Some(wanted) = wanted else { continue };
        for (node, count) in count.iter().filter(|(node, _)| *node != wanted) {
            line(format!(
                "warning: rank {rank} runs on node {wanted}, but {count} pages of {name} lie on node {node}"
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_on_another_node_are_warned_of() {
        let count = |pairs: &[(u32, usize)]| pairs.iter().copied().collect::<Count>();
        let parts = [
            ("VMA 1000-9000 [heap]".to_string(), count(&[(0, 2), (1, 5)]), Some(1)),
            ("VMA a000-b000 /lib/x".to_string(), count(&[(0, 1)]), None),
            ("VMA c000-d000".to_string(), count(&[]), Some(1)),
        ];
        let report = text(3, Some(1), &[0, 1, 2], &parts);
        let tail: Vec<&str> = report.lines().skip(1).collect();
        assert_eq!(
            tail,
            [
                "Process running on node 1",
                "Process has 12288 bytes (3 pages) on node 0",
                "Process has 20480 bytes (5 pages) on node 1",
                "Process has 0 bytes (0 pages) on node 2",
                "VMA 1000-9000 [heap]",
                "    2 pages on node 0",
                "    5 pages on node 1",
                "VMA a000-b000 /lib/x",
                "    1 pages on node 0",
                "Processed 8 pages",
                "warning: rank 3 runs on node 1, but 2 pages of VMA 1000-9000 [heap] lie on node 0",
            ]
        );
    }

    #[test]
    fn the_jobs_memory_is_listed_by_its_parts() {
        let segment = Segment::private(2, 2).unwrap();
        let range = segment.addresses();
        let area = Area {
            range: range.clone(),
            writable: true,
            private: false,
            name: "/memfd:nearmpi".into(),
            resident: true,
        };
        let parts = split(&area, &segment, 1);
        assert_eq!(parts[0].1.start, range.start);
        assert_eq!(
            parts.iter().filter(|(_, _, own)| *own).count(),
            segment.layout().partitions(1).len()
        );
        assert!(
            parts.windows(2).all(|pair| pair[0].1.end <= pair[1].1.start),
            "{parts:?}"
        );
    }
}
