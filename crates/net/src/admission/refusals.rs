//! Limits on logged refusals: a flood of connections must not become a flood of lines.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

/// Within this time an address gets one line ...
const PERIOD: Duration = Duration::from_secs(10);
/// ... and all addresses together so many.
const LINES: usize = 20;

/// Says of each refusal whether it is to be told, and how many were not.
#[derive(Debug, Default)]
pub struct RefusalLog {
    /// When the period began.
    since: Duration,
    /// Addresses that have a line in it.
    told: BTreeSet<IpAddr>,
    /// Refusals without a line since the last one that has one.
    left_out: u64,
}

impl RefusalLog {
    /// A peer at this address was refused or failed: `Some` when that is to be told, together with
    /// how many others were not told since the last line.
    pub fn note(&mut self, now: Duration, from: IpAddr) -> Option<u64> {
        if now >= self.since + PERIOD {
            self.since = now;
            self.told.clear();
        }
        if self.told.len() >= LINES || !self.told.insert(from) {
            self.left_out += 1;
            return None;
        }
        Some(std::mem::take(&mut self.left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_few_however_many_are_refused_and_from_where() {
        let mut log = RefusalLog::default();
        let mut lines = 0;
        for second in 0..100u64 {
            for n in 0..1000u32 {
                let from = IpAddr::from(n.to_be_bytes());
                lines += usize::from(log.note(Duration::from_secs(second), from).is_some());
            }
        }
        assert_eq!(lines, 10 * LINES);
        assert!(log.told.len() <= LINES);
        let last = log.note(Duration::from_secs(200), [9, 9, 9, 9].into()).unwrap();
        assert_eq!(last, 10 * 1000 - LINES as u64);
    }
}
