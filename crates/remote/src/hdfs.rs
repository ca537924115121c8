//! Folders of HDFS as places for shards: `hdfs://namenode/path`.
//!
//! A place is a folder, a file a file of it with replication 1; with `?datanode=` each file is on
//! that DataNode, which is looked at. All is asked for by WebHDFS, the HTTP interface that every
//! HDFS has. `docs/guide/hdfs.md` is about its use, the crate's `DESIGN.md` about its safety.
//!
//! ```
//! use kiln_remote::hdfs::Folders;
//! use kiln_store::{BackendKind, Opening, open_place};
//! let kinds = [&Folders as &dyn BackendKind];
//! let error = open_place(&kinds, "hdfs:///x".as_ref(), Opening::default()).unwrap_err();
//! assert!(error.is_usage() && error.to_string().contains("NameNode"));
//! ```

mod known;
mod place;
mod reply;
mod client;
mod operations;
mod blocks;
mod read;
mod stream;
mod write;
mod lease;
mod moved;
mod backend;

use kiln_store::{Backend, BackendKind, Location, Opening, Result};
use std::sync::Arc;

pub use backend::FolderBackend;

/// The row of the table of places; see [`BackendKind`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Folders;

impl BackendKind for Folders {
    fn examples(&self) -> &'static [&'static str] {
        &["hdfs://namenode/path"]
    }

    fn about(&self) -> &'static str {
        "a folder of HDFS, by WebHDFS; ?datanode=host keeps its files on that DataNode"
    }

    fn open(&self, place: &Location<'_>, how: Opening) -> Result<Arc<dyn Backend>> {
        Ok(Arc::new(match how.confined {
            true => FolderBackend::open_to_serve(place)?,
            false => FolderBackend::open(place)?,
        }))
    }
}
