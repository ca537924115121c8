//! Spans of time as people write and read them: `90s`, `12h`, `30d`; `1:05 min`, `3 h 10 min`.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use std::time::Duration;

/// Units, the smallest first, in seconds.
const UNITS: &[(&str, u64)] = &[("s", 1), ("m", 60), ("min", 60), ("h", 3600), ("d", 86_400)];

/// Parses a span: a whole number and a unit.
/// Errors: not a time; the message gives an example.
pub fn parse(text: &str) -> Result<Duration, String> {
    let wrong = || format!("'{text}' is not a time: write a number and s, m, h or d, e.g. 30d");
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = trimmed.split_at(split);
    let factor = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(wrong)?.1;
    let seconds = number.parse::<u64>().ok().and_then(|n| n.checked_mul(factor));
    let seconds = seconds.filter(|seconds| (1..=u64::from(u32::MAX)).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

/// Parses a moment in the past: a day (its end), a day and a time, all in UTC, how long ago, or ms
/// since 1970. Gives ms since 1970.
/// Errors: not a moment; the message gives examples.
pub fn parse_moment(text: &str, now_ms: u64) -> Result<u64, String> {
    if let Ok(ago) = parse(text) {
        return Ok(now_ms.saturating_sub(ago.as_millis() as u64));
    }
    let plain = text.trim_end_matches('Z');
    let ended = |day: Date| Some(day.tomorrow().ok()?.to_datetime(Time::midnight()));
    let moment: Option<DateTime> = match plain.len() {
        10 => plain.parse().ok().and_then(ended),
        _ => plain.parse().ok(),
    };
    let ms = match moment {
        Some(moment) => {
            moment.to_zoned(TimeZone::UTC).ok().map(|at| at.timestamp().as_millisecond())
        }
        None => text.parse().ok().filter(|_| text.len() > 10),
    };
    ms.and_then(|ms| u64::try_from(ms).ok()).ok_or_else(|| {
        let examples = "write 2026-11-28, \"2026-11-28 17:04\" (UTC), or 3d for 3 days ago";
        format!("'{text}' is not a time: {examples}")
    })
}

/// A span for people, as exact as they need it.
pub fn show(seconds: u64) -> String {
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{}:{:02} min", seconds / 60, seconds % 60),
        3600..172_800 => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read() {
        for (text, ms) in [
            ("1970-01-02", Ok(2 * 86_400_000)),
            ("2024-02-28", Ok(1_709_164_800_000)),
            ("2024-02-29 00:01", Ok(1_709_164_860_000)),
            ("2024-02-29T00:01:01Z", Ok(1_709_164_861_000)),
            ("1709164861007", Ok(1_709_164_861_007)),
            ("2d", Ok(8_000_000_000_000 - 2 * 86_400_000)),
        ] {
            assert_eq!(parse_moment(text, 8_000_000_000_000), ms, "{text}");
        }
        for text in ["", "2024", "2024-02-30", "yesterday", "1969-12-30", "17:04", "-5"] {
            assert!(parse_moment(text, 0).is_err(), "{text}");
        }
    }
}
