//! Exit codes, and the one error type of the program.

use std::{io, path::PathBuf, process::ExitCode, sync::Arc};

use kiln_code::CodeError;
use kiln_gate::{Code, GateError};
use kiln_nbd::NbdError;
use kiln_net::{NetError, WRONG_KEY, agent::PeerRole};
use kiln_plan::PlanError;
use kiln_protect::ProtectError;
use kiln_recovery::RecoveryError;
use kiln_store::StoreError;
use kiln_stripe::{ErrorKind, PoolError};
use kiln_volume::VolumeError;
use thiserror::Error;

/// Exit codes of the process. The numbers are a contract with scripts: never renumber.
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
    /// 6: a salvage recovered a part.
    Partial = 6,
    /// 7: no object, file or node of that name.
    NotFound = 7,
    /// 8: the key is not the one that is needed.
    WrongKey = 8,
    /// 9: the system, or an agent, does not permit it.
    NotPermitted = 9,
    /// 10: `torture` found a promise broken.
    Broken = 10,
}

impl Exit {
    /// Returns the graver of two outcomes.
    #[must_use]
    pub fn worse(self, other: Exit) -> Exit {
        let rank = |exit: Exit| match exit {
            Exit::Done => 0,
            Exit::Damaged => 1,
            Exit::NotRecoverable => 3,
            _ => 2,
        };
        if rank(other) > rank(self) { other } else { self }
    }

    /// The kind of an error, for scripts, and what to do about any of that kind.
    pub fn kind_and_advice(self) -> (&'static str, &'static str) {
        match self {
            Exit::Done => ("done", ""),
            Exit::Damaged => ("damaged", "run kiln repair"),
            Exit::NotRecoverable => (
                "not-recoverable",
                "bring back disks or nodes that are missing; of shards in folders, kiln decode \
                 --salvage gives what is left",
            ),
            Exit::Usage => ("usage", "see kiln COMMAND --help"),
            Exit::Io => ("io", "look at the disk, file or machine that is named, and run it again"),
            Exit::Refused => ("refused", "nothing was changed; remove what is in the way"),
            Exit::Partial => ("partial", "the report says which bytes are missing"),
            Exit::NotFound => ("not-found", "kiln ls and kiln inspect say what is there"),
            Exit::WrongKey => {
                ("wrong-key", "name the right key: --key for agents, --pool-key for sealed pools")
            }
            Exit::NotPermitted => {
                ("not-permitted", "run it as a user, or by a key of a role, that may do so")
            }
            Exit::Broken => ("broken", "keep the folder, and report the seed"),
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Result of a command and its parts.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Everything that can stop a command.
#[derive(Debug, Error)]
pub enum Failure {
    /// The command line could not be parsed; the text is clap's, in one line.
    #[error("{message}")]
    Arguments { message: String },
    /// A flag or argument has a value that cannot be used.
    #[error("{flag}: {problem}")]
    Flag {
        /// The flag as typed, e.g. `--lost`.
        flag: &'static str,
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
    Pool(PoolError),
    /// A put or an encode would replace something.
    #[error("{error}; give --force to replace what is there")]
    Replaces { error: PoolError },
    /// A shard or folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Volume(VolumeError),
    /// A server of network block devices.
    #[error(transparent)]
    Nbd(#[from] NbdError),
    /// The parity beside files.
    #[error(transparent)]
    Protect(ProtectError),
    /// The S3 server, or its records in the pool.
    #[error("{}", .0.message)]
    Gate(#[from] GateError),
    /// An agent, or the way to it.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A plan of repairs.
    #[error(transparent)]
    Recovery(RecoveryError),
    /// The key's role permits less.
    #[error("{file}: a key of the role {role} may not do this; it needs the role {least}")]
    Role { file: PathBuf, role: PeerRole, least: PeerRole },
    /// The key is for some names, and the command is not for single objects.
    #[error("{file}: a key for names with the prefix {prefix:?} is for get, put, stat and rm")]
    Prefix { file: PathBuf, prefix: Arc<str> },
    /// A pool of which no node can be used, for a reason that has an exit code of its own.
    #[error("{error}")]
    Denied {
        error: PoolError,
        /// The exit code for the first node's error.
        exit: Exit,
    },
    /// A file that is neither a shard nor in a node folder.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// A verb: `open`, `create`, ...
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The process may open too few files.
    #[error("open files: the limit of {limit} is too low; run ulimit -n {needed}")]
    OpenFiles { limit: u64, needed: u64 },
    /// The process may have too few addresses.
    #[error("memory: the limit of {limit} KiB is too low; run ulimit -v {needed}")]
    Memory { limit: u64, needed: u64 },
    /// Decode would overwrite something.
    #[error("{path} exists already; give --force to replace it")]
    Exists { path: PathBuf },
    /// Something is where a folder is to be made.
    #[error("{path} exists already; name a place that is not there yet")]
    InTheWay { path: PathBuf },
    /// An ordinary command names what kiln keeps for itself.
    #[error("{name}: the name is kiln's own (volumes, attributes of folders); see kiln volume")]
    Reserved { name: String },
    /// Another process writes the same output.
    #[error("another kiln is writing {path} at this moment")]
    Busy {
        /// The final name of the output.
        path: PathBuf,
    },
    /// `inspect` met something that is not a shard.
    #[error("{path}: {problem}")]
    NotUsable { path: PathBuf, problem: String },
}

/// Takes failures of another crate: those that it only hands on are what they were.
macro_rules! taken {
    ($($error:ident as $own:ident, but $($other:ident)*;)*) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Failure {
                match error {
                    $($error::$other(error) => Failure::$other(error),)*
                    error => Failure::$own(error),
                }
            }
        })*
    };
}

taken! {
    RecoveryError as Recovery, but Net Pool;
    PlanError as Plan, but Code;
    VolumeError as Volume, but Pool Store;
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Failure {
        match error {
            error @ PoolError::Exists { .. } => Failure::Replaces { error },
            error => Failure::Pool(error),
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
            Failure::Denied { exit, .. } => *exit,
            Failure::Role { .. } | Failure::Prefix { .. } => Exit::NotPermitted,
            Failure::Io { source, .. } => of_file(source),
            Failure::Pool(error) => of_pool(error),
            Failure::Net(NetError::Setup { .. }) | Failure::Recovery(_) => Exit::Usage,
            Failure::Net(NetError::Taken { .. }) => Exit::Refused,
            Failure::Net(NetError::Refused { .. }) => Exit::NotPermitted,
            Failure::Net(NetError::Io { source, .. }) => of_io(source),
            Failure::Store(error) | Failure::Net(NetError::Store(error)) => of_store(error),
            Failure::Volume(error) => of_volume(error),
            Failure::Gate(error) => of_gate(error),
            Failure::Protect(ProtectError::NotProtected { .. }) => Exit::NotFound,
            Failure::Protect(_) => Exit::Refused,
            Failure::OpenFiles { .. } | Failure::Memory { .. } => Exit::Io,
            Failure::Net(_) | Failure::Nbd(_) | Failure::NotUsable { .. } => Exit::Io,
            Failure::Exists { .. }
            | Failure::Replaces { .. }
            | Failure::InTheWay { .. }
            | Failure::Reserved { .. }
            | Failure::Busy { .. } => Exit::Refused,
        }
    }

    /// The reader of our output went away, as in `kiln decode ... | head`: it knows, so no message.
    pub fn is_closed_pipe(&self) -> bool {
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
        VolumeError::NoVolume { .. } => Exit::NotFound,
        VolumeError::Usage { .. } => Exit::Usage,
        VolumeError::Damaged { .. } | VolumeError::NoLog { .. } => Exit::NotRecoverable,
        VolumeError::Exists { .. }
        | VolumeError::InUse { .. }
        | VolumeError::Deposed { .. }
        | VolumeError::Removing { .. }
        | VolumeError::ReadOnly { .. } => Exit::Refused,
        _ => Exit::Io,
    }
}

fn of_gate(error: &GateError) -> Exit {
    match error.code {
        Code::InvalidAccessKeyId => Exit::NotFound,
        Code::InvalidBucketName => Exit::Usage,
        _ => Exit::Io,
    }
}

fn of_pool(error: &PoolError) -> Exit {
    match error {
        PoolError::NoObject { .. } | PoolError::NotFound { .. } => return Exit::NotFound,
        PoolError::NoKey { .. } | PoolError::NoDataKey { .. } => return Exit::WrongKey,
        PoolError::Store(error) => return of_store(error),
        PoolError::Input { source } | PoolError::Output { source } => return of_file(source),
        _ => {}
    }
    match error.kind() {
        ErrorKind::Usage => Exit::Usage,
        ErrorKind::NotRecoverable => Exit::NotRecoverable,
        ErrorKind::Io => Exit::Io,
        ErrorKind::Refused => Exit::Refused,
    }
}

/// Exit code for a place that cannot be used.
pub fn of_store(error: &StoreError) -> Exit {
    match error {
        StoreError::Io { source, .. } => of_io(source),
        error if error.is_usage() => Exit::Usage,
        _ => Exit::Io,
    }
}

fn of_io(error: &io::Error) -> Exit {
    if error.kind() == WRONG_KEY { Exit::WrongKey } else { of_file(error) }
}

fn of_file(error: &io::Error) -> Exit {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Exit::NotPermitted,
        _ => Exit::Io,
    }
}
