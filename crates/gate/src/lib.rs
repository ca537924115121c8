//! An S3 server over a pool of kiln.
//!
//! Buckets, objects, uploads in parts and access keys are objects of the pool below `.s3/`: there
//! is no other state, so servers over one pool are equal, and none is lost with its machine. An
//! object of a bucket is a record that names its data; small objects have it behind the record. Of
//! several writers of one object one succeeds, by the pool's own commits.
//!
//! | file | holds |
//! |---|---|
//! | `signature`, `payload` | whether a request, and each byte of it, is its sender's |
//! | `gate` | the pool: records replaced over what was seen, data, names in order |
//! | `bucket`, `object`, `multipart`, `listing` | what S3 does, as blocking calls |
//! | `calls` | S3's operations: a verified request in, an answer out |
//! | `server` | connections, threads, limits |
#![forbid(unsafe_code)]

mod error;
mod names;
mod record;
mod digest;
mod times;
mod request;
mod version2;
mod signature;
mod payload;
mod xml;
mod reply;
mod gate;
mod access;
mod policy;
mod lock;
mod bucket;
mod object;
mod versions;
mod listing;
mod multipart;
mod lifecycle;
mod cors;
mod sweep;
mod calls;
mod server;
#[cfg(feature = "hostile")]
pub mod hostile;

pub use access::{ANY_BUCKET, AccessKey, Right, Secret};
pub use bucket::Bucket;
pub use error::{Code, GateError, Result};
pub use gate::{Gate, Reopen, may_pass};
pub use names::OBJECTS;
pub use object::Conditions;
pub use server::{Counts, Limits, Server};
