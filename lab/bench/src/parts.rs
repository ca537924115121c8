//! Finished parts of long runs, kept beside the report, so that a run that was interrupted goes on
//! there.

use crate::BenchError;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Finished parts of one report.
#[derive(Debug, Default)]
pub struct Parts {
    folder: Option<PathBuf>,
}

/// A part in its file.
#[derive(Serialize, Deserialize)]
struct Part<T> {
    key: String,
    found: T,
}

impl Parts {
    /// Those of a report that goes to `out`, of runs that had the same `kind`: what they are of,
    /// with which commit. Without a folder nothing is kept.
    pub fn new(out: Option<&Path>, name: &str, kind: &str) -> Parts {
        Parts { folder: out.map(|out| out.join(format!("{name}-parts")).join(kind)) }
    }

    /// A part that is there already, or else is made and kept.
    ///
    /// # Errors
    /// Those of `make`; the part cannot be written.
    pub fn take<T: Serialize + DeserializeOwned>(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let name = format!("{}.json", key.replace([':', '/', ' ', '+', '=', ','], "-"));
        let known = self.folder.as_ref().and_then(|folder| {
            let text = fs::read_to_string(folder.join(&name)).ok()?;
            let part: Part<T> = serde_json::from_str(&text).ok()?;
            (part.key == key).then_some(part.found)
        });
        if let Some(found) = known {
            eprintln!("{key}: kept from the run before");
            return Ok(found);
        }
        let part = Part { key: key.to_owned(), found: make()? };
        if let Some(folder) = &self.folder {
            put(folder, &name, &serde_json::to_string(&part).unwrap_or_default())?;
        }
        Ok(part.found)
    }

    /// Forgets all of them, of other commits as well: they are in the report now.
    pub fn forget(&self) {
        // That they cannot be removed harms nobody.
        let all = self.folder.as_deref().and_then(Path::parent);
        let _ = all.map(fs::remove_dir_all);
    }
}

/// Writes a file of a report.
///
/// # Errors
/// It cannot be written.
pub fn put(folder: &Path, name: &str, text: &str) -> Result<(), BenchError> {
    let path = folder.join(name);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, text))
        .map_err(|source| BenchError::Report { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_finished_is_not_made_again() -> Result<(), BenchError> {
        let out = tempfile::tempdir()
            .map_err(|source| BenchError::Report { path: PathBuf::new(), source })?;
        let failed = || BenchError::Failed { engine: "test".into(), reason: "made again".into() };
        let parts = Parts::new(Some(out.path()), "test", "abc-full");
        assert_eq!(parts.take("rs:6+3, a cell", || Ok(vec![1.5, 0.1]))?, [1.5, 0.1]);
        let again = || Parts::new(Some(out.path()), "test", "abc-full");
        assert_eq!(again().take::<Vec<f64>>("rs:6+3, a cell", || Err(failed()))?, [1.5, 0.1]);
        assert!(again().take::<Vec<f64>>("rs:6+3  a cell", || Err(failed())).is_err(), "other key");
        let other = Parts::new(Some(out.path()), "test", "abd-full");
        assert!(
            other.take::<Vec<f64>>("rs:6+3, a cell", || Err(failed())).is_err(),
            "other commit"
        );
        parts.forget();
        assert!(again().take::<Vec<f64>>("rs:6+3, a cell", || Err(failed())).is_err());
        assert_eq!(Parts::default().take("no folder", || Ok(1))?, 1);
        Ok(())
    }
}
