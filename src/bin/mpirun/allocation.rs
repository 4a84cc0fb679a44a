//! What a batch system has given to this job: Slurm, PBS, LSF or Grid Engine, as their variables say.

use crate::arguments::MOST;

/// Looks up a variable, or reads a file.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Processes and machines that were asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Whose.
    pub system: &'static str,
    /// How many processes, if that was said.
    pub ranks: Option<u32>,
    /// On how many machines.
    pub nodes: u32,
}

/// The allocation that this process runs in, if it does. `read` reads a file.
pub fn find(variable: Lookup, read: Lookup) -> Option<Allocation> {
    let number = |name: &str| variable(name).and_then(|text| positive(&text));
    let there = |name: &str| variable(name).filter(|text| !text.is_empty());
    let of = |system, ranks: Option<u32>, nodes: Option<u32>| {
        Some(Allocation {
            system,
            ranks: ranks.filter(|ranks| *ranks <= MOST),
            nodes: nodes.unwrap_or(1),
        })
    };
    if there("SLURM_JOB_ID").or_else(|| there("SLURM_JOBID")).is_some() {
        let each = || {
            let node = variable("SLURM_NODEID").and_then(|text| text.parse().ok());
            tasks(&there("SLURM_TASKS_PER_NODE")?, node.unwrap_or(0))
        };
        let ranks = number("SLURM_NTASKS").or_else(|| number("SLURM_NPROCS")).or_else(each);
        return of(
            "Slurm",
            ranks,
            number("SLURM_JOB_NUM_NODES").or_else(|| number("SLURM_NNODES")),
        );
    }
    if let Some(file) = there("PBS_NODEFILE") {
        let text = read(&file).unwrap_or_default();
        let mut names: Vec<&str> = text.split_whitespace().collect();
        let slots = positive(&names.len().to_string());
        names.sort_unstable();
        names.dedup();
        return of("PBS", number("PBS_NP").or(slots), positive(&names.len().to_string()));
    }
    if there("LSB_JOBID").is_some() {
        let hosts = variable("LSB_MCPU_HOSTS").unwrap_or_default();
        let words: Vec<&str> = hosts.split_whitespace().collect();
        let slots = words
            .chunks(2)
            .map(|pair| pair.get(1).and_then(|count| positive(count)))
            .sum();
        let nodes = positive(&(words.len() / 2).to_string());
        return of(
            "LSF",
            number("LSB_DJOB_NUMPROC").or(slots).filter(|ranks| *ranks > 0),
            nodes,
        );
    }
    if there("PE_HOSTFILE").is_some() {
        return of("Grid Engine", number("NSLOTS"), number("NHOSTS"));
    }
    None
}

fn positive(text: &str) -> Option<u32> {
    text.trim().parse().ok().filter(|number| *number > 0)
}

/// The tasks of a node in Slurm's list of all: `4(x2),3` is 4, 4, 3.
fn tasks(list: &str, node: usize) -> Option<u32> {
    let mut before = 0;
    for part in list.split(',') {
        let (count, times) = part.split_once("(x").unwrap_or((part, "1)"));
        before += times.trim_end_matches(')').parse::<usize>().ok()?;
        if node < before {
            return positive(count);
        }
    }
    None
}

impl Allocation {
    /// What to tell somebody who counts on other machines; `ranks` start here. Nothing where there are none.
    pub fn warning(&self, ranks: u32) -> Option<String> {
        let told = || {
            format!(
                "this {} allocation has {} machines, and nearmpi runs on one: all {ranks} ranks start here (-n or -host localhost says that they are meant to)",
                self.system, self.nodes
            )
        };
        (self.nodes > 1).then(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> Option<(&'static str, Option<u32>, u32)> {
        let variable = |name: &str| {
            let entry = variables.iter().find(|(key, _)| *key == name)?;
            Some(entry.1.to_string())
        };
        let read = |name: &str| (name == "nodes").then(|| "a\na\nb\na\n".to_string());
        find(&variable, &read).map(|it| (it.system, it.ranks, it.nodes))
    }

    #[test]
    fn slurm_says_how_many_tasks() {
        let id = ("SLURM_JOB_ID", "7");
        assert_eq!(found(&[("SLURM_NTASKS", "4")]), None);
        assert_eq!(found(&[id]), Some(("Slurm", None, 1)));
        assert_eq!(found(&[id, ("SLURM_NPROCS", "3")]), Some(("Slurm", Some(3), 1)));
        let both = [id, ("SLURM_NPROCS", "3"), ("SLURM_NTASKS", "5"), ("SLURM_NNODES", "2")];
        assert_eq!(found(&both), Some(("Slurm", Some(5), 2)));
        let each = ("SLURM_TASKS_PER_NODE", "4(x2),3");
        assert_eq!(found(&[id, each]), Some(("Slurm", Some(4), 1)));
        let node = ("SLURM_NODEID", "2");
        assert_eq!(found(&[id, each, node]), Some(("Slurm", Some(3), 1)));
        let junk = [id, ("SLURM_NTASKS", "none"), ("SLURM_TASKS_PER_NODE", "x(y")];
        assert_eq!(found(&junk), Some(("Slurm", None, 1)));
    }

    #[test]
    fn others_say_it_as_well() {
        let pbs = [("PBS_NODEFILE", "nodes")];
        assert_eq!(found(&pbs), Some(("PBS", Some(4), 2)));
        assert_eq!(found(&[pbs[0], ("PBS_NP", "6")]), Some(("PBS", Some(6), 2)));
        assert_eq!(found(&[("PBS_NODEFILE", "gone")]), Some(("PBS", None, 1)));
        let lsf = [("LSB_JOBID", "1"), ("LSB_MCPU_HOSTS", "a 4 b 2")];
        assert_eq!(found(&lsf), Some(("LSF", Some(6), 2)));
        assert_eq!(found(&[lsf[0], ("LSB_DJOB_NUMPROC", "3")]), Some(("LSF", Some(3), 1)));
        let engine = [("PE_HOSTFILE", "x"), ("NSLOTS", "8"), ("NHOSTS", "1")];
        assert_eq!(found(&engine), Some(("Grid Engine", Some(8), 1)));
    }

    #[test]
    fn more_machines_are_told() {
        let of = |nodes| {
            Allocation {
                system: "Slurm",
                ranks: None,
                nodes,
            }
            .warning(9)
        };
        assert_eq!(of(1), None);
        let told = of(3).unwrap();
        assert!(
            told.contains("Slurm") && told.contains("3 machines") && told.contains("all 9 ranks"),
            "{told}"
        );
    }
}
