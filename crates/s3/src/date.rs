//! The time that servers write into `Last-Modified`.

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Milliseconds since 1970 of a date as HTTP writes it; `None` for anything else.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let mut words = text.split_ascii_whitespace().skip(1);
    let day: u64 = words.next()?.parse().ok().filter(|day| (1..=31).contains(day))?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let year: u64 = words.next()?.parse().ok().filter(|year| (1970..=9999).contains(year))?;
    let mut clock = words.next()?.split(':').map(|part| part.parse::<u64>().ok());
    let mut next = |most: u64| clock.next()?.filter(|part| *part <= most);
    let (hour, minute, second) = (next(23)?, next(59)?, next(60)?);
    if words.next() != Some("GMT") {
        return None;
    }
    // Years that begin in March have the leap day at their end.
    let (year, month) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 306 + 5) / 10 + day - 1;
    let since = days.checked_sub(719_468)?;
    Some((((since * 24 + hour) * 60 + minute) * 60 + second) * 1000)
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
