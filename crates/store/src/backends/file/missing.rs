//! Files of a list that are not there, by one listing of the folder.
//!
//! A commit of many new objects asks each of its nodes for all of them, and nearly all are not
//! there. To look for one costs a file system some microseconds, to list one a tenth of that. So
//! as long as a folder is not much fuller than the question is long, it is listed.

use super::FileBackend;
use crate::backends::Backend;
use std::{collections::HashMap, fs};

/// From so many names on it is worth a listing.
const LEAST: usize = 64;
/// Most bytes of the folder's own entries for each name: five or six entries of manifests.
const BYTES_EACH: u64 = 512;

impl FileBackend {
    pub(super) fn missing_of(&self, names: &[String]) -> Option<Vec<bool>> {
        let most = names.len() as u64 * BYTES_EACH;
        if names.len() < LEAST || fs::metadata(&self.folder).ok()?.len() > most {
            return None;
        }
        let wanted: HashMap<&str, usize> =
            names.iter().enumerate().map(|(at, name)| (&name[..], at)).collect();
        let mut missing = vec![true; names.len()];
        let listed = self.each_name(&mut |name| {
            if let Some(&at) = wanted.get(name) {
                missing[at] = false;
            }
            Ok(())
        });
        listed.ok().map(|()| missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BatchFiles, write_whole};

    #[test]
    fn what_is_there_is_told_from_what_is_not_or_nothing_is_told() {
        let root = tempfile::tempdir().unwrap();
        let disk = FileBackend::open(root.path()).unwrap();
        let names: Vec<String> = (0..300).map(|at| format!("k{at}.manifest")).collect();
        for name in names.iter().step_by(7) {
            write_whole(&disk, name, b"bytes").unwrap();
        }
        // Files of a pack that wait for their names are there as well.
        let pack = [(".p1.x.manifest.part", &b"1"[..]), (".p2.x.manifest.part", &b"2"[..])];
        assert!(disk.write_all(&pack).iter().all(Result::is_ok));
        let mut asked = names.clone();
        asked.extend(pack.iter().map(|(name, _)| (*name).to_owned()));
        let missing = disk.missing(&asked).unwrap();
        for (at, missing) in missing[..300].iter().enumerate() {
            assert_eq!(*missing, at % 7 != 0, "{at}");
        }
        assert_eq!(missing[300..], [false, false]);
        assert_eq!(disk.missing(&names[..LEAST - 1]), None);
        // A folder that is much fuller than the question is long.
        for at in 0..2_000 {
            fs::write(root.path().join(format!("{at:064}")), b"").unwrap();
        }
        assert_eq!(disk.missing(&names[..LEAST]), None);
        drop(root);
        assert_eq!(disk.missing(&names), None);
    }
}
