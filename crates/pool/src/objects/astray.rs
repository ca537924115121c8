//! Files that the server of a place moved away by itself, as HDFS's balancer does. They are read
//! from where they are, so no object is damaged; but two shards of one object may be lost with one
//! machine then. So a scrub looks where they are, and brings them back.

use kiln_store::{Backend, Whereabouts};

use super::Pool;
use crate::engine::names::{DESCRIPTION, IDENTITY};
use crate::{NodeFile, Result, ScrubReport, Settings};

impl Pool {
    /// Looks where the files of all nodes are, and but for `dry` runs brings back what is
    /// elsewhere. What fails is said; the next scrub tries again.
    pub(super) fn bring_back(&self, dry: bool, report: &mut ScrubReport, settings: &Settings<'_>) {
        for (at, store) in self.present() {
            let astray = match astray(store) {
                Ok(astray) => astray,
                Err(error) => {
                    settings.observer.warn(&error.to_string());
                    continue;
                }
            };
            report.astray += astray.len() as u64;
            if astray.is_empty() || dry {
                continue;
            }
            match self.bring_back_to(at, store, &astray, settings) {
                Ok(brought) => report.brought_back += brought,
                Err(error) => settings.observer.warn(&error.to_string()),
            }
        }
    }

    /// Brings files back to a node, under its lock; how many are back.
    fn bring_back_to(
        &self,
        at: usize,
        store: &dyn Backend,
        astray: &[String],
        settings: &Settings<'_>,
    ) -> Result<u64> {
        let _lock = self.lock(std::iter::once(at), settings)?;
        let mut brought = 0;
        for name in astray {
            // It may have been replaced or removed since.
            let end = match store.whereabouts(name) {
                Ok(Whereabouts::Away(_)) => store.bring_back(name),
                Ok(_) => Ok(()),
                Err(error) if error.is_not_found() => Ok(()),
                Err(error) => Err(error),
            };
            match end {
                Ok(()) => brought += 1,
                Err(error) => settings.observer.warn(&error.to_string()),
            }
        }
        Ok(brought)
    }
}

/// The files of a node that are elsewhere, and that are only written under its lock: shards,
/// manifests, the map, and what says whose disk it is. Others are parts, or written anew soon.
fn astray(store: &dyn Backend) -> Result<Vec<String>> {
    // Most places need not be listed once more.
    if store.whereabouts(IDENTITY)? == Whereabouts::Unasked {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    store.each_name(&mut |name| {
        let file = NodeFile::parse(name);
        let stays = matches!(file, Some(NodeFile::Shard { .. } | NodeFile::Manifest { .. }));
        if stays || [IDENTITY, DESCRIPTION].contains(&name) {
            names.push(name.to_owned());
        }
        Ok(())
    })?;
    let mut astray = Vec::new();
    for name in names {
        match store.whereabouts(&name) {
            Ok(Whereabouts::Away(_)) => astray.push(name),
            Ok(Whereabouts::Here | Whereabouts::Unasked) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(astray)
}
