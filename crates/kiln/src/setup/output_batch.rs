//! Outputs that are written together: one sync for all of their bytes, one for all of their names.

use std::collections::{BTreeMap, BTreeSet};
use std::{io, os::unix::fs::MetadataExt, path::PathBuf};

use kiln_store::FileSystem;

use super::output::{Output, Written};
use super::output_tree::sync_folder;
use crate::exit::{Failure, Result};

/// With fewer files it is quicker to sync each.
const WORTH_IT: usize = 8;

/// File systems that outputs go to, from before the first byte is written to them.
#[derive(Default)]
pub struct OutputBatch {
    /// By device, those that can be synced as a whole.
    systems: BTreeMap<u64, FileSystem>,
}

impl OutputBatch {
    /// Before so many outputs are written into these folders, which are there.
    pub fn before(outputs: usize, folders: &BTreeSet<PathBuf>) -> OutputBatch {
        let mut systems = BTreeMap::new();
        for folder in folders.iter().filter(|_| outputs >= WORTH_IT) {
            if let (Ok(meta), Some(system)) = (folder.metadata(), FileSystem::open(folder)) {
                systems.entry(meta.dev()).or_insert(system);
            }
        }
        OutputBatch { systems }
    }

    /// Makes outputs durable and visible under their final names, as `Output::finish` does. Each
    /// has its own end; but a sync that fails was for all on its file system, and fails all.
    pub fn finish(&self, outputs: Vec<Written>) -> Vec<Result<()>> {
        let synced = self.sync();
        let renamed: Vec<Result<Written>> = outputs
            .into_iter()
            .map(|output| {
                let end = synced.get(&output.device).map_or_else(|| output.sync(), again);
                end.map_err(|source| output.failed("sync", source))?;
                output.rename()
            })
            .collect();
        let synced = self.sync();
        let mut folders = BTreeMap::new();
        let mut end = |output: Written| {
            let Some((folder, path)) = output.folder() else { return Ok(()) };
            let end = synced.get(&output.device).unwrap_or_else(|| {
                folders.entry(path.clone()).or_insert_with(|| sync_folder(&folder))
            });
            again(end).map_err(|source| Failure::Io { action: "sync", path, source })
        };
        renamed.into_iter().map(|output| end(output?)).collect()
    }

    /// Syncs each file system.
    fn sync(&self) -> BTreeMap<u64, io::Result<()>> {
        self.systems.iter().map(|(device, system)| (*device, system.sync())).collect()
    }
}

impl Output {
    /// Makes everything durable and visible under the final name.
    /// Errors: the disk is full or failed; then the final name is as it was.
    pub fn finish(self) -> Result<()> {
        OutputBatch::default().finish(vec![self.written()?]).into_iter().collect()
    }
}

/// Copies the outcome of a sync for many, for each of them.
fn again(end: &io::Result<()>) -> io::Result<()> {
    let number = |error: &io::Error| error.raw_os_error().map(io::Error::from_raw_os_error);
    end.as_ref().copied().map_err(|error| number(error).unwrap_or_else(|| error.kind().into()))
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write};

    use super::*;
    use crate::setup::OutputTarget;

    #[test]
    fn many_outputs_get_their_names_and_one_that_cannot_keeps_to_itself() {
        let root = tempfile::tempdir().unwrap();
        for count in [1, WORTH_IT, 40] {
            let folder = root.path().join(count.to_string());
            fs::create_dir(&folder).unwrap();
            let together = OutputBatch::before(count, &BTreeSet::from([folder.clone()]));
            let outputs = (0..count).map(|at| {
                let path = folder.join(at.to_string());
                let mut output = Output::open(&OutputTarget::File(path), false).unwrap();
                output.write_all(&vec![at as u8; at * 1000]).unwrap();
                output.written().unwrap()
            });
            let outputs: Vec<Written> = outputs.collect();
            // A folder of the name appears meanwhile.
            fs::create_dir(folder.join("0")).unwrap();
            let ends = together.finish(outputs);
            assert!(ends[0].is_err() && ends[1..].iter().all(Result::is_ok));
            for at in 1..count {
                assert!(
                    fs::read(folder.join(at.to_string())).unwrap() == vec![at as u8; at * 1000]
                );
            }
            assert_eq!(fs::read_dir(&folder).unwrap().count(), count, "parts are left");
        }
    }
}
