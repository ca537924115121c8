//! The errors of this crate.

use kiln_code::CodeError;
use rustix::io::Errno;
use std::{io, path::PathBuf};
use thiserror::Error;

/// Everything that ends an operation; trouble of one file is in its report.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ProtectError {
    /// A folder or a file of the parity.
    #[error("cannot {action} {path}: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// There is no index.
    #[error("{path}: not protected yet (no index of kiln protect was found)")]
    NotProtected { path: PathBuf },
    /// Options do not fit what is there, or each other.
    #[error("{path}: {problem}")]
    Refused { path: PathBuf, problem: String },
    #[error(transparent)]
    Code(#[from] CodeError),
}

impl ProtectError {
    pub(crate) fn io(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> ProtectError {
        let path = path.into();
        move |source| ProtectError::Io { action, path, source }
    }

    pub(crate) fn refused(path: impl Into<PathBuf>, problem: impl Into<String>) -> ProtectError {
        ProtectError::Refused { path: path.into(), problem: problem.into() }
    }
}

/// Returns whether nothing has the name, or something that is no file.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory)
        || error.raw_os_error() == Some(Errno::LOOP.raw_os_error())
}

/// Returns whether this process is short of something, which says nothing about a file.
pub(crate) fn is_own(error: &io::Error) -> bool {
    let own = [Errno::MFILE, Errno::NFILE, Errno::NOMEM].map(|errno| errno.raw_os_error());
    error.raw_os_error().is_some_and(|errno| own.contains(&errno))
}
