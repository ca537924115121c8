//! Times, as S3 and HTTP write them.

use jiff::{Timestamp, Zoned, fmt::strtime, tz::TimeZone};

fn zoned(ms: u64) -> Zoned {
    let ms = i64::try_from(ms).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX).to_zoned(TimeZone::UTC)
}

/// A time in ms since 1970, as listings have it.
pub(crate) fn iso(ms: u64) -> String {
    let text = strtime::format("%Y-%m-%dT%H:%M:%S", &zoned(ms)).unwrap_or_default();
    format!("{text}.{:03}Z", ms % 1000)
}

/// A time in ms since 1970, as headers have it.
pub(crate) fn http(ms: u64) -> String {
    strtime::format("%a, %d %b %Y %H:%M:%S GMT", &zoned(ms)).unwrap_or_default()
}

/// Seconds since 1970 of a header's time.
pub(crate) fn parse_http(text: &str) -> Option<u64> {
    // The day of the week says nothing more.
    let (_, text) = text.split_once(", ")?;
    seconds(strtime::parse("%d %b %Y %H:%M:%S GMT", text).ok()?.to_datetime().ok()?)
}

/// Milliseconds since 1970 of a document's time.
pub(crate) fn parse_iso(text: &str) -> Option<u64> {
    u64::try_from(text.parse::<Timestamp>().ok()?.as_millisecond()).ok()
}

/// Seconds since 1970 of a signature's time, as `20130524T000000Z`.
pub(crate) fn parse_basic(text: &str) -> Option<u64> {
    seconds(strtime::parse("%Y%m%dT%H%M%SZ", text).ok()?.to_datetime().ok()?)
}

/// A time in seconds since 1970, as signatures have it.
pub(crate) fn basic(seconds: u64) -> String {
    strtime::format("%Y%m%dT%H%M%SZ", &zoned(seconds * 1000)).unwrap_or_default()
}

fn seconds(time: jiff::civil::DateTime) -> Option<u64> {
    let time = time.to_zoned(TimeZone::UTC).ok()?;
    u64::try_from(time.timestamp().as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_and_read() {
        assert_eq!(iso(1_369_353_600_007), "2013-05-24T00:00:00.007Z");
        assert_eq!(http(1_369_353_600_007), "Fri, 24 May 2013 00:00:00 GMT");
        assert_eq!(parse_http("Fri, 24 May 2013 00:00:00 GMT"), Some(1_369_353_600));
        assert_eq!(parse_basic("20130524T000000Z"), Some(1_369_353_600));
        assert_eq!(basic(1_369_353_600), "20130524T000000Z");
        assert_eq!(parse_iso("2013-05-24T00:00:00.007Z"), Some(1_369_353_600_007));
        assert_eq!(parse_iso("2013-05-24T00:00:00"), None);
        assert_eq!((parse_http("now"), parse_basic("2013")), (None, None));
    }
}
