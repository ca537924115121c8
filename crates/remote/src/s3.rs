//! Buckets of S3 servers as places for shards: `s3://bucket/prefix`.
//!
//! A place is what is under a prefix of a bucket; a file is an object. `docs/guide/s3.md` is about
//! its use, `crates/pool/DESIGN.md` about the safety of pools there.
//!
//! ```
//! use kiln_remote::s3::Buckets;
//! use kiln_store::{BackendKind, Opening, open_place};
//! let kinds = [&Buckets as &dyn BackendKind];
//! let error = open_place(&kinds, "s3://UPPER/x".as_ref(), Opening::default()).unwrap_err();
//! assert!(error.is_usage() && error.to_string().contains("bucket"));
//! ```

mod date;
mod place;
mod reply;
mod settings;
mod client;
mod read;
mod upload;
mod lease;
mod backend;

use kiln_store::{Backend, BackendKind, Location, Opening, Result};
use std::sync::Arc;

pub use backend::BucketBackend;

/// The row of the table of places; see [`BackendKind`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Buckets;

impl BackendKind for Buckets {
    fn examples(&self) -> &'static [&'static str] {
        &["s3://bucket/prefix"]
    }

    fn about(&self) -> &'static str {
        "objects in a bucket of an S3 server; ?endpoint=http://host:port for others than AWS"
    }

    fn open(&self, place: &Location<'_>, opening: Opening) -> Result<Arc<dyn Backend>> {
        let bucket = BucketBackend::open(place)?;
        Ok(Arc::new(if opening.confined { bucket.for_agent() } else { bucket }))
    }
}
