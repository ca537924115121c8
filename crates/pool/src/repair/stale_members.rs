//! Nodes whose copy of the map is an old one. One that was unavailable when the map changed is
//! told. One whose copy is from before removals were last forgotten was rolled back: all nodes were
//! there then. What was removed meanwhile may be on it again, and goes first.

use crate::{Key, NodeFile, map::meta_files::epoch_of, repair::scrub::Scrub};
use kiln_store::move_file;
use kiln_stripe::Result;

impl Scrub<'_> {
    /// Gives the map to nodes with an old copy. A node with which this fails is left for the next
    /// scrub.
    pub(crate) fn readmit(&mut self) {
        let epoch = |store| epoch_of(store, &self.map.config).ok().flatten().unwrap_or(0);
        let behind: Vec<(usize, u64)> = (self.map.present())
            .map(|(at, store)| (at, epoch(store)))
            .filter(|(_, epoch)| *epoch < self.map.config.revision)
            .collect();
        for (at, epoch) in behind {
            let clean = match epoch < self.map.config.floored {
                true => self.bury_ghosts(at),
                false => Ok(true),
            };
            let told =
                clean.and_then(
                    |clean| if clean { self.members.tell(at, self.settings) } else { Ok(()) },
                );
            if let Err(error) = told {
                self.settings.observer.warn(&error.to_string());
            }
        }
    }

    /// Puts manifests in quarantine that a node has although their objects were removed. `false`:
    /// of some it cannot be said now.
    fn bury_ghosts(&mut self, at: usize) -> Result<bool> {
        let store = self.map.usable(at)?;
        let mut keys: Vec<Key> = Vec::new();
        store.each_name(&mut |name| {
            if let Some(NodeFile::Manifest { key }) = NodeFile::parse(name) {
                keys.push(key);
            }
            Ok(())
        })?;
        let mut clean = true;
        for key in keys {
            let homes = self.map.config.homes_now(&key);
            let _locks = self.map.lock(homes.positions().chain([at]), self.settings)?;
            let found = self.manifests.ask(&key, true)?;
            clean &= found.certain;
            let file = NodeFile::Manifest { key };
            if let (true, Some(kept)) =
                (found.ghosts.contains(&at), file.quarantined(self.req.now_ms))
            {
                move_file(store, &file.name(), &kept.name())?;
                self.report.quarantined += 1;
            }
        }
        Ok(clean)
    }
}
