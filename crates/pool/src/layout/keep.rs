//! Rules by which replaced and removed versions of objects are kept, and times kept by a name.
//!
//! A rule looks back from now only: what it gives up once it never wants again. So versions may be
//! removed at any time and in any order, and exactly those are left that the rule names.

use kiln_stripe::{PoolError, Result};
use serde::{Deserialize, Serialize};

/// Names of what the program itself keeps in a pool; rules reach it only by naming it.
const INTERNAL: [&str; 2] = [".volumes/", ".s3/"];
/// Most days, weeks or months of a rule.
const MAX_SLOTS: u64 = 10_000;
const DAY_MS: i64 = 86_400_000;

/// Number of the day, week or month of a time.
type Slot = fn(i64) -> i64;

/// One rule; what any of its numbers keeps is kept. Days, weeks and months begin at midnight, UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeepRule {
    /// It is for objects whose names begin with this; of several rules the longest prefix counts.
    #[serde(default)]
    pub prefix: String,
    /// The newest versions of each object.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub last: u64,
    /// Every version that was replaced or removed at most so many seconds ago.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub all_seconds: u64,
    /// The versions in force when each of the last days began.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub daily: u64,
    /// The versions in force when each of the last weeks began.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub weekly: u64,
    /// The versions in force when each of the last months began.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub monthly: u64,
}

/// A time whose versions are kept until its name is removed.
///
/// It begins to count under the locks of all nodes: a commit is over before, with times that the
/// snapshot has, or knows of it and takes a later time, whatever its clock says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Its name, which begins with a letter.
    pub name: String,
    /// It is of objects whose names begin with this.
    #[serde(default)]
    pub prefix: String,
    /// The time, in ms since 1970.
    pub at_ms: u64,
}

impl Snapshot {
    /// Returns whether it is of an object.
    pub fn fits(&self, name: &str) -> bool {
        fits(&self.prefix, name)
    }
}

/// Returns whether rules and snapshots with a prefix are for an object.
fn fits(prefix: &str, name: &str) -> bool {
    let own = INTERNAL.iter().find(|own| name.starts_with(**own));
    name.starts_with(prefix) && own.is_none_or(|own| prefix.starts_with(own))
}

impl KeepRule {
    /// Returns whether a version is kept that was in force from `since` until `until` (ms since
    /// 1970), and that `newer` kept versions of the object followed.
    pub(crate) fn keeps(&self, since: u64, until: u64, newer: u64, now: u64) -> bool {
        let all = until.saturating_add(self.all_seconds.saturating_mul(1000)) > now;
        if newer < self.last || (self.all_seconds > 0 && all) {
            return true;
        }
        let last = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX / 2) - 1;
        let (before, end, now) = (last(since), last(until.min(now)), last(now) + 1);
        let slots: [(u64, Slot); 3] =
            [(self.daily, day), (self.weekly, week), (self.monthly, month)];
        // The last beginning of a day within its time, if there is one, and how many followed.
        let is_kept = |(most, slot): &(u64, Slot)| {
            let (begun, followed) = (slot(end), slot(now) - slot(end));
            slot(before) < begun && u64::try_from(followed).is_ok_and(|followed| followed < *most)
        };
        slots.iter().any(is_kept)
    }

    /// Refuses impossible rules.
    pub(crate) fn check(&self) -> Result<()> {
        let most = self.daily.max(self.weekly).max(self.monthly);
        let none = most == 0 && self.last == 0 && self.all_seconds == 0;
        let what = match (none, most > MAX_SLOTS) {
            (true, _) => "keeps nothing; leave it out".to_owned(),
            (_, true) => format!("keeps {most} days, weeks or months, the limit is {MAX_SLOTS}"),
            _ => return Ok(()),
        };
        let prefix = &self.prefix;
        Err(PoolError::Usage { what: format!("pool description: keep {prefix:?} {what}") })
    }
}

/// The rule for an object, if there is one.
pub(crate) fn rule_for<'r>(rules: &'r [KeepRule], name: &str) -> Option<&'r KeepRule> {
    rules.iter().filter(|rule| fits(&rule.prefix, name)).max_by_key(|rule| rule.prefix.len())
}

#[allow(clippy::trivially_copy_pass_by_ref)] // what serde passes
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn day(ms: i64) -> i64 {
    ms.div_euclid(DAY_MS)
}

/// Weeks begin on Mondays; 1970 began on a Thursday.
fn week(ms: i64) -> i64 {
    (day(ms) + 3).div_euclid(7)
}

/// Months since the year 0, by the calendar whose years begin in March.
fn month(ms: i64) -> i64 {
    let days = day(ms) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    (era * 400 + year) * 12 + (5 * of_year + 2) / 153
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    /// Midnights of some days since 1970; whether a week and a month begins, counted day by day.
    fn midnights(days: u64) -> Vec<(u64, bool, bool)> {
        let (mut month, mut date) = (0, 1);
        let count = |day: u64| {
            let begun = (day * 24 * HOUR, day % 7 == 4, date == 1);
            let leap = u64::from((month / 12) % 4 == 2 && month % 12 == 1);
            let length = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month % 12] + leap;
            (date, month) = if date == length { (1, month + 1) } else { (date + 1, month) };
            begun
        };
        (0..days).map(count).collect()
    }

    /// All versions that a rule keeps of these, by definition.
    fn kept_by_definition(rule: &KeepRule, all: &[(u64, u64)], now: u64) -> Vec<(u64, u64)> {
        let passed: Vec<_> =
            midnights(now / 24 / HOUR + 2).into_iter().filter(|one| one.0 <= now).collect();
        let last = |most: u64, counts: &dyn Fn(&(u64, bool, bool)) -> bool| {
            let begun = passed.iter().rev().filter(|one| counts(one)).map(|one| one.0);
            begun.take(most as usize).collect::<Vec<u64>>()
        };
        let mut moments = last(rule.daily, &|_| true);
        moments.extend(last(rule.weekly, &|one| one.1));
        moments.extend(last(rule.monthly, &|one| one.2));
        let newest = |at: usize| (all.len() - 1 - at) < rule.last as usize;
        let is_kept = |(at, (since, until)): &(usize, &(u64, u64))| {
            newest(*at)
                || (rule.all_seconds > 0 && *until + rule.all_seconds * 1000 > now)
                || moments.iter().any(|moment| since <= moment && moment < until)
        };
        all.iter().enumerate().filter(is_kept).map(|(_, version)| *version).collect()
    }

    /// 1,000 days of puts and removals at random, pruned at random: at every moment exactly those
    /// versions are there that the rule keeps of all that ever were.
    #[test]
    fn versions_are_kept_exactly() {
        let rules = [
            (3, 0, 0, 0, 0),
            (0, 10, 0, 0, 0),
            (0, 0, 7, 4, 12),
            (1, 2, 14, 8, 6),
            (0, 0, 0, 0, 36),
            (0, 0, 0, 30, 0),
        ];
        for (seed, (last, all_days, daily, weekly, monthly)) in (1u64..).zip(rules) {
            let prefix = String::new();
            let all_seconds = all_days * 86_400;
            let rule = KeepRule { prefix, last, all_seconds, daily, weekly, monthly };
            rule.check().unwrap();
            let mut state = seed;
            let mut random = |below: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % below
            };
            // Beginning shortly before a leap day, sometimes just at midnight.
            let mut now = (700 + random(50)) * 24 * HOUR;
            let end = now + 1_000 * 24 * HOUR;
            let (mut ever, mut there) = (Vec::<(u64, u64)>::new(), Vec::<(u64, u64)>::new());
            let mut live = None;
            while now < end {
                now += [1, HOUR / 4, HOUR * 5, HOUR * 24, 24 * HOUR - now % (24 * HOUR)]
                    [random(5) as usize];
                if let Some(since) = live.take() {
                    ever.push((since, now));
                    if rule.keeps(since, now, 0, now) {
                        there.insert(0, (since, now));
                    }
                }
                live = (random(8) > 0).then_some(now);
                now += random(3) * HOUR * 7;
                if random(4) > 0 {
                    continue;
                }
                let mut newer = 0..;
                there.retain(|(since, until)| {
                    rule.keeps(*since, *until, newer.next().unwrap(), now)
                });
                let mut expected = kept_by_definition(&rule, &ever, now);
                expected.reverse();
                assert_eq!(there, expected, "seed {seed}, now {now}");
            }
        }
    }

    #[test]
    fn the_longest_prefix_counts_and_internal_names_are_left_out() {
        let rule =
            |prefix: &str, last| KeepRule { prefix: prefix.into(), last, ..KeepRule::default() };
        let rules = [rule("", 1), rule("photos/", 2), rule("photos/2024/", 3), rule(".s3/o/", 4)];
        for (name, last) in [
            ("a", Some(1)),
            ("photos", Some(1)),
            ("photos/x", Some(2)),
            ("photos/2024/x", Some(3)),
            (".kiln-attributes", Some(1)),
            (".s3/o/x", Some(4)),
            (".s3/d/x", None),
            (".volumes/x", None),
        ] {
            assert_eq!(rule_for(&rules, name).map(|rule| rule.last), last, "{name}");
        }
        assert!(rule("", 0).check().is_err());
        assert!(KeepRule { daily: 10_001, ..rule("", 0) }.check().is_err());
    }
}
