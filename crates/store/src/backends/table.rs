//! The table of the kinds of places in this crate.

use super::{file, memory, place::BackendKind};

/// The kinds of this crate. A wrapper of other backends has no row.
pub static BACKENDS: &[&dyn BackendKind] = &[&file::Folders, &memory::Memories];

#[cfg(test)]
mod tests {
    use std::{fs, path::Path, sync::Arc};

    use super::*;
    use crate::{Absent, Backend, Location, Opening, Result, StoreError, open_place};

    fn open(text: &str, absent: Absent) -> Result<Arc<dyn Backend>> {
        open_place(BACKENDS, text.as_ref(), Opening { absent, ..Opening::default() })
    }

    #[test]
    fn what_looks_like_a_url_is_never_made_a_folder() {
        for wrong in ["s3://bucket/x", "klin://x", "File:///x", "a b://x", "://x", "x/y://z"] {
            let error = open(wrong, Absent::Create).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, StoreError::UnknownScheme { .. }) && error.is_usage());
            assert!(text.contains("known: file:///folder") && text.contains("\"./"), "{text}");
            assert!(!Path::new(wrong).exists());
            assert!(Location::of(wrong.as_ref()).local().unwrap_err().is_usage());
        }
        assert!(open("file://", Absent::Create).unwrap_err().is_usage());
        assert!(open("", Absent::Create).unwrap_err().is_usage());
    }

    #[test]
    fn a_path_and_its_url_are_one_place() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a://b").display().to_string();
        assert!(open(&path, Absent::Refuse).unwrap_err().is_not_found());
        let made = open(&format!("file://{path}"), Absent::Create).unwrap();
        assert_eq!(made.place(), path);
        assert_eq!(open(&path, Absent::Refuse).unwrap().folder(), made.folder());
    }

    #[test]
    fn a_folder_is_made_when_it_is_written_to_and_goes_if_it_stays_empty() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("x");
        let lazy = || open(path.to_str().unwrap(), Absent::CreateWhenWritten).unwrap();
        let disk = lazy();
        assert!(disk.list().unwrap().is_empty() && disk.open("a").err().unwrap().is_not_found());
        assert!(disk.rename("a", "b").unwrap_err().is_not_found());
        disk.remove("a").unwrap();
        assert!(!path.exists());
        drop(disk.lock(false).unwrap().unwrap());
        assert!(path.exists());
        drop(disk);
        assert!(!path.exists());
        let disk = lazy();
        crate::write_whole(&*disk, "a", b"a").unwrap();
        drop(disk);
        assert!(path.join("a").exists());
        fs::remove_file(path.join("a")).unwrap();
        // It was there before.
        drop(lazy().lock(false).unwrap());
        assert!(path.exists());
        fs::remove_dir(&path).unwrap();
        fs::write(&path, b"").unwrap();
        assert!(open(path.to_str().unwrap(), Absent::CreateWhenWritten).is_err());
    }
}
