//! Sizes as people write them: `64KiB`, `4k`, `1.5GiB`, `1MB`.

/// Units by their lower-case spelling. A bare letter is binary, as in dd and fio; `kb` is 1000.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1_000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
];

/// Names used for printing, largest first.
const NAMES: &[(u64, &str)] =
    &[(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];

/// Parses a size in bytes. The error says what would be right; it has no path or flag in it.
pub fn parse(text: &str) -> Result<u64, String> {
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let unit = unit.trim().to_ascii_lowercase();
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let factor = factor.ok_or_else(|| {
        format!("'{text}' is not a size: write bytes or one of KiB, MiB, GiB, TiB, e.g. 64KiB")
    })?;
    let bytes = match number.split_once('.') {
        None => number.parse::<u64>().ok().and_then(|n| n.checked_mul(factor)),
        Some((whole, fraction)) => with_fraction(whole, fraction, factor),
    };
    bytes.ok_or_else(|| format!("'{text}' is not a size: write a number and a unit, e.g. 64KiB"))
}

/// `whole.fraction * factor`, in integers so that no digit is lost; at most 9 decimals.
fn with_fraction(whole: &str, fraction: &str, factor: u64) -> Option<u64> {
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let digits: u128 = fraction.parse().ok()?;
    let scale = 10u128.pow(fraction.len() as u32);
    let whole: u128 = whole.parse().ok()?;
    let bytes = whole.checked_mul(u128::from(factor))? + digits * u128::from(factor) / scale;
    u64::try_from(bytes).ok()
}

/// Prints a size for people: exact when it is a whole number of a unit, else two decimals.
pub fn show(bytes: u64) -> String {
    for (unit, name) in NAMES {
        if bytes >= *unit {
            return match bytes.is_multiple_of(*unit) {
                true => format!("{} {name}", bytes / unit),
                false => format!("{:.2} {name}", bytes as f64 / *unit as f64),
            };
        }
    }
    format!("{bytes} B")
}
