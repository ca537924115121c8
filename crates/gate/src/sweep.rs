//! Removal of data that no record names: puts that were cut short, uploads that ended.

use crate::names::{self, OBJECTS, VERSIONS};
use crate::{error::Result, gate::Gate, record::ObjectRecord};
use std::collections::HashSet;

/// Least age of data that is removed: until then its put may be under way.
const AGE_MS: u64 = 24 * 3_600_000;
/// Most names that one look finds; the next look goes on behind them.
const MOST: usize = 10_000;

impl Gate {
    /// Removes data that no object and no upload has named for a day; returns how many pieces.
    pub fn sweep(&self, now_ms: u64) -> Result<usize> {
        let uploads: HashSet<String> = self
            .names(&format!("{OBJECTS}u/"))?
            .iter()
            .filter_map(|name| Some(name.rsplit_once('/')?.1.to_owned()))
            .collect();
        let of_upload = |id: &str| id.get(..32).is_some_and(|id| uploads.contains(id));
        let mut removed = 0;
        // Records first: data that they name goes once nothing else does.
        for kind in [VERSIONS, ".s3/d/"] {
            let mut start = kind.to_owned();
            let mut last = (String::new(), HashSet::new());
            loop {
                let old = self.old(kind, &start, now_ms)?;
                let mut unnamed = Vec::new();
                for name in &old {
                    let Some((bucket_id, key, id)) = parts_of(name) else { continue };
                    let place = names::record(bucket_id, &key);
                    if kind != VERSIONS && of_upload(id) {
                        continue;
                    }
                    if last.0 != place {
                        last = (place, self.named(bucket_id, &key)?);
                    }
                    if !last.1.contains(id) {
                        unnamed.push(name.clone());
                    }
                }
                self.discard(&unnamed);
                removed += unnamed.len();
                match old.last() {
                    Some(last) if old.len() == MOST => start = format!("{last}\0"),
                    _ => break,
                }
            }
        }
        let parts = self.old(&format!("{OBJECTS}p/"), "", now_ms)?;
        let gone = |name: &&String| name.rsplit('/').nth(1).is_some_and(|id| !of_upload(id));
        let parts: Vec<String> = parts.iter().filter(gone).cloned().collect();
        self.discard(&parts);
        Ok(removed + parts.len())
    }

    /// Names with a prefix that are old enough, from one on.
    fn old(&self, prefix: &str, start: &str, now_ms: u64) -> Result<Vec<String>> {
        let mut old = Vec::new();
        self.each((prefix, Some(start), true), |listed| {
            if listed.created_ms.saturating_add(AGE_MS) < now_ms {
                old.push(listed.name);
            }
            Ok(old.len() < MOST)
        })?;
        Ok(old)
    }

    /// Returns the versions and the data that an object names.
    fn named(&self, bucket_id: &str, key: &str) -> Result<HashSet<String>> {
        let name = names::record(bucket_id, key);
        let parts = |record: ObjectRecord| record.parts.into_iter().map(|part| part.id);
        loop {
            let Some(seen) = self.see::<ObjectRecord>(&name)? else { return Ok(HashSet::new()) };
            let history = seen.record.history.clone();
            let mut ids: HashSet<String> = parts(seen.record).chain(history.clone()).collect();
            let names = history.iter().map(|word| names::version(bucket_id, key, word));
            let found = self.see_all::<ObjectRecord>(&names.collect::<Vec<_>>())?;
            let all = found.iter().all(Option::is_some);
            ids.extend(found.into_iter().flatten().flat_map(parts));
            // One that is gone is in force again, or was removed.
            if all || self.see::<ObjectRecord>(&name)?.is_some_and(|now| now.run == seen.run) {
                return Ok(ids);
            }
        }
    }
}

/// Bucket, key and identity of a piece of data, or of a version.
fn parts_of(name: &str) -> Option<(&str, String, &str)> {
    let mut words = name.strip_prefix(OBJECTS)?.split('/').skip(1);
    let (bucket_id, key, id) = (words.next()?, words.next()?, words.next()?);
    Some((bucket_id, names::decode(key)?, id))
}
