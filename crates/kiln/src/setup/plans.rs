//! A file of ready plans, as `--plans` names one.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kiln_plan::{PlacementStrategy, Plan, PlanCache, Problem, SearchBudget};

use super::write_file;
use crate::exit::{Failure, Result};

/// The most plans that are kept in a file.
const PLANS_MAX: usize = 10_000;
/// The largest file of plans that is loaded.
const PLANS_BYTES_MAX: u64 = 1 << 30;

/// The plans of a file; nothing is written unless it is asked for.
pub struct PlanFile {
    path: PathBuf,
    cache: PlanCache,
}

impl PlanFile {
    /// Loads a file; one that is not there yet has no plans.
    /// Errors: it cannot be read, or is not a whole file of plans: what else it may be is not ours
    /// to overwrite.
    pub fn open(path: &Path) -> Result<PlanFile> {
        let path = path.to_owned();
        let size = match std::fs::metadata(&path) {
            Ok(data) => data.len(),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(PlanFile { path, cache: PlanCache::new(PLANS_MAX) });
            }
            Err(source) => return Err(Failure::Io { action: "open", path, source }),
        };
        let cache = match size <= PLANS_BYTES_MAX {
            true => match std::fs::read(&path) {
                Ok(bytes) => PlanCache::from_bytes(&bytes, PLANS_MAX),
                Err(source) => return Err(Failure::Io { action: "read", path, source }),
            },
            false => None,
        };
        match cache {
            Some(cache) => Ok(PlanFile { path, cache }),
            None => Err(Failure::NotUsable {
                path,
                problem: "not a whole file of plans; remove it or name another".into(),
            }),
        }
    }

    /// Returns whether the file has a plan of this kind, so that none is searched for.
    pub fn has(
        &self,
        strategy: &PlacementStrategy,
        problem: &Problem,
        budget: &SearchBudget<'_>,
    ) -> bool {
        self.cache.has(strategy, problem, budget)
    }

    /// Returns the plan of the file, or one that is made now and added to it; and whether it was
    /// there.
    pub fn plan(
        &mut self,
        strategy: &'static PlacementStrategy,
        problem: &Problem,
        budget: &mut SearchBudget<'_>,
    ) -> Result<(Plan, bool), Failure> {
        let hits = self.cache.hits();
        let plan = self.cache.plan(strategy, problem, budget)?;
        Ok((plan, self.cache.hits() > hits))
    }

    /// Writes the file, whole or not at all.
    pub fn write(&self) -> Result<()> {
        write_file(&self.path, &self.cache.to_bytes())
    }
}
