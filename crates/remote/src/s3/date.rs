//! The time that servers write into `Last-Modified`.

use jiff::fmt::rfc2822::DateTimeParser;

/// Returns the milliseconds since 1970 of a date as HTTP writes it; `None` for anything else.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let time = DateTimeParser::new().parse_timestamp(text.trim());
    let time = time.ok().filter(|_| text.trim_end().ends_with(" GMT"))?;
    u64::try_from(time.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::milliseconds;

    #[test]
    fn dates_are_read_and_others_refused() {
        // By another program: date -u -d ... +%s
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Wed, 21 Oct 2015 07:28:00 GMT", 1_445_412_480),
            ("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_199),
            ("Fri, 01 Mar 2024 00:00:00 GMT", 1_709_251_200),
            ("Sun, 01 Jan 2023 12:00:00 GMT", 1_672_574_400),
        ] {
            assert_eq!(milliseconds(text), Some(seconds * 1000), "{text}");
        }
        for wrong in ["", "x", "Wed, 40 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:00 CET"] {
            assert_eq!(milliseconds(wrong), None, "{wrong}");
        }
        assert_eq!(milliseconds("Wed, 21 Okt 2015 25:28:00 GMT"), None);
    }
}
