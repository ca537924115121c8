//! Pace of background work, which gives way to clients: pure arithmetic.
//!
//! Sealing has until the next buffer is full, and takes two thirds of that: its progress follows
//! how far clients have filled that buffer, so it has the rate of whatever they write. Cleaning may
//! take a part of the time, which grows with what there is to clean.

use crate::{choice::FILL, state::MAX_CLOSED};
use std::time::Duration;

/// Cleaning takes all of the time when live blocks are so many percent of all.
const URGENT: u64 = FILL - 6;
/// The part of the time that it takes at least while clients are there, in percent.
const LEAST_SHARE: u64 = 34;
/// The longest rest after one piece of work, whatever it took.
const LONGEST: Duration = Duration::from_secs(2);

/// A buffer that is being sealed, and the one that grows meanwhile.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Sealing {
    /// Bytes that were taken up, of how many.
    pub done: u64,
    pub size: u64,
    /// Fill of the growing buffer, and its size.
    pub filled: u64,
    pub capacity: u64,
    /// Buffers that wait to be sealed, this one among them.
    pub closed: usize,
}

/// Returns whether sealing is so far ahead of clients that it may rest.
pub(crate) fn is_ahead(at: &Sealing) -> bool {
    // Clients wait when another one is closed, so it is not waited for.
    let urgent = at.closed >= MAX_CLOSED;
    // Done at two thirds, with a quarter done before anything comes.
    let due = at.size / 4
        + (at.size as u128 * at.filled as u128 * 9 / (at.capacity.max(1) as u128 * 8)) as u64;
    !urgent && at.done < at.size && at.done > due
}

/// The part of the time that cleaning may take while clients are there, in percent, by what of
/// segments is live.
pub(crate) fn share(live: u64, total: u64) -> u64 {
    let live = (live * 100).checked_div(total).unwrap_or(100);
    let above = live.saturating_sub(URGENT).min(FILL - URGENT);
    100 - above * (100 - LEAST_SHARE) / (FILL - URGENT)
}

/// Returns the rest of cleaning after a piece of work of so many bytes.
///
/// `limit` is of bytes a second, 0: none. It gives way where cleaning is urgent: else there would
/// be no end to what is overwritten and stays.
pub(crate) fn rest(worked: Duration, bytes: u64, share: u64, busy: bool, limit: u64) -> Duration {
    if share >= 100 {
        return Duration::ZERO;
    }
    let behind = match busy {
        true => worked * (100 - share as u32) / share.max(1) as u32,
        false => Duration::ZERO,
    };
    let least = match limit {
        0 => Duration::ZERO,
        limit => Duration::from_secs_f64(bytes as f64 / limit as f64),
    };
    behind.min(LONGEST).max(least.saturating_sub(worked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealing_keeps_ahead_of_clients_and_no_further() {
        let at = |done, filled, closed| {
            is_ahead(&Sealing { done, size: 1000, filled, capacity: 100, closed })
        };
        // No client writes: a quarter is done at once, more when there is more.
        assert!(!at(0, 0, 1) && !at(250, 0, 1) && at(260, 0, 1));
        assert!(!at(260, 10, 1) && at(400, 10, 1));
        // At two thirds all of it is due, and what is done is done.
        assert!((0..1000).all(|done| !at(done, 67, 1)));
        assert!(!at(1000, 0, 1));
        // Where clients are about to wait there is no rest.
        assert!((0..1000).all(|done| !at(done, 0, 2)));
        let empty = Sealing { done: 0, size: 0, filled: 0, capacity: 0, closed: 1 };
        assert!(!is_ahead(&empty));
    }

    #[test]
    fn cleaning_takes_more_of_the_time_the_more_there_is_to_clean() {
        assert_eq!(share(70, 100), LEAST_SHARE);
        assert_eq!(share(99, 100), LEAST_SHARE);
        assert_eq!((share(64, 100), share(3, 100), share(0, 0)), (100, 100, LEAST_SHARE));
        let shares: Vec<u64> = (60..72).map(|live| share(live, 100)).collect();
        assert!(shares.is_sorted_by(|a, b| a >= b), "{shares:?}");
    }

    #[test]
    fn rests_are_in_proportion_and_a_limit_is_kept_until_it_is_urgent() {
        let second = Duration::from_secs(1);
        assert_eq!(rest(second, 0, 50, true, 0), second);
        assert_eq!(rest(second, 0, 50, false, 0), Duration::ZERO);
        assert_eq!(rest(second, 0, 100, true, 1), Duration::ZERO);
        assert_eq!(rest(100 * second, 0, 34, true, 0), LONGEST);
        // 10 MB at 2 MB a second are five seconds, of which one was worked.
        assert_eq!(rest(second, 10_000_000, 50, false, 2_000_000), 4 * second);
        assert_eq!(rest(second, 10_000_000, 50, true, 2_000_000), 4 * second);
        assert_eq!(rest(second, 1, 50, true, 2_000_000), second);
    }
}
