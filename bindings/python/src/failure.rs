//! Failures as exceptions: one class for each exit code of the program.

use std::{io, path::PathBuf};

use kiln_code::CodeError;
use kiln_net::{NetError, WRONG_KEY};
use kiln_recovery::RecoveryError;
use kiln_store::StoreError;
use kiln_stripe::{ErrorKind, PoolError};
use pyo3::prelude::*;

/// Why a call failed. One clear line each.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The call makes no sense as given.
    #[error("{what}")]
    Usage { what: String },
    /// A file of this machine that is no shard.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// A verb: `read`, `write`.
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The code or its parameters.
    #[error(transparent)]
    Code(#[from] CodeError),
    #[error(transparent)]
    Pool(PoolError),
    /// A put would replace something.
    #[error("{error}; give replace=True to replace what is there")]
    Replaces { error: PoolError },
    /// A place.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// An agent, or the way to it.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A plan of repairs.
    #[error(transparent)]
    Recovery(RecoveryError),
    /// An exception that Python itself raised.
    #[error("{0}")]
    Python(#[from] PyErr),
}

impl Failure {
    /// A call that makes no sense.
    pub fn usage(what: impl Into<String>) -> Failure {
        Failure::Usage { what: what.into() }
    }

    /// The exception's class in `kiln._errors`. The same errors have the same exit codes in the
    /// program (`exit.rs`); a test compares them.
    fn class(&self) -> &'static str {
        match self {
            Failure::Usage { .. } => "UsageError",
            Failure::Io { source, .. } => of_io(source),
            Failure::Code(CodeError::NotRecoverable { .. }) => "NotRecoverableError",
            Failure::Code(_) => "UsageError",
            Failure::Pool(error) => of_pool(error),
            Failure::Store(error) | Failure::Net(NetError::Store(error)) => of_store(error),
            Failure::Net(NetError::Setup { .. }) | Failure::Recovery(_) => "UsageError",
            Failure::Replaces { .. } | Failure::Net(NetError::Taken { .. }) => "RefusedError",
            Failure::Net(NetError::Refused { .. }) => "NotPermittedError",
            Failure::Net(NetError::Io { source, .. }) => of_io(source),
            Failure::Net(_) | Failure::Python(_) => "IoError",
        }
    }

    fn is_retryable(&self) -> bool {
        match self {
            Failure::Pool(error) => error.is_retryable(),
            Failure::Store(error) => error.is_retryable(),
            _ => false,
        }
    }
}

impl From<RecoveryError> for Failure {
    fn from(error: RecoveryError) -> Failure {
        match error {
            RecoveryError::Net(error) => Failure::Net(error),
            RecoveryError::Pool(error) => Failure::Pool(error),
            error => Failure::Recovery(error),
        }
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Failure {
        match error {
            error @ PoolError::Exists { .. } => Failure::Replaces { error },
            error => Failure::Pool(error),
        }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        if let Failure::Python(error) = failure {
            return error;
        }
        let raise = |py: Python<'_>| -> PyResult<PyErr> {
            let class = py.import("kiln._errors")?.getattr(failure.class())?;
            let error = class.call1((failure.to_string(),))?;
            error.setattr("retryable", failure.is_retryable())?;
            Ok(PyErr::from_value(error))
        };
        // What fails here is an exception too: of the package, which is not as it was installed.
        Python::attach(|py| raise(py).unwrap_or_else(|error| error))
    }
}

fn of_pool(error: &PoolError) -> &'static str {
    match error {
        PoolError::NoObject { .. } | PoolError::NotFound { .. } => return "NotFoundError",
        PoolError::NoKey { .. } | PoolError::NoDataKey { .. } => return "WrongKeyError",
        PoolError::Store(error) => return of_store(error),
        PoolError::Input { source } | PoolError::Output { source } => return of_io(source),
        _ => {}
    }
    match error.kind() {
        ErrorKind::Usage => "UsageError",
        ErrorKind::NotRecoverable => "NotRecoverableError",
        ErrorKind::Io => "IoError",
        ErrorKind::Refused => "RefusedError",
    }
}

fn of_store(error: &StoreError) -> &'static str {
    match error {
        StoreError::Io { source, .. } => of_io(source),
        error if error.is_usage() => "UsageError",
        _ => "IoError",
    }
}

fn of_io(error: &io::Error) -> &'static str {
    match error.kind() {
        WRONG_KEY => "WrongKeyError",
        io::ErrorKind::PermissionDenied => "NotPermittedError",
        _ => "IoError",
    }
}
