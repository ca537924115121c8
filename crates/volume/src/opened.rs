//! Segments that were looked up, and which of them have files open.
//!
//! Manifests of segments are kept for as many as are read: small beside the map of the
//! segment's blocks, while looking it up asks several nodes. Open files are few everywhere, so only
//! the segments that were read lately have some.

use crate::segment::SegmentId;
use kiln_pool::OpenObject;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Segments that have open files; each may have as many as its code has data chunks.
const OPEN: usize = 256;
/// Segments that are remembered: of the usual size, those of two tebibytes.
const KNOWN: usize = 1 << 16;

#[derive(Debug)]
struct Entry {
    object: Arc<OpenObject>,
    /// It may have open files, and is in the queue.
    open: bool,
    /// It was asked for since it was last looked at.
    used: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Opened {
    /// In order, so that files are closed in the same order in each run of a simulation.
    known: BTreeMap<SegmentId, Entry>,
    /// Those that may have open files. Who was not asked for while it went through is closed.
    queue: VecDeque<SegmentId>,
}

impl Opened {
    /// A segment that was looked up before.
    pub fn get(&mut self, id: &SegmentId) -> Option<Arc<OpenObject>> {
        let entry = self.known.get_mut(id)?;
        entry.used = true;
        let object = Arc::clone(&entry.object);
        if !std::mem::replace(&mut entry.open, true) {
            self.queue.push_back(*id);
            self.close_some();
        }
        Some(object)
    }

    /// One that was looked up now.
    pub fn insert(&mut self, id: SegmentId, object: Arc<OpenObject>) {
        if self.known.len() >= KNOWN {
            self.queue.clear();
            self.known.clear();
        }
        self.known.insert(id, Entry { object, open: true, used: true });
        self.queue.push_back(id);
        self.close_some();
    }

    /// It is gone, or its shards moved.
    pub fn forget(&mut self, id: &SegmentId) {
        self.known.remove(id);
    }

    /// Forgets those of which something could not be read.
    pub fn forget_failed(&mut self) {
        self.known.retain(|_, entry| !entry.object.met_failure());
    }

    fn close_some(&mut self) {
        while self.queue.len() > OPEN
            && let Some(id) = self.queue.pop_front()
        {
            match self.known.get_mut(&id) {
                Some(entry) if entry.used => {
                    entry.used = false;
                    self.queue.push_back(id);
                }
                Some(entry) => {
                    entry.open = false;
                    // Who reads just now still has the one with files.
                    entry.object = Arc::new(entry.object.closed());
                }
                None => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kiln_pool::{PutRequest, example_pool};
    use kiln_stripe::{Settings, Silent, StreamSource};

    use super::*;

    #[test]
    fn manifests_are_kept_and_the_files_of_those_read_lately() {
        let pool = example_pool().unwrap();
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i * 7 % 251) as u8).collect();
        let put = PutRequest { name: "numbers", run: [2; 16], now_ms: 0, replace: false };
        pool.put(&put, &mut StreamSource::new(&bytes[..]), &Settings::new(&Silent)).unwrap();
        let mut opened = Opened::default();
        let id =
            |number: usize| SegmentId { volume: [1; 16], generation: 1, number: number as u64 };
        for number in 0..3 * OPEN {
            opened.insert(id(number), Arc::new(pool.open_object("numbers").unwrap()));
            // The first one is read again and again.
            assert!(opened.get(&id(0)).is_some());
        }
        assert_eq!((opened.known.len(), opened.queue.len()), (3 * OPEN, OPEN));
        assert!(opened.known[&id(0)].open && !opened.known[&id(1)].open);
        // A manifest that is kept is read without a lookup.
        let again = opened.get(&id(1)).unwrap();
        let mut part = [0; 4096];
        assert!(again.read_unchecked(&pool, 60_000, &mut part));
        assert_eq!(part, bytes[60_000..64_096]);
        assert!(opened.known[&id(1)].open && opened.queue.len() == OPEN);
        opened.forget(&id(1));
        assert!(opened.get(&id(1)).is_none());
        // What was forgotten and is there again does not stay in the queue twice for ever.
        for number in 0..3 * OPEN {
            opened.forget(&id(0));
            opened.insert(id(0), Arc::clone(&again));
            assert!(opened.get(&id(number.max(2))).is_some() && opened.queue.len() <= OPEN);
        }
    }
}
