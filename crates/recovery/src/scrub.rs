//! When a coordinator reads what is stored, and where it goes on: rounds over all objects in order
//! of name, in parts, between which repairs come first.

use super::Now;
use kiln_pool::ScrubReport;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Position of a scheduled scrub. The coordinator keeps it durably after each part, so
/// that the next process goes on where this one was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScrubPosition {
    /// When the round under way began, or else the last one, in ms since 1970; 0: there was none.
    pub began_ms: u64,
    /// When the last whole round ended.
    pub ended_ms: u64,
    /// The last object that the round under way has looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Objects that it has looked at, else those of the last round.
    pub objects: u64,
    /// Bytes of chunks that it has read.
    pub bytes_read: u64,
    /// Objects that it found damaged or unreadable.
    pub findings: u64,
    /// Whole rounds so far.
    pub rounds: u64,
}

impl ScrubPosition {
    /// Returns whether a round was begun and not ended.
    pub fn is_under_way(&self) -> bool {
        self.began_ms > self.ended_ms
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ScrubSchedule {
    every: Duration,
    position: ScrubPosition,
    /// After a scrub that found no node: not again before this.
    not_before: Duration,
}

impl ScrubSchedule {
    /// Rounds begin so far apart; it goes on at `position`.
    pub fn new(every: Duration, position: ScrubPosition) -> ScrubSchedule {
        ScrubSchedule { every, position, not_before: Duration::ZERO }
    }

    pub fn position(&self) -> &ScrubPosition {
        &self.position
    }

    pub fn every_ms(&self) -> u64 {
        u64::try_from(self.every.as_millis()).unwrap_or(u64::MAX)
    }

    /// When the next part is due, in ms since 1970. A clock that was set back makes no scrub wait
    /// longer than the time between two rounds.
    pub fn due_ms(&self, now: Now) -> u64 {
        match self.position.is_under_way() {
            true => self.position.began_ms.min(now.ms),
            false => {
                self.position.began_ms.min(now.ms).saturating_add(match self.position.rounds {
                    0 => 0,
                    _ => self.every_ms(),
                })
            }
        }
    }

    /// Returns the time until the next part.
    pub fn wait(&self, now: Now) -> Duration {
        let due = Duration::from_millis(self.due_ms(now).saturating_sub(now.ms));
        due.max(self.not_before.saturating_sub(now.elapsed))
    }

    /// A part is begun; a new round, if none is under way.
    pub fn begin(&mut self, now: Now) {
        if !self.position.is_under_way() {
            let (began_ms, rounds) = (now.ms.max(1), self.position.rounds);
            // A clock that was set back does not make this round look ended.
            let ended_ms = self.position.ended_ms.min(began_ms - 1);
            self.position =
                ScrubPosition { began_ms, ended_ms, rounds, ..ScrubPosition::default() };
        }
    }

    /// A part was done, up to `after` or to the end of the round.
    pub fn done(&mut self, now: Now, part: &ScrubReport, after: Option<String>) {
        let position = &mut self.position;
        position.objects += part.objects;
        position.bytes_read += part.bytes_read;
        position.findings += part.damaged + part.unreadable;
        if after.is_none() {
            position.rounds += 1;
            position.ended_ms = now.ms.max(position.began_ms);
        }
        position.after = after;
    }

    /// A part could not be done; it is tried again after this.
    pub fn failed(&mut self, now: Now, wait: Duration) {
        self.not_before = now.elapsed + wait;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now { elapsed: Duration::from_secs(seconds), ms: 1_000_000 + seconds * 1000 }
    }

    fn part(objects: u64) -> ScrubReport {
        ScrubReport { objects, bytes_read: 10 * objects, damaged: 1, ..ScrubReport::default() }
    }

    #[test]
    fn rounds_are_as_far_apart_as_asked_and_go_on_where_they_were() {
        let every = Duration::from_secs(100);
        let mut scrub = ScrubSchedule::new(every, ScrubPosition::default());
        // The first one is due at once.
        assert_eq!(scrub.wait(at(5)), Duration::ZERO);
        scrub.begin(at(5));
        scrub.done(at(6), &part(3), Some("c".into()));
        assert!(scrub.position().is_under_way());
        // Another process, which knows no more than the position.
        let mut scrub = ScrubSchedule::new(every, scrub.position().clone());
        assert_eq!(scrub.wait(at(40)), Duration::ZERO);
        scrub.begin(at(40));
        assert_eq!(scrub.position().after.as_deref(), Some("c"));
        scrub.done(at(41), &part(2), None);
        let position = scrub.position().clone();
        assert_eq!((position.objects, position.bytes_read, position.findings), (5, 50, 2));
        assert!(!position.is_under_way() && position.rounds == 1 && position.after.is_none());
        // A hundred seconds after the last one began.
        assert_eq!(scrub.wait(at(41)), Duration::from_secs(64));
        scrub.begin(at(105));
        assert_eq!((scrub.position().objects, scrub.position().rounds), (0, 1));
        assert!(scrub.position().is_under_way());
    }

    #[test]
    fn a_clock_that_was_set_back_and_a_pool_that_is_away_hold_nothing_up_for_ever() {
        let every = Duration::from_secs(100);
        let late = ScrubPosition {
            began_ms: u64::MAX - 1,
            ended_ms: u64::MAX - 1,
            rounds: 3,
            ..ScrubPosition::default()
        };
        let mut scrub = ScrubSchedule::new(every, late);
        assert_eq!(scrub.wait(at(0)), every);
        scrub.begin(at(100));
        assert!(scrub.position().is_under_way());
        scrub.failed(at(100), Duration::from_secs(7));
        assert_eq!(scrub.wait(at(101)), Duration::from_secs(6));
        assert_eq!(scrub.wait(at(108)), Duration::ZERO);
        scrub.done(at(108), &part(1), None);
        assert_eq!(scrub.position().rounds, 4);
    }
}
