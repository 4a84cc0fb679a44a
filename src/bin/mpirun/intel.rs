//! Intel MPI's variables for binding, in the words of our own options.

use crate::allocation::Lookup;

/// Those that change nothing here.
const OTHERS: [&str; 7] = [
    "I_MPI_PIN_ORDER",
    "I_MPI_PIN_CELL",
    "I_MPI_PIN_RESPECT_CPUSET",
    "I_MPI_PIN_RESPECT_HCA",
    "I_MPI_PIN_PROCESSOR_EXCLUDE_LIST",
    "I_MPI_PIN_MODE",
    "I_MPI_PIN_UNIT",
];

/// What they say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Pinning {
    /// The variable that counts, and the value of `-bind-to` that means the same.
    pub bind: Option<(&'static str, String)>,
    /// Those without effect, with their values.
    pub ignored: Vec<String>,
}

/// Reads the variables.
pub fn pinning(variable: Lookup) -> Pinning {
    let of = |name: &str| variable(name).filter(|value| !value.is_empty());
    let mut found = Pinning::default();
    let off = ["0", "off", "no", "disable", "false"];
    if of("I_MPI_PIN").is_some_and(|value| off.contains(&value.to_ascii_lowercase().as_str())) {
        found.bind = Some(("I_MPI_PIN", "none".into()));
    }
    // As with Intel, the domain counts before the list.
    for (name, meaning) in [
        ("I_MPI_PIN_DOMAIN", domain as fn(&str) -> Option<String>),
        ("I_MPI_PIN_PROCESSOR_LIST", list),
    ] {
        let Some(value) = of(name) else { continue };
        match meaning(&value).filter(|_| found == Pinning::default()) {
            Some(bind) => found.bind = Some((name, bind)),
            None => found.ignored.push(format!("{name}={value}")),
        }
    }
    let others = OTHERS.iter().filter_map(|name| Some(format!("{name}={}", of(name)?)));
    found.ignored.extend(others);
    found
}

fn domain(value: &str) -> Option<String> {
    let kind = match value.to_ascii_lowercase().as_str() {
        "core" => "core",
        "sock" | "socket" => "socket",
        "numa" => "numa",
        "cache2" => "l2cache",
        "cache" | "cache3" => "l3cache",
        _ => return None,
    };
    Some(kind.into())
}

/// Numbers and ranges of CPUs in their order, one for each rank.
fn list(value: &str) -> Option<String> {
    let mut cpus = Vec::new();
    for part in value.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last {
            return None;
        }
        cpus.extend((first..=last).map(|cpu| cpu.to_string()));
    }
    Some(format!("user:{}", cpus.join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variables: &[(&str, &str)]) -> (Option<(&'static str, String)>, usize) {
        let variable = |name: &str| {
            let entry = variables.iter().find(|(key, _)| *key == name)?;
            Some(entry.1.to_string())
        };
        let pinning = pinning(&variable);
        (pinning.bind, pinning.ignored.len())
    }

    #[test]
    fn the_simple_ones_have_their_effect() {
        let (pin, list, domain) = ("I_MPI_PIN", "I_MPI_PIN_PROCESSOR_LIST", "I_MPI_PIN_DOMAIN");
        let bind = |name, what: &str| Some((name, what.to_string()));
        assert_eq!(found(&[]), (None, 0));
        assert_eq!(found(&[(pin, "1")]), (None, 0));
        assert_eq!(found(&[(pin, "Off")]), (bind(pin, "none"), 0));
        assert_eq!(found(&[(list, "3,0-2")]), (bind(list, "user:3,0,1,2"), 0));
        assert_eq!(found(&[(domain, "cache3"), (list, "1")]), (bind(domain, "l3cache"), 1));
        assert_eq!(found(&[(pin, "0"), (domain, "core")]), (bind(pin, "none"), 1));
        assert_eq!(found(&[(domain, "omp"), ("I_MPI_PIN_ORDER", "scatter")]), (None, 2));
        for odd in ["allcores", "0-", "3-1", "all:grain=2"] {
            assert_eq!(found(&[(list, odd)]), (None, 1), "{odd}");
        }
    }
}
