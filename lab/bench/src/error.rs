//! What can go wrong, and what to do about it.

use std::path::PathBuf;

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// An engine cannot do a job; other engines can, so this is not the end.
    #[error("{engine}: {reason}")]
    Unsupported {
        /// The engine.
        engine: String,
        /// Its words.
        reason: String,
    },
    /// An engine failed at a job it accepted.
    #[error("{engine} failed: {reason}")]
    Failed {
        /// The engine.
        engine: String,
        /// Its words.
        reason: String,
    },
    /// An engine made wrong bytes.
    #[error("{engine}: {job}: chunk {chunk} is wrong from byte {byte} on")]
    Wrong {
        /// The engine.
        engine: String,
        /// What it did.
        job: String,
        /// Index of the chunk.
        chunk: usize,
        /// First wrong byte.
        byte: usize,
    },
    /// A library of a peer cannot be used.
    #[error("{path}: {reason}; build the peers with lab/peers/build.sh")]
    Peer {
        /// Where it was looked for.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Memory for the buffers.
    #[error("{bytes} bytes of buffers: {source}; free memory or choose a smaller case")]
    Memory {
        /// How much was wanted.
        bytes: usize,
        /// The system's words.
        source: std::io::Error,
    },
    /// A report cannot be written.
    #[error("{path}: {source}")]
    Report {
        /// Where to.
        path: PathBuf,
        /// The system's words.
        source: std::io::Error,
    },
    /// Not everybody is held to the same instructions.
    #[error("{reason}")]
    Isa {
        /// What does not fit.
        reason: String,
    },
    /// kiln itself refuses a code of the matrix.
    #[error(transparent)]
    Code(#[from] kiln_code::CodeError),
    /// The name of a case.
    #[error("no case {name:?}; there are: {known}")]
    UnknownCase {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
}
