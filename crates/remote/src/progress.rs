//! Progress of a file that is written in steps.

use kiln_store::{Result, StoreError};

/// State of a file on its way. After a step that failed nothing is tried again: the bytes at the
/// server are unknown then.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The next step may be made.
    #[default]
    Open,
    /// A step failed.
    Failed,
    /// The file is complete.
    Done,
}

impl Progress {
    /// Begins a step. The file counts as failed until the caller sets another state.
    /// Errors: [`StoreError::Misuse`]: the file is complete, or an earlier step failed.
    pub fn begin_step(&mut self, op: &'static str, name: &str) -> Result<()> {
        if *self != Progress::Open {
            let what = "it is complete, or an earlier call failed".to_owned();
            return Err(StoreError::Misuse { op, name: name.to_owned(), what });
        }
        *self = Progress::Failed;
        Ok(())
    }
}
