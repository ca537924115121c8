//! Nodes whose copy of the map is an old one. One that was unavailable when the map changed is
//! told. One whose copy is from before removals were last forgotten was rolled back: all nodes were
//! there then. What was removed meanwhile may be on it again, and goes first; so it is with a node
//! whose copy was lost.

use crate::{Key, NodeFile, map::meta_files::epoch_of, repair::repairer::Repairer};
use kiln_store::move_file;
use kiln_stripe::{Result, Settings};

impl Repairer<'_> {
    /// Gives the map to nodes with an old copy, or only to `blind` ones: theirs cannot be read, so
    /// that they would not tell of a newer map, and that they have nothing newer does not count.
    /// Returns the number of files put in quarantine. A node with which this fails is left for the
    /// next repair or scrub.
    pub fn readmit(&self, blind: bool, now_ms: u64, settings: &Settings<'_>) -> u64 {
        let epoch = |store| epoch_of(store, &self.map.config).ok().flatten();
        let behind = |epoch: Option<u64>| match epoch {
            Some(epoch) if blind || epoch >= self.map.config.revision => None,
            epoch => Some(epoch.unwrap_or(0)),
        };
        let all = self.map.present().filter_map(|(at, store)| Some((at, behind(epoch(store))?)));
        let mut quarantined = 0;
        for (at, epoch) in all {
            let clean = match epoch < self.map.config.floored {
                true => self.bury_ghosts(at, (now_ms, &mut quarantined), settings),
                false => Ok(true),
            };
            let told = clean
                .and_then(|clean| if clean { self.members.tell(at, settings) } else { Ok(()) });
            if let Err(error) = told {
                settings.observer.warn(&error.to_string());
            }
        }
        quarantined
    }

    /// Puts manifests in quarantine that a node has although their objects were removed. `false`:
    /// of some it cannot be said now.
    fn bury_ghosts(
        &self,
        at: usize,
        (now_ms, quarantined): (u64, &mut u64),
        settings: &Settings<'_>,
    ) -> Result<bool> {
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
            let _locks = self.map.lock(homes.positions().chain([at]), settings)?;
            let found = self.manifests.ask(&key, true)?;
            clean &= found.certain;
            let file = NodeFile::Manifest { key };
            if let (true, Some(kept)) = (found.ghosts.contains(&at), file.quarantined(now_ms)) {
                move_file(store, &file.name(), &kept.name())?;
                *quarantined += 1;
            }
        }
        Ok(clean)
    }
}
