//! The crate's one error type.

use std::{io, path::PathBuf};

/// Why a server cannot serve, or a connection ended.
#[allow(missing_docs)] // of fields that their names describe
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NbdError {
    /// The socket failed.
    #[error("connection: {0}")]
    Io(#[from] io::Error),
    /// The client does not speak the protocol.
    #[error("the client does not keep to the protocol: {what}")]
    Protocol { what: String },
    /// A file has no certificate, or no key.
    #[error("{path}: {what}")]
    Certificate { path: PathBuf, what: String },
    /// Encryption could not be agreed on.
    #[error("encryption: {0}")]
    Tls(#[from] rustls::Error),
}

/// Result of everything in this crate.
pub type Result<T, E = NbdError> = std::result::Result<T, E>;

pub(crate) fn protocol<T>(what: &str) -> Result<T> {
    Err(NbdError::Protocol { what: what.to_owned() })
}
