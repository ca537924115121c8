//! Logs: files that are written in place, over and over, by one writer who can be deposed.
//!
//! Shards and manifests never change; a log does nothing else. It has its full length from the
//! start, so that a sync writes the bytes and no metadata, and it is written again from its
//! beginning when its end is reached. Who wants to write where another one did closes the other
//! one's log, reads it, and makes one of its own: see
//! [`Logs::create_log`](crate::Logs::create_log).

use crate::Result;

/// Most bytes of a log: whoever takes it over reads it as a whole, and agents make no longer ones.
pub const MAX_LOG: u64 = 1 << 30;

/// A log that its writer holds open.
pub trait LogFile: Send {
    /// Bytes, as they were asked for.
    fn len(&self) -> u64;

    /// Returns whether nothing can be written to it.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes bytes at an offset; all of them must lie within the log.
    /// Errors: [`StoreError::Truncated`](crate::StoreError::Truncated) past the end; what the place
    /// says.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Makes all that was written durable, and makes sure that the log is still this writer's: what
    /// was written before a sync that succeeds is read by everybody who closes the log later.
    /// Errors: [`StoreError::is_fenced`](crate::StoreError::is_fenced): somebody closed it. An
    /// error here is final.
    fn sync(&mut self) -> Result<()>;
}
