//! Files that the server of a place moved away by itself, as HDFS's balancer does. They are read
//! from where they are, so no object is damaged; but two shards of one object may be lost with one
//! machine then. So a scrub looks where they are, and brings them back.

use crate::{NodeFile, layout::MAX_MANIFEST, map::meta_files::read_small, repair::scrub::Scrub};
use kiln_store::{Backend, Located, StoreError, write_whole};
use kiln_stripe::Result;
use kiln_stripe::names::{DESCRIPTION, IDENTITY};

impl Scrub<'_> {
    /// Looks where the files of all nodes are, and but for `dry` runs brings back what is
    /// elsewhere. What fails is said; the next scrub tries again.
    pub(crate) fn bring_back(&mut self) {
        for (at, store) in self.map.present() {
            let astray = match astray(store) {
                Ok(astray) => astray,
                Err(error) => {
                    self.settings.observer.warn(&error.to_string());
                    continue;
                }
            };
            self.report.astray += astray.len() as u64;
            if astray.is_empty() || self.req.dry_run {
                continue;
            }
            match self.bring_back_to(at, store, &astray) {
                Ok(brought) => self.report.brought_back += brought,
                Err(error) => self.settings.observer.warn(&error.to_string()),
            }
        }
    }

    /// Brings files back to a node, each under its lock; how many are back.
    fn bring_back_to(&self, at: usize, store: &dyn Backend, astray: &[String]) -> Result<u64> {
        let mut brought = 0;
        for name in astray {
            // Others have their turn between two files.
            let _lock = self.map.lock(std::iter::once(at), self.settings)?;
            // It may have been replaced or removed since.
            let end = match store.locality(name) {
                Ok(Located::Away(_)) => bring_back(store, name, self.req.now_ms),
                Ok(_) => Ok(()),
                Err(error) if error.is_not_found() => Ok(()),
                Err(error) => Err(error.into()),
            };
            match end {
                Ok(()) => brought += 1,
                Err(error) => self.settings.observer.warn(&error.to_string()),
            }
        }
        Ok(brought)
    }
}

/// Writes a file anew and puts it in the place of the one that is elsewhere. The node is locked.
///
/// A shard is copied where it lies, by the agent if there is one, and takes its name in a step of
/// its own: an agent whose client is gone may go on copying, but renames nothing.
fn bring_back(store: &dyn Backend, name: &str, now_ms: u64) -> Result<()> {
    let Some(NodeFile::Shard { key, run, index }) = NodeFile::parse(name) else {
        if let Some(bytes) = read_small(store, name, MAX_MANIFEST as u64)? {
            write_whole(store, name, &bytes)?;
        }
        return Ok(());
    };
    // No repair has this number. What is left of an interrupted copy is a leftover for a scrub.
    let part = NodeFile::RepairPart { key, run, index, by: now_ms }.name();
    let copied = store.copy_local(name, &part).and_then(|()| store.rename(&part, name));
    Ok(copied.inspect_err(|_: &StoreError| {
        // The error is the one to tell; the file itself is as it was.
        let _ = store.remove(&part);
    })?)
}

/// The files of a node that are elsewhere, and that are only written under its lock: shards,
/// manifests, the map, and what says whose disk it is. Others are parts, or written anew soon.
fn astray(store: &dyn Backend) -> Result<Vec<String>> {
    // Most places need not be listed once more.
    if store.locality(IDENTITY)? == Located::Unmanaged {
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
        match store.locality(&name) {
            Ok(Located::Away(_)) => astray.push(name),
            Ok(Located::Here | Located::Unmanaged) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(astray)
}
