//! Sets of CPUs, in the spellings of Linux (`0-3,8`) and hwloc (`0x00000001,0x000000ff`).

use std::fmt;

/// Highest CPU number taken from text, so that a slip of the hand takes no gigabytes.
const HIGHEST: usize = 1 << 16;

/// A set of CPU numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CpuSet(Vec<u64>);

impl CpuSet {
    /// Whether `cpu` is in it.
    pub fn has(&self, cpu: usize) -> bool {
        self.0.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }

    /// Adds `cpu`.
    pub fn add(&mut self, cpu: usize) {
        if self.0.len() <= cpu / 64 {
            self.0.resize(cpu / 64 + 1, 0);
        }
        self.0[cpu / 64] |= 1 << (cpu % 64);
    }

    /// Adds all of `other`.
    pub fn join(&mut self, other: &CpuSet) {
        other.iter().for_each(|cpu| self.add(cpu));
    }

    /// What both have.
    pub fn and(&self, other: &CpuSet) -> CpuSet {
        self.iter().filter(|&cpu| other.has(cpu)).collect()
    }

    /// Whether all of it is in `other`.
    pub fn within(&self, other: &CpuSet) -> bool {
        self.iter().all(|cpu| other.has(cpu))
    }

    /// Number of CPUs.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// The lowest.
    pub fn first(&self) -> Option<usize> {
        self.iter().next()
    }

    /// Their numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        (0..self.0.len() * 64).filter(|&cpu| self.has(cpu))
    }

    /// One bit for each CPU, the lowest first.
    pub fn words(&self) -> &[u64] {
        &self.0
    }

    /// From [`CpuSet::words`].
    pub fn from_words(words: &[u64]) -> CpuSet {
        let used = words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
        CpuSet(words[..used].to_vec())
    }

    /// Takes `0-3,8,10-11` apart; also `0-15:4`, every fourth, as the kernel writes it.
    ///
    /// # Errors
    /// A sentence with the part that is no number and no range.
    pub fn parse(list: &str) -> Result<CpuSet, String> {
        let mut set = CpuSet::default();
        for part in list.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let wrong = || format!("{part:?} is not a CPU number or a range like 0-3");
            let number = |text: &str| text.trim().parse().ok().filter(|cpu| *cpu <= HIGHEST).ok_or_else(wrong);
            let (range, step) = part
                .split_once(':')
                .map_or((part, 1), |(r, s)| (r, s.parse().unwrap_or(0)));
            let (low, high) = match range.split_once('-') {
                Some((low, high)) => (number(low)?, number(high)?),
                None => (number(range)?, number(range)?),
            };
            if low > high || step == 0 {
                return Err(wrong());
            }
            (low..=high).step_by(step).for_each(|cpu| set.add(cpu));
        }
        Ok(set)
    }

    /// Takes hwloc's mask apart: 32 bits a word, the highest first; a first word of `0xf...f` means no end.
    ///
    /// # Errors
    /// A sentence with the word that is no hexadecimal number.
    pub fn from_mask(mask: &str) -> Result<CpuSet, String> {
        let mut set = CpuSet::default();
        for (index, word) in mask.rsplit(',').enumerate().filter(|(_, word)| !word.is_empty()) {
            let digits = word.trim().trim_start_matches("0x");
            if digits == "f...f" {
                (index * 32..=HIGHEST).for_each(|cpu| set.add(cpu));
                continue;
            }
            let digits = if digits.is_empty() { "0" } else { digits };
            let bits = u32::from_str_radix(digits, 16).map_err(|_| format!("{word:?} is not a mask of CPUs"))?;
            let cpus = (0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| index * 32 + bit);
            cpus.filter(|cpu| *cpu <= HIGHEST).for_each(|cpu| set.add(cpu));
        }
        Ok(set)
    }
}

impl FromIterator<usize> for CpuSet {
    fn from_iter<I: IntoIterator<Item = usize>>(cpus: I) -> CpuSet {
        let mut set = CpuSet::default();
        cpus.into_iter().for_each(|cpu| set.add(cpu));
        set
    }
}

/// As the kernel writes it: `0-3,8`.
impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.iter().peekable();
        let mut separator = "";
        while let Some(low) = rest.next() {
            let mut high = low;
            while let Some(next) = rest.next_if(|next| *next == high + 1) {
                high = next;
            }
            match high {
                _ if high == low => write!(f, "{separator}{low}")?,
                _ => write!(f, "{separator}{low}-{high}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        for (text, cpus) in [
            ("0-3,8", vec![0, 1, 2, 3, 8]),
            ("5", vec![5]),
            ("63-65,127", vec![63, 64, 65, 127]),
            ("", vec![]),
        ] {
            let set = CpuSet::parse(text).unwrap();
            assert_eq!(set.iter().collect::<Vec<_>>(), cpus);
            assert_eq!(set.to_string(), text);
            assert_eq!(set.count(), cpus.len());
        }
        assert_eq!(CpuSet::parse("0-7:4\n").unwrap().to_string(), "0,4");
        for wrong in ["a", "3-1", "1-", "0-99999999", "-1", "0-3:0"] {
            assert!(CpuSet::parse(wrong).unwrap_err().contains("CPU number"), "{wrong}");
        }
    }

    #[test]
    fn masks_are_read() {
        assert_eq!(
            CpuSet::from_mask("0x00000003,0x00000005").unwrap().to_string(),
            "0,2,32-33"
        );
        assert_eq!(CpuSet::from_mask("0x0").unwrap(), CpuSet::default());
        assert_eq!(CpuSet::from_mask("0x00000011").unwrap().to_string(), "0,4");
        let open = CpuSet::from_mask("0xf...f,0x00000001").unwrap();
        assert!(open.has(0) && !open.has(31) && open.has(32) && open.has(HIGHEST));
        assert!(CpuSet::from_mask("0xzz").is_err());
    }

    #[test]
    fn sets_meet() {
        let (a, b) = (CpuSet::parse("0-3").unwrap(), CpuSet::parse("2-70").unwrap());
        assert_eq!(a.and(&b).to_string(), "2-3");
        assert!(a.and(&b).within(&a) && !b.within(&a));
        let mut both = a;
        both.join(&b);
        assert_eq!((both.to_string().as_str(), both.first()), ("0-70", Some(0)));
    }
}
