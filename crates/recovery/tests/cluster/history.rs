//! History of changes to objects, and so the answers that a reader may get.

use std::{collections::BTreeMap, ops::Range, time::Duration};

/// A change of an object.
#[derive(Debug)]
struct Change {
    /// Its bytes from then on; `None`: it was removed.
    bytes: Option<Vec<u8>>,
    began: Duration,
    /// When it was acknowledged; `None`: it was not, and may have happened or happen yet.
    done: Option<Duration>,
}

/// A read that shows which change it saw.
#[derive(Debug)]
struct Seen {
    change: usize,
    began: Duration,
    ended: Duration,
}

/// All changes, and what was seen of them.
#[derive(Debug, Default)]
pub struct History {
    objects: BTreeMap<String, Vec<Change>>,
    seen: BTreeMap<String, Vec<Seen>>,
}

impl History {
    /// A change begins; [`History::done`] takes its number.
    pub fn begin(&mut self, name: &str, bytes: Option<Vec<u8>>, now: Duration) -> usize {
        let zero = Duration::ZERO;
        let nothing = || vec![Change { bytes: None, began: zero, done: Some(zero) }];
        let changes = self.objects.entry(name.to_owned()).or_insert_with(nothing);
        changes.push(Change { bytes, began: now, done: None });
        changes.len() - 1
    }

    /// A change was acknowledged.
    pub fn done(&mut self, name: &str, change: usize, now: Duration) {
        self.objects.get_mut(name).unwrap()[change].done = Some(now);
    }

    /// Nothing can come of a change: it was refused before anything was done.
    pub fn refused(&mut self, name: &str, change: usize) {
        // It never happened, which is what a change in the far future is to all readers.
        self.objects.get_mut(name).unwrap()[change].began = Duration::MAX;
    }

    /// Names that clients wanted to put.
    pub fn names(&self) -> Vec<String> {
        self.objects.keys().cloned().collect()
    }

    /// Returns whether a reader that read from `began` to `now` may have found these bytes (in a
    /// range).
    pub fn allows(
        &self,
        name: &str,
        found: Option<&[u8]>,
        range: Option<&Range<u64>>,
        began: Duration,
        now: Duration,
    ) -> bool {
        let Some(changes) = self.objects.get(name) else { return found.is_none() };
        let matches = |change: &Change| match (&change.bytes, found, range) {
            (None, None, _) => true,
            (Some(bytes), Some(found), range) => part(bytes, range) == found,
            _ => false,
        };
        // Not what was replaced, by something acknowledged, before the reader began.
        let replaced = |change: &Change| {
            let later = |other: &Change| {
                other.done.is_some_and(|done| done < began)
                    && change.done.is_some_and(|done| done < other.began)
            };
            changes.iter().any(later)
        };
        changes.iter().any(|change| change.began <= now && matches(change) && !replaced(change))
    }

    /// Notes what a reader of a whole object found; `false`: a reader before it saw something newer
    /// that it cannot have gone back from.
    ///
    /// A change takes place once. So no reader sees it again after something else was seen, and
    /// none sees what was acknowledged before a change began that was seen already.
    pub fn see(
        &mut self,
        name: &str,
        found: Option<&[u8]>,
        began: Duration,
        now: Duration,
    ) -> bool {
        let Some(changes) = self.objects.get(name) else { return true };
        let mut same = (0..changes.len()).filter(|at| changes[*at].bytes.as_deref() == found);
        let (Some(change), None) = (same.next(), same.next()) else { return true };
        let seen = self.seen.entry(name.to_owned()).or_default();
        let back = |other: &Seen| {
            let passed =
                changes[change].done.is_some_and(|done| done < changes[other.change].began);
            let before = |first: &Seen| first.change == change && first.ended < other.began;
            other.change != change && other.ended < began && (passed || seen.iter().any(before))
        };
        let right = !seen.iter().any(back);
        seen.push(Seen { change, began, ended: now });
        right
    }

    /// Returns whether some version has this size, be it an old one.
    pub fn has_size(&self, name: &str, size: u64) -> bool {
        let changes = self.objects.get(name).into_iter().flatten();
        changes.filter_map(|change| change.bytes.as_ref()).any(|bytes| bytes.len() as u64 == size)
    }

    /// Returns whether these are the bytes of some version, be it an old one.
    pub fn knows(&self, name: &str, found: &[u8], range: Option<&Range<u64>>) -> bool {
        let changes = self.objects.get(name).into_iter().flatten();
        changes
            .filter_map(|change| change.bytes.as_deref())
            .any(|bytes| part(bytes, range) == found)
    }
}

/// Returns the part of some bytes that a reader of a range gets.
fn part<'a>(bytes: &'a [u8], range: Option<&Range<u64>>) -> &'a [u8] {
    let all = 0..bytes.len() as u64;
    let range = range.unwrap_or(&all);
    let (start, end) = (range.start as usize, range.end as usize);
    &bytes[start.min(bytes.len())..end.min(bytes.len())]
}

#[test]
fn what_a_reader_may_find() {
    let at = Duration::from_secs;
    let mut history = History::default();
    let a = history.begin("x", Some(b"aa".to_vec()), at(1));
    let reads = |history: &History, found: Option<&[u8]>, from, to| {
        history.allows("x", found, None, at(from), at(to))
    };
    // Under way: the old and the new.
    assert!(reads(&history, None, 1, 2) && reads(&history, Some(b"aa"), 1, 2));
    history.done("x", a, at(3));
    assert!(!reads(&history, None, 4, 5) && reads(&history, Some(b"aa"), 4, 5));
    assert!(reads(&history, None, 2, 5) && !reads(&history, Some(b"ab"), 4, 5));
    // Never acknowledged: from then on both.
    let b = history.begin("x", Some(b"bbb".to_vec()), at(6));
    assert!(reads(&history, Some(b"aa"), 90, 91) && reads(&history, Some(b"bbb"), 90, 91));
    assert!(!reads(&history, Some(b"bbb"), 4, 5));
    assert!(history.allows("x", Some(b"bb"), Some(&(1..9)), at(7), at(8)));
    assert!(!history.allows("x", Some(b"ab"), Some(&(1..9)), at(7), at(8)));
    // What was seen stays seen, acknowledged or not.
    let mut see = |found: Option<&[u8]>, from, to| history.see("x", found, at(from), at(to));
    assert!(see(Some(b"aa"), 7, 8) && see(Some(b"bbb"), 7, 9) && see(Some(b"bbb"), 10, 11));
    assert!(see(Some(b"aa"), 8, 12) && !see(Some(b"aa"), 13, 14) && !see(None, 13, 14));
    history.refused("x", b);
    assert!(!reads(&history, Some(b"bbb"), 90, 91) && history.knows("x", b"bbb", None));
    assert!(history.allows("y", None, None, at(0), at(1)) && history.names() == ["x"]);
}
