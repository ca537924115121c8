//! Changes to a volume that is written to: snapshots come and go, and it grows.

use crate::admin::{check_growth, check_snapshot, removable, there_is};
use crate::{
    Result, descriptor::SnapshotEntry, kept::lock, open::pins, state::Stage, volume::Volume,
};
use std::collections::BTreeSet;

impl Volume {
    /// Keeps the volume as it is now under a name, while it is written to.
    /// Errors: there is a snapshot of that name; the pool cannot take it. Nothing is then kept.
    pub fn keep_snapshot(&self, snapshot: &str) -> Result<()> {
        check_snapshot(snapshot)?;
        self.still_writes()?;
        // Nothing is moved or removed meanwhile that the map names.
        let mut kept = lock(&self.keeper);
        if lock(&self.held).descriptor.has_snapshot(snapshot) {
            return Err(there_is(&self.name, snapshot));
        }
        let (map, size, waiting) = loop {
            let mut state = lock(&self.state);
            // The log has room for so many buffers and no more.
            if state.has_room() {
                let (seq, head) = (state.seq, state.ring.head());
                state.close(seq, head);
                let waiting: Vec<u32> =
                    state.closed.iter().map(|closed| closed.buffer.slot).collect();
                break (state.map.clone(), state.size, waiting);
            }
            drop(state);
            self.seal()?;
        };
        let sealed = |slot: &u32| lock(&self.state).slots[*slot as usize].stage != Stage::Closed;
        while !waiting.iter().all(sealed) {
            self.seal()?;
        }
        let moment = lock(&self.state).moment_of(map, size);
        let name = self.next_map(&mut kept);
        self.put_checkpoint(&name, &moment)?;
        let created_ms = self.rim.now_ms();
        self.describe(|new| {
            let (name, map, clones) = (snapshot.to_owned(), name.clone(), Vec::new());
            new.snapshot.push(SnapshotEntry { name, created_ms, size, map, clones });
            Ok(None)
        })?;
        let ids = moment.segments.iter().flatten().map(|segment| segment.id).collect();
        lock(&self.state).pin(&ids);
        Ok(())
    }

    /// Removes a snapshot while the volume is written to. What only it needed is removed behind
    /// clients, as what was overwritten is.
    /// Errors: there is no such snapshot, or a volume was cloned from it; the pool cannot be read,
    /// or does not take the description. Then the snapshot is kept, but for the last of these,
    /// where that is not known.
    pub fn drop_snapshot(&self, snapshot: &str) -> Result<()> {
        self.still_writes()?;
        // No other is kept or removed meanwhile.
        let _keeper = lock(&self.keeper);
        let mut left = lock(&self.held).descriptor.clone();
        left.snapshot.retain(|entry| entry.name != snapshot);
        let needed: BTreeSet<_> = pins(&self.rim, &self.name, &left)?;
        let map = self.describe(|new| {
            let at = removable(&self.rim, new, &self.name, snapshot)?;
            Ok(Some(new.snapshot.remove(at).map))
        })?;
        lock(&self.state).unpin(&needed);
        match map {
            Some(map) => Ok(self.rim.remove(&map)?),
            None => Ok(()),
        }
    }

    /// Makes the volume larger while it is written to; what is new reads as zeros.
    /// Errors: a size that cannot be, or is smaller; the pool does not take the description.
    pub fn grow(&self, size: u64) -> Result<()> {
        self.still_writes()?;
        // A checkpoint says the size, too.
        let _keeper = lock(&self.keeper);
        check_growth(&lock(&self.held).descriptor, &self.name, size)?;
        if size > self.size() {
            self.describe(|new| {
                new.size = size;
                Ok(None)
            })?;
            lock(&self.state).resize(size);
        }
        Ok(())
    }
}
