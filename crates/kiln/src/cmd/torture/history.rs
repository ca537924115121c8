//! Reports of clients on one name, and whether they can be true together.

use std::collections::HashSet;
use std::time::Duration;

/// Number of what an object holds, never used twice; `None`: there is no object.
pub type Value = Option<u64>;

/// A write or a read; without an end it may take place at any later time, or never.
#[derive(Debug, Clone)]
pub struct Done {
    pub begin: Duration,
    pub end: Option<Duration>,
    pub write: bool,
    pub value: Value,
}

/// Returns whether there is an order of all that was done, each between its begin and its end, in
/// which every read finds what was written last: whether the history is linearizable. First stands
/// a read of what was there before.
pub fn possible(history: &[Done]) -> bool {
    // A write whose end was not heard, and that was never read, changes nothing.
    let read = |value| history.iter().any(|done| !done.write && done.value == value);
    let history: Vec<&Done> =
        history.iter().filter(|done| done.end.is_some() || read(done.value)).collect();
    let mut seen = HashSet::new();
    let mut ahead = vec![(vec![false; history.len()], history.first().and_then(|done| done.value))];
    while let Some((before, value)) = ahead.pop() {
        let left = || (0..history.len()).filter(|at| !before[*at]);
        let Some(soonest) = left().filter_map(|at| history[at].end).min() else { return true };
        for at in left().filter(|at| history[*at].begin <= soonest) {
            let next = history[at];
            let mut then = (before.clone(), next.value);
            then.0[at] = true;
            if (next.write || next.value == value) && seen.insert(then.clone()) {
                ahead.push(then);
            }
        }
    }
    false
}

#[test]
fn reads_find_what_was_written_last() {
    let at = Duration::from_secs;
    let done = |&(begin, end, write, value): &(u64, u64, bool, u64)| {
        let (end, value) = ((end > 0).then(|| at(end)), (value > 0).then_some(value));
        Done { begin: at(begin), end, write, value }
    };
    for (rows, right) in [
        (vec![(1, 2, true, 1), (3, 4, false, 1)], true),
        (vec![(1, 2, true, 1), (3, 4, false, 0)], false),
        // At the same time: before or after it, but not back again.
        (vec![(1, 9, true, 1), (2, 3, false, 0), (4, 5, false, 1)], true),
        (vec![(1, 9, true, 1), (2, 3, false, 1), (4, 5, false, 0)], false),
        // Its end was not heard.
        (vec![(1, 0, true, 1), (2, 3, false, 0), (8, 9, false, 1)], true),
        (vec![(1, 0, true, 0), (2, 3, true, 1), (4, 5, false, 0)], true),
        (vec![(5, 0, true, 1), (2, 3, false, 1)], false),
    ] {
        let nothing = [(0, 1, false, 0)];
        let history: Vec<Done> = nothing.iter().chain(&rows).map(done).collect();
        assert_eq!(possible(&history), right, "{rows:?}");
    }
}
