//! Numbers for people.

/// Seconds with a unit, three digits.
pub fn time(seconds: f64) -> String {
    let (value, unit) = match seconds.abs() {
        s if s >= 1.0 => (seconds, "s"),
        s if s >= 1e-3 => (seconds * 1e3, "ms"),
        s if s >= 1e-6 => (seconds * 1e6, "us"),
        s if s > 0.0 => (seconds * 1e9, "ns"),
        _ => return "0".into(),
    };
    format!("{} {unit}", digits(value))
}

/// Bytes with a unit, powers of 1024.
pub fn bytes(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let step = (0..units.len() - 1).find(|step| bytes >> (10 * (step + 1)) == 0);
    match step.unwrap_or(units.len() - 1) {
        0 => format!("{bytes} B"),
        step => format!(
            "{} {}",
            digits(bytes as f64 / (1u64 << (10 * step)) as f64),
            units[step]
        ),
    }
}

/// A whole number in groups of three digits.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .filter_map(|group| std::str::from_utf8(group).ok())
        .collect();
    groups.join(",")
}

/// `part` of `whole` in percent.
pub fn share(part: f64, whole: f64) -> String {
    match whole > 0.0 {
        true => format!("{:.1} %", 100.0 * part / whole),
        false => "0 %".into(),
    }
}

fn digits(value: f64) -> String {
    let places = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            (time(0.0), time(1.5e-7), time(0.0123)),
            ("0".into(), "150 ns".into(), "12.3 ms".into())
        );
        assert_eq!(
            (bytes(1023), bytes(1536), bytes(5 << 20)),
            ("1023 B".into(), "1.50 KiB".into(), "5.00 MiB".into())
        );
        assert_eq!(
            (number(7), number(1234567), share(1.0, 8.0)),
            ("7".into(), "1,234,567".into(), "12.5 %".into())
        );
    }
}
