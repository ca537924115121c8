//! Errors of the pool as the numbers that applications know.

use std::io;

use fuser::Errno;
use kiln_stripe::PoolError;

use crate::print::warning_line;

/// A request that is not done.
pub struct Refusal(pub Errno);

pub type Result<T = (), E = Refusal> = std::result::Result<T, E>;

/// Refuses with a number.
pub fn refuse<T>(code: Errno) -> Result<T> {
    Err(Refusal(code))
}

impl From<PoolError> for Refusal {
    fn from(error: PoolError) -> Refusal {
        let code = match &error {
            PoolError::NoObject { .. } => return Refusal(Errno::ENOENT),
            PoolError::Exists { .. } => return Refusal(Errno::EEXIST),
            PoolError::Conflict { .. } => Errno::ESTALE,
            PoolError::Full { .. } => Errno::ENOSPC,
            PoolError::Store(error) if error.is_full() => Errno::ENOSPC,
            PoolError::Usage { .. } => Errno::EINVAL,
            PoolError::Refused { .. } => Errno::EPERM,
            PoolError::Locked { .. } => Errno::EBUSY,
            PoolError::Input { source } | PoolError::Output { source } => code(source),
            _ => Errno::EIO,
        };
        // The number alone does not say which node it was.
        warning_line(&error.to_string());
        Refusal(code)
    }
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Refusal {
        Refusal(code(&error))
    }
}

impl From<Refusal> for io::Error {
    fn from(Refusal(code): Refusal) -> io::Error {
        io::Error::from_raw_os_error(code.code())
    }
}

fn code(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_i32)
}
