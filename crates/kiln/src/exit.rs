//! Exit codes, and the one error type of the program.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use kiln_code::CodeError;
use kiln_nbd::NbdError;
use kiln_node::NodeError;
use kiln_plan::PlanError;
use kiln_pool::{ErrorKind, PoolError};
use kiln_store::StoreError;
use kiln_volume::VolumeError;
use thiserror::Error;

/// What the process tells its caller. The numbers are a contract with scripts: never renumber.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// 0: did what was asked, perhaps with warnings.
    Done = 0,
    /// 1: `verify` found damage that `repair` can fix.
    Damaged = 1,
    /// 2: too much is lost.
    NotRecoverable = 2,
    /// 3: the command line or its parameters make no sense.
    Usage = 3,
    /// 4: disk, file or pipe failed.
    Io = 4,
    /// 5: refused, because data would be lost.
    Refused = 5,
    /// 6: a salvage gave what can be had, and that is not all.
    Partial = 6,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// The table shown at the end of every help text.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  did what was asked (damage that was worked around gives a warning)
  1  verify found damage that kiln repair can fix
  2  not recoverable: too much is lost
  3  wrong usage
  4  a disk, file or pipe failed
  5  refused, because data would be lost
  6  not everything could be had: kiln decode --salvage says what is missing";

/// Everything that can stop a command.
#[derive(Debug, Error)]
pub enum Failure {
    /// The command line could not be parsed; the text is clap's, in one line.
    #[error("{message}")]
    Arguments {
        /// What is wrong and where to read on.
        message: String,
    },
    /// A flag or argument has a value that cannot be used.
    #[error("{flag}: {problem}")]
    Flag {
        /// The flag as typed, e.g. `--lost`.
        flag: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// The code or its parameters.
    #[error(transparent)]
    Code(#[from] CodeError),
    /// Placing repairs on nodes.
    #[error(transparent)]
    Plan(PlanError),
    /// Encode, decode, verify or repair.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A shard or folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A volume.
    #[error(transparent)]
    Volume(VolumeError),
    /// A server of network block devices.
    #[error(transparent)]
    Nbd(#[from] NbdError),
    /// An agent, or the way to it.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A file that is neither a shard nor in a node folder.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// A verb: `open`, `create`, ...
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// Decode would overwrite something.
    #[error("{path} exists already; give --force to replace it")]
    Exists {
        /// The file that is in the way.
        path: PathBuf,
    },
    /// Something is where a folder is to be made.
    #[error("{path} exists already; name a place that is not there yet")]
    InTheWay {
        /// What is in the way.
        path: PathBuf,
    },
    /// Another process writes the same output.
    #[error("another kiln is writing {path} at this moment")]
    Busy {
        /// The final name of the output.
        path: PathBuf,
    },
    /// `inspect` met something that is not a shard.
    #[error("{path}: {problem}")]
    NotUsable {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        problem: String,
    },
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Failure {
        match error {
            PlanError::Code(error) => Failure::Code(error),
            error => Failure::Plan(error),
        }
    }
}

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Failure {
        match error {
            VolumeError::Pool(error) => Failure::Pool(error),
            VolumeError::Store(error) => Failure::Store(error),
            error => Failure::Volume(error),
        }
    }
}

impl Failure {
    /// The process's exit code for this error.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Arguments { .. } | Failure::Flag { .. } => Exit::Usage,
            Failure::Code(CodeError::NotRecoverable { .. }) => Exit::NotRecoverable,
            Failure::Plan(PlanError::NotRecoverable { .. }) => Exit::NotRecoverable,
            Failure::Code(_) | Failure::Plan(_) => Exit::Usage,
            Failure::Pool(error) => of_pool(error.kind()),
            Failure::Node(NodeError::Setup { .. }) => Exit::Usage,
            Failure::Store(error) if error.is_usage() => Exit::Usage,
            Failure::Node(NodeError::Pool(error)) => of_pool(error.kind()),
            Failure::Node(NodeError::Taken { .. }) => Exit::Refused,
            Failure::Volume(error) => of_volume(error),
            Failure::Node(_)
            | Failure::Nbd(_)
            | Failure::Store(_)
            | Failure::Io { .. }
            | Failure::NotUsable { .. } => Exit::Io,
            Failure::Exists { .. } | Failure::InTheWay { .. } | Failure::Busy { .. } => {
                Exit::Refused
            }
        }
    }
}

impl Failure {
    /// The reader of our output went away, as in `kiln decode ... | head`: it knows, so no message.
    fn is_closed_pipe(&self) -> bool {
        match self {
            Failure::Io { source, .. } | Failure::Pool(PoolError::Output { source }) => {
                source.kind() == io::ErrorKind::BrokenPipe
            }
            _ => false,
        }
    }
}

fn of_volume(error: &VolumeError) -> Exit {
    match error {
        VolumeError::NoVolume { .. } | VolumeError::Usage { .. } => Exit::Usage,
        VolumeError::Damaged { .. } | VolumeError::NoLog { .. } => Exit::NotRecoverable,
        VolumeError::Exists { .. }
        | VolumeError::InUse { .. }
        | VolumeError::Deposed { .. }
        | VolumeError::ReadOnly { .. } => Exit::Refused,
        _ => Exit::Io,
    }
}

fn of_pool(kind: ErrorKind) -> Exit {
    match kind {
        ErrorKind::Usage => Exit::Usage,
        ErrorKind::NotRecoverable => Exit::NotRecoverable,
        ErrorKind::Io => Exit::Io,
        ErrorKind::Refused => Exit::Refused,
    }
}

/// Prints the one line that a failure deserves and returns its exit code.
pub fn report(failure: &Failure) -> Exit {
    if !failure.is_closed_pipe() {
        crate::print::error_line(&failure.to_string());
    }
    failure.exit()
}
