//! The shard format, version 1; see `docs/reference/formats.md` for every byte.
//!
//! `info` is the record in header and trailer, `layout` the arithmetic of where things lie,
//! `table` the checksum tables; `writer` and `reader` move bytes, `rebuild` is how a lost shard is
//! written again.

pub mod layout;
pub mod info;
mod table;
pub mod reader;
pub mod writer;
pub mod rebuild;
