//! What the clients of stores over HTTP (`kiln-s3`, `kiln-hdfs`) have in common: a fence before
//! writes, tries with pauses, bodies of a known length, options of a place, percent-encoding.
//!
//! What a store's requests mean is left to its own crate.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod fence;
mod http;
mod text;
mod tries;
mod wait;

pub use fence::{Fence, Fenced, LEASE, LOCK, MAX_LOCK, RENEW, holder, holder_said};
pub use http::{agent, fill, length};
pub use text::{encoded, options, patience};
pub use tries::{DEADLINE, TRIES, Tries, random};
pub use wait::{lock_now_or, lock_within};
