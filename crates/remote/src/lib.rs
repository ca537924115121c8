//! Common parts of the clients of stores over HTTP (`kiln-s3`, `kiln-hdfs`): a fence before
//! writes, tries with pauses, bodies of a known length, options of a place, percent-encoding.
//!
//! The meaning of a store's requests is left to its own crate.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod fence;
mod http;
mod progress;
mod text;
mod tries;
mod wait;

pub use fence::{Fence, Fenced, LEASE, LOCK, MAX_LOCK, RENEW, holder, holder_said};
pub use http::{agent, fill, length};
pub use progress::Progress;
pub use text::{encoded, io_error, is_plain_path, options, patience};
pub use tries::{DEADLINE, TRIES, Tries, random};
pub use wait::{lock_now_or, lock_within};
